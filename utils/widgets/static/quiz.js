// A multiple-choice question: choose, commit, then read why.

let quizzes = 0;

function build(ui) {
  const group = `course-quiz-${Date.now()}-${quizzes++}`;
  html("div", ui.body).innerHTML = ui.data.head;
  const list = html("div", ui.body, "", { role: "radiogroup", "aria-label": "options" });
  const options = ui.data.options.map((option, index) => {
    const row = html("label", list, "course-quiz-option");
    const input = html("input", row, "", { type: "radio", name: group });
    html("span", row, "course-quiz-mark", { "aria-hidden": "true" });
    html("span", row).innerHTML = option;
    input.addEventListener("change", () => ui.setInputs({ choice: index }));
    return { row, input };
  });
  const commit = button(ui.body, "Commit", () => ui.setInputs({ committed: true }));
  const again = button(ui.body, "Guess again", () => ui.setInputs({ choice: null, committed: false }));
  const feedback = html("div", ui.body, "course-quiz-feedback", { role: "status" });

  return () => {
    const { choice, committed } = ui.inputs;
    const { right } = ui.answer;
    options.forEach(({ row, input }, index) => {
      input.checked = index === choice;
      input.disabled = committed;
      row.classList.toggle("course-quiz-right", Boolean(right?.includes(index)));
      row.classList.toggle("course-quiz-wrong", Boolean(right) && index === choice && !right.includes(index));
      row.children[1].textContent = right?.includes(index) ? "✓" : right && index === choice ? "✗" : "";
    });
    commit.hidden = committed;
    again.hidden = !committed;
    commit.disabled = choice === null;
    const said = ui.answer.feedback || (committed ? "" : ui.data.earlier);
    if (feedback.innerHTML !== said) feedback.innerHTML = said;
  };
}

function compute(data, { choice, committed }) {
  if (choice === null || !committed) return { right: null, feedback: "" };
  const { right, feedback } = unseal(data.sealed);
  return { right, feedback: feedback[choice] };
}

export default course({ name: "quiz", build, compute });
