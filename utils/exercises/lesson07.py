"""Lesson 07: its exercises with common mistakes, and its guess-first questions."""

import random

import torch

from utils.checks.compare import Case, Wrong, a_thing
from utils.data.bpe import CLS_ID, MASK_ID, SPECIAL_TOKENS, merge
from utils.data.bpe import bpe_split as split_by_rank
from utils.exercises.common import built_module, integers, length_mask, normal
from utils.exercises.edits import BODY, mistake
from utils.exercises.quiz import Quiz, register_quiz
from utils.exercises.registry import Exercise, register
from utils.exercises.solutions import lesson07 as solved
from utils.training.trainer import IGNORE_INDEX


def dice(generator):
    """A `random.Random`, for words and lists."""
    return random.Random(int(integers(generator, 2**31)))


# ---------------------------------------------------------------------------------------------- 7.1 byte-pair merges
FIRST_ONLY = (
    'next((tokens[:i] + ["".join({0})] + tokens[i + 2 :] for i, p in enumerate(pairwise(tokens)) if p == {0}), tokens)'
)
AS_TEXT = '" ".join(tokens).replace(" ".join({0}), "".join({0})).split(" ")'
FROM_THE_RIGHT = "[p[::-1] for p in merge([p[::-1] for p in tokens[::-1]], tuple(p[::-1] for p in {0}[::-1]))][::-1]"


def some_words(draw, letters="abcde", many=9):
    """Random words with their counts."""
    words = ("".join(draw.choices(letters, k=draw.randint(1, 5))) for _ in range(many))
    return {word: draw.randint(1, 9) for word in words}


def words_without_traps(draw):
    """Random words in which replacing text does what merging tokens does: elsewhere the outcome depends on how it is written."""
    while True:
        words = some_words(draw)
        split, same = [list(word) for word in words], True
        for pair in solved.bpe_merges(words, 6):
            as_text = [" ".join(tokens).replace(" ".join(pair), "".join(pair)).split(" ") for tokens in split]
            split = [merge(tokens, pair) for tokens in split]
            same = same and split == as_text
        if same:
            return words


def merges_cases(generator):
    draw = dice(generator)

    def case(counts, num_merges, note, factor=None):
        """A common factor changes no merge."""
        factor = factor or draw.randint(1, 4)
        return Case(({word: factor * count for word, count in counts.items()}, num_merges), note=note)

    return [
        case({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 6, "a small corpus"),
        case({"xa": 20, "ab": 10, "xab": 3, "ba": 1}, 4, "the end of one token is the start of a pair", factor=1),
        case({"cd": 4, "ax": 4, "ab": 4}, 3, "pairs that occur equally often"),
        case({"ab": 9, "abz": 2, "bc": 2}, 3, "a tie between a character and a new token"),
        case({"xy": 9, "ab": 7, "xyc": 2, "abc": 2, "zxy": 1, "zab": 1}, 6, "ties between new tokens"),
        case({"aaaa": 3, "bc": 8, "aabaa": 1}, 4, "one letter several times"),
        case({"aaab": 3, "cd": 5}, 4, "a run of three letters"),
        case({"abab": 4, "ab": 1, "c": 7}, 2, "a pair twice in a word"),
        case({"ab": 3, "c": 2}, 5, "no pair is left"),
        case(words_without_traps(draw), 6, "random words"),
    ]


BEST = "max(pairs, key=lambda p: (pairs[p], -vocab.index(p[0]), -vocab.index(p[1])))"
COUNT = (
    "for word, tokens in split.items():\n        for pair in pairwise(tokens):\n            pairs[pair] += counts[word]"
)
COUNTED_ONCE = "The pairs were counted only once, before the first merge. Count them again after every merge."
SMALLER_ID = "The smaller id wins: characters by code point, then new tokens in the order of their creation."

register(
    Exercise(
        id="7.1",
        cases=merges_cases,
        mistakes=[
            mistake("+= counts[word]", "+= 1", "Each word was counted once. Add `counts[word]` for each of its pairs."),
            mistake(
                BODY,
                """
                pairs = Counter()
                for word, count in counts.items():
                    for pair in pairwise(word):
                        pairs[pair] += count
                return sorted(pairs, key=lambda p: (-pairs[p], p))[:num_merges]
                """,
                COUNTED_ONCE,
            ),
            mistake(
                BODY,
                """
                pairs = Counter()
                for word, count in counts.items():
                    for pair in pairwise(word):
                        pairs[pair] += count
                return [pair for pair, _ in pairs.most_common(num_merges)]
                """,
                COUNTED_ONCE,
            ),
            mistake("merge(tokens, best)", "tokens", "The best pair is never merged. Call `merge` on every word."),
            mistake(BEST, "max(pairs, key=pairs.get)", f"Ties went to the pair counted first. {SMALLER_ID}"),
            mistake(", -vocab.index(p[1])", "", f"With equal left tokens, the pair counted first won. {SMALLER_ID}"),
            mistake(BEST, "min(pairs, key=lambda p: (-pairs[p], p))", f"Ties were broken alphabetically. {SMALLER_ID}"),
            mistake(
                'vocab.append("".join(best))',
                'vocab = sorted([*vocab, "".join(best)], key=lambda token: (len(token) > 1, token))',
                "New tokens were ranked alphabetically. Rank them by creation: `append`.",
            ),
            mistake(
                "-vocab.index(p[0]), -vocab.index(p[1])",
                "p",
                f"Ties went to the last pair of the alphabet. {SMALLER_ID}",
            ),
            mistake(
                "merge(tokens, best)",
                FIRST_ONLY.format("best"),
                "Only the first occurrence was merged. `merge` merges all occurrences.",
            ),
            mistake(
                "merge(tokens, best)",
                FROM_THE_RIGHT.format("best"),
                "Pairs were merged from right to left. Merge from left to right, as `merge` does.",
            ),
            mistake(
                "merge(tokens, best)",
                AS_TEXT.format("best"),
                "`str.replace` finds 'a b' in 'xa b'. Compare whole tokens, as `merge` does.",
            ),
            mistake(
                COUNT,
                "pairs.update(pairwise([p for word, tokens in split.items() for _ in range(counts[word]) for p in tokens]))",
                "Pairs were counted across word boundaries. Count them within each word.",
            ),
            mistake(
                "for pair in pairwise(tokens):",
                "for pair in set(pairwise(tokens)):",
                "A pair that occurs several times in a word was counted once. Count every occurrence: `pairwise(tokens)`.",
            ),
            mistake(
                COUNT,
                "for word, tokens in split.items():\n        last = None\n        for pair in pairwise(tokens):\n"
                "            last = None if pair == last else pair\n            pairs[pair] += counts[word] * (last is not None)",
                "Overlapping pairs were counted once, but 'a a a' contains (a, a) twice. Count all of `pairwise(tokens)`.",
            ),
            mistake(
                'sorted(set("".join(counts)))',
                'list(dict.fromkeys("".join(counts)))',
                "Characters were ranked by their first occurrence. They get their ids in code-point order: `sorted`.",
            ),
            mistake(
                "if not pairs:\n        break\n    ", "", "It fails when no pair is left. Return the merges so far."
            ),
            mistake(
                "if not pairs:",
                "if not pairs or max(pairs.values()) == 1:",
                "It stopped at pairs that occur once. Continue while there are pairs.",
            ),
            mistake("< num_merges:", "<= num_merges:", "It returned one merge too many. Stop at `num_merges`."),
            mistake("< num_merges:", "< num_merges - 1:", "The last merge is missing. Return `num_merges` merges."),
            mistake(
                "return merges",
                'return ["".join(pair) for pair in merges]',
                "It returned merged tokens. Return pairs, such as `('l', 'o')`.",
            ),
            mistake(
                "return merges", "return merges[::-1]", "The merges are in reverse order. Return the first one first."
            ),
        ],
        hints=[
            "Keep the tokens of every word: `split = {word: list(word) for word in counts}`. In a loop, count all pairs with `pairwise(tokens)`, each `counts[word]` times.",
            "Keep a list `vocab` that starts with the sorted characters and gets each new token at its end. The best pair is `max(pairs, key=lambda p: (pairs[p], -vocab.index(p[0]), -vocab.index(p[1])))`.",
            "Then call `merge(tokens, best)` on every word. The loop ends after `num_merges` merges, or when there are no pairs.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.2 split a word
def run_split(answer, word, merges):
    before = list(merges)
    result = answer(word, merges)
    if merges != before:
        raise Wrong(
            "It changed the list `merges`, which the next word needs too. Loop over it, without `pop` or `remove`."
        )
    return result


def split_cases(generator):
    draw = dice(generator)
    learned = solved.bpe_merges({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 9)
    cases = [
        Case(("lowest", learned), note="a word that was not in the corpus"),
        Case(("cab", [("x", "y"), ("a", "b")]), note="the first merge does not apply"),
        Case(("stew", learned[:5]), note="few merges"),
        Case(("abc", [("b", "c"), ("a", "b"), ("ab", "c")]), note="the pair on the right was learned first"),
        Case(("abcd", [("a", "b"), ("c", "d"), ("b", "c"), ("abc", "d")]), note="a long token that cannot be reached"),
        Case(("xabab", [("x", "a"), ("a", "b"), ("b", "ab")]), note="the end of one token is the start of a pair"),
        Case(("ababab", [("a", "b"), ("ab", "ab")]), note="one pair several times"),
        Case(("aaaaa", [("a", "a"), ("aa", "a")]), note="one letter several times"),
        Case(("q", learned), note="one letter"),
        Case(("zyx", learned), note="letters that no merge contains"),
        Case(("low", []), note="no merges"),
    ]
    while len(cases) < 14:
        merges = solved.bpe_merges(some_words(draw), 7)
        word = "".join(draw.choices("abcde", k=draw.randint(4, 8)))
        # By rank, as libraries do, is as correct; in rare words it differs.
        if split_by_rank(word, merges) == solved.bpe_split(word, merges):
            cases.append(Case((word, merges), note="random words"))
    return cases


LEFT_FIRST = "The leftmost pair was merged first. Apply the merges in the order in which they were learned."

register(
    Exercise(
        id="7.2",
        cases=split_cases,
        call=run_split,
        mistakes=[
            mistake(
                BODY,
                """
                tokens = list(word)
                while known := [pair for pair in pairwise(tokens) if pair in merges]:
                    tokens = merge(tokens, known[0])
                return tokens
                """,
                LEFT_FIRST,
            ),
            mistake(
                BODY,
                f"""
                tokens = list(word)
                while known := [pair for pair in pairwise(tokens) if pair in merges]:
                    tokens = {FIRST_ONLY.format("known[0]")}
                return tokens
                """,
                LEFT_FIRST,
            ),
            mistake("in merges:", "in merges[::-1]:", "The merges were applied in reverse. Start with the first."),
            mistake(
                BODY,
                """
                known, tokens = {"".join(pair) for pair in merges}, []
                while word:
                    size = next(size for size in range(len(word), 0, -1) if size == 1 or word[:size] in known)
                    tokens.append(word[:size])
                    word = word[size:]
                return tokens
                """,
                "It took the longest known token, as WordPiece does. Apply the merges in order.",
            ),
            mistake(
                BODY,
                """
                rank, tokens = {"".join(pair): -i for i, pair in enumerate(merges[::-1])}, list(word)
                while known := [pair for pair in pairwise(tokens) if "".join(pair) in rank]:
                    tokens = merge(tokens, min(known, key=lambda pair: rank["".join(pair)]))
                return tokens
                """,
                "Any pair that spells a known token was merged. Merge only the listed pairs.",
            ),
            mistake(
                "merge(tokens, pair)",
                FIRST_ONLY.format("pair"),
                "Each merge was applied once per word. `merge` merges all occurrences.",
            ),
            mistake(
                "merge(tokens, pair)",
                AS_TEXT.format("pair"),
                "`str.replace` finds 'a b' in 'xa b'. Compare whole tokens, as `merge` does.",
            ),
            mistake(
                "tokens = merge(tokens, pair)",
                "if pair not in pairwise(tokens):\n        break\n    tokens = merge(tokens, pair)",
                "It stopped at the first merge that does not apply. Continue with the next.",
            ),
            mistake(
                "tokens = merge(tokens, pair)",
                "merge(tokens, pair)",
                "No merge had an effect. `merge` returns a new list: assign it.",
            ),
            mistake(BODY, "return merge(list(word), merges[0])", "Only the first merge was applied. Loop over all."),
            mistake("return tokens", 'return " ".join(tokens)', "It returned one string. Return the list of tokens."),
            mistake(
                "return tokens", "return tokens[::-1]", "The tokens are in reverse order. Keep the order of the word."
            ),
            mistake(
                "return tokens",
                "return [token for token in tokens if len(token) > 1]",
                "Single letters are missing. They are tokens, too.",
            ),
        ],
        hints=[
            "Start with the letters, `list(word)`.",
            "Do what training did: apply the first merge everywhere in the word, then the second, and so on.",
            "`tokens = merge(tokens, pair)` for each pair in `merges`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.3 masked tokens
VOCAB_SIZE = 100
# What the check says of a mistake, however the answer draws its random numbers, and the edit of the solution that makes it.
CHOICE, DRAW = (
    "(torch.rand(token_ids.shape, generator=generator) <",
    "draw = torch.rand(token_ids.shape, generator=generator)",
)
TARGETS = "torch.where(chosen, token_ids, IGNORE_INDEX)"
MASKING = {
    "in place": (
        "It changed `token_ids` in place, but the targets need the original ids. Work on `token_ids.clone()`.",
        "inputs = torch.where(chosen & (draw < 0.8), mask_id, token_ids)",
        "inputs = token_ids.masked_fill_(chosen & (draw < 0.8), mask_id)",
    ),
    "padding": ("Padding was chosen. Restrict the choice to tokens: `& attention_mask`.", "attention_mask & (", "("),
    "special": (
        "Special tokens such as [CLS] were chosen. Restrict the choice: `& (token_ids >= len(SPECIAL_TOKENS))`.",
        *(" & (token_ids >= len(SPECIAL_TOKENS))", ""),
    ),
    "one draw for all texts": (
        "The same positions were chosen in every text. Draw one random number per token: `torch.rand(token_ids.shape, ...)`.",
        *(CHOICE, CHOICE.replace("shape", "shape[1]")),
    ),
    "one draw for a text": (
        "Whole texts were chosen. Draw one random number per token: `torch.rand(token_ids.shape, ...)`.",
        *(CHOICE, CHOICE.replace("token_ids.shape", "len(token_ids), 1")),
    ),
    "inverted choice": (
        "The choice is inverted. A token is chosen where the random number is *below* `mask_prob`.",
        *("< mask_prob", "> mask_prob"),
    ),
    "targets from inputs": (
        "The targets are the masked inputs. Take the original ids, from `token_ids`.",
        *(TARGETS, "torch.where(chosen, inputs, IGNORE_INDEX)"),
    ),
    "inverted targets": (
        "The targets are inverted. They are `token_ids` where chosen and `IGNORE_INDEX` elsewhere.",
        *(TARGETS, "torch.where(chosen, IGNORE_INDEX, token_ids)"),
    ),
    "targets everywhere": (
        "Every position has a target. Set it to `IGNORE_INDEX` where not chosen: copying visible tokens teaches nothing.",
        *(TARGETS, "token_ids"),
    ),
    "target 0": (
        "Positions that were not chosen have target 0, a token like any other for the loss. Use `IGNORE_INDEX`.",
        *(TARGETS, "torch.where(chosen, token_ids, 0)"),
    ),
    "all masked": (
        "Every chosen token became [MASK]. 80 % do; 10 % become a random token and 10 % stay.",
        *(DRAW, "draw = torch.zeros(token_ids.shape)"),
    ),
    "none random": (
        "No chosen token became a random one. 80 % become [MASK], 10 % a random token, and 10 % stay.",
        *("random_ids, inputs", "inputs, inputs"),
    ),
    "none kept": (
        "No chosen token stayed unchanged. 80 % become [MASK], 10 % a random token, and 10 % stay.",
        *(" & (draw < 0.9)", ""),
    ),
    "no generator": (
        "Two generators in the same state gave different results. Pass `generator=generator` to every draw.",
        *(DRAW, "draw = torch.rand(token_ids.shape)"),
    ),
}


def wrong(name):
    """The error for a mistake in `MASKING`."""
    return Wrong(MASKING[name][0])


def random_texts(generator, b, n, vocab_size):
    """Token ids (b, n) with special tokens among them, and the attention mask; padding has the id of any token."""
    token_ids = integers(generator, vocab_size, b, n, low=len(SPECIAL_TOKENS))
    token_ids[:, 0] = CLS_ID
    special_ids = torch.tensor([token for token in range(len(SPECIAL_TOKENS)) if token != MASK_ID])
    special = torch.rand(b, n, generator=generator) < 0.05
    token_ids[special] = special_ids[integers(generator, len(special_ids), b, n)][special]
    lengths = integers(generator, n + 1, b, low=n // 2)
    return token_ids, torch.arange(n) < lengths.unsqueeze(1)


def mask_cases(generator):
    def case(b, n, mask_prob, note, vocab_size=VOCAB_SIZE):
        draws = torch.Generator().manual_seed(int(integers(generator, 2**31)))
        return Case((*random_texts(generator, b, n, vocab_size), MASK_ID, vocab_size, mask_prob, draws), note=note)

    return [
        case(100, 40, 0.0, "mask_prob 0"),
        case(100, 48, 1.0, "mask_prob 1"),
        case(256, 64, 0.15, "many texts"),
        case(200, 64, 0.4, "many texts, and a larger mask_prob"),
        case(1, 12_000, 1.0, "one long text, a small vocabulary, and mask_prob 1", vocab_size=len(SPECIAL_TOKENS) + 25),
    ]


def run_mask(answer, token_ids, attention_mask, mask_id, vocab_size, mask_prob, generator):
    """Check properties that hold for every correct answer, whatever it draws."""
    given, before = token_ids.clone(), generator.get_state()
    result = answer(token_ids, attention_mask, mask_id, vocab_size, mask_prob, generator)
    if not torch.equal(given, token_ids):
        raise wrong("in place")
    inputs, targets, chosen = three_tensors(result, token_ids.shape)
    require_choice(chosen, given, attention_mask, mask_prob)
    require_targets(targets, inputs, given, chosen)
    require_replacements(inputs, given, chosen, mask_id, vocab_size, mask_prob)
    if chosen.any():
        require_the_generator(answer, result, (token_ids, attention_mask, mask_id, vocab_size, mask_prob), before)
    return True


def three_tensors(result, shape):
    if not isinstance(result, tuple | list) or len(result) != 3:
        raise Wrong(f"It returned {a_thing(result)}. Return three tensors: inputs, targets and chosen.")
    for part, name in zip(result, ("inputs", "targets", "chosen"), strict=True):
        if not isinstance(part, torch.Tensor) or part.shape != shape:
            raise Wrong(f"`{name}` is {a_thing(part)}. Return a tensor of the shape of `token_ids`, {tuple(shape)}.")
        wanted = torch.bool if name == "chosen" else torch.long
        if part.dtype != wanted:
            kinds = [f"{kind}".removeprefix("torch.") for kind in (part.dtype, wanted)]
            raise Wrong(
                f"`{name}` has dtype {kinds[0]}, expected {kinds[1]}. Return inputs, targets, chosen, in this order."
            )
    return result


def fraction(part, whole):
    """The fraction of the True positions of `whole` that are True in `part`."""
    return float((part & whole).sum()) / max(1, int(whole.sum()))


def require_choice(chosen, token_ids, attention_mask, mask_prob):
    ordinary = attention_mask & (token_ids >= len(SPECIAL_TOKENS))
    if (chosen & ~attention_mask).any():
        raise wrong("padding")
    if (chosen & ~ordinary).any():
        raise wrong("special")
    chosen_fraction = fraction(chosen, ordinary)
    if mask_prob in (0.0, 1.0) and chosen_fraction == mask_prob:
        return
    if 0 < mask_prob < 1 and chosen.any():
        for axis in (0, 1):
            count, total = chosen.sum(axis), ordinary.sum(axis)
            if ((count == 0) | (count == total)).all():
                raise wrong("one draw for all texts" if axis == 0 else "one draw for a text")
        if abs(chosen_fraction - mask_prob) < 0.03:
            return
    if not chosen.any():
        raise Wrong(f"Nothing was chosen although `mask_prob` is {mask_prob}. Compare `torch.rand(...) < mask_prob`.")
    if mask_prob == 1 and (token_ids[ordinary & ~chosen] == len(SPECIAL_TOKENS)).all():
        raise Wrong(
            f"The token with id {len(SPECIAL_TOKENS)} is never chosen. Ordinary ids start there: `token_ids >= len(SPECIAL_TOKENS)`."
        )
    if abs(chosen_fraction - (1 - mask_prob)) < 0.03:
        raise wrong("inverted choice")
    if abs(chosen_fraction - 0.15) < 0.03:
        raise Wrong("`mask_prob` has no effect: 15 % were chosen. Use the argument.")
    for share, what in ((0.8, "became [MASK]"), (0.9, "were replaced")):
        if abs(chosen_fraction - share * mask_prob) < 0.03:
            raise Wrong(
                f"`chosen` holds only the tokens that {what}. Include those left unchanged: they have targets, too."
            )
    raise Wrong(
        f"{chosen_fraction:.0%} of the ordinary tokens were chosen, but `mask_prob` is {mask_prob:.0%}. Choose each with probability `mask_prob`."
    )


def require_targets(targets, inputs, token_ids, chosen):
    if not chosen.any():  # with mask_prob 0 mistakes cannot be distinguished
        return
    if not torch.equal(targets[chosen], token_ids[chosen]):
        if torch.equal(targets[chosen], inputs[chosen]):
            raise wrong("targets from inputs")
        if (targets[chosen] == IGNORE_INDEX).all():
            raise wrong("inverted targets")
        if (targets[chosen] == IGNORE_INDEX).any():
            raise Wrong("Some chosen tokens have no target. Those left unchanged need one, too.")
        raise Wrong("The targets at chosen positions are not the original tokens. Take them from `token_ids`.")
    unchosen = targets[~chosen]
    if torch.equal(unchosen, token_ids[~chosen]):
        raise wrong("targets everywhere")
    if (unchosen == 0).all():
        raise wrong("target 0")
    if (unchosen != IGNORE_INDEX).any():
        raise Wrong("Targets that are not chosen must be `IGNORE_INDEX` (-100), which `cross_entropy` ignores.")


def require_replacements(inputs, token_ids, chosen, mask_id, vocab_size, mask_prob):
    if not torch.equal(inputs[~chosen], token_ids[~chosen]):
        raise Wrong("Tokens that were not chosen have changed. `inputs` differs from `token_ids` only where chosen.")
    if int(chosen.sum()) < 500:
        return
    masked, kept = chosen & (inputs == mask_id), chosen & (inputs == token_ids)
    replaced = chosen & ~masked & ~kept
    require_80_10_10(*(fraction(part, chosen) for part in (masked, replaced, kept)), mask_prob)
    drawn = inputs[replaced]
    advice = "Draw them with `torch.randint(len(SPECIAL_TOKENS), vocab_size, ...)`, which excludes its upper end."
    low, high = int(drawn.min()), int(drawn.max())
    if low < len(SPECIAL_TOKENS) or high >= vocab_size:
        raise Wrong(
            f"The random tokens run from {low} to {high}, not from {len(SPECIAL_TOKENS)} to {vocab_size - 1}. {advice}"
        )
    if len(drawn) > 14 * (vocab_size - len(SPECIAL_TOKENS)) and (low > len(SPECIAL_TOKENS) or high < vocab_size - 1):
        raise Wrong(
            f"The random tokens run only from {low} to {high}, not from {len(SPECIAL_TOKENS)} to {vocab_size - 1}. {advice}"
        )
    if low == high:
        raise Wrong("The same random token was used everywhere. Draw one per position, of the shape of `token_ids`.")
    middle = (len(SPECIAL_TOKENS) + vocab_size) / 2
    if not 0.2 < float((drawn > middle).float().mean()) < 0.8 or len(drawn.unique()) < 20:
        raise Wrong(f"The random tokens are not uniform over the ordinary ones. {advice}")


def require_80_10_10(masked, replaced, kept, mask_prob):
    """masked, replaced, kept: fractions of the chosen tokens."""
    if abs(masked - 0.8) < 0.04 and abs(replaced - 0.1) < 0.04 and abs(kept - 0.1) < 0.04:
        return
    fractions, expected = (
        f"{masked:.0%} became [MASK], {replaced:.0%} another token, {kept:.0%} stayed",
        "80 %, 10 % and 10 %",
    )
    if masked > 0.99 and mask_prob < 1:  # a draw below 0.8 in any case: with mask_prob 1 it is not
        raise Wrong(
            "Every chosen token became [MASK]. Draw again for 80/10/10: the draw that chose a token is always below `mask_prob`."
        )
    if masked > 0.99:
        raise wrong("all masked")
    if abs(masked - 0.8) < 0.04 and replaced < 0.005:
        raise wrong("none random")
    if abs(masked - 0.8) < 0.04 and kept < 0.02:
        raise wrong("none kept")
    if abs(masked - 0.8) < 0.04 and replaced < 0.04:
        raise Wrong(
            f"Of the chosen, {fractions}: that is 10 % of the remaining 20 %. Replace 10 % of all chosen, half of the rest."
        )
    if abs(masked - 0.72) < 0.03 and abs(replaced - 0.1) < 0.04:
        raise Wrong(
            f"Of the chosen, {fractions}: random tokens overwrote masks. Use one draw: below 0.8 [MASK], from 0.8 to 0.9 random."
        )
    raise Wrong(f"Of the chosen, {fractions}. Expected {expected}.")


def require_the_generator(answer, result, args, before):
    """The same generator gives the same result and another a different one, whatever torch's global random state is."""

    def again(state):
        torch.default_generator.manual_seed(torch.initial_seed() + 1)
        return answer(*args, torch.Generator().set_state(state))

    other_state = torch.Generator().manual_seed(123_456_789).get_state()
    if not all(map(torch.equal, again(before), result)):
        raise wrong("no generator")
    if all(map(torch.equal, again(other_state), result)) and args[0].numel() > 1000:
        raise Wrong("Another generator gives the same choice. Do not set a seed: draw with `generator=generator`.")


register(
    Exercise(
        id="7.3",
        cases=mask_cases,
        call=run_mask,
        mistakes=[mistake(old, new, message) for message, old, new in MASKING.values()],
        hints=[
            "`torch.rand(token_ids.shape, generator=generator) < mask_prob` chooses; `& attention_mask` and `& (token_ids >= len(SPECIAL_TOKENS))` exclude padding and special tokens.",
            "A second draw decides what happens to a chosen token: below 0.8 `mask_id`, from 0.8 to 0.9 a token of `torch.randint(len(SPECIAL_TOKENS), vocab_size, token_ids.shape, generator=generator)`, else unchanged.",
            "`torch.where(chosen & (draw < 0.8), mask_id, token_ids)` makes a new tensor. Targets: `torch.where(chosen, token_ids, IGNORE_INDEX)`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.4 span corruption
def run_spans(answer, token_ids, spans, sentinel_ids):
    before = list(token_ids)
    result = answer(token_ids, spans, sentinel_ids)
    if token_ids != before:
        raise Wrong("It changed its input `token_ids` in place. Build new lists, or work on a copy, `list(token_ids)`.")
    return result


def span_cases(generator):
    draw = dice(generator)

    def case(n, spans, note, num_sentinels=6):
        return Case((draw.sample(range(100, 1000), n), spans, draw.sample(range(5, 21), num_sentinels)), note=note)

    borders = sorted(draw.sample(range(17), 6))
    return [
        case(7, [(1, 3), (5, 6)], "two spans"),
        case(6, [(0, 2)], "the text begins with a span"),
        case(6, [(3, 6)], "the text ends with a span"),
        case(8, [(1, 3), (3, 5)], "adjacent spans"),
        case(9, [(0, 1), (3, 6), (8, 9)], "three spans, at both ends", num_sentinels=4),
        case(5, [], "no span"),
        case(16, list(zip(borders[::2], borders[1::2], strict=True)), "random spans"),
    ]


TARGET, SPAN, WITH_SENTINEL = (
    "target + [sentinel_ids[len(spans)]]",
    "token_ids[start:end]",
    "[sentinel_ids[i], *token_ids[start:end]]",
)
START_LINE = "source, target, position = [], [], 0"
MERGE_ADJACENT = """joined = []
for start, end in spans:
    start = joined.pop()[0] if joined and joined[-1][1] == start else start
    joined.append((start, end))
"""
ONE_SENTINEL = "All spans have the same sentinel, so they cannot be distinguished. Use `sentinel_ids[0]`, `sentinel_ids[1]` and so on."
ADJACENT = "Adjacent spans were merged into one. Each span has its own sentinel, also if it touches the one before."
SHIFTED = "After the first replacement all later indices are shifted. Build new lists, or replace from the last span to the first."

register(
    Exercise(
        id="7.4",
        cases=span_cases,
        call=run_spans,
        output_names=("source", "target"),
        mistakes=[
            mistake(TARGET, "target", "The target lacks its final sentinel. Append `sentinel_ids[len(spans)]`."),
            mistake(
                "sentinel_ids[len(spans)]",
                "sentinel_ids[-1]",
                "The target ends with the last sentinel. End with `sentinel_ids[len(spans)]`.",
            ),
            mistake(
                "source + token_ids[position:]",
                "source",
                "The source ends at the last span. Add `token_ids[position:]`.",
            ),
            mistake(", sentinel_ids[i]]", "]", "The source has no sentinels. Put one in place of each span."),
            mistake(
                ", sentinel_ids[i]]",
                ", *[sentinel_ids[i]] * (end - start)]",
                "Every removed token has a sentinel. Use one for the whole span.",
            ),
            mistake(WITH_SENTINEL, SPAN, "The target lacks the sentinels. Put one in front of each span."),
            mistake(
                WITH_SENTINEL,
                "[*token_ids[start:end], sentinel_ids[i]]",
                "In the target the sentinels follow their spans. Put each one in front.",
            ),
            mistake(
                START_LINE,
                f"sentinel_ids = [sentinel_ids[0]] * len(spans) + sentinel_ids[len(spans):]\n{START_LINE}",
                ONE_SENTINEL,
            ),
            mistake(START_LINE, f"sentinel_ids = [sentinel_ids[0]] * 9\n{START_LINE}", ONE_SENTINEL),
            mistake(
                START_LINE,
                f"sentinel_ids = sentinel_ids[1:]\n{START_LINE}",
                "The first sentinel was skipped. Use `sentinel_ids[0]`.",
            ),
            mistake(START_LINE, f"{MERGE_ADJACENT}spans = joined\n{START_LINE}", ADJACENT),
            mistake(
                [
                    (START_LINE, f"{MERGE_ADJACENT}last, spans = sentinel_ids[len(spans)], joined\n{START_LINE}"),
                    ("[sentinel_ids[len(spans)]]", "[last]"),
                ],
                ADJACENT,
            ),
            mistake(
                [(SPAN, "token_ids[start : end + 1]"), ("position = end", "position = end + 1")],
                "Each span is one token too long: `end` is excluded.",
            ),
            mistake(
                SPAN, "token_ids[start : end + 1]", "In the target each span is one token too long: `end` is excluded."
            ),
            mistake(
                [(SPAN, "token_ids[start : start + end]"), ("position = end", "position = start + end")],
                "`end` was used as the length of the span. It is its end: `token_ids[start:end]`.",
            ),
            mistake("position = end", "position = start", "The spans are still in the source. Continue at `end`."),
            mistake(
                BODY,
                """
                source, target = list(token_ids), []
                for i, (start, end) in enumerate(spans):
                    target += [sentinel_ids[i], *source[start:end]]
                    source[start:end] = [sentinel_ids[i]]
                return source, [*target, sentinel_ids[len(spans)]]
                """,
                SHIFTED,
            ),
            mistake(
                BODY,
                """
                source, target = list(token_ids), []
                for i, (start, end) in enumerate(spans):
                    target += [sentinel_ids[i], *token_ids[start:end]]
                    source[start:end] = [sentinel_ids[i]]
                return source, [*target, sentinel_ids[len(spans)]]
                """,
                SHIFTED,
            ),
            mistake(
                BODY,
                """
                source, target = list(token_ids), []
                for i, (start, end) in enumerate(spans):
                    target += [sentinel_ids[i], *(source.pop(start) for _ in range(start, end))]
                    source.insert(start, sentinel_ids[i])
                return source, [*target, sentinel_ids[len(spans)]]
                """,
                SHIFTED,
            ),
            mistake(
                "return source + token_ids[position:], target + [sentinel_ids[len(spans)]]",
                "return target + [sentinel_ids[len(spans)]], source + token_ids[position:]",
                "The two results are swapped. Return source, then target.",
            ),
            mistake(
                ", target + [sentinel_ids[len(spans)]]", "", "It returned only the source. Return source and target."
            ),
            mistake(
                TARGET,
                "list(token_ids)",
                "The target is the whole text. Keep only the removed spans and their sentinels.",
            ),
            mistake(
                "token_ids[position:],",
                "token_ids[position:] + [sentinel_ids[len(spans)]],",
                "The final sentinel is in the source, too. It ends only the target.",
            ),
        ],
        hints=[
            "Build two new lists and keep `position`, the position up to which `token_ids` is processed.",
            "For span `i`: `source += [*token_ids[position:start], sentinel_ids[i]]`, `target += [sentinel_ids[i], *token_ids[start:end]]`, then `position = end`.",
            "After the loop: `token_ids[position:]` for the source, and `sentinel_ids[len(spans)]` for the target.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.5 the masked model
def with_random_parameters(answer, solution, sizes, seed, to_write):
    """The answer's model with the parameters that every answer gets; `__init__` is given."""
    model, generator = built_module(answer, solution.__name__, *sizes), torch.Generator().manual_seed(seed)
    given = dict(model.named_parameters())
    for name, parameter in solution(*sizes).named_parameters():
        if name not in given or given[name].shape != parameter.shape:
            raise Wrong(f"`{name}` is not as `__init__` made it. Restore its lines: only {to_write} to write.")
        given[name].data.copy_(0.7 * normal(generator, *parameter.shape))
    return model


def run_masked(answer, seed, sizes, token_ids, attention_mask):
    """Hidden states and logits of the model."""
    model = with_random_parameters(answer, solved.MaskedLM, sizes, seed, "`encode` and `forward` are yours")
    hidden_states = model.encode(token_ids, attention_mask)
    if isinstance(hidden_states, tuple | list):
        raise Wrong(
            f"`encode` returned {a_thing(hidden_states)}. `self.encoder` returns a pair: keep its first part, the hidden states, `[0]`."
        )
    if hidden_states is None:
        raise Wrong("`encode` returned None. End it with `return`.")
    return hidden_states, model(token_ids, attention_mask)


def language_cases(generator):
    def case(n, lengths, note, vocab_size=11, dim=6, num_heads=3, hidden_dim=8, num_layers=1):
        seed, token_ids = int(integers(generator, 10_000)), integers(generator, vocab_size, len(lengths), n)
        return Case(
            (seed, (vocab_size, dim, num_heads, hidden_dim, num_layers), token_ids, length_mask(lengths, n)), note=note
        )

    return [
        case(5, (3, 5), "one text is padded"),
        case(3, (2, 3, 1), "as many texts as tokens in each", dim=4, num_heads=2),
        case(4, (4, 4), "no padding"),
        case(6, (6, 2, 4), "dim equal to the length of the text, and two layers", vocab_size=7, num_layers=2),
        case(2, (2,), "one text, and dim equal to the vocabulary size", dim=8, num_heads=2, hidden_dim=5, vocab_size=8),
    ]


def gradients_arrive(solution, run):
    """Every parameter gets the gradient that it gets in the solution."""

    def learn(answer, args, seed):
        """The results, and the gradient of a fixed random combination of them for every parameter."""
        built = []

        def make(cls, *sizes):
            built.append(answer(*sizes))
            return built[0]

        results = run(type(solution.__name__, (), {"__new__": make}), *args)
        generator = torch.Generator().manual_seed(seed)
        total = sum((result * torch.randn(result.shape, generator=generator)).sum() for result in results)
        if total.requires_grad:
            total.backward()
        return results, {name: parameter.grad for name, parameter in built[0].named_parameters()}

    def holds(answer, generator):
        args, seed = language_cases(generator)[0].args, int(integers(generator, 10_000))
        expected, expected_gradients = learn(solution, args, seed)
        results, gradients = learn(answer.answer, args, seed)
        for got, want in zip(results, expected, strict=True):
            if got.shape != want.shape or not torch.allclose(got, want.to(got.dtype), rtol=1e-3, atol=1e-3):
                return  # wrong values have messages of their own
            if not got.requires_grad:
                raise Wrong(
                    "The values are correct, but no gradient flows back. Remove `detach`, `.data` or `torch.no_grad`."
                )
        for name, want in expected_gradients.items():
            got = torch.zeros_like(want) if gradients[name] is None else gradients[name]
            if not torch.allclose(got, want, rtol=1e-2, atol=1e-3 * (1 + float(want.abs().max()))):
                raise Wrong(
                    f"The values are correct, but part of the gradient of `{name}` is cut off. Remove `detach`, `.data` or `torch.no_grad`."
                )

    return holds


KEYS, CAUSAL = "attention_mask.unsqueeze(1)", "causal_mask(token_ids.size(1))"
NO_POSITIONS = "The embedding matrix was used without scaling and positions. Call `self.embedding(token_ids)`."
PROBABILITIES = "`forward` returned {}. Return logits: the loss applies the softmax itself."
NOT_TRANSPOSED = (
    "The embedding matrix is (vocab_size, dim) and was not transposed. Call `self.lm_head`, which transposes it."
)
NO_MATRIX = "An `nn.Embedding` is not a matrix. Call `self.lm_head`, which uses its matrix (vocab_size, dim)."
ENCODED = "self.encode(token_ids, attention_mask)"
MATRIX = "self.embedding.token_embedding"

register(
    Exercise(
        id="7.5",
        cases=language_cases,
        call=run_masked,
        output_names=("hidden_states", "logits"),
        tolerance=1e-3,
        properties=[gradients_arrive(solved.MaskedLM, run_masked)],
        mistakes=[
            mistake(
                ", attention_mask.unsqueeze(1)",
                "",
                "Tokens attend to padding. Pass `attention_mask` as a mask (b, 1, n).",
            ),
            mistake(KEYS, "attention_mask", "A mask (b, n) is read as (n, n). Pass `attention_mask.unsqueeze(1)`."),
            mistake(KEYS, f"~{KEYS}", "The mask is inverted. True means may attend."),
            mistake(
                KEYS,
                "attention_mask.unsqueeze(2)",
                "The mask restricts the queries. Restrict the keys: `attention_mask.unsqueeze(1)`.",
            ),
            mistake(
                KEYS,
                f"causal_mask(attention_mask.size(1)) & {KEYS}",
                "The mask is causal. Mask only the padding: tokens attend to both sides.",
            ),
            mistake(
                KEYS,
                "causal_mask(attention_mask.size(1))",
                "The mask is causal and ignores padding. Mask only the padding.",
            ),
            mistake("self.embedding(token_ids)", "self.embedding.token_embedding(token_ids)", NO_POSITIONS),
            mistake(
                f"self.lm_head({ENCODED})",
                f"{ENCODED} @ {MATRIX}.weight.T",
                "The bias is missing. Call `self.lm_head`, whose bias learns how frequent each token is.",
            ),
            mistake(
                f"self.lm_head({ENCODED})",
                ENCODED,
                "`forward` returned hidden states. Apply the output layer `self.lm_head` to them.",
            ),
            mistake(f"self.lm_head({ENCODED})", f"{ENCODED} @ {MATRIX}.T + self.lm_head.bias", NO_MATRIX),
            mistake(f"self.lm_head({ENCODED})", f"{ENCODED} @ {MATRIX} + self.lm_head.bias", NO_MATRIX),
            mistake(f"self.lm_head({ENCODED})", f"{ENCODED} @ {MATRIX}.weight + self.lm_head.bias", NOT_TRANSPOSED),
            mistake(
                f"self.lm_head({ENCODED})",
                f"self.lm_head({ENCODED}).softmax(-1)",
                PROBABILITIES.format("probabilities"),
            ),
            mistake(
                f"self.lm_head({ENCODED})",
                f"self.lm_head({ENCODED}).log_softmax(-1)",
                PROBABILITIES.format("log-probabilities"),
            ),
            mistake(ENCODED, f"{ENCODED}[:, 0]", "Only the first position has logits. Return (b, n, vocab_size)."),
            mistake(
                f"self.lm_head({ENCODED})",
                f"F.linear({ENCODED}, {MATRIX}.weight * {MATRIX}.embedding_dim**0.5, self.lm_head.bias)",
                "The logits were scaled by the square root of dim. Call `self.lm_head`, which is unscaled.",
            ),
            mistake(
                "self.encoder(self.embedding(token_ids), attention_mask.unsqueeze(1))[0]",
                "self.embedding(token_ids)",
                "The encoder layers are missing. Pass the embeddings through `self.encoder`.",
            ),
            mistake("[0]", "[0][:, 0]", "`encode` returned one vector per text. Return one per token, (b, n, dim)."),
        ],
        hints=[
            "`self.embedding(token_ids)` gives (b, n, dim). `self.encoder(x, mask)` returns a pair; keep its first part, the hidden states.",
            "The mask is `attention_mask.unsqueeze(1)`, (b, 1, n): every token attends to all tokens that are not padding, on both sides.",
            "`forward`: the output layer `self.lm_head`, applied to the hidden states of `encode`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.6 the causal model
def run_causal(answer, seed, sizes, token_ids, attention_mask):
    """Logits and loss of the model."""
    model = with_random_parameters(answer, solved.CausalLM, sizes, seed, "`forward` and `loss` are yours")
    logits = model(token_ids)
    if logits is None:
        raise Wrong("`forward` returned None. End it with `return`.")
    if isinstance(logits, tuple | list):
        raise Wrong(
            f"`forward` returned {a_thing(logits)}. `self.encoder` returns a pair: continue with its first part, the hidden states."
        )
    return logits, model.loss(token_ids, attention_mask)


def no_leak_from_the_future(answer, generator):
    seed, sizes, token_ids, attention_mask = language_cases(generator)[0].args
    before, _ = answer(seed, sizes, token_ids, attention_mask)
    changed_ids = torch.cat([token_ids[:, :-1], (token_ids[:, -1:] + 1) % sizes[0]], 1)
    after, _ = answer(seed, sizes, changed_ids, attention_mask)
    if not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-3):
        raise Wrong("The last token changes the logits of earlier positions. Pass `causal_mask(n)` to `self.encoder`.")


def padding_does_not_count(answer, generator):
    seed, sizes, token_ids, attention_mask = language_cases(generator)[0].args
    _, before = answer(seed, sizes, token_ids, attention_mask)
    _, after = answer(seed, sizes, torch.where(attention_mask, token_ids, (token_ids + 1) % sizes[0]), attention_mask)
    if not torch.allclose(before, after, rtol=1e-3, atol=1e-4):
        raise Wrong("The padding changes the loss. Leave out the positions where `attention_mask[:, 1:]` is False.")


SHIFT, MEAN = "self(token_ids)[:, :-1], token_ids[:, 1:]", "losses[attention_mask[:, 1:]].mean()"

register(
    Exercise(
        id="7.6",
        cases=language_cases,
        call=run_causal,
        output_names=("logits", "loss"),
        tolerance=1e-3,
        properties=[no_leak_from_the_future, padding_does_not_count, gradients_arrive(solved.CausalLM, run_causal)],
        mistakes=[
            mistake(
                ", causal_mask(token_ids.size(1))",
                "",
                "Every token attends to those it has to predict. Pass `causal_mask(n)` to `self.encoder`.",
            ),
            mistake(
                CAUSAL,
                f"{CAUSAL}.T",
                "The causal mask is transposed. Row i is for query i: use `causal_mask(n)` as it is.",
            ),
            mistake(CAUSAL, f"{CAUSAL}.tril(-1)", "Tokens cannot attend to themselves. Mask only later tokens."),
            mistake(
                CAUSAL,
                "causal_mask(token_ids.size(0))",
                "The causal mask has the size of the batch. Its size is `token_ids.size(1)`.",
            ),
            mistake("self.embedding(token_ids)", "self.embedding.token_embedding(token_ids)", NO_POSITIONS),
            mistake("self.lm_head(x)", f"x @ {MATRIX}.weight.T", "The bias is missing. Call `self.lm_head`."),
            mistake("self.lm_head(x)", f"x @ {MATRIX}.T + self.lm_head.bias", NO_MATRIX),
            mistake("self.lm_head(x)", f"x @ {MATRIX}.weight + self.lm_head.bias", NOT_TRANSPOSED),
            mistake("self.lm_head(x)", "self.lm_head(x).softmax(-1)", PROBABILITIES.format("probabilities")),
            mistake("self.lm_head(x)", "self.lm_head(x).log_softmax(-1)", PROBABILITIES.format("log-probabilities")),
            mistake(
                "logits.transpose(1, 2)",
                "logits.softmax(-1).transpose(1, 2)",
                "The softmax was applied before `cross_entropy`, which applies it again. Pass the logits.",
            ),
            mistake(
                "logits.transpose(1, 2)",
                "logits",
                "`cross_entropy` expects the classes in axis 1. Pass `logits.transpose(1, 2)`.",
            ),
            mistake(
                [(SHIFT, "self(token_ids), token_ids"), ("attention_mask[:, 1:]", "attention_mask")],
                "The target is the current token, which the model sees. Compare `logits[:, :-1]` with `token_ids[:, 1:]`.",
            ),
            mistake(
                [
                    (SHIFT, "self(token_ids)[:, 1:], token_ids[:, :-1]"),
                    ("attention_mask[:, 1:]", "attention_mask[:, :-1]"),
                ],
                "The target is the previous token. Compare `logits[:, :-1]` with `token_ids[:, 1:]`.",
            ),
            mistake(
                SHIFT,
                "self(token_ids)[:, 1:], token_ids[:, 1:]",
                "Logits and targets are cut alike, not shifted. Drop the *last* logits: `logits[:, :-1]`.",
            ),
            mistake(
                [
                    (SHIFT, "self(token_ids), token_ids.roll(-1, 1)"),
                    ("attention_mask[:, 1:]", "attention_mask.roll(-1, 1)"),
                ],
                "The last position has the first token as target. Drop it: `logits[:, :-1]`.",
            ),
            mistake(MEAN, "losses.mean()", "The loss includes padding. Average where `attention_mask[:, 1:]`."),
            mistake(
                "attention_mask[:, 1:]",
                "attention_mask[:, :-1]",
                "Positions count if their own token is not padding. The next token decides: `attention_mask[:, 1:]`.",
            ),
            mistake(
                MEAN,
                "(losses * attention_mask[:, 1:]).mean()",
                "Padding counts in the mean. Average over targets that are not padding.",
            ),
            mistake(
                ".mean()", ".sum()", "The loss is a sum. Return the mean over the next tokens that are not padding."
            ),
            mistake(
                MEAN,
                "((losses * attention_mask[:, 1:]).sum(1) / attention_mask[:, 1:].sum(1).clamp(min=1)).mean()",
                "It averaged within each text first. Take one mean over all next tokens that are not padding.",
            ),
            mistake(".mean()", ".mean().exp()", "It returned the perplexity. Return the mean cross-entropy."),
            mistake("return losses", "return -losses", "The sign is wrong. Return the *negative* log-likelihood."),
            mistake(
                MEAN, "losses", "It returned one loss per position. Average over the next tokens that are not padding."
            ),
        ],
        hints=[
            "`forward` is that of the masked model with another mask, `causal_mask(n)`. Padding comes after the text, where only padding attends.",
            "`loss`: the logits at position i predict token i + 1. Compare `logits[:, :-1]` with `token_ids[:, 1:]`.",
            "`F.cross_entropy(logits.transpose(1, 2), targets, reduction='none')` is (b, n - 1). Average it where `attention_mask[:, 1:]`.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- 7.7 the next token
def sampling_cases(generator):
    """Fixed probabilities in random order, slightly perturbed: what each parameter keeps is the same in every draw."""

    def case(probabilities, note, **options):
        count = len(probabilities)
        logits = torch.tensor(probabilities).log() + 0.02 * normal(generator, count) + normal(generator, 1)
        return Case((logits[torch.randperm(count, generator=generator)],), options, note=note)

    five = (0.4, 0.3, 0.15, 0.1, 0.05)
    seven = (0.28, 0.22, 0.17, 0.13, 0.1, 0.07, 0.03)
    return [
        case(five, "no option"),
        case(five, "a low temperature", temperature=0.5),
        case(seven, "a high temperature", temperature=2.0),
        case(seven, "top-k", top_k=3),
        case(five, "top-k of one", top_k=1),
        case(five, "top-k of all", top_k=5),
        case(five, "top-p", top_p=0.76),
        case(five, "top-p below the largest probability", top_p=0.2),
        case(five, "top-p of all", top_p=1.0),
        case(five, "both, top-k first", top_k=3, top_p=0.8),
        case(five, "temperature and top-p", temperature=0.5, top_p=0.8),
        case(seven, "all three", temperature=2.0, top_k=5, top_p=0.7),
        case((*seven, *(0.01 for _ in range(12))), "many tokens", top_k=10, top_p=0.9),
        case((1.0,), "a single token", temperature=0.5, top_k=1, top_p=0.5),
    ]


WARM, BEFORE = "(logits / temperature).softmax(-1)", "probs.cumsum(0) - probs"
CUT_K, CUT_P = "probs[top_k:] = 0", "probs[before >= top_p] = 0"
DIVIDE, LAST = "\n    probs = probs / probs.sum()", "return torch.zeros_like(probs).scatter(0, order, probs)"
DIVIDE_LAST = (LAST, f"probs = probs / probs.sum()\n{LAST}")
KEPT = LAST.replace("return", "kept =") + " > 0\nreturn (logits / temperature).masked_fill(~kept, {}).softmax(-1)"
A_TOKEN = "It returned one token. Return the whole distribution, (vocab_size,)."
ASCENDING = "The cut starts from the least likely token. Sort with `descending=True`."

register(
    Exercise(
        id="7.7",
        cases=sampling_cases,
        mistakes=[
            mistake(" / temperature", "", "The temperature has no effect. Divide the logits by it."),
            mistake(
                "/ temperature", "* temperature", "The logits were multiplied by the temperature. Divide them by it."
            ),
            mistake(
                WARM,
                "(logits.softmax(-1) / temperature)",
                "The temperature was applied after the softmax. Divide the logits by it.",
            ),
            mistake(
                [(WARM, "logits.softmax(-1)"), (LAST, KEPT.format("-torch.inf"))],
                "The cuts came before the temperature. Apply it first.",
            ),
            mistake(CUT_K, "pass", "`top_k` has no effect. Set all but the k largest probabilities to 0."),
            mistake(CUT_K, "probs[:-top_k] = 0", "`top_k` kept the least likely tokens. Keep the k most likely."),
            mistake(CUT_K, "probs[top_k + 1 :] = 0", "`top_k` kept one token too many. Keep exactly k."),
            mistake(CUT_K, "probs[top_k - 1 :] = 0", "`top_k` kept one token too few. Keep the k-th largest, too."),
            mistake(CUT_P, "pass", "`top_p` has no effect. Keep the fewest most likely tokens that sum to at least p."),
            mistake(
                "before >= top_p",
                "before + probs > top_p + 1e-6",
                "`top_p` drops the token that reaches p, even if it is the first. Compare `probs.cumsum(0) - probs`.",
            ),
            mistake(
                CUT_P,
                "probs[1:][(before + probs)[1:] > top_p + 1e-6] = 0",
                "`top_p` drops the token that reaches p. Compare `probs.cumsum(0) - probs`.",
            ),
            mistake(
                "before >= top_p",
                "before - probs.roll(1) >= top_p",
                "`top_p` kept one token too many. Stop as soon as the sum reaches p.",
            ),
            mistake(
                "before >= top_p",
                "probs < top_p",
                "`top_p` was used as a minimum probability. It is the total probability to keep.",
            ),
            mistake(
                "before >= top_p",
                "probs < 1 - top_p",
                "1 - `top_p` was used as a minimum probability. `top_p` is the total probability to keep.",
            ),
            mistake(
                "before >= top_p",
                "probs < top_p * probs.max()",
                "This is min-p, relative to the largest probability. Top-p compares a cumulative sum with p.",
            ),
            mistake(
                f"before = {BEFORE}",
                "by_id = torch.zeros_like(probs).scatter(0, order, probs)\n    before = (by_id.cumsum(0) - by_id)[order]",
                "`top_p` summed in the order of token ids. Sort in descending order first.",
            ),
            mistake(BEFORE, "probs.flip(0).cumsum(0).flip(0) - probs", ASCENDING),
            mistake("descending=True", "", ASCENDING),
            mistake([(CUT_K + DIVIDE, CUT_K), DIVIDE_LAST], "With both, too many stay. Renormalize after top-k."),
            mistake(
                [(CUT_K + DIVIDE, CUT_K), (CUT_P + DIVIDE, CUT_P)],
                "The probabilities do not sum to 1. Divide them by their sum.",
            ),
            mistake(CUT_K + DIVIDE, CUT_K, "After top-k the probabilities do not sum to 1. Divide by their sum."),
            mistake(CUT_P + DIVIDE, CUT_P, "After top-p the probabilities do not sum to 1. Divide by their sum again."),
            mistake(LAST, "return probs", "The probabilities are still sorted. Put them back with `scatter`."),
            mistake(
                LAST,
                "return probs[order]",
                "`order` was applied again, not undone. Use `scatter`, or index with `order.argsort()`.",
            ),
            mistake(LAST, f"{LAST}.log()", "It returned log-probabilities. Return probabilities."),
            mistake(LAST, KEPT.format(0.0), "Removed tokens got logit 0. Set it to minus infinity."),
            mistake(BODY, "return logits / temperature", "It returned logits. Return probabilities, their softmax."),
            mistake(LAST, f"{LAST}.argmax()", A_TOKEN),
            mistake(LAST, LAST.replace("return ", "return torch.multinomial(") + ", 1)", A_TOKEN),
        ],
        hints=[
            "`(logits / temperature).softmax(-1)`, then `probs, order = probs.sort(descending=True)`: both cuts are easy on the sorted probabilities.",
            "Top-k: `probs[top_k:] = 0`, then divide by the sum. Top-p: `before = probs.cumsum(0) - probs`; 0 where `before >= top_p`, then divide again.",
            "`torch.zeros_like(probs).scatter(0, order, probs)` puts each probability back to its token id.",
        ],
    )
)


# ---------------------------------------------------------------------------------------------- guess first
register_quiz(
    Quiz(
        id="7.a",
        question="What is masked in a *masked* language model that is not masked in a causal one?",
        options=[
            (
                "The attention: a query cannot attend to later tokens.",
                "That mask makes a model causal. A masked language model attends to both sides.",
            ),
            (
                "The input: some tokens are replaced before the model sees them.",
                "[MASK] in the input is a token like any other; attention is not restricted.",
            ),
            (
                "The embeddings: those of some tokens are set to zero.",
                "[MASK] has a learned embedding of its own.",
            ),
            (
                "The padding: its positions are left out of attention.",
                "Both kinds of model leave out padding; it is no part of the objective.",
            ),
        ],
        right=1,
        explanation="An attention mask restricts which keys a query may attend to. [MASK] removes a token from the input. The layers are the same.",
    )
)
register_quiz(
    Quiz(
        id="7.b",
        question="Of the chosen tokens 80 % become [MASK], 10 % a random token, and 10 % stay unchanged. What are the last 20 % for?",
        options=[
            (
                "They make the task easier at the beginning of training.",
                "The proportions stay the same throughout training.",
            ),
            (
                "They lower the loss, because some targets are visible.",
                "A lower loss is no goal in itself: it must come from better predictions.",
            ),
            (
                "They are kept by tradition and change nothing at all.",
                "The BERT paper tried other proportions, and little changed. But there was a reason.",
            ),
            (
                "They prepare the model for texts without any [MASK].",
                "Later tasks have no [MASK]. If only [MASK] had targets, the outputs at all other tokens would go untrained.",
            ),
        ],
        right=3,
        explanation="Unchanged tokens teach the model to represent what is there; random ones, to check it against the context.",
    )
)
register_quiz(
    Quiz(
        id="7.c",
        question="You train a bidirectional encoder on next-token prediction: the logits at position i against token i + 1. What happens?",
        options=[
            (
                "The loss falls to almost zero, and generation is useless.",
                "It learns to copy the token to its right. During generation there is none.",
            ),
            (
                "The loss falls further, because more context helps.",
                "It sees the very token that it is to predict: that is no context.",
            ),
            (
                "It stops with an error, because the shapes do not match.",
                "All shapes match. That makes the mistake dangerous.",
            ),
            (
                "Nothing changes: attention learns to ignore later tokens.",
                "It attends to whatever lowers the loss, and nothing lowers it as much as the answer.",
            ),
        ],
        right=0,
        explanation="A loss that is too good is the first sign of a leak. A bidirectional model needs the answer removed from its input: that is what "
        "[MASK] is for.",
    )
)
register_quiz(
    Quiz(
        id="7.d",
        question="On the same text, model A has perplexity 40 and splits it into 300 tokens; model B has perplexity 60 and splits it into 200. Which one "
        "predicts the text better?",
        options=[
            (
                "A, because its perplexity is lower: 40 against 60.",
                "Per token. But A has to predict more tokens for the same text.",
            ),
            (
                "Both alike, because 300 · 40 equals 200 · 60.",
                "Perplexities are not added: the text has probability 40 to the power of -300 under A.",
            ),
            (
                "B, because it needs fewer bits for the whole text.",
                "A: 300 · log2(40) = 1,597 bits. B: 200 · log2(60) = 1,181 bits.",
            ),
            (
                "It depends on how many tokens each vocabulary has.",
                "The vocabulary size does not matter here. The number of tokens in the text does.",
            ),
        ],
        right=2,
        explanation="Perplexity is per token, so it cannot be compared between tokenizers. Bits per character can: the characters are the same under both.",
    )
)
