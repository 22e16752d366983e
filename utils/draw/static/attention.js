// Attention between two rows of tokens. Pointing at a token, or moving to it by keyboard, shows its lines and numbers.

const SVG = "http://www.w3.org/2000/svg";
const FONT = 18;
const TOP = 62; // centre of the target row; above it the numbers of a source token's column
const BOTTOM = 252;
const HEIGHT = 314;
const NAMED = 8; // weights read out in the line of text; the rest is summed, never dropped in silence

function keepKeys(root) {
  // JupyterLab looks for shortcuts before the widget sees a key, and asks the pressed element itself for this
  // mark. Plain keys stay here; Ctrl, Alt and Cmd combinations and Shift+Enter still reach JupyterLab.
  const guard = (event) => {
    if (!(event.target instanceof Element) || !root.contains(event.target)) return;
    const own = !event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Enter";
    if (own) event.target.setAttribute("data-lm-suppress-shortcuts", "true");
    else event.target.removeAttribute("data-lm-suppress-shortcuts");
  };
  window.addEventListener("keydown", guard, true);
  return () => window.removeEventListener("keydown", guard, true);
}

function html(tag, parent, className = "", attributes = {}) {
  const element = document.createElement(tag);
  element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function svg(tag, parent, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function places(tokens, pen) {
  const widths = tokens.map((token) => Math.max(56, pen.measureText(token).width + 26));
  let end = 0;
  const centres = widths.map((width) => (end += width + 8) - width / 2 - 8);
  return { widths, centres, total: end - 8 };
}

function spread(row, total) {
  const extra = (total - row.total) / row.centres.length;
  row.centres = row.centres.map((centre, index) => centre + extra * (index + 0.5));
}

function select(parent, label, options, value, changed) {
  const box = html("label", parent, "course-choice");
  box.append(`${label} `);
  const menu = html("select", box);
  for (const [text, number] of options) {
    const option = html("option", menu);
    option.textContent = text;
    option.value = number;
  }
  menu.value = value;
  menu.addEventListener("change", () => changed(Number(menu.value)));
  return menu;
}

function render({ model, el }) {
  const root = html("div", el, "course-attention-root");
  const targets = model.get("target_tokens");
  const sources = model.get("source_tokens");
  const [layers, heads, m, n] = model.get("shape");
  const view = model.get("_weights");
  const all = new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
  const names = model.get("names");
  let hovered = null;

  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const controls = html("div", root, "course-controls");
  const count = (number) => Array.from({ length: number }, (_, index) => [`${index + 1} of ${number}`, index]);
  const choose = (name) => (value) => {
    model.set(name, value);
    model.save_changes();
  };
  const layerMenu = layers > 1 ? select(controls, "layer", count(layers), model.get("layer"), choose("layer")) : null;
  const headMenu =
    heads > 1
      ? select(controls, "head", [...count(heads), ["mean of heads", -1]], model.get("head"), choose("head"))
      : null;

  const frame = html("div", root, "course-frame");
  const labels = html("div", frame, "course-names", { "aria-hidden": "true" });
  html("span", labels, "", { style: `top:${TOP}px` }).textContent = names[0];
  html("span", labels, "", { style: `top:${BOTTOM}px` }).textContent = names[1];
  const scroller = html("div", frame, "course-scroll");
  const line = html("p", root, "course-text", { "aria-live": "polite" });

  const pen = document.createElement("canvas").getContext("2d");
  const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") || "sans-serif";
  pen.font = `bold ${FONT}px ${family}`; // the chosen token is bold and must fit as well
  const upper = places(targets, pen);
  const lower = places(sources, pen);
  const total = Math.max(upper.total, lower.total);
  const same = m === n && targets.every((token, index) => token === sources[index]);
  if (!same) {
    spread(upper, total);
    spread(lower, total);
  }
  const picture = svg("svg", scroller, {
    width: total + 24,
    height: HEIGHT,
    viewBox: `-12 0 ${total + 24} ${HEIGHT}`,
    role: "group",
    "aria-label": `${model.get("title") || "attention"}: ${names[0]} above, ${names[1]} below; arrow keys move`,
  });
  const strokes = svg("g", picture, { "aria-hidden": "true" });
  const rows = {
    target: tokenRow("target", targets, upper, TOP, TOP - 38),
    source: tokenRow("source", sources, lower, BOTTOM, BOTTOM + 44),
  };
  const lines = [];
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++)
      lines.push(svg("line", strokes, { x1: upper.centres[i], y1: TOP + 20, x2: lower.centres[j], y2: BOTTOM - 20 }));

  function tokenRow(side, tokens, row, y, numberY) {
    return tokens.map((token, index) => {
      const group = svg("g", picture, { class: `course-token course-${side}`, role: "button", tabindex: -1 });
      group.dataset.row = side;
      group.dataset.index = index;
      const width = row.widths[index];
      svg("rect", group, { x: row.centres[index] - width / 2, y: y - 20, width, height: 40, rx: 6 });
      const word = svg("text", group, { x: row.centres[index], y: y + 6, "text-anchor": "middle" });
      word.textContent = token;
      const number = svg("text", group, {
        x: row.centres[index],
        y: numberY,
        "text-anchor": "middle",
        class: "course-number",
      });
      group.addEventListener("pointerenter", () => ((hovered = [side, index]), update()));
      group.addEventListener("pointerleave", () => ((hovered = null), update()));
      group.addEventListener("focus", () => focusOn([side, index]));
      group.addEventListener("click", () => group.focus());
      group.addEventListener("keydown", (event) => move(event, side, index));
      return { group, number };
    });
  }

  function focusOn(focus) {
    model.set("focus", focus);
    model.save_changes();
    update();
  }

  function move(event, side, index) {
    const last = rows[side].length - 1;
    const other = side === "target" ? "source" : "target";
    const near = Math.round((index / Math.max(last, 1)) * (rows[other].length - 1));
    const goals = {
      ArrowLeft: [side, Math.max(index - 1, 0)],
      ArrowRight: [side, Math.min(index + 1, last)],
      Home: [side, 0],
      End: [side, last],
      ArrowUp: side === "source" ? ["target", same ? index : near] : null,
      ArrowDown: side === "target" ? ["source", same ? index : near] : null,
    };
    if (event.key === "Escape") {
      event.preventDefault();
      focusOn([]);
    } else if (event.key in goals) {
      event.preventDefault();
      const goal = goals[event.key];
      if (goal) rows[goal[0]][goal[1]].group.focus();
    }
  }

  function weight(i, j) {
    const head = model.get("head");
    const base = model.get("layer") * heads * m * n + i * n + j;
    if (head >= 0) return all[base + head * m * n];
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += all[base + h * m * n];
    return sum / heads;
  }

  function sentence(side, index) {
    const pairs = (side === "target" ? sources : targets).map((token, other) => [
      token,
      side === "target" ? weight(index, other) : weight(other, index),
    ]);
    const ordered = pairs.map((pair, place) => [...pair, place]).sort((a, b) => b[1] - a[1] || a[2] - b[2]);
    const said = ordered.slice(0, NAMED).map(([token, value]) => `${token} ${value.toFixed(2)}`);
    const rest = ordered.slice(NAMED);
    const tail = rest.length
      ? `; the other ${rest.length} together ${rest.reduce((sum, pair) => sum + pair[1], 0).toFixed(2)}`
      : "";
    return side === "target"
      ? `“${targets[index]}” looks at: ${said.join(", ")}${tail}`
      : `“${sources[index]}” is looked at by: ${said.join(", ")}${tail}`;
  }

  function update() {
    const [side, index] = hovered ?? (model.get("focus").length ? model.get("focus") : [null, -1]);
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const value = weight(i, j);
        const on = side === null || (side === "target" ? i === index : j === index);
        const stroke = lines[i * n + j];
        stroke.setAttribute("stroke-width", (1 + 8 * value).toFixed(2));
        stroke.setAttribute("class", side !== null && on ? "course-on" : "");
        stroke.setAttribute("stroke-opacity", (value < 0.004 ? 0 : on ? (side === null ? 0.12 : 0.3) + (side === null ? 0.83 : 0.65) * value : 0.12 * value).toFixed(3));
      }
    for (const [name, row] of Object.entries(rows))
      row.forEach(({ group, number }, place) => {
        const chosen = name === side && place === index;
        const partner = side !== null && name !== side;
        const value = partner ? (side === "target" ? weight(index, place) : weight(place, index)) : 0;
        group.classList.toggle("course-chosen", chosen);
        number.textContent = partner ? value.toFixed(2) : "";
        group.style.setProperty("--weight", partner ? value.toFixed(3) : 0);
        const home = model.get("focus").length ? model.get("focus") : ["target", 0];
        group.setAttribute("tabindex", name === home[0] && place === home[1] ? 0 : -1);
        group.setAttribute("aria-label", chosen ? sentence(name, place) : (name === "target" ? targets : sources)[place]);
      });
    line.textContent =
      side === null ? "Point at a token, or Tab to the row and use the arrow keys." : sentence(side, index);
    if (layerMenu) layerMenu.value = model.get("layer");
    if (headMenu) headMenu.value = model.get("head");
    root.dataset.state = JSON.stringify({ layer: model.get("layer"), head: model.get("head"), row: side, index });
    root.dataset.status = "ok";
    root.dataset.count = Number(root.dataset.count ?? 0) + 1;
  }

  model.on("change:layer", update);
  model.on("change:head", update);
  model.on("change:focus", update);
  const release = keepKeys(root);
  update();
  return () => {
    release();
    model.off("change:layer", update);
    model.off("change:head", update);
    model.off("change:focus", update);
  };
}

export default { render };
