// Latencies, tokens, losses and retries, from the same counts that Prometheus gets.

import { get, getText } from "../api.js";
import { empty, h, show, tile, tiles, viewTitle } from "../dom.js";
import { count, duration, NONE, short } from "../format.js";
import { barPlot } from "../plot.js";
import { poll } from "../poll.js";
import { histogram, parseMetrics, quantile, total, totalsBy } from "../prometheus.js";

const SECONDS = 5;
const DURATION = "trilogue_request_duration_seconds";
const FIRST_TOKEN = "trilogue_time_to_first_token_seconds";
const TOKEN_LIMITS = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, Infinity];

export const performanceView = { label: "Performance", mount };

function mount(root, _, signal) {
  const chosen = { model: "" };
  const summary = h("div");
  const place = h("div", { class: "columns" });
  const model = h("select", {
    id: "performance-model",
    onchange: (event) => {
      chosen.model = event.target.value;
      refresh();
    },
  });
  root.append(
    viewTitle("Performance"),
    h(
      "form",
      { class: "row end", "aria-label": "What to show" },
      h("div", { class: "field" }, h("label", { for: "performance-model" }, "Model"), model),
    ),
    summary,
    place,
  );
  const { refresh, first } = poll(
    async () => {
      const text = await getText("metrics", signal).catch(unavailable);
      if (text === null) {
        show(place, empty("Metrics are off (admin.metrics)."));
        return;
      }
      const samples = parseMetrics(text);
      const { requests } = await get("requests", { limit: 1000, running: "false" }, signal);
      showModels(model, samples, chosen.model);
      show(summary, figures(samples, chosen));
      show(place, ...plots(samples, requests, chosen));
    },
    SECONDS,
    signal,
  );
  return first;
}

function unavailable(error) {
  if (error.status !== 404) throw error;
  return null;
}

function showModels(select, samples, chosen) {
  const names = totalsBy(samples, `${DURATION}_count`, "model")
    .map(([name]) => name)
    .filter((name) => name && name !== "none");
  show(
    select,
    h("option", { value: "" }, "All models"),
    names.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
}

function wanted(chosen) {
  return (labels) => (!chosen.model || labels.model === chosen.model) && (labels.endpoint ?? "generate") === "generate";
}

function figures(samples, chosen) {
  const durations = histogram(samples, DURATION, wanted(chosen));
  const tokens = histogram(samples, FIRST_TOKEN, wanted(chosen));
  const lag = histogram(samples, "trilogue_event_loop_lag_seconds");
  const of = (buckets, share) => (quantile(buckets, share) === null ? NONE : duration(quantile(buckets, share)));
  return tiles(
    tile("First token, median", of(tokens, 0.5), { note: `95 %: ${of(tokens, 0.95)}` }),
    tile("Duration, median", of(durations, 0.5), { note: `95 %: ${of(durations, 0.95)}` }),
    tile("Requests", count(total(samples, "trilogue_requests_total", wanted(chosen))), { note: "since the start" }),
    tile("Retries", count(total(samples, "trilogue_retries_total")), { note: "all models" }),
    tile("Open streams", count(total(samples, "trilogue_open_streams"))),
    tile(
      "Workers",
      `${count(total(samples, "trilogue_workers"))}/${count(total(samples, "trilogue_workers_expected"))}`,
    ),
    tile("Event loop lag, 99 %", of(lag, 0.99)),
  );
}

function plots(samples, requests, chosen) {
  const some = requests.filter(
    (one) => !chosen.model || one.model === chosen.model || one.upstream_model === chosen.model,
  );
  const kinds = totalsBy(samples, "trilogue_tokens_total", "kind");
  const losses = totalsBy(samples, "trilogue_losses_total", "code").slice(0, 12);
  const failures = totalsBy(samples, "trilogue_attempt_failures_total", "reason")
    .slice(0, 8)
    .map(([name, value]) => [name.replaceAll("_", " "), value]);
  return [
    seconds(
      "Time to first token",
      histogram(samples, FIRST_TOKEN, wanted(chosen)),
      "Streams since the start of the gateway.",
    ),
    seconds(
      "Duration of requests",
      histogram(samples, DURATION, wanted(chosen)),
      "Requests since the start of the gateway.",
    ),
    sizes(
      "Input tokens per request",
      some.map((one) => one.input_tokens),
    ),
    sizes(
      "Output tokens per request",
      some.map((one) => one.output_tokens),
    ),
    card({
      title: "Tokens by kind",
      labels: kinds.map(([name]) => name.replaceAll("_", " ")),
      series: [{ name: "Tokens", values: kinds.map(([, value]) => value) }],
      format: short,
      note: "All models, since the start of the gateway.",
    }),
    ranking("Requests with losses, by code", losses, "Nothing was lost since the start of the gateway."),
    ranking("Failed attempts, by reason", failures, "No attempt has failed since the start of the gateway."),
  ];
}

function seconds(title, buckets, note) {
  const used = trimmed(buckets);
  return card({
    title,
    note,
    format: count,
    series: [{ name: "Requests", values: used.map((one) => one.count) }],
    labels: used.map((one) =>
      one.limit === Infinity ? "more" : `≤ ${one.limit < 1 || one.limit > 60 ? duration(one.limit) : `${one.limit} s`}`,
    ),
  });
}

function sizes(title, values) {
  const known = values.filter((value) => value !== null);
  const counts = TOKEN_LIMITS.map(
    (limit, index) => known.filter((value) => value <= limit && value > (TOKEN_LIMITS[index - 1] ?? -1)).length,
  );
  return card({
    title,
    format: count,
    series: [{ name: "Requests", values: counts }],
    labels: TOKEN_LIMITS.map((limit) => (limit === Infinity ? "more" : `≤ ${short(limit)}`)),
    note: `The latest ${count(known.length)} requests.`,
  });
}

/** Return the buckets without empty ones at both ends. */
function trimmed(buckets) {
  const used = buckets.map((one) => one.count > 0);
  const [from, to] = [used.indexOf(true), used.lastIndexOf(true)];
  return from < 0 ? buckets : buckets.slice(Math.max(0, from - 1), to + 2);
}

function card(plot) {
  return h("section", { class: "card" }, barPlot(plot));
}

/** Return names with their counts as horizontal bars, which leave room for long names. */
function ranking(title, rows, none) {
  const largest = Math.max(...rows.map(([, value]) => value), 1);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    rows.length
      ? h(
          "ul",
          { class: "ranking" },
          rows.map(([name, value]) => {
            const bar = h("div", { class: "span" });
            bar.style.width = `${(value / largest) * 100}%`;
            return h(
              "li",
              {},
              h("span", {}, name),
              h("span", { class: "number" }, count(value)),
              h("div", { class: "track", "aria-hidden": "true" }, bar),
            );
          }),
        )
      : h("p", { class: "dim" }, none),
  );
}
