// A file of the bot's with what was reached of it: a mark for each line, by this run and by the crowd.

import { number } from "../format.js";
import { look } from "../link.js";
import { sheet, toast, tried } from "../sheet.js";
import { coloured } from "../travel/python.js";
import { html } from "../ui.js";
import { t } from "../words.js";

/** @typedef {0 | 1 | 2 | "part" | null} State of a line; null where nothing runs, or nothing is known */

/** What stands for a state, so that nobody has to tell colours apart. */
export const SIGNS = { 1: "✓", 0: "✗", 2: "~", part: "◐" };

/**
 * Of each line its state by this run and by the crowd. A line may have several statements.
 * @param {number} count
 * @param {[number, number, number | null, number | null][]} statements
 * @returns {[State, State][]}
 */
export function statesOf(count, statements) {
  /** @type {[Set<number>, Set<number>][]} */
  const found = Array.from({ length: count }, () => [new Set(), new Set()]);
  for (const [first, last, ...states] of statements)
    for (let line = first; line <= last; line++)
      states.forEach((state, origin) => state !== null && found[line - 1]?.[origin].add(state));
  return found.map(([run, crowd]) => [together(run), together(crowd)]);
}

/** @param {Set<number>} states @returns {State} */
function together(states) {
  if (states.has(1)) return states.has(0) ? "part" : 1;
  return states.has(0) ? 0 : states.has(2) ? 2 : null;
}

/** What both come to: who has reached it counts. @param {[State, State]} states */
export function kindOf(states) {
  if (states.includes(1)) return "reached";
  if (states.includes("part")) return "partly";
  if (states.includes(2)) return "in-step";
  return states.includes(0) ? "missed" : "silent";
}

const Mark = ({ state, by }) => html`
  <td class="mark-cell">
    ${state !== null && html`<span role="img" class=${`state-${state}`} title=${`${by}: ${t(`reach_${state}`)}`} aria-label=${t(`reach_${state}`)}>${SIGNS[state]}</span>`}
  </td>
`;

const Legend = () => html`
  <ul class="reach-legend">
    ${[1, "part", 0, 2].map((state) => html`<li key=${state}><span class=${`state-${state}`} aria-hidden="true">${SIGNS[state]}</span> ${t(`reach_${state}`)}</li>`)}
  </ul>
`;

function Source({ told }) {
  const lines = coloured(told.text);
  const states = statesOf(lines.length, told.lines);
  return html`
    ${told.older_crowd && html`<p class="hint" role="note">${t("olderCrowd")}</p>`}
    <${Legend} />
    <div class="reach-code" tabindex="0" role="region" aria-label=${t("codeOf", { name: told.name })} dir="ltr">
      <table>
        <thead>
          <tr>
            <th scope="col">${t("byRun")}</th><th scope="col">${t("byCrowd")}</th><th scope="col">${t("lineNumber")}</th><th scope="col">${told.name}</th>
          </tr>
        </thead>
        <tbody>
          ${lines.map((pieces, place) => {
            const [run, crowd] = states[place];
            return html`
              <tr key=${place} class=${kindOf(states[place])} data-line=${place + 1}>
                <${Mark} state=${run} by=${t("byRun")} />
                <${Mark} state=${crowd} by=${t("byCrowd")} />
                <td class="line-number">${place + 1}</td>
                <td class="line-text">${pieces.map(([kind, text]) => (kind ? html`<span class=${`py-${kind}`}>${text}</span>` : text))}</td>
              </tr>
            `;
          })}
        </tbody>
      </table>
    </div>
  `;
}

/** Show a file. @param {number} file */
export async function showSource(file) {
  await tried(async () => {
    const told = await look(`lines/file?file=${file}`);
    await sheet(
      told.name,
      (done) => html`
        <div class="sheet-body reach"><${Source} told=${told} /></div>
        <div class="sheet-actions">
          <button type="button" class="button" onclick=${(event) => next(event.target.closest(".sheet"))}>${t("nextMissed")}</button>
          <button type="button" class="button primary" autofocus onclick=${() => done(undefined)}>${t("close")}</button>
        </div>
      `,
      { kind: "source" },
    );
  });
}

/** Go to the next line that nobody has reached, and from the last one to the first. */
function next(body) {
  const all = [...body.querySelectorAll("tr.missed, tr.partly")];
  if (!all.length) return toast(t("noMissed"));
  const before = all.findIndex((row) => row.hasAttribute("aria-current"));
  for (const row of all) row.removeAttribute("aria-current");
  const row = all[(before + 1) % all.length];
  row.setAttribute("aria-current", "location");
  row.scrollIntoView({ block: "center" });
}

/** So many of a hundred; what is not whole is never shown as whole. */
export const percent = ({ reached, of }) => t("percent", { count: number(of ? Math.floor((100 * reached) / of) : 100) });
