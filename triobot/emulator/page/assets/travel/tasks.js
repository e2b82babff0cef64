// The tabs of the conversation's tasks; nothing for a single task.

import { html } from "../ui.js";
import { t } from "../words.js";

/** @param {{frames: Record<string, any[]>, branch: string, choose: (name: string) => void}} given */
export function Tasks({ frames, branch, choose }) {
  const names = Object.keys(frames).sort();
  if (names.length < 2) return null;
  return html`
    <div class="branches" role="tablist" aria-label=${t("tabBranches")}>
      ${names.map(
        (name) => html`
          <button type="button" key=${name} role="tab" aria-selected=${String(name === branch)} aria-controls="travel-code" onclick=${() => choose(name)}>
            ${name === "" ? t("branchMain") : t("branchOther", { name: frames[name].at(-1)?.[2] ?? name })}
          </button>
        `,
      )}
    </div>
  `;
}
