"""The comparison: what it refuses, in which words, and what it must never refuse."""

import functools
from dataclasses import replace

import numpy
import pytest
import torch

from utils.checks.compare import Case, Wrong, compare, difference, judge, matched_message, short
from utils.exercises.edits import mistake
from utils.exercises.registry import Exercise, find, grade


def softmax(scores):
    return torch.softmax(scores, -1)


def drawn(*shapes):
    """Cases of one random tensor each, or of several where a shape is a list of shapes."""

    def cases(generator):
        several = [shape if isinstance(shape, list) else [shape] for shape in shapes]
        return [Case(tuple(torch.randn(*shape, generator=generator) for shape in each)) for each in several]

    return cases


THREE_SHAPES = drawn((3,), (2, 5), (2, 3, 4))


def ask(reference, cases=THREE_SHAPES, mistakes=(), **options):
    return Exercise("99.1", "something", "easy", 5, reference, cases, list(mistakes), **options)


SOFTMAX = ask(
    softmax,
    mistakes=[
        mistake(lambda scores: torch.softmax(scores, 0), "softmax ran over the first axis"),
        mistake(softmax, "a model that does not differ from the reference is never blamed"),
    ],
    gradient=True,
)


def mix(query, keys):
    weights = torch.softmax(keys @ query, 0)
    return weights @ keys, weights


MIX = ask(mix, drawn([(2,), (1, 2)], [(3,), (4, 3)]), gradient=True, output_names=("output", "weights"))


def verdict(answer, exercise=SOFTMAX) -> str:
    """What the answer is told, or "" if it is right."""
    try:
        compare(answer, exercise, torch.Generator().manual_seed(7))
    except Wrong as wrong:
        return str(wrong)
    return ""


# Right answers


@pytest.mark.parametrize(
    "answer",
    [
        lambda scores: torch.softmax(scores.double(), -1).float(),
        lambda scores: torch.exp(torch.log_softmax(scores, -1)),
        lambda scores: softmax(scores.flip(-1)).flip(-1),
        lambda scores, extra=None: softmax(scores),
        functools.partial(torch.softmax, dim=-1),
    ],
)
def test_right_answers_in_another_order_or_dtype_pass(answer):
    assert verdict(answer) == ""


def test_results_in_another_dtype_are_refused_unless_the_exercise_takes_any():
    exercise = ask(lambda x: {"sums": [x.sum(-1)]}, drawn((3, 4)))

    def wide(x):
        return {"sums": [x.double().sum(-1)]}

    assert "Inputs in float32 gave a result in float64: end with `.to(torch.float32)`" in verdict(wide, exercise)
    assert verdict(wide, replace(exercise, any_float=True)) == ""
    table = ask(lambda length: torch.ones(length), lambda generator: [Case((4,))])
    assert "The result is in float64" in verdict(lambda length: torch.ones(length).double(), table)


def test_sums_in_another_order_pass_at_any_size():
    def cases(generator):
        return [Case((torch.randn(3, 1000, generator=generator) * size,)) for size in (1e-4, 1, 1e4)]

    exercise = ask(lambda x: x.sum(-1), cases)
    answers = [
        lambda x: x.flip(-1).cumsum(-1)[:, -1],
        lambda x: x.double().sum(-1).float(),
        lambda x: x @ torch.ones(1000),
    ]
    for seed in range(5):
        for answer in answers:
            compare(answer, exercise, torch.Generator().manual_seed(seed))


def test_a_gradient_that_is_only_rounding_is_not_held_against_an_answer():
    def cosine(a, b):
        return a @ b / (a.norm() * b.norm())

    def cases(generator):  # in one dimension the cosine is a sign and its gradient zero
        return [Case((torch.randn(1, generator=generator) / 50, torch.randn(1, generator=generator) * 9))]

    exercise = ask(cosine, cases, gradient=True)
    for seed in range(10):
        answer = functools.partial(torch.nn.functional.cosine_similarity, dim=0)
        compare(lambda a, b, f=answer: f(a, b), exercise, torch.Generator().manual_seed(seed))


# Wrong answers and their words


def in_place(scores):
    result = softmax(scores)
    scores += 1
    return result


def grows(scores, calls=[]):  # noqa: B006 (this is what is tested)
    calls.append(0)
    return softmax(scores) + (len(calls) > 6)


def reuses_a_buffer(scores, buffers={}):  # noqa: B006
    buffer = buffers.setdefault(scores.shape, torch.zeros(scores.shape))
    with torch.no_grad():
        return buffer.copy_(softmax(scores))


def keeps_by_identity(scores, kept={}):  # noqa: B006
    # the tensor is kept too, so that its id stays taken
    return kept.setdefault(id(scores), (scores, softmax(scores)))[1]


def switches_gradients_off(scores):
    torch.set_grad_enabled(False)
    return softmax(scores)


def calls_itself(scores):
    return calls_itself(scores)


def cuts_by_numpy(scores):
    return torch.from_numpy(numpy.exp(scores.numpy()) / numpy.exp(scores.numpy()).sum(-1, keepdims=True))


class Unfriendly:
    def __eq__(self, other):
        raise ValueError("no")

    def __repr__(self):
        raise ValueError("no")


WRONG = [
    (lambda scores: torch.softmax(scores, 0), "softmax ran over the first axis"),
    (lambda scores: None, "returned nothing"),
    (lambda scores: softmax(scores).numpy(), "return a torch tensor"),
    (lambda scores: (softmax(scores), 1), "return one torch tensor"),
    (lambda scores: 3.0, "Python number 3.000"),
    (lambda scores: Unfriendly(), "object of type Unfriendly"),
    (lambda scores: softmax(scores) > 0, "dtype bool: expected real numbers"),
    (lambda scores: softmax(scores).half(), "dtype float16, which has at most three significant digits"),
    (lambda scores: softmax(scores).to_sparse(), "has no plain values"),
    (lambda scores: softmax(scores)[..., :-1], "has shape (2,): expected (3,). Check axis 0."),
    (lambda scores: softmax(scores)[None], "Axis 0 is one too many"),
    (lambda scores: softmax(scores).sum(-1), "Axis 0 is missing"),
    (
        lambda scores: softmax(scores).transpose(0, -1),
        "has shape (5, 2): expected (2, 5). The axes 0 and 1 are swapped",
    ),
    (lambda scores: softmax(scores) * float("nan"), "contains NaN"),
    (lambda scores: softmax(scores) / 0, "contains infinite values"),
    (lambda scores: softmax(2 * scores), "has wrong values (3 of 3)"),
    (in_place, "changed its input `scores` in place"),
    (keeps_by_identity, "result of an earlier call"),
    (switches_gradients_off, "no gradient flows back"),
    (grows, "two different results"),
    (reuses_a_buffer, "later call changed the result of an earlier one"),
    (lambda scores: softmax(scores.detach()), "no gradient flows back"),
    (cuts_by_numpy, "NumPy cut it"),
    (lambda scores: softmax(scores.detach()) * 2 - softmax(scores), "gradient with respect to `scores` is not"),
    (
        lambda scores: softmax(scores) + 0 * (scores - scores).sqrt().sum(),
        "gradient with respect to `scores` contains NaN",
    ),
    (lambda scores: 1 / 0, "ZeroDivisionError: division by zero, at line"),
    (calls_itself, "calls itself without end"),
    (lambda scores: exit(3), "not by leaving Python"),
    (lambda: 1, "It must be callable with the arguments (scores), but takes ()"),
    (lambda scores, more: 1, "missing a required argument: 'more'"),
    (torch.ones(2), "Expected a function, got a torch tensor of shape (2,)"),
]


def settings_of_torch():
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )


@pytest.mark.parametrize(("answer", "words"), WRONG)
def test_a_wrong_answer_gets_a_message_and_torch_is_the_same_afterwards(answer, words):
    before = settings_of_torch()
    message = verdict(answer)
    assert words in message
    assert "compare.py" not in message
    assert settings_of_torch() == before


def test_the_smallest_failing_case_is_shown_with_both_values():
    message = verdict(lambda scores: torch.softmax(2 * scores, -1))
    generator = torch.Generator().manual_seed(7)
    torch.randint(2**31, (), generator=generator)
    scores = SOFTMAX.make_cases(generator)[0].args[0]
    for line in (
        f"scores = {short(scores)}",
        f"expected {short(softmax(scores))}",
        f"got      {short(softmax(2 * scores))}",
    ):
        assert f"    {line}" in message


class Leaves:
    def __getattribute__(self, name):
        raise SystemExit


# Models of mistakes


def test_a_mistake_that_raises_is_known_by_its_error():
    mistakes = [
        mistake(lambda a, b: a * b, "not element by element"),
        mistake(lambda a, b: a @ b, "the second factor must be transposed"),
    ]
    exercise = ask(lambda a, b: a @ b.T, drawn([(2, 3), (4, 3)]), mistakes)
    assert verdict(lambda a, b: torch.matmul(a, b), exercise) == "the second factor must be transposed"
    assert verdict(lambda a, b: b * a, exercise) == "not element by element"
    assert "KeyError" in verdict(lambda a, b: {}["a"], exercise)


def sums(x, absolute=False):
    return (x.abs() if absolute else x).sum(-1)


def means(x, absolute=False):
    return (x.abs() if absolute else x).mean(-1)


def means_unless_absolute(x, absolute=False):
    return x.abs().sum(-1) if absolute else x.mean(-1)


def test_of_several_mistakes_the_one_that_shows_alone_is_told_and_none_that_would_show_where_the_answer_is_right():
    def cases(generator):
        kinds = [(n, absolute) for absolute in (False, True) for n in (3, 4, 5)]
        return [Case((torch.randn(2, n, generator=generator), absolute)) for n, absolute in kinds]

    message = "the sum, not the mean"
    exercise = ask(sums, cases, [mistake(means, message)])
    told = verdict(lambda x, absolute=False: (x.square() if absolute else x).mean(-1), exercise)
    assert told == f"{message} (Seen in 3 of the 6 failing cases.)"
    assert matched_message(told, ["another", message]) == matched_message(message, [message]) == message
    assert matched_message(told, ["another"]) == matched_message("", [message]) == ""
    assert "wrong values" in verdict(means_unless_absolute, exercise)
    exercise.mistakes = [mistake(means_unless_absolute, "only there")]
    assert verdict(means_unless_absolute, exercise) == "only there"


# Other kinds of results


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda output, weights: [output, weights], ""),
        (lambda output, weights: output, "tuple of 2 (output, weights)"),
        (lambda output, weights: (output, weights, 1), "has 3 parts: expected a tuple of 2"),
        (lambda output, weights: (output, None), "`weights` is None"),
        (lambda output, weights: (weights, output), "`output` has shape"),
        (lambda output, weights: (output, weights * 2), "`weights` has wrong values"),
        (lambda output, weights: (output, weights.detach()), "from `weights`"),
    ],
)
def test_parts_of_a_tuple_are_called_by_name(change, words):
    message = verdict(lambda query, keys: change(*mix(query, keys)), MIX)
    assert words in message and bool(message) == bool(words)


def test_each_input_must_carry_the_gradient_where_there_is_one_even_if_the_notebook_switched_gradients_off():
    exercise = ask(softmax, drawn((2, 1), (2, 3)), gradient=True)  # the softmax of a single number is 1, whatever it is
    with torch.no_grad():
        assert "reaches `query`" in verdict(lambda query, keys: mix(query.detach(), keys), MIX)
        assert "no gradient" in verdict(lambda scores: softmax(scores.detach()), exercise)
        assert verdict(lambda scores: torch.ones(2, 1) if scores.shape == (2, 1) else softmax(scores), exercise) == ""


def other_kinds(x):
    return {"sum": 3.5, "count": 2, "empty": False, "name": "ab", "list": [1, 2]}


OTHER = ask(other_kinds, lambda generator: [Case((1,))])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sum": numpy.float32(3.5), "count": numpy.int64(2), "list": (1, 2)}, ""),
        ({"sum": torch.tensor(3.5)}, ""),
        ({"sum": 3.6}, "The entry 'sum' is the wrong number"),
        ({"sum": float("nan")}, "The entry 'sum' is NaN"),
        ({"sum": True}, "The entry 'sum' is the Boolean True: expected a number"),
        ({"empty": 0}, "expected True or False"),
        ({"empty": True}, "The entry 'empty' is wrong"),
        ({"name": "ba"}, "expected 'ab'"),
        ({"name": 1}, "expected a string"),
        ({"list": [1]}, "has 1 parts: expected a list of 2"),
        ({"more": 1}, "an unexpected key, 'more'"),
    ],
)
def test_numbers_strings_lists_and_dicts_are_compared(changed, words):
    message = verdict(lambda x: other_kinds(x) | changed, OTHER)
    assert words in message
    assert bool(message) == bool(words)
    assert "lacks the key 'count'" in verdict(lambda x: {"sum": 3.5}, OTHER)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda words, seen, table: words.clear(), "words"),
        (lambda words, seen, table: seen["x"].append(1), "seen"),
        (lambda words, seen, table: table.fill(1), "table"),
        (lambda words, seen, table: None, ""),
    ],
)
def test_inputs_of_any_kind_must_stay_as_they_were(change, name):
    def answer(words, seen, table):
        change(words, seen, table)
        return 2

    exercise = ask(
        lambda words, seen, table: 2,
        lambda generator: [Case((["a", "b"], {"x": [1]}), {"table": numpy.zeros(2)})],
    )
    message = verdict(answer, exercise)
    assert f"input `{name}` in place" in message if name else message == ""


def test_answers_may_draw_random_numbers_as_the_reference_does():
    def noisy(x):
        return x + torch.randn(x.shape)

    exercise = ask(noisy)
    assert verdict(lambda x: torch.randn(x.shape) + x, exercise) == ""
    assert "wrong values" in verdict(lambda x: x + torch.rand(x.shape), exercise)


# Properties


def test_a_property_speaks_before_the_plain_numbers_and_names_errors_of_the_answer():
    def rows_sum_to_one(answer, generator):
        weights = answer(torch.randn(4, 6, generator=generator))
        if not torch.allclose(weights.sum(-1), torch.ones(4), atol=1e-5):
            raise Wrong("rows do not sum to 1")

    def only_small(scores):
        return softmax(scores) if scores.shape != (4, 6) else {}["large"]

    def nothing_for_large(scores):
        return softmax(scores) if scores.shape != (4, 6) else None

    exercise = ask(softmax, properties=[rows_sum_to_one])
    assert verdict(softmax, exercise) == ""
    assert verdict(lambda scores: softmax(scores) * 2, exercise) == "rows do not sum to 1"
    assert "wrong values" in verdict(lambda scores: softmax(2 * scores), exercise)
    assert "KeyError: 'large', at line" in verdict(only_small, exercise)
    assert "is unusable: it is None" in verdict(nothing_for_large, exercise)


def raises_ours(*arguments):
    raise KeyError("ours")


@pytest.mark.parametrize(
    "exercise", [replace(SOFTMAX, reference=raises_ours), replace(SOFTMAX, properties=[raises_ours])]
)
def test_a_bug_of_the_course_is_not_blamed_on_the_answer_but_a_result_that_answers_back_is(exercise):
    assert "cannot be examined (SystemExit)" in judge(lambda scores: Leaves(), SOFTMAX, torch.Generator())
    for answer in (softmax, lambda scores: Leaves()):
        with pytest.raises(KeyError, match="ours"):
            judge(answer, exercise, torch.Generator())


def test_masks_of_infinity_and_nan_compare_as_equal():
    want = torch.tensor([1.0, float("inf"), float("-inf"), float("nan")])
    assert difference(want.clone(), want) is None
    assert difference(want.flip(0), want) is not None
    assert difference(-want, want) is not None


def test_settings_that_a_notebook_left_behind_do_not_judge_and_two_mistakes_are_two():
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    try:
        assert verdict(lambda scores: torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True) * torch.ones(1)) == ""
        for name in ("1.2", "1.6", "1.7"):  # their properties draw matrices
            assert grade(name, find(name).reference).passed
    finally:
        assert torch.get_default_dtype() == torch.float64 and torch.are_deterministic_algorithms_enabled()
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)

    def cases(generator):
        kinds = [(n, absolute) for absolute in (False, True) for n in (3, 4, 5)]
        return [Case((torch.randn(2, n, generator=generator), absolute)) for n, absolute in kinds]

    def squares_if_absolute(x, absolute=False):
        return (x.square() if absolute else x).sum(-1)

    exercise = ask(sums, cases, [mistake(means, "a mean"), mistake(squares_if_absolute, "a square")])
    both = verdict(lambda x, absolute=False: x.square().sum(-1) if absolute else x.mean(-1), exercise)
    assert both.endswith("(Seen in 3 of the 6 failing cases, and there is another mistake.)")
