"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
    "5.1: maps": "projections",
    "5.1: found, 5.4: found, 5.6: found, 5.9: found": "context",
    "5.2: heads, 5.3: heads, 5.4: heads, 5.9: heads": "num_heads",
    "5.4: project, 5.9: project": "in_proj",
    "5.4: mix, 5.9: mix": "out_proj",
    "5.6: gates": "head_mask",
    "5.7: gain, 5.9: gain": "weight",
    "5.7: shift, 5.9: shift": "bias",
    "5.8: order, 5.9: norm": 'norm_first, a bool: "pre" is True, "post" is False',
    "5.9: attention": "self_attn",
    "5.9: attention_norm": "norm1",
    "5.9: feed_forward_norm": "norm2",
    "5.9: hidden": "hidden_dim",
    "5.9: widen": "linear1",
    "5.9: narrow": "linear2",
}
