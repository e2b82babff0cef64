// The bar of a held reload: the conversations that the new code doesn't fit, the differences, and the decisions.

import { act } from "./link.js";
import { number } from "./format.js";
import { confirm, tried } from "./sheet.js";
import { draw as put, html, Icon, root } from "./ui.js";
import { t } from "./words.js";
import { listen, ownerOf, world } from "./world.js";

/**
 * A conversation that holds the reload, since the new code doesn't fit the conversation's journal.
 * @typedef {{file: string, line: number, code: string} | null} Line
 * @typedef {{
 *   chat_id: number, conversation: number, route: string, notch: number, was: Line, now: Line, what: string | null,
 *   way: "wait" | "end" | "take" | null, can_wait: boolean, gone?: boolean, broken?: string
 * }} Holding
 */

const nameOf = (/** @type {number} */ chatId) => {
  const chat = world.chats.get(chatId);
  return chat ? (chat.name ?? ownerOf(chat)?.name ?? String(chatId)) : String(chatId);
};

/** One side of a difference: the old or the new code line. @param {{name: string, at: Line}} given */
const Side = ({ name, at }) => html`
  <div class="held-side">
    <span class="faint">${at ? t(name, { line: number(at.line) }) : t(`${name}None`)}</span>
    ${at && html`<code dir="ltr">${at.code}</code>`}
  </div>
`;

/** @param {{held: Holding, answers: (chat: number, conversation: number) => void}} given */
function Held({ held, answers }) {
  const { chat_id: chatId, conversation, route, was, now, what, way, can_wait: canWait, gone, broken } = held;
  const name = nameOf(chatId);
  const isDone = way === "end" || way === "take";
  const choose = (way) => tried(() => act(`travel/${chatId}/${conversation}/held`, { way }));
  const end = async () => {
    if (await confirm(t("heldEnd"), t("heldEndWhy", { name }), t("heldEndYes"))) choose("end");
  };
  return html`
    <li class="held-chat" aria-label=${t("heldChat", { name })}>
      <div class="held-words">
        <b dir="auto">${name}</b> <span class="faint" dir="ltr">${route.split(".").at(-1)}</span>
        ${was || now ? html`<${Side} name="heldWas" at=${was} /><${Side} name="heldNow" at=${now} />` : html`<div class="held-side"><bdi class="faint">${what}</bdi></div>`}
      </div>
      <div class="chips">
        ${
          // A deleted route has no new code that could get the recorded answers.
          !gone &&
          html`
            <button type="button" class="button primary" disabled=${isDone || broken} onclick=${() => answers(chatId, conversation)}>
              ${t(way === "take" ? "heldTaken" : "heldAnswers")}
            </button>
          `
        }
        <button type="button" class="button" aria-pressed=${String(way === "wait")} disabled=${!canWait || isDone} onclick=${() => choose("wait")}>
          ${t(way === "wait" ? "heldWaits" : "heldWait")}
        </button>
        <button type="button" class="button" disabled=${isDone} onclick=${end}>${t(way === "end" ? "heldEnds" : "heldEnd")}</button>
      </div>
    </li>
  `;
}

/** The bar, hidden while no reload is held. @param {{answers: (chat: number, conversation: number) => void}} hooks */
export function heldBanner({ answers }) {
  const element = root("section", { class: "held", "aria-label": t("held") });
  element.hidden = true;

  function draw() {
    element.hidden = !world.held.length;
    const broken = world.held[0]?.broken;
    put(
      html`
        <div class="held-head" role="status">
          <${Icon} name="clock" size=${18} />
          ${world.held.length > 0 && html`<span>${t(broken ? "heldBroken" : "heldHead", { count: number(world.held.length), why: broken })}</span>`}
        </div>
        <ul>
          ${world.held.map((held) => html`<${Held} key=${held.conversation} held=${held} answers=${answers} />`)}
        </ul>
        <button type="button" class="button held-restart" disabled=${Boolean(broken)} title=${t("heldRestartWhy")} onclick=${() => tried(() => act("bot/restart"))}>
          ${t("heldRestart")}
        </button>
      `,
      element,
    );
  }

  listen((fresh) => (fresh.all || fresh.held || (world.held.length && fresh.users)) && draw());
  return { element };
}
