// What is drawn keyed: templates that a browser reads as they stand, and only what differs is touched. A chat itself,
// the frame of the page and its forms use dom.js. Text becomes a text node here, too.

import { PATHS, readableText } from "./dom.js";
import htm from "./vendor/htm.mjs";
import { Component, h, render } from "./vendor/preact.mjs";
import { t } from "./words.js";

/** @typedef {import("./vendor/preact.mjs").VNode<any>} Drawn */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind((type, props, ...children) =>
  h(type, props, ...children.map((child) => (typeof child === "string" ? readableText(child) : child))),
);

/** Draw into an element; what was drawn there before is changed into this. */
export const draw = (/** @type {Drawn | null} */ drawn, /** @type {Element} */ holder) => render(drawn, holder);

/** What is drawn once, as elements for a place where others are put. @param {Drawn} once */
export function drawn(once) {
  const holder = document.createDocumentFragment();
  render(once, /** @type {any} */ (holder));
  return holder;
}

/** A part that is drawn again only if it is given something else. */
export class Part extends Component {
  /** @param {any} given @returns {any} */
  render(given) {
    return given.children;
  }

  shouldComponentUpdate(next) {
    const before = /** @type {Record<string, unknown>} */ (this.props);
    const names = Object.keys(next);
    return names.length !== Object.keys(before).length || names.some((name) => !Object.is(next[name], before[name]));
  }
}

/** A dialog's form: what is asked, and two buttons; `give` gets what was filled in. */
export const Asking = ({ give, cancel, yes, children }) => html`
  <form
    onsubmit=${(event) => {
      event.preventDefault();
      give(Object.fromEntries(new FormData(event.target)), event.target);
    }}
  >
    <div class="sheet-body fields">${children}</div>
    <div class="sheet-actions">
      <button type="button" class="button" onclick=${cancel}>${t("cancel")}</button>
      <button type="submit" class="button primary">${yes}</button>
    </div>
  </form>
`;

/** A control with its label. */
export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

/** An icon. It says nothing to a screen reader: what holds it has a title. */
export const Icon = ({ name, size = 20 }) => html`
  <svg viewBox="0 0 24 24" width=${size} height=${size} class=${`icon icon-${name}`} aria-hidden="true">
    <path d=${PATHS[name]} />
  </svg>
`;

/** A button that is an icon only. */
export const IconButton = ({ name, title, onclick, more = "", ...others }) => html`
  <button type="button" class=${`icon-button ${more}`} title=${title} aria-label=${title} onclick=${onclick} ...${others}>
    <${Icon} name=${name} />
  </button>
`;
