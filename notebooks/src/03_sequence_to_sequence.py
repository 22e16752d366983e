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
# *the european economic area* is *la zone économique européenne* in French: as many words, in another order, and two of them
# must agree with a third. This lesson translates, first through a bottleneck, then with attention.

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
# - decode greedily, and score translations and alignments;
# - read a ladder of models: same pairs, same budget, several seeds.
#
# **You need** lesson 01: `attend`, masks. Symbols and terms: [notation](../docs/notation.md).

# %% tags=["nbval-check-output"]
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn

from utils.course import board, exercise, lesson, quiz
from utils.course.results import stored
from utils.data.tokens import END, START, as_batch, join, split
from utils.draw import explore, show, stepper
from utils.draw import lesson03 as pictures
from utils.models import attend
from utils.training import reach as measure
from utils.training.own_sentence import read_sentence, step_by_step
from utils.training.skipgram import neighbours, train_skipgram
from utils.training.translation import LESSON, pairs_and_words, restore, train_translation

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
# The course has a corpus of its own: English and French from a grammar, with one right translation for every sentence. Each pair also
# knows which French word stands for which English one.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
data, english, french = pairs_and_words()
for pair in [pair for pair in data.train if len(pair.english) < 9][:3]:
    print(" ".join(pair.english), "|", join(pair.french, "french"))
    print("   ", *(f"{pair.english[i]}-{pair.french[j]}" for i, j in pair.links))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Tokens
#
# A *token* is the unit that gets a number. Four numbers are reserved: padding 0, start 1, end 2, unknown 3. The start token asks for
# the first word, the end token says that there is no more.

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
tokens = split("L'homme ne voit pas la zone.", "french")
print(tokens)
print(french.numbers(tokens), "(the full stop is not in the corpus: 3, unknown)")
print(french.tokens(french.numbers(["l'", "homme", "ne", "voit", "pas"])))
print(len(data.train), "pairs;", len(english), "English and", len(french), "French tokens")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Characters, words, subwords
#
# The smaller the unit, the fewer there are and the longer the sentence. Subwords lie between: frequent pieces, learned from the
# text (here by byte-pair encoding from the library `tokenizers`; lesson 07 builds it by hand).

# %% slideshow={"slide_type": "-"}
subwords = Tokenizer(models.BPE(unk_token="<unknown>"))
subwords.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
text = [" ".join(pair.english) for pair in data.train]
trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<unknown>"], show_progress=False)
subwords.train_from_iterator(text, trainer)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
ways = {
    "characters": (sorted(set("".join(text))), list),
    "subwords": (subwords.get_vocab(), lambda line: subwords.encode(line).tokens),
    "words": (english.words, lambda line: english.tokens(english.numbers(line.split()))),
}
for name, (units, cut) in ways.items():
    length = sum(len(cut(line)) for line in text[:1000]) / 1000
    print(
        f"{name:10s} {len(units):3d} kinds, {length:4.1f} in a sentence; 'townhouse':",
        cut("townhouse"),
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
def pad(sentences, padding=0):
    """Lists of word numbers to numbers (b, n), `padding` behind the shorter ones, and a mask (b, n), True at the words."""
    ### BEGIN SOLUTION
    longest = max(len(sentence) for sentence in sentences)
    numbers = torch.tensor(
        [sentence + [padding] * (longest - len(sentence)) for sentence in sentences]
    )
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return numbers, torch.arange(longest) < lengths.unsqueeze(1)
    ### END SOLUTION


pad = exercise("3.1").use(pad)

# %% tags=["nbval-check-output"]
few = [pair.english for pair in data.train if len(pair.english) < 9][:3]
numbers, mask = pad([english.numbers(sentence) for sentence in few])
print(numbers)
print(mask.int())

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Vectors
#
# A number says nothing about meaning. Each word gets a vector, a row of a learned table, `nn.Embedding`. What do such vectors learn? A
# *skip-gram* model predicts the neighbours of each word (Mikolov et al., 2013). Words with the same neighbours end up close.

# %% slideshow={"slide_type": "-"}
vectors = train_skipgram()
for word in ("king", "dog", "sings", "european"):
    near = neighbours(vectors, word, 4)
    print(f"{word:8s} is near", ", ".join(f"{other} {cosine:.2f}" for other, cosine in near))

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
families = {
    "people": ["king", "queen", "man", "woman", "boy", "girl", "father", "mother", "uncle", "aunt"],
    "verbs": ["sings", "sleeps", "works", "falls", "waits", "reads"],
    "adjectives": ["european", "german", "french", "national", "old", "young", "strange"],
    "small words": ["the", "a", "some", "of", "to", "that", "who", "and", "but"],
}
chosen = [word for family in families.values() for word in family]
groups = [name for name, family in families.items() for _ in family]
points = vectors["vectors"][[vectors["words"].index(word) for word in chosen]]
directions = torch.linalg.svd(points - points.mean(0)).Vh[:2]
flat = (points - points.mean(0)) @ directions.T
show(
    pictures.neighbours(chosen, flat, groups, "words with the same neighbours lie together"),
    alt="Word vectors in the plane: people, verbs, adjectives and small words form groups.",
)

# %% [markdown]
# The picture shows two directions of sixteen, those in which these words differ most. Nobody told the model what a verb is.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 3 · A cell that reads word by word
#
# A *recurrent* cell has a state $h$, reads one word vector $x_t$ and makes the next state of both:
#
# $$h_t = \tanh(x_t A + h_{t-1} B + c)$$
#
# Vectors are rows, as in all our tensors. The same $A$, $B$, $c$ serve every word, so any length will do.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.2 · one recurrent step · easy · 5 min
def recurrent_step(x, state, A, B, c):
    """x (b, d), state (b, w), A (d, w), B (w, w), c (w,) to the next state (b, w)."""
    ### BEGIN SOLUTION
    return torch.tanh(x @ A + state @ B + c)
    ### END SOLUTION


recurrent_step = exercise("3.2").use(recurrent_step)


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.3 · read a sentence · easy · 6 min
def read_words(x, state, step):
    """x (b, n, d), first state (b, w), step(x_t, state) -> state.

    Returns the states after each word (b, n, w), and the last of them (b, w).
    """
    ### BEGIN SOLUTION
    states = []
    for word in x.unbind(1):
        state = step(word, state)
        states.append(state)
    return torch.stack(states, 1), state
    ### END SOLUTION


read_words = exercise("3.3").use(read_words)

# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
layer = nn.RNN(6, 4, batch_first=True)
A, B = layer.weight_ih_l0.T, layer.weight_hh_l0.T
c = layer.bias_ih_l0 + layer.bias_hh_l0
x = torch.randn(2, 5, 6)

states, last = read_words(
    x, torch.zeros(2, 4), lambda x_t, state: recurrent_step(x_t, state, A, B, c)
)
print("equal to torch's nn.RNN with its weights:", torch.allclose(states, layer(x)[0], atol=1e-6))
print("the last state is the last of all states:", torch.equal(states[:, -1], last))

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### How far back does it reach?
#
# Measure it: take the last state, and ask by gradient how much it depends on each word before. A plain cell multiplies by $B$ at every
# step, and what is multiplied again and again vanishes (or explodes). A GRU (Cho et al., 2014) and an LSTM (Hochreiter and
# Schmidhuber, 1997) have *gates*: numbers between 0 and 1 that decide how much of the old state stays.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
curves = {
    "plain cell": measure.reach("tanh"),
    "GRU": measure.reach("gru"),
    "LSTM": measure.reach("lstm"),
    "LSTM, keeping": measure.reach("lstm", keep=2.0),
}
show(
    pictures.influence(curves, "gates decide how far a cell looks back"),
    alt="Influence of a word on the last state against its distance, on a logarithmic scale: the plain cell forgets "
    "fastest, gates help, and an LSTM that starts out keeping reaches far.",
)
# %% slideshow={"slide_type": "subslide"}
for name, values in curves.items():
    print(f"{name:30s} influence of the word 20 places back: {values[20]:.0e} of the last one")

# %% [markdown] slideshow={"slide_type": "fragment"}
# None of these cells was trained; a trained one keeps what pays. But the habit is there from the start: near words count more. That
# *locality* is useful, since most of what matters to a word stands near it. For what stands far away it is a burden.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 4 · Encoder, bridge, decoder
#
# An *encoder* reads the English sentence. Its last state is the bridge. A *decoder* starts from the bridge, reads the start
# token, says the most likely French word, reads that word, says the next, until it says the end token (Sutskever et al., 2014; Cho
# et al., 2014). A *bidirectional* encoder is two: one reads forwards, one backwards, and their states are put side by side.

# %% slideshow={"slide_type": "subslide"}
quiz("3.a")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Train it
#
# 20,000 pairs, one LSTM layer on each side, teacher forcing: in training the decoder reads the right words, whatever it
# would have said itself. The bridge is its first state, and it finds it again beside every state when it names a word. Scored on
# 500 new sentences; a translation counts only if every word is right.

# %% slideshow={"slide_type": "-"}
no_attention = train_translation("none", **LESSON)
shortest = no_attention["quarters"][0]
print(f"the shortest quarter, {shortest['shortest']} to {shortest['longest']} words:", end=" ")
print(f"{100 * shortest['exact']:.0f} % right, word for word")
assert shortest["exact"] > 0.8

# %% slideshow={"slide_type": "subslide"}
quiz("3.c")

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
        {"no attention": curve(no_attention)}, "what does not fit through the bridge is lost"
    ),
    alt="Share of right translations against source length: high for short sentences, near zero for long ones.",
)
assert no_attention["quarters"][3]["exact"] < 0.4

# %% [markdown] slideshow={"slide_type": "subslide"}
# What do the wrong ones look like? Mostly good French, but not what was said: words are exchanged for others of their kind.

# %% slideshow={"slide_type": "-"}
bridge = restore(no_attention)
long_ones = [pair for pair in data.test if len(pair.english) == 12][:3]
for pair, said in zip(
    long_ones, bridge.translate([pair.english for pair in long_ones]), strict=True
):
    print("english ", " ".join(pair.english))
    print("right   ", join(pair.french, "french"))
    print("said    ", join(said, "french"), end="\n\n")

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Two: far words fade.** Section 3 asked fresh cells; now ask the trained one. How much does the state at the end of a sentence of
# sixteen words depend on each word, as its forward half reads them?

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
sixteen = [pair.english for pair in data.train if len(pair.english) == 16][:64]
encoder, half = bridge.model.encoder, LESSON["width"] // 2
read = encoder.embed(torch.tensor([english.numbers(sentence) for sentence in sixteen]))
learned = measure.influence(lambda x: (encoder.layer(x)[0][..., :half], None), read)
fresh = measure.influence(measure.recurrent_layer("lstm", LESSON["width"], half), read)
show(
    pictures.influence(
        {"trained": learned / learned[0], "before training": fresh / fresh[0]},
        "training learned to keep, and still far words fade",
    ),
    alt="Influence of a word on the last state against its distance, before and after training: the trained "
    "encoder keeps far more, and the first word still counts least.",
)
print(
    f"the first of sixteen words has {100 * learned[-1] / learned[0]:.0f} % of the influence of the last"
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Three: nothing can run in parallel.** Each state needs the one before.

# %% slideshow={"slide_type": "subslide"}
quiz("3.b")

# %% [markdown] slideshow={"slide_type": "subslide"}
# On one core everything takes longer when there is more of it. What differs is the longest chain of steps that must wait for each
# other: a recurrent layer has as many as there are words, a convolution has one.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
lengths = (32, 64, 128, 256, 512, 1024)
layers = {
    "LSTM, step after step": measure.recurrent_layer("lstm", 64, 64),
    "convolution, all at once": measure.Convolutions(1, 64),
}
times = measure.seconds_by_length(layers, lengths)
show(
    pictures.times(lengths, times, "a recurrent layer waits for itself", fit_from=128),
    alt="Milliseconds of one layer against the length of the sentence, for an LSTM and for a convolution.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# **Could convolutions do it?** They run in parallel, but each sees a window. A stack of them sees more: with kernel 3 every layer adds
# one word on each side. To connect two words that stand 18 places apart takes nine layers. Counted by gradient:

# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
for layers in (1, 2, 4, 8):
    wide = measure.receptive_field(
        layers, dilations=[2**layer for layer in range(layers)], length=1025
    )
    print(
        f"{layers} layers see {measure.receptive_field(layers):2d} words, with dilation {wide:3d}"
    )

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.receptive_field(4, 3),
    alt="The cone of nine inputs that one output of four convolutions with kernel 3 depends on.",
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 6 · Attention for translation
#
# The encoder made a state for *every* word, and all but the last were thrown away. Keep them as a memory. Before it says a word, the
# decoder looks at all of them (Bahdanau et al., 2015; Luong et al., 2015):
#
# 1. the decoder has a state $s$;
# 2. a *score* compares $s$ with each memory $h_j$;
# 3. softmax makes weights of the scores;
# 4. the *context* is the weighted sum of the memories;
# 5. state and context are put side by side, and one layer makes the output of them;
# 6. say a word, read it, repeat.
#
# Steps 3 and 4 are lesson 01's `attend`. Step 2 is a choice.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Three scores
#
# | name | score of $s$ and $h$ | to learn |
# |---|---|---|
# | dot | $s \cdot h$ | nothing |
# | multiplicative | $s W h^\top$ | $W$ |
# | additive | $\tanh(s A + h B) \cdot v$ | $A$, $B$, $v$ |


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
    """v · tanh(state A + memory B): state (b, m, d), memory (b, n, e), A (d, h), B (e, h), v (h,) to (b, m, n)."""
    ### BEGIN SOLUTION
    pairs = (state @ A).unsqueeze(2) + (memory @ B).unsqueeze(1)  # (b, m, n, h)
    return torch.tanh(pairs) @ v
    ### END SOLUTION


additive_score = exercise("3.6").use(additive_score)

# %% slideshow={"slide_type": "subslide"}
quiz("3.d")

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### The decoder
#
# One step, in the order of the list above. The context goes into the output and not into the next state (Luong et al., 2015). That
# keeps training fast: with the right words given, all states come from one call.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "subslide"}
# Exercise 3.7 · a step of the decoder · hard · 20 min
class AttentionDecoder(nn.Module):
    def __init__(self, words, width, score):
        super().__init__()
        self.score = score
        self.embed = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.combine = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, words)

    def step(self, word, state, memory, mask):
        """word (b,), state (b, w), memory (b, n, w), mask (b, n) to logits (b, words), state (b, w), weights (b, n)."""
        ### BEGIN SOLUTION
        state = self.cell(self.embed(word), state)
        scores = self.score(state.unsqueeze(1), memory)  # (b, 1, n)
        context, weights = attend(scores, memory, mask.unsqueeze(1))
        both = torch.cat([state, context.squeeze(1)], -1)  # (b, 2 w)
        return self.output(torch.tanh(self.combine(both))), state, weights.squeeze(1)
        ### END SOLUTION


AttentionDecoder = exercise("3.7").use(AttentionDecoder)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Say it word by word
#
# Take the likeliest word, feed it back, and stop when every sentence has said the end token, or at the limit. Sentences of a batch end at
# different times: the end token is part of the result, behind it stands padding, 0. The start token is not part of it.


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.8 · greedy decoding · medium · 12 min
def greedy_decode(step, state, start, end, limit):
    """step(word (b,), state) -> logits (b, words), state. The likeliest words (b, m), 0 behind the end token.

    Stops when every sentence has said `end`, or at `limit` words.
    """
    ### BEGIN SOLUTION
    word = torch.full((len(state),), start)
    going = torch.ones(len(state), dtype=torch.bool)
    words = []
    while going.any() and len(words) < limit:
        logits, state = step(word, state)
        word = logits.argmax(-1).masked_fill(~going, 0)
        words.append(word)
        going = going & (word != end)
    return torch.stack(words, 1)
    ### END SOLUTION


greedy_decode = exercise("3.8").use(greedy_decode)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 7 · Train with attention
#
# The same encoder, the same decoder, the same pairs in the same order, the same number of steps. Only the context differs: it used to be
# the last state, always; now it is a look at every word.

# %% slideshow={"slide_type": "-"}
kinds = ("dot", "multiplicative", "additive")
results = {"none": no_attention} | {kind: train_translation(kind, **LESSON) for kind in kinds}
for kind, result in results.items():
    print(
        f"{kind:15s} right: {100 * result['exact']:3.0f} %   BLEU {result['bleu']:5.1f}   {result['parameters']:,} parameters"
    )
assert max(results[kind]["exact"] for kind in kinds) >= 0.9

# %% [markdown] slideshow={"slide_type": "fragment"}
# *BLEU* (Papineni et al., 2002) counts how many runs of one to four words agree with the right translation, from 0 to 100. It forgives a
# wrong word; exact match does not.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
show(
    pictures.by_length(
        {name: curve(result) for name, result in results.items()},
        "attention holds where the bridge breaks",
    ),
    alt="Share of right translations against source length: models with attention stay high, the one without falls to zero.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your decoder, these numbers
#
# Put the trained numbers into your own `AttentionDecoder`, with your own `multiplicative_score`, and translate with your own
# `greedy_decode`.


# %% slideshow={"slide_type": "-"}
class Cell(nn.LSTMCell):
    """An LSTM cell that keeps half of its state to itself, so that from outside it looks like a GRU."""

    def forward(self, x, state):
        state, self.store = super().forward(x, (state, self.store))
        return state


trained = restore(results["multiplicative"])
theirs = trained.model.decoder
W = theirs.score.map.weight.T
mine = AttentionDecoder(len(french), LESSON["width"], lambda s, h: multiplicative_score(s, h, W))
mine.cell = Cell(LESSON["width"], LESSON["width"])
renamed = {
    name.replace("layer", "cell").removesuffix("_l0"): value
    for name, value in theirs.state_dict().items()
    if not name.startswith("score")
}
print(mine.load_state_dict(renamed))

# %% slideshow={"slide_type": "subslide"}
pairs = data.test[:200]
batch = as_batch(pairs, english, french)


def my_step(word, state):
    logits, state, _ = mine.step(word, state, memory, batch.source_mask)
    return logits, state


with torch.no_grad():
    memory, ((seen,), (mine.cell.store,)) = trained.model.encode(batch.source, batch.source_mask)
    words = greedy_decode(my_step, seen, START, END, limit=40)
right = [tuple(french.tokens(row)) == pair.french for row, pair in zip(words, pairs, strict=True)]
print(f"your decoder: {100 * sum(right) / len(right):.0f} % of 200 sentences right")
assert sum(right) / len(right) > 0.85

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 8 · Soft alignment
#
# Which word did it look at when it said which? Guess before you see it.

# %% slideshow={"slide_type": "-"}
quiz("3.e")

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
phrase = ["the", "european", "economic", "area", "is", "not", "dangerous"]
looking = restore(results["dot"])
((said, weights),) = looking.translate_and_look([phrase])
show(
    pictures.alignment(
        [*phrase, "<end>"],
        [*said, "<end>"],
        weights,
        title="the order flips, and the looks flip with it",
    ),
    alt="Attention matrix of the translation of the european economic area: the looks run backwards through the "
    "three words whose order flips.",
)
print(join(said, "french"))

# %% [markdown]
# Nobody told it which words belong together. It found out, because looking at the right word makes the next one easy to say.

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Score it
#
# The corpus knows the right links $S$. Take for each French word the English word of largest weight: that gives links $A$. The
# *alignment error rate* compares the two (Och and Ney, 2003, all links sure):
#
# $$\text{AER} = 1 - \frac{2\,|A \cap S|}{|A| + |S|}$$


# %% tags=["nbval-check-output"] slideshow={"slide_type": "-"}
# Exercise 3.9 · the alignment error · medium · 10 min
def alignment_error(weights, links):
    """1 - 2 |A ∩ S| / (|A| + |S|): weights (m, n), a row for each target word, without end tokens.

    S is `links`, a set of (source place, target place); A links each target word to its largest weight.
    """
    ### BEGIN SOLUTION
    found = {(source, target) for target, source in enumerate(weights.argmax(1).tolist())}
    return 1 - 2 * len(found & links) / (len(found) + len(links))
    ### END SOLUTION


alignment_error = exercise("3.9").use(alignment_error)

# %% slideshow={"slide_type": "subslide"}
pairs = data.test
looks = looking.weights(pairs)  # the right translation is given, so all models name the same words
one = pairs[3]
print(join(one.french, "french"), "| error of this pair:", end=" ")
print(f"{alignment_error(looks[3][: len(one.french), : len(one.english)], set(one.links)):.2f}")
for kind in kinds:
    print(f"{kind:15s} alignment error {100 * results[kind]['alignment_error']:4.1f} %")
print(f"{'floor':15s}                 {100 * results['dot']['alignment_floor']:4.1f} %")

# %% [markdown] slideshow={"slide_type": "fragment"}
# The floor is not zero: *du* stands for *of the*, two links, and one link per word can win only one of them.

# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
negated = next(pair for pair in pairs if "not" in pair.english and len(pair.english) < 12)
(look,) = looking.weights([negated])
show(
    pictures.alignment(
        [*negated.english, "<end>"],
        [*negated.french, "<end>"],
        look,
        negated.links,
        "the gold links and the model's own",
    ),
    alt="Attention matrix of a negated sentence with its gold links as boxes.",
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# English says *not* once, French says *ne* and *pas*. Where the model parts from the gold links it need not be wrong: *does* announces a
# negation as well as *not* does. An alignment error counts against somebody's idea of what belongs together.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 9 · The ladder
#
# One table for all models of the course, on the same pairs with the same budget. It grows in lesson 06. Three seeds each, trained
# longer than here and stored; in brackets the smallest and the largest of the seeds.

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "-"}
ladder = stored("ladder")


def spread(values, digits=1):
    if values is None:
        return "none"
    middle, low, high = (f"{values[name]:,.{digits}f}" for name in ("median", "least", "most"))
    return middle if low == high else f"{middle} ({low} to {high})"


ladder.table(
    ("model", "exact match, %", "BLEU", "alignment error, %", "parameters", "seconds"),
    [
        (
            row["name"],
            *(spread(row[measure]) for measure in ("exact", "bleu", "alignment_error")),
            *(spread(row[measure], 0) for measure in ("parameters", "seconds")),
        )
        for row in ladder.result
    ],
)

# %% tags=["hide-input", "nbval-check-output"] slideshow={"slide_type": "subslide"}
quarters = [part["words"] for part in ladder.result[0]["quarters"]]
ladder.table(
    ("exact match, %, by English words", *quarters, "longer: 19 to 26"),
    [
        (row["name"], *(part["exact"] for part in row["quarters"]), spread(row["longer"]["exact"]))
        for row in ladder.result
    ],
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Read the last column with care. Sentences longer than any in training are hard for all of them: what was never seen at place 20 is
# not known there, with or without attention. The ladder will carry this column to lesson 06.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## 10 · Watch it translate
#
# One sentence, word by word. The bars are the weights with which the next word is chosen; below stand the three likeliest words.

# %% tags=["hide-input"] slideshow={"slide_type": "-"}
models_by_name = {kind: restore(result) for kind, result in results.items()}
shown = [
    "the",
    "european",
    "economic",
    "area",
    "of",
    "the",
    "important",
    "country",
    "is",
    "not",
    "dangerous",
]
steps = step_by_step(models_by_name["dot"], shown)


def frame(number, steps=steps, shown=shown):
    said = [step.word for step in steps[:number]]
    step = steps[number]
    return pictures.decoding_step(
        [*shown, "<end>"], step.weights, said, step.choices, f"word {number + 1}"
    )


stepper(
    frame,
    len(steps),
    alt="One step of decoding: weights over the English words, the French so far, the likeliest next words.",
)

# %% [markdown] slideshow={"slide_type": "subslide"}
# ### Your sentence, your score
#
# Type a sentence of the corpus's words, pick a score, and move through the words. *none* is the model without attention: it has nothing
# to show, and with long sentences you will hear it drift.


# %% tags=["hide-input"] slideshow={"slide_type": "-"}
def own_sentence(sentence, score, word, models=models_by_name):
    try:
        tokens = read_sentence(sentence, models[score].english)
    except ValueError as problem:
        return pictures.message(str(problem))
    steps = step_by_step(models[score], tokens)
    number = min(word, len(steps)) - 1
    said, step = [one.word for one in steps[:number]], steps[number]
    whole = join([one.word for one in steps if one.word != "<end>"], "french")
    return pictures.decoding_step([*tokens, "<end>"], step.weights, said, step.choices, whole)


explore(
    own_sentence,
    alt="One step of the translation of your sentence with the chosen score.",
    sentence="the old king who sees the black dogs does not sleep",
    score=["dot", "multiplicative", "additive", "none"],
    word=(1, 30, 1, 1),
)


# %% tags=["hide-input"] slideshow={"slide_type": "subslide"}
def own_alignment(sentence, score, models=models_by_name):
    try:
        tokens = read_sentence(sentence, models[score].english)
    except ValueError as problem:
        return pictures.message(str(problem))
    ((said, weights),) = models[score].translate_and_look([tokens])
    return pictures.alignment(
        [*tokens, "<end>"], [*said, "<end>"][: len(weights)], weights, title=f"{score} score"
    )


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
# - A recurrent state carries everything forward, step by step: far words fade, and nothing runs in parallel.
# - Through a bridge of fixed size short sentences pass and long ones do not.
# - With attention the decoder looks at all encoder states anew for every word. The memory grows with the sentence.
# - A score compares state and memory: dot, multiplicative, additive. `attend` does the rest.
# - The weights align words without having been told how, and a corpus with gold links can say how well.
#
# **What is left open.** Attention repaired the bridge, but the encoder and the decoder still read word by word. If every word can look at every
# other, what is the recurrent net still for? Lesson 04 leaves it out.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask: which part of this model is still slow on a machine with a thousand cores? The room will say it: the part that is not attention.

# %% tags=["student-only"]
board()

# %% [markdown]
# ### References
#
# - S. Hochreiter, J. Schmidhuber, *Long short-term memory*, 1997.
# - F. J. Och, H. Ney, *A systematic comparison of various statistical alignment models*, 2003: the alignment error rate.
# - K. Papineni et al., *BLEU*, 2002; M. Post, *A call for clarity in reporting BLEU scores*, 2018: sacrebleu.
# - T. Mikolov et al., *Efficient estimation of word representations in vector space*, 2013: skip-gram.
# - K. Cho et al., *Learning phrase representations using RNN encoder-decoder*, 2014: encoder-decoder and the GRU.
# - I. Sutskever, O. Vinyals, Q. V. Le, *Sequence to sequence learning with neural networks*, 2014.
# - D. Bahdanau, K. Cho, Y. Bengio, *Neural machine translation by jointly learning to align and translate*, 2015: the additive score, and
#   the phrase *the european economic area*.
# - M.-T. Luong, H. Pham, C. D. Manning, *Effective approaches to attention-based neural machine translation*, 2015: dot and general score.
