// The complete state at any notch, computed from the changes of a pass's notches. Pure: no page, no texts.

/** Maximum number of notches in one request. */
export const WINDOW = 256;
// Number of notches from one kept state to the next: `state` needs at most so many steps.
const EVERY = 64;

/**
 * @typedef {[source: number, line: number, name: string]} Frame
 * @typedef {{branch: string, id: string, kind: string, due: number | null, words: string}} Parked
 * @typedef {{id: string, due: number | null, ended: boolean, line: [number, number] | null, words: string}} Block
 * @typedef {{
 *   what: string, from?: number | null, name?: string, text?: string, label?: string, message_id?: number,
 *   letters?: number, content?: any, fields?: Record<string, string>, event?: any, block?: string,
 *   taken?: boolean, money?: Money
 * }} Came
 * @typedef {{what: string, name: string, amount?: number, currency?: string, code?: number | null}} Money
 * @typedef {{
 *   id: string, kind: string, chat_id?: number, text?: string, letters?: number, content?: any, message_id?: number, to?: boolean,
 *   buttons?: {text: string, kind: string, amount?: number, currency?: string}[][],
 *   keyboard?: {label: string, value: string}[][] | null,
 *   form?: {type: string, name?: string, label?: string, value?: string | null}[] | null,
 *   line?: [number, number], raw?: any, reworded?: boolean, unknown?: boolean
 * }} Sent
 * @typedef {{
 *   n: number, t: number, r: number, id: string, k: string, dot: string, line?: [number, number] | null, whole?: boolean, thin?: boolean,
 *   in?: Came, out?: Sent[], done?: [string, number | null][], failed?: string[],
 *   f?: Record<string, Frame[] | null>, v?: Record<string, Record<string, string | null>[] | null>,
 *   parked?: Parked[], blocks?: Block[], data?: Record<string, string | null>, gone?: string[]
 * }} Notch
 * @typedef {{
 *   error: string, text: string, frames: Frame[], v: Record<string, string>[], causes?: Failure[], because?: string, step?: string
 * }} Failure
 * @typedef {{
 *   id: string, chat_id: number, conversation: number, route: string, kind: string, state: string,
 *   because: string | null, records: number, notches: number, first: number, code: string, started_at: number,
 *   sources: {id: number, name: string, path: string, lines: number}[], marks: {t: number, what: string}[],
 *   divergence: {notch: number, operation: string, what: string, line: [number, number] | null} | null,
 *   hangs: {words: string, line: [number, number] | null} | null, failures: Failure[],
 *   builds?: {first: number, since: number | null, known: boolean}[],
 *   now?: {divergence: Pass["divergence"], says: Record<string, string | null>} | null,
 *   broken?: string, crowd?: any,
 *   hidden?: boolean
 * }} Pass
 * @typedef {{
 *   frames: Record<string, Frame[]>, vars: Record<string, Record<string, string>[]>, parked: Parked[],
 *   blocks: Block[], data: Record<string, string>
 * }} State
 */

/** Return the difference of code and journal; null if there is none. @param {Pass} pass */
export const partingOf = ({ divergence, now }) => divergence ?? now?.divergence ?? null;

/** Whether a failed conversation continues under the present code: code and journal differ at the recorded end. @param {Pass} pass */
export const isMended = (pass) =>
  pass.because === "failed" && partingOf(pass)?.operation === "0" && partingOf(pass)?.line !== null;

/** Return the present code's words of the reworded messages, by operation id. @param {Pass | undefined} pass */
export const saysNow = (pass) => pass?.now?.says ?? {};

/** Return the build that ran notch `n`; undefined if the present code ran all notches. @param {Pass | undefined} pass @param {number} n */
export const buildAt = (pass, n) => (pass?.now ? pass.builds?.findLast((one) => one.first <= n) : undefined);

/** @type {State} */
const NOTHING = { frames: {}, vars: {}, parked: [], blocks: [], data: {} };

/** Return `before` with the changes; a null value removes a name. */
function over(before, changes) {
  const after = { ...before };
  for (const [name, value] of Object.entries(changes ?? {})) {
    if (value === null) delete after[name];
    else after[name] = value;
  }
  return after;
}

/**
 * Return the state after a notch.
 * @param {State} before
 * @param {Notch} notch
 * @returns {State}
 */
export function fold(before, notch) {
  const from = notch.whole ? NOTHING : before;
  const vars = { ...from.vars };
  for (const [branch, list] of Object.entries(notch.v ?? {}))
    vars[branch] = (list ?? []).map((changes, depth) => over(vars[branch]?.[depth], changes));
  const frames = over(from.frames, notch.f);
  for (const branch of notch.gone ?? []) delete frames[branch];
  for (const branch of Object.keys(vars)) if (!(branch in frames)) delete vars[branch];
  return {
    frames,
    vars,
    parked: notch.parked ?? from.parked,
    blocks: notch.blocks ?? from.blocks,
    data: over(from.data, notch.data),
  };
}

/** The loaded notches of one pass. */
export class Journal {
  /** @param {Pass} pass */
  constructor(pass) {
    this.pass = pass;
    this.first = pass.first;
    this.last = Math.max(pass.first, pass.notches - 1);
    /** @type {Map<number, Notch>} */
    this.notches = new Map();
    /** @type {Map<number, State>} */
    this.kept = new Map();
    /** Time of the first notch with a block, by the block's id. @type {Map<string, number>} */
    this.began = new Map();
    /** Notches by current line, as "source:line". @type {Map<string, number[]>} */
    this.stood = new Map();
    this.version = 0;
  }

  /** Add a window of notches; the window's first notch is a complete state. @param {Notch[]} notches */
  take(notches) {
    for (const notch of notches) this.notches.set(notch.n, notch);
    this.version += 1;
    this.#index();
  }

  /** @param {number} n */
  notch(n) {
    return this.notches.get(n) ?? null;
  }

  get isWhole() {
    return this.notches.size > this.last - this.first;
  }

  /** Return the loaded notches in order. */
  inOrder() {
    return [...this.notches.values()].sort((one, other) => one.n - other.n);
  }

  /** Return the next missing range in the window of `n`; null if `n` is loaded. @param {number} n */
  missing(n) {
    if (this.notches.has(n)) return null;
    let from = Math.max(this.first, n - (n % WINDOW));
    while (this.notches.has(from)) from += 1;
    let to = Math.min(from + WINDOW, this.last + 1);
    for (let at = from; at < to; at += 1) if (this.notches.has(at)) to = at;
    return { from, to };
  }

  /** Return the newest missing range; null if all notches are loaded. */
  nextMissing() {
    for (let n = this.last; n >= this.first; n -= 1) if (!this.notches.has(n)) return this.missing(n);
    return null;
  }

  /** Return the state after a notch; null while a needed notch isn't loaded. @param {number} n */
  state(n) {
    const steps = [];
    let at = n;
    let state = NOTHING;
    for (; ; at -= 1) {
      const kept = this.kept.get(at);
      if (kept) {
        state = kept;
        break;
      }
      const notch = this.notches.get(at);
      if (!notch) return null;
      steps.push(notch);
      if (notch.whole) break;
    }
    for (const notch of steps.reverse()) {
      state = fold(state, notch);
      if (notch.n % EVERY === 0) this.kept.set(notch.n, state);
    }
    return state;
  }

  #index() {
    this.stood.clear();
    /** @type {Record<string, string>} */
    const tops = {};
    for (const notch of this.inOrder()) {
      for (const block of notch.blocks ?? [])
        if (!((this.began.get(block.id) ?? Infinity) <= notch.t)) this.began.set(block.id, notch.t);
      for (const [branch, frames] of Object.entries(notch.f ?? {})) {
        const top = frames?.at(-1);
        const place = top ? `${top[0]}:${top[1]}` : "";
        if (notch.whole && tops[branch] === place) continue;
        tops[branch] = place;
        if (!place) continue;
        const all = this.stood.get(place);
        if (!all) this.stood.set(place, [notch.n]);
        else if (all.at(-1) !== notch.n) all.push(notch.n);
      }
    }
  }
}

/**
 * Return the earlier values of a frame's changed variables; undefined for a new variable.
 * @param {State | null} before
 * @param {State} after
 * @param {string} branch
 * @param {number} depth
 * @returns {Map<string, string | undefined>}
 */
export function changed(before, after, branch, depth) {
  const name = after.frames[branch]?.[depth]?.[2];
  const isSame = before !== null && before.frames[branch]?.[depth]?.[2] === name;
  const old = isSame ? (before.vars[branch]?.[depth] ?? {}) : {};
  const changes = new Map();
  if (before === null) return changes;
  for (const [variable, text] of Object.entries(after.vars[branch]?.[depth] ?? {}))
    if (old[variable] !== text) changes.set(variable, old[variable]);
  return changes;
}

/** Return the branch that a notch ran: the first with changed frames or variables, or the main branch, or the first. */
export function ranBranch(notch, state) {
  const names = Object.keys(state.frames);
  const moved = notch.whole ? [] : [...Object.keys(notch.f ?? {}), ...Object.keys(notch.v ?? {})];
  return moved.find((branch) => names.includes(branch)) ?? (names.includes("") || !names.length ? "" : names[0]);
}
