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
# *the european economic area* is *la zone économique européenne* in French: as many words, in another order, and three of
# them must agree with the fourth, *zone*. This lesson translates, first through a bottleneck, then with attention.

# %% [markdown] slideshow={"slide_type": "notes"}
# Let somebody who speaks French translate the phrase aloud, and ask which English word they had in mind at each French word.
# That list is an alignment; at the end of the lesson a network draws it. Plan: 20 minutes for text and vectors, 25 for
# recurrence, 20 for the bottleneck, 35 for attention, 20 for the table and the widgets.

# %% [markdown]
# **After this lesson you can**
#
# - turn a sentence into numbers and vectors, and say what characters, words and subwords cost;
# - write a recurrent cell, and measure how far back it reaches;
# - show what a bottleneck does to long sentences;
# - write three score functions and a decoder with attention;
# - say a translation word by word, score it, and score the links between words that a model finds;
# - read a table of models that differ in one part: same pairs, same number of steps, several seeds.
#
# **You need** lesson 01: `attend`, masks. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn

from utils.build.results import ranged, stored
from utils.data.tokens import BOS_ID, EOS_ID, collate, join, split
from utils.exercises import board, exercise, lesson, quiz
from utils.models import attend
from utils.plots import lesson03 as pictures
from utils.plots import show
from utils.training import reach as measure
from utils.training.own_sentence import read_sentence, step_by_step
from utils.training.skipgram import nearest_neighbors, train_skipgram
from utils.training.translation import LESSON, pairs_and_words, restore, train_translation
from utils.widgets import explore, stepper

torch.manual_seed(3)
torch.set_num_threads(1)
lesson("03")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 1 · Kinds of sequence task
#
# What goes in and what comes out may be one thing or many. The memory network read many sentences and answered with one word.
# A translation is many to many, and nobody knows beforehand how many.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
show(
    pictures.sequence_tasks(),
    alt="Five kinds of sequence task: one to one, one to many, many to one, many to many, and many to many in step, "
    "each with an example.",
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for one more example of each kind. The fourth, whose answer is as long as it likes, is today's.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 2 · From text to vectors
#
# The course has a corpus of its own: English and French from a grammar, with one right translation for every sentence. It has what makes
# French hard: most adjectives behind the noun and a few before it, agreement over a distance, *ne … pas* around the verb, *l'* and
# *du*, and relative clauses that make sentences long. For each pair we also know which French word stands for which English one.
#
# 20,000 pairs to train on, 1,000 to test, and 500 to test that are longer (19 to 26 words) than any in training (at most 18); no sentence
# is in two of them. If you have real pairs, `utils.data.translation_files` reads them.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
data, english, french = pairs_and_words()
short = [pair for pair in data.train if len(pair.english) < 9]
for pair in [
    next(pair for pair in short if word in pair.english) for word in ("old", "not", "who")
]:
    print(" ".join(pair.english), "|", join(pair.french, "french"))
    print("   ", *(f"{pair.english[i]}-{pair.french[j]}" for i, j in pair.links))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tokens
#
# A *token* is the unit that gets a number. Four numbers are reserved: padding 0, start 1, end 2, unknown 3. The start token asks for
# the first word, the end token says that there is no more. (Some systems start the decoder on the end token; ours has a start token
# of its own.)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
tokens = split("L'homme ne voit pas la zone.", "french")
print(tokens)
print(french.encode(tokens), "(the full stop is not in the corpus: 3, unknown)")
print(french.decode(french.encode(["l'", "homme", "ne", "voit", "pas"])))
print(len(data.train), "pairs;", len(english), "English and", len(french), "French tokens")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Characters, words, subwords
#
# The smaller the unit, the fewer there are and the longer the sentence. Subwords lie between: frequent subword tokens, learned from the text
# (here by byte-pair encoding, [Sennrich et al., 2016](../docs/references.md#sennrich2016), from the library `tokenizers`; lesson 07
# builds it by hand).

# %% slideshow={"slide_type": "-"}
subwords = Tokenizer(models.BPE(unk_token="<unk>"))
subwords.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
text = [" ".join(pair.english) for pair in data.train]
trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>"], show_progress=False)
subwords.train_from_iterator(text, trainer)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
tokenizations = {
    "characters": (sorted(set("".join(text))), list),
    "subwords": (subwords.get_vocab(), lambda line: subwords.encode(line).tokens),
    "words": (english.words, lambda line: english.decode(english.encode(line.split()))),
}
for name, (units, tokenize) in tokenizations.items():
    length = sum(len(tokenize(line)) for line in text[:1000]) / 1000
    print(
        f"{name:10s} {len(units):3d} kinds, {length:4.1f} in a sentence; 'townhouse':",
        tokenize("townhouse"),
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# Long sentences cost time and memory, large vocabularies cost parameters, and whole words have nothing to say about a word they
# never saw. This corpus has few words, so here a token is a word.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Batches
#
# Sentences of different length in one tensor: short ones are padded, and a mask remembers where the words are.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.1 · sentences in one tensor · easy · 6 min
def pad(sentences, pad_id=0):
    """Lists of token ids to token_ids (b, n), padded on the right with `pad_id`, and attention_mask (b, n), True at tokens.

    A token may have the id `pad_id` too: the mask tells them apart.
    """
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
few = [pair.english for pair in data.train if len(pair.english) < 9][:3]
token_ids, attention_mask = pad([english.encode(sentence) for sentence in few])
print(token_ids)
print(attention_mask.int())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Vectors
#
# A number says nothing about meaning. Each word gets a vector, a row of a learned table, `nn.Embedding`. What do such vectors learn? A
# *skip-gram* model predicts the neighbours of each word ([Mikolov et al., 2013](../docs/references.md#mikolov2013)). Words with the same
# neighbours end up close.

# %% slideshow={"slide_type": "-"}
skipgram = train_skipgram()
for word in ("king", "dog", "sings", "european"):
    neighbors = nearest_neighbors(skipgram, word, 4)
    print(f"{word:8s} is near", ", ".join(f"{near} {cosine:.2f}" for near, cosine in neighbors))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
families = {
    "people": ["king", "queen", "man", "woman", "boy", "girl", "father", "mother", "uncle", "aunt"],
    "verbs": ["sings", "sleeps", "works", "falls", "waits", "reads"],
    "adjectives": ["european", "german", "french", "national", "old", "young", "strange"],
    "small words": ["the", "a", "some", "of", "to", "that", "who", "and", "but"],
}
chosen = [word for family in families.values() for word in family]
groups = [name for name, family in families.items() for _ in family]
points = skipgram["embeddings"][[skipgram["words"].index(word) for word in chosen]]
directions = torch.linalg.svd(points - points.mean(0)).Vh[:2]
projected = (points - points.mean(0)) @ directions.T
show(
    pictures.embeddings(chosen, projected, groups, "words with the same neighbors lie together"),
    alt="Word embeddings in the plane: people, adjectives and articles form groups; the verbs reads and waits lie apart "
    "from sings, sleeps and works.",
)

# %% [markdown]
# Each vector has sixteen numbers; the picture shows the two directions in which these words differ most. Nobody told the model what an
# adjective is. It knows company, not grammar: *reads* takes an object and *waits* is always *waits for*, so they keep other company
# than *sings*, and lie elsewhere.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · A cell that reads word by word
#
# A *recurrent* cell has a state $h$, reads one word vector $x_t$ and makes the next state from both:
#
# $$h_t = \tanh(x_t A + h_{t-1} B + c)$$
#
# Vectors are rows, as in all our tensors. The same $A$, $B$, $c$ serve every word, so any length will do.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.2 · one recurrent step · easy · 5 min
def recurrent_step(x, state, A, B, c):
    """x (b, d), hidden state (b, w), A (d, w), B (w, w), c (w,) to the next hidden state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ A + state @ B + c)
    ### END SOLUTION


recurrent_step = exercise("3.2").use(recurrent_step)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.3 · read a sentence · easy · 6 min
def unroll(x, state, step):
    """x (b, n, d), initial state (b, w), step(x_t (b, d), state (b, w)) -> state (b, w).

    Returns all hidden states (b, n, w), one after each token, and the final state (b, w).
    """
    ### BEGIN SOLUTION
    states = []
    for x_t in x.unbind(1):
        state = step(x_t, state)
        states.append(state)
    return torch.stack(states, 1), state
    ### END SOLUTION


unroll = exercise("3.3").use(unroll)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
layer = nn.RNN(6, 4, batch_first=True)
A, B = layer.weight_ih_l0.T, layer.weight_hh_l0.T
c = layer.bias_ih_l0 + layer.bias_hh_l0
x = torch.randn(2, 5, 6)

states, final = unroll(x, torch.zeros(2, 4), lambda x_t, state: recurrent_step(x_t, state, A, B, c))
print("equal to torch's nn.RNN with its weights:", torch.allclose(states, layer(x)[0], atol=1e-6))
print("the final state is the last of all states:", torch.equal(states[:, -1], final))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far back does it reach?
#
# Measure it: take the last state, and use the gradient to ask how much it depends on each earlier word. A plain cell multiplies by $B$ at
# every step, and what is multiplied again and again vanishes (or explodes). A GRU (*gated recurrent unit*,
# [Cho et al., 2014](../docs/references.md#cho2014)) and an LSTM (*long short-term memory*,
# [Hochreiter and Schmidhuber, 1997](../docs/references.md#hochreiter1997)) have *gates*: numbers between 0 and 1 that decide how much of
# the old state stays. The state of an LSTM is two vectors: one that others see, and a *store* that is only scaled and added to. "LSTM,
# forget bias 2" starts with its forget gate nearly open: 2 is added to the gate's bias.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
curves = {
    "Elman RNN": measure.reach("rnn"),
    "GRU": measure.reach("gru"),
    "LSTM": measure.reach("lstm"),
    "LSTM, forget bias 2": measure.reach("lstm", forget_bias=2.0),
}
show(
    pictures.influence(curves, "gates decide how far back gradients reach"),
    alt="Influence of a token on the final state against its distance, on a logarithmic scale: gradients of the Elman RNN "
    "vanish fastest, gates help, and an LSTM with a forget bias of 2 reaches far.",
)
# %% slideshow={"slide_type": "subslide"}
for name, values in curves.items():
    print(f"{name:30s} influence of the token 20 positions back: {values[20]:.0e} of the last one")

# %% [markdown] slideshow={"slide_type": "fragment"}
# None of these cells was trained; a trained one keeps what pays. But the tendency is there from the start: near words count more. That
# *locality* is useful, since most of what matters to a word stands near it. For words far away it is a handicap.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Encoder, bridge, decoder
#
# An *encoder* reads the English sentence. Its last state is the bridge. Everything the decoder learns about the sentence must pass through
# it, and it has the same size for every sentence: the *bottleneck*. A *decoder* starts from the bridge, reads the start token, says the
# most likely French word, reads that word, says the next, until it says the end token
# ([Sutskever et al., 2014](../docs/references.md#sutskever2014); [Cho et al., 2014](../docs/references.md#cho2014)).
#
# A *bidirectional* encoder ([Schuster and Paliwal, 1997](../docs/references.md#schuster1997)) is two: one reads forwards, one backwards,
# and their states are put side by side. Its last state is what each half has at the end of *its* reading: after the last word, and after
# the first.

# %% slideshow={"slide_type": "subslide"}
quiz("3.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# 20,000 pairs, one LSTM layer on each side, teacher forcing ([Williams and Zipser, 1989](../docs/references.md#williams1989)): in
# training the decoder reads the right words, whatever it would have said itself. It starts in the encoder's last state, and gets that
# state once more, side by side with its own, for every word it says. Scored on 500 new sentences; a translation counts only if every word
# is right.

# %% slideshow={"slide_type": "-"}
no_attention = train_translation(None, **LESSON)
shortest = no_attention["quarters"][0]
print(f"the shortest quarter, {shortest['shortest']} to {shortest['longest']} words:", end=" ")
print(f"exact match {100 * shortest['exact']:.0f} %")

# %% slideshow={"slide_type": "subslide"}
quiz("3.c")

# %% tags=["checks"]
assert shortest["exact"] > 0.8

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 5 · What is wrong with it, measured
#
# **One: everything must fit through the bridge.** Short sentences do. The share of right translations against the length of the
# English sentence:


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def curve(result):
    rows = [row for row in result["by_length"] if row["count"] >= 10]
    return [row["length"] for row in rows], [100 * row["exact"] for row in rows]


show(
    pictures.by_length(
        {"no attention": curve(no_attention)}, "what does not fit into the context vector is lost"
    ),
    alt="Exact match against source length: high for short sentences, near zero for long ones.",
)

# %% [markdown]
# Part of this is our short training: the model in section 9 is wider and trained longer, and gets further. But it falls in the same way.

# %% [markdown] slideshow={"slide_type": "subslide"}
# What do the wrong ones look like? They begin well and sound like French, but say something else. Words are exchanged for others of their
# kind, part of a sentence is made up, and sometimes an adjective no longer agrees with its noun.

# %% slideshow={"slide_type": "-"}
bottleneck = restore(no_attention)
long_pairs = [pair for pair in data.test if len(pair.english) == 12][:3]
translations = bottleneck.translate([pair.english for pair in long_pairs])
for pair, translation in zip(long_pairs, translations, strict=True):
    print("source     ", " ".join(pair.english))
    print("reference  ", join(pair.french, "french"))
    print("translation", join(translation, "french"), end="\n\n")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Two: the last word counts most.** Section 3 asked fresh cells; now ask the trained one, its forward half only (the backward half reads
# from the other end). How much does its state after sixteen words depend on each of them?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
sixteen = [pair.english for pair in data.train if len(pair.english) == 16][:64]
encoder, half = bottleneck.model.encoder, LESSON["hidden_size"] // 2
embeddings = encoder.embedding(torch.tensor([english.encode(sentence) for sentence in sixteen]))
learned = measure.influence(lambda x: (encoder.rnn(x)[0][..., :half], None), embeddings)
untrained = measure.influence(
    measure.recurrent_layer("lstm", LESSON["hidden_size"], half), embeddings
)
show(
    pictures.influence(
        {"trained": learned / learned[0], "untrained": untrained / untrained[0]},
        "training extends the reach; the last token still has most influence",
    ),
    alt="Influence of a token on the final state against its distance, for the trained encoder and for an untrained one: "
    "the trained one reaches far more, and the last token has most influence.",
)
relative = 100 * learned[1:15] / learned[0]
print(
    f"1 to 14 positions back: {relative.min():.0f} to {relative.max():.0f} % of the influence of the last token"
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# Training taught it to keep: the curve is almost flat. Yet every word before the last has a fraction of its influence. (The dip at the end
# is partly the word itself: these sentences begin with an article.)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Three: nothing can run in parallel.** Each state needs the one before.

# %% slideshow={"slide_type": "subslide"}
quiz("3.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# On one core everything takes longer when there is more of it, so both lines rise alike (both axes are logarithmic: slope 1 means twice the
# words, twice the time). What differs is the longest chain of steps that must wait for each other: a recurrent layer has as many as there
# are words, a convolution has one. More cores shorten the second line, not the first.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
lengths = (32, 64, 128, 256, 512, 1024)
layers = {
    "LSTM, sequential": measure.recurrent_layer("lstm", 64, 64),
    "convolution, parallel": measure.Convolutions(1, 64),
}
times = measure.seconds_by_length(layers, lengths)
show(
    pictures.times(lengths, times, "on one core both grow with the length", fit_from=128),
    alt="Milliseconds of one layer against the length of the sentence, for an LSTM and for a convolution.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Could convolutions do it?** A convolution makes each output from a small window of the input, here three words (*kernel* 3), with the
# same weights everywhere. All windows can be computed at once, but each sees only itself. A stack sees more: every layer adds one word
# on each side. So it takes nine layers until some output sees two words that stand 18 places apart. *Dilation* leaves gaps in the window,
# 1, 2, 4, … places wide, and the view doubles with each layer. Counted by gradient:

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
for num_layers in (1, 2, 4, 8):
    dilations = [2**layer for layer in range(num_layers)]
    field = measure.receptive_field(num_layers)
    dilated = measure.receptive_field(num_layers, dilations=dilations, length=1025)
    print(f"layers: {num_layers}   receptive field: {field:2d}, with dilation {dilated:3d}")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.receptive_field(4, 3),
    alt="The cone of nine inputs that one output of four convolutions with kernel 3 depends on.",
)

# %% tags=["checks"]
assert no_attention["quarters"][3]["exact"] < 0.4

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · Attention for translation
#
# The encoder made a state for *every* word, and only the last was used. Keep them all as a memory. Before it says a word, the decoder
# looks at all of them ([Bahdanau et al., 2015](../docs/references.md#bahdanau2015);
# [Luong et al., 2015](../docs/references.md#luong2015)):
#
# 1. the decoder reads the word before (at first the start token), and its cell makes the new state $s$;
# 2. a *score* compares $s$ with each memory $h_j$;
# 3. softmax turns the scores into weights;
# 4. the *context* is the weighted sum of the memories;
# 5. state and context are put side by side; a layer and a tanh mix them (`combine`), and a second layer gives a logit for each French
#    word (`output`);
# 6. say a word; with it, begin again at 1.
#
# Steps 3 and 4 are lesson 01's `attend`. Step 2 is a choice.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three scores
#
# | name | score of $s$ and $h$ | to learn |
# |---|---|---|
# | dot | $s \cdot h$ | nothing |
# | multiplicative (Luong's *general*) | $s W h^\top$ | $W$ |
# | additive | $\tanh(s A + h B) \cdot v$ | $A$, $B$, $v$ |
#
# $s$ and $h$ are rows; $A$ and $B$ are other matrices than in section 3. All three are called alike: states $(b, m, d)$ and memories
# $(b, n, e)$ in, scores $(b, m, n)$ out.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.4 · the dot score · easy · 4 min
def dot_score(state, memory):
    """state (b, m, d), memory (b, n, d) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return state @ memory.transpose(1, 2)
    ### END SOLUTION


dot_score = exercise("3.4").use(dot_score)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.5 · the multiplicative score · medium · 6 min
def multiplicative_score(state, memory, W):
    """state (b, m, d), memory (b, n, e), W (d, e) to scores (b, m, n)."""
    ### BEGIN SOLUTION
    return dot_score(state @ W, memory)
    ### END SOLUTION


multiplicative_score = exercise("3.5").use(multiplicative_score)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.6 · the additive score · medium · 10 min
def additive_score(state, memory, A, B, v):
    """tanh(state A + memory B) · v, with A (d, k), B (e, k), v (k,).

    state (b, m, d), memory (b, n, e) to scores (b, m, n).
    """
    ### BEGIN SOLUTION
    pairs = (state @ A).unsqueeze(2) + (memory @ B).unsqueeze(1)  # (b, m, n, k)
    return torch.tanh(pairs) @ v
    ### END SOLUTION


additive_score = exercise("3.6").use(additive_score)

# %% slideshow={"slide_type": "subslide"}
quiz("3.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder
#
# One step, in the order of the list above. The context goes into the output and not into the next state
# ([Luong et al., 2015](../docs/references.md#luong2015)). That keeps training fast: with the right words given, all states come from one
# call.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.7 · a step of the decoder · hard · 20 min
class AttentionDecoder(nn.Module):
    def __init__(self, vocab_size, hidden_size, score):
        super().__init__()
        self.score = score
        self.embedding = nn.Embedding(vocab_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.combine = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def step(self, token_ids, state, memory, source_mask):
        """One step: token_ids (b,), state (b, hidden_size), memory (b, n, hidden_size), source_mask (b, n).

        Returns logits (b, vocab_size), the new state (b, hidden_size) and attention weights (b, n).
        Where a row of the mask is all False, the weights and the context are zeros.
        """
        ### BEGIN SOLUTION
        state = self.cell(self.embedding(token_ids), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, source_mask.unsqueeze(1))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 hidden_size)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)
        ### END SOLUTION


AttentionDecoder = exercise("3.7").use(AttentionDecoder)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Say it word by word
#
# *Greedy decoding*: take the likeliest word, feed it back, and stop when every sentence has said the end token, or at the limit. Sentences of a batch end at
# different times: the end token is part of the result, behind it stands padding, 0. The start token is not part of it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.8 · greedy decoding · medium · 12 min
def greedy_decode(step, state, bos_id, eos_id, max_len):
    """step(token_ids (b,), state (b, w)) -> logits (b, vocab_size), state. Returns the most probable tokens (b, m).

    `bos_id`, `eos_id` and `max_len` are ints. Only `eos_id` ends a sentence; a 0 before it is an ordinary token.
    Stops when every sentence has generated `eos_id`, or at `max_len` tokens. After `eos_id` comes 0.
    """
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Train with attention
#
# The same encoder, the same decoder, the same pairs in the same order, the same number of steps. Only the context differs: before, it was
# always the last state; now it is a weighted sum over all words, new at every step.

# %% slideshow={"slide_type": "-"}
scores = ("dot", "multiplicative", "additive")
results = {"none": no_attention} | {score: train_translation(score, **LESSON) for score in scores}
for score, result in results.items():
    print(
        f"{score:15s} exact match: {100 * result['exact']:3.0f} %   BLEU {result['bleu']:5.1f}   {result['parameters']:,} parameters"
    )

# %% [markdown] slideshow={"slide_type": "fragment"}
# *BLEU* ([Papineni et al., 2002](../docs/references.md#papineni2002)) counts how many runs of one to four words agree with the right
# translation, from 0 to 100. It forgives a wrong word; exact match does not. One seed each: the order of the three scores may be chance;
# section 9 has three seeds.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.by_length(
        {score.replace("none", "no attention"): curve(result) for score, result in results.items()},
        "attention keeps long sentences where a single context vector fails",
    ),
    alt="Exact match against source length: models with attention stay high, the one without falls to zero.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your decoder, these numbers
#
# Put the trained numbers into your own `AttentionDecoder`, with your own `multiplicative_score`, and translate the first 200 test sentences
# with your own `greedy_decode`. Your decoder has a GRU cell, the trained one an LSTM: the class `Cell` hides the LSTM's cell state, so that
# your `step` need not change.


# %% slideshow={"slide_type": "-"}
class Cell(nn.LSTMCell):
    """An LSTM cell that stores its cell state itself, so that it is called like a GRU cell."""

    def forward(self, x, state):
        state, self.cell_state = super().forward(x, (state, self.cell_state))
        return state


trained = restore(results["multiplicative"])
weights = trained.model.decoder.state_dict()
W = weights.pop("score.proj.weight").T
decoder = AttentionDecoder(
    len(french), LESSON["hidden_size"], lambda s, h: multiplicative_score(s, h, W)
)
decoder.cell = Cell(LESSON["hidden_size"], LESSON["hidden_size"])
renamed = {
    name.replace("rnn", "cell").removesuffix("_l0"): value for name, value in weights.items()
}
print(decoder.load_state_dict(renamed))

# %% slideshow={"slide_type": "subslide"}
pairs = data.test[:200]
batch = collate(pairs, english, french)


def decoder_step(token_ids, state):
    logits, state, _ = decoder.step(token_ids, state, memory, batch.source_mask)
    return logits, state


with torch.no_grad():
    memory, ((state,), (decoder.cell.cell_state,)) = trained.model.encode(
        batch.source, batch.source_mask
    )
    generated = greedy_decode(decoder_step, state, BOS_ID, EOS_ID, max_len=40)
correct = [
    tuple(french.decode(row)) == pair.french for row, pair in zip(generated, pairs, strict=True)
]
print(f"exact match of your decoder on 200 sentences: {100 * sum(correct) / len(correct):.0f} %")

# %% tags=["checks"]
assert max(results[score]["exact"] for score in scores) >= 0.9
assert sum(correct) / len(correct) > 0.85

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8 · Soft alignment
#
# At which English word did it look for each French one? Guess before you see it.

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
        title="zone attends to area, the adjectives attend back",
    ),
    alt="Attention matrix of the translation of the european economic area is not dangerous: zone attends to area, the "
    "adjectives after it attend to earlier words.",
)
print(join(translation, "french"))

# %% [markdown]
# Nobody told it which words belong together, and most of them it found. But look closely, in our run at *européenne*: its weight lies on
# *economic*. A memory is not a word, it is the encoder's state *at* a word, and that state has read the neighbours too. What is needed for
# *européenne* can be fetched next door.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Score it
#
# The corpus knows the right links, called *gold* links, $S$. Take for each French word the English word of largest weight: that gives links $A$. The
# *alignment error rate* compares the two ([Och and Ney, 2003](../docs/references.md#och2003), who also allow links that are only possible; ours are
# all sure). For many pairs the links of all of them are counted first. The decoder is given the right translation, so that all models name the same
# words.
#
# $$\text{AER} = 1 - \frac{2\,|A \cap S|}{|A| + |S|}$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.9 · the alignment error · medium · 10 min
def alignment_error(weights, links):
    """1 - 2 |A ∩ S| / (|A| + |S|): weights (m, n), a row for each target token, without end tokens.

    S is `links`, a set of (source position, target position); A links each target token to its largest weight.
    """
    ### BEGIN SOLUTION
    predicted = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(predicted & links) / (len(predicted) + len(links))
    ### END SOLUTION


alignment_error = exercise("3.9").use(alignment_error)

# %% slideshow={"slide_type": "subslide"}
pairs = data.test
weights = dot_model.weights(pairs)  # teacher forcing, so all models predict the same tokens
pair = pairs[3]
print(" ".join(pair.english))
print(join(pair.french, "french"))
print("alignment error of this pair:", end=" ")
print(
    f"{alignment_error(weights[3][: len(pair.french), : len(pair.english)], set(pair.links)):.2f}"
)
for score in scores:
    print(f"{score:15s} alignment error {100 * results[score]['alignment_error']:4.1f} %")
print(f"{'floor':15s}                 {100 * results['dot']['alignment_floor']:4.1f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The floor is not zero: *des* stands for *of the*, *attend* for *waits for*: two links, and one link per word can win only one of them.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
negated = next(pair for pair in pairs if "not" in pair.english and len(pair.english) < 12)
(weights,) = dot_model.weights([negated])
show(
    pictures.alignment(
        [*negated.english, "<eos>"],
        [*negated.french, "<eos>"],
        weights,
        negated.links,
        "most weights fall on the gold links, not all",
    ),
    alt="Attention matrix of a negated sentence with its gold links as boxes.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# English says *not* once, French says *ne* and *pas*. In our run *ne* looks at *does*, and above it looked at *is*: at the verb that it
# stands before. That need not be wrong. *does* never comes without *not* in this corpus, and the state at *is* has read the *not* behind
# it, in the backward half. An alignment error counts against somebody's idea of what belongs together.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9 · The comparison
#
# One table for all models of the course: same pairs, same number of steps. It grows in lesson 06. Three seeds each, stored: width 128
# instead of 96, and about twice as many sentences read as here. Numbers are medians; in brackets the smallest and the largest of the
# seeds. The encoder of the first row only reads forwards. It has more parameters, because two directions of half the width cost less than
# one of full width.

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "-"}
comparison = stored("ladder")
comparison.table(
    (
        "model",
        "exact match, %",
        "BLEU",
        f"alignment error, % (floor {comparison.result[0]['alignment_floor']})",
        "parameters",
        "seconds",
    ),
    [
        (
            row["name"],
            *(ranged(row[measure]) for measure in ("exact", "bleu", "alignment_error")),
            *(ranged(row[measure], 0) for measure in ("parameters", "seconds")),
        )
        for row in comparison.result
    ],
)

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "subslide"}
quarters = [part["words"] for part in comparison.result[0]["quarters"]]
comparison.table(
    ("exact match, %, by English words", *quarters, "longer: 19 to 26"),
    [
        (row["name"], *(part["exact"] for part in row["quarters"]), ranged(row["longer"]["exact"]))
        for row in comparison.result
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Quarters have equal size, so a length can be in two of them. In the last column nothing is right without attention, and about half with it:
# attention helps most here and does not solve it. And the best translator is not the best aligner, nor the best on long sentences: to
# say the right word it is enough to look where the information is.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10 · Watch it translate
#
# One sentence, word by word. The bars show where it looks before it says the next word; below are the three likeliest words with their
# probabilities.

# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
trained_models = {score: restore(result) for score, result in results.items()}
source = read_sentence(
    "the european economic area of the important country is not dangerous", english
)
steps = step_by_step(trained_models["dot"], source)


def frame(number, steps=steps, source=source):
    generated = [step.token for step in steps[:number]]
    step = steps[number]
    return pictures.decoding_step(
        [*source, "<eos>"],
        step.weights,
        generated,
        step.candidates,
        f"token {number + 1}: {step.token}",
    )


# %% slideshow={"slide_type": "-"}
stepper(
    frame,
    len(steps),
    alt="One decoding step: attention weights over the English tokens, the French so far, the most probable next tokens.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your score
#
# Type a sentence of the corpus's words, pick a score, and move through the words. *none* is the model without attention: it has nothing
# to show, and with long sentences you will see it drift.


# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
def own_sentence(sentence, score, word, models=trained_models):
    try:
        tokens = read_sentence(sentence, models[score].english)
    except ValueError as problem:
        return pictures.message(str(problem))
    steps = step_by_step(models[score], tokens)
    number = min(word, len(steps)) - 1
    generated = [step.token for step in steps]
    translation = join([token for token in generated if token != "<eos>"], "french")
    step = steps[number]
    return pictures.decoding_step(
        [*tokens, "<eos>"], step.weights, generated[:number], step.candidates, translation
    )


# %% slideshow={"slide_type": "-"}
explore(
    own_sentence,
    alt="One step of the translation of your sentence with the chosen score.",
    sentence="the old king who sees the black dogs does not sleep",
    score=["dot", "multiplicative", "additive", "none"],
    word=(1, 30, 1, 1),
)


# %% tags=["hide-input"] slideshow={"slide_type": "skip"}
def own_alignment(sentence, score, models=trained_models):
    try:
        tokens = read_sentence(sentence, models[score].english)
    except ValueError as problem:
        return pictures.message(str(problem))
    ((translation, weights),) = models[score].translate_with_weights([tokens])
    return pictures.alignment(
        [*tokens, "<eos>"], [*translation, "<eos>"][: len(weights)], weights, title=f"{score} score"
    )


# %% slideshow={"slide_type": "subslide"}
explore(
    own_alignment,
    alt="The attention matrix of your sentence with the chosen score.",
    sentence="the happy german women and the strange men are not in the green garden",
    score=["dot", "multiplicative", "additive"],
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Let the room find a sentence that one score gets right and another wrong. Then a very long one: where does the alignment break?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to remember
#
# - Text becomes tokens, tokens numbers, numbers vectors; the smaller the token, the longer the sentence.
# - A recurrent state carries everything forward, step by step. Untrained, far words fade fast; training mends much of it, but the steps
#   cannot run in parallel.
# - Through a bridge of fixed size short sentences pass and long ones do not.
# - With attention the decoder attends to all encoder states again for every token. The memory grows with the sentence.
# - A score compares state and memory: dot, multiplicative, additive. `attend` does the rest.
# - The weights align words without having been told how, and a corpus with gold links can say how well.
#
# **What is left open.** Attention repaired the bridge, but the encoder and the decoder still read word by word. If every word can look at
# every other, what is the recurrent net still for? Lesson 04 leaves it out.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: which part of this model is still slow on a machine with a thousand cores? The room will say it: the part that is not attention.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - S. Hochreiter, J. Schmidhuber, [*Long short-term memory*](../docs/references.md#hochreiter1997), 1997.
# - F. J. Och, H. Ney, [*A systematic comparison of various statistical alignment models*](../docs/references.md#och2003), 2003: the
#   alignment error rate.
# - K. Papineni et al., [*BLEU*](../docs/references.md#papineni2002), 2002; M. Post,
#   [*A call for clarity in reporting BLEU scores*](../docs/references.md#post2018), 2018: sacrebleu.
# - T. Mikolov et al., [*Efficient estimation of word representations in vector space*](../docs/references.md#mikolov2013), 2013:
#   skip-gram.
# - K. Cho et al., [*Learning phrase representations using RNN encoder-decoder*](../docs/references.md#cho2014), 2014: encoder-decoder and
#   the GRU.
# - I. Sutskever, O. Vinyals, Q. V. Le, [*Sequence to sequence learning with neural networks*](../docs/references.md#sutskever2014), 2014.
# - D. Bahdanau, K. Cho, Y. Bengio,
#   [*Neural machine translation by jointly learning to align and translate*](../docs/references.md#bahdanau2015), 2015: the additive
#   score, and the phrase *the european economic area*.
# - M.-T. Luong, H. Pham, C. D. Manning,
#   [*Effective approaches to attention-based neural machine translation*](../docs/references.md#luong2015), 2015: dot and general score.
