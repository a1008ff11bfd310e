// Endpoints that are called when jobs end.
import { html, useState } from "../../html.js";
import { get, post } from "../../api.js";
import { ago, moment } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { Secret } from "../../parts/secret.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

const EVENTS = ["job.succeeded", "job.partly_failed", "job.failed", "job.cancelled", "job.progress"];

/** The name of an event; its code has a dot, which keys of messages cannot have. */
export const eventName = (event) => word("event", event.replace(".", "_"));

export function Webhooks() {
  const webhooks = useLoad((signal) => get("v1/webhooks", { signal }).then((list) => ({ rows: list.data })), [], { everyMs: 15_000 });
  const [adding, setAdding] = useState(false);
  const [secret, setSecret] = useState(null);
  const columns = [
    { key: "url", label: t("webhooks.url"), main: true, render: (hook) => html`<a class="title" href=${link("webhooks", hook.webhook_id)}>${hook.url}</a>` },
    { key: "state", label: t("field.status"), render: (hook) => html`<${HookBadge} hook=${hook} />` },
    { key: "events", label: t("webhooks.events"), render: (hook) => hook.events.map(eventName).join(", ") },
    { key: "delivered", label: t("webhooks.delivered_at"), render: (hook) => html`<time title=${moment(hook.delivered_at)}>${ago(hook.delivered_at)}</time>` },
  ];
  return html`
    <${Heading} title=${t("nav.webhooks")} about=${t("webhooks.about")}>
      ${!adding && html`<button class="primary" onClick=${() => setAdding(true)}>${t("webhooks.add")}</button>`}
    <//>
    ${secret && html`<${Secret} title=${t("webhooks.secret", { url: secret.url })} value=${secret.secret} close=${() => setSecret(null)} />`}
    ${adding && html`<${NewWebhook} cancel=${() => setAdding(false)} done=${(made) => { setAdding(false); setSecret(made); webhooks.reload(); }} />`}
    <${Loaded} of=${webhooks} empty=${html`<${Empty} title=${t("webhooks.empty")} />`}>
      ${(data) => html`<${Table} caption=${t("nav.webhooks")} columns=${columns} rows=${data.rows} rowKey=${(hook) => hook.webhook_id} />`}
    <//>`;
}

export function HookBadge({ hook }) {
  const state = hook.disabled_at ? `disabled_${hook.disabled_reason ?? "failing"}` : hook.failing_since ? "failing" : "enabled";
  return html`<${Badge} label=${t(`webhooks.state_${state}`)} tone=${hook.disabled_reason === "requested" ? "plain" : hook.disabled_at ? "bad" : hook.failing_since ? "warn" : "good"} />`;
}

function NewWebhook({ cancel, done }) {
  const fields = [
    { name: "url", label: t("webhooks.url"), required: true, type: "url", maxlength: 2048, spellcheck: false, placeholder: "https://", hint: t("webhooks.url_hint") },
    { name: "events", label: t("webhooks.events"), kind: "checks", options: EVENTS.map((event) => [event, eventName(event)]) },
  ];
  const [draft, setDraft] = useState(drafted(fields, { events: EVENTS.slice(0, 4) }));
  const add = useAction(async () => done(await post("v1/webhooks", sent(fields, draft))));
  return html`<section class="panel" aria-label=${t("webhooks.add")}>
    <h2>${t("webhooks.add")}</h2>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => add.run()} error=${add.error} busy=${add.busy}
      submit=${t("webhooks.add")} cancel=${cancel} />
  </section>`;
}
