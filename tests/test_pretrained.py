"""Published models: MiniLM equals `BertModel`, SmolLM2 equals `LlamaForCausalLM` of `transformers`, from text to results."""

import copy
import json
import time
from dataclasses import replace

import gguf
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import pre_tokenizers
from torch import nn

from tests.benchmarks.bert_speed import SENTENCES, batches, bert_speed, hidden_states, reference_bert
from tests.benchmarks.smollm2_speed import compare, reference_generate, reference_llama, reference_tensors
from utils.build.downloads import MINILM, SMOLLM2, fetch
from utils.models.decoding import PrefixCache, generate
from utils.models.gguf import GGUFFile
from utils.models.language_models import CausalLM, EncoderConfig, EncoderModel
from utils.models.pretrained import (
    BERT,
    LLAMA,
    MINILM_MAX_LEN,
    SMOLLM2_FILE,
    WeightsError,
    WordPieceTokenizer,
    bert_config,
    chat_prompt,
    llama_config,
    load_minilm,
    load_smollm2,
)

PROMPTS = (
    "The capital of France is",
    "a",
    " ",
    "\n\n\n",
    "Water boils at 100 degrees Celsius, and freezes at",
    "def add(a, b):\n    return a + b\n\n\ndef multiply(a, b):\n    return",
    "Il était une fois, dans un pays lointain, une",
    "日本の首都は",
    "😀🎉 Привет, мир! नमस्ते",
    chat_prompt("Who wrote Hamlet?"),
    "<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\nHello! How can I help?"
    "<|im_end|>\n<|im_start|>user\nName three rivers.<|im_end|>\n<|im_start|>assistant\n",
    "one two three four five six seven eight nine ten " * 20,
)
TEXTS = (
    *PROMPTS,
    "",
    "The cat sat on the mat.",
    "It's 5 o'clock, isn't it? I can't, won't and shouldn't've come. IT'S CAN'T",
    "Prices rose by 3.7 % to $1,234,567.89 in 2019.",
    "one  two   three    four     5 and   6",
    "  leading, trailing  ",
    "tabs\tand\t\tmore\r\nlines\r\n\r\n  indented\n\tso",
    "x = [1, 22, 333]  # a comment -- with dashes...!?",
    "naïve café, Zürich, Straße, İstanbul, Ελληνικά, русский, 한국어, ภาษาไทย, שלום, مرحبا",
    "½ ² ³ Ⅷ ٣ ५ ™ © € ’ “curly” — … «»",
    "👩‍👩‍👧‍👦 🇫🇷 zero\u200bwidth non\u00a0breaking thin\u2009space line\u2028break ideographic\u3000space",
    "control\x00sign\x07s \x85 next",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "<|im_end|><|im_end|> <|im_end|>  <|im_start|>",
    "<repo_name>a/b<file_sep>c.py<gh_stars>12<jupyter_code>print(1)<empty_output>",
    "almost <|im_end |> <|IM_END|> <|im_end|",
    "Ġ letters Ċ of the alphabet ĠĠ",
    "antidisestablishmentarianism " + "x" * 300,
)


# MiniLM


@pytest.fixture(scope="module")
def minilm_folder():
    return fetch(MINILM)


@pytest.fixture(scope="module")
def minilm(minilm_folder):
    torch.set_num_threads(1)
    return load_minilm(minilm_folder)


@pytest.fixture(scope="module")
def bert():
    return reference_bert()


@pytest.fixture(scope="module")
def bert_tokenizer(minilm_folder):
    """`transformers`' own tokenizer for BERT on the published vocabulary; nothing else of tokenizer.json is used."""
    vocabulary = json.loads((minilm_folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    from transformers import BertTokenizer  # here and below: not every worker needs it

    return BertTokenizer(vocab=vocabulary, do_lower_case=True, model_max_length=MINILM_MAX_LEN)


def test_word_piece_token_ids_are_those_of_transformers(minilm, bert_tokenizer):
    for texts in batches():
        batch = minilm.tokenizer.batch(texts)
        expected = bert_tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        assert torch.equal(batch.token_ids, expected["input_ids"])
        assert torch.equal(batch.attention_mask, expected["attention_mask"].bool())
        for tokens, token_ids in zip(batch.tokens, batch.token_ids, strict=True):
            assert tokens == bert_tokenizer.convert_ids_to_tokens(token_ids)[: len(tokens)]


def test_a_long_text_is_truncated_between_cls_and_sep(minilm_folder):
    file = minilm_folder / "tokenizer.json"
    (tokens,) = WordPieceTokenizer(file, max_len=6).batch(["one two three four five six seven"]).tokens
    assert tokens == ["[CLS]", "one", "two", "three", "four", "[SEP]"]
    assert WordPieceTokenizer(file).batch(["word " * 1000]).token_ids.shape == (1, MINILM_MAX_LEN)


def test_a_text_in_place_of_a_list_of_texts_is_refused(minilm):
    with pytest.raises(TypeError, match=r"write \[text\]"):
        minilm.sentence_embeddings("The cat")


def test_every_hidden_state_is_that_of_bert_model(minilm, bert):
    """Each value of each layer to 1e-5, relative where it is above one: in single precision the orders of sums differ."""
    for layer, (states, expected) in enumerate(hidden_states(minilm.model, bert, minilm.tokenizer)):
        assert states.shape == expected.shape and states.isfinite().all() and states.std() > 0.1
        assert torch.allclose(states, expected, rtol=1e-5, atol=1e-5), f"layer {layer}"


def test_in_double_precision_hidden_states_agree_to_the_last_digits(minilm, bert):
    pairs = hidden_states(copy.deepcopy(minilm.model).double(), copy.deepcopy(bert).double(), minilm.tokenizer)
    assert len(pairs) == 7
    assert max((states - expected).abs().max() for states, expected in pairs) < 1e-11


@torch.no_grad()
def test_attention_weights_are_those_of_bert_model_and_returning_them_changes_nothing(minilm):
    eager, texts = reference_bert(attn_implementation="eager"), SENTENCES[8:14]
    hidden, plain = minilm.hidden_states(texts, need_weights=True), minilm.hidden_states(texts)
    mask, n = hidden.attention_mask, hidden.attention_mask.size(1)
    assert plain.weights is None and len(hidden.weights) == 6
    expected = eager(hidden.token_ids, attention_mask=mask.long(), output_attentions=True).attentions
    queries = mask[:, None, :, None].expand_as(expected[0])
    for weights, want in zip(hidden.weights, expected, strict=True):
        assert weights.shape == want.shape == (6, 12, n, n)
        assert (weights - want)[queries].abs().max() < 1e-5
        assert (weights * ~mask[:, None, None, :]).max() == 0
    for states, plain_states in zip(hidden.states, plain.states, strict=True):
        assert (states - plain_states)[mask].abs().max() < 1e-5


@torch.no_grad()
def test_sentence_embeddings_are_normalized_means_over_tokens_in_the_given_order(minilm, bert):
    embeddings = minilm.sentence_embeddings(SENTENCES)
    assert embeddings.shape == (len(SENTENCES), 384)
    assert torch.allclose(embeddings.norm(dim=1), torch.ones(len(SENTENCES)), atol=1e-5)
    for index in (0, 3, 10, 33, 52, 55):
        alone = minilm.tokenizer.batch([SENTENCES[index]])
        expected = F.normalize(bert(alone.token_ids).last_hidden_state[0].mean(0), dim=0)
        assert (embeddings[index] - expected).abs().max() < 1e-5


@torch.no_grad()
def test_a_large_batch_in_parts_gives_the_same(minilm):
    mask = torch.arange(42) < torch.arange(3, 43).unsqueeze(1)
    token_ids = torch.randint(1000, 20_000, mask.shape, generator=torch.Generator().manual_seed(0)).masked_fill(
        ~mask, 0
    )
    assert token_ids.numel() > 3 * 512
    states, _ = minilm.model.hidden_states(token_ids, mask)
    output = minilm.model(token_ids, mask)
    assert output.shape == states[-1].shape
    assert (output - states[-1])[mask].abs().max() < 1e-5


def test_inference_is_not_slower_than_that_of_bert_model():
    """A loose bound for machines with other work; the stored benchmark has the exact figure."""
    measured = bert_speed(shapes=((1, 12), (16, 24)), rounds=5)
    assert [(row["sentences"], row["tokens"]) for row in measured["rows"]] == [(1, 12), (16, 24)]
    assert measured["geometric_mean"] > 0.85


# A small BERT

SMALL_BERT = bert_config(
    {
        "vocab_size": 11,
        "hidden_size": 6,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 7,
        "max_position_embeddings": 5,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
)


def random_bert():
    """A `BertModel` of `SMALL_BERT`'s sizes with random parameters, norms and biases included."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=SMALL_BERT.vocab_size,
        hidden_size=SMALL_BERT.dim,
        num_hidden_layers=SMALL_BERT.num_layers,
        num_attention_heads=SMALL_BERT.num_heads,
        intermediate_size=SMALL_BERT.hidden_dim,
        max_position_embeddings=SMALL_BERT.max_len,
    )
    model = BertModel(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def tensors_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_a_bert_of_any_size_equals_bert_model_forward_and_backward():
    reference = random_bert()
    model = BERT.load(EncoderModel(SMALL_BERT).eval(), tensors_of(reference))
    token_ids = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 0, 0, 0]])
    mask = token_ids > 0
    expected = reference(token_ids, attention_mask=mask.long()).last_hidden_state
    output = model(token_ids, mask)
    assert (output - expected)[mask].abs().max() < 1e-4
    for result in (output, expected):
        result[mask].cos().sum().backward()
    parameters, references = dict(model.named_parameters()), dict(reference.named_parameters())
    names = BERT.names(SMALL_BERT.num_layers)
    assert set(names) == set(parameters)
    for name, parts in names.items():
        gradient = torch.cat([references[part].grad for part in parts])
        assert torch.allclose(parameters[name].grad, gradient, rtol=1e-4, atol=1e-4), name


def test_the_configuration_comes_from_config_json(minilm_folder):
    published = json.loads((minilm_folder / "config.json").read_text(encoding="utf-8"))
    assert bert_config(published) == EncoderConfig(
        vocab_size=30522,
        dim=384,
        num_heads=12,
        hidden_dim=1536,
        num_layers=6,
        positions="learned",
        max_len=512,
        scale_embedding=False,
        norm_first=False,
        num_types=2,
        eps=1e-12,
    )


def test_a_missing_or_damaged_file_of_minilm_is_named(minilm_folder, tmp_path):
    with pytest.raises(WeightsError, match="cannot be read .*config.json.*download the model again"):
        load_minilm(tmp_path)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((minilm_folder / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"half of a file")
    with pytest.raises(WeightsError, match="cannot be read .*download the model again"):
        load_minilm(tmp_path)
    save_file({"weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match="weights of another model"):
        load_minilm(tmp_path)


# A small Llama

SMALL_LLAMA = EncoderConfig(
    vocab_size=50,
    dim=24,
    num_heads=6,
    hidden_dim=20,
    num_layers=3,
    num_kv_heads=2,
    positions="rotary",
    max_len=32,
    scale_embedding=False,
    norm="rms",
    activation="swiglu",
    bias=False,
    rope_base=500.0,
    eps=1e-4,
)


def small_llama(config=SMALL_LLAMA, seed=0):
    torch.manual_seed(seed)
    model = CausalLM(config)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)
    return model.eval()


def gguf_tensors(model, read=torch.detach):
    """The parameters, or what `read` makes of each, under GGUF's names; split where several make one of ours."""
    config, tensors = model.config, {}
    kv_dim = config.num_kv_heads * config.dim // config.num_heads
    parameters = dict(model.named_parameters())
    names = LLAMA.names(config.num_layers)
    assert set(names) == set(parameters)
    for name, parts in names.items():
        sizes = {1: [len(parameters[name])], 2: [config.hidden_dim] * 2, 3: [config.dim, kv_dim, kv_dim]}[len(parts)]
        split = read(parameters[name]).split(sizes)
        tensors |= {part: tensor.clone() for part, tensor in zip(parts, split, strict=True)}
    return tensors


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
@torch.no_grad()
def test_a_llama_of_any_size_equals_llama_for_causal_lm(num_kv_heads):
    model = small_llama(replace(SMALL_LLAMA, num_kv_heads=num_kv_heads)).double()
    reference = reference_llama(model.config, gguf_tensors(model))
    token_ids = torch.randint(50, (3, 32))
    expected = reference(token_ids).logits
    # The reference computes its rotation in single precision.
    assert (model(token_ids) - expected).abs().max() < 1e-4 and expected.std() > 1


def test_a_llama_has_the_gradients_of_llama_for_causal_lm():
    model = small_llama().double()
    reference = reference_llama(model.config, gguf_tensors(model))
    token_ids = torch.randint(50, (2, 9))
    for logits in (model(token_ids), reference(token_ids).logits):
        F.cross_entropy(logits[:, :-1].flatten(0, 1), token_ids[:, 1:].flatten()).backward()
    gradients = dict(reference_tensors(gguf_tensors(model, lambda parameter: parameter.grad), model.config))
    references = dict(reference.named_parameters())
    assert set(gradients) == set(references)
    for name, gradient in gradients.items():
        expected = references[name].grad
        assert expected.abs().max() > 0 and (gradient - expected).abs().max() < 1e-4 * expected.abs().max(), name


def test_loaded_weights_are_tied():
    tensors = gguf_tensors(small_llama())
    model = LLAMA.load(small_llama(seed=1), tensors)
    assert model.lm_head.weight is model.embedding.token_embedding.weight
    assert torch.equal(model.lm_head.weight, tensors["token_embd.weight"])


def test_a_prompt_beyond_max_len_and_an_empty_one_are_refused():
    model = small_llama()
    assert model(torch.zeros(1, 32, dtype=torch.long)).shape == (1, 32, 50)
    with pytest.raises(ValueError, match="at most 32 tokens, got 33; cut the text"):
        model(torch.zeros(1, 33, dtype=torch.long))
    with pytest.raises(ValueError, match="at most 32 tokens, got 30 and 3 new ones"):
        generate(model, [1] * 30, 3)  # at the call, not at the first token
    with pytest.raises(ValueError, match="a prompt of at least one token, got none"):
        generate(model, [], 3)


@pytest.mark.parametrize(
    "options", [{"temperature": 0}, {}, {"temperature": 0.7, "top_k": 5}, {"temperature": 1.3, "top_p": 0.8}]
)
@pytest.mark.parametrize("prompt_ids", [[7], [3, 1, 4, 1, 5, 9, 2, 6]])
def test_generation_with_the_cache_equals_generation_without(options, prompt_ids):
    model = small_llama()
    for seed in range(3):
        cached, uncached = (
            list(generate(model, prompt_ids, 20, generator=torch.Generator().manual_seed(seed), **options, **window))
            for window in ({}, {"window": 32})
        )
        assert cached == uncached and len(cached) == 20


@pytest.mark.parametrize("prompt_ids", [[7], [3, 1, 4, 1, 5, 9, 2, 6]])
def test_greedy_generation_equals_generate_of_transformers_and_ends_before_eos(prompt_ids):
    model = small_llama()
    reference = reference_llama(model.config, gguf_tensors(model))
    reference.generation_config.eos_token_id = None
    token_ids = list(generate(model, prompt_ids, 20, temperature=0))
    assert token_ids == reference_generate(reference, prompt_ids, 20) and len(set(token_ids)) > 1
    eos_id = token_ids[3]
    ended = list(generate(model, prompt_ids, 20, temperature=0, eos_ids={eos_id, 999}))
    assert ended == token_ids[: token_ids.index(eos_id)]


def test_a_prefix_cache_computes_only_what_follows_the_common_prefix():
    model, sizes = small_llama(), []
    next_logits = PrefixCache(model, max_len=4)
    step = model.step
    model.step = lambda token_ids, *rest: sizes.append(token_ids.size(1)) or step(token_ids, *rest)
    for token_ids, new in (
        ([1, 2, 3], 3),
        ([1, 2, 3, 4], 1),
        ([1, 2, 3, 4], 1),  # the same again
        ([1, 2], 1),  # the end deleted
        ([1, 2, 9, 4], 2),  # another continuation
        ([5, 2, 9, 4], 4),  # another text
        ([5, 2, 9, 4, 6, 7], 6),  # a larger cache is needed: computed again
        ([5, 2, 9, 4, 6, 7, 8, 9], 2),
        (list(range(32)), 32),
    ):
        logits = next_logits(token_ids)
        assert torch.allclose(logits, model(torch.tensor([token_ids]))[0, -1], atol=1e-5)
        assert sizes.pop() == new and not sizes


# Weights that do not fit


def bert_case():
    return BERT, lambda: EncoderModel(SMALL_BERT), tensors_of(random_bert())


def llama_case():
    return LLAMA, lambda: small_llama(seed=1), gguf_tensors(small_llama())


@pytest.mark.parametrize(
    ("case", "name", "wrong"),
    [
        (bert_case, "encoder.layer.1.attention.self.key.bias", (5,)),
        (llama_case, "blk.1.attn_k.weight", (9, 24)),
    ],
    ids=["BERT", "Llama"],
)
def test_weights_of_another_model_are_named(case, name, wrong):
    mapping, build, tensors = case()
    without = {key: value for key, value in tensors.items() if key != name}
    for changed, expected in (
        (without, rf"1 tensors are missing \['{name}'\], 0 are unexpected"),
        (tensors | {"surplus": torch.zeros(11)}, r"0 tensors are missing \[\], 1 are unexpected \['surplus'\]"),
    ):
        with pytest.raises(WeightsError, match=expected):
            mapping.load(build(), changed)
    with pytest.raises(RuntimeError, match="size mismatch for encoder.layers.1.self_attn.in_proj"):
        mapping.load(build(), tensors | {name: torch.zeros(wrong)})


# SmolLM2


@pytest.fixture(scope="module")
def smollm2_folder():
    return fetch(SMOLLM2)


@pytest.fixture(scope="module")
def file(smollm2_folder):
    return GGUFFile(smollm2_folder / SMOLLM2_FILE)


@pytest.fixture(scope="module")
def smollm2(smollm2_folder):
    torch.set_num_threads(1)
    return load_smollm2(smollm2_folder)


@pytest.fixture(scope="module")
def published(smollm2_folder):
    """Every tensor of the file, dequantized by the package `gguf`."""
    reader = gguf.GGUFReader(smollm2_folder / SMOLLM2_FILE)
    return {
        tensor.name: torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        for tensor in reader.tensors
    }


@pytest.fixture(scope="module")
def llama(smollm2, published):
    return reference_llama(smollm2.model.config, published)


def test_every_tensor_is_dequantized_as_by_the_package(file, published):
    assert set(file) == set(published)
    assert all(torch.equal(file[name], tensor) for name, tensor in published.items())


def test_the_configuration_comes_from_the_file(file):
    eps = file.fields["llama.attention.layer_norm_rms_epsilon"]
    sizes = {"vocab_size": 49152, "dim": 576, "num_heads": 9, "hidden_dim": 1536, "num_layers": 30, "num_kv_heads": 3}
    assert llama_config(file.fields) == replace(SMALL_LLAMA, **sizes, max_len=8192, rope_base=100_000.0, eps=eps)
    assert abs(eps - 1e-5) < 1e-11


def test_a_missing_or_damaged_file_of_smollm2_is_named(smollm2_folder, tmp_path):
    with pytest.raises(WeightsError, match=f"{SMOLLM2_FILE} cannot be read.*download the model again"):
        load_smollm2(tmp_path)
    with (smollm2_folder / SMOLLM2_FILE).open("rb") as whole:
        (tmp_path / SMOLLM2_FILE).write_bytes(whole.read(5_000_000))
    with pytest.raises(WeightsError, match="ends too early: .*download the model again"):
        load_smollm2(tmp_path)


@torch.no_grad()
def test_the_logits_are_those_of_llama_for_causal_lm(smollm2, llama):
    lengths = set()
    for text in PROMPTS:
        token_ids = torch.tensor([smollm2.tokenizer.encode(text)])
        logits, expected = smollm2.model(token_ids), llama(token_ids).logits
        assert logits.shape == expected.shape == (1, token_ids.size(1), 49152)
        # Relative to the largest logit at each position.
        assert ((logits - expected).abs().amax(-1) / expected.abs().amax(-1)).max() < 2e-5
        assert torch.equal(logits.argmax(-1), expected.argmax(-1))
        lengths.add(token_ids.size(1))
    assert min(lengths) == 1 and max(lengths) > 150


def test_paris_is_the_most_probable_next_token_by_far(smollm2):
    (first, probability), (_, second), *_ = smollm2.next_tokens("The capital of France is")
    assert first == " Paris" and 0.75 < probability < 0.80 and second < 0.1


def test_it_answers_a_question_and_stops(smollm2):
    token_ids = smollm2.generate(chat_prompt("What is the capital of Italy? One word."), 30, temperature=0)
    text = smollm2.tokenizer.decode(token_ids)
    assert "Rome" in text and "<|im_end|>" not in text and len(token_ids) < 30


def test_a_responder_gives_the_logits_after_prompt_and_generated_tokens(smollm2):
    respond = smollm2.responder()
    logits = respond("The capital of France", smollm2.tokenizer.encode(" is"))
    assert smollm2.tokenizer.tokens([int(logits.argmax())]) == [" Paris"]
    with pytest.raises(ValueError, match="a prompt of at least one token, got ''"):
        respond("", [])


def test_generation_is_not_slower_than_generate_of_transformers_and_gives_the_same_tokens(smollm2, llama):
    """A loose bound, by the work of this process alone; the stored benchmark has the exact figure."""
    measured = compare(smollm2, llama, count=4, rounds=3, clock=time.process_time)
    assert measured["generate"] > 0.7 and measured["loop"] > 0.7 and measured["tokens_per_second"] > 0


# Byte-level tokens and the chat template


@pytest.fixture(scope="module")
def gpt2_tokenizer(file):
    """`transformers`' own class for byte-level BPE; the published tokenizer splits digits first."""
    fields = file.fields
    from transformers import GPT2Tokenizer

    tokenizer = GPT2Tokenizer(
        vocab={token: number for number, token in enumerate(fields["tokenizer.ggml.tokens"])},
        merges=[tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]],
        unk_token="<|endoftext|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
    )
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    special = [
        token
        for token, kind in zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"], strict=True)
        if kind == gguf.TokenType.CONTROL
    ]
    tokenizer.add_special_tokens({"additional_special_tokens": special}, replace_extra_special_tokens=False)
    tokenizer.chat_template = fields["tokenizer.chat_template"]
    return tokenizer


def test_byte_level_token_ids_are_those_of_transformers(smollm2, gpt2_tokenizer):
    tokenizer = smollm2.tokenizer
    assert len(tokenizer) == len(gpt2_tokenizer) == 49152
    for text in TEXTS:
        token_ids = tokenizer.encode(text)
        assert token_ids == gpt2_tokenizer(text)["input_ids"]
        assert tokenizer.decode(token_ids) == text
        assert gpt2_tokenizer.decode(token_ids, clean_up_tokenization_spaces=False) == text
        tokens = tokenizer.tokens(token_ids)
        assert "".join(tokens) == text or any("\\x" in token for token in tokens)
    emoji = tokenizer.encode("😀")
    assert len(emoji) > 1 and tokenizer.decode(emoji[:-1]) == "\N{REPLACEMENT CHARACTER}"  # cut off inside a character


def test_a_chat_prompt_follows_the_template_of_the_file(gpt2_tokenizer):
    for text in ("Hi!", " Name 3\nrivers. "):
        message = {"role": "user", "content": text}
        expected = gpt2_tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        assert chat_prompt(text) == expected
