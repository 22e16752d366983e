// Controls over a chart. The answer is the chart as charts.py describes it; this script draws it in as many pixels as it has.

const TEXT = 14; // pixels: the size of ticks and labels
const NARROWEST = { bars: 300, dots: 460, lines: 400, heat: 300, story: 400 }; // pixels of a panel that stands beside another
const WIDEST = { one: 820, several: 1180 };
const color = (name) => `var(--c-${name})`;
const span = (numbers) => [Math.min(...numbers), Math.max(...numbers)];

function build(ui) {
  const { controls, start } = ui.data;
  const showInputs = addControls(ui, controls);
  const reset = button(ui.controls, "Reset", () => ui.setInputs(start));
  const title = html("p", ui.body, "course-title", { "aria-live": "polite" });
  const row = html("div", ui.body, "course-explore-panels");
  const caption = html("p", ui.body, "course-explore-caption");
  let panels = [];

  function draw() {
    const chart = ui.answer;
    const charts = chart.panels ?? [chart];
    const width = Math.max(320, Math.min(ui.body.clientWidth || WIDEST.one, charts.length > 1 && !chart.stacked ? WIDEST.several : WIDEST.one));
    const share = (width - 24 * (charts.length - 1)) / charts.length;
    const side = !chart.stacked && charts.every(({ kind }) => share >= NARROWEST[kind]);
    if (panels.map(({ kind }) => kind).join() !== charts.map(({ kind }) => kind).join()) {
      row.replaceChildren();
      panels = charts.map(({ kind }) => makePanel(ui, row, kind));
    }
    title.textContent = chart.title;
    title.hidden = !chart.title;
    caption.textContent = chart.caption ?? "";
    caption.hidden = !chart.caption;
    panels.forEach((panel, index) => {
      panel.root.style.maxWidth = `${Math.floor(side ? share : width)}px`;
      const heading = chart.panels ? charts[index].title : "";
      panel.heading.textContent = heading ?? "";
      panel.heading.hidden = !heading;
      panel.note.textContent = (chart.panels && charts[index].caption) || "";
      panel.note.hidden = !panel.note.textContent;
      panel.chart = charts[index];
      panel.point?.(null);
      DRAW[panel.kind](panel, charts[index], Math.floor(side ? share : width));
    });
  }

  let known = 0;
  const resized = new ResizeObserver(() => {
    if (Math.abs(ui.body.clientWidth - known) > 1) draw();
    known = ui.body.clientWidth;
  });
  resized.observe(ui.body);
  ui.onRemove(() => resized.disconnect());
  ui.onTheme(draw);
  return () => {
    showInputs();
    reset.disabled = keyOf(ui.inputs) === keyOf(start);
    draw();
  };
}

// A panel keeps its elements while charts change. `targets` (rows of {x, y, text}) are what pointer and arrow keys can reach.

function makePanel(ui, parent, kind) {
  const root = html("div", parent, "course-explore-panel");
  const panel = { kind, root, targets: [], heading: html("p", root, "course-explore-heading"), note: html("p", root, "course-explore-caption") };
  if (kind === "story") {
    panel.table = html("div", root);
    return panel;
  }
  panel.point = point;
  panel.legend = html("div", root, "course-explore-legend");
  const area = html("div", root, "course-explore-area");
  if (kind === "heat") panel.canvas = html("canvas", area);
  panel.svg = svg("svg", area, { role: "group", tabindex: 0 });
  const tip = html("div", area, "course-explore-tip", { "aria-live": "polite" });
  let at = null; // [row, column] of the target shown

  function point(position) {
    at = position;
    const target = position && panel.targets[position[0]]?.[position[1]];
    panel.ring?.setAttribute("visibility", target ? "visible" : "hidden");
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.text;
    const right = target.x > panel.svg.clientWidth / 2;
    tip.style.transform = `translate(${target.x + (right ? -12 : 12)}px, ${target.y - 14}px) translate(${right ? "-100%" : "0"}, -50%)`;
    set(panel.ring, target.box ?? { x: target.x - 7, y: target.y - 7, width: 14, height: 14, rx: 7 });
  }

  function nearest({ offsetX, offsetY }) {
    let [best, position] = [40 ** 2, null];
    panel.targets.forEach((row, index) =>
      row.forEach((target, column) => {
        // A cell contains the pointer or does not; elsewhere the distance counts, for a bar mostly the horizontal one.
        const { x, y, width, height } = target.box ?? target;
        const inside = width && offsetX >= x && offsetX <= x + width && offsetY >= y && offsetY <= y + height;
        const away = inside ? 0 : width ? Infinity : (offsetX - x) ** 2 + ((offsetY - y) * (target.loose ? 0.1 : 1)) ** 2;
        if (away < best) [best, position] = [away, [index, column]];
      }),
    );
    return position;
  }

  panel.svg.addEventListener("pointermove", (event) => {
    if (event.buttons && drag(event)) return;
    const position = nearest(event);
    if (position?.join() !== at?.join()) point(position);
  });
  panel.svg.addEventListener("pointerleave", () => point(null));
  panel.svg.addEventListener("blur", () => point(null));
  panel.svg.addEventListener("pointerdown", (event) => {
    if (drag(event)) panel.svg.setPointerCapture(event.pointerId);
  });
  panel.svg.addEventListener("keydown", (event) => {
    const [row, column] = at ?? [0, -1];
    const moved = arrowMoves(event, row, column, panel.targets.length, panel.targets[row]?.length ?? 0);
    if (!moved) return;
    event.preventDefault();
    point([moved[0], Math.max(0, Math.min(moved[1], panel.targets[moved[0]].length - 1))]);
  });

  function drag({ offsetX }) {
    // The marker follows the pointer in the steps of its slider.
    const [name] = Object.keys(panel.chart.marker ?? {});
    if (!name || ui.mode() === "frozen") return false;
    const { low, high, steps, decimals } = ui.data.controls.find((spec) => spec.name === name);
    const part = Math.min(1, Math.max(0, (panel.x.invert(offsetX) - low) / (high - low)));
    const value = Number((low + ((high - low) * Math.round(part * steps)) / steps).toFixed(decimals));
    if (value !== ui.inputs[name]) ui.setInputs({ [name]: value });
    return true;
  }
  return panel;
}

// Axes

function makeScale(low, high, from, to, log = false) {
  const [f, inverse] = log ? [Math.log, Math.exp] : [(value) => value, (value) => value];
  const factor = (to - from) / (f(high) - f(low));
  const scale = (value) => from + (f(value) - f(low)) * factor;
  scale.invert = (pixel) => inverse(f(low) + (pixel - from) / factor);
  scale.ticks = (most) => (log ? logTicks(low, high, most) : linearTicks(low, high, most));
  return scale;
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index++) ticks.push(Number((index * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high, most) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  for (const [digits, every] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 3]]) {
    const ticks = [];
    for (let power = first; power <= last; power += every) ticks.push(...digits.map((digit) => Number(`${digit}e${power}`)));
    const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (inside.length <= most) return digits.length === 3 && inside.length < 3 ? linearTicks(low, high, most) : inside;
  }
  return [low, high];
}

function tickText(value) {
  if (value >= 1e9) return `10${[...String(Math.round(Math.log10(value)))].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
  const [size, unit] = value >= 1e6 ? [1e6, "M"] : value >= 1e4 ? [1e3, "k"] : [1, ""];
  return minus(Number((value / size).toPrecision(6))) + unit;
}

const reading = (value) => minus(Math.abs(value) >= 1e5 ? Number(value.toPrecision(3)).toLocaleString("en") : Number(value.toPrecision(3)));

const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  ruler.font = `${TEXT}px system-ui, sans-serif`;
  return ruler.measureText(text).width;
}

function write(panel, text, x, y, anchor = "middle", attributes = {}) {
  svg("text", panel.svg, { x, y, "text-anchor": anchor, "font-size": TEXT, ...attributes }).textContent = text;
}

function startDrawing(panel, chart, width, height) {
  panel.svg.replaceChildren();
  set(panel.svg, { width, height, "aria-label": `${chart.title || chart.xlabel || "chart"}: values by arrow keys` });
  panel.targets = [];
}

function finishDrawing(panel) {
  panel.ring = svg("rect", panel.svg, { class: "course-explore-ring", visibility: "hidden" });
}

function drawYAxis(panel, { ylabel }, y, left, right, most = 5) {
  for (const tick of y.ticks(most)) {
    svg("line", panel.svg, { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "course-explore-grid" });
    write(panel, tickText(tick), left - 8, y(tick) + 5, "end");
  }
  write(panel, ylabel, 0, TEXT, "start", { class: "course-explore-quiet" });
}

function drawXAxis(panel, { xlabel }, x, top, bottom, left, right, grid = false) {
  svg("line", panel.svg, { x1: left, x2: right, y1: bottom, y2: bottom, class: "course-explore-axis" });
  for (const tick of x.ticks(Math.max(2, Math.floor((right - left) / 70)))) {
    if (grid) svg("line", panel.svg, { x1: x(tick), x2: x(tick), y1: top, y2: bottom, class: "course-explore-grid" });
    write(panel, tickText(tick), x(tick), bottom + 20);
  }
  write(panel, xlabel, (left + right) / 2, bottom + 42, "middle", { class: "course-explore-quiet" });
}

// Charts

const DRAW = {
  bars(panel, chart, width) {
    const { labels, values, numbers, xlabel } = chart;
    const [top, bottom, left, right] = [40, 258, 44, width - 4];
    startDrawing(panel, chart, width, xlabel ? 306 : 284);
    const y = makeScale(Math.min(0, ...values), Math.max(1, ...values), bottom, top);
    drawYAxis(panel, chart, y, left, right);
    const slot = (right - left) / values.length;
    const every = Math.ceil((Math.max(...labels.map(textWidth)) + 8) / slot);
    panel.targets = [
      values.map((value, index) => {
        const center = left + slot * (index + 0.5);
        const [high, low] = [y(Math.max(value, 0)), y(Math.min(value, 0))];
        const [x, size] = [center - Math.min(slot * 0.42, 70), 2 * Math.min(slot * 0.42, 70)];
        svg("rect", panel.svg, { x, width: size, y: high, height: Math.max(low - high, 0.5), fill: color(chart.color) });
        if (numbers) write(panel, minus(value.toFixed(2)), center, high - 6, "middle", { "font-weight": "bold" });
        if (index % every === 0) write(panel, minus(labels[index]), center, bottom + 20);
        return { x: center, y: high, loose: true, text: `${minus(labels[index])}: ${reading(value)}` };
      }),
    ];
    svg("line", panel.svg, { x1: left, x2: right, y1: y(0), y2: y(0), class: "course-explore-axis" });
    if (xlabel) write(panel, xlabel, (left + right) / 2, bottom + 42, "middle", { class: "course-explore-quiet" });
    finishDrawing(panel);
  },

  dots(panel, chart, width) {
    const { labels, values, texts, hollow, limits } = chart;
    const step = 34;
    const [top, bottom] = [8, 8 + step * labels.length];
    const [left, right] = [Math.max(...labels.map(textWidth)) + 16, width - 100]; // behind the last dot its text
    startDrawing(panel, chart, width, bottom + 50);
    const x = makeScale(...limits, left + 8, right, true);
    drawXAxis(panel, chart, x, top, bottom, left, right, true);
    panel.targets = values.map((value, index) => {
      const [center, shade] = [top + step * (index + 0.5), index ? color(`series-${(index - 1) % 6}`) : color("strong")];
      write(panel, labels[index], left - 8, center + 5, "end");
      svg("line", panel.svg, { x1: left, x2: x(value), y1: center, y2: center, stroke: shade, "stroke-width": 6, opacity: 0.4 });
      svg("circle", panel.svg, { cx: x(value), cy: center, r: 7, fill: hollow[index] ? color("ground") : shade, stroke: shade, "stroke-width": 3 });
      write(panel, texts[index], x(value) + 14, center + 5, "start", { "font-weight": "bold" });
      return [{ x: x(value), y: center, text: `${labels[index]}: ${texts[index]}${hollow[index] ? ", extrapolated" : ""}` }];
    });
    finishDrawing(panel);
  },

  lines(panel, chart, width) {
    const { layers, log, marker, height } = chart;
    const [top, bottom, left, right] = [28, height - 50, 52, width - 16];
    startDrawing(panel, chart, width, height);
    const [first, last] = chart.xlimits ?? span(layers.flatMap(({ x }) => x ?? []));
    const room = log ? (last / first) ** 0.03 : 1;
    const x = makeScale(first / room, last * room, left, right, log);
    const y = makeScale(...(chart.ylimits ?? span([0, ...layers.flatMap((layer) => layer.y)])), bottom, top, log);
    panel.x = x;
    drawYAxis(panel, chart, y, left, right, height < 200 ? 3 : 5);
    drawXAxis(panel, chart, x, top, bottom, left, right);
    for (const value of Object.values(marker ?? {}))
      svg("line", panel.svg, { x1: x(value), x2: x(value), y1: top - 4, y2: bottom, class: "course-explore-marker" });
    for (const layer of layers) {
      LAYERS[layer.layer](panel.svg, layer, x, y, left, right);
      if (!layer.x || layer.layer === "band") continue;
      const name = layer.name ? `${layer.name}, ` : "";
      panel.targets.push(layer.x.map((value, index) => ({ x: x(value), y: y(layer.y[index]), text: `${name}${reading(value)}: ${reading(layer.y[index])}` })));
    }
    panel.svg.classList.toggle("course-explore-drag", Boolean(marker));
    drawLegend(panel.legend, layers.filter(({ name }) => name));
    finishDrawing(panel);
  },

  heat(panel, { values, xlabel, ylabel, title }, width) {
    const [top, left, across, down] = [24, 52, width - 160, 384];
    const [rows, columns] = [values.length, values[0].length];
    startDrawing(panel, { title }, width, top + down + 50);
    const [x, y] = [makeScale(0, columns, left, left + across), makeScale(0, rows, top, top + down)];
    paint(panel, values);
    Object.assign(panel.canvas.style, { left: `${left}px`, top: `${top}px`, width: `${across}px`, height: `${down}px` });
    for (const column of linearTicks(0, columns - 1, 8).filter(Number.isInteger)) write(panel, column, x(column + 0.5), top + down + 20);
    for (const row of linearTicks(0, rows - 1, 8).filter(Number.isInteger)) write(panel, row, left - 8, y(row + 0.5) + 5, "end");
    write(panel, xlabel, left + across / 2, top + down + 42, "middle", { class: "course-explore-quiet" });
    write(panel, ylabel, 0, TEXT, "start", { class: "course-explore-quiet" });
    drawColorBar(panel, left + across + 24, top, down);
    panel.targets = values.map((row, down) =>
      row.map((value, column) => {
        const box = { x: x(column), y: y(down), width: x(1) - x(0), height: y(1) - y(0), rx: 0 };
        return { x: x(column + 0.5), y: y(down + 0.5), box, text: `${ylabel} ${down}, ${xlabel} ${column}: ${minus(value.toFixed(3))}` };
      }),
    );
    finishDrawing(panel);
  },

  story(panel, { sentences, weights, question, answer, facts, correct, note }) {
    const table = document.createElement("table");
    table.className = "course-explore-story";
    const head = html("tr", html("thead", table));
    html("th", head, facts.length ? "course-explore-fact" : "").textContent = facts.length ? "supporting fact" : "";
    weights.forEach((_, hop) => (html("th", head, "", { scope: "col" }).textContent = `hop ${hop + 1}`));
    const body = html("tbody", table);
    sentences.forEach((sentence, index) => {
      const row = html("tr", body);
      html("th", row, facts.includes(index) ? "course-explore-fact" : "", { scope: "row" }).textContent = sentence;
      weights.forEach((hop) => {
        const style = `background:${shade(0.6 * hop[index])}`; // light or dark enough for the text of the page
        html("td", row, "", { style }).textContent = hop[index].toFixed(2);
      });
    });
    const last = html("tr", html("tfoot", table));
    html("th", last, "course-explore-question", { scope: "row" }).textContent = question;
    const verdict = correct === null ? "" : correct ? "course-explore-good" : "course-explore-bad";
    html("td", last, verdict, { colspan: weights.length }).textContent = answer;
    panel.table.replaceChildren(table);
    if (note) html("p", panel.table).textContent = note;
  },
};

const LAYERS = {
  line(parent, layer, x, y) {
    const d = layer.x.map((value, index) => `${index ? "L" : "M"}${x(value).toFixed(1)} ${y(layer.y[index]).toFixed(1)}`).join("");
    const style = { fill: "none", stroke: color(layer.color), "stroke-width": layer.dashed ? 2 : 3, "stroke-linejoin": "round" };
    svg("path", parent, { d, ...style, "stroke-dasharray": layer.dashed ? "6 5" : "none" });
  },
  band(parent, layer, x, y) {
    const corner = (edge) => (value, index) => `${x(value).toFixed(1)} ${y(edge[index]).toFixed(1)}`;
    const d = `M${[...layer.x.map(corner(layer.high)), ...layer.x.map(corner(layer.low)).reverse()].join("L")}Z`;
    svg("path", parent, { d, fill: color(layer.color), opacity: 0.25 });
  },
  points(parent, layer, x, y) {
    layer.x.forEach((value, index) => {
      const [left, top] = [x(value), y(layer.y[index])];
      if (layer.error) {
        const [low, high] = layer.error.map(y);
        const d = `M${left - 8} ${high}h16M${left} ${high}V${low}M${left - 8} ${low}h16`;
        svg("path", parent, { d, stroke: color(layer.color), "stroke-width": 2.5 });
      }
      drawShape(parent, layer, left, top);
    });
  },
  stems(parent, layer, x, y) {
    const d = layer.x.map((value, index) => `M${x(value).toFixed(1)} ${y(0).toFixed(1)}V${y(layer.y[index]).toFixed(1)}`).join("");
    svg("path", parent, { d, stroke: color(layer.color), "stroke-width": 3 });
  },
  level(parent, layer, x, y, left, right) {
    svg("path", parent, { d: `M${left} ${y(layer.y)}H${right}`, stroke: color(layer.color), "stroke-width": 2, "stroke-dasharray": "8 5" });
  },
};

function drawShape(parent, { shape, color: name }, x, y) {
  if (shape === "circle") svg("circle", parent, { cx: x, cy: y, r: 4.5, fill: color(name), opacity: 0.85 });
  else if (shape === "diamond") svg("path", parent, { d: `M${x - 7} ${y}l7 -7l7 7l-7 7z`, fill: color("ground"), stroke: color(name), "stroke-width": 2.5 });
  else {
    const corners = [...Array(10).keys()].map((k) => [x + (k % 2 ? 4 : 10) * Math.sin((k * Math.PI) / 5), y - (k % 2 ? 4 : 10) * Math.cos((k * Math.PI) / 5)]);
    svg("polygon", parent, { points: corners.map((corner) => corner.join()).join(" "), fill: color(name), stroke: color("ground") });
  }
}

function drawLegend(parent, layers) {
  parent.replaceChildren();
  for (const layer of layers) {
    const entry = html("span", parent);
    const sample = svg("svg", entry, { width: 28, height: 22, "aria-hidden": "true" });
    const flat = { ...layer, x: [2, 26], y: [11, 11], low: [17, 17], high: [5, 5] };
    if (layer.layer === "points") drawShape(sample, layer, 14, 11);
    else LAYERS[layer.layer](sample, layer.layer === "level" ? { ...layer, y: 11 } : flat, (value) => value, (value) => value || 20, 2, 26);
    entry.append(layer.name);
  }
}

function paint(panel, values) {
  // From one color over the ground of the page to another, as -1, 0 and 1.
  const [low, middle, high] = ["--c-output", "--c-ground", "--c-strong"].map((name) => rgb(panel.root, name));
  set(panel.canvas, { width: values[0].length, height: values.length });
  const picture = panel.canvas.getContext("2d").createImageData(values[0].length, values.length);
  values.flat().forEach((value, index) => {
    const [part, end] = [Math.min(1, Math.abs(value)), value < 0 ? low : high];
    for (let channel = 0; channel < 3; channel++) picture.data[4 * index + channel] = middle[channel] + part * (end[channel] - middle[channel]);
    picture.data[4 * index + 3] = 255;
  });
  panel.canvas.getContext("2d").putImageData(picture, 0, 0);
}

function drawColorBar(panel, x, y, height) {
  const id = `course-explore-${(drawColorBar.count = (drawColorBar.count ?? 0) + 1)}`;
  const gradient = svg("linearGradient", svg("defs", panel.svg), { id, x1: 0, x2: 0, y1: 0, y2: 1 });
  ["strong", "ground", "output"].forEach((name, index) => svg("stop", gradient, { offset: index / 2, style: `stop-color:${color(name)}` }));
  svg("rect", panel.svg, { x, y, width: 18, height, fill: `url(#${id})`, class: "course-explore-frame" });
  [1, 0, -1].forEach((value, index) => write(panel, minus(value), x + 26, y + 5 + (index * height) / 2, "start"));
}

// The same charts without Python: from the first chart, which holds what no control changes, and the inputs.

const KERNELS = {
  Gaussian: (r) => -(r ** 2) / 2,
  "absolute distance": (r) => -Math.abs(r),
  uniform: (r) => (Math.abs(r) <= 1 ? 0 : -50),
};

const PAGES = {
  softmax(chart, { temperature, ...logits }) {
    const values = softmax(Object.values(logits), temperature);
    const labels = Object.entries(logits).map(([name, logit]) => `${name} = ${logit.toFixed(2)}`);
    return { ...chart, labels, values, title: `T = ${temperature.toFixed(1)}: the largest probability is ${Math.max(...values).toFixed(2)}` };
  },

  regression(chart, { kernel, bandwidth, query }) {
    const [[truth, curve, known], [stems]] = chart.panels.map(({ layers }) => layers);
    const weightsAt = (at) => softmax(known.x.map((x) => KERNELS[kernel]((at - x) / bandwidth)));
    const prediction = curve.x.map((x) => dot(weightsAt(x), known.y));
    const weights = weightsAt(Math.fround(query)); // torch has it in float32
    const layers = [[truth, { ...curve, y: prediction }, known], [{ ...stems, y: weights }]];
    const sorted = [...weights].sort((a, b) => b - a);
    let sum = 0;
    const most = sorted.findIndex((weight) => (sum += weight) >= 0.8999) + 1; // 90 %, up to rounding
    return {
      ...chart,
      title: `Prediction at ${query.toFixed(1)}: ${dot(weights, known.y).toFixed(2)}; ${most} of ${weights.length} points have 90 % of the weight`,
      panels: chart.panels.map((panel, index) => ({ ...panel, layers: layers[index], marker: { query } })),
    };
  },

  positions(chart, { length, dim }) {
    const frequencies = [...Array(dim).keys()].map((component) => 10000 ** ((component % 2 - component) / dim));
    const row = (position) => frequencies.map((frequency, index) => (index % 2 ? Math.cos : Math.sin)(position * frequency));
    return { ...chart, values: [...Array(length).keys()].map(row) };
  },
};

function compute(data, inputs) {
  return PAGES[data.page]?.(data.chart, inputs);
}

export default course({ name: "explore", build, compute });
