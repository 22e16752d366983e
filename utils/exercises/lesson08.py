"""Lesson 08: its exercises with common mistakes, and its guess-first questions."""

import torch
from torch import nn

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.exercises.common import normal
from utils.exercises.edits import mistake
from utils.exercises.lesson05 import expect_a_module
from utils.exercises.lesson06 import up_to, whole
from utils.models import language
from utils.training.fine_tuning import between


# ---------------------------------------------------------------------------------------------- 8.1 the classifier
class Classifier(language.Classifier):
    """The reference as the lesson builds it."""

    def __init__(self, body, dim, classes):
        super().__init__(body, dim, classes)


class Body(nn.Module):
    """A body to try classifiers on: vectors that depend on who is real. It notes what it was given."""

    def __init__(self, pieces, dim, seed):
        super().__init__()
        self.table = nn.Parameter(normal(torch.Generator().manual_seed(seed), pieces, dim))

    def vectors(self, numbers, real=None):
        if real is None:
            real = torch.ones_like(numbers, dtype=torch.bool)
        if real.shape != numbers.shape:
            raise Wrong(
                f"`self.body.vectors` was given `real` of shape {tuple(real.shape)}: hand it on as it is, {tuple(numbers.shape)}."
            )
        x = self.table[numbers]
        share = real.to(x.dtype).unsqueeze(-1)
        return x + 2 * (x * share).sum(1, keepdim=True) / share.sum(1, keepdim=True)

    def forward(self, numbers, real=None):
        raise Wrong("`self.body(...)` gives logits over pieces: its vectors are `self.body.vectors(numbers, real)`.")


def run_classifier(answer, seed, pieces, dim, classes, numbers, real):
    """Build the classifier on a body and call it."""
    body = Body(pieces, dim, seed)
    model = expect_a_module(answer, "Classifier", body, dim, classes)
    head = getattr(model, "head", None)
    if getattr(model, "body", None) is not body or not isinstance(head, nn.Linear):
        raise Wrong(
            "`self.body` or `self.head` is not as `__init__` made it: put its lines back, only `forward` is yours."
        )
    numbers_of = torch.Generator().manual_seed(seed + 1)
    head.weight.data.copy_(normal(numbers_of, classes, dim))
    head.bias.data.copy_(normal(numbers_of, classes))
    return model(numbers, real)


def classifier_cases(generator):
    def one(n, lengths, note, pieces=9, dim=5, classes=3):
        seed, numbers = int(whole(generator, 10_000)), whole(generator, pieces, len(lengths), n)
        return Case((seed, pieces, dim, classes, numbers, up_to(lengths, n)), note=note)

    return [
        one(6, (4, 6, 2), "texts of several lengths"),
        one(4, (4, 4), "no padding", dim=4, classes=6),
        one(3, (1, 3, 2), "as many texts as pieces", dim=3),
        one(5, (1, 5), "a text of one piece", classes=2),
        one(7, (3,), "one text", dim=8),
    ]


def classifier_with(
    given=lambda real: real,
    pool=language.mean_of_real,
    last=lambda self, pooled: self.head(pooled),
):
    """The classifier with parts that can be replaced by wrong ones."""

    def forward(self, numbers, real=None):
        return last(self, pool(self.body.vectors(numbers, given(real)), real))

    return type("Classifier", (Classifier,), {"forward": forward})


def last_real(vectors, real):
    return vectors[torch.arange(len(vectors)), real.sum(1) - 1]


def largest_real(vectors, real):
    return vectors.masked_fill(~real.unsqueeze(-1), float("-inf")).amax(1)


def per_row_of_n(vectors, real):
    return (vectors * real.unsqueeze(-1)).sum(1) / real.size(1)


def one_mean_for_all(vectors, real):
    return vectors[real].mean(0)


def body_and_head_learn(answer, generator):
    """Gradients reach both the new layer and the body."""
    seed, pieces, dim, classes, numbers, real = classifier_cases(generator)[0].args
    model = answer.answer(Body(pieces, dim, seed), dim, classes)
    nn.init.normal_(model.head.weight)
    model(numbers, real).square().sum().backward()
    for parameter, name in ((model.body.table, "body"), (model.head.weight, "new layer")):
        if parameter.grad is None or not parameter.grad.abs().max() > 0:
            raise Wrong(
                f"No gradient reaches the {name}: `detach`, `.data` or `torch.no_grad` cut it. Freezing "
                "is decided by who trains, with `requires_grad_(False)`."
            )


register(
    Exercise(
        id="8.1",
        cases=classifier_cases,
        call=run_classifier,
        methods=("forward",),
        tolerance=1e-3,
        properties=[body_and_head_learn],
        mistakes=[
            mistake(
                classifier_with(pool=lambda vectors, real: vectors.mean(1)),
                "The mean runs over padding as well: sum the vectors of the real pieces and divide by how many they are.",
            ),
            mistake(
                classifier_with(given=lambda real: None, pool=lambda vectors, real: vectors.mean(1)),
                "`real` is not used at all: the body needs it, and the mean runs over the real pieces only.",
            ),
            mistake(
                classifier_with(given=lambda real: None),
                "The body does not know what is padding: `self.body.vectors(numbers, real)`.",
            ),
            mistake(
                classifier_with(pool=per_row_of_n),
                "The padding was left out of the sum, but counted in the mean: divide by the number of real pieces, "
                "`real.sum(1, keepdim=True)`.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: (vectors * real.unsqueeze(-1)).sum(1)),
                "That is the sum: without the division a long text has a larger vector. Divide by the number of real pieces.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: language.mean_of_real(vectors, ~real).nan_to_num()),
                "The mean runs over the padding: `real` is True at the pieces.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: language.mean_of_real(vectors, ~real)),
                "The mean runs over the padding, and is NaN where there is none: `real` is True at the pieces.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: vectors[:, 0]),
                "Only the first piece was used: some models do that, here it is the mean over the real pieces.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: vectors[:, -1]),
                "Only the last place was used, which may be padding: the mean over the real pieces.",
            ),
            mistake(
                classifier_with(pool=last_real),
                "Only the last real piece was used: the mean over all real pieces.",
            ),
            mistake(
                classifier_with(pool=largest_real),
                "That is the largest value of each feature: the mean over the real pieces is asked for.",
            ),
            mistake(
                classifier_with(pool=one_mean_for_all),
                "One mean for the whole batch: each text has its own, (b, dim).",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: vectors.mean(-1)),
                "The mean ran over the features: over the pieces of each text, axis 1.",
            ),
            mistake(
                classifier_with(pool=lambda vectors, real: vectors),
                "Every piece got its own answer: one for each text, (b, classes). The mean comes before the linear layer.",
            ),
            mistake(
                classifier_with(last=lambda self, pooled: pooled),
                "The mean came back as it is: `self.head` makes logits of it, one for each class.",
            ),
            mistake(
                classifier_with(last=lambda self, pooled: self.head(pooled).softmax(-1)),
                "Probabilities came back: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                classifier_with(last=lambda self, pooled: self.head(pooled).log_softmax(-1)),
                "Log-probabilities came back: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                classifier_with(last=lambda self, pooled: self.head(pooled).argmax(-1)),
                "The likeliest class came back: logits are wanted, or there is nothing to learn from.",
            ),
        ],
        hints=[
            "`self.body.vectors(numbers, real)` is (b, n, dim).",
            "`real.unsqueeze(-1)` is (b, n, 1): times it, the padding is 0 and adds nothing to the sum.",
            "Divide the sum by `real.sum(1, keepdim=True)`, (b, 1); then `self.head`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.2 a low-rank adapter
class LowRank(language.LowRank):
    """The reference as the lesson calls it."""

    def __init__(self, linear, rank, scale=1.0):
        super().__init__(linear, rank, scale)


def run_low_rank(answer, seed, inputs, outputs, rank, scale, x):
    """Build the adapter around a frozen layer: what it gives at first, and with other numbers in `down` and `up`."""
    numbers = torch.Generator().manual_seed(seed)
    linear = nn.Linear(inputs, outputs)
    linear.weight.data.copy_(normal(numbers, outputs, inputs))
    linear.bias.data.copy_(normal(numbers, outputs))
    before = linear.weight.detach().clone()
    options = () if scale == 1.0 else (scale,)
    layer = expect_a_module(answer, "LowRank", linear, rank, *options)
    require_parts(layer, inputs, outputs, rank)
    at_first = layer(x)
    if at_first is None:
        raise Wrong("`forward` returned nothing: it ends with `return`.")
    layer.down.data.copy_(normal(numbers, rank, inputs))
    layer.up.data.copy_(normal(numbers, outputs, rank))
    result = layer(x)
    if not torch.equal(linear.weight, before):
        raise Wrong("The frozen weight was changed: it stays, and the adapter is added to what it gives.")
    return at_first.detach(), result


def require_parts(layer, inputs, outputs, rank):
    """The parameters, by name, shape, start and who learns."""
    given, shapes = dict(layer.named_parameters()), {"down": (rank, inputs), "up": (outputs, rank)}
    for name, shape in shapes.items():
        if name not in given:
            kind = a_thing(getattr(layer, name)) if hasattr(layer, name) else "missing"
            raise Wrong(f"`self.{name}` is {kind}: make it an `nn.Parameter` of shape {shape}, or nothing learns it.")
        if tuple(given[name].shape) != shape:
            names = {"down": "(rank, inputs)", "up": "(outputs, rank)"}
            raise Wrong(
                f"`self.{name}` has shape {tuple(given[name].shape)}: expected {names[name]}, here {shape}, as a linear layer "
                "has its weight."
            )
        if not given[name].requires_grad:
            raise Wrong(f"`self.{name}` is frozen: it is what learns.")
    learns = [name for name in given if name not in shapes and given[name].requires_grad]
    if learns:
        raise Wrong(
            f"`{learns[0]}` still learns: freeze the given layer, `linear.requires_grad_(False)`, or nothing is saved."
        )
    if layer.down.abs().max() == 0:
        start = "Both start at zero" if layer.up.abs().max() == 0 else "`self.down` starts at zero"
        raise Wrong(
            f"{start}: `self.up` does, `self.down` starts with random numbers. "
            + ("Two zeros have no gradient, neither would ever move." if "Both" in start else "")
        )
    if layer.up.abs().max() > 0:
        raise Wrong(
            "`self.up` starts with random numbers, so the layer does something else than the pretrained one before any "
            "training: start it at zero."
        )


def low_rank_cases(generator):
    def one(inputs, outputs, rank, shape, note, scale=1.0):
        return Case(
            (int(whole(generator, 10_000)), inputs, outputs, rank, scale, normal(generator, *shape, inputs)), note=note
        )

    return [
        one(6, 9, 2, (3, 4), "more outputs than inputs"),
        one(8, 5, 3, (2, 3), "fewer outputs, and a scale", scale=0.5),
        one(4, 4, 2, (3,), "a square layer", scale=2.0),
        one(5, 7, 1, (2, 2), "rank one"),
        one(3, 3, 3, (4,), "full rank", scale=0.25),
        one(5, 4, 2, (1, 3), "one sentence"),
    ]


def low_rank_with(
    added=lambda self, x: self.scale * (x @ self.down.T @ self.up.T), base=lambda self, x: self.linear(x), init=None
):
    """The adapter with parts that can be replaced by wrong ones; init(self) runs after the right `__init__`."""

    def start(self, linear, rank, scale=1.0):
        LowRank.__init__(self, linear, rank, scale)
        if init is not None:
            init(self)

    def forward(self, x):
        return base(self, x) + added(self, x)

    return type("LowRank", (LowRank,), {"__init__": start, "forward": forward})


def small_start(answer, generator):
    """The spread of A at the start, measured on a layer large enough to tell."""
    layer = answer.answer(nn.Linear(400, 30), 20)
    spread = float(layer.down.std())
    if not 0.01 <= spread <= 0.25:
        raise Wrong(
            f"With 400 inputs the numbers in `self.down` have a spread of {spread:.2g}: about 1 / sqrt(inputs) = 0.05, so that "
            "what it makes of x is as large as x."
        )
    if abs(float(layer.down.mean())) > spread / 2:
        raise Wrong(
            f"The numbers in `self.down` have a mean of {float(layer.down.mean()):.2g}: draw them around 0, with `torch.randn`."
        )


def only_the_adapter_learns(answer, generator):
    layer = answer.answer(nn.Linear(5, 4), 2)
    layer.up.data.normal_(generator=generator)
    layer(normal(generator, 3, 5)).square().sum().backward()
    for name in ("down", "up"):
        if getattr(layer, name).grad is None:
            raise Wrong(f"No gradient reaches `self.{name}`: `detach`, `.data` or `torch.no_grad` cut it.")


register(
    Exercise(
        id="8.2",
        cases=low_rank_cases,
        call=run_low_rank,
        methods=("__init__", "forward"),
        gradient=True,
        output_names=("output before training", "output"),
        tolerance=1e-3,
        properties=[small_start, only_the_adapter_learns],
        mistakes=[
            mistake(
                low_rank_with(added=lambda self, x: x @ self.down.T @ self.up.T),
                "`scale` has no effect: times it goes what the adapter adds.",
            ),
            mistake(
                low_rank_with(
                    base=lambda self, x: self.scale * self.linear(x),
                    added=lambda self, x: self.scale * (x @ self.down.T @ self.up.T),
                ),
                "The frozen layer was scaled as well: only what the adapter adds is.",
            ),
            mistake(
                low_rank_with(base=lambda self, x: 0.0),
                "The frozen layer is missing: the adapter is added to what it gives, `self.linear(x)`.",
            ),
            mistake(
                low_rank_with(added=lambda self, x: 0.0),
                "The adapter has no effect: add scale * up (down x).",
            ),
            mistake(
                low_rank_with(base=lambda self, x: x @ self.linear.weight.T),
                "The bias of the frozen layer is lost: call the layer, `self.linear(x)`.",
            ),
            mistake(
                low_rank_with(added=lambda self, x: self.scale * torch.relu(x @ self.down.T) @ self.up.T),
                "There is a non-linearity between the two maps: without it their product is one matrix, which can be added to the "
                "frozen one after training.",
            ),
            mistake(
                low_rank_with(added=lambda self, x: self.scale * (x @ self.down.T @ self.up.T) / self.down.size(0)),
                "It was divided by the rank: some do, here `scale` is used as it is.",
            ),
            mistake(
                low_rank_with(added=lambda self, x: self.scale**2 * (x @ self.down.T @ self.up.T)),
                "`scale` was used twice: once is enough.",
            ),
            mistake(
                low_rank_with(added=lambda self, x: -self.scale * (x @ self.down.T @ self.up.T)),
                "What the adapter makes was subtracted: add it.",
            ),
        ],
        hints=[
            "`__init__`: `super().__init__()`, then keep `linear.requires_grad_(False)` and `scale`. `self.down` is an `nn.Parameter` of "
            "(rank, linear.in_features) with random numbers, of spread 1 / sqrt(inputs).",
            "`self.up` is an `nn.Parameter` of zeros, (linear.out_features, rank): at first the adapter adds nothing.",
            "`forward`: `self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 8.3 along the line
def line_cases(generator):
    def one(share, note, shapes=(("weight", (2, 3)), ("bias", (3,)))):
        start = {name: normal(generator, *shape) for name, shape in shapes}
        end = {name: normal(generator, *shape) for name, shape in shapes}
        return Case((start, end, share), note=note)

    alike = (("first.weight", (2, 2)), ("second.weight", (2, 2)))
    in_another_order = one(0.3, "the same names in another order", alike)
    in_another_order.args = (in_another_order.args[0], dict(reversed(in_another_order.args[1].items())), 0.3)
    return [
        one(0.25, "a quarter of the way"),
        one(0.0, "at the start"),
        one(1.0, "at the end"),
        one(0.5, "half way", alike),
        in_another_order,
        one(1.5, "beyond the end"),
        one(-0.5, "before the start", (("gain", (4,)),)),
    ]


def line_with(mix):
    def wrong(start, end, share):
        return {name: mix(start[name], end[name], share) for name in start}

    return wrong


def matched_by_place(start, end, share):
    pairs = zip(start.values(), end.values(), strict=True)
    return {name: a + share * (b - a) for name, (a, b) in zip(start, pairs, strict=True)}


register(
    Exercise(
        id="8.3",
        cases=line_cases,
        mistakes=[
            mistake(
                line_with(lambda a, b, share: b + share * (a - b)),
                "Start and end are swapped: share 0 is the start, share 1 the end.",
            ),
            mistake(
                line_with(lambda a, b, share: a + share * b),
                "At share 1 it is start + end: add a share of the way, which is end - start.",
            ),
            mistake(
                line_with(lambda a, b, share: share * (b - a)),
                "That is the way walked, not the place: add the start.",
            ),
            mistake(
                line_with(lambda a, b, share: a + share * (a - b)),
                "It walks away from the end: the way is end - start.",
            ),
            mistake(
                line_with(lambda a, b, share: (a + b) / 2),
                "`share` has no effect: that is the middle.",
            ),
            mistake(
                line_with(lambda a, b, share: a + min(max(share, 0.0), 1.0) * (b - a)),
                "The share was cut to 0 to 1: the line goes on at both sides, and the loss there is worth a look.",
            ),
            mistake(
                line_with(lambda a, b, share: share * a + share * b),
                "Both ends were weighted with `share`: the start has 1 - share.",
            ),
            mistake(
                matched_by_place,
                "The tensors were matched by their order: by name, `end[name]`.",
            ),
            mistake(
                lambda start, end, share: list(between(start, end, share).values()),
                "A list came back: a dict with the names of `start`, so that a model can load it.",
            ),
        ],
        hints=[
            "A dict comprehension over the names: `{name: ... for name in start}`.",
            "start + share * (end - start), for each name.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="8.a",
        question="Fine-tuning with a frozen body: only the new layer on top learns. What is saved?",
        options=[
            (
                "Half of the computation in use, since frozen layers need not be computed.",
                "The forward pass is the same: someone has to make the vectors.",
            ),
            (
                "The gradients of the body, and the optimiser's two numbers for each of its parameters.",
                "No backward pass through the body. And its vectors can be made once and kept for all epochs.",
            ),
            (
                "The memory of the body: it is not needed any more.",
                "Every new text has to go through it.",
            ),
            (
                "Labels: a frozen body needs none.",
                "The new layer learns from labels. With one for each class it does as well here as training everything.",
            ),
        ],
        right=1,
        explanation="Training is cheaper, use costs the same. What is lost: the body cannot learn what the task needs and pretraining did not.",
    )
)
register_quiz(
    Quiz(
        id="8.b",
        question="A linear layer from 384 to 384 numbers gets an adapter of rank 4. How many parameters does the adapter train?",
        options=[
            (
                "16, a matrix of 4 x 4.",
                "The 4 are in the middle: 384 numbers go down to 4 and up to 384 again.",
            ),
            (
                "1,536, 4 x 384.",
                "That is the way down. The way up has as many.",
            ),
            (
                "3,072, twice 4 x 384.",
                "A is (4, 384), B is (384, 4): 2 % of the matrix's 147,456.",
            ),
            (
                "147,456: B A is a matrix of 384 x 384.",
                "As large, but of rank 4. It is never trained as such, only its two factors are.",
            ),
        ],
        right=2,
        explanation="After training s B A can be added to the frozen matrix: then the adapted layer costs no more than the old one.",
    )
)
register_quiz(
    Quiz(
        id="8.c",
        question="An encoder was fine-tuned as a whole to sort texts into 14 classes. You put its old output layer back and let it fill in blanks. "
        "What do you expect?",
        options=[
            (
                "As good as before: the output layer has not changed.",
                "The layers below it have. It reads vectors that are not made for it any more.",
            ),
            (
                "Better than before: it has seen more text.",
                "Nobody asked it for words meanwhile. Nothing held it to what it knew.",
            ),
            (
                "Worse than before, and the worse the longer it was tuned; but something is left.",
                "Nothing held it to what it knew. How much it forgot depends on how far it went: the next cells measure it.",
            ),
            (
                "Nothing is left: every parameter has changed.",
                "They have, but by a small part of their length. Measure what is left.",
            ),
        ],
        right=2,
        explanation="Forgetting is no wall but a slope: it grows with training. With a frozen body or with adapters the old model can be "
        "had back whole.",
    )
)
