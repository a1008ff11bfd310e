// Titles and first words of chunks, for the ids of a trace.
import { html, useEffect, useRef, useState } from "../../html.js";
import { post } from "../../api.js";
import { short } from "../../format.js";
import { Name, Origin } from "../../parts/name.js";
import { Copyable } from "../../parts/states.js";
import { link } from "../../router.js";
import { t } from "../../words.js";

const AT_ONCE = 200;

/** `{get(id), title(id), want(ids)}`: what is known of chunks; `want` has the unknown ones read. */
export function useNames({ chunks = [] }) {
  const known = useRef(null);
  const wanted = useRef(new Set());
  const [, setTurn] = useState(0);
  known.current ??= new Map(chunks.map((chunk) => [chunk.chunk_id, { ...chunk, beginning: chunk.text }]));
  const names = known.current;

  async function want(ids) {
    const unknown = [...new Set(ids)].filter((id) => !names.has(id) && !wanted.current.has(id));
    unknown.forEach((id) => wanted.current.add(id));
    for (let at = 0; at < unknown.length; at += AT_ONCE) {
      const some = unknown.slice(at, at + AT_ONCE);
      try {
        const page = await post("v1/chunks/lookup", { chunk_ids: some });
        page.data.forEach((chunk) => names.set(chunk.chunk_id, chunk));
        setTurn((turn) => turn + 1);
      } catch {
        some.forEach((id) => wanted.current.delete(id)); // shown by its id, and asked for again with the next list
      }
    }
  }
  return { get: (id) => names.get(id), title: (id) => names.get(id)?.title || names.get(id)?.document_id || short(id), want };
}

/** A chunk by title and first words; by its id while nothing else is known. */
export function Named({ id, names }) {
  const chunk = names.get(id);
  if (!chunk) return html`<${Copyable} text=${id} shown=${short(id)} label=${t("chunk.copy_id")} />`;
  const title = chunk.title || chunk.document_id;
  return html`<a class="title" href=${link("documents", chunk.namespace, chunk.document_id)}><${Name} text=${title} /></a>
    <${Origin} of=${chunk} title=${title} />
    <span class="under words" title=${chunk.beginning.slice(0, 160)}>${chunk.beginning.slice(0, 90)}</span>`;
}

/** Has the names of these chunks read. */
export const useWanted = (names, ids) => useEffect(() => { names.want(ids); }, [ids.join()]);
