// Native forms. What was typed is kept here, so that it outlives the redrawing of its message; what was sent, the
// platform knows, also after a reload or in another tab.

import { h, icon } from "./dom.js";
import { number } from "./format.js";
import { sheet, toast, tried } from "./sheet.js";
import { t } from "./words.js";

const drafts = new Map();

/** The form of a message; null without one. */
export function formOf(message, view) {
  if (!message.form?.length) return null;
  const sent = message.filled?.[view.user.id];
  // A branch has messages of the same numbers.
  const key = JSON.stringify([view.branch, view.user.id, message.id, sent]);
  if (!drafts.has(key)) drafts.set(key, { ...(sent ?? startingValues(message.form)) });
  const values = drafts.get(key);
  const submits = message.form.filter((field) => field.type === "submit");
  const element = h(
    "form.native-form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        submit(message, values, view, element);
      },
    },
    message.form
      .filter((field) => field.type !== "submit")
      .map((field) => fieldOf(field, values, message, view)),
    (submits.length ? submits : [{ label: t("send") }]).map((button) =>
      h("button.button.primary.submit", { type: "submit" }, h("span", { dir: "auto" }, button.label)),
    ),
    message.submitted > 0 &&
      h("div.faint.sent", {}, icon("check", 14), t("sentTimes", { count: number(message.submitted) })),
  );
  return element;
}

function startingValues(fields) {
  const values = {};
  for (const { type, name, value } of fields) {
    if ((type === "text" || type === "textarea") && value) values[name] = value;
  }
  return values;
}

async function submit(message, values, view, element) {
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  const button = element.querySelector(".submit");
  button.disabled = true;
  await tried(
    () => view.act("submit", { values: given, message: message.id, chat: view.chat.id }),
    view.element,
  );
  button.disabled = false;
}

function fieldOf(field, values, message, view) {
  const set = (value) => (values[field.name] = value);
  const label = h("span.form-label", { dir: "auto" }, field.label);
  switch (field.type) {
    case "textarea":
      return h(
        "label.form-field",
        {},
        label,
        h("textarea", {
          rows: 3,
          dir: "auto",
          name: field.name,
          value: values[field.name] ?? "",
          oninput: (event) => set(event.target.value),
        }),
      );
    case "select":
      return h(
        "label.form-field",
        {},
        label,
        h(
          "select",
          { name: field.name, onchange: (event) => set(event.target.value) },
          h("option", { value: "", selected: !values[field.name] }, "—"),
          field.options.map((option) =>
            h("option", { value: option.value, selected: values[field.name] === option.value }, option.label),
          ),
        ),
      );
    case "radio":
      return h(
        "fieldset.form-field",
        {},
        h("legend", {}, label),
        field.options.map((option) =>
          // Its box stands where the label begins, in whatever language the bot speaks.
          h(
            "label.check",
            { dir: "auto" },
            h("input", {
              type: "radio",
              // A browser's radio group is its name: two panes, or two messages, must not share one.
              name: `${view.user.id}-${message.id}-${field.name}`,
              value: option.value,
              checked: values[field.name] === option.value,
              onchange: () => set(option.value),
            }),
            h("span", {}, option.label),
          ),
        ),
      );
    case "checkbox":
      return h(
        "label.form-field.check",
        { dir: "auto" },
        h("input", {
          type: "checkbox",
          name: field.name,
          checked: Boolean(values[field.name]),
          onchange: (event) => set(event.target.checked ? "true" : ""),
        }),
        h("span.form-label", {}, field.label),
      );
    case "inbuilt":
      return readerField(field, label, values, set, view);
    default:
      return h(
        "label.form-field",
        {},
        label,
        h("input", {
          type: "text",
          dir: "auto",
          name: field.name,
          value: values[field.name] ?? "",
          oninput: (event) => set(event.target.value),
        }),
      );
  }
}

function readerField(field, label, values, set, view) {
  const input = h("input.digits", {
    type: "text",
    dir: "auto",
    name: field.name,
    placeholder: t(field.value),
    value: values[field.name] ?? "",
    oninput: (event) => set(event.target.value),
  });
  const open = async () => {
    const code = await readCode(field.value, view.element);
    if (code) set((input.value = code));
  };
  const button = h(
    "button.icon-button",
    { type: "button", title: t("readCode"), "aria-label": t("readCode"), onclick: open },
    icon("code"),
  );
  return h("label.form-field", {}, label, h("div.with-button", {}, input, button));
}

/** A code out of a picture, where the browser can read it, or typed in. */
function readCode(reader, place) {
  return sheet(
    t(reader),
    (done) => {
      const typed = h("input.digits", { dir: "auto", autofocus: true, "aria-label": t(reader) });
      const picked = h("input", {
        type: "file",
        accept: "image/*",
        onchange: () => fromPicture(picked.files[0], reader).then((code) => code && done(code)),
      });
      return [
        h(
          "div.sheet-body.fields",
          {},
          h("p", {}, t("typeCode")),
          typed,
          "BarcodeDetector" in window
            ? h("label.field", {}, h("span", {}, t("codeFromPicture")), picked)
            : h("p.faint", {}, t("noDetector")),
        ),
        h(
          "div.sheet-actions",
          {},
          h("button.button", { type: "button", onclick: () => done(undefined) }, t("cancel")),
          h("button.button.primary", { type: "button", onclick: () => done(typed.value.trim()) }, t("ok")),
        ),
      ];
    },
    { place },
  );
}

async function fromPicture(file, reader) {
  try {
    const options = reader === "qrcode" ? { formats: ["qr_code"] } : undefined;
    const { BarcodeDetector } = /** @type {any} */ (window);
    const found = await new BarcodeDetector(options).detect(await createImageBitmap(file));
    if (found.length) return found[0].rawValue;
  } catch {
    // The browser has the class, and no reader behind it; the answer is the same.
  }
  toast(t("noCode"), { kind: "problem" });
  return null;
}
