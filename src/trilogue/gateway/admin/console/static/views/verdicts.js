// The verdicts of policies on one request: which policy, about what, what it decided and why, when, and how long it took.

import { badge, h } from "../dom.js";
import { count, duration, money, NONE, plural } from "../format.js";
import { table } from "../table.js";

const TONES = { pass: "good", rewrite: "info", replace: "warn", drop: "warn", stop: "bad", error: "bad" };

/** Return what policies have decided; nothing if there are none. */
export function verdictsCard(request) {
  const verdicts = (request.policies ?? []).map((one, index) => ({ ...one, index }));
  if (!verdicts.length) return null;
  const made = table({ caption: "Verdicts of policies, in their order", columns: columns(), key: (one) => one.index });
  made.update(verdicts);
  made.element.signature = `verdicts ${verdicts.length}`; // a running request can get more
  return h("section", { class: "card" }, h("h2", {}, "Policies ", badge(summary(verdicts), worst(verdicts))), made.element);
}

/** Return the requests that policies have made for this one; nothing if there are none. */
export function askedCard(request) {
  const asked = request.asked ?? [];
  if (!asked.length) return null;
  const rows = asked.map((one) =>
    h(
      "li",
      {},
      `${one.model}: `,
      h("a", { href: `#/requests/${encodeURIComponent(one.id)}` }, h("code", {}, one.id)),
      h("span", { class: "dim" }, ` in ${duration(one.total_ms / 1000)}, ${money(one.cost, one.currency ?? "")}`),
    ),
  );
  return h("section", { class: "card" }, h("h2", {}, "Requests of policies"), h("ul", { class: "plain" }, rows));
}

function columns() {
  return [
    { label: "Policy", header: true, cell: (one) => one.policy },
    { label: "Verdict", cell: (one) => badge(one.verdict, TONES[one.verdict]) },
    { label: "About", cell: about },
    { label: "Reason", class: "wide", cell: (one) => one.reason || NONE },
    { label: "After", class: "number", cell: (one) => duration(one.at_ms / 1000) },
    { label: "Took", class: "number", cell: (one) => duration(one.duration_ms / 1000) },
  ];
}

/** Return what a verdict is about: the request, a block by its number and kind, or the end of the response. */
function about(one) {
  const matches = one.matches ? h("span", { class: "dim" }, `, ${plural(one.matches, "match", "matches")}`) : null;
  if (one.block === null) return [one.stage, matches];
  return [`block ${count(one.block)}`, h("span", { class: "dim" }, ` ${one.kind}`), matches];
}

function summary(verdicts) {
  const passed = verdicts.filter((one) => one.verdict === "pass").length;
  return passed === verdicts.length ? "all passed" : `${count(passed)} of ${count(verdicts.length)} passed`;
}

function worst(verdicts) {
  const order = ["good", "info", "warn", "bad"];
  return order[Math.max(...verdicts.map((one) => order.indexOf(TONES[one.verdict] ?? "warn")))];
}
