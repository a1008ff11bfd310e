// The ranks of each returned hit from column to column: channels, fusion, reranking, answer.
import { html, useState } from "../../html.js";
import { t, word } from "../../words.js";
import { Named, useWanted } from "./names.js";

const MOST = 10; // hits drawn; more lines could not be told apart
const ROW = 26;
const TOP = 34;
const WIDTH = 720;
const ASIDE = 70; // on either side, for the names of the outer columns

/** `[{name, label, ranks}]`: the columns with the rank of each chunk in them. */
export function columnsOf(trace) {
  const ranked = (hits, rank) => new Map(hits.map((hit) => [hit.chunk_id, hit[rank]]));
  const stage = (name) => trace.stages.findLast((each) => each.stage === name);
  const stages = [["fuse", t("flow.fused")], ["rerank", t("flow.reranked")]].filter(([name]) => stage(name));
  return [
    ...Object.entries(trace.channels).filter(([, found]) => found.hits.length > 0)
      .map(([name, found]) => ({ name, label: word("channel", name), ranks: ranked(found.hits, "rank") })),
    ...stages.map(([name, label]) => ({ name, label, ranks: ranked(stage(name).hits, "place") })),
    { name: "returned", label: t("run.returned"), ranks: new Map(trace.returned.map((id, at) => [id, at + 1])) },
  ];
}

/** The row of each drawn chunk: its rank; ranks below the last row stand under each other after it. */
function rowsOf(column, ids) {
  const rows = new Map();
  let below = ids.length;
  for (const id of ids.filter((each) => column.ranks.has(each)).sort((a, b) => column.ranks.get(a) - column.ranks.get(b))) {
    const rank = column.ranks.get(id);
    rows.set(id, rank <= ids.length ? rank - 1 : below++);
  }
  return rows;
}

export function RankFlow({ trace, names }) {
  const ids = trace.returned.slice(0, MOST);
  const [lit, setLit] = useState(null);
  useWanted(names, ids);
  const columns = columnsOf(trace).map((column) => ({ ...column, rows: rowsOf(column, ids) }));
  const height = TOP + ROW * (1 + Math.max(...columns.flatMap((column) => [...column.rows.values()])));
  const x = (at) => ASIDE + (at * (WIDTH - 2 * ASIDE)) / Math.max(1, columns.length - 1);
  const y = (row) => TOP + ROW * row + ROW / 2;
  const points = (id) => columns.map((column, at) => (column.rows.has(id) ? [x(at), y(column.rows.get(id)), column.ranks.get(id)] : null));
  const shade = (id) => (lit === null ? "" : lit === id ? "lit" : "dim");
  return html`
    <p class="hint">${t("flow.about")}</p>
    <svg class="flow" viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${t("flow.label")}>
      ${columns.map((column, at) => html`<g key=${column.name}><text class="flow-head" x=${x(at)} y="16" text-anchor="middle">${column.label}</text>
        <line class="flow-axis" x1=${x(at)} x2=${x(at)} y1=${TOP - 6} y2=${height} /></g>`)}
      ${ids.map((id, number) => {
        const shown = points(id).filter(Boolean);
        return html`<g key=${id} class=${`flow-hit c${number % MOST} ${shade(id)}`} onMouseEnter=${() => setLit(id)} onMouseLeave=${() => setLit(null)}>
          <polyline points=${shown.map(([px, py]) => `${px},${py}`).join(" ")} />
          ${shown.map(([px, py, rank]) => html`<g key=${px}><circle cx=${px} cy=${py} r="11" /><text x=${px} y=${py + 4} text-anchor="middle">${rank}</text></g>`)}
        </g>`;
      })}
    </svg>
    <ol class="flow-names plain">${ids.map((id, number) => html`<li key=${id} class=${shade(id)} tabindex="0"
      onMouseEnter=${() => setLit(id)} onMouseLeave=${() => setLit(null)} onFocusIn=${() => setLit(id)} onFocusOut=${() => setLit(null)}>
      <i class=${`flow-mark c${number % MOST}`}></i>
      <div><${Named} id=${id} names=${names} />
        <span class="under">${columns.map((column) => `${column.label} ${column.ranks.has(id) ? `#${column.ranks.get(id)}` : "–"}`).join(" → ")}</span></div></li>`)}</ol>
    ${trace.returned.length > MOST && html`<p class="hint">${t("flow.first", { count: MOST })}</p>`}`;
}
