"""Facts about translating a person's own sentence: the same words as the batch gives, and a clear word for what cannot be read."""

import pytest
import torch

from utils.data.tokens import SPECIAL_TOKENS, Vocabulary
from utils.models.recurrent import Seq2Seq
from utils.models.transformer import Transformer
from utils.training.own_sentence import LONGEST, beginnings, read_sentence, step_by_step, watched
from utils.training.transformer import TrainedTransformer
from utils.training.translation import Trained, limit_for, pairs_and_words

WORDS = Vocabulary(["the", "king", "queen", "sleeps", "sings"])


@pytest.fixture(scope="module", params=[None, "multiplicative"])
def trained(request):
    """Not trained at all: what it says does not matter here."""
    torch.manual_seed(1)
    _, english, french = pairs_and_words(300)
    return Trained(Seq2Seq(len(english), len(french), request.param, hidden_size=16), english, french)


def test_steps_say_what_the_batched_translation_says_with_the_same_weights(trained):
    sentences = [list(pair.english) for pair in pairs_and_words(300)[0].test[:6]]
    for words, (said, weights) in zip(sentences, trained.translate_with_weights(sentences), strict=True):
        steps = step_by_step(trained, words)
        assert [step.word for step in steps][: len(said)] == said
        for step in steps:
            assert step.choices[0][0] == step.word and len(step.choices) == 3
            assert [p for _, p in step.choices] == sorted((p for _, p in step.choices), reverse=True)
        if weights is None:
            assert all(step.weights is None for step in steps)
        else:
            torch.testing.assert_close(torch.stack([step.weights for step in steps]), weights)


def test_case_and_marks_do_not_matter():
    assert read_sentence("  The king sleeps. ", WORDS) == ["the", "king", "sleeps"]


@pytest.mark.parametrize("text", ["", "  ", "?!"])
def test_an_empty_sentence_is_told(text):
    with pytest.raises(ValueError, match="empty"):
        read_sentence(text, WORDS)


def test_unknown_words_are_named_and_near_ones_offered():
    with pytest.raises(ValueError, match="never saw 'kings', 'flies'.*mean 'king'.*knows 5 words"):
        read_sentence("the kings sleeps the flies", WORDS)
    with pytest.raises(ValueError, match="never saw 'xylophone', so") as told:
        read_sentence("the xylophone", WORDS)
    assert "Did you mean" not in str(told.value)


def test_a_special_token_cannot_be_typed():
    assert read_sentence("the <eos> king", Vocabulary(["the", "king", "eos"])) == ["the", "eos", "king"]
    with pytest.raises(ValueError, match="never saw 'eos'"):
        read_sentence("the <eos> king", WORDS)


def test_too_long_a_sentence_is_told():
    assert len(read_sentence("the king " * (LONGEST // 2), WORDS)) == LONGEST
    with pytest.raises(ValueError, match=f"has {LONGEST + 2} words"):
        read_sentence("the king " * (LONGEST // 2 + 1), WORDS)


# With every attention of a Transformer


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(2)
    _, english, french = pairs_and_words(300)
    model = Transformer(len(english), len(french), 12, 3, 16, 2, norm="pre", dropout=0.0, tied="none")
    with torch.no_grad():
        model.output.weight.mul_(6.0)  # as sure of itself as a trained one
    return TrainedTransformer(model, english, french)


def test_what_is_watched_is_the_translation_with_all_its_looks(transformer):
    text = "the old king sleeps"
    seen = watched(transformer, text, rivals=3)
    (said,) = transformer.translate([text.split()])
    assert seen["source"] == [*text.split(), SPECIAL_TOKENS[2]]
    assert [word for word in seen["target"] if word != SPECIAL_TOKENS[2]] == said
    assert seen["weights"].shape == (2, 3, len(seen["target"]), 5)
    torch.testing.assert_close(seen["weights"].sum(-1), torch.ones(2, 3, len(seen["target"])))
    for word, choices in zip(seen["target"], seen["choices"], strict=True):
        assert len(choices) == 3 and choices[0][0] == word
        assert [chance for _, chance in choices] == sorted((chance for _, chance in choices), reverse=True)
    with pytest.raises(ValueError, match="never saw 'xylophone'"):
        watched(transformer, "the xylophone")


def test_the_tree_of_width_one_is_the_greedy_translation(transformer):
    text = "the old king sleeps"
    tree = beginnings(transformer, text, 1)["tree"]
    kept = [next(node for node in step if node.kept).word for step in tree]
    assert kept == watched(transformer, text)["target"]
    wide = beginnings(transformer, text, 3)["tree"]
    assert all(sum(node.kept for node in step) == 3 for step in wide) and len(wide) <= limit_for(4)
    with pytest.raises(ValueError, match="empty"):
        beginnings(transformer, "", 2)
