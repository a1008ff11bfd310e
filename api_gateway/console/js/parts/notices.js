// Short messages about completed actions, read by screen readers too.
import { html, useEffect } from "../html.js";
import { session } from "../session.js";
import { createStore, useStore } from "../store.js";

const notice = createStore(null);
const SHOWN_MS = 6000;
session.subscribe((who) => { if (!who) notice.set(null); }); // it may name a document

/** Show a message. */
export const announce = (text) => notice.set({ text, at: Date.now() });

export function Notices() {
  const current = useStore(notice);
  useEffect(() => {
    if (!current) return undefined;
    const timer = setTimeout(() => notice.set(null), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [current]);
  return html`<div class="notices" role="status" aria-live="polite">
    ${current && html`<p class="notice" key=${current.at}>${current.text}</p>`}
  </div>`;
}
