// What stands still in a chat: its newest conversation, if that has failed or is parked, with the way to look at it.

import { draw as put, html, Icon } from "../ui.js";
import { t } from "../words.js";
import { listen, world } from "../world.js";
import { conversationsOf } from "./passes.js";

const STOOD = new Set(["crashed", "parked"]);
// Failures come with alarms and counts of several sources; one look tells of all.
const LOOK_AFTER = 300;

/** A line above the foot of a chat. `open(conversation)` leads there. */
export function standing(chatId, open) {
  const element = document.createElement("div");
  element.setAttribute("role", "status");
  element.className = "standing";
  element.hidden = true;
  let seen = "";
  let timer = 0;

  /** What changes when a conversation fails, is parked, or goes on. */
  function sign() {
    const { parked, live, counts, open_alarm_kinds: alarms } = world.runtime;
    const chat = world.inside.chats.find((one) => one.chat_id === chatId);
    const there = chat?.conversations.map((one) => one.id);
    return JSON.stringify([world.bot?.starts, world.bot?.phase, parked, live, counts?.crashed, counts?.started, alarms, there]);
  }

  /** Whether there is anything to ask for: most bots have nothing that stands still, ever. */
  const isLikely = () =>
    world.bot?.phase === "running" &&
    (world.runtime.parked > 0 || world.runtime.counts?.crashed > 0 || world.runtime.open_alarm_kinds?.conversation_crashed > 0);

  async function look() {
    const all = isLikely() ? await conversationsOf(chatId).catch(() => []) : [];
    const [newest] = all;
    element.hidden = !newest || !STOOD.has(newest.state);
    if (element.hidden) return;
    element.className = `standing ${newest.state}`;
    const route = newest.route.split(".").pop();
    put(
      html`
        <${Icon} name="bolt" size=${18} />
        <span>${t(`stood_${newest.state}`, { route })}</span>
        <span class="spring"></span>
        <button type="button" class="button" onclick=${() => open(newest.conversation)}>${t("lookAtIt")}</button>
      `,
      element,
    );
  }

  function take() {
    if (!world.bot) return;
    const now = sign();
    if (now === seen) return;
    seen = now;
    clearTimeout(timer);
    timer = setTimeout(look, LOOK_AFTER);
  }

  const deaf = listen((fresh) => (fresh.all || fresh.runtime || fresh.inside || fresh.bot) && take());
  take();
  return {
    element,
    close() {
      deaf();
      clearTimeout(timer);
    },
  };
}
