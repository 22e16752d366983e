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
# **Can attention work without a recurrent network?**
#
# The memory network of lesson 02 had no recurrence over the tokens, but only one query at a time. **Self-attention** gives every token its own query. Three things then break:
# the layer ignores word order, its outputs are only weighted averages, and every token sees the future. This lesson fixes all three and trains a
# small language model.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 30 minutes for the layer and its scaling, 35 for positions (exercises 4.4 and 4.5 are optional), 10 for the feed-forward network,
# 20 for masks, 25 for the language model and the comparison of layers.

# %% [markdown] slideshow={"slide_type": "notes"}
# If the class skipped lesson 03, read the paragraph on recurrence and convolution aloud. Nothing else of lesson 03 is needed.

# %% [markdown]
# **After this lesson you can**
#
# - write self-attention with loops, with matrices and as a layer, and explain $1/\sqrt{d_k}$;
# - add word order with sinusoidal, learned or rotary positions;
# - write causal and padding masks, and prove that nothing leaks from the future;
# - train a causal language model at all positions at once;
# - compare self-attention with recurrence and convolution.
#
# **You need** lessons 01 and 02, and two facts from lesson 03. A **recurrent network** (RNN) computes each hidden state from the one before, so its
# steps cannot run in parallel. A **convolution** computes each output from a window of neighbors, so distant tokens meet only after several layers.
# [Notation](../docs/notation.md).

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
from utils.plots.text import digits
from utils.training import language_model, layer_costs
from utils.training import self_attention as experiments
from utils.training.self_attention import minimal_pairs, order_sequences
from utils.widgets import attention_view, charts, explore, lesson_charts, mask_board, qkv_stepper

torch.manual_seed(4)
torch.set_num_threads(1)
lesson("04")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · One query per token
#
# In lesson 02 one query attended to the sentences of a story. In self-attention every token attends to every token, itself included: $n^2$ scores.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.controllers(["the", "cat", "sees", "the", "dog"]),
    alt="Left: one query attends to five sentences, 5 scores. Right: each of five tokens attends to all five tokens, 25 scores.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Queries, keys and values are projections
#
# A token attends (query), is attended to (key), and supplies content (value). Each role has its own **projection matrix**. With the tokens as the
# rows of $X$, $(n, d)$,
#
# $$Q = X W_Q, \qquad K = X W_K, \qquad V = X W_V, \qquad \text{output} = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# $W_Q$ and $W_K$ are $(d, d_k)$, $W_V$ is $(d, e)$, the output is $(n, e)$. The softmax normalizes each row. This is equation 1
# of [Vaswani et al. (2017)](../docs/references.md#vaswani2017), who write $d_v$ for $e$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worked example: three tokens, two dimensions
#
# $$X = \begin{pmatrix} 1 & 0 \\ 0 & 1 \\ 1 & 1 \end{pmatrix}, \quad
# W_Q = \begin{pmatrix} 2 & 0 \\ 0 & 1 \end{pmatrix}, \quad
# W_K = \begin{pmatrix} 1 & 1 \\ 0 & 1 \end{pmatrix}, \quad
# W_V = \begin{pmatrix} 1 & 2 \\ 3 & 0 \end{pmatrix}$$
#
# Follow the first token, $x_1 = (1, 0)$.
#
# 1. **Projections.** The query is $x_1 W_Q = (2, 0)$. The keys $X W_K$ are $(1, 1)$, $(0, 1)$, $(1, 2)$, the values $X W_V$ are $(1, 2)$,
#    $(3, 0)$, $(4, 2)$.
# 2. **Scores.** The dot products of query and keys are $2, 0, 2$.
# 3. **Scaling.** Divided by $\sqrt{d_k} = \sqrt 2$, they are $1.414, 0, 1.414$.
# 4. **Softmax.** The exponentials are $4.113, 1, 4.113$. Divided by their sum, they give the attention weights $0.446, 0.108, 0.446$.
# 5. **Weighted sum.** $0.446\,(1, 2) + 0.108\,(3, 0) + 0.446\,(4, 2) = (2.55, 1.78)$.

# %% tags=["nbval-check-output"]
X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
W_Q = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
W_K = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
W_V = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
Q, K, V = X @ W_Q, X @ W_K, X @ W_V
scores = Q @ K.T
weights = (scores / 2**0.5).softmax(-1)
for name, matrix in {
    "Q": Q,
    "K": K,
    "V": V,
    "scores": scores,
    "weights": weights,
    "output": weights @ V,
}.items():
    print(f"{name}:\n{matrix.numpy().round(3)}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Do token 1 on the board, let the room do token 3. Ask why the score matrix is not symmetric: token 1 scores token 3 with 2, token 3 scores
# token 1 with 3, because queries and keys have different projections.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 4.1: self-attention with loops
#
# Implement the five steps with a loop over queries and one over keys. All sizes may differ; `n` may be 1. Row $i$ of the weights belongs to query
# $i$. `torch.softmax` does not overflow. (The check compares only the results.)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.1 · self-attention with loops · medium · 10 min
def self_attention_loop(X, W_Q, W_K, W_V):
    """One sequence X (n, d), W_Q and W_K (d, d_k), W_V (d, e) to output (n, e) and weights (n, n)."""
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

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 4.2: self-attention with matrices
#
# The same without loops, with `attention(query, key, value, mask)` from lesson 01, which divides by $\sqrt{d_k}$, applies the mask and
# returns output and weights. $X$ may have a batch axis; the mask broadcasts to (..., n, n). A query with every key masked gets zeros, as `attention` gives.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.2 · self-attention with matrices · easy · 5 min
def self_attention(X, W_Q, W_K, W_V, mask=None):
    """X (..., n, d), with or without a batch axis in front, to output (..., n, e), weights (..., n, n).

    mask (..., n, n) bool, True = may attend.
    """
    ### BEGIN SOLUTION
    return attention(X @ W_Q, X @ W_K, X @ W_V, mask)
    ### END SOLUTION


self_attention = exercise("4.2").use(self_attention)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Every number of the worked example
#
# Your `self_attention` computes the weights and the output.

# %% [markdown]
# Step from $X$ to the output, and point at an entry to see the row and the column it comes from. Then drag $x_3$: which numbers in the rows of the
# first token change, and which of them with a causal mask?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
qkv_stepper(self_attention, X, W_Q, W_K, W_V, title="Self-attention of three tokens")

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room predict each matrix before you press Next. Moving the third embedding leaves the first query alone, but changes one of its scores, all
# three of its weights and its output. With the causal mask the first row of the weights is (1, 0, 0), whatever the third embedding is.

# %% tags=["nbval-check-output"]
n, d, d_k = 5, 6, 4
X = torch.randn(n, d)
W_Q, W_K, W_V = torch.randn(3, d, d_k)
by_loops, _ = self_attention_loop(X, W_Q, W_K, W_V)
by_matrices, weights = self_attention(X, W_Q, W_K, W_V)
in_a_batch, _ = self_attention(X.expand(3, n, d), W_Q, W_K, W_V)
by_torch = F.scaled_dot_product_attention(X @ W_Q, X @ W_K, X @ W_V)
print("loops equal matrices:         ", torch.allclose(by_loops, by_matrices, atol=1e-6))
print("matrices equal PyTorch's SDPA:", torch.allclose(by_torch, by_matrices, atol=1e-6))
print("alone equals in a batch:      ", torch.allclose(by_matrices, in_a_batch[1], atol=1e-6))
tensors = {"X": X, "W_Q": W_Q, "weights": weights, "output": by_matrices}
print("shapes:", *(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items()), sep="  ")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two remarks on the projections
#
# **Rows or columns?** Texts with tokens as columns write $W x$. `nn.Linear` computes $x W^\top$.
#
# **The multiplicative score of lesson 03** is $q W^\top k^\top$ with a learned $W$. Here $q_i \cdot k_j = x_i\, W_Q W_K^\top x_j^\top$, so
# $W^\top = W_Q W_K^\top$, of rank at most $d_k$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
linear = nn.Linear(d, d_k, bias=False)
print("nn.Linear(6, 4) stores", tuple(linear.weight.shape))
print("nn.Linear computes x Wᵀ:", torch.allclose(linear(X), X @ linear.weight.T))
W = (W_Q @ W_K.T).T
print("q · k equals x Wᵀ xᵀ:", torch.allclose(X @ W.T @ X.T, (X @ W_Q) @ (X @ W_K).T, atol=1e-5))
print(f"W is {tuple(W.shape)} with rank {torch.linalg.matrix_rank(W)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Context changes a representation
#
# The same word in two sentences enters as one vector and leaves as two. Here embeddings are set by hand (components: water, money, neither), and
# projections are the identity.

# %% tags=["nbval-check-output"]
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
        "weights of bank:", *(f"{word} {w:.2f}" for word, w in zip(words, weights[-1], strict=True))
    )
    print("output of bank: ", digits(output[-1], 1))
similarities = [F.cosine_similarity(*pair, dim=0).item() for pair in (before, after)]

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.two_contexts(
        *sentences, "bank", *similarities, "One input vector, two outputs: context decides"
    ),
    alt="The word bank in two sentences: cosine 1 between its two vectors before self-attention, far less after it.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# *bank* attends most to *river* or to *rob*. Lesson 08 measures this in a published model.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what the third component does: words that have nothing to do with water or money still get some weight, because softmax never gives zero.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Why are the scores scaled?
#
# A score is a sum of $d_k$ products. If the components of queries and keys are independent with mean 0 and variance 1, so are the products.
# Variances add up: a score has variance $d_k$. Large scores saturate the softmax, and its Jacobian vanishes (lesson 01).

# %% slideshow={"slide_type": "-"}
quiz("4.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **entropy** of the attention weights, $H = -\sum_j w_j \log w_j$, measures how spread out they are: 0 if one key gets all the weight,
# $\log n$ if all $n$ keys get the same.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
statistics = experiments.score_statistics()
show(
    pictures.scaling(statistics["dims"], statistics["raw"], statistics["scaled"]),
    alt="Three panels against d_k, with and without scaling: variance of the scores, entropy of the weights, norm of the softmax's Jacobian. "
    "Scaled curves are flat; the unscaled variance grows, the entropy falls, the Jacobian rises a little and then falls.",
)
saturated = statistics["raw"]["saturated"][-1]
print(
    f"saturated queries (Jacobian norm below 0.01) at d_k = 1024, unscaled: {100 * saturated:.0f} %"
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without scaling, the weights concentrate on one key as $d_k$ grows. Every gradient of $W_Q$ and $W_K$ passes through the Jacobian of the
# softmax, which first grows (a choice between two keys is steep) and then vanishes for most queries (the figure shows the median). Here $d_k$ is the dimension of *queries and keys*, not of
# embeddings.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room predict the shape of each panel before you show it. The bump in the right panel surprises most people.


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def weights_at(d_k, seed):
    generator = torch.Generator().manual_seed(seed)
    query, keys = torch.randn(d_k, generator=generator), torch.randn(24, d_k, generator=generator)
    return lesson_charts.scaled_weights(keys @ query, d_k)


explore(
    weights_at,
    alt="Attention weights of one query over 24 random keys, with and without the division by the square root of d_k.",
    labels={"d_k": "d_k"},
    d_k=[256, 4, 16, 64, 1024],
    seed=(0, 20, 1, 0),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Move d_k from 4 to 1024 and watch the left panel collapse to one bar; change the seed to show that this is not a special draw.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Fix 1: word order
#
# Permute the tokens of a sentence. What happens to the outputs?

# %% slideshow={"slide_type": "-"}
quiz("4.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Self-attention is permutation equivariant
#
# Let the matrix $\Pi$ permute the rows. The scores $S = Q K^\top / \sqrt{d_k}$ become $\Pi S \Pi^\top$, and
#
# $$\operatorname{softmax}(\Pi S \Pi^\top)\; \Pi V = \Pi\, \operatorname{softmax}(S)\, V$$
#
# because the softmax of each row is permutation equivariant (lesson 01) and $\Pi^\top \Pi = I$. The layer treats its input as a set.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
order = torch.randperm(n)
permuted, _ = self_attention(X[order], W_Q, W_K, W_V)
print("outputs are permuted alike:", torch.allclose(permuted, by_matrices[order], atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A task that needs order
#
# Sequences of 16 letters contain one A and one B. **Does A come first?** The classifier averages embeddings and self-attention outputs over all
# tokens. `positions` (16, dim) are added to the embeddings; zeros mean none.


# %% slideshow={"slide_type": "-"}
class OrderClassifier(nn.Module):
    def __init__(self, positions):
        super().__init__()
        dim = positions.size(-1)
        self.positions = positions
        self.embedding = nn.Embedding(experiments.VOCAB_SIZE, dim)
        self.W_Q, self.W_K, self.W_V = (
            nn.Parameter(dim**-0.5 * torch.randn(dim, dim)) for _ in range(3)
        )
        self.classifier = nn.Linear(dim, 2)

    def forward(self, token_ids):
        x = self.embedding(token_ids) + self.positions  # (b, 16, dim)
        context, _ = self_attention(x, self.W_Q, self.W_K, self.W_V)
        return self.classifier((x + context).mean(1))  # (b, 2)


# %% [markdown] slideshow={"slide_type": "subslide"}
# The training loop is that of lesson 02, with new sequences at every step. The test set holds **minimal pairs**, each sequence also with A and B
# swapped: a model that ignores order scores exactly 50 %.


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def train_order(positions, num_steps=300, seed=1):
    torch.manual_seed(seed)
    model = OrderClassifier(positions)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(num_steps):
        token_ids, _, labels = order_sequences(64, 16, 16, torch.default_generator)
        loss = F.cross_entropy(model(token_ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def order_accuracy(model):
    generator = torch.Generator().manual_seed(77)  # new sequences
    token_ids, _, labels = minimal_pairs(*order_sequences(500, 16, 16, generator))
    return (model(token_ids).argmax(-1) == labels).float().mean().item()


no_positions = train_order(torch.zeros(16, 32))
print(f"no positions: accuracy {order_accuracy(no_positions):.1%}")

# %% [markdown] slideshow={"slide_type": "notes"}
# 50.0 % is not bad luck: within each minimal pair the model gives the same answer twice. Ask the room why no amount of training can change it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Sinusoidal positions
#
# **Positional encoding** adds to each embedding a vector that depends on the position $p$. Vaswani et al. (section 3.5) use sines and
# cosines, a pair of components per frequency $\omega_i$:
#
# $$P_{p, 2i} = \sin(p\, \omega_i), \qquad P_{p, 2i+1} = \cos(p\, \omega_i), \qquad \omega_i = 10000^{-2i/d}$$
#
# **Exercise 4.3.** Return the matrix $P$, (length, dim), in float32, for positions $p = 0, 1, \dots$ and pairs $i = 0, \dots, d/2 - 1$. `dim` is even.


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

# %%
with_sinusoids = train_order(sinusoidal_positions(16, 32).float())
print(f"sinusoidal positions: accuracy {order_accuracy(with_sinusoids):.1%} (one seed)")


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def position_pattern(length, dim):
    title = "High frequencies on the left, low frequencies on the right"
    return charts.heat(
        sinusoidal_positions(length, dim), title, xlabel="component", ylabel="position"
    )


explore(
    position_pattern,
    alt="Sinusoidal positions as a heat map, a row for each position and a column for each component.",
    page="positions",
    length=(8, 128, 8, 64),
    dim=[64, 16, 32],
)

# %% slideshow={"slide_type": "subslide"}
quiz("4.c")

# %% tags=["nbval-check-output"]
for dim in (32, 512, 4096):
    print(
        f"dim {dim:4d}: periods from {periods(dim).min():.1f} to {periods(dim).max():,.0f} positions"
    )
print(f"limit for large dim, 2 pi times 10,000: {2 * torch.pi * 10_000:,.0f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A shift is a rotation (optional)
#
# Why sinusoids? The addition formulas
#
# $$\sin(a + b) = \sin a \cos b + \cos a \sin b, \qquad \cos(a + b) = \cos a \cos b - \sin a \sin b$$
#
# are linear in the pair $(\sin a, \cos a)$. So one matrix $R$ moves every position by $k$: $P_{p+k} = P_p R$.
#
# **Exercise 4.4.** Return $R$, (dim, dim), in float32: 2 x 2 blocks on the diagonal, one per frequency, with $b = k\, \omega_i$. `k` may be negative.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.4 · a shift is a rotation · hard · 22 min · optional
def shift_rotation(k, dim):
    """The one matrix R (dim, dim) with positions[p + k] == positions[p] @ R, whatever p.

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

# %% tags=["nbval-check-output"]
P = sinusoidal_positions(60, 32).float()
R = shift_rotation(7, 32).float()
print("one matrix moves every position by 7:", torch.allclose(P[:53] @ R, P[7:], atol=1e-4))
print("R is a rotation, R Rᵀ = I:           ", torch.allclose(R @ R.T, torch.eye(32), atol=1e-5))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.offset_products(
        P @ P.T, "The dot product of two positions depends on their offset alone"
    ),
    alt="Dot products of position vectors against their offset: all rows lie on one even curve that is not monotonic.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The curve is even: it does not distinguish left from right. A trained layer can, since $W_Q$ and $W_K$ transform the positions first.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Learned positions
#
# BERT and GPT-2 learn one vector per position, in an embedding matrix. Beyond its last row there is none.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
learned = LearnedPositions(16, 8)
print("16 positions:", tuple(learned(16).shape))
try:
    learned(24)
except ValueError as error:
    print("24 positions:", textwrap.fill(str(error), 90))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Rotary position embedding
#
# **Rotary position embedding** (RoPE, [Su et al., 2021](../docs/references.md#su2021)) puts the offset into the scores, as
# [Shaw et al. (2018)](../docs/references.md#shaw2018) did. It rotates each pair of components of queries and keys by an angle proportional
# to the position. In the dot product only the difference of the angles remains:
#
# $$\operatorname{rotate}(q, i) \cdot \operatorname{rotate}(k, j) = \operatorname{rotate}(q, i - j) \cdot k$$
#
# Values are not rotated. (Many libraries pair component $i$ with $i + d/2$.) SmolLM2 uses RoPE (lesson 09).

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 4.5** (optional). Rotate $x$ (..., n, d), $d$ even, for `positions` (n,).
#
# - Components $2i$ and $2i + 1$ form a pair $(a, b)$, which becomes $(a \cos\theta - b \sin\theta,\; a \sin\theta + b \cos\theta)$.
# - $\theta$ is the token's position times $10000^{-2i/d}$. Positions need not be consecutive.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.5 · rotary positions · hard · 15 min · optional
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

# %% tags=["nbval-check-output"]
query, key = torch.randn(2, 1, 8)
for i, j in ((3, 5), (103, 105), (5, 3)):
    score = rotate(query, torch.tensor([i])) @ rotate(key, torch.tensor([j])).T
    print(f"query at {i:3d}, key at {j:3d}, offset {i - j:+d}: score {score.item():.3f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Same offset, same score, wherever the pair stands; the opposite offset gives another score. So rotary scores know left from right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The three kinds compared
#
# The same classifier with the feed-forward network of section 4, on 8 to 16 letters, three seeds. One model has no positions but a
# **causal mask** (section 5): each token attends only to itself and earlier tokens. Guess its accuracy.

# %%
names = {
    "none": "no positions",
    "causal": "no positions, causal mask",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "rotary": "rotary",
}
by_kind = {positions: experiments.train_order(positions, seeds=3) for positions in names}

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
rows = [(names[kind], 100 * result["accuracy"]) for kind, result in by_kind.items()]
show(
    pictures.order_bars(rows, 50, "Without positions or a causal mask, order is invisible"),
    alt="Accuracy of three seeds on the order task: 50 % without positions, near 100 % with each kind and with a "
    "causal mask alone.",
)

# %% [markdown] slideshow={"slide_type": "-"}
# The causal mask alone reveals the order: B can attend to A only if A comes first. [Haviv et al. (2022)](../docs/references.md#haviv2022) found
# that causal language models without positional encoding learn positions too, and conjecture that the causal mask is the reason.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Beyond the training length
#
# Training used at most 16 tokens. Which models **extrapolate** to longer sequences?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
lengths = by_kind["rotary"]["lengths"]
curves = {
    names[kind]: 100 * by_kind[kind]["by_length"]
    for kind in ("sinusoidal", "learned", "rotary", "causal")
}
show(
    pictures.extrapolation(
        lengths, curves, 16, "Beyond the training length no kind keeps its accuracy", chance=50
    ),
    alt="Accuracy on the order task against length for models trained up to length 16: all fall beyond 16; learned positions end there.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
shifts = by_kind["rotary"]["shifts"]
Table(
    ("accuracy, 16 tokens starting at position", *map(str, shifts)),
    [
        (
            names[kind],
            *(
                "impossible" if row.isnan().any() else f"{100 * row.median():.1f} %"
                for row in by_kind[kind]["by_shift"]
            ),
        )
        for kind in ("sinusoidal", "learned", "rotary")
    ],
    "Computed here, median of three seeds. Training used positions 0 to 15.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Sinusoids exist for every position, but the model saw only 16. (Here near 0 % when starting at position 50: almost every answer is reversed.) Rotary scores do not change under
# a shift, but accuracy falls with more tokens. Here the causal mask has the best median, but one of its three seeds falls almost to chance at 96 tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two different tests: more tokens (the figure) and the same number of tokens at other positions (the table). Rotary passes the second exactly.

# %% tags=["checks"]
assert order_accuracy(no_positions) == 0.5
assert order_accuracy(with_sinusoids) >= 0.9
assert (by_kind["none"]["accuracy"] - 0.5).abs().max() < 0.01
assert (
    min(by_kind[kind]["accuracy"].min() for kind in ("causal", "sinusoidal", "learned", "rotary"))
    >= 0.9
)
assert (
    by_kind["rotary"]["by_shift"].min() >= 0.99
    and by_kind["rotary"]["by_length"][-1].median() < 0.9
)
assert min(100 * row.median() for row in by_kind["sinusoidal"]["by_shift"]) < 50
at_96 = {
    kind: by_kind[kind]["by_length"][-1].median() for kind in ("sinusoidal", "rotary", "causal")
}
assert max(at_96, key=at_96.get) == "causal"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Fix 2: a non-linearity
#
# For fixed weights, attention is linear in the values. But the weights depend on the input, so self-attention as a whole is not linear.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
errors = experiments.linearity_errors()
descriptions = {
    "values": "attention, as a function of the values, weights fixed",
    "inputs": "self-attention, as a function of its input",
    "feed-forward": "attention with fixed weights, then a feed-forward network",
}
for name, description in descriptions.items():
    print(f"{description:58s}", "linear" if errors[name] < 1e-9 else "not linear")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The position-wise feed-forward network
#
# Attention moves information between tokens. Then the same **feed-forward network** processes each token separately
# (equation 2 of Vaswani et al.):
#
# $$\operatorname{FFN}(x) = \max(0,\, x W_1 + b_1)\, W_2 + b_2$$
#
# **Exercise 4.6.** Write `forward`. The maximum with 0 is a **ReLU**, `torch.relu`. Call the layers: `linear1` holds $W_1, b_1$, `linear2` holds
# $W_2, b_2$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.6 · the feed-forward network · easy · 8 min
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
# ### A task that averaging cannot solve
#
# Two bits of a sequence are marked. **Do they differ?** An extra token, `[CLS]`, attends to these two bits only (its embedding starts at
# zero, so the weights start equal), and its output is classified. With equal weights, it gets $v_0$ for two zeros, $v_1$ for two ones, else $\tfrac12 (v_0 + v_1)$: three points on a line. A linear classifier
# cannot separate the middle from both ends. At most three of the four bit pairs are correct, 75 %.

# %% slideshow={"slide_type": "-"}
for feed_forward in (False, True):
    accuracies = 100 * experiments.train_xor(feed_forward, seeds=3)["accuracy"]
    name = "with" if feed_forward else "without"
    print(f"{name} feed-forward network:", " ".join(f"{accuracy:.0f} %" for accuracy in accuracies))

# %% [markdown] slideshow={"slide_type": "notes"}
# This is XOR. Draw the three points on a line and ask where one cut should go.

# %% [markdown] slideshow={"slide_type": "notes"}
# The same argument returns in lesson 05 with two marked positions and one head.

# %% tags=["checks"]
assert (experiments.train_xor(False, seeds=3)["accuracy"] <= 0.75 + 1e-6).all()
assert (experiments.train_xor(True, seeds=3)["accuracy"] > 0.95).all()

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Fix 3: masks
#
# A **causal language model** predicts the next token, so no position may see it.

# %% slideshow={"slide_type": "-"}
quiz("4.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 4.7.** Return the causal mask, boolean. Row $i$ is a query: True at keys $0, \dots, i$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.7 · the causal mask · easy · 4 min
def causal_mask(length):
    """(length, length) bool; row i is True at the positions that token i may attend to."""
    ### BEGIN SOLUTION
    return torch.ones(length, length, dtype=torch.bool).tril()
    ### END SOLUTION


causal_mask = exercise("4.7").use(causal_mask)

# %% [markdown] slideshow={"slide_type": "subslide"}
# No token may attend to the **padding** of a batch.
#
# **Exercise 4.8.** From `lengths` (b,), return the padding mask (b, 1, max_len), True at tokens. Tokens come first; a length may be 0. The middle
# axis broadcasts over the queries.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.8 · the padding mask · easy · 5 min
def padding_mask(lengths, max_len):
    """lengths (b,) to (b, 1, max_len) bool, True at the tokens, which come before the padding."""
    ### BEGIN SOLUTION
    attention_mask = torch.arange(max_len) < lengths.unsqueeze(1)  # (b, max_len)
    return attention_mask.unsqueeze(1)
    ### END SOLUTION


padding_mask = exercise("4.8").use(padding_mask)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
both = causal_mask(4) & padding_mask(torch.tensor([3, 4]), 4)  # (4, 4) & (2, 1, 4)
print("causal and padding mask together:", tuple(both.shape))
print("first sequence, 3 tokens and 1 padding:")
print(both[0].int().numpy())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The layer
#
# **Exercise 4.9.** Now the projection matrices are parameters. Write both methods: three linear layers without bias, `query`, `key`, `value`, from
# `dim` to `head_dim` ($d_k$, and here also $e$); then attention. The mask broadcasts to (b, n, n), or is None; a query with every key masked gets zeros.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 4.9 · a self-attention layer · medium · 12 min
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
# ### No leak from the future
#
# **Proof.** Output $i$ is $\sum_j w_{ij} v_j$. Under a causal mask $w_{ij}$ is exactly 0 for $j > i$, and the other weights depend only on query $i$ and
# keys $j \le i$. **Check.** The gradient at later tokens is zero. (Alone, this is only evidence: a gradient can vanish by chance.)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
layer = SelfAttention(6, 4)
x = torch.randn(1, 5, 6, requires_grad=True)
output, weights = layer(x, causal_mask(5))
print("weights on later tokens, all exactly 0:", bool((weights[0][~causal_mask(5)] == 0).all()))
(gradient,) = torch.autograd.grad(output[0, 2].sum(), x)
nonzero = gradient[0].norm(dim=-1) != 0
print("tokens with a gradient from output 2:  ", nonzero.nonzero().flatten().tolist())

# %% tags=["nbval-check-output"]
batch = torch.randn(2, 5, 6)
mask = causal_mask(5) & padding_mask(torch.tensor([3, 5]), 5)  # (2, 5, 5)
changed = batch.clone()
changed[0, 3:] = 100.0  # other vectors at the padding of the first sequence
same = torch.equal(layer(batch, mask)[0][0, :3], layer(changed, mask)[0][0, :3])
print("other padding, same outputs:    ", same)

output, _ = layer(batch, padding_mask(torch.tensor([0, 5]), 5))
print("a fully masked query gives zeros:", bool((output[0] == 0).all()))

# %% [markdown] slideshow={"slide_type": "notes"}
# Let somebody break the layer on purpose: drop the mask and run the two cells again.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Conventions for masks
#
# True does not mean the same everywhere:
#
# | function | argument | shape | True means |
# |---|---|---|---|
# | `attention` in this course | `mask` | (..., m, n) | may attend |
# | `F.scaled_dot_product_attention` | `attn_mask` | (..., m, n) | may attend |
# | `nn.MultiheadAttention` | `attn_mask` | (m, n) or (b · heads, m, n) | may **not** attend |
# | `nn.MultiheadAttention` | `key_padding_mask` | (b, n) | **ignore** this key |
# | Hugging Face models | `attention_mask` | (b, n) | (1) a token, not padding |

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x = torch.randn(1, 5, 4)
mask = causal_mask(5)
_, ours = attention(x, x, x, mask)
by_sdpa = F.scaled_dot_product_attention(
    x, x, torch.eye(5).unsqueeze(0), attn_mask=mask
)  # V = I returns the weights
_, by_module = nn.MultiheadAttention(4, num_heads=1, batch_first=True)(x, x, x, attn_mask=~mask)
print("SDPA with `mask`, same weights as ours:        ", torch.allclose(by_sdpa, ours, atol=1e-6))
print("MultiheadAttention with `~mask`, zero after i: ", bool((by_module[0][~mask] == 0).all()))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Paint a mask
#
# A mask is a directed graph. Click cells, paint, or choose a preset. On the right the graph is unrolled over two layers: orange is what changes when
# *cat* is replaced.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
tokens = ["the", "cat", "sees", "the", "bird", "fly"]
x = torch.randn(1, 6, 8).repeat(2, 1, 1)
x[1, 1] = torch.randn(8)  # another word instead of "cat"
layers = nn.ModuleList([SelfAttention(8, 8), SelfAttention(8, 8)]).requires_grad_(False)
for parameter in layers.parameters():
    parameter.mul_(3)  # untrained attention is almost uniform; larger projections make it visible
projections = [(layer.query.weight, layer.key.weight, layer.value.weight) for layer in layers]
title = "Which token may attend to which?"
mask_board(tokens, layers, x, projections=projections, start="causal", title=title)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a mask in which *fly* depends on *cat* without attending to it: it takes a second layer and a token in between.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · A causal language model
#
# With a causal mask, position $t$ sees tokens $0, \dots, t$ and predicts token $t + 1$. One pass trains all $n - 1$ predictions.
#
# **Exercise 4.10.** Return the mean cross-entropy of the next token, a tensor of shape ().
#
# - The logits at position $t$ score token $t + 1$. The last logits have no target; nothing predicts token 0.
# - Average over all targets of the batch that are tokens, not padding.
# - `F.cross_entropy` expects the class axis second: (b, vocab, n - 1) against (b, n - 1).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 4.10 · the next-token loss · medium · 15 min
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

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the loss of an untrained model before anything is trained: about the logarithm of the vocabulary size. The most common mistake is a shift in
# the wrong direction.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### All positions at once
#
# One pass over 64 tokens replaces 64 passes over prefixes of 1 to 64 tokens, which process 32.5 times as many. Measured:

# %% slideshow={"slide_type": "-"}
(speedup,) = language_model.parallel_training_speedup(repeats=1)
print(f"all positions at once, measured speedup: {speedup:.0f}x")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The model
#
# A layer is self-attention, then the feed-forward network, each with a **residual connection**: its output is added to its input, as $u + o$ in
# lesson 02. Lesson 05 adds heads, layer norm and dropout.


# %% slideshow={"slide_type": "-"}
class EncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn = SelfAttention(dim, dim)
        self.feed_forward = FeedForward(dim, 4 * dim)

    def forward(self, x, mask):
        context, attention_weights = self.self_attn(x, mask)
        x = x + context
        return x + self.feed_forward(x), attention_weights


# %% slideshow={"slide_type": "subslide"}
class CausalLM(nn.Module):
    def __init__(self, vocab_size, dim, num_layers):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim) for _ in range(num_layers))
        self.lm_head = nn.Linear(dim, vocab_size)

    def forward(self, token_ids):
        """token_ids (b, n) to logits (b, n, vocab) of the next token, and each layer's weights (b, n, n)."""
        x = self.token_embedding(token_ids)
        n, dim = x.shape[1:]
        x = x + sinusoidal_positions(n, dim).to(x)
        attention_weights = []
        for layer in self.layers:
            x, weights = layer(x, causal_mask(n))
            attention_weights.append(weights)
        return self.lm_head(x), attention_weights


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Trained on Python's manual
#
# Trained character by character, with 64 characters of context, whole pages held out, one seed. The loss is in **nats** (natural
# logarithm). Its exponential, the **perplexity**, is the number of equally likely characters that would give the same loss.

# %% slideshow={"slide_type": "-"}
result = language_model.train_language_model()
print(f"{result['parameters']:,} parameters, {result['num_train']:,} training characters")
print(f"held-out loss {result['held_out']:.3f} nats, perplexity {result['perplexity']:.2f}\n")
sample = language_model.sample_text(result, "The for statement", 240, temperature=0.5, seed=2)
print(textwrap.fill(sample, 90))

# %% [markdown]
# The trained parameters fit the model above, built from your layers. Your `next_token_loss` must give the same loss.

# %%
corpus = language_model.load_corpus()
model = CausalLM(len(corpus.tokenizer), dim=96, num_layers=2)
model.load_state_dict(language_model.plain_state_dict(result))
token_ids = corpus.held_out
with torch.no_grad():
    logits, _ = model(token_ids)
loss = next_token_loss(logits, token_ids, torch.ones_like(token_ids).bool()).item()
print(f"held-out loss of your model: {loss:.3f} nats")

# %% [markdown]
# ### What does it attend to?
#
# The attention maps of both layers on held-out text.

# %% [markdown]
# Type a text of your own.


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def attend_to_text(text):
    token_ids = corpus.tokenizer.encode(text)
    if (token_ids == 0).any():
        raise ValueError("The text has a character that the model does not know.")
    with torch.no_grad():
        _, attention_weights = model(token_ids.unsqueeze(0))
    return {"weights": torch.stack(attention_weights), "target": list(text)}  # (2, 1, n, n)


window = corpus.tokenizer.decode(corpus.held_out[0, :14])
layer1, positions = attend_to_text(window)["weights"][0, 0], torch.arange(14)
distance = (layer1 * (positions.unsqueeze(1) - positions)).sum(-1).mean()
print(f"here the first layer attends {distance:.1f} characters back on average")
attention_view(attend_to_text, text=window, title="What the language model attends to")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Compared with n-gram models
#
# An **n-gram model** counts how often each character follows the $n - 1$ characters before it; ours are interpolated with the lower orders.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
ngrams = {"trigram model": 3, "bigram model": 2, "unigram model": 1}
show(
    pictures.loss_by_context(
        result["by_position"],
        {name: result["ngrams"][order] for name, order in ngrams.items()},
        "With a few characters of context the loss falls below the trigram model's",
    ),
    alt="Held-out loss against the number of characters of context: it falls below the losses of bigram and trigram models.",
)
for name, order in ngrams.items():
    print(f"{name}: held-out loss {result['ngrams'][order]:.2f} nats")

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
# A model that predicts *masked* tokens (lesson 07) needs no causal mask: most of its targets are hidden in the input.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which part of the sample is grammar and which is spelling. The model was trained on fewer than 300,000 characters.

# %% tags=["checks"]
assert abs(loss - result["held_out"]) < 1e-3
assert result["held_out"] < result["ngrams"][3] and result["by_position"][8] < result["ngrams"][3]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Compared with recurrence, convolution and dense layers

# %% slideshow={"slide_type": "-"}
quiz("4.e")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three quantities describe a layer over $n$ tokens of width $d$ (table 1 of Vaswani et al., where convolutions are dilated): **multiplications**;
# **sequential operations**, which must wait for each other; and **maximum path length**, the steps between two tokens.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
costs = layer_costs.layer_costs()
Table(
    *layer_costs.comparison(costs),
    f"Formulas and measurements made here, kernel size k = {layer_costs.KERNEL}. Sequential: matrix products that wait for each other "
    "(for self-attention projections, scores, weighted sum). Path: layers or steps between the two ends of the sequence, by gradient.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
timed = {row["kind"]: row["seconds"] for row in costs if row["kind"] != "dense"}
show(
    pictures.times(
        costs[0]["lengths"], timed, "Of these three, the time of self-attention grows fastest"
    ),
    alt="Time of a layer against the length of the sequence on logarithmic scales, with fitted exponents: self-attention is steepest.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Self-attention connects any two tokens in one step and computes all positions in parallel, at a cost quadratic in $n$. For
# $n < d$ the projections dominate: $n d^2$, as in a recurrent layer.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fast and slow weights
#
# A convolution combines tokens with weights that are fixed after training (**slow weights**). Attention computes its weights from the
# data, an idea related to **fast weights** ([Hinton and Plaut, 1987](../docs/references.md#hinton1987);
# [Schmidhuber, 1992](../docs/references.md#schmidhuber1992)). Self-attention is older than the Transformer:
# [Cheng et al. (2016)](../docs/references.md#cheng2016) used it inside a recurrent network.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
torch.manual_seed(0)  # what ran before may have drawn other numbers under another Python
for sequence in ("first", "second"):
    with torch.no_grad():
        _, weights = layer(torch.randn(1, 5, 6))
    print(
        f"same layer, {sequence} random sequence, weights of the last token:",
        digits(weights[0, -1]),
    )

# %% [markdown] slideshow={"slide_type": "notes"}
# The parameters did not change between the two lines. The weights did.

# %% [markdown] slideshow={"slide_type": "notes"}
# Close with table 1 of the paper on the projector: by now the room can derive every cell except restricted self-attention.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Self-attention: every token attends to every token, with queries, keys and values that are projections of the tokens.
# - Scores are divided by $\sqrt{d_k}$; otherwise the softmax saturates as $d_k$ grows.
# - Self-attention is permutation equivariant. Positions are added to the embeddings (sinusoidal, learned) or rotate queries and keys (RoPE).
# - The feed-forward network adds a non-linear step for each token.
# - Under a causal mask nothing leaks from later tokens, and one pass trains all positions.
# - Any two tokens are one step apart, at a cost quadratic in the length.
#
# **Open questions.** What if a token needs information from two positions, kept apart? And why do deep stacks of such
# layers train at all? [Lesson 05](05_multi_head_attention.ipynb) answers both.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask who would stack twelve of these layers as they are. Lesson 05 shows what happens.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - [Cheng et al. (2016)](../docs/references.md#cheng2016): self-attention in a recurrent network.
# - [Haviv et al. (2022)](../docs/references.md#haviv2022): no positional encoding.
# - [Hinton and Plaut (1987)](../docs/references.md#hinton1987), [Schmidhuber (1992)](../docs/references.md#schmidhuber1992): fast weights.
# - [Shaw et al. (2018)](../docs/references.md#shaw2018): relative positions. [Su et al. (2021)](../docs/references.md#su2021): RoPE.
# - [Vaswani et al. (2017)](../docs/references.md#vaswani2017): equations 1 and 2, section 3.5, table 1.
