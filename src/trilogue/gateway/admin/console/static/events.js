// Server-sent events: reading them from pieces of a stream, and one line for each with what it says.

import { h } from "./dom.js";
import { jsonDocument, lossLabel } from "./json.js";

const LONGEST = 160;

/** Reads events from pieces of text that may be cut anywhere. */
export class EventReader {
  #rest = "";

  /** Return the events that are complete with this piece: {name, data, json}. Comments have a name that begins with a colon. */
  feed(text) {
    const all = this.#rest + text;
    const end = all.endsWith("\r") ? all.length - 1 : all.length; // its line feed may be in the next piece
    const parts = all.slice(0, end).replace(/\r\n?/g, "\n").split("\n\n");
    this.#rest = parts.pop() + all.slice(end);
    return parts.filter((part) => part.trim()).map(read);
  }
}

function read(part) {
  let name = "";
  const data = [];
  for (const line of part.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    else if (line.startsWith(":")) name = line;
  }
  const text = data.join("\n");
  return { name, data: text, json: parsed(text) };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Return one event as a line that opens to its JSON. `losses`: those that are about a value in it, which are marked. */
export function eventElement(event, losses) {
  const [kind, text] = gist(event);
  const line = [
    h("span", { class: "kind" }, kind),
    text && h("span", { class: "said" }, shortened(text)),
    losses.map((loss) => lossLabel(loss)),
  ];
  if (!event.json) return h("li", { class: losses.length && `lost ${losses[0].severity}` }, line);
  const details = h(
    "details",
    {
      ontoggle: () => {
        if (details.open && details.children.length === 1)
          details.append(jsonDocument(event.json, losses, `Event ${kind}`));
      },
    },
    h("summary", {}, line),
  );
  return h("li", { class: losses.length && `lost ${losses[0].severity}` }, details);
}

function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

/** Return the kind of an event and what it adds, for any of the protocols. */
function gist({ name, data, json }) {
  if (!json) return [name || data, ""];
  if (Array.isArray(json.choices)) return chatGist(json);
  const kind = json.type ?? (name || "event");
  const delta = json.delta;
  if (typeof delta === "string") return [kind, delta];
  const block = json.content_block ?? json.item ?? json.part;
  const text = delta?.text ?? delta?.thinking ?? delta?.partial_json ?? delta?.stop_reason ?? json.error?.message;
  return [kind, text ?? [block?.type, block?.name].filter(Boolean).join(" ")];
}

function chatGist(json) {
  const [choice] = json.choices;
  const delta = choice?.delta ?? {};
  const call = delta.tool_calls?.[0]?.function;
  if (call) return ["tool call", [call.name, call.arguments].filter(Boolean).join(" ")];
  if (delta.reasoning_content) return ["reasoning", delta.reasoning_content];
  if (delta.content) return ["text", delta.content];
  if (choice?.finish_reason) return ["end", choice.finish_reason];
  return [json.usage ? "usage" : "chunk", json.usage ? "" : Object.keys(delta).join(", ")];
}
