// Quotas with their use, as bars.
import { html } from "../html.js";
import { bytes, count } from "../format.js";
import { t } from "../words.js";

export const QUOTAS = ["documents", "chunks", "queued", "tokens"]; // that a tenant may have of its own
const SHOWN = [...QUOTAS, "answer_bytes"];

/** `use`: by name `{limit, used}`; a limit of null is none. */
export function QuotaBars({ use }) {
  return html`<div class="quotas">${SHOWN.map((name) => {
    const { limit, used } = use[name];
    const share = limit ? Math.min(1, used / limit) : 0;
    const shown = name === "answer_bytes" ? bytes : count;
    const text = limit == null ? t("quota.unlimited", { used: shown(used) }) : t("quota.of", { used: shown(used), limit: shown(limit) });
    return html`<div class="quota" key=${name}>
      <div class="row between"><b>${t(`quota.${name}`)}</b><span class=${share >= 1 ? "number bad-text" : "number"}>${text}</span></div>
      <div class="progress-bar" role="meter" aria-label=${t(`quota.${name}`)} aria-valuemin="0" aria-valuemax=${limit ?? used} aria-valuenow=${Math.min(used, limit ?? used)} aria-valuetext=${text}>
        <span class=${`part ${share >= 0.9 ? "bad" : "good"}`} style=${{ width: `${100 * share}%` }}></span>
      </div>
    </div>`;
  })}</div>`;
}
