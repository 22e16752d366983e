"""SmolLM2 on the course's own blocks against the same weights in `transformers`' LlamaForCausalLM, both with their caches."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.timing import seconds
from utils.build.downloads import SMOLLM2, fetch
from utils.models.gguf import GGUFFile
from utils.models.llama import FILE, LlamaSizes, PretrainedDecoder, load_smollm2, write

BEGINNING = "The city lies on both banks of a wide river, and every morning before sunrise"


def smollm2_speed(count: int = 48, rounds: int = 9, threads: int = 2) -> dict:
    """How fast the published model writes on this machine, and against `transformers`; see `compared`."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        real, file = load_smollm2(fetch(SMOLLM2)), GGUFFile(fetch(SMOLLM2) / FILE)
        return {"threads": threads} | compared(real, their_llama(real.model.sizes, file), count, rounds)
    finally:
        torch.set_num_threads(before)


def compared(
    real: PretrainedDecoder,
    theirs: nn.Module,
    count: int,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict:
    """Pieces a second of cached greedy writing, and how many times as fast as `transformers` it is.

    "generate" is against its `generate`, "loop" against the barest loop over its model and cache, without the checks and the
    options of `generate`. All write `count` pieces from the same beginning, and have to write the same ones before the clock
    runs. The three take turns in one process; each number is the median over rounds. clock: see `cost_ratio`.
    """
    numbers = real.splitter.encode(BEGINNING)
    ways = {
        "ours": lambda: list(write(real.model, numbers, count, temperature=0)),
        "generate": lambda: their_generate(theirs, numbers, count),
        "loop": lambda: their_loop(theirs, numbers, count),
    }
    written = {name: way() for name, way in ways.items()}
    if not written["ours"] == written["generate"] == written["loop"] or len(written["ours"]) != count:
        raise AssertionError(f"expected {count} pieces, the same from all, got {written}")
    times = []
    for number in range(rounds):
        order = list(ways) if number % 2 else list(ways)[::-1]
        times.append({name: seconds(ways[name], 1, clock) for name in order})
    return {
        "pieces": count,
        "pieces_a_second": round(statistics.median(count / taken["ours"] for taken in times), 1),
        "generate": round(statistics.median(taken["generate"] / taken["ours"] for taken in times), 2),
        "loop": round(statistics.median(taken["loop"] / taken["ours"] for taken in times), 2),
    }


@torch.no_grad()
def their_generate(model: nn.Module, numbers: list[int], count: int) -> list[int]:
    given = torch.tensor([numbers])
    written = model.generate(
        given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        use_cache=True,
    )
    return written[0, len(numbers) :].tolist()


@torch.no_grad()
def their_loop(model: nn.Module, numbers: list[int], count: int) -> list[int]:
    from transformers import DynamicCache

    cache, new, written = DynamicCache(config=model.config), torch.tensor([numbers]), []
    for _ in range(count):
        logits = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        new = logits[:, -1].argmax(-1, keepdim=True)
        written.append(new.item())
    return written


def their_llama(sizes: LlamaSizes, tensors: Mapping[str, Tensor], **options) -> nn.Module:
    """LlamaForCausalLM with tensors of the published names; needs the package `transformers`, which the course itself does not."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=sizes.words,
        hidden_size=sizes.dim,
        intermediate_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.key_heads,
        max_position_embeddings=sizes.positions,
        rms_norm_eps=sizes.eps,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.base},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        **options,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    found = dict(_their_tensors(tensors, sizes))
    model.load_state_dict(found | {"lm_head.weight": found["model.embed_tokens.weight"]}, assign=True)
    model.tie_weights()
    # What is computed and not stored is still on "meta".
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


THEIR_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _their_tensors(tensors: Mapping[str, Tensor], sizes: LlamaSizes) -> Iterator[tuple[str, Tensor]]:
    yield "model.embed_tokens.weight", tensors["token_embd.weight"]
    yield "model.norm.weight", tensors["output_norm.weight"]
    for n in range(sizes.layers):
        for ours, theirs in THEIR_NAMES.items():
            tensor = tensors[f"blk.{n}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):
                tensor = _halves(tensor, sizes.heads if ours == "attn_q" else sizes.key_heads)
            yield f"model.layers.{n}.{theirs}.weight", tensor


def _halves(tensor: Tensor, heads: int) -> Tensor:
    """Rows that turn together, neighbours in the file, half a head apart, as `transformers` has them."""
    return tensor.view(heads, -1, 2, tensor.size(1)).transpose(1, 2).reshape_as(tensor)


def show(result: dict) -> Shown:
    return Shown(
        "SmolLM2-135M on the course's own blocks",
        f"Greedy decoding of {result['pieces']} tokens with KV cache: {result['pieces_a_second']:g} tokens per second.",
        ("compared with, on the same weights", "speedup"),
        [
            ("`generate` of `transformers`", f"{result['generate']:g}x"),
            ("a bare loop over its model", f"{result['loop']:g}x"),
        ],
        [
            at_least("SmolLM2, tokens per second", result["pieces_a_second"], 8),
            at_least("SmolLM2, speedup over `generate`", result["generate"], 1, "x"),
        ],
    )


BENCHMARKS = (
    Benchmark(
        "smollm2_speed", "09", smollm2_speed, show, {"count": 4, "rounds": 2}, threads=2, packages=("transformers",)
    ),
)
