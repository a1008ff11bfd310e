// The fields of a document, edited under the etag of its generations; saving ingests the document again.
import { html, useState } from "../../html.js";
import { ApiError, segment, send } from "../../api.js";
import { TEXT_FIELDS } from "../../document_fields.js";
import { useAction, useLoad } from "../../load.js";
import { drafted, Form } from "../../parts/form.js";
import { Check } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Loaded } from "../../parts/states.js";
import { go } from "../../router.js";
import { t } from "../../words.js";

const fieldsOf = () => [
  { name: "title", label: t("field.title"), maxlength: 1024 },
  ...Object.entries(TEXT_FIELDS).map(([name, maxlength]) => ({ name, label: t(`field.${name}`), maxlength })),
  { name: "tags", label: t("field.tags"), kind: "lines", hint: t("document.tags_hint") },
  { name: "published_at", label: t("field.published"), hint: t("document.time_hint") },
  { name: "metadata", label: t("field.metadata"), kind: "json" },
];

/** The values of a draft that differ from the document; an empty control empties its field. */
function changesOf(fields, draft, before) {
  return Object.fromEntries(fields.filter(({ name }) => draft[name] !== before[name]).map(({ name, kind }) => {
    const text = draft[name];
    if (kind === "lines") return [name, text.split("\n").map((line) => line.trim()).filter(Boolean)];
    if (kind === "json") return [name, text.trim() ? JSON.parse(text) : {}];
    return [name, text.trim() || null];
  }));
}

export function Fields({ document, path, again }) {
  const fields = fieldsOf();
  const before = drafted(fields, document);
  const [draft, setDraft] = useState(before);
  const [discard, setDiscard] = useState(false);
  const state = useLoad(async (signal) => (
    await send("GET", `${path}/generations?namespace=${segment(document.namespace)}`, { signal })).body, [path, document.generation]);

  const save = useAction(async () => {
    let set;
    try { set = changesOf(fields, draft, before); } catch { return; } // the form says beside the field that it is no JSON
    const json = { namespace: document.namespace, document_ids: [document.document_id], set, discard_edits: discard };
    try {
      const { body } = await send("PATCH", "v1/documents", { json, headers: { "If-Match": state.data.etag } });
      announce(t("document.accepted"));
      go("jobs", body.job_id);
    } catch (error) {
      // The form's fields are named /title, those of the request /set/title.
      if (error instanceof ApiError) error.errors = error.errors?.map((each) => ({ ...each, pointer: each.pointer?.replace(/^\/set(?=\/)/, "") }));
      throw error;
    }
  });
  const changed = fields.some(({ name }) => draft[name] !== before[name]);
  return html`<p class="about">${t("document.fields_about")}</p>
    <${Loaded} of=${state}>${() => html`
      <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => changed && save.run()} error=${save.error} busy=${save.busy}
        cancel=${changed ? () => setDraft(before) : undefined}>
        <${Check} label=${t("documents.discard")} checked=${discard} onInput=${setDiscard} />
      <//>
      ${save.error?.status === 412 && html`<p class="buttons"><button onClick=${() => { save.clear(); state.reload(); again(); }}>${t("chunk.take_current")}</button></p>`}`}
    <//>`;
}
