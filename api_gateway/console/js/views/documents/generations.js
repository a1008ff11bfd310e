// The generations of a document: go back to a retained one, or download what was uploaded then.
import { html, useState } from "../../html.js";
import { post, segment, send } from "../../api.js";
import { download } from "../../download.js";
import { ago, bytes, count, moment } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { go } from "../../router.js";
import { may } from "../../session.js";
import { t, word } from "../../words.js";

export function Generations({ path, namespace }) {
  const [back, setBack] = useState(null);
  const found = useLoad(async (signal) => {
    const { body, headers } = await send("GET", `${path}/generations?namespace=${segment(namespace)}`, { signal });
    return { ...body, etag: headers.get("ETag") ?? body.etag };
  }, [path, namespace]);
  const rollback = useAction(async (generation) => {
    const accepted = await post(`${path}/rollback`, { namespace, generation }, { headers: { "If-Match": found.data.etag } });
    announce(t("document.rolling_back"));
    go("jobs", accepted.job_id);
  });
  const load = useAction((generation) => download(`${path}/original?namespace=${segment(namespace)}&generation=${generation}`));
  const columns = [
    { key: "number", label: t("field.generation"), main: true, render: (each) => `${each.generation}` },
    { key: "state", label: t("field.status"), render: (each) => html`<${Badge} of=${each.state} label=${word("generation", each.state)} />` },
    { key: "title", label: t("field.title"), render: (each) => each.title ?? "–" },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "size", label: t("field.size"), numeric: true, render: (each) => bytes(each.bytes) },
    { key: "created", label: t("field.created"), render: (each) => html`<time title=${moment(each.created_at)}>${ago(each.created_at)}</time>` },
    { key: "kept", label: t("document.kept_until"), render: (each) => (each.kept_until ? moment(each.kept_until) : "–") },
    { key: "do", label: t("field.actions"), actions: true, render: (each) => html`
      <button class="quiet" onClick=${() => load.run(each.generation)} aria-label=${`${t("document.download")}: ${each.generation}`}>${t("document.download")}</button>
      ${may("write") && each.state === "previous" && html`
        <button onClick=${() => setBack(each)} aria-label=${`${t("document.rollback")}: ${each.generation}`}>${t("document.rollback")}</button>`}` },
  ];
  return html`
    ${load.error && html`<${Problem} error=${load.error} />`}
    <p class="about">${t("document.generations_about")}</p>
    <${Loaded} of=${found} isEmpty=${(data) => !data.data.length} empty=${html`<${Empty} title=${t("document.no_generations")} />`}>
      ${(data) => html`<${Table} caption=${t("document.generations")} columns=${columns} rows=${data.data} rowKey=${(each) => each.generation} />`}
    <//>
    ${back && html`<${Confirm} title=${t("document.rollback_title", { number: back.generation })} confirm=${t("document.rollback")}
      action=${rollback} args=${[back.generation]} danger=${false} close=${() => setBack(null)}><p>${t("document.rollback_text")}</p><//>`}`;
}
