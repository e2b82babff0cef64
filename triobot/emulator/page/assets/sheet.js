// What lies over the page for a moment: dialogs, menus, and the short words at its foot.

import { fill, h, keepTabInside } from "./dom.js";
import { t } from "./words.js";

/**
 * Show a dialog and wait for its end. `build(done)` makes the content; done(value) ends it. Escape, the backdrop
 * and the close button end it with undefined. `place` may be a pane, which the dialog then covers alone.
 */
export function sheet(title, build, { place = document.body, kind = "" } = {}) {
  return new Promise((resolve) => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    function done(value) {
      cover.remove();
      document.removeEventListener("keydown", onKey, true);
      before?.focus?.();
      resolve(value);
    }
    function onKey(event) {
      if (cover !== topmost()) return;
      if (event.key === "Tab") keepTabInside(box, event);
      if (event.key !== "Escape") return;
      event.stopPropagation();
      done(undefined);
    }
    const box = h("div.sheet", { class: kind, role: "dialog", "aria-modal": "true", "aria-label": title });
    const cover = h(
      "div.cover",
      { onpointerdown: (event) => event.target === cover && done(undefined) },
      box,
    );
    fill(box, title && h("h2", { dir: "auto" }, title), build(done));
    place.append(cover);
    document.addEventListener("keydown", onKey, true);
    (box.querySelector("[autofocus]") ?? box.querySelector("input, textarea, select, button"))?.focus();
  });
}

const topmost = () => [...document.querySelectorAll(".cover")].pop();

/** Ask for a yes; resolves to true or undefined. */
export function confirm(title, content, yes = t("ok"), options = {}) {
  return sheet(
    title,
    (done) => [
      h("div.sheet-body", { dir: "auto" }, content),
      h(
        "div.sheet-actions",
        {},
        h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
        h("button.button.primary", { type: "button", autofocus: true, onclick: () => done(true) }, yes),
      ),
    ],
    options,
  );
}

/** Show what a bot wants read; one button. */
export function alertSheet(text, place) {
  return sheet(
    "",
    (done) => [
      h("div.sheet-body", { dir: "auto" }, text),
      h(
        "div.sheet-actions",
        {},
        h("button.button.primary", { type: "button", autofocus: true, onclick: () => done(true) }, t("ok")),
      ),
    ],
    { place, kind: "alert" },
  );
}

// Of what is said faster than anybody reads, the newest.
const MOST_TOASTS = 3;

/** Say something short: a bot's answer at the head of its pane, anything else at the foot of the page. */
export function toast(text, { place = document.body, kind = "", seconds = 4 } = {}) {
  const line = h("div.toast", { class: kind, dir: "auto", role: "status" }, text);
  const holder = kind === "answer" ? place : document.body;
  const stack = holder.querySelector(":scope > .toasts") ?? holder.appendChild(h("div.toasts"));
  stack.append(line);
  if (stack.children.length > MOST_TOASTS) stack.firstChild?.remove();
  setTimeout(() => line.classList.add("leaving"), seconds * 1000);
  setTimeout(() => line.remove(), seconds * 1000 + 300);
}

/** Run what a person asked for; a refusal is shown, not thrown. Resolves to whether it went well. */
export async function tried(what, place) {
  try {
    await what();
    return true;
  } catch (error) {
    toast((error instanceof Error && error.message) || t("failed"), { place, kind: "problem" });
    return false;
  }
}

/** A menu under its button: items are [icon, label, act], and null for none. */
export function menu(anchor, items) {
  document.querySelector(".menu")?.remove();
  const list = h(
    "div.menu",
    { role: "menu" },
    items
      .filter(Boolean)
      .map(([picture, label, act]) =>
        h(
          "button",
          { type: "button", role: "menuitem", onclick: () => (close(), act()) },
          picture,
          h("span", {}, label),
        ),
      ),
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
      const all = [...list.children];
      all.at((all.indexOf(document.activeElement) + step) % all.length).focus();
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

/** A labelled field of a dialog. */
export function field(label, control) {
  return h("label.field", {}, h("span", {}, label), control);
}
