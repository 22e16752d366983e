"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
    "5.1: maps": "projections",
    "5.6: gates": "head_mask",
    "5.8: order": "norm_first",  # "pre" is True, "post" is False
    "5.9: norm": "norm_first",
    "5.9: attention": "self_attn",
    "5.9: attention_norm": "norm1",
    "5.9: feed_forward_norm": "norm2",
    "5.9: hidden": "hidden_dim",
    "5.9: widen": "linear1",
    "5.9: narrow": "linear2",
    "05: found": "context",
    "05: gain": "weight",
    "05: heads": "num_heads",
    "05: mix": "out_proj",
    "05: project": "in_proj",
    "05: shift": "bias",
}

# Names that only one exercise renamed: arguments, attributes and the function itself.
EXERCISE_RENAMES = {
    "4.6": {"widen": "linear1", "narrow": "linear2", "hidden": "hidden_dim"},
    "4.8": {"length": "max_len"},
    "4.9": {"inner": "head_dim"},
    "4.10": {"next_word_loss": "next_token_loss", "tokens": "token_ids", "mask": "attention_mask"},
}
