// What the platform here still has of a chat: what others said in it.

import { look } from "../link.js";
import { world } from "../world.js";
import { saidIn } from "./differ.js";

// Messages of a chat that are asked for.
const MOST = 1_000;
// What a person wrote is taken by the bot within this time.
const SAME_MOMENT = 3_000;
// The clocks of the platform and of the bot's process differ by so much.
const MOMENT = 50;
// While the bot is busy, or away, events wait.
const LONGEST = 60_000;
const ACTS = new Set(["press", "form", "join", "leave"]);
const isPayment = (line) => line.kind === "money" && line.what === "paid";

export function sentThen() {
  /** Messages as they are shown, by their ids. @type {Map<number, any>} */
  let shown = new Map();
  /** What stands between them. @type {any[]} */
  let lines = [];
  return {
    forget: () => ((shown = new Map()), (lines = [])),
    /** Ask for them. @param {import("./state.js").Pass} pass @param {() => boolean} isWanted */
    async read(pass, isWanted) {
      if (!world.chats.has(pass.chat_id)) return false; // a room has no screen
      const told = await look(`history?chat=${pass.chat_id}&count=${MOST}`).catch(() => null);
      if (!told || !isWanted()) return false;
      shown = new Map(told.messages.map((message) => [message.id, message]));
      lines = told.lines;
      return true;
    },
    /** What people did that none of these conversations took, and payments. @param {any[]} all */
    beside(all) {
      const known = all.filter((one) => one.taken);
      const since = all.length === known.length ? 0 : Math.min(...known.map((one) => one.started_at));
      const people = [...shown.values()].filter((one) => !one.from_bot);
      const loose = [...people, ...lines.filter((line) => ACTS.has(line.kind))].sort((one, other) => one.at - other.at);
      // What was taken is the newest that was there then.
      for (const at of known.flatMap((one) => one.taken).sort((one, other) => one - other)) {
        const place = loose.findLastIndex((one) => one.at <= at + MOMENT && one.at > at - LONGEST);
        if (place >= 0) loose.splice(place, 1);
      }
      const told = (isLoose) => (line) => ({ at: line.at, line, isLoose });
      return [...loose.filter(({ at }) => at >= since).map(told(true)), ...lines.filter(isPayment).map(told(false))];
    },
    /** What other conversations said while this one went on, or at once behind it. @param {{items: any[], ordered: import("./state.js").Notch[]}} story */
    byOthers({ items, ordered }) {
      const [from = 0, until = 0] = [ordered[0]?.t, ordered.at(-1)?.t];
      const others = this.withOthers(items, ordered).filter(({ kind, t }) => kind === "other" && t >= from && t < until + SAME_MOMENT);
      return new Set(others.filter(({ said }) => said.from_bot).map(({ said }) => saidIn([said])));
    },
    /** What else was in the chat, a bubble each, among those of the conversation. @param {any[]} items @param {import("./state.js").Notch[]} ordered */
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
