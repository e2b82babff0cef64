// Where a person is: made up, or where this browser is, if it may say.

import { h, icon } from "./dom.js";
import { field, toast } from "./sheet.js";
import { language, t } from "./words.js";

const PLACES = [
  ["35.6892", "51.3890", { en: "Tehran", fa: "تهران" }],
  ["32.6546", "51.6680", { en: "Isfahan", fa: "اصفهان" }],
  ["52.5200", "13.4050", { en: "Berlin", fa: "برلین" }],
  ["-33.8688", "151.2093", { en: "Sydney", fa: "سیدنی" }],
];

/** Fields for a place; value() reads them. */
export function placeFields() {
  const places = PLACES.map(([lat, long, names]) => [lat, long, names[language()]]);
  const [first] = places;
  const lat = h("input.digits", { value: first[0], dir: "ltr", inputmode: "decimal" });
  const long = h("input.digits", { value: first[1], dir: "ltr", inputmode: "decimal" });
  const desc = h("input", { value: first[2], dir: "auto" });
  /** @param {string[]} place */
  function take([newLat, newLong, newDesc]) {
    [lat.value, long.value, desc.value] = [newLat, newLong, newDesc];
  }
  function here() {
    navigator.geolocation?.getCurrentPosition(
      ({ coords }) => take([coords.latitude.toFixed(6), coords.longitude.toFixed(6), ""]),
      () => toast(t("noPosition"), { kind: "problem" }),
    );
  }
  const element = h(
    "div.fields",
    {},
    h(
      "div.chips",
      {},
      places.map((place) => h("button.chip", { type: "button", onclick: () => take(place) }, place[2])),
      navigator.geolocation &&
        h("button.chip", { type: "button", onclick: here }, icon("pin", 15), t("here")),
    ),
    h("div.pair", {}, field(t("latitude"), lat), field(t("longitude"), long)),
    field(t("description"), desc),
  );
  return { element, value: () => ({ lat: lat.value.trim(), long: long.value.trim(), desc: desc.value }) };
}
