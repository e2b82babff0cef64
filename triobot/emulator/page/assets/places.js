// The form for a person's location: an example, typed coordinates, or the browser's own location.

import { sheet, toast } from "./sheet.js";
import { Asking, Field, html, Icon } from "./ui.js";
import { Component } from "./vendor/preact.mjs";
import { language, t } from "./words.js";

const PLACES = [
  ["35.6892", "51.3890", { en: "Tehran", fa: "تهران" }],
  ["32.6546", "51.6680", { en: "Isfahan", fa: "اصفهان" }],
  ["52.5200", "13.4050", { en: "Berlin", fa: "برلین" }],
  ["-33.8688", "151.2093", { en: "Sydney", fa: "سیدنی" }],
].map(([lat, long, names]) => ({ lat, long, desc: names[language()] }));

class PlaceFields extends Component {
  state = PLACES[0];

  render() {
    const field = (name, more) => html`
      <input name=${name} value=${this.state[name]} oninput=${(event) => this.setState({ [name]: event.target.value })} ...${more} />
    `;
    const digits = { class: "digits", dir: "ltr", inputmode: "decimal" };
    return html`
      <div class="chips">
        ${PLACES.map((place) => html`<button type="button" class="chip" onclick=${() => this.setState(place)}>${place.desc}</button>`)}
        ${navigator.geolocation && html`<button type="button" class="chip" onclick=${this.takeOwn}><${Icon} name="pin" size=${15} />${t("here")}</button>`}
      </div>
      <div class="pair">
        <${Field} label=${t("latitude")}>${field("lat", digits)}<//>
        <${Field} label=${t("longitude")}>${field("long", digits)}<//>
      </div>
      <${Field} label=${t("description")}>${field("desc", { dir: "auto" })}<//>
    `;
  }

  takeOwn = () =>
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => this.setState({ lat: coords.latitude.toFixed(6), long: coords.longitude.toFixed(6), desc: "" }),
      () => toast(t("noPosition"), { kind: "problem" }),
    );
}

/** Ask for a location; return {lat, long, desc}, or undefined if cancelled. */
export function choosePlace(place) {
  return sheet(
    t("shareLocation"),
    (done) => html`
      <${Asking} give=${({ lat, long, desc }) => done({ lat: lat.trim(), long: long.trim(), desc })} cancel=${() => done(undefined)} yes=${t("share")} ready>
        <p>${t("shareLocationWhy")}</p>
        <${PlaceFields} />
      <//>
    `,
    { place },
  );
}
