"""The encoder that lesson 07 loads and lesson 08 fine-tunes: trained once, for longer than a lesson has time, and stored in `data/encoder`.

    python -m utils.training.stored_encoder        trains it anew and writes the folder (minutes, on one thread)

The tokenizer travels with it. Docstrings differ from one Python to the next, and so do pieces learnt from them; an encoder is of
no use with other pieces than its own.
"""

import json
import platform
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from utils.data import checksums
from utils.training.pretraining import LONG, build, pretrain

FOLDER = checksums.DATA / "encoder"
WEIGHTS, ABOUT = "encoder.safetensors", "encoder.json"
AGAIN = "write it anew with `python -m utils.training.stored_encoder`"
# What `pretrain` returns and the lesson needs, beside the parameters.
TOLD = (
    "objective",
    "seed",
    "settings",
    "length",
    "held_out",
    "perplexity",
    "unigram",
    "parameters",
    "seconds",
    "read",
    "subwords",
)


class StoredEncoderError(ValueError):
    """Files that are missing or do not fit together; the message says which and how to write them anew."""


def encoder_files(folder: Path = FOLDER) -> list[Path]:
    return [folder / name for name in (WEIGHTS, ABOUT)]


def store_encoder(result: dict, folder: Path = FOLDER) -> None:
    """Write a result of `pretrain` as two files: parameters, and everything else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    # Tied parameters share memory, which the format does not allow.
    save_file({name: value.contiguous().clone() for name, value in result["state"].items()}, folder / WEIGHTS)
    about = {name: result[name] for name in TOLD} | {"python": platform.python_version()}
    (folder / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored_encoder(folder: Path = FOLDER) -> dict:
    """The stored result, as `pretrain` returned it (without the losses of its steps); for `restore_pretrained` and fine-tuning."""
    for name in (WEIGHTS, ABOUT):
        if not (folder / name).is_file():
            raise StoredEncoderError(f"expected {name} in {folder}; {AGAIN}")
        checksums.verify(folder / name, checksums.DATA)
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        state = load_file(folder / WEIGHTS)
    except (ValueError, SafetensorError) as problem:
        raise StoredEncoderError(f"a file in {folder} cannot be read ({problem}); {AGAIN}") from problem
    if missing := [name for name in TOLD if name not in about]:
        raise StoredEncoderError(f"{folder / ABOUT} lacks {', '.join(missing)}; {AGAIN}")
    wanted = {name: value.shape for name, value in build(about["objective"], about["settings"]).state_dict().items()}
    found = {name: value.shape for name, value in state.items()}
    if wanted != found:
        odd = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise StoredEncoderError(f"{WEIGHTS} and {ABOUT} do not fit: {', '.join(odd[:3])} differ; {AGAIN}")
    return {**about, "state": state}


def main() -> None:
    result = pretrain("masked", **LONG)
    store_encoder(result)
    checksums.write_checksums()
    print(
        f"stored in {FOLDER}: perplexity {result['perplexity']:.0f} at hidden pieces of other modules, "
        f"{result['seconds']:.0f} s of training"
    )


if __name__ == "__main__":
    main()
