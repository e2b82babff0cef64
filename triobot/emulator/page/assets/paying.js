// Paying: the button in place and the invoice, with every way in which either can fail.

import { h } from "./dom.js";
import { money } from "./format.js";
import { field, sheet, tried } from "./sheet.js";
import { t } from "./words.js";

const CODES = [1000, 1001, 1002, 1003, 1004, 1005, 1006];

/** Confirm and pay a button under a message. */
export async function payButton(message, button, index, view) {
  const ending = await confirmPayment(button, view);
  if (!ending) return;
  const given = { label: button.text, message: message.id, index, chat: view.chat.id, ...ending };
  await tried(() => view.act("pay", given), view.element);
}

/** Confirm and pay an invoice. `view` is {user, act, element}. */
export async function payInvoice(bill, view) {
  const ending = await confirmPayment({ ...bill, text: bill.description, desc: "" }, view);
  if (!ending) return;
  await tried(() => view.act("pay", { invoice: bill.id, ...ending }), view.element);
}

function confirmPayment(bill, view) {
  const { wallet } = view.user;
  const enough = wallet[bill.currency] >= bill.amount;
  return sheet(
    t("payment"),
    (done) => {
      const code = h(
        "select",
        {},
        h("option", { value: "" }, t("asItShould")),
        CODES.map((one) => h("option", { value: one }, `${one}: ${t(`code${one}`)}`)),
      );
      const taken = h("input", { type: "checkbox" });
      const amount = h("input.digits", { inputmode: "numeric", dir: "ltr", placeholder: bill.amount });
      const pay = () => {
        const ending = {};
        if (code.value) ending.code = Number(code.value);
        if (taken.checked) ending.taken = true;
        if (/^\d+$/.test(amount.value.trim())) ending.amount = Number(amount.value);
        done(ending);
      };
      return [
        h(
          "div.sheet-body",
          {},
          h("div.price-tag", {}, money(bill.amount, bill.currency)),
          h("div.center", { dir: "auto" }, bill.desc || bill.text),
          h(
            "div.balance-line",
            { class: enough ? "" : "short" },
            t("inWallet"),
            " ",
            h("b", {}, money(wallet[bill.currency], bill.currency)),
          ),
          h(
            "details.more-options",
            {},
            h("summary", {}, t("letItFail")),
            field(t("result"), code),
            h("label.check", {}, taken, t("takenAllTheSame")),
            field(t("otherAmount"), amount),
          ),
        ),
        h(
          "div.sheet-actions",
          {},
          h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
          h("button.button.primary.confirm-pay", { type: "button", autofocus: true, onclick: pay }, t("pay")),
        ),
      ];
    },
    { place: view.element, kind: "payment" },
  );
}
