"""MiniLM in `EncoderModel` against the same weights in `BertModel` of `transformers`: speed and parity."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least, at_most
from tests.benchmarks.timing import cost_ratio
from utils.build.downloads import MINILM, fetch
from utils.models.language_models import EncoderModel
from utils.models.pretrained import MINILM_MAX_LEN, WordPieceTokenizer, load_minilm

SHAPES = ((1, 12), (16, 24), (32, 64))
# Short and long texts, several scripts, and edge cases of tokenization.
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
    "nai\u0308ve cafe\u0301",  # combining characters
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
    "x" * 101,  # WordPiece takes words of up to 100 characters
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
    " ".join(["word"] * (MINILM_MAX_LEN - 2)),  # exactly max_len
    " ".join(["word"] * (MINILM_MAX_LEN - 1)),
    " ".join(["unbelievable stories, told at length, by many people"] * 60),
)


def bert_speed(shapes: Sequence[tuple[int, int]] = SHAPES, rounds: int = 31, threads: int = 1) -> dict:
    """Speedup of inference over `BertModel`, for each (sentences, tokens) and as their geometric mean.

    Both models take the same token ids without padding, in turns, in one process. Their outputs are compared first.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model, reference = load_minilm(fetch(MINILM)).model, reference_bert()
        rows = [_row(model, reference, shape, rounds) for shape in shapes]
    finally:
        torch.set_num_threads(before)
    mean = math.exp(sum(math.log(row["speed"]) for row in rows) / len(rows))
    return {"threads": threads, "rows": rows, "geometric_mean": round(mean, 2)}


def reference_bert(**options) -> nn.Module:
    """`BertModel` with the published weights; needs the package `transformers`, which the course itself does not."""
    from transformers import BertModel
    from transformers.utils import logging

    logging.disable_progress_bar()
    return BertModel.from_pretrained(fetch(MINILM), **options).eval()


@torch.no_grad()
def _row(model: EncoderModel, reference: nn.Module, shape: tuple[int, int], rounds: int) -> dict:
    generator = torch.Generator().manual_seed(0)
    token_ids = torch.randint(1000, model.config.vocab_size, shape, generator=generator)
    mask = torch.ones(shape, dtype=torch.bool)
    reference_mask = mask.long()

    def run_model() -> Tensor:
        return model(token_ids, mask)

    def run_reference() -> Tensor:
        return reference(token_ids, attention_mask=reference_mask).last_hidden_state

    difference = (run_model() - run_reference()).abs().max().item()
    if not difference < 1e-4:
        raise AssertionError(f"expected equal hidden states, got a difference of {difference:.1e}")
    speed = 1 / cost_ratio(run_model, run_reference, rounds)
    return {"sentences": shape[0], "tokens": shape[1], "speed": round(speed, 3)}


# Parity


def batches() -> list[tuple[str, ...]]:
    """Batches of sentences of different lengths, so that nearly all are padded, some by a lot."""
    longest, others = SENTENCES[-4:], SENTENCES[:-4]
    return [*(others[start::6] for start in range(6)), (others[3], *longest, others[8])]


@torch.no_grad()
def hidden_states(
    model: EncoderModel, reference: nn.Module, tokenizer: WordPieceTokenizer
) -> list[tuple[Tensor, Tensor]]:
    """Hidden states (tokens, dim) of both models after the embedding and each layer: all tokens of `batches`, no padding."""
    pairs: list[list[tuple[Tensor, Tensor]]] = []
    for texts in batches():
        batch = tokenizer.batch(texts)
        mask = batch.attention_mask
        states, _ = model.hidden_states(batch.token_ids, mask)
        expected = reference(batch.token_ids, attention_mask=mask.long(), output_hidden_states=True).hidden_states
        pairs.append([(state[mask], want[mask]) for state, want in zip(states, expected, strict=True)])
    return [tuple(map(torch.cat, zip(*layer, strict=True))) for layer in zip(*pairs, strict=True)]


def bert_parity() -> dict:
    """Differences between the hidden states of the two models over `SENTENCES`, in single and in double precision.

    largest: the largest absolute difference, layer by layer; above: the fraction of values that differ by more than 1e-5.
    """
    minilm, reference = load_minilm(fetch(MINILM)), reference_bert()
    single = hidden_states(minilm.model, reference, minilm.tokenizer)
    double = hidden_states(copy.deepcopy(minilm.model).double(), copy.deepcopy(reference).double(), minilm.tokenizer)
    errors, double_errors = ([(state - want).abs() for state, want in pairs] for pairs in (single, double))
    return {
        "sentences": len(SENTENCES),
        "numbers": sum(error.numel() for error in errors),
        "above": torch.cat([(error > 1e-5).flatten() for error in errors]).double().mean().item(),
        "largest": [float(f"{error.max().item():.1e}") for error in errors],
        "largest_in_double": [float(f"{error.max().item():.1e}") for error in double_errors],
        "close": all(torch.allclose(state, want, rtol=1e-5, atol=1e-5) for state, want in single),
    }


# Tables


def show_speed(result: dict) -> Shown:
    return Shown(
        "MiniLM in the course's encoder: speed",
        f"Speedup over `BertModel` of `transformers` with the same weights; geometric mean {result['geometric_mean']:.2f}x.",
        ("sentences x tokens", "speedup"),
        [(f"{row['sentences']} x {row['tokens']}", f"{row['speed']:.2f}x") for row in result["rows"]],
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
