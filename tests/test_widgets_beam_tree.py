"""Facts about the tree of a beam search: every node has its position, its text and its picture, without a browser."""

import sys

import numpy as np

from utils import widgets

# The package exports a function with the name of this module.
module = sys.modules["utils.widgets.beam_tree"]
SENTENCES = ["the cat sleeps", "the black cats do not sleep"]
FRENCH = ["le", "chat", "noir", "ne", "dort", "pas", "<end>"]
# Two steps of width 2: "chat" is dropped at first, "le chien" ends as the best although "la" led.
SMALL = [
    [(-1, "la", -0.5, -0.5, True, False), (-1, "le", -1.0, -1.0, True, False), (-1, "chat", -3, -3, False, False)],
    [(1, "chien", -1.25, -1.25, True, True), (0, "chatte", -2.0, -2.0, True, False), (0, "dort", -4, -4, False, False)],
]


def grown(width, steps, words=FRENCH, seed=0, ends=True):
    """A tree as the search makes one, over random probabilities: kept nodes first, ended ones compete on."""
    dice, tree, kept = np.random.default_rng(seed), [], [(0.0, False)]
    for number in range(steps):
        nodes = []
        for parent, (total, ended) in enumerate(kept):
            if ended:
                nodes.append((parent, None, total, True))
                continue
            log_prob = np.log(dice.dirichlet(np.ones(len(words))))
            for index in np.argsort(-log_prob)[:width]:
                nodes.append((parent, words[index], total + log_prob[index], ends and words[index] == "<end>"))
        nodes.sort(key=lambda node: -node[2])
        rows = enumerate(nodes)
        tree.append([(p if number else -1, w, t, t / (number + 1), i < width, e) for i, (p, w, t, e) in rows])
        kept = [(total, ended) for _, _, total, ended in nodes[:width]]
        if all(ended for _, ended in kept):
            break
    return tree


def tree_of(**options):
    return widgets.beam_tree(respond, SENTENCES, **options)


def respond(sentence, width):
    return {"tree": grown(width, len(sentence.split()) + 2, seed=len(sentence)), "note": f"width {width}"}


# Trees


def test_the_best_path_leads_to_the_first_node_of_the_last_step_and_not_along_the_first_ones():
    tree = module.whole_tree(SMALL)
    assert [node["tokens"] for node in tree[1]] == [["le", "chien"], ["la", "chatte"], ["la", "dort"]]
    assert [[node["best"] for node in step] for step in tree] == [[False, True, False], [True, False, False]]
    for seed in range(20):
        tree = module.whole_tree(grown(3, 6, seed=seed))
        assert [sum(node["best"] for node in step) for step in tree] == [1] * len(tree)
        path = [node["token"] for step in tree for node in step if node["best"] and node["token"] is not None]
        assert path == tree[-1][0]["tokens"]


def test_a_hypothesis_that_has_ended_keeps_its_tokens_while_it_competes_on():
    tree = [
        [(-1, "<end>", -1, -1, True, True), (-1, "le", -2, -2, True, False)],
        [(0, None, -1, -1, True, True), (1, "<end>", -3, -3, True, True)],
    ]
    checked = module.whole_tree(tree)
    assert [node["tokens"] for node in checked[1]] == [["<end>"], ["le", "<end>"]]
    assert "it had ended before" in module.node_words(checked, 1, 0)
    assert module.face_of(checked[1][0]) == ("ended", "−1.00")


# Words


def test_the_text_form_has_the_best_and_what_was_kept_besides():
    words = module.beam_words(module.whole_tree(SMALL), "the dog", 2, "A tree.", "wrong")
    assert words == (
        "A tree. Beam of width 2 on “the dog”. Best after 2 steps: “le chien”, log-probability −1.25, score −1.25. "
        "4 hypotheses were kept, 2 dropped. Other hypotheses kept, with their scores: “la chatte” −2.00. wrong"
    )


# The widget


def test_every_sentence_and_width_has_its_own_tree_and_is_searched_once():
    asked = []
    widget = widgets.beam_tree(lambda *wish: asked.append(wish) or respond(*wish), SENTENCES, num_beams=1)
    pictures = set()
    for sentence in (0, 1, 0):
        for width in (1, 3):
            widget.sentence, widget.width = sentence, width
            now = widget.answer
            assert (now["sentence"], now["width"], now["note"]) == (sentence, width, f"width {width}")
            assert f"Beam of width {width} on “{SENTENCES[sentence]}”." in widget.alt_text()
            assert now["text"] == module.best_words(module.whole_tree(respond(SENTENCES[sentence], width)["tree"]))
            pictures.add(widget.static()[0]["image/png"])
    assert len(pictures) == 4 and sorted(asked) == [(words, width) for words in sorted(SENTENCES) for width in (1, 3)]
