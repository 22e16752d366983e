"""What a published encoder encodes: word senses, the antecedents of pronouns, paraphrases.

All sentences are the course's own. Nothing is trained here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.models.pretrained import PretrainedEncoder

# --- word senses ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sense:
    """Sentences in which `word` occurs once, in one sense."""

    word: str
    name: str
    sentences: tuple[str, ...]


WATCH = (
    Sense(
        "watch",
        "noun",
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


def token_position(tokens: Sequence[str], word: str) -> int:
    """Position of a word that must be a single token and occur once."""
    positions = [position for position, token in enumerate(tokens) if token == word.lower()]
    if len(positions) != 1:
        raise ValueError(f"expected {word!r} once and as a single token, got {len(positions)} in: {' '.join(tokens)}")
    return positions[0]


def contextual_embeddings(encoder: PretrainedEncoder, sentences: Sequence[str], word: str) -> Tensor:
    """Hidden states of the word in each sentence, the embeddings first: (num_layers + 1, sentences, dim)."""
    hidden = encoder.hidden_states(sentences)
    positions = torch.tensor([token_position(tokens, word) for tokens in hidden.tokens])
    return torch.stack(hidden.states)[:, torch.arange(len(positions)), positions]


def sense_similarities(encoder: PretrainedEncoder, first: Sense, second: Sense) -> dict[str, Tensor]:
    """Cosine similarity of a word's contextual embeddings within its first and second sense, and across the two.

    {"first", "second", "across"}: mean, min and max over pairs of sentences after each layer, (num_layers + 1, 3).
    """
    n = len(first.sentences)
    embeddings = F.normalize(contextual_embeddings(encoder, first.sentences + second.sentences, first.word), dim=-1)
    cosines = embeddings @ embeddings.transpose(-2, -1)
    pairs = torch.ones_like(cosines[0], dtype=torch.bool).triu(1)  # no sentence with itself
    parts = {
        "first": cosines[:, :n, :n][:, pairs[:n, :n]],
        "second": cosines[:, n:, n:][:, pairs[n:, n:]],
        "across": cosines[:, :n, n:].flatten(1),
    }
    return {name: torch.stack([part.mean(1), part.amin(1), part.amax(1)], 1) for name, part in parts.items()}


# --- pronouns and their antecedents -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PronounExample:
    """A sentence with a pronoun, the noun it refers to (its antecedent), and a noun it does not refer to."""

    sentence: str
    antecedent: str
    distractor: str
    pronoun: str = "it"


Twins = tuple[PronounExample, PronounExample]


def _winograd(pattern: str, first: tuple[str, str], second: tuple[str, str]) -> Twins:
    """Winograd schema: two sentences whose only different word changes what "it" refers to."""
    (word, noun), (other_word, other_noun) = first, second
    return (
        PronounExample(pattern.format(word), noun, other_noun),
        PronounExample(pattern.format(other_word), other_noun, noun),
    )


def _gendered(pattern: str, man: str, woman: str) -> Twins:
    """Two sentences that differ in the pronoun alone."""
    return (
        PronounExample(pattern.format("he"), man, woman, "he"),
        PronounExample(pattern.format("she"), woman, man, "she"),
    )


# The gender of the pronoun determines its antecedent.
BY_GENDER = (
    _gendered("The king met the queen when {} was young.", "king", "queen"),
    _gendered("The actress thanked the actor before {} left.", "actor", "actress"),
    _gendered("The boy called the girl because {} was late.", "boy", "girl"),
    _gendered("The mother told the father that {} was right.", "father", "mother"),
    _gendered("The uncle visited the aunt while {} was ill.", "uncle", "aunt"),
    _gendered("The sister asked the brother whether {} could swim.", "brother", "sister"),
    _gendered("The husband wrote to the wife as soon as {} arrived.", "husband", "wife"),
    _gendered("The princess saw the prince when {} rode past.", "prince", "princess"),
    _gendered("The man paid the woman because {} had helped.", "man", "woman"),
    _gendered("The daughter heard the son after {} came home.", "son", "daughter"),
    _gendered("The gentleman greeted the lady as {} came in.", "gentleman", "lady"),
    _gendered("The grandmother fed the grandfather when {} was weak.", "grandfather", "grandmother"),
)
# Only knowledge about the world determines the antecedent.
WINOGRAD = (
    _winograd("The dog left the bone because it was {}.", ("tired", "dog"), ("rotten", "bone")),
    _winograd("The cat sat by the stove because it was {}.", ("cold", "cat"), ("hot", "stove")),
    _winograd("The horse passed the fence although it was {}.", ("lame", "horse"), ("wooden", "fence")),
    _winograd("The bird dropped the seed because it was {}.", ("scared", "bird"), ("bitter", "seed")),
    _winograd("The truck hit the wall because it was {}.", ("fast", "truck"), ("hidden", "wall")),
    _winograd("The child broke the cup because it was {}.", ("clumsy", "child"), ("fragile", "cup")),
    _winograd("The ball broke the window because it was {}.", ("heavy", "ball"), ("thin", "window")),
    _winograd("The cow ate the grass because it was {}.", ("hungry", "cow"), ("green", "grass")),
    _winograd("The boat passed the bridge when it was {}.", ("sailing", "boat"), ("raised", "bridge")),
    _winograd("The bear left the cave because it was {}.", ("hungry", "bear"), ("flooded", "cave")),
    _winograd("The baby threw the soup because it was {}.", ("angry", "baby"), ("salty", "soup")),
    _winograd("The fox took the egg because it was {}.", ("greedy", "fox"), ("fresh", "egg")),
)


def pronoun_attention(encoder: PretrainedEncoder, examples: Sequence[PronounExample]) -> Tensor:
    """Attention weights from the pronoun to its antecedent and to the distractor: (examples, num_layers, num_heads, 2)."""
    hidden = encoder.hidden_states([example.sentence for example in examples], need_weights=True)
    weights = torch.stack(hidden.weights, 1)
    rows = []
    for tokens, example, own in zip(hidden.tokens, examples, weights, strict=True):
        words = (example.pronoun, example.antecedent, example.distractor)
        query, *keys = (token_position(tokens, word) for word in words)
        rows.append(own[:, :, query, keys])
    return torch.stack(rows)


def head_accuracy(attention: Tensor) -> Tensor:
    """How often a head attends more to the antecedent, (num_layers, num_heads). Chance is a half."""
    return (attention[..., 0] > attention[..., 1]).double().mean(0)


class HeadSelection(NamedTuple):
    """The best head on one half of the twins, tested on the other half.

    A head that always prefers the first noun, or the nearer one, scores exactly 50 %. head: (layer, head), from 1.
    held_out_both: how often the head is correct on both twins. mean_accuracy: of all heads, held out.
    """

    head: tuple[int, int]
    selection_accuracy: float
    held_out_accuracy: float
    held_out_both: float
    mean_accuracy: float


def select_heads(encoder: PretrainedEncoder, twins: Sequence[Twins]) -> list[HeadSelection]:
    """Two-fold cross-validation: a head selected on the even twins and tested on the odd ones, and vice versa."""
    even, odd = (
        pronoun_attention(encoder, [example for pair in half for example in pair]) for half in (twins[::2], twins[1::2])
    )
    results = []
    for selection, held_out in ((even, odd), (odd, even)):
        scores, tested = head_accuracy(selection), head_accuracy(held_out)
        layer, head = divmod(int(scores.argmax()), scores.size(1))
        correct = held_out[:, layer, head, 0] > held_out[:, layer, head, 1]
        both = correct.view(-1, 2).all(1).double().mean()
        measured = (scores[layer, head], tested[layer, head], both, tested.mean())
        results.append(HeadSelection((layer + 1, head + 1), *(value.item() for value in measured)))
    return results


# --- paraphrases --------------------------------------------------------------------------------

# A sentence, a paraphrase, and a sentence that shares its words but not its meaning.
PARAPHRASES = (
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


def cosine_similarity(encoder: PretrainedEncoder, texts: Sequence[str], others: Sequence[str] | None = None) -> Tensor:
    """Cosine similarity of sentence embeddings, (texts, others); without others, of the texts among themselves."""
    embeddings = encoder.sentence_embeddings(texts)
    return embeddings @ (embeddings if others is None else encoder.sentence_embeddings(others)).T
