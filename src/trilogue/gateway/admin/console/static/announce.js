// Short messages about what was done, for everyone: they are shown for a moment and read out by screen readers.

let timer;

/** Show a message for a few seconds. */
export function announce(text, isError = false) {
  const place = document.getElementById("announcer");
  place.textContent = text;
  place.classList.toggle("bad", isError);
  place.classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => place.classList.remove("shown"), isError ? 10_000 : 4_000);
}
