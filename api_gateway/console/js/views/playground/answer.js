// The chunks of an answer for a reader, and the context for a prompt.
import { html } from "../../html.js";
import { count, percent, score } from "../../format.js";
import { Contributions, Figures, sumOf } from "../../parts/bars.js";
import { Copyable, Empty } from "../../parts/states.js";
import { Name, Origin } from "../../parts/name.js";
import { Passage } from "../../parts/passage.js";
import { link } from "../../router.js";
import { t, word } from "../../words.js";
import { Rate } from "./rate.js";
import { idOf, Written } from "./written.js";

const SURE = 0.4; // the fallback's threshold where a trace does not say another
const EVEN = 0.5; // what a confidence of null counts as in a threshold

export function Answer({ answer, other, writes }) {
  const { chunks } = answer;
  if (answer.status === "failed") return html`<${Empty} title=${t("play.failed")}><p>${t("play.failed_text")}</p><//>`;
  if (!chunks.length) return html`<${Empty} title=${t("play.nothing_found")}><p>${t("play.nothing_found_text")}</p><//>`;
  const most = Math.max(...chunks.map((chunk) => sumOf(chunk.sources)));
  const places = other && new Map(other.chunks.map((chunk, place) => [chunk.chunk_id, place + 1]));
  const best = Math.max(...chunks.map((chunk) => chunk.confidence ?? EVEN));
  const untold = chunks.every((chunk) => chunk.confidence == null);
  const limit = answer.trace?.plan?.fallback?.threshold ?? SURE;
  return html`
    ${best < limit && html`<p class="note warn unsure" role="status"><strong>${t("sure.not")}</strong> ${t("sure.not_text", { best: percent(best), limit: percent(limit) })}</p>`}
    ${untold && html`<p class="note unsure" role="status">${t("sure.untold")}</p>`}
    ${writes && html`<${Written} answer=${answer} />`}
    <details class="hint scales"><summary>${t("sure.scales")}</summary><p>${t("sure.score")}</p><p>${t("sure.confidence")}</p></details>
    <ol class="hits">
    ${chunks.map((chunk, place) => html`<li key=${chunk.chunk_id} class="hit" id=${idOf(answer, chunk.chunk_id)} tabindex="-1">
      <div class="hit-head">
        <span class="place">${place + 1}</span>
        <a class="title" href=${link("documents", chunk.namespace, chunk.document_id)}><${Name} text=${titleOf(chunk)} /></a>
        ${places && html`<${Moved} here=${place + 1} there=${places.get(chunk.chunk_id)} />`}
        <span class="spacer"></span>
        <span class="scale">${t("play.score")} <b class="number">${score(chunk.score)}</b></span>
        ${chunk.confidence != null && html`<span class=${`scale ${chunk.confidence < limit ? "low" : "high"}`}>${t("play.confidence")}
          <span class="meter" aria-hidden="true"><i style=${{ width: `${100 * chunk.confidence}%` }}></i></span> <b class="number">${percent(chunk.confidence)}</b></span>`}
      </div>
      <${Origin} of=${chunk} title=${titleOf(chunk)} />
      <${Contributions} parts=${chunk.sources} most=${most} />
      <p class="meta">
        <${Figures} parts=${chunk.sources} />
        ${chunk.feedback != null && html`<span>${t("play.feedback")} <span class="number">${score(chunk.feedback)}</span></span>`}
        ${chunk.decay != null && html`<span>${t("play.decayed")} <span class="number">× ${score(factor(chunk.decay))}</span></span>`}
        ${chunk.rerank && html`<span>${t("play.reranked", { from: chunk.rerank.from_rank })} <span class="number">${score(chunk.rerank.score)}</span></span>`}
      </p>
      <${Passage} text=${chunk.text} marks=${chunk.highlights ?? []} />
      <div class="hit-foot"><span class="muted">${chunk.namespace}</span>
        <${Rate} queryId=${answer.query_id} chunkId=${chunk.chunk_id} name=${titleOf(chunk)} />
        <${Copyable} text=${chunk.chunk_id} shown=${chunk.chunk_id.slice(0, 8)} label=${t("chunk.copy_id")} /></div>
    </li>`)}
  </ol>`;
}

const titleOf = (chunk) => chunk.title || chunk.document_id;

const factor = (decay) => (typeof decay === "object" ? decay.factor : decay);

/** The rank of the same chunk on the other side. */
function Moved({ here, there }) {
  if (there === undefined) return html`<span class="moved only">${t("play.only_here")}</span>`;
  if (there === here) return html`<span class="moved same" title=${t("play.same_place")}>=</span>`;
  const text = t("play.there", { place: there });
  return html`<span class="moved" title=${text}><span aria-hidden="true">${there > here ? "↑" : "↓"}${Math.abs(there - here)}</span>
    <span class="visually-hidden">${text}</span></span>`;
}

/** The text in the form of a prompt. `chunks`: the hits, which know the headings of the citations' passages. */
export function Context({ context, chunks }) {
  if (!context?.text) return html`<${Empty} title=${t("play.no_context")} />`;
  const headings = new Map(chunks.map((chunk) => [chunk.chunk_id, chunk.metadata.heading_path]));
  return html`
    <p class="summary"><b class="number">${t("chunk.tokens", { count: count(context.token_count) })}</b>
      <span>${t("play.citations", { count: count(context.citations.length) })}</span>
      <${Copyable} text=${context.text} shown=${t("play.copy_context")} /></p>
    <pre class="context" tabindex="0">${context.text}</pre>
    ${context.citations.length > 0 && html`<ul class="plain lines">
      ${context.citations.map((each) => html`<li key=${each.marker}><code>${each.marker}</code>
        <a href=${link("documents", each.namespace, each.document_id)}><${Name} text=${titleOf(each)} /></a>
        <${Origin} of=${{ ...each, heading_path: headings.get(each.chunk_id) }} title=${titleOf(each)} /></li>`)}
    </ul>`}
    ${context.entities?.length > 0 && html`<p class="muted">${word("play", "entities")}: ${context.entities.map((each) => each.name ?? each).join(", ")}</p>`}`;
}
