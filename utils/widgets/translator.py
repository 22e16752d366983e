"""The parameters and vocabularies of a Transformer as `static/transformer.js` reads them; those in `data/translator` by name."""

import base64
import json

from safetensors.numpy import save

from utils import paths
from utils.plots.style import as_array

FOLDER = paths.ROOT / "data" / "translator"
STORED = "stored"  # stands in a notebook for the stored translator; a page holds the bundle itself
MAX_WORDS = 26  # no sentence of the corpus has more
SPECIAL = ("pad", "bos", "eos", "unk")


def stored_bundle() -> dict:
    facts = json.loads((FOLDER / "translator.json").read_text(encoding="utf-8"))
    weights = (FOLDER / "translator.safetensors").read_bytes()
    return _bundle(facts["settings"], facts["source_tokens"], facts["target_tokens"], weights)


def model_bundle(model, source_vocabulary, target_vocabulary) -> dict:
    """Of a Transformer with the parameter names of lesson 06, rounded to half precision."""
    state = {name: as_array(tensor).astype("<f2") for name, tensor in model.state_dict().items()}
    if "encoder.norm.weight" not in state or "decoder.norm.weight" not in state:
        raise ValueError("expected a pre-norm Transformer with a norm behind both stacks, as in lesson 06")
    if getattr(model.source_embedding, "positions", "sinusoidal") != "sinusoidal":
        raise ValueError(f"expected sinusoidal positions, got {model.source_embedding.positions}")
    layers = model.encoder.layers
    settings = {
        "dim": state["lm_head.weight"].shape[1],
        "num_heads": layers[0].self_attn.num_heads,
        "hidden_dim": len(state["encoder.layers.0.feed_forward.linear1.bias"]),
        "num_layers": len(layers),
    }
    return _bundle(settings, source_vocabulary.words, target_vocabulary.words, save(state))


def _bundle(settings, source_tokens, target_tokens, weights: bytes) -> dict:
    names = ("dim", "num_heads", "hidden_dim", "num_layers")
    return {
        "config": {**{name: settings[name] for name in names}, "max_len": MAX_WORDS},
        "source_tokens": list(source_tokens),
        "target_tokens": list(target_tokens),
        "special": {f"{name}_id": list(source_tokens).index(f"<{name}>") for name in SPECIAL},
        "weights": base64.b64encode(weights).decode("ascii"),
    }
