"""Recurrent cells by hand: one word and the state so far go in, the next state comes out.

The formulas, the order of the gates and the two biases are those of `nn.RNN`, `nn.GRU` and `nn.LSTM`, so that with copied
weights (`copy_weights`) a cell gives torch's numbers. Every cell is called `state = cell(x, state)`, where x is (b, d);
`output(state)` is the part of the state (b, width) that others see.
"""

import torch
from torch import Tensor, nn

State = Tensor | tuple[Tensor, Tensor]


class TanhCell(nn.Module):
    """The plain cell: state = tanh(A x + B state)."""

    gates = 1

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.width = width
        self.from_input = nn.Linear(inputs, self.gates * width)
        self.from_state = nn.Linear(width, self.gates * width)

    def first_state(self, batch: int) -> State:
        return self.from_state.weight.new_zeros(batch, self.width)

    def output(self, state: State) -> Tensor:
        return state

    def forward(self, x: Tensor, state: State) -> State:
        return torch.tanh(self.from_input(x) + self.from_state(state))


class GRUCell(TanhCell):
    """A gate `keep` between 0 and 1 says for each number of the state how much of it stays as it was."""

    gates = 3

    def forward(self, x: Tensor, state: Tensor) -> Tensor:
        x_reset, x_keep, x_new = self.from_input(x).chunk(3, -1)
        h_reset, h_keep, h_new = self.from_state(state).chunk(3, -1)
        reset = torch.sigmoid(x_reset + h_reset)
        keep = torch.sigmoid(x_keep + h_keep)
        # What is reset is the map of the old state, its bias included, and not the old state.
        new = torch.tanh(x_new + reset * h_new)
        return keep * state + (1 - keep) * new


class LSTMCell(TanhCell):
    """The state is a pair: what others see, and a store that is only scaled and added to, so gradients reach far back."""

    gates = 4

    def first_state(self, batch: int) -> tuple[Tensor, Tensor]:
        return super().first_state(batch), super().first_state(batch)

    def output(self, state: tuple[Tensor, Tensor]) -> Tensor:
        return state[0]

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        seen, store = state
        write, keep, new, show = (self.from_input(x) + self.from_state(seen)).chunk(4, -1)
        store = torch.sigmoid(keep) * store + torch.sigmoid(write) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(store), store


def unroll(cell: TanhCell, x: Tensor, state: State | None = None) -> tuple[Tensor, State]:
    """Read x (b, n, d) word by word. Returns what the cell shows after each word (b, n, width), and the last state."""
    state = cell.first_state(len(x)) if state is None else state
    outputs = []
    for word in x.unbind(1):  # each step needs the one before: nothing here can run in parallel
        state = cell(word, state)
        outputs.append(cell.output(state))
    return torch.stack(outputs, 1), state


@torch.no_grad()
def copy_weights(cell: TanhCell, layer: nn.RNNBase | nn.RNNCellBase) -> TanhCell:
    """Give `cell` the weights of torch's `layer`: the matching layer (its first, forward direction) or cell.

    torch stacks the gates of a cell in one matrix, and so do these cells in the same order (GRU: reset, keep, new; LSTM: write,
    keep, new, show), so the copy is four assignments. torch calls them input and forget where we say write and keep.
    """
    suffix = "_l0" if isinstance(layer, nn.RNNBase) else ""
    for name, ours in (("ih", cell.from_input), ("hh", cell.from_state)):
        for kind in ("weight", "bias"):
            getattr(ours, kind).copy_(getattr(layer, f"{kind}_{name}{suffix}"))
    return cell
