"""Facts about the three pretraining objectives, their inputs and targets, and the models trained with them."""

import math

import pytest
import torch
import torch.nn.functional as F

from utils.data.bpe import CLS_ID, MASK_ID, PAD_ID, SENTINEL_IDS, SEP_ID, SPECIAL_TOKENS, train_bpe
from utils.data.docstrings import Texts
from utils.models.language_models import CausalLM, EncoderConfig, MaskedLM
from utils.models.transformer import Transformer
from utils.training import pretraining
from utils.training.pretraining import (
    Objective,
    continue_text,
    corpus,
    corrupt_spans,
    fill_mask,
    fill_spans,
    held_out_losses,
    init_output_bias,
    leakage_losses,
    mask_tokens,
    pretrain,
    restore_pretrained,
    sample_windows,
    unigram_log_probs,
    unigram_on_held_out,
)
from utils.training.trainer import IGNORE_INDEX

SMALL = {
    "num_steps": 40,
    "dim": 32,
    "num_heads": 2,
    "hidden_dim": 64,
    "num_layers": 1,
    "length": 24,
    "batch_size": 6,
    "vocab_size": 400,
    "num_texts": 150,
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Masked tokens


def masked(b=200, n=100, vocab_size=500, **options):
    token_ids = torch.randint(len(SPECIAL_TOKENS), vocab_size, (b, n), generator=generator())
    token_ids[:, 0], token_ids[:, -10], token_ids[:, -9:] = CLS_ID, SEP_ID, PAD_ID
    attention_mask = token_ids != PAD_ID
    results = mask_tokens(token_ids, attention_mask, MASK_ID, vocab_size, generator=generator(1), **options)
    return token_ids, attention_mask, *results


def test_of_the_chosen_tokens_80_10_10_are_masked_replaced_and_kept():
    token_ids, attention_mask, inputs, targets, chosen = masked()
    ordinary = attention_mask & (token_ids >= len(SPECIAL_TOKENS))
    assert chosen.sum() / ordinary.sum() == pytest.approx(0.15, abs=0.01)
    is_mask, kept = inputs == MASK_ID, inputs == token_ids
    assert (is_mask & chosen).sum() / chosen.sum() == pytest.approx(0.8, abs=0.03)
    assert (kept & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.02)
    assert (chosen & ~is_mask & ~kept).sum() / chosen.sum() == pytest.approx(0.1, abs=0.02)
    assert kept[~chosen].all()
    assert torch.equal(targets[chosen], token_ids[chosen]) and (targets[~chosen] == IGNORE_INDEX).all()


def test_padding_and_special_tokens_are_neither_chosen_nor_drawn():
    token_ids, attention_mask, inputs, _, chosen = masked(mask_prob=1.0)
    assert torch.equal(chosen, attention_mask & (token_ids >= len(SPECIAL_TOKENS)))
    drawn = inputs[chosen & (inputs != MASK_ID)]
    assert drawn.min() >= len(SPECIAL_TOKENS) and drawn.max() < 500 and len(drawn.unique()) > 400


# Span corruption


def restored_text(source, target):
    """The text from which source and target were made, and the spans {sentinel id: token ids}."""
    spans, current = {}, None
    for token in target.tolist():
        if token in SENTINEL_IDS:
            current = token
            spans[current] = []
        else:
            spans[current].append(token)
    return [token for source_token in source.tolist() for token in spans.get(source_token, [source_token])], spans


@pytest.mark.parametrize("n, mask_prob", [(2, 0.15), (3, 0.5), (10, 0.1), (64, 0.5), (100, 0.15)])
def test_source_and_target_together_are_the_text(n, mask_prob):
    token_ids = torch.arange(100, 100 + n)
    for seed in range(20):
        source, target = corrupt_spans(token_ids, mask_prob, 3.0, generator(seed))
        text, spans = restored_text(source, target)
        assert text == token_ids.tolist()
        num_removed, num_spans = min(max(round(mask_prob * n), 1), n - 1), len(spans) - 1
        assert sum(map(len, spans.values())) == num_removed
        assert list(spans) == list(SENTINEL_IDS[: num_spans + 1]) and all(list(spans.values())[:-1])
        assert spans[SENTINEL_IDS[num_spans]] == []  # the final sentinel
        assert len(source) == n - num_removed + num_spans and len(target) == num_removed + num_spans + 1


# Corpus


@pytest.fixture(scope="module")
def text():
    return corpus(400, 24, 150)


def test_the_corpus_is_one_stream_and_held_out_windows_cover_theirs_once(text):
    assert text.train[0] == CLS_ID and text.train[-1] == SEP_ID
    assert (text.train == CLS_ID).sum() == (text.train == SEP_ID).sum() == 150
    assert not ((text.train == PAD_ID) | (text.train == MASK_ID)).any()
    assert text.held_out.size(1) == 25
    assert torch.equal(text.held_out[:-1, -1], text.held_out[1:, 0])
    assert text.tokenizer.decode(text.held_out[0]) not in text.tokenizer.decode(text.train)


def test_windows_are_contiguous_and_reach_both_ends_of_the_text():
    windows = sample_windows(torch.arange(50), 5, 400, generator())
    assert windows.shape == (400, 5) and (windows.diff() == 1).all()
    assert windows.min() == 0 and windows.max() == 49


# Objectives


def small_config(text):
    return EncoderConfig(len(text.tokenizer), dim=8, num_heads=2, hidden_dim=8, num_layers=1)


def test_with_the_initial_bias_and_no_hidden_states_a_model_is_a_unigram_model(text):
    model = MaskedLM(small_config(text))
    init_output_bias(model, text.token_counts)
    with torch.no_grad():
        model.embedding.token_embedding.weight.zero_()
    objective = Objective("masked", len(text.tokenizer))
    loss, unigram = held_out_losses(model, text, objective)
    assert loss == pytest.approx(unigram, abs=1e-4)
    assert held_out_losses(model, text, objective) == (loss, unigram)  # the same tokens are masked each time


def test_a_masked_lm_that_copies_visible_tokens_is_no_better_than_a_unigram_model(text):
    class Copy:
        """Unigram probabilities at [MASK]; elsewhere nearly certain that the token has stayed."""

        def encode(self, token_ids):
            return token_ids

        def lm_head(self, token_ids):
            copied = 20.0 * F.one_hot(token_ids, len(text.tokenizer)) * (token_ids != MASK_ID).unsqueeze(-1)
            return unigram_log_probs(text.token_counts) + copied

    loss, unigram = held_out_losses(Copy(), text, Objective("masked", len(text.tokenizer)))
    assert loss == pytest.approx(unigram, abs=1e-5)


def test_the_causal_objective_predicts_every_token_but_the_first(text):
    model, windows = CausalLM(small_config(text)), text.held_out[:3]
    logits, targets = Objective("causal", len(text.tokenizer))(model, windows, generator())
    assert torch.equal(targets.view(3, 24), windows[:, 1:])
    assert torch.allclose(logits.view(3, 24, -1)[1], model(windows[1:2, :-1])[0], atol=1e-5)


def test_span_corruption_trains_the_decoder_with_teacher_forcing(text):
    inputs = {}

    class Recorded(Transformer):
        def forward(self, source, source_mask, target, need_weights=False):
            inputs.update(source=source, target=target)
            return super().forward(source, source_mask, target)

    vocab_size = len(text.tokenizer)
    model = Recorded(vocab_size, vocab_size, 8, 2, 8, 1, norm_first=True, tied="all")
    logits, targets = Objective("spans", vocab_size)(model, text.held_out[:3], generator())
    targets = targets.view(3, -1)
    assert (inputs["target"][:, 0] == CLS_ID).all() and torch.equal(inputs["target"][:, 1:], targets[:, :-1])
    for row in range(3):
        assert restored_text(inputs["source"][row], targets[row])[0] == text.held_out[row, :-1].tolist()
    assert logits.shape == (targets.numel(), vocab_size)


# Trained, small


@pytest.fixture(scope="module")
def trained():
    return {name: pretrain.__wrapped__(name, 0, **SMALL) for name in pretraining.OBJECTIVES}


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_a_short_training_lowers_the_loss_and_the_restored_model_is_the_trained_one(trained, objective, text):
    result = trained[objective]
    assert result["loss"].shape == (40,) and result["loss"][-8:].mean() < result["loss"][:8].mean()
    assert result["perplexity"] == pytest.approx(math.exp(result["held_out"]))
    restored = restore_pretrained(result)
    loss, unigram = held_out_losses(restored.model, text, Objective(objective, len(text.tokenizer)))
    assert loss == pytest.approx(result["held_out"], abs=1e-6) and unigram == pytest.approx(result["unigram"])
    assert restored.tokenizer.encode("return a list") == text.tokenizer.encode("return a list")


def test_masked_tokens_are_predicted_best_first_without_special_tokens(trained):
    predictions = fill_mask(restore_pretrained(trained["masked"]), "Return the [MASK] of a [MASK].", count=4)
    assert len(predictions) == 2
    for candidates in predictions:
        tokens, probs = zip(*candidates, strict=True)
        assert len(probs) == 4 and list(probs) == sorted(probs, reverse=True) and 0 < sum(probs) < 1
        assert not set(tokens) & set(SPECIAL_TOKENS)


def test_a_prompt_is_continued_and_the_seed_decides_how(trained):
    restored = restore_pretrained(trained["causal"])
    texts = [continue_text(restored, "Return the", 30, seed) for seed in (0, 0, 1, 2, 3)]
    assert texts[0] == texts[1] and len(set(texts)) > 2
    assert all(text.startswith("return the") for text in texts) and max(map(len, texts)) > len("return the")
    assert not any("[SENTINEL" in text or "[MASK]" in text for text in texts)


def test_each_sentinel_gets_a_span(trained):
    restored = restore_pretrained(trained["spans"])
    spans = fill_spans(restored, "Return the [SENTINEL0] of a list and [SENTINEL1].", max_len=12)
    assert len(spans) == 2 and all(isinstance(span, str) and "[SENTINEL" not in span for span in spans)


def test_without_the_causal_mask_the_next_token_leaks():
    losses = leakage_losses.__wrapped__()
    assert losses["entropy"] == pytest.approx(math.log(10))
    assert losses["bidirectional"] < 0.1 and losses["causal"] > losses["entropy"] - 0.05


def test_a_unigram_model_over_four_equally_frequent_tokens_has_perplexity_four(monkeypatch):
    text = Texts(("a b c d",) * 50, ("d c b a",))
    monkeypatch.setattr(pretraining, "_texts", lambda: text)
    loss, num_tokens = unigram_on_held_out(train_bpe(text.train, len(SPECIAL_TOKENS) + 5 + 4))
    assert math.exp(loss) == pytest.approx(4, rel=0.02) and num_tokens == 4
