// Colours as the system has them, or as somebody chose. Loaded before anything is drawn, so that nothing flashes.
(() => {
  const root = document.documentElement;
  const read = () => {
    try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
  };
  const apply = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    document.dispatchEvent(new Event("theme"));
  };
  apply(read());
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = read();
    select.addEventListener("change", () => {
      try { localStorage.setItem("theme", select.value); } catch { /* it lasts as long as the page */ }
      apply(select.value);
    });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(read()));
})();
