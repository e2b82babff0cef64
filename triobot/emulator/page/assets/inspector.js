// Every request in both directions, as it happens: what the bot asks for, and what is posted to it.

import { fill, h, icon, iconButton, keepFocus } from "./dom.js";
import { bytes, exactClock, number } from "./format.js";
import { act, look } from "./link.js";
import { sheet, toast, tried } from "./sheet.js";
import { t } from "./words.js";
import { addOlderCalls, listen, world } from "./world.js";

// Drawn at first, and so many more each time that somebody looks further back.
const SHOWN = 200;
// Asked for at once.
const PIECE = 1_000;

/** The panel. `sent(chat, message)` leads to the line that sent a message. */
export function inspectorPanel({ sent }) {
  const list = h("div.calls");
  const words = h("input", {
    type: "search",
    placeholder: t("filter"),
    "aria-label": t("filter"),
    oninput: () => begin(),
  });
  const way = h("select", { "aria-label": t("direction"), onchange: () => begin() }, [
    h("option", { value: "" }, t("bothWays")),
    h("option", { value: "operation" }, t("fromBot")),
    h("option", { value: "event" }, t("toBot")),
    h("option", { value: "failed" }, t("failedOnes")),
  ]);
  const element = h(
    "div.panel-body.inspector",
    {},
    h("div.filters", {}, words, way, iconButton("close", t("clear"), clear)),
    list,
  );
  const more = h("button.older", { type: "button", onclick: () => ((most += SHOWN), draw()) }, t("olderCalls"));
  const drawn = new Map();
  const unfolded = new Set();
  let most = SHOWN;
  let hidden = 0;
  let asking = false;

  const newest = () => [...world.calls.keys()].at(-1) ?? 0;

  function clear() {
    hidden = newest();
    begin();
  }

  function begin() {
    most = SHOWN;
    draw();
  }

  function fits(call) {
    if (call.number <= hidden) return false;
    if (way.value === "failed" ? !failed(call) : way.value && call.way !== way.value) return false;
    const wanted = words.value.trim().toLowerCase();
    return !wanted || searchable(call).includes(wanted);
  }

  function draw() {
    drawn.clear();
    // Drawn in the order of their beginning, so that the first one that is known is the oldest; shown in reverse.
    const fitting = [...world.calls.values()].filter(fits);
    const calls = fitting.slice(-most);
    const [oldest] = world.calls.keys();
    const others = world.olderCalls && oldest > hidden + 1;
    fill(list, !calls.length && !others && h("p.hint", {}, t("noCalls")), more);
    calls.forEach(put);
    more.hidden = fitting.length <= most && !others;
    // What is searched for may be further back than what the page knows yet.
    if (fitting.length < most && others) askOlder(oldest);
  }

  async function askOlder(before) {
    if (asking) return;
    asking = true;
    const came = await tried(async () => {
      addOlderCalls(await look(`calls?before=${before}&count=${PIECE}`));
    }, element);
    asking = false;
    if (came) draw();
  }

  /** The calls on the list that are attempts of these deliveries, whose marks may be others now. */
  function attempts(deliveries) {
    if (!deliveries.length) return [];
    const numbers = new Set(deliveries.map((posted) => posted.number));
    return [...drawn.keys()]
      .map((number) => world.calls.get(number))
      .filter((call) => call && numbers.has(call.delivery));
  }

  /** Draw a call above those that are there: in pieces, of which a browser leaves out those out of sight. */
  function put(call) {
    const element = row(call);
    drawn.set(call.number, element);
    const first = list.firstElementChild;
    if (first?.matches(".calls-piece") && first.childElementCount < SHOWN) first.prepend(element);
    else list.prepend(h("div.calls-piece", {}, element));
  }

  function dropOldest() {
    const [oldest] = drawn.keys();
    const piece = drawn.get(oldest).parentElement;
    drawn.get(oldest).remove();
    if (!piece.childElementCount) piece.remove();
    drawn.delete(oldest);
    more.hidden = false;
  }

  function row(call) {
    const isOpen = unfolded.has(call.number);
    const element = h("div.call", {
      class: [call.way, failed(call) ? "failed" : "", isOpen ? "unfolded" : ""].join(" "),
      "data-call": call.number,
    });
    const head = h(
      "button.call-head",
      {
        type: "button",
        "aria-expanded": String(isOpen),
        onclick: () => (isOpen ? unfolded.delete(call.number) : unfolded.add(call.number), redraw(call)),
      },
      h(
        "span.way",
        { title: t(call.way === "operation" ? "fromBot" : "toBot") },
        icon(call.way === "operation" ? "up" : "down", 15),
      ),
      h("span.call-name", {}, call.name),
      marks(call).map((mark) => h("span.chip.note", {}, mark)),
      h("span.call-facts.digits", {}, call.took === null ? "" : `${number(call.took)} ms`),
      h("span.status.digits", { class: statusClass(call) }, call.took === null ? "…" : (call.status ?? "—")),
    );
    element.append(head);
    if (isOpen) element.append(details(call));
    return element;
  }

  function redraw(call) {
    const known = drawn.get(call.number);
    if (!known) return;
    keepFocus(known, () => {
      const element = row(call);
      known.replaceWith(element);
      drawn.set(call.number, element);
      return element;
    });
  }

  function details(call) {
    const asked = decoded(call);
    return h(
      "div.call-details",
      {},
      h(
        "div.faint.digits",
        {},
        `${exactClock(call.at)} · ${call.content_type || t("noBody")} · ${bytes(call.size)}`,
      ),
      asked.length > 0 &&
        h(
          "table.fields-table",
          {},
          asked.map(([name, value]) => h("tr", {}, h("th", {}, name), h("td", {}, valueOf(value)))),
        ),
      !asked.length && call.body && h("pre", {}, call.body),
      call.liberties.length > 0 &&
        h(
          "div.liberties",
          {},
          t("notPromisedWhy"),
          h(
            "ul",
            { dir: "ltr" },
            call.liberties.map(({ field, rule }) => h("li", {}, h("code", {}, field), ` ${rule}`)),
          ),
        ),
      h("div.answer-title", {}, t("answer")),
      call.answer
        ? h("pre", {}, pretty(call.answer))
        : h(
            "div.faint",
            {},
            call.took === null
              ? t("underWay")
              : call.status === null
                ? t("nobodyAnswered")
                : t("emptyAnswer"),
          ),
      h(
        "div.chips",
        {},
        h(
          "button.chip",
          { type: "button", onclick: () => copy(asCurl(call)) },
          icon("copy", 15),
          t("copyCurl"),
        ),
        sentBy(call) !== null &&
          world.bot &&
          h(
            "button.chip",
            { type: "button", onclick: () => sent(sentBy(call)?.chat, sentBy(call)?.message) },
            icon("travel", 15),
            t("whereSent"),
          ),
        world.deliveries.has(call.delivery) && [
          h(
            "button.chip",
            { type: "button", onclick: () => tried(() => act("deliveries/again", { number: call.delivery })) },
            icon("replay", 15),
            t("postAgain"),
          ),
          h(
            "button.chip",
            { type: "button", onclick: () => postChanged(world.deliveries.get(call.delivery)) },
            icon("replay", 15),
            t("postChanged"),
          ),
        ],
      ),
    );
  }

  listen((fresh) => {
    if (!element.isConnected) return;
    if (fresh.all) {
      // Another run counts from one again.
      if (hidden > newest()) hidden = 0;
      return draw();
    }
    for (const call of new Set([...fresh.calls, ...attempts(fresh.deliveries)])) {
      if (drawn.has(call.number)) {
        redraw(call);
      } else if (fits(call)) {
        list.querySelector(".hint")?.remove();
        put(call);
      }
    }
    while (drawn.size > most) dropOldest();
  });

  /** Show the request that sent a message; false if it isn't known any more. */
  function showRequest(chat, message) {
    const found = [...world.calls.values()].findLast((call) => {
      const made = sentBy(call);
      return made !== null && made.chat === chat && made.message === message;
    });
    if (!found) return false;
    [words.value, way.value] = ["", ""];
    hidden = Math.min(hidden, found.number - 1);
    unfolded.add(found.number);
    most = Math.max(SHOWN, newest() - found.number + 1);
    draw();
    const head = drawn.get(found.number)?.querySelector(".call-head");
    head?.scrollIntoView({ block: "center" });
    head?.focus({ preventScroll: true });
    return Boolean(head);
  }

  return { element, draw, showRequest };
}

/** Which message of which chat a request has sent; null for any other request. */
function sentBy(call) {
  if (call.way !== "operation" || call.name !== "sendMessage" || call.status !== 200) return null;
  const message = parsed(call.answer)?.id;
  const chat = Number(decoded(call).find(([name]) => name === "chat_id")?.[1]);
  return typeof message === "number" && Number.isFinite(chat) ? { chat, message } : null;
}

/** What is said of a call beside its name. */
function marks(call) {
  const posted = world.deliveries.get(call.delivery);
  return [
    call.note,
    call.liberties.length > 0 && t("notPromised"),
    posted?.again && t("postedAgain"),
    posted && posted.state !== "delivered" && t(`delivery_${posted.state}`),
  ].filter(Boolean);
}

/** Ask what is to be posted in an event's place, and post that. */
async function postChanged(posted) {
  const type = h("input", { dir: "ltr", value: posted.type, "aria-label": t("eventType") });
  const data = h("textarea", { dir: "auto", rows: 6, "aria-label": t("eventData") });
  data.value = posted.data;
  const given = await sheet(t("postChanged"), (done) => [
    h("label.field", {}, h("span", {}, t("eventType")), type),
    h("label.field", {}, h("span", {}, t("eventData")), data),
    h(
      "div.sheet-actions",
      {},
      h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
      h(
        "button.button.primary",
        { type: "button", onclick: () => done({ type: type.value, data: data.value }) },
        t("post"),
      ),
    ),
  ]);
  if (given) await tried(() => act("deliveries/again", { number: posted.number, ...given }));
}

const failed = (call) => call.took !== null && (call.status === null || call.status >= 400);

const statusClass = (call) => (call.took === null ? "waits" : failed(call) ? "bad" : "good");

/** A form's fields, or a JSON object's, in their order. */
function decoded(call) {
  if (call.content_type.startsWith("application/json")) {
    const value = parsed(call.body);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
  }
  if (!call.content_type.startsWith("application/x-www-form-urlencoded")) return [];
  const fields = [...new URLSearchParams(call.body)];
  const type = fields.find(([name]) => name === "type")?.[1];
  // The text of a message stays text, even when it looks like JSON; structures are unfolded.
  return fields.map(([name, value]) => [
    name,
    name === "data" && type === "text" ? value : (structure(value) ?? value),
  ]);
}

const readable = (call) =>
  decoded(call)
    .map(([, value]) => (typeof value === "string" ? value : JSON.stringify(value)))
    .join("\n");

const texts = new WeakMap();

/** All that is looked through in a search; made once, since ten thousand are asked at each letter. */
function searchable(call) {
  if (!texts.has(call)) {
    const all = [call.name, call.body, call.answer, call.note, readable(call)];
    texts.set(call, all.join("\n").toLowerCase());
  }
  return texts.get(call);
}

function structure(text) {
  const value = /^\s*[[{]/.test(text) ? parsed(text) : null;
  return value !== null && typeof value === "object" ? value : null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function pretty(text) {
  const value = structure(text);
  return value === null ? text : JSON.stringify(value, null, 2);
}

const valueOf = (value) =>
  typeof value === "string"
    ? h("span.value", { dir: "auto" }, value)
    : h("pre", {}, JSON.stringify(value, null, 2));

/** The request as a command line, without the secrets in it. */
export function asCurl(call) {
  // What was asked for may be any path at all: to a shell it is as dangerous as a body.
  const name = /^[\w/]+$/.test(call.name) ? call.name : quoted(encodeURI(call.name));
  const target = call.way === "operation" ? `"$BASE_URL"/${name}` : '"$BOT_URL"';
  const token = call.way === "operation" ? ' -H "token: $TOKEN"' : "";
  const body =
    call.body || call.size === 0
      ? ` --data-raw ${quoted(call.body)}`
      : " # an upload: its bytes are not kept";
  return `curl -X POST ${target}${token} -H ${quoted(`Content-Type: ${call.content_type}`)}${body}`;
}

// Nothing in single quotes means anything to a shell; a control character would still mean something to a terminal.
function quoted(text) {
  if (!/[\u0000-\u001f\u007f-\u009f]/.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  const escaped = text.replace(
    /[\\'\u0000-\u001f\u007f-\u009f]/g,
    (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`,
  );
  return `$'${escaped}'`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"));
  } catch {
    toast(t("cantCopy"), { kind: "problem" });
  }
}
