"""The published MiniLM in the course's own encoder against the same weights in `transformers`' BertModel."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tests.benchmarks.timing import cost_ratio
from utils.course.box_list import MINILM
from utils.course.boxes import fetch
from utils.models.bert import load_minilm

SHAPES = ((1, 12), (16, 24), (32, 64))


def bert_speed(shapes: Sequence[tuple[int, int]] = SHAPES, rounds: int = 31, threads: int = 1) -> dict:
    """How many times as many tokens a second ours reads, for each (sentences, pieces) and as their geometric mean.

    Both read the same numbers without gradients, one right after the other, in one process; no sentence is padded. Before
    the clock runs, the results are compared.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        ours, theirs = load_minilm(fetch(MINILM)).bert, their_bert()
        rows = [_row(ours, theirs, shape, rounds) for shape in shapes]
    finally:
        torch.set_num_threads(before)
    mean = math.exp(sum(math.log(row["speed"]) for row in rows) / len(rows))
    return {"threads": threads, "rows": rows, "geometric_mean": round(mean, 2)}


def their_bert() -> nn.Module:
    """BertModel with the published weights; needs the package `transformers`, which the course itself does not."""
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    return BertModel.from_pretrained(fetch(MINILM)).eval()


@torch.no_grad()
def _row(ours: nn.Module, theirs: nn.Module, shape: tuple[int, int], rounds: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(1000, ours.sizes.words, shape, generator=generator)
    real = torch.ones(shape, dtype=torch.bool)
    attention_mask = real.long()

    def run_ours() -> Tensor:
        return ours(numbers, real)[0]

    def run_theirs() -> Tensor:
        return theirs(numbers, attention_mask=attention_mask).last_hidden_state

    difference = (run_ours() - run_theirs()).abs().max().item()
    if not difference < 1e-4:
        raise AssertionError(f"expected both to compute the same, got a difference of {difference:.1e}")
    speed = 1 / cost_ratio(run_ours, run_theirs, rounds)
    return {"sentences": shape[0], "pieces": shape[1], "speed": round(speed, 3)}


if __name__ == "__main__":
    print(bert_speed())
