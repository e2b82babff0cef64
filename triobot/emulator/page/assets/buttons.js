// Keyboards: the buttons under a message, and the keys under the text field.

import { h, icon, webAddress } from "./dom.js";
import { money } from "./format.js";
import { payButton } from "./paying.js";
import { confirm, sheet, toast, tried } from "./sheet.js";
import { placeFields } from "./places.js";
import { t } from "./words.js";

/** The rows of buttons under a message. `view` is the pane: {chat, user, act, element}. */
export function inlineKeyboard(message, view) {
  if (!message.buttons?.length) return null;
  let index = 0;
  return h(
    "div.inline-keyboard",
    {},
    message.buttons.map((row) =>
      h(
        "div.inline-row",
        {},
        row.map((button) => inlineButton(message, button, index++, view)),
      ),
    ),
  );
}

function inlineButton(message, button, index, view) {
  switch (button.kind) {
    case "link":
      return linkButton(button);
    case "pay":
      return h(
        "button.inline-button.pay",
        { type: "button", onclick: () => payButton(message, button, index, view) },
        h("span", { dir: "auto" }, button.text),
        h("span.price", {}, money(button.amount, button.currency)),
      );
    default:
      return callbackButton(message, button, index, view);
  }
}

function linkButton(button) {
  const href = webAddress(button.url);
  const words = [h("span", { dir: "auto" }, button.text), icon("link", 15)];
  if (href === null) {
    // javascript:, data: and the like: the app opens no such thing.
    const say = () => toast(t("deadLink", { url: button.url.slice(0, 80) }), { kind: "problem" });
    return h("button.inline-button.dead", { type: "button", onclick: say }, words);
  }
  return h("a.inline-button", { href, target: "_blank", rel: "noopener noreferrer", title: href }, words);
}

function callbackButton(message, button, index, view) {
  const waits = [...view.chat.waiting.values()].some(
    (press) => press.message_id === message.id && press.user === view.user.id && press.label === button.text,
  );
  const element = h(
    "button.inline-button",
    { type: "button", class: waits ? "waiting" : "", title: waits ? t("waitsForAnswer") : undefined },
    h("span", { dir: "auto" }, button.text),
    h("span.spinner", { "aria-hidden": "true" }),
  );
  element.onclick = (event) => {
    element.classList.add("waiting");
    const given = { label: button.text, message: message.id, index, chat: view.chat.id };
    // A double click with Shift held is the impatient user whom a bot has to survive.
    if (event.shiftKey) given.times = 2;
    tried(() => view.act("press", given), view.element).then((well) => {
      if (!well) element.classList.remove("waiting");
    });
  };
  return element;
}

/** The keys that a bot put under the text field; null when there are none. */
export function replyKeyboard(view) {
  const rows = view.chat.reply_keyboard;
  if (!rows?.length) return null;
  return h(
    "div.reply-keyboard",
    {},
    rows.map((row) =>
      h(
        "div.reply-row",
        {},
        row.map((key) =>
          h(
            "button.reply-key",
            { type: "button", onclick: () => tap(key, view) },
            key.value === "$contact" && icon("phone", 16),
            key.value === "$location" && icon("pin", 16),
            h("span", { dir: "auto" }, key.label),
          ),
        ),
      ),
    ),
  );
}

async function tap(key, view) {
  const given = { label: key.label, value: key.value, chat: view.chat.id };
  if (key.value === "$contact") {
    const words = [h("p", {}, t("shareContactWhy")), h("p.big.digits", { dir: "ltr" }, view.user.phone)];
    if (!(await confirm(t("shareContact"), words, t("share"), { place: view.element }))) return;
  }
  if (key.value === "$location") {
    const place = await choosePlace(view.element);
    if (!place) return;
    Object.assign(given, place);
  }
  await tried(() => view.act("tap", given), view.element);
}

/** Ask where one is; resolves to {lat, long, desc} or undefined. */
export function choosePlace(place) {
  return sheet(
    t("shareLocation"),
    (done) => {
      const fields = placeFields();
      return [
        h("div.sheet-body", {}, h("p", {}, t("shareLocationWhy")), fields.element),
        h(
          "div.sheet-actions",
          {},
          h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
          h(
            "button.button.primary",
            { type: "button", autofocus: true, onclick: () => done(fields.value()) },
            t("share"),
          ),
        ),
      ];
    },
    { place },
  );
}
