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
from utils.models import language
from utils.models.encoder import Encoder
from utils.models.self_attention import causal_mask
from utils.models.transformer import WordVectors
from utils.plots import lesson07 as pictures
from utils.plots import show
from utils.training import pretraining
from utils.training.pretraining import NOT_ASKED
from utils.training.stored_encoder import stored_encoder
from utils.widgets import fill_in, next_word

# %% tags=["nbval-check-output"]
torch.manual_seed(7)
torch.set_num_threads(1)
lesson("07")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Pieces of words
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
# Single characters never run out. But a text has several times as many of them as words, and attention compares all with all. In between lie *pieces*: frequent words
# whole, rare ones in parts.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Pieces that come up often
#
# Begin with letters. Again and again, the pair of neighbours that occurs most often becomes one piece (byte-pair encoding,
# [Sennrich et al., 2016](../docs/references.md#sennrich2016)). Pairs never cross from one word to the next, and a word that occurs ten times counts ten times. Ties need a rule, or
# nobody finds the same pieces twice: the pair whose left piece is older wins, then whose right piece is older; letters by their code, then new pieces in the order they were made.
# `merge(pieces, pair)` joins a pair wherever it stands.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.1 · byte-pair merges · medium · 15 min
def bpe_merges(counts, merges):
    """counts {word: how often} to the first `merges` pairs that are joined, [(left, right), ...].

    Fewer come back when nothing is left to join.
    """
    ### BEGIN SOLUTION
    split = {word: list(word) for word in counts}
    age = sorted(set("".join(counts)))  # letters first, new pieces behind
    found = []
    while len(found) < merges:
        pairs = Counter()
        for word, pieces in split.items():
            for pair in pairwise(pieces):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = max(pairs, key=lambda p: (pairs[p], -age.index(p[0]), -age.index(p[1])))
        found.append(best)
        age.append("".join(best))
        split = {word: merge(pieces, best) for word, pieces in split.items()}
    return found
    ### END SOLUTION


bpe_merges = exercise("7.1").use(bpe_merges)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
tiny = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
merges = bpe_merges(tiny, 8)
print("joined:", ", ".join("+".join(pair) for pair in merges))

small = ["the lowest of the low", "the newest and the widest", "other"]
library = bpe.train_bpe(small, 70, min_frequency=1).merges(30)
same = [tuple(pair) for pair in bpe_merges(word_counts(small), 30)] == library
print(f"all {len(library)} merges of a small text, as the library `tokenizers` finds them:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps, notes = [list("lowest")], [""]
for pair in merges:
    joined = merge(steps[-1], pair)
    if joined != steps[-1]:
        steps.append(joined)
        notes.append(f"merge {merges.index(pair) + 1}")
show(
    pictures.merges_steps(
        steps, "a word that was never counted, in pieces of those that were", notes
    ),
    alt="The word lowest, letter by letter at first; pieces grow until low and est are left.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A word that was never seen
#
# To cut a new word, do to it what was done to the corpus: all merges, in the order they were learned. No word is unknown as long as its letters are known. (GPT-2,
# [Radford et al., 2019](../docs/references.md#radford2019), begins with the 256 bytes instead of letters: then nothing at all is unknown.)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.2 · split a word · easy · 8 min
def bpe_split(word, merges):
    """The pieces of a word, a list; what was learnt first is joined first, wherever it stands."""
    ### BEGIN SOLUTION
    pieces = list(word)
    for pair in merges:
        pieces = merge(pieces, pair)
    return pieces
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
# A pair that hardly ever occurs apart wins over a frequent one. `##` marks a piece that does not begin a word; `w` and `##w` are two pieces. A new word is cut by its longest
# known beginning, again and again. (Google's own trainer was never published; this is how it is usually described. The library's goes by counts.)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
marked = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in tiny}
often, scores = bpe.pair_counts(marked, tiny), bpe.wordpiece_scores(tiny)
for name, found in (("most frequent", often), ("best score", scores)):
    pair = max(found, key=found.get)
    print(f"{name}: {' + '.join(pair)}, {often[pair]} times, score {scores[pair]:.2f}")
known = {"low", "new", "wid", "##est", "##er"}  # made by hand, to show how words are cut
for word in ("lowest", "newer", "slow"):
    print(f"{word}: {' '.join(bpe.wordpiece_split(word, known))}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A word that WordPiece cannot cut to its end is unknown as a whole.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole text
#
# From here on a library does it, `tokenizers`, which is written for speed. All text is put in lower case. The space before a word becomes part of it, written `▁`, so that pieces can
# be joined to text again. First a check: your merges and the library's, on the whole text.

# %% slideshow={"slide_type": "-"}
text = pretraining.corpus()
theirs = [tuple(pair) for pair in text.subwords.merges(12)]
print("the library's first merges:", *("".join(pair) for pair in theirs))
yours = [tuple(pair) for pair in bpe_merges(counts, 12)]
sample = "Return a shallow copy of the deque, leftmost element first."
pieces = text.subwords.tokens(text.subwords.encode(sample))
print(f"{len(text.subwords):,} pieces;", " | ".join(pieces))
print(f"a piece stands for {characters / len(text.train):.1f} characters")
print(f"{len(text.train):,} pieces to learn from")

# %% tags=["checks"]
assert yours == theirs, "your merges differ from the library's"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Text without answers
#
# Take something out of a text and ask for it: the text itself has the answer. What is taken out, and who may look where, makes three tasks over the same blocks.

# %% slideshow={"slide_type": "subslide"}
quiz("7.a")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.three_masks(
        ["the", "list", "is", "sorted", "in", "place"],
        "one text, the same blocks: who may look where makes three tasks",
        masked=[1, 3],
        gaps=[(1, 2), (4, 6)],
    ),
    alt="Blanks: an encoder that looks both ways. Next piece: a decoder that looks back. Gaps: both stacks.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Blanks to fill in
#
# Each ordinary piece is chosen with probability `share`. Of the chosen, 80 % become `mask`, 10 % a random ordinary piece (now and then the same), and 10 % stay. Padding, where `real` is False, and
# special pieces, numbered below `len(SPECIAL_TOKENS)`, are neither chosen nor drawn. `cross_entropy` leaves out targets of `NOT_ASKED`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.3 · masked words · medium · 12 min
def mask_tokens(numbers, real, mask, pieces, share=0.15, generator=None):
    """numbers (b, n), real (b, n) True at pieces, to inputs, targets and chosen, all (b, n).

    Targets are what stood there where chosen and `NOT_ASKED` elsewhere. Random pieces run from
    len(SPECIAL_TOKENS) to pieces - 1. All that is drawn is drawn with `generator`.
    """
    ### BEGIN SOLUTION
    ordinary = real & (numbers >= len(SPECIAL_TOKENS))
    chosen = (torch.rand(numbers.shape, generator=generator) < share) & ordinary
    fate = torch.rand(numbers.shape, generator=generator)
    other = torch.randint(len(SPECIAL_TOKENS), pieces, numbers.shape, generator=generator)
    inputs = torch.where(chosen & (fate < 0.8), mask, numbers)
    inputs = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, inputs)
    return inputs, torch.where(chosen, numbers, NOT_ASKED), chosen
    ### END SOLUTION


mask_tokens = exercise("7.3").use(mask_tokens)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
numbers = torch.randint(len(SPECIAL_TOKENS), 1000, (2000, 50))
numbers[:, 0], numbers[:, -1] = CLS_ID, SEP_ID
real = torch.ones_like(numbers, dtype=torch.bool)
inputs, targets, chosen = mask_tokens(numbers, real, MASK_ID, 1000)


def about(where):
    return f"about {5 * round(20 * where.float().mean().item())} %"


print("chosen:", about(chosen[:, 1:-1]))
print("of these, masked:", about(inputs[chosen] == MASK_ID))
print("of these, unchanged:", about(inputs[chosen] == numbers[chosen]))
print("start and end are never chosen:", not chosen[:, [0, -1]].any())
print("the rest of the text is as it was:", torch.equal(inputs[~chosen], numbers[~chosen]))

# %% slideshow={"slide_type": "subslide"}
quiz("7.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Whole stretches
#
# An encoder-decoder can write more than one piece for a hole. Each span becomes one gap in the source; the target names each gap and says what was there.
# One more gap ends it: nothing else is missing.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.4 · cut out spans · medium · 10 min
def take_out(numbers, spans, gaps):
    """numbers, a list; spans [(start, end), ...] in order, without `end`; gaps, names of holes.

    Returns source, with gap i in place of span i, and target: gap 0, what was there, gap 1, ...,
    and the next gap at the end.
    """
    ### BEGIN SOLUTION
    source, target, place = [], [], 0
    for number, (start, end) in enumerate(spans):
        source += [*numbers[place:start], gaps[number]]
        target += [gaps[number], *numbers[start:end]]
        place = end
    return source + numbers[place:], target + [gaps[len(spans)]]
    ### END SOLUTION


take_out = exercise("7.4").use(take_out)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
said = ["the", "list", "is", "sorted", "in", "place", "and", "nothing", "is", "returned"]
names = [SPECIAL_TOKENS[gap] for gap in SENTINEL_IDS]
source, target = take_out(said, [(1, 2), (4, 6)], names)
print("source:", " ".join(source))
print("target:", " ".join(target))
both = [piece for piece in source + target if piece not in names]
print("nothing is lost:", sorted(both) == sorted(said))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One stack, two masks
#
# The blocks are those of lesson 05, pre-norm, with GELU ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)), a ReLU with a smooth corner. What makes an encoder or a
# decoder of them is who may look at whom. As in lesson 06 the table of pieces serves as the output layer as well; a bias for each piece says how frequent it is.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.5 · the masked model · medium · 10 min
class MaskedLM(nn.Module):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__()
        self.words = WordVectors(pieces, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))

    def vectors(self, numbers, real):
        """numbers (b, n), real (b, n) True at pieces, to (b, n, dim); all see all real pieces."""
        ### BEGIN SOLUTION
        return self.encoder(self.words(numbers), real.unsqueeze(1))[0]
        ### END SOLUTION

    def forward(self, numbers, real):
        """To logits (b, n, pieces) for the piece that stands here: the table, and a bias."""
        ### BEGIN SOLUTION
        return self.vectors(numbers, real) @ self.words.table.weight.T + self.bias
        ### END SOLUTION


MaskedLM = exercise("7.5").use(MaskedLM)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
sizes = dict(pieces=50, dim=12, heads=3, hidden=24, layers=2)
numbers, real = torch.randint(50, (2, 6)), torch.arange(6) < torch.tensor([[4], [6]])
mine, theirs = MaskedLM(**sizes), language.MaskedLM(**sizes)
theirs.load_state_dict(mine.state_dict())
same = torch.allclose(mine(numbers, real), theirs(numbers, real), atol=1e-5)
print("as the course's own:", same)
other = numbers.clone()
other[:, 3] = (numbers[:, 3] + 1) % 50
moved = (mine(other, real) - mine(numbers, real)).abs().amax(-1) > 1e-6
print("another piece 3 changes the real pieces", moved[1].nonzero().flatten().tolist())

# %% slideshow={"slide_type": "subslide"}
quiz("7.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same stack, going on
#
# Every place says what comes next. What comes next must not be seen: the triangle of lesson 04.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.6 · the causal model and its loss · medium · 12 min
class CausalLM(nn.Module):
    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__()
        self.words = WordVectors(pieces, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre", activation="gelu")
        self.bias = nn.Parameter(torch.zeros(pieces))

    def forward(self, numbers):
        """numbers (b, n) to logits (b, n, pieces) for the piece that comes next."""
        ### BEGIN SOLUTION
        x, _ = self.encoder(self.words(numbers), causal_mask(numbers.size(1)))
        return x @ self.words.table.weight.T + self.bias
        ### END SOLUTION

    def loss(self, numbers, real):
        """Cross-entropy of the next piece: one number, the mean over next pieces that are real."""
        ### BEGIN SOLUTION
        logits, targets = self(numbers)[:, :-1], numbers[:, 1:]
        losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        return losses[real[:, 1:]].mean()
        ### END SOLUTION


CausalLM = exercise("7.6").use(CausalLM)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
mine, theirs = CausalLM(**sizes), language.CausalLM(**sizes)
theirs.load_state_dict(mine.state_dict())
print("as the course's own:", torch.allclose(mine(numbers), theirs(numbers), atol=1e-5))
moved = (mine(other) - mine(numbers)).abs().amax(-1) > 1e-6
print("another piece 3 changes the places", moved[1].nonzero().flatten().tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A loss that is too good
#
# Train `CausalLM` and `MaskedLM`, which has no triangle, on the next piece: 250 steps on pieces drawn at random, where nothing can be learned from what came before.

# %% slideshow={"slide_type": "-"}
leak = pretraining.next_piece_losses()
print(
    f"ten pieces, all equally likely: no model can have less than log 10 = {leak['floor']:.2f} nats"
)
print(f"with the triangle:    {leak['causal']:.2f} nats")
print(f"without the triangle: {leak['both ways']:.2f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All three, trained
#
# Two layers of width 96 for blanks and for the next piece; one in each stack for gaps. Each reads fragments of 64 pieces. BERT hides 15 % of the pieces and T5
# ([Raffel et al., 2020](../docs/references.md#raffel2020)) cuts out spans of three; we have seconds, so we ask about 30 % and 50 %, in spans of eight on average. For blanks and the
# next piece the output's bias begins at the log of each piece's frequency, so that the *unigram*, which knows nothing else, need not be learned. (The causal model still begins above
# it: the table is also the output layer, so at first each place guesses itself.)

# %% slideshow={"slide_type": "-"}
trained = {}
for objective in pretraining.OBJECTIVES:
    trained[objective] = pretraining.pretrain(objective, **pretraining.LESSON[objective])

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
names = {"masked": "blanks", "causal": "next piece", "spans": "gaps"}
shortest = min(len(one["loss"]) for one in trained.values())
window = 25
curves = {
    name: trained[objective]["loss"][:shortest].view(-1, window).mean(1)[2:]
    for objective, name in names.items()
}
show(
    pictures.pretraining_curves(
        torch.arange(3 * window, shortest + 1, window),
        curves,
        "step by step, the next piece is learned fastest",
        unigram=trained["causal"]["unigram"],
        unigram_name="unigram, next piece",
        ylabel=f"training loss in nats, mean of {window} steps",
    ),
    alt="Three losses through training, with that of the unigram for the next piece as a line.",
)

# %% slideshow={"slide_type": "subslide"}
print("text of other modules   asked   model  unigram   ratio")
for name, one in trained.items():
    counted = torch.tensor([one["held_out"], one["unigram"]]).exp()
    asked = f"{pretraining.SHARES[name]:.0%}"
    print(
        f"{names[name]:12s} perplexity {asked:>6s} {counted[0]:7.0f} {counted[1]:8.0f} {counted[0] / counted[1]:7.2f}"
    )
bigram = torch.tensor(trained["causal"]["counts"][2]).exp()
print(f"counting pairs of pieces, for the next one: {bigram:.0f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Compare each with its own unigram, not with the others: they are asked different things. A step asks the causal model about every piece, the others about 30 % and 50 %: one
# reason why it gets on fastest.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A minute each, three seeds. After seconds the causal model is level with counting pairs, the older way; after a minute its perplexity is half of that.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
minute = stored("pretraining")
rows = {row["objective"]: row for row in minute.result["rows"]}
Table(
    ("objective", "perplexity", "unigram", "counting pairs", "pieces read", "training, s"),
    [
        (
            names[objective],
            ranged(row["perplexity"], 0),
            f"{row['unigram']:.0f}",
            f"{row['bigram']:.0f}" if row["bigram"] else "",
            f"{row['pieces_read']:,}",
            ranged(row["seconds"], 0),
        )
        for objective, row in rows.items()
    ],
    f"Median (lowest to highest) of three seeds. {minute.label}",
)

# %% slideshow={"slide_type": "subslide"}
quiz("7.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same text in other pieces
#
# The unigram on held-out text, with 500 pieces and with 3,000. Which predicts the text better? Spread the surprise over characters:
#
# $$\text{bits for a character} = \frac{\text{loss}}{\ln 2} \cdot \frac{\text{pieces}}{\text{characters}}$$

# %% slideshow={"slide_type": "-"}
print("pieces   perplexity of a piece   bits for a character")
for cut in (bpe.train_bpe(texts.train, 500), text.subwords):
    seen, new = (
        torch.tensor([number for one in cut.encode_batch(part) for number in one]) for part in texts
    )
    chances = seen.bincount(minlength=len(cut)) + 0.1
    loss = -(chances / chances.sum()).log()[new].mean()
    bits = loss / math.log(2) * len(new) / sum(map(len, texts.validation))
    print(f"{len(cut):6,d} {loss.exp():23.0f} {bits:22.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The perplexity is lower with few pieces, and the text is predicted worse.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What some seconds give

# %% slideshow={"slide_type": "-"}
known = {name: pretraining.restore_pretrained(one) for name, one in trained.items()}
blank, gap = "Open the [MASK] and read it.", "If the file [SENTINEL0], raise an exception."
for piece, chance in pretraining.fill_in(known["masked"], blank, 4)[0]:
    print(f"  {chance:.0%}  {blank.replace('[MASK]', piece.strip(bpe.SPACE))}")
print("goes on:", pretraining.continue_text(known["causal"], "Return the", 20))
print(
    "in the gap:", gap.replace("[SENTINEL0]", f"[{pretraining.write_gaps(known['spans'], gap)[0]}]")
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The causal model has learned short phrases. The other two know what such texts are made of, and not yet what the neighbours ask for.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fill in the blank
#
# The same training, wider and for many more steps, was done once. What came out is stored in `data/encoder`, with the pieces that it was trained with. Its weights go into your
# `MaskedLM`.

# %% slideshow={"slide_type": "-"}
encoder = stored_encoder()
large = {name: value for name, value in encoder["settings"].items() if name != "dropout"}
filler = MaskedLM(**large).eval()
filler.load_state_dict(encoder["state"])
own = bpe.BPETokenizer.from_str(encoder["subwords"])
brief, long = pretraining.LESSON["masked"], pretraining.LONG
print(
    f"{long['steps']:,} steps instead of {brief['steps']}, width {long['dim']} instead of {brief['dim']}:"
)
print(f"{encoder['seconds'] / 60:.0f} minutes, on the text of Python {encoder['python']}")
for name, one in (("some seconds:", trained["masked"]), ("the stored one:", encoder)):
    print(
        f"{name:15s} {one['read']:10,} pieces read, perplexity {one['perplexity']:4.0f} at blanks"
    )


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
@torch.no_grad()
def fill(sentence):
    numbers = torch.tensor([own.encode_pair(sentence)])
    logits = filler(numbers, torch.ones_like(numbers, dtype=torch.bool))[0]
    logits[:, : len(SPECIAL_TOKENS)] = -torch.inf  # no text
    blanks = (numbers[0] == MASK_ID).nonzero().flatten().tolist()
    best = logits[blanks].softmax(-1).topk(8)
    choices = [
        list(zip(own.tokens(pieces), chances.tolist(), strict=True))
        for pieces, chances in zip(best.indices, best.values, strict=True)
    ]
    return {"pieces": own.tokens(numbers[0]), "blanks": blanks, "choices": choices}


fill_in(fill, "Raise a ValueError [MASK] the argument is negative.", title="what could stand here?")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three dials for writing
#
# A model gives a chance to every piece. *Temperature* divides the logits: below 1 the likely get likelier. (Nobody can divide by 0: there the widget below takes the likeliest.) *Top-k*
# ([Fan et al., 2018](../docs/references.md#fan2018)) keeps the k likeliest. *Top-p* ([Holtzman et al., 2020](../docs/references.md#holtzman2020)) keeps the fewest likeliest that have p of the probability between them. Each
# cut is followed by a division, so that what stays sums to 1.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 7.7 · the next piece: temperature, top-k, top-p · medium · 15 min
def next_distribution(logits, temperature=1.0, top_k=None, top_p=None):
    """logits (pieces,) to chances (pieces,); temperature first, then top-k, then top-p."""
    ### BEGIN SOLUTION
    chances, order = (logits / temperature).softmax(-1).sort(descending=True)
    if top_k is not None:
        chances[top_k:] = 0
        chances = chances / chances.sum()
    if top_p is not None:
        before = chances.cumsum(0) - chances  # what the likelier ones have between them
        chances[before >= top_p] = 0
        chances = chances / chances.sum()
    return torch.zeros_like(chances).scatter(0, order, chances)
    ### END SOLUTION


next_distribution = exercise("7.7").use(next_distribution)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
logits = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.15]).log()
for dials in ({}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.9}, {"top_k": 3, "top_p": 0.8}):
    shown = "  ".join(f"{chance:.2f}" for chance in next_distribution(logits, **dials))
    print(f"{shown}   {', '.join(f'{name} {value}' for name, value in dials.items()) or 'no dial'}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
causal = trained["causal"]
writer = CausalLM(**{name: causal["settings"][name] for name in large}).eval()
writer.load_state_dict(causal["state"])
never = [number for number in range(len(SPECIAL_TOKENS)) if number != SEP_ID]


@torch.no_grad()
def go_on(beginning, written):
    numbers = [CLS_ID, *text.subwords.encode(beginning), *written][-pretraining.LENGTH :]
    logits = writer(torch.tensor([numbers]))[0, -1]
    logits[never] = -torch.inf
    return logits


next_word(
    go_on,
    text.subwords.tokens(range(len(text.subwords))),
    "Return the",
    temperature=0.7,
    stop=[SEP_ID],
    distribution=next_distribution,
    title="write on, piece by piece",
)

# %% tags=["checks"]
assert leak["both ways"] < 0.1 and leak["causal"] > leak["floor"] - 0.05
assert pretraining.SHARES == {"masked": 0.3, "causal": 1, "spans": 0.5}
assert (pretraining.LENGTH, pretraining.SPAN) == (64, 8)
assert {one["dim"] for one in pretraining.LESSON.values()} == {96}
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
