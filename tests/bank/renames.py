"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
}

# Names that only one exercise renamed: arguments, attributes and the function itself.
EXERCISE_RENAMES = {
    "4.6": {"widen": "linear1", "narrow": "linear2", "hidden": "hidden_dim"},
    "4.8": {"length": "max_len"},
    "4.9": {"inner": "head_dim"},
    "4.10": {"next_word_loss": "next_token_loss", "tokens": "token_ids", "mask": "attention_mask"},
}
