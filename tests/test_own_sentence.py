"""Facts about translating a person's own sentence: the same words as the batch gives, and a clear word for what cannot be read."""

import pytest
import torch

from utils.data.tokens import SPECIAL, TokenVocabulary
from utils.models.seq2seq import Seq2Seq
from utils.training.own_sentence import LONGEST, read_sentence, step_by_step
from utils.training.translation import Trained, pairs_and_words

WORDS = TokenVocabulary(["the", "king", "queen", "sleeps", "sings"])


@pytest.fixture(scope="module", params=[None, "multiplicative"])
def trained(request):
    """Not trained at all: what it says does not matter here."""
    torch.manual_seed(1)
    _, english, french = pairs_and_words(300)
    return Trained(Seq2Seq(len(english), len(french), request.param, width=16), english, french)


def test_steps_say_what_the_batched_translation_says_with_the_same_weights(trained):
    sentences = [list(pair.english) for pair in pairs_and_words(300)[0].test[:6]]
    for words, (said, weights) in zip(sentences, trained.translate_and_look(sentences), strict=True):
        steps = step_by_step(trained, words)
        assert [step.word for step in steps][: len(said)] == said
        for step in steps:
            assert step.choices[0][0] == step.word and len(step.choices) == 3
            assert [p for _, p in step.choices] == sorted((p for _, p in step.choices), reverse=True)
        if weights is None:
            assert all(step.weights is None for step in steps)
        else:
            torch.testing.assert_close(torch.stack([step.weights for step in steps]), weights)


def test_a_translation_that_never_ends_is_cut(trained):
    steps = step_by_step(trained, ["the"] * 5)
    assert steps[-1].word == SPECIAL[2] or len(steps) == 20


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
    assert read_sentence("the <end> king", TokenVocabulary(["the", "king", "end"])) == ["the", "end", "king"]
    with pytest.raises(ValueError, match="never saw 'end'"):
        read_sentence("the <end> king", WORDS)


def test_too_long_a_sentence_is_told():
    assert len(read_sentence("the king " * (LONGEST // 2), WORDS)) == LONGEST
    with pytest.raises(ValueError, match=f"has {LONGEST + 2} words"):
        read_sentence("the king " * (LONGEST // 2 + 1), WORDS)
