// Outages and delays: checks, queues with the age of their oldest message, waiting documents. Every figure has its age,
// and the page shows first whether the gateway answers.
import { html, useEffect, useRef, useState } from "../../html.js";
import { get } from "../../api.js";
import { count, duration, milliseconds } from "../../format.js";
import { useLoad } from "../../load.js";
import { labelsOf, readMetrics, sumOf, valueOf } from "../../metrics.js";
import { Icon } from "../../parts/icons.js";
import { Empty, Loaded, Waiting } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { checkName, lostHosts, readiness } from "../../readiness.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";
import { useWorkers, Workers } from "./workers.js";

const CHECKED_EVERY_MS = 2000;
const COUNTED_EVERY_MS = 10000;
const SHOWN = [
  "chordwise_queue_messages", "chordwise_queue_oldest_seconds", "chordwise_queue_unacked", "chordwise_ingest_items", "chordwise_ingest_oldest_seconds",
  "chordwise_dead_letters", "chordwise_alignment_found_total", "chordwise_keyword_index_lag_revisions", "chordwise_gateway_waiters", "chordwise_gateway_streams",
];
const OLD_S = { message: 2, document: 900 }; // as the alerts of compose/prometheus/alerts.yaml

export function Health() {
  const ready = useLoad(readiness, [], { everyMs: CHECKED_EVERY_MS });
  const metrics = useLoad((signal) => readMetrics(SHOWN, signal), [], { everyMs: COUNTED_EVERY_MS });
  const config = useLoad((signal) => get("console/config.json", { signal }), []);
  const again = () => { ready.reload(); metrics.reload(); };
  const wasAway = useRef(false);
  useEffect(() => {
    if (wasAway.current && !ready.error) metrics.reload(); // it answers again: nobody has to wait for the next turn
    wasAway.current = Boolean(ready.error);
  }, [Boolean(ready.error)]);
  return html`
    <${Heading} title=${t("nav.health")} about=${t("health.about")}>
      ${config.data?.flower_url && html`<a class="button" href=${config.data.flower_url} target="_blank" rel="noreferrer noopener">${t("health.flower")} <${Icon} name="outside" /></a>`}
      <button onClick=${again}>${t("health.now")}</button>
    <//>
    <${Verdict} of=${ready} />
    ${ready.data && html`<${Checks} of=${ready} />`}
    ${may("operator") && html`<${AllWorkers} />`}
    <${Loaded} of=${metrics} lines=${4} isEmpty=${() => false}>${(found) => html`
      <div class=${ready.error || metrics.error ? "stale" : ""}>
        <${Age} since=${metrics.readAt}>${(age) => t("health.counted", { age })}<//>
        <${Figures} metrics=${found} />
      </div>`}<//>`;
}

function AllWorkers() {
  return html`<${Workers} of=${useWorkers()} />`;
}

/** The current time in milliseconds since the epoch, updated every second. */
function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Renders `children(age)` with the time since `since`, updated every second. */
function Age({ since, children }) {
  return html`<span class="hint number">${children(duration(Math.max(0, Math.round((useNow() - since) / 1000))))}</span>`;
}

/** The verdict: whether the gateway answers, and its own state. */
function Verdict({ of }) {
  if (of.error) {
    return html`
      <div class="verdict bad" role="alert">
        <strong>${t("health.gateway_silent")}</strong>
        <span>${of.readAt && html`<${Age} since=${of.readAt}>${(age) => t("health.silent_since", { age })}<//>`}
          <button onClick=${of.reload}>${t("action.again")}</button></span>
      </div>`;
  }
  if (!of.data) return html`<${Waiting} slow=${of.slow} retry=${of.reload} lines=${1} />`;
  const { status, failing, version } = of.data;
  const tone = status !== "ready" ? "bad" : failing.length ? "warn" : "good";
  const said = { bad: t("health.not_ready"), warn: t("health.impaired"), good: t("health.ready") }[tone];
  return html`
    <div class=${`verdict ${tone}`} role="status">
      <strong>${failing.length ? t("health.failing", { verdict: said, checks: failing.map(checkName).join(t("health.and")) }) : said}</strong>
      <span class="muted">${t("health.version", { version })}</span>
    </div>`;
}

function Checks({ of }) {
  const now = useNow();
  const checks = Object.entries(of.data.dependencies);
  return html`
    <div class=${of.error ? "cards small stale" : "cards small"}>
      ${checks.map(([name, check]) => html`<div class="card" key=${name}>
        <span class="card-name">${checkName(name)}</span>
        <${Badge} of=${check.status} label=${word("status", check.status)} />
        <span class="hint">${whatIsSeen(name, check)}</span>
        <span class="hint">${how(name, check)}</span>
        <span class="hint number">${t("health.checked", { age: duration(Math.max(0, Math.round(check.age_s + (now - of.readAt) / 1000))) })}</span>
      </div>`)}
    </div>`;
}

/** How a check finds its result, and when it gives up. */
function how(name, { timeout_s: timeout }) {
  const measure = word("measure", name.split(":")[0], "");
  return timeout ? t("health.how", { measure, time: duration(timeout) }) : measure;
}

/** In the language of the page if it has a word, else as the gateway sent it. */
function whatIsSeen(name, check) {
  if (name.startsWith("queue:") && check.status === "down") return t("health.no_worker");
  if (name.startsWith("queue:") && check.workers) return t("health.workers", { count: count(check.workers) });
  if (check.lost) return lostHosts(check).join(" ");
  if (check.sweep_age_s != null) return t("health.swept", { age: duration(Math.round(check.sweep_age_s)) });
  return check.detail ?? (check.latency_ms == null ? null : t("health.took", { time: milliseconds(check.latency_ms) }));
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
      <${Figure} name=${t("health.index_lag")} value=${sumOf(metrics, "chordwise_keyword_index_lag_revisions")} text=${t("health.index_lag_text")} />
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
