// The original beside its chunks: the text in parts with the chunks coloured in it, or the pages of a PDF file as images.
import { html, useEffect, useMemo, useRef, useState } from "../../html.js";
import { get, query, segment, send } from "../../api.js";
import { save } from "../../download.js";
import { count } from "../../format.js";
import { useLoad } from "../../load.js";
import { Segments } from "../../parts/fields.js";
import { Empty, Loaded } from "../../parts/states.js";
import { t } from "../../words.js";
import { Chunk } from "./chunk.js";

const PART = 9000; // characters of the text at a time
const MOST = 200; // chunks beside them, as many as one request gives
const FURTHEST = 10_000; // chunks that a list can leave out
const WIDTH = 1400; // pixels of a page image

export function Original({ document, path }) {
  const found = useLoad((signal) => get(`${path}/text?namespace=${segment(document.namespace)}`, { signal }), [path, document.generation]);
  const [way, setWay] = useState("text");
  const isPdf = document.source.media_type === "application/pdf";
  return html`<${Loaded} of=${found} isEmpty=${(data) => !data.text} empty=${html`<${Empty} title=${t("chunk.none")} />`}>
    ${(data) => html`
      <div class="row between">
        ${isPdf ? html`<${Segments} label=${t("document.original")} value=${way} onInput=${setWay}
          options=${[["text", t("document.as_text")], ["pages", t("document.as_pages")]]} />` : html`<p class="about">${t("document.original_about")}</p>`}
        <button onClick=${() => save(new Blob([data.text], { type: "text/plain" }), `${document.document_id.split("/").pop()}.txt`)}>${t("document.download_text")}</button>
      </div>
      ${way === "pages" ? html`<${Pages} data=${data} path=${path} />` : html`<${Parts} data=${data} />`}`}
  <//>`;
}

function Parts({ data }) {
  // Positions count code points, strings of JavaScript units of 16 bits: they differ beside an emoji.
  const characters = useMemo(() => (/[\ud800-\udfff]/.test(data.text) ? Array.from(data.text) : null), [data.text]);
  const slice = (start, end) => (characters ? characters.slice(start, end).join("") : data.text.slice(start, end));
  const length = characters ? characters.length : data.text.length;
  const parts = useMemo(() => partsOf(data.chunks, length), [data, length]);
  const [part, setPart] = useState(0);
  const [chosen, setChosen] = useState(null);
  const { start, end, from, to } = parts[part];
  return html`
    ${parts.length > 1 && html`<${Turn} at=${part + 1} of=${parts.length} label=${t("document.part")} onTurn=${(next) => setPart(next - 1)} />`}
    <div class="reader">
      <div class="original" role="region" aria-label=${t("document.as_text")} tabindex="0">
        ${runsOf(data.chunks, from, to, start, end).map((run) => html`<${Run} key=${run.start} run=${run} text=${slice(run.start, run.end)} chosen=${chosen} choose=${setChosen} />`)}
      </div>
      <${Beside} data=${data} from=${from} to=${to} chosen=${chosen} />
    </div>`;
}

/** Parts of the text, each with the range of chunks that it touches: short ones, and never more chunks than one request gives. */
function partsOf(chunks, length) {
  const parts = [];
  let from = 0;
  for (let start = 0; start < length; start = parts.at(-1).end) {
    while (from < chunks.length && chunks[from].end <= start) from += 1;
    let end = Math.min(length, start + PART);
    let to = from;
    while (to < chunks.length && to - from < MOST && chunks[to].start < end) to += 1;
    if (to - from === MOST && chunks[to]?.start > start) end = Math.min(end, chunks[to].start);
    const last = chunks[to - 1];
    if (last?.end > end && last.start > start + PART / 2) end = last.start; // rather than cut it in two
    while (to > from && chunks[to - 1].start >= end) to -= 1;
    parts.push({ start, end, from, to });
  }
  return parts.length ? parts : [{ start: 0, end: length, from: 0, to: 0 }];
}

/** Stretches of a part with the numbers of the chunks that hold them. */
function runsOf(chunks, from, to, start, end) {
  const inside = chunks.slice(from, to).filter((chunk) => chunk.end > start && chunk.start < end);
  const edges = [...new Set([start, end, ...inside.flatMap((chunk) => [chunk.start, chunk.end]).filter((at) => at > start && at < end)])].sort((a, b) => a - b);
  return edges.slice(0, -1).map((at, place) => ({
    start: at, end: edges[place + 1],
    held: inside.filter((chunk) => chunk.start <= at && chunk.end >= edges[place + 1]),
    begins: inside.filter((chunk) => Math.max(chunk.start, start) === at),
  }));
}

function Run({ run, text, chosen, choose }) {
  const [first] = run.held;
  const last = run.held.at(-1);
  if (!first) return html`<span>${text}</span>`;
  const kind = ["span", `c${last.ordinal % 4}`, run.held.length > 1 && "both", !last.enabled && "off", run.held.some((each) => each.chunk_id === chosen) && "chosen"];
  return html`${run.begins.map((chunk) => html`<button key=${chunk.chunk_id} type="button" class="span-mark" aria-label=${t("document.show_chunk", { number: chunk.ordinal + 1 })}
      onClick=${() => choose(chunk.chunk_id)}>${chunk.ordinal + 1}</button>`)}<span class=${kind.filter(Boolean).join(" ")}
      title=${run.held.map((each) => each.ordinal + 1).join(" + ")} onClick=${() => choose(last.chunk_id)}>${text}</span>`;
}

/** The chunks of a range, with all that can be done with them. */
function Beside({ data, from, to, chosen }) {
  const list = useRef(null);
  const place = { namespace: data.namespace, document_id: data.document_id, offset: data.parents + from, limit: Math.max(1, to - from) };
  const tooFar = place.offset > FURTHEST;
  const found = useLoad(async (signal) => (to > from && !tooFar ? (await get(`v1/chunks${query(place)}`, { signal })).data : []), [from, to, data]);
  useEffect(() => {
    list.current?.querySelector(".chosen")?.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }, [chosen]);
  if (tooFar) return html`<p class="hint">${t("document.too_far", { count: count(FURTHEST) })}</p>`;
  return html`<div class="beside" ref=${list}>
    <${Loaded} of=${found} isEmpty=${(rows) => !rows.length} empty=${html`<${Empty} title=${t("document.no_chunk_here")} />`}>
      ${(rows) => html`<ol class="pieces">${rows.map((chunk) => html`<${Chunk} key=${chunk.chunk_id} chunk=${chunk} chosen=${chunk.chunk_id === chosen} coloured />`)}</ol>`}
    <//></div>`;
}

function Pages({ data, path }) {
  const [page, setPage] = useState(1);
  const [pages, setPages] = useState(null);
  const image = useLoad(async (signal) => {
    const { body, headers } = await send("GET", `${path}/pages/${page}${query({ namespace: data.namespace, width: WIDTH })}`, { signal, blob: true, headers: { Accept: "image/png" } });
    setPages(Number(headers.get("X-Pages")));
    return createImageBitmap(body);
  }, [path, page]);
  const on = data.chunks.map((chunk, at) => (chunk.page <= page && (chunk.page_end ?? chunk.page) >= page ? at : -1)).filter((at) => at >= 0);
  return html`
    ${pages > 1 && html`<${Turn} at=${page} of=${pages} label=${t("document.page")} onTurn=${setPage} />`}
    <div class="reader">
      <${Loaded} of=${image} isEmpty=${() => false} lines=${9}>${(bitmap) => html`<${Picture} bitmap=${bitmap} label=${t("chunk.page", { page })} />`}<//>
      <${Beside} data=${data} from=${on[0] ?? 0} to=${on.length ? Math.min(on.at(-1) + 1, on[0] + MOST) : 0} />
    </div>`;
}

/** An image without an address, which the page's policy would have to allow. */
function Picture({ bitmap, label }) {
  const canvas = useRef(null);
  useEffect(() => {
    Object.assign(canvas.current, { width: bitmap.width, height: bitmap.height });
    canvas.current.getContext("2d").drawImage(bitmap, 0, 0);
  }, [bitmap]);
  return html`<canvas class="page-image" ref=${canvas} role="img" aria-label=${label}></canvas>`;
}

function Turn({ at, of, label, onTurn }) {
  return html`<nav class="turn" aria-label=${label}>
    <button disabled=${at <= 1} onClick=${() => onTurn(at - 1)}>${t("document.before")}</button>
    <label>${label} <input type="number" min="1" max=${of} value=${at} onChange=${(event) => {
      const next = Number(event.target.value);
      if (next >= 1 && next <= of) onTurn(Math.round(next)); else event.target.value = at;
    }} /></label> <span class="muted">/ ${count(of)}</span>
    <button disabled=${at >= of} onClick=${() => onTurn(at + 1)}>${t("document.after")}</button>
  </nav>`;
}
