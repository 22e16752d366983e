"""SmolLM2 on the course's own blocks: each new block against another way to compute it, the whole against `transformers`."""

import copy
import time

import gguf
import pytest
import torch
import torch.nn.functional as F
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as Steps
from torch import nn

from tests.benchmarks.smollm2_speed import compared, their_llama
from utils.build.downloads import SMOLLM2, fetch
from utils.models import llama
from utils.models.bert import WeightsError
from utils.models.gguf import GGUFFile
from utils.models.llama import (
    FILE,
    SYSTEM,
    ByteSplitter,
    GroupedAttention,
    Llama,
    LlamaSizes,
    Reading,
    RMSNorm,
    chat_text,
    draw,
    load_smollm2,
    names_of,
    read_published,
    rms_norm,
    write,
)
from utils.models.multi_head import MultiHeadAttention
from utils.models.sampling import generate, next_distribution
from utils.models.self_attention import causal_mask

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
    chat_text("Who wrote Hamlet?"),
    chat_text(["Hi!", "Hello! How can I help?", "Name three rivers."], system="Be short."),
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


@pytest.fixture(scope="module")
def folder():
    return fetch(SMOLLM2)


@pytest.fixture(scope="module")
def file(folder):
    return GGUFFile(folder / FILE)


@pytest.fixture(scope="module")
def real(folder):
    torch.set_num_threads(1)
    return load_smollm2(folder)


@pytest.fixture(scope="module")
def published(folder):
    """Every tensor of the file, made from its blocks by the package `gguf`."""
    reader = gguf.GGUFReader(folder / FILE)
    return {
        one.name: torch.from_numpy(gguf.dequantize(one.data, one.tensor_type).copy()) for one in reader.tensors
    }  # fmt: skip


@pytest.fixture(scope="module")
def theirs(real, published):
    return their_llama(real.model.sizes, published)


@pytest.fixture
def seeded():
    torch.manual_seed(0)


# --- the blocks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (3, 8), (2, 7, 6), (1, 1, 576)])
def test_the_norm_is_torchs(seeded, shape):
    x, want = torch.randn(shape) * 3 + 1, nn.RMSNorm(shape[-1], eps=1e-3)
    nn.init.normal_(want.weight)
    norm = RMSNorm(shape[-1], eps=1e-3)
    norm.gain = want.weight
    assert torch.allclose(norm(x), want(x), atol=1e-6)
    assert torch.allclose(rms_norm(x, want.weight, eps=1e-3), want(x), atol=1e-6)


@pytest.mark.parametrize(("heads", "key_heads"), [(1, 1), (4, 1), (4, 2), (6, 2), (6, 3), (3, 3)])
@torch.no_grad()
def test_grouped_heads_are_multi_head_attention_with_repeated_keys_and_values(seeded, heads, key_heads):
    dim, group = 4 * heads, heads // key_heads
    grouped, whole = GroupedAttention(dim, heads, key_heads), MultiHeadAttention(dim, heads, bias=False)
    query, *shared = grouped.project.weight.split([dim, 4 * key_heads, 4 * key_heads])
    repeated = [part.unflatten(0, (key_heads, 4)).repeat_interleave(group, 0).flatten(0, 1) for part in shared]
    whole.project.weight.copy_(torch.cat([query, *repeated]))
    whole.mix.weight.copy_(grouped.mix.weight)
    x = torch.randn(2, 5, dim)
    for mask in (causal_mask(5), None):
        want, looked = whole(x, mask=mask, need_weights=True)
        output, weights = grouped(x, None, mask, need_weights=True)
        assert torch.allclose(output, want, atol=1e-6) and torch.allclose(weights, looked, atol=1e-6)
        assert torch.allclose(grouped(x, None, mask)[0], want, atol=1e-6)


# --- the small model --------------------------------------------------------------------------------------------

SMALL = LlamaSizes(words=50, dim=24, layers=3, heads=6, key_heads=2, hidden=20, positions=32, base=500.0, eps=1e-4)


def small(sizes=SMALL, seed=0):
    torch.manual_seed(seed)
    model = Llama(sizes)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)
    return model.eval()


def tensors_of(model):
    """The parameters under the published names, cut apart where several make one of ours."""
    sizes, found = model.sizes, {}
    keys = sizes.key_heads * sizes.dim // sizes.heads
    cuts = {1: None, 2: [sizes.hidden] * 2, 3: [sizes.dim, keys, keys]}
    parameters = dict(model.named_parameters())
    for ours, theirs in names_of(sizes.layers):
        whole = parameters[ours].detach()
        parts = [whole] if cuts[len(theirs)] is None else whole.split(cuts[len(theirs)])
        found |= {name: part.clone() for name, part in zip(theirs, parts, strict=True)}
    return found


@pytest.mark.parametrize("key_heads", [1, 2, 3, 6])
@torch.no_grad()
def test_a_llama_of_any_size_is_that_of_the_library(key_heads):
    model = small(LlamaSizes(50, 24, 3, 6, key_heads, 20, 32, 500.0, 1e-4)).double()
    theirs = their_llama(model.sizes, tensors_of(model))
    numbers = torch.randint(50, (3, 32))
    want = theirs(numbers).logits
    # Their positions are in single precision.
    assert (model(numbers) - want).abs().max() < 1e-4 and want.std() > 1


def test_every_parameter_learns_and_no_piece_sees_the_future():
    model, numbers = small(), torch.randint(50, (2, 9))
    logits = model(numbers)
    F.cross_entropy(logits[:, :-1].flatten(0, 1), numbers[:, 1:].flatten()).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    for place in range(1, 9):
        changed = numbers.clone()
        changed[:, place:] = (changed[:, place:] + 1) % 50
        assert torch.allclose(model(changed)[:, :place], logits[:, :place], atol=1e-5)
        assert not torch.allclose(model(changed)[:, place:], logits[:, place:], atol=1e-2)


@torch.no_grad()
def test_the_cache_gives_what_reading_all_at_once_gives_however_it_is_cut():
    model, numbers = small(), torch.randint(50, (2, 12))
    whole = model(numbers)
    for cuts in ([12], [1] * 12, [5, 7], [3, 1, 1, 4, 3]):
        cache, start = model.remember(12, texts=2), 0
        for new in cuts:
            logits = model.step(numbers[:, start : start + new], cache)
            start += new
            assert torch.allclose(logits, whole[:, start - 1], atol=1e-5)
        with pytest.raises(ValueError, match="at most 12 words, got 13"):
            model.step(numbers[:, :1], cache)


def test_a_text_that_is_too_long_is_refused():
    model = small()
    assert model(torch.zeros(1, 32, dtype=torch.long)).shape == (1, 32, 50)
    with pytest.raises(ValueError, match="at most 32 pieces, got 33; cut the text"):
        model(torch.zeros(1, 33, dtype=torch.long))
    with pytest.raises(ValueError, match="at most 32 pieces, got 30 and 3 to come"):
        write(model, [1] * 30, 3)  # said at once, not at the first piece
    for call in (lambda: write(model, [], 3), lambda: Reading(model)([])):
        with pytest.raises(ValueError, match="at least one piece to go on from, got none"):
            call()


@pytest.mark.parametrize(
    "dials", [{"temperature": 0}, {}, {"temperature": 0.7, "top_k": 5}, {"temperature": 1.3, "top_p": 0.8}]
)
@pytest.mark.parametrize("prompt", [[7], [3, 1, 4, 1, 5, 9, 2, 6]])
def test_cached_writing_draws_what_uncached_writing_draws(dials, prompt):
    model = small()
    for seed in range(3):
        ours = list(write(model, prompt, 20, generator=torch.Generator().manual_seed(seed), **dials))
        want = generate(model, prompt, 20, generator=torch.Generator().manual_seed(seed), **dials)
        assert prompt + ours == want.tolist()


def test_writing_ends_before_a_stop_and_draws_by_the_dials():
    model = small()
    free = list(write(model, [1, 2], 20, temperature=0))
    assert len(free) == 20 and len(set(free)) > 1
    place = free.index(free[3])
    assert list(write(model, [1, 2], 20, temperature=0, stop={free[3], 999})) == free[:place]
    logits = torch.tensor([1.0, 3.0, 2.0, -torch.inf])
    assert draw(logits, 0) == 1 == draw(logits, 1.0, top_k=1) == draw(logits, 1.0, top_p=0.1)
    drawn = torch.bincount(
        torch.tensor([draw(logits, generator=torch.Generator().manual_seed(s)) for s in range(2000)]), minlength=4
    )
    assert (drawn / 2000 - next_distribution(logits)).abs().max() < 0.04 and drawn[3] == 0


def test_reading_keeps_what_two_texts_share():
    model, read = small(), []
    reading = Reading(model, room=4)
    step = model.step
    model.step = lambda numbers, *rest: read.append(numbers.size(1)) or step(numbers, *rest)
    for numbers, new in (
        ([1, 2, 3], 3),
        ([1, 2, 3, 4], 1),
        ([1, 2, 3, 4], 1),  # the same again
        ([1, 2], 1),  # the end taken back
        ([1, 2, 9, 4], 2),  # another turn
        ([5, 2, 9, 4], 4),  # another text
        ([5, 2, 9, 4, 6, 7], 6),  # more room is needed: read again
        ([5, 2, 9, 4, 6, 7, 8, 9], 2),
        (list(range(32)), 32),
    ):
        logits = reading(numbers)
        assert torch.allclose(logits, model(torch.tensor([numbers]))[0, -1], atol=1e-5)
        assert read.pop() == new and not read


# --- the map of names -------------------------------------------------------------------------------------------


def test_missing_left_over_and_wrongly_shaped_names_are_said():
    tensors, name = tensors_of(small()), "blk.1.attn_k.weight"
    for change, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"the weights lack {name}: they are not of"),
        (tensors | {"output.weight": torch.zeros(50, 24)}, "the weights have output.weight, which this model has no place"),
        (tensors | {name: torch.zeros(9, 24)}, r"expected shape \(40, 24\) for layers.1.attention.project.weight, got \(41, 24\)"),
        ({key: value for key, value in tensors.items() if "blk.2" not in key}, "lack blk.2.* this many layers"),
    ):  # fmt: skip
        model = small(seed=1)
        before = copy.deepcopy(model.state_dict())
        with pytest.raises(WeightsError, match=message):
            read_published(model, change)
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_the_sizes_come_from_the_file(file):
    assert LlamaSizes.of(file.fields) == LlamaSizes(49152, 576, 30, 9, 3, 1536, 8192, 100_000.0, file.fields["llama.attention.layer_norm_rms_epsilon"])  # fmt: skip
    assert abs(LlamaSizes.of(file.fields).eps - 1e-5) < 1e-11
    for change, message in (
        ({"general.architecture": "qwen2"}, "expected a file of a llama, got 'qwen2'"),
        ({"llama.rope.dimension_count": 32}, "expected all 64 components of a head to be turned, got 32"),
        ({"llama.rope.scaling.type": "yarn"}, "expected plain rotary positions, got llama.rope.scaling.type"),
    ):
        with pytest.raises(WeightsError, match=message):
            LlamaSizes.of(file.fields | change)
    with pytest.raises(WeightsError, match="with llama.block_count, llama.rope.freq_base; this one"):
        LlamaSizes.of({k: v for k, v in file.fields.items() if k not in ("llama.block_count", "llama.rope.freq_base")})


def test_a_damaged_or_missing_file_is_named(folder, tmp_path):
    with pytest.raises(WeightsError, match=f"expected {FILE} in .*make downloads"):
        load_smollm2(tmp_path)
    with (folder / FILE).open("rb") as whole:
        (tmp_path / FILE).write_bytes(whole.read(5_000_000))
    with pytest.raises(WeightsError, match="ends too early: .*fetch the box again"):
        load_smollm2(tmp_path)


# --- the real one -----------------------------------------------------------------------------------------------


def test_every_tensor_is_what_the_package_makes_of_it(file, published):
    assert set(file) == set(published)
    assert all(torch.equal(file[name], tensor) for name, tensor in published.items())


def test_paris_is_the_likeliest_piece_by_far(real):
    (first, chance), (_, second), *_ = real.next_pieces("The capital of France is")
    assert first == " Paris" and 0.75 < chance < 0.80 and second < 0.1


@torch.no_grad()
def test_the_logits_are_those_of_the_library(real, theirs):
    lengths = set()
    for text in PROMPTS:
        numbers = torch.tensor([real.splitter.encode(text)])
        ours, want = real.model(numbers), theirs(numbers).logits
        assert ours.shape == want.shape == (1, numbers.size(1), 49152)
        # At every place, against the largest logit there.
        assert ((ours - want).abs().amax(-1) / want.abs().amax(-1)).max() < 2e-5
        assert torch.equal(ours.argmax(-1), want.argmax(-1))
        lengths.add(numbers.size(1))
    assert min(lengths) == 1 and max(lengths) > 150


def test_it_answers_a_question_and_stops(real):
    text = "".join(real.stream(chat_text("What is the capital of Italy? One word."), 30, temperature=0))
    assert "Rome" in text and "<|im_end|>" not in text and len(real.splitter.encode(text)) < 30


def test_a_letter_of_several_pieces_comes_out_whole(real, monkeypatch):
    text = "a😀é日"
    numbers = real.splitter.encode(text)
    assert len(numbers) > len(text)
    monkeypatch.setattr(llama, "write", lambda *_, **__: iter(numbers))
    assert list(real.stream("any", 9)) == ["a", "😀", "é", "日"]
    monkeypatch.setattr(llama, "write", lambda *_, **__: iter(numbers[:2]))
    assert "".join(real.stream("any", 2)) == "a\N{REPLACEMENT CHARACTER}"  # the end of the text came too early


# --- splitting --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def their_tokenizer(file):
    """The library's own class for byte-level pieces; the published tokenizer cuts digits off first."""
    fields = file.fields
    from transformers import GPT2Tokenizer

    tokenizer = GPT2Tokenizer(
        vocab={piece: number for number, piece in enumerate(fields["tokenizer.ggml.tokens"])},
        merges=[tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]],
        unk_token="<|endoftext|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
    )
    tokenizer.backend_tokenizer.pre_tokenizer = Steps(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    )
    marks = [
        piece
        for piece, kind in zip(fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"], strict=True)
        if kind == gguf.TokenType.CONTROL
    ]
    tokenizer.add_special_tokens({"additional_special_tokens": marks}, replace_extra_special_tokens=False)
    tokenizer.chat_template = fields["tokenizer.chat_template"]
    return tokenizer


def test_the_pieces_are_those_of_the_library(real, their_tokenizer):
    assert len(real.splitter) == len(their_tokenizer) == 49152
    for text in TEXTS:
        numbers = real.splitter.encode(text)
        assert numbers == their_tokenizer(text)["input_ids"]
        assert real.splitter.decode(numbers) == text
        assert their_tokenizer.decode(numbers, clean_up_tokenization_spaces=False) == text
        assert "".join(real.splitter.pieces(numbers)) == text or any("\\x" in p for p in real.splitter.pieces(numbers))


def test_a_conversation_is_written_as_the_file_says(their_tokenizer):
    said = [("user", "Hi!"), ("assistant", "Hello?"), ("user", " Name 3\nrivers. ")]
    for turns in (said[:1], said):
        messages = [{"role": role, "content": text} for role, text in turns]
        texts = [text for _, text in turns]
        for system, before in ((SYSTEM, []), ("Be short.", [{"role": "system", "content": "Be short."}])):
            want = their_tokenizer.apply_chat_template(before + messages, tokenize=False, add_generation_prompt=True)
            assert chat_text(texts, system) == want
    assert chat_text("Hi!") == chat_text(["Hi!"])
    with pytest.raises(ValueError, match="odd number of turns, got 2"):
        chat_text(["Hi!", "Hello?"])


def test_a_splitter_of_another_kind_is_refused(file):
    for change, message in (
        ({"tokenizer.ggml.pre": "llama-bpe"}, "with tokenizer.ggml.pre 'smollm', got 'llama-bpe'"),
        ({"tokenizer.ggml.model": "llama"}, "with tokenizer.ggml.model 'gpt2', got 'llama'"),
    ):
        with pytest.raises(WeightsError, match=message):
            ByteSplitter.of(file.fields | change)
    with pytest.raises(WeightsError, match="lacks tokenizer.ggml.merges"):
        ByteSplitter.of({name: value for name, value in file.fields.items() if name != "tokenizer.ggml.merges"})


# --- speed ------------------------------------------------------------------------------------------------------


def test_it_writes_no_slower_than_the_library(real, theirs):
    """A loose bar, by the work of this process alone; the benchmark has the real one."""
    measured = compared(real, theirs, count=4, rounds=3, clock=time.process_time)
    assert measured["generate"] > 0.7 and measured["loop"] > 0.7 and measured["pieces_a_second"] > 0
