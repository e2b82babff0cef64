// The line to the emulator: acts go through the control API, and all that happens comes back in one stream.
//
// The token comes behind the # of the address, which a browser sends nowhere. It stays in this tab, so that a
// reload works, and leaves the address bar, so that a copied address or a screenshot doesn't give it away.

import { t } from "./words.js";

const KEY = "triobot-control";
// The stream has a heartbeat every second; a silence of this length means that the connection is lost.
const SILENCE = 6_000;
// On a busy machine, connecting may take long; giving up and trying again would take longer.
const ANSWER = 60_000;
// A subprotocol can't be empty, and a header allows only these letters: with others the browser sends nothing.
const SAYABLE = /^[ -~]+$/;
// The text behind the # may also be a place in the page, which is no secret.
const PLACE = /^#c\/(-?\d+)\/(\d+)(?:\/n\/(\d+)|\/(answers))?$/;

let token = takeToken();

/** A chat's number in scripts: a room's number is too long for a JavaScript number, and stays text. */
export const idOf = (/** @type {any} */ text) => /** @type {any} */ (Number.isSafeInteger(Number(text)) ? Number(text) : text);

/** The place in the address: chat, conversation, notch (if any), and whether new code gets the answers. */
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

/** Write a place into the address; null for none, and of what a crowd did there is none. A step to another notch makes no step back of the browser's. */
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

// The address of the next run, opened in this tab, differs behind the # only: the browser wouldn't load it.
addEventListener("hashchange", () => takeToken() && location.reload());

/** Return the token from a pasted address, or a pasted token. */
export function useToken(text) {
  const [bare, behind] = text.trim().split("#");
  token = behind === undefined ? bare : unquoted(behind);
  sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  return { "X-Triobot-Control": token, ...more };
}

/** A refusal by the emulator; the message is the emulator's text. */
export class Refused extends Error {
  /** @param {string} words @param {number} status */
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

/** Send a POST request to the control API. */
export async function act(path, given = {}, method = "POST") {
  return answerOf(
    await reach(`/control/${path}`, {
      method,
      headers: headers({ "Content-Type": "application/json" }),
      body: JSON.stringify(given),
      // A DELETE is completed even if the page is closed.
      keepalive: method === "DELETE",
    }),
  );
}

/** Send a GET request to the control API. */
export async function look(path) {
  return answerOf(await reach(`/control/${path}`, { headers: headers() }));
}

/** Send a GET request for a text to the control API. */
export async function lookText(path) {
  const answer = await reach(`/control/${path}`, { headers: headers() });
  return answer.ok ? answer.text() : answerOf(answer);
}

async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    // The browser's own error text is in English, and contains nothing useful here.
    throw new Refused(t("unreachable"));
  }
}

async function answerOf(answer) {
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(value?.error ?? `HTTP ${answer.status}`, answer.status);
  return value;
}

/**
 * Receive all news for ever; after a gap, the stream begins with the complete state.
 * onState is told "open", "lost" (and tried again), or "refused" (then it ends).
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
      // Any failure of the connection looks the same from here; an error of this script should be visible.
      if (!(error instanceof TypeError || (error instanceof Error && error.name === "AbortError"))) console.error(error);
    }
    onState("lost");
    await new Promise((resume) => setTimeout(resume, wait));
  }
}

// A stream over HTTP would use one of the six connections that a browser allows for all tabs of a host.
// Resolves to whether the token was refused.
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
  // A browser doesn't report why a connection was refused.
  return !heard && (await fetch("/control/bot", { headers: headers() })).status === 403;
}

const inHex = (text) =>
  [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
