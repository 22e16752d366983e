# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 07 · Tokenize and pretrain
#
# **What can a model learn before it has seen the task?**
#
# The translator of lesson 06 learned from sentence pairs. Labeled data is expensive; plain text is everywhere. We split text into **subword tokens** and
# **pretrain** on it: remove tokens, and train the model to predict them. At the end we measure whether this helps the translator.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 30 minutes for tokenization, 40 for the three objectives, 20 for perplexity and training, 20 for sampling, 10 for the translator.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room: with 100 sentence pairs and plenty of plain English and French, what can a model learn, and what not? Return to it in section 5.

# %% [markdown]
# **After this lesson you can**
#
# - train a BPE tokenizer and split new words with it;
# - train the same blocks by masked language modeling, causal language modeling and span corruption;
# - turn a loss into perplexity and bits per character;
# - sample with temperature, top-k and top-p;
# - measure what pretraining is worth when pairs are few.
#
# **You need** lessons 05 and 06. Nothing is downloaded. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import math
from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from utils.build.results import ranged, stored
from utils.data import bpe, docstrings
from utils.data.bpe import CLS_ID, MASK_ID, SENTINEL_IDS, SEP_ID, SPECIAL_TOKENS, merge, word_counts
from utils.exercises import board, exercise, lesson, quiz
from utils.models import language_models
from utils.models.attention import causal_mask
from utils.models.layers import Embedding, TransformerEncoder
from utils.plots import lesson07 as pictures
from utils.plots import show
from utils.training import pretraining
from utils.training.stored_encoder import stored_encoder
from utils.training.trainer import IGNORE_INDEX
from utils.widgets import attention_view, fill_in, next_token

torch.manual_seed(7)
torch.set_num_threads(1)
lesson("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Subword tokenization
#
# Our corpus is the English text that comes with Python: docstrings of its library and pages of its manual, lowercased. A word includes the space before it, written `▁` as in
# SentencePiece (`tokenizers`: `Metaspace`; GPT-2: `Ġ`), so `▁list` and `list` differ. The translator's **vocabulary** held whole words, and every other word was
# **out of vocabulary** (OOV). Guess: what percentage of the words in held-out text is OOV?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
texts = docstrings.pretraining_texts()
counts, held_out_counts = word_counts(texts.train), word_counts(texts.validation)
num_characters = sum(map(len, texts.train))
print(f"{num_characters:,} characters, {counts.total():,} words, {len(counts):,} distinct words")
print(
    f"{num_characters / counts.total():.1f} characters per word, spaces included (punctuation marks count as words)"
)
singletons = sum(count == 1 for count in counts.values())
print(f"{singletons / len(counts):.0%} of the distinct words occur only once")
oov = sum(count for word, count in held_out_counts.items() if word not in counts)
print(f"OOV in held-out text: {oov / held_out_counts.total():.1%} of all words")

# %% [markdown] slideshow={"slide_type": "fragment"}
# That looks small, but a paragraph of a hundred words has a few. Characters are hardly ever OOV, but make sequences several times as long, and the cost of
# attention grows with the square of the length. **Subword tokens** are the compromise: frequent words stay whole, rare words are split.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Byte-pair encoding
#
# **Byte-pair encoding** (BPE, [Sennrich et al., 2016](../docs/references.md#sennrich2016)) starts from characters and repeatedly merges the most frequent pair of
# adjacent tokens into a new token. With $c(w)$ the count of word $w$, and $n_w(a,b)$ the number of positions in $w$ where $b$ follows $a$, the next merge is
#
# $$\underset{(a,b)}{\arg\max}\;\sum_w c(w)\,n_w(a,b)$$
#
# Pairs never cross a word boundary. **Ties** are broken by token ids: characters get the first ids, in code-point order, each new token the next one. The
# smaller left id wins; if the left tokens are equal, the smaller right id.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worked example: merges and ties
#
# Corpus: *low* (5 times), *lower* (2), *newest* (6), *widest* (3). Ids: d 0, e 1, i 2, l 3, n 4, o 5, r 6, s 7, t 8, w 9. *e s* occurs 6 + 3 = 9 times, and so does
# *s t*. The winner is bold:
#
# | merge | most frequent pairs (ids) | count | new id |
# |---|---|---|---|
# | 1 | **e s** (1, 7), s t (7, 8) | 9 | es 10 |
# | 2 | **es t** | 9 | est 11 |
# | 3 | **l o** (3, 5), o w (5, 9) | 7 | lo 12 |
# | 4 | **lo w** | 7 | low 13 |
# | 5 | n e (4, 1), **e w** (1, 9), w est (9, 11) | 6 | ew 14 |
# | 6 | **n ew** (4, 14), ew est (14, 11) | 6 | new 15 |
#
# In merge 6 alphabetical order would choose *ew est*; the ids choose *n ew* (4 < 14).

# %% [markdown] slideshow={"slide_type": "notes"}
# Do merges 1 to 3 on the board and let the room do 4 to 6.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 7.1: learn merges
#
# - Split words into characters. Repeat: count all pairs, choose the best, merge it in every word with the given `merge(tokens, pair)`.
# - `merge` returns a new list and works from left to right: (a, a) turns *a a a b* into *aa a b*. Overlapping pairs all count: *a a a* contains (a, a) twice.
# - Pairs that occur once are merged, too.
# - Stop after `num_merges` merges, or when every word is one token. Do not change `counts`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.1 · byte-pair merges · medium · 22 min
def bpe_merges(counts, num_merges):
    """counts {word: frequency} to the first `num_merges` merges, a list of pairs (left, right).

    Fewer are returned when no pair is left.
    """
    ### BEGIN SOLUTION
    split = {word: list(word) for word in counts}
    vocab = sorted(set("".join(counts)))  # the index of a token is its id
    merges = []
    while len(merges) < num_merges:
        pairs = Counter()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], -vocab.index(p[0]), -vocab.index(p[1])))
        merges.append(best)
        vocab.append("".join(best))
        split = {word: merge(tokens, best) for word, tokens in split.items()}
    return merges
    ### END SOLUTION


bpe_merges = exercise("7.1").use(bpe_merges)


# %% tags=["nbval-check-output"]
small_counts = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
merges = bpe_merges(small_counts, 8)
print("merges:", ", ".join("+".join(pair) for pair in merges))

sentences = ["the lowest of the low", "the newest and the widest", "other"]
library_merges = bpe.train_bpe(sentences, vocab_size=70, min_frequency=1).merges(30)
same = [tuple(pair) for pair in bpe_merges(word_counts(sentences), 30)] == library_merges
print(f"same {len(library_merges)} merges as the `tokenizers` library:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.merges_steps(
        bpe.merge_steps("lowest", merges), "The new word lowest becomes low and est"
    ),
    alt="The word lowest, a row for each merge: six characters at first, low and est at the end.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 7.2: split a new word
#
# Apply all merges in the order in which they were learned. No word is OOV as long as its characters are known. (**Byte-level BPE**, as in GPT-2,
# [Radford et al., 2019](../docs/references.md#radford2019), starts from the 256 bytes: then no character is OOV either.)
#
# - Go through the whole list once. Merge every occurrence of a pair; skip a pair that does not occur.
# - Merge only listed pairs: (ab, c) does not merge *a bc*. Other characters stay single tokens.
# - `merges` may be empty; do not change it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 7.2 · split a word · easy · 8 min
def bpe_split(word, merges):
    """A word and the learned merges to the list of its tokens; the first merge is applied first."""
    ### BEGIN SOLUTION
    tokens = list(word)
    for pair in merges:
        tokens = merge(tokens, pair)
    return tokens
    ### END SOLUTION


bpe_split = exercise("7.2").use(bpe_split)


# %% tags=["nbval-check-output"]
for word in ("lowest", "newer", "slow"):
    print(f"{word}: {' '.join(bpe_split(word, merges))}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### WordPiece
#
# **WordPiece** ([Wu et al., 2016](../docs/references.md#wu2016)), here in BERT's form, merges the pair with the highest score:
#
# $$\text{score}(a, b) = \frac{\text{count}(ab)}{\text{count}(a) \, \text{count}(b)}$$
#
# A rare pair whose tokens hardly occur apart can beat a frequent pair. `##` marks a token inside a word: `w` and `##w` are different tokens. New words are split by
# **longest match first**; if a part has no match, the whole word becomes `[UNK]`. (Google did not release the trainer used for BERT; this is the usual
# description. The trainer in `tokenizers` uses counts.)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
marked = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in small_counts}
pair_counts, scores = bpe.pair_counts(marked, small_counts), bpe.wordpiece_scores(small_counts)
for name, criterion in (("highest count", pair_counts), ("highest score", scores)):
    for pair in [pair for pair in criterion if criterion[pair] == max(criterion.values())]:
        print(f"{name}: {' '.join(pair)}, {pair_counts[pair]} times, score {scores[pair]:.2f}")
vocabulary = {"low", "new", "wid", "##est", "##er"}  # chosen by hand
for word in ("lowest", "newer", "slow"):
    print(f"{word}: {' '.join(bpe.wordpiece_split(word, vocabulary))}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole corpus
#
# From here on we use the `tokenizers` library, built for speed. The first ids are **special tokens**:
#
# - `[CLS]` begins a text. BERT classifies a text from its output (lesson 08 averages over all tokens).
# - `[SEP]` ends a text, and separates two texts in one input. BERT also learned **next-sentence prediction** from such pairs; RoBERTa
#   ([Liu et al., 2019](../docs/references.md#liu2019)) dropped it. In generation, `[CLS]` serves as the BOS and `[SEP]` as the EOS of lesson 06.
# - `[MASK]` takes the position of a masked token; `[SENTINEL0]`, `[SENTINEL1]`, … (T5: `<extra_id_0>`) that of a removed span.
# - `[PAD]` is padding, `[UNK]` an unknown character.

# %%
corpus = pretraining.corpus()
library_merges = corpus.tokenizer.merges(12)
print("first merges:", *("".join(pair) for pair in library_merges))
same_merges = [tuple(pair) for pair in bpe_merges(counts, 12)] == library_merges
print("yours are the same:", same_merges)
sample = "Return a shallow copy of the deque, leftmost element first."
print(" | ".join(corpus.tokenizer.tokens(corpus.tokenizer.encode_pair(sample))))
print(f"{len(corpus.tokenizer):,} tokens in the vocabulary, {len(corpus.train):,} in the corpus")
print(f"{num_characters / len(corpus.train):.1f} characters per token")

# %% [markdown] slideshow={"slide_type": "notes"}
# Let students invent a function name and guess its tokens before you run `corpus.tokenizer.encode` on it.

# %% tags=["checks"]
assert same_merges, "your merges differ from the library's"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Three pretraining objectives
#
# **Self-supervised learning** removes part of a text and predicts it: the text itself supplies the targets.

# %% slideshow={"slide_type": "-"}
quiz("7.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# What is removed, and which tokens may attend to which, defines three objectives over the same blocks. The second is **autoregressive**, the others are
# **denoising** objectives:
#
# | objective | removed | attention | model | used for |
# |---|---|---|---|---|
# | **masked language modeling** (MLM) | single tokens | both directions | encoder-only: BERT ([Devlin et al., 2019](../docs/references.md#devlin2019)) | classification, tagging, retrieval |
# | **causal language modeling** | all later tokens | causal mask | decoder-only: GPT ([Radford et al., 2018](../docs/references.md#radford2018)) | generating text, chat |
# | **span corruption** | spans of tokens | encoder: both directions; decoder: causal mask | encoder-decoder: T5 ([Raffel et al., 2020](../docs/references.md#raffel2020)) | translation, summarization |

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.three_masks(
        ["the", "list", "is", "sorted", "in", "place"],
        "The same blocks: input and attention mask make three objectives",
        masked=[1, 3],
        spans=[(1, 2), (4, 6)],
    ),
    alt="Masked: an encoder attends to both sides. Causal: a decoder attends to the left. Spans: encoder and decoder.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Go through the third mask row by row.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 7.3: masked tokens
#
# - Choose each ordinary token with probability `mask_prob`. Never choose padding (`attention_mask` False) or special tokens (ids below
#   `len(SPECIAL_TOKENS)`).
# - A chosen token becomes `mask_id` with probability 0.8, a random ordinary token (by chance the same one) with 0.1, and stays with 0.1.
# - Targets: the original id where chosen, elsewhere `IGNORE_INDEX`, which `cross_entropy` ignores.
# - Pass `generator` to every draw. Do not change `token_ids`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.3 · masked tokens · medium · 12 min
def mask_tokens(token_ids, attention_mask, mask_id, vocab_size, mask_prob=0.15, generator=None):
    """token_ids (b, n), attention_mask (b, n), to inputs, targets and chosen (bool), all (b, n).

    Random ids run from len(SPECIAL_TOKENS) to vocab_size - 1.
    """
    ### BEGIN SOLUTION
    ordinary = attention_mask & (token_ids >= len(SPECIAL_TOKENS))
    chosen = (torch.rand(token_ids.shape, generator=generator) < mask_prob) & ordinary
    draw = torch.rand(token_ids.shape, generator=generator)
    random_ids = torch.randint(
        len(SPECIAL_TOKENS), vocab_size, token_ids.shape, generator=generator
    )
    inputs = torch.where(chosen & (draw < 0.8), mask_id, token_ids)
    inputs = torch.where(chosen & (draw >= 0.8) & (draw < 0.9), random_ids, inputs)
    return inputs, torch.where(chosen, token_ids, IGNORE_INDEX), chosen
    ### END SOLUTION


mask_tokens = exercise("7.3").use(mask_tokens)


# %% tags=["nbval-check-output"]
token_ids = torch.randint(len(SPECIAL_TOKENS), 1000, (2000, 50))
token_ids[:, 0], token_ids[:, -1] = CLS_ID, SEP_ID
attention_mask = torch.ones_like(token_ids, dtype=torch.bool)
inputs, targets, chosen = mask_tokens(token_ids, attention_mask, MASK_ID, 1000)

groups = {
    "chosen": chosen[:, 1:-1],
    "of these, [MASK]": inputs[chosen] == MASK_ID,
    "of these, unchanged": inputs[chosen] == token_ids[chosen],
}
for name, group in groups.items():
    percent = 100 * group.float().mean().item()
    print(f"{name}: about {5 * round(percent / 5)} %")  # to the nearest 5 %
print("[CLS] and [SEP] are never chosen:", not chosen[:, [0, -1]].any())

# %% slideshow={"slide_type": "subslide"}
quiz("7.b")

# %% [markdown] slideshow={"slide_type": "fragment"}
# At fine-tuning there is no `[MASK]`. Any visible token may be wrong or a target, so the model must build a useful hidden state at every position.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 7.4: span corruption
#
# A decoder can generate several tokens for a removed span. A **sentinel token** marks where:
#
# - In the source, sentinel $i$ takes the position of span $i$. Adjacent spans keep a sentinel each.
# - The target is sentinel 0, span 0, sentinel 1, span 1, …, and one final sentinel, `sentinel_ids[len(spans)]`, which ends the last span. No `[CLS]`.
# - `spans` is sorted and may be empty; `end` is excluded. Do not change `token_ids`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 7.4 · span corruption · medium · 10 min
def corrupt_spans(token_ids, spans, sentinel_ids):
    """token_ids, a list; spans [(start, end), ...]; sentinel_ids, a list, to source and target, two lists."""
    ### BEGIN SOLUTION
    source, target, position = [], [], 0
    for i, (start, end) in enumerate(spans):
        source += [*token_ids[position:start], sentinel_ids[i]]
        target += [sentinel_ids[i], *token_ids[start:end]]
        position = end
    return source + token_ids[position:], target + [sentinel_ids[len(spans)]]
    ### END SOLUTION


corrupt_spans = exercise("7.4").use(corrupt_spans)


# %% tags=["nbval-check-output"]
sentence = ["the", "list", "is", "sorted", "in", "place", "and", "nothing", "is", "returned"]
sentinels = [SPECIAL_TOKENS[sentinel_id] for sentinel_id in SENTINEL_IDS]
source, target = corrupt_spans(sentence, [(1, 2), (4, 6)], sentinels)
print("source:", " ".join(source))
print("target:", " ".join(target))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercises 7.5 and 7.6: one stack, two masks
#
# The blocks of lesson 05, pre-norm, with **GELU** ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)), a smooth ReLU, and weight tying
# (lesson 06).
#
# - `self.embedding(token_ids)` includes scaling and positions. `self.encoder(x, mask)` returns a pair, hidden states first.
# - `MaskedLM`: every token attends to all tokens that are not padding. The mask, True = may attend, has shape (b, 1, n): the same row for every query.
# - `CausalLM`: a decoder without cross-attention is an encoder stack with a causal mask. `causal_mask(n)`, (n, n), is enough: padding comes last, so no real token attends to it.
# - Loss: the logits at position $i$ predict token $i + 1$. Average over all next tokens that are not padding. `cross_entropy` takes logits, not
#   probabilities, with the classes in axis 1: (b, vocab_size, n - 1).


# %% tags=["nbval-check-output"]
# Exercise 7.5 · the masked model · medium · 10 min · optional
class MaskedLM(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, dim)
        self.encoder = TransformerEncoder(
            num_layers, dim, num_heads, hidden_dim, norm_first=True, activation="gelu"
        )
        self.lm_head = nn.Linear(dim, vocab_size)
        self.lm_head.weight = self.embedding.token_embedding.weight  # weight tying

    def encode(self, token_ids, attention_mask):
        """token_ids (b, n), attention_mask (b, n), to hidden states (b, n, dim)."""
        ### BEGIN SOLUTION
        return self.encoder(self.embedding(token_ids), attention_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def forward(self, token_ids, attention_mask):
        """Logits (b, n, vocab_size) for the token at each position."""
        ### BEGIN SOLUTION
        return self.lm_head(self.encode(token_ids, attention_mask))
        ### END SOLUTION


MaskedLM = exercise("7.5").use(MaskedLM)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.6 · the causal model and its loss · medium · 12 min
class CausalLM(nn.Module):
    def __init__(self, vocab_size, dim, num_heads, hidden_dim, num_layers):
        super().__init__()
        self.embedding = Embedding(vocab_size, dim)
        self.encoder = TransformerEncoder(
            num_layers, dim, num_heads, hidden_dim, norm_first=True, activation="gelu"
        )
        self.lm_head = nn.Linear(dim, vocab_size)
        self.lm_head.weight = self.embedding.token_embedding.weight  # weight tying

    def forward(self, token_ids):
        """token_ids (b, n) to logits (b, n, vocab_size) for the next token."""
        ### BEGIN SOLUTION
        x, _ = self.encoder(self.embedding(token_ids), causal_mask(token_ids.size(1)))
        return self.lm_head(x)
        ### END SOLUTION

    def loss(self, token_ids, attention_mask):
        """Mean cross-entropy of the next token, over next tokens that are not padding: a scalar."""
        ### BEGIN SOLUTION
        logits, targets = self(token_ids)[:, :-1], token_ids[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return losses[attention_mask[:, 1:]].mean()
        ### END SOLUTION


CausalLM = exercise("7.6").use(CausalLM)


# %% tags=["nbval-check-output"]
sizes = dict(vocab_size=50, dim=12, num_heads=3, hidden_dim=24, num_layers=2)
token_ids = torch.randint(50, (1, 6))
changed_ids = token_ids.clone()
changed_ids[0, 3] = (token_ids[0, 3] + 1) % 50
everywhere = torch.ones(1, 6, dtype=torch.bool)
for model, reference_class, arguments in (
    (MaskedLM(**sizes), language_models.MaskedLM, [everywhere]),
    (CausalLM(**sizes), language_models.CausalLM, []),
):
    reference = reference_class(language_models.EncoderConfig(**sizes))
    reference.load_state_dict(model.state_dict())
    logits = model(token_ids, *arguments)
    same = torch.allclose(logits, reference(token_ids), atol=1e-5)
    print(f"{reference_class.__name__}: same as the library's:", same)
    changed = (model(changed_ids, *arguments) - logits).abs().amax(-1) > 1e-6
    print("   another token 3 changes the logits at", changed[0].nonzero().flatten().tolist())

# %% slideshow={"slide_type": "subslide"}
quiz("7.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A loss that is too good
#
# We train the same stack twice, with and without the causal mask, on random sequences over ten symbols. The next symbol cannot be predicted, so no honest expected
# loss is below $\ln10$.

# %% slideshow={"slide_type": "-"}
leak = pretraining.leakage_losses()
print(
    f"ten equally likely tokens, without seeing the next: at best ln 10 = {leak['entropy']:.2f} nats"
)
print(f"with the causal mask:    {leak['causal']:.2f} nats")
print(f"without the causal mask: {leak['bidirectional']:.2f} nats")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the mask, position $i$ attends to token $i+1$ and copies it: **data leakage**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what the model without the mask would generate.

# %% tags=["checks"]
assert leak["bidirectional"] < 0.1 and leak["causal"] > leak["entropy"] - 0.05

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Perplexity
#
# The loss $L$ is the mean cross-entropy over the predicted tokens, with $p_i$ the probability of the correct one. **Perplexity** is its exponential:
#
# $$L=-\frac{1}{n}\sum_{i=1}^{n}\ln p_i,\qquad\text{perplexity}=e^{L}$$
#
# Only the causal LM gives a text a probability, so only its $e^L$ is the perplexity of the text. At masked or removed tokens $e^L$ is a relative of
# **pseudo-perplexity** ([Salazar et al., 2020](../docs/references.md#salazar2020)).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worked example: from probabilities to perplexity
#
# A model gives the four tokens of a text the probabilities $\frac12,\frac14,\frac18,\frac14$.
#
# 1. **Cross-entropy.** $-\ln p$ is $0.69,1.39,2.08,1.39$ **nats**, on average $1.386=\ln4$. In **bits**, $-\log_2p$ is $1,2,3,2$, in all $8$.
# 2. **Perplexity.** $e^{1.386}=4$: as uncertain as a choice among four equally likely tokens.
# 3. **Uniform model.** With $V$ tokens in the vocabulary $p=1/V$, so $L=\ln V$, and the perplexity is $V$.
# 4. **Bits per character.** If the text has 16 characters, $8/16=0.5$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
p = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 4])
loss = -p.log().mean()
print(f"loss {loss:.3f} nats, perplexity {loss.exp():.1f}")
print(f"{-p.log2().sum():.0f} bits, {-p.log2().sum() / 16:.1f} bits per character")
uniform_logits = torch.zeros(1, len(corpus.tokenizer))
loss = F.cross_entropy(uniform_logits, torch.tensor([42]))
print(f"uniform model: loss {loss:.2f}, perplexity {loss.exp():,.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the perplexity of a model that gives one correct token probability 0: infinite.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All three, trained
#
# Two layers of width 96 (span corruption: one each in encoder and decoder), batches of 8 windows of 64 tokens. BERT chooses 15 % of the tokens; T5 removes 15 %, in
# spans of 3 on average. We train for seconds (MLM 500 steps, causal LM 400, span corruption 550; less than one pass over the corpus), so we predict more per step: MLM
# chooses 30 %, span corruption removes 50 % in spans of 8. The baseline is the **unigram model** (not the Unigram tokenizer), which knows only the frequency of each token.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A training step of masked language modeling, with your parts:

# %% slideshow={"slide_type": "-"}
model = MaskedLM(len(corpus.tokenizer), dim=96, num_heads=4, hidden_dim=384, num_layers=2)
optimizer, generator = torch.optim.AdamW(model.parameters(), lr=2e-3), torch.Generator()
losses = []
for _ in range(40):
    token_ids = pretraining.sample_windows(corpus.train, 64, 8, generator)
    attention_mask = torch.ones_like(token_ids, dtype=torch.bool)
    inputs, targets, _ = mask_tokens(
        token_ids, attention_mask, MASK_ID, len(corpus.tokenizer), 0.3, generator
    )
    logits = model(inputs, attention_mask)
    loss = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORE_INDEX)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss at chosen tokens: {losses[0]:.2f} at first")
print(f"mean of the last ten of {len(losses)} steps: {sum(losses[-10:]) / 10:.2f}")

# %% [markdown]
# For the causal LM, your `model.loss(token_ids, attention_mask)` replaces the lines from `inputs` to `loss`. `utils` repeats this loop for all three, longer, with
# warm-up, cosine decay and gradient clipping. There the output bias of MLM and causal LM starts at the log-probabilities of the unigram model.

# %%
trained = {}
for objective in pretraining.OBJECTIVES:
    trained[objective] = pretraining.pretrain(objective, **pretraining.LESSON[objective])

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
names = {"masked": "masked LM", "causal": "causal LM", "spans": "span corruption"}
show(
    pictures.pretraining_curves(
        {
            name: trained[objective]["loss"] - trained[objective]["unigram"]
            for objective, name in names.items()
        },
        "Relative to its unigram model, the causal LM falls furthest",
    ),
    alt="Training loss of the three objectives minus the held-out loss of their unigram models, against the step; the causal model ends lowest.",
)

# %% slideshow={"slide_type": "subslide"}
print("held-out perplexity   model  unigram   ratio   predicted tokens")
for objective, result in trained.items():
    model_ppl, unigram_ppl = math.exp(result["held_out"]), math.exp(result["unigram"])
    print(
        f"{names[objective]:20s} {model_ppl:6.0f} {unigram_ppl:8.0f} {model_ppl / unigram_ppl:7.2f}",
        f"{pretraining.MASK_PROBS[objective]:15.0%}",
    )
bigram = math.exp(trained["causal"]["ngrams"][2])
print(f"bigram model, next token: {bigram:.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Sentinels do not count, nor chosen tokens that are not `[MASK]`: a tenth could be copied. Each unigram model is measured at the same tokens as its model, so compare
# the ratios. The causal LM has a target at every token, probably one reason why it learns fastest; the masked LM has learned little from the context. In this run the causal
# LM is level with a **bigram model**, which predicts from the previous token, interpolated with the unigram model. After more steps (stored) it is well below, and the
# masked LM a third below its unigram model:

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
runs = stored("pretraining")
rows = {row["objective"]: row for row in runs.result["rows"]}
runs.table(
    ("objective", "perplexity, three seeds", "unigram", "bigram", "tokens seen", "training, s"),
    [
        (
            names[objective],
            ranged(row["perplexity"], 0),
            f"{row['unigram']:.0f}",
            f"{row['bigram']:.0f}" if row["bigram"] else "",
            f"{row['num_tokens']:,}",
            ranged(row["seconds"], 0),
        )
        for objective, row in rows.items()
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Medians and ranges after 1,400 to 2,400 steps, two to three passes over the corpus. GPT-3 saw 300 billion tokens
# ([Brown et al., 2020](../docs/references.md#brown2020)). When the training loss falls and the held-out loss does not, the model memorizes.

# %% slideshow={"slide_type": "subslide"}
quiz("7.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same text in other tokens
#
# Held-out text under unigram models with 500 and 3,000 tokens (without `[CLS]` and `[SEP]`) and under the causal LM:
#
# $$\text{bits per character} = \frac{L}{\ln 2} \cdot \frac{\text{number of tokens}}{\text{number of characters}}$$

# %% slideshow={"slide_type": "-"}
held_out_characters = sum(map(len, texts.validation))
print("model     vocabulary   perplexity per token   bits per character")
for tokenizer in (bpe.train_bpe(texts.train, 500), corpus.tokenizer):
    loss, num_tokens = pretraining.unigram_on_held_out(tokenizer)
    bits = loss / math.log(2) * num_tokens / held_out_characters
    print(f"unigram   {len(tokenizer):10,d} {math.exp(loss):22.0f} {bits:20.2f}")
loss, num_tokens = trained["causal"]["held_out"], corpus.held_out[:, 1:].numel()
bits = loss / math.log(2) * num_tokens / held_out_characters
print(f"causal LM {len(tokenizer):10,d} {math.exp(loss):22.0f} {bits:20.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 500 tokens the unigram perplexity is lower, and the text is predicted *worse*.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What they predict

# %% slideshow={"slide_type": "-"}
models = {name: pretraining.restore_pretrained(result) for name, result in trained.items()}
masked, corrupted = "Open the [MASK] and read it.", "If the file [SENTINEL0], raise an exception."
for token, prob in pretraining.fill_mask(models["masked"], masked, 4)[0]:
    print(f"  {prob:.0%}  {masked.replace('[MASK]', token.strip(bpe.SPACE))}")
print("causal:", pretraining.continue_text(models["causal"], "Return the", 20))
span = pretraining.fill_spans(models["spans"], corrupted)[0]
print("span:", corrupted.replace("[SENTINEL0]", f"[{span}]"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The causal model has learned short phrases. The other two offer frequent tokens.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill in the mask
#
# A wider model was trained for many more steps and stored in `data/encoder`. Its parameters go into your `MaskedLM`. (Masking is the same;
# so are text and tokenizer under the Python named below. Width, steps and learning rate differ.)

# %% slideshow={"slide_type": "-"}
encoder = stored_encoder()
settings = {name: value for name, value in encoder["settings"].items() if name != "dropout"}
masked_lm = MaskedLM(**settings).eval()
masked_lm.load_state_dict(encoder["state_dict"])
tokenizer = bpe.BPETokenizer.from_str(encoder["tokenizer"])
steps = {
    "above": pretraining.LESSON["masked"]["num_steps"],
    "stored": pretraining.LONG["num_steps"],
}
for name, result in (("above", trained["masked"]), ("stored", encoder)):
    print(f"{name}: {steps[name]:,} steps, perplexity {result['perplexity']:.0f} at [MASK]")
print(
    f"the stored one took {encoder['seconds'] / 60:.0f} minutes, on the text of Python {encoder['python']}"
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
@torch.no_grad()
def fill(sentence):
    token_ids = torch.tensor([tokenizer.encode_pair(sentence)])
    logits = masked_lm(token_ids, torch.ones_like(token_ids, dtype=torch.bool))[0]
    logits[:, : len(SPECIAL_TOKENS)] = -torch.inf
    masked = (token_ids[0] == MASK_ID).nonzero().flatten().tolist()
    best = logits[masked].softmax(-1).topk(8)
    candidates = [
        list(zip(tokenizer.tokens(ids), probs.tolist(), strict=True))
        for ids, probs in zip(best.indices, best.values, strict=True)
    ]
    return {"tokens": tokenizer.tokens(token_ids[0]), "masked": masked, "candidates": candidates}


fill_in(fill, "Raise a ValueError [MASK] the argument is negative.", title="Which token is masked?")

# %% [markdown] slideshow={"slide_type": "notes"}
# Let students type a sentence with one [MASK], guess the first candidate, then move the mask by one token.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does it attend to?
#
# We average each head's attention to the previous and to the next token over 100 held-out windows, and take the largest.

# %% slideshow={"slide_type": "-"}
held_out = pretraining.tokenized_corpus(tokenizer, num_texts=500).held_out[:100]
with torch.no_grad():
    _, weights = masked_lm.encoder(masked_lm.embedding(held_out), need_weights=True)
weights = torch.stack(weights)  # (layers, windows, heads, n, n)
for name, offset in (("previous", -1), ("next", 1)):
    neighbor = weights.diagonal(offset, -2, -1).mean((1, -1))  # (layers, heads)
    layer, head = divmod(neighbor.argmax().item(), neighbor.size(1))
    print(
        f"{name} token: {neighbor.max():.0%} of the weight of layer {layer + 1}, head {head + 1}",
        f"(median head: {neighbor.median():.0%})",
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# The loss never mentions neighbors, yet these heads attend to them. [Clark et al. (2019)](../docs/references.md#clark2019) found such heads in BERT. The second layer spreads its attention far more evenly (next figure).

# %% [markdown]
# Type a sentence of your own, and point at `[MASK]`.


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
@torch.no_grad()
def attend(sentence):
    token_ids = torch.tensor([tokenizer.encode_pair(sentence)])
    _, attention_weights = masked_lm.encoder(masked_lm.embedding(token_ids), need_weights=True)
    target = tokenizer.tokens(token_ids[0])
    return {"weights": torch.stack(attention_weights)[:, 0], "target": target}


attention_view(
    attend,
    sentence="Raise a ValueError [MASK] the argument is negative.",
    focus="[MASK]",
    title="The stored masked language model, two layers of four heads",
)

# %% tags=["checks"]
assert pretraining.MASK_PROBS == {"masked": 0.3, "causal": 1, "spans": 0.5}
assert (pretraining.LENGTH, pretraining.MEAN_SPAN_LENGTH) == (64, 8)
assert {options["dim"] for options in pretraining.LESSON.values()} == {96}
assert 0.7 * bigram < trained["causal"]["perplexity"] < 1.2 * bigram
assert {row["seeds"] for row in rows.values()} == {3}
assert pretraining.LONG["dim"] == settings["dim"] > 96
assert neighbor.max() > 0.5 > 3 * neighbor.median() and layer == 0
entropy = -(weights[1] * weights[1].log()).nansum(-1).mean((0, 2))  # of layer 2, by head
assert entropy.exp().min() > 0.6 * weights.size(-1)
ratios = {name: math.exp(run["held_out"] - run["unigram"]) for name, run in trained.items()}
assert ratios["causal"] < 0.5 and 0.85 < ratios["masked"] < 1
assert 0.6 < rows["masked"]["perplexity"]["median"] / rows["masked"]["unigram"] < 0.72
assert max(run["num_tokens"] for run in trained.values()) < len(corpus.train)
stored_steps = [row["num_tokens"] // (8 * 64) for row in rows.values()]
assert (min(stored_steps), max(stored_steps)) == (1400, 2400)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Sampling
#
# Greedy decoding always gives the same continuation and often repeats itself ([Holtzman et al., 2020](../docs/references.md#holtzman2020)), so we draw the next token.
# The full distribution sometimes gives one of thousands of improbable tokens. Three **sampling parameters** control this:
#
# - **Temperature** $T$ divides the logits: $T<1$ sharpens the distribution, $T>1$ flattens it. (As $T\to0$ it becomes greedy decoding.)
# - **Top-k** ([Fan et al., 2018](../docs/references.md#fan2018)) keeps the $k$ most likely tokens.
# - **Top-p** or nucleus sampling (Holtzman et al.) keeps the smallest set of most likely tokens whose probabilities sum to at least $p$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worked example: top-p
#
# The probabilities, sorted, are $0.4,0.3,0.15,0.1,0.05$, and $p=0.9$. The sums are $0.4,0.7,0.85,0.95$: the fourth token reaches $0.9$ and stays. Divided by
# $0.95$: $0.42,0.32,0.16,0.11$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 7.7: the next-token distribution
#
# - First temperature, then top-k, then top-p. After each cut divide by the sum. None means no cut.
# - The token that reaches $p$ stays, so at least one token stays.
# - Return probabilities in the order of `logits`: undo the sorting. Do not change `logits`.
# - $k$ is at most the size of the vocabulary. $T=0$ is not asked for.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.7 · the next token: temperature, top-k, top-p · medium · 22 min
def next_token_probs(logits, temperature=1.0, top_k=None, top_p=None):
    """logits (vocab_size,) to probabilities (vocab_size,): temperature, then top-k, then top-p."""
    ### BEGIN SOLUTION
    probs, order = (logits / temperature).softmax(-1).sort(descending=True)
    if top_k is not None:
        probs[top_k:] = 0
        probs = probs / probs.sum()
    if top_p is not None:
        before = probs.cumsum(0) - probs  # the probability of all tokens that are more probable
        probs[before >= top_p] = 0
        probs = probs / probs.sum()
    return torch.zeros_like(probs).scatter(0, order, probs)
    ### END SOLUTION


next_token_probs = exercise("7.7").use(next_token_probs)


# %% tags=["nbval-check-output"]
logits = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15]).log()
for options in ({}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}, {"top_k": 3, "top_p": 0.8}):
    probs = "  ".join(f"{prob:.2f}" for prob in next_token_probs(logits, **options))
    label = ", ".join(f"{name} {value}" for name, value in options.items()) or "default"
    print(f"{probs}   {label}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Your `CausalLM`, with the parameters trained above, and your `next_token_probs`:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
causal = trained["causal"]
causal_lm = CausalLM(**causal["settings"]).eval()  # vocab_size, dim, num_heads, ...
causal_lm.load_state_dict(causal["state_dict"])
banned_ids = [token for token in range(len(SPECIAL_TOKENS)) if token != SEP_ID]


@torch.no_grad()
def next_logits(prompt, new_ids):
    token_ids = [CLS_ID, *corpus.tokenizer.encode(prompt), *new_ids][-pretraining.LENGTH :]
    logits = causal_lm(torch.tensor([token_ids]))[0, -1]
    logits[banned_ids] = -torch.inf
    return logits


# %% slideshow={"slide_type": "-"}
def sample(prompt, num_tokens=16, **options):
    generator, new_ids = torch.Generator().manual_seed(0), []
    while len(new_ids) < num_tokens and SEP_ID not in new_ids:
        probs = next_token_probs(next_logits(prompt, new_ids), **options)
        new_ids.append(torch.multinomial(probs, 1, generator=generator).item())
    return f"{prompt} {corpus.tokenizer.decode(new_ids)}"


for options in ({"top_k": 1}, {}, {"temperature": 0.5}, {"temperature": 1.5}, {"top_p": 0.5}):
    print(options or "default", sample("Return the", **options), sep="\n    ")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
next_token(
    next_logits,
    corpus.tokenizer.tokens(range(len(corpus.tokenizer))),
    "Return the",
    next_token_probs,
    temperature=0.7,
    eos_ids=[SEP_ID],
    title="Sample token by token",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Sample the same prompt at temperature 0.2, 1 and 2. At 2 add top-p 0.9 and compare.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why top-p adapts and top-k does not: after "return" few tokens are likely, after "the" many.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Back to the translator
#
# We pretrain the translator of lesson 06 by span corruption on **unpaired** sentences of its corpus: 20,000 English and
# 20,000 French ones, none a translation of another, of a training pair or of a test pair. Then we **fine-tune** it: the same model is trained on few pairs. Both
# languages share one vocabulary and one embedding matrix, also the output layer; dropout is 0.1.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
unpaired = {
    "English": ("the aunt sings when the window is green", [(1, 3), (5, 6)]),
    "French": ("la reine allemande protège une jeune mère", [(1, 2), (4, 7)]),
}
for language, (sentence, spans) in unpaired.items():
    source, target = corrupt_spans(sentence.split(), spans, sentinels)
    print(f"{language} source: {' '.join(source)}")
    print(f"{language} target: {' '.join(target)}\n")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Predicting the spans rewards word order and agreement within each language.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Equal fine-tuning
#
# Pretrained or from scratch, the model is trained for 2,000 steps on the same pairs. Pretraining took 4,000 steps, so we also train from scratch for 6,000, with 300
# and 1,000 pairs. Guess the exact match with 100, 300, 1,000 and 10,000 pairs.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
few_pairs = stored("few_pairs")
show(
    pictures.exact_against_pairs(
        few_pairs.result["rows"],
        "Pretraining raises exact match most with 300 pairs, hardly with 100 or 10,000",
    ),
    alt="Exact match against the number of training pairs on a logarithmic axis, from scratch and pretrained: both near 0 with 100 pairs, pretrained far "
    "higher with 300 and 1,000, both high with 10,000. From scratch with 6,000 steps: between them with 300, near pretrained with 1,000. A dashed line shows how many test sentences contain only words of the training pairs.",
)

# %% tags=["hide-input"]
few_pairs.table(
    (
        "pairs",
        "initialization",
        "steps on pairs",
        "exact match, %",
        "BLEU",
        "no unseen word, %",
    ),
    [
        (
            f"{row['pairs']:,}",
            row["model"],
            f"{row['num_steps']:,}",
            *(
                "  ".join(f"{value:.1f}" for value in row[name])
                for name in ("exact", "bleu", "covered")
            ),
        )
        for row in few_pairs.result["rows"]
    ],
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **It helps when pairs are few.** With 300 pairs: 38.4 to 43.7 % pretrained, 8.9 to 9.7 % from scratch, 15.4 to 18.5 % from scratch after 6,000 steps.
# - **Longer training narrows the gain.** With 1,000 pairs, in this order: 83.5 to 84.6 %, 69.5 to 70.4 %, 82.0 to 84.5 %. We did not fine-tune the pretrained model for 6,000 steps.
# - **It does not replace pairs.** With 100 pairs BLEU rises, but hardly a sentence is correct, although most contain only words of the training pairs. No unpaired
#   sentence shows which English word belongs to which French one, and 100 pairs probably show it too rarely.
# - **With enough pairs the gain is small:** one or two points with 10,000.
#
# Real translation shows the same pattern: mBART, pretrained by denoising ([Liu et al., 2020b](../docs/references.md#liu2020b)), gained in all but the highest-resource
# settings, up to 12 BLEU points with few pairs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Return to the answers of the beginning.

# %% [markdown] slideshow={"slide_type": "notes"}
# How the gain depends on the amount of unpaired text is a good project.

# %% tags=["checks"]
by_model = {(row["pairs"], row["model"]): row["exact"] for row in few_pairs.result["rows"]}
scratch, pretrained = (
    [by_model[size, name] for size in (100, 300, 1000, 10_000)]
    for name in ("from scratch", "pretrained")
)
longer = by_model[1000, "from scratch, 6,000 steps"]
gains = [min(after) - max(before) for before, after in zip(scratch, pretrained, strict=True)]
assert max(scratch[0] + pretrained[0]) < 8 and gains[1] > gains[2] > 10
assert min(pretrained[1]) > 2 * max(by_model[300, "from scratch, 6,000 steps"])
assert max(pretrained[2]) > min(longer) and max(longer) > min(pretrained[2])  # the ranges overlap
assert 0 < gains[3] < 2 and max(pretrained[3]) - min(scratch[3]) < 2.5
ranges = [
    (min(by_model[size, name]), max(by_model[size, name]))
    for size in (300, 1000)
    for name in ("pretrained", "from scratch", "from scratch, 6,000 steps")
]
assert ranges[:3] == [(38.4, 43.7), (8.9, 9.7), (15.4, 18.5)]
assert ranges[3:] == [(83.5, 84.6), (69.5, 70.4), (82.0, 84.5)]
assert few_pairs.result["unpaired"] == 20_000 and few_pairs.result["seeds"] == 3

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - BPE merges frequent pairs into subword tokens: almost no word is OOV, and sequences stay short.
# - Three objectives over the same blocks: masked tokens (both directions, BERT), the next token (causal mask, GPT), corrupted spans (encoder and decoder, T5).
# - A loss that is too good is a sign of data leakage.
# - Perplexity, $e$ to the mean cross-entropy, is per token. Compare tokenizers by bits per character.
# - Temperature, top-k and top-p change the distribution, not the model.
# - Pretraining on unpaired text helps the translator when pairs are few, but does not replace them. With as many steps in total, training from scratch nearly catches up at 1,000 pairs, not at 300.
#
# **Open question.** How few labels does a pretrained model need? [Lesson 08](08_fine_tune_and_transfer.ipynb).

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask why chat models are causal.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - [Devlin et al. (2019)](../docs/references.md#devlin2019): BERT, masked language modeling.
# - [Fan et al. (2018)](../docs/references.md#fan2018), [Holtzman et al. (2020)](../docs/references.md#holtzman2020): top-k, top-p.
# - [Hendrycks and Gimpel (2016)](../docs/references.md#hendrycks2016): GELU.
# - [Liu et al. (2020b)](../docs/references.md#liu2020b): mBART, denoising pretraining for translation.
# - [Radford et al. (2018)](../docs/references.md#radford2018), [(2019)](../docs/references.md#radford2019): GPT; GPT-2 and byte-level BPE.
# - [Raffel et al. (2020)](../docs/references.md#raffel2020): T5, span corruption.
# - [Salazar et al. (2020)](../docs/references.md#salazar2020): pseudo-perplexity.
# - [Sennrich et al. (2016)](../docs/references.md#sennrich2016), [Wu et al. (2016)](../docs/references.md#wu2016): BPE, WordPiece.
