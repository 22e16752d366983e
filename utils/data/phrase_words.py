"""Bilingual lexicon of the phrase corpus with its selectional restrictions.

The restrictions (who can do what to whom, what belongs to what, which adjectives fit a noun) make sentences plausible
and keep out pairs that mean something else in French: "vieille fille" is a spinster, "bon marché" is cheap and "grand
homme" is a great man, so an old girl, a good market and a big man do not occur. An English word has two French
translations only if the sentence disambiguates them ("knows the man", "knows that").
"""

from dataclasses import dataclass

from utils.data.french import plural


@dataclass(frozen=True, eq=False)
class Noun:
    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool
    person: bool  # "who" in English; all others take "that"


@dataclass(frozen=True, eq=False)
class Adjective:
    english: str
    french: str  # masculine singular
    slot: int  # distance from the English noun: 0 domain, 1 origin or color, 2 judgment; 3 precedes the French noun too
    predicate: bool  # may follow "is"
    nouns: frozenset[Noun]


@dataclass(frozen=True, eq=False)
class Verb:
    english: str  # with "they"
    english_singular: str
    french: str
    french_plural: str
    kind: str  # one of KINDS in phrases.py
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...] = ()
    particle: str = ""  # of an English phrasal verb, without a French word of its own: "look" + "at"
    receivers: tuple[Noun, ...] = ()
    prepositions: tuple[str, ...] = ()  # of the locations it may take


@dataclass(frozen=True, eq=False)
class Preposition:
    english: str
    french: tuple[str, ...]
    heads: frozenset[Noun]  # what can be there
    nouns: tuple[Noun, ...]  # where


def _nouns(masculine: str, feminine: str, person: bool) -> dict[str, Noun]:
    """Parse entries `english[/plural] french`."""
    nouns = {}
    for is_feminine, text in ((False, masculine), (True, feminine)):
        for entry in text.split(","):
            english, french = entry.split()
            singular, _, irregular = english.partition("/")
            nouns[singular] = Noun(singular, irregular or singular + "s", french, plural(french), is_feminine, person)
    return nouns


NOUNS = {
    **_nouns(
        "man/men homme, boy garçon, child/children enfant, king roi, father père, uncle oncle, actor acteur",
        "woman/women femme, girl fille, queen reine, mother mère, aunt tante, actress/actresses actrice",
        person=True,
    ),
    **_nouns(
        "dog chien, cat chat, horse cheval, bird oiseau, "
        "book livre, newspaper journal, boat bateau, tree arbre, "
        "garden jardin, hospital hôpital, castle château, "
        "project projet, agreement accord, market marché, country/countries pays",
        "bee abeille, cow vache, "
        "letter lettre, door porte, window fenêtre, table table, car voiture, key clé, clock horloge, flower fleur, "
        "house maison, school école, church/churches église, town ville, island île, "
        "area zone, law loi, company/companies entreprise, economy/economies économie, crisis/crises crise",
        person=False,
    ),
}


def of(text: str, without: str = "") -> tuple[Noun, ...]:
    """Nouns by English name; names in capitals are groups of GROUPS. A noun with a weight in WEIGHTS is repeated."""
    left_out = _names(without)
    names = [name for name in dict.fromkeys(_names(text)) if name not in left_out]
    return tuple(NOUNS[name] for name in names for _ in range(WEIGHTS.get(name, 1)))


def _names(text: str) -> list[str]:
    return [name for word in text.split() for name in (GROUPS[word].split() if word.isupper() else [word])]


GROUPS = {
    "PERSONS": " ".join(name for name, noun in NOUNS.items() if noun.person),
    "FAMILY": "father mother uncle aunt",
    "ANIMALS": "dog cat horse bird bee cow",
    "SMALL": "book letter newspaper key clock flower table",  # can be given
    "OBJECTS": "book letter newspaper key clock flower table door window car boat tree",
    "BUILDINGS": "house school hospital castle church",
    "LOCATIONS": "house school hospital castle church garden town island",
    "GOOD": "king queen father mother uncle aunt actor actress dog horse book newspaper car boat school hospital law",
    "AFFAIRS": "area law project company agreement market economy crisis",
}
# Sampling weights: fewer verbs take these nouns than people, and all words should be about equally frequent.
WEIGHTS = dict(area=5, law=2, project=2, company=2, agreement=2, market=3, economy=3, crisis=4, country=2)

PHYSICAL = "PERSONS ANIMALS OBJECTS LOCATIONS"
STANDING = "PERSONS ANIMALS SMALL car boat tree BUILDINGS"  # what can be near something


def _adjectives(table: str) -> list[Adjective]:
    """Parse lines `slot english french: nouns - nouns left out`; a star after the slot: never after "is"."""
    adjectives = []
    for line in table.strip().splitlines():
        words, nouns = line.split(":")
        slot, english, french = words.split()
        allowed, _, left_out = nouns.partition(" - ")
        fitting = frozenset(of(allowed, left_out))
        adjectives.append(Adjective(english, french, int(slot[0]), not slot.endswith("*"), fitting))
    return adjectives


ADJECTIVES = _adjectives("""
3 beautiful beau: PERSONS ANIMALS OBJECTS LOCATIONS - FAMILY
3 small petit: man boy girl child king queen actor actress ANIMALS OBJECTS LOCATIONS project company market
3 big grand: ANIMALS OBJECTS LOCATIONS area project company market
3 old vieux: PERSONS ANIMALS OBJECTS LOCATIONS law project company agreement - boy girl child flower
3 young jeune: PERSONS dog cat horse bird cow
3* new nouveau: king queen actor actress dog cat horse OBJECTS LOCATIONS AFFAIRS - island
3* good bon: GOOD project agreement company
3* bad mauvais: GOOD project agreement company
2 happy heureux: PERSONS dog cat horse bird
2 sad triste: PERSONS dog cat horse bird
2 tired fatigué: PERSONS ANIMALS
2 proud fier: PERSONS horse cat
2 kind gentil: PERSONS dog cat horse
2 famous célèbre: man woman king queen actor actress book newspaper LOCATIONS
2 strange étrange: PERSONS ANIMALS OBJECTS LOCATIONS AFFAIRS
2 expensive cher: SMALL car boat house castle project
2 dangerous dangereux: man woman king queen ANIMALS car boat tree island town AFFAIRS country
2 important important: book letter newspaper key AFFAIRS country
1 red rouge: OBJECTS house castle - letter newspaper
1 green vert: OBJECTS house garden - letter newspaper
1 white blanc: ANIMALS OBJECTS house castle church - bee newspaper
1 black noir: ANIMALS OBJECTS house castle church - newspaper
1 french français: man woman boy girl child king queen actor actress book newspaper car boat LOCATIONS AFFAIRS - area
1 german allemand: man woman boy girl child king queen actor actress book newspaper car boat LOCATIONS AFFAIRS - area
1 european européen: man woman actor actress town island AFFAIRS country
1 national national: newspaper school hospital AFFAIRS - area
0 economic économique: AFFAIRS - economy company
0 social social: AFFAIRS - area market economy
0 political politique: law project agreement crisis newspaper book
0 digital numérique: AFFAIRS book newspaper - area crisis
""")
BEAUTIFUL = ADJECTIVES[0]

_PEOPLE, _BEASTS = of("PERSONS"), of("PERSONS ANIMALS")
VERBS = [
    Verb("sleep", "sleeps", "dort", "dorment", "act", _BEASTS, prepositions=("in", "on", "under", "behind", "near")),
    Verb("sing", "sings", "chante", "chantent", "act", of("PERSONS bird"), prepositions=("in", "with", "near")),
    Verb("work", "works", "travaille", "travaillent", "act", of("PERSONS horse"), prepositions=("in", "with", "near")),
    Verb("fall", "falls", "tombe", "tombent", "act", of("PERSONS ANIMALS SMALL tree")),
    Verb("see", "sees", "voit", "voient", "see", _BEASTS, of(PHYSICAL)),
    Verb("love", "loves", "aime", "aiment", "see", _BEASTS, of(PHYSICAL, without="key door window")),
    Verb("find", "finds", "trouve", "trouvent", "see", _BEASTS, of("PERSONS ANIMALS SMALL car boat house garden")),
    Verb("look", "looks", "regarde", "regardent", "see", _BEASTS, of(PHYSICAL), "at"),
    Verb("look", "looks", "cherche", "cherchent", "see", _BEASTS, of(PHYSICAL), "for"),
    Verb("listen", "listens", "écoute", "écoutent", "see", _BEASTS, of("PERSONS bird dog clock"), "to"),
    Verb("wait", "waits", "attend", "attendent", "see", _PEOPLE, of("PERSONS letter boat law agreement"), "for"),
    Verb("know", "knows", "connaît", "connaissent", "see", _PEOPLE, of("PERSONS LOCATIONS AFFAIRS country")),
    Verb("buy", "buys", "achète", "achètent", "see", _PEOPLE, of("SMALL car boat house castle dog cat horse cow")),
    Verb("read", "reads", "lit", "lisent", "see", _PEOPLE, of("book letter newspaper law agreement")),
    Verb("open", "opens", "ouvre", "ouvrent", "see", _PEOPLE, of("door window letter book school church")),
    Verb("protect", "protects", "protège", "protègent", "see", of("PERSONS dog law agreement country"),
         of("PERSONS ANIMALS LOCATIONS country economy market area")),
    Verb("help", "helps", "aide", "aident", "see", of("PERSONS dog law agreement project company country market"),
         of("PERSONS ANIMALS company country town economy market project")),
    Verb("threaten", "threatens", "menace", "menacent", "see",
         of("PERSONS crisis law project company market economy area"),
         of("PERSONS ANIMALS company country town island economy market project agreement area")),
    Verb("speak", "speaks", "parle", "parlent", "speak", _PEOPLE, of("PERSONS ANIMALS")),
    Verb("belong", "belongs", "appartient", "appartiennent", "speak", of("ANIMALS OBJECTS LOCATIONS company"),
         of("PERSONS company country")),
    Verb("give", "gives", "donne", "donnent", "give", _PEOPLE, of("SMALL dog cat horse cow"), receivers=_BEASTS),
    Verb("say", "says", "dit", "disent", "say", _PEOPLE),
    Verb("think", "thinks", "pense", "pensent", "say", _PEOPLE),
    Verb("know", "knows", "sait", "savent", "say", _PEOPLE),
]  # fmt: skip
BE = ("is", "are", "est", "sont")

PREPOSITIONS = [
    Preposition(english, french, frozenset(of(heads)), of(nouns))
    for english, french, heads, nouns in (
        ("in", ("dans",), "PERSONS ANIMALS SMALL", "BUILDINGS garden town country area"),
        ("in", ("dans",), "BUILDINGS", "town country area"),
        ("on", ("sur",), "PERSONS ANIMALS", "island boat"),
        ("on", ("sur",), "SMALL", "table boat"),
        ("under", ("sous",), "PERSONS ANIMALS SMALL", "tree table"),
        ("behind", ("derrière",), STANDING, "PERSONS BUILDINGS tree door car horse"),
        ("near", ("près", "de"), STANDING, "PERSONS ANIMALS LOCATIONS door window car boat tree table"),
        ("with", ("avec",), "PERSONS dog cat horse bird", "PERSONS dog cat horse bird"),
    )
]

# Possessors: "the door of the house", "the mother of the king", "the law of the country".
OWNERS = {
    noun: of(owners)
    for nouns, owners in (
        ("FAMILY child", "PERSONS"),
        ("king queen", "country island town"),
        ("man woman boy girl actor actress", "town island country"),
        ("ANIMALS book letter newspaper car boat flower house castle", "PERSONS"),
        ("door window clock table key tree", "BUILDINGS"),
        ("garden", "PERSONS BUILDINGS town"),
        ("school hospital church", "town island country"),
        ("town island area", "country"),
        ("law agreement market economy crisis", "country area town"),
        ("project company", "PERSONS country town"),
    )
    for noun in of(nouns)
}

# Coordination joins only nouns of one class: "the king and the dog", not "the king and the crisis".
COORDINATION_CLASS = {
    noun: index
    for index, nouns in enumerate(("PERSONS ANIMALS", "OBJECTS LOCATIONS", "AFFAIRS country"))
    for noun in of(nouns)
}
EVERY_NOUN = of("PERSONS ANIMALS OBJECTS LOCATIONS AFFAIRS country")
