"""The course's modules and torch's own hold the same parameters under other names: copy them, either way.

    theirs = to_torch(ours, nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, norm_first=True))
    ours = from_torch(theirs, EncoderLayer(12, 3, 20, norm="pre"))

Two surprises when the results are compared. torch's boolean masks say who may *not* look: give it `~mask`. And a token that
may look nowhere is NaN there, zero here.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from utils.models.encoder import ACTIVATIONS, Encoder, EncoderLayer, FeedForward, LayerNorm
from utils.models.multi_head import MultiHeadAttention
from utils.models.transformer import Decoder, DecoderLayer, Transformer


def to_torch(ours: nn.Module, theirs: nn.Module) -> nn.Module:
    """Copy the parameters of a module of the course into torch's module of the same kind and shape; returns that one.

    MultiHeadAttention, LayerNorm, EncoderLayer, Encoder, DecoderLayer and Decoder to nn.MultiheadAttention, nn.LayerNorm,
    nn.TransformerEncoderLayer, nn.TransformerEncoder, nn.TransformerDecoderLayer and nn.TransformerDecoder. Of a Transformer
    the two stacks: nn.Transformer has neither embeddings nor an output layer, and always final norms.
    """
    _copy([(mine, other) for mine, other in parameter_pairs(ours, theirs)])
    return theirs


def from_torch(theirs: nn.Module, ours: nn.Module) -> nn.Module:
    """Copy the parameters of torch's module into the course's; returns the course's. The kinds are those of `to_torch`."""
    _copy([(other, mine) for mine, other in parameter_pairs(ours, theirs)])
    return ours


def parameter_pairs(ours: nn.Module, theirs: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    """Each parameter of ours beside torch's parameter that does the same. No reshape is needed anywhere."""
    for kind, torchs_kind, pairs in _KINDS:
        if isinstance(ours, kind) and isinstance(theirs, torchs_kind):
            yield from pairs(ours, theirs)
            return
    known = "; ".join(f"{kind.__name__} and nn.{torchs_kind.__name__}" for kind, torchs_kind, _ in _KINDS)
    raise TypeError(f"expected a pair of {known}; got {type(ours).__name__} and {type(theirs).__name__}")


@torch.no_grad()
def _copy(pairs: list[tuple[Tensor, Tensor]]) -> None:
    # All are looked at before the first is copied: a refusal leaves both modules as they were.
    for source, target in pairs:
        if source.shape != target.shape:
            raise ValueError(f"expected parameters of one shape, got {tuple(source.shape)} and {tuple(target.shape)}")
    for source, target in pairs:
        target.copy_(source)


def _linear(ours: nn.Linear, theirs: nn.Linear) -> Iterator[tuple[Tensor, Tensor]]:
    yield ours.weight, theirs.weight
    yield from _biases(ours.bias, theirs.bias)


def _biases(ours: Tensor | None, theirs: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("bias", ours is not None, theirs is not None)
    if ours is not None:
        yield ours, theirs


def _norm(ours: LayerNorm, theirs: nn.LayerNorm) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("eps", ours.eps, theirs.eps)
    yield ours.gain, theirs.weight
    yield ours.shift, theirs.bias


def _attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("heads", ours.heads, theirs.num_heads)
    yield ours.project.weight, theirs.in_proj_weight
    yield from _biases(ours.project.bias, theirs.in_proj_bias)
    yield from _linear(ours.mix, theirs.out_proj)


def _feed_forward(ours: FeedForward, theirs: nn.Module) -> Iterator[tuple[Tensor, Tensor]]:
    probe = torch.linspace(-3, 3, 7)
    if not torch.equal(ACTIVATIONS[ours.activation](probe), theirs.activation(probe)):
        raise ValueError(f"expected torch's activation to be {ours.activation}, got {theirs.activation}")
    yield from _linear(ours.widen, theirs.linear1)
    yield from _linear(ours.narrow, theirs.linear2)


def _encoder_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("norm", ours.norm, "pre" if theirs.norm_first else "post")
    yield from _attention(ours.attention, theirs.self_attn)
    yield from _feed_forward(ours.feed_forward, theirs)
    yield from _norm(ours.attention_norm, theirs.norm1)
    yield from _norm(ours.feed_forward_norm, theirs.norm2)


def _decoder_layer(ours: DecoderLayer, theirs: nn.TransformerDecoderLayer) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("norm", ours.norm, "pre" if theirs.norm_first else "post")
    yield from _attention(ours.self_attention, theirs.self_attn)
    yield from _attention(ours.cross_attention, theirs.multihead_attn)
    yield from _feed_forward(ours.feed_forward, theirs)
    yield from _norm(ours.self_norm, theirs.norm1)
    yield from _norm(ours.cross_norm, theirs.norm2)
    yield from _norm(ours.feed_forward_norm, theirs.norm3)


def _stack(
    ours: Encoder | Decoder, theirs: nn.TransformerEncoder | nn.TransformerDecoder
) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("layers", len(ours.layers), len(theirs.layers))
    for one, other in zip(ours.layers, theirs.layers, strict=True):
        yield from parameter_pairs(one, other)
    yield from _final_norm(ours.final_norm, theirs.norm)


def _transformer(ours: Transformer, theirs: nn.Transformer) -> Iterator[tuple[Tensor, Tensor]]:
    yield from _stack(ours.encoder, theirs.encoder)
    yield from _stack(ours.decoder, theirs.decoder)


def _final_norm(ours: LayerNorm | None, theirs: nn.LayerNorm | None) -> Iterator[tuple[Tensor, Tensor]]:
    _expect_same("final norm", ours is not None, theirs is not None)
    if ours is not None:
        yield from _norm(ours, theirs)


def _expect_same(what: str, ours: object, theirs: object) -> None:
    if ours != theirs:
        raise ValueError(f"expected the same {what} on both sides, got {ours} here and {theirs} in torch's module")


_KINDS = (
    (MultiHeadAttention, nn.MultiheadAttention, _attention),
    (LayerNorm, nn.LayerNorm, _norm),
    (EncoderLayer, nn.TransformerEncoderLayer, _encoder_layer),
    (Encoder, nn.TransformerEncoder, _stack),
    (DecoderLayer, nn.TransformerDecoderLayer, _decoder_layer),
    (Decoder, nn.TransformerDecoder, _stack),
    (Transformer, nn.Transformer, _transformer),
)
