"""The library's own versions of what students write: faster or more general, and the same on every case of the check."""

import importlib

PATHS = {
    "1.1": "models.attention.softmax",
    "1.5": "models.attention.attend",
    "1.6": "models.attention.attention",
    "1.7": "models.kernel_regression.kernel_regression",
    "2.1": "models.memory.position_encoding",
    "3.5": "models.recurrent.MultiplicativeScore",
    "3.6": "models.recurrent.AdditiveScore",
    "4.6": "models.layers.FeedForward",
    "4.7": "models.attention.causal_mask",
    "5.2": "models.attention.split_heads",
    "5.3": "models.attention.merge_heads",
    "6.7": "training.trainer.noam_rate",
    "7.1": "data.bpe.bpe_merges",
    "7.2": "data.bpe.bpe_split",
    "7.3": "training.pretraining.mask_tokens",
    "7.7": "models.decoding.next_token_probs",
    "8.3": "training.fine_tuning.interpolate",
    "9.1": "models.sparse_attention.local_attention_mask",
    "9.2": "models.sparse_attention.local_attention",
    "9.3": "models.sparse_attention.linformer_attention",
    "9.8": "training.digits.patchify",
}


def library_version(exercise_id: str):
    """The function or class of the library that does what the exercise asks for; None where it has none."""
    if exercise_id not in PATHS:
        return None
    module, _, name = PATHS[exercise_id].rpartition(".")
    return getattr(importlib.import_module(f"utils.{module}"), name)
