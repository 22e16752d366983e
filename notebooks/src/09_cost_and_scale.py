# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 09 · Cost, scale and what comes next
#
# **What does attention cost, and do larger models stay better?**
#
# Here models and texts grow. Later a published language model runs on the blocks of this course, completes, chats,
# and learns from its prompt.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 20 minutes for cost, 30 for sparse attention, 25 for scaling laws, 15 for modifications, 22 for the published model and chat, 8 for images.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask how long a text their favorite assistant accepts, and what that might cost. Collect guesses for "ten times the parameters: how much less loss?"

# %% [markdown]
# **After this lesson you can**
#
# - state how time and memory of attention grow with length, and what a fused kernel changes;
# - write attention of linear cost, and show what it cannot see;
# - fit a scaling law, predict a larger model, and report the error;
# - judge a modification against the noise of seeds;
# - build RMSNorm, SwiGLU and grouped-query attention, the parts of a published language model;
# - explain chat templates, in-context learning and preference tuning.
#
# **You need** lessons 05 to 07. Sections 5 and 6 use a published model (93 MB, `make downloads`); without it they show stored results. Symbols and terms: [notation](../docs/notation.md).

# %%
from statistics import fmean
from textwrap import fill

import torch
import torch.nn.functional as F

from utils.build.downloads import SMOLLM2, fetch_or_say
from utils.build.results import ranged, stored
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attention, sparse_attention
from utils.models.attention import MultiHeadAttention, causal_mask
from utils.models.decoding import next_token_probs
from utils.models.layers import SwiGLU
from utils.models.pretrained import LLAMA, chat_prompt, load_smollm2
from utils.plots import lesson09 as pictures
from utils.plots import show
from utils.plots.text import digits as rounded
from utils.training import costs, digits, distributed, in_context, modifications, profiling, scaling
from utils.widgets import explore, lesson_charts, log_range, next_token

# %% tags=["nbval-check-output"]
torch.manual_seed(8)
torch.set_num_threads(1)
lesson("09")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Quadratic cost
#
# $n$ tokens make $n^2$ pairs of query and key, and attention scores them all. A recurrent network takes one step per token.

# %% slideshow={"slide_type": "-"}
quiz("9.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Counted
#
# Multiplications for one sequence of width $d=64$: recurrence is a GRU with its six weight matrices, attention starts from given $Q$, $K$, $V$. *Explicit* attention stores the weights, as in lesson 01.
# *Fused* attention computes scores, softmax and weighted sum in one compiled routine, a **kernel**, and never stores all weights: `attention(..., need_weights=False)`.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
print("                        formula      n = 512         1024         2048")
for kind in (costs.RECURRENCE, costs.EXPLICIT, costs.FUSED):
    counts = [costs.multiplications(kind, n) for n in (512, 1024, 2048)]
    print(f"{kind:18s} {costs.FORMULAS[kind]:>12s}", *(f"{count:12,}" for count in counts))

# %% slideshow={"slide_type": "subslide"}
quiz("9.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Measured
#
# One sequence, four heads, forward pass, on this machine. On log-log axes a power law is a straight line, and its slope is the exponent.

# %%
curves = costs.cost_curves()
slopes = {kind: costs.exponents(curve) for kind, curve in curves.items()}  # of time and memory
for kind in (costs.EXPLICIT, costs.FUSED):
    n, mib = curves[kind]["memory_lengths"][-1], curves[kind]["bytes"][-1] / 2**20
    print(f"{kind}: {mib:.3g} MiB for {n} tokens")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
basic = [costs.RECURRENCE, costs.EXPLICIT, costs.FUSED]
show(
    pictures.cost_curves(
        {kind: curves[kind] for kind in basic},
        "The fused kernel saves memory and time, but time still grows with n²",
        {kind: slopes[kind] for kind in basic},
    ),
    alt="Time and peak memory against length for recurrence, explicit and fused attention, with exponents.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Recurrence is linear, yet the slowest for short sequences: its steps wait for each other. Ask why the lines cross where they do.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Worked example: softmax in blocks
#
# How can memory be linear if softmax needs all scores? The kernel takes the keys in blocks and keeps two numbers and one vector per query
# ([Rabe and Staats, 2021](../docs/references.md#rabe2021)): the largest score $m$, the sum of exponentials $\ell$ and the weighted sum of values $o$. For a block
# with scores $s_j$ and values $v_j$:
#
# $$m'=\max(m,\max_js_j),\qquad\ell'=e^{m-m'}\ell+\sum_je^{s_j-m'},\qquad o'=e^{m-m'}o+\sum_je^{s_j-m'}v_j$$
#
# The output is $o/\ell$. Take scores $\ln1,\ln2,\ln3$ and values $6,0,2$: weights $\tfrac16,\tfrac26,\tfrac36$, output $1+0+1=2$.
#
# 1. **Block 1**, keys 1 and 2. $m=\ln2$, exponentials $\tfrac12$ and $1$: $\ell=1.5$, $o=\tfrac12\cdot6+1\cdot0=3$.
# 2. **Block 2**, key 3. $m'=\ln3$, so the old sums shrink by $e^{\ln2-\ln3}=\tfrac23$: $\ell=1.5\cdot\tfrac23+1=2$, $o=3\cdot\tfrac23+1\cdot2=4$.
# 3. **Output** $4/2=2$, exactly, and never more than two scores at a time.

# %% tags=["nbval-check-output"]
scores, values = torch.tensor([1.0, 2.0, 3.0]).log(), torch.tensor([6.0, 0.0, 2.0])
largest, total, output = torch.tensor(-torch.inf), 0.0, 0.0
for block in (slice(0, 2), slice(2, 3)):
    new_largest = torch.maximum(largest, scores[block].max())
    exponentials = (scores[block] - new_largest).exp()
    shrink = (largest - new_largest).exp()
    total = shrink * total + exponentials.sum()
    output = shrink * output + exponentials @ values[block]
    largest = new_largest
    print(f"m = ln {largest.exp():.0f}, sum {total:.2f}, weighted sum {output:.2f}")
print(f"output {output / total:.2f}, softmax over all scores {scores.softmax(0) @ values:.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **FlashAttention** ([Dao et al., 2022](../docs/references.md#dao2022)) does this on a GPU with tiles that fit into the fast on-chip memory. It is exact: the same
# multiplications forward, scores recomputed backward, far fewer reads and writes of slow memory. GPT-2 trained up to 3x faster than with HuggingFace's code (1.7x over Megatron-LM).

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room do block 2 alone. Without the maximum, exp overflows for scores of 100 (lesson 01).

# %% [markdown] slideshow={"slide_type": "-"}
# ### Longer sequences
#
# Stored, on a quiet machine, with $w=32$, $g=4$, $r=16$ and $k=64$, which section 2 explains. From 1,024 tokens on fused memory is a fixed buffer plus a linear part, so its exponent is below 1.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
quiet = stored("length_costs")
forward = {row["kind"]: row for row in quiet.result["rows"] if not row["backward"]}
names = ("kind", "multiplications (allowed pairs)", "exponent of time", "of memory", "ms at 4096")
quiet.table(
    names,
    [
        (
            kind,
            row["formula"],
            *(
                f"{fit['slope']:.2f} ± {fit['error']:.2f}"
                + (" (n ≤ 1024)" if lengths[-1] == 1024 else "")
                for fit, lengths in (
                    (row["long_time"], row["lengths"]),
                    (row["long_memory"], row["memory_lengths"]),
                )
            ),
            f"{row['ms'][row['lengths'].index(4096)]:.3g}",
        )
        for kind, row in forward.items()
    ],
)

# %% tags=["checks"]
assert abs(slopes[costs.EXPLICIT][1].slope - 2) < 0.1 and slopes[costs.FUSED][1].slope < 1.1
for kind, exponent in ((costs.EXPLICIT, 2), (costs.FUSED, 2), (costs.LOCAL, 1)):
    assert abs(forward[kind]["long_time"]["slope"] - exponent) <= 0.2
assert abs(output / total - 2) < 1e-6

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Sparse attention
#
# If $n^2$ pairs are too many, drop some. **Local attention** keeps a window of neighbors, **BigBird** adds a few global tokens and random keys, **Linformer** projects the $n$
# keys and values down to $k$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Local attention
#
# With a **window** $w$ ([Beltagy et al., 2020](../docs/references.md#beltagy2020); their $w$ counts both sides, ours one), token $i$ attends to the tokens from $i-w$ to $i+w$; with a causal mask, from
# $i-w$ to $i$.
#
# **Exercise 9.1.** Return a Boolean mask $(n,n)$, True = may attend. Row $i$ belongs to query $i$. A window longer than the sequence is allowed.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.1 · the local mask · easy · 6 min
def local_attention_mask(n, window, causal=False):
    """(n, n) bool; row i is True at the positions that token i may attend to."""
    ### BEGIN SOLUTION
    position = torch.arange(n)
    offset = position - position[:, None]  # (n, n): of key j from query i
    return (offset.abs() <= window) & ((offset <= 0) if causal else True)
    ### END SOLUTION


local_attention_mask = exercise("9.1").use(local_attention_mask)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.attention_patterns(
        {
            "full": torch.ones(48, 48, dtype=torch.bool),
            "local": local_attention_mask(48, 4),
            "local, causal": local_attention_mask(48, 4, causal=True),
            "BigBird-like": sparse_attention.bigbird_mask(48, 4, 2, 3),
        },
        "Which keys each query attends to, and how many scores are left",
        {"Linformer-like": sparse_attention.LinformerAttention(8, 2, 8, 48).projection.detach()},
    ),
    alt="Five patterns of 48 queries and keys: full, a band, half a band, a band with full rows, full columns and vertical bars, and eight projected keys.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask saves nothing
#
# A mask over the full matrix gives the correct output at the full cost: all pairs are scored. To save them, split the sequence into blocks of $w$ tokens. The
# window of a query in block $i$ reaches no farther than blocks $i-1$ and $i+1$:
#
# $$Q_i\in\mathbb{R}^{w\times d},\qquad K'_i=[K_{i-1};K_i;K_{i+1}]\in\mathbb{R}^{3w\times d}$$
#
# That makes $n/w$ score matrices of $w\times3w$, together $3nw$ scores.
#
# **Exercise 9.2.** Same result as `attention` with `local_attention_mask(n, window)`, at a cost linear in $n$.
#
# - Loop over blocks with slices, or pad to a multiple of `window` and compute all blocks at once. `attention(query, key, value, mask)` returns output and weights.
# - $n$ need not be a multiple of `window`, and `window` may exceed $n$. Return all $n$ tokens.
# - Mask keys outside the window, and padding.
# - No tensor of size $n\times n$, not even a mask: the check measures it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.2 · attention in blocks · hard · 30 min
def local_attention(query, key, value, window):
    """query, key, value (b, heads, n, d), window at least 1, to (b, heads, n, d); cost linear in n.

    The same as `attention` with `local_attention_mask`, and never a matrix of (n, n).
    """
    ### BEGIN SOLUTION
    n, w = query.size(2), window
    blocks = -(-n // w)  # the last one may be incomplete
    padding = blocks * w - n
    query = F.pad(query, (0, 0, 0, padding)).unflatten(2, (blocks, w))
    # A block of zeros at both ends; then windows of 3 w rows with stride w.
    key, value = (
        F.pad(x, (0, 0, w, w + padding)).unfold(2, 3 * w, w).transpose(-2, -1) for x in (key, value)
    )
    offset = torch.arange(-w, 2 * w) - torch.arange(w)[:, None]  # (w, 3 w)
    position = torch.arange(-w, 2 * w) + w * torch.arange(blocks)[:, None]  # (blocks, 3 w)
    inside = (position >= 0) & (position < n)
    output, _ = attention(query, key, value, (offset.abs() <= w) & inside[:, None])
    return output.flatten(2, 3)[:, :, :n]
    ### END SOLUTION


local_attention = exercise("9.2").use(local_attention)


# %% tags=["nbval-check-output"]
query, key, value = torch.randn(3, 2, 4, 50, 16)
expected, _ = attention(query, key, value, local_attention_mask(50, 6))
context = local_attention(query, key, value, 6)
print("equal to attention with the mask:", torch.allclose(context, expected, atol=1e-5))

# %% slideshow={"slide_type": "-"}
print("peak memory in MiB     n = 512      1024      2048      4096")
for name, run in (
    ("mask, all scores", lambda q, k, v, n: attention(q, k, v, local_attention_mask(n, 32))[0]),
    ("your blocks", lambda q, k, v, n: local_attention(q, k, v, 32)),
):
    peaks = []
    for n in (512, 1024, 2048, 4096):
        q, k, v = torch.randn(3, 1, 4, n, 16)
        peaks.append(profiling.peak_bytes(lambda: run(q, k, v, n)) / 2**20)  # noqa: B023
    print(f"{name:18s}", *(f"{peak:9.1f}" for peak in peaks))

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw four blocks of two tokens and mark the window of the third token: its own block and both neighbors, never a fourth.

# %% slideshow={"slide_type": "subslide"}
quiz("9.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Global tokens and random keys
#
# BigBird ([Zaheer et al., 2020](../docs/references.md#zaheer2020)) adds two kinds of keys to the windows. $g$ **global tokens** attend to all tokens, and all attend to
# them: two layers connect any two tokens. Each query (here: each block) also attends to $r$ **random keys**, drawn once. Per token that is at most $2w+1$ pairs in
# the window, $2g$ with global tokens (as key and as query) and $r$ random ones.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Projected keys
#
# Linformer ([Wang et al., 2020a](../docs/references.md#wang2020a)) multiplies keys and values by learned matrices $(k,n)$, here one for both, $E$:
#
# $$\operatorname{attention}(Q,\;EK,\;EV)$$
#
# $E$ has one column per position, so longer sequences than in training are impossible, and each projected key combines all positions, so a causal mask has no meaning.
#
# **Exercise 9.3** (optional). Implement the formula; `projection` is $E$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.3 · projected keys · easy · 5 min · optional
def few_keys(query, key, value, projection):
    """query, key, value (..., n, d), projection (k, n), to (..., n, d): n queries, k projected keys."""
    ### BEGIN SOLUTION
    output, _ = attention(query, projection @ key, projection @ value)
    return output
    ### END SOLUTION


few_keys = exercise("9.3").use(few_keys)


# %% tags=["nbval-check-output"]
context = few_keys(query, key, value, torch.randn(5, 50))
print("50 queries, 5 projected keys:", tuple(query.shape), "to", tuple(context.shape))
same = torch.allclose(
    few_keys(query, key, value, torch.eye(50)), attention(query, key, value)[0], atol=1e-5
)
print("with the identity as projection it is attention:", same)

# %% tags=["hide-input"]
linear = [costs.FUSED, costs.LOCAL, costs.BIGBIRD, costs.LINFORMER]
show(
    pictures.cost_curves(
        {kind: curves[kind] for kind in linear},
        "With a fixed number of keys per query, time and memory grow about linearly",
        {kind: slopes[kind] for kind in linear},
    ),
    alt="Time and peak memory against length for fused, local, BigBird-like and Linformer-like attention, with exponents.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How long is your text?
#
# A page has roughly 500 tokens, a novel roughly 150,000. Measured on a quiet machine: live times are noisy.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
measured = {
    kind: {
        "lengths": row["lengths"],
        "seconds": [ms / 1000 for ms in row["ms"]],
        "memory_lengths": row["memory_lengths"],
        "bytes": [mib * 2**20 for mib in row["mb"]],
    }
    for kind, row in forward.items()
}
span = (256, 262144)


def cost_of(length):
    return lesson_charts.cost_at_length(measured, length, span)


explore(
    cost_of,
    alt=lambda length: pictures.cost_words(measured, length),
    labels={"length": "tokens"},
    length=log_range(*span, 4096, steps=40),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is lost?
#
# **Associative recall**: 8 of 96 positions introduce a symbol with its number, such as *b = 3*; each of the others asks for the number of one symbol, *b?*. There are eight numbers, so
# a blind guess gets 12.5 %; the most frequent number of the sequence is right more often. The answer may stand far away, before or after. Two layers, windows of 8, 150 steps:

# %%
recall = {kind: costs.train_recall(kind) for kind in costs.LESSON_KINDS}
print("accuracy in %, chance 12.5     all   by distance to the pair, up to")
print(" " * 35, *(f"{band:6d}" for band in costs.BANDS))
for kind, row in recall.items():
    print(f"{kind:25s} {100 * row['accuracy']:8.0f}", end="  ")
    print(*(f"{100 * accuracy:6.0f}" for accuracy in row["by_distance"]))
print(f"{'most frequent number':25s} {100 * costs.most_frequent_accuracy():8.0f}")

# %% [markdown]
# All kinds, four times as many steps, median of three seeds:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
long_range = stored("long_range")
ranked = {"Linformer-like": f"Linformer-like, rank {costs.RECALL_RANK}"}
rows = {ranked.get(row["name"], row["name"]): row for row in long_range.result}
drawn = ("full attention", "local attention", "BigBird-like", *ranked.values(), "recurrence")
show(
    pictures.accuracy_by_distance(
        rows["full attention"]["bands"],
        {name: [percent / 100 for percent in rows[name]["by_distance"]] for name in drawn},
        "Local attention fails beyond its receptive field; global and random keys reach any distance",
        chance=rows["full attention"]["chance"] / 100,
        reach={8: "one window", 16: "two windows"},
    ),
    alt="Accuracy against distance to the pair for five kinds: local attention gets all answers up to 8 positions away, half of them (median) from 9 to 16, and is at chance beyond.",
)
print(long_range.label)

# %% tags=["hide-input"]
bands = [f"median, up to {band}" for band in rows["full attention"]["bands"]]
long_range.table(
    ("kind", "parameters", "accuracy in %, each seed", *bands),
    [
        (
            name,
            f"{row['parameters']:,}",
            ", ".join(f"{accuracy:.0f}" for accuracy in row["accuracies"]),
            *(f"{accuracy:.0f}" for accuracy in row["by_distance"]),
        )
        for name, row in rows.items()
    ],
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Beyond two windows, the **receptive field** of two layers, local attention is at chance: the answer cannot arrive. From 9 to 16 positions away the median seed finds half. The recurrence does no better than the most frequent number. Four layers could reach 32 positions but
# hardly learn to. Global tokens and random keys carry answers over any distance, not perfectly. In the table, a Linformer with $k=16$ projected keys (its *rank*) gets about half;
# with $k=100$, as many as positions and global tokens, it gets all and saves nothing.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the receptive field of 24 layers with a window of 512.

# %% tags=["checks"]
assert peaks[-1] < 10 * peaks[0]
assert recall[costs.FUSED]["accuracy"] > 0.9 > recall[costs.LOCAL]["accuracy"]
by_distance = {name: row["by_distance"] for name, row in rows.items()}
chance = rows["full attention"]["chance"]
median = {name: sorted(row["accuracies"])[1] for name, row in rows.items()}
assert min(by_distance["full attention"]) > 95 and chance == 12.5
assert max(by_distance["local attention"][2:]) < 2 * chance < 85 < min(by_distance["BigBird-like"])
assert by_distance["local attention"][2] < by_distance["local attention, 4 layers"][2] < 2 * chance
assert 40 < median["Linformer-like, rank 16"] < 60 < 99 < median["Linformer-like, rank 100"]
assert 25 < median["recurrence"] < 40

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Scaling laws
#
# A family of causal language models as in lesson 07, from 3,800 to 400,000 parameters, on Python's documentation. $N$ counts the parameters of the layers, $D$ the training
# tokens. Each parameter takes a multiplication and an addition per token, and the backward pass twice as much. So training takes about
#
# $$C\approx6\,N\,D$$
#
# floating-point operations ([Kaplan et al., 2020](../docs/references.md#kaplan2020)). Our $C$ also counts the output layer and the attention itself.

# %% slideshow={"slide_type": "-"}
quiz("9.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A short sweep
#
# Five models of two layers train on 100,000 tokens each; the largest is held out. Wider layers get smaller learning rates
# ([Yang et al., 2022](../docs/references.md#yang2022)): one rate for all would favor the size it suits.

# %% slideshow={"slide_type": "-"}
*sweep, larger_model = scaling.size_sweep(scaling.FAMILY[:5], [100_000], seeds=1)
sizes = torch.tensor([point["parameters"] for point in sweep], dtype=torch.float64)
losses = torch.cat([point["loss"] for point in sweep])
for point in sweep:
    print(f"layers x width {point['size']:7s} {point['parameters']:8,} parameters", end=", ")
    print(f"held-out loss {point['loss'].item():.3f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fitting a power law
#
# A **power law** is a straight line in the logarithms:
#
# $$y=a\,x^{-b}\quad\Longleftrightarrow\quad\log y=\log a-b\log x$$
#
# Least squares gives the slope $\operatorname{cov}(\log x,\log y)/\operatorname{var}(\log x)$, both with the same divisor, and the line passes through both means.
#
# **Exercise 9.4.** Return the coefficient $a$ and the exponent $b$, in this order. $b$ is minus the slope, and negative where $y$ grows.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.4 · a power law · medium · 10 min
def power_law_fit(x, y):
    """x, y (points,), all above 0, to coefficient a and exponent b of y = a x ** -b."""
    ### BEGIN SOLUTION
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return (y.mean() - slope * x.mean()).exp(), -slope
    ### END SOLUTION


power_law_fit = exercise("9.4").use(power_law_fit)


# %% tags=["nbval-check-output"]
x = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
coefficient, exponent = power_law_fit(x, 5 * x**-0.3)
print(f"coefficient {coefficient:.3f}, exponent {exponent:.3f}")
print(f"ten times x leaves {10**-exponent:.0%} of y")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Predict a held-out model
#
# Extrapolate your line to a larger model, trained but not fitted:

# %% slideshow={"slide_type": "-"}
coefficient, exponent = power_law_fit(sizes, losses)
larger_size, measured_loss = larger_model["parameters"], larger_model["loss"].item()
predicted = float(coefficient * larger_size**-exponent)
print(f"exponent {exponent:.3f}: twice the parameters, {1 - 2**-exponent:.1%} less loss")
print(f"{larger_size:,} parameters: predicted {predicted:.3f}, measured {measured_loss:.3f} nats")
print(f"relative error {abs(predicted - measured_loss) / measured_loss:.1%}, one seed")

# %% [markdown] slideshow={"slide_type": "notes"}
# Write the room's guesses on the board before running the cell.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Irreducible loss
#
# The stored sweep over parameters trains six times as long, with three seeds (text and compute: two) and a larger model that no fit includes. The line may level
# off, since text cannot be predicted perfectly and the number of training tokens is fixed:
#
# $$y=c+a\,x^{-b}$$
#
# with an **irreducible loss** $c$. Now $b$ describes only the part above $c$, so it is much larger than the slope of a straight line. The band comes from a **bootstrap**: add noise as large as the
# residuals to the curve, fit again, a thousand times.

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
scale = stored("scaling")
sweeps = scaling.fitted_sweeps(scale.result)
larger, longer = scale.result["larger"], scale.result["longer"]

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
fit = sweeps["parameters"]["with irreducible loss"]
show(
    pictures.scaling_curve(
        sweeps["parameters"]["x"],
        sweeps["parameters"]["loss"],
        "Each larger model gains less; the last predicted gain did not come",
        fit["law"],
        fit["held_out"],
    ),
    alt="Held-out loss against parameters, a power law with irreducible loss, its band, and a larger model: predicted to be better than the largest fitted one, measured to be equal.",
)
print(scale.label)

# %% tags=["hide-input"]
show(
    pictures.scaling_panels(
        {f"more {name}": sweep | sweep["with irreducible loss"] for name, sweep in sweeps.items()},
        f"Parameters alone level off near {fit['law']['irreducible_loss']:.2f} nats; longer training passes it",
    ),
    alt="Three panels: held-out loss against parameters, tokens of text (each seen 4 to 8 times) and compute, each with a fitted law.",
)
print(scale.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Choose a law
#
# The points already bend away from the straight line; extrapolated, the two laws differ by 0.13 nats. Which one predicted the larger model?


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def scaling_law(against, irreducible):
    return lesson_charts.scaling_law(sweeps, against, irreducible)


explore(
    scaling_law,
    alt=lambda against, irreducible: pictures.scaling_words(sweeps, against, irreducible),
    labels={"against": "loss against", "irreducible": "with irreducible loss"},
    against=list(sweeps),
    irreducible=True,
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
rows = []
runs = {
    "parameters": f"width {scaling.LARGER}",
    "compute": f"width {scaling.FAMILY[-1]}, twice the tokens",
}
for name, run in runs.items():
    for kind in scaling.LAWS:
        held_out = sweeps[name][kind]["held_out"]
        loss = fmean(held_out["measured"])
        predicted_range = (
            f"{held_out['value']:.3f} ({held_out['low']:.3f} to {held_out['high']:.3f})"
        )
        error = f"{100 * (held_out['value'] - loss) / loss:+.1f} %"
        rows.append((f"{name}, {kind}", run, predicted_range, f"{loss:.3f}", error))
scale.table(("power law in", "held-out run", "predicted (95 %)", "measured", "error"), rows)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With an irreducible loss the held-out runs are predicted within 1 %, which is still more than the predicted gain of the larger model. (Compute: fitted to the frontier, the lower convex hull of the runs on log-log axes, and tested on the better of two.) The straight line is 4 % (compute: 7 %) too low, its interval two
# to six times as wide. Parameters alone approach a limit; longer training (here, repeating the text) passes it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Large models
#
# [Kaplan et al. (2020)](../docs/references.md#kaplan2020) found such lines, some over seven orders of magnitude, with exponents of 0.076 for parameters, 0.095 for text and 0.050 for compute.
# [Hoffmann et al. (2022)](../docs/references.md#hoffmann2022) found that parameters and text should grow alike: about 20 tokens per parameter. Compare these exponents with your straight line, not with $b$
# above an irreducible loss.
#
# **Mixture of experts.** Parameters and compute need not grow together. A router sends each token to a few of many feed-forward networks, the **experts**
# ([Shazeer et al., 2017](../docs/references.md#shazeer2017)). Mixtral has 47 billion parameters and uses 13 billion per token, two of eight experts in each layer
# ([Jiang et al., 2024](../docs/references.md#jiang2024)). The memory for all experts is still needed.

# %% [markdown] slideshow={"slide_type": "notes"}
# SmolLM2-135M saw 2 trillion tokens, about 15,000 per parameter. The rule of 20 minimizes training compute, not the cost of running the model.

# %% tags=["checks"]
assert losses[-1] < losses[0] - 0.15
assert abs(predicted - measured_loss) / measured_loss < 0.05
curved, straight = (sweeps["parameters"][kind]["held_out"] for kind in scaling.LAWS)
larger_loss = fmean(larger["loss"])
means = [fmean(losses) for losses in sweeps["parameters"]["loss"]]
assert abs(curved["value"] / larger_loss - 1) < 0.01
assert abs(curved["value"] - straight["value"] - 0.13) < 0.005
assert curved["low"] < larger_loss < curved["high"]
assert 0.03 < 1 - straight["value"] / larger_loss < 0.06
assert means == sorted(means, reverse=True) and abs(larger_loss - means[-1]) < 0.01
beyond = fmean(longer["loss"]), fmean(sweeps["text"]["loss"][-1])
assert max(beyond) < fit["law"]["irreducible_loss"]
for name, error, wider in (("parameters", 0.04, 6), ("compute", 0.07, 2)):
    curved, straight = (sweeps[name][kind]["held_out"] for kind in scaling.LAWS)
    loss = fmean(straight["measured"])
    assert abs(curved["value"] / loss - 1) < 0.01
    assert abs(1 - straight["value"] / loss - error) < 0.005
    widths = [law["high"] - law["low"] for law in (straight, curved)]
    assert round(widths[0] / widths[1]) == wider

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Which modifications matter?
#
# Many recent models combine five changes to the Transformer of 2017: pre-norm (lesson 05), rotary positions (lesson 04;
# [Su et al., 2021](../docs/references.md#su2021)), and three that you build now: RMSNorm, SwiGLU and grouped-query attention.

# %% [markdown] slideshow={"slide_type": "-"}
# ### RMSNorm
#
# RMSNorm ([Zhang and Sennrich, 2019](../docs/references.md#zhang2019), equation 4, with $\varepsilon$ against division by 0) divides by the root mean square and does not subtract the mean:
#
# $$y=\frac{x}{\sqrt{\frac1d\sum_ix_i^2+\varepsilon}}\odot g$$
#
# **Exercise 9.5.** Implement it, for each token separately; `weight` is $g$, `eps` is $\varepsilon$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.5 · RMSNorm · easy · 5 min
def rms_norm(x, weight, eps=1e-5):
    """x (..., dim), weight (dim,), to (..., dim)."""
    ### BEGIN SOLUTION
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight
    ### END SOLUTION


rms_norm = exercise("9.5").use(rms_norm)


# %% tags=["nbval-check-output"]
x = torch.tensor([[1.0, 7.0], [10.0, 70.0]])  # mean squares 25 and 2500
normed = rms_norm(x, torch.ones(2))
print("rows", x.tolist(), "become", rounded(normed[0], 2), "and", rounded(normed[1], 2))
print(
    "equal to torch:", torch.allclose(normed, F.rms_norm(x, (2,), torch.ones(2), 1e-5), atol=1e-6)
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### SwiGLU
#
# The feed-forward network of lesson 04 is $\phi(xW)\,W_2$. **SwiGLU** ([Shazeer, 2020](../docs/references.md#shazeer2020), equation 6) multiplies each hidden unit $xV$ by a **gate**, a second
# function of the same input:
#
# $$\operatorname{SwiGLU}(x)=\bigl(\operatorname{silu}(xW)\odot xV\bigr)\,W_2,\qquad\operatorname{silu}(z)=z\cdot\operatorname{sigmoid}(z)$$
#
# By hand with width 1 and one unit: $x=2$, $W=1$, $V=3$, $W_2=0.5$ give $\operatorname{silu}(2)=2\cdot0.8808=1.7616$ and $1.7616\cdot6\cdot0.5=5.285$. Three matrices instead
# of two: at equal parameters the hidden dimension is two thirds.
#
# **Exercise 9.6.** Implement the equation, without biases. `F.silu` is SiLU; $\odot$ is elementwise.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.6 · SwiGLU · easy · 8 min
def swiglu(x, W, V, W_2):
    """x (..., dim); W, V (dim, hidden_dim), W_2 (hidden_dim, dim); to (..., dim)."""
    ### BEGIN SOLUTION
    return (F.silu(x @ W) * (x @ V)) @ W_2
    ### END SOLUTION


swiglu = exercise("9.6").use(swiglu)


# %% tags=["nbval-check-output"]
print("by hand:", rounded(swiglu(*torch.tensor([[[2.0]], [[1.0]], [[3.0]], [[0.5]]]))[0], 3))
layer, x = SwiGLU(dim=6, hidden_dim=10), torch.randn(2, 5, 6)
W, V = layer.linear1.weight.T.chunk(2, -1)  # the library keeps W and V in one matrix
same = torch.allclose(swiglu(x, W, V, layer.linear2.weight.T), layer(x), atol=1e-6)
print("equal to the library's layer:", same)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what a product of two linear functions can do that a ReLU cannot: multiply features, x squared for example.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One change at a time
#
# The **base** is lesson 07's causal model: pre-norm with LayerNorm, GELU, sinusoidal positions, tied embeddings. Each row makes one change, keeps the number of parameters (within 0.1 %) by another feed-forward dimension, and
# sees the same tokens in the same order. A short run with two seeds:

# %% slideshow={"slide_type": "-"}
for row in modifications.short_comparison():
    print(f"{row['change']:18s} loss of two seeds", rounded(row["loss"], 3))

# %% [markdown] slideshow={"slide_type": "subslide"}
# The stored runs are six times as long, with three seeds and the best of four learning rates for each change. Our yardstick for a result: it exceeds the range of the
# base's own seeds.

# %%
table = stored("modifications")
noise = modifications.seed_range(table.result)
larger_changes = modifications.beyond_seed_noise(table.result)
print(f"range of the base over {table.result['seeds']} seeds: {noise:.3f} nats")
num_changes = len(table.result["rows"]) - 1
print(f"{len(larger_changes)} of {num_changes} changes exceed it: {', '.join(larger_changes)}")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
base, *changed = table.result["rows"]
improvements = [
    (
        row["change"],
        [before - after for before, after in zip(base["seeds"], row["seeds"], strict=True)],
    )
    for row in changed
]
show(
    pictures.modification_effects(
        improvements, "Three changes exceed the range of the base's seeds, four do not", noise
    ),
    alt="How much lower the held-out loss is after each change, with all seeds, next to the range of the base's seeds.",
)
print(table.label)

# %% tags=["hide-input"]
table.table(
    (
        "change",
        "held-out loss, nats: median (range)",
        "mean improvement ± standard error",
        "times the base's learning rate",
        "parameters",
    ),
    [
        (
            row["change"],
            ranged(row["loss"], 3),
            f"{row['improvement']:+.3f} ± {row['standard_error']:.3f}" if row is not base else "",
            f"{row['factor']:g}",
            f"{row['parameters']:,}",
        )
        for row in table.result["rows"]
    ],
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The other four stay within 0.01 nats of the base on average. In T5 most of many changes did not
# help either; gated feed-forward networks and RMSNorm did ([Narang et al., 2021](../docs/references.md#narang2021)). Post-norm often fails with ten layers or more
# ([Takase et al., 2022](../docs/references.md#takase2022)). RMSNorm is chosen for speed: 7 to 64 % less running time, depending on the model (Zhang and Sennrich).

# %% [markdown] slideshow={"slide_type": "notes"}
# Vote on each change before the figure. RMSNorm is better in all three seeds, by 0.004 nats: a real difference can be too small to matter.

# %% tags=["checks"]
gains = {row["change"]: row["improvement"] for row in table.result["rows"]}
assert base["change"] == table.result["base"]
assert larger_changes == ["rotary positions", "untied embeddings", "SwiGLU"] and num_changes == 7
assert all(abs(gains[name]) < 0.01 for name in gains if name not in larger_changes)
assert min(dict(improvements)["RMSNorm"]) > 0

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · A published language model
#
# SmolLM2-135M-Instruct ([Ben Allal et al., 2025](../docs/references.md#benallal2025)) is a causal language model trained on 2 trillion tokens: 30 layers of width 576. One part is
# missing: its heads.

# %% [markdown] slideshow={"slide_type": "-"}
# ### Grouped-query attention
#
# The key-value cache of lesson 06 stores the keys and values of every token in every layer. In **grouped-query attention** (GQA,
# [Ainslie et al., 2023](../docs/references.md#ainslie2023)) $h$ query heads (`num_heads`) share $h_{kv}$ key-value heads (`num_kv_heads`):
#
# $$\operatorname{head}_i=\operatorname{attention}(Q_i,\;K_{\lfloor i\,h_{kv}/h\rfloor},\;V_{\lfloor i\,h_{kv}/h\rfloor})$$

# %% slideshow={"slide_type": "subslide"}
quiz("9.e")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.grouped_heads(
        9,
        {
            "multi-head attention, 9 key-value heads": 9,
            "grouped-query attention, 3 key-value heads": 3,
        },
        "A third of the key-value heads, a third of the cache",
        head_dim=64,
        num_layers=30,
    ),
    alt="Nine query heads with nine key-value heads, and with three, each shared by three neighbors.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 9.7.** Compute all heads.
#
# - Either repeat the key-value heads until there are `num_heads`, or group the query heads, `unflatten(1, (num_kv_heads, -1))`, and broadcast.
# - Neighbors share: with 6 and 2 heads, query heads 0, 1, 2 use key-value head 0.
# - `attention(query, key, value, mask)[0]` handles the mask; a fully masked row gives zeros.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.7 · grouped-query attention · medium · 12 min
def grouped_attention(query, key, value, mask=None):
    """query (b, num_heads, m, d), key, value (b, num_kv_heads, n, d), to (b, num_heads, m, d).

    mask (m, n) bool, True = may attend. num_kv_heads divides num_heads.
    """
    ### BEGIN SOLUTION
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return attention(query, key, value, mask)[0]
    ### END SOLUTION


grouped_attention = exercise("9.7").use(grouped_attention)


# %% tags=["nbval-check-output"]
layer = MultiHeadAttention(dim=24, num_heads=6, num_kv_heads=2)
x = torch.randn(2, 5, 24)
heads = layer.in_proj(x).unflatten(-1, (-1, 4)).transpose(1, 2)  # (b, 6 + 2 + 2, n, 4)
query, key, value = heads.split([6, 2, 2], 1)
context = grouped_attention(query, key, value, causal_mask(5))
output = layer.out_proj(context.transpose(1, 2).flatten(2))
same = torch.allclose(output, layer(x, mask=causal_mask(5))[0], atol=1e-5)
print("equal to the library's layer, which copies no keys:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The published weights
#
# One file, about 5 bits for most parameters. A table of names maps its tensors to the course's blocks.

# %% slideshow={"slide_type": "-"}
smol = None
if folder := fetch_or_say(SMOLLM2):
    smol = load_smollm2(folder)
    config = smol.model.config
    count = sum(parameter.numel() for parameter in smol.model.parameters())
    print(f"{count:,} parameters, {config.num_layers} layers, vocabulary of {config.vocab_size:,}")
print("in `EncoderLayer`              the published name, after 'blk.0.'")
for name, published in LLAMA.layer.items():
    print(f"{name:30s}", ", ".join(published))

# %% [markdown]
# Your `swiglu` with the published weights of its first layer, then completions:

# %%
if smol:
    layer, x = smol.model.encoder.layers[0].feed_forward, torch.randn(3, config.dim)
    W, V = layer.linear1.weight.T.chunk(2, -1)
    same = torch.allclose(swiglu(x, W, V, layer.linear2.weight.T), layer(x), atol=1e-4)
    print("your SwiGLU, equal to that of layer 0:", same)
    for prompt in ("The capital of France is", "Two plus two is", "The opposite of hot is"):
        best = smol.next_tokens(prompt, 4)
        print(f"{prompt} ...", "  ".join(f"{token!r} {prob:.0%}" for token, prob in best))

# %% tags=["hide-input"]
speed = stored("smollm2_speed")
speed.table(
    ("greedy decoding with the key-value cache, on two threads", ""),
    [
        ("tokens per second", f"{speed.result['tokens_per_second']:.1f}"),
        ("speedup over `generate` of `transformers`", f"{speed.result['generate']:.2f}x"),
        ("speedup over a bare loop over its model", f"{speed.result['loop']:.2f}x"),
    ],
)

# %% [markdown]
# `make test` compares its logits with those of `transformers`: they differ by at most 0.00002 of the largest logit.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Generate
#
# Temperature, top-k and top-p as in lesson 07.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if smol:
    view = next_token(
        smol.responder(),
        smol.tokenizer.tokens(range(len(smol.tokenizer))),
        "The robot opened the door and",
        next_token_probs,
        temperature=0.7,
        top_p=0.9,
        eos_ids=smol.eos_ids,
        title="A published language model on the blocks of this course",
    )
view if smol else None

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room guess the most probable next token before it is shown.

# %% [markdown] slideshow={"slide_type": "notes"}
# If the download is missing, show the stored replies of section 6.

# %% tags=["checks"]
if smol:
    assert smol.next_tokens("The capital of France is", 1)[0][0] == " Paris"
assert speed.result["generate"] >= 1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · From completion to chat
#
# A language model continues text. How does it become an assistant?

# %% [markdown] slideshow={"slide_type": "-"}
# ### The chat template
#
# The conversation is written as text. Special tokens mark where each **turn** begins and ends; its role is the first word. The prompt stops where the assistant's turn begins:

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
question = in_context.question_about("Germany")
print(chat_prompt(question))

# %% slideshow={"slide_type": "-"}
if smol:
    for name, text in (("without", question), ("with", chat_prompt(question))):
        best = smol.next_tokens(text, 3)
        tokens = "  ".join(f"{token!r} {prob:.0%}" for token, prob in best)
        print(f"most probable next tokens {name} the template: {tokens}")
    print("reply with the template:", in_context.reply(smol, question, template=True)[0])

# %% [markdown]
# The same for 28 countries, greedy decoding:

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
chat = stored("chat_template")
kinds = {"bare": "without the template", "template": "with the template"}
chat.table(
    ("prompt", "questions", "empty reply", "contains the capital"),
    [
        (
            name,
            len(chat.result[kind]),
            sum(row["reply"].strip() == "" for row in chat.result[kind]),
            sum(row["correct"] for row in chat.result[kind]),
        )
        for kind, name in kinds.items()
    ],
)

# %%
for row in chat.result["template"][1:5]:
    print(fill(f"{row['question']} {row['reply']}", 100, subsequent_indent="    "))

# %% [markdown] slideshow={"slide_type": "fragment"}
# After a bare question the most probable token ends the *user's* turn, so every reply is empty. The template opens the assistant's turn, and 22 of 28 replies contain the
# capital. Most are fluent, the wrong ones too.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Instruction and preference tuning
#
# **Instruction tuning** (supervised fine-tuning, SFT) trains the pretrained model on instructions with good replies, in the template. After tuning on many tasks a large model
# follows instructions for new ones ([Wei et al., 2022](../docs/references.md#wei2022)).
#
# **Preference tuning** uses comparisons: which of two replies is better? In **RLHF** a reward model learns the human preferences
# ([Christiano et al., 2017](../docs/references.md#christiano2017)), and reinforcement learning (lesson 01 has its simplest form, REINFORCE) raises the reward. People preferred a
# model of 1.3 billion parameters tuned in this way to GPT-3 with 175 billion ([Ouyang et al., 2022](../docs/references.md#ouyang2022)). **DPO**
# ([Rafailov et al., 2023](../docs/references.md#rafailov2023)) needs no reward model: it raises the log-probability of the preferred reply over the other, relative to the model
# before tuning. SmolLM2-Instruct had SFT, then DPO.

# %% [markdown] slideshow={"slide_type": "notes"}
# Tuning changes what the model does with its knowledge more than the knowledge itself. So do examples in the prompt.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### In-context learning
#
# Put solved examples into the prompt, and a model may continue the pattern: **few-shot** prompting ([Brown et al., 2020](../docs/references.md#brown2020)). No parameter changes.

# %% slideshow={"slide_type": "-"}
quiz("9.f")

# %% tags=["nbval-check-output"]
questions, examples = in_context.draw("opposites", seed=0)
print(in_context.prompt(examples[:2], questions[0][0]), "...")

# %%
if smol:
    for num_examples in (0, 1, 2, 4):
        correct = in_context.answered(smol, examples[:num_examples], questions)
        print(f"examples: {num_examples}   correct: {sum(correct)} of {len(correct)} opposites")

# %% [markdown]
# Four tasks, three prompt formats (`hot -> cold`, `Q: hot⏎A: cold`, `Input: hot⏎Output: cold`), five draws of examples and questions; an answer counts if greedy decoding starts with it.
# *Arbitrary labels* calls animals red and fruits blue. *Shuffled* permutes the answers of the examples (first format only). Lines are means, bands the range over formats and draws.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
few_shot = stored("in_context")
tasks = {
    row["task"]: {
        "correct": [sum(prompts, []) for prompts in zip(*row["accuracies"], strict=True)],
        "first format": row["accuracies"][0],
        "shuffled": row["shuffled"],
    }
    for row in few_shot.result["rows"]
}
show(
    pictures.in_context_curves(
        few_shot.result["num_examples"],
        tasks,
        "Examples help most with known tasks; arbitrary labels are hardly learned",
        chance={in_context.ARBITRARY: 50},
    ),
    alt="Four panels, accuracy against 0 to 16 examples. Capitals, opposites and plurals rise from 0 to above 80 %, arbitrary labels only to 62 %. In the same format, shuffled answers do no harm for capitals and much for opposites and plurals.",
)
print(few_shot.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without examples nothing is correct: the task is unknown. Sixteen examples raise each known task above 80 % on average; for opposites the format matters much. A
# mapping of arbitrary labels reaches 62 % on average (33 to 92), little above a coin toss. In the same format, shuffled answers do no harm for capitals, much as
# [Min et al. (2022)](../docs/references.md#min2022) found for classification and multiple choice, but ruin opposites and plurals. So examples help most where the task is
# known, and their answers may matter too.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room invent a mapping and type eight examples into the widget of section 5.

# %% tags=["checks"]
few_shot_means = {
    task: [fmean(prompts) for prompts in kinds["correct"]] for task, kinds in tasks.items()
}
shuffled_means = {task: fmean(kinds["shuffled"][-1]) for task, kinds in tasks.items()}
known = [task for task in tasks if task != in_context.ARBITRARY]
assert few_shot.result["num_examples"][0] == 0 and few_shot.result["num_examples"][-1] == 16
assert all(means[0] == 0 for means in few_shot_means.values())
assert all(few_shot_means[task][-1] > 80 for task in known)
arbitrary = tasks[in_context.ARBITRARY]["correct"][-1]
assert [round(x) for x in (fmean(arbitrary), min(arbitrary), max(arbitrary))] == [62, 33, 92]
first_format = {task: fmean(kinds["first format"][-1]) for task, kinds in tasks.items()}
assert shuffled_means["capitals"] >= first_format["capitals"]
assert min(first_format[task] for task in known[1:]) > 90
assert shuffled_means["capitals"] > 80 > 45 > max(shuffled_means[task] for task in known[1:])
assert all(row["reply"] == "" for row in chat.result["bare"])
assert (
    sum(row["correct"] for row in chat.result["template"]) == 22
    and len(chat.result["template"]) == 28
)
if smol:
    assert smol.next_tokens(question, 1)[0][0] == "<|im_end|>"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Attention outside text
#
# Attention takes a set of vectors; nothing in it knows about words. Cut an image into **patches**, embed each, and the encoder of lesson 05 classifies it.
#
# **Exercise 9.8.** Cut images into patches of `size` x `size` pixels.
#
# - Patches go row by row from the top left, and so do the pixels in each patch. `size` divides `side`.
# - Reshape to five axes: (b, patch row, row in the patch, patch column, column in the patch). Bring the two patch axes together, then flatten.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 9.8 · cut into patches · medium · 12 min
def patchify(images, size):
    """images (b, side, side) to (b, number of patches, size * size)."""
    ### BEGIN SOLUTION
    b, side, _ = images.shape
    rows = images.reshape(b, side // size, size, side // size, size)  # down, in it, across, in it
    return rows.transpose(2, 3).reshape(b, -1, size * size)
    ### END SOLUTION


patchify = exercise("9.8").use(patchify)


# %% tags=["nbval-check-output"]
image = torch.arange(16).view(1, 4, 4)
print(*image[0].tolist(), sep="\n")
print("patches of 2 x 2:", *patchify(image, 2)[0].tolist())

# %% slideshow={"slide_type": "subslide"}
quiz("9.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Digits
#
# 1,797 images of 8 x 8 pixels ([Alpaydin and Kaynak, 1998](../docs/references.md#alpaydin1998)), 360 of them held out. Sixteen patches, two layers of width 48:

# %%
data = digits.digit_images()
result = digits.train_digits()
print(f"{result['parameters']:,} parameters, held-out accuracy {result['accuracy'].mean():.1%}")
print(f"with the patches of each image in another order: {result['shuffled_accuracy'].mean():.1%}")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
model = digits.restore_digits(result)
fours = data.held_out_images[data.held_out_digits == 4]
image = next(image for image in fours if digits.explain_digit(model, image)["digit"] == 4)
explained = digits.explain_digit(model, image)
show(
    pictures.digit_attention(
        image,
        explained["attention_weights"],
        f"A {explained['digit']}: after two layers of attention, all patches contribute alike in this image",
        contributions=explained["contributions"],
        digit=explained["digit"],
    ),
    alt="A handwritten four, its sixteen patches, the attention each receives in both layers, and its contribution.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
image_rows = stored("digits")
image_rows.table(
    ("positions", "patch order", "accuracy, %", "each image shuffled differently, %"),
    [
        (
            row["positions"],
            "one shuffled order for all" if row["shuffled"] else "original",
            ranged(row["accuracy"]),
            ranged(row["shuffled_accuracy"]),
        )
        for row in image_rows.result
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With learned positions one shuffled order is as good as the original. Without positions the order of the patches cannot matter
# (these two rows differ in the order of the batches), and accuracy is lower.

# %% [markdown] slideshow={"slide_type": "notes"}
# A convolution has neighborhoods built in; the Transformer must learn them. Lesson 05 again: less structure, more data.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Elsewhere
#
# - **Images**: with enough photographs, patches match convolutional networks ([Dosovitskiy et al., 2021](../docs/references.md#dosovitskiy2021)). Trained to match images with their captions, an
#   image and a text encoder (at best, both Transformers) recognize classes they were never trained for ([Radford et al., 2021](../docs/references.md#radford2021)).
# - **Audio**: Whisper, an encoder-decoder Transformer on spectrograms, transcribes speech after training on 680,000 hours of it ([Radford et al., 2023](../docs/references.md#radford2023)).
# - **Proteins**: attention between amino acids predicted most structures of a blind test with near-experimental accuracy ([Jumper et al., 2021](../docs/references.md#jumper2021)).
# - **Code**: a language model trained on programs solved 29 % of 164 problems in one attempt ([Chen et al., 2021](../docs/references.md#chen2021)).
# - **Compilers**: from assembly code a Transformer predicted optimization options that cut instruction counts by 3.0 % over the compiler's own
#   ([Cummins et al., 2023](../docs/references.md#cummins2023)).

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what the tokens are in each of these.

# %% tags=["checks"]
assert torch.equal(patchify(data.images, 2), digits.patchify(data.images))
assert result["accuracy"].mean() >= 0.95
assert explained["contributions"].min() > 0.7 * explained["contributions"].max()
median = {
    (row["positions"], row["shuffled"]): row["accuracy"]["median"] for row in image_rows.result
}
assert abs(median["learned", True] - median["learned", False]) < 2
assert median["none", False] < median["learned", False] - 2

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8 · Several processes (optional)
#
# **Data parallelism**: every worker has the same parameters and computes the gradient of its part of each batch. The gradients are combined (**all-reduce**), and all take the
# same step.

# %%
quiz("9.h")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.shared_batch(2, 8, "Two workers split each batch and make the same step"),
    alt="A batch of eight rows split between two workers with the same model; their gradients are joined to one step.",
)

# %% [markdown]
# **Exercise 9.9** (optional). Worker $k$ has gradient $g_k$ of its *mean* loss over $c_k$ tokens. Return the gradient of the mean loss over all tokens,
# $\sum_kc_kg_k/\sum_kc_k$. Gradients have any shape; $c_k$ may be 0 ($g_k$ is then finite and counts nothing).


# %% tags=["nbval-check-output"]
# Exercise 9.9 · gradients of several workers · easy · 8 min · optional
def join_gradients(gradients, counts):
    """gradients (workers, ...), each of the mean loss over its worker's tokens; counts (workers,).

    Returns the gradient (...) of the mean loss over all tokens.
    """
    ### BEGIN SOLUTION
    weights = counts / counts.sum()
    return (gradients.movedim(0, -1) * weights).sum(-1)  # workers last, as in weights
    ### END SOLUTION


join_gradients = exercise("9.9").use(join_gradients)


# %% tags=["nbval-check-output"]
weight = torch.randn(6, 3, requires_grad=True)
inputs, targets = torch.randn(40, 6), torch.randint(3, (40,))


def gradient(rows):
    loss = F.cross_entropy(inputs[rows] @ weight, targets[rows])
    return torch.autograd.grad(loss, weight)[0]


whole = gradient(torch.arange(40))
by_worker = torch.stack([gradient(rows) for rows in torch.arange(40).split([10, 30])])
joined = join_gradients(by_worker, torch.tensor([10, 30]))
print("weighted by tokens, equal to the whole batch:", torch.allclose(joined, whole, atol=1e-6))
print("plain mean:", torch.allclose(by_worker.mean(0), whole, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Pretraining with two workers
#
# `utils.training.distributed` is the pretraining of lesson 07 as a command. `torchrun` starts it several times, and `DistributedDataParallel`
# ([Li et al., 2020](../docs/references.md#li2020)) combines the gradients. One of two workers is killed on the way: `torchrun` restarts both from the last saved step.

# %% slideshow={"slide_type": "-"}
compared = distributed.try_compare_workers()
if compared:
    print(*compared["log"], sep="\n")
    print(f"one process and two workers, {compared['num_steps']} losses: ", end="")
    print(f"relative difference at most {compared['difference']:.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The difference is rounding: sums in another order.

# %% [markdown] slideshow={"slide_type": "notes"}
# On several machines the same command runs on each.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what the kill costs: the steps since the last checkpoint.

# %% tags=["checks"]
if compared:
    assert compared["difference"] < 1e-4

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention scores $n^2$ pairs. A fused kernel (FlashAttention) makes memory linear; time stays quadratic.
# - A mask saves nothing; blocks do. Local attention is blind beyond its receptive field; global tokens and random keys are not.
# - Loss falls as a power law in parameters, text and compute, above a limit. A prediction needs an error bar.
# - Of seven modifications three exceeded the range of the base's seeds: rotary positions, untied embeddings, SwiGLU.
# - SmolLM2 is a decoder-only Transformer with five changes to that of 2017: pre-norm, rotary positions, RMSNorm, SwiGLU and grouped-query attention (and no biases).
# - A chat template turns completion into conversation. Examples in the prompt help most with a known task, without training.
#
# **Open question.** What should such models be asked to do, and how do we know that they did it? The map of the course:
# [lesson 00](00_start_here.ipynb).

# %% [markdown] slideshow={"slide_type": "notes"}
# Let everybody name one belief about Transformers that this course changed, and the cell that changed it.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - Cost: [Beltagy et al. (2020)](../docs/references.md#beltagy2020), [Dao et al. (2022)](../docs/references.md#dao2022), [Zaheer et al. (2020)](../docs/references.md#zaheer2020).
# - Scale: [Hoffmann et al. (2022)](../docs/references.md#hoffmann2022), [Kaplan et al. (2020)](../docs/references.md#kaplan2020).
# - Parts: [Ainslie et al. (2023)](../docs/references.md#ainslie2023), [Shazeer (2020)](../docs/references.md#shazeer2020).
# - Chat: [Brown et al. (2020)](../docs/references.md#brown2020), [Ouyang et al. (2022)](../docs/references.md#ouyang2022),
#   [Rafailov et al. (2023)](../docs/references.md#rafailov2023).
