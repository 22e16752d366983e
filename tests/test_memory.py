"""Facts about the memory network and its training: encodings, hops, masks, weight tying, and independent seeds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.memory import plain_loop
from utils.data.babi import TASK_NAMES, parse
from utils.data.stories import TASKS, story_text
from utils.data.story_tensors import Stories, StoryVocabulary, as_tensors
from utils.models.memory import MemoryNetwork, bag_of_words, position_encoding
from utils.training import babi
from utils.training.memory import (
    MAX_NORM,
    distinct_sentences,
    fact_agreement,
    logits_and_weights,
    memory_index,
    predict,
    random_noise,
    score_mask,
    sgd_step,
    task_questions,
    train,
    train_task,
)

VOCAB_SIZE = 11
variants = pytest.mark.parametrize(
    "kind",
    [
        {},
        {"num_hops": 1, "position_encoding": False},
        {"tying": "layer-wise", "temporal": False, "position_encoding": False, "num_hops": 2},
    ],
    ids=str,
)


def random_stories(count: int = 6, memories: int = 5, max_len: int = 4, seed: int = 0) -> Stories:
    """Sentences of 1 to `max_len` tokens, stories of 1 to `memories` statements, the oldest first."""
    chance = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=chance)

    length = draw(1, memories + 1, count, 1)
    length[0] = memories
    mask = torch.arange(memories) < length
    story = draw(0, VOCAB_SIZE, count, memories, max_len)
    story[torch.arange(max_len) >= draw(1, max_len + 1, count, memories, 1)] = -1
    story[~mask] = -1
    question = draw(0, VOCAB_SIZE, count, max_len)
    age = (length - 1 - torch.arange(memories)).clamp_min(0)
    return Stories(story, question, draw(0, VOCAB_SIZE, count), mask, age, torch.zeros_like(mask), 0.0)


def outputs(model: MemoryNetwork, stories: Stories, linear: bool = False, **changed):
    """Logits and weights by the model's own forward pass; `changed` replaces its inputs."""
    inputs = {
        "story": bag_of_words(stories.story, model.vocab_size),
        "question": bag_of_words(stories.question, model.vocab_size),
        "mask": stories.mask,
        "temporal_index": stories.age,
    } | changed
    seeds = len(model.embeddings)
    return model(**{name: value.expand(seeds, *value.shape) for name, value in inputs.items()}, linear=linear)


def small_task(task: int, count: int = 64):
    questions = parse(story_text(task, count, 3))[:count]
    vocabulary = StoryVocabulary.build(questions)
    return as_tensors(questions, vocabulary), len(vocabulary)


# Encodings


def test_position_encoding_is_the_published_formula():
    weights = position_encoding(7, 5)
    for j in range(1, 8):
        for i in range(1, 6):
            assert weights[j - 1, i - 1].item() == pytest.approx(1 + 4 * (i - 3) * (j - 4) / (5 * 7))
    assert torch.allclose(weights.mean(0), torch.ones(5)) and torch.allclose(weights.mean(1), torch.ones(7))


@pytest.mark.parametrize("encoded", [True, False])
def test_a_sentence_embedding_is_the_weighted_sum_of_its_token_embeddings(encoded):
    model = MemoryNetwork(VOCAB_SIZE, dim=6, position_encoding=encoded, seeds=3)
    stories = random_stories()
    embedding = model.embeddings[:, 0]
    sentences = model.encode(bag_of_words(stories.story, VOCAB_SIZE).expand(3, -1, -1, -1, -1), embedding)
    weights = position_encoding(4, 6) if encoded else torch.ones(4, 6)
    for seed in range(3):
        for index in ((0, 0), (3, 0), (0, 4)):
            tokens = [(j, token) for j, token in enumerate(stories.story[index].tolist()) if token >= 0]
            expected = sum((weights[j] * embedding[seed, token] for j, token in tokens), torch.zeros(6))
            assert torch.allclose(sentences[(seed, *index)], expected, atol=1e-6)


# Hops


def test_a_hop_adds_its_context_to_the_state():
    """Adjacent tying, written out: values of a hop are keys of the next, the last embedding gives the logits."""
    model, stories = MemoryNetwork(VOCAB_SIZE, num_hops=2), random_stories(count=1)
    bags, question = bag_of_words(stories.story, VOCAB_SIZE)[None], bag_of_words(stories.question, VOCAB_SIZE)[None]
    temporal = model.temporal_embeddings[0][:, stories.age[0]]
    memories = [model.encode(bags, model.embeddings[:, k])[0, 0] + temporal[k] for k in range(3)]
    state = model.encode(question, model.embeddings[:, 0])[0, 0]
    for hop in range(2):
        state = state + (memories[hop] @ state).softmax(0) @ memories[hop + 1]
    assert torch.allclose(outputs(model, stories)[0][0, 0], model.embeddings[0, 2] @ state, atol=1e-5)


# Masks and order


@variants
@pytest.mark.parametrize("linear", [True, False])
def test_padding_never_changes_an_output(kind, linear):
    model, stories = MemoryNetwork(VOCAB_SIZE, seeds=2, **kind), random_stories()
    counts = bag_of_words(stories.story, VOCAB_SIZE)
    disturbed_counts = torch.where(stories.mask[..., None, None], counts, torch.randn_like(counts))
    plain, disturbed = (outputs(model, stories, linear, story=story) for story in (counts, disturbed_counts))
    assert torch.equal(plain[0], disturbed[0]) and torch.equal(plain[1], disturbed[1])


@pytest.mark.parametrize("linear", [True, False])
def test_no_gradient_reaches_padding(linear):
    model, stories = MemoryNetwork(VOCAB_SIZE, seeds=2), random_stories()
    counts = bag_of_words(stories.story, VOCAB_SIZE).requires_grad_()
    outputs(model, stories, linear, story=counts)[0].square().sum().backward()
    assert (counts.grad[~stories.mask] == 0).all()
    assert counts.grad[stories.mask].abs().sum() > 0


@pytest.mark.parametrize("temporal", [False, True])
def test_the_order_of_statements_counts_only_with_temporal_encoding(temporal):
    model = MemoryNetwork(VOCAB_SIZE, temporal=temporal, seeds=2)
    stories = random_stories()
    counts = bag_of_words(stories.story[:1], VOCAB_SIZE)
    first = Stories(
        *(getattr(stories, name)[:1] for name in ("story", "question", "answer", "mask", "age", "fact")), 0.0
    )
    order = torch.tensor([3, 0, 4, 1, 2])
    plain, shuffled = outputs(model, first), outputs(model, first, story=counts[:, order])
    assert torch.allclose(plain[0], shuffled[0], atol=1e-6) != temporal
    if not temporal:
        assert torch.allclose(plain[1][..., order], shuffled[1], atol=1e-6)


# Training on distinct sentences is the model's forward pass


@variants
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_embedding_each_distinct_sentence_once_gives_the_outputs_of_the_model(kind, linear, full):
    model, stories = MemoryNetwork(VOCAB_SIZE, seeds=2, **kind), random_stories(count=9)
    if full:
        stories.mask = torch.ones_like(stories.mask)
    distinct = distinct_sentences(stories, model)
    index = memory_index(distinct.story, stories.age, model, len(distinct.counts)).expand(2, -1, -1)
    mask = score_mask(stories.mask, linear)
    assert (mask is None) == full
    mask = None if full else mask.expand(2, -1, -1)
    questions = distinct.question.expand(2, -1)
    logits, weights = logits_and_weights(model, distinct.counts, index, questions, mask, linear)
    expected = outputs(model, stories, linear)
    assert torch.allclose(logits, expected[0], atol=1e-5)
    assert torch.allclose(torch.stack(weights, 2), expected[1], atol=1e-5)
    used = [parameter for parameter in model.parameters() if parameter.numel()]
    gradients, reference = (
        torch.autograd.grad(output.square().sum(), used, retain_graph=True) for output in (logits, expected[0])
    )
    for gradient, expected_gradient in zip(gradients, reference, strict=True):
        assert torch.allclose(gradient, expected_gradient, atol=1e-4)


# Random noise


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(0, 10_000))
def test_random_noise_keeps_the_order_of_statements_and_adds_at_most_a_tenth(size, seed):
    length = torch.randint(1, size + 1, (20, 1), generator=torch.Generator().manual_seed(seed))
    mask = torch.arange(size) < length
    age = (length - 1 - torch.arange(size)).clamp_min(0)
    older = random_noise(age, mask, torch.Generator().manual_seed(seed))
    for row in range(20):
        before, after = age[row, mask[row]], older[row, mask[row]]
        assert (after.diff() < 0).all()  # older first, and no two of one age
        assert ((after - before) >= 0).all()
        assert (after - before).max() <= math.ceil(0.1 * length[row].item())
        assert ((after - before).diff() <= 0).all()  # an empty memory makes all older statements older


# Training


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("kind", [{}, {"tying": "layer-wise", "temporal": False}], ids=str)
def test_each_seed_trains_exactly_as_if_it_were_alone(kind, optimizer):
    stories, vocab_size = small_task(16, count=32)

    def trained(seeds):
        model = MemoryNetwork(vocab_size, seeds=seeds, memory_size=12, **kind).double()
        losses = train(model, stories, seeds, epochs=2, batch_size=16, optimizer=optimizer)
        return [parameter.detach() for parameter in model.parameters()], losses

    together, losses = trained([4, 0, 9])
    for index, seed in enumerate([4, 0, 9]):
        alone, loss = trained([seed])
        for first, second in zip(together, alone, strict=True):
            assert torch.allclose(first[index], second[0], rtol=0, atol=1e-12)
        assert torch.allclose(losses[:, index], loss[:, 0], rtol=0, atol=1e-6)


def test_training_is_the_plain_loop_for_one_seed_done_for_all():
    for task in (16, 1):  # one without and one with padding
        stories, vocab_size = small_task(task)
        model = MemoryNetwork(vocab_size, seeds=[2, 5], memory_size=12)
        losses = train(model, stories, [2, 5], epochs=2)
        embeddings, expected = plain_loop(stories, vocab_size, 12, 5, linear_start=True, epochs=2)
        assert torch.allclose(model.embeddings[1].transpose(0, 1).flatten(1), embeddings, atol=1e-4)
        assert losses[:, 1].tolist() == pytest.approx(expected, rel=1e-3)


def test_a_large_gradient_of_one_seed_does_not_clip_another_seed():
    parameters = [torch.zeros(3, 4), torch.zeros(3, 2, 2)]
    gradients = [torch.full((3, 4), 3.0), torch.full((3, 2, 2), 4.0)]
    for gradient in gradients:
        gradient[1] *= 1000
    sgd_step(parameters, gradients, learning_rate=0.1)
    assert torch.allclose(parameters[0][0], torch.full((4,), -0.3)) and torch.allclose(
        parameters[1][2], torch.full((2, 2), -0.4)
    )
    norm = math.hypot(parameters[0][1].norm(), parameters[1][1].norm())
    assert norm == pytest.approx(0.1 * MAX_NORM, rel=1e-5)


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
    assert not {question.story for question in training} & {question.story for question in test}


def write_task(folder, task, parts=("train", "test")):
    for seed, part in enumerate(parts):
        (folder / f"qa{task}_{TASK_NAMES[task]}_{part}.txt").write_text(story_text(task, 40, seed), encoding="utf-8")


def test_published_files_replace_generated_stories_and_a_changed_file_trains_again(tmp_path):
    write_task(tmp_path, 15)
    first = train_task(15, 1, epochs=1, folder=tmp_path)
    assert len(task_questions(15, tmp_path)[0]) == 40
    assert torch.equal(train_task(15, 1, epochs=1, folder=tmp_path)["loss"], first["loss"])
    (tmp_path / "qa15_basic-deduction_train.txt").write_text(story_text(15, 40, 2), encoding="utf-8")
    assert not torch.equal(train_task(15, 1, epochs=1, folder=tmp_path)["loss"], first["loss"])


def test_tasks_without_a_generator_need_the_published_files():
    with pytest.raises(ValueError, match="the others need the published files"):
        task_questions(4)


# The command and the benchmark


def test_the_command_prints_all_twenty_tasks_and_their_mean_next_to_the_published_errors(tmp_path, monkeypatch, capsys):
    """Stories of task 15 stand in for the other tasks: a reader of the files does not mind."""
    for task in TASK_NAMES:
        for seed, part in enumerate(("train", "test")):
            file = tmp_path / f"qa{task}_{TASK_NAMES[task]}_{part}.txt"
            file.write_text(story_text(15, 40, seed), encoding="utf-8")
    monkeypatch.setattr(babi, "FOLDER", tmp_path)
    assert babi.main(["--seeds", "2", "--epochs", "1", "--no-time", "--no-linear-start"]) == 0
    head, *rows = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert head.split()[:3] == ["task", "median", "best"]
    assert [row.split()[:2] for row in rows[:-1]] == [[str(task), name] for task, name in TASK_NAMES.items()]
    columns = list(zip(*(row.split()[2:8] for row in rows[:-1]), strict=True))
    means = [sum(map(float, column)) / 20 for column in columns]
    assert [float(cell) for cell in rows[-1].split()[1:]] == pytest.approx(means, abs=0.1)
    assert means[2:] == pytest.approx([25.1, 20.3, 12.4, 13.8], abs=0.06)  # as the two sources print them


def test_a_missing_file_is_reported_before_training(tmp_path, capsys):
    write_task(tmp_path, 1, ["train"])
    assert babi.main(["--folder", str(tmp_path), "--tasks", "1"]) == 1
    assert "expected a file qa1_single-supporting-fact_test.txt" in capsys.readouterr().err


def test_answers_come_with_the_weights_of_the_model_itself():
    stories, vocab_size = small_task(15)
    model = MemoryNetwork(vocab_size, seeds=2)
    predictions, weights = predict(model, stories)
    logits, expected = outputs(model, stories)
    assert torch.equal(predictions, logits.argmax(-1)) and torch.allclose(weights, expected, atol=1e-6)
