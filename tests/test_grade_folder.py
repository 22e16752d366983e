"""Facts about grading a folder: no submission forges a verdict, harms another, or gets lost. The audit grades 200."""

import csv
import json
import threading

import psutil
import pytest
import torch

from tests import cohort
from utils.exercises.registry import find
from utils.grading import __main__ as command
from utils.grading import child, judge, report, sandbox, wire
from utils.grading.notebook import Notebook
from utils.grading.submissions import student_of
from utils.paths import ROOT
from utils.training import fingerprint

TRIED = [
    "replaces the judge",
    "says passed in the channel",
    "makes itself the reference",
    "asks the register",
    "never ends and catches all",
    "forks without end",
    "fills the memory",
    "fills the disk",
    "kills its parent",
    "edits the grader",
    "writes a formula into the table",
]
WALLED = ["fills the disk", "talks to the network", "reads other submissions", "edits the grader"]
BROKEN = ["empty", "cut off", "format 3", "another course", "no such lesson", "nested"]


def small(code: str) -> dict:
    return cohort.short(cohort.with_answer(code), "1.1", "1.2")


def machine() -> tuple:
    """What a submission must leave as it was: no process more, and the course untouched."""
    code = fingerprint.digest(*(path.read_bytes() for path in sorted((ROOT / "utils").rglob("*.py"))))
    return set(psutil.Process().children(recursive=True)), code


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """One cohort, graded once: its rows by file and exercise, the folder of tables, and the messages that the odd files must get."""
    base = tmp_path_factory.mktemp("cohort")
    folder, outside = base / "handed in", base / "outside"
    folder.mkdir()
    for number, name in enumerate(TRIED):
        cohort.write(folder, f"attack{number}/01_softmax_attention.ipynb", small(cohort.ATTACKS[name]))
    files = cohort.broken_files()
    for number, name in enumerate(BROKEN):
        cohort.write(folder, f"broken{number}_01.ipynb", files[name].data)
    for name, code in (("right", cohort.RIGHT), ("naive", cohort.NAIVE), ("naïve copy", cohort.NAIVE)):
        cohort.write(folder, f"{name}_01.ipynb", small(code))
    cohort.write(folder, "naïve copy_01 (1).ipynb", small(cohort.NAIVE + "# again\n"))
    cohort.write(folder, "two\nlines_01.ipynb", cohort.short(cohort.lesson("01"), "1.1", "1.2"))
    cohort.write(folder, "fake/01.ipynb", small(cohort.RIGHT))
    cohort.fake_course(folder / "fake")
    odd = cohort.odd_places(folder, outside)
    odd |= {f"broken{number}_01.ipynb": files[name].says for number, name in enumerate(BROKEN)}
    before = machine()
    assert command.main([str(folder), "--seconds", "4"]) == 0
    assert machine() == before
    out = base / "handed in-grades"
    return rows_of(out, "file"), out, odd


def rows_of(out, key: str) -> dict[str, dict[str, dict]]:
    rows: dict[str, dict[str, dict]] = {}
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row[key], {})[row["exercise"]] = row
    return rows


@pytest.mark.parametrize("number", range(len(TRIED)), ids=TRIED)
def test_an_attack_does_not_pass_and_leaves_the_next_exercise_alone(graded, number):
    rows = graded[0][f"attack{number}/01_softmax_attention.ipynb"]
    assert rows["1.1"]["status"] == "failed"
    assert rows["1.1"]["message"]
    assert rows["1.2"]["status"] == "passed"


def test_a_forged_verdict_and_a_borrowed_solution_are_named(graded):
    for name in ("replaces the judge", "says passed in the channel", "makes itself the reference", "asks the register"):
        row = graded[0][f"attack{TRIED.index(name)}/01_softmax_attention.ipynb"]["1.1"]
        assert row["message"] == (judge.COPIED if name == "asks the register" else judge.TAMPERED)


def test_a_broken_file_and_what_only_looks_like_a_notebook_get_a_row_that_says_what_to_do(graded):
    rows, _, odd = graded
    for name, says in odd.items():
        (row,) = rows[name].values()
        assert row["status"] == "unreadable", name
        assert says in row["message"], name
    assert not any("inner" in name or "secret" in name for name in rows)


def test_right_wrong_and_untouched_answers_get_what_a_notebook_would_say(graded):
    for name in ("right_01.ipynb", "fake/01.ipynb"):  # a course of the student's own is never loaded
        assert graded[0][name]["1.1"]["status"] == "passed"
    naive = graded[0]["naive_01.ipynb"]["1.1"]
    assert naive["status"] == "failed"
    assert naive["message"].startswith("Large logits overflow")
    untouched = graded[0]["two\\nlines_01.ipynb"]
    assert {row["status"] for row in untouched.values()} == {"not attempted", "missing"}
    assert "new student notebook" in untouched["1.3"]["message"]


def test_misconceptions_are_counted_by_students_not_by_files(graded):
    with open(graded[1] / "misconceptions.csv", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "overflow" in row["misconception"]]
    assert [(row["exercise"], row["students"], row["who"]) for row in rows] == [("1.1", "2", "naive, naïve copy")]
    page = (graded[1] / "grades.md").read_text(encoding="utf-8")
    assert "naïve copy submitted 2 files for one lesson" in page


def test_the_tables_are_safe_to_open(graded):
    everything = "".join(path.read_text(encoding="utf-8") for path in graded[1].glob("*.md"))
    assert "&lt;script&gt;" in everything
    assert "<script" not in everything and "\x1b" not in everything and "\u202e" not in everything
    assert report.as_csv(("a",), [("=1+1",), ("@x",), ("fine",)]).split() == ["a", "'=1+1", "'@x", "fine"]


def judge_with(monkeypatch, rows, close=lambda self: None):
    """A judge without a sandbox: `rows(data)` gives the rows of a file."""
    monkeypatch.setattr(judge.Judge, "__init__", lambda self, *args: None)
    monkeypatch.setattr(judge.Judge, "close", close)
    monkeypatch.setattr(judge.Judge, "rows", lambda self, data: rows(data))


def test_an_interrupted_run_writes_what_it_has_and_goes_on_later(monkeypatch, tmp_path):
    folder = tmp_path / "in"
    for name in ("a", "b", "c"):
        cohort.write(folder, f"{name}_01.ipynb", name.encode())
    answers = {b"a": [judge.Row("01", "1.1", "passed", "fine")], b"c": [judge.Row("01", "1.1", "failed", "late")]}
    stopped = threading.Event()

    def rows(data):
        if data == b"b" and b"b" not in answers:
            raise KeyboardInterrupt
        if data == b"c":
            assert stopped.wait(20)
        return answers[data]

    judge_with(monkeypatch, rows, close=lambda self: stopped.set())
    with pytest.raises(KeyboardInterrupt):
        command.main([str(folder), "--jobs", "1"])
    text = (tmp_path / "in-grades" / "grades.csv").read_text(encoding="utf-8")
    assert "a,01,1.1,passed,fine" in text and text.count("start the same command again to continue") == 2
    answers[b"b"] = [judge.Row("01", "1.1", "passed", "now")]
    del answers[b"a"]  # kept: nobody asks for it again
    assert command.main([str(folder), "--jobs", "1"]) == 0
    text = (tmp_path / "in-grades" / "grades.csv").read_text(encoding="utf-8")
    assert "a,01,1.1,passed,fine" in text and "passed,now" in text and "failed,late" in text
    answers[b"a"] = [judge.Row("01", "1.1", "failed", "again")]
    assert command.main([str(folder), "--jobs", "1", "--again"]) == 0
    assert "a,01,1.1,failed,again" in (tmp_path / "in-grades" / "grades.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([""], "make grade FOLDER="),
        (["nowhere"], "There is no folder nowhere"),
        (["empty"], "There is no notebook in"),
        (["in"], "bwrap"),  # without a sandbox nothing runs
        ([".", "--jobs", "0"], "--jobs must be at least 1"),
        ([".", "--out", "./inside"], "into the folder of the submissions"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(arguments, says, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    cohort.write(tmp_path / "in", "a_01.ipynb", b"{}")
    (tmp_path / "empty").mkdir()
    assert command.main(arguments) == 2
    said = capsys.readouterr().err
    assert says in said and len(said.strip().split("\n")) == 1


def test_a_bug_of_the_grader_costs_one_row_and_is_not_kept(monkeypatch, tmp_path):
    for name in ("a", "b"):
        cohort.write(tmp_path / "in", f"{name}_01.ipynb", name.encode())

    def rows(data):
        if data == b"a":
            raise ZeroDivisionError("in the grader")
        return [judge.Row("01", "1.1", "passed", "fine")]

    judge_with(monkeypatch, rows)
    assert command.main([str(tmp_path / "in")]) == 0
    text = (tmp_path / "in-grades" / "grades.csv").read_text(encoding="utf-8")
    assert "ZeroDivisionError: in the grader" in text and "b,01,1.1,passed,fine" in text
    assert len(list((tmp_path / "in-grades" / "kept").iterdir())) == 1


@pytest.mark.parametrize(
    ("present", "options"), [({"unshare"}, []), (set(), ["--unsafe"])], ids=["namespaces", "unsafe"]
)
def test_other_walls_than_bubblewraps_hold_what_they_promise(present, options, monkeypatch, tmp_path):
    """Namespaces by hand shut in as bubblewrap does. Without a wall there are still limits, and the verdicts are the same."""
    found = sandbox.shutil.which
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: found(name) if name in present else None)
    attacks = ["forks without end", "kills its parent", "says passed in the channel", *WALLED * bool(present)]
    for number, name in enumerate(attacks):
        cohort.write(tmp_path / "in", f"attack{number}_01.ipynb", small(cohort.ATTACKS[name]))
    for name, code in (("right", cohort.RIGHT), ("naive", cohort.NAIVE)):
        cohort.write(tmp_path / "in", f"{name}_01.ipynb", small(code))
    before = machine()
    assert command.main([str(tmp_path / "in"), "--seconds", "4", *options]) == 0
    assert machine() == before
    rows = rows_of(tmp_path / "in-grades", "student")
    for number, name in enumerate(attacks):
        row = rows[f"attack{number}"]
        assert row["1.1"]["status"] == "failed" and "READ" not in row["1.1"]["message"], name
        assert row["1.2"]["status"] == "passed", name
    assert rows["right"]["1.1"]["status"] == "passed"
    assert rows["naive"]["1.1"]["message"].startswith("Large logits overflow")


@pytest.mark.parametrize(
    ("path", "student"),
    [
        ("alice_01.ipynb", "alice"),
        ("01_alice.ipynb", "alice"),
        ("01_softmax_attention - Åsa Öberg.ipynb", "Åsa Öberg"),
        ("alice_01 (2).ipynb", "alice"),
        ("01_softmax_attention.ipynb", "01_softmax_attention"),
        ("alice/01_softmax_attention.ipynb", "alice"),
        ("alice/week 1/final.ipynb", "alice"),
        ("02_memory_network/alice/x.ipynb", "alice"),
        ("Ada Lovelace_77_assignsubmission_file_/01.ipynb", "Ada Lovelace_77_assignsubmission_file_"),
        ("two\nlines_01.ipynb", "two\\nlines"),
        ("A\u030asa_01.ipynb", "Åsa"),
    ],
)
def test_a_file_is_its_students(path, student):
    assert student_of(tuple(path.split("/"))) == student


def test_an_exercise_runs_with_what_it_needs_and_nothing_else():
    read = Notebook(
        [
            "import os, torch\nfrom math import pi, tau\nboom = 1 / 0",
            "%matplotlib inline\ntable = {}\ntable['a'] = 1\nother = train()",
            "def helper(x):\n    return late(x) * pi",
            "def late(x):\n    boom = 2\n    return x + table['a'] * boom\ntable.update(b=2)\nos.remove('x')",
            "def answer(x, other=3):\n    return helper(x)\nanswer = exercise('1.1').use(answer)",
            "later = answer(1)",
        ]
    )
    cell = read.cell_of("1.1", "answer")
    steps = read.needed(cell)
    code = "\n".join(child.notebook.ast.unparse(statement) for _, statements in steps for statement in statements)
    for part in (
        "from math import pi\n",
        "table = {}",
        "table['a'] = 1",
        "table.update(b=2)",
        "def helper",
        "def late",
    ):
        assert part in code
    for part in ("boom = 1", "tau", "other = train", "os", "later ="):
        assert part not in code.replace("boom = 2", "").replace("other=3", "")


def test_what_a_name_was_before_it_was_bound_anew_does_not_run():
    read = Notebook(
        [
            "model = train_for_hours()\nsize = 3\nscale = 1",
            "def helper(x):\n    return x * scale\nstart = helper(size)\nscale = 2",
            "model = 5",
            "size = slow()",
            "def answer(x):\n    return helper(x) + model + start\nanswer = exercise('1.1').use(answer)",
        ]
    )
    code = [child.notebook.ast.unparse(statement) for _, statements in read.needed(4) for statement in statements]
    assert "size = 3" in code and "scale = 1" in code and "scale = 2" in code and "model = 5" in code
    assert "model = train_for_hours()" not in code and "size = slow()" not in code


def test_an_answer_whose_last_line_was_lost_is_found_by_its_name():
    read = Notebook(["def softmax(x):\n    return x", "def other():\n    softmax(1)"])
    assert read.cell_of("1.1", "softmax") == 0
    assert read.cell_of("1.2", "jacobian") is None


def test_plain_values_come_back_as_they_were_and_others_as_a_name_only():
    tensors = [torch.randn(2, 3).to(dtype) for dtype in wire.DTYPES.values()]
    plain = [None, True, 3, 2**80, 0.1, float("nan"), "é", ..., (1, [2.0]), {"a": tensors[0], 2: ()}, {1, 2}]
    for value in [*plain, *tensors, tensors[0].numpy()[0], torch.empty(0, 3)]:
        back = wire.decode(json.loads(json.dumps(wire.encode(value))))
        assert type(back) is type(value)
        assert torch.equal(back, value) if isinstance(value, torch.Tensor) else repr(back) == repr(value)
    assert repr(wire.decode(wire.encode(object()))) == "(of type object)"
    assert repr(wire.decode(wire.encode(torch.eye(2).to_sparse()))) == "(of type a tensor without plain values)"


@pytest.mark.parametrize(
    "coded",
    [
        {"tensor": ["float32", [2**40], ""]},
        {"tensor": ["float32", [4], "AAAA"]},
        {"tensor": ["object", [1], "AAAA"]},
        {"tensor": ["bool", [3], "AgIC"]},
        {"tensor": ["float32", [0] + [2**31 - 1] * 15, "AA=="]},
        {"set": [{"list": []}]},
        {"dict": [[{"list": []}, 1]]},
        {"float": "a lot"},
        {"eval": "1"},
        [1],
        {},
        {"list": {"list": 1}},
    ],
)
def test_a_malformed_value_is_refused(coded):
    with pytest.raises(wire.Broken):
        wire.decode(coded)


def test_a_verdict_from_the_sandbox_counts_only_with_the_right_values():
    item = find("1.1")
    cases, seed = child.draw(item, 5)
    replies = [child.said(item, item.reference, case, seed) for case in cases]
    right, off, cut = (json.loads(json.dumps(replies)) for _ in range(3))
    assert judge.stands(item, 5, sandbox.Reply("value", {"value": right})) == ""
    off[3]["calls"][0]["value"] = wire.encode(torch.zeros(4, 4))
    cut[0]["flow"] = cut[0]["double"] = None
    for forged in (off, cut, right[:-1], [], [None] * len(right), [{}] * len(right), "passed", None):
        assert judge.stands(item, 5, sandbox.Reply("value", {"value": forged})) == judge.TAMPERED
    assert judge.stands(item, 6, sandbox.Reply("value", {"value": right})) == judge.TAMPERED
    assert judge.stands(item, 5, sandbox.Reply("timeout")) == judge.TAMPERED
