// Tables that are updated in place: rows that have not changed keep their elements, and with them focus and selection.

import { focusOf, h } from "./dom.js";

/**
 * Return a table and its `update(rows)`. Roles are written out, because phones show rows as blocks, and browsers then
 * forget that it is a table.
 *
 * `columns`: {label, cell(row) → content, class}. `key(row)`: what identifies a row. `rowClass(row)`: its classes.
 */
export function table({ caption, columns, key, rowClass = () => "", className = "" }) {
  const body = h("tbody", { role: "rowgroup" });
  const heads = columns.map((column) =>
    h("th", { role: "columnheader", scope: "col", class: column.class }, column.label),
  );
  const element = h(
    "table",
    { role: "table", class: className },
    h("caption", { class: "visually-hidden" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
    body,
  );
  const kept = new Map();

  function update(rows) {
    const fresh = rows.map((row) => rowFor(row));
    const wanted = new Set(rows.map(key));
    for (const name of kept.keys()) if (!wanted.has(name)) kept.delete(name);
    if (fresh.length === body.children.length && fresh.every((row, index) => row === body.children[index])) return;
    const focus = focusOf(body);
    body.replaceChildren(...fresh);
    if (focus) body.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
  }

  function rowFor(row) {
    const name = key(row);
    const made = h(
      "tr",
      { role: "row", class: rowClass(row) },
      columns.map((column) => cellFor(column, row)),
    );
    const before = kept.get(name);
    if (before?.isEqualNode(made)) return before;
    kept.set(name, made);
    return made;
  }

  const place = h("div", { class: "table" }, element);
  place.signature = caption; // it changes itself
  return { element: place, update };
}

function cellFor(column, row) {
  const tag = column.header ? "th" : "td";
  const attributes = { role: column.header ? "rowheader" : "cell", class: column.class, "data-label": column.label };
  return h(tag, column.header ? { ...attributes, scope: "row" } : attributes, column.cell(row));
}
