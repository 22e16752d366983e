"""The published MiniLM in the course's own encoder: the same numbers as the library it was made with, from text to vectors."""

import copy
import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from tests.benchmarks.bert_speed import SENTENCES, batches, bert_speed, hidden_states, their_bert
from utils.course.downloads import MINILM, fetch
from utils.models.bert import (
    LONGEST,
    Bert,
    BertSizes,
    PieceSplitter,
    WeightsError,
    columns_together,
    load_minilm,
    mean_vector,
    names_of,
    padded,
    read_published,
)
from utils.models.encoder import Encoder
from utils.models.language import Classifier


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


def test_there_are_enough_sentences_and_each_batch_is_padded(real):
    assert len(set(SENTENCES)) == len(SENTENCES) >= 50
    assert {text for batch in batches() for text in batch} == set(SENTENCES)
    assert all((~real.splitter.batch(batch).real).any() for batch in batches())


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


def test_one_parameter_that_is_off_by_a_hundredth_of_a_per_cent_is_found(real, theirs):
    changed = copy.deepcopy(real.bert)
    with torch.no_grad():
        changed.encoder.layers[5].feed_forward_norm.gain[7] *= 1.0001
    ours, others = hidden_states(changed, theirs, real.splitter)[-1]
    assert not torch.allclose(ours, others, rtol=1e-5, atol=1e-5)


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
def test_two_sentences_read_together_have_two_kinds(real, theirs):
    numbers = torch.tensor([[101, 2023, 102, 2008, 102]])
    kinds = torch.tensor([[0, 0, 0, 1, 1]])
    want = theirs(numbers, token_type_ids=kinds).last_hidden_state
    assert (real.bert(numbers, kinds=kinds)[0] - want).abs().max() < 1e-5
    assert (real.bert(numbers)[0] - want).abs().max() > 1e-2


@torch.no_grad()
def test_a_large_batch_in_parts_gives_the_same(real):
    numbers, real_ones = padded([[101, *range(2000, 2000 + length), 102] for length in range(1, 41)])
    assert numbers.numel() > 3 * 512
    states, _ = real.bert.hidden_states(numbers, real_ones)
    x, weights = real.bert(numbers, real_ones)
    assert weights is None and x.shape == states[-1].shape
    assert (x - states[-1])[real_ones].abs().max() < 1e-5
    kinds = (torch.arange(numbers.size(1)) > 4).long().expand_as(numbers)
    states, _ = real.bert.hidden_states(numbers, real_ones, kinds=kinds)
    assert (real.bert(numbers, real_ones, kinds=kinds)[0] - states[-1])[real_ones].abs().max() < 1e-5


def test_what_a_large_batch_learns_from_reaches_every_parameter(folder):
    bert = load_minilm(folder).bert.train()
    numbers, real_ones = padded([[101, *range(2000, 2060), 102]] * 10)
    mean_vector(bert(numbers, real_ones)[0], real_ones)[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in bert.parameters())


def test_a_classifier_of_the_course_stands_on_it(real):
    texts = ["A cat sleeps.", "A kitten naps on the warm stones of the yard."]
    batch = real.splitter.batch(texts)
    assert (~batch.real).any() and real.bert.dim == 384
    model = Classifier(real.bert, real.bert.dim, 3).eval()
    with torch.no_grad():
        vectors = real.bert.vectors(batch.numbers, batch.real)
        alone = torch.cat([model(real.splitter.batch([text]).numbers) for text in texts])
        assert torch.equal(vectors, real.bert(batch.numbers, batch.real)[0])
        assert torch.allclose(model(batch.numbers, batch.real), alone, atol=1e-5)


# --- splitting --------------------------------------------------------------------------------------------------


def test_a_long_text_keeps_its_first_pieces_and_both_marks(folder):
    splitter = PieceSplitter(folder / "tokenizer.json", longest=6)
    (pieces,) = splitter.batch(["one two three four five six seven"]).pieces
    assert pieces == ["[CLS]", "one", "two", "three", "four", "[SEP]"]
    assert PieceSplitter(folder / "tokenizer.json").batch(["word " * 1000]).numbers.shape == (1, LONGEST)
    with pytest.raises(ValueError, match="at least 3, got 2"):
        PieceSplitter(folder / "tokenizer.json", longest=2)


def test_a_batch_is_as_wide_as_its_longest_text(real):
    batch = real.splitter.batch(["a", "a b c"])
    assert batch.numbers.tolist() == [[101, 1037, 102, 0, 0], [101, 1037, 1038, 1039, 102]]
    assert batch.real.sum(1).tolist() == [3, 5]
    assert len(real.splitter) == 30522


def test_a_piece_knows_its_letters(real):
    text = "Unbelievable, ZÜRICH!"
    batch = real.splitter.batch([text])
    found = [(piece, text[start:end]) for piece, (start, end) in zip(batch.pieces[0], batch.places[0], strict=True)]
    assert found == [
        ("[CLS]", ""),
        ("unbelievable", "Unbelievable"),
        (",", ","),
        ("zurich", "ZÜRICH"),
        ("!", "!"),
        ("[SEP]", ""),
    ]


def test_one_text_in_place_of_a_list_is_refused(real):
    with pytest.raises(TypeError, match=r"write \[text\]"):
        real.sentence_vectors("The cat")
    with pytest.raises(ValueError, match="at least one text"):
        real.hidden_states([])
    assert real.sentence_vectors([]).shape == (0, 384)


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


@torch.no_grad()
def test_the_map_serves_a_bert_of_any_size():
    _, model, tensors = published()
    ours = read_published(Bert(SMALL).eval(), tensors)
    numbers, real_ones = padded([[1, 2, 3, 4, 5], [6, 7]])
    want = model(numbers, attention_mask=real_ones.long()).last_hidden_state
    assert (ours(numbers, real_ones)[0] - want)[real_ones].abs().max() < 1e-4


def test_every_parameter_is_named_once_and_the_encoder_is_the_courses_own():
    bert = Bert(SMALL)
    assert isinstance(bert.encoder, Encoder) and {type(bert.encoder).__module__} == {"utils.models.encoder"}
    names = dict(names_of(SMALL.layers))
    assert set(names) == {name for name, _ in bert.named_parameters()}
    theirs = [name for several in names.values() for name in several]
    assert len(theirs) == len(set(theirs)) == len(published()[2]) - 2  # the layer on top of [CLS]


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
        ({f"bert.{key}": value for key, value in tensors.items()}, r"lack embeddings.LayerNorm.bias, .* and 34 more"),
    ):
        bert = Bert(SMALL)
        before = {key: value.clone() for key, value in bert.state_dict().items()}
        with pytest.raises(WeightsError, match=message):
            read_published(bert, change)
        assert all(torch.equal(value, before[key]) for key, value in bert.state_dict().items())


def test_more_or_fewer_layers_than_the_sizes_say_are_refused():
    _, _, tensors = published()
    with pytest.raises(WeightsError, match="encoder.layer.1.* which this model has no place for"):
        read_published(Bert(BertSizes(11, 6, 1, 3, 7, 5)), tensors)
    with pytest.raises(WeightsError, match="lack encoder.layer.2.*this many layers"):
        read_published(Bert(BertSizes(11, 6, 3, 3, 7, 5)), tensors)


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


def test_a_text_longer_than_the_table_of_positions_is_refused():
    with pytest.raises(ValueError, match="at most 5 pieces, got 6"):
        Bert(SMALL)(torch.zeros(1, 6, dtype=torch.long))


def test_another_order_in_memory_changes_no_number(folder, real):
    tensors = load_file(folder / "model.safetensors")
    mixed = real.bert.encoder.layers[3].attention.mix.weight
    assert torch.equal(mixed, tensors["encoder.layer.3.attention.output.dense.weight"])
    assert mixed.stride() == (1, 384)
    small = Bert(SMALL)
    before = {name: value.clone() for name, value in small.state_dict().items()}
    columns_together(small)
    assert all(torch.equal(value, before[name]) for name, value in small.state_dict().items())
    assert all(parameter.requires_grad for parameter in small.parameters())
    small.load_state_dict(before)
    assert small.encoder.layers[0].feed_forward.widen.weight.stride() == (1, 7)


# --- speed ------------------------------------------------------------------------------------------------------


def test_it_reads_no_slower_than_the_library():
    """A loose bar for machines on which other things run; the stored benchmark has the real one."""
    measured = bert_speed(shapes=((1, 12), (16, 24)), rounds=5)
    assert [(row["sentences"], row["pieces"]) for row in measured["rows"]] == [(1, 12), (16, 24)]
    assert measured["geometric_mean"] > 0.85
