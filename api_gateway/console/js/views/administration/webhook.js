// One endpoint: test, secret, and the messages that were sent to it.
import { html, useState } from "../../html.js";
import { get, post, remove, segment } from "../../api.js";
import { ago, count, moment, short } from "../../format.js";
import { useAction, useLoad, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Choice, Segments } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Secret } from "../../parts/secret.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, Facts, More, Table } from "../../parts/table.js";
import { go, link } from "../../router.js";
import { said } from "../../sentences.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { eventName, HookBadge } from "./webhooks.js";

const STATES = ["", "pending", "delivered", "dead"];
const TONES = { pending: "busy", delivered: "good", dead: "bad" };
const OVERLAPS = [0, 3600, 86_400, 604_800];

export function Webhook({ parts: [id] }) {
  const path = `v1/webhooks/${segment(id)}`;
  const hook = useLoad((signal) => get(path, { signal }), [path], { everyMs: 15_000 });
  return html`
    <${Heading} title=${t("webhooks.one")} back=${[link("webhooks"), t("nav.webhooks")]} />
    <${Loaded} of=${hook} lines=${4}>${(data) => html`
      <${Endpoint} hook=${data} path=${path} again=${hook.reload} />
      <${Deliveries} path=${`${path}/deliveries`} />`}
    <//>`;
}

function Endpoint({ hook, path, again }) {
  const [asking, setAsking] = useState("");
  const [secret, setSecret] = useState(null);
  const [overlap, setOverlap] = useState("86400");
  const steer = useAction(async (what) => {
    await post(`${path}/${what}`);
    announce(t(`webhooks.done_${what}`));
    again();
  });
  const rotate = useAction(async () => {
    setSecret((await post(`${path}/rotate`, { overlap_seconds: Number(overlap) })).secret);
    again();
  });
  const drop = useAction(async () => {
    await remove(path);
    announce(t("webhooks.removed"));
    go("webhooks");
  });
  const time = (at) => html`<time title=${moment(at)}>${ago(at)}</time>`;
  return html`
    ${secret && html`<${Secret} title=${t("webhooks.secret", { url: hook.url })} value=${secret} close=${() => setSecret(null)} />`}
    <section class="panel">
      <div class="row between">
        <${HookBadge} hook=${hook} />
        <div class="buttons">
          ${hook.disabled_at
            ? html`<button class="primary" disabled=${steer.busy} onClick=${() => steer.run("enable")}>${t("webhooks.enable")}</button>`
            : html`<button disabled=${steer.busy} onClick=${() => steer.run("disable")}>${t("webhooks.disable")}</button>`}
          <button disabled=${steer.busy} onClick=${() => steer.run("test")}>${t("webhooks.test")}</button>
          <button onClick=${() => setAsking("rotate")}>${t("webhooks.rotate")}</button>
          <button class="danger-text" onClick=${() => setAsking("remove")}>${t("webhooks.remove")}</button>
        </div>
      </div>
      ${steer.error && html`<${Problem} error=${steer.error} />`}
      <${Facts} of=${[
        [t("webhooks.url"), hook.url],
        [t("webhooks.events"), hook.events.map(eventName).join(", ")],
        [t("field.created"), time(hook.created_at)],
        [t("webhooks.delivered_at"), time(hook.delivered_at)],
        hook.failing_since && [t("webhooks.failing_since"), time(hook.failing_since)],
        hook.disabled_at && [t("webhooks.disabled_at"), time(hook.disabled_at)],
        hook.previous_secret_until && [t("webhooks.previous_until"), moment(hook.previous_secret_until)],
      ]} />
    </section>
    ${asking === "rotate" && html`<${Confirm} title=${t("webhooks.rotate_title")} confirm=${t("webhooks.rotate")} action=${rotate} danger=${false}
      close=${() => setAsking("")}><p>${t("webhooks.rotate_text")}</p>
      <${Choice} label=${t("webhooks.overlap")} value=${overlap} onInput=${setOverlap} options=${OVERLAPS.map((seconds) => [String(seconds), t(`keys.overlap_${seconds}`)])} /><//>`}
    ${asking === "remove" && html`<${Confirm} title=${t("webhooks.remove_title")} confirm=${t("webhooks.remove")} action=${drop}
      close=${() => setAsking("")}><p>${t("webhooks.remove_text")}</p><//>`}`;
}

function Deliveries({ path }) {
  const [state, setState] = useState("");
  const [open, setOpen] = useState(null);
  const deliveries = usePages(path, { state }, { everyMs: 3000 });
  const again = useAction(async (delivery) => {
    await post(`${path}/${segment(delivery.delivery_id)}/redeliver`);
    announce(t("webhooks.redelivered"));
    deliveries.reload();
  });
  const columns = [
    { key: "event", label: t("webhooks.event"), main: true, render: (each) => html`${eventName(each.event)} <code class="under" title=${each.delivery_id}>${each.delivery_id.slice(0, 12)}</code>` },
    { key: "state", label: t("field.status"), render: (each) => html`<${Badge} label=${t(`webhooks.delivery_${each.state}`)} tone=${TONES[each.state]} />` },
    { key: "attempts", label: t("field.attempts"), numeric: true, render: (each) => count(each.attempts) },
    { key: "last", label: t("webhooks.outcome"), wide: true, render: (each) => html`<span>${each.last_status ? html`<code>HTTP ${each.last_status}</code> ` : ""}${said(each.last_error) || (each.last_status ? "" : "–")}</span>` },
    { key: "next", label: t("webhooks.next"), render: (each) => (each.state === "pending" && each.next_attempt_at ? moment(each.next_attempt_at) : "–") },
    { key: "created", label: t("field.created"), render: (each) => html`<time title=${moment(each.created_at)}>${ago(each.created_at)}</time>` },
    { key: "job", label: t("jobs.job"), render: (each) => (each.job_id ? html`<a href=${link("jobs", each.job_id)}><code>${short(each.job_id)}</code></a>` : "–") },
    { key: "do", label: t("field.actions"), actions: true, render: (each) => html`
      <button aria-expanded=${open === each.delivery_id} aria-label=${`${t("webhooks.body")}: ${each.delivery_id}`}
        onClick=${() => setOpen(open === each.delivery_id ? null : each.delivery_id)}>${t("webhooks.body")}</button>
      ${each.state !== "pending" && html`<button disabled=${again.busy} aria-label=${`${t("webhooks.redeliver")}: ${each.delivery_id}`}
        onClick=${() => again.run(each)}>${t("webhooks.redeliver")}</button>`}` },
  ];
  return html`<section aria-labelledby="deliveries">
    <div class="row between">
      <h2 id="deliveries">${t("webhooks.deliveries")}</h2>
      <${Segments} label=${t("field.status")} value=${state} onInput=${setState} options=${STATES.map((each) => [each, each ? t(`webhooks.delivery_${each}`) : t("field.all")])} />
    </div>
    ${again.error && html`<${Problem} error=${again.error} />`}
    ${open && html`<${Body} key=${open} path=${`${path}/${segment(open)}`} id=${open} />`}
    <${Loaded} of=${deliveries} empty=${html`<${Empty} title=${t("webhooks.none_sent")}><p>${t("webhooks.none_sent_text")}</p><//>`}>
      ${(data) => html`<${Table} caption=${t("webhooks.deliveries")} columns=${columns} rows=${data.rows} rowKey=${(each) => each.delivery_id} /><${More} pages=${deliveries} />`}
    <//>
  </section>`;
}

function Body({ path, id }) {
  const delivery = useLoad((signal) => get(path, { signal }), [path]);
  return html`<div class="panel tight"><h3>${t("webhooks.body_of", { id: id.slice(0, 12) })}</h3>
    <${Loaded} of=${delivery} lines=${2}>${({ body }) => html`<pre class="context">${pretty(body)}</pre>`}<//></div>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
