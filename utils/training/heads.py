"""Experiments on multi-head attention: a task that one head cannot solve, how much trained heads differ, head ablation.

All seeds of an experiment are trained at once, see `utils.training.seeds`. s seeds, b sequences, n tokens.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.phrase_words import ADJECTIVES, VERBS
from utils.data.phrases import LENGTHS, Pair, sentences
from utils.data.tokens import Vocabulary
from utils.models.attention import MultiHeadAttention, attention, merge_heads
from utils.models.language_models import parameter_count
from utils.models.layers import TransformerEncoder
from utils.models.positions import sinusoidal_positions
from utils.training.cache import cached
from utils.training.seeds import (
    draw_batches,
    model_training_steps,
    parameters_per_model,
    seed_list,
    stack_models,
    train_models,
)
from utils.training.trainer import warmup_stable_decay


def model_at(model: nn.Module, parameters: dict[str, Tensor], index: int) -> nn.Module:
    """`model` with the parameters of one seed. The same object each time: use it before the next call."""
    model.load_state_dict({name: parameter[index].detach() for name, parameter in parameters.items()})
    return model.eval()


# Two marked positions

NUM_LETTERS, LENGTH = 8, 8


class TwoPositions(nn.Module):
    """One attention layer that retrieves an ordered pair: the letter at mark 1 and the letter at mark 2.

    A learned query, the same for every sequence, attends to all positions; a linear layer predicts both letters.

    keys="marks": keys see only the marks and values only the letters. One head then returns p1 v(a) + p2 v(b) + rest with
    the same p1 and p2 for all letters, and cannot solve the task: the second letter of ab and ba needs p2 > p1, the first
    p1 > p2 (lesson 05 has the proof). keys="both": keys and values see the sum of letter and mark, as in any Transformer.
    Then one head can solve it, by encoding a letter in the size of an attention weight.

    query_init: "zeros", uniform attention at initialization, or "normal".
    """

    def __init__(self, num_heads: int, keys: str, query_init: str):
        super().__init__()
        self.keys, dim = keys, 32
        self.letter_embedding, self.mark_embedding = nn.Embedding(NUM_LETTERS, dim), nn.Embedding(3, dim)
        self.query = nn.Parameter(torch.zeros(dim) if query_init == "zeros" else torch.randn(dim))
        self.attention = MultiHeadAttention(dim, num_heads)
        self.classifier = nn.Linear(dim, 2 * NUM_LETTERS)

    def forward(self, letters: Tensor, marks: Tensor) -> tuple[Tensor, Tensor]:
        """letters and marks (b, n) to logits (b, 2, letters) and the attention weights (b, num_heads, n) of the query."""
        letter, mark = self.letter_embedding(letters), self.mark_embedding(marks)
        if self.keys == "both":
            letter = mark = letter + mark
        x = self.query.expand(*letters.shape[:-1], 1, -1)
        key, value = self.attention.project_memory(mark)[0], self.attention.project_memory(letter)[1]
        context, weights = attention(self.attention.project_query(x), key, value)
        logits = self.classifier((x + self.attention.out_proj(merge_heads(context))).squeeze(-2))
        return logits.unflatten(-1, (2, NUM_LETTERS)), weights.squeeze(-2)


def two_positions(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """letters (count, n); marks (count, n), one 1 and one 2 in each row of zeros; the ordered pair of letters (count, 2)."""
    letters = torch.randint(0, NUM_LETTERS, (count, LENGTH), generator=generator)
    positions = torch.rand(count, LENGTH, generator=generator).topk(2).indices
    marks = torch.zeros(count, LENGTH, dtype=torch.long).scatter(1, positions, torch.tensor([1, 2]).expand(count, 2))
    return letters, marks, letters.gather(1, positions)


@cached
def train_two_positions(
    num_heads: int,
    seeds: int | Sequence[int] = 5,
    *,
    keys: str = "marks",
    query_init: str = "zeros",
    steps: int = 150,
) -> dict:
    """Train `TwoPositions`. A prediction counts if both letters are correct, so chance is 1 in NUM_LETTERS squared.

    Returns for each seed: accuracy (s,) on 2000 new sequences and letter_accuracy (s, 2), of each letter alone; loss
    (steps, s); mark_weights (s, num_heads, 2), the mean attention weight of each head on mark 1 and on mark 2.
    """
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: TwoPositions(num_heads, keys, query_init), seeds)
    loss = train_models(model, parameters, draw_batches(two_positions, seeds, steps, batch_size=48), learning_rate=0.01)
    letters, marks, pairs = two_positions(2000, torch.Generator().manual_seed(77))
    correct, mark_weights = [], []
    with torch.no_grad():
        for index in range(len(seeds)):
            logits, weights = model_at(model, parameters, index)(letters, marks)
            correct.append(logits.argmax(-1) == pairs)
            on_marks = [(weights * (marks == mark).unsqueeze(1)).sum(-1).mean(0) for mark in (1, 2)]
            mark_weights.append(torch.stack(on_marks, -1))
    correct = torch.stack(correct)  # (s, 2000, 2)
    return {
        "accuracy": correct.all(-1).float().mean(1),
        "letter_accuracy": correct.float().mean(1),
        "chance": 1 / NUM_LETTERS**2,
        "loss": loss,
        "mark_weights": torch.stack(mark_weights),
        "parameters": parameters_per_model(parameters),
    }


# How much heads differ


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence (...,) of two distributions (..., n), in nats: from 0, equal, to log 2, disjoint."""
    entropy = torch.special.entr
    divergence = entropy((p + q) / 2).sum(-1) - (entropy(p).sum(-1) + entropy(q).sum(-1)) / 2
    return divergence.clamp_min(0)


def cka(x: Tensor, y: Tensor) -> Tensor:
    """Linear centered kernel alignment (CKA; Kornblith et al., 2019) of x (..., tokens, d) and y (..., tokens, e).

    1 if one is a rotated, translated or scaled copy of the other, 0 if no component of one is correlated with any of the other.
    """
    x, y = (features - features.mean(-2, keepdim=True) for features in (x, y))

    def alignment(x: Tensor, y: Tensor) -> Tensor:
        return (x.transpose(-2, -1) @ y).square().sum((-2, -1))

    return alignment(x, y) / (alignment(x, x) * alignment(y, y)).sqrt()


@dataclass(frozen=True)
class HeadOutputs:
    """The heads of one layer: weights (b, heads, n, n), context (b, heads, n, d), contribution (b, heads, n, dim).

    `contribution` is a head's context after its part of the output projection: summed over the heads, plus the bias, it is
    the output of the attention layer.
    """

    weights: Tensor
    context: Tensor
    contribution: Tensor


@torch.no_grad()
def head_outputs(encoder: TransformerEncoder, x: Tensor) -> list[HeadOutputs]:
    """`HeadOutputs` of each layer on x (b, n, dim)."""
    outputs = []
    for layer in encoder.layers:
        layer_attention = layer.self_attn
        context, weights = attention(*layer_attention.project(layer.before(layer.norm1, x)))
        out_proj = layer_attention.out_proj.weight.unflatten(-1, (layer_attention.num_heads, -1))  # (dim, heads, d)
        outputs.append(HeadOutputs(weights, context, context @ out_proj.permute(1, 2, 0)))
        x, _ = layer(x)
    return outputs


def compare_heads(outputs: HeadOutputs) -> dict[str, Tensor]:
    """For each pair of heads (pairs,), in the order 01, 02, ..., 12, ...: divergence of their attention weights, the mean
    of `jensen_shannon` over all tokens; cka of their contexts; cosine of their contributions, the mean over all tokens."""
    num_heads = outputs.weights.size(1)
    first, second = torch.triu_indices(num_heads, num_heads, 1)
    weights, contribution = outputs.weights, outputs.contribution
    context = outputs.context.transpose(0, 1).flatten(1, 2)  # (heads, tokens, d)
    return {
        "divergence": jensen_shannon(weights[:, first], weights[:, second]).mean((0, 2)),
        "cka": cka(context[first], context[second]),
        "cosine": F.cosine_similarity(contribution[:, first], contribution[:, second], dim=-1).mean((0, 2)),
    }


# French forms: a token classification task for an encoder

MAX_WORDS = 12
POS_TAGS = ("article", "adjective", "verb", "other")
ARTICLES = ("the", "a", "an", "some")
NUM_TRAIN, NUM_TEST = 5000, 400
NUM_LAYERS, DIM = 2, 64
NUM_COMPARED = 60  # test sentences on which heads are compared


@dataclass(frozen=True, eq=False)
class FormData:
    """English sentences and the French form that each word takes in its sentence.

    forms: the classes, "ne pas" is one; train and test: for each length token_ids and forms (k, length). For each word of
    the vocabulary: ambiguous, bool, it has more than one form in training; most_frequent, its most frequent form; pos, the
    index of its part of speech in POS_TAGS.
    """

    vocabulary: Vocabulary
    forms: tuple[str, ...]
    train: dict[int, tuple[Tensor, Tensor]]
    test: dict[int, tuple[Tensor, Tensor]]
    test_pairs: tuple[Pair, ...]
    ambiguous: Tensor
    most_frequent: Tensor
    pos: Tensor


def forms_of(pair: Pair) -> list[str]:
    """For each English word the French word or words that it is aligned with: "the" with "l'", "not" with "ne pas"."""
    aligned: list[list[str]] = [[] for _ in pair.english]
    for english, french in pair.links:
        aligned[english].append(pair.french[french])
    return [" ".join(words) for words in aligned]


def pos_tag(word: str) -> str:
    """Part of speech in POS_TAGS. "do" and the particles count as verbs, whose form they share."""
    if word in ARTICLES:
        return "article"
    if any(word == adjective.english for adjective in ADJECTIVES):
        return "adjective"
    verbs = {form for verb in VERBS for form in (verb.english, verb.english_singular)}
    return "verb" if word in verbs | {"do", "does", "at", "for"} else "other"


@lru_cache(maxsize=3)
def form_data(num_train: int = NUM_TRAIN, num_test: int = NUM_TEST) -> FormData:
    """Sentences of at most MAX_WORDS words; test sentences with a word or form that is not in training are dropped."""
    lengths = {words: weight for words, weight in LENGTHS.items() if words <= MAX_WORDS}
    seen: set[tuple[str, ...]] = set()
    held_out = sentences(num_test, lengths, random.Random("forms test 0"), seen)
    train = sentences(num_train, lengths, random.Random("forms train 0"), seen)
    vocabulary = Vocabulary.build([pair.english for pair in train])
    forms = tuple(sorted({form for pair in train for form in forms_of(pair)}))
    classes = {form: index for index, form in enumerate(forms)}
    counts = [Counter() for _ in vocabulary.words]
    for pair in train:
        for token_id, form in zip(vocabulary.encode(pair.english), forms_of(pair), strict=True):
            counts[token_id][classes[form]] += 1
    test = tuple(
        pair
        for pair in held_out
        if not vocabulary.out_of_vocabulary(pair.english) and all(form in classes for form in forms_of(pair))
    )

    def by_length(pairs: Sequence[Pair]) -> dict[int, tuple[Tensor, Tensor]]:
        groups: dict[int, list[Pair]] = {}
        for pair in pairs:
            groups.setdefault(len(pair.english), []).append(pair)
        return {
            length: (
                torch.tensor([vocabulary.encode(pair.english) for pair in groups[length]]),
                torch.tensor([[classes[form] for form in forms_of(pair)] for pair in groups[length]]),
            )
            for length in sorted(groups)
        }

    return FormData(
        vocabulary,
        forms,
        by_length(train),
        by_length(test),
        test,
        ambiguous=torch.tensor([len(count) > 1 for count in counts]),
        most_frequent=torch.tensor([count.most_common(1)[0][0] if count else 0 for count in counts]),
        pos=torch.tensor([POS_TAGS.index(pos_tag(word)) for word in vocabulary.words]),
    )


class FormTagger(nn.Module):
    """Encoder with a token classifier: which French form does each English word take here?

    "old" is vieux, vieil, vieille or vieilles, and "the" has eight forms: the context decides.
    """

    def __init__(
        self,
        data: FormData,
        num_heads: int,
        num_layers: int = NUM_LAYERS,
        dim: int = DIM,
        norm_first: bool = True,
    ):
        super().__init__()
        self.num_heads, self.num_layers, self.dim = num_heads, num_layers, dim
        self.token_embedding = nn.Embedding(len(data.vocabulary), dim)
        nn.init.normal_(self.token_embedding.weight, std=0.5)  # of the magnitude of the position encodings
        self.encoder = TransformerEncoder(num_layers, dim, num_heads, 2 * dim, norm_first=norm_first)
        self.classifier = nn.Linear(dim, len(data.forms))

    def embed(self, token_ids: Tensor) -> Tensor:
        x = self.token_embedding(token_ids)
        return x + sinusoidal_positions(token_ids.size(-1), self.dim).to(x.dtype)

    def forward(self, token_ids: Tensor, head_mask: Tensor | list | None = None) -> tuple[Tensor, list[Tensor]]:
        """token_ids (b, n) to logits (b, n, forms) and each layer's attention weights (b, num_heads, n, n).

        head_mask (num_layers, num_heads): 0 ablates a head.
        """
        x = self.embed(token_ids)
        head_mask = None if head_mask is None else torch.as_tensor(head_mask, dtype=x.dtype)
        x, weights = self.encoder(x, need_weights=True, head_mask=head_mask)
        return self.classifier(x), weights


def form_batches(
    data: FormData, seeds: Sequence[int], steps: int, batch_tokens: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step about `batch_tokens` tokens in sentences of one length, (s, b, length) each: no padding. All seeds
    share the length, drawn in proportion to its number of tokens; each draws its own sentences."""
    lengths = list(data.train)
    num_tokens = torch.tensor([float(data.train[length][0].numel()) for length in lengths])
    drawn = torch.multinomial(num_tokens, steps, replacement=True, generator=torch.Generator().manual_seed(5))
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    for index in drawn.tolist():
        token_ids, forms = data.train[lengths[index]]
        size = (max(1, batch_tokens // lengths[index]),)
        rows = torch.stack([torch.randint(0, len(token_ids), size, generator=generator) for generator in generators])
        yield token_ids[rows], forms[rows]


@torch.no_grad()
def form_accuracy(model: FormTagger, data: FormData, head_mask: Tensor | list | None = None) -> dict:
    """Accuracy on the ambiguous words of the test sentences, some heads ablated by head_mask (num_layers, num_heads).

    Returns accuracy, by_pos (one for each of POS_TAGS), baseline (of the most frequent form of each word) and num_words.
    """
    correct, baseline, counts = (torch.zeros(len(POS_TAGS)) for _ in range(3))
    for token_ids, forms in data.test.values():
        predicted = model(token_ids, head_mask)[0].argmax(-1)
        ambiguous = data.ambiguous[token_ids]
        pos = data.pos[token_ids][ambiguous]
        correct.index_add_(0, pos, (predicted == forms)[ambiguous].float())
        baseline.index_add_(0, pos, (data.most_frequent[token_ids] == forms)[ambiguous].float())
        counts.index_add_(0, pos, torch.ones(len(pos)))
    return {
        "accuracy": (correct.sum() / counts.sum()).item(),
        "by_pos": (correct / counts).tolist(),
        "baseline": (baseline.sum() / counts.sum()).item(),
        "num_words": int(counts.sum()),
    }


@torch.no_grad()
def predict_forms(
    model: FormTagger, data: FormData, words: Sequence[str], head_mask: Tensor | list | None = None
) -> dict:
    """The predicted French forms of one sentence, which of its words are ambiguous, and the attention weights
    (num_layers, num_heads, n, n). An ablated head still has attention weights; only its output is dropped."""
    unknown = data.vocabulary.out_of_vocabulary(words)
    if unknown or not words:
        raise ValueError(
            f"expected words of the phrase corpus, got {', '.join(unknown) or 'none'}; use words of lesson 03"
        )
    token_ids = torch.tensor([data.vocabulary.encode(words)])
    logits, weights = model(token_ids, head_mask)
    return {
        "forms": [data.forms[index] for index in logits[0].argmax(-1).tolist()],
        "ambiguous": data.ambiguous[token_ids[0]].tolist(),
        "weights": torch.cat(weights),
    }


def ablate_heads(model: FormTagger, data: FormData) -> dict[str, Tensor]:
    """Accuracy with heads ablated: without_head and only_head (layers, heads), one head of a layer off, or all but one,
    with the other layers whole; without_layer (layers,), all heads of a layer off; without_heads (), all heads off."""
    num_layers, num_heads = model.num_layers, model.num_heads

    def accuracies(head_masks: Tensor) -> Tensor:
        """head_masks (k, num_heads), each used in each layer in turn, to (num_layers, k)."""
        masks = torch.ones(num_layers, len(head_masks), num_layers, num_heads)
        for layer in range(num_layers):
            masks[layer, :, layer] = head_masks
        return torch.tensor([[form_accuracy(model, data, mask)["accuracy"] for mask in layer] for layer in masks])

    one_hot, all_off = torch.eye(num_heads), torch.zeros(num_layers, num_heads)
    return {
        "without_head": accuracies(1 - one_hot),
        "only_head": accuracies(one_hot),
        "without_layer": accuracies(all_off[:1]).squeeze(1),
        "without_heads": torch.tensor(form_accuracy(model, data, all_off)["accuracy"]),
    }


@cached
def train_form_tagger(
    num_heads: int = 4,
    seeds: int | Sequence[int] = 3,
    *,
    num_layers: int = NUM_LAYERS,
    dim: int = DIM,
    steps: int = 300,
    batch_tokens: int = 320,
    num_evaluations: int = 5,
    num_train: int = NUM_TRAIN,
    num_test: int = NUM_TEST,
) -> dict:
    """Train `FormTagger`, compare its heads at initialization and `num_evaluations` times in training, then ablate them.

    Returns for each seed: accuracy (s,), by_pos (s, tags), see `form_accuracy`; loss (steps, s). eval_steps (c,), the first
    is 0; accuracy_at (c, s) and divergence, cka, cosine (c, s, layers, pairs), see `compare_heads`. ablation: the tensors of
    `ablate_heads` with the seed in front. state and settings: for `load_form_tagger`.
    """
    seeds, data = seed_list(seeds), form_data(num_train, num_test)
    settings = {"num_heads": num_heads, "num_layers": num_layers, "dim": dim}
    model, parameters = stack_models(lambda: FormTagger(data, **settings), seeds)
    eval_steps = [round(steps * number / num_evaluations) for number in range(num_evaluations + 1)]
    # The sentences of the length that is most frequent in the test set.
    compared = max((token_ids for token_ids, _ in data.test.values()), key=len)[:NUM_COMPARED]

    def evaluate() -> list[dict]:
        """For each seed the results of `form_accuracy` and, (layers, pairs) each, of `compare_heads`."""
        results = []
        for index in range(len(seeds)):
            tagger = model_at(model, parameters, index)
            layers = [compare_heads(outputs) for outputs in head_outputs(tagger.encoder, tagger.embed(compared))]
            similarity = {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}
            results.append(form_accuracy(tagger, data) | similarity)
        return results

    evaluations, losses = [evaluate()], []
    batches = form_batches(data, seeds, steps, batch_tokens)
    schedule = warmup_stable_decay(steps, 0.1 * steps)
    for step, loss in enumerate(model_training_steps(model, parameters, batches, steps, 0.015, schedule), 1):
        losses.append(loss)
        if step in eval_steps:
            evaluations.append(evaluate())
    last, ablations = evaluations[-1], [ablate_heads(model_at(model, parameters, i), data) for i in range(len(seeds))]
    accuracy_at = torch.tensor([[result["accuracy"] for result in results] for results in evaluations])
    return {
        "accuracy": accuracy_at[-1],
        "by_pos": torch.tensor([result["by_pos"] for result in last]),
        "baseline": last[0]["baseline"],
        "num_words": last[0]["num_words"],
        "loss": torch.stack(losses),
        "eval_steps": eval_steps,
        "accuracy_at": accuracy_at,
        **{
            name: torch.stack([torch.stack([result[name] for result in results]) for results in evaluations])
            for name in ("divergence", "cka", "cosine")
        },
        "ablation": {name: torch.stack([ablation[name] for ablation in ablations]) for name in ablations[0]},
        "parameters": parameters_per_model(parameters),
        "state": {name: parameter.detach() for name, parameter in parameters.items()},
        "settings": settings,
        "data_sizes": (num_train, num_test),
    }


def load_form_tagger(result: dict, index: int = 0) -> tuple[FormTagger, FormData]:
    """The tagger of one seed in a result of `train_form_tagger`, and its data."""
    data = form_data(*result["data_sizes"])
    return model_at(FormTagger(data, **result["settings"]), result["state"], index), data


# What heads cost

HEAD_COUNTS = (1, 2, 4, 8, 16)


@torch.no_grad()
def head_costs(
    head_counts: Sequence[int] = HEAD_COUNTS, dim: int = 256, n: int = 256, batch: int = 4, repeats: int = 9
) -> list[dict]:
    """One row per number of heads, at one width: parameters; products, the multiplications of all matrix products;
    exponentials, one for each score; score_bytes, the memory of the attention weights; and median seconds of projections
    (input and output), products (scores, and weights times values), softmax, and of the fused kernel for all of it, which
    never stores the weights. Timing rounds go through all rows in turn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = {num_heads: MultiHeadAttention(dim, num_heads) for num_heads in head_counts}
        x = torch.randn(batch, n, dim)
    operations = {
        (num_heads, name): operation
        for num_heads, layer in layers.items()
        for name, operation in _operations(layer, x).items()
    }
    times: dict[tuple[int, str], list[float]] = {key: [] for key in operations}
    for round_number in range(repeats + 1):
        for key, operation in operations.items():
            start = time.perf_counter()
            operation()
            if round_number:  # the first round warms up
                times[key].append(time.perf_counter() - start)
    return [
        {
            "heads": num_heads,
            "parameters": parameter_count(layers[num_heads]),
            "products": batch * (4 * n * dim * dim + 2 * n * n * dim),
            "exponentials": batch * num_heads * n * n,
            "score_bytes": batch * num_heads * n * n * x.element_size(),
            **{f"{name}_seconds": statistics.median(times[count, name]) for count, name in times if count == num_heads},
        }
        for num_heads in head_counts
    ]


def _operations(layer: MultiHeadAttention, x: Tensor) -> dict[str, Callable[[], object]]:
    query, key, value = (projected.contiguous() for projected in layer.project(x))
    scores = query @ key.mT * query.size(-1) ** -0.5
    weights = scores.softmax(-1)
    return {
        "projections": lambda: layer.out_proj(layer.in_proj(x)[..., : x.size(-1)]),
        "products": lambda: (query @ key.mT, weights @ value),
        "softmax": lambda: scores.softmax(-1),
        "fused": lambda: layer(x),
    }
