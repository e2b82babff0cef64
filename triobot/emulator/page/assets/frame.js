// What both pages have around them: light or dark, the language, and the question for the address.

import { fill, h, icon, iconButton } from "./dom.js";
import { useToken } from "./link.js";
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

function turnLanguage() {
  chooseLanguage(language() === "fa" ? "en" : "fa");
  // Every word on the page changes; a fresh start is simpler than telling each of them, and loses nothing.
  location.reload();
}

/** Give the page its colours, its language and its direction. */
export function dress() {
  applyTheme();
  document.documentElement.lang = language();
  document.documentElement.dir = language() === "fa" ? "rtl" : "ltr";
}

/** The buttons that change these. */
export function tools() {
  const sign = () => (document.documentElement.dataset.theme === "dark" ? "sun" : "moon");
  const theme = iconButton(sign(), t("theme"), () => {
    applyTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    theme.replaceChildren(icon(sign()));
  });
  return [
    h(
      "button.icon-button.language",
      { type: "button", title: t("otherLanguage"), onclick: turnLanguage },
      language() === "fa" ? "EN" : "فا",
    ),
    theme,
  ];
}

/** Ask for the address, in place of the page, and start with it. @param {string} words @param {() => void} start */
export function askForAddress(app, words, start) {
  const input = h("input", {
    dir: "ltr",
    autofocus: true,
    placeholder: `${location.origin}/#…`,
    "aria-label": t("address"),
  });
  const go = (event) => {
    event.preventDefault();
    useToken(input.value);
    start();
  };
  fill(
    app,
    h(
      "form.gate",
      { onsubmit: go },
      h("h1", {}, "triobot"),
      h("p", {}, words),
      input,
      h("button.button.primary", { type: "submit" }, t("open")),
    ),
  );
}
