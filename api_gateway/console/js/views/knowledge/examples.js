// The example library: counts, import of a book with its faults, verification of an import.
import { html, useState } from "../../html.js";
import { get, query } from "../../api.js";
import { count, percent, score } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { download } from "../../parts/download.js";
import { Text } from "../../parts/fields.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, Facts, Table } from "../../parts/table.js";
import { link } from "../../router.js";
import { codeName } from "../../sentences.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";
import { Book } from "./book.js";

const CATEGORIES = ["qa", "record", "query", "greeting"];

export function Examples() {
  const stocked = useLoad((signal) => get("v1/namespaces?examples=true&limit=200", { signal }).then((page) => page.data), [], { everyMs: 10000 });
  const [chosen, setChosen] = useState("");
  const [job, setJob] = useState("");
  const namespace = chosen || stocked.data?.[0]?.namespace || "";
  const template = useAction(() => download("v1/examples/template.xlsx", "examples-template.xlsx"));
  return html`
    <${Heading} title=${t("nav.examples")} about=${t("example.about")}>
      <button disabled=${template.busy} onClick=${() => template.run()}>${t("example.template")}</button>
    <//>
    ${template.error && html`<${Problem} error=${template.error} />`}
    ${may("write") && html`<${Book} onImported=${(id) => { setJob(id); stocked.reload(); }} />`}
    <${Verification} key=${job} job=${job} />
    <section aria-labelledby="stored">
      <div class="heading">
        <h2 id="stored">${t("example.stored")}</h2>
        ${stocked.data?.length > 0 && html`<${NamespaceChoice} class="inline" namespaces=${stocked} among=${{ examples: "true" }} value=${namespace} onInput=${setChosen} />`}
      </div>
      ${namespace ? html`<${Stored} key=${namespace} namespace=${namespace} />` : html`<${Loaded} of=${stocked} isEmpty=${() => true} empty=${html`<${Empty} title=${t("example.none")}><p>${t("example.none_text")}</p><//>`} />`}
    </section>`;
}

const pairs = (counts) => Object.entries(counts).map(([name, number]) => `${name || t("example.no_grade")} ${count(number)}`).join(", ") || "–";

function Stored({ namespace }) {
  const found = useLoad((signal) => get(`v1/examples/statistics${query({ namespace })}`, { signal }), [namespace], { everyMs: 10000 });
  const columns = [
    { key: "category", label: t("example.category"), main: true, render: ([name]) => word("example_category", name) },
    { key: "examples", label: t("example.examples"), numeric: true, render: ([, each]) => count(each.examples) },
    { key: "grades", label: t("example.grades"), render: ([, each]) => pairs(each.grades) },
    { key: "tags", label: t("field.tags"), wide: true, render: ([, each]) => pairs(Object.fromEntries(Object.entries(each.tags).slice(0, 8))) },
    { key: "length", label: t("example.length"), numeric: true, render: ([, each]) => (each.lengths ? `${count(each.lengths.shortest)} – ${count(each.lengths.longest)} (${score(each.lengths.mean, 0)})` : "–") },
  ];
  return html`<${Loaded} of=${found} isEmpty=${(data) => !data.total.examples} empty=${html`<${Empty} title=${t("example.none")}><p>${t("example.none_text")}</p><//>`}>
    ${(data) => html`
      <${Table} caption=${t("example.stored")} columns=${columns} rows=${[...CATEGORIES.map((name) => [name, data.categories[name]]), ["total", data.total]]} rowKey=${([name]) => name} />
      <p>${t("example.duplicates", { count: count(data.duplicates.surplus) })}</p>
      ${data.duplicates.groups.length > 0 && html`<ul class="plain lines">${data.duplicates.groups.map((group) => html`<li key=${group[0]}>${group.map((id) => html`
        <a key=${id} href=${link("documents", namespace, id)}><code>${id}</code></a> `)}</li>`)}</ul>`}`}
  <//>`;
}

/** Compare an import with what searches can find. */
function Verification({ job: first }) {
  const [job, setJob] = useState(first);
  const [result, setResult] = useState(null);
  const verify = useAction(async () => setResult(await get(`v1/examples/verification${query({ job_id: job.trim() })}`)));
  function submit(event) {
    event.preventDefault();
    verify.run();
  }
  return html`<section class="panel" aria-labelledby="verify">
    <h2 id="verify">${t("example.verify")}</h2>
    <form class="ask" onSubmit=${submit}>
      <${Text} label=${t("example.job")} class="grow" required maxlength="64" value=${job} onInput=${setJob} spellcheck=${false} hint=${t("example.verify_about")} />
      <button disabled=${verify.busy} aria-busy=${verify.busy}>${t("example.verify_do")}</button>
    </form>
    ${verify.error && html`<${Problem} error=${verify.error} />`}
    ${result && html`<div role="status">
      <${Facts} of=${[
        [t("field.status"), html`<${Badge} of=${result.status} label=${word("status", result.status)} />`],
        [t("field.namespace"), result.namespace],
        [t("example.searchable"), `${count(result.searchable)} / ${count(result.rows)}${result.rows ? ` (${percent(result.searchable / result.rows)})` : ""}`],
      ]} />
      ${result.missing.length > 0 && html`<h3>${t("example.missing")}</h3><ul class="plain lines">${result.missing.map((each) => html`<li key=${each.document_id}>
        <code>${each.document_id}</code> ${word("status", each.status)} ${each.code && codeName(each.code)}</li>`)}</ul>`}
    </div>`}
  </section>`;
}
