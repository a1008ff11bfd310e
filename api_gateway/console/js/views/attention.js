// What needs a person: checks that fail, open circuits, documents that failed, deletions that wait, and the workers.
import { html } from "../html.js";
import { get } from "../api.js";
import { count, duration } from "../format.js";
import { useLoad } from "../load.js";
import { labelsOf, readMetrics, sumOf, valueOf } from "../metrics.js";
import { Loaded } from "../parts/states.js";
import { Badge } from "../parts/table.js";
import { checkName, consequences, lostHosts, readiness, silentProcesses } from "../readiness.js";
import { link } from "../router.js";
import { said } from "../sentences.js";
import { may } from "../session.js";
import { t, word } from "../words.js";
import { isLong, useWorkers, Workers } from "./operation/workers.js";

const READ_EVERY_MS = 10000;
// The installation's figures, for operators: every tenant's documents that failed, and those that wait.
const OF_ALL = ["chordwise_dead_letters", "chordwise_ingest_items", "chordwise_ingest_oldest_seconds"];
const SHOWN = ["chordwise_queue_messages", "chordwise_queue_oldest_seconds", "chordwise_alignment_withheld"];
const PARTS = ["redis", "broker", "mysql", "postgres"];
const OLD_MESSAGE_S = 30;
const MOST_DEAD = 200;
const DEAD_NAMED = 3;

export function Attention() {
  const ready = useLoad(readiness, [], { everyMs: READ_EVERY_MS });
  const metrics = useLoad((signal) => readMetrics([...SHOWN, ...(may("operator") ? OF_ALL : [])], signal), [], { everyMs: READ_EVERY_MS });
  const dead = useLoad((signal) => get(`v1/dead-letters?limit=${MOST_DEAD}`, { signal }), [], { everyMs: READ_EVERY_MS });
  const known = { of: ready, metrics: metrics.data, dead: dead.data, unread: Boolean(metrics.error || dead.error), reading: !metrics.data || !dead.data };
  return may("operator") ? html`<${WithWorkers} ...${known} />` : html`<${Items} ...${known} />`;
}

/** For operators, with the tasks that run for long and the workers. */
function WithWorkers(known) {
  const workers = useWorkers();
  return html`
    <${Items} ...${known} workers=${workers.data?.data} />
    <${Workers} of=${workers} />`;
}

function Items({ of, metrics, dead, unread, reading, workers = [] }) {
  return html`
    <section aria-labelledby="attention">
      <h2 id="attention">${t("overview.attention")}</h2>
      <${Loaded} of=${of} lines=${2} isEmpty=${() => false}>${(found) => html`<${List} items=${itemsOf(found, metrics, dead, workers)} unread=${unread} reading=${reading} />`}<//>
    </section>`;
}

function List({ items, unread, reading }) {
  if (!items.length && unread) return html`<p class="verdict warn" role="status"><strong>${t("overview.unread")}</strong></p>`;
  if (!items.length && reading) return html`<p class="hint" role="status">${t("state.loading")}</p>`;
  if (!items.length) return html`<p class="verdict good" role="status"><strong>${t("overview.all_well")}</strong></p>`;
  return html`<ul class="plain attention">${items.map((item) => html`
    <li key=${item.text}><${Badge} of=${item.status} label=${word("status", item.status)} />
      <span>${item.to ? html`<a href=${item.to}>${item.text}</a>` : item.text}${item.detail && html` <span class="hint">${item.detail}</span>`}</span></li>`)}
  </ul>`;
}

function itemsOf(ready, metrics, dead, workers) {
  const checks = ready.failing.flatMap((name) => {
    const { status, detail, required, lost, silent } = ready.dependencies[name];
    const more = consequences(name, ready.dependencies).join(" ");
    // Of several processes each has its own queues as consequences, and the first one everything else.
    const each = (gone, texts) => texts.map((text, place) => ({
      status, text, to: link("health"),
      detail: consequences(name, ready.dependencies, (other) => (other.startsWith("queue:") ? gone[place].served.includes(other.slice("queue:".length)) : !place)).join(" "),
    }));
    if (lost) return each(lost, lostHosts({ lost }));
    if (silent) return each(silent, silentProcesses({ silent }));
    return [{ status: required ? "down" : status, text: checkName(name), detail: [said(detail), more].filter(Boolean).join(" "), to: link("health") }];
  });
  const long = workers.flatMap((worker) => worker.running.filter(isLong).map((work) => ({
    status: "warning", to: link("health"), detail: worker.name,
    text: t("overview.long_task", { task: word("task", work.task), age: duration(work.running_s) }),
  })));
  const failed = dead?.data.length ? [{
    status: "warning", to: link("dead-letters"), text: t("overview.dead_letters", { count: count(dead.data.length) + (dead.next_cursor ? "+" : "") }),
    detail: [...new Set(dead.data.map((each) => each.document_id).filter(Boolean))].slice(0, DEAD_NAMED).join(", "),
  }] : [];
  if (!metrics) return [...checks, ...failed, ...long];
  const everywhere = sumOf(metrics, "chordwise_dead_letters");
  const failedEverywhere = everywhere > (dead?.data.length ?? 0) ? [{
    status: "warning", text: t("overview.dead_letters_everywhere", { count: count(everywhere) }), to: link("tenants"),
  }] : [];
  const figure = (name, write, to) => {
    const value = sumOf(metrics, name);
    return value > 0 ? [{ status: "warning", text: write({ count: count(value) }), to }] : [];
  };
  return [
    ...checks,
    ...failed,
    ...failedEverywhere,
    ...long,
    ...oldBacklog(metrics, ready),
    ...waitingQueues(metrics, ready),
    ...figure("chordwise_alignment_withheld", (values) => t("overview.withheld", values), link("alignment")),
  ];
}

/** Documents of all tenants that are due and have waited for long, unless a check says why; read for operators only. */
function oldBacklog(metrics, ready) {
  if (!isServed("ingest", ready)) return [];
  const waiting = valueOf(metrics, "chordwise_ingest_items", { state: "due" });
  const age = valueOf(metrics, "chordwise_ingest_oldest_seconds", { state: "due" });
  return waiting > 0 && age > OLD_MESSAGE_S
    ? [{ status: "warning", text: t("overview.old_backlog", { count: count(waiting), age: duration(age) }), to: link("health") }] : [];
}

/** Queues whose oldest message has waited for long, unless a check says why. */
function waitingQueues(metrics, ready) {
  return labelsOf(metrics, "chordwise_queue_messages", "queue").flatMap((queue) => {
    if (!isServed(queue, ready)) return [];
    const age = valueOf(metrics, "chordwise_queue_oldest_seconds", { queue });
    return valueOf(metrics, "chordwise_queue_messages", { queue }) > 0 && age > OLD_MESSAGE_S
      ? [{ status: "warning", text: t("overview.old_message", { queue: word("queue", queue), age: duration(age) }), to: link("health") }] : [];
  });
}

const isServed = (queue, { dependencies }) => dependencies[`queue:${queue}`]?.status === "ok"
  && !PARTS.some((name) => dependencies[name]?.status === "down");
