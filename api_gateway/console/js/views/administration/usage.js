// The cost of embedding and written answers, over days and by kind of work, model or job; and the quotas with their use.
import { html, useMemo, useState } from "../../html.js";
import { get, query } from "../../api.js";
import { amount, count, short } from "../../format.js";
import { useAction, useLoad, usePages } from "../../load.js";
import { Chart } from "../../parts/chart.js";
import { offer } from "../../parts/download.js";
import { Segments, Text } from "../../parts/fields.js";
import { QuotaBars } from "../../parts/quota.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { More, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { csv } from "../../saving.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

const DAY_MS = 86_400_000;
const SPANS = ["month", "30", "90", "365", "other"];
const KINDS = ["day", "purpose", "model", "job"];
const FIGURES = ["tokens", "saved_tokens", "texts", "cached", "requests", "cost"];
const MOST_DAYS = 3660;
const MOST_ROWS = 100_000;

const day = (ms) => new Date(ms).toISOString().slice(0, 10);

function spanOf(name) {
  const today = day(Date.now());
  return name === "month" ? [`${today.slice(0, 8)}01`, today] : [day(Date.now() - (Number(name) - 1) * DAY_MS), today];
}

export function Usage() {
  const [span, setSpan] = useState("30");
  const [days, setDays] = useState(spanOf("30"));
  const [by, setBy] = useState("purpose");
  const [from, to] = days;
  const [begins, ends] = days.map((each) => Date.parse(each));
  const fault = Number.isNaN(begins) || Number.isNaN(ends) ? "no_day"
    : begins > ends ? "backwards" : ends - begins > MOST_DAYS * DAY_MS ? "too_long" : null;

  function choose(name) {
    setSpan(name);
    if (name !== "other") setDays(spanOf(name));
  }

  return html`
    <${Heading} title=${t("nav.usage")} about=${t("usage.about")} />
    <div class="toolbar">
      <${Segments} label=${t("usage.span")} value=${span} onInput=${choose} options=${SPANS.map((name) => [name, t(`usage.span_${name}`)])} />
      ${span === "other" && [0, 1].map((end) => html`<${Text} key=${end} type="date" label=${[t("usage.from"), t("usage.to")][end]} value=${days[end]}
        fault=${end && fault ? t(`usage.fault_${fault}`) : ""} onInput=${(text) => setDays(end ? [from, text] : [text, to])} />`)}
    </div>
    ${!fault && html`<${Days} from=${from} to=${to} /><${Rows} from=${from} to=${to} by=${by} setBy=${setBy} />`}
    <${Quotas} />`;
}

/** Every row of a report: page by page, up to a limit far above what a screen holds. */
async function everyRow(parameters, signal) {
  const rows = [];
  let page;
  do {
    page = await get(`v1/usage${query({ ...parameters, limit: 200, cursor: page?.next_cursor })}`, { signal });
    rows.push(...page.data);
  } while (page.next_cursor && rows.length < MOST_ROWS);
  return { rows, total: page.total };
}

function Days({ from, to }) {
  const loaded = useLoad((signal) => everyRow({ from, to, by: "day" }, signal), [from, to]);
  return html`<${Loaded} of=${loaded} isEmpty=${() => false}>${(data) => html`<${DayCharts} data=${data} from=${from} to=${to} />`}<//>`;
}

function DayCharts({ data: { rows, total }, from, to }) {
  const { at, lines } = useMemo(() => {
    const known = new Map(rows.map((row) => [row.key, row]));
    const days = [];
    for (let ms = Date.parse(from); ms <= Date.parse(to); ms += DAY_MS) days.push(day(ms));
    const values = (name) => days.map((key) => known.get(key)?.[name] ?? 0);
    return {
      at: days.map((key) => new Date(`${key}T00:00`).getTime() / 1000),
      lines: Object.fromEntries(["tokens", "saved_tokens", "cost"].map((name) => [name, values(name)])),
    };
  }, [rows, from, to]);
  const line = (name, color) => ({ name: t(`usage.${name}`), color, values: lines[name] });
  return html`
    <div class="cards small">
      ${FIGURES.map((name) => html`<div class="card" key=${name}>
        <span class="card-name">${t(`usage.${name}`)}</span>
        <b class="card-number">${name === "cost" ? amount(total.cost) : count(total[name])}</b>
        ${name === "cost" && !total.cost && total.tokens > 0 && html`<span class="hint">${t("usage.no_price")}</span>`}
        ${name === "saved_tokens" && html`<span class="hint">${t("usage.saved_hint")}</span>`}
      </div>`)}
    </div>
    <div class="charts">
      <${Chart} title=${t("usage.tokens_daily")} at=${at} format=${count} most=${1} lines=${[line("tokens", "keyword"), line("saved_tokens", "faq")]} />
      ${total.cost > 0 && html`<${Chart} title=${t("usage.cost_daily")} at=${at} format=${amount} lines=${[line("cost", "semantic")]} />`}
    </div>`;
}

function Rows({ from, to, by, setBy }) {
  const rows = usePages("v1/usage", { from, to, by });
  const most = Math.max(1, ...(rows.data?.rows ?? []).map((row) => row.tokens));
  const download = useAction(async () => {
    const all = await everyRow({ from, to, by });
    const table = [[by, ...FIGURES], ...all.rows.map((row) => [row.key, ...FIGURES.map((name) => row[name])])];
    offer(`usage-${by}-${from}-${to}.csv`, new Blob(["\ufeff", csv(table)], { type: "text/csv" }));
  });
  const columns = [
    { key: "key", label: t(`usage.by_${by}`), main: true, render: (row) => nameOf(by, row.key) },
    { key: "share", label: t("usage.share"), render: (row) => html`<span class="meter"><i style=${{ width: `${(100 * row.tokens) / most}%` }}></i></span>` },
    ...FIGURES.map((name) => ({ key: name, label: t(`usage.${name}`), numeric: true, render: (row) => (name === "cost" ? amount(row.cost) : count(row[name])) })),
  ];
  return html`<section aria-labelledby="usage-rows">
    <div class="row between">
      <h2 id="usage-rows">${t("usage.broken_down")}</h2>
      <div class="row">
        <${Segments} label=${t("usage.by")} value=${by} onInput=${setBy} options=${KINDS.map((name) => [name, t(`usage.by_${name}`)])} />
        <button onClick=${() => download.run()} disabled=${download.busy} aria-busy=${download.busy}>${t("usage.csv")}</button>
      </div>
    </div>
    ${download.error && html`<${Problem} error=${download.error} />`}
    <${Loaded} of=${rows} empty=${html`<${Empty} title=${t("usage.empty")} />`}>
      ${(data) => html`<${Table} caption=${t("usage.broken_down")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.key} /><${More} pages=${rows} />`}
    <//>
  </section>`;
}

function nameOf(by, key) {
  if (by === "purpose") return word("purpose", key);
  if (by === "job") return key ? html`<a href=${link("jobs", key)} title=${key}><code>${short(key)}</code></a>` : t("usage.no_job");
  return key;
}

function Quotas() {
  const quotas = useLoad((signal) => get("v1/quotas", { signal }), []);
  return html`<section aria-labelledby="quotas">
    <h2 id="quotas">${t("quota.title")}</h2>
    <p class="about">${t("quota.about")}</p>
    <${Loaded} of=${quotas} lines=${3}>${(use) => html`<div class="panel"><${QuotaBars} use=${use} /></div>`}<//>
  </section>`;
}
