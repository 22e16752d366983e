"""Facts about greedy decoding, beam search and sampling."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.benchmarks.transformer_speed import Uncached, cache_speed, generate_speed
from utils.models.decoding import beam_search, generate, greedy_decode, next_token_probs
from utils.models.language_models import CausalLM, EncoderConfig
from utils.models.transformer import Transformer

PAD, BOS, EOS = 0, 1, 2

cases = st.fixed_dictionaries(
    {
        "b": st.integers(1, 4),
        "n": st.integers(1, 6),
        "vocab_size": st.integers(4, 7),
        "max_len": st.integers(1, 6),
        "norm_first": st.booleans(),
        "seed": st.integers(0, 2**31),
    }
)


def draw(b=2, n=5, vocab_size=6, max_len=4, norm_first=True, seed=0):
    """A model whose translations end now and then, sources with their mask, and the options of decoding."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(9, vocab_size, 8, 2, 6, norm_first=norm_first, dropout=0.5, tied="none")
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(3, 9, (b, n), generator=generator)
    source_mask = torch.arange(n) < torch.randint(1, n + 1, (b, 1), generator=generator)
    return model.double(), source, source_mask, {"bos_id": BOS, "eos_id": EOS, "max_len": max_len, "pad_id": PAD}


@torch.no_grad()
def sequence_log_probs(model, source, source_mask, sequences):
    """Log-probabilities of translations of one source, by teacher forcing; lists of token ids, without padding."""
    model.eval()
    length = max(map(len, sequences))
    token_ids = torch.tensor([[*sequence, *[PAD] * (length - len(sequence))] for sequence in sequences])
    is_token = torch.arange(length) < torch.tensor([[len(sequence)] for sequence in sequences])
    target = torch.cat([torch.full((len(token_ids), 1), BOS), token_ids[:, :-1]], 1)
    logits, _ = model(source.expand(len(token_ids), -1), source_mask.expand(len(token_ids), -1), target)
    log_probs = logits.log_softmax(-1).gather(2, token_ids.unsqueeze(2)).squeeze(2)
    return log_probs.masked_fill(~is_token, 0.0).sum(1).tolist()


def without_padding(row):
    """The token ids up to EOS, which is one of them."""
    row = row.tolist()
    return row[: row.index(EOS) + 1] if EOS in row else row


# Greedy decoding


@settings(max_examples=25, deadline=None)
@given(cases)
def test_greedy_decoding_with_the_cache_equals_that_without(case):
    model, source, source_mask, options = draw(**case)
    cached, uncached = (greedy_decode(decoder, source, source_mask, **options) for decoder in (model, Uncached(model)))
    assert torch.equal(cached.token_ids, uncached.token_ids)
    torch.testing.assert_close(cached.log_probs, uncached.log_probs)


@settings(max_examples=25, deadline=None)
@given(cases)
def test_each_greedy_token_is_the_most_probable_after_those_before_it(case):
    model, source, source_mask, options = draw(**case)
    decoded = greedy_decode(model, source, source_mask, **options)
    assert decoded.token_ids.size(1) <= case["max_len"]
    for row in range(case["b"]):
        sequence = without_padding(decoded.token_ids[row])
        assert (decoded.token_ids[row, len(sequence) :] == PAD).all()
        assert sequence[-1] == EOS or len(sequence) == case["max_len"]
        model.eval()
        with torch.no_grad():
            logits, _ = model(source[row : row + 1], source_mask[row : row + 1], torch.tensor([[BOS, *sequence[:-1]]]))
        assert logits[0].argmax(-1).tolist() == sequence
        (expected,) = sequence_log_probs(model, source[row], source_mask[row], [sequence])
        assert decoded.log_probs[row].item() == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(cases)
def test_a_batch_is_decoded_as_its_sources_one_by_one(case):
    model, source, source_mask, options = draw(**case)
    greedy = greedy_decode(model, source, source_mask, **options)
    beams = beam_search(model, source, source_mask, **options, num_beams=3)
    for row in range(case["b"]):
        alone = source[row : row + 1, : int(source_mask[row].sum())], None
        greedy_alone = greedy_decode(model, *alone, **options)
        assert without_padding(greedy_alone.token_ids[0]) == without_padding(greedy.token_ids[row])
        beams_alone = beam_search(model, *alone, **options, num_beams=3)
        torch.testing.assert_close(beams_alone.scores[0], beams.scores[row])
        for rank in range(3):
            assert without_padding(beams_alone.token_ids[0, rank]) == without_padding(beams.token_ids[row, rank])


def test_cross_attention_and_candidates_of_each_step_come_out_on_request():
    model, source, source_mask, options = draw(b=3, max_len=6, vocab_size=6, seed=44)
    plain = greedy_decode(model, source, source_mask, **options)
    decoded = greedy_decode(model, source, source_mask, **options, need_weights=True, num_candidates=4)
    assert plain.cross is plain.candidates is plain.probabilities is None
    m = decoded.token_ids.size(1)
    assert torch.equal(decoded.token_ids, plain.token_ids)
    assert decoded.cross.shape == (2, 3, 2, m, 5)  # layers, sequences, heads, target tokens, source tokens
    assert decoded.candidates.shape == decoded.probabilities.shape == (3, m, 4)
    model.eval()
    ended_early = []
    for row in range(3):
        sequence = without_padding(decoded.token_ids[row])
        length = len(sequence)
        ended_early.append(length < m)
        with torch.no_grad():
            target = torch.tensor([[BOS, *sequence[:-1]]])
            logits, weights = model(source[row : row + 1], source_mask[row : row + 1], target, need_weights=True)
        for layer in range(2):
            cross = decoded.cross[layer, row]
            torch.testing.assert_close(cross[:, :length], weights.cross[layer][0])
            assert (cross[:, length:] == 0).all()
        best = logits[0].softmax(-1).topk(4)
        assert torch.equal(decoded.candidates[row, :length], best.indices)
        torch.testing.assert_close(decoded.probabilities[row, :length], best.values)
        assert decoded.candidates[row, :length, 0].tolist() == sequence
    assert any(ended_early) and not all(ended_early)  # or no zeros behind EOS were tested


def test_decoding_turns_dropout_off_and_leaves_the_model_as_it_was():
    model, source, source_mask, options = draw(b=4, max_len=6)
    model.train()
    results = [greedy_decode(model, source, source_mask, **options).log_probs for _ in range(3)]
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
    assert model.training and model.decoder.layers[0].dropout.training
    scores = [beam_search(model, source, source_mask, **options, num_beams=2).scores for _ in range(2)]
    assert torch.equal(*scores) and model.training
    model.eval()
    greedy_decode(model, source, source_mask, **options)
    assert not model.training


# Beam search


@settings(max_examples=25, deadline=None)
@given(cases, st.sampled_from([0.0, 0.6, 1.0]), st.booleans())
def test_beam_search_with_one_beam_is_greedy(case, length_penalty, cached):
    model, source, source_mask, options = draw(**case)
    greedy = greedy_decode(model, source, source_mask, **options)
    options |= {"num_beams": 1, "length_penalty": length_penalty}
    beam = beam_search(model if cached else Uncached(model), source, source_mask, **options)
    assert torch.equal(beam.token_ids.squeeze(1), greedy.token_ids)
    torch.testing.assert_close(beam.log_probs.squeeze(1), greedy.log_probs)


def reference_beam_search(model, source, source_mask, vocab_size, max_len, num_beams, length_penalty):
    """Beam search for one source, with lists: (token ids, log-probability) of the best hypotheses, best first."""
    hypotheses = [([], 0.0)]
    for _ in range(max_len):
        continued = []
        for sequence, _ in hypotheses:
            if EOS in sequence:
                continued.append(sequence)
            else:
                continued += [[*sequence, token] for token in range(vocab_size)]
        log_probs = sequence_log_probs(model, source, source_mask, continued)
        scored = list(zip(continued, log_probs, strict=True))
        hypotheses = sorted(scored, key=lambda pair: -pair[1] / len(pair[0]) ** length_penalty)[:num_beams]
    return hypotheses


@settings(max_examples=20, deadline=None)
@given(cases, st.integers(1, 3), st.sampled_from([0.0, 0.6, 1.0]), st.booleans())
def test_batched_beam_search_equals_one_written_with_lists(case, num_beams, length_penalty, cached):
    case = {**case, "b": min(2, case["b"]), "vocab_size": 5, "max_len": min(4, case["max_len"])}
    model, source, source_mask, options = draw(**case)
    search = {"num_beams": num_beams, "length_penalty": length_penalty}
    beams = beam_search(model if cached else Uncached(model), source, source_mask, **options, **search)
    for row in range(case["b"]):
        expected = reference_beam_search(model, source[row], source_mask[row], 5, case["max_len"], **search)
        assert [without_padding(beam) for beam in beams.token_ids[row]] == [sequence for sequence, _ in expected]
        assert beams.log_probs[row].tolist() == pytest.approx([log_prob for _, log_prob in expected], abs=1e-9)
        scores = [log_prob / len(sequence) ** length_penalty for sequence, log_prob in expected]
        assert beams.scores[row].tolist() == pytest.approx(scores, abs=1e-9)


def test_more_beams_than_hypotheses_leave_padding_with_a_score_of_minus_infinity():
    model, source, source_mask, options = draw(vocab_size=4, max_len=1)
    beams = beam_search(model, source, source_mask, **options, num_beams=6)
    assert beams.scores[:, :4].isfinite().all() and (beams.scores[:, 4:] == -torch.inf).all()
    assert (beams.token_ids[:, 4:] == PAD).all()
    assert all(sorted(row) == [0, 1, 2, 3] for row in beams.token_ids[:, :4, 0].tolist())


@settings(max_examples=20, deadline=None)
@given(cases, st.integers(1, 4), st.sampled_from([0.0, 1.0]))
def test_the_tree_holds_every_hypothesis_that_was_returned_and_those_that_were_dropped(case, num_beams, length_penalty):
    model, source, source_mask, options = draw(**case)
    options |= {"num_beams": num_beams, "length_penalty": length_penalty}
    beams = beam_search(model, source, source_mask, **options, need_tree=True)
    assert beam_search(model, source, source_mask, **options).tree is None
    assert len(beams.tree) == case["b"]
    for row, steps in enumerate(beams.tree):
        previous_nodes, previous_sequences = [], []
        for depth, nodes in enumerate(steps):
            sequences = []
            for node in nodes:
                assert (node.parent == -1) == (depth == 0)
                prefix = previous_sequences[node.parent] if depth else []
                if depth:
                    assert previous_nodes[node.parent].kept  # a dropped hypothesis is not continued
                    assert previous_nodes[node.parent].ended == (node.token_id is None)
                sequences.append(prefix if node.token_id is None else [*prefix, node.token_id])
                assert node.ended == (sequences[-1][-1] == EOS)
                assert node.score == pytest.approx(node.log_prob / len(sequences[-1]) ** length_penalty)
            assert len(set(map(tuple, sequences))) == len(sequences)
            kept, dropped = [node for node in nodes if node.kept], [node for node in nodes if not node.kept]
            assert nodes == [*kept, *dropped] and len(kept) <= num_beams
            scores = [node.score for node in kept]
            assert scores == sorted(scores, reverse=True)
            assert all(node.score <= scores[-1] for node in dropped)
            previous_nodes, previous_sequences = nodes, sequences
        returned = [sequence for sequence, node in zip(sequences, nodes, strict=True) if node.kept]
        assert returned == [without_padding(beam) for beam in beams.token_ids[row]]
        assert [node.log_prob for node in kept] == pytest.approx(beams.log_probs[row].tolist())


# Sampling parameters

PROBS = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_temperature_zero_takes_the_most_probable_token_and_small_temperatures_do_not_overflow():
    assert next_token_probs(PROBS.log(), 0).tolist() == [0, 1, 0, 0, 0]
    assert next_token_probs(torch.tensor([1e4, 1e4 - 1, -1e4]), 1e-4).tolist() == [1, 0, 0]


def test_top_k_keeps_k_tokens_and_top_p_the_smallest_set_that_reaches_p():
    assert torch.allclose(next_token_probs(PROBS.log(), top_k=2), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65)
    assert torch.allclose(next_token_probs(PROBS.log(), top_p=0.6), torch.tensor([0, 0.4, 0, 0.25, 0]) / 0.65)
    assert torch.allclose(next_token_probs(PROBS.log(), top_p=0.7), torch.tensor([0, 0.4, 0, 0.25, 0.2]) / 0.85)
    assert next_token_probs(PROBS.log(), top_p=0.01).tolist() == [0, 1, 0, 0, 0]


def test_top_k_cuts_before_top_p():
    # Three stay, 0.4, 0.25 and 0.2 of 0.85: two of them have 0.76 of the probability. Without top_k they have 0.65.
    assert next_token_probs(PROBS.log(), top_k=3, top_p=0.7).count_nonzero() == 2
    assert next_token_probs(PROBS.log(), top_p=0.7).count_nonzero() == 3


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.1, 5),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.floats(0.01, 1)),
)
def test_the_tokens_that_stay_are_the_most_probable_and_keep_their_proportions(seed, temperature, top_k, top_p):
    logits = 2 * torch.randn(30, generator=seeded(seed), dtype=torch.float64)
    probs = next_token_probs(logits, temperature, top_k, top_p)
    assert probs.sum().item() == pytest.approx(1)
    stays = probs > 0
    assert stays[logits.argmax()]
    assert torch.allclose(probs[stays], (logits[stays] / temperature).softmax(-1))
    assert stays.all() or logits[stays].min() >= logits[~stays].max()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1}, "temperature of 0 or more, got -1"),
        ({"top_k": 0}, "top_k of at least 1, got 0"),
        ({"top_p": 0}, "top_p above 0 and up to 1, got 0"),
        ({"top_p": 1.1}, "got 1.1"),
    ],
)
def test_impossible_sampling_parameters_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        next_token_probs(torch.zeros(3), **wrong)


# Generation


class Successor(nn.Module):
    """A confident language model: after token k comes k + 1, modulo 10. It records how many tokens each call gets."""

    config = SimpleNamespace(max_len=None)

    def __init__(self):
        super().__init__()
        self.lengths = []

    def forward(self, token_ids):
        self.lengths.append(token_ids.size(1))
        return 20 * F.one_hot((token_ids + 1) % 10, 10).float()

    def new_cache(self, max_len):
        return []

    def step(self, token_ids, cache):
        return self(token_ids)[:, -1]


def test_each_token_is_sampled_after_the_last_one():
    assert list(generate(Successor(), [7], 5, temperature=0)) == [8, 9, 0, 1, 2]
    assert list(generate(Successor(), torch.tensor([3, 4]), 2, top_k=1)) == [5, 6]
    assert list(generate(Successor(), [7], 0)) == []


def test_sampled_tokens_follow_the_probabilities():
    logits = torch.tensor([1.0, 3.0, 2.0, -torch.inf])
    model = Successor()
    model.forward = lambda token_ids: logits.expand(1, 1, -1).clone()
    for greedy in ({"temperature": 0}, {"top_k": 1}, {"top_p": 0.1}):
        assert list(generate(model, [0], 2, **greedy)) == [1, 1]
    counts = torch.tensor(list(generate(model, [0], 4000, generator=seeded(1)))).bincount(minlength=4)
    assert torch.allclose(counts / 4000, next_token_probs(logits), atol=0.03) and counts[3] == 0


def test_generation_ends_before_eos_and_never_samples_banned_tokens():
    assert list(generate(Successor(), [7], 9, temperature=0, eos_ids={9, 3})) == [8]
    sampled = list(generate(Successor(), [7], 200, temperature=30.0, banned_ids=(0, 5), generator=seeded()))
    assert len(sampled) == 200 and set(sampled) == set(range(10)) - {0, 5}


def test_with_the_cache_each_step_gets_the_new_token_alone_and_with_a_window_the_last_tokens():
    for window, lengths in ((None, [3, 1, 1, 1]), (4, [3, 4, 4, 4])):
        model = Successor()
        assert list(generate(model, [1, 2, 3], 4, temperature=0, window=window)) == [4, 5, 6, 7]
        assert model.lengths == lengths


def make_language_model(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CausalLM(EncoderConfig(11, 8, 4, 8, **{"max_len": 32, "num_layers": 2, **options}))


LLAMA = {"positions": "rotary", "norm": "rms", "activation": "swiglu", "num_kv_heads": 2, "bias": False}


@pytest.mark.parametrize("options", [{}, LLAMA])
@pytest.mark.parametrize(
    "sampling", [{"temperature": 0}, {}, {"temperature": 0.7, "top_k": 5}, {"temperature": 1.3, "top_p": 0.8}]
)
def test_generation_with_the_cache_samples_what_generation_without_it_samples(options, sampling):
    model = make_language_model(**options).double().eval()
    for prompt in ([7], [3, 1, 4, 1, 5, 9, 2, 6]):
        for seed in range(3):
            results = [
                list(generate(model, prompt, 20, window=window, generator=seeded(seed), **sampling))
                for window in (None, 32, None)
            ]
            assert results[0] == results[1] == results[2] and len(results[0]) == 20


def test_a_window_hides_the_tokens_before_it():
    model = make_language_model().eval()
    options = {"max_new_tokens": 6, "window": 3, "temperature": 0}
    expected = list(generate(model, [1, 2, 3], **options))
    assert list(generate(model, [9, 8, 7, 6, 1, 2, 3], **options)) == expected


def test_generation_turns_dropout_and_gradients_off_for_its_steps_alone():
    model = make_language_model(dropout=0.5).train()
    for window in (None, 8):
        results = []
        for _ in range(3):
            tokens = []
            for token in generate(model, [1, 2], 12, generator=seeded(), window=window):
                assert model.training and model.encoder.layers[0].dropout.training and torch.is_grad_enabled()
                tokens.append(token)
            results.append(tokens)
        assert results[0] == results[1] == results[2]


def test_an_empty_prompt_and_a_text_beyond_max_len_are_refused_at_once():
    model = make_language_model()
    with pytest.raises(ValueError, match="at least one token, got none"):
        generate(model, [], 3)
    with pytest.raises(ValueError, match="at most 32 tokens, got 30 and 3 new ones"):
        generate(model, [1] * 30, 3)


# Speed


def test_the_speed_benchmark_decodes_with_and_without_the_cache():
    rows = cache_speed(lengths=(2, 4), batch=2, source_length=5, vocab_size=9, rounds=1)
    assert [row["length"] for row in rows] == [2, 4] and all(row["speed"] > 0 for row in rows)


def test_the_speed_benchmark_decodes_with_three_encoder_decoders_of_transformers():
    sizes = {"vocab_size": 9, "dim": 8, "num_heads": 2, "hidden_dim": 8, "num_layers": 1}
    rows = generate_speed(batch=2, max_len=3, source_length=5, rounds=1, **sizes)
    assert [row["peer"] for row in rows] == ["T5", "BART", "Marian"] and all(row["speed"] > 0 for row in rows)
