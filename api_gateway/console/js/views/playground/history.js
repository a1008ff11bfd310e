// The questions of this tab, to ask again. In memory only, and cleared on sign-out.
import { html } from "../../html.js";
import { ago } from "../../format.js";
import { session } from "../../session.js";
import { createStore, useStore } from "../../store.js";
import { t } from "../../words.js";

const MOST = 50;
const drafts = createStore([]);
session.subscribe((who) => { if (!who) drafts.set([]); });

const same = ({ at, ...draft }) => JSON.stringify(draft);

export function remember(draft) {
  const entry = { ...draft, at: new Date().toISOString() };
  drafts.set([entry, ...drafts.get().filter((each) => same(each) !== same(entry))].slice(0, MOST));
}

export function History({ again }) {
  const entries = useStore(drafts);
  if (!entries.length) return null;
  return html`<details class="fold history">
    <summary>${t("ask.history")} <span class="tab-note">${entries.length}</span></summary>
    <ul class="plain lines">${entries.map(({ at, ...draft }) => html`<li key=${at}>
      <button type="button" class="link" title=${t("ask.again")} onClick=${() => again(draft)}>${draft.text}</button>
      <span class="under">${[ago(at), draft.chosen ? draft.chosen.slice(0, 3).join(", ") + (draft.chosen.length > 3 ? " …" : "") : t("documents.all_namespaces"), draft.two && t("play.two")].filter(Boolean).join(" · ")}</span></li>`)}
    </ul>
  </details>`;
}
