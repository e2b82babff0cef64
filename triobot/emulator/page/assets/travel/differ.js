// What differs between what was said then and what is said now: messages, and the words in them. Pure.

const SPACE = /(\s+)/;
// Words of a message, or messages, that are compared one by one; more of them are one difference.
const MOST = 600;

/** What a message says, with its buttons. @param {any} message @returns {string} */
export const saidIn = (message) =>
  [message.content?.text ?? message.text ?? message.content?.caption ?? "", ...(message.buttons ?? []).flat().map((one) => [one.text, one.amount].filter(Boolean).join(" "))]
    .filter(Boolean)
    .join("\n");

/**
 * The pairs of places that hold the same in both lists, in their order, as many as there can be.
 * @param {string[]} then @param {string[]} now @returns {[number, number][]}
 */
function same(then, now) {
  if (then.length > MOST || now.length > MOST) return [];
  const lengths = Array.from({ length: then.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = then.length - 1; i >= 0; i -= 1)
    for (let j = now.length - 1; j >= 0; j -= 1)
      lengths[i][j] = then[i] === now[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  /** @type {[number, number][]} */
  const found = [];
  for (let i = 0, j = 0; i < then.length && j < now.length; ) {
    if (then[i] === now[j]) found.push([i++, j++]);
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) i += 1;
    else j += 1;
  }
  return found;
}

/**
 * Which messages differ: of each one of now the place of the one of then in whose place it stands, or null for none;
 * and the places of those of then that nothing stands for.
 * @param {string[]} then @param {string[]} now
 */
export function differing(then, now) {
  /** @type {Map<number, number | null>} */
  const others = new Map();
  /** @type {Set<number>} */
  const gone = new Set();
  let [i, j] = [0, 0];
  for (const [nextI, nextJ] of [...same(then, now), [then.length, now.length]]) {
    for (; j < nextJ; j += 1) {
      others.set(j, i < nextI ? i : null);
      if (i < nextI) gone.add(i++);
    }
    for (; i < nextI; i += 1) gone.add(i);
    [i, j] = [nextI + 1, nextJ + 1];
  }
  return { others, gone };
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
  for (const [nextI, nextJ] of [...same(old, fresh), [old.length, fresh.length]]) {
    if (i < nextI) told.push(["gone", old.slice(i, nextI).join("")]);
    if (j < nextJ) told.push(["new", fresh.slice(j, nextJ).join("")]);
    if (nextI < old.length) told.push(["same", old[nextI]]);
    [i, j] = [nextI + 1, nextJ + 1];
  }
  return told;
}
