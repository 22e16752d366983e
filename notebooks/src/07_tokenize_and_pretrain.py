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
# The Transformer of lesson 06 learned from 20,000 sentences with their translations. Labeled data is expensive; unlabeled text is everywhere. Here a model is trained on such
# text alone: first the text is split into subword tokens, then the model predicts the tokens that were removed from it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room what a model could be asked about a text that nobody has labeled. Plan: 20 minutes for subword tokens, 40 for the three objectives, 15 for sampling.

# %% [markdown]
# **After this lesson you can**
#
# - split words into subword tokens by byte-pair encoding, and say why perplexities over different vocabularies cannot be compared;
# - train the same blocks by masked language modeling, causal language modeling and span corruption, and say which mask makes the difference;
# - sample from a language model with temperature, top-k and top-p.
#
# **You need** lessons 05 and 06. Symbols and terms: [notation](../docs/notation.md).

# %%
import math
from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

from utils.build.results import Table, ranged, stored
from utils.data import bpe, docstrings
from utils.data.bpe import CLS_ID, MASK_ID, SENTINEL_IDS, SEP_ID, SPECIAL_TOKENS, merge, word_counts
from utils.exercises import board, exercise, lesson, quiz
from utils.models import language_models
from utils.models.attention import causal_mask
from utils.models.language_models import EncoderConfig
from utils.models.layers import Embedding, TransformerEncoder
from utils.plots import lesson07 as pictures
from utils.plots import show
from utils.training import pretraining
from utils.training.stored_encoder import stored_encoder
from utils.training.trainer import IGNORE_INDEX
from utils.widgets import fill_in, next_word

# %% tags=["nbval-check-output"]
torch.manual_seed(7)
torch.set_num_threads(1)
lesson("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Subword tokens
#
# Every Python carries real English: the docstrings of its library and its manual. That is the text of this lesson. So far each word had a row in a table, and a word without a
# row was lost. How many are there?

# %% slideshow={"slide_type": "-"}
texts = docstrings.pretraining_texts()
counts, held_out = word_counts(texts.train), word_counts(texts.validation)
characters = sum(map(len, texts.train))
print(f"{characters:,} characters, {counts.total():,} words, {len(counts):,} different")
print(f"{characters / counts.total():.1f} characters to a word, spaces counted")
once = sum(count == 1 for count in counts.values())
lost = sum(count for word, count in held_out.items() if word not in counts)
print(f"{once / len(counts):.0%} of the different words occur only once")
print(f"in the text of other modules, {lost / held_out.total():.1%} of the words were never seen")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Single characters never run out. But a text has several times as many of them as words, and attention compares all with all. In between lie **subword tokens**: frequent words
# whole, rare ones in parts.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Byte-pair encoding
#
# Begin with letters. Again and again, the pair of neighbours that occurs most often becomes one token (byte-pair encoding,
# [Sennrich et al., 2016](../docs/references.md#sennrich2016)). Pairs never cross from one word to the next, and a word that occurs ten times counts ten times. Ties need a rule, or
# the same corpus gives different tokens: the pair with the smaller left id wins, then the one with the smaller right id; characters by code point, then new tokens in the order of their creation.
# `merge(tokens, pair)` merges every occurrence of a pair.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.1 · byte-pair merges · medium · 15 min
def bpe_merges(counts, num_merges):
    """counts {word: frequency} to the first `num_merges` merges, a list of pairs (left, right).

    Fewer are returned when no pair is left.
    """
    ### BEGIN SOLUTION
    split = {word: list(word) for word in counts}
    vocab = sorted(set("".join(counts)))  # characters first, then new tokens
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


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
tiny = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
merges = bpe_merges(tiny, 8)
print("merges:", ", ".join("+".join(pair) for pair in merges))

small = ["the lowest of the low", "the newest and the widest", "other"]
library = bpe.train_bpe(small, 70, min_frequency=1).merges(30)
same = [tuple(pair) for pair in bpe_merges(word_counts(small), 30)] == library
print(f"all {len(library)} merges of a small text are those of the library `tokenizers`:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps, notes = [list("lowest")], [""]
for pair in merges:
    merged = merge(steps[-1], pair)
    if merged != steps[-1]:
        steps.append(merged)
        notes.append(f"merge {merges.index(pair) + 1}")
show(
    pictures.merges_steps(
        steps, "a word that is not in the corpus, in tokens learned from it", notes
    ),
    alt="The word lowest, letter by letter at first; tokens are merged until low and est are left.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A word that was never seen
#
# To cut a new word, do to it what was done to the corpus: all merges, in the order they were learned. No word is unknown as long as its letters are known. (GPT-2,
# [Radford et al., 2019](../docs/references.md#radford2019), begins with the 256 bytes instead of letters: then nothing at all is unknown.)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
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


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
for word in ("lowest", "newer", "slow"):
    print(f"{word}: {' '.join(bpe_split(word, merges))}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Another way to choose
#
# WordPiece ([Wu et al., 2016](../docs/references.md#wu2016)), which BERT ([Devlin et al., 2019](../docs/references.md#devlin2019)) uses, asks not how often a pair occurs, but how
# much more often than its two parts would give by chance:
#
# $$\text{score}(a, b) = \frac{\text{count}(ab)}{\text{count}(a) \, \text{count}(b)}$$
#
# A pair that hardly ever occurs apart wins over a frequent one. `##` marks a token that does not begin a word; `w` and `##w` are two tokens. A new word is cut by its longest
# known beginning, again and again. (Google's own trainer was never published; this is how it is usually described. The library's goes by counts.)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
marked = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in tiny}
frequencies, scores = bpe.pair_counts(marked, tiny), bpe.wordpiece_scores(tiny)
for name, criterion in (("most frequent", frequencies), ("best score", scores)):
    pair = max(criterion, key=criterion.get)
    print(f"{name}: {' + '.join(pair)}, {frequencies[pair]} times, score {scores[pair]:.2f}")
vocabulary = {"low", "new", "wid", "##est", "##er"}  # by hand, to show how words are split
for word in ("lowest", "newer", "slow"):
    print(f"{word}: {' '.join(bpe.wordpiece_split(word, vocabulary))}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A word that WordPiece cannot cut to its end is unknown as a whole.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole text
#
# From here on a library does it, `tokenizers`, which is written for speed. All text is put in lower case. The space before a word becomes part of it, written `▁`, so that tokens can
# be joined to text again. First a check: your merges and the library's, on the whole text.

# %% slideshow={"slide_type": "-"}
text = pretraining.corpus()
library_merges = [tuple(pair) for pair in text.tokenizer.merges(12)]
print("the library's first merges:", *("".join(pair) for pair in library_merges))
same_merges = [tuple(pair) for pair in bpe_merges(counts, 12)] == library_merges
sample = "Return a shallow copy of the deque, leftmost element first."
tokens = text.tokenizer.tokens(text.tokenizer.encode(sample))
print(f"vocabulary of {len(text.tokenizer):,} tokens;", " | ".join(tokens))
print(f"{characters / len(text.train):.1f} characters per token")
print(f"{len(text.train):,} tokens of training text")

# %% tags=["checks"]
assert same_merges, "your merges differ from the library's"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Text without answers
#
# Take something out of a text and ask for it: the text itself has the answer. What is removed, and which tokens may attend to which, makes three objectives for the same layers.

# %% slideshow={"slide_type": "subslide"}
quiz("7.a")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.three_masks(
        ["the", "list", "is", "sorted", "in", "place"],
        "one text, the same layers: the attention mask makes three objectives",
        masked=[1, 3],
        spans=[(1, 2), (4, 6)],
    ),
    alt="Masked: an encoder attends to both sides. Causal: a decoder attends to the left. Spans: encoder and decoder.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Blanks to fill in
#
# Each ordinary token is chosen with probability `mask_prob`. Of the chosen, 80 % become `mask_id`, 10 % a random ordinary token (now and then the same), and 10 % stay. Padding, where `attention_mask` is
# False, and special tokens, with ids below `len(SPECIAL_TOKENS)`, are neither chosen nor drawn. `cross_entropy` ignores targets of `IGNORE_INDEX`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.3 · masked tokens · medium · 12 min
def mask_tokens(token_ids, attention_mask, mask_id, vocab_size, mask_prob=0.15, generator=None):
    """token_ids (b, n), attention_mask (b, n), to inputs, targets and chosen, all (b, n).

    Targets are the original ids where chosen and `IGNORE_INDEX` elsewhere. Random ids run from
    len(SPECIAL_TOKENS) to vocab_size - 1. Every draw uses `generator`.
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


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
token_ids = torch.randint(len(SPECIAL_TOKENS), 1000, (2000, 50))
token_ids[:, 0], token_ids[:, -1] = CLS_ID, SEP_ID
attention_mask = torch.ones_like(token_ids, dtype=torch.bool)
inputs, targets, chosen = mask_tokens(token_ids, attention_mask, MASK_ID, 1000)


def about(where):
    return f"about {5 * round(20 * where.float().mean().item())} %"


print("chosen:", about(chosen[:, 1:-1]))
print("of these, masked:", about(inputs[chosen] == MASK_ID))
print("of these, unchanged:", about(inputs[chosen] == token_ids[chosen]))
print("[CLS] and [SEP] are never chosen:", not chosen[:, [0, -1]].any())
print("all other tokens are unchanged:", torch.equal(inputs[~chosen], token_ids[~chosen]))

# %% slideshow={"slide_type": "subslide"}
quiz("7.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Whole stretches
#
# An encoder-decoder can generate more than one token for a span. Each span becomes one sentinel token in the source; the target repeats each sentinel, followed by the span.
# One more sentinel ends it: nothing else is missing.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.4 · span corruption · medium · 10 min
def corrupt_spans(token_ids, spans, sentinel_ids):
    """token_ids, a list; spans [(start, end), ...] in order, `end` excluded; sentinel_ids, a list.

    Returns source, with sentinel i in place of span i, and target: sentinel 0, span 0, sentinel 1,
    ..., and one more sentinel at the end.
    """
    ### BEGIN SOLUTION
    source, target, position = [], [], 0
    for i, (start, end) in enumerate(spans):
        source += [*token_ids[position:start], sentinel_ids[i]]
        target += [sentinel_ids[i], *token_ids[start:end]]
        position = end
    return source + token_ids[position:], target + [sentinel_ids[len(spans)]]
    ### END SOLUTION


corrupt_spans = exercise("7.4").use(corrupt_spans)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
sentence = ["the", "list", "is", "sorted", "in", "place", "and", "nothing", "is", "returned"]
sentinels = [SPECIAL_TOKENS[sentinel_id] for sentinel_id in SENTINEL_IDS]
source, target = corrupt_spans(sentence, [(1, 2), (4, 6)], sentinels)
print("source:", " ".join(source))
print("target:", " ".join(target))
tokens = [token for token in source + target if token not in sentinels]
print("no token is lost:", sorted(tokens) == sorted(sentence))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One stack, two masks
#
# The blocks are those of lesson 05, pre-norm, with GELU ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)), a ReLU with a smooth corner. What makes an encoder or a
# decoder of them is the attention mask. As in lesson 06 the embedding matrix is the output layer as well (weight tying); the bias of `lm_head` learns how frequent each token is.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.5 · the masked model · medium · 10 min
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
        """token_ids (b, n), attention_mask (b, n), to hidden states (b, n, dim).

        Every token attends to all tokens that are not padding.
        """
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
sizes = dict(vocab_size=50, dim=12, num_heads=3, hidden_dim=24, num_layers=2)
token_ids = torch.randint(50, (2, 6))
attention_mask = torch.arange(6) < torch.tensor([[4], [6]])
model, reference = MaskedLM(**sizes), language_models.MaskedLM(EncoderConfig(**sizes))
reference.load_state_dict(model.state_dict())
logits = model(token_ids, attention_mask)
print("as the library's:", torch.allclose(logits, reference(token_ids, attention_mask), atol=1e-5))
changed_ids = token_ids.clone()
changed_ids[:, 3] = (token_ids[:, 3] + 1) % 50
changed = (model(changed_ids, attention_mask) - logits).abs().amax(-1) > 1e-6
print("another token 3 changes the logits at", changed[1].nonzero().flatten().tolist())

# %% slideshow={"slide_type": "subslide"}
quiz("7.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same stack, going on
#
# Every position predicts the next token, which it must not see: the causal mask of lesson 04.


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


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
model, reference = CausalLM(**sizes), language_models.CausalLM(EncoderConfig(**sizes))
reference.load_state_dict(model.state_dict())
logits = model(token_ids)
print("as the library's:", torch.allclose(logits, reference(token_ids), atol=1e-5))
changed = (model(changed_ids) - logits).abs().amax(-1) > 1e-6
print("another token 3 changes the logits at", changed[1].nonzero().flatten().tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A loss that is too good
#
# Train `CausalLM` and `MaskedLM`, which has no causal mask, to predict the next token: 250 steps on tokens drawn at random, where nothing can be learned from what came before.

# %% slideshow={"slide_type": "-"}
leak = pretraining.leakage_losses()
print(f"ten equally likely tokens: no model can be better than log 10 = {leak['entropy']:.2f} nats")
print(f"with the causal mask:    {leak['causal']:.2f} nats")
print(f"without the causal mask: {leak['bidirectional']:.2f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All three, trained
#
# Two layers of width 96 for blanks and for the next token; one in each stack for gaps. Each reads fragments of 64 tokens. BERT hides 15 % of the tokens and T5
# ([Raffel et al., 2020](../docs/references.md#raffel2020)) cuts out spans of three; we have seconds, so we ask about 30 % and 50 %, in spans of eight on average. For blanks and the
# next token the output's bias begins at the log of each token's frequency, so that the *unigram*, which knows nothing else, need not be learned. (The causal model still begins above
# it: the table is also the output layer, so at first each place guesses itself.)

# %% slideshow={"slide_type": "-"}
trained = {}
for objective in pretraining.OBJECTIVES:
    trained[objective] = pretraining.pretrain(objective, **pretraining.LESSON[objective])

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
names = {"masked": "masked LM", "causal": "causal LM", "spans": "span corruption"}
num_steps = min(len(result["loss"]) for result in trained.values())
window = 25
curves = {
    name: trained[objective]["loss"][:num_steps].view(-1, window).mean(1)[2:]
    for objective, name in names.items()
}
show(
    pictures.pretraining_curves(
        torch.arange(3 * window, num_steps + 1, window),
        curves,
        "per step, causal language modeling learns fastest",
        unigram=trained["causal"]["unigram"],
        unigram_name="unigram, next token",
        ylabel=f"training loss in nats, mean of {window} steps",
    ),
    alt="Training loss of the three objectives, and the loss of a unigram model for the next token as a line.",
)

# %% slideshow={"slide_type": "subslide"}
print("held-out perplexity  predicted   model  unigram   ratio")
for objective, result in trained.items():
    model_ppl, unigram_ppl = torch.tensor([result["held_out"], result["unigram"]]).exp()
    predicted = f"{pretraining.MASK_PROBS[objective]:.0%}"
    print(
        f"{names[objective]:20s} {predicted:>9s} {model_ppl:7.0f} {unigram_ppl:8.0f} {model_ppl / unigram_ppl:7.2f}"
    )
bigram = torch.tensor(trained["causal"]["ngrams"][2]).exp()
print(f"bigram model, next token: {bigram:.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Compare each with its own unigram, not with the others: they are asked different things. A step asks the causal model about every token, the others about 30 % and 50 %: one
# reason why it gets on fastest.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A minute each, three seeds. After seconds the causal model is level with counting pairs, the older way; after a minute its perplexity is half of that.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
minute = stored("pretraining")
rows = {row["objective"]: row for row in minute.result["rows"]}
Table(
    ("objective", "perplexity", "unigram", "bigram", "tokens", "training, s"),
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
    f"Median (lowest to highest) of three seeds. {minute.label}",
)

# %% slideshow={"slide_type": "subslide"}
quiz("7.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same text in other tokens
#
# The unigram on held-out text, with 500 tokens and with 3,000. Which predicts the text better? Spread the surprise over characters:
#
# $$\text{bits for a character} = \frac{\text{loss}}{\ln 2} \cdot \frac{\text{tokens}}{\text{characters}}$$

# %% slideshow={"slide_type": "-"}
print("vocabulary   perplexity per token   bits per character")
for tokenizer in (bpe.train_bpe(texts.train, 500), text.tokenizer):
    train_ids, validation_ids = (
        torch.tensor([token for ids in tokenizer.encode_batch(part) for token in ids])
        for part in texts
    )
    frequencies = train_ids.bincount(minlength=len(tokenizer)) + 0.1
    loss = -(frequencies / frequencies.sum()).log()[validation_ids].mean()
    bits = loss / math.log(2) * len(validation_ids) / sum(map(len, texts.validation))
    print(f"{len(tokenizer):10,d} {loss.exp():22.0f} {bits:20.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The perplexity is lower with few tokens, and the text is predicted worse.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What some seconds give

# %% slideshow={"slide_type": "-"}
models = {
    objective: pretraining.restore_pretrained(result) for objective, result in trained.items()
}
masked, corrupted = "Open the [MASK] and read it.", "If the file [SENTINEL0], raise an exception."
for token, prob in pretraining.fill_mask(models["masked"], masked, 4)[0]:
    print(f"  {prob:.0%}  {masked.replace('[MASK]', token.strip(bpe.SPACE))}")
print("next tokens:", pretraining.continue_text(models["causal"], "Return the", 20))
span = pretraining.fill_spans(models["spans"], corrupted)[0]
print("span:", corrupted.replace("[SENTINEL0]", f"[{span}]"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# The causal model has learned short phrases. The other two know what such texts are made of, and not yet what the neighbours ask for.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill in the blank
#
# The same training, wider and for many more steps, was done once. What came out is stored in `data/encoder`, with the tokens that it was trained with. Its weights go into your
# `MaskedLM`.

# %% slideshow={"slide_type": "-"}
encoder = stored_encoder()
large = {name: value for name, value in encoder["settings"].items() if name != "dropout"}
masked_lm = MaskedLM(**large).eval()
masked_lm.load_state_dict(encoder["state_dict"])
tokenizer = bpe.BPETokenizer.from_str(encoder["tokenizer"])
brief, long = pretraining.LESSON["masked"], pretraining.LONG
print(
    f"{long['num_steps']:,} steps instead of {brief['num_steps']}, dim {long['dim']} instead of {brief['dim']}:"
)
print(f"{encoder['seconds'] / 60:.0f} minutes, on the text of Python {encoder['python']}")
for name, result in (("some seconds:", trained["masked"]), ("stored:", encoder)):
    print(
        f"{name:13s} {result['num_tokens']:10,} tokens, perplexity {result['perplexity']:4.0f} at masked tokens"
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


fill_in(fill, "Raise a ValueError [MASK] the argument is negative.", title="which token is masked?")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three dials for writing
#
# A model gives a chance to every token. *Temperature* divides the logits: below 1 the likely get likelier. (Nobody can divide by 0: there the widget below takes the likeliest.) *Top-k*
# ([Fan et al., 2018](../docs/references.md#fan2018)) keeps the k likeliest. *Top-p* ([Holtzman et al., 2020](../docs/references.md#holtzman2020)) keeps the fewest likeliest that have p of the probability between them. Each
# cut is followed by a division, so that what stays sums to 1.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.7 · the next token: temperature, top-k, top-p · medium · 15 min
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


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
logits = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15]).log()
for options in ({}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}, {"top_k": 3, "top_p": 0.8}):
    probs = "  ".join(f"{prob:.2f}" for prob in next_token_probs(logits, **options))
    label = ", ".join(f"{name} {value}" for name, value in options.items()) or "default"
    print(f"{probs}   {label}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
causal = trained["causal"]
causal_lm = CausalLM(**{name: causal["settings"][name] for name in large}).eval()
causal_lm.load_state_dict(causal["state_dict"])
banned_ids = [token for token in range(len(SPECIAL_TOKENS)) if token != SEP_ID]


@torch.no_grad()
def next_logits(prompt, new_ids):
    token_ids = [CLS_ID, *text.tokenizer.encode(prompt), *new_ids][-pretraining.LENGTH :]
    logits = causal_lm(torch.tensor([token_ids]))[0, -1]
    logits[banned_ids] = -torch.inf
    return logits


next_word(
    next_logits,
    text.tokenizer.tokens(range(len(text.tokenizer))),
    "Return the",
    temperature=0.7,
    eos_ids=[SEP_ID],
    distribution=next_token_probs,
    title="sample token by token",
)

# %% tags=["checks"]
assert leak["bidirectional"] < 0.1 and leak["causal"] > leak["entropy"] - 0.05
assert pretraining.MASK_PROBS == {"masked": 0.3, "causal": 1, "spans": 0.5}
assert (pretraining.LENGTH, pretraining.MEAN_SPAN_LENGTH) == (64, 8)
assert {options["dim"] for options in pretraining.LESSON.values()} == {96}
assert trained["causal"]["perplexity"] < 0.5 * torch.tensor(trained["causal"]["unigram"]).exp()
assert trained["causal"]["perplexity"] < 1.2 * bigram
assert {row["seeds"] for row in rows.values()} == {3}
assert 0.4 < rows["causal"]["perplexity"]["median"] / rows["causal"]["bigram"] < 0.6
assert long["dim"] == large["dim"]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - Subword tokens: almost no word is out of vocabulary, and sequences stay short. Perplexity is per token; compare tokenizers by bits per character.
# - One text gives three objectives: masked tokens (attention in both directions), the next token (causal mask), corrupted spans (encoder and decoder).
# - If the model can see the answer, its loss is too good to be true.
# - Temperature, top-k and top-p change the distribution a token is drawn from, not the model.
#
# **What is left open.** The model predicts missing tokens. Nobody needs that by itself. Lesson 08 asks what it is good for: learning a task from a handful of labels.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which of the three objectives each of BERT, GPT ([Radford et al., 2018](../docs/references.md#radford2018)) and T5 uses, and why a chat model needs the causal one.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - R. Sennrich, B. Haddow, A. Birch, [*Neural machine translation of rare words with subword units*](../docs/references.md#sennrich2016), 2016: byte-pair encoding for words.
# - Y. Wu et al., [*Google's neural machine translation system*](../docs/references.md#wu2016), 2016: WordPiece.
# - J. Devlin et al., [*BERT: pre-training of deep bidirectional Transformers for language understanding*](../docs/references.md#devlin2019), 2019: masked words, 80/10/10.
# - A. Radford et al., [*Improving language understanding by generative pre-training*](../docs/references.md#radford2018), 2018: the next word, then fine-tuning.
# - C. Raffel et al., [*Exploring the limits of transfer learning with a unified text-to-text Transformer*](../docs/references.md#raffel2020), 2020: corrupted spans.
# - A. Holtzman et al., [*The curious case of neural text degeneration*](../docs/references.md#holtzman2020), 2020: top-p.
# - A. Fan, M. Lewis, Y. Dauphin, [*Hierarchical neural story generation*](../docs/references.md#fan2018), 2018: top-k.
