// The page's main script: panes, panels and the address. Read the scripts in this order:
//
//   ui, icons, words, format
//                           drawing, the texts in both languages, numbers and times
//   frame                   colours, language and the form for the address; inspect.js uses frame, too
//   link, world             the connection to the emulator, and the page's copy of the platform's state
//   sheet                   dialogs, menus, short messages
//   people                  the list of people and groups
//   thread, bubble, lines   one chat as one person sees the chat, and the lines between the chat's messages
//   media, text, buttons, places, paying, form, composer, saving
//                           a message's contents, and a person's acts
//   wallet, inspector (with calls), inside, crowd, mischief, machine
//                           the panels beside the chats
//   held                    the decisions about chats that new code doesn't fit
//   travel/                 time travel: passes reads the notches of a conversation; state and story compute
//                           the conversation's state and chat from the notches; say describes notches in words;
//                           timeline, chat, code, values and view show a notch; branches, branch and notes show
//                           alternative continuations; kept saves a test; links finds the notch or the request
//                           of a message
//
// Two rules apply to all scripts: text from a bot or from a person becomes a text node (ui.html), and
// files are fetched from this server only (world.ownPath).

import { crowdPanel } from "./crowd.js";
import { askForAddress, dress, tools } from "./frame.js";
import { heldBanner } from "./held.js";
import { insidePanel } from "./inside.js";
import { inspectorPanel } from "./inspector.js";
import { follow, placeInAddress } from "./link.js";
import { banner, machinePanel } from "./machine.js";
import { mischiefPanel } from "./mischief.js";
import { peopleList } from "./people.js";
import { toast, tried } from "./sheet.js";
import { openThread } from "./thread.js";
import { chooseConversation } from "./travel/choose.js";
import { ofCall, ofLine, ofMessage, telling } from "./travel/links.js";
import { conversationsOf } from "./travel/passes.js";
import { travelView } from "./travel/view.js";
import { draw as put, html, Icon, root } from "./ui.js";
import { walletPanel } from "./wallet.js";
import { t } from "./words.js";
import { botName, listen, merge, ownerOf, world } from "./world.js";

const MOST_PANES = 3;
// Maximum milliseconds from an event to the conversation that the event begins: events wait while the bot is down.
const STARTS_WITHIN = 600_000;

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @typedef {ReturnType<typeof openThread>} Pane */
/** @type {Pane[]} */
const panes = [];
/** @type {Pane | null} */
let focused = null;
/** @type {string | null} */
let panel = null;

// --- panes

function user() {
  return focused ? world.users.get(focused.view.userId) : ([...world.users.values()][0] ?? null);
}

function openChat(chatId, beside = false) {
  const known = panes.find((pane) => pane.chatId === chatId);
  if (known && !beside) return focusOn(known, true);
  const chat = world.chats.get(chatId);
  const owner = ownerOf(chat);
  const member = chat.members.includes(user()?.id) ? user()?.id : chat.members[0];
  const userId = owner?.id ?? member ?? user()?.id;
  const pane = openThread(chatId, userId, {
    onBack: () => show("list"),
    onClose: () => closePane(pane),
    onBeside: () => besides(pane),
    onPanel: (name) => openPanel(name),
    onTravel: (chat) => chooseConversation(chat, openTravel),
    onTravelTo: (chat, conversation) => openTravel(chat, conversation),
    onMade: (chat, message) => openMade(chat, ofMessage(message)),
    onLine: (chat, line) => (world.bot ? openMade(chat, ofLine(line)) : openRequest(telling(chat, line))),
    onFocus: () => focusOn(pane, false),
  });
  const old = beside && panes.length < MOST_PANES ? null : (focused ?? panes[0]);
  if (old) {
    const place = panes.indexOf(old);
    old.element.replaceWith(pane.element);
    old.close();
    panes.splice(place, 1, pane);
  } else {
    nothing.remove();
    main.append(pane.element);
    panes.push(pane);
  }
  focusOn(pane, true);
  return pane;
}

/** Open the first chat that has no pane yet, in a pane beside the other panes. */
function besides(pane) {
  const next = [...world.chats.keys()].find((id) => !panes.some((open) => open.chatId === id));
  focusOn(pane, false);
  if (next !== undefined) openChat(next, true);
}

function closePane(pane) {
  const place = panes.indexOf(pane);
  if (place < 0) return;
  panes.splice(place, 1);
  pane.close();
  focused = panes[0] ?? null;
  if (!panes.length) main.append(nothing);
  show(panes.length ? "thread" : "list");
  marks();
}

function focusOn(pane, byChoice) {
  const other = focused !== pane;
  focused = pane;
  if (byChoice) {
    show("thread");
    // On a phone the keyboard would cover half of the text.
    if (matchMedia("(pointer: fine)").matches) pane.focus();
  }
  people.read(pane.chatId);
  if (other || byChoice) marks();
}

function marks() {
  for (const pane of panes) pane.element.classList.toggle("focused", pane === focused && panes.length > 1);
  app.classList.toggle("many", panes.length > 1);
  people.draw();
  if (panel) panels[panel].draw();
}

// --- time travel

const travel = travelView({
  onRequest: openRequest,
  onClose: () => {
    app.classList.remove("travelling");
    if (focused && !isNarrow()) focused.focus();
  },
});

/** @param {number} chat @param {number} conversation @param {number | null} notch @param {boolean} answers */
function openTravel(chat, conversation, notch = null, answers = false) {
  app.classList.add("travelling");
  travel.open(chat, conversation, notch, answers);
}

/** Show the notch at which the bot broke a promise in a crowd. */
function openCrowd(first) {
  app.classList.add("travelling");
  travel.open(first.chat_id, first.conversation, first.notch, false, first);
}

/** Show the notch and the code line that sent or received a message, a line or a request. @param {number} chat @param {import("./travel/links.js").Wanted} wanted */
async function openMade(chat, wanted) {
  await tried(async () => {
    const all = (await conversationsOf(chat)).filter((one) => one.started_at <= wanted.at + STARTS_WITHIN);
    if (!all.length) return toast(t("notInAny"));
    app.classList.add("travelling");
    travel.seekIn(chat, all.map((one) => one.conversation), wanted);
  });
}

/** Show the request that `choose` returns. @param {import("./travel/links.js").Choose} choose */
function openRequest(choose) {
  travel.close();
  openPanel("inspector");
  if (!panels.inspector.showRequest(choose)) toast(t("requestGone"));
}

/** Show the notch that the address names; if the address names no notch, close the time travel. */
function goToAddress() {
  const place = placeInAddress();
  if (place) openTravel(place.chat, place.conversation, place.notch, place.answers);
  else if (travel.isOpen()) travel.close();
}
addEventListener("hashchange", goToAddress);

// --- panels

const panels = {
  wallet: walletPanel(user),
  inspector: inspectorPanel({
    made(call) {
      const made = ofCall(call);
      if (made) openMade(made.chat, made);
    },
  }),
  inside: insidePanel({ travel: (chat, conversation) => openTravel(chat, conversation) }),
  crowd: crowdPanel({ travel: openCrowd }),
  mischief: mischiefPanel(),
  machine: machinePanel(),
};
const PICTURES = { wallet: "wallet", inspector: "inspect", inside: "inside", crowd: "crowd", mischief: "bolt", machine: "terminal" };

/** @param {{name: string, isChosen: boolean, choose: () => void, picture?: string}} given */
const Tab = ({ name, isChosen, choose, picture = PICTURES[name] }) => html`
  <button
    type="button"
    class=${`tab ${isChosen ? "chosen" : ""}`}
    data-panel=${name}
    title=${t(name)}
    aria-pressed=${String(isChosen)}
    onclick=${choose}
  >
    <${Icon} name=${picture} /><span>${t(name)}</span>
  </button>
`;

/** Draw the tabs of the panels; on a narrow screen, draw the tab of the chats, too. */
function drawTabs() {
  const view = app.dataset.view;
  const turn = (name) => () => (panel === name && !isNarrow() ? closePanel() : openPanel(name));
  const all = Object.keys(panels).map((name) => {
    const isChosen = name === panel && (view === "panel" || !isNarrow());
    return html`<${Tab} key=${name} name=${name} isChosen=${isChosen} choose=${turn(name)} />`;
  });
  put(html`${all}`, rail);
  put(html`<${Tab} name="chats" picture="people" isChosen=${view !== "panel"} choose=${() => show("list")} />${all}`, tabs);
}

function openPanel(name) {
  panel = name;
  localStorage.setItem("triobot-panel", name);
  panelBody.replaceChildren(panels[name].element);
  panels[name].draw();
  side.hidden = false;
  show("panel");
}

function closePanel() {
  panel = null;
  localStorage.removeItem("triobot-panel");
  side.hidden = true;
  show(panes.length ? "thread" : "list");
}

const isNarrow = () => matchMedia("(max-width: 860px)").matches;

/** Choose the only column that a narrow screen shows. */
function show(what) {
  app.dataset.view = what;
  drawTabs();
}

// --- the page

dress();

const people = peopleList({
  open: (chatId) => openChat(chatId),
  isOpen: (chatId) => panes.some((pane) => pane.chatId === chatId),
  tools: tools(),
});
const notice = banner(() => openPanel("machine"));
const held = heldBanner({ answers: (chat, conversation) => openTravel(chat, conversation, null, true) });
const main = root("main", { class: "panes" });
const nothing = root("div", { class: "nothing" });
const panelBody = root("div", { class: "panel-scroll" });
const side = root("aside", { class: "panel", "aria-label": t("panel") });
const [rail, tabs] = [root("nav", { class: "rail" }), root("nav", { class: "tabs" })];
const columns = root("div", { class: "columns" });

put(html`<${Icon} name="people" size=${48} /><p>${t("chooseChat")}</p>`, nothing);
main.append(nothing);
side.hidden = true;
side.append(panelBody);
columns.append(people.element, main, side, rail);
notice.draw();
show("list");

let begun = false;
listen((fresh) => {
  document.title = `${people.unread() ? `(${people.unread()}) ` : ""}${botName()} · triobot`;
  app.classList.toggle("without-process", world.bot === null);
  if (focused && document.hasFocus() && fresh.chats.has(focused.chatId)) people.read(focused.chatId);
  travel.take(fresh);
  if (begun || !world.known) return;
  begun = true;
  const remembered = localStorage.getItem("triobot-panel");
  if (remembered !== null && remembered in panels && !isNarrow()) openPanel(remembered);
  const [first] = world.chats.keys();
  if (first !== undefined && !isNarrow()) openChat(first);
  goToAddress();
});
addEventListener("focus", () => focused && people.read(focused.chatId));

function start() {
  if (!columns.isConnected) app.replaceChildren(notice.element, held.element, columns, tabs, travel.element);
  follow(merge, (state) => (state === "refused" ? askForAddress(app, t("gate"), start) : notice.line(state)));
}

start();
