// Layers over the page: dialogs, menus and short messages.

import { draw as put, html, root } from "./ui.js";
import { t } from "./words.js";

/** Return the elements in `holder` that can have the focus. @param {Element} holder */
const focusable = (holder) =>
  /** @type {HTMLInputElement[]} */ ([...holder.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]);

/** Keep the focus in an element: Tab goes from the last control to the first, Shift+Tab from the first to the last. */
function keepTabInside(holder, event) {
  const all = focusable(holder).filter((one) => one.checkVisibility() && !one.disabled);
  const end = event.shiftKey ? all[0] : all.at(-1);
  if (holder.contains(document.activeElement) && document.activeElement !== end) return;
  event.preventDefault();
  (event.shiftKey ? all.at(-1) : all[0])?.focus();
}

/**
 * Show a dialog; return the dialog's result. `build(done)` returns the content; `done(value)` ends the dialog with
 * `value`. Escape and a click on the backdrop end the dialog with undefined. The dialog covers `place` only.
 */
export function sheet(title, build, { place = document.body, kind = "" } = {}) {
  return new Promise((resolve) => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    const cover = root("div", { class: "cover" });
    function done(value) {
      put(null, cover);
      cover.remove();
      document.removeEventListener("keydown", onKey, true);
      before?.focus?.();
      resolve(value);
    }
    function onKey(event) {
      if (cover !== topmost()) return;
      if (event.key === "Tab") keepTabInside(cover, event);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      done(undefined);
    }
    cover.addEventListener("pointerdown", (event) => event.target === cover && done(undefined));
    put(
      html`
        <div class=${`sheet ${kind}`} role="dialog" aria-modal="true" aria-label=${title}>
          ${title && html`<h2 dir="auto">${title}</h2>`} ${build(done)}
        </div>
      `,
      cover,
    );
    place.append(cover);
    document.addEventListener("keydown", onKey, true);
    /** @type {HTMLElement | null} */
    const first = cover.querySelector("[autofocus]") ?? cover.querySelector("input, textarea, select, button");
    first?.focus();
  });
}

const topmost = () => [...document.querySelectorAll(".cover")].pop();

/** Ask for confirmation; return true, or undefined if cancelled. */
export function confirm(title, content, yes = t("ok"), options = {}) {
  return sheet(
    title,
    (done) => html`
      <div class="sheet-body" dir="auto">${content}</div>
      <div class="sheet-actions">
        <button type="button" class="button" onclick=${() => done(undefined)}>${t("cancel")}</button>
        <button type="button" class="button primary" autofocus onclick=${() => done(true)}>${yes}</button>
      </div>
    `,
    options,
  );
}

/** Show a bot's alert with a button. */
export function alertSheet(text, place) {
  return sheet(
    "",
    (done) => html`
      <div class="sheet-body" dir="auto">${text}</div>
      <div class="sheet-actions">
        <button type="button" class="button primary" autofocus onclick=${() => done(true)}>${t("ok")}</button>
      </div>
    `,
    { place, kind: "alert" },
  );
}

// Maximum number of short messages that are shown together: the newest.
const MOST_TOASTS = 3;

/** The shown short messages of each holder. @type {WeakMap<Element, {element: HTMLElement, lines: Said[]}>} */
const stacks = new WeakMap();
/** @typedef {{number: number, text: string, kind: string, isLeaving: boolean}} Said */
let toasts = 0;

/** Show a short message: a bot's answer at the top of the pane `place`, others at the bottom of the page. */
export function toast(text, { place = document.body, kind = "", seconds = 4 } = {}) {
  const holder = kind === "answer" ? place : document.body;
  const stack = stacks.get(holder) ?? { element: root("div", { class: "toasts" }), lines: [] };
  stacks.set(holder, stack);
  if (!stack.element.isConnected) holder.append(stack.element);
  const line = { number: (toasts += 1), text, kind, isLeaving: false };
  stack.lines = [...stack.lines, line].slice(-MOST_TOASTS);
  const draw = () => put(html`${stack.lines.map(Toast)}`, stack.element);
  draw();
  setTimeout(() => ((line.isLeaving = true), draw()), seconds * 1000);
  setTimeout(() => ((stack.lines = stack.lines.filter((one) => one !== line)), draw()), seconds * 1000 + 300);
}

const Toast = ({ number, text, kind, isLeaving }) => html`
  <div key=${number} class=${`toast ${kind} ${isLeaving ? "leaving" : ""}`} dir="auto" role="status">${text}</div>
`;

/** Run `what` for a person; show an error as a short message. Return whether `what` succeeded. */
export async function tried(what, place) {
  try {
    await what();
    return true;
  } catch (error) {
    toast((error instanceof Error && error.message) || t("failed"), { place, kind: "problem" });
    return false;
  }
}

/** Show a menu at a button. Items are [picture, label, act]; false items are left out. */
export function menu(anchor, items) {
  document.querySelector(".menu")?.remove();
  const list = root("div", { class: "menu", role: "menu" });
  const choose = (act) => () => {
    close();
    act();
  };
  put(
    html`${items
      .filter(Boolean)
      .map(([picture, label, act]) => html`<button type="button" role="menuitem" onclick=${choose(act)}>${picture}<span>${label}</span></button>`)}`,
    list,
  );
  function close() {
    list.remove();
    document.removeEventListener("pointerdown", onDown, true);
    document.removeEventListener("keydown", onKey, true);
  }
  function onDown(event) {
    if (!list.contains(event.target)) close();
  }
  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const all = focusable(list);
      const at = all.findIndex((one) => one === document.activeElement);
      all.at((at + step) % all.length)?.focus();
    }
    if (step || event.key === "Escape") event.preventDefault();
    if (event.key === "Escape" || event.key === "Tab") {
      close();
      anchor.focus();
    }
  }
  document.body.append(list);
  const at = anchor.getBoundingClientRect();
  const own = list.getBoundingClientRect();
  const top = at.bottom + own.height + 8 > innerHeight ? at.top - own.height - 6 : at.bottom + 6;
  const left = Math.min(Math.max(8, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 8);
  list.style.setProperty("top", `${Math.max(8, top)}px`);
  list.style.setProperty("left", `${left}px`);
  document.addEventListener("pointerdown", onDown, true);
  document.addEventListener("keydown", onKey, true);
  list.querySelector("button")?.focus();
}

/** Copy a text to the clipboard; show whether the copying succeeded. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"));
  } catch {
    toast(t("cantCopy"), { kind: "problem" });
  }
}
