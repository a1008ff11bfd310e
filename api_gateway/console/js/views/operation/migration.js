// Moving the installation to another embedding model, step by step.
import { html, useRef, useState } from "../../html.js";
import { get, post } from "../../api.js";
import { moment } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { Comparison, Progressing, Steer } from "./migration_steps.js";

const ROOT = "v1/admin/embedding-migrations";
const ENDED = ["finished", "aborted"];
const TONES = { ready: "good", switched: "good", finished: "good", aborted: "plain", aborting: "warn" };
const EVERY_MS = 3000;

export function Migration() {
  const loaded = useLoad((signal) => get(ROOT, { signal }).then((page) => page.data), [], { everyMs: EVERY_MS });
  return html`
    <${Heading} title=${t("nav.migration")} about=${t("migration.about")} />
    <${Loaded} of=${loaded} isEmpty=${() => false}>${(migrations) => {
      const open = migrations.find((each) => !ENDED.includes(each.state));
      return html`
        ${open ? html`<${Open} key=${open.number} migration=${open} readAt=${loaded.readAt} again=${loaded.reload} />` : html`<${Start} again=${loaded.reload} />`}
        <${History} migrations=${migrations.filter((each) => each !== open)} />`;
    }}<//>`;
}

const StateBadge = ({ of }) => html`<${Badge} label=${t(`migration.state_${of}`)} tone=${TONES[of] ?? "busy"} />`;

function Open({ migration, readAt, again }) {
  const seen = useRef([]); // [time, chunks] of the last minute
  const { chunks } = migration.progress;
  const last = seen.current.at(-1);
  if (!last || last[0] !== readAt) {
    if (last && chunks < last[1]) seen.current = []; // the next pass begins at 0
    seen.current = [...seen.current.filter(([at]) => readAt - at < 60_000), [readAt, chunks]];
  }
  const [begun, before] = seen.current[0];
  const rate = readAt > begun ? (1000 * (chunks - before)) / (readAt - begun) : null;
  return html`
    <section class="panel" aria-labelledby="open-migration">
      <div class="row between">
        <div class="row"><h2 id="open-migration">${t("migration.to", { model: migration.model, dimension: migration.dimension })}</h2><${StateBadge} of=${migration.state} /></div>
        <span class="muted">${migration.active ? t("migration.searches_new") : t("migration.searches_old")}</span>
      </div>
      <p>${t(`migration.about_${migration.state}`)}</p>
      <${Progressing} migration=${migration} rate=${rate} />
      <${Steer} root=${ROOT} migration=${migration} again=${again} />
    </section>
    ${migration.comparison && html`<${Comparison} of=${migration.comparison} />`}`;
}

function Start({ again }) {
  const fields = [
    { name: "provider", label: t("migration.provider"), kind: "choice", options: ["openai", "local"].map((name) => [name, t(`migration.provider_${name}`)]) },
    { name: "model", label: t("migration.model"), required: true, maxlength: 255, spellcheck: false },
    { name: "dimension", label: t("migration.dimension"), kind: "number", required: true, min: 1, max: 4000, step: 1 },
    { name: "service", label: t("migration.service"), kind: "choice", hint: t("migration.service_hint"),
      options: ["default", "next"].map((name) => [name, t(`migration.service_${name}`)]) },
  ];
  const [draft, setDraft] = useState(drafted(fields));
  const [asking, setAsking] = useState(false);
  const start = useAction(async () => {
    await post(ROOT, sent(fields, draft));
    announce(t("migration.started"));
    again();
  });
  return html`<section class="panel" aria-labelledby="start-migration">
    <h2 id="start-migration">${t("migration.start")}</h2>
    <p class="about">${t("migration.start_about")}</p>
    <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => { start.clear(); setAsking(true); }} error=${asking ? null : start.error}
      busy=${start.busy} submit=${t("migration.start_do")} />
    ${asking && html`<${Confirm} title=${t("migration.start_title", { model: draft.model })} confirm=${t("migration.start_do")} action=${start} danger=${false}
      close=${() => setAsking(false)}><p>${t("migration.start_text")}</p><//>`}
  </section>`;
}

function History({ migrations }) {
  const columns = [
    { key: "model", label: t("migration.model"), main: true, render: (each) => html`<span class="title">${each.model}</span> <span class="muted">${each.dimension}</span>` },
    { key: "state", label: t("field.status"), render: (each) => html`<${StateBadge} of=${each.state} />` },
    { key: "created", label: t("field.created"), render: (each) => moment(each.created_at) },
    { key: "switched", label: t("migration.switched_at"), render: (each) => moment(each.switched_at) },
    { key: "ended", label: t("migration.ended_at"), render: (each) => moment(each.ended_at) },
  ];
  return html`<section aria-labelledby="past-migrations">
    <h2 id="past-migrations">${t("migration.past")}</h2>
    ${migrations.length ? html`<${Table} caption=${t("migration.past")} columns=${columns} rows=${migrations} rowKey=${(each) => each.number} />`
      : html`<${Empty} title=${t("migration.none")} />`}
  </section>`;
}
