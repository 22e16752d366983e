"""A checker of the French in the phrase corpus. It reads words, not the generator: own dictionary, own grammar.

`parses(tokens)` says whether the words form a sentence in which articles, adjectives, nouns and verbs agree. A relative
clause may describe any noun before it that it agrees with, so a wrong form can at worst hide behind a second reading.
"""

from collections.abc import Iterator

# gender, English singular and plural, French singular and plural
NOUNS = """
m man men homme hommes
m boy boys garçon garçons
m child children enfant enfants
m king kings roi rois
m father fathers père pères
m uncle uncles oncle oncles
m actor actors acteur acteurs
f woman women femme femmes
f girl girls fille filles
f queen queens reine reines
f mother mothers mère mères
f aunt aunts tante tantes
f actress actresses actrice actrices
m dog dogs chien chiens
m cat cats chat chats
m horse horses cheval chevaux
m bird birds oiseau oiseaux
f bee bees abeille abeilles
f cow cows vache vaches
m book books livre livres
m newspaper newspapers journal journaux
m boat boats bateau bateaux
m tree trees arbre arbres
f letter letters lettre lettres
f door doors porte portes
f window windows fenêtre fenêtres
f table tables table tables
f car cars voiture voitures
f key keys clé clés
f clock clocks horloge horloges
f flower flowers fleur fleurs
m garden gardens jardin jardins
m hospital hospitals hôpital hôpitaux
m castle castles château châteaux
f house houses maison maisons
f school schools école écoles
f church churches église églises
f town towns ville villes
f island islands île îles
m project projects projet projets
m agreement agreements accord accords
m market markets marché marchés
m country countries pays pays
f area areas zone zones
f law laws loi lois
f company companies entreprise entreprises
f economy economies économie économies
f crisis crises crise crises
"""
# position, English, French: masculine singular and plural, feminine singular and plural
ADJECTIVES = """
before beautiful beau/bel beaux belle belles
before new nouveau/nouvel nouveaux nouvelle nouvelles
before old vieux/vieil vieux vieille vieilles
before small petit petits petite petites
before big grand grands grande grandes
before young jeune jeunes jeune jeunes
before good bon bons bonne bonnes
before bad mauvais mauvais mauvaise mauvaises
after happy heureux heureux heureuse heureuses
after sad triste tristes triste tristes
after tired fatigué fatigués fatiguée fatiguées
after proud fier fiers fière fières
after kind gentil gentils gentille gentilles
after famous célèbre célèbres célèbre célèbres
after strange étrange étranges étrange étranges
after expensive cher chers chère chères
after dangerous dangereux dangereux dangereuse dangereuses
after important important importants importante importantes
after red rouge rouges rouge rouges
after green vert verts verte vertes
after white blanc blancs blanche blanches
after black noir noirs noire noires
after french français français française françaises
after german allemand allemands allemande allemandes
after european européen européens européenne européennes
after national national nationaux nationale nationales
after economic économique économiques économique économiques
after social social sociaux sociale sociales
after political politique politiques politique politiques
after digital numérique numériques numérique numériques
"""
# what follows, English with "they" and with "he", French singular and plural
VERBS = """
nothing sleep sleeps dort dorment
nothing sing sings chante chantent
nothing work works travaille travaillent
nothing fall falls tombe tombent
object see sees voit voient
object love loves aime aiment
object find finds trouve trouvent
object look looks regarde regardent
object look looks cherche cherchent
object listen listens écoute écoutent
object wait waits attend attendent
object know knows connaît connaissent
object buy buys achète achètent
object read reads lit lisent
object open opens ouvre ouvrent
object protect protects protège protègent
object help helps aide aident
object threaten threatens menace menacent
to speak speaks parle parlent
to belong belongs appartient appartiennent
both give gives donne donnent
clause say says dit disent
clause think thinks pense pensent
clause know knows sait savent
quality are is est sont
"""
FUNCTION_WORDS = """
the le la l' les du des au aux
a un une
an un une
some des de
of de d' du des
to à au aux écoute écoutent
near près de d' du des
in dans
on sur
under sous
behind derrière
with avec
and et
but mais
when quand
because parce que qu'
who qui que qu'
that qui que qu'
not ne n' pas
never ne n' jamais
often souvent
always toujours
at regarde regardent
for cherche cherchent attend attendent
"""
SINGULAR, PLURAL = "s", "p"
ACCENTED_VOWELS = "aeiouyàâéèêëîïôûùœ"
MUTE = ("homme", "hôpit", "horloge", "heureu")  # words of this dictionary whose h is not spoken


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


NOUN: dict[str, set] = {}  # form to (gender, number)
for gender, _, _, one, many in _rows(NOUNS):
    NOUN.setdefault(one, set()).add((gender, SINGULAR))
    NOUN.setdefault(many, set()).add((gender, PLURAL))
BEFORE: dict[str, set] = {}
AFTER: dict[str, set] = {}
SHORT, LONG = set(), set()  # bel, nouvel, vieil; beau, nouveau, vieux
for where, _, *forms in _rows(ADJECTIVES):
    for form, features in zip(forms, (("m", SINGULAR), ("m", PLURAL), ("f", SINGULAR), ("f", PLURAL)), strict=True):
        long, _, short = form.partition("/")
        for variant in filter(None, (long, short)):
            (BEFORE if where == "before" else AFTER).setdefault(variant, set()).add(features)
        if short:
            SHORT.add(short)
            LONG.add(long)
VERB = {}  # form to (what follows, number)
for what, _, _, one, many in _rows(VERBS):
    VERB[one], VERB[many] = (what, SINGULAR), (what, PLURAL)


def vowel(word: str) -> bool:
    return word[0] in ACCENTED_VOWELS or word.startswith(MUTE)


class Reading:
    """All ways to read one sentence. Methods yield where a part that begins at `start` may end, and its features."""

    def __init__(self, tokens: tuple[str, ...]):
        self.tokens = (*tokens, ".", ".")
        self.memory: dict = {}

    def remembered(self, method, *arguments) -> list:
        key = (method.__name__, *arguments)
        if key not in self.memory:
            self.memory[key] = list(dict.fromkeys(method(*arguments)))
        return self.memory[key]

    def core(self, start: int, genders: str, number: str) -> Iterator:
        """Adjectives, noun, adjectives, after an article that allows these genders and this number."""
        position = start
        while self.tokens[position] in BEFORE:
            position += 1
        for gender, noun_number in NOUN.get(self.tokens[position], ()):
            if gender not in genders or noun_number != number:
                continue
            if any((gender, number) not in BEFORE[adjective] for adjective in self.tokens[start:position]):
                continue
            if any(self.misplaced(index, number, gender) for index in range(start, position)):
                continue
            yield position + 1, gender, number
            end = position + 1
            while (gender, number) in AFTER.get(self.tokens[end], ()):
                end += 1
                yield end, gender, number

    def misplaced(self, position: int, number: str, gender: str) -> bool:
        """ "beau arbre" or "bel chien"."""
        word, following = self.tokens[position], vowel(self.tokens[position + 1])
        alone = (gender, number) == ("m", SINGULAR)
        return (word in SHORT and not following) or (word in LONG and alone and following)

    def article(self, start: int) -> Iterator:
        word, following = self.tokens[start], self.tokens[start + 1]
        if word in ("le", "la") and not vowel(following):
            yield from self.core(start + 1, "m" if word == "le" else "f", SINGULAR)
        elif word == "l'" and vowel(following):
            yield from self.core(start + 1, "mf", SINGULAR)
        elif word in ("un", "une"):
            yield from self.core(start + 1, "m" if word == "un" else "f", SINGULAR)
        elif word == "les" or (word == "des" and following not in BEFORE) or (word == "de" and following in BEFORE):
            yield from self.core(start + 1, "mf", PLURAL)

    def after(self, start: int, short: str, plain: str, elided: str, plurals: str) -> Iterator:
        """What follows "de" or "à", contracted with its article or not."""
        word, following = self.tokens[start], self.tokens[start + 1]
        alone = ("la", "l'", "des", "de") if plain == "à" else ("la", "l'")
        if word == short and not vowel(following):
            yield from self.full(start + 1, tuple(self.core(start + 1, "m", SINGULAR)))
        elif word == plurals:
            yield from self.full(start + 1, tuple(self.core(start + 1, "mf", PLURAL)))
        elif (word == plain and following in alone) or (word == elided and following in ("un", "une")):
            yield from self.full(start + 1, tuple(self.article(start + 1)))

    def of(self, start: int) -> Iterator:
        yield from self.after(start, "du", "de", "d'", "des")

    def to(self, start: int) -> Iterator:
        yield from self.after(start, "au", "à", "à", "aux")

    def where(self, start: int) -> Iterator:
        if self.tokens[start] == "près":
            yield from self.remembered(self.of, start + 1)
        elif self.tokens[start] in ("dans", "sur", "sous", "derrière", "avec"):
            yield from self.remembered(self.phrase, start + 1)

    def phrase(self, start: int) -> Iterator:
        yield from self.full(start, tuple(self.article(start)))

    def full(self, start: int, cores: tuple) -> Iterator:
        """A noun with what may come behind it: "de ...", a place, a relative clause."""
        for end, gender, number in cores:
            yield end, gender, number
            for further, _, _ in (*self.remembered(self.of, end), *self.remembered(self.where, end)):
                yield further, gender, number
                for last in self.remembered(self.relative, further, gender, number):
                    yield last, gender, number
            for last in self.remembered(self.relative, end, gender, number):
                yield last, gender, number

    def pair(self, start: int) -> Iterator:
        for end, gender, number in self.remembered(self.phrase, start):
            yield end, gender, number
            if self.tokens[end] == "et":
                for last, other, _ in self.remembered(self.phrase, end + 1):
                    yield last, "f" if gender == other == "f" else "m", PLURAL

    def relative(self, start: int, gender: str, number: str) -> Iterator:
        if self.tokens[start] == "qui":
            yield from self.remembered(self.predicate, start + 1, gender, number)
        elif self.tokens[start] in ("que", "qu'"):
            for end, _, others in self.remembered(self.phrase, start + 1):
                for last, what in self.verb(end, others):
                    if what == "object":
                        yield last

    def verb(self, start: int, number: str) -> Iterator:
        """The verb with its negation or adverb: where it ends, and what must follow."""
        denied = self.tokens[start] in ("ne", "n'")
        what, verb_number = VERB.get(self.tokens[start + denied], (None, None))
        if verb_number != number:
            return
        end = start + denied + 1
        if denied and self.tokens[end] in ("pas", "jamais"):
            yield end + 1, what
        elif not denied:
            yield end + (self.tokens[end] in ("souvent", "toujours")), what

    def predicate(self, start: int, gender: str, number: str) -> Iterator:
        for end, what in self.verb(start, number):
            if what == "nothing":
                yield end
                yield from (last for last, _, _ in self.remembered(self.where, end))
            elif what == "object":
                yield from (last for last, _, _ in self.remembered(self.pair, end))
            elif what == "to":
                yield from (last for last, _, _ in self.remembered(self.to, end))
            elif what == "both":
                for middle, _, _ in self.remembered(self.phrase, end):
                    yield from (last for last, _, _ in self.remembered(self.to, middle))
            elif what == "clause" and self.tokens[end] in ("que", "qu'"):
                yield from self.remembered(self.clause, end + 1)
            elif what == "quality":
                yield from (last for last, _, _ in self.remembered(self.where, end))
                yield from self.qualities(end, (gender, number))

    def qualities(self, start: int, features: tuple[str, str]) -> Iterator:
        def fits(position: int) -> bool:
            word = self.tokens[position]
            return word not in SHORT and features in (BEFORE.get(word) or AFTER.get(word) or ())

        if fits(start):
            yield start + 1
            if self.tokens[start + 1] == "et" and fits(start + 2):
                yield start + 3

    def clause(self, start: int) -> Iterator:
        for end, gender, number in self.remembered(self.pair, start):
            yield from self.remembered(self.predicate, end, gender, number)

    def whole(self, start: int = 0) -> bool:
        for end in self.remembered(self.clause, start):
            word = self.tokens[end]
            if word == ".":
                return True
            begin = end + (2 if word == "parce" and self.tokens[end + 1] in ("que", "qu'") else 1)
            if word in ("et", "mais", "quand", "parce") and self.whole(begin):
                return True
        return False


def parses(tokens: tuple[str, ...]) -> bool:
    return Reading(tuple(tokens)).whole()
