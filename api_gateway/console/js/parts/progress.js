// The progress of a job: done, failed, cancelled and open parts of one bar, with the numbers as text beside it.
import { html } from "../html.js";
import { count, duration } from "../format.js";
import { t, word } from "../words.js";

export function Progress({ job, compact = false }) {
  const done = job.succeeded + job.failed + job.cancelled;
  const share = (part) => `${job.total ? (100 * part) / job.total : 0}%`;
  const text = t("progress.of", { done: count(done), total: count(job.total) });
  return html`
    <div class=${compact ? "progress compact" : "progress"}>
      <div class="progress-bar" role="progressbar" aria-label=${t("jobs.progress")} aria-valuemin="0" aria-valuemax=${job.total}
        aria-valuenow=${done} aria-valuetext=${text}>
        <span class="part good" style=${{ width: share(job.succeeded) }}></span>
        <span class="part bad" style=${{ width: share(job.failed) }}></span>
        <span class="part off" style=${{ width: share(job.cancelled) }}></span>
      </div>
      <span class="progress-text">${text}</span>
    </div>`;
}

/** The live figures under the bar of one job. */
export function Pace({ job }) {
  if (job.finished_at) return null;
  return html`<p class="pace">
    ${job.waiting_reason && html`<strong>${word("waiting", job.waiting_reason)}</strong>`}
    ${job.rate != null && html`<span>${t("progress.rate", { rate: count(job.rate) })}</span>`}
    ${job.eta_seconds != null && html`<span>${t("progress.eta", { time: duration(job.eta_seconds) })}</span>`}
  </p>`;
}

const STAGES = ["accepted", "parse", "chunk", "embed", "publish"];

/** The number of documents that have passed each stage. */
export function Stages({ job }) {
  return html`<ol class="stages" aria-label=${t("progress.stages")}>
    ${STAGES.map((stage) => {
      const passed = job.stages?.[stage] ?? 0;
      return html`<li key=${stage} class=${passed >= job.total && job.total ? "done" : ""}>
        <span>${t(`stage.${stage}`)}</span><b>${count(passed)}</b>
      </li>`;
    })}
  </ol>`;
}
