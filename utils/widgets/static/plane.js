// Softmax attention in the plane. Query, keys, values and target are dragged; training moves keys and values along their gradients.

const SIZE = 440;
const FIELD = 60; // queries along each side of the field
const TRAIN_STEPS = 100; // steps of one press of Train
const STEPS_AT_ONCE = 10; // of an answer, and so few that the points can still be dragged meanwhile
const CURVE = { width: 260, height: 64 };

function build(ui) {
  const { names, extent, start, learning_rate, max_norm } = ui.data;
  const row = html("div", ui.body, "course-plane-row");
  const square = html("div", row, "course-plane-square");
  const field = html("canvas", square, "course-plane-field", { width: FIELD, height: FIELD, "aria-hidden": "true" });
  const side = html("div", row, "course-plane-side");
  const plane = coordinatePlane(square, { extent, size: SIZE, label: ui.data.title || "plane", move });
  const { picture, across, down } = plane;

  const group = () => svg("g", picture);
  const [halos, links, pairs, marks, arrows] = [group(), group(), group(), group(), group()];
  const points = names.map((name, index) => ({
    halo: svg("circle", halos, { class: "course-plane-halo", fill: series(index), stroke: series(index) }),
    link: svg("line", links, { class: "course-plane-link", stroke: series(index) }),
    pair: svg("line", pairs, { class: "course-plane-pair", stroke: series(index) }),
    value: svg("rect", marks, { width: 16, height: 16, class: "course-plane-mark", fill: series(index) }),
    key: svg("circle", marks, { r: 8, class: "course-plane-mark", fill: series(index) }),
    keyArrow: svg("path", arrows, { class: "course-plane-arrow" }),
    valueArrow: svg("path", arrows, { class: "course-plane-arrow" }),
    keyName: plane.name(name),
    longName: plane.name(`key ${name}`), // where keys and values are apart
    valueName: plane.name(`value ${name}`),
    ...weightBar(side, name, series(index)),
  }));
  const error = svg("line", links, { class: "course-plane-error" });
  const target = svg("path", marks, { d: "M0 -13 L13 0 L0 13 L-13 0 Z", class: "course-plane-target" });
  const output = svg("path", marks, { d: "M0 -11 L11 0 L0 11 L-11 0 Z", class: "course-plane-output" });
  const shaft = svg("line", marks, { x1: across(0), y1: down(0), class: "course-plane-shaft" });
  const tip = svg("path", marks, { d: "M0 0 L-18 -9 L-18 9 Z", class: "course-plane-tip" });
  const texts = { target: plane.name("target", "course-plane-output-name"), output: plane.name("output", "course-plane-output-name"), query: plane.name("query", "course-plane-query-name") };
  const handles = {
    query: plane.handle("query", "query", { reach: 22, anywhere: true }),
    keys: names.map((name, index) => plane.handle(["keys", index], `key ${name}`)),
    values: names.map((name, index) => plane.handle(["values", index], `value ${name}`)),
    target: plane.handle("target", "target of the output"),
  };

  const total = weightBar(side, "sum", "transparent").number;
  const inputs = html("fieldset", side, "course-controls");
  const showTemperature = addControls(ui, ui.data.controls, inputs);
  const showSeparate = CONTROLS.check({ label: "separate values" }, inputs, (separate) =>
    change({ values: separate ? now().keys.map((key) => key.map((part) => Math.min(part + 0.5, extent))) : null }),
  );
  const showFieldBox = CONTROLS.check({ label: "color field" }, inputs, (on) => ui.setView({ field: on }));
  const buttons = html("div", side, "course-controls");
  const train = button(buttons, "Train", () => run(training ? 0 : TRAIN_STEPS));
  const once = button(buttons, "Step", () => run(1));
  button(buttons, "Reset", () => {
    run(0);
    losses.length = 0;
    change(start);
  });
  const loss = html("p", side, "course-plane-loss");
  const curve = svg("svg", side, { viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, class: "course-plane-curve", "aria-hidden": "true" });
  const line = svg("polyline", curve);
  const outcome = html("p", side, "course-plane-outcome", { "aria-live": "polite" });
  outcome.textContent = "Training moves keys and values so that the output approaches the target.";
  html("p", ui.body, "course-plane-legend").textContent =
    "Disks: attention weight as area. Color field: for every query, the colors of the keys mixed by their weights, computed in this page. " +
    `Arrows: negative gradient of the loss. A training step moves each point by ${learning_rate} times its negative gradient (norm at most ${max_norm}).`;

  function move(id, at) {
    if (typeof id === "string") return change({ [id]: at });
    const [kind, index] = id;
    change({ [kind]: now()[kind].map((point, other) => (other === index ? at : point)) });
  }

  // Training: an answer has the points after several steps, which are shown one a frame; the next answer is asked for meanwhile.

  const losses = []; // before and after every step
  let training = 0; // steps still to go
  let asked = false; // for the next steps
  let ahead = []; // steps that are computed and not yet shown
  let shown = null; // points and answer while the answer to the inputs is not theirs
  let frame = null;
  ui.onRemove(() => cancelAnimationFrame(frame));
  const now = () => shown ?? { keys: ui.inputs.keys, values: ui.inputs.values, answer: ui.answer };

  function change(inputs) {
    const { answer, ...points } = now();
    const { keys, values, ...others } = { ...points, ...inputs };
    shown = { keys, values, answer };
    ahead = [];
    asked = false;
    ui.setInputs({ keys, values, ...others, steps: 0 });
  }

  function run(steps) {
    cancelAnimationFrame(frame);
    if (shown) change({}); // what is shown is what stays
    training = steps;
    outcome.textContent = "";
    if (steps) frame = requestAnimationFrame(step);
    showTraining();
  }

  function step() {
    if (asked && ui.settled()) {
      asked = false;
      if (!ui.error) ahead.push(...ui.answer.path);
    }
    if (!asked && ui.settled() && ahead.length < Math.min(STEPS_AT_ONCE, training)) {
      const { keys, values } = ahead.at(-1) ?? now();
      shown ??= now();
      asked = true;
      ui.setInputs({ keys, values, steps: Math.min(STEPS_AT_ONCE, training - ahead.length) });
    }
    if (ahead.length) {
      if (!losses.length) losses.push(now().answer.loss);
      shown = ahead.shift();
      losses.push(shown.answer.loss);
      training--;
      draw();
    }
    const reason = reasonToStop();
    if (reason === undefined && training) return (frame = requestAnimationFrame(step));
    run(0);
    outcome.textContent = reason ?? "";
  }

  function reasonToStop() {
    const { loss, key_gradients: keys, value_gradients: values } = now().answer;
    if (ui.error || !keys) return ""; // the buttons are disabled
    if (loss < 1e-4) return "The output has reached the target.";
    if (Math.max(...[...keys, ...(values ?? [])].flat().map(Math.abs)) < 1e-3) return "The gradient has vanished.";
  }

  function showTraining() {
    const { answer } = now();
    const possible = Boolean(answer.key_gradients) && !ui.error;
    train.textContent = training > 1 ? "Pause" : "Train";
    train.disabled = once.disabled = !possible;
    loss.textContent = `Loss ${answer.loss.toFixed(4)}` + (losses.length > 1 ? ` after ${losses.length - 1} step${losses.length > 2 ? "s" : ""}` : "");
    if (!answer.key_gradients) outcome.textContent = "No gradient reaches the keys, so nothing can be trained.";
    const [most, last] = [Math.max(...losses, 1e-9), Math.max(losses.length - 1, TRAIN_STEPS)];
    const at = (loss, index) => `${((CURVE.width * index) / last).toFixed(1)},${(CURVE.height - 3 - ((CURVE.height - 6) * loss) / most).toFixed(1)}`;
    line.setAttribute("points", losses.map(at).join(" "));
  }

  // Field: the page's own attention weights, for every query of a grid

  let colors = null;
  let drawn = "";
  function drawField() {
    const { temperature } = ui.inputs;
    const { keys } = now();
    field.hidden = !ui.view.field;
    if (!ui.root.isConnected) return; // colors are not known yet
    colors ??= names.map((_, index) => rgb(ui.root, `--c-series-${index % 6}`));
    const key = JSON.stringify([keys, temperature, colors]);
    if (field.hidden || key === drawn) return;
    drawn = key;
    const image = new ImageData(FIELD, FIELD);
    const scores = new Float64Array(keys.length);
    for (let low = 0; low < FIELD; low++)
      for (let right = 0; right < FIELD; right++) {
        const [x, y] = [((2 * right + 1) / FIELD - 1) * extent, (1 - (2 * low + 1) / FIELD) * extent];
        let largest = -Infinity;
        for (let i = 0; i < keys.length; i++) largest = Math.max(largest, (scores[i] = (keys[i][0] * x + keys[i][1] * y) / temperature));
        const mixed = [0, 0, 0];
        let sum = 0;
        for (let i = 0; i < keys.length; i++) {
          const exponential = Math.exp(scores[i] - largest);
          sum += exponential;
          for (let c = 0; c < 3; c++) mixed[c] += exponential * colors[i][c];
        }
        const pixel = 4 * (low * FIELD + right);
        for (let c = 0; c < 3; c++) image.data[pixel + c] = mixed[c] / sum;
        image.data[pixel + 3] = 255;
      }
    field.getContext("2d").putImageData(image, 0, 0);
  }
  ui.onTheme(() => {
    colors = null;
    drawField();
  });

  // Arrows and names

  function drawArrow(path, from, gradient) {
    const norm = gradient ? Math.hypot(...gradient) : 0;
    const length = Math.min(0.5 * norm, 0.6) * (SIZE / (2 * extent)); // in the direction of the step; long ones are cut
    path.style.display = length < 10 ? "none" : "";
    if (length < 10) return;
    const angle = (Math.atan2(gradient[1], -gradient[0]) * 180) / Math.PI;
    set(path, { d: `M0 0 H${length} M${length - 7} -5 L${length} 0 L${length - 7} 5`, transform: `translate(${across(from[0])} ${down(from[1])}) rotate(${angle})` });
  }

  function drawPoints() {
    const { query, target: aim } = ui.inputs;
    const { keys, values, answer } = now();
    const { weights, output: at, key_gradients, value_gradients } = answer;
    const named = [];
    points.forEach((point, index) => {
      const [weight, key, value] = [weights[index], keys[index], values?.[index]];
      const [x, y] = [across(key[0]), down(key[1])];
      const from = value ?? key;
      set(point.halo, { cx: x, cy: y, r: (42 * Math.sqrt(Math.min(Math.max(weight, 0), 4))).toFixed(1) }); // the area is the weight
      set(point.key, { cx: x, cy: y });
      for (const part of [point.value, point.pair, point.valueName.element, point.longName.element]) part.style.display = value ? "" : "none";
      if (value) {
        set(point.value, { x: across(value[0]) - 8, y: down(value[1]) - 8 });
        set(point.pair, { x1: x, y1: y, x2: across(value[0]), y2: down(value[1]) });
        named.push({ name: point.valueName, at: value });
      }
      point.keyName.element.style.display = value ? "none" : "";
      named.push({ name: value ? point.longName : point.keyName, at: key });
      set(point.link, { x1: across(from[0]), y1: down(from[1]), x2: across(at[0]), y2: down(at[1]), "stroke-width": (9 * Math.min(Math.max(weight, 0), 2)).toFixed(1) });
      drawArrow(point.keyArrow, key, key_gradients?.[index]);
      drawArrow(point.valueArrow, from, value && value_gradients?.[index]);
      point.bar.style.width = `${(100 * Math.min(Math.max(weight, 0), 1)).toFixed(1)}%`;
      point.number.textContent = minus(weight.toFixed(2));
      handles.keys[index](key);
      handles.values[index](value ?? null);
    });
    total.textContent = minus(weights.reduce((sum, weight) => sum + weight, 0).toFixed(2));
    const [left, top] = [across(query[0]), down(query[1])];
    const angle = Math.atan2(top - down(0), left - across(0));
    const back = Math.min(14, Math.hypot(top - down(0), left - across(0)));
    set(shaft, { x2: left - back * Math.cos(angle), y2: top - back * Math.sin(angle) });
    set(tip, { transform: `translate(${left} ${top}) rotate(${(angle * 180) / Math.PI})` });
    set(output, { transform: `translate(${across(at[0])} ${down(at[1])})` });
    set(target, { transform: `translate(${across(aim[0])} ${down(aim[1])})` });
    set(error, { x1: across(at[0]), y1: down(at[1]), x2: across(aim[0]), y2: down(aim[1]) });
    handles.query(query);
    handles.target(aim);
    plane.arrange([...named, { name: texts.target, at: aim }, { name: texts.output, at }, { name: texts.query, at: query }]);
  }

  function draw() {
    if (ui.settled() && !ui.inputs.steps) shown = null;
    showTemperature();
    showSeparate(Boolean(ui.inputs.values));
    showFieldBox(Boolean(ui.view.field));
    drawField();
    drawPoints();
    showTraining();
  }
  return draw;
}

function weightBar(parent, name, color) {
  const row = html("div", parent, "course-plane-bar");
  html("span", row).textContent = name;
  const bar = html("span", html("span", row, "course-plane-track"), "", { style: `background:${color}` });
  return { bar, number: html("output", row) };
}

function compute(data, { query, keys, values, target, temperature, steps }) {
  const at = (keys, values) => answerAt(query, keys, values, target, temperature);
  const move = (points, gradients) =>
    points?.map((point, index) => {
      const size = data.learning_rate * Math.min(1, data.max_norm / Math.max(Math.hypot(...gradients[index]), 1e-12));
      return point.map((part, axis) => Math.min(data.extent, Math.max(-data.extent, part - size * gradients[index][axis])));
    }) ?? null;
  const path = [];
  const answer = at(keys, values);
  for (let now = { keys, values, answer }; path.length < steps; path.push(now)) {
    const moved = { keys: move(now.keys, now.answer.key_gradients), values: move(now.values, now.answer.value_gradients) };
    now = { ...moved, answer: at(moved.keys, moved.values) };
  }
  return { ...answer, path };
}

function answerAt(query, keys, values, target, temperature) {
  const weights = softmax(keys.map((key) => dot(key, query)), temperature);
  const output = weightedSum(weights, values ?? keys);
  const error = output.map((part, axis) => part - target[axis]);
  const ofValues = weights.map((weight) => error.map((part) => 2 * weight * part));
  // Through the softmax: the derivative by score i is p_i times what value i adds beyond the average.
  const ofKeys = keys.map((key, index) => {
    const byScore = 2 * weights[index] * (dot(error, (values ?? keys)[index]) - dot(error, output));
    return query.map((part, axis) => (byScore * part) / temperature + (values ? 0 : ofValues[index][axis]));
  });
  return { weights, output, loss: dot(error, error), key_gradients: ofKeys, value_gradients: values && ofValues };
}

export default course({ name: "plane", build, compute });
