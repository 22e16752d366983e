"""Mutants that are right answers: what each changes makes no difference for any input that the exercise allows.

`EQUIVALENT`: exercise, then the mutant's own words, then why. The audit looks for a difference on many more inputs than a check
draws, in twice the digits and in the gradients too, and is not ok if it finds one.
"""

NO_NEGATIVES = "wrong where a number is below 0"

EQUIVALENT: dict[str, dict[str, str]] = {
    "0.1": {
        NO_NEGATIVES: "the exercise is about positive numbers",
        "`numbers` has the wrong sign": "the sum then has the wrong sign too, and the fractions stay",
    },
    "1.3": {"`-1` became `1`": "the keys have two axes, so the last is axis 1"},
    "1.4": {NO_NEGATIVES: "the argument is the output of a softmax, which is never below 0"},
    "1.5": {
        "`mask | fully_masked` became `mask`": "a fully masked row becomes NaN in between, and is then filled with "
        "zeros; both fills also stop its gradient",
    },
    "1.7": {
        "`x_query[:, None] - x[None, :]` became `x[None, :] - x_query[:, None]`": "the distance is squared, so its sign "
        "makes no difference",
        "`x[None, :]` became `x`": "a row (n,) spreads over (m, 1) just as (1, n) does",
        "`(None, :)` became `None`": "x[None] is x[None, :]",
        "`0` became `-1`": "the output has one column, which is the first and the last",
        "`bandwidth` has the wrong sign": "the bandwidth is squared, so its sign makes no difference",
    },
    "1.8": {
        f"`draws` is shifted along the {axis} axis": "the mean over the draws is the same in every order"
        for axis in ("first", "last")
    },
    "2.1": {
        "`i[None, :]` became `i`": "a row (dim,) spreads over (length, 1) just as (1, dim) does",
        "`(None, :)` became `None`": "i[None] is i[None, :]",
    },
    "2.2": {
        "`token_ids.clamp_min(0)` became `token_ids`": "row -1 of the table is its last row; what is fetched for no "
        "word is multiplied by 0 either way",
        "`0` became `-1`": "row -1 of the table is its last row; what is fetched for no word is multiplied by 0 either way",
    },
    "2.4": {
        "`(count - mask.cumsum(-1)).masked_fill(~mask, 0)` became `count - mask.cumsum(-1)`": "empty places come last, "
        "where all statements are counted and the difference is 0 already",
    },
    "2.5": {
        "`zip(self.embeddings, self.temporal_embeddings, strict=True)` became "
        "`zip(self.embeddings, self.temporal_embeddings)`": "the given `__init__` makes as many of both",
        "`True` became `False`": "the given `__init__` makes as many of both, so strict finds nothing",
    },
    "2.7": {
        "`-1` became `1` (3)": "what is left has two axes, so the last is axis 1",
        NO_NEGATIVES: "the weights come from a softmax, which is never below 0",
    },
    "3.1": {
        "`for sentence in sentences` became `for sentence in list(sentences)[::-1]`": "the longest sentence is the "
        "same in whichever order they are measured",
    },
    "3.7": {"`-1` became `1`": "state and context have two axes, so the last is axis 1"},
    "3.8": {"`-1` became `1`": "the logits have two axes, so the last is axis 1"},
    "3.9": {
        "`for target, source in enumerate(weights.argmax(1).tolist())` became `for target, source in "
        "list(enumerate(weights.argmax(1).tolist()))[::-1]`": "the links go into a set, which has no order",
        NO_NEGATIVES: "the weights come from a softmax, which is never below 0",
    },
    "4.1": {
        "`query @ key` became `key @ query`": "the dot product of two vectors is the same in both orders",
        "`0` became `-1`": "the scores of one query have one axis, the first and the last",
        "`for w, value in zip(weights[-1], values, strict=True)` became `for w, value in list(zip(weights[-1], values, "
        "strict=True))[::-1]`": "a sum is the same from its end, but for rounding",
        "`zip(weights[-1], values, strict=True)` became `zip(values, weights[-1], strict=True)`": "the two are only "
        "multiplied, and a product is the same in both orders",
        "`zip(weights[-1], values, strict=True)` became `zip(weights[-1], values)`": "there are as many weights as values",
        "`True` became `False`": "there are as many weights as values, so strict finds nothing",
    },
    "4.3": {
        "`torch.zeros(length, dim)` became `torch.ones(length, dim)`": "every entry is written afterwards",
        "`0::2` became `::2`": "a slice begins at 0 where nothing else is said",
    },
    "4.5": {
        "`-1` became `1` (2)": "the positions have one axis, so the new last axis is axis 1",
        "`0::2` became `::2`": "a slice begins at 0 where nothing else is said",
    },
    "5.2": {
        "the first result for this very tensor": "the result is a view of the tensor, and follows whatever is written "
        "into it",
    },
    "5.8": {
        "`p` and `q` stand for each other in `jensen_shannon`": "the divergence is the same both ways",
        NO_NEGATIVES: "the arguments are distributions, which are never below 0",
    },
    "5.7": {"`0` became `-1`": "the list holds one tensor of weights, the first and the last"},
    "4.4": {
        "`for i in range(0, dim, 2): angle = torch.tensor(k * 10000.0  ... tensor([[c, -s], [s, c]])` became `for i in "
        "list(range(0, dim, 2))[::-1]: angle = torch.tensor( ... tensor([[c, -s], [s, c]])`": "each pair of components "
        "has a block of its own, whichever is written first",
    },
    "6.7": {
        "`min(step ** (-0.5), step * warmup_steps ** (-1.5))` became `min(step * warmup_steps ** (-1.5), step ** (-0.5))`": "the "
        "smaller of two numbers is the same in both orders",
    },
    "6.8": {"`-1` became `1` (2)": "the logits of the last place have two axes, so the last is axis 1"},
    "7.1": {
        "`list(word)` became `word`": "a string is gone through letter by letter, as a list of its letters is",
        "`for word in counts` became `for word in list(counts)[::-1]`": "pairs are counted over all words, in whichever "
        "order, and ties are decided by age",
        "`set(''.join(counts))` became `''.join(counts)`": "a letter that stands there twice is found at its first place: "
        "the order of the letters stays",
        "`''` became `' '`": "one more letter, the space, which no word has, does not change the order of the others",
        "`for word, tokens in split.items(): for pair in pairwise(toke ... irs[pair] += counts[word]` became `for word, "
        "tokens in list(split.items())[::-1]: for pair in p ... irs[pair] += counts[word]`": "pairs are counted over all "
        "words, in whichever order, and ties are decided by age",
        "`for pair in pairwise(tokens): pairs[pair] += counts[word]` became `for pair in list(pairwise(tokens))[::-1]: "
        "pairs[pair] += counts[word]`": "pairs are counted in whichever order, and ties are decided by age",
        "`for word, tokens in split.items()` became `for word, tokens in list(split.items())[::-1]`": "pairs are counted "
        "over all words, in whichever order, and ties are decided by age",
    },
    "7.3": {
        "`torch.rand(token_ids.shape, generator=generator) < mask_prob` became `torch.rand(token_ids.shape, generator=generator) "
        "<= mask_prob`": "a drawn number meets the bound exactly once in millions of draws",
        "`draw < 0.8` became `draw <= 0.8`": "a drawn number meets the bound exactly once in millions of draws",
        "`draw < 0.9` became `draw <= 0.9`": "a drawn number meets the bound exactly once in millions of draws",
        "`draw >= 0.8` became `draw > 0.8`": "a drawn number meets the bound exactly once in millions of draws",
        "`draw < 0.9` became `draw > 0.9`": "the last tenth of the draws is as good a tenth as the one before it",
    },
    "7.7": {
        "`-1` became `0`": "the logits have one axis, the first and the last",
        "`1` became `0`": "the logits have one axis, the first and the last",
        "`before >= top_p` became `before > top_p`": "a sum of probabilities in float32 meets top_p exactly by rounding alone",
        "`0` became `-1` (3)": "the probabilities have one axis, the first and the last",
        "`0` became `-1` (4)": "the probabilities have one axis, the first and the last",
        "`torch.zeros_like(probs)` became `torch.ones_like(probs)`": "every number is written by the scatter",
        "`torch.zeros_like(probs)` became `probs`": "every number is written by the scatter",
    },
    "8.3": {
        "`for name in start` became `for name in list(start)[::-1]`": "a dict is looked up by its names, not by their order",
    },
    "8.4": {"wrong from the third call on": "the result is a layer: there is no tensor that this could change"},
    "8.5": {
        "`hidden_states` has the wrong sign": "both vectors of a cosine change their sign, and the product stays",
        "`hidden_states` is shifted along the last axis": "both vectors have their features in another order, and the "
        "product stays",
    },
    "8.6": {
        "`(:, None, None, :)` became `(:, None, None)`": "keys[:, None, None] is keys[:, None, None, :]",
        "`(0, 2)` became `(2, 0)`": "a sum over two axes has no order",
        "`(:, None, :)` became `(:, None)`": "queries[:, None] is queries[:, None, :]",
        NO_NEGATIVES: "the weights come from a softmax, which is never below 0",
    },
    "9.2": {
        "`torch.arange(-w, 2 * w) - torch.arange(w)[:, None]` became `torch.arange(w)[:, None] - torch.arange(-w, 2 * "
        "w)`": "only the size of the distance counts, not its sign",
    },
    "9.3": {
        "`projection` is shifted along the first axis": "the projected keys come in another order, keys and values alike, and a "
        "weighted sum is the same in any order",
    },
    "9.4": {
        "`x - x.mean()` became `x + x.mean()`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`x - x.mean()` became `x`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`y - y.mean()` became `y + y.mean()`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`y - y.mean()` became `y`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`x.mean()` became `x.sum()`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`y.mean()` became `y.sum()`": "the other factor adds up to 0, so a constant in this one has no effect",
        "`x - x.mean()` became `x.mean() - x` (2)": "the difference is squared, so its sign has no effect",
        "the result as nested lists": "amount and exponent may be plain numbers as well as tensors of one number",
        "the result as a NumPy array": "amount and exponent are numbers, and a NumPy number is one",
        NO_NEGATIVES: "the exercise is about numbers above 0",
        "wrong where the first axis is of size 1": "no line goes through one point alone: its slope is 0 divided by 0",
    },
    "9.8": {
        "`images.reshape(b, side // size, size, side // size, size)` became `images.reshape(side // size, b, size, side "
        "// size, size)`": "the first two axes are joined again by the second reshape, in the order they have in memory",
    },
}
