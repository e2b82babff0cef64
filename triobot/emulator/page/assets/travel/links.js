// Two searches. The first finds the item in a conversation's story that belongs to a message, a line or a request. The
// second finds the request that belongs to a message, a line or a notch. Pure functions.

import { decoded, sentBy, structure } from "../calls.js";
import { idOf } from "../link.js";

/**
 * @typedef {import("./story.js").Item} Item
 * @typedef {{at: number, find: (items: Item[]) => {at: number} | undefined}} Wanted
 */

// Maximum difference in milliseconds of the platform's clock and the bot's clock.
const MOMENT = 50;
const PAID = ["payCallback", "invoiceCallback"];
const KINDS = { triggerButton: "press", submitForm: "form", payCallback: "payment", invoiceCallback: "payment", join: "join", leave: "leave" };

/** Return the platform's id of a press or a payment; null for other values. */
const nameIn = (value) => value?.callback_id ?? value?.ref_id ?? value?.invoiceId ?? null;
const nameOf = (item) => nameIn(structure(item.notch.in?.event?.data ?? ""));
const came = (item, what) => !item.sent && item.notch.in?.what === what;
const isSince = (item, at) => item.t >= at - MOMENT;

/** Return the item of an event of kind `what`: the item with id `name`, or the first item since `at` without an id. */
function ofEvent(items, what, name, at, /** @type {(item: Item) => boolean} */ isIt = () => true) {
  const all = items.filter((item) => came(item, what));
  const named = name === null ? undefined : all.find((item) => nameOf(item) === name);
  return named ?? all.find((item) => nameOf(item) === null && isSince(item, at) && isIt(item));
}

/** Return the search for the item that sent or received a message. @returns {Wanted} */
export function ofMessage(message) {
  const { at, author } = message;
  if (message.from_bot) return { at, find: (items) => items.find((item) => item.messageId === message.id) };
  const isTheirs = (item) => item.notch.in?.from === author;
  const says = (item) => isTheirs(item) && item.notch.in?.text === message.content?.text;
  return {
    at,
    // A reply key may send another text than the chat shows. Without an equal text, choose the person's next message.
    find: (items) => ofEvent(items, "message", null, at, says) ?? ofEvent(items, "message", null, at, isTheirs),
  };
}

const whatOf = (line) => (line.kind === "money" || line.kind === "payment_failed" ? "payment" : line.kind);
// Whether the bot caused a line: an answer to a press, or a movement of money other than the person's payment.
const isBots = (line) => line.kind === "answer" || (line.kind === "money" && line.what !== "paid");

/** Return the search for the item that caused or received a line of the chat. @param {import("../lines.js").Line} line @returns {Wanted} */
export function ofLine(line) {
  const { at } = line;
  if (line.kind === "answer")
    return { at, find: (items) => items.findLast((item) => item.sent?.kind === "answer" && item.sent.text === line.text && item.t <= at + MOMENT) };
  if (line.kind === "replayed") return { at, find: (items) => items.at(-1) };
  if (isBots(line)) return { at, find: (items) => items.find((item) => item.money?.what === line.what && isSince(item, at)) };
  return { at, find: (items) => ofEvent(items, whatOf(line), line.callback_id ?? line.bill ?? null, at) };
}

/** Return the search for the item that sent or received a request; null if no item belongs to such a request. @returns {(Wanted & {chat: number}) | null} */
export function ofCall(call) {
  const made = sentBy(call);
  if (made) return { at: call.at, chat: made.chat, find: (items) => items.find((item) => item.messageId === made.message) };
  const fields = fieldsOf(call);
  if (call.way === "operation" && call.name === "editMessage") {
    const edited = (items) => items.find((item) => item.messageId === Number(fields.message_id));
    const edit = (item) => item?.edits.find(({ sent }) => sent.text === fields.data);
    return { at: call.at, chat: idOf(fields.chat_id), find: (items) => edit(edited(items)) };
  }
  if (call.way !== "event") return null;
  const what = KINDS[fields.type] ?? "message";
  const text = fields.type === "text" ? fields.data : undefined;
  const isIt = (item) => text === undefined || item.notch.in?.text === text;
  return { at: call.at, chat: idOf(fields.chat_id), find: (items) => ofEvent(items, what, nameIn(fields.data), call.at, isIt) };
}

// --- the second search: a request among `calls`, whose order is oldest first

/** @typedef {(calls: any[]) => any} Choose */

const fieldsOf = (call) => Object.fromEntries(decoded(call));

/** Return the fields of a request that posted an event of these types for a chat; null for any other request. */
function posted(call, chat, types) {
  const fields = call.way === "event" ? fieldsOf(call) : null;
  return fields && idOf(fields.chat_id) === chat && types.includes(fields.type) ? fields : null;
}

/** Return the search for the request that sent a message. @returns {Choose} */
export const sending = (chat, message) => (calls) =>
  calls.findLast((call) => {
    const made = sentBy(call);
    return made !== null && made.chat === chat && made.message === message;
  });

/** Return the search for the request that edited a message to this text. @returns {Choose} */
export const editing = (chat, message, text) => (calls) =>
  calls.findLast((call) => {
    const fields = call.way === "operation" && call.name === "editMessage" ? fieldsOf(call) : {};
    return idOf(fields.chat_id) === chat && Number(fields.message_id) === message && fields.data === text;
  });

/** Return the search for the request that posted a notch's event. @param {number} chat @param {import("./state.js").Notch} notch @returns {Choose} */
export function posting(chat, notch) {
  const event = notch.in?.event;
  const data = event && (structure(event.data) ?? event.data);
  const name = nameIn(data);
  return (calls) =>
    calls.findLast((call) => {
      const fields = posted(call, chat, event ? [event.type] : PAID);
      if (!fields || call.at > notch.t + MOMENT) return false;
      if (name !== null) return nameIn(fields.data) === name;
      return !event || JSON.stringify(fields.data ?? "") === JSON.stringify(data);
    });
}

/** Return the search for the newest event before a notch: the likely cause of a signal. @param {import("./state.js").Notch} notch @returns {Choose} */
export const preceding = (notch) => (calls) => calls.findLast((call) => call.way === "event" && call.at <= notch.t);

/** Return the search for the request that caused or posted a line. @param {number} chat @param {import("../lines.js").Line} line @returns {Choose} */
export function telling(chat, line) {
  const what = whatOf(line);
  const name = line.callback_id ?? line.bill ?? null;
  const types = Object.keys(KINDS).filter((type) => KINDS[type] === what);
  if (isBots(line))
    return (calls) =>
      calls.find((call) => {
        const { callback_id: press, ref_id: bill } = call.way === "operation" ? fieldsOf(call) : {};
        return name !== null && String(press ?? bill) === name && call.at + (call.took ?? 0) >= line.at - MOMENT;
      });
  return (calls) =>
    calls.find((call) => {
      const fields = posted(call, chat, types);
      if (!fields || call.at < line.at - MOMENT) return false;
      return name === null ? (fields.from?.id ?? line.user) === line.user : String(nameIn(fields.data)) === name;
    });
}
