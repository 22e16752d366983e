"""Lesson 00: the one exercise on which to try the machinery."""

import torch

from utils.checks.compare import Case
from utils.exercises.edits import mistake
from utils.exercises.registry import Exercise, register

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
