// The panel of requests: the bot's operations, and the events posted to the bot.

import { asCurl, chatOf, decoded, failed, nameOf, saidIn, searchable, structure, whoOf } from "./calls.js";
import { exactClock, bytes, number } from "./format.js";
import { act, look } from "./link.js";
import { copy, sheet, tried } from "./sheet.js";
import { Asking, draw as put, Field, html, Icon, IconButton, Part, root } from "./ui.js";
import { ofCall } from "./travel/links.js";
import { t } from "./words.js";
import { addOlderCalls, listen, world } from "./world.js";

// Number of requests drawn at first, and added by each click on "Older requests"; also the size of a piece.
const SHOWN = 200;
// Number of older requests per query to the server.
const PIECE = 1_000;
const ROW = 37;
// Maximum letters of a message's text in a request's line.
const LONGEST = 100;

const inOrder = (pieces) => [...pieces].sort(([one], [other]) => one - other);

/** The panel "Requests". `made(call)` opens the code line that sent the message or received the event. */
export function inspectorPanel({ made }) {
  const element = root("div", { class: "panel-body inspector" });
  // The drawn requests in pieces by number: browsers skip invisible pieces; unchanged pieces aren't drawn again.
  /** @type {Map<number, {numbers: Set<number>, version: number}>} */
  const pieces = new Map();
  const unfolded = new Set();
  // Ids of the chats with requests; only these chats are in the filter.
  const chats = new Set();
  let [words, way, chat] = ["", "", ""];
  let most = SHOWN;
  let count = 0;
  let isMore = false;
  let hidden = 0;
  /** Number of the newest request at the pause; null while not paused. @type {number | null} */
  let pausedAt = null;
  let asking = false;

  const newest = () => [...world.calls.keys()].at(-1) ?? 0;
  const isLater = (call) => pausedAt !== null && call.number > pausedAt;

  function fits(call) {
    if (call.number <= hidden) return false;
    if (way === "failed" ? !failed(call) : way && call.way !== way) return false;
    if (chat && chatOf(call) !== Number(chat)) return false;
    const wanted = words.trim().toLowerCase();
    return !wanted || searchable(call).includes(wanted);
  }

  const fitting = () => [...world.calls.values()].filter(fits);

  function begin() {
    most = SHOWN;
    draw();
  }

  function clear() {
    hidden = newest();
    if (pausedAt !== null) pausedAt = hidden;
    begin();
  }

  function turnPause() {
    pausedAt = pausedAt === null ? newest() : null;
    draw();
  }

  /** Choose the drawn requests anew, and draw. */
  function draw() {
    pieces.clear();
    chats.clear();
    count = 0;
    for (const call of world.calls.values()) noteChat(call);
    const calls = fitting().filter((call) => !isLater(call));
    calls.slice(-most).forEach(add);
    const [oldest] = world.calls.keys();
    const others = world.olderCalls && oldest > hidden + 1;
    isMore = calls.length > most || others;
    show();
    // Older requests, which the page hasn't loaded yet, may match the filters.
    if (calls.length < most && others) askOlder(oldest);
  }

  function noteChat(call) {
    const about = chatOf(call);
    if (about !== null) chats.add(about);
  }

  function add(call) {
    const place = Math.floor(call.number / SHOWN);
    const piece = pieces.get(place) ?? { numbers: new Set(), version: 0 };
    pieces.set(place, piece);
    piece.version += 1;
    if (piece.numbers.has(call.number)) return;
    piece.numbers.add(call.number);
    count += 1;
  }

  const pieceOf = (call) => {
    const piece = pieces.get(Math.floor(call.number / SHOWN));
    return piece?.numbers.has(call.number) ? piece : undefined;
  };

  function dropOldest() {
    for (const [place, { numbers }] of inOrder(pieces)) {
      for (const one of numbers) {
        if (count <= most) return;
        numbers.delete(one);
        count -= 1;
        isMore = true;
      }
      pieces.delete(place);
    }
  }

  /** Load requests older than `before`; return whether there were any. */
  const older = async (before) => {
    const told = await look(`calls?before=${before}&count=${PIECE}`);
    addOlderCalls(told);
    return told.calls.length > 0;
  };

  async function askOlder(before) {
    if (asking) return;
    asking = true;
    const came = await tried(() => older(before), element);
    asking = false;
    if (came) draw();
  }

  function show() {
    // Only a reader who was at the end sees the new end.
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < ROW;
    put(
      html`
        <div class="filters" role="search" aria-label=${t("inspector")}>
          <input
            type="search"
            placeholder=${t("filter")}
            aria-label=${t("filter")}
            value=${words}
            oninput=${(event) => ((words = event.target.value), begin())}
          />
          <${IconButton}
            name=${pausedAt === null ? "pause" : "play"}
            title=${t(pausedAt === null ? "pauseCalls" : "resumeCalls")}
            onclick=${turnPause}
          />
          <${IconButton} name="close" title=${t("clear")} onclick=${clear} />
          <select aria-label=${t("direction")} value=${way} onchange=${(event) => ((way = event.target.value), begin())}>
            <option value="">${t("bothWays")}</option>
            <option value="operation">${t("fromBot")}</option>
            <option value="event">${t("toBot")}</option>
            <option value="failed">${t("failedOnes")}</option>
          </select>
          <${Chats} ids=${[...chats].join()} chosen=${chat} choose=${chooseChat} />
        </div>
        ${pausedAt !== null && html`<p class="paused" role="status">${pausedWords()}</p>`}
        <div class="calls" role="region" aria-label=${t("inspector")}>
          ${isMore && html`<button type="button" class="older" onclick=${() => ((most += SHOWN), draw())}>${t("olderCalls")}</button>`}
          ${inOrder(pieces).map(
            ([place, { numbers, version }]) => html`<${Piece}
              key=${place}
              numbers=${numbers}
              version=${version}
              unfolded=${unfolded}
              turn=${turn}
              made=${made}
            />`,
          )}
          ${!count && !isMore && html`<p class="hint">${t("noCalls")}</p>`}
        </div>
      `,
      element,
    );
    if (isAtEnd) element.scrollTop = element.scrollHeight;
  }

  const chooseChat = (chosen) => {
    chat = chosen;
    begin();
  };

  function pausedWords() {
    const waiting = fitting().filter(isLater).length;
    return t(waiting ? "pausedCallsNew" : "pausedCalls", { count: number(waiting) });
  }

  function turn(call) {
    if (!unfolded.delete(call.number)) unfolded.add(call.number);
    add(call);
    show();
  }

  /** Return the drawn requests of these deliveries: the requests' marks may have changed. */
  function attempts(deliveries) {
    if (!deliveries.length) return [];
    const numbers = new Set(deliveries.map((posted) => posted.number));
    return [...pieces.values()]
      .flatMap((piece) => [...piece.numbers])
      .flatMap((one) => world.calls.get(one) ?? [])
      .filter((call) => numbers.has(call.delivery));
  }

  listen((fresh) => {
    if (!element.isConnected) return;
    if (fresh.all) {
      // A new run of the emulator numbers the requests from one again.
      if (hidden > newest()) hidden = 0;
      if (pausedAt !== null && pausedAt > newest()) pausedAt = 0;
      return draw();
    }
    if (!fresh.calls.length && !fresh.deliveries.length) return;
    for (const call of fresh.calls) {
      noteChat(call);
      if (pieceOf(call) || (fits(call) && !isLater(call))) add(call);
    }
    attempts(fresh.deliveries).forEach(add);
    if (count > most) dropOldest();
    show();
  });

  /** Show the request that `choose` returns; return false if the request is no longer kept. @param {(calls: any[]) => any} choose */
  function showRequest(choose) {
    const found = choose([...world.calls.values()]);
    if (!found) return false;
    [words, way, chat] = ["", "", ""];
    hidden = Math.min(hidden, found.number - 1);
    if (isLater(found)) pausedAt = found.number;
    unfolded.add(found.number);
    most = Math.max(SHOWN, newest() - found.number + 1);
    draw();
    const head = /** @type {HTMLElement | null} */ (element.querySelector(`[data-call="${found.number}"] .call-head`));
    head?.scrollIntoView({ block: "center" });
    head?.focus({ preventScroll: true });
    return Boolean(head);
  }

  return { element, draw, showRequest };
}

/** The filter by chat; drawn again only for a new chat or another choice. */
class Chats extends Part {
  render({ ids, chosen, choose }) {
    const all = ids.split(",").flatMap((id) => world.chats.get(Number(id)) ?? []);
    all.sort((one, other) => nameOf(one).localeCompare(nameOf(other)));
    return html`
      <select aria-label=${t("ofChat")} value=${chosen} onchange=${(event) => choose(event.target.value)}>
        <option value="">${t("everyChat")}</option>
        ${all.map((one) => html`<option key=${one.id} value=${String(one.id)}>${nameOf(one)}</option>`)}
      </select>
    `;
  }
}

/** A piece of the list: requests in a range of numbers, the newest last. */
class Piece extends Part {
  render({ numbers, unfolded, turn, made }) {
    const calls = [...numbers].sort((one, other) => one - other).flatMap((one) => world.calls.get(one) ?? []);
    return html`
      <div class="calls-piece" style=${{ containIntrinsicBlockSize: `auto ${calls.length * ROW}px` }}>
        ${calls.map(
          (call) => html`<${Call}
            key=${call.number}
            call=${call}
            posted=${world.deliveries.get(call.delivery)}
            isOpen=${unfolded.has(call.number)}
            who=${whoOf(call)}
            turn=${turn}
            made=${made}
          />`,
        )}
      </div>
    `;
  }
}

/** One request: time, name, person, text, duration and answer. */
class Call extends Part {
  render({ call, posted, isOpen, who, turn, made }) {
    const isOver = call.took !== null;
    return html`
      <div
        class=${["call", call.way, failed(call) && "failed", isOpen && "unfolded"].filter(Boolean).join(" ")}
        data-call=${call.number}
      >
        <button type="button" class="call-head" aria-expanded=${String(isOpen)} onclick=${() => turn(call)}>
          <span class="way" title=${t(call.way === "operation" ? "fromBot" : "toBot")}>
            <${Icon} name=${call.way === "operation" ? "up" : "down"} size=${15} />
          </span>
          <span class="call-facts digits">${exactClock(call.at)}</span>
          <span class="call-name">${call.name}</span>
          <span class="call-who"><bdi>${who}</bdi></span>
          ${marks(call, posted).map((mark) => html`<span class="chip note">${mark}</span>`)}
          <span class="call-text"><bdi>${saidIn(call).slice(0, LONGEST)}</bdi></span>
          <span class="call-facts digits">${isOver && `${number(call.took)} ms`}</span>
          <span class=${`status digits ${!isOver ? "waits" : failed(call) ? "bad" : "good"}`}>
            ${isOver ? (call.status ?? "—") : "…"}
          </span>
        </button>
        ${isOpen && html`<${Details} call=${call} posted=${posted} made=${made} />`}
      </div>
    `;
  }
}

function Details({ call, posted, made }) {
  const asked = decoded(call);
  const isMade = ofCall(call) !== null;
  return html`
    <div class="call-details">
      <div class="faint digits">${exactClock(call.at)} · ${call.content_type || t("noBody")} · ${bytes(call.size)}</div>
      ${asked.length > 0 &&
      html`
        <table class="fields-table">
          <tbody>
            ${asked.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${valueOf(value)}</td></tr>`)}
          </tbody>
        </table>
      `}
      ${!asked.length && call.body && html`<pre>${call.body}</pre>`}
      ${call.liberties.length > 0 &&
      html`
        <div class="liberties">
          ${t("notPromisedWhy")}
          <ul dir="ltr">
            ${call.liberties.map(({ field, rule }) => html`<li><code>${field}</code>${` ${rule}`}</li>`)}
          </ul>
        </div>
      `}
      <div class="answer-title">${t("answer")}</div>
      ${call.answer ? html`<pre>${pretty(call.answer)}</pre>` : html`<div class="faint">${t(silence(call))}</div>`}
      <div class="chips">
        <${Chip} picture="copy" words=${t("copyCurl")} onclick=${() => copy(asCurl(call))} />
        ${world.bot &&
        isMade &&
        html`<${Chip} picture="travel" words=${t(call.way === "event" ? "whereTaken" : "whereSent")} onclick=${() => made(call)} />`}
        ${posted &&
        html`
          <${Chip} picture="replay" words=${t("postAgain")} onclick=${() => postAgain({ number: posted.number })} />
          <${Chip} picture="replay" words=${t("postChanged")} onclick=${() => postChanged(posted)} />
        `}
      </div>
    </div>
  `;
}

const Chip = ({ picture, words, onclick }) => html`
  <button type="button" class="chip" onclick=${onclick}><${Icon} name=${picture} size=${15} />${words}</button>
`;

const silence = (call) =>
  call.took === null ? "underWay" : call.status === null ? "nobodyAnswered" : "emptyAnswer";

/** Return the notes beside a request's name. */
const marks = (call, posted) =>
  [
    call.note,
    call.liberties.length > 0 && t("notPromised"),
    posted?.again && t("postedAgain"),
    posted && posted.state !== "delivered" && t(`delivery_${posted.state}`),
  ].filter(Boolean);

const postAgain = (given) => tried(() => act("deliveries/again", given));

/** Ask for changes of an event, and post the changed event. */
async function postChanged(posted) {
  const given = await sheet(t("postChanged"), (done) => {
    const give = ({ type, data, chat }) => {
      const other = Number(chat);
      const elsewhere = other !== posted.chat_id && Number.isInteger(other) ? { chat_id: other } : {};
      done({ type, data, ...elsewhere });
    };
    return html`
      <${Asking} give=${give} cancel=${() => done(undefined)} yes=${t("post")}>
        <${Field} label=${t("eventType")}><input name="type" dir="ltr" value=${posted.type} /><//>
        <${Field} label=${t("eventData")}><textarea name="data" dir="auto" rows="6" value=${posted.data}></textarea><//>
        <${Field} label=${t("eventChat")}>
          <input name="chat" class="digits" dir="ltr" inputmode="numeric" value=${String(posted.chat_id)} />
        <//>
      <//>
    `;
  });
  if (given) await postAgain({ number: posted.number, ...given });
}

function pretty(text) {
  const value = structure(text);
  return value === null ? text : JSON.stringify(value, null, 2);
}

const valueOf = (value) =>
  typeof value === "string"
    ? html`<span class="value" dir="auto">${value}</span>`
    : html`<pre>${JSON.stringify(value, null, 2)}</pre>`;
