"""Facts about the published encoder on real tasks: what is trained, what stays, and what the numbers in the tables mean."""

import pytest
import torch

from utils.build.downloads import MINILM, REVIEWS, fetch
from utils.data.reviews import Review, labels, read_reviews, split_reviews
from utils.models.bert import load_minilm
from utils.training import real_tasks
from utils.training.baselines import bag_of_words
from utils.training.fine_tuning import Recipe, answers, tune
from utils.training.real_tasks import (
    answer_reviews,
    as_texts,
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


# Tables


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
