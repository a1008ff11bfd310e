// An answer in words, with its citations linked to the hits below.
import { html, useState } from "../../html.js";
import { post, segment } from "../../api.js";
import { milliseconds } from "../../format.js";
import { useAction } from "../../load.js";
import { Problem, Waiting } from "../../parts/states.js";
import { t } from "../../words.js";
import { Degradations } from "./side.js";

/** The id of a hit's element, to go to from a citation. */
export const idOf = (answer, chunkId) => `hit-${answer.query_id}-${chunkId}`;

export function Written({ answer }) {
  const [written, setWritten] = useState(null);
  const write = useAction(async () => setWritten(await post(`v1/queries/${segment(answer.query_id)}/answer`, {})));
  const places = new Map(answer.chunks.map((chunk, at) => [chunk.chunk_id, at + 1]));

  function cite(marker) {
    const citation = written.citations.find((each) => each.marker === marker);
    if (!citation) return marker;
    const place = places.get(citation.chunk_id) ?? marker.slice(1, -1);
    return html`<button type="button" class="link cite" title=${citation.title || citation.document_id}
      aria-label=${t("written.hit", { place })} onClick=${() => show(idOf(answer, citation.chunk_id))}>[${place}]</button>`;
  }

  return html`<section class="written" aria-label=${t("written.title")}>
    <div class="buttons"><button type="button" onClick=${() => write.run()} disabled=${write.busy} aria-busy=${write.busy}>
      ${written ? t("written.again") : t("written.do")}</button>
      ${written && html`<span class="muted">${written.model} · ${milliseconds(written.latency_ms)}</span>`}</div>
    ${write.busy && html`<${Waiting} lines=${2} />`}
    ${write.error && html`<${Problem} error=${write.error} retry=${() => write.run()} />`}
    ${written && !write.busy && html`<div role="status">
      ${written.text == null
        ? html`<${Degradations} of=${written.degradations} title=${t("written.none")} />`
        : html`${written.found === false && html`<p class="note warn">${t("written.not_found")}</p>`}
          ${written.text.split(/\n+/).map((line, at) => html`<p key=${at} class="passage">${line.split(/(\[\d+\])/).map((part) => (/^\[\d+\]$/.test(part) ? cite(part) : part))}</p>`)}
          ${written.dropped_markers.length > 0 && html`<p class="hint">${t("written.dropped", { markers: written.dropped_markers.join(" ") })}</p>`}`}
    </div>`}
  </section>`;
}

function show(id) {
  const hit = document.getElementById(id);
  hit?.scrollIntoView({ block: "center" });
  hit?.focus({ preventScroll: true });
}
