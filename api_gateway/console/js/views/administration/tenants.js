// The tenants of the installation, for its operator: never their texts.
import { html, useState } from "../../html.js";
import { post } from "../../api.js";
import { ago, moment } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { go, link } from "../../router.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

export function Tenants() {
  const tenants = usePages("v1/tenants", {}, { limit: 100 });
  const [adding, setAdding] = useState(false);
  const columns = [
    { key: "id", label: t("nav.tenant"), main: true, render: (tenant) => html`
      <a class="title" href=${link("tenants", tenant.tenant_id)}>${tenant.tenant_id}</a>` },
    { key: "name", label: t("tenants.name"), render: (tenant) => tenant.name },
    { key: "status", label: t("field.status"), render: (tenant) => html`<${TenantBadge} tenant=${tenant} />` },
    { key: "created", label: t("field.created"), render: (tenant) => html`<time title=${moment(tenant.created_at)}>${ago(tenant.created_at)}</time>` },
  ];
  return html`
    <${Heading} title=${t("nav.tenants")} about=${t("tenants.about")}>
      ${!adding && html`<button class="primary" onClick=${() => setAdding(true)}>${t("tenants.create")}</button>`}
    <//>
    ${adding && html`<${NewTenant} cancel=${() => setAdding(false)} />`}
    <${Loaded} of=${tenants} empty=${html`<${Empty} title=${t("tenants.empty")} />`}>
      ${(data) => html`<${Table} caption=${t("nav.tenants")} columns=${columns} rows=${data.rows} rowKey=${(tenant) => tenant.tenant_id} /><${More} pages=${tenants} />`}
    <//>`;
}

export const TenantBadge = ({ tenant }) => (tenant.disabled_at
  ? html`<${Badge} of="disabled" label=${t("tenants.disabled")} />`
  : html`<${Badge} of="enabled" label=${t("tenants.enabled")} />`);

function NewTenant({ cancel }) {
  const fields = [
    { name: "tenant_id", label: t("tenants.id"), required: true, maxlength: 63, spellcheck: false, hint: t("tenants.id_hint") },
    { name: "name", label: t("tenants.name"), required: true, maxlength: 255 },
  ];
  const [draft, setDraft] = useState(drafted(fields));
  const create = useAction(async () => {
    const made = await post("v1/tenants", sent(fields, draft));
    go("tenants", made.tenant_id);
  });
  return html`<section class="panel" aria-label=${t("tenants.create")}>
    <h2>${t("tenants.create")}</h2>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => create.run()} error=${create.error} busy=${create.busy}
      submit=${t("tenants.create")} cancel=${cancel} />
  </section>`;
}
