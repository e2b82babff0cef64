// The author's file with the notch's current line. Beside each line stand the notches with this current line.

import { number } from "../format.js";
import { html, Part } from "../ui.js";
import { t } from "../words.js";
import { ranges } from "./path.js";

// Maximum number of notches beside a line: a line in a loop has hundreds; the nearest are shown.
const MARKS = 3;
const SCHEMES = {
  none: null,
  vscode: (path, line) => `vscode://file${path}:${line}`,
  cursor: (path, line) => `cursor://file${path}:${line}`,
  idea: (path, line) => `idea://open?file=${encodeURIComponent(path)}&line=${line}`,
};
const KEY = "triobot-editor";

/** Return the notches of `all` that are nearest to the shown notch. */
function nearest(all, cur) {
  if (all.length <= MARKS) return all;
  let place = all.findIndex((n) => n >= cur);
  if (place < 0) place = all.length - 1;
  const from = Math.max(0, Math.min(place - 1, all.length - MARKS));
  return all.slice(from, from + MARKS);
}

/** A line; drawn again only if a property has changed: most lines don't change from notch to notch. */
class Line extends Part {
  /** @param {{at: number, pieces: [string, string][], marks: string, count: number, lit: string, ran: boolean, fired: boolean, cur: number, note: string, go: (n: number) => void}} given */
  render({ at, pieces, marks, count, lit, ran, fired, cur, note, go }) {
    const indent = /^\s*/.exec(pieces.map(([, text]) => text).join(""))?.[0] ?? "";
    return html`
      <div class=${`line ${lit} ${ran ? "ran" : ""} ${fired ? "fired" : ""}`} title=${fired ? t("blockEndedHere") : undefined} data-line=${at} aria-current=${lit === "lit" ? "location" : undefined}>
        <span class="line-number" aria-hidden="true">${at}</span>
        <span class="line-marks">
          ${marks &&
          marks.split(",").map(
            (n) => html`
              <button
                type="button"
                key=${n}
                class=${Number(n) === cur ? "on" : ""}
                title=${t("lineStood", { count: number(count) })}
                aria-label=${t("notchNumber", { n: number(Number(n)) })}
                onclick=${() => go(Number(n))}
              >
                ${number(Number(n))}
              </button>
            `,
          )}
        </span>
        <span class="line-text">${pieces.map(([kind, text]) => (kind ? html`<span class=${`py-${kind}`}>${text}</span>` : text))}</span>
      </div>
      ${note &&
      html`<div class="line lit note"><span class="line-number"></span><span class="line-marks"></span><span class="line-text">${indent}<span class="note-words" dir=${document.dir}>${note}</span></span></div>`}
    `;
  }
}

/** The frames, the outermost first; a click chooses a frame. `behind` is the operation that the innermost waits for. */
function Stack({ frames, sources, depth, choose, behind }) {
  return html`
    <nav class="code-stack" aria-label=${t("stack")} dir="ltr">
      ${frames.map(
        (frame, place) => html`
          <button type="button" key=${place} aria-pressed=${String(place === depth)} onclick=${() => choose(place)}>
            <b>${frame[2] ? `${frame[2]}()` : t("pathOfTurn")}</b><span>${sources[frame[0]]?.name ?? "?"}:${frame[1]}</span>
          </button>
          ${(place < frames.length - 1 || behind) && html`<span class="stack-arrow" aria-hidden="true">›</span>`}
        `,
      )}
      ${behind && html`<span class="stack-behind">${behind}</span>`}
    </nav>
  `;
}

/** A link that opens the line in an editor, by the scheme of the chosen editor; the browser keeps the choice. */
function Editor({ source, line }) {
  const chosen = localStorage.getItem(KEY) ?? "none";
  const address = source && SCHEMES[chosen]?.(source.path, line);
  const choose = (event) => {
    localStorage.setItem(KEY, event.target.value);
    event.target.dispatchEvent(new CustomEvent("travel-draw", { bubbles: true }));
  };
  return html`
    <span class="editor">
      ${address && html`<a class="chip" href=${address}>${t("openInEditor")}</a>`}
      <select aria-label=${t("openInEditor")} title=${t("openInEditor")} onchange=${choose}>
        ${Object.keys(SCHEMES).map(
          (name) => html`<option value=${name} selected=${name === chosen}>${name === "none" ? t("openInEditor") : name}</option>`,
        )}
      </select>
    </span>
  `;
}

/** The difference of code and journal: the recorded operation, and the present code's line, if there is a line. */
const Parting = ({ recorded, line, mended }) => html`
  <div class=${`parting ${mended ? "mended" : ""}`} role="note">
    <b>${t(mended ? "mendedHere" : "partsHere")}</b>
    <div class="parting-sides">
      <div>${line && html`<h3>${t("recordedThen")}</h3>`}${mended ? html`<p>${t("state_crashed")}</p>` : html`<p dir="ltr">${recorded}</p>`}</div>
      ${line && html`<div><h3>${t("codeNow")}</h3><pre dir="ltr">${line}</pre></div>`}
    </div>
  </div>
`;

/** The button that shows the lines that ran in the turn. */
const PathButton = ({ path }) => html`
  <button type="button" class="chip" title=${t("pathWhy")} aria-pressed=${String(path.isOn)} onclick=${path.toggle}>${t("pathOfTurn")}</button>
`;

/** The column of the code. @param {any} given */
export function Code({ frames, sources, source, lines, lit, depth, choose, behind, note, stood, cur, go, branches, parting, path, ran, elsewhere, show, fired }) {
  const name = sources[source]?.name ?? "";
  const isRan = new Set(ran);
  return html`
    <section class="column column-code" id="travel-code">
      <header class="column-head">
        <${Stack} frames=${frames} sources=${sources} depth=${depth} choose=${choose} behind=${behind} />
        <span class="spring"></span>
        <${PathButton} path=${path} />
        <${Editor} source=${sources[source]} line=${lit} />
      </header>
      ${
        path?.isOn &&
        html`
          <p class="path-words faint" role="status">
            ${t("pathLines", { lines: ranges(ran) || "–" })}
            ${elsewhere.map(([of, lines]) => html` <button type="button" class="chip" dir="ltr" onclick=${() => show(of, lines[0])}>${`${sources[of]?.name}: ${ranges(lines)}`}</button>`)}
          </p>
        `
      }
      ${branches} ${parting && html`<${Parting} ...${parting} />`}
      <div class="code" tabindex="0" role="region" aria-label=${t("codeOf", { name })} dir="ltr">
        <div class="lines">${lines.map((pieces, place) => {
          const all = stood.get(`${source}:${place + 1}`) ?? [];
          const isLit = place + 1 === lit;
          return html`<${Line}
            key=${`${source}:${place + 1}`}
            at=${place + 1}
            pieces=${pieces}
            marks=${nearest(all, cur).join(",")}
            count=${all.length}
            lit=${isLit ? (parting?.isShown ? "lit departs" : "lit") : ""}
            ran=${isRan.has(place + 1)}
            fired=${fired === `${source}:${place + 1}`}
            cur=${all.includes(cur) ? cur : -1}
            note=${isLit ? note : ""}
            go=${go}
          />`;
        })}</div>
      </div>
    </section>
  `;
}
