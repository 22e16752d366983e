"""French word forms by rule: plurals, feminines, and what happens between two words (elision, contraction).

Only the rules that the phrase corpus needs, each with its exceptions. Every word with h that comes through here has a
mute h ("l'homme"); words with an aspirated h ("le héros") are not part of the corpus.
"""

from functools import cache
from typing import NamedTuple

VOWELS = frozenset("aeiouyàâéèêëîïôûùœh")
FEMININES = {"beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche", "gentil": "gentille"}
BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
ELIDED = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


class Token(NamedTuple):
    """A French word and the places of the English words that it stands for."""

    form: str
    places: tuple[int, ...]


def starts_with_vowel(word: str) -> bool:
    """In sound: a mute h counts as a vowel."""
    return word[0] in VOWELS


def plural(word: str) -> str:
    """Of a noun or an adjective: chat to chats, journal to journaux, oiseau to oiseaux, pays to pays."""
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") else "s")


def feminine(word: str) -> str:
    """Of an adjective in the singular: vert to verte, fier to fière, heureux to heureuse, européen to européenne."""
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
    form = feminine(adjective) if is_feminine else adjective
    return plural(form) if is_plural else form


@cache
def before(adjective: str, following: str, is_feminine: bool, is_plural: bool) -> str:
    """An adjective that stands before its noun; `following` is the next word ("un bel arbre", "un beau petit arbre")."""
    if not is_feminine and not is_plural and starts_with_vowel(following):
        return BEFORE_VOWEL.get(adjective, adjective)
    return agree(adjective, is_feminine, is_plural)


def run_together(words: list[Token]) -> list[Token]:
    """The same words with elision and contraction; a contracted word keeps the places of both its parts.

    Articles elide first: "de" + "le" + "homme" is "de l'homme" and never "du homme".
    """
    joined: list[Token] = []
    for word in reversed(words):  # from the end, so that what follows has its final form
        form, following = word.form, joined[-1] if joined else None
        if following is not None:
            contracted = CONTRACTED.get((form, following.form))
            if contracted:
                joined[-1] = Token(contracted, (*word.places, *following.places))
                continue
            if form in ELIDED and starts_with_vowel(following.form):
                form = ELIDED[form]
        joined.append(Token(form, word.places))
    return joined[::-1]
