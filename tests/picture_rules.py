"""What every picture of the course must keep to, whatever it shows."""

from itertools import combinations

from tests.test_draw_figures import cut_texts, drawn_texts, is_on_screen

SMALLEST = 11  # points
SLIDE = (12.5, 9.0)  # inches


def broken_rules(figure):
    """The rules that a drawn figure breaks, in words; an empty list if it keeps to all of them."""
    return [
        *(f"cut at the edge: {words!r}" for words in cut_texts(figure)),
        *(f"too small: {words!r}, {size:g} points" for words, size in small_texts(figure)),
        *(f"lie over each other: {one!r} and {other!r}" for one, other in overlaps(figure)),
        *off_the_slide(figure),
    ]


def small_texts(figure):
    """Texts that nobody in the last row can read."""
    return [(text.get_text(), text.get_fontsize()) for text in drawn_texts(figure) if text.get_fontsize() < SMALLEST]


def overlaps(figure):
    """Pairs of texts that cover each other by more than a hair."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure) if is_on_screen(text)]
    return [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 2 and min(a.y1, b.y1) - max(a.y0, b.y0) > 4
    ]


def off_the_slide(figure):
    width, height = figure.get_size_inches()
    fits = width <= SLIDE[0] and height <= SLIDE[1]
    return [] if fits else [f"too large for a slide: {width:.1f} by {height:.1f} inches"]
