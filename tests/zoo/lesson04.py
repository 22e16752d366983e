"""Answers to lesson 04's exercises: what people really write, wrong and right."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.zoo import Zoo
from utils.models import attend, attention


# 4.1 by loops
def by_loops(X, W_Q, W_K, W_V, root=None, axis=1):
    n, root = X.shape[0], math.sqrt(W_Q.shape[1]) if root is None else root
    scores = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            scores[i, j] = (X[i] @ W_Q).dot(X[j] @ W_K) / root
    weights = scores.softmax(axis)
    output = torch.zeros(n, W_V.shape[1])
    for i in range(n):
        for j in range(n):
            output[i] += weights[i, j] * (X[j] @ W_V)
    return output, weights


def row_by_row(X, W_Q, W_K, W_V):
    keys, values, rows, outputs = X @ W_K, X @ W_V, [], []
    for x in X:
        scores = keys @ (x @ W_Q) / W_Q.size(1) ** 0.5
        powers = torch.exp(scores - scores.max())
        rows.append(powers / powers.sum())
        outputs.append(rows[-1] @ values)
    return torch.stack(outputs), torch.stack(rows)


def in_place_all_the_way(X, W_Q, W_K, W_V):
    """One table for scores and weights: it could not be trained, and is right all the same."""
    weights, output = torch.empty(len(X), len(X)), torch.zeros(len(X), W_V.size(1))
    for i in range(len(X)):
        for j in range(len(X)):
            weights[i, j] = torch.sum((X[i] @ W_Q) * (X[j] @ W_K)) / W_K.size(-1) ** 0.5
        weights[i] = F.softmax(weights[i], dim=0)
        for j in range(len(X)):
            output[i] = output[i] + weights[i, j] * (X[j] @ W_V)
    return output, weights


def keeps_the_last(X, W_Q, W_K, W_V):
    _, weights = by_loops(X, W_Q, W_K, W_V)
    output = torch.zeros(len(X), W_V.size(1))
    for i in range(len(X)):
        for j in range(len(X)):
            output[i] = weights[i, j] * (X[j] @ W_V)
    return output, weights


def never_begins_anew(X, W_Q, W_K, W_V):
    _, weights = by_loops(X, W_Q, W_K, W_V)
    found, output = torch.zeros(W_V.size(1)), []
    for i in range(len(X)):
        for j in range(len(X)):
            found = found + weights[i, j] * (X[j] @ W_V)
        output.append(found)
    return torch.stack(output), weights


def with_plain_exponentials(X, W_Q, W_K, W_V):
    powers = torch.exp((X @ W_Q) @ (X @ W_K).T / W_Q.size(1) ** 0.5)
    weights = powers / powers.sum(1, keepdim=True)
    return weights @ (X @ W_V), weights


def one_exponential_sum(X, W_Q, W_K, W_V):
    """The softmax over the whole table."""
    weights = ((X @ W_Q) @ (X @ W_K).T / W_Q.size(1) ** 0.5).flatten().softmax(0).view(len(X), len(X))
    return weights @ (X @ W_V), weights


LOOP = Zoo(
    wrong=[
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, root=1), "scale is missing"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, root=X.shape[1] ** 0.5), "root of the width of X"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, root=W_K.shape[1]), "root twice over"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, root=W_V.shape[1] ** 0.5), "values' width"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, root=len(X) ** 0.5), "number of tokens"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_K, W_Q, W_V), "Queries and keys are swapped"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, W_V, axis=0), "columns add up to 1"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_K, torch.eye(X.shape[1])), "values are the tokens"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q, W_Q, W_V), "made with W_Q"),
        (lambda X, W_Q, W_K, W_V: by_loops(X, W_Q.T, W_K.T, W_V.T), "matrices are turned"),
        (keeps_the_last, "Only the last value"),
        (never_begins_anew, "begin at zero"),
        (with_plain_exponentials, "overflow"),
        (one_exponential_sum, "wrong values"),
        (lambda *parts: (by_loops(*parts)[0] + parts[0] @ parts[3], by_loops(*parts)[1]), "own value was added"),
        (lambda *parts: by_loops(*parts)[::-1], "swapped: the output comes first"),
        (lambda *parts: by_loops(*parts)[0], "expected a tuple of 2"),
        (lambda *parts: (by_loops(*parts)[1].T @ (parts[0] @ parts[3]), by_loops(*parts)[1]), "columns of the weights"),
    ],
    right=[by_loops, row_by_row, in_place_all_the_way, lambda X, W_Q, W_K, W_V: attention(X @ W_Q, X @ W_K, X @ W_V)],
)


# 4.2 by matrices
def scores_of(X, W_Q, W_K):
    return torch.einsum("...nk,...mk->...nm", X @ W_Q, X @ W_K) / W_Q.size(-1) ** 0.5


def weighed(X, W_Q, W_K, W_V, mask, hidden=None, axis=-1):
    scores = scores_of(X, W_Q, W_K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf if hidden is None else hidden)
    weights = scores.softmax(axis)
    return weights @ (X @ W_V), weights


def by_hand(X, W_Q, W_K, W_V, mask=None):
    output, weights = weighed(X, W_Q, W_K, W_V, mask, -1e30)
    if mask is not None:
        weights = weights * mask
        output = weights @ (X @ W_V)
    return output, weights


def by_attend(X, W_Q, W_K, W_V, mask=None):
    return attend(scores_of(X, W_Q, W_K), X @ W_V, mask=mask)


def by_batches(X, W_Q, W_K, W_V, mask=None):
    """Works for a batch only; a single sentence becomes one."""
    if X.ndim == 2:
        output, weights = by_batches(X[None], W_Q, W_K, W_V, mask)
        return output[0], weights[0]
    scores = torch.bmm(X @ W_Q, (X @ W_K).transpose(1, 2)) / W_Q.size(1) ** 0.5
    return attend(scores, X @ W_V, mask)


def three_axes(X, W_Q, W_K, W_V, mask=None):
    b, n, _ = X.shape
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    return attend(Q.view(b, n, -1) @ K.mT / Q.size(-1) ** 0.5, V, mask)


def by_stacking(X, W_Q, W_K, W_V, mask=None):
    """Sentence by sentence: a row of a single sentence is none."""
    masks = [None] * len(X) if mask is None else mask.expand(len(X), -1, -1)
    pairs = [attention(x @ W_Q, x @ W_K, x @ W_V, one) for x, one in zip(X, masks, strict=True)]
    return torch.stack([output for output, _ in pairs]), torch.stack([weights for _, weights in pairs])


def mask_last(X, W_Q, W_K, W_V, mask=None):
    weights = scores_of(X, W_Q, W_K).softmax(-1)
    weights = weights if mask is None else weights * mask
    return weights @ (X @ W_V), weights


def embeddings_to_minus_infinity(X, W_Q, W_K, W_V, mask=None):
    if mask is not None:
        X = X.masked_fill(~mask.expand(*X.shape[:-1], X.shape[-2]).all(-2).unsqueeze(-1), -torch.inf)
    return attention(X @ W_Q, X @ W_K, X @ W_V)


MATRICES = Zoo(
    wrong=[
        (lambda X, W_Q, W_K, W_V, mask=None: attention(W_Q @ X, W_K @ X, W_V @ X, mask), "stand at the left"),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X @ W_V), "mask has no effect"),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X @ W_V, mask, 1), "scale is missing"),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X @ W_V, mask, X.size(-1) ** -0.5),
            "root of the width of X",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q / W_Q.size(1) ** 0.5, X @ W_K, X @ W_V, mask),
            "root twice over",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_K, X @ W_Q, X @ W_V, mask),
            "Queries and keys are swapped",
        ),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X, mask), "values are the tokens"),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X, X, X @ W_V, mask), "tokens themselves were compared"),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attention(
                X @ W_Q, X @ W_K, X @ W_V, None if mask is None else mask.logical_not()
            ),
            "turned round",
        ),
        (lambda X, W_Q, W_K, W_V, mask=None: weighed(X, W_Q, W_K, W_V, mask), "got NaN"),
        (lambda X, W_Q, W_K, W_V, mask=None: weighed(X, W_Q, W_K, W_V, mask, -1e9), "got the average"),
        (lambda X, W_Q, W_K, W_V, mask=None: weighed(X, W_Q, W_K, W_V, mask, 0), "still weighs"),
        (mask_last, "after the softmax"),
        (
            lambda X, W_Q, W_K, W_V, mask=None: weighed(X, W_Q, W_K, W_V, mask, -1e9, 1),
            "the softmax runs over the keys",
        ),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X @ W_V, mask)[0], "expected a tuple of 2"),
        (lambda X, W_Q, W_K, W_V, mask=None: attention(X @ W_Q, X @ W_K, X @ W_V, mask, need_weights=False), "is None"),
        (lambda X, W_Q, W_K, W_V, mask: attention(X @ W_Q, X @ W_K, X @ W_V, mask), "must be callable"),
        (lambda X, W_Q, W_K, W_V, mask=None: by_hand(X.detach(), W_Q, W_K, W_V, mask), "gradient"),
        (embeddings_to_minus_infinity, "contains NaN"),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attend(
                torch.bmm(X @ W_Q, (X @ W_K).transpose(1, 2)) / W_Q.size(1) ** 0.5, X @ W_V, mask
            ),
            "without a batch axis: count axes from the end",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attend(
                (X @ W_Q) @ (X @ W_K).transpose(1, 2) / W_Q.size(1) ** 0.5, X @ W_V, mask
            ),
            "without a batch axis: count axes from the end",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attend(
                torch.matmul(X @ W_Q, (X @ W_K).permute(0, 2, 1)) / W_Q.size(1) ** 0.5, X @ W_V, mask
            ),
            "without a batch axis: count axes from the end",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attend(
                torch.bmm(X @ W_Q, (X @ W_K).mT) / W_Q.size(1) ** 0.5, X @ W_V, mask
            ),
            "`bmm` wants three axes",
        ),
        (
            lambda X, W_Q, W_K, W_V, mask=None: attend(
                torch.einsum("bik,bjk->bij", X @ W_Q, X @ W_K) / W_Q.size(1) ** 0.5, X @ W_V, mask
            ),
            "The equation of `einsum`",
        ),
        (three_axes, "cannot be unpacked"),
        (by_stacking, "one sentence without a batch axis"),
    ],
    right=[by_hand, by_attend, by_batches],
)


# 4.3 sinusoids
def filled(length, dim, first=0, frequencies=None):
    table = torch.zeros(length, dim)
    place = torch.arange(first, first + length, dtype=torch.float).unsqueeze(1)
    if frequencies is None:
        frequencies = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
    table[:, 0::2] = torch.sin(place * frequencies)
    table[:, 1::2] = torch.cos(place * frequencies)
    return table


def number_by_number(length, dim):
    def entry(place, component):
        angle = place / 10000 ** (2 * (component // 2) / dim)
        return math.cos(angle) if component % 2 else math.sin(angle)

    return torch.tensor([[entry(place, component) for component in range(dim)] for place in range(length)])


def waves_of_their_own(length, dim):
    table = torch.zeros(length, dim)
    for place in range(length):
        for component in range(dim):
            angle = torch.tensor(place / 10000 ** (component / dim))
            table[place, component] = angle.cos() if component % 2 else angle.sin()
    return table


def halves(length, dim):
    angles = torch.outer(torch.arange(length).float(), 10000 ** -(torch.arange(dim // 2) / (dim / 2)))
    return torch.cat((angles.sin(), angles.cos()), dim=1)


SINUSOIDS = Zoo(
    wrong=[
        (lambda n, d: filled(n, d, first=1), "begin at 1"),
        (halves, "sines stand in front"),
        (lambda n, d: filled(n, d).view(n, d // 2, 2).flip(-1).flatten(1), "swapped"),
        (lambda n, d: filled(n, d, frequencies=10000 ** (-torch.arange(d // 2) / d)), "exponent is half"),
        (lambda n, d: filled(n, d, frequencies=10000 ** (-2 * torch.arange(0, d, 2) / d)), "exponent is twice"),
        (waves_of_their_own, "different frequencies"),
        (lambda n, d: filled(n, d, frequencies=10000 ** (torch.arange(0, d, 2) / d)), "frequencies grow"),
        (lambda n, d: filled(n, d, frequencies=10000.0 ** -(torch.arange(0, d, 2) // d)), "equally fast"),
        (lambda n, d: filled(n, d, frequencies=1000 ** (-torch.arange(0, d, 2) / d)), "base is 1,000"),
        (lambda n, d: filled(n, d, frequencies=torch.exp(-torch.arange(0, d, 2) / d)), "base is e"),
        (lambda n, d: filled(n, d, frequencies=10000.0 ** -torch.linspace(0, 1, d // 2)), "exactly 1 / 10,000"),
        (lambda n, d: filled(n, d, frequencies=10000 ** (-torch.arange(d // 2) / (d // 2 - 1))), "exactly 1 / 10,000"),
        (lambda n, d: filled(n, d).T, "table is turned"),
        (lambda n, d: filled(n, d).unsqueeze(0), "one too many"),
        (lambda n, d: filled(n, d, frequencies=1 / torch.arange(1, d // 2 + 1)), "wrong values"),
        (lambda n, d: filled(n, d).round(decimals=2), "distance alone"),
        (lambda n, d: filled(n, d).tolist(), "return a torch tensor"),
        (lambda n, d: filled(n, d).double(), "in float64"),
    ],
    right=[filled, number_by_number],
)


# 4.4 a shift
def angles_of(k, dim):
    return k / 10000 ** (torch.arange(0, dim, 2) / dim)


def by_blocks(k, dim):
    return torch.block_diag(*[torch.tensor([[a.cos(), -a.sin()], [a.sin(), a.cos()]]) for a in angles_of(k, dim)])


def by_strides(k, dim):
    R, a, even = torch.zeros(dim, dim), angles_of(k, dim), torch.arange(0, dim, 2)
    R[even, even] = R[even + 1, even + 1] = a.cos()
    R[even, even + 1], R[even + 1, even] = -a.sin(), a.sin()
    return R


def by_exponential(k, dim):
    """A rotation is e to the power of what turns."""
    generator = torch.zeros(dim, dim)
    for i, frequency in enumerate(angles_of(1, dim)):
        generator[2 * i, 2 * i + 1], generator[2 * i + 1, 2 * i] = -frequency, frequency
    return torch.matrix_exp(k * generator)


def by_halves(k, dim):
    c, s = angles_of(k, dim).cos().diag(), angles_of(k, dim).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])


SHIFT = Zoo(
    wrong=[
        (lambda k, d: by_blocks(k, d).T, "other way"),
        (lambda k, d: by_blocks(k, d) * torch.where(by_blocks(1, d).triu(1) != 0, -1, 1), "A minus is missing"),
        (lambda k, d: by_blocks(1, d), "k has no effect"),
        (lambda k, d: torch.block_diag(*[by_blocks(k, 2)] * (d // 2)), "the same angle"),
        (by_halves, "neighbours"),
        (lambda k, d: by_blocks(abs(k), d), "sign of k"),
        (lambda k, d: angles_of(k, d).cos().repeat_interleave(2).diag(), "cosines only"),
        (lambda k, d: torch.stack([by_blocks(k, d)[i : i + 2, i : i + 2] for i in range(0, d, 2)]), "block_diag"),
        (lambda k, d: torch.eye(d), "identity: it leaves"),
        (lambda k, d: by_blocks(k, 2 * d)[:d, :d], "exponent is half"),
        (lambda k, d: by_blocks(2 * k, d), "position 0 times R is not position 4"),
        (lambda k, d: by_blocks(k, d)[:, :-1], "Look at axis 1"),
        (lambda k, d: torch.block_diag(*[torch.tensor([[k, -k], [k, k]])] * (d // 2)), "expected real numbers"),
        (lambda k, d: by_exponential(k, d).double(), "in float64"),
    ],
    right=[by_blocks, by_strides, by_exponential],
)


# 4.5 rotary positions
def turn(x, positions, frequencies=None, direction=1):
    d = x.shape[-1]
    frequencies = 1 / 10000 ** (torch.arange(0, d, 2) / d) if frequencies is None else frequencies
    angles = torch.outer(positions.float(), frequencies) * direction
    result = torch.empty_like(x)
    result[..., 0::2] = x[..., 0::2] * torch.cos(angles) - x[..., 1::2] * torch.sin(angles)
    result[..., 1::2] = x[..., 0::2] * torch.sin(angles) + x[..., 1::2] * torch.cos(angles)
    return result


def by_complex_numbers(x, positions):
    angles = torch.outer(positions.float(), angles_of(1, x.size(-1)))
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def by_the_matrix_of_4_4(x, positions, turned=True):
    shifts = [by_blocks(int(place), x.size(-1)) for place in positions]
    rows = [x[..., i, :] @ (shift.T if turned else shift) for i, shift in enumerate(shifts)]
    return torch.stack(rows, -2)


def by_halves_of_x(x, positions):
    angles = torch.outer(positions.float(), angles_of(1, x.size(-1)))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def into_halves(x, positions):
    result = turn(x, positions)
    return torch.cat([result[..., ::2], result[..., 1::2]], -1)


def in_place(x, positions):
    x[..., 0::2], x[..., 1::2] = turn(x, positions)[..., 0::2], turn(x, positions)[..., 1::2]
    return x


def overwrites_the_first(x, positions):
    angles = torch.outer(positions.float(), angles_of(1, x.size(-1)))
    result = x.clone()
    result[..., 0::2] = result[..., 0::2] * angles.cos() - result[..., 1::2] * angles.sin()
    result[..., 1::2] = result[..., 0::2] * angles.sin() + result[..., 1::2] * angles.cos()
    return result


def with_a_mirror(x, positions):
    angles = torch.outer(positions.float(), angles_of(1, x.size(-1))).repeat_interleave(2, -1)
    swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return x * angles.cos() + swapped * angles.sin()


ROTARY = Zoo(
    wrong=[
        (lambda x, p: turn(x, p, direction=-1), "turn against the usual (a, b)"),
        (lambda x, p: by_the_matrix_of_4_4(x, p, turned=False), "turn against the usual (a, b)"),
        (by_halves_of_x, "turned with i + d / 2"),
        (into_halves, "another order"),
        (lambda x, p: turn(x, torch.arange(x.shape[-2])), "`positions` has no effect"),
        (lambda x, p: turn(x, p + 1), "one too large"),
        (lambda x, p: turn(x, p, torch.ones(x.shape[-1] // 2)), "equally fast"),
        (lambda x, p: turn(x, p, 10000 ** (-torch.arange(x.shape[-1] // 2) / x.shape[-1])), "exponent is half"),
        (lambda x, p: turn(x, p, 10000 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])), "frequencies grow"),
        (overwrites_the_first, "after its turn"),
        (with_a_mirror, "A minus is missing"),
        (lambda x, p: x + filled(512, x.shape[-1])[p], "position was added"),
        (in_place, "changed its input `x`"),
        (lambda x, p: turn(x.detach(), p), "gradient"),
        (lambda x, p: turn(x, p).unflatten(-1, (-1, 2)), "an axis of their own"),
        (lambda x, p: turn(x, p * p), "by its position times a fixed angle"),
        (lambda x, p: turn(2 * x, p), "changed their lengths"),
    ],
    right=[turn, by_complex_numbers, by_the_matrix_of_4_4],
)


# 4.6 the feed-forward layer
class Widened(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.widen = nn.Linear(dim, hidden)
        self.narrow = nn.Linear(hidden, dim)


def net(forward):
    return type("FeedForward", (Widened,), {"forward": forward})


class LayersOfItsOwn(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        return self.layers(x)


FEED_FORWARD = Zoo(
    wrong=[
        (net(lambda self, x: self.narrow(self.widen(x))), "ReLU is missing"),
        (net(lambda self, x: F.relu(self.narrow(self.widen(x)))), "stands at the end"),
        (net(lambda self, x: F.relu(self.narrow(F.relu(self.widen(x))))), "second ReLU"),
        (net(lambda self, x: self.narrow(self.widen(F.relu(x)))), "stands in front"),
        (net(lambda self, x: self.narrow(F.gelu(self.widen(x)))), "GELU"),
        (net(lambda self, x: self.narrow(F.silu(self.widen(x)))), "That is the SiLU"),
        (net(lambda self, x: self.narrow(F.relu(self.widen(x))).softmax(-1)), "softmax at the end"),
        (net(lambda self, x: self.narrow(F.relu6(self.widen(x)))), "large inputs"),
        (net(lambda self, x: self.narrow(F.relu(self.widen(x))) + x), "x was added"),
        (net(lambda self, x: self.widen(F.relu(self.narrow(x)))), "swapped"),
        (net(lambda self, x: F.relu(self.widen(x))), "`narrow` is missing"),
        (net(lambda self, x: self.narrow(F.relu(self.widen(x - x.mean(-2, keepdim=True))))), "another"),
        (net(lambda self, x: self.narrow(F.dropout(F.relu(self.widen(x)), 0.5))), "It was called with\n    dim = "),
        (net(lambda self, x: self.narrow(F.relu(self.widen(x))).detach()), "gradient"),
        (net(lambda self, x: print(self.narrow(F.relu(self.widen(x))))), "returned nothing"),
        (LayersOfItsOwn, "only `forward` is yours"),
        (net(lambda self, x: self.narrow(nn.ReLU(self.widen(x)))), "It raised"),
    ],
    right=[
        net(lambda self, x: self.narrow(self.widen(x).clamp(min=0))),
        net(lambda self, x: nn.Sequential(self.widen, nn.ReLU(), self.narrow)(x)),
        net(lambda self, x: F.linear(F.relu(F.linear(x, *self.widen.parameters())), *self.narrow.parameters())),
    ],
)


# 4.7 the causal mask
def by_comparison(length):
    places = torch.arange(length)
    return places[None, :] <= places[:, None]


def by_filling(length):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


CAUSAL = Zoo(
    wrong=[
        (lambda n: torch.arange(n)[None] < torch.arange(n)[:, None], "diagonal belongs"),
        (lambda n: torch.triu(torch.ones(n, n)).bool(), "at itself and the future"),
        (lambda n: torch.triu(torch.ones(n, n), diagonal=1) == 1, "turned round"),
        (lambda n: torch.tril(torch.ones(n, n)), "0.0 and 1.0"),
        (lambda n: torch.tril(torch.ones(n, n, dtype=torch.int)), "numbers 0 and 1"),
        (lambda n: torch.triu(torch.full((n, n), -torch.inf), 1), "to be added to scores"),
        (lambda n: torch.tril(torch.ones(1, n, n, dtype=torch.bool)), "an axis too many"),
        (lambda n: by_filling(n).fliplr(), "wrong values"),
        (lambda n: torch.ones(n, n) == 1, "look everywhere"),
        (lambda n: by_filling(n + 1)[1:, :n], "one token of the future"),
        (lambda n: [[j <= i for j in range(n)] for i in range(n)], "return a torch tensor"),
        (lambda n: by_filling(n).numpy(), "NumPy"),
    ],
    right=[by_comparison, by_filling, lambda n: ~torch.triu(torch.ones(n, n), diagonal=1).bool()],
)


# 4.8 the padding mask
def real(lengths, length):
    return torch.arange(length).expand(len(lengths), length) < lengths[:, None]


def padding_by_loops(lengths, length):
    mask = torch.zeros(len(lengths), 1, length, dtype=torch.bool)
    for row, count in enumerate(lengths):
        mask[row, 0, :count] = True
    return mask


PADDING = Zoo(
    wrong=[
        (real, "axis in the middle"),
        (lambda lengths, n: ~padding_by_loops(lengths, n), "turned round"),
        (lambda lengths, n: (torch.arange(n) <= lengths[:, None])[:, None], "counted from 0"),
        (lambda lengths, n: (torch.arange(1, n + 1) < lengths[:, None])[:, None], "last word of each sentence"),
        (lambda lengths, n: (torch.arange(n) >= n - lengths[:, None])[:, None], "stands in front"),
        (lambda lengths, n: real(lengths, n)[..., None], "hides the rows"),
        (lambda lengths, n: real(lengths, n)[None], "comes first"),
        (lambda lengths, n: real(lengths, n)[:, None] & real(lengths, n)[:, :, None], "harms nobody"),
        (lambda lengths, n: real(lengths, n)[:, None].repeat(1, n, 1), "all are the same"),
        (lambda lengths, n: real(lengths, max(lengths.tolist()))[:, None], "longest sentence"),
        (lambda lengths, n: real(lengths, n)[:, None].int(), "numbers 0 and 1"),
        (lambda lengths, n: torch.arange(n) < lengths, "one by one"),
        (lambda lengths, n: torch.where(real(lengths, n)[:, None], 0.0, -torch.inf), "expected true-or-false"),
        (lambda lengths, n: lengths[:, None] > n, "has shape"),
        (lambda lengths, n: torch.arange(n)[:, None] < lengths, "Places are rows and sentences columns"),
        (lambda lengths, n: torch.stack(list(real(lengths, n))).T, "Places are rows and sentences columns"),
        (lambda lengths, n: (torch.arange(n)[:, None] < lengths)[:, None], "Places are rows and sentences columns"),
        (lambda lengths, n: torch.arange(n)[:, None, None, None] < lengths, "has shape (3, 1, 1, 1)"),
    ],
    right=[
        padding_by_loops,
        lambda lengths, n: real(lengths, n)[:, None],
        lambda lengths, n: torch.arange(n).view(1, 1, -1).lt(lengths.view(-1, 1, 1)),
    ],
)


# 4.9 the layer
class Layer(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        for name in ("query", "key", "value"):
            setattr(self, name, nn.Linear(dim, inner, bias=False))

    def forward(self, x, mask=None):
        return self.look(x, self.query(x), self.key(x), self.value(x), mask)

    def look(self, x, query, key, value, mask):
        return attention(query, key, value, mask)


def layer(look):
    return type("SelfAttention", (Layer,), {"look": look})


class ByFunction(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, inner, bias=False) for _ in range(3))

    def forward(self, x, mask=None):
        return by_hand(x, self.query.weight.T, self.key.weight.T, self.value.weight.T, mask)


class WithBias(Layer):
    def __init__(self, dim, inner):
        nn.Module.__init__(self)
        self.query, self.key, self.value = (nn.Linear(dim, inner) for _ in range(3))


class Turned(Layer):
    def __init__(self, dim, inner):
        super().__init__(inner, dim)


class AsWideAsTheTokens(Layer):
    def __init__(self, dim, inner):
        super().__init__(dim, dim)


class OneForAll(Layer):
    def __init__(self, dim, inner):
        super().__init__(dim, inner)
        self.key = self.query


class WithOutput(Layer):
    def __init__(self, dim, inner):
        super().__init__(dim, inner)
        self.output = nn.Linear(inner, dim)


class WithOtherNames(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Linear(dim, inner, bias=False) for _ in range(3))

    def forward(self, x, mask=None):
        return attention(self.W_Q(x), self.W_K(x), self.W_V(x), mask)


class WithTensors(Layer):
    def __init__(self, dim, inner):
        nn.Module.__init__(self)
        self.query, self.key, self.value = (torch.randn(dim, inner) for _ in range(3))


class ForgetsSuper(Layer):
    def __init__(self, dim, inner):
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)


class NeedsAMask(Layer):
    def forward(self, x, mask):
        return super().forward(x, mask)


class Misspells(Layer):
    def forward(self, x, mask=None):
        return attention(self.qurey(x), self.key(x), self.value(x), mask)


class CallsByAnotherName(Layer):
    def forward(self, x, mask=None):
        return attention(self.query(x), self.key(x), self.values(x), mask)


class HandsOnLayers(Layer):
    def forward(self, x, mask=None):
        return attention(self.query, self.key, self.value, mask)


class MultipliesLayers(Layer):
    def forward(self, x, mask=None):
        return attend(self.query @ self.key.transpose(-2, -1), self.value, mask)


class HandsOnTwoLayers(Layer):
    def forward(self, x, mask=None):
        return attention(self.query(x), self.key, self.value, mask)


class HandsOnOneLayer(Layer):
    def forward(self, x, mask=None):
        return attention(self.query(x), self.key(x), self.value, mask)


def hides_late(self, x, query, key, value, mask):
    weights = (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


def hides_values(self, x, query, key, value, mask):
    """Keeps the hidden values out, but their share of the weight is lost, and the weights say otherwise."""
    weights = (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)
    return (weights if mask is None else weights * mask) @ value, weights


def with_minus_infinity(self, x, query, key, value, mask):
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return weights @ value, weights


LAYER = Zoo(
    wrong=[
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v)), "mask has no effect"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v, mask, x.size(-1) ** -0.5)), "root of `dim`"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v, mask, 1)), "scale is missing"),
        (layer(lambda self, x, q, k, v, mask: attention(q / q.size(-1) ** 0.5, k, v, mask)), "root twice"),
        (layer(lambda self, x, q, k, v, mask: attention(k, q, v, mask)), "Queries and keys are swapped"),
        (layer(lambda self, x, q, k, v, mask: attention(q, v, k, mask)), "Keys and values are swapped"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, x, mask)), "tokens themselves were mixed"),
        (layer(lambda self, x, q, k, v, mask: attention(x, x, x, mask)), "not used"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v, mask)[0]), "Only the output"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v, mask)[::-1]), "swapped: the output comes first"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, v, None if mask is None else ~mask)), "turned round"),
        (layer(hides_late), "after the softmax"),
        (layer(with_minus_infinity), "got NaN"),
        (layer(hides_values), "later tokens still influence"),
        (WithBias, "has a bias"),
        (Turned, "from `inner` to `dim`"),
        (AsWideAsTheTokens, "`inner` has no effect"),
        (OneForAll, "one and the same layer"),
        (WithOutput, "a parameter too many"),
        (WithOtherNames, "`self.query` is missing"),
        (WithTensors, "`self.query` is a torch tensor"),
        (ForgetsSuper, "super().__init__()"),
        (NeedsAMask, "missing 1 required positional argument"),
        (Misspells, "has no attribute 'qurey'"),
        (CallsByAnotherName, "has no attribute 'values'"),
        (HandsOnLayers, "The layers were handed on themselves"),
        (MultipliesLayers, "The layers were handed on themselves"),
        (HandsOnTwoLayers, "The layers were handed on themselves"),
        (HandsOnOneLayer, "The layers were handed on themselves"),
        (layer(lambda self, x, q, k, v, mask: attention(q, k, 2 * v, mask)), "It was called with\n    dim = "),
        (layer(lambda self, x, q, k, v, mask: attention(q, k.detach(), v, mask)), "gradient"),
    ],
    right=[Layer, ByFunction, layer(lambda self, x, q, k, v, mask: attend(q @ k.mT / q.shape[-1] ** 0.5, v, mask))],
)


# 4.10 the loss
def flat(logits, tokens, mask):
    """Everything in one row, padding thrown away first."""
    return F.cross_entropy(logits[:, :-1][mask[:, 1:]], tokens[:, 1:][mask[:, 1:]])


def told_to_ignore(logits, tokens, mask):
    targets = tokens.masked_fill(~mask, -100)[:, 1:]
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), targets.reshape(-1))


def token_by_token(logits, tokens, mask):
    losses = []
    for b in range(len(tokens)):
        for t in range(tokens.size(1) - 1):
            if mask[b, t + 1]:
                losses.append(logits[b, t].logsumexp(0) - logits[b, t, tokens[b, t + 1]])
    return sum(losses) / len(losses)


def by_mixing_reshape(logits, tokens, mask):
    guesses, targets = logits[:, :-1].reshape(logits.size(-1), -1).T, tokens[:, 1:].reshape(-1)
    return F.cross_entropy(guesses, targets, reduction="none")[mask[:, 1:].reshape(-1)].mean()


def silenced(logits, tokens, mask, of_logits=True, of_targets=True):
    """Padding becomes 0 before the loss."""
    logits, targets, asked = logits[:, :-1], tokens[:, 1:], mask[:, 1:]
    logits = logits * asked.unsqueeze(-1) if of_logits else logits
    targets = targets * asked if of_targets else targets
    return F.cross_entropy(logits.transpose(1, 2), targets)


def each(logits, tokens):
    return F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none")


LOSS = Zoo(
    wrong=[
        (lambda x, t, m: each(x, t)[m].mean(), "not shifted"),
        (lambda x, t, m: each(x[:, 1:], t[:, :-1])[m[:, 1:]].mean(), "the wrong way: position"),
        (lambda x, t, m: each(x[:, 1:], t[:, :-1])[m[:, :-1]].mean(), "in the mask as well"),
        (lambda x, t, m: F.cross_entropy(x[:, :-1].flatten(0, 1), t[:, 1:].flatten()), "Padding counts"),
        (lambda x, t, m: each(x[:, :-1], t[:, 1:])[m[:, :-1]].mean(), "cut at the wrong end"),
        (lambda x, t, m: (each(x[:, :-1], t[:, 1:]) * m[:, 1:]).mean(), "divided by all positions"),
        (lambda x, t, m: (each(x[:, :-1], t[:, 1:]) * m[:, 1:]).sum() / m.sum(), "number of all tokens"),
        (lambda x, t, m: each(x[:, :-1], t[:, 1:])[m[:, 1:]].sum(), "That is the sum"),
        (
            lambda x, t, m: ((each(x[:, :-1], t[:, 1:]) * m[:, 1:]).sum(1) / m[:, 1:].sum(1).clamp(min=1)).mean(),
            "sentences' means",
        ),
        (lambda x, t, m: flat(x.softmax(-1), t, m), "taken twice"),
        (lambda x, t, m: F.nll_loss(x[:, :-1][m[:, 1:]], t[:, 1:][m[:, 1:]]), "softmax is missing"),
        (
            lambda x, t, m: F.cross_entropy(x[:, :-1].flatten(0, 1), t[:, 1:].flatten(), ignore_index=0),
            "number 0 were left out",
        ),
        (lambda x, t, m: each(x, t.roll(-1, 1))[m].mean(), "round the corner"),
        (lambda x, t, m: each(x[:, 1:], t[:, 1:])[m[:, 1:]].mean(), "cut at the same end"),
        (lambda x, t, m: F.cross_entropy(x.flatten(0, 1)[:-1], t.flatten()[1:]), "shift first, `logits"),
        (lambda x, t, m: torch.exp(flat(x, t, m)), "perplexity"),
        (lambda x, t, m: -flat(x, t, m), "sign is wrong"),
        (lambda x, t, m: flat(x, t, m).item(), "Leave out `.item()`"),
        (lambda x, t, m: flat(x, t, m).detach(), "gradient"),
        (lambda x, t, m: F.cross_entropy(x[:, :-1], t[:, 1:]), "It raised"),
        (lambda x, t, m: flat(x, t, m) / math.log(2), "wrong values"),
        (silenced, "Padding was set to 0 and still counts"),
        (lambda x, t, m: silenced(x, t, m, of_targets=False), "Padding was set to 0 and still counts"),
        (lambda x, t, m: silenced(x, t, m, of_logits=False), "Padding was set to 0 and still counts"),
        (lambda x, t, m: each((x * m[..., None])[:, :-1], t[:, 1:]).mean(), "Padding was set to 0 and still counts"),
        (
            lambda x, t, m: each((x * m[..., None])[:, :-1], (t * m)[:, 1:]).mean(),
            "Padding was set to 0 and still counts",
        ),
        (by_mixing_reshape, "`reshape` mixed positions and words: `transpose(1, 2)` turns axes"),
    ],
    right=[flat, told_to_ignore, token_by_token],
)

ZOO = {
    "4.1": LOOP,
    "4.2": MATRICES,
    "4.3": SINUSOIDS,
    "4.4": SHIFT,
    "4.5": ROTARY,
    "4.6": FEED_FORWARD,
    "4.7": CAUSAL,
    "4.8": PADDING,
    "4.9": LAYER,
    "4.10": LOSS,
}
