// The list of people and groups with a search field. The chat with the newest message comes first.

import { clock, number } from "./format.js";
import { act } from "./link.js";
import { summaryOf } from "./media.js";
import { sheet, tried } from "./sheet.js";
import { Asking, Avatar, draw as put, Field, html, Icon, IconButton, Part, root } from "./ui.js";
import { t } from "./words.js";
import { listen, newestOf, now, ownerOf, world } from "./world.js";

// Maximum letters of a preview: more than a line can show, since a text may have a hundred thousand letters.
const LONGEST_PREVIEW = 200;
// A list of at most so many chats has no search field.
const MANY = 7;

const whole = (typed) => Number(typed.replace(/\D/g, "") || 0);
const nameOf = (chat) => chat.name ?? ownerOf(chat)?.name ?? "";

/** One chat of the list; drawn again only if a property has changed. */
class Item extends Part {
  render({ id, name, isGroup, preview, isTyping, at, unread, isOpen, isMember, open }) {
    return html`
      <button
        type="button"
        class=${["chat-item", isOpen && "open", !isMember && "absent"].filter(Boolean).join(" ")}
        aria-current=${isOpen ? "true" : undefined}
        data-chat=${id}
        onclick=${() => open(id)}
      >
        <${Avatar} name=${name}>${isGroup ? html`<${Icon} name="people" />` : null}<//>
        <span class="chat-words">
          <b dir="auto">${name}</b>
          <span class="preview" dir="auto">${isTyping ? html`<span class="now-typing">${t("typing")}</span>` : preview}</span>
        </span>
        <span class="chat-side">
          ${at !== null && html`<time>${clock(at)}</time>`} ${unread > 0 && html`<span class="badge">${number(unread)}</span>`}
        </span>
      </button>
    `;
  }
}

const Heading = ({ title, hint, make }) => html`
  <div class="list-heading"><span>${title}</span><${IconButton} name="plus" title=${hint} onclick=${make} /></div>
`;

/** The list of chats. `open(chatId)` opens a chat; `isOpen(chatId)`: whether a pane shows the chat. */
export function peopleList({ open, isOpen, tools }) {
  const element = root("aside", { class: "people", "aria-label": t("chats") });
  const list = root("nav", { class: "chats", "aria-label": t("chats") });
  const finder = root("input", { type: "search", placeholder: t("findChat"), "aria-label": t("findChat") });
  const [head, holder] = [root("header", { class: "people-header" }), root("div", { class: "chats-finder" })];
  put(html`<h1>triobot</h1>`, head);
  head.append(tools);
  holder.append(finder);
  element.append(head, holder, list);
  finder.addEventListener("input", () => draw());
  finder.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    const [first] = [...privates(), ...groups()];
    if (first) open(first.id);
  });
  let typingTimer = 0;

  const found = (chat) => nameOf(chat).toLowerCase().includes(finder.value.trim().toLowerCase());
  const latest = (chat) => newestOf(chat)?.at ?? 0;
  const newestFirst = (chats) => chats.filter(found).sort((one, other) => latest(other) - latest(one));
  const privates = () => newestFirst([...world.chats.values()].filter((chat) => chat.name === null));
  const groups = () => newestFirst([...world.chats.values()].filter((chat) => chat.name !== null));

  function draw() {
    finder.hidden = world.chats.size <= MANY;
    if (finder.hidden) finder.value = "";
    const [people, teams] = [privates(), groups()];
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    put(
      html`
        <${Heading} title=${t("people")} hint=${t("newPerson")} make=${newPerson} />
        ${people.map(item)} ${finder.value && !people.length && !teams.length && html`<p class="hint">${t("noSuchChat")}</p>`}
        <${Heading} title=${t("groups")} hint=${t("newGroup")} make=${newGroup} />
        ${teams.map(item)} ${!finder.value && !teams.length && html`<p class="hint">${t("noGroups")}</p>`}
      `,
      list,
    );
    // A chat that moves up in the list keeps the keyboard focus.
    if (before !== document.activeElement && list.contains(before)) before?.focus({ preventScroll: true });
    clearTimeout(typingTimer);
    const ends = [...world.chats.values()].map((chat) => chat.typing_until).filter((until) => until > now());
    if (ends.length) typingTimer = setTimeout(draw, Math.min(...ends) - now() + 30);
  }

  function item(chat) {
    const last = newestOf(chat);
    const isMember = chat.members.length > 0;
    return html`<${Item}
      key=${chat.id}
      id=${chat.id}
      name=${nameOf(chat)}
      isGroup=${chat.name !== null}
      preview=${last ? summaryOf(last).slice(0, LONGEST_PREVIEW) : isMember ? "" : t("notJoined")}
      isTyping=${chat.typing_until > now()}
      at=${last ? last.at : null}
      unread=${chat.unread}
      isOpen=${isOpen(chat.id)}
      isMember=${isMember}
      open=${open}
    />`;
  }

  listen((fresh) => {
    for (const change of fresh.changes) {
      const chat = world.chats.get(change.chat_id);
      if (change.kind !== "message" || !chat) continue;
      const isTheirs = change.message.from_bot || chat.name !== null;
      if (isTheirs && !(isOpen(chat.id) && document.hasFocus())) chat.unread += 1;
    }
    if (fresh.all || fresh.users || fresh.chats.size) draw();
  });

  return {
    element,
    draw,
    /** Mark a chat as read. */
    read(chatId) {
      const chat = world.chats.get(chatId);
      if (chat?.unread) {
        chat.unread = 0;
        draw();
      }
    },
    unread: () => [...world.chats.values()].reduce((sum, chat) => sum + chat.unread, 0),
  };

  async function newPerson() {
    const made = await sheet(t("newPerson"), (done) => {
      const give = ({ name, phone, irr, coin }) =>
        tried(async () => {
          const given = { name: name.trim(), wallet: { IRR: whole(irr), coin: whole(coin) } };
          done(await act("users", phone.trim() ? { ...given, phone: phone.trim() } : given));
        });
      return html`
        <${Asking} give=${give} cancel=${() => done(undefined)} yes=${t("add")}>
          <${Field} label=${t("name")}><input name="name" dir="auto" autofocus required /><//>
          <${Field} label=${t("phone")}><input name="phone" class="digits" dir="ltr" inputmode="tel" placeholder="+98…" /><//>
          <div class="pair">
            <${Field} label=${t("rials")}><input name="irr" class="digits" dir="ltr" inputmode="numeric" value="10000000" /><//>
            <${Field} label=${t("coins")}><input name="coin" class="digits" dir="ltr" inputmode="numeric" value="100" /><//>
          </div>
        <//>
      `;
    });
    if (made) openSoon(made.chat_id);
  }

  async function newGroup() {
    const made = await sheet(t("newGroup"), (done) => {
      const give = ({ name }, form) =>
        tried(async () => {
          const members = new FormData(form).getAll("members").map(Number);
          done(await act("groups", { name: name.trim(), members }));
        });
      return html`
        <${Asking} give=${give} cancel=${() => done(undefined)} yes=${t("add")}>
          <${Field} label=${t("name")}><input name="name" dir="auto" autofocus required placeholder="team" /><//>
          ${[...world.users.values()].map(
            (user) => html`
              <label class="check" key=${user.id}>
                <input type="checkbox" name="members" value=${String(user.id)} checked /><span dir="auto">${user.name}</span>
              </label>
            `,
          )}
        <//>
      `;
    });
    if (made) openSoon(made.chat_id);
  }

  // The answer may arrive before the stream's news of the chat: try again for two seconds.
  function openSoon(chatId, tries = 40) {
    if (world.chats.has(chatId)) open(chatId);
    else if (tries) setTimeout(openSoon, 50, chatId, tries - 1);
  }
}
