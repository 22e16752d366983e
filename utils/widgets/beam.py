"""The tree of a beam search: the hypotheses kept and dropped at each step, and the path to the best one."""

import itertools

from utils.plots.figures import signed
from utils.widgets.base import Widget, answer_key, plain
from utils.widgets.controls import control, menu

WIDTHS = (1, 2, 3, 4)
NUM_DROPPED = 2  # of the dropped hypotheses of a step so many are drawn, the best ones
FIELDS = ("parent", "token", "log_prob", "kept", "ended")


def beam_tree(respond, sentences, *, num_beams, title=""):
    """Tree of a beam search, for a sentence and a beam width to choose; point at a node to read its hypothesis.

    respond(sentence, num_beams) is a pure function and returns for each step a list of nodes (parent, token, log_prob, kept,
    ended), the kept ones first, best first. parent is an index into the step before, -1 for BOS; token is a string, or None for
    a hypothesis that had ended and competes on. num_beams: the first of the WIDTHS to show.
    """
    return BeamTree(respond, sentences, num_beams, title)


class BeamTree(Widget):
    """What `beam_tree` returns. Inputs: `sentence` and `num_beams`; view: `node`, the selected one."""

    script = "beam"

    def __init__(self, respond, sentences, num_beams, title):
        self._respond = respond
        controls = [control("sentence", sentences), control("num_beams", menu(list(WIDTHS), num_beams), "beam width")]
        states = [
            {"sentence": sentence, "num_beams": width} for sentence, width in itertools.product(sentences, WIDTHS)
        ]
        data = {
            "title": title,
            "controls": [spec for spec, _ in controls],
            "answers": {answer_key(state): plain(self.respond(**state)) for state in states},
        }
        super().__init__(data, {spec["name"]: start for spec, start in controls}, {"node": None})

    def respond(self, sentence, num_beams):
        steps, sizes = [], []
        for step in self._respond(sentence, num_beams):
            nodes = [
                (parent, token, round(float(log_prob), 4), *map(int, fate)) for parent, token, log_prob, *fate in step
            ]
            num_kept = sum(kept for *_, kept, _ in nodes)
            steps.append(nodes[: num_kept + NUM_DROPPED])
            sizes.append(len(nodes))
        return {"steps": steps, "sizes": sizes}

    def tree(self):
        """Steps of nodes as dicts: the fields, "tokens", the hypothesis, and "best", on the path to the best one."""
        tree = []
        for step in self.answer["steps"]:
            nodes = [dict(zip(FIELDS, node, strict=True)) for node in step]
            for node in nodes:
                prefix = tree[-1][node["parent"]]["tokens"] if tree else []
                node |= {"tokens": prefix + [node["token"]] * (node["token"] is not None), "best": False}
            tree.append(nodes)
        index = 0
        for nodes in reversed(tree):
            nodes[index]["best"] = True
            index = nodes[index]["parent"]
        return tree

    def alt(self):
        tree, sizes = self.tree(), self.answer["sizes"]
        num_kept = sum(node["kept"] for step in tree for node in step)
        best, *others = (
            f"“{' '.join(node['tokens'])}”, log-probability {signed(node['log_prob'])}"
            for node in tree[-1]
            if node["kept"]
        )
        rest = f" Also kept to the end: {'; '.join(others)}." if others else ""
        return (
            f"Beam search of width {self.inputs['num_beams']} on “{self.inputs['sentence']}”. Best after {len(tree)} steps: {best}."
            f"{rest} {num_kept} hypotheses were kept, {sum(sizes) - num_kept} dropped."
        )


def example():
    """A search over three tokens whose best hypothesis does not lead at first."""
    tree = [
        [(-1, "la", -0.5, True, False), (-1, "le", -1.0, True, False), (-1, "un", -3.0, False, False)],
        [(1, "chien", -1.2, True, False), (0, "chatte", -2.0, True, False), (0, "dort", -4.0, False, False)],
        [(0, "<eos>", -1.3, True, True), (1, "<eos>", -2.5, True, True)],
    ]
    greedy = [[(-1, "la", -0.5, True, False)], [(0, "chatte", -2.0, True, False)], [(0, "<eos>", -2.5, True, True)]]
    return beam_tree(
        lambda sentence, num_beams: greedy if num_beams == 1 else tree,
        ["the dog", "a dog"],
        num_beams=2,
        title="A beam",
    )
