// One job, followed live; its failures with their reasons; cancel, pause, resume, retry.
import { html, useEffect, useState } from "../../html.js";
import { get, post } from "../../api.js";
import { followJob } from "../../events.js";
import { ago, count, moment, short } from "../../format.js";
import { useAction, useLoad, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Segments } from "../../parts/fields.js";
import { Name } from "../../parts/name.js";
import { announce } from "../../parts/notices.js";
import { Pace, Progress, Stages } from "../../parts/progress.js";
import { Copyable, Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, Facts, More, Table } from "../../parts/table.js";
import { warningsOf } from "../../parts/warnings.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { codeName, said } from "../../sentences.js";
import { t, word } from "../../words.js";
import { JobBadge } from "./jobs.js";

export function Job({ parts: [id] }) {
  const first = useLoad((signal) => get(`v1/jobs/${encodeURIComponent(id)}`, { signal }), [id]);
  return html`
    <${Heading} title=${t("job.title", { id: short(id) })} back=${[link("jobs"), t("jobs.title")]} />
    <${Loaded} of=${first} lines=${4}>${(job) => html`<${Followed} key=${job.updated_at} first=${job} again=${first.reload} />`}<//>`;
}

/** The job as it changes. Reading it again after an action restarts the stream. */
function Followed({ first, again }) {
  const [job, setJob] = useState(first);
  const [failures, setFailures] = useState(first.errors);
  const [broken, setBroken] = useState(false);
  const [error, setError] = useState(null);
  const open = !job.finished_at;

  useEffect(() => {
    if (first.finished_at) return undefined;
    const controller = new AbortController();
    setFailures([]);
    followJob(first.job_id, { signal: controller.signal, onBreak: setBroken, onEvent(name, data) {
      if (name === "item_failed") setFailures((before) => [...before, data].slice(-200));
      else setJob((before) => ({ ...before, ...data }));
      if (name === "finished") announce(t("job.ended", { status: word("status", data.status) }));
    } }).catch(setError);
    return () => controller.abort();
  }, [first.job_id]);

  return html`
    <section class="panel">
      <div class="row between">
        <div class="row">
          <${JobBadge} job=${job} />
          ${open && !error && html`<span class=${broken ? "live off" : "live"}>${broken ? t("job.reconnecting") : t("job.live")}</span>`}
        </div>
        <${Steer} job=${job} again=${again} />
      </div>
      ${error && html`<${Problem} error=${error} retry=${again} />`}
      <${Progress} job=${job} />
      <${Pace} job=${job} />
      <${Stages} job=${job} />
      <${Facts} of=${[
        [t("jobs.job"), html`<${Copyable} text=${job.job_id} />`],
        [t("field.namespace"), html`<a href=${link("documents", job.namespace)}>${job.namespace}</a>`],
        [t("field.chunks"), count(job.chunks)],
        job.usage && [t("job.tokens"), count(job.usage.tokens)],
        [t("field.created"), html`<time title=${moment(job.created_at)}>${ago(job.created_at)}</time>`],
        job.finished_at && [t("job.finished"), html`<time title=${moment(job.finished_at)}>${ago(job.finished_at)}</time>`],
      ]} />
    </section>
    ${failures.length > 0 && html`<${Failures} failures=${failures} total=${job.failed} />`}
    <${Items} id=${job.job_id} open=${open} />`;
}

function Steer({ job, again }) {
  const [asking, setAsking] = useState(false);
  const action = useAction(async (what) => {
    await post(`v1/jobs/${job.job_id}/${what}`);
    announce(t(`job.done_${what}`));
    again();
  });
  if (!may("write")) return null;
  const open = !job.finished_at;
  const button = (what) => html`<button disabled=${action.busy} onClick=${() => action.run(what)}>${t(`job.${what}`)}</button>`;
  return html`<div class="buttons">
    ${open && (job.paused_at ? button("resume") : button("pause"))}
    ${(job.failed > 0 || job.cancelled > 0) && button("retry")}
    ${open && html`<button class="danger-text" onClick=${() => setAsking(true)}>${t("job.cancel")}</button>`}
    ${asking && html`<${Confirm} title=${t("job.cancel_title")} confirm=${t("job.cancel")} action=${action} args=${["cancel"]}
      close=${() => setAsking(false)}><p>${t("job.cancel_text", { open: count(job.total - job.succeeded - job.failed - job.cancelled) })}</p><//>`}
    ${!asking && action.error && html`<${Problem} error=${action.error} />`}
  </div>`;
}

function Failures({ failures, total }) {
  const reasons = new Map();
  for (const failure of failures) reasons.set(failure.code, [...(reasons.get(failure.code) ?? []), failure]);
  return html`<section aria-labelledby="failures">
    <h2 id="failures">${t("job.failures", { count: count(total) })}</h2>
    ${[...reasons].map(([code, group]) => html`
      <div class="panel tight" key=${code}>
        <p><${Badge} of="failed" label=${codeName(code)} /> <code>${code}</code> <span class="muted">× ${count(group.length)}</span></p>
        <ul class="plain lines">${group.slice(0, 20).map((failure) => html`
          <li key=${failure.document_id ?? failure.pointer}><code><${Name} text=${failure.document_id ?? failure.pointer} /></code> ${said(failure.detail)}</li>`)}
        </ul>
      </div>`)}
    <p class="muted"><a href=${link("dead-letters")}>${t("job.to_dead_letters")}</a></p>
  </section>`;
}

const STATES = ["", "queued", "running", "succeeded", "failed", "cancelled"];

function Items({ id, open }) {
  const [status, setStatus] = useState("");
  const items = usePages(`v1/jobs/${id}/items`, { status }, { everyMs: open ? 3000 : 0 });
  const columns = [
    { key: "document", label: t("field.document"), main: true, render: (item) => html`<${Name} text=${item.document_id ?? item.pointer ?? "–"} />${warningsOf(item).map((warning) => html`<p class="hint" key=${warning}>${warning}</p>`)}` },
    { key: "status", label: t("field.status"), render: (item) => html`<${Badge} of=${item.status} label=${word("status", item.status)} />` },
    { key: "outcome", label: t("job.outcome"), render: (item) => item.code ? html`<span title=${item.code}>${codeName(item.code)}</span>` : word("outcome", item.outcome ?? "") || "–" },
    { key: "attempts", label: t("field.attempts"), numeric: true, render: (item) => count(item.attempts) },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (item) => count(item.chunks) },
  ];
  return html`<section aria-labelledby="items">
    <div class="row between">
      <h2 id="items">${t("job.items")}</h2>
      <${Segments} label=${t("field.status")} value=${status} onInput=${setStatus}
        options=${STATES.map((state) => [state, state ? word("status", state) : t("field.all")])} />
    </div>
    <${Loaded} of=${items} empty=${html`<${Empty} title=${t("job.no_items")} />`}>
      ${(data) => html`<${Table} caption=${t("job.items")} columns=${columns} rows=${data.rows} rowKey=${(item) => item.ordinal} />
        <${More} pages=${items} />`}
    <//>
  </section>`;
}
