// What can go wrong, on demand: to the bot's process, to time, to operations, and to events on their way.

import { fill, h, icon, keepFocus } from "./dom.js";
import { number } from "./format.js";
import { act } from "./link.js";
import { field, toast, tried } from "./sheet.js";
import { t } from "./words.js";
import { listen, world } from "./world.js";

const OPERATIONS = [
  "*",
  "sendMessage",
  "editMessage",
  "deleteMessage",
  "sendAction",
  "answerCallback",
  "upload",
  "invoice",
  "invoice/verify",
  "invoice/inquiry",
  "payment/verify",
  "payment/inquiry",
];
const EVENTS = [
  "*",
  "join",
  "text",
  "image",
  "triggerButton",
  "submitForm",
  "payCallback",
  "invoiceCallback",
  "leave",
];

const FAILURES = {
  late: { latency: 3 },
  error500: { status: 500 },
  error502: { status: 502 },
  error429: { status: 429 },
  error403: { status: 403 },
  error400: { status: 400 },
  answerDropped: { drop: "after" },
  notDone: { drop: "before" },
};
const ACCIDENTS = {
  eventTwice: { duplicates: 1 },
  eventLate: { delay: 5 },
  eventBehind: { behind: true },
  eventLost: { drop: true },
};
const SPANS = [60, 600, 3_600, 86_400];

export function mischiefPanel() {
  const element = h("div.panel-body.mischief");

  const draw = () => keepFocus(element, fillAll);

  function fillAll() {
    fill(
      element,
      processSection(),
      timeSection(),
      outageSection(),
      faultSection("operation", OPERATIONS, FAILURES),
      faultSection("type", EVENTS, ACCIDENTS),
      pendingSection(),
      switchSection(),
    );
  }

  const section = (title, ...content) => h("section.trick", {}, h("h3", {}, title), content);
  const does = (path, given, said) => () => tried(async () => (await act(path, given), said && toast(said)));
  const chip = (words, onclick, kind = "") =>
    h("button.chip", { type: "button", class: kind, onclick }, words);

  function processSection() {
    if (!world.bot) return section(t("process"), h("p.hint", {}, t("noProcess")));
    return section(
      t("process"),
      h(
        "div.chips",
        {},
        chip([icon("bolt", 15), t("killNow")], does("bot/kill", {}, t("killed")), "danger kill"),
        chip([icon("replay", 15), t("restart")], does("bot/restart", {}, ""), "restart"),
      ),
      h("p.hint", {}, t("killHint")),
    );
  }

  function timeSection() {
    return section(
      t("time"),
      h(
        "div.chips",
        {},
        SPANS.map((seconds) => chip(`+${t(`span_${seconds}`)}`, does("clock", { seconds }, t("timePassed")))),
      ),
      world.machine.ahead > 0 &&
        h("p.hint", {}, t("ahead", { minutes: number(Math.round(world.machine.ahead / 60_000)) })),
    );
  }

  function outageSection() {
    return section(
      t("outage"),
      h(
        "div.chips",
        {},
        [5, 30].map((seconds) =>
          chip(t("refuseFor", { seconds: number(seconds) }), does("outage", { seconds }, t("refusing"))),
        ),
      ),
      h("div.chips", {}, chip(t("forgetUploads"), does("forget-uploads", {}, t("forgotten")))),
    );
  }

  // Kept between drawings: a fault that is used up redraws the panel, and must not undo a choice.
  const choices = {};

  function faultSection(key, names, effects) {
    const chosen = (choices[key] ??= { name: "*", times: "1" });
    const name = h(
      "select",
      { onchange: () => (chosen.name = name.value) },
      names.map((one) =>
        h("option", { value: one, selected: one === chosen.name }, one === "*" ? t("any") : one),
      ),
    );
    const times = h(
      "select",
      { onchange: () => (chosen.times = times.value) },
      ["1", "3", ""].map((one) =>
        h(
          "option",
          { value: one, selected: one === chosen.times },
          one ? t("times", { count: number(Number(one)) }) : t("always"),
        ),
      ),
    );
    const plan = (effect) => () => {
      const given = { [key]: name.value, ...effect };
      if (times.value) given.times = Number(times.value);
      tried(() => act("faults", given));
    };
    return section(
      t(key === "operation" ? "operationFaults" : "eventFaults"),
      h("div.pair", {}, field(t("next"), name), field(t("howOften"), times)),
      h(
        "div.chips",
        {},
        Object.entries(effects).map(([words, effect]) => chip(t(words), plan(effect), `fault-${words}`)),
      ),
    );
  }

  function pendingSection() {
    const faults = world.machine.faults;
    if (!faults.length) return null;
    return section(
      t("planned"),
      h(
        "ul.planned",
        {},
        faults.map((fault) => h("li", {}, inWords(fault))),
      ),
      h("div.chips", {}, chip(t("allWell"), does("faults/clear", {}, ""), "all-well")),
    );
  }

  function inWords(fault) {
    const name = fault.operation ?? fault.type;
    const effects = Object.entries({ ...FAILURES, ...ACCIDENTS }).filter(([, effect]) =>
      Object.entries(effect).every(([key, value]) => fault[key] === value),
    );
    const times = fault.times === null ? t("always") : t("times", { count: number(fault.times) });
    return `${name === "*" ? t("any") : name}: ${effects.map(([words]) => t(words)).join(", ")} (${times})`;
  }

  function switchSection() {
    const flags = Object.entries(world.machine.switches).filter(([, value]) => typeof value === "boolean");
    return h(
      "details.trick",
      { ontoggle: (event) => (choices.switches = event.target.open), open: Boolean(choices.switches) },
      h("summary", {}, h("h3", {}, t("switches"))),
      h("p.hint", {}, t("switchesHint")),
      flags.map(([name, value]) =>
        h(
          "label.check",
          {},
          h("input", {
            type: "checkbox",
            checked: value,
            onchange: (event) => tried(() => act("switches", { [name]: event.target.checked })),
          }),
          h("code", {}, name),
        ),
      ),
    );
  }

  listen((fresh) => {
    if (element.isConnected && (fresh.all || fresh.machine || fresh.bot)) draw();
  });
  return { element, draw };
}
