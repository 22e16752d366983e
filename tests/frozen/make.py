"""Export weights and results of the first edition: `python -m tests.frozen.make` on a checkout of commit 15c0e64.

It writes every file anew, so it is not to be run on later code: that would freeze whatever that code does.
"""

import torch
from torch import Tensor, nn

from tests.frozen import Frozen, adapters, double_precision, training_losses, write
from utils.course.box_list import MINILM, SMOLLM2
from utils.course.boxes import fetch
from utils.data.bpe import CLS_ID, MASK_ID, SENTINEL_IDS, SPECIAL_TOKENS
from utils.exercises.solutions import lesson02
from utils.models.language import CausalLM, MaskedLM
from utils.models.memory import MemoryNetwork
from utils.models.seq2seq import Seq2Seq
from utils.models.transformer import Transformer
from utils.training.pretraining import corrupt_spans, mask_tokens
from utils.training.trainer import IGNORE_INDEX

WORDS, TOKENS = 18, 40
SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "Attention is all you need.",
    "A bank by the river.",
    "Hello!",
]
PROMPTS = [
    "The capital of France is",
    "def add(a, b):\n    return",
    "Once upon a time, there was a little girl who",
]
TOP, WRITTEN = 16, 24


def random_words(shape: tuple[int, ...], first: int, words: int, seed: int) -> Tensor:
    return torch.randint(first, words, shape, generator=torch.Generator().manual_seed(seed))


def behind(lengths: list[int], longest: int) -> Tensor:
    """A mask (b, longest), True at the first tokens of each row."""
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


# Batches


def stories() -> dict[str, Tensor]:
    """Six questions, seven memories, five words a sentence; -1 stands for no word."""
    mask = behind([7, 5, 3, 7, 1, 6], 7)
    story = random_words((6, 7, 5), 0, WORDS, 1).masked_fill(~behind([5, 3, 4, 5, 2, 4, 5], 5), -1)
    question = random_words((6, 5), 0, WORDS, 2).masked_fill(~behind([5, 5, 3, 4, 2, 5], 5), -1)
    answer = random_words((6,), 0, WORDS, 3)
    return {"story": story.masked_fill(~mask[..., None], -1), "question": question, "answer": answer, "mask": mask}


def translations() -> dict[str, Tensor]:
    """Four pairs; 0 is padding, 1 the start, 2 the end."""
    mask = behind([7, 4, 6, 2], 7)
    source = random_words((4, 7), 3, WORDS, 4).masked_fill(~mask, adapters.PADDING)
    lengths = [5, 6, 3, 2]
    target = random_words((4, 7), 3, WORDS, 5).masked_fill(~behind(lengths, 7), adapters.PADDING)
    target_in = torch.cat([torch.ones(4, 1, dtype=torch.long), target[:, :-1]], 1)
    target_out = target.clone()
    target_out[torch.arange(4), torch.tensor(lengths)] = 2
    return {"source": source, "source_mask": mask, "target_in": target_in, "target_out": target_out}


def masked() -> dict[str, Tensor]:
    real = behind([12, 9, 12, 5], 12)
    tokens = random_words((4, 12), len(SPECIAL_TOKENS), TOKENS, 6).masked_fill(~real, 0)
    inputs, targets, _ = mask_tokens(tokens, real, MASK_ID, TOKENS, 0.3, torch.Generator().manual_seed(7))
    return {"inputs": inputs, "mask": real, "targets": targets}


def causal() -> dict[str, Tensor]:
    real = behind([12, 9, 12, 5], 12)
    tokens = random_words((4, 13), len(SPECIAL_TOKENS), TOKENS, 8)
    return {"inputs": tokens[:, :-1], "mask": real, "targets": tokens[:, 1:].masked_fill(~real, IGNORE_INDEX)}


def spans() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(9)
    tokens = random_words((4, 12), len(SPECIAL_TOKENS), TOKENS, 10)
    pairs = [corrupt_spans(row, SENTINEL_IDS, 0.5, 2.0, generator) for row in tokens]
    source, target = (torch.stack(side) for side in zip(*pairs, strict=True))
    target_in = torch.cat([torch.full_like(target[:, :1], CLS_ID), target[:, :-1]], 1)
    return {
        "source": source,
        "source_mask": torch.ones_like(source, dtype=torch.bool),
        "target_in": target_in,
        "target_out": target,
    }


# Models


def make(name: str, model_class: type[nn.Module], settings: dict, batch: dict[str, Tensor], **results) -> None:
    """Freeze fresh weights, the batch, and for each result the losses of an adapter (with its own options)."""
    torch.manual_seed(0)
    model = model_class(**settings)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    losses = {}
    for result, (adapter, options) in results.items():
        parameters, loss = adapter(settings, weights, **options)
        losses[result] = training_losses(parameters, lambda loss=loss: loss(batch))
    write(name, Frozen(settings, weights, batch, losses))
    print(name, {key: f"{value[0].mean():.4f} to {value[-1].mean():.4f}" for key, value in losses.items()})


def make_models() -> None:
    settings = {"words": WORDS, "hops": 3, "dim": 8, "memory": 10, "sentence": 5}
    make("memory_network", lesson02.MemoryNetwork, settings, stories(), losses=(adapters.lesson_memory_network, {}))
    for tying in ("adjacent", "layer-wise"):
        settings = {"words": WORDS, "hops": 3, "dim": 8, "memory": 10, "tying": tying, "seeds": [3, 4]}
        both = {
            f"{what}{', linear' * linear}": (adapter, {"linear": linear})
            for what, adapter in (
                ("module", adapters.memory_networks),
                ("training", adapters.numbered_memory_networks),
            )
            for linear in (False, True)
        }
        make(f"memory_networks_{tying.replace('-', '_')}", MemoryNetwork, settings, stories(), **both)
    for score in (None, "dot", "multiplicative", "additive"):
        settings = {"source_words": WORDS, "target_words": WORDS, "score": score, "width": 12}
        name = f"translator_{score or 'no_attention'}"
        make(name, Seq2Seq, settings, translations(), losses=(adapters.recurrent_translator, {}))
    small = {"dim": 12, "heads": 3, "hidden": 20, "layers": 2, "dropout": 0.0}
    for norm in ("pre", "post"):
        settings = {"source_words": WORDS, "target_words": WORDS, "norm": norm, **small}
        make(f"transformer_{norm}", Transformer, settings, translations(), losses=(adapters.transformer, {}))
    make("masked_lm", MaskedLM, {"pieces": TOKENS, **small}, masked(), losses=(adapters.masked_lm, {}))
    make("causal_lm", CausalLM, {"pieces": TOKENS, **small}, causal(), losses=(adapters.causal_lm, {}))
    settings = {"source_words": TOKENS, "target_words": TOKENS, "norm": "pre", "tied": "all", "activation": "gelu"}
    make("span_model", Transformer, {**settings, **small}, spans(), losses=(adapters.transformer, {}))


def make_published() -> None:
    with double_precision():
        numbers, real, states = adapters.minilm_hidden_states(fetch(MINILM), SENTENCES)
    rows = torch.cat([row[mask] for row, mask in zip(states, real, strict=True)])  # padding is nobody's business
    results = {"token_ids": numbers, "mask": real, "hidden_states": rows.float()}
    write("minilm", Frozen({"sentences": SENTENCES}, {}, {}, results))
    results = {}
    for number, found in enumerate(adapters.smollm2_next_and_greedy(fetch(SMOLLM2), PROMPTS, WRITTEN)):
        token_ids, logits, written = found
        top = logits.topk(TOP)
        results |= {
            f"token_ids/{number}": token_ids,
            f"top/{number}": top.indices,
            f"logits/{number}": top.values,
            f"greedy/{number}": written,
        }
    write("smollm2", Frozen({"prompts": PROMPTS, "count": WRITTEN}, {}, {}, results))


if __name__ == "__main__":
    with double_precision():
        make_models()
    torch.set_num_threads(1)
    make_published()
