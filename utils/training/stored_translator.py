"""The trained translator in `data/translator`: the Transformer of lesson 06 with half-precision parameters and its vocabularies.

Trained with the budget of the comparison in lesson 06, three times that of the lesson itself.

python -m utils.training.stored_translator        trains it again and writes the folder (minutes, on one thread)
"""

import json
import platform
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from utils.data import checksums
from utils.data.tokens import Vocabulary
from utils.models.transformer import Transformer
from utils.training.transformer import HeadChoice, TrainedTransformer, steps_per_epoch, train_transformer
from utils.training.translation import EPOCHS, measurements, pairs_and_words

FOLDER = checksums.DATA / "translator"
WEIGHTS, CONFIG = "translator.safetensors", "translator.json"
SCORES = ("exact", "bleu", "alignment_error")


def translator_files(folder: Path = FOLDER) -> list[Path]:
    return [folder / name for name in (WEIGHTS, CONFIG)]


def rounded(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Parameters as half precision keeps them, in single precision."""
    return {name: tensor.half().float() for name, tensor in state.items()}


def store_translator(result: dict, folder: Path = FOLDER) -> None:
    """Write a result of `train_transformer` as two files: the parameters in half precision, and everything else as JSON.

    The scores are those of the rounded parameters, on all held-out pairs.
    """
    data, english, french = pairs_and_words(result["num_pairs"])
    model = Transformer(len(english), len(french), **result["settings"])
    model.load_state_dict(rounded(result["state"]))
    head = {name: result["alignment_head"][name] for name in ("layer", "head")}
    scores = measurements(TrainedTransformer(model, english, french, HeadChoice(**head)), data)
    config = {
        "settings": result["settings"],
        "num_pairs": result["num_pairs"],
        "num_steps": len(result["loss"]),
        "parameters": scores["parameters"],
        "held_out": {"pairs": len(data.test), **{name: scores[name] for name in SCORES}},
        "longer": {"pairs": len(data.longer), **{name: scores["longer"][name] for name in SCORES}},
        "alignment_head": head,
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "source_tokens": english.words,
        "target_tokens": french.words,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.half().contiguous() for name, tensor in result["state"].items()}, folder / WEIGHTS)
    (folder / CONFIG).write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def translator_config(folder: Path = FOLDER) -> dict:
    """What is stored with the parameters. ChecksumError if a file of the course's own translator is missing or damaged."""
    for path in translator_files(folder):
        checksums.verify(path, checksums.DATA)
    return json.loads((folder / CONFIG).read_text(encoding="utf-8"))


def stored_translator(folder: Path = FOLDER) -> TrainedTransformer:
    """The stored translator, ready to translate; its parameters in single precision."""
    config = translator_config(folder)
    english, french = (Vocabulary(config[name][4:]) for name in ("source_tokens", "target_tokens"))
    model = Transformer(len(english), len(french), **config["settings"])
    model.load_state_dict({name: tensor.float() for name, tensor in load_file(folder / WEIGHTS).items()})
    return TrainedTransformer(model, english, french, HeadChoice(**config["alignment_head"]))


def main() -> None:
    result = train_transformer(num_steps=EPOCHS * steps_per_epoch(pairs_and_words()[0].train))
    store_translator(result)
    checksums.write_checksums()
    held_out = translator_config()["held_out"]
    print(
        f"stored in {FOLDER}: {100 * held_out['exact']:.1f} % of {held_out['pairs']} held-out sentences translated exactly, "
        f"BLEU {held_out['bleu']:.1f}, {result['seconds']:.0f} s of training"
    )


if __name__ == "__main__":
    main()
