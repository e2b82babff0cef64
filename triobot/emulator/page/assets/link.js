// The line to the emulator: acts go through the control API, and all that happens comes back in one stream.
//
// The token comes behind the # of the address, which a browser sends nowhere. It stays in this tab, so that a
// reload works, and leaves the address bar, so that a copied address or a screenshot doesn't give it away.

import { t } from "./words.js";

const KEY = "triobot-control";
// The stream beats every second; a silence of this length means that the line is cut.
const SILENCE = 6_000;
// A busy machine may take its time before there is a line; to give up and ask anew makes it take longer.
const ANSWER = 60_000;
// A subprotocol can't be empty and a header holds no other letters: a browser fails without asking anybody.
const SAYABLE = /^[ -~]+$/;
// What is behind the # may also be a place in the page, which is no secret.
const PLACE = /^#c\/(-?\d+)\/(\d+)(?:\/n\/(\d+)|\/(answers))?$/;

let token = takeToken();

/** The number of a chat as scripts have it: that of a room has more digits than JavaScript's, and stays text. */
export const idOf = (/** @type {any} */ text) => /** @type {any} */ (Number.isSafeInteger(Number(text)) ? Number(text) : text);

/** What the address names: chat, conversation, a notch's number, if there is one, and whether its answers go to new code. */
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

/** Take the token out of an address, or a bare token, that somebody pasted. */
export function useToken(text) {
  const [bare, behind] = text.trim().split("#");
  token = behind === undefined ? bare : unquoted(behind);
  sessionStorage.setItem(KEY, token);
}

function headers(more = {}) {
  return { "X-Triobot-Control": token, ...more };
}

/** The emulator said no; the message is its own words. */
export class Refused extends Error {
  /** @param {string} words @param {number} status */
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

/** Do something through the control API. */
export async function act(path, given = {}, method = "POST") {
  return answerOf(
    await reach(`/control/${path}`, {
      method,
      headers: headers({ "Content-Type": "application/json" }),
      body: JSON.stringify(given),
      // What is thrown away is thrown away by a page that is closed, too.
      keepalive: method === "DELETE",
    }),
  );
}

/** Look something up in the control API. */
export async function look(path) {
  return answerOf(await reach(`/control/${path}`, { headers: headers() }));
}

/** Look up a text in the control API. */
export async function lookText(path) {
  const answer = await reach(`/control/${path}`, { headers: headers() });
  return answer.ok ? answer.text() : answerOf(answer);
}

async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    // The browser's own words for it are in English, and name nothing that is known here.
    throw new Refused(t("unreachable"));
  }
}

async function answerOf(answer) {
  const value = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(value?.error ?? `HTTP ${answer.status}`, answer.status);
  return value;
}

/**
 * Hear all that happens, for ever; what follows a gap begins with everything anew.
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
      // Any failure of the line looks the same from here; one of ours should be seen.
      if (!(error instanceof TypeError || (error instanceof Error && error.name === "AbortError"))) console.error(error);
    }
    onState("lost");
    await new Promise((resume) => setTimeout(resume, wait));
  }
}

// A stream over HTTP would hold one of the six connections that a browser has for all tabs of a host.
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
  // A browser doesn't say why a line was refused.
  return !heard && (await fetch("/control/bot", { headers: headers() })).status === 403;
}

const inHex = (text) =>
  [...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
