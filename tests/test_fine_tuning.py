"""Facts about fine-tuning: six methods for few labels, linear interpolation and catastrophic forgetting."""

import math

import pytest
import torch

from utils.build.downloads import MINILM, fetch
from utils.data.bpe import CLS_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS
from utils.data.docstrings import few
from utils.models.language_models import LoRALinear
from utils.training.fine_tuning import (
    MAX_LEN,
    METHODS,
    RECIPES,
    GRUEncoder,
    Recipe,
    accuracies,
    accuracy,
    build_classifier,
    disable_lora,
    distances,
    features,
    fine_tune,
    fine_tuning_run,
    interpolate,
    interpolation_curve,
    load_setting,
    masked_loss,
    pmi_embeddings,
    predict,
    predict_logits,
    snapshot,
)

QUICK = Recipe(3e-3, 1.0)


@pytest.fixture(scope="module")
def setting():
    torch.set_num_threads(1)
    return load_setting("families")


@pytest.fixture(scope="module")
def texts(setting):
    return setting.encode(few(setting.task, 1, 0))


# Labeled texts as tensors


def test_texts_are_framed_truncated_and_padded_at_the_end(setting):
    examples = setting.task.train[:30]
    texts = setting.encode(examples)
    assert texts.token_ids.size(1) == MAX_LEN and (texts.token_ids[:, 0] == CLS_ID).all()
    assert torch.equal(texts.attention_mask, texts.token_ids != PAD_ID)
    for row, length in enumerate(texts.attention_mask.sum(1)):
        assert texts.token_ids[row, length - 1] == SEP_ID
    assert torch.equal(texts.labels, setting.task.label_ids(examples))


def test_batches_by_length_contain_every_text_once_and_no_column_of_padding(setting):
    texts, seen = setting.encode(setting.task.train[:150]), []
    for indices, batch in texts.by_length():
        seen += indices.tolist()
        assert batch.attention_mask.any(0).all()
        n = batch.token_ids.size(1)
        assert torch.equal(batch.token_ids, texts.token_ids[indices, :n])
        assert not texts.attention_mask[indices, n:].any()
    assert sorted(seen) == list(range(len(texts)))


@pytest.mark.parametrize("group_by_length", [False, True])
def test_an_epoch_contains_every_text_once_in_a_new_order(texts, group_by_length):
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.cat(texts.shuffled_batches(group_by_length, generator)) for _ in range(2))
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(len(texts)))
    assert not torch.equal(first, second)


def test_logits_and_features_are_in_the_order_of_the_texts(setting, texts):
    model = build_classifier("full fine-tuning", setting, 0).eval()
    rows = [texts.select(torch.tensor([row])) for row in range(len(texts))]
    with torch.no_grad():
        alone = torch.cat([model(row.token_ids, row.attention_mask) for row in rows])
        from_features = model.head(features(model.body, texts))
    assert torch.allclose(predict_logits(model, texts), alone, atol=1e-5)
    assert torch.allclose(from_features, alone, atol=1e-5)


# Training


def test_training_fits_its_texts(setting, texts):
    model = build_classifier("full fine-tuning", setting, 0)
    losses = fine_tune(model, texts, Recipe(5e-3, 5.0), 0)
    assert len(losses) == round(5 * math.sqrt(len(texts))) and losses[-1] < 0.5 * losses[0]
    assert not model.training


# Word vectors and a GRU


def test_tokens_with_the_same_contexts_get_similar_embeddings():
    a, b, c, x, y, z = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 6)
    generator = torch.Generator().manual_seed(0)
    # a and b occur between x and y; c occurs with z.
    phrases = [[x, a, y], [x, b, y], [z, c, z]]
    order = torch.randint(0, 3, (600,), generator=generator).tolist()
    text = torch.tensor([t for index in order for t in (CLS_ID, CLS_ID, *phrases[index], SEP_ID, SEP_ID)])
    embeddings = pmi_embeddings(text, len(SPECIAL_TOKENS) + 6, 3)
    unit = torch.nn.functional.normalize(embeddings, dim=-1)
    assert unit[a] @ unit[b] > 0.95
    assert unit[a] @ unit[c] < 0.3
    assert torch.equal(embeddings, pmi_embeddings(text, len(SPECIAL_TOKENS) + 6, 3))


def test_padding_never_influences_the_gru():
    torch.manual_seed(0)
    body = GRUEncoder(torch.randn(30, 6), 8)
    token_ids = torch.randint(1, 30, (2, 7))
    attention_mask = torch.arange(7) < torch.tensor([[7], [4]])
    together = body.encode(token_ids, attention_mask)
    alone = body.encode(token_ids[1:, :4], attention_mask[1:, :4])
    assert together.shape == (2, 7, 8)
    assert torch.allclose(together[1, :4], alone[0], atol=1e-6)
    assert not together[1, 4:].any()


# Six methods


@pytest.mark.parametrize("method", METHODS)
def test_every_method_predicts_classes_and_repeats_with_its_seed(setting, method, monkeypatch):
    monkeypatch.setattr(setting, "recipes", dict.fromkeys(RECIPES, QUICK))
    examples, test_examples = few(setting.task, 1, 0), setting.task.test[:25]
    first, again = (predict(method, setting, examples, test_examples, 0) for _ in range(2))
    assert first.shape == (25,) and torch.equal(first, again)
    assert first.min() >= 0 and first.max() < len(setting.task.labels)


def test_accuracies_are_those_of_each_draw_of_labels(setting):
    result = accuracies.__wrapped__("families", ("bag of words",), (4, None), 2, num_test=50)
    test = setting.task.test[:50]
    for column, draws in enumerate(((few(setting.task, 4, 0), few(setting.task, 4, 1)), [setting.task.train] * 2)):
        expected = [accuracy(predict("bag of words", setting, draw, test, 0), setting.task, test) for draw in draws]
        assert result["accuracy"][0, column].tolist() == pytest.approx(expected)
    assert result["majority"] == setting.task.majority()


def test_minilm_compares_the_sentences_of_a_pair_and_encodes_each_text_once(monkeypatch):
    setting = load_setting("continuation", fetch(MINILM))
    examples = setting.task.test[:5]
    features = setting.features(examples)
    first, second, difference, product = features.view(5, 4, 384).unbind(1)
    assert torch.allclose(difference, (first - second).abs()) and torch.allclose(product, first * second)
    with torch.no_grad():
        alone = setting.encoder.sentence_embeddings([examples[2].second])[0]
    assert torch.allclose(second[2], alone, atol=1e-5)
    monkeypatch.setattr(setting, "encoder", None)
    assert torch.equal(setting.features(examples[3:]), features[3:])


# Distance, linear interpolation, catastrophic forgetting


def test_interpolation_goes_from_start_to_end(setting, texts):
    start, end = ({"a": torch.tensor([value])} for value in (1.0, 3.0))
    assert [interpolate(start, end, fraction)["a"].item() for fraction in (0.0, 0.25, 1.0)] == [1.0, 1.5, 3.0]
    model = build_classifier("full fine-tuning", setting, 0)
    start = snapshot(model)
    fine_tune(model, texts, Recipe(2e-3, 5.0), 0)
    end = snapshot(model)
    last = torch.nn.functional.cross_entropy(predict_logits(model, texts), texts.labels)
    curve = interpolation_curve(model, start, end, (0.0, 0.5, 1.0), texts, texts)
    assert curve["loss"][2] == pytest.approx(last.item(), abs=1e-5)
    assert curve["loss"][0] == pytest.approx(math.log(len(setting.task.labels)), abs=0.1)  # an untrained head
    assert curve["loss"][2] < curve["loss"][1] < curve["loss"][0]
    assert curve["accuracy"][2] > curve["accuracy"][0]


def test_distances_count_every_trained_parameter_once(setting, texts):
    model = build_classifier("full fine-tuning", setting, 0)
    start = snapshot(model)
    fine_tune(model, texts, QUICK, 0)
    groups = distances(start, snapshot(model))
    assert list(groups) == ["embeddings", "layer 1", "layer 2", "final norm", "head"]
    moved = [(p.detach() - start[name]).square().sum() for name, p in model.named_parameters() if "lm_head" not in name]
    assert sum(distance**2 for distance, _ in groups.values()) == pytest.approx(sum(moved).item(), rel=1e-5)


def test_a_step_of_sgd_is_the_learning_rate_times_the_gradient(setting, texts):
    model = build_classifier("full fine-tuning", setting, 0)
    start = snapshot(model)
    batch = texts.select(torch.arange(len(texts)))  # all of them: one batch
    torch.nn.functional.cross_entropy(model(batch.token_ids, batch.attention_mask), batch.labels).backward()
    gradients = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    fine_tune(model, texts, Recipe(0.05, 1 / math.sqrt(len(texts)), sgd=True), 0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            model.get_parameter(name).detach(), start[name] - 0.05 * gradient, atol=1e-5, rtol=1e-3
        )


def test_a_run_takes_the_steps_it_is_given_and_more_steps_forget_more():
    options = {"num_test": 20, "num_windows": 5}
    short, long = (fine_tuning_run("full fine-tuning", 1, steps, 0, **options) for steps in (1, 30))
    assert long["training_loss"] < short["training_loss"] and long["masked_loss"] > short["masked_loss"] + 0.05
    # Adam's first step moves every parameter by the learning rate, up to its sign.
    assert short["distance"]["layer 1"][0] == pytest.approx(0.001 * math.sqrt(198_272), rel=0.05)
    sgd = fine_tuning_run("full fine-tuning", 1, 1, 0, sgd_rate=0.001, **options)
    assert sgd["distance"]["layer 1"][0] < short["distance"]["layer 1"][0] / 100


def test_disabled_lora_leaves_the_pretrained_model(setting, texts):
    before = masked_loss(setting.pretrained_body(), setting.corpus, 8)
    model = build_classifier("LoRA", setting, 0)
    fine_tune(model, texts, Recipe(1e-1, 3.0), 0)
    with_lora = masked_loss(model.body, setting.corpus, 8)
    disable_lora(model)
    assert any(isinstance(module, LoRALinear) for module in model.modules())
    assert abs(with_lora - before) > 1e-4
    assert masked_loss(model.body, setting.corpus, 8) == pytest.approx(before, abs=1e-6)


def test_from_scratch_and_full_fine_tuning_differ_in_the_initialization_only(setting):
    assert RECIPES["from scratch"] == RECIPES["full fine-tuning"]
    scratch, pretrained = (build_classifier(method, setting, 0) for method in ("from scratch", "full fine-tuning"))
    assert torch.equal(scratch.head.weight, pretrained.head.weight)
    assert not torch.equal(scratch.body.lm_head.weight, pretrained.body.lm_head.weight)
