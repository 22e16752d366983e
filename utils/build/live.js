// Starts widgets and quizzes in a page without a kernel, from data stored in the page.
window.courseLive = (() => {
  "use strict";

  // The model that anywidget passes to a widget's script, on stored state. Answers of the kernel are looked up or, for
  // attention over a few points, computed here.
  class StoredModel {
    constructor({ script, traits, bytes, answers }) {
      this.script = script;
      this.state = { ...traits };
      for (const [name, text] of Object.entries(bytes))
        this.state[name] = new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
      this.answers = answers;
      this.listeners = {};
    }
    get(name) {
      return this.state[name];
    }
    set(name, value) {
      if (JSON.stringify(this.state[name]) === JSON.stringify(value)) return;
      this.state[name] = value;
      for (const listener of this.listeners[`change:${name}`] ?? []) listener();
    }
    on(event, listener) {
      (this.listeners[event] ??= []).push(listener);
    }
    off(event, listener) {
      this.listeners[event] = (this.listeners[event] ?? []).filter((other) => other !== listener);
    }
    send() {}
    save_changes() {
      const changes = this.script === "plane" ? { answer: attention(this.state) } : this.lookUp();
      const count = (this.state.answer?.count ?? 0) + 1;
      for (const [name, value] of Object.entries(changes ?? {})) this.set(name, name === "answer" ? { ...value, count } : value);
    }
    lookUp() {
      if (!this.answers) return null;
      const key = JSON.stringify(this.answers.traits.map((name) => this.get(name)));
      if (key === this.last) return null;
      this.last = key;
      return this.answers.changes[key];
    }
  }

  function attention({ points, query, settings }) {
    const scores = points.map(({ key }) => (key[0] * query[0] + key[1] * query[1]) / (settings.temperature ?? 1));
    const largest = Math.max(...scores);
    const exponentials = scores.map((score) => Math.exp(score - largest));
    const sum = exponentials.reduce((total, exponential) => total + exponential, 0);
    const weights = exponentials.map((exponential) => exponential / sum);
    const output = [0, 1].map((axis) => points.reduce((total, { key, value }, i) => total + weights[i] * (value ?? key)[axis], 0));
    return { weights, output, text: "" };
  }

  function start(host) {
    const state = JSON.parse(host.querySelector("script").textContent);
    const root = document.createElement("div");
    root.className = "course-widget live-root";
    host.append(root);
    host.dataset.live = "true"; // hides the picture
    window.courseLive.widgets[state.script]({ model: new StoredModel(state), el: root });
  }

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

  return { start, startQuiz, widgets: {} };
})();
