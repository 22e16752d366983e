"""The functions that lesson 03 builds give what the trained models use."""

from functools import partial

import pytest
import torch

from utils.data.phrases import Pair
from utils.data.tokens import PAD_ID, Vocabulary, collate
from utils.exercises.solutions.lesson03 import (
    AttentionDecoder,
    additive_score,
    alignment_error,
    dot_score,
    greedy_decode,
    multiplicative_score,
    pad,
    read_words,
    recurrent_step,
)
from utils.models.recurrent import TanhCell, unroll
from utils.models.seq2seq import SCORES, AdditiveScore, DotScore, MultiplicativeScore, Seq2Seq
from utils.models.seq2seq import AttentionDecoder as TrainedDecoder
from utils.training import metrics

BATCH, SOURCE, TARGET, WIDTH, WORDS = 3, 5, 4, 6, 11
START, END = 1, 2


@pytest.fixture(autouse=True)
def _numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(before)


def same(first, second):
    return torch.allclose(first, second, rtol=0, atol=1e-12)


def some_mask(lengths=(5, 2, 4)):
    return torch.arange(SOURCE) < torch.tensor(lengths).unsqueeze(1)


# Reading


def test_pad_makes_the_numbers_and_the_mask_of_a_batch():
    sentences = [("the", "dog", "sleeps"), ("the", "old", "dog", "sees", "the", "cat"), ("it", "sleeps")]
    vocabulary = Vocabulary.build(sentences)
    batch = collate([Pair(sentence, sentence, ()) for sentence in sentences], vocabulary, vocabulary)
    numbers, mask = pad([[*vocabulary.encode(sentence), END] for sentence in sentences], PAD_ID)
    assert torch.equal(numbers, batch.source)
    assert torch.equal(mask, batch.source_mask)


def test_the_step_and_the_reading_are_those_of_the_plain_cell():
    cell = TanhCell(WIDTH, 7)
    A, B = cell.from_input.weight.T, cell.from_state.weight.T
    c = cell.from_input.bias + cell.from_state.bias
    x, state = torch.randn(BATCH, SOURCE, WIDTH), torch.randn(BATCH, 7)
    assert same(recurrent_step(x[:, 0], state, A, B, c), cell(x[:, 0], state))
    ours = read_words(x, state, lambda word, state: recurrent_step(word, state, A, B, c))
    for mine, theirs in zip(ours, unroll(cell, x, state), strict=True):
        assert same(mine, theirs)
    assert same(ours[0][:, -1], ours[1])


# Scores


def state_and_memory(width=WIDTH, other=WIDTH):
    return torch.randn(BATCH, TARGET, width), torch.randn(BATCH, SOURCE, other)


def test_the_scores_are_those_of_the_models():
    state, memory = state_and_memory()
    assert same(dot_score(state, memory), DotScore(WIDTH, WIDTH)(state, memory))
    state, memory = state_and_memory(WIDTH, 8)
    general, additive = MultiplicativeScore(WIDTH, 8), AdditiveScore(WIDTH, 8, hidden=7)
    assert same(multiplicative_score(state, memory, general.map.weight.T), general(state, memory))
    A, B, v = additive.from_state.weight.T, additive.from_memory.weight.T, additive.weigh.weight[0]
    assert same(additive_score(state, memory, A, B, v), additive(state, memory))
    b, i, j = 2, 3, 1
    expected = v @ torch.tanh(additive.from_state(state[b, i]) + additive.from_memory(memory[b, j]))
    assert same(additive(state, memory)[b, i, j], expected)


# Writing


def copied(trained: TrainedDecoder) -> AttentionDecoder:
    """The taught decoder with the weights of the trained one."""
    decoder = AttentionDecoder(WORDS, WIDTH, trained.score)
    theirs = {
        name.replace("layer.", "cell.").removesuffix("_l0"): value for name, value in trained.state_dict().items()
    }
    decoder.load_state_dict(theirs)
    return decoder


@pytest.mark.parametrize("score", SCORES)
def test_a_step_is_that_of_the_trained_decoder(score):
    trained = TrainedDecoder(WORDS, WIDTH, "gru", score)
    word, state, memory = torch.randint(WORDS, (BATCH,)), torch.randn(BATCH, WIDTH), torch.randn(BATCH, SOURCE, WIDTH)
    logits, new, weights = copied(trained).step(word, state, memory, some_mask())
    their_logits, their_new, their_weights = trained.step(word, state.unsqueeze(0), memory, some_mask())
    assert same(logits, their_logits)
    assert same(new, their_new.squeeze(0))
    assert same(weights, their_weights)


def a_lively_model():
    """Of its sentences some end early, some late, some never."""
    model = Seq2Seq(WORDS, WORDS, "multiplicative", WIDTH, cell="gru")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


@pytest.mark.parametrize("limit", [1, 4, 30])
def test_greedy_decoding_says_what_the_whole_model_says(limit):
    ends = []
    for _ in range(10):
        model = a_lively_model()
        source, mask = torch.randint(3, WORDS, (20, SOURCE)), torch.ones(20, SOURCE, dtype=torch.bool)
        memory, state = model.encode(source, mask)
        step = partial(taught_step, copied(model.decoder), memory, mask)
        words = greedy_decode(step, state.squeeze(0), START, END, limit)
        assert torch.equal(words, model.greedy(source, mask, START, END, limit)[0])
        ends += (words == END).sum(1).tolist()
    assert set(ends) == {0, 1}


def taught_step(decoder, memory, mask, word, state):
    return decoder.step(word, state, memory, mask)[:2]


def test_the_alignment_error_of_a_pair_is_that_of_the_metrics():
    links = ((0, 0), (2, 1), (1, 2), (1, 3))
    for seed in range(20):
        weights = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed))
        theirs = metrics.alignment_error([weights], [Pair(("a", "b", "c"), ("d", "e", "f", "g"), links)])
        assert alignment_error(weights, set(links)) == pytest.approx(theirs)
