// The chat's messages and lines on the platform: other conversations' messages, and acts that no conversation received.

import { look } from "../link.js";
import { world } from "../world.js";
import { saidIn } from "./differ.js";

// Maximum number of requested messages.
const MOST = 1_000;
// Maximum milliseconds from a person's message to the notch that received the message.
const SAME_MOMENT = 3_000;
// Maximum difference in milliseconds of the platform's clock and the bot's clock.
const MOMENT = 50;
// Maximum milliseconds from an act to its receipt: events wait while the bot is busy or down.
const LONGEST = 60_000;
const ACTS = new Set(["press", "form", "join", "leave"]);
const isPayment = (line) => line.kind === "money" && line.what === "paid";

export function sentThen() {
  /** Messages by id. @type {Map<number, any>} */
  let shown = new Map();
  /** Lines between the messages. @type {any[]} */
  let lines = [];
  return {
    forget: () => ((shown = new Map()), (lines = [])),
    /** Read the chat's messages and lines; return whether the reading succeeded. @param {import("./state.js").Pass} pass @param {() => boolean} isWanted */
    async read(pass, isWanted) {
      if (!world.chats.has(pass.chat_id)) return false; // a room has no screen
      const told = await look(`history?chat=${pass.chat_id}&count=${MOST}`).catch(() => null);
      if (!told || !isWanted()) return false;
      shown = new Map(told.messages.map((message) => [message.id, message]));
      lines = told.lines;
      return true;
    },
    /** Return people's acts that none of these conversations received, and payments. @param {any[]} all */
    beside(all) {
      const known = all.filter((one) => one.taken);
      const since = all.length === known.length ? 0 : Math.min(...known.map((one) => one.started_at));
      const people = [...shown.values()].filter((one) => !one.from_bot);
      const loose = [...people, ...lines.filter((line) => ACTS.has(line.kind))].sort((one, other) => one.at - other.at);
      // `taken` contains the times at which a conversation received an act. For each time, remove the newest earlier act.
      for (const at of known.flatMap((one) => one.taken).sort((one, other) => one - other)) {
        const place = loose.findLastIndex((one) => one.at <= at + MOMENT && one.at > at - LONGEST);
        if (place >= 0) loose.splice(place, 1);
      }
      const told = (isLoose) => (line) => ({ at: line.at, line, isLoose });
      return [...loose.filter(({ at }) => at >= since).map(told(true)), ...lines.filter(isPayment).map(told(false))];
    },
    /** Return the texts that the bot sent in other conversations, from this conversation's start until shortly after its end. @param {{items: any[], ordered: import("./state.js").Notch[]}} story */
    byOthers({ items, ordered }) {
      const [from = 0, until = 0] = [ordered[0]?.t, ordered.at(-1)?.t];
      const others = this.withOthers(items, ordered).filter(({ kind, t }) => kind === "other" && t >= from && t < until + SAME_MOMENT);
      return new Set(others.filter(({ said }) => said.from_bot).map(({ said }) => saidIn([said])));
    },
    /** Return the conversation's items, merged with an item for each other message of the chat. @param {any[]} items @param {import("./state.js").Notch[]} ordered */
    withOthers(items, ordered) {
      const own = new Set(items.map((item) => item.messageId));
      const mine = items.filter((item) => item.kind === "mine");
      const isMine = ({ author, content, at }) =>
        mine.some(({ notch, t }) => notch.in?.from === author && notch.in?.text === content?.text && Math.abs(t - at) < SAME_MOMENT);
      const others = [...shown.values()].filter((one) => !one.deleted && !own.has(one.id) && (one.from_bot || !isMine(one)));
      const at = (time) => ordered.findLast((notch) => notch.t <= time)?.n ?? ordered[0]?.n ?? 0;
      const made = others.map((said) => ({ key: `other ${said.id}`, kind: "other", at: at(said.at), t: said.at, said, done: Infinity, gone: Infinity, used: Infinity, bare: 0, edits: [] }));
      return made.length ? [...items, ...made].sort((one, other) => one.at - other.at || one.t - other.t) : items;
    },
  };
}
