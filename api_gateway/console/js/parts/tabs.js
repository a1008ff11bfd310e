// Tabs after the ARIA pattern: arrow keys move between them, the panel is labelled by its tab.
import { html, useId, useRef, useState } from "../html.js";

/** `tabs`: `{id, label, note, panel()}`. */
export function Tabs({ label, tabs, first = tabs[0]?.id }) {
  const [chosen, setChosen] = useState(first);
  const list = useRef(null);
  const base = useId();
  const current = tabs.find((tab) => tab.id === chosen) ?? tabs[0];

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = tabs.indexOf(current);
    const next = Number.isFinite(step) ? (at + step + tabs.length) % tabs.length : step > 0 ? tabs.length - 1 : 0;
    setChosen(tabs[next].id);
    list.current.querySelectorAll("[role=tab]")[next].focus();
  }

  return html`
    <div class="tabs">
      <div class="tab-list" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
        ${tabs.map((tab) => html`
          <button key=${tab.id} type="button" role="tab" id=${`${base}-${tab.id}`} aria-controls=${`${base}-panel`}
            aria-selected=${tab === current} tabindex=${tab === current ? 0 : -1} onClick=${() => setChosen(tab.id)}>
            ${tab.label}${tab.note != null && html`<span class="tab-note">${tab.note}</span>`}
          </button>`)}
      </div>
      <div class="tab-panel" role="tabpanel" id=${`${base}-panel`} aria-labelledby=${`${base}-${current.id}`} tabindex="0">
        ${current.panel()}
      </div>
    </div>`;
}
