// The chat from a pass's notches: bubbles with their later changes, and grey lines for other acts. Pure functions.

/**
 * @typedef {import("./state.js").Notch} Notch
 * @typedef {import("./state.js").Sent} Sent
 * @typedef {{
 *   key: string, kind: "bot" | "mine" | "act" | "other", at: number, t: number, notch: Notch, sent: Sent | null,
 *   done: number, failed: boolean, gone: number, used: number, bare: number, messageId: number | null,
 *   money: import("./state.js").Money | null,
 *   edits: {at: number, sent: Sent}[]
 * }} Item
 */

const NEVER = Infinity;
// The received events that the chat shows as grey lines.
const GREY = new Set(["press", "form", "payment", "signal", "timeout", "join", "leave", "event", "interrupt"]);

/** @param {string} key @param {Item["kind"]} kind @param {Notch} notch @param {Sent | null} sent @returns {Item} */
function made(key, kind, notch, sent = null) {
  const nothing = { done: NEVER, failed: false, gone: NEVER, used: NEVER, bare: NEVER, messageId: null, money: null, edits: [] };
  return { key, kind, at: notch.n, t: notch.t, notch, sent, ...nothing };
}

const isNews = (came) => came.what === "payment" && !came.money;

/**
 * Return the chat's items of these notches, in the chat's order.
 * @param {Notch[]} notches
 * @param {string} payer name of the payer, for notches without a name
 * @returns {Item[]}
 */
export function storyOf(notches, payer = "") {
  /** @type {Item[]} */
  const items = [];
  /** @type {Map<string, Item>} */
  const byOperation = new Map();
  /** @type {Map<number, Item>} */
  const byMessage = new Map();
  // The item of a payment event: the event only wakes the charge; a later notch has the ledger's outcome, `money`.
  /** @type {Item | null} */
  let news = null;
  // Whether the charge was paid: further payment events then show nothing.
  let isPaid = false;
  for (const notch of notches) {
    const came = notch.in;
    if (notch.k === "charge") isPaid = false;
    if (came?.money) {
      const money = { ...came.money, name: came.money.name || payer };
      if (news) news.money = money.what === "captured" ? { ...money, what: "paid" } : money;
      if (money.what === "captured") items.push({ ...made(`money ${notch.n}`, "act", notch), money });
      else if (!news) items.push({ ...made(`money ${notch.n}`, "act", notch), money });
      isPaid = money.what === "captured";
      news = null;
    } else if (came && isNews(came)) {
      if (!isPaid && !news) items.push((news = made(`in ${notch.n}`, "act", notch)));
    } else if (came?.what === "message") items.push(made(`in ${notch.n}`, "mine", notch));
    else if (came && GREY.has(came.what)) items.push(made(`in ${notch.n}`, "act", notch));
    const about = came?.message_id === undefined ? undefined : byMessage.get(came.message_id);
    if (about && came?.what === "form") about.used = Math.min(about.used, notch.n);
    // `done` comes before `out`: the turn may edit the message that this notch delivered.
    for (const [id, message] of notch.done ?? []) {
      const item = byOperation.get(id);
      if (!item) continue;
      item.done = notch.n;
      item.messageId = message;
      if (message !== null) byMessage.set(message, item);
    }
    for (const sent of notch.out ?? []) {
      const old = sent.message_id === undefined ? undefined : byMessage.get(sent.message_id);
      if (sent.kind === "delete") {
        if (old) old.gone = notch.n;
      } else if (sent.kind === "tidy") {
        // The question has ended: its buttons are removed.
        if (old) old.bare = Math.min(old.bare, notch.n);
      } else if (sent.kind === "edit" && old) {
        old.edits.push({ at: notch.n, sent });
      } else {
        const isBubble = !sent.to && sent.kind === "send";
        const item = made(`out ${sent.id}`, isBubble ? "bot" : "act", notch, sent);
        // The chat shows no line for an answer without text.
        if (isBubble || sent.text || sent.letters) items.push(item);
        byOperation.set(sent.id, item);
      }
    }
    for (const id of notch.failed ?? []) {
      const item = byOperation.get(id);
      if (item) item.failed = true;
    }
  }
  return items;
}

/** Return a bubble's contents at a notch. @param {Item} item @param {number} n @returns {Sent | null} */
export function saidAt(item, n) {
  return item.edits.findLast((edit) => edit.at <= n)?.sent ?? item.sent;
}

/** Whether a notch created, delivered or edited an item. @param {Item} item @param {number} n */
export const isOf = (item, n) => item.at === n || item.done === n || item.edits.some((edit) => edit.at === n);

/** Return the items that wait for delivery at a notch. @param {Item[]} items @param {number} n */
export const outboxAt = (items, n) => items.filter((item) => item.sent && item.at <= n && item.done > n && !item.failed);

/** Return the items near a notch: at each step, the browser lays out only these items. @param {Item[]} items @param {number} n */
export function near(items, n, before = 40, after = 20) {
  let place = items.findIndex((item) => item.at > n);
  if (place < 0) place = items.length;
  return items.slice(Math.max(0, place - before), place + after);
}
