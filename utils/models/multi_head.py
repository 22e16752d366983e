"""Multi-head attention: scaled dot-product attention in several subspaces at once, concatenated and projected."""

import torch
from torch import Tensor, nn

from utils.models.attention import attention


def head_width(dim: int, heads: int) -> int:
    """The width that each head works in, dim / heads."""
    if heads < 1 or dim % heads:
        better = heads * max(1, round(dim / heads)) if heads > 0 else dim
        raise ValueError(f"expected {heads} heads to divide dim {dim}; try dim {better}, or another number of heads")
    return dim // heads


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(b, n, dim) to (b, heads, n, dim / heads): head 0 gets the first dim / heads components of every token."""
    return x.unflatten(-1, (heads, head_width(x.size(-1), heads))).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """(b, heads, n, d) to (b, n, heads * d): the outputs of the heads side by side. Undoes `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """All heads in one matrix product. The parameters are as many as for one head of the full width: 4 dim (dim + 1).

    The rows of `project` are three blocks of `dim`: queries, keys, values; inside a block, head after head.
    """

    def __init__(self, dim: int, heads: int, bias: bool = True):
        super().__init__()
        head_width(dim, heads)
        self.dim, self.heads = dim, heads
        self.project = nn.Linear(dim, 3 * dim, bias)
        self.mix = nn.Linear(dim, dim, bias)
        for matrix in (*self.project.weight.chunk(3), self.mix.weight):
            nn.init.xavier_uniform_(matrix)
        if bias:
            nn.init.zeros_(self.project.bias)
            nn.init.zeros_(self.mix.bias)

    def forward(
        self,
        query_from: Tensor,
        key_from: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = False,
        heads_on: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """query_from (b, m, dim), key_from (b, n, dim) to output (b, m, dim) and weights (b, heads, m, n), None if not needed.

        Without key_from the tokens look at each other. Keys and values both come from key_from.
        mask: bool, True = may look, (m, n) for all sentences, (b, 1, n) or (b, m, n) for each; all heads share it.
        heads_on (heads,): what each head's output is multiplied by before the heads are mixed; 0 takes a head out.
        """
        if key_from is None:
            query, key, value = self.queries_keys_values(query_from)
        else:
            query, (key, value) = self.queries(query_from), self.keys_values(key_from)
        return self.look(query, key, value, mask, need_weights, heads_on)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (b, n, dim) to three tensors (b, heads, n, d)."""
        query, key, value = (split_heads(part, self.heads) for part in self.project(x).chunk(3, -1))
        return query, key, value

    def queries(self, x: Tensor) -> Tensor:
        """x (b, m, dim) to (b, heads, m, d)."""
        return split_heads(self._project_part(x, slice(0, self.dim)), self.heads)

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (b, n, dim) to two tensors (b, heads, n, d)."""
        key, value = self._project_part(x, slice(self.dim, None)).chunk(2, -1)
        return split_heads(key, self.heads), split_heads(value, self.heads)

    def look(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        heads_on: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend in each head, (b, heads, ., d), and mix what the heads found; the rest as in `forward`."""
        found, weights = attention(query, key, value, _for_heads(mask, query, key), need_weights=need_weights)
        if heads_on is not None:
            found = found * heads_on[:, None, None]
        return self.mix(merge_heads(found)), weights

    # One word of each sentence

    def query_key_value_of(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`queries_keys_values` for one token of each sentence: x (b, dim) to three tensors (b, heads, d)."""
        query, key, value = self.project(x).view(len(x), 3, self.heads, -1).unbind(1)
        return query, key, value

    def query_of(self, x: Tensor) -> Tensor:
        """`queries` for one token of each sentence: x (b, dim) to (b, heads, d)."""
        return self._project_part(x, slice(0, self.dim)).view(len(x), self.heads, -1)

    def look_once(
        self, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """`look` with one query for each head, (b, heads, d), at key and value (b, heads, n, d).

        Returns output (b, dim) and weights (b, heads, n). For a single query two plain products are faster than the fused kernel,
        and the weights come for nothing. hidden (b * heads, 1, n): added to the scores, minus infinity where nobody may look.
        """
        b, heads, d = query.shape
        query, key, value = query.reshape(b * heads, 1, d), key.flatten(0, 1), value.flatten(0, 1)
        if hidden is None:
            scores = torch.bmm(query, key.mT) * d**-0.5
        else:
            scores = torch.baddbmm(hidden, query, key.mT, alpha=d**-0.5)
        weights = scores.softmax(-1)
        found = torch.bmm(weights, value)
        return self.mix(found.view(b, heads * d)), weights.view(b, heads, -1)

    def _project_part(self, x: Tensor, rows: slice) -> Tensor:
        bias = self.project.bias
        return nn.functional.linear(x, self.project.weight[rows], None if bias is None else bias[rows])


def _for_heads(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    """The mask with an axis of length one for the heads, where it has an axis for the sentences."""
    if mask is None:
        return None
    (m, n), shape = (query.size(-2), key.size(-2)), mask.shape
    if mask.dim() not in (2, 3) or shape[-2] not in (1, m) or shape[-1] not in (1, n):
        raise ValueError(
            f"expected a mask of shape ({m}, {n}), (b, 1, {n}) or (b, {m}, {n}), got {tuple(shape)}; "
            "a mask (b, n) of real tokens becomes (b, 1, n) by mask.unsqueeze(1)"
        )
    return mask.unsqueeze(-3) if mask.dim() == 3 else mask
