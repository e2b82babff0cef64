// Requests: the fields, the chat and the sent message of a request, and the request as a curl command.

import { idOf } from "./link.js";
import { ownerOf, world } from "./world.js";

export const failed = (call) => call.took !== null && (call.status === null || call.status >= 400);

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Return the JSON object or list in a text; null for any other text. */
export function structure(text) {
  const value = /^\s*[[{]/.test(text) ? parsed(text) : null;
  return value !== null && typeof value === "object" ? value : null;
}

/** Return the [name, value] pairs of a request's body: a form or a JSON object. */
export function decoded(call) {
  if (call.content_type.startsWith("application/json")) {
    const value = parsed(call.body);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  }
  if (!call.content_type.startsWith("application/x-www-form-urlencoded")) return [];
  const fields = [...new URLSearchParams(call.body)];
  const type = fields.find(([name]) => name === "type")?.[1];
  // A message's text stays a string, even if it looks like JSON; other fields are parsed.
  return fields.map(([name, value]) => [
    name,
    name === "data" && type === "text" ? value : (structure(value) ?? value),
  ]);
}

const field = (call, wanted) => decoded(call).find(([name]) => name === wanted)?.[1];

// Cached: a body never changes, and each search reads up to ten thousand bodies.
const recipients = new WeakMap();

/** Return the `chat_id` field of a request: a number, a group's name or a phone number; null for none. */
function recipientOf(call) {
  if (!recipients.has(call)) recipients.set(call, field(call, "chat_id") ?? null);
  return recipients.get(call);
}

/** Return the id of a request's chat; null if the page has no such chat. */
export function chatOf(call) {
  const recipient = recipientOf(call);
  if (recipient === null) return null;
  if (world.chats.has(idOf(recipient))) return idOf(recipient);
  for (const chat of world.chats.values())
    if (chat.name === recipient || ownerOf(chat)?.phone === recipient) return chat.id;
  return null;
}

export const nameOf = (chat) => chat.name ?? ownerOf(chat)?.name ?? String(chat.id);

/** Return the name of a request's chat; for an event in a group, also the person's name. */
export function whoOf(call) {
  const chat = world.chats.get(chatOf(call));
  if (!chat) return String(recipientOf(call) ?? "");
  const person = chat.name !== null && call.way === "event" ? world.users.get(field(call, "from")?.id)?.name : "";
  return person ? `${person} · ${nameOf(chat)}` : nameOf(chat);
}

/** Return the chat and id of the message that a request sent; null for any other request. */
export function sentBy(call) {
  if (call.way !== "operation" || call.name !== "sendMessage" || call.status !== 200) return null;
  const message = parsed(call.answer)?.id;
  const chat = recipientOf(call);
  return typeof message === "number" && /^-?\d+$/.test(chat) ? { chat: idOf(chat), message } : null;
}

const readable = (call) =>
  decoded(call)
    .map(([, value]) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join("\n");

/** Return the text of the message or event in a request; "" if there is none. */
export const saidIn = (call) => decoded(call).find(([name, value]) => name === "data" && typeof value === "string")?.[1] ?? "";

const texts = new WeakMap();

/** Return the text that a search reads; cached, since each typed letter searches all requests. */
export function searchable(call) {
  if (!texts.has(call)) {
    const all = [call.name, call.body, call.answer, call.note, readable(call)];
    texts.set(call, all.join("\n").toLowerCase());
  }
  return texts.get(call);
}

/** Return a request as a shell command; variables stand for the token and the addresses. */
export function asCurl(call) {
  // The request's path may contain any text, so quote the path for the shell like the body.
  const name = /^[\w/]+$/.test(call.name) ? call.name : quoted(encodeURI(call.name));
  const target = call.way === "operation" ? `"$BASE_URL"/${name}` : '"$BOT_URL"';
  const token = call.way === "operation" ? ' -H "token: $TOKEN"' : "";
  const body =
    call.body || call.size === 0
      ? ` --data-raw ${quoted(call.body)}`
      : " # an upload: its bytes are not kept";
  return `curl -X POST ${target}${token} -H ${quoted(`Content-Type: ${call.content_type}`)}${body}`;
}

// Single quotes disable all shell syntax. Control characters are escaped: a terminal would interpret raw ones.
function quoted(text) {
  if (!/[\u0000-\u001f\u007f-\u009f]/.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = text.replace(
    /[\\'\u0000-\u001f\u007f-\u009f]/g,
    (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`,
  );
  return `$'${escaped}'`;
}
