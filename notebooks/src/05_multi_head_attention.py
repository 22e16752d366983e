# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 05 · Multi-head attention and the encoder block
#
# **What if one look per layer cannot keep two findings apart?**
#
# Lesson 04 ended with a block that looks around and thinks. Two things are missing before one can stack it high: more than one look at a time,
# and something that keeps a deep stack trainable. This lesson builds both. The result is the block of which nearly every Transformer is a variant.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two questions carry the lesson: what are several heads for, and why does a deep stack train at all? Let the room bet on "do heads differ?"
# before section 3, and write the bets down. Plan: 15 minutes for the two places, 35 for multi-head attention, 25 for what heads do, 45 for
# depth, norms and the block.

# %% [markdown]
# **After this lesson you can**
#
# - show a task that one head cannot do, as long as its weights do not depend on what it reads, and two heads can;
# - write multi-head attention as a list of heads and as one product and a reshape, and say what it costs;
# - measure whether heads differ, and what is lost without each;
# - say what residual connections and layer normalization do to a deep stack, with figures;
# - put the encoder block together in both norm orders, equal to torch's.
#
# **You need** lesson 04. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import torch
from torch import nn

from utils.build.results import ranged, stored
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attention, layers
from utils.models.attention import MultiHeadAttention as ReferenceAttention
from utils.models.attention import causal_mask
from utils.models.language_models import parameter_count
from utils.models.layers import FeedForward
from utils.models.torch_weights import from_torch
from utils.plots import lesson05 as pictures
from utils.plots import show
from utils.plots.lesson04 import order_bars
from utils.training import depth
from utils.training import heads as experiments
from utils.widgets import heads_view, removal_board

torch.manual_seed(5)
torch.set_num_threads(1)
lesson("05")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Two places, one softmax
#
# Eight letters stand in a row; one place has mark 1, another mark 2. Which letters stand there, *in this order*? One reading token, with a learned
# query, looks at all eight places, and a linear map answers from what it found.

# %% slideshow={"slide_type": "subslide"}
quiz("5.a")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.one_or_two_heads(
        list("fahcbedg"),
        [3, 8, 1, 5, 2, 7, 4, 6],
        1,
        4,
        "one head keeps a mixture, two heads keep both",
    ),
    alt="One head looks half at each of two places and keeps the mean of their values; two heads look at one each and keep both.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### No weights help
#
# Let keys say only *where* and values only *what*. Then a head gives $p_1$ to mark 1 and $p_2$ to mark 2, whatever the letters are, and finds
# $p_1 v(a) + p_2 v(b)$ and a rest. For answer $k$, the first or the second letter, let $D_k$ be how much more the values of two letters $a$ and $b$ speak for their
# own letter than for the other's. Add up the demands of each pair of sequences; all else cancels.
#
# - $aa$ and $bb$ are right only if $(p_1 + p_2) D_k > 0$: so $D_1$ and $D_2$ are above 0.
# - The second letter of $ab$ and $ba$: $(p_2 - p_1) D_2 > 0$, so $p_2 > p_1$. The first: $(p_1 - p_2) D_1 > 0$, so $p_1 > p_2$. Not both.
#
# With two heads each demand is a sum over the heads: let $D_1$ live in the one that looks at mark 1, $D_2$ in the other.

# %% slideshow={"slide_type": "-"}
results = {num_heads: experiments.train_two_positions(num_heads) for num_heads in (1, 2, 4, 8)}
both = experiments.train_two_positions(1, keys="both", steps=300)  # keys see letter and mark
for num_heads in (1, 2):
    first, second = (100 * results[num_heads]["letter_accuracy"]).mean(0)
    weights = results[num_heads]["mark_weights"][0]  # of the first seed: (heads, marks)
    print(f"{num_heads} head(s): first letter {first:.0f} %, second {second:.0f} %;", end=" ")
    print(
        "weights on the marks", [[round(weight, 2) for weight in head] for head in weights.tolist()]
    )

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
chance = round(100 * both["chance"], 1)
rows = [
    (f"{num_heads} head{'s' * (num_heads > 1)}", 100 * result["accuracy"])
    for num_heads, result in results.items()
]
rows.append(("1 head, keys see letters", 100 * both["accuracy"]))
show(
    order_bars(rows, chance, "one head fails if its weights cannot depend on the letters"),
    alt="Accuracy of five seeds on the ordered pair: low with one head, near 100 % with two, four and eight heads.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# All have width 32 and the same number of parameters; guessing is right once in 64. If keys also see the letter, as in any Transformer, one head
# learns the task too: it writes the letter into the *size* of its weights. So several heads are not a matter of what is possible, but of
# what is easy: no trick is needed.

# %% tags=["checks"]
assert results[1]["accuracy"].max() < 0.5 and results[2]["accuracy"].min() >= 0.99

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Several heads
#
# Each head has three narrow maps of its own, $d$ to $d_k = d / h$. It attends in its small space; what all heads found is laid side by side, and one more
# matrix $W_O$ follows ([Vaswani et al., 2017](../docs/references.md#vaswani2017)):
#
# $$\operatorname{head}_i = \operatorname{attention}(X W_Q^i, X W_K^i, X W_V^i), \qquad
# O = [\operatorname{head}_1, \ldots, \operatorname{head}_h]\, W_O$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.1 · a list of heads · medium · 12 min
def list_of_heads(x, projections, W_O, mask=None):
    """x (b, n, d); projections (heads, 3, d, d_k): a W_Q, W_K, W_V per head; W_O (heads * d_k, d).

    Returns output (b, n, d) and weights (b, heads, n, n). mask (..., n, n) bool, True = may attend.
    """
    ### BEGIN SOLUTION
    outputs, weights = [], []
    for W_Q, W_K, W_V in projections:
        context, head_weights = attention(x @ W_Q, x @ W_K, x @ W_V, mask)
        outputs.append(context)
        weights.append(head_weights)
    return torch.cat(outputs, -1) @ W_O, torch.stack(weights, 1)
    ### END SOLUTION


list_of_heads = exercise("5.1").use(list_of_heads)


# %% slideshow={"slide_type": "subslide"}
quiz("5.b")

# %% slideshow={"slide_type": "subslide"}
quiz("5.c")

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
query, key = torch.randn(1000, 1, 64), torch.randn(1000, 10, 64)  # ten keys, head_dim 64
scores = query @ key.transpose(1, 2)
for width in (64, 768):
    largest = (scores / width**0.5).softmax(-1).amax(-1).mean()
    print(f"divided by √{width}: the largest of ten attention weights is {largest:.2f} on average")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One product and a reshape
#
# The narrow maps of all heads, side by side, are one map $d$ to $d$. So project once, then split each token's vector: the first
# $d_k$ components belong to head 1, the next to head 2, and so on.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.2 · split into heads · easy · 6 min
def split_heads(x, num_heads):
    """x (b, n, d) to (b, num_heads, n, d_k): head 0 gets the first d_k = d / num_heads features."""
    ### BEGIN SOLUTION
    b, n, d = x.shape
    return x.view(b, n, num_heads, d // num_heads).transpose(1, 2)
    ### END SOLUTION


split_heads = exercise("5.2").use(split_heads)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.3 · merge the heads · easy · 5 min
def merge_heads(x):
    """Undo split_heads, x (b, heads, n, d_k) to (b, n, heads * d_k): concatenate the heads."""
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)
    ### END SOLUTION


merge_heads = exercise("5.3").use(merge_heads)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x = torch.arange(12).view(1, 2, 6)  # two tokens of width 6
print("token 1:", x[0, 0].tolist(), " token 2:", x[0, 1].tolist())
for number, head in enumerate(split_heads(x, 3)[0], start=1):
    print(f"head {number} sees", head.tolist())
print("a bare view gives head 1", x.view(1, 3, 2, 2)[0, 0].tolist(), "- both pairs from token 1")
print("there and back:", torch.equal(merge_heads(split_heads(x, 3)), x))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.split_shapes(2, 4, 12, 3, "the same numbers, split by feature, then transposed"),
    alt="A block of batch, length and width is split along its width into three heads, each with its own color.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.4 · multi-head attention · hard · 15 min
class MultiHeadAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj = nn.Linear(dim, 3 * dim)  # queries, keys, values: three blocks of dim
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        """x (b, n, dim) to output (b, n, dim) and weights (b, num_heads, n, n).

        mask bool, True = may attend: (n, n) for all sequences, (b, 1, n) or (b, n, n) for each.
        """
        ### BEGIN SOLUTION
        projected = self.in_proj(x).chunk(3, -1)
        query, key, value = (split_heads(part, self.num_heads) for part in projected)
        if mask is not None and mask.dim() == 3:
            mask = mask.unsqueeze(1)  # one mask for all heads of a sequence
        context, weights = attention(query, key, value, mask)
        return self.out_proj(merge_heads(context)), weights
        ### END SOLUTION


MultiHeadAttention = exercise("5.4").use(MultiHeadAttention)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
torch_layer = nn.MultiheadAttention(20, 4, batch_first=True)
reference = from_torch(torch_layer, ReferenceAttention(20, 4))
layer = MultiHeadAttention(20, 4)
layer.load_state_dict(reference.state_dict())

x, mask = torch.randn(2, 6, 20), causal_mask(6)
output, weights = layer(x, mask)
projections = torch_layer.in_proj_weight.view(3, 4, 5, 20).permute(1, 0, 3, 2)  # (heads, 3, d, d_k)
outputs = {
    "list of heads": list_of_heads(x, projections, torch_layer.out_proj.weight.T, mask)[0],
    "fused kernel": reference(x, mask=mask)[0],  # without weights
    "torch": torch_layer(x, x, x, attn_mask=~mask)[0],  # here True = may not attend
}
for name, expected in outputs.items():  # torch initializes all biases to 0
    print(f"{name:13s} equal within 1e-6:", torch.allclose(output, expected, rtol=0, atol=1e-6))

# %% slideshow={"slide_type": "subslide"}
quiz("5.d")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
costs = experiments.head_costs()
operations = ("projections", "products", "softmax", "fused")
times = {name: [1000 * row[f"{name}_seconds"] for row in costs] for name in operations}
show(
    pictures.head_costs(
        [row["heads"] for row in costs],
        {
            "time in ms": times,
            "memory of the weights in MiB": {
                "weights": [row["score_bytes"] / 2**20 for row in costs]
            },
        },
        "the softmax and the memory of the weights grow with the heads",
    ),
    alt="The time of the softmax and the memory of the weights grow with the number of heads; those of the projections stay.",
)
print(f"parameters with 1, 2, 4, 8 or 16 heads: {costs[0]['parameters']:,}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Whatever the number of heads $h$: $4 d (d + 1)$ parameters, biases counted, and $4 n d^2 + 2 n^2 d$ multiplications for $n$ tokens. But $h n^2$ exponentials, and
# as many weights to store. The products inside the heads stay equal in number, but narrow ones are slower. The fused kernel never stores the weights.

# %% tags=["checks"]
assert len({row["parameters"] for row in costs}) == 1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Do heads differ?

# %% slideshow={"slide_type": "-"}
quiz("5.e")

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
twins = ReferenceAttention(8, 2)  # two heads of width 4
with torch.no_grad():
    for block in twins.in_proj.weight.split(8):
        block[4:] = block[:4]  # head 2 gets the projections of head 1 ...
    twins.out_proj.weight[:, 4:] = twins.out_proj.weight[:, :4]  # ... and its columns of out_proj
optimizer = torch.optim.Adam(twins.parameters(), lr=0.01)
for _ in range(50):
    x = torch.randn(16, 5, 8)
    loss = (twins(x)[0] - x.flip(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
_, weights = twins(torch.randn(1, 5, 8), need_weights=True)
difference = (weights[0, 0] - weights[0, 1]).abs().max().item()
print(
    f"two heads with the same initialization, after 50 steps: largest difference {difference:.1f}"
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A task with something to look for
#
# English words and the French form that each takes in its sentence: *old* is *vieux*, *vieil*, *vieille* or *vieilles*, and *the* is one of eight. What decides stands
# elsewhere. An encoder (pre-norm; sections 4 to 6 build it) learns it from 5,000 phrases of lesson 03. Words with a single form do not
# count.

# %% slideshow={"slide_type": "-"}
trained = experiments.train_form_tagger(4, seeds=3)  # two layers with four heads each
print("accuracy, three seeds:", *(f"{100 * accuracy:.1f} %" for accuracy in trained["accuracy"]))
print(f"baseline, always the most frequent form: {100 * trained['baseline']:.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What it predicts

# %% slideshow={"slide_type": "-"}
tagger, data = experiments.load_form_tagger(trained)
sentence = ["the", "old", "women", "do", "not", "see", "the", "red", "car"]
prediction = experiments.predict_forms(tagger, data, sentence)
head_mask = [[0] * 4, [1] * 4]  # ablate all heads of layer 1
ablated = experiments.predict_forms(tagger, data, sentence, head_mask)
for name, forms in (("all heads", prediction["forms"]), ("without layer 1", ablated["forms"])):
    print(f"{name:16s}", *(f"{word}→{form}" for word, form in zip(sentence, forms, strict=True)))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far apart do two heads look?
#
# Two rows of weights are two distributions $p$ and $q$. The *Jensen-Shannon divergence* ([Lin, 1991](../docs/references.md#lin1991)) compares each with their
# middle $m = (p + q) / 2$:
#
# $$\operatorname{JS}(p, q) = \tfrac12 \sum_i p_i \log \frac{p_i}{m_i} + \tfrac12 \sum_i q_i \log \frac{q_i}{m_i},
# \qquad 0 \log 0 = 0$$
#
# It is 0 if the two are the same, and $\log 2 \approx 0.69$ if they have nothing in common.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.5 · how much two heads differ · medium · 10 min
def jensen_shannon(p, q):
    """Divergence of p and q (..., n), natural logarithm, to (...). Some weights may be 0."""
    ### BEGIN SOLUTION
    middle = (p + q) / 2
    from_p = (torch.xlogy(p, p) - torch.xlogy(p, middle)).sum(-1)  # xlogy(0, 0) is 0
    from_q = (torch.xlogy(q, q) - torch.xlogy(q, middle)).sum(-1)
    return (from_p + from_q) / 2
    ### END SOLUTION


jensen_shannon = exercise("5.5").use(jensen_shannon)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
p = torch.tensor([0.5, 0.5, 0.0, 0.0])
for q in ([0.5, 0.5, 0.0, 0.0], [0.25] * 4, [0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0]):
    print(p.tolist(), "and", q, f"are {jensen_shannon(p, torch.tensor(q)):.2f} apart")

# %% slideshow={"slide_type": "subslide"}
weights = prediction["weights"][0]  # layer 1: (heads, n, n)
divergence = jensen_shannon(weights.unsqueeze(1), weights.unsqueeze(0)).mean(-1)  # (heads, heads)
print("divergence between the heads of layer 1, mean over the words of the sentence:")
for number, row in enumerate(divergence.tolist(), start=1):
    print(f"head {number}:", *(f"{value:.2f}" for value in row))


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def by_layer(name):
    return {f"layer {layer + 1}": trained[name][:, :, layer].mean(-1) for layer in range(2)}


show(
    pictures.divergence(
        trained["eval_steps"],
        by_layer("divergence"),
        "heads differ at initialization; training drives layer 1 further apart",
        ylabel="divergence in nats (at most 0.69)",
    ),
    alt="Mean divergence between the heads of a layer through training, three seeds.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Do they find the same?
#
# *CKA* compares what two heads found over many tokens: 1 if one is a turned and scaled copy of the other, near 0 if they are unrelated
# ([Kornblith et al., 2019](../docs/references.md#kornblith2019)).

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.divergence(
        trained["eval_steps"],
        by_layer("cka"),
        "the outputs of two heads are never the same",
        ylabel="similarity (CKA, 1 = the same)",
    ),
    alt="CKA between the outputs of the heads of a layer through training, three seeds.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Take one away
#
# Multiply the output of each head by an entry of a *head mask*, before the output projection: 1 keeps the head, 0 ablates it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.6 · ablate a head · easy · 7 min
def mix_heads(context, W_O, head_mask):
    """context (b, heads, n, d_k), W_O (heads * d_k, d), head_mask (heads,) to (b, n, d)."""
    ### BEGIN SOLUTION
    return merge_heads(context * head_mask.view(-1, 1, 1)) @ W_O
    ### END SOLUTION


mix_heads = exercise("5.6").use(mix_heads)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
context, W_O = torch.randn(1, 3, 4, 2), torch.randn(6, 5)
contributions = [mix_heads(context, W_O, head_mask) for head_mask in torch.eye(3)]  # one head each
output = mix_heads(context, W_O, torch.ones(3))
same = torch.allclose(sum(contributions), output, atol=1e-5)
print("the output is the sum of the heads' contributions:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
ablation = trained["ablation"]
effects = ablation["without_head"] - trained["accuracy"][:, None, None]
show(
    pictures.removal_effects(effects, "one head less: points of accuracy"),
    alt="For each seed, layer and head, how many points of accuracy are lost when this head alone is ablated.",
)


# %% slideshow={"slide_type": "subslide"}
def percent(values):
    return " ".join(f"{100 * value:5.1f}" for value in values) + " %"


print("all heads           ", percent(trained["accuracy"]))
print("without the worst   ", percent(ablation["without_head"].flatten(1).amin(1)), " single head")
for layer in range(2):
    print(f"without layer {layer + 1}     ", percent(ablation["without_layer"][:, layer]))
print("without any head    ", percent(ablation["without_heads"]), " no access to other words")
first, last = (trained["divergence"][index].mean((0, 2)) for index in (0, -1))
print(
    "divergence of layers 1 and 2 at initialization", *(f"{value:.2f}" for value in first), end="; "
)
print("after training", *(f"{value:.2f}" for value in last))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How many heads?
#
# The same width and the same number of parameters, more or fewer heads; trained longer than here, five seeds.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
one_layer, two_layers = stored("heads_one_layer"), stored("heads")
two_layers.table(
    ("layers", "heads", "accuracy, %", "points lost without the most important head"),
    [
        (layers, row["heads"], ranged(row["accuracy"]), ranged(row["worst_loss"]))
        for layers, rows in ((1, one_layer.result), (2, two_layers.result))
        for row in rows
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# **So, do heads differ?** On this task: yes, from the start, and training drives those of the first layer further apart. In one layer more heads help a
# little; in two layers the number hardly matters. The more heads, the less a single one is missed: others stand in. That is one task and one size; larger
# models were found to lose most of their heads without harm ([Voita et al., 2019](../docs/references.md#voita2019);
# [Michel et al., 2019](../docs/references.md#michel2019)).

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What every head attends to
#
# Point at a word to follow it through all layers and heads; a click makes one map large.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
heads_view(prediction["weights"], sentence, title="two layers, four heads", focus=1)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Ablate heads
#
# Switch heads off and see which words go wrong.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}


def respond(head_mask):
    ablated = experiments.predict_forms(tagger, data, sentence, head_mask)
    rows = zip(sentence, ablated["forms"], prediction["forms"], ablated["ambiguous"], strict=True)
    detail = [(word, form, form == whole) for word, form, whole, ambiguous in rows if ambiguous]
    return {"accuracy": experiments.form_accuracy(tagger, data, head_mask), "detail": detail}


removal_board(
    respond,
    2,
    4,
    title="which heads does it need?",
    effect=effects[0],
    chance=trained["baseline"],
    chance_name="most frequent form",
    what="of the words with several forms",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Residual connections
#
# Every layer so far added what it found to what was there. What if it did not?

# %% slideshow={"slide_type": "-"}
quiz("5.f")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The identity
#
# The simplest task: give back what you get. Feed-forward layers of width 16, three seeds. Each layer *could* pass $x$ on, since
# $\operatorname{relu}(x) - \operatorname{relu}(-x) = x$.

# %% slideshow={"slide_type": "-"}
plain, residual_stack = (depth.train_identity(residual) for residual in (False, True))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.spread(
        plain["depths"],
        {"plain": plain["error"], "residual": residual_stack["error"]},
        "a deep plain stack does not even learn the identity",
        "layers",
        "error (1 = predicts zeros)",
        log_x=True,
        log_y=True,
    ),
    alt="Error at learning the identity against the number of layers, with and without residual connections.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How loud is the gradient at the first layer?
#
# Fresh encoders of 1 to 32 layers: the length of the gradient at the first layer's input, as a share of its length at the output.

# %% slideshow={"slide_type": "-"}
by_depth = depth.gradient_by_depth()

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.gradient_depth(
        list(depth.DEPTHS),
        {stack: result["gradient_norm"] for stack, result in by_depth.items()},
        "plain: it dies; sums alone: it explodes; sums and norms: it stays",
        ylabel="gradient (1 = as at the output)",
    ),
    alt="Gradient norm against depth up to 32 layers for five kinds of stack.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Sums open the way, norms keep it at one loudness. (Part of the fall is the small start that torch gives `nn.Linear`. And it is not the whole story:
# [He et al., 2016](../docs/references.md#he2016), had norms in their nets, and deep plain ones still did worse.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loss around a solution
#
# Two nets of eight layers with norms learn to tell the arms of a spiral apart, one with sums and one without. Then walk away from where they ended, along two
# random directions, each as long as the weights row by row, and write down the loss (after [Li et al., 2018](../docs/references.md#li2018)). A *local minimum* is a
# point of the grid that is lower than its eight neighbors.

# %% slideshow={"slide_type": "-"}
surfaces = {
    name: depth.loss_surface(residual) for name, residual in (("plain", False), ("residual", True))
}
for name, result in surfaces.items():
    print(f"{name:9s} local minima, three seeds:", *result["local_minima"], end="   ")
    print("test accuracy:", *(f"{100 * accuracy:.0f} %" for accuracy in result["accuracy"]))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.loss_surfaces(
        {name: result["grid"][0] for name, result in surfaces.items()},
        1.0,
        "without residual connections more local minima around the solution",
    ),
    alt="Loss along two random directions around the trained net, seen from above, without and with residual connections.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The first seed is drawn. Both nets find a solution here; the picture shows how easily one would miss it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Layer normalization

# %% slideshow={"slide_type": "-"}
quiz("5.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Layer normalization
#
# For each token $x$, over its $d$ features ([Ba et al., 2016](../docs/references.md#ba2016)):
#
# $$\mu = \frac1d \sum_i x_i, \qquad \sigma^2 = \frac1d \sum_i (x_i - \mu)^2, \qquad
# y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \cdot \gamma + \beta$$
#
# Scale $\gamma$ and bias $\beta$ are learned, one number for each feature: `weight` and `bias` in code.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.7 · layer normalization · medium · 10 min
class LayerNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        """Learned `self.weight` (dim,), initialized to ones, and `self.bias` (dim,), to zeros."""
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        ### END SOLUTION

    def forward(self, x):
        """x (..., dim) to (..., dim), each token on its own."""
        ### BEGIN SOLUTION
        centered = x - x.mean(-1, keepdim=True)
        variance = centered.square().mean(-1, keepdim=True)
        return centered / (variance + self.eps).sqrt() * self.weight + self.bias
        ### END SOLUTION


LayerNorm = exercise("5.7").use(LayerNorm)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x = torch.tensor([[1.0, 2.0, 3.0, 6.0], [10.0, 20.0, 30.0, 60.0], [5.0, 5.0, 5.0, 5.0]])
normalized = LayerNorm(4)(x)
for before, after in zip(x.tolist(), normalized.tolist(), strict=True):
    print(before, "becomes", [round(feature, 2) + 0.0 for feature in after])
print("as nn.LayerNorm:", torch.allclose(normalized, nn.LayerNorm(4)(x), atol=1e-6))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.norm_axis(
        ["the", "old", "women", "sing"], 8, "over the features of one token, never over tokens"
    ),
    alt="A grid of tokens and features: the mean runs over a row, the features of one token.",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · The encoder block
#
# Two branches, each with its sum and its norm: look around, then think. Where the norm stands is a choice.

# %% slideshow={"slide_type": "subslide"}
quiz("5.h")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.encoder_block(64, 4, 256, "the encoder block in both norm orders"),
    alt="The encoder block: attention and feed-forward branches with residual connections, post-norm above and pre-norm below.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.8 · a residual connection, pre-norm and post-norm · easy · 6 min
def residual(x, sublayer, norm, norm_first):
    """Residual connection around `sublayer`; `sublayer` and `norm` are functions of x.

    norm_first=True, pre-norm: normalize before the sublayer; False, post-norm: after the addition.
    """
    ### BEGIN SOLUTION
    if norm_first:
        return x + sublayer(norm(x))
    return norm(x + sublayer(x))
    ### END SOLUTION


residual = exercise("5.8").use(residual)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 5.9 · the encoder layer · hard · 15 min
class EncoderLayer(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim, *, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.self_attn = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.norm1, self.norm2 = LayerNorm(dim), LayerNorm(dim)

    def forward(self, x, mask=None):
        """x (b, n, dim) to x (b, n, dim) and weights (b, num_heads, n, n)."""
        ### BEGIN SOLUTION
        all_weights = []

        def attend(x):
            context, weights = self.self_attn(x, mask)
            all_weights.append(weights)
            return context

        x = residual(x, attend, self.norm1, self.norm_first)
        x = residual(x, self.feed_forward, self.norm2, self.norm_first)
        return x, all_weights[0]
        ### END SOLUTION


EncoderLayer = exercise("5.9").use(EncoderLayer)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x, attention_mask = torch.randn(2, 5, 12), torch.arange(5) < torch.tensor([[3], [5]])
for norm_first in (True, False):
    torch_layer = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, batch_first=True, norm_first=norm_first
    )
    reference = from_torch(torch_layer, layers.EncoderLayer(12, 3, 20, norm_first=norm_first))
    layer = EncoderLayer(12, 3, 20, norm_first=norm_first)
    layer.load_state_dict(reference.state_dict())
    output, _ = layer(x, attention_mask.unsqueeze(1))
    expected = torch_layer(x, src_key_padding_mask=~attention_mask)
    same = torch.allclose(output[attention_mask], expected[attention_mask], atol=1e-5)
    print(f"norm_first={norm_first}: equal to nn.TransformerEncoderLayer except at padding:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A stack
#
# Layers on top of each other are an encoder. A pre-norm stack ends with one more norm: nothing else bounds the sum.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
for norm_first in (True, False):
    final_norm = nn.LayerNorm(12) if norm_first else None
    torch_layer = nn.TransformerEncoderLayer(
        12, 3, 20, 0.0, batch_first=True, norm_first=norm_first
    )
    torch_encoder = nn.TransformerEncoder(torch_layer, 3, final_norm, enable_nested_tensor=False)
    encoder = layers.TransformerEncoder(3, 12, 3, 20, norm_first=norm_first)
    encoder = from_torch(torch_encoder, encoder)
    same = torch.allclose(encoder(x)[0], torch_encoder(x), atol=1e-5)
    print(f"norm_first={norm_first}, three layers: equal to nn.TransformerEncoder:", same)
base = layers.EncoderLayer(512, 8, 2048, norm_first=False)  # the sizes of Vaswani et al. (2017)
for name, module in (("attention", base.self_attn), ("feed-forward", base.feed_forward)):
    print(f"{name}: {parameter_count(module):,} parameters")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which order trains?
#
# The tagger of section 3 again, now with six layers: its first 120 steps at a constant learning rate.

# %% slideshow={"slide_type": "-"}
orders = {
    name: depth.train_norm_order(norm_first, 6, learning_rate=3e-3, steps=120)
    for name, norm_first in (("pre-norm", True), ("post-norm", False))
}

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps = list(range(10, 121, 10))
curves = {name: result["loss"].unflatten(0, (12, 10)).mean(1) for name, result in orders.items()}
show(
    pictures.training_curves(
        steps, curves, "deep post-norm stacks are slow to start", ylabel="training loss in nats"
    ),
    alt="Training loss of pre-norm and post-norm encoders with six layers, three seeds.",
)

# %% slideshow={"slide_type": "subslide"}
for stack in ("residual, post-norm", "residual, pre-norm"):
    similarity = by_depth[stack]["token_similarity"][list(depth.DEPTHS).index(8)]
    print(f"{stack}: cosine between tokens after 8 untrained layers", end=" ")
    print(*(f"{cosine:.2f}" for cosine in similarity))

# %% [markdown] slideshow={"slide_type": "fragment"}
# At this rate the first steps of a deep post-norm stack are too long for it ([Xiong et al., 2020](../docs/references.md#xiong2020)). Its tokens also grow
# alike sooner, and what is alike is hard to tell apart.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
norms = stored("norms")
norms.table(
    ("six layers, 400 steps", "learning rate", "warmup steps", "final loss, three seeds"),
    [
        (
            f"{row['norm']}-norm",
            row["rate"],
            row["warmup"],
            "  ".join(f"{loss:.2f}" for loss in row["losses"]),
        )
        for row in norms.result
        if row["layers"] == 6
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# At a low rate the order hardly matters. At a high one post-norm learns nothing, unless the rate rises slowly over the first steps: a *warm-up*, which
# lesson 06 uses.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why it works
#
# Several views per layer: each head asks its own question. Deeper layers relate relations: in the second layer a key is no longer a word, but a word with what it
# found. The sums carry what was there before, so that every layer sees low and high levels side by side. On our task the second layer adds little, as
# the removals showed. Where two facts must be joined it is needed: lesson 02's stories with two supporting facts.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
weights = prediction["weights"].mean(1)  # (layers, n, n), mean over heads
# Half through the residual connection: attention rollout (Abnar and Zuidema, 2020).
rollout = (weights + torch.eye(len(sentence))) / 2
show(
    pictures.relation_paths(
        rollout, sentence, 1, "where “old” gets information from in two layers"
    ),
    alt="Paths from one word down through two layers of attention and residual connections to the words it attends to.",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - One softmax gives one mixture; several heads keep apart what they found, without tricks.
# - Multi-head attention is one input projection, split into heads, attention in each head, and an output projection. Parameters and multiplications stay; softmax and score
#   memory grow with the heads.
# - Nothing makes heads differ but their start and the task. Measure it.
# - Residual connections give the identity, and the gradient, a free way through the stack.
# - Layer normalization: each token on its own, over its features, mean 0 and deviation 1.
# - The block: two branches with their sums; post-norm after the sum, pre-norm inside the branch.
#
# **What is left open.** This stack reads. To translate, another must write, looking at what was read. Lesson 06 builds it: the whole Transformer.

# %% [markdown] slideshow={"slide_type": "notes"}
# Come back to the bets on "do heads differ?". Then ask what is missing to translate a sentence with what we have.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - K. He et al., [*Deep residual learning for image recognition*](../docs/references.md#he2016), 2016.
# - J. L. Ba, J. R. Kiros, G. E. Hinton, [*Layer normalization*](../docs/references.md#ba2016), 2016.
# - A. Vaswani et al., [*Attention is all you need*](../docs/references.md#vaswani2017), 2017: multi-head attention, the block.
# - H. Li et al., [*Visualizing the loss landscape of neural nets*](../docs/references.md#li2018), 2018.
# - E. Voita et al., [*Analyzing multi-head self-attention*](../docs/references.md#voita2019), 2019; P. Michel, O. Levy, G. Neubig,
#   [*Are sixteen heads really better than one?*](../docs/references.md#michel2019), 2019: most heads can be removed after training.
# - S. Kornblith et al., [*Similarity of neural network representations revisited*](../docs/references.md#kornblith2019), 2019: CKA.
# - S. Abnar, W. Zuidema, [*Quantifying attention flow in transformers*](../docs/references.md#abnar2020), 2020.
# - R. Xiong et al., [*On layer normalization in the Transformer architecture*](../docs/references.md#xiong2020), 2020: pre-norm and post-norm.
