// Lines over time. The figures beside the names are the latest ones, or those under the pointer.
import { html, useEffect, useRef, useState } from "../html.js";
import { uPlot } from "../../vendor/uplot.js";
import { language, theme } from "../preferences.js";
import { useStore } from "../store.js";
import { locale, t } from "../words.js";

const HEIGHT = 150;
const FONT = "11px system-ui, sans-serif";
const ROOM = [8, 22, 0, 0]; // above and beside the axes, for the halves of the outermost labels
const NONE = "–";

/**
 * `at`: seconds since the epoch; `lines`: `{name, color, values}` with one value, or null, for each of them; `color`: a
 * custom property; `format(value)`: the text of a value; `most`: the least upper end of the scale.
 */
export function Chart({ title, at, lines, format, most = 0 }) {
  const frame = useRef(null);
  const [pointed, setPointed] = useState(null);
  const look = useStore(theme);
  const speaking = useStore(language);
  const isEmpty = lines.every((line) => line.values.every((value) => value == null));

  useEffect(() => {
    if (isEmpty) return undefined;
    const element = frame.current;
    const plot = new uPlot(options(element, lines, format, most, setPointed), [at, ...lines.map((line) => line.values)], element);
    const watcher = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [at, look, speaking, isEmpty]);

  return html`
    <figure class="chart">
      <figcaption>
        <h3>${title}</h3>
        <span class="chart-time hint number">${pointed != null && time(at[pointed])}</span>
      </figcaption>
      <ul class="chart-names">
        ${lines.map((line) => html`<li key=${line.name}>
          <i class=${`line-mark ${line.color}`}></i>${line.name}${" "}
          <b class="number">${text(pointed == null ? latest(line.values) : line.values[pointed], format)}</b>
        </li>`)}
      </ul>
      <div class="chart-frame" ref=${frame} aria-hidden="true">${isEmpty && html`<p class="hint">${t("overview.no_figures")}</p>`}</div>
    </figure>`;
}

const latest = (values) => values.findLast((value) => value != null);

const text = (value, format) => (value == null ? NONE : format(value));

const time = (seconds) => new Intl.DateTimeFormat(locale(), { dateStyle: "short", timeStyle: "short" }).format(new Date(seconds * 1000));

/** The values without a neighbour, which a line cannot show. */
const lone = (plot, series) => plot.data[series].flatMap((value, at, all) => (value != null && all[at - 1] == null && all[at + 1] == null ? [at] : []));

/** The width of the longest of these labels, in CSS pixels. */
function widest(labels) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  return Math.ceil(Math.max(24, ...(labels ?? []).map((label) => pen.measureText(label).width)));
}

function options(frame, lines, format, most, setPointed) {
  const style = getComputedStyle(frame);
  const color = (name) => {
    const probe = document.createElement("i"); // the canvas cannot read light-dark()
    probe.className = `line-mark ${name}`;
    frame.append(probe);
    const found = getComputedStyle(probe).backgroundColor;
    probe.remove();
    return found;
  };
  const axis = { stroke: style.color, font: FONT, grid: { stroke: color("grid"), width: 1 }, ticks: { show: false } };
  const clock = new Intl.DateTimeFormat(locale(), { hour: "2-digit", minute: "2-digit" });
  const day = new Intl.DateTimeFormat(locale(), { month: "numeric", day: "numeric" });
  const label = (seconds, step) => (step >= 86400 ? day : clock).format(new Date(seconds * 1000));
  return {
    width: frame.clientWidth,
    height: HEIGHT,
    padding: ROOM,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(most, (high || 0) * 1.1) || 1] } },
    axes: [
      { ...axis, size: 24, space: 70, values: (_plot, marks, _axis, _space, step) => marks.map((mark) => label(mark, step)) },
      { ...axis, size: (_plot, marks) => widest(marks) + 14, space: 36, values: (_plot, marks) => marks.map(format) },
    ],
    series: [{}, ...lines.map((line) => ({ stroke: color(line.color), width: 1.5, points: { show: false, size: 4, fill: color(line.color), filter: lone } }))],
    hooks: { setCursor: [(plot) => setPointed(plot.cursor.idx ?? null)] },
  };
}
