"""Lesson 02: cases, common mistakes and hints of its exercises, and its quizzes."""

import torch
from torch.func import functional_call

from utils.checks.compare import Case, Wrong
from utils.exercises.common import masked_rows_give_zeros, normal
from utils.exercises.edits import BODY, mistake
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register


def random_sentences(generator, *shape, words):
    """Token ids, padded with -1 behind the last word of each sentence; no sentence is empty."""
    token_ids = torch.randint(0, words, shape, generator=generator)
    length = torch.randint(1, shape[-1] + 1, shape[:-1], generator=generator)
    return token_ids.masked_fill(torch.arange(shape[-1]) >= length.unsqueeze(-1), -1)


def padding_mask(generator, *shape):
    """Statements first, then padding; at least one statement in each row."""
    count = torch.randint(1, shape[-1] + 1, shape[:-1], generator=generator)
    return torch.arange(shape[-1]) < count.unsqueeze(-1)


# ---------------------------------------------------------------------------------------------- 2.1 position encoding
J_CENTERED, I_CENTERED = "arange(1, length + 1) - (length + 1) / 2", "arange(1, dim + 1) - (dim + 1) / 2"
register(
    Exercise(
        id="2.1",
        cases=lambda generator: [Case(sizes) for sizes in ((4, 6), (5, 2), (3, 3), (1, 4), (7, 20))],
        mistakes=[
            mistake(
                [("arange(1, length + 1)", "arange(length)"), ("arange(1, dim + 1)", "arange(dim)")],
                "The indices start at 0. In the formula i and j start at 1: `torch.arange(1, length + 1)`.",
            ),
            mistake("1 + 4", "4", "The leading 1 is missing, so the middle word would get weight 0. Add it."),
            mistake("1 + 4 *", "1 +", "The factor 4 is missing. The second term is 4 / (d J) times both differences."),
            mistake(
                [
                    (J_CENTERED, "arange(1, length + 1) - (dim + 1) / 2"),
                    (I_CENTERED, "arange(1, dim + 1) - (length + 1) / 2"),
                ],
                "The two centers are swapped. Subtract (d + 1)/2 from the component i and (J + 1)/2 from the word j.",
            ),
            mistake("j[:, None] * i[None, :]", "i[:, None] * j[None, :]", "The matrix is transposed. Words are rows."),
            mistake(
                [("- (length + 1) / 2", "- length / 2"), ("- (dim + 1) / 2", "- dim / 2")],
                "The indices were centered at d/2 and J/2. The center of 1, ..., d is (d + 1)/2.",
            ),
            mistake(
                [("(length + 1) / 2", "(length + 1) // 2"), ("(dim + 1) / 2", "(dim + 1) // 2")],
                "`//` rounds the centers down to whole numbers. Divide with `/`: the center of 1, ..., 4 is 2.5.",
            ),
            mistake(
                BODY,
                """
                j = torch.arange(1, length + 1)[:, None] / length
                return (1 - j) - torch.arange(1, dim + 1) / dim * (1 - 2 * j)
                """,
                "This is the formula printed in the paper. Use the one above, from the authors' code.",
            ),
            mistake(
                " / (dim * length)",
                "",
                "The product is not divided by d J: long sentences get large weights. Divide by it.",
            ),
        ],
        hints=[
            "`torch.arange(1, length + 1)` indexes the words from 1; subtract the center, (length + 1) / 2.",
            "A column `[:, None]` of words times a row `[None, :]` of components broadcasts to the whole matrix.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.2 sentence embeddings
def sentence_cases(generator):
    repeated = torch.tensor([[1, 1, -1, -1], [0, 2, 1, -1]])
    stories = random_sentences(generator, 2, 3, 4, words=8)
    return [
        Case((random_sentences(generator, 3, 5, words=7), normal(generator, 7, 4)), note="a bag of words"),
        Case((random_sentences(generator, 5, words=6), normal(generator, 6, 3)), note="one sentence"),
        Case((stories, normal(generator, 8, 5), normal(generator, 4, 5)), note="a batch of stories, with weights"),
        Case((repeated, normal(generator, 3, 4), normal(generator, 4, 4)), note="a word that occurs twice"),
        Case((random_sentences(generator, 1, 6, words=5), normal(generator, 5, 3)), note="a story of one sentence"),
    ]


UNPADDED = "(vectors * (token_ids >= 0).unsqueeze(-1))"
MEAN = "This is the mean of the word embeddings. The sentence vector is their sum: `.sum(-2)`."
register(
    Exercise(
        id="2.2",
        cases=sentence_cases,
        gradient=True,
        mistakes=[
            mistake(
                UNPADDED, "vectors", "Padding (-1) was counted as word 0. Multiply its vectors by 0 before the sum."
            ),
            mistake(
                [(".clamp_min(0)", ""), (UNPADDED, "vectors")],
                "Padding was counted as the last word, because index -1 is the last row of `embedding`. It must add nothing.",
            ),
            mistake(">= 0", "> 0", "Word 0 was treated as padding. Only -1 is padding: test `token_ids >= 0`."),
            mistake(
                "vectors = vectors * position_weights",
                "pass",
                "`position_weights` has no effect. Multiply the word embeddings by it.",
            ),
            mistake(".sum(-2)", ".sum(-2) / (token_ids >= 0).sum(-1, keepdim=True)", MEAN),
            mistake(".sum(-2)", ".mean(-2)", MEAN),
            mistake([(UNPADDED, "vectors"), (".sum(-2)", ".mean(-2)")], MEAN),
            mistake([(".clamp_min(0)", ""), (UNPADDED, "vectors"), (".sum(-2)", ".mean(-2)")], MEAN),
            mistake(
                ".sum(-2)", "", "One vector per word was returned. Sum over the words of each sentence: `.sum(-2)`."
            ),
            mistake(".sum(-2)", ".sum(-1)", "The sum ran over the components. Sum over the words: `.sum(-2)`."),
            mistake(
                "vectors * position_weights",
                "vectors * position_weights.sum(0)",
                "The weights were applied to the finished sum. Multiply each word by the weights of its position first.",
            ),
        ],
        hints=[
            "`embedding[token_ids]` looks up all embeddings at once: (..., j) token ids give (..., j, d) vectors.",
            "-1 is padding. Look up `token_ids.clamp_min(0)` and multiply the result by `(token_ids >= 0).unsqueeze(-1)`.",
            "Multiply by `position_weights` if given, then sum over the words: `.sum(-2)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.3 memory hop
def hop_inputs(generator, *lead, n, d):
    return normal(generator, *lead, d), normal(generator, *lead, n, d), normal(generator, *lead, n, d)


def hop_cases(generator):
    return [
        Case(hop_inputs(generator, n=5, d=4), note="one question"),
        Case((*hop_inputs(generator, 2, n=5, d=3), padding_mask(generator, 2, 5)), note="a batch with padding"),
        Case((*hop_inputs(generator, 3, 2, n=6, d=4), padding_mask(generator, 3, 2, 6)), note="two leading axes"),
        Case(hop_inputs(generator, 3, n=3, d=3), note="all sizes equal"),
        Case(hop_inputs(generator, 1, n=4, d=3), note="a batch of one"),
    ]


def a_fully_masked_memory_gives_zeros(answer, generator):
    mask = torch.tensor([[True], [False]]).expand(2, 4)
    context, weights = answer(*hop_inputs(generator, 2, n=4, d=3), mask)
    masked_rows_give_zeros(weights[1], "attention")
    if context[1].any():
        raise Wrong("Where the mask is all False, the context vector is not zero. Pass the mask to `attention`.")


RAW, PRODUCT = "(key @ state.unsqueeze(-1)).squeeze(-1)", "(weights.unsqueeze(-2) @ value).squeeze(-2)"
AXIS = ["state.unsqueeze(-2)", "mask.unsqueeze(-2)", "context.squeeze(-2)", "weights.squeeze(-2)"]
NO_QUERY_AXIS = "A mask (b, n) broadcasts to (b, b, n) here. Give it a query axis: `mask.unsqueeze(-2)` is (b, 1, n)."
AXIS_ONE = "Axis 1 is the query axis only in a batch with one leading axis. Count from the end: `unsqueeze(-2)`."
SQUEEZE = "A bare `.squeeze()` also removes a batch axis of length 1. Remove only the query axis: `.squeeze(-2)`."
KEY_STATE = "`key @ state` fails in a batch. Give the state an axis: `attention(state.unsqueeze(-2), ...)`."


def own_hop(weights, scores=RAW, output=PRODUCT):
    """The hop written without `attention`: weights from `scores` and `mask`."""
    mask = "mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask"
    return [(BODY, f"scores = {scores}\n{mask}\nweights = {weights}\nreturn {output}, weights")]


register(
    Exercise(
        id="2.3",
        cases=hop_cases,
        gradient=True,
        output_names=("context", "weights"),
        properties=[a_fully_masked_memory_gives_zeros],
        mistakes=[
            mistake("value, mask,", "value, None,", "The mask has no effect. Pass it to `attention`."),
            mistake(
                "None if mask is None else mask.unsqueeze(-2)",
                "mask.unsqueeze(-2)",
                "Without a mask, `mask` is None and has no `unsqueeze`. Add the axis only if there is a mask, else pass None.",
            ),
            mistake("mask.unsqueeze(-2)", "mask", NO_QUERY_AXIS),
            mistake(
                [
                    ("mask.unsqueeze(-2)", "mask"),
                    ("context.squeeze(-2)", "context[..., 0, :]"),
                    ("weights.squeeze(-2)", "weights[..., 0, :]"),
                ],
                NO_QUERY_AXIS,
            ),
            mistake([(old, old.replace("-2", "1")) for old in AXIS], AXIS_ONE),
            mistake("mask.unsqueeze(-2)", "mask.unsqueeze(1)", AXIS_ONE),
            mistake([(old, old.replace("-2", "1")) for old in AXIS if not old.startswith("mask")], AXIS_ONE),
            mistake(
                [(old, old.split(".")[0]) for old in AXIS],
                "The state (..., d) was passed as if the batch were its queries. Give it a query axis: `state.unsqueeze(-2)`.",
            ),
            *(
                mistake(
                    own_hop('scores.masked_fill(~mask, float("-inf")).softmax(-1)', "key @ state", output), KEY_STATE
                )
                for output in ("weights @ value", PRODUCT)
            ),
            mistake(own_hop("scores * mask"), "The softmax is missing: the weights are the scores. Use `attention`."),
            mistake(
                own_hop("(scores * mask).softmax(-1)"),
                "Padding got the score 0, but exp(0) = 1 still gets weight. Pass the mask to `attention`.",
            ),
            mistake("mask.unsqueeze", "~mask.unsqueeze", "The mask is inverted. True already means 'may attend'."),
            mistake(
                own_hop("scores.softmax(-1) * mask"),
                "The mask came after the softmax, so the weights do not sum to 1. Pass it to `attention`.",
            ),
            mistake(
                "key, value,", "key, key,", "The output is a weighted sum of the keys. Pass `value` as the values."
            ),
            mistake(
                "key, value,", "value, value,", "The state was compared with the values. Compare it with the keys."
            ),
            mistake(
                ", scale=1",
                "",
                "The scores were divided by sqrt(d). Pass `scale=1`: the paper does not scale its scores.",
            ),
            mistake(
                "return context",
                "return state + context",
                "The updated state was returned. Return the attention output.",
            ),
            mistake(
                "context.squeeze(-2), weights.squeeze(-2)",
                "weights.squeeze(-2), context.squeeze(-2)",
                "The two results are swapped. Return the output first, then the weights.",
            ),
            mistake(
                [("context.squeeze(-2)", "context"), ("weights.squeeze(-2)", "weights")],
                "The results still have the query axis of length 1. Remove it from both: `.squeeze(-2)`.",
            ),
            mistake(
                [("context.squeeze(-2)", "context.squeeze()"), ("weights.squeeze(-2)", "weights.squeeze()")], SQUEEZE
            ),
        ],
        hints=[
            "One state is one query. Give it a query axis: `state.unsqueeze(-2)` is (..., 1, d).",
            "`attention(state.unsqueeze(-2), key, value, mask, scale=1)`; the mask needs that axis too, `mask.unsqueeze(-2)`.",
            "Remove the axis from both results with `.squeeze(-2)`. Without a mask, pass None.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.4 temporal index
INDEX = "count - mask.cumsum(-1)"
register(
    Exercise(
        id="2.4",
        cases=lambda generator: [
            Case((torch.tensor([True, True, True, False]),), note="three statements, one padding"),
            Case((padding_mask(generator, 3, 5),), note="a batch"),
            Case((padding_mask(generator, 2, 3, 4),), note="two leading axes"),
            Case((torch.ones(6, dtype=torch.bool),), note="no padding"),
            Case((padding_mask(generator, 1, 4),), note="a batch of one"),
        ],
        mistakes=[
            mistake(
                INDEX,
                "mask.cumsum(-1) - 1",
                "The index counts up from the oldest statement. Count back from the newest, which has index 0.",
            ),
            mistake(INDEX, f"{INDEX} + 1", "The newest statement got index 1. It must be 0: subtract 1."),
            mistake(
                INDEX,
                "torch.arange(mask.size(-1) - 1, -1, -1).expand(mask.shape)",
                "The index counts from the end of the memory, padding included. Count from the last statement.",
            ),
            mistake(
                BODY,
                "return torch.arange(mask.size(-1) - 1, -1, -1).expand(mask.shape)",
                "The index counts from the end of the memory, and padding has an index too. Count from the last statement, with 0 for padding.",
            ),
            mistake(
                "~mask, 0", "~mask, -1", "Padding has index -1, which would select the last temporal embedding. Use 0."
            ),
            mistake(
                f"({INDEX}).masked_fill(~mask, 0)",
                "count - 1 - torch.arange(mask.size(-1))",
                "Padding has a negative index. Set it to 0: `.masked_fill(~mask, 0)`.",
            ),
        ],
        hints=[
            "`mask.sum(-1, keepdim=True)` is the number of statements; the first one has index count - 1.",
            "`mask.cumsum(-1)` counts 1, 2, 3, ... along the statements. Subtract it from the count.",
            "`.masked_fill(~mask, 0)` at the end sets the padding to 0.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.5 the network
SIZES = {"vocab_size": 9, "num_hops": 2, "dim": 4, "memory_size": 7, "max_len": 5}


def run_network(answer, embeddings, temporal, story, question, mask):
    """The network with these parameters, so that gradients reach them."""
    network = answer(**{**SIZES, "num_hops": len(embeddings) - 1})
    return functional_call(
        network, {"embeddings": embeddings, "temporal_embeddings": temporal}, (story, question, mask)
    )


def network_cases(generator):
    cases = []
    for hops, b in ((1, 2), (2, 2), (3, 2), (2, 1)):
        embeddings = 0.5 * normal(generator, hops + 1, SIZES["vocab_size"], SIZES["dim"])
        temporal = 0.5 * normal(generator, hops + 1, SIZES["memory_size"], SIZES["dim"])
        story = random_sentences(generator, b, 6, SIZES["max_len"], words=SIZES["vocab_size"])
        question = random_sentences(generator, b, SIZES["max_len"], words=SIZES["vocab_size"])
        note = f"{hops} hop{'s' * (hops > 1)}{', one story' * (b == 1)}"
        cases.append(Case((embeddings, temporal, story, question, padding_mask(generator, b, 6)), note=note))
    return cases


PAIR, ADDED, LOGITS = "memories[hop], memories[hop + 1]", "state = state + context", "state @ self.embeddings[-1].T"
WITHOUT_TEMPORAL = "encode_sentences(story, self.embeddings[{}], self.position_weights)"
LOSS = "Return the logits: the loss applies its own softmax."
register(
    Exercise(
        id="2.5",
        cases=network_cases,
        call=run_network,
        output_names=("logits", "weights"),
        gradient=True,
        mistakes=[
            mistake(
                ADDED, "state = context", "The state was replaced by the context vector. Add it: `state + context`."
            ),
            mistake(ADDED, "pass", "The state never changes, so every hop has the same query. Add `context` to it."),
            mistake(
                PAIR,
                "memories[0], memories[1]",
                "Every hop uses the same embeddings. Hop k uses embeddings k and k + 1.",
            ),
            mistake(
                PAIR,
                "memories[hop], memories[hop]",
                "Keys and values share an embedding. Take values from embedding k + 1.",
            ),
            mistake(
                PAIR, "memories[hop + 1], memories[hop]", "Keys and values are swapped. The keys come from embedding k."
            ),
            mistake(
                "temporal_index(mask)",
                "torch.arange(mask.size(-1)).expand(mask.shape)",
                "The index counts from the oldest statement. Use `temporal_index(mask)`: the newest has index 0.",
            ),
            mistake(
                " + temporal[index]",
                "",
                "The temporal embeddings are missing. Add `self.temporal_embeddings[k][temporal_index(mask)]` to the sentence vectors of embedding k.",
            ),
            mistake(
                [
                    ("embedding, self.position_weights", "embedding"),
                    ("self.embeddings[0], self.position_weights", "self.embeddings[0]"),
                ],
                "The position encoding is missing. Pass `self.position_weights` to `encode_sentences`.",
            ),
            mistake(
                "self.embeddings[0]",
                "self.embeddings[-1]",
                "The question was encoded with the last embedding. Use the first.",
            ),
            mistake(
                "self.embeddings[-1]",
                "self.embeddings[0]",
                "The logits use the first embedding. Use the last, `self.embeddings[-1]`.",
            ),
            mistake(
                "self.embeddings[-1]",
                "self.embeddings[self.num_hops - 1]",
                "The logits use embedding K - 1, but there are K + 1 embeddings. Use the last, `self.embeddings[-1]`.",
            ),
            *(
                mistake(
                    "self.embeddings[0], self.position_weights)",
                    f"self.embeddings[0], self.position_weights) + self.temporal_embeddings[{k}][0]",
                    "A temporal embedding was added to the question. Only the statements of the story have one.",
                )
                for k in (0, -1)
            ),
            mistake(
                "zip(self.embeddings, self.temporal_embeddings, strict=True)",
                "zip(self.embeddings[:-1], self.temporal_embeddings[:-1], strict=True)",
                "Only K memories were built, but the last hop takes its values from memory K. Build one for each of the K + 1 embeddings.",
            ),
            mistake(LOGITS, f"({LOGITS}).softmax(-1)", f"These are probabilities. {LOSS}"),
            mistake(LOGITS, f"({LOGITS}).log_softmax(-1)", f"These are log-probabilities. {LOSS}"),
            mistake(f"{PAIR}, mask", PAIR, "The mask is not used, so padding gets weight. Pass it to `memory_hop`."),
            mistake(
                PAIR,
                f"memories[hop], {WITHOUT_TEMPORAL.format('hop + 1')}",
                "The temporal embeddings were added to the keys only. Add them to the values too.",
            ),
            mistake(
                PAIR,
                f"{WITHOUT_TEMPORAL.format('hop')}, memories[hop + 1]",
                "The temporal embeddings were added to the values only. Add them to the keys too.",
            ),
            mistake(
                LOGITS,
                LOGITS.replace("state", "context"),
                "The logits use only the last context vector. Use the state.",
            ),
            mistake(
                "self.embeddings[0], self.position_weights",
                "self.embeddings[0]",
                "The question was encoded without position encoding. Pass `self.position_weights`, as for the story.",
            ),
            mistake(
                "story, embedding, self.position_weights",
                "story, embedding",
                "The story lacks position encoding. Pass `self.position_weights`.",
            ),
            mistake(
                "torch.stack(attention_weights, 1)",
                "weights",
                "Only the last weights were returned. Stack those of all hops.",
            ),
            mistake(
                "(attention_weights, 1)",
                "(attention_weights)",
                "The weights are (hops, b, n). Stack along axis 1: (b, hops, n).",
            ),
        ],
        hints=[
            "First the memories: for each embedding k, `encode_sentences(story, self.embeddings[k], self.position_weights)` plus `self.temporal_embeddings[k][temporal_index(mask)]`.",
            "The state starts as the question, encoded with embedding 0. In hop k, add the output of `memory_hop(state, memories[k], memories[k + 1], mask)` to it.",
            "The logits are `state @ self.embeddings[-1].T`; the weights of all hops are `torch.stack(attention_weights, 1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.6 linear hop
ZEROED = ".masked_fill(~mask, 0.0)"
WEIGHTS_VALUE = "`weights @ value` mixes the rows of a batch. Make each row a matrix: `(weights.unsqueeze(-2) @ value).squeeze(-2)`."
COLUMN = "fails in a batch. Make the state a column: `(key @ state.unsqueeze(-1)).squeeze(-1)`."
register(
    Exercise(
        id="2.6",
        cases=lambda generator: [
            Case((*hop_inputs(generator, *lead, n=n, d=d), padding_mask(generator, *lead, n)))
            for lead, n, d in (((2,), 5, 3), ((), 4, 4), ((3, 2), 6, 2), ((1,), 4, 3))
        ],
        gradient=True,
        output_names=("context", "weights"),
        mistakes=[
            mistake(
                BODY, "return memory_hop(state, key, value, mask)", "The softmax is still applied. Leave it out here."
            ),
            mistake(ZEROED, "", "The mask has no effect. Set the weights of padding to 0."),
            mistake("~mask", "mask", "The mask is inverted. True means 'may attend': fill where it is False."),
            mistake("return (", "return state + (", "The updated state was returned. Return the output alone."),
            mistake(f"{PRODUCT}, weights", f"weights, {PRODUCT}", "The results are swapped. Return the output first."),
            mistake(
                ".squeeze(-2), weights",
                ", weights.unsqueeze(-2)",
                "The results have an extra axis of length 1. Remove it from both: `.squeeze(-2)`.",
            ),
            mistake(
                RAW, f"{RAW}.div(key.size(-1) ** 0.5)", "The scores were divided by sqrt(d). Here nothing is scaled."
            ),
            mistake(
                ZEROED,
                f"{ZEROED}\nweights = weights / weights.sum(-1, keepdim=True)",
                "The scores were divided by their sum. A linear hop does not normalize them.",
            ),
            mistake("@ value", "@ key", "The output is a weighted sum of the keys. Weight the values."),
            *(
                mistake(PRODUCT, product, WEIGHTS_VALUE)
                for product in ("weights @ value", "(weights @ value).squeeze(0)", "(weights @ value).squeeze(-2)")
            ),
            *(
                mistake([(RAW, "(key @ state)"), (PRODUCT, product)], f"`key @ state` {COLUMN}")
                for product in (PRODUCT, "weights @ value")
            ),
            mistake(
                [
                    (RAW, "(key @ state.unsqueeze(-1)).squeeze()"),
                    (".squeeze(-2)", ".squeeze()"),
                ],
                SQUEEZE,
            ),
            mistake(", weights", f", {RAW}", "The returned weights include padding. Set it to 0 in them too."),
            mistake("0.0", 'float("-inf")', "Minus infinity needs a softmax to become 0. Fill padding with 0 here."),
        ],
        hints=[
            "`(key @ state.unsqueeze(-1)).squeeze(-1)` is one score per memory.",
            "Then `.masked_fill(~mask, 0.0)`, and the output is `(weights.unsqueeze(-2) @ value).squeeze(-2)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.7 facts found
def fact_cases(generator):
    def drawn(b, hops, n, facts):
        """Half of the rows have their facts among the top sentences, so that both answers occur."""
        weights = (3 * normal(generator, b, hops, n)).softmax(-1)
        fact = torch.zeros(b, n, dtype=torch.bool)
        for row in range(b):
            tops = weights[row].argmax(-1).roll(row // 2)
            fact[row, tops[:facts] if row % 2 else torch.randperm(n, generator=generator)[:facts]] = True
        return Case((weights, fact), note=f"{hops} hop{'s' * (hops > 1)}")

    # In the first row both hops attend to the same fact; in the second a largest weight is small.
    small = [[[0.9, 0.05, 0.03, 0.02], [0.8, 0.1, 0.05, 0.05]], [[0.28, 0.26, 0.24, 0.22], [0.1, 0.1, 0.7, 0.1]]]
    facts = torch.tensor([[True, True, False, False], [True, False, True, False]])
    # Top sentence of each hop, and the facts: hops that share a sentence or attend to no fact, with all facts found or not.
    tops = torch.tensor([[0, 0, 1], [0, 0, 1], [0, 0, 3], [2, 0, 2], [1, 3, 1], [0, 1, 2], [3, 3, 3]])
    wanted = torch.tensor(
        [[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1], [1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]]
    )
    low = torch.tensor([[0.1], [0.05], [0.2]])  # every weight of a hop but the largest
    peaked = torch.where(torch.nn.functional.one_hot(tops, 4) > 0, 1 - 3 * low, low)
    return [
        Case((torch.tensor(small), facts), note="two hops on one fact; a largest weight that is small"),
        Case((peaked, wanted.bool()), note="three hops, some on the same sentence"),
        *(
            drawn(*sizes)
            for sizes in ((8, 1, 5, 1), (40, 3, 6, 1), (20, 3, 6, 2), (20, 3, 4, 3), (24, 2, 7, 2), (1, 2, 5, 2))
        ),
    ]


TOPS, ALL_FOUND = "F.one_hot(weights.argmax(-1), weights.size(-1)).sum(-2) > 0", "(tops | ~fact).all(-1)"


def top_of(weights):
    """The top sentence of a single distribution."""
    return TOPS, f"F.one_hot({weights}.argmax(-1), weights.size(-1)) > 0"


HITS = "fact.gather(1, weights.argmax(-1))"
THRESHOLD = "A threshold on the weights was used. The top sentence of a hop has its largest weight: `argmax(-1)`."
TWICE = "A fact that is the top sentence of two hops was counted twice. Count each fact once: mark it, then use `any` or `> 0`."
register(
    Exercise(
        id="2.7",
        cases=fact_cases,
        mistakes=[
            mistake(
                ALL_FOUND, "(tops & fact).any(-1)", "One fact was enough. Every fact must be the top sentence of a hop."
            ),
            mistake(BODY, f"return {HITS}.sum(-1) >= fact.sum(-1)", TWICE),
            mistake(BODY, f"return {HITS}.sum(-1) == fact.sum(-1)", TWICE),
            mistake(
                BODY,
                f"return {HITS}.all(-1)",
                "This tests whether every hop attends to a fact. Test whether every fact is the top sentence of some hop.",
            ),
            mistake(TOPS, "(weights > 0.3).any(-2)", THRESHOLD),
            mistake(TOPS, "(weights > 0.5).any(-2)", THRESHOLD),
            mistake(TOPS, "(weights > 1 / weights.size(-1)).any(-2)", THRESHOLD),
            mistake(
                ALL_FOUND,
                "(tops == fact).all(-1)",
                "A hop whose top sentence is no fact counts as a failure here. Other hops may attend elsewhere: test the facts only.",
            ),
            mistake(
                [(".sum(-2) > 0", ".sum(-2)"), (ALL_FOUND, "(tops == fact).all(-1)")],
                "The number of hops on each sentence was compared with `fact`. Test only the facts, and test `> 0`: two hops may share one.",
            ),
            mistake(
                ".sum(-2) > 0", ".all(-2)", "Each fact had to be the top of every hop. One hop is enough: use `any`."
            ),
            mistake(
                ".sum(-2) > 0", ".sum(-2) == 1", "A fact on top of two hops counts as missing. Test `> 0`, not `== 1`."
            ),
            mistake("argmax(-1)", "argmax(1)", "The argmax ran over the hops (dim 1). Use `weights.argmax(-1)`."),
            mistake(
                ALL_FOUND,
                "(tops & fact).all(-1)",
                "Here every sentence would have to be a fact. Test only the facts: a sentence that is none always passes.",
            ),
            mistake(
                [top_of("weights.amax(1)")],
                "Only the largest weight of all hops was used. Take the top sentence of each.",
            ),
            mistake([top_of("weights[:, -1]")], "Only the last hop was used. Take the top sentence of every hop."),
            mistake([top_of("weights[:, 0]")], "Only the first hop was used. Take the top sentence of every hop."),
            mistake(
                [top_of("weights.sum(1)")], "The weights were summed over hops first. Take the top sentence of each."
            ),
            mistake(
                ALL_FOUND,
                "(tops & fact).sum(-1) / fact.sum(-1)",
                "This is the fraction of facts that were found. Return True only if all of them were.",
            ),
        ],
        hints=[
            "`weights.argmax(-1)` is the top sentence of each hop, (b, hops).",
            "`one_hot(tops, n).sum(1) > 0` is True for each sentence that is the top sentence of some hop.",
            "Every fact must be such a sentence: `(on_top | ~fact).all(-1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 2.8 Adam
def adam_cases(generator):
    def drawn(*shape, t, **settings):
        averages = 0.1 * normal(generator, *shape), 0.1 * normal(generator, *shape) ** 2
        return (normal(generator, *shape), normal(generator, *shape), *averages, t), settings

    zeros, by_hand = torch.zeros(2), torch.tensor([4.0, 0.02])
    return [
        Case((zeros, by_hand, zeros, zeros, 1), note="the first step, as by hand"),
        Case(*drawn(3, t=2), note="the second step"),
        Case(*drawn(3, 5, t=7, learning_rate=0.3, beta1=0.8, beta2=0.95), note="other settings"),
        Case(*drawn(1, 5, t=3, eps=0.5), note="a large eps, one row"),
        Case((normal(generator, 3), torch.zeros(3), torch.zeros(3), torch.zeros(3), 1), note="a gradient of 0"),
    ]


M_HAT, V_HAT = "m / (1 - beta1**t)", "v / (1 - beta2**t)"
ROOT, UPDATE = "(v_hat.sqrt() + eps)", "parameter - learning_rate * m_hat / (v_hat.sqrt() + eps), m, v"
register(
    Exercise(
        id="2.8",
        cases=adam_cases,
        output_names=("parameter", "m", "v"),
        mistakes=[
            mistake(
                [(M_HAT, "m"), (V_HAT, "v")],
                "The bias correction is missing. Divide m by 1 - beta1**t and v by 1 - beta2**t.",
            ),
            mistake(M_HAT, "m", "The bias correction of m is missing. Divide m by 1 - beta1**t."),
            mistake(V_HAT, "v", "The bias correction of v is missing. Divide v by 1 - beta2**t."),
            mistake(
                [(M_HAT, "m / (1 - beta1)"), (V_HAT, "v / (1 - beta2)")],
                "The bias correction ignores t. Use the powers beta1**t and beta2**t.",
            ),
            mistake(
                [(M_HAT, "m / (1 - beta1 * t)"), (V_HAT, "v / (1 - beta2 * t)")],
                "beta was multiplied by t. Use the powers beta1**t and beta2**t.",
            ),
            mistake("gradient**2", "gradient", "v averages the gradient itself. It must average its square."),
            mistake(ROOT, "(v_hat + eps)", "The square root of v_hat is missing. Divide by `v_hat.sqrt() + eps`."),
            mistake(ROOT, "(v_hat + eps).sqrt()", "eps is inside the square root. Add it after the root."),
            mistake(
                ROOT, "v_hat.sqrt()", "eps is missing, so a gradient of 0 gives 0/0. Divide by `v_hat.sqrt() + eps`."
            ),
            mistake("parameter - ", "parameter + ", "The step goes along the gradient. Subtract it."),
            mistake(
                UPDATE,
                UPDATE.replace(", m, v", ", m_hat, v_hat"),
                "The corrected averages were returned. Return m and v.",
            ),
            mistake(
                [
                    ("beta1 * m + (1 - beta1) * gradient", "(1 - beta1) * m + beta1 * gradient"),
                    ("beta2 * v + (1 - beta2) * gradient**2", "(1 - beta2) * v + beta2 * gradient**2"),
                ],
                "The factors of the averages are swapped. The old average gets beta, the new value 1 - beta.",
            ),
            mistake(
                [("(1 - beta1) * gradient", "gradient"), ("(1 - beta2) * gradient**2", "gradient**2")],
                "The new values are not weighted. Multiply the gradient by 1 - beta1 and its square by 1 - beta2.",
            ),
            mistake("m_hat /", "gradient /", "The step uses the gradient. Use its corrected average m_hat."),
            mistake(
                "v_hat.sqrt() + eps), m, v",
                "v_hat.sqrt() + eps)",
                "Only the parameter was returned. Return m and v too.",
            ),
        ],
        hints=[
            "First the averages: `m = beta1 * m + (1 - beta1) * gradient`, and likewise v with `gradient**2`.",
            "Then `m_hat = m / (1 - beta1**t)` and `v_hat`; divide m_hat by `v_hat.sqrt() + eps`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- quizzes
register_quiz(
    Quiz(
        id="2.a",
        question="No parameter of this network was trained. How many of 1,000 new stories will it answer correctly?",
        options=[
            ("About 250: chance for four colors.", "Follow the three hops on paper: they retrieve the color."),
            ("About 500: half of the stories.", "The keys and values fit every story of this form, not only some."),
            (
                "Nearly all, but not all of them.",
                "It fails only where one kind has two colors, because it ignores which animal was introduced last.",
            ),
            ("All: every hop does its part.", "Think of a kind with two colors. Which one would it answer?"),
        ],
        right=2,
        explanation="The keys change from hop to hop: names, kinds, names. The values of the last hop are colors.",
    )
)
register_quiz(
    Quiz(
        id="2.b",
        question="How does a bag of words represent 'mice are afraid of wolves' and 'wolves are afraid of mice'?",
        options=[
            ("As two opposite vectors.", "A sum does not change its sign with the order: a + b = b + a."),
            ("As one and the same vector.", "A sum ignores the order of its terms, so word order is lost."),
            ("As two similar vectors.", "Not only similar: the same embeddings are summed, in another order."),
        ],
        right=1,
        explanation="Who is afraid of whom is lost. Position encoding weights each position differently.",
    )
)
register_quiz(
    Quiz(
        id="2.c",
        question="Where is Mary? A network without temporal encoding is trained on 1,000 such questions. What is its test error?",
        options=[
            ("Near 0 %: the memory contains every sentence about Mary.", "It does, but not which of them came last."),
            ("Near 83 %: it has to guess one of the six rooms.", "It can rule out the rooms that Mary never entered."),
            (
                "In between: it knows Mary's rooms, but not their order.",
                "A multiset of statements has no last element.",
            ),
        ],
        right=2,
        explanation="Attention ignores the order of the memories. Where order matters, the vectors must encode it.",
    )
)
register_quiz(
    Quiz(
        id="2.d",
        question="Why might training begin with a few epochs without softmax?",
        options=[
            ("Epochs without exponentials take less time.", "They save a little time, but that is not the reason."),
            (
                "Gradients may reach more of the sentences.",
                "That is the hypothesis: a softmax that has settled on wrong sentences passes hardly any gradient to others.",
            ),
            (
                "These tasks need no softmax at all.",
                "The softmax is switched on after these epochs, and every network below is tested with it.",
            ),
        ],
        right=1,
        explanation="Where a softmax is saturated, its gradient is nearly 0 (lesson 01). The paper says only that a linear start seems to help avoid local minima.",
    )
)
