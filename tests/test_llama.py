"""SmolLM2 on the course's own blocks: each new block against another way to compute it, the whole against `transformers`."""

import copy
import re
import sys
import time
import unicodedata

import gguf
import pytest
import torch
import torch.nn.functional as F
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as Steps
from torch import nn

from tests.benchmarks.smollm2_speed import compared, their_llama
from utils.course.downloads import SMOLLM2, fetch
from utils.draw import next_word
from utils.models import llama
from utils.models.bert import WeightsError
from utils.models.gguf import GGUFFile
from utils.models.llama import (
    FILE,
    SYSTEM,
    ByteSplitter,
    GatedFeedForward,
    GroupedAttention,
    Llama,
    LlamaSizes,
    Reading,
    RMSNorm,
    byte_letters,
    chat_text,
    draw,
    load_smollm2,
    names_of,
    read_published,
    rms_norm,
    rotary_turns,
    turn,
    write,
)
from utils.models.multi_head import MultiHeadAttention
from utils.models.positions import rotate
from utils.models.sampling import generate, next_distribution
from utils.models.self_attention import causal_mask
from utils.models.transformer import LayerCache

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
    for fused in (True, False):
        norm = RMSNorm(shape[-1], eps=1e-3, fused=fused)
        norm.gain = want.weight
        assert torch.allclose(norm(x), want(x), atol=1e-6)


def test_the_norm_by_its_words(seeded):
    """The mean square is 1 whatever the size, a mean is left where it is, and eps keeps zero at zero."""
    x, ones = torch.randn(4, 64) + 2, torch.ones(64)
    for scale in (1e-2, 1.0, 1e4):
        assert torch.allclose(rms_norm(scale * x, ones, eps=0.0).square().mean(-1), torch.ones(4), atol=1e-5)
    assert rms_norm(x, ones).mean() > 0.5
    assert rms_norm(torch.zeros(2, 64), ones).equal(torch.zeros(2, 64))
    assert torch.allclose(rms_norm(torch.full((1, 64), 3.0), ones, eps=7.0), torch.full((1, 64), 0.75))


@pytest.mark.parametrize("base", [10_000.0, 100_000.0])
def test_turns_made_once_do_what_rotate_does(seeded, base):
    x, positions = torch.randn(2, 6, 3, 8), torch.tensor([0, 1, 2, 3, 500, 8191])
    turned = turn(x, rotary_turns(positions, 8, base))
    assert torch.allclose(turned, rotate(x.transpose(1, 2), positions, base).transpose(1, 2), atol=1e-6)
    for n, position in enumerate(positions.tolist()):
        for pair in range(4):
            angle = torch.tensor(position * base ** (-pair / 4), dtype=torch.float64)
            a, b = x[:, n, :, 2 * pair].double(), x[:, n, :, 2 * pair + 1].double()
            assert (turned[:, n, :, 2 * pair] - (a * angle.cos() - b * angle.sin())).abs().max() < 1e-5
            assert (turned[:, n, :, 2 * pair + 1] - (a * angle.sin() + b * angle.cos())).abs().max() < 1e-5


def test_the_gated_net_by_loops(seeded):
    net, x = GatedFeedForward(5, 7).double(), torch.randn(2, 3, 5, dtype=torch.float64)
    gates, units = net.widen.weight[:7], net.widen.weight[7:]
    for b in range(2):
        for n in range(3):
            hidden = []
            for unit in range(7):
                gate = sum(gates[unit, i] * x[b, n, i] for i in range(5))
                hidden.append(gate / (1 + (-gate).exp()) * sum(units[unit, i] * x[b, n, i] for i in range(5)))
            want = torch.stack([sum(net.narrow.weight[o, h] * hidden[h] for h in range(7)) for o in range(5)])
            assert torch.allclose(net(x)[b, n], want)
    assert {name for name, _ in net.named_parameters()} == {"widen.weight", "narrow.weight"}


def attention_by_loops(layer, x, positions, mask, base=10_000.0):
    """Head by head and token by token: output (b, m, dim) and weights (b, heads, m, n)."""
    (b, n, dim), heads, d = x.shape, layer.heads, layer.width
    query, key, value = layer.project.weight.split([heads * d, layer.key_heads * d, layer.key_heads * d])
    found, weights = torch.zeros(b, n, dim, dtype=x.dtype), torch.zeros(b, heads, n, n, dtype=x.dtype)
    for row in range(b):
        for head in range(heads):
            rows = slice(head * d, (head + 1) * d)
            shared = head * layer.key_heads // heads  # neighbouring heads share
            theirs = slice(shared * d, (shared + 1) * d)
            q = rotate(x[row] @ query[rows].T, positions, base)
            k = rotate(x[row] @ key[theirs].T, positions, base)
            v = x[row] @ value[theirs].T
            for i in range(n):
                places = [j for j in range(n) if mask[i, j]]
                chances = torch.stack([q[i] @ k[j] / d**0.5 for j in places]).softmax(0)
                for j, chance in zip(places, chances, strict=True):
                    weights[row, head, i, j] = chance
                    found[row, i, rows] += chance * v[j]
    return found @ layer.mix.weight.T, weights


@pytest.mark.parametrize(("heads", "key_heads"), [(1, 1), (4, 1), (4, 2), (6, 2), (6, 3), (3, 3)])
@torch.no_grad()
def test_grouped_heads_by_loops(seeded, heads, key_heads):
    layer, positions = GroupedAttention(4 * heads, heads, key_heads).double(), torch.arange(3, 8)
    x, turns = torch.randn(2, 5, 4 * heads, dtype=torch.float64), rotary_turns(positions, 4, dtype=torch.float64)
    for mask in (causal_mask(5), torch.ones(5, 5, dtype=torch.bool)):
        output, weights = layer(x, turns, mask, need_weights=True)
        want, looked = attention_by_loops(layer, x, positions, mask)
        assert torch.allclose(output, want) and torch.allclose(weights, looked)
        fused, none = layer(x, turns, mask)
        assert none is None and torch.allclose(fused, want)


@torch.no_grad()
def test_with_a_key_head_for_each_head_it_is_multi_head_attention(seeded):
    ours, theirs, x = GroupedAttention(12, 3), MultiHeadAttention(12, 3, bias=False), torch.randn(2, 5, 12)
    theirs.load_state_dict(ours.state_dict())
    want, looked = theirs(x, mask=causal_mask(5), need_weights=True)
    output, weights = ours(x, None, causal_mask(5), need_weights=True)
    assert torch.allclose(output, want, atol=1e-6) and torch.allclose(weights, looked, atol=1e-6)


def test_heads_that_cannot_share_are_refused():
    for heads, key_heads in ((9, 2), (4, 8), (4, 0)):
        with pytest.raises(ValueError, match=f"key heads that divide {heads} heads, got {key_heads}"):
            GroupedAttention(8 * heads, heads, key_heads)
    with pytest.raises(ValueError, match="expected 5 heads to divide dim 32"):
        GroupedAttention(32, 5)


def test_grouped_heads_have_fewer_parameters_and_a_smaller_cache():
    whole, grouped = GroupedAttention(576, 9), GroupedAttention(576, 9, 3)
    count = [sum(parameter.numel() for parameter in layer.parameters()) for layer in (whole, grouped)]
    assert count == [4 * 576 * 576, (2 + 2 / 3) * 576 * 576]


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
    theirs = their_llama(model.sizes, tensors_of(model), attn_implementation="eager")
    numbers = torch.randint(50, (3, 32))
    want = theirs(numbers, output_attentions=True)
    # Their positions are in single precision.
    assert (model(numbers) - want.logits).abs().max() < 1e-4 and want.logits.std() > 1
    for ours, other in zip(model.looks(numbers), want.attentions, strict=True):
        assert (ours - other).abs().max() < 1e-5


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
def test_only_differences_of_positions_count():
    """Read from the start or behind others that nobody may look at: the same vectors."""
    model, x = small(), torch.randn(1, 6, 24)
    layer = model.layers[0].attention
    first, _ = layer(x, rotary_turns(torch.arange(6), 4, 500.0), causal_mask(6))
    later, _ = layer(x, rotary_turns(torch.arange(20, 26), 4, 500.0), causal_mask(6))
    unturned, _ = layer(x, None, causal_mask(6))
    assert torch.allclose(first, later, atol=1e-5) and not torch.allclose(first, unturned, atol=1e-2)


@torch.no_grad()
def test_the_cache_gives_what_reading_all_at_once_gives_however_it_is_cut():
    model, numbers = small(), torch.randint(50, (2, 12))
    whole, looked = model(numbers), model.looks(numbers)
    for cuts in ([12], [1] * 12, [5, 7], [3, 1, 1, 4, 3]):
        cache, start = model.remember(12, texts=2), 0
        assert all(type(layer) is LayerCache for layer in cache)
        for new in cuts:
            logits, weights = model.step(numbers[:, start : start + new], cache, need_weights=True)
            start += new
            assert torch.allclose(logits, whole[:, start - 1], atol=1e-5)
            for ours, other in zip(weights, looked, strict=True):
                assert torch.allclose(ours, other[:, :, start - new : start, :start], atol=1e-6)
        with pytest.raises(ValueError, match="at most 12 words, got 13"):
            model.step(numbers[:, :1], cache)


@torch.no_grad()
def test_padding_behind_a_text_changes_nothing():
    model, numbers = small(), torch.randint(50, (1, 7))
    batch = torch.cat([F.pad(numbers, (0, 4), value=0), torch.randint(50, (1, 11))])
    assert torch.allclose(model(batch)[0, :7], model(numbers)[0], atol=1e-5)


def test_a_text_that_is_too_long_is_refused():
    model = small()
    assert model(torch.zeros(1, 32, dtype=torch.long)).shape == (1, 32, 50)
    with pytest.raises(ValueError, match="at most 32 pieces, got 33; cut the text"):
        model(torch.zeros(1, 33, dtype=torch.long))
    cache = model.remember(40)
    with torch.no_grad():
        model.step(torch.zeros(1, 30, dtype=torch.long), cache)
        with pytest.raises(ValueError, match="at most 32 pieces, got 34"):
            model.step(torch.zeros(1, 4, dtype=torch.long), cache)
    with pytest.raises(ValueError, match="at most 32 pieces, got 30 and 3 to come"):
        write(model, [1] * 30, 3)  # said at once, not at the first piece
    with pytest.raises(ValueError, match="at most 32 pieces, got 33"):
        Reading(model)([1] * 33)
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


def test_a_reading_that_was_stopped_half_way_does_no_harm():
    model = small()
    reading, forward = Reading(model), model.layers[1].forward
    reading([1, 2, 3])

    def stopped(*_):
        raise KeyboardInterrupt

    model.layers[1].forward = stopped
    with pytest.raises(KeyboardInterrupt):
        reading([1, 2, 7, 8])
    model.layers[1].forward = forward
    for numbers in ([1, 2, 3, 4], [1, 2, 7, 8]):
        assert torch.allclose(reading(numbers), model(torch.tensor([numbers]))[0, -1], atol=1e-5)


# --- the map of names -------------------------------------------------------------------------------------------


def test_every_parameter_is_named_once(file):
    model = small()
    names = dict(names_of(SMALL.layers))
    assert set(names) == {name for name, _ in model.named_parameters()}
    assert {name for several in names_of(30) for name in several[1]} == set(file)
    assert sum(len(theirs) for _, theirs in names_of(30)) == len(file) == 272


def test_missing_left_over_and_wrongly_shaped_names_are_said():
    tensors, name = tensors_of(small()), "blk.1.attn_k.weight"
    for change, message in (
        ({key: value for key, value in tensors.items() if key != name}, f"the weights lack {name}: they are not of"),
        (tensors | {"output.weight": torch.zeros(50, 24)}, "the weights have output.weight, which this model has no place"),
        (tensors | {name: torch.zeros(9, 24)}, r"expected shape \(40, 24\) for layers.1.attention.project.weight, got \(41, 24\)"),
        ({f"model.{key}": value for key, value in tensors.items()}, "lack blk.0.attn_k.weight, .* and 26 more"),
        ({key: value for key, value in tensors.items() if "blk.2" not in key}, "lack blk.2.* this many layers"),
    ):  # fmt: skip
        model = small(seed=1)
        before = copy.deepcopy(model.state_dict())
        with pytest.raises(WeightsError, match=message):
            read_published(model, change)
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@torch.no_grad()
def test_what_was_cut_apart_is_put_together_again():
    model, other = small(), small(seed=1)
    numbers = torch.randint(50, (2, 9))
    assert not torch.allclose(other(numbers), model(numbers), atol=1e-2)
    assert torch.equal(read_published(other, tensors_of(model))(numbers), model(numbers))
    assert all(parameter.requires_grad for parameter in other.parameters())


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


def test_all_published_numbers_are_in_the_model(real, published):
    assert sum(parameter.numel() for parameter in real.model.parameters()) == 134_515_008
    assert sum(tensor.numel() for tensor in published.values()) == 134_515_008
    assert not real.model.training


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


@torch.no_grad()
def test_the_weights_are_those_of_the_library(real, theirs):
    numbers = torch.tensor([real.splitter.encode("When Mary and John went to the shop, John gave a drink to")])
    theirs.set_attn_implementation("eager")
    want = theirs(numbers, output_attentions=True).attentions
    theirs.set_attn_implementation("sdpa")
    looked = real.looks("When Mary and John went to the shop, John gave a drink to")
    assert looked.pieces[:4] == ["When", " Mary", " and", " John"] and len(looked.pieces) == numbers.size(1)
    assert len(looked.weights) == len(want) == 30
    for ours, other in zip(looked.weights, want, strict=True):
        assert ours.shape == (9, numbers.size(1), numbers.size(1))
        assert (ours - other[0]).abs().max() < 1e-4


def test_cached_writing_of_the_real_one_is_uncached_writing(real):
    for text, dials in (("The", {"temperature": 0}), (PROMPTS[0], {"temperature": 0.8, "top_k": 40, "top_p": 0.95})):
        numbers = real.splitter.encode(text)
        ours = list(write(real.model, numbers, 6, generator=torch.Generator().manual_seed(3), **dials))
        want = generate(real.model, numbers, 6, generator=torch.Generator().manual_seed(3), **dials)
        assert numbers + ours == want.tolist()


def test_it_answers_a_question_and_stops(real):
    text = real.generate(chat_text("What is the capital of Italy? One word."), 30, temperature=0)
    assert "Rome" in text and "<|im_end|>" not in text and len(real.splitter.encode(text)) < 30


def test_a_seed_writes_the_same_text_and_another_one_another(real):
    dials = {"temperature": 1.0, "top_p": 0.95}
    one, same, other = (real.generate("Once upon a time", 5, seed=seed, **dials) for seed in (1, 1, 2))
    assert one == same != other


def test_a_letter_of_several_pieces_comes_out_whole(real, monkeypatch):
    text = "a😀é日"
    numbers = real.splitter.encode(text)
    assert len(numbers) > len(text)
    monkeypatch.setattr(llama, "write", lambda *_, **__: iter(numbers))
    assert list(real.stream("any", 9)) == ["a", "😀", "é", "日"]
    monkeypatch.setattr(llama, "write", lambda *_, **__: iter(numbers[:2]))
    assert real.generate("any", 2) == "a\N{REPLACEMENT CHARACTER}"  # the end of the text came too early


def test_the_widget_writes_what_the_model_writes(real):
    splitter = real.splitter
    shown = next_word(
        real.responder(),
        splitter.pieces(range(len(splitter))),
        "The capital of France is",
        temperature=0.0,
        stop=real.stop,
        text_of=lambda beginning, written: beginning + splitter.decode(written),
        distribution=next_distribution,
    )
    shown.write(3)
    assert shown.text == "The capital of France is" + real.generate("The capital of France is", 3, temperature=0)
    shown.take_back()
    shown.begin("The capital of Italy is")
    shown.write(1)
    assert shown.text == "The capital of Italy is Rome"
    with pytest.raises(ValueError, match="got an empty one"):
        real.responder()("", [])


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


def test_there_are_enough_texts():
    assert len(set(TEXTS)) == len(TEXTS) >= 30


def test_the_pieces_are_those_of_the_library(real, their_tokenizer):
    assert len(real.splitter) == len(their_tokenizer) == 49152
    for text in TEXTS:
        numbers = real.splitter.encode(text)
        assert numbers == their_tokenizer(text)["input_ids"]
        assert real.splitter.decode(numbers) == text
        assert their_tokenizer.decode(numbers, clean_up_tokenization_spaces=False) == text
        assert "".join(real.splitter.pieces(numbers)) == text or any("\\x" in p for p in real.splitter.pieces(numbers))


def letters_of(kind):
    """A class for a regular expression: all letters whose Unicode category begins so, as ranges."""
    ranges, start = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code))[0] == kind
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(ranges)


def split_by_hand(fields):
    """A function from text to numbers by the definition of the format: marks, digits, words, bytes, and then merges in order."""
    letter, digit = letters_of("L"), letters_of("N")
    space = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    digits = re.compile(f"([{digit}])")
    words = re.compile(
        f"'s|'t|'re|'ve|'m|'ll|'d| ?[{letter}]+| ?[^{space}{letter}{digit}]+|[{space}]+(?![^{space}])|[{space}]+"
    )
    tokens = fields["tokenizer.ggml.tokens"]
    numbers = {piece: number for number, piece in enumerate(tokens)}
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(fields["tokenizer.ggml.merges"])}
    marks = [piece for piece, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    mark = re.compile(f"({'|'.join(map(re.escape, sorted(marks, key=len, reverse=True)))})")
    letters = {byte: letter for letter, byte in byte_letters().items()}

    def merged(word):
        pieces = [letters[byte] for byte in word.encode()]
        while pairs := [pair for pair in zip(pieces, pieces[1:], strict=False) if pair in ranks]:
            best, joined = min(pairs, key=ranks.__getitem__), []
            while pieces:
                take = 2 if tuple(pieces[:2]) == best else 1
                joined.append("".join(pieces[:take]))
                pieces = pieces[take:]
            pieces = joined
        return pieces

    def split(text):
        found = []
        for part in mark.split(text):
            if part in marks:
                found.append(part)
                continue
            for stretch in digits.split(part):
                for word in [stretch] if digits.fullmatch(stretch) else words.findall(stretch):
                    found += merged(word)
        return [numbers[piece] for piece in found]

    return split


def test_the_pieces_are_those_of_the_format_by_hand(real, file):
    split = split_by_hand(file.fields)
    for text in TEXTS:
        assert real.splitter.encode(text) == split(text), text


def test_digits_stand_alone_and_words_carry_their_space(real):
    pieces = real.splitter.pieces(real.splitter.encode("The  year 1984 was, it's said"))
    assert pieces == ["The", " ", " year", " ", "1", "9", "8", "4", " was", ",", " it", "'s", " said"]


def test_every_byte_has_a_letter_and_every_piece_its_bytes(real):
    letters = byte_letters()
    assert sorted(letters.values()) == list(range(256)) and set(letters) == set(ByteLevel.alphabet())
    assert real.splitter.bytes[1] == b"<|im_start|>" and len(real.splitter.bytes) == 49152
    missing = set(range(256)) - {piece[0] for piece in real.splitter.bytes if len(piece) == 1}
    # Control characters; what UTF-8 never has; and what the letters of planes that nobody has filled begin with.
    assert missing == {4, 6, 19, 20, 22, 29} | {0xC0, 0xC1, *range(0xF5, 0x100)} | {0xF1, 0xF2}
    assert real.splitter.encode("a\x04b") == [*real.splitter.encode("a"), *real.splitter.encode("b")]


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
