# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 01 · Softmax attention
#
# **How can a network look something up and still be trained?**
#
# A Python `dict` returns the value whose key equals the query. The result does not change smoothly with the query, so no
# gradient can train the query or the keys. **Attention** is a differentiable lookup: it compares the query with *all* keys
# and returns a weighted average of *all* values. You build it here, and every later lesson uses it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what a `dict` does with a misspelled key. The lesson goes from "key not found" to "every key contributes". Plan 90
# minutes: 15 for lookup and the worked example, 20 for softmax and cross-entropy, 20 for soft lookup, 7 for the Jacobian,
# 16 for masks, 12 for the regression.

# %% [markdown]
# **After this lesson you can**
#
# - explain query, key and value, and compute a soft lookup by hand;
# - write a numerically stable softmax, and say what shift and temperature do;
# - compute the Jacobian of softmax and the gradients of cross-entropy and attention;
# - write `attend` and `attention` for batches, with a mask of the right shape;
# - train an attention model, and explain why it must not see its own target.
#
# **You need** matrix products, the idea of a gradient, and lesson 00. Symbols and terms: [notation](../docs/notation.md).
# When the text asks a question, guess before you run the next cell.

# %% tags=["nbval-check-output"]
import difflib

import torch
import torch.nn.functional as F

from utils.data.curves import LEFT, NOISE, RIGHT, noisy_curves, true_curve
from utils.data.house import cut_patches, little_house
from utils.exercises import board, exercise, lesson, quiz
from utils.plots import lesson01 as plots
from utils.plots import show
from utils.plots.text import digits
from utils.training.regression import fixed_bandwidth_error, learn_bandwidth, mean_error
from utils.widgets import charts, explore, guess_weights, lesson_charts, plane

torch.manual_seed(1)
torch.set_num_threads(1)
lesson("01")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · From a `dict` to query, key and value
#
# A lookup compares a **query** with **keys** and returns **values**. In a `dict` the query must equal a key exactly.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
price = {"apple": 3.0, "pear": 4.0, "plum": 6.0}
print('price["apple"]  :', price["apple"])
print('"aple" in price :', "aple" in price)

# %% [markdown] slideshow={"slide_type": "subslide"}
# A **search engine** gives every key a **score** and returns the value of the best one. Here the keys are titles, the
# values are videos, and the score counts shared words.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
videos = {
    "how to bake bread": "video 1",
    "how to tune a bike": "video 2",
    "songs about bread and rain": "video 3",
}
query_words = {"bake", "good", "bread", "at", "home"}
scores = {title: len(query_words & set(title.split())) for title in videos}
print(scores)
print("returned:", videos[max(scores, key=scores.get)])


# %% [markdown] slideshow={"slide_type": "subslide"}
# A **fuzzy hash table** returns a weighted average of all values. The **weight** of a key is its spelling similarity,
# divided by the sum of all similarities. Will the price of *apple* still be 3?


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
def similarity(word):
    return torch.tensor([difflib.SequenceMatcher(None, word, key).ratio() for key in price])


prices = torch.tensor(list(price.values()))
for word in ("apple", "aple", "plu"):
    weights = similarity(word) / similarity(word).sum()
    print(f"{word:6s} weights {digits(weights)}   price {weights @ prices:.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A typing error no longer fails. But poor matches get too much weight: even the correct *apple* costs too much.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Soft attention** replaces the words by vectors and the spelling similarity by a dot product. The vectors can be
# learned, so the network learns what counts as a match.
#
# | | query | keys | score | result | a gradient reaches |
# |---|---|---|---|---|---|
# | `dict` | word | words | equal or not | one value | the returned value |
# | search engine | phrase | titles | shared words | one value | the returned value |
# | fuzzy hash table | word | words | spelling similarity | average of the values | all values |
# | soft attention | vector | vectors | dot product | average of the values | values, keys and query |

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the table column by column. The last column is the reason for the whole lesson: only soft attention can train its
# query and its keys. Section 5 computes that gradient.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room guess the three prices before the fuzzy cell runs. Most expect exactly 3 for the correct spelling.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Worked example: three keys, two dimensions
#
# The score of key $k_i$ is its dot product with the query $q$. Dot products can be negative, so take exponentials before
# dividing by the sum. This is **softmax**. The output $o$ is the weighted average of the values $v_i$:
#
# $$s_i = k_i \cdot q, \qquad p_i = \frac{\exp s_i}{\sum_j \exp s_j}, \qquad o = \sum_i p_i\, v_i$$
#
# With $q = (2, 1)$ and three key-value pairs, every number fits on paper:
#
# | $i$ | $k_i$ | $s_i = k_i \cdot q$ | $\exp s_i$ | $p_i$ | $v_i$ | $p_i\, v_i$ |
# |---|---|---|---|---|---|---|
# | 1 | (1, 0) | 2·1 + 1·0 = 2 | 7.389 | 7.389 / 11.107 = 0.665 | (10, 0) | (6.65, 0) |
# | 2 | (0, 1) | 2·0 + 1·1 = 1 | 2.718 | 2.718 / 11.107 = 0.245 | (0, 10) | (0, 2.45) |
# | 3 | (1, -2) | 2·1 + 1·(-2) = 0 | 1 | 1 / 11.107 = 0.090 | (10, 10) | (0.90, 0.90) |
# | sum | | | 11.107 | 1 | | **(7.55, 3.35)** |

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
query = torch.tensor([2.0, 1.0])
keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -2.0]])
values = torch.tensor([[10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])

scores = keys @ query
exponentials = scores.exp()
weights = exponentials / exponentials.sum()
output = weights @ values

print("scores      ", digits(scores, 3))
print("exponentials", digits(exponentials, 3), " sum", digits(exponentials.sum(), 3))
print("weights     ", digits(weights, 3), " sum", digits(weights.sum(), 3))
print("output      ", digits(output))

# %% [markdown] slideshow={"slide_type": "notes"}
# Do the table on the board before the cell runs. Keep it there: the logits 2, 1, 0 and the weights 0.665, 0.245, 0.090
# return in sections 3, 4 and 5.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what happens to the output if a fourth pair with a very negative score is added: nothing visible. And if all scores
# grow by 1? That is quiz 1.a.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Softmax
#
# Softmax turns any numbers $z_1, \dots, z_n$, called **logits**, into a probability distribution:
#
# $$p_i = \operatorname{softmax}(z)_i = \frac{\exp z_i}{\sum_j \exp z_j}$$
#
# All $p_i$ are positive and sum to 1. In attention the logits are the scores.

# %% slideshow={"slide_type": "-"}
quiz("1.a")


# %% [markdown] slideshow={"slide_type": "notes"}
# Hands up for each option before anyone commits. "More uniform" confuses a shift with temperature.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
def naive_softmax(logits):
    return logits.exp() / logits.exp().sum()


logits = torch.tensor([2.0, 1.0, 0.0])
for shift in (0, 10, 80, 100):
    print(f"shift {shift:3d}:", naive_softmax(logits + shift))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Softmax is **shift invariant**: $\exp(z_i + c) = \exp(c) \exp(z_i)$, and $\exp(c)$ cancels. But in 32-bit floating
# point $\exp(z)$ overflows above about $z = 88.7$, and infinity divided by infinity is NaN (not a number). The cure is a
# shift by $c = -\max_j z_j$. Then the largest exponential is $\exp(0) = 1$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 1.1.** Write a stable softmax with a **temperature** $T$.
#
# $$p_i = \frac{\exp(z_i / T)}{\sum_j \exp(z_j / T)}$$
#
# - `logits` and the result have shape (..., n). Every row along the last axis is its own distribution.
# - Logits may be as large as about 1000 or as small as about -1000. The result is never NaN. Here and in 1.2, 1.3 and 1.5 to 1.7
#   the check compares gradients as well as values.
# - So divide by $T$, then subtract the maximum of *each row*.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.1 · a stable softmax · easy · 8 min
def softmax(logits, temperature=1.0):
    """Logits (..., n) to probabilities (..., n); each row along the last axis sums to 1."""
    ### BEGIN SOLUTION
    scaled = logits / temperature
    exponentials = (scaled - scaled.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)
    ### END SOLUTION


softmax = exercise("1.1").use(softmax)

# %% tags=["nbval-check-output"]
print("naive: ", naive_softmax(logits + 1000))
print("stable:", softmax(logits + 1000))
rows = 100 * torch.randn(2, 3, 5)
print("equal to torch:", torch.allclose(softmax(rows, 0.5), F.softmax(rows / 0.5, dim=-1)))

# %% [markdown] slideshow={"slide_type": "notes"}
# Eight minutes alone. Two common mistakes: no `keepdim`, and the maximum of the whole tensor. Show the message for one of
# them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Temperature
#
# A high temperature makes the distribution nearly uniform. A low one puts almost all probability on the largest logit.

# %% slideshow={"slide_type": "-"}
four_logits = torch.tensor([1.0, 2.0, 0.5, -1.0])
labels = [f"z = {logit:g}" for logit in four_logits]
panels = {f"T = {t:g}": softmax(four_logits, t) for t in (10.0, 1.0, 0.1)}
show(
    plots.bar_panels(panels, labels, "a high temperature flattens, a low one selects"),
    alt="Softmax of the logits 1, 2, 0.5 and -1: nearly equal at temperature 10, "
    "peaked at 1, all on the second at 0.1.",
)

# %% [markdown]
# The fuzzy hash table again, now with softmax at $T = 0.1$. The price of *apple* is almost correct, even misspelled:

# %% tags=["nbval-check-output"]
for word in ("apple", "aple", "plu"):
    weights = softmax(similarity(word), temperature=0.1)
    print(f"{word:6s} weights {digits(weights)}   price {weights @ prices:.2f}")


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def softmax_bars(temperature, z1, z2, z3):
    logits = torch.tensor([z1, z2, z3])
    p = softmax(logits, temperature)
    labels = [f"z{i + 1} = {logits[i]:.2f}" for i in range(3)]
    title = f"T = {temperature:.1f}: the largest probability is {p.max():.2f}"
    return charts.bars(labels, p, title, ylabel="probability")


explore(
    softmax_bars,
    alt="Bars of the softmax of three logits at the chosen temperature.",
    page="softmax",
    temperature=(0.1, 5.0, 0.1, 1.0),
    z1=(-3.0, 3.0, 0.25, 2.0),
    z2=(-3.0, 3.0, 0.25, 1.0),
    z3=(-3.0, 3.0, 0.25, 0.0),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Live: with equal logits the temperature changes nothing. At T = 0.1 the switch happens within a few multiples of T.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Softmax approximates argmax, not max
#
# As $T \to 0$, all probability moves to the *index* of the largest logit, if there is only one: softmax is a soft **argmax**. The smooth version of
# the maximum itself is the **log-sum-exp**, $T \log \sum_j \exp(z_j / T)$. It exceeds the maximum by at most $T \log n$.
# Softmax is the gradient of log-sum-exp.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
z = torch.tensor([1.0, 3.0, 2.0])
for temperature in (2.0, 0.5, 0.05):
    p = softmax(z, temperature)
    log_sum_exp = temperature * torch.logsumexp(z / temperature, 0)
    print(f"T = {temperature:<4}  p = {digits(p, 3)}  log-sum-exp = {log_sum_exp:.3f}")
print(f"argmax = {z.argmax()}, max = {z.max():.0f}")

z.requires_grad_()
(gradient,) = torch.autograd.grad(torch.logsumexp(z, 0), z)
print("softmax is the gradient of log-sum-exp:", torch.allclose(gradient, softmax(z)))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Permutation equivariance
#
# Permute the logits, and the probabilities are permuted in the same way: softmax is **permutation equivariant**. The
# numerator of $p_i$ depends on $z_i$ alone, and the denominator is a sum, which has no order.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
z, order = torch.randn(6), torch.randperm(6)
same = torch.allclose(softmax(z[order]), softmax(z)[order])
print("softmax(permuted) equals permuted softmax:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A classifier head, and its loss
#
# The output layer of a classifier, its **head**, also compares one vector with the rows of a matrix:
# $p = \operatorname{softmax}(U q)$. There $q$ is the network's representation of the input and row $i$ of $U$
# belongs to class $i$.
#
# The loss of a classifier is the **cross-entropy**. Let $y$ be **one-hot**: 1 at the correct class $c$, otherwise 0. Then
#
# $$L = -\sum_i y_i \log p_i = -\log p_c = \log \textstyle\sum_j \exp z_j - z_c, \qquad
# \frac{\partial L}{\partial z} = p - y$$
#
# The gradient of the log-sum-exp is $p$, and $-z_c$ contributes $-y$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand, with the logits 2, 1, 0 for the classes 0, 1, 2: the log-sum-exp is $\log 11.107 = 2.408$. The
# loss is 2.408 - 2 = 0.408 if class 0 is correct, 1.408 for class 1, and 2.408 for class 2. If class 1 is correct, the
# gradient is (0.665, 0.245 - 1, 0.090): a gradient step raises logit 1 and lowers the others.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
logits = torch.tensor([2.0, 1.0, 0.0], requires_grad=True)
p = softmax(logits)
for correct in range(3):
    torch_loss = F.cross_entropy(logits, torch.tensor(correct))  # takes logits, not probabilities
    print(f"class {correct} correct: -log p = {-p[correct].log():.3f}, torch {torch_loss:.3f}")

y = torch.tensor([0.0, 1.0, 0.0])
(gradient,) = torch.autograd.grad(-(y * p.log()).sum(), logits)
print("p - y   ", digits((p - y).detach(), 3))
print("autograd", digits(gradient, 3))

# %% tags=["checks"]
assert torch.tensor(88.7).exp().isfinite() and torch.tensor(88.8).exp().isinf()
assert torch.allclose(torch.logsumexp(logits, 0), torch.tensor(2.408), atol=1e-3)

# %% [markdown] slideshow={"slide_type": "notes"}
# Compute the three losses on the board: they differ by exactly 1, like the logits. Then ask for the sign of each component
# of the gradient before the cell runs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Soft lookup
#
# **Exercise 1.2.** Turn the worked example into a function, for one query $q$ of width $d$, keys $K$ (n, d) and values
# $V$ (n, e):
#
# $$p = \operatorname{softmax}(K q), \qquad o = \sum_i p_i\, v_i = p\, V$$
#
# - The scores are plain dot products, without a scale factor. They can exceed 200, so use your `softmax`.
# - Return two tensors: the output (e,) and the weights (n,).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.2 · soft lookup · easy · 6 min
def soft_lookup(query, keys, values):
    """query (d,), keys (n, d), values (n, e) to the output (e,) and the weights (n,)."""
    ### BEGIN SOLUTION
    weights = softmax(keys @ query)
    return weights @ values, weights
    ### END SOLUTION


soft_lookup = exercise("1.2").use(soft_lookup)

# %% tags=["nbval-check-output"]
output, weights = soft_lookup(query, keys, values)
print("worked example: weights", digits(weights, 3), " output", digits(output))
torch_output = F.scaled_dot_product_attention(query[None], keys, values, scale=1.0)[0]
print("equal to torch:", torch.allclose(output, torch_output))

lookup_inputs = [x.clone().requires_grad_() for x in (query, keys, values)]
gradients = torch.autograd.grad(soft_lookup(*lookup_inputs)[0].sum(), lookup_inputs)
for name, gradient in zip(("query", "keys", "values"), gradients, strict=True):
    print(f"norm of the gradient at the {name}: {gradient.norm():.2f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Six minutes in pairs. The most instructive mistake is to average the keys instead of the values.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Guess the weights
#
# The query is (2, 0). The keys are A at (1, 0), B at (0, 1) and C at (-1, 0).

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
guess_keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
_, weights = soft_lookup(torch.tensor([2.0, 0.0]), guess_keys, guess_keys)
labels = ["A (1, 0)", "B (0, 1)", "C (-1, 0)"]
guess_weights(labels, weights, question="The query is (2, 0). What are the attention weights?")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Drag the query
#
# Each key is also its own value. Drag the query, or use the arrow keys. Can you bring the output onto A? Outside the polygon
# of the keys? Can E get the largest weight?

# %% [markdown]
# Then drag the target and press **Train**. Separate the values and train again: in which direction do the keys move?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
named_keys = {
    "A": (2.0, 0.5),
    "B": (-0.5, 2.0),
    "C": (-2.0, -1.0),
    "D": (1.0, -2.0),
    "E": (0.3, 0.2),
}


def respond(query, keys, values, temperature):
    return soft_lookup(query / temperature, keys, values)


plane(
    respond,
    keys=named_keys,
    query=(-0.6, 1.2),
    target=(1.2, 0.9),
    extent=3,
    temperature=(0.2, 3.0, 0.1, 1.0),
    title="Where does the output go?",
)

# %% [markdown]
# The output is an average of the values, so it stays inside their polygon. It approaches a corner only if the query is
# long or the temperature low: doubling the query does the same as halving $T$. E lies inside the polygon, so in every
# direction some other key has a larger dot product. The gradient of $k_i \cdot q$ with respect to $k_i$ is $q$: with
# separate values, keys move parallel to the query.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the output on a key (impossible for a query of finite norm), then
# outside the polygon (impossible for any query).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Dot product or cosine
#
# The dot product grows with the norms of both vectors. The **cosine** depends on the angle alone:
#
# $$\cos(q, k_i) = \frac{q \cdot k_i}{\lVert q \rVert \, \lVert k_i \rVert}$$
#
# **Exercise 1.3.** Compute the cosine of one query with every key.
#
# - `query` has shape (d,), `keys` (n, d), the result (n,). No vector is zero.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.3 · cosine scores · easy · 5 min
def cosine_scores(query, keys):
    """query (d,), keys (n, d) to the cosine of the query with each key (n,)."""
    ### BEGIN SOLUTION
    return keys @ query / (keys.norm(dim=-1) * query.norm())
    ### END SOLUTION


cosine_scores = exercise("1.3").use(cosine_scores)

# %% [markdown]
# Three keys: a short one almost in the direction of the query, a long one at 45 degrees, and one opposite. Which wins by
# dot product, and which by cosine?

# %% tags=["nbval-check-output"]
one_query = torch.tensor([1.0, 0.0])
three_keys = torch.tensor([[1.0, 0.1], [3.0, 3.0], [-1.0, 0.0]])
by_dot, by_cosine = three_keys @ one_query, cosine_scores(one_query, three_keys)
print("dot product:", digits(by_dot), " best key:", by_dot.argmax().item())
print("cosine:     ", digits(by_cosine), " best key:", by_cosine.argmax().item())
same = torch.allclose(by_cosine, F.cosine_similarity(three_keys, one_query, dim=-1))
print("equal to torch:", same)

# %% [markdown]
# The long key wins the dot product. Attention uses it anyway: it needs no normalization, and a network can learn
# the norm of a key.

# %% slideshow={"slide_type": "subslide"}
quiz("1.b")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
cosines = {}
for d in (2, 8, 64, 512):
    first, second = torch.randn(2, 5000, d)
    cosines[d] = F.cosine_similarity(first, second, dim=-1)

show(
    plots.cosine_histograms(cosines),
    alt="Histograms of the cosine of two random vectors: spread over -1 to 1 in 2 dimensions, "
    "a narrow peak at 0 in 512.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The standard deviation of the cosine is $1/\sqrt d$: in high dimension random vectors are **nearly orthogonal**.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why attention scales its scores
#
# Let all components of $q$ and $k$ be independent, with mean 0 and variance 1. Then $q \cdot k$ is a sum of $d$ terms,
# each with variance 1, so its standard deviation is $\sqrt d$. Guess how much weight the best of 16 random keys gets when $d = 512$, although no key matches the query.

# %% slideshow={"slide_type": "subslide"}
largest_weights = {}
print("  d   std of q·k   largest weight by q·k   q·k / sqrt(d)   cosine")
for d in (2, 8, 64, 512):
    random_queries, random_keys = torch.randn(1000, 1, d), torch.randn(1000, 16, d)
    dots = (random_queries * random_keys).sum(-1)  # (1000, 16)
    cosine = F.cosine_similarity(random_queries, random_keys, dim=-1)
    largest = [softmax(s).amax(-1).mean().item() for s in (dots, dots * d**-0.5, cosine)]
    largest_weights[d] = largest
    print(f"{d:3d} {dots.std():9.1f} {largest[0]:19.2f} {largest[1]:18.2f} {largest[2]:13.2f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# At $d = 512$ the plain dot product puts almost all weight on one arbitrary key. The softmax is **saturated**: for most
# queries it passes on almost no gradient (section 5). The cosine has the opposite problem: its weights approach the uniform $1/16$. Dot
# products divided by $\sqrt d$ have standard deviation 1 in every dimension. Lesson 02
# passes `scale=1` to its network, and lesson 03 does not scale its scores, as in their papers.

# %% [markdown] slideshow={"slide_type": "notes"}
# Quiz 1.b first, then the histogram, then ask for the standard deviation of the dot product itself: the norms are about
# sqrt(d) each, the cosine about 1/sqrt(d), so the product is about sqrt(d).

# %% tags=["checks"]
for d, cosine in cosines.items():
    assert abs(cosine.std() * d**0.5 - 1) < 0.1, (
        "the standard deviation of the cosine is 1 / sqrt(d)"
    )
assert largest_weights[512][0] > 0.9 and abs(dots.std() / 512**0.5 - 1) < 0.1
assert abs(largest_weights[512][2] - 1 / 16) < 0.01
assert abs(largest_weights[512][1] - largest_weights[8][1]) < 0.05, (
    "with 1 / sqrt(d) the width makes no difference"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · The Jacobian: how attention learns
#
# Move one logit from -5 to 5 while the other two stay at 0 and 1. The derivative of its softmax probability is positive
# everywhere. The derivative of argmax is 0, and undefined at the jump.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
z1 = torch.linspace(-5, 5, 201, requires_grad=True)
rows = torch.stack([z1, torch.zeros(201), torch.ones(201)], dim=-1)  # (201, 3)
soft = softmax(rows)[:, 0]
(soft_derivative,) = torch.autograd.grad(soft.sum(), z1)
hard = (rows.argmax(-1) == 0).float()
hard_derivative = torch.diff(hard) / torch.diff(z1.detach())  # (200,), between the points

show(
    plots.value_and_derivative(z1, soft, hard, soft_derivative, hard_derivative),
    alt="Left: the softmax probability rises as an S, the argmax jumps at 1. "
    "Right: the derivative of softmax is a bump, that of argmax is 0 except at the jump.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **Jacobian** $J$ contains all derivatives of the probabilities with respect to the logits. The derivative of
# $\log p_i = z_i - \log \sum_k \exp z_k$ with respect to $z_j$ is $\delta_{ij} - p_j$, where $\delta_{ij}$ is 1 if $i = j$
# and 0 otherwise. Multiply by $p_i$, since $\partial p_i = p_i\, \partial \log p_i$:
#
# $$J_{ij} = \frac{\partial p_i}{\partial z_j} = p_i\,(\delta_{ij} - p_j)$$
#
# **Exercise 1.4.** Compute $J$ from the probabilities.
#
# - `p` (n,) is the output of a softmax, not the logits. The result has shape (n, n).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.4 · the Jacobian of softmax · medium · 10 min
def softmax_jacobian(p):
    """p (n,), the output of a softmax, to J (n, n) with J[i, j] = dp[i] / dz[j]."""
    ### BEGIN SOLUTION
    return torch.diag(p) - torch.outer(p, p)
    ### END SOLUTION


softmax_jacobian = exercise("1.4").use(softmax_jacobian)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
logits = torch.tensor([2.0, 1.0, 0.0])
jacobian = softmax_jacobian(softmax(logits))
by_autograd = torch.autograd.functional.jacobian(softmax, logits)

print(jacobian.numpy().round(3))
print("equal to autograd:", torch.allclose(jacobian, by_autograd, atol=1e-6))
print("sum of each row:   ", digits(jacobian.sum(1)))
print("sum of each column:", digits(jacobian.sum(0)))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Both sums are 0, for different reasons. Row $i$ sums the effects of all logits on $p_i$. If all logits rise together,
# $p_i$ stays the same, by shift invariance. Column $j$ sums the effects of $z_j$ on all probabilities. They always sum to
# 1, so the effects cancel.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room find the two reasons. A frequent wrong answer gives "probabilities sum to one" for the rows. J is symmetric,
# but the two statements are different.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The gradient with respect to the query
#
# Write $p = \operatorname{softmax}(\text{scale} \cdot K q)$ as a column, so that $o = V^\top p$ and the average key is
# $\bar k = K^\top p$. In matrix form $J = \operatorname{diag}(p) - p\, p^\top$. By the chain rule,
#
# $$\frac{\partial o}{\partial q} = \text{scale} \cdot V^\top J\, K
# = \text{scale} \cdot \Big( \sum_i p_i\, v_i\, k_i^\top - o\, \bar k^\top \Big)
# = \text{scale} \cdot \operatorname{Cov}_p(v, k)$$
#
# The gradient, an (e, d) matrix, is the scale times the **covariance** of values and keys, with the attention weights as probabilities. When
# $q$ moves, keys that lie farther than average in that direction gain weight, and the output moves toward their values.

# %% [markdown] slideshow={"slide_type": "subslide"}
# By hand, for the first component of value and key in the worked example (scale 1): the averages are $o_1 = 7.55$ and
# $\bar k_1 = 0.665 + 0.090 = 0.755$, and the average product is $0.665 \cdot 10 + 0.090 \cdot 10 = 7.55$. The covariance is
# $7.55 - 7.55 \cdot 0.755 = 1.85$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
output, weights = soft_lookup(query, keys, values)
gradient = values.T @ softmax_jacobian(weights) @ keys  # (e, d)
centered_values, centered_keys = values - output, keys - weights @ keys
covariance = (weights[:, None] * centered_values).T @ centered_keys

print(gradient.numpy().round(2))
print("equal to the covariance:", torch.allclose(gradient, covariance, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Does a larger scale always give a larger gradient?


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
def scaled_output(query, scale):
    return soft_lookup(scale * query, keys, values)[0]


for scale in torch.tensor([1.0, 2.0, 5.0, 20.0]):
    _, weights = soft_lookup(scale * query, keys, values)
    gradient = scale * values.T @ softmax_jacobian(weights) @ keys
    by_autograd, _ = torch.autograd.functional.jacobian(scaled_output, (query, scale))
    same = torch.allclose(gradient, by_autograd, atol=1e-5)
    print(f"scale {scale:2.0f}: largest weight {weights.max():.3f}", end="   ")
    print(f"norm of the gradient {gradient.norm():.3f}   equal to autograd: {same}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# A saturated softmax puts almost all probability on one key. The covariance vanishes, and with it the gradient. This is why
# scores must not be too large.

# %% [markdown] slideshow={"slide_type": "notes"}
# Derive the covariance on the board; it takes two lines. Ask when the gradient is exactly zero: all keys equal, or all
# values equal, or one weight equal to 1.

# %% tags=["checks"]
assert gradient.norm() < 1e-3
assert torch.allclose(jacobian.sum(1), torch.zeros(3), atol=1e-6)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · Masks and batches: `attend` and `attention`
#
# Two functions carry the rest of the course. The first, `attend`, takes any scores $S$, one row per query and one column
# per key:
#
# $$W = \operatorname{softmax}(S), \qquad O = W V$$
#
# A boolean **mask** restricts which keys a query may attend to: `True` means "may attend". Where it is `False`, the score
# becomes minus infinity *before* the softmax. Since $\exp(-\infty) = 0$, masked keys get weight 0 and the other weights
# still sum to 1. If all keys of a query are masked, its weights and output are zero, never NaN.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The axis of the mask
#
# A batch holds $b$ **sequences** (such as sentences), so its scores have shape (b, m, n): sequence, query, key. Sequences of
# different length share a tensor by **padding**: dummy keys fill the short ones. A mask of shape (b, n) excludes them. It lacks the query axis. Broadcasting aligns shapes *from the right*:
#
# | mask | aligned with scores (b, m, n) | meaning |
# |---|---|---|
# | (m, n) | (1, m, n) | one mask for all sequences |
# | (b, n) | (1, **b**, n) | **wrong**: the batch axis is read as the query axis |
# | (b, n), then `unsqueeze(-2)` | (b, 1, n) | one row per sequence, for all its queries |
#
# `unsqueeze(-2)` inserts an axis of length 1 before the last. The wrong version raises an error only if $b$ and $m$ differ
# and both exceed 1. Otherwise it runs, and if the sequences' masks differ it gives wrong weights.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 1.5.** Write `attend(scores, value, mask=None)`.
#
# - `scores` (..., m, n), `value` (..., n, e). The boolean `mask` broadcasts to the scores: (..., m, n), (m, n) or
#   (b, 1, n). `None` masks nothing. (A mask of keys gets its axis before the call, not inside `attend`.)
# - Return the output (..., m, e) and the weights (..., m, n), each row a softmax over the keys.
# - A masked key has weight 0. A fully masked row has zero weights and a zero output; its plain softmax would be 0/0.
# - Scores range from about -200 to 200, also masked ones. Do not change the inputs.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 1.5 · masked softmax and weighted sum · medium · 15 min
def attend(scores, value, mask=None):
    """Masked softmax of the scores, then the weighted sum of the values.

    scores (..., m, n), value (..., n, e), mask bool, broadcast to (..., m, n), True = may attend,
    to output (..., m, e) and weights (..., m, n). A fully masked row gives zeros.
    """
    ### BEGIN SOLUTION
    if mask is None:
        weights = softmax(scores)
    else:
        fully_masked = ~mask.any(-1, keepdim=True)
        masked = scores.masked_fill(~(mask | fully_masked), float("-inf"))
        weights = softmax(masked).masked_fill(fully_masked, 0.0)
    return weights @ value, weights
    ### END SOLUTION


attend = exercise("1.5").use(attend)

# %% tags=["nbval-check-output"]
mask = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]).bool()
value = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
output, weights = attend(torch.zeros(3, 4), value, mask)
for query_index in range(3):
    allowed = mask[query_index].sum()
    print(f"{allowed} of 4 keys allowed: weights {digits(weights[query_index])}", end="  ")
    print(f"output {digits(output[query_index])}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Two sequences, two queries each, five keys. In sequence 1 the last three keys are padding. What does each mask do to its
# first query?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
attention_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]).bool()  # (b, n), True = real key
scores, value = torch.zeros(2, 2, 5), torch.randn(2, 5, 3)  # (b, m, n), (b, n, e)

for mask in (attention_mask, attention_mask.unsqueeze(-2)):
    _, weights = attend(scores, value, mask)
    print(f"mask {str(tuple(mask.shape)):10s} sequence 1, query 0: {digits(weights[1, 0])}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without `unsqueeze(-2)`, query 0 of sequence 1 attends to padding.

# %% [markdown] slideshow={"slide_type": "notes"}
# Exercise 1.5 needs the most time. Whoever fills masked scores with minus infinity everywhere meets 0/0 in the fully
# masked row. Discuss why zero is a better answer than NaN or a uniform average.

# %% [markdown] slideshow={"slide_type": "notes"}
# The silent (b, n) mask is the most frequent bug of the course. Draw the three shapes right-aligned, under each other.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### `attention`: scores by dot product
#
# `attention` compares every query with every key. With `scale` $1/\sqrt{d}$ it is **scaled dot-product attention**, Eq. (1) of
# [Vaswani et al. (2017)](../docs/references.md#vaswani2017), who write $d_k$ for $d$. (Lesson 03 adds *additive* scores.)
#
# $$\operatorname{attention}(Q, K, V) = \operatorname{softmax}(\text{scale} \cdot Q K^\top)\, V$$

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    plots.shapes(m=4, n=5, d=3, e=6),
    alt="Queries (m, d) times transposed keys (d, n) give scores (m, n); softmax along each row gives weights; "
    "weights (m, n) times values (n, e) give the output (m, e).",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 1.6.** Write `attention` with your `attend`.
#
# - `query` (..., m, d), `key` (..., n, d), `value` (..., n, e). Queries and keys are rows.
# - `scale` multiplies the scores. `None` means $1/\sqrt d$; 0 is allowed.
# - Pass `mask` on. Return the output (..., m, e) and the weights (..., m, n).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.6 · attention · easy · 8 min
def attention(query, key, value, mask=None, scale=None):
    """query (..., m, d), key (..., n, d), value (..., n, e)
    to output (..., m, e) and weights (..., m, n).
    """
    ### BEGIN SOLUTION
    scale = query.size(-1) ** -0.5 if scale is None else scale
    return attend(query @ key.transpose(-2, -1) * scale, value, mask)
    ### END SOLUTION


attention = exercise("1.6").use(attention)

# %% tags=["nbval-check-output"]
b, m, n, d, e = 2, 4, 5, 3, 6  # all different, so that a swapped axis shows
Q, K, V = torch.randn(b, m, d), torch.randn(b, n, d), torch.randn(b, n, e)
mask = torch.rand(b, m, n) > 0.3
mask[0, 1] = False  # a fully masked row
output, weights = attention(Q, K, V, mask)
print("output", tuple(output.shape), " weights", tuple(weights.shape))
torch_output = F.scaled_dot_product_attention(Q, K, V, mask)  # here, too, True = may attend
print("equal to torch, with a mask:", torch.allclose(output, torch_output, atol=1e-6))

output, _ = attention(Q, K, V, scale=1)
row_by_row = torch.stack([soft_lookup(q, K[0], V[0])[0] for q in Q[0]])
print("equal to one soft_lookup per query:", torch.allclose(output[0], row_by_row, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A summary of fixed size, from a set of any size
#
# The output has the width of one value, however many keys there are. Pairs of key and value form a **set** (in which pairs may repeat): their order does not
# matter.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
dim = 8
one_query = torch.randn(1, dim)
for n in (10, 100, 1000):
    memory = torch.randn(n, dim)
    output, _ = attention(one_query, memory, memory)
    print(f"{n:4d} keys: {memory.numel()} numbers in, {output.numel()} out")

order = torch.randperm(n)
permuted, _ = attention(one_query, memory[order], memory[order])
print("same output after a permutation:", torch.allclose(permuted, output, atol=1e-5))

# %% slideshow={"slide_type": "subslide"}
quiz("1.c")

# %% tags=["nbval-check-output"]
Q, K, V, V2 = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 6), torch.randn(5, 6)


def output_of(query, key, value):
    return attention(query, key, value)[0]


output, same = output_of(Q, K, V), torch.allclose
print("output(V + V2) = output(V) + output(V2):", end=" ")
print(same(output_of(Q, K, V + V2), output + output_of(Q, K, V2), atol=1e-6))
print("twice the values,  twice the output:", same(output_of(Q, K, 2 * V), 2 * output))
print("twice the keys,    twice the output:", same(output_of(Q, 2 * K, V), 2 * output))
print("twice the queries, twice the output:", same(output_of(2 * Q, K, V), 2 * output))

# %% [markdown] slideshow={"slide_type": "notes"}
# "Attention is linear" and "attention is not linear" are both common statements. For fixed weights it is linear in the
# values. It is not linear in queries or keys.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Kernel regression: the first trained model
#
# Sixty points $(x_i, y_i)$ are known, with $x_i$ in [0, 6] and $y_i = \sin(2 x_i) + 0.4\, x_i$ plus Gaussian noise of standard
# deviation 0.3. Predict $y$ at a new $x$ by a weighted average of the $y_i$, with
# the largest weights for the nearest points:
#
# $$\hat y(x) = \sum_i p_i\, y_i, \qquad p = \operatorname{softmax}_i\!\left(-\frac{(x - x_i)^2}{2 h^2}\right)$$
#
# This is **Nadaraya-Watson kernel regression** ([Nadaraya, 1964](../docs/references.md#nadaraya1964);
# [Watson, 1964](../docs/references.md#watson1964)). A **kernel** turns a distance into a weight, here a Gaussian whose
# **bandwidth** $h$ sets how far the average reaches. It is attention with query $x$, keys $x_i$ and values $y_i$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 1.7.** Write kernel regression with your `attend`.
#
# - `x_query` (m,), `x` (n,), `y` (n,). `bandwidth` is a positive number or a scalar tensor.
# - Return the predictions (m,) and the weights (m, n).
# - Queries far from all points must not give NaN, so pass the exponents to `attend` as scores.
# - Pass `mask` (m, n) on. A fully masked query gets zeros.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.7 · kernel regression by attention · medium · 12 min
def kernel_regression(x_query, x, y, bandwidth, mask=None):
    """x_query (m,), x (n,), y (n,) to predictions (m,) and weights (m, n).

    mask (m, n) bool, True = may attend; a fully masked query gets zeros.
    """
    ### BEGIN SOLUTION
    distance = x_query[:, None] - x[None, :]
    output, weights = attend(-((distance / bandwidth) ** 2) / 2, y[:, None], mask)
    return output[:, 0], weights
    ### END SOLUTION


kernel_regression = exercise("1.7").use(kernel_regression)

# %% tags=["nbval-check-output"]
x, y = (points[0] for points in noisy_curves(seeds=1, points=60))
for h in (0.01, 0.2, 100.0):
    prediction, _ = kernel_regression(torch.tensor([4.0]), x, y, h)
    print(f"bandwidth {h:6.2f}: prediction at x = 4 is {prediction.item():.2f}")
print(f"nearest point: {y[(x - 4).abs().argmin()]:.2f}   mean of all points: {y.mean():.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From distance to dot product
#
# Expand the square:
#
# $$-\frac{(x - x_i)^2}{2h^2} = \frac{x\,x_i}{h^2} - \frac{x_i^2}{2h^2} - \frac{x^2}{2h^2}$$
#
# The last term is the same for all keys, so shift invariance removes it. If all keys have the same norm, the same holds for
# the middle term. What remains is dot-product attention with `scale` $1/h^2$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
bandwidth = 0.5
Q, V = torch.randn(2, 3), torch.randn(6, 4)
K = F.normalize(torch.randn(6, 3), dim=-1)  # keys of norm 1

by_distance, _ = attend(-torch.cdist(Q, K).square() / (2 * bandwidth**2), V)
by_dot, _ = attention(Q, K, V, scale=1 / bandwidth**2)
print("kernel regression equals attention:", torch.allclose(by_distance, by_dot, atol=1e-5))

# %% [markdown]
# ### Choose the bandwidth by hand
#
# A large bandwidth averages all points and loses the curve. A small one copies the nearest point and its noise. Other
# kernels work as well, since `attend` takes any scores; the uniform one averages all points where none is within its bandwidth.

# %%
grid = torch.linspace(LEFT, RIGHT, 200)
kernels = {
    "Gaussian": lambda r: -(r**2) / 2,
    "absolute distance": lambda r: -r.abs(),
    "uniform": lambda r: torch.where(r.abs() <= 1, 0.0, -50.0),
}


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def fit(kernel, bandwidth, query):
    queries = torch.cat([torch.tensor([query]), grid])
    scores = kernels[kernel]((queries[:, None] - x[None, :]) / bandwidth)
    output, weights = attend(scores, y[:, None])
    return lesson_charts.regression_fit(
        x, y, grid, true_curve(grid), output[:, 0], query, weights[0]
    )


explore(
    fit,
    alt="Noisy points, the true curve, the prediction, and below them the attention weights of one query.",
    page="regression",
    kernel=list(kernels),
    bandwidth=(0.02, 2.0, 0.02, 1.0),
    query=(0.0, 6.0, 0.1, 3.0),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room for a bandwidth, set it, and vote. Write the winner down and compare it with the learned one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Learn the bandwidth
#
# The gradient of the loss reaches $h$ through `attend`, so $h$ can be learned: predict each known point from the known
# points. But which of them may it attend to?

# %% slideshow={"slide_type": "-"}
quiz("1.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# So a mask excludes each point from its own prediction: **leave-one-out**. We learn $\log h$, which keeps $h$ positive.

# %% slideshow={"slide_type": "-"}
log_h = torch.zeros((), requires_grad=True)
optimizer = torch.optim.Adam([log_h], lr=0.05)
leave_one_out = ~torch.eye(60, dtype=torch.bool)

for step in range(201):
    prediction, _ = kernel_regression(x, x, y, log_h.exp(), mask=leave_one_out)
    loss = (prediction - y).square().mean()
    if step % 50 == 0:
        print(f"step {step:3d}: bandwidth {log_h.exp():.2f}, training error {loss.sqrt():.2f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% [markdown] slideshow={"slide_type": "subslide"}
# The same for ten data sets and 600 steps, with and without the mask. Errors are root mean squared errors.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
seeds = 10
leaky = learn_bandwidth(seeds, leave_one_out=False)
left_out = learn_bandwidth(seeds, leave_one_out=True)

show(
    plots.bandwidth_training(leaky, left_out, NOISE),
    alt="Without leave-one-out the bandwidth shrinks and the training error falls below the noise; "
    "with it, both converge.",
)
for name, result in (("without the mask", leaky), ("leave-one-out", left_out)):
    bandwidth, error = (result[name][-1].mean() for name in ("bandwidth", "training_error"))
    print(
        f"{name:17s} mean bandwidth {bandwidth:.3f}, mean training error {error:.2f} (noise {NOISE:.2f})"
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the mask each point attends to itself at distance 0, so $h$ shrinks and the training error falls far below the
# noise. This is **data leakage**. The causal mask of lesson 04 prevents it in language models.

# %% [markdown] slideshow={"slide_type": "notes"}
# Stop here. The diagonal mask of this section and the causal mask of lesson 04 solve the same problem. Ask for other
# examples of data leakage.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now the test error: 200 new points for each data set. Rank the five methods before you run the cell.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
test_errors = {
    "mean of the training points": mean_error(seeds),
    "bandwidth 1, by hand": fixed_bandwidth_error(seeds, 1.0),
    "nearest point (bandwidth 0.001)": fixed_bandwidth_error(seeds, 0.001),
    "learned, without leave-one-out": leaky["test_error"],
    "learned, leave-one-out": left_out["test_error"],
}
print(f"{'test error over ten data sets':32s} mean   std")
for name, errors in test_errors.items():
    print(f"{name:32s} {errors.mean():.2f}   {errors.std():.2f}")
print(f"{'standard deviation of the noise':32s} {NOISE:.2f}")

wins = (left_out["test_error"] < leaky["test_error"]).sum()
print(f"leave-one-out has the smaller error on {wins} of {seeds} data sets")

# %% [markdown] slideshow={"slide_type": "fragment"}
# After 600 steps without leave-one-out the model is no better than the nearest point: it has learned to copy.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The attention map
#
# The weights of the learned model, one row per query, one column per known point. They show where each average comes from.
# Weights need not explain a deeper model; lesson 02 tests this.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
learned = left_out["bandwidth"][-1, 0].item()
queries = torch.linspace(LEFT, RIGHT, 61)
_, weights = kernel_regression(queries, x, y, learned)
show(
    plots.weight_band(
        queries, x, weights, f"each query attends to its neighbors (h = {learned:.2f})"
    ),
    alt="Regression weights as a diagonal band: every query attends to the points near it.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The first attention map of the course. Rows are queries, columns are keys, each row sums to 1. All later maps are read
# in the same way.

# %% tags=["checks"]
assert 0.1 < log_h.exp() < 0.4
assert (leaky["bandwidth"][-1] < left_out["bandwidth"][-1]).all()
assert (leaky["training_error"][-1] < NOISE).all()
means = [errors.mean().item() for errors in test_errors.values()]
assert min(means) == means[-1] and wins >= 8
assert abs(means[3] - means[2]) < 0.03, (
    "without leave-one-out it is no better than the nearest point"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8 · Hard attention and REINFORCE (optional)
#
# Soft attention averages all values. **Hard attention** samples one index $i$ with probability $p_i$ and returns $v_i$. Its
# expected output is the soft one, but sampling passes no gradient to the scores.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
scores = torch.tensor([1.0, 0.2, -0.5, 0.4], requires_grad=True)
choices = torch.tensor([[0.5, 0.0], [1.5, 0.5], [0.0, -1.0], [1.0, 1.0]])
p = softmax(scores)
soft = p @ choices
draws = torch.multinomial(p, 10_000, replacement=True)
hard = choices[draws]  # (10000, 2)

print("gradient reaches the scores: soft", soft.requires_grad, " hard", hard.requires_grad)
close = torch.allclose(hard.mean(0), soft, atol=0.03)
print("mean of 10,000 samples within 0.03 of the soft output:", close)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **score-function estimator** (**REINFORCE**, [Williams, 1992](../docs/references.md#williams1992)) estimates the
# gradient of the expected reward from samples $i \sim p$ and their rewards $r_i$. (Its *score* is the vector
# $\nabla_z \log p_i$.)
#
# $$\nabla_z\, \mathbb{E}[r] = \mathbb{E}_{i \sim p}\big[(r_i - b)\, \nabla_z \log p_i\big], \qquad
# \frac{\partial \log p_i}{\partial z_j} = \delta_{ij} - p_j$$
#
# The **baseline** $b$ does not change the expectation, because $\mathbb{E}[\nabla_z \log p_i] = \sum_i \nabla_z\, p_i = 0$: the
# column sums of the Jacobian.
#
# **Exercise 1.8.** Write the estimator.
#
# - `p` (n,), `rewards` (n,), `draws` (s,) with the sampled indices. `baseline` is a number or a scalar tensor.
# - Return the mean over all draws of $(r_i - b)\,\nabla_z \log p_i$, with shape (n,).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 1.8 · the score-function estimator · medium · 10 min · optional
def reinforce_gradient(p, rewards, draws, baseline=0.0):
    """p (n,), rewards (n,), draws (s,) of indices
    to an estimate (n,) of the gradient of E[r] with respect to the logits.
    """
    ### BEGIN SOLUTION
    log_prob_gradients = torch.eye(len(p))[draws] - p  # (s, n)
    return ((rewards[draws] - baseline)[:, None] * log_prob_gradients).mean(0)
    ### END SOLUTION


reinforce_gradient = exercise("1.8").use(reinforce_gradient)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The reward is the first component of the returned vector. Guess: how many samples must be averaged until the noise is a
# tenth of the gradient, in norm? The noise of one sample is its root mean squared distance from the mean, exact for four
# choices; $s$ samples divide it by $\sqrt s$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
(exact,) = torch.autograd.grad(softmax(scores) @ choices[:, 0], scores)
p, rewards = softmax(scores).detach(), choices[:, 0]
every_draw = torch.arange(4)[:, None]

for name, baseline in (("no baseline  ", 0.0), ("baseline E[r]", p @ rewards)):
    estimates = torch.stack([reinforce_gradient(p, rewards, draw, baseline) for draw in every_draw])
    mean = p @ estimates
    noise = (p @ (estimates - mean).square().sum(-1)).sqrt()
    samples = (10 * noise / exact.norm()) ** 2
    unbiased = torch.allclose(mean, exact, atol=1e-6)
    print(f"{name}  unbiased: {unbiased}   samples needed: {samples:.0f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Collect bets on the number of samples first. The numbers are exact, since there are only four choices.

# %% [markdown] slideshow={"slide_type": "subslide"}
# [Mnih et al. (2014)](../docs/references.md#mnih2014) trained a network by REINFORCE to choose small **glimpses** of an
# image. [Xu et al. (2015)](../docs/references.md#xu2015) compared hard and soft attention for image captions.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
picture = little_house()  # (24, 24)
patches = cut_patches(picture, size=8)  # (9, 8, 8)
weights = softmax(patches.sum((1, 2)), temperature=3.0)  # the score is the amount of ink
index = torch.multinomial(weights, 1, generator=torch.Generator().manual_seed(4)).item()
soft = torch.tensordot(weights, patches, dims=1)  # (8, 8)

show(
    plots.glimpses(picture, weights, index, soft, hard=patches[index]),
    alt="A small picture in nine patches with their weights; the hard glimpse is one patch, "
    "the soft one blends all nine.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The soft glimpse is a blur of nine patches, the hard one a sharp patch that may be the wrong one. The rest of the course
# uses soft attention only.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Attention compares a **query** with all **keys** and returns the weighted average of the **values**.
# - Softmax is a soft argmax. It is shift invariant, so subtract the maximum first.
# - Cross-entropy is $-\log p_c$. Its gradient with respect to the logits is $p - y$.
# - The gradient of the output with respect to the query is the scale times the covariance of values and keys under the weights. It vanishes
#   when the softmax saturates.
# - A mask acts on the scores, before the softmax. A mask (b, n) of keys needs `unsqueeze(-2)`.
# - Attention is linear in the values for fixed weights, and not in queries or keys.
# - A model that can attend to its own target learns to copy it.
#
# **Next.** One attention step returns one average. Some questions need several steps: *Lily is a frog. Greg is a frog. Greg
# is yellow. What color is Lily?* Continue with [lesson 02, Memory network](02_memory_network.ipynb).

# %% [markdown] slideshow={"slide_type": "notes"}
# End on the frog. One attention step retrieves that Lily is a frog. What must the next query be?

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - [Nadaraya (1964)](../docs/references.md#nadaraya1964) and [Watson (1964)](../docs/references.md#watson1964): kernel
#   regression.
# - [Williams (1992)](../docs/references.md#williams1992): REINFORCE. [Mnih et al. (2014)](../docs/references.md#mnih2014) and
#   [Xu et al. (2015)](../docs/references.md#xu2015): hard attention in vision.
# - [Bahdanau et al. (2015)](../docs/references.md#bahdanau2015): soft attention for translation (lesson 03).
# - [Vaswani et al. (2017)](../docs/references.md#vaswani2017): *Attention is all you need*.
