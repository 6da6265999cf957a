// Accounts: their state, why they are in it, and buttons that change it.

import { may } from "../access.js";
import { announce } from "../announce.js";
import { get, post } from "../api.js";
import { badge, empty, h, show, tile, tiles, viewTitle } from "../dom.js";
import { ago, count, money, NONE, percent, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

const TONES = { ready: "good", limited: "info", failing: "warn", cooling: "warn", refused: "bad", disabled: "bad" };
const MEANINGS = {
  ready: "can be used",
  limited: "at a limit of yours",
  failing: "used last",
  cooling: "rate limit or quota",
  refused: "key, money or account; tried again at times",
  disabled: "by hand, or by a rule",
};
const REFUSALS = {
  bad_key: "key refused",
  account_closed: "account closed",
  out_of_quota: "no quota",
  out_of_money: "no credit",
  no_credential: "no key",
};

export const accountsView = { label: "Accounts", mount };

function mount(root, _, signal) {
  const summary = h("div");
  const place = h("div");
  const accounts = table({
    caption: "Accounts with their state, use and last error",
    columns: columns((account, action) => change(account, action)),
    key: nameOf,
    rowClass: (account) => `state-${account.state}`,
    className: "accounts",
  });
  root.append(viewTitle("Accounts"), summary, place);

  const { refresh, first } = poll(
    async () => {
      const found = (await get("accounts", {}, signal)).accounts;
      show(summary, found.length ? counts(found) : null);
      if (!found.length) show(place, empty("There are no accounts. Providers get them in the configuration."));
      else if (!accounts.element.isConnected) place.replaceChildren(accounts.element);
      accounts.update(found);
    },
    2,
    signal,
  );

  async function change(account, action) {
    try {
      await post(`accounts/${encodeURI(nameOf(account))}/${action}`);
      announce(`${nameOf(account)}: ${DONE[action]}.`);
    } catch (error) {
      announce(`${nameOf(account)}: ${error.message}`, true);
    }
    refresh();
  }
  return first;
}

const DONE = { enable: "enabled", disable: "disabled", reset: "reset" };

function nameOf(account) {
  return `${account.provider}/${account.account}`;
}

function counts(accounts) {
  const states = Object.keys(TONES).map((state) => [state, accounts.filter((one) => one.state === state).length]);
  return tiles(
    states.map(([state, number]) =>
      tile(state[0].toUpperCase() + state.slice(1), count(number), {
        note: MEANINGS[state],
        tone: number ? TONES[state] : "none",
      }),
    ),
  );
}

function columns(change) {
  return [
    { label: "Account", header: true, cell: (one) => [h("span", { class: "dim" }, `${one.provider}/`), one.account] },
    { label: "State", cell: state },
    { label: "In flight", class: "number", cell: (one) => count(one.in_flight) },
    { label: "Requests", class: "number", cell: (one) => count(one.requests) },
    { label: "Success", class: "number", cell: (one) => percent(one.success_rate) },
    { label: "Balance", class: "number", cell: (one) => (one.balance === null ? NONE : money(one.balance)) },
    { label: "Last error", class: "wide", cell: lastError },
    ...(may("operator") ? [{ label: "Actions", class: "actions", cell: (one) => actions(one, change) }] : []),
  ];
}

function state(account) {
  const models = Object.entries(account.models ?? {});
  const refusal = account.state === "refused" ? REFUSALS[account.why] : undefined;
  return [
    badge(refusal ?? account.state, TONES[account.state]),
    account.why && !refusal && h("span", { class: "dim" }, ` ${account.why.replaceAll("_", " ")}`),
    account.until && h("span", { class: "dim" }, `, until ${time(account.until)}`),
    models.map(([model, until]) => h("div", { class: "dim" }, `${model}: until ${time(until)}`)),
  ];
}

function lastError(account) {
  if (!account.last_error) return h("span", { class: "dim" }, NONE);
  const status = account.last_error_status ? `${account.last_error_status} ` : "";
  return [
    h("span", { title: time(account.last_error_at) }, `${status}${account.last_error.replaceAll("_", " ")}`),
    h("span", { class: "dim" }, ` ${ago(account.last_error_at)}`),
    account.last_error_text && h("div", { class: "dim text" }, account.last_error_text),
  ];
}

function actions(account, change) {
  const name = nameOf(account);
  const button = (action, label) =>
    h(
      "button",
      { type: "button", "data-focus": `${name} ${action}`, onclick: () => change(account, action) },
      label,
      h("span", { class: "visually-hidden" }, ` ${name}`),
    );
  return [
    ["refused", "disabled"].includes(account.state) ? button("enable", "Enable") : button("disable", "Disable"),
    button("reset", "Reset"),
  ];
}
