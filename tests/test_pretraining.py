"""Facts about what pretraining takes out of a text, and about models that learn to put it back."""

import math

import pytest
import torch

from utils.data.bpe import CLS_ID, MASK_ID, PAD_ID, SENTINEL_IDS, SEP_ID, SPECIAL_TOKENS
from utils.models.language import CausalLM, MaskedLM
from utils.models.transformer import Transformer
from utils.training import pretraining
from utils.training.pretraining import (
    NOT_ASKED,
    Asked,
    continue_text,
    corpus,
    corrupt_spans,
    draw_fragments,
    fill_in,
    held_out_losses,
    mask_tokens,
    next_piece_losses,
    pretrain,
    restore_pretrained,
    start_from_counts,
    write_gaps,
)

SMALL = {
    "steps": 40,
    "dim": 32,
    "heads": 2,
    "hidden": 64,
    "layers": 1,
    "length": 24,
    "batch": 6,
    "pieces": 400,
    "texts": 150,
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Masked words


def masked(b=200, n=100, pieces=500, **options):
    numbers = torch.randint(len(SPECIAL_TOKENS), pieces, (b, n), generator=generator())
    numbers[:, 0], numbers[:, -10], numbers[:, -9:] = CLS_ID, SEP_ID, PAD_ID
    real = numbers != PAD_ID
    return numbers, real, *mask_tokens(numbers, real, MASK_ID, pieces, generator=generator(1), **options)


def test_of_the_chosen_80_10_10_and_the_rest_stays():
    numbers, real, inputs, targets, chosen = masked()
    ordinary = real & (numbers >= len(SPECIAL_TOKENS))
    assert chosen.sum() / ordinary.sum() == pytest.approx(0.15, abs=0.01)
    hidden, same = inputs == MASK_ID, inputs == numbers
    assert (hidden & chosen).sum() / chosen.sum() == pytest.approx(0.8, abs=0.03)
    assert (same & chosen).sum() / chosen.sum() == pytest.approx(0.1, abs=0.02)
    assert (chosen & ~hidden & ~same).sum() / chosen.sum() == pytest.approx(0.1, abs=0.02)
    assert same[~chosen].all()
    assert torch.equal(targets[chosen], numbers[chosen]) and (targets[~chosen] == NOT_ASKED).all()


def test_neither_padding_nor_special_pieces_are_chosen_and_none_is_put_in_at_random():
    numbers, real, inputs, _, chosen = masked(share=1.0)
    assert torch.equal(chosen, real & (numbers >= len(SPECIAL_TOKENS)))
    strange = chosen & (inputs != MASK_ID)
    assert inputs[strange].min() >= len(SPECIAL_TOKENS) and inputs[strange].max() < 500
    assert len(inputs[strange].unique()) > 400


# Spans


def put_back(source, target):
    """The text that source and target were cut from."""
    found, current = {}, None
    for number in target.tolist():
        if number in SENTINEL_IDS:
            current = number
            found[current] = []
        else:
            found[current].append(number)
    return [one for number in source.tolist() for one in found.get(number, [number])], found


@pytest.mark.parametrize("n, share", [(2, 0.15), (3, 0.5), (10, 0.1), (64, 0.5), (100, 0.15)])
def test_source_and_target_together_are_the_text(n, share):
    numbers = torch.arange(100, 100 + n)
    for seed in range(20):
        source, target = corrupt_spans(numbers, SENTINEL_IDS, share, 3.0, generator(seed))
        text, found = put_back(source, target)
        assert text == numbers.tolist()
        cut = min(max(round(share * n), 1), n - 1)
        assert sum(map(len, found.values())) == cut
        spans = len(found) - 1
        assert (
            list(found) == list(SENTINEL_IDS[: spans + 1]) and found[SENTINEL_IDS[spans]] == []
        )  # the last gap ends the target
        assert all(found[gap] for gap in SENTINEL_IDS[:spans])
        assert len(source) == n - cut + spans and len(target) == cut + spans + 1


# The text


@pytest.fixture(scope="module")
def text():
    return corpus(400, 24, 150)


def test_the_text_is_framed_texts_in_a_row_and_the_held_out_fragments_go_through_theirs(text):
    assert text.train[0] == CLS_ID and text.train[-1] == SEP_ID
    assert (text.train == CLS_ID).sum() == (text.train == SEP_ID).sum() == 150
    assert not ((text.train == PAD_ID) | (text.train == MASK_ID)).any()
    assert text.held_out.size(1) == 25
    assert torch.equal(text.held_out[:-1, -1], text.held_out[1:, 0])
    assert text.subwords.decode(text.held_out[0]) not in text.subwords.decode(text.train)


def test_fragments_are_stretches_of_the_text_from_all_over_it():
    text = torch.arange(50)
    drawn = draw_fragments(text, 5, 400, generator())
    assert drawn.shape == (400, 5) and (drawn.diff() == 1).all()
    assert drawn.min() == 0 and drawn.max() == 49


# Objectives


def test_a_model_that_has_learnt_nothing_says_how_frequent_pieces_are(text):
    model = MaskedLM(len(text.subwords), 8, 2, 8, 1)
    counts = text.train.bincount(minlength=len(text.subwords)).float()
    start_from_counts(model, counts)
    with torch.no_grad():
        model.words.table.weight.zero_()
    asked = Asked("masked", len(text.subwords), 0.15)
    loss, unigram = held_out_losses(model, text, asked, counts)
    assert loss == pytest.approx(unigram, abs=1e-4)
    assert held_out_losses(model, text, asked, counts) == (loss, unigram)  # the same pieces each time


def test_the_causal_objective_asks_about_every_piece_but_the_first(text):
    model = CausalLM(len(text.subwords), 8, 2, 8, 1)
    fragments = text.held_out[:3]
    logits, targets = Asked("causal", len(text.subwords))(model, fragments, generator())
    assert torch.equal(targets.view(3, 24), fragments[:, 1:])
    assert torch.allclose(logits.view(3, 24, -1)[1], model(fragments[1:2, :-1])[0], atol=1e-5)


def test_the_spans_are_written_from_the_start_token_on_each_after_those_before_it(text):
    seen = {}

    class Watched(Transformer):
        def forward(self, source, source_mask, target, need_weights=False):
            seen.update(source=source, target=target)
            return super().forward(source, source_mask, target)

    pieces = len(text.subwords)
    model = Watched(pieces, pieces, 8, 2, 8, 1, norm="pre", tied="all")
    logits, targets = Asked("spans", pieces, 0.3)(model, text.held_out[:3], generator())
    targets = targets.view(3, -1)
    assert (seen["target"][:, 0] == CLS_ID).all() and torch.equal(seen["target"][:, 1:], targets[:, :-1])
    for row in range(3):
        assert put_back(seen["source"][row], targets[row])[0] == text.held_out[row, :-1].tolist()
    assert logits.shape == (targets.numel(), pieces)


# Trained, small


@pytest.fixture(scope="module")
def trained():
    return {name: pretrain.__wrapped__(name, 0, **SMALL) for name in pretraining.OBJECTIVES}


@pytest.mark.parametrize("objective", pretraining.OBJECTIVES)
def test_even_a_short_training_learns_and_the_restored_model_is_the_trained_one(trained, objective, text):
    result = trained[objective]
    assert result["loss"].shape == (40,) and result["loss"][-8:].mean() < result["loss"][:8].mean()
    assert result["perplexity"] == pytest.approx(math.exp(result["held_out"]))
    restored = restore_pretrained(result)
    asked = Asked(objective, len(text.subwords))
    counts = text.train.bincount(minlength=len(text.subwords)).float()
    loss, unigram = held_out_losses(restored.model, text, asked, counts)
    assert loss == pytest.approx(result["held_out"], abs=1e-6) and unigram == pytest.approx(result["unigram"])
    assert restored.subwords.encode("return a list") == text.subwords.encode("return a list")


def test_a_blank_is_filled_with_pieces_of_text_likeliest_first(trained):
    restored = restore_pretrained(trained["masked"])
    blanks = fill_in(restored, "Return the [MASK] of a [MASK].", count=4)
    assert len(blanks) == 2 and all(len(one) == 4 for one in blanks)
    for blank in blanks:
        chances = [chance for _, chance in blank]
        assert chances == sorted(chances, reverse=True) and 0 < sum(chances) < 1
        assert not any(piece in SPECIAL_TOKENS for piece, _ in blank)
    with pytest.raises(ValueError, match=r"with \[MASK\] in it"):
        fill_in(restored, "Return the length.")
    with pytest.raises(ValueError, match="pretrained by causal, got one by masked"):
        continue_text(restored, "Return")


def test_a_prompt_is_continued_and_the_seed_decides_how(trained):
    restored = restore_pretrained(trained["causal"])
    first, again, other = (continue_text(restored, "Return the", 30, temperature=1.0, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert first.startswith("return the") and len(first) > len("return the")
    assert "[SENTINEL" not in first and "[MASK]" not in first


def test_each_gap_gets_a_text(trained):
    restored = restore_pretrained(trained["spans"])
    found = write_gaps(restored, "Return the [SENTINEL0] of a list and [SENTINEL1].", limit=12)
    assert len(found) == 2 and all(isinstance(one, str) and "[SENTINEL" not in one for one in found)
    with pytest.raises(ValueError, match="1 to 15 gaps"):
        write_gaps(restored, "Return the length.")


def test_without_the_triangle_the_next_piece_is_copied():
    found = next_piece_losses.__wrapped__()
    assert found["floor"] == pytest.approx(math.log(10))
    assert found["both ways"] < 0.1 and found["causal"] > found["floor"] - 0.05
