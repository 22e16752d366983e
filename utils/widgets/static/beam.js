// The tree of a beam search: places and words come from Python, the page draws them and follows the pointer and the keys.

const HINT = "Point at a token to read its hypothesis; or Tab to the tree and use the arrow keys.";
const TALL = 31; // pixels, as in Python

function render({ model, el }) {
  const root = html("div", el, "course-beam-root");
  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const controls = html("div", root, "course-beam-controls");
  const menu = drawMenu();
  const buttons = drawButtons();
  const scroll = html("div", root, "course-beam-scroll");
  const line = html("p", root, "course-beam-line", { role: "status", "aria-live": "polite" });
  const error = html("p", root, "course-error", { role: "alert" });
  const note = html("p", root, "course-beam-note");
  html("p", root, "course-beam-legend").textContent = HINT;
  drawKey();
  let picture = null;
  let nodes = []; // {group, edge, node}
  let pointed = -1;

  function drawMenu() {
    const label = html("label", controls, "course-beam-label");
    html("span", label).textContent = "sentence";
    const select = html("select", label, "", { "aria-label": "sentence" });
    model.get("sentences").forEach((words, place) => (html("option", select, "", { value: place }).textContent = words));
    select.addEventListener("change", () => choose("sentence", Number(select.value)));
    return select;
  }

  function drawButtons() {
    const row = html("div", controls, "course-beam-buttons", { role: "group", "aria-label": "width of the beam" });
    html("span", row).textContent = "width";
    return model.get("widths").map((width) => {
      const button = html("button", row, "course-beam-button", { type: "button", "aria-label": `width ${width}` });
      button.textContent = width;
      button.addEventListener("click", () => choose("width", width));
      return { button, width };
    });
  }

  function drawKey() {
    const row = html("p", root, "course-beam-legend");
    for (const [kind, words] of [
      ["kept", "kept"],
      ["ended", "has ended"],
      ["dropped", "dropped"],
      ["best", "way to the best"],
    ]) {
      const entry = html("span", row, "course-beam-entry");
      html("i", entry, `course-beam-${kind}-key`);
      entry.append(words);
    }
    html("span", row, "course-beam-entry").textContent = "number: score";
  }

  function choose(name, value) {
    if (model.get(name) === value) return;
    model.set(name, value);
    model.save_changes();
    controlsFollow();
  }

  function drawTree() {
    const { nodes: all, headings, more, size } = model.get("answer");
    const held = scroll.contains(document.activeElement);
    scroll.replaceChildren();
    picture = svg("svg", scroll, { width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}`, role: "tree" });
    picture.setAttribute("aria-label", "hypotheses, step by step: left to the parent, right to a child, up and down within a step");
    const edges = svg("g", picture, { "aria-hidden": "true" });
    for (const { x, text } of headings) label(x, 16, text, "course-beam-quiet");
    for (const { x, y, text } of more) label(x, y, text, "course-beam-quiet");
    nodes = all.map((node, index) => ({ node, edge: drawEdge(edges, node, all), group: drawNode(node, index) }));
    edges.append(...nodes.filter(({ node, edge }) => edge && node.best).map(({ edge }) => edge)); // the best lie on top
    nodes[0].group.setAttribute("tabindex", 0);
    if (held) nodes[0].group.focus({ preventScroll: true });
  }

  function label(x, y, words, className) {
    svg("text", picture, { x, y, class: className, "aria-hidden": "true" }).textContent = words;
  }

  function drawEdge(edges, node, all) {
    if (node.step < 0) return null;
    const from = all[node.parent];
    const [x0, y0, x1, y1] = [from.x + from.wide, from.y + TALL / 2, node.x, node.y + TALL / 2];
    const middle = (x0 + x1) / 2;
    const path = svg("path", edges, { d: `M${x0},${y0} C${middle},${y0} ${middle},${y1} ${x1},${y1}` });
    path.setAttribute("class", `course-beam-edge course-beam-${node.kind}${node.best ? " course-beam-best" : ""}`);
    return path;
  }

  function drawNode(node, index) {
    const group = svg("g", picture, { role: "treeitem", tabindex: -1, "aria-label": node.said, "aria-level": node.step + 2 });
    group.setAttribute("class", `course-beam-node course-beam-${node.kind}${node.best ? " course-beam-best" : ""}`);
    group.dataset.node = index;
    svg("rect", group, { x: node.x, y: node.y, width: node.wide, height: TALL, rx: 5 });
    const y = node.y + TALL / 2 + 6;
    const word = svg("text", group, { x: node.score ? node.x + 10 : node.x + node.wide / 2, y, class: "course-beam-word" });
    word.textContent = node.word;
    if (!node.score) word.setAttribute("text-anchor", "middle");
    else svg("text", group, { x: node.x + node.wide - 9, y, "text-anchor": "end", class: "course-beam-score" }).textContent = node.score;
    group.addEventListener("pointerenter", () => point(index));
    group.addEventListener("pointerleave", () => point(-1));
    group.addEventListener("focus", () => take(index));
    group.addEventListener("click", () => group.focus({ preventScroll: true }));
    group.addEventListener("keydown", (event) => press(event, index));
    return group;
  }

  function point(index) {
    pointed = index;
    follow();
  }

  function take(index) {
    nodes.forEach(({ group }, other) => group.setAttribute("tabindex", other === index ? 0 : -1));
    const { x, wide } = nodes[index].node;
    if (x < scroll.scrollLeft) scroll.scrollLeft = x - 8;
    if (x + wide > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = x + wide + 8 - scroll.clientWidth;
    model.set("chosen", index);
    model.save_changes();
    follow();
  }

  function press(event, index) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { node } = nodes[index];
    const within = nodes.flatMap((other, place) => (other.node.step === node.step ? [place] : []));
    const children = nodes.flatMap((other, place) => (other.node.step >= 0 && other.node.parent === index && place ? [place] : []));
    const goals = {
      ArrowLeft: node.step < 0 ? index : node.parent,
      ArrowRight: children.find((place) => nodes[place].node.best) ?? children[0] ?? index,
      ArrowUp: within[Math.max(within.indexOf(index) - 1, 0)],
      ArrowDown: within[Math.min(within.indexOf(index) + 1, within.length - 1)],
      Home: 0,
      End: nodes.findLastIndex((one) => one.node.best),
    };
    if (event.key === "Escape") {
      event.preventDefault();
      pointed = -1;
      model.set("chosen", -1);
      model.save_changes();
      follow();
    } else if (event.key in goals) {
      event.preventDefault();
      pointed = -1;
      nodes[goals[event.key]].group.focus({ preventScroll: true });
    }
  }

  function follow() {
    const now = pointed >= 0 ? pointed : model.get("chosen");
    const way = new Set();
    for (let at = now; at > 0; at = nodes[at].node.parent) way.add(at);
    if (now >= 0) way.add(0);
    nodes.forEach(({ group, edge }, index) => {
      group.classList.toggle("course-beam-way", way.has(index));
      group.classList.toggle("course-beam-here", index === now);
      group.setAttribute("aria-selected", index === now);
      edge?.classList.toggle("course-beam-way", way.has(index));
    });
    const answer = model.get("answer");
    const fresh = answer.sentence === model.get("sentence") && answer.width === model.get("width") && !model.get("error");
    root.classList.toggle("course-beam-stale", !fresh);
    line.textContent = fresh ? (now >= 0 ? nodes[now].node.said : answer.text) : model.get("error") ? "" : "searching …";
    const { sentence, width, count } = answer;
    root.dataset.state = JSON.stringify({ sentence, width, node: now });
    root.dataset.status = model.get("error") ? "error" : "ok";
    root.dataset.count = count * 100000 + (shown += 1);
  }
  let shown = 0;

  function controlsFollow() {
    menu.value = model.get("sentence");
    buttons.forEach(({ button, width }) => button.setAttribute("aria-pressed", width === model.get("width")));
    const answer = model.get("answer");
    root.classList.toggle("course-beam-stale", answer.sentence !== model.get("sentence") || answer.width !== model.get("width"));
  }

  function answered() {
    controlsFollow();
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    note.textContent = model.get("answer").note;
    note.hidden = !model.get("answer").note;
    pointed = -1;
    if (!model.get("error")) drawTree();
    follow();
  }

  const chosen = () => nodes.length && follow();
  model.on("change:answer", answered);
  model.on("change:chosen", chosen);
  const release = keepKeys(() => root);
  answered();
  return () => {
    release();
    model.off("change:answer", answered);
    model.off("change:chosen", chosen);
  };
}

export default { render };
