// Stores that are followed, and the other sources of a namespace.
import { html, useState } from "../../html.js";
import { post } from "../../api.js";
import { ago, count, duration, moment } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { useNamespaces, useSettled } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { go, link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

const INTERVALS = [900, 3600, 21_600, 86_400, 604_800];

export function Sources() {
  const namespaces = useNamespaces();
  const [typed, setTyped] = useState(null);
  const [adding, setAdding] = useState(false);
  const namespace = typed ?? namespaces.data?.[0]?.namespace ?? "";
  const within = useSettled(namespace.trim());
  return html`
    <${Heading} title=${t("nav.sources")} about=${t("followed.about")}>
      ${may("write") && !adding && html`<button class="primary" onClick=${() => setAdding(true)}>${t("followed.add")}</button>`}
    <//>
    <div class="toolbar"><${NamespaceInput} value=${namespace} onInput=${setTyped} /></div>
    ${adding && html`<${NewSource} namespace=${namespace.trim()} cancel=${() => setAdding(false)} />`}
    ${within ? html`<${List} key=${within} namespace=${within} />`
      : html`<${Loaded} of=${namespaces} isEmpty=${() => true} empty=${html`<${Empty} title=${t("followed.empty")}>${t("followed.empty_text")}<//>`} />`}`;
}

function List({ namespace }) {
  const [open, setOpen] = useState(false);
  return html`<${Rows} namespace=${namespace} followed=${true} caption=${t("nav.sources")} />
    <details onToggle=${(event) => setOpen(event.target.open)}>
      <summary>${t("followed.sent")}</summary>
      ${open && html`<${Rows} namespace=${namespace} followed=${false} caption=${t("followed.sent")} />`}
    </details>`;
}

function Rows({ namespace, followed, caption }) {
  const sources = usePages("v1/sources", { namespace, followed }, { everyMs: 5000 });
  const columns = [
    { key: "source", label: t("field.source"), main: true, render: (each) => html`
      <a class="title" href=${link("sources", namespace, each.source_id)}>${each.followed?.url ?? each.uri ?? each.source_id}</a><code class="under">${each.source_id}</code>` },
    { key: "state", label: t("field.status"), render: (each) => html`<${State} followed=${each.followed} />` },
    { key: "documents", label: t("nav.documents"), numeric: true, render: (each) => count(each.documents) },
    { key: "run", label: t("followed.latest"), render: (each) => each.followed?.run?.ended_at
      && html`<time title=${moment(each.followed.run.ended_at)}>${ago(each.followed.run.ended_at)}</time>` },
  ].filter(({ key }) => followed || (key !== "state" && key !== "run"));
  return html`<${Loaded} of=${sources} empty=${html`<${Empty} title=${t("followed.empty")}>${followed && t("followed.empty_text")}<//>`}>
    ${(data) => html`<${Table} caption=${caption} columns=${columns} rows=${data.rows} rowKey=${(each) => each.source_id} /><${More} pages=${sources} />`}
  <//>`;
}

export function State({ followed }) {
  if (!followed) return html`<span class="quiet">${t("followed.state_sent")}</span>`;
  const state = followed.held_removals ? "asks" : followed.run?.error ? "failed" : followed.next_run_at ? "follows" : "paused";
  return html`<${Badge} label=${t(`followed.state_${state}`)} tone=${{ asks: "warn", failed: "bad", follows: "good", paused: "plain" }[state]} />`;
}

function NewSource({ namespace, cancel }) {
  const fields = [
    { name: "url", label: "URL", required: true, maxlength: 2048, spellcheck: false, placeholder: "s3://bucket/path", hint: t("followed.url_hint") },
    { name: "every_seconds", label: t("followed.every"), kind: "choice", options: INTERVALS.map((seconds) => [String(seconds), duration(seconds)]) },
    { name: "rules", label: t("followed.rules"), kind: "json", hint: t("followed.rules_hint") },
    { name: "secret", label: t("followed.secret"), kind: "json", hint: t("followed.secret_hint"), autocomplete: "off" },
  ];
  const [draft, setDraft] = useState(drafted(fields, { every_seconds: 3600 }));
  const add = useAction(async () => {
    const { every_seconds: every, rules, secret, ...rest } = sent(fields, draft);
    const given = { ...(rules ? { rules } : {}), ...(secret ? { secret } : {}) };
    const made = await post("v1/sources", { ...rest, ...given, namespace, every_seconds: Number(every) });
    announce(t("followed.added"));
    go("sources", namespace, made.source_id);
  });
  return html`<section class="panel" aria-label=${t("followed.add")}>
    <h2>${t("followed.add")}</h2>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => add.run()} error=${add.error} busy=${add.busy}
      submit=${t("followed.add")} cancel=${cancel} />
  </section>`;
}
