// The states of a view beside its data: loading, slow, empty, failed.
import { html, useEffect, useState } from "../html.js";
import { t } from "../words.js";
import { Icon } from "./icons.js";
import { announce } from "./notices.js";

/** Renders `children(data)` once there is data; `empty` is shown when `isEmpty(data)`. */
export function Loaded({ of, children, empty, isEmpty = (data) => data.rows?.length === 0, lines = 5 }) {
  if (of.data === undefined) {
    if (of.error) return html`<${Problem} error=${of.error} retry=${of.reload} />`;
    return html`<${Waiting} slow=${of.slow} retry=${of.reload} lines=${lines} />`;
  }
  return html`
    ${of.error && html`<${Problem} error=${of.error} retry=${of.reload} stale />`}
    ${of.slow && html`<p class="note" role="status">${t("state.slow")}</p>`}
    ${isEmpty(of.data) && empty ? empty : children(of.data)}
  `;
}

export function Waiting({ slow, retry, lines = 5 }) {
  return html`
    <div class="waiting" aria-busy="true">
      <p class="visually-hidden" role="status">${t("state.loading")}</p>
      ${slow && html`
        <p class="note" role="status">
          ${t("state.slow")} ${retry && html`<button class="link" onClick=${retry}>${t("action.again")}</button>`}
        </p>`}
      ${Array.from({ length: lines }, (_, place) => html`<div class="skeleton" key=${place}></div>`)}
    </div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<div>${children}</div>`}</div>`;
}

/** A problem as the server described it: title, location, and the request id for its log. */
export function Problem({ error, retry, stale = false }) {
  return html`
    <div class="problem" role="alert">
      <p class="problem-title">
        ${error.title || t("error.unknown")}
        ${error.code && html` <code>${error.code}</code>`}
      </p>
      ${error.message && error.message !== error.title && !toldByFaults(error) && html`<p>${error.message}</p>`}
      ${error.errors?.length > 0 && html`
        <ul class="plain">${error.errors.map((each) => html`
          <li><code>${each.pointer || "/"}</code> ${error.message?.includes(each.detail) ? "" : each.detail}</li>`)}
        </ul>`}
      ${stale && html`<p class="muted">${t("state.stale")}</p>`}
      <p class="problem-foot">
        ${retry && html`<button onClick=${retry}>${t("action.again")}</button>`}
        ${error.requestId && html`<span class="muted">${t("error.request_id")} <${Copyable} text=${error.requestId} /></span>`}
      </p>
    </div>`;
}

/** Whether the sentence is only the first fault in English, beside the faults in the page's language. */
function toldByFaults({ errors, message, detail }) {
  return errors?.length > 0 && message === detail && !errors.some((fault) => message.includes(fault.detail));
}

/** A code that a click copies. */
export function Copyable({ text, shown = text, label = t("action.copy") }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      announce(t("state.copied"));
    } catch {
      announce(t("state.not_copied"));
    }
  }
  return html`<button class="copyable" type="button" title=${`${label}: ${text}`} onClick=${copy}>
    <code>${shown}</code><span class="copy-mark"><${Icon} name=${copied ? "done" : "copy"} /></span>
    <span class="visually-hidden">${label}</span>
  </button>`;
}
