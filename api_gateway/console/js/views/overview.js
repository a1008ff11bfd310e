// The first page: what needs a person, and the traffic of the installation over time.
import { html, useState } from "../html.js";
import { get, query } from "../api.js";
import { bytes, count, duration, milliseconds, percent, rate } from "../format.js";
import { useLoad } from "../load.js";
import { Chart } from "../parts/chart.js";
import { Segments } from "../parts/fields.js";
import { FirstSteps } from "../parts/samples.js";
import { Loaded } from "../parts/states.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t } from "../words.js";
import { Attention } from "./attention.js";

const RANGES = ["1h", "24h", "7d"];
const READ_EVERY_MS = 15000;

// Series by chart: name in the answer, colour.
const CHARTS = [
  { id: "queries", format: rate, lines: [["queries_per_s", "keyword"]] },
  { id: "latency", format: milliseconds, lines: [["p50_ms", "faq"], ["p95_ms", "semantic"], ["p99_ms", "alarm"]] },
  { id: "outcomes", format: percent, most: 0.1, lines: [["degraded_share", "semantic"], ["failed_share", "alarm"], ["empty_share", "fallback"]] },
  { id: "ingestion", format: rate, lines: [["chunks_per_s", "faq"]] },
  { id: "waits", format: duration, most: 1, lines: [["query_wait_s", "keyword"], ["ingest_wait_s", "semantic"]] },
  { id: "backlog", format: count, most: 5, lines: [["waiting_documents", "semantic"], ["dead_letters", "alarm"]] },
  { id: "tokens", format: rate, lines: [["tokens_per_s", "api"]] },
  { id: "sizes", format: bytes, lines: [["mysql_bytes", "keyword"], ["postgres_bytes", "semantic"], ["keyword_index_bytes", "faq"], ["redis_bytes", "api"]] },
];

export function Overview() {
  const [range, setRange] = useState(RANGES[0]);
  const history = useLoad((signal) => get(`v1/metrics/history${query({ range })}`, { signal }), [range], { everyMs: READ_EVERY_MS });
  return html`
    <${Heading} title=${t("nav.overview")} about=${t("overview.about")} />
    ${!may("operator") && html`<${FirstSteps} />`}
    <${Attention} />
    <section aria-labelledby="traffic">
      <div class="heading">
        <h2 id="traffic">${t("overview.traffic")}</h2>
        <${Segments} label=${t("overview.range")} value=${range} onInput=${setRange}
          options=${RANGES.map((id) => [id, t(`overview.range_${id}`)])} />
      </div>
      <${Loaded} of=${history} lines=${6} isEmpty=${() => false}>${(data) => html`
        <div class=${history.error ? "charts stale" : "charts"}>
          ${CHARTS.map((chart) => html`<${Chart} key=${`${chart.id} ${range}`} title=${t(`chart.${chart.id}`)} at=${data.at}
            format=${chart.format} most=${chart.most}
            lines=${chart.lines.map(([name, color]) => ({ name: t(`series.${name}`), color, values: data.series[name] }))} />`)}
        </div>`}<//>
    </section>`;
}
