// The bot from inside, as it is now: each chat's conversations with their tasks and lines, what they wait for and
// until when, what waits for them, what is to be sent, what is owed; and what happened so far, on demand.

import { fill, h, icon, iconButton, keepFocus } from "./dom.js";
import { exactClock, longwatch, money, number } from "./format.js";
import { look } from "./link.js";
import { t } from "./words.js";
import { listen, now, ownerOf, world } from "./world.js";

// A journal that is on the screen is read again this long after it grew.
const JOURNAL_EVERY = 400;
const OVER = new Set(["settled", "lapsed", "refused", "void", "resolved"]);

/** The panel. `travel(chatId, conversation)` goes through its time. */
export function insidePanel({ travel }) {
  const element = h("div.panel-body.inside");
  // What is unfolded, by the conversation's number: its records, once they have come.
  const journals = new Map();
  /** @type {ReturnType<typeof setTimeout> | null} */
  let reading = null;

  const draw = () => keepFocus(element, () => keepPlaces(fillAll));

  /** Whoever reads further down in a journal stays there. */
  function keepPlaces(fillIn) {
    const places = new Map();
    const all = () => element.querySelectorAll(".records");
    for (const list of all()) places.set(list.dataset.records, list.scrollTop);
    fillIn();
    for (const list of all()) list.scrollTop = places.get(list.dataset.records) ?? 0;
  }

  function fillAll() {
    if (!world.bot) return fill(element, h("p.hint", {}, t("noProcess")));
    const alarms = world.runtime.alarms ?? [];
    const { chats, payments } = world.inside;
    fill(
      element,
      h("p.hint.inside-summary", {}, summary()),
      alarms.slice(-5).map((alarm) => h("div.alarm", { dir: "auto" }, alarmWords(alarm))),
      chats.map((chat) => chatCard(chat, payments)),
      !chats.length && h("p.hint", {}, t("nothingInMemory")),
    );
    tick();
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

  function chatCard(chat, payments) {
    const owed = payments.filter((one) => one.chat === chat.chat_id && !OVER.has(one.state));
    return h(
      "section.inside-chat",
      { "data-inside-chat": chat.chat_id },
      h(
        "div.inside-title",
        {},
        h("b", { dir: "auto" }, chat.place ?? nameOf(chat.chat_id)),
        !chat.place && h("span.faint.digits", { dir: "ltr" }, String(chat.chat_id)),
        h("span.spring"),
        chat.loading && h("span.tag.replays", {}, t("loading")),
        chat.behind && h("span.tag.replays", {}, t("behind")),
      ),
      chat.conversations.map((one) => conversation(one, chat.chat_id)),
      !chat.conversations.length && h("p.hint", {}, t("nothingRuns")),
      fact("inbox", t("mailbox"), chat.mailbox.length, () => mailbox(chat.mailbox)),
      fact("send", t("lane"), chat.lane.queued, () => lane(chat.lane)),
      fact("wallet", t("ledger"), owed.length, () => owed.map(entry)),
    );
  }

  function conversation(one, chatId) {
    const short = one.route.split(".").pop();
    return h(
      "div.inside-conversation",
      { "data-conversation": one.id },
      h(
        "div.inside-title",
        {},
        h("span.tag", { class: one.state }, t(`inside_${one.state}`)),
        h("b", { dir: "ltr" }, short),
        h("span.faint", {}, `${t(`kind_${one.kind}`)}\u00a0${number(one.id)}`),
        !one.durable && h("span.tag", {}, t("notDurable")),
        h("span.spring"),
        one.durable && iconButton("travel", t("travelHint"), () => travel(chatId, one.id)),
      ),
      one.tasks.map((task) => taskRow(task)),
      one.blocks.map((block) => blockRow(block)),
      journal(one),
    );
  }

  function taskRow(task) {
    const depth = task.path ? task.path.split("/").length - 1 : 0;
    const shown = task.positions.map((at, place) => position(at, place === task.positions.length - 1));
    return h(
      "div.inside-task",
      { style: { "--depth": String(depth) } },
      shown.length ? shown : h("span.faint", {}, t(`place_${task.place}`)),
      task.kind &&
        h(
          "div.inside-facts",
          {},
          h("span", {}, inWords(task.kind)),
          h("span.digits", { dir: "ltr" }, `#${task.operation}`),
          task.due !== null && countdown(task.due),
        ),
    );
  }

  function position(at, innermost) {
    const file = at.file.split("/").pop();
    return h(
      "div.position",
      { dir: "ltr", class: innermost ? "innermost" : "", title: at.file },
      h("code.code-line", {}, at.code || "…"),
      h("span.faint", {}, `${file}:${at.line} · ${at.function}`),
    );
  }

  function blockRow(block) {
    const ends = block.until ? t("endsBy", { what: block.until }) : t("endsIn");
    return h(
      "div.inside-facts.block",
      {},
      icon("clock", 14),
      h("span", {}, `${t("block")} `, h("span.digits", { dir: "ltr" }, `#${block.id}`)),
      block.cancelled ? h("span", {}, t("isEnding")) : h("span", {}, ends),
      !block.cancelled && block.due !== null && countdown(block.due),
    );
  }

  const countdown = (due) => h("span.countdown.digits", { dir: "ltr", "data-due": due });

  const fact = (picture, title, count, content) =>
    count > 0 &&
    h(
      "div.inside-fact",
      {},
      h("div.inside-fact-title", {}, icon(picture, 15), title, h("span.badge-plain.digits", {}, number(count))),
      content(),
    );

  function mailbox(queued) {
    return h(
      "div.tags",
      {},
      queued.map((one) =>
        h("span.tag", { title: exactClock(one.at) }, `${one.what} `, h("span.digits", {}, `${number(one.seq)}`)),
      ),
    );
  }

  function lane({ operations, queued, in_flight, attempts, rests_for, suspended }) {
    const words = [
      attempts > 1 && t("attempts", { count: number(attempts) }),
      rests_for > 0 && t("restsFor", { seconds: number(Math.ceil(rests_for)) }),
      suspended && t("suspended"),
    ].filter(Boolean);
    return [
      h(
        "div.tags",
        {},
        operations.map((name, place) => h("span.tag", { dir: "ltr", class: place < in_flight ? "works" : "" }, name)),
        queued > operations.length && h("span.tag", {}, "…"),
      ),
      words.length > 0 && h("div.faint", {}, words.join(" · ")),
    ];
  }

  const entry = (one) =>
    h(
      "div.inside-facts",
      {},
      h("b", {}, money(one.amount, one.currency)),
      h("span.tag", { dir: "ltr" }, one.state),
      h("span", {}, t(`taker_${one.taker}`)),
      one.verify_by !== null && [h("span", {}, t("verifyWithin")), countdown(one.verify_by)],
    );

  // --- what happened so far

  function journal(one) {
    const known = journals.get(one.id);
    const element = h(
      "details.journal",
      {
        open: known !== undefined,
        ontoggle: () => {
          if (element.open === journals.has(one.id)) return;
          if (element.open) journals.set(one.id, []);
          else journals.delete(one.id);
          readSoon();
        },
      },
      h("summary", {}, t("journal")),
      known && (known.length ? h("ol.records", { "data-records": one.id, tabindex: 0 }, known.toReversed().map(record)) : h("p.hint", {}, "…")),
    );
    return element;
  }

  function record(one) {
    return h(
      "li.record",
      { class: [one.failed ? "failed" : "", ["Noted", "Read", "Wrote"].includes(one.what) ? "minor" : ""].join(" ") },
      h("span.faint.digits", {}, one.at ? exactClock(one.at) : ""),
      h(
        "div",
        {},
        h("span", {}, happened(one)),
        one.value !== undefined && h("code.record-value", { dir: "ltr" }, one.value),
      ),
      h("span.faint.digits", { dir: "ltr" }, one.id ? `#${one.id}` : one.operation ? `#${one.operation}` : ""),
    );
  }

  function readSoon() {
    if (reading || !journals.size) return;
    reading = setTimeout(async () => {
      for (const number of [...journals.keys()]) {
        try {
          const [, ...records] = await look(`bot/journal?conversation=${number}`);
          if (journals.has(number)) journals.set(number, records);
        } catch {
          // It has just ended, or the bot has: then there is nothing to show any more.
          journals.delete(number);
        }
      }
      reading = null;
      if (element.isConnected) draw();
    }, JOURNAL_EVERY);
  }

  function tick() {
    for (const one of element.querySelectorAll("[data-due]"))
      one.textContent = longwatch((Number(one.dataset.due) - now()) / 1000);
  }
  setInterval(() => element.isConnected && tick(), 1000);

  listen((fresh) => {
    if (fresh.all) journals.clear();
    if (!element.isConnected || !(fresh.all || fresh.inside || fresh.runtime || fresh.bot)) return;
    draw();
    if (fresh.inside) readSoon();
  });
  return { element, draw };
}

const alarmWords = ({ text, times }) =>
  times > 1 ? `${text} (${t("times", { count: number(times) })})` : text;

function nameOf(chatId) {
  const chat = world.chats.get(chatId);
  return chat ? (chat.name ?? ownerOf(chat)?.name ?? String(chatId)) : String(chatId);
}

/** An operation's kind: "send sendMessage" is a kind of sending. */
function inWords(kind) {
  const [what, ...rest] = kind.split(" ");
  const words = t(`operation_${what}`);
  return words === `operation_${what}` ? kind : rest.length ? `${words} ${rest.join(" ")}` : words;
}

function happened(one) {
  const [what] = (one.kind ?? "").split(" ");
  if (one.failed) return t("recordFailed", { kind: inWords(one.kind ?? "") });
  if (one.what === "Done" && t(`done_${what}`) !== `done_${what}`) return t(`done_${what}`);
  if (one.what === "Done") return t("record_Done", { kind: inWords(one.kind) });
  return t(`record_${one.what}`, {
    name: one.name ?? "",
    kind: one.kind ?? "",
    why: one.why ?? "",
    id: one.id ?? "",
  });
}
