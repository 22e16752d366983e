// Sliders for a guess; after Commit, the true weights beside it.

function build(ui) {
  const { labels } = ui.data;
  const grid = html("div", ui.body, "course-guess-grid");
  for (const heading of ["", "your guess", "attention weights"]) html("span", grid, "course-guess-heading").textContent = heading;
  const rows = labels.map((label, index) => {
    html("span", grid).textContent = label;
    const input = html("input", grid, "", { type: "range", min: 0, max: 100, "aria-label": `weight of ${label}` });
    input.addEventListener("input", () =>
      ui.setInputs({ levels: ui.inputs.levels.map((level, position) => (position === index ? Number(input.value) : level)) }),
    );
    const bars = ["guess", "truth"].map((name) => {
      const track = html("span", grid, `course-guess-track course-guess-${name}`);
      return { bar: html("span", track), number: html("output", grid) };
    });
    return { input, bars };
  });
  const line = html("div", ui.body, "course-controls");
  const commit = button(line, "Commit", () => ui.setInputs({ committed: true }));
  const again = button(line, "Try again", () => ui.setInputs({ levels: labels.map(() => 50), committed: false }));
  const verdict = html("p", ui.body, "", { "aria-live": "polite" });

  return () => {
    const { guess, truth, distance } = ui.answer;
    const { levels, committed } = ui.inputs;
    rows.forEach(({ input, bars }, index) => {
      input.value = levels[index];
      input.disabled = committed;
      [guess, truth].forEach((weights, which) => {
        bars[which].bar.style.width = `${100 * (weights?.[index] ?? 0)}%`;
        bars[which].number.textContent = weights ? weights[index].toFixed(2) : which ? "?" : "";
      });
    });
    commit.disabled = committed || !guess;
    again.disabled = !committed;
    verdict.textContent = !guess
      ? "All weights are zero: move at least one slider."
      : truth
        ? `${closeness(distance)} The total variation distance is ${distance.toFixed(2)}: ${percent(distance)} of your weight would have to move.`
        : "Set your guess, which is scaled to sum to 1, then commit.";
  };
}

function closeness(distance) {
  return distance < 0.05 ? "Very close." : distance < 0.15 ? "Close." : distance < 0.35 ? "Not far off." : "Far off.";
}

function compute(data, { levels, committed }) {
  const total = levels.reduce((sum, level) => sum + level, 0);
  const guess = total ? levels.map((level) => level / total) : null;
  if (!guess || !committed) return { guess, truth: null, distance: null };
  const truth = unseal(data.truth);
  return { guess, truth, distance: guess.reduce((sum, weight, index) => sum + Math.abs(weight - truth[index]), 0) / 2 };
}

export default course({ name: "guess", build, compute });
