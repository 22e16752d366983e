"""A lesson whose downloads are missing runs to its end, and says what is missing and how to get it."""

import torch

from utils.build import downloads
from utils.build.notebooks import read_lesson
from utils.build.source import CHECKS
from utils.training import fine_tuning


def test_lesson_08_without_its_downloads_runs_to_its_end_and_says_how_to_get_them(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("COURSE_DOWNLOADS", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "BY_HAND", tmp_path / "by hand")
    monkeypatch.setattr(downloads, "try_to_load_from_cache", lambda model, file: None)
    # Nothing needs to be trained well here.
    monkeypatch.setattr(fine_tuning, "predict_logits", lambda model, texts: torch.zeros(len(texts), 14))
    monkeypatch.setattr(fine_tuning, "masked_loss", lambda body, text, num_windows: 4.0)
    messages = []
    monkeypatch.setattr(downloads, "show_live", messages.append)
    cells = [cell for cell in read_lesson("08_fine_tune_and_transfer").cells if cell.cell_type == "code"]
    lesson = {"__name__": "lesson"}
    for cell in cells:
        if CHECKS not in cell.metadata.get("tags", []):
            exec(cell.source, lesson)
    assert "board()" in cells[-1].source and lesson["minilm"] is None
    assert [message.split(":")[0] for message in messages] == ["minilm", "reviews"]
    assert all("connect to the internet once and run `make downloads`" in message for message in messages)
