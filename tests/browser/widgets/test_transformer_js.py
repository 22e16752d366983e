"""The Transformer in JavaScript against torch with the same half-precision parameters: logits, translations, switches, every tensor."""

import base64
import copy
import math
import re

import numpy as np
import pytest
import torch

from utils.data.tokens import BOS_ID, EOS_ID, join
from utils.models.attention import attend, causal_mask, merge_heads, split_heads
from utils.models.decoding import beam_search, greedy_decode
from utils.training.own_sentence import read_sentence
from utils.training.stored_translator import stored_translator
from utils.training.transformer import SPECIAL_IDS
from utils.training.translation import limit_for, pairs_and_words
from utils.widgets.base import STATIC
from utils.widgets.translator import model_bundle, stored_bundle

NUM_PAIRS, NUM_BEAMS = 200, 4
SWITCHES = {
    "an encoder head off": {"heads": ["encoder.0.self_attn.2"]},
    "a decoder head off": {"heads": ["decoder.1.self_attn.0"]},
    "two cross-attention heads off": {"heads": ["decoder.0.cross_attn.1", "decoder.1.cross_attn.3"]},
    "a cross-attention link cut": {"cut": [{"layer": 0, "query": 2, "key": 1}]},
    "all links of a position cut": {"cut": [{"layer": 1, "query": 1, "key": key} for key in range(40)]},
    "no positions": {"positions": False},
    "no scaling": {"scaling": False},
    "everything": {
        "heads": ["encoder.1.self_attn.3"],
        "cut": [{"layer": 1, "query": 0, "key": 0}],
        "positions": False,
        "scaling": False,
    },
}
PACK = """
const pack = ({ data }) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  let letters = "";
  for (let start = 0; start < bytes.length; start += 4096) letters += String.fromCharCode(...bytes.subarray(start, start + 4096));
  return btoa(letters);
};
const packed = (matrix) => ({ rows: matrix.rows, cols: matrix.cols, data: pack(matrix) });
const unjson = (switches) => ({ ...switches, heads: new Set(switches.heads ?? []) });
const forced = (source, target, switches) => model.start(source, unjson(switches)).force(target);
const logitsOf = (source, target, switches) => packed(forced(source, target, switches).trace.get("lm_head").tensors.logits);
const isMatrix = (value) => value && value.data instanceof Float32Array;
const flat = (tensors, prefix) => Object.entries(tensors).flatMap(([name, value]) =>
  Array.isArray(value) ? value.flatMap((head, number) => flat(head, `${prefix}${name}.${number}.`)) : isMatrix(value) ? [[prefix + name, packed(value)]] : []);
const traceOf = (run) => Object.fromEntries([...run.trace.values()].flatMap(({ id, tensors }) => flat(tensors, `${id}:`)));
"""


@pytest.fixture(scope="module")
def trained():
    return stored_translator()


@pytest.fixture(scope="module")
def page(chromium):
    page = chromium.new_page()
    page.add_script_tag(content=(STATIC / "transformer.js").read_text(encoding="utf-8") + PACK)
    page.evaluate("bundle => { window.model = openTransformer(bundle) }", stored_bundle())
    yield page
    page.close()


@pytest.fixture(scope="module")
def pairs():
    return pairs_and_words()[0].test[:NUM_PAIRS]


def ids_of(trained, pair):
    return [*trained.english.encode(pair.english), EOS_ID], [*trained.french.encode(pair.french), EOS_ID]


def unpacked(matrix):
    numbers = np.frombuffer(base64.b64decode(matrix["data"]), "<f4")
    return torch.from_numpy(numbers.reshape(matrix["rows"], matrix["cols"]).copy())


def changed(model, heads=(), positions=True, scaling=True, **_):
    """The model with these switches, as a change of its parameters."""
    model = copy.deepcopy(model)
    for attention in (module for name, module in model.named_modules() if name.endswith("_attn")):
        if not scaling:  # undoes the division of the scores
            attention.in_proj.weight.data[: attention.dim] *= math.sqrt(attention.head_dim)
            attention.in_proj.bias.data[: attention.dim] *= math.sqrt(attention.head_dim)
    for name in heads:
        stack, layer, kind, head = name.split(".")
        attention = getattr(getattr(model, stack).layers[int(layer)], kind)
        attention.out_proj.weight.data.view(attention.dim, -1, attention.head_dim)[:, int(head)] = 0
    for embedding in (model.source_embedding, model.target_embedding):
        embedding.positions = "sinusoidal" if positions else "none"
    return model


@torch.no_grad()
def torch_logits(model, source, target, cut=()):
    memory, x = model.encode(torch.tensor([source])), model.target_embedding(torch.tensor([[BOS_ID, *target[:-1]]]))
    for number, layer in enumerate(model.decoder.layers):
        mask = torch.ones(1, len(target), len(source), dtype=torch.bool)
        for link in cut:
            if link["layer"] == number and link["query"] < len(target) and link["key"] < len(source):
                mask[0, link["query"], link["key"]] = False
        x, _, _ = layer(x, memory, causal_mask(len(target)), mask, need_weights=True)
    return model.lm_head(model.decoder.norm(x))[0]


def test_the_logits_of_held_out_sentences_are_those_of_torch(page, trained, pairs):
    examples = [ids_of(trained, pair) for pair in pairs]
    found = page.evaluate("all => all.map(([source, target]) => logitsOf(source, target, {}))", examples)
    assert len(found) == NUM_PAIRS
    for (source, target), matrix in zip(examples, found, strict=True):
        torch.testing.assert_close(unpacked(matrix), torch_logits(trained.model, source, target), atol=1e-3, rtol=0)


def test_greedy_translations_are_those_of_torch(page, trained, pairs):
    texts = [join(pair.english, "english") for pair in pairs]
    read = "text => { const run = model.translate(model.tokenize(text).ids); return [run.ids, run.text, run.logProb]; }"
    found = page.evaluate(f"all => all.map({read})", texts)
    for pair, (ids, text, log_prob) in zip(pairs, found, strict=True):
        source = torch.tensor([[*trained.english.encode(pair.english), EOS_ID]])
        options = {"max_len": limit_for(len(pair.english)), **SPECIAL_IDS}
        decoded = greedy_decode(trained.model, source, None, **options)
        assert ids == decoded.token_ids[0].tolist()
        assert text == join(trained.french.decode(ids), "french")
        assert log_prob == pytest.approx(decoded.log_probs.item(), abs=1e-3)


def test_beam_search_keeps_and_drops_the_hypotheses_of_torch(page, trained, pairs):
    sources = [ids_of(trained, pair)[0] for pair in pairs]
    search = """ids => { const { hypotheses, tree } = model.beam(ids, WIDTH);
        const fate = ({ parent, id, logProb, kept, ended }) => [parent, id, logProb, kept, ended];
        return [hypotheses.map(({ ids }) => ids), tree.map((step) => step.map(fate))]; }"""
    found = page.evaluate(f"all => all.map({search.replace('WIDTH', str(NUM_BEAMS))})", sources)
    for source, (hypotheses, tree) in zip(sources, found, strict=True):
        options = {"max_len": limit_for(len(source) - 1), "num_beams": NUM_BEAMS, "need_tree": True, **SPECIAL_IDS}
        expected = beam_search(trained.model, torch.tensor([source]), None, **options)
        rows = [row[: row.index(EOS_ID) + 1] if EOS_ID in row else row for row in expected.token_ids[0].tolist()]
        assert hypotheses == rows
        for step, nodes in zip(tree, expected.tree[0], strict=True):
            fates = [(node.parent, node.token_id, node.kept, node.ended) for node in nodes]
            assert [(parent, token, kept, ended) for parent, token, _, kept, ended in step] == fates
            assert [log_prob for _, _, log_prob, *_ in step] == pytest.approx(
                [node.log_prob for node in nodes], abs=2e-3
            )


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_a_switch_changes_what_it_changes_in_torch(switches, page, trained, pairs):
    model, differences = changed(trained.model, **switches), []
    for pair in pairs[:8]:
        source, target = ids_of(trained, pair)
        found = unpacked(page.evaluate("given => logitsOf(...given)", [source, target, switches]))
        torch.testing.assert_close(
            found, torch_logits(model, source, target, switches.get("cut", ())), atol=1e-3, rtol=0
        )
        differences.append((found - torch_logits(trained.model, source, target)).abs().max().item())
    assert max(differences) > 0.05


def attention_tensors(module, norm, x, memory=None, mask=None):
    normed = norm(x)
    query = split_heads(module._project_rows(normed, slice(0, module.dim)), module.num_heads)
    key, value = module.project_memory(normed if memory is None else memory)
    scores = query @ key.mT
    scaled = scores / math.sqrt(module.head_dim)
    masked = scaled if mask is None else scaled.masked_fill(~mask, -math.inf)
    context, weights = attend(scaled, value, mask)
    each = {"query": query, "key": key, "value": value, "scores": scores, "scaled": scaled, "masked": masked}
    each |= {"weights": weights, "context": context}
    concat = merge_heads(context)
    projected = module.out_proj(concat)
    tensors = {"x": x, "normed": normed, "concat": concat, "projected": projected, "output": x + projected}
    heads = {
        f"heads.{head}.{name}": tensor[:, head] for name, tensor in each.items() for head in range(module.num_heads)
    }
    return tensors | heads | ({} if memory is None else {"memory": memory})


def feed_forward_tensors(module, norm, x):
    normed = norm(x)
    hidden = module.linear1(normed)
    active = hidden.relu()
    projected = module.linear2(active)
    names = {"x": x, "normed": normed, "hidden": hidden, "active": active, "projected": projected}
    return names | {"output": x + projected}


@torch.no_grad()
def torch_trace(model, source, target):
    """Every tensor of every block, by "block:tensor"."""
    trace = {}

    def add(block, tensors):
        trace.update({f"{block}:{name}": tensor[0] for name, tensor in tensors.items()})
        return tensors["output"]

    def embed(stack, embedding, token_ids):
        token_ids = torch.tensor([token_ids])
        tokens = embedding.token_embedding(token_ids) * embedding.scale
        positions = embedding.sinusoids[None, : token_ids.size(1)]
        return add(f"{stack}.embedding", {"tokens": tokens, "positions": positions, "output": embedding(token_ids)})

    x = embed("encoder", model.source_embedding, source)
    for number, layer in enumerate(model.encoder.layers):
        x = add(f"encoder.{number}.self_attn", attention_tensors(layer.self_attn, layer.norm1, x))
        x = add(f"encoder.{number}.feed_forward", feed_forward_tensors(layer.feed_forward, layer.norm2, x))
    memory = add("encoder.norm", {"x": x, "output": model.encoder.norm(x)})
    x, mask = embed("decoder", model.target_embedding, [BOS_ID, *target[:-1]]), causal_mask(len(target))
    for number, layer in enumerate(model.decoder.layers):
        x = add(f"decoder.{number}.self_attn", attention_tensors(layer.self_attn, layer.norm1, x, mask=mask))
        x = add(f"decoder.{number}.cross_attn", attention_tensors(layer.cross_attn, layer.norm2, x, memory))
        x = add(f"decoder.{number}.feed_forward", feed_forward_tensors(layer.feed_forward, layer.norm3, x))
    x = add("decoder.norm", {"x": x, "output": model.decoder.norm(x)})
    logits = model.lm_head(x)
    add("lm_head", {"x": x, "logits": logits, "probs": logits.softmax(-1), "output": x})
    del trace["lm_head:output"]
    return trace


def test_every_tensor_of_the_trace_is_that_of_torch(page, trained, pairs):
    for pair in pairs[:3]:
        source, target = ids_of(trained, pair)
        found = page.evaluate("([source, target]) => traceOf(forced(source, target, {}))", [source, target])
        expected = torch_trace(trained.model, source, target)
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            message = lambda text, name=name: f"{name}: {text}"  # noqa: E731
            torch.testing.assert_close(unpacked(found[name]), tensor, atol=1e-4, rtol=1e-5, msg=message)


def test_the_trace_grows_by_a_row_and_earlier_rows_stay(page, trained, pairs):
    source, _ = ids_of(trained, pairs[0])
    code = """ids => { const run = model.start(ids), traces = [];
        while (!run.done) { run.step(); traces.push([traceOf(run), run.cache[0].key[0].rows, run.cache[1].memoryValue[3].rows]); }
        return traces; }"""
    traces = page.evaluate(code, source)
    final, _, _ = traces[-1]
    for step, (trace, cached, in_memory) in enumerate(traces, 1):
        assert (cached, in_memory) == (step, len(source))
        for name, matrix in trace.items():
            grows = not name.startswith("encoder") and not name.endswith(":memory")
            grows &= not ("cross_attn" in name and name.endswith((".key", ".value")))
            assert matrix["rows"] == (step if grows else len(source))
            now = unpacked(matrix)
            assert torch.equal(now, unpacked(final[name])[: len(now), : now.size(1)])


def test_a_sentence_is_split_as_python_splits_it(page, trained):
    for text in ("The old KING  sleeps.", "the king, the queen!", "“the dog” sees a cat?"):
        words = read_sentence(text, trained.english)
        found = page.evaluate("text => model.tokenize(text)", text)
        assert found == {"ids": [*trained.english.encode(words), EOS_ID], "tokens": [*words, "<eos>"]}


PROBLEM = """text => { try { model.tokenize(text); }
    catch ({ name, kind, message, word, suggestions }) { return { name, kind, message, word, suggestions }; } }"""


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [("", "empty", "The sentence is empty"), (" ?! ", "empty", "empty"), ("the " * 27, "long", "27 words.*has 26")],
)
def test_an_empty_or_too_long_sentence_is_explained(text, kind, words, page):
    problem = page.evaluate(PROBLEM, text)
    assert (problem["name"], problem["kind"], problem["suggestions"]) == ("ReaderError", kind, [])
    assert re.search(words, problem["message"])


@pytest.mark.parametrize(
    ("text", "word", "suggestion"),
    [
        ("the kinf sleeps", "kinf", "king"),
        ("the old king doesn't sleep", "doesn't", "does not"),
        ("the hourse sleeps", "hourse", "horse"),
        ("the <eos> king", "eos", None),
        ("the xylophone sleeps", "xylophone", None),
    ],
)
def test_an_unknown_word_comes_with_known_ones_that_look_alike(text, word, suggestion, page):
    problem = page.evaluate(PROBLEM, text)
    assert (problem["kind"], problem["word"]) == ("unknown", word)
    assert word in problem["message"]
    assert suggestion is None or suggestion in problem["suggestions"]


def test_a_model_of_the_notebook_computes_as_the_stored_one(page, trained):
    bundle = model_bundle(trained.model, trained.english, trained.french)
    read = """bundle => { const run = openTransformer(bundle).translate(model.tokenize("the old king does not sleep").ids);
        return [run.text, run.logProb]; }"""
    assert page.evaluate(read, bundle) == page.evaluate(read, stored_bundle())
