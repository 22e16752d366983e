// Step through decoding: the source on top, the generated tokens below, between them the attention of one step as curves.

const MEAN = -1; // of layers or heads, as in Python
const PACE = 900; // milliseconds for each step while it plays
const WIDEST = 16; // pixels of a curve with weight 1

function build(ui) {
  const showInputs = addControls(ui, ui.data.controls);
  const sentence = html("p", ui.body, "course-decoding-sentence", { "aria-live": "polite" });
  const walk = html("div", ui.body, "course-decoding-walk");
  const back = button(walk, "Back", () => go(step() - 1));
  const play = button(walk, "Play", () => (timer ? go(step()) : start()), "course-decoding-play");
  const next = button(walk, "Next", () => go(step() + 1));
  const slider = html("input", walk, "", { type: "range", min: 0, step: 1, "aria-label": "step" });
  slider.addEventListener("input", () => go(Number(slider.value)));
  const said = html("output", walk, "course-decoding-said", { "aria-live": "polite" });
  const menus = html("div", walk, "course-decoding-menus");
  const [layers, heads] = ["layer", "head"].map((name) => {
    const box = html("label", menus, "course-choice");
    html("span", box, "course-label").textContent = name;
    const menu = html("select", box);
    menu.addEventListener("change", () => ui.setView({ [name]: Number(menu.value) }));
    return { name, box, menu };
  });

  const stage = html("div", ui.body, "course-decoding-stage");
  const picture = svg("svg", stage, { class: "course-decoding-curves", "aria-hidden": "true" });
  const row = (name, attributes = {}) => {
    html("span", stage, "course-decoding-name").textContent = name;
    return html("div", stage, "course-decoding-row", attributes);
  };
  const sourceRow = row("source");
  const between = html("p", stage, "course-decoding-between");
  const targetRow = row("generated", { role: "group", "aria-label": "generated tokens: arrow keys, Home and End" });
  const candidateRows = row("next token");
  candidateRows.classList.add("course-decoding-candidates");

  let shown = null; // the answer that the tokens below belong to
  let source = []; // {token, weight, curve} for each source token
  let target = [];
  let candidates = [];
  let spots = null; // where the curves begin and end, measured once for an answer and a width
  let pointed = null; // a generated token under the pointer: its step is shown meanwhile
  let near = null; // a source token under the pointer
  let timer = null;

  const last = () => ui.answer.target.length - 1;
  const step = () => Math.min(ui.view.step, last());
  function show(goal) {
    pointed = null;
    ui.setView({ step: Math.min(Math.max(goal, 0), last()) });
  }
  function go(goal) {
    clearInterval(timer);
    timer = null;
    show(goal);
  }
  function start() {
    timer = setInterval(() => (step() === last() ? go(last()) : show(step() + 1)), PACE);
    show(step() === last() ? 0 : step());
  }
  ui.onRemove(() => clearInterval(timer));

  function tokens() {
    // Elements for another answer; the generated tokens that are still to come keep their room, empty.
    const { answer } = ui;
    sourceRow.replaceChildren();
    targetRow.replaceChildren();
    picture.replaceChildren();
    source = answer.source.map((word, index) => {
      const token = html("span", sourceRow, "course-decoding-token");
      html("span", token).textContent = word;
      token.addEventListener("pointerenter", () => hover(() => (near = index)));
      token.addEventListener("pointerleave", () => hover(() => (near = null)));
      return { token, weight: html("span", token, "course-decoding-weight"), curve: svg("path", picture) };
    });
    html("span", targetRow, "course-decoding-token course-decoding-bos").textContent = "<bos>";
    target = answer.target.map((word, index) => {
      const token = button(targetRow, "", () => go(index), "course-decoding-token");
      html("span", token).textContent = word;
      token.addEventListener("pointerenter", () => hover(() => (pointed = index < step() ? index : null)));
      token.addEventListener("pointerleave", () => hover(() => (pointed = null)));
      return token;
    });
    const count = Math.max(...answer.candidates.map((row) => row.length));
    const longest = Math.max(...answer.candidates.flat().map(([word]) => word.length));
    candidateRows.style.setProperty("--letters", longest);
    candidateRows.replaceChildren();
    candidates = Array.from({ length: count }, () => {
      const word = html("span", candidateRows, "course-decoding-word");
      const bar = html("span", html("span", candidateRows, "course-decoding-track"));
      return { word, bar, number: html("output", candidateRows) };
    });
    slider.max = Math.max(last(), 1);
    slider.disabled = last() === 0;
    const [numLayers, numHeads] = answer.weights?.shape ?? [1, 1];
    fill(layers, numLayers);
    fill(heads, numHeads);
    menus.hidden = numLayers * numHeads === 1;
    measure();
  }

  function fill({ name, box, menu }, count) {
    box.hidden = count === 1;
    menu.replaceChildren();
    html("option", menu, "", { value: MEAN }).textContent = `mean of all ${count}`;
    for (let index = 0; index < count; index++) html("option", menu, "", { value: index }).textContent = index + 1;
    if (ui.view[name] >= count) ui.view[name] = MEAN;
  }

  function measure() {
    const spot = (element, y) => [element.offsetLeft + element.offsetWidth / 2, element.offsetTop + y * element.offsetHeight];
    spots = { source: source.map(({ token }) => spot(token, 1)), target: target.map((token) => spot(token, 0)) };
  }
  const resized = new ResizeObserver(() => {
    measure();
    drawStep();
  });
  resized.observe(stage);
  ui.onRemove(() => resized.disconnect());

  function hover(change) {
    change();
    drawStep();
  }

  function weightsAt(index) {
    // The row of the attention matrix of one layer and head, or its mean over them.
    if (!ui.answer.weights) return null;
    const { shape, at } = unpack(ui.answer.weights);
    const all = (chosen, count) => (chosen === MEAN ? Array.from({ length: count }, (_, one) => one) : [chosen]);
    const maps = all(ui.view.layer, shape[0]).flatMap((layer) => all(ui.view.head, shape[1]).map((head) => [layer, head]));
    return source.map((_, column) => maps.reduce((sum, map) => sum + at(...map, index, column), 0) / maps.length);
  }

  function drawStep() {
    if (!shown) return;
    const { answer } = ui;
    const here = step();
    const now = pointed ?? here;
    const weights = weightsAt(now);
    const end = spots.target[now];
    source.forEach(({ token, weight, curve }, index) => {
      const value = weights ? weights[index] : 0;
      const begin = spots.source[index];
      const middle = (begin[1] + end[1]) / 2;
      const drawn = weights ? value >= 0.005 : index === source.length - 1;
      token.style.background = shade(value);
      token.style.color = onShade(value);
      weight.textContent = !weights ? "" : index === near ? value.toFixed(4) : value < 0.005 ? "" : value.toFixed(2);
      curve.setAttribute("d", drawn ? `M${begin} C${begin[0]},${middle} ${end[0]},${middle} ${end}` : "");
      curve.setAttribute("stroke-width", weights ? 1 + (WIDEST - 1) * value : 3);
      curve.setAttribute("class", !weights ? "course-decoding-state" : index === near ? "course-decoding-near" : "");
    });
    between.textContent = weights ? "" : "No attention: the decoder has only the final state.";
    target.forEach((token, index) => {
      token.classList.toggle("course-decoding-ahead", index > here);
      token.classList.toggle("course-decoding-now", index === now);
      token.setAttribute("aria-label", index > here ? `step ${index + 1}` : `step ${index + 1}: ${answer.target[index]}`);
      token.setAttribute("aria-current", index === here ? "step" : "false");
      token.tabIndex = index === here ? 0 : -1;
    });
    candidates.forEach(({ word, bar, number }, index) => {
      const [token, probability] = answer.candidates[now][index] ?? ["", null];
      word.textContent = token;
      word.classList.toggle("course-decoding-chosen", token === answer.target[now]);
      bar.style.width = `${100 * (probability ?? 0)}%`;
      number.textContent = probability === null ? "" : probability < 0.0005 ? "<0.001" : probability.toFixed(3);
    });
    said.textContent = `step ${now + 1} of ${last() + 1}`;
    slider.value = here;
    slider.setAttribute("aria-valuetext", `step ${here + 1}: ${answer.target[here]}`);
  }

  targetRow.addEventListener("keydown", (event) => {
    const goal = arrowMoves(event, 0, step(), 1, target.length)?.[1];
    if (goal === undefined) return;
    event.preventDefault();
    go(goal);
    target[step()].focus();
  });

  return () => {
    showInputs();
    const { answer } = ui;
    if (answer !== shown) {
      // Another sentence starts at its first step; another choice for the same sentence stays where it is.
      if (shown && shown.text !== answer.text) queueMicrotask(() => go(0));
      shown = answer;
      pointed = near = null;
      sentence.textContent = `→ ${answer.sentence}`;
      tokens();
    }
    for (const { name, menu } of [layers, heads]) menu.value = ui.view[name];
    back.disabled = step() === 0;
    next.disabled = step() === last();
    play.textContent = timer ? "Pause" : "Play";
    play.disabled = last() === 0;
    drawStep();
  };
}

export default course({ name: "decoding", build });
