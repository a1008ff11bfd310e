// One chunk: read it, change its text under its etag, hide it from searches or show it again.
import { html, useState } from "../../html.js";
import { get, put, query } from "../../api.js";
import { count } from "../../format.js";
import { useAction } from "../../load.js";
import { Area } from "../../parts/fields.js";
import { placeOf } from "../../parts/name.js";
import { announce } from "../../parts/notices.js";
import { Copyable, Problem } from "../../parts/states.js";
import { Badge } from "../../parts/table.js";
import { may } from "../../session.js";
import { t, word } from "../../words.js";

export function Chunk({ chunk: first, chosen = false, coloured = false }) {
  const [chunk, setChunk] = useState(first);
  const [draft, setDraft] = useState(null);

  const change = useAction(async (fields) => {
    const sent = { chunk_id: chunk.chunk_id, etag: chunk.etag, ...fields };
    const { data } = await put("v1/chunks", { chunks: [sent] });
    setChunk({ ...chunk, ...fields, etag: data[0].etag ?? chunk.etag });
    setDraft(null);
    announce(data[0].replacement_pending ? t("chunk.saved_pending") : t("chunk.saved"));
  });

  /** The current version after somebody else's change, with the draft kept. */
  const refresh = useAction(async () => {
    const page = await get(`v1/chunks${query({ namespace: chunk.namespace, document_id: chunk.document_id, limit: 200 })}`);
    const now = page.data.find((each) => each.chunk_id === chunk.chunk_id);
    if (now) setChunk(now);
    change.clear();
  });

  function save(event) {
    event.preventDefault();
    change.run({ text: draft });
  }

  const overtaken = change.error?.status === 412 || change.error?.status === 409;
  const kind = ["piece", !chunk.enabled && "off", chosen && "chosen", coloured && `edge c${chunk.ordinal % 4}`].filter(Boolean).join(" ");
  return html`<li class=${kind}>
    <div class="piece-head">
      <b>${chunk.ordinal + 1}</b>
      <${Copyable} text=${chunk.chunk_id} shown=${chunk.chunk_id.slice(0, 8)} label=${t("chunk.copy_id")} />
      ${chunk.heading_path.length > 0 && html`<span>${chunk.heading_path.join(" › ")}</span>`}
      ${chunk.page != null && html`<span>${placeOf(chunk)}</span>`}
      <span>${word("chunk_type", chunk.chunk_type)}</span>
      ${!chunk.enabled && html`<${Badge} of="disabled" label=${t("chunk.hidden")} />`}
      <span class="spacer"></span>
      <span class="number">${t("chunk.tokens", { count: count(chunk.token_count) })}</span>
    </div>
    ${draft === null
      ? html`<p class="passage">${chunk.text}</p>`
      : html`<form onSubmit=${save}>
          <${Area} label=${t("chunk.text")} rows=${Math.min(16, 3 + Math.ceil(draft.length / 90))} value=${draft} onInput=${setDraft} />
          <p class="hint">${t("chunk.edit_hint")}</p>
          <div class="buttons">
            <button class="primary" disabled=${change.busy || refresh.busy || !draft.trim() || draft === chunk.text} aria-busy=${change.busy}>${t("action.save")}</button>
            <button type="button" onClick=${() => { setDraft(null); change.clear(); }}>${t("action.cancel")}</button>
          </div>
        </form>`}
    ${change.error && html`<${Problem} error=${change.error} />`}
    ${overtaken && html`<p class="buttons"><button disabled=${refresh.busy} onClick=${() => refresh.run()}>${t("chunk.take_current")}</button></p>`}
    ${may("write") && draft === null && html`<div class="buttons small">
      <button onClick=${() => setDraft(chunk.text)} aria-label=${`${t("action.edit")}: ${chunk.ordinal + 1}`}>${t("action.edit")}</button>
      <button disabled=${change.busy} onClick=${() => change.run({ enabled: !chunk.enabled })}
        aria-label=${`${chunk.enabled ? t("chunk.hide") : t("chunk.show")}: ${chunk.ordinal + 1}`}>${chunk.enabled ? t("chunk.hide") : t("chunk.show")}</button>
    </div>`}
  </li>`;
}
