// Usage and cost over time, by model, key, account or provider.

import { get } from "../api.js";
import { empty, h, show, tile, tiles, viewTitle } from "../dom.js";
import { count, money, percent, plural, short } from "../format.js";
import { barPlot, COLOURS } from "../plot.js";
import { poll } from "../poll.js";
import { table } from "../table.js";

const SECONDS = 15;
const RANGES = {
  "24h": ["hour", "Last 24 hours"],
  "7d": ["day", "Last 7 days"],
  "30d": ["day", "Last 30 days"],
  "90d": ["day", "Last 90 days"],
};
const GROUPS = { model: "Model", key: "Client key", account: "Account", provider: "Provider" };
const MEASURES = {
  cost: ["Cost in dollars", (row) => row.cost, (value) => money(value)],
  requests: ["Requests", (row) => row.requests, count],
  input: ["Input tokens", (row) => row.input_tokens, short],
  output: ["Output tokens", (row) => row.output_tokens, short],
};

export const usageView = { label: "Usage", mount };

function mount(root, _, signal) {
  const chosen = { since: "7d", by: "model", measure: "cost" };
  const summary = h("div");
  const place = h("div", { class: "view" });
  root.append(
    viewTitle("Usage and cost"),
    controls(chosen, () => refresh()),
    summary,
    place,
  );
  const { refresh, first } = poll(
    async () => {
      const [step] = RANGES[chosen.since];
      const usage = await get("usage", { by: `${step},${chosen.by}`, since: chosen.since }, signal).catch(unavailable);
      if (usage.problem) {
        show(summary, null);
        show(place, empty(usage.problem));
        return;
      }
      show(summary, totals(usage.total));
      show(place, ...shownUsage(usage, step, chosen));
    },
    SECONDS,
    signal,
  );
  return first;
}

function unavailable(error) {
  if (error.status !== 404) throw error;
  return { problem: error.message };
}

function controls(chosen, changed) {
  const select = (name, label, options) =>
    h(
      "div",
      { class: "field" },
      h("label", { for: `usage-${name}` }, label),
      h(
        "select",
        {
          id: `usage-${name}`,
          onchange: (event) => {
            chosen[name] = event.target.value;
            changed();
          },
        },
        options.map(([value, text]) => h("option", { value, selected: chosen[name] === value }, text)),
      ),
    );
  return h(
    "form",
    { class: "row end", "aria-label": "What to show", onsubmit: (event) => event.preventDefault() },
    select(
      "since",
      "Time",
      Object.entries(RANGES).map(([value, [, text]]) => [value, text]),
    ),
    select("by", "By", Object.entries(GROUPS)),
    select(
      "measure",
      "Plot",
      Object.entries(MEASURES).map(([value, [text]]) => [value, text]),
    ),
  );
}

function totals(total) {
  return tiles(
    tile("Cost", total.cost === null ? "unknown" : money(total.cost), {
      note: total.unpriced_requests ? `USD, without ${count(total.unpriced_requests)} of unknown cost` : "USD",
    }),
    tile("Requests", count(total.requests), { note: `${count(total.errors)} failed`, tone: "" }),
    tile("Input", short(total.input_tokens), { note: "tokens" }),
    tile("From the cache", percent(share(total)), { note: "of the input tokens" }),
    tile("Output", short(total.output_tokens), {
      note: total.reasoning_tokens ? `${short(total.reasoning_tokens)} reasoning` : "tokens",
    }),
    tile("Searches", count(total.searches)),
  );
}

function share(row) {
  return row.input_tokens ? row.cache_read_tokens / row.input_tokens : null;
}

function shownUsage(usage, step, chosen) {
  if (!usage.usage.length) return [empty("Nothing was used in this time.")];
  const [title, value, format] = MEASURES[chosen.measure];
  const times = timesOf(step, chosen.since);
  const groups = grouped(usage.usage, chosen.by);
  groups.sort((a, b) => (value(b.sum) ?? 0) - (value(a.sum) ?? 0));
  const named = groups.slice(0, groups.length > COLOURS ? COLOURS - 1 : COLOURS);
  const others = groups.slice(named.length);
  const series = named.map((group) => ({ name: group.name || "none", values: valuesOf([group], times, step, value) }));
  if (others.length) series.push({ name: `${others.length} others`, values: valuesOf(others, times, step, value) });
  return [
    h(
      "section",
      { class: "card" },
      barPlot({
        title: `${title} by ${step}`,
        labels: times.map((one) => label(one, step)),
        series,
        format,
        note: noteOn(usage, chosen),
      }),
    ),
    sums(groups, chosen.by),
  ];
}

function noteOn({ total }, { measure }) {
  const unknown = measure === "cost" ? total.unpriced_requests : 0;
  return `Times are UTC.${unknown ? ` Without ${plural(unknown, "request")} of unknown cost.` : ""}`;
}

/** Return the times of all bars, so that times without usage have a place too. */
function timesOf(step, since) {
  const seconds = step === "hour" ? 3600 : 86400;
  const number = parseInt(since, 10) + 1;
  const last = Math.floor(Date.now() / 1000 / seconds);
  return Array.from({ length: number }, (_, index) => {
    const text = new Date((last - number + 1 + index) * seconds * 1000).toISOString();
    return step === "hour" ? `${text.slice(0, 13)}:00Z` : text.slice(0, 10);
  });
}

function label(text, step) {
  return step === "hour" ? text.slice(11, 16) : text.slice(5);
}

function grouped(rows, by) {
  const groups = new Map();
  for (const row of rows) {
    const group = groups.get(row[by]) ?? { name: row[by], rows: [], sum: {} };
    group.rows.push(row);
    for (const [name, value] of Object.entries(row)) {
      if (typeof value === "number") group.sum[name] = (group.sum[name] ?? 0) + value;
      else if (value === null) group.sum[name] ??= null;
    }
    groups.set(row[by], group);
  }
  return [...groups.values()];
}

function valuesOf(groups, times, step, value) {
  const found = new Map();
  for (const row of groups.flatMap((group) => group.rows)) {
    const sum = found.get(row[step]) ?? null;
    found.set(row[step], value(row) === null ? sum : (sum ?? 0) + value(row));
  }
  return times.map((one) => (found.has(one) ? found.get(one) : 0));
}

function sums(groups, by) {
  const made = table({
    caption: `Usage by ${GROUPS[by].toLowerCase()}`,
    key: (group) => group.name,
    columns: [
      { label: GROUPS[by], header: true, cell: (group) => group.name || "none" },
      { label: "Requests", class: "number", cell: ({ sum }) => count(sum.requests) },
      { label: "Failed", class: "number", cell: ({ sum }) => count(sum.errors) },
      { label: "Input", class: "number", cell: ({ sum }) => count(sum.input_tokens) },
      { label: "Cache read", class: "number", cell: ({ sum }) => count(sum.cache_read_tokens) },
      { label: "Cache write", class: "number", cell: ({ sum }) => count(sum.cache_write_tokens) },
      { label: "Hit rate", class: "number", cell: ({ sum }) => percent(share(sum)) },
      { label: "Output", class: "number", cell: ({ sum }) => count(sum.output_tokens) },
      {
        label: "Cost",
        class: "number",
        cell: ({ sum }) => [
          money(sum.cost),
          sum.cost !== null &&
            sum.unpriced_requests > 0 &&
            h("div", { class: "dim" }, `${count(sum.unpriced_requests)} unknown`),
        ],
      },
    ],
  });
  made.update(groups);
  return made.element;
}
