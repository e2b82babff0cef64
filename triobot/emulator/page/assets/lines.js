// The lines between a chat's messages: presses, forms, money, joins and leaves. All views use the same words.

import { clock, money } from "./format.js";
import { t } from "./words.js";
import { world } from "./world.js";

/**
 * A platform's change that a chat shows as a line; `after` is the id of the message before the line.
 * @typedef {{kind: string, seq: number, at: number, after: number, user?: number, [more: string]: any}} Line
 */

/** Return a line's words. @param {any} line @param {Map<number, {name: string}>} people */
export function lineWords(line, people = world.users) {
  const name = line.name || people.get(line.user)?.name || t("somebodyThere");
  switch (line.kind) {
    case "press":
      return t("camePress", { name, text: line.label });
    case "form":
      return t("cameFormWith", { name, text: fieldsWords(line.fields) });
    case "money":
      return t(`money${line.what[0].toUpperCase()}${line.what.slice(1)}`, { name, amount: money(line.amount, line.currency) });
    case "payment_failed":
      return t("couldNotPay", { name, why: [line.code, t(`code${line.code}`)].join(" ") });
    case "answer":
      return t("answeredPress", { text: line.text });
    case "replayed":
      return t("cameReplayed", { at: clock(line.at) });
    default:
      return t(line.kind === "join" ? "cameJoin" : "cameLeave", { name });
  }
}

/** Return a sent form's values, in the form's order. */
export const fieldsWords = (fields) =>
  Object.values(fields)
    .map((value) => (value === "" || value === null ? t("emptyField") : String(value)))
    .join(" · ");

/**
 * Merge messages and lines into the chat's order.
 * @template {{id: number}} Message
 * @param {Message[]} messages
 * @param {Line[]} lines
 * @returns {(Message | Line)[]}
 */
export function inOrder(messages, lines) {
  /** @type {(Message | Line)[]} */
  const all = [];
  let next = 0;
  for (const message of messages) {
    for (; next < lines.length && lines[next].after < message.id; next += 1) all.push(lines[next]);
    all.push(message);
  }
  return [...all, ...lines.slice(next)];
}
