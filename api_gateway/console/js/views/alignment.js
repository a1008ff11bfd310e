// Compare the chunks in MySQL and PostgreSQL, and repair differences.
import { html, useState } from "../html.js";
import { post } from "../api.js";
import { count, moment } from "../format.js";
import { useAction } from "../load.js";
import { Confirm } from "../parts/dialog.js";
import { useNamespaces } from "../parts/fields.js";
import { NamespaceChoice } from "../parts/namespace_choice.js";
import { announce } from "../parts/notices.js";
import { Empty, Loaded, Problem, Waiting } from "../parts/states.js";
import { Badge, Table } from "../parts/table.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t } from "../words.js";

const KINDS = ["missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors"];
const MAIN = KINDS.slice(0, 3);
const differs = (report) => KINDS.reduce((sum, kind) => sum + (report[kind] ?? 0), 0);

export function Alignment() {
  const namespaces = useNamespaces();
  const [only, setOnly] = useState("");
  const [found, setFound] = useState(null);
  const [asking, setAsking] = useState(false);
  const body = (repair) => ({ repair, ...(only ? { namespaces: [only] } : {}) });

  const verify = useAction(async () => {
    setFound(null);
    setFound({ ...(await post("v1/verify", body(false))), at: new Date().toISOString() });
  });
  const repair = useAction(async () => {
    const done = await post("v1/verify", body(true));
    announce(t("align.repaired", { count: count(done.repaired) }));
    setFound({ ...(await post("v1/verify", body(false))), repaired: done.repaired, at: new Date().toISOString() });
  });

  return html`
    <${Heading} title=${t("nav.alignment")} about=${t("align.about")} />
    <${Loaded} of=${namespaces} lines=${2} isEmpty=${(data) => !data.length} empty=${html`<${Empty} title=${t("align.empty")} />`}>
      ${() => html`
        <div class="toolbar">
          <${NamespaceChoice} class="inline" namespaces=${namespaces} all=${t("documents.all_namespaces")} value=${only} onInput=${setOnly} />
          <button class="primary" disabled=${verify.busy} aria-busy=${verify.busy} onClick=${() => verify.run()}>${t("align.verify")}</button>
          ${found && differs(found) > 0 && may("write") && html`<button onClick=${() => setAsking(true)}>${t("align.repair")}</button>`}
        </div>
        ${verify.error && html`<${Problem} error=${verify.error} retry=${() => verify.run()} />`}
        ${verify.busy && html`<p class="note" role="status">${t("align.busy")}</p><${Waiting} lines=${3} />`}
        ${found && !verify.busy && html`<${Report} found=${found} />`}
        ${!found && !verify.busy && !verify.error && html`<${Empty} title=${t("align.start")}><p>${t("align.start_text")}</p><//>`}
      `}
    <//>
    ${asking && html`<${Confirm} title=${t("align.repair_title")} confirm=${t("align.repair")} action=${repair} danger=${false}
      close=${() => setAsking(false)}><p>${t("align.repair_text")}</p><//>`}`;
}

function Report({ found }) {
  const total = differs(found);
  const number = (kind) => (each) => (each[kind] ? html`<b class="bad-text">${count(each[kind])}</b>` : count(0));
  const columns = [
    { key: "namespace", label: t("field.namespace"), main: true, render: (each) => each.namespace },
    { key: "state", label: t("field.status"), render: (each) => differs(each)
      ? html`<${Badge} of="failed" label=${t("align.drift")} />` : html`<${Badge} of="ok" label=${t("align.aligned")} />` },
    { key: "documents", label: t("nav.documents"), numeric: true, render: (each) => count(each.documents) },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "vectors", label: t("align.vectors"), numeric: true, render: (each) => count(each.vectors) },
    ...MAIN.map((kind) => ({ key: kind, label: t(`align.${kind}`), numeric: true, render: number(kind) })),
    { key: "other", label: t("align.other"), numeric: true, render: (each) => {
      const others = KINDS.slice(3).filter((kind) => each[kind]);
      return others.length ? html`<b class="bad-text" title=${others.map((kind) => `${t(`align.${kind}`)}: ${each[kind]}`).join(", ")}>${count(others.reduce((sum, kind) => sum + each[kind], 0))}</b>` : count(0);
    } },
  ];
  return html`
    <div class=${total ? "verdict bad" : "verdict good"} role="status">
      <strong>${total ? t("align.found", { count: count(total) }) : t("align.none_found")}</strong>
      <span class="muted">${moment(found.at)}${found.repaired ? ` · ${t("align.repaired", { count: count(found.repaired) })}` : ""}</span>
    </div>
    <div class="cards">
      ${MAIN.map((kind) => html`<div class="card" key=${kind}>
        <span class="card-name">${t(`align.${kind}`)}</span><b class=${found[kind] ? "card-number bad-text" : "card-number"}>${count(found[kind])}</b>
        <span class="hint">${t(`align.${kind}_text`)}</span></div>`)}
    </div>
    <${Table} caption=${t("nav.alignment")} columns=${columns} rows=${found.namespaces} rowKey=${(each) => each.namespace} />`;
}
