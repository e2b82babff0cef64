// The text field of a chat: a person writes texts and shares files (chosen, pasted or dropped), contacts and locations.

import { bytes } from "./format.js";
import { Card } from "./media.js";
import { choosePlace } from "./places.js";
import { menu, sheet, toast, tried } from "./sheet.js";
import { Asking, Field, html, Icon, IconButton } from "./ui.js";
import { Component } from "./vendor/preact.mjs";
import { t } from "./words.js";

const KINDS = ["image", "video", "audio", "voice", "file"];
// Maximum bytes of a file: the control API accepts 32 MiB of JSON, and base64 turns three bytes into four.
const LARGEST = 23_000_000;
// Maximum height of the text field in pixels; a longer text scrolls.
const TALLEST = 160;

/** @typedef {{uploads: string[]}} State */

/**
 * `view` is the pane: {chatId, userId, chat, user, act, element}; a file may be dropped anywhere on `element`. For a
 * person who has left the chat, the composer is `hidden`, and keeps the draft. `begun(composer)` is called once.
 */
export class Composer extends Component {
  /** @type {State} */
  state = { uploads: [] };
  /** @type {HTMLTextAreaElement | null} */
  text = null;
  /** @type {HTMLInputElement | null} */
  picker = null;

  get view() {
    return /** @type {any} */ (this.props).view;
  }

  /** @param {any} given @param {State} state */
  render({ hidden }, { uploads }) {
    return html`
      ${uploads.map((name) => html`<div class="uploading" role="status"><span class="spinner"></span>${t("uploading", { name })}</div>`)}
      <div class="composer" hidden=${hidden}>
        <${IconButton} name="attach" title=${t("attach")} onclick=${(event) => this.attach(event.currentTarget)} />
        <textarea
          class="compose"
          rows="1"
          dir="auto"
          placeholder=${t("write")}
          aria-label=${t("write")}
          enterkeyhint="send"
          ref=${(element) => (this.text = element)}
          oninput=${this.grow}
          onkeydown=${this.onKey}
          onpaste=${this.onPaste}
        ></textarea>
        <${IconButton} name="send" title=${t("send")} more="send" onclick=${this.send} />
        <input type="file" multiple hidden ref=${(element) => (this.picker = element)} onchange=${this.pick} />
      </div>
    `;
  }

  componentDidMount() {
    const { element } = this.view;
    /** @type {any} */ (this.props).begun(this);
    element.addEventListener("dragover", this.onDragOver);
    element.addEventListener("dragleave", this.onDragLeave);
    element.addEventListener("drop", this.onDrop);
    const words = this.view.branch ? null : sessionStorage.getItem(this.key);
    if (!words || !this.text) return;
    this.text.value = words;
    this.grow();
  }

  componentWillUnmount() {
    const { element } = this.view;
    element.removeEventListener("dragover", this.onDragOver);
    element.removeEventListener("dragleave", this.onDragLeave);
    element.removeEventListener("drop", this.onDrop);
  }

  focus() {
    this.text?.focus({ preventScroll: true });
  }

  // --- text

  grow = () => {
    const { text } = this;
    if (!text) return;
    this.keep(text.value);
    text.style.setProperty("block-size", "auto");
    text.style.setProperty("block-size", `${Math.min(text.scrollHeight + 2, TALLEST)}px`);
  };

  get key() {
    return `triobot-typed ${this.view.chatId} ${this.view.userId}`;
  }

  /** Store the draft for a reload; a branch's draft isn't stored. */
  keep(words) {
    if (this.view.branch) return;
    if (words) sessionStorage.setItem(this.key, words);
    else sessionStorage.removeItem(this.key);
  }

  onKey = (event) => {
    // While an input method composes a letter, Enter belongs to the input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.send();
  };

  onPaste = (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    this.offer([...event.clipboardData.files]);
  };

  send = async () => {
    const { text, view } = this;
    const words = text?.value.trim();
    if (!text || !words) return;
    text.value = "";
    this.grow();
    text.focus();
    const isSaid = await tried(() => view.act("say", { text: words, chat: view.chatId }), view.element);
    if (isSaid || text.value) return;
    text.value = words;
    this.grow();
  };

  // --- attachments

  attach(anchor) {
    const pick = (accept) => () => {
      if (!this.picker) return;
      this.picker.accept = accept;
      this.picker.click();
    };
    menu(anchor, [
      [html`<${Icon} name="image" />`, t("imageOrVideo"), pick("image/*,video/*")],
      [html`<${Icon} name="audio" />`, t("audio"), pick("audio/*")],
      [html`<${Icon} name="file" />`, t("file"), pick("")],
      [html`<${Icon} name="person" />`, t("contact"), this.sendContact],
      [html`<${Icon} name="pin" />`, t("location"), this.sendPlace],
    ]);
  }

  sendContact = async () => {
    const { view } = this;
    const contact = await sheet(
      t("contact"),
      (done) => html`
        <${Asking} give=${({ name, phone }) => done({ name, phone: phone.trim() })} cancel=${() => done(undefined)} yes=${t("send")} ready>
          <${Field} label=${t("name")}><input name="name" dir="auto" value=${view.user.name} /><//>
          <${Field} label=${t("phone")}><input name="phone" class="digits" dir="ltr" inputmode="tel" value=${view.user.phone} /><//>
        <//>
      `,
      { place: view.element },
    );
    if (contact) await tried(() => view.act("share-contact", { ...contact, chat: view.chatId }), view.element);
  };

  sendPlace = async () => {
    const { view } = this;
    const place = await choosePlace(view.element);
    if (place) await tried(() => view.act("share-location", { ...place, chat: view.chatId }), view.element);
  };

  // --- files

  pick = async () => {
    if (!this.picker) return;
    await this.offer([...(this.picker.files ?? [])]);
    this.picker.value = "";
  };

  onDragOver = (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    this.view.element.classList.add("dropping");
  };

  onDragLeave = (event) => {
    if (!this.view.element.contains(event.relatedTarget)) this.view.element.classList.remove("dropping");
  };

  onDrop = (event) => {
    event.preventDefault();
    this.view.element.classList.remove("dropping");
    if (this.view.chat.members.includes(this.view.userId)) this.offer([...event.dataTransfer.files]);
  };

  async offer(files) {
    for (const file of files) {
      if (file.size > LARGEST) {
        toast(t("tooLarge", { size: bytes(LARGEST) }), { place: this.view.element, kind: "problem" });
        continue;
      }
      const chosen = await askAbout(file, this.view.element);
      if (chosen) await this.upload(file, chosen.kind, file.name, chosen.caption);
    }
  }

  async upload(blob, kind, filename, caption) {
    const { view } = this;
    this.setState(({ uploads }) => ({ uploads: [...uploads, filename] }));
    await tried(async () => {
      const given = { kind, filename, caption, base64: await base64Of(blob), chat: view.chatId };
      const seconds = await durationOf(blob, kind);
      await view.act("media", seconds ? { ...given, duration: seconds } : given);
    }, view.element);
    this.setState(({ uploads }) => ({ uploads: uploads.toSpliced(uploads.indexOf(filename), 1) }));
  }
}

/** Ask for the kind and the caption of a file. */
function askAbout(file, place) {
  const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : null;
  const ended = sheet(
    t("sendFile"),
    (done) => html`
      <${Asking} give=${done} cancel=${() => done(undefined)} yes=${t("send")}>
        ${preview ? html`<img class="preview" src=${preview} alt="" />` : html`<${Card} picture="file" title=${file.name} words=${bytes(file.size)} />`}
        <${Field} label=${t("sendAs")}>
          <select name="kind">
            ${KINDS.map((one) => html`<option value=${one} selected=${one === kindOf(file)}>${t(one)}</option>`)}
          </select>
        <//>
        <${Field} label=${t("caption")}><input name="caption" dir="auto" autofocus /><//>
      <//>
    `,
    { place },
  );
  return ended.finally(() => preview && URL.revokeObjectURL(preview));
}

function kindOf(file) {
  // An SVG drawing is sent as a file: the platform shows raster images only.
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return "image";
  if (file.type.startsWith("video/")) return "video";
  return file.type.startsWith("audio/") ? "audio" : "file";
}

function base64Of(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(new Error(t("cantRead")));
    reader.readAsDataURL(blob);
  });
}

/** Return the duration of a video or sound in seconds; 0 for other kinds, or if the browser can't read the duration. */
function durationOf(blob, kind) {
  if (!["video", "audio", "voice"].includes(kind)) return 0;
  const url = URL.createObjectURL(blob);
  const player = document.createElement(kind === "video" ? "video" : "audio");
  return new Promise((resolve) => {
    const end = (seconds) => (
      URL.revokeObjectURL(url),
      resolve(Number.isFinite(seconds) ? Math.round(seconds * 10) / 10 : 0)
    );
    player.onloadedmetadata = () => end(player.duration);
    player.onerror = () => end(0);
    setTimeout(() => end(0), 2_000);
    player.src = url;
  });
}
