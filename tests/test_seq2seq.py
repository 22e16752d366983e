"""Facts about the encoder-decoder: padding is never read, a step is the whole, a sentence comes out the same in any company."""

import pytest
import torch

from utils.models.attention import attend, attention
from utils.models.seq2seq import (
    SCORES,
    AdditiveScore,
    AttentionDecoder,
    Decoder,
    DotScore,
    Encoder,
    MultiplicativeScore,
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


# Scores


@pytest.mark.parametrize("kind", SCORES)
def test_every_score_has_the_one_signature(kind):
    state, memory = torch.randn(BATCH, TARGET, WIDTH), torch.randn(BATCH, SOURCE, WIDTH)
    assert SCORES[kind](WIDTH, WIDTH)(state, memory).shape == (BATCH, TARGET, SOURCE)


def test_scores_are_their_formulas():
    state, memory = torch.randn(BATCH, TARGET, 4), torch.randn(BATCH, SOURCE, 6)
    general, additive = MultiplicativeScore(4, 6), AdditiveScore(4, 6, hidden=5)
    same = torch.randn(BATCH, SOURCE, 4)
    for b, i, j in ((0, 0, 0), (2, 3, 6), (1, 4, 2)):
        h, s = state[b, i], memory[b, j]
        assert DotScore(4, 4)(state, same)[b, i, j].item() == pytest.approx((h @ same[b, j]).item(), abs=1e-5)
        assert general(state, memory)[b, i, j].item() == pytest.approx((s @ general.map.weight @ h).item(), abs=1e-5)
        inner = additive.from_state.weight @ h + additive.from_memory.weight @ s
        expected = additive.weigh.weight[0] @ inner.tanh()
        assert additive(state, memory)[b, i, j].item() == pytest.approx(expected.item(), abs=1e-5)


def test_attending_with_the_dot_score_is_attention_without_scale():
    state, memory = torch.randn(BATCH, TARGET, WIDTH), torch.randn(BATCH, SOURCE, WIDTH)
    mask = torch.rand(BATCH, 1, SOURCE) < 0.8
    ours = attend(DotScore(WIDTH, WIDTH)(state, memory), memory, mask)
    for one, other in zip(ours, attention(state, memory, memory, mask, scale=1), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_dot_score_refuses_two_widths():
    with pytest.raises(ValueError, match="one width, got 4 and 6; the multiplicative score"):
        DotScore(4, 6)


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


def test_what_stands_in_the_padding_does_not_matter():
    encoder = Encoder(SOURCE_WORDS, WIDTH, "gru")
    source, mask = sentences()
    other = torch.where(mask, source, torch.randint(3, SOURCE_WORDS, source.shape))
    assert not torch.equal(source, other)
    for one, same in zip(encoder(source, mask), encoder(other, mask), strict=True):
        assert torch.equal(one, same)


def test_one_direction_knows_only_what_came_before_and_two_know_all():
    source = sentences((SOURCE,))[0]
    other = source.clone()
    other[0, 4] = 3 + (source[0, 4] - 2) % (SOURCE_WORDS - 3)
    for bidirectional in (False, True):
        encoder = Encoder(SOURCE_WORDS, WIDTH, bidirectional=bidirectional)
        changed = (encoder(source)[0] != encoder(other)[0]).any(-1)[0]
        assert changed[4:].all() and changed[:4].all() == bidirectional


def test_the_last_state_is_where_each_direction_stopped():
    encoder = Encoder(SOURCE_WORDS, WIDTH, "gru").double()
    source, mask = sentences()
    memory, last = encoder(source, mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        forward, backward = last[0, row].chunk(2)
        assert close(forward, memory[row, length - 1, : WIDTH // 2])
        assert close(backward, memory[row, 0, WIDTH // 2 :])


@pytest.mark.parametrize(
    "mask, part",
    [
        ([[True, False, True], [True, True, True]], "True at the first words"),
        ([[True, True, True], [False, False, False]], "none in row 1"),
    ],
)
def test_the_encoder_refuses_a_mask_that_is_no_padding(mask, part):
    with pytest.raises(ValueError, match=part):
        Encoder(SOURCE_WORDS, WIDTH)(torch.ones(2, 3, dtype=torch.long), torch.tensor(mask))


@pytest.mark.parametrize(
    "wrong, part",
    [({"cell": "elman"}, "'gru' or 'lstm', got 'elman'"), ({"width": 7}, "got 7; try 8"), ({"score": "cosine"}, "dot")],
)
def test_a_model_refuses_what_it_cannot_be(wrong, part):
    with pytest.raises(ValueError, match=part):
        Seq2Seq(**{"source_words": 5, "target_words": 4, "width": 6} | wrong)


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


def test_without_attention_the_context_is_the_same_for_every_word():
    decoder = Decoder(TARGET_WORDS, WIDTH).double()
    target, memory = torch.randint(3, TARGET_WORDS, (BATCH, TARGET)), torch.randn(BATCH, 1, WIDTH).double()
    state = (torch.randn(1, BATCH, WIDTH).double(),) * 2
    logits, _, weights = decoder(target, state, memory)
    hidden, _ = decoder.layer(decoder.embed(target), state)
    for place in range(TARGET):
        combined = decoder.combine(torch.cat([hidden[:, place], memory[:, 0]], -1)).tanh()
        assert close(logits[:, place], decoder.output(combined))
    assert weights is None


def test_with_attention_the_decoder_gets_a_vector_for_every_word():
    source, mask = sentences()
    assert a_model("dot").encode(source, mask)[0].shape == (BATCH, SOURCE, WIDTH)


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


@kinds
def test_gradients_reach_every_parameter(score):
    model = a_model(score)
    (source, mask), target = sentences(), torch.randint(3, TARGET_WORDS, (BATCH, TARGET))
    model(source, mask, target)[0].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


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


def test_a_sentence_stops_at_its_end_token_while_others_go_on():
    """A model made by hand: it repeats the first word of the sentence, and names the end after word 4."""

    class Repeats(Seq2Seq):
        def __init__(self):
            torch.nn.Module.__init__(self)

        def encode(self, source, mask):
            return None, source[:, 0]

        @property
        def decoder(self):
            return self

        def step(self, word, state, memory, mask):
            return torch.nn.functional.one_hot(torch.where(word == 4, END, state), TARGET_WORDS), state, None

    words, weights = Repeats().greedy(torch.tensor([[4], [5]]), None, START, END, limit=4)
    assert words.tolist() == [[4, END, PAD, PAD], [5, 5, 5, 5]] and weights is None


def test_decoding_stops_as_soon_as_all_sentences_have_ended():
    model = a_model("dot")
    with torch.no_grad():
        model.decoder.output.bias[END] = 1e6
    words, weights = model.greedy(*sentences(), START, END, limit=50)
    assert words.tolist() == [[END]] * BATCH and weights.shape == (BATCH, 1, SOURCE)


def test_decoding_refuses_a_limit_without_words():
    with pytest.raises(ValueError, match="at least one word, got 0"):
        a_model().greedy(*sentences(), START, END, limit=0)


# Learning


@pytest.mark.parametrize("score", SCORES)
def test_attention_learns_to_look_backwards_on_a_reversed_copy(score):
    """A task whose alignment is known: the target is the source reversed, so the weights must lie on the other diagonal."""
    model = Seq2Seq(12, 12, score, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    start = torch.full((64, 1), START)
    for _ in range(200):
        source = torch.randint(3, 12, (64, 5))
        target = torch.cat([source.flip(1), torch.full((64, 1), END)], 1)
        logits, _ = model(source, None, torch.cat([start, target[:, :-1]], 1))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    source = torch.randint(3, 12, (50, 5))
    words, weights = model.greedy(source, None, START, END, limit=8)
    assert (words[:, :5] == source.flip(1)).all(1).float().mean() > 0.9
    looked = weights[:, :5].argmax(-1)
    assert (looked == torch.arange(4, -1, -1)).float().mean() > 0.8
