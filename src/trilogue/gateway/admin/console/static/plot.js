// Plots as SVG, drawn by hand: stacked bars over time or over buckets. Each has the same figures as a table.

import { h, svg } from "./dom.js";

const HEIGHT = 190;
const MARGIN = { top: 10, right: 8, bottom: 24, left: 52 };
const LABEL_WIDTH = 58;
const WIDEST = 72;
export const COLOURS = 6;

/**
 * Return a figure that redraws itself when its width changes.
 *
 * `labels`: one per bar. `series`: {name, values}, one value per bar; null is an unknown value. `format`: how a value
 * is written. `note`: what the plot shows, below it.
 */
export function barPlot({ title, labels, series, format, note = "" }) {
  const place = h("div", { class: "plot-area" });
  const figure = h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, h("h2", {}, title), legend(series)),
    place,
    note && h("p", { class: "dim" }, note),
    figures(title, labels, series, format),
  );
  figure.signature = JSON.stringify([title, labels, series, note]);
  if (!series.some((one) => one.values.some((value) => value))) {
    place.append(h("p", { class: "dim" }, "There is nothing to show yet."));
    return figure;
  }
  let drawn = 0;
  new ResizeObserver(() => {
    const width = place.clientWidth;
    if (!width || width === drawn) return;
    drawn = width;
    place.replaceChildren(drawing({ title, labels, series, format, width }));
  }).observe(place);
  return figure;
}

function legend(series) {
  if (series.length < 2) return null;
  return h(
    "ul",
    { class: "legend" },
    series.map(({ name }, index) => h("li", {}, swatch(index), name)),
  );
}

function swatch(index) {
  return svg(
    "svg",
    { width: 10, height: 10, "aria-hidden": "true" },
    svg("rect", { width: 10, height: 10, rx: 2, class: `series-${(index % COLOURS) + 1}` }),
  );
}

function drawing({ title, labels, series, format, width }) {
  const sums = labels.map((_, bar) => series.reduce((sum, one) => sum + (one.values[bar] ?? 0), 0));
  const top = niceTop(Math.max(...sums, 0));
  const inner = { width: width - MARGIN.left - MARGIN.right, height: HEIGHT - MARGIN.top - MARGIN.bottom };
  const y = (value) => MARGIN.top + inner.height * (1 - value / top);
  const step = inner.width / Math.max(labels.length, 1);
  return svg(
    "svg",
    { width, height: HEIGHT, role: "img", "aria-label": `${title}. The figures are in the table below.` },
    ticks(top, series).map((value) => gridLine(value, y(value), width, format)),
    labels.map((label, bar) => barElement(label, bar, { series, format, step, y, sum: sums[bar] })),
    axisLabels(labels, step),
  );
}

/** Return the values with a line; half of an odd number is none if there are only whole ones. */
function ticks(top, series) {
  const whole = series.every((one) => one.values.every((value) => Number.isInteger(value ?? 0)));
  return whole && top % 2 ? [0, top] : [0, top / 2, top];
}

function gridLine(value, y, width, format) {
  return [
    svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y, class: "grid" }),
    svg("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, format(value)),
  ];
}

function barElement(label, bar, { series, format, step, y, sum }) {
  const x = MARGIN.left + bar * step;
  const wide = Math.max(1, Math.min(step * 0.85, WIDEST));
  let base = 0;
  const parts = series.map((one, index) => {
    const value = one.values[bar] ?? 0;
    const from = base;
    base += value;
    if (!value) return null;
    const size = Math.max(y(from) - y(base), 0.5);
    return svg("rect", {
      x: x + (step - wide) / 2,
      y: y(base),
      width: wide,
      height: size,
      class: `series-${(index % COLOURS) + 1}`,
    });
  });
  const lines = series.filter((one) => one.values[bar]).map((one) => `${one.name}: ${format(one.values[bar])}`);
  const text = [`${label}: ${format(sum)}`, ...(series.length > 1 ? lines : [])].join("\n");
  return svg(
    "g",
    { class: "bar" },
    svg("title", {}, text),
    svg("rect", { x, y: MARGIN.top, width: step, height: HEIGHT - MARGIN.top - MARGIN.bottom, class: "hover" }),
    parts,
  );
}

function axisLabels(labels, step) {
  const every = Math.max(1, Math.ceil(LABEL_WIDTH / step));
  return labels.map((label, bar) =>
    bar % every
      ? null
      : svg("text", { x: MARGIN.left + (bar + 0.5) * step, y: HEIGHT - 7, "text-anchor": "middle" }, label),
  );
}

function figures(title, labels, series, format) {
  const rows = labels
    .map((label, bar) => [label, bar])
    .filter(([, bar]) => series.some((one) => one.values[bar] !== 0));
  return h(
    "details",
    { class: "figures" },
    h("summary", {}, "Figures"),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `${title}: figures` },
      h(
        "table",
        { class: "compact" },
        h("caption", { class: "visually-hidden" }, title),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td"),
            series.map((one) => h("th", { scope: "col", class: "number" }, one.name)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map(([label, bar]) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, label),
              series.map((one) => h("td", { class: "number" }, format(one.values[bar]))),
            ),
          ),
        ),
      ),
      !rows.length && h("p", { class: "dim" }, "There are none."),
    ),
  );
}

/** Return a round number that is at least as large. */
export function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}
