// A form from a list of fields. Faults that the server names by JSON pointer stand beside their fields.
import { html } from "../html.js";
import { t } from "../words.js";
import { Area, Check, Checks, Choice, Text } from "./fields.js";
import { Problem } from "./states.js";

/**
 * `fields`: `{name, label, kind, hint, options, ...attributes of the control}`; a `/` in the name leads into nested
 * objects. `kind` is text (default), number, date, password, area, lines (an array, one entry a line), json, object_or_text
 * (JSON where it begins with a brace), choice, check,
 * checks (an array of the chosen options) or toggle (on, off, or left out). `{group: label, fields}` puts fields under a heading. `value` holds what stands in
 * the controls, made by `drafted`; `sent` makes the body of it. `error`: the ApiError of the last attempt.
 */
export function Form({ fields, value, onChange, onSubmit, error, busy = false, submit = t("action.save"), cancel, children, readOnly = false }) {
  const faults = faultsOf(fields, value, error);
  const set = (name) => (next) => onChange({ ...value, [name]: next });
  function send(event) {
    event.preventDefault();
    if (!busy && !plain(fields).some(({ name, kind }) => READS[kind] && !parses(kind, value[name]))) onSubmit(value);
  }
  const control = ({ name, kind = "text", ...rest }) => html`<${CONTROLS[kind]} key=${name} ...${rest} value=${value[name]}
    onInput=${set(name)} fault=${faults[name]} />`;
  return html`<form onSubmit=${send}><fieldset class="record-form" disabled=${readOnly}>
    ${fields.map((field) => (field.group
      ? html`<fieldset class="field-group" key=${field.group}><legend>${field.group}</legend><div class="fields">${field.fields.map(control)}</div></fieldset>`
      : control(field)))}
    ${children}
    ${error && html`<${Problem} error=${error} />`}
    ${!readOnly && html`<div class="buttons">
      <button class="primary" disabled=${busy} aria-busy=${busy}>${submit}</button>
      ${cancel && html`<button type="button" onClick=${cancel}>${t("action.cancel")}</button>`}
    </div>`}
  </fieldset></form>`;
}

const typed = (type) => (props) => html`<${Text} type=${type} ...${props} />`;
const LONG = (props) => html`<${Area} rows=${Math.min(16, Math.max(3, String(props.value).split("\n").length + 1))} spellcheck=${false} ...${props} />`;
const CONTROLS = {
  text: Text, number: typed("number"), date: typed("date"), password: typed("password"),
  area: LONG, lines: LONG, json: LONG, object_or_text: LONG, choice: Choice, checks: Checks,
  check: ({ value, fault, ...rest }) => html`<${Check} checked=${Boolean(value)} ...${rest} />${fault && html`<p class="fault">${fault}</p>`}`,
  toggle: ({ unset = "–", ...rest }) => html`<${Choice} options=${[["", unset], ["true", t("field.on")], ["false", t("field.off")]]} ...${rest} />`,
};

/** The object of a text that begins with a brace, any other text as it is; undefined for none. Raises SyntaxError. */
export function objectOrText(text) {
  const trimmed = String(text).trim();
  return trimmed.startsWith("{") ? JSON.parse(trimmed) : trimmed || undefined;
}

const READS = { json: (text) => JSON.parse(String(text).trim() || "null"), object_or_text: objectOrText };

/** The fields without their groups. */
export const plain = (fields) => fields.flatMap((field) => field.fields ?? [field]);

/** The text of the controls for a record of the server. */
export function drafted(fields, record = {}) {
  return Object.fromEntries(plain(fields).map(({ name, kind, options }) => {
    const given = name.split("/").reduce((value, key) => value?.[key], record);
    if (kind === "check") return [name, Boolean(given)];
    if (kind === "lines") return [name, (given ?? []).join("\n")];
    if (kind === "checks") return [name, given ?? []];
    if (READS[kind] && typeof given === "object") return [name, given == null ? "" : JSON.stringify(given, null, 2)];
    if (kind === "json") return [name, given == null ? "" : JSON.stringify(given)];
    return [name, given == null ? (kind === "choice" ? options[0][0] : "") : String(given)];
  }));
}

/** The JSON of a draft, laid over `base`; empty controls are left out. Raises SyntaxError for a `json` field that is none. */
export function sent(fields, draft, base = {}) {
  return plain(fields).reduce((body, { name, kind }) => set(body, name.split("/"), given(kind, draft[name])), base);
}

function given(kind, text) {
  if (kind === "check" || kind === "checks") return text;
  if (kind === "lines") return text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (String(text).trim() === "") return undefined;
  if (READS[kind]) return READS[kind](text);
  if (kind === "toggle") return text === "true";
  return kind === "number" ? Number(text) : text;
}

/** A copy of `record` with the value at a path; undefined takes it out, with the objects that this empties. */
function set(record, [key, ...rest], value) {
  if (value === undefined && record?.[key] === undefined) return record;
  const { [key]: before, ...others } = record ?? {};
  const next = rest.length ? set(before ?? {}, rest, value) : value;
  const gone = next === undefined || (value === undefined && rest.length && Object.keys(next).length === 0);
  return gone ? others : { ...record, [key]: next };
}

function faultsOf(fields, value, error) {
  const faults = {};
  for (const { name, kind } of plain(fields)) {
    const here = `/${name}`;
    const named = error?.errors?.find(({ pointer = "" }) => pointer === here || pointer.startsWith(`${here}/`));
    if (named) faults[name] = named.pointer === here ? named.detail : `${named.pointer}: ${named.detail}`;
    if (READS[kind] && !parses(kind, value[name])) faults[name] = t("form.no_json");
  }
  return faults;
}

function parses(kind, text) {
  try {
    READS[kind](text);
    return true;
  } catch {
    return false;
  }
}
