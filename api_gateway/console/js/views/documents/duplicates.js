// Documents of one namespace that repeat others: copies from the list, similar texts by comparing one document after the other.
import { html, useEffect, useRef, useState } from "../../html.js";
import { get, query, segment } from "../../api.js";
import { ago, bytes, count, moment } from "../../format.js";
import { useAction, usePages } from "../../load.js";
import { Choice } from "../../parts/fields.js";
import { DocumentName, Name } from "../../parts/name.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { More, Table } from "../../parts/table.js";
import { link, linkWith } from "../../router.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

const COMPARED_AT_ONCE = 200; // documents of one page of the list
const BESIDE = 2; // comparisons at a time
const SHOWN = 50;
const LEAST = ["0.99", "0.97", "0.95", "0.9"]; // the API gives none below 0.9

export function Duplicates({ parts: [namespace] }) {
  return html`
    <${Heading} title=${t("duplicates.title", { name: namespace })} about=${t("duplicates.about")} back=${[link("namespaces"), t("nav.namespaces")]} />
    <${Copies} namespace=${namespace} />
    <${Near} key=${namespace} namespace=${namespace} />`;
}

const named = (namespace, document) => html`<${DocumentName} of=${document}
  shown=${(name) => html`<a class="title" href=${link("documents", namespace, document.document_id)}>${name}</a>`} />`;

/** Documents whose bytes are those of an older one. */
function Copies({ namespace }) {
  const copies = usePages("v1/documents", { namespace, duplicates: "true" });
  const columns = [
    { key: "document", label: t("field.document"), main: true, render: (each) => named(namespace, each) },
    { key: "of", label: t("documents.copy_of"), render: (each) => html`<a href=${link("documents", namespace, each.duplicate_of)}><${Name} text=${each.duplicate_of} /></a>` },
    { key: "size", label: t("field.size"), numeric: true, render: (each) => bytes(each.bytes) },
    { key: "updated", label: t("field.updated"), render: (each) => html`<time title=${moment(each.updated_at)}>${ago(each.updated_at)}</time>` },
  ];
  return html`<section aria-labelledby="copies">
    <div class="row between"><h2 id="copies">${t("document.same_bytes")}</h2>
      ${copies.data?.rows.length > 0 && html`<a class="button" href=${linkWith(["documents", namespace], { copies: "1" })}>${t("duplicates.to_list")}</a>`}</div>
    <${Loaded} of=${copies} lines=${3} empty=${html`<${Empty} title=${t("duplicates.no_copies")} />`}>
      ${(data) => html`<${Table} caption=${t("document.same_bytes")} columns=${columns} rows=${data.rows} rowKey=${(each) => each.document_id} /><${More} pages=${copies} />`}
    <//>
  </section>`;
}

/** Pairs of documents with nearly the same text, found by a walk over the namespace that the user starts and can stop. */
function Near({ namespace }) {
  const [least, setLeast] = useState(LEAST[1]);
  const [walk, setWalk] = useState({ compared: 0, cursor: null, pairs: new Map() });
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const compare = useAction(async () => {
    running.current = new AbortController();
    const { signal } = running.current;
    try {
      const page = await get(`v1/documents${query({ namespace, limit: COMPARED_AT_ONCE, cursor: walk.cursor })}`, { signal });
      const open = [...page.data];
      const pairs = new Map(walk.pairs);
      const work = async () => {
        for (let one = open.shift(); one; one = open.shift()) {
          const { data } = await get(`v1/documents/${segment(one.document_id)}/similar?namespace=${segment(namespace)}`, { signal });
          for (const other of data) pairs.set(JSON.stringify([one.document_id, other.document_id].sort()), { ...other, one, other });
          setWalk((before) => ({ ...before, compared: before.compared + 1, pairs }));
        }
      };
      await Promise.all(Array.from({ length: BESIDE }, work));
      setWalk((before) => ({ ...before, cursor: page.next_cursor, done: !page.next_cursor }));
    } catch (error) {
      setWalk((before) => ({ ...before, compared: walk.compared })); // this page is compared again
      if (error.name !== "AbortError") throw error;
    } finally {
      running.current.abort(); // the other one, after an error
    }
  });
  const found = [...walk.pairs.values()].filter((pair) => pair.similarity >= Number(least) && !pair.same_bytes).sort((one, other) => other.similarity - one.similarity);
  const figures = { count: count(walk.compared), pairs: count(found.length) };
  const columns = [
    { key: "one", label: t("field.document"), main: true, render: (pair) => named(namespace, pair.one) },
    { key: "other", label: t("duplicates.other"), render: (pair) => named(namespace, pair.other) },
    { key: "similarity", label: t("document.similarity"), numeric: true, render: (pair) => percentOf(pair.similarity) },
  ];
  return html`<section aria-labelledby="near">
    <h2 id="near">${t("duplicates.near")}</h2>
    <p class="about">${t("duplicates.near_about")}</p>
    <div class="toolbar">
      <${Choice} label=${t("duplicates.least")} value=${least} onInput=${setLeast} options=${LEAST.map((each) => [each, percentOf(Number(each))])} />
      ${compare.busy
        ? html`<button onClick=${() => running.current.abort()}>${t("action.cancel")}</button>`
        : !walk.done && html`<button class="primary" onClick=${() => compare.run()}>${walk.cursor ? t("duplicates.further", { count: COMPARED_AT_ONCE }) : t("duplicates.compare")}</button>`}
      <p class="hint" role="status">${walk.done ? t("duplicates.compared_all", figures) : (compare.busy || walk.compared > 0) && t("duplicates.compared", figures)}</p>
    </div>
    ${compare.error && html`<${Problem} error=${compare.error} />`}
    ${found.length > 0 && html`<${Table} caption=${t("duplicates.near")} columns=${columns} rows=${found.slice(0, SHOWN)} rowKey=${(pair) => `${pair.one.document_id} ${pair.other.document_id}`} />
      ${found.length > SHOWN && html`<p class="hint">${t("ask.further", { count: count(found.length - SHOWN) })}</p>`}`}
    ${walk.done && !found.length && html`<${Empty} title=${t("document.none_similar")} />`}
  </section>`;
}

export const percentOf = (similarity) => `${(Math.floor(similarity * 1000) / 10).toFixed(1)} %`;
