// Starts the widgets of a page without a kernel (site, slides, pictures) from the states stored in it.

class StoredModel {
  isStored = true;
  constructor({ data, inputs, view, answer }) {
    this.traits = { data, inputs, view, answer, error: "", answered: 0 };
  }
  get(name) {
    return this.traits[name];
  }
  set(name, value) {
    this.traits[name] = value;
  }
  save_changes() {}
  on() {}
  off() {}
}

function startWidget(host) {
  if (host.dataset.live) return;
  const state = JSON.parse(host.querySelector("script").textContent);
  host.dataset.live = "true"; // hides the picture
  courseWidgets[state.widget].render({ model: new StoredModel(state), el: host });
}
window.courseWidgets = courseWidgets;
window.startWidget = startWidget;
