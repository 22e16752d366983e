# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 08 · Fine-tune and transfer
#
# **How few labels are enough, once a model has been pretrained?**
#
# The masked language model of lesson 07 has been trained on much text and no task. Here it learns tasks from a handful of labels: by fine-tuning all of its parameters, a few, or only a
# linear layer on top. Then published weights go into the encoder that you built.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask the room how many labeled examples they would be ready to write by hand. Plan: 30 minutes for few labels, 25 for why it works, 15 for several tasks, 35 for the published model.

# %% [markdown]
# **After this lesson you can**
#
# - learn a task from few labels in several ways, and show what each gains, how far its parameters move and what it forgets;
# - say why a random split of documents flatters a model, and choose a split that does not;
# - load published weights into the encoder that you built, and show what its contextual embeddings encode.
#
# **You need** lessons 05 and 07. The last section uses a published model (84 MB to fetch) and film reviews (9 MB); they are fetched on first use, or
# beforehand by `make downloads`. Symbols and terms: [notation](../docs/notation.md).

# %%
from collections import Counter
from textwrap import shorten

import torch
import torch.nn.functional as F
from torch import nn

from utils.build.downloads import MINILM, REVIEWS, fetch_or_say
from utils.build.results import Table, ranged, stored
from utils.data import docstrings
from utils.exercises import board, exercise, lesson, quiz
from utils.models import bert, language
from utils.models.encoder import Encoder
from utils.models.language import MaskedLM
from utils.plots import lesson08 as pictures
from utils.plots import show
from utils.training import fine_tuning, real_tasks, word_senses
from utils.training.baselines import bag_of_words, logistic_regression
from utils.training.stored_encoder import stored_encoder
from utils.widgets import heads_view

# %% tags=["nbval-check-output"]
torch.manual_seed(8)
torch.set_num_threads(1)
lesson("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The pretrained encoder
#
# Lesson 07 loaded it into your `MaskedLM`: two layers, trained once on the docstrings and the manual of Python, and stored in `data/encoder`.

# %% slideshow={"slide_type": "-"}
encoder = stored_encoder()
large = {name: value for name, value in encoder["settings"].items() if name != "dropout"}
print(f"width {large['dim']}, {large['layers']} layers, {encoder['parameters']:,} parameters")
print(
    f"{encoder['read']:,} tokens of training, perplexity {encoder['perplexity']:.0f} at masked tokens"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Few answers
#
# The task: a docstring comes from one of 14 families of modules, such as files, web or numbers. Which? Split by *module*: no module that is asked about has been seen, neither with
# its labels nor as text.

# %% slideshow={"slide_type": "subslide"}
given = fine_tuning.setting("families")
task = given.task
print(
    f"{len(task.train):,} texts to learn from, {len(task.test)} to be asked about, of other modules"
)
for one in docstrings.few(task, 1, seed=3)[:4]:
    print(f"  {one.label}: {shorten(one.text, 75)}")
print(f"always the most frequent family: {task.majority():.1%} right")
dealt = docstrings.families_task(by_module=False)
for name, some in (("by module", task), ("at random", dealt)):
    known_labels = some.label_ids(some.train)
    answered = bag_of_words(some.train, known_labels, some.test, len(some.labels))
    right = fine_tuning.accuracy(answered, some, some.test)
    print(f"counting words, all labels, split {name}: {right:.1%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Dealt at random, docstrings of one module lie on both sides, and counting words is helped by the module's own names. Only the split by module is a fair question.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A new layer on top
#
# A text has many vectors and one label. The mean over its real pieces makes one vector of them; a linear layer makes logits of that. Everything below comes
# from pretraining: `body.vectors(numbers, real)` gives (b, n, dim).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.1 · a classifier on top · easy · 8 min
class Classifier(nn.Module):
    def __init__(self, body, dim, classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, classes)
        nn.init.normal_(self.head.weight, std=0.02)  # at first all classes are about as likely
        nn.init.zeros_(self.head.bias)

    def forward(self, numbers, real):
        """numbers (b, n), real (b, n) True at pieces, to logits (b, classes)."""
        ### BEGIN SOLUTION
        vectors = self.body.vectors(numbers, real)
        total = (vectors * real.unsqueeze(-1)).sum(1)
        return self.head(total / real.sum(1, keepdim=True))
        ### END SOLUTION


Classifier = exercise("8.1").use(Classifier)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
sizes = dict(pieces=50, dim=12, heads=3, hidden=24, layers=2)
model = Classifier(MaskedLM(**sizes), dim=12, classes=3)
numbers, real = torch.randint(50, (2, 6)), torch.arange(6) < torch.tensor([[4], [6]])
print("texts", tuple(numbers.shape), "to logits", tuple(model(numbers, real).shape))
longer = F.pad(numbers, (0, 5)), F.pad(real, (0, 5))
same = torch.allclose(model(*longer), model(numbers, real), atol=1e-5)
print("more padding changes nothing:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four labels for each family
#
# Your `Classifier` on your `MaskedLM`, all parameters trained: once from random numbers (*scratch*), once from the stored encoder (*full*). Everything else is the same: 56
# labelled texts, the same steps.

# %% slideshow={"slide_type": "-"}
train, test = given.texts(docstrings.few(task, 4, seed=0)), given.texts(task.test)
starts, ends = {}, {}
for way in ("scratch", "full"):
    torch.manual_seed(0)
    body = MaskedLM(**large)
    if way == "full":
        body.load_state_dict(encoder["state"])
    classifier = Classifier(body, large["dim"], len(task.labels))
    starts[way] = fine_tuning.parameters_of(classifier)
    losses = fine_tuning.tune(classifier, train, fine_tuning.RECIPES[way], seed=0)
    ends[way] = fine_tuning.parameters_of(classifier)
    right = (fine_tuning.answers(classifier, test).argmax(-1) == test.labels).float().mean()
    print(f"{way}: training loss {losses[-5:].mean():.2f}, right on new modules {right:.1%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The body left as it is
#
# *Frozen*: the encoder does not learn. It makes one vector for each text, and only a linear layer on top learns from the labels.

# %% slideshow={"slide_type": "-"}
vectors = [fine_tuning.features(given.body(), part) for part in (train, test)]
weight, bias = logistic_regression(vectors[0], train.labels, len(task.labels), fine_tuning.PENALTY)
right = ((vectors[1] @ weight.T + bias).argmax(-1) == test.labels).float().mean()
print(f"frozen: right on new modules {right:.1%}")

# %% slideshow={"slide_type": "subslide"}
quiz("8.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A small change to a large matrix
#
# Full fine-tuning changes every matrix $W$. A low-rank adapter (LoRA; [Hu et al., 2022](../docs/references.md#hu2022)) leaves it frozen and learns a difference of rank $r$:
#
# $$W x + s \, B (A x), \qquad A: r \times d_{\text{in}}, \quad B: d_{\text{out}} \times r$$
#
# In code $A$ is `down`, $B$ is `up` and $s$ is `scale`. $B$ starts at zero, so before training nothing has changed.

# %% slideshow={"slide_type": "subslide"}
quiz("8.b")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.2 · a low-rank adapter · medium · 12 min
class LowRank(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        """`linear` is frozen. New: `self.down` (rank, inputs) and `self.up` (outputs, rank).

        `up` starts at 0, `down` with random numbers of spread 1 / sqrt(inputs).
        """
        ### BEGIN SOLUTION
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        inputs, outputs = linear.in_features, linear.out_features
        self.down = nn.Parameter(torch.randn(rank, inputs) * inputs**-0.5)
        self.up = nn.Parameter(torch.zeros(outputs, rank))
        ### END SOLUTION

    def forward(self, x):
        """x (..., inputs) to (..., outputs): what the frozen layer gives, plus scale B (A x)."""
        ### BEGIN SOLUTION
        return self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)
        ### END SOLUTION


LowRank = exercise("8.2").use(LowRank)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
linear, x = nn.Linear(384, 384), torch.randn(5, 384)
before = linear(x)
adapted = LowRank(linear, rank=4)
print("before training nothing has changed:", torch.equal(adapted(x), before))
new = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
print(f"to train: {new:,} of {sum(p.numel() for p in adapted.parameters()):,} parameters")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Adapters in every attention
#
# Your `LowRank` around both maps of each attention, all else frozen. The new layer on top learns as before.

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
body = MaskedLM(**large)
body.load_state_dict(encoder["state"])
body.requires_grad_(False)
for layer in body.encoder.layers:
    attention = layer.attention
    attention.project = LowRank(attention.project, fine_tuning.RANK)
    attention.mix = LowRank(attention.mix, fine_tuning.RANK)
adapted = Classifier(body, large["dim"], len(task.labels))
fine_tuning.tune(adapted, train, fine_tuning.RECIPES["adapters"], seed=0)
right = (fine_tuning.answers(adapted, test).argmax(-1) == test.labels).float().mean()
learning, frozen = (
    sum(p.numel() for p in adapted.parameters() if p.requires_grad is wanted)
    for wanted in (True, False)
)
print(f"right on new modules {right:.1%}: {learning:,} trained beside {frozen:,} frozen")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Accuracy against labels
#
# One draw of labels says little. Five draws, on the same texts, in six ways: *scratch*, *frozen*, *adapters*, *full*; the *bag of words*, which counts words; and *word vectors +
# GRU* ([Cho et al., 2014](../docs/references.md#cho2014)), the older way: a fixed vector for each piece, from counting its neighbours in the same text
# ([Levy and Goldberg, 2014](../docs/references.md#levy2014)), and a recurrent network that learns from the labels alone.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
few = stored("few_labels")
rows = few.result["rows"]
show(
    pictures.accuracy_against_labels(
        [number or "all" for number in few.result["labels"]],
        {row["way"]: row["seeds"] for row in rows},
        "few labels: a pretrained start is ahead; all labels: counting words is not beaten",
        marks={"majority": few.result["majority"]},
    ),
    alt="Accuracy on new modules against the number of labels per class for six ways to learn.",
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def means_of(row):
    """The mean over the draws, and in brackets the lowest and the highest of them."""
    return (
        ranged(one | {"median": mean})
        for one, mean in zip(row["accuracy"], row["mean"], strict=True)
    )


numbers_of_labels = [f"{number} a class" if number else "all" for number in few.result["labels"]]
means_of_draws = f"Mean (lowest to highest) of {few.result['seeds']} draws of labels."
Table(
    ("right, %", *numbers_of_labels),
    [(row["way"], *means_of(row)) for row in rows],
    f"{means_of_draws} {few.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With four labels a class the pretrained encoder is right more than twice as often as the same encoder from scratch, and well ahead of counting words and of the older way; it
# does better with four than *scratch* with sixteen. With one label the three pretrained ways cannot be told apart: the draw of labels matters more. With all labels the lead over
# *scratch* has shrunk to 8 points, the frozen encoder is last, and counting words is not beaten.

# %% tags=["checks"]
assert frozen == encoder["parameters"]
assert few.result["labels"] == [1, 4, 16, None]
one, four, sixteen, every = (
    {row["way"]: row["mean"][place] for row in rows} for place in range(len(few.result["labels"]))
)
pretrained = [row for row in rows if row["way"] in ("frozen", "adapters", "full")]
between = max(row["mean"][0] for row in pretrained) - min(row["mean"][0] for row in pretrained)
assert four["full"] > 2 * four["scratch"] and four["full"] > sixteen["scratch"]
assert four["full"] > max(four["bag of words"], four["word vectors + GRU"]) + 8
assert all(
    between < (row["accuracy"][0]["most"] - row["accuracy"][0]["least"]) / 2 for row in pretrained
)
assert round(every["full"] - every["scratch"]) == 8
assert min(every, key=every.get) == "frozen" and max(every, key=every.get) == "bag of words"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Why does it work?
#
# *Scratch* and *full* had the same labels. Three questions: how far did each go, what lies on the way, and what was lost? Each is asked of the trainings above, with four labels
# a class, and of stored ones with sixteen and three seeds.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far did it travel?
#
# The distance between the parameters before and after, for each part of the model. A fair guess: what is pretrained has less far to go.

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
why = stored("why_it_works")
travelled = {way: why.result["starts"][way]["distance"] for way in ("scratch", "full")}
parts = [part for part in travelled["full"] if part != "head"]


def seeds_of(values):
    """All three seeds: of three, these are all there are."""
    return [values[name] for name in ("least", "median", "most")]


three_seeds = "16 labels a class; bar: mean of three seeds, line: all three."

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.distance_by_layer(
        parts,
        {way: [seeds_of(of[part]["moved"]) for part in parts] for way, of in travelled.items()},
        "in its layers a pretrained start travels farther, not less",
        ylabel="distance from the start",
    ),
    alt="Distance travelled by each part of the model, from a random start and from the pretrained one.",
)
print(three_seeds)
print(why.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# And the two that were trained above, with four labels a class; beside each distance, the same as a share of the start's length:

# %% slideshow={"slide_type": "-"}
far = {way: fine_tuning.distances(starts[way], ends[way]) for way in starts}
for way, of in far.items():
    print(f"{way}:")
    for part in parts:
        moved, length = of[part]
        print(f"  {part:10s} {moved:5.1f} of {length:5.1f}, {moved / length:4.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The guess was wrong: with the same rate and steps, the layers go farther from the pretrained start, the table of words about as far. As a share of their length the layers
# move less, but only because pretraining made them longer. How far one goes does not tell how well one arrives.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From start to end in a straight line
#
# Fine-tuning leads from the pretrained parameters to others. Is there a wall between them? Walk from one to the other in a straight line and measure the loss on the way
# ([Hao et al., 2019](../docs/references.md#hao2019)).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.3 · along the line · easy · 5 min
def along_the_line(start, end, share):
    """start and end {name: tensor} to new parameters: `start` at share 0, `end` at share 1."""
    ### BEGIN SOLUTION
    return {name: start[name] + share * (end[name] - start[name]) for name in start}
    ### END SOLUTION


along_the_line = exercise("8.3").use(along_the_line)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
start, end = (dict(nn.Linear(2, 2).state_dict()) for _ in range(2))
for share in (0, 0.5, 1):
    here = along_the_line(start, end, share)
    left, done = ((here["weight"] - one["weight"]).norm() for one in (end, start))
    print(f"share {share}: {(done / (left + done)).item():.0%} of the way")

# %% slideshow={"slide_type": "subslide"}
shares = torch.linspace(0, 1, 11).tolist()
on_the_way, right_there, sure = ({way: [] for way in starts} for _ in range(3))
some = test.part(torch.arange(0, len(test), 3))
for way in starts:
    for share in shares:
        classifier.load_state_dict(along_the_line(starts[way], ends[way], share))
        logits = fine_tuning.answers(classifier, some)
        on_the_way[way].append(F.cross_entropy(logits, some.labels).item())
        right = logits.argmax(-1) == some.labels
        right_there[way].append(right.float().mean().item())
        sure[way].append(logits.softmax(-1).amax(-1)[~right].mean().item())
show(
    pictures.loss_along_the_line(
        shares,
        on_the_way,
        "on new modules the loss falls from the pretrained start and rises from scratch",
        ends=("start", "end"),
        ylabel="loss on new modules in nats",
    ),
    alt="Loss on new modules at eleven points of the straight line from start to end, for both starts.",
)

# %% slideshow={"slide_type": "subslide"}
print("four labels a class, one draw, every third text; from start to end")
for way, right in right_there.items():
    print(f"  {way}: right on new modules {right[0]:.0%} to {right[-1]:.0%}", end=", ")
    print(f"wrong answers with a chance of {sure[way][0]:.0%} to {sure[way][-1]:.0%}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
print("Training loss and right answers on the way; 16 labels a class, mean of three seeds.")
print("share of the way:", *(f"{share:6.1f}" for share in why.result["shares"][::2]))
for way, of in why.result["starts"].items():
    print(f"{way + ', loss:':17s}", *(f"{loss:6.2f}" for loss in of["loss"][::2]))
    print(f"{'right, new, %:':>17s}", *(f"{right:6.1f}" for right in of["accuracy"][::2]))
print(why.label)

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is no wall on either way: the training loss falls from start to end, and both ends fit their labels. They differ in what they make of new modules. Both
# become surer, of wrong answers, too. With four labels a class hardly more answers are right from scratch than before, and the loss rises; from the pretrained start enough are
# right to make up for it.

# %% slideshow={"slide_type": "subslide"}
quiz("8.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What was forgotten
#
# Blanks in held-out text again, after the task was learned.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
forgotten = {name: seeds_of(values) for name, values in why.result["forgotten"].items()}
rows = {
    "full": "full",
    "adapters": "adapters on",
    "adapters, taken off again": "adapters off",
}
show(
    pictures.forgetting_bars(
        [(name, forgotten["pretrained"], forgotten[key]) for name, key in rows.items()],
        "16 labels a class: full fine-tuning forgets most; adapters can be taken off",
        xlabel="loss at blanks in nats",
        mark=(encoder["unigram"], "unigram"),
    ),
    alt="Loss at blanks before and after fine-tuning, for all parameters, adapters, and adapters taken off.",
)
print(three_seeds)
print(why.label)

# %% slideshow={"slide_type": "subslide"}
at_blanks = []
fine_tuned = {name.removeprefix("body."): value for name, value in ends["full"].items()}
for name, state in (("before", encoder["state"]), ("after", fine_tuned)):
    reader = language.MaskedLM(**large).eval()
    reader.load_state_dict({key: state[key] for key in encoder["state"]})
    at_blanks.append(fine_tuning.masked_loss(reader, given.text, 150))
    print(f"{name} four labels a class: {at_blanks[-1]:.2f} nats at blanks in 150 fragments")
lost = {
    name: (sum(losses) - sum(forgotten["pretrained"])) / 3 for name, losses in forgotten.items()
}
gained = encoder["unigram"] - sum(forgotten["pretrained"]) / 3
print(f"lost with four labels a class, full: {at_blanks[1] - at_blanks[0]:.2f} nats")
for name in ("full", "adapters on"):
    share = f"{lost[name] / gained:.0%} of what pretraining had gained over the unigram"
    print(f"lost with sixteen, {name}: {lost[name]:.2f} nats, {share}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer it is tuned, the more it forgets: with sixteen labels a class, three quarters of what pretraining had gained over the unigram. Adapters cost less than half of that while
# they are on, and nothing once they are off.

# %% tags=["checks"]
assert why.result["seeds"] == 3 and why.result["per_class"] == 16
assert fine_tuning.RECIPES["scratch"] == fine_tuning.RECIPES["full"]
stored_far = {
    way: {part: tuple(both["median"] for both in of[part].values()) for part in parts}
    for way, of in travelled.items()
}
for both in (far, stored_far):
    for part in ("layer 1", "layer 2"):
        (moved, length), (from_scratch, at_first) = both["full"][part], both["scratch"][part]
        assert moved > from_scratch and moved / length < from_scratch / at_first
    assert 0.8 < both["full"]["words"][0] / both["scratch"]["words"][0] < 1.25
assert on_the_way["full"][-1] < on_the_way["full"][0] < on_the_way["scratch"][-1]
assert on_the_way["scratch"][-1] > on_the_way["scratch"][0]
gain = {way: right[-1] - right[0] for way, right in right_there.items()}
assert abs(gain["scratch"]) < 0.1 < gain["full"]
assert all(chances[-1] > 2 * chances[0] for chances in sure.values())
assert 0.5 < at_blanks[1] - at_blanks[0] < lost["full"] and 0.7 < lost["full"] / gained < 0.8
assert lost["adapters on"] < lost["full"] / 2 and abs(lost["adapters off"]) < 1e-6

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · One model, several tasks
#
# One encoder; for each task a copy of it is fine-tuned under a new layer. GLUE ([Wang et al., 2019](../docs/references.md#wang2019)) compares encoders in this way on nine tasks. Here are four. *Families* as before. *Kinds*: does a docstring describe a module, a class or a
# function? *Continuation*: do two sentences follow each other? *Word order*: were two words of the sentence swapped?

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
tasks = stored("several_tasks")
few_of_each, all_of_each = (
    {row["task"]: row for row in tasks.result["rows"] if row["per_class"] == number}
    for number in (tasks.result["few"], None)
)


def task_bars(rows, title, note):
    bars = [
        (
            name,
            [row["seeds"][way] for way in ("scratch", "frozen", "full")],
            row["majority"],
            sum(row["seeds"]["bag of words"]) / len(row["seeds"]["bag of words"]),
        )
        for name, row in rows.items()
    ]
    alt = "Accuracy on four tasks from scratch, frozen and fine-tuned, with the majority and counting words."
    show(pictures.tasks_bars(bars, title, ("from scratch", "frozen", "fine-tuned")), alt=alt)
    print(f"{note}; bars and diamonds: means of {tasks.result['seeds']} seeds.")
    print(tasks.label)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
task_bars(
    few_of_each,
    "32 labels a class: neither continuation nor word order is learned",
    "Labels drawn for each seed",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
sizes_of = [f"{name} {len(make().train):,}" for name, make in docstrings.TASKS.items()]
task_bars(
    all_of_each,
    "all labels: only the pretrained start learns word order",
    f"Labels: {', '.join(sizes_of)}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 32 labels a class neither *continuation* nor *word order* is learned by any way. With all labels, *word order* stays at chance from scratch and by counting words, which
# cannot see it; from the pretrained encoder, fine-tuned, it is right in 72 %, and frozen vectors have little of it. *Continuation* stays near chance from scratch, too, and reaches
# 62 %, but counting words has 61 %. On *kinds* and *families* counting words is not beaten.

# %% tags=["checks"]
assert tasks.result["few"] == 32
for name in ("continuation", "word order"):
    assert max(max(seeds) for seeds in few_of_each[name]["seeds"].values()) < 55
means = {
    name: {way: sum(seeds) / len(seeds) for way, seeds in row["seeds"].items()}
    for name, row in all_of_each.items()
}
for name in ("continuation", "word order"):
    assert means[name]["full"] > means[name]["scratch"] + 5
assert means["word order"]["frozen"] < means["word order"]["full"] - 10
assert max(means["word order"][way] for way in ("scratch", "bag of words")) < 52
assert round(means["word order"]["full"]) == 72
assert [round(means["continuation"][way]) for way in ("full", "bag of words")] == [62, 61]
for name in ("kinds", "families"):
    assert max(means[name], key=means[name].get) == "bag of words"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · A real one
#
# all-MiniLM-L6-v2 ([Wang et al., 2020b](../docs/references.md#wang2020b)) was trained by others, on more than a billion pairs of sentences. It is a BERT
# ([Devlin et al., 2019](../docs/references.md#devlin2019)): six layers of width 384, twelve heads, post-norm, GELU
# ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)). Those are the blocks of lesson 05, so its published weights go into our `Encoder`. New are the embeddings
# (learned positions, a vector for the first or second sentence, and a norm), its own pieces by WordPiece ([Wu et al., 2016](../docs/references.md#wu2016)), and a map of names. It
# was made small by imitating a larger model, then trained to give sentences that belong together like vectors ([Reimers and Gurevych, 2019](../docs/references.md#reimers2019)); it
# has no layer for blanks.

# %% slideshow={"slide_type": "subslide"}
minilm = None
if folder := fetch_or_say(MINILM):
    minilm = bert.load_minilm(folder)
    count = sum(one.numel() for one in minilm.bert.parameters())
    times = f"{count / encoder['parameters']:.0f} times those of our encoder"
    print(f"{count:,} parameters, {times}")
    print("the course's own Encoder:", type(minilm.bert.encoder) is Encoder)
print("ours                       the published name, after 'encoder.layer.0.'")
for ours, published in bert.LAYER_NAMES.items():
    print(f"{ours:26s}", ", ".join(published))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The same numbers
#
# `make test` compares every layer's output with that of the `transformers` library's own model on the same weights, on sentences short and long, in many scripts.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
parity = stored("bert_parity")
both = zip(parity.result["largest"], parity.result["largest_in_double"], strict=True)
above = f"{parity.result['above']:.4%}" if parity.result["above"] else "none"
compared = f"{parity.result['sentences']} sentences, {parity.result['numbers']:,} numbers"
Table(
    ("after", "largest difference", "in double precision"),
    [
        (
            f"layer {layer}" if layer else "the embeddings",
            *(f"{off:.0e}" if off else "0" for off in row),
        )
        for layer, row in enumerate(both)
    ],
    f"{compared}; {above} differ by more than 0.00001. {parity.label}",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
speed = stored("bert_speed")
Table(
    ("sentences x pieces", "tokens a second, as a multiple of the library's"),
    [
        (f"{row['sentences']} x {row['pieces']}", f"{row['speed']:.2f}")
        for row in speed.result["rows"]
    ],
    f"Geometric mean {speed.result['geometric_mean']:.2f}. {speed.label}",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One word, two senses
#
# A table has one row for *watch*, the thing and the verb. In context it has as many vectors as uses. Sixteen sentences: is a thing more like a thing than like a verb?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if minilm:
    watch = word_senses.sense_layers(minilm, *word_senses.WATCH)
    pairs = {"two things": "first", "two verbs": "second", "a thing and a verb": "mixed"}
    curves = {
        name: [(s.mean, s.least, s.most) for s in (getattr(layer, which) for layer in watch)]
        for name, which in pairs.items()
    }
    show(
        pictures.senses_by_layer(curves, "watch: layer by layer the two senses part"),
        alt="Cosine between two uses of watch by layer, for two things, two verbs, and one of each.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    margins = []
    for senses in (word_senses.WATCH, word_senses.SPRING):
        found = word_senses.sense_layers(minilm, *senses)
        first, second = senses
        print(
            f"{first.word}: cosine of two uses as a {first.name}, minus that of {first.name} and {second.name}"
        )
        print("   layer:", *(f"{layer.layer:6d}" for layer in found))
        print("  margin:", *(f"{round(layer.margin, 2) + 0.0:6.2f}" for layer in found))
        margins.append([layer.margin for layer in found])

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the embeddings nothing but the position differs. Every layer adds to the gap; *spring* gets half as much as *watch*. After the last one, every two things are
# nearer than any thing and verb; two verbs are not always.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where does a pronoun look?
#
# All 72 heads over one sentence: *The king met the queen when she was young.* Follow *she*: which heads look at the queen?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
riddle = word_senses.BY_FORM[0][1]
if minilm:
    hidden = minilm.hidden_states([riddle.sentence], need_weights=True)
    pieces, weights = hidden.pieces[0], torch.stack([layer[0] for layer in hidden.weights])
    she = pieces.index(riddle.pronoun)
    most = Counter(pieces[place] for place in weights[:, :, she].argmax(-1).flatten())
    heads = f"{most['[CLS]']} of {most.total()} heads"
    title = f"“{riddle.pronoun}” looks most at [CLS] in {heads}, at “{riddle.meant}” in {most[riddle.meant]}"
    view = heads_view(weights, pieces, title=title, focus=she)
view if minilm else None

# %% [markdown] slideshow={"slide_type": "subslide"}
# One sentence proves nothing. Twelve pairs in which only the pronoun differs, *he* or *she*, so that it means now one noun, now the other; and twelve in which *it* is the same and
# only the sense of the sentence decides: *The dog left the bone because it was tired*, or *rotten*.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
if minilm:
    looks = {
        "he or she": word_senses.pronoun_looks(
            minilm, [one for twins in word_senses.BY_FORM for one in twins]
        ),
        "it, by sense": word_senses.pronoun_looks(
            minilm, [one for twins in word_senses.BY_SENSE for one in twins]
        ),
    }
    shares = {name: one.right() for name, one in looks.items()}
    form, sense = shares.values()
    high, low, most = (f"{100 * share:.0f} %" for share in (form.max(), form.min(), sense.max()))
    show(
        pictures.pronoun_looks(
            shares,
            f"some heads tell “he” from “she”, by {high} or by {low}; for “it” none is above {most}",
        ),
        alt="For each of 72 heads, the share of 24 sentences in which it looks more at the noun that is meant.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    print(
        "the best head on half of the pairs, tried on the other half; right in % of the sentences"
    )
    print("              layer  head  chosen on  tried on  all heads")
    counted = {}
    for name, twins in (("he or she", word_senses.BY_FORM), ("it, by sense", word_senses.BY_SENSE)):
        for one in word_senses.pronoun_report(minilm, twins):
            shares = (one.right_where_chosen, one.right_elsewhere, one.mean_right)
            print(
                f"{name:13s} {one.best[0]:5d} {one.best[1]:5d}",
                *(f"{100 * share:9.0f}" for share in shares),
            )
            counted.setdefault(name, []).append(round(len(twins) * one.right_elsewhere))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Of equally good heads the first is taken. *He or she*: the chosen head is right in 11 of 12 sentences that it was not chosen on, and heads with 0 % know the two apart as well:
# they look at the other noun. *It*: 8 of 12, in both halves. A head that always prefers one noun gets 6; so few sentences do not tell 8 from luck.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which sentences say the same?
#
# The mean of a sentence's vectors, scaled to length one: the cosine of two such vectors is what this model was trained for.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if minilm:
    triples = word_senses.SAME_AND_OTHER
    sentences = [sentence for triple in triples[:3] for sentence in triple]
    show(
        pictures.similarity_matrix(
            sentences,
            word_senses.similarity(minilm, sentences),
            "the same in other words is nearer, but not always",
        ),
        alt="Cosines between nine sentences in three triples: a sentence, the same in other words, and one that shares its "
        "words. Those that say the same are mostly nearer.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    nearer = 0
    for first, same, other in triples:
        cosine = word_senses.similarity(minilm, [first], [same, other])[0]
        print(
            f"{'said otherwise' if cosine[0] > cosine[1] else 'shared words  '} {cosine[0]:.2f} {cosine[1]:.2f}  {first}"
        )
        nearer += int(cosine[0] > cosine[1])
    print(f"said otherwise, and nearer: {nearer} of {len(triples)}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Mostly the sentence that says the same is nearer; now and then shared words win.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fresh or rotten
#
# Sentences from film reviews (in the package of [Kessler, 2017](../docs/references.md#kessler2017)), each *fresh* or *rotten*: people's words and people's verdicts. No film is on
# both sides. First within seconds: 600 sentences to learn from, and the published vectors left as they are, under a linear layer.

# %% slideshow={"slide_type": "-"}
if minilm and (shelf := fetch_or_say(REVIEWS)):
    quick = real_tasks.review_sentiment(**real_tasks.SHORT, minilm=folder, reviews=shelf)
    print(f"learned from {quick['sizes'][0]}, asked about {quick['sizes'][1]}")
    print(f"  always the commoner verdict: {quick['majority']:.1%}")
    for way, right in zip(quick["ways"], quick["accuracy"][:, 0].tolist(), strict=True):
        print(f"  {way}: {right:.1%}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
reviews = stored("reviews")
rows = {row["way"]: row for row in reviews.result["rows"]}
ahead = [
    rows[way]["mean"] - max(rows["bag of words"]["mean"], rows["frozen"]["mean"])
    for way in ("adapters", "full")
]
called = {"full": "full, but for the table of words"}
Table(
    ("all sentences, way", "right, %", "seconds of one core"),
    [
        (called.get(way, way), ranged(row["accuracy"]), ranged(row["seconds"], 0))
        for way, row in rows.items()
    ],
    f"Median (lowest to highest) of {reviews.result['seeds']} seeds. {reviews.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With all sentences, the frozen vectors do no better than counting words. Trained on, by adapters or in all but its table of words, the same model is six to eight points
# ahead.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And the tasks of above?
#
# The published vectors, left as they are, beside the encoder that this course pretrained: the same draws of labels, the same docstrings.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
published = stored("published_tasks")
theirs = {row["task"]: row for row in published.result["rows"]}
ours = {row["way"]: row for row in few.result["rows"]}
Table(
    ("right, %", *numbers_of_labels),
    [
        *((f"families: ours, {way}", *means_of(ours[way])) for way in ("full", "frozen")),
        *((f"{name}: published, frozen", *means_of(row)) for name, row in theirs.items()),
    ],
    f"{means_of_draws} {published.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The published model has many times the parameters and has read far more. On *families* its vectors, not trained on, are ahead on average with every number of labels, clearly
# with 16 and with all, and with all of them at least level with counting words. That is what pretraining on much text is for. It was trained on which sentences belong together:
# *continuation* 83 %. *Word order*, which that training never asked for: 56 %, below our own fine-tuned encoder.

# %% tags=["checks"]
assert (MINILM.megabytes, REVIEWS.megabytes) == (84, 9)
assert riddle.sentence == "The king met the queen when she was young."
if minilm:
    assert watch[-1].margin >= 0.3
    assert watch[-1].first.least > watch[-1].mixed.most > watch[-1].second.least
    assert all(row == sorted(row) for row in margins)
    assert 0.4 < margins[1][-1] / margins[0][-1] < 0.6
    assert weights.shape[:2].numel() == 72
    assert counted == {"he or she": [11, 11], "it, by sense": [8, 8]} and len(twins) == 12
    assert len(triples) / 2 < nearer < len(triples)
assert [round(points) for points in ahead] == [6, 8]
assert rows["frozen"]["mean"] <= rows["bag of words"]["mean"]
assert published.result["seeds"] == few.result["seeds"]
assert published.result["labels"] == few.result["labels"]
families = theirs["families"]
for place in range(4):
    assert families["mean"][place] > max(
        row["mean"][place] for row in (ours["full"], ours["frozen"])
    )
for place in (2, 3):
    assert families["accuracy"][place]["least"] > ours["full"]["accuracy"][place]["most"]
assert families["mean"][3] > ours["bag of words"]["mean"][3]
assert [round(theirs[name]["mean"][3]) for name in ("continuation", "word order")] == [83, 56]
assert theirs["word order"]["mean"][3] < means["word order"]["full"]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - On *families*, four labels from a pretrained start do more than sixteen from scratch; with all labels, a bag of words can win. On other tasks pretraining gave less, or needed
#   thousands of labels.
# - Split by what will be new in use: here by module.
# - Linear probe, low-rank adapters, all parameters: what is trained is a choice between cost, accuracy and what is forgotten.
# - The contextual embeddings of a word differ by sense; an embedding matrix has one row for all of them.
#
# **What is left open.** Every model here is small, and every text short. Lesson 09 asks what attention costs as they grow, and what is gained.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for a task from the listeners' own work that has much text and few labels, and what its honest split would be.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - J. Devlin et al., [*BERT: pre-training of deep bidirectional Transformers for language understanding*](../docs/references.md#devlin2019), 2019: one pretrained encoder, many
#   tasks.
# - E. Hu et al., [*LoRA: low-rank adaptation of large language models*](../docs/references.md#hu2022), 2022.
# - O. Levy, Y. Goldberg, [*Neural word embedding as implicit matrix factorization*](../docs/references.md#levy2014), 2014: word vectors from counts.
# - Y. Hao et al., [*Visualizing and understanding the effectiveness of BERT*](../docs/references.md#hao2019), 2019: the line between start and end.
# - A. Wang et al., [*GLUE: a multi-task benchmark and analysis platform for natural language understanding*](../docs/references.md#wang2019), 2019.
# - N. Reimers, I. Gurevych, [*Sentence-BERT*](../docs/references.md#reimers2019), 2019; W. Wang et al., [*MiniLM*](../docs/references.md#wang2020b), 2020; the model card of
#   all-MiniLM-L6-v2: the published model.
