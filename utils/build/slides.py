"""One self-contained HTML slide deck per lesson, from the lecture notebook and its saved outputs.

    python -m utils.build.slides [names]

A cell is in the deck only if its metadata says so: `slide` and `subslide` begin a slide, `fragment` appears on
the next key press, `-` joins the previous slide. Code of more than CODE_LINES lines continues on the next slide.
Speaker notes are in a cell's metadata, `course.notes`, where the build puts the cells of type `notes`. Two tags hide a part
of a code cell: `hide-input` and `hide-output`. A deck runs no Python and needs no network: reveal.js, pictures, formulas and
the widgets that compute in the page are all inside the file.
"""

import ast
import base64
import html
import inspect
import io
import json
import mimetypes
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import mistune
import ziamath
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from pygments.style import Style
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token
from ziamath.tex import tex2mml

from utils import paths, widgets
from utils.build.downloads import REVEAL, DownloadError, fetch
from utils.build.live import live_assets, quiz_html, stored_state
from utils.exercises.solutions import BEGIN, END, HEADER
from utils.plots.layout import KEY as LAYOUT
from utils.widgets.base import page_html

COURSE_TITLE = "Attention and the Transformer"
ASSETS = Path(__file__).with_name("deck")
SLIDE_TYPES = {"slide", "subslide", "fragment", "skip", "-"}
CODE_LINES = 14  # on one slide
CODE_WIDTH = 94  # letters of a line of code at its smallest size; a longer line takes two lines
SMALLEST_LETTERS = 14  # pixels, also inside pictures
STORED = "Stored, not computed here:"  # so begins the label of a stored result
USE = re.compile(r'exercise\("[\d.]+"\)\.use\(')
WIDGETS = {name for name, thing in vars(widgets).items() if inspect.isfunction(thing)}
DRAWING = WIDGETS | {"show", "quiz", "board", "lesson"}  # calls that show something and compute nothing
ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
SIGN = re.compile(
    r"(<mo[^>]*>(?:&#x00028;|&#x0005B;|&#x0007B;|&#x0002C;|&#x0003D;|&#x0003C;|&#x0003E;|&#x02208;|&#x02264;|&#x02265;)</mo>"
    r"(?:<mspace[^>]*/>)*)<mo>(&#x02212;|&#x0002B;|&#x000B1;)</mo>"
)
FORMULA_SIZE = 24  # arbitrary: the drawing is scaled in em


class SlideError(ValueError):
    """A notebook that cannot become a deck; the message names the cell."""


@dataclass
class Slide:
    """Content of one slide: HTML parts in order, the speaker notes, and the lines of code so far."""

    parts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_title: bool = False
    is_continued: bool = False
    lines: int = 0


@dataclass(frozen=True)
class Part:
    """The part of a cell that stays on one slide, and its lines of code."""

    html: str
    lines: int = 0


# ---------------------------------------------------------------------------------------------- formulas


def tightened(mathml: str) -> str:
    """The MathML with two corrections of its spacing."""
    # A partial derivative sign and infinity are not operators, which have space after them.
    mathml = re.sub(r"<mo>(&#x02202;|&#x0221E;)</mo>", r"<mi>\1</mi>", mathml)
    # A minus after a bracket, a comma or another operator is a sign, not a subtraction.
    return SIGN.sub(r'\1<mo form="prefix" lspace="0em" rspace="0em">\2</mo>', mathml)


def join_paths(svg: ET.Element) -> None:
    """Join all glyphs into one path: with thousands of elements fewer, layout takes half the time."""
    for part in svg:
        if part.get("fill") == "black":
            part.set("fill", "currentColor")
    glyphs = [part for part in svg if part.tag == "path" and set(part.attrib) == {"d", "fill"}]
    if len(glyphs) > 1:
        glyphs[0].set("d", " ".join(part.get("d") for part in glyphs))
        for part in glyphs[1:]:
            svg.remove(part)


@lru_cache(maxsize=4096)
def formula(tex: str, block: bool = False) -> str:
    """TeX as an inline SVG, aligned with the text and scaled with it."""
    tex = " ".join(tex.split())
    mathml = tex2mml(tex, inline=not block)
    unknown = re.search(r"\\[A-Za-z]+", mathml)
    if unknown:
        raise SlideError(f"the formula ${tex}$ uses {unknown[0]}, which slides cannot draw: rewrite it")
    mathml = tightened(mathml)
    # Paths in each drawing instead of shared symbols: ids would clash between the formulas of a page.
    before, ziamath.config.svg2 = ziamath.config.svg2, False
    try:
        drawn = ziamath.Math(mathml, size=FORMULA_SIZE, margin=0)
        svg, drop = drawn.svgxml(), drawn.getyofst()
    except Exception as problem:
        raise SlideError(f"the formula ${tex}$ cannot be drawn: {type(problem).__name__}: {problem}") from problem
    finally:
        ziamath.config.svg2 = before
    join_paths(svg)
    width, height = float(svg.get("width")), float(svg.get("height"))
    svg.set("width", f"{width / FORMULA_SIZE:.3f}em")
    svg.set("height", f"{height / FORMULA_SIZE:.3f}em")
    svg.set("style", f"vertical-align:{drop / FORMULA_SIZE:.3f}em")
    svg.set("role", "img")
    svg.set("aria-label", tex)
    svg.set("class", "formula")
    text = ET.tostring(svg, encoding="unicode")
    return f'<div class="display-formula">{text}</div>' if block else text


# ---------------------------------------------------------------------------------------------- markdown and code


class DeckRenderer(mistune.HTMLRenderer):
    """Markdown to HTML, with formulas drawn and pictures embedded."""

    def __init__(self, cell: dict, folder: Path):
        super().__init__(escape=False)
        self.attachments = cell.get("attachments") or {}
        self.folder = folder

    def inline_math(self, text):
        return formula(text)

    def block_math(self, text):
        return formula(text, block=True)

    def block_code(self, code, info=None):
        if info and info.split()[0] in {"python", "py", "python3"}:
            return code_html(code)
        return f'<pre class="text">{html.escape(code)}</pre>\n'

    def link(self, text, url, title=None):
        """Only the text of a relative link: a deck is a single file."""
        return super().link(text, url, title) if urlsplit(url).scheme else text

    def image(self, text, url, title=None):
        alt = html.escape(mistune.util.striptags(text), quote=True)
        return f'<img src="{self.picture(url)}" alt="{alt}">'

    def picture(self, url: str) -> str:
        """The picture as a data URL: a deck loads nothing from the network or from other files."""
        if url.startswith("data:"):
            return url
        if url.startswith("attachment:"):
            bundle = self.attachments[url.removeprefix("attachment:")]
            mime, data = next(iter(bundle.items()))
            return f"data:{mime};base64,{data}"
        if urlsplit(url).scheme:
            raise SlideError(f"the picture {url} is on the network: add it to the repository or draw it")
        path = self.folder / unquote(url)
        if not path.is_file():
            raise SlideError(f"the picture {url} does not exist in {self.folder}")
        mime = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return f"data:{mime};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def markdown_html(cell: dict, folder: Path) -> str:
    render = mistune.Markdown(
        DeckRenderer(cell, folder), plugins=[mistune.plugins.import_plugin(name) for name in ("math", "table")]
    )
    page = render(source_of(cell))
    left = re.search(r"\\[A-Za-z]+", re.sub(r"<code>.*?</code>|<svg.*?</svg>|<pre.*?</pre>", "", page, flags=re.DOTALL))
    if left:
        raise SlideError(f"a formula with {left[0]} was not drawn: a formula with line breaks needs $$ around it")
    return page


class CodeStyle(Style):
    """Dark hues on near white: each has a contrast of at least 7 to 1 and they differ without red against green."""

    background_color = "#f5f6f8"
    styles = {
        Token: "#1a1a1a",
        Comment: "italic #4a4f55",
        Keyword: "bold #003f7d",
        Operator.Word: "bold #003f7d",
        Name.Builtin: "#003f7d",
        Name.Function: "bold #1a1a1a",
        Name.Class: "bold #1a1a1a",
        Name.Decorator: "#5b2a86",
        String: "#7a3b00",
        Number: "#5b2a86",
    }


CODE_FORMAT = HtmlFormatter(style=CodeStyle, nowrap=True)


def code_html(code: str) -> str:
    """Highlighted code; where a line is too long for the slide, the rest of it is indented by four more letters."""
    code = code.strip("\n")
    highlighted = highlight(code, PythonLexer(), CODE_FORMAT).rstrip("\n").split("\n")
    indents = [len(line) - len(line.lstrip()) + 4 for line in code.split("\n")]
    lines = [
        f'<span class="line" style="--indent:{indent}ch">{line or " "}</span>'
        for indent, line in zip(indents, highlighted, strict=True)
    ]
    return f'<pre class="code">{"".join(lines)}</pre>\n'


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def shown_code(cell: dict) -> str:
    """The code in a deck or page: what is computed, without headers and checks of exercises, drawing calls and assertions.

    The slide shows the picture that a call such as `show(...)` or `explore(...)` produced, so it leaves out the call, and
    any function defined only for it.
    """
    lines = [line for line in source_of(cell).splitlines() if line.strip() not in (BEGIN, END)]
    dropped = drawing_lines("\n".join(lines))
    dropped |= {number for number, line in enumerate(lines, 1) if HEADER.fullmatch(line) or USE.search(line)}
    kept = [line for number, line in enumerate(lines, 1) if number not in dropped]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def lines_of(code: str) -> int:
    """The lines that code takes on a slide."""
    return sum(1 + (len(line) > CODE_WIDTH) for line in code.split("\n"))


def split_code(code: str) -> list[str]:
    """The code in parts of at most CODE_LINES lines: as few as possible, cut between statements, best at empty lines."""
    lines = code.split("\n")
    statements = {node.lineno - 1 for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)}

    def cost(cut: int) -> float:
        if cut == len(lines):
            return 0
        if cut not in statements:
            return 50
        before = lines[cut - 1].rstrip()
        return (len(lines[cut]) - len(lines[cut].lstrip())) / 8 + (before != "") + 4 * before.endswith(":")

    best: list[tuple[float, list[int]]] = [(0, [])]  # for each number of lines: the cost of cutting them, and the cuts
    for end in range(1, len(lines) + 1):
        best.append(
            min(
                (best[start][0] + 20 + cost(end) + (1 - height / CODE_LINES) ** 2, [*best[start][1], end])
                for start in range(end)
                if (height := lines_of("\n".join(lines[start:end]))) <= CODE_LINES
            )
        )
    cuts = [0, *best[-1][1]]
    return ["\n".join(lines[start:end]).strip("\n") for start, end in zip(cuts, cuts[1:], strict=False)]


def drawing_lines(code: str) -> set[int]:
    """Line numbers, from 1, of drawing calls, of functions defined only for them, and of assertions."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # a cell with a magic command is shown as it is
        return set()
    calls = [node for node in body if is_drawing(node)]
    handed = {name.id for call in calls for name in ast.walk(call) if isinstance(name, ast.Name)}
    others = [node for node in body if node not in calls]
    dropped = [*calls, *filter(is_check, others)]
    for node in others:
        if isinstance(node, ast.FunctionDef) and node.name in handed:
            rest = [other for other in others if other is not node]
            if not any(isinstance(part, ast.Name) and part.id == node.name for tree in rest for part in ast.walk(tree)):
                dropped.append(node)
    return {line for node in dropped for line in range(node.lineno, node.end_lineno + 1)}


def is_check(node: ast.stmt) -> bool:
    """An assertion, or a loop of nothing else."""
    return isinstance(node, ast.Assert) or (isinstance(node, ast.For) and all(map(is_check, node.body)))


def is_drawing(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DRAWING


# ---------------------------------------------------------------------------------------------- outputs


def output_html(output: dict) -> str:
    """The static form of one saved output; empty if there is nothing to show."""
    kind = output["output_type"]
    if kind == "error":
        raise SlideError(f"the notebook has an error output: {output['ename']}: {output['evalue']}")
    if kind == "stream":
        return text_html(output["text"]) if output["name"] == "stdout" else ""
    data, metadata = output["data"], output.get("metadata", {})
    for mime in ("image/png", "image/jpeg"):
        if mime in data:
            picture = picture_html(data, metadata, mime)
            state = stored_state(output)
            return page_html(state, picture) if state else picture
    if "text/html" in data:
        return f'<div class="html">{as_inner_html(data["text/html"])}</div>\n'
    if "text/latex" in data:
        return formula("".join(data["text/latex"]).strip().strip("$"), block=True)
    return text_html(data["text/plain"]) if "text/plain" in data else ""


def picture_html(data: dict, metadata: dict, mime: str) -> str:
    said = "".join(data.get("text/plain", ""))
    alt = metadata.get(mime, {}).get("alt") or metadata.get("alt") or ("" if said.startswith("<") else said)
    encoded = "".join("".join(data[mime]).split())
    least = f' data-least="{least_width(encoded)}"' if mime == "image/png" else ""
    return f'<img src="data:{mime};base64,{encoded}" alt="{html.escape(alt, quote=True)}"{least}>\n'


def least_width(encoded: str) -> int:
    """The width in pixels at which the smallest letters of a picture can be read; 0 if the file does not say."""
    facts = json.loads(Image.open(io.BytesIO(base64.b64decode(encoded))).info.get(LAYOUT, "{}"))
    return round(SMALLEST_LETTERS * 72 * facts["inches"][0] / facts["smallest"]) if facts.get("smallest") else 0


def text_html(text) -> str:
    """Printed text. The label of a stored result is set apart: as long as it is, it would make all letters small."""
    plain = ANSI.sub("", "".join(text)).strip("\n")
    labels = [line for line in plain.split("\n") if line.startswith(STORED)]
    rest = "\n".join(line for line in plain.split("\n") if line not in labels)
    printed = f'<pre class="text">{html.escape(rest)}</pre>\n' if rest else ""
    return printed + "".join(f'<p class="stored">{html.escape(label)}</p>\n' for label in labels)


def as_inner_html(text) -> str:
    """HTML of an output as part of a slide: reveal.js would take a `section` inside it for a slide of its own."""
    joined = "".join(text)
    if re.search(r"""<(?:script|link|iframe)\b|\bsrc\s*=\s*["']?\s*(?:https?:)?//""", joined, re.IGNORECASE):
        raise SlideError("an HTML output on a slide loads something: keep it to plain markup")
    return re.sub(r"<(/?)section\b", r"<\1div", joined, flags=re.IGNORECASE)


# ---------------------------------------------------------------------------------------------- slides


def slide_type(cell: dict) -> str:
    """The slide type of a cell; a cell without one is skipped."""
    named = cell["metadata"].get("slideshow", {}).get("slide_type") or "skip"
    if named not in SLIDE_TYPES:
        raise SlideError(f"slide_type {named!r} is none of {', '.join(sorted(SLIDE_TYPES))}")
    return named


def cell_parts(cell: dict, folder: Path, stub: str | None = None) -> list[Part]:
    """One cell in the parts that need slides of their own; an exercise has a `stub`."""
    if cell["cell_type"] == "markdown":
        return [Part(f'<div class="prose">{markdown_html(cell, folder)}</div>\n')]
    if cell["cell_type"] != "code":
        return []
    if stub is not None:
        return exercise_parts(cell, stub)
    if quiz := re.fullmatch(r'quiz\("([^"]+)"\)', source_of(cell).strip()):
        # The empty fragment gives the answer at the next key press.
        return [Part(f'<div class="html">{quiz_html(quiz[1])}<span class="fragment answers"></span></div>\n')]
    tags = set(cell["metadata"].get("tags", []))
    code = "" if "hide-input" in tags else shown_code(cell)
    outputs = "" if "hide-output" in tags else "".join(output_html(output) for output in cell["outputs"])
    outputs = f'<div class="output">{outputs}</div>' if outputs else ""
    if not code:
        return [Part(outputs + "\n")] if outputs else []
    *before, last = map(input_part, split_code(code))
    pair = f'<div class="pair">{last.html}{outputs}</div>\n' if outputs else last.html
    return [*before, Part(pair, last.lines)]


def input_part(code: str) -> Part:
    return Part(f'<div class="input">{code_html(code)}</div>\n', lines_of(code))


def exercise_parts(cell: dict, stub: str) -> list[Part]:
    """An exercise: at the next key press the solution takes the place of the stub. What both begin with may come first."""
    header = HEADER.fullmatch(source_of(cell).split("\n", 1)[0])
    label = f"Exercise {header['id']} · {header['level']} · {header['minutes']} min"
    asked, solution = (
        code if lines_of(code) <= CODE_LINES else without_docstrings(code)
        for code in (shown_code({"source": stub}), shown_code(cell))
    )
    solved, shared = split_code(solution), []
    while len(solved) > 1 and asked.startswith(f"{solved[0]}\n"):
        shared.append(solved.pop(0))
        asked = asked.removeprefix(shared[-1]).strip("\n")
    swap = (
        f'<div class="swap"><div class="input fragment fade-out" data-fragment-index="0" data-label="{label}">'
        f'{code_html(asked)}</div><div class="input fragment" data-fragment-index="0" data-label="{label}, solved">'
        f"{code_html(solved[0])}</div></div>\n"
    )
    lines = max(lines_of(asked), lines_of(solved[0]))
    return [*map(input_part, shared), Part(swap, lines), *map(input_part, solved[1:])]


def without_docstrings(code: str) -> str:
    """Code without the docstrings of its functions and classes, to save lines."""
    scopes = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    texts = (scope.body[0] for scope in scopes if ast.get_docstring(scope, clean=False) is not None)
    dropped = {line for text in texts for line in range(text.lineno, text.end_lineno + 1)}
    return "\n".join(line for number, line in enumerate(code.split("\n"), 1) if number not in dropped)


def notes_html(note: str, folder: Path) -> str:
    return f'<div class="prose">{markdown_html({"source": note}, folder)}</div>\n'


def stubs_of(notebook_path: Path) -> dict[str, str]:
    """The stub of each exercise in the student notebook, by cell id."""
    student = notebook_path.parent / paths.STUDENTS.name / notebook_path.name
    if not student.is_file():
        return {}
    cells = json.loads(student.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: source_of(cell) for cell in cells if cell["metadata"].get("course", {}).get("exercise")}


def read_slides(notebook: dict, folder: Path, stubs: dict[str, str] | None = None) -> list[list[Slide]]:
    """The slides of a notebook: columns from left to right, each with its slides from top to bottom."""
    columns: list[list[Slide]] = []
    for number, cell in enumerate(notebook["cells"]):
        try:
            kind = slide_type(cell)
            parts = [] if kind == "skip" else cell_parts(cell, folder, (stubs or {}).get(cell.get("id")))
            notes = [notes_html(note, folder) for note in cell["metadata"].get("course", {}).get("notes", [])]
        except SlideError as problem:
            raise SlideError(f"cell {number}: {problem}") from problem
        if kind == "skip" and not (notes and columns):
            continue
        if kind == "slide" or (kind == "subslide" and not columns):
            columns.append([Slide()])
        elif kind == "subslide":
            columns[-1].append(Slide())
        elif not columns:
            raise SlideError(f"cell {number} is a {kind!r} before the first slide")
        columns[-1][-1].notes += notes
        for index, part in enumerate(parts):
            if index or columns[-1][-1].lines + part.lines > CODE_LINES:
                columns[-1].append(Slide(is_continued=True))
            slide = columns[-1][-1]
            slide.lines += part.lines
            slide.parts.append(f'<div class="fragment">{part.html}</div>\n' if kind == "fragment" else part.html)
    if not columns:
        raise SlideError("no cell has a slide_type: choose the slides in the source of the lesson")
    return columns


def with_title(columns: list[list[Slide]], number: str, title: str, question: str) -> list[list[Slide]]:
    """The deck with a title slide: the first slide if it starts with a top-level heading, otherwise a new one."""
    first = columns[0][0]
    over = f'<p class="course">{html.escape(COURSE_TITLE)}{f" · lesson {number}" if number else ""}</p>\n'
    if first.parts and re.match(r'<div class="prose">\s*<h1', first.parts[0]):
        first.is_title = True
        first.parts.insert(0, over)
        return columns
    heading = f'<div class="prose"><h1>{html.escape(title)}</h1>\n<p>{html.escape(question)}</p></div>\n'
    return [[Slide([over, heading], is_title=True)], *columns]


def with_running_heads(columns: list[list[Slide]]) -> list[list[Slide]]:
    """Repeat the last heading in small print on slides that have none, marked where code continues."""
    heading = re.compile(r"<h[1-3][^>]*>(.*?)</h[1-3]>", re.DOTALL)
    last = ""
    for slide in (slide for column in columns for slide in column):
        headings = heading.findall("".join(slide.parts))
        if last and slide.parts and not re.match(r'<div class="prose">\s*<h[1-3]', slide.parts[0]):
            mark = ", continued" if slide.is_continued else ""
            slide.parts.insert(0, f'<p class="running">{last}{mark}</p>\n')
        last = headings[-1] if headings else last
    return columns


def slide_html(slide: Slide) -> str:
    notes = f'<aside class="notes">{"".join(slide.notes)}</aside>' if slide.notes else ""
    kind = ' class="title"' if slide.is_title else ""
    return f'<section{kind}><div class="frame">\n{"".join(slide.parts)}</div>{notes}</section>\n'


def column_html(slides: list[Slide]) -> str:
    inner = "".join(map(slide_html, slides))
    return f"<section>{inner}</section>\n" if len(slides) > 1 else inner


def script(text: str) -> str:
    """JavaScript inside the page, as a data URL because the text itself contains `<script` and `<!--`."""
    text = re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE)
    encoded = base64.b64encode(text.encode()).decode("ascii")
    return f'<script src="data:text/javascript;base64,{encoded}"></script>\n'


def deck_html(columns: list[list[Slide]], title: str, reveal: Path) -> str:
    """The whole page."""

    def read(path: Path) -> str:
        return path.read_text(encoding="utf-8")

    slides = "".join(map(column_html, columns))
    live = re.findall(r'class="live-widget" data-widget="(\w+)"', slides)
    live_code, live_style = live_assets(set(live))
    license_text = read(reveal / "LICENSE").strip().replace("--", "- -")
    styles = [
        read(reveal / "dist/reset.css"),
        read(reveal / "dist/reveal.css"),
        CODE_FORMAT.get_style_defs(".reveal pre.code"),
        live_style,
        read(ASSETS / "deck.css"),
    ]
    scripts = [
        read(reveal / "dist/reveal.js"),
        read(reveal / "plugin/notes/notes.js"),
        live_code,
        read(ASSETS / "deck.js"),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)} · {html.escape(COURSE_TITLE)}</title>\n"
        # Without an icon in the page, the browser would request one from the host.
        '<link rel="icon" href="data:,">\n'
        f"<!-- reveal.js is inside this page:\n{license_text}\n-->\n"
        f"<style>\n{chr(10).join(styles)}\n</style>\n</head>\n<body>\n"
        f'<div class="reveal"><div class="slides">\n{slides}</div>\n'
        f'<div class="lesson-name">{html.escape(title)}</div></div>\n'
        f"{''.join(map(script, scripts))}</body>\n</html>\n"
    )


def build_deck(notebook_path: Path, target: Path, reveal: Path | None = None) -> Path:
    """Write the deck of one lecture notebook to `target`."""
    notebook_path = Path(notebook_path)
    notebook = json.loads(notebook_path.read_text(encoding="utf-8"))
    number, title, question = about(notebook_path.stem, notebook)
    try:
        slides = read_slides(notebook, notebook_path.parent, stubs_of(notebook_path))
        columns = with_title(with_running_heads(slides), number, title, question)
    except SlideError as problem:
        raise SlideError(f"{notebook_path.name}, {problem}") from problem
    page = deck_html(columns, title, reveal or fetch(REVEAL))
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    unfinished.write_text(page, encoding="utf-8", newline="\n")
    unfinished.replace(target)
    return target


def about(name: str, notebook: dict) -> tuple[str, str, str]:
    """(number, title, question) of a lesson; for other notebooks, the first heading."""
    from utils.exercises.lessons import LESSONS

    for lesson in LESSONS:
        if lesson.name == name:
            return lesson.number, lesson.title, lesson.question
    for cell in notebook["cells"]:
        heading = re.match(r"#\s+(.+)", source_of(cell)) if cell["cell_type"] == "markdown" else None
        if heading:
            return "", heading[1].strip(), ""
    return "", name, ""


def chosen_notebooks(names: list[str]) -> list[Path]:
    """Lecture notebooks by number or name; all of them if none is named."""
    known = sorted(paths.LECTURES.glob("*.ipynb"))
    if not names:
        return known
    chosen = []
    for name in names:
        matching = [path for path in known if path.stem == name or path.stem.startswith(f"{name}_")]
        if not matching:
            stems = ", ".join(path.stem for path in known) or "none yet"
            raise SlideError(f"there is no lecture notebook {name!r}; lecture notebooks: {stems}")
        chosen += matching
    return chosen


def main(names: list[str]) -> int:
    try:
        notebooks = chosen_notebooks(names)
        if not notebooks:
            raise SlideError("there are no lecture notebooks yet: run `make notebooks` first")
        for path in notebooks:
            target = build_deck(path, paths.SLIDES / f"{path.stem}.html")
            print(f"{target.relative_to(paths.ROOT)}: {target.stat().st_size / 1e6:.1f} MB")
    except (SlideError, DownloadError) as problem:
        print(f"slides: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
