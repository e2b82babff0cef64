// Payment of a button or an invoice; the person can choose a failure of the payment.

import { money } from "./format.js";
import { sheet, tried } from "./sheet.js";
import { Asking, Field, html } from "./ui.js";
import { t } from "./words.js";

const CODES = [1000, 1001, 1002, 1003, 1004, 1005, 1006];

/** Ask for confirmation, then pay a message's payment button. */
export async function payButton(message, button, place, view) {
  const ending = await confirmPayment(button, view);
  if (!ending) return;
  const given = { label: button.text, message: message.id, ...place, chat: view.chat.id, ...ending };
  await tried(() => view.act("pay", given), view.element);
}

/** Ask for confirmation, then pay an invoice. `view` is {user, act, element}. */
export async function payInvoice(bill, view) {
  const ending = await confirmPayment({ ...bill, text: bill.description, desc: "" }, view);
  if (!ending) return;
  await tried(() => view.act("pay", { invoice: bill.id, ...ending }), view.element);
}

/** Return the chosen failure of a payment as fields of the request; {} for a normal payment. */
function endingOf({ code, taken, amount }) {
  const ending = {};
  if (code) ending.code = Number(code);
  if (taken) ending.taken = true;
  if (/^\d+$/.test(amount.trim())) ending.amount = Number(amount);
  return ending;
}

function confirmPayment(bill, view) {
  const { wallet } = view.user;
  const enough = wallet[bill.currency] >= bill.amount;
  return sheet(
    t("payment"),
    (done) => html`
      <${Asking} give=${(given) => done(endingOf(given))} cancel=${() => done(undefined)} yes=${t("pay")} ready>
        <div class="price-tag">${money(bill.amount, bill.currency)}</div>
        <div class="center" dir="auto">${bill.desc || bill.text}</div>
        <div class=${`balance-line ${enough ? "" : "short"}`}>
          ${t("inWallet")} <b>${money(wallet[bill.currency], bill.currency)}</b>
        </div>
        <details class="more-options">
          <summary>${t("letItFail")}</summary>
          <${Field} label=${t("result")}>
            <select name="code">
              <option value="">${t("asItShould")}</option>
              ${CODES.map((one) => html`<option value=${String(one)}>${`${one}: ${t(`code${one}`)}`}</option>`)}
            </select>
          <//>
          <label class="check"><input type="checkbox" name="taken" />${t("takenAllTheSame")}</label>
          <${Field} label=${t("otherAmount")}>
            <input name="amount" class="digits" inputmode="numeric" dir="ltr" placeholder=${String(bill.amount)} />
          <//>
        </details>
      <//>
    `,
    { place: view.element, kind: "payment" },
  );
}
