"""Facts about the published encoder on real tasks: what is trained, what stays, and what the numbers in the tables mean."""

import pytest
import torch

from utils.course.downloads import MINILM, REVIEWS, fetch
from utils.data.docstrings import TASKS, Example, Task, few
from utils.data.reviews import Review, labels, read_reviews, split_reviews
from utils.models.bert import load_minilm
from utils.training import real_tasks
from utils.training.baselines import bag_of_words
from utils.training.fine_tuning import Recipe, answers, tune
from utils.training.real_tasks import (
    answer_reviews,
    as_texts,
    example_features,
    frozen_on_tasks,
    linear_answers,
    review_classifier,
    review_sentiment,
    some,
)

PRAISE = ("a joy from start to end", "warm, funny and moving", "a triumph", "one of the best films of the year")
BLAME = ("a dull, lifeless mess", "tedious and clumsy", "a waste of time", "one of the worst films of the year")
OWN = [Review(text, fresh) for fresh, texts in ((True, PRAISE), (False, BLAME)) for text in texts]
LIKE = [Review("funny and warm", True), Review("clumsy and dull", False), Review("a joy", True)]


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory):
    """One thread, and nothing of the reader's kept results."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(tmp_path_factory.mktemp("kept")))
        yield


@pytest.fixture(scope="module")
def minilm():
    return fetch(MINILM)


@pytest.fixture(scope="module")
def reviews():
    return fetch(REVIEWS)


@pytest.fixture(scope="module")
def whole(reviews):
    return split_reviews(read_reviews(reviews))


@pytest.fixture
def real(minilm):
    return load_minilm(minilm, longest=16)


# Vectors that stay as they are


def test_pairs_of_texts_have_both_vectors_their_distance_and_their_product(real):
    pairs = [Review("a cat", True)._replace(second="a dog"), Review("rain fell", True)._replace(second="it was wet")]
    found = example_features(real, pairs)
    first, second = (
        example_features(real, [Review(text, True) for text in texts])
        for texts in zip(*((one.text, one.second) for one in pairs), strict=True)
    )
    assert first.shape == (2, 384) and found.shape == (2, 4 * 384)
    assert torch.allclose(found, torch.cat([first, second, (first - second).abs(), first * second], 1), atol=1e-6)


def test_a_few_fixed_vectors_tell_praise_from_blame(minilm):
    assert answer_reviews("frozen", minilm, OWN, LIKE).tolist() == [1, 0, 1]


# Training


@pytest.mark.parametrize("way, rate", (("full", 1e-3), ("adapters", 1e-2)))
def test_training_moves_what_it_may_and_nothing_else(real, way, rate):
    model = review_classifier(way, real.bert)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    texts = as_texts(real, OWN)
    losses = tune(model, texts, Recipe(rate, 0.0, 2.0, alike=True), 0)
    assert losses[-1] < 0.7 * losses[0]
    assert answers(model, texts).argmax(-1).tolist() == labels(OWN).tolist()
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    may = {name for name, value in model.named_parameters() if value.requires_grad}
    assert moved == may
    if way == "full":
        assert set(before) - may == {"body.embeddings.words.weight"}
    else:
        assert all(name.startswith("head.") or name.endswith((".down", ".up")) for name in may)
        assert len(may) == 2 + 6 * 4


def test_full_fine_tuning_learns_and_answers(minilm):
    assert answer_reviews("full", minilm, OWN, LIKE, recipe=Recipe(1e-3, 0.0, 2.0)).tolist() == [1, 0, 1]


def test_the_seed_draws_the_new_layer_and_the_published_parameters_stay(real):
    name = "encoder.layers.5.attention.mix.weight"
    published = real.bert.state_dict()[name].clone()
    first, again, other = (review_classifier("full", real.bert, seed) for seed in (0, 0, 1))
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)
    assert torch.equal(other.body.state_dict()[name], published)


def test_an_unknown_way_is_refused(real):
    with pytest.raises(ValueError, match="adapters, full, got 'half'"):
        review_classifier("half", real.bert)


# Tables


def test_some_reviews_are_drawn_and_the_seed_decides_which():
    assert some(OWN, None, 0) is OWN
    first, again, other = (some(OWN, 5, seed) for seed in (0, 0, 1))
    assert first == again != other and len(set(first)) == 5 and set(first) < set(OWN)
    assert some(OWN, 3, 0) == first[:3]
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"expected 1 to 8 reviews, got {count}"):
            some(OWN, count, 0)


def test_the_table_of_reviews_has_a_number_for_each_way_and_seed(reviews, whole, monkeypatch):
    monkeypatch.setattr(real_tasks, "review_answers", real_tasks.review_answers.__wrapped__)
    found = review_sentiment(("bag of words",), 2, minilm="unused", reviews=reviews, train=16, asked=20)
    assert found["accuracy"].shape == found["seconds"].shape == (1, 2) and found["sizes"] == (16, 20)
    assert (found["seconds"] > 0).all()
    asked = some(whole.test, 20, 0)
    for seed in range(2):
        known = some(whole.train, 16, seed)
        by_hand = bag_of_words(known, labels(known), asked, 2) == labels(asked)
        assert found["accuracy"][0, seed] == by_hand.float().mean()
    commoner = labels(known).float().mean() > 0.5
    assert found["majority"] == pytest.approx((labels(asked) == commoner).float().mean().item())


def test_the_options_reach_the_way_and_its_answers_are_kept(minilm, reviews, whole, monkeypatch):
    calls = []

    def noted(way, minilm, known, asked, seed, recipe, longest):
        calls.append((way, len(known), seed, recipe.steps, longest))
        return torch.ones(len(asked), dtype=torch.long)

    monkeypatch.setattr(real_tasks, "answer_reviews", noted)
    options = {"minilm": minilm, "reviews": reviews, "part": "validation", "steps": 0.5, "longest": 48}
    first, again = (real_tasks.review_answers("full", 1, **options) for _ in range(2))
    assert calls == [("full", 8920, 1, 0.5, 48)]
    assert first["labels"].tolist() == labels(whole.validation).tolist()
    assert torch.equal(first["answers"], again["answers"]) and first["majority"] == 1


def test_with_all_labels_a_way_without_chance_runs_once(monkeypatch):
    calls = []

    def noted(way, seed, train=None):
        calls.append((way, seed))
        answers = torch.tensor([1, 1, 0, 1 - seed])
        return {"answers": answers, "labels": torch.ones(4), "seconds": 2.0, "majority": 1, "learnt_from": 9}

    monkeypatch.setattr(real_tasks, "review_answers", noted)
    found = review_sentiment(("frozen", "full"), 2)
    assert calls == [("frozen", 0), ("full", 0), ("full", 1)]
    assert found["accuracy"].tolist() == [[0.75, 0.75], [0.75, 0.5]] and found["majority"] == 1.0
    review_sentiment(("frozen",), 2, train=5)
    assert calls[3:] == [("frozen", 0), ("frozen", 1)]


def test_fixed_vectors_answer_tasks_from_the_same_draws(real, minilm, monkeypatch):
    examples = tuple(Example(one.text, ("rotten", "fresh")[one.fresh], "film") for one in OWN)
    asked = tuple(Example(one.text, ("rotten", "fresh")[one.fresh], "other") for one in LIKE)
    task = Task("own", ("rotten", "fresh"), examples, asked[:1], asked)
    monkeypatch.setitem(TASKS, "own", lambda: task)
    found = frozen_on_tasks.__wrapped__(("own",), (1, 2, None), 3, minilm=minilm, longest=16)
    assert found["accuracy"].shape == (1, 3, 3) and found["labels"] == [1, 2, None]
    theirs = example_features(real, asked)
    for row, per_class in enumerate((1, 2)):
        for seed in range(3):
            draw = few(task, per_class, seed)
            by_hand = linear_answers(example_features(real, draw), task.numbers(draw), theirs, 2)
            right = (by_hand == task.numbers(asked)).float().mean()
            assert found["accuracy"][0, row, seed] == pytest.approx(right.item())
    assert found["accuracy"][0, 2].tolist() == [1, 1, 1]
    assert found["majority"].item() == pytest.approx(task.majority())
    with pytest.raises(ValueError, match="families, .*, got 'glue'"):
        frozen_on_tasks.__wrapped__(("glue",), minilm=minilm)
