// The tree of a beam search, from left to right; where the page is too narrow it continues in another band below.

const [HIGH, ROW, GAP, TOP] = [44, 50, 30, 26]; // pixels: a node, a row of nodes, between two columns, the heading of a band
const EDGE = 3; // pixels around the drawing, for outlines
const KEY = [
  ["kept", "kept"],
  ["ended", "kept, has ended"],
  ["dropped", "dropped"],
  ["best", "path to the best hypothesis"],
];

function build(ui) {
  const showInputs = addControls(ui, ui.data.controls);
  const sentence = html("p", ui.body, "course-beam-sentence");
  const line = html("p", ui.body, "course-beam-line", { role: "status" });
  const stage = html("div", ui.body, "course-beam-stage");
  const key = html("p", ui.body, "course-beam-key");
  for (const [kind, words] of KEY) {
    const entry = html("span", key);
    html("i", entry, `course-beam-${kind}`);
    entry.append(words);
  }
  html("span", key).textContent = "numbers: log-probabilities";
  const extra = html("span", key);
  extra.textContent = "+ n: n more dropped";
  const ruler = document.createElement("canvas").getContext("2d");

  let shown = null; // the answer that is drawn
  let width = 0;
  let nodes = []; // of the whole tree; 0 is BOS
  let drawn = []; // {index, group, edge} of a node; where a band begins, the nodes before it are drawn again
  let pointed = null; // the node under the pointer

  function draw() {
    const held = stage.contains(document.activeElement);
    ruler.font = `16px ${getComputedStyle(stage).fontFamily}`;
    nodes = treeOf(ui.answer);
    drawn = [];
    extra.hidden = ui.answer.sizes.every((size, step) => size === ui.answer.steps[step].length);
    const picture = svg("svg", stage, { role: "tree", "aria-label": "hypotheses: left to the parent, right to a child, up and down within a step" });
    stage.replaceChildren(picture);
    const edges = svg("g", picture, { "aria-hidden": "true" });
    const columns = [[0], ...ui.answer.steps.map((_, step) => nodes.flatMap((node, index) => (node.step === step ? [index] : [])))];
    const wide = columns.map((column) => Math.max(44, ...column.map((index) => ruler.measureText(nodes[index].word).width)) + 18);
    let [x, top, low, far] = [EDGE, 0, 0, 0];
    columns.forEach((column, depth) => {
      if (depth > 1 && x + wide[depth] + EDGE > width) {
        top += low + 12; // another band, which begins with the hypotheses kept so far
        [x, low] = [EDGE, 0];
        const copies = columns[depth - 1].filter((index) => nodes[index].kept);
        copies.forEach((index) => drawNode(picture, index, x, top, wide[depth - 1], true));
        heading(picture, x, top, depth - 1);
        x += wide[depth - 1] + GAP;
      }
      heading(picture, x, top, depth);
      for (const index of column) {
        drawNode(picture, index, x, top, wide[depth], false);
        if (depth) drawEdge(edges, index, x, top);
        low = Math.max(low, TOP + nodes[index].y + HIGH);
      }
      const more = depth ? ui.answer.sizes[depth - 1] - column.length : 0;
      if (more) {
        svg("text", picture, { x, y: top + TOP + column.length * ROW + 20, class: "course-beam-quiet" }).textContent = `+ ${more}`;
        low = Math.max(low, TOP + column.length * ROW + 26);
      }
      x += wide[depth] + GAP;
      far = Math.max(far, x - GAP + EDGE);
    });
    const best = drawn.filter(({ index, edge }) => edge && nodes[index].best);
    edges.append(...best.map(({ edge }) => edge)); // on top of the others
    set(picture, { width: far, height: top + low + EDGE, viewBox: `0 0 ${far} ${top + low + EDGE}` });
    pointed = null;
    if (held) groupOf(ui.view.node ?? 0).focus({ preventScroll: true });
  }

  function heading(picture, x, top, depth) {
    svg("text", picture, { x, y: top + 16, class: "course-beam-quiet" }).textContent = depth ? `step ${depth}` : "";
  }

  function drawNode(picture, index, x, top, wide, again) {
    const node = nodes[index];
    const y = top + TOP + node.y;
    const group = svg("g", picture, again ? { "aria-hidden": "true" } : { role: "treeitem", tabindex: -1, "aria-label": spoken(node), "aria-level": node.step + 2 });
    group.setAttribute("class", `course-beam-node course-beam-${node.kind}${node.best ? " course-beam-best" : ""}${again ? " course-beam-again" : ""}`);
    svg("rect", group, { x, y, width: wide, height: HIGH, rx: 5 });
    const middle = { x: x + wide / 2, "text-anchor": "middle" };
    svg("text", group, { ...middle, y: y + (node.step < 0 ? 27 : 19), class: "course-beam-word" }).textContent = node.word;
    if (node.step >= 0) svg("text", group, { ...middle, y: y + 37, class: "course-beam-number" }).textContent = number(node.logProb);
    group.addEventListener("pointerenter", () => point(index));
    group.addEventListener("pointerleave", () => point(null));
    group.addEventListener("click", () => groupOf(index).focus({ preventScroll: true }));
    if (!again) {
      group.addEventListener("focus", () => index !== ui.view.node && ui.setView({ node: index }));
      group.addEventListener("keydown", (event) => press(event, index));
    }
    drawn.push({ index, group, edge: null, right: [x + wide, y + HIGH / 2], again });
  }

  function drawEdge(edges, index, x, top) {
    const node = nodes[index];
    const [x0, y0] = drawn.findLast((other) => other.index === node.parent).right; // the copy, where there is one
    const [x1, y1] = [x, top + TOP + node.y + HIGH / 2];
    const middle = (x0 + x1) / 2;
    const edge = svg("path", edges, { d: `M${x0},${y0} C${middle},${y0} ${middle},${y1} ${x1},${y1}` });
    edge.setAttribute("class", `course-beam-edge course-beam-${node.kind}${node.best ? " course-beam-best" : ""}`);
    drawn.at(-1).edge = edge;
  }

  const groupOf = (index) => drawn.find((other) => other.index === index && !other.again).group;

  function point(index) {
    pointed = index;
    follow();
  }

  function press(event, index) {
    const node = nodes[index];
    const within = nodes.flatMap((other, number) => (other.step === node.step ? [number] : []));
    const children = nodes.flatMap((other, number) => (number && other.parent === index ? [number] : []));
    const goal = {
      ArrowLeft: node.step < 0 ? index : node.parent,
      ArrowRight: children.find((child) => nodes[child].best) ?? children[0] ?? index,
      ArrowUp: within[Math.max(within.indexOf(index) - 1, 0)],
      ArrowDown: within[Math.min(within.indexOf(index) + 1, within.length - 1)],
      Home: 0,
      End: nodes.findLastIndex((other) => other.best),
    }[event.key];
    if (goal === undefined && event.key !== "Escape") return;
    event.preventDefault();
    if (goal === undefined) ui.setView({ node: null });
    else groupOf(goal).focus();
  }

  function follow() {
    // Marks the path from BOS to the node under the pointer, or else to the selected one.
    const now = pointed ?? ui.view.node;
    const path = new Set();
    for (let index = now; index !== null; index = nodes[index].parent) path.add(index);
    for (const { index, group, edge, again } of drawn) {
      if (!again) group.setAttribute("tabindex", index === (ui.view.node ?? 0) ? 0 : -1);
      group.classList.toggle("course-beam-path", path.has(index));
      edge?.classList.toggle("course-beam-path", path.has(index));
    }
    line.textContent = now === null ? bestWords() : spoken(nodes[now]);
  }

  function spoken(node) {
    if (node.step < 0) return "BOS: no token is generated yet.";
    const rank = `number ${node.row + 1} of ${ui.answer.sizes[node.step]}`;
    const end = node.token === null ? ", had ended before" : node.ended ? ", ends here" : "";
    return `Step ${node.step + 1}: “${node.tokens.join(" ")}”, log-probability ${number(node.logProb)}; ${node.kept ? "kept" : "dropped"}, ${rank}${end}.`;
  }

  function bestWords() {
    const best = nodes.find((node) => node.best && node.step === ui.answer.steps.length - 1);
    const lost = ui.answer.steps.findIndex((step, index) => nodes.find((node) => node.step === index && node.best).row > 0);
    const led = lost < 0 ? "It led at every step." : `It did not lead at step ${lost + 1}.`;
    return `Best hypothesis: “${best.tokens.join(" ")}”, log-probability ${number(best.logProb)}. ${led}`;
  }

  const resized = new ResizeObserver(() => {
    if (stage.clientWidth === width || !shown) return;
    width = stage.clientWidth;
    draw();
    follow();
  });
  resized.observe(stage);
  ui.onRemove(() => resized.disconnect());

  return () => {
    showInputs();
    if (ui.answer !== shown) {
      if (shown) {
        ui.view.node = null; // another tree has other nodes
        queueMicrotask(() => ui.setView({ node: null }));
      }
      shown = ui.answer;
      sentence.textContent = ui.inputs.sentence;
      width = stage.clientWidth;
      draw();
    }
    follow();
  };
}

function treeOf({ steps }) {
  // Every node with its hypothesis, its row in pixels, and whether it is on the path to the best one; BOS first.
  const nodes = [{ step: -1, row: 0, y: 0, parent: null, token: "<bos>", word: "<bos>", tokens: [], kept: true, kind: "bos", best: true }];
  let before = [0]; // where the nodes of the step before are
  steps.forEach((step, number) => {
    const first = nodes.length;
    step.forEach(([parent, token, logProb, kept, ended], row) => {
      const from = number ? before[parent] : 0;
      const tokens = token === null ? nodes[from].tokens : [...nodes[from].tokens, token];
      const kind = !kept ? "dropped" : ended ? "ended" : "kept";
      nodes.push({ step: number, row, y: row * ROW + (kept ? 0 : 8), parent: from, token, word: token ?? "ended", tokens, logProb, kept, ended, kind, best: false });
    });
    before = step.map((_, row) => first + row);
  });
  for (let index = before[0]; index; index = nodes[index].parent) nodes[index].best = true;
  return nodes;
}

function number(value) {
  return minus(value.toFixed(2)).replace(/^−(0\.00)$/, "$1");
}

export default course({ name: "beam", build });
