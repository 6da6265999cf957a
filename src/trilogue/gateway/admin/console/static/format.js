// How figures, times and names are written, the same everywhere.

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short" });

export const NONE = "–";

/** Return a count with separators. */
export function count(value) {
  return value === null || value === undefined ? NONE : WHOLE.format(value);
}

/** Return a count in few characters: 11.2K. */
export function short(value) {
  return value === null || value === undefined ? NONE : value < 10_000 ? WHOLE.format(value) : SHORT.format(value);
}

/** Return a size in bytes with the unit that fits. */
export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1_000_000
    ? `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} kB`
    : `${(value / 1_000_000).toFixed(1)} MB`;
}

/** Return a duration in seconds with the unit that fits. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds === 0) return "0 ms";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** Return a time of day, with the date if it is not today. `at`: seconds since 1970. */
export function time(at) {
  if (!at) return NONE;
  const date = new Date(at * 1000);
  const clock = CLOCK.format(date);
  return date.toDateString() === new Date().toDateString() ? clock : `${DAY.format(date)} ${clock}`;
}

/** Return how long ago a time was, or in how long it will be. */
export function ago(at, now = Date.now() / 1000) {
  if (!at) return NONE;
  const seconds = now - at;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

function span(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Return a share as a percentage. */
export function percent(share, digits = 1) {
  return share === null || share === undefined
    ? NONE
    : `${(share * 100).toFixed(share === 1 || share === 0 ? 0 : digits)} %`;
}

/** Return an amount of money; an unknown one is not 0. */
export function money(value, unit = "") {
  if (value === null || value === undefined) return "unknown";
  const digits = value === 0 ? 2 : Math.abs(value) < 0.01 ? 6 : Math.abs(value) < 1 ? 4 : 2;
  return `${value.toFixed(digits)}${unit && ` ${unit}`}`;
}

/** Return the plural form if there is not exactly one. */
export function plural(amount, one, many = `${one}s`) {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}
