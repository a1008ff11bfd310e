// Another chunking of a stored document: its present chunks beside those it would have, then ingesting it like that.
import { html, useState } from "../../html.js";
import { patch, post } from "../../api.js";
import { count } from "../../format.js";
import { useAction } from "../../load.js";
import { Chunking, chunkingOf, NO_CHUNKING } from "../../parts/chunking.js";
import { Check } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Problem } from "../../parts/states.js";
import { go } from "../../router.js";
import { t, word } from "../../words.js";

const SHOWN = 50;

export function Recut({ document, current }) {
  const [chunking, setChunking] = useState(NO_CHUNKING);
  const [found, setFound] = useState(null);
  const [discard, setDiscard] = useState(false);
  const stored = { namespace: document.namespace, document_id: document.document_id };
  const wanted = chunkingOf(chunking);
  const set = (next) => { setChunking(next); setFound(null); };

  const preview = useAction(async () => setFound(await post("v1/chunks/preview", { ...stored, chunking: wanted })));
  const recut = useAction(async () => {
    const { strategy, ...options } = found.chunking;
    const job = await patch("v1/documents", {
      namespace: stored.namespace, document_ids: [stored.document_id], chunking: { strategy, ...options }, discard_edits: discard,
    });
    announce(t("document.accepted"));
    go("jobs", job.job_id);
  });
  const searched = current.filter((chunk) => chunk.searched);
  return html`
    <form class="form" onSubmit=${(event) => { event.preventDefault(); preview.run(); }}>
      <p class="about">${t("document.recut_about")}</p>
      <${Chunking} value=${chunking} onInput=${set} />
      <div class="buttons">
        <button class=${found ? "" : "primary"} disabled=${preview.busy} aria-busy=${preview.busy}>${t("preview.cut")}</button>
        ${found && html`<button type="button" class="primary" disabled=${recut.busy} aria-busy=${recut.busy} onClick=${() => recut.run()}>${t("document.recut_do")}</button>
          <${Check} label=${t("documents.discard")} checked=${discard} onInput=${setDiscard} />`}
      </div>
    </form>
    ${preview.error && html`<${Problem} error=${preview.error} />`}
    ${recut.error && html`<${Problem} error=${recut.error} />`}
    ${found && html`<div class="sides results">
      <${Side} title=${t("document.now")} chunking=${document.chunking} total=${document.chunks} chunks=${searched} />
      <${Side} title=${t("document.then")} chunking=${found.chunking} total=${found.chunks.length} chunks=${found.chunks} />
    </div>`}`;
}

function Side({ title, chunking, total, chunks }) {
  const sizes = chunks.map((chunk) => chunk.token_count);
  const sum = sizes.reduce((all, size) => all + size, 0);
  return html`<section class="side-result">
    <h3 class="side-title">${title}: ${word("chunking", chunking.strategy)}</h3>
    <p class="summary"><span><b>${count(total)}</b> ${t("field.chunks")}</span>
      ${sizes.length > 0 && html`<span>${t("document.sizes", { mean: count(Math.round(sum / sizes.length)), most: count(Math.max(...sizes)) })}</span>`}</p>
    <ol class="pieces">${chunks.slice(0, SHOWN).map((chunk) => html`<li class="piece" key=${chunk.ordinal}>
      <div class="piece-head"><b>${chunk.ordinal + 1}</b>${chunk.heading_path.length > 0 && html`<span>${chunk.heading_path.join(" › ")}</span>`}
        <span class="spacer"></span><span class="number">${t("chunk.tokens", { count: count(chunk.token_count) })}</span></div>
      <p class="passage">${chunk.text}</p></li>`)}</ol>
    ${total > Math.min(chunks.length, SHOWN) && html`<p class="hint">${t("document.first", { count: count(Math.min(chunks.length, SHOWN)) })}</p>`}
  </section>`;
}
