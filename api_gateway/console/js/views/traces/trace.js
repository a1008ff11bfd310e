// One run of a query: timing, stages, channels, and a replay with another plan beside it.
import { html, useState } from "../../html.js";
import { ApiError, get, post, segment } from "../../api.js";
import { percent, score, short } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Area } from "../../parts/fields.js";
import { Copyable, Empty, Loaded, Problem } from "../../parts/states.js";
import { Facts } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { Timeline } from "../../parts/timeline.js";
import { link } from "../../router.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { useNames, useWanted } from "../playground/names.js";
import { Channels, LeftOut, Stages } from "../playground/run.js";
import { Degradations } from "../playground/side.js";
import { WhyNot } from "../playground/why_not.js";

export function Trace({ parts: [id] }) {
  const found = useLoad((signal) => get(`v1/queries/${segment(id)}/trace`, { signal }), [id]);
  const untraced = found.error?.code === "trace_not_kept";
  return html`
    <${Heading} title=${t("trace.title", { id: short(id) })} back=${[link("traces"), t("nav.traces")]} />
    ${untraced
      ? html`<${Untraced} id=${id} />`
      : html`<${Loaded} of=${found} lines=${6} isEmpty=${() => false}>${(trace) => html`<${Run} trace=${trace} />`}<//>`}`;
}

/** A query without a trace: running it again makes one, and explains a single chunk. */
function Untraced({ id }) {
  return html`
    <${Empty} title=${t("trace.not_kept")}>${t("trace.untraced")}<//>
    <section class="panel" aria-labelledby="replay"><h2 id="replay">${t("trace.replay")}</h2><${Replay} queryId=${id} first="{}" /></section>
    <section class="panel" aria-labelledby="why"><h2 id="why">${t("play.why_not")}</h2><${WhyNot} queryId=${id} /></section>`;
}

function Run({ trace }) {
  const names = useNames({});
  const asked = { queryId: trace.query_id, namespaces: trace.query.namespaces };
  return html`
    <section class="panel">
      <p class="question">${trace.query.text}</p>
      <${Facts} of=${[
        [t("play.namespaces"), trace.query.namespaces.join(", ")],
        [t("play.profile"), `${trace.profile} · ${t("play.version", { version: trace.config_version })}`],
        [t("trace.id"), html`<${Copyable} text=${trace.query_id} shown=${short(trace.query_id)} />`],
        [t("error.request_id"), html`<${Copyable} text=${trace.request_id} shown=${short(trace.request_id)} />`],
        trace.experiment_bucket && [t("trace.arm"), `${trace.experiment_id}: ${trace.experiment_bucket}`],
        trace.query.understood?.rewritten && [t("trace.rewritten"), trace.query.understood.rewritten],
        trace.query.understood?.keywords?.length > 0 && [t("trace.keywords"), trace.query.understood.keywords.join(", ")],
      ]} />
      <${Degradations} of=${trace.degradations} />
      ${trace.timeline?.length > 0 && html`<h2>${t("play.timing")}</h2><${Timeline} spans=${trace.timeline} total=${trace.timings_ms.total} />`}
    </section>
    <${Tabs} label=${t("play.parts")} tabs=${[
      { id: "stages", label: t("play.stages"), panel: () => html`<${Stages} trace=${trace} names=${names} />` },
      { id: "channels", label: t("play.channels"), panel: () => html`<${Channels} trace=${trace} names=${names} />` },
      { id: "explained", label: t("trace.explained"), panel: () => html`<ol class="plain lines">${trace.explained.map((each) => html`<li key=${each}>${each}</li>`)}</ol>` },
      { id: "left-out", label: t("play.left_out"), note: trace.drops.length, panel: () => html`<${LeftOut} trace=${trace} names=${names} asked=${asked} />` },
      { id: "why-not", label: t("play.why_not"), panel: () => html`<${WhyNot} ...${asked} />` },
      { id: "replay", label: t("trace.replay"), panel: () => html`<${Replay} queryId=${trace.query_id} />` },
      { id: "plan", label: t("trace.plan"), panel: () => html`<pre class="context" tabindex="0">${JSON.stringify(trace.plan, null, 2)}</pre>` },
    ]} />`;
}

const EXAMPLE = '{\n  "retrieve": { "fusion": { "strategy": "rrf" } }\n}';

function Replay({ queryId, first = EXAMPLE }) {
  const names = useNames({});
  const [plan, setPlan] = useState(first);
  const [found, setFound] = useState(null);
  const run = useAction(async () => {
    let wanted;
    try {
      wanted = JSON.parse(plan);
    } catch (error) {
      throw new ApiError({ title: t("trace.not_json"), detail: error.message });
    }
    if (!wanted || typeof wanted !== "object" || Array.isArray(wanted)) throw new ApiError({ title: t("trace.no_object") });
    setFound(await post(`v1/queries/${segment(queryId)}/replay`, { plan: wanted }));
  });
  const name = (each) => names.title(each.chunk_id);
  useWanted(names, ["moved", "added", "removed"].flatMap((kind) => found?.difference[kind].map((each) => each.chunk_id) ?? []));
  return html`
    <p class="about">${t("trace.replay_about")}</p>
    <form onSubmit=${(event) => { event.preventDefault(); run.run(); }}>
      <${Area} label=${t("trace.plan_part")} rows="5" value=${plan} onInput=${setPlan} spellcheck=${false} />
      <div class="buttons"><button class="primary" disabled=${run.busy} aria-busy=${run.busy}>${t("trace.replay")}</button></div>
    </form>
    ${run.error && html`<${Problem} error=${run.error} />`}
    ${found && html`<div role="status">
      <p class="summary"><b>${found.difference.same_order ? t("trace.same_order") : t("trace.other_order")}</b>
        <span>${t("trace.overlap", { share: percent(found.difference.overlap) })}</span>
        <a href=${link("traces", found.query_id)}>${t("play.trace")} <code>${short(found.query_id)}</code></a></p>
      <ul class="plain lines">
        ${found.difference.plan.map((each) => html`<li key=${JSON.stringify(each)}><code>${each.pointer}</code>
          ${show(each.before)} → ${show(each.after)}</li>`)}
        ${found.difference.moved.map((each) => html`<li key=${each.chunk_id}>${t("trace.moved", { name: name(each), from: each.from, to: each.to })}</li>`)}
        ${found.difference.added.map((each) => html`<li key=${each.chunk_id}>+ ${name(each)} <span class="number muted">${score(each.score)}</span></li>`)}
        ${found.difference.removed.map((each) => html`<li key=${each.chunk_id}>− ${name(each)} <span class="number muted">${score(each.score)}</span></li>`)}
      </ul>
    </div>`}`;
}

const show = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
