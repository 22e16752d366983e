"""Lesson 03: its exercises with the mistakes that people make in them, and its quizzes."""

import inspect

import torch

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import built_module, masked_rows_give_zeros, normal
from utils.exercises.edits import BODY, mistake
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson03 as solved

RETURN_SCORES = "Those are attention weights. Return the scores; `attend` applies the softmax."
NOT_SCALED = "The scores were divided by a square root. Do not scale them: the papers of this lesson do not."
SCORES_TRANSPOSED = "The scores are transposed. Rows are queries, columns are keys: (b, m, n)."
NOT_SUMMED = "The products were not summed over the last axis. A score is one number per pair: (b, m, n)."
USE_TRANSPOSE = "The keys were not transposed. The product sums over the features: use `keys.transpose(1, 2)`."
DOT_T = "`.T` reverses all three axes, the batch too. Swap the last two: `keys.transpose(1, 2)`."


# ---------------------------------------------------------------------------------------------- 3.1 padding
def pad_cases(generator):
    def draw(*lengths):
        return [torch.randint(4, 40, (length,), generator=generator).tolist() for length in lengths]

    return [
        Case((draw(3, 5, 1),), note="three sentences"),
        Case((draw(2, 2, 6, 4), 99), note="pad_id=99"),
        Case(([[0, 7, 0], *draw(5)], -1), note="pad_id=-1, and 0 is a token"),
        Case(([[5, 0, 7], *draw(5, 2)],), note="0 is a token and the padding"),
        Case((draw(4),), note="one sentence"),
        Case((draw(3, 3),), note="two sentences of equal length"),
        Case((draw(6, 1, 4, 2, 3),), note="the longest sentence comes first"),
    ]


ROW = "sentence + [pad_id] * (max_len - len(sentence))"
MASK = "torch.arange(max_len) < lengths.unsqueeze(1)"
PADDING_IGNORED = "The argument `pad_id` has no effect. Pad with that id, not always with 0."
SORTED = "The sentences were sorted by length. Keep their order: row i is sentence i."

register(
    Exercise(
        id="3.1",
        cases=pad_cases,
        output_names=("token_ids", "attention_mask"),
        mistakes=[
            mistake(
                [
                    (ROW, "[pad_id] * (max_len - len(sentence)) + sentence"),
                    (MASK, "torch.arange(max_len) >= max_len - lengths.unsqueeze(1)"),
                ],
                "The sentences were padded on the left. Append the padding on the right, after the tokens.",
            ),
            mistake("<", ">=", "The mask is inverted. True marks a token, False marks padding."),
            mistake("[pad_id]", "[0]", PADDING_IGNORED),
            mistake([("[pad_id]", "[0]"), (MASK, "token_ids != 0")], PADDING_IGNORED),
            mistake(
                [("max(", "min("), (ROW, "sentence[:max_len]")],
                "The sentences were truncated to the shortest length. Pad them to the longest length instead.",
            ),
            mistake(
                [("return token_ids", "return token_ids.T"), (MASK, f"({MASK}).T")],
                "The result is transposed. Return (b, n), one row per sentence; `pad_sequence` needs `batch_first=True`.",
            ),
            mistake(MASK, "token_ids != 0", "The mask treats every 0 as padding. Compare positions with the lengths."),
            mistake(
                MASK,
                "token_ids != pad_id",
                "A token with the id of the padding is masked. Compare positions with the lengths of the sentences.",
            ),
            mistake(MASK, "token_ids == token_ids", "The mask is True everywhere. It must be False at the padding."),
            mistake(")\ntoken_ids", ") + 1\ntoken_ids", "Every sentence was padded. The longest one needs no padding."),
            mistake("max_len = max", "sentences = sorted(sentences, key=len)\nmax_len = max", SORTED),
            mistake("max_len = max", "sentences = sorted(sentences, key=len)[::-1]\nmax_len = max", SORTED),
            mistake(f"token_ids, {MASK}", f"{MASK}, token_ids", "The results are swapped. Return the ids first."),
        ],
        hints=[
            "`max(len(sentence) for sentence in sentences)` is the length of every row.",
            "`sentence + [pad_id] * k` appends k padding ids; `torch.tensor` of a list of such rows is (b, n).",
            "The mask compares each position with the length of its row: `torch.arange(n) < lengths.unsqueeze(1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.2 RNN step
def step_cases(generator):
    def case(b, d, w, note=""):
        sizes = ((b, d), (b, w), (w, d), (w, w), (w,))
        return Case(tuple(normal(generator, *size) for size in sizes), note=note)

    return [
        case(2, 3, 4),
        case(3, 5, 2),
        case(1, 2, 3, note="one sentence"),
        case(4, 3, 3, note="d = w"),
        case(3, 3, 3, note="all sizes equal"),
    ]


SUM_FIRST = "Add all three terms first, then take one tanh of the sum."
TWO_TANH = f"Input and hidden state each went through their own tanh. {SUM_FIRST}"
TRANSPOSE = "PyTorch stores them as (w, d) and (w, w): use `x @ W_ih.T` and `h @ W_hh.T`."

register(
    Exercise(
        id="3.2",
        cases=step_cases,
        gradient=True,
        mistakes=[
            mistake("torch.tanh", "", "The tanh is missing. Without it several steps collapse into one linear layer."),
            mistake("torch.tanh", "torch.sigmoid", "The nonlinearity is a sigmoid. This cell uses tanh."),
            mistake("torch.tanh", "torch.relu", "The nonlinearity is a ReLU. This cell uses tanh."),
            mistake(" + h @ W_hh.T", "", "The previous hidden state has no effect. Add `h @ W_hh.T`."),
            mistake("x @ W_ih.T + ", "", "The input has no effect. Add `x @ W_ih.T`."),
            mistake(" + bias", "", "The bias is missing. Add it inside the tanh."),
            mistake(" + bias)", ") + bias", "The bias was added after the tanh. Add it inside."),
            mistake("x @ W_ih.T +", "x @ W_ih.T) + torch.tanh(", TWO_TANH),
            mistake(BODY, "return torch.tanh(x @ W_ih.T) + torch.tanh(h @ W_hh.T) + bias", TWO_TANH),
            mistake(
                "x @ W_ih.T + h @ W_hh.T + bias)",
                "x @ W_ih.T) + h @ W_hh.T + bias",
                f"The tanh covers only the input. {SUM_FIRST}",
            ),
            mistake(
                "return", "return h +", "The previous hidden state was added again. The tanh is the new hidden state."
            ),
            mistake("W_hh.T", "W_hh", f"`W_hh` is not transposed. {TRANSPOSE}"),
            mistake([("W_ih.T", "W_ih"), ("W_hh.T", "W_hh")], f"The matrices are not transposed. {TRANSPOSE}"),
            mistake(
                "x @ W_ih.T + h @ W_hh.T",
                "x @ W_hh.T + h @ W_ih.T",
                "The matrices are swapped. `W_ih` multiplies the input.",
            ),
        ],
        hints=[
            "The sum has three terms: one from the input, one from the previous hidden state, and the bias.",
            "Vectors are rows: x (b, d) times `W_ih.T` (d, w) is (b, w).",
            "Apply `torch.tanh` to the whole sum.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.3 unrolling
class RecurrentStep:
    """A recurrent step with parameters of its own, which insists on one token of every sentence."""

    def __init__(self, generator, d, w):
        self.parameters = normal(generator, w, d), normal(generator, w, w), normal(generator, w)

    def __repr__(self):
        return "a recurrent step"

    def __call__(self, x, state):
        wanted = (*state.shape[:-1], self.parameters[0].size(1))
        if state.dim() != 2:
            raise Wrong(
                f"`step` got a state of shape {tuple(state.shape)}, but it takes the whole batch, (b, d) and (b, w). "
                "Loop over the positions only, with `x[:, t]`."
            )
        if x.shape != wanted:
            raise Wrong(
                f"`step` got an input of shape {tuple(x.shape)}, expected {wanted}: one token of each sentence. "
                "Positions are axis 1 of `x`, so token t is `x[:, t]`."
            )
        return solved.rnn_step(x, state, *(parameter.to(x.dtype) for parameter in self.parameters))


def read_cases(generator):
    def case(b, n, d, w, note=""):
        return Case((normal(generator, b, n, d), normal(generator, b, w), RecurrentStep(generator, d, w)), note=note)

    return [
        case(2, 5, 3, 4),
        case(3, 4, 2, 5),
        case(1, 6, 3, 2, note="one sentence"),
        case(4, 1, 2, 3, note="one token"),
        case(3, 3, 4, 2, note="as many sentences as tokens"),
    ]


BEFORE = "Those are the states before each token. Append the state after each step."
NOT_LAST = "The second result is not the last state. Return the state after the last token."
APPEND_FIRST = [
    ("    h = step", "    states.append(h)\n    h = step"),
    ("\n    states.append(h)\nreturn", "\nreturn"),
]

register(
    Exercise(
        id="3.3",
        cases=read_cases,
        gradient=True,
        output_names=("states", "last state"),
        mistakes=[
            mistake(
                [("    h = step", "    new = step"), ("append(h)", "append(new)"), ("1), h", "1), new")],
                "Every step started from the initial state. Pass each step the state that the previous one returned.",
            ),
            mistake("[]", "[]\nh = 0 * h", "The initial state was replaced by zeros. Start with `h`."),
            mistake("x.unbind(1)", "x.flip(1).unbind(1)", "The tokens were read in reverse. Start with token 0."),
            mistake("(states, 1)", "(states)", "The states are (n, b, w). The batch comes first: stack on axis 1."),
            mistake(APPEND_FIRST, BEFORE),
            mistake([*APPEND_FIRST, ("1), h", "1), states[-1]")], BEFORE),
            mistake("[]", "[h]", "The initial state is in the output. Return one state per token, n."),
            mistake([("[]", "[]\nfirst = h"), ("1), h", "1), first")], NOT_LAST),
            mistake("1), h", "1), states[0]", NOT_LAST),
            mistake(
                "1), h",
                "1), torch.stack(states, 1)[-1]",
                "The second result belongs to the last sentence. The last state of every sentence is `states[:, -1]`.",
            ),
            mistake("1), h", "1), h[:, None]", "The last state has an extra axis. Return (b, w)."),
            mistake([("return", "return h,"), ("1), h", "1)")], "The results are swapped. States come first."),
            mistake("x.unbind(1)", "x", "The loop ran over sentences. Token t of every sentence is `x[:, t]`."),
            mistake("x_t, h)", "h, x_t)", "The arguments of `step` are swapped. Use `step(x_t, h)`."),
        ],
        hints=[
            "Start with an empty list, and keep the latest state in a variable.",
            "`for x_t in x.unbind(1)` gives token 0 of every sentence, then token 1, and so on: each is (b, d).",
            "Call `h = step(x_t, h)` and append it; at the end `torch.stack(states, 1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.4 dot score
def pair_cases(generator, *extra, same_width=False):
    """query (b, m, d), keys (b, n, e) and the weights of the score, whose axes `extra` names: "ed", "k"."""

    def case(note="", **sizes):
        if same_width:
            sizes["e"] = sizes["d"]
        shapes = [[sizes[axis] for axis in axes] for axes in ("bmd", "bne", *extra)]
        return Case(tuple(normal(generator, *shape) for shape in shapes), note=note)

    return [
        case(b=2, m=3, n=5, d=4, e=6, k=7),
        case(b=3, m=1, n=4, d=2, e=5, k=6, note="one query"),
        case(b=1, m=4, n=2, d=5, e=3, k=2, note="one sentence"),
        case(b=2, m=4, n=3, d=3, e=3, k=5, note="queries and keys of equal width"),
        case(b=3, m=3, n=3, d=3, e=3, k=3, note="all sizes equal"),
    ]


SCORES = "query @ keys.transpose(1, 2)"

register(
    Exercise(
        id="3.4",
        cases=lambda generator: pair_cases(generator, same_width=True),
        gradient=True,
        mistakes=[
            mistake(SCORES, "keys @ query.transpose(1, 2)", SCORES_TRANSPOSED),
            mistake(SCORES, f"({SCORES}).softmax(-1)", RETURN_SCORES),
            mistake(SCORES, f"{SCORES} * query.size(-1) ** -0.5", NOT_SCALED),
            mistake(
                BODY,
                "return torch.cosine_similarity(query.unsqueeze(2), keys.unsqueeze(1), -1)",
                "That is the cosine similarity, without the norms of the vectors. The dot product keeps them.",
            ),
            mistake(SCORES, f"{SCORES} / query.size(-1)", "That is the mean of the products. Take their sum."),
            mistake(BODY, "return torch.cdist(query, keys)", "Those are distances. Take dot products instead."),
            mistake(".transpose(1, 2)", "", USE_TRANSPOSE),
            mistake(".transpose(1, 2)", ".T", DOT_T),
            mistake(BODY, "return query.unsqueeze(2) * keys.unsqueeze(1)", NOT_SUMMED),
            mistake(
                "keys.transpose(1, 2)",
                "keys.reshape(len(keys), keys.size(2), -1)",
                "The keys were reshaped, which mixes up their vectors. Use `keys.transpose(1, 2)`.",
            ),
        ],
        hints=[
            "Every query is compared with every key of the same sentence: a batched matrix product.",
            "`@` multiplies the last two axes, (m, d) by (d, n), for each sentence of the batch.",
            "`keys.transpose(1, 2)` is (b, d, n).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.5 multiplicative score
def run_score(answer, name, sizes, query, keys, weights, all_pairs):
    """Build the module and call it with these weights of its linear layers, so that gradients reach them.

    all_pairs: the message if query i was combined with key i alone, which fails where m and n differ.
    """
    module = built_module(answer, name, *sizes)
    given = {parameter: tuple(value.shape) for parameter, value in module.named_parameters()}
    for parameter, weight in weights.items():
        if given.get(parameter) != tuple(weight.shape):
            layer = parameter.removesuffix(".weight")
            raise Wrong(f"`self.{layer}` is not as `__init__` made it. Restore its line: you write only `forward`.")
    try:
        return torch.func.functional_call(module, weights, (query, keys))
    except RuntimeError as error:
        if "must match" in str(error) and "non-singleton dimension 1" in str(error):
            raise Wrong(all_pairs) from error
        raise


MULTIPLY_ALL_PAIRS = (
    "Every query must meet every key. Use the matrix product of exercise 3.4: `dot_score(self.W(query), keys)`."
)
ADD_ALL_PAIRS = (
    "Every query must meet every key. Insert axes before the sum: `self.W(query).unsqueeze(2)` and "
    "`self.U(keys).unsqueeze(1)`."
)


def run_multiplicative(answer, query, keys, W):
    sizes, weights = (query.size(-1), keys.size(-1)), {"W.weight": W}
    return run_score(answer, "MultiplicativeScore", sizes, query, keys, weights, MULTIPLY_ALL_PAIRS)


SCORES = "dot_score(self.W(query), keys)"
NO_TANH = "There is a tanh too many. Only the additive score has one."

register(
    Exercise(
        id="3.5",
        cases=lambda generator: pair_cases(generator, "ed"),
        call=run_multiplicative,
        gradient=True,
        mistakes=[
            mistake(
                "self.W(query)", "query", "`W` has no effect. Use `self.W(query)`, which has the width of the keys."
            ),
            mistake(
                "self.W(query)", "query @ self.W.weight", "`W` was applied transposed. Call the layer: `self.W(query)`."
            ),
            mistake(SCORES, f"{SCORES}.transpose(1, 2)", SCORES_TRANSPOSED),
            mistake(SCORES, f"{SCORES}.softmax(-1)", RETURN_SCORES),
            mistake("self.W(query)", "self.W(query).tanh()", NO_TANH),
            mistake(SCORES, f"{SCORES}.tanh()", NO_TANH),
            mistake(SCORES, f"{SCORES} * query.size(-1) ** -0.5", NOT_SCALED),
            mistake(SCORES, f"{SCORES} * keys.size(-1) ** -0.5", NOT_SCALED),
            mistake(
                "keys)", "keys @ self.W.weight.T)", "Queries and keys were multiplied by `W`. Project the queries only."
            ),
            mistake(
                "self.W(query), keys",
                "query, keys @ self.W.weight.T",
                "The keys were multiplied by `W`. Project the queries.",
            ),
            mistake(SCORES, "self.W(query) @ keys", USE_TRANSPOSE),
            mistake(SCORES, "self.W(query) @ keys.T", DOT_T),
            mistake(SCORES, "self.W(query).unsqueeze(2) * keys.unsqueeze(1)", NOT_SUMMED),
            mistake(SCORES, "(self.W(query) * keys).sum(-1)", MULTIPLY_ALL_PAIRS),
        ],
        hints=[
            "`self.W(query)` has the width of the keys: (b, m, e).",
            "The rest is the dot score of exercise 3.4.",
            "`dot_score(self.W(query), keys)`, or `self.W(query) @ keys.transpose(1, 2)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.6 additive score
def run_additive(answer, query, keys, W, U, v):
    weights = {"W.weight": W, "U.weight": U, "v.weight": v.unsqueeze(0)}
    sizes = (query.size(-1), keys.size(-1), len(v))
    return run_score(answer, "AdditiveScore", sizes, query, keys, weights, ADD_ALL_PAIRS)


SCORES = "self.v(torch.tanh(pairs)).squeeze(-1)"

register(
    Exercise(
        id="3.6",
        cases=lambda generator: pair_cases(generator, "kd", "ke", "k"),
        call=run_additive,
        gradient=True,
        mistakes=[
            mistake("torch.tanh(pairs)", "pairs", "The tanh is missing. Without it all queries get the same weights."),
            mistake(SCORES, "torch.tanh(self.v(pairs)).squeeze(-1)", "The tanh came after `v`. Apply it before `v`."),
            mistake(
                [("query)", "query).tanh()"), ("keys)", "keys).tanh()"), ("torch.tanh(pairs)", "pairs")],
                "Query and key each went through their own tanh. Add them first, then take one tanh of the sum.",
            ),
            mistake(SCORES, "torch.tanh(pairs).sum(-1)", "`v` has no effect: the features were summed. Call `self.v`."),
            mistake(
                SCORES,
                "torch.tanh(pairs) * self.v.weight[0]",
                "The last axis is still there. Multiply by `v` and sum over it: `self.v` does both.",
            ),
            mistake(
                ".squeeze(-1)",
                ".squeeze()",
                "`.squeeze()` without an axis removes every axis of length 1, also b, m or n. Use `.squeeze(-1)`.",
            ),
            mistake(".squeeze(-1)", "", "The scores have an extra axis of length 1. Remove it with `.squeeze(-1)`."),
            mistake("torch.tanh", "torch.sigmoid", "The nonlinearity is a sigmoid. The additive score uses tanh."),
            mistake("torch.tanh", "torch.relu", "The nonlinearity is a ReLU. The additive score uses tanh."),
            mistake(" + ", " * ", "Query and key were multiplied. The additive score adds their projections."),
            mistake(SCORES, f"{SCORES}.softmax(-1)", RETURN_SCORES),
            mistake(SCORES, f"{SCORES}.transpose(1, 2)", SCORES_TRANSPOSED),
            mistake(
                [("self.W(query)", "self.U(query)"), ("self.U(keys)", "self.W(keys)")],
                "`W` and `U` are swapped. `W` projects the query, `U` the keys.",
            ),
            mistake(
                BODY,
                "return self.v(torch.tanh(self.W(query) + self.U(keys))).squeeze(-1)",
                ADD_ALL_PAIRS,
            ),
        ],
        hints=[
            "`self.W(query)` is (b, m, score_size), `self.U(keys)` is (b, n, score_size). You need their sums for all m times n pairs.",
            "`self.W(query).unsqueeze(2)` is (b, m, 1, score_size), `self.U(keys).unsqueeze(1)` is (b, 1, n, score_size).",
            "`self.v(torch.tanh(pairs))` is (b, m, n, 1); `.squeeze(-1)` removes the last axis.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.7 the decoder
class Score:
    """A score with weights of its own, which insists on its shapes."""

    def __init__(self, name, score, *weights):
        self.name, self.score, self.weights = name, score, weights

    def __repr__(self):
        return f"the {self.name} score"

    def __call__(self, query, keys):
        if query.dim() != 3 or keys.dim() != 3 or len(query) != len(keys) or query.size(1) != 1:
            raise Wrong(
                f"`self.score` got shapes {tuple(query.shape)} and {tuple(keys.shape)}. "
                "Pass the state (b, 1, hidden_size) and the memory (b, n, hidden_size), in this order."
            )
        return self.score(query, keys, *(weight.to(query.dtype) for weight in self.weights))


SCORE_FUNCTIONS = {
    "dot": solved.dot_score,
    "multiplicative": lambda *args: run_multiplicative(solved.MultiplicativeScore, *args),
    "additive": lambda *args: run_additive(solved.AdditiveScore, *args),
}


def make_decoder(answer, seed, vocab_size, hidden_size, score):
    """The answer's decoder, with parameters that depend on the seed alone."""
    if not inspect.isclass(answer):
        raise Wrong("Expected a class. Restore the line `class AttentionDecoder(nn.Module):`.")
    decoder = answer(vocab_size, hidden_size, score)
    torch.default_generator.manual_seed(seed)
    given = dict(decoder.named_parameters())
    for name, parameter in solved.AttentionDecoder(vocab_size, hidden_size, score).named_parameters():
        if name not in given or given[name].shape != parameter.shape:
            raise Wrong(f"`{name}` is not as `__init__` made it. Restore its lines: you write only `forward`.")
        given[name].data.copy_(parameter.data)
    return decoder


def run_step(answer, seed, vocab_size, score, token_ids, state, memory, mask):
    """Make the decoder and take one step."""
    decoder = make_decoder(answer, seed, vocab_size, state.size(-1), score).to(state.dtype)
    return decoder(token_ids, state, memory, mask)


def decoder_case(generator, b, n, w, vocab_size, kind, note="", lengths=None):
    shapes = {"dot": (), "multiplicative": ((w, w),), "additive": ((3, w), (3, w), (3,))}
    score = Score(kind, SCORE_FUNCTIONS[kind], *(normal(generator, *shape) for shape in shapes[kind]))
    lengths = torch.randint(1, n + 1, (b,), generator=generator) if lengths is None else torch.tensor(lengths)
    args = (
        int(torch.randint(10_000, (), generator=generator)),
        vocab_size,
        score,
        torch.randint(vocab_size, (b,), generator=generator),
        normal(generator, b, w),
        normal(generator, b, n, w),
        torch.arange(n) < lengths.unsqueeze(1),
    )
    return Case(args, note=note or f"the {kind} score")


def decoder_cases(generator):
    return [
        decoder_case(generator, 2, 5, 4, 7, "multiplicative", lengths=(3, 5)),
        decoder_case(generator, 3, 4, 6, 5, "additive"),
        decoder_case(generator, 4, 6, 3, 8, "dot"),
        decoder_case(generator, 1, 3, 4, 6, "multiplicative", note="one sentence"),
        decoder_case(generator, 2, 4, 3, 5, "dot", note="no padding", lengths=(4, 4)),
        # With swapped axes this mask is another one.
        decoder_case(generator, 3, 3, 3, 3, "multiplicative", note="all sizes equal", lengths=(1, 3, 2)),
    ]


MASK_INVERTED = "The mask is inverted: only padding gets weight. True already means may attend."
SQUEEZE_ONE = "`.squeeze()` without an axis also removes the batch axis when b = 1. Use `.squeeze(1)`."
NO_QUERY_AXIS = (
    "The (b, n) mask was broadcast to (b, b, n): each sentence got the masks of the whole batch. Add the query axis: "
    "`source_mask.unsqueeze(-2)` is (b, 1, n)."
)


def padding_gets_no_weight(answer, generator):
    case = decoder_case(generator, 3, 5, 4, 6, "multiplicative", lengths=(2, 4, 3))
    mask, (_, _, weights) = case.args[-1], answer(*case.args)
    if weights.shape == mask.shape and weights[mask].abs().max() < 1e-6 < weights[~mask].abs().max():
        raise Wrong(MASK_INVERTED)


def weights_sum_to_one(answer, generator):
    _, _, weights = answer(*decoder_case(generator, 3, 5, 4, 6, "multiplicative").args)
    if not torch.allclose(weights.sum(-1), torch.ones(3, dtype=weights.dtype), atol=1e-4):
        raise Wrong(
            "The attention weights of a sentence do not sum to 1. Mask the scores, then normalize over the source "
            "positions, the last axis; `attend` does both."
        )


def a_fully_masked_sentence_gets_zeros(answer, generator):
    args = decoder_case(generator, 3, 4, 3, 5, "dot", lengths=(2, 0, 4)).args
    logits, _, weights = answer(*args)
    masked_rows_give_zeros(weights[1], "attend")
    if not torch.allclose(logits[1], run_step(solved.AttentionDecoder, *args)[0][1], atol=1e-4):
        raise Wrong("The weights of a fully masked row are zeros, its context is not. Use the context of `attend`.")


def a_step_keeps_nothing(answer, generator):
    """The state is an argument and a result; the decoder itself may keep none."""
    seed, vocab_size, score, token_ids, state, memory, mask = decoder_case(generator, 2, 5, 4, 6, "multiplicative").args
    decoder = make_decoder(answer.answer, seed, vocab_size, 4, score)
    first = decoder(token_ids, state, memory, mask)
    decoder(token_ids.flip(0), normal(generator, 2, 4), normal(generator, 2, 5, 4), mask.flip(0))
    again = decoder(token_ids, state, memory, mask)
    if not all(torch.allclose(before, after, atol=1e-5) for before, after in zip(first, again, strict=True)):
        raise Wrong(
            "The same step gave another result the second time: something is stored in `self`. Use the given `state` and "
            "`memory`, and return the new state."
        )


KEEP_OLD = ("state = self.cell(", "old, state = state, self.cell(")
PLAIN_MASK = ("source_mask.unsqueeze(-2)", "source_mask")
LOGITS = "self.output(torch.tanh(self.combine(both)))"


def own_weights(weights, message):
    attend = "context, weights = attend(scores, memory, source_mask.unsqueeze(-2))"
    return mistake(
        attend, f"mask = source_mask.unsqueeze(-2)\nweights = {weights}\ncontext = weights @ memory", message
    )


register(
    Exercise(
        id="3.7",
        cases=decoder_cases,
        call=run_step,
        gradient=True,
        output_names=("logits", "state", "weights"),
        tolerance=1e-3,
        properties=[
            padding_gets_no_weight,
            weights_sum_to_one,
            a_step_keeps_nothing,
            a_fully_masked_sentence_gets_zeros,
        ],
        mistakes=[
            mistake(
                ", source_mask.unsqueeze(-2)",
                "",
                "The mask has no effect. Pass `source_mask.unsqueeze(-2)` to `attend`.",
            ),
            mistake([KEEP_OLD, ("score(state", "score(old")], "The query was the previous state. Use the new one."),
            mistake(
                "[state, context.squeeze(1)]",
                "[context.squeeze(1), state]",
                "The context came first in the concatenation. Use `torch.cat([state, context], -1)`.",
            ),
            mistake(LOGITS, "self.output(self.combine(both))", "The tanh between `combine` and `output` is missing."),
            mistake(LOGITS, "self.output(self.combine(both)).tanh()", "The tanh came after `output`, not before it."),
            mistake(LOGITS, "self.output(self.combine(both.tanh()))", "The tanh came before `combine`, not after it."),
            mistake(LOGITS, "self.output(state)", "The context has no effect. Apply `combine` to state and context."),
            # First of those that raise a shape error, so it must fit any of them.
            mistake(
                "torch.cat([state, context.squeeze(1)], -1)",
                "state + context.squeeze(1)",
                "The shapes do not match. `attend` returns context, then weights; `combine` takes state and `context.squeeze(1)`, concatenated.",
            ),
            mistake(
                LOGITS, "self.output(both)", "`combine` was skipped. It maps (b, 2 hidden_size) to (b, hidden_size)."
            ),
            mistake("context.squeeze(1)]", "state]", "The state was concatenated with itself, not with the context."),
            mistake([KEEP_OLD, ("[state,", "[old,")], "The previous state was concatenated. Use the new one."),
            mistake(
                [KEEP_OLD, ("score(state", "score(old"), ("[state,", "[old,")],
                "The query and the concatenation used the previous state. Compute the new state first, then use it in both.",
            ),
            mistake(
                "context, weights = attend(scores, memory, source_mask.unsqueeze(-2))",
                "context = weights = attend(scores, memory, source_mask.unsqueeze(-2))",
                "`attend` returns two tensors. Unpack them: `context, weights = attend(...)`.",
            ),
            mistake(
                "context, weights = attend",
                "weights, context = attend",
                "The results of `attend` are swapped. It returns the context first, then the weights.",
            ),
            mistake("context.squeeze(1)", "context.squeeze()", SQUEEZE_ONE),
            mistake("weights.squeeze(1)", "weights.squeeze()", SQUEEZE_ONE),
            mistake(LOGITS, f"{LOGITS}.softmax(-1)", "Those are probabilities. Return the logits."),
            mistake(LOGITS, f"{LOGITS}.log_softmax(-1)", "Those are log-probabilities. Return the logits."),
            mistake([KEEP_OLD, ("state, w", "old, w")], "The previous state was returned. Return the new one."),
            mistake(
                "state, weights.",
                "torch.tanh(self.combine(both)), weights.",
                "The output of `combine` was returned as the state. Return the state of the cell.",
            ),
            mistake("weights.squeeze(1)", "weights", "The weights have an extra axis. Use `weights.squeeze(1)`."),
            mistake(
                f"{LOGITS}, state, weights.squeeze(1)",
                f"{LOGITS}.unsqueeze(1), state, weights",
                "The logits have an extra axis. Remove the query axis from context and weights: `.squeeze(1)`.",
            ),
            mistake("state, weights.squeeze(1)", "weights.squeeze(1), state", "State and weights are swapped."),
            mistake(
                "self.embedding(token_ids), state",
                "state, self.embedding(token_ids)",
                "The arguments of the cell are swapped.",
            ),
            mistake(
                "(token_ids), state",
                "(token_ids)",
                "The cell got no state. Use `self.cell(self.embedding(token_ids), state)`.",
            ),
            mistake("self.score", "dot_score", "The scores are always dot products. Call `self.score` instead."),
            mistake("memory)  #", "memory) * state.size(-1) ** -0.5  #", NOT_SCALED),
            mistake("source_mask.unsqueeze", "~source_mask.unsqueeze", MASK_INVERTED),
            own_weights(
                "(scores * mask).softmax(-1)",
                "The masked scores became 0, and exp(0) = 1 still gets weight. Pass the mask to `attend`.",
            ),
            own_weights(
                "scores.softmax(-1) * mask",
                "The mask was applied after the softmax, so the weights no longer sum to 1. Pass it to `attend`.",
            ),
            own_weights("scores.softmax(1)", "The softmax ran over the query axis. Normalize over the last axis."),
            own_weights("scores * mask", "The softmax is missing: the weights are the scores. Use `attend`."),
            mistake([PLAIN_MASK], NO_QUERY_AXIS),
            mistake(
                [PLAIN_MASK, ("context.squeeze(1)", "context[:, 0]"), ("weights.squeeze(1)", "weights[:, 0]")],
                NO_QUERY_AXIS,
            ),
            mistake(
                [
                    PLAIN_MASK,
                    ("state, context.squeeze(1)", "state[:, None], context"),
                    (LOGITS, f"{LOGITS}.squeeze(1)"),
                ],
                NO_QUERY_AXIS,
            ),
            mistake(
                "context.squeeze(1)",
                "context",
                "The context still has its query axis, the state has none. Use `context.squeeze(1)`, (b, hidden_size).",
            ),
            mistake(
                "state.unsqueeze(1)", "state", "`self.score` got a (b, hidden_size) state. Pass `state.unsqueeze(1)`."
            ),
        ],
        hints=[
            "Compute the new state first: `self.cell(self.embedding(token_ids), state)`. Everything after it uses the new state.",
            "`self.score(state.unsqueeze(1), memory)` is (b, 1, n). `attend(scores, memory, source_mask.unsqueeze(-2))` returns context "
            "and weights, both with that query axis: remove it with `.squeeze(1)`.",
            "`torch.cat([state, context], -1)`, then `self.combine`, `torch.tanh`, `self.output`. Return logits, state, weights.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.8 greedy decoding
class PlannedStep:
    """A decoder step that generates planned sentences: token_ids (b,) and state (b, 3) to logits (b, vocab_size) and the next state.

    A row of the state holds the index of the sentence, the position, and a number without effect. The next token depends on
    the position and on the input token: another input or an old state leads elsewhere. Sentence `zero` generates 0 first.
    """

    def __init__(self, generator, lengths, vocab_size, eos_id, max_len, zero=None):
        b, num_steps = len(lengths), max(*lengths, max_len) + 1
        others = torch.tensor([token for token in range(1, vocab_size) if token != eos_id])
        self.next = others[torch.randint(len(others), (b, num_steps, vocab_size), generator=generator)]
        self.next[torch.arange(b), torch.tensor(lengths) - 1] = eos_id
        if zero is not None:
            self.next[zero, 0] = 0
        self.noise = normal(generator, b, num_steps, vocab_size)
        self.lengths, self.max_len, self.calls, self.most = lengths, max_len, 0, 2 * b * num_steps + 10

    def __repr__(self):
        return f"a decoder that ends after {', '.join(map(str, self.lengths))} tokens"

    def __call__(self, token_ids, state):
        self.calls += 1
        if self.calls > self.most:
            raise Wrong(
                f"With max_len = {self.max_len}, `step` was called {self.calls} times. Stop when every sentence has generated the "
                "end token, and after `max_len` tokens in any case."
            )
        if state.dim() != 2 or not isinstance(token_ids, torch.Tensor) or token_ids.shape != state.shape[:1]:
            raise Wrong(
                f"`step` got {a_thing(token_ids)} with a state of shape {tuple(state.shape)}. Pass one token id per sentence, a "
                "tensor (b,): the argmax over the last axis of the logits."
            )
        if len(token_ids) != len(self.lengths):
            raise Wrong(
                f"`step` got {len(token_ids)} of {len(self.lengths)} sentences. Pass the whole batch at every step, "
                "sentences that have ended too: a decoder also holds the source of each."
            )
        if token_ids.is_floating_point() or token_ids.dtype == torch.bool:
            raise Wrong(f"`step` got token ids of dtype {token_ids.dtype}. Embeddings need int64 (`torch.long`).")
        sentence, position = state[:, 0].long(), state[:, 1].long().clamp(max=self.next.size(1) - 1)
        likeliest = self.next[sentence, position, token_ids].unsqueeze(1)
        noise = self.noise[sentence, position]
        # A small margin, so that samples differ from the argmax; all logits are negative, as log-probabilities are.
        logits = noise.scatter(1, likeliest, noise.amax(1, keepdim=True) + 0.5) - 7.0
        return logits, torch.stack([state[:, 0], state[:, 1] + 1, torch.sin(state[:, 2] + token_ids)], 1)


def decode_cases(generator):
    def case(lengths, max_len, vocab_size=9, bos_id=1, eos_id=2, zero=None, note=""):
        b = len(lengths)
        state = torch.stack([torch.arange(b).float(), torch.zeros(b), normal(generator, b)], 1)
        return Case(
            (PlannedStep(generator, lengths, vocab_size, eos_id, max_len, zero), state, bos_id, eos_id, max_len),
            note=note,
        )

    return [
        case((3, 5), 8, note="two sentences end before the limit"),
        case((2, 9, 4), 6, note="one sentence does not end"),
        case((4,), 7, note="one sentence"),
        case((9, 8, 7), 1, note="max_len = 1"),
        case((1, 3, 2, 4, 2), 4, vocab_size=5, note="b equals the vocabulary size; the longest sentence just fits"),
        # Twice: one in 200 decoders answers two start tokens alike.
        case((5, 2, 3), 9, vocab_size=8, bos_id=6, eos_id=4, note="another start and another end token"),
        case((2, 4, 3), 9, vocab_size=8, bos_id=5, eos_id=3, note="another start and another end token"),
        case((3, 6), 9, zero=0, note="one sentence generates 0 before its end token"),
    ]


FILL = ".masked_fill(~active, 0)"
UPDATE = "    active = active & (token_ids != eos_id)\n"
APPEND = "    generated.append(token_ids)\n"
STOP = f"{UPDATE}    if not active.any():\n        break\n"
START_KEPT = "The start token is in the output. It is only the first input: start with an empty list."
NOT_REMEMBERED = (
    "A sentence that has ended continues. Remember which ones have ended: `active & (token_ids != eos_id)`."
)
END_MISSING = (
    "The end token is missing. It is the last token of a sentence: append it before you stop; 0 comes after it."
)
SAME_STEP = (
    "Decoding stopped only when all sentences generated the end token in the same step. Remember which have ended: "
    "`while active.any()`."
)
OVER_SENTENCES = "The argmax ran over the sentences. Take it over the vocabulary, the last axis of the logits."
ONE_TOKEN_SHORT = "One token is missing at the limit. Allow `max_len` tokens; the start token does not count."
CONSTANTS = "The start or end token is a constant in your code. Use the arguments `bos_id` and `eos_id`."

register(
    Exercise(
        id="3.8",
        cases=decode_cases,
        mistakes=[
            mistake([("[]", "[token_ids]"), ("< max_len", "<= max_len")], START_KEPT),
            mistake("[]", "[token_ids]", START_KEPT),
            mistake("logits, state", "logits, _", "Every step started from the initial state. Pass on the new one."),
            mistake(
                "(token_ids, ", "(0 * token_ids + bos_id, ", "Every input was the start token. Pass the latest token."
            ),
            mistake(FILL, "", "A sentence continued after its end token. Fill with 0 there."),
            mistake("~active, 0", "~active, eos_id", "The end token is repeated after the end. Fill with 0 there."),
            mistake("active.any() and ", "", "The output is padded to `max_len`. End it at the last end token."),
            mistake(
                [("active.any() and ", ""), (FILL, "")], "The end token has no effect. Stop and fill with 0 there."
            ),
            mistake(
                [(UPDATE, ""), ("    logits", f"{UPDATE}    logits")],
                "The output has one extra column of padding. Update `active` right after a token is chosen.",
            ),
            mistake([("active & (token_ids != eos_id)", "token_ids != eos_id"), (FILL, "")], NOT_REMEMBERED),
            mistake("active & (token_ids != eos_id)", "token_ids != eos_id", NOT_REMEMBERED),
            mistake("active.any()", "active.all()", "Decoding stopped when the first sentence ended. Wait for all."),
            mistake("active.any()", "(token_ids != eos_id).any()", SAME_STEP),
            mistake("(generated, 1)", "(generated, 1) * (torch.stack(generated, 1) != eos_id)", END_MISSING),
            mistake(APPEND + UPDATE, STOP + APPEND, END_MISSING),
            mistake(APPEND + UPDATE, f"{STOP}    generated.append(token_ids * active)\n", END_MISSING),
            mistake("argmax(-1)", "argmax(0)", OVER_SENTENCES),
            mistake([("-1)" + FILL, "0)"), ("append(token_ids", f"append(token_ids{FILL}")], OVER_SENTENCES),
            mistake("argmax(-1)", "softmax(-1).multinomial(1)[:, 0]", "The tokens were sampled. Take the argmax."),
            mistake(
                "!= eos_id)",
                "!= eos_id) & (token_ids != 0)",
                "A generated 0 ended its sentence. Only the token `eos_id` does.",
            ),
            mistake(
                "(generated, 1)",
                "(generated)",
                "The output is (m, b). The batch comes first: `torch.stack(generated, 1)`.",
            ),
            mistake([("[]", "[token_ids]"), ("(generated, 1)", "(generated, 1)[:, 1:]")], ONE_TOKEN_SHORT),
            mistake("< max_len", "< max_len - 1", ONE_TOKEN_SHORT),
            mistake("< max_len", "<= max_len", "There is one token too many. Stop after `max_len` tokens."),
            mistake([(", bos_id)", ", 1)"), ("!= eos_id", "!= 2")], CONSTANTS),
            mistake("!= eos_id", "!= 2", CONSTANTS),
            mistake(", bos_id)", ", 1)", CONSTANTS),
            mistake(
                " and len(generated) < max_len", "", "`max_len` has no effect. Stop after `max_len` tokens in any case."
            ),
        ],
        hints=[
            "Start with `token_ids = torch.full((len(state),), bos_id)` and a mask `active` of ones; in a loop call "
            "`logits, state = step(token_ids, state)`.",
            "`logits.argmax(-1)` is (b,). Put 0 where a sentence has ended, `.masked_fill(~active, 0)`, then update the mask: "
            "`active = active & (token_ids != eos_id)`.",
            "`while active.any() and len(generated) < max_len`, then `torch.stack(generated, 1)` after the loop.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 3.9 alignment error
def alignment_cases(generator):
    def case(m, n, links, hits, note=""):
        """Weights whose largest in each row is a gold link in `hits` rows, and elsewhere in the others."""
        rows = []
        for target in range(m):
            gold = [source for source, position in links if position == target]
            wrong = [source for source in range(n) if source not in gold]
            pool = gold if gold and (target < hits or not wrong) else wrong
            chosen = pool[int(torch.randint(len(pool), (), generator=generator))]
            row = 0.5 * normal(generator, n)
            row[chosen] = row.max() + 0.3
            rows.append(row)
        return Case((torch.stack(rows).softmax(-1), set(links)), note=note)

    def some_correct(m, n):
        """Another error in each draw: what was kept from an earlier call shows."""
        hits = int(torch.randint(m, (), generator=generator))
        return case(m, n, [(position, position) for position in range(m)], hits, note="some links are correct")

    reordered = [(0, 0), (3, 1), (2, 2), (1, 3)]
    one_to_two = [(0, 0), (1, 1), (3, 2), (4, 3), (3, 4)]  # "not" to "ne ... pas"
    two_to_one = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3)]  # "of the" to "du"
    return [
        case(4, 4, reordered, 4, note="reordered, every link is correct"),
        case(4, 4, reordered, 2, note="reordered, two links are correct"),
        case(5, 6, one_to_two, 3, note="one source word is linked to two target words"),
        case(4, 7, two_to_one, 3, note="two source words are linked to one target word"),
        case(6, 3, [(0, 0), (1, 1), (1, 3), (2, 5)], 3, note="two target words have no gold link"),
        case(3, 5, [(0, 0), (1, 1), (2, 2)], 0, note="no link is correct"),
        some_correct(7, 8),
        some_correct(9, 9),
        case(1, 2, [(1, 0)], 1, note="one target word"),
        case(2, 2, [(0, 0), (1, 1)], 0, note="two words, both links wrong"),  # the smallest weights would be correct
    ]


def links_stay_unchanged(answer, generator):
    weights, links = alignment_cases(generator)[2].args
    before = set(links)
    answer(weights, links)
    if links != before:
        raise Wrong(
            "The input `links` was changed. `links & predicted` is a new set; `links &= predicted` and `.remove` are in place."
        )


LINK = "(source, target) for"
LARGEST = "enumerate(weights.argmax(1).tolist())"
SHARE = "2 * len(predicted & links) / (len(predicted) + len(links))"
DIVIDE = "Divide 2 |A ∩ S| by |A| + |S|."
NO_END_TOKENS = "These weights contain no end tokens."

register(
    Exercise(
        id="3.9",
        cases=alignment_cases,
        properties=[links_stay_unchanged],
        mistakes=[
            mistake(
                [("for target, source", "for source, target"), ("argmax(1)", "argmax(0)")],
                "Each source word got one link. Take the argmax over the source positions: one link per target word.",
            ),
            mistake(LINK, "(target, source) for", "The links are reversed. Store (source, target) positions."),
            mistake("2 * ", "", f"The factor 2 is missing: a perfect alignment would not reach 0. {DIVIDE}"),
            mistake("1 - ", "", "That is the agreement. The error is 1 minus it."),
            mistake(SHARE, "len(predicted & links) / len(predicted)", f"The denominator is |A|. {DIVIDE}"),
            mistake(SHARE, "len(predicted & links) / len(links)", f"The denominator is |S|. {DIVIDE}"),
            mistake(SHARE, "len(predicted & links) / len(predicted | links)", f"That uses |A ∪ S|. {DIVIDE}"),
            mistake("(len(predicted) + len(links))", "len(predicted | links)", f"The denominator is |A ∪ S|. {DIVIDE}"),
            mistake(
                LARGEST,
                "(weights > 0.5).nonzero().tolist()",
                "All weights above 0.5 became links. A target word gets exactly one, to its largest weight.",
            ),
            mistake(LINK, "(source + 1, target + 1) for", "The positions are counted from 1. Count them from 0."),
            mistake("weights.", "weights[:-1, :-1].", f"The last row and column were dropped. {NO_END_TOKENS}"),
            mistake("weights.", "weights[:-1].", f"The last target word was dropped. {NO_END_TOKENS}"),
            mistake("1 - 2 *", "100 - 200 *", "That is a percentage. Return a fraction between 0 and 1."),
            mistake("argmax", "argmin", "The links go to the smallest weights. Take the argmax."),
            mistake(".tolist()", "", "Tensors in a set equal no int. Convert them to ints with `.tolist()` first."),
            mistake(
                "predicted =",
                "links = {(source, target) for target, source in {t: s for s, t in sorted(links)}.items()}\npredicted =",
                "Only one of several gold links of a target word was counted in |S|. Keep `links` as the given set.",
            ),
        ],
        hints=[
            "`weights.argmax(1)` is the source position of each target word; `.tolist()` converts it to Python ints.",
            "`{(source, target) for target, source in enumerate(positions)}` is the set A.",
            "`len(predicted & links)` counts the links in both sets.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- quizzes
register_quiz(
    Quiz(
        id="3.a",
        question="Which change gives the decoder more numbers about an 18-word source sentence?",
        options=[
            (
                "Training on more sentences of 18 words.",
                "The final state may be used better, but it has as many numbers as before.",
            ),
            (
                "Encoding in both directions, each with half the hidden size.",
                "Two halves are concatenated to one vector of the same size.",
            ),
            ("Doubling the hidden size.", "Hidden state and cell state both have twice as many numbers then."),
            (
                "Splitting the 18 words into subword tokens.",
                "The encoder takes more steps, but only its final state is passed on.",
            ),
        ],
        right=2,
        explanation="The size of the final state is fixed by the model. The length of the sentence does not change it.",
    )
)
register_quiz(
    Quiz(
        id="3.b",
        question="A recurrent layer processes a sentence of twice the length, on hardware with unlimited parallelism. How "
        "much longer does it take?",
        options=[
            ("No longer: all words are processed in parallel.", "Word 2 needs the state after word 1."),
            ("A little longer.", "No two steps of one sentence can run in parallel, so nothing is saved."),
            ("Twice as long.", "Each step waits for the previous one, however many cores there are."),
            (
                "Four times as long.",
                "That would be comparing every word with every other; here each is processed once.",
            ),
        ],
        right=2,
        explanation="More cores make one step faster or allow larger batches. The steps of one sentence stay sequential.",
    )
)
register_quiz(
    Quiz(
        id="3.c",
        question="A decoder predicts each token correctly with probability 0.99, and errors are independent. Which fraction "
        "of the sentences of 20 tokens is an exact match?",
        options=[
            ("99 %", "That is the accuracy of one token. All 20 must be correct."),
            ("95 %", "That would be five tokens: 0.99 to the power of 5."),
            ("82 %", "0.99 to the power of 20 is 0.818."),
            ("20 %", "20 times 1 % is close to the probability of at least one error, 18 %."),
        ],
        right=2,
        explanation="Independent errors give a geometric fall, a to the power of n. The next figure compares it with the measurement.",
    )
)
register_quiz(
    Quiz(
        id="3.d",
        question="Which of the three scores can compare a decoder state of width 256 with encoder states of width 512?",
        options=[
            ("All three.", "The dot product needs two vectors of equal width."),
            ("Only the additive score.", "The multiplicative score can too: its W projects 256 numbers to 512."),
            (
                "The multiplicative and the additive score.",
                "Both project to a common width; the dot score has no parameters.",
            ),
            ("Only the dot score.", "It is the only one that cannot: it needs vectors of equal width."),
        ],
        right=2,
        explanation="The additive score projects both to a width of its own, score_size, with W and U.",
    )
)
register_quiz(
    Quiz(
        id="3.e",
        question="'the european economic area' becomes 'la zone économique européenne'. Which English word gets the largest "
        "attention weight when the model generates 'zone'?",
        options=[
            ("'european': it is at the same position.", "The order is reversed: 'european' is needed last."),
            ("'the'.", "It is already translated, as 'la'."),
            ("'economic'.", "It is needed next, for 'économique'."),
            ("'area'.", "'zone' translates 'area'."),
        ],
        right=3,
        explanation="Source and target have a different word order, so not all of the largest weights are on the diagonal.",
    )
)
