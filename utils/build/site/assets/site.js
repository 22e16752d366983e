// The pages of the website: search, theme, and when widgets start.

// Search summaries load the pages, which browsers do not allow for files on disk.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

(() => {
  function followTheme() {
    // The widgets use the attribute by which JupyterLab marks a dark page.
    const follow = () => (document.body.dataset.jpThemeLight = String(document.documentElement.dataset.theme !== "dark"));
    new MutationObserver(follow).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    follow();
  }

  document.addEventListener("DOMContentLoaded", () => {
    followTheme();
    document.querySelectorAll(".quiz").forEach(startQuiz);
    const seen = new IntersectionObserver(
      (entries) =>
        entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
          seen.unobserve(entry.target);
          startWidget(entry.target);
        }),
      { rootMargin: "600px" },
    );
    document.querySelectorAll(".live-widget").forEach((host) => seen.observe(host));
  });
})();
