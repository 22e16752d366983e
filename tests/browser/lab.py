"""A real JupyterLab in a real Chromium: what the browser tests and `look` stand on.

`Lab` is a server of its own (own folders, random token, loopback only) on copies of notebooks;
`Notebook` is one of them opened in a page. Nothing here knows what a lesson contains.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

from utils.build.lab import OPTIONS, SERVER

# Windowed notebooks keep only the visible cells in the page; here every output must be there to be seen.
LAB_SETTINGS = {
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "scrollPastEnd": False},
}
# JupyterLab's own complaints when a notebook is closed soon after its kernel started.
NOT_OURS = ("Could not restore the debugger state", "Error: Canceled future for create_subshell_request")
LOCAL_HOSTS = {"127.0.0.1", "localhost", ""}
SLOW = 180  # seconds for a server, a page or a kernel to start: far more than needed, for busy machines


def foreign_requests(context: BrowserContext) -> list[str]:
    """A list that fills up with every request of `context` to a host other than this machine."""
    seen: list[str] = []

    def note(request):
        address = urlsplit(request.url)
        if address.scheme in {"data", "blob", "about"}:
            return
        if (address.hostname or "") not in LOCAL_HOSTS:
            seen.append(request.url)

    context.on("request", note)
    return seen


def page_mistakes(page: Page) -> list[str]:
    """A list that fills up with every error that the scripts of `page` write to the console or do not catch."""
    seen: list[str] = []

    def note(message):
        if message.type == "error" and not message.text.startswith(NOT_OURS):
            seen.append(f"{message.text} ({message.location['url']})")

    def note_uncaught(problem):
        if not str(problem).startswith(NOT_OURS):
            seen.append(f"uncaught: {problem}")

    page.on("pageerror", note_uncaught)
    page.on("console", note)
    return seen


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Lab:
    """A JupyterLab server with folders of its own; use it as a context manager.

    `folder` holds everything it writes. Notebooks are copied in by `add`, so the originals are never touched.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.files = self.folder / "files"
        self.files.mkdir(parents=True, exist_ok=True)
        self.token = secrets.token_hex(16)
        self.address = f"http://127.0.0.1:{free_port()}"
        self.log = self.folder / "server.log"

    def environment(self) -> dict[str, str]:
        own = {
            "JUPYTER_CONFIG_DIR": self.folder / "config",
            "JUPYTER_DATA_DIR": self.folder / "data",
            "JUPYTER_RUNTIME_DIR": self.folder / "runtime",
            "JUPYTERLAB_SETTINGS_DIR": self.folder / "settings",
            "JUPYTERLAB_WORKSPACES_DIR": self.folder / "workspaces",
            "IPYTHONDIR": self.folder / "ipython",
            "COURSE_PROGRESS": self.folder / "progress.jsonl",
            "COURSE_CACHE": os.environ.get("COURSE_CACHE") or self.folder / "cache",
        }
        root = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        return os.environ | {name: str(value) for name, value in own.items()} | {"PYTHONPATH": paths}

    def __enter__(self):
        for name, values in LAB_SETTINGS.items():
            path = self.folder / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values), encoding="utf-8")
        command = [
            *(sys.executable, "-m", SERVER, "--no-browser", "--allow-root"),
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={urlsplit(self.address).port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.files}",
            f"--IdentityProvider.token={self.token}",
            "--LabApp.expose_app_in_browser=True",
            *OPTIONS,
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment(), cwd=self.folder
            )
        self._wait_until_it_answers()
        return self

    def _wait_until_it_answers(self):
        until = time.monotonic() + SLOW
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/api?token={self.token}", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        log = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        self.__exit__()
        raise RuntimeError(f"JupyterLab did not answer within {SLOW} s; its log ends:\n{log}")

    def __exit__(self, *_):
        """Stop the server; it ends its kernels itself when it is asked politely."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def add(self, notebook: Path, name: str | None = None) -> str:
        """Copy a notebook in and give its path on the server."""
        target = self.files / (name or Path(notebook).name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(notebook, target)
        return target.relative_to(self.files).as_posix()

    def open(self, running: Browser, path: str, width: int = 1280, height: int = 900) -> "Notebook":
        """Open a notebook of this server in a page of its own."""
        context = running.new_context(viewport={"width": width, "height": height})
        foreign = foreign_requests(context)
        page = context.new_page()
        mistakes = page_mistakes(page)
        workspace = f"w{secrets.token_hex(4)}"
        address = f"{self.address}/lab/workspaces/{workspace}/tree/{quote(path)}?token={self.token}"
        page.goto(address, timeout=SLOW * 1000)
        return Notebook(page, foreign, mistakes)


# The open notebook, from the application that the server exposes to the page.
CURRENT = "window.jupyterapp.shell.currentWidget"
CELL_STATES = f"""() => [...{CURRENT}.content.model.cells].map((cell, index) => ({{
    index,
    type: cell.type,
    source: cell.sharedModel.getSource(),
    count: cell.type === "code" ? cell.executionCount : null,
    outputs: cell.type === "code" ? cell.outputs.toJSON() : [],
}}))"""
# A command given before the kernel is connected is lost without a word.
KERNEL_IS_IDLE = f"""() => {{
    const kernel = {CURRENT}?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === "connected" && kernel.status === "idle";
}}"""
# How far a run has come. Asked many times a second, so it must not carry all pictures of the notebook with it.
PROGRESS = f"""(indexes) => {{
    const cells = indexes.map((index) => {CURRENT}.content.model.cells.get(index));
    const outputs = (cell) => Array.from({{length: cell.outputs.length}}, (_, index) => cell.outputs.get(index));
    const failed = (output) => output.type === "error"
        || (output.type === "stream" && [output.toJSON().text].flat().join("").includes("Traceback (most recent call last)"));
    return {{
        waiting: cells.filter((cell) => !cell.executionCount || cell.executionState === "running")
            .map((cell) => cell.sharedModel.getSource().trim().split("\\n")[0]),
        failed: cells.some((cell) => outputs(cell).some(failed)),
        asks: document.querySelector(".jp-Dialog")?.innerText ?? null,
    }};
}}"""
RUN = f"""async (indexes) => {{
    const notebook = {CURRENT}.content;
    notebook.deselectAll();
    notebook.activeCellIndex = indexes[0];
    for (const index of indexes) {{
        {CURRENT}.content.model.cells.get(index).executionCount = null;
        notebook.select(notebook.widgets[index]);
    }}
    window.jupyterapp.commands.execute("notebook:run-cell");
}}"""


class Notebook:
    """A notebook open in JupyterLab; `foreign` fills with requests to other hosts, `mistakes` with errors of scripts."""

    def __init__(self, page: Page, foreign: list[str], mistakes: list[str]):
        self.page = page
        self.foreign = foreign
        self.mistakes = mistakes
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=SLOW * 1000)

    def close(self):
        """Shut the kernel down, then close the page; a tab left open would keep both."""
        self._shut_down()
        self.page.context.close()

    def _shut_down(self):
        """End the kernel of the open notebook and close its tab."""
        self.page.evaluate(
            f"""async () => {{
                const open = {CURRENT};
                await open.sessionContext.ready;
                await open.sessionContext.shutdown();
                open.context.model.dirty = false;
                open.dispose();
            }}"""
        )

    def replace_by(self, path: str):
        """Close this notebook and open another one in the same page: JupyterLab itself takes seconds to load."""
        self._shut_down()
        self.command("docmanager:open", path=path)
        self.page.wait_for_function(
            f"path => {CURRENT}?.context?.path === path && {CURRENT}.context.isReady", arg=path, timeout=SLOW * 1000
        )
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=SLOW * 1000)

    def wait_for_kernel(self, seconds: float = SLOW):
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=seconds * 1000)

    def command(self, name: str, **arguments):
        """Run a JupyterLab command by its id; what it gives back is an object of the page and stays there."""
        run = "async ([name, args]) => { await window.jupyterapp.commands.execute(name, args); }"
        self.page.evaluate(run, [name, arguments])

    def cells(self) -> list[dict]:
        """Every cell: index, type, source, count, outputs (as saved in the file)."""
        return self.page.evaluate(CELL_STATES)

    def run_all(self, seconds: float = 600) -> list[dict]:
        """Run every code cell; gives the cells."""
        self.wait_for_kernel()
        return self.run([c["index"] for c in self.cells() if c["type"] == "code" and c["source"].strip()], seconds)

    def run(self, indexes: list[int], seconds: float = 600) -> list[dict]:
        """Select these cells and run them; gives all cells once the last one has run, or one of them has failed."""
        self.wait_for_kernel()
        self.page.evaluate(RUN, indexes)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            now = self.page.evaluate(PROGRESS, indexes)
            if now["asks"] is not None:
                raise RuntimeError(f"JupyterLab asks: {now['asks']}")
            if now["failed"] or not now["waiting"]:  # JupyterLab stops at the first error
                self.wait_for_kernel()
                self.wait_for_widgets()
                return self.cells()
            time.sleep(0.1)
        raise TimeoutError(f"after {seconds:.0f} s these cells had not run: {now['waiting'][:3]}")

    def output_area(self, index: int):
        """The outputs of one cell in the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")

    def set_source(self, index: int, source: str):
        """Replace the text of a cell, as typing would."""
        self.page.evaluate(
            f"([index, text]) => {CURRENT}.content.model.cells.get(index).sharedModel.setSource(text)",
            [index, source],
        )

    def wait_for_widgets(self, seconds: float = 30):
        """Wait until no output still says that its widget is being loaded."""
        loading = "() => ![...document.querySelectorAll('.jp-OutputArea-output')].some((e) => e.innerText.includes('Loading widget'))"
        self.page.wait_for_function(loading, timeout=seconds * 1000)

    def theme(self, name: str):
        """`light` or `dark`."""
        full = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[name]
        if self.page.locator("body").get_attribute("data-jp-theme-name") != full:
            self.command("apputils:change-theme", theme=full)
            self.page.wait_for_selector(f"body[data-jp-theme-name='{full}']", state="attached")
            self.page.wait_for_timeout(300)

    def hide_side_bar(self):
        if self.page.locator("#jp-left-stack:visible").count():
            self.command("application:toggle-left-area")
            self.page.wait_for_timeout(200)

    def widget_screenshot(self, kind: str, folder: Path) -> Path:
        """A picture of the first widget of this kind."""
        self.hide_side_bar()
        self.wait_for_widgets()
        folder.mkdir(parents=True, exist_ok=True)
        picture = folder / f"{kind}.png"
        self.page.locator(f".course-{kind}").first.screenshot(path=picture)
        return picture

    def screenshots(self, folder: Path, prefix: str = "") -> list[Path]:
        """Screenshots of the whole notebook, one screen each, with a little overlap; returns the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.hide_side_bar()
        # The frame and tool bar of the active cell would hide a part of it: let that be the first one.
        self.page.evaluate(f"() => {{ {CURRENT}.content.activeCellIndex = 0; }}")
        panel = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer").first
        full, shown = panel.evaluate("e => [e.scrollHeight, e.clientHeight]")
        files, top = [], 0
        while True:
            panel.evaluate("(e, top) => { e.scrollTop = top; }", top)
            self.page.wait_for_timeout(120)
            path = folder / f"{prefix}{len(files):02d}.png"
            panel.screenshot(path=path)
            files.append(path)
            if top + shown >= full:
                return files
            top = min(top + shown - 60, full - shown)


def errors(cells: list[dict]) -> list[str]:
    """Every error output, each as `cell 7: ValueError: ...`, and every traceback that a widget callback printed."""
    found = []
    for cell in cells:
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                found.append(f"cell {cell['index']}: {output['ename']}: {output['evalue']}")
            elif output["output_type"] == "stream" and "Traceback (most recent call last)" in "".join(output["text"]):
                found.append(f"cell {cell['index']} printed: {''.join(output['text'])[-300:]}")
    return found
