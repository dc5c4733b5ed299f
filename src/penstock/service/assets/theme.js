"use strict";
// Runs before the first paint, so that a dark page never flashes white. It is no module for that
// reason.
// <html data-theme> is always "light" or "dark"; style.css and the charts need no other source.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)"),
    paper = matchMedia("print");
  const chosen = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    } // storage may be forbidden
  };
  const apply = () => {
    const theme = paper.matches ? "light" : (chosen() ?? (dark.matches ? "dark" : "light"));
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
  };
  dark.addEventListener("change", apply);
  paper.addEventListener("change", apply);
  // The switch of the page: null follows the system again.
  globalThis.chooseTheme = (theme) => {
    try {
      if (theme) localStorage.setItem("theme", theme);
      else localStorage.removeItem("theme");
    } catch {
      /* the choice then lasts as long as the page */
      document.documentElement.dataset.theme = theme ?? (dark.matches ? "dark" : "light");
      document.dispatchEvent(new CustomEvent("theme", { detail: theme }));
    }
    apply();
  };
  apply();
})();
