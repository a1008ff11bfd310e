// A dashboard of Grafana's JSON with the console's charts: panels by their gridPos, with title, unit and legend.
import { html, render } from "./js/html.js";
import { count, duration, milliseconds, percent, rate } from "./js/format.js";
import { Chart } from "./js/parts/chart.js";
import { loadWords } from "./js/words.js";

const COLORS = ["keyword", "semantic", "faq", "api", "alarm", "fallback"];
const UNITS = { percentunit: percent, s: (value) => (value > 0 && value < 1 ? milliseconds(value * 1000) : duration(value)), ms: milliseconds, reqps: (value) => `${rate(value)}/s`, short: (value) => count(Number(value.toPrecision(3))) };
const STYLE = `
  body { margin: 16px; }
  .board { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: minmax(22px, auto); gap: 6px; }
  .board > h2 { font-size: 14px; align-self: center; }
  .stat { display: grid; align-content: center; justify-items: center; background: var(--surface); border: 1px solid var(--line); border-radius: var(--radius); }
  .stat b { font-size: 26px; font-weight: 600; color: var(--accent); }
  .panel > .chart { height: 100%; align-content: start; box-sizing: border-box; }`;

const board = JSON.parse(document.getElementById("panels").textContent);
const latest = (values) => values.findLast((value) => value != null);

function Stat({ panel, write }) {
  const values = panel.lines.map((line) => latest(line.values)).filter((value) => value != null);
  return html`<div class="panel stat" style=${placeOf(panel)}><span>${panel.title}</span><b class="number">${values.length ? write(values[0]) : "–"}</b></div>`;
}

function Panel({ panel }) {
  if (panel.type === "row") return html`<h2 class="panel" style=${placeOf(panel)}>${panel.title}</h2>`;
  const write = UNITS[panel.fieldConfig.defaults.unit];
  if (panel.type === "stat") return html`<${Stat} panel=${panel} write=${write} />`;
  const lines = panel.lines.map((line, place) => ({ ...line, color: COLORS[place % COLORS.length] }));
  return html`<div class="panel" style=${placeOf(panel)}><${Chart} title=${panel.title} at=${board.at} lines=${lines} format=${write} /></div>`;
}

const placeOf = ({ gridPos: { x, y, w, h } }) => `grid-area: ${y + 1} / ${x + 1} / span ${h} / span ${w}`;

await loadWords("en");
render(html`<style>${STYLE}</style><h1>${board.title}</h1>
  <div class="board">${board.panels.map((panel) => html`<${Panel} key=${panel.id} panel=${panel} />`)}</div>`, document.body);
