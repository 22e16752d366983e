"""bAbI text format (Weston et al., 2015a): a reader for the published files and for the course's stories.

A line is `number sentence.` or `number question?<TAB>answer<TAB>numbers of supporting lines`. The number starts again
at 1 with each story. Supporting numbers count question lines too; the parser turns them into statement indices.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from utils.data.text_files import quoted, read_text

LINE = re.compile(r"(\d{1,9}) (.+)", re.ASCII)
WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")

# The twenty tasks, as the published files are called
NAMES = """
single-supporting-fact two-supporting-facts three-supporting-facts two-arg-relations three-arg-relations
yes-no-questions counting lists-sets simple-negation indefinite-knowledge basic-coreference conjunction
compound-coreference time-reasoning basic-deduction basic-induction positional-reasoning size-reasoning path-finding
agents-motivations
"""
TASK_NAMES = dict(enumerate(NAMES.split(), 1))


class BabiError(ValueError):
    """Invalid bAbI format; the message starts with file and line."""


@dataclass(frozen=True)
class Question:
    """bAbI question with all statements that precede it in its story."""

    story: tuple[str, ...]  # statements, the oldest first
    question: str
    answer: str  # several words as in the file: "milk,apple" or "n,w"
    facts: tuple[int, ...]  # supporting facts: indices in `story`


def words(sentence: str) -> list[str]:
    """Lower-case words without punctuation: "What is Lily's color?" to what, is, lily's, color."""
    return WORD.findall(sentence.lower())


def parse(text: str, name: str = "text") -> list[Question]:
    """All questions of a text in the bAbI format; error messages start with `name`."""
    questions: list[Question] = []
    story: list[str] = []
    statement_of: dict[int, int | None] = {}  # line number to statement index; None for a question
    for row, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where, match = f"{name}:{row}", LINE.match(line.strip("\r\n"))
        if not match:
            raise BabiError(f"{where}: expected a line number and a sentence, got {quoted(line)}")
        number, content = int(match[1]), match[2]
        if number == 1:
            story, statement_of = [], {}
        elif number != len(statement_of) + 1:
            raise BabiError(f"{where}: expected line number {len(statement_of) + 1} or a new story, got {number}")
        if "\t" in content or "?" in content:  # without tabs it is a damaged question, never a statement
            questions.append(_question(content, story, statement_of, where))
            statement_of[number] = None
        elif words(content):
            statement_of[number] = len(story)
            story.append(content.strip())
        else:
            raise BabiError(f"{where}: expected a sentence after the number, got {quoted(content)}")
    if not questions:
        raise BabiError(f"{name}: no question found; a question line has a tab before its answer")
    return questions


def _question(content: str, story: list[str], statement_of: dict, where: str) -> Question:
    parts = [part.strip() for part in content.split("\t")]
    if len(parts) != 3 or not words(parts[0]) or not parts[1]:
        raise BabiError(f"{where}: expected `question?<TAB>answer<TAB>supporting lines`, got {quoted(content)}")
    facts = []
    for number in parts[2].split():
        index = statement_of.get(int(number)) if re.fullmatch(r"[0-9]{1,9}", number) else None
        if index is None:
            raise BabiError(f"{where}: supporting line {number[:20]} is no statement before this question")
        facts.append(index)
    return Question(tuple(story), parts[0], parts[1], tuple(facts))


def read_babi(path: Path | str) -> list[Question]:
    """All questions of a file with all their statements; `as_tensors` truncates the memory later."""
    return parse(read_text(Path(path), BabiError), str(path))


def published_files(folder: Path | str, task: int) -> tuple[Path, Path]:
    """The published training and test file of a task, `qa16_basic-induction_train.txt` for example.

    Among several candidates the published name is preferred; raises BabiError if there is none, or no way to choose.
    """
    folder = Path(folder).resolve()
    if not folder.is_dir():
        raise BabiError(f"{folder}: there is no such folder; unpack the published files there, or leave the folder out")
    return _published_file(folder, task, "train"), _published_file(folder, task, "test")


def _published_file(folder: Path, task: int, part: str) -> Path:
    paths = sorted(folder.glob(f"qa{task}_*_{part}.txt"))
    published = [path for path in paths if path.name == f"qa{task}_{TASK_NAMES[task]}_{part}.txt"]
    if not paths:
        raise BabiError(f"{folder}: expected a file qa{task}_{TASK_NAMES[task]}_{part}.txt; there is none")
    if len(paths) > 1 and not published:
        raise BabiError(f"{folder}: several files for task {task}, {part}: {', '.join(path.name for path in paths)}")
    return (published or paths)[0]
