// A branch: the chat at a notch, and an alternative continuation. A person writes, presses, fills in and pays as in
// an ordinary chat. The page sends each act to the branch; the answer is the branch's new state.

import { bubble } from "../bubble.js";
import { ReplyKeyboard } from "../buttons.js";
import { Composer } from "../composer.js";
import { exactClock, longwatch } from "../format.js";
import { lineWords } from "../lines.js";
import { act } from "../link.js";
import { payInvoice } from "../paying.js";
import { tried } from "../sheet.js";
import { draw as put, html, Icon, root } from "../ui.js";
import { t } from "../words.js";
import { Notes } from "./notes.js";
import { differing, saidIn, wordsOf } from "./differ.js";
import { isGone } from "./passes.js";

const TEN_MINUTES = 600;
const UNITS = [1, 60, 3_600, 86_400];
// The error code of a declined invoice: the person has too little money.
const NOT_ENOUGH = 1_000;

/**
 * A branch's state, from the server.
 * @typedef {{
 *   id: string, chat_id: number, at: number, now: number, ended: boolean, name: string | null,
 *   people: {id: number, name: string, wallet: Record<string, number>}[], members: number[], chat: any[],
 *   reply_keyboard: any, bills: any[], stands: any[], asked: any[], steps: any[], left: any[], failures: any[],
 *   alarms: any[], answers: {left: number, stopped: string | null} | null, can_take?: boolean, cannot_take?: string | null
 * }} Look
 */

/** @typedef {ReturnType<typeof branchPane>} Pane */

/** @type {ReturnType<typeof differing>} */
const NOTHING_DIFFERS = { others: new Map(), missing: new Map() };

/** The words of a recorded message that the branch doesn't send. */
const Missing = ({ words }) => html`
  <p class="differs-words missing" dir="auto"><span class="faint">${t("notSaidNow")}</span>${" "}<del>${words}</del></p>
`;

/** The differences between a branch's message and the recorded message; without a recorded message, `was` is null. */
const Differs = ({ was, is }) => html`
  <p class="differs-words" dir="auto">
    <span class="faint">${t(was === null ? "notSaidThen" : "saidOtherwise")}</span>${" "}
    ${was !== null && wordsOf(was, is).map(([kind, words]) => (kind === "same" ? words : kind === "gone" ? html`<del>${words}</del>` : html`<ins>${words}</ins>`))}
  </p>
`;

/**
 * Open a pane for a branch.
 * @param {Look} look
 * @param {string} title
 * @param {{throwAway: (pane: Pane) => void, keep: (pane: Pane) => void, taken: () => void, instead: (pane: Pane, step: string) => void, then: (() => {words: string[], elsewhere: Set<string>}) | null}} hooks `instead` opens the branch again, with a step that asks the developer; `then` returns the recorded words, for the comparison
 */
export function branchPane(look, title, { throwAway, keep, taken, instead, then }) {
  let told = look;
  let isLost = false;
  let isTouched = false;
  let working = 0;
  let userId = told.people[0]?.id ?? 0;
  const element = root("div", { class: "branch", role: "group", "aria-label": title });
  // The pane object for bubbles, keyboards and the composer.
  const view = {
    branch: told.id,
    chatId: told.chat_id,
    element,
    people: new Map(),
    chat: /** @type {any} */ (null),
    get userId() {
      return userId;
    },
    get user() {
      return view.people.get(userId);
    },
    act: (name, given) => ask("act", { name, values: given, user: userId }),
  };
  /** @type {HTMLElement} */
  let scroller = element;
  /** @type {Composer | null} */
  let writing = null;
  // The chat's lines of the last answer: a line with the same JSON stays the same object, and isn't drawn again.
  /** @type {{json: string, line: any}[]} */
  let lines = [];

  let differs = NOTHING_DIFFERS;

  /** Run a command in the branch, and draw the new state. @param {string} what @param {any} given */
  async function ask(what, given) {
    working += 1;
    isTouched = true;
    draw();
    try {
      told = await act(`travel/branch/${told.id}/${what}`, given);
    } catch (error) {
      isLost = isGone(error);
      throw error;
    } finally {
      working -= 1;
      draw();
      toEnd();
    }
  }

  const tries = (what, given) => tried(() => ask(what, given), element);

  /** Replace the chat's conversation by this branch. */
  const takePlace = () =>
    tried(async () => {
      await act(`travel/branch/${told.id}/take`);
      taken();
    }, element);

  function draw() {
    const { people, members, name, reply_keyboard: keyboard } = told;
    view.people = new Map(people.map((user) => [user.id, user]));
    view.chat = { id: told.chat_id, name, members, reply_keyboard: keyboard, waiting: new Map() };
    const isThere = members.includes(userId) && !isLost;
    put(
      html`
        <header class="branch-head">${head()}</header>
        <div class="scroller" tabindex="0" role="region" aria-label=${title} ref=${(made) => made && (scroller = made)}>
          <div class="messages-rim"></div>
          <div class="messages" role="log" aria-live="polite">${entriesOf()}</div>
        </div>
        <div class="branch-notes">
          <${Notes} told=${told} isLost=${isLost} tries=${tries} takePlace=${takePlace} instead=${(step) => instead(pane, step)} bills=${openInvoices()} place=${element} />
        </div>
        ${
          people.length > 0 &&
          html`
            <div class="keys">${isThere && keyboard?.length > 0 && html`<${ReplyKeyboard} rows=${keyboard} view=${view} />`}</div>
            <footer class="thread-foot">
              <${Composer} view=${view} hidden=${!isThere} begun=${(made) => (writing = made)} />
              ${!isThere && !isLost && html`<button type="button" class="button primary join" onclick=${join}>${t("joinAgain")}</button>`}
            </footer>
          `
        }
      `,
      element,
    );
  }

  const join = () => tried(() => view.act("join", told.name === null ? {} : { chat: told.chat_id }), element);

  const openInvoices = () =>
    told.bills
      .filter((bill) => bill.kind === "invoice" && bill.state === "open")
      .map((bill) => ({
        ...bill,
        pay: () => payInvoice(bill, view),
        decline: () => tried(() => view.act("pay", { invoice: bill.id, code: NOT_ENOUGH }), element),
      }));

  function head() {
    const passed = longwatch((told.now - told.at) / 1000);
    return html`
        <div class="branch-title">
          <${Icon} name="branch" size=${17} />
          <h2>${title}</h2>
          ${told.ended && html`<span class="tag">${t("branchEnded")}</span>`}
          <span class="spring"></span>
          <button type="button" class="chip" title=${t("keepTest")} aria-label=${`${t("keepTest")}: ${title}`} onclick=${() => keep(pane)}>
            <${Icon} name="save" size=${15} />
          </button>
          <button type="button" class="chip" onclick=${() => throwAway(pane)}>${t("throwAway")}</button>
        </div>
        <div class="branch-clock">
          <${Icon} name="clock" size=${16} />
          <span class="digits" role="status" title=${t("branchBehind", { passed })}>${t(working ? "branchWorks" : "branchNow", { now: exactClock(told.now), passed })}</span>
          <span class="spring"></span>
          <button type="button" class="chip" disabled=${isLost} onclick=${() => tries("wait", { seconds: TEN_MINUTES })}>
            ${t("plusTenMinutes")}
          </button>
          <details class="branch-time">
            <summary class="chip" aria-label=${t("howMuchTime")}>…</summary>
            <form onsubmit=${letPass}>
              <input name="many" type="number" min="0" step="any" value="1" required aria-label=${t("howMuchTime")} />
              <select name="unit" aria-label=${t("timeUnit")}>
                ${UNITS.map((unit) => html`<option value=${unit} selected=${unit === 3_600}>${t(`unit_${unit}`)}</option>`)}
              </select>
              <button type="submit" class="chip">${t("letPass")}</button>
            </form>
          </details>
          ${told.people.length > 1 &&
          html`
            <select aria-label=${t("whoActs")} onchange=${(event) => ((userId = Number(event.target.value)), draw())}>
              ${told.people.map((user) => html`<option value=${user.id} selected=${user.id === userId}>${user.name}</option>`)}
            </select>
          `}
        </div>
    `;
  }

  function letPass(event) {
    event.preventDefault();
    const given = new FormData(event.target);
    event.target.closest("details").open = false;
    tries("wait", { seconds: Number(given.get("many")) * Number(given.get("unit")) });
  }

  // --- the chat

  function entriesOf() {
    const first = told.chat.findIndex((line) => line.new);
    const all = [...told.chat];
    all.splice(first < 0 ? all.length : first, 0, { kind: "begins", at: told.at });
    lines = all.map((line, place) => {
      const json = JSON.stringify(line);
      return lines[place]?.json === json ? lines[place] : { json, line };
    });
    const said = lines.filter(({ line }) => line.kind === "message" && line.new && line.from_bot);
    const { words, elsewhere } = then?.() ?? { words: [], elsewhere: new Set() };
    const now = said.map(({ line }) => ({ words: saidIn(line.said), isElsewhere: elsewhere.has(saidIn([line])) }));
    // A branch that has received all answers sends no further messages.
    const isOver = told.ended || (told.answers?.left === 0 && !told.asked.length);
    differs = then ? differing(words, now, isOver) : NOTHING_DIFFERS;
    const missingAt = (at) => (differs.missing.get(at) ?? []).map((place) => html`<${Missing} key=${`missing ${place}`} words=${words[place]} />`);
    const drawn = lines.flatMap((one, place) => {
      const { line } = one;
      const at = said.indexOf(one);
      const old = differs.others.get(at);
      const before = lines[place - 1]?.line;
      const follows = before?.kind === "message" && before.author === line.author && before.new === line.new;
      const marks = [line.new && "new", old !== undefined && "differs"].filter(Boolean).join(" ");
      if (line.kind !== "message")
        return html`<div key=${`line ${place}`} class=${`day ${line.kind === "begins" ? "begins" : ""} ${marks}`}><span>${wordsOf(line)}</span></div>`;
      const shown = [...missingAt(at), bubble(line, view, follows, marks)];
      if (old !== undefined) shown.push(html`<${Differs} key=${`differs ${line.id}`} was=${old === null ? null : words[old]} is=${now[at].words} />`);
      return shown;
    });
    return [...drawn, ...missingAt(said.length)];
  }

  function wordsOf(line) {
    if (line.kind === "begins") return t("branchBegins", { at: exactClock(line.at) });
    if (line.kind === "time") return t("timeWentBy", { time: longwatch(line.seconds) });
    return lineWords(line, view.people);
  }

  const toEnd = () => requestAnimationFrame(() => (scroller.scrollTop = scroller.scrollHeight));
  // Keyboards and notes that appear later must not push the newest messages out of sight.
  const sizes = new ResizeObserver(toEnd);

  const pane = {
    element,
    title,
    get id() {
      return told.id;
    },
    /** Positions of the recorded messages that the branch words differently or doesn't send. */
    get gone() {
      return new Set([...differs.others.values(), ...[...differs.missing.values()].flat()]);
    },
    get isTouched() {
      return isTouched;
    },
    holds: (place) => element.contains(place),
    focus: () => (writing ?? /** @type {HTMLElement | null} */ (element.querySelector(".branch-head button")))?.focus(),
    /** Close the pane, and delete the branch on the server. */
    close() {
      sizes.disconnect();
      put(null, element);
      if (!isLost) act(`travel/branch/${told.id}`, undefined, "DELETE").catch(() => {});
    },
  };
  draw();
  toEnd();
  sizes.observe(scroller);
  return pane;
}
