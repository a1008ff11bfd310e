// A run of a query on one axis of time: the gateway, each channel's wait and work, the callback with its steps, and the
// calls to stores and models below what made them. `spans`: the `timeline` of a trace.
import { html } from "../html.js";
import { count, milliseconds } from "../format.js";
import { t, word } from "../words.js";

/** Rows of bars from spans: `{key, depth, name, bars: [{from, ms, kind}], ms}`; calls of one name are one row. */
export function rowsOf(spans) {
  const rows = [];
  const parts = ["", ...new Set(spans.map((span) => span.part).filter((part) => part && part !== "callback")), "callback"];
  for (const part of parts) {
    const own = spans.filter((span) => (span.kind === "callback" ? "callback" : span.part) === part);
    for (const span of own.filter(({ kind }) => kind === "gateway" || kind === "channel" || kind === "callback")) {
      const wait = own.find(({ kind }) => kind === "queue");
      rows.push({
        key: `${span.kind} ${span.name}`, depth: 0, kind: span.kind, name: span.name, worker: span.worker, ms: span.ms, wait: wait?.ms,
        bars: [wait, span].filter(Boolean),
      });
    }
    for (const span of own.filter(({ kind }) => kind === "step")) rows.push({ key: `${part} ${span.name} ${span.start_ms}`, depth: 1, kind: "step", name: span.name, ms: span.ms, bars: [span] });
    for (const name of new Set(own.filter(({ kind }) => kind === "store").map((span) => span.name))) {
      const bars = own.filter((span) => span.kind === "store" && span.name === name);
      rows.push({ key: `${part} ${name}`, depth: 1, kind: "store", name, bars, ms: bars.reduce((sum, { ms }) => sum + ms, 0) });
    }
  }
  return rows;
}

export function Timeline({ spans, total }) {
  const rows = rowsOf(spans);
  const whole = Math.max(total ?? 0, ...spans.map((span) => span.start_ms + span.ms), 0.001);
  const place = ({ start_ms: from, ms }) => ({ left: `${Math.max(0, (100 * from) / whole)}%`, width: `${Math.max(0.4, (100 * ms) / whole)}%` });
  return html`
    <div class="timeline" role="table" aria-label=${t("play.timing")}>
      <div class="time-row axis" role="row">
        <span role="columnheader">${t("timeline.part")}</span>
        <span class="time-axis" role="columnheader" aria-label=${t("timeline.when")}>${[0, 0.5, 1].map((share) => html`<span key=${share}>${milliseconds(whole * share)}</span>`)}</span>
        <span class="number" role="columnheader">${t("timeline.took")}</span>
      </div>
      ${rows.map((row) => html`
        <div class="time-row" role="row" key=${row.key}>
          <span class=${row.depth ? "time-name deep" : "time-name"} role="rowheader" title=${row.worker || undefined}>
            ${named(row)}${row.bars.length > 1 && row.kind === "store" && html` <span class="muted">× ${count(row.bars.length)}</span>`}</span>
          <span class="time-track" role="cell" aria-label=${said(row)}>
            ${row.bars.map((bar) => html`<i key=${bar.kind + bar.start_ms} class=${bar.kind === "channel" ? bar.name : bar.kind} style=${place(bar)}></i>`)}
          </span>
          <span class="number" role="cell">${milliseconds(row.ms)}</span>
        </div>`)}
    </div>
    <p class="legend">
      <span><i class="queue"></i>${t("timeline.wait")}</span><span><i class="store"></i>${t("timeline.store")}</span>
      <span>${t("timeline.clocks")}</span>
    </p>`;
}

const named = ({ kind, name }) => (kind === "channel" ? word("channel", name) : kind === "step" ? word("run", name) : word("timeline", name));

const said = ({ bars, wait }) => [
  t("timeline.from", { time: milliseconds(bars[0].start_ms) }), wait != null && t("timeline.waited", { time: milliseconds(wait) }),
].filter(Boolean).join(", ");
