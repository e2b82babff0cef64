// Where a person writes: text, files by picker, paste or drop, a recorded voice, a contact, a place.

import { choosePlace } from "./buttons.js";
import { add, fill, h, icon, iconButton } from "./dom.js";
import { bytes } from "./format.js";
import { canRecord, record } from "./recorder.js";
import { confirm, field, menu, sheet, toast, tried } from "./sheet.js";
import { t } from "./words.js";

const KINDS = ["image", "video", "audio", "voice", "file"];
// The control API takes 32 MiB of JSON, and base64 makes four bytes of three.
const LARGEST = 23_000_000;

export function composer(view) {
  const text = h("textarea.compose", {
    rows: 1,
    dir: "auto",
    placeholder: t("write"),
    "aria-label": t("write"),
    enterkeyhint: "send",
  });
  const sending = iconButton("send", t("send"), send, ".send");
  const speaking = canRecord() ? iconButton("mic", t("recordVoice"), speak, ".speak") : null;
  const picker = h("input", {
    type: "file",
    multiple: true,
    hidden: true,
    onchange: () => offer([...picker.files]).then(() => (picker.value = "")),
  });
  const bar = h(
    "div.composer",
    {},
    iconButton("attach", t("attach"), (event) => attach(event.currentTarget)),
    text,
    picker,
    speaking,
    sending,
  );
  const element = bar;

  const grow = () => {
    text.style.setProperty("block-size", "auto");
    text.style.setProperty("block-size", `${Math.min(text.scrollHeight + 2, 160)}px`);
    element.classList.toggle("has-text", text.value.trim() !== "");
  };
  text.addEventListener("input", grow);
  text.addEventListener("keydown", (event) => {
    // While an input method composes, Enter belongs to it.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  text.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      offer([...event.clipboardData.files]);
    }
  });

  async function send() {
    const words = text.value.trim();
    if (!words) return;
    text.value = "";
    grow();
    text.focus();
    if (
      !(await tried(
        () => view.act("say", { text: words, chat: view.chatId }),
        view.element,
      )) &&
      !text.value
    ) {
      text.value = words;
      grow();
    }
  }

  function attach(anchor) {
    const pick = (accept) => () => {
      picker.accept = accept;
      picker.click();
    };
    menu(anchor, [
      [icon("image"), t("imageOrVideo"), pick("image/*,video/*")],
      [icon("audio"), t("audio"), pick("audio/*")],
      [icon("file"), t("file"), pick("")],
      [icon("person"), t("contact"), sendContact],
      [icon("pin"), t("location"), sendPlace],
    ]);
  }

  async function sendContact() {
    const name = h("input", { value: view.user.name, dir: "auto" });
    const phone = h("input.digits", { value: view.user.phone, dir: "ltr", inputmode: "tel" });
    const fields = h("div.fields", {}, field(t("name"), name), field(t("phone"), phone));
    if (!(await confirm(t("contact"), fields, t("send"), { place: view.element }))) return;
    await tried(
      () =>
        view.act("share-contact", {
          phone: phone.value.trim(),
          name: name.value,
          chat: view.chatId,
        }),
      view.element,
    );
  }

  async function sendPlace() {
    const place = await choosePlace(view.element);
    if (place)
      await tried(
        () => view.act("share-location", { ...place, chat: view.chatId }),
        view.element,
      );
  }

  // --- files

  async function offer(files) {
    for (const file of files) {
      if (file.size > LARGEST) {
        toast(t("tooLarge", { size: bytes(LARGEST) }), { place: view.element, kind: "problem" });
        continue;
      }
      const chosen = await askAbout(file);
      if (chosen) await upload(file, chosen.kind, file.name, chosen.caption);
    }
  }

  function askAbout(file) {
    const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : null;
    const ended = sheet(
      t("sendFile"),
      (done) => {
        const kind = h(
          "select",
          {},
          KINDS.map((one) => h("option", { value: one, selected: one === kindOf(file) }, t(one))),
        );
        const caption = h("input", { dir: "auto", autofocus: true });
        const go = () => done({ kind: kind.value, caption: caption.value });
        caption.addEventListener("keydown", (event) => event.key === "Enter" && go());
        return [
          h(
            "div.sheet-body.fields",
            {},
            preview
              ? h("img.preview", { src: preview, alt: "" })
              : h(
                  "div.file",
                  {},
                  h("span.file-icon", {}, icon("file", 24)),
                  h(
                    "div.file-words",
                    {},
                    h("div.file-name", { dir: "auto" }, file.name),
                    h("div.faint", {}, bytes(file.size)),
                  ),
                ),
            field(t("sendAs"), kind),
            field(t("caption"), caption),
          ),
          h(
            "div.sheet-actions",
            {},
            h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
            h("button.button.primary", { type: "button", onclick: go }, t("send")),
          ),
        ];
      },
      { place: view.element },
    );
    return ended.finally(() => preview && URL.revokeObjectURL(preview));
  }

  async function upload(blob, kind, filename, caption) {
    const line = h(
      "div.uploading",
      { role: "status" },
      h("span.spinner"),
      t("uploading", { name: filename }),
    );
    element.before(line);
    await tried(async () => {
      const given = { kind, filename, caption, base64: await base64Of(blob), chat: view.chatId };
      const seconds = await durationOf(blob, kind);
      if (seconds) given.duration = seconds;
      await view.act("media", given);
    }, view.element);
    line.remove();
  }

  view.element.addEventListener("dragover", (event) => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    view.element.classList.add("dropping");
  });
  view.element.addEventListener("dragleave", (event) => {
    if (!view.element.contains(event.relatedTarget)) view.element.classList.remove("dropping");
  });
  view.element.addEventListener("drop", (event) => {
    event.preventDefault();
    view.element.classList.remove("dropping");
    if (view.chat.members.includes(view.userId)) offer([...event.dataTransfer.files]);
  });

  // --- voice

  /** @type {Awaited<ReturnType<typeof record>> | null} */
  let recording = null;

  async function speak() {
    const running = await record().catch(() => null);
    if (!running) return toast(t("noMicrophone"), { place: view.element, kind: "problem" });
    recording = running;
    const time = h("span.digits", {}, running.time());
    const timer = setInterval(() => (time.textContent = running.time()), 250);
    const end = async (send) => {
      clearInterval(timer);
      recording = null;
      const blob = await running.stop();
      fill(bar);
      add(bar, whole);
      if (send) await upload(blob, "voice", `voice.${running.extension}`, "");
    };
    const whole = [...bar.childNodes];
    fill(
      bar,
      iconButton("close", t("cancel"), () => end(false)),
      h("span.recording", {}, h("i"), t("recording")),
      time,
      iconButton("send", t("send"), () => end(true), ".send"),
    );
    element.classList.add("is-recording");
    running.ended.finally(() => element.classList.remove("is-recording"));
  }

  return {
    element,
    focus: () => text.focus({ preventScroll: true }),
    close: () => recording?.stop(),
  };
}

function kindOf(file) {
  // A drawing (SVG) is not a picture to the platform, which shows raster images only.
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

/** How long something plays, in seconds; 0 if the browser can't tell. */
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
