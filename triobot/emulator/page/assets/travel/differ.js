// What differs between what was said then and what is said now: messages, and the words in them. Pure.

const SPACE = /(\s+)/;
// Words of a message, or messages, that are compared one by one; more of them are one difference, or none.
const MOST = 600;
// Of a longer text a pass tells no more.
const LETTERS = 4_000;
// Two messages that are the same outweigh some that are alike.
const SAME = 3;
// What is missing, and what is new at its place, are a pair also without a word in common.
const TINY = 0.001;
const ALIKE = 0.5;

/** What one version of a message says: its text, the labels of its form, and its buttons with what they cost. */
const linesOf = ({ content, form, buttons }) => [
  (content?.text ?? content?.caption ?? content?.desc ?? content?.name)?.slice(0, LETTERS),
  ...(form ?? []).flatMap((field) => [field.label, ...(field.options ?? []).map((one) => one.label)]),
  ...(buttons ?? []).flat().map((one) => [one.text, one.amount].filter(Boolean).join(" ")),
];

/** What a message says in all its versions: a button that is gone because it was pressed or paid says nothing. @param {any[]} versions */
export const saidIn = (versions) => [...new Set(versions.flatMap(linesOf).filter(Boolean))].join("\n");

/** The same, as a pass tells it. @param {import("./story.js").Item} item */
export const saidByItem = ({ sent, edits }) => saidIn([sent, ...edits.map((edit) => edit.sent)]);

/**
 * The pairs of places in two lists, in their order, that are alike most when all are taken together.
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

/** How much of two messages is the same: 0 for nothing, 1 for all. @param {Set<string>} one @param {Set<string>} other */
const likeness = (one, other) => (2 * [...one].filter((word) => other.has(word)).length) / (one.size + other.size || 1);

/**
 * Which messages differ: of each one of now the place of the one of then in whose place it stands, or null for none;
 * and those of then that nothing stands for, by the place of now before which they are missing.
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
  // What a branch that goes on hasn't said yet is not missing.
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
