// One record that people edit: saved under the version that was read, and a choice when somebody else was faster.
import { html, useEffect, useRef, useState } from "../html.js";
import { segment, send } from "../api.js";
import { useAction, useLoad } from "../load.js";
import { may } from "../session.js";
import { t } from "../words.js";
import { Changes } from "./changes.js";
import { Text } from "./fields.js";
import { drafted, Form, plain, sent } from "./form.js";
import { announce } from "./notices.js";
import { Loaded } from "./states.js";

/**
 * Read `path` and save it with PUT under the ETag that was read; `path` null means a new record, which overwrites none.
 * Returns `{loaded, save, theirs, mine, theirsInstead}`: on a conflict `theirs` is the record as it is now, `mine()` saves
 * over it (or saves another body), and `theirsInstead()` shows it. `missing`: the record to start from where the server has none; `start`: the
 * address of the record that a new one begins as.
 */
export function useRecord(path, { onSaved = () => {}, missing, start } = {}) {
  const etag = useRef(null);
  const [theirs, setTheirs] = useState(null);
  const waiting = useRef(null);
  const loaded = useLoad(async (signal) => {
    if (!path) return start ? (await send("GET", start, { signal })).body : {};
    const { body, headers, status } = await send("GET", path, { signal, accept: missing ? [404] : [] });
    etag.current = status === 404 ? null : headers.get("ETag");
    return status === 404 ? missing : body;
  }, [path, start]);

  const save = useAction(async (to, body) => {
    const headers = etag.current ? { "If-Match": etag.current } : { "If-None-Match": "*" };
    const { body: answer, status } = await send("PUT", to, { json: body, headers, accept: [412] });
    if (status === 412) {
      const now = await send("GET", to, { accept: missing ? [404] : [] });
      waiting.current = [to, body, now.status === 404 ? null : now.headers.get("ETag")];
      setTheirs(now.status === 404 ? missing : now.body);
      return;
    }
    setTheirs(null);
    if (path) loaded.reload(); // the answer to a PUT has no ETag
    onSaved(answer);
  });

  return {
    loaded, save, theirs,
    mine(instead) {
      const [to, body, version] = waiting.current;
      etag.current = version;
      return save.run(to, instead ?? body);
    },
    theirsInstead() {
      setTheirs(null);
      loaded.reload();
    },
  };
}

/** The choice after a conflict: keep mine, take theirs, or save what `merge(theirs)` makes. `show(theirs)` renders the other version. */
export function Conflict({ record, show, isNew = false, merge }) {
  if (!record.theirs) return null;
  return html`<div class="problem" role="alert">
    <p class="problem-title">${isNew ? t("form.exists") : t("form.conflict")}</p>
    <p>${isNew ? t("form.exists_text") : t("form.conflict_text")}</p>
    ${show(record.theirs)}
    <div class="buttons">
      ${merge && html`<button type="button" class="primary" disabled=${record.save.busy} onClick=${() => record.mine(merge(record.theirs))}>${t("form.merge")}</button>`}
      ${!isNew && html`<button type="button" class=${merge ? "" : "primary"} onClick=${record.theirsInstead}>${t("form.take_theirs")}</button>`}
      <button type="button" class="danger" disabled=${record.save.busy} onClick=${() => record.mine()}>${t("form.keep_mine")}</button>
    </div>
  </div>`;
}

/**
 * The form of one record at `path`, or of a new one, whose name makes the address below `collection`. `naming`: attributes
 * of the control for the name. `fields`: of a Form, or a function of draft and record that returns them. `body(draft)` and
 * `draft(record)` convert; by default they are those of the fields. `compared(draft)`: the part to compare on a conflict. `before`, `children`: functions of `(draft, setDraft,
 * error)` for what stands above and below the fields.
 */
export function RecordForm({
  path = null, collection = "", naming = {}, fields, missing, start, submit, before, children, onSaved = () => {}, readOnly = !may("write"),
  draft: draftOf = (record) => drafted(fields, record), body = (draft) => sent(fields, draft), compared = (draft) => draft,
}) {
  const [name, setName] = useState("");
  const [draft, setDraft] = useState(null);
  const record = useRecord(path, { missing, start, onSaved: (answer) => { announce(t("form.saved")); onSaved(answer, name.trim()); } });
  useEffect(() => { if (record.loaded.data) setDraft(draftOf(record.loaded.data)); }, [record.loaded.readAt]);
  const shown = draft && (typeof fields === "function" ? fields(draft, record.loaded.data) : fields);
  const { error } = record.save;
  const wrongName = error?.errors?.find((each) => each.pointer === `/${naming.field ?? "name"}`)?.detail;
  const labelOf = (key) => plain(shown).find((each) => each.name === key)?.label ?? key;
  return html`<${Loaded} of=${record.loaded}>${() => draft && html`
    <${Conflict} record=${record} isNew=${!path} show=${(theirs) => html`<${Changes} before=${compared(draftOf(theirs))} after=${compared(draft)}
      labels=${[t("form.theirs"), t("form.mine")]} name=${labelOf} />`} />
    ${before?.(draft, setDraft)}
    ${!path && html`<div class="record-form"><${Text} label=${t("field.name")} required maxlength="64" spellcheck=${false} ...${naming} value=${name}
      onInput=${setName} fault=${wrongName} /></div>`}
    <${Form} fields=${shown} value=${draft} onChange=${setDraft} error=${error} busy=${record.save.busy || record.loaded.loading}
      submit=${submit} readOnly=${readOnly} onSubmit=${() => name.trim() || path
        ? record.save.run(path ?? `${collection}/${segment(name.trim())}`, body(draft)) : setName("")}>
      ${children?.(draft, setDraft, error)}
    <//>`}<//>`;
}
