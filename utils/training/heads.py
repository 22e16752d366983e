"""Multi-head attention (Vaswani et al., 2017, arXiv:1706.03762): a task that one head cannot solve, how much trained heads
differ, head ablation, and what heads cost.

All seeds of an experiment are trained at once, see `utils.training.seeds`. s seeds, b sequences, n tokens.
"""

import functools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from utils.data.phrases import LENGTHS, Pair, sentences
from utils.data.tokens import Vocabulary
from utils.models.attention import MultiHeadAttention, attention, merge_heads
from utils.models.language_models import parameter_count
from utils.models.layers import TransformerEncoder
from utils.models.positions import sinusoidal_positions
from utils.training.cache import cached
from utils.training.profiling import seconds_in_turns
from utils.training.seeds import (
    model_at,
    model_training_steps,
    seeded,
    stack_models,
    train_seeds,
)
from utils.training.trainer import warmup_stable_decay

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
    num_heads: int, seeds: int = 5, *, keys: str = "marks", query_init: str = "zeros", steps: int = 150
) -> dict:
    """Train `TwoPositions`. A prediction counts if both letters are correct, so chance is 1 in NUM_LETTERS squared.

    Returns for each seed: accuracy (s,) on 2000 new sequences and letter_accuracy (s, 2), of each letter alone;
    mark_weights (s, num_heads, 2), the mean attention weight of each head on mark 1 and on mark 2.
    """
    model, parameters = train_seeds(
        lambda: TwoPositions(num_heads, keys, query_init), two_positions, range(seeds), steps, batch_size=48
    )
    letters, marks, pairs = two_positions(2000, torch.Generator().manual_seed(77))
    correct, mark_weights = [], []
    with torch.no_grad():
        for index in range(seeds):
            logits, weights = model_at(model, parameters, index)(letters, marks)
            correct.append(logits.argmax(-1) == pairs)
            on_marks = [(weights * (marks == mark).unsqueeze(1)).sum(-1).mean(0) for mark in (1, 2)]
            mark_weights.append(torch.stack(on_marks, -1))
    correct = torch.stack(correct)  # (s, 2000, 2)
    return {
        "accuracy": correct.all(-1).float().mean(1),
        "letter_accuracy": correct.float().mean(1),
        "chance": 1 / NUM_LETTERS**2,
        "mark_weights": torch.stack(mark_weights),
    }


# How much heads differ


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    """Jensen-Shannon divergence (...,) of two distributions (..., n), in nats: from 0, equal, to log 2, disjoint."""
    entropy = torch.special.entr
    divergence = entropy((p + q) / 2).sum(-1) - (entropy(p).sum(-1) + entropy(q).sum(-1)) / 2
    return divergence.clamp_min(0)


def cka(x: Tensor, y: Tensor) -> Tensor:
    """Linear centered kernel alignment (CKA; Kornblith et al., 2019, arXiv:1905.00414) of x (..., tokens, d) and y (..., tokens, e).

    1 if one is a rotated, translated or scaled copy of the other, 0 if no component of one is correlated with any of the other.
    """
    x, y = (features - features.mean(-2, keepdim=True) for features in (x, y))

    def alignment(x: Tensor, y: Tensor) -> Tensor:
        return (x.transpose(-2, -1) @ y).square().sum((-2, -1))

    return alignment(x, y) / (alignment(x, x) * alignment(y, y)).sqrt()


@torch.no_grad()
def head_outputs(encoder: TransformerEncoder, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each layer on x (b, n, dim) the attention weights (b, heads, n, n) and the outputs (b, heads, n, d) of its heads."""
    outputs = []
    for layer in encoder.layers:
        context, weights = attention(*layer.self_attn.project(layer.before(layer.norm1, x)))
        outputs.append((weights, context))
        x, _ = layer(x)
    return outputs


def stack_results(results: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([result[name] for result in results]) for name in results[0]}


def compare_heads(encoder: TransformerEncoder, x: Tensor) -> dict[str, Tensor]:
    """For each pair of heads of a layer, (layers, pairs) in the order 01, 02, ..., 12, ...: divergence of their attention
    weights, the mean of `jensen_shannon` over all tokens of x, and cka of their outputs."""
    num_heads, layers = encoder.layers[0].self_attn.num_heads, []
    first, second = torch.triu_indices(num_heads, num_heads, 1)
    for weights, context in head_outputs(encoder, x):
        context = context.transpose(0, 1).flatten(1, 2)  # (heads, tokens, d)
        divergence = jensen_shannon(weights[:, first], weights[:, second]).mean((0, 2))
        layers.append({"divergence": divergence, "cka": cka(context[first], context[second])})
    return stack_results(layers)


# French forms: a token classification task for an encoder

MAX_WORDS = 12
NUM_TRAIN, NUM_TEST = 5000, 400
NUM_LAYERS, DIM = 2, 64
NUM_EVALUATIONS, NUM_COMPARED = 5, 60  # in training; test sentences on which heads are compared


@dataclass(frozen=True, eq=False)
class FormData:
    """English sentences and the French form that each word takes in its sentence.

    forms: the classes, "ne pas" is one; train and test: for each length token_ids and forms (k, length). For each word of
    the vocabulary: ambiguous, bool, it has more than one form in training; most_frequent, its most frequent form.
    """

    vocabulary: Vocabulary
    forms: tuple[str, ...]
    train: dict[int, tuple[Tensor, Tensor]]
    test: dict[int, tuple[Tensor, Tensor]]
    ambiguous: Tensor
    most_frequent: Tensor


def forms_of(pair: Pair) -> list[str]:
    """For each English word the French word or words that it is aligned with: "the" with "l'", "not" with "ne pas"."""
    aligned: list[list[str]] = [[] for _ in pair.english]
    for english, french in pair.links:
        aligned[english].append(pair.french[french])
    return [" ".join(words) for words in aligned]


@functools.cache
def form_data() -> FormData:
    """Sentences of at most MAX_WORDS words; test sentences with a word or form that is not in training are dropped."""
    lengths = {words: weight for words, weight in LENGTHS.items() if words <= MAX_WORDS}
    seen: set[tuple[str, ...]] = set()
    held_out = sentences(NUM_TEST, lengths, random.Random("forms test 0"), seen)
    train = sentences(NUM_TRAIN, lengths, random.Random("forms train 0"), seen)
    vocabulary = Vocabulary.build([pair.english for pair in train])
    forms = tuple(sorted({form for pair in train for form in forms_of(pair)}))
    classes = {form: index for index, form in enumerate(forms)}
    counts = [Counter() for _ in vocabulary.words]
    for pair in train:
        for token_id, form in zip(vocabulary.encode(pair.english), forms_of(pair), strict=True):
            counts[token_id][classes[form]] += 1
    test = [
        pair
        for pair in held_out
        if not vocabulary.out_of_vocabulary(pair.english) and all(form in classes for form in forms_of(pair))
    ]

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
        ambiguous=torch.tensor([len(count) > 1 for count in counts]),
        most_frequent=torch.tensor([count.most_common(1)[0][0] if count else 0 for count in counts]),
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

    def forward(
        self, token_ids: Tensor, head_mask: Tensor | list | None = None, need_weights: bool = True
    ) -> tuple[Tensor, list[Tensor]]:
        """token_ids (b, n) to logits (b, n, forms) and each layer's attention weights (b, num_heads, n, n), if needed.

        head_mask (num_layers, num_heads): 0 ablates a head.
        """
        x = self.embed(token_ids)
        head_mask = None if head_mask is None else torch.as_tensor(head_mask, dtype=x.dtype)
        x, weights = self.encoder(x, need_weights=need_weights, head_mask=head_mask)
        return self.classifier(x), weights


def form_batches(data: FormData, seeds: int, steps: int, batch_tokens: int) -> list[tuple[Tensor, Tensor]]:
    """For each step about `batch_tokens` tokens in sentences of one length, (s, b, length) each: no padding. All seeds
    share the length, drawn in proportion to its number of tokens; each draws its own sentences."""
    lengths = list(data.train)
    num_tokens = torch.tensor([float(data.train[length][0].numel()) for length in lengths])
    drawn = torch.multinomial(num_tokens, steps, replacement=True, generator=torch.Generator().manual_seed(5))
    generators = [torch.Generator().manual_seed(10_000 + seed) for seed in range(seeds)]
    batches = []
    for index in drawn.tolist():
        token_ids, forms = data.train[lengths[index]]
        size = (max(1, batch_tokens // lengths[index]),)
        rows = torch.stack([torch.randint(0, len(token_ids), size, generator=generator) for generator in generators])
        batches.append((token_ids[rows], forms[rows]))
    return batches


def ambiguous_accuracy(data: FormData, predict: Callable[[Tensor], Tensor]) -> float:
    """Accuracy on the ambiguous words of the test sentences. predict: from token_ids to forms (b, n)."""
    correct = [(predict(token_ids) == forms)[data.ambiguous[token_ids]] for token_ids, forms in data.test.values()]
    return torch.cat(correct).float().mean().item()


def baseline_accuracy(data: FormData) -> float:
    """`ambiguous_accuracy` of the most frequent form of each word."""
    return ambiguous_accuracy(data, lambda token_ids: data.most_frequent[token_ids])


@torch.no_grad()
def form_accuracy(model: FormTagger, data: FormData, head_mask: Tensor | list | None = None) -> float:
    """`ambiguous_accuracy` of a tagger, some heads ablated by head_mask (num_layers, num_heads)."""
    return ambiguous_accuracy(data, lambda token_ids: model(token_ids, head_mask, need_weights=False)[0].argmax(-1))


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
    """Accuracy without_head (layers, heads), without each head alone; without_layer (layers,), without all heads of a layer;
    without_heads (), without any head."""

    def accuracy_without(layer: int | slice, head: int | slice) -> float:
        head_mask = torch.ones(model.num_layers, model.num_heads)
        head_mask[layer, head] = 0
        return form_accuracy(model, data, head_mask)

    layers, heads, every = range(model.num_layers), range(model.num_heads), slice(None)
    return {
        "without_head": torch.tensor([[accuracy_without(layer, head) for head in heads] for layer in layers]),
        "without_layer": torch.tensor([accuracy_without(layer, every) for layer in layers]),
        "without_heads": torch.tensor(accuracy_without(every, every)),
    }


@cached
def train_form_tagger(num_heads: int = 4, seeds: int = 3, *, num_layers: int = NUM_LAYERS, steps: int = 300) -> dict:
    """Train `FormTagger`, compare its heads at initialization and five times in training, then ablate them.

    Returns accuracy (s,) on ambiguous words, and baseline, that of the most frequent form; eval_steps (6,), the first is 0;
    divergence and cka (6, s, layers, pairs), see `compare_heads`; ablation: the tensors of `ablate_heads` with the seed in
    front; settings and state, the first seed's, for `load_form_tagger`.
    """
    data, settings = form_data(), {"num_heads": num_heads, "num_layers": num_layers}
    model, parameters = stack_models(lambda: FormTagger(data, **settings), range(seeds))
    eval_steps = [round(steps * number / NUM_EVALUATIONS) for number in range(NUM_EVALUATIONS + 1)]
    # The sentences of the length that is most frequent in the test set.
    compared = max((token_ids for token_ids, _ in data.test.values()), key=len)[:NUM_COMPARED]

    def compare(tagger: FormTagger) -> dict[str, Tensor]:
        return compare_heads(tagger.encoder, tagger.embed(compared).detach())

    def over_seeds(evaluate: Callable[[FormTagger], dict[str, Tensor]]) -> dict[str, Tensor]:
        return stack_results([evaluate(model_at(model, parameters, index)) for index in range(seeds)])

    comparisons = [over_seeds(compare)]
    batches, schedule = form_batches(data, seeds, steps, 320), warmup_stable_decay(steps, 0.1 * steps)
    for step, _ in enumerate(model_training_steps(model, parameters, batches, 0.015, schedule), 1):
        if step in eval_steps:
            comparisons.append(over_seeds(compare))
    return {
        **over_seeds(lambda tagger: {"accuracy": torch.tensor(form_accuracy(tagger, data))}),
        "baseline": baseline_accuracy(data),
        "eval_steps": eval_steps,
        **stack_results(comparisons),
        "ablation": over_seeds(lambda tagger: ablate_heads(tagger, data)),
        "settings": settings,
        "state": {name: parameter[0].detach() for name, parameter in parameters.items()},
    }


def load_form_tagger(result: dict) -> tuple[FormTagger, FormData]:
    """The tagger of the first seed in a result of `train_form_tagger`, and its data."""
    data = form_data()
    model = FormTagger(data, **result["settings"])
    model.load_state_dict(result["state"])
    return model.eval(), data


# What heads cost

HEAD_COUNTS = (1, 2, 4, 8, 16)
COST_BATCH, COST_LENGTH, COST_DIM = 4, 256, 256


@torch.no_grad()
def head_costs(repeats: int = 9) -> list[dict]:
    """One row per number of heads, at one width: parameters; products, the multiplications of all matrix products;
    exponentials, one for each score; score_bytes, the memory of the attention weights; and median seconds of projections
    (input and output), products (scores, and weights times values), softmax, and of the fused kernel for all of it, which
    never stores the weights."""
    b, n, dim = COST_BATCH, COST_LENGTH, COST_DIM
    with seeded(0):
        layers = {num_heads: MultiHeadAttention(dim, num_heads) for num_heads in HEAD_COUNTS}
        x = torch.randn(b, n, dim)
    operations = {num_heads: _operations(layer, x) for num_heads, layer in layers.items()}
    seconds = seconds_in_turns(
        {(num_heads, name): run for num_heads, runs in operations.items() for name, run in runs.items()}, repeats
    )
    return [
        {
            "heads": num_heads,
            "parameters": parameter_count(layer),
            "products": b * (4 * n * dim * dim + 2 * n * n * dim),
            "exponentials": b * num_heads * n * n,
            "score_bytes": b * num_heads * n * n * x.element_size(),
            **{f"{name}_seconds": statistics.median(seconds[num_heads, name]) for name in operations[num_heads]},
        }
        for num_heads, layer in layers.items()
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
