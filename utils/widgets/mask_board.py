"""Paint a mask: the attention weights that it leaves in two layers, and which outputs still depend on one token."""

import numpy as np
import torch

from utils.plots.style import as_array
from utils.widgets.base import Widget, packed

SAME = 1e-6  # an output that moves by no more than this is the same: rounding moves as much


def mask_board(tokens, layers, x, *, projections, start="everything", title=""):
    """Paint a mask by clicking, dragging or keys, and see the weights and what depends on one token.

    tokens: n words. layers: functions of (x (b, n, dim), mask (n, n) bool, True = may attend) to the output (b, n, dim) and
    the attention weights (b, n, n), as `SelfAttention`. x (2, n, dim): embeddings of the tokens; in the second row one token
    is replaced by another. projections: for each layer its weights (W_Q, W_K, W_V), each (dim, dim) as in `nn.Linear`, with which
    a page without Python computes. start: the name of one of the `presets`.
    """
    return MaskBoard(tokens, layers, x, projections, start, title)


def example():
    generator = torch.Generator().manual_seed(0)
    tokens = ["the", "cat", "sees", "the", "bird", "fly"]
    x = torch.randn(1, 6, 8, generator=generator).repeat(2, 1, 1)
    x[1, 1] = torch.randn(8, generator=generator)
    projections = torch.randn(2, 3, 8, 8, generator=generator) * 0.4

    def layer(matrices):
        def attend(x, mask):
            query, key, value = (x @ matrix.T for matrix in matrices)
            weights = (query @ key.mT / 8**0.5).masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()
            return weights @ value, weights

        return attend

    layers = [layer(matrices) for matrices in projections]
    return mask_board(
        tokens, layers, x, projections=projections, start="causal", title="Which token may attend to which?"
    )


class MaskBoard(Widget):
    """What `mask_board` returns. Input: `mask`, rows of bools."""

    script = "mask_board"

    def __init__(self, tokens, layers, x, projections, start, title):
        self._layers, self._x = layers, x
        tokens = [str(token) for token in tokens]
        known = presets(len(tokens))
        data = {
            "title": title,
            "tokens": tokens,
            "names": names(tokens),
            "presets": list(known.items()),
            "replaced": int((x[0] != x[1]).any(-1).nonzero().item()),
            "x": packed(x),
            "projections": packed(torch.stack([torch.stack(list(matrices)) for matrices in projections])),
        }
        super().__init__(data, {"mask": known[start]}, {"layer": len(layers) - 1})

    def respond(self, mask):
        """changed (layers, n): how far each hidden state moves when the token is replaced; weights (layers, n, n)."""
        hidden, changed, all_weights = self._x, [], []
        with torch.no_grad():
            for layer in self._layers:
                hidden, weights = layer(hidden, torch.tensor(mask))
                changed.append(moved(as_array((hidden[0] - hidden[1]).norm(dim=-1), "the output")))
                all_weights.append(checked_weights(weights, mask))
        return {"changed": changed, "weights": all_weights}

    def alt(self):
        tokens, mask = self.data["names"], self.inputs["mask"]
        name = next((name for name, preset in self.data["presets"] if preset == mask), None)
        rows = [
            f"{query} attends to {chosen(tokens, row) or 'nothing'}" for query, row in zip(tokens, mask, strict=True)
        ]
        changed = [amount > 0 for amount in self.answer["changed"][-1]]
        return (
            f"{self.data['title']} A mask over {len(tokens)} tokens, {name or '; '.join(rows)}: {sum(map(sum, mask))} of "
            f"{len(tokens) ** 2} query-key pairs are allowed. When “{tokens[self.data['replaced']]}” is replaced, {sum(changed)} of "
            f"{len(tokens)} outputs of {len(self._layers)} layers change{': ' * any(changed)}{chosen(tokens, changed)}."
        ).strip()


def presets(n):
    """{name: mask (n, n) as rows of bools}."""
    rows, columns = np.indices((n, n))
    known = {
        "everything": columns >= 0,
        "causal": columns <= rows,
        "only itself": columns == rows,
        "window of 3": abs(columns - rows) <= 1,
        "padding": columns < n - 2,  # the last two; as queries they still attend
        "nothing": columns < 0,
    }
    return {name: mask.tolist() for name, mask in known.items()}


def moved(amounts):
    return np.where(amounts <= SAME, 0.0, amounts)


def checked_weights(weights, mask):
    """The weights (n, n) of the sentence itself, or an error if they have another shape or ignore the mask."""
    n = len(mask)
    weights = as_array(weights, "the attention weights")
    if weights.shape != (2, n, n):
        raise ValueError(f"The attention weights must have the shape (2, {n}, {n}), got {weights.shape}.")
    leaks = np.argwhere((weights[0] > SAME) & ~np.array(mask))
    if len(leaks):
        i, j = leaks[0].tolist()
        raise ValueError(f"Token {i} may not attend to token {j} but has the weight {weights[0, i, j]:.3g} there.")
    return weights[0]


def names(tokens):
    """Tokens as sentences call them: one that occurs twice with its position."""
    return [f"{token} ({i + 1})" if tokens.count(token) > 1 else token for i, token in enumerate(tokens)]


def chosen(tokens, which):
    return ", ".join(token for token, is_in in zip(tokens, which, strict=True) if is_in)


def samples():
    """Inputs at which the page's arithmetic is compared with Python's."""
    random = np.random.default_rng(0)
    drawn = [(random.random((6, 6)) < share).tolist() for share in np.linspace(0.1, 0.9, 15)]
    return [{"mask": mask} for mask in [*presets(6).values(), *drawn]]
