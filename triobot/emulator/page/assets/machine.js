// The bot's process: how it is, why it failed, and what it writes.

import { fill, h, icon } from "./dom.js";
import { clock, number } from "./format.js";
import { act } from "./link.js";
import { tried } from "./sheet.js";
import { t } from "./words.js";
import { isUnheard, listen, world } from "./world.js";

/** The panel with the process's own words. */
export function machinePanel() {
  const head = h("div.process");
  const runtime = h("div.runtime");
  const log = h("pre.log", { dir: "ltr", tabindex: 0 });
  const element = h("div.panel-body.machine", {}, head, runtime, log);

  function drawHead() {
    const bot = world.bot;
    if (!bot) return fill(head, h("p.hint", {}, t("noProcess")));
    const facts = [
      bot.target,
      bot.pid && `pid ${bot.pid}`,
      t("startedTimes", { count: number(bot.starts) }),
      t("since", { at: clock(bot.since) }),
    ];
    const waits = world.waiting;
    fill(
      head,
      h(
        "div.phase-line",
        {},
        h("span.light", { class: bot.phase }),
        h("b", {}, t(`phase_${bot.phase}`)),
        h("span.spring"),
        h(
          "button.chip",
          { type: "button", onclick: () => tried(() => act("bot/restart")) },
          icon("replay", 15),
          t("restart"),
        ),
      ),
      // Words and names of two directions, each for itself.
      h(
        "div.faint.digits.parted",
        {},
        facts.filter(Boolean).map((fact, place) => [place > 0 && h("span", {}, "·"), h("bdi", {}, fact)]),
      ),
      waits > 0 && h("div.faint", {}, t("eventsWait", { count: number(waits) })),
      bot.problem && h("pre.problem-words", { dir: "ltr" }, bot.problem),
    );
  }

  function drawRuntime() {
    const facts = figures(world.runtime);
    const alarms = world.runtime.alarms ?? [];
    fill(
      runtime,
      facts.map(([name, value]) => h("div.figure", {}, h("b.digits", {}, value), h("span", {}, name))),
      alarms.slice(-5).map((alarm) => h("div.alarm", { dir: "auto" }, alarmWords(alarm))),
    );
  }

  function drawLog() {
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    fill(log, world.lines.join("\n"));
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  listen((fresh) => {
    if (!element.isConnected) return;
    if (fresh.all || fresh.bot || fresh.waiting) drawHead();
    if (fresh.all || fresh.runtime) drawRuntime();
    if (fresh.all || fresh.lines.length) drawLog();
  });
  return {
    element,
    draw() {
      drawHead();
      drawRuntime();
      drawLog();
      log.scrollTop = log.scrollHeight;
    },
  };
}

// What a developer looks for; whatever else the bot tells of itself is for its operator.
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

/** What has to be seen wherever one looks: that the line is cut, or that the bot doesn't run, and why. */
export function banner(openPanel) {
  const element = h("div.banner", { role: "status", hidden: true });
  let line = "connecting";

  function draw() {
    const bot = world.bot;
    element.className = "banner";
    element.hidden = false;
    if (line === "lost" || line === "connecting") {
      element.classList.add("lost");
      fill(element, h("span.spinner"), t(line === "lost" ? "lineLost" : "connecting"));
    } else if (bot && bot.phase === "failed") {
      element.classList.add("failed");
      const last = bot.problem.split("\n").filter(Boolean).pop() ?? "";
      fill(
        element,
        h(
          "div.banner-words",
          {},
          h("b", {}, t("botFailed")),
          h("pre", { dir: "ltr" }, bot.problem.split("\n").slice(-8).join("\n") || last),
        ),
        h("button.button", { type: "button", onclick: openPanel }, t("details")),
      );
    } else if (bot && ["killed", "stopped"].includes(bot.phase)) {
      element.classList.add("down");
      fill(
        element,
        icon("bolt", 18),
        h("span", {}, t(bot.phase === "killed" ? "botKilled" : "botStopped")),
        h("button.button", { type: "button", onclick: () => tried(() => act("bot/restart")) }, t("restart")),
      );
    } else if (isUnheard()) {
      const { address, reached_at: at } = world.address ?? {};
      element.classList.add("down");
      fill(
        element,
        icon("bolt", 18),
        h(
          "span.parted",
          {},
          t("noBotListens", { address }),
          at !== null && h("span", {}, t("lastReached", { at: clock(at) })),
          world.waiting > 0 && h("span", {}, t("eventsWait", { count: number(world.waiting) })),
        ),
      );
    } else {
      element.hidden = true;
    }
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
