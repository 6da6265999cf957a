// Captures: start one, watch it, and open what was captured.

import { may } from "../access.js";
import { announce } from "../announce.js";
import { get, post, remove } from "../api.js";
import { badge, empty, h, show, viewTitle } from "../dom.js";
import { bytes, count, duration, NONE, plural, time } from "../format.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

const SECONDS = 2;
/** How long a capture goes on without the console asking for it, so that it survives a reload of the page. */
const LEASE_SECONDS = 600;
const TONES = { running: "info", complete: "good", stopped: "plain", abandoned: "warn" };

export const capturesView = { label: "Captures", mount };

/** Start to capture the next requests. `asked`: {requests, model, key, errors, losses, redact}; only the first is needed. */
export async function startCapture(asked) {
  return (await post("capture", { lease_seconds: LEASE_SECONDS, ...asked })).session;
}

function mount(root, _, signal) {
  const state = h("div", { "aria-live": "polite" });
  const place = h("div");
  const captures = table({
    caption: "Captured requests, the latest first",
    columns: columns(),
    key: (one) => one.request_id,
    className: "requests",
  });
  let session = null;
  root.append(
    viewTitle("Captures"),
    may("operator") ? captureForm(() => refresh()) : "",
    state,
    place,
  );
  const { refresh, first } = poll(
    async () => {
      const [status, list] = await Promise.all([get("capture", { session }, signal), get("captures", {}, signal)]);
      session = status.session?.id ?? null;
      show(
        state,
        statusElements(status, () => refresh()),
      );
      if (!list.captures.length)
        show(place, empty("There are no captures.", h("p", {}, "They are kept in ", h("code", {}, list.folder), ".")));
      else if (!captures.element.isConnected) place.replaceChildren(captures.element);
      captures.update(list.captures.sort((a, b) => b.at - a.at));
    },
    SECONDS,
    signal,
  );
  return first;
}

function captureForm(started) {
  const check = (name, label) => h("label", { class: "check" }, h("input", { type: "checkbox", name }), label);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const flags = Object.fromEntries(["errors", "losses", "redact"].map((name) => [name, given.has(name)]));
    try {
      await startCapture({
        requests: Number(given.get("requests")),
        model: given.get("model").trim(),
        key: given.get("key").trim(),
        ...flags,
      });
      announce("The capture has started.");
    } catch (error) {
      announce(error.message, true);
    }
    started();
  };
  return h(
    "section",
    { class: "card", "aria-labelledby": "capture-title" },
    h("h2", { id: "capture-title" }, "Capture the next requests"),
    h(
      "form",
      { class: "row end", onsubmit: submit },
      h(
        "div",
        { class: "field" },
        h("label", { for: "capture-requests" }, "How many"),
        h("input", {
          id: "capture-requests",
          name: "requests",
          type: "number",
          min: "1",
          max: "1000",
          value: "20",
          required: true,
        }),
      ),
      h(
        "div",
        { class: "field" },
        h("label", { for: "capture-model" }, "Model"),
        h("input", { id: "capture-model", name: "model", type: "text", placeholder: "any" }),
      ),
      h(
        "div",
        { class: "field" },
        h("label", { for: "capture-key" }, "Client key"),
        h("input", { id: "capture-key", name: "key", type: "text", placeholder: "any" }),
      ),
      check("errors", "Only failed ones"),
      check("losses", "Only with losses"),
      check("redact", "Without texts"),
      h("button", { type: "submit", class: "primary" }, "Start"),
    ),
    h("p", { class: "hint" }, "A capture has everything that was sent and received, except for credentials."),
  );
}

function statusElements(status, changed) {
  const { session } = status;
  const dropped = Object.values(status.dropped).reduce((sum, one) => sum + one, 0);
  const stop = async () => {
    await remove(`capture/${encodeURIComponent(session.id)}`).catch((error) => announce(error.message, true));
    changed();
  };
  return h(
    "div",
    { class: "row" },
    session && [
      badge(session.state, TONES[session.state]),
      `${count(session.captured.length)} of ${plural(session.requests, "request")}`,
      session.model && ` for ${session.model}`,
      session.key && ` with the key ${session.key}`,
      session.state === "running" &&
        may("operator") &&
        h("button", { type: "button", onclick: stop, "data-focus": "stop" }, "Stop"),
    ],
    status.sample > 0 &&
      h("span", { class: "dim" }, `The configuration captures ${status.sample * 100} % of all requests.`),
    dropped > 0 &&
      h("span", { class: "error" }, `${plural(dropped, "capture")} could not be written: ${status.last_error}`),
  );
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
          {
            class: "whole-row",
            href: `#/requests/${encodeURIComponent(one.request_id)}`,
            "data-focus": one.request_id,
          },
          time(one.at),
        ),
    },
    {
      label: "Status",
      class: "status",
      cell: (one) => [
        badge(String(one.status), one.error || one.status >= 400 ? "bad" : "good"),
        one.error && h("span", { class: "reason" }, ` ${one.error.replaceAll("_", " ")}`),
      ],
    },
    {
      label: "Model",
      class: "model",
      cell: (one) => [
        one.model,
        one.provider && h("span", { class: "dim" }, ` → ${one.provider}/${one.upstream_model}`),
      ],
    },
    {
      label: "Protocols",
      class: "protocols",
      cell: (one) => (one.upstream && one.upstream !== one.client ? `${one.client} → ${one.upstream}` : one.client),
    },
    { label: "Key", class: "key", cell: (one) => one.key || NONE },
    { label: "Duration", class: "number duration", cell: (one) => duration(one.duration_ms / 1000) },
    {
      label: "Size",
      class: "number tokens",
      cell: (one) => [bytes(one.bytes), one.redacted && h("span", { class: "dim" }, ", redacted")],
    },
    {
      label: "Lost",
      class: "losses",
      cell: (one) => (one.losses.length ? h("span", { class: "dim" }, [...new Set(one.losses)].join(", ")) : null),
    },
  ];
}
