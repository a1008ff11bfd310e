// Who searched and changed what, and when.
import { html, useState } from "../../html.js";
import { get, query, send } from "../../api.js";
import { count, moment, short } from "../../format.js";
import { useAction, useLoad, usePages } from "../../load.js";
import { Choice, Segments, Text } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Names } from "../../parts/name.js";
import { Copyable, Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { openFile, pour } from "../../saving.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

// docs/security-and-audit.md
const ACTIONS = [
  "search", "ingest", "rollback", "delete", "source_delete", "source_follow", "source_unfollow", "source_run", "source_confirm", "source_pause", "source_resume", "namespace_delete", "chunk_edit", "chunk_delete", "import_forget",
  "job_cancel", "job_retry", "job_pause", "job_resume", "dead_letter_replay", "dead_letter_drop", "webhook_add", "webhook_rotate",
  "webhook_remove", "webhook_enable", "webhook_redeliver", "file_put", "file_delete", "vector_store_open", "vector_store_change",
  "profile_store", "profile_activate", "profile_rollback", "profile_remove", "experiment_store", "experiment_remove", "dictionary_store",
  "dictionary_delete", "entities_put", "entities_delete", "api_source_put", "api_source_remove", "feedback", "feedback_remove", "repair",
  "key_issue", "key_rotate", "key_revoke", "tenant_create", "tenant_quotas", "tenant_enable", "tenant_disable",
];
const SPANS = { day: 86_400_000, week: 7 * 86_400_000, month: 30 * 86_400_000, all: null, other: null };

const after = (span) => (SPANS[span] ? new Date(Date.now() - SPANS[span]).toISOString() : "");

/** The moment in a control for local time, in UTC; empty if it is empty or no time. */
const utc = (text) => (Number.isNaN(Date.parse(text)) ? "" : new Date(text).toISOString());

export function Audit() {
  const [chosen, setChosen] = useState({ action: "", key_id: "", since: after("week"), until: "" });
  const [span, setSpan] = useState("week");
  const [times, setTimes] = useState(["", ""]);
  const keys = useLoad((signal) => get("v1/keys?limit=200", { signal }), []);
  const rows = usePages("v1/audit", chosen, { everyMs: 15_000 });
  const set = (name) => (value) => setChosen({ ...chosen, [name]: value });

  function chooseSpan(name) {
    setSpan(name);
    if (name !== "other") setChosen({ ...chosen, since: after(name), until: "" });
  }
  function setTime(end, text) {
    const next = times.map((each, at) => (at === end ? text : each));
    setTimes(next);
    setChosen({ ...chosen, since: utc(next[0]), until: utc(next[1]) });
  }

  const download = useAction(async () => {
    const file = await openFile("audit.jsonl");
    if (!file) return;
    try {
      const { body } = await send("GET", `v1/audit/export${query(chosen)}`, { raw: true, headers: { Accept: "*/*" } });
      await pour(body, file);
      await file.close();
      announce(t("audit.exported"));
    } catch (error) {
      await file.abort();
      throw error instanceof RangeError ? { title: t("audit.too_large") } : error;
    }
  });

  const columns = [
    { key: "action", label: t("audit.action"), main: true, render: (row) => html`<span class="title">${word("audit_action", row.action)}</span>` },
    { key: "actor", label: t("audit.actor"), render: (row) => (row.actor.key_id
      ? html`<span title=${row.actor.key_id}>${row.actor.key_name} <code class="under">${short(row.actor.key_id)}</code></span>` : html`<${Badge} label=${t("audit.installation")} />`) },
    { key: "namespaces", label: t("field.namespace"), render: (row) => row.namespaces.length ? html`<${Names} of=${row.namespaces} />` : "–" },
    { key: "count", label: t("audit.count"), numeric: true, render: (row) => count(row.count) },
    { key: "status", label: t("field.status"), render: (row) => html`<${Badge} of=${row.status} label=${word("status", row.status)} />` },
    { key: "at", label: t("audit.at"), render: (row) => html`<time>${moment(row.at)}</time>` },
    { key: "detail", label: t("audit.detail"), wide: true, render: (row) => html`<${Detail} row=${row} />` },
  ];
  return html`
    <${Heading} title=${t("nav.audit")} about=${t("audit.about")}>
      <button onClick=${() => download.run()} disabled=${download.busy} aria-busy=${download.busy}>${t("audit.export")}</button>
    <//>
    <div class="toolbar">
      <${Choice} label=${t("audit.action")} value=${chosen.action} onInput=${set("action")}
        options=${[["", t("field.all")], ...ACTIONS.map((action) => [action, word("audit_action", action)])]} />
      <${Choice} label=${t("audit.actor")} value=${chosen.key_id} onInput=${set("key_id")}
        options=${[["", t("field.all")], ...(keys.data?.data ?? []).map((key) => [key.key_id, `${key.name} (${key.key_id.slice(0, 6)})`])]} />
      <${Segments} label=${t("audit.span")} value=${span} onInput=${chooseSpan} options=${Object.keys(SPANS).map((name) => [name, t(`audit.span_${name}`)])} />
      ${span === "other" && [0, 1].map((end) => html`<${Text} key=${end} type="datetime-local" label=${[t("audit.since"), t("audit.until")][end]}
        value=${times[end]} onInput=${(text) => setTime(end, text)} />`)}
    </div>
    ${download.error && html`<${Problem} error=${download.error} />`}
    <${Loaded} of=${rows} empty=${html`<${Empty} title=${t("audit.empty")} />`}>
      ${(data) => html`<${Table} caption=${t("nav.audit")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.audit_id} /><${More} pages=${rows} />`}
    <//>`;
}

function Detail({ row }) {
  const facts = { ...row.detail, ...(row.query_text ? { query_text: row.query_text } : {}) };
  return html`<details><summary>${row.query_text || row.ids.slice(0, 2).join(", ") || t("audit.more")}</summary>
    ${row.ids.length > 2 && html`<p class="hint">${row.ids.join(", ")}${row.count > row.ids.length ? " …" : ""}</p>`}
    <pre>${JSON.stringify(facts, null, 1)}</pre>
    <p class="hint">${t("error.request_id")} <${Copyable} text=${row.request_id} /></p>
  </details>`;
}
