"""Cached results: equal to new ones, trained again when code, arguments or data change, never in the way."""

import importlib
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

from utils.training import cache, fingerprint
from utils.training.announce import announce_with

MODULE = """
    from shelf.sizes import SIZE
    from utils.training.cache import cached
    import torch

    CALLS = []

    @cached
    def train(seed, steps=3, start=None):
        "Train."
        CALLS.append(seed)
        generator = torch.Generator().manual_seed(seed)
        return {"loss": [0.5, float("nan")], "size": SIZE, "weights": torch.rand(steps, 2, generator=generator).T,
                "pair": (1, None, True), 3: "three"}

    @cached
    def careless(seed):
        return torch.rand(3)

    @cached
    def give(value):
        CALLS.append("give")
        return RESULTS[value]

    @cached(data_files=lambda name: [name])
    def read(name):
        CALLS.append("read")
        return name

    RESULTS = {}
"""


@pytest.fixture
def said(monkeypatch):
    messages = []
    announce_with(messages.append)
    yield messages
    announce_with(None)


@pytest.fixture
def shelf(tmp_path, monkeypatch, said):
    """A small package with cached functions in a folder of its own, and an empty cache."""
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "results"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cache, "PROCESS_START", time.time() + 1000)
    package = tmp_path / "shelf"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "sizes.py").write_text("SIZE = 1\n", encoding="utf-8")
    (package / "training.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    (tmp_path / "facts.txt").write_text("one", encoding="utf-8")
    return Shelf(tmp_path, said)


class Shelf:
    def __init__(self, folder, said):
        self.folder, self.said = folder, said

    def load(self):
        """Import afresh, as a restarted kernel does."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "shelf"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return importlib.import_module("shelf.training")

    def edit(self, file, old, new):
        path = self.folder / "shelf" / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        stamp = time.time_ns() + len(text) * 1_000_000
        os.utime(path, ns=(stamp, stamp))

    def make_old(self, file):
        """Older than any process that imports it."""
        for name in (file, "__init__.py"):
            os.utime(self.folder / "shelf" / name, (1, 1))

    def entries(self):
        return sorted((self.folder / "results").glob("*.trained"))


def same(left, right) -> bool:
    """Equal as written: types, order of keys, NaN and the numbers of tensors."""
    return repr(left) == repr(right)


def test_a_second_call_does_not_train_and_gives_the_same(shelf):
    module = shelf.load()
    fresh = module.train(7)
    again = module.train(7)
    assert module.CALLS == [7]
    assert same(fresh, again)
    assert same(fresh, module.train.__wrapped__(7))
    assert shelf.said[0].startswith("trained in 0.") and shelf.said[1].startswith(
        "loaded from the cache (training took 0."
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 1.0), (1, True), ("1", 1), ([1], (1,)), (0.0, -0.0), ({"a": 1}, {"a": 2}), (["ab", "c"], ["a", "bc"])],
)
def test_different_arguments_have_different_keys(shelf, first, second):
    module = shelf.load()
    module.train(1, start=first)
    module.train(1, start=second)
    assert len(module.CALLS) == 2
    module.train(1, start=first)
    assert len(module.CALLS) == 2


@pytest.mark.parametrize("value", [object(), lambda: 1, torch.zeros(2)])
def test_an_argument_that_cannot_be_hashed_is_an_error(shelf, value):
    with pytest.raises(TypeError, match="expected arguments of numbers"):
        shelf.load().train(1, start=value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.zeros(2), "numpy.ndarray"),
        ({"a": [torch.ones(1, requires_grad=True)]}, "without a gradient, .* got torch.Tensor"),
        (object(), "builtins.object"),
    ],
)
def test_a_result_that_cannot_be_stored_is_an_error(shelf, value, words):
    module = shelf.load()
    module.RESULTS["x"] = value
    with pytest.raises(TypeError, match=words):
        module.give("x")
    assert shelf.entries() == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("training.py", "steps=3", "steps=4"),
        ("training.py", "CALLS.append(seed)", "CALLS.append(seed); seed += 0"),
        ("sizes.py", "SIZE = 1", "SIZE = 2"),
        ("__init__.py", "", "NEW = 1"),
    ],
)
def test_changed_code_trains_again(shelf, file, old, new):
    shelf.load().train(1, steps=3)
    shelf.edit(file, old, new)
    module = shelf.load()
    module.train(1, steps=3)
    assert module.CALLS == [1]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("training.py", '"Train."', '"Train it."'), ("sizes.py", "SIZE = 1", "# why\n\nSIZE  =  (1)  # one")],
)
def test_changed_comments_docstrings_and_layout_train_nothing(shelf, file, old, new):
    shelf.load().train(1)
    shelf.edit(file, old, new)
    module = shelf.load()
    module.train(1)
    assert module.CALLS == []


def test_a_module_edited_while_the_kernel_runs_is_not_cached(shelf, monkeypatch):
    module = shelf.load()
    monkeypatch.setattr(cache, "PROCESS_START", time.time() - 1000)
    module.train(1)
    assert shelf.entries() == []
    assert "was edited after this kernel started" in shelf.said[0]


def test_changed_data_trains_again(shelf):
    module, file = shelf.load(), str(shelf.folder / "facts.txt")
    module.read(file)
    module.read(file)
    assert module.CALLS == ["read"]
    (shelf.folder / "facts.txt").write_text("two", encoding="utf-8")
    module.read(file)
    assert module.CALLS == ["read", "read"]
    with pytest.raises(FileNotFoundError):
        module.read("missing.txt")


@pytest.mark.parametrize("version", ["python", "torch"])
def test_another_version_trains_again(shelf, monkeypatch, version):
    module = shelf.load()
    module.train(1)
    if version == "python":
        monkeypatch.setattr(cache.platform, "python_version", lambda: "3.99.0")
    else:
        monkeypatch.setattr(torch, "__version__", "9.9")
    module.train(1)
    assert module.CALLS == [1, 1]


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "foreign"])
def test_a_damaged_entry_is_trained_again(shelf, damage):
    module = shelf.load()
    fresh = module.train(1)
    (entry,) = shelf.entries()
    data = entry.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    entry.write_bytes({"truncated": data[:-10], "empty": b"", "flipped": flipped, "foreign": b"hello"}[damage])
    assert same(module.train(1), fresh)
    assert module.CALLS == [1, 1] and "a cached result is damaged; training again" in shelf.said
    module.train(1)
    assert module.CALLS == [1, 1]


def test_a_result_cannot_depend_on_the_global_random_state_nor_change_it(shelf):
    module = shelf.load()
    torch.manual_seed(5)
    fresh = module.careless(1)
    after_training = torch.rand(2)
    torch.manual_seed(5)
    assert cache.clear() == 1 and list((shelf.folder / "results").iterdir()) == []
    assert torch.equal(module.careless(1), fresh)
    torch.manual_seed(5)
    loaded = module.careless(1)
    assert torch.equal(loaded, fresh)
    assert torch.equal(torch.rand(2), after_training)


def test_clearing_deletes_no_other_files_and_a_view_is_stored_without_its_base(shelf):
    module = shelf.load()
    module.RESULTS["view"] = torch.zeros(1_000_000)[:3]
    module.give("view")
    (entry,) = shelf.entries()
    assert entry.stat().st_size < 10_000
    other = entry.with_name("weights.pt")
    other.touch()
    assert cache.clear() == 1 and list(entry.parent.iterdir()) == [other]


def test_a_folder_that_cannot_be_written_gives_way_to_a_temporary_one(shelf, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "file" / "results"))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path / "spare"))
    cache._announce_once.cache_clear()
    module = shelf.load()
    module.train(1)
    module.train(1)
    module.train(2)
    assert module.CALLS == [1, 2]
    assert sum("cannot be written" in message for message in shelf.said) == 1


def test_a_full_disk_loses_the_cached_copy_and_not_the_result(shelf, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.Path, "replace", full)
    module = shelf.load()
    assert module.train(1)["size"] == 1
    assert any("No space left" in message for message in shelf.said)
    assert list((shelf.folder / "results").glob("*.part")) == []


def test_a_function_in_a_notebook_is_an_error(said):
    def local():
        return 1

    with pytest.raises(TypeError, match="move it from the notebook"):
        cache.cached(local)()


def test_a_second_process_waits_for_the_first(shelf):
    """Two start together; one trains, the other gets the result: the file that training writes has one line."""
    (shelf.folder / "shelf" / "slow.py").write_text(
        textwrap.dedent(
            """
            import os, time
            from utils.training import cache

            @cache.cached
            def train(seed):
                with open(os.environ["LOG"], "a") as log:
                    log.write("trained\\n")
                time.sleep(1.0)
                return seed
            """
        ),
        encoding="utf-8",
    )
    log = shelf.folder / "log"
    shelf.make_old("slow.py")
    environment = {**os.environ, "LOG": str(log), "PYTHONPATH": str(shelf.folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from shelf.slow import train; print(train(3))"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]
    answers = [run.communicate(timeout=60) for run in runs]
    assert [out.strip() for out, _ in answers] == ["3", "3"], answers
    assert log.read_text(encoding="utf-8") == "trained\n"
    words = sorted(err.strip().splitlines()[-1].split()[0] for _, err in answers)
    assert words == ["loaded", "trained"]


def test_a_process_that_dies_while_training_leaves_nothing_behind(shelf):
    code = "import os\nfrom utils.training import cache\n\n@cache.cached\ndef train(seed):\n    os._exit(9)\n"
    (shelf.folder / "shelf" / "dying.py").write_text(code, encoding="utf-8")
    shelf.make_old("dying.py")
    environment = {**os.environ, "PYTHONPATH": str(shelf.folder)}
    command = [sys.executable, "-c", "from shelf.dying import train; train(3)"]
    for _ in range(2):  # the second one is not blocked by the first one's lock
        assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 9
    assert shelf.entries() == []


# --- fingerprints -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["x = 2", "x = 1.0", "x = '1'", "y = 1", "x = 1; x", "x = True", "x = -1"])
def test_the_canonical_code_changes_with_the_code(other):
    assert fingerprint.canonical_code("x = 1") != fingerprint.canonical_code(other)


def test_braces_in_an_f_string_are_text_or_values():
    codes = ['f"{x}"', 'f"{{x}}"', 'f"{{{x}}}"', 'f"{x}{x}"', 'f"x"', '"{x}"']
    assert len({fingerprint.canonical_code(code) for code in codes}) == len(codes)
    assert fingerprint.canonical_code('f"a" f"b{x}"') == fingerprint.canonical_code('f"ab{x}"')


def test_the_closure_follows_every_kind_of_import(tmp_path):
    package = tmp_path / "pack"
    (package / "deep").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "a.py": "from . import b\nimport os",
        "b.py": "def late():\n    from .deep.c import thing",
        "deep/__init__.py": "",
        "deep/c.py": "import importlib\nimportlib.import_module('pack.d')\nfrom ..e import name",
        "d.py": "import pack.a",
        "e.py": "name = 1",
        "unused.py": "",
    }
    for name, code in files.items():
        (package / name).write_text(code, encoding="utf-8")
    modules = fingerprint.closure(["pack.a"], tmp_path)
    assert list(modules) == ["pack", "pack.a", "pack.b", "pack.d", "pack.deep", "pack.deep.c", "pack.e"]


def test_package_data_counts_when_a_module_of_the_closure_names_it(tmp_path):
    files = {
        "pack/__init__.py": 'STATIC = "static"',
        "pack/static/view.js": "",
        "pack/deck/deck.css": "",
        "pack/decks.py": 'FOLDER = "deck"',
        "pack/other/__init__.py": "",
        "pack/other/static/x.css": "",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    def names(*modules):
        return [path.name for path in fingerprint.package_data(fingerprint.closure(modules, tmp_path))]

    assert names("pack") == ["view.js"]
    assert names("pack.decks") == ["deck.css", "view.js"]
