// The four phases of a captured request, side by side: each row is a moment, so that causes stand next to effects.

import { badge, h } from "./dom.js";
import { duration, plural } from "./format.js";
import { hasPath, jsonDocument, lossLabel, textDocument } from "./json.js";
import { eventElement, EventReader } from "./events.js";

const PHASES = {
  inbound_request: "What the client sent",
  provider_request: "What the upstream got",
  upstream_response: "What came back",
  outbound_response: "What the client got",
};
const NAMES = Object.keys(PHASES);
const FIRST_ROWS = 150;

/** Return a capture: its head, the lines of the phases, and its end. The file has one JSON object per line. */
export function readCapture(text) {
  const [head, ...lines] = text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
  return { head, lines: lines.filter((line) => line.phase), end: lines.find((line) => line.end) ?? null };
}

/** Return the table. `losses`: of the whole request; each is marked at the place that it is about. */
export function phasesTable(capture, losses) {
  const context = lossPlaces(capture, losses);
  const rows = moments(capture.lines);
  const body = h(
    "tbody",
    { role: "rowgroup" },
    rows.slice(0, FIRST_ROWS).map((row) => rowElement(row, context)),
  );
  const rest = rows.slice(FIRST_ROWS);
  const more =
    rest.length > 0 &&
    h(
      "button",
      {
        type: "button",
        onclick: (event) => {
          body.append(...rest.map((row) => rowElement(row, context)));
          event.target.remove();
        },
      },
      `Show ${plural(rest.length, "further moment")}`,
    );
  return h(
    "div",
    { class: "view" },
    remarks(capture, context),
    h(
      "div",
      { class: "table" },
      h(
        "table",
        { role: "table", class: "phases" },
        h("caption", { class: "visually-hidden" }, "The phases of the request; each row is a moment"),
        h(
          "thead",
          { role: "rowgroup" },
          h(
            "tr",
            { role: "row" },
            h("th", { role: "columnheader", scope: "col" }, "Time"),
            NAMES.map((name) =>
              h("th", { role: "columnheader", scope: "col" }, PHASES[name], h("div", { class: "mono" }, name)),
            ),
          ),
        ),
        body,
      ),
    ),
    more,
  );
}

/** Return the lines as rows with one list per phase. A row ends where the data flows back to an earlier phase. */
function moments(lines) {
  const rows = [];
  let last = Infinity;
  for (const line of [...lines].sort((a, b) => a.at - b.at)) {
    const phase = NAMES.indexOf(line.phase);
    if (phase < 0) continue;
    if (phase < last || startsAgain(rows.at(-1), line, phase)) rows.push({ at: line.at, cells: NAMES.map(() => []) });
    rows.at(-1).cells[phase].push(line);
    last = phase;
  }
  const readers = new Map();
  for (const row of rows) row.cells = row.cells.map((cell) => cell.map((line) => readLine(line, readers)));
  return rows;
}

function startsAgain(row, line, phase) {
  // A new piece of a stream that the other side did not react to yet is a moment of its own.
  const before = row?.cells[phase].at(-1);
  return Boolean(before && !before.status && !line.status && line.at - before.at > 0.02);
}

/** Return a line with the events that its text completes, if it belongs to a stream. */
function readLine(line, readers) {
  const name = `${line.phase} ${line.attempt ?? 0}`;
  if (line.status) {
    const type = line.headers?.["content-type"] ?? "";
    readers.set(name, type.includes("event-stream") ? new EventReader() : null);
  }
  return { ...line, events: readers.get(name)?.feed(line.text ?? "") ?? null };
}

/** Return where each loss is shown: in the client's request, in the upstream's, in a response, or above the table. */
function lossPlaces(capture, losses) {
  const known = losses.length ? losses : capture.lines.flatMap((line) => line.plan?.losses ?? []);
  const inbound = parsed(capture.lines.find((line) => line.phase === "inbound_request")?.text);
  const sent = capture.lines.filter((line) => line.phase === "provider_request").map((line) => parsed(line.text));
  const ofRequest = new Set(
    capture.lines.flatMap((line) => line.plan?.losses ?? []).map((loss) => `${loss.code} ${loss.path}`),
  );
  const places = { inbound: [], provider: [], response: [], marked: new Set() };
  for (const loss of known) {
    if (ofRequest.size && !ofRequest.has(`${loss.code} ${loss.path}`)) places.response.push(loss);
    else if (!hasPath(inbound, loss.path) && sent.some((body) => hasPath(body, loss.path))) places.provider.push(loss);
    else places.inbound.push(loss);
  }
  return places;
}

function remarks(capture, places) {
  return h(
    "div",
    {},
    capture.head.redacted && h("p", { class: "dim" }, "The texts of this capture are redacted."),
    capture.end === null && h("p", { class: "dim" }, "This capture was not written to its end."),
    capture.end?.omitted > 0 &&
      h("p", { class: "dim" }, `${plural(capture.end.omitted, "byte")} did not fit into the capture.`),
    places.response.length > 0 &&
      h(
        "p",
        {},
        "Lost in the response: ",
        places.response.map((loss) => [lossLabel(loss), h("code", {}, loss.path), " "]),
      ),
  );
}

function rowElement(row, places) {
  return h(
    "tr",
    { role: "row" },
    h("th", { role: "rowheader", scope: "row", class: "nowrap dim" }, duration(row.at)),
    row.cells.map((lines, phase) =>
      h(
        "td",
        { role: "cell", "data-label": PHASES[NAMES[phase]] },
        lines.map((line) => lineElement(line, places)),
      ),
    ),
  );
}

function lineElement(line, places) {
  return h(
    "div",
    { class: "piece" },
    line.attempt > 0 &&
      line.phase === "provider_request" &&
      h(
        "div",
        {},
        badge(`attempt ${line.attempt}`, "info"),
        " ",
        line.plan && h("span", { class: "dim" }, `${line.plan.provider}/${line.plan.account}`),
      ),
    line.method && h("div", { class: "mono" }, `${line.method} ${line.url}`),
    line.status && h("div", {}, badge(String(line.status), line.status < 400 ? "good" : "bad")),
    line.error && h("div", { class: "error" }, line.error),
    line.headers && headersElement(line.headers),
    line.omitted > 0 && h("div", { class: "dim" }, `${plural(line.omitted, "byte")} left out`),
    line.base64 && h("div", { class: "dim" }, "bytes that are not text"),
    bodyElement(line, places),
  );
}

function headersElement(headers) {
  const entries = Object.entries(headers);
  if (!entries.length) return null;
  return h(
    "details",
    {},
    h("summary", {}, plural(entries.length, "header")),
    h(
      "dl",
      { class: "headers" },
      entries.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

function bodyElement(line, places) {
  if (!line.text) return null;
  if (line.events)
    return h(
      "ul",
      { class: "events" },
      line.events.map((event) => eventElement(event, lostIn(event, line, places))),
    );
  const body = parsed(line.text);
  if (body === undefined) return textDocument(line.text, PHASES[line.phase]);
  const losses =
    { inbound_request: places.inbound, provider_request: places.provider }[line.phase] ??
    (line.phase === "upstream_response" ? places.response : []);
  return jsonDocument(body, losses, PHASES[line.phase]);
}

/** Return the losses that are about a value in an event of the upstream. Each is marked in the first one that has it. */
function lostIn(event, line, places) {
  if (line.phase !== "upstream_response" || !event.json) return [];
  const found = places.response.filter(
    (loss) => loss.path && !places.marked.has(loss) && hasPath(event.json, loss.path),
  );
  found.forEach((loss) => places.marked.add(loss));
  return found;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
