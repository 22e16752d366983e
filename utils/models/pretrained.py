"""Published models: a configuration, a mapping of weight names, and the tokenizer that belongs to the weights.

    minilm = load_minilm(folder)            # all-MiniLM-L6-v2, a BERT: config.json, model.safetensors, tokenizer.json
    minilm.sentence_embeddings(["A cat sleeps.", "A kitten naps."])         # (2, 384), of norm one
    smollm2 = load_smollm2(folder)          # SmolLM2-135M-Instruct, a Llama, quantized to four bits in a GGUF file
    for text in smollm2.stream("Once upon a time", 40, temperature=0.7, top_p=0.9): print(text, end="")

BERT (Devlin et al., 2019, arXiv:1810.04805) is an `EncoderModel` with post-norm, learned positions and segment embeddings. Llama
(arXiv:2302.13971) is a `CausalLM` with RMSNorm, RoPE, SwiGLU and grouped-query attention, without biases.
"""

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from torch import Tensor, nn

from utils.models.attention import head_width
from utils.models.decoding import PrefixCache, generate
from utils.models.gguf import GGUFError, GGUFFile
from utils.models.language_models import CausalLM, EncoderConfig, EncoderModel, mean_pooling

MINILM_MAX_LEN = 256  # tokens, [CLS] and [SEP] included: the length MiniLM was made for; it has 512 positions
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class WeightsError(ValueError):
    """Published files that do not fit the model; the message says what is missing, unexpected or of another shape."""


# --- weights ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightMapping:
    """Our parameter names, and the published ones. Several published matrices are concatenated row-wise into one of ours.

    `layer` maps the names inside layer {n}, after the two prefixes. `unused` are published tensors that we do not need.
    """

    shared: Mapping[str, tuple[str, ...]]
    layer: Mapping[str, tuple[str, ...]]
    prefix: tuple[str, str]
    unused: frozenset[str] = frozenset()

    def names(self, num_layers: int) -> dict[str, tuple[str, ...]]:
        """Each of our names with the published names that it is made of."""
        names = dict(self.shared)
        for n in range(num_layers):
            ours, theirs = (prefix.format(n=n) for prefix in self.prefix)
            names |= {ours + name: tuple(theirs + part for part in parts) for name, parts in self.layer.items()}
        return names

    def load(self, model: EncoderModel, published: Mapping[str, Tensor]) -> EncoderModel:
        """Make the published tensors the parameters of the model; all are checked before the first is taken."""
        names = self.names(model.config.num_layers)
        wanted, found = {name for parts in names.values() for name in parts}, set(published)
        for odd, message in (
            (wanted - found, "the weights lack {}: they belong to a model of another kind or depth"),
            (found - wanted - self.unused, "the weights have {}, which this model does not have"),
        ):
            if odd:
                more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
                raise WeightsError(message.format(", ".join(sorted(odd)[:3]) + more))
        parameters, state = dict(model.named_parameters()), {}
        for name, parts in names.items():
            state[name] = torch.cat([published[part] for part in parts]) if len(parts) > 1 else published[parts[0]]
            if state[name].shape != parameters[name].shape:
                raise WeightsError(
                    f"expected shape {tuple(parameters[name].shape)} for {name}, got {tuple(state[name].shape)} "
                    f"from {', '.join(parts)}: the weights belong to a model of other sizes"
                )
        if isinstance(model, CausalLM):  # tied
            state["lm_head.weight"] = state["embedding.token_embedding.weight"]
        model.load_state_dict(state, assign=True)
        if isinstance(model, CausalLM):
            model.lm_head.weight = model.embedding.token_embedding.weight
        return model


def _weight_and_bias(names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {f"{ours}.{kind}": tuple(f"{name}.{kind}" for name in parts) for ours, parts in names.items() for kind in ("weight", "bias")}  # fmt: skip


BERT = WeightMapping(
    shared={
        "embedding.token_embedding.weight": ("embeddings.word_embeddings.weight",),
        "embedding.position_embedding.weight": ("embeddings.position_embeddings.weight",),
        "embedding.type_embedding.weight": ("embeddings.token_type_embeddings.weight",),
        **_weight_and_bias({"embedding.norm": ("embeddings.LayerNorm",)}),
    },
    layer=_weight_and_bias(
        {
            "self_attn.in_proj": ("attention.self.query", "attention.self.key", "attention.self.value"),
            "self_attn.out_proj": ("attention.output.dense",),
            "norm1": ("attention.output.LayerNorm",),
            "feed_forward.linear1": ("intermediate.dense",),
            "feed_forward.linear2": ("output.dense",),
            "norm2": ("output.LayerNorm",),
        }
    ),
    prefix=("encoder.layers.{n}.", "encoder.layer.{n}."),
    # The list 0 to 511, and a layer on [CLS] that sentence embeddings do without.
    unused=frozenset({"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"}),
)

# The rows of queries and keys are in GGUF's order: the two components that rotate together are neighbors, as in `apply_rotary`.
# (transformers has them half a head apart.)
LLAMA = WeightMapping(
    shared={
        "embedding.token_embedding.weight": ("token_embd.weight",),
        "encoder.norm.weight": ("output_norm.weight",),
    },
    layer={
        "norm1.weight": ("attn_norm.weight",),
        "self_attn.in_proj.weight": ("attn_q.weight", "attn_k.weight", "attn_v.weight"),
        "self_attn.out_proj.weight": ("attn_output.weight",),
        "norm2.weight": ("ffn_norm.weight",),
        "feed_forward.linear1.weight": ("ffn_gate.weight", "ffn_up.weight"),
        "feed_forward.linear2.weight": ("ffn_down.weight",),
    },
    prefix=("encoder.layers.{n}.", "blk.{n}."),
)


# --- configurations ---------------------------------------------------------------------------------------------


def bert_config(published: Mapping) -> EncoderConfig:
    """The configuration of a BERT from its config.json."""
    names = {
        "vocab_size": "vocab_size",
        "dim": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "hidden_dim": "intermediate_size",
        "max_len": "max_position_embeddings",
        "num_types": "type_vocab_size",
        "eps": "layer_norm_eps",
    }
    if missing := [name for name in names.values() if name not in published]:
        raise WeightsError(f"expected a BERT's config.json with {', '.join(missing)}; this one has no such entry")
    for name, only in {"hidden_act": "gelu", "position_embedding_type": "absolute"}.items():
        if published.get(name, only) != only:
            raise WeightsError(f"expected a BERT with {name} {only!r}, got {published[name]!r}: not supported here")
    sizes = {ours: published[theirs] for ours, theirs in names.items()}
    return EncoderConfig(**sizes, positions="learned", scale_embedding=False, norm_first=False, activation="gelu")


def llama_config(fields: Mapping) -> EncoderConfig:
    """The configuration of a Llama from the fields of a GGUF file."""
    names = {
        "vocab_size": "vocab_size",
        "dim": "embedding_length",
        "num_layers": "block_count",
        "num_heads": "attention.head_count",
        "num_kv_heads": "attention.head_count_kv",
        "hidden_dim": "feed_forward_length",
        "max_len": "context_length",
        "rope_base": "rope.freq_base",
        "eps": "attention.layer_norm_rms_epsilon",
    }
    if (kind := fields.get("general.architecture")) != "llama":
        raise WeightsError(f"expected a GGUF file of a llama, got {kind!r}: not supported here")
    if missing := [name for name in names.values() if f"llama.{name}" not in fields]:
        raise WeightsError(f"expected a GGUF file with llama.{', llama.'.join(missing)}; this one has no such field")
    sizes = {ours: fields[f"llama.{theirs}"] for ours, theirs in names.items()}
    head_dim = head_width(sizes["dim"], sizes["num_heads"])
    if (rotated := fields.get("llama.rope.dimension_count", head_dim)) != head_dim:
        raise WeightsError(f"expected RoPE on all {head_dim} components of a head, got {rotated}")
    if scaling := [name for name in fields if name.startswith("llama.rope.scaling")]:
        raise WeightsError(f"expected RoPE without scaling, got {', '.join(scaling)}")
    options = {"positions": "rotary", "scale_embedding": False, "norm": "rms", "activation": "swiglu", "bias": False}
    return EncoderConfig(**sizes, **options)


# --- MiniLM: text to embeddings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenBatch:
    """Texts as a padded batch: token_ids and attention_mask (b, n); for each text its tokens and their character offsets.

    The offsets (start, end) of [CLS] and [SEP] are (0, 0).
    """

    token_ids: Tensor
    attention_mask: Tensor
    tokens: list[list[str]]
    offsets: list[list[tuple[int, int]]]


class WordPieceTokenizer:
    """The WordPiece tokenizer of the published weights; adds [CLS] in front and [SEP] at the end.

    A text of more than max_len tokens, both included, is truncated. The published file pads everything to 128 tokens; here a
    batch is as long as its longest text.
    """

    def __init__(self, file: Path | str, max_len: int = MINILM_MAX_LEN):
        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_len)

    def __len__(self) -> int:
        return self.tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._encode(texts)]

    def batch(self, texts: Sequence[str]) -> TokenBatch:
        encodings = self._encode(texts)
        token_ids, attention_mask = pad([encoding.ids for encoding in encodings])
        tokens, offsets = [e.tokens for e in encodings], [e.offsets for e in encodings]
        return TokenBatch(token_ids, attention_mask, tokens, offsets)

    def _encode(self, texts: Sequence[str]) -> list:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, got one text; write [text]")
        return self.tokenizer.encode_batch(list(texts))


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids of several texts as token_ids (b, n), 0 behind the end, and attention_mask (b, n)."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    attention_mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    token_ids = torch.zeros(attention_mask.shape, dtype=torch.long)
    token_ids[attention_mask] = torch.tensor([token for sequence in sequences for token in sequence])
    return token_ids, attention_mask


@dataclass(frozen=True)
class HiddenStates(TokenBatch):
    """A batch with `states`, num_layers + 1 tensors (b, n, dim), and `weights`, (b, num_heads, n, n) a layer, or None."""

    states: list[Tensor]
    weights: list[Tensor] | None


@dataclass(frozen=True)
class PretrainedEncoder:
    """A published encoder and its tokenizer."""

    model: EncoderModel
    tokenizer: WordPieceTokenizer

    @torch.no_grad()
    def hidden_states(self, texts: Sequence[str], need_weights: bool = False) -> HiddenStates:
        """The hidden states of every layer for the texts as one padded batch, the embeddings first."""
        batch = self.tokenizer.batch(texts)
        states, weights = self.model.hidden_states(batch.token_ids, batch.attention_mask, need_weights)
        return HiddenStates(**vars(batch), states=states, weights=weights)

    @torch.no_grad()
    def sentence_embeddings(self, texts: Sequence[str], batch_size: int = 32) -> Tensor:
        """Sentence embeddings (k, dim): the mean of the last layer, scaled to norm one. Texts of similar length go together."""
        sequences = self.tokenizer.encode(texts)
        embeddings = torch.empty(len(sequences), self.model.config.dim)
        order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
        for start in range(0, len(sequences), batch_size):
            chosen = order[start : start + batch_size]
            token_ids, attention_mask = pad([sequences[index] for index in chosen])
            pooled = mean_pooling(self.model.encode(token_ids, attention_mask), attention_mask)
            embeddings[chosen] = F.normalize(pooled, dim=-1)
        return embeddings


@torch.no_grad()
def column_major(module: nn.Module) -> None:
    """Store the matrix of every linear layer by columns: shapes, values and results stay.

    torch's product of a few tokens with such a matrix takes two thirds of the time.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(part.weight.t().contiguous().t(), part.weight.requires_grad)


def load_minilm(folder: Path | str, max_len: int = MINILM_MAX_LEN) -> PretrainedEncoder:
    """all-MiniLM-L6-v2 (Wang et al., 2020b, arXiv:2002.10957) from its published files, in evaluation mode."""
    folder = Path(folder)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        if not (folder / name).is_file():
            raise WeightsError(f"expected {name} in {folder}; download the model again")
    model = EncoderModel(bert_config(json.loads((folder / "config.json").read_text(encoding="utf-8"))))
    try:
        published = load_file(folder / "model.safetensors")
    except SafetensorError as problem:
        raise WeightsError(
            f"{folder / 'model.safetensors'} cannot be read ({problem}): download the model again"
        ) from problem
    column_major(BERT.load(model, published))
    return PretrainedEncoder(model.eval(), WordPieceTokenizer(folder / "tokenizer.json", max_len))


# --- SmolLM2: text generation -----------------------------------------------------------------------------------

CONTROL_TOKEN = 3  # GGUF's type of a special token
SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def byte_characters() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE: itself where it is visible, else one from 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {chr(256 + index): byte for index, byte in enumerate(others)}


class ByteLevelTokenizer:
    """The byte-level BPE tokenizer of the published weights: any text has tokens, since every byte has one.

    (Except six control characters and bytes that no text has, which are skipped.) Digits are single tokens; a word carries the
    space before it. Special tokens such as <|im_end|> are recognized anywhere in a text.
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[tuple[str, str]], special_tokens: Iterable[str] = ()):
        """tokens: in the order of their ids, spelled in `byte_characters`, except the special tokens."""
        self._tokens = list(tokens)
        self.special_ids = {token: self._tokens.index(token) for token in special_tokens}
        self.tokenizer = Tokenizer(BPE({token: number for number, token in enumerate(tokens)}, list(merges)))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.tokenizer.decoder = decoders.ByteLevel()
        special = [AddedToken(token, normalized=False, special=True) for token in self.special_ids]
        self.tokenizer.add_special_tokens(special)

    @classmethod
    def from_gguf(cls, fields: Mapping) -> "ByteLevelTokenizer":
        for name, only in {"model": "gpt2", "pre": "smollm"}.items():
            if (found := fields.get(f"tokenizer.ggml.{name}")) != only:
                raise WeightsError(f"expected a tokenizer with tokenizer.ggml.{name} {only!r}, got {found!r}")
        names = [f"tokenizer.ggml.{name}" for name in ("tokens", "merges", "token_type")]
        if missing := [name for name in names if name not in fields]:
            raise WeightsError(f"expected a file that holds its tokenizer; this one lacks {', '.join(missing)}")
        tokens, merges, types = (fields[name] for name in names)
        special = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL_TOKEN]
        return cls(tokens, [tuple(merge.split(" ")) for merge in merges], special)

    def __len__(self) -> int:
        return len(self._tokens)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text, special tokens included. A character with missing bytes becomes \N{REPLACEMENT CHARACTER}."""
        return b"".join(self.bytes[token] for token in token_ids).decode("utf-8", "replace")

    def tokens(self, token_ids: Iterable[int]) -> list[str]:
        """The text of each token; bytes that are no character by themselves as \\xe2."""
        return [self.bytes[token].decode("utf-8", "backslashreplace") for token in token_ids]

    @cached_property
    def bytes(self) -> list[bytes]:
        """The bytes of each token."""
        characters = byte_characters()
        return [
            token.encode() if token in self.special_ids else bytes(characters[character] for character in token)
            for token in self._tokens
        ]


def chat_prompt(turns: str | Sequence[str], system: str = SYSTEM_PROMPT) -> str:
    """The chat template: turns of user and assistant alternate, the user's first and last; the assistant's is to come."""
    turns = [turns] if isinstance(turns, str) else list(turns)
    if len(turns) % 2 == 0:
        raise ValueError(f"expected the user to speak first and last, so an odd number of turns, got {len(turns)}")
    messages = [("system", system), *((("user", "assistant")[n % 2], turn) for n, turn in enumerate(turns))]
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages) + "<|im_start|>assistant\n"


@dataclass(frozen=True)
class PretrainedDecoder:
    """A published causal language model and its tokenizer."""

    model: CausalLM
    tokenizer: ByteLevelTokenizer

    @property
    def eos_ids(self) -> set[int]:
        """The tokens that end a document, and a turn of a conversation."""
        return {self.tokenizer.special_ids[token] for token in ("<|endoftext|>", "<|im_end|>")}

    @torch.no_grad()
    def next_tokens(self, text: str, k: int = 8) -> list[tuple[str, float]]:
        """The k most probable next tokens with their probabilities."""
        hidden = self.model.encode(torch.tensor([self._encode(text)]))[0, -1]
        probs, token_ids = self.model.lm_head(hidden).softmax(-1).topk(k)
        return list(zip(self.tokenizer.tokens(token_ids.tolist()), probs.tolist(), strict=True))

    def stream(self, prompt: str, max_new_tokens: int, *, seed: int = 0, **sampling) -> Iterator[str]:
        """The continuation of the prompt as it is generated; a character of several tokens comes out whole.

        sampling: temperature, top_k and top_p of `generate`.
        """
        generator = torch.Generator().manual_seed(seed)
        options = {"generator": generator, "eos_ids": self.eos_ids, **sampling}
        return self._texts(generate(self.model, self._encode(prompt), max_new_tokens, **options))

    def responder(self) -> Callable[[str, Sequence[int]], Tensor]:
        """A function of a prompt and the token ids generated after it, to the next logits (vocab,); with its own cache."""
        next_logits = PrefixCache(self.model)

        def respond(prompt: str, generated: Sequence[int]) -> Tensor:
            return next_logits([*self._encode(prompt), *generated])

        return respond

    def _encode(self, text: str) -> list[int]:
        if not text:
            raise ValueError("expected a prompt, got an empty text")
        return self.tokenizer.encode(text)

    def _texts(self, token_ids: Iterable[int]) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in token_ids:
            if text := decoder.decode(self.tokenizer.bytes[token]):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text


def load_smollm2(folder: Path | str) -> PretrainedDecoder:
    """SmolLM2-135M-Instruct (Ben Allal et al., 2025, arXiv:2502.02737) from its GGUF file, in float32 and evaluation mode."""
    path = Path(folder) / SMOLLM2_FILE
    if not path.is_file():
        raise WeightsError(f"expected {SMOLLM2_FILE} in {folder}; download the model again")
    try:
        file = GGUFFile(path)
    except GGUFError as problem:
        raise WeightsError(f"{problem}: download the model again") from problem
    with torch.device("meta"):  # no values yet: the published ones are taken as they are
        model = CausalLM(llama_config(file.fields))
    return PretrainedDecoder(LLAMA.load(model, file).eval(), ByteLevelTokenizer.from_gguf(file.fields))
