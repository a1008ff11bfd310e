// One answer with its whole trace, in tabs.
import { html, useEffect } from "../../html.js";
import { post } from "../../api.js";
import { count, milliseconds } from "../../format.js";
import { useLoad } from "../../load.js";
import { Loaded } from "../../parts/states.js";
import { Badge } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { Timeline } from "../../parts/timeline.js";
import { link } from "../../router.js";
import { noteAsked } from "../../session.js";
import { reasonOf, said } from "../../sentences.js";
import { t, word } from "../../words.js";
import { Answer, Context } from "./answer.js";
import { Facets } from "./facets.js";
import { Groups } from "./groups.js";
import { Channels, LeftOut, Stages } from "./run.js";
import { RankFlow } from "./flow.js";
import { Reuse } from "./reuse.js";
import { useNames } from "./names.js";
import { WhyNot } from "./why_not.js";

/** `label`: A or B, empty for the only side. `writes`: whether a language model can write an answer. */
export function Side({ label, body, other, onAnswer, writes, profiles, onProfile, filters, onFilters }) {
  const found = useLoad((signal) => post("v1/rag/debug", { ...body, context: {}, highlight: true }, { signal }), [JSON.stringify(body)]);
  useEffect(() => {
    if (!found.data) return;
    onAnswer(found.data);
    noteAsked({ query_id: found.data.query_id, text: body.query_text, namespaces: body.namespaces, at: new Date().toISOString() });
  }, [found.data]);
  return html`<section class="side-result" aria-label=${label ? t("play.answer_of", { side: label }) : t("play.answer")}>
    <h2 class="side-title">${label && html`<span class=${`letter ${label}`}>${label}</span>`} ${described(body)}</h2>
    <${Loaded} of=${found} lines=${6}>${(answer) => html`<${Answered} key=${answer.query_id} answer=${answer} other=${other} body=${body}
      writes=${writes} profiles=${profiles} onProfile=${onProfile} filters=${filters} onFilters=${onFilters} />`}<//>
  </section>`;
}

/** The profile, and the settings beside it. */
function described({ profile, enable_rerank: rerank, retrieve = {}, filters, story_time: story }) {
  const filtered = Object.keys(filters ?? {}).length + (story === undefined ? 0 : 1);
  return [
    profile,
    retrieve.method && t(`method.${retrieve.method}`),
    retrieve.fusion && t(`fusion.${retrieve.fusion.strategy}`),
    rerank !== undefined && `${t("play.rerank")}: ${rerank ? t("field.on") : t("field.off")}`,
    retrieve.time_decay && `${t("play.decay")}: ${retrieve.time_decay.half_life_days}`,
    filtered > 0 && `${t("filter.title")}: ${filtered}`,
  ].filter(Boolean).join(" · ");
}

function Answered({ answer, other, body, writes, profiles, onProfile, filters, onFilters }) {
  const { stats, trace } = answer;
  const names = useNames(answer);
  const asked = { queryId: answer.query_id, namespaces: answer.query.namespaces };
  return html`
    <${Summary} answer=${answer} />
    <${Degradations} of=${stats.degradations} failed=${answer.status === "failed"} />
    <${Facets} of=${answer.facets} filters=${filters} onFlip=${onFilters} />
    <${Groups} answer=${answer} field=${body.group_by} filters=${filters} onFlip=${(chosen) => onFilters(chosen, "")} />
    <${Tabs} label=${t("play.parts")} tabs=${[
      { id: "answer", label: t("play.answer"), note: answer.chunks.length, panel: () => html`<${Answer} answer=${answer} other=${other} writes=${writes} />` },
      trace?.stages.length > 0 && answer.chunks.length > 0 && { id: "flow", label: t("flow.title"), panel: () => html`<${RankFlow} trace=${trace} names=${names} />` },
      trace && { id: "channels", label: t("play.channels"), panel: () => html`<${Channels} trace=${trace} names=${names} />` },
      trace && { id: "stages", label: t("play.stages"), panel: () => html`<${Stages} trace=${trace} names=${names} />` },
      { id: "context", label: t("play.context"), panel: () => html`<${Context} context=${answer.context} chunks=${answer.chunks} />` },
      trace?.timeline?.length > 0 && { id: "timing", label: t("play.timing"), panel: () => html`<${Timeline} spans=${trace.timeline} total=${trace.timings_ms.total} />` },
      trace && { id: "left-out", label: t("play.left_out"), note: trace.drops.length, panel: () => html`<${LeftOut} trace=${trace} names=${names} asked=${asked} />` },
      { id: "why-not", label: t("play.why_not"), panel: () => html`<${WhyNot} ...${asked} />` },
      { id: "reuse", label: t("reuse.title"), panel: () => html`<${Reuse} body=${body} profiles=${profiles} onProfile=${onProfile} />` },
    ].filter(Boolean)} />`;
}

function Summary({ answer }) {
  const { stats } = answer;
  return html`<p class="summary">
    <${StatusOf} status=${answer.status} degraded=${stats.degraded} />
    <b class="number">${milliseconds(stats.latency_ms.total)}</b>
    ${Object.entries(stats.hits).map(([channel, hits]) => html`
      <span key=${channel}><i class=${`dot ${channel}`}></i>${word("channel", channel)} <b class="number">${count(hits)}</b></span>`)}
    ${stats.cached && html`<span>${t("play.cached")}</span>`}
    <span>${t("play.version", { version: stats.config_version })}</span>
    <a href=${link("traces", answer.query_id)} title=${answer.query_id}>${t("play.trace")}</a>
  </p>`;
}

/** The status of a query: a failed one is not merely degraded. */
export function StatusOf({ status, degraded }) {
  const name = status === "succeeded" && degraded ? "degraded" : status;
  return html`<${Badge} of=${name} label=${word("status", name)} />`;
}

/** Every degradation: its part, its code and a sentence. The server's text, in English, has the details. */
export function Degradations({ of, failed = false, title = t(failed ? "play.failed" : "play.degraded") }) {
  if (!of?.length) return null;
  return html`<div class="note warn" role="status">
    <p><strong>${title}</strong></p>
    <ul class="plain">${of.map((loss) => html`<li key=${JSON.stringify(loss)} title=${said(loss.detail)}>
      <b>${word("channel", loss.part, word("part", loss.part))}</b> <code>${loss.code}</code> ${sentenceOf(loss)}</li>`)}
    </ul>
  </div>`;
}

/** The page's sentence for this code in this part, else for this code, else the server's text. */
function sentenceOf({ part, code, detail }) {
  return word("degradation", `${part}:${code}`, word("degradation", code, reasonOf({ code, detail })));
}
