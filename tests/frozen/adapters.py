"""Today's models from the frozen weights: the only file to change when classes, parameters or arguments get other names.

An adapter takes settings and weights under the names of the first edition, and gives the parameters to train and a function
from the frozen batch to the loss. The optimizer, the steps and the tolerance are no business of an adapter.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.story_tensors import Stories
from utils.exercises.solutions import lesson02
from utils.models.decoding import generate
from utils.models.language_models import CausalLM, EncoderConfig, MaskedLM
from utils.models.memory import MemoryNetwork, bag_of_words
from utils.models.pretrained import load_minilm, load_smollm2
from utils.models.recurrent import Seq2Seq
from utils.models.transformer import Transformer
from utils.training import memory as memory_training

Batch = dict[str, Tensor]
Trainable = tuple[list[nn.Parameter], Callable[[Batch], Tensor]]
PADDING, IGNORE_INDEX = 0, -100

# Names of the first edition, and what they are called now.
ARGUMENTS = {
    "source_words": "source_vocab_size",
    "target_words": "target_vocab_size",
    "pieces": "vocab_size",
    "heads": "num_heads",
    "hidden": "hidden_dim",
    "layers": "num_layers",
}
PARAMETERS = (
    ("source_vectors.table.", "source_embedding.token_embedding."),
    ("target_vectors.table.", "target_embedding.token_embedding."),
    ("words.table.", "embedding.token_embedding."),
    ("output.weight", "lm_head.weight"),
    ("self_attention.", "self_attn."),
    ("cross_attention.", "cross_attn."),
    (".attention.", ".self_attn."),
    ("project.", "in_proj."),
    ("mix.", "out_proj."),
    ("widen.", "linear1."),
    ("narrow.", "linear2."),
    ("attention_norm.", "norm1."),
    ("self_norm.", "norm1."),
    ("cross_norm.", "norm2."),
    ("final_norm.", "norm."),
    (".gain", ".weight"),
    (".shift", ".bias"),
)


def renamed_arguments(settings: dict) -> dict:
    settings = {ARGUMENTS.get(name, name): value for name, value in settings.items()}
    if "norm" in settings:
        settings["norm_first"] = settings.pop("norm") == "pre"
    return settings


def renamed_parameters(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    renamed = {}
    for name, value in weights.items():
        norm = "norm3." if name.startswith("decoder.") else "norm2."
        new_name = "lm_head.bias" if name == "bias" else name.replace("feed_forward_norm.", norm)
        for old, new in PARAMETERS:
            new_name = new_name.replace(old, new)
        renamed[new_name] = value
    return renamed


# Names of the first edition, and today's; of a parameter each part of its dotted name.
MEMORY_NETWORK = {
    "words": "vocab_size",
    "hops": "num_hops",
    "memory": "memory_size",
    "positions": "position_encoding",
    "tables": "embeddings",
    "ages": "temporal_embeddings",
    "between": "hop_proj",
    "slope": "component_weights",
}
LESSON_MEMORY_NETWORK = MEMORY_NETWORK | {"sentence": "max_len", "weights": "position_weights"}
SEQ2SEQ = {
    "source_words": "source_vocab_size",
    "target_words": "target_vocab_size",
    "width": "hidden_size",
    "embed": "embedding",
    "layer": "rnn",
    "map": "W",
    "from_state": "W",
    "from_memory": "U",
    "weigh": "v",
}


def trainable(model: nn.Module, loss: Callable[[Batch], Tensor]) -> Trainable:
    return [parameter for parameter in model.parameters() if parameter.numel()], loss


def renamed(values: dict, names: dict[str, str]) -> dict:
    return {".".join(names.get(part, part) for part in name.split(".")): value for name, value in values.items()}


def lesson_memory_network(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    """The memory network as lesson 02 builds it."""
    model = lesson02.MemoryNetwork(**renamed(settings, LESSON_MEMORY_NETWORK))
    model.load_state_dict(renamed(weights, LESSON_MEMORY_NETWORK))

    def loss(batch: Batch) -> Tensor:
        logits, _ = model(batch["story"], batch["question"], batch["mask"])
        return F.cross_entropy(logits, batch["answer"])

    return trainable(model, loss)


def memory_networks(settings: dict, weights: dict[str, Tensor], linear: bool = False) -> Trainable:
    """Several seeds in one module: (seeds,) losses. `linear` leaves out the softmax of every hop."""
    model = _memory_networks(settings, weights)

    def loss(batch: Batch) -> Tensor:
        def for_all(tensor: Tensor) -> Tensor:
            return tensor.expand(len(model.embeddings), *tensor.shape)

        bags = (for_all(bag_of_words(batch[name], model.vocab_size).double()) for name in ("story", "question"))
        logits, _ = model(*bags, for_all(batch["mask"]), for_all(lesson02.temporal_index(batch["mask"])), linear)
        return _loss_of_each_seed(logits, batch["answer"])

    return trainable(model, loss)


def numbered_memory_networks(settings: dict, weights: dict[str, Tensor], linear: bool = False) -> Trainable:
    """The same networks as they are trained: every distinct sentence of a batch is encoded once."""
    model = _memory_networks(settings, weights)

    def loss(batch: Batch) -> Tensor:
        mask, age = batch["mask"], lesson02.temporal_index(batch["mask"])
        stories = Stories(batch["story"], batch["question"], batch["answer"], mask, age, mask, 0.0)
        sentences = memory_training.distinct_sentences(stories, model)

        def for_all(tensor: Tensor) -> Tensor:
            return tensor.expand(len(model.embeddings), *tensor.shape)

        index = memory_training.memory_index(sentences.story, age, model, len(sentences.counts))
        mask = memory_training.score_mask(mask, linear).double()
        logits, _ = memory_training.logits_and_weights(
            model, sentences.counts, for_all(index), for_all(sentences.question), for_all(mask), linear
        )
        return _loss_of_each_seed(logits, batch["answer"])

    return trainable(model, loss)


def _memory_networks(settings: dict, weights: dict[str, Tensor]) -> MemoryNetwork:
    model = MemoryNetwork(**renamed(settings, MEMORY_NETWORK))
    model.load_state_dict(renamed(weights, MEMORY_NETWORK))
    return model


def _loss_of_each_seed(logits: Tensor, answer: Tensor) -> Tensor:
    each = F.cross_entropy(logits.flatten(0, 1), answer.repeat(len(logits)), reduction="none")
    return each.view(len(logits), -1).mean(1)


def recurrent_translator(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    """Lesson 03: encoder and decoder with the final state as the only context vector, or with an attention score."""
    model = Seq2Seq(**renamed(settings, SEQ2SEQ))
    model.load_state_dict(renamed(weights, SEQ2SEQ))
    return trainable(model, _translation_loss(model))


def transformer(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    """Lesson 06's translator, and lesson 07's span corruption model."""
    model = Transformer(**renamed_arguments(settings))
    model.load_state_dict(renamed_parameters(weights))
    return trainable(model, _translation_loss(model))


def _translation_loss(model: nn.Module) -> Callable[[Batch], Tensor]:
    def loss(batch: Batch) -> Tensor:
        logits = model(batch["source"], batch["source_mask"], batch["target_in"])[0]
        return F.cross_entropy(logits.flatten(0, 1), batch["target_out"].flatten(), ignore_index=PADDING)

    return loss


def masked_lm(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    return _language_model(MaskedLM(EncoderConfig(**renamed_arguments(settings))), weights)


def causal_lm(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    return _language_model(CausalLM(EncoderConfig(**renamed_arguments(settings))), weights)


def _language_model(model: nn.Module, weights: dict[str, Tensor]) -> Trainable:
    weights = renamed_parameters(weights)
    model.load_state_dict({**weights, "lm_head.weight": weights["embedding.token_embedding.weight"]})

    def loss(batch: Batch) -> Tensor:
        logits = model(batch["inputs"], batch["mask"])
        return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=IGNORE_INDEX)

    return trainable(model, loss)


# The published models


def minilm_hidden_states(folder: Path, sentences: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids (b, n), the padding mask (b, n) and the last hidden states (b, n, dim) of one padded batch, in float64."""
    encoder = load_minilm(folder)
    encoder.model.double()
    hidden = encoder.hidden_states(sentences)
    return hidden.token_ids, hidden.attention_mask, hidden.states[-1]


def smollm2_next_and_greedy(folder: Path, prompts: list[str], count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each prompt its token ids, the logits of the next token, and the `count` tokens of greedy decoding."""
    decoder = load_smollm2(folder)
    results = []
    for prompt in prompts:
        token_ids = decoder.tokenizer.encode(prompt)
        with torch.no_grad():
            logits = decoder.model(torch.tensor([token_ids]))[0, -1]
        generated = list(generate(decoder.model, token_ids, count, temperature=0.0))
        results.append((torch.tensor(token_ids), logits, torch.tensor(generated)))
    return results
