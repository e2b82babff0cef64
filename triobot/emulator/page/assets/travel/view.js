// The time travel through a conversation: chat, code and values at a notch, and the time line below. The view only
// shows a pass (see passes, state, story); nothing is sent to the chat.

import { lookText, Refused, writePlace } from "../link.js";
import { save } from "../saving.js";
import { copy, toast, tried } from "../sheet.js";
import { draw as put, html, root } from "../ui.js";
import { t } from "../words.js";
import { branchesBeside } from "./branches.js";
import { centre, Chat, Crash } from "./chat.js";
import { Code } from "./code.js";
import { finder } from "./find.js";
import { Head, nameOf, Waiting } from "./head.js";
import { Lanes } from "./lanes.js";
import { ofLine, ofMessage } from "./links.js";
import { closePass, conversationsOf, isGone, offeredIn, openPass, readAll, readSources } from "./passes.js";
import { turnPath } from "./path.js";
import { moneyWords, notchWords, spoken, waitWords } from "./say.js";
import { changed, isMended, Journal, partingOf, ranBranch, saysNow } from "./state.js";
import { saidByItem } from "./differ.js";
import { sentThen } from "./sent.js";
import { outboxAt, storyOf } from "./story.js";
import { Tasks } from "./tasks.js";
import { TimeLine, windowOf } from "./timeline.js";
import { Values } from "./values.js";

// Milliseconds from the news of a conversation to the next reading.
const AGAIN = 700;
// Milliseconds before the address is written: a browser limits the number of address changes in a time.
const WRITTEN_AFTER = 150;
const TABS = ["chat", "branch", "code", "values"];
/** @typedef {import("./links.js").Wanted} Wanted */
const GOES_ON = new Set(["waits", "works"]);

/** @param {{onClose: () => void, onRequest: ((choose: import("./links.js").Choose) => void) | null, back?: string}} hooks */
export function travelView({ onClose, onRequest, back = "backToNow" }) {
  const element = root("section", { class: "travel", "aria-label": t("travel") });
  element.hidden = true;
  // The document gets the keys: the focused element may have disappeared with its notch.
  document.addEventListener("keydown", (event) => place && !document.querySelector(".cover") && onKey(event));
  element.addEventListener("travel-draw", draw);
  /** The shown conversation; `crowd` is the crowd's first broken promise, or null for any other conversation. @type {{chat: number, conversation: number, crowd: any} | null} */
  let place = null;
  /** @type {Journal | null} */
  let journal = null;
  /** @type {Map<number, {text: string, lines: [string, string][][]}>} */
  let sources = new Map();
  let problem = "";
  let cur = 0;
  let fresh = 0;
  let saved = false;
  const sent = sentThen();
  let tab = "chat";
  /** The choices by clicks; a frame or failure stays chosen until another notch is shown. @type {{branch: string | null, depth: number | null, failure: any}} */
  let chosen = { branch: null, depth: null, failure: null };
  /** @type {{from: number, to: number} | undefined} */
  let shown;
  /** The search in the loaded notches; `others` are the next conversations to search. @type {Wanted | null} */
  let wanted = null;
  /** @type {number[]} */
  let others = [];
  let again = 0;
  let written = 0;
  // Number of the newest reading: answers to older readings are ignored.
  let turn = 0;
  let told = { version: -1, ordered: /** @type {any[]} */ ([]), items: /** @type {any[]} */ ([]), byOperation: new Map() };
  // The source shown last; a notch without frames still shows this source.
  let lastSource = 0;
  const find = finder();
  const path = turnPath(() => draw());
  /** The commands that the server offers. @type {string[]} */
  let offered = [];
  /** The chat's conversations. @type {any[]} */
  let listed = [];
  let offering = Promise.resolve();
  /** @type {ReturnType<typeof branchesBeside> | null} */
  let branching = null;

  function close() {
    if (!place) return;
    turn += 1;
    clearTimeout(again);
    clearTimeout(written);
    if (journal) closePass(journal.pass.id);
    branching?.closeAll();
    place = journal = null;
    element.hidden = true;
    put(null, element);
    writePlace(null);
    onClose();
  }

  /** Close the view; ask first if used branches would be lost. */
  async function leave() {
    if (!branching || (await branching.mayClose())) close();
  }

  /**
   * Show a conversation at `notch`; without `notch`, at the last notch, or where code and journal differ.
   * @param {number} chat @param {number} conversation @param {number | null} notch @param {boolean} answers whether the present code gets the answers @param {any} crowd
   */
  async function open(chat, conversation, notch = null, answers = false, crowd = null) {
    wanted = null;
    await show(chat, conversation, notch, answers, crowd);
  }

  /** Show the notch that `what` finds, in the first of these conversations with such a notch. @param {number} chat @param {number[]} conversations @param {Wanted} what */
  async function seekIn(chat, [conversation, ...more], what) {
    wanted = what;
    others = more;
    await show(chat, conversation);
  }

  async function show(chat, conversation, /** @type {number | null} */ notch = null, answers = false, crowd = null) {
    if (journal) closePass(journal.pass.id);
    branching?.closeAll();
    offered = [];
    if (place?.chat !== chat) listed = [];
    tab = "chat";
    place = { chat, conversation, crowd };
    journal = null;
    problem = "";
    fresh = 0;
    saved = false;
    sent.forget();
    told = { version: -1, ordered: [], items: [], byOperation: new Map() };
    sources = new Map();
    element.hidden = false;
    writePlace({ ...place, notch });
    draw();
    const loaded = load(notch);
    offering = offer(answers);
    await loaded;
    focusSlider();
  }

  /** Read which commands the server offers. @param {boolean} answers whether to give the recorded answers to the present code */
  async function offer(answers) {
    const mine = place;
    if (!mine) return;
    const { conversations, can = [] } = await offeredIn(mine.chat).catch(() => ({ conversations: [], can: [] }));
    if (mine !== place) return;
    const shows = () => (tab = "branch");
    const taken = () => (close(), toast(t("tookPlace")));
    const then = () => ({ words: bubbles().map(saidByItem), elsewhere: sent.byOthers(story()) });
    if (can.length) branching ??= branchesBeside({ draw, shows, taken, then });
    offered = can;
    listed = conversations;
    if (answers && can.includes("answers")) branching?.answers(mine.chat, mine.conversation);
    draw();
  }

  const mayBranch = () => branching !== null && offered.includes("branch");
  const mayKeep = () => branching !== null && offered.includes("test");

  /** Show another conversation of the chat; ask first if used branches would be lost. @param {number} conversation */
  async function choose(conversation) {
    if (place && (!branching || (await branching.mayClose()))) open(place.chat, conversation);
    else draw();
  }

  /** Like `seekIn`, in the shown chat; ask first if used branches would be lost. @param {number[]} conversations @param {Wanted} what */
  const seekThere = async (conversations, what) =>
    place && (!branching || (await branching.mayClose())) && seekIn(place.chat, conversations, what);

  /** Show a conversation's first notch since `at`, or its last notch. @param {number} conversation @param {number} at */
  function seekAt(conversation, at) {
    const find = (all) => all.find((one) => one.t >= at) ?? all.at(-1);
    if (conversation === place?.conversation) go(find(story().ordered)?.n);
    else seekThere([conversation], { at, find });
  }

  function answerDifferently() {
    const notch = journal?.notch(cur);
    if (journal && notch) branching?.at(journal.pass, notch);
  }

  const mayAnswer = () => branching !== null && offered.includes("answers") && !place?.crowd;

  /** Give the recorded answers to the present code. */
  const answerAgain = () => place && branching?.answers(place.chat, place.conversation);

  function keepAsTest() {
    const notch = journal?.notch(cur);
    if (journal && notch) branching?.test(journal.pass, notch, document.activeElement);
  }

  const saveIt = () => tried(async () => save(`conversation-${place?.conversation}.html`, await lookText(`travel/pass/${journal?.pass.id}/page`), "text/html"));

  const focusSlider = () =>
    /** @type {HTMLElement | null} */ (element.querySelector("input[type=range]"))?.focus({ preventScroll: true });

  /** Read the conversation again. The screen keeps the old pass until the first notches of the new pass arrive. @param {number | null} notch */
  async function load(notch) {
    if (!place) return;
    const mine = (turn += 1);
    const isWanted = () => mine === turn;
    try {
      const pass = await openPass(place, isWanted);
      if (!pass || !isWanted()) return;
      const next = new Journal(pass);
      const old = journal;
      if (notch === null) notch = Math.min(next.last, partingOf(pass)?.notch ?? next.last);
      const at = Math.max(next.first, Math.min(next.last, notch));
      let isShown = false;
      await Promise.all([
        readSources(pass, Object.keys(pass.sources).map(Number), sources, isWanted).then(draw),
        offering.then(async () => {
          if (place?.crowd || !offered.includes("answers") || !(await sent.read(pass, isWanted))) return;
          const all = await conversationsOf(pass.chat_id).catch(() => listed);
          if (!isWanted()) return;
          listed = all;
          told.version = -1;
          draw();
        }),
        readAll(
          next,
          () => (isShown ? cur : at),
          () => {
            if (!isShown) {
              isShown = true;
              if (old) closePass(old.pass.id);
              // The code was saved since the view was opened.
              if (old && old.pass.code !== pass.code) saved = true;
              if (old && next.last > old.last) fresh += next.last - old.last;
              journal = next;
              told.version = -1;
              shown = undefined;
              if (!old) go(at);
            }
            const found = wanted?.find(story().items);
            if (found) {
              wanted = null;
              go(found.at);
            }
            draw();
          },
          isWanted,
        ),
      ]);
      if (!isWanted()) return;
      if (wanted && others.length && place) return seekIn(place.chat, others, wanted);
      if (wanted) toast(t("notInAny"));
      wanted = null;
      draw();
    } catch (error) {
      if (!isWanted()) return;
      if (isGone(error) && journal) return load(cur);
      if (!(error instanceof Refused)) throw error;
      // The shown notches stay valid; later news may cause another reading.
      if (journal) return;
      problem = error.message;
      draw();
    }
  }

  /** Show a line that ran in the turn, in a source without a frame at the notch. @param {number} source @param {number} line */
  async function showRan(source, line) {
    const [mine, pass, at] = [turn, journal?.pass, cur];
    const isWanted = () => mine === turn && at === cur;
    await tried(() => readSources(pass, [source], sources, isWanted));
    if (!isWanted()) return;
    chosen = { ...chosen, failure: null };
    const frames = [...(look()?.frames ?? []), [source, line, ""]];
    chosen = { ...chosen, failure: { failure: { frames, v: [] }, place: frames.length - 1 } };
    draw();
  }

  /** After news that may concern the conversation or the code, read the conversation again in a moment. */
  function take(news) {
    if (!place || place.crowd || !journal) return;
    const isCode = Boolean(news.bot) || Boolean(news.held);
    if (!(GOES_ON.has(journal.pass.state) || isCode)) return;
    if (!(isCode || news.chats.has(place.chat) || news.inside || news.bot)) return;
    clearTimeout(again);
    again = setTimeout(() => load(cur), AGAIN);
  }

  function go(n) {
    if (!journal) return;
    const next = Math.max(journal.first, Math.min(journal.last, n));
    if (next !== cur) chosen = { branch: chosen.branch, depth: null, failure: null };
    cur = next;
    if (cur === journal.last) fresh = 0;
    clearTimeout(written);
    written = setTimeout(write, WRITTEN_AFTER);
    draw();
  }

  const write = () => {
    clearTimeout(written);
    if (place) writePlace({ ...place, notch: journal ? cur : null });
  };

  /** Show the next notch that fits, forwards (`step` 1) or backwards (-1). */
  function seek(step, fits) {
    if (!journal) return;
    for (let n = cur + step; n >= journal.first && n <= journal.last; n += step) {
      const notch = journal.notch(n);
      if (notch && fits(notch)) return go(n);
    }
  }

  const isPersons = (notch) => notch.dot === "person" || notch.in?.what === "payment";

  function inTheSameLine(step) {
    const at = look();
    const all = at && journal ? (journal.stood.get(`${at.source}:${at.lit}`) ?? []) : [];
    const next = step > 0 ? all.find((n) => n > cur) : all.findLast((n) => n < cur);
    if (next !== undefined) go(next);
  }

  const copyLink = () => (write(), copy(location.href));

  function onKey(event) {
    const field = event.target;
    const isRange = field instanceof HTMLInputElement && field.type === "range";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      event.preventDefault();
      if (field.matches("input[type=search]") || branching?.holds(field)) return focusSlider();
      return leave();
    }
    if (!isRange && field.matches("input, textarea, select")) return;
    const onwards = document.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const acts = {
      Home: () => journal && go(journal.first),
      End: () => journal && go(journal.last),
      "[": () => inTheSameLine(-1),
      "]": () => inTheSameLine(1),
      l: !place?.crowd && copyLink,
      p: journal && path.toggle,
      b: mayBranch() && answerDifferently,
      a: mayAnswer() && answerAgain,
      t: mayKeep() && keepAsTest,
      "/": () => /** @type {HTMLElement | null} */ (element.querySelector("input[type=search]"))?.focus(),
    };
    const isArrow = event.key === "ArrowLeft" || event.key === "ArrowRight";
    // The arrows step everywhere except in text fields and menus.
    if (isArrow) {
      const step = event.key === onwards ? 1 : -1;
      acts[event.key] = () => (event.shiftKey ? seek(step, isPersons) : go(cur + step));
    }
    const work = acts[event.key] ?? acts[event.key.toLowerCase()];
    if (!work) return;
    event.preventDefault();
    work();
  }

  /** Return the story of the loaded notches; computed once for each loaded window. */
  function story() {
    if (journal && told.version !== journal.version) {
      const ordered = journal.inOrder();
      const items = storyOf(ordered, place ? nameOf(place.chat) : "");
      const byOperation = new Map(items.filter((item) => item.sent).map((item) => [item.sent?.id, item]));
      told = { version: journal.version, ordered, items, byOperation };
    }
    return told;
  }

  const bubbles = () => story().items.filter((item) => item.kind === "bot" && !item.failed);

  /** Return the keys of the messages that the shown branch words differently or doesn't send. @returns {Set<string>} */
  function otherwise() {
    const gone = branching?.gone() ?? new Set();
    return new Set(gone.size ? bubbles().filter((_, place) => gone.has(place)).map((item) => item.key) : []);
  }

  const lineOf = (source, line) =>
    sources
      .get(source)
      ?.lines[line - 1]?.map(([, text]) => text)
      .join("") ?? "";

  /** Return the shown notch and state, the chosen branch and frame, and the current line; null until loaded. */
  function look() {
    const notch = journal?.notch(cur);
    const state = journal?.state(cur);
    if (!journal || !notch || !state) return null;
    const before = cur > journal.first ? journal.state(cur - 1) : null;
    const ran = ranBranch(notch, state);
    const branch = chosen.branch !== null && chosen.branch in state.frames ? chosen.branch : ran;
    const divergence = partingOf(journal.pass);
    const failure = chosen.failure;
    const frames = failure ? failure.failure.frames : (state.frames[branch] ?? []);
    const depth = failure ? failure.place : Math.min(chosen.depth ?? Infinity, frames.length - 1);
    const parted = divergence !== null && cur === Math.min(journal.last, divergence.notch) && !failure ? divergence : null;
    const isShown = chosen.depth === null;
    const [source = lastSource, lit = 0] = frames[depth] ?? [];
    lastSource = source;
    const at = isShown && parted?.line ? { source: parted.line[0], lit: parted.line[1] } : { source, lit };
    const parting = parted && { isShown, recorded: parted.what, mended: isMended(journal.pass), line: parted.line && lineOf(...parted.line).trim() };
    const variables = failure ? (failure.failure.v[depth] ?? {}) : (state.vars[branch]?.[depth] ?? {});
    return { notch, state, before, branch, frames, depth, variables, parting, ...at };
  }

  function say(notch) {
    const paid = story().items.find((item) => item.at === notch.n && item.money);
    if (paid?.money) return moneyWords(paid.money);
    return journal ? notchWords(notch, journal.pass, (id) => story().byOperation.get(id)) : "";
  }

  function draw() {
    if (!place) return;
    const head = html`<${Head}
      chat=${place.chat}
      crowd=${place.crowd}
      pass=${journal?.pass} cur=${cur}
      conversation=${place.conversation}
      all=${place.crowd ? [] : listed}
      choose=${choose}
      field=${journal && find.field(journal, sources, cur, go)}
      back=${back} leave=${leave}
      copyLink=${!place.crowd && copyLink}
      keep=${journal && mayKeep() && keepAsTest}
      branch=${journal && mayBranch() && answerDifferently}
      again=${journal && mayAnswer() && answerAgain}
      saved=${saved}
      savePage=${location.protocol !== "file:" && saveIt}
    />`;
    put(html`${head}${journal ? body() : html`<${Waiting} problem=${problem} tryAgain=${() => place && open(place.chat, place.conversation, null, false, place.crowd)} />`}`, element);
    centre(element, ".then", ".now") || centre(element, ".then", ":scope > :not(.later)");
    centre(element, ".code", ".line.lit");
  }

  function body() {
    const at = look();
    if (!journal || !at) return html`<div class="travel-waits"><p role="status">${t("loadingBegins")}</p></div>`;
    const { pass } = journal;
    const { notch, state, before, branch, frames, depth, variables } = at;
    const { items, ordered } = story();
    const words = say(notch);
    const parked = state.parked.find((one) => one.branch === branch);
    const isInnermost = depth === frames.length - 1;
    shown = windowOf(journal, cur, shown);
    const changes = chosen.failure ? new Map() : changed(before, state, branch, depth);
    const money = ordered.filter((one) => one.n <= cur && one.dot === "money");
    const choose = (depth) => {
      chosen = { ...chosen, depth, failure: null };
      draw();
    };
    const chooseTask = (name) => {
      chosen = { branch: name, depth: null, failure: null };
      draw();
    };
    const tasks = html`<${Tasks} frames=${state.frames} branch=${branch} choose=${chooseTask} />`;
    const beside = branching?.column() ?? null;
    const visible = tab === "branch" && !beside ? "chat" : tab;
    const crash = pass.failures.map(
      (failure, place) => html`<${Crash}
        failure=${failure}
        sources=${pass.sources}
        chosen=${chosen.failure}
        choose=${(one) => {
          go(journal?.last);
          chosen = { ...chosen, failure: one };
          draw();
        }}
        lineOf=${lineOf}
        again=${place === 0 && mayBranch() && (() => branching?.again(pass, pass.notches - 2))}
      />`,
    );
    return html`
      <div class=${`travel-columns show-${visible} ${beside ? "with-branch" : ""}`}>
        <${Chat} items=${sent.withOthers(items, ordered)} cur=${cur} go=${go} crash=${crash} others=${otherwise()} says=${saysNow(pass)} />
        ${beside}
        <${Code}
          frames=${frames}
          sources=${pass.sources}
          source=${at.source}
          lines=${sources.get(at.source)?.lines ?? []}
          lit=${at.lit}
          depth=${depth}
          choose=${choose}
          behind=${parked && !chosen.failure ? `${parked.kind.replace("send ", "")} #${parked.id}` : ""}
          note=${parked && isInnermost && !at.parting && !chosen.failure ? `${t("waitsFor")} ${waitWords(parked)}` : ""}
          stood=${journal.stood}
          cur=${cur}
          go=${go}
          path=${path} ran=${path.lines(pass, cur, at.source)} elsewhere=${path.elsewhere(cur, at.source)} show=${showRan}
          fired=${notch.line?.join(":")}
          branches=${tasks}
          parting=${at.parting}
        />
        <${Values}
          notch=${notch}
          words=${words}
          state=${state}
          variables=${variables}
          changes=${changes}
          name=${frames[depth]?.[2]}
          began=${journal.began}
          outbox=${outboxAt(items, cur)}
          money=${money.map((one) => ({ key: one.n, words: say(one) }))}
          lineOf=${lineOf}
          sent=${items.filter((item) => item.at === cur && item.messageId !== null)}
          chat=${pass.chat_id}
          request=${place?.crowd ? null : onRequest}
          wrote=${place?.crowd?.wrote?.[cur]?.[0]}
        />
      </div>
      <${TimeLine}
        journal=${journal}
        version=${journal.version}
        cur=${cur}
        shown=${shown}
        words=${words}
        valueText=${spoken(notch, journal.last, words)}
        dot=${notch.dot}
        go=${go}
        fresh=${fresh}
        parts=${pass.divergence !== null}
        lanes=${html`<${Lanes} all=${listed} conversation=${pass.conversation} now=${notch.t} beside=${sent.beside(listed)} seek=${seekAt} find=${(line) => seekThere(listed.map((one) => one.conversation), line.kind ? ofLine(line) : ofMessage(line))} />`}
        keys=${[["P", t("pathOfTurn")], ...(mayBranch() ? [["B", t("answerDifferently")]] : []), ...(mayAnswer() ? [["A", t("again")]] : []), ...(mayKeep() ? [["T", t("keepTest")]] : [])]}
        tabs=${html`
          <div class="travel-tabs" role="tablist" aria-label=${t("travel")}>
            ${TABS.filter((name) => name !== "branch" || beside).map(
              (name) => html`
                <button
                  type="button"
                  role="tab"
                  aria-selected=${String(name === visible)}
                  aria-controls=${`travel-${name}`}
                  onclick=${() => ((tab = name), draw())}
                >
                  ${t(`tab${name[0].toUpperCase()}${name.slice(1)}`)}
                </button>
              `,
            )}
          </div>
        `}
      />
    `;
  }

  return { element, open, seekIn, close, take, isOpen: () => place !== null };
}
