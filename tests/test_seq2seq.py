"""Facts about the encoder-decoder: padding is never read, a step is the whole, a sentence comes out the same in any company."""

import pytest
import torch

from utils.models.seq2seq import (
    SCORES,
    AttentionDecoder,
    Encoder,
    Seq2Seq,
)

PAD, START, END = 0, 1, 2
BATCH, SOURCE, TARGET, WIDTH = 3, 7, 5, 6
SOURCE_WORDS, TARGET_WORDS = 11, 13
kinds = pytest.mark.parametrize("score", [None, *SCORES])
cells = pytest.mark.parametrize("cell", ["gru", "lstm"])
directions = pytest.mark.parametrize("bidirectional", [True, False], ids=["both ways", "one way"])


@pytest.fixture(autouse=True)
def _numbers():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        yield


def a_model(score=None, **kind):
    return Seq2Seq(SOURCE_WORDS, TARGET_WORDS, score, WIDTH, **kind).double()


def sentences(lengths=(7, 2, 5)):
    """Source (b, n) with padding behind the words, and its mask."""
    source = torch.randint(3, SOURCE_WORDS, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return source.masked_fill(~mask, PAD), mask


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def close(first, second):
    return torch.allclose(first, second, rtol=0, atol=1e-10)


# Encoder


@cells
@directions
def test_padding_never_changes_an_output_of_the_encoder(cell, bidirectional):
    encoder = Encoder(SOURCE_WORDS, WIDTH, cell, bidirectional).double()
    source, mask = sentences()
    memory, last = encoder(source, mask)
    assert memory.shape == (BATCH, SOURCE, WIDTH) and all(one.shape == (1, BATCH, WIDTH) for one in as_tuple(last))
    assert (memory[~mask] == 0).all()
    for row, length in enumerate(mask.sum(1).tolist()):
        alone, alone_last = encoder(source[row : row + 1, :length])
        assert close(memory[row, :length], alone[0])
        for one, other in zip(as_tuple(last), as_tuple(alone_last), strict=True):
            assert close(one[0, row], other[0, 0])


# Decoder


@cells
@directions
def test_without_attention_the_last_state_is_the_only_bridge(cell, bidirectional):
    """However long the sentence, the decoder gets its last state and nothing else."""
    model = a_model(cell=cell, bidirectional=bidirectional)
    source, mask = sentences()
    memory, state = model.encode(source, mask)
    _, last = model.encoder(source, mask)
    assert memory.shape == (BATCH, 1, WIDTH) and torch.equal(memory[:, 0], as_tuple(last)[0][0])
    assert all(torch.equal(*both) for both in zip(as_tuple(state), as_tuple(last), strict=True))
    longer, _ = sentences((2 * SOURCE,))
    assert model.encode(longer)[0].shape == (1, 1, WIDTH)


@pytest.mark.parametrize("score", SCORES)
def test_the_weights_shown_are_the_weights_used(score):
    """The taught steps, written out: state, scores, softmax, context, concatenation, output."""
    decoder = AttentionDecoder(TARGET_WORDS, WIDTH, "gru", score).double()
    target, state = torch.randint(3, TARGET_WORDS, (BATCH, TARGET)), torch.randn(1, BATCH, WIDTH).double()
    memory, mask = torch.randn(BATCH, SOURCE, WIDTH).double(), sentences()[1]
    logits, _, weights = decoder(target, state, memory, mask)
    assert weights.shape == (BATCH, TARGET, SOURCE) and close(weights.sum(-1), torch.ones(BATCH, TARGET).double())
    assert (weights.masked_select(~mask.unsqueeze(1)) == 0).all()
    hidden, _ = decoder.layer(decoder.embed(target), state)
    combined = decoder.combine(torch.cat([hidden, weights @ memory], -1)).tanh()
    assert close(logits, decoder.output(combined))


@kinds
@cells
def test_steps_one_by_one_are_the_teacher_forced_call(score, cell):
    model = a_model(score, cell=cell)
    (source, mask), target = sentences(), torch.randint(3, TARGET_WORDS, (BATCH, TARGET))
    logits, weights = model(source, mask, target)
    memory, state = model.encode(source, mask)
    for place in range(TARGET):
        one, state, look = model.decoder.step(target[:, place], state, memory, mask)
        assert close(one, logits[:, place])
        assert look is None if score is None else close(look, weights[:, place])


@kinds
def test_a_later_target_word_never_changes_an_earlier_prediction(score):
    model = a_model(score)
    (source, mask), target = sentences(), torch.randint(3, TARGET_WORDS, (BATCH, TARGET))
    other = target.clone()
    other[:, 3] = START
    before, after = model(source, mask, target)[0], model(source, mask, other)[0]
    assert torch.equal(before[:, :3], after[:, :3]) and not close(before[:, 3:], after[:, 3:])


# Greedy decoding


@kinds
@cells
def test_decoding_together_is_decoding_one_by_one(score, cell):
    model, ends = a_model(score, cell=cell), set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter *= 0 if "bias" in name else 5  # with fresh weights all sentences come out alike
    source, mask = sentences((7, 2, 5, 1, 7, 3, 4, 6, 2, 5))
    free, _ = model.greedy(source, mask, START, -1, limit=9)
    # The end is a word that not all sentences say at the same time.
    end = next(word for word in range(TARGET_WORDS) if len(set((free != word).cumprod(1).sum(1).tolist())) > 1)
    words, weights = model.greedy(source, mask, START, end, limit=9)
    for row, length in enumerate(mask.sum(1).tolist()):
        alone, look = model.greedy(source[row : row + 1, :length], None, START, end, limit=9)
        size = alone.size(1)
        ends.add(size)
        assert words[row, :size].tolist() == alone[0].tolist() and (words[row, size:] == PAD).all()
        if score is not None:
            assert close(weights[row, :size, :length], look[0])
            assert (weights[row, size:] == 0).all() and (weights[row, :, length:] == 0).all()
        else:
            assert weights is None and look is None
    assert len(ends) > 1


@kinds
def test_greedy_words_are_the_likeliest_ones_given_those_before(score):
    model = a_model(score)
    source, mask = sentences()
    words, _ = model.greedy(source, mask, START, END, limit=8)
    told = torch.cat([torch.full((BATCH, 1), START), words[:, :-1]], 1)
    best = model(source, mask, told)[0].argmax(-1)
    going = (told != END).cumprod(1).bool()
    assert going.sum() > BATCH and torch.equal(best[going], words[going])
