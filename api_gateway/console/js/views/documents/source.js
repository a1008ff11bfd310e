// One source: how it is followed, what its latest run did, and what waits for a confirmation.
import { html, useState } from "../../html.js";
import { get, post, query, remove, segment } from "../../api.js";
import { ago, count, duration, moment, short } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { announce } from "../../parts/notices.js";
import { Loaded, Problem } from "../../parts/states.js";
import { Badge, Facts, Table } from "../../parts/table.js";
import { go, link } from "../../router.js";
import { said } from "../../sentences.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { State } from "./sources.js";

const COUNTS = ["listed", "added", "changed", "removed", "unchanged", "skipped"];
const TONES = { added: "good", changed: "busy", removed: "warn", skipped: "plain" };

export function Source({ parts: [namespace, id] }) {
  const path = `v1/sources/${segment(id)}`;
  const within = query({ namespace });
  const source = useLoad((signal) => get(`${path}${within}`, { signal }), [path, within], { everyMs: 5000 });
  return html`
    <${Heading} title=${t("followed.one")} back=${[link("sources"), t("nav.sources")]} />
    <${Loaded} of=${source} lines=${4}>${(data) => html`
      <${About} source=${data} path=${path} within=${within} again=${source.reload} />
      ${data.followed?.run && html`<${Run} run=${data.followed.run} />`}`}
    <//>`;
}

function About({ source, path, within, again }) {
  const [asking, setAsking] = useState("");
  const { followed } = source;
  const steer = useAction(async (what) => {
    await post(`${path}/${what}${within}`);
    announce(t(`followed.done_${what}`));
    setAsking("");
    again();
  });
  const drop = useAction(async () => {
    await remove(`${path}${within}`);
    announce(t("followed.removed"));
    go("sources");
  });
  const time = (at) => html`<time title=${moment(at)}>${ago(at)}</time>`;
  const held = followed?.held_removals;
  return html`<section class="panel">
    <div class="row between">
      <${State} followed=${followed} />
      ${may("write") && html`<div class="buttons">
        ${held && html`<button class="primary" onClick=${() => setAsking("confirm")}>${t("followed.confirm")}</button>`}
        ${followed && html`<button disabled=${steer.busy} onClick=${() => steer.run("run")}>${t("followed.run")}</button>
          <button disabled=${steer.busy} onClick=${() => steer.run(followed.next_run_at ? "pause" : "resume")}>${followed.next_run_at ? t("followed.pause") : t("followed.resume")}</button>`}
        <button class="danger-text" onClick=${() => setAsking("remove")}>${t("followed.remove")}</button>
      </div>`}
    </div>
    ${steer.error && html`<${Problem} error=${steer.error} />`}
    ${held && html`<p role="status">${t("followed.held", { count: held })}</p>`}
    <${Facts} of=${[
      ["URL", followed?.url ?? source.uri ?? "–"],
      [t("field.namespace"), source.namespace],
      [t("nav.documents"), html`<a href=${link("documents", source.namespace)}>${count(source.documents)}</a>`],
      followed && [t("followed.every"), duration(followed.every_seconds)],
      followed && [t("followed.next"), followed.next_run_at ? moment(followed.next_run_at) : t("followed.state_paused")],
      followed?.job_id && [t("followed.job"), html`<a href=${link("jobs", followed.job_id)}><code>${short(followed.job_id)}</code></a>`],
      followed && [t("followed.secret"), followed.has_secret ? t("followed.stored") : t("followed.none")],
      followed?.rules.length && [t("followed.rules"), html`<code class="value">${JSON.stringify(followed.rules)}</code>`],
    ]} />
    ${asking === "confirm" && html`<${Confirm} title=${t("followed.confirm_title")} confirm=${t("followed.confirm")} action=${steer} args=${["confirm"]}
      close=${() => setAsking("")}><p>${t("followed.confirm_text", { count: held })}</p><//>`}
    ${asking === "remove" && html`<${Confirm} title=${t("followed.remove_title")} confirm=${t("followed.remove")} action=${drop}
      close=${() => setAsking("")}><p>${t("followed.remove_text", { count: source.documents })}</p><//>`}
  </section>`;
}

function Run({ run }) {
  const columns = [
    { key: "action", label: t("followed.action"), render: (each) => html`<${Badge} label=${t(`followed.did_${each.action}`)} tone=${TONES[each.action]} />` },
    { key: "path", label: t("followed.path"), main: true, render: (each) => html`<code>${each.path}</code>` },
    { key: "reason", label: t("followed.reason"), wide: true, render: (each) => said(each.reason) },
  ];
  return html`<section class="panel" aria-label=${t("followed.latest")}>
    <h2>${t("followed.latest")}</h2>
    ${run.error && html`<p class="fault">${said(run.error)}</p>`}
    <${Facts} of=${[[t("followed.ended"), moment(run.ended_at)], ...COUNTS.map((name) => [t(`followed.did_${name}`), count(run[name])])]} />
    ${run.changes.length > 0 && html`<${Table} caption=${t("followed.changes")} columns=${columns} rows=${run.changes} rowKey=${(each) => `${each.action} ${each.path}`} />`}
  </section>`;
}
