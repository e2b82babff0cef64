// One file with the page and one conversation: it opens without a server or an installation, and only looks.

import { save } from "../saving.js";
import { t } from "../words.js";

const IMPORT = /\b(from|import)(\s*\(?\s*)"(\.{1,2}\/[^"]+)"/g;
const START = "page/inspect.js";
const inMarkup = (told) => JSON.stringify(told).replaceAll("<", "\\u003c");
const textAt = async (path) => (await fetch(path)).text();
/** A script and those that it needs, by names that an import map leads to their texts. @param {string} name @param {Record<string, string>} all */
async function scriptsOf(name, all = {}) {
  if (name in all) return all;
  all[name] = "";
  const needed = /** @type {string[]} */ ([]);
  const text = (await textAt(`/${name}`)).replace(IMPORT, (_, word, space, place) => {
    needed.push(new URL(place, `${location.origin}/${name}`).pathname.slice(1));
    return `${word}${space}"${needed.at(-1)}"`;
  });
  for (const one of needed) await scriptsOf(one, all);
  all[name] = `data:text/javascript;charset=utf-8,${encodeURIComponent(text)}`;
  return all;
}

const ANSWERS = `const told = JSON.parse(document.getElementById("told").textContent);
globalThis.fetch = async (path) => {
  const value = told[path.split("?")[0].slice("/control/".length)];
  return new Response(typeof value === "string" ? value : JSON.stringify(value ?? { error: told.none }), { status: value === undefined ? 404 : 200 });
};`;

/** Save a conversation that is here whole. @param {import("./state.js").Journal} journal @param {any} row @param {Map<number, {text: string}>} sources */
export async function savePage(journal, row, sources) {
  const [pass, conversations] = [journal.pass, [row]];
  const place = `travel/pass/${pass.id}`;
  const about = { what: "export", bot: "", hidden: pass.hidden, redacted: pass.redacted };
  const told = { none: t("notKnown"), travel: { about, conversations, after: null }, [`travel/${row.chat_id}`]: { conversations }, [`travel/${row.chat_id}/${row.conversation}/open`]: { id: pass.id }, [place]: pass, [`${place}/notches`]: { notches: journal.inOrder() } };
  for (const [id, { text }] of sources) told[`${place}/source/${id}`] = text;
  const sheets = [...document.querySelectorAll("link[rel=stylesheet]")].map((one) => textAt(/** @type {any} */ (one).href));
  const page = `<!doctype html><html lang="en"><head><meta charset="utf-8" /><meta name="viewport" content="width=device-width, initial-scale=1" /><title>triobot inspect</title><style>${(await Promise.all(sheets)).join("")}</style><script type="application/json" id="told">${inMarkup(told)}</script><script>${ANSWERS}</script><script type="importmap">${inMarkup({ imports: await scriptsOf(START) })}</script><script type="module">import "${START}";</script></head><body><div id="app" class="app"></div></body></html>`;
  save(`conversation-${row.conversation}.html`, page, "text/html");
}
