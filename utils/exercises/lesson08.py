"""Lesson 08: its exercises with common mistakes, and its guess-first questions."""

import torch
from torch import nn

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import built_module, integers, length_mask, normal
from utils.exercises.edits import BODY, mistake, replacing
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.models.language_models import LoRALinear

CUT = "`detach`, `.data` or `torch.no_grad` cut it"


# ---------------------------------------------------------------------------------------------- 8.1 the classifier
class Body(nn.Module):
    """A small encoder whose hidden states depend on the attention mask."""

    def __init__(self, vocab_size, dim, seed):
        super().__init__()
        self.embedding = nn.Parameter(normal(torch.Generator().manual_seed(seed), vocab_size, dim))

    def encode(self, token_ids, attention_mask=None):
        attention_mask = torch.ones_like(token_ids, dtype=torch.bool) if attention_mask is None else attention_mask
        if attention_mask.shape != token_ids.shape:
            shapes = tuple(attention_mask.shape), tuple(token_ids.shape)
            raise Wrong(
                f"`self.body.encode` got `attention_mask` of shape {shapes[0]}. Pass it unchanged, {shapes[1]}."
            )
        x, weight = self.embedding[token_ids], attention_mask.to(self.embedding.dtype).unsqueeze(-1)
        return x + 2 * (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)

    def forward(self, token_ids, attention_mask=None):
        raise Wrong(
            "`self.body(...)` returns logits over tokens. Its hidden states are `self.body.encode(token_ids, attention_mask)`."
        )


def run_classifier(answer, seed, vocab_size, dim, num_classes, token_ids, attention_mask):
    """Build the classifier on a body and call it."""
    body = Body(vocab_size, dim, seed)
    model = built_module(answer, "SequenceClassifier", body, dim, num_classes)
    head = getattr(model, "head", None)
    if getattr(model, "body", None) is not body or not isinstance(head, nn.Linear):
        raise Wrong(
            "`self.body` or `self.head` is not as `__init__` made it. Restore its lines: only `forward` is yours."
        )
    random_numbers = torch.Generator().manual_seed(seed + 1)
    head.weight.data.copy_(normal(random_numbers, num_classes, dim))
    head.bias.data.copy_(normal(random_numbers, num_classes))
    return model(token_ids, attention_mask)


def classifier_cases(generator):
    def case(n, lengths, note, vocab_size=9, dim=5, num_classes=3):
        seed, token_ids = int(integers(generator, 10_000)), integers(generator, vocab_size, len(lengths), n)
        return Case((seed, vocab_size, dim, num_classes, token_ids, length_mask(lengths, n)), note=note)

    return [
        case(6, (4, 6, 2), "texts of several lengths"),
        case(4, (4, 4), "no padding", dim=4, num_classes=6),
        case(3, (1, 3, 2), "as many texts as tokens", dim=3),
        case(5, (1, 5), "a text of one token", num_classes=2),
        case(7, (3,), "one text", dim=8),
    ]


def body_and_head_learn(answer, generator):
    """Gradients reach both the head and the body."""
    seed, vocab_size, dim, num_classes, token_ids, attention_mask = classifier_cases(generator)[0].args
    model = answer.answer(Body(vocab_size, dim, seed), dim, num_classes)
    nn.init.normal_(model.head.weight)
    logits, freeze = model(token_ids, attention_mask), "To freeze the body, training sets `requires_grad_(False)`."
    if not logits.requires_grad:
        raise Wrong(f"The values are correct, but no gradient flows back: {CUT}. {freeze}")
    logits.square().sum().backward()
    for parameter, name in ((model.body.embedding, "body"), (model.head.weight, "head")):
        if parameter.grad is None or not parameter.grad.abs().max() > 0:
            raise Wrong(f"No gradient reaches the {name}: {CUT}. {freeze}")


POOL = "total / attention_mask.sum(1, keepdim=True)"
OF_PADDING = "The mean runs over the padding. `attention_mask` is True at the tokens: sum over these."

register(
    Exercise(
        id="8.1",
        cases=classifier_cases,
        call=run_classifier,
        tolerance=1e-3,
        properties=[body_and_head_learn],
        mistakes=[
            mistake(
                POOL,
                "hidden_states.mean(1)",
                "The mean includes the padding. Sum the hidden states of the real tokens and divide by their number.",
            ),
            mistake(
                [("(token_ids, attention_mask)", "(token_ids)"), (POOL, "hidden_states.mean(1)")],
                "`attention_mask` is not used. Pass it to the body, and average over the real tokens only.",
            ),
            mistake(
                "(token_ids, attention_mask)",
                "(token_ids)",
                "The body does not know which tokens are padding. Call `self.body.encode(token_ids, attention_mask)`.",
            ),
            mistake(
                "attention_mask.sum(1, keepdim=True)",
                "attention_mask.size(1)",
                "The sum leaves padding out, but the mean counts it. Divide by `attention_mask.sum(1, keepdim=True)`.",
            ),
            mistake(
                "total / attention_mask.sum(1, keepdim=True)",
                "total",
                "The hidden states are summed, so long texts get larger vectors. Divide by the number of real tokens.",
            ),
            mistake(
                "attention_mask.sum(1, keepdim=True)",
                "attention_mask.sum()",
                "Each sum was divided by the number of tokens in the whole batch. Divide by that of its own text: `attention_mask.sum(1, keepdim=True)`.",
            ),
            mistake("total = (", "attention_mask = ~attention_mask\ntotal = (", OF_PADDING),
            mistake(
                [("total = (", "attention_mask = ~attention_mask\ntotal = ("), (POOL, f"({POOL}).nan_to_num()")],
                OF_PADDING,
            ),
            mistake(
                "attention_mask.sum(1, keepdim=True)",
                "attention_mask.sum(1)",
                "`attention_mask.sum(1)` is (b,) and does not divide (b, dim) row by row. Keep the axis: `attention_mask.sum(1, keepdim=True)`.",
            ),
            mistake(
                "attention_mask.unsqueeze(-1)",
                "attention_mask",
                "`attention_mask` is (b, n), the hidden states are (b, n, dim). Add an axis: `attention_mask.unsqueeze(-1)`.",
            ),
            mistake(POOL, "hidden_states[:, 0]", "Only the first token was used. Average over all real tokens."),
            mistake(
                POOL,
                "hidden_states[:, -1]",
                "Only the last position was used, maybe padding. Average over the real tokens.",
            ),
            mistake(
                POOL,
                "hidden_states[torch.arange(len(hidden_states)), attention_mask.sum(1) - 1]",
                "Only the last real token was used. Average over all real tokens.",
            ),
            mistake(
                POOL,
                "hidden_states.masked_fill(~attention_mask.unsqueeze(-1), -torch.inf).amax(1)",
                "This is max pooling. Average over the real tokens instead.",
            ),
            mistake(
                POOL,
                "hidden_states[attention_mask].mean(0)",
                "One mean was taken for the whole batch. Each text has its own, (b, dim).",
            ),
            mistake(
                POOL,
                "hidden_states.mean(-1)",
                "The mean ran over the features. Average over the tokens of each text, axis 1.",
            ),
            mistake(
                POOL,
                "hidden_states",
                "Every token got its own logits. Average before the linear layer: one row per text, (b, num_classes).",
            ),
            mistake(
                f"self.head({POOL})", POOL, "It returned the mean vector. Apply `self.head` to get one logit per class."
            ),
            mistake(
                "keepdim=True))",
                "keepdim=True)).softmax(-1)",
                "It returned probabilities. Return logits: the loss applies the softmax itself.",
            ),
            mistake(
                "keepdim=True))",
                "keepdim=True)).log_softmax(-1)",
                "It returned log-probabilities. Return logits: the loss applies the softmax itself.",
            ),
            mistake(
                "keepdim=True))",
                "keepdim=True)).argmax(-1)",
                "It returned the predicted class, which has no gradient. Return the logits.",
            ),
        ],
        hints=[
            "`self.body.encode(token_ids, attention_mask)` is (b, n, dim).",
            "`attention_mask.unsqueeze(-1)` is (b, n, 1): multiplied by it, padding becomes 0 and adds nothing to the sum.",
            "Divide the sum by `attention_mask.sum(1, keepdim=True)`, (b, 1), then apply `self.head`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.2 low-rank adaptation
def run_lora(answer, seed, inputs, outputs, rank, scale, x):
    """LoRA around a frozen layer: its output before training, and with other values in `lora_A` and `lora_B`."""
    numbers = torch.Generator().manual_seed(seed)
    linear = nn.Linear(inputs, outputs)
    linear.weight.data.copy_(normal(numbers, outputs, inputs))
    linear.bias.data.copy_(normal(numbers, outputs))
    before = linear.weight.detach().clone()
    layer = built_module(answer, "LoRALinear", linear, rank, *(() if scale == 1.0 else (scale,)))
    require_parts(layer, inputs, outputs, rank)
    at_first = layer(x)
    if at_first is None:
        raise Wrong("`forward` returned None. End it with `return`.")
    layer.lora_A.data.copy_(normal(numbers, rank, inputs))
    layer.lora_B.data.copy_(normal(numbers, outputs, rank))
    result = layer(x)
    if not torch.equal(linear.weight, before):
        raise Wrong("The frozen weight was changed. Leave it as it is and add scale B (A x) to the layer's output.")
    return at_first.detach(), result


def require_parts(layer, inputs, outputs, rank):
    """The parameters: names, shapes, initialization, and which are trained."""
    given = dict(layer.named_parameters())
    shapes = {"lora_A": ("(rank, in_features)", (rank, inputs)), "lora_B": ("(out_features, rank)", (outputs, rank))}
    for name, (words, shape) in shapes.items():
        part, wanted = getattr(layer, name, None), f"an `nn.Parameter` of shape {words}, here {shape}"
        if isinstance(part, nn.Linear):
            raise Wrong(f"`self.{name}` is an `nn.Linear`. It would learn as well, but make it {wanted}.")
        if name not in given:
            kind = a_thing(part) if hasattr(layer, name) else "missing"
            raise Wrong(f"`self.{name}` is {kind}, so it is not trained. Make it {wanted}.")
        if tuple(part.shape) != shape:
            raise Wrong(f"`self.{name}` has shape {tuple(part.shape)}. Make it {wanted}.")
        if not part.requires_grad:
            raise Wrong(f"`self.{name}` is frozen, but it is what is trained. Freeze only `linear`.")
    trained = [name for name in given if name not in shapes and given[name].requires_grad]
    if trained:
        raise Wrong(f"`{trained[0]}` is still trained. Freeze the given layer: `linear.requires_grad_(False)`.")
    zero_A, zero_B = (part.abs().max() == 0 for part in (layer.lora_A, layer.lora_B))
    if zero_A and zero_B:
        raise Wrong(
            "Both factors are initialized to zero, where both gradients vanish. Initialize `self.lora_A` randomly."
        )
    if zero_A:
        raise Wrong("`self.lora_A` is zero. Initialize it randomly, and `self.lora_B` with zeros.")
    if not zero_B:
        raise Wrong(
            "`self.lora_B` is random, which changes the pretrained layer before training. Initialize it with zeros."
        )


def lora_cases(generator):
    def case(inputs, outputs, rank, shape, note, scale=1.0):
        seed = int(integers(generator, 10_000))
        return Case((seed, inputs, outputs, rank, scale, normal(generator, *shape, inputs)), note=note)

    return [
        case(6, 9, 2, (3, 4), "more outputs than inputs"),
        case(8, 5, 3, (2, 3), "fewer outputs, and a scale", scale=0.5),
        case(4, 4, 2, (3,), "a square layer", scale=2.0),
        case(5, 7, 1, (2, 2), "rank one"),
        case(3, 3, 3, (4,), "full rank", scale=0.25),
        case(5, 4, 2, (1, 3), "one sentence"),
    ]


def init_of_lora_A(answer, generator):
    """1 / sqrt(in_features), or a uniform distribution with that bound; independent of rank and out_features, mean 0."""
    for inputs, outputs, rank in ((100, 1200, 8), (400, 20, 50)):
        lora_A = answer.answer(nn.Linear(inputs, outputs), rank).lora_A.detach()
        std, wanted = float(lora_A.std()), inputs**-0.5
        if not 0.5 < std / wanted < 1.25:
            raise Wrong(
                f"With {inputs} inputs, {outputs} outputs and rank {rank}, `self.lora_A` has standard deviation {std:.2g}. Use 1 / sqrt(in_features) = {wanted:.2g}."
            )
        if abs(float(lora_A.mean())) > std / 2:
            raise Wrong(f"The mean of `self.lora_A` is {float(lora_A.mean()):.2g}. Draw around 0, with `torch.randn`.")


def only_lora_learns(answer, generator):
    layer = answer.answer(nn.Linear(5, 4), 2)
    layer.lora_B.data.normal_(generator=generator)
    output = layer(normal(generator, 3, 5))
    if output.requires_grad:
        output.square().sum().backward()
    for name in ("lora_A", "lora_B"):
        if getattr(layer, name).grad is None:
            raise Wrong(f"No gradient reaches `self.{name}`: {CUT}. Use the parameter itself.")


def keeps_layer_and_scale(answer, generator):
    """Exercise 8.4 uses them."""
    linear = nn.Linear(5, 4)
    layer = answer.answer(linear, 2, 0.5)
    if getattr(layer, "linear", None) is not linear:
        raise Wrong("`self.linear` is not the given layer. Store it under this name: exercise 8.4 uses it.")
    if getattr(layer, "scale", None) != 0.5:
        raise Wrong("`self.scale` is not the given scale. Store it under this name: exercise 8.4 uses it.")


UPDATE = "self.scale * (x @ self.lora_A.T @ self.lora_B.T)"

register(
    Exercise(
        id="8.2",
        cases=lora_cases,
        call=run_lora,
        gradient=True,
        output_names=("output before training", "output"),
        tolerance=1e-3,
        properties=[init_of_lora_A, only_lora_learns, keeps_layer_and_scale],
        mistakes=[
            mistake("self.scale * (", "(", "`scale` has no effect. Multiply the low-rank update by it."),
            mistake(
                f"self.linear(x) + {UPDATE}",
                "self.scale * (self.linear(x) + x @ self.lora_A.T @ self.lora_B.T)",
                "The frozen layer was scaled, too. Scale only the low-rank update.",
            ),
            mistake(
                "self.linear(x) + ", "", "The frozen layer is missing. Add the low-rank update to `self.linear(x)`."
            ),
            mistake(f" + {UPDATE}", "", "The low-rank update is missing. Add scale B (A x)."),
            mistake(
                "self.linear(x)",
                "x @ self.linear.weight.T",
                "The bias of the frozen layer is lost. Call the layer: `self.linear(x)`.",
            ),
            mistake(
                "x @ self.lora_A.T",
                "torch.relu(x @ self.lora_A.T)",
                "There is a nonlinearity between the factors. Without it B A is one matrix, which can be merged into W.",
            ),
            mistake(
                "self.scale * (",
                "self.scale / self.lora_A.size(0) * (",
                "The update was divided by the rank, as some libraries do. Here `scale` is used as it is.",
            ),
            mistake(
                "x @ self.lora_A.T @ self.lora_B.T",
                "x @ self.lora_A @ self.lora_B",
                "`self.lora_A` is (rank, in_features), as the weight of a linear layer. Transpose both: `x @ self.lora_A.T @ self.lora_B.T`.",
            ),
            mistake(
                "x @ self.lora_A.T @ self.lora_B.T",
                "self.lora_B @ self.lora_A @ x",
                "B A x is for a column x, but `x` holds rows, (..., in_features). Transpose the product: `x @ self.lora_A.T @ self.lora_B.T`.",
            ),
        ],
        hints=[
            "`__init__`: call `super().__init__()`, then keep `linear.requires_grad_(False)` and `scale`. `self.lora_A` is an `nn.Parameter` of shape (rank, linear.in_features), random with standard deviation 1 / sqrt(in_features).",
            "`self.lora_B` is an `nn.Parameter` of zeros, (linear.out_features, rank): before training nothing is added.",
            "`forward`: `self.linear(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.3 linear interpolation
def interpolation_cases(generator):
    def case(fraction, note, shapes=(("weight", (2, 3)), ("bias", (3,)))):
        start, end = ({name: normal(generator, *shape) for name, shape in shapes} for _ in range(2))
        return Case((start, end, fraction), note=note)

    alike = (("first.weight", (2, 2)), ("second.weight", (2, 2)))
    reordered = case(0.3, "the same names in another order", alike)
    reordered.args = (reordered.args[0], dict(reversed(reordered.args[1].items())), 0.3)
    return [
        case(0.25, "fraction 0.25"),
        case(0.0, "fraction 0"),
        case(1.0, "fraction 1"),
        case(0.5, "fraction 0.5", alike),
        reordered,
        case(1.5, "extrapolation beyond the end"),
        case(-0.5, "extrapolation before the start", (("norm.weight", (4,)),)),
    ]


POINT, STEP = "start[name] + fraction * (end[name] - start[name])", "(end[name] - start[name])"

register(
    Exercise(
        id="8.3",
        cases=interpolation_cases,
        mistakes=[
            mistake(
                POINT,
                "end[name] + fraction * (start[name] - end[name])",
                "Start and end are swapped. Fraction 0 gives `start`, fraction 1 gives `end`.",
            ),
            mistake(
                STEP,
                "end[name]",
                "At fraction 1 it gives start + end. Add `fraction` times the difference end - start.",
            ),
            mistake(
                "start[name] + fraction",
                "fraction",
                "It returned only the difference from the start. Add `start[name]`.",
            ),
            mistake(STEP, "(start[name] - end[name])", "It moves away from the end. The direction is end - start."),
            mistake(POINT, "(start[name] + end[name]) / 2", "`fraction` has no effect: this is the midpoint."),
            mistake(
                "+ fraction",
                "+ min(max(fraction, 0.0), 1.0)",
                "`fraction` was clamped to [0, 1]. Extrapolation is allowed: use it as it is.",
            ),
            mistake(
                POINT,
                "fraction * (start[name] + end[name])",
                "Both ends were weighted by `fraction`. The weight of the start is 1 - fraction.",
            ),
            mistake(
                BODY,
                "return {name: a + fraction * (b - a) for (name, a), b in zip(start.items(), end.values())}",
                "The tensors were matched by their order. Match them by name: `end[name]`.",
            ),
            mistake(
                BODY,
                f"return [{POINT} for name in start]",
                "It returned a list. Return a dict with the names of `start`, so that a model can load it.",
            ),
            mistake(
                BODY,
                "return start + fraction * (end - start)",
                "`start` and `end` are dicts, which cannot be subtracted. Compute it for each name.",
            ),
        ],
        hints=[
            "Use a dict comprehension over the names: `{name: ... for name in start}`.",
            "For each name: start + fraction * (end - start).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.4 merging
def run_merge(answer, seed, inputs, outputs, rank, scale, x):
    """The weight of the merged layer, and its output for x."""
    numbers = torch.Generator().manual_seed(seed)
    layer = LoRALinear(nn.Linear(inputs, outputs), rank, scale)
    for part in (layer.linear.weight, layer.linear.bias, layer.lora_A, layer.lora_B):
        part.data.copy_(normal(numbers, *part.shape))
    before = {name: part.detach().clone() for name, part in layer.named_parameters()}
    merged = answer(layer)
    if merged is None:
        raise Wrong("`merge_lora` returned None. End it with `return`.")
    if isinstance(merged, torch.Tensor):
        raise Wrong("It returned a tensor. Return an `nn.Linear` whose weight is W + scale B A.")
    if not isinstance(merged, nn.Linear):
        raise Wrong(f"It returned {a_thing(merged)}. Return a new `nn.Linear`.")
    if merged is layer.linear or any(not torch.equal(part, before[name]) for name, part in layer.named_parameters()):
        raise Wrong(
            "The given layer was changed, so the pretrained weight is lost. Copy the sum into a new `nn.Linear`."
        )
    if merged.weight.untyped_storage().data_ptr() == layer.linear.weight.untyped_storage().data_ptr():
        raise Wrong("The new layer shares its weight with the given one. Copy the values: `merged.weight.copy_(...)`.")
    if merged.bias is None:
        raise Wrong("The merged layer has no bias. Copy that of `layer.linear`.")
    if not torch.equal(merged.bias, before["linear.bias"]):
        raise Wrong("The bias is not that of `layer.linear`. Copy it unchanged: the low-rank update has none.")
    if merged.bias.untyped_storage().data_ptr() == layer.linear.bias.untyped_storage().data_ptr():
        raise Wrong("The new layer shares its bias with the given one. Copy the values: `merged.bias.copy_(...)`.")
    return merged.weight, merged(x)


def merge_cases(generator):
    def case(inputs, outputs, rank, scale, note):
        seed = int(integers(generator, 10_000))
        return Case((seed, inputs, outputs, rank, scale, normal(generator, 3, inputs)), note=note)

    return [
        case(6, 4, 2, 0.5, "fewer outputs than inputs"),
        case(3, 7, 2, 2.0, "more outputs"),
        case(5, 5, 3, 0.25, "a square layer"),
        case(4, 6, 1, 1.5, "rank one"),
        case(3, 3, 3, 0.5, "full rank"),
    ]


MERGED = "layer.linear.weight + layer.scale * layer.lora_B @ layer.lora_A"

register(
    Exercise(
        id="8.4",
        cases=merge_cases,
        call=run_merge,
        output_names=("merged weight", "output"),
        tolerance=1e-3,
        mistakes=[
            *replacing(
                MERGED,
                {
                    "layer.linear.weight + layer.lora_B @ layer.lora_A": "`layer.scale` is missing. Add scale times B A.",
                    "layer.linear.weight": "Only the frozen weight was copied, so the update is lost. Add `layer.scale * layer.lora_B @ layer.lora_A`.",
                    "layer.scale * layer.lora_B @ layer.lora_A": "Only the update was copied. Add it to `layer.linear.weight`.",
                    "layer.scale * (layer.linear.weight + layer.lora_B @ layer.lora_A)": "The frozen weight was scaled, too. Scale only B A.",
                    "layer.linear.weight + layer.scale / layer.lora_A.size(0) * layer.lora_B @ layer.lora_A": "The update was divided by the rank, as some libraries do. Here `scale` is used as it is.",
                    "layer.linear.weight - layer.scale * layer.lora_B @ layer.lora_A": "The update was subtracted, which undoes a merge. Add it.",
                    "layer.linear.weight + layer.scale * layer.lora_A @ layer.lora_B": "The factors are in the wrong order. B A is (out_features, in_features), like the weight; A B is not.",
                    "layer.linear.weight + layer.scale * (layer.lora_B @ layer.lora_A).T": "The update was transposed. B A already has the shape of the weight, (out_features, in_features).",
                    "(layer.linear.weight + layer.scale * layer.lora_B @ layer.lora_A).T": "The weight was transposed. `nn.Linear` stores it as (out_features, in_features), like B A.",
                },
            ),
            mistake(
                "nn.Linear(in_features, out_features)",
                "nn.Linear(out_features, in_features)",
                "Inputs and outputs of the new layer are swapped. `nn.Linear(in_features, out_features)` has a weight (out_features, in_features).",
            ),
        ],
        hints=[
            "The weight of a linear layer is (out_features, in_features), and so is `layer.lora_B @ layer.lora_A`.",
            "Make a new `nn.Linear(in_features, out_features)` and fill it inside `torch.no_grad()`: `merged.weight.copy_(...)`.",
            "The weight is `layer.linear.weight + layer.scale * layer.lora_B @ layer.lora_A`; the bias is that of `layer.linear`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.5 contextual embeddings
def similarity_cases(generator):
    def case(layers, b, n, dim, note, positions=None):
        positions = integers(generator, n, b) if positions is None else torch.tensor(positions)
        return Case((normal(generator, layers, b, n, dim) + 0.5, positions), note=note)

    return [
        case(3, 4, 6, 5, "four texts", positions=(2, 5, 0, 3)),
        case(2, 3, 7, 4, "two layers", positions=(6, 1, 4)),
        case(4, 5, 5, 3, "as many texts as tokens", positions=(4, 0, 2, 2, 1)),
        case(1, 2, 4, 6, "one layer", positions=(0, 3)),
        case(2, 1, 3, 4, "one text", positions=(1,)),
        case(2, 6, 2, 8, "more texts than tokens"),
    ]


SELECTED = "hidden_states[:, texts, positions]"
COSINES = "states @ states.transpose(-2, -1)"

register(
    Exercise(
        id="8.5",
        cases=similarity_cases,
        tolerance=1e-3,
        mistakes=[
            mistake(
                f"F.normalize({SELECTED}, dim=-1)",
                SELECTED,
                "These are dot products, which grow with the norms. Divide each vector by its norm: `F.normalize(..., dim=-1)`.",
            ),
            *replacing(
                "dim=-1)  #",
                {
                    "dim=-2)  #": "The norm was taken over the texts. Normalize the features of each vector, `dim=-1`.",
                    "dim=0)  #": "The norm was taken over the layers. Normalize the features of each vector, `dim=-1`.",
                },
            ),
            *replacing(
                SELECTED,
                {
                    "hidden_states[:, :, positions]": "Every text was indexed at all positions, which gives (num_layers + 1, b, b, dim). Pair text i with `positions[i]`: index with `torch.arange(b)` and `positions` together.",
                    "hidden_states[:, texts, positions[0]]": "The position of the first text was used for all texts. Use `positions[i]` for text i.",
                    "hidden_states[:, positions.clamp(max=len(positions) - 1), texts.clamp(max=hidden_states.size(2) - 1)]": "Texts and positions are swapped. Axis 1 is the text, axis 2 the position: `hidden_states[:, texts, positions]`.",
                    "hidden_states[:, texts, 0]": "Always the first token was used. Use `positions[i]` of text i.",
                    "hidden_states.mean(2)": "All tokens were averaged, a sentence embedding. Select the one at `positions[i]`.",
                },
            ),
            mistake(
                COSINES, f"1 - {COSINES}", "This is the cosine distance. Return the similarity, 1 for equal directions."
            ),
            mistake(
                COSINES,
                "(states[:, :1] * states).sum(-1)",
                "Only the first text was compared. Return every pair, (num_layers + 1, b, b).",
            ),
            mistake(
                COSINES,
                "(states * states).sum(-1)",
                "Each vector was compared with itself. Return every pair of texts, (num_layers + 1, b, b).",
            ),
            mistake(
                COSINES,
                "(states[-1] @ states[-1].T)",
                "Only the last layer was compared. Keep the axis of the layers, (num_layers + 1, b, b).",
            ),
            mistake(
                COSINES,
                f"({COSINES}).mean(0)",
                "The cosines were averaged over the layers. Keep their axis, (num_layers + 1, b, b).",
            ),
            mistake(
                COSINES,
                "states @ states.T",
                "`.T` reverses all axes. Swap only the last two: `states.transpose(-2, -1)`.",
            ),
            mistake(
                [
                    (f"F.normalize({SELECTED}, dim=-1)", SELECTED),
                    (COSINES, f"{COSINES} / states.square().sum(-1, keepdim=True)"),
                ],
                "Each product was divided by the squared norm of one vector. Divide by the norms of both.",
            ),
            mistake(
                COSINES,
                "torch.cdist(states, states)",
                "These are Euclidean distances. Return cosines: products of the normalized vectors.",
            ),
        ],
        hints=[
            "Index two axes at once: `hidden_states[:, texts, positions]` with `texts = torch.arange(b)` pairs text i with `positions[i]`, (num_layers + 1, b, dim).",
            "`F.normalize(states, dim=-1)` divides every vector by its norm.",
            "All pairs in one product: `states @ states.transpose(-2, -1)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.6 where the attention goes
def attention_cases(generator):
    def case(b, heads, n, lengths, note, num_keys=1):
        tokens = length_mask(lengths, n)
        weights = normal(generator, b, heads, n, n).masked_fill(~tokens[:, None, None, :], -torch.inf).softmax(-1)
        keys = (torch.arange(n) < num_keys).expand(b, n)
        queries = tokens & ~keys & (torch.rand(b, n, generator=generator) < 0.8)
        queries[0, num_keys] = True
        return Case((weights, queries, keys.clone()), note=note)

    elsewhere = case(3, 2, 6, (6, 4, 5), "another key in each text")
    elsewhere.args = (*elsewhere.args[:2], torch.arange(6) == torch.tensor([[5], [3], [4]]))
    every = case(2, 3, 5, (5, 5), "all queries and keys")
    every.args = (every.args[0], torch.ones(2, 5, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool))
    return [
        case(2, 3, 6, (6, 4), "two texts of different lengths"),
        case(3, 2, 7, (7, 3, 5), "two keys", num_keys=2),
        case(4, 4, 4, (4, 2, 3, 4), "as many texts as heads and tokens"),
        case(1, 5, 6, (6,), "one text"),
        case(2, 1, 5, (3, 5), "one head", num_keys=2),
        elsewhere,
        every,
    ]


TO_KEYS = "(attention_weights * keys[:, None, None, :]).sum(-1)"
MEAN = "(to_keys * queries[:, None, :]).sum((0, 2)) / queries.sum()"

register(
    Exercise(
        id="8.6",
        cases=attention_cases,
        tolerance=1e-4,
        mistakes=[
            mistake(
                [("keys[:, None, None, :]).sum(-1)", "keys[:, None, :, None]).sum(-2)")],
                "Queries and keys are swapped in the weights. The last axis is the keys: `keys[:, None, None, :]`, then sum over -1.",
            ),
            mistake(
                [
                    ("keys[:, None, None, :]", "queries[:, None, None, :]"),
                    ("queries[:, None, :]", "keys[:, None, :]"),
                    ("queries.sum()", "keys.sum()"),
                ],
                "The arguments are swapped: this is the weight that `keys` give to `queries`. The last axis of the weights is the keys.",
            ),
            *replacing(
                MEAN,
                {
                    "(to_keys * queries[:, None, :]).sum((0, 2))": "The weights were summed over the queries. Divide by their number, `queries.sum()`.",
                    "(to_keys * queries[:, None, :]).mean((0, 2))": "The mean includes the queries that were not chosen. Divide the sum by `queries.sum()`.",
                    "to_keys.mean((0, 2))": "`queries` is not used. Average over the chosen queries only.",
                    "((to_keys * queries[:, None, :]).sum(2) / queries.sum(1, keepdim=True).clamp(min=1)).mean(0)": "Each text was averaged first, so short texts count as much as long ones. Average over all chosen queries at once.",
                    "(to_keys * queries[:, None, :]).sum(2) / queries.sum(1, keepdim=True).clamp(min=1)": "There is one number for each text and head. Average over the queries of all texts, (num_heads,).",
                    "(to_keys * queries[:, None, :]).sum() / queries.sum() / to_keys.size(1)": "The heads were averaged, too. Keep their axis, (num_heads,).",
                    "(to_keys * queries[:, None, :]).sum((0, 2)) / queries.sum() / attention_weights.size(0)": "The sum was divided by the number of texts as well. `queries.sum()` already counts the queries of all texts.",
                    "(to_keys * queries[:, None, :]).amax((0, 2))": "This is the largest value. Average over the chosen queries.",
                },
            ),
            *replacing(
                TO_KEYS,
                {
                    "attention_weights.sum(-1)": "`keys` is not used, and all weights of a query sum to 1. Sum over the chosen keys only.",
                    "(attention_weights * keys[:, None, None, :]).sum(-1) / keys.sum(1)[:, None, None]": "This is the mean over the keys. Add up the weights of all chosen keys.",
                    "(attention_weights * keys[:, None, None, :]).amax(-1)": "Only the largest weight was taken. Add up the weights of all chosen keys.",
                    "attention_weights[..., 0]": "Always the first key was used. Add up the weights of all keys where `keys` is True.",
                    "(attention_weights * ~keys[:, None, None, :]).sum(-1)": "The keys that were *not* chosen were summed. `keys` is True where chosen.",
                    "(attention_weights.argmax(-1, keepdim=True) == torch.arange(keys.size(1)))[..., :].logical_and(keys[:, None, None, :]).any(-1) * 1.0": "This counts how often the largest weight is on a chosen key. Add up the weights themselves.",
                },
            ),
            mistake(
                [("keys[:, None, None, :]", "keys")],
                "`keys` is (b, n) and broadcasts over the last two axes, queries and keys, or not at all. Add axes for heads and queries: `keys[:, None, None, :]`.",
            ),
        ],
        hints=[
            "`keys[:, None, None, :]` is (b, 1, 1, n): multiplied by it, the other weights become 0. Sum over the last axis, the keys.",
            "The result is (b, num_heads, n), one value per query. `queries[:, None, :]` selects the chosen ones.",
            "Sum over texts and queries, axes 0 and 2, and divide by `queries.sum()`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="8.a",
        question="Compared with full fine-tuning, what does a linear probe save?",
        options=[
            (
                "Half of the compute at inference: frozen layers are skipped.",
                "They are not: every new text passes through the whole encoder.",
            ),
            (
                "In training, the backward pass through the encoder, and the optimizer's memory for it.",
                "Each text is even encoded only once.",
            ),
            (
                "The memory of the encoder, once the head has been trained.",
                "The head takes the encoder's output as input, so the encoder is still needed.",
            ),
            (
                "Labels: with a frozen encoder the head can be trained on unlabeled text.",
                "The head is trained on labels, as before.",
            ),
        ],
        right=1,
        explanation="Training is cheaper, inference costs the same.",
    )
)
register_quiz(
    Quiz(
        id="8.b",
        question="A linear layer with 384 inputs and 384 outputs gets LoRA of rank 4. How many parameters does LoRA train?",
        options=[
            (
                "16: one matrix of 4 x 4.",
                "The 4 is the width in the middle: 384 features are projected to 4, and back to 384.",
            ),
            ("1,536: one matrix of 4 x 384.", "That is A alone. B has as many."),
            ("3,072: two matrices of 4 x 384.", "A is (4, 384) and B is (384, 4): 2 % of the 147,456 parameters of W."),
            ("147,456: one matrix of 384 x 384.", "B A is as large as W, but only its two factors are trained."),
        ],
        right=2,
        explanation="The rank is a choice: the larger it is, the more changes of these matrices are possible.",
    )
)
register_quiz(
    Quiz(
        id="8.c",
        question="An encoder was fine-tuned to classify texts. Put its masked-LM head back and let it predict masked tokens. What do you expect?",
        options=[
            (
                "The same loss as before, since this head was not used.",
                "Its matrix is the token embedding, which has changed, and so have its inputs.",
            ),
            (
                "A lower loss than before, since it has seen more text.",
                "Fine-tuning never asked it to predict a token.",
            ),
            (
                "A higher loss than before, and the more so the longer it was fine-tuned.",
                "Nothing in the fine-tuning loss protects it. How much is left is measured next.",
            ),
            (
                "The loss of an untrained model, since all parameters have changed.",
                "Nearly all have, but from a trained start. How much is left is measured next.",
            ),
        ],
        right=2,
        explanation="Forgetting comes in degrees. With a frozen encoder, or with LoRA switched off, nothing is lost.",
    )
)
register_quiz(
    Quiz(
        id="8.d",
        question="In layers 2 to 5 of these sentences, more than half of the weight of “watch” is on [CLS], which carries no word. Why might a head learn this?",
        options=[
            (
                "[CLS] summarizes the sentence, and the word needs this summary.",
                "Plausible, but then its value vector would have to be large. The next cells measure it.",
            ),
            (
                "Softmax weights sum to one, so a head with nothing to add needs a token that adds nothing.",
                "A common explanation. The next cells measure the value vector of [CLS].",
            ),
            (
                "[CLS] is the first token, and the first position has the largest embedding.",
                "The weight depends on the key. What [CLS] adds is its value vector: the next cells measure it.",
            ),
            (
                "The weights were not trained long enough to find a better token.",
                "On the contrary: such patterns appear with training.",
            ),
        ],
        right=1,
        explanation="Such a token is called an attention sink.",
    )
)
