// A sentence with masked tokens; for each of them the candidates as bars. The chosen candidate stands in the sentence.

function build(ui) {
  const showControls = addControls(ui, ui.data.controls);
  const sentence = html("div", ui.body, "course-fill-sentence", { "aria-live": "polite" });
  const panels = html("div", ui.body, "course-fill-panels");
  let drawn = null; // the answer that the elements below belong to
  let slots, groups;

  const chosenAt = (slot) => ui.view.chosen[slot] ?? 0;
  const choose = (slot, candidate) => ui.setView({ chosen: groups.map((_, other) => (other === slot ? candidate : chosenAt(other))) });

  function show(slot, candidate) {
    const [token, probability] = ui.answer.candidates[slot][candidate];
    slots[slot].token.textContent = token;
    slots[slot].number.textContent = percent(probability);
  }

  function drawAnswer() {
    const { tokens, masked, candidates } = ui.answer;
    sentence.replaceChildren();
    panels.replaceChildren();
    slots = [];
    tokens.forEach((token, position) => {
      const slot = masked.indexOf(position);
      const box = html("span", sentence, slot < 0 ? "course-fill-token" : "course-fill-slot");
      if (slot < 0) return (box.textContent = token);
      box.style.setProperty("--slot", series(slot));
      if (masked.length > 1) html("small", box).textContent = slot + 1;
      slots.push({ token: html("b", box), number: html("span", box, "course-fill-number") });
    });
    groups = candidates.map((rows, slot) => {
      const name = masked.length > 1 ? `[MASK] ${slot + 1}` : "[MASK]";
      const panel = html("div", panels, "course-fill-panel", { role: "radiogroup", "aria-label": `candidates for ${name}` });
      panel.style.setProperty("--slot", series(slot));
      html("b", panel).textContent = name;
      panel.addEventListener("pointerleave", () => show(slot, chosenAt(slot)));
      return rows.map(([token, probability], candidate) => {
        const row = html("div", panel, "course-fill-row", { role: "radio", "aria-label": `${token}, ${percent(probability)}` });
        html("span", row, "course-fill-name").textContent = token;
        const track = html("span", row, "course-fill-track");
        html("span", track, "course-fill-bar", { style: `width:calc(${probability} * (100% - 3.5em))` });
        html("span", track, "course-fill-number").textContent = percent(probability);
        row.addEventListener("pointerenter", () => show(slot, candidate));
        row.addEventListener("click", () => choose(slot, candidate));
        row.addEventListener("keydown", (event) => {
          const goal = arrowMoves(event, candidate, 0, rows.length, 1)?.[0];
          if (goal === undefined && ![" ", "Enter"].includes(event.key)) return;
          event.preventDefault();
          choose(slot, goal ?? candidate);
          groups[slot][goal ?? candidate].focus();
        });
        return row;
      });
    });
    drawn = ui.answer;
  }

  return () => {
    showControls();
    if (drawn !== ui.answer) drawAnswer();
    groups.forEach((rows, slot) => {
      rows.forEach((row, candidate) => {
        row.setAttribute("aria-checked", candidate === chosenAt(slot));
        row.setAttribute("tabindex", candidate === chosenAt(slot) ? 0 : -1);
      });
      show(slot, chosenAt(slot));
    });
  };
}

export default course({ name: "fill_in", build });
