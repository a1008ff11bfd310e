// Explain a missing passage: the user finds its document by words; the answer names the first stage that lost it.
import { html, useState } from "../../html.js";
import { get, post, query, segment } from "../../api.js";
import { exact } from "../../format.js";
import { useLoad } from "../../load.js";
import { Choice, Text, useSettled } from "../../parts/fields.js";
import { Name, Origin } from "../../parts/name.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, Facts } from "../../parts/table.js";
import { said } from "../../sentences.js";
import { t, word } from "../../words.js";
import { MOST_ASKED, useEveryNamespace } from "./namespaces.js";

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const FOUND = 12; // passages read for one search
const PASSAGES = 3; // shown of a document before the others are read

/** `namespaces`: those of the query; unknown for a query without a trace. */
export function WhyNot({ queryId, namespaces }) {
  const every = useEveryNamespace();
  const known = (every.data?.rows ?? []).map((each) => each.namespace);
  const asked = namespaces ?? known.slice(0, MOST_ASKED);
  const [where, setWhere] = useState("");
  const [sought, setSought] = useState("");
  const [chosen, setChosen] = useState(null);
  const settled = useSettled(sought.trim());
  const others = known.filter((name) => !asked.includes(name));
  return html`<div class="why-not">
    <form class="ask" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Text} label=${t("why.which")} type="search" value=${sought} onInput=${setSought} class="grow" hint=${t("why.hint")} maxlength="400" />
      ${others.length > 0 && html`<${Choice} label=${t("field.namespace")} value=${where} onInput=${setWhere}
        options=${[["", t("why.asked")], ...[...asked, ...others].map((name) => [name, name])]} />`}
    </form>
    ${settled && (asked.length > 0 || where) && html`<${Passages} key=${`${settled}/${where}`} text=${settled} namespaces=${where ? [where] : asked} queryId=${queryId} chosen=${chosen} onChoose=${setChosen} />`}
  </div>`;
}

/** The documents whose title or text fits the words, with their passages. */
function Passages({ text, namespaces, ...choice }) {
  const found = useLoad((signal) => (ID.test(text) ? named(text, signal) : search(text, namespaces, signal)), [text, namespaces.join("/")]);
  return html`<${Loaded} of=${found} lines=${2} isEmpty=${(documents) => !documents.length} empty=${html`<${Empty} title=${t("why.nothing")} />`}>
    ${(documents) => html`<ul class="plain lines missing">${documents.map((each) => html`
      <${Candidate} key=${`${each.namespace}/${each.document_id}`} of=${each} ...${choice} />`)}</ul>`}
  <//>`;
}

function Candidate({ of, queryId, chosen, onChoose }) {
  const [all, setAll] = useState(null);
  const chunks = all ?? of.chunks.slice(0, PASSAGES);
  async function readAll() {
    const page = await get(`v1/documents/${segment(of.document_id)}/chunks${query({ namespace: of.namespace, limit: 200 })}`).catch(() => ({ data: of.chunks }));
    setAll(page.data.filter((chunk) => chunk.searched !== false));
  }
  return html`<li>
    <p><span class="title"><${Name} text=${of.title || of.document_id} /></span> <span class="muted">${of.namespace}</span></p>
    <${Origin} of=${of.file} title=${of.title || of.document_id} />
    ${chunks.map((chunk) => html`<div key=${chunk.chunk_id}><button type="button" class="passage-choice" aria-expanded=${chosen === chunk.chunk_id}
      onClick=${() => onChoose(chosen === chunk.chunk_id ? null : chunk.chunk_id)}>${(chunk.text ?? chunk.beginning).slice(0, 120)}</button>
      ${chosen === chunk.chunk_id && html`<${Explained} queryId=${queryId} chunkId=${chunk.chunk_id} title=${of.title || of.document_id} />`}</div>`)}
    ${all === null && html`<button type="button" class="link" onClick=${readAll}>${t("why.all")}</button>`}
  </li>`;
}

async function search(text, namespaces, signal) {
  const answer = await post("v1/rag/query", {
    query_text: text, namespaces, top_k: FOUND, enable_rerank: false, enable_expand: false, fallback: { enabled: false },
  }, { signal });
  return byDocument(answer.chunks);
}

/** A passage by its pasted id. */
const named = async (id, signal) => byDocument((await post("v1/chunks/lookup", { chunk_ids: [id] }, { signal })).data);

/** The origin of a chunk's document, without the place in it. */
const fileOf = (chunk) => ({ document_id: chunk.document_id, source_uri: chunk.source_uri ?? chunk.metadata?.source_uri });

function byDocument(chunks) {
  const documents = new Map();
  for (const chunk of chunks) {
    const key = `${chunk.namespace}/${chunk.document_id}`;
    const entry = documents.get(key) ?? { namespace: chunk.namespace, document_id: chunk.document_id, title: chunk.title, file: fileOf(chunk), chunks: [] };
    entry.chunks.push(chunk);
    documents.set(key, entry);
  }
  return [...documents.values()];
}

/** The stage that lost one passage, and the number that decided. */
export function Explained({ queryId, chunkId, title }) {
  const found = useLoad((signal) => post(`v1/queries/${segment(queryId)}/why-not`, { chunk_id: chunkId }, { signal }), [queryId, chunkId]);
  return html`<${Loaded} of=${found} lines=${2} isEmpty=${() => false}>${(verdict) => html`<div class="panel tight" role="status">
    <p><${Badge} of=${verdict.stage} tone=${verdict.stage === "returned" ? "good" : "warn"} label=${word("run", verdict.stage)} /> <strong>${title}</strong></p>
    <p>${said(verdict.detail)}</p>
    <${Facts} of=${[
      [t("why.reason"), word("lost", verdict.reason, verdict.reason.replaceAll("_", " "))],
      verdict.value != null && [t("why.value"), exact(verdict.value)],
      verdict.limit != null && [t("why.limit"), exact(verdict.limit)],
    ]} />
    ${Object.entries(verdict.channels ?? {}).map(([channel, seen]) => html`<p key=${channel} class="meta">
      <i class=${`dot ${channel}`}></i><b>${word("channel", channel)}</b>
      ${Object.entries(seen).filter(([, value]) => value !== null).map(([name, value]) => html`
        <span key=${name}>${word("seen", name, name.replaceAll("_", " "))} <span class="number">${typeof value === "number" ? exact(value) : String(value)}</span></span>`)}
    </p>`)}
    ${verdict.replayed && html`<p class="hint">${t("why.replayed")}</p>`}
  </div>`}<//>`;
}
