"""The pretrained encoder in `data/encoder`, with its tokenizer: trained once, for longer than a lesson has time.

python -m utils.training.stored_encoder        trains it again and writes the folder, in minutes
"""

import json
import platform
from pathlib import Path

from safetensors.torch import load_file, save_file

from utils.data import checksums
from utils.training.pretraining import LONG, pretrain

FOLDER = checksums.DATA / "encoder"
WEIGHTS, CONFIG = "encoder.safetensors", "encoder.json"
TIED = {"lm_head.weight": "embedding.token_embedding.weight"}  # stored once
NOT_STORED = ("loss", "ngrams", "state_dict")  # the parameters have a file of their own


def encoder_files(folder: Path = FOLDER) -> list[Path]:
    return [folder / name for name in (WEIGHTS, CONFIG)]


def store_encoder(result: dict, folder: Path = FOLDER) -> None:
    """Write a result of `pretrain` as two files: the parameters, and everything else as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.contiguous() for name, tensor in result["state_dict"].items() if name not in TIED}
    save_file(state, folder / WEIGHTS)
    config = {name: value for name, value in result.items() if name not in NOT_STORED}
    config["python"] = platform.python_version()
    (folder / CONFIG).write_text(json.dumps(config, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def stored_encoder(folder: Path = FOLDER) -> dict:
    """The stored result of `pretrain`, without its training loss; for `restore_pretrained` and fine-tuning.

    ChecksumError if a file of the course's own encoder is missing or damaged.
    """
    weights, config = encoder_files(folder)
    for path in (weights, config):
        checksums.verify(path, checksums.DATA)
    state = load_file(weights)
    state |= {name: state[source] for name, source in TIED.items()}
    return {**json.loads(config.read_text(encoding="utf-8")), "state_dict": state}


def main() -> None:
    result = pretrain("masked", **LONG)
    store_encoder(result)
    checksums.write_checksums()
    print(
        f"stored in {FOLDER}: perplexity {result['perplexity']:.0f} at [MASK] in held-out text, "
        f"{result['seconds']:.0f} s of training"
    )


if __name__ == "__main__":
    main()
