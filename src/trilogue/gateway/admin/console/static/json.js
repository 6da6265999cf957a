// JSON documents, line by line, with losses marked at the place that they are about.

import { badge, h } from "./dom.js";
import { plural } from "./format.js";

const LONGEST = 400;
/** Lines of a document that is shown as a whole, and lines that are shown before and after a loss in a longer one. */
const LONG = 600;
const AROUND = 6;
export const TONES = { notice: "info", degraded: "warn", dropped: "bad" };
const ORDER = ["notice", "degraded", "dropped"];

/** Return a document. `losses`: {code, path, severity, detail}; each is shown at its path, or at the nearest one. */
export function jsonDocument(value, losses = [], label = "JSON") {
  const lines = [];
  collect(value, "", "", 0, "", lines);
  const marks = placed(lines, losses);
  const element = (line) => lineElement(line, marks.get(line.path));
  return documentElement(
    folded(lines, marks).map((part) => (part.hidden ? foldElement(part.lines, element) : element(part.line))),
    label,
  );
}

/** Return lines, and runs of lines that are hidden at first: of a long document, those that are far from any loss. */
function folded(lines, marks) {
  const isShown = new Array(lines.length).fill(lines.length <= LONG);
  if (lines.length > LONG) {
    isShown.fill(true, 0, LONG / 2);
    isShown.fill(true, lines.length - AROUND);
    lines.forEach((line, index) => {
      if (marks.has(line.path)) isShown.fill(true, Math.max(0, index - AROUND), index + AROUND + 1);
    });
  }
  const parts = [];
  lines.forEach((line, index) => {
    if (isShown[index]) parts.push({ line });
    else if (parts.at(-1)?.hidden) parts.at(-1).lines.push(line);
    else parts.push({ hidden: true, lines: [line] });
  });
  return parts;
}

function foldElement(lines, element) {
  const place = h("span", { class: "line" });
  const open = () => place.replaceWith(...lines.map(element));
  place.append(h("button", { type: "button", class: "more", onclick: open }, `show ${plural(lines.length, "line")}`));
  return place;
}

/** Return text that is not JSON, such as the body of an error page. */
export function textDocument(text, label = "Text") {
  return documentElement(
    [
      h(
        "span",
        { class: "line" },
        longText(text, (part) => part),
      ),
    ],
    label,
  );
}

function documentElement(lines, label) {
  // It scrolls, so it must be reachable by the keyboard.
  return h("pre", { class: "document", tabindex: "0", role: "region", "aria-label": label }, lines);
}

/** Return whether a document has a value at a path such as `messages[2].content`. */
export function hasPath(value, path) {
  const lines = [];
  collect(value, "", "", 0, "", lines);
  return lines.some((line) => line.path === path);
}

function collect(value, name, path, depth, comma, lines) {
  const isList = Array.isArray(value);
  if (value === null || typeof value !== "object") {
    lines.push({ path, depth, name, value, comma });
    return;
  }
  const [open, close] = isList ? "[]" : "{}";
  const entries = isList ? value.map((item, index) => [index, item]) : Object.entries(value);
  if (!entries.length) {
    lines.push({ path, depth, name, text: open + close + comma });
    return;
  }
  lines.push({ path, depth, name, text: open });
  entries.forEach(([key, item], index) => {
    const inner = isList ? `${path}[${key}]` : path ? `${path}.${key}` : key;
    collect(item, isList ? "" : JSON.stringify(key), inner, depth + 2, index < entries.length - 1 ? "," : "", lines);
  });
  lines.push({ path: null, depth, name: "", text: close + comma });
}

/** Return the losses by the path of the line that shows them: their own, or the nearest one around it. */
function placed(lines, losses) {
  const known = new Set(lines.map((line) => line.path));
  const marks = new Map();
  for (const loss of losses) {
    let path = loss.path ?? "";
    while (path && !known.has(path)) path = path.replace(/(\.[^.[\]]*|\[\d+\]|^[^.[\]]*)$/, "");
    marks.set(path, [...(marks.get(path) ?? []), loss]);
  }
  return marks;
}

function lineElement(line, losses = []) {
  const worst = losses.map((loss) => ORDER.indexOf(loss.severity)).reduce((a, b) => Math.max(a, b), -1);
  const element = h(
    "span",
    { class: ["line", losses.length && `lost ${ORDER[worst] ?? ""}`] },
    losses.length > 0 &&
      h(
        "span",
        { class: "why" },
        losses.map((loss) => lossLabel(loss)),
      ),
    line.name && [h("span", { class: "name" }, line.name), ": "],
    "text" in line ? line.text : [valueElement(line.value), line.comma],
  );
  element.style.setProperty("--depth", line.depth);
  return element;
}

/** Return the label of a loss: its code, with its severity as a colour and in words. */
export function lossLabel(loss) {
  const label = badge(loss.code, TONES[loss.severity]);
  label.title = [loss.severity, loss.detail, loss.instead && `done instead: ${loss.instead}`]
    .filter(Boolean)
    .join("; ");
  label.append(h("span", { class: "visually-hidden" }, ` (lost here: ${loss.severity ?? "loss"})`));
  return [label, " "];
}

function valueElement(value) {
  if (typeof value !== "string") return h("span", { class: "literal" }, String(value));
  return h("span", { class: "string" }, longText(value, JSON.stringify));
}

/** Return a text; of a long one the beginning, and a button for the rest. */
function longText(text, written) {
  if (text.length <= LONGEST) return written(text);
  const place = h("span", {}, written(text.slice(0, LONGEST)), " ");
  place.append(
    h(
      "button",
      { type: "button", class: "more", onclick: () => place.replaceChildren(written(text)) },
      `show all ${plural(text.length, "character")}`,
    ),
  );
  return place;
}
