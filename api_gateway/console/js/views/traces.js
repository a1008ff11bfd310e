// Queries with traces: those of this tab, and, for a key with the scope admin, the tenant's latest.
import { html, useState } from "../html.js";
import { ago, count, milliseconds, moment, short } from "../format.js";
import { usePages } from "../load.js";
import { Text } from "../parts/fields.js";
import { Empty, Loaded } from "../parts/states.js";
import { More, Table } from "../parts/table.js";
import { go, link } from "../router.js";
import { asked, may } from "../session.js";
import { Heading } from "../shell.js";
import { useStore } from "../store.js";
import { t } from "../words.js";
import { StatusOf } from "./side.js";

export function Traces() {
  const [id, setId] = useState("");
  const mine = useStore(asked);

  function open(event) {
    event.preventDefault();
    if (id.trim()) go("traces", id.trim());
  }

  const columns = [
    { key: "query", label: t("trace.query"), main: true, render: (each) => html`<a class="title" href=${link("traces", each.query_id)}>${each.text}</a>` },
    { key: "namespaces", label: t("play.namespaces"), render: (each) => each.namespaces.join(", ") },
    { key: "id", label: t("trace.id"), render: (each) => html`<code>${short(each.query_id)}</code>` },
    { key: "at", label: t("trace.at"), render: (each) => html`<time title=${moment(each.at)}>${ago(each.at)}</time>` },
  ];
  return html`
    <${Heading} title=${t("nav.traces")} about=${t("trace.about")} />
    <form class="panel ask" onSubmit=${open}>
      <${Text} label=${t("trace.id")} value=${id} onInput=${setId} class="grow" spellcheck=${false} />
      <button class="primary" disabled=${!id.trim()}>${t("trace.open")}</button>
    </form>
    <section aria-labelledby="mine">
      <h2 id="mine">${t("trace.mine")}</h2>
      ${mine.length
        ? html`<${Table} caption=${t("trace.mine")} columns=${columns} rows=${mine} rowKey=${(each) => each.query_id} />`
        : html`<${Empty} title=${t("trace.none")}><a class="button" href=${link("playground")}>${t("nav.playground")}</a><//>`}
    </section>
    ${may("admin") && html`<${Latest} />`}`;
}

/** From the audit, which holds query texts only if the installation stores them. */
function Latest() {
  const rows = usePages("v1/audit", { action: "search" }, { limit: 25, everyMs: 10000 });
  const columns = [
    { key: "id", label: t("trace.id"), main: true, render: (row) => html`
      <a href=${link("traces", row.detail.query_id)} title=${row.detail.query_id}>${row.query_text || html`<code>${short(row.detail.query_id)}</code>`}</a>` },
    { key: "status", label: t("field.status"), render: (row) => html`
      <${StatusOf} status=${row.status} degraded=${row.detail.degraded} />` },
    { key: "namespaces", label: t("play.namespaces"), render: (row) => row.namespaces.join(", ") },
    { key: "profile", label: t("play.profile"), render: (row) => row.detail.profile },
    { key: "by", label: t("trace.by"), render: (row) => row.actor.key_name },
    { key: "found", label: t("trace.found"), numeric: true, render: (row) => count(row.count) },
    { key: "ms", label: t("play.timing"), numeric: true, render: (row) => milliseconds(row.detail.latency_ms) },
    { key: "at", label: t("trace.at"), render: (row) => html`<time title=${moment(row.at)}>${ago(row.at)}</time>` },
  ];
  return html`<section aria-labelledby="latest">
    <h2 id="latest">${t("trace.latest")}</h2>
    <p class="about">${t("trace.latest_about")}</p>
    <${Loaded} of=${rows} empty=${html`<${Empty} title=${t("trace.none")} />`}>
      ${(data) => html`<${Table} caption=${t("trace.latest")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.audit_id} /><${More} pages=${rows} />`}
    <//>
  </section>`;
}
