// A person's wallet: balances, open invoices, and payments with the time left for verification.

import { clock, money, number, stopwatch } from "./format.js";
import { act } from "./link.js";
import { payInvoice } from "./paying.js";
import { tried } from "./sheet.js";
import { draw as put, html, Icon, root } from "./ui.js";
import { t } from "./words.js";
import { listen, now, world } from "./world.js";

const STEPS = { IRR: [100_000, 1_000_000], coin: [10] };

// The text is isolated from left to right, so that the sign precedes the number, also in Persian.
const step = (amount) => `\u2066+${number(amount)}\u2069`;

function Balance({ person, currency }) {
  const add = (value) => tried(() => act(`users/${person.id}/top-up`, { [currency]: value }));
  const addTyped = (event) => {
    event.preventDefault();
    const amount = Number(new FormData(event.target).get("amount"));
    if (amount > 0) add(amount);
  };
  return html`
    <div class=${`balance ${currency}`}>
      <small>${t(currency === "IRR" ? "rials" : "coins")}</small>
      <strong>${money(person.wallet[currency], currency)}</strong>
      <div class="chips">
        ${STEPS[currency].map((amount) => html`<button type="button" class="chip" onclick=${() => add(amount)}>${step(amount)}</button>`)}
        <details class="custom">
          <summary class="chip">…</summary>
          <form class="with-button" onsubmit=${addTyped}>
            <input name="amount" class="digits" inputmode="numeric" dir="ltr" aria-label=${t("amount")} />
            <button type="submit" class="chip">${t("topUp")}</button>
          </form>
        </details>
      </div>
    </div>
  `;
}

const payerOf = (person) => ({
  get user() {
    return world.users.get(person.id);
  },
  act: (name, given) => act(`users/${person.id}/${name}`, given),
  element: document.body,
});

const Invoice = ({ bill, person }) => html`
  <div class="bill">
    <div class="bill-words">
      <b dir="auto">${bill.description}</b>
      <span>${money(bill.amount, bill.currency)}</span>
      <small class="faint digits">#${bill.id}</small>
    </div>
    <button type="button" class="button primary" onclick=${() => payInvoice(bill, payerOf(person))}>${t("pay")}</button>
  </div>
`;

function Payment({ bill, taking }) {
  const until = taking.paid_at + world.machine.switches.verify_window;
  return html`
    <div class=${`bill ${bill.state}`}>
      <div class="bill-words">
        <b dir="auto">${bill.description || t(bill.kind)}</b>
        <span>${money(taking.amount, taking.currency)}</span>
        <small class="faint digits">${`${clock(taking.paid_at)} · #${bill.id}`}</small>
      </div>
      <div class="state">
        <span class="chip state-chip">${t(`state_${bill.state}`)}</span>
        ${bill.state === "paid" &&
        html`<small class="countdown digits" title=${t("backAt")}>${stopwatch((until - now()) / 1000)}</small>`}
      </div>
    </div>
  `;
}

const concerns = (bill, person) =>
  bill.takings.some((taking) => taking.payer === person.id) ||
  Boolean(world.chats.get(bill.chat_id)?.members.includes(person.id));

/** The panel with the wallet of the current person, `user()`. */
export function walletPanel(user) {
  const element = root("div", { class: "panel-body wallet" });
  let hasCountdown = false;

  function draw() {
    const person = user();
    put(person ? walletOf(person) : html`<p class="hint">${t("nobody")}</p>`, element);
  }

  function walletOf(person) {
    const bills = [...world.bills.values()].filter((bill) => concerns(bill, person)).reverse();
    const open = bills.filter((bill) => bill.kind === "invoice" && bill.state === "open");
    const rest = bills.filter((bill) => !open.includes(bill) && bill.takings.length);
    hasCountdown = rest.some((bill) => bill.state === "paid");
    return html`
      <div class="whose"><bdi>${person.name}</bdi></div>
      <div class="balances">
        ${Object.keys(STEPS).map((currency) => html`<${Balance} key=${`${person.id} ${currency}`} person=${person} currency=${currency} />`)}
      </div>
      <h2>${t("invoices")}</h2>
      ${open.map((bill) => html`<${Invoice} key=${`invoice ${bill.id}`} bill=${bill} person=${person} />`)}
      ${!open.length && html`<p class="hint">${t("noInvoices")}</p>`}
      <h2>${t("payments")}</h2>
      ${rest.map((bill) => html`<${Payment} key=${`${bill.kind} ${bill.id}`} bill=${bill} taking=${bill.takings.at(-1)} />`)}
      ${!rest.length && html`<p class="hint">${t("noPayments")}</p>`}
      ${hasCountdown &&
      html`
        <button type="button" class="button wide-button" onclick=${() => tried(() => act("clock", { seconds: 3600 }))}>
          <${Icon} name="clock" size=${18} />${t("letAnHourPass")}
        </button>
      `}
    `;
  }

  setInterval(() => hasCountdown && element.isConnected && draw(), 1_000);
  listen((fresh) => element.isConnected && (fresh.all || fresh.users || fresh.bills) && draw());
  return { element, draw };
}
