"""The functions that lesson 03 builds equal those of the library."""

from functools import partial

import pytest
import torch
from torch import nn

from utils.data.phrases import Pair
from utils.data.tokens import PAD_ID, Vocabulary, collate
from utils.exercises.solutions.lesson03 import (
    AdditiveScore,
    AttentionDecoder,
    MultiplicativeScore,
    alignment_error,
    dot_score,
    greedy_decode,
    pad,
    rnn_step,
    unroll,
)
from utils.models import decoding, recurrent
from utils.models.recurrent import SCORES, Seq2Seq
from utils.models.recurrent import AttentionDecoder as LibraryDecoder
from utils.training import metrics

BATCH, SOURCE_LEN, TARGET_LEN, HIDDEN_SIZE, VOCAB_SIZE = 3, 5, 4, 6, 11
BOS_ID, EOS_ID = 1, 2


@pytest.fixture(autouse=True)
def _seeded_float64():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(before)


def same(first, second):
    return torch.allclose(first, second, rtol=0, atol=1e-12)


def source_mask(lengths=(5, 2, 4)):
    return torch.arange(SOURCE_LEN) < torch.tensor(lengths).unsqueeze(1)


# Encoder


def test_pad_gives_the_token_ids_and_the_mask_of_a_batch():
    sentences = [("the", "dog", "sleeps"), ("the", "old", "dog", "sees", "the", "cat"), ("it", "sleeps")]
    vocabulary = Vocabulary.build(sentences)
    batch = collate([Pair(sentence, sentence, ()) for sentence in sentences], vocabulary, vocabulary)
    token_ids, mask = pad([[*vocabulary.encode(sentence), EOS_ID] for sentence in sentences], PAD_ID)
    assert torch.equal(token_ids, batch.source)
    assert torch.equal(mask, batch.source_mask)


def test_the_rnn_step_and_its_unrolling_are_those_of_torch():
    rnn = nn.RNN(HIDDEN_SIZE, 7, batch_first=True)
    W_ih, W_hh, b = rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0 + rnn.bias_hh_l0
    x, h = torch.randn(BATCH, SOURCE_LEN, HIDDEN_SIZE), torch.randn(BATCH, 7)
    hidden_states, final = unroll(x, h, lambda x_t, h: rnn_step(x_t, h, W_ih, W_hh, b))
    expected_states, expected_final = rnn(x, h.unsqueeze(0))
    assert same(hidden_states, expected_states) and same(final, expected_final.squeeze(0))
    assert same(rnn_step(x[:, 0], h, W_ih, W_hh, b), expected_states[:, 0])


# Scores


def test_the_scores_are_those_of_the_models():
    query, keys = torch.randn(BATCH, TARGET_LEN, HIDDEN_SIZE), torch.randn(BATCH, SOURCE_LEN, HIDDEN_SIZE)
    assert same(dot_score(query, keys), recurrent.DotScore(HIDDEN_SIZE, HIDDEN_SIZE)(query, keys))
    keys = torch.randn(BATCH, SOURCE_LEN, 8)
    for score, reference in (
        (MultiplicativeScore(HIDDEN_SIZE, 8), recurrent.MultiplicativeScore(HIDDEN_SIZE, 8)),
        (AdditiveScore(HIDDEN_SIZE, 8, 7), recurrent.AdditiveScore(HIDDEN_SIZE, 8, score_size=7)),
    ):
        score.load_state_dict(reference.state_dict())
        assert same(score(query, keys), reference(query, keys))
    b, i, j = 2, 3, 1
    expected = reference.v.weight[0] @ torch.tanh(reference.W(query[b, i]) + reference.U(keys[b, j]))
    assert same(reference(query, keys)[b, i, j], expected)


# Decoder


def copied(reference: LibraryDecoder) -> AttentionDecoder:
    """The lesson's decoder with the layers of the library's."""
    decoder = AttentionDecoder(VOCAB_SIZE, HIDDEN_SIZE, reference.score)
    decoder.embedding, decoder.combine, decoder.output = reference.embedding, reference.combine, reference.output
    decoder.cell.load_state_dict(
        {name.removesuffix("_l0"): value for name, value in reference.rnn.state_dict().items()}
    )
    return decoder


@pytest.mark.parametrize("score", SCORES)
def test_a_step_is_that_of_the_library_decoder(score):
    reference = LibraryDecoder(VOCAB_SIZE, HIDDEN_SIZE, "gru", score)
    token_ids, state = torch.randint(VOCAB_SIZE, (BATCH,)), torch.randn(BATCH, HIDDEN_SIZE)
    memory, mask = torch.randn(BATCH, SOURCE_LEN, HIDDEN_SIZE), source_mask()
    logits, new_state, weights = copied(reference)(token_ids, state, memory, mask)
    expected = reference(token_ids.unsqueeze(1), state.unsqueeze(0), memory, mask)
    assert same(logits, expected[0].squeeze(1))
    assert same(new_state, expected[1].squeeze(0))
    assert same(weights, expected[2].squeeze(1))


def random_model():
    """With large weights: some sentences end early, some late, some never."""
    model = Seq2Seq(VOCAB_SIZE, VOCAB_SIZE, "multiplicative", HIDDEN_SIZE, cell="gru")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


@pytest.mark.parametrize("max_len", [1, 4, 30])
def test_greedy_decoding_is_that_of_the_library(max_len):
    ends = []
    for _ in range(10):
        model = random_model()
        source, mask = torch.randint(3, VOCAB_SIZE, (20, SOURCE_LEN)), torch.ones(20, SOURCE_LEN, dtype=torch.bool)
        memory, state = model.encode(source, mask)
        step = partial(decoder_step, copied(model.decoder), memory, mask)
        generated = greedy_decode(step, state.squeeze(0), BOS_ID, EOS_ID, max_len)
        expected = decoding.greedy_decode(model, source, mask, bos_id=BOS_ID, eos_id=EOS_ID, max_len=max_len)
        assert torch.equal(generated, expected.token_ids)
        ends += (generated == EOS_ID).sum(1).tolist()
    assert set(ends) == {0, 1}


def decoder_step(decoder, memory, mask, token_ids, state):
    return decoder(token_ids, state, memory, mask)[:2]


def test_the_alignment_error_of_a_pair_is_that_of_the_metrics():
    links = ((0, 0), (2, 1), (1, 2), (1, 3))
    for seed in range(20):
        weights = torch.rand(4, 3, generator=torch.Generator().manual_seed(seed))
        expected = metrics.alignment_error([weights], [Pair(("a", "b", "c"), ("d", "e", "f", "g"), links)])
        assert alignment_error(weights, set(links)) == pytest.approx(expected)
