// Explain a missing chunk: the first stage that lost it, and the number that decided.
import { html, useEffect, useState } from "../../html.js";
import { post, segment } from "../../api.js";
import { score } from "../../format.js";
import { useAction } from "../../load.js";
import { Text } from "../../parts/fields.js";
import { Problem, Waiting } from "../../parts/states.js";
import { Badge, Facts } from "../../parts/table.js";
import { t, word } from "../../words.js";

export function WhyNot({ queryId, first = "" }) {
  const [chunkId, setChunkId] = useState(first);
  const [found, setFound] = useState(null);
  const ask = useAction(async (id) => {
    setFound(null);
    setFound(await post(`v1/queries/${segment(queryId)}/why-not`, { chunk_id: id.trim() }));
  });
  useEffect(() => { if (first) ask.run(first); }, []);

  function submit(event) {
    event.preventDefault();
    if (chunkId.trim()) ask.run(chunkId);
  }

  return html`<div class="why-not">
    <form class="ask" onSubmit=${submit}>
      <${Text} label=${t("why.chunk_id")} value=${chunkId} onInput=${setChunkId} class="grow" spellcheck=${false} hint=${t("why.hint")} />
      <button disabled=${!chunkId.trim() || ask.busy} aria-busy=${ask.busy}>${t("why.ask")}</button>
    </form>
    ${ask.busy && html`<${Waiting} lines=${2} />`}
    ${ask.error && html`<${Problem} error=${ask.error} />`}
    ${found && html`<div class="panel tight" role="status">
      <p><${Badge} of=${found.stage} tone=${found.stage === "returned" ? "good" : "warn"} label=${word("run", found.stage)} /> ${found.detail}</p>
      <${Facts} of=${[
        found.document_id && [t("field.document"), found.document_id],
        [t("dead.reason"), html`<code>${found.reason}</code>`],
        found.value != null && [t("why.value"), score(found.value, 4)],
        found.limit != null && [t("why.limit"), score(found.limit, 4)],
      ]} />
      ${Object.entries(found.channels ?? {}).map(([channel, seen]) => html`<p key=${channel} class="meta">
        <i class=${`dot ${channel}`}></i><b>${word("channel", channel)}</b>
        ${Object.entries(seen).filter(([, value]) => value !== null).map(([name, value]) => html`
          <span key=${name}>${name.replaceAll("_", " ")} <span class="number">${typeof value === "number" ? score(value, Number.isInteger(value) ? 0 : 4) : String(value)}</span></span>`)}
      </p>`)}
      ${found.replayed && html`<p class="hint">${t("why.replayed")}</p>`}
    </div>`}
  </div>`;
}
