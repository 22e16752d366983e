"""Skip-gram word embeddings (Mikolov et al., 2013): predict the context words of each word.

The vocabulary is small enough for the full softmax: the loss over all pairs at once is the cross-entropy against the
matrix of co-occurrence counts, and negative sampling is not needed.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.tokens import SPECIAL_TOKENS, Vocabulary
from utils.training.cache import cached
from utils.training.trainer import train
from utils.training.translation import TRAINING_PAIRS, pairs_and_words


def cooccurrence_counts(sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, window: int) -> Tensor:
    """(vocab_size, vocab_size): how often two words are at most `window` positions apart."""
    centers, contexts = [], []
    for sentence in sentences:
        token_ids = vocabulary.encode(sentence)
        for distance in range(1, min(window, len(token_ids) - 1) + 1):
            centers += token_ids[:-distance]
            contexts += token_ids[distance:]
    counts = torch.zeros(len(vocabulary), len(vocabulary))
    counts.index_put_((torch.tensor(centers), torch.tensor(contexts)), torch.ones(len(centers)), accumulate=True)
    return counts + counts.T


def skipgram_loss(embeddings: Tensor, context_embeddings: Tensor, counts: Tensor) -> Tensor:
    """Mean cross-entropy of the context words: both embedding matrices (vocab_size, dim), counts of all pairs."""
    return -(counts * (embeddings @ context_embeddings.T).log_softmax(-1)).sum() / counts.sum()


@cached
def train_skipgram(
    seed: int = 0, *, dim: int = 16, window: int = 2, num_steps: int = 300, num_pairs: int = TRAINING_PAIRS
) -> dict:
    """Embeddings of the English words of the training pairs. Returns words, embeddings (words, dim), loss (num_steps,),
    and entropy: the loss of a unigram model, which ignores the center word."""
    corpus, english, _ = pairs_and_words(num_pairs)
    first = len(SPECIAL_TOKENS)
    counts = cooccurrence_counts([pair.english for pair in corpus.train], english, window)[first:, first:]
    generator = torch.Generator().manual_seed(seed)
    matrices = [(0.1 * torch.randn(len(counts), dim, generator=generator)).requires_grad_() for _ in range(2)]
    losses = train(matrices, lambda step: skipgram_loss(*matrices, counts), num_steps, learning_rate=0.05, fused=False)
    unigram = counts.sum(0) / counts.sum()
    return {
        "words": list(english.words[first:]),
        "embeddings": matrices[0].detach(),
        "loss": losses,
        "entropy": -(unigram * unigram.log()).sum().item(),
    }


def nearest_neighbors(result: dict, word: str, count: int = 5) -> list[tuple[str, float]]:
    """The `count` words with the most similar embeddings, with their cosine similarities, the nearest first."""
    words = result["words"]
    unit = F.normalize(result["embeddings"], dim=-1)
    cosines = unit @ unit[words.index(word)]
    order = [index for index in cosines.argsort(descending=True).tolist() if words[index] != word]
    return [(words[index], cosines[index].item()) for index in order[:count]]
