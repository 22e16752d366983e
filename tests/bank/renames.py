"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
    "1.5: nowhere": "fully_masked",
    "3.1: longest": "max_len",
    "3.1: numbers": "token_ids",
    "3.1: padding": "pad_id",
    "3.3: read_words": "unroll",
    "3.9: found": "predicted",
    "01: powers": "exponentials",
}
