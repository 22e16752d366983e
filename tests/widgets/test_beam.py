"""Facts about the tree of a beam search: its nodes, its words, and the answers that a page without Python has."""

from utils.widgets import beam_tree
from utils.widgets.base import answer_key
from utils.widgets.beam import WIDTHS, example

ENDED = [
    [(-1, "<eos>", -1, True, True), (-1, "le", -2, True, False)],
    [(0, None, -1, True, True), (1, "<eos>", -3, True, True)],
]


def test_the_best_path_leads_to_the_first_node_of_the_last_step_and_not_along_the_first_ones():
    tree = example().tree()
    assert [[node["best"] for node in step] for step in tree] == [
        [False, True, False],
        [True, False, False],
        [True, False],
    ]
    assert tree[-1][0]["tokens"] == ["le", "chien", "<eos>"]


def test_a_hypothesis_that_has_ended_keeps_its_tokens_while_it_competes_on():
    tree = beam_tree(lambda sentence, num_beams: ENDED, ["a"], num_beams=2).tree()
    assert [node["tokens"] for node in tree[1]] == [["<eos>"], ["le", "<eos>"]]


def test_the_alt_text_has_the_best_hypothesis_and_the_others():
    assert example().alt() == (
        "Beam search of width 2 on “the dog”. Best after 3 steps: “le chien <eos>”, log-probability −1.30. Also kept to the "
        "end: “la chatte <eos>”, log-probability −2.50. 6 hypotheses were kept, 2 dropped."
    )


def test_only_the_best_dropped_nodes_are_sent_and_all_are_counted():
    step = [(-1, "a", -1.0, True, True), *((-1, str(index), -2.0 - index, False, False) for index in range(6))]
    widget = beam_tree(lambda sentence, num_beams: [step], ["a"], num_beams=1)
    assert [node[1] for node in widget.answer["steps"][0]] == ["a", "0", "1"]
    assert "6 dropped" in widget.alt()


def test_every_sentence_and_width_is_stored_and_asked_again_with_a_kernel():
    asked = []
    sentences = ["one", "two"]
    widget = beam_tree(lambda *wish: asked.append(wish) or ENDED, sentences, num_beams=3)
    states = [{"sentence": sentence, "num_beams": width} for sentence in sentences for width in WIDTHS]
    assert list(widget.data["answers"]) == [answer_key(state) for state in states]
    widget.set(num_beams=4, sentence="two")
    assert asked[-1] == ("two", 4)
