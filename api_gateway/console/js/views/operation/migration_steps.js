// The progress of a model migration, the comparison of both models, and each action with its consequences.
import { html, useState } from "../../html.js";
import { post } from "../../api.js";
import { count, duration, moment, percent, rate as perSecond, score } from "../../format.js";
import { useAction } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Check } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { announce } from "../../parts/notices.js";
import { Facts } from "../../parts/table.js";
import { t } from "../../words.js";

const STEPS = {
  backfilling: ["abort"], verifying: ["abort"], ready: ["compare", "switch", "abort"], switched: ["finish", "rollback"],
};
const IRREVERSIBLE = ["finish", "abort"];

/** `rate`: chunks per second of the last minute, null while unknown. */
export function Progressing({ migration, rate }) {
  const { progress } = migration;
  const { chunks, chunks_total: total } = progress;
  const runs = migration.state === "backfilling" || migration.state === "verifying";
  const text = t("migration.chunks_of", { done: count(chunks), total: count(total) });
  return html`
    ${runs && html`
      <div class="progress">
        <div class="progress-bar" role="progressbar" aria-label=${t("jobs.progress")} aria-valuemin="0" aria-valuemax=${Math.max(total, chunks)} aria-valuenow=${chunks} aria-valuetext=${text}>
          <span class="part good" style=${{ width: `${total ? Math.min(100, (100 * chunks) / total) : 0}%` }}></span>
        </div>
        <p class="pace"><span>${text}</span>
          ${rate > 0 && html`<span>${t("migration.rate", { rate: perSecond(rate) })}</span><span>${t("progress.eta", { time: duration(Math.max(0, total - chunks) / rate) })}</span>`}
          <span>${t("migration.tenants_of", { done: count(progress.tenants_done), total: count(progress.tenants) })}</span></p>
      </div>`}
    ${migration.error_code && html`<p class="note warn"><strong>${t("migration.waits")}</strong> <code>${migration.error_code}</code> ${migration.error_detail}</p>`}
    <${Facts} of=${[
      [t("migration.embedded"), count(progress.embedded)],
      [t("migration.behind"), html`<span class=${migration.behind ? "bad-text" : ""}>${count(migration.behind)}</span>`],
      [t("migration.missing"), html`<span class=${migration.missing ? "bad-text" : ""}>${count(migration.missing)}</span>`],
      [t("field.created"), moment(migration.created_at)],
      migration.ready_at && [t("migration.ready_at"), moment(migration.ready_at)],
      migration.switched_at && [t("migration.switched_at"), moment(migration.switched_at)],
    ]} />`;
}

export function Comparison({ of }) {
  const bar = (name, value) => html`<div class="quota" key=${name}>
    <div class="row between"><b>${name}</b><span class="number">${value == null ? "–" : score(value)}</span></div>
    <div class="progress-bar"><span class="part good" style=${{ width: `${100 * (value ?? 0)}%` }}></span></div></div>`;
  return html`<section class="panel" aria-labelledby="comparison">
    <h2 id="comparison">${t("migration.comparison")}</h2>
    <div class=${`verdict ${of.passed ? "good" : "bad"}`} role="status"><strong>${of.passed ? t("migration.passed") : t("migration.not_passed")}</strong>
      ${of.reason && html`<span>${of.reason}</span>`}</div>
    <div class="quotas">
      ${of.judged > 0 && [bar(t("migration.ndcg_old", { k: of.k }), of.ndcg_active), bar(t("migration.ndcg_new", { k: of.k }), of.ndcg_target)]}
      ${bar(t("migration.overlap", { k: of.k }), of.overlap)}
    </div>
    <p class="hint">${t("migration.compared", { queries: count(of.queries), judged: count(of.judged), at: moment(of.compared_at) })}
      ${" "}${t("migration.gates", { overlap: percent(of.min_overlap), loss: score(of.max_ndcg_loss, 2) })}
      ${of.sampled && html` ${t("migration.sampled")}`}</p>
  </section>`;
}

/** The actions of a state. Each but the comparison asks first, and tells its consequences. */
export function Steer({ root, migration, again }) {
  const [asking, setAsking] = useState("");
  const [skips, setSkips] = useState({ skip_gate: false, accept_missing: false });
  const steer = useAction(async (what) => {
    await post(`${root}/${migration.number}/${what}`, what === "switch" ? skips : undefined);
    announce(t(`migration.done_${what}`));
    again();
  });
  function ask(what) {
    steer.clear();
    setAsking(asking === what ? "" : what);
  }
  const steps = STEPS[migration.state] ?? [];
  const passed = migration.comparison?.passed;
  return html`
    ${steps.length > 0 && html`<div class="buttons">${steps.map((what) => html`
      <button key=${what} class=${IRREVERSIBLE.includes(what) ? "danger-text" : what === "switch" && passed ? "primary" : ""} onClick=${() => ask(what)}>${t(`migration.${what}`)}</button>`)}</div>`}
    ${asking === "compare" && html`<${Compare} root=${root} migration=${migration} again=${again} close=${() => setAsking("")} />`}
    ${asking && asking !== "compare" && html`
      <${Confirm} title=${t(`migration.${asking}_title`)} confirm=${t(`migration.${asking}`)} action=${steer} args=${[asking]}
        danger=${IRREVERSIBLE.includes(asking)} close=${() => setAsking("")}>
        <p>${t(`migration.${asking}_text`)}</p>
        ${asking === "switch" && !passed && html`<${Check} label=${t("migration.skip_gate")} checked=${skips.skip_gate} onInput=${(skip_gate) => setSkips({ ...skips, skip_gate })} />`}
        ${asking === "switch" && migration.missing > 0 && html`<${Check} label=${t("migration.accept_missing", { count: count(migration.missing) })}
          checked=${skips.accept_missing} onInput=${(accept_missing) => setSkips({ ...skips, accept_missing })} />`}
      <//>`}`;
}

function Compare({ root, migration, again, close }) {
  const fields = [
    { name: "sample", label: t("migration.sample"), kind: "number", min: 1, max: 500, step: 1, hint: t("migration.sample_hint") },
    { name: "k", label: t("migration.k"), kind: "number", min: 1, max: 100, step: 1 },
    { name: "min_overlap", label: t("migration.min_overlap"), kind: "number", min: 0, max: 1, step: "any" },
    { name: "max_ndcg_loss", label: t("migration.max_loss"), kind: "number", min: 0, max: 1, step: "any" },
    { name: "queries", label: t("migration.queries"), kind: "area", hint: t("migration.queries_hint") },
  ];
  const [draft, setDraft] = useState(drafted(fields, { sample: 50, k: 10, min_overlap: 0.5, max_ndcg_loss: 0.02 }));
  const compare = useAction(async () => {
    const { queries = "", ...rest } = sent(fields, draft);
    await post(`${root}/${migration.number}/compare`, { ...rest, queries: parsed(queries) });
    announce(t("migration.done_compare"));
    again();
    close();
  });
  return html`<section class="panel" aria-label=${t("migration.compare")}>
    <p class="about">${t("migration.compare_text")}</p>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => compare.run()} error=${compare.error} busy=${compare.busy}
      submit=${t("migration.compare")} cancel=${close} />
  </section>`;
}

/** JSON lines. Raises an error for the form that names the first line that is none. */
function parsed(text) {
  return text.split("\n").flatMap((line, at) => {
    if (!line.trim()) return [];
    try {
      return [JSON.parse(line)];
    } catch {
      throw { title: t("form.no_json"), errors: [{ pointer: `/queries/${at}`, detail: t("migration.no_json_line", { line: at + 1 }) }] };
    }
  });
}
