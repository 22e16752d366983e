// A mask drawn by hand: a grid of cells, the same mask as a graph, and what became of each token's output.
// Cells and arrows follow the hand at once; weights and outputs come back from Python.

const SAME = 1e-6; // as in Python: an output that moved no more is the same
const GAP = 3; // pixels between cells
const HINT = "Click a cell or drag over several; or Tab to the grid, move with the arrow keys, press Space.";
let views = 0;

// A weight that is exactly 0 was masked; a small one was not, and must not appear the same.
const figure = (weight) => (weight === 0 ? "0" : weight < 0.005 ? "<0.01" : weight.toFixed(2));
const changed = (amount) => amount > SAME;
const equal = (a, b) => a.every((row, i) => row.every((allowed, j) => allowed === b[i][j]));

function outputWords(amount, measured) {
  if (!changed(amount)) return "= same";
  return measured ? `◆ changed ${amount < 0.005 ? "<0.01" : amount.toFixed(2)}` : "◆ changed";
}

function widest(labels, font) {
  const pen = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") || "sans-serif";
  pen.font = `${font} ${family}`;
  return Math.ceil(Math.max(...labels.map((label) => pen.measureText(label).width)));
}

function render({ model, el }) {
  const labels = model.get("labels");
  const names = model.get("names");
  const presets = model.get("presets");
  const n = labels.length;
  const cell = n <= 7 ? 54 : n <= 9 ? 50 : 43; // the pitch of rows and columns in pixels
  const longest = widest(labels, "bold 16px");
  const turned = longest > cell - 6;
  const head = Math.max(84, (turned ? longest : 20) + 14); // height of the row of headings, here and in the graph
  const short = (number) => (cell < 50 && number === "<0.01" ? "≈0" : number); // five letters do not fit a narrow cell
  let followed = null; // [row, column] under the pointer, or under the keyboard
  let home = [0, 0]; // the cell that Tab goes to

  const root = html("div", el, "course-mask-root");
  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const buttons = presets.length ? drawPresets() : [];
  const body = html("div", root, "course-mask-body");
  const grid = html("div", html("div", body, "course-mask-scroll"), "course-mask-grid", {
    role: "group",
    "aria-label": "mask: rows attend to columns; arrow keys move, Space toggles",
    style:
      `grid-template-columns:${Math.max(106, longest + 12)}px repeat(${n}, ${cell - GAP}px) 160px;` +
      `grid-template-rows:${head - GAP}px repeat(${n}, ${cell - GAP}px);gap:${GAP}px`,
  });
  const { cells, rowHeads, outputs } = drawGrid();
  const graph = drawGraph(html("div", body, "course-mask-graph"));
  const summary = html("p", root, "course-mask-summary", { role: "status", "aria-live": "polite" });
  const detail = html("p", root, "course-mask-detail");
  const error = html("p", root, "course-error", { role: "alert" });

  function drawPresets() {
    const row = html("div", root, "course-mask-presets", { role: "group", "aria-label": "masks to start from" });
    html("span", row, "", { "aria-hidden": "true" }).textContent = "start from:";
    return presets.map(({ name, mask }) => {
      const button = html("button", row, "course-mask-preset", { type: "button" });
      button.textContent = name;
      button.addEventListener("click", () => choose(mask.map((line) => [...line])));
      return button;
    });
  }

  function drawGrid() {
    const corner = html("div", grid, "course-mask-corner", { "aria-hidden": "true" });
    html("span", corner).textContent = "key →";
    html("span", corner).textContent = "query ↓";
    labels.forEach((label, j) => {
      const name = html("div", grid, `course-mask-column${turned ? " course-mask-turned" : ""}`, { "aria-hidden": "true" });
      html("span", name, "", { title: names[j] }).textContent = label;
    });
    const heading = html("div", grid, "course-mask-heading");
    html("b", heading).textContent = "output,";
    html("span", heading).textContent = model.get("compared");
    const made = { cells: [], rowHeads: [], outputs: [] };
    labels.forEach((label, i) => {
      const name = html("div", grid, "course-mask-row", { title: names[i], "aria-hidden": "true" });
      name.textContent = label;
      made.rowHeads.push(name);
      made.cells.push(labels.map((_, j) => drawCell(i, j)));
      const output = html("div", grid, "course-mask-output");
      made.outputs.push({ box: output, words: html("span", output), nowhere: html("small", output) });
    });
    return made;
  }

  function drawCell(i, j) {
    const box = html("div", grid, "course-cell", { role: "checkbox", tabindex: -1 });
    box.dataset.row = i;
    box.dataset.column = j;
    html("span", box, "course-mask-tick", { "aria-hidden": "true" });
    html("span", box, "course-mask-weight", { "aria-hidden": "true" });
    box.addEventListener("focus", () => {
      home = [i, j];
      follow(home);
      cells.flat().forEach((other) => other.setAttribute("tabindex", other === box ? 0 : -1));
    });
    box.addEventListener("blur", () => follow(null));
    box.addEventListener("pointerenter", () => follow([i, j]));
    box.addEventListener("keydown", (event) => press(event, i, j));
    // A screen reader clicks without a pointer; real clicks are taken at pointerdown.
    box.addEventListener("click", (event) => event.detail === 0 && toggle(i, j));
    return box;
  }

  function drawGraph(parent) {
    // Tokens on a line, level with their rows: arrows back swing out to the left, arrows ahead to the right.
    const pill = Math.max(56, longest + 16);
    const depth = n <= 9 ? Math.min(112, 50 + 10 * n) : 84; // twelve tokens and their graph fit beside each other
    const left = depth + 10;
    const width = left + pill + depth + 10;
    const height = head + n * cell;
    const picture = svg("svg", parent, { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const id = `course-mask-head-${++views}`;
    const marker = { id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerUnits: "userSpaceOnUse", orient: "auto" };
    const tip = svg("marker", svg("defs", picture), { ...marker, markerWidth: 11, markerHeight: 11 });
    svg("path", tip, { d: "M0 0 L10 5 L0 10 Z", class: "course-mask-tip" });
    const heading = (words, x, anchor) =>
      words.forEach((word, line) => {
        svg("text", picture, { x, y: head - 30 + 20 * line, "text-anchor": anchor, class: "course-mask-side" }).textContent = word;
      });
    heading(["attends", "back"], left - 8, "end");
    heading(["attends", "ahead"], left + pill + 8, "start");
    const middle = (i) => head + (i + 0.5) * cell - GAP / 2;
    const arrows = labels.map((_, i) =>
      labels.map((_, j) => {
        const back = j <= i;
        const x = back ? left : left + pill;
        const swing = (back ? -4 : 4) / 3 * depth * (0.16 + (0.84 * Math.abs(i - j)) / Math.max(n - 1, 1));
        // An arrow leaves on the side of its goal and arrives on the side of its origin, so the two do not meet.
        const turn = back ? -7 : 7;
        const [from, to] = [middle(i) + turn, middle(j) - turn];
        const d = `M${x} ${from} C${x + swing} ${from} ${x + swing} ${to} ${x} ${to}`;
        return svg("path", picture, { d, class: "course-mask-arrow", "marker-end": `url(#${id})` });
      }),
    );
    const nodes = labels.map((label, i) => {
      svg("rect", picture, { x: left, y: middle(i) - 15, width: pill, height: 30, rx: 6, class: "course-mask-node" });
      const box = picture.lastChild;
      const place = { x: left + pill / 2, y: middle(i) + 5.5, "text-anchor": "middle", class: "course-mask-word" };
      svg("text", picture, place).textContent = label;
      return box;
    });
    const caption = html("p", parent, "course-mask-caption", { style: `max-width:${width}px` });
    caption.textContent = "An arrow for each allowed pair; thicker: more weight. Thick frame: output changed; dashed: fully masked.";
    return { arrows, nodes };
  }

  function choose(mask) {
    model.set("mask", mask);
    model.save_changes();
    draw();
  }

  function put(i, j, allowed) {
    const mask = model.get("mask").map((row) => [...row]);
    if (mask[i][j] === allowed) return;
    mask[i][j] = allowed;
    choose(mask);
  }

  const toggle = (i, j) => put(i, j, !model.get("mask")[i][j]);

  function press(event, i, j) {
    const goals = {
      ArrowLeft: [i, Math.max(j - 1, 0)],
      ArrowRight: [i, Math.min(j + 1, n - 1)],
      ArrowUp: [Math.max(i - 1, 0), j],
      ArrowDown: [Math.min(i + 1, n - 1), j],
      Home: [i, 0],
      End: [i, n - 1],
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " || (event.key === "Enter" && !event.shiftKey)) {
      event.preventDefault();
      if (!event.repeat) toggle(i, j);
    } else if (event.key in goals) {
      event.preventDefault();
      const [row, column] = goals[event.key];
      cells[row][column].focus();
    }
  }

  // Painting: the first cell decides whether the stroke opens or closes.
  let stroke = null;

  function cellAt(x, y) {
    const first = cells[0][0].getBoundingClientRect();
    const [i, j] = [Math.floor((y - first.top) / cell), Math.floor((x - first.left) / cell)];
    return i >= 0 && j >= 0 && i < n && j < n ? [i, j] : null;
  }

  function paint(x, y) {
    // A fast hand jumps over cells: everything on the way is painted too.
    const far = Math.hypot(x - stroke.x, y - stroke.y);
    const steps = Math.max(1, Math.ceil(far / (cell / 3)));
    for (let step = 1; step <= steps; step++) {
      const place = cellAt(stroke.x + ((x - stroke.x) * step) / steps, stroke.y + ((y - stroke.y) * step) / steps);
      if (!place) continue;
      put(...place, stroke.allowed);
      follow(place);
    }
    Object.assign(stroke, { x, y });
  }

  grid.addEventListener("pointerdown", (event) => {
    const place = event.button === 0 && cellAt(event.clientX, event.clientY);
    if (!place) return;
    event.preventDefault();
    grid.setPointerCapture(event.pointerId);
    const [i, j] = place;
    cells[i][j].focus({ preventScroll: true }); // a page that moved under the pointer would be painted elsewhere
    stroke = { x: event.clientX, y: event.clientY, allowed: !model.get("mask")[i][j] };
    paint(event.clientX, event.clientY);
  });
  grid.addEventListener("pointermove", (event) => stroke && paint(event.clientX, event.clientY));
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) grid.addEventListener(end, () => (stroke = null));
  grid.addEventListener("pointerleave", () => {
    const focused = grid.contains(document.activeElement);
    follow(focused ? home : null);
  });

  function follow(place) {
    followed = place;
    const row = place?.[0] ?? -1;
    graph.arrows.forEach((line, i) => line.forEach((arrow) => arrow.classList.toggle("course-mask-faded", row >= 0 && i !== row)));
    rowHeads.forEach((name, i) => name.classList.toggle("course-mask-followed", i === row));
    detail.textContent = place ? told(...place) : HINT;
  }

  function told(i, j) {
    const mask = model.get("mask");
    const answer = model.get("answer");
    const [who, whom] = [`“${names[i]}”`, i === j ? "itself" : `“${names[j]}”`];
    const fresh = equal(mask, answer.mask) && !model.get("error");
    const words = mask[i][j] ? `${who} may attend to ${whom}` : `${who} may not attend to ${whom}`;
    if (!fresh) return `${words}.`;
    if (!mask[i].some(Boolean)) return `${who} is fully masked: all its weights are 0.`;
    const moved = changed(answer.changed[i]) ? "has changed" : "is the same";
    return `${words}: weight ${figure(answer.weights[i][j])}. The output of ${who} ${moved}.`;
  }

  function draw() {
    const mask = model.get("mask");
    const answer = model.get("answer");
    // While Python computes, and after an error, the numbers on hand belong to another mask.
    const fresh = equal(mask, answer.mask) && !model.get("error");
    root.classList.toggle("course-mask-stale", !fresh);
    presets.forEach((preset, index) => buttons[index].setAttribute("aria-pressed", equal(preset.mask, mask)));
    mask.forEach((row, i) => {
      const nowhere = !row.some(Boolean);
      const most = Math.max(...answer.weights[i], SAME);
      row.forEach((allowed, j) => {
        const weight = answer.weights[i][j];
        const box = cells[i][j];
        box.classList.toggle("course-mask-open", allowed);
        box.classList.toggle("course-mask-blind", nowhere);
        box.setAttribute("aria-checked", allowed);
        box.setAttribute("aria-label", `${names[i]} attends to ${names[j]}${allowed && fresh ? `, weight ${figure(weight)}` : ""}`);
        box.firstChild.textContent = allowed ? "✓" : "";
        box.lastChild.textContent = allowed && fresh ? short(figure(weight)) : "";
        const arrow = graph.arrows[i][j];
        arrow.setAttribute("visibility", allowed ? "visible" : "hidden");
        arrow.setAttribute("stroke-width", fresh ? (1.2 + 5 * weight).toFixed(2) : 1.2);
        arrow.setAttribute("opacity", fresh ? (0.35 + (0.6 * weight) / most).toFixed(3) : 0.35);
      });
      const moved = fresh && changed(answer.changed[i]);
      outputs[i].words.textContent = outputWords(answer.changed[i], answer.measured);
      outputs[i].nowhere.textContent = nowhere ? "fully masked" : "";
      outputs[i].box.classList.toggle("course-mask-moved", changed(answer.changed[i]));
      graph.nodes[i].classList.toggle("course-mask-moved", moved);
      graph.nodes[i].classList.toggle("course-mask-blind", nowhere);
    });
    summary.textContent = answer.text;
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    follow(followed);
  }

  function answered() {
    draw();
    const { mask, changed: moved, weights, count } = model.get("answer");
    const rows = mask.map((row) => row.map(Number).join(""));
    root.dataset.state = JSON.stringify({ mask: rows, changed: moved, weights });
    root.dataset.status = model.get("error") ? "error" : "ok";
    root.dataset.count = count;
  }

  model.on("change:mask", draw);
  model.on("change:answer", answered);
  const release = keepKeys(() => root, true);
  cells[0][0].setAttribute("tabindex", 0);
  answered();
  return () => {
    release();
    model.off("change:mask", draw);
    model.off("change:answer", answered);
  };
}

export default { render };
