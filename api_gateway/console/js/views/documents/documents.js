// The documents of a namespace, or of all: search, filters and order on the server, actions on many at once.
import { html, useEffect, useState } from "../../html.js";
import { ago, bytes, count, moment } from "../../format.js";
import { usePages } from "../../load.js";
import { Check, Choice, Text, useNamespaces, useSettled } from "../../parts/fields.js";
import { DocumentName, Name } from "../../parts/name.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { Samples } from "../../parts/samples.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { go, link, linkWith, route } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { useStore } from "../../store.js";
import { t, word } from "../../words.js";
import { Selection } from "./selection.js";

const STATUSES = ["", "succeeded", "queued", "running", "failed", "cancelled"];
const ORDERS = ["document_id", "title", "-updated_at", "updated_at"];
const keyOf = (each) => JSON.stringify([each.namespace, each.document_id]);

/** The filters stand in the address, so that a link or the way back leads to the same list. */
export function Documents({ parts: [namespace = ""] }) {
  const { query } = useStore(route);
  const namespaces = useNamespaces();
  const [text, setText] = useState(query.get("contains") ?? "");
  const [tag, setTag] = useState(query.get("tag") ?? "");
  const settled = useSettled(`${text.trim()}\n${tag.trim()}`);
  const given = { status: query.get("status") ?? "", order: query.get("order") ?? "", copies: query.get("copies") ?? "" };
  const [contains, tagged] = settled.split("\n");
  const [chosen, setChosen] = useState(new Map());
  const [removing, setRemoving] = useState(null);

  const show = (changes) => {
    location.replace(linkWith(namespace ? ["documents", namespace] : ["documents"], { ...given, contains, tag: tagged, ...changes }));
  };
  useEffect(() => { show({}); }, [settled]);
  useEffect(() => setChosen(new Map()), [namespace]);

  const documents = usePages("v1/documents", {
    namespace, contains, status: given.status, order_by: given.order, duplicates: given.copies && "true",
    filters: tagged && JSON.stringify({ tags: [tagged] }),
  });
  const rows = documents.data?.rows ?? [];
  const all = rows.length > 0 && rows.every((each) => chosen.has(keyOf(each)));
  const pick = (list, on) => {
    const next = new Map(chosen);
    for (const each of list) on ? next.set(keyOf(each), each) : next.delete(keyOf(each));
    setChosen(next);
  };
  const again = () => { setChosen(new Map()); documents.reload(); namespaces.reload(); };

  const box = (checked, label, onInput) => html`<label class="check"><input type="checkbox" checked=${checked}
    onChange=${(event) => onInput(event.target.checked)} /><span class="visually-hidden">${label}</span></label>`;
  const columns = [
    may("write") && { key: "pick", label: t("documents.select"), head: box(all, t("documents.select_all"), (on) => pick(rows, on)),
      render: (each) => box(chosen.has(keyOf(each)), `${t("documents.select")}: ${each.document_id}`, (on) => pick([each], on)) },
    { key: "document", label: t("field.document"), main: true, render: (each) => html`
      <${DocumentName} of=${each} shown=${(name) => html`<a class="title" href=${link("documents", each.namespace, each.document_id)}>${name}</a>`} />
      ${each.duplicate_of && html`<span class="under">${t("documents.copy_of")} <a href=${link("documents", each.namespace, each.duplicate_of)}><${Name} text=${each.duplicate_of} /></a></span>`}` },
    !namespace && { key: "namespace", label: t("field.namespace"), render: (each) => each.namespace },
    { key: "state", label: t("field.status"), render: (each) => html`<${State} of=${each} />` },
    { key: "chunks", label: t("field.chunks"), numeric: true, render: (each) => count(each.chunks) },
    { key: "size", label: t("field.size"), numeric: true, render: (each) => bytes(each.bytes) },
    { key: "tags", label: t("field.tags"), roomy: true, render: (each) => each.tags.length ? each.tags.join(", ") : "–" },
    { key: "updated", label: t("field.updated"), render: (each) => html`<time title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>` },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: (each) => html`
      <button class="quiet danger-text" onClick=${() => setRemoving(each)}
        aria-label=${`${t("documents.remove")}: ${each.document_id}`}>${t("documents.remove")}</button>` },
  ].filter(Boolean);

  const filtered = contains || tagged || given.status || given.copies;

  return html`
    <${Heading} title=${t("nav.documents")} about=${t("documents.about")}>
      <a class="button" href=${link("namespaces")}>${t("nav.namespaces")}</a>
      <a class="button primary" href=${link("upload")}>${t("nav.upload")}</a>
    <//>
    <div class="fields filters" role="search">
      <${Text} label=${t("documents.search")} type="search" maxlength="200" value=${text} onInput=${setText} />
      <${NamespaceChoice} namespaces=${namespaces} all=${t("documents.all_namespaces")} counted value=${namespace}
        onInput=${(value) => (value ? go("documents", value) : go("documents"))} />
      <${Choice} label=${t("field.status")} value=${given.status} onInput=${(status) => show({ status })}
        options=${STATUSES.map((each) => [each, each ? word("status", each) : t("documents.any")])} />
      <${Text} label=${t("documents.tag")} maxlength="128" value=${tag} onInput=${setTag} />
      <${Choice} label=${t("documents.order")} value=${given.order || ORDERS[0]} onInput=${(order) => show({ order })}
        options=${ORDERS.map((each) => [each, word("document_order", each)])} />
    </div>
    <div class="row between">
      <${Check} label=${t("documents.copies")} checked=${Boolean(given.copies)} onInput=${(on) => show({ copies: on ? "1" : "" })} />
      <${Selection} chosen=${[...chosen.values()]} again=${again} clear=${() => setChosen(new Map())} one=${removing} over=${() => setRemoving(null)} />
    </div>
    <${Loaded} of=${documents} empty=${filtered
      ? html`<${Empty} title=${t("documents.none_fit")} />`
      : html`<${Empty} title=${t("documents.empty")}><a class="button" href=${link("upload")}>${t("jobs.empty_do")}</a>${!namespace && html`<${Samples} />`}<//>`}>
      ${(data) => html`<${Table} caption=${t("nav.documents")} columns=${columns} rows=${data.rows} rowKey=${keyOf} />
        <${More} pages=${documents} />`}
    <//>`;
}

/** The state of the latest upload, and whether an earlier one is searchable all the same. */
export function State({ of }) {
  if (of.status === "succeeded") return html`<${Badge} of="shown" label=${t("documents.shown")} />`;
  return html`<${Badge} of=${of.status} label=${word("status", of.status)} />
    ${of.generation === null && html` <span class="hint">${t("documents.not_shown")}</span>`}`;
}
