// Elements without markup: whatever a bot or a person wrote becomes a text node, and only a text node.

const PROPERTIES = new Set([
  "value",
  "checked",
  "disabled",
  "selected",
  "hidden",
  "htmlFor",
  "indeterminate",
]);

/**
 * Make an element: h("button.primary", {onclick: send, title: "Send"}, "Send").
 * A child that is null, undefined or false is left out; a string or a number becomes text; arrays are flattened.
 */
export function h(spec, props = {}, ...children) {
  const [tag, ...classes] = spec.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else if (name === "style")
      for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

// Thousands of marks upon one letter hold a browser up for a minute; no language has more than a few.
const PILES = /(\p{M}{30})\p{M}+/gu;

export const readableText = (text) => (text.length < 31 ? text : text.replace(PILES, "$1…"));

/** Put children behind those that are there. */
export function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(readableText(String(child))));
  }
  return element;
}

/** Put children in place of those that are there. */
export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

const focusable = (holder) => [
  ...holder.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']"),
];

/**
 * Draw anew what may hold the focus, and give it back: else whoever works by keyboard loses the place whenever
 * something comes. `draw` returns what stands in the place of `holder`, if that is another element.
 */
export function keepFocus(holder, draw) {
  const before = /** @type {any} */ (document.activeElement);
  if (!before || !holder.contains(before)) return void draw();
  const place = focusable(holder).indexOf(before);
  const { chat } = before.dataset;
  const { selectionStart, selectionEnd } = before;
  const after = focusable(draw() ?? holder);
  const found = chat === undefined ? after[place] : after.find((one) => one.dataset.chat === chat);
  if (!found) return;
  found.focus({ preventScroll: true });
  if (typeof selectionStart === "number" && found.type === before.type)
    found.setSelectionRange(selectionStart, selectionEnd);
}

/** Keep Tab inside: behind its last element comes its first. */
export function keepTabInside(holder, event) {
  const all = focusable(holder).filter((one) => one.checkVisibility() && !one.disabled);
  const end = event.shiftKey ? all[0] : all.at(-1);
  if (holder.contains(document.activeElement) && document.activeElement !== end) return;
  event.preventDefault();
  (event.shiftKey ? all.at(-1) : all[0])?.focus();
}

const WEB = /\bhttps?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]}،؛]/giu;

/** Text with its web addresses as links; everything else stays text. */
export function linked(text) {
  const parts = [];
  let done = 0;
  for (const found of text.matchAll(WEB)) {
    parts.push(text.slice(done, found.index), webLink(found[0], found[0]));
    done = found.index + found[0].length;
  }
  parts.push(text.slice(done));
  return parts.filter((part) => part !== "");
}

/** The address, if it leads to the web: a bot's `javascript:` or `data:` leads nowhere. */
export function webAddress(address) {
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** A link that opens beside the page, and that the other side can't trace back or steer. */
export function webLink(address, ...children) {
  const href = webAddress(address);
  if (href === null) return h("span", {}, ...children);
  return h("a", { href, target: "_blank", rel: "noopener noreferrer", dir: "auto" }, ...children);
}

const SVG = "http://www.w3.org/2000/svg";

// Drawn for this page on a grid of 24, as strokes.
export const PATHS = {
  send: "M4 12 20 4l-5 16-3.5-6.5zM11.5 13.5 20 4",
  attach:
    "M19 11.5 11.8 18.7a4.6 4.6 0 0 1-6.5-6.5l7.6-7.6a3.1 3.1 0 0 1 4.4 4.4l-7.4 7.4a1.5 1.5 0 0 1-2.2-2.2l6.6-6.6",
  mic: "M12 4a2.5 2.5 0 0 1 2.5 2.5v5a2.5 2.5 0 0 1-5 0v-5A2.5 2.5 0 0 1 12 4zM6.5 11.5a5.5 5.5 0 0 0 11 0M12 17v3",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6 6 18",
  back: "M15 5l-7 7 7 7",
  more: "M12 5.4h.01M12 12h.01M12 18.6h.01",
  plus: "M12 5v14M5 12h14",
  down: "M12 5v13M6 12l6 6 6-6",
  up: "M12 19V6M6 12l6-6 6 6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  phone: "M6 4h3l1.5 4-2 1.5a11 11 0 0 0 6 6l1.5-2 4 1.5v3a2 2 0 0 1-2 2A16 16 0 0 1 4 6a2 2 0 0 1 2-2z",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20a7.5 7.5 0 0 1 15 0",
  people:
    "M9 11.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 19.5a6.5 6.5 0 0 1 13 0M16 5a3.3 3.3 0 0 1 0 6.3M18 14a6 6 0 0 1 3.5 5.5",
  pin: "M12 21s-6.5-6-6.5-11a6.5 6.5 0 0 1 13 0c0 5-6.5 11-6.5 11zM12 12.3a2.3 2.3 0 1 0 0-4.6 2.3 2.3 0 0 0 0 4.6z",
  image: "M4 5h16v14H4zM4 16l4.5-4.5 4 4 3-3L20 17M15.5 9.2v.01",
  video: "M4 6h11v12H4zM15 10.5l5-3v9l-5-3",
  audio:
    "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM19 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  save: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14",
  wallet: "M4 7h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM4 7a2 2 0 0 1 2-2h10v2M16 13.5h.01",
  link: "M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1",
  inspect: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5 20 20",
  inside: "M12 3 4 7.5v9L12 21l8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  inbox: "M4 13h4.5l1.5 3h4l1.5-3H20M4 13l3-8h10l3 8v6H4z",
  bolt: "M13 3 5 14h6l-1 7 8-11h-6z",
  terminal: "M4 5h16v14H4zM7.5 9.5l3 2.5-3 2.5M12.5 15h4",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  beside: "M4 5h16v14H4zM12 5v14",
  code: "M5 6v12M8 6v12M11 6v12M14.5 6v12M17 6v12M19 6v12",
  replay: "M5 12a7 7 0 1 0 2-4.9M5 4.5V8h3.5",
  clock: "M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16zM12 8v4l3 2",
  copy: "M8 8h11v12H8zM5 16V4h11",
  play: "M8 5.5v13l10-6.5z",
  first: "M18 6l-8 6 8 6zM6 6v12",
  branch: "M7 4v16M7 8c0 6 10 4 10 10v2M14.5 17.5 17 20l2.5-2.5",
  previous: "M15 6l-8 6 8 6",
  next: "M9 6l8 6-8 6",
  last: "M6 6l8 6-8 6zM18 6v12",
  travel: "M4.5 12a7.5 7.5 0 1 0 2.2-5.3M4.5 4.5v4h4M12 8v4.5l3 1.8",
  lines: "M4 6h9M4 12h6M4 18h5M12.5 16l3 3 5-7.5",
  pause: "M8 6v12M16 6v12",
  leave: "M14 5H5v14h9M10 12h10M16.5 8l4 4-4 4",
  text: "M5 6h14M12 6v13",
};

/** An icon. It says nothing to a screen reader: what holds it has a title. */
export function icon(name, size = 20) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("width", String(size));
  svg.setAttribute("height", String(size));
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button that is an icon only. */
export function iconButton(name, title, onclick, more = "") {
  return h(`button.icon-button${more}`, { type: "button", title, "aria-label": title, onclick }, icon(name));
}
