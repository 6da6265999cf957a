// Live requests: the latest of all workers, those that are running first, with filters that are part of the address.

import { get } from "../api.js";
import { badge, empty, h, show, tile, tiles, viewTitle } from "../dom.js";
import { count, duration, money, NONE, percent, plural, short, time } from "../format.js";
import { TONES } from "../json.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { requestView } from "./request.js";

const SECONDS = 1.5;
const LIMIT = 100;
const CHOICES = [
  ["running", "Running"],
  ["errors", "Failed"],
  ["losses", "With losses"],
];
const STATUSES = [
  ["", "Any status"],
  ["2xx", "2xx"],
  ["4xx", "4xx"],
  ["5xx", "5xx"],
  ["429", "429"],
  ["499", "499 (client gone)"],
];

export const requestsView = { label: "Requests", mount };

function mount(root, parameters, signal) {
  if (parameters.path[0]) return requestView.mount(root, parameters.path[0], signal);
  const filters = { ...parameters.query };
  let paused = false;
  const summary = h("div");
  const place = h("div");
  const shown = table({
    caption: "Requests, the latest first",
    columns: columns(),
    key: (one) => one.id,
    rowClass,
    className: "requests",
  });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: togglePause }, "Pause");
  root.append(viewTitle("Requests"), summary, filterForm(filters, changed, pause), place);

  const { refresh, first } = poll(
    async () => {
      const [{ requests }, accounts] = await Promise.all([
        get("requests", { limit: LIMIT, ...filters }, signal),
        get("accounts", {}, signal),
      ]);
      show(summary, figures(requests, accounts.accounts, filters));
      if (!requests.length) show(place, nothing(filters));
      else if (!shown.element.isConnected) place.replaceChildren(shown.element);
      shown.update(requests);
    },
    SECONDS,
    signal,
    () => paused,
  );
  return first;

  function changed() {
    const query = new URLSearchParams(Object.entries(filters)).toString();
    history.replaceState(null, "", query ? `#/requests?${query}` : "#/requests");
    refresh();
  }

  function togglePause() {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) refresh();
  }
}

function nothing(filters) {
  if (Object.keys(filters).length) return empty("No request that the workers remember fits these filters.");
  return empty("No requests yet.", h("p", {}, "Requests appear here as soon as a client sends one."));
}

function filterForm(filters, changed, pause) {
  const set = (name, value) => {
    if (value) filters[name] = value;
    else delete filters[name];
    changed();
  };
  const text = (name, label) =>
    h(
      "div",
      { class: "field" },
      h("label", { for: `filter-${name}` }, label),
      h("input", {
        id: `filter-${name}`,
        type: "search",
        value: filters[name] ?? "",
        spellcheck: "false",
        onchange: (event) => set(name, event.target.value.trim()),
      }),
    );
  const choice = ([name, label]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(filters[name] === "true"),
        onclick: (event) => {
          const on = filters[name] !== "true";
          event.target.setAttribute("aria-pressed", String(on));
          set(name, on && "true");
        },
      },
      label,
    );
  return h(
    "form",
    { class: "row end", role: "search", "aria-label": "Filter requests", onsubmit: (event) => event.preventDefault() },
    text("model", "Model"),
    text("key", "Client key"),
    h(
      "div",
      { class: "field" },
      h("label", { for: "filter-status" }, "Status"),
      h(
        "select",
        { id: "filter-status", onchange: (event) => set("status", event.target.value) },
        STATUSES.map(([value, label]) => h("option", { value, selected: (filters.status ?? "") === value }, label)),
      ),
    ),
    h("div", { class: "row", role: "group", "aria-label": "Only" }, CHOICES.map(choice)),
    h("div", { class: "push" }, pause),
  );
}

/** Return the figures an operator looks at first. They are those of the requests that are shown. */
function figures(requests, accounts, filters) {
  const now = Date.now() / 1000;
  const ended = requests.filter((one) => !one.running);
  const failed = ended.filter(hasFailed).length;
  const tokens = ended
    .map((one) => one.first_token_ms)
    .filter((one) => one !== null)
    .sort((a, b) => a - b);
  const lost = requests.filter((one) => one.loss_count).length;
  const known = ended.filter((one) => one.cost !== null);
  const unavailable = accounts.filter((one) => one.state !== "ready");
  const among = requests.length ? `of ${plural(requests.length, "request")}` : "";
  return tiles(
    tile("Running", count(requests.filter((one) => one.running).length)),
    tile("Last minute", count(requests.filter((one) => one.began_at > now - 60).length), {
      note: requests.length === LIMIT && requests.at(-1).began_at > now - 60 ? "or more" : "requests",
    }),
    tile("Failed", ended.length ? percent(failed / ended.length) : NONE, {
      note: failed ? `${count(failed)} ${among}` : among,
      tone: failed ? "bad" : "",
    }),
    tile("First token", tokens.length ? duration(at(tokens, 0.5) / 1000) : NONE, {
      note: tokens.length ? `slowest 5 %: ${duration(at(tokens, 0.95) / 1000)}` : "no streams yet",
    }),
    tile("With losses", requests.length ? percent(lost / requests.length, 0) : NONE, { note: among }),
    tile("Cost", known.length ? money(known.reduce((sum, one) => sum + one.cost, 0)) : NONE, {
      note:
        known.length === ended.length
          ? "USD"
          : `${known.length ? "USD, " : ""}${count(ended.length - known.length)} unknown`,
    }),
    tile("Accounts ready", `${accounts.length - unavailable.length}/${accounts.length}`, {
      note: unavailable.length ? `${unavailable[0].provider}/${unavailable[0].account} ${unavailable[0].state}` : "all",
      tone: unavailable.length ? "warn" : "",
    }),
  );
}

function at(sorted, share) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

/** Return whether a request has ended with an error, also inside a stream. */
export function hasFailed(request) {
  return !request.running && (request.status >= 400 || request.error !== null);
}

function rowClass(request) {
  return request.running ? "running" : hasFailed(request) ? "failed" : "";
}

function columns() {
  return [
    {
      label: "Time",
      header: true,
      class: "time",
      cell: (one) =>
        h(
          "a",
          { class: "whole-row", href: `#/requests/${encodeURIComponent(one.id)}`, "data-focus": one.id },
          time(one.began_at),
        ),
    },
    { label: "Status", class: "status", cell: status },
    { label: "Model", class: "model", cell: model },
    { label: "Protocols", class: "protocols", cell: protocols },
    { label: "Key", class: "key", cell: (one) => one.key || NONE },
    {
      label: "First token",
      class: "number first",
      cell: (one) => (one.first_token_ms === null ? NONE : duration(one.first_token_ms / 1000)),
    },
    { label: "Duration", class: "number duration", cell: (one) => duration(one.total_ms / 1000) },
    { label: "Tokens", class: "number tokens", cell: tokens },
    { label: "Cost", class: "number cost", cell: (one) => (one.cost === null ? NONE : money(one.cost)) },
    { label: "Lost", class: "losses", cell: losses },
  ];
}

/** Return the status of a request as a badge, with its error. */
export function status(request) {
  if (request.running) return badge("running", "info");
  const tone = request.error === "client_gone" ? "warn" : hasFailed(request) ? "bad" : "good";
  return [
    badge(String(request.status), tone),
    request.error &&
      h("span", { class: "reason", title: request.reason ?? "" }, ` ${request.error.replaceAll("_", " ")}`),
  ];
}

function protocols(request) {
  if (!request.client) return request.path;
  if (!request.upstream || request.upstream === request.client) return request.client;
  return `${request.client} → ${request.upstream}`;
}

function model(request) {
  return [
    request.model || h("span", { class: "dim" }, request.path),
    h("span", { class: "dim" }, target(request)),
    request.parent && h("span", { class: "dim" }, ", asked by a policy"),
    request.attempt_count > 1 && h("span", { class: "dim" }, `, ${plural(request.attempt_count, "attempt")}`),
  ];
}

/** Return where a request went, in as few words as say it. */
function target({ model: asked, provider, upstream_model: used }) {
  if (!provider || asked === `${provider}/${used}`) return "";
  return ` → ${asked === used ? provider : `${provider}/${used}`}`;
}

function tokens(request) {
  if (request.input_tokens === null) return NONE;
  return [short(request.input_tokens), h("span", { class: "dim" }, " → "), short(request.output_tokens)];
}

function losses(request) {
  if (!request.loss_count) return null;
  return [
    badge(count(request.loss_count), TONES[request.severity]),
    h("span", { class: "dim" }, ` ${request.loss_codes.join(", ")}`),
  ];
}
