"""Facts about MiniLM on review sentiment: what is trained, what is frozen, and what the table contains."""

import pytest
import torch

from utils.build.downloads import MINILM, REVIEWS, fetch
from utils.data.docstrings import Example, Task
from utils.data.reviews import LABELS, read_reviews, split_reviews
from utils.training import real_tasks
from utils.training.baselines import bag_of_words
from utils.training.fine_tuning import (
    MiniLMSetting,
    Recipe,
    accuracy,
    build_classifier,
    fine_tune,
    predict,
    predict_logits,
)
from utils.training.real_tasks import review_sentiment, subsample

PRAISE = ("a joy from start to end", "warm, funny and moving", "a triumph", "one of the best films of the year")
BLAME = ("a dull, lifeless mess", "tedious and clumsy", "a waste of time", "one of the worst films of the year")
TRAIN = tuple(Example(text, label, "") for label, texts in (("fresh", PRAISE), ("rotten", BLAME)) for text in texts)
TEST = (Example("funny and warm", "fresh", ""), Example("clumsy and dull", "rotten", ""), Example("a joy", "fresh", ""))


@pytest.fixture(scope="module")
def setting():
    torch.set_num_threads(1)
    return MiniLMSetting(Task(LABELS, TRAIN, (), TEST), fetch(MINILM))


def test_a_linear_probe_on_eight_reviews_separates_praise_from_blame(setting):
    assert predict("linear probe", setting, TRAIN, TEST, 0).tolist() == [1, 0, 1]


@pytest.mark.parametrize("method, learning_rate", (("full fine-tuning", 1e-3), ("LoRA", 1e-2)))
def test_training_changes_trainable_parameters_only(setting, method, learning_rate):
    model = build_classifier(method, setting, 0)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    texts = setting.encode(TRAIN)
    losses = fine_tune(model, texts, Recipe(learning_rate, 2.0, group_by_length=True), 0)
    assert losses[-1] < 0.7 * losses[0]
    assert torch.equal(predict_logits(model, texts).argmax(-1), texts.labels)
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    trainable = {name for name, value in model.named_parameters() if value.requires_grad}
    assert changed == trainable
    if method == "full fine-tuning":
        assert set(before) - trainable == {"body.embedding.token_embedding.weight"}
    else:
        assert all(name.startswith("head.") or name.endswith((".lora_A", ".lora_B")) for name in trainable)
        assert len(trainable) == 2 + 6 * 4
    original = dict(setting.encoder.model.named_parameters())
    assert all(value.requires_grad for value in original.values())  # a classifier has a copy of its own
    assert torch.equal(original["encoder.layers.0.norm1.weight"], before["body.encoder.layers.0.norm1.weight"])


def test_review_sentiment_has_an_accuracy_for_each_method_and_seed(monkeypatch):
    monkeypatch.setattr(real_tasks, "review_run", real_tasks.review_run.__wrapped__)
    minilm, reviews = fetch(MINILM), fetch(REVIEWS)
    result = review_sentiment(("bag of words",), 2, minilm=minilm, reviews=reviews, num_train=16, num_test=20)
    assert result["accuracy"].shape == result["seconds"].shape == (1, 2) and result["sizes"] == (16, 20)
    assert (result["seconds"] > 0).all()
    task = split_reviews(read_reviews(reviews))
    test = subsample(task.test, 20, 0)
    for seed in range(2):
        train = subsample(task.train, 16, seed)
        predicted = bag_of_words(train, task.label_ids(train), test, 2)
        assert result["accuracy"][0, seed].item() == pytest.approx(accuracy(predicted, task, test))
    majority = task.label_ids(train).float().mean() > 0.5
    assert result["majority"] == pytest.approx((task.label_ids(test) == majority).float().mean().item())
