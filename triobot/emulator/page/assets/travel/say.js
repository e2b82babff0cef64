// Descriptions of notches and items in the page's language.

import { exactClock, number } from "../format.js";
import { fieldsWords, lineWords } from "../lines.js";
import { t } from "../words.js";

/**
 * @typedef {import("./state.js").Notch} Notch
 * @typedef {import("./state.js").Came} Came
 * @typedef {import("./state.js").Pass} Pass
 * @typedef {import("./story.js").Item} Item
 */

const LONGEST = 120;

/** Return a text's first line, cut to `longest` letters. */
export function brief(text, longest = LONGEST) {
  const [line = ""] = String(text ?? "").split("\n");
  return line.length > longest || line.length < String(text ?? "").length ? `${line.slice(0, longest)}…` : line;
}

/** Return a text; for a hidden text, the number of its letters. @param {{text?: string, letters?: number} | null | undefined} one */
export const textOf = (one) => (one?.letters ? t(one.letters === 1 ? "letterHidden" : "lettersHidden", { count: number(one.letters) }) : (one?.text ?? ""));

/** Return the page's words for `key` around a text, which may be hidden. @param {string} key @param {{text?: string, letters?: number}} one */
export const saying = (key, one, longest = LONGEST, more = {}) =>
  t(one.letters === undefined ? key : `${key}_hidden`, { ...more, text: brief(textOf(one), longest) });

/** Return the words for an operation's kind, as in the panel "Inside". */
export function kindWords(kind) {
  const [what = "", ...rest] = kind.split(" ");
  const words = t(`operation_${what}`);
  return words === `operation_${what}` ? kind : [words, ...rest].join(" ");
}

// The server's words for the most frequent waits, and the keys of the page's words.
const WAITS = {
  "an answer": "waitsAnswer",
  "a delivery": "waitsDelivery",
  "the answer to a press": "waitsPressAnswer",
  "its time": "waitsTime",
  "the ledger": "waitsLedger",
  "the payment's number": "waitsNumber",
};

/** Return the words for a branch's wait. @param {import("./state.js").Parked} one */
export function waitWords(one) {
  if (one.words in WAITS) return t(WAITS[one.words]);
  const [, step] = /^the step (.+)$/.exec(one.words) ?? [];
  return step ? t("waitsStep", { step }) : one.words || kindWords(one.kind);
}

/** Return the words for a movement of money, or for a failed payment. @param {import("./state.js").Money} money */
export const moneyWords = (money, name = "") =>
  lineWords({ kind: money.what === "failed" ? "payment_failed" : "money", ...money, name: money.name || name });

/** Return the words for a received event or outcome. @param {Came} came @param {string} kind */
export function cameWords(came, kind) {
  const name = came.name || t("somebodyThere");
  const text = brief(came.text);
  if (came.money) return moneyWords(came.money, name);
  switch (came.what) {
    case "message":
      return came.content && came.content.type !== "text"
        ? t("cameMedia", { name, text: [t(came.content.type), brief(textOf(came))].filter(Boolean).join(", ") })
        : saying("cameMessage", came, LONGEST, { name });
    case "press":
      return saying("camePress", { ...came, text: came.label ?? came.text }, LONGEST, { name });
    case "form":
      return came.fields
        ? t("cameFormWith", { name, text: brief(fieldsWords(came.fields)) })
        : t("cameForm", { name });
    case "payment":
      return text ? t("camePaymentWith", { text }) : t("camePayment");
    case "signal":
      return t("cameSignal", { text });
    case "timeout":
      return t("cameTimeout");
    case "result":
      if (kind === "charge") return t("chargeMade");
      return text ? t("cameResult", { what: kindWords(kind), text }) : t("cameResultNothing", { what: kindWords(kind) });
    case "error":
      return t("cameError", { what: kindWords(kind), text });
    case "cut":
      return t("cameCut", { what: kindWords(kind) });
    case "interrupt":
      return t(`cameInterrupt_${text}`);
    case "join":
      return t("cameJoin", { name });
    case "leave":
      return t("cameLeave", { name });
    default:
      return t("cameEvent", { text: text || came.what });
  }
}

/** Return a notch's description in one line. @param {Notch} notch @param {Pass} pass @param {(id: string) => Item | undefined} itemOf */
export function notchWords(notch, pass, itemOf) {
  if (notch.k === "begin")
    return notch.in ? t("travelBeganBy", { what: cameWords(notch.in, notch.k) }) : t("travelBegin");
  if (notch.k === "end" || notch.dot === "end" || notch.dot === "crash") {
    const [failure] = pass.failures;
    if (notch.dot === "crash") return t("travelEnd_crashed", { what: failure ? failure.error : "" });
    return t("travelEnd");
  }
  if (notch.in) return cameWords(notch.in, notch.k);
  if (notch.k === "fired") return t("didFired");
  const [done] = (notch.done ?? []).map(([id]) => itemOf(id)).filter(Boolean);
  if (done) {
    return done.sent && textOf(done.sent) ? saying("didSend", done.sent, 60) : t("didSendPlain");
  }
  return notch.k === "send" ? t("didSendPlain") : t("didOther", { what: kindWords(notch.k) });
}

/** Return the label above a notch; "" if the notch received nothing. @param {Notch} notch */
export function labelOf(notch) {
  const came = notch.in;
  if (!came) return notch.dot === "crash" ? t("labelCrash") : "";
  if (came.what === "form") return t("labelForm");
  if (came.what === "timeout") return t("labelTimeout");
  if (came.what === "payment") return t("labelPayment");
  return brief(came.label ?? textOf(came), 22) || cameWords(came, notch.k);
}

/** Return a notch's description for screen readers. */
export const spoken = (notch, last, words) =>
  `${t("notchOf", { n: number(notch.n), last: number(last) })}, ${words}, ${exactClock(notch.t)}`;
