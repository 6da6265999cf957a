// Asking again and again, while the page is visible, and showing whether the gateway responds.

let onState = () => {};

/** Call this with "live", "paused" or an error message whenever that changes. */
export function whenConnectionChanges(callback) {
  onState = callback;
}

/**
 * Call an async function now and then every so many seconds until the signal is aborted. `paused()` skips a call.
 * Return `refresh`, which calls it at once, and `first`, a promise of the end of the first call.
 */
export function poll(work, seconds, signal, paused = () => false) {
  let timer;
  const run = async () => {
    clearTimeout(timer);
    if (signal.aborted) return;
    if (!document.hidden && !paused()) await attempt(work, signal);
    if (!signal.aborted) timer = setTimeout(run, seconds * 1000);
  };
  const onVisible = () => document.hidden || run();
  document.addEventListener("visibilitychange", onVisible, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  return { refresh: run, first: run() };
}

async function attempt(work, signal) {
  try {
    await work();
    if (!signal.aborted) onState("live");
  } catch (error) {
    if (signal.aborted || error.name === "AbortError") return;
    onState(error.message);
  }
}
