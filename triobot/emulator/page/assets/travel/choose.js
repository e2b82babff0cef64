// The choice of a chat's conversation for the time travel.

import { exactClock, number } from "../format.js";
import { sheet, toast, tried } from "../sheet.js";
import { html } from "../ui.js";
import { t } from "../words.js";
import { conversationsOf } from "./passes.js";

const OVER = new Set(["ended", "interrupted", "left", "stopped", "crashed"]);

export const shortRoute = (route) => route.split(".").at(-1) ?? route;

/** Open a chat's only conversation, or its only conversation that hasn't ended; if neither exists, ask. */
export async function chooseConversation(chatId, open) {
  await tried(async () => {
    const all = await conversationsOf(chatId);
    if (!all.length) return toast(t("travelNone"));
    const going = all.filter((one) => !OVER.has(one.state));
    const [only] = going.length ? going : all;
    const isOnly = going.length === 1 || all.length === 1;
    const chosen = isOnly ? only.conversation : await ask(all);
    if (chosen !== undefined) open(chatId, chosen);
  });
}

const ask = (all) =>
  sheet(
    t("travelChoose"),
    (done) => html`
      <div class="sheet-body conversations">
        ${all.map(
          (one, place) => html`
            <button
              type="button"
              key=${one.conversation}
              class="conversation-choice"
              autofocus=${place === 0}
              onclick=${() => done(one.conversation)}
            >
              <b dir="ltr">${shortRoute(one.route)}</b>
              <span class="faint">${`${t(`kind_${one.kind}`)}\u00a0${number(one.conversation)}`}</span>
              <span class="spring"></span>
              <span class="faint digits">${exactClock(one.started_at)}</span>
              <span class=${`tag ${one.state}`}>${t(`state_${one.state}`)}</span>
            </button>
          `,
        )}
      </div>
    `,
  );
