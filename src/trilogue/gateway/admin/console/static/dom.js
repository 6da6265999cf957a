// Building elements. Text always becomes text nodes, so nothing that a request contains can become markup.

const SVG = "http://www.w3.org/2000/svg";
const listening = new WeakSet();

/** Return an element. Attributes: `on…` are listeners, `class` may be a list, null and false leave one out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return an SVG element, in the same way. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
      listening.add(element);
    } else if (name === "class") element.setAttribute("class", [value].flat().filter(Boolean).join(" "));
    else if (name === "value" && element instanceof HTMLElement) element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/**
 * Show this inside of an element. What is there already and has not changed stays, with its focus, selection and open
 * parts. An element with a `signature` is compared by that alone.
 */
export function show(element, ...children) {
  const focus = focusOf(element);
  patch(element, h("div", {}, ...children));
  if (focus && !focusOf(element)) element.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
}

function patch(element, fresh) {
  const before = [...element.childNodes];
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, index) => {
    const old = before[index];
    if (!old) element.append(node);
    else if (isSame(old, node)) return;
    else if (canBecome(old, node)) become(old, node);
    else old.replaceWith(node);
  });
  before.slice(wanted.length).forEach((node) => node.remove());
}

function isSame(old, node) {
  return old.signature === undefined ? old.isEqualNode(node) : old.signature === node.signature;
}

function canBecome(old, node) {
  // Listeners belong to the data that they were made for.
  const plain = [old, node].every((one) => one.nodeType === Node.ELEMENT_NODE && !one.signature && !listening.has(one));
  return plain && old.nodeName === node.nodeName;
}

function become(old, node) {
  for (const { name } of [...old.attributes]) {
    if (!node.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patch(old, node);
}

/** Return the name of the focused element inside, given as `data-focus`, so that it can get the focus again. */
export function focusOf(element) {
  const active = document.activeElement;
  return element.contains(active) ? active.dataset?.focus : undefined;
}

/** Return a heading for a view. It gets the focus when the view opens, so that screen readers begin there. */
export function viewTitle(text, ...more) {
  return h("div", { class: "title" }, h("h1", { tabindex: "-1" }, text), more);
}

/** Return a small label with a state in words and a colour. `tone`: good, warn, bad, info or plain. */
export function badge(text, tone = "plain") {
  return h("span", { class: ["badge", tone] }, text);
}

/** Return a figure with its name. */
export function tile(label, value, { note = "", tone = "" } = {}) {
  return h("div", { class: ["tile", tone] }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));
}

/** Return a group of tiles. */
export function tiles(...children) {
  return h("dl", { class: "tiles" }, ...children);
}

/** Return a message that stands where data would be. */
export function empty(text, ...more) {
  return h("div", { class: "empty" }, h("p", {}, text), more);
}
