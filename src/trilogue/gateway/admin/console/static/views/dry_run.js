// The form that shows where a pasted request would go and what it would lose. Nothing is sent.

import { get, post } from "../api.js";
import { badge, h, show } from "../dom.js";
import { plural } from "../format.js";
import { hasPath, jsonDocument, lossLabel, TONES } from "../json.js";
import { table } from "../table.js";

const PROTOCOLS = [
  ["", "Detect"],
  ["chat", "Chat Completions"],
  ["messages", "Messages"],
  ["responses", "Responses"],
];
const EXAMPLE = {
  model: "",
  max_tokens: 1024,
  top_k: 40,
  system: [{ type: "text", text: "You are a careful assistant.", cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: "What is the capital of France?" }],
};

/** Return the form with a place for its result. */
export function dryRunForm(signal) {
  const result = h("div", { class: "view", "aria-live": "polite" });
  const request = h("textarea", {
    id: "request",
    rows: "10",
    spellcheck: "false",
    required: true,
    placeholder: '{"model": "…", "messages": [{"role": "user", "content": "…"}]}',
  });
  const protocol = h(
    "select",
    { id: "protocol" },
    PROTOCOLS.map(([value, label]) => h("option", { value }, label)),
  );
  const submit = async (event) => {
    event.preventDefault();
    try {
      const report = await post("dry-run", { request: request.value, protocol: protocol.value }, signal);
      show(result, reportElements(report, request.value));
    } catch (error) {
      if (error.name !== "AbortError") show(result, h("p", { class: "error" }, error.message));
    }
  };
  const fill = async () => {
    const served = (await get("routes", {}, signal)).served.filter((name) => !/[*<^]/.test(name));
    request.value = JSON.stringify({ ...EXAMPLE, model: served[0] ?? "demo" }, null, 2);
    protocol.value = "";
    request.setSelectionRange(0, 0);
    request.focus();
  };
  const form = h(
    "form",
    { onsubmit: submit },
    h("label", { for: "request" }, "A request, as a client sends it. It is checked, not sent."),
    request,
    h(
      "div",
      { class: "row" },
      h("label", { for: "protocol" }, "Protocol"),
      protocol,
      h("button", { type: "submit", class: "primary" }, "Check"),
      h("button", { type: "button", class: "quiet", onclick: fill }, "Use an example"),
    ),
  );
  return h(
    "section",
    { class: "card view", "aria-labelledby": "dry-run-title" },
    h("h2", { id: "dry-run-title" }, "Where would this request go, and what would it lose?"),
    form,
    result,
  );
}

function reportElements(report, text) {
  const parts = [verdict(report)];
  if (report.refers_to_state) {
    parts.push(
      h("p", { class: "dim" }, "The request continues a stored response. Its history is not part of this check."),
    );
  }
  (report.targets ?? []).forEach((target, index) => parts.push(targetElement(target, index, parsed(text))));
  return parts;
}

function verdict(report) {
  if (report.problem) {
    const { status, code, message, path } = report.problem;
    return h(
      "p",
      {},
      badge(`${status} ${code}`, "bad"),
      " The client would get: ",
      message,
      path && [" (", h("code", {}, path), ")"],
    );
  }
  return h(
    "p",
    {},
    badge(report.protocol, "info"),
    report.guessed && " (detected) ",
    " asks for ",
    h("strong", {}, report.model),
    report.stream ? ", streamed. " : ". ",
    "Matched by ",
    h("strong", {}, report.matched),
    ".",
  );
}

function targetElement(target, index, original) {
  const title = h("h3", {}, index ? `Fallback ${index}: ` : "", `${target.provider}/${target.model}`);
  const accounts = accountSteps(target.accounts);
  if (target.problem) {
    const { code, message } = target.problem;
    return h(
      "section",
      { class: "view" },
      title,
      h("p", {}, badge(code, "bad"), ` cannot be sent here: ${message}`),
      accounts,
    );
  }
  // A loss is shown in the client's request, or in the upstream's if it is about a value that was filled in.
  const filledIn = target.losses.filter((loss) => !hasPath(original, loss.path) && hasPath(target.body, loss.path));
  const own = target.losses.filter((loss) => !filledIn.includes(loss));
  return h(
    "section",
    { class: "view" },
    title,
    h(
      "p",
      {},
      target.passed_through ? "Passed through as it is" : `Translated to ${target.protocol}`,
      ", sent to ",
      h("code", {}, target.url),
      ". ",
      lossSummary(target.losses),
    ),
    accounts,
    target.losses.length > 0 && lossTable(target.losses),
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        h("h4", { class: "dim" }, "The client's request"),
        jsonDocument(original, own, "The client's request"),
      ),
      h(
        "div",
        {},
        h("h4", { class: "dim" }, "What the upstream would get"),
        jsonDocument(target.body, filledIn, "What the upstream would get"),
      ),
    ),
  );
}

function accountSteps(accounts) {
  const chosen = accounts.filter((one) => one.chosen);
  const unused = accounts.filter((one) => !one.chosen);
  const written = (one) => [
    h("strong", {}, one.account),
    " ",
    one.state !== "ready" && badge(one.state, "warn"),
    one.chosen === "sticky" && h("span", { class: "dim" }, " the conversation's own account"),
    one.chosen === "last_resort" && h("span", { class: "dim" }, " only because no other is available"),
  ];
  return h(
    "div",
    {},
    chosen.length
      ? h("p", { class: "dim" }, "Accounts, in the order in which they would be tried:")
      : h("p", {}, badge("no account", "bad"), " None is available now."),
    h(
      "ol",
      { class: "steps" },
      chosen.map((one) => h("li", {}, written(one))),
    ),
    unused.length > 0 &&
      h(
        "p",
        { class: "dim" },
        "Not tried: ",
        unused.map((one, index) => [
          index ? ", " : "",
          `${one.account} (${one.why?.replaceAll("_", " ") ?? one.state})`,
        ]),
      ),
  );
}

function lossSummary(losses) {
  if (!losses.length) return badge("nothing is lost", "good");
  const refused = losses.some((loss) => loss.refused_if_strict);
  return [
    badge(plural(losses.length, "loss", "losses"), refused ? "warn" : "info"),
    refused ? " Strict mode would refuse it." : " Strict mode would accept it.",
  ];
}

function lossTable(losses) {
  const made = table({
    caption: "Losses of this translation",
    key: (loss) => `${loss.code} ${loss.path} ${loss.detail}`,
    columns: [
      { label: "Loss", header: true, cell: (loss) => lossLabel(loss) },
      { label: "Severity", cell: (loss) => badge(loss.severity, TONES[loss.severity]) },
      { label: "Where", cell: (loss) => h("code", {}, loss.path || "the request") },
      {
        label: "What it is",
        class: "wide",
        cell: (loss) => [loss.when, loss.detail && h("div", { class: "dim" }, loss.detail)],
      },
      {
        label: "What is done, and what to do",
        class: "wide",
        cell: (loss) => [loss.instead, h("div", { class: "dim" }, loss.advice)],
      },
    ],
  });
  made.update(losses);
  return made.element;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
