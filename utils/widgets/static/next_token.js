// Text sampled token by token; the next token's probabilities as the model gives them and as they are sampled from.

const PACE = 450; // milliseconds per token while playing
const MANY = 20;
const KEYS = "right arrow: next token, left arrow: back, End: sample 20, Home: start again";
const visible = (token) => token.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length)).replaceAll("\n", "↵") || "␣";

function build(ui) {
  const { first, vocab_size } = ui.data;
  const live = () => ui.mode() === "kernel";
  // A stored step shows the parameters that it was sampled with. A new prompt or seed starts again.
  const showControls = addControls(
    {
      get inputs() {
        return live() ? ui.inputs : { ...ui.inputs, ...ui.answer.steps[step()]?.parameters };
      },
      setInputs(changes) {
        const restart = "prompt" in changes || "seed" in changes;
        if (restart) stop();
        ui.setInputs(restart ? { ...changes, new_ids: [] } : changes);
      },
    },
    ui.data.controls,
    ui.controls,
  );
  let goal = 0; // sample until this many tokens are shown
  let pace = 0; // milliseconds between them
  let timer = null;
  ui.onRemove(() => clearTimeout(timer));

  const wanted = () => (live() ? null : ui.view.step) ?? ui.inputs.new_ids.length;
  const last = () => ui.answer.steps.length - (ui.answer.end ? 0 : 1); // the last step that can be shown now
  const step = () => Math.min(wanted(), last());
  const canGoOn = () => (live() ? !ui.error && step() < ui.answer.steps.length : step() < last());
  const goTo = (target) =>
    live() ? ui.setInputs({ new_ids: ui.answer.steps.slice(0, target).map(({ id }) => id) }) : ui.setView({ step: target });

  function stop() {
    goal = 0;
    clearTimeout(timer);
    timer = null;
  }

  function goOn() {
    // One more token, and after it is drawn the next one, until the goal.
    timer = null;
    if (canGoOn()) goTo(step() + 1);
    else playUntil(0, 0);
  }

  function playUntil(target, milliseconds) {
    stop();
    [goal, pace] = [target, milliseconds];
    if (goal) goOn();
    else ui.setView({});
  }

  const actions = {
    back: () => (stop(), goTo(Math.max(step() - 1, 0))),
    next: () => canGoOn() && (stop(), goTo(step() + 1)),
    many: () => canGoOn() && playUntil(step() + MANY, 30),
    play: () => (goal === Infinity ? playUntil(0, 0) : canGoOn() && playUntil(Infinity, PACE)),
    again: () => (stop(), goTo(0)),
    reset: () => {
      stop();
      if (live()) ui.setInputs(first);
      else ui.setView({ step: null });
    },
  };

  const row = html("div", ui.body, "course-next-buttons", { role: "group", "aria-label": KEYS });
  const buttons = Object.fromEntries(
    Object.entries({ back: "◀ Back", next: "Next ▶", many: `Sample ${MANY}`, play: "Play", again: "Start again", reset: "Reset" }).map(
      ([name, label]) => [name, button(row, label, () => actions[name]())],
    ),
  );
  const figure = html("div", ui.body, "course-next-figure", { tabindex: 0, role: "group", "aria-label": `text and next token; ${KEYS}` });
  const text = html("p", figure, "course-next-text");
  const detail = html("p", figure, "course-next-detail", { "aria-live": "polite" });
  const chart = html("div", figure, "course-next-chart");
  const legend = html("p", chart, "course-next-legend", { "aria-hidden": "true" });
  for (const [name, words] of [["before", "the model"], ["after", "sampled from"], ["cut", "cut off"]]) {
    html("span", legend, `course-next-swatch course-next-${name}`);
    html("span", legend).textContent = words;
  }
  const rows = Array.from({ length: ui.answer.steps[0].candidates.length + 1 }, () => {
    const line = html("div", chart, "course-next-row");
    const name = html("span", line, "course-next-name");
    const track = html("span", line, "course-next-track");
    const bars = ["before", "after"].map((which) => html("span", track, `course-next-bar course-next-${which}`));
    return { line, name, bars, number: html("span", line, "course-next-number") };
  });
  const note = html("p", figure, "course-next-note");

  ui.body.addEventListener("keydown", (event) => {
    const action = { ArrowRight: "next", ArrowLeft: "back", End: "many", Home: "again" }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[action]();
  });
  const tokenAt = (event) => event.target.closest?.("[data-index]")?.dataset.index;
  text.addEventListener("pointerover", (event) => describe(tokenAt(event)));
  text.addEventListener("pointerleave", () => describe());
  text.addEventListener("click", (event) => tokenAt(event) && (stop(), goTo(Number(tokenAt(event)))));

  function describe(index) {
    const shown = step();
    const of = index ?? (shown ? shown - 1 : undefined);
    if (of === undefined) return (detail.textContent = "The prompt. Press Next to sample a token.");
    const { token, probs } = ui.answer.steps[of];
    detail.textContent =
      `${index === undefined ? "Last token" : "Token"} ${visible(token)}: the model's probability ${percent(probs[0])}, sampled with ${percent(probs[1])}.` +
      (index === undefined ? "" : " Click to go back to it.");
  }

  function drawText(shown) {
    text.replaceChildren();
    html("span", text).textContent = ui.inputs.prompt;
    ui.answer.steps.slice(0, shown).forEach(({ token, probs }, index) => {
      const box = html("span", text, "course-next-token", { "data-index": index });
      box.style.setProperty("--prob", `${(8 + 42 * probs[1]).toFixed(0)}%`);
      box.textContent = token.replaceAll("\n", "↵");
    });
  }

  function drawBars({ candidates, others, kept }) {
    [...candidates, [null, ...others]].forEach(([token, before, after], index) => {
      const { line, name, bars, number } = rows[index];
      line.hidden = token === null && vocab_size <= candidates.length;
      name.textContent = token === null ? `${(vocab_size - candidates.length).toLocaleString("en")} others` : visible(token);
      bars[0].style.width = `${100 * before}%`;
      bars[1].style.width = `${100 * after}%`;
      line.classList.toggle("course-next-gone", after === 0);
      number.textContent = `${percent(before)} → ${after ? percent(after) : "cut"}`;
    });
    note.textContent =
      kept[0] === vocab_size
        ? `All ${vocab_size.toLocaleString("en")} tokens may come next.`
        : `${kept[0].toLocaleString("en")} of ${vocab_size.toLocaleString("en")} tokens may come next; they have ${percent(kept[1])} of the model's probability.`;
  }

  return () => {
    showControls();
    const shown = step();
    drawText(shown);
    describe();
    const now = ui.answer.steps[shown];
    chart.classList.toggle("course-next-ended", !now);
    if (now) drawBars(now);
    else note.textContent = ui.answer.end;
    buttons.back.disabled = buttons.again.disabled = !shown;
    buttons.next.disabled = buttons.many.disabled = !canGoOn();
    buttons.play.disabled = !canGoOn() && goal !== Infinity;
    buttons.play.textContent = goal === Infinity ? "Pause" : "Play";
    buttons.play.setAttribute("aria-pressed", goal === Infinity);
    if (goal && (shown >= goal || !canGoOn())) stop();
    // Go on once the answer to the last request is here.
    if (goal && timer === null && shown === wanted()) timer = setTimeout(goOn, pace);
  };
}

export default course({ name: "next_token", build });
