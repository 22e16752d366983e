// Attention weights of all layers and heads as thumbnails; beside them the selected head as curves between two rows of tokens.
// Pointing at a token, or moving to it by keyboard, follows it. Rows that are too long for the page become two columns.

const MEAN = -1; // instead of a head: the mean of the heads of its layer
const SIDES = ["target", "source"];
const NAMED = 6; // weights listed one by one; the rest is summed
const LEVELS = 12; // of the curves of a whole head: equal widths share one path
const GAP = 28; // between the thumbnails and the selected head
const LAYER_NAME = 58; // its width
const CELL_GAP = 6; // between thumbnails

// Makes spaces and line breaks at the ends of a token visible.
const visible = (token) =>
  token === "" ? "(empty)" : token.replace(/\n/g, "↵").replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));

// Distinguishes a masked weight, exactly 0, from a small one.
const figure = (weight) => (weight === 0 ? "0" : weight < 0.005 ? "<0.01" : weight.toFixed(2));

function spoken(tokens) {
  // Equal tokens are distinguished by their position, counted from 1.
  return tokens.map((token, index) => {
    const twice = tokens.indexOf(token) !== tokens.lastIndexOf(token);
    return `“${visible(token)}”${twice ? ` (${index + 1})` : ""}`;
  });
}

function read(answer) {
  const { shape, data } = unpack(answer.weights);
  const [layers, heads, m, n] = shape;
  const maps = Array.from({ length: layers }, (_, layer) => {
    const own = Array.from({ length: heads }, (_, head) => {
      const start = (layer * heads + head) * m * n;
      return data.subarray(start, start + m * n);
    });
    // The mean comes last, where `at(MEAN)` finds it.
    return heads > 1 ? [...own, own[0].map((_, at) => own.reduce((sum, map) => sum + map[at], 0) / heads)] : own;
  });
  const tokens = [answer.target, answer.source ?? answer.target];
  return { answer, layers, heads, m, n, maps, tokens, same: !answer.source, said: tokens.map(spoken), links: answer.links };
}

// Where tokens stand: for each, its box, its text, the position of its weight and the end of its curves.

function inRows(tokens, same, width) {
  const texts = tokens.map((row) => row.map(visible));
  const widths = texts.map((row) => row.map((text) => Math.max(48, width(text) + 20)));
  const totals = widths.map((row) => row.reduce((sum, one) => sum + one + 6, -6));
  const total = Math.max(...totals);
  const layout = texts.map((row, side) => {
    const extra = same ? 0 : (total - totals[side]) / row.length;
    const y = side ? 236 : 48;
    let left = 2;
    return row.map((text, index) => {
      const wide = widths[side][index];
      const x = left + extra / 2 + wide / 2;
      left += wide + 6 + extra;
      const number = [x, side ? y + 53 : y - 9, "middle"];
      return { text, x, y: y + 17, box: [x - wide / 2, y, wide, 34], number, end: [x, side ? y : y + 34] };
    });
  });
  return { rows: true, tokens: layout, size: [total + 4, 320], names: [[2, 16, "start"], [2, 314, "start"]] };
}

function inColumns(tokens, width, room, least = 110) {
  const most = Math.max(...tokens.map((column) => column.length));
  const pitch = most <= 14 ? 32 : most <= 24 ? 24 : 19;
  const beside = 56; // room for a weight
  const longest = least < 110 ? (room - least) / 2 - beside - 16 : room < 560 ? 110 : 180;
  const texts = tokens.map((column) => column.map((token) => cut(visible(token), width, Math.min(180, longest))));
  const widths = texts.map((column) => Math.max(44, ...column.map((text) => width(text) + 16)));
  const gap = Math.min(190, Math.max(least, room - widths[0] - widths[1] - 2 * beside));
  const lefts = [beside, beside + widths[0] + gap];
  const layout = texts.map((column, side) =>
    column.map((text, index) => {
      const y = 34 + ((index + 0.5) * most * pitch) / column.length; // the shorter column is spread out
      const [left, right] = [lefts[side], lefts[side] + widths[side]];
      const box = [left, y - pitch / 2 + 1, right - left, pitch - 2];
      const number = side ? [right + 6, y + 5, "start"] : [left - 6, y + 5, "end"];
      return { text, x: (left + right) / 2, y, box, number, end: [side ? left : right, y] };
    }),
  );
  const end = lefts[1] + widths[1];
  const names = [[beside + widths[0], 20, "end"], [lefts[1], 20, "start"]];
  return { rows: false, tokens: layout, size: [end + beside, 40 + most * pitch], names };
}

function cut(text, width, room) {
  if (width(text) <= room) return text;
  let length = text.length - 1;
  while (length > 1 && width(`${text.slice(0, length)}…`) > room) length--;
  return `${text.slice(0, length)}…`;
}

function build(ui) {
  const { names } = ui.data;
  const showInputs = addControls(ui, ui.data.controls);
  const body = html("div", ui.body, "course-attention-body");
  const overview = html("div", body, "course-attention-side");
  const scroll = html("div", overview, "course-attention-scroll");
  const grid = html("div", scroll, "course-attention-grid", { role: "radiogroup", "aria-label": "layer and head: arrow keys select" });
  const legend = html("p", overview, "course-attention-legend");
  const summary = html("p", overview, "course-attention-summary");
  const panel = html("div", body, "course-attention-panel");
  const heading = html("p", panel, "course-attention-heading", { "aria-live": "polite" });
  const share = html("p", panel);
  const stage = html("div", html("div", panel, "course-attention-scroll"), "course-attention-stage");
  const back = svg("svg", stage, { class: "course-attention-all", "aria-hidden": "true" });
  const front = svg("svg", stage, { class: "course-attention-front", role: "group" });
  const sentence = html("p", panel, "course-attention-sentence", { "aria-live": "polite" });
  let shown = null; // the answer on screen, as `read` returns it
  let plan = null; // where its tokens stand
  let drawn = ""; // the head whose curves are on screen
  let thumbs = [];
  let boxes = [];
  let beam, gold;
  let hovered = null;

  // Selection and focus, within what the present answer has

  const selected = () => [Math.min(ui.view.layer, shown.layers - 1), Math.min(ui.view.head, shown.heads - 1)];
  const map = () => shown.maps[selected()[0]].at(selected()[1]);
  const kept = () => {
    // In another sentence, follow the same token if it is there.
    if (!ui.view.focus) return null;
    const [row, index, token] = ui.view.focus;
    const tokens = shown.tokens[SIDES.indexOf(row)];
    const position = tokens[index] === token ? index : tokens.indexOf(token);
    return position < 0 ? null : [SIDES.indexOf(row), position];
  };
  const follow = (side, index) => ui.setView({ focus: [SIDES[side], index, shown.tokens[side][index]] });
  const row = (matrix, index) => Array.from(matrix.subarray(index * shown.n, (index + 1) * shown.n));
  const weightsOf = (matrix, side, index) =>
    side === 0 ? row(matrix, index) : Array.from({ length: shown.m }, (_, i) => matrix[i * shown.n + index]);

  function nameOf(layer, head) {
    const parts = shown.layers > 1 ? [`layer ${layer + 1}`] : [];
    if (shown.heads > 1) parts.push(head === MEAN ? `mean of ${shown.heads} heads` : `head ${head + 1}`);
    return parts.join(", ");
  }

  // Thumbnails

  function buildThumbs() {
    const { layers, heads, maps, m, n } = shown;
    grid.replaceChildren();
    grid.style.gridTemplateColumns = `${layers > 1 ? "auto " : ""}repeat(${maps[0].length}, auto)`;
    const label = (text) => (html("span", grid, "course-attention-name").textContent = text);
    if (layers > 1 && heads > 1) label("head");
    if (heads > 1) maps[0].forEach((_, column) => label(column < heads ? `${layers > 1 ? "" : "head "}${column + 1}` : "mean"));
    thumbs = maps.flatMap((row, layer) => {
      if (layers > 1) label(`layer ${layer + 1}`);
      return row.map((matrix, column) => {
        const head = column < heads ? column : MEAN;
        const thumb = html("button", grid, "course-attention-thumb", { type: "button", role: "radio" });
        const frame = html("span", thumb, "course-attention-frame");
        const canvas = html("canvas", frame, "", { width: n, height: m });
        html("span", frame, "course-attention-mark");
        const onLinks = shown.links.length ? percent(goldShare(matrix)) : "";
        if (onLinks) html("span", thumb, "course-attention-share").textContent = onLinks;
        thumb.setAttribute("aria-label", (nameOf(layer, head) || "attention map") + (onLinks && `, ${onLinks} on gold links`));
        thumb.addEventListener("click", () => ui.setView({ layer, head }));
        thumb.addEventListener("keydown", (event) => {
          const goal = arrowMoves(event, layer, column, layers, row.length);
          if (!goal) return;
          event.preventDefault();
          ui.setView({ layer: goal[0], head: goal[1] < heads ? goal[1] : MEAN });
          thumbs[goal[0] * row.length + goal[1]].thumb.focus();
        });
        return { thumb, canvas, matrix, layer, head };
      });
    });
    grid.classList.toggle("course-attention-single", thumbs.length === 1);
    legend.textContent = `Rows: ${names[0]}; columns: ${names[1]}.${shown.links.length ? " Below: weight on gold links." : ""}`;
  }

  function paint() {
    // The square root brings small weights up: among 40 tokens, 0.1 is much.
    const [ground, strong] = [rgb(ui.root, "--c-ground"), rgb(ui.root, "--c-strong")];
    const ramp = Array.from({ length: 256 }, (_, step) => ground.map((one, at) => one + ((strong[at] - one) * step) / 255));
    for (const { canvas, matrix } of thumbs) {
      const pen = canvas.getContext("2d");
      const image = pen.createImageData(shown.n, shown.m);
      matrix.forEach((weight, at) => image.data.set([...ramp[Math.round(255 * Math.sqrt(Math.min(weight, 1)))], 255], 4 * at));
      pen.putImageData(image, 0, 0);
    }
  }

  function goldShare(matrix) {
    // Of the weight of target tokens that have a gold link, how much is on the link.
    const targets = new Set(shown.links.map(([, target]) => target));
    const total = [...targets].reduce((sum, target) => sum + row(matrix, target).reduce((a, b) => a + b, 0), 0);
    return shown.links.reduce((sum, [source, target]) => sum + matrix[target * shown.n + source], 0) / total;
  }

  // The selected head

  function lay() {
    const room = ui.body.clientWidth;
    if (!room) return false;
    const pen = document.createElement("canvas").getContext("2d");
    const family = getComputedStyle(ui.root).fontFamily;
    const measure = (size) => {
      pen.font = `bold ${size}px ${family}`; // the followed token is bold
      return (text) => pen.measureText(text).width;
    };
    const columns = shown.maps[0].length;
    const labels = (shown.layers > 1 ? LAYER_NAME : 0) + (shown.heads > 1 ? 14 : 0); // "mean" is wider than a small thumbnail
    const tiny = shown.links.length ? 40 : 26; // a percentage below it needs room
    const [small, fair, large] = columns * shown.layers === 1 ? [110, 150, 190] : [tiny, 40, Math.min(84, 420 / shown.layers)];
    const widthOf = (size) => labels + columns * (size + CELL_GAP);
    const letters = Math.max(shown.m, shown.n) <= 24 ? 16 : 14;
    const besideOf = (size) => room - widthOf(size) - GAP; // for the selected head beside thumbnails of this size
    const rows = inRows(shown.tokens, shown.same, measure(16));
    const narrow = inColumns(shown.tokens, measure(letters), besideOf(fair));
    const beside = Math.min(rows.size[0], narrow.size[0]) <= besideOf(small);
    plan = rows.size[0] <= (beside ? besideOf(fair) : room) ? rows : beside ? narrow : inColumns(shown.tokens, measure(letters), room, 60);
    const space = beside ? room - plan.size[0] - GAP : room;
    const size = Math.max(beside ? small : 20, Math.min(large, (space - labels) / columns - CELL_GAP));
    const scaled = (length, other) => size * Math.max(0.5, Math.min(1, length / other));
    const [high, wide] = [scaled(shown.m, shown.n), scaled(shown.n, shown.m)];
    grid.style.setProperty("--wide", `${wide.toFixed(1)}px`);
    grid.style.setProperty("--high", `${high.toFixed(1)}px`);
    body.classList.toggle("course-attention-beside", beside);
    overview.style.width = beside ? `${Math.max(widthOf(size), Math.min(space, 200))}px` : "";
    panel.style.minWidth = beside ? `${plan.size[0]}px` : "0";
    ui.root.style.setProperty("--letters", `${plan.rows ? 16 : letters}px`);
    return true;
  }

  function buildTokens() {
    const [wide, high] = plan.size;
    for (const picture of [back, front]) {
      picture.replaceChildren();
      set(picture, { width: wide, height: high, viewBox: `0 0 ${wide} ${high}` });
    }
    front.setAttribute("aria-label", `${names[0]} and ${names[1]}: arrow keys move, Escape follows none`);
    names.forEach((name, side) => {
      const [x, y, anchor] = plan.names[side];
      svg("text", front, { x, y, "text-anchor": anchor }).textContent = name;
    });
    gold = shown.links.map(([source, target]) => {
      return { source, target, path: svg("path", front, { d: curve(target, source), class: "course-attention-gold" }) };
    });
    beam = svg("g", front, { class: "course-attention-beam", "aria-hidden": "true" });
    boxes = plan.tokens.map((tokens, side) => tokens.map((token, index) => buildToken(token, side, index)));
  }

  function buildToken({ text, x, y, box, number }, side, index) {
    const group = svg("g", front, { class: `course-attention-token course-attention-${SIDES[side]}`, role: "button", tabindex: -1 });
    const [left, top, width, height] = box;
    const rect = svg("rect", group, { x: left, y: top, width, height, rx: 5 });
    const name = svg("text", group, { x, y, dy: "0.35em", "text-anchor": "middle" });
    name.textContent = text;
    const weight = svg("text", group, { x: number[0], y: number[1], "text-anchor": number[2], class: "course-attention-number" });
    group.addEventListener("pointerenter", () => hover([side, index]));
    group.addEventListener("pointerleave", () => hover(null));
    group.addEventListener("focus", () => ((hovered = null), follow(side, index)));
    group.addEventListener("click", () => group.focus());
    group.addEventListener("keydown", (event) => move(event, side, index));
    return { group, rect, name, weight };
  }

  function hover(token) {
    hovered = token;
    showFollowed();
  }

  function move(event, side, index) {
    if (event.key === "Escape") {
      hovered = null;
      ui.setView({ focus: null });
      event.target.blur();
    }
    const grids = plan.rows ? [side, index, 2, boxes[side].length] : [index, side, boxes[side].length, 2];
    const goal = arrowMoves(event, ...grids);
    if (!goal) return;
    event.preventDefault();
    const ends = { Home: [side, 0], End: [side, boxes[side].length - 1] };
    const [toSide, to] = ends[event.key] ?? (plan.rows ? goal : [goal[1], goal[0]]);
    // To the other row: to the token opposite, where the rows have different lengths.
    const scale = toSide === side ? 1 : (boxes[toSide].length - 1) / Math.max(boxes[side].length - 1, 1);
    boxes[toSide][Math.round(to * scale)].group.focus();
  }

  function curve(target, source) {
    const [[x1, y1], [x2, y2]] = [plan.tokens[0][target].end, plan.tokens[1][source].end];
    const [bendX, bendY] = plan.rows ? [0, (y2 - y1) / 2] : [(x2 - x1) / 2, 0];
    return `M${x1} ${y1}C${x1 + bendX} ${y1 + bendY} ${x2 - bendX} ${y2 - bendY} ${x2} ${y2}`;
  }

  const look = (weight, opacity) => ({ "stroke-width": (1 + 9 * weight).toFixed(2), "stroke-opacity": opacity.toFixed(3) });
  const faint = () => Math.min(0.004, 0.5 / shown.n); // a smaller weight has no curve

  function drawAll() {
    const paths = Array.from({ length: LEVELS }, () => []);
    map().forEach((weight, at) => {
      const level = Math.min(LEVELS - 1, Math.floor(LEVELS * Math.sqrt(weight)));
      if (weight >= faint()) paths[level].push(curve(Math.floor(at / shown.n), at % shown.n));
    });
    back.replaceChildren();
    const least = 0.3 * Math.min(1, 10 / shown.n); // many thin curves would become a wall
    paths.forEach((curves, level) => {
      const weight = ((level + 0.5) / LEVELS) ** 2;
      if (curves.length) svg("path", back, { d: curves.join(""), ...look(weight, least + (0.95 - least) * Math.sqrt(weight)) });
    });
  }

  function showFollowed() {
    // Everything that depends on the followed token; runs at every move of the pointer.
    const [side, index] = hovered ?? kept() ?? [-1, -1];
    const weights = side < 0 ? [] : weightsOf(map(), side, index);
    const largest = Math.max(...weights);
    back.classList.toggle("course-attention-faded", side >= 0);
    beam.replaceChildren();
    weights.forEach((weight, other) => {
      const ends = side === 0 ? [index, other] : [other, index];
      // The width is the weight; the opacity is relative, so that even attention stays visible.
      if (weight >= faint()) svg("path", beam, { d: curve(...ends), ...look(weight, 0.3 + (0.65 * weight) / largest) });
    });
    for (const { source, target, path } of gold)
      path.classList.toggle("course-attention-faded", side >= 0 && index !== [target, source][side]);
    const [tabSide, tabIndex] = kept() ?? [0, 0];
    boxes.forEach((tokens, row) =>
      tokens.forEach(({ group, rect, name, weight }, token) => {
        const value = side >= 0 && row !== side ? weights[token] : null;
        const chosen = row === side && token === index;
        group.classList.toggle("course-attention-followed", chosen);
        const depth = chosen ? 0.25 : value ? 0.55 * value : 0;
        rect.style.fill = depth ? shade(depth, "var(--own)") : "";
        name.style.fill = depth > 0.3 ? onShade(depth, "var(--own)") : "";
        weight.textContent = value === null ? "" : figure(value);
        weight.classList.toggle("course-attention-negligible", value < 0.005);
        group.setAttribute("tabindex", row === tabSide && token === tabIndex ? 0 : -1);
        group.setAttribute("aria-label", shown.said[row][token]);
      }),
    );
    sentence.textContent = side < 0 ? "Point at a token, or move to it with Tab and the arrow keys." : sentenceOf(side, index, weights);
    summary.textContent = side === 0 && thumbs.length > 1 ? summaryOf(index) : "";
    grid.dataset.follows = SIDES[side] ?? "";
    const [m, n] = [shown.m, shown.n];
    const [top, tall] = side === 0 ? [index / m, 1 / m] : [0, 1];
    const [left, broad] = side === 1 ? [index / n, 1 / n] : [0, 1];
    for (const [name, value] of Object.entries({ top, tall, left, broad })) grid.style.setProperty(`--${name}`, `${(100 * value).toFixed(3)}%`);
  }

  function sentenceOf(side, index, weights) {
    const others = shown.said[1 - side];
    const ordered = weights
      .map((value, other) => [value, other])
      .filter(([value]) => value > 0)
      .sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    const token = shown.said[side][index];
    if (!ordered.length) return side ? `No token attends to ${token}: all its weights are 0.` : `${token} is fully masked: all its weights are 0.`;
    const parts = [ordered.slice(0, NAMED).map(([value, other]) => `${others[other]} ${figure(value)}`).join(", ")];
    const rest = ordered.slice(NAMED);
    if (rest.length) parts.push(`the other ${rest.length} together ${figure(rest.reduce((sum, [value]) => sum + value, 0))}`);
    const zeros = others.length - ordered.length;
    if (zeros) parts.push(zeros === 1 ? "one weight is 0" : `${zeros} weights are 0`);
    return `${token} ${side ? "is attended to by" : "attends to"} ${parts.join("; ")}.`;
  }

  function summaryOf(index) {
    // The token with the largest weight, counted over all heads.
    const counts = new Map();
    const own = thumbs.filter(({ head }) => shown.heads === 1 || head !== MEAN);
    for (const { matrix } of own) {
      const weights = row(matrix, index);
      const peak = weights.indexOf(Math.max(...weights));
      counts.set(peak, (counts.get(peak) ?? 0) + 1);
    }
    const ordered = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    const parts = ordered.slice(0, 4).map(([peak, count]) => `${shown.same && peak === index ? "itself" : shown.said[1][peak]} in ${count}`);
    const rest = ordered.slice(4).reduce((sum, [, count]) => sum + count, 0);
    if (rest) parts.push(`other tokens in ${rest}`);
    return `${shown.said[0][index]} attends most to ${parts.join(", ")} of ${own.length} ${shown.heads > 1 ? "heads" : "layers"}.`;
  }

  function draw() {
    showInputs();
    if (ui.answer !== shown?.answer) {
      shown = read(ui.answer);
      hovered = null;
      plan = null;
      buildThumbs();
    }
    if (!plan) {
      if (!lay()) return; // not in the page yet
      paint();
      buildTokens();
      drawn = "";
    }
    const [layer, head] = selected();
    if (drawn !== `${layer},${head}`) drawAll();
    drawn = `${layer},${head}`;
    heading.textContent = nameOf(layer, head);
    heading.hidden = !heading.textContent;
    share.textContent = shown.links.length ? `${percent(goldShare(map()))} of the weight is on gold links (dashed).` : "";
    share.hidden = !share.textContent;
    for (const one of thumbs) {
      const here = one.layer === layer && (one.head === head || shown.heads === 1);
      one.thumb.setAttribute("aria-checked", here);
      one.thumb.setAttribute("tabindex", here ? 0 : -1);
    }
    showFollowed();
  }

  let width = 0;
  const watch = new ResizeObserver(() => {
    if (Math.abs(ui.body.clientWidth - width) < 2) return;
    width = ui.body.clientWidth;
    plan = null;
    draw();
  });
  watch.observe(ui.body);
  ui.onRemove(() => watch.disconnect());
  ui.onTheme(() => plan && paint());
  return draw;
}

export default course({ name: "attention", build });
