// Fits every slide into its frame, then starts reveal.js.
//
// Each slide is tried with several sizes of text and pictures: code and output in a row or in a column, or the picture
// next to everything else. Code with long lines gets a smaller font. Of the layouts that fit, the one with the largest
// text, code and pictures is used. Smaller sizes would be unreadable from the back row: a slide that does not fit even at
// the smallest sizes is marked with data-overflow, and a test fails.
(() => {
  "use strict";

  // [text, pictures]
  const STEPS = [
    [1, 1], [1, 0.85], [1, 0.7], [0.94, 0.85], [0.94, 0.7], [0.88, 0.8], [0.88, 0.66], [0.82, 0.75], [0.82, 0.62],
    [0.76, 0.7], [0.76, 0.58], [0.7, 0.62], [0.7, 0.52],
  ];
  const CODE_WIDTHS = ["38%", "46%", "54%", "62%"]; // width of the code next to its output
  const SMALLEST_CODE = 0.67; // of 21 pixels
  const SMALLEST_PICTURE = 0.5; // of its own size, at which labels are about 18 pixels high

  const inside = (part) => part.scrollWidth <= part.clientWidth + 1 && part.scrollHeight <= part.clientHeight + 1;

  // Scale of a picture relative to its natural size. Its element may be larger, because the aspect ratio is kept.
  function scaleOf(image) {
    if (!image.naturalWidth) return 1;
    return Math.min(image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight);
  }

  function fits(frame) {
    if (!inside(frame)) return false;
    if ([...frame.querySelectorAll("img")].some((image) => scaleOf(image) < SMALLEST_PICTURE)) return false;
    if (![...frame.querySelectorAll("pre, .html, .prose, .display-formula")].every(inside)) return false;
    // Padding does not count towards scrollHeight in every browser, so every part is measured.
    const style = getComputedStyle(frame);
    const outer = frame.getBoundingClientRect();
    const bottom = outer.bottom - parseFloat(style.paddingBottom) + 1;
    const right = outer.right - parseFloat(style.paddingRight) + 1;
    return [...frame.querySelectorAll(":scope > *, .input, .output, .prose > *")].every((part) => {
      const rect = part.getBoundingClientRect();
      return !rect.height || (rect.bottom <= bottom && rect.right <= right && rect.top >= outer.top);
    });
  }

  function layouts(frame) {
    const ways = [{ kind: "stacked", share: "50%" }];
    if (frame.querySelector(".pair")) ways.unshift(...CODE_WIDTHS.map((share) => ({ kind: "side", share })));
    const pictures = frame.querySelectorAll(".output img");
    const whole = frame.querySelectorAll(".output").length === 1 && !frame.querySelector(".fragment");
    if (pictures.length === 1 && whole && frame.querySelector(".prose")) {
      ways.push(...["30%", "36%", "42%"].map((share) => ({ kind: "beside", share })));
    }
    return ways;
  }

  // The largest code, not above `text`, at which no line is cut.
  function codeSize(frame, text) {
    let size = text;
    for (const part of frame.querySelectorAll("pre")) {
      if (part.scrollWidth > part.clientWidth) {
        size = Math.min(size, 0.99 * text * part.clientWidth / part.scrollWidth);
      }
    }
    return size;
  }

  function set(frame, { text, picture, kind, share, code }) {
    frame.style.setProperty("--size", text);
    frame.style.setProperty("--picture", picture);
    frame.style.setProperty("--left", share);
    frame.style.setProperty("--code", code);
    frame.classList.toggle("side", kind === "side");
    frame.classList.toggle("beside", kind === "beside");
  }

  function quality(frame, { text, code }) {
    const pictures = [...frame.querySelectorAll("img")].map((image) => Math.min(1, scaleOf(image)));
    return text + (frame.querySelector("pre") ? code : 0) + (pictures.length ? 1.2 * Math.min(...pictures) : 0);
  }

  function bestPossible(frame, text) {
    return text * (frame.querySelector("pre") ? 2 : 1) + (frame.querySelector("img") ? 1.2 : 0);
  }

  function fit(frame) {
    let best = null;
    let last = null;
    for (const [text, picture] of STEPS) {
      if (best && best.score >= bestPossible(frame, text)) break;
      for (const layout of layouts(frame)) {
        const way = { text, picture, code: text, ...layout };
        set(frame, way);
        way.code = codeSize(frame, text);
        if (way.code < SMALLEST_CODE) way.code = SMALLEST_CODE;
        frame.style.setProperty("--code", way.code);
        last = way;
        if (!fits(frame)) continue;
        const score = quality(frame, way);
        if (!best || score > best.score + 0.01) best = { ...way, score };
      }
    }
    const slide = frame.parentElement;
    set(frame, best || last);
    if (best) giveRoom(frame);
    else slide.dataset.overflow = "true";
    slide.dataset.size = (best || last).text;
    slide.dataset.code = (best || last).code.toFixed(2);
  }

  function giveRoom(frame) {
    const shown = [...frame.children].filter((part) => part.querySelector("img"));
    if (frame.classList.contains("beside")) return;
    if (shown.length === 1 && shown[0] === frame.lastElementChild) shown[0].classList.add("roomy");
  }

  function fitAll() {
    const slides = document.querySelector(".reveal .slides");
    slides.classList.add("measuring");
    slides.querySelectorAll(".frame").forEach(fit);
    slides.classList.remove("measuring");
  }

  async function start() {
    // A picture that cannot be decoded shows its alt text; the slide is fitted around that.
    await Promise.allSettled([...document.images].map((image) => image.decode()));
    if (document.fonts) await document.fonts.ready;
    const began = performance.now();
    fitAll();
    document.documentElement.dataset.fitted = Math.round(performance.now() - began); // milliseconds
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
      pdfSeparateFragments: false,
      pdfMaxPagesPerSlide: 1,
      plugins: [RevealNotes],
    });
    document.documentElement.dataset.deck = "ready";
  }

  start();
})();
