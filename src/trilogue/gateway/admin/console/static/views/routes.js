// Routes: what would become of a request, what a model name resolves to, and what is configured.

import { get } from "../api.js";
import { badge, empty, h, show, viewTitle } from "../dom.js";
import { plural } from "../format.js";
import { dryRunForm } from "./dry_run.js";

export const routesView = { label: "Routes", mount };

function mount(root, _, signal) {
  const known = h("div", { class: "columns" });
  const models = h("datalist", { id: "models" });
  root.append(viewTitle("Routes"), dryRunForm(signal), nameForm(signal), known, models);
  return get("routes", {}, signal).then(
    (routes) => {
      known.replaceChildren(...configuration(routes));
      models.replaceChildren(
        ...routes.served.filter((name) => !/[*<^]/.test(name)).map((name) => h("option", { value: name })),
      );
    },
    (error) => error.name === "AbortError" || known.replaceChildren(empty(error.message)),
  );
}

function nameForm(signal) {
  const result = h("p", { "aria-live": "polite" });
  const name = h("input", { id: "model-name", type: "text", list: "models", required: true, spellcheck: "false" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      const found = await get(`routes/${encodeURIComponent(name.value.trim())}`, {}, signal);
      show(
        result,
        h("strong", {}, found.model),
        " goes to ",
        found.targets.map((target, index) => [index ? ", then " : "", h("code", {}, target)]),
        ` (${found.matched}).`,
      );
    } catch (error) {
      if (error.name !== "AbortError") show(result, h("span", { class: "error" }, error.message));
    }
  };
  return h(
    "section",
    { class: "card", "aria-labelledby": "name-title" },
    h("h2", { id: "name-title" }, "What does a model name resolve to?"),
    h(
      "form",
      { class: "row end", onsubmit: submit },
      h("div", { class: "field grow" }, h("label", { for: "model-name" }, "Model name"), name),
      h("button", { type: "submit" }, "Resolve"),
    ),
    result,
  );
}

function configuration(routes) {
  const arrow = (targets) => targets.map((target, index) => [index ? ", then " : "", h("code", {}, target)]);
  const list = (title, rows, note) =>
    h(
      "section",
      { class: "card" },
      h("h2", {}, title),
      rows.length
        ? h(
            "ul",
            { class: "plain" },
            rows.map((row) => h("li", {}, row)),
          )
        : h("p", { class: "dim" }, note),
    );
  return [
    list(
      "Routes",
      routes.routes.map((one) => [h("code", {}, one.match), " → ", arrow(one.targets)]),
      "None are configured.",
    ),
    list(
      "Aliases",
      Object.entries(routes.aliases).map(([name, to]) => [h("code", {}, name), " → ", h("code", {}, to)]),
      "None are configured.",
    ),
    list(
      "Providers",
      routes.providers.map((one) => [
        h("strong", {}, one.name),
        " ",
        one.protocols.map((name) => [badge(name), " "]),
        h("span", { class: "dim" }, [
          plural(one.accounts, "account"),
          one.models.length > 0 && `, ${plural(one.models.length, "model")}`,
          one.name === routes.default_provider && ", default",
        ]),
      ]),
      "None are configured.",
    ),
  ];
}
