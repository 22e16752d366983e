// A switch for every head, and the accuracy without the ablated ones: switches react at once, Python computes the accuracy.

const HINT = "Click a head to ablate or restore it; or Tab to the heads, move with the arrow keys, press Space.";
const equal = (one, other) => one.every((row, i) => row.every((is, j) => is === other[i][j]));

function render({ model, el }) {
  const effects = model.get("effects");
  const [layers, heads] = [model.get("on").length, model.get("on")[0].length];
  const full = model.get("full");
  const chance = model.get("chance");
  const which = (layer, head) => (layers > 1 ? `layer ${layer + 1} head ${head + 1}` : `head ${head + 1}`);
  const every = (of) => Array.from({ length: layers }, (_, i) => Array.from({ length: heads }, (_, j) => of(i, j)));
  let home = [0, 0]; // the head that "this one" means, and that Tab goes to

  const root = html("div", el, "course-removal-root");
  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const grid = html("div", html("div", root, "course-removal-scroll"), "course-removal-grid", {
    role: "group",
    "aria-label": "heads: arrow keys move, Space ablates or restores",
    style: `grid-template-columns: auto repeat(${heads}, ${heads <= 8 ? 92 : 66}px)`,
  });
  const tiles = drawTiles();
  const worth = effects.length ? " The number on it is the change of accuracy, in points, when this head alone is ablated." : "";
  html("p", root, "course-removal-note").textContent = HINT + worth;
  const buttons = drawButtons();
  const bar = drawBar();
  const summary = html("p", root, "course-removal-summary", { role: "status", "aria-live": "polite" });
  const error = html("p", root, "course-error", { role: "alert" });
  const list = html("ul", root, "course-removal-detail");

  function drawTiles() {
    html("span", grid);
    for (let head = 0; head < heads; head++) {
      const name = html("span", grid, "course-removal-name", { "aria-hidden": "true" });
      name.textContent = heads <= 8 ? `head ${head + 1}` : `${head + 1}`;
    }
    return Array.from({ length: layers }, (_, layer) => {
      const name = html("span", grid, "course-removal-name course-removal-layer", { "aria-hidden": "true" });
      name.textContent = layers > 1 ? `layer ${layer + 1}` : "";
      return Array.from({ length: heads }, (_, head) => drawTile(layer, head));
    });
  }

  function drawTile(layer, head) {
    const box = html("div", grid, "course-removal-tile", { role: "switch", tabindex: -1 });
    box.dataset.layer = layer;
    box.dataset.head = head;
    const mark = html("span", box, "course-removal-mark", { "aria-hidden": "true" });
    const number = html("span", box, "course-removal-number", { "aria-hidden": "true" });
    const effect = effects[layer]?.[head];
    if (effect) {
      number.textContent = effect.text;
      box.style.setProperty("--face", effect.face);
      box.style.setProperty("--letters", effect.ink);
    }
    box.addEventListener("focus", () => {
      home = [layer, head];
      tiles.flat().forEach((other) => other.box.setAttribute("tabindex", other.box === box ? 0 : -1));
      draw();
    });
    box.addEventListener("click", () => {
      box.focus({ preventScroll: true });
      toggle(layer, head);
    });
    box.addEventListener("keydown", (event) => press(event, layer, head));
    return { box, mark };
  }

  function drawButtons() {
    const row = html("div", root, "course-removal-buttons", { role: "group", "aria-label": "all heads at once" });
    const made = [["all on", () => every(() => true)]];
    made.push(["only this one", () => every((i, j) => i === home[0] && j === home[1])]);
    if (layers > 1 && heads > 1)
      made.push([
        "only this one in its layer",
        () => model.get("on").map((line, i) => line.map((is, j) => (i === home[0] ? j === home[1] : is))),
      ]);
    made.push(["all but this one", () => every((i, j) => i !== home[0] || j !== home[1])]);
    const all = made.map(([name, heads]) => {
      const button = html("button", row, "course-removal-button", { type: "button" });
      button.textContent = name;
      button.addEventListener("click", () => choose(heads()));
      return { button, name };
    });
    all.said = html("span", row, "course-removal-this");
    return all;
  }

  function drawBar() {
    const frame = html("div", root, "course-removal-frame", { "aria-hidden": "true" });
    const track = html("div", frame, "course-removal-track");
    const fill = html("div", track, "course-removal-fill");
    const label = (share, words, place) => {
      html("div", track, `course-removal-line course-removal-${place}`, { style: `left:${100 * share}%` });
      const text = html("div", track, `course-removal-label course-removal-${place}-label`, { style: `left:${100 * share}%` });
      html("span", text, "", { style: `transform: translateX(-${100 * share}%)` }).textContent = words;
    };
    const said = model.get("said"); // written in Python: no two places may round one number differently
    label(full, said.full, "full");
    if (chance !== null) label(chance, said.chance, "chance");
    return { fill, number: html("b", frame, "course-removal-percent") };
  }

  function choose(on) {
    model.set("on", on);
    model.save_changes();
    draw();
  }

  function toggle(layer, head) {
    const on = model.get("on").map((row) => [...row]);
    on[layer][head] = !on[layer][head];
    choose(on);
  }

  function press(event, layer, head) {
    const goals = goalsFrom(layer, head, layers, heads);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " || (event.key === "Enter" && !event.shiftKey)) {
      event.preventDefault();
      if (!event.repeat) toggle(layer, head);
    } else if (event.key in goals) {
      event.preventDefault();
      const [toLayer, toHead] = goals[event.key];
      tiles[toLayer][toHead].box.focus();
    }
  }

  function draw() {
    const on = model.get("on");
    const answer = model.get("answer");
    // While Python computes, and after an error, the accuracy on hand belongs to other heads.
    const fresh = equal(on, answer.on) && !model.get("error");
    root.classList.toggle("course-removal-stale", !fresh);
    on.forEach((row, layer) =>
      row.forEach((is, head) => {
        const { box, mark } = tiles[layer][head];
        box.classList.toggle("course-removal-off", !is);
        box.classList.toggle("course-removal-plain", !effects.length);
        box.classList.toggle("course-removal-here", layer === home[0] && head === home[1]);
        box.setAttribute("aria-checked", is);
        const said = effects[layer]?.[head]?.said;
        box.setAttribute("aria-label", which(layer, head) + (said ? `, ${said}` : ""));
        mark.textContent = is ? "✓ on" : "✗ off";
      }),
    );
    buttons.said.textContent = `this one: ${which(...home)}`;
    bar.fill.style.width = `${100 * answer.accuracy}%`;
    bar.number.textContent = fresh ? answer.percents : "…";
    summary.textContent = fresh ? answer.text : model.get("error") ? "" : "computing …";
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    list.replaceChildren();
    list.hidden = !answer.detail.length;
    for (const [label, text, ok] of answer.detail) {
      const row = html("li", list, ok === null ? "" : ok ? "course-removal-good" : "course-removal-bad");
      html("span", row, "course-removal-sign").textContent = ok === null ? "" : ok ? "✓" : "✗";
      html("span", row).textContent = label;
      html("b", row).textContent = text;
    }
  }

  function answered() {
    draw();
    const { on, accuracy, detail, count } = model.get("answer");
    root.dataset.state = JSON.stringify({ on: on.map((row) => row.map(Number).join("")), accuracy, detail });
    root.dataset.status = model.get("error") ? "error" : "ok";
    root.dataset.count = count;
  }

  model.on("change:on", draw);
  model.on("change:answer", answered);
  const release = keepKeys(() => root, true);
  tiles[0][0].box.setAttribute("tabindex", 0);
  answered();
  return () => {
    release();
    model.off("change:on", draw);
    model.off("change:answer", answered);
  };
}

export default { render };
