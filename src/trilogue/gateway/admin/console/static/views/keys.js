// Client keys: make, rotate and revoke them. The text of a key is shown once, and not kept anywhere.

import { announce } from "../announce.js";
import { get, post } from "../api.js";
import { ask } from "../dialog.js";
import { badge, empty, h, show, viewTitle } from "../dom.js";
import { NONE, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

const SECONDS = 5;
const TONES = { active: "good", expired: "warn", revoked: "bad" };
const OVERLAPS = [
  ["86400", "a day"],
  ["604800", "a week"],
  ["3600", "an hour"],
  ["0", "no longer"],
];

export const keysView = { label: "Keys", role: "admin", mount };

function mount(root, _, signal) {
  const fresh = h("div");
  const place = h("div");
  const showText = (key) => showOnce(fresh, key);
  const keys = table({
    caption: "Client keys that were made at run time",
    columns: columns({ rotate, revoke }),
    key: (one) => one.id,
    rowClass: (one) => `state-${one.status}`,
    className: "keys",
  });
  root.append(
    viewTitle("Keys"),
    keyForm(async (asked) => {
      showText(await post("keys", asked));
      refresh();
    }),
    fresh,
    place,
  );
  const { refresh, first } = poll(
    async () => {
      const found = (await get("keys", {}, signal)).keys;
      if (!found.length) show(place, empty("There are no keys yet, apart from those in the configuration."));
      else if (!keys.element.isConnected) place.replaceChildren(keys.element);
      keys.update(found.reverse());
    },
    SECONDS,
    signal,
  );

  async function rotate(key) {
    const given = await ask({
      title: `Rotate ${key.name}`,
      text: "The key gets a new text. The old one goes on working for a while, so that clients can be changed.",
      fields: h(
        "div",
        { class: "field" },
        h("label", { for: "overlap" }, "The old text works for"),
        h(
          "select",
          { id: "overlap", name: "overlap" },
          OVERLAPS.map(([value, label]) => h("option", { value }, label)),
        ),
      ),
      action: "Rotate",
    });
    if (!given) return;
    await tried(key, async () =>
      showText(await post(pathOf(key, "rotate"), { overlap_seconds: Number(given.get("overlap")) })),
    );
  }

  async function revoke(key) {
    const given = await ask({
      title: `Revoke ${key.name}`,
      text: "The key stops working on all gateways within a second. This cannot be undone.",
      fields: h(
        "label",
        { class: "check" },
        h("input", { type: "checkbox", name: "stop" }),
        "Also end the requests that run with it",
      ),
      action: "Revoke",
      danger: true,
    });
    if (!given) return;
    await tried(key, async () => {
      await post(pathOf(key, "revoke"), { stop_streams: given.has("stop") });
      announce(`${key.name} was revoked.`);
    });
  }

  async function tried(key, work) {
    try {
      await work();
    } catch (error) {
      announce(`${key.name}: ${error.message}`, true);
    }
    refresh();
  }
  return first;
}

function pathOf(key, action) {
  return `keys/${encodeURIComponent(key.id)}/${action}`;
}

function showOnce(place, key) {
  const text = h("input", {
    id: "key-text",
    type: "text",
    class: "grow mono",
    readonly: true,
    value: key.key,
    autocomplete: "off",
    spellcheck: "false",
  });
  const copy = async () => {
    await navigator.clipboard.writeText(key.key).then(
      () => announce("Copied."),
      () => text.select(),
    );
  };
  place.replaceChildren(
    h(
      "section",
      { class: "card once", "aria-labelledby": "once-title" },
      h("h2", { id: "once-title", tabindex: "-1" }, `The text of ${key.name}`),
      h("p", {}, "Copy it now: it is not shown again."),
      h(
        "div",
        { class: "row" },
        h("label", { for: "key-text", class: "visually-hidden" }, "Text of the key"),
        text,
        h("button", { type: "button", class: "primary", onclick: copy }, "Copy"),
        h("button", { type: "button", onclick: () => place.replaceChildren() }, "Done"),
      ),
    ),
  );
  place.querySelector("h2").focus();
}

function keyForm(create) {
  const field = (name, label, attributes = {}) =>
    h(
      "div",
      { class: "field" },
      h("label", { for: `key-${name}` }, label),
      h("input", { id: `key-${name}`, name, type: "text", autocomplete: "off", ...attributes }),
    );
  const problem = h("p", { class: "error", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    problem.textContent = "";
    try {
      await create(askedKey(new FormData(form)));
      form.reset();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  return h(
    "section",
    { class: "card", "aria-labelledby": "new-key-title" },
    h("h2", { id: "new-key-title" }, "Make a key"),
    h(
      "form",
      { class: "row end", onsubmit: submit },
      field("name", "Name", { required: true, maxlength: "100" }),
      field("owner", "Owner", { placeholder: "none" }),
      field("models", "Models", { placeholder: "all; or gpt-*, claude-*" }),
      field("requests", "Requests a minute", { type: "number", min: "1", placeholder: "no limit" }),
      field("budget", "Dollars a month", { type: "number", min: "0", step: "any", placeholder: "no limit" }),
      field("expires", "Expires", { placeholder: "never; or 30d, 2027-01-31" }),
      h("button", { type: "submit", class: "primary" }, "Make the key"),
    ),
    problem,
    h("p", { class: "hint" }, "Other options can be set with ", h("code", {}, "trilogue keys change"), "."),
  );
}

function askedKey(given) {
  const text = (name) => given.get(name).trim();
  const asked = { name: text("name") };
  const models = text("models").split(",").map((one) => one.trim());
  if (text("owner")) asked.owner = text("owner");
  if (models.some(Boolean)) asked.models = models.filter(Boolean);
  if (text("requests")) asked.limits = { requests_per_minute: Number(text("requests")) };
  if (text("budget")) asked.budget = { month: Number(text("budget")) };
  if (text("expires")) asked.expires = text("expires");
  return asked;
}

function columns({ rotate, revoke }) {
  return [
    { label: "Key", header: true, cell: (one) => one.name },
    { label: "Status", cell: (one) => [badge(one.status, TONES[one.status]), texts(one)] },
    { label: "Ends in", cell: (one) => h("code", {}, one.shown) },
    { label: "Owner", cell: (one) => one.owner || NONE },
    { label: "Models", cell: (one) => one.models.join(", ") || "all" },
    { label: "Limits", cell: (one) => set(one.limits) },
    { label: "Budget", cell: (one) => set(one.budget) },
    { label: "Made", class: "nowrap", cell: (one) => time(one.created) },
    { label: "Expires", class: "nowrap", cell: (one) => (one.expires === null ? NONE : time(one.expires)) },
    { label: "Actions", class: "actions", cell: (one) => actions(one, { rotate, revoke }) },
  ];
}

function texts(key) {
  return key.texts > 1 && h("span", { class: "dim" }, ` ${key.texts} texts work`);
}

function set(settings) {
  const found = Object.entries(settings ?? {}).filter(([, value]) => typeof value === "number");
  return found.map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`).join(", ") || NONE;
}

function actions(key, { rotate, revoke }) {
  if (key.status === "revoked") return null;
  const button = (name, label, work) =>
    h(
      "button",
      { type: "button", "data-focus": `${key.id} ${name}`, onclick: () => work(key) },
      label,
      h("span", { class: "visually-hidden" }, ` ${key.name}`),
    );
  return [button("rotate", "Rotate", rotate), button("revoke", "Revoke", revoke)];
}
