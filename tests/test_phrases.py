"""Facts about the phrase corpus. The French is judged by `french_grammar.py`, which has no code in common with the generator."""

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests import french_grammar
from tests.french_grammar import ADJECTIVES, FUNCTION_WORDS, NOUNS, VERBS, parses, vowel
from utils.data.phrases import LENGTHS, SAMPLE_SIZES, SAMPLES, Corpus, Pair, as_line, corpus, write_samples
from utils.data.tokens import split

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("train", "validation", "test", "longer")


@cache
def whole() -> Corpus:
    return corpus()


@cache
def everything() -> tuple[Pair, ...]:
    """Two more seeds beside the one that the lessons use."""
    others = [corpus(train=4000, longer=1500, seed=seed) for seed in (1, 2)]
    return tuple(pair for data in (whole(), *others) for part in PARTS for pair in getattr(data, part))


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def linked(pair: Pair, position: int) -> list[str]:
    """The French words behind an English position."""
    return [pair.french[french] for english, french in pair.links if english == position]


# Correct French


def test_every_french_sentence_agrees_throughout():
    wrong = [" ".join(pair.french) for pair in everything() if not parses(pair.french)]
    assert not wrong, wrong[:5]


def test_the_checker_has_no_code_in_common_with_the_generator():
    source = Path(french_grammar.__file__).read_text(encoding="utf-8")
    assert re.findall(r"^\s*(?:from|import) (\S+)", source, re.MULTILINE) == ["collections.abc"]


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("la zone économique européenne est belle", "la zone économique européen est belle"),
        ("le bel arbre tombe", "le beau arbre tombe"),
        ("un vieil ours dort", None),  # a word that is not in the dictionary
        ("l' homme voit les journaux nationaux", "l' homme voit les journaux nationales"),
        ("la porte du château est verte", "la porte de le château est verte"),
        ("les clés de la maison sont noires", "les clés de la maison est noire"),
        ("le roi et la reine sont heureux", "le roi et la reine sont heureuses"),
        ("la reine qui voit le roi est fière", "la reine qui voit le roi est fier"),
        ("le roi ne voit pas la reine", "le roi ne voit la reine"),
        ("de grands chiens dorment", "des grands chiens dorment"),
        ("le roi dit que la reine dort", "le roi dit la reine dort"),
        ("le livre que la reine lit est beau", "le livre qui la reine lit est beau"),
    ],
)
def test_the_checker_knows_right_from_wrong(right, wrong):
    if wrong is None:
        assert not parses(tuple(right.split()))
    else:
        assert parses(tuple(right.split()))
        assert not parses(tuple(wrong.split()))


def test_the_checker_notices_a_wrong_form_wherever_it_is_put():
    """Every article, adjective and verb of many sentences, exchanged for another form of the same word."""
    families = [("le", "la", "les"), ("un", "une"), ("est", "sont"), ("du", "des"), ("au", "aux")]
    families += [tuple(row[3:5]) for row in rows(VERBS)]
    families += [tuple(dict.fromkeys(form.partition("/")[0] for form in row[2:])) for row in rows(ADJECTIVES)]
    others = {form: [variant for variant in family if variant != form] for family in families for form in family}
    noticed = tried = 0
    for pair in whole().test:
        for position, word in enumerate(pair.french):
            for other in others.get(word, ()):
                tried += 1
                noticed += not parses((*pair.french[:position], other, *pair.french[position + 1 :]))
    assert tried > 5000
    assert noticed / tried > 0.99  # the rest agree with another noun: "des reines qui ..." can describe either


def test_words_run_together_always_and_only_before_a_vowel():
    full = {"l'": ("le", "la"), "d'": ("de",), "n'": ("ne",), "qu'": ("que",)}
    seen = Counter()
    for pair in everything():
        for word, following in pairwise(pair.french):
            if word in full:
                assert vowel(following), pair
                seen[word] += 1
            assert not (word in ("le", "la", "de", "ne", "que") and vowel(following)), pair
        assert pair.french[-1] not in full
    assert set(seen) == set(full) and min(seen.values()) > 500


def test_nothing_negated_has_an_indefinite_object():
    """It would be "pas de" instead of "un" and "des"."""
    checked = 0
    for pair in everything():
        for word, following in pairwise(pair.french):
            if word in ("pas", "jamais"):
                checked += 1
                assert following not in ("un", "une", "des", "de", "d'"), pair
    assert checked > 3000


def candidates(words: tuple[str, ...], position: int) -> list[str]:
    """The nouns of the noun phrase that ends before `position`: "the mother of the king near the door" has three."""
    nouns = {form for row in rows(NOUNS) for form in row[1:3]}
    modifiers = {"the", "a", "an", "some"} | {row[1] for row in rows(ADJECTIVES)}
    heads, back = [], position - 1
    while back >= 0 and words[back] in nouns:
        heads.append(words[back])
        back -= 1
        while words[back] in modifiers and back >= 0:
            back -= 1
        if words[back] not in ("of", "near", "in", "on", "under", "behind", "with"):
            break
        back -= 1
    return heads


def test_a_relative_clause_with_an_adjective_has_one_possible_noun():
    """If two nouns before "who is old" differ in gender, number or who/that must tell them apart."""
    gender = {form: row[0] for row in rows(NOUNS) for form in row[1:3]}
    plurals, persons = {row[2] for row in rows(NOUNS)}, {form for row in rows(NOUNS)[:13] for form in row[1:3]}
    qualities = "|".join(row[1] for row in rows(ADJECTIVES))
    clause = re.compile(rf"\b(who|that) (is|are) (?:(?:not|never|often|always) )?(?:{qualities})\b")
    chains = 0
    for pair in everything():
        text = " ".join(pair.english)
        for match in clause.finditer(text):
            nouns = candidates(pair.english, text[: match.start()].count(" "))
            meant = [
                noun
                for noun in nouns
                if ((noun in persons), (noun in plurals)) == (match[1] == "who", match[2] == "are")
            ]
            if nouns:  # none after "says", where "that" begins a clause, never with "is"
                assert len({gender[noun] for noun in meant}) == 1, text
                chains += len(nouns) > 1
    assert chains > 200


def test_a_relative_clause_behind_two_joined_nouns_has_the_gender_of_both():
    """ "the boys and the girls who are old" would be "vieilles" or "vieux"."""
    names = "|".join(form for row in rows(NOUNS) for form in row[1:3])
    subject = re.compile(
        rf"^\w+ (?:\w+ )??({names}) and \w+ (?:\w+ )??({names}) (?:who|that) are (?!in|on|near|behind|under|with)"
    )
    gender = {form: row[0] for row in rows(NOUNS) for form in row[1:3]}
    joined = [match.groups() for pair in everything() if (match := subject.search(" ".join(pair.english)))]
    genders = Counter((gender[first], gender[second]) for first, second in joined)
    assert genders.total() >= 10 and genders["m", "f"] == 0


# The one right answer


def test_an_english_sentence_has_one_french_one_whatever_the_seed():
    french = {}
    for pair in everything():
        assert french.setdefault(pair.english, (pair.french, pair.links)) == (pair.french, pair.links)
    assert len(french) > 30_000


def test_adjectives_come_in_mirrored_order_and_up_to_four_at_once():
    before = {row[1] for row in rows(ADJECTIVES) if row[0] == "before"}
    after = {row[1] for row in rows(ADJECTIVES)} - before
    counts = Counter()
    for pair in everything():
        french_of = dict(pair.links)
        chain = []
        for position, word in enumerate(pair.english):
            if word in before | after and not (chain and word in before and pair.english[chain[-1]] in after):
                chain.append(position)
                continue
            if (
                chain
                and word not in ("and", "but", "when", "because", "is", "are")
                and pair.english[chain[0] - 1] in ("the", "a", "an", "some")
            ):
                noun = french_of[position]
                first = [french_of[index] for index in chain if pair.english[index] in before]
                last = [french_of[index] for index in chain if pair.english[index] in after]
                assert first == sorted(first) and all(index < noun for index in first), pair
                assert last == sorted(last, reverse=True) and all(index > noun for index in last), pair
                counts[len(first), len(last)] += 1
            chain = []
    for kind in ((1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 1)):
        assert counts[kind] > 150, (kind, counts)
    assert sum(count for kind, count in counts.items() if sum(kind) >= 4) > 20


# Alignments


def test_links_are_in_range_sorted_and_cover_every_word_of_both_sides():
    for pair in everything():
        assert list(pair.links) == sorted(set(pair.links))
        assert {english for english, _ in pair.links} == set(range(len(pair.english))), pair
        assert {french for _, french in pair.links} == set(range(len(pair.french))), pair


def dictionary() -> dict[str, set[str]]:
    """English word to the French words that it may be linked to."""
    meaning = defaultdict(set)
    for _, singular, plural, french_singular, french_plural in rows(NOUNS):
        meaning[singular].add(french_singular)
        meaning[plural].add(french_plural)
    for _, english, *forms in rows(ADJECTIVES):
        meaning[english] |= {part for form in forms for part in form.split("/")}
    for what, bare, singular, one, many in rows(VERBS):
        meaning[singular].add(one)
        meaning[bare] |= {many} if what == "quality" else {one, many}
        if what != "quality":
            meaning["does"].add(one)
            meaning["do"].add(many)
    for english, *french in rows(FUNCTION_WORDS):
        meaning[english] |= set(french)
    return meaning


def test_linked_words_mean_the_same():
    meaning = dictionary()
    for pair in everything():
        for english, french in pair.links:
            assert pair.french[french] in meaning[pair.english[english]], (pair, english, french)


def test_english_verbs_agree_as_the_french_ones_do():
    number = {row[3 + many]: many for row in rows(VERBS) for many in (0, 1)}
    english_number = {**{row[2]: 0 for row in rows(VERBS)}, "does": 0, "do": 1, "are": 1, "is": 0}
    bare = {row[1] for row in rows(VERBS)} - {"are"}
    for pair in everything():
        words = pair.english
        for position, word in enumerate(words):
            if word in english_number:
                assert {number[french] for french in linked(pair, position)} == {english_number[word]}, pair
            if word in bare and words[position - 1] != "not":
                assert {number[french] for french in linked(pair, position)} == {1}, pair
            if word == "not":
                assert words[position - 1] in ("does", "do", "is", "are") and (
                    words[position - 1] in ("is", "are") or words[position + 1] in bare
                )


def test_a_and_an_follow_the_sound_of_the_next_word():
    for pair in everything():
        for word, following in pairwise(pair.english):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou" and following != "european"), pair


def test_one_link_per_french_word_nearly_reaches_the_gold_alignment():
    words = sum(len(pair.french) for pair in whole().test)
    links = sum(len(pair.links) for pair in whole().test)
    floor = 1 - 2 * words / (words + links)
    assert 0.01 < floor < 0.03


# Size and splits


def test_no_english_sentence_occurs_twice():
    sentences = [pair.english for part in PARTS for pair in getattr(whole(), part)]
    assert len(set(sentences)) == len(sentences)


def test_longer_is_longer_than_anything_in_training():
    longest = max(len(pair.english) for pair in whole().train)
    assert longest == max(LENGTHS) == 18
    lengths = {len(pair.english) for pair in whole().longer}
    assert lengths == set(range(19, 27))
    assert max(len(pair.english) for pair in (*whole().validation, *whole().test)) <= longest


def test_held_out_words_all_occur_in_training():
    for language in ("english", "french"):
        train, *others = (
            {word for pair in getattr(whole(), part) for word in getattr(pair, language)} for part in PARTS
        )
        assert all(words <= train for words in others)


def test_every_word_of_the_checkers_dictionary_occurs():
    english = {word for pair in whole().train for word in pair.english}
    french = {word for pair in whole().train for word in pair.french}
    assert set(dictionary()) == english
    assert set().union(*dictionary().values()) == french


def test_every_construction_is_frequent():
    texts = [" ".join(pair.english) for pair in whole().train]
    for pattern, percent in {
        r"\b(not|never)\b": 10,
        r"\b(who|that) (the|a|an|some) .*\b(is|are|[a-z]+s)\b": 5,
        r"\band\b": 15,
        r"\bof (the|a|an)\b": 12,
        r"\b(but|when|because)\b": 12,
        r"\b(says?|thinks?|knows?) that\b": 4,
        r"\bto (the|a|an|some)\b": 10,
        r"\b(often|always)\b": 4,
    }.items():
        assert 100 * sum(bool(re.search(pattern, text)) for text in texts) / len(texts) > percent, pattern


# Seeds and files


def test_the_held_out_parts_do_not_depend_on_the_size_of_the_training_part():
    small = corpus(train=50)
    assert (small.test, small.validation, small.longer) == (whole().test, whole().validation, whole().longer)
    assert small.train == whole().train[:50]


def test_the_corpus_is_the_same_in_every_process():
    code = "from utils.data.phrases import corpus; print(corpus(300, 100, 100, 100))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == f"{corpus(300, 100, 100, 100)}\n"


def test_the_samples_are_what_the_generator_writes(tmp_path):
    write_samples(tmp_path)
    for name, count in SAMPLE_SIZES.items():
        data = (SAMPLES / f"{name}.tsv").read_bytes()
        assert data == (tmp_path / f"{name}.tsv").read_bytes()
        assert data.count(b"\n") == count and b"\r" not in data
    assert sorted(path.name for path in SAMPLES.iterdir()) == sorted(f"{name}.tsv" for name in SAMPLE_SIZES)


def test_the_readme_of_the_data_says_what_was_measured():
    text = " ".join((ROOT / "data" / "README.md").read_text(encoding="utf-8").split())
    english = Counter(word for pair in whole().train for word in pair.english)
    french = Counter(word for pair in whole().train for word in pair.french)
    rarest = f"the rarest occur {min(english.values())} and {min(french.values())} times"
    assert f"{len(english)} different English words and {len(french)} French ones; {rarest}" in text
    lengths = [[len(pair.english) for pair in getattr(whole(), part)] for part in PARTS]
    cells = [f"{min(part)} to {max(part)} ({sum(part) / len(part):.1f})" for part in lengths]
    assert f"| English words, min to max (mean) | {' | '.join(cells)} |" in text
    quarters = []
    for part in map(sorted, lengths):
        size = len(part) // 4
        quarters.append(", ".join(f"{part[i * size]}-{part[(i + 1) * size - 1]}" for i in range(4)))
    assert f"| quartile ranges of the length | {' | '.join(quarters)} |" in text


def test_a_sample_line_can_be_read_back():
    for pair in (pair for part in PARTS for pair in getattr(whole(), part)[:100]):
        english, french, links = as_line(pair).rstrip("\n").split("\t")
        assert tuple(split(english, "english")) == pair.english and tuple(split(french, "french")) == pair.french
        assert tuple(tuple(map(int, link.split("-"))) for link in links.split()) == pair.links
