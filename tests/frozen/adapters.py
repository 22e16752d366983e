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
from utils.models.bert import load_minilm
from utils.models.language import CausalLM, MaskedLM
from utils.models.llama import load_smollm2, write
from utils.models.memory import MemoryNetwork, bag_of_words
from utils.models.recurrent import Seq2Seq
from utils.models.transformer import Transformer
from utils.training import memory as memory_training

Batch = dict[str, Tensor]
Trainable = tuple[list[nn.Parameter], Callable[[Batch], Tensor]]
PADDING, NOT_ASKED = 0, -100
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
    "map": "proj",
    "from_state": "hidden_proj",
    "from_memory": "memory_proj",
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
        by_number = memory_training.numbered(stories, model)

        def for_all(tensor: Tensor) -> Tensor:
            return tensor.expand(len(model.embeddings), *tensor.shape)

        place = memory_training.places(by_number.story, age, model, len(by_number.counts))
        mask = memory_training.as_mask(mask, linear).double()
        logits, _ = memory_training.logits_and_weights(
            model, by_number.counts, for_all(place), for_all(by_number.question), for_all(mask), linear
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
    model = Transformer(**settings)
    model.load_state_dict(weights)
    return trainable(model, _translation_loss(model))


def _translation_loss(model: nn.Module) -> Callable[[Batch], Tensor]:
    def loss(batch: Batch) -> Tensor:
        logits = model(batch["source"], batch["source_mask"], batch["target_in"])[0]
        return F.cross_entropy(logits.flatten(0, 1), batch["target_out"].flatten(), ignore_index=PADDING)

    return loss


def masked_lm(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    return _language_model(MaskedLM(**settings), weights)


def causal_lm(settings: dict, weights: dict[str, Tensor]) -> Trainable:
    return _language_model(CausalLM(**settings), weights)


def _language_model(model: nn.Module, weights: dict[str, Tensor]) -> Trainable:
    model.load_state_dict(weights)

    def loss(batch: Batch) -> Tensor:
        logits = model(batch["inputs"], batch["mask"])
        return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten(), ignore_index=NOT_ASKED)

    return trainable(model, loss)


# The published models


def minilm_hidden_states(folder: Path, sentences: list[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Token ids (b, n), the padding mask (b, n) and the last hidden states (b, n, dim) of one padded batch, in float64."""
    encoder = load_minilm(folder)
    encoder.bert.double()
    hidden = encoder.hidden_states(sentences)
    return hidden.numbers, hidden.real, hidden.states[-1]


def smollm2_next_and_greedy(folder: Path, prompts: list[str], count: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """For each prompt its token ids, the logits of the next token, and the `count` tokens of greedy decoding."""
    decoder = load_smollm2(folder)
    found = []
    for prompt in prompts:
        token_ids = decoder.splitter.encode(prompt)
        with torch.no_grad():
            logits = decoder.model(torch.tensor([token_ids]))[0, -1]
        written = list(write(decoder.model, token_ids, count, temperature=0.0))
        found.append((torch.tensor(token_ids), logits, torch.tensor(written)))
    return found
