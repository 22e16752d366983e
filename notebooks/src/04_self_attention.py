# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 04 · Self-attention
#
# **Attention still hangs on a recurrent net: can it stand alone?**
#
# Lesson 03 repaired the bridge with attention, and kept the recurrent net on both sides. Lesson 02 had no recurrent net at all, but
# only one state that looked around. This lesson gives every word such a state. Then three things go wrong: it knows no order, it only
# averages, and it sees the future. Each gets its repair.

# %% [markdown] slideshow={"slide_type": "notes"}
# Who skipped lesson 03 needs one sentence of it: a net that reads word by word forgets far words and cannot run in parallel. Plan:
# 30 minutes for the layer and its scale, 35 for order (exercises 4.4 and 4.5 at home), 10 for the feed-forward layer, 20 for masks, 25
# for the language model and the comparison.

# %% [markdown]
# **After this lesson you can**
#
# - write self-attention as loops, as matrices and for a batch, and say what each shape is;
# - say why scores are divided by the root of $d_k$, and show what happens without it;
# - show that self-attention alone knows no order, and repair it in three ways;
# - say what the feed-forward layer adds;
# - write causal and padding masks, and prove that nothing leaks from the future;
# - compare the layer with recurrence, convolution and a dense layer, by formula and by measurement.
#
# **You need** lesson 01 (`attention`, masks) and lesson 02 (hops). Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import textwrap

import torch
import torch.nn.functional as F
from torch import nn

from utils.build.results import Table, stored
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attention
from utils.models.positions import LearnedPositions, periods
from utils.plots import lesson04 as pictures
from utils.plots import show
from utils.training import language_model, layer_costs
from utils.training import self_attention as trials
from utils.widgets import explore, mask_board, menu

torch.manual_seed(4)
torch.set_num_threads(1)
lesson("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · A controller for every token
#
# In lesson 02 one state asked, and the sentences of a story answered. Now the tokens of one sentence do both: each asks all of them,
# itself included.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.controllers(["the", "cat", "sees", "the", "dog"]),
    alt="Left: one controller looks at five sentences. Right: each of five tokens looks at all five tokens, 25 scores.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three roles, three maps
#
# A token asks, is asked, and is fetched. For each role its vector is mapped by a matrix of its own. With the tokens of a sentence as the
# rows of $X$, $(n, d)$:
#
# $$Q = X W_Q, \qquad K = X W_K, \qquad V = X W_V, \qquad O = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# $d_k$ is the number of columns of $W_Q$ and $W_K$. First by loops, one pair of tokens at a time.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.1 · self-attention by loops · medium · 10 min
def self_attention_loop(X, W_Q, W_K, W_V):
    """One sentence X (n, d), W_Q and W_K (d, d_k), W_V (d, e) to output (n, e) and weights (n, n)."""
    ### BEGIN SOLUTION
    queries, keys, values = X @ W_Q, X @ W_K, X @ W_V
    output, weights = [], []
    for query in queries:  # each token asks ...
        scores = torch.stack([query @ key for key in keys])  # ... every token
        weights.append(torch.softmax(scores / len(query) ** 0.5, 0))
        output.append(sum(w * value for w, value in zip(weights[-1], values, strict=True)))
    return torch.stack(output), torch.stack(weights)
    ### END SOLUTION


self_attention_loop = exercise("4.1").use(self_attention_loop)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 4.2 · self-attention by matrices · easy · 5 min
def self_attention(X, W_Q, W_K, W_V, mask=None):
    """X (..., n, d), with or without a batch axis in front, to output (..., n, e), weights (..., n, n).

    mask (..., n, n) bool, True = may look.
    """
    ### BEGIN SOLUTION
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)
    ### END SOLUTION


self_attention = exercise("4.2").use(self_attention)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
n, d, d_k = 5, 6, 4
X = torch.randn(n, d)
W_Q, W_K, W_V = torch.randn(3, d, d_k)
by_loops, _ = self_attention_loop(X, W_Q, W_K, W_V)
by_matrices, weights = self_attention(X, W_Q, W_K, W_V)
in_a_batch, _ = self_attention(X.expand(3, n, d), W_Q, W_K, W_V)
print("loops and matrices agree:", torch.allclose(by_loops, by_matrices, atol=1e-6))
print("alone and in a batch:    ", torch.allclose(by_matrices, in_a_batch[1], atol=1e-6))
named = {"X": X, "W_Q": W_Q, "weights": weights, "output": by_matrices}
print("shapes:", *(f"{name} {tuple(one.shape)}" for name, one in named.items()), sep="  ")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### X W or W X?
#
# Many texts have a token as a *column*, and write $W x$. Here tokens are rows, and the matrix stands at the right: $x W$. The two are the
# same numbers, transposed. `nn.Linear` stores its matrix as the column texts do, $(\text{out}, \text{in})$, and multiplies as we do.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
linear = nn.Linear(d, d_k, bias=False)
print("nn.Linear(6, 4) stores", tuple(linear.weight.shape))
print("rows, X W:   ", torch.allclose(linear(X), X @ linear.weight.T))
print("columns, W X:", torch.allclose(linear(X).T, linear.weight @ X.T, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Context decides
#
# The same word in two sentences goes in as one vector, and comes out as two. To see why, here are vectors set by hand: how much a word has to do
# with water, with money, and with neither. All three maps are left out (the identity).

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
meaning = {"river": [3.0, 0, 0], "rob": [0, 3.0, 0], "bank": [1.0, 1, 0]}
sentences = [["they", "watch", "the", "river", "bank"], ["they", "rob", "the", "city", "bank"]]
identity = torch.eye(3)
before, after = [], []
for words in sentences:
    x = torch.tensor([meaning.get(word, [0, 0, 1.0]) for word in words])
    output, weights = self_attention(x, identity, identity, identity)
    before.append(x[-1])
    after.append(output[-1])
    print("bank looks at", *(f"{word} {w:.2f}" for word, w in zip(words, weights[-1], strict=True)))
    print("and becomes  ", [round(v, 1) for v in output[-1].tolist()])
same_before, same_after = (F.cosine_similarity(*pair, dim=0).item() for pair in (before, after))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.two_contexts(
        *sentences, "bank", same_before, same_after, "one vector goes in, two come out"
    ),
    alt="The word bank in two sentences: the same vector before self-attention, two different ones after it.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *bank* found *river* in one sentence and *rob* in the other. In a trained model nobody sets the vectors by hand: lesson 08 looks for this in a
# real one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Why divide by a root?
#
# A score is a sum of $d_k$ products. If the components of queries and keys are independent, with mean 0 and variance 1, so is each product,
# and the variances add up: the scores have variance $d_k$. Lesson 01 showed what large scores do to a softmax.

# %% slideshow={"slide_type": "subslide"}
quiz("4.a")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
statistics = trials.score_statistics()
show(
    pictures.scaling(statistics["dims"], statistics["raw"], statistics["scaled"]),
    alt="Variance of the scores, entropy of the weights and slope of the softmax against d_k, with and without the root.",
)
stuck = statistics["raw"]["stuck"][-1]
print(f"rows with a slope below 0.01 at d_k = 1024, without the root: {100 * stuck:.0f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the root the variance grows with $d_k$ and the weights fall on one key. The slope of the softmax, through which every gradient for $W_Q$
# and $W_K$ must pass, is at first even larger (a choice between two keys is steep), and then dies. With the root nothing depends on $d_k$.
#
# The root is that of the width of *queries and keys*. It is often misquoted as the root of the model's width.


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def dk_figure(d_k, seed):
    generator = torch.Generator().manual_seed(seed)
    query, keys = torch.randn(d_k, generator=generator), torch.randn(24, d_k, generator=generator)
    raw = keys @ query
    scaled = raw / d_k**0.5
    return pictures.dk_picture(raw, scaled, raw.softmax(0), scaled.softmax(0), d_k)


explore(
    dk_figure,
    alt="Weights of one query over 24 random keys, with and without the root of d_k.",
    d_k=[256, 4, 16, 64, 1024],
    seed=(0, 20, 1, 0),
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · First repair: order
#
# Shuffle the words of a sentence. What happens to what comes out?

# %% slideshow={"slide_type": "subslide"}
quiz("4.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A set, not a sentence
#
# For any shuffle of the rows, written as a matrix $\Pi$, the scores become $\Pi S \Pi^\top$, and
#
# $$\operatorname{softmax}(\Pi S \Pi^\top)\; \Pi V = \Pi\, \operatorname{softmax}(S)\, V$$
#
# because a softmax does not care in which order its row stands. This is *permutation equivariance*.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
order = torch.randperm(n)
shuffled, _ = self_attention(X[order], W_Q, W_K, W_V)
print("outputs shuffled alike:", torch.allclose(shuffled, by_matrices[order], atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A task that a set cannot do
#
# Among other letters stand one A and one B; does A come first? Trained with three seeds, tested on new sequences, each together with its
# twin in which A and B are exchanged. Who does not see the order is right exactly half the time.

# %% slideshow={"slide_type": "-"}
names = {
    "none": "no positions",
    "causal": "no positions, causal mask",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "rotary": "rotary",
}
by_kind = {kind: trials.train_order(kind, seeds=3) for kind in names}

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
rows = [(names[kind], 100 * result["accuracy"]) for kind, result in by_kind.items()]
show(
    pictures.order_bars(rows, 50, "without positions the order is not there"),
    alt="Accuracy of three seeds on the order task: exactly 50 % without positions, near 100 % with each kind and with a "
    "causal mask alone.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The causal mask of section 5 alone gives order away: B can find A only if A stands before it
# ([Haviv et al., 2022](../docs/references.md#haviv2022), saw it in language models).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### First way: sinusoids
#
# Give each position $p$ a vector of waves, and add it to the token's vector. Components come in pairs, one pair per frequency
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017)):
#
# $$P_{p, 2i} = \sin(p\, \omega_i), \qquad P_{p, 2i+1} = \cos(p\, \omega_i), \qquad \omega_i = 10000^{-2i/d}$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.3 · sinusoidal positions · medium · 12 min
def sinusoidal_positions(length, dim):
    """(length, dim): row p is position p = 0, 1, ...

    Its components 2 i and 2 i + 1 are the sine and the cosine of p · 10,000 ** (-2 i / dim).
    """
    ### BEGIN SOLUTION
    frequencies = 10_000.0 ** (-torch.arange(0, dim, 2) / dim)
    angles = torch.arange(length).unsqueeze(1) * frequencies  # (length, dim / 2)
    table = torch.zeros(length, dim)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table
    ### END SOLUTION


sinusoidal_positions = exercise("4.3").use(sinusoidal_positions)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def pattern(length, dim):
    return pictures.position_pattern(
        sinusoidal_positions(length, dim), "fast waves at the left, slow ones at the right"
    )


explore(
    pattern,
    alt="Sinusoidal positions as a heat map, a row for each position and a column for each component.",
    length=(8, 128, 8, 64),
    dim=menu([16, 32, 64], start=64),
)

# %% slideshow={"slide_type": "subslide"}
quiz("4.c")

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
for width in (32, 512, 4096):
    print(
        f"width {width:4d}: periods from {periods(width).min():.1f} to {periods(width).max():,.0f}"
    )
print(f"the limit, 2 pi times 10,000:   {2 * torch.pi * 10_000:,.0f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A shift is a rotation
#
# Why waves? Because $\sin(a + b)$ and $\cos(a + b)$ are linear in $\sin a$ and $\cos a$. To move by $k$ positions is one matrix, the same from
# everywhere: $P_{p+k} = P_p R$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.4 · a shift is a rotation · hard · 15 min
def shift_rotation(k, dim):
    """The one matrix R (dim, dim) with positions[i + k] == positions[i] @ R, whatever i.

    k may be negative.
    """
    ### BEGIN SOLUTION
    R = torch.zeros(dim, dim)
    for i in range(0, dim, 2):
        angle = torch.tensor(k * 10_000.0 ** (-i / dim))
        c, s = angle.cos(), angle.sin()
        R[i : i + 2, i : i + 2] = torch.tensor([[c, -s], [s, c]])
    return R
    ### END SOLUTION


shift_rotation = exercise("4.4").use(shift_rotation)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
P = sinusoidal_positions(60, 32).float()
R = shift_rotation(7, 32).float()
print("one matrix moves every position by 7:", torch.allclose(P[:53] @ R, P[7:], atol=1e-4))
print("it only turns: R Rᵀ is the identity:  ", torch.allclose(R @ R.T, torch.eye(32), atol=1e-5))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.offset_products(
        P @ P.T, "the dot product of two positions depends on their offset alone"
    ),
    alt="Dot products of position vectors against their offset: all rows lie on one even curve that is not monotonic.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The curve is even, so it does not tell left from right, and it is not monotonic. What a trained layer makes of the positions is up to its
# $W_Q$ and $W_K$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Second way: learned positions
#
# Or learn a vector for each position, like that of a word. Past the last one there is none.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
try:
    LearnedPositions(16, 8)(24)
except ValueError as problem:
    print(textwrap.fill(str(problem), 90))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Third way: rotary positions
#
# Or leave the tokens alone and put the offset into the scores, an idea of [Shaw et al. (2018)](../docs/references.md#shaw2018). Rotary
# positions ([Su et al., 2021](../docs/references.md#su2021)) turn query $i$ and key $j$, each pair of components by an angle that grows with
# the position. Only the difference of the two turns is left:
#
# $$(q R_i)\,(k R_j)^\top = q\, R_{i-j}\, k^\top$$
#
# Values are not turned. (The pairs of 4.4 were (sine, cosine), which turn against the usual sense: there the minus stands elsewhere.)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.5 · rotary positions · hard · 15 min
def rotate(x, positions):
    """x (..., n, d), positions (n,): turn each pair of neighbours (a, b), components 2 i and 2 i + 1,
    to (a cos - b sin, a sin + b cos); the angle is the position times 10,000 ** (-2 i / d).
    """
    ### BEGIN SOLUTION
    dim = x.size(-1)
    angles = positions.unsqueeze(-1) * 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # (n, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    turned = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(turned, -1).flatten(-2)
    ### END SOLUTION


rotate = exercise("4.5").use(rotate)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
query, key = torch.randn(2, 1, 8)
for i, j in ((3, 5), (103, 105), (5, 3)):
    score = rotate(query, torch.tensor([i])) @ rotate(key, torch.tensor([j])).T
    print(f"query at {i:3d}, key at {j:3d}: score {score.item():.3f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What goes on past the training length?
#
# Trained on up to 16 tokens, tested on more.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
lengths = by_kind["rotary"]["lengths"]
curves = {
    names[kind]: 100 * by_kind[kind]["by_length"]
    for kind in ("sinusoidal", "learned", "rotary", "causal")
}
show(
    pictures.extrapolation(
        lengths, curves, 16, "past the training length every kind loses", chance=50
    ),
    alt="Accuracy on the order task against length for models trained up to length 16.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
shifts = by_kind["rotary"]["shifts"]
Table(
    ("accuracy, the same 16 tokens from position", *map(str, shifts)),
    [
        (
            names[kind],
            *(
                "refuses" if row.isnan().any() else f"{100 * row.median():.0f} %"
                for row in by_kind[kind]["by_shift"]
            ),
        )
        for kind in ("sinusoidal", "learned", "rotary")
    ],
    "Computed here, median of three seeds. Training used positions 0 to 15.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Sinusoids exist at every position, but a model trained on the first sixteen has never met the others, and what it answers there can be
# anything, even the opposite. Rotary scores do not change under a shift; with more tokens than in training they too go wrong. The causal mask
# keeps most here, in this task and with this little training: no law.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Add or put beside?
#
# With the position $p$ put beside the token's vector $t$, a map has rows of its own for both; added, both share one:
#
# $$[t\,;\,p]\, W = t A + p B \qquad\text{against}\qquad (t + p)\, W = t W + p W$$
#
# Beside can say more, and costs width.

# %% slideshow={"slide_type": "-"}
for row in trials.add_or_concatenate(seeds=3):
    worst = 100 * row["accuracy"].min()
    print(f"{row['name']:24s} {row['parameters']:6,d} parameters, accuracy at worst {worst:.1f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Here all of them solve the task: 32 added to 32, 16 beside 16, and 32 beside 32 components.

# %% tags=["checks"]
assert (by_kind["none"]["accuracy"] - 0.5).abs().max() < 0.01
assert min(by_kind[kind]["accuracy"].min() for kind in ("sinusoidal", "learned", "rotary")) >= 0.99

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Second repair: a non-linearity
#
# Queries, keys, values and output are matrix products. Is attention then linear?

# %% slideshow={"slide_type": "subslide"}
quiz("4.d")

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
found = trials.linearity()
says = {
    "values": "in the values, weights fixed",
    "inputs": "in the input, from which the weights are made too",
    "feed-forward": "in the values, with a feed-forward layer behind",
}
for name, words in says.items():
    print(f"{words:50s}", "linear" if found[name] < 1e-9 else "not linear")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The *feed-forward layer* comes after attention: the same small network for every token, one at a time. Attention moves information
# between tokens, this layer works on what arrived.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.6 · the feed-forward layer · easy · 6 min
class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.widen = nn.Linear(dim, hidden)
        self.narrow = nn.Linear(hidden, dim)

    def forward(self, x):
        """x (..., dim) to (..., dim), each token alone, with a ReLU between the two layers."""
        ### BEGIN SOLUTION
        return self.narrow(torch.relu(self.widen(x)))
        ### END SOLUTION


FeedForward = exercise("4.6").use(FeedForward)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A task that averaging cannot do
#
# Two bits are marked; do they differ? A token that looks at both finds a point on the line between "two zeros" and "two ones". "One of each"
# lies between the ends, and a linear answer can cut the line only once: it gets three of the four pairs right at best.

# %% slideshow={"slide_type": "-"}
for feed_forward in (False, True):
    accuracy = 100 * trials.train_marks(feed_forward, seeds=3)["accuracy"]
    print(
        f"{'with' if feed_forward else 'without'} feed-forward layer:",
        " ".join(f"{one:.0f} %" for one in accuracy),
    )

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Third repair: the future
#
# A model that is to say the next word must not see it. The *causal mask* lets each token look at itself and at what came before.

# %% slideshow={"slide_type": "subslide"}
quiz("4.e")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 4.7 · the causal mask · easy · 4 min
def causal_mask(length):
    """(length, length) bool; row i is True at the positions that token i may look at."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


causal_mask = exercise("4.7").use(causal_mask)


# %% [markdown] slideshow={"slide_type": "subslide"}
# Sentences of a batch are filled up to one length. Nobody may look at the filling, the *padding*. The axis in the middle, of size 1, stands
# for all who look.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.8 · the padding mask · easy · 5 min
def padding_mask(lengths, length):
    """lengths (b,) to (b, 1, length) bool, True at the words, which stand in front of the padding."""
    ### BEGIN SOLUTION
    words = torch.arange(length) < lengths.unsqueeze(1)  # (b, length)
    return words.unsqueeze(1)
    ### END SOLUTION


padding_mask = exercise("4.8").use(padding_mask)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer
#
# Now the matrices become parameters. `inner` is $d_k$, and here the width of the values too.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.9 · a layer of self-attention · medium · 12 min
class SelfAttention(nn.Module):
    def __init__(self, dim, inner):
        """Three linear layers without bias, dim to inner: `self.query`, `self.key`, `self.value`."""
        ### BEGIN SOLUTION
        super().__init__()
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)
        ### END SOLUTION

    def forward(self, x, mask=None):
        """x (b, n, dim), mask (..., n, n) bool to output (b, n, inner) and weights (b, n, n)."""
        ### BEGIN SOLUTION
        return attention(self.query(x), self.key(x), self.value(x), mask)
        ### END SOLUTION


SelfAttention = exercise("4.9").use(SelfAttention)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does anything leak?
#
# A gradient of exactly zero is the proof: what a token does not depend on cannot leak into it.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
layer = SelfAttention(6, 4)
x = torch.randn(1, 5, 6, requires_grad=True)
output, weights = layer(x, causal_mask(5))
(gradient,) = torch.autograd.grad(output[0, 2].sum(), x)  # what does the third output depend on?
influence = ["none" if one == 0 else "some" for one in gradient[0].norm(dim=-1)]
print("influence of each token on the third output:", *influence)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
batch = torch.randn(2, 5, 6)
both = causal_mask(5) & padding_mask(torch.tensor([3, 5]), 5)  # (2, 5, 5)
filled = batch.clone()
filled[0, 3:] = 100.0  # other padding behind the three words of the first sentence
same = torch.equal(layer(batch, both)[0][0, :3], layer(filled, both)[0][0, :3])
print("other padding, the same words:", same)

empty, _ = layer(batch, padding_mask(torch.tensor([0, 5]), 5))
print("who may look nowhere gets zeros:", bool((empty[0] == 0).all()))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Before or after the scaling?
#
# Minus infinity divided by anything positive stays minus infinity, so it makes no difference. Our `attention` scales first and masks then.
# A large finite number instead would be scaled too, and the two would differ.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
scores = layer.query(x) @ layer.key(x).transpose(1, 2)
hidden, root = ~causal_mask(5), 4**0.5  # the layer's queries have 4 components
for much in (float("-inf"), -10.0):
    before = (scores.masked_fill(hidden, much) / root).softmax(-1)
    after = (scores / root).masked_fill(hidden, much).softmax(-1)
    print(f"masked with {much}: the same weights? {torch.allclose(before, after, atol=1e-4)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Draw a mask
#
# A mask is a graph: who may look at whom. Click cells, paint, or choose a preset. Beside it stands whose output changes when *cat* becomes another
# word, after two layers: what a token cannot reach, directly or through another, cannot change it. Numbers are weights of the second layer.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
tokens = ["the", "cat", "sees", "the", "bird", "fly"]
vectors = torch.randn(1, 6, 8)
other = vectors.clone()
other[0, 1] = torch.randn(8)  # another word at the place of "cat"
layers = nn.ModuleList([SelfAttention(8, 8), SelfAttention(8, 8)]).requires_grad_(False)
for one in layers.parameters():
    one.mul_(3)  # untrained layers look everywhere alike; larger maps make choices that one can see


def respond(mask, vectors=vectors, other=other, layers=layers):
    def read(x):
        for layer in layers:
            x, weights = layer(x, mask)
        return x, weights

    with torch.no_grad():
        (first, weights), (second, _) = read(vectors), read(other)
    return {"changed": (first - second)[0].norm(dim=-1), "weights": weights[0]}


changed = "when “cat” becomes another word"
mask_board(tokens, respond, start="causal", title="who may look at whom", compared=changed)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · All positions at once
#
# A language model guesses the next token. With a causal mask every position is a guess of its own, and one pass trains all of them.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.10 · the loss of every next word · medium · 10 min
def next_word_loss(logits, tokens, mask):
    """Mean cross-entropy: logits (b, n, words) at position t are about token t + 1 of tokens (b, n).

    mask (b, n) is True at tokens and False at padding, which nobody is asked for.
    """
    ### BEGIN SOLUTION
    guesses, targets = logits[:, :-1].transpose(1, 2), tokens[:, 1:]
    losses = F.cross_entropy(guesses, targets, reduction="none")  # (b, n - 1)
    return losses[mask[:, 1:]].mean()
    ### END SOLUTION


next_word_loss = exercise("4.10").use(next_word_loss)

# %% [markdown] slideshow={"slide_type": "subslide"}
# How much is that worth? The same guesses, one pass for each position, against all in one. By the count of tokens, 64 passes over prefixes of 32.5
# tokens on average are 32.5 times the work.

# %% slideshow={"slide_type": "-"}
factor = language_model.one_position_at_a_time_factor()
print(f"one position at a time takes about {factor['factor']:.0f} times as long")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A small language model
#
# The three repairs together make a block: look around, then think. What was found is added to what was there, as lesson 02 added $u + o$.


# %% slideshow={"slide_type": "-"}
class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.attention = SelfAttention(dim, dim)
        self.feed_forward = FeedForward(dim, 4 * dim)

    def forward(self, x, mask):
        x = x + self.attention(x, mask)[0]
        return x + self.feed_forward(x)


# %% slideshow={"slide_type": "subslide"}
class LanguageModel(nn.Module):
    """Tokens (b, n) to logits (b, n, tokens) of the next token at every position."""

    def __init__(self, tokens, dim, blocks):
        super().__init__()
        self.table = nn.Embedding(tokens, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(blocks))
        self.answer = nn.Linear(dim, tokens)

    def forward(self, tokens):
        x = self.table(tokens)
        n, dim = x.shape[1:]
        x = x + sinusoidal_positions(n, dim).to(x)
        for block in self.blocks:
            x = block(x, causal_mask(n))
        return self.answer(x)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Trained on the manual
#
# It learns characters of Python's own manual, which is on every machine: 64 characters of context, whole topics held out, one seed. The loss is in
# nats (natural logarithm); $e$ to the loss, the *perplexity*, says between how many equally likely characters it seems to choose.

# %% slideshow={"slide_type": "-"}
result = language_model.train_language_model()
print(f"{result['parameters']:,} parameters, {result['sizes'][0]:,} characters to learn from")
print(f"held-out loss {result['held_out']:.2f} nats, perplexity {result['perplexity']:.1f}\n")
sample = language_model.sample_text(result, "The for statement", 240, temperature=0.5, seed=2)
print(textwrap.fill(sample, 90))

# %% [markdown] slideshow={"slide_type": "subslide"}
# These parameters fit the model above, made of your own parts. Scored with your own loss it must say the same.

# %% slideshow={"slide_type": "-"}
text = language_model.read_text()
model = LanguageModel(len(text.characters), dim=96, blocks=2)
model.load_state_dict({name.removeprefix("vectors."): w for name, w in result["state"].items()})
with torch.no_grad():
    loss = next_word_loss(model(text.held_out), text.held_out, text.held_out >= 0).item()
print(f"held-out loss of your own parts: {loss:.2f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does it know?
#
# Counting gives the measure: how often does a character come at all, after the one before (bigrams), after the two before (trigrams)? And how
# does the model fare with so many characters of context?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
counts = {name: result["counts"][order] for name, order in (("trigrams", 3), ("bigrams", 2))}
show(
    pictures.loss_by_context(
        result["by_position"],
        counts | {"single characters": result["counts"][1]},
        "with some context it beats counts of three characters",
    ),
    alt="Held-out loss against the number of characters of context: it falls below the lines of bigram and trigram counts.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
kept_result = stored("language_model")
seeds = kept_result.result
kept_result.table(
    ("", "median", "smallest", "largest"),
    [
        (name, *(f"{seeds[key][one]:.{digits}f}" for one in ("median", "least", "most")))
        for name, key, digits in (
            (f"held-out loss, {seeds['seeds']} seeds, nats", "held_out", 2),
            ("all positions at once, times as fast", "factor", 0),
        )
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A model that fills in *hidden* words (lesson 07) needs no causal mask: what it must guess is not in its input, so it may look both ways.

# %% tags=["checks"]
assert abs(loss - result["held_out"]) < 1e-3
assert result["held_out"] < counts["trigrams"]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Against recurrence, convolution and a dense layer

# %% slideshow={"slide_type": "-"}
quiz("4.f")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
costs = layer_costs.layer_costs()
n, width = costs[0]["path_lengths"][-1], layer_costs.COUNTED_WIDTH
shortest, longest = layer_costs.LENGTHS[0], layer_costs.LENGTHS[-1]
Table(
    ("layer", "multiplications", f"counted at n = {n}, d = {width}", "time grows as"),
    [
        (
            row["kind"],
            row["formula"]["cost"],
            f"{row['multiplications'][-1]:,}",
            f"n^{row['slope']:.1f}",
        )
        for row in costs
    ],
    f"Computed here, kernel k = {layer_costs.KERNEL}. Time from {shortest:,} to {longest:,} tokens of width 64 (dense: shorter). A fixed "
    "price per call lowers the exponent; a table of scores that outgrows the cache raises it.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
timed = {row["kind"]: row["seconds"] for row in costs if row["kind"] != "dense"}
show(
    pictures.times(costs[0]["lengths"], timed, "self-attention grows fastest with the length"),
    alt="Time of a layer against the length of the sentence on logarithmic scales, with slopes.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
Table(
    ("layer", "steps in a row", "measured", "longest path", "measured"),
    [
        (
            row["kind"],
            row["formula"]["sequential"],
            row["sequential"][-1],
            row["formula"]["path"],
            row["path"][-1],
        )
        for row in costs
    ],
    f"Computed here at n = {n}. Steps: matrix products that wait for each other; three for self-attention (maps, scores, mixture), whatever "
    "n is. Path: layers or steps between the two ends of the sentence, found by gradient.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Self-attention connects any two tokens in one step, at a cost that grows with the square of the length. Where sentences are shorter than the
# width, $n < d$, its $2 n^2 d$ is less than the $2 n d^2$ of recurrence; the three maps come on top.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fast weights
#
# A convolution or a dense layer mixes tokens with weights that are fixed after training. Those of attention are computed on the fly, from the
# data. Such weights are called *fast* ([Hinton and Plaut, 1987](../docs/references.md#hinton1987);
# [Schmidhuber, 1992](../docs/references.md#schmidhuber1992)), those that training changes *slow*.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
for sentence in ("one", "another"):
    with torch.no_grad():
        _, weights = layer(torch.randn(1, 5, 6))
    print(
        f"the last token mixes {sentence} sentence by",
        [round(w, 2) for w in weights[0, -1].tolist()],
    )

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - Every token asks, is asked and is fetched: $Q = X W_Q$, $K = X W_K$, $V = X W_V$.
# - Scores are divided by $\sqrt{d_k}$, the width of queries and keys, or the softmax saturates as $d_k$ grows.
# - Self-attention sees a set. Positions are added (sinusoids, learned) or turn queries and keys (rotary).
# - It is linear in its values, for fixed weights, and a feed-forward layer after it is what works on the result.
# - A mask sets scores to minus infinity; a causal mask hides the future, and then all positions train at once.
# - One step between any two tokens, at quadratic cost.
#
# **What is left open.** One softmax gives one mixture. What if a token must look at two places and keep apart what it found there? And why do
# stacks of such layers train at all? Lesson 05 builds the block that everybody uses.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask who would stack twelve of these layers as they are. Lesson 05 will show what happens.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - G. Hinton, D. Plaut, [*Using fast weights to deblur old memories*](../docs/references.md#hinton1987), 1987.
# - J. Schmidhuber, [*Learning to control fast-weight memories*](../docs/references.md#schmidhuber1992), 1992.
# - A. Vaswani et al., [*Attention is all you need*](../docs/references.md#vaswani2017), 2017: the layer, the root, the sinusoids, the table of
#   section 7.
# - P. Shaw, J. Uszkoreit, A. Vaswani, [*Self-attention with relative position representations*](../docs/references.md#shaw2018), 2018.
# - J. Su et al., [*RoFormer: enhanced Transformer with rotary position embedding*](../docs/references.md#su2021), 2021.
# - A. Haviv et al.,
#   [*Transformer language models without positional encodings still learn positional information*](../docs/references.md#haviv2022), 2022.
