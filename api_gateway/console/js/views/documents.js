// The documents of a namespace, or of all.
import { html, useState } from "../html.js";
import { remove, segment } from "../api.js";
import { ago, count, moment } from "../format.js";
import { useAction, usePages } from "../load.js";
import { Confirm } from "../parts/dialog.js";
import { Choice, useNamespaces } from "../parts/fields.js";
import { announce } from "../parts/notices.js";
import { Samples } from "../parts/samples.js";
import { Empty, Loaded } from "../parts/states.js";
import { Badge, More, Table } from "../parts/table.js";
import { go, link } from "../router.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t } from "../words.js";

export function Documents({ parts: [namespace = ""] }) {
  const namespaces = useNamespaces();
  const documents = usePages("v1/documents", { namespace });
  const [removing, setRemoving] = useState(null);

  const take = useAction(async (document) => {
    await remove(`v1/documents/${segment(document.document_id)}?namespace=${segment(document.namespace)}`);
    announce(t("documents.removed", { document: document.document_id }));
    documents.reload();
    namespaces.reload();
  });

  const columns = [
    { key: "document", label: t("field.document"), main: true, render: (each) => html`
      <a class="title" href=${link("documents", each.namespace, each.document_id)}>${each.title || each.document_id}</a>
      ${each.title && each.title !== each.document_id && html`<code class="under">${each.document_id}</code>`}` },
    !namespace && { key: "namespace", label: t("field.namespace"), render: (each) => each.namespace },
    { key: "state", label: t("field.status"), render: (each) => each.generation === null
      ? html`<${Badge} of="none" label=${t("documents.not_shown")} />`
      : html`<${Badge} of="shown" label=${t("documents.shown")} />` },
    { key: "generation", label: t("field.generation"), numeric: true, render: (each) => each.generation ?? "–" },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "tags", label: t("field.tags"), render: (each) => each.tags.length ? each.tags.join(", ") : "–" },
    { key: "updated", label: t("field.updated"), render: (each) => html`<time title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>` },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: (each) => html`
      <button class="quiet danger-text" onClick=${() => setRemoving(each)}
        aria-label=${`${t("documents.remove")}: ${each.document_id}`}>${t("documents.remove")}</button>` },
  ].filter(Boolean);

  const total = (namespaces.data ?? []).reduce((sum, each) => sum + each.documents, 0);
  const options = [
    ["", `${t("documents.all_namespaces")} (${count(total)})`],
    ...(namespaces.data ?? []).map((each) => [each.namespace, `${each.namespace} (${count(each.documents)})`]),
  ];
  if (namespace && !options.some(([value]) => value === namespace)) options.push([namespace, namespace]);

  return html`
    <${Heading} title=${t("nav.documents")} about=${t("documents.about")}>
      <a class="button primary" href=${link("upload")}>${t("nav.upload")}</a>
    <//>
    <div class="toolbar">
      <${Choice} label=${t("field.namespace")} class="inline" value=${namespace} options=${options}
        onInput=${(value) => (value ? go("documents", value) : go("documents"))} />
    </div>
    <${Loaded} of=${documents} empty=${html`<${Empty} title=${t("documents.empty")}>
        <a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a>${!namespace && html`<${Samples} />`}<//>`}>
      ${(data) => html`<${Table} caption=${t("nav.documents")} columns=${columns} rows=${data.rows}
          rowKey=${(each) => `${each.namespace}/${each.document_id}`} />
        <${More} pages=${documents} />`}
    <//>
    ${removing && html`<${Confirm} title=${t("documents.remove_title")} confirm=${t("documents.remove")} action=${take} args=${[removing]}
      close=${() => setRemoving(null)}><p>${t("documents.remove_text", { document: removing.document_id, namespace: removing.namespace })}</p><//>`}`;
}
