// Outages and delays: checks, queues with the age of their oldest message, waiting documents. Every figure has its age,
// and the page shows first whether the gateway answers.
import { html, useEffect, useRef, useState } from "../../html.js";
import { get } from "../../api.js";
import { bytes, count, duration, milliseconds, score } from "../../format.js";
import { useLoad } from "../../load.js";
import { labelsOf, readMetrics, sumOf, valueOf } from "../../metrics.js";
import { Icon } from "../../parts/icons.js";
import { Empty, Loaded, Waiting } from "../../parts/states.js";
import { Badge } from "../../parts/table.js";
import { checkName, consequences, lostHosts, readiness, silentProcesses } from "../../readiness.js";
import { link } from "../../router.js";
import { said } from "../../sentences.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";
import { useWorkers, Workers } from "./workers.js";

const CHECKED_EVERY_MS = 2000;
const COUNTED_EVERY_MS = 10000;
const SHOWN = [
  "chordwise_queue_messages", "chordwise_queue_oldest_seconds", "chordwise_queue_unacked", "chordwise_ingest_items", "chordwise_ingest_oldest_seconds",
  "chordwise_dead_letters", "chordwise_alignment_withheld", "chordwise_keyword_index_lag_revisions", "chordwise_gateway_waiters", "chordwise_gateway_streams",
  "chordwise_vector_indexes", "chordwise_vector_index_rows", "chordwise_vector_index_disk_bytes", "chordwise_vector_index_lowest_recall", "chordwise_vector_index_slowest_ms",
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
      ${config.data?.flower_url && (may("operator") || !config.data.sign_on) && html`<a class="button" href=${config.data.flower_url} target="_blank" rel="noreferrer noopener">${t("health.flower")} <${Icon} name="outside" /></a>`}
      <button onClick=${again}>${t("health.now")}</button>
    <//>
    <${Verdict} of=${ready} />
    ${ready.data && html`<${Checks} of=${ready} />`}
    ${may("operator") && html`<${AllWorkers} />`}
    <${Loaded} of=${metrics} lines=${4} isEmpty=${() => false}>${(found) => html`
      <div class=${ready.error || metrics.error ? "health stale" : "health"}>
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
  const verdict = { bad: t("health.not_ready"), warn: t("health.impaired"), good: t("health.ready") }[tone];
  return html`
    <div class=${`verdict ${tone}`} role="status">
      <strong>${failing.length ? t("health.failing", { verdict, checks: failing.map(checkName).join(t("health.and")) }) : verdict}</strong>
      <span class="muted">${t("health.version", { version })}</span>
    </div>`;
}

// Where each check stands; a check that is not named is the last group's.
const GROUPS = [
  { id: "servers", has: (name) => /^(mysql|postgres|redis|broker|standbys)(:|$)/.test(name) },
  { id: "workers", has: (name) => /^(queue:|queues|workers_silent|hosts|query_lane)/.test(name) },
  { id: "work", has: (name) => ["last_sweep", "keyword_index", "circuits", "store_space", "disk_space"].includes(name) },
  { id: "setup", has: () => true },
];
const groupOf = (name) => GROUPS.find((group) => group.has(name)).id;

/** The causes with what follows from them, and below them every check by group. */
function Checks({ of }) {
  const { dependencies, failing } = of.data;
  const names = Object.keys(dependencies);
  const now = useNow();
  const age = Math.min(...names.map((name) => dependencies[name].age_s)) + (now - of.readAt) / 1000;
  return html`
    <div class=${of.error ? "health stale" : "health"}>
      ${failing.length > 0 && html`<section aria-labelledby="causes"><h2 id="causes">${t("health.causes")}</h2>
        <ul class="plain causes">${failing.map((name) => html`<${Cause} key=${name} name=${name} dependencies=${dependencies} />`)}</ul></section>`}
      <div class="groups">${GROUPS.map(({ id }) => html`
        <${Group} key=${id} id=${id} names=${names.filter((name) => groupOf(name) === id)} dependencies=${dependencies} />`)}</div>
      <span class="hint number">${t("health.checked", { age: duration(Math.max(0, Math.round(age))) })}</span>
    </div>`;
}

function Cause({ name, dependencies }) {
  const check = dependencies[name];
  return html`<li class="panel tight">
    <div class="row"><${Badge} of=${check.status} label=${word("status", check.status)} /><strong>${checkName(name)}</strong></div>
    <span>${whatIsSeen(name, check)}</span>
    ${consequences(name, dependencies).map((sentence) => html`<span key=${sentence} class="hint">${sentence}</span>`)}
  </li>`;
}

function Group({ id, names, dependencies }) {
  if (!names.length) return null;
  const sound = names.filter((name) => dependencies[name].status === "ok").length;
  return html`<section class="panel tight" aria-labelledby=${`group-${id}`}>
    <div class="row between"><h2 id=${`group-${id}`}>${t(`health.group_${id}`)}</h2>
      <span class=${sound === names.length ? "hint" : "hint bad-text"}>${t("health.sound", { sound: count(sound), all: count(names.length) })}</span></div>
    <ul class="plain checks">${names.map((name) => {
      const check = dependencies[name];
      return html`<li key=${name} title=${how(name, check)}>
        <span class="check-name">${checkName(name)}</span>
        <span class="check-seen">${check.status === "ok" ? whatIsSeen(name, check) : check.cause && name.startsWith("queue:") ? seenOfQueue(check) : t("health.see_above")}</span>
        <${Badge} of=${check.status} label=${word("status", check.status)} tone=${check.status === "unknown" ? "plain" : undefined} />
      </li>`;
    })}</ul>
  </section>`;
}

/** How a check finds its result, and when it gives up. */
function how(name, { timeout_s: timeout }) {
  const measure = word("measure", name.split(":")[0], "");
  return timeout ? t("health.how", { measure, time: duration(timeout) }) : measure;
}

/** In the language of the page if it has a word, else as the gateway sent it. */
function whatIsSeen(name, check) {
  if (name.startsWith("queue:") && check.workers) return seenOfQueue(check);
  if (check.lost) return lostHosts(check).join(" ");
  if (check.silent) return silentProcesses(check).join(" ");
  if (check.sweep_age_s != null) return t("health.swept", { age: duration(Math.round(check.sweep_age_s)) });
  if (check.status === "ok" && WELL[name]) return WELL[name](check);
  if (check.latency_ms != null && !check.detail) return t("health.took", { time: milliseconds(check.latency_ms) });
  return check.detail ? said(check.detail) : t("health.checked", { age: duration(Math.round(check.age_s)) });
}

function seenOfQueue({ status, workers }) {
  if (status === "unknown") return t("health.see_above");
  return workers ? t("health.workers", { count: count(workers) }) : t("health.no_worker");
}

// The words of checks that are well.
const WELL = {
  workers_silent: () => t("health.none"), circuits: () => t("health.none"), store_space: () => t("health.none"),
  clocks: () => t("health.in_step"), worker_versions: ({ detail }) => detail?.replace(/ everywhere$/, ""),
  disk_space: ({ detail }) => (/\d+%/.test(detail ?? "") ? t("health.free", { share: /\d+%/.exec(detail)[0] }) : t("health.not_seen")),
};

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
  const dead = sumOf(metrics, "chordwise_dead_letters");
  const drift = sumOf(metrics, "chordwise_alignment_withheld"); // the reconciler mends all others when it finds them
  return html`
    <div class="groups">
      <${Waits} id="queues" rows=${queues} name=${(row) => word("queue", row.queue)} limit=${OLD_S.message} empty=${t("health.no_queues")} />
      <${Waits} id="backlog" rows=${documents} name=${(row) => word("backlog", row.state)} limit=${OLD_S.document} empty=${t("health.unread")} />
      <${VectorIndexes} metrics=${metrics} />
    </div>
    <div class="cards small">
      <${Figure} name=${t("nav.dead-letters")} value=${dead} bad=${dead > 0} text=${t("health.dead_text")} to=${link(may("operator") ? "tenants" : "dead-letters")} />
      <${Figure} name=${t("health.drift")} value=${drift} bad=${drift > 0} text=${t("health.drift_text")} to=${link("alignment")} />
      <${Figure} name=${t("health.index_lag")} value=${sumOf(metrics, "chordwise_keyword_index_lag_revisions")} text=${t("health.index_lag_text")} />
      <${Figure} name=${t("health.unacked")} value=${valueOf(metrics, "chordwise_queue_unacked")} text=${t("health.unacked_text")} />
      <${Figure} name=${t("health.waiters")} value=${(sumOf(metrics, "chordwise_gateway_waiters") ?? 0) + (sumOf(metrics, "chordwise_gateway_streams") ?? 0)}
        text=${t("health.waiters_text")} />
    </div>
    <p class="hint">${t("health.installation")}</p>`;
}

/** What waits, and for how long the oldest has. */
function Waits({ id, rows, name, limit, empty }) {
  return html`<section class="panel tight" aria-labelledby=${id}><h2 id=${id}>${t(`health.${id}`)}</h2>
    ${rows.length ? html`<ul class="plain checks">${rows.map((row) => html`<li key=${name(row)}>
        <span class="check-name">${name(row)}</span>
        <span class="check-seen">${row.waiting ? html`${t("health.oldest")} <span class=${row.oldest > limit ? "bad-text" : ""}>${duration(row.oldest)}</span>` : ""}</span>
        <span class=${row.waiting ? "number" : "number muted"}>${count(row.waiting)}</span></li>`)}</ul>` : html`<${Empty} title=${empty} />`}
  </section>`;
}

/** The vector indexes of large tenants, by kind and table: vectors, recall, time of a search, size. */
function VectorIndexes({ metrics }) {
  const rows = metrics.get("chordwise_vector_indexes") ?? [];
  if (!rows.length) return null;
  const several = new Set(rows.map(({ labels }) => labels.table)).size > 1;
  return html`<section class="panel tight" aria-labelledby="vector-indexes"><h2 id="vector-indexes">${t("health.vector_indexes")}</h2>
    <ul class="plain checks">${rows.map(({ labels, value }) => {
      const of = (name) => valueOf(metrics, `chordwise_vector_index_${name}`, labels);
      const recall = of("lowest_recall");
      const measured = recall == null ? t("health.not_measured") : t("health.measured", { recall: score(recall), time: milliseconds(of("slowest_ms")) });
      return html`<li key=${`${labels.table} ${labels.kind}`}>
        <span class="check-name">${word("index", labels.kind)}${several ? ` (${labels.table})` : ""}</span>
        <span class="check-seen">${t("health.index_size", { count: count(value), rows: count(of("rows")), size: bytes(of("disk_bytes")) })}</span>
        <span class="number">${measured}</span></li>`;
    })}</ul></section>`;
}

function Figure({ name, value, text, to, bad = false }) {
  return html`<div class="card">
    <span class="card-name">${to ? html`<a href=${to}>${name}</a>` : name}</span>
    <b class=${bad ? "card-number bad-text" : value ? "card-number" : "card-number muted"}>${count(value)}</b><span class="hint">${text}</span>
  </div>`;
}
