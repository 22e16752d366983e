"""The Transformer against torch's in training, and its decoding with the cache, without it, and against `transformers`.

All comparisons are interleaved: one side runs right after the other, many times, in one process.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.timing import cost_ratio
from utils.models.decoding import greedy_decode
from utils.models.self_attention import causal_mask
from utils.models.torch_weights import to_torch
from utils.models.transformer import Transformer

PAD, START, END = range(3)
NEVER = -1  # an end token that no model writes: every sentence runs to the limit


def training_speed(
    shapes: Sequence[tuple[int, int]] = ((64, 16), (8, 256)),
    dim: int = 128,
    heads: int = 4,
    hidden: int = 512,
    layers: int = 2,
    rounds: int = 21,
) -> list[dict]:
    """One row per (batch, length), norm order and dropout: how many times as many training steps per second ours makes.

    A step: forward through both stacks with padding and the causal mask, backward, Adam. Without dropout the two compute the
    same; with it, torch drops attention weights and hidden units as well.
    """
    rows = []
    for batch, length in shapes:
        for norm in ("pre", "post"):
            for dropout in (0.0, 0.1):
                ours = Transformer(9, 9, dim, heads, hidden, layers, norm=norm, dropout=dropout, final_norm=True)
                theirs = nn.Transformer(
                    dim, heads, layers, layers, hidden, dropout, batch_first=True, norm_first=norm == "pre"
                )
                to_torch(ours, theirs)
                source, target = torch.randn(2, batch, length, dim)
                real, real_target = torch.arange(length) < torch.randint(length // 2, length + 1, (2, batch, 1))
                cost = cost_ratio(
                    _our_step(ours, source, target, real, real_target),
                    _their_step(theirs, source, target, real, real_target),
                    rounds,
                )
                rows.append(
                    {"batch": batch, "length": length, "norm": norm, "dropout": dropout, "speed": round(1 / cost, 2)}
                )
    return rows


def _our_step(model: Transformer, source: Tensor, target: Tensor, real: Tensor, real_target: Tensor) -> Callable:
    def forward() -> Tensor:
        memory, _ = model.encoder(source, real.unsqueeze(1))
        # As the whole model does it: behind a causal mask, padding at the end of the target needs no mask of its own.
        x, _, _ = model.decoder(target, memory, causal_mask(target.size(1)), real.unsqueeze(1))
        return x[real_target]

    return _training_step([*model.encoder.parameters(), *model.decoder.parameters()], forward)


def _their_step(model: nn.Transformer, source: Tensor, target: Tensor, real: Tensor, real_target: Tensor) -> Callable:
    def forward() -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        x = model(
            source,
            target,
            tgt_mask=mask,
            src_key_padding_mask=~real,
            memory_key_padding_mask=~real,
            tgt_is_causal=True,
        )
        return x[real_target]

    return _training_step(list(model.parameters()), forward)


def _training_step(parameters: list[Tensor], forward: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(parameters, lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        forward().square().mean().backward()
        optimizer.step()

    return step


# Decoding


def _model_and_sentences(
    words: int, batch: int, source_length: int, **sizes: int
) -> tuple[Transformer, Tensor, Tensor]:
    model = Transformer(words, words, norm="pre", **sizes).eval()
    source = torch.randint(3, words, (batch, source_length))
    real = torch.arange(source_length) < torch.randint(source_length // 2, source_length + 1, (batch, 1))
    return model, source, real


def cache_speed(
    limits: Sequence[int] = (8, 16, 32, 64), batch: int = 64, source_length: int = 16, words: int = 300, rounds: int = 3
) -> list[dict]:
    """One row per length: how many times as fast greedy decoding with the cache is as without."""
    model, source, real = _model_and_sentences(words, batch, source_length)
    rows = []
    for limit in limits:
        runs = [
            lambda limit=limit, cached=cached: greedy_decode(
                model, source, real, start=START, end=NEVER, limit=limit, cached=cached
            )
            for cached in (True, False)
        ]
        rows.append({"batch": batch, "length": limit, "speed": round(1 / cost_ratio(*runs, rounds), 1)})
    return rows


def generate_speed(
    peers: Sequence[str] = ("T5", "BART", "Marian"),
    batch: int = 64,
    limit: int = 64,
    source_length: int = 16,
    words: int = 300,
    dim: int = 128,
    heads: int = 4,
    hidden: int = 512,
    layers: int = 2,
    rounds: int = 9,
) -> list[dict]:
    """One row per encoder-decoder of the `transformers` package: how many times as fast ours writes as its `generate`.

    All of one size, with random weights, greedy, their cache on, no end token before the limit. Marian computes most nearly
    what ours does: sinusoidal positions, tied and scaled embeddings. Needs `transformers`, which the course itself does not.
    """
    model, source, real = _model_and_sentences(
        words, batch, source_length, dim=dim, heads=heads, hidden=hidden, layers=layers
    )

    def run_ours() -> Tensor:
        return greedy_decode(model, source, real, start=START, end=NEVER, limit=limit).words

    rows = []
    for peer in peers:
        theirs = _encoder_decoder(peer, words, dim, heads, hidden, layers, source_length + limit + 1)

        def run_theirs(theirs: nn.Module = theirs) -> Tensor:
            with torch.no_grad():
                return theirs.generate(
                    source,
                    attention_mask=real.long(),
                    max_new_tokens=limit,
                    do_sample=False,
                    num_beams=1,
                    use_cache=True,
                )

        lengths = run_ours().size(1), run_theirs().size(1) - 1  # theirs starts with the start token
        if lengths != (limit, limit):
            raise AssertionError(f"expected both to write {limit} words, got {lengths[0]} and {lengths[1]} ({peer})")
        speed = round(1 / cost_ratio(run_ours, run_theirs, rounds), 2)
        rows.append({"peer": peer, "batch": batch, "length": limit, "speed": speed})
    return rows


def _encoder_decoder(
    peer: str, words: int, dim: int, heads: int, hidden: int, layers: int, positions: int
) -> nn.Module:
    try:
        import transformers
    except ImportError as problem:
        raise ImportError(
            "expected the package `transformers` for this comparison; pip install transformers"
        ) from problem
    tokens = {"pad_token_id": PAD, "decoder_start_token_id": START, "eos_token_id": END}
    if peer == "T5":
        config = transformers.T5Config(
            vocab_size=words,
            d_model=dim,
            d_kv=dim // heads,
            d_ff=hidden,
            num_layers=layers,
            num_decoder_layers=layers,
            num_heads=heads,
            **tokens,
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        config_of, model_of = {
            "BART": (transformers.BartConfig, transformers.BartForConditionalGeneration),
            "Marian": (transformers.MarianConfig, transformers.MarianMTModel),
        }[peer]
        config = config_of(
            vocab_size=words,
            d_model=dim,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            activation_function="relu",
            max_position_embeddings=positions,
            scale_embedding=True,
            forced_eos_token_id=None,
            **tokens,
        )
        model = model_of(config)
    model.generation_config.eos_token_id = None  # no sentence ends before the limit
    return model.eval()


def transformer_speed(training: dict | None = None, cache: dict | None = None, generate: dict | None = None) -> dict:
    """All three, each with other settings if they are given."""
    return {
        "training": training_speed(**training or {}),
        "cache": cache_speed(**cache or {}),
        "generate": generate_speed(**generate or {}),
    }


def show(result: dict) -> Shown:
    rows = [
        (
            f"training step, {row['norm']}-norm, batch {row['batch']}, length {row['length']}, dropout {row['dropout']}",
            "`nn.Transformer`",
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
    targets = []
    for length, limit in ((16, 1.1), (256, 1)):
        speeds = [row["speed"] for row in result["training"] if row["length"] == length]
        if speeds:
            targets.append(
                at_least(f"training step of length {length}, speedup over `nn.Transformer`", min(speeds), limit, "x")
            )
    longest = max(result["cache"], key=lambda row: row["length"])
    targets.append(at_least(f"KV cache, speedup at {longest['length']} tokens", longest["speed"], 3, "x"))
    targets += [
        at_least(f"greedy decoding with KV cache, speedup over `generate` of {row['peer']}", row["speed"], 2, "x")
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
            "cache": {"limits": (32,), "rounds": 2},
            "generate": {"peers": ("Marian",), "limit": 16, "rounds": 3},
        },
        threads=2,
        packages=("transformers",),
    ),
)
