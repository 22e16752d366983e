"""A notebook that shows every kind of widget, small and large, for the browser to operate.

The tests read their numbers from the functions below, the notebook shows those of the same functions.
"""

from pathlib import Path

import nbformat
import torch
from torch import Tensor

from utils.models.attention import attention
from utils.models.decoding import beam_search, greedy_decode
from utils.models.transformer import Transformer

LAYERS, HEADS, WIDTH = 3, 4, 32
TOKENS = ["the", "cat", "sat", "on", "the", "mat", "."]
SOURCE = ["le", "chat", "noir", "dort"]
TARGET = ["<start>", "the", "black", "cat", "sleeps", "now"]
SENTENCE = (
    "in the beginning there was one long sentence which would not end because every word of it looked back at all "
    "the words before it and so it went on until the fortieth word was written down here at last"
)
MANY = SENTENCE.split()


def attention_stack(tokens: list[str], source: list[str] | None = None, causal: bool = False) -> Tensor:
    """Attention weights (LAYERS, HEADS, m, n) of multi-head attention with random projections, the same at every call."""
    dice = torch.Generator().manual_seed(20)
    x = torch.randn(len(tokens), WIDTH, generator=dice)
    memory = None if source is None else torch.randn(len(source), WIDTH, generator=dice)
    mask = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril() if causal else None
    kept = []
    for _ in range(LAYERS):
        projections = torch.randn(3, HEADS, WIDTH, WIDTH // HEADS, generator=dice) / WIDTH**0.5
        attended = x if memory is None else memory
        query, key, value = x @ projections[0], attended @ projections[1], attended @ projections[2]
        output, weights = attention(3 * query, key, value, mask)
        kept.append(weights)
        x = x + output.transpose(0, 1).reshape(len(tokens), WIDTH)
    return torch.stack(kept)


def masked_layer(tokens: list[str]):
    """A function from a mask (n, n) to the weights of one head and how far each output moved from that without a mask."""
    dice = torch.Generator().manual_seed(7)
    query, key, value = torch.randn(3, len(tokens), 8, generator=dice)
    open_output, _ = attention(query, key, value)

    def respond(mask: Tensor) -> dict[str, Tensor]:
        output, weights = attention(query, key, value, mask)
        return {"changed": (output - open_output).norm(dim=-1), "weights": weights}

    return respond


def removable_heads():
    """A function from switches (3, 4) to how many of 64 answers stay, and the effect of removing each head alone.

    Each answer is a sum over the heads and stays as long as its largest class does.
    """
    dice = torch.Generator().manual_seed(12)
    parts = torch.randn(LAYERS, HEADS, 64, 16, generator=dice) * torch.rand(LAYERS, HEADS, 1, 1, generator=dice) ** 3
    answers = parts.sum((0, 1)).argmax(-1)

    def respond(head_mask: Tensor) -> dict:
        given = (parts * head_mask[..., None, None]).sum((0, 1)).argmax(-1)
        right = given == answers
        rows = [(f"question {place + 1}", f"class {given[place]}", bool(right[place])) for place in range(4)]
        return {"accuracy": right.float().mean(), "detail": rows}

    everything = torch.ones(LAYERS, HEADS, dtype=torch.bool)
    effect = torch.zeros(LAYERS, HEADS)
    for layer in range(LAYERS):
        for head in range(HEADS):
            without = everything.clone()
            without[layer, head] = False
            effect[layer, head] = respond(without)["accuracy"] - 1
    return respond, effect


ENGLISH = ["<pad>", "<start>", "<end>", "the", "black", "cat", "cats", "sleeps", "sleep", "does", "do", "not", "old"]
FRENCH = ["<pad>", "<start>", "<end>", "le", "les", "chat", "chats", "noir", "noirs", "dort", "dorment", "ne", "pas"]


def small_translator():
    """Two functions for the widgets of lesson 06, over an untrained Transformer."""
    torch.manual_seed(5)
    options = {"norm_first": True, "tied": "none", "dropout": 0.0}
    model = Transformer(len(ENGLISH), len(FRENCH), dim=24, num_heads=3, num_layers=2, **options)
    with torch.no_grad():
        model.lm_head.weight.mul_(4.0)  # as confident as a trained one
    options = {"bos_id": 1, "eos_id": 2, "max_len": 7}

    def read(text: str) -> tuple[list[str], Tensor]:
        words = text.split()
        unknown = [word for word in words if word not in ENGLISH[3:]]
        if unknown:
            raise ValueError(f"Out of vocabulary: {', '.join(map(repr, unknown))}. It knows {', '.join(ENGLISH[3:])}.")
        return [*words, "<end>"], torch.tensor([[ENGLISH.index(word) for word in [*words, "<end>"]]])

    def translate(text: str) -> dict:
        words, source = read(text)
        decoded = greedy_decode(model, source, None, **options, need_weights=True, num_candidates=3)
        tokens = [[FRENCH[token_id] for token_id in row] for row in decoded.candidates[0].tolist()]
        probs = decoded.probabilities[0].tolist()
        return {
            "source": words,
            "target": [FRENCH[token_id] for token_id in decoded.token_ids[0].tolist()],
            "candidates": [list(zip(*pair, strict=True)) for pair in zip(tokens, probs, strict=True)],
            "weights": decoded.cross[:, 0],
        }

    def search(text: str, num_beams: int) -> dict:
        _, source = read(text)
        (tree,) = beam_search(model, source, None, **options, num_beams=num_beams, need_tree=True).tree
        tokens = {None: None, **dict(enumerate(FRENCH))}
        return {"tree": [[node._replace(token_id=tokens[node.token_id]) for node in step] for step in tree]}

    return translate, search


def small_language():
    """(respond of `fill_in`, vocabulary, respond of `next_word`) of an untrained bigram model."""
    words = ENGLISH[3:]
    table = 2 * torch.randn(len(words), len(words), generator=torch.Generator().manual_seed(8))

    def number(word: str) -> int:
        if word not in words:
            raise ValueError(f"Out of vocabulary: {word!r}. It knows {', '.join(words)}.")
        return words.index(word)

    def fill(text: str) -> dict:
        tokens = text.split()
        masked = [position for position, token in enumerate(tokens) if token == "[MASK]"]
        token_ids = [None if token == "[MASK]" else number(token) for token in tokens]
        choices = []
        for position in masked:
            before, after = token_ids[position - 1] if position else None, ([*token_ids, None])[position + 1]
            scores = sum((table[before] if before is not None else 0, table[:, after] if after is not None else 0))
            chances, order = (scores + torch.zeros(len(words))).softmax(-1).sort(descending=True, stable=True)
            best = zip(order.tolist()[:6], chances.tolist()[:6], strict=True)
            choices.append([(words[token_id], chance) for token_id, chance in best])
        filled = iter([candidates[0][0] for candidates in choices])
        sentence = " ".join(next(filled) if token == "[MASK]" else token for token in tokens)
        return {"tokens": tokens, "masked": masked, "candidates": choices, "sentence": sentence}

    def go_on(beginning: str, written: list[int]) -> Tensor:
        return table[([number(word) for word in beginning.split()] + written)[-1]]

    return fill, [f"▁{word}" for word in words], go_on


CELLS = """
import torch
from tests.browser import gallery
from utils.exercises import exercise, quiz
from utils.widgets import attention_view, beam_tree, explore, fill_in, guess_weights, heads_view, log_range, mask_board, next_word
from utils.widgets import plane, removal_board, stepper, translate_watch
from utils.plots import weights_bars
from utils.models.attention import attention, softmax
# %%
words = ["the", "cat", "sat"]
scores = {"rising": [1.0, 2.0, 3.0], "one peak": [0.0, 4.0, 0.0], "level": [1.0, 1.0, 1.0]}

def picture(shift, temperature, which, color, hard, title):
    weights = softmax(torch.tensor(scores[which]) + shift * torch.tensor([1.0, 0.0, -1.0]), temperature)
    weights = torch.eye(3)[weights.argmax()] if hard else weights
    return weights_bars(words, weights, title, colors=color)

roles = {"query": "query", "key": "key", "value": "value", "output": "output", "neutral": "neutral"}
controls = dict(shift=(-2.0, 2.0, 0.1, 0.0), temperature=log_range(0.1, 10, 1), which=list(scores), color=roles,
                hard=False, title="Three words")
explore(picture, "Weights of three words.", labels={"which": "scores"}, **controls)
# %%
def share(index):
    return weights_bars(["the", "cat", "sat"], softmax(torch.tensor([0.0, 1.0, 2.0]) * index), f"sharpness {index}")

stepper(share, ["all alike", "leaning", "sharper", "almost one"], "Three weights grow sharper.")
# %%
keys = {"cat": (1.0, 0.5), "dog": (-0.5, 1.2), "fish": (-1.0, -1.0)}
values = {"cat": (1.5, 1.5), "dog": (-1.5, 1.5), "fish": (0.5, -1.5)}

def look(x, y, temperature):
    query, key, value = (torch.tensor(rows) for rows in ([[x, y]], [*keys.values()], [*values.values()]))
    output, weights = attention(query, key, value, scale=1 / temperature)
    return {"weights": weights[0], "output": output[0], "text": f"the query is {(x**2 + y**2) ** 0.5:.2f} long"}

plane(look, keys, values, title="Keys are not values", temperature=log_range(0.1, 10, 1))
# %%
mask_board(gallery.TOKENS, gallery.masked_layer(gallery.TOKENS), start="causal", title="Which token may attend to which")
# %%
twelve = gallery.MANY[:12]
mask_board(twelve, gallery.masked_layer(twelve), start="last two are padding")
# %%
stack = gallery.attention_stack(gallery.TARGET, gallery.SOURCE)
attention_view(stack, gallery.TARGET, gallery.SOURCE, title="Cross-attention", names=("English", "French"), focus=2)
# %%
heads_view(gallery.attention_stack(gallery.TOKENS, causal=True), gallery.TOKENS, title="Three layers of four heads", focus=2)
# %%
found = gallery.attention_stack(gallery.TARGET, gallery.SOURCE)
heads_view(found, gallery.TARGET, gallery.SOURCE, title="Cross-attention", names=("English", "French"))
# %%
many = torch.cat([gallery.attention_stack(gallery.MANY, causal=True)] * 2).repeat(1, 3, 1, 1)
heads_view(many, gallery.MANY, title="Six layers of twelve heads")
# %%
respond, effect = gallery.removable_heads()
removal_board(respond, *effect.shape, effect=effect, chance=1 / 16, title="What is each head worth?")
# %%
translate, search = gallery.small_translator()
translate_watch(translate, "the black cat sleeps", title="An untrained translator")
# %%
beam_tree(search, ["the black cat sleeps", "the cats do not sleep"], title="Competing hypotheses")
# %%
fill, vocabulary, go_on = gallery.small_language()
fill_in(fill, "the old __ sleeps", title="An untrained model fills in")
# %%
next_word(go_on, vocabulary, "the old cat", top_k=5, top_p=0.9, title="An untrained model continues")
# %%
guess_weights(["one", "two", "three"], softmax(torch.tensor([1.0, 2.0, 3.0])), "What does softmax make of 1, 2, 3?")
# %%
quiz("1.a")
# %%
def softmax_jacobian(p):
    raise NotImplementedError()

softmax_jacobian = exercise("1.4").use(softmax_jacobian)
"""


def write(path: Path) -> Path:
    """Write the gallery to `path`, not yet run."""
    sources = enumerate(CELLS.split("# %%"))
    cells = [nbformat.v4.new_code_cell(source.strip(), id=f"gallery{index}") for index, source in sources]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), path)
    return path
