# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] slideshow={"slide_type": "slide"}
# # 03 · Sequence to sequence, the bottleneck, and attention
#
# **What if the answer is a whole sentence?**
#
# The French for *the european economic area* is *la zone économique européenne*: the adjectives follow the noun, in reverse order, and
# three words agree with *zone*. In this lesson we translate, first through a state of fixed size, then with attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask a French speaker which English word each French word comes from. That list is an alignment; section 8 draws a learned one.

# %% [markdown] slideshow={"slide_type": "notes"}
# Plan: 20 minutes for text, 25 for recurrence, 20 for the bottleneck, 35 for attention, 20 for the comparison.

# %% [markdown]
# **After this lesson you can**
#
# - pad sentences of token ids to a batch;
# - write an RNN step, unroll it, and name the gates of LSTM and GRU;
# - explain teacher forcing and the bottleneck of an encoder-decoder;
# - write attention scores, a decoder step with attention, and greedy decoding;
# - compute BLEU by hand, and write the alignment error rate.
#
# **You need** lesson 01 (`attend`, masks) and the training loop of lesson 02. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn

from utils.build.results import ranged, stored
from utils.data.tokens import BOS_ID, EOS_ID, PAD_ID, collate, join, split
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attend
from utils.models.recurrent import RecurrentEncoder, Seq2Seq
from utils.plots import lesson03 as pictures
from utils.plots import show
from utils.training import metrics, reach
from utils.training import translation as training
from utils.training.own_sentence import decoding_steps, read_sentence
from utils.training.skipgram import nearest_neighbors, train_skipgram
from utils.training.translation import LESSON, pairs_and_words, restore, train_translation
from utils.widgets import attention_view, decoding_view

torch.manual_seed(3)
torch.set_num_threads(1)
lesson("03")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Kinds of sequence task
#
# Image classification is **one to one**, captioning an image **one to many**, the sentiment of a
# review **many to one**, like the questions of lesson 02. Part-of-speech tagging (noun, verb, … for each word) is **many to many in step**: one output per input. In
# translation, the output has a length of its own, which the model must decide: **sequence to sequence**.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.sequence_tasks(),
    alt="Five kinds of sequence task: one to one, one to many, many to one, many to many, and many to many in step, "
    "each with an example.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for one more example of each kind before you show the figure.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask in which kinds the model must decide when to stop. That is what the end token is for.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · From text to embeddings
#
# Our **parallel corpus** comes from a small grammar. It gives each English sentence exactly one translation, the only one that counts as correct. The French has adjectives
# on both sides of the noun, agreement (*un chat noir*, *une table noire*), *ne … pas*, *l'* and *du*, and relative clauses. The French of a test pair is the
# **reference** for a model's translation. Each pair has a **gold alignment**: links between words that translate each other. There are 20,000 training pairs and 1,000 test pairs of 3 to 18 words, and 500 longer test pairs of 19 to
# 26 words. No sentence occurs twice.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
data, english, french = pairs_and_words()
short = [pair for pair in data.train if len(pair.english) < 9]
for word in ("old", "not", "who"):
    pair = next(pair for pair in short if word in pair.english)
    print(" ".join(pair.english), "|", join(pair.french, "french"))
    print("   ", *(f"{pair.english[i]}-{pair.french[j]}" for i, j in pair.links))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tokens
#
# A **token** is the unit that gets an id. Four ids are reserved for **special tokens**: `<pad>` 0, `<bos>` 1 (beginning of sequence),
# `<eos>` 2 (end of sequence), `<unk>` 3 (unknown). The decoder starts from `<bos>` and stops when it generates `<eos>`.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
tokens = split("L'homme ne voit pas la zone.", "french")
print(tokens)
print(french.encode(tokens), "(the full stop is out of vocabulary: 3)")
print(french.decode(french.encode(["l'", "homme", "ne", "voit", "pas"])))
print(len(data.train), "pairs;", len(english), "English and", len(french), "French tokens")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Characters, words, subwords
#
# Smaller units mean a smaller vocabulary and longer sequences. **Subword tokens** are a compromise, here learned by byte-pair encoding
# ([Sennrich et al., 2016](../docs/references.md#sennrich2016); you build it in lesson 07).

# %%
subwords = Tokenizer(models.BPE(unk_token="<unk>"))
subwords.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
text = [" ".join(pair.english) for pair in data.train]
trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"], show_progress=False)
subwords.train_from_iterator(text, trainer)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
tokenizers = {
    "characters": (sorted(set("".join(text))), list),
    "subwords": (subwords.get_vocab(), lambda line: subwords.encode(line).tokens),
    "words": (english.words, lambda line: english.decode(english.encode(line.split()))),
}
for name, (vocabulary, tokenize) in tokenizers.items():
    length = sum(len(tokenize(line)) for line in text[:1000]) / 1000
    print(
        f"{name:10s} vocabulary {len(vocabulary):3d}, {length:4.1f} tokens per sentence", end="; "
    )
    print("townhouse:", tokenize("townhouse"))

# %% [markdown] slideshow={"slide_type": "fragment"}
# A word-level model cannot represent unseen words. Our vocabulary is
# small, so here a token is a word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Batches
#
# A tensor needs rows of equal length, so short sentences are **padded**. A mask marks the real tokens.
#
# **Exercise 3.1.** Write `pad(sentences, pad_id=0)`.
#
# - `sentences`: a list of $b$ lists of token ids; the longest has length $n$.
# - Return `token_ids` $(b, n)$, padded on the right with `pad_id`, and `attention_mask` $(b, n)$, bool, True at real tokens.
# - A real token may have the id `pad_id`, so compute the mask from the lengths.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.1 · sentences in one tensor · easy · 6 min
def pad(sentences, pad_id=0):
    """Lists of token ids to token_ids (b, n) and attention_mask (b, n), True at real tokens."""
    ### BEGIN SOLUTION
    max_len = max(len(sentence) for sentence in sentences)
    token_ids = torch.tensor(
        [sentence + [pad_id] * (max_len - len(sentence)) for sentence in sentences]
    )
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return token_ids, torch.arange(max_len) < lengths.unsqueeze(1)
    ### END SOLUTION


pad = exercise("3.1").use(pad)

# %% tags=["nbval-check-output"]
token_ids, attention_mask = pad([english.encode(pair.english) for pair in short[:3]])
print(token_ids)
print(attention_mask.int())
expected = nn.utils.rnn.pad_sequence(
    [torch.tensor(english.encode(pair.english)) for pair in short[:3]], batch_first=True
)
print("equal to torch's pad_sequence:", torch.equal(token_ids, expected))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Embeddings
#
# `nn.Embedding` holds one learned row per token id, its **embedding**. Embeddings can also be learned from text alone. A **skip-gram**
# model ([Mikolov et al., 2013](../docs/references.md#mikolov2013)) predicts the neighbors of each word, so words with similar contexts get
# similar embeddings. Which words will be closest to *king*?

# %% slideshow={"slide_type": "-"}
skipgram = train_skipgram()
for word in ("king", "dog", "sings", "european"):
    neighbors = nearest_neighbors(skipgram, word, 4)
    print(f"{word:8s} is near", ", ".join(f"{near} {cosine:.2f}" for near, cosine in neighbors))

# %% [markdown] slideshow={"slide_type": "fragment"}
# Do such embeddings help a translator? Section 7 measures it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Collect guesses for the neighbors of *king* before the cell.

# %% [markdown] slideshow={"slide_type": "notes"}
# Exercise 3.1 broadcasts (n,) against (b, 1). Let somebody say the shapes aloud.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · Recurrent networks
#
# A **recurrent neural network** (RNN) processes one token at a time. Each step combines the embedding $x_t$ with the previous **hidden
# state** ([Elman, 1990](../docs/references.md#elman1990), here with tanh):
#
# $$h_t = \tanh(x_t W_{ih}^\top + h_{t-1} W_{hh}^\top + \text{bias})$$
#
# Vectors are rows. The weights are the same at every step, so a sequence may have any length. (PyTorch keeps two biases and adds them.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two steps by hand
#
# Two dimensions, $h_0=(0,0)$, bias $(0,0)$, inputs $x_1=(1,0)$ and $x_2=(0,1)$:
#
# $$W_{ih}=\begin{pmatrix}0.5&1\\-1&0.5\end{pmatrix}\qquad W_{hh}=\begin{pmatrix}0&1\\0.5&0\end{pmatrix}$$
#
# **Step 1.** $x_1 W_{ih}^\top=(0.5,-1)$, the first column of $W_{ih}$. So $h_1=\tanh(0.5,-1)=(0.462,-0.762)$.
#
# **Step 2.** $x_2 W_{ih}^\top=(1,0.5)$, the second column. $h_1 W_{hh}^\top=(-0.762,\;0.5\cdot0.462)=(-0.762,0.231)$. The sum is
# $(0.238,0.731)$, so $h_2=(0.234,0.624)$.
#
# **Exercise 3.2.** Write one step, `rnn_step(x, h, W_ih, W_hh, bias)`.
#
# - `x` $(b, d)$: one token of each sentence; `h` $(b, w)$: the hidden states.
# - `W_ih` $(w, d)$, `W_hh` $(w, w)$, `bias` $(w,)$, as PyTorch stores them. Return the new hidden states $(b, w)$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.2 · one RNN step · easy · 5 min
def rnn_step(x, h, W_ih, W_hh, bias):
    """x (b, d), h (b, w), W_ih (w, d), W_hh (w, w), bias (w,) to the next hidden state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ W_ih.T + h @ W_hh.T + bias)
    ### END SOLUTION


rnn_step = exercise("3.2").use(rnn_step)

# %% tags=["nbval-check-output"]
W_ih = torch.tensor([[0.5, 1.0], [-1.0, 0.5]])
W_hh = torch.tensor([[0.0, 1.0], [0.5, 0.0]])
h, bias = torch.zeros(1, 2), torch.zeros(2)
for t, x_t in enumerate(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]), 1):
    h = rnn_step(x_t, h, W_ih, W_hh, bias)
    print(f"h_{t} =", [round(value, 3) for value in h[0].tolist()])

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Unrolling
#
# **Exercise 3.3.** Write `unroll(x, h, step)`, which applies a step to every token in order.
#
# - `x` $(b, n, d)$: the embeddings; `h` $(b, w)$: the initial hidden state; `step(x_t, h)` takes $(b, d)$ and $(b, w)$ and returns the next
#   hidden state $(b, w)$.
# - Return all hidden states $(b, n, w)$, one after each token, and the final one $(b, w)$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.3 · unroll a recurrent network · easy · 6 min
def unroll(x, h, step):
    """x (b, n, d), h (b, w) to all hidden states (b, n, w) and the final one (b, w)."""
    ### BEGIN SOLUTION
    states = []
    for x_t in x.unbind(1):
        h = step(x_t, h)
        states.append(h)
    return torch.stack(states, 1), h
    ### END SOLUTION


unroll = exercise("3.3").use(unroll)

# %% tags=["nbval-check-output"]
layer = nn.RNN(6, 4, batch_first=True)
W_ih, W_hh = layer.weight_ih_l0, layer.weight_hh_l0
bias = layer.bias_ih_l0 + layer.bias_hh_l0
x = torch.randn(2, 5, 6)

states, final = unroll(x, torch.zeros(2, 4), lambda x_t, h: rnn_step(x_t, h, W_ih, W_hh, bias))
print("equal to torch's nn.RNN with its weights:", torch.allclose(states, layer(x)[0], atol=1e-6))
print("the final state is the last of all states:", torch.equal(states[:, -1], final))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Gates: LSTM and GRU
#
# Backpropagation through an RNN multiplies by $W_{hh}$ once per step, so gradients **vanish** or **explode** ([Pascanu et al.,
# 2013](../docs/references.md#pascanu2013)). **Gates**, numbers between 0 and 1, control what is kept. The **LSTM** ([Hochreiter and
# Schmidhuber, 1997](../docs/references.md#hochreiter1997)) adds a **cell state** $c_t$, which is only scaled and added to; its forget gate
# is due to [Gers et al., 2000](../docs/references.md#gers2000) ($\sigma$ is the sigmoid, $\odot$ the elementwise product):
#
# $$\begin{aligned}
# i_t&=\sigma(x_tW_{ii}^\top+h_{t-1}W_{hi}^\top+b_i)&&\text{input gate: how much to write} \\
# f_t&=\sigma(x_tW_{if}^\top+h_{t-1}W_{hf}^\top+b_f)&&\text{forget gate: how much of the cell state to keep} \\
# g_t&=\tanh(x_tW_{ig}^\top+h_{t-1}W_{hg}^\top+b_g)&&\text{candidate: what to write} \\
# o_t&=\sigma(x_tW_{io}^\top+h_{t-1}W_{ho}^\top+b_o)&&\text{output gate: how much to expose} \\
# c_t&=f_t\odot c_{t-1}+i_t\odot g_t&&\text{cell state: internal memory} \\
# h_t&=o_t\odot \tanh(c_t)&&\text{hidden state: what other layers see}
# \end{aligned}$$

# %% tags=["nbval-check-output"]
cell = nn.LSTMCell(3, 2)
x, h, c = torch.randn(1, 3), torch.randn(1, 2), torch.randn(1, 2)
stacked = x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias_ih + cell.bias_hh
i, f, g, o = stacked.chunk(4, -1)  # PyTorch stacks the four in this order
new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
new_h = o.sigmoid() * new_c.tanh()
torch_h, torch_c = cell(x, (h, c))
print("equal to nn.LSTMCell:", torch.allclose(new_h, torch_h) and torch.allclose(new_c, torch_c))

# %% [markdown] slideshow={"slide_type": "subslide"}
# The **GRU** ([Cho et al., 2014](../docs/references.md#cho2014)) has two gates and no cell state. In PyTorch's form
# (the paper applies $r_t$ to $h_{t-1}$, before the matrix):
#
# $$\begin{aligned}
# r_t&=\sigma(x_tW_{ir}^\top+h_{t-1}W_{hr}^\top+b_r)&&\text{reset gate: how much of the state the candidate sees} \\
# z_t&=\sigma(x_tW_{iz}^\top+h_{t-1}W_{hz}^\top+b_z)&&\text{update gate: how much of the state to keep} \\
# n_t&=\tanh(x_tW_{in}^\top+b_{in}+r_t\odot (h_{t-1}W_{hn}^\top+b_{hn}))&&\text{candidate} \\
# h_t&=(1-z_t)\odot n_t+z_t\odot h_{t-1}&&\text{hidden state}
# \end{aligned}$$
#
# The translators that we compare use the LSTM, because with attention it scored higher after the same number of training
# steps (section 7). The decoder that you
# build uses the GRU, because its state is a single vector.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far back do gradients reach?
#
# How much does the final state depend on a token $k$ positions earlier? We measure gradient norms in untrained cells, relative to the last
# token. Which curve will fall fastest? (*Forget bias 2* adds 2 to $b_f$: the forget gate starts near
# $\sigma(2)=0.88$, so each step keeps most of the cell state.)

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
curves = {
    "Elman RNN": reach.reach("rnn"),
    "GRU": reach.reach("gru"),
    "LSTM": reach.reach("lstm"),
    "LSTM, forget bias 2": reach.reach("lstm", forget_bias=2.0),
}
show(
    pictures.influence(curves, "Gates decide how far back gradients reach"),
    alt="Influence of a token on the final state against its distance, on a logarithmic scale: gradients of the Elman RNN "
    "vanish fastest, gates help, and an LSTM with a forget bias of 2 reaches far.",
)

# %%
for name, values in curves.items():
    print(f"{name:20s} influence of the token 20 positions back: {values[20]:.0e} of the last one")

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what the forget gate must be to remember something for 100 steps. Then show forget bias 2.

# %% [markdown] slideshow={"slide_type": "notes"}
# Compute the two steps at the board. Swap the inputs and compute again: order matters.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · The encoder-decoder
#
# An **encoder** RNN processes the English sentence. A **decoder** RNN generates the French one, token by token: its first input is `<bos>`,
# each further input is the token generated last, and it stops at `<eos>` ([Sutskever et al., 2014](../docs/references.md#sutskever2014);
# [Cho et al., 2014](../docs/references.md#cho2014)). The decoder knows the source only through a state of fixed size: the
# encoder's final hidden state and final cell state. It starts from both, and concatenates its own hidden state with the encoder's final
# hidden state, the **context vector**, before each prediction. However long the sentence, nothing else passes: the fixed-size state is the
# **bottleneck**.
#
# Our encoder is **bidirectional** ([Schuster and Paliwal, 1997](../docs/references.md#schuster1997)): one LSTM runs forward, another
# backward, each with half the hidden size, and their states are concatenated.

# %% slideshow={"slide_type": "subslide"}
quiz("3.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Teacher forcing
#
# In training, the input at each step is the correct previous token, whatever the model would have predicted: **teacher forcing** ([Williams
# and Zipser, 1989](../docs/references.md#williams1989)). Input and target are the same sentence, shifted by one. At test time the input is
# the model's own prediction, and after an error it continues from a **prefix** (the tokens so far) that does not belong to this source: **exposure bias** ([Ranzato et al.,
# 2016](../docs/references.md#ranzato2016)).

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
example = collate(short[:1], english, french)
print("source ", *(english.words[token_id] for token_id in example.source[0]))
print("input  ", *(french.words[token_id] for token_id in example.target_in[0]))
print("target ", *(french.words[token_id] for token_id in example.target_out[0]))

# %% [markdown] slideshow={"slide_type": "subslide"}
# The computation, with an untrained model. `memory`, all hidden states of the encoder, is not used.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
untrained = Seq2Seq(len(english), len(french), hidden_size=96)
memory, (h, c) = untrained.encoder(example.source)  # (b, n, 96); h and c (1, b, 96)
print("memory", tuple(memory.shape), "  h", tuple(h.shape), "  c", tuple(c.shape))
context = h.transpose(0, 1)  # (b, 1, 96), the same at every step
for token_ids in example.target_in.unbind(1):
    embedded = untrained.decoder.embedding(token_ids.unsqueeze(1))  # (b, 1, 96)
    hidden, (h, c) = untrained.decoder.rnn(embedded, (h, c))
    combined = torch.tanh(untrained.decoder.combine(torch.cat([hidden, context], -1)))
    logits = untrained.decoder.output(combined)
print("hidden", tuple(hidden.shape), "  logits", tuple(logits.shape))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# `train_translation` minimizes the cross-entropy of the target tokens with Adam, then translates all 1,000 test sentences. A translation is
# an **exact match** only if every token is correct.

# %% slideshow={"slide_type": "-"}
no_attention = train_translation(None, **LESSON)
shortest = no_attention["quarters"][0]
print(f"{LESSON['num_steps']:,} steps, hidden size {LESSON['hidden_size']}")
print(f"shortest quarter, {shortest['shortest']} to {shortest['longest']} words:", end=" ")
print(f"exact match {100 * shortest['exact']:.0f} %")

# %% tags=["checks"]
assert shortest["exact"] > 0.7
assert no_attention["quarters"][3]["exact"] < 0.3

# %% [markdown] slideshow={"slide_type": "notes"}
# Cover the source and let the room translate from memory: that is what the decoder does.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask what changes at test time, when the inputs are not known in advance.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · Three limits, measured
#
# **Limit 1: time.** How does it grow with the length of the sentence?

# %% slideshow={"slide_type": "-"}
quiz("3.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# $h_t$ needs $h_{t-1}$: the LSTM has $n$ **sequential operations**. A **convolution**, which computes each output from a window of
# neighbors, has one. On one core the time of both becomes linear (slope 1 on logarithmic axes; lower here, in part because of the fixed cost of a call). More cores cannot remove the $n$ sequential
# steps.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
lengths = (32, 64, 128, 256, 512, 1024)
layers = {
    "LSTM, sequential": reach.recurrent_layer("lstm", 64, 64),
    "convolution, parallel": reach.Convolutions(1, 64),
}
times = reach.seconds_by_length(layers, lengths)
show(
    pictures.times(lengths, times, "On one core both layers take linear time", fit_from=128),
    alt="Milliseconds of one layer against the length of the sentence, for an LSTM and for a convolution: two rising lines.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The limit of a convolution is its **receptive field**, the inputs that one output depends on. Windows of 3 tokens
# add 2 per layer; with **dilation** (spacing 1, 2, 4, …) each layer about doubles it:

# %% tags=["nbval-check-output"]
for num_layers in (1, 2, 4, 8):
    dilations = [2**layer for layer in range(num_layers)]
    field = reach.receptive_field(num_layers)
    dilated = reach.receptive_field(num_layers, dilations=dilations, length=1025)
    print(f"layers: {num_layers}   receptive field: {field:2d}, with dilation {dilated:3d}")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.receptive_field(4, 3),
    alt="The cone of nine inputs that one output of four convolutions with kernel 3 depends on.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Limit 2: reach.** Take the forward half of the trained encoder. How much does its state after 16 words depend on each?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
bottleneck = restore(no_attention)
sixteen = [pair.english for pair in data.train if len(pair.english) == 16][:64]
trained_encoder, half = bottleneck.model.encoder, LESSON["hidden_size"] // 2
sixteen_ids = torch.tensor([english.encode(sentence) for sentence in sixteen])
embeddings = trained_encoder.embedding(sixteen_ids)
learned = reach.influence(lambda x: (trained_encoder.rnn(x)[0][..., :half], None), embeddings)
initial = reach.influence(reach.recurrent_layer("lstm", LESSON["hidden_size"], half), embeddings)
show(
    pictures.influence(
        {"trained": learned / learned[0], "untrained": initial / initial[0]},
        "After training, all 16 tokens influence the final state",
    ),
    alt="Influence of a token on the final state against its distance, for the trained encoder and for an untrained one: "
    "the trained one reaches far more, and the last token has most influence.",
)
relative = 100 * learned[1:15] / learned[0]
print(f"1 to 14 positions back: {relative.min():.0f} to {relative.max():.0f} % of the last token")

# %% [markdown] slideshow={"slide_type": "fragment"}
# Training extends the reach: in this run, from 1 to 14 positions back the influence varies only by a factor of about two. The last token has about
# three times the influence of any other, the first the least.

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Limit 3: the bottleneck.** Does exact match fall with length only because a long sentence offers more chances for an error?

# %% slideshow={"slide_type": "-"}
quiz("3.c")

# %% [markdown] slideshow={"slide_type": "subslide"}
# Let $a$ be the **per-token accuracy**: the fraction of reference tokens, `<eos>` included, that get the largest probability given the
# correct previous tokens. If all $n$ tokens of a reference are correct in this sense, then generation gives exactly this reference: each
# correct token makes the next prefix correct. With independent errors, equally likely everywhere, exact match would be $a^n$.


# %% slideshow={"slide_type": "-"}
def per_token_accuracy(rows):
    return torch.cat(rows).float().mean().item()


correct = training.correct_tokens(bottleneck, data.test)  # for each sentence (n,) bool
a = {
    "all tokens": per_token_accuracy(correct),
    "up to 8 tokens": per_token_accuracy([row for row in correct if len(row) <= 8]),
    "15 tokens or more": per_token_accuracy([row for row in correct if len(row) >= 15]),
}
for name, accuracy in a.items():
    print(f"{name:18s} a = {accuracy:.3f}   a^16 = {accuracy**16:.2f}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
rows = metrics.accuracy_by_length([bool(row.all()) for row in correct], list(map(len, correct)))
rows = [row for row in rows if row["count"] >= 10]
show(
    pictures.independent_errors(
        [row["length"] for row in rows],
        [100 * row["exact"] for row in rows],
        {name: a[name] for name in ("up to 8 tokens", "all tokens")},
        "Exact match falls faster than with one accuracy for all lengths",
    ),
    alt="Exact match against reference length: the measured curve starts high and falls to zero, far below the curve "
    "of independent errors with the accuracy of short sentences; the curve with the accuracy of all tokens lies low throughout.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Neither curve fits: the measured one starts above both, and ends far below that of short sentences. So $a$ is not a constant. It falls
# with length: on average, tokens of a long sentence are predicted less accurately, from a state of the same size. Are long sentences simply harder?
# Section 7 repeats the measurement with attention.

# %% [markdown] slideshow={"slide_type": "subslide"}
# Three examples from this run: mostly grammatical French, with another meaning.

# %% slideshow={"slide_type": "-"}
long_pairs = [pair for pair in data.test if len(pair.english) == 12][:3]
translations = bottleneck.translate([pair.english for pair in long_pairs])
for pair, translation in zip(long_pairs, translations, strict=True):
    print("source     ", " ".join(pair.english))
    print("reference  ", join(pair.french, "french"))
    print("translation", join(translation, "french"), end="\n\n")

# %% tags=["checks"]
exact = [bool(row.all()) for row in correct]
assert sum(exact) / len(exact) == no_attention["exact"]
assert relative.max() < 42 and relative.max() < 2.5 * relative.min()
assert learned[15] < learned[1:15].min()
assert a["15 tokens or more"] < a["all tokens"] < a["up to 8 tokens"]
assert rows[0]["exact"] > a["up to 8 tokens"] ** rows[0]["length"]
assert rows[-1]["exact"] < a["up to 8 tokens"] ** rows[-1]["length"] / 2

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room draw exact match at 5, 10 and 15 tokens before the figure.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which limit a larger hidden size would help with: only the third.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · Attention for translation
#
# The encoder computes a hidden state for *every* source token. Keep them all as the **memory** $h_1, \dots, h_n$, and let the decoder
# attend to it at each step ([Bahdanau et al., 2015](../docs/references.md#bahdanau2015); [Luong et al.,
# 2015](../docs/references.md#luong2015)):
#
# 1. The cell takes the previous token and computes the new decoder state $s$, the query.
# 2. A **score** compares $s$ with each $h_j$, the keys.
# 3. A softmax over the scores gives the **attention weights**.
# 4. The context vector $c$ is the weighted sum of the $h_j$, which are also the values.
# 5. $[s; c]$, concatenated, goes through a linear layer and a tanh (`combine`), then a linear layer gives the logits (`output`; equations 5
#    and 6 of Luong et al.).
# 6. The chosen token is the input of the next step.
#
# Steps 3 and 4 are `attend` of lesson 01. Step 2 is a choice.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### One attention step by hand
#
# Let $s=(1,2)$, $h_1=(1,0)$, $h_2=(0,1)$, $h_3=(2,-1)$, and let the score be the dot product.
#
# **Scores.** $s\cdot h_1=1$, $s\cdot h_2=2$, $s\cdot h_3=2-2=0$.
#
# **Weights.** The exponentials are 2.718, 7.389 and 1, with sum 11.107. The weights are 0.245, 0.665 and 0.090.
#
# **Context.** $c=0.245\,(1,0)+0.665\,(0,1)+0.090\,(2,-1)=(0.425,\;0.575)$.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
s = torch.tensor([[1.0, 2.0]])
memory = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]])
context, weights = attend(s @ memory.T, memory)
for name, values in {"scores": s @ memory.T, "weights": weights, "context": context}.items():
    print(f"{name:8s}", [round(value, 3) for value in values[0].tolist()])

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three scores
#
# | score | query $q$ and key $k$ | parameters |
# |---|---|---|
# | **dot** | $q k^\top$ | none |
# | **multiplicative** (*general* in Luong et al.) | $q W^\top k^\top$ | $W$ |
# | **additive** (Bahdanau et al., appendix A.1.2) | $\tanh(q W^\top + k U^\top)\, v^\top$ | $W$, $U$, $v$ |
#
# All three are called alike, `score(query, keys)`: query $(b, m, d)$ and keys $(b, n, e)$ in, scores $(b, m, n)$ out, not scaled and before
# the softmax. Parameters live inside the score, as linear layers without bias.
#
# **Exercise 3.4.** Write `dot_score(query, keys)`; here $d = e$. **Exercise 3.5.** Write `forward` of `MultiplicativeScore`: `self.W` maps
# $(\dots, d)$ to $(\dots, e)$.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.4 · the dot score · easy · 4 min
def dot_score(query, keys):
    """query (b, m, d), keys (b, n, d) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return query @ keys.transpose(1, 2)
    ### END SOLUTION


dot_score = exercise("3.4").use(dot_score)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.5 · the multiplicative score · medium · 6 min
class MultiplicativeScore(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()
        self.W = nn.Linear(query_size, key_size, bias=False)

    def forward(self, query, keys):
        """query (b, m, query_size), keys (b, n, key_size) to scores (b, m, n)."""
        ### BEGIN SOLUTION
        return dot_score(self.W(query), keys)
        ### END SOLUTION


MultiplicativeScore = exercise("3.5").use(MultiplicativeScore)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Exercise 3.6 (optional).** Write `forward` of `AdditiveScore`. `self.W` and `self.U` map query and keys to width `score_size`,
# `self.v` maps this width to 1. Every query meets every key, so the sum inside the tanh is `(b, m, n, score_size)`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.6 · the additive score · medium · 10 min · optional
class AdditiveScore(nn.Module):
    def __init__(self, query_size, key_size, score_size):
        super().__init__()
        self.W = nn.Linear(query_size, score_size, bias=False)
        self.U = nn.Linear(key_size, score_size, bias=False)
        self.v = nn.Linear(score_size, 1, bias=False)

    def forward(self, query, keys):
        """query (b, m, query_size), keys (b, n, key_size) to scores (b, m, n)."""
        ### BEGIN SOLUTION
        pairs = self.W(query).unsqueeze(2) + self.U(keys).unsqueeze(1)  # (b, m, n, score_size)
        return self.v(torch.tanh(pairs)).squeeze(-1)
        ### END SOLUTION


AdditiveScore = exercise("3.6").use(AdditiveScore)

# %% tags=["nbval-check-output"]
query, keys = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
for score in (dot_score, MultiplicativeScore(8, 8), AdditiveScore(8, 8, 4)):
    print("scores", tuple(score(query, keys).shape))

# %% slideshow={"slide_type": "subslide"}
quiz("3.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Bahdanau and Luong
#
# | | [Bahdanau et al., 2015](../docs/references.md#bahdanau2015) | [Luong et al., 2015](../docs/references.md#luong2015) | ours |
# |---|---|---|---|
# | the query | the previous state $s_{t-1}$ | the current state $s_t$ | the current state |
# | the score | additive | dot, general, concat | any of the three |
# | where the context enters | the cell: $s_t = f(s_{t-1}, y_{t-1}, c_t)$, and the output | the output: $\tanh(W_c [s_t; c_t])$ | the output |
# | does the next state know it? | yes | with **input feeding**: $\tanh(W_c [s_t; c_t])$ joins the next input | no |
#
# (Luong et al. concatenate the context first.) Without input feeding, no state depends on a context, and under teacher forcing all inputs
# are known. So one call of the recurrent layer can compute the states of all steps.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder
#
# **Exercise 3.7.** Write `forward` of `AttentionDecoder`: steps 1 to 5, for one token of each sentence.
#
# - `token_ids` $(b,)$, `state` $(b, w)$, `memory` $(b, n, w)$, where $w$ is `hidden_size`; `source_mask` $(b, n)$, True at real tokens.
# - `attend(scores, memory, mask)` takes scores $(b, 1, n)$ and a mask of the same shape, and returns context and weights. As in lesson 01, insert the query axis:
#   `source_mask.unsqueeze(-2)` is $(b, 1, n)$.
# - Concatenate the state first, then the context. Return logits `(b, vocab_size)`, the new state $(b, w)$ and weights $(b, n)$.
# - If a row of the mask is all False, its weights and context are zeros; `attend` does this. Store nothing in `self`.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.7 · a step of the decoder · hard · 20 min
class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, hidden_size, score):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.score = score
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def forward(self, token_ids, state, memory, source_mask):
        """One step: logits (b, vocab_size), new state (b, w), attention weights (b, n)."""
        ### BEGIN SOLUTION
        state = self.cell(self.embedding(token_ids), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, source_mask.unsqueeze(-2))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 w)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)
        ### END SOLUTION


AttentionDecoder = exercise("3.7").use(AttentionDecoder)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train your decoder
#
# `RecurrentEncoder` is the bidirectional encoder of section 4, here with a GRU. The loop uses sentences of at most six words, so it takes
# seconds. `ignore_index` leaves the padding out of the loss.

# %%
torch.manual_seed(0)
encoder = RecurrentEncoder(len(english), 64, cell="gru")
decoder = AttentionDecoder(len(french), 64, MultiplicativeScore(64, 64))


def teacher_forced_loss(batch):
    memory, state = encoder(batch.source, batch.source_mask)
    state, loss = state.squeeze(0), 0.0
    for t, target in enumerate(batch.target_out.unbind(1)):
        logits, state, _ = decoder(batch.target_in[:, t], state, memory, batch.source_mask)
        loss = loss + F.cross_entropy(logits, target, ignore_index=PAD_ID, reduction="sum")
    return loss / batch.target_mask.sum()


# %% slideshow={"slide_type": "-"}
up_to_six = [pair for pair in data.train if len(pair.english) <= 6]
batches = training.endless_batches(up_to_six, english, french, 64, seed=0)
parameters = [*encoder.parameters(), *decoder.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-2)
for step_number in range(1, 301):
    loss = teacher_forced_loss(next(batches))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    if step_number % 100 == 0:
        print(f"step {step_number}: cross-entropy {loss.item():.2f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Greedy decoding
#
# At test time the most probable token becomes the next input: **greedy decoding**. (Beam search, in lesson 06, keeps several hypotheses.)
#
# **Exercise 3.8.** Write `greedy_decode(step, state, bos_id, eos_id, max_len)`.
#
# - `step(token_ids, state)` takes $b$ token ids $(b,)$, int64, and the state $(b, w)$. It returns two things, logits
#   `(b, vocab_size)` and the new state $(b, w)$. Pass it the whole batch every time.
# - `state` is the initial state, so $b$ is `len(state)`.
# - Stop when every sentence has generated `eos_id`, or after `max_len` tokens.
# - Return token ids $(b, m)$, $m$ being the number of steps: without `bos_id`, with `eos_id`, and 0 after it. Only `eos_id` ends a
#   sentence; a 0 before it is an ordinary token.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.8 · greedy decoding · medium · 18 min
def greedy_decode(step, state, bos_id, eos_id, max_len):
    """step(token_ids, state) -> logits, state. Returns the most probable token ids (b, m)."""
    ### BEGIN SOLUTION
    token_ids = torch.full((len(state),), bos_id)
    active = torch.ones(len(state), dtype=torch.bool)
    generated = []
    while active.any() and len(generated) < max_len:
        logits, state = step(token_ids, state)
        token_ids = logits.argmax(-1).masked_fill(~active, 0)
        generated.append(token_ids)
        active = active & (token_ids != eos_id)
    return torch.stack(generated, 1)
    ### END SOLUTION


greedy_decode = exercise("3.8").use(greedy_decode)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Translate short test sentences with your decoder. `decoder_step` drops the attention weights.


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def decoder_step(token_ids, state):
    logits, state, _ = decoder(token_ids, state, memory, test_batch.source_mask)
    return logits, state


pairs = [pair for pair in data.test if len(pair.english) <= 6]
test_batch = collate(pairs, english, french)
with torch.no_grad():
    memory, state = encoder(test_batch.source, test_batch.source_mask)
    generated = greedy_decode(decoder_step, state.squeeze(0), BOS_ID, EOS_ID, max_len=20)
translations = [french.decode(row) for row in generated]
for pair, translation in list(zip(pairs, translations, strict=True))[:3]:
    print(" ".join(pair.english), "|", join(translation, "french"))
own_exact = metrics.exact_match(translations, [pair.french for pair in pairs])
print(f"exact match on {len(pairs)} test sentences: {100 * own_exact:.0f} %")

# %% tags=["checks"]
assert own_exact > 0.5

# %% [markdown] slideshow={"slide_type": "notes"}
# Act out the steps: one student is the query, five hold encoder states.

# %% [markdown] slideshow={"slide_type": "notes"}
# 3.7 in pairs, saying every shape aloud; the mask axis is the stumbling block. 3.8 is good homework.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Four models, one budget
#
# Now the full corpus, with the models of `utils.models.recurrent`: the same encoder, batches and number of steps. Only the
# context vector differs: the final state, or a weighted sum of all states.

# %%
scores = ("dot", "multiplicative", "additive")
results = {"none": no_attention} | {score: train_translation(score, **LESSON) for score in scores}
for score, result in results.items():
    print(f"{score:15s} exact match {100 * result['exact']:3.0f} %", end="   ")
    print(f"{result['parameters']:,} parameters")

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
by_length = {
    score.replace("none", "no attention"): [
        (row["length"], 100 * row["exact"]) for row in result["by_length"] if row["count"] >= 10
    ]
    for score, result in results.items()
}
show(
    pictures.by_length(
        {name: tuple(zip(*points, strict=True)) for name, points in by_length.items()},
        "With attention, long sentences are translated too",
    ),
    alt="Exact match against source length: models with attention stay high, the one without falls to zero.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# The control for limit 3, per-token accuracy with and without attention:

# %% slideshow={"slide_type": "-"}
for score in ("none", "dot"):
    correct = training.correct_tokens(restore(results[score]), data.test)
    short_rows = per_token_accuracy([row for row in correct if len(row) <= 8])
    long_rows = per_token_accuracy([row for row in correct if len(row) >= 15])
    print(f"{score:5s} up to 8 tokens {short_rows:.3f}   15 tokens or more {long_rows:.3f}")

# %% [markdown] slideshow={"slide_type": "fragment"}
# With dot attention the accuracy hardly depends on length, so length alone does not explain limit 3.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### BLEU
#
# **BLEU** ([Papineni et al., 2002](../docs/references.md#papineni2002)) rewards partial agreement. The **n-gram precision** $p_n$ is the
# fraction of n-grams in the translation that occur in the reference, each counted at most as often as there. Precision alone would favor
# short translations, so a **brevity penalty** BP compares the length $c$ of the translation with the length $r$ of the reference:
#
# $$\text{BLEU}=\text{BP}\cdot\exp\Big(\tfrac14\sum_{n=1}^{4}\log p_n\Big)\qquad\text{BP}=\min(1,e^{1-r/c})$$
#
# **By hand.** Reference: *le vieux roi ne voit pas le chien noir* ($r = 9$). Translation: *le vieux roi ne voit pas le chat* ($c = 8$).
# Only *chat* is wrong, so $p_1=\tfrac78$, $p_2=\tfrac67$, $p_3=\tfrac56$, $p_4=\tfrac45$. Their product is $\tfrac12$, its fourth root
# 0.841. With $\text{BP}=e^{-1/8}=0.882$ this gives 0.742, reported as 74.2. For a corpus, counts and lengths are summed over all sentences
# first. The library sacrebleu ([Post, 2018](../docs/references.md#post2018)) does this.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
reference = ["le", "vieux", "roi", "ne", "voit", "pas", "le", "chien", "noir"]
translation = ["le", "vieux", "roi", "ne", "voit", "pas", "le", "chat"]
print(f"sacrebleu: {metrics.bleu([translation], [reference]):.1f}")

# %% slideshow={"slide_type": "-"}
for score, result in results.items():
    print(f"{score:15s} BLEU {result['bleu']:4.1f}")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Two choices, checked
#
# LSTM or GRU? And does it help to initialize the encoder's embeddings with skip-gram ones, rescaled to the same standard deviation? Guess
# first. Stored results after as many steps as above: the median of three seeds, with the range in brackets. The skip-gram model saw the English side of all 20,000 pairs, also in the rows with 1,000.

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "-"}
choices = stored("translation_choices")
choices.table(
    ("attention", "cell", "training pairs", "source embeddings", "exact match, %", "BLEU"),
    [
        (
            row["score"] or "none",
            row["cell"].upper(),
            f"{row['num_pairs']:,}",
            "skip-gram" if row["skipgram"] else "random",
            ranged(row["exact"]),
            ranged(row["bleu"]),
        )
        for row in choices.result
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# With attention, each LSTM beats each GRU; without, the ranges overlap. Skip-gram embeddings do **not** help. With 20,000 pairs each run is
# worse than each random one; with 1,000 the ranges overlap. One guess at the reason, not tested here: skip-gram places *king* close to *queen*, and
# a translator must tell them apart. Pretraining whole models can pay off where labeled data are few (lessons 07 and 08).

# %% tags=["checks"]
assert max(results[score]["exact"] for score in scores) >= 0.9
assert long_rows > 0.98 and short_rows - long_rows < 0.02
for score, row in (("none", choices.result[0]), ("dot", choices.result[2])):
    assert abs(100 * results[score]["exact"] - row["exact"]["median"]) < 2
lstm_none, gru_none, lstm, gru, pretrained, few, few_pretrained = (
    row["exact"] for row in choices.result
)
assert gru["most"] < lstm["least"] and pretrained["most"] < lstm["least"]
assert few["least"] < few_pretrained["most"] and lstm_none["least"] < gru_none["most"]
assert dict(nearest_neighbors(skipgram, "king"))["queen"] > 0.9

# %% [markdown] slideshow={"slide_type": "notes"}
# One seed each: do not rank the three scores yet.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room count the 4-grams, then drop two words and compute BP again.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8 · Soft alignment
#
# Which English word does each French word attend to?

# %% slideshow={"slide_type": "-"}
quiz("3.e")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
phrase = ["the", "european", "economic", "area", "is", "not", "dangerous"]
dot_model = restore(results["dot"])
((translation, weights),) = dot_model.translate_with_weights([phrase])
show(
    pictures.alignment(
        [*phrase, "<eos>"],
        [*translation, "<eos>"],
        weights,
        title="The alignment is not monotonic",
    ),
    alt="Attention weights of the translation of the european economic area is not dangerous: zone attends to area, the "
    "adjectives after it attend to earlier words.",
)
print(join(translation, "french"))

# %% [markdown]
# No link was given in training. Most weights are where a person would put them, but in our run *européenne* attends to *economic*. An
# encoder state is not a word: the state at *economic* depends on its neighbors too, so it can supply what *européenne* needs.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Alignment error rate
#
# Link each French word to the English word with the largest weight. Let $A$ be these links and $S$ the gold links. The **alignment error
# rate** ([Och and Ney, 2003](../docs/references.md#och2003), who also have *possible* links; ours are all *sure*) is
#
# $$\text{AER} = 1 - \frac{2\,|A \cap S|}{|A| + |S|}$$
#
# **By hand.** *the black cat*, *le chat noir*: as (source, target) positions, $S=\{(0,0),(2,1),(1,2)\}$. Suppose that *noir* attends to
# *cat*: $A=\{(0,0),(2,1),(2,2)\}$. Two links agree, so $\text{AER}=1-\tfrac{2\cdot2}{3+3}=\tfrac13$.
#
# **Exercise 3.9.** Write `alignment_error(weights, links)`.
#
# - `weights` $(m, n)$, $m$ target and $n$ source words, without `<eos>`; `links`: a set of pairs of ints (source position, target position). Leave
#   it unchanged.
# - $A$ has exactly one link per target word. Return a float (a tensor of shape `()` is accepted).


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.9 · the alignment error rate · medium · 10 min
def alignment_error(weights, links):
    """AER of weights (m, n) and links, a set of (source position, target position)."""
    ### BEGIN SOLUTION
    predicted = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(predicted & links) / (len(predicted) + len(links))
    ### END SOLUTION


alignment_error = exercise("3.9").use(alignment_error)

# %% tags=["nbval-check-output"]
noir_attends_to_cat = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7], [0.0, 0.4, 0.6]])
print(f"by hand 1/3, computed {alignment_error(noir_attends_to_cat, {(0, 0), (2, 1), (1, 2)}):.3f}")

# %%
negated = next(pair for pair in data.test if "not" in pair.english and len(pair.english) < 12)
(weights,) = dot_model.weights([negated])  # teacher forcing: all models get the same input
without_eos = weights[: len(negated.french), : len(negated.english)]
print(f"AER of the next figure: {alignment_error(without_eos, set(negated.links)):.2f}")
for score in scores:
    print(f"{score:15s} AER on the test set {100 * results[score]['alignment_error']:4.1f} %")
print(f"{'smallest possible':15s}{100 * results['dot']['alignment_floor']:21.1f} %")

# %% [markdown]
# The smallest possible error is not zero: some French words have two gold links (*tombe*: *does* and *fall*; *des*: *of* and *the*), but $A$ has one
# per French word.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.alignment(
        [*negated.english, "<eos>"],
        [*negated.french, "<eos>"],
        weights,
        negated.links,
        "In this run every largest weight is on a gold link, but none on “does” to “tombe”",
    ),
    alt="Attention weights of a negated sentence with its gold links as outlines.",
)

# %% [markdown] slideshow={"slide_type": "-"}
# *not* becomes *ne* and *pas*. In our run *ne* splits its weight between *not* and *does*. The state at *does* depends on
# *not* too, so both can supply the negation. The alignment error rate uses the largest weight only, and does not show this.

# %% [markdown] slideshow={"slide_type": "notes"}
# Which of these alignment errors would a translator call errors?

# %% [markdown] slideshow={"slide_type": "notes"}
# The model never saw a link. Compare with the list from the first minute.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9 · The comparison
#
# A larger run, stored: hidden size 128, eight epochs over the 20,000 pairs in batches of 64, three seeds, the same for every model (medians, with the range in brackets where it is given). Lesson 06 adds
# Transformers to this table.

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "-"}
comparison, timed = stored("translation"), stored("translation_speed")
recurrent = [row for row in comparison.result["rows"] if "Transformer" not in row["name"]]
seconds = {row["name"]: row["seconds"] for row in timed.result["training"]}
comparison.table(
    (
        "model",
        "exact match, %",
        "BLEU",
        f"AER, % (at least {recurrent[0]['alignment_floor']})",
        "parameters",
        "seconds, from the measured speed",
    ),
    [
        (
            row["name"],
            *(ranged(row[column]) for column in ("exact", "bleu", "alignment_error")),
            ranged(row["parameters"], 0),
            f"{seconds[row['name']]:.0f}",
        )
        for row in recurrent
    ],
)

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "subslide"}
quarters = [part["words"] for part in recurrent[0]["quarters"]]
comparison.table(
    ("exact match, %, by English words", *quarters, "19 to 26, longer than in training"),
    [
        (row["name"], *(part["exact"] for part in row["quarters"]), ranged(row["longer"]["exact"]))
        for row in recurrent
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Without attention, almost nothing longer than the training sentences is translated correctly; with attention, 42 to 66 % are. On the test set
# the ranges of dot and additive attention overlap. On longer sentences dot attention is best with every seed.

# %% tags=["checks"]
assert comparison.result["epochs"] == 8 and {row["seeds"] for row in recurrent} == {3}
without, dot, multiplicative, additive = recurrent
assert 0 < additive["exact"]["median"] - dot["exact"]["median"] < 0.5
assert without["longer"]["exact"]["most"] < 1
for row in (multiplicative, additive):
    assert row["longer"]["exact"]["most"] < dot["longer"]["exact"]["least"]
    assert row["longer"]["exact"]["least"] >= 42 and dot["longer"]["exact"]["most"] <= 66

# %% [markdown]
# ### Real sentence pairs
#
# `make translate ARGS="--pairs data/translation/fra.txt"` trains the same models on your own tab-separated pairs, by default with one
# seed, and prints exact match, BLEU, parameters and seconds. AER needs gold alignments.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which row the room would deploy. The last column decides.

# %% [markdown] slideshow={"slide_type": "notes"}
# Real sentences have several correct translations: what does that do to exact match?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10 · Watch it decode
#
# Step through a translation. Point at a generated token to see where the decoder attended.

# %% [markdown]
# Type a sentence of your own. With the score *none*, the model without attention, try long sentences.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
trained_models = {score: restore(result) for score, result in results.items()}
decoding_view(
    lambda text, score: decoding_steps(trained_models[score], text),
    "the european economic area of the important country is not dangerous",
    step=7,
    score=["dot", "multiplicative", "additive", "none"],
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def own_alignment(sentence, score, models=trained_models):
    tokens = read_sentence(sentence, models[score].english)
    ((translation, weights),) = models[score].translate_with_weights([tokens])
    target = [*translation, "<eos>"][: len(weights)]
    return {"weights": weights, "target": target, "source": [*tokens, "<eos>"]}


attention_view(
    own_alignment,
    sentence="the happy german women and the strange men are not in the green garden",
    score=["dot", "multiplicative", "additive"],
    title="The alignment of your sentence",
    names=("French", "English"),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Find a sentence that one score translates correctly and another does not.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask which part is slow on a thousand cores: the recurrence.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Summary
#
# - An RNN compresses the past into a hidden state. Gates let gradients reach further back; the steps stay sequential.
# - Without attention, everything passes through a fixed-size state, the final hidden and cell state. Exact match falls with length faster
#   than one accuracy per token explains.
# - With attention, the decoder computes a new context vector at each step, a weighted sum of all encoder states.
# - Attention weights form a soft alignment, learned without gold links.
#
# **Next.** Encoder and decoder still process one token after the other. If every token can attend to every other, do we need the
# recurrence? [Lesson 04](04_self_attention.ipynb) leaves it out.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - S. Hochreiter, J. Schmidhuber, [*Long short-term memory*](../docs/references.md#hochreiter1997), 1997.
# - I. Sutskever, O. Vinyals, Q. V. Le, [*Sequence to sequence learning with neural networks*](../docs/references.md#sutskever2014), 2014.
# - D. Bahdanau, K. Cho, Y. Bengio, [*Neural machine translation by jointly learning to align and
#   translate*](../docs/references.md#bahdanau2015), 2015 ([arXiv:1409.0473](https://arxiv.org/abs/1409.0473)): the
#   phrase of the opening.
# - M.-T. Luong, H. Pham, C. D. Manning, [*Effective approaches to attention-based neural machine
#   translation*](../docs/references.md#luong2015), 2015 ([arXiv:1508.04025](https://arxiv.org/abs/1508.04025)).
