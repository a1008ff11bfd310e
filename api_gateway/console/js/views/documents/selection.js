// Actions on the selected documents: other tags and fields, ingesting them again, deleting them.
import { html, useState } from "../../html.js";
import { patch, put, send } from "../../api.js";
import { NO_TEXTS, TEXT_FIELDS, TEXT_NAMES } from "../../document_fields.js";
import { count, short } from "../../format.js";
import { useAction } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Area, Check, Text } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { link } from "../../router.js";
import { t } from "../../words.js";

const AT_ONCE = 500; // documents in one request, as the API allows
const NOTHING = { add: "", remove: "", readers: "", ...NO_TEXTS, metadata: "", discard: false };

export const tagsOf = (text) => text.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean);

/** The bodies of the requests for these documents: one for each namespace and 500 of them. */
function bodies(documents) {
  const groups = Map.groupBy ? Map.groupBy(documents, (each) => each.namespace) : grouped(documents);
  return [...groups].flatMap(([namespace, list]) => Array.from({ length: Math.ceil(list.length / AT_ONCE) }, (_, part) => ({
    namespace, document_ids: list.slice(part * AT_ONCE, (part + 1) * AT_ONCE).map((each) => each.document_id),
  })));
}

function grouped(documents) {
  const groups = new Map();
  for (const each of documents) groups.set(each.namespace, [...(groups.get(each.namespace) ?? []), each]);
  return groups;
}

/** Change documents; returns the ids of the jobs that ingest them again. */
export async function changeAll(documents, changes) {
  const jobs = [];
  for (const body of bodies(documents)) jobs.push((await patch("v1/documents", { ...body, ...changes })).job_id);
  return jobs;
}

/** `one`: a document to delete by itself, and `over()` after it. */
export function Selection({ chosen, again, clear, one, over }) {
  const [asking, setAsking] = useState(null);
  const [jobs, setJobs] = useState([]);
  const [draft, setDraft] = useState(NOTHING);
  const set = (name) => (value) => setDraft({ ...draft, [name]: value });

  const drop = useAction(async (documents) => {
    let deleted = 0;
    for (const body of bodies(documents)) deleted += (await send("DELETE", "v1/documents", { json: body })).body.documents;
    announce(documents.length > 1 ? t("documents.removed_many", { count: count(deleted) }) : t("documents.removed", { document: documents[0].document_id }));
    again();
  });
  const change = useAction(async (changes) => {
    setJobs(await changeAll(chosen, { ...changes, discard_edits: draft.discard }));
    announce(t("documents.changing", { count: count(chosen.length) }));
    setDraft(NOTHING);
    again();
  });

  const permit = useAction(async (readers) => {
    let changed = 0;
    for (const body of bodies(chosen)) changed += (await put("v1/documents/readers", { ...body, readers })).documents;
    announce(t("documents.readers_done", { count: count(changed) }));
    setDraft(NOTHING);
    again();
  });

  let metadata;
  try { metadata = draft.metadata.trim() ? JSON.parse(draft.metadata) : undefined; } catch { metadata = null; }
  const wrong = metadata === null || (metadata !== undefined && (typeof metadata !== "object" || Array.isArray(metadata)));
  const fields = Object.fromEntries([...TEXT_NAMES.map((name) => [name, draft[name].trim()]), ["metadata", metadata]].filter(([, value]) => value));
  const changes = { set: fields, add_tags: tagsOf(draft.add), remove_tags: tagsOf(draft.remove) };
  const changed = Object.keys(fields).length + changes.add_tags.length + changes.remove_tags.length > 0;
  const discard = html`<${Check} label=${t("documents.discard")} checked=${draft.discard} onInput=${set("discard")} />`;
  const close = () => { setAsking(null); drop.clear(); change.clear(); permit.clear(); };
  const number = { count: count(chosen.length) };

  return html`
    ${jobs.length > 0 && !chosen.length && html`<p class="note" role="status">${t("documents.jobs")}
      ${jobs.map((id) => html` <a key=${id} href=${link("jobs", id)}><code>${short(id)}</code></a>`)}</p>`}
    ${chosen.length > 0 && html`<div class="buttons" role="group" aria-label=${t("documents.selected", number)}>
      <b>${t("documents.selected", number)}</b>
      <button onClick=${() => setAsking("fields")}>${t("documents.edit")}</button>
      <button onClick=${() => setAsking("readers")}>${t("documents.readers_set")}</button>
      <button onClick=${() => setAsking("again")}>${t("documents.again")}</button>
      <button class="danger-text" onClick=${() => setAsking("drop")}>${t("documents.remove")}</button>
      <button class="quiet" onClick=${clear}>${t("documents.clear")}</button>
    </div>`}
    ${asking === "drop" && html`<${Confirm} title=${t("documents.remove_many", number)} confirm=${t("documents.remove")} action=${drop} args=${[chosen]} close=${close}>
      <p>${t("documents.remove_many_text")}</p><//>`}
    ${one && html`<${Confirm} title=${t("documents.remove_title")} confirm=${t("documents.remove")} action=${drop} args=${[[one]]}
      close=${() => { drop.clear(); over(); }}><p>${t("documents.remove_text", { document: one.document_id, namespace: one.namespace })}</p><//>`}
    ${asking === "again" && html`<${Confirm} title=${t("documents.again_title", number)} confirm=${t("documents.again")} action=${change} args=${[{}]}
      danger=${false} close=${close}><p>${t("documents.again_text")}</p>${discard}<//>`}
    ${asking === "readers" && html`<${Confirm} title=${t("documents.readers_title", number)} confirm=${t("action.save")} action=${permit}
      args=${[tagsOf(draft.readers)]} danger=${false} ready=${tagsOf(draft.readers).length > 0} close=${close}>
      <${Text} label=${t("field.readers")} value=${draft.readers} onInput=${set("readers")} hint=${t("documents.readers_text")} /><//>`}
    ${asking === "fields" && html`<${Confirm} title=${t("documents.edit_title", number)} confirm=${t("action.save")} action=${change} args=${[changes]}
      danger=${false} ready=${changed && !wrong} close=${close}>
      <div class="form">
        <${Text} label=${t("documents.add_tags")} value=${draft.add} onInput=${set("add")} hint=${t("upload.tags_hint")} />
        <${Text} label=${t("documents.remove_tags")} value=${draft.remove} onInput=${set("remove")} />
        ${TEXT_NAMES.map((name) => html`<${Text} key=${name} label=${t(`field.${name}`)} value=${draft[name]} onInput=${set(name)}
          maxlength=${TEXT_FIELDS[name]} hint=${t("documents.blank_stays")} />`)}
        <${Area} label=${t("documents.metadata")} rows="3" value=${draft.metadata} onInput=${set("metadata")} fault=${wrong && t("documents.no_object")} />
        ${discard}
      </div><//>`}`;
}
