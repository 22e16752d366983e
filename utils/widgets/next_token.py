"""Sampling from a language model after a prompt of the reader's own: temperature, top-k and top-p, before and after."""

import numpy as np

from utils.plots.parts import percent
from utils.plots.style import as_array
from utils.widgets.base import ReaderError, Widget, checked_text, plain
from utils.widgets.controls import control, menu

SPACE = "▁"  # marks the space before a word in the tokens of a tokenizer
TOP_K = (1, 2, 3, 5, 10, 20, 50, 100)
SHOWN = 8  # tokens with bars
STORED, FIRST = 12, 6  # tokens that are sampled at once, and those that the text has at first
MAX_TOKENS = 100


def next_token(respond, tokens, prompt, distribution, *, temperature=1.0, top_k=None, top_p=1.0, eos_ids=(), title=""):
    """Type a prompt and sample token by token, with temperature, top-k and top-p.

    respond(prompt, new_ids) is a pure function of a string and the list of token ids sampled so far, and returns the
    logits (V,) of the next token, -inf for one that is banned. The message of a ValueError is shown to the reader. tokens: the
    V tokens as strings. distribution(logits, temperature, top_k, top_p) gives the probabilities (V,) from which the next token is
    sampled; top_k and top_p are None where they cut nothing. It is not called with temperature 0, by which it may divide: there
    only the most probable token stays. eos_ids: the ids that end the text.
    """
    inputs = {"prompt": prompt, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    return NextToken(respond, tokens, inputs, distribution, eos_ids, title)


def example():
    words = ["the", "cat", "dog", "sees", "bird", "old", "sleeps", "house", "and", "a", "runs"]
    tokens = [*(f"▁{word}" for word in words), "s", "."]

    def respond(prompt, new_ids):
        return 2 * np.random.default_rng([len(prompt), *new_ids[-2:]]).normal(size=len(tokens))

    def distribution(logits, temperature, top_k, top_p):
        order = np.argsort(-logits)
        probs = softmax(logits[order] / temperature)
        probs[top_k or len(probs) :] = 0
        probs /= probs.sum()
        probs[np.cumsum(probs) - probs >= (top_p or 1)] = 0
        return (probs / probs.sum())[np.argsort(order)]

    return next_token(respond, tokens, "the old cat", distribution, top_p=0.9, title="Sample token by token")


class NextToken(Widget):
    """What `next_token` returns. Inputs: `prompt`, `new_ids` (the tokens sampled so far), the sampling parameters and `seed`.

    The parameters change the next token only; the same seed and parameters from the start give the same text. View: `step`, the
    position that a page without Python shows, or None for the last one.
    """

    script = "next_token"

    def __init__(self, respond, tokens, inputs, distribution, eos_ids, title):
        self._respond, self._distribution = respond, distribution
        self._tokens = [str(token).replace(SPACE, " ") for token in tokens]
        self._eos_ids = set(map(int, eos_ids))
        self._prompt, self._logits, self._steps = None, {}, {}  # the last two by the ids sampled before
        options = [("all", None), *((str(k), k) for k in sorted({*TOP_K, inputs["top_k"]} - {None}))]
        controls = [
            control("prompt", inputs["prompt"], "your prompt")[0],
            control("temperature", (0.0, 2.0, 0.1, inputs["temperature"]))[0],
            control("top_k", menu(options, inputs["top_k"]), "top-k")[0],
            control("top_p", (0.05, 1.0, 0.05, inputs["top_p"]), "top-p")[0],
            control("seed", (0, 99, 1, 0))[0],
        ]
        first = {**inputs, "seed": 0, "new_ids": []}
        ahead = self.respond(**first)  # a page without Python can go on as far as this
        while len(ahead["steps"]) <= STORED and not ahead["end"]:
            ahead = self.respond(**{**first, "new_ids": [step["id"] for step in ahead["steps"]]})
        first["new_ids"] = [step["id"] for step in ahead["steps"][:FIRST]]
        data = {"title": title, "controls": controls, "first": first, "vocab_size": len(self._tokens)}
        super().__init__(data, first, {"step": None})
        self.answer = plain(ahead)

    def respond(self, prompt, new_ids, temperature, top_k, top_p, seed):
        """steps: for each position the distribution and the token sampled from it, up to the next token; end: why there is none."""
        if checked_text(prompt) != self._prompt:
            self._prompt, self._logits, self._steps = prompt, {}, {}
        parameters = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
        steps = []
        for position, token in enumerate([*new_ids, None]):
            before = tuple(new_ids[:position])
            if token is None and (end := self._end(before)):
                return {"steps": steps, "end": end}
            # Earlier tokens keep the distribution that they were sampled from.
            if token is None or self._steps.get(before, {}).get("id") != token:
                self._steps[before] = self._sample(before, parameters, seed, token)
            steps.append(self._steps[before])
        return {"steps": steps, "end": ""}

    def _end(self, new_ids):
        """Why nothing can be sampled after these tokens, or ""; asks the model if something can."""
        if new_ids and new_ids[-1] in self._eos_ids:
            return "The text has ended."
        if len(new_ids) >= MAX_TOKENS:
            return f"This widget samples at most {MAX_TOKENS} tokens."
        try:
            self._next_logits(new_ids)
        except ValueError as problem:
            message = str(problem) or "The model cannot continue this text."
            if new_ids:
                return message
            raise ReaderError(message) from problem
        return ""

    def _next_logits(self, new_ids):
        if new_ids not in self._logits:
            # Of another text with the same prompt, only the common beginning is needed again.
            for cache in (self._logits, self._steps):
                for ids in [ids for ids in cache if ids != new_ids[: len(ids)]]:
                    del cache[ids]
            self._logits[new_ids] = self._respond(self._prompt, list(new_ids))
        return self._logits[new_ids]

    def _sample(self, new_ids, parameters, seed, token):
        """The distribution after these tokens, and the token sampled from it (or the one given)."""
        given = self._next_logits(new_ids)
        logits = checked_logits(given, len(self._tokens))
        before = softmax(logits)
        temperature, top_k, top_p = parameters.values()
        if temperature == 0:
            after = (np.arange(len(logits)) == logits.argmax()).astype(float)
        else:
            after = self._distribution(given, temperature, top_k, None if top_p > 0.999 else top_p)
            after = checked_probs(after, len(self._tokens))
        token = drawn(after, seed, len(new_ids)) if token is None else token
        top = np.argsort(-before, kind="stable")[:SHOWN]
        return {
            "id": token,
            "token": self._tokens[token],
            "probs": rounded([before[token], after[token]]),
            "candidates": [[self._tokens[index], *rounded([before[index], after[index]])] for index in top],
            "others": rounded([1 - before[top].sum(), 1 - after[top].sum()]),
            "kept": [int((after > 0).sum()), *rounded([before[after > 0].sum()])],
            "parameters": parameters,
        }

    def alt(self):
        inputs, steps, count = self.inputs, self.answer["steps"], len(self.inputs["new_ids"])
        text = inputs["prompt"] + "".join(step["token"] for step in steps[:count])
        parts = [
            self.data["title"],
            f"“{text}”: the prompt and {count} sampled tokens.",
            f"Temperature {inputs['temperature']}, top-k {inputs['top_k'] or 'all'}, top-p {inputs['top_p']}, seed {inputs['seed']}.",
        ]
        if count < len(steps):
            listed = (
                f"“{token}” {percent(before)} ({percent(after) if after else 'cut'})"
                for token, before, after in steps[count]["candidates"]
            )
            parts.append(f"Next token, the model's probability (after the sampling parameters): {', '.join(listed)}.")
        return " ".join(part for part in parts if part)


def softmax(logits):
    """Softmax; -inf becomes 0."""
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def drawn(probs, seed, position):
    """The id of the token that this seed samples at this position: the more probable tokens for the lower random numbers."""
    random = np.random.default_rng(seed).random(position + 1)[position]
    order = np.argsort(-probs, kind="stable")
    sums = np.cumsum(probs[order])
    index = np.searchsorted(sums, random * sums[-1], side="right")
    return int(order[min(index, (probs > 0).sum() - 1)])


def rounded(probs):
    """As many digits as a page shows, but never 0 for what was not cut."""
    return [float(f"{max(prob, 0):.4g}") for prob in probs]


def checked_logits(logits, vocab_size):
    """(V,) numbers, some perhaps -inf; TypeError, since the reader can do nothing about them."""
    if hasattr(logits, "detach"):
        logits = logits.detach().cpu().double().numpy()
    logits = np.asarray(logits, dtype=float)
    if logits.shape != (vocab_size,):
        raise TypeError(f"expected logits ({vocab_size},), one for each token, got the shape {logits.shape}")
    if np.isnan(logits).any() or (logits == np.inf).any() or not np.isfinite(logits).any():
        raise TypeError("expected logits that are numbers or -inf, at least one of them a number")
    return logits


def checked_probs(probs, vocab_size):
    probs = as_array(probs, "the probabilities of the distribution")
    if probs.shape != (vocab_size,) or probs.min() < 0 or abs(probs.sum() - 1) > 1e-3:
        raise TypeError(
            f"expected {vocab_size} probabilities that sum to 1 from the distribution, got the shape {probs.shape} "
            f"and the sum {probs.sum():g}"
        )
    return probs
