"""The published MiniLM in the course's own encoder against the same weights in `transformers`' BertModel."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most
from tests.benchmarks.timing import cost_ratio
from utils.build.downloads import MINILM, fetch
from utils.models.bert import LONGEST, Bert, PieceSplitter, load_minilm

SHAPES = ((1, 12), (16, 24), (32, 64))
# To compare on: short and long, of several scripts, and with everything that a splitter may stumble over.
SENTENCES = (
    "",
    " ",
    "\t\n",
    "a",
    "Watch",
    "Hello!",
    ".",
    "?!?!...",
    "The cat sat on the mat.",
    "THE CAT SAT ON THE MAT.",
    "She winds her watch every evening before she goes to bed.",
    "We watch the birds from the window.",
    "It's 5 o'clock, isn't it? I can't, won't and shouldn't've come.",
    "state-of-the-art, ready-made; half-baked: well-known",
    "Prices rose by 3.7 % to $1,234,567.89 in 2019.",
    "0123456789 00000000000000000000000000000000",
    "e = mc^2, and f(x) = x**2 + 2*x + 1",
    "def add(a, b):\n    return a + b\n",
    "https://example.org/path?query=1&other=two#part",
    "someone@example.org",
    "C:\\folder\\file.txt",
    "naïve café, résumé, Zürich, Ångström, señor, façade",
    "nai\u0308ve cafe\u0301",  # the marks as signs of their own
    "Straße Fuß GROẞ",
    "İstanbul ışık",
    "Ελληνικά κείμενο",
    "русский текст",
    "日本語の文章です。",
    "東京 is a city; 北京 is another.",
    "한국어 문장",
    "नमस्ते दुनिया",
    "مرحبا بالعالم",
    "שלום עולם",
    "ภาษาไทย",
    "😀 🎉 👩‍👩‍👧‍👦 🇫🇷",
    "zero\u200bwidth and non\u00a0breaking and soft\u00adhyphen",
    "control\x00sign\x07s and \ufffd",
    "“curly” ‘quotes’ — dash … dots «guillemets»",
    "½ ² ³ ™ © ® € £ ¥",
    "ﬁne ligatures and ｆｕｌｌ width",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 99,
    "x" * 101,  # more than the hundred letters that the splitter takes for a word
    "qzxjk vbnmw plokij",
    "[CLS] [SEP] [MASK] [PAD] [UNK]",
    "The capital of France is [MASK].",
    "##ing ##s un##able",
    "one  two   three    four",
    "line one\nline two\r\nline three",
    "The trophy is heavy because it is made of gold, and the shelf is thin because it is made of pine.",
    "The old man the boat.",
    "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo.",
    " ".join(["A long sentence goes on and on,"] * 12),
    " ".join(["word"] * (LONGEST - 2)),  # as long as may be
    " ".join(["word"] * (LONGEST - 1)),
    " ".join(["unbelievable stories, told at length, by many people"] * 60),
)


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


# The same numbers


def batches():
    """Sentences of unlike length side by side, so that nearly all are padded, and some far."""
    longest, others = SENTENCES[-4:], SENTENCES[:-4]
    return [*(others[start::6] for start in range(6)), (others[3], *longest, others[8])]


@torch.no_grad()
def hidden_states(ours: Bert, theirs: nn.Module, splitter: PieceSplitter) -> list[tuple[Tensor, Tensor]]:
    """What both say after the embeddings and after each layer, (pieces, dim) each: of all real pieces, in padded batches."""
    found: list[list[tuple[Tensor, Tensor]]] = []
    for texts in batches():
        batch = splitter.batch(texts)
        states, _ = ours.hidden_states(batch.numbers, batch.real)
        others = theirs(batch.numbers, attention_mask=batch.real.long(), output_hidden_states=True).hidden_states
        found.append([(one[batch.real], other[batch.real]) for one, other in zip(states, others, strict=True)])
    return [tuple(map(torch.cat, zip(*layer, strict=True))) for layer in zip(*found, strict=True)]


def bert_parity() -> dict:
    """How far the two are apart in the numbers of all layers, in single and in double precision, over `SENTENCES`.

    largest: the largest difference of two numbers, layer by layer; above: the share of numbers that differ by more than 1e-5.
    """
    real, theirs = load_minilm(fetch(MINILM)), their_bert()
    single = hidden_states(real.bert, theirs, real.splitter)
    double = hidden_states(copy.deepcopy(real.bert).double(), copy.deepcopy(theirs).double(), real.splitter)
    off, fine = ([(one - other).abs() for one, other in both] for both in (single, double))
    return {
        "sentences": len(SENTENCES),
        "numbers": sum(one.numel() for one in off),
        "above": torch.cat([(one > 1e-5).flatten() for one in off]).double().mean().item(),
        "largest": [float(f"{one.max().item():.1e}") for one in off],
        "largest_in_double": [float(f"{one.max().item():.1e}") for one in fine],
        "close": all(torch.allclose(one, other, rtol=1e-5, atol=1e-5) for one, other in single),
    }


# What is shown


def show_speed(result: dict) -> Shown:
    return Shown(
        "MiniLM in the course's encoder: speed",
        f"Speedup over `BertModel` of `transformers` with the same weights; geometric mean {result['geometric_mean']:.2f}x.",
        ("sentences x tokens", "speedup"),
        [(f"{row['sentences']} x {row['pieces']}", f"{row['speed']:.2f}x") for row in result["rows"]],
        [at_least("MiniLM, speedup over `BertModel`, geometric mean", result["geometric_mean"], 1.1, "x")],
    )


def show_parity(result: dict) -> Shown:
    layers = zip(result["largest"], result["largest_in_double"], strict=True)
    return Shown(
        "MiniLM in the course's encoder: parity",
        f"Largest absolute difference from the hidden states of `BertModel`, over {result['sentences']} texts in padded batches ({result['numbers']:,} values).",
        ("after", "single precision", "double precision"),
        [
            (f"layer {n}" if n else "embeddings", f"{single:.1e}", f"{double:.1e}")
            for n, (single, double) in enumerate(layers)
        ],
        [at_most("share of hidden-state values that differ from `BertModel` by more than 1e-5", result["above"], 1e-5)],
    )


BENCHMARKS = (
    Benchmark(
        "bert_speed", "08", bert_speed, show_speed, {"shapes": ((16, 24),), "rounds": 7}, packages=("transformers",)
    ),
    Benchmark("bert_parity", "08", bert_parity, show_parity, packages=("transformers", "tokenizers")),
)
