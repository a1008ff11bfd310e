// The entities of a story with their states at a story time.
import { html, useState } from "../../html.js";
import { put, send } from "../../api.js";
import { ago, moment } from "../../format.js";
import { useAction } from "../../load.js";
import { Text, useNamespaces, useSettled } from "../../parts/fields.js";
import { drafted, Form, objectOrText } from "../../parts/form.js";
import { Listing } from "../../parts/listing.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { may } from "../../session.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

const fieldsOf = () => [
  { name: "entities/0/entity_id", label: t("entity.id"), required: true, maxlength: 64 },
  { name: "entities/0/name", label: t("field.name"), required: true, maxlength: 255 },
  { name: "entities/0/type", label: t("field.type"), maxlength: 64 },
  { name: "entities/0/story_time", label: t("entity.story_time"), kind: "number", step: 1, hint: t("entity.story_time_hint") },
  { name: "entities/0/state", label: t("entity.state"), kind: "object_or_text", hint: t("entity.state_hint") },
];

export function Entities() {
  const namespaces = useNamespaces();
  const [typed, setTyped] = useState(null);
  const [asOf, setAsOf] = useState("");
  const [name, setName] = useState("");
  const [editing, setEditing] = useState(null);
  const [turn, setTurn] = useState(0);
  const namespace = typed ?? namespaces.data?.[0]?.namespace ?? "";
  const [within, at, named] = [useSettled(namespace.trim()), useSettled(asOf), useSettled(name.trim())];
  const columns = [
    { key: "name", label: t("field.name"), main: true, render: (each) => html`<span class="title">${each.name}</span><code class="under">${each.entity_id}</code>` },
    { key: "type", label: t("field.type"), render: (each) => each.type ?? "–" },
    { key: "time", label: t("entity.since"), numeric: true, render: (each) => each.story_time ?? t("entity.beginning") },
    { key: "state", label: t("entity.state"), wide: true, render: (each) => html`<code class="value">${shownState(each.state)}</code>` },
    { key: "updated", label: t("field.updated"), render: (each) => html`<time title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>` },
  ];
  return html`
    <${Heading} title=${t("nav.entities")} about=${t("entity.about")}>
      ${may("write") && html`<button class="primary" onClick=${() => setEditing({})}>${t("entity.create")}</button>`}
    <//>
    <div class="toolbar">
      <${NamespaceInput} value=${namespace} onInput=${setTyped} />
      <${Text} label=${t("entity.as_of")} type="number" step="1" value=${asOf} onInput=${setAsOf} placeholder=${t("entity.latest")} />
      <${Text} label=${t("entity.named")} value=${name} onInput=${setName} maxlength="255" />
    </div>
    ${editing && html`<${State} key=${JSON.stringify(editing)} namespace=${namespace.trim()} state=${editing} onDone=${() => { setEditing(null); setTurn(turn + 1); }} onCancel=${() => setEditing(null)} />`}
    ${!within && html`<${Loaded} of=${namespaces} isEmpty=${() => true} empty=${html`<${Empty} title=${t("entity.empty")}>${t("entity.empty_text")}<//>`} />`}
    ${within && html`<${Listing} key=${turn} head=${false} title=${t("nav.entities")} path="v1/entities" parameters=${{ namespace: within, as_of: at, name: named }} columns=${columns}
      nameOf=${(each) => each.entity_id}
      actions=${(each) => may("write") && html`<button onClick=${() => { setEditing(each); scrollTo(0, 0); }} aria-label=${`${t("action.edit")}: ${each.entity_id}`}>${t("action.edit")}</button>`}
      removal=${{ run: (each) => send("DELETE", "v1/entities", { json: { namespace: each.namespace, entity_ids: [each.entity_id] } }), title: t("entity.remove_title"), text: (each) => t("entity.remove_text", { name: each.name }) }}
      empty=${[t("entity.empty"), t("entity.empty_text")]} />`}`;
}

const shownState = (state) => (typeof state === "string" ? state : JSON.stringify(state));

/** A state to write; the one with the same entity and story time is replaced. */
function State({ namespace, state, onDone, onCancel }) {
  const fields = fieldsOf();
  const [draft, setDraft] = useState(() => drafted(fields, { entities: [{ state: {}, ...state }] }));
  const write = useAction(async () => {
    const [entityId, name, type, time, text] = fields.map((field) => draft[field.name]);
    const entity = { entity_id: entityId, name, type: type || null, story_time: time === "" ? null : Number(time), state: objectOrText(text) ?? {} };
    await put("v1/entities", { namespace, entities: [entity] });
    announce(t("form.saved"));
    onDone();
  });
  return html`<section class="panel" aria-label=${t("entity.create")}>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => write.run()} error=${write.error} busy=${write.busy} cancel=${onCancel} />
  </section>`;
}
