// The bot's process: state, error and output.

import { clock, number } from "./format.js";
import { act } from "./link.js";
import { tried } from "./sheet.js";
import { draw as put, html, Icon, root } from "./ui.js";
import { t } from "./words.js";
import { isUnheard, listen, world } from "./world.js";

// A reader within so many pixels of the log's end stays at the end.
const AT_END = 40;

const restart = () => tried(() => act("bot/restart"));

function Process() {
  const { bot, waiting } = world;
  if (!bot) return html`<p class="hint">${t("noProcess")}</p>`;
  const facts = [
    bot.target,
    bot.pid && `pid ${bot.pid}`,
    t("startedTimes", { count: number(bot.starts) }),
    t("since", { at: clock(bot.since) }),
  ];
  return html`
    <div class="phase-line">
      <span class=${`light ${bot.phase}`}></span>
      <b>${t(`phase_${bot.phase}`)}</b>
      <span class="spring"></span>
      <button type="button" class="chip" onclick=${restart}><${Icon} name="replay" size=${15} />${t("restart")}</button>
    </div>
    <div class="faint digits parted">
      ${
        // The facts are isolated: one may run from left to right, and another from right to left.
        facts.filter(Boolean).map((fact, place) => [place > 0 && html`<span>·</span>`, html`<bdi>${fact}</bdi>`])
      }
    </div>
    ${waiting > 0 && html`<div class="faint">${t("eventsWait", { count: number(waiting) })}</div>`}
    ${bot.problem && html`<pre class="problem-words" dir="ltr">${bot.problem}</pre>`}
  `;
}

const Runtime = ({ told }) => html`
  ${figures(told).map(([name, value]) => html`<div class="figure" key=${name}><b class="digits">${value}</b><span>${name}</span></div>`)}
  ${(told.alarms ?? []).slice(-5).map((alarm) => html`<div class="alarm" dir="auto">${alarmWords(alarm)}</div>`)}
`;

/** The panel "Bot": the process, the bot's counts, and the process's output. */
export function machinePanel() {
  const element = root("div", { class: "panel-body machine" });
  const log = () => element.querySelector(".log");

  function draw() {
    const before = log();
    const isAtEnd = !before || before.scrollHeight - before.scrollTop - before.clientHeight < AT_END;
    put(
      html`
        <div class="process"><${Process} /></div>
        <div class="runtime"><${Runtime} told=${world.runtime} /></div>
        <pre class="log" dir="ltr" tabindex="0">${world.lines.join("\n")}</pre>
      `,
      element,
    );
    const after = log();
    if (after && isAtEnd) after.scrollTop = after.scrollHeight;
  }

  listen((fresh) => {
    const isNews = fresh.all || fresh.bot || fresh.waiting || fresh.runtime || fresh.lines.length;
    if (element.isConnected && isNews) draw();
  });
  return { element, draw };
}

// The counts that the page shows; the bot's other counts are for operators.
const FIGURES = ["live", "parked", "inbox", "unknown_effects"];
const OUTBOX = ["queued", "in_flight", "done", "failed", "retries", "possible_repeats"];

function figures(told) {
  const shown = (from, names) =>
    names
      .filter((name) => typeof from[name] === "number")
      .map((name) => [t(`figure_${name}`), number(from[name])]);
  return [...shown(told, FIGURES), ...shown(told.outbox ?? {}, OUTBOX)];
}

const alarmWords = ({ text, times }) =>
  times > 1 ? `${text} (${t("times", { count: number(times) })})` : text;

/** The warning above all views: the connection is lost, or the bot doesn't run. */
export function banner(openPanel) {
  const element = root("div", { role: "status" });
  let line = "connecting";

  function draw() {
    const [kind, words] = said();
    element.hidden = !kind;
    element.className = `banner ${kind}`;
    put(words, element);
  }

  /** Return the kind and the content of the warning, or ["", null]. @returns {[string, any]} */
  function said() {
    const { bot } = world;
    if (line === "lost" || line === "connecting")
      return ["lost", html`<span class="spinner"></span>${t(line === "lost" ? "lineLost" : "connecting")}`];
    if (bot?.phase === "failed") return ["failed", html`<${Failed} problem=${bot.problem} openPanel=${openPanel} />`];
    if (bot && ["killed", "stopped"].includes(bot.phase))
      return [
        "down",
        html`
          <${Icon} name="bolt" size=${18} />
          <span>${t(bot.phase === "killed" ? "botKilled" : "botStopped")}</span>
          <button type="button" class="button" onclick=${restart}>${t("restart")}</button>
        `,
      ];
    return isUnheard() ? ["down", html`<${Unheard} />`] : ["", null];
  }

  listen((fresh) => (fresh.all || fresh.bot || fresh.address || fresh.waiting) && draw());
  return {
    element,
    draw,
    line(state) {
      if (state === line) return;
      line = state;
      draw();
    },
  };
}

const Failed = ({ problem, openPanel }) => html`
  <div class="banner-words">
    <b>${t("botFailed")}</b>
    <pre dir="ltr">${problem.split("\n").slice(-8).join("\n") || problem.split("\n").findLast(Boolean)}</pre>
  </div>
  <button type="button" class="button" onclick=${openPanel}>${t("details")}</button>
`;

function Unheard() {
  const { address, reached_at: at } = world.address ?? {};
  return html`
    <${Icon} name="bolt" size=${18} />
    <span class="parted">
      ${t("noBotListens", { address })}
      ${typeof at === "number" && html`<span>${t("lastReached", { at: clock(at) })}</span>`}
      ${world.waiting > 0 && html`<span>${t("eventsWait", { count: number(world.waiting) })}</span>`}
    </span>
  `;
}
