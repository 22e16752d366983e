// Figures and widgets of saved notebooks.
//
// JupyterLab shows the picture of an output without alt text: a screen reader says only "image". The course writes its alt
// text into the PNG file ("Description", see utils/plots/style.py). It is read back here, so that figures of notebooks that
// nobody has run have it, too; page.css then gives these figures, and no other picture, dark colors on a dark page.

(function () {
  const styles = new URL("page.css", document.currentScript.src);
  const PICTURES = ".jp-RenderedImage img:not([alt])";
  const FRONT = 32768; // characters of base64: the description comes before the pixels

  function bytesOf(address) {
    const [, code = ""] = address.match(/^data:image\/png;base64,([\s\S]*)$/) ?? [];
    const front = code.slice(0, FRONT).replace(/\s/g, "");
    return Uint8Array.from(atob(front.slice(0, front.length - (front.length % 4))), (letter) => letter.charCodeAt(0));
  }

  function descriptionIn(bytes) {
    const view = new DataView(bytes.buffer);
    const text = (from, to, encoding = "latin1") => new TextDecoder(encoding).decode(bytes.subarray(from, to));
    for (let at = 8; at + 8 <= bytes.length; ) {
      const [length, kind, start] = [view.getUint32(at), text(at + 4, at + 8), at + 8];
      const end = Math.min(start + length, bytes.length);
      if (kind === "IDAT") break;
      const name = bytes.indexOf(0, start);
      if (text(start, name) === "Description" && name < end) {
        if (kind === "tEXt") return text(name + 1, end);
        // Two bytes on the compression (none), then two empty strings, each ended by a zero.
        if (kind === "iTXt" && bytes[name + 1] === 0) {
          return text(bytes.indexOf(0, bytes.indexOf(0, name + 3) + 1) + 1, end, "utf-8");
        }
      }
      at = start + length + 4;
    }
    return "";
  }

  function describeAll() {
    for (const picture of document.querySelectorAll(PICTURES)) {
      const description = descriptionIn(bytesOf(picture.src));
      if (!description) continue;
      picture.alt = description;
      picture.parentElement.classList.add("course-figure");
    }
  }

  // JupyterLab saves the widgets of a running kernel only. A notebook saved after a restart, or opened again and saved before its
  // cells ran, would lose all others: their last known state is put back each time.

  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const NOT_FOUND = "Error displaying widget: model not found";
  const watched = new WeakSet();

  const savedIn = (notebook) => notebook.getMetadata("widgets")?.[STATE];
  const save = (notebook, state) => notebook.setMetadata("widgets", { ...notebook.getMetadata("widgets"), [STATE]: state });

  async function keepWidgets(context) {
    await context.ready;
    const notebook = context.model;
    const known = {};
    const keep = () => {
      const saved = savedIn(notebook);
      Object.assign(known, saved?.state);
      const state = { ...saved?.state };
      const add = (id) => {
        if (id in state || !(id in known)) return;
        state[id] = known[id];
        for (const value of Object.values(known[id].state).flat())
          if (String(value).startsWith("IPY_MODEL_")) add(value.slice("IPY_MODEL_".length));
      };
      shownIn(notebook).forEach(add);
      if (Object.keys(state).length > Object.keys(saved?.state ?? {}).length)
        save(notebook, { version_major: 2, version_minor: 0, ...saved, state });
    };
    keep();
    notebook.metadataChanged.connect(keep); // JupyterLab replaces the states whenever it saves
  }

  function shownIn(notebook) {
    const outputs = [...notebook.cells].flatMap(({ outputs }) => Array.from({ length: outputs?.length ?? 0 }, (_, index) => outputs.get(index)));
    return outputs.map((output) => output.data?.[VIEW]?.model_id).filter(Boolean);
  }

  function watchNotebooks(shell) {
    for (const { context } of shell.widgets("main")) {
      if (!context?.model?.cells || watched.has(context)) continue;
      watched.add(context);
      keepWidgets(context);
    }
  }

  // Of every widget of a kernel that stops: before the stop, JupyterLab may never have saved it.
  const stopped = new WeakSet();
  document.addEventListener("course-kernel-stopped", async ({ detail: manager }) => {
    if (!manager?.context || stopped.has(manager)) return;
    stopped.add(manager);
    save(manager.context.model, await manager.get_state({ drop_defaults: true }));
    stopped.delete(manager);
  });

  function explainLost() {
    for (const output of document.querySelectorAll(".jp-OutputArea-output.jupyter-widgets")) {
      if (output.textContent !== NOT_FOUND) continue;
      output.textContent = "Run the notebook up to this cell to activate the widget.";
      output.classList.add("course-lost");
    }
  }

  function activate({ shell }) {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: styles });
    document.head.append(link);
    let waiting = false;
    const soon = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        watchNotebooks(shell);
        describeAll();
        explainLost();
      });
    };
    new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
    describeAll();
  }

  const plugin = { id: "course-page:plugin", description: "Figures and prose of the course.", autoStart: true, activate };
  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB["course-page"] = {
    init: () => undefined,
    get: () => Promise.resolve(() => ({ __esModule: true, default: plugin })),
  };
})();
