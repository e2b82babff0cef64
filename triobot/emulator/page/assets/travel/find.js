// The search in messages, variables and code; the found notches are shown one after another.

import { number } from "../format.js";
import { html } from "../ui.js";
import { t } from "../words.js";

/** @typedef {import("./state.js").Journal} Journal */

/** Return the text of a notch that the search reads, in lower case. @param {import("./state.js").Notch} notch */
function textOf(notch) {
  /** @type {(string | null | undefined)[]} */
  const parts = [notch.in?.text, notch.in?.label, notch.in?.name, ...Object.values(notch.in?.fields ?? {})];
  for (const sent of notch.out ?? []) parts.push(sent.text, ...(sent.buttons ?? []).flat().map((button) => button.text));
  if (!notch.whole) {
    for (const list of Object.values(notch.v ?? {}))
      for (const frame of list ?? []) for (const [name, text] of Object.entries(frame)) parts.push(name, text);
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}

/**
 * Return the notches whose text, or whose current line, contains `words`.
 * @param {Journal} journal
 * @param {Map<number, {text: string}>} sources
 * @param {string} words
 */
export function hitsOf(journal, sources, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const hits = new Set();
  for (const notch of journal.notches.values()) if (textOf(notch).includes(wanted)) hits.add(notch.n);
  for (const [id, { text }] of sources)
    text.split("\n").forEach((line, place) => {
      if (line.toLowerCase().includes(wanted))
        for (const n of journal.stood.get(`${id}:${place + 1}`) ?? []) hits.add(n);
    });
  return [...hits].sort((one, other) => one - other);
}

/** The search field in the view's head. Enter shows the next found notch; Shift+Enter shows the previous one. */
export function finder() {
  let words = "";
  /** @type {number[]} */
  let hits = [];

  function field(journal, sources, cur, go) {
    const seek = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      hits = hitsOf(journal, sources, words);
      const next = event.shiftKey ? (hits.findLast((n) => n < cur) ?? hits.at(-1)) : (hits.find((n) => n > cur) ?? hits[0]);
      go(next ?? cur);
    };
    const place = hits.indexOf(cur);
    return html`
      <span class="finder">
        <input
          type="search"
          aria-label=${t("findWords")}
          placeholder=${t("keyFind")}
          value=${words}
          oninput=${(event) => {
            words = event.target.value;
            hits = hitsOf(journal, sources, words);
            go(hits.find((n) => n >= cur) ?? hits[0] ?? cur);
          }}
          onkeydown=${seek}
        />
        ${words && html`<span class="faint digits">${hits.length ? t("foundOf", { n: place < 0 ? "–" : number(place + 1), count: number(hits.length) }) : t("foundNothing")}</span>`}
      </span>
    `;
  }

  return { field };
}
