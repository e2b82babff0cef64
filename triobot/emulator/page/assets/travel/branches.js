// The open branches of the time travel; one of them is shown beside the recorded chat. Tests are saved here, too.

import { act } from "../link.js";
import { confirm, tried } from "../sheet.js";
import { number } from "../format.js";
import { html, Part } from "../ui.js";
import { t } from "../words.js";
import { branchPane } from "./branch.js";
import { keepAsTest } from "./kept.js";
import { closePass, openPass } from "./passes.js";

// Kinds of inputs. A branch at a notch with such an input starts one notch earlier: the developer gives another input.
const CAME = new Set(["message", "press", "form", "payment", "join", "leave", "event", "signal", "timeout"]);

/** A holder for a pane's element. */
class Held extends Part {
  // The same function for all drawings: Preact calls a new `ref` function in each drawing.
  take = (holder) => void holder?.replaceChildren(/** @type {any} */ (this.props).element);

  render() {
    return html`<div class="branch-holder" ref=${this.take}></div>`;
  }
}

/** @param {{draw: () => void, shows: () => void, taken: () => void, then: () => {words: string[], elsewhere: Set<string>}}} hooks `then` returns the recorded words, for the comparison */
export function branchesBeside({ draw, shows, taken, then }) {
  /** @type {import("./branch.js").Pane[]} */
  const open = [];
  /** @type {import("./branch.js").Pane | undefined} */
  let shown;
  let opening = 0;
  // Number of the newest opening, or of the last `closeAll`: a branch of an older opening is closed at once.
  let turn = 0;

  /** Open a branch and show the branch. @param {(asks: string[]) => Promise<any>} ask @param {(look: any) => string} title @param {boolean} compares whether the recorded words are compared @param {string[]} asks steps that ask the developer instead of returning the recorded result */
  async function begin(ask, title, compares = false, asks = []) {
    if (opening) return;
    const mine = (turn += 1);
    opening = mine;
    draw();
    await tried(async () => {
      const instead = (pane, step) => (throwAway(pane), begin(ask, title, compares, [...asks, step]));
      const look = await ask(asks);
      const pane = branchPane(look, title(look), { throwAway, keep, taken, instead, then: compares ? then : null });
      if (mine !== turn) return pane.close();
      open.push(pane);
      shown = pane;
      shows();
    });
    if (opening === mine) opening = 0;
    draw();
    if (mine === turn) shown?.focus();
  }

  function throwAway(pane) {
    const place = open.indexOf(pane);
    open.splice(place, 1);
    pane.close();
    if (shown === pane) shown = open.at(-1);
    draw();
  }

  const keep = (pane) => keepAsTest(`travel/branch/${pane.id}/test`, {});

  /** @param {import("./state.js").Pass} pass @param {import("./state.js").Notch} notch */
  function at(pass, notch) {
    const isReplaced = notch.n > 0 && CAME.has(notch.in?.what ?? "");
    const from = isReplaced ? notch.n - 1 : notch.n;
    // The branch begins earlier if a payment is under way at the notch.
    const titleOf = (look) => t("branchAt", { n: number(look.notch < from ? look.notch : notch.n) });
    return begin((asks) => act(`travel/pass/${pass.id}/branch`, { notch: from, asks }), titleOf);
  }

  /** Open a branch at a notch of a new pass, under the present code. @param {import("./state.js").Pass} pass @param {number} notch */
  const again = (pass, notch) =>
    begin(
      async (asks) => {
        const fresh = await openPass({ chat: pass.chat_id, conversation: pass.conversation, crowd: pass.crowd }, () => true);
        try {
          return await act(`travel/pass/${fresh?.id}/branch`, { notch, asks });
        } finally {
          if (fresh) closePass(fresh.id);
        }
      },
      (look) => t("branchAgain", { n: number(look.notch) }),
    );

  const answers = (chat, conversation) => begin((asks) => act(`travel/${chat}/${conversation}/answers`, { asks }), () => t("branchAnswers"), true);

  function column() {
    if (!open.length && !opening) return null;
    return html`
      <section class="column column-branch" id="travel-branch">
        ${open.length > 1 &&
        html`
          <div class="branches" role="tablist" aria-label=${t("branches")}>
            ${open.map(
              (pane) => html`
                <button
                  type="button"
                  key=${pane.id}
                  role="tab"
                  aria-selected=${String(pane === shown)}
                  aria-controls="travel-branch"
                  onclick=${() => ((shown = pane), draw())}
                >
                  ${pane.title}
                </button>
              `,
            )}
          </div>
        `}
        ${opening > 0 && html`<p class="note" role="status">${t("branchOpens")}</p>`}
        ${shown && html`<${Held} key=${shown.id} element=${shown.element} />`}
      </section>
    `;
  }

  function closeAll() {
    turn += 1;
    opening = 0;
    for (const pane of open.splice(0)) pane.close();
    shown = undefined;
  }
  addEventListener("pagehide", closeAll);

  return {
    at,
    again,
    answers,
    column,
    closeAll,
    gone: () => shown?.gone ?? new Set(),
    isOpen: () => open.length > 0 || opening > 0,
    holds: (place) => open.some((pane) => pane.holds(place)),
    /** Return whether the branches may be closed; if a branch was used, ask. */
    mayClose: async () =>
      !open.some((pane) => pane.isTouched) || Boolean(await confirm(t("throwAllAway"), t("throwAllAwayWhy"), t("throwAway"))),
    /** Save a test of the branch that contains `place`; without such a branch, a test of the notch. */
    test(pass, notch, place) {
      const pane = open.find((one) => one.holds(place));
      return pane ? keep(pane) : keepAsTest(`travel/pass/${pass.id}/test`, { notch: notch.n });
    },
  };
}
