// Facets of an answer: the most frequent values of fields, each a filter that can be set and taken back.
import { html } from "../../html.js";
import { TEXT_NAMES } from "../../document_fields.js";
import { count } from "../../format.js";
import { t, word } from "../../words.js";

export const FACETS = "type, tags";
const KEY = "metadata.";

/** The fields that a text names, each once. */
export const facetsOf = (text) => [...new Set((text ?? "").split(/[\s,，、]+/).filter(Boolean))];

/** The filters of the form with a value of a facet set, or taken back if it is. */
export function flipped(filters, field, value) {
  if (TEXT_NAMES.includes(field)) return { ...filters, [field]: filters[field] === value ? "" : value };
  if (field === "tags") return { ...filters, tags: isSet(filters, field, value) ? filters.tags.filter((tag) => tag !== value) : [...filters.tags, value] };
  const key = field.slice(KEY.length);
  const others = filters.metadata.filter(([name]) => name !== key);
  return { ...filters, metadata: isSet(filters, field, value) ? others : [...others, [key, value]] };
}

function isSet(filters, field, value) {
  if (TEXT_NAMES.includes(field)) return filters[field] === value;
  return field === "tags" ? filters.tags.includes(value) : filters.metadata.some(([name, held]) => name === field.slice(KEY.length) && held === value);
}

export function Facets({ of, filters, onFlip }) {
  if (!of?.length) return null;
  const [{ counted_over: over, passages }] = of;
  return html`<details class="fold facets" open=${matchMedia(ROOMY).matches}>
    <summary>${t("facet.title")} <span class="tab-note">${of.length}</span></summary>
    ${of.map((facet) => html`<div key=${facet.field} class="facet">
      <b>${nameOf(facet.field)}</b>
      ${facet.values.length === 0 && html`<span class="muted">${t("facet.none")}</span>`}
      ${facet.values.map(({ value, passages: number, filter }) => html`<button type="button" key=${JSON.stringify(value)} title=${filter}
        aria-pressed=${isSet(filters, facet.field, value)} onClick=${() => onFlip(flipped(filters, facet.field, value))}>
        ${String(value)} <span class="number">${count(number)}</span></button>`)}
      ${facet.other > 0 && html`<span class="muted">${t("facet.other", { count: count(facet.other) })}</span>`}
    </div>`)}
    <p class="hint">${t(`facet.${over}`, { count: count(passages) })}</p>
  </details>`;
}

const ROOMY = "(min-width: 641px)"; // where they are open at first; below, they would push the hits off the screen

export const nameOf = (field) => (field.startsWith(KEY) ? field.slice(KEY.length) : word("field", field));
