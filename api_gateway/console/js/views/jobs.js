// Every submission, newest first, refreshed every few seconds.
import { html } from "../html.js";
import { ago, count, moment, short } from "../format.js";
import { usePages } from "../load.js";
import { Progress } from "../parts/progress.js";
import { Samples } from "../parts/samples.js";
import { Empty, Loaded } from "../parts/states.js";
import { Badge, More, Table } from "../parts/table.js";
import { link } from "../router.js";
import { Heading } from "../shell.js";
import { t, word } from "../words.js";

const EVERY_MS = 4000;

export function Jobs() {
  const jobs = usePages("v1/jobs", {}, { everyMs: EVERY_MS });
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
    <${Loaded} of=${jobs} empty=${html`<${Empty} title=${t("jobs.empty")}>
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
