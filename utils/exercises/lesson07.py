"""Lesson 07: its exercises with the mistakes that people make in them, and its guess-first questions."""

import inspect
import random
from collections import Counter
from itertools import pairwise

import torch
import torch.nn.functional as F

from utils.course.checks import Case, Wrong, a_thing
from utils.course.exercises import Exercise, register
from utils.course.quiz import Quiz, register_quiz
from utils.data.subwords import END, MASK, SPECIAL, START, bpe_merges, bpe_split, merge
from utils.exercises.common import normal
from utils.exercises.edits import mistake
from utils.exercises.lesson06 import up_to, whole, with_parameters
from utils.models import language
from utils.models.sampling import next_distribution
from utils.models.self_attention import causal_mask
from utils.training.pretraining import NOT_ASKED


def dice(generator):
    """Python's own random numbers, for words and lists."""
    return random.Random(int(whole(generator, 2**31)))


# ---------------------------------------------------------------------------------------------- 7.1 byte-pair merges
def some_words(draw, letters="abcde", many=9):
    """Random words with their counts."""
    words = ("".join(draw.choices(letters, k=draw.randint(1, 5))) for _ in range(many))
    return {word: draw.randint(1, 9) for word in words}


def words_without_traps(draw):
    """Random words in which replacing text is as good as joining pieces: what else comes of it depends on how it is done."""
    while True:
        words = some_words(draw)
        if text_is_as_good(words, bpe_merges(words, 6)):
            return words


def text_is_as_good(words, merges):
    split = [list(word) for word in words]
    for pair in merges:
        joined = [merge(pieces, pair) for pieces in split]
        if joined != [joined_as_text(pieces, pair) for pieces in split]:
            return False
        split = joined
    return True


def merges_cases(generator):
    draw = dice(generator)

    def one(counts, merges, note, factor=None):
        """A common factor changes no merge."""
        factor = factor or draw.randint(1, 4)
        return Case(({word: factor * count for word, count in counts.items()}, merges), note=note)

    return [
        one({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 6, "a small corpus"),
        one({"xa": 20, "ab": 10, "xab": 3, "ba": 1}, 4, "the end of one piece is the start of a pair", factor=1),
        one({"cd": 4, "ax": 4, "ab": 4}, 3, "pairs that occur equally often"),
        one({"ab": 9, "abz": 2, "bc": 2}, 3, "a tie of an old and a new piece"),
        one({"aaaa": 3, "bc": 8, "aabaa": 1}, 4, "one letter several times"),
        one({"abab": 4, "ab": 1, "c": 7}, 2, "a pair twice in a word"),
        one({"ab": 3, "c": 2}, 5, "nothing is left to join"),
        one(words_without_traps(draw), 6, "random words"),
    ]


def counted(split, counts):
    pairs = Counter()
    for word, pieces in split.items():
        for pair in pairwise(pieces):
            pairs[pair] += counts[word]
    return pairs


def counted_once_per_word(split, counts):
    return Counter(pair for pieces in split.values() for pair in pairwise(pieces))


def counted_in_one_text(split, counts):
    """The words one behind the other, as if nothing separated them."""
    line = [piece for word, pieces in split.items() for _ in range(counts[word]) for piece in pieces]
    return Counter(pairwise(line))


def oldest_first(pairs, age):
    """Pieces that only a wrong join can make have no age: they count as the youngest."""
    return max(pairs, key=lambda pair: (pairs[pair], *(-age.get(piece, len(age)) for piece in pair)))


def first_seen(pairs, age):
    return max(pairs, key=pairs.__getitem__)


def joined_once(pieces, pair):
    """Only the first occurrence in the word."""
    for place, found in enumerate(pairwise(pieces)):
        if found == pair:
            return [*pieces[:place], "".join(pair), *pieces[place + 2 :]]
    return list(pieces)


def joined_as_text(pieces, pair):
    """By replacing in the text: 'xa b' holds 'a b'."""
    return " ".join(pieces).replace(" ".join(pair), "".join(pair)).split(" ")


def merges_with(
    count=counted,
    choose=oldest_first,
    join=merge,
    goes_on=lambda pairs: bool(pairs),
    many=lambda merges: merges,
    results=lambda found: found,
    recount=True,
):
    """The merges as the reference finds them, with parts that can be replaced by wrong ones."""

    def wrong(counts, merges):
        split = {word: list(word) for word in counts}
        age = {character: place for place, character in enumerate(sorted(set("".join(counts))))}
        found, pairs = [], count(split, counts)
        while len(found) < many(merges) and goes_on(pairs):
            best = choose(pairs, age)
            found.append(best)
            age.setdefault("".join(best), len(age))
            split = {word: join(pieces, best) for word, pieces in split.items()}
            if recount:
                pairs = count(split, counts)
            else:
                del pairs[best]
        return results(found)

    return wrong


COUNTED_ONCE = (
    "The pairs were counted once, at the start: after each merge there are new pieces and new pairs, count again."
)
OLDER = "characters by their code, then new pieces in the order they were made"

register(
    Exercise(
        id="7.1",
        cases=merges_cases,
        mistakes=[
            mistake(
                merges_with(count=counted_once_per_word),
                "Each word counted once: a word that occurs ten times counts ten times, so add `counts[word]` for each pair.",
            ),
            mistake(merges_with(recount=False), COUNTED_ONCE),
            mistake(merges_with(recount=False, choose=first_seen), COUNTED_ONCE),
            mistake(
                merges_with(join=lambda pieces, pair: pieces),
                "The pair that was found is never joined, so it is found again and again: `merge` the pieces of every word.",
            ),
            mistake(
                merges_with(choose=first_seen),
                "Of pairs that occur equally often, the first that was met won: it is the one whose left piece is older, then "
                f"whose right piece is older: {OLDER}.",
            ),
            mistake(
                merges_with(choose=lambda pairs, age: max(pairs, key=lambda pair: (pairs[pair], -age[pair[0]]))),
                f"Of pairs with the same left piece, the first that was met won: the older right piece wins, {OLDER}.",
            ),
            mistake(
                merges_with(choose=lambda pairs, age: min(pairs, key=lambda pair: (-pairs[pair], pair))),
                f"Ties were broken by the alphabet, also between new pieces: the older piece wins, {OLDER}.",
            ),
            mistake(
                merges_with(choose=lambda pairs, age: max(pairs, key=lambda pair: (pairs[pair], pair))),
                f"Of pairs that occur equally often, the last in the alphabet won: the older piece wins, {OLDER}.",
            ),
            mistake(
                merges_with(
                    choose=lambda pairs, age: max(pairs, key=lambda pair: (pairs[pair], age[pair[0]], age[pair[1]]))
                ),
                f"Of pairs that occur equally often, the youngest won: the older piece wins, {OLDER}.",
            ),
            mistake(
                merges_with(
                    choose=lambda pairs, age: min(pairs, key=lambda pair: (pairs[pair], age[pair[0]], age[pair[1]]))
                ),
                "The rarest pair was joined: the most frequent one becomes a piece.",
            ),
            mistake(
                merges_with(join=joined_once),
                "Only the first occurrence in each word was joined: `merge(pieces, pair)` joins all of them.",
            ),
            mistake(
                merges_with(join=joined_as_text),
                "The pair was replaced in the text of the pieces, where the end of one piece and the start of the next look like "
                "a pair: compare whole pieces, as `merge(pieces, pair)` does.",
            ),
            mistake(
                merges_with(count=counted_in_one_text),
                "Pairs were counted across words, from the last letter of one to the first of the next: count inside each word.",
            ),
            mistake(
                merges_with(goes_on=lambda pairs: True),
                "It fails when nothing is left to join: stop when there are no pairs, and return the merges found so far.",
            ),
            mistake(
                merges_with(goes_on=lambda pairs: bool(pairs) and max(pairs.values()) > 1),
                "It stopped at pairs that occur only once: go on until there are `merges` of them or no pairs at all.",
            ),
            mistake(
                merges_with(many=lambda merges: merges + 1),
                "There is a merge too many: stop at `merges` of them.",
            ),
            mistake(
                merges_with(many=lambda merges: merges - 1),
                "A merge is missing at the end: there are `merges` of them, unless nothing is left to join.",
            ),
            mistake(
                merges_with(results=lambda found: ["".join(pair) for pair in found]),
                "The pieces came back joined: return the pairs, such as `('l', 'o')`. Who splits a word needs to know what was "
                "joined with what.",
            ),
            mistake(
                merges_with(results=lambda found: found[::-1]),
                "The merges are in the wrong order: the first one found comes first.",
            ),
        ],
        hints=[
            "Keep the pieces of every word: `split = {word: list(word) for word in counts}`. In a loop, count all pairs anew with "
            "`pairwise(pieces)`, each `counts[word]` times.",
            "The age of a piece: a list that starts with the sorted characters, and every new piece goes to its end. The best pair is "
            "`max(pairs, key=lambda pair: (pairs[pair], -age.index(pair[0]), -age.index(pair[1])))`.",
            "Then `merge(pieces, best)` in every word. The loop ends with `merges` merges, or when there are no pairs.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.2 split a word
def split_in_order(word, merges):
    """Each merge once, in the order of learning. But for rare detours the same as the reference."""
    pieces = list(word)
    for pair in merges:
        pieces = merge(pieces, pair)
    return pieces


def split_cases(generator):
    draw = dice(generator)
    learnt = bpe_merges({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 9)
    cases = [
        Case(("lowest", learnt), note="a word that was not in the corpus"),
        Case(("stew", learnt[:5]), note="few merges"),
        Case(("abc", [("b", "c"), ("a", "b"), ("ab", "c")]), note="the pair on the right was learnt first"),
        Case(("abcd", [("a", "b"), ("c", "d"), ("b", "c"), ("abc", "d")]), note="a long piece that cannot be reached"),
        Case(("xabab", [("x", "a"), ("a", "b"), ("b", "ab")]), note="the end of one piece is the start of a pair"),
        Case(("ababab", [("a", "b"), ("ab", "ab")]), note="one pair several times"),
        Case(("aaaaa", [("a", "a"), ("aa", "a")]), note="one letter several times"),
        Case(("q", learnt), note="one letter"),
        Case(("zyx", learnt), note="letters that no merge knows"),
        Case(("low", []), note="nothing was learnt"),
    ]
    while len(cases) < 13:
        merges = bpe_merges(some_words(draw), 7)
        word = "".join(draw.choices("abcde", k=draw.randint(4, 8)))
        if bpe_split(word, merges) == split_in_order(word, merges):
            cases.append(Case((word, merges), note="random words"))
    return cases


def split_with(best=lambda pairs, rank: min(pairs, key=rank.__getitem__), join=merge, results=lambda pieces: pieces):
    """The pieces as the reference finds them, with parts that can be replaced by wrong ones."""

    def wrong(word, merges):
        rank, pieces = {pair: place for place, pair in enumerate(merges)}, list(word)
        while pairs := [pair for pair in pairwise(pieces) if pair in rank]:
            pieces = join(pieces, best(pairs, rank))
        return results(pieces)

    return wrong


def furthest_left(pairs, rank):
    return pairs[0]


def split_by_pieces(word, merges):
    """Joins whatever makes a known piece, however it was learnt."""
    rank, pieces = {}, list(word)
    for place, pair in enumerate(merges):
        rank.setdefault("".join(pair), place)
    while pairs := [pair for pair in pairwise(pieces) if "".join(pair) in rank]:
        pieces = merge(pieces, min(pairs, key=lambda pair: rank["".join(pair)]))
    return pieces


def longest_first(word, merges):
    known, pieces, start = {"".join(pair) for pair in merges}, [], 0
    while start < len(word):
        end = next(end for end in range(len(word), start, -1) if end == start + 1 or word[start:end] in known)
        pieces.append(word[start:end])
        start = end
    return pieces


def in_order_with(join=merge, order=lambda merges: merges):
    def wrong(word, merges):
        pieces = list(word)
        for pair in order(merges):
            pieces = join(pieces, pair)
        return pieces

    return wrong


LEFT_FIRST = (
    "The pair furthest to the left was joined first: what was learnt first is joined first, wherever it stands."
)
AS_TEXT = (
    "The pair was replaced in the text of the pieces, where the end of one piece and the start of the next look like a pair: "
    "compare whole pieces, as `merge(pieces, pair)` does."
)

register(
    Exercise(
        id="7.2",
        cases=split_cases,
        mistakes=[
            mistake(split_with(best=furthest_left), LEFT_FIRST),
            mistake(split_with(best=furthest_left, join=joined_once), LEFT_FIRST),
            mistake(
                in_order_with(order=lambda merges: merges[::-1]),
                "The merges were done from the last to the first: they build on each other, so begin with the first.",
            ),
            mistake(
                split_with(best=lambda pairs, rank: max(pairs, key=rank.__getitem__)),
                "The merge that was learnt last is done first: the earliest in the list goes first.",
            ),
            mistake(
                longest_first,
                "The longest piece won: that is how WordPiece cuts. Here the merges are repeated in the order they were learnt.",
            ),
            mistake(
                split_by_pieces,
                "Two pieces were joined since their text is a known piece: only pairs of the list are joined, `('ab', 'c')` is not "
                "`('a', 'bc')`.",
            ),
            mistake(
                in_order_with(join=joined_once),
                "Each pair was joined once: `merge(pieces, pair)` joins all its occurrences in the word.",
            ),
            mistake(split_with(join=joined_as_text), AS_TEXT),
            mistake(in_order_with(join=joined_as_text), AS_TEXT),
            mistake(
                lambda word, merges: list(word),
                "No merge had any effect: `merge` returns a new list, `pieces = merge(pieces, pair)`.",
            ),
            mistake(
                lambda word, merges: merge(list(word), merges[0]),
                "Only the first merge was done: go through all of them.",
            ),
            mistake(
                split_with(results=lambda pieces: " ".join(pieces)),
                "One string came back: return the list of pieces.",
            ),
            mistake(
                split_with(results=lambda pieces: tuple(pieces)[::-1]),
                "The pieces are in reverse: joined in their order they are the word.",
            ),
            mistake(
                split_with(results=lambda pieces: [piece for piece in pieces if len(piece) > 1]),
                "Letters that were not joined are missing: they are pieces, too. Joined, the pieces are the word.",
            ),
        ],
        hints=[
            "Begin with the letters, `list(word)`.",
            "Do what training did: the first merge of the list, in all its places, then the second, and so on.",
            "`pieces = merge(pieces, pair)` for each pair of `merges`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.3 masked words
HIDDEN, PIECES = MASK, 100  # the number of the mask, and how many pieces there are in the cases


def some_texts(generator, b, n, pieces=PIECES):
    """Pieces (b, n) with a start, an end and other special ones among them, and who is real; padding looks like any piece."""
    numbers = whole(generator, pieces, b, n, low=len(SPECIAL))
    numbers[:, 0] = START
    special = torch.rand(b, n, generator=generator) < 0.05
    numbers[special] = END
    lengths = whole(generator, n + 1, b, low=n // 2)
    return numbers, torch.arange(n) < lengths.unsqueeze(1)


def mask_cases(generator):
    def one(b, n, share, note, pieces=PIECES):
        draws = torch.Generator().manual_seed(int(whole(generator, 2**31)))
        return Case((*some_texts(generator, b, n, pieces), HIDDEN, pieces, share, draws), note=note)

    return [
        one(100, 40, 0.0, "a share of 0"),
        one(100, 48, 1.0, "a share of 1"),
        one(256, 64, 0.15, "many texts"),
        one(200, 64, 0.4, "many texts, and a larger share"),
        one(1, 12_000, 1.0, "one long text of few pieces, and a share of 1", pieces=len(SPECIAL) + 25),
    ]


def run_mask(answer, numbers, real, mask, pieces, share, generator):
    """Judge by what holds of every right answer, whatever it draws: True, or `Wrong` with what does not hold."""
    given = numbers.clone()
    before = generator.get_state()
    result = answer(numbers, real, mask, pieces, share, generator)
    if not torch.equal(given, numbers):
        raise Wrong(
            "It changed `numbers` itself: make the inputs a new tensor (`numbers.clone()`), the targets need the old one."
        )
    inputs, targets, chosen = three_tensors(result, numbers.shape)
    require_choice(chosen, given, real, share)
    require_targets(targets, inputs, given, chosen)
    require_fates(inputs, given, chosen, mask, pieces)
    if chosen.any():
        require_the_generator(answer, result, (numbers, real, mask, pieces, share), before)
    return True


def three_tensors(result, shape):
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Wrong(f"It returned {a_thing(result)}: return three tensors, inputs, targets and chosen.")
    for part, name in zip(result, ("inputs", "targets", "chosen"), strict=True):
        if not isinstance(part, torch.Tensor) or part.shape != shape:
            raise Wrong(f"`{name}` is {a_thing(part)}: expected a tensor of the shape of `numbers`, {tuple(shape)}.")
        wanted = torch.bool if name == "chosen" else torch.long
        if part.dtype != wanted:
            kinds = [f"{kind}".removeprefix("torch.") for kind in (part.dtype, wanted)]
            raise Wrong(
                f"`{name}` has dtype {kinds[0]}: expected {kinds[1]}. Return inputs, targets and chosen, in this order."
            )
    return result


def part_of(some, all_of):
    """What share of one mask's places another has."""
    return float((some & all_of).sum()) / max(1, int(all_of.sum()))


def require_choice(chosen, numbers, real, share):
    ordinary = real & (numbers >= len(SPECIAL))
    if (chosen & ~real).any():
        raise Wrong("Padding was chosen: only real pieces are, `& real`.")
    if (chosen & ~ordinary).any():
        raise Wrong(
            f"Special pieces were chosen, such as start and end: only ordinary ones are, numbered from {len(SPECIAL)} on, "
            "`numbers >= len(SPECIAL)`."
        )
    found = part_of(chosen, ordinary)
    if share in (0.0, 1.0) and found == share:
        return
    if 0 < share < 1 and chosen.any():
        for axis, what in ((0, "The same places were chosen in every text"), (1, "Whole texts were chosen")):
            some, all_of = chosen.sum(axis), ordinary.sum(axis)
            if ((some == 0) | (some == all_of)).all():
                raise Wrong(f"{what}: draw a number for each piece, of the shape of `numbers`.")
        if abs(found - share) < 0.03:
            return
    if not chosen.any():
        raise Wrong(f"Nothing was chosen, and the share is {share}: compare `torch.rand(...)` with it.")
    if abs(found - (1 - share)) < 0.03:
        raise Wrong("The choice is turned round: a piece is chosen where the random number is *below* `share`.")
    if abs(found - 0.15) < 0.03:
        raise Wrong("`share` has no effect, 15 % were chosen: use the argument.")
    for part, what in ((0.8, "became the mask"), (0.9, "were changed")):
        if abs(found - part * share) < 0.03:
            raise Wrong(
                f"`chosen` holds only those that {what}: those that stay as they are belong to it, too, the loss asks for them."
            )
    raise Wrong(f"Of the ordinary pieces {found:.0%} were chosen: the share is {share:.0%}.")


def require_targets(targets, inputs, numbers, chosen):
    if not chosen.any():  # a share of 0 tells no mistake from another
        return
    if not torch.equal(targets[chosen], numbers[chosen]):
        if torch.equal(targets[chosen], inputs[chosen]):
            raise Wrong("The targets are what was put in: they are what stood there before, from `numbers`.")
        if (targets[chosen] == NOT_ASKED).all():
            raise Wrong("The targets are turned round: `numbers` where chosen, `NOT_ASKED` elsewhere.")
        if (targets[chosen] == NOT_ASKED).any():
            raise Wrong("Some chosen pieces have no target: also those that stay as they are are asked for.")
        raise Wrong("The targets at the chosen places are not the pieces that stood there: take them from `numbers`.")
    others = targets[~chosen]
    if (others != NOT_ASKED).any():
        if torch.equal(others, numbers[~chosen]):
            raise Wrong(
                "Every place has a target: only the chosen are asked about, `NOT_ASKED` stands elsewhere. The rest is a copy that "
                "teaches nothing."
            )
        if (others == 0).all():
            raise Wrong(
                "Where nothing is asked stands 0, a piece like any other for the loss: `NOT_ASKED` stands there."
            )
        raise Wrong("Where nothing is asked the targets must be `NOT_ASKED`, -100: the loss leaves those out.")


def require_fates(inputs, numbers, chosen, mask, pieces):
    if not torch.equal(inputs[~chosen], numbers[~chosen]):
        raise Wrong("Pieces that were not chosen have changed: `inputs` differs from `numbers` at chosen places only.")
    if int(chosen.sum()) < 500:
        return
    hidden, stays = chosen & (inputs == mask), chosen & (inputs == numbers)
    other = chosen & ~hidden & ~stays
    drawn = inputs[other]
    shares = [part_of(some, chosen) for some in (hidden, other, stays)]
    require_shares(*shares)
    if (drawn < len(SPECIAL)).any() or (drawn >= pieces).any():
        raise Wrong(
            f"The random pieces run from {int(drawn.min())} to {int(drawn.max())}: ordinary ones are from `len(SPECIAL)` to "
            f"`pieces - 1`, `torch.randint(len(SPECIAL), pieces, ...)`."
        )
    if len(drawn) > 14 * (pieces - len(SPECIAL)) and (drawn.min() > len(SPECIAL) or drawn.max() < pieces - 1):
        raise Wrong(
            f"Of many random pieces the first is {int(drawn.min())} and the last {int(drawn.max())}: they run from `len(SPECIAL)` to "
            f"`pieces - 1`, {len(SPECIAL)} to {pieces - 1} here, and `torch.randint` leaves its end out by itself."
        )
    if (drawn == drawn[0]).all():
        raise Wrong("One random piece was put everywhere: draw one for each place, of the shape of `numbers`.")
    middle = (len(SPECIAL) + pieces) / 2
    if not 0.2 < float((drawn > middle).float().mean()) < 0.8 or len(drawn.unique()) < 20:
        raise Wrong(
            "The random pieces are not drawn from all ordinary ones: from `len(SPECIAL)` to `pieces - 1`, all alike."
        )


def require_shares(hidden, other, stays):
    """Of the chosen: what part became the mask, another piece, or stayed."""
    if abs(hidden - 0.8) < 0.04 and abs(other - 0.1) < 0.04 and abs(stays - 0.1) < 0.04:
        return
    found = f"{hidden:.0%} became the mask, {other:.0%} another piece and {stays:.0%} stayed"
    if hidden > 0.99:
        raise Wrong(
            "Every chosen piece became the mask: 80 % do, 10 % become a random piece, and 10 % stay as they are."
        )
    if abs(hidden - 0.8) < 0.04 and other < 0.005:
        raise Wrong("No chosen piece became a random one: 80 % become the mask, 10 % a random piece, 10 % stay.")
    if abs(hidden - 0.8) < 0.04 and stays < 0.02:
        raise Wrong("No chosen piece stayed as it is: 80 % become the mask, 10 % a random piece, and 10 % stay.")
    if abs(hidden - 0.8) < 0.04 and other < 0.04:
        raise Wrong(
            f"Of the chosen, {found}: it was 10 % of the 20 % that were left. Of *all* chosen it is half of the rest."
        )
    if abs(hidden - 0.72) < 0.03 and abs(other - 0.1) < 0.04:
        raise Wrong(
            f"Of the chosen, {found}: the random pieces took some places of the mask. One random number decides: below 0.8 the "
            "mask, from 0.8 to 0.9 a random piece."
        )
    raise Wrong(f"Of the chosen, {found}: it should be 80, 10 and 10 %.")


def require_the_generator(answer, result, args, before):
    """The same generator gives the same, another gives something else, whatever torch's own random numbers are."""

    def again(state):
        torch.default_generator.manual_seed(torch.initial_seed() + 1)
        return answer(*args, torch.Generator().set_state(state))

    other = torch.Generator().manual_seed(123_456_789).get_state()
    if not all(map(torch.equal, again(before), result)):
        raise Wrong(
            "Called twice with generators in the same state it chose differently: every draw takes `generator=generator`, or no "
            "run can be repeated."
        )
    if all(map(torch.equal, again(other), result)) and args[0].numel() > 1000:
        raise Wrong("Another generator gives the same choice: do not set a seed, draw with `generator=generator`.")


register(
    Exercise(
        id="7.3",
        cases=mask_cases,
        call=run_mask,
        hints=[
            "`torch.rand(numbers.shape, generator=generator) < share` chooses; `& real` and `& (numbers >= len(SPECIAL))` keep padding "
            "and special pieces out.",
            "A second random number decides what becomes of a chosen piece: below 0.8 `mask`, from 0.8 to 0.9 one of "
            "`torch.randint(len(SPECIAL), pieces, numbers.shape, generator=generator)`, else it stays.",
            "`torch.where(chosen & (fate < 0.8), mask, numbers)` makes a new tensor. Targets: `torch.where(chosen, numbers, NOT_ASKED)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.4 cut out spans
def take_out(numbers, spans, gaps):
    """numbers, a list; spans [(start, end), ...] in order, end not included; gaps, names for the holes.

    Returns source, the list with a gap in place of each span, and target: each gap with what stood there, and one more gap.
    """
    source, target, place = [], [], 0
    for gap, (start, end) in zip(gaps, spans, strict=False):
        source += [*numbers[place:start], gap]
        target += [gap, *numbers[start:end]]
        place = end
    return source + numbers[place:], [*target, gaps[len(spans)]]


def span_cases(generator):
    draw = dice(generator)

    def one(n, spans, note, gaps=6):
        numbers = draw.sample(range(100, 1000), n)
        return Case((numbers, spans, draw.sample(range(5, 21), gaps)), note=note)

    def some_spans(n):
        borders = sorted(draw.sample(range(n + 1), 6))
        return list(zip(borders[::2], borders[1::2], strict=True))

    return [
        one(7, [(1, 3), (5, 6)], "two spans"),
        one(6, [(0, 2)], "the text begins with a span"),
        one(6, [(3, 6)], "the text ends with a span"),
        one(9, [(0, 1), (3, 6), (8, 9)], "three spans, at both ends", gaps=4),
        one(5, [], "nothing is taken out"),
        one(16, some_spans(16), "random spans"),
    ]


def spans_with(
    left=lambda gap, taken: [gap],
    taken=lambda numbers, start, end: numbers[start:end],
    told=lambda gap, taken: [gap, *taken],
    rest=lambda numbers, place: numbers[place:],
    last=lambda gaps, spans: [gaps[len(spans)]],
    named=lambda gaps, number: gaps[number],
    behind=lambda start, end: end,
    results=lambda source, target: (source, target),
):
    """Source and target with parts that can be replaced by wrong ones."""

    def wrong(numbers, spans, gaps):
        source, target, place = [], [], 0
        for number, (start, end) in enumerate(spans):
            gap, inside = named(gaps, number), taken(numbers, start, end)
            source += [*numbers[place:start], *left(gap, inside)]
            target += told(gap, inside)
            place = behind(start, end)
        return results(source + rest(numbers, place), target + last(gaps, spans))

    return wrong


def places_moved(numbers, spans, gaps):
    """Each span becomes one piece in the list itself, so the places behind it move; they are used as they were."""
    source, target = list(numbers), []
    for number, (start, end) in enumerate(spans):
        target += [gaps[number], *source[start:end]]
        source[start:end] = [gaps[number]]
    return source, [*target, gaps[len(spans)]]


ONE_GAP = "All spans have the same gap, and nobody can tell them apart: `gaps[0]`, `gaps[1]` and so on."

register(
    Exercise(
        id="7.4",
        cases=span_cases,
        output_names=("source", "target"),
        mistakes=[
            mistake(
                spans_with(last=lambda gaps, spans: []),
                "The target lacks its last gap: one more, `gaps[len(spans)]`, says that nothing more is missing.",
            ),
            mistake(
                spans_with(last=lambda gaps, spans: [gaps[-1]]),
                "The target ends with the last of all gaps: with the next one, `gaps[len(spans)]`.",
            ),
            mistake(
                spans_with(rest=lambda numbers, place: []),
                "What stands behind the last span is missing from the source: add `numbers[place:]` after the loop.",
            ),
            mistake(
                spans_with(left=lambda gap, taken: []),
                "The source does not show where something was taken out: a gap stands in place of each span.",
            ),
            mistake(
                spans_with(left=lambda gap, taken: [gap] * len(taken)),
                "Each piece has its own gap in the source, which tells how many are missing: one for each span.",
            ),
            mistake(
                spans_with(told=lambda gap, taken: list(taken)),
                "The target does not say which gap is filled: each gap stands in front of what was there.",
            ),
            mistake(
                spans_with(told=lambda gap, taken: [*taken, gap]),
                "In the target the gaps stand behind what they held: in front, so that the model knows what it is to write.",
            ),
            mistake(spans_with(named=lambda gaps, number: gaps[0]), ONE_GAP),
            mistake(spans_with(named=lambda gaps, number: gaps[0], last=lambda gaps, spans: [gaps[0]]), ONE_GAP),
            mistake(
                spans_with(
                    named=lambda gaps, number: gaps[number + 1], last=lambda gaps, spans: [gaps[len(spans) + 1]]
                ),
                "The first gap was left out: begin with `gaps[0]`.",
            ),
            mistake(
                spans_with(
                    taken=lambda numbers, start, end: numbers[start : end + 1], behind=lambda start, end: end + 1
                ),
                "Each span is one piece too long: `end` is not included, `numbers[start:end]`.",
            ),
            mistake(
                spans_with(taken=lambda numbers, start, end: numbers[start : end + 1]),
                "In the target each span is one piece too long: `end` is not included, `numbers[start:end]`.",
            ),
            mistake(
                spans_with(
                    taken=lambda numbers, start, end: numbers[start : start + end],
                    behind=lambda start, end: start + end,
                ),
                "The second number of a span was taken for its length: it is its end, `numbers[start:end]`.",
            ),
            mistake(
                spans_with(behind=lambda start, end: start),
                "The spans are still in the source: go on behind the span, `place = end`.",
            ),
            mistake(
                places_moved,
                "After the first span the places are wrong: each cut moves all that stands behind it. Build new lists instead of "
                "cutting the old one.",
            ),
            mistake(
                spans_with(results=lambda source, target: (target, source)),
                "The two results are swapped: the source comes first.",
            ),
            mistake(
                spans_with(results=lambda source, target: source),
                "Only the source came back: return source and target.",
            ),
            mistake(
                lambda numbers, spans, gaps: (spans_with()(numbers, spans, gaps)[0], list(numbers)),
                "The target is the whole text: only what was taken out is asked for, with the gaps in front.",
            ),
            mistake(
                lambda numbers, spans, gaps: (
                    [*spans_with()(numbers, spans, gaps)[0], gaps[len(spans)]],
                    spans_with()(numbers, spans, gaps)[1],
                ),
                "The last gap stands in the source as well: it ends the target only.",
            ),
        ],
        hints=[
            "Two new lists, and `place`, where you are in `numbers`. For each span and its gap:",
            "`source += [*numbers[place:start], gap]`, `target += [gap, *numbers[start:end]]`, and go on at `end`.",
            "Behind the loop: the rest, `numbers[place:]`, for the source, and `gaps[len(spans)]` for the target.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.5 the masked model
class MaskedLM(language.MaskedLM):
    """The reference as the lesson builds it: no dropout."""

    is_ours = True

    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__(pieces, dim, heads, hidden, layers)


def built_language(answer, course, sizes, seed, yours):
    """The answer's model with the same random parameters whoever wrote it.

    Models of mistakes differ from the course's in their methods alone: they take turns in one module, which is built once.
    """
    if inspect.isclass(answer) and "is_ours" in vars(answer):
        model = with_parameters(course, course, course.__name__, sizes, seed, yours)
        model.__class__ = answer
        return model
    return with_parameters(answer, course, course.__name__, sizes, seed, yours)


def run_masked(answer, seed, sizes, numbers, real):
    """Build the model: vectors and logits."""
    model = built_language(answer, MaskedLM, sizes, seed, "`vectors` and `forward` are yours")
    vectors = model.vectors(numbers, real)
    if isinstance(vectors, tuple | list):
        raise Wrong(
            f"`vectors` returned {a_thing(vectors)}: `self.encoder` gives vectors and weights, the vectors alone are asked for."
        )
    if vectors is None:
        raise Wrong("`vectors` returned nothing: it ends with `return`.")
    return vectors, model(numbers, real)


def language_case(generator, n, lengths, note, pieces=11, dim=6, heads=3, hidden=8, layers=1):
    seed, b = int(whole(generator, 10_000)), len(lengths)
    numbers, real = whole(generator, pieces, b, n), up_to(lengths, n)
    return Case((seed, (pieces, dim, heads, hidden, layers), numbers, real), note=note)


def language_cases(generator):
    return [
        language_case(generator, 5, (3, 5), "padding behind one text"),
        language_case(generator, 3, (2, 3, 1), "as many texts as pieces in each", dim=4, heads=2),
        language_case(generator, 4, (4, 4), "no padding"),
        language_case(generator, 6, (6, 2, 4), "dim as large as the text, and two layers", pieces=7, layers=2),
        language_case(generator, 2, (2,), "one text", dim=8, heads=2, hidden=5, pieces=5),
    ]


def masked_with(
    words=lambda self, numbers: self.words(numbers),
    mask=lambda real: real.unsqueeze(1),
    made=lambda self, x, mask: self.encoder(x, mask)[0],
    head=lambda self, x: x @ self.words.table.weight.T + self.bias,
):
    """The model with parts that can be replaced by wrong ones."""

    def vectors(self, numbers, real):
        return made(self, words(self, numbers), mask(real))

    def forward(self, numbers, real):
        return head(self, self.vectors(numbers, real))

    return type("MaskedLM", (MaskedLM,), {"vectors": vectors, "forward": forward, "is_ours": True})


def gradients_arrive(course, run, cases):
    """Every parameter learns as in the course's own model: by the gradient of all that came back."""

    def learn(answer, args, seed):
        """What came back, and the gradient of a fixed random mix of it for every parameter."""
        built = []

        def make(cls, *sizes):
            built.append(answer(*sizes))
            return built[0]

        results = run(type(course.__name__, (), {"__new__": make}), *args)
        mixer = torch.Generator().manual_seed(seed)
        total = sum((result * torch.randn(result.shape, generator=mixer)).sum() for result in results)
        if total.requires_grad:
            total.backward()
        return results, {name: parameter.grad for name, parameter in built[0].named_parameters()}

    def holds(answer, generator):
        args, seed = cases(generator)[0].args, int(whole(generator, 10_000))
        wanted, right = learn(course, args, seed)
        results, mine = learn(answer.answer, args, seed)
        for got, want in zip(results, wanted, strict=True):
            if got.shape != want.shape or not torch.allclose(got, want.to(got.dtype), rtol=1e-3, atol=1e-3):
                return  # wrong values are told as such
            if not got.requires_grad:
                raise Wrong(
                    "The values are right, but no gradient flows back: `detach`, `.data` or `torch.no_grad` cut it."
                )
        for name, want in right.items():
            got = torch.zeros_like(want) if mine[name] is None else mine[name]
            if not torch.allclose(got, want, rtol=1e-2, atol=1e-3 * (1 + float(want.abs().max()))):
                raise Wrong(
                    f"The values are right, but the gradient of `{name}` is not: part of the way to it is cut, by `detach`, "
                    "`.data` or `torch.no_grad`."
                )

    return holds


NOT_WIDENED = (
    "`self.encoder` needs the mask as (b, 1, n), the same for every piece that looks: `real.unsqueeze(1)`. As (b, n) its texts "
    "would be taken for pieces."
)

register(
    Exercise(
        id="7.5",
        cases=language_cases,
        call=run_masked,
        methods=("vectors", "forward"),
        output_names=("vectors", "logits"),
        tolerance=1e-3,
        properties=[gradients_arrive(MaskedLM, run_masked, language_cases)],
        mistakes=[
            mistake(
                masked_with(mask=lambda real: None),
                "`real` has no effect, so pieces look at padding: hand it to `self.encoder` as (b, 1, n).",
            ),
            mistake(masked_with(mask=lambda real: real), NOT_WIDENED),
            mistake(
                masked_with(mask=lambda real: ~real.unsqueeze(1)),
                "The mask is turned round: True is a piece that may be looked at.",
            ),
            mistake(
                masked_with(mask=lambda real: real.unsqueeze(2)),
                "The mask says who may look: it says at whom, (b, 1, n). Padding may look, nobody reads what it makes of it.",
            ),
            mistake(
                masked_with(mask=lambda real: causal_mask(real.size(1)) & real.unsqueeze(1)),
                "There is a causal mask: a blank is filled from both sides, so here every piece sees all real pieces.",
            ),
            mistake(
                masked_with(mask=lambda real: causal_mask(real.size(1))),
                "The mask is causal, and padding is ignored: here every piece sees all real pieces, `real.unsqueeze(1)`.",
            ),
            mistake(
                masked_with(words=lambda self, numbers: self.words.table(numbers)),
                "The bare table was used, without scale and positions: call `self.words(numbers)`.",
            ),
            mistake(
                masked_with(head=lambda self, x: x @ self.words.table.weight.T),
                "The bias is missing: each piece has one, `self.bias`. It learns how frequent the piece is.",
            ),
            mistake(
                masked_with(head=lambda self, x: x),
                "`forward` returned vectors: with the table, `self.words.table.weight` (pieces, dim), they become logits.",
            ),
            mistake(
                masked_with(head=lambda self, x: (x @ self.words.table.weight.T + self.bias).softmax(-1)),
                "`forward` returned probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                masked_with(head=lambda self, x: (x @ self.words.table.weight.T + self.bias).log_softmax(-1)),
                "`forward` returned log-probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                masked_with(head=lambda self, x: x[:, 0] @ self.words.table.weight.T + self.bias),
                "Only the first place got logits: every place does, (b, n, pieces). Which ones count is the loss's business.",
            ),
            mistake(
                masked_with(
                    head=lambda self, x: x @ self.words.table.weight.T * self.words.table.embedding_dim**0.5 + self.bias
                ),
                "The logits were scaled by the root of dim: on the way out the table is used as it is.",
            ),
            mistake(
                masked_with(made=lambda self, x, mask: x),
                "The blocks are missing: `self.encoder` stands between the words and the output.",
            ),
            mistake(
                masked_with(made=lambda self, x, mask: self.encoder(x, mask)),
                "`vectors` returned a tuple of 2: `self.encoder` gives vectors and weights, the vectors alone are asked for.",
            ),
            mistake(
                masked_with(made=lambda self, x, mask: self.encoder(x, mask)[0][:, 0]),
                "`vectors` returned one vector for each text: every piece has its own, (b, n, dim).",
            ),
        ],
        hints=[
            "`self.words(numbers)` gives (b, n, dim). `self.encoder(x, mask)` gives vectors and weights; you want the first.",
            "Its mask is `real.unsqueeze(1)`, (b, 1, n): all pieces may look at all real ones, before and behind.",
            "`forward`: each vector against each row of `self.words.table.weight`, (pieces, dim), plus `self.bias`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.6 the causal model
class CausalLM(language.CausalLM):
    """The reference as the lesson builds it: no dropout, and with the loss of the next piece."""

    is_ours = True

    def __init__(self, pieces, dim, heads, hidden, layers):
        super().__init__(pieces, dim, heads, hidden, layers)

    def loss(self, numbers, real):
        """One number: cross-entropy of the next piece, the mean over all next pieces that are real."""
        losses = F.cross_entropy(self(numbers)[:, :-1].transpose(1, 2), numbers[:, 1:], reduction="none")
        return losses[real[:, 1:]].mean()


def run_causal(answer, seed, sizes, numbers, real):
    """Build the model: logits and loss."""
    model = built_language(answer, CausalLM, sizes, seed, "`forward` and `loss` are yours")
    logits = model(numbers)
    if logits is None:
        raise Wrong("`forward` returned nothing: it ends with `return`.")
    if isinstance(logits, tuple | list):
        raise Wrong(f"`forward` returned {a_thing(logits)}: `self.encoder` gives vectors and weights, take the first.")
    return logits, model.loss(numbers, real)


def causal_with(
    mask=lambda numbers: causal_mask(numbers.size(1)),
    words=lambda self, numbers: self.words(numbers),
    head=lambda self, x: x @ self.words.table.weight.T + self.bias,
    asked=lambda logits: logits[:, :-1],
    answers=lambda numbers: numbers[:, 1:],
    counts=lambda real: real[:, 1:],
    mean=lambda losses, counts: losses[counts].mean(),
    loss=F.cross_entropy,
):
    """The model with parts that can be replaced by wrong ones."""

    def forward(self, numbers, real=None):
        return head(self, self.encoder(words(self, numbers), mask(numbers))[0])

    def total(self, numbers, real):
        losses = loss(asked(self(numbers)).transpose(1, 2), answers(numbers), reduction="none")
        return mean(losses, counts(real))

    return type("CausalLM", (CausalLM,), {"forward": forward, "loss": total, "is_ours": True})


def later_pieces_are_hidden(answer, generator):
    args = language_cases(generator)[0].args
    seed, sizes, numbers, real = args
    before, _ = answer(*args)
    other = torch.cat([numbers[:, :-1], (numbers[:, -1:] + 1) % sizes[0]], 1)
    after, _ = answer(seed, sizes, other, real)
    if not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-3):
        raise Wrong("The last piece changes the logits of those before it: the mask is `causal_mask(n)`.")


def padding_does_not_count(answer, generator):
    seed, sizes, numbers, real = language_cases(generator)[0].args
    _, before = answer(seed, sizes, numbers, real)
    _, after = answer(seed, sizes, torch.where(real, numbers, (numbers + 1) % sizes[0]), real)
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-4):
        raise Wrong("Another piece in the padding changes the loss: leave out the places where `real[:, 1:]` is False.")


SAME_PLACE = (
    "The loss asks for the piece that stands here, which the model sees: the logits at place i are for piece i + 1. Cut the last "
    "logits and the first piece: `logits[:, :-1]` against `numbers[:, 1:]`."
)

register(
    Exercise(
        id="7.6",
        cases=language_cases,
        call=run_causal,
        methods=("forward", "loss"),
        output_names=("logits", "loss"),
        tolerance=1e-3,
        properties=[
            later_pieces_are_hidden,
            padding_does_not_count,
            gradients_arrive(CausalLM, run_causal, language_cases),
        ],
        mistakes=[
            mistake(
                causal_with(mask=lambda numbers: None),
                "Every piece sees those behind it, so the next piece is no riddle: `causal_mask(n)` goes to `self.encoder`.",
            ),
            mistake(
                causal_with(mask=lambda numbers: causal_mask(numbers.size(1)).T),
                "The causal mask is transposed: row i says whom piece i may look at, `causal_mask(n)` as it is.",
            ),
            mistake(
                causal_with(mask=lambda numbers: causal_mask(numbers.size(1)).tril(-1)),
                "The pieces cannot see themselves: they may, it is the next one that must be hidden.",
            ),
            mistake(
                causal_with(mask=lambda numbers: causal_mask(numbers.size(0))),
                "The causal mask is as large as the batch: it is (n, n), n = `numbers.size(1)`.",
            ),
            mistake(
                causal_with(words=lambda self, numbers: self.words.table(numbers)),
                "The bare table was used, without scale and positions: call `self.words(numbers)`.",
            ),
            mistake(
                causal_with(head=lambda self, x: x @ self.words.table.weight.T),
                "The bias is missing: each piece has one, `self.bias`.",
            ),
            mistake(
                causal_with(head=lambda self, x: (x @ self.words.table.weight.T + self.bias).softmax(-1)),
                "`forward` returned probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                causal_with(head=lambda self, x: (x @ self.words.table.weight.T + self.bias).log_softmax(-1)),
                "`forward` returned log-probabilities: logits are wanted, the loss takes its own softmax.",
            ),
            mistake(
                causal_with(asked=lambda logits: logits, answers=lambda numbers: numbers, counts=lambda real: real),
                SAME_PLACE,
            ),
            mistake(
                causal_with(
                    asked=lambda logits: logits[:, 1:],
                    answers=lambda numbers: numbers[:, :-1],
                    counts=lambda real: real[:, :-1],
                ),
                "The shift goes the wrong way, and the loss asks for the piece before: `logits[:, :-1]` against `numbers[:, 1:]`.",
            ),
            mistake(
                causal_with(asked=lambda logits: logits[:, 1:]),
                "Logits and pieces are both cut at the front, so each place is asked for the piece that stands there: cut the last "
                "logits, `logits[:, :-1]`.",
            ),
            mistake(
                causal_with(
                    asked=lambda logits: logits,
                    answers=lambda numbers: numbers.roll(-1, 1),
                    counts=lambda real: real.roll(-1, 1),
                ),
                "The first piece is asked for behind the last one: nothing comes next there. Cut the last logits, "
                "`logits[:, :-1]`.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: losses.mean()),
                "Padding is part of the loss: the mean runs over the next pieces that are real, `losses[real[:, 1:]]`.",
            ),
            mistake(
                causal_with(counts=lambda real: real[:, :-1]),
                "The loss looks at whether the piece that asks is real: what counts is the next one, `real[:, 1:]`.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: (losses * counts).mean()),
                "Padding has no loss, but is counted in the mean: divide by the number of real next pieces.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: losses[counts].sum()),
                "That is the sum: the mean over the real next pieces is asked for.",
            ),
            mistake(
                causal_with(
                    mean=lambda losses, counts: ((losses * counts).sum(1) / counts.sum(1).clamp(min=1)).mean(),
                ),
                "First a mean in each text, then the mean of those, so a piece of a short text weighs more: one mean over all real "
                "next pieces.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: losses[counts].mean().exp()),
                "That is the perplexity: the loss is its logarithm, the mean cross-entropy itself.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: -losses[counts].mean()),
                "The loss has the wrong sign: minus the log-probability of the next piece.",
            ),
            mistake(
                causal_with(mean=lambda losses, counts: losses),
                "All losses came back: one number is asked for, the mean over the real next pieces.",
            ),
        ],
        hints=[
            "`forward` is that of the masked model with another mask: `causal_mask(n)`. Padding stands behind the text, where no real "
            "piece looks.",
            "`loss`: what place i says is compared with piece i + 1: `logits[:, :-1]` and `numbers[:, 1:]`.",
            "`F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')` is (b, n - 1); take the mean where `real[:, 1:]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.7 the next piece
def chances_cases(generator):
    """Fixed chances in random order, a little shaken: what each dial keeps is the same in every draw."""

    def one(chances, note, **dials):
        logits = torch.tensor(chances).log() + 0.02 * normal(generator, len(chances)) + normal(generator, 1)
        order = torch.randperm(len(chances), generator=generator)
        return Case((logits[order],), dials, note=note)

    five = (0.4, 0.3, 0.15, 0.1, 0.05)
    seven = (0.28, 0.22, 0.17, 0.13, 0.1, 0.07, 0.03)
    return [
        one(five, "no dial"),
        one(five, "a low temperature", temperature=0.5),
        one(seven, "a high temperature", temperature=2.0),
        one(seven, "top-k", top_k=3),
        one(five, "top-k of one", top_k=1),
        one(five, "top-k of more than there are", top_k=9),
        one(five, "top-p", top_p=0.76),
        one(five, "top-p below the likeliest", top_p=0.2),
        one(five, "top-p of all", top_p=1.0),
        one(five, "both, top-k first", top_k=3, top_p=0.8),
        one(five, "temperature and top-p", temperature=0.5, top_p=0.8),
        one(seven, "all three", temperature=2.0, top_k=5, top_p=0.7),
        one((*seven, *(0.01 for _ in range(12))), "many pieces", top_k=10, top_p=0.9),
        one((1.0,), "one piece alone", temperature=0.5, top_k=2, top_p=0.5),
    ]


def warmed(logits, temperature):
    return (logits / temperature).softmax(-1)


def keep_k(chances, k):
    """chances sorted, the largest first."""
    return torch.where(torch.arange(len(chances)) < k, chances, 0.0)


def keep_p(chances, p):
    return torch.where(chances.cumsum(0) - chances < p, chances, 0.0)


def to_one(chances):
    return chances / chances.sum()


def chances_with(warm=warmed, cut_k=keep_k, cut_p=keep_p, between=to_one, last=to_one, back=True):
    """The chances with parts that can be replaced by wrong ones."""

    def wrong(logits, temperature=1.0, top_k=None, top_p=None):
        chances, order = warm(logits, temperature).sort(descending=True)
        if top_k is not None:
            chances = between(cut_k(chances, top_k))
        if top_p is not None:
            chances = cut_p(chances, top_p)
        chances = last(chances)
        return torch.zeros_like(chances).scatter(0, order, chances) if back else chances

    return wrong


def p_before_temperature(logits, temperature=1.0, top_k=None, top_p=None):
    """Both cuts by the chances at temperature 1."""
    kept = next_distribution(logits, 1.0, top_k, top_p) > 0
    return to_one(warmed(logits, temperature) * kept)


def not_sorted(logits, temperature=1.0, top_k=None, top_p=None):
    """Top-p by the sums in the order of the pieces' numbers."""
    chances = next_distribution(logits, temperature, top_k)
    return chances if top_p is None else to_one(keep_p(chances, top_p))


def zero_logits(logits, temperature=1.0, top_k=None, top_p=None):
    """What is cut gets the logit 0, which is a chance like any other."""
    kept = next_distribution(logits, temperature, top_k, top_p) > 0
    return (logits / temperature).masked_fill(~kept, 0.0).softmax(-1)


A_PIECE = "A piece came back: the distribution is asked for, (pieces,). Who writes draws from it."

register(
    Exercise(
        id="7.7",
        cases=chances_cases,
        mistakes=[
            mistake(
                chances_with(warm=lambda logits, temperature: logits.softmax(-1)),
                "The temperature has no effect: divide the logits by it, before the softmax.",
            ),
            mistake(
                chances_with(warm=lambda logits, temperature: (logits * temperature).softmax(-1)),
                "The logits were multiplied by the temperature: divided, so that a low one makes the likely likelier.",
            ),
            mistake(
                chances_with(warm=lambda logits, temperature: logits.softmax(-1) / temperature),
                "The chances were divided by the temperature, which the sum undoes: divide the logits, before the softmax.",
            ),
            mistake(
                p_before_temperature,
                "The cuts were made before the temperature: first the temperature, then top-k, then top-p.",
            ),
            mistake(
                chances_with(cut_k=lambda chances, k: chances),
                "`top_k` has no effect: all but the k likeliest get the chance 0.",
            ),
            mistake(
                chances_with(cut_k=lambda chances, k: keep_k(chances.flip(0), k).flip(0)),
                "`top_k` kept the least likely: the largest stay.",
            ),
            mistake(
                chances_with(cut_k=lambda chances, k: keep_k(chances, k + 1)),
                "`top_k` kept one too many: k stay. With a threshold, compare with the k-th largest.",
            ),
            mistake(
                chances_with(cut_k=lambda chances, k: keep_k(chances, k - 1)),
                "`top_k` kept one too few: k stay, the k-th largest among them.",
            ),
            mistake(
                chances_with(cut_p=lambda chances, p: chances),
                "`top_p` has no effect: keep the fewest likeliest that have p between them.",
            ),
            mistake(
                chances_with(cut_p=lambda chances, p: torch.where(chances.cumsum(0) <= p + 1e-6, chances, 0.0)),
                "`top_p` leaves out the piece that reaches p, and keeps nothing at all if the likeliest has more than p: look at "
                "what the likelier ones *before* a piece have between them, `chances.cumsum(0) - chances`.",
            ),
            mistake(
                chances_with(
                    cut_p=lambda chances, p: torch.where(
                        (chances.cumsum(0) <= p + 1e-6) | (torch.arange(len(chances)) == 0), chances, 0.0
                    )
                ),
                "`top_p` leaves out the piece that reaches p: those that stay must have p between them, not less. Look at what the "
                "ones *before* a piece have, `chances.cumsum(0) - chances`.",
            ),
            mistake(
                chances_with(
                    cut_p=lambda chances, p: torch.where(
                        chances.cumsum(0) - chances - chances.roll(1) < p, chances, 0.0
                    )
                ),
                "`top_p` kept one too many: as soon as those before it have p between them, a piece goes.",
            ),
            mistake(
                chances_with(cut_p=lambda chances, p: torch.where(chances >= p, chances, 0.0)),
                "`top_p` was taken for the least chance of a piece: it is what those that stay have between them.",
            ),
            mistake(
                chances_with(cut_p=lambda chances, p: torch.where(chances >= 1 - p, chances, 0.0)),
                "`top_p` was made a least chance, 1 - p: it is what those that stay have between them.",
            ),
            mistake(
                not_sorted,
                "`top_p` added up the chances in the order of the pieces' numbers: sort them first, the largest in front.",
            ),
            mistake(
                chances_with(cut_p=lambda chances, p: keep_p(chances.flip(0), p).flip(0)),
                "`top_p` began with the least likely: sort with `descending=True`.",
            ),
            mistake(
                chances_with(between=lambda chances: chances),
                "With both dials too many were kept: top-k cuts first, what stays is brought back to the sum 1, and top-p looks at that.",
            ),
            mistake(
                chances_with(between=lambda chances: chances, last=lambda chances: chances),
                "The chances that stay do not sum to 1: divide them by their sum.",
            ),
            mistake(
                chances_with(last=lambda chances: chances),
                "After top-p the chances do not sum to 1: divide them by their sum once more.",
            ),
            mistake(
                chances_with(back=False),
                "The chances are still sorted: put each back to its piece, `torch.zeros_like(chances).scatter(0, order, chances)`.",
            ),
            mistake(
                chances_with(last=lambda chances: to_one(chances).log()),
                "Logarithms came back: the chances themselves are asked for.",
            ),
            mistake(
                zero_logits,
                "What was cut got the logit 0, which is a chance like any other: minus infinity makes it 0.",
            ),
            mistake(
                lambda logits, temperature=1.0, top_k=None, top_p=None: logits / temperature,
                "Logits came back: the chances are asked for, their softmax.",
            ),
            mistake(
                lambda logits, temperature=1.0, top_k=None, top_p=None: next_distribution(
                    logits, temperature, top_k, top_p
                ).argmax(),
                A_PIECE,
            ),
            mistake(
                lambda logits, temperature=1.0, top_k=None, top_p=None: torch.multinomial(
                    next_distribution(logits, temperature, top_k, top_p), 1
                ),
                A_PIECE,
            ),
        ],
        hints=[
            "`(logits / temperature).softmax(-1)`, then `chances, order = chances.sort(descending=True)`: both cuts are easy there.",
            "top-k: `chances[top_k:] = 0`, then divide by the sum. top-p: `before = chances.cumsum(0) - chances` is what the likelier "
            "ones have; 0 where it is `>= top_p`, and divide again.",
            "`torch.zeros_like(chances).scatter(0, order, chances)` puts each chance back to its piece.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="7.a",
        question="'Masked language model': what is masked in it that is not masked in the causal one?",
        options=[
            (
                "The scores: a triangle of minus infinity hides what comes next.",
                "That mask makes a model causal. The masked model sees both sides.",
            ),
            (
                "The text: some pieces are replaced before the model sees it. Nobody's look is restricted.",
                "A mask over scores says who may look at whom; a [MASK] in the text is a piece like any other.",
            ),
            (
                "The embeddings: those of some pieces are set to zero.",
                "A [MASK] has a vector of its own, which is learned.",
            ),
            (
                "The loss: it is zero at most places.",
                "True, but that alone would hide nothing.",
            ),
        ],
        right=1,
        explanation="Same blocks: the masked model looks both ways, the causal one back.",
    )
)
register_quiz(
    Quiz(
        id="7.b",
        question="Of the chosen pieces 80 % become [MASK], 10 % a random piece, and 10 % stay as they are, though their answer is in plain "
        "sight. What are those for?",
        options=[
            (
                "They make the task easier at the beginning.",
                "The share stays the same throughout.",
            ),
            (
                "They keep the loss from being too high.",
                "Nothing is gained by answers that cost little.",
            ),
            (
                "They are an oversight, kept for tradition.",
                "The BERT paper tried other shares, and little changed. But there was a reason.",
            ),
            (
                "Later there is no [MASK]: the model must make something of ordinary pieces, too, and not trust them blindly.",
                "If only [MASK] were asked about, all other vectors could be anything.",
            ),
        ],
        right=3,
        explanation="Unchanged pieces teach it to stand for what is there; random ones, to check that.",
    )
)
register_quiz(
    Quiz(
        id="7.c",
        question="You train an encoder that sees both sides on the next piece: the logits at place i against piece i + 1. What happens?",
        options=[
            (
                "The loss falls to almost nothing, and it is of no use for writing.",
                "It learns to copy from the place to its right. When it writes, there is nothing there.",
            ),
            (
                "It learns more, since it sees more.",
                "It sees the very piece that it is asked for.",
            ),
            (
                "It cannot run: the shapes do not fit.",
                "Every shape fits. That is what makes the mistake dangerous.",
            ),
            (
                "Nothing changes: attention learns by itself not to look ahead.",
                "It looks wherever looking lowers the loss, and nothing lowers it as much as the answer.",
            ),
        ],
        right=0,
        explanation="A loss that is too good is the first sign of a leak. With both sides open, the answer itself must be taken out of the text: "
        "that is what [MASK] is for.",
    )
)
register_quiz(
    Quiz(
        id="7.d",
        question="Model A has perplexity 40 with 2,000 pieces, model B has 60 with 8,000 pieces, on the same text. Which one predicts the text better?",
        options=[
            (
                "A: lower is better.",
                "Per piece. But A's pieces are most likely shorter, so it needs more of them for the same text.",
            ),
            (
                "B: it has more to choose from, so 60 is harder earned.",
                "Likely, but not certain: it depends on how many pieces each of them needs.",
            ),
            (
                "Cannot be said: perplexity is per piece, and their pieces differ. Compare bits per character.",
                "The total of all log-probabilities, divided by something both agree on: characters.",
            ),
            (
                "Both are alike once each is divided by its number of pieces in the vocabulary.",
                "The size of the vocabulary is not what matters: it is how many pieces the text is cut into.",
            ),
        ],
        right=2,
        explanation="With one piece for each character A could have perplexity 4 and be the worst of all. Between tokenizers only a measure per "
        "character, or per word of one fixed splitting, is fair.",
    )
)
