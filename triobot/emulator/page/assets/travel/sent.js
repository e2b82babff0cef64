// What the platform here still has of a chat: what others said in it.

import { look } from "../link.js";
import { world } from "../world.js";

// Messages of a chat that are asked for.
const MOST = 1_000;
// What a person wrote is taken by the bot within this time.
const SAME_MOMENT = 3_000;

export function sentThen() {
  /** Messages as they are shown, by their ids. @type {Map<number, any>} */
  let shown = new Map();
  return {
    forget: () => (shown = new Map()),
    /** Ask for them. @param {import("./state.js").Pass} pass @param {() => boolean} isWanted */
    async read(pass, isWanted) {
      if (!world.chats.has(pass.chat_id)) return false; // a room has no screen
      const told = await look(`history?chat=${pass.chat_id}&count=${MOST}`).catch(() => null);
      if (!told || !isWanted()) return false;
      shown = new Map(told.messages.map((message) => [message.id, message]));
      return true;
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
