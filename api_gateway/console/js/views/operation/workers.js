// The workers: what each runs and for how long, so that a stuck one is seen; and its host, queues, version, last heartbeat.
import { html } from "../../html.js";
import { get, send } from "../../api.js";
import { ago, count, duration, moment, short } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Copyable, Loaded, Problem } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { silentProcesses } from "../../readiness.js";
import { t, word } from "../../words.js";

const READ_EVERY_MS = 5000;
const SHOWN = 3;
const LONG_S = { recall: 15, lane: 15, compute: 120 }; // by the first word of a task; a query ends within its deadline
const LONG_OTHERWISE_S = 600; // a batch of documents, a repair

export const isLong = ({ task, running_s: seconds }) => seconds > (LONG_S[task.split(".")[0]] ?? LONG_OTHERWISE_S);

export const useWorkers = () => useLoad((signal) => get("v1/workers", { signal }), [], { everyMs: READ_EVERY_MS });

export function Workers({ of }) {
  return html`
    <section aria-labelledby="workers">
      <h2 id="workers">${t("overview.workers")}</h2>
      ${of.data?.silent?.length > 0 && html`<${Silent} of=${of.data.silent} again=${of.reload} />`}
      <${Loaded} of=${of} lines=${2} isEmpty=${(found) => !found.data.length}
        empty=${html`<p class="verdict bad" role="alert"><strong>${t("overview.no_workers")}</strong></p>`}>${(found) => html`
        <${Table} caption=${t("overview.workers")} rows=${found.data} rowKey=${(row) => `${row.name}/${row.pid}`} columns=${[
          { key: "name", label: t("overview.worker"), main: true, render: (row) => html`<code>${row.name}</code>` },
          { key: "host", label: t("overview.host"), render: (row) => row.host },
          { key: "queues", label: t("health.queues"), render: (row) => row.queues.map((queue) => word("queue", queue)).join(", ") },
          { key: "running", label: t("workers.running"), render: (row) => html`<${Running} of=${row} />` },
          { key: "version", label: t("overview.version"), render: (row) => row.version },
          { key: "started", label: t("overview.started"), render: (row) => html`<time datetime=${row.started_at} title=${moment(row.started_at)}>${ago(row.started_at)}</time>` },
          { key: "seen", label: t("overview.last_seen"), render: (row) => html`<time datetime=${row.last_seen} title=${moment(row.last_seen)}>${ago(row.last_seen)}</time>` },
        ]} />`}<//>
    </section>`;
}

/** Processes that vanished without ending in order, until they are back or an operator dismisses them. */
function Silent({ of, again }) {
  const dismiss = useAction(async ({ host, name }) => {
    await send("DELETE", `v1/workers/${encodeURIComponent(host)}/${encodeURIComponent(name)}`);
    again();
  });
  return html`<ul class="plain attention" aria-label=${t("workers.silent")}>${of.map((process) => html`
      <li key=${`${process.host}/${process.name}`}><${Badge} of="warning" label=${t("workers.silent")} />
        <span>${silentProcesses({ silent: [process] })[0]}</span>
        <button class="small" disabled=${dismiss.busy} title=${t("workers.dismiss_hint")} onClick=${() => dismiss.run(process)}>${t("workers.dismiss")}</button>
      </li>`)}
    </ul>
    ${dismiss.error && html`<${Problem} error=${dismiss.error} />`}`;
}

function Running({ of: { running, busy, slots } }) {
  const share = slots ? t("workers.busy", { busy: count(busy), slots: count(slots) }) : count(busy);
  if (!busy) return html`<span class="muted">${t("workers.idle")}</span>`;
  return html`<div><span class="hint">${share}</span>
    <ul class="plain">${running.slice(0, SHOWN).map((work) => html`
      <li key=${work.work_id + work.task}>${word("task", work.task)}${" "}
        <b class=${isLong(work) ? "number bad-text" : "number"}>${duration(work.running_s)}</b>
        ${work.work_id && html` <${Copyable} text=${work.work_id} shown=${short(work.work_id)} label=${t("workers.copy_id")} />`}</li>`)}
    </ul></div>`;
}
