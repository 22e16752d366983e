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
# **How does this course work?**
#
# In nine lessons you build a Transformer from a softmax, on this machine, offline. Every claim is measured where it is
# made. This page takes five minutes: the map, a check of your machine, and one exercise to try the tools on.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let everybody run this notebook while people arrive. Whoever sees "ready" below is ready; the
# table says what to do for everybody else. Then fail exercise 0.1 on purpose, in front of the room.

# %% tags=["nbval-check-output"]
import torch

from utils.build.environment import check_environment
from utils.exercises import board, exercise, lesson
from utils.plots import show
from utils.plots.course_map import course_map

torch.set_num_threads(1)
lesson("00")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## The map
#
# This is the machine that you will have built by lesson 06. Each part carries the number of the lesson that adds it.
# Lesson 07 pretrains it on real text, lesson 08 fine-tunes it and loads published weights into its encoder, and lesson 09 measures what it costs.

# %% slideshow={"slide_type": "-"}
show(
    course_map(),
    alt="The Transformer with its parts: softmax attention from lesson 01 is in every layer; lesson 02 adds "
    "several hops, 03 cross-attention, 04 self-attention, positions, masks and the feed-forward network, "
    "05 heads, residual connections and norms, 06 the whole, 07 pretraining, 08 fine-tuning, 09 cost and scaling laws.",
)

# %% [markdown] slideshow={"slide_type": "skip"}
# In a hurry? The short path 01, 02, 04, 05, 06, 07, 08 makes sense without 03 and 09.

# %% [markdown] slideshow={"slide_type": "notes"}
# Come back to this picture at the start of every lesson and point at the part of the day.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Is this machine ready?

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
report = check_environment()
print(report.verdict)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How exercises work
#
# An exercise is a function with a hole in it. Replace `raise NotImplementedError()` by your code and run the cell. Below
# it you read one of three things: **not attempted yet**, **failed** with what is wrong, or **passed**.
#
# - Wrong answers never stop the notebook. Until yours passes, the rest of the lesson runs on the course's own version;
#   from then on it runs on yours.
# - `exercise("0.1").hint()` gives the next hint, `exercise("0.1").solution()` the solution. The buttons do the same.
# - An endless loop in your code is stopped after 8 seconds and costs you nothing.
# - Run cell by cell (Shift and Enter). Where a question stands above a cell, the cell holds the answer: guess first.
#
# Try it, and make a mistake on purpose first: return `numbers / len(numbers)`, run the cell, read the message. Then do it
# right. To *normalize* numbers is to divide them by their sum: of 2, 3 and 5 this makes 0.2, 0.3 and 0.5.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 0.1 · normalize to a sum of 1 · easy · 2 min
def normalize(numbers):
    """(n,) positive numbers to (n,) fractions of their sum, which add up to 1."""
    ### BEGIN SOLUTION
    return numbers / numbers.sum()
    ### END SOLUTION


normalize = exercise("0.1").use(normalize)

# %% tags=["nbval-check-output"]
print(normalize(torch.tensor([2.0, 3.0, 5.0])))

# %% [markdown]
# What if one of the numbers is negative? Then fractions of the sum make no sense, and something better is needed. It is the
# first thing that lesson 01 builds.

# %% [markdown] slideshow={"slide_type": "notes"}
# Type `return numbers / len(numbers)` first and read the message aloud: wrong answers are normal here.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ## Your progress
#
# The board shows where you stand. It is kept in one small file on this machine, `work/progress.jsonl`, and nowhere else.
# Run the cell again whenever you like.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "skip"}
board()

# %% [markdown]
# **Next:** lesson 01, *Softmax attention*: how can a network look something up and still be trained?
