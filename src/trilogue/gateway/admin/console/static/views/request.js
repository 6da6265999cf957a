// One request: what is known about it, its attempts and losses, and its four phases side by side if it was captured.

import { may } from "../access.js";
import { announce } from "../announce.js";
import { get, getText } from "../api.js";
import { badge, empty, h, show, tile, tiles, viewTitle } from "../dom.js";
import { count, duration, money, NONE, percent, plural, time } from "../format.js";
import { lossLabel, TONES } from "../json.js";
import { phasesTable, readCapture } from "../phases.js";
import { poll } from "../poll.js";
import { table } from "../table.js";
import { startCapture } from "./captures.js";
import { hasFailed, status } from "./requests.js";
import { askedCard, verdictsCard } from "./verdicts.js";

const SECONDS = 1;

export const requestView = { mount };

function mount(root, id, signal) {
  const facts = h("div", { class: "view" });
  const phases = h("section", { class: "view", "aria-labelledby": "phases-title" });
  const name = h("code", {}, id);
  root.append(viewTitle("Request", name, h("a", { href: "#/requests" }, "All requests")), facts, phases);
  let done = false;
  return poll(
    async () => {
      const request = await get(`requests/${encodeURIComponent(id)}`, {}, signal).catch(forgotten);
      name.textContent = request?.id ?? id;
      if (request) show(facts, factElements(request));
      else show(facts, empty("No worker remembers this request. It may still be in the log."));
      if (request?.running) return;
      done = true;
      show(phases, await phaseElements(id, request, signal));
    },
    SECONDS,
    signal,
    () => done,
  ).first;
}

function forgotten(error) {
  if (error.status !== 404) throw error;
  return null;
}

async function phaseElements(id, request, signal) {
  const title = h("h2", { id: "phases-title" }, "Phases");
  const known = request?.id ?? id;
  const { captures } = await get("captures", {}, signal).catch(() => ({ captures: null }));
  if (captures === null) return [title, empty("Captures cannot be read.")];
  if (!captures.some((one) => one.request_id === known)) return [title, notCaptured(request)];
  if (!may("operator")) return [title, empty("It takes the role operator to see what was sent and received.")];
  const capture = readCapture(await getText(`captures/${encodeURIComponent(known)}`, signal));
  return [title, phasesTable(capture, request?.losses ?? [])];
}

function notCaptured(request) {
  const model = request?.model ?? "";
  const start = async () => {
    try {
      await startCapture({ requests: 1, model });
      announce(`The next request${model && ` for ${model}`} will be captured. Captures shows it.`);
    } catch (error) {
      announce(error.message, true);
    }
  };
  return empty(
    "This request was not captured, so what was sent and received is not known.",
    may("operator") &&
      h(
        "button",
        { type: "button", onclick: start },
        model ? `Capture the next request for ${model}` : "Capture the next request",
      ),
  );
}

function factElements(request) {
  return [
    h("p", { class: "lead" }, status(request), " ", sentence(request)),
    request.reason && h("p", { class: "error" }, request.reason),
    tiles(
      tile("Queue", duration(ms(request.queue_ms))),
      tile("Connect", request.connect_ms === null ? NONE : duration(ms(request.connect_ms)), {
        note: request.connect_ms === null ? "open connection" : "",
      }),
      tile("First byte", duration(ms(request.first_byte_ms))),
      tile("First token", duration(ms(request.first_token_ms)), { note: request.stream ? "" : "not streamed" }),
      tile("Total", duration(ms(request.total_ms))),
      tile("Input", count(request.input_tokens), { note: cached(request) }),
      tile("From the cache", percent(request.cache_hit_rate), { note: "of the input tokens" }),
      tile("Output", count(request.output_tokens), {
        note: request.reasoning_tokens ? `${count(request.reasoning_tokens)} reasoning` : "tokens",
      }),
      tile("Cost", money(request.cost, request.currency ?? "")),
    ),
    h("div", { class: "columns" }, attemptsCard(request), lossesCard(request)),
    cacheCard(request),
    verdictsCard(request),
    askedCard(request),
  ];
}

function ms(value) {
  return value === null || value === undefined ? null : value / 1000;
}

function cached(request) {
  return request.cache_read_tokens ? `${count(request.cache_read_tokens)} from the cache` : "tokens";
}

/** Return what the prompt cache has saved in the session of a request, and why not more. */
function cacheCard(request) {
  if (!request.session_requests) return null;
  const before = request.compared_with;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Prompt cache"),
    h(
      "p",
      {},
      `${count(request.cache_read_tokens)} tokens read, ${count(request.cache_write_tokens)} written, ` +
        `${count(request.fresh_tokens)} missed. Session `,
      h("a", { href: `#/requests?session=${encodeURIComponent(request.session)}` }, h("code", {}, request.session)),
      ` until then: ${plural(request.session_requests, "request")}, ${percent(request.session_hit_rate)} of ` +
        `${count(request.session_input_tokens)} input tokens read.`,
    ),
    request.cache_missed &&
      h(
        "p",
        {},
        badge("less was read than possible", "warn"),
        " Compared with ",
        h("a", { href: `#/requests/${encodeURIComponent(before)}` }, before),
        `: ${request.cache_missed}`,
      ),
  );
}

function sentence(request) {
  const how = !request.upstream ? "" : request.passed_through ? ", passed through" : ` → ${request.upstream}`;
  const target = request.provider && [" → ", h("strong", {}, `${request.provider}/${request.upstream_model}`)];
  return [
    request.client,
    how,
    " · ",
    h("strong", {}, request.model || request.path),
    target,
    request.route && ` (${request.route})`,
    request.stream ? " · streamed" : " · not streamed",
    request.key && ` · key ${request.key}`,
    request.parent && [
      " · made by a policy of ",
      h("a", { href: `#/requests/${encodeURIComponent(request.parent)}` }, request.parent),
    ],
    ` · ${time(request.began_at)}`,
  ];
}

function attemptsCard(request) {
  const total = Math.max(request.total_ms ?? 0, 1);
  const attempts = request.attempts ?? [];
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Attempts"),
    attempts.length
      ? h(
          "ol",
          { class: "attempts" },
          attempts.map((attempt) => attemptElement(attempt, total)),
        )
      : h("p", { class: "dim" }, "Nothing was sent to an upstream."),
    considered(request),
  );
}

function attemptElement(attempt, total) {
  const until = attempt.ended_ms ?? total;
  const bar = h("div", { class: ["span", attempt.why && "bad"] });
  bar.style.marginLeft = `${Math.min(100, (attempt.began_ms / total) * 100)}%`;
  bar.style.width = `${Math.max(0.5, Math.min(100, ((until - attempt.began_ms) / total) * 100))}%`;
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row" },
      h("strong", {}, `${attempt.provider}/${attempt.account}`),
      h("span", { class: "dim" }, `${attempt.model} in ${attempt.protocol || "?"}; ${attempt.chosen}`),
      h("span", { class: "push dim" }, duration(ms(until - attempt.began_ms))),
    ),
    h("div", { class: "track", "aria-hidden": "true" }, bar),
    attempt.why &&
      h(
        "div",
        {},
        attempt.status && badge(String(attempt.status), "bad"),
        " ",
        attempt.meaning || attempt.why.replaceAll("_", " "),
        attempt.consequence && h("span", { class: "dim" }, ` → ${attempt.consequence}`),
      ),
  );
}

function considered(request) {
  const skipped = (request.considered ?? []).flatMap((one) =>
    one.skipped.map((account) => ({ provider: one.provider, ...account })),
  );
  if (!skipped.length) return null;
  return h(
    "p",
    { class: "dim" },
    "Not available: ",
    skipped.map((one, index) => [
      index ? ", " : "",
      `${one.provider}/${one.account} (${String(one.why).replaceAll("_", " ")})`,
    ]),
  );
}

function lossesCard(request) {
  const losses = request.losses ?? [];
  if (!losses.length) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, "Losses"),
      h(
        "p",
        {},
        badge(hasFailed(request) ? "none declared" : "nothing was lost", hasFailed(request) ? "plain" : "good"),
      ),
    );
  }
  const made = table({
    caption: "Losses of this request",
    key: (loss) => `${loss.code} ${loss.path} ${loss.detail}`,
    columns: [
      { label: "Loss", header: true, cell: (loss) => [lossLabel(loss), h("div", { class: "dim" }, loss.severity)] },
      { label: "Where", cell: (loss) => h("code", {}, loss.path || "the request") },
      {
        label: "What was done, and what to do",
        class: "wide",
        cell: (loss) => [
          loss.instead,
          loss.detail && ` (${loss.detail})`,
          loss.advice && h("div", { class: "dim" }, loss.advice),
        ],
      },
    ],
  });
  made.update(losses);
  made.element.signature = `losses ${losses.length}`; // a running request can lose more
  const worst = TONES[request.severity];
  return h("section", { class: "card" }, h("h2", {}, "Losses ", badge(count(losses.length), worst)), made.element);
}
