// The display of a widget: one picture or HTML, its alt text, and an error line.
// data-state and data-count change when the new content is really on the screen.

function nameSliders(root) {
  // The handles of ipywidgets sliders have no accessible name: a screen reader would read only "slider".
  for (const slider of root.closest(".course-widget")?.querySelectorAll(".widget-slider") ?? []) {
    const label = slider.querySelector(".widget-label")?.textContent;
    if (!label) continue;
    slider.querySelector(".noUi-handle")?.setAttribute("aria-label", label);
    // The number beside it can be typed over.
    const readout = slider.querySelector(".widget-readout[contenteditable]");
    readout?.setAttribute("role", "textbox");
    readout?.setAttribute("aria-label", label);
  }
}

function make(tag, className, parent, attributes = {}) {
  const element = document.createElement(tag);
  element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  parent.append(element);
  return element;
}

function render({ model, el }) {
  const root = make("div", "course-stage", el);
  const image = make("img", "course-picture", root);
  const page = make("div", "course-page", root);
  const text = make("p", "course-text", root, { "aria-live": "polite" });
  const error = make("p", "course-error", root, { role: "alert" });
  const live = make("p", "course-live", root, { role: "status", "aria-live": "polite" });
  let address = null;
  let speaking = null;

  const shown = () => {
    nameSliders(root);
    root.dataset.state = JSON.stringify(model.get("state"));
    root.dataset.count = model.get("count");
    root.dataset.status = model.get("error") ? "error" : "ok";
  };

  const speak = () => {
    // A moving slider must not make a screen reader read every value on the way.
    clearTimeout(speaking);
    speaking = setTimeout(() => (live.textContent = model.get("alt")), 500);
  };

  const update = () => {
    const bytes = model.get("png");
    const isPicture = bytes && bytes.byteLength > 0;
    image.hidden = !isPicture;
    page.hidden = isPicture;
    text.textContent = model.get("text");
    text.hidden = !model.get("text");
    error.textContent = model.get("error");
    error.hidden = !model.get("error");
    root.classList.toggle("course-stale", Boolean(model.get("error")));
    image.alt = model.get("alt");
    speak();
    if (isPicture) {
      const old = address;
      address = URL.createObjectURL(new Blob([bytes], { type: "image/png" }));
      image.style.width = `${model.get("width")}px`;
      image.onload = () => {
        if (old) URL.revokeObjectURL(old);
        shown();
      };
      image.src = address;
    } else {
      page.innerHTML = model.get("html");
      shown();
    }
  };

  if (model.get("arrow_keys")) {
    root.tabIndex = 0;
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", model.get("arrow_keys"));
    root.addEventListener("keydown", (event) => {
      if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
      event.preventDefault();
      model.send({ key: event.key });
    });
  }
  const release = keepKeys(() => root.closest(".course-widget") ?? root);
  // "count" is set last on the Python side, so one change event stands for the whole new content.
  model.on("change:count", update);
  update();
  const named = setTimeout(() => nameSliders(root), 100); // the sliders of a new widget may come after its stage
  return () => {
    release();
    clearTimeout(speaking);
    clearTimeout(named);
    model.off("change:count", update);
    if (address) URL.revokeObjectURL(address);
  };
}

export default { render };
