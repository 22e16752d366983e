"""The lessons of the course. Exercises and quizzes of lesson NN stand in `lessonNN.py` beside this file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lesson:
    number: str  # "01"
    name: str  # "01_softmax_attention", the name of its notebook
    title: str
    question: str  # the question that it opens with
    builds: str  # what the student builds
    minutes: int  # time to work through it


LESSONS = (
    Lesson("00", "00_start_here", "Start here", "How does this course work?", "normalize, mask_keys", 20),
    Lesson(
        "01",
        "01_softmax_attention",
        "Softmax attention",
        "How can a network look something up and still be trained?",
        "softmax, soft_lookup, attend, attention",
        110,
    ),
    Lesson(
        "02",
        "02_memory_network",
        "Memory network",
        "What if one attention step is not enough?",
        "encode_sentences, memory_hop, MemoryNetwork",
        120,
    ),
    Lesson(
        "03",
        "03_sequence_to_sequence",
        "Sequence to sequence, the bottleneck, and attention",
        "What if the answer is a whole sentence?",
        "three score functions, AttentionDecoder",
        120,
    ),
    Lesson(
        "04",
        "04_self_attention",
        "Self-attention",
        "Can attention work without a recurrent network?",
        "SelfAttention, causal_mask, padding_mask, sinusoidal_positions, FeedForward",
        120,
    ),
    Lesson(
        "05",
        "05_multi_head_attention",
        "Multi-head attention and the encoder block",
        "What do several attention heads add to one?",
        "split_heads, merge_heads, MultiHeadAttention, LayerNorm, EncoderLayer",
        120,
    ),
    Lesson(
        "06",
        "06_transformer",
        "The encoder-decoder Transformer",
        "How do these blocks become a model that translates?",
        "DecoderLayer, Transformer, shifted targets, greedy_decode, beam search, ablation masks",
        120,
    ),
    Lesson(
        "07",
        "07_tokenize_and_pretrain",
        "Tokenize and pretrain",
        "What can a model learn before it has seen the task?",
        "bpe_merges, mask_tokens, MaskedLM, CausalLM, next_token_probs",
        120,
    ),
    Lesson(
        "08",
        "08_fine_tune_and_transfer",
        "Fine-tune and transfer",
        "How few labels does a pretrained model need?",
        "SequenceClassifier, LoRALinear, interpolate, merge_lora, token_similarity, attention_to",
        110,
    ),
    Lesson(
        "09",
        "09_cost_and_scale",
        "Cost, scale and what comes next",
        "What does attention cost, and do larger models stay better?",
        "local_attention, power_law_fit, rms_norm, swiglu, grouped_attention, patchify",
        120,
    ),
)


def lesson_of(number: str) -> Lesson:
    for lesson in LESSONS:
        if lesson.number == number:
            return lesson
    known = ", ".join(lesson.number for lesson in LESSONS)
    raise LookupError(f"expected a lesson number out of {known}; got {number!r}")
