// The chat at a notch: the notch's own messages have a ring; later messages are faint and dashed.

import { exactClock, money } from "../format.js";
import { html, Icon, Part } from "../ui.js";
import { t } from "../words.js";
import { ownPath } from "../world.js";
import { cameWords, moneyWords, saying, textOf } from "./say.js";
import { isOf, near, saidAt } from "./story.js";

/** @typedef {import("./story.js").Item} Item */

const LONGEST = 2_000;

const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);

/** One bubble or grey line; drawn again only if a property has changed. */
class Entry extends Part {
  /** @param {{item: any, isLater: boolean, isNow: boolean, isPending: boolean, isGone: boolean, isUsed: boolean, isBare: boolean, isOther: boolean, by: string, said: any, now: string | null | undefined, go: (n: number) => void}} given */
  render({ item, isLater, isNow, isPending, isGone, isUsed, isBare, isOther, by, said, now, go }) {
    const marks = [isLater && "later", isNow && "now", isPending && "pending", isGone && "gone", isOther && "differs"].filter(Boolean).join(" ");
    const here = isNow ? "true" : undefined;
    if (item.kind === "act") {
      return html`
        <button type="button" class=${`then-act ${marks}`} aria-current=${here} onclick=${() => go(item.at)}>
          ${actWords(item)}
        </button>
      `;
    }
    if (item.kind === "other") {
      return html`
        <div class=${`then-bubble other ${item.said.from_bot ? "" : "mine"} ${isLater ? "later" : ""}`} title=${t("ofAnother")}>
          <span class="then-text" dir="auto">${short(item.said.content?.text ?? t(item.said.content?.type ?? "file"))}</span>
          <span class="then-time digits">${exactClock(item.t)}</span>
        </div>
      `;
    }
    const told = item.kind === "mine" ? item.notch.in : said;
    const text = told?.letters ? html`<${Bars} letters=${told.letters} />` : short(told?.text ?? "");
    const content = item.kind === "mine" ? item.notch.in?.content : said?.content;
    const media = content && content.type !== "text" ? content.type : "";
    return html`
      <button
        type="button"
        class=${`then-bubble ${item.kind} ${marks}`}
        aria-current=${here}
        onclick=${() => go(item.at)}
      >
        ${by && html`<b class="then-name"><bdi>${by}</bdi></b>`}
        ${media && mediaOf(content)}
        ${text && html`<span class="then-text" dir="auto">${text}</span>`}
        ${said?.form && formOf(said.form, isUsed)}
        ${(said?.reworded || said?.unknown) && html`<span class="then-reworded">${t(said.unknown ? "wordsUnknown" : "notAsSent")}</span>`}
        ${now !== undefined && html`<span class="then-now"><i>${t("nowItSays")}</i><span dir="auto">${short(now ?? "")}</span></span>`}
        <span class="then-time digits">
          ${item.failed ? t("notSent") : isPending ? t("waitsInOutbox") : isLater ? "" : exactClock(item.t)}
        </span>
        ${said?.buttons && !isBare && keysOf(said.buttons.map((row) => row.map(buttonWords)))}
        ${said?.keyboard && keysOf(said.keyboard.map((row) => row.map((key) => labelOf(key, key.label))), "keyboard")}
      </button>
    `;
  }
}

// Letters of a bar, and maximum number of bars: bars stand for a text that the server hides.
const LINE = 28;
const LINES = 6;

/** @param {{letters: number}} given */
function Bars({ letters }) {
  const lines = [];
  for (let left = letters; left > 0 && lines.length < LINES; left -= LINE) lines.push(Math.min(LINE, left));
  return html`
    <span class="then-bars" role="img" aria-label=${textOf({ letters })}>
      ${lines.map((long) => html`<i style=${{ "inline-size": `${long * 0.5}em` }}></i>`)}
    </span>
  `;
}

const labelOf = (one, words) => (one.letters === undefined ? words : html`<${Bars} letters=${one.letters} />`);

const buttonWords = (button) => labelOf(button, wordsOn(button));

const wordsOn = (button) =>
  button.kind === "pay" && button.letters === undefined ? `${button.text} ${money(button.amount, button.currency)}` : button.text;

/** Return a picture whose file is on this server; for other content, the kind of content. */
function mediaOf(content) {
  const path = content.type === "image" ? ownPath(content.descriptor?.path) : null;
  if (path) return html`<img class="then-picture" src=${path} alt=${t("image")} />`;
  return html`<span class="then-media"><${Icon} name=${pictureOf(content.type)} size=${18} />${t(content.type)}</span>`;
}

const pictureOf = (media) => ({ image: "image", video: "video", audio: "audio", voice: "mic", location: "pin", contact: "person" })[media] ?? "file";

const keysOf = (rows, kind = "") => html`
  <span class=${`then-keys ${kind}`}>
    ${rows.map((row) => html`<span class="then-row">${row.map((label) => html`<span class="then-key"><bdi>${label}</bdi></span>`)}</span>`)}
  </span>
`;

const formOf = (fields, isUsed) => html`
  <span class=${`then-form ${isUsed ? "used" : ""}`}>
    ${fields.filter((field) => field.type !== "submit").map(
      (field) => html`
        <span class="then-field"><i><bdi>${labelOf(field, field.label || field.name)}</bdi></i><b><bdi>${field.value ? String(field.value) : "–"}</bdi></b></span>
      `,
    )}
  </span>
`;

/** Return a grey line's words. @param {Item} item */
function actWords(item) {
  if (item.sent?.unknown) return t("wordsUnknown");
  if (item.sent?.reworded) return `${sentWords(item)} (${t("notAsSent")})`;
  if (item.sent) return sentWords(item);
  if (item.money) return moneyWords(item.money);
  return item.notch.in ? cameWords(item.notch.in, item.notch.k) : "";
}

function sentWords({ sent }) {
  if (sent.to) return saying("wroteElsewhere", sent);
  return saying(sent.kind === "answer" ? "answeredPress" : sent.kind === "invoice" ? "madeInvoice" : "didSend", sent);
}

/** Return an error's message after a colon; the class name before the message is removed. */
const saidBy = ({ error, text }) => {
  const words = text.startsWith(`${error}: `) ? text.slice(error.length + 2) : text;
  return words && words !== error ? `: ${short(words)}` : "";
};

/** One error with its frames and causes; a click chooses a frame. `again` opens a branch before the error. @param {any} given */
export function Crash({ failure, sources, chosen, choose, lineOf, again = null, depth = 0 }) {
  return html`
    <article class="crash-card" aria-label=${failure.error}>
      ${depth === 0 && html`<h3>${t("crashCard")}</h3>`}
      <p class="crash-words" dir="ltr"><b>${failure.error}</b>${saidBy(failure)}</p>
      <ol class="crash-frames" dir="ltr">
        ${failure.frames.map(
          (frame, place) => html`
            <li>
              <button
                type="button"
                aria-pressed=${String(chosen?.failure === failure && chosen?.place === place)}
                onclick=${() => choose({ failure, place })}
              >
                <span class="crash-place">${sources[frame[0]]?.name ?? "?"}:${frame[1]} · ${frame[2]}</span>
                <code>${lineOf(frame[0], frame[1]).trim()}</code>
              </button>
            </li>
          `,
        )}
      </ol>
      ${failure.step && html`<p class="faint">${t("causedBy")}</p><pre class="crash-step" dir="ltr" tabindex="0">${failure.step}</pre>`}
      ${again &&
      html`<button type="button" class="button" onclick=${again}><${Icon} name="replay" size=${16} />${t("runAgain")}</button>`}
      ${(failure.causes ?? []).map(
        (cause) => html`
          <p class="faint">${t(cause.because === "context" ? "whileHandling" : "causedBy")}</p>
          <${Crash} failure=${cause} sources=${sources} chosen=${chosen} choose=${choose} lineOf=${lineOf} depth=${depth + 1} />
        `,
      )}
    </article>
  `;
}

/**
 * The column of the chat.
 * @param {{items: any[], cur: number, go: (n: number) => void, crash: any, others: Set<string>, says: Record<string, string | null>}} given `others`: keys of the messages that the shown branch words differently or doesn't send; `says`: see `saysNow`
 */
export function Chat({ items, cur, go, crash, others, says }) {
  const writers = new Set(items.filter((item) => item.kind === "mine").map((item) => item.notch.in?.from));
  return html`
    <section class="column column-chat" id="travel-chat">
      <header class="column-head"><h2>${t("chatThen")}</h2><span class="spring"></span><span class="faint">${t("laterIsFaint")}</span></header>
      <div class="then" tabindex="0" role="region" aria-label=${t("chatThen")}>
        ${near(items, cur).map(
          (item) => html`<${Entry}
            key=${item.key}
            item=${item}
            isLater=${item.at > cur}
            isNow=${item.kind !== "other" && isOf(item, cur)}
            isPending=${item.kind === "bot" && item.at <= cur && item.done > cur}
            isGone=${item.gone <= cur}
            isUsed=${item.used <= cur}
            isBare=${item.bare <= cur}
            isOther=${others.has(item.key)}
            by=${writers.size > 1 && item.kind === "mine" ? item.notch.in?.name : ""}
            said=${item.kind === "other" ? null : saidAt(item, cur)}
            now=${item.kind === "bot" ? says[saidAt(item, cur)?.id ?? ""] : undefined}
            go=${go}
          />`,
        )}
        ${crash}
      </div>
    </section>
  `;
}

export function centre(element, holder, wanted) {
  const box = element.querySelector(holder);
  const one = [...(box?.querySelectorAll(wanted) ?? [])].at(-1);
  if (!box || !one) return false;
  const [outer, inner] = [box.getBoundingClientRect(), one.getBoundingClientRect()];
  if (inner.top < outer.top + 40 || inner.bottom > outer.bottom - 40)
    box.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  return true;
}
