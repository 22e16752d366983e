"""The published MiniLM in the course's own encoder: the same numbers as the library it was made with, from text to vectors."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from tests.benchmarks.bert_speed import SENTENCES, batches, bert_speed, hidden_states, their_bert
from utils.build.downloads import MINILM, fetch
from utils.models.bert import (
    LONGEST,
    Bert,
    BertSizes,
    PieceSplitter,
    WeightsError,
    load_minilm,
    names_of,
    padded,
    read_published,
)


@pytest.fixture(scope="module")
def folder():
    return fetch(MINILM)


@pytest.fixture(scope="module")
def real(folder):
    torch.set_num_threads(1)
    return load_minilm(folder)


@pytest.fixture(scope="module")
def theirs():
    return their_bert()


@pytest.fixture(scope="module")
def their_tokenizer(folder):
    """Made from the word list alone, by the library's own rules for BERT; nothing else of tokenizer.json is used."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    from transformers import BertTokenizer  # here and below: not every worker needs it

    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=LONGEST)


# --- the same numbers -------------------------------------------------------------------------------------------


def test_the_pieces_are_those_of_the_library(real, their_tokenizer):
    for batch in batches():
        ours = real.splitter.batch(batch)
        other = their_tokenizer(list(batch), padding=True, truncation=True, return_tensors="pt")
        assert torch.equal(ours.numbers, other["input_ids"])
        assert torch.equal(ours.real, other["attention_mask"].bool())
        for pieces, row in zip(ours.pieces, ours.numbers, strict=True):
            assert pieces == their_tokenizer.convert_ids_to_tokens(row)[: len(pieces)]


def test_every_hidden_state_is_that_of_the_library(real, theirs):
    """Each number of each layer to 1e-5, of itself where it is above one; in single precision the two add up in other orders."""
    for layer, (ours, others) in enumerate(hidden_states(real.bert, theirs, real.splitter)):
        assert ours.shape == others.shape and ours.isfinite().all() and ours.std() > 0.1
        assert torch.allclose(ours, others, rtol=1e-5, atol=1e-5), f"layer {layer}"


def test_in_double_precision_they_agree_to_the_last_digits(real, theirs):
    both = hidden_states(copy.deepcopy(real.bert).double(), copy.deepcopy(theirs).double(), real.splitter)
    assert len(both) == 7
    assert max((ours - others).abs().max() for ours, others in both) < 1e-11


@torch.no_grad()
def test_the_weights_are_those_of_the_library_and_asking_for_them_changes_nothing(real, folder):
    from transformers import BertModel

    eager = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = SENTENCES[8:14]
    hidden, plain = real.hidden_states(batch, need_weights=True), real.hidden_states(batch)
    assert plain.weights is None and len(hidden.weights) == 6
    want = eager(hidden.numbers, attention_mask=hidden.real.long(), output_attentions=True).attentions
    seen = hidden.real[:, None, :, None].expand_as(want[0])
    for ours, other in zip(hidden.weights, want, strict=True):
        assert ours.shape == other.shape == (6, 12, hidden.real.size(1), hidden.real.size(1))
        assert (ours - other)[seen].abs().max() < 1e-5
        assert (ours * ~hidden.real[:, None, None, :]).max() == 0
    for one, other in zip(hidden.states, plain.states, strict=True):
        assert (one - other)[hidden.real].abs().max() < 1e-5


@torch.no_grad()
def test_sentence_vectors_are_the_normalised_mean_over_real_pieces_in_the_order_given(real, theirs):
    vectors = real.sentence_vectors(SENTENCES, size=8)
    assert vectors.shape == (len(SENTENCES), 384)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(SENTENCES)), atol=1e-5)
    for place in (0, 3, 10, 33, 52, 55):
        alone = real.splitter.batch([SENTENCES[place]])
        want = F.normalize(theirs(alone.numbers).last_hidden_state[0].mean(0), dim=0)
        assert (vectors[place] - want).abs().max() < 1e-5


@torch.no_grad()
def test_a_large_batch_in_parts_gives_the_same(real):
    numbers, real_ones = padded([[101, *range(2000, 2000 + length), 102] for length in range(1, 41)])
    assert numbers.numel() > 3 * 512
    states, _ = real.bert.hidden_states(numbers, real_ones)
    x, weights = real.bert(numbers, real_ones)
    assert weights is None and x.shape == states[-1].shape
    assert (x - states[-1])[real_ones].abs().max() < 1e-5


# --- splitting --------------------------------------------------------------------------------------------------


def test_a_long_text_keeps_its_first_pieces_and_both_marks(folder):
    splitter = PieceSplitter(folder / "tokenizer.json", longest=6)
    (pieces,) = splitter.batch(["one two three four five six seven"]).pieces
    assert pieces == ["[CLS]", "one", "two", "three", "four", "[SEP]"]
    assert PieceSplitter(folder / "tokenizer.json").batch(["word " * 1000]).numbers.shape == (1, LONGEST)


def test_one_text_in_place_of_a_list_is_refused(real):
    with pytest.raises(TypeError, match=r"write \[text\]"):
        real.sentence_vectors("The cat")


# --- the map of names -------------------------------------------------------------------------------------------

SMALL = BertSizes(words=11, dim=6, layers=2, heads=3, hidden=7, positions=5, eps=1e-12)


def published(sizes=SMALL):
    """Random tensors under the published names, as the library's own model has them."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=sizes.words,
        hidden_size=sizes.dim,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.hidden,
        max_position_embeddings=sizes.positions,
    )
    model = BertModel(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return config, model, {name: value.detach().clone() for name, value in model.named_parameters()}


def test_a_bert_of_any_size_equals_that_of_the_library_forward_and_backward():
    _, model, tensors = published()
    ours = read_published(Bert(SMALL).eval(), tensors)
    numbers, real_ones = padded([[1, 2, 3, 4, 5], [6, 7]])
    want = model(numbers, attention_mask=real_ones.long()).last_hidden_state
    output, _ = ours(numbers, real_ones)
    assert (output - want)[real_ones].abs().max() < 1e-4
    for one in (output, want):
        one[real_ones].cos().sum().backward()
    parameters, theirs = dict(ours.named_parameters()), dict(model.named_parameters())
    names = dict(names_of(SMALL.layers))
    assert set(names) == set(parameters)
    for name, parts in names.items():
        gradient = torch.cat([theirs[part].grad for part in parts])
        assert torch.allclose(parameters[name].grad, gradient, rtol=1e-4, atol=1e-4), name


def test_missing_left_over_and_wrongly_shaped_names_are_said():
    _, _, tensors = published()
    name = "encoder.layer.1.attention.self.key.bias"
    for change, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"the weights lack {name}"),
        (tensors | {"cls.predictions.bias": torch.zeros(11)}, "the weights have cls.predictions.bias, which"),
        (
            tensors | {name: torch.zeros(5)},
            r"expected shape \(18,\) for encoder.layers.1.attention.project.bias, got \(17,\)",
        ),
        (
            {key: value for key, value in tensors.items() if "layer.1" not in key},
            "lack encoder.layer.1.*this many layers",
        ),
    ):
        bert = Bert(SMALL)
        before = {key: value.clone() for key, value in bert.state_dict().items()}
        with pytest.raises(WeightsError, match=message):
            read_published(bert, change)
        assert all(torch.equal(value, before[key]) for key, value in bert.state_dict().items())


def test_a_config_of_another_kind_is_refused(folder):
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert BertSizes.of(config) == BertSizes(30522, 384, 6, 12, 1536, 512, 2, 1e-12)
    with pytest.raises(WeightsError, match="hidden_act 'gelu', got 'relu'"):
        BertSizes.of(config | {"hidden_act": "relu"})
    with pytest.raises(WeightsError, match="with hidden_size"):
        BertSizes.of({key: value for key, value in config.items() if key != "hidden_size"})


def test_a_damaged_or_missing_file_is_named(folder, tmp_path):
    with pytest.raises(WeightsError, match="expected config.json in .*make downloads"):
        load_minilm(tmp_path)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"half of a file")
    with pytest.raises(WeightsError, match="model.safetensors cannot be read"):
        load_minilm(tmp_path)
    save_file({"one": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match="the weights lack embeddings"):
        load_minilm(tmp_path)


# --- speed ------------------------------------------------------------------------------------------------------


def test_it_reads_no_slower_than_the_library():
    """A loose bar for machines on which other things run; the stored benchmark has the real one."""
    measured = bert_speed(shapes=((1, 12), (16, 24)), rounds=5)
    assert [(row["sentences"], row["pieces"]) for row in measured["rows"]] == [(1, 12), (16, 24)]
    assert measured["geometric_mean"] > 0.85
