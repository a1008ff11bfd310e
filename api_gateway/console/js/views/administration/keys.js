// API keys of a tenant: issue, rotate, revoke. The secret of a key is shown once.
import { html, useState } from "../../html.js";
import { post, remove } from "../../api.js";
import { ago, moment } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Choice } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { announce } from "../../parts/notices.js";
import { Secret } from "../../parts/secret.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { session, signOut } from "../../session.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

const SCOPES = ["read", "write", "admin", "impersonate"];
const OVERLAPS = [0, 3600, 86_400, 604_800, 2_592_000];
const TONES = { active: "good", expired: "warn", revoked: "plain" };

export function Keys() {
  return html`<${Heading} title=${t("nav.keys")} about=${t("keys.about")} /><${KeyList} path="v1/keys" />`;
}

/** `path`: `v1/keys`, or that of another tenant's keys. */
export function KeyList({ path }) {
  const keys = usePages(path, {});
  const [adding, setAdding] = useState(false);
  const [secret, setSecret] = useState(null);
  const [steering, setSteering] = useState(null); // [what, key]
  const [overlap, setOverlap] = useState("86400");
  const isMine = (key) => key.key_id === session.get()?.key_id;

  const rotate = useAction(async (key) => {
    const issued = await post(`${path}/${key.key_id}/rotate`, { overlap_seconds: Number(overlap) });
    setSecret(issued);
    keys.reload();
  });
  const revoke = useAction(async (key) => {
    await remove(`${path}/${key.key_id}`);
    if (isMine(key)) return signOut("signin.expired"); // which a gateway notices a moment later
    announce(t("keys.revoked", { name: key.name }));
    return keys.reload();
  });

  function steer(what, key) {
    setOverlap("86400");
    (what === "rotate" ? rotate : revoke).clear();
    setSteering([what, key]);
  }

  const time = (at) => html`<time title=${moment(at)}>${ago(at)}</time>`;
  const columns = [
    { key: "name", label: t("keys.name"), main: true, render: (key) => html`
      <span class="title">${key.name}</span> <code class="under">${key.key_id}${isMine(key) ? ` · ${t("keys.mine")}` : ""}</code>` },
    { key: "scopes", label: t("keys.scopes"), render: (key) => key.scopes.map((scope) => word("scope", scope)).join(", ") },
    { key: "principals", label: t("keys.principals"), roomy: true, render: (key) => key.principals.join(", ") || "–" },
    { key: "state", label: t("field.status"), render: (key) => html`<${Badge} label=${t(`keys.state_${key.state}`)} tone=${TONES[key.state]} />
      ${key.replaced_by && html` <span class="hint">${t("keys.replaced", { id: key.replaced_by.slice(0, 6) })}</span>`}` },
    { key: "used", label: t("keys.used"), render: (key) => (key.last_used_at ? time(key.last_used_at) : t("keys.never")) },
    { key: "created", label: t("field.created"), render: (key) => time(key.created_at) },
    { key: "expires", label: t("keys.expires"), render: (key) => (key.expires_at ? moment(key.expires_at) : t("keys.forever")) },
    { key: "do", label: t("field.actions"), actions: true, render: (key) => key.state === "active" && html`
      ${!key.replaced_by && html`<button onClick=${() => steer("rotate", key)} aria-label=${`${t("keys.rotate")}: ${key.name}`}>${t("keys.rotate")}</button>`}
      <button class="quiet danger-text" onClick=${() => steer("revoke", key)} aria-label=${`${t("keys.revoke")}: ${key.name}`}>${t("keys.revoke")}</button>` },
  ];

  const [what, steered] = steering ?? [];
  const close = () => setSteering(null);
  return html`
    ${secret && html`<${Secret} title=${t("keys.secret", { name: secret.name })} value=${secret.api_key} close=${() => setSecret(null)} />`}
    ${adding
      ? html`<${NewKey} path=${path} cancel=${() => setAdding(false)} done=${(issued) => { setAdding(false); setSecret(issued); keys.reload(); }} />`
      : html`<p><button class="primary" onClick=${() => setAdding(true)}>${t("keys.create")}</button></p>`}
    <${Loaded} of=${keys} empty=${html`<${Empty} title=${t("keys.empty")} />`}>
      ${(data) => html`<${Table} caption=${t("nav.keys")} columns=${columns} rows=${data.rows} rowKey=${(key) => key.key_id} /><${More} pages=${keys} />`}
    <//>
    ${what === "rotate" && html`<${Confirm} title=${t("keys.rotate_title", { name: steered.name })} confirm=${t("keys.rotate")} action=${rotate}
      args=${[steered]} danger=${false} close=${close}>
      <p>${t("keys.rotate_text")}</p>
      <${Choice} label=${t("keys.overlap")} value=${overlap} onInput=${setOverlap}
        options=${OVERLAPS.filter((seconds) => seconds || !isMine(steered)).map((seconds) => [String(seconds), t(`keys.overlap_${seconds}`)])} />
    <//>`}
    ${what === "revoke" && html`<${Confirm} title=${t("keys.revoke_title", { name: steered.name })} confirm=${t("keys.revoke")} action=${revoke}
      args=${[steered]} close=${close}>
      <p>${t("keys.revoke_text")}</p>${isMine(steered) && html`<p><strong>${t("keys.revoke_mine")}</strong></p>`}
    <//>`}`;
}

function NewKey({ path, cancel, done }) {
  const fields = [
    { name: "name", label: t("keys.name"), required: true, maxlength: 255, hint: t("keys.name_hint") },
    { name: "scopes", label: t("keys.scopes"), kind: "checks", options: SCOPES.map((scope) => [scope, `${word("scope", scope)}: ${t(`keys.scope_${scope}`)}`]) },
    { name: "principals", label: t("keys.principals"), kind: "lines", hint: t("keys.principals_hint") },
    { name: "expires_at", label: t("keys.expires"), kind: "date", hint: t("keys.expires_hint") },
  ];
  const [draft, setDraft] = useState(drafted(fields, { scopes: ["read"] }));
  const create = useAction(async () => {
    const body = sent(fields, draft);
    // The end of the day that the user chose, where the user is.
    if (body.expires_at) body.expires_at = new Date(`${body.expires_at}T23:59:59`).toISOString();
    done(await post(path, body));
  });
  return html`<section class="panel" aria-label=${t("keys.create")}>
    <h2>${t("keys.create")}</h2>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => create.run()} error=${create.error} busy=${create.busy}
      submit=${t("keys.create")} cancel=${cancel} />
  </section>`;
}
