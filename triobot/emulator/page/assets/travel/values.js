// The column beside the code: the chosen frame's variables with changes; waits, open blocks, outbox, and more.

import { exactClock, longwatch, number } from "../format.js";
import { html } from "../ui.js";
import { t } from "../words.js";
import { editing, posting, preceding, sending } from "./links.js";
import { brief, textOf, waitWords } from "./say.js";

// Kinds of inputs that code caused, not a person.
const BY_CODE = new Set(["signal", "call"]);

const nothing = () => html`<p class="none">${t("nothing")}</p>`;

const Card = ({ title, more = "", children }) => html`
  <section class="value-card"><h3>${title} ${more && html`<span dir="ltr">${more}</span>`}</h3>${children}</section>
`;

function Variables({ variables, changes, isThin }) {
  const names = Object.keys(variables);
  if (isThin && !names.length) return html`<p class="none">${t("notHere")}</p>`;
  if (!names.length) return nothing();
  return html`
    <dl class="variables" dir="ltr">
      ${names.map(
        (name) => html`
          <div key=${name} class=${changes.has(name) ? "changed" : ""}>
            <dt>${name}</dt>
            <dd>
              ${changes.get(name) !== undefined && html`<del>${changes.get(name)}</del> `}<span>${variables[name]}</span>
            </dd>
          </div>
        `,
      )}
    </dl>
  `;
}

function BlockRow({ block, at, began, lineOf }) {
  const code = block.line ? lineOf(block.line[0], block.line[1]).trim().replace(/:$/, "") : block.words;
  const left = block.due === null ? null : Math.max(0, (block.due - at) / 1000);
  const whole = block.due === null || began === undefined ? 0 : (block.due - began) / 1000;
  return html`
    <div class="block-then">
      <div class="value-row"><code dir="ltr">${brief(code, 60)}</code>
        <span class="faint digits">${block.ended ? t("blockEnded") : block.due === null ? t("noDeadline") : t("endsAt", { at: exactClock(block.due) })}</span>
      </div>
      ${left !== null &&
      !block.ended &&
      html`
        <div class="left"><i style=${{ "inline-size": `${whole > 0 ? Math.min(100, (100 * left) / whole) : 100}%` }}></i></div>
        <span class="faint digits">${t("timeLeft", { time: longwatch(left) })}</span>
      `}
    </div>
  `;
}

const rawOf = (notch) =>
  JSON.stringify({ ...(notch.in?.event ? { in: notch.in.event } : {}), ...(notch.out?.length ? { out: notch.out.map((one) => one.raw ?? one) } : {}) }, null, 2);

/** The notch's record in words, and in JSON on a click. `request`, if any, shows requests in the panel. */
function RecordCard({ notch, words, sent, chat, request, wrote }) {
  const raw = rawOf(notch);
  const edits = (notch.out ?? []).filter((one) => one.kind === "edit" && one.text !== undefined);
  return html`
    <${Card} title=${t("record", { n: number(notch.r) })}>
      <p>${words}</p>
      <p class="faint" dir="ltr">${[notch.k, notch.id && `#${notch.id}`, notch.in?.what].filter(Boolean).join(" · ")}</p>
      ${notch.in?.fields &&
      html`<dl class="variables" dir="ltr">
        ${Object.entries(notch.in.fields).map(([name, value]) => html`<div><dt>${name}</dt><dd>${String(value)}</dd></div>`)}
      </dl>`}
      ${(notch.out ?? []).map((sent) => html`<p class="faint" dir="ltr">→ ${sent.kind} #${sent.id}</p>`)}
      ${request &&
      (notch.in?.event || notch.in?.what === "payment") &&
      html`<button type="button" class="chip" onclick=${() => request(posting(chat, notch))}>${t("eventsRequest")}</button>`}
      ${request &&
      BY_CODE.has(notch.in?.what) &&
      html`<button type="button" class="chip" onclick=${() => request(preceding(notch))}>${t("eventBefore")}</button>`}
      ${wrote && (BY_CODE.has(notch.in?.what) || notch.dot === "crash") && html`<p>${t("eventBefore")}: <bdi>${wrote}</bdi></p>`}
      ${(request ? sent : []).map(
        (item) => html`
          <button type="button" class="chip" key=${item.key} onclick=${() => request(sending(chat, item.messageId))}>${t("itsRequest")} #${item.sent.id}</button>
        `,
      )}
      ${(request ? edits : []).map(
        (one) => html`
          <button type="button" class="chip" key=${one.id} onclick=${() => request(editing(chat, one.message_id, one.text))}>${t("itsRequest")} #${one.id}</button>
        `,
      )}
      ${raw !== "{}" &&
      html`<details><summary>${t("recordRaw")}</summary><pre dir="ltr" tabindex="0">${raw}</pre></details>`}
    <//>
  `;
}

/** The column of the values. @param {any} given */
export function Values({ notch, words, state, variables, changes, name, began, outbox, money, lineOf, sent, chat, request, wrote }) {
  const data = Object.entries(state.data);
  return html`
    <section class="column column-values" id="travel-values">
      <div class="side-cards" tabindex="0" role="region" aria-label=${t("tabValues")}>
        <${Card} title=${t("variables")} more=${name && `${t("inFunction")} ${name}()`}>
          <${Variables} variables=${variables} changes=${changes} isThin=${notch.thin} />
        <//>
        <${Card} title=${t("waitsFor")}>
          ${state.parked.length
            ? state.parked.map(
                (one) => html`
                  <div class="value-row">
                    <span><bdi>${waitWords(one)}</bdi></span>
                    <code dir="ltr">${one.kind.replace("send ", "")} #${one.id}</code>
                  </div>
                  ${one.due !== null && one.due !== undefined && html`<span class="faint digits">${t("endsAt", { at: exactClock(one.due) })} · ${t("timeLeft", { time: longwatch(Math.max(0, one.due - notch.t) / 1000) })}</span>`}
                `,
              )
            : html`<p class="none">${t("nothing")}</p>`}
        <//>
        ${state.blocks.length > 0 &&
        html`<${Card} title=${t("openBlocks")}>
          ${state.blocks.map((block) => html`<${BlockRow} key=${block.id} block=${block} at=${notch.t} began=${began.get(block.id)} lineOf=${lineOf} />`)}
        <//>`}
        <${Card} title=${t("outboxThen")}>
          ${outbox.length
            ? outbox.map((item) => html`<div class="value-row"><span><bdi>${brief(textOf(item.sent), 60) || t(item.sent.content?.type ?? "file")}</bdi></span><code dir="ltr">${item.sent.kind} #${item.sent.id}</code></div>`)
            : nothing()}
        <//>
        ${data.length > 0 &&
        html`<${Card} title=${t("keptInChat")}>
          <dl class="variables" dir="ltr">${data.map(([key, text]) => html`<div key=${key}><dt>${key}</dt><dd>${text}</dd></div>`)}</dl>
        <//>`}
        ${money.length > 0 &&
        html`<${Card} title=${t("money")}>${money.map((one) => html`<p key=${one.key}>${one.words}</p>`)}<//>`}
        <${RecordCard} notch=${notch} words=${words} sent=${sent} chat=${chat} request=${request} wrote=${wrote} />
      </div>
    </section>
  `;
}
