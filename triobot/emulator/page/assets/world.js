// The page's copy of the platform's state. `merge` adds the stream's news, then calls the listeners.

const MOST_CALLS = 10_000;
const MOST_LINES = 1_000;
// Maximum number of kept messages of a chat without a pane; a pane loads older messages on request.
const MOST_UNREAD = 300;

/**
 * The bot's process, if the emulator's program runs the process.
 * @typedef {{target: string, phase: string, since: number, starts: number, pid: number | null, problem: string}} Process
 */

export const world = {
  users: new Map(),
  chats: new Map(),
  bills: new Map(),
  calls: new Map(),
  olderCalls: false,
  // The deliveries of events, by number.
  deliveries: new Map(),
  // The address of events, and whether a bot listens there.
  address: /** @type {{address: string | null, listens: boolean | null, reached_at: number | null} | null} */ (null),
  lines: /** @type {string[]} */ ([]),
  machine: { faults: [], switches: {}, ahead: 0, operations: /** @type {string[]} */ ([]) },
  waiting: 0,
  runtime: /** @type {Record<string, any>} */ ({}),
  inside: { chats: /** @type {any[]} */ ([]), payments: /** @type {any[]} */ ([]) },
  bot: /** @type {Process | null} */ (null),
  crowd: /** @type {Record<string, any> | null} */ (null),
  // The conversations that hold back new code.
  held: /** @type {import("./held.js").Holding[]} */ ([]),
  baseUrl: "",
  known: false,
};

let offset = 0;
const listeners = new Set();
const readers = new Map();
// The person of each private chat, by the chat's id.
const owners = new Map();

/** Keep all messages of a chat in memory until the returned function is called. */
export function hold(chatId) {
  readers.set(chatId, (readers.get(chatId) ?? 0) + 1);
  return () => readers.set(chatId, readers.get(chatId) - 1);
}

/** Whether no bot listens at the address of events; false if the emulator's program runs the bot. */
export const isUnheard = () => !world.bot && world.address?.listens === false && world.address.address !== null;

/** Return the platform's time in milliseconds. */
export const now = () => Date.now() + offset;

/** Call `hear` after each `merge`, until the returned function is called. */
export function listen(hear) {
  listeners.add(hear);
  return () => listeners.delete(hear);
}

/** Merge the stream's news into the state, then call the listeners. */
export function merge(news) {
  offset = news.now - Date.now();
  const fresh = {
    all: Boolean(news.all),
    changes: news.changes ?? [],
    chats: new Set(),
    users: Boolean(news.users),
    bills: Boolean(news.bills),
    calls: news.calls ?? [],
    deliveries: news.deliveries ?? [],
    address: "address" in news,
    machine: "machine" in news,
    bot: "bot" in news,
    waiting: "waiting" in news,
    runtime: "runtime" in news,
    inside: "inside" in news,
    held: "held" in news,
    lines: news.lines ?? [],
    crowd: "crowd" in news,
    travel: /** @type {any[] | null} */ (news.travel ?? null),
  };
  if (news.all) startAnew(news);
  for (const user of news.users ?? []) {
    world.users.set(user.id, user);
    owners.set(user.chat_id, user);
  }
  for (const head of news.chats ?? []) {
    mergeChat(head);
    fresh.chats.add(head.id);
  }
  for (const change of fresh.changes) apply(change);
  for (const bill of news.bills ?? []) world.bills.set(`${bill.kind} ${bill.id}`, bill);
  for (const call of fresh.calls) world.calls.set(call.number, call);
  for (const posted of fresh.deliveries) world.deliveries.set(posted.number, posted);
  for (const kept of [world.calls, world.deliveries]) {
    for (const number of kept.keys()) {
      if (kept.size <= MOST_CALLS) break;
      kept.delete(number);
    }
  }
  if (fresh.address) world.address = news.address;
  if (fresh.machine) world.machine = news.machine;
  if (fresh.bot) world.bot = news.bot;
  if (fresh.runtime) world.runtime = news.runtime;
  if (fresh.inside) world.inside = news.inside;
  if (fresh.held) world.held = news.held;
  if (fresh.crowd) world.crowd = news.crowd;
  if (fresh.waiting) world.waiting = news.waiting;
  world.lines = [...world.lines, ...fresh.lines].slice(-MOST_LINES);
  for (const hear of [...listeners]) hear(fresh);
}

function startAnew(news) {
  for (const kept of [world.users, owners, world.chats, world.bills, world.calls, world.deliveries]) kept.clear();
  world.lines = [];
  world.baseUrl = news.base_url;
  world.olderCalls = news.older_calls;
  world.known = true;
}

function mergeChat(head) {
  const { messages, lines, older, waiting, ...rest } = head;
  let chat = world.chats.get(head.id);
  if (!chat) {
    chat = { messages: new Map(), lines: [], newest: null, older: false, waiting: new Map(), unread: 0 };
    world.chats.set(head.id, chat);
  }
  Object.assign(chat, rest);
  if (messages) {
    chat.messages = new Map(messages.map((message) => [message.id, message]));
    chat.lines = lines;
    chat.older = older;
    chat.newest = messages.at(-1)?.id ?? null;
  }
  const known = chat.waiting;
  chat.waiting = new Map(waiting.map((press) => [press.callback_id, known.get(press.callback_id) ?? press]));
}

function apply(change) {
  const chat = world.chats.get(change.chat_id);
  if (!chat) return;
  if (change.after !== undefined) {
    chat.lines.push(change);
    if (chat.lines.length > MOST_LINES) chat.lines.shift();
  }
  if (change.kind === "message" || change.kind === "edit") {
    chat.messages.set(change.message.id, change.message);
    if (change.kind === "message") chat.newest = change.message.id;
    if (chat.messages.size > MOST_UNREAD && !readers.get(change.chat_id)) {
      const [oldest] = chat.messages.keys();
      chat.messages.delete(oldest);
      chat.older = true;
    }
  } else if (change.kind === "delete") {
    const message = chat.messages.get(change.message_id);
    if (message) chat.messages.set(message.id, { ...message, deleted: true });
  } else if (change.kind === "press") {
    const press = chat.waiting.get(change.callback_id);
    if (press) press.label = change.label;
  }
}

/** Return a chat's newest message, without a search through all messages; null if there is none. */
export const newestOf = (chat) => chat.messages.get(chat.newest) ?? null;

/** Add older messages, and the lines between them, before a chat's loaded messages. */
export function addOlder(chat, { messages, lines, older }) {
  chat.lines = [...lines, ...chat.lines];
  chat.messages = new Map([...messages.map((message) => [message.id, message]), ...chat.messages]);
  chat.older = older;
}

/** Add older requests before the loaded requests. */
export function addOlderCalls({ calls, older_calls }) {
  world.calls = new Map([...calls.map((call) => [call.number, call]), ...world.calls]);
  world.olderCalls = older_calls && world.calls.size < MOST_CALLS;
}

/** Return the person of a private chat; null for a group. */
export function ownerOf(chat) {
  return chat.name === null ? (owners.get(chat.id) ?? null) : null;
}

/** Return the bot's name, from the process's target; "bot" if unknown. */
export function botName() {
  const target = world.bot?.target ?? "";
  const [file = ""] = target.replace(/:[^:/]*$/, "").split("/").slice(-1);
  return file.replace(/\.py$/, "").split(".").pop() || "bot";
}

/** Return a file's path on this server; null for an address on another server, from which nothing is fetched. */
export function ownPath(address) {
  try {
    const url = new URL(String(address));
    const ours = [location.origin, world.baseUrl].includes(url.origin) && url.pathname.startsWith("/files/");
    return ours ? url.pathname : null;
  } catch {
    return null;
  }
}
