"""Decoding step by step: the tokens generated so far, the attention behind the next one, and its most probable candidates."""

import numpy as np

from utils.plots.lesson06 import MEAN, chosen_map, map_name
from utils.plots.style import as_array
from utils.widgets.base import ReaderError, Widget, checked_text, packed
from utils.widgets.controls import control

NUM_CANDIDATES = 5  # at most so many are shown


def decoding_view(respond, text, *, step=0, layer=MEAN, head=MEAN, title="", **choices):
    """Type a sentence and step through its translation; point at a generated token to see the step that predicted it.

    respond(text, **choices) is a pure function and returns a dict: "source", n tokens; "target", the m generated tokens;
    "candidates", for each of these up to five (token, probability), most probable first; "weights" (num_layers, num_heads, m, n)
    or (m, n), None without attention; "sentence", the translation as text. The reader sees the message of a ValueError (out of
    vocabulary, too long). choices: further inputs, as `control` takes them. step, layer, head: what is shown at first, MEAN for
    the mean over all.
    """
    return DecodingView(respond, text, step, layer, head, title, choices)


class DecodingView(Widget):
    """What `decoding_view` returns. Inputs: `text` and the choices; view: `step`, `layer` and `head`."""

    script = "decoding"

    def __init__(self, respond, text, step, layer, head, title, choices):
        self._respond = respond
        specs, values = zip(*(control(name, given) for name, given in {"text": text, **choices}.items()), strict=True)
        data = {"title": title, "controls": [{**specs[0], "label": "sentence", "action": "Translate"}, *specs[1:]]}
        inputs = {spec["name"]: value for spec, value in zip(specs, values, strict=True)}
        super().__init__(data, inputs, {"step": step, "layer": layer, "head": head})

    def respond(self, text, **choices):
        try:
            answer = self._respond(checked_text(text), **choices)
        except ValueError as problem:
            raise ReaderError(str(problem)) from problem
        weights = answer["weights"]
        if weights is not None:
            weights = as_array(weights)
            weights = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
        self._weights = weights
        return {
            "text": text,
            "source": answer["source"],
            "target": answer["target"],
            "candidates": [
                [(token, round(float(probability), 6)) for token, probability in row[:NUM_CANDIDATES]]
                for row in answer["candidates"]
            ],
            "weights": None if weights is None else packed(weights),
            "sentence": answer["sentence"],
        }

    def alt(self):
        answer = self.answer
        step = min(self.view["step"], len(answer["target"]) - 1)
        generated = " ".join(answer["target"][:step]) or "nothing"
        candidates = ", ".join(f"{token} {probability:.3f}" for token, probability in answer["candidates"][step])
        attended = "There is no attention."
        if self._weights is not None:
            selection = self.view["layer"], self.view["head"]
            row = chosen_map(self._weights, *selection)[step]
            largest = np.argsort(-row, kind="stable")[:3]
            shown = ", ".join(f"{answer['source'][index]} {row[index]:.2f}" for index in largest if row[index] >= 0.005)
            name = map_name(*self._weights.shape[:2], *selection)
            attended = f"Attention weights{f' ({name})' if max(self._weights.shape[:2]) > 1 else ''}: {shown}."
        return (
            f"Decoding “{answer['text']}” to “{answer['sentence']}”, step {step + 1} of {len(answer['target'])}. "
            f"Generated so far: {generated}. Next token, with probabilities: {candidates}. {attended}"
        )


def example():
    """A word-by-word translator whose heads attend more and more sharply to the word itself."""
    french = {"the": "le", "black": "noir", "cat": "chat", "sleeps": "dort"}

    def translate(text, attention):
        words = text.split()
        if unknown := [word for word in words if word not in french]:
            raise ValueError(f"Out of vocabulary: {', '.join(unknown)}. It knows: {', '.join(french)}.")
        source, target = [*words, "<eos>"], [*(french[word] for word in words), "<eos>"]
        weights = np.exp(np.arange(1, 7).reshape(2, 3, 1, 1) * np.eye(len(source)))
        return {
            "source": source,
            "target": target,
            "candidates": [[(token, 0.6), ("la", 0.3), ("un", 0.0004)] for token in target],
            "weights": weights / weights.sum(-1, keepdims=True) if attention == "dot" else None,
            "sentence": " ".join(target[:-1]),
        }

    return decoding_view(translate, "the black cat sleeps", title="A translator", attention=["dot", "none"])
