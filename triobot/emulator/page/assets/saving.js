// What is kept of the page as a file of the person's.

import { look } from "./link.js";
import { botName } from "./world.js";

/** Have the browser save a text. */
export function save(filename, text, type = "text/plain") {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = filename.replace(/[\\/:*?"<>|]/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1_000);
}

/** Save a private chat as a test for the bot. */
export async function saveTest(chat) {
  const { text } = await look(`script?chat=${chat.id}`);
  save(`test_${botName()}.py`, text);
}
