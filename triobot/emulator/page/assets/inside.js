// The bot's current state: each chat's conversations with their tasks, code lines, waits and deadlines; the chat's
// mailbox, queued requests and open payments.

import { exactClock, longwatch, money, number } from "./format.js";
import { draw as put, html, Icon, IconButton, root } from "./ui.js";
import { t } from "./words.js";
import { listen, now, ownerOf, world } from "./world.js";

const OVER = new Set(["settled", "lapsed", "refused", "void", "resolved"]);

/** The panel "Inside". `travel(chatId, conversation)` opens the conversation's time travel. */
export function insidePanel({ travel }) {
  const element = root("div", { class: "panel-body inside" });
  function draw() {
    put(world.bot ? html`<${All} travel=${travel} />` : html`<p class="hint">${t("noProcess")}</p>`, element);
  }

  const isCounting = () => world.inside.chats.length > 0;
  setInterval(() => isCounting() && element.isConnected && draw(), 1000);

  listen((fresh) => {
    if (element.isConnected && (fresh.all || fresh.inside || fresh.runtime || fresh.bot)) draw();
  });
  return { element, draw };
}

function All({ travel }) {
  const { chats, payments } = world.inside;
  return html`
    <p class="hint inside-summary">${summary()}</p>
    ${(world.runtime.alarms ?? []).slice(-5).map((alarm) => html`<div class="alarm" dir="auto">${alarmWords(alarm)}</div>`)}
    ${chats.map((chat) => html`<${ChatCard} key=${chat.chat_id} chat=${chat} payments=${payments} travel=${travel} />`)}
    ${!chats.length && html`<p class="hint">${t("nothingInMemory")}</p>`}
  `;
}

function summary() {
  const { live, parked, conversations, inbox } = world.runtime;
  if (typeof live !== "number") return t(`phase_${world.bot?.phase}`);
  return t("insideSummary", {
    live: number(live),
    stored: number(conversations ?? 0),
    parked: number(parked ?? 0),
    inbox: number(inbox ?? 0),
  });
}

function ChatCard({ chat, payments, travel }) {
  const owed = payments.filter((one) => one.chat === chat.chat_id && !OVER.has(one.state));
  return html`
    <section class="inside-chat" data-inside-chat=${chat.chat_id}>
      <div class="inside-title">
        <b dir="auto">${chat.place ?? nameOf(chat.chat_id)}</b>
        ${!chat.place && html`<span class="faint digits" dir="ltr">${String(chat.chat_id)}</span>`}
        <span class="spring"></span>
        ${chat.loading && html`<span class="tag replays">${t("loading")}</span>`}
        ${chat.behind && html`<span class="tag replays">${t("behind")}</span>`}
      </div>
      ${chat.conversations.map(
        (one) => html`<${Conversation}
          key=${one.id}
          one=${one}
          travel=${() => travel(chat.chat_id, one.id)}
        />`,
      )}
      ${!chat.conversations.length && html`<p class="hint">${t("nothingRuns")}</p>`}
      <${Fact} picture="inbox" title=${t("mailbox")} count=${chat.mailbox.length}><${Mailbox} queued=${chat.mailbox} /><//>
      <${Fact} picture="send" title=${t("lane")} count=${chat.lane.queued}><${Lane} lane=${chat.lane} /><//>
      <${Fact} picture="wallet" title=${t("ledger")} count=${owed.length}>
        ${owed.map((one) => html`<${Entry} key=${one.id} one=${one} />`)}
      <//>
    </section>
  `;
}

const Conversation = ({ one, travel }) => html`
  <div class="inside-conversation" data-conversation=${one.id}>
    <div class="inside-title">
      <span class=${`tag ${one.state}`}>${t(`inside_${one.state}`)}</span>
      <b dir="ltr">${one.route.split(".").pop()}</b>
      <span class="faint">${`${t(`kind_${one.kind}`)}\u00a0${number(one.id)}`}</span>
      <span class="spring"></span>
      <${IconButton} name="travel" title=${t("travelHint")} onclick=${travel} />
    </div>
    ${one.tasks.map((task) => html`<${Task} key=${task.path} task=${task} />`)}
    ${one.blocks.map((block) => html`<${Block} key=${block.id} block=${block} />`)}
  </div>
`;

function Task({ task }) {
  const depth = task.path ? task.path.split("/").length - 1 : 0;
  return html`
    <div class="inside-task" style=${{ "--depth": String(depth) }}>
      ${task.positions.map((at, place) => html`<${Position} at=${at} isInnermost=${place === task.positions.length - 1} />`)}
      ${!task.positions.length && html`<span class="faint">${t(`place_${task.place}`)}</span>`}
      ${task.kind &&
      html`
        <div class="inside-facts">
          <span>${inWords(task.kind)}</span>
          <span class="digits" dir="ltr">#${task.operation}</span>
          ${task.due !== null && html`<${Countdown} due=${task.due} />`}
        </div>
      `}
    </div>
  `;
}

const Position = ({ at, isInnermost }) => html`
  <div class=${`position ${isInnermost ? "innermost" : ""}`} dir="ltr" title=${at.file}>
    <code class="code-line">${at.code || "…"}</code>
    <span class="faint">${`${at.file.split("/").pop()}:${at.line} · ${at.function}`}</span>
  </div>
`;

const Block = ({ block }) => html`
  <div class="inside-facts block">
    <${Icon} name="clock" size=${14} />
    <span>${`${t("block")} `}<span class="digits" dir="ltr">#${block.id}</span></span>
    <span>${block.cancelled ? t("isEnding") : block.until ? t("endsBy", { what: block.until }) : t("endsIn")}</span>
    ${!block.cancelled && block.due !== null && html`<${Countdown} due=${block.due} />`}
  </div>
`;

const Countdown = ({ due }) => html`<span class="countdown digits" dir="ltr">${longwatch((due - now()) / 1000)}</span>`;

const Fact = ({ picture, title, count, children }) =>
  count > 0 &&
  html`
    <div class="inside-fact">
      <div class="inside-fact-title"><${Icon} name=${picture} size=${15} />${title}<span class="badge-plain digits">${number(count)}</span></div>
      ${children}
    </div>
  `;

const Mailbox = ({ queued }) => html`
  <div class="tags">
    ${queued.map((one) => html`<span class="tag" key=${one.seq} title=${exactClock(one.at)}>${`${one.what} `}<span class="digits">${number(one.seq)}</span></span>`)}
  </div>
`;

function Lane({ lane: { operations, queued, in_flight: inFlight, attempts, rests_for: rests, suspended } }) {
  const words = [
    attempts > 1 && t("attempts", { count: number(attempts) }),
    rests > 0 && t("restsFor", { seconds: number(Math.ceil(rests)) }),
    suspended && t("suspended"),
  ].filter(Boolean);
  return html`
    <div class="tags">
      ${operations.map((name, place) => html`<span class=${`tag ${place < inFlight ? "works" : ""}`} dir="ltr">${name}</span>`)}
      ${queued > operations.length && html`<span class="tag">…</span>`}
    </div>
    ${words.length > 0 && html`<div class="faint">${words.join(" · ")}</div>`}
  `;
}

const Entry = ({ one }) => html`
  <div class="inside-facts">
    <b>${money(one.amount, one.currency)}</b>
    <span class="tag" dir="ltr">${one.state}</span>
    <span>${t(`taker_${one.taker}`)}</span>
    ${one.verify_by !== null && html`<span>${t("verifyWithin")}</span><${Countdown} due=${one.verify_by} />`}
  </div>
`;

const alarmWords = ({ text, times }) =>
  times > 1 ? `${text} (${t("times", { count: number(times) })})` : text;

function nameOf(chatId) {
  const chat = world.chats.get(chatId);
  return chat ? (chat.name ?? ownerOf(chat)?.name ?? String(chatId)) : String(chatId);
}

/** Return an operation's kind, such as "send sendMessage", with the first word translated. */
function inWords(kind) {
  const [what, ...rest] = kind.split(" ");
  const words = t(`operation_${what}`);
  return words === `operation_${what}` ? kind : rest.length ? `${words} ${rest.join(" ")}` : words;
}
