// A test that is kept: it is written down and run before it is called saved, and its text is there to be taken.

import { fill, h } from "../dom.js";
import { number } from "../format.js";
import { act } from "../link.js";
import { sheet, toast } from "../sheet.js";
import { save } from "../saving.js";
import { t } from "../words.js";
import { botName } from "../world.js";

/** Have a notch or a branch written down as a test, and show it with how it ran. @param {string} path @param {any} given */
export async function keepAsTest(path, given) {
  await sheet(
    t("keepTest"),
    (done) => {
      const body = h("div.sheet-body.kept-test", {}, h("progress", { "aria-label": t("keepTest") }), h("p", { role: "status" }, t("testRuns")));
      const actions = h("div.sheet-actions", {}, closing(done));
      act(path, given).then(
        (kept) => {
          fill(body, kept.passed ? passed(kept) : failed(kept), written(kept));
          fill(actions, closing(done), buttons(kept));
        },
        (error) => fill(body, h("p", { role: "alert" }, error.message)),
      );
      return [body, actions];
    },
    { kind: "wide" },
  );
}

const closing = (done) => h("button.button", { type: "button", autofocus: true, onclick: () => done(undefined) }, t("close"));

const passed = (kept) => h("p.well", { role: "status" }, t("testPassed", { took: number(Math.round(kept.took * 10) / 10) }));

const failed = (kept) => [
  h("p.ill", { role: "alert" }, t("testFails")),
  h("h3", {}, t("testOutput")),
  h("pre", { dir: "ltr", tabindex: 0, role: "region", "aria-label": t("testOutput") }, kept.output),
];

const written = (kept) => [
  h("h3", {}, t("testText")),
  h("pre", { dir: "ltr", tabindex: 0, role: "region", "aria-label": t("testText") }, kept.text),
];

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(t("copied"));
  } catch {
    toast(t("cantCopy"), { kind: "problem" });
  }
}

const buttons = (kept) => [
  h("button.button", { type: "button", onclick: () => copy(kept.text) }, t("copyText")),
  // What fails is nothing to be put among the tests.
  kept.passed && h("button.button.primary", { type: "button", onclick: () => save(`test_${botName()}.py`, kept.text) }, t("download")),
];
