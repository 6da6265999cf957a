// The start of the console: the session, the views and the header.

import { get, post, remove, whenSignedOut } from "./api.js";
import { h } from "./dom.js";
import { whenConnectionChanges } from "./poll.js";
import { accountsView } from "./views/accounts.js";
import { approvalsView } from "./views/approvals.js";
import { capturesView } from "./views/captures.js";
import { performanceView } from "./views/performance.js";
import { requestsView } from "./views/requests.js";
import { routesView } from "./views/routes.js";
import { usageView } from "./views/usage.js";

/**
 * Views by the first part of the address. `mount(root, {path, query}, signal)` fills the root until the signal aborts,
 * and returns a promise of the first data. `path` and `query` are the rest of the address.
 */
const VIEWS = {
  requests: requestsView,
  accounts: accountsView,
  approvals: approvalsView,
  captures: capturesView,
  usage: usageView,
  performance: performanceView,
  routes: routesView,
};
const FIRST = Object.keys(VIEWS)[0];

const element = (id) => document.getElementById(id);
let leaving = new AbortController();

async function start() {
  bindHeader();
  whenSignedOut(() => showLogin("The session has ended. Sign in again."));
  whenConnectionChanges(showConnection);
  const session = await get("console/session").catch((error) => ({ problem: error.message }));
  if (session.signed_in) enter();
  else showLogin(session.problem);
}

function bindHeader() {
  const theme = element("theme");
  theme.value = localStorage.getItem("theme") ?? "system";
  theme.addEventListener("change", () => {
    localStorage.setItem("theme", theme.value);
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
  element("nav").append(
    h(
      "ul",
      {},
      Object.entries(VIEWS).map(([name, view]) => h("li", {}, h("a", { href: `#/${name}` }, view.label))),
    ),
  );
  element("sign-out").addEventListener("click", signOut);
  element("login-form").addEventListener("submit", signIn);
  document.querySelector(".skip").addEventListener("click", (event) => {
    // The address is used for views, so the link must not change it.
    event.preventDefault();
    (element("main").querySelector("h1") ?? element("login-key")).focus();
  });
  window.addEventListener("hashchange", () => element("shell").hidden || openView());
}

async function signIn(event) {
  event.preventDefault();
  const field = element("login-key");
  element("login-error").textContent = "";
  try {
    await post("console/session", { key: field.value });
    field.value = "";
    enter();
  } catch (error) {
    element("login-error").textContent = error.message;
    field.select();
  }
}

async function signOut() {
  await remove("console/session").catch(() => {});
  showLogin("");
}

function showLogin(message) {
  leaving.abort();
  element("main").replaceChildren();
  element("shell").hidden = true;
  element("login").hidden = false;
  element("login-error").textContent = message ?? "";
  document.title = "Sign in · Trilogue";
  element("login-key").focus();
}

function enter() {
  element("login").hidden = true;
  element("shell").hidden = false;
  openView();
}

function openView() {
  const [address, search] = location.hash.replace(/^#\//, "").split("?");
  const [name, ...path] = address.split("/").map(decodeURIComponent);
  const parameters = { path, query: Object.fromEntries(new URLSearchParams(search)) };
  const view = VIEWS[name] ?? VIEWS[FIRST];
  leaving.abort();
  leaving = new AbortController();
  for (const link of element("nav").querySelectorAll("a")) {
    if (link.hash === `#/${VIEWS[name] ? name : FIRST}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const root = h("div", { class: "view", "aria-busy": "true" });
  element("main").replaceChildren(root);
  document.title = `${view.label} · Trilogue`;
  view.mount(root, parameters, leaving.signal).finally(() => root.removeAttribute("aria-busy"));
  root.querySelector("h1")?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function showConnection(state) {
  const shown = element("connection");
  const text = state === "live" ? "Live" : state;
  if (shown.textContent !== text) shown.textContent = text;
  shown.classList.toggle("bad", state !== "live");
}

start();
