// One document: its properties, its chunks, its generations.
import { html, useState } from "../html.js";
import { get, post, segment, send } from "../api.js";
import { ago, bytes, count, moment } from "../format.js";
import { useAction, useLoad, usePages } from "../load.js";
import { Confirm } from "../parts/dialog.js";
import { announce } from "../parts/notices.js";
import { Empty, Loaded } from "../parts/states.js";
import { Badge, Facts, More, Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { go, link } from "../router.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t, word } from "../words.js";
import { Chunk } from "./chunk.js";

export function Document({ parts: [namespace, id] }) {
  const path = `v1/documents/${segment(id)}`;
  const found = useLoad((signal) => get(`${path}?namespace=${segment(namespace)}`, { signal }), [namespace, id]);
  const chunks = usePages("v1/chunks", { namespace, document_id: id });
  const again = () => { found.reload(); chunks.reload(); };
  return html`
    <${Heading} title=${found.data?.title || id} back=${[link("documents", namespace), namespace]} />
    <${Loaded} of=${found}>
      ${(document) => html`
        <section class="panel">
          <${Facts} of=${[
            [t("field.document_id"), html`<code>${document.document_id}</code>`],
            [t("field.generation"), document.generation ?? t("documents.not_shown")],
            [t("field.chunks"), count(document.chunks)],
            [t("field.type"), document.type],
            document.tags.length > 0 && [t("field.tags"), document.tags.join(", ")],
            document.author && [t("field.author"), document.author],
            document.published_at && [t("field.published"), moment(document.published_at)],
            document.source?.uri && [t("field.source"), html`<code>${document.source.uri}</code>`],
            [t("field.updated"), html`<time title=${moment(document.updated_at)}>${ago(document.updated_at)}</time>`],
          ]} />
          ${Object.keys(document.metadata).length > 0 && html`
            <details><summary>${t("field.metadata")}</summary><pre>${JSON.stringify(document.metadata, null, 2)}</pre></details>`}
        </section>`}
    <//>
    <${Tabs} label=${id} tabs=${[
      { id: "chunks", label: t("field.chunks"), note: found.data && count(found.data.chunks), panel: () => html`
        <${Loaded} of=${chunks} empty=${html`<${Empty} title=${t("chunk.none")} />`}>
          ${(data) => html`<ol class="pieces">${data.rows.map((chunk) => html`<${Chunk} key=${chunk.chunk_id} chunk=${chunk} />`)}</ol>
            <${More} pages=${chunks} />`}
        <//>` },
      { id: "generations", label: t("document.generations"), panel: () => html`<${Generations} path=${path} namespace=${namespace} again=${again} />` },
    ]} />`;
}

function Generations({ path, namespace }) {
  const [back, setBack] = useState(null);
  const found = useLoad(async (signal) => {
    const { body, headers } = await send("GET", `${path}/generations?namespace=${segment(namespace)}`, { signal });
    return { ...body, etag: headers.get("ETag") ?? body.etag };
  }, [path, namespace]);
  const rollback = useAction(async (generation) => {
    const accepted = await post(`${path}/rollback`, { namespace, generation }, { headers: { "If-Match": found.data.etag } });
    announce(t("document.rolling_back"));
    go("jobs", accepted.job_id);
  });
  const columns = [
    { key: "number", label: t("field.generation"), main: true, render: (each) => `${each.generation}` },
    { key: "state", label: t("field.status"), render: (each) => html`<${Badge} of=${each.state} label=${word("generation", each.state)} />` },
    { key: "title", label: t("field.title"), render: (each) => each.title ?? "–" },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "size", label: t("field.size"), numeric: true, render: (each) => bytes(each.bytes) },
    { key: "created", label: t("field.created"), render: (each) => html`<time title=${moment(each.created_at)}>${ago(each.created_at)}</time>` },
    { key: "kept", label: t("document.kept_until"), render: (each) => (each.kept_until ? moment(each.kept_until) : "–") },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: (each) => each.state === "previous" && html`
      <button onClick=${() => setBack(each)} aria-label=${`${t("document.rollback")}: ${each.generation}`}>${t("document.rollback")}</button>` },
  ].filter(Boolean);
  return html`
    <p class="about">${t("document.generations_about")}</p>
    <${Loaded} of=${found} isEmpty=${(data) => !data.data.length} empty=${html`<${Empty} title=${t("document.no_generations")} />`}>
      ${(data) => html`<${Table} caption=${t("document.generations")} columns=${columns} rows=${data.data} rowKey=${(each) => each.generation} />`}
    <//>
    ${back && html`<${Confirm} title=${t("document.rollback_title", { number: back.generation })} confirm=${t("document.rollback")}
      action=${rollback} args=${[back.generation]} danger=${false} close=${() => setBack(null)}><p>${t("document.rollback_text")}</p><//>`}`;
}
