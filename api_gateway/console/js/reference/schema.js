// The shape of a body: its fields with type, limits and meaning; fields of nested objects are rendered once they are opened.
import { html, useState } from "../html.js";
import { t } from "../words.js";
import { resolved } from "./document.js";
import { Described } from "./operation.js";

export function Schema({ of, schemas }) {
  const shape = merged(of, schemas);
  const fields = Object.entries(shape.properties ?? {});
  if (!fields.length) return html`<p class="hint"><code>${typeOf(of, schemas)}</code></p>`;
  const required = new Set(shape.required);
  return html`<ul class="schema">
    ${fields.map(([name, field]) => html`<${Field} key=${name} name=${name} of=${field} required=${required.has(name)} schemas=${schemas} />`)}
  </ul>`;
}

function Field({ name, of, required, schemas }) {
  const [open, setOpen] = useState(false);
  const shape = merged(of, schemas);
  const nested = objectIn(of, schemas);
  return html`<li>
    <p><code class="field-name">${name}</code> <span class="type">${typeOf(of, schemas)}</span>
      ${required && html` <span class="required">${t("reference.required")}</span>`}
      ${limitsOf(onlyIn(shape, schemas)).map((limit) => html` <span class="limit" key=${limit}>${limit}</span>`)}</p>
    ${(of.description ?? shape.description) && html`<p class="hint"><${Described} text=${of.description ?? shape.description} /></p>`}
    ${nested && html`<details onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>${t("reference.fields")}</summary>${open && html`<${Schema} of=${nested} schemas=${schemas} />`}
    </details>`}
  </li>`;
}

/** A schema with its `$ref` and `allOf` applied. */
function merged(schema, schemas) {
  const shape = resolved(schema, schemas);
  if (!shape.allOf) return shape;
  const parts = [...shape.allOf.map((part) => merged(part, schemas)), { ...shape, allOf: undefined }];
  return {
    ...Object.assign({}, ...parts),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required = [] }) => required),
  };
}

/** The shape of a field's value where it is not null; the shape itself where it has several. */
function onlyIn(shape, schemas) {
  const choices = (shape.anyOf ?? shape.oneOf ?? []).filter((choice) => choice.type !== "null");
  return choices.length === 1 ? { ...merged(choices[0], schemas), ...shape } : shape;
}

/** The schema of the object that a field holds, holds many of, or may hold; null if there is none. */
function objectIn(schema, schemas) {
  const shape = merged(schema, schemas);
  if (Object.keys(shape.properties ?? {}).length) return shape;
  if (shape.items) return objectIn(shape.items, schemas);
  if (typeof shape.additionalProperties === "object") return objectIn(shape.additionalProperties, schemas);
  for (const choice of shape.anyOf ?? shape.oneOf ?? []) {
    const found = objectIn(choice, schemas);
    if (found) return found;
  }
  return null;
}

export function typeOf(schema, schemas) {
  const shape = merged(schema, schemas);
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  if (shape.enum) return shape.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = shape.anyOf ?? shape.oneOf;
  if (choices) return [...new Set(choices.map((choice) => typeOf(choice, schemas)))].join(" | ");
  if (shape.type === "array") return `${shape.items ? typeOf(shape.items, schemas) : "any"}[]`;
  return shape.format ? `${shape.type} (${shape.format})` : shape.type ?? "any";
}

const BOUNDS = [["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["exclusiveMaximum", "<"], ["minLength", "length ≥"],
  ["maxLength", "length ≤"], ["minItems", "items ≥"], ["maxItems", "items ≤"], ["default", "="]];

function limitsOf(shape) {
  return BOUNDS.filter(([name]) => shape[name] !== undefined && shape[name] !== null).map(([name, sign]) => `${sign} ${JSON.stringify(shape[name])}`);
}
