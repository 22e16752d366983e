// A mask to paint: a grid of query-key pairs colored by attention weight, and both layers as a graph from inputs to outputs.

const PITCH = 47; // pixels from row to row, in the grid and in the graph
const HEAD = 50; // pixels above the first row
const HINT = "Click a cell or drag over several; or move with the arrow keys and press Space.";
const MIN_CHANGE = 1e-6; // as in Python: rounding moves as much

// A weight of exactly 0 is masked; a small one is not, and must not look the same.
const weightText = (weight) => (weight > 0 && weight < 0.005 ? "<.01" : weight.toFixed(2));

function build(ui) {
  const { tokens, names, presets, replaced } = ui.data;
  const n = tokens.length;
  const layers = ui.data.projections.shape[0];
  const every = (make) => tokens.map((_, i) => tokens.map((_, j) => make(i, j)));
  let focus = null; // [query, key] under the pointer or the keyboard

  const masks = html("div", ui.controls, "course-choice", { role: "group", "aria-label": "mask" });
  html("span", masks, "course-label").textContent = "mask";
  const buttons = presets.map(([name, mask]) => button(masks, name, () => ui.setInputs({ mask })));
  const choice = html("div", ui.body, "course-choice", { role: "group", "aria-label": "weights of layer" });
  html("span", choice, "course-label").textContent = "weights of layer";
  const layerButtons = Array.from({ length: layers }, (_, layer) => button(choice, layer + 1, () => ui.setView({ layer })));

  const parts = html("div", ui.body, "course-mask-parts");
  const grid = html("div", parts, "course-mask-grid", {
    role: "group",
    "aria-label": "mask: rows attend to columns; arrow keys move, Space toggles",
    style: `grid-template: ${HEAD}px repeat(${n}, ${PITCH}px) / auto repeat(${n}, ${PITCH}px)`,
  });
  html("span", grid, "course-mask-corner").textContent = "key →\nquery ↓";
  tokens.forEach((token) => (html("span", grid, "course-mask-key").textContent = token));
  const queries = [];
  const cells = tokens.map((token, i) => {
    queries.push(html("span", grid, "course-mask-query"));
    queries[i].textContent = token;
    return tokens.map((_, j) => {
      const cell = html("span", grid, "course-mask-cell", { role: "checkbox", tabindex: i + j ? -1 : 0 });
      cell.addEventListener("focus", () => {
        cells.flat().forEach((other) => other.setAttribute("tabindex", other === cell ? 0 : -1));
        follow([i, j]);
      });
      cell.addEventListener("blur", () => follow(null));
      cell.addEventListener("pointerenter", () => follow([i, j]));
      cell.addEventListener("keydown", (event) => press(event, i, j));
      return cell;
    });
  });
  const graph = drawGraph(parts);
  const legend = html("p", ui.body, "course-mask-legend", { "aria-hidden": "true" });
  for (const [before, swatch, after] of [
    ["weight 0", "course-mask-scale", "1"],
    ["", "course-mask-cell course-mask-masked", "masked"],
    ["", "course-mask-swatch", `depends on “${names[replaced]}”`],
    ["", "course-mask-dotted", "query only"],
  ]) {
    const item = html("span", legend);
    item.append(before);
    html("span", item, swatch);
    item.append(after);
  }
  const summary = html("p", ui.body, "", { "aria-live": "polite" });
  const detail = html("p", ui.body, "course-mask-detail");

  function drawGraph(parent) {
    // Column l has the hidden states after layer l; a line for every allowed pair, from its key to its query.
    const pill = 56;
    const gap = 52;
    const middle = (i) => HEAD + (i + 0.5) * PITCH;
    const left = (column) => 3 + column * (pill + gap);
    const width = left(layers) + pill + 70;
    const height = HEAD + n * PITCH;
    const picture = svg("svg", parent, { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    const edges = Array.from({ length: layers }, (_, layer) =>
      every((i, j) => {
        const [from, to] = [left(layer) + pill, left(layer + 1)];
        const d = `M${from} ${middle(j)} C${from + gap / 2} ${middle(j)} ${to - gap / 2} ${middle(i)} ${to} ${middle(i)}`;
        return svg("path", picture, { d, class: "course-mask-edge" });
      }),
    );
    const nodes = Array.from({ length: layers + 1 }, (_, column) => {
      const heading = svg("text", picture, { x: left(column) + pill / 2, y: HEAD - 10, "text-anchor": "middle" });
      heading.textContent = column ? `layer ${column}` : "input";
      return tokens.map((token, i) => {
        const box = svg("rect", picture, { x: left(column), y: middle(i) - 16, width: pill, height: 32, rx: 6, class: "course-mask-node" });
        svg("text", picture, { x: left(column) + pill / 2, y: middle(i) + 5, "text-anchor": "middle" }).textContent = token;
        return box;
      });
    });
    svg("text", picture, { x: left(layers) + pill + 8, y: HEAD - 10, class: "course-mask-amount" }).textContent = "change";
    const amounts = tokens.map((_, i) => svg("text", picture, { x: left(layers) + pill + 8, y: middle(i) + 5, class: "course-mask-amount", "data-output": i }));
    return { edges, nodes, amounts };
  }

  const put = (i, j, allowed) =>
    ui.inputs.mask[i][j] !== allowed &&
    ui.setInputs({ mask: ui.inputs.mask.map((row, query) => row.map((old, key) => (query === i && key === j ? allowed : old))) });

  function press(event, i, j) {
    const goal = arrowMoves(event, i, j, n, n);
    if (goal) cells[goal[0]][goal[1]].focus();
    else if (event.key === " " || (event.key === "Enter" && !event.shiftKey)) event.repeat || put(i, j, !ui.inputs.mask[i][j]);
    else return;
    event.preventDefault();
  }

  // Painting: the first cell decides whether the stroke allows or masks.
  let stroke = null;

  function cellAt(x, y) {
    const first = cells[0][0].getBoundingClientRect();
    const [i, j] = [Math.floor((y - first.top) / PITCH), Math.floor((x - first.left) / PITCH)];
    return i >= 0 && j >= 0 && i < n && j < n ? [i, j] : null;
  }

  function paint(x, y) {
    // A fast hand jumps over cells: everything on the way is painted too.
    const steps = Math.max(1, Math.ceil(Math.hypot(x - stroke.x, y - stroke.y) / (PITCH / 3)));
    for (let step = 1; step <= steps; step++) {
      const place = cellAt(stroke.x + ((x - stroke.x) * step) / steps, stroke.y + ((y - stroke.y) * step) / steps);
      if (place) put(...place, stroke.allowed);
      if (place) follow(place);
    }
    Object.assign(stroke, { x, y });
  }

  grid.addEventListener("pointerdown", (event) => {
    const place = event.button === 0 && cellAt(event.clientX, event.clientY);
    if (!place) return;
    event.preventDefault();
    grid.setPointerCapture(event.pointerId);
    const [i, j] = place;
    cells[i][j].focus({ preventScroll: true });
    stroke = { x: event.clientX, y: event.clientY, allowed: !ui.inputs.mask[i][j] };
    paint(event.clientX, event.clientY);
  });
  grid.addEventListener("pointermove", (event) => stroke && paint(event.clientX, event.clientY));
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) grid.addEventListener(end, () => (stroke = null));
  grid.addEventListener("pointerleave", () => follow(null));

  function follow(place) {
    focus = place;
    queries.forEach((query, i) => query.classList.toggle("course-mask-followed", i === place?.[0]));
    const away = (layer, i) => place && layer === ui.view.layer && i !== place[0];
    graph.edges.forEach((rows, layer) =>
      rows.forEach((row, i) => row.forEach((edge) => edge.classList.toggle("course-mask-faded", Boolean(away(layer, i))))),
    );
    detail.textContent = place ? describe(...place) : HINT;
  }

  function describe(i, j) {
    const [query, key] = [`“${names[i]}”`, i === j ? "itself" : `“${names[j]}”`];
    if (!ui.inputs.mask[i].some(Boolean)) return `${query} is fully masked: all its weights are 0, and so is its output.`;
    if (!ui.inputs.mask[i][j]) return `${query} may not attend to ${key}.`;
    return `${query} may attend to ${key}: weight ${ui.answer.weights[ui.view.layer][i][j].toFixed(3)} in layer ${ui.view.layer + 1}.`;
  }

  return () => {
    const { mask } = ui.inputs;
    const { weights, changed } = ui.answer;
    const { layer } = ui.view;
    const now = JSON.stringify(mask);
    presets.forEach(([, preset], index) => buttons[index].setAttribute("aria-pressed", JSON.stringify(preset) === now));
    layerButtons.forEach((each, index) => each.setAttribute("aria-pressed", index === layer));
    mask.forEach((row, i) =>
      row.forEach((allowed, j) => {
        const weight = weights[layer][i][j];
        const cell = cells[i][j];
        cell.classList.toggle("course-mask-masked", !allowed);
        cell.style.background = allowed ? shade(weight) : "";
        cell.style.color = onShade(weight);
        cell.textContent = allowed && weight > 0 ? weightText(weight) : "";
        cell.setAttribute("aria-checked", allowed);
        cell.setAttribute("aria-label", `${names[i]} attends to ${names[j]}${allowed ? `, weight ${weight.toFixed(2)}` : ""}`);
        graph.edges.forEach((rows, column) => {
          const edge = rows[i][j];
          const carries = column ? changed[column - 1][j] > 0 : j === replaced;
          // The query comes from the token itself, also where it may not attend to itself.
          edge.style.display = allowed || (i === j && row.some(Boolean)) ? "" : "none";
          edge.style.strokeDasharray = allowed ? "" : "0 6";
          edge.style.stroke = carries ? "var(--c-output)" : "var(--c-strong)";
          edge.style.strokeWidth = allowed ? 1 + 5 * weights[column][i][j] : 3.5;
          edge.style.opacity = allowed ? 0.25 + 0.7 * weights[column][i][j] : 1;
        });
      }),
    );
    graph.nodes.forEach((column, index) =>
      column.forEach((node, i) => node.classList.toggle("course-mask-moved", index ? changed[index - 1][i] > 0 : i === replaced)),
    );
    graph.amounts.forEach((text, i) => {
      const amount = changed[layers - 1][i];
      text.textContent = amount > 0 ? (amount < 0.005 ? "<0.01" : amount.toFixed(2)) : "none";
      text.classList.toggle("course-mask-moved", amount > 0);
    });
    const count = changed[layers - 1].filter((amount) => amount > 0).length;
    summary.textContent =
      `${mask.flat().filter(Boolean).length} of ${n * n} query-key pairs are allowed. ` +
      `When “${names[replaced]}” is replaced, ${count} of ${n} outputs change.`;
    follow(focus);
  };
}

function compute(data, { mask }) {
  const [x, projections] = [unpack(data.x), unpack(data.projections)];
  const [layers, , rows, columns] = data.projections.shape;
  const range = (length, make) => Array.from({ length }, (_, index) => make(index));
  const project = (layer, which, vector) =>
    range(rows, (row) => dot(range(columns, (column) => projections.at(layer, which, row, column)), vector));
  let hidden = range(2, (which) => mask.map((_, i) => range(data.x.shape[2], (axis) => x.at(which, i, axis))));
  const answer = { changed: [], weights: [] };
  for (let layer = 0; layer < layers; layer++) {
    const attended = hidden.map((vectors) => {
      const [query, key, value] = range(3, (which) => vectors.map((vector) => project(layer, which, vector)));
      const weights = mask.map((row, i) =>
        row.some(Boolean) ? softmax(row.map((allowed, j) => (allowed ? dot(query[i], key[j]) / Math.sqrt(rows) : -Infinity))) : row.map(() => 0),
      );
      return { weights, output: weights.map((row) => weightedSum(row, value)) };
    });
    hidden = attended.map(({ output }) => output);
    const distances = hidden[0].map((vector, i) => Math.hypot(...vector.map((one, axis) => one - hidden[1][i][axis])));
    answer.changed.push(distances.map((distance) => (distance <= MIN_CHANGE ? 0 : distance)));
    answer.weights.push(attended[0].weights);
  }
  return answer;
}

export default course({ name: "mask_board", build, compute });
