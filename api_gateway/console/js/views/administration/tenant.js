// One tenant, for the operator: whether its keys work, its quotas with their use, its keys, its erasure.
import { html, useState } from "../../html.js";
import { get, post, put, remove, segment } from "../../api.js";
import { count, moment } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Text } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { announce } from "../../parts/notices.js";
import { QuotaBars, QUOTAS } from "../../parts/quota.js";
import { Loaded } from "../../parts/states.js";
import { Facts, Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { link } from "../../router.js";
import { session, signOut } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { KeyList } from "./keys.js";
import { TenantBadge } from "./tenants.js";

export function Tenant({ parts: [id] }) {
  const path = `v1/tenants/${segment(id)}`;
  const tenant = useLoad((signal) => get(path, { signal }), [path]);
  const [erased, setErased] = useState(null);
  return html`
    <${Heading} title=${id} back=${[link("tenants"), t("nav.tenants")]} />
    ${erased ? html`<${Erased} report=${erased} />` : html`<${Loaded} of=${tenant} lines=${3}>${(data) => html`
      <${State} tenant=${data} path=${path} again=${tenant.reload} />
      <${Tabs} label=${id} tabs=${[
        { id: "quotas", label: t("quota.title"), panel: () => html`<${Quotas} path=${`${path}/quotas`} />` },
        { id: "keys", label: t("nav.keys"), panel: () => html`<${KeyList} path=${`${path}/keys`} />` },
        { id: "erase", label: t("tenants.erase"), panel: () => html`<${Erase} tenant=${data} path=${path} done=${setErased} />` },
      ]} />`}<//>`}`;
}

function State({ tenant, path, again }) {
  const [asking, setAsking] = useState(false);
  const isMine = tenant.tenant_id === session.get()?.tenant_id;
  const admit = useAction(async (what) => {
    await post(`${path}/${what}`);
    if (isMine && what === "disable") return signOut("signin.expired");
    announce(t(`tenants.done_${what}`, { tenant: tenant.tenant_id }));
    return again();
  });
  return html`<section class="panel">
    <div class="row between">
      <${TenantBadge} tenant=${tenant} />
      ${tenant.disabled_at
        ? html`<button disabled=${admit.busy} onClick=${() => admit.run("enable")}>${t("tenants.enable")}</button>`
        : html`<button class="danger-text" onClick=${() => setAsking(true)}>${t("tenants.disable")}</button>`}
    </div>
    <${Facts} of=${[
      [t("tenants.name"), tenant.name],
      [t("field.created"), moment(tenant.created_at)],
      tenant.disabled_at && [t("tenants.disabled_since"), moment(tenant.disabled_at)],
    ]} />
    ${asking && html`<${Confirm} title=${t("tenants.disable_title", { tenant: tenant.tenant_id })} confirm=${t("tenants.disable")} action=${admit}
      args=${["disable"]} close=${() => setAsking(false)}>
      <p>${t("tenants.disable_text")}</p>${isMine && html`<p><strong>${t("tenants.disable_mine")}</strong></p>`}
    <//>`}
  </section>`;
}

function Quotas({ path }) {
  const fields = [...QUOTAS, "requests_per_minute"].map((name) => ({
    name, kind: "number", label: t(`quota.${name}`), min: 0, max: name === "requests_per_minute" ? 1e7 : 1e15, step: 1, placeholder: t("quota.default"),
  }));
  const loaded = useLoad(async (signal) => {
    const [own, use] = await Promise.all([get(path, { signal }), get(`${path}/use`, { signal })]);
    return { own, use };
  }, [path]);
  return html`<${Loaded} of=${loaded} lines=${4}>${({ own, use }) => html`
    <div class="panel"><${QuotaBars} use=${use} /></div>
    <${QuotaForm} key=${loaded.readAt} fields=${fields} own=${own} path=${path} again=${loaded.reload} />`}<//>`;
}

function QuotaForm({ fields, own, path, again }) {
  const [draft, setDraft] = useState(drafted(fields, own));
  const save = useAction(async () => {
    await put(path, sent(fields, draft));
    announce(t("quota.saved"));
    again();
  });
  return html`<section class="panel" aria-labelledby="own-quotas">
    <h2 id="own-quotas">${t("quota.own")}</h2>
    <p class="about">${t("quota.own_about")}</p>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => save.run()} error=${save.error} busy=${save.busy} />
  </section>`;
}

function Erase({ tenant, path, done }) {
  const [asking, setAsking] = useState(false);
  const [typed, setTyped] = useState("");
  const erase = useAction(async () => done(await remove(path)));
  const isMine = tenant.tenant_id === session.get()?.tenant_id;
  return html`
    <p class="about">${t("tenants.erase_about")}</p>
    ${isMine ? html`<p class="note warn">${t("tenants.erase_mine")}</p>` : html`
      <${Text} label=${t("tenants.erase_type", { tenant: tenant.tenant_id })} value=${typed} onInput=${setTyped} spellcheck=${false} class="narrow-form" />
      <p><button class="danger" disabled=${typed !== tenant.tenant_id} onClick=${() => setAsking(true)}>${t("tenants.erase")}</button></p>`}
    ${asking && html`<${Confirm} title=${t("tenants.erase_title", { tenant: tenant.tenant_id })} confirm=${t("tenants.erase")} action=${erase}
      close=${() => setAsking(false)}><p>${t("tenants.erase_text")}</p><//>`}`;
}

function Erased({ report }) {
  const rows = [...new Set([...Object.keys(report.erased), ...Object.keys(report.remaining)])].sort()
    .map((name) => ({ name, erased: report.erased[name] ?? 0, remaining: report.remaining[name] ?? 0 }))
    .filter((row) => row.erased || row.remaining);
  const left = rows.some((row) => row.remaining);
  const columns = [
    { key: "table", label: t("tenants.table"), main: true, render: (row) => html`<code>${row.name}</code>` },
    { key: "erased", label: t("tenants.rows_erased"), numeric: true, render: (row) => count(row.erased) },
    { key: "remaining", label: t("tenants.rows_left"), numeric: true, render: (row) => html`<span class=${row.remaining ? "bad-text" : ""}>${count(row.remaining)}</span>` },
  ];
  return html`
    <div class=${`verdict ${left ? "warn" : "good"}`} role="status"><strong>${left ? t("tenants.erased_partly") : t("tenants.erased")}</strong></div>
    ${rows.length > 0 && html`<${Table} caption=${t("tenants.erased")} columns=${columns} rows=${rows} rowKey=${(row) => row.name} />`}`;
}
