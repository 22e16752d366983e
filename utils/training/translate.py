"""Train translation models on sentence pairs and compare them: no attention, and three attention scores.

python -m utils.training.translate                                    the course's own corpus
python -m utils.training.translate --pairs data/translation/fra.txt   real pairs, `english<TAB>french` on a line
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

import torch

from utils.data.phrases import Pair
from utils.data.tokens import Vocabulary
from utils.data.translation_files import TranslationError, read_pairs
from utils.training.babi import positive
from utils.training.translation import NUM_STEPS, pairs_and_words, scores, train_model

MODELS = {"no attention": None, "dot": "dot", "multiplicative": "multiplicative", "additive": "additive"}
MOST_TEST_PAIRS, FEWEST_PAIRS = 1000, 20


def read_corpus(path: str, max_len: int) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs of a file or folder, one in ten (at most 1,000) held out.

    Of several translations of a sentence the first is kept, so no test sentence occurs in training.
    """
    first = {pair.english: pair for pair in reversed(read_pairs(path, max_len))}
    if len(first) < FEWEST_PAIRS:
        raise TranslationError(
            f"{path}: expected at least {FEWEST_PAIRS} different sentences of at most {max_len} tokens, got {len(first)}; "
            "add pairs or raise --max-len"
        )
    pairs = [first[english] for english in sorted(first)]
    random.Random(0).shuffle(pairs)
    num_test = min(MOST_TEST_PAIRS, len(pairs) // 10)
    return pairs[num_test:], pairs[:num_test]


def most_frequent(sentences: Sequence[Sequence[str]], count: int) -> Vocabulary:
    """The vocabulary of the `count` most frequent words; all others become <unk>."""
    return Vocabulary(Vocabulary.build(sentences).words[4 : 4 + count])


def compare(
    train: Sequence[Pair], test: Sequence[Pair], english: Vocabulary, french: Vocabulary, seeds: int, **settings
) -> list[dict]:
    """A row for each model: its name and the values of each measure, one for each seed. All models see the same batches."""
    rows = []
    for name, score in MODELS.items():
        results = []
        for seed in range(seeds):
            print(f"{name}, seed {seed} ...", file=sys.stderr, flush=True)
            start = time.perf_counter()
            trained, _ = train_model(train, english, french, score, seed, **settings)
            seconds = time.perf_counter() - start
            parameters = sum(parameter.numel() for parameter in trained.model.parameters())
            results.append(scores(trained, test) | {"parameters": parameters, "seconds": seconds})
        rows.append({"name": name, "results": results})
    return rows


def table(rows: Sequence[dict], aligned: bool) -> str:
    """The comparison as text: medians over the seeds, with the smallest and the largest. `aligned`: with gold links."""
    measures = {"exact match, %": ("exact", 100, 1), "BLEU": ("bleu", 1, 1)}
    if aligned:
        measures["alignment error, %"] = ("alignment_error", 100, 1)
    measures |= {"parameters": ("parameters", 1, 0), "seconds": ("seconds", 1, 0)}
    lines = [("model", *measures)]
    lines += [(row["name"], *(_cell(row["results"], *measure) for measure in measures.values())) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cell(results: Sequence[dict], measure: str, factor: float, digits: int) -> str:
    values = [result[measure] for result in results]
    if values[0] is None:
        return "-"
    median, least, most = (f"{factor * f(values):,.{digits}f}" for f in (statistics.median, min, max))
    return median if least == most else f"{median} ({least} to {most})"


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m utils.training.translate", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pairs", help="a file `english<TAB>french`, or a folder of them; default: the course's corpus"
    )
    parser.add_argument("--steps", type=positive, default=NUM_STEPS, help="training steps, of 64 pairs (%(default)s)")
    parser.add_argument("--seeds", type=positive, default=1, help="models of each kind (default: %(default)s)")
    parser.add_argument(
        "--max-len", type=positive, default=20, help="longest sentence of --pairs, in tokens (%(default)s)"
    )
    parser.add_argument(
        "--words", type=positive, default=5000, help="vocabulary size of --pairs per language (%(default)s)"
    )
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    options = arguments(given)
    torch.set_num_threads(1)  # at this size a second thread is no faster
    if options.pairs is None:
        data, english, french = pairs_and_words()
        train, test = data.train, data.test
    else:
        try:
            train, test = read_corpus(options.pairs, options.max_len)
        except TranslationError as problem:
            print(problem, file=sys.stderr)
            return 1
        english = most_frequent([pair.english for pair in train], options.words)
        french = most_frequent([pair.french for pair in train], options.words)
    rows = compare(train, test, english, french, options.seeds, num_steps=options.steps)
    words = [word for pair in test for word in pair.french]
    unknown = 100 * statistics.fmean(word not in french for word in words)
    print(
        f"{options.pairs or 'The course corpus'}: {len(train):,} training pairs, {len(test):,} test pairs; {options.steps:,} "
        f"steps, {options.seeds} seed{'s' if options.seeds > 1 else ''} per model\n"
        f"Vocabulary: {len(english):,} English and {len(french):,} French tokens; {unknown:.1f} % of the test words are <unk>\n\n"
        + table(rows, aligned=any(pair.links for pair in test))
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
