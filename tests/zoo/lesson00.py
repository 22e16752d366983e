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
            (lambda numbers: numbers / torch.mean(numbers), "Divided by the mean"),
            (lambda numbers: numbers / numbers.sum() * 100, "percentages"),
            (lambda numbers: numbers / (numbers**2).sum().sqrt(), "length of the vector"),
            (lambda numbers: numbers / torch.cumsum(numbers, 0), "sum so far"),
            (lambda numbers: numbers.sum(), "sum alone"),
            (lambda numbers: numbers.sum() / numbers, "Upside down"),
            (lambda numbers: (numbers / numbers.sum()).numpy(), "NumPy"),
            (lambda numbers: numbers.div_(numbers.sum()), "in place"),
            (lambda numbers: None, "returned nothing"),
            (lambda numbers: torch.tensor([0.2, 0.3, 0.5]), "shape"),
            (lambda numbers: [float(number / numbers.sum()) for number in numbers], "is a list"),
            (lambda numbers: (numbers / numbers.sum()).half(), "three digits"),
            (lambda numbers: numbers // numbers.sum(), "expected"),
        ],
        right=[
            lambda numbers: numbers * (1 / numbers.sum()),
            lambda numbers: torch.stack([number / sum(numbers) for number in numbers]),
            lambda numbers: numbers.double() / numbers.double().sum(),
        ],
    )
}
