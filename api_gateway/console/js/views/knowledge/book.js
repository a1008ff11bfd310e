// A book of examples to check or import, and the faults of its rows.
import { html, useState } from "../../html.js";
import { query } from "../../api.js";
import { count } from "../../format.js";
import { useAction } from "../../load.js";
import { Check, Field } from "../../parts/fields.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { Problem } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { sendForm } from "../../sending.js";
import { reasonOf } from "../../sentences.js";
import { t, word } from "../../words.js";

const CATEGORIES = ["qa", "record", "query", "greeting", "total"];

export function Book({ onImported }) {
  const [namespace, setNamespace] = useState("");
  const [file, setFile] = useState(null);
  const [strict, setStrict] = useState(false);
  const [report, setReport] = useState(null);
  const submit = useAction(async (dryRun) => {
    setReport(null);
    const form = new FormData();
    form.set("namespace", namespace.trim());
    form.set("strict", String(strict));
    form.set("file", file);
    const answer = await sendForm(`v1/examples${query({ dry_run: dryRun })}`, form);
    setReport(answer);
    if (answer.job_id) onImported(answer.job_id);
  });
  const faults = submit.error?.code === "examples_refused" ? submit.error.errors : null;
  function send(event) {
    event.preventDefault();
    submit.run(event.submitter?.value === "check");
  }
  return html`<section class="panel" aria-labelledby="book">
    <h2 id="book">${t("example.import")}</h2>
    <form class="record-form" onSubmit=${send}>
      <${Field} label=${t("example.file")} hint=${t("example.file_hint")}>${(ties) => html`
        <input type="file" required accept=".xlsx,.json" ...${ties} onChange=${(event) => setFile(event.target.files[0] ?? null)} />`}<//>
      <${NamespaceInput} value=${namespace} onInput=${setNamespace} />
      <${Check} label=${t("example.strict")} checked=${strict} onInput=${setStrict} />
      <div class="buttons">
        <button class="primary" value="import" disabled=${submit.busy} aria-busy=${submit.busy}>${t("example.import_do")}</button>
        <button value="check" disabled=${submit.busy}>${t("example.check")}</button>
      </div>
    </form>
    ${submit.error && html`<${Problem} error=${faults ? Object.assign(Object.create(submit.error), { errors: [] }) : submit.error} />`}
    ${faults && html`<${Flaws} title=${t("example.refused")} rows=${faults} />`}
    ${report && html`<${Report} report=${report} />`}
  </section>`;
}

function Report({ report }) {
  const number = (name) => ({ key: name, label: t(`example.${name}`), numeric: true, render: ([, each]) => count(each[name]) });
  const columns = [
    { key: "category", label: t("example.category"), main: true, render: ([name]) => word("example_category", name) },
    ...["read", "accepted", "refused", "duplicated", "blank"].map((name) => (name === "duplicated" ? { ...number("duplicated"), render: ([, each]) => count(each.duplicates) } : number(name))),
  ];
  return html`
    <p role="status"><${Badge} of=${report.errors_total ? "warning" : "ok"} label=${report.job_id ? t("example.imported") : t("example.checked")} />
      ${report.job_id && html` <a href=${link("jobs", report.job_id)}>${t("example.open_job")}</a>`}</p>
    <${Table} caption=${t("example.rows")} columns=${columns} rows=${CATEGORIES.map((name) => [name, report.statistics[name]])} rowKey=${([name]) => name} />
    <${Flaws} title=${`${t("example.refused")} (${count(report.errors_total)})`} rows=${report.errors} />
    <${Flaws} title=${`${t("example.warnings")} (${count(report.warnings_total)})`} rows=${report.warnings} />`;
}

const SHOWN = 100;

function Flaws({ title, rows }) {
  const [most, setMost] = useState(SHOWN);
  if (!rows.length) return null;
  const columns = [
    { key: "row", label: t("example.where"), main: true, render: (each) => [each.sheet, each.cell ?? (each.row != null ? t("example.row", { row: each.row }) : "")].filter(Boolean).join(" · ") },
    { key: "column", label: t("example.column"), render: (each) => each.column ?? "–" },
    { key: "detail", label: t("example.detail"), wide: true, render: (each) => html`<code>${each.code}</code> ${reasonOf(each)}` },
  ];
  return html`<h3>${title}</h3>
    <${Table} caption=${title} columns=${columns} rows=${rows.slice(0, most).map((each, index) => ({ ...each, index }))} rowKey=${(each) => each.index} />
    ${rows.length > most && html`<p class="more"><button type="button" onClick=${() => setMost(most + SHOWN)}>${t("action.more")}</button></p>`}`;
}
