// One message in a chat.

import { InlineKeyboard } from "./buttons.js";
import { clock, colour, exactClock } from "./format.js";
import { Form } from "./form.js";
import { contentOf } from "./media.js";
import { Avatar, html, Icon, Part } from "./ui.js";
import { t } from "./words.js";
import { botName, world } from "./world.js";

/**
 * Return a message's bubble. `view` is the pane: {chat, user, act, element}; its optional `onMade(message)` opens the
 * code that sent or received the message. `follows`: whether the message before has the same author.
 */
export function bubble(message, view, follows, more = "") {
  const isMine = message.author === view.user.id;
  const author = message.from_bot ? botName() : ((view.people ?? world.users).get(message.author)?.name ?? "");
  const pressed = [...view.chat.waiting.values()].filter((press) => press.message_id === message.id && press.user === view.user.id);
  return html`<${Bubble}
    key=${message.id}
    message=${message}
    view=${view}
    user=${view.user.id}
    author=${author}
    isMine=${isMine}
    isNamed=${view.chat.name !== null && !isMine}
    isMade=${Boolean(world.bot && view.onMade)}
    pressed=${pressed.map((press) => press.label).join("\n")}
    follows=${follows}
    more=${more}
  />`;
}

/** A message, drawn again only after a change: a changed message is a new object. */
class Bubble extends Part {
  render({ message, view, author, isMine, isNamed, isMade, pressed, follows, more }) {
    const marks = [isMine ? "mine" : "theirs", follows && "follows", message.deleted && "gone", more].filter(Boolean).join(" ");
    if (message.deleted) {
      return html`
        <article class=${`row ${marks}`} data-id=${message.id} aria-label=${author}>
          <div class="bubble"><div class="text faint"><${Icon} name="close" size=${14} /> ${t("messageDeleted")}</div></div>
        </article>
      `;
    }
    const where = t(message.from_bot ? "whereSent" : "whereTaken");
    const time = html`<time datetime=${new Date(message.at).toISOString()}>${clock(message.at)}</time>`;
    const isWide = message.form?.length || message.buttons?.length;
    return html`
      <article class=${`row ${marks}`} data-id=${message.id} aria-label=${author}>
        ${isNamed && html`<${Avatar} name=${author} more="small" />`}
        <div class=${`stack ${isWide ? "wide" : ""}`}>
          <div class=${`bubble of-${message.content.type}`}>
            ${isNamed && !follows && html`<div class="author" dir="auto" style=${{ "--own": colour(author) }}>${author}</div>`}
            ${contentOf(message.content)}
            ${message.form?.length > 0 && html`<${Form} message=${message} view=${view} />`}
            <div class="stamp" title=${`#${message.id} · ${exactClock(message.at)}`}>
              ${message.edited_at && html`<span>${t("edited")}</span>`}
              ${
                isMade
                  ? html`<button type="button" class="where-sent" title=${where} aria-label=${`${clock(message.at)} ${where}`} onclick=${() => view.onMade(message)}>${time}</button>`
                  : time
              }
            </div>
          </div>
          ${message.buttons?.length > 0 && html`<${InlineKeyboard} message=${message} view=${view} pressed=${pressed.split("\n")} />`}
        </div>
      </article>
    `;
  }
}
