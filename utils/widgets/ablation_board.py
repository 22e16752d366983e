"""Head ablation: switch heads off, one by one or many at once, and see the accuracy and the predictions without them."""

import itertools

import numpy as np
import torch

from utils.plots.figures import points
from utils.plots.style import as_array
from utils.widgets.base import Widget


def ablation_board(respond, words, *, effect, baseline, baseline_name="chance", what="correct", title=""):
    """A switch for every head; the accuracy with the heads that are on, against all heads and against a baseline.

    respond(head_mask) is a pure function of a bool tensor (layers, heads), True = on, and returns a dict with "accuracy" from 0
    to 1 and "predictions", a text for each of the `words`. effect (layers, heads): the change of accuracy when this head alone
    is ablated; it colors the switches. baseline: an accuracy to compare with. what: of what the accuracy is the percentage.
    """
    return AblationBoard(respond, words, as_array(effect), float(baseline), baseline_name, what, title)


def example():
    worth = torch.tensor([[0.3, 0.1, 0.2], [0.05, 0.25, -0.02]])

    def respond(head_mask):
        left = (worth * head_mask).sum(1)
        predictions = ["le", "chat" if left[0] > 0.2 else "chatte", "dort" if left[1] > 0.1 else "dorment"]
        return {"accuracy": 0.1 + left.sum(), "predictions": predictions}

    return ablation_board(
        respond, ["the", "cat", "sleeps"], effect=-worth, baseline=0.25, title="Which heads are needed?"
    )


class AblationBoard(Widget):
    """What `ablation_board` returns. Input: `head_mask`, rows of 1 (on) and 0 (ablated)."""

    script = "ablation_board"

    def __init__(self, respond, words, effect, baseline, baseline_name, what, title):
        self._respond = respond
        head_mask = np.ones(effect.shape, dtype=int).tolist()
        full = self.respond(head_mask)
        data = {
            "title": title,
            "words": words,
            "full": full,
            "effect": effect.round(4),
            "baseline": baseline,
            "baseline_name": baseline_name,
            "what": what,
        }
        super().__init__(data, {"head_mask": head_mask})

    def respond(self, head_mask):
        answer = self._respond(torch.tensor(head_mask, dtype=torch.bool))
        return {"accuracy": round(float(answer["accuracy"]), 5), "predictions": list(answer["predictions"])}

    def stored_answers(self):
        """Every set of heads: 2 layers of 4 heads have 256.

        Only the build stores them, because they take seconds; in a student's own saved notebook the board is frozen, and says so.
        """
        shape = np.shape(self.inputs["head_mask"])
        masks = (np.reshape(bits, shape).tolist() for bits in itertools.product([0, 1], repeat=np.prod(shape)))
        return [({"head_mask": mask}, self.respond(mask)) for mask in masks]

    def alt(self):
        data, answer, full = self.data, self.answer, self.data["full"]["accuracy"]
        off = np.argwhere(np.array(self.inputs["head_mask"]) == 0)
        heads = ", ".join(f"layer {layer + 1} head {head + 1}" for layer, head in off.tolist())
        changed = [
            f"{word} {before} → {after}"
            for word, before, after in zip(
                data["words"], data["full"]["predictions"], answer["predictions"], strict=True
            )
            if before != after
        ]
        parts = [
            data["title"],
            f"Ablated: {heads or 'no head'}.",
            f"{percents(answer['accuracy'])} {data['what']}; with all heads {percents(full)}, "
            f"{data['baseline_name']} {percents(data['baseline'])}.",
            f"Predictions that change: {', '.join(changed)}." if changed else "",
            f"Each head ablated alone, in points: {'; '.join(' '.join(map(points, row)) for row in data['effect'])}.",
        ]
        return " ".join(part for part in parts if part)


def percents(accuracy):
    return f"{100 * accuracy:.1f} %"
