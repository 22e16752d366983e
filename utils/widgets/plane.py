"""Softmax attention in the plane: query, keys, values and a target for the output are dragged; training moves the keys."""

import numpy as np

from utils.plots.style import as_array
from utils.widgets.base import Widget
from utils.widgets.controls import control

LEARNING_RATE = 0.1
MAX_NORM = 1  # of the gradient at one point; a longer one is clipped


def plane(attend, keys, *, query, target, extent, temperature, title):
    """A query that is dragged among keys in the plane, while attention weights and output follow.

    attend(query (2,), keys (n, 2), values (n, 2), temperature) returns the output (2,) and the weights (n,). Training moves the keys
    (and the values, where they are separate) along the negative gradient of the squared distance between output and target,
    computed by autograd through `attend`.
    keys: {name: (x, y)}; temperature: (low, high, step, start). The plane reaches from -extent to extent.
    """
    return Plane(attend, keys, query, target, extent, temperature, title)


class Plane(Widget):
    """What `plane` returns. Inputs: `query`, `keys`, `values` (None: each key is its own value), `target`, `temperature`, `steps`.

    `steps` training steps are computed at once, so that training does not wait for an answer after each of them; `path` has the
    points and the answer after each.
    """

    script = "plane"

    def __init__(self, attend, keys, query, target, extent, temperature, title):
        self._attend = attend
        spec, start = control("temperature", temperature)
        inputs = {"query": query, "keys": list(keys.values()), "values": None, "target": target, "temperature": start}
        data = {"title": title, "names": list(keys), "extent": extent, "controls": [spec], "start": inputs}
        data |= {"learning_rate": LEARNING_RATE, "max_norm": MAX_NORM}
        self._extent = extent
        super().__init__(data, inputs | {"steps": 0}, {"field": True})

    def respond(self, query, keys, values, target, temperature, steps):
        answer = self._answer_at(query, keys, values, target, temperature)
        path, now = [], answer
        for _ in range(steps):
            keys, values = self._moved(keys, now["key_gradients"]), self._moved(values, now["value_gradients"])
            now = self._answer_at(query, keys, values, target, temperature)
            path.append({"keys": keys, "values": values, "answer": now})
        return answer | {"path": path}

    def _moved(self, points, gradients):
        """Points after a step along their negative gradients."""
        if points is None or gradients is None:
            return points
        gradients = as_array(gradients)
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        steps = LEARNING_RATE * gradients * np.minimum(1, MAX_NORM / np.maximum(norms, 1e-12))
        return np.clip(np.array(points) - steps, -self._extent, self._extent).tolist()

    def _answer_at(self, query, keys, values, target, temperature):
        import torch  # here and not above: drawing needs no torch, which takes seconds to load

        with torch.enable_grad():
            query, target = (torch.tensor(point, dtype=torch.float32) for point in (query, target))
            keys = torch.tensor(keys, dtype=torch.float32, requires_grad=True)
            moved = [keys] if values is None else [keys, torch.tensor(values, dtype=torch.float32, requires_grad=True)]
            output, weights = self._attend(query, keys, moved[-1], temperature)
            if output.shape != (2,) or weights.shape != (len(keys),):
                raise ValueError(
                    f"expected an output (2,) and weights ({len(keys)},), got {tuple(output.shape)} and {tuple(weights.shape)}"
                )
            loss = (output - target).square().sum()
            gradients = torch.autograd.grad(loss, moved, allow_unused=True) if loss.requires_grad else [None, None]
        return {
            "weights": as_array(weights, "the weights"),
            "output": as_array(output, "the output"),
            "loss": loss.item(),
            "key_gradients": gradients[0],
            "value_gradients": None if values is None else gradients[1],
        }

    def alt(self):
        (x, y), names = self.inputs["query"], self.data["names"]
        weights = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, self.answer["weights"], strict=True))
        output, target = ("({:.2f}, {:.2f})".format(*point) for point in (self.answer["output"], self.inputs["target"]))
        return (
            f"{self.data['title']} A plane with {len(names)} keys and a query at ({x:.2f}, {y:.2f}); "
            f"temperature {self.inputs['temperature']:.2g}; attention weights: {weights}; output {output}, target {target}, "
            f"loss {self.answer['loss']:.2f}."
        )


def example():
    def attend(query, keys, values, temperature):
        weights = (keys @ query / temperature).softmax(0)
        return weights @ values, weights

    keys = {"cat": (1.0, 0.5), "dog": (-0.5, 1.2), "fish": (-1.0, -1.0)}
    title = "Where does the output go?"
    return plane(
        attend, keys, query=(1, -0.5), target=(-0.5, 0), extent=2, temperature=(0.2, 3.0, 0.1, 1.0), title=title
    )


def samples():
    """Inputs at which the page's arithmetic is compared with Python's."""
    random = np.random.default_rng(0)
    points = random.uniform(-2, 2, (20, 8, 2))
    return [
        {
            "query": sample[0],
            "keys": sample[1:4],
            "values": sample[4:7] if index % 2 else None,
            "target": sample[7],
            "temperature": random.uniform(0.2, 3.0),
            "steps": index % 4,
        }
        for index, sample in enumerate(points)
    ]
