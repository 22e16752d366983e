"""Facts about fine-tuning: six ways to use few labels, and what happens to the parameters on the way."""

import math

import pytest
import torch

from utils.data.bpe import CLS_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS
from utils.data.docstrings import few
from utils.models.language import LowRank
from utils.training.fine_tuning import (
    WAYS,
    Recipe,
    WordVectorsAndGRU,
    along_the_line,
    answer,
    answers,
    as_texts,
    between,
    classifier,
    features,
    in_parts,
    masked_loss,
    parameters_of,
    setting,
    switch_adapters_off,
    tune,
    word_vectors,
)

SMALL = {
    "steps": 8,
    "dim": 16,
    "heads": 2,
    "hidden": 32,
    "layers": 2,
    "length": 24,
    "batch": 4,
    "pieces": 400,
    "texts": 150,
}
QUICK = Recipe(3e-3, 0.01, 1.0)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    """One small encoder serves all tests here, and the reader's kept results stay out of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_CACHE", str(tmp_path_factory.mktemp("kept")))
        yield


@pytest.fixture(scope="module")
def given(own_cache):
    return setting("families", SMALL, longest=20)


@pytest.fixture(scope="module")
def some(given):
    return given.texts(few(given.task, 1, 0))


# Texts


def test_texts_are_framed_cut_and_padded_behind(given):
    examples = given.task.train[:30]
    texts = as_texts(given.task, examples, given.subwords, 20)
    assert texts.numbers.size(1) <= 20 and (texts.numbers[:, 0] == CLS_ID).all()
    assert torch.equal(texts.real, texts.numbers != PAD_ID)
    for row, length in enumerate(texts.real.sum(1)):
        assert texts.numbers[row, length - 1] == SEP_ID
    assert torch.equal(texts.labels, given.task.label_ids(examples))


def test_parts_hold_every_text_once_and_no_column_of_padding(some):
    seen = []
    for places, part in in_parts(some, 4):
        seen += places.tolist()
        assert part.real.any(0).all()
        n = part.numbers.size(1)
        assert torch.equal(part.numbers, some.numbers[places, :n]) and not some.real[places, n:].any()
    assert sorted(seen) == list(range(len(some)))


def test_answers_come_in_the_order_of_the_texts(given, some):
    model = classifier("full", given, 0).eval()
    with torch.no_grad():
        alone = torch.cat([model(*texts_of(some, row)) for row in range(len(some))])
        means = torch.cat([model.head(features(model.body, some)[row : row + 1]) for row in range(len(some))])
    assert torch.allclose(answers(model, some), alone, atol=1e-5)
    assert torch.allclose(means, alone, atol=1e-5)


def texts_of(texts, row):
    one = texts.part(torch.tensor([row]))
    return one.numbers, one.real


# Training


def test_training_learns_its_texts_and_the_same_seed_gives_the_same(given, some):
    ends = []
    for _ in range(2):
        model = classifier("full", given, 0)
        losses = tune(model, some, Recipe(2e-2, 0.0, 10.0), 0)
        assert len(losses) == round(10 * math.sqrt(len(some))) and losses[-1] < 0.5 * losses[0]
        assert not model.training
        ends.append(model.head.weight.detach())
    assert torch.equal(*ends)


# The older way


def test_pieces_in_the_same_company_get_vectors_that_point_the_same_way():
    a, b, c, x, y, z = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 6)
    generator = torch.Generator().manual_seed(0)
    # a and b each stand between x and y; c stands with z.
    phrases = [[x, a, y], [x, b, y], [z, c, z]]
    order = torch.randint(0, 3, (600,), generator=generator).tolist()
    text = torch.tensor([n for one in order for n in (CLS_ID, CLS_ID, *phrases[one], SEP_ID, SEP_ID)])
    vectors = word_vectors(text, len(SPECIAL_TOKENS) + 6, 3, window=2)
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    assert unit[a] @ unit[b] > 0.95
    assert unit[a] @ unit[c] < 0.3
    assert torch.equal(vectors, word_vectors(text, len(SPECIAL_TOKENS) + 6, 3, window=2))


def test_the_recurrent_reader_does_not_read_padding():
    torch.manual_seed(0)
    body = WordVectorsAndGRU(torch.randn(30, 6), 8)
    numbers = torch.randint(1, 30, (2, 7))
    real = torch.arange(7) < torch.tensor([[7], [4]])
    together = body.vectors(numbers, real)
    alone = body.vectors(numbers[1:, :4], real[1:, :4])
    assert together.shape == (2, 7, 8)
    assert torch.allclose(together[1, :4], alone[0], atol=1e-6)
    assert not together[1, 4:].any()


# Six ways


@pytest.mark.parametrize("way", WAYS)
def test_every_way_answers_with_classes_and_the_same_seed_gives_the_same(given, way):
    examples, asked = few(given.task, 1, 0), given.task.test[:25]
    first, again = (answer(way, given, examples, asked, 0, QUICK) for _ in range(2))
    assert first.shape == (25,) and torch.equal(first, again)
    assert first.min() >= 0 and first.max() < given.classes


# Why it works


def test_the_line_begins_at_the_start_and_ends_at_the_end(given, some):
    start, end = ({"a": torch.tensor([value])} for value in (1.0, 3.0))
    assert [between(start, end, share)["a"].item() for share in (0.0, 0.25, 1.0)] == [1.0, 1.5, 3.0]
    model = classifier("full", given, 0)
    begin = parameters_of(model)
    tune(model, some, Recipe(5e-3, 0.0, 10.0), 0)
    finish = parameters_of(model)
    last = torch.nn.functional.cross_entropy(answers(model, some), some.labels)
    line = along_the_line(model, begin, finish, (0.0, 0.5, 1.0), some, some)
    assert line["loss"][2] == pytest.approx(last.item(), abs=1e-5)
    assert line["loss"][0] == pytest.approx(math.log(14), abs=0.1)  # a new head knows nothing
    assert line["loss"][2] < line["loss"][1] < line["loss"][0]
    assert line["accuracy"][2] > line["accuracy"][0]


def test_adapters_that_are_taken_off_leave_the_model_as_it_was(given, some):
    before = masked_loss(given.body(), given.text, 8)
    model = classifier("adapters", given, 0)
    tune(model, some, Recipe(1e-1, 0.0, 3.0), 0)
    on = masked_loss(model.body, given.text, 8)
    switch_adapters_off(model)
    assert any(isinstance(one, LowRank) for one in model.modules())
    assert abs(on - before) > 1e-4
    assert masked_loss(model.body, given.text, 8) == pytest.approx(before, abs=1e-6)


# Several tasks
