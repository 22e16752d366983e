"""Names that exercises used in the first edition, and what they are called now: whole words, in all answers or per exercise."""

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

_DECODER_LAYER = {
    "from utils.models.encoder import FeedForward, LayerNorm": "from utils.models.layers import FeedForward",
    "from utils.models.multi_head import MultiHeadAttention": "from utils.models.attention import MultiHeadAttention",
    "from utils.models.self_attention import causal_mask": "from utils.models.attention import causal_mask",
    "LayerNorm(dim)": "nn.LayerNorm(dim)",
    "self_attention": "self_attn",
    "cross_attention": "cross_attn",
    "self_norm": "norm1",
    "cross_norm": "norm2",
    "feed_forward_norm": "norm3",
    "heads": "num_heads",
    "hidden": "hidden_dim",
    "found": "context",
}
_DECODING = {"start": "bos_id", "end": "eos_id", "limit": "max_len", "words": "token_ids", "word": "token"}

EXERCISE_RENAMES = {
    "6.1": {"words": "token_ids", "table": "embedding", "longest": "max_len", "places": "indices"},
    "6.3": {
        **_DECODER_LAYER,
        "layer.look": "layer._attend",
        "layer.queries": "layer.project_query",
        "layer.keys_values": "layer.project_memory",
        "norm1.gain, self.norm1.shift": "norm1.weight, self.norm1.bias",
    },
    "6.4": {
        "from utils.models.encoder import Encoder, FeedForward, LayerNorm": (
            "from utils.models.layers import Embedding, FeedForward, TransformerEncoder"
        ),
        "from utils.models.transformer import WordVectors\n": "",
        "for one in self.layers": "for layer in self.layers",
        "= one(x, memory": "= layer(x, memory",
        **_DECODER_LAYER,
        "WordVectors": "Embedding",
        "Encoder": "TransformerEncoder",
        'norm="pre"': "norm_first=True",
        "final_norm": "norm",
        "source_vectors": "source_embedding",
        "target_vectors": "target_embedding",
        "target_embedding.table": "target_embedding.token_embedding",
        "self.output": "self.lm_head",
        "f.output": "f.lm_head",
        "source_words": "source_vocab_size",
        "target_words": "target_vocab_size",
        "layers, dim": "num_layers, dim",
        ", layers)": ", num_layers)",
        "range(layers)": "range(num_layers)",
    },
    "6.5": {**_DECODING, "sentences": "sequences", "padding": "pad_id"},
    "6.6": {"padding": "pad_id"},
    "6.7": {"warmup": "warmup_steps"},
    "6.8": {**_DECODING, "going": "active"},
    "6.9": {
        "from utils.models.self_attention import causal_mask": "from utils.models.attention import causal_mask",
    },
    "6.10": {**_DECODING, "width": "num_beams", "next_words": "next_log_probs", "total": "log_probs"},
}
