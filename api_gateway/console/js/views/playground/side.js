// One answer with its whole trace, in tabs.
import { html, useEffect } from "../../html.js";
import { post } from "../../api.js";
import { count, milliseconds } from "../../format.js";
import { useLoad } from "../../load.js";
import { Loaded } from "../../parts/states.js";
import { Badge } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { link } from "../../router.js";
import { noteAsked } from "../../session.js";
import { t, word } from "../../words.js";
import { Answer, Context } from "./answer.js";
import { Channels, LeftOut, namesOf, Stages } from "./run.js";
import { Waterfall } from "../../parts/waterfall.js";
import { WhyNot } from "./why_not.js";

export function Side({ label, body, other, onAnswer }) {
  const found = useLoad((signal) => post("v1/rag/debug", body, { signal }), [JSON.stringify(body)]);
  useEffect(() => {
    if (!found.data) return;
    onAnswer(found.data);
    noteAsked({ query_id: found.data.query_id, text: body.query_text, namespaces: body.namespaces, at: new Date().toISOString() });
  }, [found.data]);
  return html`<section class="side-result" aria-label=${t("play.answer_of", { side: label })}>
    <h2 class="side-title"><span class=${`letter ${label}`}>${label}</span> ${described(body)}</h2>
    <${Loaded} of=${found} lines=${6}>${(answer) => html`<${Answered} answer=${answer} other=${other} />`}<//>
  </section>`;
}

/** The profile, and the settings beside it. */
function described({ profile, enable_rerank: rerank, retrieve = {} }) {
  return [
    profile,
    retrieve.method && t(`method.${retrieve.method}`),
    retrieve.fusion && t(`fusion.${retrieve.fusion.strategy}`),
    rerank !== undefined && `${t("play.rerank")}: ${rerank ? t("field.on") : t("field.off")}`,
    retrieve.time_decay && `${t("play.decay")}: ${retrieve.time_decay.half_life_days}`,
  ].filter(Boolean).join(" · ");
}

function Answered({ answer, other }) {
  const { stats, trace } = answer;
  const names = namesOf(answer);
  return html`
    <${Summary} answer=${answer} />
    <${Degradations} of=${stats.degradations} failed=${answer.status === "failed"} />
    <${Tabs} label=${t("play.parts")} tabs=${[
      { id: "answer", label: t("play.answer"), note: answer.chunks.length, panel: () => html`<${Answer} answer=${answer} other=${other} />` },
      trace && { id: "channels", label: t("play.channels"), panel: () => html`<${Channels} trace=${trace} names=${names} />` },
      trace && { id: "stages", label: t("play.stages"), panel: () => html`<${Stages} trace=${trace} names=${names} />` },
      { id: "context", label: t("play.context"), panel: () => html`<${Context} context=${answer.context} />` },
      { id: "timing", label: t("play.timing"), panel: () => html`<${Waterfall} timings=${stats.latency_ms} channels=${Object.keys(stats.hits)} />` },
      trace && { id: "left-out", label: t("play.left_out"), note: trace.drops.length, panel: () => html`<${LeftOut} trace=${trace} names=${names} queryId=${answer.query_id} />` },
      { id: "why-not", label: t("play.why_not"), panel: () => html`<${WhyNot} queryId=${answer.query_id} />` },
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
export function Degradations({ of, failed = false }) {
  if (!of?.length) return null;
  return html`<div class="note warn" role="status">
    <p><strong>${t(failed ? "play.failed" : "play.degraded")}</strong></p>
    <ul class="plain">${of.map((loss) => html`<li key=${JSON.stringify(loss)} title=${loss.detail}>
      <b>${word("channel", loss.part, word("part", loss.part))}</b> <code>${loss.code}</code> ${sentenceOf(loss)}</li>`)}
    </ul>
  </div>`;
}

/** The page's sentence for this code in this part, else for this code, else the server's text. */
function sentenceOf({ part, code, detail }) {
  return word("degradation", `${part}:${code}`, word("degradation", code, detail));
}
