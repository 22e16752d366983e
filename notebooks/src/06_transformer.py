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
# In lesson 03 RNNs with attention translated nearly all test sentences exactly, but their steps run one after the other. Can attention alone do it, with all
# target positions trained at once?
#
# The encoder of lesson 05 turns a sentence into vectors. A **decoder** generates a translation from them, token by token. Together they are the Transformer
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017)), trained here on the same pairs.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 15 minutes for the recap and the whole model, 10 for the example by hand, 25 for the parts, 25 for training, 25 for decoding, 10 for what it
# learned, 10 for the comparison.

# %% [markdown] slideshow={"slide_type": "notes"}
# Draw the two stacks with arrows only. The room names what flows along each.

# %% [markdown]
# **After this lesson you can**
#
# - compute one step of a decoder by hand, from query to loss;
# - build the decoder layer and the Transformer, equal to PyTorch's;
# - train it with shifted targets, padding, label smoothing and warm-up;
# - decode greedily, by beam search, and with a key-value cache;
# - test by ablation which attention agreement needs;
# - explain why the field left recurrence, and where recurrence was better.
#
# **You need** lesson 05; section 1 recaps lesson 03. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from utils.build.results import ranged, stored
from utils.data.tokens import BOS_ID, EOS_ID, collate, join
from utils.exercises import badges, board, exercise, lesson, quiz
from utils.models import decoding, layers, transformer
from utils.models.attention import MultiHeadAttention, attention, causal_mask
from utils.models.layers import Embedding, FeedForward, TransformerEncoder
from utils.models.positions import sinusoidal_positions
from utils.models.torch_weights import from_torch
from utils.plots import lesson06 as pictures
from utils.plots import show
from utils.plots.text import digits
from utils.training import attention_roles, metrics, own_sentence, translation
from utils.training import transformer as training
from utils.widgets import attention_view, beam_tree, open_transformer

torch.manual_seed(6)
torch.set_num_threads(1)
lesson("06")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · The task and the whole model
#
# ### Recap of lesson 03
#
# **Corpus.** Pairs of English and French sentences from a small grammar. No held-out sentence is among the training
# pairs. **Gold alignments** link each French word to the English words it translates; no model sees them in training.

# %% slideshow={"slide_type": "-"}
pairs, english, french = translation.pairs_and_words()
for pair in [pair for pair in pairs.train if len(pair.english) <= 8][:3]:
    print(join(pair.english, "english"), "→", join(pair.french, "french"))
print(f"{len(pairs.train):,} training pairs, {len(pairs.test):,} test pairs")
print(f"vocabulary: {len(english)} English and {len(french)} French tokens; special ones:")
print(*(f"{token_id} {word}" for token_id, word in enumerate(french.words[:4])), sep=", ")

# %% [markdown]
# **Recurrent models** (RNNs, here LSTMs) update a hidden state token by token. One encodes the source, another generates the target. With attention, each
# decoder state is a query over the encoder states (dot, multiplicative or additive score). Without, the decoder gets one vector for the whole sentence.
#
# **Teacher forcing** ([Williams and Zipser, 1989](../docs/references.md#williams1989)). In training the decoder's input is the reference, not its
# own output. In decoding it must continue from its own mistakes, never seen in training: **exposure bias**.

# %% [markdown]
# **Exact match**: the percentage of translations identical to the reference.
#
# **BLEU** ([Papineni et al., 2002](../docs/references.md#papineni2002)), from 0 to 100: the geometric mean of the precisions of 1- to 4-grams,
# times a **brevity penalty** $\min(1,e^{1-r/c})$ for a translation of $c$ tokens that is shorter than its reference of $r$; counts are clipped and
# pooled over the corpus. The last sentence below has perfect precision, but a brevity penalty of $e^{1-6/5}=0.82$.
#
# **Alignment error rate** (AER, [Och and Ney, 2003](../docs/references.md#och2003)). Link each French token to the English token with the
# largest attention weight: links $A$. With gold links $S$ (all of the kind *sure*, so AER is $1-F_1$),
#
# $$\text{AER}=1-\frac{2\,|A\cap S|}{|A|+|S|}$$
#
# Five links, four of them among six gold links: $1-2\cdot4/(5+6)=0.27$.

# %% tags=["nbval-check-output"]
reference_words = ["le", "vieux", "roi", "ne", "dort", "pas"]
for translated in ("le vieux roi ne dort pas", "le vieux roi ne parle pas", "le vieux roi ne dort"):
    score = metrics.bleu([translated.split()], [reference_words])
    print(f"{translated:26s} BLEU {score:5.1f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: why a brevity penalty? One correct word alone has precision 1.

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
        "The encoder's output goes into every layer of the decoder",
    ),
    alt="Encoder and decoder stacks with the shape along both streams; the encoder's output goes into every cross-attention.",
)

# %% [markdown]
# The encoder's output vectors, one per source token, are the **memory**. The decoder takes the tokens so far as input and predicts the next token at
# every position. The paper calls cross-attention *encoder-decoder attention*. Its settings and ours:
#
# | | paper (base) | here |
# |---|---|---|
# | layers in each stack | 6 | 2 |
# | $d$ (paper: $d_\text{model}$) | 512 | 96 |
# | heads | 8 | 4 |
# | `hidden_dim` (paper: $d_\text{ff}$) | 2,048 | 256 |
# | norms | post-norm | pre-norm |
# | dropout; label smoothing | 0.1; 0.1 | 0; 0 |
# | warm-up steps | 4,000 of 100,000 | 80 of 1,600 |
# | vocabulary | shared, subwords | separate, words |

# %% [markdown] slideshow={"slide_type": "notes"}
# Point at the orange arrow: it is all that the decoder knows of the source.

# %% [markdown]
# **Try it.** Click a block. Which source token do the predictions of *ne* and *pas* attend to? Then open cross-attention, and cut a link: click its weight.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
open_transformer()

# %% [markdown] slideshow={"slide_type": "notes"}
# Step through *the old king does not see the black horse*. In the decoder's self-attention the hatched triangle is the causal mask. Then without positions:
# the room predicts what breaks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · Worked example: a decoder by hand
#
# One layer, one head, $d=2$; all projections are the identity; no norms, no feed-forward network. The source has three memory vectors, for *the*,
# *king* and `<eos>`. The decoder input is `<bos>` *le*, its targets are *le* *roi*:
#
# $$x_1=(1,0),\;x_2=(0,1),\qquad m_1=(2,0),\;m_2=(0,2),\;m_3=(-1,-1)$$
#
# Follow position 2, whose input is *le*. Scores are divided by $\sqrt2$; numbers are rounded only for print.
#
# 1. **Causal self-attention.** Query $x_2$, keys $x_1,x_2$: scores $0,\,0.707$; weights $0.330,0.670$; output $(0.330,0.670)$. Position 1 may
#    attend only to itself.
# 2. **Residual connection.** $h_2=x_2+(0.330,0.670)=(0.330,1.670)$.
# 3. **Cross-attention.** Query $h_2$, keys and values $m_1,m_2,m_3$: scores $0.467,2.361,-1.414$; weights $0.128,0.852,0.020$: mostly *king*.
#    Output $0.128\,m_1+0.852\,m_2+0.020\,m_3=(0.237,1.685)$.
# 4. **Residual connection.** $z_2=h_2+(0.237,1.685)=(0.567,3.355)$.
# 5. **Logits.** Output vectors $(1,0)$ for *le*, $(0,1)$ for *roi*, $(-1,-1)$ for `<eos>`: logits $0.567,3.355,-3.922$; probabilities
#    $0.058,0.941,0.001$. (As an input *le* is $(0,1)$: no weight tying here.)
# 6. **Loss.** The target is *roi*: $-\ln0.9414=0.060$. At position 1 it is $0.024$; the mean is $0.042$.

# %% tags=["nbval-check-output"]
x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # <bos>, le
memory = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-1.0, -1.0]])  # the, king, <eos>
output_vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])  # le, roi, <eos>
context, self_weights = attention(x, x, x, causal_mask(2))
h = x + context
context, cross_weights = attention(h, memory, memory)
z = h + context
logits = z @ output_vectors.T
names = ("self-attention weights", "h", "cross-attention weights", "z", "logits", "probabilities")
values = (self_weights, h, cross_weights, z, logits, logits.softmax(-1))
for name, value in zip(names, values, strict=True):
    print(f"{name:24s} position 1: {digits(value[0], 3):24s} position 2: {digits(value[1], 3)}")
print(f"loss: {F.cross_entropy(logits, torch.tensor([0, 1])):.3f}")

# %% [markdown] slideshow={"slide_type": "notes"}
# Compute position 1 with the room: cross-attention weights 0.932, 0.055, 0.013.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what changes without the causal mask: position 1 would attend to "le", its own target.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · The parts

# %% [markdown] slideshow={"slide_type": "-"}
# ### Embeddings
#
# Token embeddings are initialized with standard deviation $1/\sqrt d$, because the same matrix may serve as the output layer. Multiplied by $\sqrt d$,
# they have the order of magnitude of the sinusoids of lesson 04.
#
# **Exercise 6.1** (optional). Add scaled embeddings and positions: $\sqrt d\;E[\text{token}]+P[\text{position}]$.
#
# - The first token of every sequence is at position `start`, the next at `start` + 1, and so on.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.1 · embeddings with positions · easy · 6 min · optional
def embed(token_ids, embedding, positions, start=0):
    """token_ids (b, n), embedding (V, d), positions (max_len, d) to (b, n, d).

    Token embeddings times the square root of d, plus positions; the first token is at `start`.
    """
    ### BEGIN SOLUTION
    n, d = token_ids.size(1), embedding.size(1)
    return embedding[token_ids] * d**0.5 + positions[start : start + n]
    ### END SOLUTION


embed = exercise("6.1").use(embed)


# %% tags=["nbval-check-output"]
d = 64
embedding, positions = torch.randn(50, d) * d**-0.5, sinusoidal_positions(20, d)
token_ids = torch.tensor([[7, 3, 7]])
x = embed(token_ids, embedding, positions)
print("token ids (b, n)", tuple(token_ids.shape), "to embeddings (b, n, d)", tuple(x.shape))
norms = [rows.norm(dim=-1).mean().item() for rows in (embedding * d**0.5, positions)]
print(f"mean norm of a scaled embedding {norms[0]:.0f}, of a position {norms[1]:.0f}")
print("the same token at positions 0 and 2 has the same vector:", torch.equal(x[0, 0], x[0, 2]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Cross-attention
#
# The decoder's $m$ tokens give the queries, the $n$ vectors of the memory the keys and values.
#
# $$\text{output}=\operatorname{softmax}\!\left(\frac{(XW_Q)(MW_K)^\top}{\sqrt{d_k}}\right)MW_V$$
#
# **Exercise 6.2** (optional; it repeats exercise 5.4 with one head). Write it with `attention(query, key, value, mask)`, which scales, handles masks and returns output
# and weights.
#
# - `mask` is (b, n) here, True at real tokens, or None. `attention` needs (b, 1, n): one row for all $m$ queries.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.2 · cross-attention · easy · 6 min · optional
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
# Three sublayers, each pre-norm with a residual connection, $x+\operatorname{sublayer}(\operatorname{norm}(x))$: causal self-attention,
# cross-attention, feed-forward network. `MultiHeadAttention` is called as `(x, memory=None, mask=None, need_weights=False)` and returns output and
# weights; without `memory` it is self-attention.
#
# **Exercise 6.3.** Write `forward`. Masks are bool, True = may attend:
#
# | argument | shape | used in |
# |---|---|---|
# | `mask` | (m, m) or (b, m, m) | self-attention, for example causal |
# | `memory_mask` | (b, 1, n) | cross-attention, False at source padding |
#
# - `norm1`, `norm2`, `norm3` belong to the three sublayers in this order. The memory is not normalized again. `self.feed_forward(x)` returns one tensor.
# - Return x and the weights of both attentions, all heads (`need_weights=True`).


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

        mask (m, m) or (b, m, m), memory_mask (b, 1, n): bool, True = may attend; None masks nothing.
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


# %% tags=["nbval-check-output"]
torch_layer = nn.TransformerDecoderLayer(12, 3, 20, 0.0, batch_first=True, norm_first=True)
layer = DecoderLayer(12, 3, 20)
copied = from_torch(torch_layer, layers.DecoderLayer(12, 3, 20, norm_first=True))
layer.load_state_dict(copied.state_dict())

x, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
mask, memory_mask = causal_mask(4), torch.arange(5) < torch.tensor([[3], [5]])
output, self_weights, cross_weights = layer(x, memory, mask, memory_mask.unsqueeze(1))
torch_masks = {"tgt_mask": ~mask, "memory_key_padding_mask": ~memory_mask}  # True = may not
expected = torch_layer(x, memory, **torch_masks)
print("equal to nn.TransformerDecoderLayer:", torch.allclose(output, expected, atol=1e-5))
print("self-attention weights", tuple(self_weights.shape), end=", ")
print("cross-attention weights", tuple(cross_weights.shape))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The whole model
#
# `TransformerDecoder` stacks your layers and ends with one norm, as pre-norm needs it. `Transformer` adds embeddings and the output layer. With
# **weight tying** ([Press and Wolf, 2017](../docs/references.md#press2017)) the output layer *is* the target embedding matrix (in the paper the source
# embedding matrix too): the logit of a token is the dot product of its embedding with the decoder's output.


# %%
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


# %% [markdown] slideshow={"slide_type": "-"}
# **Exercise 6.4.** Write `encode` and `decode`.
#
# - `self.source_embedding(source)` is all of 6.1: scaled, with positions. `self.encoder(x, mask)` returns output and weights, `self.decoder(x, memory, mask, memory_mask)`
#   the output alone.
# - `source_mask` arrives as (b, n), True at real tokens. Encoder and cross-attention need it as (b, 1, n).
# - Target self-attention gets `causal_mask(m)`, shape (m, m), and no padding mask.
# - `target` begins with `<bos>` already: `decode` shifts nothing. `self.lm_head` turns the decoder's output into logits for all $m$ positions.


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


# %% tags=["nbval-check-output"]
untrained = Transformer(20, 30, dim=12, num_heads=3, hidden_dim=24, num_layers=2)
source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 30, (2, 4))
source_mask = torch.arange(5) < torch.tensor([[3], [5]])
memory = untrained.encode(source, source_mask)
logits = untrained.decode(target, memory, source_mask)
print("source", tuple(source.shape), "to memory", tuple(memory.shape))
print("target", tuple(target.shape), "and memory to logits", tuple(logits.shape))

library_model = transformer.Transformer(20, 30, 12, 3, 24, 2, norm_first=True, dropout=0.0)
library_model.load_state_dict(untrained.state_dict())
library_logits, _ = library_model(source, source_mask, target)
print("equal to the course library:", torch.allclose(logits, library_logits, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Equal to PyTorch
#
# `nn.Transformer` is both stacks without embeddings and output layer. It is post-norm by default. In both orders a final norm follows each
# stack (`final_norm=True` in our library).

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
x, y, mask = torch.randn(2, 5, 12), torch.randn(2, 4, 12), causal_mask(4)
memory_mask, padding = source_mask.unsqueeze(1), ~source_mask  # in torch True = may not attend
masks = {"tgt_mask": ~mask, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
warnings.filterwarnings("ignore", "enable_nested_tensor")  # a fast path that torch skips here
for norm_first in (False, True):
    options = {"dropout": 0.0, "norm_first": norm_first}
    torch_model = nn.Transformer(12, 3, 2, 2, 24, batch_first=True, **options)
    stacks = transformer.Transformer(20, 30, 12, 3, 24, 2, final_norm=True, **options)
    from_torch(torch_model, stacks)
    memory, _ = stacks.encoder(x, memory_mask)
    output, _, _ = stacks.decoder(y, memory, mask, memory_mask)
    same = torch.allclose(output, torch_model(x, y, **masks), atol=1e-5)
    print(f"equal to nn.Transformer, {'pre' if norm_first else 'post'}-norm:", same)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three attentions, two kinds of mask: the room fills in the shapes before exercise 6.4.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two mask conventions meet in the parity cells: the usual trap in porting code.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Training
#
# With teacher forcing the whole target is known, and the causal mask lets all positions train at once.

# %% slideshow={"slide_type": "-"}
quiz("6.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Shifted targets
#
# The decoder's input is the target **shifted right** (`decoder_input_ids` in `transformers`), with `<bos>` in front.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.shifted_targets(
        ["the", "old", "king", "sleeps"],
        ["le", "vieux", "roi", "dort"],
        "Each position predicts the next input and attends to no later one",
        padding=1,
    ),
    alt="Source, the decoder's input, its target shifted by one position, and the causal mask.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 6.5.** Make input and target from lists of token ids of different lengths.
#
# - Input: `bos_id` first, then the sentence. Target: the sentence, then `eos_id`.
# - Pad both on the right with `pad_id`, after adding the special tokens. A sentence may be empty. Do not change the lists.
# - Return both as int64 (`torch.long`).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
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


# %% tags=["nbval-check-output"]
target_in, target_out = shifted_targets([[11, 12, 13], [21]], bos_id=1, eos_id=2)
print("input: ", target_in.tolist())
print("target:", target_out.tolist())

# %% [markdown]
# ### No leak from the future
#
# Only self-attention mixes *target* positions, and in every layer the mask makes its weights on later ones exactly zero: nothing leaks. A gradient
# confirms it. Source padding must not change a logit either.

# %% tags=["nbval-check-output"]
x, y = torch.randn(1, 6, 12, requires_grad=True), torch.randn(1, 5, 12)
hidden_states, largest = x, []
for layer in untrained.decoder.layers:
    hidden_states, self_weights, _ = layer(hidden_states, y, causal_mask(6))
    largest.append(self_weights.triu(1).max().item())  # above the diagonal: later positions
print("largest weight on a later position, each layer:", largest)
(gradient,) = torch.autograd.grad(hidden_states[0, 2].square().sum(), x)
print("output 3 depends on input:", (gradient[0].norm(dim=-1) != 0).tolist())
changed = torch.where(source_mask, source, 9)  # other tokens in place of padding
changed_logits = untrained.decode(target, untrained.encode(changed, source_mask), source_mask)
print("padding changes a logit:", not torch.allclose(logits, changed_logits, atol=1e-6))

# %% [markdown] slideshow={"slide_type": "notes"}
# Leave the causal mask out and run the cell again. Ask for the training loss of such a model, and for its translations.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Label smoothing
#
# The smoothed target distribution gives the correct token $1-s$ and spreads $s$ evenly over all $V$ tokens
# ([Szegedy et al., 2016](../docs/references.md#szegedy2016)), so that the model need not become infinitely confident:
#
# $$\text{loss}=-(1-s)\log p_{\text{target}}-\frac sV\sum_v\log p_v$$
#
# **Exercise 6.6.** Implement this cross-entropy from logits.
#
# - $\log p$ is `log_softmax` over the vocabulary, the last axis; `gather` picks the target's. The $V$ tokens include target and padding token, as in
#   PyTorch.
# - Return the mean over all positions whose target is not `pad_id`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
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


# %% tags=["nbval-check-output"]
logits, targets = torch.randn(2, 4, 30), torch.tensor([[5, 9, 2, 0], [7, 8, 6, 2]])
expected = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0, label_smoothing=0.1)
same = torch.allclose(smoothed_loss(logits, targets, 0.1), expected)
print("equal to F.cross_entropy:", same)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Let the correct token have probability $p$, the others equal parts of the rest. With smoothing there is a best $p$ below 1:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
s, V = 0.1, len(french)
p = torch.linspace(0.02, 0.9999, 400)
correct_token = torch.tensor([[5]])
rest = (1 - p) / (V - 1)  # of every other token
probs = torch.where(torch.arange(V) == correct_token, p[:, None], rest[:, None])
curves = {
    name: [smoothed_loss(row.log()[None, None], correct_token, smoothing).item() for row in probs]
    for name, smoothing in (("no smoothing", 0.0), (f"s = {s}", s))
}
show(
    pictures.loss_and_confidence(p, curves, "With label smoothing, overconfidence raises the loss"),
    alt="Without smoothing the loss falls to zero as p goes to 1; with s = 0.1 it is lowest near 0.9 and rises steeply beyond.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Warm-up
#
# Adam divides by the square root of a running average of squared gradients ([Kingma and Ba, 2015](../docs/references.md#kingma2015)). In the first steps this
# average covers few gradients and is unreliable ([Liu et al., 2020](../docs/references.md#liu2020)), so the learning rate starts small. Equation 3 of
# [Vaswani et al. (2017)](../docs/references.md#vaswani2017), the *Noam* schedule, with steps counted from 1:
#
# $$\text{learning rate}=d^{-0.5}\cdot\min(\text{step}^{-0.5},\;\text{step}\cdot\text{warmup\_steps}^{-1.5})$$
#
# The peak is $(d\cdot\text{warmup\_steps})^{-0.5}$.
#
# **Exercise 6.7** (optional). Implement it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.7 · the warm-up schedule · easy · 5 min · optional
def noam_rate(step, dim, warmup_steps):
    """The learning rate at `step`, counted from 1."""
    ### BEGIN SOLUTION
    return dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
    ### END SOLUTION


noam_rate = exercise("6.7").use(noam_rate)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
steps = list(range(1, 2001, 10))
rates = {
    f"{warmup_steps} warm-up steps": [noam_rate(step, sizes["dim"], warmup_steps) for step in steps]
    for warmup_steps in (100, 400, 1000)
}
show(
    pictures.schedules(steps, rates, "Linear warm-up, then the inverse square root of the step"),
    alt="Three learning rates rise in straight lines, the shorter the warm-up the higher the peak; then they share one falling curve.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Does it matter?** The lesson's model with 2, 4 or 6 layers in each stack, 400 steps: 100 of warm-up or none, then half a cosine from the same peak, 0.0025,
# down to 0. A run **fails** if the mean loss of the last 50 steps is above 2. Guess: which setting fails first as depth grows?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
warmup = stored("warmup")
show(
    pictures.warmup_by_depth(
        warmup.result, "Post-norm fails without warm-up from four layers on; pre-norm does not"
    ),
    alt="Loss after a short training against the number of layers, left pre-norm, right post-norm, with and without warm-up. Pre-norm stays below 1.2, "
    "lowest with warm-up. Post-norm fails from four layers on without warm-up, and at six with it.",
)
print(warmup.label)

# %% [markdown] slideshow={"slide_type": "-"}
# Pre-norm trains at every depth tried; warm-up helps. Post-norm fails without warm-up from four layers on; with six, 100 warm-up steps are not enough. The
# paper trained six post-norm layers with 4,000 warm-up steps of 100,000, and a lower peak, 0.0007 (sections 5.2, 5.3). [Xiong et al. (2020)](../docs/references.md#xiong2020): in
# post-norm the gradients near the output are large at initialization, in pre-norm smaller.

# %% [markdown] slideshow={"slide_type": "notes"}
# These are short runs: a longer one may recover.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The rest of the recipe
#
# - **Dropout** ([Srivastava et al., 2014](../docs/references.md#srivastava2014)): in the paper on embeddings and sublayer outputs. Off in decoding:
#   `model.eval()`.
# - **Gradient clipping** ([Pascanu et al., 2013](../docs/references.md#pascanu2013)): a gradient with norm above 1 is scaled down to norm 1.
# - **Weight decay** ([Loshchilov and Hutter, 2019](../docs/references.md#loshchilov2019)): every step shrinks all parameters slightly.
# - **Batches by tokens**: many short sentences or few long ones.
#
# Which of tying, dropout, label smoothing and weight decay pays? Guess first (medians and ranges of three seeds).

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
recipes = stored("transformer_recipe")
recipes.table(
    ("what differs", "exact match, %", "BLEU", "AER, %", "confidence, %", "accuracy, %"),
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

# %% [markdown] slideshow={"slide_type": "fragment"}
# **Confidence**: mean probability of the predicted token under teacher forcing; **accuracy**: how often it is correct. In a **calibrated** model
# the two agree at every level of confidence; here we compare means. The ranges of exact match overlap: none of these parts decides it. With label
# smoothing the model is only as confident as its smoothed targets, and its AER is lower.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The training loop
#
# Your model (6.3, 6.4), targets (6.5), loss (6.6) and schedule (6.7) in one loop. A uniform guess has loss $\ln 283=5.65$:

# %% slideshow={"slide_type": "-"}
quick_model = Transformer(
    len(english), len(french), dim=48, num_heads=4, hidden_dim=96, num_layers=1
)
optimizer, losses = torch.optim.AdamW(quick_model.parameters(), betas=training.BETAS), []
for step in range(1, 101):
    batch_pairs = [pairs.train[index] for index in torch.randint(len(pairs.train), (32,))]
    batch = collate(batch_pairs, english, french)
    target_ids = [french.encode(pair.french) for pair in batch_pairs]
    target_in, target_out = shifted_targets(target_ids, BOS_ID, EOS_ID)
    memory = quick_model.encode(batch.source, batch.source_mask)
    logits = quick_model.decode(target_in, memory, batch.source_mask)
    loss = smoothed_loss(logits, target_out, smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(quick_model.parameters(), max_norm=1.0)
    optimizer.param_groups[0]["lr"] = noam_rate(step, dim=48, warmup_steps=50)
    optimizer.step()
    losses.append(loss.item())
print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} at step {len(losses)}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# A longer training in `utils` differs from this loop: a larger model, batches by tokens, a cosine after the warm-up
# ([Loshchilov and Hutter, 2017](../docs/references.md#loshchilov2017)), another learning rate, weight decay, no smoothing or tying.

# %% slideshow={"slide_type": "-"}
result = training.train_transformer(**training.LESSON)
num_steps = len(result["loss"])
print(f"{result['parameters']:,} parameters", end="; ")
print(f"{num_steps:,} steps of up to {training.BATCH_TOKENS} target tokens")
warmup_steps = round(training.WARMUP_RATIO * num_steps)
print(f"peak learning rate {training.LEARNING_RATE} after {warmup_steps} warm-up steps", end="; ")
print(f"weight decay {training.WEIGHT_DECAY}")
print(
    f"500 held-out sentences: exact match {100 * result['exact']:.1f} %, BLEU {result['bleu']:.1f}"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Half a minute: discuss the recipe table meanwhile.

# %% tags=["checks"]
by_setting = {
    (row["norm"], row["warmup"] > 0, row["layers"]): row["losses"] for row in warmup.result
}
for depth in (4, 6):
    assert min(by_setting["post", False, depth]) > 2 > max(by_setting["pre", True, depth])
assert max(by_setting["pre", False, 6]) < 2 and max(by_setting["post", False, 2]) < 1
assert max(by_setting["post", True, 4]) < 2 < min(by_setting["post", True, 6])
assert {(row["warmup"], row["steps"]) for row in warmup.result} == {(0, 400), (100, 400)}
assert sizes == {"dim": 96, "num_heads": 4, "hidden_dim": 256, "num_layers": 2}
assert (len(french), num_steps, warmup_steps) == (283, 1600, 80)
assert training.LEARNING_RATE == 0.0025 and result["settings"]["dropout"] == 0
by_recipe = {row["name"]: row for row in recipes.result}
plain, smoothed = by_recipe["as in the lesson"], by_recipe["label smoothing 0.1"]
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
# ## 5 · Decoding
#
# In training every input is known. What changes when the model has to generate its own?

# %% slideshow={"slide_type": "-"}
quiz("6.e")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Greedy decoding
#
# **Greedy decoding** takes the most probable token at each step; it is the next input.
#
# **Exercise 6.8.** Decode a batch.
#
# - Call `model.encode(source, source_mask)` once, then `model.decode(token_ids, memory, source_mask)`, logits (b, m, V), in a loop. `token_ids` (b, m)
#   holds all tokens so far, `bos_id` first.
# - After `eos_id` a sequence is padded with 0 while others go on; before it 0 is an ordinary token. Stop when all have ended, or after `max_len` generated tokens.
# - Return the generated token ids (b, m), with `eos_id`, without `bos_id`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 6.8 · greedy decoding · medium · 15 min
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
# `translator` is your `Transformer` with the parameters just trained. They are untied: the output layer gets its own matrix.

# %% slideshow={"slide_type": "-"}
translator = Transformer(len(english), len(french), **sizes)
translator.lm_head = nn.Linear(sizes["dim"], len(french), bias=False)
translator.load_state_dict(result["state"])
batch = collate(pairs.test[:4], english, french)
inputs = (batch.source, batch.source_mask)
with torch.no_grad():
    greedy_ids = greedy_decode(translator, *inputs, BOS_ID, EOS_ID, max_len=40)
for pair, row in zip(pairs.test, greedy_ids.tolist(), strict=False):
    words = french.decode(row)
    print(join(pair.english, "english"))
    print("   ", join(words, "french"), "(correct)" if tuple(words) == pair.french else "(wrong)")

# %% [markdown]
# Your model; the badges name exercises.

# %% tags=["hide-input"]
open_transformer(translator, english, french, badges(), title="Your Transformer")

# %%
quiz("6.f")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The key-value cache
#
# Earlier tokens never attend to later ones, so their keys and values do not change while we decode. A **key-value cache** keeps them.
#
# **Exercise 6.9** (optional). One decoding step of causal self-attention with cached keys and values.
#
# - Project the newest token only: its query, key and value.
# - Append its key and value to the cache (axis 1, the positions). The query then attends to all of them.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.9 · a step with the key-value cache · medium · 10 min · optional
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


# %% tags=["nbval-check-output"]
x, projections = torch.randn(1, 6, 8), torch.randn(3, 8, 4)
keys = values = torch.zeros(1, 0, 4)
outputs = []
for position in range(6):
    output, keys, values = cached_step(x[:, position : position + 1], keys, values, *projections)
    outputs.append(output)
expected, _ = attention(*(x @ W for W in projections), causal_mask(6))
print("step by step = all at once:", torch.allclose(torch.cat(outputs, 1), expected, atol=1e-5))

# %% [markdown] slideshow={"slide_type": "subslide"}
# Without the cache, step $t$ computes all $t$ tokens again; with it, one. Keys and values of the encoder's output are computed once as well. The price is
# storage: $2d$ numbers per token, layer and sentence.

# %%
library_translator = training.restore_transformer(result)  # the course library's, with a cache
special_ids = {"bos_id": BOS_ID, "eos_id": EOS_ID}
cached = decoding.greedy_decode(library_translator.model, *inputs, **special_ids, max_len=40)
same_tokens = torch.equal(cached.token_ids, greedy_ids)
print("with the cache, the same tokens:", same_tokens)

# %% [markdown] slideshow={"slide_type": "-"}
# A model of width 128, two layers in each stack:

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
speed = stored("transformer_speed")
speed.table(
    ("tokens", "batch size", "speedup with the cache"),
    [(row["length"], row["batch"], f"{row['speed']}x") for row in speed.result["cache"]],
)

# %% slideshow={"slide_type": "subslide"}
quiz("6.g")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Beam search: one step
#
# Greedy decoding cannot take back a token. **Beam search** keeps the `num_beams` best **hypotheses**. A step continues each of $k$ hypotheses with every
# token, adds the log-probabilities, and keeps the best of *all* $k\cdot V$ continuations. Several may have the same parent.
#
# Two hypotheses with probabilities $0.6$ and $0.4$, three tokens:
#
# | | token 0 | token 1 | token 2 |
# |---|---|---|---|
# | hypothesis 0 | $0.6\cdot0.1=0.06$ | $0.6\cdot0.6=0.36$ | $0.6\cdot0.3=0.18$ |
# | hypothesis 1 | $0.4\cdot0.1=0.04$ | $0.4\cdot0.8=0.32$ | $0.4\cdot0.1=0.04$ |
#
# A beam of 2 keeps $0.36$ (parent 0, token 1) and $0.32$ (parent 1, token 1).

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 6.10.** Write one step, with log-probabilities.
#
# - All $k$ rows compete together: `flatten`, then `topk(num_beams)`, best first. A flat index is parent $\cdot V$ + token.
# - A hypothesis that has **ended** (it generated EOS) stays in the beam with its log-probability: its only continuation is the padding token, id 0, which
#   *adds* log-probability 0; all others get $-\infty$. Before EOS, 0 is an ordinary token. Do not change the arguments.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.10 · a step of beam search · hard · 15 min
def beam_step(log_probs, next_log_probs, ended, num_beams):
    """log_probs (k,) of k hypotheses, next_log_probs (k, V) of the next token, ended (k,) bool.

    Returns log_probs, parent and token, each (num_beams,): the best continuations, best first.
    """
    ### BEGIN SOLUTION
    step = next_log_probs.masked_fill(ended.unsqueeze(1), float("-inf"))
    step[:, 0] = step[:, 0].masked_fill(ended, 0.0)
    log_probs, index = (log_probs.unsqueeze(1) + step).flatten().topk(num_beams)
    return log_probs, index // step.size(1), index % step.size(1)
    ### END SOLUTION


beam_step = exercise("6.10").use(beam_step)

# %% tags=["nbval-check-output"]
log_probs = torch.tensor([0.6, 0.4]).log()
next_log_probs = torch.tensor([[0.1, 0.6, 0.3], [0.1, 0.8, 0.1]]).log()
for ended in ([False, False], [False, True]):
    best, parent, token = beam_step(log_probs, next_log_probs, torch.tensor(ended), num_beams=2)
    print("ended", ended, "probabilities", digits(best.exp()), end="; ")
    print("parents", parent.tolist(), "tokens", token.tolist())

# %% [markdown]
# ### Beam search: the loop
#
# **Exercise 6.11** (optional). Repeat `beam_step` until all hypotheses have ended, or until `max_len` tokens.
#
# - Start with *one* hypothesis, `bos_id`, with log-probability 0.
# - After each step, reorder tokens and `ended` by `parent`, and append `token`.
# - Return token ids (num_beams, m), without `bos_id`, and their log-probabilities, best first.


# %% tags=["nbval-check-output"]
# Exercise 6.11 · beam search · medium · 15 min · optional
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
        step = next_log_probs(token_ids)
        log_probs, parent, token = beam_step(log_probs, step, ended, num_beams)
        token_ids = torch.cat([token_ids[parent], token.unsqueeze(1)], 1)
        ended = ended[parent] | (token == eos_id)
    return token_ids[:, 1:], log_probs
    ### END SOLUTION


beam_search = exercise("6.11").use(beam_search)


# %% tags=["nbval-check-output"]
first, first_mask = source[:1], source_mask[:1]  # the random tokens of exercise 6.4
with torch.no_grad():
    memory = untrained.encode(first, first_mask)


@torch.no_grad()
def next_log_probs(token_ids):
    """The hypotheses of one sentence are a batch, with the same memory for all."""
    k = len(token_ids)
    logits = untrained.decode(token_ids, memory.expand(k, -1, -1), first_mask.expand(k, -1))
    return logits[:, -1].log_softmax(-1)


options = {**special_ids, "max_len": 6, "num_beams": 3}
token_ids, log_probs = beam_search(next_log_probs, **options)
expected = decoding.beam_search(library_model, first, first_mask, **options)
print("equal to the course library:", torch.equal(token_ids, expected.token_ids[0]), end=", ")
print(torch.allclose(log_probs, expected.log_probs[0], atol=1e-4))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Length normalization
#
# Every token adds a negative log-probability, so sums favor short sentences. **Length normalization**
# (simpler than in [Wu et al., 2016](../docs/references.md#wu2016)) ranks hypotheses, at every step, by
#
# $$\text{score}=\frac{\log p(y)}{|y|^{\alpha}}$$
#
# In `transformers` $\alpha$ is `length_penalty`, applied to ended hypotheses only.
#
# Two tokens with $\log p=-1.2$ against three with $-1.5$: by sums ($\alpha=0$) the shorter wins, by means ($\alpha=1$), $-0.6<-0.5$, the longer one.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
print("beam of 4, correct sentences, and mean length (in parentheses that of the references)")
subsets = {"trained lengths": pairs.test[:200], "longer": pairs.longer[:100]}
decoded = {}
for name, subset in subsets.items():
    for alpha in (0.0, 1.0):
        rows = training.greedy_and_beam(library_translator, subset, 4, length_penalty=alpha)
        decoded[name, alpha] = rows
        correct = sum(row.beam == row.pair.french for row in rows)
        mean = sum(len(row.beam) for row in rows) / len(rows)
        target_mean = sum(len(pair.french) for pair in subset) / len(subset)
        print(f"{name:16s} α = {alpha:.0f}: {correct:3d} of {len(subset)}", end="")
        print(f", {mean:.2f} tokens ({target_mean:.2f})")

# %% [markdown] slideshow={"slide_type": "-"}
# In this run $\alpha=1$ lengthens translations of the longer sentences, but not more of them are correct.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does a beam help?
#
# Where beam search ($\alpha=0$) is wrong: is the reference more probable than its output? Then it is a **search error**. Otherwise it is a **model error**:
# the model prefers a wrong sentence, so even an exact search would not return the reference.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
for name in subsets:
    rows = decoded[name, 0.0]
    wrong = [row for row in rows if row.beam != row.pair.french]
    missed = sum(row.reference_log_prob > row.beam_log_prob for row in wrong)
    different = [row for row in rows if row.beam != row.greedy]
    greedy_correct = sum(row.greedy == row.pair.french for row in rows)
    print(f"{name}, {len(rows)} sentences: correct {greedy_correct} greedily", end=", ")
    more_probable = sum(row.beam_log_prob > row.greedy_log_prob for row in different)
    print(f"{len(rows) - len(wrong)} by beam search")
    print(f"    the beam differs in {len(different)}, more probable in {more_probable} of them")
    print(f"    {len(wrong)} wrong: {missed} search errors, {len(wrong) - missed} model errors")

# %% [markdown] slideshow={"slide_type": "-"}
# In this run the beam changes nothing at trained lengths. On longer sentences it finds more probable translations, hardly more correct ones: all errors
# are model errors. Wider beams are not always better ([Koehn and Knowles, 2017](../docs/references.md#koehn2017)).

# %% [markdown]
# ### The tree of a beam
#
# In the first sentence the winner did not lead at every step.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
longer_different = [row for row in decoded["longer", 0.0] if row.beam != row.greedy]
beam_example = min(
    longer_different, key=lambda row: (len(row.greedy) + len(row.beam), row.pair.english)
)
sentences = [
    join(beam_example.pair.english, "english"),
    "the old king does not sleep",
    "the european economic area",
    "the red cars of the women are expensive",
]
tree = beam_tree(
    lambda sentence, num_beams: own_sentence.search_tree(library_translator, sentence, num_beams),
    sentences,
    num_beams=2,
    title="Kept, dropped and best hypotheses",
)
tree

# %% [markdown] slideshow={"slide_type": "notes"}
# The room chooses sentence and beam width, and predicts the result.

# %% [markdown] slideshow={"slide_type": "notes"}
# The table with 0.6 and 0.4 goes on the board before exercise 6.10.

# %% tags=["checks"]
assert same_tokens
trained_lengths = decoded["trained lengths", 0.0]
assert sum(row.beam != row.greedy for row in trained_lengths) < 0.05 * len(trained_lengths)
assert len(different) > 0.05 * len(rows) and more_probable >= 0.9 * len(different)
assert len(rows) - len(wrong) - greedy_correct < 0.1 * len(rows)
assert len(wrong) > 0.5 * len(rows) and missed < 0.1 * len(wrong)
assert not all(step[0]["best"] for step in tree.tree())  # it did not always lead

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · What it learned

# %% [markdown]
# ### Cross-attention and the gold alignment
#
# Select a head: do its weights recover the gold links?

# %% tags=["hide-input"]
best_layer, best_head = library_translator.alignment_head  # the best on validation pairs
aligning = {"layer": best_layer, "head": pictures.MEAN if best_head is None else best_head}
examples = {
    join(pair.english, "english"): pair for pair in pairs.test if 7 <= len(pair.english) <= 9
}
examples = dict(list(examples.items())[:6])
attended = dict(
    zip(examples, training.pair_attention(library_translator, list(examples.values())), strict=True)
)


def against_gold(sentence):
    pair = attended[sentence]
    weights = torch.stack(pair.weights.cross)  # (num_layers, num_heads, m, n)
    links = examples[sentence].links
    return {"weights": weights, "target": pair.target_out, "source": pair.source, "links": links}


attention_view(
    against_gold,
    sentence=list(examples),
    title="Cross-attention and gold links",
    names=("French", "English"),
    **aligning,
)

# %% [markdown]
# The **alignment head** (or the mean over a layer) has the lowest AER on validation pairs. It is evaluated on test pairs.

# %%
errors = 100 * result["alignment_head"]["errors"]
print("AER in %, validation pairs")
print("         ", *(f"head {head}" for head in range(1, sizes["num_heads"] + 1)), "  mean")
for number, row in enumerate(errors.tolist(), start=1):
    print(f"layer {number}:", *(f"{error:6.1f}" for error in row))
print(f"the best of these on test pairs: {100 * result['alignment_error']:.1f} %", end="; ")
print(f"lowest possible with one link per token: {100 * result['alignment_floor']:.1f} %")

# %% [markdown] slideshow={"slide_type": "-"}
# ### Negation
#
# French negates with two words around the verb, *ne ... pas*. Where do the two positions that predict them attend? A decoder position is labeled
# *input → target*, as a key by its input.


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def maps_and_names(pair, *choices):
    """choices: (layer, head), or MEAN for the head, of the encoder, the decoder and the cross-attention."""
    maps, names = [], []
    for weights, choice in zip(pair.weights, choices, strict=True):
        maps.append(pictures.chosen_map(torch.stack(weights), *choice))
        names.append(pictures.map_name(sizes["num_layers"], sizes["num_heads"], *choice))
    return maps, names


shortest = attention_roles.shortest_negation(pairs.test)
(negation,) = training.pair_attention(library_translator, [shortest])
last, cross_head = (sizes["num_layers"] - 1, pictures.MEAN), (*aligning.values(),)
negation_maps, names = maps_and_names(negation, last, last, cross_head)
show(
    pictures.three_attentions(
        negation.source,
        negation.target_in,
        *negation_maps,
        "The positions that predict ne and pas attend to not",
        names,
        negation.target_out,
    ),
    alt="Three attention maps. In cross-attention, the positions that predict ne and pas both attend most to not.",
)

# %%
on_not = attention_roles.negation_weights(library_translator, pairs.test)
print(f"{on_not['count']} held-out sentences; weight of the alignment head on 'not' or 'never'")
print(f"  predicting 'ne':                 {100 * on_not['first']:5.1f} %")
print(f"  predicting 'pas' or 'jamais':    {100 * on_not['second']:5.1f} %")
print(f"  predicting any other token:      {100 * on_not['elsewhere']:5.1f} %")
print(f"  uniform attention:               {100 * on_not['uniform']:5.1f} %")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Agreement at a distance
#
# A French adjective agrees with its noun, even with other nouns (**attractors**) in between. Which of the three attentions retrieves the noun?

# %%
roles = attention_roles.agreement_heads(library_translator, translation.TRAINING_PAIRS, count=150)
print("for each attention the head that attends most to the adjective's noun on 150 sentences;")
print("weights in %, on 150 others")
print("attention  layer  head      noun attractors  uniform")
for row in roles:
    weights = [f"{100 * row[name]:9.1f}" for name in ("noun", "attractors", "uniform")]
    print(f"{row['attention']:9s} {row['layer'] + 1:6d} {row['head'] + 1:5d}", *weights)

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
cases = attention_roles.held_out_agreements(
    300, attention_roles.TEST_SEED, translation.TRAINING_PAIRS
)
case = attention_roles.shortest_agreement(cases)
(agreement,) = training.pair_attention(library_translator, [case.pair])
adjective_row = case.french(case.adjective)
noun_rows = [case.french(position) for position in (case.noun, *case.attractors)]
heads = [(role["layer"], role["head"]) for role in roles]
maps, names = maps_and_names(agreement, *heads[:2], cross_head)
adjective = case.pair.french[adjective_row]
noun = agreement.target_out[maps[1][adjective_row].argmax()]
title = f"The position that predicts {adjective} attends most to the one that predicted {noun}"
show(
    pictures.three_attentions(
        agreement.source, agreement.target_in, *maps, title, names, agreement.target_out
    ),
    alt=f"Three attention maps. In the decoder, the position that predicts {adjective} attends most to the one that predicted {noun}.",
)

# %% [markdown] slideshow={"slide_type": "-"}
# The weights suggest decoder self-attention. Here the query attends to positions where a noun was *predicted* (key *l'* predicted *actrice*), not to the
# next ones, where it is the input.

# %% [markdown]
# ### Other seeds
#
# Three models, seeds 0 to 2, trained longer:

# %% tags=["hide-input"]
comparison = stored("translation")
models = {row["name"]: row for row in comparison.result["rows"]}
seeds, selected = models["Transformer"]["roles"], models["Transformer"]["alignment_heads"]
rows = [
    (
        "alignment head",
        *(
            f"layer {choice['layer'] + 1}, "
            + ("mean" if choice["head"] is None else f"head {choice['head'] + 1}")
            for choice in selected
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
comparison.table(("weight in %", *(f"seed {seed}" for seed in range(len(seeds))), "uniform"), rows)

# %% [markdown]
# In every seed the positions that predict *ne* and *pas* attend to the negation far more than others do, and only in the decoder's self-attention does a head attend to the noun
# far more than uniformly. How strongly, and which head, differs.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Does it need this attention?
#
# A weight shows where a head attends, not what the model needs. So mask one key for one query, change nothing else, and measure again.
#
# **Exercise 6.12.** Make the mask of this **ablation**.
#
# - In sequence $i$, query `queries[i]` may no longer attend to key `keys[i]`. All other entries stay.
# - Return a new bool mask; the given one must not change. It may come from `expand`, whose rows share memory: `clone` it first.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 6.12 · mask one key for one query · easy · 8 min
def ablation_mask(mask, queries, keys):
    """mask (b, m, n) bool, True = may attend; queries (b,), keys (b,) to a new mask (b, m, n)."""
    ### BEGIN SOLUTION
    mask = mask.clone()
    mask[torch.arange(len(mask)), queries, keys] = False
    return mask
    ### END SOLUTION


ablation_mask = exercise("6.12").use(ablation_mask)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Your mask in all layers and heads of your decoder, on 300 held-out sentences. The position that predicts the adjective may not attend to the one that
# predicted its noun; then, instead, not to the next one, whose input is the noun:

# %%
batch = collate([case.pair for case in cases], english, french)
sequences = torch.arange(len(cases))
adjectives = torch.tensor([case.french(case.adjective) for case in cases])
noun_positions = torch.tensor([case.french(case.noun) for case in cases])
adjective_ids = batch.target_out[sequences, adjectives]


@torch.no_grad()
def predicted_adjectives(mask):
    memory_mask = batch.source_mask.unsqueeze(1)
    memory = translator.encode(batch.source, batch.source_mask)
    x = translator.target_embedding(batch.target_in)
    logits = translator.lm_head(translator.decoder(x, memory, mask, memory_mask))
    return logits[sequences, adjectives].argmax(-1)


def adjective_accuracy(mask):
    return (predicted_adjectives(mask) == adjective_ids).float().mean().item()


# %% slideshow={"slide_type": "-"}
causal = causal_mask(batch.target_in.size(1)).expand(len(cases), -1, -1)
masks = {
    "nothing masked": causal,
    "position that predicted the noun": ablation_mask(causal, adjectives, noun_positions),
    "position with the noun as input": ablation_mask(causal, adjectives, noun_positions + 1),
}
for name, mask in masks.items():
    print(f"{name:34s} accuracy on the adjective {100 * adjective_accuracy(mask):5.1f} %")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
intact = predicted_adjectives(masks["nothing masked"])
ablated = predicted_adjectives(masks["position that predicted the noun"])
new_errors = ((intact == adjective_ids) & (ablated != adjective_ids)).nonzero().flatten().tolist()
only_gender = sum(
    french.words[ablated[index]] in attention_roles.adjective_forms(cases[index])
    for index in new_errors
)
print(f"new errors without the position that predicted the noun: {len(new_errors)}", end="; ")
print(f"only the gender is wrong in {only_gender}")

# %% [markdown] slideshow={"slide_type": "-"}
# In the encoder and in cross-attention:

# %% slideshow={"slide_type": "-"}
accuracy = attention_roles.ablated_accuracy(library_translator, cases)
print(f"encoder: no other token attends to the noun           {100 * accuracy['encoder']:5.1f} %")
print(f"cross-attention: the adjective does not attend to it  {100 * accuracy['cross']:5.1f} %")
baseline = attention_roles.majority_gender_accuracy(cases)
print(f"baseline: the more frequent gender, correct number    {100 * baseline:5.1f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without the position that *predicted* the noun, the model is near the baseline that guesses the gender, and most new errors have only the gender wrong; the
# other ablations cost almost nothing here. So in this model the gender comes from that position, probably because cross-attention retrieved the noun there.

# %% [markdown] slideshow={"slide_type": "notes"}
# Weights suggested the answer, the ablation tested it. The two can disagree: [Jain and Wallace (2019)](../docs/references.md#jain2019).

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room propose another ablation, and write it with exercise 6.12.

# %% tags=["checks"]
encoder, decoder, cross = negation_maps
ne, pas = negation.target_out.index("ne"), negation.target_out.index("pas")
assert cross[ne].argmax() == cross[pas].argmax() == negation.source.index("not")
assert min(on_not["first"], on_not["second"]) > 2 * on_not["uniform"] > 4 * on_not["elsewhere"]
assert [role["noun"] > 3 * role["uniform"] for role in roles] == [False, True, False]
encoder, decoder, cross = maps
assert (
    decoder[adjective_row].argmax() in noun_rows and decoder[adjective_row][noun_rows].sum() > 0.7
)
for index, name in enumerate(attention_roles.ATTENTIONS):
    heads = [seed["agreement"][index] for seed in seeds]
    above_uniform = [head["noun"] > 3 * heads[0]["uniform"] for head in heads]
    assert above_uniform == [name == "decoder"] * len(seeds)
for weights in (seed["negation"] for seed in seeds):
    assert min(weights["first"], weights["second"]) > 3 * weights["uniform"]
    assert weights["elsewhere"] < weights["uniform"]
assert accuracy["noun_output"] < baseline + 0.08 < accuracy["none"]
assert only_gender > 0.5 * len(new_errors) > 0
assert min(accuracy[name] for name in ("noun_input", "encoder", "cross")) > accuracy["none"] - 0.05
for mask, name in zip(masks.values(), ("none", "noun_output", "noun_input"), strict=True):
    assert abs(adjective_accuracy(mask) - accuracy[name]) < 0.01

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Recurrence or attention?
#
# The LSTMs of lesson 03 and the Transformers of this one with the same 20,000 pairs and eight epochs, three seeds. Batch size and optimizer
# settings follow each recipe. In the last row rotary positions (lesson 04) replace the sinusoids, in self-attention.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
timed = stored("translation_speed")
times = {row["name"]: row for row in timed.result["training"]}
aer = f"AER, % (at least {models['Transformer']['alignment_floor']})"
header = ("model", "exact match, %", "BLEU", aer, "longer: exact, %", "longer: BLEU")
comparison.table(
    (*header, "parameters", "estimated training time, s", "tokens/s"),
    [
        (
            name,
            *(ranged(row[measure]) for measure in ("exact", "bleu", "alignment_error")),
            *(ranged(row["longer"][measure]) for measure in ("exact", "bleu")),
            ranged(row["parameters"], 0),
            f"{times[name]['seconds']:.0f}",
            f"{times[name]['tokens_per_second']:,}",
        )
        for name, row in models.items()
    ],
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
        [(name, splits(row)) for name, row in models.items()],
        ["shortest quarter", "longest quarter", "longer than in training"],
        "Past the trained length, RNNs with attention keep more exact matches (medians)",
    ),
    alt="Exact match of every model on the shortest and longest quarter and on sentences longer than in training.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Every model with attention translates at least 98 % of the test sentences exactly (medians): on this corpus the Transformer is hardly better.
# *Longer*: sentences longer than any in training. There dot attention is best. Of the models with attention, the Transformer with sinusoids has
# the fewest exact matches, but its BLEU is within the ranges of additive and multiplicative attention. Rotary positions double the exact matches, but have the lowest BLEU of these.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why do sinusoids fail there?
#
# Let short sentences begin at a later position. Only the added sinusoids change.

# %% slideshow={"slide_type": "-"}
short = [pair for pair in pairs.test if len(pair.english) <= 9][:200]
max_trained_positions, max_short_positions = (  # source: <eos>, target: last input
    [max(len(getattr(pair, side)) for pair in subset) for side in ("english", "french")]
    for subset in (pairs.train, short)
)
both = zip(max_trained_positions, max_short_positions, strict=True)
farthest = min(max_trained - max_short for max_trained, max_short in both)
print(f"up to first position {farthest}, all positions of these sentences occur in training")
moved = {
    start: training.accuracy_from_position(library_translator, short, start)
    for start in range(0, farthest + 1, 3)
}
print("first position:     ", *(f"{start:5d}" for start in moved))
print("token accuracy, %:  ", *(f"{100 * accuracy:5.1f}" for accuracy in moved.values()))

# %% [markdown] slideshow={"slide_type": "fragment"}
# These positions occur in training, but no training sentence *began* at one: the model has tied tokens to absolute positions. Rotary positions encode
# distances only, so such a shift changes nothing. This may not be the only reason for the failure on longer sentences.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Why the field switched
#
# Tokens per second, one CPU thread. A training step has 2,048 target tokens at every length; decoding generates 16 sentences at once.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.speed_by_length(
        timed.result["lengths"],
        {"recurrent": "RNN, dot attention", "Transformer": "Transformer"},
        "On one core the recurrent model is faster, in training and in decoding",
    ),
    alt="Tokens per second against length, training on the left, greedy decoding on the right, for the recurrent model and the Transformer.",
)
print(timed.label)

# %% [markdown] slideshow={"slide_type": "fragment"}
# On one core the total work counts, and this smaller RNN needs less. On a GPU (not measured here) thousands of operations run at once, and the longest
# chain of *dependent* steps counts: $2n$ recurrent steps, but a fixed number of sublayers
# ([Vaswani et al., 2017](../docs/references.md#vaswani2017), table 1).

# %% slideshow={"slide_type": "subslide"}
longest = timed.result["lengths"][-1]
n, tokens = longest["length"], timed.result["step_tokens"]
chains = {
    "recurrent": 2 * n,
    "Transformer": sizes["num_layers"] * (2 + 3) - 1,
}  # sublayers of both stacks, less the decoder's first self-attention, which needs no memory
rows_per_step = {"recurrent": tokens // n, "Transformer": tokens}
print(f"one training step (forward, backward and update), {tokens // n} sentences of {n} tokens:")
for name, chain in chains.items():
    seconds = tokens / longest["training"][name]
    print(f"{name:12s} {seconds:.2f} s, {chain:4d} dependent steps in the forward pass", end=", ")
    print(f"each on {rows_per_step[name]} tokens at once")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Parallel hardware shortens a few large steps, not a thousand small ones in a row. The paper reports a fraction of the training cost of the best recurrent
# systems, and a higher BLEU (table 2). Larger models became affordable, and Transformers kept improving with size and context, where the LSTMs of one study leveled
# off ([Kaplan et al., 2020](../docs/references.md#kaplan2020); lesson 09). **Where recurrence was better here**: tokens per second on one core, and, with attention,
# exact match on longer sentences (medians), BLEU there only with dot attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# At this size an RNN with attention is a reasonable choice. Say so.

# %% [markdown] slideshow={"slide_type": "notes"}
# Equal examples is one notion of a fair budget. Ask for others.

# %% tags=["checks"]
attending = {name: row for name, row in models.items() if row["alignment_error"]}
sinusoidal, rotary = models["Transformer"], models["Transformer, rotary positions"]
assert comparison.result["epochs"] == 8 and {row["seeds"] for row in models.values()} == {3}
assert min(row["exact"]["median"] for row in attending.values()) >= 98
others = [row["longer"]["exact"]["least"] for row in attending.values() if row is not sinusoidal]
assert 1.5 * sinusoidal["longer"]["exact"]["most"] < min(others)
dot = models["dot attention"]["longer"]["exact"]
bleus = {name: row["longer"]["bleu"] for name, row in attending.items()}
lowest = bleus.pop("Transformer, rotary positions")
assert lowest["most"] < min(bleu["least"] for bleu in bleus.values())
for name in ("additive attention", "multiplicative attention"):
    assert bleus[name]["least"] < bleus["Transformer"]["least"]
    assert bleus["Transformer"]["most"] < bleus[name]["most"]
assert bleus["dot attention"]["least"] > bleus["Transformer"]["most"]
recurrent = [row for name, row in attending.items() if name.endswith(" attention")]
assert rotary["longer"]["exact"]["median"] < min(
    row["longer"]["exact"]["median"] for row in recurrent
)
assert rotary["longer"]["exact"]["median"] > 2 * sinusoidal["longer"]["exact"]["median"]
assert dot["least"] > max(
    row["longer"]["exact"]["most"] for name, row in attending.items() if name != "dot attention"
)

# %% tags=["checks"]
assert moved[0] > 0.99 and farthest >= 9 and moved[9] < moved[0] - 0.03
lengths = [
    sum(len(row.beam) for row in decoded["longer", alpha]) / len(decoded["longer", alpha])
    for alpha in (0.0, 1.0)
]
assert lengths[0] < lengths[1] < 22.2
for row in timed.result["lengths"]:
    assert all(
        row[what]["recurrent"] > row[what]["Transformer"] for what in ("training", "decoding")
    )
assert chains["recurrent"] > 1000

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - A decoder layer: causal self-attention, cross-attention to the memory, feed-forward network, each with a residual connection and a norm.
# - Targets are shifted by one. All positions train at once, and nothing leaks from the future.
# - Decoding is sequential; the key-value cache avoids repeated work. Beam search can find more probable sentences, not always better ones.
# - In this short training at this learning rate, deep post-norm fails without warm-up, at six layers even with it; pre-norm never fails.
# - Attention weights suggest what a model uses; ablation tests it.
# - With equal data and epochs, RNNs with attention and Transformers translate this corpus about equally well. These RNNs are faster on one core, and exact on
#   more of the longer sentences (medians). Transformers have no long chain of dependent steps: parallel hardware can exploit
#   that (not measured).
#
# **Open question.** Translation needs labeled pairs. What can a model learn from text without labels? [Lesson 07](07_tokenize_and_pretrain.ipynb).

# %% [markdown] slideshow={"slide_type": "notes"}
# Which parts does an encoder-only model need, which a decoder-only one?

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - [Kaplan et al. (2020)](../docs/references.md#kaplan2020): scaling.
# - [Kingma and Ba (2015)](../docs/references.md#kingma2015): Adam. [Loshchilov and Hutter (2019)](../docs/references.md#loshchilov2019): weight decay.
# - [Loshchilov and Hutter (2017)](../docs/references.md#loshchilov2017): the cosine schedule.
# - [Koehn and Knowles (2017)](../docs/references.md#koehn2017), [Wu et al. (2016)](../docs/references.md#wu2016): beam search.
# - [Liu et al. (2020)](../docs/references.md#liu2020), [Xiong et al. (2020)](../docs/references.md#xiong2020): warm-up.
# - [Och and Ney (2003)](../docs/references.md#och2003): AER. [Papineni et al. (2002)](../docs/references.md#papineni2002): BLEU.
# - [Press and Wolf (2017)](../docs/references.md#press2017): weight tying.
# - [Szegedy et al. (2016)](../docs/references.md#szegedy2016): label smoothing.
# - [Vaswani et al. (2017)](../docs/references.md#vaswani2017): the Transformer.
# - [Williams and Zipser (1989)](../docs/references.md#williams1989): teacher forcing.
