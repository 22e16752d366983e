// A switch for every head, the accuracy without the ablated ones, and the predictions that change.

const percents = (accuracy) => `${(100 * accuracy).toFixed(1)} %`;
const points = (change) => `${change > 0 ? "+" : ""}${minus((100 * change).toFixed(1)).replace(/^−0\.0$/, "0.0")}`;

function build(ui) {
  const { words, effect, full, baseline, baseline_name, what } = ui.data;
  const [layers, heads] = [effect.length, effect[0].length];
  const largest = Math.max(0.05, ...effect.flat().map(Math.abs)); // less than 5 points is noise and stays pale
  const choose = (make) => ui.setInputs({ head_mask: ui.inputs.head_mask.map((row, layer) => row.map((on, head) => make(layer, head, on))) });

  const grid = html("div", ui.controls, "course-ablation-grid", {
    role: "group",
    "aria-label": "heads: arrow keys move, Space ablates or restores",
    style: `grid-template-columns: minmax(76px, max-content) repeat(${heads}, minmax(60px, 96px))`,
  });
  const all = html("span", grid, "course-ablation-all");
  button(all, "all on", () => choose(() => 1));
  button(all, "all off", () => choose(() => 0));
  for (let head = 0; head < heads; head++) html("span", grid, "course-ablation-head").textContent = `head ${head + 1}`;
  const tiles = effect.map((row, layer) => {
    const name = button(grid, `layer ${layer + 1}`, () => {
      const on = ui.inputs.head_mask[layer].some(Boolean) ? 0 : 1;
      choose((other, _, old) => (other === layer ? on : old));
    });
    name.title = "switch the whole layer";
    return row.map((change, head) => {
      const tile = html("button", grid, "course-ablation-tile", { type: "button", role: "switch" });
      const [share, color] = [Math.abs(change) / largest, change < 0 ? "var(--c-bad)" : "var(--c-strong)"];
      tile.style.setProperty("--tile", shade(share, color));
      tile.style.setProperty("--on-tile", onShade(share, color));
      const mark = html("span", tile);
      html("span", tile).textContent = points(change);
      tile.addEventListener("click", () => choose((i, j, on) => (i === layer && j === head ? 1 - on : on)));
      tile.addEventListener("keydown", (event) => {
        const goal = arrowMoves(event, layer, head, layers, heads);
        if (!goal) return;
        event.preventDefault();
        tiles[goal[0]][goal[1]].tile.focus();
      });
      return { tile, mark };
    });
  });
  html("p", ui.body, "course-ablation-hint").textContent = "The number on a head: the change of accuracy, in points, when this head alone is ablated.";

  const frame = html("div", ui.body, "course-ablation-frame", { "aria-hidden": "true" });
  const track = html("div", frame, "course-ablation-track");
  const fill = html("div", track, "course-ablation-fill");
  const addMark = (accuracy, text, side) => {
    html("div", track, `course-ablation-mark course-ablation-${side}`, { style: `left:${100 * accuracy}%` });
    const label = html("span", track, `course-ablation-label course-ablation-${side}`, { style: `left:${100 * accuracy}%` });
    label.style.transform = `translateX(-${100 * accuracy}%)`;
    label.textContent = `${text} ${percents(accuracy)}`;
  };
  addMark(full.accuracy, "all heads", "above");
  addMark(baseline, baseline_name, "below");
  const number = html("b", frame, "course-ablation-number");
  const summary = html("p", ui.body, "course-ablation-summary", { "aria-live": "polite" });
  const list = html("div", ui.body, "course-ablation-words", { role: "list", "aria-label": "predictions" });
  const cards = words.map((word) => {
    const card = html("div", list, "course-ablation-card", { role: "listitem" });
    html("span", card, "course-ablation-word").textContent = word;
    return { card, prediction: html("b", card), before: html("span", card, "course-ablation-before") };
  });

  return () => {
    const { head_mask } = ui.inputs;
    const { accuracy, predictions } = ui.answer;
    head_mask.forEach((row, layer) =>
      row.forEach((on, head) => {
        const { tile, mark } = tiles[layer][head];
        tile.setAttribute("aria-checked", Boolean(on));
        tile.setAttribute("aria-label", `layer ${layer + 1} head ${head + 1}, ablated alone ${points(effect[layer][head])} points`);
        mark.textContent = on ? "✓ on" : "✗ off";
      }),
    );
    fill.style.width = `${100 * accuracy}%`;
    number.textContent = percents(accuracy);
    const off = head_mask.flat().filter((on) => !on).length;
    const change = accuracy - full.accuracy;
    const wrong = predictions.filter((prediction, index) => prediction !== full.predictions[index]).length;
    summary.textContent =
      `${off} of ${layers * heads} heads ablated: ${percents(accuracy)} ${what}${off ? ` (${points(change)} points)` : ""}.\n` +
      (off ? `${wrong || "No"} prediction${wrong === 1 ? " changes" : wrong ? "s change" : " changes"} in this sentence:` : "The predictions for one sentence:");
    cards.forEach(({ card, prediction, before }, index) => {
      const same = predictions[index] === full.predictions[index];
      card.classList.toggle("course-ablation-wrong", !same);
      prediction.textContent = `${same ? "" : "✗ "}${predictions[index]}`;
      before.textContent = same ? "" : full.predictions[index];
    });
  };
}

export default course({ name: "ablation_board", build });
