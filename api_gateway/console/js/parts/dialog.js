// A confirmation before an irreversible action. The browser's own dialog keeps the focus inside.
import { html, useEffect, useId, useRef } from "../html.js";
import { t } from "../words.js";
import { Problem } from "./states.js";

/** `action` is a `useAction`; the dialog closes on success. */
export function Confirm({ title, children, confirm, action, close, danger = true, ready = true, args = [] }) {
  const dialog = useRef(null);
  const heading = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    // A dialog that is removed without being closed loses the focus.
    return () => (before?.isConnected ? before : document.getElementById("main"))?.focus();
  }, []);
  async function yes() {
    if (await action.run(...args)) close();
  }
  return html`
    <dialog ref=${dialog} aria-labelledby=${heading} onClose=${close} onCancel=${close}>
      <h2 id=${heading}>${title}</h2>
      <div>${children}</div>
      ${action.error && html`<${Problem} error=${action.error} />`}
      <div class="buttons end">
        <button type="button" onClick=${close}>${t("action.cancel")}</button>
        <button type="button" class=${danger ? "danger" : "primary"} disabled=${action.busy || !ready} aria-busy=${action.busy} onClick=${yes}>
          ${confirm}
        </button>
      </div>
    </dialog>`;
}
