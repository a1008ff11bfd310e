// Every submission, newest first, by status, namespace and time, refreshed every few seconds.
import { html, useState } from "../../html.js";
import { ago, count, moment, short } from "../../format.js";
import { usePages } from "../../load.js";
import { Segments, useNamespaces } from "../../parts/fields.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { Progress } from "../../parts/progress.js";
import { Samples } from "../../parts/samples.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

const EVERY_MS = 4000;
const STATUSES = ["", "queued", "running", "succeeded", "partly_failed", "failed", "cancelled"];
const SPANS = { day: 86_400_000, week: 7 * 86_400_000, all: 0 };

export function Jobs() {
  const [chosen, setChosen] = useState({ status: "", namespace: "", since: "" });
  const [span, setSpan] = useState("all");
  const namespaces = useNamespaces();
  const jobs = usePages("v1/jobs", chosen, { everyMs: EVERY_MS });
  const isFiltered = Object.values(chosen).some(Boolean);
  const columns = [
    { key: "job", label: t("jobs.job"), main: true, render: (job) => html`
      <a href=${link("jobs", job.job_id)} title=${job.job_id}><code>${short(job.job_id)}</code></a>` },
    { key: "namespace", label: t("field.namespace"), render: (job) => job.namespace },
    { key: "status", label: t("field.status"), render: (job) => html`<${JobBadge} job=${job} />` },
    { key: "progress", label: t("jobs.progress"), wide: true, render: (job) => html`<${Progress} job=${job} compact />` },
    { key: "failed", label: t("jobs.failed"), numeric: true, render: (job) => job.failed
      ? html`<span class="bad-text">${count(job.failed)}</span>` : count(0) },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (job) => count(job.chunks) },
    { key: "created", label: t("field.created"), render: (job) => html`<time title=${moment(job.created_at)}>${ago(job.created_at)}</time>` },
  ];
  return html`
    <${Heading} title=${t("jobs.title")} about=${t("jobs.about")}>
      <a class="button primary" href=${link("upload")}>${t("nav.upload")}</a>
    <//>
    <div class="toolbar">
      <${Segments} label=${t("field.status")} value=${chosen.status} onInput=${(status) => setChosen({ ...chosen, status })}
        options=${STATUSES.map((status) => [status, status ? word("status", status) : t("field.all")])} />
      <${NamespaceChoice} value=${chosen.namespace} onInput=${(namespace) => setChosen({ ...chosen, namespace })} namespaces=${namespaces} all=${t("field.all")} />
      <${Segments} label=${t("jobs.span")} value=${span} options=${Object.keys(SPANS).map((name) => [name, t(`jobs.span_${name}`)])}
        onInput=${(name) => { setSpan(name); setChosen({ ...chosen, since: SPANS[name] ? new Date(Date.now() - SPANS[name]).toISOString() : "" }); }} />
    </div>
    <${Loaded} of=${jobs} empty=${isFiltered ? html`<${Empty} title=${t("jobs.none_such")} />` : html`<${Empty} title=${t("jobs.empty")}>
        <a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a><${Samples} /><//>`}>
      ${(data) => html`
        <${Table} caption=${t("jobs.title")} columns=${columns} rows=${data.rows} rowKey=${(job) => job.job_id} />
        <${More} pages=${jobs} />`}
    <//>`;
}

export function JobBadge({ job }) {
  const paused = job.paused_at && !job.finished_at;
  const state = paused ? "paused" : job.status;
  return html`<${Badge} of=${state} label=${word("status", state)} />`;
}
