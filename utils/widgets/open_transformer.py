"""A trained Transformer that runs in the page: every tensor from the embeddings to the next-token probabilities."""

from utils.widgets.base import Widget
from utils.widgets.translator import STORED, model_bundle, stored_bundle

FIRST = "the old king does not see the black horse"


def open_transformer(model=None, source_vocabulary=None, target_vocabulary=None, badges=None, text=FIRST, title=""):
    """Translate a sentence and open every block of the encoder and the decoder; the page computes, with or without Python.

    model: a Transformer with the parameter names of lesson 06, as the reader trained it, with its vocabularies; its parameters
    are rounded to half precision. Without one, the stored translator of `data/translator`. badges: for parts of it
    {"exercise", "passed"}, the exercise that builds this part.
    """
    return OpenTransformer(model, source_vocabulary, target_vocabulary, badges, text, title)


class OpenTransformer(Widget):
    """What `open_transformer` returns. No inputs: Python is never asked; view: the sentence, what is open, what is switched off."""

    script = "open_transformer"

    def __init__(self, model, source_vocabulary, target_vocabulary, badges, text, title):
        bundle = stored_bundle() if model is None else model_bundle(model, source_vocabulary, target_vocabulary)
        super().__init__({"title": title, "bundle": bundle, "badges": badges or {}}, view={"text": text})

    def page_state(self):
        """A page without Python shows the stored translator and knows nothing of its reader: a notebook keeps no parameters."""
        state = super().page_state()
        badges = {part: {**badge, "passed": False} for part, badge in self.data["badges"].items()}
        return {**state, "data": {**state["data"], "bundle": STORED, "badges": badges}}

    def alt(self):
        config = self.data["bundle"]["config"]
        return (
            f"A trained encoder-decoder Transformer, open: {config['num_layers']} layers in each stack, {config['num_heads']} heads, "
            f"{config['dim']} dimensions. It translates “{self.view['text']}” token by token; every block opens to its matrices."
        )


def example():
    """The stored translator."""
    badges = {
        "self_attn": {"exercise": "5.4", "passed": True},
        "norm": {"exercise": "5.5", "passed": False},
        "mask": {"exercise": "4.7", "passed": True},
    }
    return open_transformer(badges=badges, title="A trained translator")
