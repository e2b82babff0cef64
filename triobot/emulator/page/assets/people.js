// The side: everybody there is, and the groups, each with what was said last.

import { fill, h, icon, iconButton, keepFocus } from "./dom.js";
import { clock, colour, initials, number } from "./format.js";
import { act } from "./link.js";
import { summaryOf } from "./media.js";
import { field, sheet, tried } from "./sheet.js";
import { t } from "./words.js";
import { listen, now, ownerOf, world } from "./world.js";

// More than a line has room for; a text may be a hundred thousand letters long.
const LONGEST_PREVIEW = 200;

/** The list of chats. `open(chatId)` opens one; `isOpen(chatId)` tells what is in sight. */
export function peopleList({ open, isOpen, tools }) {
  const list = h("nav.chats", { "aria-label": t("chats") });
  const element = h(
    "aside.people",
    {},
    h("header.people-header", {}, h("h1", {}, "triobot"), h("div.tools", {}, tools)),
    list,
  );
  let typingTimer = 0;

  const draw = () => keepFocus(list, fillList);

  function fillList() {
    const chats = [...world.chats.values()];
    const latest = (chat) => [...chat.messages.values()].pop()?.at ?? 0;
    const privates = chats.filter((chat) => chat.name === null);
    const groups = chats.filter((chat) => chat.name !== null);
    fill(
      list,
      heading(t("people"), t("newPerson"), newPerson),
      privates.map((chat) => item(chat)),
      heading(t("groups"), t("newGroup"), newGroup),
      groups.sort((one, other) => latest(other) - latest(one)).map((chat) => item(chat)),
      groups.length === 0 && h("p.hint", {}, t("noGroups")),
    );
    const ends = chats.map((chat) => chat.typing_until).filter((until) => until > now());
    clearTimeout(typingTimer);
    if (ends.length) typingTimer = setTimeout(draw, Math.min(...ends) - now() + 30);
  }

  const heading = (title, hint, make) =>
    h("div.list-heading", {}, h("span", {}, title), iconButton("plus", hint, make));

  function item(chat) {
    const name = chat.name ?? ownerOf(chat)?.name ?? "";
    const last = [...chat.messages.values()].pop();
    const isMember = chat.members.length > 0;
    const preview =
      chat.typing_until > now()
        ? h("span.now-typing", {}, t("typing"))
        : last
          ? summaryOf(last).slice(0, LONGEST_PREVIEW)
          : isMember
            ? ""
            : t("notJoined");
    return h(
      "button.chat-item",
      {
        type: "button",
        "aria-current": isOpen(chat.id) ? "true" : undefined,
        class: [isOpen(chat.id) ? "open" : "", isMember ? "" : "absent"].join(" "),
        onclick: () => open(chat.id),
        "data-chat": chat.id,
      },
      h("span.avatar", { style: { "--own": colour(name) } }, chat.name ? icon("people") : initials(name)),
      h("span.chat-words", {}, h("b", { dir: "auto" }, name), h("span.preview", { dir: "auto" }, preview)),
      h(
        "span.chat-side",
        {},
        last && h("time", {}, clock(last.at)),
        chat.unread > 0 && h("span.badge", {}, number(chat.unread)),
      ),
    );
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
    /** What is looked at is read. */
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
      const name = h("input", { dir: "auto", autofocus: true, required: true });
      const phone = h("input.digits", { dir: "ltr", inputmode: "tel", placeholder: "+98…" });
      const irr = h("input.digits", { dir: "ltr", inputmode: "numeric", value: "10000000" });
      const coin = h("input.digits", { dir: "ltr", inputmode: "numeric", value: "100" });
      const whole = (input) => Number(input.value.replace(/\D/g, "") || 0);
      const go = async (event) => {
        event.preventDefault();
        const given = { name: name.value.trim(), wallet: { IRR: whole(irr), coin: whole(coin) } };
        if (phone.value.trim()) given.phone = phone.value.trim();
        await tried(async () => done(await act("users", given)));
      };
      return h(
        "form",
        { onsubmit: go },
        h(
          "div.sheet-body.fields",
          {},
          field(t("name"), name),
          field(t("phone"), phone),
          h("div.pair", {}, field(t("rials"), irr), field(t("coins"), coin)),
        ),
        h(
          "div.sheet-actions",
          {},
          h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
          h("button.button.primary", { type: "submit" }, t("add")),
        ),
      );
    });
    if (made) openSoon(made.chat_id);
  }

  async function newGroup() {
    const made = await sheet(t("newGroup"), (done) => {
      const name = h("input", { dir: "auto", autofocus: true, required: true, placeholder: "team" });
      const boxes = [...world.users.values()].map((user) => [
        user,
        h("input", { type: "checkbox", checked: true }),
      ]);
      const go = async (event) => {
        event.preventDefault();
        const members = boxes.filter(([, box]) => box.checked).map(([user]) => user.id);
        await tried(async () => done(await act("groups", { name: name.value.trim(), members })));
      };
      return h(
        "form",
        { onsubmit: go },
        h(
          "div.sheet-body.fields",
          {},
          field(t("name"), name),
          boxes.map(([user, box]) => h("label.check", {}, box, h("span", { dir: "auto" }, user.name))),
        ),
        h(
          "div.sheet-actions",
          {},
          h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
          h("button.button.primary", { type: "submit" }, t("add")),
        ),
      );
    });
    if (made) openSoon(made.chat_id);
  }

  // The answer may overtake the stream.
  function openSoon(chatId, tries = 40) {
    if (world.chats.has(chatId)) open(chatId);
    else if (tries) setTimeout(openSoon, 50, chatId, tries - 1);
  }
}
