// The dictionary of a namespace, or of all: synonyms, stop words, phrases and rules.
import { html, useEffect, useState } from "../../html.js";
import { post, query, remove } from "../../api.js";
import { count } from "../../format.js";
import { useAction } from "../../load.js";
import { Changes } from "../../parts/changes.js";
import { Confirm } from "../../parts/dialog.js";
import { useNamespaces } from "../../parts/fields.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { Conflict, useRecord } from "../../parts/record.js";
import { Loaded, Problem } from "../../parts/states.js";
import { Tabs } from "../../parts/tabs.js";
import { Trial } from "../../parts/trial.js";
import { go } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { changed, KINDS, lineOf, merged } from "./dictionary_lines.js";
import { Entries } from "./entries.js";

const NOTHING = Object.fromEntries(KINDS.map((kind) => [kind, []]));
const bodyOf = (dictionary) => Object.fromEntries(KINDS.map((kind) => [kind, dictionary[kind] ?? []]));
const linesOf = (dictionary) => Object.fromEntries(KINDS.map((kind) => [t(`dictionary.${kind}`), dictionary[kind].map((entry) => lineOf(kind, entry)).sort().join("\n")]));

export function Dictionary({ parts: [namespace = ""] }) {
  const namespaces = useNamespaces();
  const [pending, setPending] = useState(0);
  return html`
    <${Heading} title=${t("nav.dictionary")} about=${t("dictionary.about")} />
    <div class="toolbar">
      <${NamespaceChoice} namespaces=${namespaces} all=${t("dictionary.every_namespace")} value=${namespace} disabled=${pending > 0}
        hint=${pending > 0 ? t("dictionary.save_first") : undefined} onInput=${(value) => (value ? go("dictionary", value) : go("dictionary"))} />
    </div>
    <${OfNamespace} key=${namespace} namespace=${namespace} onPending=${setPending} />
    <${Trial} id="trial" key=${`trial ${namespace}`} title=${t("dictionary.try")} about=${t("dictionary.try_about")} submit=${t("play.ask")} namespace=${namespace}
      ask=${async (text, within) => ({ hits: (await post("v1/rag/query", { query_text: text, namespaces: [within], top_k: 5, highlight: true, retrieve: { method: "full_text" } })).chunks })} />`;
}

function OfNamespace({ namespace, onPending }) {
  const address = `v1/dictionary${query({ namespace })}`;
  const [draft, setDraft] = useState(null);
  const [deleting, setDeleting] = useState(false);
  const record = useRecord(address, { missing: NOTHING, onSaved: () => announce(t("dictionary.saved")) });
  const stored = record.loaded.data && bodyOf(record.loaded.data);
  useEffect(() => { if (stored) setDraft(stored); }, [record.loaded.readAt]);
  const pending = draft && stored ? changed(stored, draft) : 0;
  useEffect(() => onPending(pending), [pending]);
  const drop = useAction(async () => {
    await remove(address);
    announce(t("listing.removed", { name: t("nav.dictionary") }));
    record.loaded.reload();
  });
  return html`<${Loaded} of=${record.loaded}>${() => draft && html`
    <${Conflict} record=${record} merge=${(theirs) => merged(stored, draft, bodyOf(theirs))}
      show=${(theirs) => html`<${Changes} before=${linesOf(bodyOf(theirs))} after=${linesOf(draft)} labels=${[t("form.theirs"), t("form.mine")]} />`} />
    ${record.save.error && html`<${Problem} error=${record.save.error} /><${Faults} error=${record.save.error} draft=${draft} />`}
    ${pending > 0 && html`<div class="panel tight row between">
      <span role="status">${t("dictionary.pending", { count: count(pending) })}</span>
      <div class="buttons">
        <button class="primary" disabled=${record.save.busy} aria-busy=${record.save.busy} onClick=${() => record.save.run(address, draft)}>${t("action.save")}</button>
        <button onClick=${() => { setDraft(stored); record.save.clear(); }}>${t("dictionary.discard")}</button>
      </div>
    </div>`}
    <${Tabs} label=${t("nav.dictionary")} tabs=${KINDS.map((kind) => ({
      id: kind, label: t(`dictionary.${kind}`), note: draft[kind].length,
      panel: () => html`<${Entries} key=${kind} kind=${kind} entries=${draft[kind]} namespace=${namespace} onInput=${(entries) => setDraft({ ...draft, [kind]: entries })} />`,
    }))} />
    ${may("write") && record.loaded.data.version && html`<p><button class="quiet danger-text" onClick=${() => setDeleting(true)}>${t("dictionary.remove")}</button></p>`}
    ${deleting && html`<${Confirm} title=${t("dictionary.remove_title")} confirm=${t("listing.remove")} action=${drop} close=${() => setDeleting(false)}>
      <p>${t("dictionary.remove_text")}</p><//>`}`}<//>`;
}

/** The entries that the server refused, by their own words rather than by number. */
function Faults({ error, draft }) {
  const named = (error.errors ?? []).map(({ pointer = "", detail }) => {
    const [, kind, index] = pointer.split("/");
    return draft[kind]?.[index] && `${t(`dictionary.${kind}`)}: “${lineOf(kind, draft[kind][index])}”: ${detail}`;
  });
  return html`<ul class="plain lines">${named.filter(Boolean).map((line) => html`<li key=${line} class="bad-text">${line}</li>`)}</ul>`;
}
