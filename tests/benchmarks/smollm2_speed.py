"""SmolLM2 in `CausalLM` against the same weights in `LlamaForCausalLM` of `transformers`, both with key-value caches."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from tests.benchmarks.benchmark import Benchmark, Shown, at_least
from tests.benchmarks.timing import seconds
from utils.build.downloads import SMOLLM2, fetch
from utils.models.decoding import generate
from utils.models.gguf import GGUFFile
from utils.models.language_models import EncoderConfig
from utils.models.pretrained import SMOLLM2_FILE, PretrainedDecoder, load_smollm2

PROMPT = "The city lies on both banks of a wide river, and every morning before sunrise"


def smollm2_speed(count: int = 48, rounds: int = 9, threads: int = 2) -> dict:
    """Tokens per second of the published model on this machine, and the speedup over `transformers`; see `compare`."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        smollm2, file = load_smollm2(fetch(SMOLLM2)), GGUFFile(fetch(SMOLLM2) / SMOLLM2_FILE)
        return {"threads": threads} | compare(smollm2, reference_llama(smollm2.model.config, file), count, rounds)
    finally:
        torch.set_num_threads(before)


def compare(
    smollm2: PretrainedDecoder,
    reference: nn.Module,
    count: int,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict:
    """Tokens per second of greedy decoding with the cache, and its speedup over `transformers`.

    "generate" is the speedup over its `generate`, "loop" over a bare loop over its model and cache, without the checks and
    options of `generate`. All generate `count` tokens after the same prompt, and first have to generate the same ones. The
    three take turns in one process; each result is the median over rounds. clock: see `cost_ratio`.
    """
    prompt_ids = smollm2.tokenizer.encode(PROMPT)
    runs = {
        "course": lambda: list(generate(smollm2.model, prompt_ids, count, temperature=0)),
        "generate": lambda: reference_generate(reference, prompt_ids, count),
        "loop": lambda: reference_loop(reference, prompt_ids, count),
    }
    generated = {name: run() for name, run in runs.items()}
    if not generated["course"] == generated["generate"] == generated["loop"] or len(generated["course"]) != count:
        raise AssertionError(f"expected {count} tokens, the same from all, got {generated}")
    times = []
    for number in range(rounds):
        order = list(runs) if number % 2 else list(runs)[::-1]
        times.append({name: seconds(runs[name], 1, clock) for name in order})
    return {
        "num_tokens": count,
        "tokens_per_second": round(statistics.median(count / taken["course"] for taken in times), 1),
        "generate": round(statistics.median(taken["generate"] / taken["course"] for taken in times), 2),
        "loop": round(statistics.median(taken["loop"] / taken["course"] for taken in times), 2),
    }


@torch.no_grad()
def reference_generate(model: nn.Module, prompt_ids: list[int], count: int) -> list[int]:
    prompt = torch.tensor([prompt_ids])
    token_ids = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        use_cache=True,
    )
    return token_ids[0, len(prompt_ids) :].tolist()


@torch.no_grad()
def reference_loop(model: nn.Module, prompt_ids: list[int], count: int) -> list[int]:
    from transformers import DynamicCache

    cache, new, generated = DynamicCache(config=model.config), torch.tensor([prompt_ids]), []
    for _ in range(count):
        logits = model(new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        new = logits[:, -1].argmax(-1, keepdim=True)
        generated.append(new.item())
    return generated


def reference_llama(config: EncoderConfig, tensors: Mapping[str, Tensor], **options) -> nn.Module:
    """`LlamaForCausalLM` with tensors of GGUF's names; needs the package `transformers`, which the course itself does not."""
    from transformers import LlamaConfig, LlamaForCausalLM

    llama_config = LlamaConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.dim,
        intermediate_size=config.hidden_dim,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_kv_heads,
        max_position_embeddings=config.max_len,
        rms_norm_eps=config.eps,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        **options,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(llama_config)
    state = dict(reference_tensors(tensors, config))
    model.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]}, assign=True)
    model.tie_weights()
    # Buffers that are computed, not stored, are still on "meta".
    model.model.rotary_emb = type(model.model.rotary_emb)(llama_config)
    return model.eval()


REFERENCE_NAMES = {
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


def reference_tensors(tensors: Mapping[str, Tensor], config: EncoderConfig) -> Iterator[tuple[str, Tensor]]:
    """Tensors of GGUF's names under those of `LlamaForCausalLM`."""
    yield "model.embed_tokens.weight", tensors["token_embd.weight"]
    yield "model.norm.weight", tensors["output_norm.weight"]
    for n in range(config.num_layers):
        for name, reference_name in REFERENCE_NAMES.items():
            tensor = tensors[f"blk.{n}.{name}.weight"]
            if name in ("attn_q", "attn_k"):
                tensor = _split_pairs(tensor, config.num_heads if name == "attn_q" else config.num_kv_heads)
            yield f"model.layers.{n}.{reference_name}.weight", tensor


def _split_pairs(tensor: Tensor, num_heads: int) -> Tensor:
    """The rows that RoPE rotates together, neighbors in GGUF, half a head apart, as `transformers` expects them."""
    return tensor.view(num_heads, -1, 2, tensor.size(1)).transpose(1, 2).reshape_as(tensor)


def show(result: dict) -> Shown:
    return Shown(
        "SmolLM2-135M on the course's own blocks",
        f"Greedy decoding of {result['num_tokens']} tokens with KV cache: {result['tokens_per_second']:g} tokens per second.",
        ("compared with, on the same weights", "speedup"),
        [
            ("`generate` of `transformers`", f"{result['generate']:g}x"),
            ("a bare loop over its model", f"{result['loop']:g}x"),
        ],
        [
            at_least("SmolLM2, tokens per second", result["tokens_per_second"], 8),
            at_least("SmolLM2, speedup over `generate`", result["generate"], 1.05, "x"),
        ],
    )


BENCHMARKS = (
    Benchmark(
        "smollm2_speed", "09", smollm2_speed, show, {"count": 4, "rounds": 2}, threads=2, packages=("transformers",)
    ),
)
