"""Facts about greedy decoding and beam search."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.models.decoding import beam_search, greedy_decode
from utils.models.transformer import Transformer

PAD, START, END = 0, 1, 2

cases = st.fixed_dictionaries(
    {
        "b": st.integers(1, 4),
        "n": st.integers(1, 6),
        "words": st.integers(4, 7),
        "limit": st.integers(1, 6),
        "norm": st.sampled_from(["pre", "post"]),
        "seed": st.integers(0, 2**31),
    }
)


def draw(b=2, n=5, words=6, limit=4, norm="pre", seed=0):
    """A model whose sentences end now and then, source sentences with their mask, and the tokens."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(9, words, 8, 2, 6, norm=norm, dropout=0.5, tied="none")
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 9, (b, n), generator=generator)
    real = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return model.double(), source, real, {"start": START, "end": END, "limit": limit, "padding": PAD}


@torch.no_grad()
def log_probabilities(model, source, real, sentences):
    """Of translations of one source sentence, by teacher forcing; lists of words, without padding."""
    model.eval()
    longest = max(map(len, sentences))
    words = torch.tensor([[*one, *[PAD] * (longest - len(one))] for one in sentences])
    counted = torch.arange(longest) < torch.tensor([[len(one)] for one in sentences])
    before = torch.cat([torch.full((len(words), 1), START), words[:, :-1]], 1)
    logits, _ = model(source.expand(len(words), -1), real.expand(len(words), -1), before)
    own = logits.log_softmax(-1).gather(2, words.unsqueeze(2)).squeeze(2)
    return own.masked_fill(~counted, 0.0).sum(1).tolist()


def without_padding(row):
    """The words up to the end token, which is part of them."""
    row = row.tolist()
    return row[: row.index(END) + 1] if END in row else row


# Greedy


@settings(max_examples=25, deadline=None)
@given(cases, st.booleans())
def test_each_greedy_word_is_the_likeliest_after_those_before_it(case, cached):
    model, source, real, tokens = draw(**case)
    decoded = greedy_decode(model, source, real, **tokens, cached=cached)
    assert decoded.words.size(1) <= case["limit"]
    for row in range(case["b"]):
        words = without_padding(decoded.words[row])
        assert (decoded.words[row, len(words) :] == PAD).all()
        assert words[-1] == END or len(words) == case["limit"]
        model.eval()
        with torch.no_grad():
            logits, _ = model(source[row : row + 1], real[row : row + 1], torch.tensor([[START, *words[:-1]]]))
        assert logits[0].argmax(-1).tolist() == words
        (expected,) = log_probabilities(model, source[row], real[row], [words])
        assert decoded.log_probability[row].item() == pytest.approx(expected, abs=1e-9)


def test_what_each_step_saw_comes_out_on_request():
    model, source, real, tokens = draw(b=3, limit=6, words=6, seed=44)
    plain = greedy_decode(model, source, real, **tokens)
    decoded = greedy_decode(model, source, real, **tokens, need_weights=True, candidates=4)
    assert plain.cross is plain.candidates is plain.probabilities is None
    words, m = decoded.words, decoded.words.size(1)
    assert torch.equal(words, plain.words)
    assert decoded.cross.shape == (2, 3, 2, m, 5)  # layers, sentences, heads, words, source
    assert decoded.candidates.shape == decoded.probabilities.shape == (3, m, 4)
    model.eval()
    ended = []
    for row in range(3):
        sentence = without_padding(words[row])
        ended.append(len(sentence) < m)
        with torch.no_grad():
            target = torch.tensor([[START, *sentence[:-1]]])
            logits, looks = model(source[row : row + 1], real[row : row + 1], target, need_weights=True)
        for layer in range(2):
            got = decoded.cross[layer, row]
            torch.testing.assert_close(got[:, : len(sentence)], looks.cross[layer][0])
            assert (got[:, len(sentence) :] == 0).all()
        best = logits[0].softmax(-1).topk(4)
        assert torch.equal(decoded.candidates[row, : len(sentence)], best.indices)
        torch.testing.assert_close(decoded.probabilities[row, : len(sentence)], best.values)
        assert decoded.candidates[row, : len(sentence), 0].tolist() == sentence
    assert any(ended) and not all(ended)  # or there was nothing behind an end to look at


def test_decoding_switches_dropout_off_and_leaves_the_model_as_it_was():
    model, source, real, tokens = draw(b=4, limit=6)
    model.train()
    results = [greedy_decode(model, source, real, **tokens).log_probability for _ in range(3)]
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    assert model.training and model.decoder.layers[0].dropout.training
    scores = [beam_search(model, source, real, **tokens, width=2).score for _ in range(2)]
    assert torch.equal(*scores) and model.training
    model.eval()
    greedy_decode(model, source, real, **tokens)
    assert not model.training


# Beam


def beam_by_hand(model, source, real, words, limit, width, power):
    """One sentence, with lists: [words, log-probability] of the best, best first."""
    kept = [([], 0.0)]
    for _ in range(limit):
        grown = []
        for sentence, _ in kept:
            if END in sentence:
                grown.append(sentence)
            else:
                grown += [[*sentence, word] for word in range(words)]
        scored = list(zip(grown, log_probabilities(model, source, real, grown), strict=True))
        kept = sorted(scored, key=lambda pair: -pair[1] / len(pair[0]) ** power)[:width]
    return kept


@settings(max_examples=20, deadline=None)
@given(cases, st.integers(1, 3), st.sampled_from([0.0, 0.6, 1.0]), st.booleans())
def test_the_batched_beam_equals_one_written_with_lists(case, width, power, cached):
    case = {**case, "b": min(2, case["b"]), "words": 5, "limit": min(4, case["limit"])}
    model, source, real, tokens = draw(**case)
    beams = beam_search(model, source, real, **tokens, width=width, length_power=power, cached=cached)
    for row in range(case["b"]):
        by_hand = beam_by_hand(model, source[row], real[row], 5, case["limit"], width, power)
        assert [without_padding(one) for one in beams.words[row]] == [sentence for sentence, _ in by_hand]
        assert beams.log_probability[row].tolist() == pytest.approx([total for _, total in by_hand], abs=1e-9)


# The tree


@settings(max_examples=20, deadline=None)
@given(cases, st.integers(1, 4), st.sampled_from([0.0, 1.0]))
def test_the_tree_holds_every_sentence_that_came_out_and_says_what_was_dropped(case, width, power):
    model, source, real, tokens = draw(**case)
    beams = beam_search(model, source, real, **tokens, width=width, length_power=power, need_tree=True)
    assert beam_search(model, source, real, **tokens, width=width, length_power=power).tree is None
    assert len(beams.tree) == case["b"]
    for row, steps in enumerate(beams.tree):
        sentences = []  # of the nodes of each step
        for depth, nodes in enumerate(steps):
            before = steps[depth - 1] if depth else []
            own = []
            for node in nodes:
                assert (node.parent == -1) == (depth == 0)
                begun = sentences[-1][node.parent] if depth else []
                if depth:
                    assert before[node.parent].kept  # what was dropped has no children
                    assert before[node.parent].ended == (node.word is None)
                own.append(begun if node.word is None else [*begun, node.word])
                assert node.ended == (own[-1][-1] == END)
                assert node.score == pytest.approx(node.log_probability / len(own[-1]) ** power)
            assert len({tuple(one) for one in own}) == len(own)
            kept, dropped = [one for one in nodes if one.kept], [one for one in nodes if not one.kept]
            assert nodes == [*kept, *dropped] and len(kept) <= width
            scores = [one.score for one in kept]
            assert scores == sorted(scores, reverse=True)
            assert all(one.score <= scores[-1] for one in dropped)
            sentences.append(own)
        final = [sentence for sentence, node in zip(sentences[-1], steps[-1], strict=True) if node.kept]
        assert final == [without_padding(one) for one in beams.words[row]]
        assert [one.log_probability for one in steps[-1] if one.kept] == pytest.approx(
            beams.log_probability[row].tolist()
        )
