// The jobs of an upload, live: one in full, several together.
import { html, useEffect, useState } from "../../html.js";
import { get, query } from "../../api.js";
import { followJob } from "../../events.js";
import { count, short } from "../../format.js";
import { useLoad } from "../../load.js";
import { announce } from "../../parts/notices.js";
import { Pace, Progress, Stages } from "../../parts/progress.js";
import { Problem } from "../../parts/states.js";
import { warningsOf } from "../../parts/warnings.js";
import { link } from "../../router.js";
import { said } from "../../sentences.js";
import { t, word } from "../../words.js";
import { JobBadge } from "./jobs.js";

const EVERY_MS = 1500;
const MOST_WARNED = 50;

/** The job of one submission. */
export function Sent({ id }) {
  const [job, setJob] = useState(null);
  const [failures, setFailures] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    followJob(id, { signal: controller.signal, onEvent(name, data) {
      if (name === "item_failed") setFailures((before) => [...before, data].slice(-50));
      else setJob(data);
      if (name === "finished") announce(t("job.ended", { status: word("status", data.status) }));
    } }).catch(setError);
    return () => controller.abort();
  }, [id]);
  return html`<section class="panel" aria-label=${t("jobs.job")}>
    <p class="row between"><a href=${link("jobs", id)}>${t("upload.job")} <code>${id.slice(0, 8)}</code></a>${job && html`<${JobBadge} job=${job} />`}</p>
    ${error && html`<${Problem} error=${error} />`}
    ${job ? html`<${Progress} job=${job} /><${Pace} job=${job} /><${Stages} job=${job} />` : !error && html`<div class="skeleton"></div>`}
    ${failures.length > 0 && html`<ul class="plain lines">${failures.map((failure) => html`
      <li key=${failure.document_id ?? failure.pointer}><code>${failure.document_id ?? failure.pointer}</code> ${said(failure.detail)}</li>`)}</ul>`}
    ${job?.finished_at && html`<${Warned} id=${id} namespace=${job.namespace} />`}
  </section>`;
}

/** Several jobs as one bar. They are read in turn: a browser opens few streams at once. */
export function SentMany({ ids }) {
  const [jobs, setJobs] = useState({});
  const open = ids.filter((id) => !jobs[id]?.finished_at);
  useEffect(() => {
    if (!open.length) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(async () => {
      const news = {};
      for (const id of open.slice(0, 10)) {
        try { news[id] = await get(`v1/jobs/${id}`, { signal: controller.signal }); } catch { break; } // the next round tries again
      }
      if (!controller.signal.aborted) setJobs((before) => ({ ...before, ...news }));
    }, EVERY_MS);
    return () => { clearTimeout(timer); controller.abort(); };
  }, [open.join(), jobs]);
  const all = Object.values(jobs);
  const sum = (name) => all.reduce((total, job) => total + job[name], 0);
  const whole = { total: sum("total"), succeeded: sum("succeeded"), failed: sum("failed"), cancelled: sum("cancelled") };
  return html`<section class="panel" aria-label=${t("jobs.title")}>
    <p><b>${t("upload.jobs", { done: count(ids.length - open.length), total: count(ids.length) })}</b></p>
    ${all.length ? html`<${Progress} job=${whole} />` : html`<div class="skeleton"></div>`}
    <ul class="plain lines files">${ids.map((id) => html`<li key=${id} class="row between"><a href=${link("jobs", id)}>${t("upload.job")} <code>${short(id)}</code></a>
      ${jobs[id] && html`<span>${jobs[id].failed > 0 && html`<span class="bad-text">${t("upload.failed", { count: count(jobs[id].failed) })} </span>`}<${JobBadge} job=${jobs[id]} /></span>`}</li>`)}
    </ul>
    ${all.filter((job) => job.finished_at).map((job) => html`<${Warned} key=${job.job_id} id=${job.job_id} namespace=${job.namespace} />`)}
  </section>`;
}

/** The documents of an ended job that were taken with a warning; nothing if there are none. */
function Warned({ id, namespace }) {
  const items = useLoad(async (signal) => {
    const warned = [];
    let cursor = null;
    do {
      const page = await get(`v1/jobs/${id}/items${query({ status: "succeeded", warned: true, limit: 200, cursor })}`, { signal });
      warned.push(...page.data);
      cursor = page.next_cursor;
    } while (cursor && warned.length < MOST_WARNED);
    return warned.slice(0, MOST_WARNED);
  }, [id]);
  if (items.error) return html`<${Problem} error=${items.error} retry=${items.reload} />`;
  if (!items.data?.length) return null;
  return html`<div class="note warn"><p><strong>${t("upload.warned")}</strong></p>
    <ul class="plain lines">${items.data.map((item) => html`<li key=${item.ordinal}>
      <a href=${link("documents", namespace, item.document_id)}>${item.document_id}</a> ${warningsOf(item).join(" ")}</li>`)}</ul></div>`;
}
