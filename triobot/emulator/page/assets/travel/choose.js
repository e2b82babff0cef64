// Which of a chat's conversations to go through.

import { h } from "../dom.js";
import { exactClock, number } from "../format.js";
import { sheet, toast, tried } from "../sheet.js";
import { t } from "../words.js";
import { conversationsOf } from "./passes.js";

/** Open the one that there is, or ask which. */
export async function chooseConversation(chatId, open) {
  await tried(async () => {
    const all = await conversationsOf(chatId);
    if (!all.length) return toast(t("travelNone"));
    const chosen = all.length === 1 ? all[0].conversation : await ask(all);
    if (chosen !== undefined) open(chatId, chosen);
  });
}

const ask = (all) =>
  sheet(t("travelChoose"), (done) =>
    h(
      "div.sheet-body.conversations",
      {},
      all.map((one, place) =>
        h(
          "button.conversation-choice",
          { type: "button", autofocus: place === 0, onclick: () => done(one.conversation) },
          h("b", { dir: "ltr" }, one.route.split(".").pop()),
          h("span.faint", {}, `${t(`kind_${one.kind}`)}\u00a0${number(one.conversation)}`),
          h("span.spring"),
          h("span.faint.digits", {}, exactClock(one.started_at)),
          h("span.tag", { class: one.state }, t(`state_${one.state}`)),
        ),
      ),
    ),
  );
