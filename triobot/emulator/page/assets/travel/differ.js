// The differences between the recorded messages and a branch's messages, and between their words. Pure.

const SPACE = /(\s+)/;
// Words of a message, or messages, that are compared one by one; more of them are one difference, or none.
const MOST = 600;
// Of a longer text a pass tells no more.
const LETTERS = 4_000;
// A pair of equal messages outweighs some pairs of similar messages.
const SAME = 3;
// A missing message and a new message in its place are a pair even without a common word.
const TINY = 0.001;
const ALIKE = 0.5;

/** The words of one version of a message: its text, the labels of its form, its buttons with their prices. */
const linesOf = ({ content, form, buttons }) => [
  (content?.text ?? content?.caption ?? content?.desc ?? content?.name)?.slice(0, LETTERS),
  ...(form ?? []).flatMap((field) => [field.label, ...(field.options ?? []).map((one) => one.label)]),
  ...(buttons ?? []).flat().map((one) => [one.text, one.amount].filter(Boolean).join(" ")),
];

/** What a message says in all its versions: a button that is gone because it was pressed or paid says nothing. @param {any[]} versions */
export const saidIn = (versions) => [...new Set(versions.flatMap(linesOf).filter(Boolean))].join("\n");

/** The words of a message in a pass. @param {import("./story.js").Item} item */
export const saidByItem = ({ sent, edits }) => saidIn([sent, ...edits.map((edit) => edit.sent)]);

/**
 * The pairs of places in two lists, in order, with the greatest total similarity.
 * @param {number} many @param {number} others how long the lists are
 * @param {(i: number, j: number) => number} like 0 for what is no pair
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

/** The similarity of two messages: 0 for no common word, 1 for equal words. @param {Set<string>} one @param {Set<string>} other */
const likeness = (one, other) => (2 * [...one].filter((word) => other.has(word)).length) / (one.size + other.size || 1);

/**
 * The differing messages: for each differing message of now, the place of the message of then that it replaces, or null;
 * and the missing messages of then, by the place of now before which they are missing.
 * @param {string[]} then
 * @param {{words: string, isElsewhere: boolean}[]} now `isElsewhere`: another conversation of the chat said this then
 * @param {boolean} isOver nothing more is said
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
  // Messages that a running branch hasn't sent yet don't count as missing.
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
 * The words of then and of now in one line: "same", "gone" or "new".
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
