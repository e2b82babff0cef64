// The time line: a slider with a notch for each turn. Large dots are people's acts; money is green, time is amber, a
// crash is red; a bolt is a kill. For a long journal, the line shows a window; a strip above shows the whole journal.

import { exactClock, number } from "../format.js";
import { html, IconButton, Part } from "../ui.js";
import { t } from "../words.js";
import { labelOf } from "./say.js";

/** @typedef {import("./state.js").Journal} Journal */

/** Maximum number of notches in the line; a longer journal has a window and a strip. */
export const SHOWN = 120;
// Minimum distance of two labels, in percent of the line's length.
const ROOM = 8.5;
// Maximum number of bars in the strip.
const BARS = 180;

// The kind of dot with the greatest weight gives a bar its colour.
const WEIGHT = { crash: 5, money: 4, person: 3, time: 2, end: 1, begin: 1, bot: 1 };

/** Return the first and last shown notch: `before` while `n` is well inside, else a window around `n`. */
export function windowOf(journal, n, before) {
  if (journal.last - journal.first < SHOWN) return { from: journal.first, to: journal.last };
  const margin = 5;
  const fits =
    before &&
    before.to <= journal.last &&
    (n >= before.from + margin || before.from === journal.first) &&
    (n <= before.to - margin || before.to === journal.last) &&
    n >= before.from &&
    n <= before.to;
  if (fits) return before;
  const from = Math.max(journal.first, Math.min(n - SHOWN / 2, journal.last - SHOWN));
  return { from, to: from + SHOWN };
}

const LABELLED = new Set(["payment", "timeout"]);
const isLabelled = (notch) => notch.dot === "person" || notch.dot === "crash" || LABELLED.has(notch.in?.what);

/** The dots, labels and marks of a window; drawn again only if a property has changed. */
class Notches extends Part {
  /** @param {{journal: Journal, from: number, to: number, version: number, cur: number}} given */
  render({ journal, from, to, cur }) {
    const place = (n) => `${(100 * (n - from)) / Math.max(1, to - from)}%`;
    const all = [];
    let labelled = -Infinity;
    const { shown: marks, places } = this.marks(journal, from, to);
    for (let n = from; n <= to; n += 1) {
      const notch = journal.notch(n);
      const where = { "inset-inline-start": place(n) };
      const shape = ["notch", notch?.dot ?? "absent", n > cur ? "later" : "", n === cur ? "current" : ""].join(" ");
      all.push(html`<span key=${n} class=${shape} style=${where}></span>`);
      const at = (100 * (n - from)) / Math.max(1, to - from);
      const label = notch && isLabelled(notch) ? labelOf(notch) : "";
      const room = label.length > 7 ? ROOM : ROOM / 3;
      if (!notch || !label || at - labelled < ROOM || places.some((mark) => Math.abs(mark - at) < room)) continue;
      labelled = at;
      const edge = at < 4 ? "at-start" : at > 96 ? "at-end" : "";
      all.push(html`<span key=${`label ${n}`} class=${`notch-label ${edge}`} style=${where}><bdi>${label}</bdi></span>`);
      all.push(html`<span key=${`time ${n}`} class=${`notch-time ${edge}`} style=${where}>${exactClock(notch.t)}</span>`);
    }
    return html`<div class="notches" aria-hidden="true">${all}${marks}</div>`;
  }

  /** Return the marks of kills and starts between the notches, and the marks' positions in percent. */
  marks(journal, from, to) {
    const shown = [];
    const places = [];
    const seen = new Set();
    for (const { t: at, what } of journal.pass.marks) {
      let n = from;
      while (n < to && (journal.notch(n + 1)?.t ?? Infinity) <= at) n += 1;
      const first = journal.notch(from);
      // The mark of a kill also stands for a start right after the kill.
      if (!first || at < first.t || n >= to || (what !== "kill" && seen.has(n))) continue;
      seen.add(n);
      places.push((100 * (n + 0.5 - from)) / Math.max(1, to - from));
      const where = { "inset-inline-start": `${places.at(-1)}%` };
      shown.push(html`
        <span key=${`mark ${at} ${what}`} class=${`mark ${what}`} style=${where}>
          <svg viewBox="0 0 24 24"><path d=${what === "kill" ? "M13 3 5 14h6l-1 7 8-11h-6z" : "M8 5.5v13l10-6.5z"} /></svg>
          <span>${t(what === "kill" ? "wasKilled" : "wasStarted")}</span>
        </span>
      `);
    }
    return { shown, places };
  }
}

/** The whole journal in bars. Height: number of people's acts. Colour: the weightiest kind of dot. */
class Strip extends Part {
  /** @param {{journal: Journal, from: number, to: number, version: number, go: (n: number) => void}} given */
  render({ journal, from, to, go }) {
    const count = journal.last - journal.first + 1;
    const bars = Math.min(BARS, count);
    const tops = new Array(bars).fill("");
    const people = new Array(bars).fill(0);
    for (const notch of journal.notches.values()) {
      const bar = Math.min(bars - 1, Math.floor(((notch.n - journal.first) * bars) / count));
      if ((WEIGHT[notch.dot] ?? 0) > (WEIGHT[tops[bar]] ?? 0)) tops[bar] = notch.dot;
      if (notch.dot === "person") people[bar] += 1;
    }
    const most = Math.max(1, ...people);
    const jump = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const along = (event.clientX - box.left) / box.width;
      const part = document.dir === "rtl" ? 1 - along : along;
      go(journal.first + Math.round(part * (count - 1)));
    };
    const wide = (n) => `${(100 * n) / count}%`;
    return html`
      <div class="strip" aria-hidden="true" onpointerdown=${jump}>
        ${tops.map(
          (dot, bar) => html`<i key=${bar} class=${dot} style=${{ "block-size": `${dot ? 18 + (82 * people[bar]) / most : 6}%` }}></i>`,
        )}
        <span
          class="strip-window"
          style=${{ "inset-inline-start": wide(from - journal.first), "inline-size": wide(to - from + 1) }}
        ></span>
      </div>
    `;
  }
}

/**
 * The foot of the view.
 * @param {any} given
 */
export function TimeLine({ journal, version, cur, shown, words, valueText, dot, go, tabs, parts, fresh, keys, lanes }) {
  const { from, to } = shown;
  const notch = journal.notch(cur);
  const width = `${(100 * (cur - from)) / Math.max(1, to - from)}%`;
  return html`
    <footer class="time-line">
      <div class="time-controls">
        <${IconButton} name="first" title=${t("firstNotch")} onclick=${() => go(journal.first)} />
        <${IconButton} name="previous" title=${t("backNotch")} onclick=${() => go(cur - 1)} />
        <${IconButton} name="next" title=${t("nextNotch")} onclick=${() => go(cur + 1)} />
        <${IconButton} name="last" title=${t("lastNotch")} onclick=${() => go(journal.last)} />
        <p class="notch-words" role="status">
          <span class=${`notch-dot ${dot}`} aria-hidden="true"></span>
          <span class="faint" title=${t("notchHint")}>${t("notchOf", { n: number(cur), last: number(journal.last) })}</span>
          <b>${words}</b>
          <span class="faint digits">${notch ? exactClock(notch.t) : ""}</span>
        </p>
        ${fresh > 0 && html`<span class="tag good">${t("newNotches", { count: number(fresh) })}</span>`}
        <span class="spring"></span>
        ${tabs}
        <span class="time-keys faint" aria-hidden="true">
          <kbd>←</kbd> <kbd>→</kbd> ${t("keyStep")} <kbd>⇧</kbd>+<kbd>←</kbd> <kbd>→</kbd> ${t("keyEvent")} <kbd>[</kbd>
          <kbd>]</kbd> ${t("keyLine")} <kbd>/</kbd> ${t("keyFind")}${" "}
          ${keys.map(([key, words]) => html`<kbd>${key}</kbd> ${words} `)}
        </span>
      </div>
      ${journal.last - journal.first >= SHOWN &&
      html`<${Strip} journal=${journal} version=${version} from=${from} to=${to} go=${go} />`}
      <div class=${`track ${parts ? "parts" : ""}`}>
        <input
          type="range"
          min=${from}
          max=${to}
          value=${cur}
          aria-label=${t("timeLine")}
          aria-valuetext=${valueText}
          oninput=${(event) => go(Number(event.target.value))}
        />
        <div class="track-rail"><i style=${{ "inline-size": width }}></i></div>
        <${Notches} journal=${journal} version=${version} from=${from} to=${to} cur=${cur} />
        ${parts && html`<span class="gap" aria-hidden="true"><i></i><span>${t("codeNow")}</span></span>`}
      </div>
      ${lanes}
    </footer>
  `;
}
