// The groups of an answer: each value of the field with the places of its hits, and a button that filters by it.
import { html } from "../../html.js";
import { flipped, nameOf } from "./facets.js";
import { idOf, show } from "./written.js";
import { t } from "../../words.js";

export function Groups({ answer, field, filters, onFlip }) {
  if (!answer.groups?.length) return null;
  const places = new Map(answer.chunks.map((chunk, place) => [chunk.chunk_id, place + 1]));
  const title = t("facet.groups", { field: nameOf(field) });
  return html`<section class="facets" aria-label=${title}>
    <p class="hint">${title}</p>
    ${answer.groups.map(({ value, chunk_ids: ids }) => html`<div key=${JSON.stringify(value)} class="facet">
      <b>${value === null ? t("facet.without") : String(value)}</b>
      ${ids.map((id) => html`<button type="button" key=${id} class="cite" aria-label=${t("written.hit", { place: places.get(id) })}
        onClick=${() => show(idOf(answer, id))}>[${places.get(id)}]</button>`)}
      ${value !== null && html`<button type="button" class="link" aria-label=${t("facet.only", { value: String(value) })}
        onClick=${() => onFlip(flipped(filters, field, value))}>${t("facet.more")}</button>`}
    </div>`)}
  </section>`;
}
