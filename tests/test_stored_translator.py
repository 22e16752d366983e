"""Facts about the stored translator: it survives a round trip, and its stored scores are true."""

import pytest
import torch

from utils.data import checksums
from utils.training.stored_translator import (
    FOLDER,
    rounded,
    store_translator,
    stored_translator,
    translator_config,
    translator_files,
)
from utils.training.transformer import train_transformer
from utils.training.translation import pairs_and_words, scores

MOST_BYTES = 1_500_000  # pages hold these files


def test_a_stored_translator_loads_as_it_was_rounded(tmp_path):
    sizes = {"dim": 8, "num_heads": 2, "hidden_dim": 16, "num_layers": 1}
    result = train_transformer.__wrapped__(num_steps=2, num_pairs=300, num_test=20, **sizes)
    store_translator(result, tmp_path)
    loaded = stored_translator(tmp_path)
    state = loaded.model.state_dict()
    assert state.keys() == result["state"].keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in rounded(result["state"]).items())
    _, english, french = pairs_and_words(300)
    assert (loaded.english.words, loaded.french.words) == (english.words, french.words)
    assert not loaded.model.training


def test_the_committed_translator_has_its_stored_scores():
    config, pairs = translator_config(), pairs_and_words()[0]
    assert config["held_out"]["exact"] >= 0.99
    found = scores(stored_translator(), pairs.test)
    assert len(pairs.test) == config["held_out"]["pairs"]
    for name in ("exact", "bleu", "alignment_error"):
        assert found[name] == pytest.approx(config["held_out"][name], rel=0.005)


def test_its_files_are_small_and_in_the_list_of_checksums():
    assert sum(path.stat().st_size for path in translator_files()) < MOST_BYTES
    names = {path.relative_to(checksums.DATA).as_posix() for path in translator_files()}
    assert names <= checksums.read_checksums().keys()


def test_the_model_card_has_the_stored_scores():
    card, config = (FOLDER / "README.md").read_text(encoding="utf-8"), translator_config()
    assert f"{config['parameters']:,} parameters" in card
    for part in (config["held_out"], config["longer"]):
        row = next(line for line in card.splitlines() if line.startswith(f"| {part['pairs']:,} "))
        assert row.endswith(
            f"| {100 * part['exact']:.1f} % | {part['bleu']:.1f} | {100 * part['alignment_error']:.1f} % |"
        )
