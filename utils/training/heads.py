"""What several heads are good for, measured: a task that one head cannot do, and whether heads that were trained differ.

All seeds of an experiment are trained at once; see `utils.training.self_attention`.
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
from utils.models.attention import attention
from utils.models.encoder import Encoder
from utils.models.multi_head import MultiHeadAttention, merge_heads
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

TEST_SEED = 77


# Two places

LETTERS, PLACES = 8, 8


class TwoPlaces(nn.Module):
    """One layer of attention reads two marked letters: which stands at mark 1, and which at mark 2, in this order?

    letters (b, n) and marks (b, n) of 0, 1, 2, with one 1 and one 2 in each row. A reading token, the same for every sequence,
    looks at the places; two linear maps read both answers from what it found. There is no other layer.

    keys="places": a key says where (the mark) and a value says what (the letter). One head then finds p1 v(a) + p2 v(b) + rest,
    and p1, p2 are the same for all letters. It cannot answer rightly for all of aa, ab, ba and bb, whatever its parameters:
    write D for how much more the letters a and b speak for themselves than for each other in the second answer. aa and bb are
    right only if (p1 + p2) D > 0, and ab and ba only if (p2 - p1) D > 0 (add the two inequalities of each: all else cancels).
    So the second answer needs p2 > p1, and the first, by the same sums, p1 > p2.

    keys="both": letter and mark are added, and keys and values are made of the sum, as in any Transformer. Then the proof fails,
    and so does the claim: a head can make the size of a weight depend on the letter, and so write one letter into p1, another
    into p2, next to the marks' own values.

    start: "even", the reading token is zero, and all weights are equal at first; "random".
    """

    def __init__(
        self, letters: int = LETTERS, dim: int = 32, heads: int = 1, keys: str = "places", start: str = "even"
    ):
        super().__init__()
        self.keys, self.letters = keys, letters
        self.what, self.where = nn.Embedding(letters, dim), nn.Embedding(3, dim)
        self.reader = nn.Parameter(torch.zeros(dim) if start == "even" else torch.randn(dim))
        self.attention = MultiHeadAttention(dim, heads)
        self.answer = nn.Linear(dim, 2 * letters)

    def forward(self, letters: Tensor, marks: Tensor, heads_on: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (b, 2, letters) of the two answers, and the reading token's weights (b, heads, n)."""
        what, where = self.what(letters), self.where(marks)
        if self.keys == "both":
            what = where = what + where
        reader = self.reader.expand(*letters.shape[:-1], 1, -1)
        key, value = self.attention.keys_values(where)[0], self.attention.keys_values(what)[1]
        found, weights = self.attention.look(self.attention.queries(reader), key, value, None, True, heads_on)
        logits = self.answer((reader + found).squeeze(-2))
        return logits.unflatten(-1, (2, self.letters)), weights.squeeze(-2)


def two_places(count: int, n: int, letters: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """letters (count, n), marks (count, n) and the ordered pair (count, 2): the letter at mark 1 and the letter at mark 2."""
    drawn = torch.randint(0, letters, (count, n), generator=generator)
    places = torch.rand(count, n, generator=generator).topk(2).indices
    marks = torch.zeros(count, n, dtype=torch.long).scatter(1, places, torch.tensor([1, 2]).expand(count, 2))
    return drawn, marks, drawn.gather(1, places)


@cached
def train_two_places(
    heads: int,
    seeds: int | Sequence[int] = 5,
    *,
    keys: str = "places",
    start: str = "even",
    letters: int = LETTERS,
    n: int = PLACES,
    dim: int = 32,
    steps: int = 150,
    batch: int = 48,
    rate: float = 0.01,
    shown: int = 4,
) -> dict:
    """Train `TwoPlaces` models of one width; an answer counts if both letters are right, so chance is 1 in letters².

    Returns for each seed: accuracy (s,) and each (s, 2), of the first and the second letter alone, on 2000 fresh sequences;
    loss (steps, s); on_marks (s, heads, 2), the mean weight of each head on mark 1 and on mark 2; and of `shown` sequences
    letters and marks (shown, n), wanted (shown, 2), answered (s, shown, 2), weights (s, shown, heads, n). chance; guess, what one
    gets who always knows one of the two letters; parameters, the number of them.
    """
    seeds = seed_list(seeds)
    model, parameters = stack_models(lambda: TwoPlaces(letters, dim, heads, keys, start), seeds)

    def draw(count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return two_places(count, n, letters, generator)

    loss = train_models(model, parameters, draw_batches(draw, seeds, steps, batch), rate)
    drawn, marks, wanted = two_places(2000, n, letters, torch.Generator().manual_seed(TEST_SEED))
    logits, weights = _each_seed(model, parameters, drawn, marks)
    answered = logits.argmax(-1)
    right = answered == wanted
    return {
        "heads": heads,
        "keys": keys,
        "start": start,
        "seeds": seeds,
        "accuracy": right.all(-1).float().mean(1),
        "each": right.float().mean(1),
        "chance": 1 / letters**2,
        "guess": 1 / letters,
        "loss": loss,
        "on_marks": torch.stack([(weights * (marks == mark).unsqueeze(1)).sum(-1).mean(1) for mark in (1, 2)], -1),
        "parameters": parameters_per_model(parameters),
        "letters": drawn[:shown],
        "marks": marks[:shown],
        "wanted": wanted[:shown],
        "answered": answered[:, :shown],
        "weights": weights[:, :shown],
    }


@torch.no_grad()
def _each_seed(model: nn.Module, parameters: dict[str, Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
    """All outputs of every seed's model on one test set: inputs (b, ...) to outputs (s, b, ...)."""
    seeds = len(next(iter(parameters.values())))
    found = [model_of(model, parameters, place)(*inputs) for place in range(seeds)]
    return tuple(torch.stack(one) for one in zip(*found, strict=True))


def model_of(model: nn.Module, parameters: dict[str, Tensor], place: int) -> nn.Module:
    """`model` with the parameters of the seed at `place`: the same object each time, so use it before asking for the next."""
    model.load_state_dict({name: one[place].detach() for name, one in parameters.items()})
    return model.eval()


# How much heads differ


def jensen_shannon(one: Tensor, other: Tensor) -> Tensor:
    """The divergence (...,) of two distributions (..., n), in nats: 0 if they are equal, log 2 if they share no place."""
    middle = (one + other) / 2
    entropy = torch.special.entr
    return (entropy(middle).sum(-1) - (entropy(one).sum(-1) + entropy(other).sum(-1)) / 2).clamp_min(0)


def cka(one: Tensor, other: Tensor) -> Tensor:
    """Linear centred kernel alignment of x (..., tokens, d) and y (..., tokens, e): do they say the same about the tokens?

    1 if one is a turned, moved or scaled copy of the other, 0 if no component of one goes with any of the other.
    """
    one, other = (x - x.mean(-2, keepdim=True) for x in (one, other))

    def overlap(x: Tensor, y: Tensor) -> Tensor:
        return (x.transpose(-2, -1) @ y).square().sum((-2, -1))

    return overlap(one, other) / (overlap(one, one) * overlap(other, other)).sqrt()


@dataclass(frozen=True)
class Look:
    """What the heads of one layer did: weights (b, heads, n, n), found (b, heads, n, d), added (b, heads, n, dim).

    `added` is what each head adds to the sentence after mixing: over the heads, and with the bias of the mix, it sums up to
    the output of the layer's attention.
    """

    weights: Tensor
    found: Tensor
    added: Tensor


@torch.no_grad()
def looks_of(encoder: Encoder, x: Tensor) -> list[Look]:
    """One `Look` for each layer of a pre-norm or post-norm encoder, on x (b, n, dim)."""
    looks = []
    for layer in encoder.layers:
        heads = layer.attention
        source = layer.attention_norm(x) if layer.norm == "pre" else x
        found, weights = attention(*heads.queries_keys_values(source))
        alone = torch.diag_embed(torch.ones(heads.heads, dtype=x.dtype))
        # Each head with all others silent, through the same mix.
        added = torch.stack([F.linear(merge_heads(found * on[:, None, None]), heads.mix.weight) for on in alone], -3)
        looks.append(Look(weights, found, added))
        x, _ = layer(x)
    return looks


def _pairs(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    heads = x.size(axis)
    one, other = torch.triu_indices(heads, heads, 1)
    return x.index_select(axis, one), x.index_select(axis, other)


def head_differences(look: Look) -> dict[str, Tensor]:
    """For each pair of heads (pairs,), in the order 01, 02, ..., 12, ...: divergence of their maps, the mean of
    `jensen_shannon` over all tokens; cka of what they found; cosine of what they add, the mean over all tokens."""
    divergence = jensen_shannon(*_pairs(look.weights, 1)).mean((0, 2))
    found = look.found.transpose(0, 1).flatten(1, 2)  # (heads, tokens, d)
    cosine = F.cosine_similarity(*_pairs(look.added, 1), dim=-1).mean((0, 2))
    return {"divergence": divergence, "cka": cka(*_pairs(found, 0)), "cosine": cosine}


# The right form: a small real task for an encoder

LONGEST = 12
KINDS = ("article", "adjective", "verb", "other")
ARTICLES = ("the", "a", "an", "some")
SENTENCES, TESTED = 5000, 400
LAYERS, DIM = 2, 64
COMPARED = 60  # held-out sentences on which heads are compared


@dataclass(frozen=True, eq=False)
class FormData:
    """English words and the French form that each takes in its sentence. Sentences of one length lie together.

    words: the English vocabulary; forms: the French forms by number, "ne pas" is one; train and test: for each length tokens
    and forms (k, length). several (words,) bool: the training sentences have more than one form of it; usual (words,): its most
    frequent one; kind (words,): number in KINDS.
    """

    words: Vocabulary
    forms: tuple[str, ...]
    train: dict[int, tuple[Tensor, Tensor]]
    test: dict[int, tuple[Tensor, Tensor]]
    pairs: tuple[Pair, ...]
    several: Tensor
    usual: Tensor
    kind: Tensor


def forms_of(pair: Pair) -> list[str]:
    """For each English word of a pair the French word or words that it is linked to: "the" to "l'", "not" to "ne pas"."""
    linked: list[list[str]] = [[] for _ in pair.english]
    for english, french in pair.links:
        linked[english].append(pair.french[french])
    return [" ".join(words) for words in linked]


def kind_of(word: str) -> str:
    """article, adjective, verb (with "do" and the particles, which share the verb's form) or other."""
    if word in ARTICLES:
        return "article"
    if any(word == one.english for one in ADJECTIVES):
        return "adjective"
    verbs = {form for verb in VERBS for form in (verb.english, verb.english_singular)}
    return "verb" if word in verbs | {"do", "does", "at", "for"} else "other"


def form_data(count: int = SENTENCES, tested: int = TESTED, seed: int = 0) -> FormData:
    """`count` training sentences of at most 12 words, and `tested` others; every form in these was seen in training."""
    return _form_data(count, tested, seed)


@lru_cache(maxsize=3)
def _form_data(count: int, tested: int, seed: int) -> FormData:
    lengths = {words: often for words, often in LENGTHS.items() if words <= LONGEST}
    seen: set[tuple[str, ...]] = set()
    held_out = sentences(tested, lengths, random.Random(f"forms test {seed}"), seen)
    train = sentences(count, lengths, random.Random(f"forms train {seed}"), seen)
    words = Vocabulary.build([pair.english for pair in train])
    forms = tuple(sorted({form for pair in train for form in forms_of(pair)}))
    numbers = {form: number for number, form in enumerate(forms)}
    counts = [Counter() for _ in words.words]
    for pair in train:
        for word, form in zip(words.encode(pair.english), forms_of(pair), strict=True):
            counts[word][numbers[form]] += 1
    known = tuple(
        pair
        for pair in held_out
        if not words.out_of_vocabulary(pair.english) and all(form in numbers for form in forms_of(pair))
    )

    def by_length(pairs: Sequence[Pair]) -> dict[int, tuple[Tensor, Tensor]]:
        groups: dict[int, list[Pair]] = {}
        for pair in pairs:
            groups.setdefault(len(pair.english), []).append(pair)
        return {
            length: (
                torch.tensor([words.encode(pair.english) for pair in groups[length]]),
                torch.tensor([[numbers[form] for form in forms_of(pair)] for pair in groups[length]]),
            )
            for length in sorted(groups)
        }

    return FormData(
        words,
        forms,
        by_length(train),
        by_length(known),
        known,
        several=torch.tensor([len(one) > 1 for one in counts]),
        usual=torch.tensor([one.most_common(1)[0][0] if one else 0 for one in counts]),
        kind=torch.tensor([KINDS.index(kind_of(word)) for word in words.words]),
    )


class FormTagger(nn.Module):
    """An encoder that says of each English word which French form it takes here: tokens (b, n) to logits (b, n, forms).

    "old" is vieux, vieil, vieille or vieilles, and "the" one of eight words: what decides stands elsewhere in the sentence.
    """

    def __init__(self, words: int, forms: int, heads: int, layers: int = LAYERS, dim: int = DIM, norm: str = "pre"):
        super().__init__()
        self.dim = dim
        self.table = nn.Embedding(words, dim)
        nn.init.normal_(self.table.weight, std=0.5)  # as large as the positions, which are to be heard as well
        self.encoder = Encoder(layers, dim, heads, 2 * dim, norm=norm)
        self.answer = nn.Linear(dim, forms)

    def vectors(self, tokens: Tensor) -> Tensor:
        table = self.table(tokens)
        return table + sinusoidal_positions(tokens.size(-1), self.dim).to(table.dtype)

    def forward(self, tokens: Tensor, heads_on: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Logits (b, n, forms) and the weights (b, heads, n, n) of each layer; heads_on (layers, heads) switches heads."""
        x, weights = self.encoder(self.vectors(tokens), need_weights=True, heads_on=heads_on)
        return self.answer(x), weights


def form_batches(data: FormData, seeds: Sequence[int], steps: int, tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """For each step about `tokens` words in sentences of one length, (s, b, length) each: no padding. The length is drawn for
    all seeds, long and short by their share of words; the sentences for each seed on its own."""
    lengths = list(data.train)
    share = torch.tensor([float(data.train[length][0].numel()) for length in lengths])
    drawn = torch.multinomial(share, steps, replacement=True, generator=torch.Generator().manual_seed(5))
    own = [torch.Generator().manual_seed(10_000 + seed) for seed in seeds]
    for number in drawn.tolist():
        words, forms = data.train[lengths[number]]
        size = (max(1, tokens // lengths[number]),)
        rows = torch.stack([torch.randint(0, len(words), size, generator=generator) for generator in own])
        yield words[rows], forms[rows]


@torch.no_grad()
def accuracy_with(model: FormTagger, heads_on=None, data: FormData | None = None) -> dict:
    """How well the tagger does on held-out words that have several forms, with some heads switched off.

    heads_on: (layers, heads) of bool, numbers or nested lists; None = all on. Returns accuracy, by_kind (a number for each of
    KINDS), and the same for someone who always says the most frequent form: usual, usual_by_kind.
    """
    data = form_data() if data is None else data
    heads_on = _switches(model, heads_on)
    right, usual, counts = (torch.zeros(len(KINDS)) for _ in range(3))
    for tokens, forms in data.test.values():
        chosen = model(tokens, heads_on)[0].argmax(-1)
        counted = data.several[tokens]
        kind = data.kind[tokens][counted]
        right.index_add_(0, kind, (chosen == forms)[counted].float())
        usual.index_add_(0, kind, (data.usual[tokens] == forms)[counted].float())
        counts.index_add_(0, kind, torch.ones(len(kind)))
    return {
        "accuracy": (right.sum() / counts.sum()).item(),
        "by_kind": dict(zip(KINDS, (right / counts).tolist(), strict=True)),
        "usual": (usual.sum() / counts.sum()).item(),
        "usual_by_kind": dict(zip(KINDS, (usual / counts).tolist(), strict=True)),
        "words": int(counts.sum()),
    }


@torch.no_grad()
def answers_with(
    model: FormTagger, english: Sequence[str], heads_on=None, data: FormData | None = None
) -> dict[str, list]:
    """The tagger on one sentence: words, forms (the French form it gives each), sure (the probability of that form), several
    (whether the word has more than one), and weights, a tensor (layers, heads, n, n). A switched-off head still looks: its
    weights are shown, only what it found is dropped."""
    data = form_data() if data is None else data
    unknown = data.words.out_of_vocabulary(english)
    if unknown or not english:
        raise ValueError(
            f"expected words of the phrase corpus, got {', '.join(unknown) or 'none'}; the corpus has no such words"
        )
    tokens = torch.tensor([data.words.encode(english)])
    logits, weights = model(tokens, _switches(model, heads_on))
    sure, chosen = logits[0].softmax(-1).max(-1)
    return {
        "words": list(english),
        "forms": [data.forms[number] for number in chosen.tolist()],
        "sure": sure.tolist(),
        "several": data.several[tokens[0]].tolist(),
        "weights": torch.cat(weights),
    }


def _switches(model: FormTagger, heads_on) -> Tensor | None:
    if heads_on is None:
        return None
    switches = torch.as_tensor(heads_on).to(model.answer.weight.dtype)
    expected = (len(model.encoder.layers), model.encoder.layers[0].attention.heads)
    if tuple(switches.shape) != expected:
        raise ValueError(f"expected switches of shape {expected} (layers, heads), got {tuple(switches.shape)}")
    return switches


def all_heads(model: FormTagger) -> Tensor:
    """(layers, heads) of ones: every head on."""
    return torch.ones(len(model.encoder.layers), model.encoder.layers[0].attention.heads)


def without_each(model: FormTagger) -> Iterator[tuple[int, int, Tensor]]:
    """(layer, head, switches) for each head in turn, that one off and all others on."""
    on = all_heads(model)
    for layer, head in torch.cartesian_prod(*(torch.arange(size) for size in on.shape)).tolist():
        switches = on.clone()
        switches[layer, head] = 0
        yield layer, head, switches


def removal(model: FormTagger, data: FormData | None = None) -> dict[str, Tensor]:
    """Accuracy with one head off, without (layers, heads); by_kind (layers, heads, kinds); with only one head of a layer on and
    the other layers whole, alone (layers, heads); with a whole layer's heads off, without_layer (layers,); with none, nothing."""
    on = all_heads(model)
    without, alone = torch.zeros_like(on), torch.zeros_like(on)
    by_kind = torch.zeros(*on.shape, len(KINDS))
    for layer, head, switches in without_each(model):
        found = accuracy_with(model, switches, data)
        without[layer, head] = found["accuracy"]
        by_kind[layer, head] = torch.tensor(list(found["by_kind"].values()))
        only = on.clone()
        only[layer] = 1 - switches[layer]
        alone[layer, head] = accuracy_with(model, only, data)["accuracy"]
    layers = torch.ones(len(on), len(on)) - torch.eye(len(on))
    return {
        "without": without,
        "by_kind": by_kind,
        "alone": alone,
        "without_layer": torch.tensor([accuracy_with(model, row[:, None] * on, data)["accuracy"] for row in layers]),
        "nothing": torch.tensor(accuracy_with(model, 0 * on, data)["accuracy"]),
    }


def differences_of(model: FormTagger, data: FormData, compared: int = COMPARED) -> dict[str, Tensor]:
    """`head_differences` (layers, pairs) on held-out sentences of the length that most of them have, at most `compared`."""
    tokens = max((tokens for tokens, _ in data.test.values()), key=len)[:compared]
    found = [head_differences(look) for look in looks_of(model.encoder, model.vectors(tokens).detach())]
    return {name: torch.stack([one[name] for one in found]) for name in found[0]}


@cached
def train_forms(
    heads: int = 4,
    seeds: int | Sequence[int] = 3,
    *,
    layers: int = LAYERS,
    dim: int = DIM,
    steps: int = 300,
    tokens: int = 320,
    rate: float = 0.015,
    measured: int = 5,
    removed: bool = True,
    count: int = SENTENCES,
    tested: int = TESTED,
) -> dict:
    """Train taggers; look at their heads `measured` times after the start, evenly spaced; then take heads out.

    Returns for each seed: accuracy (s,) on held-out words with several forms, by_kind (s, kinds), loss (steps, s). at (c,), the
    steps of the looks, the first 0; accuracy_at (c, s); divergence, cka, cosine (c, s, layers, pairs), see `head_differences`.
    removal: a dict of tensors with the seed in front, see there; None if not `removed`. usual, the accuracy of the most frequent
    form; parameters, the number of them; state, the trained parameters (s, ...), for `restore_forms`; settings of the model.
    """
    seeds, data = seed_list(seeds), form_data(count, tested)
    model, parameters = stack_models(lambda: FormTagger(len(data.words), len(data.forms), heads, layers, dim), seeds)
    looked = sorted({round(steps * number / measured) for number in range(measured + 1)} | {0, steps})
    looks, losses = [_look_at_seeds(model, parameters, data)], []
    batches = form_batches(data, seeds, steps, tokens)
    schedule = warmup_stable_decay(steps, 0.1 * steps)
    for step, loss in enumerate(model_training_steps(model, parameters, batches, steps, rate, schedule), start=1):
        losses.append(loss)
        if step in looked:
            looks.append(_look_at_seeds(model, parameters, data))
    last = looks[-1]["each"]
    gone = [removal(model_of(model, parameters, place), data) for place in range(len(seeds))] if removed else None
    return {
        "heads": heads,
        "seeds": seeds,
        "accuracy": looks[-1]["accuracy"],
        "by_kind": torch.tensor([list(one["by_kind"].values()) for one in last]),
        "usual": last[0]["usual"],
        "usual_by_kind": list(last[0]["usual_by_kind"].values()),
        "words": last[0]["words"],
        "loss": torch.stack(losses),
        "at": looked,
        "accuracy_at": torch.stack([look["accuracy"] for look in looks]),
        **{name: torch.stack([look[name] for look in looks]) for name in ("divergence", "cka", "cosine")},
        "removal": {name: torch.stack([one[name] for one in gone]) for name in gone[0]} if gone else None,
        "parameters": parameters_per_model(parameters),
        "state": {name: one.detach() for name, one in parameters.items()},
        "settings": {"heads": heads, "layers": layers, "dim": dim},
        "data": {"count": count, "tested": tested},
    }


def _look_at_seeds(model: FormTagger, parameters: dict[str, Tensor], data: FormData) -> dict:
    seeds = len(next(iter(parameters.values())))
    each, differences = [], []
    for place in range(seeds):
        own = model_of(model, parameters, place)
        each.append(accuracy_with(own, None, data))
        differences.append(differences_of(own, data))
    return {
        "each": each,
        "accuracy": torch.tensor([one["accuracy"] for one in each]),
        **{name: torch.stack([one[name] for one in differences]) for name in differences[0]},
    }


def restore_forms(result: dict, place: int = 0) -> tuple[FormTagger, FormData]:
    """The trained tagger of the seed at `place` in a result of `train_forms`, and the data it was trained on."""
    data = form_data(**result["data"])
    model = FormTagger(len(data.words), len(data.forms), **result["settings"])
    return model_of(model, result["state"], place), data


# What heads cost

COUNTED = (1, 2, 4, 8, 16)


@torch.no_grad()
def head_costs(
    heads: Sequence[int] = COUNTED, dim: int = 256, n: int = 256, batch: int = 4, repeats: int = 9, seed: int = 0
) -> list[dict]:
    """One row per number of heads, at one width: parameters; products, the multiplications of all matrix products; exponentials,
    one for each score; score_bytes, the memory of the weights; and the median seconds of the parts, on one machine at one time:
    projections (queries, keys, values and the mix), products_seconds (scores, and weights times values), softmax_seconds, and
    fused_seconds, all of it in one call that never stores the weights. Rounds go through all rows in turn."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = {count: MultiHeadAttention(dim, count) for count in heads}
        x = torch.randn(batch, n, dim)
    parts = {count: _parts(layer, x) for count, layer in layers.items()}
    times: dict[tuple[int, str], list[float]] = {(count, name): [] for count in heads for name in parts[count]}
    for round_ in range(repeats + 1):
        for count, name in times:
            start = time.perf_counter()
            parts[count][name]()
            if round_:  # the first round warms up
                times[count, name].append(time.perf_counter() - start)
    return [
        {
            "heads": count,
            "parameters": sum(one.numel() for one in layers[count].parameters()),
            "products": batch * (4 * n * dim * dim + 2 * n * n * dim),
            "exponentials": batch * count * n * n,
            "score_bytes": batch * count * n * n * x.element_size(),
            **{f"{name}_seconds": statistics.median(times[count, name]) for name in parts[count]},
        }
        for count in heads
    ]


def _parts(layer: MultiHeadAttention, x: Tensor) -> dict[str, Callable[[], object]]:
    query, key, value = layer.queries_keys_values(x)
    query, key, value = (part.contiguous() for part in (query, key, value))
    scores = query @ key.transpose(-2, -1) * query.size(-1) ** -0.5
    weights = scores.softmax(-1)

    def projections() -> Tensor:
        return layer.mix(layer.project(x)[..., : x.size(-1)])

    def products() -> Tensor:
        return (query @ key.transpose(-2, -1), weights @ value)[1]

    return {
        "projections": projections,
        "products": products,
        "softmax": lambda: scores.softmax(-1),
        "fused": lambda: layer(x),
    }
