// Texts with links. Only http and https addresses become links; all else stays text.

import { html } from "./ui.js";

const WEB = /\bhttps?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]}،؛]/giu;

/** Split a text into texts and links. @param {string} text */
export function linked(text) {
  const parts = [];
  let done = 0;
  for (const found of text.matchAll(WEB)) {
    parts.push(text.slice(done, found.index), html`<${WebLink} address=${found[0]} />`);
    done = found.index + found[0].length;
  }
  parts.push(text.slice(done));
  return parts.filter((part) => part !== "");
}

/** Return a web address in normal form; null for `javascript:`, `data:` and others. */
export function webAddress(address) {
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** A link that opens in a new tab; the opened page gets no referrer, and no access to this page. @param {{address: string}} given */
function WebLink({ address }) {
  const href = webAddress(address);
  if (href === null) return html`<span>${address}</span>`;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" dir="auto">${address}</a>`;
}
