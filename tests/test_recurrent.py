"""Facts about the recurrent sequence-to-sequence model: padding, no leaks, decoding."""

import pytest
import torch

from utils.models.decoding import beam_search, greedy_decode
from utils.models.recurrent import (
    SCORES,
    AttentionDecoder,
    RecurrentEncoder,
    Seq2Seq,
)

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
BATCH, SOURCE_LEN, TARGET_LEN, HIDDEN_SIZE = 3, 7, 5, 6
SOURCE_VOCAB_SIZE, TARGET_VOCAB_SIZE = 11, 13
scores = pytest.mark.parametrize("score", [None, *SCORES])
layers = pytest.mark.parametrize("cell", ["gru", "lstm"])
directions = pytest.mark.parametrize("bidirectional", [True, False], ids=["bidirectional", "forward"])


@pytest.fixture(autouse=True)
def _seeded_float64():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield
        torch.set_default_dtype(before)


def close(first, second):
    return torch.allclose(first, second, rtol=0, atol=1e-10)


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


# Encoder


def make_model(score=None, **options):
    return Seq2Seq(SOURCE_VOCAB_SIZE, TARGET_VOCAB_SIZE, score, HIDDEN_SIZE, **options)


def random_source(lengths=(7, 2, 5)):
    """Token ids (b, n) with padding at the end, and their mask."""
    source = torch.randint(3, SOURCE_VOCAB_SIZE, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return source.masked_fill(~mask, PAD_ID), mask


def random_target():
    return torch.randint(3, TARGET_VOCAB_SIZE, (BATCH, TARGET_LEN))


@layers
@directions
def test_padding_never_changes_an_output_of_the_encoder(cell, bidirectional):
    encoder = RecurrentEncoder(SOURCE_VOCAB_SIZE, HIDDEN_SIZE, cell, bidirectional)
    source, mask = random_source()
    memory, final = encoder(source, mask)
    assert memory.shape == (BATCH, SOURCE_LEN, HIDDEN_SIZE)
    assert all(tensor.shape == (1, BATCH, HIDDEN_SIZE) for tensor in as_tuple(final))
    assert (memory[~mask] == 0).all()
    for row, length in enumerate(mask.sum(1).tolist()):
        alone, final_alone = encoder(source[row : row + 1, :length])
        assert close(memory[row, :length], alone[0])
        for tensor, reference in zip(as_tuple(final), as_tuple(final_alone), strict=True):
            assert close(tensor[0, row], reference[0, 0])


# Decoder


@layers
@directions
def test_without_attention_the_decoder_gets_only_the_final_state(cell, bidirectional):
    model = make_model(cell=cell, bidirectional=bidirectional)
    source, mask = random_source()
    memory, state = model.encode(source, mask)
    _, final = model.encoder(source, mask)
    assert memory.shape == (BATCH, 1, HIDDEN_SIZE) and torch.equal(memory[:, 0], as_tuple(final)[0][0])
    assert all(torch.equal(*both) for both in zip(as_tuple(state), as_tuple(final), strict=True))
    longer, _ = random_source((2 * SOURCE_LEN,))
    assert model.encode(longer)[0].shape == (1, 1, HIDDEN_SIZE)


@pytest.mark.parametrize("score", SCORES)
def test_the_returned_attention_weights_are_those_of_the_context(score):
    decoder = AttentionDecoder(TARGET_VOCAB_SIZE, HIDDEN_SIZE, "gru", score)
    target, state = random_target(), torch.randn(1, BATCH, HIDDEN_SIZE)
    memory, mask = torch.randn(BATCH, SOURCE_LEN, HIDDEN_SIZE), random_source()[1]
    logits, _, weights = decoder(target, state, memory, mask)
    assert weights.shape == (BATCH, TARGET_LEN, SOURCE_LEN) and close(weights.sum(-1), torch.ones(BATCH, TARGET_LEN))
    assert (weights.masked_select(~mask.unsqueeze(1)) == 0).all()
    hidden, _ = decoder.rnn(decoder.embedding(target), state)
    combined = decoder.combine(torch.cat([hidden, weights @ memory], -1)).tanh()
    assert close(logits, decoder.output(combined))


@scores
def test_a_later_target_token_never_changes_an_earlier_prediction(score):
    model, target = make_model(score), random_target()
    source, mask = random_source()
    changed = target.clone()
    changed[:, 3] = BOS_ID
    before, after = model(source, mask, target)[0], model(source, mask, changed)[0]
    assert torch.equal(before[:, :3], after[:, :3]) and not close(before[:, 3:], after[:, 3:])


# Decoding


@scores
@layers
def test_step_by_step_decoding_equals_teacher_forcing(score, cell):
    model, target = make_model(score, cell=cell), random_target()
    source, mask = random_source()
    logits, weights = model(source, mask, target)
    cache = model.new_cache(source, mask, TARGET_LEN)
    for position in range(TARGET_LEN):
        step_logits, step_weights = model.step(target[:, position], cache)
        assert close(step_logits, logits[:, position])
        if score is None:
            assert step_weights == []
        else:
            assert len(step_weights) == 1 and close(step_weights[0], weights[:, position : position + 1])


@scores
@layers
@pytest.mark.parametrize("padded", [True, False])
def test_a_reordered_cache_continues_the_chosen_hypotheses(score, cell, padded):
    model, target, rows = make_model(score, cell=cell), random_target(), torch.tensor([2, 0, 0])
    source, mask = random_source() if padded else (random_source((7, 7, 7))[0], None)
    cache = model.new_cache(source, mask, TARGET_LEN)
    model.step(target[:, 0], cache)
    cache.reorder(rows)
    logits, _ = model.step(target[:, 1], cache)
    target = torch.stack([target[rows, 0], target[:, 1]], 1)
    expected, _ = model(source[rows], None if mask is None else mask[rows], target)
    assert close(logits, expected[:, 1])


def decode(model, source, mask, **options):
    return greedy_decode(model, source, mask, bos_id=BOS_ID, max_len=9, pad_id=PAD_ID, **options)


@scores
@layers
def test_greedy_decoding_of_a_batch_is_that_of_each_sentence(score, cell):
    model, lengths = make_model(score, cell=cell), set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter *= 0 if "bias" in name else 5  # untrained weights give all sentences the same translation
    source, mask = random_source((7, 2, 5, 1, 7, 3, 4, 6, 2, 5))
    endless = decode(model, source, mask, eos_id=-1).token_ids
    # As EOS, a token that the sentences do not all generate at the same step.
    eos_id = next(
        token for token in range(TARGET_VOCAB_SIZE) if len(set((endless != token).cumprod(1).sum(1).tolist())) > 1
    )
    decoded = decode(model, source, mask, eos_id=eos_id, need_weights=score is not None)
    generated = decoded.token_ids
    for row, source_len in enumerate(mask.sum(1).tolist()):
        own = source[row : row + 1, :source_len]
        alone = decode(model, own, None, eos_id=eos_id, need_weights=score is not None)
        length = alone.token_ids.size(1)
        lengths.add(length)
        assert (
            generated[row, :length].tolist() == alone.token_ids[0].tolist()
            and (generated[row, length:] == PAD_ID).all()
        )
        if score is not None:
            weights = decoded.cross[0, row, 0]
            assert close(weights[:length, :source_len], alone.cross[0, 0, 0])
            assert (weights[length:] == 0).all() and (weights[:, source_len:] == 0).all()
    assert len(lengths) > 1


@scores
def test_greedy_tokens_are_the_argmax_given_the_tokens_before(score):
    model = make_model(score)
    source, mask = random_source()
    generated = decode(model, source, mask, eos_id=EOS_ID).token_ids
    inputs = torch.cat([torch.full((BATCH, 1), BOS_ID), generated[:, :-1]], 1)
    best = model(source, mask, inputs)[0].argmax(-1)
    active = (inputs != EOS_ID).cumprod(1).bool()
    assert active.sum() > BATCH and torch.equal(best[active], generated[active])


@scores
@layers
def test_beam_search_keeps_greedy_decoding_with_one_beam_and_scores_every_hypothesis_exactly(score, cell):
    model = make_model(score, cell=cell)
    source, mask = random_source()
    options = {"bos_id": BOS_ID, "eos_id": EOS_ID, "max_len": 6, "pad_id": PAD_ID}
    single = beam_search(model, source, mask, num_beams=1, **options).token_ids[:, 0]
    assert torch.equal(single, greedy_decode(model, source, mask, **options).token_ids)
    beams = beam_search(model, source, mask, num_beams=3, **options)
    for beam in range(3):
        target = beams.token_ids[:, beam]
        inputs = torch.cat([torch.full((BATCH, 1), BOS_ID), target[:, :-1]], 1)
        log_probs = model(source, mask, inputs)[0].log_softmax(-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
        active = (inputs != EOS_ID).cumprod(1).bool()
        assert close(log_probs.masked_fill(~active, 0.0).sum(1), beams.log_probs[:, beam])
