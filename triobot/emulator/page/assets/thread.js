// A pane: one chat as one person sees it. Several stand side by side; each listens for itself.

import { bubble } from "./bubble.js";
import { replyKeyboard } from "./buttons.js";
import { composer } from "./composer.js";
import { fill, h, icon, iconButton, keepFocus } from "./dom.js";
import { colour, day, exactClock, initials, number } from "./format.js";
import { inOrder, lineWords } from "./lines.js";
import { act, look } from "./link.js";
import { alertSheet, menu, toast, tried } from "./sheet.js";
import { saveTest, saveTranscript } from "./transcript.js";
import { standing } from "./travel/standing.js";
import { t } from "./words.js";
import { addOlder, botName, hold, isUnheard, listen, now, world } from "./world.js";

// A bot in a loop must not fill the browser's memory: what is further up is asked for again.
const MOST_DRAWN = 600;
// Nearer to the end than this, a reader is at the end, and stays there.
const AT_END = 80;

/** Open a chat. `hooks`: onBack, onClose, onBeside, onPanel, onTravel, onTravelTo, onMade, onLine, onFocus. */
export function openThread(chatId, userId, hooks) {
  const view = {
    chatId,
    userId,
    get chat() {
      return world.chats.get(chatId);
    },
    get user() {
      return world.users.get(view.userId);
    },
    act: (name, given) => act(`users/${view.userId}/${name}`, given),
    onMade: (message) => hooks.onMade(chatId, message),
    element: h("section.thread", { onpointerdown: () => hooks.onFocus(view) }),
  };
  const header = h("header.thread-header");
  const list = h("div.messages", { role: "log", "aria-live": "polite" });
  const scroller = h("div.scroller", { tabindex: -1 }, h("div.messages-rim"), list);
  const typing = h("div.typing", { hidden: true }, h("span.dots", {}, h("i"), h("i"), h("i")));
  const jump = h(
    "button.jump",
    { type: "button", hidden: true, title: t("toEnd"), "aria-label": t("toEnd"), onclick: () => toEnd(true) },
    icon("down"),
  );
  const keys = h("div.keys");
  const foot = h("footer.thread-foot");
  const writing = composer(view);
  const stood = standing(chatId, (conversation) => hooks.onTravelTo(chatId, conversation));
  view.element.append(header, h("div.talk", {}, scroller, jump), stood.element, keys, foot);
  scroller.append(typing);

  const drawn = new Map();
  let stayed = true;
  let height = 0;
  let frame = 0;
  /** @type {any} */
  let newest = null;
  let shownDay = "";
  let pending = 0;
  let typingTimer = 0;

  function isGone() {
    return !view.chat || !view.user;
  }

  function joined() {
    return view.chat.members.includes(view.userId);
  }

  const isGroup = () => view.chat.name !== null;

  const drawHeader = () => keepFocus(header, fillHeader);

  function fillHeader() {
    const { chat, user } = view;
    const title = isGroup() ? chat.name : botName();
    const status = isTyping()
      ? h("span.now-typing", {}, t("typing"))
      : isGroup()
        ? t("members", { count: number(chat.members.length) })
        : botStatus();
    fill(
      header,
      iconButton("back", t("back"), hooks.onBack, ".only-narrow"),
      h(
        "span.avatar",
        { class: isGroup() ? "" : "bot", style: { "--own": colour(title) } },
        isGroup() ? icon("people") : initials(title),
      ),
      h("div.thread-title", {}, h("b", { dir: "auto" }, title), h("small", {}, status)),
      h(
        // In a private chat there is nobody else to be.
        isGroup() ? "button.persona" : "span.persona",
        {
          type: isGroup() ? "button" : undefined,
          title: t("youAre", { name: user.name }),
          onclick: isGroup() ? (event) => chooseUser(event.currentTarget) : undefined,
        },
        h("span.avatar.small", { style: { "--own": colour(user.name) } }, initials(user.name)),
        h("span", { dir: "auto" }, user.name),
      ),
      world.bot !== null && iconButton("travel", t("travelHint"), () => hooks.onTravel(chatId)),
      iconButton("more", t("more"), (event) => openMenu(event.currentTarget)),
    );
  }

  function botStatus() {
    const phase = world.bot?.phase;
    if (isUnheard()) return t("offline");
    return phase && phase !== "running" ? t(`phase_${phase}`) : t("online");
  }

  function chooseUser(anchor) {
    menu(
      anchor,
      [...world.users.values()].map((user) => [
        h("span.avatar.small", { style: { "--own": colour(user.name) } }, initials(user.name)),
        user.name,
        () => {
          view.userId = user.id;
          drawAll();
          hooks.onFocus(view);
        },
      ]),
    );
  }

  function openMenu(anchor) {
    const { chat } = view;
    menu(anchor, [
      [icon("beside"), t("openBeside"), () => hooks.onBeside(view)],
      [icon("wallet"), t("wallet"), () => hooks.onPanel("wallet", view)],
      [icon("save"), t("saveTranscript"), () => tried(() => saveTranscript(chat), view.element)],
      !isGroup() && [icon("check"), t("saveTest"), () => tried(() => saveTest(chat), view.element)],
      joined() ? [icon("leave"), t("leave"), leave] : [icon("plus"), t("join"), join],
      [icon("close"), t("closePane"), () => hooks.onClose(view)],
    ]);
  }

  const where = () => (view.chat.name === null ? {} : { chat: chatId });
  const join = () => tried(() => act(`users/${view.userId}/join`, where()), view.element);
  const leave = () => tried(() => act(`users/${view.userId}/leave`, where()), view.element);

  function drawFoot() {
    if (joined()) {
      if (foot.firstChild !== writing.element) fill(foot, writing.element);
      return;
    }
    const isNew = view.chat.messages.size === 0;
    fill(
      foot,
      h("button.button.primary.join", { type: "button", onclick: join }, isNew ? t("start") : t("joinAgain")),
    );
  }

  function drawKeys() {
    const rows = joined() ? replyKeyboard(view) : null;
    keepFocus(keys, () => void fill(keys, rows));
  }

  function isTyping() {
    return view.chat.typing_until > now();
  }

  function drawTyping() {
    clearTimeout(typingTimer);
    const was = !typing.hidden;
    typing.hidden = !isTyping();
    if (!typing.hidden)
      typingTimer = setTimeout(() => (drawTyping(), drawHeader()), view.chat.typing_until - now() + 30);
    if (!was && !typing.hidden && stayed) toEnd(false);
  }

  // --- messages

  function drawMessages() {
    drawn.clear();
    fill(list);
    if (view.chat.older) list.append(olderButton());
    newest = null;
    shownDay = "";
    for (const one of inOrder([...view.chat.messages.values()], view.chat.lines)) "kind" in one ? appendLine(one) : append(one);
    if (!view.chat.messages.size) {
      list.append(
        h(
          "div.welcome",
          {},
          h("span.avatar.large.bot", { style: { "--own": colour(botName()) } }, initials(botName())),
          h("p", {}, t("noMessages")),
        ),
      );
    }
  }

  /** Name the day where another one begins; what was today until now may have become yesterday. */
  function beginDay(at) {
    const date = new Date(at).toDateString();
    if (date === shownDay) return false;
    shownDay = date;
    for (const line of list.querySelectorAll("[data-day]")) line.textContent = day(Number(line.dataset.day), now());
    list.append(h("div.day", {}, h("span", { "data-day": at }, day(at, now()))));
    return true;
  }

  function append(message) {
    const before = newest;
    newest = message;
    const isNewDay = beginDay(message.at);
    const follows = !isNewDay && before?.author === message.author && message.at - before.at < 300_000;
    const element = bubble(message, view, follows);
    drawn.set(message.id, { element, follows });
    list.append(element);
  }

  /** What was done, as no message shows it; it leads to where it was taken. */
  function appendLine(line) {
    beginDay(line.at);
    newest = null;
    const words = lineWords(line);
    list.append(
      h("div.day", {}, h("button.line", { type: "button", title: exactClock(line.at), onclick: () => hooks.onLine(chatId, line) }, words)),
    );
  }

  function redraw(id) {
    const message = view.chat.messages.get(id);
    const known = drawn.get(id);
    if (!message || !known) return;
    keepFocus(known.element, () => {
      const element = bubble(message, view, known.follows);
      known.element.replaceWith(element);
      return (known.element = element);
    });
  }

  function olderButton() {
    return h("button.older", { type: "button", onclick: loadOlder }, t("older"));
  }

  async function loadOlder() {
    const [first] = view.chat.messages.keys();
    // Who goes far back gets longer pieces: all is drawn anew for each.
    const count = Math.min(Math.max(60, view.chat.messages.size), 500);
    await tried(async () => {
      const before = scroller.scrollHeight - scroller.scrollTop;
      addOlder(view.chat, await look(`history?chat=${chatId}&before=${first}&count=${count}`));
      drawMessages();
      scroller.scrollTop = scroller.scrollHeight - before;
    }, view.element);
  }

  function isAtEnd() {
    return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < AT_END;
  }

  function toEnd(smooth) {
    stayed = true;
    pending = 0;
    drawJump();
    if (smooth) scroller.scrollTo({ top: scroller.scrollHeight, behavior: "smooth" });
    else {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(settle);
    }
  }

  // Once for all that came since the last picture: where the end is costs a layout of the whole chat.
  function settle() {
    if (!stayed) return;
    scroller.scrollTop = scroller.scrollHeight;
    // Its event comes later, and whoever scrolls up before that must not be taken for somebody who stayed.
    height = scroller.scrollTop;
  }

  function drawJump() {
    jump.hidden = stayed;
    fill(jump, icon("down"), pending > 0 && h("span.badge", {}, number(pending)));
  }

  // What grows after it was drawn, such as a picture, must not push the end out of sight; only a reader who
  // scrolls up leaves it. (The event comes late: what has grown since must not look like a reader.)
  scroller.addEventListener("scroll", () => {
    if (isAtEnd()) {
      stayed = true;
      pending = 0;
    } else if (scroller.scrollTop < height) {
      stayed = false;
    }
    height = scroller.scrollTop;
    drawJump();
  });
  new ResizeObserver(() => stayed && toEnd(false)).observe(list);
  new ResizeObserver(() => stayed && toEnd(false)).observe(scroller);

  // --- what is new

  function take(fresh) {
    if (isGone()) return hooks.onClose(view);
    if (fresh.all) return drawAll();
    const mine = fresh.changes.filter((change) => change.chat_id === chatId);
    for (const change of mine) takeChange(change);
    if (fresh.chats.has(chatId)) {
      drawHeader();
      drawKeys();
      drawFoot();
      drawTyping();
    } else if (fresh.bot || fresh.address || fresh.users) {
      drawHeader();
    }
    if (!mine.length) return;
    // Who reads further up stays there, unless so much has come that a bot must be in a loop.
    if (drawn.size > MOST_DRAWN && (stayed || pending > MOST_DRAWN)) shorten();
    if (stayed || mine.some((change) => change.kind === "message" && change.message.author === view.userId))
      toEnd(false);
    else drawJump();
  }

  function shorten() {
    for (const id of [...view.chat.messages.keys()].slice(0, -MOST_DRAWN / 2)) view.chat.messages.delete(id);
    const [first] = view.chat.messages.keys();
    view.chat.lines = view.chat.lines.filter((line) => line.after >= first);
    view.chat.older = true;
    drawMessages();
  }

  function takeChange(change) {
    if (change.after !== undefined) appendLine(change);
    switch (change.kind) {
      case "message": {
        list.querySelector(".welcome")?.remove();
        append(change.message);
        if (change.message.author !== view.userId) pending += 1;
        break;
      }
      case "edit":
      case "press":
        redraw(change.kind === "edit" ? change.message.id : change.message_id);
        if (change.anew) drawn.get(change.message.id)?.element.classList.add("changed");
        break;
      case "delete":
        redraw(change.message_id);
        break;
      case "answer":
        drawMessagesOfPresses();
        if (change.user !== view.userId || !change.text) break;
        if (change.alert) alertSheet(change.text, view.element);
        else toast(change.text, { place: view.element, kind: "answer" });
        break;
      case "money":
        if (change.user === view.userId && change.what === "refunded")
          toast(t("moneyBack"), { place: view.element });
        break;
      case "invoice":
        if (view.chat.name === null) toast(t("newInvoice"), { place: view.element });
        break;
      case "charge_request":
        toast(change.text || t("topUp"), { place: view.element });
        break;
    }
  }

  function drawMessagesOfPresses() {
    for (const [id, { element }] of drawn) if (element.querySelector(".waiting")) redraw(id);
  }

  function drawAll() {
    if (isGone()) return hooks.onClose(view);
    drawHeader();
    drawMessages();
    drawKeys();
    drawFoot();
    drawTyping();
    toEnd(false);
  }

  const release = hold(chatId);
  const deaf = listen(take);
  drawAll();
  return {
    element: view.element,
    view,
    chatId,
    drawAll,
    focus: () => joined() && writing.focus(),
    close() {
      deaf();
      release();
      cancelAnimationFrame(frame);
      clearTimeout(typingTimer);
      view.element.remove();
      writing.close();
      stood.close();
    },
  };
}
