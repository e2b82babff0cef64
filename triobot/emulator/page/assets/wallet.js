// A person's wallet: what is in it, what is to be paid, what was paid, and the hour in which a bot must verify.

import { fill, h, icon, keepFocus } from "./dom.js";
import { clock, money, number, stopwatch } from "./format.js";
import { act } from "./link.js";
import { payInvoice } from "./paying.js";
import { tried } from "./sheet.js";
import { t } from "./words.js";
import { listen, now, world } from "./world.js";

const STEPS = [100_000, 1_000_000];

// The sign stands before its number, in Persian too.
const step = (amount) => [amount, `\u2066+${number(amount)}\u2069`];

/** The wallet of whoever `user()` names at the moment. */
export function walletPanel(user) {
  const element = h("div.panel-body.wallet");
  let last = "";

  const draw = () => keepFocus(element, fillAll);

  function fillAll() {
    const person = user();
    if (!person) return fill(element, h("p.hint", {}, t("nobody")));
    const bills = [...world.bills.values()].filter((bill) => concerns(bill, person)).reverse();
    const open = bills.filter((bill) => bill.kind === "invoice" && bill.state === "open");
    const rest = bills.filter((bill) => !open.includes(bill) && bill.takings.length);
    fill(
      element,
      h("div.whose", {}, h("bdi", {}, person.name)),
      h("div.balances", {}, balance(person, "IRR", STEPS.map(step)), balance(person, "coin", [step(10)])),
      h("h3", {}, t("invoices")),
      open.length ? open.map((bill) => invoice(bill, person)) : h("p.hint", {}, t("noInvoices")),
      h("h3", {}, t("payments")),
      rest.length ? rest.map((bill) => payment(bill)) : h("p.hint", {}, t("noPayments")),
      rest.some((bill) => bill.state === "paid") &&
        h(
          "button.button.wide-button",
          { type: "button", onclick: () => tried(() => act("clock", { seconds: 3600 })) },
          icon("clock", 18),
          t("letAnHourPass"),
        ),
    );
    tick();
  }

  function concerns(bill, person) {
    const chat = world.chats.get(bill.chat_id);
    return (
      bill.takings.some((taking) => taking.payer === person.id) || Boolean(chat?.members.includes(person.id))
    );
  }

  function balance(person, currency, steps) {
    const amount = h("input.digits", { inputmode: "numeric", dir: "ltr", "aria-label": t("amount") });
    const add = (value) => tried(() => act(`users/${person.id}/top-up`, { [currency]: value }));
    return h(
      "div.balance",
      { class: currency },
      h("small", {}, t(currency === "IRR" ? "rials" : "coins")),
      h("strong", {}, money(person.wallet[currency], currency)),
      h(
        "div.chips",
        {},
        steps.map(([value, words]) => h("button.chip", { type: "button", onclick: () => add(value) }, words)),
        h(
          "details.custom",
          {},
          h("summary.chip", {}, "…"),
          h(
            "form.with-button",
            {
              onsubmit: (event) => (
                event.preventDefault(),
                Number(amount.value) > 0 && add(Number(amount.value))
              ),
            },
            amount,
            h("button.chip", { type: "submit" }, t("topUp")),
          ),
        ),
      ),
    );
  }

  function invoice(bill, person) {
    return h(
      "div.bill",
      {},
      h(
        "div.bill-words",
        {},
        h("b", { dir: "auto" }, bill.description),
        h("span", {}, money(bill.amount, bill.currency)),
        h("small.faint.digits", {}, `#${bill.id}`),
      ),
      h(
        "button.button.primary",
        { type: "button", onclick: () => payInvoice(bill, payerOf(person)) },
        t("pay"),
      ),
    );
  }

  const payerOf = (person) => ({
    get user() {
      return world.users.get(person.id);
    },
    act: (name, given) => act(`users/${person.id}/${name}`, given),
    element: document.body,
  });

  function payment(bill) {
    const taking = bill.takings[bill.takings.length - 1];
    const facts = [clock(taking.paid_at), `#${bill.id}`];
    return h(
      "div.bill",
      { class: bill.state },
      h(
        "div.bill-words",
        {},
        h("b", { dir: "auto" }, bill.description || t(bill.kind)),
        h("span", {}, money(taking.amount, taking.currency)),
        h("small.faint.digits", {}, facts.join(" · ")),
      ),
      h(
        "div.state",
        {},
        h("span.chip.state-chip", {}, t(`state_${bill.state}`)),
        bill.state === "paid" &&
          h("small.countdown.digits", {
            "data-until": taking.paid_at + world.machine.switches.verify_window,
            title: t("backAt"),
          }),
      ),
    );
  }

  function tick() {
    for (const line of element.querySelectorAll(".countdown")) {
      line.textContent = stopwatch((Number(line.dataset.until) - now()) / 1000);
    }
  }

  setInterval(tick, 1_000);
  listen((fresh) => {
    if (!element.isConnected) return;
    // A form that somebody types in is not redrawn under their fingers.
    const state = JSON.stringify([user(), [...world.bills.values()]]);
    if (fresh.all || ((fresh.users || fresh.bills) && state !== last)) draw();
    last = state;
  });
  return { element, draw };
}
