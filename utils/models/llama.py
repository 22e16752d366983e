"""A Llama out of the course's own parts, and the published weights of a real one, SmolLM2 with 135 million parameters.

    real = load_smollm2(folder)                             # the folder with the published file
    real.next_pieces("The capital of France is")            # [(" Paris", 0.77), ...]
    for text in real.stream("Once upon a time", 40, temperature=0.7, top_p=0.9): print(text, end="")

A decoder without a source: pre-norm blocks behind a causal mask, as in lessons 04 to 07, with four changes. The norm is
`RMSNorm`, positions are turns of queries and keys (`rotate`, lesson 04), the feed-forward net has a gate, and several heads
share keys and values, which makes the cache of lesson 06 a third as large. Nothing has a bias, and the table of pieces is the
output layer too.

b texts, n pieces, d the width of a head. The model was trained on texts one behind the other, so nothing marks their start.
"""

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLetters
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as Steps
from torch import Tensor, nn

from utils.models.attention import attention
from utils.models.bert import WeightsError
from utils.models.gguf import GGUFError, GGUFFile
from utils.models.multi_head import head_width
from utils.models.positions import BASE, rotate
from utils.models.sampling import next_distribution
from utils.models.self_attention import causal_mask
from utils.models.transformer import LayerCache

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


# --- four changes -----------------------------------------------------------------------------------------------


def rms_norm(x: Tensor, gain: Tensor, eps: float = 1e-5) -> Tensor:
    """Each token of x (..., dim) over the root of its mean square, times `gain` (dim,): `layer_norm` without mean and shift."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * gain


class RMSNorm(nn.Module):
    """`rms_norm` with a learned gain, by torch's own kernel."""

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class GatedFeedForward(nn.Module):
    """x (..., dim) to (..., dim): each hidden unit is multiplied by a gate of its own, silu(gate(x)) * up(x), without biases.

    The rows of `widen` are two blocks of `hidden`: gates, then units. Three matrices in place of two, so at the same number
    of parameters `hidden` is two thirds of what it would be without gates.
    """

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.widen = nn.Linear(dim, 2 * hidden, bias=False)
        self.narrow = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, unit = self.widen(x).chunk(2, -1)
        return self.narrow(F.silu(gate) * unit)


def rotary_turns(positions: Tensor, width: int, base: float = BASE, dtype: torch.dtype = torch.float32) -> Tensor:
    """(n, width / 2) complex: what `rotate` multiplies each pair by, for positions (n,). Made once, good for all layers."""
    ahead = torch.tensor([1.0, 0.0], dtype=dtype).repeat(width // 2)  # a pair (1, 0), turned, is the turn itself
    return torch.view_as_complex(rotate(ahead.expand(len(positions), -1), positions, base).unflatten(-1, (-1, 2)))


def turn(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the neighbouring pairs of each head of x (b, n, heads, d); turns (n, d / 2) from `rotary_turns`."""
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns.unsqueeze(-2)).flatten(-2)


class GroupedAttention(nn.Module):
    """Attention in `heads` heads of which heads / key_heads neighbours share keys and values; no biases.

    The rows of `project` are queries, keys, values; inside, head after head. With key_heads = heads it is `MultiHeadAttention`.
    """

    def __init__(self, dim: int, heads: int, key_heads: int | None = None):
        super().__init__()
        self.heads, self.key_heads = heads, heads if key_heads is None else key_heads
        self.width = head_width(dim, heads)
        self.project = nn.Linear(dim, (heads + 2 * self.key_heads) * self.width, bias=False)
        self.mix = nn.Linear(dim, dim, bias=False)

    def forward(
        self,
        x: Tensor,
        turns: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        cache: LayerCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """x (b, m, dim) to output (b, m, dim) and weights (b, heads, m, n), None if not needed.

        turns (m, d / 2): the positions, None for none. mask (m, n) bool, True = may look. cache: x holds the new pieces only,
        and the mask has a column for every piece so far.
        """
        group, looking = self.heads // self.key_heads, self.heads + self.key_heads
        parts = self.project(x).unflatten(-1, (-1, self.width))  # (b, m, heads + 2 key_heads, d)
        turned, value = parts[:, :, :looking], parts[:, :, looking:].transpose(1, 2)
        if turns is not None:
            turned = turn(turned, turns)
        query, key = turned[:, :, : self.heads], turned[:, :, self.heads :].transpose(1, 2)
        if cache is not None:
            key, value = cache.append(key, value)
        # Heads that share keys stand one below the other as more queries: no key is copied, and attention is what it was.
        query = query.unflatten(2, (-1, group)).permute(0, 2, 3, 1, 4).flatten(2, 3)  # (b, key_heads, group m, d)
        if mask is not None:
            mask = mask.repeat(group, 1)
        found, weights = attention(query, key, value, mask, need_weights=need_weights)
        found = found.unflatten(2, (group, -1)).permute(0, 3, 1, 2, 4).flatten(2)  # (b, m, dim)
        return self.mix(found), weights.unflatten(2, (group, -1)).flatten(1, 2) if need_weights else None


# --- the model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LlamaSizes:
    """The sizes of a Llama; `of` reads them from the fields of a GGUF file."""

    words: int
    dim: int
    layers: int
    heads: int
    key_heads: int
    hidden: int
    positions: int = 8192
    base: float = BASE
    eps: float = 1e-5

    @classmethod
    def of(cls, fields: Mapping) -> "LlamaSizes":
        names = {
            "words": "vocab_size",
            "dim": "embedding_length",
            "layers": "block_count",
            "heads": "attention.head_count",
            "key_heads": "attention.head_count_kv",
            "hidden": "feed_forward_length",
            "positions": "context_length",
            "base": "rope.freq_base",
            "eps": "attention.layer_norm_rms_epsilon",
        }
        if (kind := fields.get("general.architecture")) != "llama":
            raise WeightsError(f"expected a file of a llama, got {kind!r}: this model has no other layout")
        if missing := [name for name in names.values() if f"llama.{name}" not in fields]:
            raise WeightsError(f"expected a llama's file with llama.{', llama.'.join(missing)}; this one does not say")
        sizes = cls(**{ours: fields[f"llama.{theirs}"] for ours, theirs in names.items()})
        width = head_width(sizes.dim, sizes.heads)
        if (turned := fields.get("llama.rope.dimension_count", width)) != width:
            raise WeightsError(f"expected all {width} components of a head to be turned, got {turned}")
        if stretched := [name for name in fields if name.startswith("llama.rope.scaling")]:
            raise WeightsError(f"expected plain rotary positions, got {', '.join(stretched)}")
        return sizes


class LlamaLayer(nn.Module):
    """Look back, then think: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, dim: int, heads: int, key_heads: int | None, hidden: int, eps: float = 1e-5):
        super().__init__()
        self.attention_norm = RMSNorm(dim, eps)
        self.attention = GroupedAttention(dim, heads, key_heads)
        self.feed_forward_norm = RMSNorm(dim, eps)
        self.feed_forward = GatedFeedForward(dim, hidden)

    def forward(
        self,
        x: Tensor,
        turns: Tensor | None = None,
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """x (b, m, dim) to x (b, m, dim); arguments as in `GroupedAttention`."""
        found, _ = self.attention(self.attention_norm(x), turns, mask, cache=cache)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x))


class Llama(nn.Module):
    """A causal language model: pieces (b, n) to the logits of the piece after each, (b, n, words)."""

    def __init__(self, sizes: LlamaSizes):
        super().__init__()
        self.sizes = sizes
        self.table = nn.Embedding(sizes.words, sizes.dim)
        nn.init.normal_(self.table.weight, std=sizes.dim**-0.5)
        self.layers = nn.ModuleList(
            LlamaLayer(sizes.dim, sizes.heads, sizes.key_heads, sizes.hidden, sizes.eps) for _ in range(sizes.layers)
        )
        self.final_norm = RMSNorm(sizes.dim, sizes.eps)

    def forward(self, numbers: Tensor) -> Tensor:
        """numbers (b, n) to logits (b, n, words). Padding behind a text needs no mask: only padding sees it."""
        return self.scores(self.vectors(numbers))

    def vectors(self, numbers: Tensor) -> Tensor:
        """numbers (b, n) to (b, n, dim): what the blocks make of each piece."""
        return self._read(numbers)

    def scores(self, vectors: Tensor) -> Tensor:
        """vectors (..., dim) to logits (..., words), by the table of pieces."""
        return F.linear(vectors, self.table.weight)

    def remember(self, room: int, texts: int = 1) -> list[LayerCache]:
        """An empty cache for each layer: lesson 06's, for texts of up to `room` pieces that have no source to look at."""
        sizes = self.sizes
        nothing = self.table.weight.new_empty(texts, sizes.key_heads, 0, head_width(sizes.dim, sizes.heads))
        return [LayerCache(nothing, room) for _ in self.layers]

    def step(self, numbers: Tensor, cache: list[LayerCache]) -> Tensor:
        """New pieces (b, m) to the logits (b, words) of the one behind them.

        The pieces before them are in the cache, and so are these afterwards.
        """
        return self.scores(self._read(numbers, cache)[:, -1])

    def _read(self, numbers: Tensor, cache: list[LayerCache] | None = None) -> Tensor:
        start, m = cache[0].length if cache else 0, numbers.size(-1)
        if start + m > self.sizes.positions:
            raise ValueError(f"expected at most {self.sizes.positions} pieces, got {start + m}; cut the text")
        x = self.table(numbers)
        width = head_width(self.sizes.dim, self.sizes.heads)
        turns = rotary_turns(torch.arange(start, start + m), width, self.sizes.base, x.dtype).to(x.device)
        # The newest piece sees all there is: it needs no mask.
        mask = causal_mask(start + m)[start:].to(x.device) if m > 1 else None
        for number, layer in enumerate(self.layers):
            x = layer(x, turns, mask, cache[number] if cache else None)
        return self.final_norm(x)


# --- the published weights --------------------------------------------------------------------------------------

# Our name, and the published ones. Where there are several, their rows stand one below the other in ours.
NAMES = {"table.weight": ("token_embd.weight",), "final_norm.gain": ("output_norm.weight",)}
# Of layer {n}, after "layers.{n}." here and "blk.{n}." there. The rows of queries and keys are in the order of GGUF: the two
# components that turn together are neighbours, as in `rotate`. (Elsewhere they stand half a head apart.)
LAYER_NAMES = {
    "attention_norm.gain": ("attn_norm.weight",),
    "attention.project.weight": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "attention.mix.weight": ("attn_output.weight",),
    "feed_forward_norm.gain": ("ffn_norm.weight",),
    "feed_forward.widen.weight": ("ffn_gate.weight", "ffn_up.weight"),
    "feed_forward.narrow.weight": ("ffn_down.weight",),
}


def names_of(layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each of our names with the published names that it is made of."""
    yield from NAMES.items()
    for n in range(layers):
        for ours, theirs in LAYER_NAMES.items():
            yield f"layers.{n}.{ours}", tuple(f"blk.{n}.{name}" for name in theirs)


def read_published(model: Llama, published: Mapping[str, Tensor]) -> Llama:
    """Make the published tensors the model's own; returns the model. All are looked at before the first is taken."""
    names = dict(names_of(model.sizes.layers))
    _expect_names({name for theirs in names.values() for name in theirs}, set(published))
    filled = {}
    for ours, parameter in model.named_parameters():
        parts = [published[name] for name in names[ours]]
        filled[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
        if filled[ours].shape != parameter.shape:
            raise WeightsError(
                f"expected shape {tuple(parameter.shape)} for {ours}, got {tuple(filled[ours].shape)} "
                f"from {', '.join(names[ours])}: the weights are of a model of other sizes"
            )
    model.load_state_dict(filled, assign=True)
    return model


def _expect_names(wanted: set[str], found: set[str]) -> None:
    for names, message in (
        (wanted - found, "the weights lack {}: they are not of a llama with this many layers"),
        (found - wanted, "the weights have {}, which this model has no place for"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise WeightsError(message.format(", ".join(sorted(names)[:3]) + more))


# --- text to pieces and back ------------------------------------------------------------------------------------

CONTROL = 3  # the kind of a piece that is a mark and no text
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def byte_letters() -> dict[str, int]:
    """The letter that stands for each byte in byte-level pieces: itself where it can be seen, else one from 256 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(seen)]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(others)}


class ByteSplitter:
    """The splitter that belongs to the published weights: byte-pair encoding over bytes, so that a letter it never met has pieces.

    Digits stand alone; a word carries the space before it. Marks such as <|im_end|> are read as marks wherever they stand.
    Six bytes of the control characters and those that no text has are no pieces: they are passed over.
    """

    def __init__(self, pieces: Sequence[str], merges: Sequence[tuple[str, str]], marks: Iterable[str] = ()):
        """pieces: in the order of their numbers, in `byte_letters`, but for `marks`, which are pieces as they are."""
        self._pieces = list(pieces)
        self.marks = {mark: self._pieces.index(mark) for mark in marks}
        self.tokenizer = Tokenizer(BPE({piece: number for number, piece in enumerate(pieces)}, list(merges)))
        self.tokenizer.pre_tokenizer = Steps([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        self.tokenizer.decoder = ByteLetters()
        self.tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in self.marks])

    @classmethod
    def of(cls, fields: Mapping) -> "ByteSplitter":
        """The splitter that a GGUF file holds."""
        for name, only in {"model": "gpt2", "pre": "smollm"}.items():
            if (found := fields.get(f"tokenizer.ggml.{name}")) != only:
                raise WeightsError(f"expected a splitter with tokenizer.ggml.{name} {only!r}, got {found!r}")
        names = [f"tokenizer.ggml.{name}" for name in ("tokens", "merges", "token_type")]
        if missing := [name for name in names if name not in fields]:
            raise WeightsError(f"expected a file that holds its splitter; this one lacks {', '.join(missing)}")
        pieces, merges, kinds = (fields[name] for name in names)
        marks = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind == CONTROL]
        return cls(pieces, [tuple(merge.split(" ")) for merge in merges], marks)

    def __len__(self) -> int:
        return len(self._pieces)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of the pieces, marks included. A letter of which some bytes are missing becomes \N{REPLACEMENT CHARACTER}."""
        return b"".join(self.bytes[number] for number in numbers).decode("utf-8", "replace")

    def pieces(self, numbers: Iterable[int]) -> list[str]:
        """The text of each piece; bytes that are no letter by themselves as \\xe2."""
        return [self.bytes[number].decode("utf-8", "backslashreplace") for number in numbers]

    @cached_property
    def bytes(self) -> list[bytes]:
        """What each piece stands for."""
        letters = byte_letters()
        return [
            piece.encode() if piece in self.marks else bytes(letters[letter] for letter in piece)
            for piece in self._pieces
        ]


def chat_text(turns: str | Sequence[str], system: str = SYSTEM) -> str:
    """What the model reads in a conversation: turns of user and assistant by turns, the user's first and last, and its own to come."""
    turns = [turns] if isinstance(turns, str) else list(turns)
    if len(turns) % 2 == 0:
        raise ValueError(f"expected the user to speak first and last, so an odd number of turns, got {len(turns)}")
    said = [("system", system), *((("user", "assistant")[place % 2], turn) for place, turn in enumerate(turns))]
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in said) + "<|im_start|>assistant\n"


# --- writing ----------------------------------------------------------------------------------------------------


def write(
    model: Llama,
    numbers: Sequence[int],
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    stop: Iterable[int] = (),
) -> Iterator[int]:
    """Go on from `numbers` with the cache: up to `count` new pieces, one by one as they are drawn.

    What `generate` of lesson 07 writes, but each piece is read once. stop: numbers that end the text; they are not given out.
    """
    numbers, stop = list(numbers), set(stop)
    if not numbers:
        raise ValueError("expected at least one piece to go on from, got none")
    if len(numbers) + count > model.sizes.positions:
        raise ValueError(
            f"expected at most {model.sizes.positions} pieces, got {len(numbers)} and {count} to come; "
            "cut the text or ask for less"
        )

    @torch.inference_mode()  # as no_grad, and a little less to keep account of at each call
    def pieces() -> Iterator[int]:
        cache, new = model.remember(len(numbers) + count), numbers
        for _ in range(count):
            logits = model.step(torch.tensor([new]), cache)
            number = draw(logits[0], temperature, top_k, top_p, generator)
            if number in stop:
                return
            yield number
            new = [number]

    return pieces()


def draw(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> int:
    """One number, drawn from logits (words,) as `next_distribution` says."""
    if temperature == 0:
        return int(logits.argmax())  # the same, without sorting all pieces
    return int(torch.multinomial(next_distribution(logits, temperature, top_k, top_p), 1, generator=generator))


class Reading:
    """Logits of the piece behind any text, quickly if it begins like the one before: the cache keeps what they share.

    So a text may grow, lose its end or take another turn, and only what is new is read.
    """

    def __init__(self, model: Llama, room: int = 256):
        self.model, self.room = model, room
        self.numbers: list[int] = []
        self._cache = model.remember(room)

    @torch.no_grad()
    def __call__(self, numbers: Sequence[int]) -> Tensor:
        """numbers, at least one, to logits (words,)."""
        numbers = list(numbers)
        if not numbers:
            raise ValueError("expected at least one piece to go on from, got none")
        if len(numbers) > self.room:
            self.room = min(max(2 * self.room, len(numbers)), self.model.sizes.positions)
            self.numbers, self._cache = [], self.model.remember(self.room)
        shared = _shared(self.numbers, numbers[:-1])  # the last one is read again if need be: its logits were not kept
        self.numbers = numbers[:shared]  # true also if the reading below is stopped half way
        for layer in self._cache:
            layer.length = shared
        logits = self.model.step(torch.tensor([numbers[shared:]]), self._cache)
        self.numbers = numbers
        return logits[0]


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many numbers the two begin with alike."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


@dataclass(frozen=True)
class PretrainedDecoder:
    """A real language model: `model`, and `splitter`, which makes its numbers from text."""

    model: Llama
    splitter: ByteSplitter

    @property
    def stop(self) -> set[int]:
        """The numbers that end a text: of a document, and of one's turn in a conversation."""
        return {self.splitter.marks[mark] for mark in ("<|endoftext|>", "<|im_end|>")}

    @torch.no_grad()
    def next_pieces(self, text: str, many: int = 8) -> list[tuple[str, float]]:
        """The likeliest pieces behind the text with their probabilities."""
        x = self.model.vectors(torch.tensor([self._numbers(text)]))[0, -1]
        chances, numbers = self.model.scores(x).softmax(-1).topk(many)
        return list(zip(self.splitter.pieces(numbers.tolist()), chances.tolist(), strict=True))

    def stream(
        self,
        text: str,
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Iterator[str]:
        """What follows the text, up to `count` pieces, as it is written; a letter of several pieces comes out whole."""
        numbers = write(
            self.model,
            self._numbers(text),
            count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            generator=torch.Generator().manual_seed(seed),
            stop=self.stop,
        )
        return self._texts(numbers)

    def responder(self) -> Callable[[str, Sequence[int]], Tensor]:
        """A function of a beginning and the numbers written behind it that gives the next logits (words,), with a cache of its own."""
        reading = Reading(self.model)

        def respond(beginning: str, written: Sequence[int]) -> Tensor:
            return reading([*self._numbers(beginning), *written])

        return respond

    def _numbers(self, text: str) -> list[int]:
        if not text:
            raise ValueError("expected a text to go on from, got an empty one")
        return self.splitter.encode(text)

    def _texts(self, numbers: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number in numbers:
            if text := decoder.decode(self.splitter.bytes[number]):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text


def load_smollm2(folder: Path | str) -> PretrainedDecoder:
    """The published model of a folder with its GGUF file, in float32 and evaluation mode, ready to be used."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise WeightsError(f"expected {FILE} in {folder}; fetch it again with `make downloads`")
    try:
        file = GGUFFile(path)
    except GGUFError as problem:
        raise WeightsError(f"{problem}: fetch the box again") from problem
    with torch.device("meta"):  # no numbers yet: the published ones are taken as they are
        model = Llama(LlamaSizes.of(file.fields))
    return PretrainedDecoder(read_published(model, file).eval(), ByteSplitter.of(file.fields))
