// The notes of a branch: its questions to the developer, and outcomes that the chat's people don't see.

import { exactClock, money, number } from "../format.js";
import { confirm } from "../sheet.js";
import { html, Icon } from "../ui.js";
import { t } from "../words.js";

/** Parse a typed value as JSON; return null for an empty field, and other input as text. */
function valueOf(typed) {
  try {
    return typed.trim() === "" ? null : JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** A waiting step: the developer returns a value, raises an error, or lets the step really run. */
function AskedStep({ asked, tries, place }) {
  const { step, name, args, recorded } = asked;
  const give = (event, given) => {
    event.preventDefault();
    const typed = Object.fromEntries(new FormData(event.target));
    tries("step", { step, ...given(typed) });
  };
  const run = async () => {
    const words = html`<p>${t("stepRunsWhy")}</p><p dir="ltr"><code>${name}</code></p>`;
    if (await confirm(t("stepRuns"), words, t("stepRunsYes"), { place })) tries("step", { step, runs: true });
  };
  return html`
    <section class="note asks" aria-label=${t("stepAsks", { step: name })}>
      <h3>${t("stepAsks", { step: name })}</h3>
      <p class="faint">${recorded ? t("stepFailedThen", { error: [recorded.kind, recorded.text].filter(Boolean).join(": ") }) : t("stepAsksWhy")}</p>
      <pre dir="ltr" tabindex="0">${name}(${args.join(", ")})</pre>
      <form onsubmit=${(event) => give(event, ({ value }) => ({ returns: valueOf(value) }))}>
        <input name="value" dir="ltr" aria-label=${t("stepValue")} />
        <button type="submit" class="button primary">${t("stepReturns")}</button>
      </form>
      <form onsubmit=${(event) => give(event, ({ kind, text }) => ({ raises: kind, text }))}>
        <input name="kind" dir="ltr" required value=${recorded?.kind ?? ""} aria-label=${t("stepErrorKind")} placeholder="ValueError" />
        <input name="text" dir="auto" value=${recorded?.text ?? ""} aria-label=${t("stepErrorText")} />
        <button type="submit" class="button">${t("stepRaises")}</button>
      </form>
      <button type="button" class="button" onclick=${run}>${t("stepRuns")}</button>
    </section>
  `;
}

/** The progress of a branch in which new code gets the recorded answers. */
function Answers({ told, tries, takePlace }) {
  const { left, stopped } = told.answers;
  const way = (way) => () => tries("answers", { way });
  return html`
    <section class=${`note ${stopped ? "asks" : ""}`} aria-label=${t("branchAnswers")}>
      <p role="status">
        ${stopped ? html`<b>${t("answersStopped", { why: stopped })}</b> ${t("answersLeft", { count: number(left) })}` : t("answersGiven")}
      </p>
      <div class="chips">
        ${left > 0 &&
        html`
          <button type="button" class="button primary" onclick=${way("go_on")}>${t("answersGoOn")}</button>
          <button type="button" class="button" onclick=${way("insist")}>${t("answersInsist")}</button>
          <button type="button" class="button" onclick=${way("leave_out")}>${t("answersLeaveOut")}</button>
        `}
        ${told.can_take &&
        html`<button type="button" class=${`button ${left ? "" : "primary"}`} onclick=${takePlace}>${t("takePlace")}</button>`}
      </div>
      ${told.cannot_take && html`<p class="faint">${t("cannotTake", { why: told.cannot_take })}</p>`}
    </section>
  `;
}

const Invoice = ({ bill }) => html`
  <section class="note bill" aria-label=${bill.description}>
    <div class="bill-words">
      <b dir="auto">${bill.description}</b><span>${money(bill.amount, bill.currency)}</span>
    </div>
    <button type="button" class="button" onclick=${bill.decline}>${t("declined")}</button>
    <button type="button" class="button primary" onclick=${bill.pay}>${t("pay")}</button>
  </section>
`;

const Failure = ({ broke }) => html`
  <section class="note broke" aria-label=${broke.error}>
    <h3><${Icon} name="bolt" size=${15} /> <span dir="ltr">${broke.error}</span></h3>
    <pre dir="ltr" tabindex="0">${broke.text}</pre>
  </section>
`;

/** A list that a click opens. */
const Folded = ({ title, rows, open = false }) =>
  rows.length > 0 &&
  html`
    <details class="note" open=${open}>
      <summary>${title} <span class="faint digits">${number(rows.length)}</span></summary>
      <ul>
        ${rows.map((row) => html`<li>${row}</li>`)}
      </ul>
    </details>
  `;

const DoneStep = ({ done, instead }) => html`
  <code dir="ltr">${done.name}(…) → ${done.outcome}</code> <span class="faint">${t(`step_${done.how}`)}</span>
  ${done.how === "recorded" && html`<button type="button" class="chip" title=${t("stepInsteadWhy")} onclick=${() => instead(done.name)}>${t("stepInstead")}</button>`}
`;

const nameOf = (file) => String(file).split(/[\\/]/).at(-1);

/** Return the chat's tasks with their current lines. */
const standsIn = (stands) =>
  stands.flatMap((one) =>
    one.tasks.map((task) => {
      const at = task.positions.at(-1);
      const where = at ? `${nameOf(at.file)}:${at.line} · ${at.function}` : one.route;
      return html`<code dir="ltr">${where}</code>${at && html`<code class="faint" dir="ltr">${at.code}</code>`}`;
    }),
  );

/** The notes of a branch. @param {any} given */
export function Notes({ told, isLost, tries, takePlace, instead, bills, place }) {
  if (isLost) return html`<p class="note broke" role="alert">${t("branchGone")}</p>`;
  return html`
    ${told.answers && html`<${Answers} told=${told} tries=${tries} takePlace=${takePlace} />`}
    ${told.asked.map((asked) => html`<${AskedStep} key=${asked.step} asked=${asked} tries=${tries} place=${place} />`)}
    ${bills.map((bill) => html`<${Invoice} key=${bill.id} bill=${bill} />`)}
    ${told.failures.map((broke, place) => html`<${Failure} key=${`failure ${place}`} broke=${broke} />`)}
    <${Folded} title=${t("alarms")} open rows=${told.alarms.map((alarm) => html`<b dir="ltr">${alarm.kind}</b> <span dir="auto">${alarm.text}</span>`)} />
    <${Folded}
      title=${t("wouldLeave")}
      open
      rows=${told.left.map(
        (one) => html`<span class="digits faint">${exactClock(one.at)}</span> ${t(`leaves_${one.what}`)} → <bdi>${one.to}</bdi> <span dir="auto">${one.text}</span>`,
      )}
    />
    <${Folded}
      title=${t("stepsDone")}
      open=${told.steps.some((done) => done.how === "recorded")}
      rows=${told.steps.map((done) => html`<${DoneStep} done=${done} instead=${instead} />`)}
    />
    <${Folded} title=${t("branchStands")} rows=${standsIn(told.stands)} />
  `;
}
