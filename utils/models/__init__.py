"""Models in plain PyTorch, each thing once.

attention            softmax, scaled dot-product attention, masks, multi-head attention, key-value cache
positions            sinusoidal, learned and rotary positions
layers               feed-forward networks, encoder and decoder layers and stacks, embedding
transformer          the encoder-decoder Transformer
language_models      masked and causal language models, classifier, LoRA
decoding             greedy decoding, beam search, sampling
pretrained, gguf     MiniLM and SmolLM2: configuration, weight mapping, tokenizer
torch_weights        the same parameters in `torch.nn`
memory, recurrent    memory network; recurrent sequence-to-sequence model
sparse_attention     local, BigBird and Linformer attention
kernel_regression    attention with distances as scores
"""

from utils.models.attention import attend, attention, softmax
from utils.models.kernel_regression import KernelRegression, kernel_regression

__all__ = ["KernelRegression", "attend", "attention", "kernel_regression", "softmax"]
