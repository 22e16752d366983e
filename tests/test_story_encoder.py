"""The encoder on stories, the chain task: data, padding, and seeds that learn as if alone."""

import pytest
import torch

from utils.training import story_encoder
from utils.training.chains import NUM_LETTERS, chains, train_chains
from utils.training.memory import BATCH_SIZE
from utils.training.story_encoder import MODELS, POOL, StoryEncoder, batches, distinct, encoder_inputs, train_on_stories


@pytest.fixture(scope="module")
def stories():
    vocabulary, training, test = story_encoder.story_data(2, 320)
    return vocabulary, training, test


def test_the_test_set_is_the_same_for_every_size_and_shares_no_story_with_training(stories):
    _, training, test = stories
    _, larger, same_test = story_encoder.story_data(2, 600)
    assert torch.equal(test.story, same_test.story) and torch.equal(test.question, same_test.question)
    assert torch.equal(larger.story[:320, : training.story.size(1)], training.story)
    n = max(larger.story.size(1), test.story.size(1))
    as_rows = [
        {
            tuple(row.flatten().tolist())
            for row in torch.nn.functional.pad(part.story, (0, 0, 0, n - part.story.size(1)))
        }
        for part in (larger, test)
    ]
    assert not as_rows[0] & as_rows[1]


def test_an_epoch_of_batches_holds_every_question_once_for_each_seed(stories):
    _, training, _ = stories
    steps = 4 * len(training) // BATCH_SIZE  # four epochs, a multiple of POOL
    index = torch.stack([index for index, _ in batches(training, [0, 1], steps)])  # (steps, s, BATCH_SIZE)
    assert index.shape == (steps, 2, BATCH_SIZE)
    for own in index.unbind(1):
        assert own.flatten().bincount(minlength=len(training)).unique().tolist() == [4]
    assert not torch.equal(index[:, 0], index[:, 1])
    lengths = training.mask.sum(1)[index[:POOL, 0]]
    assert (lengths.amax(1) - lengths.amin(1)).float().mean() < 10  # sorted by length, so little padding


def test_the_batches_of_a_seed_do_not_depend_on_the_other_seeds(stories):
    _, training, _ = stories
    for (alone, age), (together, ages) in zip(batches(training, [1], 5), batches(training, [0, 1], 5), strict=True):
        assert torch.equal(alone[0], together[1]) and torch.equal(age[0], ages[1])


def test_padding_never_influences_the_answer(stories):
    vocabulary, training, _ = stories
    sentences = distinct(training, len(vocabulary))
    model = StoryEncoder(len(vocabulary), 50, shared=False)
    index = training.mask.sum(1).argsort()[[0, -1]].unsqueeze(0)  # the shortest and the longest story
    counts, story, age, mask, question = (
        part[0] for part in encoder_inputs(training, sentences, index, training.age[index])
    )
    logits, weights = model(counts, story, age, mask, question)
    changed = story.clone()
    changed[0, mask[0].sum() :] = (changed[0, mask[0].sum() :] + 1) % len(counts)
    assert torch.equal(model(counts, changed, age, mask, question)[0], logits)
    assert (weights[0, :, :, -1, :-1][..., ~mask[0]] == 0).all()
    alone = [part[:1] for part in (story, age, mask, question)]
    assert torch.allclose(model(counts, *alone)[0], logits[:1], atol=1e-5)


def test_shared_layers_are_one_layer_applied_three_times():
    separate, shared = (StoryEncoder(20, 10, shared) for shared in (False, True))
    layer = sum(parameter.numel() for parameter in shared.layers[0].parameters())
    count = [sum(parameter.numel() for parameter in model.parameters()) for model in (separate, shared)]
    assert len(shared.layers) == len(separate.layers) == 3 and count[0] - count[1] == 2 * layer


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_learns_the_same_alone_and_among_others(model):
    alone = train_on_stories.__wrapped__(model, 1, 64, seeds=[1], steps=4)
    together = train_on_stories.__wrapped__(model, 1, 64, seeds=[0, 1], steps=4)
    torch.testing.assert_close(alone["loss"][:, 0], together["loss"][:, 1], rtol=1e-4, atol=1e-5)
    assert alone["error"].shape == (1,) and together["training_error"].shape == (2,)


def test_the_class_of_a_link_is_three_steps_from_its_letter():
    letters, next_letters, classes = chains(20, torch.Generator().manual_seed(0))
    for row in range(20):
        following = dict(zip(letters[row].tolist(), next_letters[row].tolist(), strict=True))
        assert sorted(following) == sorted(following.values()) == list(range(NUM_LETTERS))
        three = [following[following[following[letter]]] for letter in letters[row].tolist()]
        assert three == classes[row].tolist()


def test_a_seed_learns_chains_the_same_alone_and_among_others():
    alone, together = (train_chains.__wrapped__(1, seeds, steps=5) for seeds in ([2], [0, 2]))
    torch.testing.assert_close(alone["loss"][:, 0], together["loss"][:, 1], rtol=1e-4, atol=1e-5)
