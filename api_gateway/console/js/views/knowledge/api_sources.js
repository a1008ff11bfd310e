// The tenant's business APIs: what a query may call beside its own documents.
import { html } from "../../html.js";
import { segment } from "../../api.js";
import { ago, moment } from "../../format.js";
import { Listing } from "../../parts/listing.js";
import { Names } from "../../parts/name.js";
import { Badge } from "../../parts/table.js";
import { link } from "../../router.js";
import { t } from "../../words.js";

export function ApiSources() {
  const columns = [
    { key: "name", label: t("field.name"), main: true, render: (each) => html`<a class="title" href=${link("api-sources", each.name)}>${each.name}</a>` },
    { key: "url", label: t("api_source.url"), wide: true, render: (each) => html`<code>${each.method} ${each.url}</code>` },
    { key: "namespaces", label: t("api_source.namespaces"), render: (each) => each.namespaces.length ? html`<${Names} of=${each.namespaces} />` : t("field.all") },
    { key: "state", label: t("field.status"), render: (each) => html`
      <${Badge} of=${each.enabled ? "enabled" : "disabled"} label=${each.enabled ? t("field.on") : t("field.off")} />` },
    { key: "updated", label: t("field.updated"), render: (each) => html`<time title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>` },
  ];
  return html`<${Listing} title=${t("nav.api-sources")} about=${t("api_source.about")} path="v1/api-sources" limit=${null} columns=${columns}
    nameOf=${(each) => each.name} searched=${(each) => `${each.name} ${each.url}`}
    create=${[link("api-sources", "+"), t("api_source.create")]}
    removal=${{ path: (each) => `v1/api-sources/${segment(each.name)}`, title: t("api_source.remove_title"), text: (each) => t("api_source.remove_text", { name: each.name }) }}
    empty=${[t("api_source.empty"), t("api_source.empty_text")]} />`;
}
