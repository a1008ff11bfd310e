// The chunks of an answer for a reader, and the context for a prompt.
import { html } from "../../html.js";
import { count, pages, score } from "../../format.js";
import { Contributions, Figures, sumOf } from "../../parts/bars.js";
import { Copyable, Empty } from "../../parts/states.js";
import { link } from "../../router.js";
import { t, word } from "../../words.js";

export function Answer({ answer, other }) {
  if (answer.status === "failed") return html`<${Empty} title=${t("play.failed")}><p>${t("play.failed_text")}</p><//>`;
  if (!answer.chunks.length) return html`<${Empty} title=${t("play.nothing_found")}><p>${t("play.nothing_found_text")}</p><//>`;
  const most = Math.max(...answer.chunks.map((chunk) => sumOf(chunk.sources)));
  const places = other && new Map(other.chunks.map((chunk, place) => [chunk.chunk_id, place + 1]));
  return html`<ol class="hits">
    ${answer.chunks.map((chunk, place) => html`<li key=${chunk.chunk_id} class="hit">
      <div class="hit-head">
        <span class="place">${place + 1}</span>
        <a class="title" href=${link("documents", chunk.namespace, chunk.document_id)}>${chunk.title || chunk.document_id}</a>
        ${places && html`<${Moved} here=${place + 1} there=${places.get(chunk.chunk_id)} />`}
        <span class="spacer"></span>
        <b class="number" title=${t("play.score")}>${score(chunk.score)}</b>
      </div>
      <${Contributions} parts=${chunk.sources} most=${most} />
      <p class="meta">
        <${Figures} parts=${chunk.sources} />
        ${chunk.feedback != null && html`<span>${t("play.feedback")} <span class="number">${score(chunk.feedback)}</span></span>`}
        ${chunk.decay != null && html`<span>${t("play.decayed")} <span class="number">× ${score(factor(chunk.decay))}</span></span>`}
        ${chunk.rerank && html`<span>${t("play.reranked", { from: chunk.rerank.from_rank })} <span class="number">${score(chunk.rerank.score)}</span></span>`}
        ${chunk.confidence != null && html`<span>${t("play.confidence")} <span class="number">${score(chunk.confidence, 2)}</span></span>`}
      </p>
      <${Passage} text=${chunk.text} marks=${chunk.highlights ?? []} />
      <p class="hit-foot"><span class="muted">${chunk.namespace}</span> <${Copyable} text=${chunk.chunk_id} shown=${chunk.chunk_id.slice(0, 8)} label=${t("chunk.copy_id")} /></p>
    </li>`)}
  </ol>`;
}

const factor = (decay) => (typeof decay === "object" ? decay.factor : decay);

/** The rank of the same chunk on the other side. */
function Moved({ here, there }) {
  if (there === undefined) return html`<span class="moved only">${t("play.only_here")}</span>`;
  if (there === here) return html`<span class="moved same" title=${t("play.same_place")}>=</span>`;
  const text = t("play.there", { place: there });
  return html`<span class="moved" title=${text}><span aria-hidden="true">${there > here ? "↑" : "↓"}${Math.abs(there - here)}</span>
    <span class="visually-hidden">${text}</span></span>`;
}

const LONGEST = 300; // code points of a passage before the rest is folded away

/** The text with the matching words marked; offsets count Unicode code points, as the API's do. */
export function Passage({ text, marks }) {
  const points = Array.from(text);
  const inside = marks.filter((mark) => mark.start < mark.end && mark.end <= points.length);
  const cut = points.length > LONGEST;
  const draw = (end) => {
    const parts = [];
    let at = 0;
    for (const mark of inside) {
      if (mark.start < at || mark.start >= end) continue;
      parts.push(points.slice(at, mark.start).join(""), html`<mark>${points.slice(mark.start, Math.min(mark.end, end)).join("")}</mark>`);
      at = Math.min(mark.end, end);
    }
    return [...parts, points.slice(at, end).join("")];
  };
  if (!cut) return html`<p class="passage">${draw(points.length)}</p>`;
  return html`<details class="long">
    <summary><span class="passage short-text">${draw(LONGEST)}…</span><span class="more-text">${t("play.whole_text")}</span></summary>
    <p class="passage">${draw(points.length)}</p>
  </details>`;
}

/** The text in the form of a prompt. */
export function Context({ context }) {
  if (!context?.text) return html`<${Empty} title=${t("play.no_context")} />`;
  return html`
    <p class="summary"><b class="number">${t("chunk.tokens", { count: count(context.token_count) })}</b>
      <span>${t("play.citations", { count: count(context.citations.length) })}</span>
      <${Copyable} text=${context.text} shown=${t("play.copy_context")} /></p>
    <pre class="context" tabindex="0">${context.text}</pre>
    ${context.citations.length > 0 && html`<ul class="plain lines">
      ${context.citations.map((each) => html`<li key=${each.marker}><code>${each.marker}</code>
        <a href=${link("documents", each.namespace, each.document_id)}>${each.title || each.document_id}</a>
        ${each.page != null && html` <span class="muted">${t("chunk.page", { page: pages(each) })}</span>`}</li>`)}
    </ul>`}
    ${context.entities?.length > 0 && html`<p class="muted">${word("play", "entities")}: ${context.entities.map((each) => each.name ?? each).join(", ")}</p>`}`;
}
