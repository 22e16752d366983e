"""Nothing that was fetched or sent is run, unpickled or taken for another file than the one that was meant."""

import ast
import shutil

import pytest

from tests.test_project import python_files
from utils.course import box_list
from utils.course.places import ROOT
from utils.data import sums
from utils.training import stored_encoder

# --- the files in data/ -----------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A copy of the folder that may be spoilt."""
    copy = tmp_path / "data"
    shutil.copytree(sums.DATA / "encoder", copy / "encoder")
    shutil.copy(sums.DATA / sums.NAME, copy / sums.NAME)
    monkeypatch.setattr(sums, "DATA", copy)
    return copy


def test_every_file_in_data_is_listed_with_its_sum():
    listed = sums.read_sums()
    assert listed == {file.relative_to(sums.DATA).as_posix(): sums.sum_of(file) for file in sums.files()}
    assert {name.partition("/")[0] for name in listed} == set(sums.FOLDERS)


@pytest.mark.parametrize("name", [stored_encoder.WEIGHTS, stored_encoder.ABOUT])
def test_stored_weights_that_were_tampered_with_are_refused_in_a_sentence(data, name):
    file = data / "encoder" / name
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    with pytest.raises(sums.WrongSum) as refused:
        stored_encoder.stored_encoder(data / "encoder")
    said = str(refused.value)
    assert f"{name} is not the file that the course came with" in said and f"git checkout data/encoder/{name}" in said
    assert "\n" not in said


def test_a_file_that_is_not_listed_is_refused(data):
    (data / sums.NAME).write_text("", encoding="utf-8")
    with pytest.raises(sums.WrongSum, match="sha256 none... expected"):
        stored_encoder.stored_encoder(data / "encoder")


def test_line_endings_of_windows_do_not_count_in_a_text_and_do_in_weights(tmp_path):
    for suffix, same in ((".json", True), (".safetensors", False)):
        one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
        one.write_bytes(b"a\nb\n")
        other.write_bytes(b"a\r\nb\r\n")
        assert (sums.sum_of(one) == sums.sum_of(other)) is same


def test_a_file_that_was_changed_on_purpose_is_entered_anew(data):
    (data / "encoder" / stored_encoder.ABOUT).write_text("{}", encoding="utf-8")
    sums.write_sums(data)
    sums.require(data / "encoder" / stored_encoder.ABOUT, data)


# --- only data, never programs ----------------------------------------------------------------------------------

DATA_ONLY = {".safetensors", ".gguf", ".json", ".csv", ".bz2", ".tsv", ".txt", ".md", ".js", ".css", ""}


def test_weights_come_in_formats_that_hold_numbers_alone():
    fetched = [name for box in box_list.BOXES for name in box.files]
    stored = [file.name for file in sums.files()]
    for name in fetched + stored:
        assert "." + name.rpartition(".")[2] in DATA_ONLY if "." in name else name == "LICENSE", name


# Opening a pickle runs what it names. Connections and pools of multiprocessing, and torch's exchanges of objects, do it unseen.
MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "shelve", "joblib", "marshal", "multiprocessing"}
NAMES = {"Unpickler", "read_pickle", "to_pickle", "ProcessPoolExecutor", "unsafe_load", "full_load"}
EXCHANGES = {"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list"}
TORCH_MODULES = {"package", "hub", "multiprocessing"}
# These send and never open: a test, to see that nobody else does, and the grader, which hands its own compiled code to the sandbox.
SENDERS = {
    "tests/test_isolation.py": {"pickle"},
    "utils/course/grading/sandbox.py": {"marshal"},
    "utils/course/grading/fork_server.py": {"marshal"},
}
# Inside the sandbox that code is opened, before a student's first line; nothing comes back this way.
OPENERS = {"utils/course/grading/fork_server.py": {"marshal.load"}}


def unpickling(code: str, may: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """What in a Python source opens pickles, or may do so, line by line."""
    tree, found = ast.parse(code), []
    meant = aliases(tree)
    careful = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _loads_with_care(node, meant)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute | ast.Name) and not isinstance(node.ctx, ast.Store):
            names = [dotted(node, meant)]
        elif isinstance(node, ast.Call):
            names = [_asked_for(node, meant)]
        found += [f"line {node.lineno}: {name}" for name in names if _opens(name, may)]
        if isinstance(node, ast.Attribute | ast.Name) and dotted(node, meant) in LOADERS and id(node) not in careful:
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def aliases(tree: ast.AST) -> dict[str, str]:
    """What each imported name means: {"np": "numpy", "read": "torch.load"}."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def dotted(node: ast.expr, meant: dict[str, str]) -> str:
    """`a.b.c` as text, with the whole name of what was imported; what is no name at its left end is left out."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([*([meant.get(node.id, node.id)] if isinstance(node, ast.Name) else []), *reversed(parts)])


def _asked_for(call: ast.Call, meant: dict[str, str]) -> str:
    """What is imported or looked up by a name in quotation marks; "" if nothing is."""
    words = [part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    asks = dotted(call.func, meant)
    if words and asks in ("__import__", "importlib.import_module"):
        return words[0]
    if words and asks == "getattr":
        whole = f"{dotted(call.args[0], meant)}.{words[0]}"
        return "pickle" if whole in LOADERS else whole
    return ""


def _opens(name: str, may) -> bool:
    first, *rest = name.split(".")
    if first in MODULES - set(may) or (
        name in {f"{module}.{opener}" for module in may for opener in ("load", "loads")}
    ):
        return True
    return bool(
        {first, *rest} & (NAMES | EXCHANGES)
        or (first == "torch" and rest and rest[0] in TORCH_MODULES)
        or (first == "concurrent" and "ProcessPoolExecutor" in rest)
    )


# These may open a pickle, as they are called.
LOADERS = {"torch.load", "torch.serialization.load", "numpy.load", "np.load", "yaml.load"}


def _loads_with_care(call: ast.Call, meant: dict[str, str]) -> bool:
    name = dotted(call.func, meant)
    settings = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if name.startswith("torch."):
        return settings.get("weights_only") == "True"
    if name in ("np.load", "numpy.load"):
        return settings.get("allow_pickle", "False") == "False" and None not in settings and len(call.args) < 3
    return False


@pytest.mark.parametrize(
    "file", python_files("utils", "notebooks/src", "tests"), ids=lambda file: file.relative_to(ROOT).as_posix()
)
def test_nothing_in_the_course_opens_a_pickle(file):
    name = file.relative_to(ROOT).as_posix()
    found = unpickling(file.read_text(encoding="utf-8"), SENDERS.get(name, frozenset()))
    assert [one for one in found if one.partition(": ")[2] not in OPENERS.get(name, ())] == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle\npickle.loads(b'')",
        "from pickle import loads",
        "from multiprocessing import Pool",
        "import multiprocessing.connection",
        "import torch\ntorch.load('x')",
        "torch.load('x', weights_only=False)",
        "torch.load('x', weights_only=chosen)",
        "from torch import load\nload('x', map_location='cpu')",
        "torch.hub.load('a/b', 'c')",
        "from torch import package",
        "import torch.multiprocessing as mp",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "np.load('x', None, allow_pickle=chosen)",
        "import pandas\npandas.read_pickle('x')",
        "import joblib\njoblib.load('x')",
        "import shelve",
        "dist.all_gather_object(found, mine)",
        "torch.distributed.broadcast_object_list(told)",
        "from concurrent.futures import ProcessPoolExecutor",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "import torch as t\nt.load('x')",
        "from torch import load as read\nread('x')",
        "from torch.serialization import load\nload('x')",
        "import torch\nread = torch.load\nread('x')",
        "import torch\nfunctools.partial(torch.load, 'x')",
        "import torch\ngetattr(torch, 'load')('x')",
        "import torch.distributed as d\nd.gather_object(mine)",
        "import numpy\nnumpy.load('x', None, True)",
        "import numpy\nnumpy.load('x', **settings)",
        "import importlib\nimportlib.import_module('pickle')",
        "from importlib import import_module as bring\nbring('pickle')",
        "__import__('pickle').loads(b'')",
    ],
)
def test_what_opens_a_pickle_is_noticed(code):
    assert unpickling(code)


@pytest.mark.parametrize(
    "code",
    [
        "torch.load(stream, weights_only=True)",
        "numpy.load('x')",
        "yaml.safe_load(text)",
        "json.load(file)",
        "from json import load\nload(file)",
        "import torch as t\nt.load(stream, weights_only=True)",
        "import importlib\nimportlib.import_module('json')",
        "getattr(torch, 'float32')",
        "from safetensors.torch import load_file",
        "from concurrent.futures import ThreadPoolExecutor",
    ],
)
def test_what_opens_no_pickle_is_left_alone(code):
    assert unpickling(code) == []


def test_who_may_send_a_pickle_may_not_open_one():
    assert unpickling("import pickle\npickle.dumps(1)", {"pickle"}) == []
    assert unpickling("import pickle\npickle.loads(b'')", {"pickle"})
