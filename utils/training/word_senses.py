"""Probing MiniLM (Wang et al., 2020b, arXiv:2002.10957): word senses, the attention sink, antecedents of pronouns.

All sentences are the course's own, and nothing is trained. The senses of a word separate layer by layer. [CLS] receives most
attention and passes on little. Some heads find the antecedent by the gender of the pronoun; none solves Winograd schemas.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.models.pretrained import HiddenStates, PretrainedEncoder

# --- word senses ---------------------------------------------------------------------------------------


class Sense(NamedTuple):
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


def sense_similarities(encoder: PretrainedEncoder, first: Sense, second: Sense) -> dict[str, Tensor]:
    """Cosine similarity of a word's contextual embeddings within its first and second sense, and across the two.

    {"first", "second", "across"}: mean, min and max over pairs of sentences after each layer, (num_layers + 1, 3).
    """
    hidden = encoder.hidden_states(first.sentences + second.sentences)
    positions = [tokens.index(first.word) for tokens in hidden.tokens]
    # (num_layers + 1, sentences, dim)
    embeddings = F.normalize(torch.stack(hidden.states)[:, range(len(positions)), positions], dim=-1)
    return by_sense(embeddings @ embeddings.transpose(-2, -1), len(first.sentences))


def by_sense(cosines: Tensor, n: int) -> dict[str, Tensor]:
    """Cosines (layers, b, b) of which the first n texts have the first sense, to the summary of `sense_similarities`."""
    pairs = torch.ones_like(cosines[0], dtype=torch.bool).triu(1)  # no sentence with itself
    parts = {
        "first": cosines[:, :n, :n][:, pairs[:n, :n]],
        "second": cosines[:, n:, n:][:, pairs[n:, n:]],
        "across": cosines[:, :n, n:].flatten(1),
    }
    return {name: torch.stack([part.mean(1), part.amin(1), part.amax(1)], 1) for name, part in parts.items()}


# --- attention sink ----------------------------------------------------------------------------------------------


@torch.no_grad()
def value_norms(encoder: PretrainedEncoder, hidden: HiddenStates) -> Tensor:
    """Norm of each token's value vectors, mean over the heads: (num_layers, b, n).

    In a post-norm encoder a layer projects the hidden states below it as they are.
    """
    norms = []
    for layer, states in zip(encoder.model.encoder.layers, hidden.states, strict=False):
        value = layer.self_attn.in_proj(states).chunk(3, -1)[2]
        norms.append(value.unflatten(-1, (encoder.model.config.num_heads, -1)).norm(dim=-1).mean(-1))
    return torch.stack(norms)


# --- pronouns and their antecedents -----------------------------------------------------------------------------


class PronounExample(NamedTuple):
    """A sentence with a pronoun, the noun it refers to (its antecedent), and a noun it does not refer to."""

    sentence: str
    antecedent: str
    distractor: str
    pronoun: str


Twins = tuple[PronounExample, PronounExample]


def _twins(pattern: str, pronoun: str | None = None, **antecedents: str) -> Twins:
    """Two sentences that differ in one word, each with the antecedent that this word makes likely.

    Without a pronoun, the word itself is the pronoun.
    """
    (first, noun), (second, other_noun) = antecedents.items()
    return (
        PronounExample(pattern.format(first), noun, other_noun, pronoun or first),
        PronounExample(pattern.format(second), other_noun, noun, pronoun or second),
    )


# The gender of the pronoun determines its antecedent.
BY_GENDER = (
    _twins("The king met the queen when {} was young.", he="king", she="queen"),
    _twins("The actress thanked the actor before {} left.", he="actor", she="actress"),
    _twins("The boy called the girl because {} was late.", he="boy", she="girl"),
    _twins("The mother told the father that {} was right.", he="father", she="mother"),
    _twins("The uncle visited the aunt while {} was ill.", he="uncle", she="aunt"),
    _twins("The sister asked the brother whether {} could swim.", he="brother", she="sister"),
    _twins("The husband wrote to the wife as soon as {} arrived.", he="husband", she="wife"),
    _twins("The princess saw the prince when {} rode past.", he="prince", she="princess"),
    _twins("The man paid the woman because {} had helped.", he="man", she="woman"),
    _twins("The daughter heard the son after {} came home.", he="son", she="daughter"),
    _twins("The gentleman greeted the lady as {} came in.", he="gentleman", she="lady"),
    _twins("The grandmother fed the grandfather when {} was weak.", he="grandfather", she="grandmother"),
)
# Winograd schemas: only knowledge about the world determines the antecedent.
WINOGRAD = (
    _twins("The dog left the bone because it was {}.", "it", tired="dog", rotten="bone"),
    _twins("The cat sat by the stove because it was {}.", "it", cold="cat", hot="stove"),
    _twins("The horse passed the fence although it was {}.", "it", lame="horse", wooden="fence"),
    _twins("The bird dropped the seed because it was {}.", "it", scared="bird", bitter="seed"),
    _twins("The truck hit the wall because it was {}.", "it", fast="truck", hidden="wall"),
    _twins("The child broke the cup because it was {}.", "it", clumsy="child", fragile="cup"),
    _twins("The ball broke the window because it was {}.", "it", heavy="ball", thin="window"),
    _twins("The cow ate the grass because it was {}.", "it", hungry="cow", green="grass"),
    _twins("The boat passed the bridge when it was {}.", "it", sailing="boat", raised="bridge"),
    _twins("The bear left the cave because it was {}.", "it", hungry="bear", flooded="cave"),
    _twins("The baby threw the soup because it was {}.", "it", angry="baby", salty="soup"),
    _twins("The fox took the egg because it was {}.", "it", greedy="fox", fresh="egg"),
)


def pronoun_attention(encoder: PretrainedEncoder, examples: Sequence[PronounExample]) -> Tensor:
    """Attention weights of the pronoun on its antecedent, on the distractor and on [CLS]: (examples, num_layers, num_heads, 3)."""
    hidden = encoder.hidden_states([example.sentence for example in examples], need_weights=True)
    weights = torch.stack(hidden.weights, 1)
    rows = []
    for tokens, example, own in zip(hidden.tokens, examples, weights, strict=True):
        words = (example.pronoun, example.antecedent, example.distractor)
        query, *keys = map(tokens.index, words)
        rows.append(own[:, :, query, [*keys, 0]])
    return torch.stack(rows)


def head_accuracy(attention: Tensor) -> Tensor:
    """How often a head attends more to the antecedent, (num_layers, num_heads). Chance is a half."""
    return (attention[..., 0] > attention[..., 1]).double().mean(0)


class HeadSelection(NamedTuple):
    """The best head on one half of the twins, tested on the other half.

    A head that always prefers the first noun, or the nearer one, scores exactly 50 %. head: (layer, head), from 1.
    mean_accuracy: of all heads, held out. attention: of this head, held out, on antecedent, distractor and [CLS].
    """

    head: tuple[int, int]
    selection_accuracy: float
    held_out_accuracy: float
    mean_accuracy: float
    attention: list[float]


def select_heads(encoder: PretrainedEncoder, twins: Sequence[Twins]) -> list[HeadSelection]:
    """Two-fold cross-validation: a head selected on the even twins and tested on the odd ones, and vice versa."""
    even, odd = (
        pronoun_attention(encoder, [example for pair in half for example in pair]) for half in (twins[::2], twins[1::2])
    )
    results = []
    for selection, held_out in ((even, odd), (odd, even)):
        scores, tested = head_accuracy(selection), head_accuracy(held_out)
        layer, head = divmod(int(scores.argmax()), scores.size(1))
        measured = (scores[layer, head].item(), tested[layer, head].item(), tested.mean().item())
        attention = held_out[:, layer, head].mean(0).tolist()
        results.append(HeadSelection((layer + 1, head + 1), *measured, attention))
    return results
