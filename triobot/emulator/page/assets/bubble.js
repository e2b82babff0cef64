// One message as it stands in its chat.

import { inlineKeyboard } from "./buttons.js";
import { h, icon } from "./dom.js";
import { clock, colour, exactClock, initials } from "./format.js";
import { formOf } from "./form.js";
import { contentOf } from "./media.js";
import { t } from "./words.js";
import { botName, world } from "./world.js";

/** The bubble of a message; `follows` one of the same author, so that the name needn't be said again. */
export function bubble(message, view, follows) {
  const mine = message.author === view.user.id;
  const author = message.from_bot ? botName() : ((view.people ?? world.users).get(message.author)?.name ?? "");
  const isGroup = view.chat.name !== null;
  const row = h("article.row", {
    class: [mine ? "mine" : "theirs", follows ? "follows" : "", message.deleted ? "gone" : ""].join(" "),
    "data-id": message.id,
    "aria-label": author,
  });
  if (message.deleted) {
    row.append(h("div.bubble", {}, h("div.text.faint", {}, icon("close", 14), " ", t("messageDeleted"))));
    return row;
  }
  if (isGroup && !mine) {
    row.append(
      h("span.avatar.small", { style: { "--own": colour(author) }, title: author }, initials(author)),
    );
  }
  const where = t(message.from_bot ? "whereSent" : "whereTaken");
  const fullWidth = message.form?.length || message.buttons?.length;
  row.append(
    h(
      "div.stack",
      { class: fullWidth ? "wide" : "" },
      h(
        "div.bubble",
        { class: `of-${message.content.type}` },
        isGroup &&
          !mine &&
          !follows &&
          h("div.author", { dir: "auto", style: { "--own": colour(author) } }, author),
        contentOf(message.content),
        formOf(message, view),
        h(
          "div.stamp",
          { title: `#${message.id} · ${exactClock(message.at)}` },
          message.edited_at && h("span", {}, t("edited")),
          world.bot && view.onMade
            ? h(
                "button.where-sent",
                { type: "button", title: where, "aria-label": where, onclick: () => view.onMade(message) },
                h("time", { datetime: new Date(message.at).toISOString() }, clock(message.at)),
              )
            : h("time", { datetime: new Date(message.at).toISOString() }, clock(message.at)),
        ),
      ),
      inlineKeyboard(message, view),
    ),
  );
  return row;
}
