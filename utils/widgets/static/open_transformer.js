// The trained encoder-decoder, open: tokens flow up both stacks, every block opens into its matrices. All of it is computed here, by
// transformer.js, from the weights in data.bundle: there are no inputs, and no answer to wait for.
//   data: {title, bundle, badges: {part: {exercise, passed}}}
//   view: {text, step, block, head, focus, off, cut, positions, scaling, beams}; what is missing is as in START

const START = { step: null, block: null, head: 0, focus: null, off: [], cut: [], positions: true, scaling: true, beams: 1 };
const ALL_ON = { off: [], cut: [], positions: true, scaling: true };
// The menu: sentences, and switches that change their translation.
const EXAMPLES = [
  ["Negation: not → ne … pas", { text: "the old king does not see the black cat" }],
  ["Order: adjectives before and after the noun", { text: "the small black cat sleeps" }],
  ["Agreement at a distance", { text: "the kings who see the queen are tired" }],
  ["Try: agreement without head 2 of the last decoder self-attention", { text: "the kings who see the queen are tired", off: ["decoder.1.self_attn.1"] }],
  ["Try: the plural of the verb, one link cut (ne → does)", { text: "the old king does not sleep", cut: [{ layer: 1, query: 4, key: 3 }] }],
  ["Try: the negation, one link cut (reine → not)", { text: "the queen does not read the red book", cut: [{ layer: 1, query: 2, key: 3 }] }],
  ["Try: who sees whom, one link cut (rois → see)", { text: "the kings who see the queen are tired", cut: [{ layer: 1, query: 2, key: 3 }] }],
  ["Try: a verb twice, without the scaling", { text: "the queen works but the crisis is strange", scaling: false }],
  ["Try: word order without positions", { text: "the black cow does not see the white horse", positions: false }],
];
const PACE = 850; // milliseconds of one step while playing
const FLOW = 650; // of them for the flow through the stack
const [EDGE, SELF, FLAT, NORM, GAP, LAYER_GAP] = [20, 56, 25, 21, 6, 10]; // pixels: the strip with the layer's name, heights of blocks, gaps
const FAINT = 0.1; // a smaller weight has no curve
const KINDS = {
  embedding: { name: "Embedding", color: "--c-muted" },
  self_attn: { name: "Self-attention", color: "--c-query" },
  cross_attn: { name: "Cross-attention", color: "--c-output" },
  feed_forward: { name: "Feed-forward", color: "--c-value" },
  norm: { name: "Norm", color: "--c-muted" },
  lm_head: { name: "Next token", color: "--c-output" },
};

// The exercise behind an operation, as badges name it; the one behind the whole block stands in its heading.
const OPERATIONS = { positions: "positions", normed: "norm", "causal mask": "mask", weights: "softmax", context: "attention", probabilities: "greedy" };

const kindOf = (id) => (id === "lm_head" ? id : id.split(".").at(-1));
const stackOf = (id) => (id.startsWith("encoder") ? "encoder" : "decoder");
const isAttention = (id) => id.endsWith("_attn");
const glue = (tokens) => tokens.map((token, index) => (index < tokens.length - 1 && !token.endsWith("'") ? `${token} ` : token));
const fixed = (number, digits = 2) => (number === -Infinity ? "−∞" : minus(number.toFixed(digits)).replace(/^−(0(\.0+)?)$/, "$1"));
const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function nameOf(id) {
  const [stack, layer, kind] = id.split(".");
  if (id === "lm_head") return "Decoder · output layer and softmax";
  const side = stack === "encoder" ? "Encoder" : "Decoder";
  if (!kind) return `${side} · ${KINDS[layer].name.toLowerCase()}`;
  const causal = id.startsWith("decoder") && kind === "self_attn" ? "causal self-attention" : KINDS[kind].name.toLowerCase();
  return `${side} · layer ${Number(layer) + 1} · ${causal}`;
}

function headName(key) {
  const [stack, layer, kind, head] = key.split(".");
  return `${stack} layer ${Number(layer) + 1}, ${KINDS[kind].name.toLowerCase()}, head ${Number(head) + 1}`;
}

function differences(before, now) {
  // Longest common subsequence: for each token of both whether the other has it at this place.
  const longest = Array.from({ length: before.length + 1 }, () => new Array(now.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      longest[i][j] = before[i] === now[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  const same = [before.map(() => false), now.map(() => false)];
  for (let [i, j] = [0, 0]; i < before.length && j < now.length; )
    if (before[i] === now[j]) same[0][i++] = same[1][j++] = true;
    else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
    else j++;
  return same;
}

function build(ui) {
  const model = openTransformer(ui.data.bundle);
  const badges = ui.data.badges ?? {};
  const numHeads = model.config.num_heads;
  const numLayers = model.config.num_layers;
  const known = (text) => {
    try {
      return Boolean(model.tokenize(text));
    } catch {
      return false;
    }
  };
  const examples = EXAMPLES.filter(([, { text }]) => known(text));
  const view = () => ({ ...START, ...ui.view });

  // The sentence and its translation, side by side as the two stacks below

  const top = html("div", ui.body, "course-open-top");
  const left = html("div", top, "course-open-source");
  const line = html("label", left, "course-open-line");
  html("span", line, "course-open-language").textContent = "English";
  const field = html("input", line, "", { type: "text", "aria-label": "English sentence", autocomplete: "off" });
  field.spellcheck = false;
  field.addEventListener("keydown", (event) => event.key === "Enter" && send(field.value));
  button(line, "Translate", () => send(field.value), "course-open-main");
  const below = html("div", left, "course-open-below");
  const menu = html("select", below, "", { "aria-label": "examples" });
  html("option", menu, "", { value: -1 }).textContent = "Examples …";
  examples.forEach(([name], index) => (html("option", menu, "", { value: index }).textContent = name));
  menu.addEventListener("change", () => {
    if (menu.value < 0) ui.setView({}); // shows again which one it is
    else change({ ...ALL_ON, block: null, beams: 1, ...examples[menu.value][1] });
  });
  const problem = html("div", below, "course-open-problem", { role: "alert" });
  const right = html("div", top, "course-open-target");
  const output = html("p", right, "course-open-line course-open-output");
  html("span", output, "course-open-language").textContent = "French";
  const words = html("span", output, "course-open-words", { "aria-live": "polite" });
  const compared = html("p", right, "course-open-compared", { "aria-live": "polite" });

  // Decoding and switches

  const bar = html("div", ui.body, "course-open-bar");
  const walk = html("div", bar, "course-open-group", { role: "group", "aria-label": "decoding step by step" });
  const reset = button(walk, "Reset", () => (pause(), go(0)));
  const back = button(walk, "Back", () => (pause(), go(step() - 1)));
  const next = button(walk, "Step", () => (pause(), go(step() + 1)));
  const play = button(walk, "Play", () => toggle(), "course-open-play");
  const said = html("output", walk, "course-open-said", { "aria-live": "polite" });
  const search = html("label", bar, "course-open-group");
  html("span", search, "course-open-roomy").textContent = "Decoding";
  const widths = html("select", search, "", { "aria-label": "decoding: greedy or beam search" });
  [1, 2, 3, 4].forEach((width) => (html("option", widths, "", { value: width }).textContent = width === 1 ? "greedy" : `beam of ${width}`));
  widths.addEventListener("change", () => {
    const beams = Number(widths.value);
    change({ beams, block: beams > 1 ? "beam" : null, cut: view().cut });
  });
  const tree = button(bar, "show all", () => open("beam"), "course-open-chip");
  tree.setAttribute("aria-label", "show all hypotheses");
  tree.remove(); // it stands beside the translation
  const switches = html("div", bar, "course-open-group", { role: "group", "aria-label": "switches" });
  const boxes = [["positions", "positions"], ["scaling", "scaling 1/√dₖ"]].map(([name, label]) => {
    const box = html("label", switches, "course-check");
    const input = html("input", box, "", { type: "checkbox" });
    html("span", box).textContent = label;
    input.addEventListener("change", () => change({ [name]: input.checked, cut: view().cut }));
    return [name, input];
  });
  
  // The diagram

  const scroll = html("div", ui.body, "course-open-scroll");
  const stage = html("div", scroll, "course-open-stage");
  const blocksBox = html("div", stage, "course-open-blocks", { role: "group", "aria-label": "blocks: arrow keys move, Enter opens, Space plays" });
  const base = html("canvas", stage, "course-open-base", { "aria-hidden": "true" });
  const over = html("canvas", stage, "course-open-over", { "aria-hidden": "true" });
  const labels = html("div", stage, "course-open-labels");
  const chips = html("div", stage, "course-open-chips", { role: "group", "aria-label": "what is switched off" });
  const caption = html("p", ui.body, "course-open-caption", { "aria-live": "polite" });
  const panel = html("div", stage, "course-open-panel", { role: "region", "aria-label": "open block" }); // in a deck every section is a slide

  let shown = null; // what the sentence and the switches give; `run` is decoded to its end, a step shows its first rows
  let failure = null; // the last text that could not be translated: {text, problem}
  let plan = null; // where everything stands
  let blocks = new Map(); // id to {button, thumbs}
  let tokenLabels = { source: [], target: [], next: [] };
  let colors = {};
  let hovered = null; // {side, index} under the pointer
  let hoveredHead = null; // {id, head} of a thumbnail under the pointer
  // What the diagram shows without any attention, and with that of all blocks: painted once for each step.
  const [still, whole] = [document.createElement("canvas"), document.createElement("canvas")];
  let timer = null;
  const ruler = document.createElement("canvas").getContext("2d");
  let flowing = null; // the running animation
  let panelKey = ""; // what the panel was drawn for
  let sheet = null; // the matrices of the open block
  let chosen = null; // {id, cell}: where the keyboard was in a block that is drawn again
  let current = "encoder.embedding"; // the block that Tab reaches

  // What the reader does

  const last = () => shown.outputs.length;
  const step = () => Math.min(view().step ?? last(), last());

  function send(text) {
    change({ text: text.trim(), focus: null });
  }
  function change(changes) {
    // Another model or another sentence: links are named by positions, so another sentence has none that are cut.
    pause();
    ui.setView({ step: null, cut: [], focus: null, ...changes });
    if (!failure) flow("all");
  }
  function go(goal) {
    const to = Math.min(Math.max(goal, 0), last());
    ui.setView({ step: to });
  }
  function toggle() {
    if (timer) return pause();
    if (step() === last()) go(0);
    const tick = () => {
      if (step() < last()) {
        go(step() + 1);
        flow("step");
      }
      if (step() === last()) pause();
    };
    timer = setInterval(tick, PACE);
    if (step() === 0) flow("encoder");
    else tick();
    showWalk();
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    if (shown) showWalk();
  }
  function open(id) {
    ui.setView({ block: id });
    panel.querySelector(".course-open-close")?.focus({ preventScroll: true });
  }
  function close() {
    const id = view().block;
    ui.setView({ block: null });
    (blocks.get(id)?.button ?? tree).focus({ preventScroll: true });
  }
  ui.onRemove(() => {
    clearInterval(timer);
    cancelAnimationFrame(flowing?.frame);
  });
  ui.root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && (view().block || view().focus)) {
      event.preventDefault();
      hovered = null;
      if (view().block) close();
      else ui.setView({ focus: null });
    }
    if (event.key === " " && !event.target.closest("input, select, .course-open-top button, .course-open-bar button, .course-open-panel button")) {
      event.preventDefault();
      toggle();
    }
  });
  // A block is opened by Enter: Space, which would press it, plays.
  blocksBox.addEventListener("keyup", (event) => event.key === " " && event.preventDefault());
  labels.addEventListener("keyup", (event) => event.key === " " && event.preventDefault());

  // What the model makes of it

  function compute() {
    const { text, off, cut, positions, scaling, beams } = view();
    const key = JSON.stringify([text, off, cut, positions, scaling, beams]);
    if (shown?.key === key && !failure) return;
    let tokenized;
    try {
      tokenized = model.tokenize(text ?? examples[0][1].text);
    } catch (thrown) {
      if (!thrown.kind) throw thrown;
      failure = { text, problem: thrown };
      if (shown) return;
      tokenized = model.tokenize(examples[0][1].text);
    }
    if (shown?.key === key) return (failure = null);
    if (failure?.text !== text) failure = null;
    const { ids, tokens } = tokenized;
    const changed = off.length > 0 || cut.length > 0 || !positions || !scaling;
    const state = { heads: new Set(off), cut, positions, scaling };
    const greedy = model.translate(ids, {});
    const beam = beams > 1 ? model.beam(ids, beams, state) : null;
    const run = beam ? beam.hypotheses[0].run : changed ? model.translate(ids, state) : greedy;
    const before = beams > 1 && changed ? model.beam(ids, beams, {}).hypotheses[0].run : greedy;
    shown = { key, source: tokens, inputs: run.inputs, outputs: run.tokens, run, before, beam, changed: changed || Boolean(beam), switched: changed };
    plan = null;
    panelKey = "";
  }

  const tensorsOf = (id) => shown.run.trace.get(id).tensors;
  const count = (side) => (side === "encoder" || side === "source" ? shown.source.length : shown.inputs.length);
  const done = (side) => (side === "encoder" || side === "source" ? shown.source.length : step());

  // Layout

  function lay() {
    const width = ui.body.clientWidth;
    if (!width) return false;
    const [n, m] = [count("source"), count("target")];
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `15px ${getComputedStyle(ui.root).fontFamily}`; // as .course-open-token
    const widest = Math.max(...[...shown.source, ...shown.inputs, ...shown.outputs].map((token) => pen.measureText(token).width));
    const wire = Math.max(2.5, Math.min(5, 50 / n));
    const loom = n * wire + 26;
    const roomy = width >= 1200 ? (Object.keys(badges).length ? 182 : 164) : 142; // for the longest name
    const least = width - 2 * (142 + EDGE) - loom < 19 * (n + m + 1) ? 128 : roomy;
    const free = width - 2 * (least + EDGE) - loom;
    const column = Math.max(15, Math.min(104, free / (n + m + 1)));
    const gutter = least + Math.max(0, Math.min(60, (free - column * (n + m + 1)) / 2));
    const [wideN, wideM] = [column * (n + 0.5), column * (m + 0.5)];
    const total = 2 * (gutter + EDGE) + loom + wideN + wideM;
    const offset = Math.max(0, (width - total) / 2);
    const turned = widest + 3 > column;
    const steep = turned && column < 31;
    const labelHigh = turned ? Math.min(88, (steep ? 1 : 0.6) * widest + (steep ? 10 : 17)) : 26;
    const encoder = { left: offset + EDGE, gutter: offset + EDGE, columns: offset + EDGE + gutter, width: gutter + wideN };
    const start = offset + EDGE + gutter + wideN + loom;
    const decoder = { left: start, gutter: start + wideM, columns: start, width: gutter + wideM };
    const x = (side, index) => (side === "source" ? encoder : decoder).columns + column * (index + 0.75);
    // From the top down.
    let y = 0;
    const rows = new Map();
    const put = (id, high) => {
      rows.set(id, { y, high });
      y += high + GAP;
    };
    put("next", labelHigh);
    put("lm_head", FLAT);
    put("decoder.norm", NORM);
    rows.set("encoder.norm", rows.get("decoder.norm"));
    const layers = [];
    for (let layer = numLayers - 1; layer >= 0; layer--) {
      y += LAYER_GAP - GAP;
      const from = y;
      put(`decoder.${layer}.feed_forward`, FLAT);
      put(`decoder.${layer}.cross_attn`, SELF);
      put(`decoder.${layer}.self_attn`, SELF);
      for (const kind of ["feed_forward", "self_attn"]) rows.set(`encoder.${layer}.${kind}`, rows.get(`decoder.${layer}.${kind}`));
      layers.push({ layer, from: from - 4, to: y - GAP + 4 });
    }
    y += LAYER_GAP - GAP;
    put("decoder.embedding", FLAT);
    rows.set("encoder.embedding", rows.get("decoder.embedding"));
    put("labels", labelHigh);
    plan = { width: Math.max(width, total), column, gutter, turned, steep, labelHigh, encoder, decoder, x, rows, layers, high: y - GAP + 2, loom: { wire, left: offset + EDGE + gutter + wideN, width: loom } };
    return true;
  }

  const order = () => [...shown.run.trace.keys()];

  function buildStage() {
    const { width, high, rows, encoder, decoder, gutter } = plan;
    stage.style.width = `${width}px`;
    stage.style.height = `${high}px`;
    const held = blocksBox.contains(document.activeElement) || labels.contains(document.activeElement);
    blocksBox.replaceChildren();
    blocks = new Map();
    for (const id of order()) {
      const side = stackOf(id);
      const place = side === "encoder" ? encoder : decoder;
      const { y, high: tall } = rows.get(id);
      const kind = kindOf(id);
      const box = html("button", blocksBox, `course-open-block course-open-${side} course-open-is-${kind}`, { type: "button", "data-block": id, tabindex: id === current ? 0 : -1 });
      box.style.cssText = `left:${place.left}px;top:${y}px;width:${place.width}px;height:${tall}px;--own:var(${KINDS[kind].color})`;
      const about = html("span", box, "course-open-about");
      about.style.width = `${gutter - 6}px`;
      const title = html("span", about, "course-open-name");
      title.textContent = id.startsWith("decoder") && kind === "self_attn" && gutter >= 164 ? "Causal self-attention" : KINDS[kind].name;
      if (badges[kind]) badge(title, badges[kind]);
      const thumbs = [];
      if (isAttention(id)) {
        const row = html("span", about, "course-open-thumbs");
        for (let head = 0; head < numHeads; head++) {
          const thumb = html("span", row, "course-open-thumb", { "data-head": head });
          thumbs.push({ thumb, canvas: html("canvas", thumb), rowMark: html("span", thumb, "course-open-row"), columnMark: html("span", thumb, "course-open-column") });
        }
      }
      box.addEventListener("click", (event) => {
        const head = event.target.closest?.("[data-head]");
        if (head) ui.view.head = Number(head.dataset.head);
        open(id);
      });
      box.addEventListener("focus", () => setCurrent(id));
      box.addEventListener("keydown", (event) => moveBlock(event, id));
      const said = badges[kind] ? `, exercise ${badges[kind].exercise} ${badges[kind].passed ? "passed" : "not passed yet"}` : "";
      box.setAttribute("aria-label", `${nameOf(id)}${said}: open`);
      blocks.set(id, { button: box, thumbs });
    }
    buildLabels();
    if (held) blocks.get(current)?.button.focus({ preventScroll: true });
    for (const canvas of [base, over]) {
      const scale = devicePixelRatio || 1;
      set(canvas, { width: Math.round(width * scale), height: Math.round(high * scale) });
      canvas.style.width = `${width}px`;
      canvas.style.height = `${high}px`;
    }
    chips.style.cssText = `left:${encoder.left + 92}px;width:${decoder.left - encoder.left - 100}px;max-height:${rows.get("lm_head").y - 20}px`;
    panel.style.height = `${rows.get("labels").y - 6}px`;
    scroll.classList.toggle("course-open-wide", width > ui.body.clientWidth + 1);
    panel.style.width = `${Math.min(width, ui.body.clientWidth)}px`;
  }

  const exercise = (part) => (badges[part] ? ` Exercise ${badges[part].exercise}${badges[part].passed ? ": passed." : "."}` : "");

  function badge(parent, { exercise, passed }, inWords = false) {
    const said = `Exercise ${exercise}: ${passed ? "passed with your own code" : "not passed yet"}`;
    const mark = html("span", parent, `course-open-badge${passed ? " course-open-passed" : ""}`, { title: said });
    mark.textContent = passed ? "✓" : "";
    if (!inWords) return;
    mark.append(` ${exercise}`);
    html("span", mark, "course-open-roomy").textContent = passed ? " passed with your own code" : " not passed yet";
  }

  function setCurrent(id) {
    blocks.get(current)?.button.setAttribute("tabindex", -1);
    current = id;
    blocks.get(id)?.button.setAttribute("tabindex", 0);
  }

  function moveBlock(event, id) {
    const own = order().filter((other) => stackOf(other) === stackOf(id));
    const at = own.indexOf(id);
    const { y } = plan.rows.get(id);
    const nearest = (side) =>
      order()
        .filter((other) => stackOf(other) === side)
        .reduce((best, other) => (Math.abs(plan.rows.get(other).y - y) < Math.abs(plan.rows.get(best).y - y) ? other : best));
    const goal = {
      ArrowUp: own[Math.min(at + 1, own.length - 1)],
      ArrowDown: own[Math.max(at - 1, 0)],
      ArrowLeft: nearest("encoder"),
      ArrowRight: nearest("decoder"),
      Home: own[0],
      End: own.at(-1),
    }[event.key];
    if (!goal) return;
    event.preventDefault();
    blocks.get(goal).button.focus({ preventScroll: true });
  }

  function buildLabels() {
    const { rows, x, column, turned, steep } = plan;
    labels.replaceChildren();
    labels.className = `course-open-labels${turned ? " course-open-turned" : ""}${steep ? " course-open-steep" : ""}`;
    const row = (side, tokens, name, place, up) => {
      const group = html("div", labels, `course-open-tokens${up ? " course-open-up" : ""}`, { role: "group", "aria-label": name });
      return tokens.map((token, index) => {
        const focusable = side !== "next";
        const label = html("span", group, `course-open-token course-open-${side}-token`, focusable ? { role: "button", tabindex: -1 } : { "aria-hidden": "true" });
        label.style.cssText = `left:${x(side === "source" ? "source" : "target", index)}px;top:${place.y}px;height:${place.high}px;width:${turned ? 20 : column - 3}px`;
        html("span", label).textContent = token;
        if (focusable) {
          label.addEventListener("focus", () => pin(side, index));
          label.addEventListener("click", () => label.focus({ preventScroll: true }));
          label.addEventListener("keydown", (event) => moveToken(event, side, index));
        }
        return label;
      });
    };
    tokenLabels = {
      source: row("source", shown.source, "source tokens: arrow keys move", rows.get("labels")),
      target: row("target", shown.inputs, "decoder input: arrow keys move", rows.get("labels")),
      next: row("next", shown.outputs, "predicted tokens", rows.get("next"), true),
    };
    const encoder = html("span", labels, "course-open-stack");
    encoder.textContent = "Encoder";
    encoder.style.cssText = `left:${plan.encoder.left}px;top:2px`;
    const decoder = html("span", labels, "course-open-stack course-open-stack-right");
    decoder.textContent = "Decoder";
    decoder.style.cssText = `left:${plan.decoder.gutter}px;width:${plan.gutter - 4}px;top:2px`;
    const memory = html("span", labels, "course-open-note");
    memory.textContent = "memory";
    memory.style.cssText = `left:${plan.loom.left - 10}px;width:${plan.loom.width + 10}px;top:${rows.get("lm_head").y - 22}px`;
    for (const [side, words] of [["encoder", "source tokens"], ["decoder", "tokens so far"]]) {
      const note = html("span", labels, "course-open-note");
      note.textContent = words;
      note.style.cssText = `left:${plan[side].gutter + 8}px;width:${plan.gutter - 16}px;top:${rows.get("labels").y + 3}px;${side === "encoder" ? "text-align:right" : ""}`;
    }
    for (const { layer, from, to } of plan.layers)
      for (const side of ["encoder", "decoder"]) {
        const name = html("span", labels, "course-open-layer");
        name.textContent = `layer ${layer + 1}`;
        const at = side === "encoder" ? plan.encoder.left - EDGE : plan.decoder.left + plan.decoder.width + 2;
        name.style.cssText = `left:${at}px;top:${from}px;height:${to - from}px`;
      }
  }

  function pin(side, index) {
    hovered = null;
    const now = view().focus;
    if (now?.[0] !== side || now[1] !== index) ui.setView({ focus: [side, index] });
  }

  function moveToken(event, side, index) {
    const other = side === "source" ? "target" : "source";
    const row = tokenLabels[side];
    const goal = { ArrowLeft: [side, index - 1], ArrowRight: [side, index + 1], Home: [side, 0], End: [side, row.length - 1], ArrowUp: [other, index], ArrowDown: [other, index] }[event.key];
    if (!goal) return;
    event.preventDefault();
    const [to, at] = goal;
    tokenLabels[to][Math.min(Math.max(at, 0), tokenLabels[to].length - 1)].focus({ preventScroll: true });
  }

  // Painting

  function readColors() {
    for (const name of ["ground", "text", "muted", "line", "grid", "raised", "query", "key", "value", "output", "strong", "focus"]) colors[name] = rgb(ui.root, `--c-${name}`);
  }
  const ink = (name, alpha = 1) => `rgba(${colors[name].join(",")},${alpha})`;
  const blend = (name, weight) => colors.ground.map((part, at) => part + (colors[name][at] - part) * weight);

  function hatched(pen) {
    const tile = Object.assign(document.createElement("canvas"), { width: 12, height: 12 });
    const mark = tile.getContext("2d");
    mark.fillStyle = `rgb(${colors.raised})`;
    mark.fillRect(0, 0, 12, 12);
    mark.strokeStyle = ink("muted", 0.75);
    mark.lineWidth = 1.5;
    for (const shift of [-6, 0, 6, 12]) {
      mark.beginPath();
      mark.moveTo(shift - 2, 14 - 0);
      mark.lineTo(shift + 14 - 2, 0);
      mark.stroke();
    }
    return pen.createPattern(tile, "repeat");
  }

  function prepared(canvas) {
    const pen = canvas.getContext("2d");
    const scale = devicePixelRatio || 1;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    return pen;
  }

  // Attention weights that the diagram shows for a block: of the head under the pointer, or the largest of the heads that are on.
  function weightsOf(id) {
    const { heads } = tensorsOf(id);
    if (hoveredHead?.id === id) return (i, j) => at(heads[hoveredHead.head].weights, i, j);
    return largestOf(id);
  }

  function largestOf(id) {
    const { heads } = tensorsOf(id);
    const on = heads.filter(({ off }) => !off);
    return (i, j) => on.reduce((most, head) => Math.max(most, at(head.weights, i, j)), 0);
  }
  const at = (matrix, row, column) => matrix.data[row * matrix.cols + column];

  const sidesOf = (id) => (id.endsWith("cross_attn") ? ["target", "source"] : id.startsWith("encoder") ? ["source", "source"] : ["target", "target"]);

  // Where the keys of cross-attention enter its block: one port for each source token.
  function port(id, index) {
    const { y, high } = plan.rows.get(id);
    return [plan.decoder.left, y + 7 + ((high - 14) * (index + 0.5)) / count("source")];
  }

  function curve(pen, id, query, key) {
    const { y, high } = plan.rows.get(id);
    const end = plan.x(sidesOf(id)[0], query);
    pen.beginPath();
    if (id.endsWith("cross_attn")) {
      const [x, from] = port(id, key);
      pen.moveTo(x, from);
      pen.bezierCurveTo(end - 4, from, end, from, end, y + 6);
    } else {
      const start = plan.x(sidesOf(id)[0], key);
      pen.moveTo(start, y + high - 3);
      pen.bezierCurveTo(start, y + high / 2, end, y + high / 2, end, y + 6);
    }
    pen.stroke();
  }

  function wirePath(pen, index, upTo = 1) {
    // From the encoder's top to the lowest cross-attention.
    const { loom, rows, x } = plan;
    const n = count("source");
    const from = x("source", index);
    const norm = rows.get("encoder.norm");
    const turn = norm.y - 6 - (n - index) * Math.min(loom.wire, (FLAT + 4) / n);
    const down = loom.left + 12 + (n - index - 1) * loom.wire;
    const [, low] = port("decoder.0.cross_attn", index);
    const radius = 6;
    pen.beginPath();
    pen.moveTo(from, norm.y);
    pen.arcTo(from, turn, down, turn, radius);
    pen.arcTo(down, turn, down, low, radius);
    for (let layer = numLayers - 1; layer >= 0; layer--) {
      const [end, height] = port(`decoder.${layer}.cross_attn`, index);
      if (layer) {
        pen.lineTo(down, height - radius);
        pen.arcTo(down, height, end, height, radius);
        pen.lineTo(end, height);
        pen.moveTo(down, height - radius);
      } else {
        pen.arcTo(down, height, end, height, radius);
        pen.lineTo(end, height);
      }
    }
    pen.stroke();
  }

  function stream(pen, side, index) {
    const stack = side === "source" ? "encoder" : "decoder";
    const x = plan.x(side, index);
    const topRow = plan.rows.get(stack === "encoder" ? "encoder.norm" : "next");
    pen.beginPath();
    pen.moveTo(x, plan.rows.get("labels").y);
    pen.lineTo(x, stack === "encoder" ? topRow.y : topRow.y + topRow.high);
    pen.stroke();
  }

  function glyph(pen, id, tensor, index, side, sequential) {
    // A vector as a small grid of its numbers.
    const { y, high } = plan.rows.get(id);
    const columns = tensor.cols > 128 ? 32 : 16;
    const lines = Math.ceil(tensor.cols / columns);
    const wide = Math.min(plan.column - 4, 52);
    const tall = high - 10;
    const [left, from] = [plan.x(side, index) - wide / 2, y + 5];
    const data = tensor.data.subarray(index * tensor.cols, (index + 1) * tensor.cols);
    let most = 1e-6;
    for (const value of data) most = Math.max(most, Math.abs(value));
    pen.fillStyle = `rgb(${colors.ground})`;
    pen.fillRect(left - 1, from - 1, wide + 2, tall + 2);
    const [w, h] = [wide / columns, tall / lines];
    data.forEach((value, place) => {
      const weight = (Math.abs(value) / most) ** 0.8;
      if (weight < 0.06) return;
      pen.fillStyle = `rgba(${colors[sequential ?? (value > 0 ? "query" : "output")].join(",")},${weight.toFixed(2)})`;
      pen.fillRect(left + (place % columns) * w, from + Math.floor(place / columns) * h, w + 0.2, h + 0.2);
    });
    pen.strokeStyle = ink("line");
    pen.lineWidth = 1;
    pen.strokeRect(left - 0.5, from - 0.5, wide + 1, tall + 1);
  }

  function cleared(canvas) {
    if (canvas.width !== base.width || canvas.height !== base.height) set(canvas, { width: base.width, height: base.height });
    return prepared(canvas);
  }

  const copyTo = (pen, canvas) => pen.drawImage(canvas, 0, 0, canvas.width / (devicePixelRatio || 1), canvas.height / (devicePixelRatio || 1));

  function paintBase() {
    paintStill(cleared(still));
    const pen = cleared(whole);
    copyTo(pen, still);
    order().filter(isAttention).forEach((id) => paintAttention(pen, id, largestOf(id)));
    paintThumbs();
    paintHead();
  }

  function paintHead() {
    // The diagram, and in it the block whose head is under the pointer with the weights of that head alone.
    const pen = prepared(base);
    copyTo(pen, whole);
    if (!hoveredHead) return;
    const { y, high } = plan.rows.get(hoveredHead.id);
    const { left, width } = plan[stackOf(hoveredHead.id)];
    pen.save();
    pen.beginPath();
    pen.rect(left, y, width, high);
    pen.clip();
    pen.clearRect(left, y, width, high);
    copyTo(pen, still);
    paintAttention(pen, hoveredHead.id, weightsOf(hoveredHead.id));
    pen.restore();
  }

  function paintStill(pen) {
    pen.lineCap = "round";
    // Layers
    pen.setLineDash([5, 4]);
    pen.strokeStyle = ink("line");
    pen.lineWidth = 1;
    for (const { from, to } of plan.layers)
      for (const place of [plan.encoder, plan.decoder]) {
        pen.beginPath();
        pen.roundRect(place.left - 5.5, from - 0.5, place.width + 11, to - from, 9);
        pen.stroke();
      }
    // Residual streams; what is not decoded yet is dotted
    for (const side of ["source", "target"])
      for (let index = 0; index < count(side); index++) {
        const ready = index < done(side);
        pen.setLineDash(ready ? [] : [1, 5]);
        pen.strokeStyle = ink("muted", ready ? 0.55 : 0.5);
        pen.lineWidth = ready ? 2 : 1.2;
        stream(pen, side, index);
      }
    pen.setLineDash([]);
    pen.strokeStyle = ink("output", 0.45);
    pen.lineWidth = Math.min(1.6, plan.loom.wire / 2.4);
    for (let index = 0; index < count("source"); index++) wirePath(pen, index);
    for (const id of order()) {
      if (isAttention(id)) continue;
      const side = stackOf(id) === "encoder" ? "source" : "target";
      const kind = kindOf(id);
      for (let index = 0; index < done(side); index++) {
        if (kind === "lm_head") paintProbability(pen, index);
        else glyph(pen, id, tensorsOf(id)[kind === "feed_forward" ? "active" : "output"], index, side, kind === "feed_forward" ? "value" : undefined);
      }
    }
  }

  function paintAttention(pen, id, weight) {
    const [own, other] = sidesOf(id);
    const color = KINDS[kindOf(id)].color.slice(4);
    const { y, high } = plan.rows.get(id);
    for (let query = 0; query < done(own); query++)
      for (let key = 0; key < done(other); key++) {
        const value = weight(query, key);
        if (value < FAINT) continue;
        pen.strokeStyle = ink(color, 0.08 + 0.82 * value ** 1.5);
        pen.lineWidth = 0.6 + 3.6 * value ** 1.5;
        curve(pen, id, query, key);
      }
    // The branch is added to the residual stream.
    for (let query = 0; query < done(own); query++) {
      pen.fillStyle = `rgb(${colors.ground})`;
      pen.strokeStyle = ink("text", 0.85);
      pen.lineWidth = 1.2;
      const x = plan.x(own, query);
      pen.beginPath();
      pen.arc(x, y + 6, 4.5, 0, 7);
      pen.fill();
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x - 3, y + 6);
      pen.lineTo(x + 3, y + 6);
      pen.moveTo(x, y + 3);
      pen.lineTo(x, y + 9);
      pen.stroke();
    }
    // Keys and values in the cache
    if (id.startsWith("encoder")) return;
    const size = Math.max(3, Math.min(8, id.endsWith("cross_attn") ? (high - 14) / count("source") - 1 : 8));
    for (let index = 0; index < count(other); index++) {
      const [x, middle] = id.endsWith("cross_attn") ? [port(id, index)[0] + 5, port(id, index)[1]] : [plan.x("target", index) + 4, y + high - 9];
      ["key", "value"].forEach((name, place) => {
        const left = x + place * (size + 2);
        pen.lineWidth = 1.2;
        pen.strokeStyle = ink(name);
        pen.fillStyle = index < done(other) ? ink(name) : `rgb(${colors.ground})`;
        pen.fillRect(left, middle - size / 2, size, size);
        if (index >= done(other)) pen.strokeRect(left + 0.5, middle - size / 2 + 0.5, size - 1, size - 1);
      });
    }
  }

  function paintProbability(pen, index) {
    const { probs } = tensorsOf("lm_head");
    const { y, high } = plan.rows.get("lm_head");
    const probability = at(probs, index, shown.run.ids[index]);
    const wide = Math.min(plan.column - 5, 56);
    const left = plan.x("target", index) - wide / 2;
    pen.fillStyle = `rgb(${colors.ground})`;
    pen.fillRect(left, y + 4, wide, high - 8);
    pen.fillStyle = ink("output", 0.35);
    pen.fillRect(left, y + 4, wide * probability, high - 8);
    pen.strokeStyle = ink("line");
    pen.lineWidth = 1;
    pen.strokeRect(left + 0.5, y + 4.5, wide - 1, high - 9);
    if (wide < 34) return;
    pen.fillStyle = `rgb(${colors.text})`;
    pen.font = `14px ${getComputedStyle(ui.root).fontFamily}`;
    pen.textAlign = "center";
    pen.fillText(probability >= 0.995 ? "1.00" : probability.toFixed(2).slice(1), plan.x("target", index), y + high / 2 + 5);
  }

  function paintThumbs() {
    for (const [id, { thumbs }] of blocks) {
      const [own, other] = sidesOf(id);
      const color = KINDS[kindOf(id)].color.slice(4);
      thumbs.forEach(({ thumb, canvas }, head) => {
        const { weights, masked, off } = tensorsOf(id).heads[head];
        const [m, n] = [count(own), count(other)];
        const cell = Math.max(2, Math.floor(64 / Math.max(m, n)));
        set(canvas, { width: n * cell, height: m * cell });
        const pen = canvas.getContext("2d");
        pen.fillStyle = `rgb(${colors.ground})`;
        pen.fillRect(0, 0, n * cell, m * cell);
        const causal = id.startsWith("decoder") && own === other;
        const hatch = causal ? hatched(pen) : null;
        for (let i = 0; i < m; i++)
          for (let j = 0; j < n; j++) {
            if (causal && j > i) pen.fillStyle = hatch;
            else if (i >= done(own)) continue;
            else pen.fillStyle = `rgb(${blend(color, Math.sqrt(at(weights, i, j))).map(Math.round)})`;
            pen.fillRect(j * cell, i * cell, cell, cell);
          }
        if (!causal)
          for (let i = 0; i < done(own); i++)
            for (let j = 0; j < n; j++)
              if (at(masked, i, j) === -Infinity) {
                pen.strokeStyle = `rgb(${colors.text})`;
                pen.beginPath();
                pen.moveTo(j * cell, i * cell);
                pen.lineTo((j + 1) * cell, (i + 1) * cell);
                pen.moveTo((j + 1) * cell, i * cell);
                pen.lineTo(j * cell, (i + 1) * cell);
                pen.stroke();
              }
        thumb.classList.toggle("course-open-off", Boolean(off));
      });
    }
  }

  // Tracing a token

  const traced = () => {
    if (hovered) return hovered;
    const { focus } = view();
    if (!focus) return null;
    const index = Math.min(focus[1], done(focus[0]) - 1);
    return index < 0 ? null : { side: focus[0], index };
  };

  function trace() {
    const token = view().block ? null : traced();
    const pen = prepared(over);
    base.classList.toggle("course-open-faded", Boolean(token));
    for (const [id, { thumbs }] of blocks) {
      const [own, other] = sidesOf(id);
      for (const { rowMark, columnMark } of thumbs) {
        const asQuery = token?.side === own;
        const asKey = token?.side === other && !(id.endsWith("cross_attn") && token.side === "target");
        rowMark.style.display = asQuery ? "block" : "";
        columnMark.style.display = asKey ? "block" : "";
        if (asQuery) Object.assign(rowMark.style, { top: `${(100 * token.index) / count(own)}%`, height: `${100 / count(own)}%` });
        if (asKey) Object.assign(columnMark.style, { left: `${(100 * token.index) / count(other)}%`, width: `${100 / count(other)}%` });
      }
    }
    shadeLabels();
    if (!token) return;
    pen.lineCap = "round";
    pen.strokeStyle = ink("text", 0.9);
    pen.lineWidth = 3;
    stream(pen, token.side, token.index);
    if (token.side === "source") {
      pen.strokeStyle = ink("key", 0.95);
      pen.lineWidth = 2.4;
      wirePath(pen, token.index);
    }
    // Of a target token: the memory that it attends to
    for (let source = 0; token.side === "target" && source < count("source"); source++) {
      const weight = meanCross(token.index, source);
      if (weight < 0.08) continue;
      pen.strokeStyle = ink("query", 0.25 + 0.7 * weight);
      pen.lineWidth = 1 + 3 * weight;
      wirePath(pen, source);
      stream(pen, "source", source);
    }
    for (const id of order().filter(isAttention)) {
      const [own, other] = sidesOf(id);
      const weight = weightsOf(id);
      const links = (color, list) => {
        for (const [query, key] of list) {
          const value = weight(query, key);
          if (value < 0.01) continue;
          pen.strokeStyle = ink(color, 0.35 + 0.65 * value);
          pen.lineWidth = 1 + 6 * value;
          curve(pen, id, query, key);
        }
      };
      if (token.side === other) links("key", Array.from({ length: done(own) }, (_, query) => [query, token.index]));
      if (token.side === own) links("query", Array.from({ length: done(other) }, (_, key) => [token.index, key]));
    }
  }

  function meanCross(query, key) {
    // Mean weight over the layers and heads of cross-attention.
    let sum = 0;
    for (let layer = 0; layer < numLayers; layer++) for (const head of tensorsOf(`decoder.${layer}.cross_attn`).heads) sum += at(head.weights, query, key);
    return sum / (numLayers * numHeads);
  }

  function shadeLabels() {
    // Across the two stacks: how much cross-attention joins a token to the traced one.
    const inPanel = view().block !== null;
    const token = inPanel ? null : traced();
    const marks = inPanel ? sheet?.marks() : null;
    for (const side of ["source", "target"])
      tokenLabels[side].forEach((label, index) => {
        const ready = index < done(side);
        const chosen = marks ? marks.some(([where, place]) => where === side && place === index) : token?.side === side && token.index === index;
        const weight = token && token.side !== side && ready ? (side === "source" ? meanCross(token.index, index) : meanCross(index, token.index)) : 0;
        label.classList.toggle("course-open-chosen", Boolean(chosen));
        label.classList.toggle("course-open-future", !ready);
        label.style.setProperty("--weight", `${(70 * weight).toFixed(1)}%`);
      });
    tokenLabels.next.forEach((label, index) => {
      label.classList.toggle("course-open-future", index >= step());
      label.classList.toggle("course-open-chosen", token?.side === "target" && token.index === index);
    });
  }

  function tell() {
    const token = view().block ? null : traced();
    if (view().block === "beam") return (caption.textContent = "Escape closes. The diagram shows the best hypothesis.");
    if (view().block) return (caption.textContent = "↓ and ↑: the block below, the block above. Escape: close.");
    if (!token) {
      caption.replaceChildren();
      const [a, b] = [html("span", caption), html("span", caption, "course-open-keys")];
      a.textContent = hoveredHead ? `${headName(`${hoveredHead.id}.${hoveredHead.head}`)}: click to open it.` : "Point at a token to trace its attention in every layer and head. Click a block to open it.";
      b.textContent = "Curves: the largest weight of the heads. Squares: cached key and value.";
      for (const name of ["key", "value"]) html("i", b, `course-open-key-${name}`);
      return;
    }
    const { side, index } = token;
    const name = (where, place) => `“${(where === "source" ? shown.source : shown.inputs)[place]}”`;
    const best = (id, asQuery) => {
      // The head with the largest weight on another token.
      const [own, other] = sidesOf(id);
      let found = null;
      tensorsOf(id).heads.forEach(({ weights, off }, head) => {
        for (let place = 0; place < done(asQuery ? other : own) && !off; place++) {
          if (own === other && place === index) continue;
          const value = asQuery ? at(weights, index, place) : at(weights, place, index);
          if (!found || value > found.value) found = { value, head, place, where: asQuery ? other : own };
        }
      });
      return found;
    };
    const describe = (ids, asQuery, inFull = true) => {
      const found = ids.map((id) => [id, best(id, asQuery)]).filter(([, one]) => one).sort((a, b) => b[1].value - a[1].value)[0];
      if (!found) return null;
      const [id, { value, head, place, where }] = found;
      if (!inFull) return `${name(where, place)} ${value.toFixed(2)}`;
      return `${name(where, place)} ${value.toFixed(2)} (${id.endsWith("cross_attn") ? "cross" : "self"}, layer ${Number(id.split(".")[1]) + 1}, head ${head + 1})`;
    };
    const all = order().filter(isAttention);
    const selfIds = all.filter((id) => sidesOf(id)[0] === side && !id.endsWith("cross_attn"));
    const crossIds = all.filter((id) => id.endsWith("cross_attn"));
    caption.replaceChildren();
    const say = (className, text) => (html("span", caption, className).textContent = text);
    say("", `${name(side, index)}${side === "target" ? ` (predicts “${shown.outputs[index]}”)` : ""}`);
    if (side === "target") {
      say("course-open-queries", ` attends most to ${[describe(crossIds, true), describe(selfIds, true)].filter(Boolean).join(" and ")}`);
      const by = index < done(side) - 1 && describe(selfIds, false, false); // a later token
      say("course-open-keyed", by ? `; is attended to most by ${by}.` : ".");
    } else {
      say("course-open-queries", ` attends most to ${describe(selfIds, true)}`);
      say("course-open-keyed", step() ? `; is attended to most by ${describe(crossIds, false)}.` : ".");
    }
  }

  // The pointer in the diagram

  stage.addEventListener("pointermove", (event) => {
    if (view().block || !plan) return;
    const box = stage.getBoundingClientRect();
    const zoom = box.width / stage.offsetWidth || 1; // a slide may be zoomed
    const [px, py] = [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom];
    const thumb = event.target.closest?.("[data-head]");
    const head = thumb ? { id: thumb.closest("[data-block]").dataset.block, head: Number(thumb.dataset.head) } : null;
    let token = null;
    for (const [side, place] of [["source", plan.encoder], ["target", plan.decoder]]) {
      const index = Math.floor((px - place.columns - plan.column / 4) / plan.column);
      const lowest = side === "source" ? plan.rows.get("encoder.norm").y : 0;
      if (index >= 0 && index < done(side) && py >= lowest) token = { side, index };
    }
    hover(token, head);
  });
  stage.addEventListener("pointerleave", () => hover(null, null));

  function hover(token, head) {
    const sameHead = head?.id === hoveredHead?.id && head?.head === hoveredHead?.head;
    if (token?.side === hovered?.side && token?.index === hovered?.index && sameHead) return;
    hovered = token;
    hoveredHead = head;
    if (!sameHead) paintHead();
    trace();
    tell();
  }

  // Tokens flow up: through the encoder and the memory, or up the newest column of the decoder.

  function flow(what) {
    cancelAnimationFrame(flowing?.frame);
    flowing = null;
    if (calm() || !plan || view().block || !ui.root.isConnected) return;
    const begin = performance.now();
    const bottom = plan.rows.get("labels").y;
    const legs = { all: ["encoder", "decoder"], encoder: ["encoder"], step: ["step"] }[what];
    const animation = { frame: 0 };
    const draw = (now) => {
      const passed = (now - begin) / FLOW;
      const leg = legs[Math.floor(passed)];
      if (!leg || !plan) {
        flowing = null;
        return trace();
      }
      const share = passed % 1;
      const eased = share * (2 - share);
      const pen = prepared(over);
      const side = leg === "encoder" ? "source" : "target";
      const summit = leg === "encoder" ? plan.rows.get("encoder.norm").y : plan.rows.get("lm_head").y;
      const y = bottom + (summit - bottom) * eased;
      const first = leg === "step" ? step() - 1 : 0;
      const until = leg === "step" ? step() : count(side);
      for (let index = first; index < until; index++) {
        const x = plan.x(side, index);
        const trail = pen.createLinearGradient(0, y, 0, y + 90);
        trail.addColorStop(0, ink("strong", 0.9));
        trail.addColorStop(1, ink("strong", 0));
        pen.strokeStyle = trail;
        pen.lineWidth = 5;
        pen.lineCap = "round";
        pen.beginPath();
        pen.moveTo(x, Math.min(bottom, y + 90));
        pen.lineTo(x, y);
        pen.stroke();
        pen.fillStyle = ink("strong");
        pen.beginPath();
        pen.arc(x, y, 5, 0, 7);
        pen.fill();
      }
      for (const id of order().filter(isAttention)) {
        const [own, other] = sidesOf(id);
        const { y: from, high } = plan.rows.get(id);
        const inside = 1 - Math.abs(y - (from + high / 2)) / 90;
        if (own !== side || inside <= 0) continue;
        const weight = weightsOf(id);
        for (let query = first; query < until; query++)
          for (let key = 0; key < done(other); key++) {
            const value = weight(query, key);
            if (value < FAINT) continue;
            pen.strokeStyle = ink(id.endsWith("cross_attn") ? "output" : "query", Math.min(1, 1.3 * inside) * (0.4 + 0.6 * value));
            pen.lineWidth = 1.5 + 6 * value;
            curve(pen, id, query, key);
          }
      }
      if (leg === "encoder" && share > 0.75) {
        pen.strokeStyle = ink("output", (share - 0.75) * 4);
        pen.lineWidth = 2;
        for (let index = 0; index < count("source"); index++) wirePath(pen, index);
      }
      animation.frame = requestAnimationFrame(draw);
    };
    flowing = animation;
    animation.frame = requestAnimationFrame(draw);
  }

  // The open block: its matrices in the order of the computation

  // What a matrix shows: `rows` and `columns` name the axes, so that the same token or dimension is marked in all of them.
  function matricesOf(id, head) {
    const tensors = tensorsOf(id);
    const kind = kindOf(id);
    const own = stackOf(id) === "encoder" ? "source" : "target";
    const { dim } = model.config;
    const d = dim / numHeads;
    const sum = { feed_forward: `${stackOf(id)}_layer`, self_attn: "residual", cross_attn: "residual" }[kind]; // the last operation of a block
    const one = (name, tensor, formula, words, more = {}) => ({ name, tensor, formula, words: words + exercise(name === "output" ? sum : OPERATIONS[name]), rows: "query", columns: "dim", side: own, ...more });
    if (kind === "embedding")
      return [
        one("token embeddings", tensors.tokens, `E[token] · √${dim}`, `The row of the embedding matrix of each token, times the square root of d = ${dim}.`, { labels: true }),
        one("positions", tensors.positions, "sin, cos", view().positions ? "Sinusoidal positions: sines and cosines of the position, one frequency per pair of columns." : "Positions are off: every token gets zeros, and the model no longer knows the order.", { off: !view().positions }),
        one("output", tensors.output, "embedding + position", "The residual stream starts here: one vector per token.", { labels: true }),
      ];
    if (kind === "norm")
      return [
        one("x", tensors.x, "residual stream", "The residual stream after the last layer.", { labels: true }),
        one("normed", tensors.output, "LayerNorm(x)", own === "source" ? "Layer normalization of each row. This is the memory: the keys and values of every cross-attention come from it." : "Layer normalization of each row, before the output layer.", { labels: true }),
      ];
    if (kind === "feed_forward")
      return [
        one("x", tensors.x, "residual stream", "The residual stream, one vector per token.", { labels: true }),
        one("normed", tensors.normed, "LayerNorm(x)", "Layer normalization of each row."),
        one("hidden", tensors.hidden, "normed W₁ + b₁", `First linear layer: ${dim} to ${tensors.hidden.cols} dimensions, each token by itself.`, { columns: "hidden" }),
        one("active", tensors.active, "max(0, hidden)", "ReLU: negative numbers become 0.", { columns: "hidden", color: "value" }),
        one("projected", tensors.projected, "active W₂ + b₂", `Second linear layer: back to ${dim} dimensions.`),
        one("output", tensors.output, "x + projected", "Residual connection: the branch is added to the stream.", { labels: true }),
      ];
    if (kind === "lm_head")
      return [
        one("x", tensors.x, "after the norm", "The output of the decoder, one vector per token.", { labels: true }),
        one("logits", tensors.logits, "x Wᵀ", `A score for each of the ${tensors.logits.cols} tokens of the French vocabulary.`, { columns: "vocab" }),
        one("probabilities", tensors.probs, "softmax(logits)", "The probability of each token to come next. Greedy decoding takes the largest.", { columns: "vocab", color: "output", labels: true, scale: 1 }),
      ];
    const cross = kind === "cross_attn";
    const other = cross ? "source" : own;
    const causal = kind === "self_attn" && own === "target";
    const part = tensors.heads[head];
    const pairs = { columns: "key", labels: true, headers: other, square: true };
    const masks = causal ? "Causal mask: no token may attend to later ones, which it has to predict. Their scores become −∞ (hatched)." : "Click a score to cut its link, in all heads of this layer; click again to restore it.";
    const cached = causal ? ` It goes into the key-value cache.${exercise("cache")}` : cross ? " Computed once for the whole translation." : "";
    return [
      one("x", tensors.x, "residual stream", `The residual stream, one vector per ${own === "source" ? "source" : "target"} token.`, { labels: true }),
      one("normed", tensors.normed, "LayerNorm(x)", "Layer normalization of each row."),
      one("Q", part.query, "normed W_Q", "Queries: what each token is looking for.", { columns: "head", color: "query" }),
      one("K", part.key, cross ? "memory W_K" : "normed W_K", `Keys: what each ${cross ? "source " : ""}token offers.${cached}`, { rows: "key", side: other, columns: "head", color: "key", labels: true }),
      one("V", part.value, cross ? "memory W_V" : "normed W_V", `Values: what each ${cross ? "source " : ""}token passes on.${cached}`, { rows: "key", side: other, columns: "head", color: "value" }),
      one("scores", part.scores, "Q Kᵀ", "A score for every query with every key: their dot product.", pairs),
      one("scaled", part.scaled, view().scaling ? `scores / √${d}` : "scores, not scaled", view().scaling ? `Divided by √d_k = √${d} = ${Math.sqrt(d).toFixed(2)}, so that the scores do not grow with the dimension.` : "Scaling is off: the softmax sees the raw scores and becomes nearly one-hot.", { ...pairs, off: !view().scaling }),
      ...(own === "source" ? [] : [one(causal ? "causal mask" : "masked", part.masked, causal ? "−∞ where masked" : "−∞ where a link is cut", masks, { ...pairs, cut: cross })]),
      one("weights", part.weights, `softmax(${own === "source" ? "scaled" : "masked"}), by row`, `Attention weights: each row sums to 1.${causal ? " Masked entries are exactly 0 (hatched)." : cross ? " Click a weight to cut its link." : ""}`, { ...pairs, color: cross ? "output" : "query", scale: 1, cut: cross, mask: part.masked }),
      one("context", part.context, "weights V", part.off ? "This head is off: zeros go into the concatenation instead." : "For each query the weighted sum of the values.", { columns: "head", labels: true, off: part.off }),
      one("concat", tensors.concat, `${numHeads} heads`, `The contexts of the ${numHeads} heads, concatenated. The frame is head ${head + 1}.`, { frame: [head * d, d] }),
      one("projected", tensors.projected, "concat W_O + b_O", "Output projection: mixes the heads."),
      one("output", tensors.output, "x + projected", "Residual connection: the branch is added to the stream.", { labels: true }),
    ];
  }

  function drawPanel(id) {
    const { head, off } = view();
    const key = JSON.stringify([shown.key, id, head]);
    if (key !== panelKey) {
      const held = panel.contains(document.activeElement) ? (document.activeElement.dataset.keep ?? "") : null;
      const from = panel.dataset.block === id ? (panel.querySelector(".course-open-strip")?.scrollLeft ?? 0) : 0;
      const anchor = chosen?.id === id ? `[data-keep="matrix ${chosen.cell.matrix}"]` : ""; // what was clicked stays where it is
      const place = () => panel.querySelector(anchor).getBoundingClientRect().left;
      const wanted = anchor && place();
      panelKey = key;
      panel.replaceChildren();
      panel.dataset.block = id;
      if (id === "beam") drawBeam();
      else drawBlock(id, Math.min(head, numHeads - 1), off);
      const strip = panel.querySelector(".course-open-strip");
      if (strip) strip.scrollLeft = from;
      if (anchor) strip.scrollLeft += place() - wanted;
      chosen = null;
      if (held !== null) (panel.querySelector(`[data-keep="${held}"]`) ?? panel.querySelector(".course-open-close")).focus({ preventScroll: true });
    }
    sheet?.paint();
  }

  function header(title, kind) {
    const head = html("div", panel, "course-open-header");
    panel.style.setProperty("--own", `var(${kind})`);
    const heading = html("h3", head, "course-open-title");
    heading.textContent = title;
    return { head, heading };
  }

  function drawBlock(id, head, off) {
    const kind = kindOf(id);
    const { head: bar, heading } = header(nameOf(id), KINDS[kind].color);
    if (badges[kind]) badge(heading, badges[kind], true);
    const ids = order();
    const at = ids.indexOf(id);
    const walk = html("span", bar, "course-open-group");
    const move = (label, spoken, goal, keep) => {
      const one = button(walk, label, () => ui.setView({ block: goal }), "course-open-small");
      set(one, { "aria-label": spoken, "data-keep": keep, title: spoken });
      one.disabled = !goal;
    };
    bar.prepend(walk);
    move("↓", "block below", ids[at - 1], "below");
    move("↑", "block above", ids[at + 1], "above");
    map(bar, id);
    if (isAttention(id)) {
      const heads = html("span", bar, "course-open-group", { role: "group", "aria-label": "head" });
      html("span", heads, "course-open-roomy").textContent = "head";
      for (let number = 0; number < numHeads; number++) {
        const one = button(heads, number + 1, () => ui.setView({ head: number }), "course-open-small");
        set(one, { "aria-pressed": number === head, "aria-label": `head ${number + 1}${off.includes(`${id}.${number}`) ? ", off" : ""}`, "data-keep": `head ${number}` });
        one.classList.toggle("course-open-off", off.includes(`${id}.${number}`));
      }
      const key = `${id}.${head}`;
      const box = html("label", bar, "course-check");
      const input = html("input", box, "", { type: "checkbox", "data-keep": "on", "aria-label": `head ${head + 1} on` });
      html("span", box).textContent = "on";
      input.checked = !off.includes(key);
      input.addEventListener("change", () => change({ off: input.checked ? view().off.filter((other) => other !== key) : [...view().off, key], cut: view().cut }));
    }
    set(button(bar, "Close", close, "course-open-close"), { "data-keep": "close", title: "Escape" });
    sheet = makeSheet(id, matricesOf(id, head));
  }

  function map(parent, id) {
    // Where the open block is in the diagram.
    const [wide, high] = [46, 40];
    const picture = svg("svg", parent, { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, class: "course-open-map", "aria-hidden": "true" });
    const top = plan.rows.get("lm_head").y;
    const unit = high / (plan.rows.get("labels").y - top);
    for (const other of order()) {
      const { y, high: tall } = plan.rows.get(other);
      const x = stackOf(other) === "encoder" ? 1 : 25;
      svg("rect", picture, { x, y: (y - top) * unit + 0.5, width: 20, height: Math.max(1.6, tall * unit - 0.5), class: other === id ? "course-open-here" : "" });
    }
  }

  // The matrices in a strip, all with rows of the same height

  function makeSheet(id, matrices) {
    const own = stackOf(id) === "encoder" ? "source" : "target";
    const rail = html("div", panel, "course-open-rail", { role: "group", "aria-label": "operations" });
    const explained = html("p", panel, "course-open-explained");
    const strip = html("div", panel, "course-open-strip");
    const foot = html("p", panel, "course-open-readout", { role: "status" });
    const most = Math.max(...matrices.map(({ side }) => count(side)));
    const headers = matrices.some((matrix) => matrix.headers);
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `14px ${getComputedStyle(ui.root).fontFamily}`;
    const widthOf = (tokens) => Math.max(...tokens.map((token) => pen.measureText(token).width));
    const tokensOf = (side) => (side === "source" ? shown.source : shown.inputs);
    const headerHigh = headers ? Math.min(76, 0.72 * Math.max(...matrices.filter((matrix) => matrix.headers).map(({ headers: side }) => widthOf(tokensOf(side)))) + 18) : 0;
    const room = plan.rows.get("labels").y - 6 - 52 - 38 - (ui.body.clientWidth < 1020 ? 48 : 28) - 52 - headerHigh - 68;
    const rowHigh = Math.max(18, Math.min(30, Math.floor(room / most)));
    let marked = null; // {matrix, row, column}
    let selected = chosen?.id === id ? chosen.cell : { matrix: 0, row: 0, column: 0 }; // where the keyboard is
    const few = matrices.length <= 3 && kindOf(id) !== "lm_head"; // of an embedding or a norm: wider columns
    const broad = few ? Math.max(1.1, Math.min(3.4, (ui.body.clientWidth - 320) / (3 * model.config.dim))) : 1.1;
    const parts = matrices.map((matrix, index) => makeMatrix(matrix, index));
    rail.append(...parts.map(({ chip }) => chip));

    function makeMatrix(matrix, index) {
      const { name, tensor, formula, side, labels: withLabels, headers: keys, square, color, off } = matrix;
      const tokens = tokensOf(side);
      const columns = square ? tokensOf(keys).length : tensor.cols;
      const rows = tokens.length;
      const cell = square ? Math.max(24, Math.min(46, Math.floor(304 / columns))) : columns > 200 ? 1 : columns > 48 ? broad : 4.2;
      const [wide, tall] = [columns * cell, rows * rowHigh];
      const root = html("div", strip, `course-open-matrix${off ? " course-open-changed" : ""}`);
      if (color) root.style.setProperty("--own", `var(--c-${color})`);
      const title = html("div", root, "course-open-heading");
      html("b", title).textContent = name;
      html("span", title).textContent = `${rows} × ${columns}`;
      const body = html("div", root, "course-open-grid");
      (keys ? body : root).style.paddingTop = `${headerHigh}px`;
      const names = withLabels ? html("div", body, "course-open-names", { "aria-hidden": "true" }) : null;
      const nameSpans = names ? tokens.map((token) => {
        const span = html("span", names);
        span.textContent = token;
        span.style.cssText = `height:${rowHigh}px;line-height:${rowHigh}px`;
        return span;
      }) : [];
      const box = html("div", body, "course-open-cells", { tabindex: index === selected.matrix ? 0 : -1, role: "application", "aria-label": `${name}, ${rows} rows, ${columns} columns: arrow keys read the numbers`, "data-keep": `matrix ${index}` });
      box.style.cssText = `width:${wide}px;height:${tall}px`;
      const scale = devicePixelRatio || 1;
      const canvas = html("canvas", box, "", { width: Math.round(wide * scale), height: Math.round(tall * scale) });
      canvas.style.cssText = `width:${wide}px;height:${tall}px`;
      const rowMark = html("span", box, "course-open-rowmark");
      const columnMark = html("span", box, "course-open-colmark");
      const headSpans = keys ? tokensOf(keys).map((token, column) => {
        const span = html("span", box, "course-open-header-token", { "aria-hidden": "true" });
        span.textContent = token;
        span.style.left = `${(column + 0.5) * cell - 4}px`;
        return span;
      }) : [];
      if (matrix.frame) html("span", box, "course-open-frame").style.cssText = `left:${matrix.frame[0] * cell - 1}px;width:${matrix.frame[1] * cell + 2}px`;
      withSubscripts(html("div", root, "course-open-formula"), formula);
      const chip = button(rail, name, () => jump(index), "course-open-small course-open-operation");
      chip.dataset.keep = `chip ${index}`;
      const part = { ...matrix, index, root, box, canvas, rowMark, columnMark, nameSpans, headSpans, cell, count: rows, width: columns, chip };
      const spot = (event) => {
        const bounds = canvas.getBoundingClientRect();
        const column = Math.floor(((event.clientX - bounds.left) / bounds.width) * columns);
        const row = Math.floor(((event.clientY - bounds.top) / bounds.height) * rows);
        return row >= 0 && row < done(side) && column >= 0 && column < columns ? { matrix: index, row, column } : null;
      };
      box.addEventListener("pointermove", (event) => mark(spot(event)));
      box.addEventListener("pointerleave", () => mark(null));
      box.addEventListener("click", (event) => {
        const where = spot(event);
        if (!where) return;
        selected = where;
        tabStop();
        if (matrix.cut) toggleLink(where);
      });
      box.addEventListener("focus", () => {
        if (selected.matrix !== index) selected = { matrix: index, row: Math.min(selected.row, Math.max(done(side) - 1, 0)), column: Math.min(selected.column, columns - 1) };
        tabStop();
        mark(box.matches(":focus-visible") ? selected : marked);
      });
      box.addEventListener("blur", () => mark(null));
      box.addEventListener("keydown", (event) => moveCell(event, part));
      names?.addEventListener("pointermove", (event) => {
        const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top) / (canvas.getBoundingClientRect().height / rows));
        mark(row >= 0 && row < done(side) ? { matrix: index, row, column: null } : null);
      });
      names?.addEventListener("pointerleave", () => mark(null));
      return part;
    }

    function tabStop() {
      for (const part of parts) part.box.tabIndex = part.index === selected.matrix ? 0 : -1;
    }
    function jump(index) {
      const { root } = parts[index];
      strip.scrollTo({ left: root.offsetLeft - strip.offsetLeft - 6, behavior: calm() ? "auto" : "smooth" });
      selected = { matrix: index, row: Math.max(0, Math.min(selected.row, done(parts[index].side) - 1)), column: 0 };
      tabStop();
      mark({ matrix: index, row: null, column: null });
    }
    function moveCell(event, part) {
      const rows = Math.max(done(part.side), 1);
      if (event.key === "Enter" && part.cut) {
        event.preventDefault();
        return toggleLink(selected);
      }
      const goal = arrowMoves(event, selected.row, selected.column, rows, part.width);
      if (!goal) return;
      event.preventDefault();
      let [row, column] = goal;
      const over = { ArrowRight: selected.column === part.width - 1 ? 1 : 0, ArrowLeft: selected.column === 0 ? -1 : 0 }[event.key] ?? 0;
      const neighbor = parts[part.index + over];
      if (over && neighbor) {
        // On to the next matrix
        selected = { matrix: neighbor.index, row: Math.min(row, Math.max(done(neighbor.side) - 1, 0)), column: over > 0 ? 0 : neighbor.width - 1 };
        neighbor.box.focus({ preventScroll: true });
        neighbor.root.scrollIntoView({ block: "nearest", inline: "nearest" });
        return mark(selected);
      }
      selected = { matrix: part.index, row, column };
      mark(selected);
    }
    function toggleLink({ row: query, column: key }) {
      const layer = Number(id.split(".")[1]);
      const { cut } = view();
      const rest = cut.filter((link) => link.layer !== layer || link.query !== query || link.key !== key);
      const at = step();
      chosen = { id, cell: { ...selected } };
      change({ cut: rest.length < cut.length ? rest : [...cut, { layer, query, key }] });
      if (at < last()) go(at);
    }

    // The same token and the same dimension in all matrices

    function axes() {
      if (!marked || marked.row === null) return {};
      const part = parts[marked.matrix];
      return { [part.rows]: marked.row, ...(marked.column === null ? {} : { [part.columns]: marked.column }) };
    }
    function mark(where) {
      if (where?.matrix === marked?.matrix && where?.row === marked?.row && where?.column === marked?.column) return;
      marked = where;
      const now = axes();
      for (const part of parts) {
        const row = now[part.rows];
        const column = now[part.columns];
        part.rowMark.style.display = row === undefined ? "" : "block";
        part.columnMark.style.display = column === undefined ? "" : "block";
        if (row !== undefined) part.rowMark.style.transform = `translateY(${row * rowHigh}px)`;
        part.rowMark.style.height = `${rowHigh}px`;
        if (column !== undefined) part.columnMark.style.transform = `translateX(${column * part.cell}px)`;
        part.columnMark.style.width = `${part.cell}px`;
        part.nameSpans.forEach((span, index) => span.classList.toggle("course-open-chosen", index === row));
        part.headSpans.forEach((span, index) => span.classList.toggle("course-open-chosen", index === column));
        part.chip.classList.toggle("course-open-current", part.index === where?.matrix);
      }
      read();
      bars?.(now.query);
      shadeLabels();
    }

    const nameAt = (side, index) => `“${tokensOf(side)[index]}”`;

    function read() {
      const part = parts[marked?.matrix ?? 0];
      explained.replaceChildren();
      const name = html("b", explained);
      withSubscripts(name, marked ? `${part.name} = ${part.formula}. ` : "");
      withSubscripts(explained, marked ? part.words : summary());
      foot.replaceChildren();
      if (!marked || marked.column === null) {
        foot.append(marked && marked.row !== null ? `Row of ${nameAt(part.side, marked.row)}.` : "Point at a number, or reach it with Tab and the arrow keys.");
        return;
      }
      const value = at(part.tensor, marked.row, marked.column);
      const where = part.square
        ? `${nameAt(part.side, marked.row)} → ${nameAt(part.headers, marked.column)}`
        : part.columns === "vocab"
          ? `after ${nameAt(part.side, marked.row)}: “${model.targetTokens[marked.column]}”`
          : `${nameAt(part.side, marked.row)}, column ${marked.column + 1}`;
      html("b", foot).textContent = `${part.name}[${where}] = ${fixed(value, 3)}`;
      foot.append(derivation(part, marked.row, marked.column, value));
    }

    function summary() {
      const kind = kindOf(id);
      const layer = isAttention(id);
      if (layer && id.endsWith("cross_attn")) return "Cross-attention: queries from the decoder, keys and values from the encoder's output. softmax(Q Kᵀ / √d_k) V, head by head.";
      if (layer && id.startsWith("decoder")) return "Causal self-attention: every token attends to itself and to earlier tokens only. softmax(Q Kᵀ / √d_k + mask) V, head by head.";
      if (layer) return "Self-attention: every source token attends to all source tokens. softmax(Q Kᵀ / √d_k) V, head by head.";
      return {
        embedding: "Each token id selects a row of the embedding matrix; its position is added.",
        feed_forward: "Feed-forward network: two linear layers with a ReLU between them, applied to each token by itself.",
        norm: "Layer normalization after the last layer.",
        lm_head: "The output layer turns each vector into logits, the softmax into probabilities of the next token.",
      }[kind];
    }

    function derivation(part, row, column, value) {
      // The number from those it is computed from.
      const of = (name) => parts.find((other) => other.name === name);
      const entry = (name, i = row, j = column) => at(of(name).tensor, i, j);
      const { name } = part;
      if (name === "scores") return ` = q · k, a sum of ${of("Q").tensor.cols} products`;
      if (name === "scaled") return view().scaling ? ` = ${fixed(entry("scores"))} / √${of("Q").tensor.cols}` : " = the score, not divided";
      if (name === "causal mask" || name === "masked") {
        if (value !== -Infinity) return " = the scaled score: may attend";
        return name === "masked" ? ": this link is cut" : `: ${nameAt(part.side, column)} comes later, so ${nameAt(part.side, row)} may not attend to it`;
      }
      if (name === "weights") {
        const mask = part.mask;
        if (at(mask, row, column) === -Infinity) return " = exp(−∞) / sum: masked";
        const all = Array.from({ length: mask.cols }, (_, j) => at(mask, row, j));
        const largest = Math.max(...all);
        const sum = all.reduce((total, score) => total + Math.exp(score - largest), 0);
        return ` = exp(${fixed(all[column])}) / (sum of ${all.filter((score) => score > -Infinity).length} exponentials in this row) = ${fixed(Math.exp(all[column] - largest), 3)} / ${fixed(sum, 3)}, both divided by exp(${fixed(largest)})`;
      }
      if (name === "context") {
        const weights = of("weights");
        const terms = Array.from({ length: weights.width }, (_, j) => [at(weights.tensor, row, j) || 0, entry("V", j, column), j]).filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0]);
        const firsts = terms.slice(0, 3).map(([weight, number]) => `${fixed(weight)} · ${number < 0 ? `(${fixed(number)})` : fixed(number)}`).join(" + ");
        return ` = ${firsts}${terms.length > 3 ? ` + ${terms.length - 3} more` : ""}: weights times values`;
      }
      if (name === "output") {
        if (of("positions")) return ` = ${fixed(entry("token embeddings"))} + ${fixed(entry("positions"))}`.replace("+ −", "− ");
        return ` = ${fixed(entry("x"))} + ${fixed(entry("projected"))}`.replace("+ −", "− ");
      }
      if (name === "active") return ` = max(0, ${fixed(entry("hidden"))})`;
      if (name === "probabilities") return ` = exp(${fixed(entry("logits"))}) / sum of ${part.width} exponentials`;
      if (name === "normed") {
        const numbers = Array.from(of("x").tensor.data.subarray(row * of("x").tensor.cols, (row + 1) * of("x").tensor.cols));
        const mean = numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
        const deviation = Math.sqrt(numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0) / numbers.length);
        return ` = (${fixed(numbers[column])} ${mean < 0 ? "+" : "−"} ${fixed(Math.abs(mean))}) / ${fixed(deviation)} · γ + β: mean and standard deviation of the row`;
      }
      if (name === "concat") return ` from head ${Math.floor(column / (model.config.dim / numHeads)) + 1}`;
      return "";
    }

    const again = chosen?.id === id;
    const bars = kindOf(id) === "lm_head" ? nextTokens(strip, tokensOf(own)) : null;
    read();
    if (again) mark(selected);
    const drawAll = () => {
      for (const part of parts) paintMatrix(part, rowHigh);
      bars?.(axes().query);
    };
    return {
      paint: drawAll,
      marks: () => {
        if (!marked || marked.row === null) return [];
        const part = parts[marked.matrix];
        return [[part.side, marked.row], ...(part.square && marked.column !== null ? [[part.headers, marked.column]] : [])];
      },
    };
  }

  function nextTokens(parent, tokens) {
    // The most probable tokens after the row that is pointed at, or after the last one.
    const box = html("div", parent, "course-open-next");
    const title = html("div", box, "course-open-heading");
    const list = html("div", box, "course-open-bars");
    const lines = Array.from({ length: 8 }, () => {
      const word = html("span", list);
      return { word, bar: html("span", html("span", list, "course-open-track")), number: html("output", list) };
    });
    return (row) => {
      const at = row ?? step() - 1;
      title.replaceChildren();
      html("b", title).textContent = at < 0 ? "nothing decoded yet" : `next token after “${tokens[at]}”`;
      const { probs } = tensorsOf("lm_head");
      const data = at < 0 ? [] : Array.from(probs.data.subarray(at * probs.cols, (at + 1) * probs.cols), (probability, id) => [probability, id]).sort((a, b) => b[0] - a[0]);
      lines.forEach(({ word, bar, number }, place) => {
        const [probability, id] = data[place] ?? [0, null];
        word.textContent = id === null ? "" : model.targetTokens[id];
        word.className = id !== null && id === shown.run.ids[at] ? "course-open-taken" : "";
        bar.style.width = `${100 * probability}%`;
        number.textContent = id === null ? "" : probability < 0.0005 ? "<0.001" : probability.toFixed(3);
      });
    };
  }

  function paintMatrix(part, rowHigh) {
    const { tensor, canvas, cell, count: rows, width: columns, square, scale, color, side, headers, mask } = part;
    const pen = prepared(canvas);
    const ready = done(side);
    let most = 1e-6;
    for (const value of tensor.data) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
    if (scale) most = scale;
    const hatch = hatched(pen);
    const numbers = square && cell >= 30 && rowHigh >= 18;
    pen.font = `${cell >= 38 ? 13 : 12}px ${getComputedStyle(ui.root).fontFamily}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (let row = 0; row < rows; row++)
      for (let column = 0; column < columns; column++) {
        const [x, y] = [column * cell, row * rowHigh];
        const waiting = row >= ready || (square && column >= done(headers));
        if (waiting) continue;
        const value = at(tensor, row, column);
        const masked = (mask ? at(mask, row, column) : value) === -Infinity;
        if (masked) {
          pen.fillStyle = hatch;
          pen.fillRect(x, y, cell, rowHigh);
          const isCut = side !== headers;
          if (numbers && isCut) {
            pen.fillStyle = `rgb(${colors.ground})`;
            pen.fillRect(x + cell / 2 - 13, y + 3, 26, rowHigh - 6);
            word("cut", x, y, `rgb(${colors.text})`);
          }
          continue;
        }
        const share = Math.min(1, Math.abs(value) / most) ** (scale ? 0.7 : 0.85);
        const face = blend(scale || color === "value" && part.name === "active" ? (color ?? "strong") : value > 0 ? "query" : "output", share);
        pen.fillStyle = `rgb(${face.map(Math.round)})`;
        pen.fillRect(x, y, cell + 0.3, square ? rowHigh : rowHigh - 1);
        if (numbers) {
          const light = (0.299 * face[0] + 0.587 * face[1] + 0.114 * face[2]) / 255;
          const text = scale ? (value < 0.005 ? "0" : value >= 0.995 ? "1" : value.toFixed(2).slice(1)) : fixed(value, Math.abs(value) >= 9.95 ? 0 : 1);
          word(text, x, y, light > 0.55 ? "#000" : "#fff");
        }
      }
    if (square) {
      pen.strokeStyle = ink("ground", 0.9);
      pen.lineWidth = 1;
      pen.beginPath();
      for (let row = 1; row < rows; row++) pen.moveTo(0, row * rowHigh + 0.5), pen.lineTo(columns * cell, row * rowHigh + 0.5);
      for (let column = 1; column < columns; column++) pen.moveTo(column * cell + 0.5, 0), pen.lineTo(column * cell + 0.5, rows * rowHigh);
      pen.stroke();
    }
    function word(text, x, y, fill) {
      pen.fillStyle = fill;
      pen.fillText(text, x + cell / 2, y + rowHigh / 2 + 0.5);
    }
    part.nameSpans.forEach((span, index) => span.classList.toggle("course-open-future", index >= ready));
    part.headSpans.forEach((span, index) => span.classList.toggle("course-open-future", index >= done(headers)));
  }

  // Beam search: the tree of hypotheses from left to right

  function drawBeam() {
    const { head, heading } = header(`Beam search · ${view().beams} hypotheses at each step`, "--c-output");
    if (badges.beam) badge(heading, badges.beam, true);
    set(button(head, "Close", close, "course-open-close"), { "data-keep": "close", title: "Escape" });
    const { hypotheses, tree: steps } = shown.beam;
    html("p", panel, "course-open-explained").textContent =
      "At each step every hypothesis is continued; the most probable ones are kept. Numbers: log-probability of the whole hypothesis. Orange: the path to the best.";
    const list = html("ol", panel, "course-open-hypotheses");
    for (const { tokens, logProb } of hypotheses) {
      const item = html("li", list);
      html("span", item).textContent = glue(tokens).join("");
      html("output", item).textContent = fixed(logProb);
    }
    const strip = html("div", panel, "course-open-strip", { tabindex: 0, role: "group", "aria-label": "tree of hypotheses" });
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `15px ${getComputedStyle(ui.root).fontFamily}`;
    const [ROW, HIGH, SPACE] = [48, 40, 26];
    const kept = steps.map((nodes) => [...nodes.filter((node) => node.kept), ...nodes.filter((node) => !node.kept).slice(0, 2)]);
    const best = new Set();
    for (let [depth, index] = [steps.length - 1, 0]; depth >= 0; depth--) {
      best.add(steps[depth][index]);
      index = steps[depth][index].parent;
    }
    const wide = kept.map((nodes) => Math.max(66, ...nodes.map(({ token }) => pen.measureText(token ?? "ended").width + 20)));
    const lefts = wide.map((_, depth) => wide.slice(0, depth).reduce((sum, one) => sum + one + SPACE, 70));
    const high = Math.max(...kept.map((nodes) => nodes.length)) * ROW + 26;
    const picture = svg("svg", strip, { width: lefts.at(-1) + wide.at(-1) + 4, height: high, class: "course-open-tree", role: "img", "aria-label": hypotheses.map(({ text, logProb }) => `“${text}”, log-probability ${fixed(logProb)}`).join("; ") });
    picture.style.maxWidth = "none";
    const edges = svg("g", picture);
    const node = (x, y, w, token, number, kind) => {
      const group = svg("g", picture, { class: kind });
      svg("rect", group, { x, y, width: w, height: HIGH, rx: 6 });
      svg("text", group, { x: x + w / 2, y: y + (number ? 17 : 25), "text-anchor": "middle" }).textContent = token;
      if (number) svg("text", group, { x: x + w / 2, y: y + 33, "text-anchor": "middle", class: "course-open-number" }).textContent = number;
    };
    node(2, 24, 54, "<bos>", "", "course-open-kept");
    kept.forEach((nodes, depth) => {
      svg("text", picture, { x: lefts[depth], y: 15, class: "course-open-number" }).textContent = `step ${depth + 1}`;
      nodes.forEach((one, row) => {
        const [x, y] = [lefts[depth], 24 + row * ROW];
        const parentRow = depth ? kept[depth - 1].indexOf(steps[depth - 1][one.parent]) : 0;
        const from = depth ? lefts[depth - 1] + wide[depth - 1] : 56;
        const [y0, y1] = [24 + parentRow * ROW + HIGH / 2, y + HIGH / 2];
        const middle = (from + x) / 2;
        const kind = best.has(one) ? "course-open-best" : one.kept ? "course-open-kept" : "course-open-dropped";
        const edge = svg("path", edges, { d: `M${from},${y0} C${middle},${y0} ${middle},${y1} ${x},${y1}`, class: kind });
        if (!best.has(one)) edges.prepend(edge);
        node(x, y, wide[depth], one.token ?? "ended", fixed(one.logProb), kind);
      });
    });
    sheet = null;
  }

  // Drawing again

  function showWalk() {
    reset.disabled = back.disabled = step() === 0;
    next.disabled = step() === last();
    play.textContent = timer ? "Pause" : "Play";
    play.setAttribute("aria-label", timer ? "Pause" : "Play");
    said.textContent = `step ${step()} of ${last()}`;
  }

  function showWords() {
    const now = shown.outputs.slice(0, step());
    const before = shown.before.tokens;
    const [had, has] = differences(before, shown.outputs);
    const write = (parent, tokens, same, kind) => {
      const visible = tokens.map((token, index) => [token, index]).filter(([token]) => token !== "<eos>");
      const texts = glue(visible.map(([token]) => token));
      visible.forEach(([, index], place) => {
        const word = html(same[index] ? "span" : kind, parent, "course-open-word");
        word.textContent = texts[place].trimEnd();
        if (texts[place].endsWith(" ")) parent.append(" ");
      });
    };
    words.replaceChildren();
    write(words, now, has, "ins");
    const room = words.parentElement.clientWidth - 60;
    ruler.font = `600 22px ${getComputedStyle(ui.root).fontFamily}`;
    const long = ruler.measureText(shown.run.text).width;
    words.style.fontSize = `${[22, 18, 16, 14].find((size) => (long * size) / 22 < (size === 22 ? 1 : 1.85) * room) ?? 13}px`; // two lines at most
    if (!now.length) html("span", words, "course-open-quiet").textContent = "nothing decoded yet";
    else if (step() < last()) words.append(" …");
    compared.replaceChildren();
    if (!shown.switched) {
      html("span", compared, "course-open-quiet").textContent = shown.beam ? `best of ${view().beams} hypotheses, log-probability ${fixed(shown.beam.hypotheses[0].logProb, 3)}` : `decoded greedily, log-probability ${fixed(shown.run.logProb, 3)}`;
      if (shown.beam) compared.append(tree);
      return;
    }
    if (shown.before.text === shown.run.text) {
      compared.textContent = "The same translation as with everything on.";
      if (shown.beam) compared.append(tree);
      return;
    }
    html("span", compared, "course-open-quiet").textContent = "With everything on: ";
    write(html("span", compared), before, had, "del");
    if (shown.beam) compared.append(tree);
  }

  function showSwitches() {
    const { off, cut, beams } = view();
    for (const [name, input] of boxes) input.checked = view()[name];
    widths.value = beams;
    chips.replaceChildren();
    const chip = (label, spoken, action) => {
      const one = button(chips, `${label} ×`, action, "course-open-chip");
      one.setAttribute("aria-label", spoken);
    };
    for (const key of off) {
      const [stack, layer, kind, head] = key.split(".");
      const short = `${stack} ${Number(layer) + 1} ${kind === "self_attn" ? "self" : "cross"}, head ${Number(head) + 1} off`;
      chip(short, `switch ${headName(key)} on again`, () => change({ off: view().off.filter((other) => other !== key), cut: view().cut }));
    }
    for (const link of cut) {
      const { layer, query, key } = link;
      const label = `layer ${layer + 1}: ${shown.inputs[query] ?? "?"} ⇸ ${shown.source[key] ?? "?"}`;
      chip(label, `restore the link of ${label}`, () => change({ cut: view().cut.filter((other) => other !== link) }));
    }
    if (shown.switched) button(chips, "All on", () => change({ ...ALL_ON }), "course-open-chip course-open-restore");
  }

  function showProblem() {
    problem.replaceChildren();
    problem.hidden = !failure;
    menu.hidden = Boolean(failure);
    field.setAttribute("aria-invalid", String(Boolean(failure)));
    if (!failure) return;
    const { message, word, suggestions } = failure.problem;
    html("span", problem).textContent = message;
    if (!suggestions.length) return;
    html("span", problem).textContent = "Try";
    for (const suggestion of suggestions) {
      const one = button(problem, suggestion, () => {
        const words = failure.text.split(/(\s+)/);
        send(words.map((part) => (part.toLowerCase().replace(/[^\p{L}'-]/gu, "") === word ? suggestion : part)).join(""));
        field.focus();
      }, "course-open-chip");
      one.setAttribute("aria-label", `use “${suggestion}” instead of “${word}”`);
    }
  }

  function draw() {
    compute();
    if (!plan) {
      if (!lay()) return;
      readColors();
      hovered = hoveredHead = null;
      buildStage();
    }
    const { text, block } = view();
    if (document.activeElement !== field) field.value = failure ? failure.text : (text ?? shown.source.slice(0, -1).join(" "));
    const chosen = examples.findIndex(([, example]) => JSON.stringify({ ...ALL_ON, ...example }) === JSON.stringify({ ...pick(view(), Object.keys({ ...ALL_ON, ...example })) }));
    menu.value = chosen;
    showProblem();
    showWords();
    showWalk();
    showSwitches();
    paintBase();
    const opened = block !== null && (block === "beam" ? shown.beam !== null : blocks.has(block));
    stage.classList.toggle("course-open-opened", opened);
    panel.hidden = !opened;
    if (opened) drawPanel(block);
    else {
      panel.replaceChildren();
      panelKey = "";
      sheet = null;
    }
    trace();
    tell();
    const focused = view().focus ?? ["source", 0];
    for (const side of ["source", "target"]) tokenLabels[side].forEach((label, index) => label.setAttribute("tabindex", side === focused[0] && index === Math.min(focused[1], count(side) - 1) ? 0 : -1));
  }

  let width = 0;
  const watch = new ResizeObserver(() => {
    if (Math.abs(ui.body.clientWidth - width) < 2) return;
    width = ui.body.clientWidth;
    plan = null;
    panelKey = "";
    draw();
  });
  watch.observe(ui.body);
  ui.onRemove(() => watch.disconnect());
  ui.onTheme(() => {
    if (!plan) return;
    readColors();
    panelKey = "";
    draw();
  });
  return draw;
}

function withSubscripts(element, text) {
  // "W_Q" with a lowered Q
  text.split(/_(\w)/).forEach((part, index) => (index % 2 ? (html("sub", element).textContent = part) : element.append(part)));
}

function pick(object, names) {
  return Object.fromEntries(names.map((name) => [name, object[name]]));
}

export default course({ name: "open", build });
