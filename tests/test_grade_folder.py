"""Facts about grading a folder: no submission forges a verdict, harms another, or gets lost. The audit grades 200."""

import contextlib
import csv
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch

from tests import cohort
from tests.audit.grading import refused_from_outside
from tests.bank import entries
from utils.checks import isolation
from utils.checks.isolation import run_isolated
from utils.exercises.registry import PASSED, find
from utils.grading import __main__ as command
from utils.grading import child, judge, notebook, report, sandbox, wire
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
    "kills its neighbors through a file",
    "returns keys that collide",
    "keeps the solution for a later process",
    "stores memory in shared segments",
    "tries every wall",
    "reads other submissions",
    "writes a formula into the table",
]
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
    cohort.write(folder, "odd_01.ipynb", cohort.odd_but_right())
    cohort.write(folder, "double_01.ipynb", cohort.in_double())
    cohort.write(folder, "collusion_01.ipynb", cohort.short(cohort.collusion(), "1.1", "1.2"))
    odd = cohort.odd_places(folder, outside)
    odd |= {f"broken{number}_01.ipynb": files[name].says for number, name in enumerate(BROKEN)}
    before = machine()
    libc = ctypes.CDLL(None)
    libc.syscall(250, 1, None)  # a session keyring, as a login has one, with a key that is nobody's business
    libc.syscall(248, b"user", b"kept outside", b"secret", 6, -3)
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
    assert rows["1.1"]["message"] and "READ" not in rows["1.1"]["message"]
    assert rows["1.2"]["status"] == "passed"


def test_a_forged_verdict_and_a_borrowed_solution_are_named(graded):
    for name in ("replaces the judge", "says passed in the channel", "makes itself the reference", "asks the register"):
        row = graded[0][f"attack{TRIED.index(name)}/01_softmax_attention.ipynb"]["1.1"]
        assert row["message"] == (judge.COPIED if name == "asks the register" else judge.TAMPERED)


def test_every_wall_holds_and_no_process_passes_a_solution_on(graded):
    rows = graded[0]
    assert "open: []" in rows[f"attack{TRIED.index('tries every wall')}/01_softmax_attention.ipynb"]["1.1"]["message"]
    memory = rows[f"attack{TRIED.index('stores memory in shared segments')}/01_softmax_attention.ipynb"]["1.1"]
    assert "more than 1024 MiB" in memory["message"]
    collision = rows[f"attack{TRIED.index('returns keys that collide')}/01_softmax_attention.ipynb"]["1.1"]
    assert collision["message"] == judge.TOO_LARGE
    assert [rows["collusion_01.ipynb"][name]["status"] for name in ("1.1", "1.2")] == ["passed", "failed"]


@pytest.mark.parametrize("name", ["odd_01.ipynb", "double_01.ipynb"])
def test_magics_mentions_preparations_and_another_default_dtype_cost_nobody_an_answer(graded, name):
    assert {row["status"] for row in graded[0][name].values()} == {"passed"}, [
        row for row in graded[0][name].values() if row["status"] != "passed"
    ]


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
    cells = ["=1+1", "@x", "fine", "a;=1+1", 'a; "=1', "＝1+1", "1=1"]
    safe = ["'=1+1", "'@x", "fine", "a;'=1+1", '"a;\' ""=1"', "'＝1+1", "1=1"]
    assert report.as_csv(("a",), [(text,) for text in cells]).splitlines() == ["a", *safe]
    assert report.cell("a | b # c") == "a &#124; b \\# c"


def judge_with(monkeypatch, rows):
    """A judge without a sandbox: `rows(data)` gives the rows of a file."""
    monkeypatch.setattr(sandbox, "command_line", lambda unsafe: [])
    monkeypatch.setattr(judge, "grade", lambda data, settings: rows(data))


def text_of(out) -> str:
    return (out / "grades.csv").read_text(encoding="utf-8")


def test_an_interrupted_run_writes_what_it_has_and_goes_on_later(monkeypatch, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "in-grades"
    for name in ("a", "b", "c"):
        cohort.write(folder, f"{name}_01.ipynb", name.encode())

    def interrupt(data):
        if data == b"b":
            os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(60)
        return [judge.Row("01", "1.1", "passed", "fine")]

    judge_with(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        command.main([str(folder), "--jobs", "1"])
    assert "a,01,1.1,passed,fine" in text_of(out)
    assert text_of(out).count("start the same command again to continue") == 2
    judge_with(monkeypatch, lambda data: [judge.Row("01", "1.1", "failed", "later")])
    assert command.main([str(folder), "--jobs", "1"]) == 0
    assert "a,01,1.1,passed,fine" in text_of(out) and text_of(out).count("failed,later") == 2
    assert command.main([str(folder), "--jobs", "2", "--again"]) == 0
    assert text_of(out).count("failed,later") == 3


def test_an_interrupt_that_comes_while_a_worker_is_forked_is_not_lost(monkeypatch, tmp_path):
    for name in ("a", "b"):
        cohort.write(tmp_path / "in", f"{name}_01.ipynb", name.encode())
    fork = command.fork

    def fork_and_drop(*arguments):
        worker = fork(*arguments)
        with contextlib.suppress(KeyboardInterrupt):  # as Python does with exceptions in what it calls around a fork
            os.kill(os.getpid(), signal.SIGTERM)
        return worker

    judge_with(monkeypatch, lambda data: [judge.Row("01", "1.1", "passed", "fine")])
    monkeypatch.setattr(command, "fork", fork_and_drop)
    with pytest.raises(KeyboardInterrupt):
        command.main([str(tmp_path / "in"), "--jobs", "1"])
    assert "b,,,not graded" in text_of(tmp_path / "in-grades")


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


def test_a_bug_of_the_grader_costs_one_row_and_a_dead_worker_too(monkeypatch, tmp_path):
    for name in ("a", "b", "c"):
        cohort.write(tmp_path / "in", f"{name}_01.ipynb", name.encode())

    def rows(data):
        if data == b"a":
            raise ZeroDivisionError("in the grader")
        if data == b"b":
            os.kill(os.getpid(), signal.SIGKILL)
        return [judge.Row("01", "1.1", "passed", "fine")]

    judge_with(monkeypatch, rows)
    assert command.main([str(tmp_path / "in"), "--jobs", "2"]) == 0
    assert "ZeroDivisionError: in the grader" in text_of(tmp_path / "in-grades")
    assert "c,01,1.1,passed,fine" in text_of(tmp_path / "in-grades")
    judge_with(monkeypatch, lambda data: [judge.Row("01", "1.1", "failed", "graded again")])
    assert command.main([str(tmp_path / "in")]) == 0
    assert text_of(tmp_path / "in-grades").count("graded again") == 2


def test_an_accident_is_graded_again_by_the_next_run_and_a_verdict_is_not(monkeypatch, tmp_path):
    cohort.write(tmp_path / "in", "a_01.ipynb", b"a")
    for number, accident in enumerate([True, True, False, False]):
        row = judge.Row("01", "1.1", "failed", f"run {number}", accident=accident)
        judge_with(monkeypatch, lambda data, row=row: [row])
        assert command.main([str(tmp_path / "in")]) == 0
        assert f"run {min(number, 2)}" in text_of(tmp_path / "in-grades")


@pytest.mark.parametrize(
    ("reply", "accident"),
    [
        (sandbox.Reply("timeout"), True),
        (sandbox.Reply("memory"), True),
        (sandbox.Reply("died", status=9), True),
        (sandbox.Lost(), True),
        (sandbox.Reply("value", isolation.pack(isolation.Outcome("memory"))), False),
        (sandbox.Reply("value", isolation.pack(isolation.Outcome("value", ["failed", "It is wrong.", ""]))), False),
        (sandbox.Reply("value", b"[1, 2]"), True),
    ],
)
def test_what_may_not_be_the_fault_of_the_answer_is_an_accident(reply, accident):
    class FakeSandbox:
        def run(self, request, body, seconds):
            if isinstance(reply, Exception):
                raise reply
            return reply

    submitted = judge.Submitted.__new__(judge.Submitted)
    vars(submitted).update(_lesson="01", _order=["1.1"], _code=b"", _sandbox=FakeSandbox(), _checking=False)
    vars(submitted).update(_settings=judge.Settings([], 8.0, ""), _end=float("inf"))
    submitted._start_again = lambda checking: None
    submitted._sandbox.settle = lambda lesson: None
    verdicts, _ = submitted._verdicts(set())
    assert verdicts["1.1"].status == "failed" and verdicts["1.1"].accident is accident


def test_without_a_sandbox_the_verdicts_are_the_same(monkeypatch, tmp_path):
    """Only notebooks that do no harm run here: `--unsafe` has limits and no walls."""
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    for name, code in (("right", cohort.RIGHT), ("naive", cohort.NAIVE)):
        cohort.write(tmp_path / "in", f"{name}_01.ipynb", small(code))
    before = machine()
    assert command.main([str(tmp_path / "in"), "--seconds", "4", "--unsafe"]) == 0
    assert machine() == before
    rows = rows_of(tmp_path / "in-grades", "student")
    assert rows["right"]["1.1"]["status"] == "passed"
    assert rows["naive"]["1.1"]["message"].startswith("Large logits overflow")


def test_a_closed_output_does_not_end_the_grading(monkeypatch, tmp_path):
    cohort.write(tmp_path / "in", "a_01.ipynb", b"a")
    judge_with(monkeypatch, lambda data: [judge.Row("01", "1.1", "passed", "fine")])

    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    assert command.main([str(tmp_path / "in")]) == 0
    assert "passed,fine" in text_of(tmp_path / "in-grades")


def test_an_output_that_the_shell_has_closed_does_not_either(tmp_path):
    cohort.write(tmp_path / "in", "a_01.ipynb", small(cohort.RIGHT))
    shell = f'exec "{sys.executable}" -m utils.grading "{tmp_path / "in"}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", shell], cwd=ROOT).returncode == 0
    assert rows_of(tmp_path / "in-grades", "student")["a"]["1.1"]["status"] == "passed"


def command_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def test_a_killed_run_leaves_no_process_and_no_temporary_folder(tmp_path):
    cohort.write(tmp_path / "in", "a_01.ipynb", small("while True:\n    pass" + cohort.WRONG))
    (tmp_path / "temporary").mkdir()
    arguments = [sys.executable, "-m", "utils.grading", str(tmp_path / "in")]
    with subprocess.Popen(arguments, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path / "temporary")}) as process:
        family = set()
        while not any("utils.grading.server" in command_of(process) for process in family):
            assert process.poll() is None
            family = set(psutil.Process(process.pid).children(recursive=True))
        process.kill()
    _, alive = psutil.wait_procs(family, 20)
    assert not alive and not list((tmp_path / "temporary").iterdir())


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
            "def late(x):\n    boom = 2\n    return x + table['a'] * boom\ntable.update(b=2)\nos.remove('x')\nprint(table)",
            "def answer(x, other=3):\n    return helper(x)\nanswer = exercise('1.1').use(answer)",
            "later = answer(1)",
        ]
    )
    cell = read.cell_of("1.1", "answer")
    steps = read.needed(cell)
    code = "\n".join(notebook.ast.unparse(statement) for _, statements in steps for statement in statements)
    for part in (
        "from math import pi",
        "table = {}",
        "table['a'] = 1",
        "table.update(b=2)",
        "def helper",
        "def late",
    ):
        assert part in code
    for part in ("other = train", "os.remove", "later =", "print"):
        assert part not in code.replace("boom = 2", "").replace("other=3", "")


def test_what_a_name_was_before_it_was_bound_anew_does_not_run():
    read = Notebook(
        [
            "import torch",
            "model = train_for_hours()\nsize = 3\nscale = 1",
            "def helper(x):\n    return x * scale\nstart = helper(size)\nscale = 2",
            "model = 5",
            "size = slow()",
            "def answer(x):\n    return helper(x) + model + start\nanswer = exercise('1.1').use(answer)",
        ]
    )
    code = [notebook.ast.unparse(statement) for _, statements in read.needed(5) for statement in statements]
    assert "size = 3" in code and "scale = 1" in code and "scale = 2" in code and "model = 5" in code
    assert "model = train_for_hours()" not in code and "size = slow()" not in code


@pytest.mark.parametrize(
    "prepared",
    [
        "torch.nn.init.ones_(W)",
        "_ = W.fill_(1)",
        "setup()",
        "for i in range(3):\n    W[i] = 1",
        "result = [other(), 1]",
        "with torch.no_grad():\n    fill(W, 1)",
        "%time W.fill_(1)",
        "other_name = W\nother_name[:] = 1",
        "list(map(W.__setitem__, range(3), [1] * 3))",
        "globals()['W'] = make()\nmake = None",
        "W = scaled(2)",
        "match torch.ones(3):\n    case W:\n        None",
    ],
)
def test_a_statement_that_prepares_what_the_answer_needs_runs(prepared):
    helpers = "def setup():\n    global W\n    W = torch.ones(3)\n\n\ndef other():\n    setup()\n\n\ndef fill(x, y):\n    x.fill_(y)"
    helpers += (
        "\n\n\ndef make():\n    return torch.ones(3)\n\n\nscaled = lambda x: torch.ones(3) * x * half\nhalf = 1 / 2"
    )
    cells = ["import torch", "W = torch.zeros(3)", helpers, prepared]
    read = Notebook([*cells, "unused = W + 1", "def answer():\n    return W\n\n\nexercise('1.1').use(answer)"])
    space: dict = {}
    *_, (_, last) = steps = read.needed(5)
    for _, statements in steps[:-1]:
        exec(compile(notebook.ast.Module(statements, []), "<cells>", "exec"), space)
    exec(compile(notebook.ast.Module(last[:1], []), "<cell>", "exec"), space)
    assert space["answer"]().tolist() == [1, 1, 1] and "unused" not in space


@pytest.mark.parametrize(
    "cell",
    [
        "task = exercise('1.1')\ntask.use(f)",
        "use = exercise('1.1').use\nuse(f)",
        "(task := exercise('1.1')).use(f)",
        "%%time\n# right?\nexercise('1.1').use(f)",
        "def f():\n    if True:\n        %timeit 1\nfiles = !ls\nexercise('1.1').use(f)",
        ">>> f = exercise('1.1').use(f)",
        "shell.run_cell_magic(name)\n!ls\nexercise('1.1').use(f)",
    ],
)
def test_the_cell_that_submits_an_answer_is_recognized_and_one_that_mentions_it_is_not(cell):
    mention = """# exercise("1.1").use(f)\ntext = 'exercise("1.1").use(f)'"""
    read = Notebook(["import torch", cell, mention, "this is no Python: exercise('1.1').use(f)"])
    assert read.cell_of("1.1", "f") == 1 and read.errors[1] == ""


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
    layer = wire.decode(json.loads(json.dumps(wire.encode(torch.nn.Linear(3, 2)))))
    assert (layer.in_features, layer.out_features, layer.bias.shape) == (3, 2, (2,))
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
    replies = [child.returned(item, item.reference, case, seed) for case in cases]
    right, off, cut, wide = (json.loads(json.dumps(replies)) for _ in range(4))

    def compared(values, seed=5):
        return judge.compared_with_reference(item, seed, json.dumps({"value": values}).encode())

    assert compared(right) == ""
    off[3]["calls"][0]["value"] = wire.encode(torch.zeros(4, 4))
    cut[0]["flow"] = cut[0]["double"] = None
    wide[0]["calls"][0]["value"] = wire.encode(wire.decode(wide[0]["calls"][0]["value"]).double())
    for forged in (off, cut, wide, right[:-1], [], [None] * len(right), [{}] * len(right), "passed", None):
        assert compared(forged) == judge.TAMPERED
    assert compared(right, seed=6) == judge.TAMPERED
    assert judge.compared_with_reference(item, 5, b"[" * 100_000) == judge.TAMPERED


def test_a_reply_that_is_slow_or_large_to_decode_costs_a_disposable_process():
    def keys():
        return judge.disposable(lambda: len({i * (2**61 - 1) for i in range(10**6)}), 1)

    assert keys().kind == "timeout"
    assert judge.disposable(lambda: bytes(2**31), 5).kind == "memory"
    assert run_isolated(lambda: 1).value == 1


def test_a_right_answer_to_every_exercise_stands_when_it_is_asked_from_outside():
    """What an answer gives must survive the way out of the sandbox, whatever its kind; the audit asks all right answers."""
    first = {entry.exercise: entry for entry in reversed(list(entries())) if entry.verdict == PASSED}
    assert len(first) >= 80
    for entry in first.values():
        assert not refused_from_outside(entry), entry.exercise
