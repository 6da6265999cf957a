// Applies the chosen theme before anything is painted. Without a choice, the page follows the system.
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
