"""Sequence to sequence with a recurrent encoder and decoder: with the last state as the only bridge, or with attention.

b sentences, n source words, m target words. A mask (b, n) is True at the words and False at the padding behind them.
`width` is the size of the decoder's state and of each vector in the encoder's memory; a bidirectional encoder gives half
of it to each direction, so a decoder never has to know which encoder it listens to.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from utils.models.attention import attend

CELLS = {"gru": nn.GRU, "lstm": nn.LSTM}
SPREAD = 0.2  # of fresh word vectors: chosen in short trials with one seed each, in which 0.05 did much worse
State = Tensor | tuple[Tensor, Tensor]  # (1, b, width), for an LSTM two of them


# Three score functions, one signature: state (b, m, d) and memory (b, n, e) to scores (b, m, n)


class DotScore(nn.Module):
    """state · memory; nothing to learn, so both must have one width."""

    def __init__(self, state_width: int, memory_width: int):
        super().__init__()

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        return state @ memory.transpose(1, 2)


class MultiplicativeScore(nn.Module):
    """state · W memory: learns which parts of the two to compare."""

    def __init__(self, state_width: int, memory_width: int):
        super().__init__()
        self.map = nn.Linear(state_width, memory_width, bias=False)

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        return self.map(state) @ memory.transpose(1, 2)


class AdditiveScore(nn.Module):
    """v · tanh(A state + B memory): a small network that looks at both; needs room for b * m * n * hidden numbers."""

    def __init__(self, state_width: int, memory_width: int, hidden: int = 64):
        super().__init__()
        self.from_state = nn.Linear(state_width, hidden, bias=False)
        self.from_memory = nn.Linear(memory_width, hidden, bias=False)
        self.weigh = nn.Linear(hidden, 1, bias=False)

    def forward(self, state: Tensor, memory: Tensor) -> Tensor:
        pairs = self.from_state(state).unsqueeze(2) + self.from_memory(memory).unsqueeze(1)  # (b, m, n, hidden)
        return self.weigh(torch.tanh(pairs)).squeeze(-1)


SCORES = {"dot": DotScore, "multiplicative": MultiplicativeScore, "additive": AdditiveScore}


# Encoder


def _recurrent(cell: str, inputs: int, width: int, bidirectional: bool = False) -> nn.RNNBase:
    return CELLS[cell](inputs, width, batch_first=True, bidirectional=bidirectional)


def _embedding(words: int, width: int) -> nn.Embedding:
    table = nn.Embedding(words, width)
    nn.init.normal_(table.weight, std=SPREAD)
    return table


class Encoder(nn.Module):
    """Reads a sentence into one vector per word, and the state in which it stopped."""

    def __init__(self, words: int, width: int = 128, cell: str = "lstm", bidirectional: bool = True):
        super().__init__()
        self.width = width
        self.embed = _embedding(words, width)
        own = width // 2 if bidirectional else width
        self.layer = _recurrent(cell, width, own, bidirectional)

    def forward(self, source: Tensor, mask: Tensor | None = None) -> tuple[Tensor, State]:
        """source (b, n) word numbers to memory (b, n, width) and the last state (1, b, width).

        Padding is never read: the backward direction starts at the last word of each sentence, the forward direction stops
        there, and the memory of padding is zero.
        """
        vectors = self.embed(source)
        if mask is None or mask.all():
            memory, last = self.layer(vectors)
        else:
            lengths = mask.sum(1).cpu()
            packed, last = self.layer(pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False))
            memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.size(1))
        return memory, tuple(map(_side_by_side, last)) if isinstance(last, tuple) else _side_by_side(last)


def _side_by_side(last: Tensor) -> Tensor:
    """(directions, b, own) to (1, b, directions * own)."""
    return last.transpose(0, 1).flatten(1).unsqueeze(0)


# Decoders


class Decoder(nn.Module):
    """Writes the translation word by word. All it knows of the source is the encoder's last state.

    It starts in that state, and finds it again beside each of its own states when it names a word: always the same context.
    """

    def __init__(self, words: int, width: int = 128, cell: str = "lstm"):
        super().__init__()
        self.embed = _embedding(words, width)
        self.layer = _recurrent(cell, width, width)
        self.combine = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, words)

    def look(self, hidden: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """hidden (b, m, width) and memory (b, 1, width) to context (b, m, width); there is nothing to choose from."""
        return memory.expand(-1, hidden.size(1), -1), None

    def forward(
        self, target: Tensor, state: State, memory: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """target (b, m): the words before each position. Returns logits (b, m, words), the last state, and weights or None."""
        hidden, state = self.layer(self.embed(target), state)  # (b, m, width)
        context, weights = self.look(hidden, memory, mask)
        combined = torch.tanh(self.combine(torch.cat([hidden, context], -1)))
        return self.output(combined), state, weights

    def step(
        self, word: Tensor, state: State, memory: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """One word: word (b,) to logits (b, words) of the next, the new state, and weights (b, n) if there are any."""
        logits, state, weights = self(word.unsqueeze(1), state, memory, mask)
        return logits.squeeze(1), state, None if weights is None else weights.squeeze(1)


class AttentionDecoder(Decoder):
    """The same decoder, but the context is new for each word: a look at every vector of the encoder (Luong et al., 2015).

    What it found goes into the output and not into the next state. So with the true words given (teacher forcing) all
    states come from one call of the recurrent layer, and all looks from one call of `attend`.
    """

    def __init__(self, words: int, width: int = 128, cell: str = "lstm", score: str = "multiplicative"):
        super().__init__(words, width, cell)
        self.score = SCORES[score](width, width)

    def look(self, hidden: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """hidden (b, m, width) and memory (b, n, width) to context (b, m, width) and weights (b, m, n)."""
        return attend(self.score(hidden, memory), memory, None if mask is None else mask.unsqueeze(1))


# The whole model


class Seq2Seq(nn.Module):
    """Encoder and decoder. `score` None: the last state is the only bridge; else the name of a score function."""

    def __init__(
        self,
        source_words: int,
        target_words: int,
        score: str | None = None,
        width: int = 128,
        cell: str = "lstm",
        bidirectional: bool = True,
    ):
        super().__init__()
        self.encoder = Encoder(source_words, width, cell, bidirectional)
        if score is None:
            self.decoder = Decoder(target_words, width, cell)
        else:
            self.decoder = AttentionDecoder(target_words, width, cell, score)

    def encode(self, source: Tensor, mask: Tensor | None = None) -> tuple[Tensor, State]:
        """What the decoder gets: a memory, and its first state. With attention the memory has a vector for each word
        (b, n, width); without, the last state is the only bridge, and the memory has one row (b, 1, width), however long
        the sentence."""
        memory, state = self.encoder(source, mask)
        if isinstance(self.decoder, AttentionDecoder):
            return memory, state
        seen = state[0] if isinstance(state, tuple) else state
        return seen.transpose(0, 1), state

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> tuple[Tensor, Tensor | None]:
        """Teacher forcing: source (b, n), mask (b, n), target (b, m) from the start token on.

        Returns logits (b, m, words) for the word after each target word, and weights (b, m, n) or None.
        """
        memory, state = self.encode(source, mask)
        logits, _, weights = self.decoder(target, state, memory, mask)
        return logits, weights

    @torch.no_grad()
    def greedy(
        self, source: Tensor, mask: Tensor | None, start: int, end: int, limit: int, padding: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        """Translate by taking the likeliest word each time, until every sentence has ended or has `limit` words.

        Returns words (b, m) and weights (b, m, n) or None. The end token is part of the words; behind it stands padding, with
        weights of zero, so that a sentence comes out the same in any company.
        """
        memory, state = self.encode(source, mask)
        word = source.new_full((len(source),), start)
        going = torch.ones(len(source), dtype=torch.bool, device=source.device)
        words, looks = [], []
        while going.any() and len(words) < limit:
            logits, state, weights = self.decoder.step(word, state, memory, mask)
            word = logits.argmax(-1).masked_fill(~going, padding)
            words.append(word)
            looks.append(None if weights is None else weights.masked_fill(~going.unsqueeze(1), 0.0))
            going = going & (word != end)
        return torch.stack(words, 1), None if looks[0] is None else torch.stack(looks, 1)
