"""End-to-end memory network (Sukhbaatar et al., 2015, arXiv:1503.08895).

Every function takes any number of leading axes, so the same code trains one network or many at once: the seed is an
ordinary batch axis of the parameters.
"""

import torch
from torch import Tensor, nn

from utils.models.attention import attend


def position_encoding(length: int, dim: int) -> Tensor:
    """Position encoding (length, dim): the weight 1 + 4 (i - (d+1)/2) (j - (J+1)/2) / (d J) of token j in component i.

    Both count from 1. This is the formula of the authors' code; the paper prints another one.
    """
    i = torch.arange(1, dim + 1) - (dim + 1) / 2
    j = torch.arange(1, length + 1) - (length + 1) / 2
    return 1 + 4 * j[:, None] * i[None, :] / (dim * length)


def bag_of_words(token_ids: Tensor, vocab_size: int) -> Tensor:
    """Bag of words (..., 2, vocab_size) of token_ids (..., j), -1 for padding: counts and position-weighted counts.

    The second row weights each token by 4 (j - (J+1)/2) / J. The position encoding is 1 plus this weight times a factor
    of the component, so sentence embeddings with position encoding are linear in the two rows.
    """
    one_hot = nn.functional.one_hot(token_ids + 1, vocab_size + 1)[..., 1:].float()
    length = token_ids.size(-1)
    position_weights = 4 * (torch.arange(1, length + 1) - (length + 1) / 2) / length
    return torch.stack([one_hot.sum(-2), (one_hot * position_weights[:, None]).sum(-2)], -2)


def memory_hop(state: Tensor, key: Tensor, value: Tensor, mask: Tensor, linear: bool = False) -> tuple[Tensor, Tensor]:
    """Memory hop: unscaled dot-product attention of one query. Returns context (..., d) and attention weights (..., n).

    state (..., d), key and value (..., n, d), mask (..., n) bool, True = may attend. linear=True leaves the softmax
    out, for the first epochs of training (linear start): then the weights are the scores.
    """
    scores = (key @ state.unsqueeze(-1)).transpose(-2, -1)  # (..., 1, n)
    if linear:
        attention_weights = scores.masked_fill(~mask.unsqueeze(-2), 0.0)
        context = attention_weights @ value
    else:
        context, attention_weights = attend(scores, value, mask.unsqueeze(-2))
    return context.squeeze(-2), attention_weights.squeeze(-2)


class MemoryNetwork(nn.Module):
    """End-to-end memory network. The first axis of every parameter is the seed: independent networks in one module.

    position_encoding: weight tokens by their position in the sentence, False for a bag of words; temporal: add an
    embedding of each sentence's temporal index, 0 for the newest. tying "adjacent": the value embedding of a hop is the
    key embedding of the next, the question uses the first, the output layer the last. tying "layer-wise": the same key
    and value embeddings in every hop, and a learned projection of the state between hops.
    """

    def __init__(
        self,
        vocab_size: int,
        num_hops: int = 3,
        dim: int = 20,
        memory_size: int = 50,
        position_encoding: bool = True,
        temporal: bool = True,
        tying: str = "adjacent",
        seeds: int | list[int] = 1,
    ):
        super().__init__()
        if tying not in ("adjacent", "layer-wise"):
            raise ValueError(f"expected tying 'adjacent' or 'layer-wise', got {tying!r}")
        self.vocab_size, self.num_hops, self.dim, self.memory_size = vocab_size, num_hops, dim, memory_size
        self.position_encoding, self.temporal, self.tying = position_encoding, temporal, tying
        adjacent = tying == "adjacent"
        # The first `num_memories` matrices embed the sentences; layer-wise: key, value, question, output.
        self.num_memories = num_hops + 1 if adjacent else 2
        self.question_index, self.output_index = (0, num_hops) if adjacent else (2, 3)
        shapes = (
            (num_hops + 1 if adjacent else 4, vocab_size, dim),
            (self.num_memories if temporal else 0, memory_size, dim),
            (dim, dim),
        )
        draws = [_normal(seed, shapes) for seed in (range(seeds) if isinstance(seeds, int) else seeds)]
        embeddings, temporal_embeddings, hop_proj = (torch.stack(tensors) for tensors in zip(*draws, strict=True))
        self.embeddings = nn.Parameter(embeddings)  # (s, num_hops + 1 or 4, vocab_size, d)
        self.temporal_embeddings = nn.Parameter(temporal_embeddings)  # (s, num_memories or 0, memory_size, d)
        self.hop_proj = None if adjacent else nn.Parameter(hop_proj)  # (s, d, d)
        # The component's factor of the position encoding; the token's factor is in `bag_of_words`.
        self.register_buffer("component_weights", (torch.arange(1, dim + 1) - (dim + 1) / 2) / dim)

    def encode(self, bags: Tensor, embeddings: Tensor) -> Tensor:
        """Sentence embeddings (s, ..., e * d) of bags (s, ..., 2, vocab_size).

        embeddings (s, vocab_size, e * d): e embedding matrices, concatenated.
        """
        flat = bags.flatten(1, -3)
        vectors = flat[:, :, 0] @ embeddings
        if self.position_encoding:
            component_weights = self.component_weights.repeat(embeddings.size(-1) // self.dim)
            vectors = vectors + (flat[:, :, 1] @ embeddings) * component_weights
        return vectors.unflatten(1, bags.shape[1:-2])

    def forward(
        self, story: Tensor, question: Tensor, mask: Tensor, temporal_index: Tensor, linear: bool = False
    ) -> tuple[Tensor, Tensor]:
        """story (s, b, n, 2, vocab_size), question (s, b, 2, vocab_size), mask (s, b, n) and temporal_index (s, b, n).

        Story and question come from `bag_of_words`. Returns logits (s, b, vocab_size) and the attention weights of all
        hops (s, b, num_hops, n).
        """
        memories = self._memories(story, temporal_index)
        state = self.encode(question, self.embeddings[:, self.question_index])
        attention_weights = []
        for hop in range(self.num_hops):
            first = hop if self.tying == "adjacent" else 0
            context, weights = memory_hop(state, memories[..., first, :], memories[..., first + 1, :], mask, linear)
            if self.hop_proj is not None:
                state = state @ self.hop_proj
            state = state + context
            attention_weights.append(weights)
        return state @ self.embeddings[:, self.output_index].transpose(-2, -1), torch.stack(attention_weights, -2)

    def _memories(self, story: Tensor, temporal_index: Tensor) -> Tensor:
        """Every sentence, embedded by each of the matrices for keys and values: (s, b, n, num_memories, d)."""
        concatenated = self.embeddings[:, : self.num_memories].transpose(1, 2).flatten(2)
        memories = self.encode(story, concatenated)  # (s, b, n, num_memories * d)
        if self.temporal:
            temporal = self.temporal_embeddings.transpose(1, 2).flatten(2)  # (s, memory_size, num_memories * d)
            index = temporal_index.clamp_max(self.memory_size - 1).flatten(1).unsqueeze(-1)
            index = index.expand(-1, -1, temporal.size(-1))
            memories = memories + temporal.gather(1, index).unflatten(1, temporal_index.shape[1:])
        return memories.unflatten(-1, (self.num_memories, self.dim))


def _normal(seed: int, shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [0.1 * torch.randn(shape, generator=generator) for shape in shapes]
