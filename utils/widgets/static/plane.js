// A query dragged in the plane. The arrow follows the hand at once; weights and output come back from Python.

const SIZE = 470; // pixels of the square
const EDGE = 44;

function render({ model, el }) {
  const extent = model.get("extent");
  const points = model.get("points");
  const [queryName, outputName] = model.get("names");
  const root = html("div", el, "course-plane-root");
  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const row = html("div", root, "course-plane-row");
  const picture = svg("svg", row, {
    viewBox: `0 0 ${SIZE + 2 * EDGE} ${SIZE + 2 * EDGE}`,
    class: "course-plane-square",
    role: "group",
    "aria-label": model.get("title") || "plane",
  });
  const side = html("div", row, "course-plane-side");
  const text = html("p", root, "course-text", { "aria-live": "polite" });
  const error = html("p", root, "course-error", { role: "alert" });

  const across = (x) => EDGE + ((x + extent) / (2 * extent)) * SIZE;
  const down = (y) => EDGE + ((extent - y) / (2 * extent)) * SIZE;

  const fixed = []; // [text element, place] of what never moves
  const taken = []; // boxes of those names and points

  drawGrid();
  const links = points.map((point) => svg("line", picture, { stroke: point.color, class: "course-link" }));
  const halos = points.map((point) =>
    svg("circle", picture, { cx: across(point.key[0]), cy: down(point.key[1]), fill: point.color, class: "course-halo" }),
  );
  points.forEach(drawPoint);
  const shaft = svg("line", picture, { x1: across(0), y1: down(0), class: "course-shaft" });
  const tip = svg("path", picture, { class: "course-tip" });
  const output = svg("rect", picture, { x: -9, y: -9, width: 18, height: 18, class: "course-output" });
  const outputLabel = label(picture, outputName, "course-output-name");
  const queryLabel = label(picture, queryName, "course-query-name");
  const handle = svg("circle", picture, {
    r: 22,
    class: "course-handle",
    tabindex: 0,
    role: "slider",
    "aria-label": `${queryName}: drag it, or use the arrow keys, with Shift for larger steps`,
    "aria-valuemin": -extent,
    "aria-valuemax": extent,
  });
  const bars = points.map(drawBar);
  const sliders = model.get("sliders").map(drawSlider);

  function drawGrid() {
    svg("rect", picture, { x: EDGE, y: EDGE, width: SIZE, height: SIZE, class: "course-ground" });
    const gap = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100].find((one) => extent / one <= 3) ?? extent / 3;
    for (let k = -Math.floor(extent / gap); k <= extent / gap; k++) {
      const at = k * gap;
      const kind = k === 0 ? "course-axis" : "course-grid";
      svg("line", picture, { x1: across(at), x2: across(at), y1: EDGE, y2: EDGE + SIZE, class: kind });
      svg("line", picture, { y1: down(at), y2: down(at), x1: EDGE, x2: EDGE + SIZE, class: kind });
      tick(across(at), EDGE + SIZE + 21, "middle", at);
      tick(EDGE - 7, down(at) + 5, "end", at);
    }
  }

  function tick(x, y, anchor, number) {
    svg("text", picture, { x, y, "text-anchor": anchor, class: "course-tick" }).textContent = String(number).replace("-", "−");
  }

  function label(parent, words, className) {
    const element = svg("text", parent, { class: `course-name ${className}` });
    element.textContent = words;
    return element;
  }

  function box(element, [x, y], right, up) {
    const half = element.getComputedTextLength() / 2 || element.textContent.length * 4.8;
    return { x: across(x) + right * (half + 15), y: down(y) - up * 17, half };
  }

  function overlap(first, second) {
    const wide = Math.min(first.x + first.half, second.x + second.half) - Math.max(first.x - first.half, second.x - second.half);
    const high = 20 - Math.abs(first.y - second.y);
    return Math.max(wide, 0) * Math.max(high, 0);
  }

  function beside(element, place, others) {
    // The corner of the point where the name covers the fewest other names and points, and stays in the plane.
    const cost = (one) =>
      others.reduce((sum, other) => sum + overlap(one, other), 0) +
      1000 * Math.max(0, one.x + one.half - EDGE - SIZE, EDGE - one.x + one.half, one.y - SIZE - EDGE, EDGE - one.y);
    const corners = [[1, 1], [-1, 1], [1, -1], [-1, -1]].map(([right, up]) => box(element, place, right, up));
    const best = corners.reduce((a, b) => (cost(b) < cost(a) ? b : a));
    set(element, { x: best.x, y: best.y + 5, "text-anchor": "middle" });
    return best;
  }

  function nameFixed() {
    taken.length = 0;
    for (const [, place] of fixed) taken.push({ x: across(place[0]), y: down(place[1]), half: 10 });
    for (const [element, place] of fixed) taken.push(beside(element, place, taken));
  }

  function nameMoving() {
    const query = model.get("query");
    const output = model.get("answer").output;
    const dots = [query, ...(output ? [output] : [])].map(([x, y]) => ({ x: across(x), y: down(y), half: 10 }));
    const first = output ? [beside(outputLabel, output, [...taken, ...dots])] : [];
    beside(queryLabel, query, [...taken, ...dots, ...first]);
  }

  function drawPoint(point) {
    svg("circle", picture, { cx: across(point.key[0]), cy: down(point.key[1]), r: 8, fill: point.color, class: "course-dot" });
    fixed.push([label(picture, point.value ? `key ${point.name}` : point.name, ""), point.key]);
    if (point.value) {
      svg("rect", picture, { x: across(point.value[0]) - 8, y: down(point.value[1]) - 8, width: 16, height: 16, fill: point.color, class: "course-dot" });
      fixed.push([label(picture, `value ${point.name}`, ""), point.value]);
    }
  }

  function drawBar(point) {
    const line = html("div", side, "course-bar-row");
    html("span", line, "course-bar-name").textContent = point.name;
    const track = html("span", line, "course-bar-track");
    const bar = html("span", track, "course-bar", { style: `background:${point.color}` });
    const number = html("span", line, "course-bar-number");
    return { line, bar, number };
  }

  function drawSlider(spec) {
    const box = html("label", side, "course-plane-slider");
    const words = html("span", box);
    const input = html("input", box, "", { type: "range", min: spec.low, max: spec.high, step: spec.step });
    const value = () => (spec.log ? 10 ** Number(input.value) : Number(input.value));
    const said = (number) => (spec.log ? String(Number(number.toPrecision(3))) : number.toFixed(spec.decimals));
    input.addEventListener("input", () => {
      model.set("settings", { ...model.get("settings"), [spec.name]: value() });
      model.save_changes();
      refresh();
    });
    function refresh() {
      const number = model.get("settings")[spec.name];
      if (Math.abs(value() - number) > 1e-9 * Math.abs(number)) input.value = spec.log ? Math.log10(number) : number;
      words.textContent = `${spec.label}: ${said(number)}`;
      input.setAttribute("aria-valuetext", said(number));
    }
    return refresh;
  }

  function moveTo(x, y) {
    const clamp = (number) => Math.min(extent, Math.max(-extent, Number(number.toFixed(4))));
    model.set("query", [clamp(x), clamp(y)]);
    model.save_changes();
    drawQuery();
  }

  function fromPointer(event) {
    const box = picture.getBoundingClientRect();
    const scale = (SIZE + 2 * EDGE) / box.width;
    const x = ((event.clientX - box.left) * scale - EDGE) / SIZE;
    const y = ((event.clientY - box.top) * scale - EDGE) / SIZE;
    moveTo((2 * x - 1) * extent, (1 - 2 * y) * extent);
  }

  picture.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    picture.setPointerCapture(event.pointerId);
    handle.focus();
    fromPointer(event);
  });
  picture.addEventListener("pointermove", (event) => {
    if (picture.hasPointerCapture(event.pointerId)) fromPointer(event);
  });
  handle.addEventListener("keydown", (event) => {
    const by = model.get("step") * (event.shiftKey ? 5 : 1);
    const moves = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [x, y] = model.get("query");
    moveTo(x + moves[event.key][0], y + moves[event.key][1]);
  });

  function drawQuery() {
    const [x, y] = model.get("query");
    const [left, top] = [across(x), down(y)];
    const angle = Math.atan2(top - down(0), left - across(0));
    const length = Math.hypot(top - down(0), left - across(0));
    const back = Math.min(14, length);
    set(shaft, { x2: left - back * Math.cos(angle), y2: top - back * Math.sin(angle) });
    set(tip, { d: "M0 0 L-18 -9 L-18 9 Z", transform: `translate(${left} ${top}) rotate(${(angle * 180) / Math.PI})` });
    set(handle, { cx: left, cy: top, "aria-valuenow": x, "aria-valuetext": `x ${x.toFixed(2)}, y ${y.toFixed(2)}` });
    nameMoving();
  }

  function drawAnswer() {
    const answer = model.get("answer");
    points.forEach((point, index) => {
      const weight = answer.weights ? answer.weights[index] : 0;
      halos[index].setAttribute("r", (44 * Math.sqrt(weight)).toFixed(1)); // the area stands for the weight
      const from = point.value ?? point.key;
      if (answer.output)
        set(links[index], { x1: across(from[0]), y1: down(from[1]), x2: across(answer.output[0]), y2: down(answer.output[1]) });
      set(links[index], { "stroke-width": (1 + 9 * weight).toFixed(1), visibility: answer.output && weight > 0.004 ? "visible" : "hidden" });
      bars[index].line.hidden = !answer.weights;
      bars[index].bar.style.width = `${(100 * weight).toFixed(1)}%`;
      bars[index].number.textContent = weight.toFixed(2);
    });
    const visible = answer.output ? "visible" : "hidden";
    if (answer.output) {
      set(output, { transform: `translate(${across(answer.output[0])} ${down(answer.output[1])}) rotate(45)` });
      nameMoving();
    }
    set(output, { visibility: visible });
    set(outputLabel, { visibility: visible });
    text.textContent = answer.text;
    text.hidden = !answer.text;
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    root.dataset.state = JSON.stringify({ query: model.get("query"), ...model.get("settings"), weights: answer.weights, output: answer.output });
    root.dataset.count = answer.count;
    root.dataset.status = model.get("error") ? "error" : "ok";
  }

  const drawSettings = () => sliders.forEach((refresh) => refresh());
  model.on("change:query", drawQuery);
  model.on("change:answer", drawAnswer);
  model.on("change:settings", drawSettings);
  const release = keepKeys(() => root);
  const drawAll = () => {
    nameFixed();
    drawQuery();
    drawSettings();
    drawAnswer();
  };
  drawAll();
  const drawnAgain = requestAnimationFrame(drawAll); // once in the page, texts have their real width
  return () => {
    release();
    cancelAnimationFrame(drawnAgain);
    model.off("change:query", drawQuery);
    model.off("change:answer", drawAnswer);
    model.off("change:settings", drawSettings);
  };
}

export default { render };
