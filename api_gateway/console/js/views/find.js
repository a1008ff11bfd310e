// One box for part of a title or id: what became of a document, and why it is missing.
import { html, useEffect, useState } from "../html.js";
import { get, query } from "../api.js";
import { ago, moment, short } from "../format.js";
import { useLoad } from "../load.js";
import { Text, useNamespaces } from "../parts/fields.js";
import { NamespaceChoice } from "../parts/namespace_choice.js";
import { DocumentName } from "../parts/name.js";
import { Empty, Loaded } from "../parts/states.js";
import { Badge, Table } from "../parts/table.js";
import { go, link } from "../router.js";
import { said } from "../sentences.js";
import { Heading } from "../shell.js";
import { t, word } from "../words.js";

export function Find({ parts: [wanted = ""] }) {
  const [text, setText] = useState(wanted);
  const [namespace, setNamespace] = useState("");
  const namespaces = useNamespaces();
  useEffect(() => setText(wanted), [wanted]);

  function send(event) {
    event.preventDefault();
    if (text.trim()) go("find", text.trim());
  }
  return html`
    <${Heading} title=${t("nav.find")} about=${t("find.about")} />
    <form class="find-page" onSubmit=${send}>
      <${Text} label=${t("find.text")} value=${text} onInput=${setText} class="grow" maxlength="255" spellcheck=${false} />
      <button class="primary" disabled=${!text.trim()}>${t("nav.find")}</button>
    </form>
    <div class="toolbar"><${NamespaceChoice} value=${namespace} onInput=${setNamespace} namespaces=${namespaces} all=${t("field.all")} /></div>
    ${wanted && html`<${Matches} text=${wanted} namespace=${namespace} />`}`;
}

function Matches({ text, namespace }) {
  const found = useLoad((signal) => get(`v1/find${query({ text, namespace, limit: 50 })}`, { signal }), [text, namespace], { everyMs: 10_000 });
  return html`<${Loaded} of=${found} isEmpty=${(data) => data.data.length === 0}
    empty=${html`<${Empty} title=${t("find.empty", { text })}><p>${t("find.empty_text")}</p><//>`}>
    ${({ data, truncated }) => html`
      ${truncated && html`<p class="note warn" role="status">${t("find.incomplete")}</p>`}
      <${Table} caption=${t("find.results")} columns=${COLUMNS()} rows=${data} rowKey=${(match) => `${match.kind}/${match.namespace}/${match.document_id}/${match.job_id}`} />`}
  <//>`;
}

const COLUMNS = () => [
  { key: "name", label: t("find.what"), main: true, render: named },
  { key: "namespace", label: t("field.namespace"), render: (match) => match.namespace },
  { key: "status", label: t("field.status"), render: (match) => html`<${Badge} of=${match.status} label=${word("status", match.status)} />` },
  { key: "searchable", label: t("documents.shown"), render: (match) => (match.kind === "job" ? "–" : match.searchable ? t("find.yes") : html`<span class="bad-text">${t("find.no")}</span>`) },
  { key: "why", label: t("find.why"), wide: true, render: (match) => (match.code ? html`<span><code>${match.code}</code> ${said(match.detail)}</span>` : "–") },
  { key: "job", label: t("jobs.job"), render: (match) => html`<a href=${link("jobs", match.job_id)} title=${match.job_id}><code>${short(match.job_id)}</code></a>` },
  { key: "updated", label: t("field.updated"), render: (match) => html`<time title=${moment(match.updated_at)}>${ago(match.updated_at)}</time>` },
];

function named(match) {
  if (match.kind === "job") return html`<a class="title" href=${link("jobs", match.job_id)}>${t("job.title", { id: short(match.job_id) })}</a>`;
  const shown = (name) => (match.kind === "document" ? html`<a class="title" href=${link("documents", match.namespace, match.document_id)}>${name}</a>` : html`<span class="title">${name}</span>`);
  return html`
    <${DocumentName} of=${match} shown=${shown} />
    ${match.kind === "refused" && html` <span class="muted">${t("find.refused")}</span>`}`;
}
