"""Translate a sentence that somebody typed, step by step: attention weights, and the most probable tokens."""

import difflib

from utils.data.phrases import Pair
from utils.data.tokens import EOS_ID, SPECIAL_TOKENS, Batch, Vocabulary, collate, join, split
from utils.models.decoding import beam_search, greedy_decode
from utils.training.transformer import SPECIAL_IDS, TrainedTransformer
from utils.training.translation import Trained, limit_for

MAX_WORDS = 26  # no sentence of the corpus has more


def read_sentence(text: str, vocabulary: Vocabulary) -> list[str]:
    """The words of an English sentence; raises ValueError with a message for whoever typed it."""
    words = [word for word in split(text, "english") if word[0].isalnum()]
    if not words:
        raise ValueError("The sentence is empty. Write one, for example: the old king sleeps")
    if len(words) > MAX_WORDS:
        raise ValueError(f"The sentence has {len(words)} words; the longest known has {MAX_WORDS}. Shorten it.")
    unknown = vocabulary.out_of_vocabulary(words)
    if unknown:
        known = list(vocabulary.words[4:])
        near = list(dict.fromkeys(match for word in unknown for match in difflib.get_close_matches(word, known, 2)))
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        examples = ", ".join(sorted(known)[:: max(1, len(known) // 40)])
        raise ValueError(
            f"Out of vocabulary: {', '.join(map(repr, unknown))}. The model has no embedding for it.{hint} "
            f"It knows {len(known)} words, for example: {examples}."
        )
    return words


def _batch(trained: Trained, words: list[str]) -> Batch:
    return collate([Pair(tuple(words), (), ())], trained.english, trained.french)


def decoding_steps(trained: Trained, text: str, num_candidates: int = 5) -> dict:
    """Greedy decoding of a sentence, step by step, for `utils.widgets.decoding_view`.

    source (n tokens, EOS last), target (m tokens), candidates: for each target token the most probable ones with their
    probabilities, weights (num_layers, num_heads, m, n) of the cross-attention or None, sentence: the translation as text.
    """
    words = read_sentence(text, trained.english)
    batch = _batch(trained, words)
    options = {"max_len": limit_for(len(words)), "need_weights": trained.attends, "num_candidates": num_candidates}
    decoded = greedy_decode(trained.model, batch.source, batch.source_mask, **SPECIAL_IDS, **options)
    tokens = trained.french.words
    steps = zip(decoded.candidates[0].tolist(), decoded.probabilities[0].tolist(), strict=True)
    return {
        "source": [*words, SPECIAL_TOKENS[EOS_ID]],
        "target": [tokens[token_id] for token_id in decoded.token_ids[0].tolist()],
        "candidates": [list(zip([tokens[id] for id in ids], probs, strict=True)) for ids, probs in steps],
        "weights": decoded.cross[:, 0] if trained.attends else None,
        "sentence": join(trained.french.decode(decoded.token_ids[0]), "french"),
    }


def search_tree(trained: TrainedTransformer, text: str, num_beams: int) -> list[list[tuple]]:
    """The tree of a beam search for `utils.widgets.beam_tree`: steps of (parent, token, log_prob, kept, ended)."""
    words = read_sentence(text, trained.english)
    batch = _batch(trained, words)
    options = {"max_len": limit_for(len(words)), "num_beams": num_beams, "need_tree": True}
    (tree,) = beam_search(trained.model, batch.source, batch.source_mask, **SPECIAL_IDS, **options).tree
    tokens = trained.french.words
    return [
        [
            (
                node.parent,
                None if node.token_id is None else tokens[node.token_id],
                node.log_prob,
                node.kept,
                node.ended,
            )
            for node in step
        ]
        for step in tree
    ]
