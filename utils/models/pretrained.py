"""Published models: a configuration, a mapping of weight names, and the tokenizer that belongs to the weights.

    minilm = load_minilm(folder)            # all-MiniLM-L6-v2, a BERT: config.json, model.safetensors, tokenizer.json
    minilm.sentence_embeddings(["A cat sleeps.", "A kitten naps."])         # (2, 384), of norm one
    smollm2 = load_smollm2(folder)          # SmolLM2-135M-Instruct, a Llama, quantized to four bits in a GGUF file
    smollm2.tokenizer.decode(smollm2.generate("Once upon a time", 40, temperature=0.7, top_p=0.9))

BERT (Devlin et al., 2019, arXiv:1810.04805) is an `EncoderModel` with post-norm, learned positions and segment embeddings. Llama
(arXiv:2302.13971) is a `CausalLM` with RMSNorm, RoPE, SwiGLU and grouped-query attention, without biases.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from torch import Tensor, nn

from utils.models.decoding import PrefixCache, generate
from utils.models.gguf import GGUFError, GGUFFile
from utils.models.language_models import CausalLM, EncoderConfig, EncoderModel, mean_pooling

BATCH_SIZE = 32  # sentences
MINILM_MAX_LEN = 256  # tokens, [CLS] and [SEP] included: the length MiniLM was made for; it has 512 positions
SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


class WeightsError(ValueError):
    """Published files that are missing, damaged, or of another model."""


# --- weights ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightMapping:
    """Names of the parameters, and the published tensors of each; several are concatenated row-wise into one parameter.

    `layer` maps the names inside layer {n}, after the two prefixes. `unused` are published tensors without a parameter.
    """

    shared: Mapping[str, tuple[str, ...]]
    layer: Mapping[str, tuple[str, ...]]
    prefix: tuple[str, str]
    unused: frozenset[str] = frozenset()

    def names(self, num_layers: int) -> dict[str, tuple[str, ...]]:
        """The name of each parameter with the names of its published tensors."""
        names = dict(self.shared)
        for n in range(num_layers):
            prefix, published = (text.format(n=n) for text in self.prefix)
            names |= {prefix + name: tuple(published + part for part in parts) for name, parts in self.layer.items()}
        return names

    def load(self, model: EncoderModel, published: Mapping[str, Tensor]) -> EncoderModel:
        """Make the published tensors the parameters of the model."""
        names = self.names(model.config.num_layers)
        wanted = {part for parts in names.values() for part in parts}
        missing, unexpected = sorted(wanted - published.keys()), sorted(published.keys() - wanted - self.unused)
        if missing or unexpected:
            raise WeightsError(
                f"expected the weights of another model: {len(missing)} tensors are missing {missing[:3]}, "
                f"{len(unexpected)} are unexpected {unexpected[:3]}"
            )
        state = {
            name: torch.cat([published[part] for part in parts]) if len(parts) > 1 else published[parts[0]]
            for name, parts in names.items()
        }
        if isinstance(model, CausalLM):  # tied
            state["lm_head.weight"] = state["embedding.token_embedding.weight"]
        model.load_state_dict(state, assign=True)
        if isinstance(model, CausalLM):
            model.lm_head.weight = model.embedding.token_embedding.weight
        return model


def _weight_and_bias(names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {
        f"{name}.{kind}": tuple(f"{part}.{kind}" for part in parts)
        for name, parts in names.items()
        for kind in ("weight", "bias")
    }


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
    """Configuration of a BERT from its config.json."""
    return EncoderConfig(
        vocab_size=published["vocab_size"],
        dim=published["hidden_size"],
        num_heads=published["num_attention_heads"],
        hidden_dim=published["intermediate_size"],
        num_layers=published["num_hidden_layers"],
        positions="learned",
        max_len=published["max_position_embeddings"],
        scale_embedding=False,
        norm_first=False,
        eps=published["layer_norm_eps"],
        num_types=published["type_vocab_size"],
    )


def llama_config(fields: Mapping) -> EncoderConfig:
    """Configuration of a Llama from the fields of a GGUF file."""
    return EncoderConfig(
        vocab_size=fields["llama.vocab_size"],
        dim=fields["llama.embedding_length"],
        num_heads=fields["llama.attention.head_count"],
        hidden_dim=fields["llama.feed_forward_length"],
        num_layers=fields["llama.block_count"],
        num_kv_heads=fields["llama.attention.head_count_kv"],
        positions="rotary",
        max_len=fields["llama.context_length"],
        scale_embedding=False,
        norm="rms",
        activation="swiglu",
        bias=False,
        eps=fields["llama.attention.layer_norm_rms_epsilon"],
        rope_base=fields["llama.rope.freq_base"],
    )


# --- MiniLM: text to embeddings ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenBatch:
    """Texts as a padded batch: token_ids and attention_mask (b, n); the tokens of each text as strings, without padding."""

    token_ids: Tensor
    attention_mask: Tensor
    tokens: list[list[str]]


class WordPieceTokenizer:
    """WordPiece tokenizer of the published weights; adds [CLS] in front and [SEP] at the end.

    A text of more than max_len tokens, both included, is truncated. The published file pads everything to 128 tokens; here a
    batch is as long as its longest text.
    """

    def __init__(self, file: Path | str, max_len: int = MINILM_MAX_LEN):
        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.enable_padding()
        self.tokenizer.enable_truncation(max_len)

    def batch(self, texts: Sequence[str]) -> TokenBatch:
        if isinstance(texts, str):
            raise TypeError("expected a list of texts, got one text; write [text]")
        encodings = self.tokenizer.encode_batch(list(texts))
        attention_mask = torch.tensor([encoding.attention_mask for encoding in encodings], dtype=torch.bool)
        return TokenBatch(
            torch.tensor([encoding.ids for encoding in encodings]),
            attention_mask,
            [e.tokens[:length] for e, length in zip(encodings, attention_mask.sum(1).tolist(), strict=True)],
        )


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
    def sentence_embeddings(self, texts: Sequence[str]) -> Tensor:
        """Sentence embeddings (k, dim): the mean of the last layer, scaled to norm one. Texts of similar length go together."""
        batch = self.tokenizer.batch(texts)
        lengths = batch.attention_mask.sum(1)
        embeddings = torch.empty(len(lengths), self.model.config.dim)
        for rows in lengths.argsort(stable=True).split(BATCH_SIZE):
            part = rows, slice(int(lengths[rows].max()))
            hidden_states = self.model.encode(batch.token_ids[part], batch.attention_mask[part])
            embeddings[rows] = F.normalize(mean_pooling(hidden_states, batch.attention_mask[part]), dim=-1)
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
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        published = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as problem:
        raise WeightsError(f"the files in {folder} cannot be read ({problem}): download the model again") from problem
    model = BERT.load(EncoderModel(bert_config(config)), published).eval()
    column_major(model)
    return PretrainedEncoder(model, WordPieceTokenizer(folder / "tokenizer.json", max_len))


# --- SmolLM2: text generation -----------------------------------------------------------------------------------

CONTROL_TOKEN = 3  # GGUF's type of a special token
SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def byte_characters() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE: itself where it is visible, else one from 256 on."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {chr(256 + index): byte for index, byte in enumerate(others)}


class ByteLevelTokenizer:
    """Byte-level BPE tokenizer of the published weights: any text has tokens, since every byte has one.

    (Except six control characters and bytes that no text has, which are skipped.) Digits are single tokens; a word carries the
    space before it. Special tokens such as <|im_end|> are recognized anywhere in a text.
    """

    def __init__(self, fields: Mapping):
        """fields: of a GGUF file."""
        self._tokens, merges, types = (fields[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges", "token_type"))
        ids = {token: token_id for token_id, token in enumerate(self._tokens)}
        self.special_ids = {
            token: ids[token] for token, kind in zip(self._tokens, types, strict=True) if kind == CONTROL_TOKEN
        }
        self.tokenizer = Tokenizer(BPE(ids, [tuple(merge.split(" ")) for merge in merges]))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        special = [AddedToken(token, normalized=False, special=True) for token in self.special_ids]
        self.tokenizer.add_special_tokens(special)

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


def chat_prompt(message: str) -> str:
    """Chat template: the message of a user, after the system prompt; the assistant's turn is to come."""
    turns = (("system", SYSTEM_PROMPT), ("user", message))
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns) + "<|im_start|>assistant\n"


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

    def generate(self, prompt: str, max_new_tokens: int, **sampling) -> list[int]:
        """The token ids sampled after the prompt. sampling: temperature, top_k, top_p and generator of `generate`."""
        return list(generate(self.model, self._encode(prompt), max_new_tokens, eos_ids=self.eos_ids, **sampling))

    def responder(self) -> Callable[[str, Sequence[int]], Tensor]:
        """A function of a prompt and the token ids generated after it, to the next logits (vocab,); with its own cache."""
        next_logits = PrefixCache(self.model)

        def respond(prompt: str, generated: Sequence[int]) -> Tensor:
            return next_logits([*self._encode(prompt), *generated])

        return respond

    def _encode(self, prompt: str) -> list[int]:
        token_ids = self.tokenizer.encode(prompt)
        if not token_ids:
            raise ValueError(f"expected a prompt of at least one token, got {prompt!r}")
        return token_ids


def load_smollm2(folder: Path | str) -> PretrainedDecoder:
    """SmolLM2-135M-Instruct (Ben Allal et al., 2025, arXiv:2502.02737) from its GGUF file, in float32 and evaluation mode."""
    try:
        file = GGUFFile(Path(folder) / SMOLLM2_FILE)
    except GGUFError as problem:
        raise WeightsError(f"{problem}: download the model again") from problem
    with torch.device("meta"):  # no values yet: the published ones are taken as they are
        model = CausalLM(llama_config(file.fields))
    return PretrainedDecoder(LLAMA.load(model, file).eval(), ByteLevelTokenizer(file.fields))
