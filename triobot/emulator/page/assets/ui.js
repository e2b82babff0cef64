// Drawing from templates, which a browser reads without a build step. A drawing changes only the differing elements.
// Text from a bot or a person always becomes a text node.

import { PATHS } from "./icons.js";
import { colour, initials } from "./format.js";
import htm from "./vendor/htm.mjs";
import { Component, h, render } from "./vendor/preact.mjs";
import { t } from "./words.js";

/** @typedef {import("./vendor/preact.mjs").VNode<any>} Drawn */

// Thousands of combining marks on one letter block a browser for a minute; no language uses more than a few.
const PILES = /(\p{M}{30})\p{M}+/gu;

const readableText = (text) => (text.length < 31 ? text : text.replace(PILES, "$1…"));

const readable = (child) => {
  if (typeof child === "string") return readableText(child);
  return Array.isArray(child) ? child.map(readable) : child;
};

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(readable)));

/** Draw into an element, in place of the earlier drawing. */
export const draw = (/** @type {Drawn | null} */ drawn, /** @type {Element} */ holder) => render(drawn, holder);

/**
 * Create an element into which a part of the page draws.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number>} attributes
 */
export function root(tag, attributes = {}) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** A component that is drawn again only if a property has changed. */
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

/** A dialog's form with two buttons; `give` gets the fields' values. With `ready`, the second button has the focus. */
export const Asking = ({ give, cancel, yes, ready = false, children }) => html`
  <form
    onsubmit=${(event) => {
      event.preventDefault();
      give(Object.fromEntries(new FormData(event.target)), event.target);
    }}
  >
    <div class="sheet-body fields">${children}</div>
    <div class="sheet-actions">
      <button type="button" class="button" onclick=${cancel}>${t("cancel")}</button>
      <button type="submit" class="button primary" autofocus=${ready}>${yes}</button>
    </div>
  </form>
`;

/** A control with its label. */
export const Field = ({ label, children }) => html`<label class="field"><span>${label}</span>${children}</label>`;

/** An icon, hidden from screen readers: the element around the icon has a title. */
export const Icon = ({ name, size = 20 }) => html`
  <svg viewBox="0 0 24 24" width=${size} height=${size} class=${`icon icon-${name}`} aria-hidden="true">
    <path d=${PATHS[name]} />
  </svg>
`;

/** A name's initials on the name's colour. */
export const Avatar = ({ name, more = "", children = null }) => html`
  <span class=${`avatar ${more}`} style=${{ "--own": colour(name) }} title=${more === "small" ? name : undefined}>${children ?? initials(name)}</span>
`;

/** A button with an icon and without text. */
export const IconButton = ({ name, title, onclick, more = "", ...others }) => html`
  <button type="button" class=${`icon-button ${more}`} title=${title} aria-label=${title} onclick=${onclick} ...${others}>
    <${Icon} name=${name} />
  </button>
`;
