"""Names that exercises used in the first edition, and what they are called now."""

RENAMES = {
    "utils.data.subwords": "utils.data.bpe",
    "utils.data.bpe.SPECIAL": "utils.data.bpe.SPECIAL_TOKENS",
    "8.1: Classifier": "SequenceClassifier",
    "8.1: body.vectors": "body.encode",
    "8.1: classes": "num_classes",
    "8.1: numbers": "token_ids",
    "8.1: real": "attention_mask",
    "8.1: vectors": "hidden_states",
    "8.2: LowRank": "LoRALinear",
    "8.2: down": "lora_A",
    "8.2: up": "lora_B",
    "8.3: along_the_line": "interpolate",
    "8.3: share": "fraction",
}
