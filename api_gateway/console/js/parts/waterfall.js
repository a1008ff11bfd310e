// The timing of a query. The server records how long each step took, not when it began; the positions are inferred:
// channels in parallel first, then one step after the other. The remaining time was spent in queues and transport.
import { html } from "../html.js";
import { milliseconds } from "../format.js";
import { t, word } from "../words.js";

export function lay(timings, channels) {
  const total = timings.total ?? 0;
  const steps = Object.entries(timings).filter(([name]) => name !== "total");
  const beside = steps.filter(([name]) => channels.includes(name));
  const after = steps.filter(([name]) => !channels.includes(name));
  const rows = beside.map(([name, ms]) => ({ name, from: 0, ms, channel: true }));
  let at = Math.max(0, ...beside.map(([, ms]) => ms));
  for (const [name, ms] of after) {
    rows.push({ name, from: at, ms });
    at += ms;
  }
  const whole = Math.max(total, at);
  if (total > at) rows.push({ name: "elsewhere", from: at, ms: total - at, elsewhere: true });
  return { rows, whole };
}

export function Waterfall({ timings, channels }) {
  const { rows, whole } = lay(timings, channels);
  return html`
    <div class="waterfall" role="table" aria-label=${t("play.timing")}>
      ${rows.map((row) => html`
        <div class="water-row" role="row" key=${row.name}>
          <span class="water-name" role="rowheader">${row.elsewhere ? t("trace.elsewhere") : row.channel ? word("channel", row.name) : word("run", row.name)}</span>
          <span class="water-track" role="presentation">
            <i class=${row.elsewhere ? "elsewhere" : row.channel ? row.name : "own"}
              style=${{ left: `${(100 * row.from) / whole}%`, width: `${Math.max(0.4, (100 * row.ms) / whole)}%` }}></i>
          </span>
          <span class="number" role="cell">${milliseconds(row.ms)}</span>
        </div>`)}
      <div class="water-row total" role="row">
        <span class="water-name" role="rowheader">${t("trace.total")}</span><span class="water-track" role="presentation"></span>
        <span class="number" role="cell">${milliseconds(timings.total)}</span>
      </div>
    </div>
    <p class="hint">${t("trace.inferred")}</p>`;
}
