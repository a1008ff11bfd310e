// One document: its properties and what can be done with it; its chunks, original, generations and likenesses.
import { html, useState } from "../../html.js";
import { get, patch, remove, segment } from "../../api.js";
import { TEXT_NAMES } from "../../document_fields.js";
import { download } from "../../download.js";
import { ago, bytes, count, moment } from "../../format.js";
import { useAction, useLoad, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Check } from "../../parts/fields.js";
import { DocumentName, Name } from "../../parts/name.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Facts, More, Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { warningsOf } from "../../parts/warnings.js";
import { go, link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";
import { Chunk } from "./chunk.js";
import { State } from "./documents.js";
import { percentOf } from "./duplicates.js";
import { Fields } from "./fields.js";
import { Generations } from "./generations.js";
import { Original } from "./original.js";
import { Recut } from "./recut.js";

export function Document({ parts: [namespace, id] }) {
  const path = `v1/documents/${segment(id)}`;
  const here = `?namespace=${segment(namespace)}`;
  const found = useLoad((signal) => get(path + here, { signal }), [namespace, id]);
  const chunks = usePages("v1/chunks", { namespace, document_id: id });
  const [asking, setAsking] = useState(null);
  const [discard, setDiscard] = useState(false);

  const load = useAction(() => download(`${path}/original${here}`));
  const drop = useAction(async () => {
    await remove(path + here);
    announce(t("documents.removed", { document: id }));
    go("documents", namespace);
  });
  const again = useAction(async () => {
    const job = await patch("v1/documents", { namespace, document_ids: [id], discard_edits: discard });
    announce(t("document.accepted"));
    go("jobs", job.job_id);
  });
  const ask = (what) => { drop.clear(); again.clear(); setAsking(what); };

  return html`
    <${Heading} title=${found.data?.title || id} back=${[link("documents", namespace), namespace]}>
      ${found.data && html`
        <button onClick=${() => load.run()} disabled=${load.busy} aria-busy=${load.busy}>${t("document.download")}</button>
        ${may("write") && html`
          <button onClick=${() => ask("again")}>${t("documents.again")}</button>
          <button class="danger-text" onClick=${() => ask("drop")}>${t("documents.remove")}</button>`}`}
    <//>
    ${load.error && html`<${Problem} error=${load.error} />`}
    <${Loaded} of=${found}>${(document) => html`<${About} document=${document} />`}<//>
    ${found.data && html`<${Tabs} label=${id} tabs=${[
      { id: "chunks", label: t("field.chunks"), note: count(found.data.chunks), panel: () => html`
        <${Loaded} of=${chunks} empty=${html`<${Empty} title=${t("chunk.none")} />`}>
          ${(data) => html`<ol class="pieces">${data.rows.map((chunk) => html`<${Chunk} key=${chunk.chunk_id} chunk=${chunk} />`)}</ol>
            <${More} pages=${chunks} />`}
        <//>` },
      { id: "original", label: t("document.original"), panel: () => html`<${Original} document=${found.data} path=${path} />` },
      may("write") && { id: "fields", label: t("document.fields"), panel: () => html`<${Fields} document=${found.data} path=${path} again=${found.reload} />` },
      may("write") && { id: "recut", label: t("document.recut"), panel: () => html`<${Recut} document=${found.data} current=${chunks.data?.rows ?? []} />` },
      { id: "generations", label: t("document.generations"), panel: () => html`<${Generations} path=${path} namespace=${namespace} />` },
      { id: "similar", label: t("document.similar"), panel: () => html`<${Similar} path=${path} namespace=${namespace} />` },
    ].filter(Boolean)} />`}
    ${asking === "drop" && html`<${Confirm} title=${t("documents.remove_title")} confirm=${t("documents.remove")} action=${drop} close=${() => setAsking(null)}>
      <p>${t("documents.remove_text", { document: id, namespace })}</p><//>`}
    ${asking === "again" && html`<${Confirm} title=${t("documents.again_title", { count: 1 })} confirm=${t("documents.again")} action=${again} danger=${false}
      close=${() => setAsking(null)}><p>${t("documents.again_text")}</p>
      <${Check} label=${t("documents.discard")} checked=${discard} onInput=${setDiscard} /><//>`}`;
}

function About({ document }) {
  const { source, chunking: { strategy, ...options } } = document;
  return html`<section class="panel">
    <${Facts} of=${[
      [t("field.document_id"), html`<code><${Name} text=${document.document_id} /></code>`],
      [t("field.status"), html`<${State} of=${document} />`],
      [t("field.generation"), document.generation ?? t("documents.not_shown")],
      [t("field.size"), bytes(document.bytes)],
      [t("document.format"), html`${source.media_type}${source.encoding && `, ${source.encoding}`}`],
      source.page_end && [t("document.pages"), count(source.page_end)],
      [t("chunking.strategy"), html`${word("chunking", strategy)} <span class="hint">${Object.entries(options).map(([name, value]) => `${name} ${value}`).join(", ")}</span>`],
      ...TEXT_NAMES.map((name) => document[name] && [t(`field.${name}`), document[name]]),
      document.tags.length > 0 && [t("field.tags"), document.tags.join(", ")],
      [t("field.readers"), document.readers.join(", ")],
      document.published_at && [t("field.published"), moment(document.published_at)],
      source.uri && [t("field.source"), html`<code><${Name} text=${source.uri} /></code>`],
      document.duplicate_of && [t("documents.copy_of"), html`<a href=${link("documents", document.namespace, document.duplicate_of)}><${Name} text=${document.duplicate_of} /></a>`],
      [t("field.updated"), html`<time title=${moment(document.updated_at)}>${ago(document.updated_at)}</time>`],
    ]} />
    ${warningsOf(source).map((warning) => html`<p class="note warn" key=${warning}>${warning}</p>`)}
    ${Object.keys(document.metadata).length > 0 && html`
      <details><summary>${t("field.metadata")}</summary><pre>${JSON.stringify(document.metadata, null, 2)}</pre></details>`}
  </section>`;
}

function Similar({ path, namespace }) {
  const found = useLoad((signal) => get(`${path}/similar?namespace=${segment(namespace)}`, { signal }), [path, namespace]);
  const columns = [
    { key: "document", label: t("field.document"), main: true, render: (each) => html`
      <${DocumentName} of=${each} shown=${(name) => html`<a class="title" href=${link("documents", namespace, each.document_id)}>${name}</a>`} />` },
    { key: "same", label: t("document.same_bytes"), render: (each) => (each.same_bytes ? t("document.yes") : t("document.no")) },
    { key: "similarity", label: t("document.similarity"), numeric: true, render: (each) => percentOf(each.similarity) },
  ];
  return html`<p class="about">${t("document.similar_about")}</p>
    <${Loaded} of=${found} isEmpty=${(data) => !data.data.length} empty=${html`<${Empty} title=${t("document.none_similar")} />`}>
      ${(data) => html`<${Table} caption=${t("document.similar")} columns=${columns} rows=${data.data} rowKey=${(each) => each.document_id} />`}
    <//>`;
}
