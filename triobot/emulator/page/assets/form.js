// Native forms. This module keeps the drafts: a draft survives the redrawing of its message. The platform keeps the
// sent values, also for a reload and for other tabs.

import { number } from "./format.js";
import { sheet, toast, tried } from "./sheet.js";
import { Asking, Field, html, Icon, IconButton } from "./ui.js";
import { Component } from "./vendor/preact.mjs";
import { t } from "./words.js";

const drafts = new Map();

/** Return the form's draft; after each sending, a new draft begins with the sent values. */
function draftOf(message, view) {
  const sent = message.filled?.[view.user.id];
  // The key includes the branch: a branch's messages have the same ids as the chat's messages.
  const key = JSON.stringify([view.branch, view.user.id, message.id, sent]);
  if (!drafts.has(key)) drafts.set(key, { ...(sent ?? startingValues(message.form)) });
  return drafts.get(key);
}

function startingValues(fields) {
  const values = {};
  for (const { type, name, value } of fields) {
    if ((type === "text" || type === "textarea") && value) values[name] = value;
  }
  return values;
}

export class Form extends Component {
  state = { isUnderWay: false };

  /** @param {any} given @param {{isUnderWay: boolean}} state */
  render({ message, view }, { isUnderWay }) {
    const values = draftOf(message, view);
    const submits = message.form.filter((field) => field.type === "submit");
    return html`
      <form class=${`native-form ${message.submitted > 0 ? "over" : ""}`} onsubmit=${this.submit}>
        ${message.form.filter((field) => field.type !== "submit").map((field) => fieldOf(field, values, message, view))}
        ${(submits.length ? submits : [{ label: t("send") }]).map(
          (button) => html`<button type="submit" class="button primary submit" disabled=${isUnderWay}><span dir="auto">${button.label}</span></button>`,
        )}
        ${
          message.submitted > 0 &&
          html`<div class="faint sent"><${Icon} name="check" size=${14} />${t("sentTimes", { count: number(message.submitted) })}</div>`
        }
      </form>
    `;
  }

  submit = async (event) => {
    event.preventDefault();
    const { message, view } = /** @type {any} */ (this.props);
    const filled = Object.entries(draftOf(message, view)).filter(([, value]) => value !== "");
    const given = { values: Object.fromEntries(filled), message: message.id, chat: view.chat.id };
    this.setState({ isUnderWay: true });
    await tried(() => view.act("submit", given), view.element);
    this.setState({ isUnderWay: false });
  };
}

function fieldOf(field, values, message, view) {
  const { type, name } = field;
  const value = values[name] ?? "";
  const set = (event) => (values[name] = event.target.value);
  const label = html`<span class="form-label" dir="auto">${field.label}</span>`;
  switch (type) {
    case "textarea":
      return html`<label class="form-field" key=${name}>${label}<textarea rows="3" dir="auto" name=${name} value=${value} oninput=${set}></textarea></label>`;
    case "select":
      return html`
        <label class="form-field" key=${name}>
          ${label}
          <select name=${name} onchange=${set}>
            <option value="" selected=${!value}>—</option>
            ${field.options.map((option) => html`<option value=${option.value} selected=${value === option.value}>${option.label}</option>`)}
          </select>
        </label>
      `;
    case "radio": {
      // A browser groups radio buttons by name: two panes or two messages must not share a name.
      const group = `${view.user.id}-${message.id}-${name}`;
      // `dir="auto"` on the label puts the button before the label in each language.
      return html`
        <fieldset class="form-field" key=${name}>
          <legend>${label}</legend>
          ${field.options.map(
            (option) => html`
              <label class="check" dir="auto">
                <input type="radio" name=${group} value=${option.value} checked=${value === option.value} onchange=${set} /><span>${option.label}</span>
              </label>
            `,
          )}
        </fieldset>
      `;
    }
    case "checkbox": {
      const check = (event) => (values[name] = event.target.checked ? "true" : "");
      return html`
        <label class="form-field check" dir="auto" key=${name}>
          <input type="checkbox" name=${name} checked=${Boolean(value)} onchange=${check} /><span class="form-label">${field.label}</span>
        </label>
      `;
    }
    case "inbuilt":
      return html`<${Reader} key=${name} field=${field} label=${label} values=${values} place=${view.element} />`;
    default:
      return html`<label class="form-field" key=${name}>${label}<input type="text" dir="auto" name=${name} value=${value} oninput=${set} /></label>`;
  }
}

/** A field for a barcode or QR code: typed, or read from a picture. */
class Reader extends Component {
  /** @param {any} given */
  render({ field, label, values }) {
    const set = (event) => (values[field.name] = event.target.value);
    return html`
      <label class="form-field">
        ${label}
        <div class="with-button">
          <input
            class="digits"
            type="text"
            dir="auto"
            name=${field.name}
            placeholder=${t(field.value)}
            value=${values[field.name] ?? ""}
            oninput=${set}
          />
          <${IconButton} name="code" title=${t("readCode")} onclick=${this.read} />
        </div>
      </label>
    `;
  }

  read = async () => {
    const { field, values, place } = /** @type {any} */ (this.props);
    const code = await readCode(field.value, place);
    if (code) values[field.name] = code;
    this.setState({});
  };
}

/** Ask for a code: typed, or read from a picture if the browser can read codes. */
function readCode(reader, place) {
  return sheet(
    t(reader),
    (done) => {
      const pick = async (event) => {
        const code = await fromPicture(event.target.files[0], reader);
        if (code) done(code);
      };
      return html`
        <${Asking} give=${({ code }) => done(code.trim())} cancel=${() => done(undefined)} yes=${t("ok")}>
          <p>${t("typeCode")}</p>
          <input name="code" class="digits" dir="auto" autofocus aria-label=${t(reader)} />
          ${
            "BarcodeDetector" in window
              ? html`<${Field} label=${t("codeFromPicture")}><input type="file" accept="image/*" onchange=${pick} /><//>`
              : html`<p class="faint">${t("noDetector")}</p>`
          }
        <//>
      `;
    },
    { place },
  );
}

async function fromPicture(file, reader) {
  try {
    const options = reader === "qrcode" ? { formats: ["qr_code"] } : undefined;
    const { BarcodeDetector } = /** @type {any} */ (window);
    const found = await new BarcodeDetector(options).detect(await createImageBitmap(file));
    if (found.length) return found[0].rawValue;
  } catch {
    // Some browsers have the class, but can't read codes.
  }
  toast(t("noCode"), { kind: "problem" });
  return null;
}
