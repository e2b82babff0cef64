// The head of the view: the conversation's chat and state, and the commands.

import { day, exactClock, number } from "../format.js";
import { html, Icon } from "../ui.js";
import { t } from "../words.js";
import { ownerOf, world } from "../world.js";
import { shortRoute } from "./choose.js";
import { buildAt, isMended, partingOf, saysNow } from "./state.js";

const KINDS = { waits: "good", ended: "good", interrupted: "good", left: "good", stopped: "good", works: "good", mended: "good", parked: "warn" };

/** Return the chat's name. @param {number} chatId */
export function nameOf(chatId) {
  const chat = world.chats.get(chatId);
  return chat ? (chat.name ?? ownerOf(chat)?.name ?? String(chat.id)) : String(chatId);
}

const stateOf = (pass) => (isMended(pass) ? "mended" : pass.state);

/** Return why the conversation hangs or is parked; false for any other conversation. */
const bannerOf = (pass) =>
  !pass.hangs
    ? pass.state === "parked" && pass.because
    : [pass.hangs.words, pass.hangs.line && `${pass.sources[pass.hangs.line[0]]?.name}:${pass.hangs.line[1]}`].filter(Boolean).join(" · ");

/** Whether the present code differs from the journal, or words a message differently. */
const goesOtherwise = (pass) => many(pass) > 0 || partingOf(pass) !== null;
const many = (pass) => Object.keys(saysNow(pass)).length;

/** Return the words for the build that ran the notch. */
const builtAt = (pass, cur) => {
  const { known, since = null } = buildAt(pass, cur) ?? {};
  return known && since !== null ? t("ranUnder", { when: `${day(since, Date.now())} ${exactClock(since)}` }) : t("ranUnknown");
};

const Button = ({ picture, words, title = words, label = words, kind = "", onclick }) => html`
  <button type="button" class=${`button ${kind}`} title=${title} aria-label=${label} onclick=${onclick}>
    <${Icon} name=${picture} size=${16} /><span>${words}</span>
  </button>
`;

/** The menu of the chat's conversations. */
const Switcher = ({ all, conversation, choose }) => html`
  <select class="switcher" aria-label=${t("travelChoose")} value=${String(conversation)} onchange=${(event) => choose(Number(event.target.value))}>
    ${all.map(
      (one) => html`
        <option key=${one.conversation} value=${String(one.conversation)} selected=${one.conversation === conversation}>
          ${`\u2068${shortRoute(one.route)}\u2069 ${number(one.conversation)} · ${exactClock(one.started_at)} · ${t(`state_${one.state}`)}`}
        </option>
      `,
    )}
  </select>
`;

/** @param {any} given */
export function Head({ chat, crowd, pass, cur, conversation, all, choose, field, back, leave, copyLink, keep, branch, again, saved, savePage }) {
  const isOnly = all.length < 2;
  const banner = pass && bannerOf(pass);
  const onceMore = again && html`<button type="button" class="chip" onclick=${again}>${t("again")}</button>`;
  // Only code that can be loaded can get the recorded answers.
  const isSaved = again && saved && !pass.broken;
  // The name of a crowd's chat isn't looked up by id: another chat of the page may have the same id.
  const name = !crowd ? nameOf(chat) : crowd.person ? t("crowdOther", { name: crowd.person }) : t("crowd");
  return html`
    <header class="travel-head">
      <${Button} picture="back" words=${t(back)} onclick=${leave} />
      <h1>${t("travel")}${" "}
        ${pass && html`<small>${isOnly ? t("travelOf", { route: shortRoute(pass.route), number: number(pass.conversation), name }) : name}</small>`}
      </h1>
      ${!isOnly && html`<${Switcher} all=${all} conversation=${conversation} choose=${choose} />`}
      ${pass && html`<span class=${`tag ${KINDS[stateOf(pass)] ?? "bad"}`} title=${stateOf(pass) === "diverged" ? t("hint_diverged") : undefined}>${t(`state_${stateOf(pass)}`)}</span>`}
      ${buildAt(pass, cur) && html`<span class="tag">${builtAt(pass, cur)}</span>`}
      <span class="tag read-only">${t(pass?.hidden ? "valuesHidden" : "nothingSent")}</span>
      <span class="spring"></span>
      ${field}
      ${copyLink && html`<${Button} picture="link" words=${t("copyLink")} onclick=${copyLink} />`}
      ${savePage && html`<${Button} picture="save" words=${t("savePage")} onclick=${savePage} />`}
      ${keep && html`<${Button} picture="check" words=${t("keepTest")} title=${t("keepTestHere")} onclick=${keep} />`}
      ${again && html`<${Button} picture="replay" words=${t("again")} title=${t("againHere")} label=${t("againWhy")} onclick=${again} />`}
      ${branch &&
      html`<${Button} picture="branch" words=${t("answerDifferently")} title=${t("answerHere")} kind="primary" onclick=${branch} />`}
    </header>
    ${isSaved && html`<p class="travel-banner" role="status">${t(goesOtherwise(pass) ? "goesOtherwise" : "codeSaved")} ${onceMore}</p>`}
    ${many(pass) > 0 && !pass.broken && html`<p class="travel-banner" role="note">${t("rewordedSince", { count: number(many(pass)) })} ${!isSaved && onceMore}</p>`}
    ${pass?.broken && html`<p class="travel-banner" role="note"><bdi>${t("brokenNow", { why: pass.broken })}</bdi></p>`}
    ${banner && html`<p class="travel-banner" role="note"><bdi>${banner}</bdi></p>`}
  `;
}

/** The view until the conversation is loaded: the progress, or the problem. @param {{problem: string, tryAgain: () => void}} given */
export function Waiting({ problem, tryAgain }) {
  if (problem) {
    return html`
      <div class="travel-waits">
        <p role="alert">${t("travelFailed", { why: problem })}</p>
        <button type="button" class="button" onclick=${tryAgain}>${t("tryAgain")}</button>
      </div>
    `;
  }
  return html`
    <div class="travel-waits">
      <progress aria-label=${t("loadingBegins")}></progress>
      <p role="status">${t("loadingBegins")}</p>
      <div class="skeleton" aria-hidden="true"><i></i><i></i><i></i></div>
    </div>
  `;
}
