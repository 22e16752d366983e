"""Facts about a story in a person's own words: encoded as training stories are, and errors that say what to change."""

import pytest
import torch

from utils.data.story_tensors import UnknownWord
from utils.training.memory import restore, task_questions, train_task
from utils.training.own_story import QUESTION_OF, answer_story, task_of

FROGS = "Lily is a frog. Brian is a lion.\nGreg is a frog\n\nBrian is gray. Greg is yellow."


@pytest.fixture(scope="module")
def networks():
    """Barely trained: their answers do not matter here."""
    return {
        task: restore(train_task.__wrapped__(task, 2, num_hops=2, epochs=1, linear_start=False)) for task in (1, 16)
    }


def test_a_story_is_cut_at_full_stops_and_line_ends(networks):
    answered = answer_story(networks, FROGS, "What color is Lily?")
    assert answered.sentences == [
        "Lily is a frog",
        "Brian is a lion",
        "Greg is a frog",
        "Brian is gray",
        "Greg is yellow",
    ]
    assert (answered.expected, answered.facts, answered.why) == ("yellow", (0, 2, 4), "")
    assert answered.weights.shape == (2, 5)
    torch.testing.assert_close(answered.weights.sum(-1), torch.ones(2))


@pytest.mark.parametrize("seed", [0, 1])
def test_it_answers_as_the_network_answers_the_same_test_question(networks, seed):
    for item in task_questions(16)[1][:20]:
        answers, weights = networks[16].answer([item])
        answered = answer_story(networks, "\n".join(item.story), item.question, seed)
        assert answered.answer == answers[seed][0]
        torch.testing.assert_close(answered.weights, weights[seed, 0])
        assert (answered.expected, answered.facts) == (item.answer, item.facts)


def test_the_question_decides_which_network_answers(networks):
    for task, (_, example) in QUESTION_OF.items():
        assert task_of(example, QUESTION_OF) == task
        assert task_of(example.lower().strip("?"), QUESTION_OF) == task
    with pytest.raises(ValueError, match="Ask like this: Where is Mary. What color is Lily"):
        answer_story(networks, FROGS, "Where is the milk?")
    with pytest.raises(ValueError, match="The question is empty. Ask like this"):
        answer_story(networks, FROGS, "  ")


def test_out_of_vocabulary_words_are_listed_with_the_vocabulary(networks):
    with pytest.raises(UnknownWord, match="'toad', 'purple'.*no embedding for them. It knows: a, bernhard, brian"):
        answer_story(networks, "Lily is a toad. Greg is purple.", "What color is Lily?")
    with pytest.raises(UnknownWord, match="'bob'"):
        answer_story(networks, FROGS, "What color is Bob?")


@pytest.mark.parametrize("story", ["", "  \n . \n"])
def test_an_empty_story_is_reported(networks, story):
    with pytest.raises(ValueError, match="The story is empty"):
        answer_story(networks, story, "What color is Lily?")


def test_a_story_or_a_sentence_that_is_too_long_is_reported(networks):
    with pytest.raises(ValueError, match="holds 50 sentences; the story has 51"):
        answer_story(networks, "Lily is green\n" * 51, "What color is Lily?")
    with pytest.raises(ValueError, match="has 9 words.*Divide it."):
        answer_story(networks, "Lily is a frog is a frog is green", "What color is Lily?")
    assert len(answer_story(networks, "Lily is green\n" * 50, "What color is Lily?").sentences) == 50


def test_a_story_without_a_solution_is_answered_all_the_same(networks):
    answered = answer_story(networks, "Lily is a frog", "What color is Lily?")
    assert answered.expected is None and "no other frog" in answered.why and answered.answer


def test_british_spelling_other_marks_and_line_numbers_are_read(networks):
    answered = answer_story(networks, "1 Lily is a frog!\n2 Greg is a frog; Greg is grey", "¿What colour is Lily?")
    assert answered.sentences == ["Lily is a frog", "Greg is a frog", "Greg is grey"]
    assert (answered.expected, answered.facts) == ("gray", (0, 1, 2))


def test_a_question_in_the_story_is_reported(networks):
    with pytest.raises(ValueError, match="'What color is Lily.' is a question"):
        answer_story(networks, "Lily is a frog. What color is Lily?", "What color is Lily?")
