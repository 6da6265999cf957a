// The audit log: who changed what, what it was before, and what it is now.

import { get } from "../api.js";
import { badge, empty, h, show, viewTitle } from "../dom.js";
import { NONE, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

const SECONDS = 5;
const PAGE = 100;
const TIMES = ["expires", "revoked"];
const FILTERS = { who: "Who", what: "What", subject: "About" };

export const auditView = { label: "Audit", role: "admin", mount };

function mount(root, { query }, signal) {
  const place = h("div");
  const more = h("div");
  const entries = table({
    caption: "Changes, the latest first",
    columns: columns(),
    key: (one) => one.number,
    className: "audit",
  });
  const chosen = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, query[name] ?? ""]));
  const known = new Map(); // entries never change, so those that were read stay right
  let oldest;
  root.append(viewTitle("Audit"), filterForm(chosen), place, more);

  function add(page) {
    for (const entry of page.entries) known.set(entry.number, entry);
    if (oldest === undefined || page.next === null || page.next < oldest) oldest = page.next;
  }

  function draw() {
    const found = [...known.values()].sort((a, b) => b.number - a.number);
    if (!found.length) show(place, empty("There are no such changes."));
    else if (!entries.element.isConnected) place.replaceChildren(entries.element);
    entries.update(found);
    show(more, oldest && h("button", { type: "button", onclick: older }, "Show older changes"));
  }

  async function older() {
    add(await get("audit", { ...chosen, limit: PAGE, before: oldest }, signal));
    draw();
  }

  return poll(
    async () => {
      const page = await get("audit", { ...chosen, limit: PAGE }, signal);
      const isFirst = oldest === undefined;
      if (isFirst) add(page);
      else for (const entry of page.entries) known.set(entry.number, entry);
      draw();
    },
    SECONDS,
    signal,
  ).first;
}

function filterForm(chosen) {
  const submit = (event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].filter(([, value]) => value.trim());
    const text = new URLSearchParams(given.map(([name, value]) => [name, value.trim()])).toString();
    location.hash = `#/audit${text && `?${text}`}`;
  };
  return h(
    "form",
    { class: "row end", onsubmit: submit, role: "search", "aria-label": "Changes" },
    Object.entries(FILTERS).map(([name, label]) =>
      h(
        "div",
        { class: "field" },
        h("label", { for: `audit-${name}` }, label),
        h("input", { id: `audit-${name}`, name, type: "search", value: chosen[name], placeholder: "any" }),
      ),
    ),
    h("button", { type: "submit" }, "Show"),
  );
}

function columns() {
  return [
    { label: "Time", header: true, class: "nowrap", cell: (one) => time(one.at) },
    { label: "Who", cell: (one) => [one.who, one.via && h("span", { class: "dim" }, ` by ${one.via}`)] },
    { label: "What", class: "nowrap", cell: (one) => badge(one.what, "plain") },
    { label: "About", cell: (one) => one.subject },
    { label: "Change", class: "wide", cell: change },
  ];
}

function change(entry) {
  const found = differences(entry.before, entry.after);
  if (!found.length) return NONE;
  return h(
    "ul",
    { class: "plain" },
    found.map(([name, before, after]) =>
      h(
        "li",
        {},
        h("span", { class: "dim" }, `${name}: `),
        !isNothing(before) && [shown(name, before), " → "],
        shown(name, after),
      ),
    ),
  );
}

function shown(name, value) {
  if (isNothing(value)) return h("code", {}, NONE);
  return h("code", {}, TIMES.includes(name) ? time(value) : JSON.stringify(value));
}

function isNothing(value) {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && !value.length);
}

/** Return what differs between two values, as [path, before, after]. */
export function differences(before, after, path = "") {
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject(before) && !isObject(after)) {
    const same = JSON.stringify(before ?? null) === JSON.stringify(after ?? null);
    return same || (isNothing(before) && isNothing(after)) ? [] : [[path, before, after]];
  }
  const old = isObject(before) ? before : {};
  const fresh = isObject(after) ? after : {};
  return [...new Set([...Object.keys(old), ...Object.keys(fresh)])].flatMap((name) =>
    differences(old[name], fresh[name], path ? `${path}.${name}` : name),
  );
}
