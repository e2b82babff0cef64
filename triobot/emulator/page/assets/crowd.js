// The panel of the crowd: random people use the bot in a separate process; the first broken promise ends the crowd.

import { number } from "./format.js";
import { act } from "./link.js";
import { copy, tried } from "./sheet.js";
import { draw as put, html, Icon, IconButton, root } from "./ui.js";
import { t } from "./words.js";
import { listen, world } from "./world.js";

// The settings of a crowd: label, least value, default.
const FIELDS = {
  chats: ["crowdPeople", 1, 20],
  hours: ["crowdHours", 1, 12],
  groups: ["crowdGroups", 0, 0],
  crashes: ["crowdKills", 0, 3],
  faults: ["crowdFaults", 0, 3],
  seed: ["crowdSeed", 0, 0],
};

/** @param {{travel: (first: any) => void}} hooks `travel(first)` shows the notch of the first broken promise */
export function crowdPanel({ travel }) {
  const element = root("div", { class: "panel-body crowd-panel" });
  const plan = Object.fromEntries(Object.entries(FIELDS).map(([name, [, , usual]]) => [name, Number(usual)]));
  // Whether this page started the crowd; if so, the page opens the broken promise by itself.
  let mine = false;

  const letIn = () =>
    tried(async () => {
      mine = true;
      await act("crowd", plan);
    });

  function over(crowd) {
    if (crowd.state === "held") plan.seed += 1; // the next crowd should act differently
    draw();
    if (mine && crowd.opens && element.isConnected) travel(crowd.first);
    mine = false;
  }

  function draw() {
    put(world.bot ? crowdSection() : html`<p class="hint">${t("noProcess")}</p>`, element);
  }

  function crowdSection() {
    const crowd = world.crowd ?? { state: "none" };
    const runs = crowd.state === "runs";
    return html`
      <section class="trick crowd">
        <h2>${t("crowd")}</h2>
        <p class="hint">${t("crowdHint")}</p>
        <form
          onsubmit=${(event) => {
            event.preventDefault();
            letIn();
          }}
        >
          <div class="crowd-fields">
            ${Object.entries(FIELDS).map(
              ([name, [words, least]]) => html`
                <label class="field" key=${name}>
                  <span>${t(words)}</span>
                  <input
                    type="number"
                    class="digits"
                    dir="ltr"
                    required
                    min=${least}
                    max="10000"
                    value=${plan[name]}
                    disabled=${runs}
                    oninput=${(event) => (plan[name] = event.target.valueAsNumber)}
                  />
                </label>
              `,
            )}
          </div>
          ${!runs && html`<button type="submit" class="button primary wide-button"><${Icon} name="people" size=${18} />${t("letIn")}</button>`}
        </form>
        ${runs && progress(crowd)} ${!runs && crowd.state !== "none" && result(crowd)}
      </section>
    `;
  }

  const progress = (crowd) => html`
    <progress aria-label=${t("crowd")} max="1" value=${crowd.part}></progress>
    <p role="status">${t("crowdRuns", { part: t("percent", { count: number(Math.round(crowd.part * 100)) }) })}</p>
    <button type="button" class="button wide-button" onclick=${() => tried(() => act("crowd/stop"))}>${t("sendHome")}</button>
  `;

  function result(crowd) {
    const never = Object.entries(crowd.never ?? {});
    const names = never.map(([name, begins]) => `${name.split(".").pop()} (${begins})`).join(", ");
    const heads = { held: t("crowdHeld"), broke: t("crowdBroke"), stopped: t("crowdStopped"), failed: t("crowdFailed", { why: crowd.failed }) };
    const facts = crowd.acts !== undefined && ["acts", "events", "messages"].map((name) => [name, number(crowd[name])]);
    const visits = Object.entries(crowd.routes ?? {}).filter(([, count]) => count);
    const visited = visits.map(([name, count]) => `${name.split(".").pop()} ${number(count)}`).join(", ");
    return html`
      <div class=${`crowd-result ${crowd.state}`}>
        <p role="status"><b>${heads[crowd.state]}</b></p>
        ${(crowd.broken ?? []).map((words) => html`<p class="promise broken" key=${words}><span aria-hidden="true">✗</span><bdi>${words}</bdi></p>`)}
        ${(crowd.kept ?? []).map((words) => html`<p class="promise" key=${words}><span aria-hidden="true">✓</span><bdi>${words}</bdi></p>`)}
        ${crowd.opens &&
        html`<button type="button" class="button primary wide-button" onclick=${() => travel(crowd.first)}><${Icon} name="travel" size=${18} />${t("whereBroke")}</button>`}
        ${facts && html`<p class="faint digits">${t("crowdFacts", Object.fromEntries(facts))}</p>`}
        ${visited && html`<p class="faint">${t("crowdVisited", { names: visited })}</p>`}
        ${names && html`<p class="faint">${t("crowdNever", { names })}</p>`}
        ${crowd.again && html`<div class="again"><code dir="ltr">${crowd.again}</code><${IconButton} name="copy" title=${t("crowdAgain")} onclick=${() => copy(crowd.again)} /></div>`}
      </div>
    `;
  }

  listen((fresh) => {
    const news = fresh.crowd && world.crowd;
    if (news && news.state !== "runs" && news.state !== "none" && !fresh.all) over(news);
    if (element.isConnected && (fresh.all || fresh.crowd || fresh.bot)) draw();
  });
  return { element, draw };
}
