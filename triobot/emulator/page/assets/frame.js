// Code of both pages, main.js and inspect.js: light or dark colours, the language, and the form for the address.

import { useToken } from "./link.js";
import { draw as put, html, IconButton, root } from "./ui.js";
import { chooseLanguage, language, t } from "./words.js";

function applyTheme(theme) {
  if (theme) localStorage.setItem("triobot-theme", theme);
  const chosen =
    theme ??
    localStorage.getItem("triobot-theme") ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  return chosen;
}

const isDark = () => document.documentElement.dataset.theme === "dark";

function turnLanguage() {
  chooseLanguage(language() === "fa" ? "en" : "fa");
  // All texts change: a reload is simpler than drawing each part again, and loses nothing.
  location.reload();
}

/** Set the page's colours, language and writing direction. */
export function dress() {
  applyTheme();
  document.documentElement.lang = language();
  document.documentElement.dir = language() === "fa" ? "rtl" : "ltr";
}

/** Create the buttons that change the colours and the language. */
export function tools() {
  const element = root("div", { class: "tools" });
  const turnTheme = () => {
    applyTheme(isDark() ? "light" : "dark");
    draw();
  };
  const draw = () =>
    put(
      html`
        <button type="button" class="icon-button language" title=${t("otherLanguage")} onclick=${turnLanguage}>
          ${language() === "fa" ? "EN" : "فا"}
        </button>
        <${IconButton} name=${isDark() ? "sun" : "moon"} title=${t("theme")} onclick=${turnTheme} />
      `,
      element,
    );
  draw();
  return element;
}

/** Replace the page by a form for the address; when the form is sent, call `start`. @param {string} words @param {() => void} start */
export function askForAddress(app, words, start) {
  const form = root("form", { class: "gate" });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(String(new FormData(form).get("address")));
    start();
  });
  put(
    html`
      <h1>triobot</h1>
      <p>${words}</p>
      <input name="address" dir="ltr" autofocus placeholder=${`${location.origin}/#…`} aria-label=${t("address")} />
      <button type="submit" class="button primary">${t("open")}</button>
    `,
    form,
  );
  app.replaceChildren(form);
}
