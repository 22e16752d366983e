// Attention between two groups of tokens, and a small map of every head. Pointing at a token, or moving to it by
// keyboard, shows its lines and numbers. The tokens lie in two rows where these fit the page, else in two columns.

const BASE = new Map([["across", 18], ["down", 17], ["dense", 15]]); // letter sizes in pixels
const NAMED = 8; // weights read out in the line of text; the rest is summed, never dropped in silence
const LONGEST = 250; // pixels of a token in a column; a longer one is cut, and whole in the line of text
const DENSE = 24; // tokens in a column: beyond that, smaller letters closer together
const FIRST_WIDTH = 900; // what the page is taken to be until it says so itself

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

// Makes leading and trailing spaces and line breaks of a token visible.
const visible = (token) =>
  token === "" ? "(empty)" : token.replace(/\n/g, "↵").replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));

// Distinguishes a masked weight, exactly 0, from a small one.
const figure = (weight) => (weight === 0 ? "0" : weight < 0.005 ? "<0.01" : weight.toFixed(2));

function spoken(tokens) {
  // Equal tokens are distinguished by their position, counted from 1.
  const seen = new Map();
  for (const token of tokens) seen.set(token, (seen.get(token) ?? 0) + 1);
  return tokens.map((token, index) => visible(token) + (seen.get(token) > 1 ? ` (${index + 1})` : ""));
}

function cut(token, pen, width) {
  let text = visible(token);
  if (pen.measureText(text).width <= width) return text;
  while (text.length > 1 && pen.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
}

// Where everything stands. Both plans give, for each side, the box, the word and the number of every token and the
// end of its lines; `size` of the whole picture and places of the two names.

function across(tokens, pen) {
  const [top, bottom, height] = [76, 256, 316];
  const rows = tokens.map((words) => {
    const widths = words.map((word) => Math.max(56, pen.measureText(visible(word)).width + 26));
    let end = 0;
    const centers = widths.map((width) => (end += width + 8) - width / 2 - 8);
    return { widths, centers, total: end - 8 };
  });
  const total = Math.max(...rows.map((row) => row.total));
  const same = tokens[0].length === tokens[1].length && tokens[0].every((word, index) => word === tokens[1][index]);
  const sides = rows.map((row, side) => {
    const extra = same ? 0 : (total - row.total) / row.centers.length;
    const y = side === 0 ? top : bottom;
    return row.centers.map((center, index) => {
      const x = center + extra * (index + 0.5) + 12;
      const width = row.widths[index];
      return {
        box: { x: x - width / 2, y: y - 20, width, height: 40, rx: 6 },
        word: { x, y: y + 6, "text-anchor": "middle" },
        number: { x, y: side === 0 ? y - 32 : y + 42, "text-anchor": "middle" },
        end: [x, side === 0 ? y + 20 : y - 20],
        text: visible(tokens[side][index]),
      };
    });
  });
  return { name: "across", size: [total + 24, height], sides, names: [top, bottom] };
}

function down(tokens, pen, dense, room) {
  const pitch = dense ? 22 : 36;
  const half = dense ? 10 : 15;
  const head = 44;
  const number = 64;
  const texts = tokens.map((words) => words.map((word) => cut(word, pen, room < 720 ? LONGEST / 2 : LONGEST)));
  const widths = texts.map((words) => Math.max(56, ...words.map((word) => pen.measureText(word).width + 22)));
  const most = Math.max(...tokens.map((words) => words.length));
  const spare = room - widths[0] - widths[1] - 2 * number;
  const gap = Math.min(250, Math.max(90, 20 * Math.floor(spare / 20))); // in steps, so that few widths mean a new plan
  const lefts = [number, number + widths[0] + gap];
  const sides = texts.map((words, side) =>
    words.map((text, index) => {
      // A shorter column is spread over the height of the longer one.
      const y = head + ((index + 0.5) * most * pitch) / words.length;
      const [left, right] = [lefts[side], lefts[side] + widths[side]];
      return {
        box: { x: left, y: y - half, width: widths[side], height: 2 * half, rx: 5 },
        word: { x: side === 0 ? right - 11 : left + 11, y: y + 5.5, "text-anchor": side === 0 ? "end" : "start" },
        number: { x: side === 0 ? left - 8 : right + 8, y: y + 5.5, "text-anchor": side === 0 ? "end" : "start" },
        end: [side === 0 ? right : left, y],
        text,
      };
    }),
  );
  const names = [lefts[0] + widths[0], lefts[1]];
  return { name: "down", size: [lefts[1] + widths[1] + number, head + most * pitch + 8], sides, names };
}

function render({ model, el }) {
  const root = html("div", el, "course-attention-root");
  const tokens = [model.get("target_tokens"), model.get("source_tokens")];
  const said = tokens.map(spoken);
  const SIDES = ["target", "source"];
  const [layers, heads, m, n] = model.get("shape");
  const view = model.get("_weights");
  const all = new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
  const names = model.get("names");
  const faint = Math.min(0.004, 0.5 / n); // weights below this have no line: hardly more than nothing, even of many
  let hovered = null;

  if (model.get("title")) html("p", root, "course-title").textContent = model.get("title");
  const controls = html("div", root, "course-controls");
  const count = (number) => Array.from({ length: number }, (_, index) => [`${index + 1} of ${number}`, index]);
  const choose = (changes) => {
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
  };
  const layerMenu =
    layers > 1 ? select(controls, "layer", count(layers), model.get("layer"), (layer) => choose({ layer })) : null;
  const headMenu =
    heads > 1
      ? select(controls, "head", [...count(heads), ["mean of heads", -1]], model.get("head"), (head) => choose({ head }))
      : null;

  const body = html("div", root, "course-body");
  const frame = html("div", body, "course-frame");
  const aside = html("div", body, "course-side");
  const line = html("p", aside, "course-text", { "aria-live": "polite" });
  const maps = layers * heads > 1 ? overview() : null;

  const pens = new Map();
  for (const [plan, size] of BASE) {
    const pen = document.createElement("canvas").getContext("2d");
    const family = getComputedStyle(document.body).getPropertyValue("--jp-ui-font-family") || "sans-serif";
    pen.font = `bold ${size}px ${family}`; // the chosen token is bold and must fit as well
    pens.set(plan, pen);
  }
  const dense = Math.max(m, n) > DENSE;
  const inRows = across(tokens, pens.get("across"));
  let plan = null;
  let picture, fog, beam, boxes;

  function lay(width) {
    // Rows read like the sentence they are; where they would leave the page, columns hold any length.
    const columns = () => down(tokens, pens.get(dense ? "dense" : "down"), dense, width);
    const wanted = inRows.size[0] + 130 <= width ? inRows : columns();
    if (wanted.name === plan?.name && wanted.size[0] === plan.size[0]) return;
    const hadFocus = frame.contains(document.activeElement);
    plan = wanted;
    hovered = null;
    frame.replaceChildren();
    frame.className = `course-frame course-${plan.name}${plan !== inRows && dense ? " course-dense" : ""}`;
    // The sentence grows with what it says and must not push the picture from under the pointer: below or beside it.
    if (plan === inRows) root.append(line);
    else aside.prepend(line);
    if (plan === inRows) {
      const labels = html("div", frame, "course-names", { "aria-hidden": "true" });
      names.forEach((name, side) => (html("span", labels, "", { style: `top:${plan.names[side]}px` }).textContent = name));
    }
    const [wide, high] = plan.size;
    picture = svg("svg", html("div", frame, "course-scroll"), {
      width: wide,
      height: high,
      viewBox: `0 0 ${wide} ${high}`,
      role: "group",
      "aria-label": `${model.get("title") || "attention"}: ${names[0]} and ${names[1]}; arrow keys move`,
    });
    if (plan !== inRows)
      names.forEach((name, side) => {
        const place = { x: plan.names[side], y: 22, "text-anchor": side === 0 ? "end" : "start", "aria-hidden": "true" };
        svg("text", picture, { ...place, class: "course-side-name" }).textContent = name;
      });
    fog = svg("g", picture, { class: "course-fog", "aria-hidden": "true" });
    beam = svg("g", picture, { class: "course-beam", "aria-hidden": "true" });
    boxes = plan.sides.map((places, side) => places.map((place, index) => tokenBox(place, side, index)));
    drawFog();
    update();
    if (hadFocus) home().focus();
  }

  function tokenBox(place, side, index) {
    const group = svg("g", picture, { class: `course-token course-${SIDES[side]}`, role: "button", tabindex: -1 });
    group.dataset.row = SIDES[side];
    group.dataset.index = index;
    svg("rect", group, place.box);
    svg("text", group, { ...place.word, class: "course-word" }).textContent = place.text;
    const number = svg("text", group, { ...place.number, class: "course-number" });
    if (place.text !== visible(tokens[side][index])) svg("title", group).textContent = tokens[side][index];
    group.addEventListener("pointerenter", () => ((hovered = [SIDES[side], index]), update()));
    group.addEventListener("pointerleave", () => ((hovered = null), update()));
    group.addEventListener("focus", () => focusOn([SIDES[side], index]));
    group.addEventListener("click", () => group.focus());
    group.addEventListener("keydown", (event) => move(event, side, index));
    return { group, number };
  }

  function home() {
    const [side, index] = model.get("focus").length ? model.get("focus") : ["target", 0];
    return boxes[SIDES.indexOf(side)][index].group;
  }

  function focusOn(focus) {
    hovered = null; // the keyboard was used last: a pointer that rests on a token must not hide what it does
    choose({ focus });
    update();
  }

  function move(event, side, index) {
    const last = boxes[side].length - 1;
    const far = boxes[1 - side].length - 1;
    const back = [side, Math.max(index - 1, 0)];
    const on = [side, Math.min(index + 1, last)];
    const over = [1 - side, Math.round((index / Math.max(last, 1)) * far)];
    const [previous, next, toTarget, toSource] =
      plan === inRows ? ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"] : ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
    const goals = {
      [previous]: back,
      [next]: on,
      [toTarget]: side === 1 ? over : null,
      [toSource]: side === 0 ? over : null,
      Home: [side, 0],
      End: [side, last],
    };
    if (event.key === "Escape") {
      event.preventDefault();
      focusOn([]);
    } else if (event.key in goals) {
      event.preventDefault();
      const goal = goals[event.key];
      if (goal) boxes[goal[0]][goal[1]].group.focus();
    }
  }

  function weight(i, j, layer = model.get("layer"), head = model.get("head")) {
    const base = layer * heads * m * n + i * n + j;
    if (head >= 0) return all[base + head * m * n];
    let sum = 0;
    for (let h = 0; h < heads; h++) sum += all[base + h * m * n];
    return sum / heads;
  }

  const weightsOf = (side, index) =>
    tokens[side === "target" ? 1 : 0].map((_, other) => (side === "target" ? weight(index, other) : weight(other, index)));

  function sentence(side, index) {
    const others = said[side === "target" ? 1 : 0];
    const me = `“${said[side === "target" ? 0 : 1][index]}”`;
    const ordered = weightsOf(side, index)
      .map((value, place) => [value, place])
      .filter(([value]) => value > 0)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    if (!ordered.length)
      return side === "target" ? `${me} is fully masked: all its weights are 0.` : `No token attends to ${me}: all its weights are 0.`;
    const parts = [ordered.slice(0, NAMED).map(([value, place]) => `${others[place]} ${figure(value)}`).join(", ")];
    const rest = ordered.slice(NAMED);
    if (rest.length) parts.push(`the next ${rest.length} together ${figure(rest.reduce((sum, pair) => sum + pair[0], 0))}`);
    const zeros = others.length - ordered.length;
    if (zeros) parts.push(zeros === 1 ? "one weight is 0" : `${zeros} weights are 0`);
    return `${me} ${side === "target" ? "attends to" : "is attended to by"}: ${parts.join("; ")}`;
  }

  function stroke(parent, i, j, value, opacity) {
    const [[x1, y1], [x2, y2]] = [plan.sides[0][i].end, plan.sides[1][j].end];
    svg("line", parent, { x1, y1, x2, y2, "stroke-width": (1 + 8 * value).toFixed(2), "stroke-opacity": opacity.toFixed(3) });
  }

  function drawFog() {
    // Every line of the head; drawn once for it and only faded while a token is followed.
    fog.replaceChildren();
    const least = 0.12 * Math.min(1, 14 / n); // many thin lines would grow into a wall
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        const value = weight(i, j);
        if (value >= faint) stroke(fog, i, j, value, least + (0.95 - least) * value);
      }
  }

  function drawBeam(side, index) {
    beam.replaceChildren();
    if (side === null) return;
    const values = weightsOf(side, index);
    const most = Math.max(...values);
    // The width is the weight; the opacity is relative, so that uniform attention stays visible.
    values.forEach((value, other) => {
      const [i, j] = side === "target" ? [index, other] : [other, index];
      if (value >= faint) stroke(beam, i, j, value, 0.3 + (0.65 * value) / most);
    });
  }

  function update() {
    const [side, index] = hovered ?? (model.get("focus").length ? model.get("focus") : [null, -1]);
    fog.classList.toggle("course-faded", side !== null);
    drawBeam(side, index);
    const values = side === null ? [] : weightsOf(side, index);
    const tabStop = home();
    boxes.forEach((row, place) =>
      row.forEach(({ group, number }, token) => {
        const chosen = SIDES[place] === side && token === index;
        const partner = side !== null && SIDES[place] !== side;
        group.classList.toggle("course-chosen", chosen);
        group.classList.toggle("course-partner", partner && values[token] >= faint);
        number.textContent = partner ? figure(values[token]) : "";
        number.style.setProperty("--weight", partner ? values[token].toFixed(3) : 0);
        group.setAttribute("tabindex", group === tabStop ? 0 : -1);
        group.setAttribute("aria-label", chosen ? sentence(side, index) : said[place][token]);
      }),
    );
    line.textContent =
      side === null ? "Point at a token, or Tab to the tokens and use the arrow keys." : sentence(side, index);
    if (layerMenu) layerMenu.value = model.get("layer");
    if (headMenu) headMenu.value = model.get("head");
    maps?.update(side, index);
    root.dataset.state = JSON.stringify({ layer: model.get("layer"), head: model.get("head"), row: side, index });
    root.dataset.status = "ok";
    root.dataset.count = Number(root.dataset.count ?? 0) + 1;
  }

  function overview() {
    // One small map for each head, one row of them for each layer: which heads are worth a closer look.
    const size = heads <= 4 ? 76 : heads <= 8 ? 60 : 46;
    const [high, wide] = m >= n ? [size, Math.max(16, (size * n) / m)] : [Math.max(16, (size * m) / n), size];
    const caption = html("p", aside, "course-caption");
    caption.textContent = `All heads. Rows: ${names[0]}; columns: ${names[1]}. Brighter: larger weight.`;
    const grid = html("div", aside, "course-maps", {
      role: "radiogroup",
      "aria-label": "layer and head: arrow keys move",
      style: `grid-template-columns: auto repeat(${heads}, auto)`,
    });
    html("span", grid, "course-map-name").textContent = size < 60 && heads > 1 ? "head" : "";
    for (let head = 0; head < heads; head++)
      html("span", grid, "course-map-name").textContent = size < 60 ? `${head + 1}` : `head ${head + 1}`;
    aside.style.flexBasis = `${Math.max(340, heads * (wide + 6) + 90)}px`; // beside the picture only where it fits
    const buttons = [];
    for (let layer = 0; layer < layers; layer++) {
      html("span", grid, "course-map-name course-map-row").textContent = layers > 1 ? `layer ${layer + 1}` : "";
      for (let head = 0; head < heads; head++) {
        const button = html("button", grid, "course-map", {
          type: "button",
          role: "radio",
          "aria-label": layers > 1 ? `layer ${layer + 1}, head ${head + 1}` : `head ${head + 1}`,
          style: `width:${wide}px;height:${high}px`,
        });
        paint(html("canvas", button, "", { width: n, height: m }), layer, head);
        html("span", button, "course-map-mark");
        button.addEventListener("click", () => (choose({ layer, head }), button.focus()));
        button.addEventListener("keydown", (event) => moveMap(event, layer, head));
        buttons.push({ button, layer, head });
      }
    }
    function moveMap(event, layer, head) {
      const goals = goalsFrom(layer, head, layers, heads);
      if (!(event.key in goals)) return;
      event.preventDefault();
      const [toLayer, toHead] = goals[event.key];
      choose({ layer: toLayer, head: toHead });
      buttons[toLayer * heads + toHead].button.focus();
    }
    return {
      update(row, index) {
        for (const { button, layer, head } of buttons) {
          const here = layer === model.get("layer") && head === model.get("head");
          const inMean = layer === model.get("layer") && model.get("head") === -1;
          button.setAttribute("aria-checked", here);
          button.classList.toggle("course-map-on", here || inMean);
          button.setAttribute("tabindex", here || (inMean && head === 0) ? 0 : -1);
        }
        // The token that is followed, in every map at once: its row, or its column.
        const [top, tall] = row === "target" ? [index / m, 1 / m] : [0, 1];
        const [left, broad] = row === "source" ? [index / n, 1 / n] : [0, 1];
        grid.dataset.follows = row ?? "";
        for (const [name, value] of Object.entries({ top, tall, left, broad }))
          grid.style.setProperty(`--${name}`, `${(100 * value).toFixed(3)}%`);
      },
    };
  }

  function paint(canvas, layer, head) {
    const colors = model.get("_colors").map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(n, m);
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        // The square root brings small weights up: among 40 tokens, 0.1 is already much.
        const place = Math.sqrt(Math.min(Math.max(weight(i, j, layer, head), 0), 1)) * (colors.length - 1);
        image.data.set([...colors[Math.round(place)], 255], 4 * (i * n + j));
      }
    pen.putImageData(image, 0, 0);
  }

  const another = () => {
    drawFog();
    update();
  };
  model.on("change:layer", another);
  model.on("change:head", another);
  model.on("change:focus", update);
  const release = keepKeys(() => root);
  lay(FIRST_WIDTH);
  const watch = new ResizeObserver(([entry]) => entry.contentRect.width > 0 && lay(entry.contentRect.width));
  watch.observe(root);
  return () => {
    release();
    watch.disconnect();
    model.off("change:layer", another);
    model.off("change:head", another);
    model.off("change:focus", update);
  };
}

export default { render };
