// The panel of faults: kill the bot's process, advance the clock, refuse connections, disturb operations and events.

import { number } from "./format.js";
import { act } from "./link.js";
import { toast, tried } from "./sheet.js";
import { draw as put, Field, html, Icon, root } from "./ui.js";
import { t } from "./words.js";
import { listen, world } from "./world.js";

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

const does = (path, given, said) => () => tried(async () => (await act(path, given), said && toast(said)));

const Section = ({ title, children }) => html`<section class="trick"><h2>${title}</h2>${children}</section>`;

const Chip = ({ words, picture = "", kind = "", onclick }) => html`
  <button type="button" class=${`chip ${kind}`} onclick=${onclick}>${picture && html`<${Icon} name=${picture} size=${15} />`}${words}</button>
`;

function Process() {
  if (!world.bot) return html`<${Section} title=${t("process")}><p class="hint">${t("noProcess")}</p><//>`;
  return html`
    <${Section} title=${t("process")}>
      <div class="chips">
        <${Chip} words=${t("killNow")} picture="bolt" kind="danger kill" onclick=${does("bot/kill", {}, t("killed"))} />
        <${Chip} words=${t("restart")} picture="replay" kind="restart" onclick=${does("bot/restart", {}, "")} />
      </div>
      <p class="hint">${t("killHint")}</p>
    <//>
  `;
}

const Time = () => html`
  <${Section} title=${t("time")}>
    <div class="chips">
      ${SPANS.map((seconds) => html`<${Chip} words=${`+${t(`span_${seconds}`)}`} onclick=${does("clock", { seconds }, t("timePassed"))} />`)}
    </div>
    ${world.machine.ahead > 0 && html`<p class="hint">${t("ahead", { minutes: number(Math.round(world.machine.ahead / 60_000)) })}</p>`}
  <//>
`;

const Outage = () => html`
  <${Section} title=${t("outage")}>
    <div class="chips">
      ${[5, 30].map(
        (seconds) => html`<${Chip} words=${t("refuseFor", { seconds: number(seconds) })} onclick=${does("outage", { seconds }, t("refusing"))} />`,
      )}
    </div>
    <div class="chips"><${Chip} words=${t("forgetUploads")} onclick=${does("forget-uploads", {}, t("forgotten"))} /></div>
  <//>
`;

/** The form for planned faults; `chosen` keeps the choices for the next drawing. */
function Faults({ title, by, names, effects, chosen }) {
  const plan = (effect) => () =>
    tried(() => act("faults", { [by]: chosen.name, ...effect, ...(chosen.times && { times: Number(chosen.times) }) }));
  return html`
    <${Section} title=${title}>
      <div class="pair">
        <${Field} label=${t("next")}>
          <select onchange=${(event) => (chosen.name = event.target.value)}>
            ${names.map((one) => html`<option value=${one} selected=${one === chosen.name}>${one === "*" ? t("any") : one}</option>`)}
          </select>
        <//>
        <${Field} label=${t("howOften")}>
          <select onchange=${(event) => (chosen.times = event.target.value)}>
            ${["1", "3", ""].map(
              (one) => html`<option value=${one} selected=${one === chosen.times}>${one ? t("times", { count: number(Number(one)) }) : t("always")}</option>`,
            )}
          </select>
        <//>
      </div>
      <div class="chips">
        ${Object.entries(effects).map(([words, effect]) => html`<${Chip} key=${words} words=${t(words)} kind=${`fault-${words}`} onclick=${plan(effect)} />`)}
      </div>
    <//>
  `;
}

const Planned = ({ faults }) => html`
  <${Section} title=${t("planned")}>
    <ul class="planned">${faults.map((fault) => html`<li>${inWords(fault)}</li>`)}</ul>
    <div class="chips"><${Chip} words=${t("allWell")} kind="all-well" onclick=${does("faults/clear", {}, "")} /></div>
  <//>
`;

function inWords(fault) {
  const name = fault.operation ?? fault.type;
  const effects = Object.entries({ ...FAILURES, ...ACCIDENTS }).filter(([, effect]) =>
    Object.entries(effect).every(([key, value]) => fault[key] === value),
  );
  const times = fault.times === null ? t("always") : t("times", { count: number(fault.times) });
  return `${name === "*" ? t("any") : name}: ${effects.map(([words]) => t(words)).join(", ")} (${times})`;
}

const Switches = ({ flags }) => html`
  <details class="trick">
    <summary><h2>${t("switches")}</h2></summary>
    <p class="hint">${t("switchesHint")}</p>
    ${flags.map(
      ([name, value]) => html`
        <label class="check" key=${name}>
          <input type="checkbox" checked=${value} onchange=${(event) => tried(() => act("switches", { [name]: event.target.checked }))} />
          <code>${name}</code>
        </label>
      `,
    )}
  </details>
`;

export function mischiefPanel() {
  const element = root("div", { class: "panel-body mischief" });
  const [operations, events] = [{ name: "*", times: "1" }, { name: "*", times: "1" }];

  function draw() {
    const { faults, switches, operations: known } = world.machine;
    put(
      html`
        <${Process} /><${Time} /><${Outage} />
        <${Faults} title=${t("operationFaults")} by="operation" names=${["*", ...known]} effects=${FAILURES} chosen=${operations} />
        <${Faults} title=${t("eventFaults")} by="type" names=${EVENTS} effects=${ACCIDENTS} chosen=${events} />
        ${faults.length > 0 && html`<${Planned} faults=${faults} />`}
        <${Switches} flags=${Object.entries(switches).filter(([, value]) => typeof value === "boolean")} />
      `,
      element,
    );
  }

  listen((fresh) => {
    if (element.isConnected && (fresh.all || fresh.machine || fresh.bot)) draw();
  });
  return { element, draw };
}
