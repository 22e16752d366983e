// What all widgets share. A widget's own script calls `course({name, build, compute})`:
//   build(ui) draws the widget once and returns the function that draws it again after every change;
//   compute(data, inputs) is the answer without Python, or undefined. Stored answers (data.answers) need no `compute`.
// With a live kernel every answer comes from Python. Without one the page computes it, or the widget freezes.

const SVG = "http://www.w3.org/2000/svg";
const PATIENCE = 1500; // milliseconds until the page computes what a busy kernel was asked
const HOW = { page: "this page computes with the reference implementation.", stored: "stored answers." };
const FROZEN = {
  notebook: "Run the notebook up to this cell to activate the widget.",
  page: "What is gray needs Python: run this lesson as a notebook.",
};

function course({ name, build, compute }) {
  function render({ model, el }) {
    const root = html("div", el, `course-widget course-${name}`);
    const data = model.get("data");
    let lost = false; // a kernel that stopped or restarted no longer knows this widget
    const disconnected = () => model.isStored || lost || el.closest(".jupyter-widgets-disconnected") !== null;
    const fixed = !Object.keys(withoutRequest(model.get("inputs"))).length; // nothing to ask: the one answer is known
    let known = {}; // the last answer without Python: one change asks for it several times
    const alone = (inputs) => {
      if (fixed) return model.get("answer");
      const key = keyOf(inputs);
      if (known.key === key) return known.answer;
      const computed = compute?.(data, inputs);
      known = { key, answer: computed ?? data.answers?.[key], how: computed ? HOW.page : HOW.stored };
      return known.answer;
    };
    let request = 0;
    let timer = null;
    let status = "ok";
    const cleanups = [];

    const ui = {
      root,
      data,
      inputs: withoutRequest(model.get("inputs")),
      view: { ...model.get("view") },
      answer: model.get("answer"),
      error: model.get("error"), // a notebook may have been saved with it
      // What the reader did to the inputs: asks for a new answer.
      setInputs(changes) {
        ui.inputs = { ...ui.inputs, ...changes };
        if (ui.mode() === "kernel") ask();
        else answerAlone();
      },
      // What the reader did to the view alone: no answer is needed.
      setView(changes) {
        ui.view = { ...ui.view, ...changes };
        model.set("view", ui.view);
        if (!disconnected()) model.save_changes();
        redraw();
      },
      // "kernel", "page" (computed here) or "frozen" (nothing can be computed)
      mode: () => (!disconnected() ? "kernel" : alone(ui.inputs) === undefined ? "frozen" : "page"),
      // Whether the answer belongs to the inputs: not while Python is at work on it.
      settled: () => status === "ok" && (disconnected() || model.get("answered") >= request),
      onTheme(listener) {
        cleanups.push(whenThemeChanges(listener));
      },
      onRemove: (listener) => cleanups.push(listener),
    };

    if (data.title) html("p", root, "course-title").textContent = data.title;
    ui.controls = html("fieldset", root, "course-controls"); // the controls of the inputs; disabled when frozen
    const error = html("p", root, "course-error", { role: "alert" }); // next to what caused it
    ui.body = html("div", root, "course-body");
    const note = html("p", root, "course-note");
    const draw = build(ui);
    ui.controls.hidden = !ui.controls.childElementCount;
    root.append(note);

    function redraw() {
      const mode = ui.mode();
      const drawn = { ...ui.inputs, ...ui.view };
      ui.controls.disabled = mode === "frozen";
      error.textContent = ui.error;
      error.hidden = !ui.error;
      root.classList.toggle("course-stale", Boolean(ui.error) || status === "waiting");
      note.textContent = noteOn(mode);
      note.hidden = !note.textContent;
      draw();
      Object.assign(root.dataset, { mode, status: ui.error ? "error" : status, state: JSON.stringify(drawn), answered: model.get("answered") });
      root.dataset.count = Number(root.dataset.count ?? 0) + 1;
    }

    function noteOn(mode) {
      if (status === "waiting") return "Waiting for Python.";
      if (status === "busy") return `Python is busy: ${known.how}`;
      if (mode === "frozen") return model.isStored ? FROZEN.page : FROZEN.notebook;
      return mode === "page" && !fixed ? `Without Python: ${known.how}` : "";
    }

    function ask() {
      request = Math.max(request, model.get("answered")) + 1;
      model.set("inputs", { ...ui.inputs, request });
      model.save_changes();
      clearTimeout(timer);
      if (status === "ok") timer = setTimeout(late, PATIENCE);
      else late(); // it did not answer last time
      redraw();
    }

    function late() {
      const answer = alone(ui.inputs);
      status = answer === undefined ? "waiting" : "busy";
      if (answer !== undefined) ui.answer = answer;
      redraw();
    }

    function hear() {
      if (model.get("answered") < request && status !== "ok") return; // a newer request is on its way
      if (model.get("answered") >= request) {
        clearTimeout(timer);
        status = "ok";
        ui.inputs = withoutRequest(model.get("inputs"));
      }
      ui.answer = model.get("answer");
      ui.error = model.get("error");
      redraw();
    }

    function answerAlone() {
      clearTimeout(timer);
      status = "ok";
      const answer = alone(ui.inputs);
      if (answer === undefined) {
        ui.inputs = withoutRequest(model.get("inputs")); // back to what the answer belongs to
      } else {
        ui.answer = answer;
        ui.error = "";
        model.set("inputs", { ...ui.inputs });
        model.set("answer", answer);
      }
      redraw();
    }

    const follow = () => {
      ui.view = { ...model.get("view") };
      redraw();
    };
    const reconnect = () => (disconnected() ? answerAlone() : redraw());
    const connection = new MutationObserver(reconnect);
    if (!model.isStored) connection.observe(el, { attributeFilter: ["class"] });
    cleanups.push(
      whenKernelStops(model, () => {
        lost = true;
        reconnect();
      }),
    );
    model.on("change:answered", hear);
    model.on("change:view", follow);
    const release = keepKeys(root);
    // In a notebook opened again the saved answer is that of Python; the note says that the page computes, so it does.
    const start = () => (disconnected() && !model.isStored ? answerAlone() : redraw());
    start();
    // Once in the page, texts have their real width and colors their numbers.
    const drawInPage = () => (root.isConnected ? start() : (drawnAgain = requestAnimationFrame(drawInPage)));
    let drawnAgain = requestAnimationFrame(drawInPage);
    return () => {
      clearTimeout(timer);
      cancelAnimationFrame(drawnAgain);
      connection.disconnect();
      model.off("change:answered", hear);
      model.off("change:view", follow);
      release();
      cleanups.forEach((cleanup) => cleanup());
    };
  }
  return { render, compute };
}

function whenKernelStops(model, listener) {
  // JupyterLab tells it; on other hosts a kernel that does not answer is noticed by its silence.
  const kernel = model.widget_manager?.kernel;
  if (!kernel?.statusChanged) return () => {};
  const stop = () => {
    listener();
    document.dispatchEvent(new CustomEvent("course-kernel-stopped", { detail: model.widget_manager })); // to the extension, which saves the state
  };
  const follow = (_, status) => ["restarting", "autorestarting", "terminating", "dead"].includes(status) && stop();
  kernel.statusChanged.connect(follow);
  kernel.disposed.connect(stop);
  return () => {
    kernel.statusChanged.disconnect(follow);
    kernel.disposed.disconnect(stop);
  };
}

function withoutRequest({ request, ...inputs }) {
  return inputs;
}

function keyOf(inputs) {
  return JSON.stringify(Object.fromEntries(Object.entries(inputs).sort(([a], [b]) => (a < b ? -1 : 1))));
}

function keepKeys(root) {
  // JupyterLab and slides look for shortcuts before the widget sees a key. JupyterLab asks the pressed element for this mark.
  // Plain keys stay here; combinations with Ctrl, Alt and Cmd, and Shift+Enter, still go there.
  const guard = (event) => {
    if (!(event.target instanceof Element) || !root.contains(event.target)) return;
    const own = !event.ctrlKey && !event.metaKey && !event.altKey && !(event.key === "Enter" && event.shiftKey);
    event.target.toggleAttribute("data-lm-suppress-shortcuts", own);
    if (own) event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  };
  const stop = (event) => event.stopPropagation();
  window.addEventListener("keydown", guard, true);
  root.addEventListener("keydown", stop);
  return () => {
    window.removeEventListener("keydown", guard, true);
    root.removeEventListener("keydown", stop);
  };
}

// Elements

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function html(tag, parent, className = "", attributes = {}) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  parent.append(set(element, attributes));
  return element;
}

function svg(tag, parent, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  parent.append(set(element, attributes));
  return element;
}

function button(parent, label, action, className = "") {
  const element = html("button", parent, `course-button ${className}`, { type: "button" });
  element.textContent = label;
  element.addEventListener("click", action);
  return element;
}

// Controls of inputs, from the specifications that controls.py writes. Returns the function that shows the current inputs.

function addControls(ui, specs, parent = ui.controls) {
  const shown = specs.map((spec) => CONTROLS[spec.kind](spec, parent, (value) => ui.setInputs({ [spec.name]: value })));
  return () => specs.forEach((spec, index) => shown[index](ui.inputs[spec.name]));
}

const CONTROLS = {
  slider(spec, parent, change) {
    const box = html("label", parent, "course-slider");
    const words = html("span", box, "course-label");
    const input = html("input", box, "", { type: "range", min: 0, max: spec.steps, step: 1 });
    const valueAt = (place) =>
      spec.log
        ? fourDigits(spec.low * (spec.high / spec.low) ** (place / spec.steps))
        : Number((spec.low + (spec.high - spec.low) * (place / spec.steps)).toFixed(spec.decimals));
    const placeOf = (value) =>
      spec.log
        ? (spec.steps * Math.log(value / spec.low)) / Math.log(spec.high / spec.low)
        : (spec.steps * (value - spec.low)) / (spec.high - spec.low);
    input.addEventListener("input", () => change(valueAt(Number(input.value))));
    return (value) => {
      if (Math.round(placeOf(value)) !== Number(input.value)) input.value = Math.round(placeOf(value));
      const said = spec.log ? value.toLocaleString("en", { maximumSignificantDigits: 15 }) : minus(value.toFixed(spec.decimals));
      words.textContent = `${spec.label}: ${said}`;
      input.setAttribute("aria-valuetext", said);
    };
  },
  choice(spec, parent, change) {
    // options: [[label, value], ...]; buttons where they fit in a row
    const isMenu = spec.options.length > 4 || spec.options.map(([label]) => label).join("").length > 60;
    const box = html(isMenu ? "label" : "div", parent, "course-choice", { role: "group", "aria-label": spec.label });
    html("span", box, "course-label").textContent = spec.label;
    if (isMenu) {
      const menu = html("select", box);
      spec.options.forEach(([label], index) => (html("option", menu, "", { value: index }).textContent = label));
      menu.addEventListener("change", () => change(spec.options[menu.value][1]));
      return (value) => (menu.value = spec.options.findIndex(([, option]) => option === value));
    }
    const buttons = spec.options.map(([label, value]) => button(box, label, () => change(value)));
    return (value) =>
      buttons.forEach((one, index) => one.setAttribute("aria-pressed", String(spec.options[index][1] === value)));
  },
  check(spec, parent, change) {
    const box = html("label", parent, "course-check");
    const input = html("input", box, "", { type: "checkbox" });
    html("span", box, "course-label").textContent = spec.label;
    input.addEventListener("change", () => change(input.checked));
    return (value) => (input.checked = value);
  },
  text(spec, parent, change) {
    const box = html("label", parent, "course-field");
    html("span", box, "course-label").textContent = spec.label;
    const field = html(spec.lines > 1 ? "textarea" : "input", box, "", spec.lines > 1 ? { rows: spec.lines } : { type: "text" });
    field.spellcheck = false;
    const send = () => change(field.value);
    field.addEventListener("change", send);
    field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || (spec.lines > 1 && !event.ctrlKey)) return;
      event.preventDefault();
      send();
    });
    button(box, spec.action ?? "Run", send);
    return (value) => document.activeElement !== field && (field.value = value);
  },
};

// Numbers

function minus(text) {
  return String(text).replace("-", "−");
}

function fourDigits(value) {
  return value < 1000 ? Number(value.toPrecision(4)) : Math.round(value); // all digits of a whole number
}

function percent(probability) {
  if (probability > 0 && probability < 0.005) return "<1 %";
  return probability >= 0.995 && probability < 0.99995 ? ">99 %" : `${(100 * probability).toFixed(0)} %`;
}

function softmax(scores, temperature = 1) {
  const scaled = scores.map((score) => score / temperature);
  const largest = Math.max(...scaled);
  const exponentials = scaled.map((score) => (score === -Infinity ? 0 : Math.exp(score - largest)));
  const sum = exponentials.reduce((total, one) => total + one, 0);
  return exponentials.map((one) => one / sum);
}

function dot(a, b) {
  return a.reduce((sum, one, index) => sum + one * b[index], 0);
}

function weightedSum(weights, values) {
  return values[0].map((_, axis) => weights.reduce((sum, weight, index) => sum + weight * values[index][axis], 0));
}

const unpackedArrays = new WeakMap();

function unpack(array) {
  // {shape, float32} as `packed` writes it, to {shape, at(...indices), data}.
  if (!unpackedArrays.has(array)) {
    const numbers = new Float32Array(Uint8Array.from(atob(array.float32), (letter) => letter.charCodeAt(0)).buffer);
    const at = (...indices) => numbers[indices.reduce((place, index, axis) => place * array.shape[axis] + index, 0)];
    unpackedArrays.set(array, { shape: array.shape, data: numbers, at });
  }
  return unpackedArrays.get(array);
}

function unseal(text) {
  // A value as `sealed` writes it.
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))));
}

// Colors: every one is a CSS variable of core.css, which follows the theme of the page.

const series = (index) => `var(--c-series-${index % 6})`;
// Of a weight from 0 to 1: from the ground of the page to the full color.
const shade = (weight, color = "var(--c-strong)") => `color-mix(in oklab, ${color} ${(100 * weight).toFixed(1)}%, var(--c-ground))`;
// Letters on it: black or white, whichever has more contrast.
const onShade = (weight, color) => `oklch(from ${shade(weight, color)} clamp(0, (0.57 - l) * 1e6, 1) 0 0)`;

function rgb(element, variable) {
  // The numbers of a color variable, for a canvas.
  const probe = html("span", element, "", { style: `display:none;color:var(${variable})` });
  const parts = (getComputedStyle(probe).color || "rgb(0, 0, 0)") // not yet in the page
    .match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return parts;
}

function whenThemeChanges(listener) {
  const watch = new MutationObserver(() => requestAnimationFrame(listener));
  for (const element of [document.documentElement, document.body])
    watch.observe(element, { attributeFilter: ["data-jp-theme-light", "data-theme", "class", "theme"] });
  return () => watch.disconnect();
}

function arrowMoves(event, row, column, rows, columns) {
  // Where an arrow key leads in a grid, or undefined for another key.
  return {
    ArrowLeft: [row, Math.max(column - 1, 0)],
    ArrowRight: [row, Math.min(column + 1, columns - 1)],
    ArrowUp: [Math.max(row - 1, 0), column],
    ArrowDown: [Math.min(row + 1, rows - 1), column],
    Home: [row, 0],
    End: [row, columns - 1],
  }[event.key];
}

// The plane from -extent to extent. Its points are dragged, or moved by the arrow keys, with Shift by larger steps: `move(id, [x, y])`.

const AXES = { left: 36, bottom: 28, rest: 10 }; // margins around the plane, for the ticks

function coordinatePlane(parent, { extent, size, label, move }) {
  const { left, bottom, rest } = AXES;
  const [width, height] = [left + size + rest, rest + size + bottom];
  const picture = svg("svg", parent, { viewBox: `0 0 ${width} ${height}`, width, class: "course-axes", role: "group", "aria-label": label });
  const across = (x) => left + ((x + extent) / (2 * extent)) * size;
  const down = (y) => rest + ((extent - y) / (2 * extent)) * size;
  const handles = [];
  let dragged = null;

  svg("rect", picture, { x: left, y: rest, width: size, height: size, class: "course-axes-frame" });
  for (let tick = -Math.floor(extent); tick <= extent; tick++) {
    const kind = tick ? "course-axes-grid" : "course-axes-zero";
    svg("line", picture, { x1: across(tick), x2: across(tick), y1: rest, y2: rest + size, class: kind });
    svg("line", picture, { y1: down(tick), y2: down(tick), x1: left, x2: left + size, class: kind });
    svg("text", picture, { x: across(tick), y: rest + size + 22, "text-anchor": "middle" }).textContent = minus(tick);
    svg("text", picture, { x: left - 7, y: down(tick) + 5, "text-anchor": "end" }).textContent = minus(tick);
  }

  function moveTo(handle, x, y) {
    const inside = (number) => Math.min(extent, Math.max(-extent, Number(number.toFixed(3))));
    move(handle.id, [inside(x), inside(y)]);
  }
  function pointerAt(event) {
    const bounds = picture.getBoundingClientRect();
    const unit = (2 * extent) / size;
    const [x, y] = [((event.clientX - bounds.left) * width) / bounds.width, ((event.clientY - bounds.top) * height) / bounds.height];
    return [(x - left) * unit - extent, extent - (y - rest) * unit];
  }
  picture.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = pointerAt(event);
    const distance = ({ at }) => (Math.hypot(at[0] - x, at[1] - y) * size) / (2 * extent);
    const near = handles.filter((handle) => handle.at && distance(handle) < handle.reach).sort((a, b) => distance(a) - distance(b))[0];
    const handle = near ?? handles.find((one) => one.anywhere);
    if (!handle) return;
    event.preventDefault();
    picture.setPointerCapture(event.pointerId);
    handle.element.focus();
    dragged = { handle, offset: near ? [near.at[0] - x, near.at[1] - y] : [0, 0] };
    if (!near) moveTo(handle, x, y);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!dragged || !picture.hasPointerCapture(event.pointerId)) return;
    const [x, y] = pointerAt(event);
    moveTo(dragged.handle, x + dragged.offset[0], y + dragged.offset[1]);
  });
  picture.addEventListener("lostpointercapture", () => (dragged = null));

  return {
    picture,
    across,
    down,
    // What the reader takes hold of; `anywhere`: a press far from all points moves this one. Returns the function that shows it at [x, y].
    handle(id, name, { reach = 20, anywhere = false } = {}) {
      const about = { tabindex: 0, role: "slider", "aria-label": `${name}: arrow keys move it`, "aria-valuemin": -extent, "aria-valuemax": extent };
      const handle = { id, reach, anywhere, at: null, element: svg("circle", picture, { r: reach, class: "course-axes-handle", ...about }) };
      handles.push(handle);
      handle.element.addEventListener("keydown", (event) => {
        const by = event.shiftKey ? 0.5 : 0.1;
        const step = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] }[event.key];
        if (!step) return;
        event.preventDefault();
        moveTo(handle, handle.at[0] + step[0], handle.at[1] + step[1]);
      });
      return (at) => {
        handle.at = at;
        handle.element.style.display = at ? "" : "none";
        if (!at) return;
        const said = `x ${at[0].toFixed(2)}, y ${at[1].toFixed(2)}`;
        set(handle.element, { cx: across(at[0]), cy: down(at[1]), "aria-valuenow": at[0], "aria-valuetext": said });
      };
    },
    name(words, className = "") {
      const element = svg("text", picture, { class: `course-axes-name ${className}`, "text-anchor": "middle" });
      element.textContent = words;
      return { element, half: 0, corner: 0 };
    },
    // Put each name at the corner of its point [x, y] where it covers the fewest other names and points.
    arrange(named) {
      const taken = named.map(({ at }) => ({ x: across(at[0]), y: down(at[1]), half: 11 }));
      for (const { name, at } of named) {
        name.half ||= name.element.getComputedTextLength() / 2;
        const corners = [[1, 1], [-1, 1], [1, -1], [-1, -1]].map(([right, up]) => ({
          x: across(at[0]) + right * (name.half + 14),
          y: down(at[1]) - up * 17,
          half: name.half,
        }));
        const cost = (text) =>
          taken.reduce((sum, other) => sum + overlap(text, other), 0) +
          1000 * Math.max(0, Math.abs(text.x - across(0)) + text.half - size / 2, Math.abs(text.y - down(0)) + 10 - size / 2);
        const costs = corners.map(cost);
        const best = Math.min(...costs);
        if (costs[name.corner] > best + 20) name.corner = costs.indexOf(best); // a name jumps only where it gains something
        const { x, y } = corners[name.corner];
        set(name.element, { x, y: y + 5 });
        taken.push(corners[name.corner]);
      }
    },
  };
}

function overlap(first, second) {
  const width = Math.min(first.x + first.half, second.x + second.half) - Math.max(first.x - first.half, second.x - second.half);
  return Math.max(width, 0) * Math.max(20 - Math.abs(first.y - second.y), 0);
}

const courseWidgets = {};
