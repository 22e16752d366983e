"""Answers to lesson 00's exercise."""

import torch

from tests.zoo import Zoo

ZOO = {
    "0.1": Zoo(
        wrong=[
            (lambda numbers: numbers, "came back as they went in"),
            (lambda numbers: numbers / len(numbers), "how many there are"),
            (lambda numbers: numbers / numbers.max(), "largest share is 1"),
            (lambda numbers: torch.softmax(numbers, -1), "lesson 01"),
            (lambda numbers: numbers.sum(), "sum alone"),
            (lambda numbers: numbers.sum() / numbers, "Upside down"),
            (lambda numbers: (numbers / numbers.sum()).numpy(), "NumPy"),
            (lambda numbers: numbers.div_(numbers.sum()), "in place"),
            (lambda numbers: None, "returned nothing"),
        ],
        right=[
            lambda numbers: numbers * (1 / numbers.sum()),
            lambda numbers: torch.stack([number / sum(numbers) for number in numbers]),
            lambda numbers: numbers.double() / numbers.double().sum(),
        ],
    )
}
