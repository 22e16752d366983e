"""Lesson 08: its exercises with common mistakes, and its guess-first questions."""

import torch
from torch import nn

from utils.checks.compare import Case, Wrong, a_thing
from utils.exercises.common import built_module, integers, length_mask, normal
from utils.exercises.edits import BODY, mistake
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register

CUT = "`detach`, `.data` or `torch.no_grad` cut it"


# ---------------------------------------------------------------------------------------------- 8.1 the classifier
class Body(nn.Module):
    """A body to try classifiers on: vectors that depend on which tokens are real."""

    def __init__(self, pieces, dim, seed):
        super().__init__()
        self.table = nn.Parameter(normal(torch.Generator().manual_seed(seed), pieces, dim))

    def vectors(self, numbers, real=None):
        real = torch.ones_like(numbers, dtype=torch.bool) if real is None else real
        if real.shape != numbers.shape:
            shapes = tuple(real.shape), tuple(numbers.shape)
            raise Wrong(f"`self.body.vectors` got `real` of shape {shapes[0]}. Pass it unchanged, {shapes[1]}.")
        x, weight = self.table[numbers], real.to(self.table.dtype).unsqueeze(-1)
        return x + 2 * (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)

    def forward(self, numbers, real=None):
        raise Wrong("`self.body(...)` returns logits over tokens. Its vectors are `self.body.vectors(numbers, real)`.")


def run_classifier(answer, seed, pieces, dim, classes, numbers, real):
    """Build the classifier on a body and call it."""
    body = Body(pieces, dim, seed)
    model = built_module(answer, "Classifier", body, dim, classes)
    head = getattr(model, "head", None)
    if getattr(model, "body", None) is not body or not isinstance(head, nn.Linear):
        raise Wrong(
            "`self.body` or `self.head` is not as `__init__` made it. Restore its lines: only `forward` is yours."
        )
    numbers_of = torch.Generator().manual_seed(seed + 1)
    head.weight.data.copy_(normal(numbers_of, classes, dim))
    head.bias.data.copy_(normal(numbers_of, classes))
    return model(numbers, real)


def classifier_cases(generator):
    def one(n, lengths, note, pieces=9, dim=5, classes=3):
        seed, numbers = int(integers(generator, 10_000)), integers(generator, pieces, len(lengths), n)
        return Case((seed, pieces, dim, classes, numbers, length_mask(lengths, n)), note=note)

    return [
        one(6, (4, 6, 2), "texts of several lengths"),
        one(4, (4, 4), "no padding", dim=4, classes=6),
        one(3, (1, 3, 2), "as many texts as tokens", dim=3),
        one(5, (1, 5), "a text of one token", classes=2),
        one(7, (3,), "one text", dim=8),
    ]


def body_and_head_learn(answer, generator):
    """Gradients reach both the new layer and the body."""
    seed, pieces, dim, classes, numbers, real = classifier_cases(generator)[0].args
    model = answer.answer(Body(pieces, dim, seed), dim, classes)
    nn.init.normal_(model.head.weight)
    logits, freeze = model(numbers, real), "To freeze the body, training sets `requires_grad_(False)`."
    if not logits.requires_grad:
        raise Wrong(f"The values are right, but no gradient flows back: {CUT}. {freeze}")
    logits.square().sum().backward()
    for parameter, name in ((model.body.table, "body"), (model.head.weight, "new layer")):
        if parameter.grad is None or not parameter.grad.abs().max() > 0:
            raise Wrong(f"No gradient reaches the {name}: {CUT}. {freeze}")


POOL = "total / real.sum(1, keepdim=True)"
OF_PADDING = "The mean runs over the padding. `real` is True at the tokens: sum over these."

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
                "vectors.mean(1)",
                "The mean includes the padding. Sum the vectors of the real tokens and divide by their number.",
            ),
            mistake(
                [("(numbers, real)", "(numbers)"), (POOL, "vectors.mean(1)")],
                "`real` is not used. Pass it to the body, and average over the real tokens only.",
            ),
            mistake(
                "(numbers, real)",
                "(numbers)",
                "The body does not know which tokens are padding. Call `self.body.vectors(numbers, real)`.",
            ),
            mistake(
                "real.sum(1, keepdim=True)",
                "real.size(1)",
                "The sum leaves padding out, but the mean counts it. Divide by `real.sum(1, keepdim=True)`.",
            ),
            mistake(
                "total / real.sum(1, keepdim=True)",
                "total",
                "The vectors are summed, so long texts get larger vectors. Divide by the number of real tokens.",
            ),
            mistake("total = (", "real = ~real\ntotal = (", OF_PADDING),
            mistake([("total = (", "real = ~real\ntotal = ("), (POOL, f"({POOL}).nan_to_num()")], OF_PADDING),
            mistake(
                "real.sum(1, keepdim=True)",
                "real.sum(1)",
                "`real.sum(1)` is (b,) and does not divide (b, dim) row by row. Keep the axis: `real.sum(1, keepdim=True)`.",
            ),
            mistake(
                "real.unsqueeze(-1)",
                "real",
                "`real` is (b, n), the vectors are (b, n, dim). Add an axis: `real.unsqueeze(-1)`.",
            ),
            mistake(POOL, "vectors[:, 0]", "Only the first token was used. Average over all real tokens."),
            mistake(
                POOL, "vectors[:, -1]", "Only the last position was used, maybe padding. Average over the real tokens."
            ),
            mistake(
                POOL,
                "vectors[torch.arange(len(vectors)), real.sum(1) - 1]",
                "Only the last real token was used. Average over all real tokens.",
            ),
            mistake(
                POOL,
                "vectors.masked_fill(~real.unsqueeze(-1), -torch.inf).amax(1)",
                "This is max pooling. Average over the real tokens instead.",
            ),
            mistake(
                POOL,
                "vectors[real].mean(0)",
                "One mean was taken for the whole batch. Each text has its own, (b, dim).",
            ),
            mistake(
                POOL,
                "vectors.mean(-1)",
                "The mean ran over the features. Average over the tokens of each text, axis 1.",
            ),
            mistake(
                POOL,
                "vectors",
                "Every token got its own logits. Average before the linear layer: one row per text, (b, classes).",
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
            "`self.body.vectors(numbers, real)` is (b, n, dim).",
            "`real.unsqueeze(-1)` is (b, n, 1): multiplied by it, padding becomes 0 and adds nothing to the sum.",
            "Divide the sum by `real.sum(1, keepdim=True)`, (b, 1), then apply `self.head`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.2 a low-rank adapter
def run_low_rank(answer, seed, inputs, outputs, rank, scale, x):
    """Build the adapter around a frozen layer: its output at first, and with other values in `down` and `up`."""
    numbers = torch.Generator().manual_seed(seed)
    linear = nn.Linear(inputs, outputs)
    linear.weight.data.copy_(normal(numbers, outputs, inputs))
    linear.bias.data.copy_(normal(numbers, outputs))
    before = linear.weight.detach().clone()
    layer = built_module(answer, "LowRank", linear, rank, *(() if scale == 1.0 else (scale,)))
    require_parts(layer, inputs, outputs, rank)
    at_first = layer(x)
    if at_first is None:
        raise Wrong("`forward` returned None. End it with `return`.")
    layer.down.data.copy_(normal(numbers, rank, inputs))
    layer.up.data.copy_(normal(numbers, outputs, rank))
    result = layer(x)
    if not torch.equal(linear.weight, before):
        raise Wrong("The frozen weight was changed. Leave it as it is and add the adapter to the layer's output.")
    return at_first.detach(), result


def require_parts(layer, inputs, outputs, rank):
    """The parameters: names, shapes, initialization, and which are trained."""
    given = dict(layer.named_parameters())
    shapes = {"down": ("(rank, inputs)", (rank, inputs)), "up": ("(outputs, rank)", (outputs, rank))}
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
    zero_down, zero_up = (part.abs().max() == 0 for part in (layer.down, layer.up))
    if zero_down and zero_up:
        raise Wrong(
            "Both factors start at zero, where both gradients vanish. Initialize `self.down` with random numbers."
        )
    if zero_down:
        raise Wrong("`self.down` starts at zero. Initialize it with random numbers, and `self.up` with zeros.")
    if not zero_up:
        raise Wrong(
            "`self.up` starts with random numbers, which changes the pretrained layer at once. Initialize it with zeros."
        )


def low_rank_cases(generator):
    def one(inputs, outputs, rank, shape, note, scale=1.0):
        seed = int(integers(generator, 10_000))
        return Case((seed, inputs, outputs, rank, scale, normal(generator, *shape, inputs)), note=note)

    return [
        one(6, 9, 2, (3, 4), "more outputs than inputs"),
        one(8, 5, 3, (2, 3), "fewer outputs, and a scale", scale=0.5),
        one(4, 4, 2, (3,), "a square layer", scale=2.0),
        one(5, 7, 1, (2, 2), "rank one"),
        one(3, 3, 3, (4,), "full rank", scale=0.25),
        one(5, 4, 2, (1, 3), "one sentence"),
    ]


def spread_of_down(answer, generator):
    """1 / sqrt(inputs), or a uniform distribution that ends there; not by rank or outputs, and no constant."""
    for inputs, outputs, rank in ((100, 1200, 8), (400, 20, 50)):
        down = answer.answer(nn.Linear(inputs, outputs), rank).down.detach()
        spread, wanted = float(down.std()), inputs**-0.5
        if not 0.5 < spread / wanted < 1.25:
            raise Wrong(
                f"With {inputs} inputs, {outputs} outputs and rank {rank}, `self.down` has standard deviation {spread:.2g}. Use 1 / sqrt(inputs) = {wanted:.2g}."
            )
        if abs(float(down.mean())) > spread / 2:
            raise Wrong(f"The mean of `self.down` is {float(down.mean()):.2g}. Draw around 0, with `torch.randn`.")


def only_the_adapter_learns(answer, generator):
    layer = answer.answer(nn.Linear(5, 4), 2)
    layer.up.data.normal_(generator=generator)
    output = layer(normal(generator, 3, 5))
    if output.requires_grad:
        output.square().sum().backward()
    for name in ("down", "up"):
        if getattr(layer, name).grad is None:
            raise Wrong(f"No gradient reaches `self.{name}`: {CUT}. Use the parameter itself.")


LOW_RANK = "self.scale * (x @ self.down.T @ self.up.T)"

register(
    Exercise(
        id="8.2",
        cases=low_rank_cases,
        call=run_low_rank,
        gradient=True,
        output_names=("output before training", "output"),
        tolerance=1e-3,
        properties=[spread_of_down, only_the_adapter_learns],
        mistakes=[
            mistake("self.scale * (", "(", "`scale` has no effect. Multiply the output of the adapter by it."),
            mistake(
                f"self.linear(x) + {LOW_RANK}",
                "self.scale * (self.linear(x) + x @ self.down.T @ self.up.T)",
                "The frozen layer was scaled, too. Scale only the output of the adapter.",
            ),
            mistake("self.linear(x) + ", "", "The frozen layer is missing. Add the adapter to `self.linear(x)`."),
            mistake(f" + {LOW_RANK}", "", "The adapter has no effect. Add scale B (A x)."),
            mistake(
                "self.linear(x)",
                "x @ self.linear.weight.T",
                "The bias of the frozen layer is lost. Call the layer: `self.linear(x)`.",
            ),
            mistake(
                "x @ self.down.T",
                "torch.relu(x @ self.down.T)",
                "There is a nonlinearity between the factors. Without it B A is one matrix, which can be merged into W.",
            ),
            mistake(
                "self.scale * (",
                "self.scale / self.down.size(0) * (",
                "The adapter was divided by the rank, as some libraries do. Here `scale` is used as it is.",
            ),
            mistake(
                "x @ self.down.T @ self.up.T",
                "x @ self.down @ self.up",
                "`self.down` is (rank, inputs), as the weight of a linear layer. Transpose both: `x @ self.down.T @ self.up.T`.",
            ),
        ],
        hints=[
            "`__init__`: call `super().__init__()`, then keep `linear.requires_grad_(False)` and `scale`. `self.down` is an `nn.Parameter` of shape (rank, linear.in_features), random with standard deviation 1 / sqrt(inputs).",
            "`self.up` is an `nn.Parameter` of zeros, (linear.out_features, rank): at first the adapter adds nothing.",
            "`forward`: `self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.3 along the line
def line_cases(generator):
    def one(share, note, shapes=(("weight", (2, 3)), ("bias", (3,)))):
        start, end = ({name: normal(generator, *shape) for name, shape in shapes} for _ in range(2))
        return Case((start, end, share), note=note)

    alike = (("first.weight", (2, 2)), ("second.weight", (2, 2)))
    reordered = one(0.3, "the same names in another order", alike)
    reordered.args = (reordered.args[0], dict(reversed(reordered.args[1].items())), 0.3)
    return [
        one(0.25, "a quarter of the way"),
        one(0.0, "at the start"),
        one(1.0, "at the end"),
        one(0.5, "halfway", alike),
        reordered,
        one(1.5, "beyond the end"),
        one(-0.5, "before the start", (("gain", (4,)),)),
    ]


POINT, STEP = "start[name] + share * (end[name] - start[name])", "(end[name] - start[name])"

register(
    Exercise(
        id="8.3",
        cases=line_cases,
        mistakes=[
            mistake(
                POINT,
                "end[name] + share * (start[name] - end[name])",
                "Start and end are swapped. Share 0 gives `start`, share 1 gives `end`.",
            ),
            mistake(
                STEP, "end[name]", "At share 1 it gives start + end. Add `share` times the difference end - start."
            ),
            mistake(
                "start[name] + share", "share", "It returned only the difference from the start. Add `start[name]`."
            ),
            mistake(STEP, "(start[name] - end[name])", "It moves away from the end. The direction is end - start."),
            mistake(POINT, "(start[name] + end[name]) / 2", "`share` has no effect: this is the midpoint."),
            mistake(
                "+ share",
                "+ min(max(share, 0.0), 1.0)",
                "`share` was clamped to [0, 1]. The line continues on both sides: use it as it is.",
            ),
            mistake(
                POINT,
                "share * (start[name] + end[name])",
                "Both ends were weighted by `share`. The weight of the start is 1 - share.",
            ),
            mistake(
                BODY,
                "return {name: a + share * (b - a) for (name, a), b in zip(start.items(), end.values())}",
                "The tensors were matched by their order. Match them by name: `end[name]`.",
            ),
            mistake(
                BODY,
                f"return [{POINT} for name in start]",
                "It returned a list. Return a dict with the names of `start`, so that a model can load it.",
            ),
            mistake(
                BODY,
                "return start + share * (end - start)",
                "`start` and `end` are dicts, which cannot be subtracted. Compute it for each name.",
            ),
        ],
        hints=[
            "Use a dict comprehension over the names: `{name: ... for name in start}`.",
            "For each name: start + share * (end - start).",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="8.a",
        question="You fine-tune with a frozen body: only the new layer on top is trained (a linear probe). What does this save?",
        options=[
            (
                "Half of the compute at inference, since frozen layers need not be computed.",
                "The forward pass is the same: the vectors have to be computed.",
            ),
            (
                "The gradients of the body, and the optimizer's two moments for each of its parameters.",
                "There is no backward pass through the body.",
            ),
            ("The memory of the body: it is no longer needed.", "Every new text has to pass through it."),
            (
                "Labels: a frozen body needs none.",
                "The new layer learns from labels.",
            ),
        ],
        right=1,
        explanation="Training is cheaper, inference costs the same.",
    )
)
register_quiz(
    Quiz(
        id="8.b",
        question="A linear layer with 384 inputs and 384 outputs gets a LoRA adapter of rank 4. How many parameters does the adapter train?",
        options=[
            (
                "16, a matrix of 4 x 4.",
                "The 4 is the dimension in the middle: 384 numbers are projected to 4, and back to 384.",
            ),
            ("1,536, which is 4 x 384.", "That is A alone. B has as many."),
            ("3,072, which is twice 4 x 384.", "A is (4, 384), B is (384, 4): 2 % of the 147,456 parameters of W."),
            (
                "147,456: B A is a matrix of 384 x 384.",
                "It is as large as W, but has rank 4. Only its two factors are trained.",
            ),
        ],
        right=2,
        explanation="After training s B A can be merged into the frozen matrix: then the adapted layer costs no more than the original.",
    )
)
register_quiz(
    Quiz(
        id="8.c",
        question="An encoder was fine-tuned as a whole to classify texts into 14 classes. You put its old output layer back and let it predict masked "
        "tokens. What do you expect?",
        options=[
            (
                "As good as before: the output layer has not changed.",
                "The layers below it have. Its input vectors are no longer those it was trained on.",
            ),
            (
                "Better than before: it has seen more text.",
                "Fine-tuning never asked it to predict tokens, and nothing kept it from forgetting.",
            ),
            (
                "Worse than before, but part of what it learned is left.",
                "Nothing in the fine-tuning loss protected what it knew. How much it forgot is measured in the next cells.",
            ),
            (
                "Nothing is left: every parameter has changed.",
                "They have, but by a small fraction of their norm. The next cells measure what is left.",
            ),
        ],
        right=2,
        explanation="This is catastrophic forgetting, and it comes in degrees. With a frozen body or with LoRA the original model can be recovered "
        "exactly.",
    )
)
