// Self-attention step by step. Every matrix stands with its numbers; the selected entry marks the row and the column it comes from.

const STEPS = [
  { name: "X", words: ["X", ": one embedding per token, one row each. Drag them in the plane."] },
  { name: "Q", words: ["Q = X W_Q", ": the queries. What is each token looking for?"] },
  { name: "K", words: ["K = X W_K", ": the keys. What does each token offer?"] },
  { name: "V", words: ["V = X W_V", ": the values. What does each token pass on?"] },
  { name: "scores", words: ["S = Q Kᵀ", ": a score for every query with every key, their dot product."] },
  { name: "scaled", words: ["S / √d_k", ": the scores scaled, so that they do not grow with the dimension."] },
  { name: "masked", words: ["mask", ": a masked score becomes −∞. With a causal mask no token attends to a later one."] },
  { name: "weights", words: ["A = softmax(S / √d_k)", ": each row, masked, becomes attention weights that sum to 1."] },
  { name: "output", words: ["O = A V", ": for each token the weighted sum of the values."] },
];
// label: name and formula above the matrix; rows and columns: the letters of their headers
const MATRICES = {
  X: { label: ["X", ""], rows: "x" },
  W_Q: { label: ["W_Q", ""] },
  W_K: { label: ["W_K", ""] },
  W_V: { label: ["W_V", ""] },
  Q: { label: ["Q", "X W_Q"], rows: "q", from: ["X", "W_Q"] },
  K: { label: ["K", "X W_K"], rows: "k", from: ["X", "W_K"] },
  V: { label: ["V", "X W_V"], rows: "v", from: ["X", "W_V"] },
  scores: { label: ["scores S", "Q Kᵀ"], rows: "q", columns: "k" },
  scaled: { label: ["scaled", "S / √d_k"], columns: "k" },
  masked: { label: ["masked", ""], columns: "k" },
  weights: { label: ["weights A", "softmax"], columns: "k" },
  output: { label: ["output O", "A V"], rows: "o" },
};
const PROJECTED = ["Q", "K", "V"];
const PAUSE = 1600; // milliseconds of one step while playing

function build(ui) {
  const tokens = ui.inputs.X.map((_, index) => index);
  const steps = html("div", ui.body, "course-qkv-steps", { role: "group", "aria-label": "steps" });
  const bar = html("fieldset", steps, "course-controls");
  const back = button(bar, "Back", () => go(ui.view.step - 1));
  const play = button(bar, "Play", () => (timer ? pause() : start()));
  const next = button(bar, "Next", () => go(ui.view.step + 1));
  const showControls = addControls(ui, ui.data.controls, bar);
  button(bar, "Reset", () => ui.setInputs(ui.data.start));
  const list = html("div", steps, "course-controls");
  const chips = STEPS.map(({ name }, index) => button(list, name, () => go(index)));
  steps.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: ui.view.step - 1, ArrowRight: ui.view.step + 1, Home: 0, End: STEPS.length - 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    go(step);
    chips[ui.view.step].focus();
  });
  const formula = html("p", ui.body, "course-qkv-formula");
  const product = html("p", ui.body, "course-qkv-product", { "aria-live": "polite" });

  const top = html("div", ui.body, "course-qkv-top");
  const plane = coordinatePlane(html("div", top, "course-qkv-plane"), { extent: 2, size: 180, label: "embeddings", move });
  const dots = tokens.map((index) => svg("circle", plane.picture, { r: 8, class: "course-qkv-dot", fill: series(index) }));
  const names = tokens.map((index) => plane.name(`x${subscript(index)}`));
  const handles = tokens.map((index) => plane.handle(index, `embedding x${index + 1}`));

  const tables = {};
  const projections = html("div", top, "course-qkv-projections");
  html("span", projections);
  for (const name of ["W_Q", "W_K", "W_V", "X", ...PROJECTED]) tables[name] = matrix(name, projections);
  const chain = html("div", ui.body, "course-qkv-chain");
  for (const name of ["scores", "scaled", "masked", "weights", "output"]) tables[name] = matrix(name, chain);

  function numbers(name) {
    return name === "X" ? ui.inputs.X : (ui.answer[name] ?? ui.data[name]);
  }

  function matrix(name, parent) {
    const [height, width] = [numbers(name).length, numbers(name)[0].length];
    const { label, rows, columns } = MATRICES[name];
    const root = html("div", parent, "course-qkv-matrix");
    const title = html("div", root, "course-qkv-title");
    withSubscripts(html("b", title), label[0]);
    const under = html("span", title);
    withSubscripts(under, `${label[1]} (${height}×${width})`);
    const table = html("table", root, "", { "aria-label": name });
    if (columns) {
      const head = html("tr", table);
      if (rows) html("th", head);
      tokens.forEach((index) => (html("th", head).textContent = columns + subscript(index)));
    }
    const cells = numbers(name).map((row, i) => {
      const line = html("tr", table);
      if (rows) html("th", line).textContent = rows + subscript(i);
      return row.map((_, j) => {
        const cell = html("td", line);
        if (!name.startsWith("W_")) {
          cell.addEventListener("pointerenter", () => show({ name, row: i, column: j }));
          cell.addEventListener("pointerleave", () => show(null));
          cell.addEventListener("click", () => select(name, i, j));
          cell.addEventListener("keydown", (event) => {
            const to = arrowMoves(event, i, j, height, width);
            if (!to) return;
            event.preventDefault();
            select(name, ...to);
            cells[to[0]][to[1]].focus();
          });
        }
        return cell;
      });
    });
    return { root, cells, under };
  }

  // What the reader does

  let timer = null;
  let hovered = null;
  ui.onRemove(() => clearInterval(timer));

  function go(step) {
    ui.setView({ step: Math.min(Math.max(step, 0), STEPS.length - 1), row: 0, column: 0 });
    if (ui.view.step === STEPS.length - 1) pause();
  }
  function start() {
    timer = setInterval(() => go(ui.view.step + 1), PAUSE);
    go(ui.view.step === STEPS.length - 1 ? 0 : ui.view.step + 1);
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    showSteps();
  }
  function move(index, at) {
    const rounded = at.map((part) => Math.round(10 * part) / 10); // numbers that fit on paper
    ui.setInputs({ X: ui.inputs.X.map((x, other) => (other === index ? rounded : x)) });
  }
  function select(name, row, column) {
    hovered = null;
    ui.setView({ step: STEPS.findIndex((step) => step.name === name), row, column });
  }
  function show(entry) {
    hovered = entry;
    mark();
  }

  // The entry, where it comes from, and its arithmetic in words

  function derivation({ name, row: i, column: j }) {
    const result = numbers(name)[i][j];
    const rowOf = (other, index) => numbers(other)[index].map((_, column) => [index, column]);
    const columnOf = (other, index) => numbers(other).map((_, row) => [row, index]);
    const values = (other, cells) => cells.map(([row, column]) => numbers(other)[row][column]);
    const letter = (word, index) => word + subscript(index);
    const sum = (left, right, words) => ({
      left,
      right,
      words,
      terms: values(...left).map((factor, index) => [factor, values(...right)[index]]),
      expected: dot(values(...left), values(...right)),
    });
    const unit = (words, left, expected) => ({ left, words, expected });
    if (name === "X") return unit([`${letter("x", i)} is row ${i + 1} of X: (${numbers("X")[i].map(short).join(", ")})`], ["X", rowOf("X", i)], result);
    if (PROJECTED.includes(name)) return sum(["X", rowOf("X", i)], [`W_${name}`, columnOf(`W_${name}`, j)], `${letter("x", i)} · column ${j + 1} of W_${name}`);
    if (name === "scores") return sum(["Q", rowOf("Q", i)], ["K", rowOf("K", j)], `${letter("q", i)} · ${letter("k", j)}`);
    if (name === "output") return sum(["weights", rowOf("weights", i)], ["V", columnOf("V", j)], `weights of ${letter("q", i)} · column ${j + 1} of V`);
    if (name === "scaled") {
      const size = numbers("K")[0].length;
      return unit([`${short(numbers("scores")[i][j])} / √${size} = `], ["scores", [[i, j]]], numbers("scores")[i][j] / Math.sqrt(size));
    }
    if (name === "masked") {
      const may = result === null ? `${letter("q", i)} may not attend to ${letter("k", j)}, a later token: ` : `${letter("q", i)} may attend to ${letter("k", j)}: `;
      return unit([may], ["scaled", [[i, j]]], result);
    }
    const logits = numbers("masked")[i];
    const exponentials = logits.map((logit) => (logit === null ? 0 : Math.exp(logit)));
    const total = exponentials.reduce((sum, part) => sum + part, 0);
    const written = exponentials.map((part) => short(part)).join(" + ");
    return unit([`exp(${short(logits[j])}) / (sum of the row) = ${short(exponentials[j])} / (${written}) = `], ["masked", rowOf("masked", i)], exponentials[j] / total);
  }

  let marked = [];
  function mark() {
    const { step, row, column } = ui.view;
    const entry = hovered ?? { name: STEPS[step].name, row, column };
    const { left, right, words, terms, expected } = derivation(entry);
    marked.forEach(([cell, kind]) => cell.classList.remove(kind));
    const cellsOf = (operand, kind) => (operand ? operand[1].map(([i, j]) => [tables[operand[0]].cells[i][j], kind]) : []);
    marked = [...cellsOf(left, "course-qkv-left"), ...cellsOf(right, "course-qkv-right")];
    marked.push([tables[entry.name].cells[entry.row][entry.column], "course-qkv-entry"]);
    marked.forEach(([cell, kind]) => cell.classList.add(kind));

    const result = numbers(entry.name)[entry.row][entry.column];
    product.replaceChildren();
    const write = (text, kind) => withSubscripts(html("span", product, kind), text);
    if (terms) {
      write(`${words} = `, "");
      terms.forEach(([a, b], index) => {
        if (index) write(" + ", "");
        write(inProduct(a, index === 0), "course-qkv-left");
        write("·", "");
        write(inProduct(b), "course-qkv-right");
      });
      write(" = ", "");
    } else write(words[0], "");
    if (entry.name !== "X") write(entryText(entry.name, expected), "course-qkv-entry");
    if (result !== expected && !(Math.abs(result - expected) < 1e-3))
      write(`, but the function returned ${entryText(entry.name, result)}`, "course-qkv-different");
  }

  function showSteps() {
    const { step } = ui.view;
    chips.forEach((chip, index) => chip.setAttribute("aria-pressed", String(index === step)));
    back.disabled = step === 0;
    next.disabled = step === STEPS.length - 1;
    play.textContent = timer ? "Pause" : "Play";
  }

  return () => {
    const { step, row, column } = ui.view;
    showControls();
    showSteps();
    formula.replaceChildren();
    withSubscripts(html("b", formula), STEPS[step].words[0]);
    withSubscripts(html("span", formula), STEPS[step].words[1]);
    ui.inputs.X.forEach((at, index) => {
      set(dots[index], { cx: plane.across(at[0]), cy: plane.down(at[1]) });
      handles[index](at);
    });
    plane.arrange(ui.inputs.X.map((at, index) => ({ name: names[index], at })));
    for (const [name, { root, cells, under }] of Object.entries(tables)) {
      const position = STEPS.findIndex(({ name: step }) => step === name);
      if (name === "masked") under.textContent = `${ui.inputs.causal ? "causal" : "no mask"} (${cells.length}×${cells.length})`;
      root.classList.toggle("course-qkv-current", position === step);
      root.classList.toggle("course-qkv-later", position > step);
      cells.forEach((line, i) =>
        line.forEach((cell, j) => {
          const number = numbers(name)[i][j];
          cell.textContent = entryText(name, number, number < 0 ? 2 : 3); // at most five characters
          if (position === step && i === row && j === column) cell.tabIndex = 0;
          else cell.removeAttribute("tabindex");
        }),
      );
    }
    mark();
  };
}

const subscript = (index) => "₁₂₃₄₅₆₇₈₉"[index];

function withSubscripts(element, text) {
  // "W_Q" with a lowered Q
  text.split(/_(\w)/).forEach((part, index) => (index % 2 ? (html("sub", element).textContent = part) : element.append(part)));
}

function short(number, decimals = 3) {
  // Without zeros at the end; null is a masked score.
  return number === null ? "−∞" : minus(Number(number.toFixed(Math.abs(number) < 9.9995 ? decimals : 1)) + 0);
}

const entryText = (name, number, decimals) => (name === "weights" ? minus(number.toFixed(3)) : short(number, decimals));
const inProduct = (number, first = false) => (number < 0 && !first ? `(${short(number)})` : short(number));

function compute(data, { X, causal }) {
  const times = (left, right) => left.map((row) => weightedSum(row, right));
  const [Q, K, V] = PROJECTED.map((name) => times(X, data[`W_${name}`]));
  const scores = Q.map((query) => K.map((key) => dot(query, key)));
  const scaled = scores.map((row) => row.map((score) => score / Math.sqrt(K[0].length)));
  const masked = scaled.map((row, i) => row.map((score, j) => (causal && j > i ? null : score)));
  const weights = masked.map((row) => softmax(row.map((score) => score ?? -Infinity)));
  return { Q, K, V, scores, scaled, masked, weights, output: times(weights, V) };
}

export default course({ name: "qkv", build, compute });
