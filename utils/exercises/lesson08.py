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


UPDATE = "self.scale * (x @ self.lora_A.T @ self.lora_B.T)"

register(
    Exercise(
        id="8.2",
        cases=lora_cases,
        call=run_lora,
        gradient=True,
        output_names=("output before training", "output"),
        tolerance=1e-3,
        properties=[init_of_lora_A, only_lora_learns],
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


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="8.a",
        question="You train a linear probe: the body is frozen, only the new head is trained. What does this save?",
        options=[
            (
                "Half of the compute at inference, since frozen layers need not be computed.",
                "The forward pass is the same: the hidden states have to be computed.",
            ),
            (
                "The gradients of the body, and the optimizer's two moments for each of its parameters.",
                "There is no backward pass through the body.",
            ),
            ("The memory of the body: it is no longer needed.", "Every new text has to pass through it."),
            (
                "Labels: a frozen body needs none.",
                "The head is trained on labels.",
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
