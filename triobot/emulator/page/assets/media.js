// A message's content: text, media, contacts and locations. Files are fetched from this server only; for a file
// at another address, the page shows a card with the file's name.

import { bytes, number, stopwatch } from "./format.js";
import { sheet, toast } from "./sheet.js";
import { linked } from "./text.js";
import { html, Icon } from "./ui.js";
import { Component } from "./vendor/preact.mjs";
import { t } from "./words.js";
import { ownPath } from "./world.js";

// A longer text is cut: a browser needs many seconds to lay out a text of a megabyte.
const LONGEST = 8_000;
const BEGINNING = 4_000;

export function contentOf(content) {
  switch (content.type) {
    case "text":
      return html`<${Written} kind="text" text=${content.text} />`;
    case "contact":
      return html`<${Card} picture="person" title=${content.name || t("contact")} words=${content.phone} kind="contact" />`;
    case "location":
      return html`<${Location} ...${content} />`;
    default:
      return html`<${Media} content=${content} />`;
  }
}

/** A text with links. Only the beginning of a long text is drawn; a button shows the rest. */
class Written extends Component {
  state = { whole: "" };

  /** @param {any} given @param {{whole: string}} state */
  render({ kind, text }, { whole }) {
    if (text.length <= LONGEST) return html`<div class=${kind} dir="auto">${linked(text)}</div>`;
    if (whole === text)
      return html`<div class=${kind} dir="auto">${pieces(text).map((piece) => html`<div class="piece" dir="auto">${linked(piece)}</div>`)}</div>`;
    return html`
      <div class=${kind} dir="auto">
        ${linked(startOf(text, BEGINNING))}…${" "}
        <button type="button" class="show-all" onclick=${() => this.setState({ whole: text })}>${t("showAll", { count: number(text.length) })}</button>
      </div>
    `;
  }
}

/** Return the beginning of a text; never cut a surrogate pair. */
function startOf(text, length) {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}

/** Cut a text into pieces at ends of lines or words; a browser lays out only the visible pieces. */
function pieces(text) {
  const all = [];
  for (let rest = text; rest; ) {
    const most = startOf(rest, LONGEST);
    const line = most.lastIndexOf("\n") + 1 || most.lastIndexOf(" ") + 1;
    const piece = rest.length > LONGEST && line > LONGEST / 2 ? most.slice(0, line) : most;
    all.push(piece);
    rest = rest.slice(piece.length);
  }
  return all;
}

/** Return a message's summary for the list of chats. */
export function summaryOf(message) {
  if (message.deleted) return t("messageDeleted");
  const content = message.content;
  switch (content.type) {
    case "text":
      return content.text;
    case "contact":
      return `${t("contact")}: ${content.name}`;
    case "location":
      return `${t("location")}${content.desc ? `: ${content.desc}` : ""}`;
    default:
      return (
        content.caption ||
        `${t(content.type)}${content.descriptor.filename ? `: ${content.descriptor.filename}` : ""}`
      );
  }
}

function Media({ content }) {
  const { descriptor, type } = content;
  const path = ownPath(descriptor.path);
  const Shown = { image: Picture, video: Film, audio: Song, voice: Player }[type] ?? PlainFile;
  return html`
    <div class=${`media ${path === null ? "" : `media-${type}`}`}>
      ${
        path === null
          ? html`<${Card} picture=${type} title=${descriptor.filename || t(type)} words=${t("elsewhere")} kind="absent" />`
          : html`<${Shown} key=${path} descriptor=${descriptor} path=${path} />`
      }
      ${content.caption && html`<${Written} kind="caption" text=${content.caption} />`}
    </div>
  `;
}

/** A picture or a video; if the browser can't show the picture or video, a plain file. */
class Doubtful extends Component {
  state = { isBroken: false };

  /** @param {any} given @param {{isBroken: boolean}} state */
  render({ descriptor, path, shown }, { isBroken }) {
    return isBroken ? html`<${PlainFile} descriptor=${descriptor} path=${path} />` : shown(() => this.setState({ isBroken: true }));
  }
}

function Picture({ descriptor, path }) {
  const sizes = Object.entries(descriptor.screenshots ?? {})
    .map(([edge, address]) => [Number(edge), ownPath(address)])
    .filter(([, address]) => address !== null);
  const addresses = [...sizes.map(([edge, address]) => `${address} ${edge}w`), `${path} ${descriptor.width || 1024}w`];
  const shown = (fails) => html`
    <button type="button" class="picture" title=${descriptor.filename} onclick=${() => enlarge(descriptor, path, sizes)}>
      <img
        src=${path}
        alt=${descriptor.filename ?? ""}
        loading="lazy"
        srcset=${addresses.join(", ")}
        sizes="320px"
        width=${descriptor.width || undefined}
        height=${descriptor.height || undefined}
        onerror=${fails}
      />
    </button>
  `;
  return html`<${Doubtful} descriptor=${descriptor} path=${path} shown=${shown} />`;
}

function enlarge(descriptor, path, sizes) {
  const facts = [
    descriptor.width && `${number(descriptor.width)} × ${number(descriptor.height)}`,
    bytes(descriptor.filesize ?? 0),
  ];
  return sheet(
    descriptor.filename ?? "",
    (done) => html`
      <img class="enlarged" src=${path} alt="" />
      <div class="facts">${facts.filter(Boolean).join(" · ")}</div>
      <div class="versions">
        ${sizes.map(([edge, address]) => html`<a class="chip" href=${address} target="_blank" rel="noopener">${number(edge)}</a>`)}
        <a class="chip" ...${downloading(descriptor, path)}><${Icon} name="save" size=${16} />${t("download")}</a>
      </div>
      <div class="sheet-actions">
        <button type="button" class="button" autofocus onclick=${() => done(undefined)}>${t("close")}</button>
      </div>
    `,
    { kind: "wide" },
  );
}

const Film = ({ descriptor, path }) => html`
  <${Doubtful}
    descriptor=${descriptor}
    path=${path}
    shown=${(fails) => html`<video src=${path} controls preload="metadata" playsinline onerror=${fails}></video>`}
  />
`;

const Song = ({ descriptor, path }) => html`
  <div class="song">
    <div class="file-name" dir="auto">${descriptor.tags?.title || descriptor.filename || t("audio")}</div>
    ${descriptor.tags?.artist && html`<div class="faint" dir="auto">${descriptor.tags.artist}</div>`}
    <${Player} descriptor=${descriptor} path=${path} />
  </div>
`;

const STEPS = { ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5 };
const MOMENTS = ["onplay", "onpause", "ontimeupdate", "onloadedmetadata", "onended"];

/** An audio player: the browser's own player is too wide for a bubble, and has another style. */
class Player extends Component {
  /** @type {HTMLAudioElement | null} */
  audio = null;

  /** Duration in seconds: the bot's value, until the browser has read the real duration. */
  get length() {
    const own = this.audio?.duration ?? NaN;
    return Number.isFinite(own) ? own : Number(/** @type {any} */ (this.props).descriptor.duration) || 0;
  }

  /** @param {any} given */
  render({ descriptor, path }) {
    const { length } = this;
    const isPaused = this.audio?.paused ?? true;
    const at = this.audio?.currentTime ?? 0;
    const drawsAgain = Object.fromEntries(MOMENTS.map((moment) => [moment, () => this.setState({})]));
    // The track runs from left to right in every language, as on other players.
    return html`
      <div class="player" dir="ltr">
        <button type="button" class="play" title=${t("play")} aria-label=${t("play")} onclick=${this.turn}>
          <${Icon} name=${isPaused ? "play" : "pause"} />
        </button>
        <div
          class="track"
          role="slider"
          aria-label=${t("position")}
          aria-valuemax=${Math.round(length)}
          aria-valuenow=${Math.round(at)}
          aria-valuetext=${stopwatch(at)}
          tabindex="0"
          onkeydown=${this.step}
          onclick=${this.seek}
        >
          <div class="track-done" style=${{ "inline-size": `${length ? (at / length) * 100 : 0}%` }}></div>
        </div>
        <span class="faint digits">${stopwatch(isPaused && !at ? length : at)}</span>
        <audio src=${path} preload="metadata" ref=${(element) => (this.audio = element)} ...${drawsAgain}></audio>
        <${Download} descriptor=${descriptor} path=${path} />
      </div>
    `;
  }

  turn = () => {
    if (this.audio?.paused) this.audio.play().catch(() => toast(t("cantPlay"), { kind: "problem" }));
    else this.audio?.pause();
  };

  step = (event) => {
    const step = STEPS[event.key];
    if (!step || !this.audio) return;
    event.preventDefault();
    this.audio.currentTime = Math.min(Math.max(this.audio.currentTime + step, 0), this.length);
  };

  seek = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    if (this.length && this.audio) this.audio.currentTime = ((event.clientX - box.left) / box.width) * this.length;
  };
}

const PlainFile = ({ descriptor, path }) => html`
  <div class="file">
    <span class="file-icon"><${Icon} name="file" size=${24} /></span>
    <div class="file-words">
      <div class="file-name" dir="auto">${descriptor.filename || t("file")}</div>
      <div class="faint">${bytes(descriptor.filesize ?? 0)}</div>
    </div>
    <${Download} descriptor=${descriptor} path=${path} />
  </div>
`;

const downloading = (descriptor, path) => ({
  href: path,
  download: descriptor.filename ?? "",
  title: t("download"),
  "aria-label": t("download"),
});

const Download = ({ descriptor, path }) => html`
  <a class="icon-button" ...${downloading(descriptor, path)}><${Icon} name="save" /></a>
`;

/** A card: an icon, a title, and words below the title. */
export const Card = ({ picture, title, words, kind = "" }) => html`
  <div class=${`file ${kind}`}>
    <span class="file-icon"><${Icon} name=${picture} size=${24} /></span>
    <div class="file-words">
      <div class="file-name" dir="auto">${title}</div>
      <div class="faint" dir="auto"><bdi>${words}</bdi></div>
    </div>
  </div>
`;

function Location({ lat, long, desc }) {
  // No map is fetched: a pattern of streets, turned by an angle that depends on the location.
  const turn = `${(Math.abs(Number(lat) * 7 + Number(long) * 3) || 0) % 40}deg`;
  return html`
    <div class="place">
      <div class="map" role="img" aria-label=${t("location")} style=${{ "--turn": turn }}><${Icon} name="pin" size=${34} /></div>
      ${desc && html`<div class="place-words file-name"><bdi>${desc}</bdi></div>`}
      <div class="faint digits" dir="ltr">${`${lat}, ${long}`}</div>
    </div>
  `;
}
