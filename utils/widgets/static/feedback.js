// The result of a check; hints open one after the other, the solution on request.

function build(ui) {
  const { result, count, has_solution } = ui.data;
  html("div", ui.body).innerHTML = result;
  const row = html("div", ui.body, "course-controls");
  const hint = button(row, "", () => ui.setInputs({ hints: ui.inputs.hints + 1 }));
  const solution = button(row, "", () => ui.setInputs({ solution: !ui.inputs.solution }));
  const below = html("div", ui.body, "", { "aria-live": "polite" });

  return () => {
    const left = count - ui.inputs.hints;
    hint.textContent = left > 0 ? `Hint (${left} left)` : "No more hints";
    hint.hidden = count === 0;
    hint.disabled = left <= 0;
    solution.textContent = ui.inputs.solution ? "Hide solution" : "Solution";
    solution.hidden = !has_solution;
    const notes = ui.answer.notes.join("") + ui.answer.trouble;
    if (below.dataset.notes !== notes) below.innerHTML = below.dataset.notes = notes;
  };
}

function compute(data, { hints, solution }) {
  const [given, solved] = unseal(data.sealed);
  return { notes: [...given.slice(0, hints), ...(solution ? [solved] : [])], trouble: "" };
}

export default course({ name: "feedback", build, compute });
