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
# Every model so far was small and every text short. Here both grow. First what attention costs as a text gets longer, and what can be saved; then what a larger model, more text and
# more compute give. At the end the blocks of this course carry a real language model, and read images.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask how long a text their favourite assistant can read, and what that might cost. Plan: 30 minutes for cost, 25 for scale, 10 for the changes, 10 for several processes, 15 for the
# real model and the images.

# %% [markdown]
# **After this lesson you can**
#
# - say how time and memory of attention grow with the length, from measurements, and what a fused kernel changes about it;
# - write attention whose cost is linear, and show what it can no longer see;
# - fit a power law to losses, predict a larger model, and say how far off you were;
# - judge whether a change of the model matters, by several seeds at the same budget;
# - train with several processes and get the loss of one;
# - load a published language model into the blocks you built, and let it write.
#
# **You need** lessons 05 to 07. Section 6 uses a published model of 93 MB, which `make downloads` fetches once. Symbols and terms: [notation](../docs/notation.md).

# %%
import time
from statistics import fmean
from textwrap import fill

import torch

from utils.build.downloads import SMOLLM2, fetch_or_say
from utils.build.results import ranged, stored
from utils.checks.live import show_live
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attention, sparse_attention
from utils.models.attention import MultiHeadAttention, causal_mask
from utils.models.pretrained import LLAMA, chat_prompt, load_smollm2
from utils.plots import lesson09 as pictures
from utils.plots import show
from utils.training import costs, digits, distributed, modifications, profiling, scaling
from utils.widgets import explore, log_range, next_word

# %% tags=["nbval-check-output"]
torch.manual_seed(8)
torch.set_num_threads(1)
lesson("09")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · All pairs
#
# $n$ words make $n^2$ pairs, and attention scores each. A recurrent net takes one step for each word.

# %% slideshow={"slide_type": "subslide"}
quiz("9.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Counted
#
# Multiplications, counted by torch's FLOP counter, for one sequence of dimension $d = 64$. *Explicit* is the `attention` of lesson 01; *fused* is the same in one kernel of torch, which
# `attention` calls when the attention weights are not needed.

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
# One sequence, four heads, forward pass only, on this machine. On log-log axes a power law is a straight line, and its slope is the exponent.

# %% slideshow={"slide_type": "-"}
curves = costs.cost_curves()
slopes = {kind: costs.exponents(curve) for kind, curve in curves.items()}  # of time and memory
for kind in (costs.EXPLICIT, costs.FUSED):
    n, mib = curves[kind]["memory_lengths"][-1], curves[kind]["bytes"][-1] / 2**20
    print(f"{kind}: {mib:.0f} MiB for {n} tokens")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
basic = [costs.RECURRENCE, costs.EXPLICIT, costs.FUSED]
show(
    pictures.cost_curves(
        {kind: curves[kind] for kind in basic},
        "the fused kernel saves memory and time, but not the square",
        {kind: slopes[kind] for kind in basic},
    ),
    alt="Time and peak memory against length for recurrence, explicit and fused attention, with exponents.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The kernel goes through the keys block by block and keeps running sums, so the matrix of weights never exists ([Rabe and Staats, 2021](../docs/references.md#rabe2021);
# [Dao et al., 2022](../docs/references.md#dao2022)). Its memory grows no faster than the text. The pairs are all scored all the same: the time stays quadratic, with a speedup of several times.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Recurrence is linear, and at these lengths still slow: its steps must wait for each other. The same on a quiet machine, and with longer texts:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
quiet = stored("length_costs")
forward = {row["kind"]: row for row in quiet.result["rows"] if not row["backward"]}


def slope(fit):
    return f"{fit['slope']:.2f} ± {fit['error']:.2f}"


quiet.table(
    ("kind", "multiplications", "exponent of time", "of memory", "ms at 4096", "MiB"),
    [
        (
            kind,
            row["formula"],
            slope(row["long_time"]),
            slope(row["long_memory"]),
            f"{row['ms'][row['lengths'].index(4096)]:.3g}",
            f"{row['mb'][row['memory_lengths'].index(4096)]:.3g}"
            if 4096 in row["memory_lengths"]
            else "not measured",
        )
        for kind, row in forward.items()
    ],
)

# %% tags=["checks"]
assert abs(slopes[costs.EXPLICIT][1].slope - 2) < 0.1 and slopes[costs.FUSED][1].slope < 1.1
for kind, exponent in ((costs.EXPLICIT, 2), (costs.FUSED, 2), (costs.LOCAL, 1)):
    assert abs(forward[kind]["long_time"]["slope"] - exponent) <= 0.2

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Looking at less
#
# If all pairs are too many, some must go. Three ideas: look only at neighbours; look at neighbours, at a few words that everybody sees, and at a few by chance; or mix the keys into a few before
# looking.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Neighbours
#
# With a *window* of $w$ ([Beltagy et al., 2020](../docs/references.md#beltagy2020)), token $i$ attends to the tokens from $i - w$ to $i + w$; a causal one from $i - w$ to $i$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.1 · the local mask · easy · 5 min
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
        "which keys each query attends to, and how many scores are left",
        {"Linformer-like": sparse_attention.LinformerAttention(8, 2, 8, 48).projection.detach()},
    ),
    alt="Five patterns of 48 queries and keys: full, a band, half a band, a band with full rows, columns and dots, and eight projected keys.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A mask saves nothing
#
# A mask over the full matrix gives the right output at the full price: all pairs are scored, and most are thrown away. To save them, cut the text into blocks of $w$ words. A
# word of block $i$ sees no farther than the blocks $i - 1$ and $i + 1$:
#
# $$Q_i \in \mathbb{R}^{w \times d}, \qquad K'_i = [K_{i-1}; K_i; K_{i+1}] \in \mathbb{R}^{3w \times d}$$
#
# That makes $n / w$ small matrices of $w \times 3w$: together $3 n w$ scores. What is in a neighbouring block but outside the window, or outside the text, is masked.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.2 · attention in blocks · hard · 20 min
def local_attention(query, key, value, window):
    """query, key, value (b, heads, n, d), window at least 1, to (b, heads, n, d); cost n · window.

    The same as `attention` with `local_attention_mask`, and never a matrix of (n, n).
    """
    ### BEGIN SOLUTION
    n, w = query.size(2), window
    blocks = -(-n // w)  # the last one may be incomplete
    padding = blocks * w - n
    query = torch.nn.functional.pad(query, (0, 0, 0, padding)).unflatten(2, (blocks, w))
    # A block of zeros at both ends; then windows of 3 w rows with stride w.
    key, value = (
        torch.nn.functional.pad(x, (0, 0, w, w + padding)).unfold(2, 3 * w, w).transpose(-2, -1)
        for x in (key, value)
    )
    offset = torch.arange(-w, 2 * w) - torch.arange(w)[:, None]  # (w, 3 w)
    position = torch.arange(-w, 2 * w) + w * torch.arange(blocks)[:, None]  # (blocks, 3 w)
    inside = (position >= 0) & (position < n)
    output, _ = attention(query, key, value, (offset.abs() <= w) & inside[:, None])
    return output.flatten(2, 3)[:, :, :n]
    ### END SOLUTION


local_attention = exercise("9.2").use(local_attention)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
query, key, value = torch.randn(3, 2, 4, 50, 16)
expected, _ = attention(query, key, value, local_attention_mask(50, 6))
context = local_attention(query, key, value, 6)
print("the same as with the mask:", torch.allclose(context, expected, atol=1e-5))

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

# %% slideshow={"slide_type": "subslide"}
quiz("9.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A few that all see
#
# BigBird ([Zaheer et al., 2020](../docs/references.md#zaheer2020)) adds two things to the windows. *Global* words look at all and are seen by all: through one of them any two words are joined in
# two layers. And each block looks at some *random* places, drawn once. The cost stays linear: $2w + 1 + 2g + r$ pairs for a word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A few projected keys
#
# Linformer ([Wang et al., 2020a](../docs/references.md#wang2020a)) projects the $n$ keys and the $n$ values to $k$ each, with a learned matrix $E$; every query attends to all of them:
#
# $$\operatorname{attention}(Q,\; E K,\; E V), \qquad E: k \times n$$
#
# In code $E$ is `projection`. Since $E$ has a column for every position, a text longer than in training is refused; and since a projected key combines tokens from all positions, a causal mask has no meaning.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.3 · few keys · easy · 5 min
def few_keys(query, key, value, projection):
    """query, key, value (..., n, d), projection (k, n), to (..., n, d): n queries, k projected keys."""
    ### BEGIN SOLUTION
    output, _ = attention(query, projection @ key, projection @ value)
    return output
    ### END SOLUTION


few_keys = exercise("9.3").use(few_keys)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
projection = torch.randn(5, 50)
print("queries (b, heads, n, d)", tuple(query.shape), "and 5 projected keys in place of 50")
print("to", tuple(few_keys(query, key, value, projection).shape))
context = few_keys(query, key, value, torch.eye(50))
same = torch.allclose(context, attention(query, key, value)[0], atol=1e-5)
print("with the identity as projection it is attention:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
linear = [costs.FUSED, costs.LOCAL, costs.BIGBIRD, costs.LINFORMER]
show(
    pictures.cost_curves(
        {kind: curves[kind] for kind in linear},
        "with a fixed number of keys per query, time and memory are linear",
        {kind: slopes[kind] for kind in linear},
    ),
    alt="Time and peak memory against length for fused, local, BigBird-like and Linformer-like attention, with exponents.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How long is your text?
#
# A page has about 500 tokens, a novel some 150,000. Move the length and compare. Full dots were measured on a quiet machine; hollow ones are on the line drawn on.

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
    return pictures.cost_at_length(measured, length, span=span)


explore(
    cost_of,
    alt=lambda length: pictures.cost_words(measured, length),
    labels={"length": "tokens"},
    length=log_range(*span, 4096, steps=40),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What is lost?
#
# **Associative recall**, a task with long-range dependencies. Of 96 positions, 8 hold a key and a value; all others are queries for the value of one key. The pair may be anywhere. Two
# layers, windows of 8, and the same 150 steps for all.

# %% slideshow={"slide_type": "-"}
recall = {kind: costs.train_recall(kind) for kind in costs.LESSON_KINDS}
print("accuracy in %, 8 values             all   by distance to the pair, up to")
print(" " * 40, *(f"{band:6d}" for band in costs.BANDS))
for kind, row in recall.items():
    print(f"{kind:30s} {100 * row['accuracy']:8.0f}", end="  ")
    print(*(f"{100 * accuracy:6.0f}" for accuracy in row["by_distance"]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Four times as long, and three seeds:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
long_range = stored("long_range")
rows = {row["name"]: row for row in long_range.result}
drawn = ("full attention", "local attention", "BigBird-like", "Linformer-like", "recurrence")
show(
    pictures.accuracy_by_distance(
        rows["full attention"]["bands"],
        {name: [percent / 100 for percent in rows[name]["by_distance"]] for name in drawn},
        "local attention fails beyond its receptive field; global tokens connect any two",
        chance=rows["full attention"]["chance"] / 100,
        reach={8: "one window", 16: "two windows"},
    ),
    alt="Accuracy against distance to the pair for five kinds: local attention falls to chance beyond 16 positions.",
)
print(long_range.label)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
long_range.table(
    (
        "kind",
        "parameters",
        "accuracy in %, each seed",
        *(f"up to {band}" for band in rows["full attention"]["bands"]),
    ),
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

# %% [markdown] slideshow={"slide_type": "fragment"}
# Beyond two windows the answer cannot arrive, and the score is chance. Four layers could reach 32 places, and have hardly learned to. The global words carry answers over any distance,
# a little less surely than a direct look. Projected keys lose pairs that were summed into the same one: with 16 of them about half of the answers are correct, with as many as positions all, and then nothing
# is saved. The recurrent net, in both directions, keeps a third.

# %% tags=["checks"]
assert peaks[-1] < 10 * peaks[0]
assert recall[costs.FUSED]["accuracy"] > 0.9 > recall[costs.LOCAL]["accuracy"]
by_distance = {name: row["by_distance"] for name, row in rows.items()}
chance = rows["full attention"]["chance"]
median = {name: sorted(row["accuracies"])[1] for name, row in rows.items()}
assert min(by_distance["full attention"]) > 95
assert max(by_distance["local attention"][2:]) < 2 * chance < 85 < min(by_distance["BigBird-like"])
assert by_distance["local attention"][2] < by_distance["local attention, 4 layers"][2] < 2 * chance
assert 40 < median["Linformer-like, rank 16"] < 60 < 99 < median["Linformer-like, rank 100"]
assert 25 < median["recurrence"] < 40

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Does bigger stay better?
#
# A family of causal models, lesson 07's, from 3,800 parameters to 400,000, on Python's own English. Parameters are those of the blocks, $N$; the training text has $D$ tokens. Each parameter
# of a matrix takes a multiplication and an addition for each token, and the backward pass twice as much as the forward pass. So training takes about
#
# $$C \approx 6 \, N \, D$$
#
# operations ([Kaplan et al., 2020](../docs/references.md#kaplan2020)); here the output layer and the scores are counted in.

# %% slideshow={"slide_type": "subslide"}
quiz("9.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A short sweep, now
#
# Five models of two layers each train on the same 100,000 tokens. Matrices of wider models get smaller learning rates ([Yang et al., 2022](../docs/references.md#yang2022)), or the comparison
# would be one of learning rates.

# %% slideshow={"slide_type": "-"}
*sweep, larger_model = scaling.size_sweep(scaling.FAMILY[:6], [100_000], seeds=1)
sizes = torch.tensor([point["parameters"] for point in sweep], dtype=torch.float64)
losses = torch.cat([point["loss"] for point in sweep])
for point in sweep:
    print(f"layers x width {point['size']:7s} {point['parameters']:8,} parameters", end=", ")
    print(f"held-out loss {point['loss'].item():.3f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A straight line through logarithms
#
# A power law is a straight line on logarithmic axes:
#
# $$y = a \, x^{-b} \quad\Longleftrightarrow\quad \log y = \log a - b \log x$$
#
# Least squares give slope and height: the slope is the covariance of $\log x$ and $\log y$ over the variance of $\log x$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.4 · a power law · medium · 8 min
def power_law_fit(x, y):
    """x, y (points,), all above 0, to coefficient a and exponent b of y = a x ** -b."""
    ### BEGIN SOLUTION
    x, y = x.log(), y.log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return (y.mean() - slope * x.mean()).exp(), -slope
    ### END SOLUTION


power_law_fit = exercise("9.4").use(power_law_fit)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x = torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)
coefficient, exponent = power_law_fit(x, 5 * x**-0.3)
print(f"coefficient {coefficient:.3f}, exponent {exponent:.3f}")
print(f"ten times x leaves {10**-exponent:.0%} of y")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Predict a held-out model
#
# Your line through the five, drawn on to a model more than twice as large as the largest of them, which was trained as well.

# %% slideshow={"slide_type": "-"}
coefficient, exponent = power_law_fit(sizes, losses)
larger_size, measured = larger_model["parameters"], larger_model["loss"].item()
predicted = float(coefficient * larger_size**-exponent)
print(f"exponent {exponent:.3f}: twice the parameters, {1 - 2**-exponent:.1%} less loss")
print(f"{larger_size:,} parameters: predicted {predicted:.3f}, measured {measured:.3f} nats")
print(f"off by {abs(predicted - measured) / measured:.1%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How sure is that?
#
# One seed and five points say little about the error. The benchmark trained the whole family six times as long, with three seeds, and a larger model that no fit includes. The
# line may also level off: text cannot be predicted perfectly, so
#
# $$y = c + a \, x^{-b}$$
#
# with an **irreducible loss** $c$. The band is a bootstrap: noise is added to the curve a thousand times, and the law fitted again.

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
        "each larger model gains less, and the largest nothing more",
        fit["law"],
        fit["held_out"],
    ),
    alt="Held-out loss against parameters, a power law with irreducible loss, its band, and a larger model, predicted and measured.",
)
print(scale.label)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.scaling_panels(
        {f"more {name}": sweep | sweep["with irreducible loss"] for name, sweep in sweeps.items()},
        f"parameters alone level off near {fit['law']['irreducible_loss']:.2f} nats; text and compute continue",
    ),
    alt="Three panels: held-out loss against parameters, training tokens and compute, each with a fitted law.",
)
print(scale.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Choose a law
#
# With an irreducible loss or without: the points hardly tell them apart, but the extrapolations differ. Which one predicted the larger model?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}


def scaling_view(against, irreducible):
    return pictures.scaling_choice(sweeps, against, irreducible)


explore(
    scaling_view,
    alt=lambda against, irreducible: pictures.scaling_words(sweeps, against, irreducible),
    labels={"against": "loss against", "irreducible": "with irreducible loss"},
    against=list(sweeps),
    irreducible=True,
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
rows = []
for name in ("parameters", "compute"):
    for kind in scaling.LAWS:
        held_out = sweeps[name][kind]["held_out"]
        loss = fmean(held_out["measured"])
        rows.append(
            (
                f"{name}, {kind}",
                f"{held_out['value']:.3f} ({held_out['low']:.3f} to {held_out['high']:.3f})",
                f"{loss:.3f}",
                f"{100 * (held_out['value'] - loss) / loss:+.1f} %",
            )
        )
scale.table(("power law in", "predicted (95 %)", "measured", "error"), rows)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The law with an irreducible loss predicted the larger model to less than 1 %, and inside its interval; the straight line was too optimistic by 4 %. The text stayed the same while the
# models grew, and parameters alone came near a limit. With more text or compute the loss went below it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And large ones?
#
# [Kaplan et al. (2020)](../docs/references.md#kaplan2020) found such lines over seven orders of magnitude, with exponents of 0.076 for parameters, 0.095 for text and 0.050 for compute.
# [Hoffmann et al. (2022)](../docs/references.md#hoffmann2022) trained with schedules that end when the run ends, and found that parameters and text should grow alike: about 20 tokens of text
# for each parameter. Our exponents belong to this text and these sizes; a law tells nothing about what was not varied.

# %% tags=["checks"]
assert losses[-1] < losses[0] - 0.15
assert abs(predicted - measured) / measured < 0.05
curved, straight = (sweeps["parameters"][kind]["held_out"] for kind in scaling.LAWS)
larger_loss = fmean(larger["loss"])
means = [fmean(losses) for losses in sweeps["parameters"]["loss"]]
assert abs(curved["value"] / larger_loss - 1) < 0.01
assert curved["low"] < larger_loss < curved["high"]
assert 0.03 < 1 - straight["value"] / larger_loss < 0.06
assert means == sorted(means, reverse=True) and abs(larger_loss - means[-1]) < 0.01
beyond = fmean(longer["loss"]), fmean(sweeps["text"]["loss"][-1])
assert max(beyond) < fit["law"]["irreducible_loss"]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Which changes matter?
#
# Since 2017 nearly every part of the Transformer has been changed by somebody. Most models of today share four changes: rotary positions (lesson 04;
# [Su et al., 2021](../docs/references.md#su2021)), the norm before each part (lesson 05; [Xiong et al., 2020](../docs/references.md#xiong2020)), and two that are new here.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A norm without a mean
#
# RMS norm ([Zhang and Sennrich, 2019](../docs/references.md#zhang2019)) divides by the root mean square, and does not subtract the mean:
#
# $$\operatorname{rms\_norm}(x) = \frac{x}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}} \cdot g$$
#
# In code $g$ is `weight` and $\epsilon$ is `eps`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.5 · RMS norm · easy · 4 min
def rms_norm(x, weight, eps=1e-5):
    """x (..., dim), weight (dim,), to (..., dim)."""
    ### BEGIN SOLUTION
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight
    ### END SOLUTION


rms_norm = exercise("9.5").use(rms_norm)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x = torch.tensor([[3.0, 4.0], [30.0, 40.0]])
normed = rms_norm(x, torch.ones(2))
print("rows", x.tolist(), "become", [[round(value, 3) for value in row] for row in normed.tolist()])
print("mean square of each:", [round(row.square().mean().item(), 3) for row in normed])
reference = torch.nn.functional.rms_norm(x, (2,), torch.ones(2), 1e-5)
print("the same as torch:", torch.allclose(normed, reference, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A gate for each unit
#
# The feed-forward layer of lesson 04 was $W_2 \, \phi(W_1 x)$. With a gate (SwiGLU; [Shazeer, 2020](../docs/references.md#shazeer2020)) each hidden unit is multiplied by a second function of
# the same input:
#
# $$W_2 \, \bigl(\operatorname{silu}(G x) \odot W_1 x\bigr), \qquad \operatorname{silu}(z) = z \cdot \operatorname{sigmoid}(z)$$
#
# Three matrices in place of two: for the same number of parameters it gets two thirds of the hidden units.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One change at a time
#
# The same model with one thing changed, the same number of parameters up to 2 %, the same tokens in the same order. Here for two seeds and a third of the training:

# %% slideshow={"slide_type": "-"}
for row in modifications.short_comparison():
    improvements = ", ".join(f"{value:+.3f}" for value in row["improvement"].tolist())
    print(f"{row['change']:18s} loss {row['loss'].mean():.3f}, improvement {improvements} nats")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two seeds differ from each other by about as much as the changes from the base. Is that a result? The whole table has three seeds, and for each change the learning rate that suits it best:

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
table = stored("modifications")
base = next(row for row in table.result["rows"] if row["change"] == table.result["base"])
show(
    pictures.modification_effects(
        [
            (
                row["change"],
                [before - after for before, after in zip(base["seeds"], row["seeds"], strict=True)],
                row["standard_error"],
            )
            for row in table.result["rows"]
            if row is not base
        ],
        "rotary positions gain most; four changes are worth next to nothing here",
    ),
    alt="How much lower the held-out loss is after each change, with all seeds and twice the standard error.",
)
print(table.label)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
table.table(
    (
        "change",
        "held-out loss, nats",
        "improvement",
        "two standard errors",
        "learning rate factor",
        "parameters",
    ),
    [
        (
            row["change"],
            ranged(row["loss"], 3),
            f"{row['improvement']:+.3f}" if row is not base else "",
            f"{2 * row['standard_error']:.3f}" if row is not base else "",
            f"{row['factor']:g}",
            f"{row['parameters']:,}",
        )
        for row in table.result["rows"]
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Rotary positions gain most here, then untied embeddings, then SwiGLU. The other four differ from the base by less than 0.01 nats: nothing that would be worth a
# change at this size. That untied embeddings help is no general rule: with 500 tokens the embedding matrix is small, and a second one costs little.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What larger experiments found
#
# - **All**: of many changes tried in one setting, T5's, most do not help; gated feed-forward networks and RMSNorm are among the few that do
#   ([Narang et al., 2021](../docs/references.md#narang2021)).
# - **Activation**: gated feed-forward networks have a lower loss than those with ReLU or GELU, at equal parameters ([Shazeer, 2020](../docs/references.md#shazeer2020)).
# - **Norm**: RMSNorm is about as good as layer normalization; without subtracting the mean, models ran 7 to 64 % faster
#   ([Zhang and Sennrich, 2019](../docs/references.md#zhang2019)).
# - **Norm order**: post-norm has large gradients near the output at first and needs a warmup; pre-norm does well without one
#   ([Xiong et al., 2020](../docs/references.md#xiong2020)). With up to six layers, where both can be trained, post-norm ends better; with ten or more it often fails
#   ([Takase et al., 2022](../docs/references.md#takase2022)).
# - **Positions**: rotary position embeddings did better than the alternatives at classifying long texts ([Su et al., 2021](../docs/references.md#su2021)).
# - **Weight tying**: one embedding matrix for input and output lowers the perplexity of recurrent models, with far fewer parameters
#   ([Press and Wolf, 2017](../docs/references.md#press2017)); in large multilingual models untied embeddings allow parameters to be put where they help more
#   ([Chung et al., 2020](../docs/references.md#chung2020)).

# %% tags=["checks"]
gains = {row["change"]: row["improvement"] for row in table.result["rows"]}
assert gains["rotary positions"] > gains["untied embeddings"] > gains["SwiGLU"] > 0.02
assert all(
    abs(gains[name]) < 0.01 for name in ("ReLU", "RMSNorm", "post-norm", "learned positions")
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · More than one process
#
# When one machine is too slow, several share each batch. All hold the same parameters. Each computes the gradient of its own rows; the gradients are joined; all take the same step.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.shared_batch(2, 8, "two workers take half of each batch and make the same step"),
    alt="A batch of eight rows split between two workers with the same model; their gradients are joined to one step.",
)

# %% slideshow={"slide_type": "subslide"}
quiz("9.e")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.6 · gradients of several workers · easy · 5 min
def join_gradients(gradients, counts):
    """gradients (workers, ...), each of the mean loss over its worker's tokens; counts (workers,).

    Returns the gradient (...) of the mean loss over all tokens.
    """
    ### BEGIN SOLUTION
    weights = counts / counts.sum()
    return (gradients.movedim(0, -1) * weights).sum(-1)  # workers last, as in weights
    ### END SOLUTION


join_gradients = exercise("9.6").use(join_gradients)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
weight = torch.randn(6, 3, requires_grad=True)
inputs, targets = torch.randn(40, 6), torch.randint(3, (40,))


def gradient(rows):
    loss = torch.nn.functional.cross_entropy(inputs[rows] @ weight, targets[rows])
    return torch.autograd.grad(loss, weight)[0]


parts = torch.arange(40).split([10, 30])
joined = join_gradients(torch.stack([gradient(rows) for rows in parts]), torch.tensor([10, 30]))
whole = gradient(torch.arange(40))
print("joined, it is the gradient of the whole batch:", torch.allclose(joined, whole, atol=1e-6))
plain = torch.stack([gradient(rows) for rows in parts]).mean(0)
print("and so is the plain mean of the two:", torch.allclose(plain, whole, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Lesson 07's job, by two workers
#
# `utils.training.distributed` is the pretraining of lesson 07 as a command. Torch's own launcher, `torchrun`, starts it several times, and `DistributedDataParallel`
# ([Li et al., 2020](../docs/references.md#li2020)) joins the gradients. Here once alone and once as two workers. To make it harder, the second worker is killed on the way: the launcher starts
# both again, and they go on from the last checkpoint.

# %% slideshow={"slide_type": "-"}
compared = distributed.try_compare_workers()
if compared:
    print(*compared["log"], sep="\n")
    print(f"one process and two workers, {compared['num_steps']} losses: ", end="")
    print(f"relative difference at most {compared['difference']:.0e}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The difference is rounding: sums in another order. Nothing was lost by the kill but the steps since the checkpoint, which were done again. On several machines the same command runs on
# each, with the address of the first; the README says how.

# %% tags=["checks"]
if compared:
    assert compared["difference"] < 1e-4

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · A real language model
#
# SmolLM2-135M-Instruct ([Ben Allal et al., 2025](../docs/references.md#benallal2025)) is a causal model that others trained, on 2 trillion tokens of text, and published: 30 layers of
# width 576. Of the parts it is made of you have built all but one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Heads that share keys
#
# The cache of lesson 06 keeps keys and values of every word in every layer. *Grouped* heads ([Ainslie et al., 2023](../docs/references.md#ainslie2023)) keep fewer: several query heads look
# with queries of their own at the same keys and values.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.grouped_heads(
        9,
        {
            "multi-head attention, 9 key-value heads": 9,
            "grouped-query attention, 3 key-value heads": 3,
        },
        "a third of the keys, a third of the cache",
        head_dim=64,
        num_layers=30,
    ),
    alt="Nine query heads with nine key-value heads, and with three, each shared by three neighbors.",
)

# %% slideshow={"slide_type": "subslide"}
quiz("9.f")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.7 · shared keys and values · medium · 10 min
def grouped_attention(query, key, value, mask=None):
    """query (b, num_heads, m, d), key, value (b, num_kv_heads, n, d), mask (m, n), to (b, num_heads, m, d).

    Neighboring query heads share a key-value head: with 6 and 2, heads 0 to 2 use the first.
    """
    ### BEGIN SOLUTION
    group = query.size(1) // key.size(1)
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    return attention(query, key, value, mask)[0]
    ### END SOLUTION


grouped_attention = exercise("9.7").use(grouped_attention)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
layer = MultiHeadAttention(dim=24, num_heads=6, num_kv_heads=2)
x = torch.randn(2, 5, 24)
heads = layer.in_proj(x).unflatten(-1, (-1, 4)).transpose(1, 2)  # (b, 6 + 2 + 2, n, 4)
query, key, value = heads.split([6, 2, 2], 1)
context = grouped_attention(query, key, value, causal_mask(5))
output = layer.out_proj(context.transpose(1, 2).flatten(2))
same = torch.allclose(output, layer(x, mask=causal_mask(5))[0], atol=1e-5)
print("the same as the library's layer, which copies no keys:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The published weights
#
# One file, 4 bits for most numbers. A mapping of eight names puts them into the course's blocks: RMSNorm, rotary positions, SwiGLU, grouped-query attention, the causal mask, tied
# embeddings.

# %% slideshow={"slide_type": "-"}
smol = None
if folder := fetch_or_say(SMOLLM2):
    smol = load_smollm2(folder)
    config = smol.model.config
    count = sum(parameter.numel() for parameter in smol.model.parameters())
    print(
        f"{count:,} parameters, {config.num_layers} layers, dim {config.dim}, vocabulary of {config.vocab_size:,}"
    )
print("in `EncoderLayer`              the published name, after 'blk.0.'")
for name, published in LLAMA.layer.items():
    print(f"{name:30s}", ", ".join(published))

# %% slideshow={"slide_type": "subslide"}
if smol:
    for prompt in ("The capital of France is", "Two plus two is", "The opposite of hot is"):
        best = smol.next_tokens(prompt, 4)
        print(f"{prompt} ...", "  ".join(f"{token!r} {prob:.0%}" for token, prob in best))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### It writes
#
# With the key-value cache of lesson 06: each new token is processed once, and its keys and values are kept.

# %% slideshow={"slide_type": "-"}
if smol:
    prompt = chat_prompt("What is attention in a neural network? Answer in one sentence.")
    started = time.perf_counter()
    generated = smol.generate(prompt, 40, temperature=0)
    show_live(f"{len(generated) / (time.perf_counter() - started):.0f} tokens per second")
    print(fill(smol.tokenizer.decode(generated), 80))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
speed = stored("smollm2_speed")
speed.table(
    ("greedy decoding with the cache, on two threads", ""),
    [
        ("tokens per second", f"{speed.result['tokens_per_second']:.1f}"),
        ("speedup over `generate` of `transformers`", f"{speed.result['generate']:.2f}x"),
        ("speedup over a bare loop over its model", f"{speed.result['loop']:.2f}x"),
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# `make test` compares its logits with those of the `transformers` library, to 0.001 of the largest. Fluent is not right: ask it something you know.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Let it go on
#
# Temperature, top-k ([Fan et al., 2018](../docs/references.md#fan2018)) and top-p ([Holtzman et al., 2020](../docs/references.md#holtzman2020)) as in lesson 07. What changes if you begin with
# a question, a recipe, a line of code?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if smol:
    view = next_word(
        smol.responder(),
        smol.tokenizer.tokens(range(len(smol.tokenizer))),
        "The robot opened the door and",
        temperature=0.7,
        top_p=0.9,
        eos_ids=smol.eos_ids,
        text_of=lambda prompt, generated: prompt + smol.tokenizer.decode(generated),
        title="a real language model on the blocks of this course",
    )
view if smol else None

# %% tags=["checks"]
if smol:
    assert smol.next_tokens("The capital of France is", 1)[0][0] == " Paris"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Not only text
#
# Nothing in attention knows that it reads words. It reads a set of vectors. Cut an image into patches, make a vector of each, and the encoder of lesson 05 reads it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 9.8 · cut into patches · medium · 8 min
def patchify(images, size):
    """images (b, side, side) to (b, number of patches, size * size).

    Patches row by row from the top left, and so the pixels in each patch.
    """
    ### BEGIN SOLUTION
    b, side, _ = images.shape
    rows = images.reshape(b, side // size, size, side // size, size)  # down, in it, across, in it
    return rows.transpose(2, 3).reshape(b, -1, size * size)
    ### END SOLUTION


patchify = exercise("9.8").use(patchify)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
image = torch.arange(16.0).view(1, 4, 4)
print(*image[0].int().tolist(), sep="\n")
print("patches of 2 x 2:", *patchify(image, 2)[0].int().tolist())

# %% slideshow={"slide_type": "subslide"}
quiz("9.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Digits
#
# 1,797 images of 8 x 8 pixels ([Alpaydin and Kaynak, 1998](../docs/references.md#alpaydin1998)) that scikit-learn ships; 360 are held out. Sixteen patches, two layers of width 48.

# %% slideshow={"slide_type": "-"}
data = digits.digit_images()
result = digits.train_digits()
print(f"{result['parameters']:,} parameters, held-out accuracy {result['accuracy'].mean():.1%}")
print(f"with the patches of each image in another order: {result['shuffled_accuracy'].mean():.1%}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
model = digits.restore_digits(result)
fours = data.held_out_images[data.held_out_digits == 4]
image = next(image for image in fours if digits.explain_digit(model, image)["digit"] == 4)
explained = digits.explain_digit(model, image)
show(
    pictures.digit_attention(
        image,
        explained["attention_weights"],
        f"a {explained['digit']}: after two layers of attention, all patches contribute alike",
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
# With learned positions one shuffled order is as good as the true one: that patches are neighbours is nowhere in the model, and all it needs is that each place keeps its meaning. Without
# positions the order does not matter at all, and less is right.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Elsewhere
#
# **Images**: the same on photographs, with enough of them, matches convolutional networks ([Dosovitskiy et al., 2021](../docs/references.md#dosovitskiy2021)). **Images and text together**: two Transformers, one for each,
# trained so that an image and its caption get like vectors, recognise classes they were never trained for ([Radford et al., 2021](../docs/references.md#radford2021)). **Proteins**: attention between amino acids, and between
# related sequences, predicted the shapes of most proteins of a blind test about as exactly as experiments find them ([Jumper et al., 2021](../docs/references.md#jumper2021)). **Code**: a language model trained on further
# text of programs wrote, in one attempt, a right function for 29 % of 164 problems ([Chen et al., 2021](../docs/references.md#chen2021)).

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
# ## What to remember
#
# - All pairs: time grows with the square of the length. A fused kernel saves the memory, not the square.
# - A mask saves nothing; blocks do. What cannot be seen cannot be learned: windows are blind beyond their reach.
# - Loss falls with parameters, text and compute along power laws. A fit predicts, with an error that should be reported with it.
# - Most changes of a part are smaller than the noise of one seed.
# - Several workers learn what one learns, if gradients are weighted by what each has read.
# - A real language model is the blocks of this course, with four changes.
#
# **What is left open.** What such models should be asked to do, and how to tell whether they did it, no scaling law says. You have all the parts to look inside.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room name one thing that they believed about Transformers before lesson 01 and no longer believe, and the cell that changed their mind.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - T. Dao et al., [*FlashAttention*](../docs/references.md#dao2022), 2022: exact attention without the matrix of weights; M. Rabe, C. Staats,
#   [*Self-attention does not need $O(n^2)$ memory*](../docs/references.md#rabe2021), 2021.
# - I. Beltagy, M. Peters, A. Cohan, [*Longformer*](../docs/references.md#beltagy2020), 2020: windows; M. Zaheer et al., [*Big Bird*](../docs/references.md#zaheer2020), 2020; S. Wang et al.,
#   [*Linformer*](../docs/references.md#wang2020a), 2020.
# - J. Kaplan et al., [*Scaling laws for neural language models*](../docs/references.md#kaplan2020), 2020, arXiv:2001.08361.
# - J. Hoffmann et al., [*Training compute-optimal large language models*](../docs/references.md#hoffmann2022), 2022, arXiv:2203.15556.
# - G. Yang et al., [*Tensor programs V*](../docs/references.md#yang2022), 2022, arXiv:2203.03466: learning rates that fit every width.
# - B. Zhang, R. Sennrich, [*Root mean square layer normalization*](../docs/references.md#zhang2019), 2019; N. Shazeer, [*GLU variants improve Transformer*](../docs/references.md#shazeer2020),
#   2020; J. Su et al., [*RoFormer*](../docs/references.md#su2021), 2021.
# - J. Ainslie et al., [*GQA: training generalized multi-query Transformer models*](../docs/references.md#ainslie2023), 2023: grouped heads.
# - S. Li et al., [*PyTorch Distributed: experiences on accelerating data parallel training*](../docs/references.md#li2020), 2020.
# - L. Ben Allal et al., [*SmolLM2: when smol goes big*](../docs/references.md#benallal2025), 2025: the published model.
# - A. Dosovitskiy et al., [*An image is worth 16x16 words*](../docs/references.md#dosovitskiy2021), 2021; A. Radford et al.,
#   [*Learning transferable visual models from natural language supervision*](../docs/references.md#radford2021), 2021.
# - J. Jumper et al., [*Highly accurate protein structure prediction with AlphaFold*](../docs/references.md#jumper2021), 2021; M. Chen et al.,
#   [*Evaluating large language models trained on code*](../docs/references.md#chen2021), 2021.
