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
# - say why scores are divided by the square root of $d_k$, and show what happens without it;
# - show that self-attention alone knows no order, and repair it in three ways;
# - say what the feed-forward layer adds;
# - write causal and padding masks, and prove that nothing leaks from the future;
# - compare the layer with recurrence, convolution and a dense layer, by formula and by measurement.
#
# **You need** lesson 01 (`attention`, masks) and lesson 02 (hops). Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import textwrap
from statistics import median

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
from utils.training import self_attention as experiments
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
    alt="Left: one controller attends to five sentences. Right: each of five tokens attends to all five tokens, 25 scores.",
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
    for query in queries:
        scores = torch.stack([query @ key for key in keys])  # one score per key
        weights.append(torch.softmax(scores / len(query) ** 0.5, 0))
        output.append(sum(w * value for w, value in zip(weights[-1], values, strict=True)))
    return torch.stack(output), torch.stack(weights)
    ### END SOLUTION


self_attention_loop = exercise("4.1").use(self_attention_loop)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 4.2 · self-attention by matrices · easy · 5 min
def self_attention(X, W_Q, W_K, W_V, mask=None):
    """X (..., n, d), with or without a batch axis in front, to output (..., n, e), weights (..., n, n).

    mask (..., n, n) bool, True = may attend.
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
tensors = {"X": X, "W_Q": W_Q, "weights": weights, "output": by_matrices}
print("shapes:", *(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items()), sep="  ")

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
embeddings = {"river": [3.0, 0, 0], "rob": [0, 3.0, 0], "bank": [1.0, 1, 0]}
sentences = [["they", "watch", "the", "river", "bank"], ["they", "rob", "the", "city", "bank"]]
identity = torch.eye(3)
before, after = [], []
for words in sentences:
    x = torch.tensor([embeddings.get(word, [0, 0, 1.0]) for word in words])
    output, weights = self_attention(x, identity, identity, identity)
    before.append(x[-1])
    after.append(output[-1])
    print(
        "bank attends to", *(f"{word} {w:.2f}" for word, w in zip(words, weights[-1], strict=True))
    )
    print("and becomes    ", [round(v, 1) for v in output[-1].tolist()])
similarities = [F.cosine_similarity(*pair, dim=0).item() for pair in (before, after)]

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.two_contexts(*sentences, "bank", *similarities, "one vector goes in, two come out"),
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
statistics = experiments.score_statistics()
show(
    pictures.scaling(statistics["dims"], statistics["raw"], statistics["scaled"]),
    alt="Variance of the scores, entropy of the weights and norm of the softmax's Jacobian against d_k, with and without "
    "scaling.",
)
saturated = statistics["raw"]["saturated"][-1]
print(f"saturated rows (Jacobian norm below 0.01) at d_k = 1024, unscaled: {100 * saturated:.0f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the root the variance grows with $d_k$ and the weights fall on one key. The derivative of the softmax, through which every gradient for $W_Q$
# and $W_K$ must pass, is at first even larger (a choice between two keys is steep), and then dies. With the root nothing depends on $d_k$.
#
# It is the square root of the width of *queries and keys*, often misquoted as that of the model's width.


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def dk_figure(d_k, seed):
    generator = torch.Generator().manual_seed(seed)
    query, keys = torch.randn(d_k, generator=generator), torch.randn(24, d_k, generator=generator)
    raw = keys @ query
    scaled = raw / d_k**0.5
    return pictures.dk_picture(raw, scaled, raw.softmax(0), scaled.softmax(0), d_k)


explore(
    dk_figure,
    alt="Attention weights of one query over 24 random keys, with and without the division by the square root of d_k.",
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
by_kind = {positions: experiments.train_order(positions, seeds=3) for positions in names}

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
    positions = torch.zeros(length, dim)
    positions[:, 0::2], positions[:, 1::2] = angles.sin(), angles.cos()
    return positions
    ### END SOLUTION


sinusoidal_positions = exercise("4.3").use(sinusoidal_positions)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def position_figure(length, dim):
    return pictures.position_pattern(
        sinusoidal_positions(length, dim), "fast waves at the left, slow ones at the right"
    )


explore(
    position_figure,
    alt="Sinusoidal positions as a heat map, a row for each position and a column for each component.",
    length=(8, 128, 8, 64),
    dim=menu([16, 32, 64], start=64),
)

# %% slideshow={"slide_type": "subslide"}
quiz("4.c")

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
for dim in (32, 512, 4096):
    print(f"dim {dim:4d}: periods from {periods(dim).min():.1f} to {periods(dim).max():,.0f}")
print(f"the limit, 2 pi times 10,000: {2 * torch.pi * 10_000:,.0f}")

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
print("a rotation: R Rᵀ is the identity:    ", torch.allclose(R @ R.T, torch.eye(32), atol=1e-5))

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
except ValueError as error:
    print(textwrap.fill(str(error), 90))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Third way: rotary positions
#
# Or leave the tokens alone and put the offset into the scores, an idea of [Shaw et al. (2018)](../docs/references.md#shaw2018). Rotary
# positions ([Su et al., 2021](../docs/references.md#su2021)) rotate query $i$ and key $j$, each pair of components by an angle that grows with
# the position. Only the difference of the two angles is left:
#
# $$(q R_i)\,(k R_j)^\top = q\, R_{i-j}\, k^\top$$
#
# Values are not rotated. (The pairs of 4.4 were (sine, cosine), which rotate the other way: there the minus stands elsewhere.)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.5 · rotary positions · hard · 15 min
def rotate(x, positions):
    """RoPE: x (..., n, d), positions (n,). Rotate each pair (a, b) of components 2 i and 2 i + 1
    to (a cos - b sin, a sin + b cos); the angle is the position times 10,000 ** (-2 i / d).
    """
    ### BEGIN SOLUTION
    dim = x.size(-1)
    angles = positions.unsqueeze(-1) * 10_000.0 ** (-torch.arange(0, dim, 2) / dim)  # (n, d / 2)
    a, b = x[..., 0::2], x[..., 1::2]
    rotated = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
    return torch.stack(rotated, -1).flatten(-2)
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
                "impossible" if row.isnan().any() else f"{100 * row.median():.0f} %"
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

# %% tags=["checks"]
assert (by_kind["none"]["accuracy"] - 0.5).abs().max() < 0.01
assert min(by_kind[kind]["accuracy"].min() for kind in ("sinusoidal", "learned", "rotary")) >= 0.99

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Second repair: a non-linearity
#
# Queries, keys, values and output are matrix products. Is attention then linear?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
errors = experiments.linearity_errors()
descriptions = {
    "values": "in the values, for fixed attention weights",
    "inputs": "in the input, on which the weights depend too",
    "feed-forward": "in the values, with a feed-forward layer behind",
}
for name, description in descriptions.items():
    print(f"{description:50s}", "linear" if errors[name] < 1e-9 else "not linear")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The *feed-forward layer* comes after attention: the same small network for every token, one at a time. Attention moves information
# between tokens, this layer works on what arrived.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.6 · the feed-forward layer · easy · 6 min
class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.linear1 = nn.Linear(dim, hidden_dim)
        self.linear2 = nn.Linear(hidden_dim, dim)

    def forward(self, x):
        """x (..., dim) to (..., dim), each token alone, with a ReLU between the two layers."""
        ### BEGIN SOLUTION
        return self.linear2(torch.relu(self.linear1(x)))
        ### END SOLUTION


FeedForward = exercise("4.6").use(FeedForward)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A task that averaging cannot do
#
# Two bits are marked; do they differ? A token that looks at both finds a point on the line between "two zeros" and "two ones". "One of each"
# lies between the ends, and a linear answer can cut the line only once: it gets three of the four pairs right at best.

# %% slideshow={"slide_type": "-"}
for feed_forward in (False, True):
    accuracies = 100 * experiments.train_xor(feed_forward, seeds=3)["accuracy"]
    print(
        f"{'with' if feed_forward else 'without'} feed-forward layer:",
        " ".join(f"{accuracy:.0f} %" for accuracy in accuracies),
    )

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Third repair: the future
#
# A model that is to say the next word must not see it. The *causal mask* lets each token look at itself and at what came before.

# %% slideshow={"slide_type": "subslide"}
quiz("4.d")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 4.7 · the causal mask · easy · 4 min
def causal_mask(length):
    """(length, length) bool; row i is True at the positions that token i may attend to."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


causal_mask = exercise("4.7").use(causal_mask)


# %% [markdown] slideshow={"slide_type": "subslide"}
# Sentences of a batch are filled up to one length with *padding*, to which no token may attend. The axis in the middle, of size 1, stands
# for all queries.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.8 · the padding mask · easy · 5 min
def padding_mask(lengths, max_len):
    """lengths (b,) to (b, 1, max_len) bool, True at the tokens, which come before the padding."""
    ### BEGIN SOLUTION
    attention_mask = torch.arange(max_len) < lengths.unsqueeze(1)  # (b, max_len)
    return attention_mask.unsqueeze(1)
    ### END SOLUTION


padding_mask = exercise("4.8").use(padding_mask)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer
#
# Now the matrices become parameters. `head_dim` is $d_k$, and here the width of the values too.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.9 · a layer of self-attention · medium · 12 min
class SelfAttention(nn.Module):
    def __init__(self, dim, head_dim):
        """Three linear layers without bias, dim to head_dim: `self.query`, `self.key`, `self.value`."""
        ### BEGIN SOLUTION
        super().__init__()
        self.query = nn.Linear(dim, head_dim, bias=False)
        self.key = nn.Linear(dim, head_dim, bias=False)
        self.value = nn.Linear(dim, head_dim, bias=False)
        ### END SOLUTION

    def forward(self, x, mask=None):
        """x (b, n, dim), mask (..., n, n) bool to output (b, n, head_dim) and weights (b, n, n)."""
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
influence = ["none" if norm == 0 else "some" for norm in gradient[0].norm(dim=-1)]
print("influence of each token on the third output:", *influence)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
batch = torch.randn(2, 5, 6)
mask = causal_mask(5) & padding_mask(torch.tensor([3, 5]), 5)  # (2, 5, 5)
changed = batch.clone()
changed[0, 3:] = 100.0  # different padding behind the three tokens of the first sentence
same = torch.equal(layer(batch, mask)[0][0, :3], layer(changed, mask)[0][0, :3])
print("different padding, same outputs:", same)

output, _ = layer(batch, padding_mask(torch.tensor([0, 5]), 5))
print("a fully masked row gives zeros: ", bool((output[0] == 0).all()))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Before or after the scaling?
#
# Minus infinity divided by anything positive stays minus infinity, so it makes no difference. Our `attention` scales first and masks then.
# A large finite number instead would be scaled too, and the two would differ.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
scores = layer.query(x) @ layer.key(x).transpose(1, 2)
masked, scale = ~causal_mask(5), 4**-0.5  # head_dim is 4
for value in (float("-inf"), -10.0):
    before = (scores.masked_fill(masked, value) * scale).softmax(-1)
    after = (scores * scale).masked_fill(masked, value).softmax(-1)
    print(f"masked with {value}: the same weights? {torch.allclose(before, after, atol=1e-4)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Draw a mask
#
# A mask is a graph: which token may attend to which. Click cells, paint, or choose a preset. Beside it stands whose output changes when *cat* becomes another
# word, after two layers: what a token cannot reach, directly or through another, cannot change it. Numbers are weights of the second layer.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
tokens = ["the", "cat", "sees", "the", "bird", "fly"]
x = torch.randn(1, 6, 8)
replaced = x.clone()
replaced[0, 1] = torch.randn(8)  # another word in place of "cat"
layers = nn.ModuleList([SelfAttention(8, 8), SelfAttention(8, 8)]).requires_grad_(False)
for parameter in layers.parameters():
    parameter.mul_(3)  # untrained attention is almost uniform; larger projections make it visible


def respond(mask, x=x, replaced=replaced, layers=layers):
    def encode(x):
        for layer in layers:
            x, weights = layer(x, mask)
        return x, weights

    with torch.no_grad():
        (output, weights), (output_replaced, _) = encode(x), encode(replaced)
    return {"changed": (output - output_replaced)[0].norm(dim=-1), "weights": weights[0]}


compared = "when “cat” becomes another word"
mask_board(
    tokens, respond, start="causal", title="which token may attend to which", compared=compared
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · All positions at once
#
# A language model guesses the next token. With a causal mask every position is a guess of its own, and one pass trains all of them.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.10 · the next-token loss · medium · 10 min
def next_token_loss(logits, token_ids, attention_mask):
    """Mean cross-entropy: logits (b, n, vocab) at position t predict token t + 1 of token_ids (b, n).

    attention_mask (b, n) is True at tokens and False at padding, which is no target.
    """
    ### BEGIN SOLUTION
    predictions, targets = logits[:, :-1].transpose(1, 2), token_ids[:, 1:]
    losses = F.cross_entropy(predictions, targets, reduction="none")  # (b, n - 1)
    return losses[attention_mask[:, 1:]].mean()
    ### END SOLUTION


next_token_loss = exercise("4.10").use(next_token_loss)

# %% [markdown] slideshow={"slide_type": "subslide"}
# How much is that worth? The same guesses, one pass for each position, against all in one. By the count of tokens, 64 passes over prefixes of 32.5
# tokens on average are 32.5 times the work.

# %% slideshow={"slide_type": "-"}
speedups = language_model.parallel_training_speedup()
print(f"all positions at once: speedup {median(speedups):.0f}x")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A small language model
#
# The three repairs together make an encoder layer: self-attention, then a feed-forward network. The output of each is added to its input,
# a *residual connection*, as lesson 02 added $u + o$.


# %% slideshow={"slide_type": "-"}
class EncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn = SelfAttention(dim, dim)
        self.feed_forward = FeedForward(dim, 4 * dim)

    def forward(self, x, mask):
        context, weights = self.self_attn(x, mask)
        x = x + context
        return x + self.feed_forward(x), weights


# %% slideshow={"slide_type": "subslide"}
class CausalLM(nn.Module):
    """token_ids (b, n) to logits (b, n, vocab) of the next token at every position."""

    def __init__(self, vocab_size, dim, num_layers):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim) for _ in range(num_layers))
        self.lm_head = nn.Linear(dim, vocab_size)

    def forward(self, token_ids):
        x = self.token_embedding(token_ids)
        n, dim = x.shape[1:]
        x = x + sinusoidal_positions(n, dim).to(x)
        for layer in self.layers:
            x, _ = layer(x, causal_mask(n))
        return self.lm_head(x)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Trained on the manual
#
# It learns characters of Python's own manual, which is on every machine: 64 characters of context, whole topics held out, one seed. The loss is in
# nats (natural logarithm); $e$ to the loss, the *perplexity*, says between how many equally likely characters it seems to choose.

# %% slideshow={"slide_type": "-"}
result = language_model.train_language_model()
print(f"{result['parameters']:,} parameters, {result['num_train']:,} training characters")
print(f"held-out loss {result['held_out']:.2f} nats, perplexity {result['perplexity']:.1f}\n")
sample = language_model.sample_text(result, "The for statement", 240, temperature=0.5, seed=2)
print(textwrap.fill(sample, 90))

# %% [markdown] slideshow={"slide_type": "subslide"}
# These parameters fit the model above, built from your own layers. With your own loss it must reach the same value.

# %% slideshow={"slide_type": "-"}
corpus = language_model.load_corpus()
model = CausalLM(len(corpus.tokenizer), dim=96, num_layers=2)
parameters = {
    name.removeprefix("embedding.").removeprefix("encoder."): parameter
    for name, parameter in result["state_dict"].items()
}
model.load_state_dict(parameters)
token_ids = corpus.held_out
with torch.no_grad():
    loss = next_token_loss(model(token_ids), token_ids, torch.ones_like(token_ids).bool()).item()
print(f"held-out loss of your own model: {loss:.2f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does it know?
#
# Counting gives the measure: how often does a character come at all, after the one before (bigrams), after the two before (trigrams)? And how
# does the model fare with so many characters of context?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
ngrams = {"trigram model": 3, "bigram model": 2, "unigram model": 1}
show(
    pictures.loss_by_context(
        result["by_position"],
        {name: result["ngrams"][order] for name, order in ngrams.items()},
        "with some context it beats the trigram model",
    ),
    alt="Held-out loss against the number of characters of context: it falls below the losses of bigram and trigram models.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
benchmark = stored("language_model")
measured = benchmark.result
benchmark.table(
    ("", "median", "smallest", "largest"),
    [
        (name, *(f"{measured[key][column]:{style}}" for column in ("median", "least", "most")))
        for name, key, style in (
            (f"held-out loss, {measured['seeds']} seeds, nats", "held_out", ".2f"),
            ("speedup of all positions at once", "speedup", ".0f"),
        )
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A model that predicts *masked* words (lesson 07) needs no causal mask: its targets are not in its input, so it may attend in both directions.

# %% tags=["checks"]
assert abs(loss - result["held_out"]) < 1e-3
assert result["held_out"] < result["ngrams"][3]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Against recurrence, convolution and a dense layer

# %% slideshow={"slide_type": "-"}
quiz("4.e")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
costs = layer_costs.layer_costs()
n, dim = layer_costs.COUNTED_LENGTH, layer_costs.COUNTED_DIM
min_len, max_len = layer_costs.LENGTHS[0], layer_costs.LENGTHS[-1]
Table(
    ("layer", "multiplications", f"counted at n = {n}, d = {dim}", "time grows as"),
    [
        (
            row["kind"],
            row["formula"]["cost"],
            f"{row['multiplications']:,}",
            f"n^{row['slope']:.1f}",
        )
        for row in costs
    ],
    f"Computed here, kernel k = {layer_costs.KERNEL}. Time from {min_len:,} to {max_len:,} tokens of width 64 (dense: shorter). A fixed "
    "cost per call lowers the exponent; a score matrix that outgrows the cache raises it.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
timed = {row["kind"]: row["seconds"] for row in costs if row["kind"] != "dense"}
show(
    pictures.times(costs[0]["lengths"], timed, "self-attention grows fastest with the length"),
    alt="Time of a layer against the length of the sentence on logarithmic scales, with slopes.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
Table(
    ("layer", "sequential steps", "measured", "maximum path", "measured"),
    [
        (
            row["kind"],
            row["formula"]["sequential"],
            row["sequential"],
            row["formula"]["path"],
            row["path"],
        )
        for row in costs
    ],
    f"Computed here at n = {n}. Steps: matrix products that wait for each other; three for self-attention (projections, scores, context), "
    "whatever n is. Path: layers or steps between the two ends of the sentence, measured by gradient.",
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
        f"attention weights of the last token in {sentence} sentence:",
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
