"""A 24 x 24 picture, small enough to cut into nine patches by hand."""

import torch
from torch import Tensor

ROWS = (
    "........................",
    "........................",
    "...........##...........",
    "..........####..........",
    ".........##..##.........",
    "........##....##........",
    ".......##......##.......",
    "......##........##......",
    ".....##..........##.....",
    "....##............##....",
    "...################...#.",
    "....#............#...#.#",
    "....#..###..####.#..#...",
    "....#..#.#..#..#.#..##..",
    "....#..###..####.#..##..",
    "....#............#...#..",
    "....#....####....#...#..",
    "....#....#..#....#...#..",
    "....#....#..#....#...#..",
    "....#....#..#....#...#..",
    "....##############..###.",
    "........................",
    "........................",
    "........................",
)


def little_house() -> Tensor:
    """Binary image (24, 24) of a house and a tree, 1 for ink."""
    return torch.tensor([[float(mark == "#") for mark in row] for row in ROWS])


def cut_patches(picture: Tensor, size: int) -> Tensor:
    """Non-overlapping patches: (h, w) to (patches, size, size), row by row."""
    return picture.unfold(0, size, size).unfold(1, size, size).reshape(-1, size, size)
