"""The tree of a beam search: the hypotheses kept and dropped at each step, and the path to the best one."""

import json

import anywidget
import traitlets
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path as Curve

from utils.plots.display import picture_bundle
from utils.plots.figures import TITLE, signed, title_lines, write_title
from utils.plots.style import BLUE, GREEN, GREY, RED, SMALL, WIDEST, canvas, figure_png
from utils.plots.text import inches, shortened
from utils.widgets.forms import ThreeForms, page_state
from utils.widgets.stage import STATIC, script, sentence_of

WIDTHS = (1, 2, 3, 4)
MAX_LETTERS = 16  # of a token in the tree; the sentence below has all of them
FIELDS = ("parent", "token", "log_prob", "score", "kept", "ended")
CARRIED = "ended"  # stands on a node that had ended before and competes on


def beam_tree(respond, sentences, *, num_beams=WIDTHS[-1], title=""):
    """Tree of a beam search, for a sentence and a beam width to choose; point at a node to read its hypothesis.

    respond(sentence, num_beams) is a pure function and returns a dict with "tree", for each step a list of nodes (parent,
    token, log_prob, score, kept, ended), the kept ones first, best first, and perhaps "note", a line under the tree.
    parent is an index into the step before, -1 for BOS; token is a string, or None for a hypothesis that had ended and
    competes on. num_beams: the first of the WIDTHS to show.
    """
    return BeamTree(respond, sentences, num_beams, title)


class BeamTree(ThreeForms, anywidget.AnyWidget):
    """What `beam_tree` returns. `sentence` (an index), `width` and `chosen` (a node or -1) follow the reader."""

    _esm = script("beam.js")
    _css = STATIC / "beam.css"
    title = traitlets.Unicode("").tag(sync=True)
    sentences = traitlets.List(traitlets.Unicode()).tag(sync=True)
    widths = traitlets.List(traitlets.Int()).tag(sync=True)
    sentence = traitlets.Int(0).tag(sync=True)
    width = traitlets.Int(1).tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(self, respond, sentences, width, title):
        self._respond = respond
        self._known = {}  # (sentence, width): its tree and its note
        # The first answer goes with the widget: a page that drew it before its answer came would have nothing to draw.
        answer = {**self._answer(sentences[0], 0, width), "count": 1}
        super().__init__(title=title, sentences=sentences, widths=list(WIDTHS), width=width, answer=answer)
        self.add_class("course-widget")
        self.add_class("course-beamtree")
        self.observe(self._follow, names=["sentence", "width"])

    def tree(self):
        """The nodes on view, as `whole_tree` gives them."""
        return self._known[self.answer["sentence"], self.answer["width"]][0]

    def alt_text(self):
        now = self.answer
        return beam_words(self.tree(), self.sentences[now["sentence"]], now["width"], self.title, now["note"])

    def page_view(self):
        """Every sentence with every width, searched beforehand."""
        changes = {
            json.dumps([index, width], separators=(",", ":")): {
                "answer": {**self._answer(words, index, width), "count": 1},
                "chosen": -1,
            }
            for index, words in enumerate(self.sentences)
            for width in self.widths
        }
        return page_state(self, "beam", {"traits": ["sentence", "width"], "changes": changes})

    def static(self):
        alt = self.alt_text()
        title = (
            f"{self.title}, width {self.answer['width']}" if self.title else f"a beam of width {self.answer['width']}"
        )
        return picture_bundle(figure_png(beam_picture(self.tree(), title), alt), alt)

    def _answer(self, words, sentence, width):
        if (sentence, width) not in self._known:
            self._known[sentence, width] = answer_of(self._respond, words, width)
        tree, note = self._known[sentence, width]
        return {"sentence": sentence, "width": width, "note": note, **page_of(tree), "text": best_words(tree)}

    def _follow(self, _):
        count = self.answer["count"] + 1
        try:
            answer = self._answer(self.sentences[self.sentence], self.sentence, self.width)
        except Exception as error:
            with self.hold_sync():
                self.error = sentence_of(error).replace(
                    "The figure could not be drawn", "There is no tree for this sentence"
                )
                self.answer = {**self.answer, "count": count}
            raise
        with self.hold_sync():
            self.error, self.chosen = "", -1
            self.answer = {**answer, "count": count}


# Trees


def answer_of(respond, sentence, width):
    """(tree, note) that `respond` gives."""
    answer = respond(sentence, width)
    return whole_tree(answer["tree"]), str(answer.get("note") or "")


def whole_tree(tree):
    """Steps of dicts with the six fields, "tokens", the hypothesis of a node, and "best".

    "best" is True on the path to the best hypothesis, the first node of the last step.
    """
    whole = []
    for step in tree:
        whole.append([])
        for node in step:
            node = dict(zip(FIELDS, node, strict=True))
            prefix = whole[-2][node["parent"]]["tokens"] if len(whole) > 1 else []
            tokens = prefix + ([] if node["token"] is None else [node["token"]])
            numbers = {name: float(node[name]) for name in ("log_prob", "score")}
            whole[-1].append(node | numbers | {"tokens": tokens, "best": False})
    index = 0
    for step in reversed(whole):
        step[index]["best"] = True
        index = step[index]["parent"]
    return whole


# Words


def node_words(tree, step, index):
    """The hypothesis of a node, in a sentence."""
    kept = [node for node in tree[step] if node["kept"]]
    node = tree[step][index]
    fate = (
        f"kept, number {index + 1} of {len(kept)}"
        if node["kept"]
        else f"dropped, number {index + 1} of {len(tree[step])}"
    )
    end = "; it had ended before" if node["token"] is None else "; it ends here" if node["ended"] else ""
    return (
        f"Step {step + 1}: “{' '.join(node['tokens'])}”, log-probability {signed(node['log_prob'])}, score "
        f"{signed(node['score'])}; {fate}{end}."
    )


def best_words(tree):
    """The best hypothesis with its scores, and how many hypotheses were kept and dropped."""
    best = tree[-1][0]
    kept = sum(node["kept"] for step in tree for node in step)
    dropped = sum(len(step) for step in tree) - kept
    return (
        f"Best after {len(tree)} steps: “{' '.join(best['tokens'])}”, log-probability {signed(best['log_prob'])}, "
        f"score {signed(best['score'])}. {kept} hypotheses were kept, {dropped} dropped."
    )


def beam_words(tree, sentence, width, opening="", note=""):
    """The text form: the sentence, the best translation, and the others that were kept to the end."""
    opening = opening.rstrip(".!? ") + "." if opening else ""
    rest = [node for node in tree[-1][1:] if node["kept"]]
    others = "; ".join(f"“{' '.join(node['tokens'])}” {signed(node['score'])}" for node in rest)
    parts = [opening, f"Beam of width {width} on “{sentence}”.", best_words(tree)]
    parts += [f"Other hypotheses kept, with their scores: {others}."] if others else []
    return " ".join(part for part in [*parts, note] if part)


def face_of(node):
    """(token, score) as they stand on a node."""
    return (CARRIED if node["token"] is None else shortened(visible(node["token"]), MAX_LETTERS)), signed(node["score"])


def visible(word):
    return word if word.strip() else f"“{word}”"


def shown_of(step, dropped):
    """The indices of those nodes of a step that are drawn: all kept ones, and so many of the dropped."""
    kept = sum(node["kept"] for node in step)
    return range(min(len(step), kept + dropped))


# The page

PIXELS = 96 * 1.06  # of an inch of text: the page's letters are about as wide as these
ROW, TALL, BETWEEN, OVER = 40, 31, 52, 30  # pixels


def page_of(tree):
    """Boxes with their indices in pixels, for the page: nodes, headings of the columns, and how many are left out."""
    width = sum(node["kept"] for node in tree[-1])
    nodes = [{"step": -1, "x": 4, "y": OVER, "wide": 62, "word": "start", "score": "", "kind": "start", "parent": -1,
              "best": True, "said": "BOS: no token is generated yet.", "mark": ""}]  # fmt: skip
    numbers, left, headings, more = {(-1, -1): 0}, 4 + 62 + BETWEEN, [], []
    for number, step in enumerate(tree):
        indices = shown_of(step, max(width, 2))
        faces = [face_of(step[index]) for index in indices]
        wide = round(max(inches(word, 12) + inches(score, 10.5) for word, score in faces) * PIXELS + 34)
        headings.append({"x": left, "text": f"step {number + 1}"})
        for row, (index, (word, score)) in enumerate(zip(indices, faces, strict=True)):
            node = step[index]
            numbers[number, index] = len(nodes)
            nodes.append(
                {
                    "step": number,
                    "x": left,
                    "y": OVER + ROW * row + (0 if node["kept"] else 12),
                    "wide": wide,
                    "word": word,
                    "score": score,
                    "kind": "dropped" if not node["kept"] else "ended" if node["ended"] else "kept",
                    "parent": numbers[number - 1, node["parent"]],
                    "best": node["best"],
                    "said": node_words(tree, number, index),
                }
            )
        if len(step) > len(indices):
            more.append(
                {"x": left, "y": OVER + ROW * len(indices) + 26, "text": f"+ {len(step) - len(indices)} dropped"}
            )
        left += wide + BETWEEN
    high = max(OVER + ROW * (len(shown_of(step, max(width, 2))) + 1) for step in tree)
    return {"nodes": nodes, "headings": headings, "more": more, "size": [left - BETWEEN + 6, high]}


# The static picture, in inches from its upper left corner

TALLEST = 8.9
STEP_ROW, BOX, AWAY, HEADING = 0.38, 0.3, 0.42, 0.34
WORD = 13  # points of the words; the scores are smaller
KINDS = {  # face, edge, ink
    "kept": ("#DCEBF5", BLUE, "black"),
    "ended": ("#DDF1EA", GREEN, "black"),
    "dropped": ("white", "#BDBDBD", GREY),
    "start": ("white", "#444444", "black"),
}


def beam_picture(tree, title=""):
    """The tree from left to right: kept nodes above, dropped ones gray below them, the best path in red.

    tree: as `whole_tree` gives it. A tree too wide for a slide goes on in a second band, which begins with the last kept nodes
    of the first; if it is too tall as well, fewer dropped nodes are drawn, and at last the first steps alone.
    """
    most = max(sum(node["kept"] for node in step) for step in tree)
    for dropped in (*range(max(most, 2), -1, -1),):
        bands = _bands(tree, dropped)
        heights = [_band_height(tree, band, dropped) for band in bands]
        room = TALLEST - 0.35 - 0.3 * title_lines(title, WIDEST) - 0.45
        if sum(heights) <= room:
            break
    fits = len(bands)
    while sum(heights[:fits]) > room:
        fits -= 1
    bands, heights, left_out = bands[:fits], heights[:fits], sum(len(band["steps"]) for band in bands[fits:])
    width = max(max(band["width"] for band in bands), 7.4, min(WIDEST, inches(title, TITLE, "bold") + 0.4))
    top = 0.35 + 0.3 * title_lines(title, width)
    figure, axes = canvas(width, top + sum(heights) + 0.45, margins=(0, 0, 0, 0))
    axes.set(xlim=(0, width), ylim=(top + sum(heights) + 0.45, 0))
    axes.axis("off")
    for band, height in zip(bands, heights, strict=True):
        _draw_band(axes, tree, band, top, dropped)
        top += height
    _key(axes, top + 0.15, left_out)
    write_title(figure, title)
    return figure


def _column_width(step, indices):
    """The width of a column of nodes, from the longest of them."""
    faces = [face_of(step[index]) for index in indices]
    return max(inches(word, WORD) + inches(score, SMALL) for word, score in faces) + 0.34


def _bands(tree, dropped):
    """Steps put into bands that fit a slide; each has the x of its columns, the first is where it comes from."""
    bands, left = [], None
    for number, step in enumerate(tree):
        wide = _column_width(step, shown_of(step, dropped))
        if left is None or left + AWAY + wide > WIDEST - 0.15:
            before = tree[number - 1] if number else None
            first = 0.75 if before is None else _column_width(before, shown_of(before, 0))
            bands.append({"from": number - 1, "first": first, "steps": [], "width": 0.0})
            left = 0.15 + first
        bands[-1]["steps"].append((number, left + AWAY, wide))
        left += AWAY + wide
        bands[-1]["width"] = left + 0.15
    return bands


def _band_height(tree, band, dropped):
    rows = [len(shown_of(tree[number], dropped)) for number, _, _ in band["steps"]]
    hidden = any(len(tree[number]) > count for (number, _, _), count in zip(band["steps"], rows, strict=True))
    return HEADING + max(rows) * STEP_ROW + 0.1 + (0.3 if hidden else 0.1)


def _draw_band(axes, tree, band, top, dropped):
    y_of = [top + HEADING + STEP_ROW * (row + 0.5) for row in range(64)]
    ends = {}  # (step, index): the right middle of its box
    if band["from"] < 0:
        _node(axes, 0.15, y_of[0], band["first"], "start", "", "start", True)
        ends[-1, -1] = (0.15 + band["first"], y_of[0])
    else:
        step = tree[band["from"]]
        _text(axes, 0.15, top + 0.14, f"step {band['from'] + 1}", SMALL, GREY)
        for index in shown_of(step, 0):
            _node(
                axes, 0.15, y_of[index], band["first"], *face_of(step[index]), kind_of(step[index]), step[index]["best"]
            )
            ends[band["from"], index] = (0.15 + band["first"], y_of[index])
    for number, x, wide in band["steps"]:
        step = tree[number]
        indices = shown_of(step, dropped)
        _text(axes, x, top + 0.14, f"step {number + 1}", SMALL, GREY)
        for index in indices:
            node, y = step[index], y_of[index] + (0 if step[index]["kept"] else 0.08)
            _edge(axes, ends[number - 1, node["parent"]], (x, y), kind_of(node), node["best"])
            _node(axes, x, y, wide, *face_of(node), kind_of(node), node["best"])
            ends[number, index] = (x + wide, y)
        if len(step) > len(indices):
            _text(axes, x, y_of[len(indices)] + 0.02, f"+ {len(step) - len(indices)} dropped", 11, GREY)


def kind_of(node):
    return "dropped" if not node["kept"] else "ended" if node["ended"] else "kept"


def _text(axes, x, y, text, size, shade="black", ha="left", **look):
    return axes.text(x, y, text, fontsize=size, color=shade, ha=ha, va="center", parse_math=False, **look)


def _node(axes, x, y, wide, word, score, kind, best):
    face, edge, ink = KINDS[kind]
    shape = "round,pad=0,rounding_size=0.06"
    look = {"facecolor": face, "edgecolor": RED if best else edge, "linewidth": 2.8 if best else 1.4, "zorder": 3}
    axes.add_patch(FancyBboxPatch((x, y - BOX / 2), wide, BOX, boxstyle=shape, **look))
    if not score:
        _text(axes, x + wide / 2, y, word, WORD, ink, "center", zorder=4)
        return
    _text(axes, x + 0.09, y, word, WORD, ink, zorder=4, style="italic" if word == CARRIED else "normal")
    _text(axes, x + wide - 0.08, y, score, SMALL, ink, "right", zorder=4)


def _edge(axes, start, end, kind, best):
    (x0, y0), (x1, y1) = start, end
    bend = (x0 + x1) / 2
    curve = Curve([(x0, y0), (bend, y0), (bend, y1), (x1, y1)], [Curve.MOVETO, *[Curve.CURVE4] * 3])
    shade, line = (RED, 3.2) if best else ("#C4C4C4", 1.1) if kind == "dropped" else (BLUE, 1.8)
    axes.add_patch(PathPatch(curve, fill=False, edgecolor=shade, linewidth=line, zorder=2 if best else 1))


def _key(axes, y, left_out):
    x = 0.15
    for words, kind, best in (("kept", "kept", False), ("has ended", "ended", False), ("dropped", "dropped", False),
                              ("path to the best", "kept", True)):  # fmt: skip
        _node(axes, x, y + 0.02, 0.3, "", "", kind, best)
        _text(axes, x + 0.38, y + 0.02, words, SMALL)
        x += 0.38 + inches(words, SMALL) + 0.3
    note = f"{left_out} more steps do not fit" if left_out else "number: score"
    _text(axes, x, y + 0.02, note, SMALL, GREY)
