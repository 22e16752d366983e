// Quizzes in a page without a kernel.

// Returns `answer(index)`, which does what a click on that option does; without an index it clears the answer.
function startQuiz(quiz) {
  const buttons = [...quiz.querySelectorAll("button")];
  const explanations = [...quiz.querySelector("template").content.children];
  const feedback = quiz.querySelector(".quiz-feedback");
  quiz.querySelector(".quiz-answer").remove();
  const answer = (chosen) => {
    const isRight = buttons[chosen]?.dataset.right === "true";
    buttons.forEach((button, index) => {
      button.classList.toggle("quiz-right", chosen !== undefined && button.dataset.right === "true");
      button.classList.toggle("quiz-wrong", index === chosen && !isRight);
      button.setAttribute("aria-pressed", index === chosen);
    });
    feedback.innerHTML = "";
    if (chosen === undefined) return;
    feedback.innerHTML = `<p><strong>${isRight ? "Correct." : "Not this one."}</strong></p>`;
    for (const part of [explanations[chosen], explanations.at(-1)]) feedback.insertAdjacentHTML("beforeend", part.innerHTML);
  };
  buttons.forEach((button, index) => button.addEventListener("click", () => answer(index)));
  return answer;
}
