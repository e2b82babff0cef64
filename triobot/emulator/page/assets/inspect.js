// The page of `triobot inspect`: a list of conversations with a search field, and the time travel of one
// conversation. Neither the page nor the page's server changes anything.

import { clock, day, number } from "./format.js";
import { askForAddress, dress, tools } from "./frame.js";
import { look, placeInAddress, Refused } from "./link.js";
import { toast, tried } from "./sheet.js";
import { conversationsOf } from "./travel/passes.js";
import { travelView } from "./travel/view.js";
import { draw as put, html, Part, root } from "./ui.js";
import { t } from "./words.js";

/**
 * @typedef {{
 *   chat_id: number, conversation: number, route: string, kind: string, state: string, because: string | null,
 *   started_at: number, updated_at: number
 * }} Row
 * @typedef {{what: string, bot: string, hidden: boolean}} About
 */

const REFUSED = 403;

const app = /** @type {HTMLElement} */ (document.getElementById("app"));
/** @type {Map<number, Row>} */
const rows = new Map();
/** @type {About | null} */
let about = null;
/** Number of the last conversation read; null once all are read. @type {number | null} */
let after = 0;
let words = "";

const shortRoute = (route) => route.split(".").at(-1) ?? route;

const textOf = (row) => `${row.chat_id} ${row.conversation} ${row.route} ${t(`kind_${row.kind}`)} ${t(`state_${row.state}`)}`;

function found() {
  const wanted = words.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => wanted.every((word) => textOf(row).toLowerCase().includes(word));
  return [...rows.values()].filter(fits).sort((one, other) => other.updated_at - one.updated_at);
}

/** One conversation of the list; drawn again only after a change. */
class Item extends Part {
  /** @param {{row: Row}} given */
  render({ row }) {
    return html`
      <button type="button" class="conversation-choice" onclick=${() => openTravel(row)}>
        <b dir="ltr">${shortRoute(row.route)}</b>
        <span class="faint digits">${t("inspectPlace", { chat: String(row.chat_id), number: number(row.conversation) })}</span>
        <span class="spring"></span>
        <span class="faint digits">${day(row.updated_at, Date.now())} ${clock(row.updated_at)}</span>
        <span class=${`tag ${row.state}`}>${t(`state_${row.state}`)}</span>
      </button>
    `;
  }
}

const list = root("section", { class: "inspected" });
const travel = travelView({
  back: "backToList",
  onRequest: null,
  onClose: () => {
    app.classList.remove("travelling");
    draw();
    list.querySelector("input")?.focus();
  },
});

/** @param {{chat_id: number, conversation: number}} row @param {number | null} notch */
function openTravel({ chat_id: chat, conversation }, notch = null) {
  app.classList.add("travelling");
  travel.open(chat, conversation, notch);
}

function draw() {
  if (!about) return;
  const all = found();
  put(
    html`
      <div class="inspected-finder">
        <input
          type="search"
          aria-label=${t("findConversation")}
          placeholder=${t("findConversation")}
          value=${words}
          oninput=${(event) => ((words = event.target.value), draw())}
          onkeydown=${onEnter}
        />
        <span class="faint digits" role="status">${t("inspectCount", { count: number(all.length) })}</span>
      </div>
      ${about.hidden && html`<p class="travel-banner" role="note">${t("hiddenWhy")} <code dir="ltr">--show-values</code></p>`}
      <nav class="conversations" aria-label=${t("conversations")}>
        ${all.map((row) => html`<${Item} key=${row.conversation} row=${row} />`)}
        ${!all.length && html`<p class="none">${rows.size ? t("findsNoConversation") : t("noConversations")}</p>`}
      </nav>
      ${after !== null && html`<button type="button" class="button" onclick=${() => tried(more)}>${t("moreConversations")}</button>`}
    `,
    list,
  );
}

/** On Enter, open the first found conversation; if none is found for a chat's id, read that chat. */
async function onEnter(event) {
  if (event.key !== "Enter") return;
  event.preventDefault();
  const [first] = found();
  if (first) return openTravel(first);
  if (!/^-?\d+$/.test(words.trim())) return;
  await tried(async () => {
    keep(await conversationsOf(words.trim()));
    if (!found().length) toast(t("travelNone"));
    draw();
  });
}

const keep = (/** @type {Row[]} */ told) => told.forEach((row) => rows.set(row.conversation, row));

/** Read the next conversations. */
async function more() {
  const told = await look(`travel?after=${after}`);
  keep(told.conversations);
  ({ about, after } = told);
  draw();
}

/** Show the conversation and notch that the address names; if the address names none, show the list. */
function goToAddress() {
  const place = placeInAddress();
  if (place) openTravel({ chat_id: place.chat, conversation: place.conversation }, place.notch);
  else if (travel.isOpen()) travel.close();
}
addEventListener("hashchange", goToAddress);

async function start() {
  try {
    await more();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === REFUSED) askForAddress(app, t("gateInspect"), start);
    else put(html`<p class="gate" role="alert">${error.message}</p>`, app);
    return;
  }
  const bot = about?.bot ?? "";
  const [columns, page, head] = [root("main", { class: "columns" }), root("div", { class: "inspected-page" }), root("header", { class: "inspected-head" })];
  put(
    html`
      <h1>triobot inspect</h1>
      <span class="faint" dir="ltr">${bot}</span>
      <span class="tag">${t(`inspect_${about?.what}`)}</span>
      <span class="spring"></span>
    `,
    head,
  );
  head.append(tools());
  page.append(head, list);
  columns.append(page);
  app.replaceChildren(columns, travel.element);
  draw();
  const [only] = rows.values();
  if (placeInAddress()) goToAddress();
  else if (rows.size === 1 && only) openTravel(only);
  else list.querySelector("input")?.focus();
}

dress();
start();
