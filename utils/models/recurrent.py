"""Recurrent sequence-to-sequence model on torch's recurrent layers, with and without attention.

b sentences have n source tokens and m target tokens. source_mask (b, n) is True at real tokens and False at the padding
after them. A bidirectional encoder gives half of `hidden_size` to each direction, so the decoder is the same for both kinds
of encoder.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from utils.models.attention import attend

State = Tensor | tuple[Tensor, Tensor]  # hidden state; for an LSTM hidden state and cell state


# Attention scores, all called as score(query, keys): query (b, m, d) and keys (b, n, e) to scores (b, m, n)


class DotScore(nn.Module):
    """Dot score (Luong et al., 2015, arXiv:1508.04025), q · k: no parameters, so both sizes must be equal."""

    def __init__(self, query_size: int, key_size: int):
        super().__init__()

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class MultiplicativeScore(nn.Module):
    """Multiplicative score, "general" in Luong et al. (2015): W q · k."""

    def __init__(self, query_size: int, key_size: int):
        super().__init__()
        self.W = nn.Linear(query_size, key_size, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.W(query) @ keys.transpose(1, 2)


class AdditiveScore(nn.Module):
    """Additive score (Bahdanau et al., 2015, arXiv:1409.0473): v · tanh(W q + U k).

    It allocates b * m * n * score_size values, far more than the other two.
    """

    def __init__(self, query_size: int, key_size: int, score_size: int = 64):
        super().__init__()
        self.W = nn.Linear(query_size, score_size, bias=False)
        self.U = nn.Linear(key_size, score_size, bias=False)
        self.v = nn.Linear(score_size, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        pairs = self.W(query).unsqueeze(2) + self.U(keys).unsqueeze(1)  # (b, m, n, score_size)
        return self.v(torch.tanh(pairs)).squeeze(-1)


SCORES = {"dot": DotScore, "multiplicative": MultiplicativeScore, "additive": AdditiveScore}


# Encoder

LAYERS = {"gru": nn.GRU, "lstm": nn.LSTM}


def _embedding(vocab_size: int, dim: int) -> nn.Embedding:
    embedding = nn.Embedding(vocab_size, dim)
    nn.init.normal_(embedding.weight, std=0.2)  # chosen in short trials with one seed each; 0.05 was much worse
    return embedding


class RecurrentEncoder(nn.Module):
    """Recurrent encoder, bidirectional by default: a hidden state per token, and the final state."""

    def __init__(self, vocab_size: int, hidden_size: int = 128, cell: str = "lstm", bidirectional: bool = True):
        super().__init__()
        self.embedding = _embedding(vocab_size, hidden_size)
        size = hidden_size // 2 if bidirectional else hidden_size
        self.rnn = LAYERS[cell](hidden_size, size, batch_first=True, bidirectional=bidirectional)

    def forward(self, source: Tensor, source_mask: Tensor | None = None) -> tuple[Tensor, State]:
        """Token ids source (b, n) to memory (b, n, hidden_size) and the final state (1, b, hidden_size).

        Padding has no effect: the backward direction starts at the last token of each sentence, the forward direction
        stops there, and the memory of padding is zero.
        """
        embeddings = self.embedding(source)
        if source_mask is None or source_mask.all():
            memory, final = self.rnn(embeddings)
        else:
            lengths = source_mask.sum(1).cpu()
            packed, final = self.rnn(pack_padded_sequence(embeddings, lengths, batch_first=True, enforce_sorted=False))
            memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.size(1))
        return memory, tuple(map(_concatenate, final)) if isinstance(final, tuple) else _concatenate(final)


def _concatenate(final: Tensor) -> Tensor:
    """The final states of the directions, (directions, b, size) to (1, b, directions * size)."""
    return final.transpose(0, 1).flatten(1).unsqueeze(0)


# Decoders


class RecurrentDecoder(nn.Module):
    """Recurrent decoder without attention: all it knows of the source is the encoder's final state.

    It starts in that state, and the same state is the context vector of every step (Cho et al., 2014, arXiv:1406.1078).
    """

    def __init__(self, vocab_size: int, hidden_size: int = 128, cell: str = "lstm"):
        super().__init__()
        self.embedding = _embedding(vocab_size, hidden_size)
        self.rnn = LAYERS[cell](hidden_size, hidden_size, batch_first=True)
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def attend(self, hidden: Tensor, memory: Tensor, source_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """hidden (b, m, hidden_size) and memory (b, 1, hidden_size) to context (b, m, hidden_size), and no weights."""
        return memory.expand(-1, hidden.size(1), -1), None

    def forward(
        self, target: Tensor, state: State, memory: Tensor, source_mask: Tensor | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Token ids target (b, m) to logits (b, m, vocab_size), final state and attention weights (b, m, n) or None."""
        hidden, state = self.rnn(self.embedding(target), state)  # (b, m, hidden_size)
        context, attention_weights = self.attend(hidden, memory, source_mask)
        combined = torch.tanh(self.combine(torch.cat([hidden, context], -1)))
        return self.output(combined), state, attention_weights


class AttentionDecoder(RecurrentDecoder):
    """Recurrent decoder with attention over the encoder's hidden states (Luong et al., 2015, arXiv:1508.04025).

    The context enters the output and not the next state: there is no input feeding. So with teacher forcing all hidden states come from
    one call of the recurrent layer, and all contexts from one call of `attend`.
    """

    def __init__(self, vocab_size: int, hidden_size: int = 128, cell: str = "lstm", score: str = "multiplicative"):
        super().__init__(vocab_size, hidden_size, cell)
        self.score = SCORES[score](hidden_size, hidden_size)

    def attend(self, hidden: Tensor, memory: Tensor, source_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """hidden (b, m, hidden_size) and memory (b, n, hidden_size) to context and attention weights (b, m, n)."""
        return attend(self.score(hidden, memory), memory, None if source_mask is None else source_mask.unsqueeze(1))


# Sequence to sequence


@dataclass
class RecurrentCache:
    """Cache of recurrent decoding: the decoder's state, the encoder's memory (b, n, hidden_size) and its mask."""

    state: State
    memory: Tensor
    source_mask: Tensor | None

    def reorder(self, rows: Tensor) -> None:
        """After a beam-search step, hypothesis i continues hypothesis `rows[i]`."""
        if isinstance(self.state, tuple):
            self.state = tuple(tensor[:, rows] for tensor in self.state)
        else:
            self.state = self.state[:, rows]
        self.memory = self.memory[rows]
        self.source_mask = None if self.source_mask is None else self.source_mask[rows]


class Seq2Seq(nn.Module):
    """Sequence-to-sequence model (Sutskever et al., 2014, arXiv:1409.3215); score: of `SCORES`, None = no attention."""

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        score: str | None = None,
        hidden_size: int = 128,
        cell: str = "lstm",
        bidirectional: bool = True,
    ):
        super().__init__()
        self.encoder = RecurrentEncoder(source_vocab_size, hidden_size, cell, bidirectional)
        if score is None:
            self.decoder = RecurrentDecoder(target_vocab_size, hidden_size, cell)
        else:
            self.decoder = AttentionDecoder(target_vocab_size, hidden_size, cell, score)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> tuple[Tensor, State]:
        """The decoder's memory and initial state.

        With attention the memory has a vector per source token (b, n, hidden_size); without, it is the final hidden
        state alone (b, 1, hidden_size), however long the sentence.
        """
        memory, state = self.encoder(source, source_mask)
        if isinstance(self.decoder, AttentionDecoder):
            return memory, state
        hidden = state[0] if isinstance(state, tuple) else state
        return hidden.transpose(0, 1), state

    def forward(self, source: Tensor, source_mask: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Teacher forcing: token ids source (b, n) and target (b, m), which begins with BOS.

        Returns logits (b, m, vocab_size) of the token after each target token, and attention weights (b, m, n) or None.
        """
        memory, state = self.encode(source, source_mask)
        logits, _, attention_weights = self.decoder(target, state, memory, source_mask)
        return logits, attention_weights

    def new_cache(self, source: Tensor, source_mask: Tensor | None, max_len: int, num_beams: int = 1) -> RecurrentCache:
        """The cache before the first step, `num_beams` rows for each sentence. `max_len` has no effect: a recurrent
        state does not grow."""
        memory, state = self.encode(source, source_mask)
        cache = RecurrentCache(state, memory, source_mask)
        if num_beams > 1:
            cache.reorder(torch.arange(len(source), device=source.device).repeat_interleave(num_beams))
        return cache

    def step(self, token_ids: Tensor, cache: RecurrentCache) -> tuple[Tensor, list[Tensor]]:
        """One decoding step: token_ids (b,) to the logits (b, vocab_size) of the next token. Updates the cache's state.

        Also returns a list with the attention weights (b, 1, n), empty without attention.
        """
        logits, cache.state, attention_weights = self.decoder(
            token_ids.unsqueeze(1), cache.state, cache.memory, cache.source_mask
        )
        return logits.squeeze(1), [] if attention_weights is None else [attention_weights]
