// An answer in words: shown as it is written, then with its citations linked to the hits below.
import { html, useEffect, useRef, useState } from "../../html.js";
import { segment } from "../../api.js";
import { postForEvents } from "../../events.js";
import { milliseconds } from "../../format.js";
import { useAction } from "../../load.js";
import { Problem, Waiting } from "../../parts/states.js";
import { t } from "../../words.js";
import { Degradations } from "./side.js";

/** The id of a hit's element, to go to from a citation. */
export const idOf = (answer, chunkId) => `hit-${answer.query_id}-${chunkId}`;

export function Written({ answer }) {
  const [written, setWritten] = useState(null);
  const [draft, setDraft] = useState("");
  const [stopped, setStopped] = useState(false);
  const request = useRef(null);
  useEffect(() => () => request.current?.abort(), []);
  const write = useAction(async () => {
    const { signal } = (request.current = new AbortController());
    setWritten(null);
    setDraft("");
    setStopped(false);
    try {
      const onEvent = (name, { delta = "" }) => setDraft((text) => text + delta);
      setWritten(await postForEvents(`v1/queries/${segment(answer.query_id)}/answer`, {}, { signal, onEvent }));
    } catch (error) {
      if (!signal.aborted) throw error;
      setStopped(true);
    }
  });
  const places = new Map(answer.chunks.map((chunk, at) => [chunk.chunk_id, at + 1]));

  function cite(marker) {
    const citation = written.citations.find((each) => each.marker === marker);
    if (!citation) return marker;
    const place = places.get(citation.chunk_id) ?? marker.slice(1, -1);
    return html`<button type="button" class="link cite" title=${citation.title || citation.document_id}
      aria-label=${t("written.hit", { place })} onClick=${() => show(idOf(answer, citation.chunk_id))}>[${place}]</button>`;
  }

  return html`<section class="written" aria-label=${t("written.title")}>
    <div class="buttons">${write.busy
      ? html`<button type="button" onClick=${() => request.current.abort()}>${t("written.stop")}</button>`
      : html`<button type="button" onClick=${() => write.run()}>${written || draft || stopped ? t("written.again") : t("written.do")}</button>`}
      ${written && html`<span class="muted">${written.model} · ${milliseconds(written.latency_ms)}</span>`}</div>
    ${write.busy && !draft && html`<${Waiting} lines=${2} />`}
    <div role="status" aria-busy=${write.busy}>
      ${!written && draft && html`<${Lines} text=${draft} />`}
      ${!written && !write.busy && (draft || stopped) && html`<p class="hint">${stopped ? t("written.stopped") : t("written.unchecked")}</p>`}
      ${written && (written.text == null
        ? html`<${Degradations} of=${written.degradations} title=${t("written.none")} />`
        : html`${written.found === false && html`<p class="note warn">${t("written.not_found")}</p>`}
          <${Lines} text=${written.text} cite=${cite} />
          ${written.dropped_markers.length > 0 && html`<p class="hint">${t("written.dropped", { markers: written.dropped_markers.join(" ") })}</p>`}`)}
    </div>
    ${write.error && html`<${Problem} error=${write.error} retry=${() => write.run()} />`}
  </section>`;
}

function Lines({ text, cite = (marker) => marker }) {
  return text.split(/\n+/).map((line, at) => html`<p key=${at} class="passage">${line.split(/(\[\d+\])/).map((part) => (/^\[\d+\]$/.test(part) ? cite(part) : part))}</p>`);
}

export function show(id) {
  const hit = document.getElementById(id);
  hit?.scrollIntoView({ block: "center" });
  hit?.focus({ preventScroll: true });
}
