# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 06 · The encoder-decoder Transformer
#
# **How do these blocks become a model that translates?**
#
# Lessons 04 and 05 built a stack that reads a whole sentence without recurrence. Now a second stack writes, and the two together are the Transformer
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017)). It learns to translate, from the pairs that lesson 03 gave to recurrent models, so that the two can be compared.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the two stacks on the board with nothing but arrows, and let the room name what flows along each. Plan: 10 minutes for the machine, 35 for the
# parts, 25 for training, 25 for writing, 25 for what it learned and the ladder.

# %% [markdown]
# **After this lesson you can**
#
# - say what flows along every arrow of the Transformer, with its shape;
# - write cross-attention and the decoder layer, and show that the whole is torch's;
# - train it: shifted targets, padding, label smoothing, warm-up; and prove that nothing leaks from the future;
# - write a translation greedily, by beam search, and with a key-value cache;
# - say where its attentions look, and show which look a translation needs.
#
# **You need** lesson 05. Lesson 03 is not needed: what is taken from it is said here. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from utils.build.results import Table, ranged, stored
from utils.data.tokens import BOS_ID, EOS_ID, collate, join
from utils.exercises import board, exercise, lesson, quiz
from utils.models import decoding, layers, transformer
from utils.models.attention import MultiHeadAttention, attention, causal_mask
from utils.models.layers import Embedding, FeedForward, TransformerEncoder
from utils.models.positions import sinusoidal_positions
from utils.models.torch_weights import from_torch
from utils.plots import lesson06 as pictures
from utils.plots import show
from utils.training import attention_roles, own_sentence, translation
from utils.training import transformer as training
from utils.widgets import beam_tree, explore, menu, translate_watch

torch.manual_seed(6)
torch.set_num_threads(1)
lesson("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · The whole machine
#
# The encoder reads the source once. The decoder reads what has been written so far, looks at the source, and says at every place which word comes next.

# %% slideshow={"slide_type": "-"}
pairs, english, french = translation.pairs_and_words()
for pair in [pair for pair in pairs.train if len(pair.english) <= 8][:3]:
    print(join(pair.english, "english"), "→", join(pair.french, "french"))
print(
    f"{len(pairs.train):,} pairs to learn from, {len(english)} English and {len(french)} French words; the first four are special:"
)
print(*(f"{token_id} {word}" for token_id, word in enumerate(french.words[:4])), sep=", ")

# %% slideshow={"slide_type": "subslide"}
quiz("6.a")

# %% slideshow={"slide_type": "subslide"}
quiz("6.b")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
sizes = training.SIZES
show(
    pictures.transformer_diagram(
        *sizes.values(),
        len(english),
        len(french),
        "the encoder's output goes into every layer of the decoder",
    ),
    alt="Encoder and decoder stacks with the shape along both streams; the encoder's output goes into every cross-attention.",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · The parts
#
# Bottom up: vectors for the words, the one attention that is new, the layer around it, the stack.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### From words to vectors
#
# Each word has a row in a table, and each place a sinusoid. The table begins with small numbers, of size $1 / \sqrt d$, since the
# same table may serve as output layer; times $\sqrt d$ they are about as large as the sinusoids they are added to.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.1 · embeddings with positions · easy · 6 min
def embed(token_ids, embedding, positions, start=0):
    """token_ids (b, n), embedding (V, d), positions (max_len, d) to (b, n, d).

    Token embeddings times the square root of d, plus positions; the first token is at `start`.
    """
    ### BEGIN SOLUTION
    n, d = token_ids.size(1), embedding.size(1)
    return embedding[token_ids] * d**0.5 + positions[start : start + n]
    ### END SOLUTION


embed = exercise("6.1").use(embed)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
d = 64
embedding, positions = torch.randn(50, d) * d**-0.5, sinusoidal_positions(20, d)
token_ids = torch.tensor([[7, 3, 7]])
x = embed(token_ids, embedding, positions)
print("token ids (b, n)", tuple(token_ids.shape), "to embeddings (b, n, d)", tuple(x.shape))
norms = [rows.norm(dim=-1).mean().item() for rows in (embedding * d**0.5, positions)]
print(f"mean norm of a scaled embedding {norms[0]:.0f}, of a position {norms[1]:.0f}")
print("the same token at positions 0 and 2 has the same vector:", torch.equal(x[0, 0], x[0, 2]))
last = embed(token_ids[:, 2:], embedding, positions, start=2)
print("token 2 alone, at position 2:", torch.allclose(x[:, 2:], last))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A search in a database
#
# The source, encoded, is the database: the encoder's output vectors, which we call the *memory*. Keys and values are made from it. The words being written ask. So the target may have another
# length than the source: $m$ words look at $n$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.2 · cross-attention · easy · 6 min
def cross_attention(x, memory, W_Q, W_K, W_V, mask=None):
    """Target x (b, m, d) attends to memory (b, n, d); W (d, d_k); mask (b, n), True at tokens.

    Returns output (b, m, d_k) and weights (b, m, n).
    """
    ### BEGIN SOLUTION
    if mask is not None:
        mask = mask.unsqueeze(1)  # (b, 1, n): the same for all m queries
    return attention(x @ W_Q, memory @ W_K, memory @ W_V, mask)
    ### END SOLUTION


cross_attention = exercise("6.2").use(cross_attention)


# %% slideshow={"slide_type": "subslide"}
quiz("6.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder layer
#
# Three branches, each $x + \operatorname{part}(\operatorname{norm}(x))$: the words look at the words before them, then at the source,
# then the feed-forward network works on each token alone. `MultiHeadAttention` from lesson 05 takes `(x, memory=None, mask=None, need_weights=False)`
# and returns output and weights; without `memory` it is self-attention.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.3 · the decoder layer · hard · 15 min
class DecoderLayer(nn.Module):
    def __init__(self, dim, num_heads, hidden_dim):
        super().__init__()
        self.self_attn = MultiHeadAttention(dim, num_heads)
        self.cross_attn = MultiHeadAttention(dim, num_heads)
        self.feed_forward = FeedForward(dim, hidden_dim)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        """x (b, m, dim), memory (b, n, dim) to x, weights (b, num_heads, m, m), (b, num_heads, m, n).

        mask (m, m), memory_mask (b, 1, n): bool, True = may attend; None masks nothing.
        """
        ### BEGIN SOLUTION
        context, self_weights = self.self_attn(self.norm1(x), mask=mask, need_weights=True)
        x = x + context
        normed = self.norm2(x)
        context, cross_weights = self.cross_attn(normed, memory, memory_mask, need_weights=True)
        x = x + context
        return x + self.feed_forward(self.norm3(x)), self_weights, cross_weights
        ### END SOLUTION


DecoderLayer = exercise("6.3").use(DecoderLayer)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
torch_layer = nn.TransformerDecoderLayer(12, 3, 20, 0.0, batch_first=True, norm_first=True)
layer = DecoderLayer(12, 3, 20)
reference = from_torch(torch_layer, layers.DecoderLayer(12, 3, 20, norm_first=True))
layer.load_state_dict(reference.state_dict())

x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
mask, memory_mask = causal_mask(4), torch.arange(5) < torch.tensor([[3], [5]])
output, self_weights, cross_weights = layer(x, memory, mask, memory_mask.unsqueeze(1))
masked = {"tgt_mask": ~mask, "memory_key_padding_mask": ~memory_mask}  # in torch True = masked
expected = torch_layer(x, memory, **masked)
print("as nn.TransformerDecoderLayer:", torch.allclose(output, expected, atol=1e-5))
print("self-attention weights", tuple(self_weights.shape), end=", ")
print("cross-attention weights", tuple(cross_weights.shape))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole model
#
# A stack of your layers with one norm behind it, as pre-norm needs it; then both stacks, both tables and the output layer.
#
# Here the output layer *is* the table of target words (*tying*; [Press and Wolf, 2017](../docs/references.md#press2017)): a word is likely if its vector points where the
# decoder's output does. `Embedding` holds an embedding matrix and does what you wrote in 6.1; `TransformerEncoder` and `TransformerDecoder` take masks (b, 1, n).


# %% slideshow={"slide_type": "-"}
class TransformerDecoder(nn.Module):
    def __init__(self, num_layers, dim, num_heads, hidden_dim):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(dim, num_heads, hidden_dim) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x, _, _ = layer(x, memory, mask, memory_mask)
        return self.norm(x)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.4 · encode and decode · medium · 12 min
class Transformer(nn.Module):
    def __init__(
        self, source_vocab_size, target_vocab_size, dim, num_heads, hidden_dim, num_layers
    ):
        super().__init__()
        self.source_embedding = Embedding(source_vocab_size, dim)
        self.target_embedding = Embedding(target_vocab_size, dim)
        self.encoder = TransformerEncoder(num_layers, dim, num_heads, hidden_dim, norm_first=True)
        self.decoder = TransformerDecoder(num_layers, dim, num_heads, hidden_dim)
        self.lm_head = nn.Linear(dim, target_vocab_size, bias=False)
        self.lm_head.weight = self.target_embedding.token_embedding.weight  # weight tying

    def encode(self, source, source_mask):
        """source, source_mask (b, n) to memory (b, n, dim). `self.encoder` gives output and weights."""
        ### BEGIN SOLUTION
        return self.encoder(self.source_embedding(source), source_mask.unsqueeze(1))[0]
        ### END SOLUTION

    def decode(self, target, memory, source_mask):
        """target (b, m) to logits (b, m, V) of the token after each; no token sees later ones."""
        ### BEGIN SOLUTION
        x, mask = self.target_embedding(target), causal_mask(target.size(1))
        return self.lm_head(self.decoder(x, memory, mask, source_mask.unsqueeze(1)))
        ### END SOLUTION


Transformer = exercise("6.4").use(Transformer)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
model = Transformer(20, 30, dim=12, num_heads=3, hidden_dim=24, num_layers=2)
source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 30, (2, 4))
source_mask = torch.arange(5) < torch.tensor([[3], [5]])
memory = model.encode(source, source_mask)
logits = model.decode(target, memory, source_mask)
print("source", tuple(source.shape), "to memory", tuple(memory.shape))
print("target", tuple(target.shape), "and memory to logits", tuple(logits.shape))

reference = transformer.Transformer(20, 30, 12, 3, 24, 2, norm_first=True, dropout=0.0)
reference.load_state_dict(model.state_dict())
same = torch.allclose(logits, reference(source, source_mask, target)[0], atol=1e-5)
print("as the course's own Transformer:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Torch's own
#
# `nn.Transformer` is the two stacks without tables and output layer. It is post-norm unless told otherwise, and has a norm behind each stack in either order:
# here that is a switch. With copied weights the two give the same.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x, y, mask = torch.randn(2, 5, 12), torch.randn(2, 4, 12), causal_mask(4)
memory_mask, padding = source_mask.unsqueeze(1), ~source_mask  # in torch True = masked
masks = {"tgt_mask": ~mask, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
warnings.filterwarnings("ignore", "enable_nested_tensor")  # a fast path that torch skips here
for norm_first in (False, True):
    options = {"dropout": 0.0, "norm_first": norm_first}
    torch_model = nn.Transformer(12, 3, 2, 2, 24, batch_first=True, **options)
    reference_model = transformer.Transformer(20, 30, 12, 3, 24, 2, final_norm=True, **options)
    from_torch(torch_model, reference_model)
    memory, _ = reference_model.encoder(x, memory_mask)
    output, _, _ = reference_model.decoder(y, memory, mask, memory_mask)
    same = torch.allclose(output, torch_model(x, y, **masks), atol=1e-5)
    print(f"as nn.Transformer, {'pre' if norm_first else 'post'}-norm:", same)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Training
#
# All that the decoder must learn to say is known in training. So it reads the right words, whatever it would have said itself: *teacher forcing*
# ([Williams and Zipser, 1989](../docs/references.md#williams1989)).

# %% slideshow={"slide_type": "subslide"}
quiz("6.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One place apart
#
# What is read and what is to be said are the same sentence, one place apart. The causal mask of lesson 04 lets all places train at once.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.shifted_targets(
        ["the", "old", "king", "sleeps"],
        ["le", "vieux", "roi", "dort"],
        "each position predicts the next input and attends to no later one",
        padding=1,
    ),
    alt="Source, the decoder's input, its target shifted by one position, and the causal mask.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.5 · shifted targets · easy · 6 min
def shifted_targets(sequences, bos_id, eos_id, pad_id=0):
    """Lists of token ids to target_in and target_out, both (b, m): input and target of the decoder.

    `bos_id` comes before the input, `eos_id` after the target, padding behind both.
    """
    ### BEGIN SOLUTION
    inputs = [torch.tensor([bos_id, *token_ids]) for token_ids in sequences]
    outputs = [torch.tensor([*token_ids, eos_id]) for token_ids in sequences]
    target_in = pad_sequence(inputs, batch_first=True, padding_value=pad_id)
    return target_in, pad_sequence(outputs, batch_first=True, padding_value=pad_id)
    ### END SOLUTION


shifted_targets = exercise("6.5").use(shifted_targets)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
target_in, target_out = shifted_targets([[11, 12, 13], [21]], bos_id=1, eos_id=2)
print("input: ", target_in.tolist())
print("target:", target_out.tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Nothing leaks, everything learns
#
# The output at a position must not depend on later tokens: that gradient is exactly zero. Padding must not matter. Every parameter needs a gradient, except the keys' third of
# `in_proj.bias`: it shifts all scores of a query alike.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x = torch.randn(1, 6, 12, requires_grad=True)  # the decoder's input, six tokens
output = model.decoder(x, torch.randn(1, 5, 12), causal_mask(6))
(gradient,) = torch.autograd.grad(output[0, 2].square().sum(), x)
influence = ["some" if norm > 0 else "none" for norm in gradient[0].norm(dim=-1)]
print("influence of each token on the third output:", *influence)
changed = torch.where(source_mask, source, 9)  # other tokens in place of padding
changed_logits = model.decode(target, model.encode(changed, source_mask), source_mask)
print("padding changes a logit:", not torch.allclose(logits, changed_logits, atol=1e-6))
F.cross_entropy(logits.flatten(0, 1), torch.randint(4, 30, (8,))).backward()
parameters = dict(model.named_parameters())
idle = [name for name, p in parameters.items() if p.grad is None or not p.grad.any()]
print("parameter tensors without a gradient:", idle or "none")
biases = [p.grad for name, p in parameters.items() if name.endswith("in_proj.bias")]
nonzero = torch.stack(biases).view(-1, 3, 12).abs().amax((0, 2)) > 1e-6  # queries, keys, values
print("in the attention biases, a gradient for queries, keys, values:", *nonzero.tolist())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Label smoothing
#
# The target distribution gives the right word $1 - s$ and shares $s$ evenly among all $V$ words ([Szegedy et al., 2016](../docs/references.md#szegedy2016)). With $\log p$ from
# the model,
#
# $$\text{loss} = -(1 - s) \log p_{\text{target}} - \frac{s}{V} \sum_{v} \log p_v$$
#
# So the model is not asked to be infinitely sure. Padding is not a target: it is left out of the mean.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
tokens, s = ["roi", "reine", "rois", "dort", "vieux"], 0.1
V = len(french)
show(
    pictures.label_smoothing(
        tokens,
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [1 - s + s / V] + 4 * [s / V],
        f"with s = {s} every one of {V} tokens keeps some probability",
        others=V - len(tokens),
    ),
    alt="The one-hot target gives one token probability 1; the smoothed one leaves a little for every token.",
)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.6 · the loss with label smoothing · medium · 12 min
def smoothed_loss(logits, targets, smoothing, pad_id=0):
    """logits (b, m, V), targets (b, m) to a scalar: the mean over all targets but padding."""
    ### BEGIN SOLUTION
    log_probs = logits.log_softmax(-1)
    target_log_probs = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (b, m)
    losses = -(1 - smoothing) * target_log_probs - smoothing * log_probs.mean(-1)
    return losses[targets != pad_id].mean()
    ### END SOLUTION


smoothed_loss = exercise("6.6").use(smoothed_loss)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
logits, targets = torch.randn(2, 4, 30), torch.tensor([[5, 9, 2, 0], [7, 8, 6, 2]])
expected = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0, label_smoothing=0.1)
print("as F.cross_entropy:", torch.allclose(smoothed_loss(logits, targets, 0.1), expected))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Too sure costs
#
# Let the right word have probability $p$ and all others share the rest. Without smoothing the loss falls all the way to $p = 1$. With it, there is a best $p$, and beyond it
# being surer costs.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
p = torch.linspace(0.02, 0.9999, 400)
wanted = torch.tensor([[5]])
rest = (1 - p) / (V - 1)  # of every other token
probs = torch.where(torch.arange(V) == wanted, p[:, None], rest[:, None])
curves = {
    name: [smoothed_loss(row.log()[None, None], wanted, smoothing).item() for row in probs]
    for name, smoothing in (("no smoothing", 0.0), ("s = 0.1", 0.1))
}
show(
    pictures.loss_and_confidence(p, curves, "with label smoothing, overconfidence raises the loss"),
    alt="Without smoothing the loss falls to zero as p goes to 1; with s = 0.1 it is lowest near 0.9 and rises steeply beyond.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Warm up first
#
# Adam's first steps rest on few gradients ([Kingma and Ba, 2015](../docs/references.md#kingma2015); [Liu et al., 2020](../docs/references.md#liu2020)), so the rate begins
# small. The schedule of [Vaswani et al. (2017)](../docs/references.md#vaswani2017), with steps counted from 1:
#
# $$\text{rate} = d^{-0.5} \cdot \min(\text{step}^{-0.5}, \; \text{step} \cdot \text{warmup\_steps}^{-1.5})$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.7 · the warmup schedule · easy · 5 min
def noam_rate(step, dim, warmup_steps):
    """The learning rate at `step`, counted from 1."""
    ### BEGIN SOLUTION
    return dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    ### END SOLUTION


noam_rate = exercise("6.7").use(noam_rate)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps = list(range(1, 2001, 10))
show(
    pictures.schedules(
        steps,
        {
            f"{warmup_steps} warmup steps": [
                noam_rate(step, sizes["dim"], warmup_steps) for step in steps
            ]
            for warmup_steps in (100, 400, 1000)
        },
        "linear warmup, then the inverse square root of the step",
    ),
    alt="Three learning rates rise in straight lines, the shorter the warmup the higher the peak; then they share one falling curve.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does it matter?
#
# Two short runs of a post-norm model, same first parameters, same batches: in one the rate rises to its peak, in the other it starts there. Then both fall to 0 along
# half a cosine. One seed each; the next table has three, and longer runs.

# %% slideshow={"slide_type": "-"}
peak, num_steps, ratio = 0.003, 250, 0.2
warm, cold = (
    training.first_losses(warmup_ratio, learning_rate=peak, num_steps=num_steps)
    for warmup_ratio in (ratio, 0.0)
)
print(f"learning rate {peak}, with {ratio * num_steps:.0f} warmup steps of {num_steps}, or without")
ends = [losses[-25:].mean().item() for losses in (warm, cold)]
print(f"mean loss of the last 25 steps: {ends[0]:.2f} with warmup, {ends[1]:.2f} without")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
means = [losses.view(-1, 10).mean(1) for losses in (warm, cold)]  # of ten steps
show(
    pictures.training_panels(
        [10 * (block + 1) for block in range(len(means[0]))],
        {"loss in nats": {"with warmup": means[0], "without": means[1]}},
        "one run: post-norm without warmup leads at first and falls behind",
    ),
    alt=f"Loss over {num_steps} steps: without warmup it is lower in the first fifth and higher in the second half.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The rest of the recipe
#
# - **Dropout** ([Srivastava et al., 2014](../docs/references.md#srivastava2014)): while it trains, each number of a word vector, and each that a branch adds, is set to 0 with
#   some probability and the rest are scaled up to make up for it, so that nothing can lean on one number alone. Off when it writes: `model.eval()`.
# - **Clipping** ([Pascanu et al., 2013](../docs/references.md#pascanu2013)): a gradient longer than a limit, here 1, is shortened to it, so that one odd batch cannot throw the
#   parameters away.
# - **Weight decay** ([Loshchilov and Hutter, 2019](../docs/references.md#loshchilov2019)): every step shrinks all parameters a little, so that only what the data keeps asking
#   for stays large.
# - **Tying**: the output layer is the table of target words.
# - **Batches by words**: many short sentences or few long ones, so that every step costs about the same.
#
# Which of them pay is a question to the data. Guess which change costs most before the next slide.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One part changed at a time

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
recipes = stored("transformer_recipe")
by_name = {row["name"]: row for row in recipes.result}
recipes.table(
    (
        "what differs",
        "exact match, %",
        "BLEU",
        "alignment error, %",
        "confidence, %",
        "accuracy, %",
    ),
    [
        (
            row["name"],
            *(ranged(row[measure]) for measure in ("exact", "bleu", "alignment_error")),
            f"{row['words']['confidence']:.1f}",
            f"{row['words']['accuracy']:.1f}",
        )
        for row in recipes.result
    ],
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# *Confidence*: mean probability of the predicted token under teacher forcing; *accuracy*: how often it is correct. In a calibrated model the two are equal.
#
# The ranges overlap: no single part decides the exact match. Without smoothing the model is about as confident as it is accurate; with it, less confident, as its targets ask, and
# cross-attention is better aligned. Post-norm without warmup fails with the six layers of lesson 05, and not here.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The loop
#
# All that you built, in its order: targets one place apart, your model, the smoothed loss, its gradient, clipped, and a step at the rate of the schedule.

# %% slideshow={"slide_type": "-"}
small = Transformer(len(english), len(french), dim=48, num_heads=4, hidden_dim=96, num_layers=1)
optimizer, losses = torch.optim.AdamW(small.parameters(), betas=training.BETAS), []
for step in range(1, 101):
    batch_pairs = [pairs.train[index] for index in torch.randint(len(pairs.train), (32,))]
    batch = collate(batch_pairs, english, french)
    target_ids = [french.encode(pair.french) for pair in batch_pairs]
    target_in, target_out = shifted_targets(target_ids, BOS_ID, EOS_ID)
    memory = small.encode(batch.source, batch.source_mask)
    logits = small.decode(target_in, memory, batch.source_mask)
    loss = smoothed_loss(logits, target_out, smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(small.parameters(), max_norm=1.0)
    optimizer.param_groups[0]["lr"] = noam_rate(step, dim=48, warmup_steps=50)
    optimizer.step()
    losses.append(loss.item())
print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} at step {len(losses)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# The same loop, longer, in `utils`: pre-norm, a cosine ([Loshchilov and Hutter, 2017](../docs/references.md#loshchilov2017)) behind the warm-up, batches by words; no dropout,
# no smoothing, no tying. The pairs come from a small grammar of English and French, made for this course; no held-out sentence is among them.

# %% slideshow={"slide_type": "-"}
result = training.train_transformer(**training.LESSON)
num_steps = len(result["loss"])
print(f"{result['parameters']:,} parameters", end="; ")
print(f"{num_steps:,} steps of {training.BATCH_TOKENS} target tokens")
print(f"learning rate {training.LEARNING_RATE}", end=", ")
print(f"{training.WARMUP_RATIO * num_steps:.0f} warmup steps")
print(f"AdamW: betas {training.BETAS}, weight decay {training.WEIGHT_DECAY}")
print(f"held-out sentences: exact match {100 * result['exact']:.1f} %, BLEU {result['bleu']:.1f}")

# %% tags=["checks"]
assert ends[0] < ends[1]
leads = (means[1] < means[0]).tolist()
assert all(leads[: len(leads) // 5]) and not any(leads[len(leads) // 2 :])
plain, smoothed = by_name["as in the lesson"], by_name["label smoothing 0.1"]
for row in recipes.result:
    difference = row["words"]["accuracy"] - row["words"]["confidence"]
    assert difference > 5 if row is smoothed else abs(difference) < 1
    assert (
        row["exact"]["least"] < plain["exact"]["most"]
        and plain["exact"]["least"] < row["exact"]["most"]
    )
assert abs(smoothed["words"]["confidence"] - 100 * (1 - s + s / V)) < 2
assert smoothed["alignment_error"]["most"] < plain["alignment_error"]["least"]
assert losses[-1] < 0.7 * losses[0]
assert result["exact"] >= 0.95

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Writing
#
# In training all that is read is known. What changes when nobody knows it?

# %% slideshow={"slide_type": "subslide"}
quiz("6.e")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Word by word
#
# In use there are no right words to read: the model reads what it has written itself, and has never in training read a mistake of its own. The simplest way takes the likeliest
# word each time: *greedy* decoding.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.8 · greedy decoding · medium · 10 min
def greedy_decode(model, source, source_mask, bos_id, eos_id, max_len):
    """The most probable token ids (b, m): EOS is part of them, 0 behind it, no BOS.

    `model` has `encode` and `decode`. Stops when all sequences have ended, or at `max_len` tokens.
    """
    ### BEGIN SOLUTION
    memory = model.encode(source, source_mask)
    token_ids = torch.full((len(source), 1), bos_id)
    active = torch.ones(len(source), dtype=torch.bool)
    while active.any() and token_ids.size(1) <= max_len:
        logits = model.decode(token_ids, memory, source_mask)[:, -1]
        token = logits.argmax(-1).masked_fill(~active, 0)
        token_ids = torch.cat([token_ids, token.unsqueeze(1)], 1)
        active = active & (token != eos_id)
    return token_ids[:, 1:]
    ### END SOLUTION


greedy_decode = exercise("6.8").use(greedy_decode)


# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your classes, the trained parameters
#
# The parameters that were just trained go into the model that you assembled. They were trained without tying, so the output layer gets a matrix of its own.

# %% slideshow={"slide_type": "-"}
translator = Transformer(len(english), len(french), **sizes)
translator.lm_head = nn.Linear(sizes["dim"], len(french), bias=False)
translator.load_state_dict(result["state"])
batch = collate(pairs.test[:4], english, french)
with torch.no_grad():
    greedy_ids = greedy_decode(
        translator, batch.source, batch.source_mask, BOS_ID, EOS_ID, max_len=40
    )
for pair, row in zip(pairs.test, greedy_ids.tolist(), strict=False):
    words = french.decode(row)
    print(join(pair.english, "english"))
    print("   ", join(words, "french"), "(correct)" if tuple(words) == pair.french else "(wrong)")

# %% slideshow={"slide_type": "subslide"}
quiz("6.f")


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.9 · a step with the key-value cache · medium · 8 min
def cached_step(x, keys, values, W_Q, W_K, W_V):
    """The newest token x (b, 1, d) attends to itself and to all tokens before it.

    Their keys and values (b, t, d_k) are cached. Returns output (b, 1, d_k), and keys and values
    (b, t + 1, d_k) with those of the new token appended.
    """
    ### BEGIN SOLUTION
    keys = torch.cat([keys, x @ W_K], 1)
    values = torch.cat([values, x @ W_V], 1)
    output, _ = attention(x @ W_Q, keys, values)  # no later tokens: no mask
    return output, keys, values
    ### END SOLUTION


cached_step = exercise("6.9").use(cached_step)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
x, projections = torch.randn(1, 6, 8), torch.randn(3, 8, 4)
keys = values = torch.zeros(1, 0, 4)
outputs = []
for position in range(6):
    output, keys, values = cached_step(x[:, position : position + 1], keys, values, *projections)
    outputs.append(output)
expected, _ = attention(*(x @ W for W in projections), causal_mask(6))
same = torch.allclose(torch.cat(outputs, 1), expected, atol=1e-5)
print("token by token as all at once:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### What the cache buys
#
# Without it, step $t$ computes all $t$ words again. With it, one. The keys and values of the source are made once and kept as well. The price is memory: $2 d$ numbers for
# each word, layer and sentence.

# %% slideshow={"slide_type": "-"}
trained = training.restore_transformer(result)
cached = decoding.greedy_decode(
    trained.model, batch.source, batch.source_mask, bos_id=BOS_ID, eos_id=EOS_ID, max_len=40
)
same = torch.equal(cached.token_ids, greedy_ids)
print("with the cache, the same tokens as yours without:", same)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
speed = stored("transformer_speed")
speed.table(
    ("tokens", "batch size", "speedup with the cache"),
    [(row["length"], row["batch"], row["speed"]) for row in speed.result["cache"]],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# The longer the sentence, the more the cache saves.

# %% slideshow={"slide_type": "subslide"}
quiz("6.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Several hypotheses at once
#
# Keep the `num_beams` best **hypotheses**. Each step continues all of them with every token, adds up the log-probabilities, and keeps the
# `num_beams` best of *all* continuations: several may come from one hypothesis, none from another. A hypothesis that has ended stays in the
# beam: its only continuation is 0, and that costs nothing.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.10 · beam search · hard · 20 min
def beam_search(next_log_probs, bos_id, eos_id, max_len, num_beams):
    """next_log_probs(token_ids (k, m)) -> log-probabilities (k, V) of the next token; BOS first.

    Returns token_ids (num_beams, m) and log_probs (num_beams,), best first; 0 behind EOS, no BOS.
    Before EOS, 0 is an ordinary token.
    Stops when all hypotheses have ended, or at `max_len` tokens.
    """
    ### BEGIN SOLUTION
    token_ids, log_probs = torch.full((1, 1), bos_id), torch.zeros(1)
    ended = torch.zeros(1, dtype=torch.bool)
    while not ended.all() and token_ids.size(1) <= max_len:
        step = next_log_probs(token_ids).masked_fill(ended.unsqueeze(1), float("-inf"))
        step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
        log_probs, index = (log_probs.unsqueeze(1) + step).flatten().topk(num_beams)
        parent, token = index // step.size(1), index % step.size(1)
        token_ids = torch.cat([token_ids[parent], token.unsqueeze(1)], 1)
        ended = ended[parent] | (token == eos_id)
    return token_ids[:, 1:], log_probs
    ### END SOLUTION


beam_search = exercise("6.10").use(beam_search)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
first, first_mask = source[:1], source_mask[:1]
with torch.no_grad():
    memory = model.encode(first, first_mask)


@torch.no_grad()
def next_log_probs(token_ids):
    """The hypotheses of one sentence are a batch, with the same memory for all."""
    k = len(token_ids)
    logits = model.decode(token_ids, memory.expand(k, -1, -1), first_mask.expand(k, -1))
    return logits[:, -1].log_softmax(-1)


options = {"bos_id": 1, "eos_id": 2, "max_len": 6, "num_beams": 3}
token_ids, log_probs = beam_search(next_log_probs, **options)
expected = decoding.beam_search(reference, first, first_mask, **options)
print("the same tokens as the library:", torch.equal(token_ids, expected.token_ids[0]))
print("their log-probabilities:", torch.allclose(log_probs, expected.log_probs[0], atol=1e-4))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does a beam help?
#
# Held-out sentences of the lengths it was trained on, and longer ones: greedily, and with a beam of 4. Where the beam is wrong, ask whether the right sentence would have been
# likelier. If not, no search would have found it.

# %% slideshow={"slide_type": "-"}
differing, gained = [], []  # fractions, at trained lengths and longer
for name, subset in (("trained lengths", pairs.test[:200]), ("longer", pairs.longer[:100])):
    decoded = training.greedy_and_beam(trained, subset, num_beams=4)
    wrong = [row for row in decoded if row.beam != row.pair.french]
    missed = sum(row.reference_log_prob > row.beam_log_prob for row in wrong)
    different = [row for row in decoded if row.beam != row.greedy]
    likelier = sum(row.beam_log_prob > row.greedy_log_prob for row in different)
    greedy_correct = sum(row.greedy == row.pair.french for row in decoded)
    beam_correct = len(subset) - len(wrong)
    print(
        f"{name}, {len(subset)} sentences: correct {greedy_correct} greedily, {beam_correct} by beam"
    )
    print(f"    beam search differs in {len(different)}, more probable in {likelier} of them")
    print(f"    wrong in {len(wrong)}, the reference more probable in {missed} of them")
    differing.append(len(different) / len(subset))
    gained.append((beam_correct - greedy_correct) / len(subset))

# %% [markdown] slideshow={"slide_type": "subslide"}
# At the lengths it knows, the model is sure of itself and a beam changes next to nothing. On longer sentences the beam finds likelier ones, and hardly one of them is right: it
# is not the search that fails there, but the model. Many systems divide $\log p$ by the length to a power ([Wu et al., 2016](../docs/references.md#wu2016)), since every word
# costs; here that power is 0.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The tree of a beam
#
# Which beginnings were kept, which were dropped, and when did the best one take the lead? The first sentence is one of the longer ones, where greedy and beam part.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
example = min(different, key=lambda row: (len(row.greedy) + len(row.beam), row.pair.english))
sentences = [
    join(example.pair.english, "english"),
    "the old king does not sleep",
    "the european economic area",
    "the red cars of the women are expensive",
]
tree = beam_tree(
    lambda sentence, num_beams: own_sentence.search_tree(trained, sentence, num_beams),
    sentences,
    num_beams=2,
    title="kept, dropped and best hypotheses",
)
tree

# %% tags=["checks"]
assert same
assert differing[0] < 0.05 < differing[1] and likelier >= 0.9 * len(different)
assert gained[1] < 0.1 and len(wrong) > 0.5 * len(subset) and missed < 0.1 * len(wrong)
assert not all(step[0]["best"] for step in tree.tree())  # it did not always lead

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · What it learned
#
# Type a sentence and step through its translation: the words it considered, and where each layer and head looked. It opens at the head that aligns best; how that one was
# found comes below.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
head = trained.alignment_head  # the best on validation pairs
aligning = {"layer": head.layer, "head": pictures.MEAN if head.head is None else head.head}
translate_watch(
    lambda text: own_sentence.watched(trained, text),
    "the old king who sees the black dogs does not sleep",
    title="watch it translate",
    step=8,
    **aligning,
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Cross-attention against gold
#
# The corpus knows which words belong together, and no model was told. Choose a layer and a head: does it look where the gold links are?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
examples = {
    join(pair.english, "english"): pair for pair in pairs.test if 7 <= len(pair.english) <= 9
}
examples = dict(list(examples.items())[:6])
attended = dict(
    zip(examples, training.pair_attention(trained, list(examples.values())), strict=True)
)


def against_gold(sentence, layer, head):
    pair, links = attended[sentence], examples[sentence].links
    cross = torch.stack(pair.weights.cross)
    return pictures.gold_alignment(
        pair.source, pair.target_out, cross, links, layer, head, "gold links outlined"
    )


explore(
    against_gold,
    alt="Cross-attention of the chosen layer and head with the gold links outlined.",
    sentence=list(examples),
    layer=menu(pictures.layer_choices(sizes["num_layers"]), start=aligning["layer"]),
    head=menu(pictures.head_choices(sizes["num_heads"]), start=aligning["head"]),
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Which head aligns?
#
# Link each target word to the source word it looks at most: links $A$. The right links are $S$. The alignment error ([Och and Ney, 2003](../docs/references.md#och2003)) is
# $1 - 2 |A \cap S| / (|A| + |S|)$. Validation pairs choose the head that serves as the alignment; the test pairs, which had no say, judge it.

# %% slideshow={"slide_type": "-"}
errors = 100 * result["alignment_head"]["errors"]
print("alignment error in %, validation pairs")
print("         ", *(f"head {head}" for head in range(1, sizes["num_heads"] + 1)), "  mean")
for number, row in enumerate(errors.tolist(), start=1):
    print(f"layer {number}:", *(f"{error:6.1f}" for error in row))
print(f"the best of these on test pairs: {100 * result['alignment_error']:.1f} %", end="; ")
print(f"lowest possible with one link per token: {100 * result['alignment_floor']:.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Negation
#
# French says *not* twice, on both sides of the verb: *ne ... pas*. A place of the decoder is named by the word that it reads and the word that it is to say. Where does it look
# while it names the one and the other?


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def maps_and_names(pair, *choices):
    """choices: (layer, head), or MEAN for the head, of the encoder, the decoder and the cross-attention."""
    maps, names = [], []
    for weights, choice in zip(pair.weights, choices, strict=True):
        maps.append(pictures.chosen_map(torch.stack(weights), *choice))
        names.append(pictures.map_name(sizes["num_layers"], sizes["num_heads"], *choice))
    return maps, names


(negation,) = training.pair_attention(trained, [attention_roles.shortest_negation(pairs.test)])
last, cross_head = (sizes["num_layers"] - 1, pictures.MEAN), (*aligning.values(),)
negation_maps, names = maps_and_names(negation, last, last, cross_head)
show(
    pictures.three_attentions(
        negation.source,
        negation.target_in,
        *negation_maps,
        "ne and pas both attend to not",
        names,
        negation.target_out,
    ),
    alt="Three attention maps. In cross-attention, the positions that predict ne and pas both attend most to not.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# In this sentence the encoder spreads its look: no weight in its map reaches one half. In the decoder the place that says *pas* looks most at the one that said the verb.

# %% slideshow={"slide_type": "subslide"}
on_not = attention_roles.negation_weights(trained, pairs.test)
print(f"{on_not['count']} held-out sentences; weight of the alignment head on 'not' or 'never'")
print(f"  predicting 'ne':                 {100 * on_not['first']:5.1f} %")
print(f"  predicting 'pas' or 'jamais':    {100 * on_not['second']:5.1f} %")
print(f"  predicting any other token:      {100 * on_not['elsewhere']:5.1f} %")
print(f"  uniform attention:               {100 * on_not['uniform']:5.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Agreement at a distance
#
# A French adjective agrees with its noun, even with other nouns between the two. To get it right the model must find the noun, from somewhere. Guess: in the encoder, among the
# words written, or across?

# %% slideshow={"slide_type": "subslide"}
roles = attention_roles.agreement_heads(trained, translation.TRAINING_PAIRS, count=150)
print("for each attention the head that attends most to the adjective's noun; weights in %")
print("attention  layer  head      noun attractors  uniform")
for row in roles:
    weights = [f"{100 * row[name]:9.1f}" for name in ("noun", "attractors", "uniform")]
    print(f"{row['attention']:9s} {row['layer'] + 1:6d} {row['head'] + 1:5d}", *weights)

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
cases = attention_roles.held_out_agreements(
    300, attention_roles.TEST_SEED, translation.TRAINING_PAIRS
)
case = attention_roles.shortest_agreement(cases)
(example,) = training.pair_attention(trained, [case.pair])
row, nouns = (
    case.french(case.adjective),
    [case.french(position) for position in (case.noun, *case.attractors)],
)
adjective, noun = case.pair.french[row], case.pair.french[nouns[0]]
title = f"{adjective} attends most to the position that predicted {noun}"
heads = [(role["layer"], role["head"]) for role in roles]
maps, names = maps_and_names(example, *heads[:2], cross_head)
show(
    pictures.three_attentions(
        example.source, example.target_in, *maps, title, names, example.target_out
    ),
    alt=f"Three attention maps. In the decoder, the position that predicts {adjective} attends most to the one that predicted {noun}.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Left and middle are the heads of the table. In the decoder most of the weight goes to the two places that said a noun, and more to the right one. In the encoder the adjective
# looks most elsewhere; across, the place that says it looks at the English one.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Other seeds
#
# That was one model. Three more, trained longer, each from a seed of its own: the weight on *not* or *never* while these words are named, and on the noun from a far adjective.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
closing = stored("transformer_ladder")
(full,) = closing.result
seeds = full["roles"]
rows = [
    (
        "alignment head",
        *(
            f"layer {choice['layer'] + 1}, "
            + ("mean" if choice["head"] is None else f"head {choice['head'] + 1}")
            for choice in full["alignment_heads"]
        ),
        "",
    )
]
uniform = seeds[0]["negation"]["uniform"]
for tokens, name in (("ne", "first"), ("pas, jamais", "second"), ("other tokens", "elsewhere")):
    rows.append((f"on not, for {tokens}", *(seed["negation"][name] for seed in seeds), uniform))
for index, name in enumerate(attention_roles.ATTENTIONS):
    weights = [seed["agreement"][index]["noun"] for seed in seeds]
    rows.append((f"{name}, on the noun", *weights, seeds[0]["agreement"][index]["uniform"]))
closing.table(("weight in %", *(f"seed {seed}" for seed in range(len(seeds))), "uniform"), rows)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Who looks where is the same with every seed. How strongly is not, and neither is the head that does it.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Where it looks, and what it needs
#
# A weight says where a head looked, not what it did with it. So hide a place, change nothing else, and count again: from the adjective's place, or, in the encoder, from all
# other words.

# %% slideshow={"slide_type": "-"}
accuracy = attention_roles.ablated_accuracy(trained, cases)
masked = {
    "none": "nothing",
    "noun_output": "the position that predicted the noun",
    "noun_input": "the position with the noun as its input",
    "encoder": "the noun, for all other tokens in the encoder",
    "cross": "the noun in cross-attention, for the adjective",
}
print(f"{len(cases)} distant adjectives, teacher forcing; accuracy in % with this masked:")
for name, words in masked.items():
    print(f"  {words:46s} {100 * accuracy[name]:5.1f}")
baseline = attention_roles.majority_gender_accuracy(cases)
print(f"baseline (majority gender, number from the verb): {100 * baseline:.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without the place that *said* the noun this model is no better than a guess at the gender; the other looks are not missed. That place read the word before the noun, but it
# holds what it had looked up to say. In the encoder we found no role that a weight shows.

# %% tags=["checks"]
encoder, decoder, cross = negation_maps
ne, pas = negation.target_out.index("ne"), negation.target_out.index("pas")
assert cross[ne].argmax() == cross[pas].argmax() == negation.source.index("not")
assert encoder.max() < 0.5 and decoder[pas].argmax() == pas - 1  # the verb is between the two
assert min(on_not["first"], on_not["second"]) > 2 * on_not["uniform"] > 4 * on_not["elsewhere"]
assert [role["noun"] > 3 * role["uniform"] for role in roles] == [False, True, False]
encoder, decoder, cross = maps
assert decoder[row].argmax() == nouns[0] and decoder[row][nouns].sum() > 0.7
assert cross[row].argmax() == case.adjective and encoder[case.adjective].argmax() != case.noun
for index, name in enumerate(attention_roles.ATTENTIONS):
    heads = [seed["agreement"][index] for seed in seeds]
    above_uniform = [head["noun"] > 3 * heads[0]["uniform"] for head in heads]
    assert above_uniform == [name == "decoder"] * len(seeds)
for weights in (seed["negation"] for seed in seeds):
    assert min(weights["first"], weights["second"]) > 3 * weights["uniform"]
    assert weights["elsewhere"] < weights["uniform"]
assert accuracy["noun_output"] < baseline + 0.08 < accuracy["none"]
assert min(accuracy[name] for name in ("noun_input", "encoder", "cross")) > accuracy["none"] - 0.05

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · The ladder
#
# The same pairs, the same held-out sentences, for every model of lessons 03 and 06. Recurrent models: an encoder and a decoder that read word by word, without
# attention and with three kinds of it. The Transformer is this lesson's, trained longer; it alone had two threads.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
recurrent = stored("ladder")
rungs = [*recurrent.result, *closing.result]
origin = f"{recurrent.label} The Transformer: {closing.date}, {closing.machine}."
head = ("model", "exact match, %", "BLEU", "alignment error, %")


def scores(row, among):
    """The name of a row, and its three measures among all held-out or among the longer sentences."""
    return row["name"], *(ranged(among[name]) for name in ("exact", "bleu", "alignment_error"))


costs = [
    (f"{row['parameters']['median']:,.0f}", f"{row['steps']:,}", ranged(row["seconds"], 0))
    for row in rungs
]
Table(
    (*head, "parameters", "steps", "training, s"),
    [(*scores(row, row), *cost) for row, cost in zip(rungs, costs, strict=True)],
    origin,
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def low_and_high(values):
    return sorted(values)[len(values) // 2], min(values), max(values)


def splits(row):
    longer = row["longer"]["exact"]
    quarters = [low_and_high(row["quarters"][index]["exact_of_seeds"]) for index in (0, -1)]
    return [*quarters, (longer["median"], longer["least"], longer["most"])]


show(
    pictures.exact_match_splits(
        [(row["name"], splits(row)) for row in rungs],
        ["shortest quarter", "longest quarter", "longer than in training"],
        "attention carries long sentences; of the models that have it, the Transformer has fewest of the longer ones exactly right",
    ),
    alt="Exact match of every model on the shortest and longest quarter and on sentences longer than in training.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Longer than in training

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
attending = {row["name"]: row["longer"] for row in recurrent.result if row["alignment_error"]}
Table(head, [scores(row, row["longer"]) for row in rungs], origin)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Attention makes the difference, with recurrence or without. Past the lengths of training the Transformer has fewer sentences exactly right than any other model with attention,
# and its alignment is the worst of them; by BLEU, which counts parts, additive attention is lower. Why does it go wrong?

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### A sentence that begins elsewhere
#
# Take short sentences, which it translates without fault, and let them begin at a later place: only the sinusoids that are added change.

# %% slideshow={"slide_type": "-"}
short = [pair for pair in pairs.test if len(pair.english) <= 9][:200]
moved = {
    start: training.accuracy_from_position(trained, short, start)
    for start in (0, 3, 6, 9, 12, 15, 18)
}
known, own = (  # the last position: of <eos> in the source, of the last input in the target
    [max(len(getattr(pair, side)) for pair in subset) for side in ("english", "french")]
    for subset in (pairs.train, short)
)
farthest = min(position - length for position, length in zip(known, own, strict=True))
print("first position:  ", *(f"{start:5d}" for start in moved))
print("accuracy, %:     ", *(f"{100 * accuracy:5.1f}" for accuracy in moved.values()))
print(f"positions in training: up to {known[0]} in the source, {known[1]} in the target")
print(f"so all positions of these sentences are known if they begin at {farthest} or before")

# %% [markdown] slideshow={"slide_type": "fragment"}
# These places are known from training, but no sentence ever began at one of them, and `<bos>` was read at place 0 only. The model has tied words to absolute places. That is
# one reason why longer sentences fail; this does not show that it is the only one.

# %% tags=["checks"]
recurrent_rows, longer = attending.values(), full["longer"]
assert longer["exact"]["most"] < min(row["exact"]["least"] for row in recurrent_rows)
errors = [row["alignment_error"]["most"] for row in recurrent_rows]
assert longer["alignment_error"]["least"] > max(errors)
assert longer["bleu"]["least"] > attending["additive attention"]["bleu"]["most"]
assert moved[0] > 0.99 and farthest >= 9 and moved[9] < moved[0] - 0.03

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - The encoder hands its output vectors to the decoder, which makes keys and values of them; the queries are the decoder's.
# - The decoder layer has three branches: masked self-attention, cross-attention, feed-forward.
# - What is read is one place behind what is said, `<bos>` first. All places train at once, and nothing leaks.
# - Writing stays sequential: each word needs the one before. The cache keeps what does not change.
# - A beam keeps several beginnings. It finds likelier sentences, which are not always better ones.
# - A pre-norm stack ends with a norm. Whether warm-up, dropout, smoothing or tying pay is to be measured: here no single one decided.
# - Where a head looks is a weight; what a look is for shows when it is hidden.
# - A model with sinusoids can lean on absolute places: moved sentences and longer ones lead it astray.
#
# **What is left open.** This model learned from pairs made for it, each with its answer. Most text comes without any answers beside it. Lesson 07 learns from such text first,
# and from few answers then.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which parts of this machine a model needs that only reads, and which one needs that only writes. Lesson 07 takes it apart.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - A. Vaswani et al., [*Attention is all you need*](../docs/references.md#vaswani2017), 2017: the whole model, its schedule, its label smoothing.
# - O. Press, L. Wolf, [*Using the output embedding to improve language models*](../docs/references.md#press2017), 2017: tying.
# - C. Szegedy et al., [*Rethinking the Inception architecture for computer vision*](../docs/references.md#szegedy2016), 2016: label smoothing.
# - N. Srivastava et al., [*Dropout: a simple way to prevent neural networks from overfitting*](../docs/references.md#srivastava2014), 2014.
# - R. Xiong et al., [*On layer normalization in the Transformer architecture*](../docs/references.md#xiong2020), 2020: warm-up and norm order.
# - L. Liu et al., [*On the variance of the adaptive learning rate and beyond*](../docs/references.md#liu2020), 2020: why Adam's first steps are unsteady.
# - I. Loshchilov, F. Hutter, [*Decoupled weight decay regularization*](../docs/references.md#loshchilov2019), 2019: AdamW.
# - R. Pascanu, T. Mikolov, Y. Bengio, [*On the difficulty of training recurrent neural networks*](../docs/references.md#pascanu2013), 2013: clipping.
# - R. Williams, D. Zipser, [*A learning algorithm for continually running fully recurrent neural networks*](../docs/references.md#williams1989), 1989: teacher forcing.
# - Y. Wu et al., [*Google's neural machine translation system*](../docs/references.md#wu2016), 2016: beam search with a power of the length.
# - P. Koehn, R. Knowles, [*Six challenges for neural machine translation*](../docs/references.md#koehn2017), 2017: wider beams are not better ones.
# - K. Papineni et al., [*BLEU: a method for automatic evaluation of machine translation*](../docs/references.md#papineni2002), 2002.
# - F. J. Och, H. Ney, [*A systematic comparison of various statistical alignment models*](../docs/references.md#och2003), 2003: the alignment error rate.
