// The chat's conversations on one time axis: each conversation, aside and interrupt has a lane, with a dot for each
// received act of a person. The last lane has the acts that no conversation received, and the payments.

import { exactClock, number } from "../format.js";
import { lineWords } from "../lines.js";
import { html } from "../ui.js";
import { t } from "../words.js";
import { shortRoute } from "./choose.js";

// Maximum number of shown times: the newest.
const SHOWN = 200;
const HINTED = new Set(["aside", "interrupt"]);

/** The lanes. The axis shows only the order of times: all distances are equal. @param {{all: any[], conversation: number, now: number, beside: {at: number, line: any, isLoose: boolean}[], seek: (conversation: number, at: number) => void, find: (line: any) => void}} given `beside`: acts that no conversation received, and payments */
export function Lanes({ all, conversation, now, beside, seek, find }) {
  const lanes = all.filter((one) => one.taken).toReversed();
  if (lanes.length + beside.length < 2) return null;
  const moments = [...lanes.flatMap((one) => [one.started_at, ...one.taken]), ...beside.map(({ at }) => at)];
  const times = [...new Set(moments)].sort((one, other) => one - other).slice(-SHOWN);
  const order = new Map(times.map((at, place) => [at, `${(100 * place) / Math.max(1, times.length - 1)}%`]));
  const here = times.findLast((at) => at <= now);
  const dot = (at, kind, title, onclick) =>
    order.has(at) &&
    html`<i class=${`lane-dot ${kind} ${at === here ? "here" : ""}`} style=${{ "inset-inline-start": order.get(at) }} title=${title} onclick=${onclick}></i>`;
  return html`
    <ol class="lanes" aria-label=${t("wholeChat")}>
      ${lanes.map(
        (one) => html`
          <li key=${one.conversation} class=${one.conversation === conversation ? "here" : ""}>
            <button type="button" title=${HINTED.has(one.kind) ? t(`hint_${one.kind}`) : undefined} aria-pressed=${String(one.conversation === conversation)} onclick=${() => seek(one.conversation, Infinity)}>
              <bdi>${shortRoute(one.route)}</bdi> ${`${t(`kind_${one.kind}`)} ${number(one.conversation)}`}
            </button>
            <span class=${`lane ${one.state}`} aria-hidden="true">
              ${[...new Set(one.taken)].map((at) => dot(at, "", exactClock(at), () => seek(one.conversation, at)))}
            </span>
          </li>
        `,
      )}
      ${
        beside.length > 0 &&
        html`
          <li>
            <span class="faint">${t("besides")}</span>
            <span class="lane none" aria-hidden="true">
              ${beside.map(({ at, line, isLoose }) => {
                const words = line.kind ? lineWords(line) : (line.content?.text ?? "");
                const title = [exactClock(at), words, isLoose && t("nobodyTook")].filter(Boolean).join(" · ");
                return dot(at, isLoose ? "loose" : "money", title, () => find(line));
              })}
            </span>
          </li>
        `
      }
    </ol>
  `;
}
