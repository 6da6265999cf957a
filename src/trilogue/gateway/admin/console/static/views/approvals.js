// Approvals: tool calls that wait until somebody decides, with buttons for both decisions.

import { announce } from "../announce.js";
import { get, post } from "../api.js";
import { badge, empty, h, show, viewTitle } from "../dom.js";
import { duration, NONE, time } from "../format.js";
import { jsonDocument, textDocument } from "../json.js";
import { poll } from "../poll.js";

const SECONDS = 1;
/** How long a call stays in its place after its end, so that no other one moves under the pointer. */
const STAYS = 5;
const NAME = "approvals-name";

export const approvalsView = { label: "Approvals", role: "operator", mount };

function mount(root, _, signal) {
  const list = h("div", { class: "view" });
  const none = empty("No call waits for approval.");
  const decisions = h("div", { class: "view" });
  const name = h("input", { type: "text", id: NAME, maxlength: "100", value: localStorage.getItem(NAME) ?? "" });
  name.addEventListener("change", () => localStorage.setItem(NAME, name.value.trim()));
  root.append(
    viewTitle("Approvals", h("label", { class: "inline" }, "Your name, for the records ", name)),
    none,
    list,
    decisions,
  );
  const cards = new Map();
  let isFirst = true;

  const { refresh, first } = poll(
    async () => {
      const { approvals, decided } = await get("approvals", {}, signal);
      update(approvals, decided);
      show(decisions, decided.length ? decidedList(decided) : null);
      isFirst = false;
    },
    SECONDS,
    signal,
  );

  function update(approvals, decided) {
    const waiting = new Map(approvals.map((one) => [one.id, one]));
    const now = Date.now() / 1000;
    for (const [id, card] of cards) {
      if (waiting.has(id)) card.tick(waiting.get(id).until - now);
      else if (!card.ended) card.end(outcome(decided.find((one) => one.id === id)));
      else if (now - card.ended > STAYS) {
        card.element.remove();
        cards.delete(id);
      }
    }
    for (const one of approvals) {
      if (cards.has(one.id)) continue;
      const card = cardFor(one, (decision) => decide(one, decision));
      card.tick(one.until - now);
      cards.set(one.id, card);
      list.append(card.element);
      if (!isFirst) announce(`A call of ${one.tool} waits for approval.`);
    }
    none.hidden = cards.size > 0;
  }

  async function decide(one, decision) {
    const card = cards.get(one.id);
    card.setBusy(true);
    try {
      await post(`approvals/${encodeURIComponent(one.id)}`, { decision, by: name.value.trim() });
      announce(`${one.tool}: ${decision === "yes" ? "approved" : "denied"}.`);
      card.end(outcome({ approved: decision === "yes", by: "" }));
      focusNext(root, card.element);
    } catch (error) {
      announce(`${one.tool}: ${error.message}`, true);
      card.setBusy(false);
    }
    refresh();
  }
  return first;
}

/** Move the focus to the heading of the next call, not to its buttons: a second key press must not decide on it. */
function focusNext(root, ended) {
  const open = [...root.querySelectorAll(".approval:not(.ended)")];
  const next = open.find((one) => ended.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING) ?? open[0];
  (next?.querySelector("h2") ?? root.querySelector("h1")).focus();
}

function cardFor(one, decide) {
  const left = h("span", {});
  const state = h("p", { class: "actions" });
  const button = (decision, label, style) =>
    h(
      "button",
      { type: "button", class: style, "data-focus": `${one.id} ${decision}`, onclick: () => decide(decision) },
      label,
      h("span", { class: "visually-hidden" }, ` the call of ${one.tool}`),
    );
  const buttons = [button("yes", "Approve", "primary"), button("no", "Deny", "")];
  state.append(...buttons, left);
  const element = h(
    "article",
    { class: "card approval", "aria-label": `Call of ${one.tool}` },
    h("h2", { tabindex: "-1" }, one.tool),
    h("dl", { class: "facts" }, facts(one)),
    argumentsOf(one),
    state,
  );
  const card = {
    element,
    ended: 0,
    tick: (seconds) => (left.textContent = ` ${duration(Math.max(0, Math.round(seconds)))} left`),
    setBusy: (isBusy) => buttons.forEach((each) => (each.disabled = isBusy)),
    end(text) {
      card.ended = card.ended || Date.now() / 1000;
      element.classList.add("ended");
      state.replaceChildren(text);
    },
  };
  return card;
}

function facts(one) {
  const request = h("a", { href: `#/requests/${encodeURIComponent(one.request_id)}` }, h("code", {}, one.request_id));
  const rows = [
    ["Key", one.key || NONE],
    ["Route", one.route || NONE],
    ["Model", one.model],
    ["Policy", one.policy],
    ["Asked", time(one.asked_at)],
    ["Request", request],
  ];
  return rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)));
}

function argumentsOf(one) {
  let value;
  try {
    value = JSON.parse(one.arguments);
  } catch {
    return textDocument(one.arguments, "Arguments");
  }
  return jsonDocument(value, [], "Arguments");
}

function outcome(decided) {
  if (!decided) return badge("does not wait any more", "plain");
  const by = decided.by ? ` by ${decided.by}` : "";
  return badge(`${decided.approved ? "approved" : "denied"}${by}`, decided.approved ? "good" : "bad");
}

function decidedList(decided) {
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Latest decisions"),
    h(
      "ul",
      { class: "plain" },
      decided.map((one) =>
        h(
          "li",
          {},
          outcome(one),
          ` ${one.tool}`,
          h("span", { class: "dim" }, ` ${time(one.decided_at)}, key ${one.key || NONE}, policy ${one.policy}`),
        ),
      ),
    ),
  );
}
