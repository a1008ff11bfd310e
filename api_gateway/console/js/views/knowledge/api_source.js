// One business API: its request, the places of passages in its answer, and a trial call.
import { html } from "../../html.js";
import { post, segment } from "../../api.js";
import { milliseconds } from "../../format.js";
import { TEXT_NAMES } from "../../document_fields.js";
import { drafted, plain, sent } from "../../parts/form.js";
import { RecordForm } from "../../parts/record.js";
import { Rows } from "../../parts/rows.js";
import { Badge } from "../../parts/table.js";
import { Trial } from "../../parts/trial.js";
import { go, link } from "../../router.js";
import { Heading } from "../../shell.js";
import { codeName, said } from "../../sentences.js";
import { t, word } from "../../words.js";

const POINTERS = ["items", "text", "id", "title", "score", "url", "published_at", ...TEXT_NAMES, "tags"];

const fieldsOf = () => [
  { name: "enabled", kind: "check", label: t("api_source.enabled") },
  { group: t("api_source.request"), fields: [
    { name: "url", label: t("api_source.url"), type: "url", required: true, maxlength: 2048, hint: t("api_source.url_hint"), spellcheck: false },
    { name: "method", label: t("api_source.method"), kind: "choice", options: [["GET", "GET"], ["POST", "POST"]] },
    { name: "params", label: t("api_source.params"), kind: "json", hint: t("api_source.params_hint") },
    { name: "body", label: t("api_source.body"), kind: "json" },
  ] },
  { group: t("api_source.mapping"), fields: [
    ...POINTERS.map((name) => ({ name: `mapping/${name}`, label: word("api_place", name, word("field", name)), required: name === "text", maxlength: 256, spellcheck: false, placeholder: `/${name}` })),
    { name: "mapping/metadata", label: t("field.metadata"), kind: "json", placeholder: '{"price": "/price"}' },
    { name: "mapping/score_range", label: t("api_source.score_range"), kind: "json", placeholder: "[0, 1]" },
  ] },
  { group: t("api_source.limits"), fields: [
    { name: "namespaces", label: t("api_source.namespaces"), kind: "lines", hint: t("api_source.namespaces_hint") },
    { name: "timeout_ms", label: t("api_source.timeout"), kind: "number", min: 100, max: 2000, placeholder: "700" },
    { name: "max_items", label: t("api_source.max_items"), kind: "number", min: 1, max: 100, placeholder: "20" },
    { name: "max_text", label: t("api_source.max_text"), kind: "number", min: 1, max: 20000, placeholder: "4000" },
    { name: "min_score", label: t("api_source.min_score"), kind: "number", min: 0, max: 1, step: "any", placeholder: "0" },
  ] },
  { name: "applies_filters", kind: "check", label: t("api_source.applies_filters") },
];

const NEW = { enabled: true, method: "GET", params: { q: "{query}" }, mapping: { items: "/results", text: "/text" } };

/** The headers of a source as rows: a stored value stays unless another one is typed. */
const headerRows = (headers = {}) => Object.entries(headers).map(([name, value]) => (
  value.from ? { name, kind: "from", value: value.from } : { name, kind: "kept", value: "" }));

const headersOf = (rows) => Object.fromEntries(rows.filter(({ name }) => name.trim()).map(({ name, kind, value }) => [
  name.trim(), kind === "kept" ? { kept: true } : kind === "from" ? { from: value.trim() } : value]));

export function ApiSource({ parts: [name] }) {
  const isNew = name === "+";
  const fields = fieldsOf();
  const columns = [
    { name: "name", label: t("api_source.header"), spellcheck: false },
    { name: "kind", label: t("api_source.value_from"), options: [["value", t("api_source.value_new")], ["kept", t("api_source.value_kept")], ["from", t("api_source.value_env")]] },
    { name: "value", label: t("api_source.value"), type: "password", autocomplete: "new-password", when: (row) => row.kind === "value" },
    { name: "value", label: t("api_source.secret_name"), when: (row) => row.kind === "from" },
  ];
  return html`
    <${Heading} title=${isNew ? t("api_source.create") : name} back=${[link("api-sources"), t("nav.api-sources")]} />
    ${!isNew && html`<${Trial} id="trial" title=${t("api_source.test")} about=${t("api_source.test_about")} submit=${t("api_source.call")}
      ask=${(text, namespace) => call(name, text, namespace)} />`}
    <section aria-labelledby="settings">
      <h2 id="settings">${t("api_source.settings")}</h2>
      <${RecordForm} key=${name} path=${isNew ? null : `v1/api-sources/${segment(name)}`} collection="v1/api-sources" fields=${fields}
        naming=${{ pattern: "[a-z0-9][a-z0-9_\\-]{0,63}", hint: t("api_source.name_hint") }}
        draft=${(record) => ({ ...drafted(fields, isNew && !record.url ? NEW : record), headers: headerRows(record.headers) })}
        body=${(draft) => ({ ...sent(plain(fields), draft), headers: headersOf(draft.headers) })}
        onSaved=${(saved) => isNew && go("api-sources", saved.name)}>
        ${(draft, setDraft, error) => html`<${Rows} label=${t("api_source.headers")} columns=${columns} value=${draft.headers} error=${error}
          blank=${{ name: "", kind: "value", value: "" }} add=${t("api_source.add_header")} onInput=${(headers) => setDraft({ ...draft, headers })} />`}
      <//>
    </section>`;
}

/** A call of the stored source, as a query would make it. */
async function call(name, text, namespace) {
  const result = await post(`v1/api-sources/${segment(name)}/test`, { query_text: text, namespaces: [namespace] });
  const note = html`
    <p><${Badge} of=${result.ok ? "ok" : "failed"} label=${result.ok ? t("api_source.answered", { count: result.passages.length }) : codeName(result.code)} /> ${milliseconds(result.elapsed_ms)}</p>
    ${result.detail && html`<p class="bad-text">${said(result.detail)}</p>`}
    ${Object.entries(result.left_out).map(([reason, rows]) => html`<p key=${reason} class="muted">${t("api_source.left_out", { count: rows, reason })}</p>`)}`;
  return { hits: result.passages, note };
}
