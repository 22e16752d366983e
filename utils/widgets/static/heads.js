// Every layer and head at once: a small map for each, one row of them for each layer. Pointing at a token, or moving to
// it by keyboard, marks its row in every map, shows that row alone below the map and names the token it attends to most.

const [EVENLY, NOWHERE] = [-1, -2]; // as in Python
const NAMED = 8; // weights read out for the enlarged map; the rest is summed, never dropped in silence
const HINT = "Point at a token, or Tab to the tokens and use the arrow keys, to follow it through every head.";
const HINT_MAPS = "Click a map, or press Enter on it, to enlarge it.";

// A weight that is exactly 0 was masked; a small one was not, and must not look the same.
const figure = (weight) => (weight === 0 ? "0" : weight < 0.005 ? "<0.01" : weight.toFixed(2));

function brightness(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function render({ model, el }) {
  const [layers, heads, m, n] = model.get("shape");
  const view = model.get("_weights");
  const all = new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
  const peaks = model.get("_peaks");
  const colors = model.get("_colors").map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const [targets, sources] = model.get("labels");
  const [saidTargets, saidSources] = model.get("said");
  const names = model.get("names");
  const sentences = model.get("sentences");
  let hovered = null; // the token under the pointer
  let home = Math.max(model.get("focus"), 0); // the token that Tab goes to
  let mapHome = [0, 0]; // the map that Tab goes to

  const weight = (layer, head, i, j) => all[((layer * heads + head) * m + i) * n + j];
  const row = (layer, head, i) => Array.from({ length: n }, (_, j) => weight(layer, head, i, j));
  const which = (layer, head) => (layers > 1 ? `layer ${layer + 1}, head ${head + 1}` : `head ${head + 1}`);
  // The square root brings small weights up: among 40 tokens, 0.1 is already much.
  const color = (value) => colors[Math.round(Math.sqrt(Math.min(Math.max(value, 0), 1)) * (colors.length - 1))];
  const choose = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const followed = () => hovered ?? (model.get("focus") >= 0 ? model.get("focus") : null);

  const root = html("div", el, "course-heads-root");
  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const words = drawWords();
  const line = html("p", root, "course-heads-line", { "aria-live": "polite" });
  const body = html("div", root, "course-heads-body");
  const side = html("div", body, "course-heads-side");
  const grid = html("div", html("div", side, "course-heads-scroll"), "course-heads-grid", {
    role: "group",
    "aria-label": "a map for each layer and head: arrow keys move, Enter enlarges",
    style: `grid-template-columns: auto repeat(${heads}, auto)`,
  });
  const maps = drawMaps();
  drawLegend();
  const panel = html("div", body, "course-heads-panel");
  let enlarged = null;

  function drawWords() {
    const row = html("div", root, "course-heads-words", { role: "group", "aria-label": `${names[0]}: arrow keys move` });
    html("span", row, "course-heads-name", { "aria-hidden": "true" }).textContent = `${names[0]}:`;
    return targets.map((label, index) => {
      const button = html("button", row, "course-heads-word", { type: "button", title: saidTargets[index], tabindex: -1 });
      button.textContent = label;
      button.dataset.index = index;
      button.addEventListener("pointerenter", () => ((hovered = index), update()));
      button.addEventListener("pointerleave", () => ((hovered = null), update()));
      button.addEventListener("focus", () => follow(index));
      button.addEventListener("click", () => button.focus());
      button.addEventListener("keydown", (event) => moveWord(event, index));
      return button;
    });
  }

  function follow(index) {
    hovered = null; // the keyboard was used last: a pointer that rests on a token must not hide what it does
    home = Math.max(index, 0);
    choose({ focus: index });
    update();
  }

  function moveWord(event, index) {
    const [back, on] = [Math.max(index - 1, 0), Math.min(index + 1, m - 1)];
    const goals = { ArrowLeft: back, ArrowUp: back, ArrowRight: on, ArrowDown: on, Home: 0, End: m - 1 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      follow(-1);
    } else if (event.key in goals) {
      event.preventDefault();
      words[goals[event.key]].focus();
    }
  }

  function drawMaps() {
    html("span", grid);
    const headings = Array.from({ length: heads }, () => html("span", grid, "course-heads-name", { "aria-hidden": "true" }));
    const made = [];
    for (let layer = 0; layer < layers; layer++) {
      const name = html("span", grid, "course-heads-name course-heads-layer", { "aria-hidden": "true" });
      name.textContent = layers > 1 ? `layer ${layer + 1}` : "";
      for (let head = 0; head < heads; head++) made.push(drawMap(layer, head));
    }
    made.headings = headings;
    return made;
  }

  function drawMap(layer, head) {
    const button = html("button", grid, "course-heads-map", { type: "button", tabindex: -1 });
    button.dataset.layer = layer;
    button.dataset.head = head;
    const picture = html("span", button, "course-heads-picture");
    const canvas = html("canvas", picture, "", { width: n, height: m });
    html("span", picture, "course-heads-mark");
    const strip = html("canvas", button, "course-heads-strip", { width: n, height: 1 });
    const caption = html("span", button, "course-heads-caption");
    const token = html("span", caption, "course-heads-token");
    const number = html("span", caption, "course-heads-number");
    const pixels = Array.from({ length: m * n }, (_, at) => weight(layer, head, Math.floor(at / n), at % n));
    paint(canvas, pixels, n, m);
    button.addEventListener("click", () => enlarge(layer, head));
    button.addEventListener("focus", () => {
      mapHome = [layer, head];
      for (const other of maps) other.button.setAttribute("tabindex", other.button === button ? 0 : -1);
    });
    button.addEventListener("keydown", (event) => moveMap(event, layer, head));
    return { button, picture, strip, token, number, layer, head };
  }

  function paint(canvas, values, wide, high) {
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(wide, high);
    values.forEach((value, at) => image.data.set([...color(value), 255], 4 * at));
    pen.putImageData(image, 0, 0);
  }

  function moveMap(event, layer, head) {
    const goals = goalsFrom(layer, head, layers, heads);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      choose({ chosen: [] });
    } else if (event.key in goals) {
      event.preventDefault();
      const [toLayer, toHead] = goals[event.key];
      maps[toLayer * heads + toHead].button.focus();
    }
  }

  function enlarge(layer, head) {
    const [wasLayer, wasHead] = model.get("chosen");
    maps[layer * heads + head].button.focus();
    choose({ chosen: wasLayer === layer && wasHead === head ? [] : [layer, head] });
  }

  function drawLegend() {
    const row = html("p", side, "course-heads-legend");
    html("span", row).textContent = `Rows: ${names[0]}, columns: ${names[1]}. Weight:`;
    for (const value of [0, 0.1, 0.5, 1]) {
      const entry = html("span", row, "course-heads-entry");
      html("i", entry, "", { style: `background: rgb(${color(value)})` });
      entry.append(`${value}`);
    }
    html("span", row).textContent = HINT_MAPS;
  }

  // The enlarged map

  function drawPanel() {
    const [layer, head] = model.get("chosen");
    const hadFocus = panel.contains(document.activeElement);
    panel.replaceChildren();
    panel.hidden = layer === undefined;
    enlarged = null;
    if (panel.hidden) {
      if (hadFocus) maps[mapHome[0] * heads + mapHome[1]].button.focus();
      return;
    }
    const top = html("div", panel, "course-heads-top");
    html("b", top).textContent = which(layer, head);
    const close = html("button", top, "course-heads-close", { type: "button" });
    close.textContent = "close";
    close.addEventListener("click", () => choose({ chosen: [] }));
    const size = Math.max(m, n);
    const cell = size <= 10 ? 48 : size <= 20 ? 27 : 18;
    const letters = size <= 20 ? 16 : 14;
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = `bold ${letters}px ${getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") || "sans-serif"}`;
    const wide = (labels) => Math.ceil(Math.max(...labels.map((label) => pen.measureText(label).width)));
    const left = wide(targets) + 14;
    const turned = wide(sources) > cell - 4;
    const above = (turned ? wide(sources) : letters) + 14;
    const [width, height] = [left + n * cell + 6, above + m * cell + 6];
    const picture = svg("svg", html("div", panel, "course-heads-scroll"), {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      style: `font-size:${letters}px`,
      "aria-hidden": "true",
    });
    sources.forEach((label, j) => {
      const [x, y] = [left + (j + 0.5) * cell, above - 7];
      const place = turned
        ? { transform: `translate(${x + letters * 0.35} ${y}) rotate(-90)`, "text-anchor": "start" }
        : { x, y, "text-anchor": "middle" };
      svg("text", picture, place).textContent = label;
    });
    const rowNames = targets.map((label, i) => {
      const place = { x: left - 8, y: above + (i + 0.5) * cell + letters * 0.35, "text-anchor": "end" };
      const name = svg("text", picture, place);
      name.textContent = label;
      return name;
    });
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const value = weight(layer, head, i, j);
        const shade = color(value);
        const [x, y] = [left + j * cell, above + i * cell];
        svg("rect", picture, { x, y, width: cell, height: cell, fill: `rgb(${shade})` });
        if (cell < 40) continue;
        const ink = brightness(shade) > 0.179 ? "black" : "white"; // where both would have the same contrast
        const place = { x: x + cell / 2, y: y + cell / 2 + 5, "text-anchor": "middle", style: `fill:${ink};font-size:14px` };
        svg("text", picture, place).textContent = figure(value);
      }
    const mark = ["course-heads-under", "course-heads-over"].map((name) =>
      svg("rect", picture, { x: left, width: n * cell, height: cell, class: name }),
    );
    const told = html("p", panel, "course-heads-line course-heads-told", { style: `width:${Math.max(width, 340)}px` });
    const rowAt = (event) => {
      const box = picture.getBoundingClientRect();
      const i = Math.floor((event.clientY - box.top - above) / cell);
      return i >= 0 && i < m ? i : null;
    };
    picture.addEventListener("pointermove", (event) => {
      const i = rowAt(event);
      if (i !== hovered) ((hovered = i), update());
    });
    picture.addEventListener("pointerleave", () => ((hovered = null), update()));
    picture.addEventListener("click", (event) => rowAt(event) !== null && follow(rowAt(event)));
    enlarged = {
      update(i) {
        rowNames.forEach((name, place) => name.classList.toggle("course-heads-bold", place === i));
        for (const box of mark) {
          box.setAttribute("visibility", i === null ? "hidden" : "visible");
          box.setAttribute("y", above + (i ?? 0) * cell);
        }
        told.textContent = i === null ? "Point at a row to read its weights." : sentence(layer, head, i);
      },
    };
  }

  function sentence(layer, head, i) {
    const ordered = row(layer, head, i)
      .map((value, j) => [value, j])
      .filter(([value]) => value > 0)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    const me = `In ${which(layer, head)}, “${saidTargets[i]}”`;
    if (!ordered.length) return `${me} attends to nothing: all its weights are 0.`;
    const parts = [ordered.slice(0, NAMED).map(([value, j]) => `${saidSources[j]} ${figure(value)}`).join(", ")];
    const rest = ordered.slice(NAMED);
    if (rest.length) parts.push(`the next ${rest.length} together ${figure(rest.reduce((sum, pair) => sum + pair[0], 0))}`);
    const zeros = n - ordered.length;
    if (zeros) parts.push(zeros === 1 ? "one weight is 0" : `${zeros} weights are 0`);
    return `${me} attends to: ${parts.join("; ")}`;
  }

  function update() {
    const i = followed();
    const [chosenLayer, chosenHead] = model.get("chosen");
    words.forEach((button, index) => {
      button.classList.toggle("course-heads-on", index === i);
      button.setAttribute("aria-pressed", index === model.get("focus"));
      button.setAttribute("tabindex", index === home ? 0 : -1);
    });
    line.textContent = i === null ? HINT : sentences[i];
    grid.classList.toggle("course-heads-follows", i !== null);
    grid.style.setProperty("--top", `${((100 * (i ?? 0)) / m).toFixed(3)}%`);
    grid.style.setProperty("--tall", `${(100 / m).toFixed(3)}%`);
    for (const { button, strip, token, number, layer, head } of maps) {
      const here = layer === chosenLayer && head === chosenHead;
      button.classList.toggle("course-heads-chosen", here);
      button.setAttribute("aria-expanded", here);
      let words = "";
      let value = "";
      if (i !== null) {
        const peak = peaks[(layer * heads + head) * m + i];
        words = peak === NOWHERE ? "nothing" : peak === EVENLY ? "evenly" : sources[peak];
        value = peak >= 0 ? figure(weight(layer, head, i, peak)) : "";
        paint(strip, row(layer, head, i), n, 1);
        const most = peak >= 0 ? `most to ${saidSources[peak]}, ${value}` : peak === NOWHERE ? "to nothing" : "evenly to all";
        button.setAttribute("aria-label", `${which(layer, head)}: ${saidTargets[i]} attends ${most}`);
      } else button.setAttribute("aria-label", which(layer, head));
      token.textContent = words;
      number.textContent = value;
    }
    enlarged?.update(i);
    root.dataset.state = JSON.stringify({ token: i, layer: chosenLayer ?? null, head: chosenHead ?? null });
    root.dataset.status = "ok";
    root.dataset.count = Number(root.dataset.count ?? 0) + 1;
  }

  function lay(width) {
    const room = Math.floor((width - (layers > 1 ? 76 : 16)) / heads) - 10;
    const wide = Math.min(128, Math.max(50, room));
    const high = Math.round(wide * Math.min(Math.max(m / n, 0.5), 1.6));
    grid.style.setProperty("--wide", `${wide}px`);
    grid.style.setProperty("--high", `${high}px`);
    grid.classList.toggle("course-heads-narrow", wide < 96);
    grid.classList.toggle("course-heads-thin", high / m < 6);
    maps.headings.forEach((name, head) => (name.textContent = wide < 62 ? `${head + 1}` : `head ${head + 1}`));
  }

  const another = () => {
    drawPanel();
    update();
  };
  model.on("change:focus", update);
  model.on("change:chosen", another);
  const release = keepKeys(() => root, true);
  maps[0].button.setAttribute("tabindex", 0);
  lay(900);
  another();
  const watch = new ResizeObserver(([entry]) => entry.contentRect.width > 0 && lay(entry.contentRect.width));
  watch.observe(root);
  return () => {
    release();
    watch.disconnect();
    model.off("change:focus", update);
    model.off("change:chosen", another);
  };
}

export default { render };
