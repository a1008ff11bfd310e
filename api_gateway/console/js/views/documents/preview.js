// Preview of a document's chunks. Nothing is stored.
import { html, useRef, useState } from "../../html.js";
import { post } from "../../api.js";
import { bytes, count, pages } from "../../format.js";
import { useAction } from "../../load.js";
import { Chunking, chunkingOf, NO_CHUNKING } from "../../parts/chunking.js";
import { Area, Text } from "../../parts/fields.js";
import { useLimits } from "../../parts/limits.js";
import { Empty, Problem } from "../../parts/states.js";
import { sendForm } from "../../sending.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

export function Preview() {
  const limits = useLimits();
  const [title, setTitle] = useState("");
  const [text, setText] = useState("");
  const [file, setFile] = useState(null);
  const [chunking, setChunking] = useState(NO_CHUNKING);
  const [found, setFound] = useState(null);
  const input = useRef(null);

  const cut = useAction(async () => {
    const wanted = chunkingOf(chunking);
    if (file) {
      const form = new FormData();
      if (title.trim()) form.set("title", title.trim());
      if (wanted) form.set("chunking", JSON.stringify(wanted));
      form.append("file", file, file.name);
      setFound(await sendForm("v1/chunks/preview", form));
    } else {
      const document = { text, ...(title.trim() ? { title: title.trim() } : {}) };
      setFound(await post("v1/chunks/preview", { document, chunking: wanted }));
    }
  });

  function submit(event) {
    event.preventDefault();
    cut.run();
  }

  return html`
    <${Heading} title=${t("nav.preview")} about=${limits.data ? t("preview.about", { most: bytes(limits.data.preview_bytes) }) : ""} />
    <form class="panel form" onSubmit=${submit}>
      <${Text} label=${t("field.title")} value=${title} onInput=${setTitle} />
      ${file
        ? html`<p class="row">${file.name} <button type="button" onClick=${() => setFile(null)}>${t("upload.leave_out")}</button></p>`
        : html`<${Area} label=${t("upload.text_label")} rows="8" value=${text} onInput=${setText} />`}
      <${Chunking} value=${chunking} onInput=${setChunking} />
      ${cut.error && html`<${Problem} error=${cut.error} />`}
      <div class="buttons">
        <button class="primary" disabled=${cut.busy || !(file || text.trim())} aria-busy=${cut.busy}>${t("preview.cut")}</button>
        <button type="button" onClick=${() => input.current.click()}>${t("preview.file")}</button>
        <input ref=${input} type="file" class="visually-hidden" tabindex="-1" aria-label=${t("preview.file")}
          onChange=${(event) => { setFile(event.target.files[0] ?? null); event.target.value = ""; }} />
      </div>
    </form>
    ${found && html`<${Pieces} found=${found} />`}`;
}

function Pieces({ found }) {
  if (!found.chunks.length) return html`<${Empty} title=${t("preview.empty")} />`;
  const parents = new Map((found.parents ?? []).map((parent) => [parent.ordinal, parent]));
  const most = Math.max(...found.chunks.map((chunk) => chunk.token_count));
  const tokens = found.chunks.reduce((sum, chunk) => sum + chunk.token_count, 0);
  return html`<section aria-labelledby="pieces">
    <h2 id="pieces">${t("preview.found", { count: count(found.chunks.length), tokens: count(tokens), strategy: word("chunking", found.chunking.strategy) })}</h2>
    <ol class="pieces">
      ${found.chunks.map((chunk) => html`<li key=${`${chunk.chunk_type}-${chunk.ordinal}`} class="piece">
        <div class="piece-head">
          <b>${chunk.ordinal + 1}</b>
          ${chunk.heading_path.length > 0 && html`<span>${chunk.heading_path.join(" › ")}</span>`}
          ${chunk.page != null && html`<span>${t("chunk.page", { page: pages(chunk) })}</span>`}
          ${parents.has(chunk.parent) && html`<span>${t("preview.parent", { number: chunk.parent + 1, tokens: count(parents.get(chunk.parent).token_count) })}</span>`}
          <span class="spacer"></span>
          <span class="meter" aria-hidden="true"><i style=${{ width: `${(100 * chunk.token_count) / most}%` }}></i></span>
          <span class="number">${t("chunk.tokens", { count: count(chunk.token_count) })}</span>
        </div>
        <p class="passage">${chunk.text}</p>
      </li>`)}
    </ol>
  </section>`;
}
