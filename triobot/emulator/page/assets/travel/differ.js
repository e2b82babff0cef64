// Differences between recorded messages and a branch's messages, and between two messages' words. Pure functions.

const SPACE = /(\s+)/;
// Maximum number of compared words or messages. More words count as one difference; more messages aren't compared.
const MOST = 600;
// Maximum letters of a compared text: a pass cuts longer texts.
const LETTERS = 4_000;
// The weight of two equal messages, as much as some pairs of similar messages.
const SAME = 3;
// Added to each weight, so that a missing message and the new message in its place form a pair without a common word.
const TINY = 0.001;
// The least weight of similar messages.
const ALIKE = 0.5;

/** Return the texts of one version of a message: text, form labels, buttons with prices. */
const linesOf = ({ content, form, buttons }) => [
  (content?.text ?? content?.caption ?? content?.desc ?? content?.name)?.slice(0, LETTERS),
  ...(form ?? []).flatMap((field) => [field.label, ...(field.options ?? []).map((one) => one.label)]),
  ...(buttons ?? []).flat().map((one) => [one.text, one.amount].filter(Boolean).join(" ")),
];

/** Return the texts of all versions of a message: a removed button is still in an earlier version. @param {any[]} versions */
export const saidIn = (versions) => [...new Set(versions.flatMap(linesOf).filter(Boolean))].join("\n");

/** Return the texts of a pass's message and of its edits. @param {import("./story.js").Item} item */
export const saidByItem = ({ sent, edits }) => saidIn([sent, ...edits.map((edit) => edit.sent)]);

/**
 * Pair positions in two lists, in the order of both lists. Return the pairs with the greatest total weight.
 * @param {number} many @param {number} others lengths of the lists
 * @param {(i: number, j: number) => number} like weight of a pair; 0: no pair
 */
function paired(many, others, like) {
  const sums = Array.from({ length: many + 1 }, () => new Float64Array(others + 1));
  for (let i = many - 1; i >= 0; i -= 1)
    for (let j = others - 1; j >= 0; j -= 1) sums[i][j] = Math.max(sums[i + 1][j], sums[i][j + 1], sums[i + 1][j + 1] + like(i, j));
  /** @type {[number, number][]} */
  const found = [];
  for (let i = 0, j = 0; i < many && j < others; ) {
    if (like(i, j) > 0 && sums[i][j] === sums[i + 1][j + 1] + like(i, j)) found.push([i++, j++]);
    else if (sums[i][j] === sums[i + 1][j]) i += 1;
    else j += 1;
  }
  return found;
}

const wordsIn = (text) => new Set(text.split(SPACE).filter((word) => word.trim()));

/** Return the similarity of two messages: from 0 for no common word to 1 for equal words. @param {Set<string>} one @param {Set<string>} other */
const likeness = (one, other) => (2 * [...one].filter((word) => other.has(word)).length) / (one.size + other.size || 1);

/**
 * Compare recorded messages with a branch's messages. Each differing position in `now` is a key of the returned
 * `others`; the value is the replaced position in `then`, or null. `missing` contains the positions in `then` without a
 * message in `now`, in lists by the next position in `now`.
 * @param {string[]} then
 * @param {{words: string, isElsewhere: boolean}[]} now `isElsewhere`: whether another conversation of the chat sent this message then
 * @param {boolean} isOver whether the branch sends no further messages
 */
export function differing(then, now, isOver) {
  /** @type {Map<number, number | null>} */
  const others = new Map();
  /** @type {Map<number, number[]>} */
  const missing = new Map();
  if (then.length > MOST || now.length > MOST) return { others, missing };
  const [old, fresh] = [then.map(wordsIn), now.map(({ words }) => wordsIn(words))];
  const like = (i, j) => (then[i] === now[j].words ? SAME : now[j].isElsewhere ? 0 : TINY + likeness(old[i], fresh[j]));
  const pairs = paired(then.length, now.length, like);
  // A running branch may still send the recorded messages after the last similar pair: such messages aren't missing yet.
  if (!isOver) pairs.length = pairs.findLastIndex((pair) => like(...pair) >= ALIKE) + 1;
  const places = new Map(pairs.map(([i, j]) => [j, i]));
  for (const [j, { words, isElsewhere }] of now.entries()) {
    const i = places.get(j) ?? null;
    if (i === null ? !isElsewhere : then[i] !== words) others.set(j, i);
  }
  let next = 0;
  for (const [i, j] of [...pairs, ...(isOver ? [[then.length, now.length]] : [])]) {
    if (next < i) missing.set(j, Array.from({ length: i - next }, (_, place) => next + place));
    next = i + 1;
  }
  return { others, missing };
}

/**
 * Return the words of both messages in one list of [kind, words]; kinds are "same", "gone" and "new".
 * @param {string} then @param {string} now @returns {[string, string][]}
 */
export function wordsOf(then, now) {
  const [old, fresh] = [then.split(SPACE), now.split(SPACE)];
  /** @type {[string, string][]} */
  const told = [];
  let [i, j] = [0, 0];
  const isShort = old.length <= MOST && fresh.length <= MOST;
  const kept = isShort ? paired(old.length, fresh.length, (at, place) => Number(old[at] === fresh[place])) : [];
  const isAlike = kept.some(([at]) => old[at].trim());
  for (const [nextI, nextJ] of [...(isAlike ? kept : []), [old.length, fresh.length]]) {
    if (i < nextI) told.push(["gone", old.slice(i, nextI).join("")]);
    if (j < nextJ) told.push(["new", fresh.slice(j, nextJ).join("")]);
    if (nextI < old.length) told.push(["same", old[nextI]]);
    [i, j] = [nextI + 1, nextJ + 1];
  }
  return told;
}
