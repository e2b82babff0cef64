// The bar in a chat whose newest conversation has failed or is parked; a button opens the conversation.

import { html, Icon } from "../ui.js";
import { Component } from "../vendor/preact.mjs";
import { t } from "../words.js";
import { listen, world } from "../world.js";
import { conversationsOf } from "./passes.js";

const STOOD = new Set(["crashed", "parked"]);
// Milliseconds to wait for further news: a failure changes counts and alarms one after another.
const LOOK_AFTER = 300;

/** Whether a conversation may have failed or be parked; only then the page requests the conversations. */
const isLikely = () =>
  world.bot?.phase === "running" &&
  (world.runtime.parked > 0 || world.runtime.counts?.crashed > 0 || world.runtime.open_alarm_kinds?.conversation_crashed > 0);

/** Return a text that changes whenever a conversation of a chat fails, is parked, or continues. */
function sign(chatId) {
  const { parked, live, counts, open_alarm_kinds: alarms } = world.runtime;
  const chat = world.inside.chats.find((one) => one.chat_id === chatId);
  const there = chat?.conversations.map((one) => one.id);
  return JSON.stringify([world.bot?.starts, world.bot?.phase, parked, live, counts?.crashed, counts?.started, alarms, there]);
}

/** The bar above the foot of a chat. `open(conversation)` opens the conversation's time travel. */
export class Standing extends Component {
  state = { newest: /** @type {any} */ (null) };
  seen = "";
  timer = 0;
  deaf = () => {};

  /** @param {any} given @param {{newest: any}} state */
  render({ open }, { newest }) {
    return html`
      <div role="status" class=${`standing ${newest?.state ?? ""}`} hidden=${!newest}>
        ${
          newest &&
          html`
            <${Icon} name="bolt" size=${18} />
            <span>${t(`stood_${newest.state}`, { route: newest.route.split(".").pop() })}</span>
            <span class="spring"></span>
            <button type="button" class="button" onclick=${() => open(newest.conversation)}>${t("lookAtIt")}</button>
          `
        }
      </div>
    `;
  }

  componentDidMount() {
    this.deaf = listen((fresh) => (fresh.all || fresh.runtime || fresh.inside || fresh.bot) && this.take());
    this.take();
  }

  componentWillUnmount() {
    this.deaf();
    clearTimeout(this.timer);
  }

  take() {
    if (!world.bot) return;
    const now = sign(/** @type {any} */ (this.props).chatId);
    if (now === this.seen) return;
    this.seen = now;
    clearTimeout(this.timer);
    this.timer = window.setTimeout(this.look, LOOK_AFTER);
  }

  look = async () => {
    const [newest] = isLikely() ? await conversationsOf(/** @type {any} */ (this.props).chatId).catch(() => []) : [];
    this.setState({ newest: STOOD.has(newest?.state) ? newest : null });
  };
}
