# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 00 · Start here
#
# **Press Shift+Enter to run a cell**, and run all cells in order.
#
# **How does this course work?** In nine lessons you build a Transformer, starting from a softmax, on a CPU. Every claim is
# measured or cited. You need Python, a little PyTorch and the matrix product.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let everybody run this notebook while people arrive. Students who read "This machine is ready." are
# done with the setup; for the others, the table lists what to fix.

# %% [markdown] slideshow={"slide_type": "subslide"}
# |Attention|The Transformer|In use|
# |:--|:--|:--|
# |[01 Softmax attention](01_softmax_attention.ipynb)|[04 Self-attention](04_self_attention.ipynb)|[07 Tokenize and pretrain](07_tokenize_and_pretrain.ipynb)|
# |[02 Memory network](02_memory_network.ipynb)|[05 Multi-head attention](05_multi_head_attention.ipynb)|[08 Fine-tune and transfer](08_fine_tune_and_transfer.ipynb)|
# |[03 Sequence to sequence](03_sequence_to_sequence.ipynb)|[06 The Transformer](06_transformer.ipynb)|[09 Cost and scale](09_cost_and_scale.ipynb)|

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask who has used attention before, and who has trained a network. Both groups need the tensor warm-up below.

# %% tags=["nbval-check-output"]
from utils.exercises import badges, board, exercise, lesson

lesson("00")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## What you will build, and in which lesson

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
from utils.plots import show
from utils.plots.course_map import course_map

show(
    course_map(badges()),
    alt="The encoder-decoder Transformer, each part labeled with a lesson: 01 softmax attention, "
    "03 embeddings and cross-attention, 04 self-attention, positions, masks and the feed-forward network, 05 heads, "
    "residual connections and layer norm, 06 the whole model. A list beside it names all nine: 02 adds several hops, 07 to 09 "
    "pretraining, fine-tuning and scaling.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Return to this figure at the start of every lesson and point at the parts of the day.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Is this machine ready?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
import torch

from utils.build.environment import check_environment

torch.set_num_threads(1)
report = check_environment()
print(report.verdict)

# %% [markdown] slideshow={"slide_type": "notes"}
# The table appears only in a running notebook, because it differs from machine to machine.
# Run `make downloads` once before lessons 08 and 09.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How exercises work
#
# Replace `raise NotImplementedError()` with your code and run the cell. The check reports **not attempted yet**, **failed** with
# the reason, or **passed**. Until it passes, later cells use the course's function. Buttons show hints and the solution; an
# endless loop is stopped after 8 seconds.
#
# To **normalize** positive numbers, divide them by their sum: 2, 3, 5 become 0.2, 0.3, 0.5. First try a mistake,
# `numbers / len(numbers)`, and read the message.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 0.1 · normalize to a sum of 1 · easy · 2 min
def normalize(numbers):
    """(n,) positive numbers to (n,) fractions of their sum, which add up to 1."""
    ### BEGIN SOLUTION
    return numbers / numbers.sum()
    ### END SOLUTION


normalize = exercise("0.1").use(normalize)

# %% [markdown] slideshow={"slide_type": "notes"}
# Type `return numbers / len(numbers)` first and read the message aloud: wrong answers are normal here.

# %% tags=["nbval-check-output"]
print(normalize(torch.tensor([2.0, 3.0, 5.0])))

# %% [markdown] slideshow={"slide_type": "notes"}
# With a negative number among them, fractions of the sum make no sense. Lesson 01 solves this with the softmax.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Tensors: a warm-up
#
# The **shape** of a tensor lists the lengths of its axes (`dim` in PyTorch; -1 is the last). **Broadcasting** combines two shapes:
#
# 1. Align them at the right. Missing axes count as 1.
# 2. Two lengths fit if they are equal or one is 1, which is repeated.
#
# `unsqueeze(-1)` adds an axis of length 1: (2,) becomes a column (2, 1). Plus a row (3,) it gives every sum, (2, 3).

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
tens, ones = torch.tensor([10, 20]), torch.tensor([1, 2, 3])
column = tens.unsqueeze(-1)
print("shapes:", tuple(column.shape), "and", tuple(ones.shape))
print(column + ones)

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room say the result shape before you run the cell. Then ask for `tens + ones` without `unsqueeze`:
# 2 and 3 do not fit, and torch raises an error.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A **reduction** such as `mean` removes the axis `dim`. With `keepdim=True` it stays, with length 1, and the result
# broadcasts against the input. The rows below have means 2 and 6.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
print("means of the rows:", x.mean(dim=-1), "shape", tuple(x.mean(dim=-1).shape))
print("with keepdim: shape", tuple(x.mean(dim=-1, keepdim=True).shape))
print(x - x.mean(dim=-1, keepdim=True))

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **matrix product** `@` acts on the last two axes, once per element of a **batch**. Below, $b=2$ sequences have $m=3$
# **queries** and $n=4$ **keys**, vectors of length 5. So (3, 5) times (5, 4) gives the **score** of every query with
# every key: their dot product.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
scores = query @ key.transpose(-2, -1)
print("scores:", tuple(scores.shape))

# %% [markdown] slideshow={"slide_type": "notes"}
# `transpose(-2, -1)` swaps the last two axes, (2, 4, 5) to (2, 5, 4). The inner lengths, 5 and 5, must be equal.

# %% [markdown] slideshow={"slide_type": "subslide"}
# A **Boolean mask** is True at the entries to keep; `masked_fill(~mask, value)` overwrites the others.
#
# Sequence 0 should keep keys 0 and 1, sequence 1 only key 0. Guess first: is the result right?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
scores = torch.zeros(2, 2, 3)  # (b, m, n)
attention_mask = torch.tensor([[True, True, False], [True, False, False]])  # (b, n)
print(scores.masked_fill(~attention_mask, float("-inf")))

# %% [markdown] slideshow={"slide_type": "subslide"}
# It is wrong. Aligned at the right, (2, 3) became (1, 2, 3): row $i$ of the mask met *query* $i$ instead of
# *sequence* $i$, without an error because $b=m$. Write `mask_keys`, which gets this right:
#
# - A masked key gets minus infinity for every query of its sequence.
# - All other scores, and the inputs, stay unchanged.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 0.2 · mask the keys of a batch · medium · 8 min
def mask_keys(scores, attention_mask):
    """scores (b, m, n), attention_mask (b, n) bool to scores (b, m, n), -inf at masked keys."""
    ### BEGIN SOLUTION
    mask = attention_mask.unsqueeze(-2)  # (b, 1, n): the same for every query
    return scores.masked_fill(~mask, float("-inf"))
    ### END SOLUTION


mask_keys = exercise("0.2").use(mask_keys)

# %% [markdown] slideshow={"slide_type": "notes"}
# Write the two shapes under each other on the board: (b, m, n) and (b, n). Which axis is missing, and where?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
print(mask_keys(scores, attention_mask))

scores = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]]])
print("best key of each query:      ", scores.argmax(dim=-1).tolist())
print("best key that the mask keeps:", mask_keys(scores, attention_mask).argmax(dim=-1).tolist())

# %% [markdown] slideshow={"slide_type": "notes"}
# Both sequences have the same scores, so every difference in the last line comes from the mask.

# %% [markdown] slideshow={"slide_type": "skip"}
# ## Your progress, on this machine only

# %% tags=["nbval-check-output"] slideshow={"slide_type": "skip"}
board()

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Summary
#
# - Shapes align at the right; `unsqueeze` adds an axis of length 1, `keepdim=True` keeps one.
# - A mask of keys (b, n) meets scores (b, m, n) as (b, 1, n).
# - [Glossary](../docs/notation.md), [references](../docs/references.md)
#
# **Next:** [lesson 01](01_softmax_attention.ipynb)
