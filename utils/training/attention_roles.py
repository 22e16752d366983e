"""What each attention of a trained Transformer is used for, measured on held-out sentences, beside what chance would give.

A weight says where a head looked, not what it did with it. So shares of weight are no proof of a cause; hiding a place is.
"""

import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from utils.data.agreements import Agreement, agreements
from utils.data.french import agree
from utils.data.phrase_words import ADJECTIVES, EVERY_NOUN, Noun
from utils.data.phrases import Pair
from utils.data.tokens import collate
from utils.models.self_attention import causal_mask
from utils.training.transformer import HeadChoice, Reading, TrainedTransformer, readings
from utils.training.translation import pairs_and_words

ATTENTIONS = ("encoder", "decoder", "cross")
DENIALS = ("not", "never")
FIRST, SECOND = ("ne", "n'"), ("pas", "jamais")  # French says it twice: before the verb and after it
CHOOSING, JUDGING = 1, 3  # seeds of the sentences that choose a head and of those that judge it
NOUNS = {form: noun for noun in EVERY_NOUN for form in (noun.english, noun.english_plural)}
QUALITIES = {adjective.english: adjective.french for adjective in ADJECTIVES}  # to the masculine singular


# Negation


def with_negation(pairs: Sequence[Pair]) -> list[Pair]:
    """Those with exactly one "not" or "never"."""
    return [pair for pair in pairs if sum(word in DENIALS for word in pair.english) == 1]


def negation_shares(trained: TrainedTransformer, pairs: Sequence[Pair]) -> dict:
    """How much of the weight goes to "not" or "never" while each half of the French negation is named.

    The weights are those that the model shows as its alignment. Returns first ("ne"), second ("pas", "jamais"), elsewhere
    (while any other word is named), chance (weight spread evenly over the source) and count, of sentences.
    """
    chosen = with_negation(pairs)
    if not chosen:
        raise ValueError(f"expected a pair with one of {' and '.join(DENIALS)} in it, got none in {len(pairs)} pairs")
    shares: dict[str, list[float]] = {"first": [], "second": [], "elsewhere": []}
    for pair, weights in zip(chosen, trained.weights(chosen), strict=True):
        denial = next(place for place, word in enumerate(pair.english) if word in DENIALS)
        for row, word in enumerate(pair.french):
            name = "first" if word in FIRST else "second" if word in SECOND else "elsewhere"
            shares[name].append(weights[row, denial].item())
    found = {name: statistics.mean(values) for name, values in shares.items()}
    chance = statistics.mean(1 / (len(pair.english) + 1) for pair in chosen)
    return found | {"chance": chance, "count": len(chosen)}


# Agreement at a distance


def held_out_agreements(count: int, seed: int, pairs: int) -> list[Agreement]:
    """Sentences with an adjective far from its noun, none of them among the `pairs` training pairs."""
    return agreements(count, seed, {pair.english for pair in pairs_and_words(pairs)[0].train})


def agreement_shares(cases: Sequence[Agreement], read: Sequence[Reading]) -> dict[str, dict]:
    """How much of the weight goes from an adjective to its own noun, and to the other nouns between the two (mean of them).

    "encoder": from the English adjective to the English nouns. "cross": from the step that names the French adjective to the
    English nouns. "decoder": from that step to the steps that named the French nouns: these had just looked the noun up in the
    source, while the word itself is read one step later. For each own and between (layers, heads), and chance, a number:
    weight spread evenly over what may be seen.
    """
    own, between, chance = ({name: [] for name in ATTENTIONS} for _ in range(3))
    for case, reading in zip(cases, read, strict=True):
        said = case.french(case.adjective)
        for name, row, columns in (
            ("encoder", case.adjective, [case.noun, *case.attractors]),
            ("cross", said, [case.noun, *case.attractors]),
            ("decoder", said, [case.french(place) for place in (case.noun, *case.attractors)]),
        ):
            weights = torch.stack(getattr(reading.looks, name))[:, :, row]  # (layers, heads, places)
            seen = said + 1 if name == "decoder" else weights.size(-1)
            own[name].append(weights[..., columns[0]])
            between[name].append(weights[..., columns[1:]].mean(-1))
            chance[name].append(1 / seen)
    return {
        name: {
            "own": torch.stack(own[name]).mean(0),
            "between": torch.stack(between[name]).mean(0),
            "chance": statistics.mean(chance[name]),
        }
        for name in ATTENTIONS
    }


def best_head(shares: Tensor) -> HeadChoice:
    """The place of the largest share (layers, heads)."""
    return HeadChoice(*divmod(int(shares.argmax()), shares.size(1)))


def agreement_heads(trained: TrainedTransformer, pairs: int, count: int = 300) -> list[dict]:
    """For each kind of attention the head that looks most from an adjective to its noun: attention, layer, head, own, between,
    chance. `count` held-out sentences choose the head, and as many others give the figures."""
    chosen, judged = (
        agreement_shares(cases, readings(trained, [case.pair for case in cases]))
        for cases in (held_out_agreements(count, seed, pairs) for seed in (CHOOSING, JUDGING))
    )
    rows = []
    for name in ATTENTIONS:
        place = best_head(chosen[name]["own"])
        rows.append(
            {
                "attention": name,
                "layer": place.layer,
                "head": place.head,
                "own": judged[name]["own"][place].item(),
                "between": judged[name]["between"][place].item(),
                "chance": judged[name]["chance"],
            }
        )
    return rows


def agreement_accuracy(trained: TrainedTransformer, cases: Sequence[Agreement]) -> float:
    """The share of adjectives far from their nouns that get the right form, with the right words before them given."""
    return _adjectives_right(trained, cases)


def accuracy_without_links(trained: TrainedTransformer, cases: Sequence[Agreement]) -> dict[str, float]:
    """The same share when one place is hidden from the adjective's: does the model need that look?

    said: in the decoder, the place that said the noun; read: the one that then read it; encoder: the noun, hidden from all other
    source words; cross: the noun, hidden in the source from the step that names the adjective. nothing: as it is.
    """
    rows = torch.arange(len(cases))
    adjective = torch.tensor([case.french(case.adjective) for case in cases])
    said = torch.tensor([case.french(case.noun) for case in cases])
    noun = torch.tensor([case.noun for case in cases])

    def hide_from_adjective(places: Tensor) -> Callable[[Tensor], None]:
        def hide(mask: Tensor) -> None:
            mask[rows, adjective, places] = False

        return hide

    def hide_from_others(mask: Tensor) -> None:
        own = mask[rows, noun].clone()
        mask[rows, :, noun] = False
        mask[rows, noun] = own

    return {
        "nothing": _adjectives_right(trained, cases),
        "said": _adjectives_right(trained, cases, decoder=hide_from_adjective(said)),
        "read": _adjectives_right(trained, cases, decoder=hide_from_adjective(said + 1)),
        "encoder": _adjectives_right(trained, cases, encoder=hide_from_others),
        "cross": _adjectives_right(trained, cases, cross=hide_from_adjective(noun)),
    }


@torch.no_grad()
def _adjectives_right(
    trained: TrainedTransformer, cases: Sequence[Agreement], **hide: Callable[[Tensor], None]
) -> float:
    """hide: for an attention by its name, what takes places out of its mask, (b, n, n), (b, m, m) or (b, m, n), in place."""
    batch = collate([case.pair for case in cases], trained.english, trained.french)
    (b, n), m = batch.source.shape, batch.target_in.size(1)
    masks = {
        "encoder": batch.source_mask.unsqueeze(1).repeat(1, n, 1),
        "decoder": causal_mask(m).repeat(b, 1, 1),
        "cross": batch.source_mask.unsqueeze(1).repeat(1, m, 1),
    }
    for name, take_out in hide.items():
        take_out(masks[name])
    model = trained.model
    memory, _ = model.encoder(model.source_vectors(batch.source), masks["encoder"])
    x, _, _ = model.decoder(model.target_vectors(batch.target_in), memory, masks["decoder"], masks["cross"])
    rows, places = torch.arange(b), torch.tensor([case.french(case.adjective) for case in cases])
    said = model.output(x[rows, places]).argmax(-1)
    return (said == batch.target_out[rows, places]).float().mean().item()


def noun_of(case: Agreement) -> Noun:
    """The noun that the adjective describes."""
    return NOUNS[case.pair.english[case.noun]]


def forms(case: Agreement) -> tuple[str, str]:
    """What the French adjective is with a masculine noun and with a feminine one, in the number that the verb shows."""
    english, noun = case.pair.english, noun_of(case)
    several = english[case.noun] != noun.english
    return tuple(agree(QUALITIES[english[case.adjective]], feminine, several) for feminine in (False, True))


def gender_guessed(cases: Sequence[Agreement]) -> float:
    """The share of adjectives that are right if the number is read off the verb and the gender is guessed: the commoner one.

    Adjectives with one form for both are always right. A model that does not find the noun can do this well.
    """
    commoner = sum(noun_of(case).feminine for case in cases) > len(cases) / 2
    return statistics.mean(case.pair.french[case.french(case.adjective)] == forms(case)[commoner] for case in cases)


# Two sentences to look at


def shortest_negation(pairs: Sequence[Pair]) -> Pair:
    """The shortest with "does not" or "do not", where French has a word on each side of the verb and English needs a helper."""
    fitting = [pair for pair in with_negation(pairs) if {"do", "does"} & set(pair.english) and "not" in pair.english]
    return min(fitting, key=lambda pair: (len(pair.english), pair.english))


def shortest_agreement(cases: Sequence[Agreement]) -> Agreement:
    """The shortest in which all nouns in between are of the other gender and would ask for another form of the adjective.

    The number would not do: the verb beside the adjective shows it.
    """

    def misleading(case: Agreement) -> bool:
        masculine, feminine = forms(case)
        between = (NOUNS[case.pair.english[place]] for place in case.attractors)
        return masculine != feminine and all(noun.feminine != noun_of(case).feminine for noun in between)

    return min(filter(misleading, cases), key=lambda case: (len(case.pair.english), case.pair.english))
