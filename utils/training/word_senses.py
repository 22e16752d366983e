"""What a real pretrained encoder knows: one word in two senses, where a pronoun looks, which sentences say the same.

All sentences are the course's own. Nothing is trained here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.models.bert import Hidden, PretrainedEncoder

# --- one word, two senses ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sense:
    """Sentences in which `word` occurs once, in one sense."""

    word: str
    name: str
    sentences: tuple[str, ...]


WATCH = (
    Sense(
        "watch",
        "thing",
        (
            "My grandfather left me a gold watch.",
            "The watch on her wrist stopped at noon.",
            "He wound his old watch every evening.",
            "This watch loses a minute a day.",
            "She took off her watch before the swim.",
            "The jeweller repaired a silver watch.",
            "He glanced at his watch and hurried on.",
            "A watch with a leather strap lay on the desk.",
        ),
    ),
    Sense(
        "watch",
        "verb",
        (
            "We watch the birds from the window.",
            "They watch television after dinner.",
            "Please watch the children for an hour.",
            "I watch every match of my team.",
            "You should watch where you step.",
            "The cats watch the fish in the pond.",
            "Let us watch the film tonight.",
            "Thousands watch the parade each year.",
        ),
    ),
)
SPRING = (
    Sense(
        "spring",
        "season",
        (
            "The flowers bloom in spring.",
            "Last spring was cold and wet.",
            "The birds return every spring.",
            "We plant potatoes in the spring.",
            "In spring the days grow longer.",
            "The river floods each spring.",
        ),
    ),
    Sense(
        "spring",
        "coil",
        (
            "A spring in the mattress is broken.",
            "The spring in the lock snapped.",
            "Stretch the steel spring and let it go.",
            "The door closes by a strong spring.",
            "A coiled spring drives the clock.",
            "He replaced the rusty spring of the trap.",
        ),
    ),
)


def place_of(pieces: Sequence[str], word: str) -> int:
    """Where the word stands among the pieces of a sentence; it must be one piece and occur once."""
    places = [place for place, piece in enumerate(pieces) if piece == word.lower()]
    if len(places) != 1:
        raise ValueError(f"expected {word!r} once and in one piece, got it {len(places)} times in: {' '.join(pieces)}")
    return places[0]


def word_vectors(real: PretrainedEncoder, sentences: Sequence[str], word: str) -> Tensor:
    """The vector of the word in each sentence after each layer, the embeddings first: (layers + 1, sentences, dim)."""
    hidden = real.hidden_states(sentences)
    places = torch.tensor([place_of(pieces, word) for pieces in hidden.pieces])
    return torch.stack(hidden.states)[:, torch.arange(len(places)), places]


@dataclass(frozen=True)
class Spread:
    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, numbers: Tensor) -> "Spread":
        return cls(numbers.mean().item(), numbers.min().item(), numbers.max().item())


@dataclass(frozen=True)
class SenseLayer:
    """After one layer (0: the embeddings), the cosines of pairs: both in the first sense, both in the second, one in each.

    `margin` is how far the mean of the first sense's pairs lies above that of the mixed pairs; `apart` is True if every pair
    of one sense, the first or the second, is more alike than every mixed pair.
    """

    layer: int
    first: Spread
    second: Spread
    mixed: Spread

    @property
    def margin(self) -> float:
        return self.first.mean - self.mixed.mean

    @property
    def apart(self) -> bool:
        return min(self.first.least, self.second.least) > self.mixed.most


def cosines(vectors: Tensor) -> Tensor:
    """(..., k, dim) to the cosine of each with each, (..., k, k)."""
    directions = F.normalize(vectors, dim=-1)
    return directions @ directions.transpose(-2, -1)


def sense_layers(real: PretrainedEncoder, first: Sense, second: Sense) -> list[SenseLayer]:
    """How alike the vectors of one word in two senses are, layer after layer; a sentence is never compared with itself."""
    many = len(first.sentences)
    alike = cosines(word_vectors(real, first.sentences + second.sentences, first.word))
    pairs = torch.ones_like(alike[0]).triu(1).bool()
    return [
        SenseLayer(
            layer,
            Spread.of(table[:many, :many][pairs[:many, :many]]),
            Spread.of(table[many:, many:][pairs[many:, many:]]),
            Spread.of(table[:many, many:]),
        )
        for layer, table in enumerate(alike)
    ]


# --- where a pronoun looks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Riddle:
    """A sentence with one pronoun, the noun that is meant by it, and another noun."""

    sentence: str
    meant: str
    other: str
    pronoun: str = "it"


def _twins(pattern: str, first: tuple[str, str], second: tuple[str, str]) -> tuple[Riddle, Riddle]:
    """Two sentences that differ in one word, which turns what "it" means: (word, noun), (word, the other noun)."""
    (one, noun), (two, other) = first, second
    return Riddle(pattern.format(one), noun, other), Riddle(pattern.format(two), other, noun)


def _he_and_she(pattern: str, man: str, woman: str) -> tuple[Riddle, Riddle]:
    """Two sentences that differ in the pronoun alone, and so in the noun that it can mean."""
    return Riddle(pattern.format("he"), man, woman, "he"), Riddle(pattern.format("she"), woman, man, "she")


# Who is meant follows from the form of the pronoun.
BY_FORM = (
    _he_and_she("The king met the queen when {} was young.", "king", "queen"),
    _he_and_she("The actress thanked the actor before {} left.", "actor", "actress"),
    _he_and_she("The boy called the girl because {} was late.", "boy", "girl"),
    _he_and_she("The mother told the father that {} was right.", "father", "mother"),
    _he_and_she("The uncle visited the aunt while {} was ill.", "uncle", "aunt"),
    _he_and_she("The sister asked the brother whether {} could swim.", "brother", "sister"),
    _he_and_she("The husband wrote to the wife as soon as {} arrived.", "husband", "wife"),
    _he_and_she("The princess saw the prince when {} rode past.", "prince", "princess"),
    _he_and_she("The man paid the woman because {} had helped.", "man", "woman"),
    _he_and_she("The daughter heard the son after {} came home.", "son", "daughter"),
    _he_and_she("The gentleman greeted the lady as {} came in.", "gentleman", "lady"),
    _he_and_she("The grandmother fed the grandfather when {} was weak.", "grandfather", "grandmother"),
)
# Who is meant follows only from what one knows of the world.
BY_SENSE = (
    _twins("The dog left the bone because it was {}.", ("tired", "dog"), ("rotten", "bone")),
    _twins("The cat sat by the stove because it was {}.", ("cold", "cat"), ("hot", "stove")),
    _twins("The horse passed the fence although it was {}.", ("lame", "horse"), ("wooden", "fence")),
    _twins("The bird dropped the seed because it was {}.", ("scared", "bird"), ("bitter", "seed")),
    _twins("The truck hit the wall because it was {}.", ("fast", "truck"), ("hidden", "wall")),
    _twins("The child broke the cup because it was {}.", ("clumsy", "child"), ("fragile", "cup")),
    _twins("The ball broke the window because it was {}.", ("heavy", "ball"), ("thin", "window")),
    _twins("The cow ate the grass because it was {}.", ("hungry", "cow"), ("green", "grass")),
    _twins("The boat passed the bridge when it was {}.", ("sailing", "boat"), ("raised", "bridge")),
    _twins("The bear left the cave because it was {}.", ("hungry", "bear"), ("flooded", "cave")),
    _twins("The baby threw the soup because it was {}.", ("angry", "baby"), ("salty", "soup")),
    _twins("The fox took the egg because it was {}.", ("greedy", "fox"), ("fresh", "egg")),
)


@dataclass(frozen=True)
class PronounLooks:
    """How much of each head's look from the pronoun goes to the noun that is meant and to the other: (riddles, layers, heads).

    `even` is the share that two pieces would get if all were looked at alike, as a mean over the riddles.
    """

    meant: Tensor
    other: Tensor
    even: float

    def nouns(self) -> Tensor:
        """The share of the look that goes to the two nouns together, (layers, heads)."""
        return (self.meant + self.other).mean(0)

    def right(self) -> Tensor:
        """The share of riddles in which a head looks more at what is meant, (layers, heads). Chance is a half."""
        return (self.meant > self.other).double().mean(0)


def pronoun_looks(real: PretrainedEncoder, riddles: Sequence[Riddle]) -> PronounLooks:
    hidden = real.hidden_states([riddle.sentence for riddle in riddles], need_weights=True)
    rows = looks_from(hidden, [riddle.pronoun for riddle in riddles])
    places = torch.tensor(
        [
            [place_of(pieces, riddle.meant), place_of(pieces, riddle.other)]
            for pieces, riddle in zip(hidden.pieces, riddles, strict=True)
        ]
    )
    at = places.view(len(riddles), 1, 1, 2).expand(-1, *rows.shape[1:3], -1)
    meant, other = rows.gather(-1, at).unbind(-1)
    return PronounLooks(meant, other, (2 / hidden.real.sum(1)).mean().item())


def looks_from(hidden: Hidden, words: Sequence[str]) -> Tensor:
    """Where its word, one for each sentence, looks: (sentences, layers, heads, pieces); each row sums to one."""
    places = torch.tensor([place_of(*both) for both in zip(hidden.pieces, words, strict=True)])
    weights = torch.stack(hidden.weights, 1)
    return weights[torch.arange(len(places)), :, :, places]


@dataclass(frozen=True)
class PronounReport:
    """What is to be seen, and whether it lasts: the head that was best on one half of the twins, tried on the other half.

    A head that always prefers the first noun, or the nearer one, is right for one twin of two: a half is what it gets.
    `best` is (layer, head), counted from 1; `both_elsewhere` is the share of twins of which that head
    gets both right, and `mean_right` the share of sentences that the heads get right on average.
    """

    mean_right: float
    best: tuple[int, int]
    right_where_chosen: float
    right_elsewhere: float
    both_elsewhere: float


def pronoun_report(real: PretrainedEncoder, twins: Sequence[tuple[Riddle, Riddle]]) -> list[PronounReport]:
    """Two reports: the head chosen on the even twins and tried on the odd ones, and the other way round."""
    reports = []
    for chosen_on, tried_on in ((twins[::2], twins[1::2]), (twins[1::2], twins[::2])):
        known = pronoun_looks(real, [riddle for pair in chosen_on for riddle in pair])
        fresh = pronoun_looks(real, [riddle for pair in tried_on for riddle in pair])
        right, held = known.right(), (fresh.meant > fresh.other)
        layer, head = divmod(int(right.argmax()), right.size(1))
        reports.append(
            PronounReport(
                mean_right=fresh.right().mean().item(),
                best=(layer + 1, head + 1),
                right_where_chosen=right[layer, head].item(),
                right_elsewhere=held[:, layer, head].double().mean().item(),
                both_elsewhere=held[:, layer, head].view(-1, 2).all(1).double().mean().item(),
            )
        )
    return reports


# --- sentences that say the same --------------------------------------------------------------------------------

# Three by three: a sentence, the same in other words, and one that shares its words but not what it says.
SAME_AND_OTHER = (
    (
        "A man is playing a guitar on the street.",
        "Someone makes music outdoors.",
        "A man is crossing the street with a dog.",
    ),
    ("The train to the coast was late.", "Our railway journey was delayed.", "The dress has a long train of silk."),
    ("How do I bake bread at home?", "A simple recipe for a loaf", "How do I earn bread for my home?"),
    (
        "The doctor told her to rest for a week.",
        "She was advised to take it easy.",
        "The doctor had a week of holidays.",
    ),
    ("Prices rose sharply last year.", "Everything became more expensive.", "The rose bloomed last year."),
    ("The children were asleep by nine.", "The kids had gone to bed.", "The nine children were noisy."),
)


def similarity(real: PretrainedEncoder, texts: Sequence[str], others: Sequence[str] | None = None) -> Tensor:
    """The cosine of each text with each of the others, (texts, others); without others, of the texts among themselves."""
    vectors = real.sentence_vectors(texts)
    return vectors @ (vectors if others is None else real.sentence_vectors(others)).T
