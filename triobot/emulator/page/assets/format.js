// Numbers, money and times as text in the page's language; Persian text has Persian digits.

import { language, t } from "./words.js";

const locale = language() === "fa" ? "fa-IR" : "en-GB";

// Created once: creating a formatter costs more than drawing a bubble.
const NUMBER = new Intl.NumberFormat(locale);
const TWO_DIGITS = new Intl.NumberFormat(locale, { minimumIntegerDigits: 2 });
const ONE_PLACE = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const EXACT_CLOCK = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const DAY = new Intl.DateTimeFormat(locale, { day: "numeric", month: "long" });

export const number = (value) => NUMBER.format(value);

/** Return an amount with its currency. */
export const money = (amount, currency) =>
  t(currency === "coin" ? "amountCoin" : "amountIrr", { amount: number(amount) });

export const clock = (at) => CLOCK.format(at);

export const exactClock = (at) => EXACT_CLOCK.format(at);

/** Return "Today", or the day and month; in Persian, of the Iranian calendar. */
export function day(at, today) {
  return new Date(at).toDateString() === new Date(today).toDateString() ? t("today") : DAY.format(at);
}

/** Return minutes and seconds, as on a stopwatch. */
export function stopwatch(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${number(Math.floor(whole / 60))}:${TWO_DIGITS.format(whole % 60)}`;
}

/** Return a duration as on a stopwatch; above an hour, with hours and days. */
export function longwatch(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86_400), Math.floor(whole / 3_600) % 24, Math.floor(whole / 60) % 60];
  if (whole <= 3_600) return stopwatch(whole);
  const parts = [hours, minutes, whole % 60].map((part) => TWO_DIGITS.format(part));
  return days ? t("days", { days: number(days), rest: parts.join(":") }) : parts.join(":");
}

export function bytes(size) {
  const units = ["B", "kB", "MB", "GB"];
  let power = 0;
  while (size >= 1000 && power < units.length - 1) {
    size /= 1000;
    power += 1;
  }
  return `${size < 10 && power ? ONE_PLACE.format(size) : number(Math.round(size))} ${units[power]}`;
}

/** Return one or two letters of a name for an avatar. */
export function initials(name) {
  const words = name
    .replace(/^@/, "")
    .split(/[\s_-]+/)
    .filter(Boolean);
  return words
    .slice(0, 2)
    .map((word) => [...word][0])
    .join("\u200c")
    .toUpperCase();
}

/** Return one of the style sheet's eight colours; a name always gets the same colour. */
export function colour(name) {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + letter.codePointAt(0)) >>> 0;
  return `var(--colour-${sum % 8})`;
}
