"""The pretrained encoder in `data/encoder`, with its tokenizer: trained once, for longer than a lesson has time.

python -m utils.training.stored_encoder        trains it again and writes the folder (minutes, on one thread)
"""

import json
import platform
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from utils.data import checksums
from utils.training.pretraining import LONG, build, pretrain

FOLDER = checksums.DATA / "encoder"
WEIGHTS, CONFIG = "encoder.safetensors", "encoder.json"
TIED = {"lm_head.weight": "embedding.token_embedding.weight"}  # stored once
HINT = "write it again with `python -m utils.training.stored_encoder`"
KEYS = (
    "objective",
    "seed",
    "settings",
    "length",
    "held_out",
    "perplexity",
    "unigram",
    "parameters",
    "seconds",
    "num_tokens",
    "tokenizer",
)


class StoredEncoderError(ValueError):
    """Files that are missing, damaged or do not fit together."""


def encoder_files(folder: Path = FOLDER) -> list[Path]:
    return [folder / name for name in (WEIGHTS, CONFIG)]


def store_encoder(result: dict, folder: Path = FOLDER) -> None:
    """Write a result of `pretrain` as two files: the parameters, and everything else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in result["state_dict"].items() if name not in TIED}
    save_file(state, folder / WEIGHTS)
    config = {name: result[name] for name in KEYS} | {"python": platform.python_version()}
    (folder / CONFIG).write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored_encoder(folder: Path = FOLDER) -> dict:
    """The stored result of `pretrain`, without its training loss; for `restore_pretrained` and fine-tuning."""
    for path in encoder_files(folder):
        if not path.is_file():
            raise StoredEncoderError(f"expected {path.name} in {folder}; {HINT}")
        checksums.verify(path, checksums.DATA)
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        state = load_file(folder / WEIGHTS)
    except (ValueError, SafetensorError) as problem:
        raise StoredEncoderError(f"a file in {folder} cannot be read ({problem}); {HINT}") from problem
    if missing := [name for name in KEYS if name not in config]:
        raise StoredEncoderError(f"{folder / CONFIG} lacks {', '.join(missing)}; {HINT}")
    state |= {name: state[source] for name, source in TIED.items() if source in state}
    expected = build(config["objective"], config["settings"]).state_dict()
    different = [
        name
        for name in sorted(expected.keys() | state.keys())
        if name not in expected or name not in state or expected[name].shape != state[name].shape
    ]
    if different:
        raise StoredEncoderError(f"{WEIGHTS} and {CONFIG} do not fit: {', '.join(different[:3])} differ; {HINT}")
    return {**config, "state_dict": state}


def main() -> None:
    result = pretrain("masked", **LONG)
    store_encoder(result)
    checksums.write_checksums()
    print(
        f"stored in {FOLDER}: perplexity {result['perplexity']:.0f} at masked tokens of held-out modules, "
        f"{result['seconds']:.0f} s of training"
    )


if __name__ == "__main__":
    main()
