// Access to the passes: open a pass, wait for it, and read its windows, first the wanted notch's window.

import { act, look, lookText, Refused } from "../link.js";
import { listen } from "../world.js";
import { coloured } from "./python.js";

/** @typedef {import("./state.js").Pass} Pass @typedef {import("./state.js").Journal} Journal */

// The stream reports that a pass is ready. A request finds a pass that was ready before.
const ASK_AFTER = 400;
const GONE = 410;

/** A chat's conversations, the newest first. */
export const conversationsOf = async (chatId) => (await look(`travel/${chatId}`)).conversations;

/**
 * The same, and what may be done there besides looking: "branch", "test", "answers".
 * @returns {Promise<{conversations: any[], can?: string[]}>}
 */
export const offeredIn = (chatId) => look(`travel/${chatId}`);

/**
 * Open a pass and wait until it is ready.
 * @param {{chat: number, conversation: number, crowd: any}} place
 * @param {() => boolean} isWanted
 * @returns {Promise<Pass | null>} null if nobody wants it any more
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

/** Put sources at their numbers, which have gaps. @param {any[]} all @param {{id: number}[]} more */
export function byNumber(all, more) {
  for (const one of more) all[one.id] ??= one;
  return all;
}

/** Wait until the stream says that a pass is ready or has failed, or for a moment. */
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

/** Close a pass that nobody looks at. The pass may be gone already. */
export const closePass = (id) => void act(`travel/pass/${id}`, undefined, "DELETE").catch(() => {});

/** One value in full. */
export const wholeValue = (pass, n, branch, frame, name) =>
  look(`travel/pass/${pass.id}/value?${new URLSearchParams({ notch: String(n), branch, frame: String(frame), name })}`);

/** The lines that ran in each of some turns. @returns {Promise<{paths: [number, number][][], sources: any[]}>} */
export const pathsOf = (pass, from, to) => look(`travel/pass/${pass.id}/path?from=${from}&to=${to}`);

/** Read sources, as the pass ran them, into what is there by their numbers. @param {any} pass @param {number[]} numbers @param {Map<number, {text: string, lines: [string, string][][]}>} into @param {() => boolean} isWanted */
export async function readSources(pass, numbers, into, isWanted) {
  for (const number of numbers) {
    const text = await lookText(`travel/pass/${pass.id}/source/${number}`);
    if (!isWanted()) return;
    into.set(number, { text, lines: coloured(text) });
  }
}

/**
 * Read a journal: first the window with `n`, then the others, the newest first.
 * @param {Journal} journal
 * @param {() => number} wanted the notch that somebody looks at
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
