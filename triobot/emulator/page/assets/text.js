// Text with its web addresses as links. An address is a link only if it leads to the web; all else stays text.

import { html } from "./ui.js";

const WEB = /\bhttps?:\/\/[^\s<>"']+[^\s<>"'.,:;!?)\]}،؛]/giu;

/** A text in pieces, some of which are links. @param {string} text */
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

/** The address if it is a web address; nothing for `javascript:`, `data:` and others. */
export function webAddress(address) {
  try {
    const url = new URL(address);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

/** A link that opens in a new tab, without access or a referrer to this page. @param {{address: string}} given */
function WebLink({ address }) {
  const href = webAddress(address);
  if (href === null) return html`<span>${address}</span>`;
  return html`<a href=${href} target="_blank" rel="noopener noreferrer" dir="auto">${address}</a>`;
}
