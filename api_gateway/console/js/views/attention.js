// What needs a person: checks that fail, open circuits, documents that failed, deletions that wait, and the workers.
import { html } from "../html.js";
import { get } from "../api.js";
import { ago, count } from "../format.js";
import { useLoad } from "../load.js";
import { parseMetrics, sumOf } from "../metrics.js";
import { Loaded } from "../parts/states.js";
import { Badge, Table } from "../parts/table.js";
import { checkName, readiness } from "../readiness.js";
import { link } from "../router.js";
import { session } from "../session.js";
import { useStore } from "../store.js";
import { t, word } from "../words.js";

const READ_EVERY_MS = 10000;

export function Attention() {
  const ready = useLoad(readiness, [], { everyMs: READ_EVERY_MS });
  const metrics = useLoad(async (signal) => parseMetrics(await get("v1/metrics", { signal })), [], { everyMs: READ_EVERY_MS });
  const isOperator = useStore(session).scopes.includes("operator");
  return html`
    <section aria-labelledby="attention">
      <h2 id="attention">${t("overview.attention")}</h2>
      <${Loaded} of=${ready} lines=${2} isEmpty=${() => false}>${(found) => html`<${Items} ready=${found} metrics=${metrics.data} />`}<//>
    </section>
    ${isOperator && html`<${Workers} />`}`;
}

function Items({ ready, metrics }) {
  const items = itemsOf(ready, metrics);
  if (!items.length) return html`<p class="verdict good" role="status"><strong>${t("overview.all_well")}</strong></p>`;
  return html`<ul class="plain attention">${items.map((item) => html`
    <li key=${item.text}><${Badge} of=${item.status} label=${word("status", item.status)} />
      <span>${item.to ? html`<a href=${item.to}>${item.text}</a>` : item.text}${item.detail && html` <span class="hint">${item.detail}</span>`}</span></li>`)}
  </ul>`;
}

function itemsOf(ready, metrics) {
  const checks = ready.failing.map((name) => {
    const { status, detail, required } = ready.dependencies[name];
    return { status: required ? "down" : status, text: checkName(name), detail, to: link("health") };
  });
  if (!metrics) return checks;
  const figure = (name, write, to) => {
    const value = sumOf(metrics, name);
    return value > 0 ? [{ status: "warning", text: write({ count: count(value) }), to }] : [];
  };
  return [
    ...checks,
    ...figure("chordwise_circuits_open", (values) => t("overview.open_circuits", values), link("health")),
    ...figure("chordwise_dead_letters", (values) => t("overview.dead_letters", values), link("dead-letters")),
    ...figure("chordwise_alignment_withheld", (values) => t("overview.withheld", values), link("alignment")),
  ];
}

function Workers() {
  const workers = useLoad((signal) => get("v1/workers", { signal }), [], { everyMs: READ_EVERY_MS });
  return html`
    <section aria-labelledby="workers">
      <h2 id="workers">${t("overview.workers")}</h2>
      <${Loaded} of=${workers} lines=${2} isEmpty=${(found) => !found.data.length}
        empty=${html`<p class="verdict bad" role="alert"><strong>${t("overview.no_workers")}</strong></p>`}>${(found) => html`
        <${Table} caption=${t("overview.workers")} rows=${found.data} rowKey=${(row) => `${row.name}/${row.pid}`} columns=${[
          { key: "name", label: t("overview.worker"), main: true, render: (row) => html`<code>${row.name}</code>` },
          { key: "host", label: t("overview.host"), render: (row) => row.host },
          { key: "queues", label: t("health.queues"), render: (row) => row.queues.map((queue) => word("queue", queue)).join(", ") },
          { key: "version", label: t("overview.version"), render: (row) => row.version },
          { key: "started", label: t("overview.started"), render: (row) => html`<time datetime=${row.started_at}>${ago(row.started_at)}</time>` },
          { key: "seen", label: t("overview.last_seen"), render: (row) => html`<time datetime=${row.last_seen}>${ago(row.last_seen)}</time>` },
        ]} />`}<//>
    </section>`;
}
