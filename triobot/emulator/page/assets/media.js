// What a message holds besides text. Files come from this server only; what a descriptor says of any other
// address is shown as words.

import { fill, h, icon, linked } from "./dom.js";
import { bytes, number, stopwatch } from "./format.js";
import { sheet, toast } from "./sheet.js";
import { t } from "./words.js";
import { ownPath } from "./world.js";

// A browser lays out a text of a megabyte for many seconds; nobody reads that in a bubble.
const LONGEST = 8_000;
const BEGINNING = 4_000;

const shownWhole = new WeakSet();

/** The content of a message, and whether it fills its bubble to the rim. */
export function contentOf(content) {
  switch (content.type) {
    case "text":
      return written("text", content.text, content);
    case "contact":
      return card("person", content.name || t("contact"), content.phone, "contact");
    case "location":
      return place(content);
    default:
      return media(content);
  }
}

/** A text with its links: of a long one the beginning, and the rest in pieces when somebody asks for it. */
function written(kind, text, content) {
  if (text.length <= LONGEST) return h(`div.${kind}`, { dir: "auto" }, linked(text));
  const holder = h(`div.${kind}`, { dir: "auto" });
  const begin = () =>
    fill(
      holder,
      linked(startOf(text, BEGINNING)),
      "… ",
      h(
        "button.show-all",
        { type: "button", onclick: () => (shownWhole.add(content), whole()) },
        t("showAll", { count: number(text.length) }),
      ),
    );
  const whole = () =>
    fill(holder, pieces(text).map((piece) => h("div.piece", { dir: "auto" }, linked(piece))));
  if (shownWhole.has(content)) whole();
  else begin();
  return holder;
}

/** The beginning of a text, which ends between two letters and not within one. */
function startOf(text, length) {
  return text.slice(0, length).replace(/[\uD800-\uDBFF]$/, "");
}

/** A text in pieces that a browser lays out one by one, as they come into sight; cut at ends of lines or words. */
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

/** One line for a list of chats. */
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

function media(content) {
  const { descriptor, type } = content;
  const path = ownPath(descriptor.path);
  const caption = content.caption && written("caption", content.caption, content);
  if (path === null) {
    return h("div.media", {}, card(type, descriptor.filename || t(type), t("elsewhere"), "absent"), caption);
  }
  const shown = { image: picture, video: film, audio: song, voice: speech }[type] ?? plainFile;
  return h("div.media", { class: `media-${type}` }, shown(descriptor, path), caption);
}

function picture(descriptor, path) {
  const sizes = Object.entries(descriptor.screenshots ?? {})
    .map(([edge, address]) => [Number(edge), ownPath(address)])
    .filter(([, address]) => address !== null);
  const image = h("img", {
    src: path,
    alt: descriptor.filename ?? "",
    loading: "lazy",
    srcset: sizes
      .map(([edge, address]) => `${address} ${edge}w`)
      .concat(`${path} ${descriptor.width || 1024}w`)
      .join(", "),
    sizes: "320px",
    width: descriptor.width || undefined,
    height: descriptor.height || undefined,
  });
  image.addEventListener("error", () => image.replaceWith(plainFile(descriptor, path)));
  return h(
    "button.picture",
    { type: "button", title: descriptor.filename, onclick: () => enlarge(descriptor, path, sizes) },
    image,
  );
}

function enlarge(descriptor, path, sizes) {
  const facts = [
    descriptor.width && `${number(descriptor.width)} × ${number(descriptor.height)}`,
    bytes(descriptor.filesize ?? 0),
  ];
  return sheet(
    descriptor.filename ?? "",
    (done) => [
      h("img.enlarged", { src: path, alt: "" }),
      h("div.facts", {}, facts.filter(Boolean).join(" · ")),
      h(
        "div.versions",
        {},
        sizes.map(([edge, address]) =>
          h("a.chip", { href: address, target: "_blank", rel: "noopener" }, number(edge)),
        ),
        download(descriptor, path, true),
      ),
      h(
        "div.sheet-actions",
        {},
        h("button.button", { type: "button", autofocus: true, onclick: () => done(undefined) }, t("close")),
      ),
    ],
    { kind: "wide" },
  );
}

function film(descriptor, path) {
  const video = h("video", { src: path, controls: true, preload: "metadata", playsinline: true });
  video.addEventListener("error", () => video.replaceWith(plainFile(descriptor, path)));
  return video;
}

function song(descriptor, path) {
  const tags = descriptor.tags ?? {};
  return h(
    "div.song",
    {},
    h("div.file-name", { dir: "auto" }, tags.title || descriptor.filename || t("audio")),
    tags.artist && h("div.faint", { dir: "auto" }, tags.artist),
    player(descriptor, path),
  );
}

const speech = (descriptor, path) => player(descriptor, path);

// The browser's own player is too wide for a bubble, and looks like nothing else here.
function player(descriptor, path) {
  const audio = h("audio", { src: path, preload: "metadata" });
  const button = h(
    "button.play",
    { type: "button", title: t("play"), "aria-label": t("play") },
    icon("play"),
  );
  const done = h("div.track-done");
  const track = h("div.track", { role: "slider", "aria-label": t("position"), tabindex: 0 }, done);
  const time = h("span.faint.digits", {}, descriptor.duration ? stopwatch(descriptor.duration) : "");
  const length = () => (Number.isFinite(audio.duration) ? audio.duration : Number(descriptor.duration) || 0);

  button.onclick = () => {
    if (audio.paused) audio.play().catch(() => toast(t("cantPlay"), { kind: "problem" }));
    else audio.pause();
  };
  track.onkeydown = (event) => {
    const step = { ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5 }[event.key];
    if (!step) return;
    event.preventDefault();
    audio.currentTime = Math.min(Math.max(audio.currentTime + step, 0), length());
  };
  track.onclick = (event) => {
    const box = track.getBoundingClientRect();
    if (length()) audio.currentTime = ((event.clientX - box.left) / box.width) * length();
  };
  function show() {
    button.replaceChildren(icon(audio.paused ? "play" : "pause"));
    done.style.setProperty("inline-size", `${length() ? (audio.currentTime / length()) * 100 : 0}%`);
    track.setAttribute("aria-valuemax", Math.round(length()));
    track.setAttribute("aria-valuenow", Math.round(audio.currentTime));
    track.setAttribute("aria-valuetext", stopwatch(audio.currentTime));
    time.textContent = stopwatch(audio.paused && !audio.currentTime ? length() : audio.currentTime);
  }
  for (const moment of ["play", "pause", "timeupdate", "loadedmetadata", "ended"])
    audio.addEventListener(moment, show);
  show();
  // Time runs from left to right here in every language, as it does on players.
  return h("div.player", { dir: "ltr" }, button, track, time, audio, download(descriptor, path));
}

function plainFile(descriptor, path) {
  return h(
    "div.file",
    {},
    h("span.file-icon", {}, icon("file", 24)),
    h(
      "div.file-words",
      {},
      h("div.file-name", { dir: "auto" }, descriptor.filename || t("file")),
      h("div.faint", {}, bytes(descriptor.filesize ?? 0)),
    ),
    download(descriptor, path),
  );
}

function download(descriptor, path, withWords = false) {
  return h(
    withWords ? "a.chip" : "a.icon-button",
    { href: path, download: descriptor.filename ?? "", title: t("download"), "aria-label": t("download") },
    icon("save", withWords ? 16 : 20),
    withWords && t("download"),
  );
}

function card(picture, title, words, kind) {
  return h(
    "div.file",
    { class: kind },
    h("span.file-icon", {}, icon(picture, 24)),
    h(
      "div.file-words",
      {},
      h("div.file-name", { dir: "auto" }, title),
      h("div.faint", { dir: "auto" }, h("bdi", {}, words)),
    ),
  );
}

function place({ lat, long, desc }) {
  const map = h("div.map", { role: "img", "aria-label": t("location") }, icon("pin", 34));
  // No map is fetched: streets of nowhere, that differ from place to place.
  map.style.setProperty("--turn", `${(Math.abs(Number(lat) * 7 + Number(long) * 3) || 0) % 40}deg`);
  return h(
    "div.place",
    {},
    map,
    desc && h("div.place-words.file-name", {}, h("bdi", {}, desc)),
    h("div.faint.digits", { dir: "ltr" }, `${lat}, ${long}`),
  );
}
