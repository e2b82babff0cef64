// Numbers, money and times in the page's language: Persian digits in Persian, and marks that keep an amount
// together when it stands in text of the other direction.

import { language, t } from "./words.js";

const locale = () => (language() === "fa" ? "fa-IR" : "en-GB");

export const number = (value) => new Intl.NumberFormat(locale()).format(value);

/** An amount with its currency. */
export const money = (amount, currency) => t(currency === "coin" ? "amountCoin" : "amountIrr", { amount: number(amount) });

export const clock = (at) =>
  new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit" }).format(at);

export const exactClock = (at) =>
  new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(at);

/** "Today", or the day: of the Iranian calendar in Persian. */
export function day(at, today) {
  if (new Date(at).toDateString() === new Date(today).toDateString()) return t("today");
  return new Intl.DateTimeFormat(locale(), { day: "numeric", month: "long" }).format(at);
}

/** Minutes and seconds, as on a stopwatch. */
export function stopwatch(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const two = (value) => new Intl.NumberFormat(locale(), { minimumIntegerDigits: 2 }).format(value);
  return `${number(Math.floor(whole / 60))}:${two(whole % 60)}`;
}

export function bytes(size) {
  const units = ["B", "kB", "MB", "GB"];
  let power = 0;
  while (size >= 1000 && power < units.length - 1) {
    size /= 1000;
    power += 1;
  }
  return `${new Intl.NumberFormat(locale(), { maximumFractionDigits: size < 10 && power ? 1 : 0 }).format(size)} ${units[power]}`;
}

/** One or two letters for a round picture. */
export function initials(name) {
  const words = name.replace(/^@/, "").split(/[\s_-]+/).filter(Boolean);
  return words.slice(0, 2).map((word) => [...word][0]).join("\u200c").toUpperCase();
}

/** One of the eight colours of the style sheet, always the same for a name. */
export function colour(name) {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return `var(--colour-${sum % 8})`;
}
