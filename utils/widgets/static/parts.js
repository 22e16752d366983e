// What several widgets share; `script` in stage.py puts it before each widget's own code.

const SVG = "http://www.w3.org/2000/svg";

function keepKeys(root, enter = false) {
  // `root` is a function: a widget may be put into its frame only after its code has run.
  // JupyterLab looks for shortcuts before the widget sees a key, and asks the pressed element itself for this
  // mark. Plain keys stay here; Ctrl, Alt and Cmd combinations and Shift+Enter still reach JupyterLab, and so does
  // Enter alone unless the widget has a use for it.
  const guard = (event) => {
    if (!(event.target instanceof Element) || !root().contains(event.target)) return;
    const ours = event.key !== "Enter" || (enter && !event.shiftKey);
    const own = !event.ctrlKey && !event.metaKey && !event.altKey && ours;
    if (own) event.target.setAttribute("data-lm-suppress-shortcuts", "true");
    else event.target.removeAttribute("data-lm-suppress-shortcuts");
  };
  window.addEventListener("keydown", guard, true);
  return () => window.removeEventListener("keydown", guard, true);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

function html(tag, parent, className = "", attributes = {}) {
  const element = document.createElement(tag);
  element.className = className;
  set(element, attributes);
  parent.append(element);
  return element;
}

function svg(tag, parent, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  parent.append(element);
  return element;
}

function goalsFrom(row, column, rows, columns) {
  // Where each key leads in a grid.
  return {
    ArrowLeft: [row, Math.max(column - 1, 0)],
    ArrowRight: [row, Math.min(column + 1, columns - 1)],
    ArrowUp: [Math.max(row - 1, 0), column],
    ArrowDown: [Math.min(row + 1, rows - 1), column],
    Home: [row, 0],
    End: [row, columns - 1],
  };
}
