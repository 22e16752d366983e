"""Lesson 00: the one exercise on which to try the machinery."""

import torch

from utils.course.checks import Case
from utils.course.exercises import Exercise, register
from utils.exercises.edits import mistake


def shares(numbers):
    return numbers / numbers.sum()


def some_positive_numbers(generator):
    sizes = (
        (3, 1, "three numbers"),
        (1, 4, "one number: its share is 1"),
        (7, 90, "seven numbers"),
        (30, 9, "thirty numbers"),
    )
    return [Case((0.1 + torch.rand(length, generator=generator) * size,), note=note) for length, size, note in sizes]


register(
    Exercise(
        id="0.1",
        any_float=True,
        cases=some_positive_numbers,
        mistakes=[
            mistake(lambda numbers: numbers, "The numbers came back as they went in: divide them by their sum."),
            mistake(lambda numbers: numbers / len(numbers), "Divided by how many there are; divide by their sum."),
            mistake(
                lambda numbers: numbers / numbers.max(),
                "Divided by the largest; then the largest share is 1. Divide by the sum.",
            ),
            mistake(
                lambda numbers: numbers.softmax(0),
                "That is a softmax, which is lesson 01. Here only divide by the sum.",
            ),
            mistake(
                lambda numbers: numbers / numbers.mean(),
                "Divided by the mean; then the shares sum to how many there are. Divide by the sum.",
            ),
            mistake(
                lambda numbers: 100 * numbers / numbers.sum(),
                "Those are percentages, which sum to 100; shares sum to 1.",
            ),
            mistake(
                lambda numbers: numbers / numbers.norm(),
                "Divided by the length of the vector; then the squares sum to 1. Divide by the sum.",
            ),
            mistake(
                lambda numbers: numbers / numbers.cumsum(0),
                "Each number was divided by the sum so far (cumsum); divide all of them by the whole sum.",
            ),
            mistake(lambda numbers: numbers.sum(), "That is the sum alone: divide each number by it."),
            mistake(
                lambda numbers: numbers.sum() / numbers, "Upside down: each number goes over the sum, not under it."
            ),
        ],
        hints=[
            "Shares of a whole add up to 1. What must each number be divided by?",
            "`numbers.sum()` adds up a tensor, and dividing a tensor by a number divides each of its elements.",
        ],
    )
)
