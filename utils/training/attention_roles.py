"""What the attention heads of a trained Transformer attend to on held-out sentences, next to uniform attention.

Attention weights are no proof of a cause (Jain and Wallace, 2019, arXiv:1902.10186); masking a position is an intervention.
"""

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from utils.data.agreements import Agreement, agreements
from utils.data.french import agree
from utils.data.phrase_words import ADJECTIVES, EVERY_NOUN, Noun
from utils.data.phrases import Pair
from utils.data.tokens import collate
from utils.models.attention import causal_mask
from utils.training.transformer import PairAttention, TrainedTransformer, pair_attention
from utils.training.translation import pairs_and_words

ATTENTIONS = ("encoder", "decoder", "cross")
NEGATIONS = ("not", "never")
FIRST, SECOND = ("ne", "n'"), ("pas", "jamais")  # French negation has two parts, before the verb and after it
SELECTION_SEED, TEST_SEED = 1, 3  # of the sentences that select a head, and of those it is tested on
NOUNS = {form: noun for noun in EVERY_NOUN for form in (noun.english, noun.english_plural)}
FRENCH_ADJECTIVES = {adjective.english: adjective.french for adjective in ADJECTIVES}  # masculine singular


# Negation


def with_negation(pairs: Sequence[Pair]) -> list[Pair]:
    """Those with exactly one "not" or "never"."""
    return [pair for pair in pairs if sum(word in NEGATIONS for word in pair.english) == 1]


def negation_weights(trained: TrainedTransformer, pairs: Sequence[Pair]) -> dict:
    """Mean weight of the alignment head on "not" or "never" at the positions that predict the French negation.

    Returns first ("ne"), second ("pas", "jamais"), elsewhere (at all other tokens), uniform (of uniform attention) and count,
    the number of sentences.
    """
    negated = with_negation(pairs)
    weights_of: dict[str, list[float]] = {"first": [], "second": [], "elsewhere": []}
    for pair, weights in zip(negated, trained.weights(negated), strict=True):
        negation = next(position for position, word in enumerate(pair.english) if word in NEGATIONS)
        for row, word in enumerate(pair.french):
            name = "first" if word in FIRST else "second" if word in SECOND else "elsewhere"
            weights_of[name].append(weights[row, negation].item())
    means = {name: statistics.mean(values) for name, values in weights_of.items()}
    return means | {"uniform": _mean_inverse(len(pair.english) + 1 for pair in negated), "count": len(negated)}


def _mean_inverse(lengths) -> float:
    return statistics.mean(1 / length for length in lengths)


# Long-distance agreement


def held_out_agreements(count: int, seed: int, num_pairs: int) -> list[Agreement]:
    """Sentences with an adjective far from its noun, none of them among the `num_pairs` training pairs."""
    return agreements(count, seed, {pair.english for pair in pairs_and_words(num_pairs)[0].train})


def agreement_weights(cases: Sequence[Agreement], attended: Sequence[PairAttention]) -> dict[str, dict]:
    """Mean attention weights from an adjective to its noun, and to the attractors between the two.

    "encoder": from the English adjective to the English nouns. "cross": from the position that predicts the French adjective to
    the English nouns. "decoder": from that position to those that predicted the French nouns; the noun itself is the input one
    position later. For each: noun and attractors (num_layers, num_heads), and uniform, the weight of uniform attention.
    """
    noun, attractors, lengths = ({name: [] for name in ATTENTIONS} for _ in range(3))
    for case, pair in zip(cases, attended, strict=True):
        adjective = case.french(case.adjective)
        english = [case.noun, *case.attractors]
        for name, row, columns in (
            ("encoder", case.adjective, english),
            ("cross", adjective, english),
            ("decoder", adjective, [case.french(position) for position in english]),
        ):
            weights = torch.stack(getattr(pair.weights, name))[:, :, row]  # (num_layers, num_heads, positions)
            noun[name].append(weights[..., columns[0]])
            attractors[name].append(weights[..., columns[1:]].mean(-1))
            lengths[name].append(adjective + 1 if name == "decoder" else weights.size(-1))
    return {
        name: {
            "noun": torch.stack(noun[name]).mean(0),
            "attractors": torch.stack(attractors[name]).mean(0),
            "uniform": _mean_inverse(lengths[name]),
        }
        for name in ATTENTIONS
    }


def agreement_heads(trained: TrainedTransformer, num_pairs: int, count: int = 300) -> list[dict]:
    """For each kind of attention the head that attends most from an adjective to its noun: attention, layer, head, noun,
    attractors, uniform. `count` held-out sentences select the head, as many others give the weights."""
    selection, test = (
        agreement_weights(cases, pair_attention(trained, [case.pair for case in cases]))
        for cases in (held_out_agreements(count, seed, num_pairs) for seed in (SELECTION_SEED, TEST_SEED))
    )
    rows = []
    for name in ATTENTIONS:
        layer, head = divmod(int(selection[name]["noun"].argmax()), selection[name]["noun"].size(1))
        weights = {column: test[name][column][layer, head].item() for column in ("noun", "attractors")}
        rows.append({"attention": name, "layer": layer, "head": head, **weights, "uniform": test[name]["uniform"]})
    return rows


@torch.no_grad()
def ablated_accuracy(trained: TrainedTransformer, cases: Sequence[Agreement]) -> dict[str, float]:
    """Accuracy on adjectives far from their nouns, under teacher forcing, with one position masked: does the model need to
    attend to it?

    noun_output: in the decoder, the position that predicted the noun; noun_input: the one whose input is the noun, both masked
    at the position that predicts the adjective; encoder: the noun, masked for all other source tokens; cross: the noun in the
    source, masked at the position that predicts the adjective. none: nothing masked.
    """
    batch, model = collate([case.pair for case in cases], trained.english, trained.french), trained.model
    (b, n), m = batch.source.shape, batch.target_in.size(1)
    rows, noun = torch.arange(b), torch.tensor([case.noun for case in cases])
    adjective = torch.tensor([case.french(case.adjective) for case in cases])
    predicted_noun = torch.tensor([case.french(case.noun) for case in cases])

    def accuracy(name: str | None = None, queries: Tensor | slice = slice(None), keys: Tensor | None = None) -> float:
        """With the keys (b,) masked at the queries (b,) of one kind of attention."""
        masks = {
            "encoder": batch.source_mask.unsqueeze(1).repeat(1, n, 1),
            "decoder": causal_mask(m).repeat(b, 1, 1),
            "cross": batch.source_mask.unsqueeze(1).repeat(1, m, 1),
        }
        if name:
            masks[name][rows, queries, keys] = False
        masks["encoder"][rows, noun, noun] = True  # to itself a noun may attend in any case
        memory, _ = model.encoder(model.source_embedding(batch.source), masks["encoder"])
        x, _, _ = model.decoder(model.target_embedding(batch.target_in), memory, masks["decoder"], masks["cross"])
        predicted = model.lm_head(x[rows, adjective]).argmax(-1)
        return (predicted == batch.target_out[rows, adjective]).float().mean().item()

    return {
        "none": accuracy(),
        "noun_output": accuracy("decoder", adjective, predicted_noun),
        "noun_input": accuracy("decoder", adjective, predicted_noun + 1),
        "encoder": accuracy("encoder", keys=noun),
        "cross": accuracy("cross", adjective, noun),
    }


def noun_of(case: Agreement) -> Noun:
    """The noun with which the adjective agrees."""
    return NOUNS[case.pair.english[case.noun]]


def adjective_forms(case: Agreement) -> tuple[str, str]:
    """The French adjective, masculine and feminine, in the grammatical number of its noun."""
    english, noun = case.pair.english, noun_of(case)
    plural = english[case.noun] != noun.english
    return tuple(agree(FRENCH_ADJECTIVES[english[case.adjective]], feminine, plural) for feminine in (False, True))


def majority_gender_accuracy(cases: Sequence[Agreement]) -> float:
    """Accuracy of a baseline that always predicts the more frequent gender, and takes the number from the verb.

    A model that ignores the noun can reach this.
    """
    majority = sum(noun_of(case).feminine for case in cases) > len(cases) / 2
    correct = (case.pair.french[case.french(case.adjective)] == adjective_forms(case)[majority] for case in cases)
    return statistics.mean(correct)


# Two examples


def shortest_negation(pairs: Sequence[Pair]) -> Pair:
    """The shortest with "does not" or "do not": French has a word on each side of the verb, English an auxiliary."""
    fitting = [pair for pair in with_negation(pairs) if {"do", "does"} & set(pair.english) and "not" in pair.english]
    return min(fitting, key=lambda pair: (len(pair.english), pair.english))


def shortest_agreement(cases: Sequence[Agreement]) -> Agreement:
    """The shortest in which all attractors have the other gender and would need another form of the adjective.

    Number would not do: the verb next to the adjective shows it.
    """

    def misleading(case: Agreement) -> bool:
        masculine, feminine = adjective_forms(case)
        attractors = (NOUNS[case.pair.english[position]] for position in case.attractors)
        return masculine != feminine and all(noun.feminine != noun_of(case).feminine for noun in attractors)

    return min(filter(misleading, cases), key=lambda case: (len(case.pair.english), case.pair.english))
