"""Writing text with a language model: one piece after the other, each drawn from what the model says.

Three dials say how bold the draw is: temperature, top-k and top-p.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def next_distribution(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Tensor:
    """Logits (pieces,) to the probabilities (pieces,) that the next piece is drawn with.

    temperature: the logits are divided by it, so below 1 the likely get likelier; 0 leaves the likeliest alone.
    top_k: only the k likeliest stay. top_p: only the fewest likeliest that have p of the probability between them stay, and
    always one at least. Of the two, top_k cuts first; what stays is made to sum to one. Among equals the lower number stays.
    """
    if temperature < 0:
        raise ValueError(f"expected a temperature of 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"expected a top_k of at least 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"expected a top_p above 0 and up to 1, got {top_p}")
    order = logits.argsort(descending=True, stable=True)
    if temperature == 0:
        chances = torch.zeros_like(logits)
        chances[0] = 1
    else:
        # Less the highest: a small temperature would make infinities of large logits.
        chances = ((logits[order] - logits[order[0]]) / temperature).softmax(-1)
    if top_k is not None:
        chances[top_k:] = 0
        chances = chances / chances.sum()
    if top_p is not None:
        before = chances.cumsum(-1) - chances  # what the likelier ones have between them
        chances[before >= top_p] = 0
        chances = chances / chances.sum()
    return torch.zeros_like(chances).scatter(0, order, chances)


@torch.no_grad()
def generate(
    model: Callable[[Tensor], Tensor],
    numbers: Sequence[int] | Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    context: int | None = None,
    never: Iterable[int] = (),
    stop: int | None = None,
) -> Tensor:
    """Go on from `numbers` (n,) by up to `count` pieces; returns all of them, (n + count,) or fewer.

    model: numbers (1, m) to logits (1, m, pieces), as `CausalLM` does; it sees the last `context` pieces, or all.
    never: numbers that are not to be written, such as padding. stop: after writing this one nothing more is written.
    """
    numbers = torch.as_tensor(numbers, dtype=torch.long)
    if numbers.dim() != 1 or not len(numbers):
        raise ValueError(f"expected at least one piece to go on from, as (n,), got shape {tuple(numbers.shape)}")
    never = list(never)
    for _ in range(count):
        seen = numbers if context is None else numbers[-context:]
        logits = model(seen[None])[0, -1].clone()
        logits[never] = -torch.inf
        chances = next_distribution(logits, temperature, top_k, top_p)
        drawn = torch.multinomial(chances, 1, generator=generator)
        numbers = torch.cat([numbers, drawn])
        if stop is not None and drawn.item() == stop:
            break
    return numbers
