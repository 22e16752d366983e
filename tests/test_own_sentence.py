"""Facts about translating a sentence that somebody typed: as in a batch, with a clear message for what cannot be read."""

import pytest
import torch

from utils.data.tokens import SPECIAL_TOKENS, Vocabulary
from utils.models.recurrent import Seq2Seq
from utils.models.transformer import Transformer
from utils.training.own_sentence import MAX_WORDS, decoding_steps, read_sentence, search_tree
from utils.training.transformer import TrainedTransformer
from utils.training.translation import Trained, limit_for, pairs_and_words

WORDS = Vocabulary(["the", "king", "queen", "sleeps", "sings"])


@pytest.fixture(scope="module", params=[None, "multiplicative"])
def trained(request):
    """Not trained: its predictions do not matter here."""
    torch.manual_seed(1)
    _, english, french = pairs_and_words(300)
    return Trained(Seq2Seq(len(english), len(french), request.param, hidden_size=16), english, french)


def test_decoding_step_by_step_gives_the_tokens_and_weights_of_the_batched_translation(trained):
    sentences = [list(pair.english) for pair in pairs_and_words(300)[0].test[:6]]
    for words, (tokens, weights) in zip(sentences, trained.translate_with_weights(sentences), strict=True):
        steps = decoding_steps(trained, " ".join(words), num_candidates=3)
        assert steps["source"] == [*words, SPECIAL_TOKENS[2]] and steps["target"][: len(tokens)] == tokens
        for token, candidates in zip(steps["target"], steps["candidates"], strict=True):
            assert candidates[0][0] == token and len(candidates) == 3
            assert [prob for _, prob in candidates] == sorted((prob for _, prob in candidates), reverse=True)
        if weights is None:
            assert steps["weights"] is None
        else:
            torch.testing.assert_close(steps["weights"], weights[None, None])


def test_case_and_marks_do_not_matter():
    assert read_sentence("  The king sleeps. ", WORDS) == ["the", "king", "sleeps"]


@pytest.mark.parametrize("text", ["", "  ", "?!"])
def test_an_empty_sentence_is_refused(text):
    with pytest.raises(ValueError, match="empty"):
        read_sentence(text, WORDS)


def test_out_of_vocabulary_words_are_listed_with_close_matches():
    with pytest.raises(ValueError, match="vocabulary: 'kings', 'flies'.*mean 'king'.*knows 5 words"):
        read_sentence("the kings sleeps the flies", WORDS)
    with pytest.raises(ValueError, match="vocabulary: 'xylophone'") as raised:
        read_sentence("the xylophone", WORDS)
    assert "Did you mean" not in str(raised.value)


def test_a_special_token_cannot_be_typed():
    assert read_sentence("the <eos> king", Vocabulary(["the", "king", "eos"])) == ["the", "eos", "king"]
    with pytest.raises(ValueError, match="vocabulary: 'eos'"):
        read_sentence("the <eos> king", WORDS)


def test_too_long_a_sentence_is_refused():
    assert len(read_sentence("the king " * (MAX_WORDS // 2), WORDS)) == MAX_WORDS
    with pytest.raises(ValueError, match=f"has {MAX_WORDS + 2} words"):
        read_sentence("the king " * (MAX_WORDS // 2 + 1), WORDS)


# With every attention of a Transformer


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(2)
    _, english, french = pairs_and_words(300)
    model = Transformer(len(english), len(french), 12, 3, 16, 2, norm_first=True, dropout=0.0, tied="none")
    with torch.no_grad():
        model.lm_head.weight.mul_(6.0)  # as confident as a trained one
    return TrainedTransformer(model, english, french)


def test_decoding_steps_have_the_cross_attention_of_every_layer_and_head(transformer):
    text = "the old king sleeps"
    steps = decoding_steps(transformer, text)
    (translation,) = transformer.translate([text.split()])
    assert [word for word in steps["target"] if word != SPECIAL_TOKENS[2]] == translation
    assert steps["weights"].shape == (2, 3, len(steps["target"]), 5)
    torch.testing.assert_close(steps["weights"].sum(-1), torch.ones(2, 3, len(steps["target"])))
    with pytest.raises(ValueError, match="vocabulary: 'xylophone'"):
        decoding_steps(transformer, "the xylophone")


def test_the_tree_of_width_one_is_the_greedy_translation(transformer):
    text = "the old king sleeps"
    tree = search_tree(transformer, text, 1)
    kept = [next(token for _, token, _, is_kept, _ in step if is_kept) for step in tree]
    assert kept == decoding_steps(transformer, text)["target"]
    wide = search_tree(transformer, text, 3)
    assert all(sum(node[3] for node in step) == 3 for step in wide) and len(wide) <= limit_for(4)
    with pytest.raises(ValueError, match="empty"):
        search_tree(transformer, "", 2)
