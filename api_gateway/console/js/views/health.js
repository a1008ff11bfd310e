// What is slow, stuck or down: dependencies, queues with the age of their oldest message, documents that wait, breakers.
import { html } from "../html.js";
import { get, send } from "../api.js";
import { count, duration, milliseconds } from "../format.js";
import { useLoad } from "../load.js";
import { labelsOf, parseMetrics, sumOf, valueOf } from "../metrics.js";
import { Icon } from "../parts/icons.js";
import { Empty, Loaded } from "../parts/states.js";
import { Badge, Table } from "../parts/table.js";
import { link } from "../router.js";
import { Heading } from "../shell.js";
import { t, word } from "../words.js";

const EVERY_MS = 10000;
const OLD_S = { message: 2, document: 900 }; // as the alerts of compose/prometheus/alerts.yaml

export function Health() {
  const ready = useLoad(async (signal) => (await send("GET", "readyz", { signal, accept: [503] })).body, [], { everyMs: EVERY_MS });
  const metrics = useLoad(async (signal) => parseMetrics(await get("v1/metrics", { signal })), [], { everyMs: EVERY_MS });
  const config = useLoad((signal) => get("console/config.json", { signal }), []);
  const again = () => { ready.reload(); metrics.reload(); };
  return html`
    <${Heading} title=${t("nav.health")} about=${t("health.about")}>
      ${config.data?.flower_url && html`<a class="button" href=${config.data.flower_url} target="_blank" rel="noreferrer noopener">${t("health.flower")} <${Icon} name="outside" /></a>`}
      <button onClick=${again}>${t("health.now")}</button>
    <//>
    <${Loaded} of=${ready} lines=${3}>${(found) => html`<${Dependencies} found=${found} />`}<//>
    <${Loaded} of=${metrics} lines=${4} isEmpty=${() => false}>${(found) => html`<${Figures} metrics=${found} />`}<//>`;
}

function Dependencies({ found }) {
  return html`
    <div class=${found.status === "ready" ? "verdict good" : "verdict bad"} role="status">
      <strong>${t(`health.${found.status}`)}</strong><span class="muted">${t("health.version", { version: found.version })}</span>
    </div>
    <div class="cards small">
      ${Object.entries(found.dependencies).map(([name, state]) => html`<div class="card" key=${name}>
        <span class="card-name">${word("dependency", name)}</span>
        <${Badge} of=${state.status} label=${word("status", state.status)} />
        <span class="hint number">${milliseconds(state.latency_ms)}</span>
        ${state.detail && html`<span class="hint">${state.detail}</span>`}
      </div>`)}
    </div>`;
}

function Figures({ metrics }) {
  const queues = labelsOf(metrics, "chordwise_queue_messages", "queue").map((queue) => ({
    queue,
    waiting: valueOf(metrics, "chordwise_queue_messages", { queue }),
    oldest: valueOf(metrics, "chordwise_queue_oldest_seconds", { queue }),
  }));
  const documents = labelsOf(metrics, "chordwise_ingest_items", "state").map((state) => ({
    state,
    waiting: valueOf(metrics, "chordwise_ingest_items", { state }),
    oldest: valueOf(metrics, "chordwise_ingest_oldest_seconds", { state }),
  }));
  const age = (limit) => ({ key: "oldest", label: t("health.oldest"), numeric: true, render: (row) => row.waiting
    ? html`<span class=${row.oldest > limit ? "bad-text" : ""}>${duration(row.oldest)}</span>` : "–" });
  const waiting = { key: "waiting", label: t("health.waiting"), numeric: true, render: (row) => count(row.waiting) };
  const dead = sumOf(metrics, "chordwise_dead_letters");
  const drift = sumOf(metrics, "chordwise_alignment_found_total");
  return html`
    <div class="two">
      <section aria-labelledby="queues"><h2 id="queues">${t("health.queues")}</h2>
        ${queues.length
          ? html`<${Table} caption=${t("health.queues")} rows=${queues} rowKey=${(row) => row.queue} columns=${[
              { key: "queue", label: t("health.queue"), main: true, render: (row) => word("queue", row.queue) }, waiting, age(OLD_S.message)]} />`
          : html`<${Empty} title=${t("health.no_queues")} />`}
      </section>
      <section aria-labelledby="backlog"><h2 id="backlog">${t("health.backlog")}</h2>
        ${documents.length
          ? html`<${Table} caption=${t("health.backlog")} rows=${documents} rowKey=${(row) => row.state} columns=${[
              { key: "state", label: t("field.status"), main: true, render: (row) => word("backlog", row.state) }, waiting, age(OLD_S.document)]} />`
          : html`<${Empty} title=${t("health.unread")} />`}
      </section>
    </div>
    <div class="cards">
      <${Figure} name=${t("nav.dead-letters")} value=${dead} bad=${dead > 0} text=${t("health.dead_text")} to=${link("dead-letters")} />
      <${Figure} name=${t("health.drift")} value=${drift} bad=${drift > 0} text=${t("health.drift_text")} to=${link("alignment")} />
      <${Figure} name=${t("health.unacked")} value=${valueOf(metrics, "chordwise_queue_unacked")} text=${t("health.unacked_text")} />
      <${Figure} name=${t("health.waiters")} value=${(sumOf(metrics, "chordwise_gateway_waiters") ?? 0) + (sumOf(metrics, "chordwise_gateway_streams") ?? 0)}
        text=${t("health.waiters_text")} />
    </div>
    <p class="hint">${t("health.installation")}</p>`;
}

function Figure({ name, value, text, to, bad = false }) {
  return html`<div class="card">
    <span class="card-name">${to ? html`<a href=${to}>${name}</a>` : name}</span>
    <b class=${bad ? "card-number bad-text" : "card-number"}>${count(value)}</b><span class="hint">${text}</span>
  </div>`;
}
