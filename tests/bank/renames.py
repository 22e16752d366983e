"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
    "9.1: ahead": "offset",
    "9.1: place": "position",
    "9.2: ahead": "offset",
    "9.2: place": "position",
    "9.3: project": "projection",
    "9.5: gain": "weight",
}
