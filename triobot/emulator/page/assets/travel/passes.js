// Requests for passes: open a pass, wait until the pass is ready, and read the notches in windows.

import { act, look, lookText, Refused } from "../link.js";
import { listen } from "../world.js";
import { coloured } from "./python.js";

/** @typedef {import("./state.js").Pass} Pass @typedef {import("./state.js").Journal} Journal */

// Milliseconds until a pass is requested again: the stream may have reported the pass before the page waited.
const ASK_AFTER = 400;
const GONE = 410;

/** Return a chat's conversations, the newest first. */
export const conversationsOf = async (chatId) => (await look(`travel/${chatId}`)).conversations;

/**
 * Return a chat's conversations, and the offered commands in `can`: "branch", "test", "answers".
 * @returns {Promise<{conversations: any[], can?: string[]}>}
 */
export const offeredIn = (chatId) => look(`travel/${chatId}`);

/**
 * Open a pass and wait until the pass is ready.
 * @param {{chat: number, conversation: number, crowd: any}} place
 * @param {() => boolean} isWanted
 * @returns {Promise<Pass | null>} null if the pass is no longer wanted
 */
export async function openPass(place, isWanted) {
  const path = `travel/${place.chat}/${place.conversation}/open`;
  const { id } = await (place.crowd ? act("crowd/open") : act(path));
  while (isWanted()) {
    const told = await look(`travel/pass/${id}`);
    if (told.sources) return { ...told, sources: byNumber([], told.sources), id, crowd: place.crowd };
    if (told.failed) throw new Refused(told.failed);
    await hearOf(id);
  }
  closePass(id);
  return null;
}

/** Store sources in `all` by number; the numbers have gaps. @param {any[]} all @param {{id: number}[]} more */
export function byNumber(all, more) {
  for (const one of more) all[one.id] ??= one;
  return all;
}

/** Wait until the stream reports that a pass is ready or has failed, at most for `ASK_AFTER`. */
function hearOf(id) {
  return new Promise((resume) => {
    const end = () => {
      deaf();
      clearTimeout(timer);
      resume(undefined);
    };
    const timer = setTimeout(end, ASK_AFTER);
    const deaf = listen((fresh) => fresh.travel?.some((one) => one.id === id && (one.ready || one.failed)) && end());
  });
}

/** Delete a pass on the server; the pass may be gone already. */
export const closePass = (id) => void act(`travel/pass/${id}`, undefined, "DELETE").catch(() => {});

/** Read the lines that ran in each turn from `from` to before `to`. @returns {Promise<{paths: [number, number][][], sources: any[]}>} */
export const pathsOf = (pass, from, to) => look(`travel/pass/${pass.id}/path?from=${from}&to=${to}`);

/** Read sources into `into`, with the text that the pass ran. @param {any} pass @param {number[]} numbers @param {Map<number, {text: string, lines: [string, string][][]}>} into @param {() => boolean} isWanted */
export async function readSources(pass, numbers, into, isWanted) {
  for (const number of numbers) {
    const text = await lookText(`travel/pass/${pass.id}/source/${number}`);
    if (!isWanted()) return;
    into.set(number, { text, lines: coloured(text) });
  }
}

/**
 * Read a journal's notches: first the window of the wanted notch, then the others, the newest first.
 * @param {Journal} journal
 * @param {() => number} wanted returns the shown notch
 * @param {() => void} onMore
 * @param {() => boolean} isWanted
 */
export async function readAll(journal, wanted, onMore, isWanted) {
  while (isWanted()) {
    const next = journal.missing(wanted()) ?? journal.nextMissing();
    if (!next) return;
    const told = await look(`travel/pass/${journal.pass.id}/notches?from=${next.from}&to=${next.to}`);
    // An empty window would be requested for ever.
    if (!told.notches.length) throw new Refused(`no notches from ${next.from} to ${next.to}`);
    if (!isWanted()) return;
    journal.take(told.notches);
    onMore();
  }
}

export const isGone = (error) => error instanceof Refused && error.status === GONE;
