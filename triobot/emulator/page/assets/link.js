// The connection to the emulator: acts are requests to the control API; all news arrives in one stream.
//
// The token comes after the # of the address: browsers never send that part. The tab's session storage keeps the
// token for a reload. The script removes the token from the address bar, so that no copied address or screenshot
// contains the token.

import { t } from "./words.js";

const KEY = "triobot-control";
// The stream has a heartbeat every second; after so many milliseconds of silence, the connection counts as lost.
const SILENCE = 6_000;
// Maximum milliseconds for connecting: a busy machine may need long, and a second attempt would take longer.
const ANSWER = 60_000;
// A subprotocol must not be empty and may contain only these letters; with others, the browser doesn't connect.
const SAYABLE = /^[ -~]+$/;
// The part after the # is either the token or a place in the page.
const PLACE = /^#c\/(-?\d+)\/(\d+)(?:\/n\/(\d+)|\/(answers))?$/;

let token = takeToken();

/** Return a chat's id as a number; a room's id is too long for a JavaScript number, and stays a string. */
export const idOf = (/** @type {any} */ text) => /** @type {any} */ (Number.isSafeInteger(Number(text)) ? Number(text) : text);

/** Return the address's chat, conversation and notch, and whether new code gets the recorded answers; null without a place. */
export function placeInAddress() {
  const found = PLACE.exec(location.hash);
  if (!found) return null;
  const [, chat, conversation, notch, answers] = found;
  return {
    chat: idOf(chat),
    conversation: Number(conversation),
    notch: notch === undefined ? null : Number(notch),
    answers: answers !== undefined,
  };
}

/** Write a place into the address; null or a crowd's place removes the place. The browser's history gets no entry. */
export function writePlace(place) {
  const behind = place && !place.crowd ? `#c/${place.chat}/${place.conversation}${place.notch === null ? "" : `/n/${place.notch}`}` : "";
  history.replaceState(null, "", location.pathname + behind);
}

function takeToken() {
  const given = PLACE.test(location.hash) ? "" : unquoted(location.hash.slice(1));
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
  return given || sessionStorage.getItem(KEY) || "";
}

function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// The next run's address differs only after the #: the browser loads no new page for that, so reload.
addEventListener("hashchange", () => takeToken() && location.reload());

/** Use and store the token in `text`: a pasted address, or a pasted token. */
export function useToken(text) {
  const [bare, behind] = text.trim().split("#");
  token = behind === undefined ? bare : unquoted(behind);
  sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  return { "X-Triobot-Control": token, ...more };
}

/** A request that the emulator refused, or that failed; the message is the emulator's text, if any. */
export class Refused extends Error {
  /** @param {string} words @param {number} status */
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

/** Send a request with a JSON body to the control API; return the JSON answer. */
export async function act(path, given = {}, method = "POST") {
  return answerOf(
    await reach(`/control/${path}`, {
      method,
      headers: headers({ "Content-Type": "application/json" }),
      body: JSON.stringify(given),
      // The browser completes a DELETE even after the page is closed.
      keepalive: method === "DELETE",
    }),
  );
}

/** Send a GET request to the control API; return the JSON answer. */
export async function look(path) {
  return answerOf(await reach(`/control/${path}`, { headers: headers() }));
}

/** Send a GET request to the control API; return the answer's text. */
export async function lookText(path) {
  const answer = await reach(`/control/${path}`, { headers: headers() });
  return answer.ok ? answer.text() : answerOf(answer);
}

async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    // The browser's own error text is English, and contains nothing useful here.
    throw new Refused(t("unreachable"));
  }
}

async function answerOf(answer) {
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(value?.error ?? `HTTP ${answer.status}`, answer.status);
  return value;
}

/**
 * Receive news until the token is refused; each connection's first news is the complete state.
 * `onState` gets "open" with each news, "lost" before each new attempt, and "refused" at the end.
 */
export async function follow(onNews, onState) {
  for (let wait = 300; ; wait = Math.min(wait * 1.6, 3_000)) {
    try {
      const refused = await hear((news) => {
        wait = 300;
        onState("open");
        onNews(news);
      });
      if (refused) return onState("refused");
    } catch (error) {
      // These are the errors of a failed connection; any other error is a fault of this script, and is logged.
      if (!(error instanceof TypeError || (error instanceof Error && error.name === "AbortError"))) console.error(error);
    }
    onState("lost");
    await new Promise((resume) => setTimeout(resume, wait));
  }
}

// Receive news over one WebSocket; return whether the token was refused. A stream over HTTP would use one of the
// six connections that a browser allows to a host from all tabs.
async function hear(onNews) {
  if (!SAYABLE.test(token)) return true;
  const line = new WebSocket(`${location.origin.replace(/^http/, "ws")}/control/stream`, ["triobot", inHex(token)]);
  let silence;
  const expectWithin = (time) => {
    clearTimeout(silence);
    silence = setTimeout(() => line.close(), time);
  };
  expectWithin(ANSWER);
  let heard = false;
  await new Promise((resolve, reject) => {
    line.onclose = resolve;
    line.onopen = () => expectWithin(SILENCE);
    line.onmessage = ({ data }) => {
      heard = true;
      expectWithin(SILENCE);
      try {
        if (data) onNews(JSON.parse(data));
      } catch (error) {
        line.close();
        reject(error);
      }
    };
  });
  clearTimeout(silence);
  // A browser doesn't report why a WebSocket was refused: an ordinary request shows the status.
  return !heard && (await fetch("/control/bot", { headers: headers() })).status === 403;
}

const inHex = (text) =>
  [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
