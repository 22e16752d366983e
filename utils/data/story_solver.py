"""Rule-based solver for bAbI tasks 1, 2, 3, 15 and 16: it tracks the world state statement by statement.

The solver shares no code with the generator, so each checks the other. For a question without an answer it reports the
reason, because students write their own stories.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MOVES = r"went to|went back to|journeyed to|travelled to|moved to"
TAKES = r"got|grabbed|took|picked up"
LEAVES = r"dropped|left|discarded|put down"
IRREGULAR = {"mice": "mouse", "wolves": "wolf", "sheep": "sheep"}

UNKNOWN_STATEMENT = (
    "has a form that is not known here. Try one of these: Mary went to the kitchen. Mary took the milk there. "
    "Mary dropped the milk. Lily is a frog. Lily is green. Mice are afraid of cats."
)
UNKNOWN_QUESTION = (
    "has a form that is not known here. Try one of these: Where is Mary? Where is the milk? "
    "Where was the milk before the kitchen? What is Emily afraid of? What color is Lily?"
)


@dataclass(frozen=True)
class Solution:
    """An answer with its supporting facts, or the reason why there is none."""

    answer: str | None = None
    facts: tuple[int, ...] = ()  # indices of the supporting statements, from 0, in bAbI's order
    why: str = ""  # a sentence, empty where there is an answer


class Unanswerable(Exception):
    """The story does not answer the question; the message is the reason, a full sentence."""


def solve(story: Sequence[str], question: str) -> Solution:
    """Answer to `question` after all statements of `story`."""
    try:
        ask = _question(question)
        world = World()
        for index, statement in enumerate(story):
            world.update(index, statement)
        answer, facts = ask(world)
    except Unanswerable as reason:
        return Solution(why=str(reason))
    return Solution(answer, tuple(dict.fromkeys(facts)))


@dataclass
class Whereabouts:
    """A room with its supporting statements."""

    room: str
    facts: tuple[int, ...]


@dataclass
class Carry:
    """A period in which one person has a thing, until somebody takes it again."""

    person: str
    events: list[int]  # indices of the statements in which the thing is taken or left
    taken: bool = True  # False if the story starts with the thing being left


@dataclass
class Stay:
    """A continuous stay of a thing in a room, with the supporting statements of each mention."""

    room: str | None  # None while the holder's room is unknown
    carry: Carry  # who brought or first took it there
    mentions: list[tuple[int, ...]]


@dataclass
class Thing:
    held: bool = False
    carries: list[Carry] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)

    @property
    def holder(self) -> str | None:
        return self.carries[-1].person if self.held else None

    def refuse(self, index: int, conflict: str) -> None:
        """Report a statement that contradicts the last statement about this thing."""
        raise Unanswerable(f"In sentence {index + 1} {conflict} sentence {self.carries[-1].events[-1] + 1}.")

    def be_in(self, where: Whereabouts | None) -> None:
        room, facts = (where.room, where.facts) if where else (None, ())
        if self.stays and self.stays[-1].room == room:
            if facts != self.stays[-1].mentions[-1]:
                self.stays[-1].mentions.append(facts)
        else:
            self.stays.append(Stay(room, self.carries[-1], [facts]))


class World:
    """World state after the statements so far."""

    def __init__(self):
        self.people: dict[str, Whereabouts] = {}
        self.things: dict[str, Thing] = {}
        self.rooms: set[str] = set()
        self.kinds: dict[str, tuple[str, int]] = {}  # lily: (frog, supporting statement)
        self.colors: dict[str, tuple[str, int]] = {}
        self.fears: dict[str, tuple[str, int]] = {}  # mouse: (cat, supporting statement)

    def update(self, index: int, statement: str) -> None:
        for pattern, what_to_do in STATEMENTS:
            if match := pattern.fullmatch(_plain(statement)):
                return what_to_do(self, index, *match.groups())
        raise Unanswerable(f"Sentence {index + 1}, {statement!r}, {UNKNOWN_STATEMENT}")

    # Tasks 1, 2, 3

    def move(self, index: int, person: str, room: str) -> None:
        if room in self.things:
            raise Unanswerable(f"Sentence {index + 1} uses the {room} as a room, but it was a thing to carry before.")
        self.rooms.add(room)
        self.people[person] = Whereabouts(room, (index,))
        for thing in self.things.values():
            if thing.holder == person:
                thing.be_in(self.people[person])

    def take(self, index: int, person: str, name: str) -> None:
        thing = self._thing(index, name)
        if thing.held:
            thing.refuse(index, f"{person.title()} takes the {name}, but {thing.holder.title()} has it since")
        self._same_room(index, person, name)
        thing.held = True
        thing.carries.append(Carry(person, [index]))
        thing.be_in(self.people.get(person))

    def leave(self, index: int, person: str, name: str) -> None:
        thing = self._thing(index, name)
        if thing.held:
            if thing.holder != person:
                thing.refuse(index, f"{person.title()} leaves the {name}, but {thing.holder.title()} has it since")
            thing.carries[-1].events.append(index)
        else:
            if thing.carries:
                thing.refuse(index, f"{person.title()} leaves the {name}, but nobody took it after it was left in")
            thing.carries.append(Carry(person, [index], taken=False))
        thing.held = False
        thing.be_in(self.people.get(person))

    def _thing(self, index: int, name: str) -> Thing:
        if name in self.rooms:
            raise Unanswerable(f"Sentence {index + 1} takes or leaves the {name}, but that is a room.")
        return self.things.setdefault(name, Thing())

    def _same_room(self, index: int, person: str, name: str) -> None:
        """A person takes a thing where it lies: infer the person's room, or report a contradiction."""
        thing, here = self.things[name], self.people.get(person)
        lies = thing.stays[-1] if thing.stays else None
        if lies is None or lies.room is None:
            return
        if here is None:
            self.people[person] = Whereabouts(lies.room, (index, thing.carries[-1].events[-1], *lies.mentions[-1]))
        elif here.room != lies.room:
            conflict = f"takes the {name} in the {here.room}, but it was left in the {lies.room} in"
            thing.refuse(index, f"{person.title()} {conflict}")

    def where_is(self, the: str | None, name: str) -> tuple[str, tuple[int, ...]]:
        if name in self.people and name not in self.things:
            return self.people[name].room, self.people[name].facts
        if name not in self.things and not the:
            raise Unanswerable(f"The story never says where {name.title()} is.")
        thing = self._known(name)
        carry, stay = thing.carries[-1], thing.stays[-1]
        if stay.room is None:
            person = carry.person.title()
            if thing.held:
                raise Unanswerable(f"{person} has the {name}, but the story never says where {person} is.")
            raise Unanswerable(f"{person} left the {name}, but the story does not say where {person} was then.")
        return stay.room, (carry.events[-1], *stay.mentions[-1])

    def where_was(self, name: str, room: str) -> tuple[str, tuple[int, ...]]:
        stays = self._known(name).stays
        last = max((i for i, stay in enumerate(stays) if stay.room == room), default=None)
        if last is None:
            raise Unanswerable(f"The story never says that the {name} was in the {room}.")
        if last == 0:
            carry = stays[0].carry
            how = "took it there" if carry.taken else "left it there, and not when it was taken"
            begins = f"it begins when {carry.person.title()} {how}"
            raise Unanswerable(f"The story does not say where the {name} was before the {room}: {begins}.")
        stay, before = stays[last], stays[last - 1]
        if before.room is None:
            person = before.carry.person.title()
            raise Unanswerable(f"The story does not say where {person} was with the {name} before the {room}.")
        return before.room, (stay.carry.events[-1], *stay.mentions[0], *before.mentions[-1])

    def _known(self, name: str) -> Thing:
        if name not in self.things:
            raise Unanswerable(f"The story never says that somebody took or left the {name}.")
        return self.things[name]

    # Tasks 15 and 16

    def be_a(self, index: int, name: str, kind: str) -> None:
        self._learn(self.kinds, index, name, kind, f"{name.title()} is a {{}}")

    def be_colored(self, index: int, name: str, color: str) -> None:
        self._learn(self.colors, index, name, color, f"{name.title()} is {{}}")

    def fear(self, index: int, kinds: str, feared: str) -> None:
        self._learn(self.fears, index, _singular(kinds), _singular(feared), f"{kinds} are afraid of the {{}}")

    @staticmethod
    def _learn(known: dict, index: int, key: str, value: str, claim: str) -> None:
        if key in known and known[key][0] != value:
            earlier = f"sentence {known[key][1] + 1} that {claim.format(known[key][0])}"
            raise Unanswerable(f"Sentence {index + 1} says that {claim.format(value)}, and {earlier}.")
        known[key] = value, index

    def _kind(self, name: str) -> tuple[str, int]:
        if name not in self.kinds:
            raise Unanswerable(f"The story never says what kind of animal {name.title()} is.")
        return self.kinds[name]

    def afraid_of(self, name: str) -> tuple[str, tuple[int, ...]]:
        kind, fact = self._kind(name)
        if kind not in self.fears:
            raise Unanswerable(f"{name.title()} is a {kind}, but the story never says what such animals are afraid of.")
        feared, rule = self.fears[kind]
        return feared, (fact, rule)

    def color_of(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name in self.colors:
            color, fact = self.colors[name]
            return color, (fact,)
        kind, fact = self._kind(name)
        alike = [animal for animal, (its_kind, _) in self.kinds.items() if its_kind == kind and animal != name]
        if not alike:
            raise Unanswerable(f"{name.title()} is a {kind}, but the story has no other {kind} to learn from.")
        colored = [animal for animal in alike if animal in self.colors]
        if not colored:
            others = " and ".join(animal.title() for animal in alike)
            raise Unanswerable(f"{name.title()} is a {kind} like {others}, but the story gives no color of one.")
        like = max(colored, key=lambda animal: self.kinds[animal][1])
        color, seen = self.colors[like]
        return color, (fact, self.kinds[like][1], seen)


STATEMENTS: list[tuple[re.Pattern, Callable]] = [
    (re.compile(rf"(\w+) (?:{MOVES}) the (\w+)"), World.move),
    (re.compile(rf"(\w+) (?:{TAKES}) the (\w+)(?: there)?"), World.take),
    (re.compile(rf"(\w+) (?:{LEAVES}) the (\w+)(?: there)?"), World.leave),
    (re.compile(r"(\w+) are afraid of (\w+)"), World.fear),
    (re.compile(r"(\w+) is an? (\w+)"), World.be_a),
    (re.compile(r"(\w+) is (\w+)"), World.be_colored),
]
QUESTIONS: list[tuple[re.Pattern, Callable]] = [
    (re.compile(r"where is (the )?(\w+)"), World.where_is),
    (re.compile(r"where was the (\w+) before the (\w+)"), World.where_was),
    (re.compile(r"what is (\w+) afraid of"), World.afraid_of),
    (re.compile(r"what colou?r is (\w+)"), World.color_of),
]


def _question(question: str) -> Callable[[World], tuple[str, tuple[int, ...]]]:
    for pattern, look_up in QUESTIONS:
        if match := pattern.fullmatch(_plain(question)):
            return lambda world: look_up(world, *match.groups())
    raise Unanswerable(f"The question {question!r} {UNKNOWN_QUESTION}")


def _plain(sentence: str) -> str:
    """Normalized: lower case, single spaces, no final punctuation."""
    return " ".join(sentence.lower().split()).rstrip(" .?!")


def _singular(plural: str) -> str:
    return IRREGULAR.get(plural, plural.removesuffix("s"))
