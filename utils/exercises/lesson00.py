"""Lesson 00: cases, common mistakes and hints of its two exercises."""

import torch

from utils.checks.compare import Case, Wrong
from utils.exercises.common import normal, random_mask
from utils.exercises.edits import BODY, mistake
from utils.exercises.registry import Exercise, register

# ---------------------------------------------------------------------------------------------- 0.1 normalize
SUM = "numbers.sum()"

register(
    Exercise(
        id="0.1",
        any_float=True,
        cases=lambda generator: [
            Case((0.1 + torch.rand(length, generator=generator) * size,), note=note)
            for length, size, note in (
                (3, 1, "three numbers"),
                (1, 4, "one number: the result is 1"),
                (7, 90, "seven numbers"),
                (30, 9, "thirty numbers"),
            )
        ],
        mistakes=[
            mistake(f"numbers / {SUM}", "numbers", "The numbers were returned unchanged. Divide them by their sum."),
            mistake(SUM, "len(numbers)", "This divides by the number of elements. Divide by the sum, `numbers.sum()`."),
            mistake(
                SUM, "numbers.max()", "This divides by the maximum, so the largest result is 1. Divide by the sum."
            ),
            mistake(
                f"numbers / {SUM}",
                "numbers.softmax(0)",
                "This is a softmax, the subject of lesson 01. Here, divide the numbers by their sum.",
            ),
            mistake(SUM, "numbers.mean()", "This divides by the mean, so the results sum to n. Divide by the sum."),
            mistake(
                "numbers /",
                "100 * numbers /",
                "These are percentages, which sum to 100. The results must sum to 1: drop the 100.",
            ),
            mistake(
                SUM, "numbers.norm()", "This divides by the Euclidean norm, so the squares sum to 1. Divide by the sum."
            ),
            mistake(
                SUM,
                "numbers.cumsum(0)",
                "Each number was divided by the cumulative sum up to it. Divide all of them by the total, `sum()`.",
            ),
            mistake(f"numbers / {SUM}", SUM, "This returns the sum alone. Divide the numbers by it."),
            mistake(f"numbers / {SUM}", f"{SUM} / numbers", "The fraction is inverted. Divide each number by the sum."),
        ],
        hints=[
            "The results must sum to 1. What must each number be divided by?",
            "`numbers.sum()` sums a tensor, and dividing a tensor by a number divides each of its elements.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 0.2 a mask of keys
def masking_cases(generator):
    shapes = {
        "b, m and n all differ": (2, 3, 5),
        "as many sequences as queries": (3, 3, 4),
        "as many queries as keys": (2, 4, 4),
        "b = m = n": (3, 3, 3),
        "one query": (2, 1, 4),
        "one sequence": (1, 2, 3),
    }
    cases = [
        Case((normal(generator, b, m, n), random_mask(generator, b, n)), note=note)
        for note, (b, m, n) in shapes.items()
    ]
    for _, attention_mask in (case.args for case in cases):
        attention_mask[0, 0], attention_mask[-1, -1] = True, False  # something to keep and something to mask
    all_or_nothing = torch.tensor([[True] * 3, [False] * 3])
    return [*cases, Case((normal(generator, 2, 4, 3), all_or_nothing), note="all keys kept, all keys masked")]


def masked_scores_are_infinite(mask_keys, generator):
    """Large negative numbers instead of minus infinity."""
    scores, attention_mask = masking_cases(generator)[0].args
    filled = mask_keys(scores.clone(), attention_mask.clone())[~attention_mask.unsqueeze(-2).expand_as(scores)]
    if filled.isfinite().all() and filled.max() < -50:
        raise Wrong('Masked scores were set to a finite number. Use minus infinity: `float("-inf")`.')


QUERY_AXIS = (
    "The mask broadcast as (1, b, n), so its rows were applied to the queries instead of the sequences. "
    "Insert the query axis: `attention_mask.unsqueeze(-2)`, shape (b, 1, n)."
)
MASK, FILL = "attention_mask.unsqueeze(-2)", 'scores.masked_fill(~mask, float("-inf"))'
register(
    Exercise(
        id="0.2",
        cases=masking_cases,
        properties=[masked_scores_are_infinite],
        mistakes=[
            mistake(".unsqueeze(-2)", "", QUERY_AXIS),
            mistake([(".unsqueeze(-2)", ""), ('float("-inf")', "-1e9")], QUERY_AXIS),
            mistake(
                [(".unsqueeze(-2)", ""), ("~mask", "mask")],
                "The mask broadcast as (1, b, n), over the queries, and the kept keys were masked. Insert the query axis with `unsqueeze(-2)`, and invert the mask: `~mask`.",
            ),
            mistake(
                "unsqueeze(-2)",
                "unsqueeze(-1)",
                "`unsqueeze(-1)` makes the mask (b, n, 1), which masks queries. Insert the new axis before the keys: `unsqueeze(-2)`, shape (b, 1, n).",
            ),
            mistake(
                BODY,
                'masked = scores.clone()\nmasked[~attention_mask] = float("-inf")\nreturn masked',
                "A mask (b, n) used as an index selects queries, the second axis of the scores. Insert the query axis with `unsqueeze(-2)` and use `masked_fill`.",
            ),
            mistake(
                MASK,
                "attention_mask[0]",
                "The mask of the first sequence was applied to every sequence. Each sequence has its own: `attention_mask.unsqueeze(-2)`.",
            ),
            mistake(
                "~mask",
                "mask",
                "The kept keys were masked. `masked_fill` overwrites where its argument is True, so pass `~mask`.",
            ),
            mistake(
                FILL,
                "scores",
                "The scores were returned unchanged. `masked_fill` returns a new tensor: return that one.",
            ),
            mistake(
                'float("-inf")',
                "0.0",
                'Masked scores were set to 0, which is larger than any negative score. Use minus infinity: `float("-inf")`.',
            ),
            mistake(
                '"-inf"',
                '"inf"',
                'Masked scores were set to plus infinity, so a masked key always wins. Use minus infinity: `float("-inf")`.',
            ),
            mistake(
                FILL,
                'scores + ~mask * float("-inf")',
                "Kept scores became NaN, because 0 times infinity is NaN. Select instead of multiplying: `masked_fill` or `torch.where`.",
            ),
            mistake(
                FILL,
                f"{FILL}.softmax(-1)",
                "A softmax was applied to the masked scores. Return the scores themselves.",
            ),
            mistake(
                FILL,
                "scores[mask.expand_as(scores)]",
                "Indexing with the mask removed the masked scores and flattened the rest. Keep the shape (b, m, n): use `masked_fill`.",
            ),
        ],
        hints=[
            "Align (b, m, n) and (b, n) at the right. Which axis does the mask lack, and between which axes does it belong?",
            "`attention_mask.unsqueeze(-2)` has shape (b, 1, n). The axis of length 1 is repeated for every query.",
            '`scores.masked_fill(~mask, float("-inf"))` overwrites the scores where `mask` is False.',
        ],
    )
)
