// A pane: one chat as one person sees the chat. The page can show several panes side by side.

import { bubble } from "./bubble.js";
import { ReplyKeyboard } from "./buttons.js";
import { Composer } from "./composer.js";
import { day, exactClock, number } from "./format.js";
import { inOrder, lineWords } from "./lines.js";
import { act, look } from "./link.js";
import { alertSheet, menu, toast, tried } from "./sheet.js";
import { Standing } from "./travel/standing.js";
import { Avatar, draw as put, html, Icon, IconButton, Part, root } from "./ui.js";
import { t } from "./words.js";
import { addOlder, botName, hold, isUnheard, listen, now, world } from "./world.js";

// Maximum number of drawn messages, for a bot in a loop: older messages are dropped, and loaded again on request.
const MOST_DRAWN = 600;
// A reader within so many pixels of the end stays at the end when messages arrive.
const AT_END = 80;
// For so many milliseconds after a wheel, touch or pointer event, a scroll counts as the reader's.
const HAND = 500;
// Milliseconds between two messages of one author after which both show the author's name.
const TOGETHER = 300_000;

/** A line between messages; a click opens the code that received or caused the change. */
class Line extends Part {
  render({ line, open }) {
    return html`<div class="day"><button type="button" class="line" title=${exactClock(line.at)} onclick=${() => open(line)}>${lineWords(line)}</button></div>`;
  }
}

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
    element: root("section", { class: "thread" }),
  };
  const { element } = view;
  element.addEventListener("pointerdown", () => hooks.onFocus(view));
  for (const hand of ["wheel", "touchmove", "pointerdown"]) element.addEventListener(hand, () => (touched = performance.now()), { passive: true });

  /** @type {HTMLElement} */
  let scroller = element;
  /** @type {Composer | null} */
  let writing = null;
  // Ids of the messages that were edited while the pane was open.
  const edited = new Set();
  let stayed = true;
  /** Last scroll position; scroll height at the last visit of the end; time of the last wheel, touch or pointer event. */
  let [height, tall, touched] = [0, 0, 0];
  let frame = 0;
  let pending = 0;
  let typingTimer = 0;
  let isStarting = false;

  const isGone = () => !view.chat || !view.user;
  const isMember = () => view.chat.members.includes(view.userId);
  const isGroup = () => view.chat.name !== null;
  const isTyping = () => view.chat.typing_until > now();

  function draw() {
    clearTimeout(typingTimer);
    if (isGone()) return;
    const rows = isMember() ? view.chat.reply_keyboard : null;
    if (isTyping()) typingTimer = window.setTimeout(draw, view.chat.typing_until - now() + 30);
    put(
      html`
        ${header()}
        <div class="talk">
          <div class="scroller" tabindex="-1" ref=${(made) => made && (scroller = made)} onscroll=${onScroll}>
            <div class="messages-rim"></div>
            <div class="messages" role="log" aria-live="polite">
              ${view.chat.older && html`<button type="button" class="older" key="older" onclick=${loadOlder}>${t("older")}</button>`}
              ${entriesOf()}
              ${!view.chat.messages.size && html`<div class="welcome" key="welcome"><${Avatar} name=${botName()} more="large bot" /><p>${t("noMessages")}</p></div>`}
            </div>
            <div class="typing" hidden=${!isTyping()}><span class="dots"><i></i><i></i><i></i></span></div>
          </div>
          <button type="button" class="jump" hidden=${stayed} title=${t("toEnd")} aria-label=${t("toEnd")} onclick=${() => toEnd(true)}>
            <${Icon} name="down" />${pending > 0 && html`<span class="badge">${number(pending)}</span>`}
          </button>
        </div>
        <${Standing} chatId=${chatId} open=${openStanding} />
        <div class="keys">${rows?.length > 0 && html`<${ReplyKeyboard} rows=${rows} view=${view} />`}</div>
        <footer class="thread-foot">
          <${Composer} view=${view} hidden=${!isMember()} begun=${(made) => (writing = made)} />
          ${
            !isMember() &&
            html`<button type="button" class="button primary join" onclick=${join}>${t(view.chat.messages.size ? "joinAgain" : "start")}</button>`
          }
        </footer>
      `,
      element,
    );
    if (!isStarting || !isMember()) return;
    isStarting = false;
    writing?.focus();
  }

  const openStanding = (conversation) => hooks.onTravelTo(chatId, conversation);

  function header() {
    const { chat, user } = view;
    const title = isGroup() ? chat.name : botName();
    const status = isGroup() ? t("members", { count: number(chat.members.length) }) : botStatus();
    const persona = html`<${Avatar} name=${user.name} more="small" /><span dir="auto">${user.name}</span>`;
    const youAre = t("youAre", { name: user.name });
    return html`
      <header class="thread-header">
        <${IconButton} name="back" title=${t("back")} more="only-narrow" onclick=${hooks.onBack} />
        <${Avatar} name=${title} more=${isGroup() ? "" : "bot"}>${isGroup() ? html`<${Icon} name="people" />` : null}<//>
        <div class="thread-title">
          <b dir="auto">${title}</b>
          <small>${isTyping() ? html`<span class="now-typing">${t("typing")}</span>` : status}</small>
        </div>
        ${
          // A private chat has only one person to play.
          isGroup()
            ? html`<button type="button" class="persona" title=${youAre} onclick=${(event) => chooseUser(event.currentTarget)}>${persona}</button>`
            : html`<span class="persona" title=${youAre}>${persona}</span>`
        }
        ${world.bot !== null && html`<${IconButton} name="travel" title=${t("travelHint")} onclick=${() => hooks.onTravel(chatId)} />`}
        <${IconButton} name="more" title=${t("more")} onclick=${(event) => openMenu(event.currentTarget)} />
      </header>
    `;
  }

  function botStatus() {
    const phase = world.bot?.phase;
    if (isUnheard()) return t("offline");
    return phase && phase !== "running" ? t(`phase_${phase}`) : t("online");
  }

  function chooseUser(anchor) {
    const be = (user) => () => {
      view.userId = user.id;
      drawAll();
      hooks.onFocus(view);
    };
    menu(
      anchor,
      [...world.users.values()].map((user) => [html`<${Avatar} name=${user.name} more="small" />`, user.name, be(user)]),
    );
  }

  function openMenu(anchor) {
    const picture = (name) => html`<${Icon} name=${name} />`;
    menu(anchor, [
      [picture("beside"), t("openBeside"), () => hooks.onBeside(view)],
      [picture("wallet"), t("wallet"), () => hooks.onPanel("wallet", view)],
      isMember() ? [picture("leave"), t("leave"), leave] : [picture("plus"), t("join"), join],
      [picture("close"), t("closePane"), () => hooks.onClose(view)],
    ]);
  }

  const where = () => (isGroup() ? { chat: chatId } : {});
  const join = () => {
    isStarting = true;
    return tried(() => view.act("join", where()), element);
  };
  const leave = () => tried(() => view.act("leave", where()), element);

  // --- messages

  /** Return the messages and lines in order, each day under a heading. */
  function entriesOf() {
    const all = [];
    let shownDay = "";
    /** @type {any} */
    let before = null;
    for (const one of inOrder([...view.chat.messages.values()], view.chat.lines)) {
      const isLine = "kind" in one;
      const key = isLine ? `line ${one.seq}` : one.id;
      const date = new Date(one.at).toDateString();
      if (date !== shownDay) {
        shownDay = date;
        before = null;
        all.push(html`<div class="day" key=${`day of ${key}`}><span>${day(one.at, now())}</span></div>`);
      }
      if (isLine) {
        all.push(html`<${Line} key=${key} line=${one} open=${openLine} />`);
        before = null;
      } else {
        const follows = before?.author === one.author && one.at - before.at < TOGETHER;
        all.push(bubble(one, view, follows, edited.has(one.id) ? "changed" : ""));
        before = one;
      }
    }
    return all;
  }

  const openLine = (line) => hooks.onLine(chatId, line);

  async function loadOlder() {
    const [first] = view.chat.messages.keys();
    // The further back a reader goes, the more messages each request loads.
    const count = Math.min(Math.max(60, view.chat.messages.size), 500);
    await tried(async () => {
      const before = scroller.scrollHeight - scroller.scrollTop;
      addOlder(view.chat, await look(`history?chat=${chatId}&before=${first}&count=${count}`));
      draw();
      scroller.scrollTop = scroller.scrollHeight - before;
    }, element);
  }

  function isAtEnd() {
    return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < AT_END;
  }

  function toEnd(smooth) {
    stayed = true;
    pending = 0;
    draw();
    if (smooth) scroller.scrollTo({ top: scroller.scrollHeight, behavior: "smooth" });
    else settleSoon();
  }

  // Scroll once a frame: reading the scroll height makes the browser lay out the whole chat.
  function settleSoon() {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(settle);
  }

  function settle() {
    if (!stayed) return;
    scroller.scrollTop = scroller.scrollHeight;
    // Store the position now: the scroll event comes later, and the reader may scroll up before the event.
    [height, tall] = [scroller.scrollTop, scroller.scrollHeight];
  }

  // Only a reader's scroll upwards leaves the end; content that grows later, such as a picture, doesn't. If the
  // chat's height has changed, a scroll counts as the reader's only right after a wheel, touch or pointer event.
  function onScroll() {
    const before = stayed;
    if (isAtEnd()) [stayed, tall] = [true, scroller.scrollHeight];
    else if (scroller.scrollTop < height && (scroller.scrollHeight === tall || performance.now() - touched < HAND)) stayed = false;
    height = scroller.scrollTop;
    if (stayed === before && !(stayed && pending)) return;
    if (stayed) pending = 0;
    draw();
  }

  // --- news

  function take(fresh) {
    if (isGone()) return hooks.onClose(view);
    if (fresh.all) return drawAll();
    const mine = fresh.changes.filter((change) => change.chat_id === chatId);
    for (const change of mine) takeChange(change);
    // Dropped messages move the text of a reader who is further up: drop messages only for a bot in a loop.
    if (view.chat.messages.size > MOST_DRAWN && (stayed || pending > MOST_DRAWN)) shorten();
    if (mine.some((change) => change.kind === "message" && (stayed || change.message.author === view.userId))) return toEnd(false);
    if (mine.length || fresh.chats.has(chatId) || fresh.bot || fresh.address || fresh.users) draw();
  }

  function shorten() {
    for (const id of [...view.chat.messages.keys()].slice(0, -MOST_DRAWN / 2)) view.chat.messages.delete(id);
    const [first] = view.chat.messages.keys();
    view.chat.lines = view.chat.lines.filter((line) => line.after >= first);
    view.chat.older = true;
  }

  function takeChange(change) {
    switch (change.kind) {
      case "message":
        if (change.message.author !== view.userId) pending += 1;
        break;
      case "edit":
        if (change.anew) edited.add(change.message.id);
        break;
      case "answer":
        if (change.user !== view.userId || !change.text) break;
        if (change.alert) alertSheet(change.text, element);
        else toast(change.text, { place: element, kind: "answer" });
        break;
      case "money":
        if (change.user === view.userId && change.what === "refunded") toast(t("moneyBack"), { place: element });
        break;
      case "invoice":
        if (!isGroup()) toast(t("newInvoice"), { place: element });
        break;
      case "charge_request":
        toast(change.text || t("topUp"), { place: element });
        break;
    }
  }

  function drawAll() {
    if (isGone()) return hooks.onClose(view);
    toEnd(false);
  }

  const release = hold(chatId);
  const deaf = listen(take);
  drawAll();
  const sizes = new ResizeObserver(() => stayed && settleSoon());
  for (const grows of [scroller, ...scroller.children]) sizes.observe(grows);
  return {
    element,
    view,
    chatId,
    focus: () => isMember() && writing?.focus(),
    close() {
      deaf();
      release();
      sizes.disconnect();
      cancelAnimationFrame(frame);
      clearTimeout(typingTimer);
      element.remove();
      put(null, element);
    },
  };
}
