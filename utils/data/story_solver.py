"""Answers questions about a story by living through it: tasks 1, 2, 3, 15 and 16, from the words alone.

The solver knows nothing of the generator, so that each can be checked against the other. What it cannot answer, it says
why: people write their own stories.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MOVES = r"went to|went back to|journeyed to|travelled to|moved to"
TAKES = r"got|grabbed|took|picked up"
LEAVES = r"dropped|left|discarded|put down"
IRREGULAR = {"mice": "mouse", "wolves": "wolf", "sheep": "sheep"}

STATEMENT_FORMS = (
    "Mary went to the kitchen",
    "Mary took the milk there",
    "Mary dropped the milk",
    "Lily is a frog",
    "Lily is green",
    "Mice are afraid of cats",
)
QUESTION_FORMS = (
    "Where is Mary",
    "Where is the milk",
    "Where was the milk before the kitchen",
    "What is Emily afraid of",
    "What color is Lily",
)


@dataclass(frozen=True)
class Solution:
    """Either an answer with its facts, or why there is none."""

    answer: str | None = None
    facts: tuple[int, ...] = ()  # places of the supporting statements in the story, counted from 0, in bAbI's order
    why: str = ""  # a sentence, empty where there is an answer


class NotTold(Exception):
    """The story does not answer the question; the message is the reason, as a sentence."""


def solve(story: Sequence[str], question: str) -> Solution:
    """The answer to `question` after all statements of `story`, by the rules of tasks 1, 2, 3, 15 and 16."""
    try:
        ask = _question(question)
        world = World()
        for place, statement in enumerate(story):
            world.hear(place, statement)
        answer, facts = ask(world)
    except NotTold as reason:
        return Solution(why=str(reason))
    return Solution(answer, tuple(dict.fromkeys(facts)))


@dataclass
class Whereabouts:
    """A room, and the statements from which it is known."""

    room: str
    facts: tuple[int, ...]


@dataclass
class Carry:
    """One person's time with a thing: from taking it to the moment somebody takes it again."""

    person: str
    events: list[int]  # statements in which the thing is taken or left
    told: bool = True  # False if the story never says how the person came by the thing


@dataclass
class Stay:
    """A thing in a room without a break. Each telling is a statement after which it was known to be there."""

    room: str | None  # None while the story has not said where its holder is
    carry: Carry  # who brought it, or first touched it there
    tellings: list[tuple[int, ...]]


@dataclass
class Thing:
    held: bool = False
    carries: list[Carry] = field(default_factory=list)
    stays: list[Stay] = field(default_factory=list)

    @property
    def holder(self) -> str | None:
        return self.carries[-1].person if self.held else None

    def be_in(self, where: Whereabouts | None) -> None:
        room, facts = (where.room, where.facts) if where else (None, ())
        if self.stays and self.stays[-1].room == room:
            if facts != self.stays[-1].tellings[-1]:
                self.stays[-1].tellings.append(facts)
        else:
            self.stays.append(Stay(room, self.carries[-1], [facts]))


class World:
    """What can be known after the statements heard so far."""

    def __init__(self):
        self.people: dict[str, Whereabouts] = {}
        self.things: dict[str, Thing] = {}
        self.rooms: set[str] = set()
        self.kinds: dict[str, tuple[str, int]] = {}  # lily: (frog, the statement that says so)
        self.colours: dict[str, tuple[str, int]] = {}
        self.fears: dict[str, tuple[str, int]] = {}  # mouse: (cat, the statement that says so)

    def hear(self, place: int, statement: str) -> None:
        for pattern, what_to_do in STATEMENTS:
            if match := pattern.fullmatch(_plain(statement)):
                return what_to_do(self, place, *match.groups())
        raise NotTold(
            f"Sentence {place + 1}, {statement!r}, has a form that is not known here. {_forms(STATEMENT_FORMS)}"
        )

    # Tasks 1, 2, 3

    def move(self, place: int, person: str, room: str) -> None:
        if room in self.things:
            raise NotTold(f"Sentence {place + 1} uses the {room} as a room, and before that it was a thing to carry.")
        self.rooms.add(room)
        self.people[person] = Whereabouts(room, (place,))
        for thing in self.things.values():
            if thing.holder == person:
                thing.be_in(self.people[person])

    def take(self, place: int, person: str, name: str) -> None:
        thing = self._thing(place, name)
        if thing.held:
            raise NotTold(
                f"In sentence {place + 1} {person.title()} takes the {name}, but {thing.holder.title()} has it since "
                f"sentence {thing.carries[-1].events[-1] + 1}."
            )
        self._same_room(place, person, name)
        thing.held = True
        thing.carries.append(Carry(person, [place]))
        thing.be_in(self.people.get(person))

    def leave(self, place: int, person: str, name: str) -> None:
        thing = self._thing(place, name)
        if thing.held and thing.holder != person:
            raise NotTold(
                f"In sentence {place + 1} {person.title()} leaves the {name}, but {thing.holder.title()} has it since "
                f"sentence {thing.carries[-1].events[-1] + 1}."
            )
        if thing.carries and not thing.held:
            raise NotTold(
                f"In sentence {place + 1} {person.title()} leaves the {name}, but nobody took it after it was left in "
                f"sentence {thing.carries[-1].events[-1] + 1}."
            )
        if thing.held:
            thing.carries[-1].events.append(place)
        else:
            thing.carries.append(Carry(person, [place], told=False))
        thing.held = False
        thing.be_in(self.people.get(person))

    def _thing(self, place: int, name: str) -> Thing:
        if name in self.rooms:
            raise NotTold(
                f"Sentence {place + 1} takes or leaves the {name}, but that is a room; only things are carried."
            )
        return self.things.setdefault(name, Thing())

    def _same_room(self, place: int, person: str, name: str) -> None:
        """Who takes a thing is where it lies: that may tell where the person is, or show that the story is impossible."""
        thing, here = self.things[name], self.people.get(person)
        lies = thing.stays[-1] if thing.stays else None
        if lies is None or lies.room is None:
            return
        if here is None:
            self.people[person] = Whereabouts(lies.room, (place, thing.carries[-1].events[-1], *lies.tellings[-1]))
        elif here.room != lies.room:
            raise NotTold(
                f"In sentence {place + 1} {person.title()} takes the {name} in the {here.room}, but it was left in "
                f"the {lies.room} in sentence {thing.carries[-1].events[-1] + 1}."
            )

    def where_is(self, the: str | None, name: str) -> tuple[str, tuple[int, ...]]:
        if name in self.things:
            return self._where_thing_is(name)
        if name in self.people:
            return self.people[name].room, self.people[name].facts
        if the:
            raise NotTold(f"The story never says that somebody took or left the {name}.")
        raise NotTold(f"The story never says where {name.title()} is.")

    def _where_thing_is(self, name: str) -> tuple[str, tuple[int, ...]]:
        thing = self.things[name]
        carry, stay = thing.carries[-1], thing.stays[-1]
        if stay.room is None:
            person = carry.person.title()
            if thing.held:
                raise NotTold(f"{person} has the {name}, but the story never says where {person} is.")
            raise NotTold(f"{person} left the {name}, but the story does not say where {person} was then.")
        return stay.room, (carry.events[-1], *stay.tellings[-1])

    def where_was(self, name: str, room: str) -> tuple[str, tuple[int, ...]]:
        if name not in self.things:
            raise NotTold(f"The story never says that somebody took or left the {name}.")
        stays = self.things[name].stays
        last = max((i for i, stay in enumerate(stays) if stay.room == room), default=None)
        if last is None:
            raise NotTold(f"The story never says that the {name} was in the {room}.")
        if last == 0:
            carry = stays[0].carry
            how = "took it there" if carry.told else "left it there, and not when it was taken"
            raise NotTold(
                f"The story does not say where the {name} was before the {room}: it begins when {carry.person.title()} {how}."
            )
        stay, before = stays[last], stays[last - 1]
        if before.room is None:
            raise NotTold(
                f"The story does not say where {before.carry.person.title()} was with the {name} before the {room}."
            )
        return before.room, (stay.carry.events[-1], *stay.tellings[0], *before.tellings[-1])

    # Tasks 15 and 16

    def be_a(self, place: int, name: str, kind: str) -> None:
        self._learn(self.kinds, place, name, kind, f"{name.title()} is a {{}}")

    def be_coloured(self, place: int, name: str, colour: str) -> None:
        self._learn(self.colours, place, name, colour, f"{name.title()} is {{}}")

    def fear(self, place: int, kinds: str, feared: str) -> None:
        self._learn(self.fears, place, _singular(kinds), _singular(feared), f"{kinds} are afraid of the {{}}")

    @staticmethod
    def _learn(known: dict, place: int, key: str, value: str, claim: str) -> None:
        if key in known and known[key][0] != value:
            before, told = known[key]
            raise NotTold(
                f"Sentence {place + 1} says that {claim.format(value)}, and sentence {told + 1} that "
                f"{claim.format(before)}; only one of them can hold."
            )
        known[key] = value, place

    def _kind(self, name: str) -> tuple[str, int]:
        if name not in self.kinds:
            raise NotTold(f"The story never says what kind of animal {name.title()} is.")
        return self.kinds[name]

    def afraid_of(self, name: str) -> tuple[str, tuple[int, ...]]:
        kind, told = self._kind(name)
        if kind not in self.fears:
            raise NotTold(f"{name.title()} is a {kind}, but the story never says what such animals are afraid of.")
        feared, rule = self.fears[kind]
        return feared, (told, rule)

    def colour_of(self, name: str) -> tuple[str, tuple[int, ...]]:
        if name in self.colours:
            colour, told = self.colours[name]
            return colour, (told,)
        kind, told = self._kind(name)
        alike = [other for other, (its_kind, _) in self.kinds.items() if its_kind == kind and other != name]
        if not alike:
            raise NotTold(f"{name.title()} is a {kind}, but the story has no other {kind} to learn the color from.")
        coloured = [other for other in alike if other in self.colours]
        if not coloured:
            others = " and ".join(other.title() for other in alike)
            raise NotTold(f"{name.title()} is a {kind} like {others}, but the story gives no color of such an animal.")
        like = max(coloured, key=lambda other: self.kinds[other][1])
        colour, seen = self.colours[like]
        return colour, (told, self.kinds[like][1], seen)


STATEMENTS: list[tuple[re.Pattern, Callable]] = [
    (re.compile(rf"(\w+) (?:{MOVES}) the (\w+)"), World.move),
    (re.compile(rf"(\w+) (?:{TAKES}) the (\w+)(?: there)?"), World.take),
    (re.compile(rf"(\w+) (?:{LEAVES}) the (\w+)(?: there)?"), World.leave),
    (re.compile(r"(\w+) are afraid of (\w+)"), World.fear),
    (re.compile(r"(\w+) is an? (\w+)"), World.be_a),
    (re.compile(r"(\w+) is (\w+)"), World.be_coloured),
]
QUESTIONS: list[tuple[re.Pattern, Callable]] = [
    (re.compile(r"where is (the )?(\w+)"), World.where_is),
    (re.compile(r"where was the (\w+) before the (\w+)"), World.where_was),
    (re.compile(r"what is (\w+) afraid of"), World.afraid_of),
    (re.compile(r"what colou?r is (\w+)"), World.colour_of),
]


def _question(question: str) -> Callable[[World], tuple[str, tuple[int, ...]]]:
    for pattern, look_up in QUESTIONS:
        if match := pattern.fullmatch(_plain(question)):
            return lambda world: look_up(world, *match.groups())
    raise NotTold(f"The question {question!r} has a form that is not known here. {_forms(QUESTION_FORMS, '?')}")


def _plain(sentence: str) -> str:
    """Lower case, single spaces, no mark at the end."""
    return " ".join(sentence.lower().split()).rstrip(" .?!")


def _singular(plural: str) -> str:
    return IRREGULAR.get(plural, plural.removesuffix("s"))


def _forms(examples: Sequence[str], mark: str = ".") -> str:
    return "Try one of these: " + " ".join(example + mark for example in examples)
