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
# A Python `dict` looks things up, but no gradient tells it where it should have looked. This lesson builds a lookup that
# can be told. Everything later in the course, up to a pretrained Transformer, is made of it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask who has used a dictionary with a misspelt key. The whole lesson is the step from "key not
# found" to "every key answers a little". Plan 90 minutes: 30 for softmax, 25 for lookup, 20 for `attend` and
# `attention`, 15 for the regression.

# %% [markdown]
# **After this lesson you can**
#
# - write a softmax that does not overflow, and say what temperature and shift do to it;
# - derive its Jacobian and check it against autograd;
# - explain query, key and value, and why a soft lookup has a gradient where a hard one has none;
# - write `attend` and `attention` with masks, for any batch of queries;
# - train your first attention model, a regression with one parameter, and say what it would learn if it could see the
#   answer.
#
# **You need** Python, a little linear algebra (dot product, matrix product) and the idea of a gradient. Lesson 00 shows
# how exercises work. Symbols and terms are collected on [one page](../docs/notation.md). Run cell by cell: where a
# question stands above a cell, that cell holds the answer.

# %% tags=["nbval-check-output"]
import difflib

import torch
import torch.nn.functional as F

from utils.data.curves import LEFT, NOISE, RIGHT, noisy_curves, true_curve
from utils.data.house import cut_patches, little_house
from utils.exercises import board, exercise, lesson, quiz
from utils.plots import figures, show
from utils.plots import lesson01 as pictures
from utils.plots.text import digits
from utils.training.regression import fixed_bandwidth_error, learn_bandwidth, mean_error
from utils.widgets import explore, guess_weights, plane

torch.manual_seed(1)
torch.set_num_threads(1)
lesson("01")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Softmax: from any numbers to shares of one
#
# Softmax turns numbers $z_1, \dots, z_n$ (called *logits* or *scores*) into shares that are positive and sum to 1:
#
# $$p_i = \frac{\exp z_i}{\sum_j \exp z_j}$$
#
# The exponential makes every number positive; the division makes them shares. Three numbers, small enough for paper:

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
z = torch.tensor([2.0, 1.0, 0.0])
exponentials = z.exp()
p = exponentials / exponentials.sum()

print("z        ", digits(z, 3))
print("exp z    ", digits(exponentials, 3))
print("p        ", digits(p, 3))
print("sum of p ", digits(p.sum(), 3))

# %% [markdown] slideshow={"slide_type": "notes"}
# Do the three numbers on the board first: e² ≈ 7.4, e ≈ 2.7, 1; sum 11.1. Let the room say the
# shares before the cell runs.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A shift changes nothing, except when it breaks everything
#
# Commit to an answer before you run the cell after it.

# %% slideshow={"slide_type": "-"}
quiz("1.a")


# %% [markdown] slideshow={"slide_type": "notes"}
# Hands up for each option before you commit. Most choose A or C; B is the mix-up with temperature.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
def naive_softmax(z):
    return z.exp() / z.exp().sum()


for shift in (0, 10, 80, 100):
    print(f"shift {shift:3d}:", naive_softmax(z + shift))  # nan: not a number

# %% [markdown] slideshow={"slide_type": "fragment"}
# In mathematics the shift cancels: $\exp(z_i + c) = \exp(c)\exp(z_i)$, and $\exp(c)$ stands above and below the
# fraction bar. In 32-bit numbers $\exp(z)$ is infinite from about $z = 89$ on, and infinity over infinity is not a
# number. The cure is the same identity read backwards: choose $c = -\max_j z_j$. Then the largest exponential is
# $\exp(0) = 1$ and nothing overflows. Very small ones become 0, which does no harm.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Exercise 1.1: a stable softmax with temperature
#
# Divide the logits by a *temperature* $T$ first: $p = \operatorname{softmax}(z / T)$. It should work on the last axis
# of a tensor of any shape, so that each row becomes a distribution of its own (subtract the largest of *each row*), and on
# logits as large as 1000.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.1 · a stable softmax · easy · 5 min
def softmax(logits, temperature=1.0):
    """Logits (..., n) to probabilities (..., n); each row along the last axis sums to 1."""
    ### BEGIN SOLUTION
    scaled = logits / temperature
    exponentials = (scaled - scaled.amax(-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)
    ### END SOLUTION


softmax = exercise("1.1").use(softmax)

# %% tags=["nbval-check-output"]
print("naive: ", naive_softmax(z + 1000))
print("stable:", softmax(z + 1000))
print("each row on its own:", softmax(torch.tensor([[0.0, 0.0], [1000.0, 0.0]])).tolist())

# %% [markdown] slideshow={"slide_type": "notes"}
# Five minutes alone. The two mistakes you will see: no `keepdim`, and the maximum of the whole table.
# Show the message for one of them.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Temperature: from "all the same" to "winner takes all"
#
# The same four logits at $T = 10$, $1$ and $0.1$. Which of the three will look almost flat? A high temperature divides all
# differences away, and what is left is the uniform distribution over the four *indices*. A low one magnifies them until
# the largest takes everything.

# %% slideshow={"slide_type": "-"}
four = torch.tensor([1.0, 2.0, 0.5, -1.0])
labels = [f"z = {logit:g}" for logit in four]
panels = {f"T = {t:g}": softmax(four, t) for t in (10.0, 1.0, 0.1)}
show(
    pictures.bar_panels(panels, labels, "a high temperature flattens, a low one selects"),
    alt="Softmax of the logits 1, 2, 0.5 and -1: nearly equal at temperature 10, "
    "peaked at 1, all on the second at 0.1.",
)


# %% slideshow={"slide_type": "subslide"}
def softmax_picture(temperature, z1, z2, z3):
    logits = torch.tensor([z1, z2, z3])
    p = softmax(logits, temperature)
    labels = [f"z{i + 1} = {logits[i]:.2f}" for i in range(3)]
    title = f"T = {temperature:.1f}: the largest probability is {p.max():.2f}"
    return figures.weights_bars(labels, p, title=title)


explore(
    softmax_picture,
    alt="Bars of the softmax of three logits at the chosen temperature.",
    temperature=(0.1, 5.0, 0.1, 1.0),
    z1=(-3.0, 3.0, 0.25, 2.0),
    z2=(-3.0, 3.0, 0.25, 1.0),
    z3=(-3.0, 3.0, 0.25, 0.0),
)

# %% [markdown]
# Try: set all three logits equal, and move the temperature. Then set $T = 0.1$ and let `z1` pass `z2` slowly. Where
# does the jump happen, and how wide is it?

# %% [markdown] slideshow={"slide_type": "notes"}
# Live: set all logits equal and move the temperature (nothing happens), then T = 0.1 and let z1 pass z2.
# Ask how wide the jump is: about T.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### It is a soft *argmax*, not a maximum
#
# The name misleads. As $T \to 0$ the shares tend to a 1 at the *position* of the largest logit and 0 elsewhere (equal
# largest ones share it): the answer to "which one?", not to "how much?". The smooth stand-in for the maximum itself is
# another function, $T \log \sum_j \exp(z_j / T)$, which lies above the maximum by at most $T \log n$. Softmax is its
# gradient.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
z = torch.tensor([1.0, 3.0, 2.0])
for temperature in (2.0, 0.5, 0.05):
    p = softmax(z, temperature)
    log_sum_exp = temperature * torch.logsumexp(z / temperature, 0)
    print(f"T = {temperature:<4}  p = {digits(p, 3)}  log-sum-exp = {log_sum_exp:.3f}")
print(f"argmax = {z.argmax()}, maximum = {z.max():.0f}")

moving = z.clone().requires_grad_()
(gradient,) = torch.autograd.grad(torch.logsumexp(moving, 0), moving)
print("softmax is the gradient of log-sum-exp:", torch.allclose(gradient, softmax(z)))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Softmax does not know places
#
# Shuffle the logits, and the shares are shuffled in the same way and otherwise unchanged. This is called *permutation
# equivariance*. First try it:

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
z, order = torch.randn(6), torch.randperm(6)
same = torch.allclose(softmax(z[order]), softmax(z)[order])
print("softmax of the shuffled = shuffled softmax:", same)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Then argue it: the numerator of $p_i$ sees only its own logit, and the denominator is a sum, which has no order.
# Nothing in the formula knows which place a logit stands at. Self-attention inherits this, and lesson 04 adds the places
# back.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Softmax has a gradient where argmax has none
#
# Move one logit from -5 to 5 against two others that stay at 0 and 1, and watch its share. The slope of the soft
# choice comes from autograd. Autograd has none to offer for argmax, so there it is measured, difference over difference:
# flat on both sides of a jump, and at the jump no slope at all.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
z1 = torch.linspace(-5, 5, 201, requires_grad=True)
rows = torch.stack([z1, torch.zeros(201), torch.ones(201)], dim=-1)  # (201, 3)
soft = softmax(rows)[:, 0]
(soft_derivative,) = torch.autograd.grad(soft.sum(), z1)
hard = (rows.argmax(-1) == 0).float()
hard_derivative = torch.diff(hard) / torch.diff(z1.detach())  # (200,), between the points

show(
    pictures.value_and_derivative(z1, soft, hard, soft_derivative, hard_derivative),
    alt="Left: the softmax probability rises as an S, the argmax jumps at 1. "
    "Right: the derivative of softmax is a bump, that of argmax is 0.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The right-hand panel is why attention can be trained at all. Come back to it in section 3.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Its Jacobian
#
# How does each share move when each logit moves? Take the logarithm, $\log p_i = z_i - \log \sum_k \exp z_k$. Its
# derivative with respect to $z_j$ is $\delta_{ij} - p_j$, where $\delta_{ij}$ is 1 if $i = j$ and 0 otherwise. Multiply by
# $p_i$:
#
# $$J_{ij} = \frac{\partial p_i}{\partial z_j} = p_i\,(\delta_{ij} - p_j)$$
#
# Note what it needs: only the shares, not the logits.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.2 · the Jacobian of softmax · medium · 8 min
def softmax_jacobian(p):
    """p (n,), a softmax's output, to J (n, n) with J[i, j] = how p[i] moves with logit j."""
    ### BEGIN SOLUTION
    return torch.diag(p) - torch.outer(p, p)
    ### END SOLUTION


softmax_jacobian = exercise("1.2").use(softmax_jacobian)

# %% tags=["nbval-check-output"]
z = torch.tensor([2.0, 1.0, 0.0])
by_formula = softmax_jacobian(softmax(z))
by_autograd = torch.autograd.functional.jacobian(softmax, z)

print(by_formula.numpy().round(3))
print("equal to autograd's:", torch.allclose(by_formula, by_autograd, atol=1e-6))
print("each row sums to 0: ", torch.allclose(by_formula.sum(-1), torch.zeros(3), atol=1e-6))
for factor in (1, 5, 20):
    largest = softmax_jacobian(softmax(factor * z)).abs().max()
    print(f"logits times {factor:2d}: largest entry {largest:.0e}")

# %% [markdown]
# Rows sum to 0 because the shares always sum to 1: what one wins the others lose. And as one share comes near 1, every
# entry goes to 0: a *saturated* softmax lets almost no gradient through. That will matter in lesson 04.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Selecting vectors instead of numbers
#
# Where do logits come from? In a network they are usually dot products. Stack vectors as the rows of a matrix $U$, take
# one more vector $q$, and
#
# $$p = \operatorname{softmax}(U q)$$
#
# says how well each row matches $q$. The last layer of almost every neural classifier is this (apart from a bias), with
# one row of $U$ for each class and the network's features as $q$. An attention layer is this too, with one row for each
# *input*; and then it returns the inputs, mixed in these shares.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
q = torch.tensor([2.0, 1.0])
# One row for each class, learned once and then fixed: cat, dog, car.
class_vectors = torch.tensor([[1.0, 0.5], [0.0, 1.0], [-1.0, 0.0]])
# One row for whatever came in today, any number of them.
inputs = torch.tensor([[0.5, 0.0], [1.5, 0.5], [0.0, -1.0], [1.0, 1.0]])

classifier = softmax(class_vectors @ q)
weights = softmax(inputs @ q)
summary = weights @ inputs

print("classifier: which class?    ", digits(classifier))
print("attention:  which input?    ", digits(weights))
print("attention:  what is returned", digits(summary))

# %% [markdown] slideshow={"slide_type": "notes"}
# The point: a classifier compares with what it has learned, attention compares with what came in. The
# operation is the same.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Hard and soft attention
#
# **Hard**: draw one input at random, with probabilities $p$, and return it. **Soft**: return the average of all inputs,
# with weights $p$. On average they agree. But only one of them tells the scores how to improve.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
scores = torch.tensor([1.0, 0.2, -0.5, 0.4], requires_grad=True)
p = softmax(scores)
soft = p @ inputs
draws = torch.multinomial(p, 10_000, replacement=True)
hard = inputs[draws]  # (10000, 2)

print("a gradient reaches the scores, soft:", soft.requires_grad)
print("a gradient reaches the scores, hard:", hard.requires_grad)
close = torch.allclose(hard.mean(0), soft, atol=0.03)
print("mean of 10,000 hard outputs is within 0.03 of the soft one:", close)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Hard attention can be trained all the same, by trial and reward $r$
# ([Williams, 1992](../docs/references.md#williams1992)):
#
# $$\nabla\, \mathbb{E}[r] = \mathbb{E}[\, r\, \nabla \log p_{\text{draw}}]$$
#
# One draw gives an estimate that is right on average. Guess: how many draws must be averaged until its noise is a tenth of
# the gradient itself? Ten, a hundred, a thousand? Noise falls with the square root of the number of draws. Take the first
# component of the returned vector as the reward; there are only four choices, so mean and noise can be computed exactly.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
p = softmax(scores)
(exact,) = torch.autograd.grad((p @ inputs)[0], scores)
p, reward = p.detach(), inputs[:, 0]

for name, baseline in (("plain", 0.0), ("with a baseline", p @ reward)):
    estimates = (reward - baseline)[:, None] * (torch.eye(4) - p)  # a row for each possible draw
    mean = p @ estimates
    noise = (p @ (estimates - mean).square().sum(-1)).sqrt()
    draws = (10 * noise / exact.norm()) ** 2
    unbiased = torch.allclose(mean, exact, atol=1e-6)
    print(f"{name}: unbiased: {unbiased}; samples needed: {draws:.0f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# The historic case is vision: a network that sees a picture through a sequence of small *glimpses* and learns by reward
# where to look next ([Mnih et al., 2014](../docs/references.md#mnih2014)).
# [Xu et al. (2015)](../docs/references.md#xu2015) trained both kinds for captions. Soft attention looks everywhere at
# once, which costs more per look, and its gradient needs no draws.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
picture = little_house()  # (24, 24)
patches = cut_patches(picture, size=8)  # (9, 8, 8)
# Here the rule is simple: attend to where there is ink.
weights = softmax(patches.sum((1, 2)), temperature=3.0)
index = torch.multinomial(weights, 1, generator=torch.Generator().manual_seed(4)).item()
# The weighted sum of all patches, (8, 8).
soft = torch.tensordot(weights, patches, dims=1)

show(
    pictures.glimpses(picture, weights, index, soft, hard=patches[index]),
    alt="A small picture in nine patches with their weights; the hard glimpse is one patch, "
    "the soft one blends all nine.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for bets: how many draws does the hard gradient need? The number on the slide before is exact, not
# sampled, because there are only four choices.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Lookup, four ways
#
# **A `dict`.** The query must equal a key to the letter; one value comes back.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
price = {"apple": 3.0, "pear": 4.0, "plum": 6.0}
print(price["apple"], "aple" in price)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **A search engine.** The query is compared with every *title*; what comes back is the *video*. What is compared and
# what is fetched are two different things.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
videos = {
    "how to bake bread": "video 1",
    "how to tune a bike": "video 2",
    "songs about bread and rain": "video 3",
}
phrase = "bake good bread at home"
matches = {title: len(set(phrase.split()) & set(title.split())) for title in videos}
print(matches)
print("returned:", videos[max(matches, key=matches.get)])


# %% [markdown] slideshow={"slide_type": "subslide"}
# **A fuzzy table.** Every key answers, the more the better it matches, and the values are mixed. A typing error now
# costs a little accuracy instead of everything.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
def fuzzy(word):
    match = torch.tensor([difflib.SequenceMatcher(None, word, key).ratio() for key in price])
    weights = softmax(match, temperature=0.1)
    return (weights @ torch.tensor(list(price.values()))).item(), weights


for word in ("apple", "aple", "plu"):
    answer, weights = fuzzy(word)
    print(f"{word:6s} weights {digits(weights)}  price {answer:.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Soft attention** is the fuzzy table with vectors in place of words and a dot product in place of the spelling match.
# Vectors can be learned, so what counts as a match can be learned too.
#
# | | query | compared with | how | what comes back | a gradient reaches |
# |---|---|---|---|---|---|
# | `dict` | a word | keys | equal or not | one value | that value |
# | search | a phrase | titles (keys) | shared words | one video (value) | that value |
# | fuzzy table | a word | keys | spelling, softmax | a mix of values | all values |
# | soft attention | a vector | key vectors | dot product, softmax | a mix of value vectors | values, keys, query |
#
# **Keys say where to look, values say what to fetch.**

# %% [markdown] slideshow={"slide_type": "notes"}
# Read the table column by column. "Keys say where to look, values say what to fetch" is the sentence
# to leave on the board for the rest of the course.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Dot product or cosine?
#
# The dot product grows with the length of both vectors; the cosine sees only the angle:
#
# $$\cos(q, k) = \frac{q \cdot k}{\lVert q \rVert \, \lVert k \rVert}$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.3 · cosine scores · easy · 5 min
def cosine_scores(query, keys):
    """query (d,), keys (n, d) to the cosine of the query with each key (n,)."""
    ### BEGIN SOLUTION
    return keys @ query / (keys.norm(dim=-1) * query.norm())
    ### END SOLUTION


cosine_scores = exercise("1.3").use(cosine_scores)

# %% [markdown]
# Three keys: a short one in nearly the query's direction, a long one at 45 degrees, one opposite. Which wins by dot product,
# which by cosine?

# %% tags=["nbval-check-output"]
query = torch.tensor([1.0, 0.0])
keys = torch.tensor([[1.0, 0.1], [3.0, 3.0], [-1.0, 0.0]])

by_dot, by_cosine = keys @ query, cosine_scores(query, keys)
print("dot product:", digits(by_dot), " best key:", by_dot.argmax().item())
print("cosine:     ", digits(by_cosine), " best key:", by_cosine.argmax().item())

# %% [markdown]
# The long key wins the dot product although it points elsewhere. Attention usually takes the dot product all the same:
# length is one more thing that a network can learn to use (a key that shouts), and all scores are one matrix product. But
# be aware of the angle, because in many dimensions it behaves unlike anything in the plane.

# %% slideshow={"slide_type": "subslide"}
quiz("1.b")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
cosines = {}
for d in (2, 8, 64, 512):
    first, second = torch.randn(2, 5000, d)
    cosines[d] = F.cosine_similarity(first, second, dim=-1)

show(
    pictures.cosine_histograms(cosines),
    alt="Histograms of the cosine of two random vectors: spread over -1 to 1 in 2 dimensions, "
    "a narrow peak at 0 in 512.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The spread is $1/\sqrt d$: in 512 dimensions two random directions are almost always nearly at right angles. Is there
# room, then, for thousands of keys that do not disturb each other? Ask for one of 3000 random keys by itself:

# %% slideshow={"slide_type": "subslide"}
directions = F.normalize(torch.randn(3000, 512), dim=-1)
closest = (directions[:1] @ directions[1:].T).abs().max().item()
print(f"the most similar of the other 2999 keys has a cosine of {closest:.2f}")

for norm in (1.0, 512**0.5):
    scores = norm * (directions @ directions[0])
    print(f"query of norm {norm:4.1f}: the matching key gets a weight of {softmax(scores)[0]:.4f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is room: nobody else comes near. But a score of 1 against 0 is far too small a difference for a softmax over
# thousands. The query must be *long*; then the right key takes all. How long is too long is the subject of lesson 04.

# %% tags=["checks"]
for d, values in cosines.items():
    assert abs(values.std() * d**0.5 - 1) < 0.1, "the spread is one over the square root of d"
assert closest < 0.3 and softmax(scores)[0] > 0.99

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Soft lookup
#
# One query $q$, a key $k_i$ and a value $v_i$ for each thing that can be found:
#
# $$p = \operatorname{softmax}(K q), \qquad \text{output} = \sum_i p_i \, v_i$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 1.4 · soft lookup · easy · 5 min
def soft_lookup(query, keys, values):
    """query (d,), keys (n, d), values (n, e) to the output (e,) and the weights (n,)."""
    ### BEGIN SOLUTION
    weights = softmax(keys @ query)
    return weights @ values, weights
    ### END SOLUTION


soft_lookup = exercise("1.4").use(soft_lookup)

# %% [markdown]
# The last column of the table above, measured: how much gradient reaches each of the three?

# %% tags=["nbval-check-output"]
lookup_inputs = [torch.randn(shape, requires_grad=True) for shape in ((3,), (4, 3), (4, 2))]
output, _ = soft_lookup(*lookup_inputs)
gradients = torch.autograd.grad(output.sum(), lookup_inputs)
for name, gradient in zip(("query", "keys", "values"), gradients, strict=True):
    print(f"{name:6s} gets a gradient: {bool(gradient.norm() > 0.01)}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Exercise 1.4 in pairs. The telling mistake is mixing the keys instead of the values.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Guess first
#
# The query is $(2, 0)$. The keys are A at $(1, 0)$, B at $(0, 1)$ and C at $(-1, 0)$. What are the three weights? Set the
# sliders, commit, then see.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
query, keys = torch.tensor([2.0, 0.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
_, weights = soft_lookup(query, keys, keys)
labels = ["A (1, 0)", "B (0, 1)", "C (-1, 0)"]
guess_weights(labels, weights, question="The query is (2, 0). What are the attention weights?")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Drag the query
#
# Five keys, and each is its own value, so that the output lives in the same plane. Drag the query (or move it with the
# arrow keys) and watch the weights and the output. Can you bring the output onto A? Outside all keys? And can E, in the
# middle, ever get the largest weight?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
named_keys = {
    "A": (2.0, 0.5),
    "B": (-0.5, 2.0),
    "C": (-2.0, -1.0),
    "D": (1.0, -2.0),
    "E": (0.3, 0.2),
}
key_vectors = torch.tensor(list(named_keys.values()))


def respond(x, y, temperature):
    output, weights = soft_lookup(torch.tensor([x, y]) / temperature, key_vectors, key_vectors)
    return {"weights": weights.tolist(), "output": output.tolist()}


plane(
    respond,
    keys=named_keys,
    query=(-0.6, 1.2),
    extent=3.0,
    title="where does the output go?",
    temperature=(0.2, 3.0, 0.1, 1.0),
)

# %% [markdown]
# The output always stays inside the polygon of the values, because it is an average of them. It gets close to a corner
# only when the query is *long* or the temperature low: a query twice as long does what half the temperature does. And E
# never wins: in every direction some other key reaches further, and the dot product rewards reach.

# %% [markdown] slideshow={"slide_type": "notes"}
# Hand the keyboard to a student. Ask the room to bring the output exactly onto a key (impossible at
# finite length), then to pull it outside the four keys (impossible at all).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · `attend` and `attention`: many queries at once
#
# Two functions carry the rest of the course, from attention for translation
# ([Bahdanau et al., 2015](../docs/references.md#bahdanau2015)) to the Transformer
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017)). The first turns any table of scores, one row for each
# query and one column for each key, into weights and a weighted sum:
#
# $$W = \operatorname{softmax}(S), \qquad O = W V$$
#
# A *mask* says which query may attend to which key. `True` means "may attend". Where it is `False` the score becomes minus infinity
# **before** the softmax, because $\exp(-\infty) = 0$ and the other weights still sum to 1. A fully masked row
# gets zero weights and a zero output: no not-a-number, and no hidden average.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 1.5 · from scores to a summary · medium · 12 min
def attend(scores, value, mask=None):
    """Masked softmax of the scores, then the weighted sum of the values.

    scores (..., m, n), value (..., n, e), mask (..., m, n) bool, True = may attend,
    to output (..., m, e) and weights (..., m, n). The mask may have fewer
    leading axes than the scores (it broadcasts). The inputs stay unchanged.
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

for i in range(3):
    print(
        f"may attend to {mask[i].sum()} of 4: weights {digits(weights[i])}  output {digits(output[i])}"
    )

# %% [markdown] slideshow={"slide_type": "subslide"}
# The second makes the scores: every query with every key, by dot product, times a `scale`.
#
# $$\operatorname{attention}(Q, K, V) = \operatorname{softmax}(\text{scale} \cdot Q K^\top)\, V$$
#
# Lessons 01 to 03 pass `scale=1`. The default, $1/\sqrt{d}$ for vectors of width $d$, is explained in lesson 04.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.shapes(m=4, n=5, d=3, e=6),
    alt="Queries (m, d) times keys turned (d, n) give scores (m, n); softmax along each row gives weights; "
    "weights (m, n) times values (n, e) give the output (m, e).",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 1.6 · attention · easy · 6 min
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
batch, m, n, d, e = 2, 4, 5, 3, 6  # all different, so that a swapped axis shows
query, key, value = torch.randn(batch, m, d), torch.randn(batch, n, d), torch.randn(batch, n, e)
mask = torch.rand(batch, m, n) > 0.3
mask[0, 1] = False  # a fully masked row
output, weights = attention(query, key, value, scale=1)
masked, _ = attention(query, key, value, mask, scale=1)

print("output", tuple(output.shape), " weights", tuple(weights.shape))
by_hand = torch.stack([soft_lookup(q, key[0], value[0])[0] for q in query[0]])
print("equal to one soft_lookup after the other:", torch.allclose(output[0], by_hand, atol=1e-6))
reference = F.scaled_dot_product_attention(query, key, value, scale=1)
print("equal to torch's function:             ", torch.allclose(output, reference, atol=1e-6))
reference = F.scaled_dot_product_attention(query, key, value, mask, scale=1)
print("equal to torch's function, with a mask:", torch.allclose(masked, reference, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "notes"}
# Exercise 1.5 is the one that needs time. Whoever fills with minus infinity everywhere meets 0/0 in the
# fully masked row; that is the discussion you want.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A summary of fixed size, from a memory of any size
#
# The output has the width of one value, however many there are. A dense layer cannot do that: its weights fix the number
# of inputs. A recurrent network can read any number, but keeps all of it in a state of fixed size. Attention keeps
# everything it was given, so what it can look up grows with the input. So does the cost of a look; and what comes back is
# still one vector. And it is a summary of a *set*: keys and values in another order give the same output.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
dim, query = 8, torch.randn(1, 8)
dense = torch.nn.Linear(10 * dim, dim)
recurrent = torch.nn.RNN(dim, dim, batch_first=True)

for n in (10, 100, 1000):
    memory = torch.randn(n, dim)
    output, _ = attention(query, memory, memory, scale=1)
    _, state = recurrent(memory[None])
    try:
        fits = f"{dense(memory.flatten()).numel()} numbers"
    except RuntimeError:
        fits = "does not fit"
    print(f"{n:4d} inputs: {memory.numel()} numbers kept, output {output.numel()};", end=" ")
    print(f"recurrent state {state.numel()}; dense layer: {fits}")

order = torch.randperm(n)
shuffled, _ = attention(query, memory[order], memory[order], scale=1)
print("the same output in another order:", torch.allclose(shuffled, output, atol=1e-5))

# %% slideshow={"slide_type": "subslide"}
quiz("1.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Is the output added when values are added, doubled when values, keys or queries are doubled?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
query, key, value = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 6)
value2 = torch.randn(5, 6)


def attend_to(query, key, value):
    return attention(query, key, value, scale=1)[0]


output = attend_to(query, key, value)
added = output + attend_to(query, key, value2)
same = torch.allclose
print("values added, outputs added:", same(attend_to(query, key, value + value2), added, atol=1e-6))
print("twice the values: ", same(attend_to(query, key, 2 * value), 2 * output))
print("twice the keys:   ", same(attend_to(query, 2 * key, value), 2 * output))
print("twice the queries:", same(attend_to(2 * query, key, value), 2 * output))

# %% [markdown] slideshow={"slide_type": "notes"}
# "Attention is linear" and "attention is not linear" are both heard. Linear in the values for fixed
# weights, and in nothing else.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Attention as regression: the first trained model
#
# Sixty noisy points of a curve are known. What is $y$ at a new $x$? Ask the known points, the near ones most:
#
# $$\hat y(x) = \sum_i p_i\, y_i, \qquad p = \operatorname{softmax}_i\!\left(-\frac{(x - x_i)^2}{2 h^2}\right)$$
#
# Query $x$, keys $x_i$, values $y_i$: attention, with minus the squared distance as the score.
# [Nadaraya](../docs/references.md#nadaraya1964) and [Watson](../docs/references.md#watson1964) published it in 1964. The
# *bandwidth* $h$ says how far to look. Write it with `attend`, and pass the mask on.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 1.7 · kernel regression by attention · medium · 10 min
def kernel_regression(x_query, x, y, bandwidth, mask=None):
    """x_query (m,), x (n,), y (n,) to predictions (m,) and weights (m, n).

    mask (m, n) bool, True = may attend; a query whose row is all False gets zeros.
    """
    ### BEGIN SOLUTION
    distance = x_query[:, None] - x[None, :]
    output, weights = attend(-((distance / bandwidth) ** 2) / 2, y[:, None], mask)
    return output[:, 0], weights
    ### END SOLUTION


kernel_regression = exercise("1.7").use(kernel_regression)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Distance or dot product?
#
# They are closer than they look. Multiply out:
#
# $$-\frac{(x - x_i)^2}{2h^2} = \frac{x\,x_i}{h^2} - \frac{x_i^2}{2h^2} - \frac{x^2}{2h^2}$$
#
# The last term is the same for every key, so softmax does not see it. If all keys are equally long, the middle one is too.
# What is left is a dot product with the temperature $h^2$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
bandwidth = 0.5
query, value = torch.randn(2, 3), torch.randn(6, 4)
key = F.normalize(torch.randn(6, 3), dim=-1)  # keys of equal length

by_distance, _ = attend(-torch.cdist(query, key).square() / (2 * bandwidth**2), value)
by_dot, _ = attention(query, key, value, scale=1 / bandwidth**2)
print("kernel regression is dot-product attention:", torch.allclose(by_distance, by_dot, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Set the bandwidth by hand
#
# Move the slider. Wide: everything is averaged and the curve is lost. Narrow: every point is believed, noise and all. The
# kernel may be any function of the distance: `attend` takes any scores.

# %%
all_x, all_y = noisy_curves(seeds=1, points=60)
x, y = all_x[0], all_y[0]
grid = torch.linspace(LEFT, RIGHT, 200)
kernels = {
    "Gaussian": lambda r: -(r**2) / 2,
    "absolute distance": lambda r: -r.abs(),
    "box": lambda r: torch.where(r.abs() <= 1, 0.0, -50.0),
}


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def fit_picture(kernel, bandwidth, query):
    queries = torch.cat([torch.tensor([query]), grid])
    scores = kernels[kernel]((queries[:, None] - x[None, :]) / bandwidth)
    output, weights = attend(scores, y[:, None])
    return pictures.regression_fit(x, y, grid, true_curve(grid), output[1:, 0], query, weights[0])


explore(
    fit_picture,
    alt="Noisy points, the true curve, the prediction, and below them the attention weights of one query.",
    kernel=list(kernels),
    bandwidth=(0.02, 2.0, 0.02, 1.0),
    query=(0.0, 6.0, 0.1, 3.0),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room to call out a bandwidth, set it, and vote. The learned one comes out near 0.2.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Learn the bandwidth
#
# $h$ is a parameter like any other: `attend` passes the gradient to the scores and the scores pass it to $h$. For
# training, every point is predicted from the known points. But which of them may it look at?

# %% slideshow={"slide_type": "-"}
quiz("1.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# So each point is hidden from itself by a mask, and the bandwidth is trained like any other parameter. Its logarithm is
# learned, so that no step can make it negative. This is your own `kernel_regression` at work:

# %% slideshow={"slide_type": "-"}
log_h = torch.zeros((), requires_grad=True)
optimizer = torch.optim.Adam([log_h], lr=0.05)
leave_one_out = ~torch.eye(60, dtype=torch.bool)

for step in range(201):
    prediction, _ = kernel_regression(x, x, y, log_h.exp(), mask=leave_one_out)
    loss = (prediction - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3d}: bandwidth {log_h.exp():.2f}, training error {loss.sqrt():.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Now ten seeds at once, ten different sets of points, with and without the mask (`utils.training.regression`, the same
# loop with one axis more):

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
seeds = 10
leaky = learn_bandwidth(seeds, leave_one_out=False)
left_out = learn_bandwidth(seeds, leave_one_out=True)

show(
    pictures.bandwidth_training(leaky, left_out, NOISE),
    alt="Without leave-one-out the bandwidth shrinks and the training error falls below the noise; "
    "with it, both converge.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# A point that may attend to itself finds the perfect answer at distance 0, so the bandwidth shrinks towards zero. The
# training error falls far below the noise, although nobody can know the noise of a point before seeing it. The mask that
# prevents this is one line, `~torch.eye(60, dtype=torch.bool)`. The causal mask of lesson 04 is the same idea: *do not let
# the model see what it is to predict.*

# %% [markdown] slideshow={"slide_type": "notes"}
# Stop here. This is the causal mask of lesson 04 in one dimension, and every data leak that the room
# will ever meet.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Both were trained on the same points. Rank them before you run the cell: error on 200 new points for each of ten seeds,
# with the standard deviation over the seeds as spread.

# %% slideshow={"slide_type": "-"}
test_errors = {
    "always the mean": mean_error(seeds),
    "bandwidth 1, by hand": fixed_bandwidth_error(seeds, 1.0),
    "nearest point (bandwidth 0.001)": fixed_bandwidth_error(seeds, 0.001),
    "learned, without leave-one-out": leaky["test_error"],
    "learned, leave-one-out": left_out["test_error"],
}
print(f"{'test error, ten seeds':34s} mean   std")
for name, errors in test_errors.items():
    print(f"{name:34s} {errors.mean():.2f}   {errors.std():.2f}")
print(f"{'the noise itself':34s} {NOISE:.2f}")

wins = (left_out["test_error"] < leaky["test_error"]).sum()
print(f"leave-one-out is better on {wins} of {seeds} seeds")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What it looks at
#
# The weights of the learned model, one row per question from left to right, one column per known point. The bright band
# says "near me". Where points lie close together many share the weight; where they are sparse a few carry all of it. A
# convolution over the list of points, always the same five neighbours, could not do that.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
learned = left_out["bandwidth"][-1, 0].item()
queries = torch.linspace(LEFT, RIGHT, 61)
_, weights = kernel_regression(queries, x, y, learned)
show(
    pictures.weight_band(
        queries, x, weights, f"each query attends to its neighbors (h = {learned:.2f})"
    ),
    alt="Regression weights as a bright diagonal band: every query attends to the points near it.",
)

# %% tags=["checks"]
assert 0.1 < log_h.exp() < 0.4
assert (leaky["bandwidth"][-1] < left_out["bandwidth"][-1]).all()
assert wins >= 8

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - Softmax turns scores into shares; subtract the largest first. It is a soft *argmax*, with a slope everywhere (a tiny one
#   where it is saturated).
# - Keys say where to look, values say what to fetch, the query asks.
# - `attend(scores, value, mask)` makes weights and a weighted sum from any scores; `attention` feeds it dot products.
# - A mask acts on the scores, before the softmax. A fully masked row gives zeros.
# - The output is linear in the values as long as queries and keys stay fixed, and not in queries or keys.
# - A model that may attend to the answer learns to copy it.
#
# **What is left open.** One look fetches one mixture. But some questions need the answer of a first look to know where to
# look next: *Lily is a frog. Greg is a frog. Greg is yellow. What colour is Lily?* Lesson 02 looks several times.

# %% [markdown] slideshow={"slide_type": "notes"}
# End on the frog: one look finds that Lily is a frog, and then? Nobody has said that Lily is yellow.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - E. A. Nadaraya, [*On estimating regression*](../docs/references.md#nadaraya1964), 1964; G. S. Watson,
#   [*Smooth regression analysis*](../docs/references.md#watson1964), 1964.
# - R. J. Williams, [*Simple statistical gradient-following algorithms*](../docs/references.md#williams1992), 1992: the
#   trial-and-reward estimate of section 3.
# - V. Mnih et al., [*Recurrent models of visual attention*](../docs/references.md#mnih2014), 2014: glimpses.
# - D. Bahdanau, K. Cho, Y. Bengio,
#   [*Neural machine translation by jointly learning to align and translate*](../docs/references.md#bahdanau2015), 2015.
# - K. Xu et al., [*Show, attend and tell*](../docs/references.md#xu2015), 2015: hard and soft attention side by side.
# - A. Vaswani et al., [*Attention is all you need*](../docs/references.md#vaswani2017), 2017.
