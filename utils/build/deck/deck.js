// Fits every slide into its frame, then starts reveal.js, and each widget when its slide is shown.
//
// Each slide is tried with several sizes of text, code and output: code and output in a row or in a column, or the picture
// next to everything else; a picture alone may cover the whole slide. Of the layouts that fit, the one with the largest text, code and pictures is used. Smaller
// sizes would be unreadable from the back row: a slide that does not fit even at the smallest sizes is marked with
// data-overflow, and a test fails.
(() => {
  "use strict";

  const TEXT = [1, 0.92, 0.84, 0.76, 0.68, 0.6]; // of 30 pixels
  const CODE = [[28, 26], [24, 22], [22, 20], [20, 18], [20, 16], [20, 14]]; // pixels of code and of printed output
  const LEFT = ["34%", "40%", "46%", "54%", "62%"]; // width of the code next to its output
  const CODE_LINES = 14;
  const ZOOM = [1.5, 1.4, 1.3, 1.2, 1.1, 1.05, 1]; // of a widget, whose smallest letters have 14 pixels
  const PARTS = ":scope > *, .input, .output, .prose > *, img, .html > *";

  const all = (frame, selector) => [...frame.querySelectorAll(selector)];
  const inside = (part, slack = 1) =>
    part.scrollWidth <= part.clientWidth + slack && part.scrollHeight <= part.clientHeight + slack;

  // The width at which a picture is drawn: its element may be larger, because the aspect ratio is kept.
  function shownWidth(image) {
    return Math.min(image.clientWidth, (image.clientHeight * image.naturalWidth) / image.naturalHeight);
  }
  const leastWidth = (image) => Number(image.dataset.least) || 0.6 * image.naturalWidth;

  function linesOf(code) {
    const style = getComputedStyle(code);
    return Math.round((code.clientHeight - 2 * parseFloat(style.paddingTop)) / parseFloat(style.lineHeight));
  }

  const pictures = (frame) => all(frame, ".output img").filter((image) => image.checkVisibility());

  const widgetOf = (host) => host.querySelector(":scope > .course-widget");

  // The largest zoom at which a started widget fits into its box; 0 if it does not fit.
  function zoomOf(host) {
    const root = widgetOf(host);
    return ZOOM.find((zoom) => {
      root.style.zoom = zoom;
      root.style.width = `${host.clientWidth / zoom}px`;
      return inside(host, 8) && inside(root, 8);
    }) ?? 0;
  }

  function fits(frame) {
    if (!inside(frame)) return false;
    if (pictures(frame).some((image) => shownWidth(image) < leastWidth(image))) return false;
    if (!all(frame, ".live-widget[data-live]").every(zoomOf)) return false;
    if (!all(frame, "pre, .html, .prose, .display-formula, .pair, .output, .grows").every((part) => inside(part))) return false;
    if (all(frame, "pre.code").some((code) => linesOf(code) > CODE_LINES)) return false;
    // Padding does not count towards scrollHeight in every browser, so every part is measured.
    const style = getComputedStyle(frame);
    const outer = frame.getBoundingClientRect();
    const bottom = outer.bottom - parseFloat(style.paddingBottom) + 1;
    const right = outer.right - parseFloat(style.paddingRight) + 1;
    return all(frame, PARTS).every((part) => {
      const rect = part.getBoundingClientRect();
      return !rect.height || (rect.bottom <= bottom && rect.right <= right && rect.top >= outer.top);
    });
  }

  function layouts(frame) {
    const ways = [{ kind: "stacked", left: "50%" }];
    if (frame.querySelector(".pair")) ways.unshift(...LEFT.map((left) => ({ kind: "side", left })));
    const whole = all(frame, ".output").length === 1 && !frame.querySelector(".fragment");
    if (frame.querySelector(".output img") && whole && frame.querySelector(".prose")) {
      ways.push(...["22%", "26%", "30%", "36%", "42%"].map((left) => ({ kind: "beside", left })));
    }
    const content = [...frame.children].filter((part) => !part.matches(".running"));
    if (content.length === 1 && content[0].matches(".output")) ways.push({ kind: "bleed", left: "50%" });
    return ways;
  }

  function set(frame, { text, code, output, kind, left }) {
    frame.style.setProperty("--size", text);
    frame.style.setProperty("--left", left);
    frame.style.setProperty("--code", `${code}px`);
    frame.style.setProperty("--output", `${output}px`);
    for (const name of ["side", "beside", "bleed"]) frame.classList.toggle(name, name === kind);
    frame.parentElement.toggleAttribute("data-bleed", kind === "bleed");
  }

  // What a layout is worth before it is measured: pictures at their best, no broken lines.
  function promise(frame, { text, code, output }) {
    const has = (selector, worth) => (frame.querySelector(selector) ? worth : 0);
    return text + has("pre.code", code / 35) + has("pre.text", output / 50) + has(".output img", 1.2);
  }

  function quality(frame, way) {
    const scales = pictures(frame).map((image) => shownWidth(image) / leastWidth(image));
    const zooms = all(frame, ".live-widget[data-live]").map((host) => Number(widgetOf(host).style.zoom));
    const broken = all(frame, "pre.code").map((code) => linesOf(code) - code.childElementCount);
    const shrunk = 1 - Math.min(1.5, ...scales, ...zooms) / 1.5;
    return promise(frame, way) - 1.2 * shrunk - 0.12 * Math.max(0, ...broken) - (way.kind === "bleed" ? 0.6 : 0);
  }

  function fit(frame) {
    for (const part of frame.children) part.classList.toggle("grows", part.querySelector(".output img, :scope > img, .live-widget") !== null);
    const codes = frame.querySelector("pre") ? CODE : CODE.slice(0, 1);
    const sizes = TEXT.flatMap((text) => codes.map(([code, output]) => ({ text, code, output })));
    sizes.sort((one, other) => promise(frame, other) - promise(frame, one));
    const ways = layouts(frame);
    let best = null;
    for (const size of sizes) {
      if (best && best.score >= promise(frame, size)) break;
      for (const layout of ways) {
        const way = { ...size, ...layout };
        set(frame, way);
        if (!fits(frame)) continue;
        const score = quality(frame, way);
        if (!best || score > best.score + 0.01) best = { ...way, score };
      }
    }
    set(frame, best ?? { text: TEXT.at(-1), code: 20, output: 14, kind: "stacked", left: "50%" });
    all(frame, ".live-widget[data-live]").forEach(zoomOf);
    frame.parentElement.toggleAttribute("data-overflow", !best);
    return best !== null;
  }

  function fitAll() {
    const slides = document.querySelector(".reveal .slides");
    slides.classList.add("measuring");
    slides.querySelectorAll(".frame").forEach(fit);
    slides.classList.remove("measuring");
  }

  // Quizzes: a click on an option, or the next key press, gives the answer. A slide is fitted with the longest one.
  const answers = new Map();
  const rightOption = (quiz) => all(quiz, "button").findIndex((button) => button.dataset.right === "true");

  // Shows the answers whose fragments are shown, and no others.
  function answerQuizzes(slide) {
    for (const fragment of slide.querySelectorAll(".answers")) {
      const quiz = fragment.previousElementSibling;
      answers.get(quiz)(fragment.matches(".visible") ? rightOption(quiz) : undefined);
    }
  }

  function startQuizzes() {
    for (const quiz of document.querySelectorAll(".quiz")) {
      answers.set(quiz, startQuiz(quiz));
      const lengths = [...quiz.querySelector("template").content.children].slice(0, -1).map((part) => part.textContent.length);
      answers.get(quiz)(lengths.indexOf(Math.max(...lengths)));
      // After a click with the mouse the space bar goes on to the next slide.
      quiz.addEventListener("click", (event) => event.detail && document.activeElement.blur());
    }
  }

  const nextFrames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

  // A started widget has another shape than its picture, so its slide is fitted again, and once more after the widget has laid
  // itself out in its new width. One that does not fit stays a picture.
  async function startWidgets(slide) {
    const hosts = all(slide, ".live-widget:not([data-live], [data-static])");
    const frame = slide.querySelector(".frame");
    if (!hosts.length) return;
    hosts.forEach(startWidget);
    for (let round = 0; round < 3; round++) {
      if (!fit(frame)) break;
      await nextFrames();
      if (fits(frame)) return;
    }
    for (const host of hosts) {
      widgetOf(host).remove();
      delete host.dataset.live;
      host.dataset.static = "true";
    }
    fit(frame);
  }

  // A widget keeps the keys while it has the focus. Escape gives them back; Page Up and Page Down, the keys of a presenter's
  // remote, always turn slides.
  function keysOfWidgets(event) {
    const active = document.activeElement;
    const turn = { PageUp: Reveal.prev, PageDown: Reveal.next }[event.key];
    if (!active?.closest(".course-widget") || (!turn && event.key !== "Escape")) return;
    active.blur();
    turn?.();
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  async function start() {
    // A picture that cannot be decoded shows its alt text; the slide is fitted around that.
    await Promise.allSettled([...document.images].map((image) => image.decode()));
    if (document.fonts) await document.fonts.ready;
    document.querySelectorAll(".live-widget").forEach((host) => host.setAttribute("data-prevent-swipe", ""));
    startQuizzes();
    const began = performance.now();
    fitAll();
    document.documentElement.dataset.fitted = Math.round(performance.now() - began); // milliseconds
    answers.forEach((answer) => answer());
    await Reveal.initialize({
      width: 1280,
      height: 720,
      margin: 0,
      center: false,
      hash: true,
      slideNumber: "c/t",
      transition: "none",
      backgroundTransition: "none",
      controls: false,
      keyboardCondition: ({ key }) => !(document.activeElement?.closest(".quiz") && [" ", "Enter"].includes(key)),
      pdfSeparateFragments: false,
      pdfMaxPagesPerSlide: 1,
      plugins: [RevealNotes],
    });
    for (const event of ["fragmentshown", "fragmenthidden"]) Reveal.on(event, () => answerQuizzes(Reveal.getCurrentSlide()));
    Reveal.on("slidechanged", ({ currentSlide }) => {
      document.activeElement?.blur();
      answerQuizzes(currentSlide);
      startWidgets(currentSlide);
    });
    startWidgets(Reveal.getCurrentSlide());
    addEventListener("keydown", keysOfWidgets, true);
    document.documentElement.dataset.deck = "ready";
  }

  start();
})();
