"""Speed of the Transformer: training steps against torch, decoding with the key-value cache against none and `transformers`.

All comparisons are interleaved: one side runs right after the other, many times, in one process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.plain_transformer import PlainTransformer
from tests.benchmarks.timing import cost_ratio
from utils.models.attention import causal_mask
from utils.models.decoding import greedy_decode
from utils.models.torch_weights import to_torch
from utils.models.transformer import Transformer

PAD, BOS, EOS = range(3)
TORCH, PLAIN = "`nn.Transformer`", "the equations of 2017, written out"
# The least speedup of a training step, by peer and dropout.
GOALS = {(TORCH, 0.0): 1.1, (TORCH, 0.1): 1.3, (PLAIN, 0.0): 1.25}
NO_EOS = -1  # a token id that no model generates: every sequence reaches max_len


def training_speed(
    shapes: Sequence[tuple[int, int]] = ((64, 16), (8, 256)),
    dim: int = 128,
    num_heads: int = 4,
    hidden_dim: int = 512,
    num_layers: int = 2,
    rounds: int = 21,
) -> list[dict]:
    """One row per (batch, length), norm order, dropout and peer: the speedup of a training step.

    A step: forward through both stacks with padding and the causal mask, backward, Adam. Without dropout all compute the
    same, the plain equations too; with it, torch drops attention weights and hidden units as well.
    """
    rows = []
    for batch, length in shapes:
        for norm_first in (True, False):
            for dropout in (0.0, 0.1):
                model = Transformer(
                    9,
                    9,
                    dim,
                    num_heads,
                    hidden_dim,
                    num_layers,
                    norm_first=norm_first,
                    dropout=dropout,
                    final_norm=True,
                )
                torch_model = nn.Transformer(
                    dim, num_heads, num_layers, num_layers, hidden_dim, dropout, batch_first=True, norm_first=norm_first
                )
                to_torch(model, torch_model)
                source, target = torch.randn(2, batch, length, dim)
                source_mask, target_mask = torch.arange(length) < torch.randint(length // 2, length + 1, (2, batch, 1))
                data = (source, target, source_mask, target_mask)
                peers = {TORCH: torch_step(torch_model, *data)}
                if not dropout:
                    peers[PLAIN] = plain_step(PlainTransformer(torch_model), *data)
                for peer, step in peers.items():
                    cost = cost_ratio(model_step(model, *data), step, rounds)
                    norm = "pre" if norm_first else "post"
                    row = {"batch": batch, "length": length, "norm": norm, "dropout": dropout, "peer": peer}
                    rows.append(row | {"speed": round(1 / cost, 2)})
    return rows


def model_step(
    model: Transformer, source: Tensor, target: Tensor, source_mask: Tensor, target_mask: Tensor
) -> Callable:
    def forward() -> Tensor:
        memory, _ = model.encoder(source, source_mask.unsqueeze(1))
        # As the whole model does it: behind a causal mask, padding at the end of the target needs no mask of its own.
        x, _, _ = model.decoder(target, memory, causal_mask(target.size(1)), source_mask.unsqueeze(1))
        return x[target_mask]

    return _training_step([*model.encoder.parameters(), *model.decoder.parameters()], forward)


def torch_step(
    model: nn.Transformer, source: Tensor, target: Tensor, source_mask: Tensor, target_mask: Tensor
) -> Callable:
    def forward() -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        x = model(
            source,
            target,
            tgt_mask=mask,
            src_key_padding_mask=~source_mask,
            memory_key_padding_mask=~source_mask,
            tgt_is_causal=True,
        )
        return x[target_mask]

    return _training_step(list(model.parameters()), forward)


def plain_step(
    model: PlainTransformer, source: Tensor, target: Tensor, source_mask: Tensor, target_mask: Tensor
) -> Callable:
    return _training_step(list(model.parameters()), lambda: model(source, target, source_mask)[target_mask])


def _training_step(parameters: list[Tensor], forward: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        forward().square().mean().backward()
        optimizer.step()

    return step


# Decoding


def _model_and_sources(
    vocab_size: int, batch: int, source_length: int, **sizes: int
) -> tuple[Transformer, Tensor, Tensor]:
    model = Transformer(vocab_size, vocab_size, norm_first=True, **sizes).eval()
    source = torch.randint(3, vocab_size, (batch, source_length))
    source_mask = torch.arange(source_length) < torch.randint(source_length // 2, source_length + 1, (batch, 1))
    return model, source, source_mask


class Uncached(nn.Module):
    """An encoder-decoder without its key-value cache: each step decodes all tokens so far again."""

    def __init__(self, model: Transformer):
        super().__init__()
        self.model = model

    def new_cache(self, source: Tensor, source_mask: Tensor | None, max_len: int, num_beams: int = 1) -> "Tokens":
        repeated = None if source_mask is None else source_mask.repeat_interleave(num_beams, 0)
        memory = self.model.encode(source, source_mask).repeat_interleave(num_beams, 0)
        return Tokens(memory, repeated, source.new_empty(len(memory), 0))

    def step(self, token_ids: Tensor, cache: "Tokens") -> tuple[Tensor, list[Tensor]]:
        cache.token_ids = torch.cat([cache.token_ids, token_ids.unsqueeze(1)], 1)
        return self.model.decode(cache.token_ids, cache.memory, cache.source_mask)[:, -1], []


@dataclass
class Tokens:
    """In place of the keys and values: the encoder's output and all target tokens so far."""

    memory: Tensor
    source_mask: Tensor | None
    token_ids: Tensor

    def reorder(self, rows: Tensor) -> None:
        self.token_ids = self.token_ids[rows]


def cache_speed(
    lengths: Sequence[int] = (8, 16, 32, 64),
    batch: int = 64,
    source_length: int = 16,
    vocab_size: int = 300,
    rounds: int = 3,
) -> list[dict]:
    """One row per length: the speedup of greedy decoding with the key-value cache over none."""
    model, source, source_mask = _model_and_sources(vocab_size, batch, source_length)
    rows = []
    for max_len in lengths:
        runs = [
            lambda max_len=max_len, decoder=decoder: greedy_decode(
                decoder, source, source_mask, bos_id=BOS, eos_id=NO_EOS, max_len=max_len
            )
            for decoder in (model, Uncached(model).eval())
        ]
        rows.append({"batch": batch, "length": max_len, "speed": round(1 / cost_ratio(*runs, rounds), 1)})
    return rows


def generate_speed(
    peers: Sequence[str] = ("T5", "BART", "Marian"),
    batch: int = 64,
    max_len: int = 64,
    source_length: int = 16,
    vocab_size: int = 300,
    dim: int = 128,
    num_heads: int = 4,
    hidden_dim: int = 512,
    num_layers: int = 2,
    rounds: int = 9,
) -> list[dict]:
    """One row per encoder-decoder of the `transformers` package: the speedup of greedy decoding over its `generate`.

    All of one size, with random weights, greedy, with cache, no EOS before max_len. Marian computes most nearly
    the same: sinusoidal positions, tied and scaled embeddings. Needs `transformers`, which the course itself does not.
    """
    model, source, source_mask = _model_and_sources(
        vocab_size, batch, source_length, dim=dim, num_heads=num_heads, hidden_dim=hidden_dim, num_layers=num_layers
    )

    def run_model() -> Tensor:
        return greedy_decode(model, source, source_mask, bos_id=BOS, eos_id=NO_EOS, max_len=max_len).token_ids

    rows = []
    for peer in peers:
        peer_model = _encoder_decoder(
            peer, vocab_size, dim, num_heads, hidden_dim, num_layers, source_length + max_len + 1
        )

        def run_peer(peer_model: nn.Module = peer_model) -> Tensor:
            with torch.no_grad():
                return peer_model.generate(
                    source,
                    attention_mask=source_mask.long(),
                    max_new_tokens=max_len,
                    do_sample=False,
                    num_beams=1,
                    use_cache=True,
                )

        lengths = run_model().size(1), run_peer().size(1) - 1  # of which the first is BOS
        if lengths != (max_len, max_len):
            raise AssertionError(
                f"expected both to generate {max_len} tokens, got {lengths[0]} and {lengths[1]} ({peer})"
            )
        speed = round(1 / cost_ratio(run_model, run_peer, rounds), 2)
        rows.append({"peer": peer, "batch": batch, "length": max_len, "speed": speed})
    return rows


def _encoder_decoder(
    peer: str, vocab_size: int, dim: int, num_heads: int, hidden_dim: int, num_layers: int, positions: int
) -> nn.Module:
    try:
        import transformers
    except ImportError as problem:
        raise ImportError(
            "expected the package `transformers` for this comparison; pip install transformers"
        ) from problem
    tokens = {"pad_token_id": PAD, "decoder_start_token_id": BOS, "eos_token_id": EOS}
    if peer == "T5":
        config = transformers.T5Config(
            vocab_size=vocab_size,
            d_model=dim,
            d_kv=dim // num_heads,
            d_ff=hidden_dim,
            num_layers=num_layers,
            num_decoder_layers=num_layers,
            num_heads=num_heads,
            **tokens,
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        config_of, model_of = {
            "BART": (transformers.BartConfig, transformers.BartForConditionalGeneration),
            "Marian": (transformers.MarianConfig, transformers.MarianMTModel),
        }[peer]
        config = config_of(
            vocab_size=vocab_size,
            d_model=dim,
            encoder_layers=num_layers,
            decoder_layers=num_layers,
            encoder_attention_heads=num_heads,
            decoder_attention_heads=num_heads,
            encoder_ffn_dim=hidden_dim,
            decoder_ffn_dim=hidden_dim,
            activation_function="relu",
            max_position_embeddings=positions,
            scale_embedding=True,
            forced_eos_token_id=None,
            **tokens,
        )
        model = model_of(config)
    model.generation_config.eos_token_id = None  # no sequence ends before max_len
    return model.eval()


def transformer_speed(training: dict | None = None, cache: dict | None = None, generate: dict | None = None) -> dict:
    """All three comparisons, each with the options that are given."""
    return {
        "training": training_speed(**training or {}),
        "cache": cache_speed(**cache or {}),
        "generate": generate_speed(**generate or {}),
    }


def show(result: dict) -> Shown:
    rows = [
        (
            f"training step, {row['norm']}-norm, batch {row['batch']}, length {row['length']}, dropout {row['dropout']}",
            row["peer"],
            f"{row['speed']:.2f}x",
        )
        for row in result["training"]
    ]
    against = [("the same without KV cache", row) for row in result["cache"]]
    against += [(f"`generate` of {row['peer']} in `transformers`, same size", row) for row in result["generate"]]
    rows += [
        (f"greedy decoding, {row['batch']} sentences to {row['length']} tokens", other, f"{row['speed']}x")
        for other, row in against
    ]
    slowest: dict[tuple, float] = {}
    for row in result["training"]:
        case = (row["peer"], row["dropout"], row["length"])
        slowest[case] = min(row["speed"], slowest.get(case, row["speed"]))
    targets = [
        at_least(
            f"training step of length {length}, dropout {dropout:g}, speedup over {peer}",
            speed,
            GOALS[peer, dropout],
            "x",
        )
        for (peer, dropout, length), speed in slowest.items()
    ]
    last = max(result["cache"], key=lambda row: row["length"])
    targets.append(at_least(f"KV cache, speedup at {last['length']} tokens", last["speed"], 3, "x"))
    targets += [
        at_least(f"greedy decoding with KV cache, speedup over `generate` of {row['peer']}", row["speed"], 1.5, "x")
        for row in result["generate"]
    ]
    return Shown(
        "Speed of the Transformer",
        "Width 128, 2 + 2 layers.",
        ("what", "compared with", "speedup"),
        rows,
        targets,
    )


BENCHMARKS = (
    Benchmark(
        "transformer_speed",
        "06",
        transformer_speed,
        show,
        {
            "training": {"shapes": ((64, 16),), "rounds": 5},
            "cache": {"lengths": (32,), "rounds": 2},
            "generate": {"peers": ("Marian",), "max_len": 16, "rounds": 3},
        },
        threads=2,
        packages=("transformers",),
    ),
)
