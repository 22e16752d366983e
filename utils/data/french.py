"""French morphology by rule: plural, feminine, agreement, elision and contraction.

Only the rules that the phrase corpus needs, each with its exceptions. Every h of the corpus is mute ("l'homme"): there
are no words with an aspirated h ("le héros").
"""

from functools import cache
from typing import NamedTuple

VOWELS = frozenset("aeiouyàâéèêëîïôûùœh")
FEMININES = {"beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche", "gentil": "gentille"}
BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


class Token(NamedTuple):
    """French token and the positions of the English tokens it is aligned with."""

    form: str
    positions: tuple[int, ...]


def starts_with_vowel(word: str) -> bool:
    """Phonetically: a mute h counts as a vowel."""
    return word[0] in VOWELS


def plural(word: str) -> str:
    """Plural of a noun or an adjective: chat to chats, journal to journaux, oiseau to oiseaux, pays to pays."""
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") else "s")


def feminine(word: str) -> str:
    """Feminine singular of an adjective: vert to verte, fier to fière, heureux to heureuse, européen to européenne."""
    if word in FEMININES:
        return FEMININES[word]
    if word.endswith("e"):
        return word
    if word.endswith("er"):
        return word[:-2] + "ère"
    if word.endswith("x"):
        return word[:-1] + "se"
    if word.endswith(("en", "on")):
        return word + "ne"
    return word + "e"


@cache
def agree(adjective: str, is_feminine: bool, is_plural: bool) -> str:
    """Agreement in gender and number."""
    form = feminine(adjective) if is_feminine else adjective
    return plural(form) if is_plural else form


@cache
def before(adjective: str, following: str, is_feminine: bool, is_plural: bool) -> str:
    """Agreement of a prenominal adjective; `following` is the next word ("un bel arbre", "un beau petit arbre")."""
    if not is_feminine and not is_plural and starts_with_vowel(following):
        return BEFORE_VOWEL.get(adjective, adjective)
    return agree(adjective, is_feminine, is_plural)


def run_together(words: list[Token]) -> list[Token]:
    """Elision and contraction; a contracted word keeps the alignment of both its parts.

    Articles elide first: "de" + "le" + "homme" is "de l'homme" and never "du homme".
    """
    joined: list[Token] = []
    for word in reversed(words):  # from the end, so that what follows has its final form
        form, following = word.form, joined[-1] if joined else None
        if following is not None:
            contracted = CONTRACTED.get((form, following.form))
            if contracted:
                joined[-1] = Token(contracted, (*word.positions, *following.positions))
                continue
            if form in ELIDED and starts_with_vowel(following.form):
                form = ELIDED[form]
        joined.append(Token(form, word.positions))
    return joined[::-1]
