"""What every picture of the course must keep to, whatever it shows."""

from utils.plots.layout import layout_facts

SMALLEST = 11  # points: smaller letters cannot be read from the last row
SLIDE = (12.5, 9.0)  # inches


def rules_broken_by(facts):
    """The rules that a picture with these facts (`utils.plots.layout`) breaks, in words."""
    size, smallest = facts["inches"], facts["smallest"]
    return [
        *(f"cut at the edge: {words!r}" for words in facts["cut"]),
        *(f"texts overlap: {first!r} and {second!r}" for first, second in facts["overlaps"]),
        *(f"hard to read: {words!r}, contrast {ratio}" for words, ratio in facts["faint"]),
        *([f"too small: letters of {smallest:g} points"] if smallest is not None and smallest < SMALLEST else []),
        *([f"too large for a slide: {size} inches"] if size[0] > SLIDE[0] or size[1] > SLIDE[1] else []),
    ]


def broken_rules(figure):
    """The rules that a figure breaks, in words; an empty list if it keeps to all of them."""
    return rules_broken_by(layout_facts(figure))
