// Namespaces with their counts and sizes; deleting one needs its name typed.
import { html, useState } from "../../html.js";
import { remove, segment } from "../../api.js";
import { ago, bytes, count, moment } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { Text, useSettled } from "../../parts/fields.js";
import { Name } from "../../parts/name.js";
import { announce } from "../../parts/notices.js";
import { Samples } from "../../parts/samples.js";
import { Empty, Loaded } from "../../parts/states.js";
import { More, Table } from "../../parts/table.js";
import { link, linkWith } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

export function Namespaces() {
  const [text, setText] = useState("");
  const contains = useSettled(text.trim());
  const namespaces = usePages("v1/namespaces", { contains, sizes: "true" });
  const [removing, setRemoving] = useState(null);
  const [typed, setTyped] = useState("");

  const drop = useAction(async (name) => {
    const deleted = await remove(`v1/namespaces/${segment(name)}`);
    announce(t("spaces.removed", { name, count: count(deleted.documents) }));
    namespaces.reload();
  });
  const ask = (each) => { setTyped(""); drop.clear(); setRemoving(each); };

  const columns = [
    { key: "name", label: t("field.namespace"), main: true, render: (each) => html`
      <a class="title" href=${link("documents", each.namespace)}><${Name} text=${each.namespace} /></a>` },
    { key: "documents", label: t("nav.documents"), numeric: true, render: (each) => count(each.documents) },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "size", label: t("field.size"), numeric: true, render: (each) => bytes(each.bytes) },
    { key: "changed", label: t("spaces.revised"), render: (each) => html`<time title=${moment(each.revised_at)}>${ago(each.revised_at)}</time>` },
    { key: "do", label: t("field.actions"), actions: true, render: (each) => html`
      <a class="button small" href=${link("namespaces", each.namespace)} aria-label=${`${t("duplicates.link")}: ${each.namespace}`}>${t("duplicates.link")}</a>
      ${may("write") && html`<a class="button small" href=${linkWith(["upload"], { namespace: each.namespace })} aria-label=${`${t("nav.upload")}: ${each.namespace}`}>${t("nav.upload")}</a>
      <button class="quiet danger-text" onClick=${() => ask(each)} aria-label=${`${t("documents.remove")}: ${each.namespace}`}>${t("documents.remove")}</button>`}` },
  ];

  return html`
    <${Heading} title=${t("nav.namespaces")} about=${t("spaces.about")}>
      <a class="button primary" href=${link("upload")}>${t("nav.upload")}</a>
    <//>
    <div class="fields filters" role="search">
      <${Text} label=${t("spaces.search")} type="search" maxlength="64" value=${text} onInput=${setText} />
    </div>
    <${Loaded} of=${namespaces} empty=${contains
      ? html`<${Empty} title=${t("spaces.none_fit")} />`
      : html`<${Empty} title=${t("spaces.empty")}><a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a><${Samples} /><//>`}>
      ${(data) => html`<${Table} caption=${t("nav.namespaces")} columns=${columns} rows=${data.rows} rowKey=${(each) => each.namespace} />
        <${More} pages=${namespaces} />`}
    <//>
    ${removing && html`<${Confirm} title=${t("spaces.remove_title", { name: removing.namespace })} confirm=${t("documents.remove")} action=${drop}
      args=${[removing.namespace]} ready=${typed === removing.namespace} close=${() => setRemoving(null)}>
      <p>${t("spaces.remove_text", { documents: count(removing.documents), chunks: count(removing.chunks) })}</p>
      <${Text} label=${t("spaces.type_name", { name: removing.namespace })} value=${typed} onInput=${setTyped} spellcheck=${false} /><//>`}`;
}
