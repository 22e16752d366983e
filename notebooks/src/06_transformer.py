# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 06 · The encoder-decoder Transformer
#
# **How do the blocks become a model that translates?**
#
# Lessons 04 and 05 built a stack that reads a whole sentence without recurrence. Now a second stack writes, and the two together are the Transformer
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017)). It learns to translate, from the pairs that lesson 03 gave to recurrent models, so that the two can be compared.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the two stacks on the board with nothing but arrows, and let the room name what flows along each. Plan: 10 minutes for the machine, 35 for the
# parts, 25 for training, 25 for writing, 25 for what it learned and the ladder.

# %% [markdown]
# **After this lesson you can**
#
# - say what flows along every arrow of the Transformer, with its shape;
# - write cross-attention and the decoder layer, and show that the whole is torch's;
# - train it: shifted targets, padding, label smoothing, warm-up; and prove that nothing leaks from the future;
# - write a translation greedily, by beam search, and with a key-value cache;
# - say where its attentions look, and show which look a translation needs.
#
# **You need** lesson 05. Lesson 03 is not needed: what is taken from it is said here. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from utils.build.results import Table, ranged, stored
from utils.data.tokens import BOS_ID, EOS_ID, collate, join
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attention, decoding, transformer
from utils.models.encoder import Encoder, FeedForward, LayerNorm
from utils.models.multi_head import MultiHeadAttention
from utils.models.positions import sinusoidal_positions
from utils.models.self_attention import causal_mask
from utils.models.torch_weights import from_torch
from utils.models.transformer import WordVectors
from utils.plots import lesson06 as pictures
from utils.plots import show
from utils.training import attention_roles, own_sentence, translation
from utils.training import transformer as training
from utils.widgets import beam_tree, explore, menu, translate_watch

torch.manual_seed(6)
torch.set_num_threads(1)
lesson("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · The whole machine
#
# The encoder reads the source once. The decoder reads what has been written so far, looks at the source, and says at every place which word comes next.

# %% slideshow={"slide_type": "-"}
pairs, english, french = translation.pairs_and_words()
for pair in [pair for pair in pairs.train if len(pair.english) <= 8][:3]:
    print(join(pair.english, "english"), "→", join(pair.french, "french"))
print(
    f"{len(pairs.train):,} pairs to learn from, {len(english)} English and {len(french)} French words; the first four are special:"
)
print(*(f"{number} {word}" for number, word in enumerate(french.words[:4])), sep=", ")

# %% slideshow={"slide_type": "subslide"}
quiz("6.a")

# %% slideshow={"slide_type": "subslide"}
quiz("6.b")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
sizes = {
    "dim": training.WIDTH,
    "heads": training.HEADS,
    "hidden": training.HIDDEN,
    "layers": training.LAYERS,
}
show(
    pictures.transformer_diagram(
        *sizes.values(),
        len(english),
        len(french),
        "the encoder's output goes into every layer of the decoder",
    ),
    alt="Encoder and decoder stacks with the shape along both streams; the encoder's output goes into every cross-attention.",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · The parts
#
# Bottom up: vectors for the words, the one attention that is new, the layer around it, the stack.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From words to vectors
#
# Each word has a row in a table, and each place a sinusoid. The table begins with small numbers, of size $1 / \sqrt d$, since the
# same table may serve as output layer; times $\sqrt d$ they are about as large as the sinusoids they are added to.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.1 · word vectors with positions · easy · 6 min
def word_vectors(words, table, positions, start=0):
    """words (b, n), table (V, d), positions (longest, d) to (b, n, d).

    A row of the table times the root of d, plus the position; the first word is at `start`.
    """
    ### BEGIN SOLUTION
    n, d = words.size(1), table.size(1)
    return table[words] * d**0.5 + positions[start : start + n]
    ### END SOLUTION


word_vectors = exercise("6.1").use(word_vectors)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
d = 64
table, positions = torch.randn(50, d) * d**-0.5, sinusoidal_positions(20, d)
words = torch.tensor([[7, 3, 7]])
x = word_vectors(words, table, positions)
print("words (b, n)", tuple(words.shape), "to vectors (b, n, d)", tuple(x.shape))
sizes_of = [one.norm(dim=-1).mean().item() for one in (table * d**0.5, positions)]
print(f"mean length of a scaled row {sizes_of[0]:.0f}, of a position {sizes_of[1]:.0f}")
print("the same word at places 0 and 2 has the same vector:", torch.equal(x[0, 0], x[0, 2]))
last = word_vectors(words[:, 2:], table, positions, start=2)
print("word 2 alone, from place 2 on:", torch.allclose(x[:, 2:], last))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A search in a database
#
# The source, encoded, is the database: the encoder's output vectors, which we call the *memory*. Keys and values are made from it. The words being written ask. So the target may have another
# length than the source: $m$ words look at $n$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.2 · cross-attention · easy · 6 min
def cross_attention(x, memory, W_Q, W_K, W_V, mask=None):
    """Words x (b, m, d) look at memory (b, n, d); maps (d, d_k); mask (b, n), True at source words.

    Returns output (b, m, d_k) and weights (b, m, n).
    """
    ### BEGIN SOLUTION
    if mask is not None:
        mask = mask.unsqueeze(1)  # (b, 1, n): the same for all m words
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)
    ### END SOLUTION


cross_attention = exercise("6.2").use(cross_attention)


# %% slideshow={"slide_type": "subslide"}
quiz("6.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder layer
#
# Three branches, each $x + \operatorname{part}(\operatorname{norm}(x))$: the words look at the words before them, then at the source,
# then the feed-forward layer works on each word alone. `MultiHeadAttention` from lesson 05 takes `(query_from, key_from=None, mask=None, need_weights=False)`
# and returns output and weights; without `key_from` the words look at each other.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.3 · the decoder layer · hard · 15 min
class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.self_attention = MultiHeadAttention(dim, heads)
        self.cross_attention = MultiHeadAttention(dim, heads)
        self.feed_forward = FeedForward(dim, hidden)
        self.self_norm, self.cross_norm = LayerNorm(dim), LayerNorm(dim)
        self.feed_forward_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (b, m, dim) and memory (b, n, dim) to x, weights (b, heads, m, m), (b, heads, m, n).

        mask (m, m), memory_mask (b, 1, n): bool, True = may attend; None masks nothing.
        """
        ### BEGIN SOLUTION
        found, own = self.self_attention(self.self_norm(x), mask=mask, need_weights=True)
        x = x + found
        asks = self.cross_norm(x)
        found, cross = self.cross_attention(asks, memory, memory_mask, need_weights=True)
        x = x + found
        return x + self.feed_forward(self.feed_forward_norm(x)), own, cross
        ### END SOLUTION


DecoderLayer = exercise("6.3").use(DecoderLayer)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
theirs = nn.TransformerDecoderLayer(12, 3, 20, 0.0, batch_first=True, norm_first=True)
mine = DecoderLayer(12, 3, 20)
reference = from_torch(theirs, transformer.DecoderLayer(12, 3, 20, norm="pre"))
mine.load_state_dict(reference.state_dict())

x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
mask, real = causal_mask(4), torch.arange(5) < torch.tensor([[3], [5]])
output, own, cross = mine(x, memory, mask, real.unsqueeze(1))
torchs = theirs(x, memory, tgt_mask=~mask, memory_key_padding_mask=~real)  # True hides there
print("as nn.TransformerDecoderLayer:", torch.allclose(output, torchs, atol=1e-5))
print("weights among the words", tuple(own.shape), "and over the source", tuple(cross.shape))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole model
#
# A stack of your layers with one norm behind it, as pre-norm needs it; then both stacks, both tables and the output layer.
#
# Here the output layer *is* the table of target words (*tying*; [Press and Wolf, 2017](../docs/references.md#press2017)): a word is likely if its vector points where the
# decoder's output does. `WordVectors` holds a table and does what you wrote in 6.1; `Encoder` and `Decoder` want masks (b, 1, n).


# %% slideshow={"slide_type": "-"}
class Decoder(nn.Module):
    def __init__(self, layers, dim, heads, hidden):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, hidden) for _ in range(layers))
        self.final_norm = LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x, _, _ = layer(x, memory, mask, memory_mask)
        return self.final_norm(x)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.4 · encode and decode · medium · 12 min
class Transformer(nn.Module):
    def __init__(self, source_words, target_words, dim, heads, hidden, layers):
        super().__init__()
        self.source_vectors = WordVectors(source_words, dim)
        self.target_vectors = WordVectors(target_words, dim)
        self.encoder = Encoder(layers, dim, heads, hidden, norm="pre")  # gives vectors and weights
        self.decoder = Decoder(layers, dim, heads, hidden)
        self.output = nn.Linear(dim, target_words, bias=False)
        self.output.weight = self.target_vectors.table.weight  # one table, two uses

    def encode(self, source, source_mask):
        """source and mask (b, n), mask True at words; to memory (b, n, dim)."""
        ### BEGIN SOLUTION
        return self.encoder(self.source_vectors(source), source_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def decode(self, target, memory, source_mask):
        """target (b, m) to logits (b, m, words) for the word after each; no word sees the next."""
        ### BEGIN SOLUTION
        x, mask = self.target_vectors(target), causal_mask(target.size(1))
        return self.output(self.decoder(x, memory, mask, source_mask.unsqueeze(1)))
        ### END SOLUTION


Transformer = exercise("6.4").use(Transformer)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
model = Transformer(source_words=20, target_words=30, dim=12, heads=3, hidden=24, layers=2)
source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 30, (2, 4))
source_mask = torch.arange(5) < torch.tensor([[3], [5]])
memory = model.encode(source, source_mask)
logits = model.decode(target, memory, source_mask)
print("source", tuple(source.shape), "to memory", tuple(memory.shape))
print("target", tuple(target.shape), "and memory to logits", tuple(logits.shape))

reference = transformer.Transformer(20, 30, 12, 3, 24, 2, norm="pre", dropout=0.0)
reference.load_state_dict(model.state_dict())
same = torch.allclose(logits, reference(source, source_mask, target)[0], atol=1e-5)
print("as the course's own Transformer:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Torch's own
#
# `nn.Transformer` is the two stacks without tables and output layer. It is post-norm unless told otherwise, and has a norm behind each stack in either order:
# here that is a switch. With copied weights the two give the same.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x, y, mask = torch.randn(2, 5, 12), torch.randn(2, 4, 12), causal_mask(4)
real, padding = source_mask.unsqueeze(1), ~source_mask  # True hides there
hide = {"tgt_mask": ~mask, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
warnings.filterwarnings("ignore", "enable_nested_tensor")  # a short cut that torch leaves out here
for norm in ("post", "pre"):
    given = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre"}
    theirs = nn.Transformer(12, 3, 2, 2, 24, **given)
    ours = transformer.Transformer(20, 30, 12, 3, 24, 2, norm=norm, final_norm=True, dropout=0.0)
    from_torch(theirs, ours)
    memory, _ = ours.encoder(x, real)
    output, _, _ = ours.decoder(y, memory, mask, real)
    same = torch.allclose(output, theirs(x, y, **hide), atol=1e-5)
    print(f"as nn.Transformer, {norm}-norm:", same)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Training
#
# All that the decoder must learn to say is known in training. So it reads the right words, whatever it would have said itself: *teacher forcing*
# ([Williams and Zipser, 1989](../docs/references.md#williams1989)).

# %% slideshow={"slide_type": "subslide"}
quiz("6.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One place apart
#
# What is read and what is to be said are the same sentence, one place apart. The causal mask of lesson 04 lets all places train at once.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.shifted_targets(
        ["the", "old", "king", "sleeps"],
        ["le", "vieux", "roi", "dort"],
        "each place says what the next one reads, and sees nothing behind itself",
        padding=1,
    ),
    alt="Source, the shifted target that the decoder reads, the target that it is to say, and the causal triangle.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.5 · shifted targets · easy · 6 min
def shifted_targets(sentences, start, end, padding=0):
    """Lists of word numbers to target_in and target_out, both (b, m): what is read, what is said.

    `start` stands in front of what is read, `end` behind what is said, padding behind both.
    """
    ### BEGIN SOLUTION
    read = [torch.tensor([start, *words]) for words in sentences]
    said = [torch.tensor([*words, end]) for words in sentences]
    target_in = pad_sequence(read, batch_first=True, padding_value=padding)
    return target_in, pad_sequence(said, batch_first=True, padding_value=padding)
    ### END SOLUTION


shifted_targets = exercise("6.5").use(shifted_targets)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
target_in, target_out = shifted_targets([[11, 12, 13], [21]], start=1, end=2)
print("read:", target_in.tolist())
print("said:", target_out.tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nothing leaks, everything learns
#
# What is said at a place must not depend on later words: that gradient is exactly zero. What stands at padding must not matter. And every parameter tensor must get a
# gradient, or it never learns. A third of each attention's `project.bias`, the part for the keys, gets none: it moves all scores of a query alike, and softmax does not notice.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x = torch.randn(1, 6, 12, requires_grad=True)  # six vectors that the decoder reads
output = model.decoder(x, torch.randn(1, 5, 12), causal_mask(6))
(gradient,) = torch.autograd.grad(output[0, 2].square().sum(), x)
seen = ["some" if one > 0 else "none" for one in gradient[0].norm(dim=-1)]
print("influence of each word on the third place:", *seen)

changed = torch.where(source_mask, source, 9)  # other words where padding stands
after = model.decode(target, model.encode(changed, source_mask), source_mask)
print("padding changes a logit:", not torch.allclose(logits, after, atol=1e-6))

F.cross_entropy(logits.flatten(0, 1), torch.randint(4, 30, (8,))).backward()
idle = [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()]
print("parameter tensors without a gradient:", idle or "none")
biases = [one.grad for name, one in model.named_parameters() if name.endswith("project.bias")]
parts = torch.stack(biases).view(-1, 3, 12).abs().amax((0, 2)) > 1e-6  # queries, keys, values
print("and in the attentions' biases, a gradient for queries, keys, values:", *parts.tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Label smoothing
#
# The target distribution gives the right word $1 - s$ and shares $s$ evenly among all $V$ words ([Szegedy et al., 2016](../docs/references.md#szegedy2016)). With $\log p$ from
# the model,
#
# $$\text{loss} = -(1 - s) \log p_{\text{target}} - \frac{s}{V} \sum_{v} \log p_v$$
#
# So the model is not asked to be infinitely sure. Padding is not a target: it is left out of the mean.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
some_words, s = ["roi", "reine", "rois", "dort", "vieux"], 0.1
V = len(french)
show(
    pictures.label_smoothing(
        some_words,
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [1 - s + s / V] + 4 * [s / V],
        f"smoothed with s = {s}, the target leaves each of {V} words a little",
        others=V - len(some_words),
    ),
    alt="The hard target gives one word everything; the smoothed one leaves a little for each of all words.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.6 · the loss with label smoothing · medium · 12 min
def smoothed_loss(logits, targets, smoothing, padding=0):
    """logits (b, m, V), targets (b, m) to one number: the mean over all targets but padding."""
    ### BEGIN SOLUTION
    log_p = logits.log_softmax(-1)
    of_target = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (b, m)
    losses = -(1 - smoothing) * of_target - smoothing * log_p.mean(-1)
    return losses[targets != padding].mean()
    ### END SOLUTION


smoothed_loss = exercise("6.6").use(smoothed_loss)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
logits, targets = torch.randn(2, 4, 30), torch.tensor([[5, 9, 2, 0], [7, 8, 6, 2]])
torchs = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0, label_smoothing=0.1)
print("as F.cross_entropy:", torch.allclose(smoothed_loss(logits, targets, 0.1), torchs))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Too sure costs
#
# Let the right word have probability $p$ and all others share the rest. Without smoothing the loss falls all the way to $p = 1$. With it, there is a best $p$, and beyond it
# being surer costs.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
p = torch.linspace(0.02, 0.9999, 400)
wanted = torch.tensor([[5]])
rest = (1 - p) / (V - 1)  # what each other word gets
chances = torch.where(torch.arange(V) == wanted, p[:, None], rest[:, None])
curves = {
    name: [smoothed_loss(one.log()[None, None], wanted, share).item() for one in chances]
    for name, share in (("no smoothing", 0.0), ("s = 0.1", 0.1))
}
show(
    pictures.loss_and_confidence(p, curves, "with smoothing, too sure is dear"),
    alt="Without smoothing the loss falls to zero as p goes to 1; with s = 0.1 it is lowest near 0.9 and rises steeply beyond.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Warm up first
#
# Adam's first steps rest on few gradients ([Kingma and Ba, 2015](../docs/references.md#kingma2015); [Liu et al., 2020](../docs/references.md#liu2020)), so the rate begins
# small. The schedule of [Vaswani et al. (2017)](../docs/references.md#vaswani2017), with steps counted from 1:
#
# $$\text{rate} = d^{-0.5} \cdot \min(\text{step}^{-0.5}, \; \text{step} \cdot \text{warmup}^{-1.5})$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.7 · the warm-up schedule · easy · 5 min
def warmup_rate(step, dim, warmup):
    """The learning rate at `step`, counted from 1."""
    ### BEGIN SOLUTION
    return dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION


warmup_rate = exercise("6.7").use(warmup_rate)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps = list(range(1, 2001, 10))
show(
    pictures.schedules(
        steps,
        {
            f"warm-up of {warmup}": [warmup_rate(step, sizes["dim"], warmup) for step in steps]
            for warmup in (100, 400, 1000)
        },
        "up in a straight line, then down with the root of the step",
    ),
    alt="Three rates rise in straight lines, the shorter the warm-up the higher the peak; then they share one falling curve.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does it matter?
#
# Two short runs of a post-norm model, same first parameters, same batches: in one the rate rises to its peak, in the other it starts there. Then both fall to 0 along
# half a cosine. One seed each; the next table has three, and longer runs.

# %% slideshow={"slide_type": "-"}
peak, steps, share = 0.003, 250, 0.2
warmed, cold = (training.first_losses(one, rate=peak, steps=steps) for one in (share, 0.0))
print(
    f"up to a rate of {peak} over the first {share * steps:.0f} of {steps} steps, or from the first"
)
ends = [losses[-25:].mean().item() for losses in (warmed, cold)]
print(f"loss of the last 25: {ends[0]:.2f} with warm-up, {ends[1]:.2f} without")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
ten = [losses.view(-1, 10).mean(1) for losses in (warmed, cold)]  # means of ten steps
show(
    pictures.training_panels(
        [10 * (one + 1) for one in range(len(ten[0]))],
        {"loss in nats": {"with warm-up": ten[0], "without": ten[1]}},
        "one run: post-norm without warm-up leads at first and falls behind",
    ),
    alt=f"Loss over {steps} steps: without warm-up it is lower in the first fifth and higher in the second half.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The rest of the recipe
#
# - **Dropout** ([Srivastava et al., 2014](../docs/references.md#srivastava2014)): while it trains, each number of a word vector, and each that a branch adds, is set to 0 with
#   some probability and the rest are scaled up to make up for it, so that nothing can lean on one number alone. Off when it writes: `model.eval()`.
# - **Clipping** ([Pascanu et al., 2013](../docs/references.md#pascanu2013)): a gradient longer than a limit, here 1, is shortened to it, so that one odd batch cannot throw the
#   parameters away.
# - **Weight decay** ([Loshchilov and Hutter, 2019](../docs/references.md#loshchilov2019)): every step shrinks all parameters a little, so that only what the data keeps asking
#   for stays large.
# - **Tying**: the output layer is the table of target words.
# - **Batches by words**: many short sentences or few long ones, so that every step costs about the same.
#
# Which of them pay is a question to the data. Guess which change costs most before the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One part changed at a time
#
# *Exact match*: whole sentences that are right. *BLEU*: runs of one to four words that agree. *Alignment error*: section 5. *Sure*: the mean probability of the word named, with
# the right words before it given; *right*: how often it was the right one. A model that knows what it knows has the two equal.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
recipes = stored("transformer_recipe")
by_name = {row["name"]: row for row in recipes.result}
recipes.table(
    ("what differs", "exact match, %", "BLEU", "alignment error, %", "sure, %", "right, %"),
    [
        (
            row["name"],
            *(ranged(row[measure]) for measure in ("exact", "bleu", "alignment_error")),
            f"{row['words']['confidence']:.1f}",
            f"{row['words']['accuracy']:.1f}",
        )
        for row in recipes.result
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The ranges overlap: on this corpus, with two layers, no single part decides how many sentences come out right. Without smoothing the model is about as sure as it is right.
# Smoothing made it about as sure as it was told to be, which is less; what it gave is a better aligned cross-attention. Post-norm without warm-up, which learned nothing with
# the six layers of lesson 05, is no worse here.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loop
#
# All that you built, in its order: targets one place apart, your model, the smoothed loss, its gradient, clipped, and a step at the rate of the schedule.

# %% slideshow={"slide_type": "-"}
small = Transformer(len(english), len(french), dim=48, heads=4, hidden=96, layers=1)
adam, losses = torch.optim.AdamW(small.parameters(), betas=training.BETAS), []
for step in range(1, 101):
    some = [pairs.train[one] for one in torch.randint(len(pairs.train), (32,))]
    batch = collate(some, english, french)
    read, said = shifted_targets([french.encode(pair.french) for pair in some], BOS_ID, EOS_ID)
    memory = small.encode(batch.source, batch.source_mask)
    loss = smoothed_loss(small.decode(read, memory, batch.source_mask), said, smoothing=0.1)
    adam.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(small.parameters(), max_norm=1.0)
    adam.param_groups[0]["lr"] = warmup_rate(step, dim=48, warmup=50)
    adam.step()
    losses.append(loss.item())
print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} at step {len(losses)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# The same loop, longer, in `utils`: pre-norm, a cosine ([Loshchilov and Hutter, 2017](../docs/references.md#loshchilov2017)) behind the warm-up, batches by words; no dropout,
# no smoothing, no tying. The pairs come from a small grammar of English and French, made for this course; no held-out sentence is among them.

# %% slideshow={"slide_type": "-"}
result = training.train_transformer(**training.LESSON)
steps = len(result["loss"])
print(
    f"{result['parameters']:,} parameters; {steps:,} steps of {training.WORDS} target words",
    end="; ",
)
print(f"rate up to {training.RATE} over the first {training.WARMUP * steps:.0f}")
print(f"AdamW: betas {training.BETAS}, weight decay {training.DECAY}")
print(f"held-out sentences: {100 * result['exact']:.1f} % exactly right, BLEU {result['bleu']:.1f}")

# %% tags=["checks"]
assert ends[0] < ends[1]
leads = (ten[1] < ten[0]).tolist()
assert all(leads[: len(leads) // 5]) and not any(leads[len(leads) // 2 :])
plain, smoothed = by_name["as in the lesson"], by_name["label smoothing 0.1"]
for row in recipes.result:
    less = row["words"]["accuracy"] - row["words"]["confidence"]  # how much less sure than right
    assert less > 5 if row is smoothed else abs(less) < 1
    assert (
        row["exact"]["least"] < plain["exact"]["most"]
        and plain["exact"]["least"] < row["exact"]["most"]
    )
assert abs(smoothed["words"]["confidence"] - 100 * (1 - s + s / V)) < 2
assert smoothed["alignment_error"]["most"] < plain["alignment_error"]["least"]
assert losses[-1] < 0.7 * losses[0]
assert result["exact"] >= 0.95

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Writing
#
# In training all that is read is known. What changes when nobody knows it?

# %% slideshow={"slide_type": "subslide"}
quiz("6.e")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Word by word
#
# In use there are no right words to read: the model reads what it has written itself, and has never in training read a mistake of its own. The simplest way takes the likeliest
# word each time: *greedy* decoding.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.8 · greedy decoding · medium · 10 min
def greedy_decode(model, source, source_mask, start, end, limit):
    """The likeliest words (b, m): the end token is part of them, 0 behind it, no start token.

    `model` has `encode` and `decode`. Stops when all have said `end`, or at `limit` words.
    """
    ### BEGIN SOLUTION
    memory = model.encode(source, source_mask)
    words = torch.full((len(source), 1), start)
    going = torch.ones(len(source), dtype=torch.bool)
    while going.any() and words.size(1) <= limit:
        logits = model.decode(words, memory, source_mask)[:, -1]
        word = logits.argmax(-1).masked_fill(~going, 0)
        words = torch.cat([words, word.unsqueeze(1)], 1)
        going = going & (word != end)
    return words[:, 1:]
    ### END SOLUTION


greedy_decode = exercise("6.8").use(greedy_decode)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your classes, the trained parameters
#
# The parameters that were just trained go into the model that you assembled. They were trained without tying, so the output layer gets a matrix of its own.

# %% slideshow={"slide_type": "-"}
mine = Transformer(len(english), len(french), **sizes)
mine.output = nn.Linear(sizes["dim"], len(french), bias=False)
mine.load_state_dict(result["state"])
batch = collate(pairs.test[:4], english, french)
with torch.no_grad():
    written = greedy_decode(mine, batch.source, batch.source_mask, BOS_ID, EOS_ID, limit=40)
for pair, row in zip(pairs.test, written.tolist(), strict=False):
    said = french.decode(row)
    print(join(pair.english, "english"))
    print("   ", join(said, "french"), "(right)" if tuple(said) == pair.french else "(wrong)")

# %% slideshow={"slide_type": "subslide"}
quiz("6.f")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.9 · a step with the key-value cache · medium · 8 min
def cached_step(x, keys, values, W_Q, W_K, W_V):
    """The newest word x (b, 1, d) looks at itself and at all words before it.

    Their keys and values (b, t, d_k) are kept. Returns output (b, 1, d_k), and keys and values
    (b, t + 1, d_k) with the new word's behind.
    """
    ### BEGIN SOLUTION
    keys = torch.cat([keys, x @ W_K], 1)
    values = torch.cat([values, x @ W_V], 1)
    output, _ = attention(x @ W_Q, keys, values)  # nothing lies behind the newest word: no mask
    return output, keys, values
    ### END SOLUTION


cached_step = exercise("6.9").use(cached_step)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x, maps = torch.randn(1, 6, 8), torch.randn(3, 8, 4)
keys = values = torch.zeros(1, 0, 4)
steps = []
for place in range(6):
    output, keys, values = cached_step(x[:, place : place + 1], keys, values, *maps)
    steps.append(output)
at_once, _ = attention(*(x @ W for W in maps), causal_mask(6))
print("word by word as all at once:", torch.allclose(torch.cat(steps, 1), at_once, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the cache buys
#
# Without it, step $t$ computes all $t$ words again. With it, one. The keys and values of the source are made once and kept as well. The price is memory: $2 d$ numbers for
# each word, layer and sentence.

# %% slideshow={"slide_type": "-"}
trained = training.restore_transformer(result)
kept = decoding.greedy_decode(
    trained.model, batch.source, batch.source_mask, start=BOS_ID, end=EOS_ID, limit=40
)
same = torch.equal(kept.words, written)
print("with the cache, the same words as yours without:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
speed = stored("transformer_speed")
speed.table(
    ("words written", "sentences side by side", "times as fast with the cache"),
    [(row["length"], row["batch"], row["speed"]) for row in speed.result["cache"]],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer the sentence, the more the cache saves.

# %% slideshow={"slide_type": "subslide"}
quiz("6.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Several beginnings at once
#
# Keep the `width` best beginnings. Each step goes on from all of them with every word, adds up the log-probabilities, and keeps the
# `width` best of *all* these: several may come from one beginning, none from another. A sentence that has ended keeps its place in the
# beam: its only way on is 0, and that costs nothing.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.10 · beam search · hard · 20 min
def beam_search(next_words, start, end, limit, width):
    """next_words(words (k, m)) -> log-probabilities (k, V) of the next; rows begin with `start`.

    Returns words (width, m) and totals (width,), best first; 0 behind `end`, no start token.
    Before `end`, 0 is an ordinary token.
    Stops when all in the beam have ended, or at `limit` words.
    """
    ### BEGIN SOLUTION
    words, total = torch.full((1, 1), start), torch.zeros(1)
    ended = torch.zeros(1, dtype=torch.bool)
    while not ended.all() and words.size(1) <= limit:
        step = next_words(words).masked_fill(ended.unsqueeze(1), float("-inf"))
        step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
        total, place = (total.unsqueeze(1) + step).flatten().topk(width)
        parent, word = place // step.size(1), place % step.size(1)
        words = torch.cat([words[parent], word.unsqueeze(1)], 1)
        ended = ended[parent] | (word == end)
    return words[:, 1:], total
    ### END SOLUTION


beam_search = exercise("6.10").use(beam_search)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
one, one_mask = source[:1], source_mask[:1]
with torch.no_grad():
    memory = model.encode(one, one_mask)


@torch.no_grad()
def next_words(words):
    """The beginnings of one sentence are a batch, with the same memory for all."""
    k = len(words)
    logits = model.decode(words, memory.expand(k, -1, -1), one_mask.expand(k, -1))
    return logits[:, -1].log_softmax(-1)


words, total = beam_search(next_words, start=1, end=2, limit=6, width=3)
theirs = decoding.beam_search(reference, one, one_mask, start=1, end=2, limit=6, width=3)
print("the same words as the course's own:", torch.equal(words, theirs.words[0]))
print("the same totals:", torch.allclose(total, theirs.log_probability[0], atol=1e-4))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does a beam help?
#
# Held-out sentences of the lengths it was trained on, and longer ones: greedily, and with a beam of 4. Where the beam is wrong, ask whether the right sentence would have been
# likelier. If not, no search would have found it.

# %% slideshow={"slide_type": "-"}
differing, gained = [], []  # shares, at trained lengths and longer
for name, some in (("trained lengths", pairs.test[:200]), ("longer", pairs.longer[:100])):
    rivals = training.greedy_and_beam(trained, some, width=4)
    wrong = [one for one in rivals if one.beam != one.pair.french]
    missed = sum(one.right_log_probability > one.beam_log_probability for one in wrong)
    other = [one for one in rivals if one.beam != one.greedy]
    likelier = sum(one.beam_log_probability > one.greedy_log_probability for one in other)
    greedy_right = sum(one.greedy == one.pair.french for one in rivals)
    print(
        f"{name}, {len(some)} sentences: right {greedy_right} greedily, {len(some) - len(wrong)} by beam"
    )
    print(f"    the beam's differs in {len(other)}, likelier in {likelier} of them")
    print(f"    wrong in {len(wrong)}, the right one likelier in {missed} of them")
    differing.append(len(other) / len(some))
    gained.append((len(some) - len(wrong) - greedy_right) / len(some))

# %% [markdown] slideshow={"slide_type": "subslide"}
# At the lengths it knows, the model is sure of itself and a beam changes next to nothing. On longer sentences the beam finds likelier ones, and hardly one of them is right: it
# is not the search that fails there, but the model. Many systems divide $\log p$ by the length to a power ([Wu et al., 2016](../docs/references.md#wu2016)), since every word
# costs; here that power is 0.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The tree of a beam
#
# Which beginnings were kept, which were dropped, and when did the best one take the lead? The first sentence is one of the longer ones, where greedy and beam part.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
parting = min(other, key=lambda one: (len(one.greedy) + len(one.beam), one.pair.english))
phrases = [
    join(parting.pair.english, "english"),
    "the old king does not sleep",
    "the european economic area",
    "the red cars of the women are expensive",
]
grown = beam_tree(
    lambda *asked: own_sentence.beginnings(trained, *asked),
    phrases,
    width=2,
    title="kept, dropped and best",
)
grown

# %% tags=["checks"]
assert same
assert differing[0] < 0.05 < differing[1] and likelier >= 0.9 * len(other)
assert gained[1] < 0.1 and len(wrong) > 0.5 * len(some) and missed < 0.1 * len(wrong)
assert not all(step[0]["best"] for step in grown.tree())  # it did not always lead

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · What it learned
#
# Type a sentence and step through its translation: the words it considered, and where each layer and head looked. It opens at the head that aligns best; how that one was
# found comes below.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
shown = trained.shown  # the best on validation pairs
aligning = {"layer": shown.layer, "head": pictures.MEAN if shown.head is None else shown.head}
translate_watch(
    lambda text: own_sentence.watched(trained, text),
    "the old king who sees the black dogs does not sleep",
    title="watch it translate",
    step=8,
    **aligning,
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Cross-attention against gold
#
# The corpus knows which words belong together, and no model was told. Choose a layer and a head: does it look where the gold links are?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
chosen = {join(pair.english, "english"): pair for pair in pairs.test if 7 <= len(pair.english) <= 9}
chosen = dict(list(chosen.items())[:6])
read = dict(zip(chosen, training.readings(trained, list(chosen.values())), strict=True))


def against_gold(sentence, layer, head):
    one, cross = read[sentence], torch.stack(read[sentence].looks.cross)
    return pictures.gold_alignment(
        one.source, one.said, cross, chosen[sentence].links, layer, head, "gold links outlined"
    )


explore(
    against_gold,
    alt="Cross-attention of the chosen layer and head with the gold links outlined.",
    sentence=list(chosen),
    layer=menu(pictures.layer_choices(sizes["layers"]), start=aligning["layer"]),
    head=menu(pictures.head_choices(sizes["heads"]), start=aligning["head"]),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which head aligns?
#
# Link each target word to the source word it looks at most: links $A$. The right links are $S$. The alignment error ([Och and Ney, 2003](../docs/references.md#och2003)) is
# $1 - 2 |A \cap S| / (|A| + |S|)$. Validation pairs choose the head that serves as the alignment; the test pairs, which had no say, judge it.

# %% slideshow={"slide_type": "-"}
errors = 100 * result["shown"]["errors"]
print("alignment error in %, validation pairs")
print("         ", *(f"head {head}" for head in range(1, sizes["heads"] + 1)), "  mean")
for number, row in enumerate(errors.tolist(), start=1):
    print(f"layer {number}:", *(f"{one:6.1f}" for one in row))
print(f"the best of these on test pairs: {100 * result['alignment_error']:.1f} %", end="; ")
print(f"no single link per word could do better than {100 * result['alignment_floor']:.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Negation
#
# French says *not* twice, on both sides of the verb: *ne ... pas*. A place of the decoder is named by the word that it reads and the word that it is to say. Where does it look
# while it names the one and the other?


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def maps_and_names(one, *choices):
    """choices: a layer and a head, or their mean, for the encoder, the decoder and across."""
    maps, names = [], []
    for weights, choice in zip(one.looks, choices, strict=True):
        maps.append(pictures.chosen_map(torch.stack(weights), *choice))
        names.append(pictures.map_name(sizes["layers"], sizes["heads"], *choice))
    return maps, names


(negation,) = training.readings(trained, [attention_roles.shortest_negation(pairs.test)])
last, across_at = (sizes["layers"] - 1, pictures.MEAN), (*aligning.values(),)
negation_maps, names = maps_and_names(negation, last, last, across_at)
show(
    pictures.three_attentions(
        negation.source,
        negation.read,
        *negation_maps,
        "ne and pas both look at not",
        names,
        negation.said,
    ),
    alt="Three maps of weights. In the one across, the places that say ne and pas both give most weight to not.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# In this sentence the encoder spreads its look: no weight in its map reaches one half. In the decoder the place that says *pas* looks most at the one that said the verb.

# %% slideshow={"slide_type": "subslide"}
on_not = attention_roles.negation_shares(trained, pairs.test)
print(
    f"{on_not['count']} held-out sentences; share of the aligning head's weight on 'not' or 'never'"
)
print(f"  while 'ne' is named:             {100 * on_not['first']:5.1f} %")
print(f"  while 'pas' or 'jamais' is:      {100 * on_not['second']:5.1f} %")
print(f"  while any other word is:         {100 * on_not['elsewhere']:5.1f} %")
print(f"  if it were spread evenly:        {100 * on_not['chance']:5.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Agreement at a distance
#
# A French adjective agrees with its noun, even with other nouns between the two. To get it right the model must find the noun, from somewhere. Guess: in the encoder, among the
# words written, or across?

# %% slideshow={"slide_type": "subslide"}
roles = attention_roles.agreement_heads(trained, translation.TRAINING_PAIRS, count=150)
print("for each attention the head that looks most at the adjective's own noun; weight in %")
print("attention  layer  head  own noun   between    chance")
for row in roles:
    shares = [f"{100 * row[name]:9.1f}" for name in ("own", "between", "chance")]
    print(f"{row['attention']:9s} {row['layer'] + 1:6d} {row['head'] + 1:5d}", *shares)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
cases = attention_roles.held_out_agreements(
    300, attention_roles.JUDGING, translation.TRAINING_PAIRS
)
case = attention_roles.shortest_agreement(cases)
(one,) = training.readings(trained, [case.pair])
adjective, noun = (case.pair.french[case.french(place)] for place in (case.adjective, case.noun))
title = f"{adjective} looks back, most to where {noun} was said"
found = [(row["layer"], row["head"]) for row in roles]
maps, names = maps_and_names(one, *found[:2], across_at)
row, nouns = (
    case.french(case.adjective),
    [case.french(one) for one in (case.noun, *case.attractors)],
)
show(
    pictures.three_attentions(one.source, one.read, *maps, title, names, one.said),
    alt=f"Three maps of weights. Among the words written, the place that says {adjective} gives most weight to the place that said {noun}.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Left and middle are the heads of the table. In the decoder most of the weight goes to the two places that said a noun, and more to the right one. In the encoder the adjective
# looks most elsewhere; across, the place that says it looks at the English one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Other seeds
#
# That was one model. Three more, trained longer, each from a seed of its own: the weight on *not* or *never* while these words are named, and on the noun from a far adjective.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
closing = stored("transformer_ladder")
(full,) = closing.result
seeds = full["roles"]
which = ["mean" if one["head"] is None else f"head {one['head'] + 1}" for one in full["shown"]]
layers = [
    f"layer {one['layer'] + 1}, {head}" for one, head in zip(full["shown"], which, strict=True)
]
rows = [("best aligned across", *layers, "")]
even = seeds[0]["negation"]["chance"]
for words, name in (("ne", "first"), ("pas, jamais", "second"), ("other words", "elsewhere")):
    rows.append((f"it on not, for {words}", *(one["negation"][name] for one in seeds), even))
for place, name in enumerate(attention_roles.ATTENTIONS):
    values = [one["agreement"][place]["own"] for one in seeds]
    even = seeds[0]["agreement"][place]["chance"]
    rows.append((f"{name}, on the noun", *values, even))
numbered = (f"seed {number}" for number in range(len(seeds)))
closing.table(("weight in %", *numbered, "evenly"), rows)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Who looks where is the same with every seed. How strongly is not, and neither is the head that does it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where it looks, and what it needs
#
# A weight says where a head looked, not what it did with it. So hide a place, change nothing else, and count again: from the adjective's place, or, in the encoder, from all
# other words.

# %% slideshow={"slide_type": "-"}
right = attention_roles.accuracy_without_links(trained, cases)
hidden = {
    "nothing": "nothing",
    "said": "the place that said the noun",
    "read": "the place that then read it",
    "encoder": "the noun, from all other words in the encoder",
    "cross": "the noun, across, from the adjective's place",
}
print(f"{len(cases)} far adjectives, right words before them given; right in % with this hidden:")
for name, words in hidden.items():
    print(f"  {words:46s} {100 * right[name]:5.1f}")
guess = attention_roles.gender_guessed(cases)
print(f"gender guessed (the commoner one), number from the verb: {100 * guess:.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without the place that *said* the noun this model is no better than a guess at the gender; the other looks are not missed. That place read the word before the noun, but it
# holds what it had looked up to say. In the encoder we found no role that a weight shows.

# %% tags=["checks"]
encoder, decoder, across = negation_maps
ne, pas = negation.said.index("ne"), negation.said.index("pas")
denial = negation.source.index("not")
assert across[ne].argmax() == across[pas].argmax() == denial
assert encoder.max() < 0.5 and decoder[pas].argmax() == pas - 1  # the verb is said between the two
assert min(on_not["first"], on_not["second"]) > 2 * on_not["chance"] > 4 * on_not["elsewhere"]
assert [row["own"] > 3 * row["chance"] for row in roles] == [False, True, False]
encoder, decoder, across = maps
assert decoder[row].argmax() == nouns[0] and decoder[row][nouns].sum() > 0.7
assert across[row].argmax() == case.adjective and encoder[case.adjective].argmax() != case.noun
for index, name in enumerate(attention_roles.ATTENTIONS):
    heads = [seed["agreement"][index] for seed in seeds]
    above_chance = [head["own"] > 3 * heads[0]["chance"] for head in heads]
    assert above_chance == [name == "decoder"] * len(seeds)
for one in (one["negation"] for one in seeds):
    assert min(one["first"], one["second"]) > 3 * one["chance"] and one["elsewhere"] < one["chance"]
assert right["said"] < guess + 0.08 < right["nothing"]
assert min(right[one] for one in ("read", "encoder", "cross")) > right["nothing"] - 0.05

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · The ladder
#
# The same pairs, the same held-out sentences, for every model of lessons 03 and 06. Recurrent models: an encoder and a decoder that read word by word, without
# attention and with three kinds of it. The Transformer is this lesson's, trained longer; it alone had two threads.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
recurrent = stored("ladder")
rungs = [*recurrent.result, *closing.result]
origin = f"{recurrent.label} The Transformer: {closing.date}, {closing.machine}."
head = ("model", "exact match, %", "BLEU", "alignment error, %")


def scores(row, among):
    """The name of a row, and its three measures among all held-out or among the longer sentences."""
    return row["name"], *(ranged(among[name]) for name in ("exact", "bleu", "alignment_error"))


costs = [
    (f"{row['parameters']['median']:,.0f}", f"{row['steps']:,}", ranged(row["seconds"], 0))
    for row in rungs
]
Table(
    (*head, "parameters", "steps", "training, s"),
    [(*scores(row, row), *cost) for row, cost in zip(rungs, costs, strict=True)],
    origin,
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def low_and_high(values):
    return sorted(values)[len(values) // 2], min(values), max(values)


def splits(row):
    longer = row["longer"]["exact"]
    quarters = [low_and_high(row["quarters"][place]["exact_of_seeds"]) for place in (0, -1)]
    return [*quarters, (longer["median"], longer["least"], longer["most"])]


show(
    pictures.ladder_splits(
        [(row["name"], splits(row)) for row in rungs],
        ["shortest quarter", "longest quarter", "longer than in training"],
        "attention carries long sentences; of the models that have it, the Transformer has fewest of the longer ones exactly right",
    ),
    alt="Exact match of every model on the shortest and longest quarter and on sentences longer than in training.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Longer than in training

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
attending = {row["name"]: row["longer"] for row in recurrent.result if row["alignment_error"]}
Table(head, [scores(row, row["longer"]) for row in rungs], origin)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Attention makes the difference, with recurrence or without. Past the lengths of training the Transformer has fewer sentences exactly right than any other model with attention,
# and its alignment is the worst of them; by BLEU, which counts parts, additive attention is lower. Why does it go wrong?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A sentence that begins elsewhere
#
# Take short sentences, which it translates without fault, and let them begin at a later place: only the sinusoids that are added change.

# %% slideshow={"slide_type": "-"}
short = [pair for pair in pairs.test if len(pair.english) <= 9][:200]
moved = {
    start: training.accuracy_from_place(trained, short, start) for start in (0, 3, 6, 9, 12, 15, 18)
}
known, own = (  # the last place read: of <eos> behind the source, of the last word behind <bos>
    [max(len(getattr(pair, side)) for pair in some) for side in ("english", "french")]
    for some in (pairs.train, short)
)
farthest = min(place - length for place, length in zip(known, own, strict=True))
print("first place:   ", *(f"{start:5d}" for start in moved))
print("words right, %:", *(f"{100 * share:5.1f}" for share in moved.values()))
print(f"places known from training: to {known[0]} in the source, to {known[1]} in the target")
print(f"so all places of these sentences are known if they begin at {farthest} or before")

# %% [markdown] slideshow={"slide_type": "fragment"}
# These places are known from training, but no sentence ever began at one of them, and `<bos>` was read at place 0 only. The model has tied words to absolute places. That is
# one reason why longer sentences fail; this does not show that it is the only one.

# %% tags=["checks"]
others, last_rung = attending.values(), full["longer"]
assert last_rung["exact"]["most"] < min(one["exact"]["least"] for one in others)
assert last_rung["alignment_error"]["least"] > max(one["alignment_error"]["most"] for one in others)
assert last_rung["bleu"]["least"] > attending["additive attention"]["bleu"]["most"]
assert moved[0] > 0.99 and farthest >= 9 and moved[9] < moved[0] - 0.03

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - The encoder hands its output vectors to the decoder, which makes keys and values of them; the queries are the decoder's.
# - The decoder layer has three branches: masked self-attention, cross-attention, feed-forward.
# - What is read is one place behind what is said, `<bos>` first. All places train at once, and nothing leaks.
# - Writing stays sequential: each word needs the one before. The cache keeps what does not change.
# - A beam keeps several beginnings. It finds likelier sentences, which are not always better ones.
# - A pre-norm stack ends with a norm. Whether warm-up, dropout, smoothing or tying pay is to be measured: here no single one decided.
# - Where a head looks is a weight; what a look is for shows when it is hidden.
# - A model with sinusoids can lean on absolute places: moved sentences and longer ones lead it astray.
#
# **What is left open.** This model learned from pairs made for it, each with its answer. Most text comes without any answers beside it. Lesson 07 learns from such text first,
# and from few answers then.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which parts of this machine a model needs that only reads, and which one needs that only writes. Lesson 07 takes it apart.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - A. Vaswani et al., [*Attention is all you need*](../docs/references.md#vaswani2017), 2017: the whole model, its schedule, its label smoothing.
# - O. Press, L. Wolf, [*Using the output embedding to improve language models*](../docs/references.md#press2017), 2017: tying.
# - C. Szegedy et al., [*Rethinking the Inception architecture for computer vision*](../docs/references.md#szegedy2016), 2016: label smoothing.
# - N. Srivastava et al., [*Dropout: a simple way to prevent neural networks from overfitting*](../docs/references.md#srivastava2014), 2014.
# - R. Xiong et al., [*On layer normalization in the Transformer architecture*](../docs/references.md#xiong2020), 2020: warm-up and norm order.
# - L. Liu et al., [*On the variance of the adaptive learning rate and beyond*](../docs/references.md#liu2020), 2020: why Adam's first steps are unsteady.
# - I. Loshchilov, F. Hutter, [*Decoupled weight decay regularization*](../docs/references.md#loshchilov2019), 2019: AdamW.
# - R. Pascanu, T. Mikolov, Y. Bengio, [*On the difficulty of training recurrent neural networks*](../docs/references.md#pascanu2013), 2013: clipping.
# - R. Williams, D. Zipser, [*A learning algorithm for continually running fully recurrent neural networks*](../docs/references.md#williams1989), 1989: teacher forcing.
# - Y. Wu et al., [*Google's neural machine translation system*](../docs/references.md#wu2016), 2016: beam search with a power of the length.
# - P. Koehn, R. Knowles, [*Six challenges for neural machine translation*](../docs/references.md#koehn2017), 2017: wider beams are not better ones.
# - K. Papineni et al., [*BLEU: a method for automatic evaluation of machine translation*](../docs/references.md#papineni2002), 2002.
# - F. J. Och, H. Ney, [*A systematic comparison of various statistical alignment models*](../docs/references.md#och2003), 2003: the alignment error rate.
