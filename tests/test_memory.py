"""Facts about the memory network and its training: encodings, hops, masks, ties, and seeds that know nothing of each other."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.memory import plain_loop
from utils.data.babi import BabiError, parse
from utils.data.stories import TASKS, story_text
from utils.data.story_tensors import Stories, StoryVocabulary, as_tensors
from utils.models.memory import MemoryNetwork, position_weights, word_counts
from utils.training import babi
from utils.training.memory import (
    LARGEST_GRADIENT,
    answers,
    as_mask,
    blank_between,
    descend,
    fact_agreement,
    logits_and_weights,
    numbered,
    places,
    real_files,
    task_questions,
    train,
    train_task,
)

WORDS = 11
variants = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"hops": 1, "positions": False},
        {"tying": "layer-wise", "temporal": False, "positions": False, "hops": 2},
    ],
    ids=str,
)


def random_stories(count: int = 6, memories: int = 5, longest: int = 4, seed: int = 0) -> Stories:
    """Sentences of one to `longest` words, stories of one to all memories, the oldest statement first."""
    chance = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=chance)

    told = draw(1, memories + 1, count, 1)
    told[0] = memories
    mask = torch.arange(memories) < told
    story = draw(0, WORDS, count, memories, longest)
    story[torch.arange(longest) >= draw(1, longest + 1, count, memories, 1)] = -1
    story[~mask] = -1
    question = draw(0, WORDS, count, longest)
    age = (told - 1 - torch.arange(memories)).clamp_min(0)
    return Stories(story, question, draw(0, WORDS, count), mask, age, torch.zeros_like(mask), 0.0)


def outputs(model: MemoryNetwork, stories: Stories, linear: bool = False, **changed):
    """Logits and weights by the model's own forward pass; `changed` replaces its inputs."""
    inputs = {
        "story": word_counts(stories.story, model.words),
        "question": word_counts(stories.question, model.words),
        "mask": stories.mask,
        "age": stories.age,
    } | changed
    seeds = len(model.tables)
    return model(**{name: value.expand(seeds, *value.shape) for name, value in inputs.items()}, linear=linear)


def small_task(task: int, count: int = 64):
    questions = parse(story_text(task, count, 3))[:count]
    vocabulary = StoryVocabulary.build(questions)
    return as_tensors(questions, vocabulary), len(vocabulary)


# Encodings


def test_position_weights_are_the_published_formula():
    weights = position_weights(7, 5)
    for j in range(1, 8):
        for i in range(1, 6):
            assert weights[j - 1, i - 1].item() == pytest.approx(1 + 4 * (i - 3) * (j - 4) / (5 * 7))
    assert torch.allclose(weights.mean(0), torch.ones(5)) and torch.allclose(weights.mean(1), torch.ones(7))


@pytest.mark.parametrize("positions", [True, False])
def test_a_sentence_vector_is_the_weighted_sum_of_its_word_vectors(positions):
    model = MemoryNetwork(WORDS, dim=6, positions=positions, seeds=3)
    stories = random_stories()
    table = model.tables[:, 0]
    found = model.encode(word_counts(stories.story, WORDS).expand(3, -1, -1, -1, -1), table)
    weights = position_weights(4, 6) if positions else torch.ones(4, 6)
    for seed in range(3):
        for place in ((0, 0), (3, 0), (0, 4)):
            told = [(j, word) for j, word in enumerate(stories.story[place].tolist()) if word >= 0]
            expected = sum((weights[j] * table[seed, word] for j, word in told), torch.zeros(6))
            assert torch.allclose(found[(seed, *place)], expected, atol=1e-6)


# Hops


def test_the_state_of_a_hop_is_the_last_state_plus_what_was_found():
    """Adjacent ties, written out: values of a hop are keys of the next, the last values answer."""
    model, stories = MemoryNetwork(WORDS, hops=2), random_stories(count=1)
    counts, asked = word_counts(stories.story, WORDS)[None], word_counts(stories.question, WORDS)[None]
    read = [model.encode(counts, model.tables[:, k])[0, 0] + model.ages[0, k, stories.age[0]] for k in range(3)]
    state = model.encode(asked, model.tables[:, 0])[0, 0]
    for hop in range(2):
        state = state + (read[hop] @ state).softmax(0) @ read[hop + 1]
    assert torch.allclose(outputs(model, stories)[0][0, 0], model.tables[0, 2] @ state, atol=1e-5)


# Masks and order


@variants
@pytest.mark.parametrize("linear", [True, False])
def test_what_stands_in_an_empty_memory_never_changes_an_output(kind, linear):
    model, stories = MemoryNetwork(WORDS, seeds=2, **kind), random_stories()
    counts = word_counts(stories.story, WORDS)
    other = torch.where(stories.mask[..., None, None], counts, torch.randn_like(counts))
    plain, disturbed = (outputs(model, stories, linear, story=story) for story in (counts, other))
    assert torch.equal(plain[0], disturbed[0]) and torch.equal(plain[1], disturbed[1])


@pytest.mark.parametrize("linear", [True, False])
def test_no_gradient_reaches_an_empty_memory(linear):
    model, stories = MemoryNetwork(WORDS, seeds=2), random_stories()
    counts = word_counts(stories.story, WORDS).requires_grad_()
    outputs(model, stories, linear, story=counts)[0].square().sum().backward()
    assert (counts.grad[~stories.mask] == 0).all()
    assert counts.grad[stories.mask].abs().sum() > 0


@pytest.mark.parametrize("temporal", [False, True])
def test_the_order_of_statements_counts_only_with_temporal_encoding(temporal):
    model = MemoryNetwork(WORDS, temporal=temporal, seeds=2)
    stories = random_stories()
    counts = word_counts(stories.story[:1], WORDS)
    first = Stories(
        *(getattr(stories, name)[:1] for name in ("story", "question", "answer", "mask", "age", "fact")), 0.0
    )
    order = torch.tensor([3, 0, 4, 1, 2])
    plain, shuffled = outputs(model, first), outputs(model, first, story=counts[:, order])
    assert torch.allclose(plain[0], shuffled[0], atol=1e-6) != temporal
    if not temporal:
        assert torch.allclose(plain[1][..., order], shuffled[1], atol=1e-6)


# The fast way is the same way


@variants
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_reading_each_distinct_sentence_once_gives_what_the_model_gives(kind, linear, full):
    model, stories = MemoryNetwork(WORDS, seeds=2, **kind), random_stories(count=9)
    if full:
        stories.mask = torch.ones_like(stories.mask)
    by_number = numbered(stories, model)
    place = places(by_number.story, stories.age, model, len(by_number.counts)).expand(2, -1, -1)
    mask = as_mask(stories.mask, linear)
    assert (mask is None) == full
    mask = None if full else mask.expand(2, -1, -1)
    asked = by_number.question.expand(2, -1)
    logits, weights = logits_and_weights(model, by_number.counts, place, asked, mask, linear)
    expected = outputs(model, stories, linear)
    assert torch.allclose(logits, expected[0], atol=1e-5)
    assert torch.allclose(torch.stack(weights, 2), expected[1], atol=1e-5)
    used = [parameter for parameter in model.parameters() if parameter.numel()]
    ours, theirs = (torch.autograd.grad(one.square().sum(), used, retain_graph=True) for one in (logits, expected[0]))
    for first, second in zip(ours, theirs, strict=True):
        assert torch.allclose(first, second, atol=1e-4)


# Blank memories


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10_000))
def test_blanks_keep_the_order_of_statements_and_add_at_most_a_tenth(size, seed):
    told = torch.randint(1, size + 1, (20, 1), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(size) < told
    age = (told - 1 - torch.arange(size)).clamp_min(0)
    older = blank_between(age, mask, torch.Generator().manual_seed(seed))
    for row in range(20):
        before, after = age[row, mask[row]], older[row, mask[row]]
        assert (after.diff() < 0).all()  # older first, and no two of one age
        assert ((after - before) >= 0).all()
        assert (after - before).max() <= math.ceil(0.1 * told[row].item())
        assert ((after - before).diff() <= 0).all()  # a blank makes all older ones older


# Training


@pytest.mark.parametrize("kind", [{}, {"tying": "layer-wise", "temporal": False}], ids=str)
def test_each_seed_trains_exactly_as_if_it_were_alone(kind):
    stories, words = small_task(16, count=32)

    def trained(seeds):
        model = MemoryNetwork(words, seeds=seeds, memory=12, **kind).double()
        losses = train(model, stories, seeds, epochs=2, batch=16)
        return [parameter.detach() for parameter in model.parameters()], losses

    together, losses = trained([4, 0, 9])
    for place, seed in enumerate([4, 0, 9]):
        alone, loss = trained([seed])
        for first, second in zip(together, alone, strict=True):
            assert torch.allclose(first[place], second[0], rtol=0, atol=1e-12)
        assert torch.allclose(losses[:, place], loss[:, 0], rtol=0, atol=1e-6)


def test_training_is_the_plain_loop_for_one_seed_done_for_all():
    for task in (16, 1):  # one without and one with empty memories
        stories, words = small_task(task)
        model = MemoryNetwork(words, seeds=[2, 5], memory=12)
        losses = train(model, stories, [2, 5], epochs=2)
        tables, expected = plain_loop(stories, words, 12, 5, linear_start=True, epochs=2)
        assert torch.allclose(model.tables[1].transpose(0, 1).flatten(1), tables, atol=1e-4)
        assert losses[:, 1].tolist() == pytest.approx(expected, rel=1e-3)


def test_a_wild_neighbour_does_not_shorten_anothers_gradient():
    parameters = [torch.zeros(3, 4), torch.zeros(3, 2, 2)]
    gradients = [torch.full((3, 4), 3.0), torch.full((3, 2, 2), 4.0)]
    for gradient in gradients:
        gradient[1] *= 1000
    descend(parameters, gradients, rate=0.1)
    assert torch.allclose(parameters[0][0], torch.full((4,), -0.3)) and torch.allclose(
        parameters[1][2], torch.full((2, 2), -0.4)
    )
    length = math.hypot(parameters[0][1].norm(), parameters[1][1].norm())
    assert length == pytest.approx(0.1 * LARGEST_GRADIENT, rel=1e-5)


def test_facts_agree_only_if_each_is_the_top_of_some_hop():
    weights = torch.tensor([[[0.1, 0.7, 0.2], [0.8, 0.1, 0.1]], [[0.1, 0.7, 0.2], [0.0, 0.6, 0.4]]])[None]
    stories = random_stories(count=2, memories=3)
    stories.fact = torch.tensor([[True, True, False], [True, True, False]])
    assert fact_agreement(weights, stories, torch.tensor([2, 2])).tolist() == [0.5]
    assert fact_agreement(weights, stories, torch.tensor([3, 2])).tolist() == [0.0]  # a third fact was cut off


# Data


@pytest.mark.parametrize("task", TASKS)
def test_no_test_story_is_a_training_story(task):
    training, test = task_questions(task)
    assert len(training) == len(test) == 1000
    assert not {one.story for one in training} & {one.story for one in test}


def write_task(folder, task, parts=("train", "test")):
    for seed, part in enumerate(parts):
        (folder / f"qa{task}_some-name_{part}.txt").write_text(story_text(task, 40, seed), encoding="utf-8")


def test_files_are_read_instead_of_generated_and_a_changed_file_trains_again(tmp_path):
    write_task(tmp_path, 15)
    first = train_task(15, 1, epochs=1, folder=tmp_path)
    assert len(task_questions(15, tmp_path)[0]) == 40
    assert torch.equal(train_task(15, 1, epochs=1, folder=tmp_path)["loss"], first["loss"])
    (tmp_path / "qa15_some-name_train.txt").write_text(story_text(15, 40, 2), encoding="utf-8")
    assert not torch.equal(train_task(15, 1, epochs=1, folder=tmp_path)["loss"], first["loss"])


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(BabiError, match="nowhere: there is no such folder"):
        real_files(tmp_path / "nowhere", 1)
    write_task(tmp_path, 1, ["train"])
    with pytest.raises(BabiError, match=r"expected a file qa1_..._test.txt"):
        real_files(tmp_path, 1)
    with pytest.raises(ValueError, match="the others need the published files"):
        task_questions(4)


# The command and the benchmark


def test_the_command_prints_own_errors_and_published_ones(tmp_path, capsys):
    write_task(tmp_path, 15)
    assert babi.main(["--tasks", "15", "--seeds", "2", "--epochs", "1", "--folder", str(tmp_path), "--no-time"]) == 0
    printed = capsys.readouterr().out
    own = next(line for line in printed.splitlines() if line.startswith("  15 "))
    assert len(own.split()) == 7 + 2
    assert "Published, on the real bAbI files" in printed and "Sukhbaatar et al. 2015" in printed
    assert "vinhkhuc/MemN2N-babi-python" in printed


def test_answers_come_with_the_weights_of_the_model_itself():
    stories, words = small_task(15)
    model = MemoryNetwork(words, seeds=2)
    given, weights = answers(model, stories)
    logits, expected = outputs(model, stories)
    assert torch.equal(given, logits.argmax(-1)) and torch.allclose(weights, expected, atol=1e-6)
