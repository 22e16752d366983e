// JupyterLab shows the picture of an output without alt text: a screen reader says only "image". The course writes the words
// into the picture's own file ("Description", see utils/plots/style.py); here they are read back, so that pictures of notebooks that
// nobody has run have their words too.

(function () {
  const PICTURES = ".jp-RenderedImage img:not([alt])";
  const FRONT = 32768; // letters of base64: words stand before the pixels

  function bytesOf(address) {
    const [, code = ""] = address.match(/^data:image\/png;base64,([\s\S]*)$/) ?? [];
    const front = code.slice(0, FRONT).replace(/\s/g, "");
    return Uint8Array.from(atob(front.slice(0, front.length - (front.length % 4))), (letter) => letter.charCodeAt(0));
  }

  function wordsIn(bytes) {
    const view = new DataView(bytes.buffer);
    const letters = (from, to, code = "latin1") => new TextDecoder(code).decode(bytes.subarray(from, to));
    for (let at = 8; at + 8 <= bytes.length; ) {
      const [length, kind, start] = [view.getUint32(at), letters(at + 4, at + 8), at + 8];
      const end = Math.min(start + length, bytes.length);
      if (kind === "IDAT") break;
      const name = bytes.indexOf(0, start);
      if (letters(start, name) === "Description" && name < end) {
        if (kind === "tEXt") return letters(name + 1, end);
        // Two bytes on how it is packed (it is not), then two names that are empty, each with a zero behind it.
        if (kind === "iTXt" && bytes[name + 1] === 0) {
          const words = bytes.indexOf(0, bytes.indexOf(0, name + 3) + 1) + 1;
          return letters(words, end, "utf-8");
        }
      }
      at = start + length + 4;
    }
    return "";
  }

  function nameAll() {
    for (const picture of document.querySelectorAll(PICTURES)) {
      const words = wordsIn(bytesOf(picture.src));
      if (words) picture.alt = words;
    }
  }

  function activate() {
    let waiting = false;
    const soon = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        nameAll();
      });
    };
    new MutationObserver(soon).observe(document.body, { childList: true, subtree: true });
    nameAll();
  }

  const plugin = { id: "course-alt:plugin", description: "Alt text of saved pictures.", autoStart: true, activate };
  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB["course-alt"] = {
    init: () => undefined,
    get: () => Promise.resolve(() => ({ __esModule: true, default: plugin })),
  };
})();
