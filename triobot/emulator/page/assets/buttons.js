// Keyboards: the buttons under a message, and the reply keys above the text field.

import { money } from "./format.js";
import { payButton } from "./paying.js";
import { choosePlace } from "./places.js";
import { confirm, toast, tried } from "./sheet.js";
import { webAddress } from "./text.js";
import { html, Icon } from "./ui.js";
import { Component } from "./vendor/preact.mjs";
import { t } from "./words.js";

/** The rows of buttons under a message. `view` is the pane: {chat, user, act, element}. */
export function InlineKeyboard({ message, view, pressed }) {
  const rows = message.buttons.map((buttons, row) =>
    buttons.map((button, column) => ({ key: column, message, button, place: { row, column }, view })),
  );
  return html`
    <div class="inline-keyboard">
      ${rows.map((row) => html`<div class="inline-row">${row.map((one) => inlineButton(one, pressed.includes(one.button.text)))}</div>`)}
    </div>
  `;
}

function inlineButton(given, waits) {
  switch (given.button.kind) {
    case "link":
      return html`<${LinkButton} ...${given} />`;
    case "pay":
      return html`<${PayButton} ...${given} />`;
    default:
      return html`<${CallbackButton} ...${given} waits=${waits} />`;
  }
}

const PayButton = ({ message, button, place, view }) => html`
  <button type="button" class="inline-button pay" onclick=${() => payButton(message, button, place, view)}>
    <span dir="auto">${button.text}</span>
    <span class="price">${money(button.amount, button.currency)}</span>
  </button>
`;

function LinkButton({ button }) {
  const href = webAddress(button.url);
  const words = html`<span dir="auto">${button.text}</span><${Icon} name="link" size=${15} />`;
  if (href === null) {
    // The platform's app opens only web addresses, not `javascript:` or `data:`.
    const say = () => toast(t("deadLink", { url: button.url.slice(0, 80) }), { kind: "problem" });
    return html`<button type="button" class="inline-button dead" onclick=${say}>${words}</button>`;
  }
  return html`<a class="inline-button" href=${href} target="_blank" rel="noopener noreferrer" title=${href}>${words}</a>`;
}

/** A callback button, marked as waiting from a press until the bot answers the press. */
class CallbackButton extends Component {
  state = { isUnderWay: false };

  /** @param {any} given @param {{isUnderWay: boolean}} state */
  render({ button, waits }, { isUnderWay }) {
    return html`
      <button
        type="button"
        class=${`inline-button ${waits || isUnderWay ? "waiting" : ""}`}
        title=${waits ? t("waitsForAnswer") : undefined}
        onclick=${this.press}
      >
        <span dir="auto">${button.text}</span>
        <span class="spinner" aria-hidden="true"></span>
      </button>
    `;
  }

  press = async (event) => {
    const { message, button, place, view } = /** @type {any} */ (this.props);
    const given = { label: button.text, message: message.id, ...place, chat: view.chat.id };
    // A click with Shift presses twice, like an impatient user.
    if (event.shiftKey) Object.assign(given, { times: 2 });
    this.setState({ isUnderWay: true });
    await tried(() => view.act("press", given), view.element);
    this.setState({ isUnderWay: false });
  };
}

/** The bot's reply keys, above the text field. */
export const ReplyKeyboard = ({ rows, view }) => html`
  <div class="reply-keyboard">
    ${rows.map(
      (row) => html`
        <div class="reply-row">
          ${row.map(
            (key) => html`
              <button type="button" class="reply-key" onclick=${() => tap(key, view)}>
                ${key.value === "$contact" && html`<${Icon} name="phone" size=${16} />`}
                ${key.value === "$location" && html`<${Icon} name="pin" size=${16} />`}
                <span dir="auto">${key.label}</span>
              </button>
            `,
          )}
        </div>
      `,
    )}
  </div>
`;

async function tap(key, view) {
  const given = { label: key.label, value: key.value, chat: view.chat.id };
  if (key.value === "$contact") {
    const words = html`<p>${t("shareContactWhy")}</p><p class="big digits" dir="ltr">${view.user.phone}</p>`;
    if (!(await confirm(t("shareContact"), words, t("share"), { place: view.element }))) return;
  }
  if (key.value === "$location") {
    const place = await choosePlace(view.element);
    if (!place) return;
    Object.assign(given, place);
  }
  await tried(() => view.act("tap", given), view.element);
}
