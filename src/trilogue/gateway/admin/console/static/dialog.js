// Questions before something is done: a dialog that takes the focus, and gives it back.

import { h } from "./dom.js";

/**
 * Ask a question, and return a promise of the form's data; null if it was cancelled.
 * `title`, `text`: what it is about. `fields`: elements. `action`: the label of the button. `danger`: it cannot be undone.
 */
export function ask({ title, text, fields = [], action, danger = false }) {
  return new Promise((resolve) => {
    let given = null;
    const form = h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          given = new FormData(form);
          dialog.close();
        },
      },
      h("h2", { id: "dialog-title" }, title),
      h("p", {}, text),
      fields,
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit", class: danger ? "danger" : "primary" }, action),
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      ),
    );
    const dialog = h("dialog", { class: "card", "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
