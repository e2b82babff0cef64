// A chat as plain text, to keep or to send to somebody.

import { botName, ownerOf, world } from "./world.js";
import { inOrder, lineWords } from "./lines.js";
import { summaryOf } from "./media.js";
import { look } from "./link.js";
import { save } from "./saving.js";

/** Save everything that a chat holds as a text file. */
export async function saveTranscript(chat) {
  const { messages, lines } = await look(`history?chat=${chat.id}&count=5000`);
  const name = chat.name ?? ownerOf(chat)?.name ?? String(chat.id);
  save(`${name}.txt`, inOrder(messages, lines).map(line).join("\n") + "\n");
}

/** Save a private chat as a test for the bot. */
export async function saveTest(chat) {
  const { text } = await look(`script?chat=${chat.id}`);
  save(`test_${botName()}.py`, text);
}

function line(message) {
  if ("kind" in message) return `${timeOf(message)}  · ${lineWords(message).replaceAll("\n", "\n    ")}`;
  const who = message.from_bot ? botName() : (world.users.get(message.author)?.name ?? "?");
  const buttons = (message.buttons ?? []).flat().map((button) => `[${button.text}]`);
  const fields = (message.form ?? []).map((field) => `{${field.label}}`);
  // Line ends inside a message must not look like the next message.
  const words = [summaryOf(message).replaceAll("\n", "\n    "), ...buttons, ...fields].join(" ");
  return `${timeOf(message)}  ${who}: ${words}`;
}

const timeOf = ({ at }) => new Date(at).toISOString().replace("T", " ").slice(0, 19);
