"""Facts about the models that are pretrained, their heads and their adapters."""

import pytest
import torch
from torch import nn

from utils.models.language import CausalLM, Classifier, LowRank, MaskedLM, add_adapters
from utils.models.multi_head import MultiHeadAttention

PIECES, DIM = 23, 12


def model_of(kind, seed=0, layers=2):
    torch.manual_seed(seed)
    return kind(PIECES, DIM, 3, 16, layers).double().eval()


def draw(b=3, n=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    real = torch.arange(n) < torch.tensor([[n], [n - 3], [1]][:b])
    return torch.randint(1, PIECES, (b, n), generator=generator).masked_fill(~real, 0), real


# The two masks


def changed(model, numbers, place):
    """Which places' logits change when the piece at `place` does."""
    other = numbers.clone()
    other[:, place] = (numbers[:, place] + 1) % PIECES
    return ((model(numbers) - model(other)).abs().amax(-1) > 1e-9)[0].tolist()


def test_masked_models_see_both_sides_and_causal_ones_only_what_came_before():
    numbers = draw(1)[0]
    assert changed(model_of(MaskedLM), numbers, 3) == [True] * 7
    assert changed(model_of(CausalLM), numbers, 3) == [False] * 3 + [True] * 4


@pytest.mark.parametrize("kind", [MaskedLM, CausalLM])
def test_padding_changes_nothing_at_the_real_pieces(kind):
    model = model_of(kind)
    numbers, real = draw()
    together = model(numbers, real)
    for row in range(3):
        alone = model(numbers[row : row + 1, : real[row].sum()])
        assert torch.allclose(together[row, : alone.size(1)], alone[0])


# The classifier


def test_a_classifier_answers_for_texts_and_not_for_padding():
    body = model_of(MaskedLM)
    model = Classifier(body, DIM, 5).double()
    numbers, real = draw()
    together = model(numbers, real)
    assert together.shape == (3, 5)
    alone = model(numbers[1:2, :4])
    assert torch.allclose(together[1], alone[0])
    assert (together.softmax(-1) - 0.2).abs().max() < 0.1  # near zero at first: no class is preferred


# Adapters


def test_a_fresh_adapter_changes_nothing_and_a_trained_one_adds_a_matrix_of_its_rank():
    torch.manual_seed(0)
    linear = nn.Linear(6, 9).double()
    adapter = LowRank(linear, 2, scale=0.5)
    x = torch.randn(4, 6).double()
    assert torch.equal(adapter(x), linear(x))
    nn.init.normal_(adapter.up)
    added = adapter.weight - linear.weight
    assert torch.linalg.matrix_rank(added) == 2
    assert torch.allclose(added, 0.5 * adapter.up @ adapter.down)
    assert torch.allclose(adapter(x), linear(x) + x @ added.T)


def test_adapters_replace_the_maps_of_every_attention_layer_and_nothing_else_learns():
    model = model_of(MaskedLM)
    numbers, real = draw()
    before, parameters = model(numbers, real), {name: one.clone() for name, one in model.named_parameters()}
    new = add_adapters(model, 2)
    assert torch.equal(model(numbers, real), before)
    assert {id(one) for one in model.parameters() if one.requires_grad} == {id(one) for one in new}
    # project: (2, 12) and (36, 2); mix: (2, 12) and (12, 2); in two layers
    assert sum(one.numel() for one in new) == 2 * (2 * 12 + 36 * 2 + 2 * 12 + 12 * 2)
    optimizer = torch.optim.SGD(new, lr=0.1)
    model(numbers, real).square().mean().backward()
    optimizer.step()
    assert not torch.allclose(model(numbers, real), before)
    after = dict(model.named_parameters())
    for name, value in parameters.items():
        adapted = name.replace("project.", "project.linear.").replace("mix.", "mix.linear.")
        assert torch.equal(after[adapted], value)


def test_adapters_serve_where_queries_and_keys_come_from_different_texts():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3).double()
    for one in add_adapters(layer, 2):
        nn.init.normal_(one)
    x = torch.randn(2, 5, 12).double()
    assert torch.allclose(layer(x)[0], layer(x, x)[0])
