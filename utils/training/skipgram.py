"""Word vectors from company: a skip-gram model learns to name the words that stand near a word.

With a few hundred words there is no need for negative samples: how often each word stands near each other is one small
table, and the loss over all pairs of neighbours at once is the cross-entropy against that table.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from utils.data.tokens import SPECIAL_TOKENS, Vocabulary
from utils.training.cache import cached
from utils.training.trainer import train
from utils.training.translation import TRAINING_PAIRS, pairs_and_words


def neighbour_counts(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, window: int) -> Tensor:
    """(words, words): how often the second word stands at most `window` places from the first."""
    first, second = [], []
    for sentence in sentences:
        numbers = vocabulary.encode(sentence)
        for gap in range(1, min(window, len(numbers) - 1) + 1):
            first += numbers[:-gap]
            second += numbers[gap:]
    places = torch.tensor([first, second])
    counts = torch.zeros(len(vocabulary), len(vocabulary))
    counts.index_put_(tuple(places), torch.ones(places.size(1)), accumulate=True)
    return counts + counts.T


def skipgram_loss(vectors: Tensor, contexts: Tensor, counts: Tensor) -> Tensor:
    """Mean surprise at a neighbour: vectors and contexts (words, d), counts (words, words)."""
    return -(counts * (vectors @ contexts.T).log_softmax(-1)).sum() / counts.sum()


@cached
def train_skipgram(
    seed: int = 0, *, dim: int = 16, window: int = 2, steps: int = 300, rate: float = 0.05, pairs: int = TRAINING_PAIRS
) -> dict:
    """Vectors for the English words of the training pairs. Returns words, vectors (words, dim), loss (steps,), and
    entropy: the loss of a model that ignores the word and only knows how frequent each neighbour is."""
    corpus, english, _ = pairs_and_words(pairs)
    counts = neighbour_counts([pair.english for pair in corpus.train], english, window)[
        len(SPECIAL_TOKENS) :, len(SPECIAL_TOKENS) :
    ]
    generator = torch.Generator().manual_seed(seed)
    tables = [(0.1 * torch.randn(len(counts), dim, generator=generator)).requires_grad_() for _ in range(2)]
    losses = train(tables, lambda step: skipgram_loss(*tables, counts), steps, learning_rate=rate, fused=False)
    share = counts.sum(0) / counts.sum()
    return {
        "words": list(english.words[len(SPECIAL_TOKENS) :]),
        "vectors": tables[0].detach(),
        "loss": losses,
        "entropy": -(share * share.log()).sum().item(),
    }


def neighbours(result: dict, word: str, count: int = 5) -> list[tuple[str, float]]:
    """The `count` words whose vectors point most nearly the same way, with their cosines, the nearest first."""
    words = result["words"]
    if word not in words:
        raise ValueError(f"expected one of the {len(words)} words of the training pairs, got {word!r}")
    unit = torch.nn.functional.normalize(result["vectors"], dim=-1)
    cosines = unit @ unit[words.index(word)]
    order = [place for place in cosines.argsort(descending=True).tolist() if words[place] != word]
    return [(words[place], cosines[place].item()) for place in order[:count]]
