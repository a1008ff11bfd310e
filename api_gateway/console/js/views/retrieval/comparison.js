// The measures of two runs over the same questions: bars, significance, and the questions that differ.
import { html, useState } from "../../html.js";
import { segment, send } from "../../api.js";
import { count, milliseconds, score } from "../../format.js";
import { useAction } from "../../load.js";
import { MEASURES, paired, percentile } from "../../measures.js";
import { Confirm } from "../../parts/dialog.js";
import { Text } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { t, word } from "../../words.js";

const SIGNIFICANT = 0.05;
const [FIRST] = Object.keys(MEASURES);
const SHOWN = 20;
const TOP = 10;

/** `result`: `{questions, ways, answers}` of `askAll` for two ways. */
export function Comparison({ result: { questions, ways, answers } }) {
  const rows = Object.entries(MEASURES).map(([name, measure]) => {
    const values = answers.map((run) => run.map((answer, at) => measure(answer.documents, questions[at].relevant)));
    return { name, values, ...paired(...values) };
  });
  const columns = [
    { key: "name", label: t("evaluation.measure"), main: true, render: (row) => html`<b>${row.name}</b>` },
    { key: "bars", label: t("evaluation.bars"), wide: true, render: (row) => html`<${Pair} row=${row} />` },
    { key: "difference", label: t("evaluation.difference"), numeric: true, render: (row) => signed(row.difference) },
    { key: "p", label: "p", numeric: true, render: (row) => score(row.p, 3) },
    { key: "better", label: t("evaluation.better"), numeric: true, render: (row) => count(row.better) },
    { key: "worse", label: t("evaluation.worse"), numeric: true, render: (row) => count(row.worse) },
  ];
  const failed = answers.flat().filter((answer) => answer.failed).length;
  const degraded = answers.flat().filter((answer) => answer.degraded).length;
  return html`<section aria-labelledby="measured" class="measured">
    <h2 id="measured">${t("evaluation.measured", { count: count(questions.length) })}</h2>
    <p role="status" class=${`verdict ${toneOf(rows[0])}`}>${verdictOf(rows[0])}</p>
    <${Table} caption=${t("evaluation.measures")} columns=${columns} rows=${rows} rowKey=${(row) => row.name} />
    <p class="hint">${t("evaluation.formula")}</p>
    <${Latencies} answers=${answers} />
    ${(failed > 0 || degraded > 0) && html`<p class="note warn">${t("evaluation.lost", { failed: count(failed), degraded: count(degraded) })}</p>`}
    ${may("write") && Object.keys(ways[1].changes).length > 0 && html`<${Store} way=${ways[1]} row=${rows[0]} />`}
    <${Questions} questions=${questions} answers=${answers} values=${rows[0].values} />
  </section>`;
}

const signed = (value) => `${value >= 0 ? "+" : "−"}${score(Math.abs(value), 4)}`;
const toneOf = ({ p, difference }) => (p > SIGNIFICANT || difference === 0 ? "warn" : difference > 0 ? "good" : "bad");

function verdictOf({ p, difference }) {
  const values = { measure: FIRST, difference: signed(difference), p: score(p, 3) };
  if (p > SIGNIFICANT || difference === 0) return t("evaluation.noise", values);
  return difference > 0 ? t("evaluation.gain", values) : t("evaluation.loss", values);
}

/** Both means on a scale from 0 to 1. */
function Pair({ row }) {
  return html`<div class="pair">${["before", "after"].map((side) => html`
    <span class="pair-row" key=${side}><span class="pair-name">${t(`evaluation.${side}`)}</span>
      <span class="pair-track" aria-hidden="true"><i class=${side} style=${{ width: `${100 * row[side]}%` }}></i></span>
      <span class="number">${score(row[side], 4)}</span></span>`)}</div>`;
}

function Latencies({ answers }) {
  const times = answers.map((run) => run.map((answer) => answer.elapsedMs).filter((each) => each != null));
  return html`<p class="hint">${["before", "after"].map((side, index) => html`<span key=${side}>${t("evaluation.latency", {
    side: t(`evaluation.${side}`), p50: milliseconds(percentile(times[index], 50)), p95: milliseconds(percentile(times[index], 95)),
  })} </span>`)}</p>`;
}

/** The questions whose first measure differs most, with both orders of documents. */
function Questions({ questions, answers, values: [before, after] }) {
  const [most, setMost] = useState(SHOWN);
  const rows = questions.map((question, at) => ({ question, at, difference: after[at] - before[at] }))
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || a.at - b.at);
  const columns = [
    { key: "question", label: t("play.question"), main: true, render: ({ question, at }) => html`
      <details><summary>${question.query_text}</summary>
        <div class="two">${answers.map((run, side) => html`<ol key=${side} aria-label=${t(side ? "evaluation.after" : "evaluation.before")}>
          ${run[at].documents.slice(0, TOP).map((id) => html`<li key=${id}><code>${id}</code>
            ${question.relevant[id] !== undefined && html` <b>${word("grade", question.relevant[id])}</b>`}</li>`)}</ol>`)}</div>
      </details>` },
    { key: "before", label: t("evaluation.before"), numeric: true, render: ({ at }) => score(before[at], 4) },
    { key: "after", label: t("evaluation.after"), numeric: true, render: ({ at }) => score(after[at], 4) },
    { key: "difference", label: t("evaluation.difference"), numeric: true, render: (row) => signed(row.difference) },
  ];
  return html`<h3>${t("evaluation.questions", { measure: FIRST })}</h3>
    <${Table} caption=${t("evaluation.questions", { measure: FIRST })} columns=${columns} rows=${rows.slice(0, most)} rowKey=${(row) => row.at} />
    ${rows.length > most && html`<p class="more"><button onClick=${() => setMost(most + SHOWN)}>${t("action.more")}</button></p>`}`;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Both merged key by key, as the server merges the parts of a plan. */
const overlaid = (under, over) => Object.entries(over).reduce((merged, [key, value]) => (
  { ...merged, [key]: isObject(value) && isObject(merged[key]) ? overlaid(merged[key], value) : value }), under);

/** Store the measured changes as a version of their profile, on trial at first. */
export function Store({ way, row }) {
  const [asking, setAsking] = useState(false);
  const [share, setShare] = useState("0.1");
  const store = useAction(async () => {
    const address = `v1/profiles/${segment(way.profile)}`;
    const { body, headers } = await send("GET", address);
    const note = t("evaluation.note", { measure: FIRST, before: score(row.before, 4), after: score(row.after, 4), p: score(row.p, 3), count: row.queries });
    await send("PUT", address, { json: { config: overlaid(body.config, way.changes), note, share: Number(share) }, headers: { "If-Match": headers.get("ETag") } });
    announce(t("evaluation.stored", { name: way.profile }));
  });
  return html`<p class="buttons"><button onClick=${() => setAsking(true)}>${t("evaluation.store", { name: way.profile })}</button>
      <a href=${link("profiles", way.profile)}>${way.profile}</a></p>
    ${asking && html`<${Confirm} title=${t("evaluation.store", { name: way.profile })} confirm=${t("action.save")} action=${store} danger=${false} close=${() => setAsking(false)}>
      <${Text} label=${t("profile.share")} type="number" min="0" max="1" step="any" value=${share} onInput=${setShare} hint=${t("profile.share_hint")} /><//>`}`;
}
