// For a page that was saved with one conversation: `fetch` answers from the page's own data, without a server.

import { t } from "../words.js";

const told = JSON.parse(/** @type {any} */ (document.getElementById("told")).textContent);
globalThis.fetch = async (path) => {
  const value = told[String(path).split("?")[0].slice("/control/".length)];
  return new Response(typeof value === "string" ? value : JSON.stringify(value ?? { error: t("notKnown") }), { status: value === undefined ? 404 : 200 });
};
