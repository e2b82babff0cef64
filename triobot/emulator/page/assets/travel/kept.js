// The dialog of a saved test. The server writes the test and runs the test once; only a passing test is saved.

import { number } from "../format.js";
import { act } from "../link.js";
import { save } from "../saving.js";
import { copy, sheet } from "../sheet.js";
import { html } from "../ui.js";
import { Component } from "../vendor/preact.mjs";
import { t } from "../words.js";
import { botName } from "../world.js";

/** Save a notch or a branch as a test, and show the test with the result. @param {string} path @param {any} given */
export async function keepAsTest(path, given) {
  await sheet(t("keepTest"), (done) => html`<${Keeping} path=${path} given=${given} done=${() => done(undefined)} />`, { kind: "wide" });
}

class Keeping extends Component {
  state = {};

  /** @param {any} given @param {{kept?: any, problem?: string}} state */
  render({ done }, state) {
    return html`<${Kept} ...${state} done=${done} />`;
  }

  componentDidMount() {
    const { path, given } = /** @type {any} */ (this.props);
    act(path, given).then(
      (kept) => this.setState({ kept }),
      (error) => this.setState({ problem: error.message }),
    );
  }
}

const Text = ({ title, text }) => html`
  <h3>${title}</h3>
  <pre dir="ltr" tabindex="0" role="region" aria-label=${title}>${text}</pre>
`;

/** The test's state: being run, impossible, failed, late or saved. @param {{kept?: any, problem?: string, done: () => void}} given */
function Kept({ kept = null, problem = "", done }) {
  return html`
    <div class="sheet-body kept-test">
      ${problem && html`<p role="alert">${problem}</p>`}
      ${!kept && !problem && html`<progress aria-label=${t("keepTest")}></progress><p role="status">${t("testRuns")}</p>`}
      ${kept?.passed && html`<p class="well" role="status">${t(kept.path ? "testSaved" : "testPassed", { path: kept.path ?? "", took: number(Math.round(kept.took * 10) / 10) })}</p>`}
      ${kept?.unsaved && html`<p class="ill" role="alert">${t("testUnsaved", { why: kept.unsaved })}</p>`}
      ${kept?.passed === null && html`<p class="ill" role="alert">${t("testLate", { took: number(Math.round(kept.took)) })}</p>`}
      ${kept?.passed === false && html`<p class="ill" role="alert">${t("testFails")}</p><${Text} title=${t("testOutput")} text=${kept.output} />`}
      ${kept && html`<${Text} title=${t("testText")} text=${kept.text} />`}
    </div>
    <div class="sheet-actions">
      <button type="button" class="button" autofocus onclick=${done}>${t("close")}</button>
      ${kept && html`<button type="button" class="button" onclick=${() => copy(kept.text)}>${t("copyText")}</button>`}
      ${
        // Only a passing test can be downloaded.
        kept?.passed &&
        html`<button type="button" class="button primary" onclick=${() => save(`test_${botName()}.py`, kept.text)}>${t("download")}</button>`
      }
    </div>
  `;
}
