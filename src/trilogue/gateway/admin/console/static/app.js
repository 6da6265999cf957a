// The start of the console: the session, the views and the header.

import { may, setCaller, whoAmI } from "./access.js";
import { get, post, remove, whenSignedOut } from "./api.js";
import { badge, h } from "./dom.js";
import { whenConnectionChanges } from "./poll.js";
import { accountsView } from "./views/accounts.js";
import { approvalsView } from "./views/approvals.js";
import { auditView } from "./views/audit.js";
import { capturesView } from "./views/captures.js";
import { keysView } from "./views/keys.js";
import { performanceView } from "./views/performance.js";
import { requestsView } from "./views/requests.js";
import { routesView } from "./views/routes.js";
import { usageView } from "./views/usage.js";

/**
 * Views by the first part of the address. `mount(root, {path, query}, signal)` fills the root until the signal aborts,
 * and returns a promise of the first data. `path` and `query` are the rest of the address. `role`: who may see it.
 */
const VIEWS = {
  requests: requestsView,
  accounts: accountsView,
  approvals: approvalsView,
  captures: capturesView,
  usage: usageView,
  performance: performanceView,
  routes: routesView,
  keys: keysView,
  audit: auditView,
};
const FIRST = Object.keys(VIEWS)[0];
/** What went wrong with single sign-on, by the code in the address. */
const PROBLEMS = {
  sign_on_failed: "Single sign-on has failed. The log of the gateway says why.",
  sign_on_expired: "This sign-in has expired or was used before. Try again.",
  provider_away: "The sign-on provider does not respond. Try again later, or use a key.",
  store_away: "The gateway cannot reach its database. Try again later, or use a key.",
  no_role: "You have no role here. Ask an administrator for one.",
};
const RETURN = "return-to";

const element = (id) => document.getElementById(id);
let leaving = new AbortController();

async function start() {
  bindHeader();
  whenSignedOut(() => showLogin("The session has ended. Sign in again."));
  whenConnectionChanges(showConnection);
  const problem = new URLSearchParams(location.search).get("problem");
  if (problem) history.replaceState(null, "", location.pathname + location.hash);
  const session = await get("console/session").catch((error) => ({ problem: error.message }));
  element("sign-on").hidden = !session.sign_on;
  if (session.signed_in) enter(session);
  else showLogin(session.problem ?? PROBLEMS[problem]);
}

function bindHeader() {
  const theme = element("theme");
  theme.value = localStorage.getItem("theme") ?? "system";
  theme.addEventListener("change", () => {
    localStorage.setItem("theme", theme.value);
    if (theme.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
  element("sign-out").addEventListener("click", signOut);
  element("login-form").addEventListener("submit", signIn);
  // The provider sends the browser back without this part of the address.
  element("sign-on").addEventListener("click", () => sessionStorage.setItem(RETURN, location.hash));
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
    const session = await post("console/session", { key: field.value });
    field.value = "";
    enter(session);
  } catch (error) {
    element("login-error").textContent = error.message;
    field.select();
  }
}

async function signOut() {
  const problem = await remove("console/session").then(
    () => "",
    (error) => error.message,
  );
  showLogin(problem);
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

function enter(session) {
  setCaller(session);
  showCaller();
  const back = sessionStorage.getItem(RETURN);
  sessionStorage.removeItem(RETURN);
  if (back && !location.hash) history.replaceState(null, "", back);
  element("login").hidden = true;
  element("shell").hidden = false;
  openView();
}

function allowed() {
  return Object.entries(VIEWS).filter(([, view]) => may(view.role ?? "viewer"));
}

function showCaller() {
  const { name, role, via } = whoAmI();
  element("who").replaceChildren(h("span", { class: "visually-hidden" }, "Signed in as "), name, " ", badge(role));
  // Whoever a proxy has signed in can only sign out there.
  element("sign-out").hidden = via === "proxy";
  element("nav").replaceChildren(
    h(
      "ul",
      {},
      allowed().map(([one, view]) => h("li", {}, h("a", { href: `#/${one}` }, view.label))),
    ),
  );
}

function openView() {
  const [address, search] = location.hash.replace(/^#\//, "").split("?");
  const [name, ...path] = address.split("/").map(decodeURIComponent);
  const parameters = { path, query: Object.fromEntries(new URLSearchParams(search)) };
  const views = Object.fromEntries(allowed());
  const view = views[name] ?? views[FIRST];
  leaving.abort();
  leaving = new AbortController();
  for (const link of element("nav").querySelectorAll("a")) {
    if (link.hash === `#/${views[name] ? name : FIRST}`) link.setAttribute("aria-current", "page");
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
