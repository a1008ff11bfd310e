// Tables that become cards on narrow screens; the roles are said aloud because cards are no tables to a browser.
import { html } from "../html.js";
import { t } from "../words.js";
import { Problem } from "./states.js";

/** `columns`: `{key, label, render(row), numeric, main, actions, wide, roomy}`; `main` is the cell that names its row. */
export function Table({ caption, columns, rows, rowKey, rowClass = () => "" }) {
  return html`
    <div class="table-frame">
      <table class="table" role="table">
        <caption class="visually-hidden">${caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            ${columns.map((column) => html`
              <th key=${column.key} role="columnheader" scope="col" class=${kind(column)}>
                ${column.head ?? (column.actions ? html`<span class="visually-hidden">${column.label}</span>` : column.label)}
              </th>`)}
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${rows.map((row) => html`
            <tr key=${rowKey(row)} role="row" class=${rowClass(row)}>
              ${columns.map((column) => column.main
                ? html`<th key=${column.key} role="rowheader" scope="row" class=${kind(column)}>${column.render(row)}</th>`
                : html`<td key=${column.key} role="cell" class=${kind(column)} data-label=${column.label}>${column.render(row)}</td>`)}
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

const kind = (column) => [column.numeric && "numeric", column.actions && "actions", column.main && "main", column.wide && "wide", column.roomy && "roomy"].filter(Boolean).join(" ");

export function More({ pages }) {
  return html`
    ${pages.moreError && html`<${Problem} error=${pages.moreError} />`}
    ${pages.data.next && html`
      <p class="more">
        <button onClick=${pages.more} disabled=${pages.loadingMore} aria-busy=${pages.loadingMore}>
          ${pages.loadingMore ? t("state.loading") : t("action.more")}
        </button>
      </p>`}`;
}

/** Name and value pairs, as a description list. */
export function Facts({ of }) {
  return html`<dl class="facts">
    ${of.filter(Boolean).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value ?? "–"}</dd></div>`)}
  </dl>`;
}

const TONES = {
  succeeded: "good", ok: "good", ready: "good", shown: "good", enabled: "good",
  running: "busy", queued: "busy", publishing: "busy", pending: "busy",
  partly_failed: "warn", paused: "warn", degraded: "warn", unknown: "warn", warning: "warn", timeout: "warn", disabled: "warn",
  failed: "bad", down: "bad", not_ready: "bad", rejected: "bad", gave_up: "bad", bug: "bad",
};

export function Badge({ of, label, tone = TONES[of] ?? "plain" }) {
  return html`<span class=${`badge ${tone}`}>${label}</span>`;
}
