"""Facts about MiniLM on downstream tasks: what is trained, what is frozen, and what the tables contain."""

import pytest
import torch

from utils.build.downloads import MINILM, REVIEWS, fetch
from utils.data.reviews import Review, labels, read_reviews, split_reviews
from utils.models.pretrained import load_minilm
from utils.training import real_tasks
from utils.training.baselines import bag_of_words
from utils.training.fine_tuning import Recipe, fine_tune, predict_logits
from utils.training.real_tasks import (
    encode_reviews,
    predict_reviews,
    review_classifier,
    review_sentiment,
    subsample,
)

PRAISE = ("a joy from start to end", "warm, funny and moving", "a triumph", "one of the best films of the year")
BLAME = ("a dull, lifeless mess", "tedious and clumsy", "a waste of time", "one of the worst films of the year")
OWN = [Review(text, fresh) for fresh, texts in ((True, PRAISE), (False, BLAME)) for text in texts]
SIMILAR = [Review("funny and warm", True), Review("clumsy and dull", False), Review("a joy", True)]


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory):
    """One thread, and a cache of its own."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def minilm():
    return fetch(MINILM)


@pytest.fixture(scope="module")
def reviews():
    return fetch(REVIEWS)


@pytest.fixture(scope="module")
def split(reviews):
    return split_reviews(read_reviews(reviews))


@pytest.fixture
def encoder(minilm):
    return load_minilm(minilm, max_len=16)


# Linear probe


def test_a_linear_probe_on_eight_reviews_tells_praise_from_blame(minilm):
    assert predict_reviews("linear probe", minilm, OWN, SIMILAR).tolist() == [1, 0, 1]


# Training


@pytest.mark.parametrize("method, learning_rate", (("full fine-tuning", 1e-3), ("LoRA", 1e-2)))
def test_training_changes_trainable_parameters_only(encoder, method, learning_rate):
    model = review_classifier(method, encoder.model)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    texts = encode_reviews(encoder, OWN)
    losses = fine_tune(model, texts, Recipe(learning_rate, 0.0, 2.0, group_by_length=True), 0)
    assert losses[-1] < 0.7 * losses[0]
    assert predict_logits(model, texts).argmax(-1).tolist() == labels(OWN).tolist()
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}
    assert changed == trainable
    if method == "full fine-tuning":
        assert set(before) - trainable == {"body.embedding.token_embedding.weight"}
    else:
        assert all(name.startswith("head.") or name.endswith((".lora_A", ".lora_B")) for name in trainable)
        assert len(trainable) == 2 + 6 * 4


# Tables


def test_review_sentiment_has_an_accuracy_for_each_method_and_seed(reviews, split, monkeypatch):
    monkeypatch.setattr(real_tasks, "review_predictions", real_tasks.review_predictions.__wrapped__)
    result = review_sentiment(("bag of words",), 2, minilm="unused", reviews=reviews, num_train=16, num_test=20)
    assert result["accuracy"].shape == result["seconds"].shape == (1, 2) and result["sizes"] == (16, 20)
    assert (result["seconds"] > 0).all()
    test = subsample(split.test, 20, 0)
    for seed in range(2):
        train = subsample(split.train, 16, seed)
        correct = bag_of_words(train, labels(train), test, 2) == labels(test)
        assert result["accuracy"][0, seed] == correct.float().mean()
    majority = labels(train).float().mean() > 0.5
    assert result["majority"] == pytest.approx((labels(test) == majority).float().mean().item())
