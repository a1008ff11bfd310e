// A form from a list of fields. Faults that the server names by JSON pointer stand beside their fields.
import { html } from "../html.js";
import { t } from "../words.js";
import { Area, Check, Choice, Text } from "./fields.js";
import { Problem } from "./states.js";

/**
 * `fields`: `{name, label, kind, hint, options, ...attributes of the control}`; `kind` is text (default), number, date,
 * area, lines (an array, one entry a line), json, choice or check. `value` holds what stands in the controls, made by
 * `drafted`; `sent` makes the body of it. `error`: the ApiError of the last attempt.
 */
export function Form({ fields, value, onChange, onSubmit, error, busy = false, submit = t("action.save"), cancel, children }) {
  const faults = faultsOf(fields, value, error);
  const set = (name) => (next) => onChange({ ...value, [name]: next });
  function send(event) {
    event.preventDefault();
    if (!busy) onSubmit(value);
  }
  return html`<form class="form record-form" onSubmit=${send}>
    ${fields.map(({ name, kind = "text", ...rest }) => html`<${CONTROLS[kind]} key=${name} ...${rest} value=${value[name]}
      onInput=${set(name)} fault=${faults[name]} />`)}
    ${children}
    ${error && html`<${Problem} error=${error} />`}
    <div class="buttons">
      <button class="primary" disabled=${busy} aria-busy=${busy}>${submit}</button>
      ${cancel && html`<button type="button" onClick=${cancel}>${t("action.cancel")}</button>`}
    </div>
  </form>`;
}

const typed = (type) => (props) => html`<${Text} type=${type} ...${props} />`;
const LONG = (props) => html`<${Area} rows=${Math.min(16, Math.max(3, String(props.value).split("\n").length + 1))} spellcheck=${false} ...${props} />`;
const CONTROLS = {
  text: Text, number: typed("number"), date: typed("date"), password: typed("password"),
  area: LONG, lines: LONG, json: LONG, choice: Choice,
  check: ({ value, fault, ...rest }) => html`<${Check} checked=${Boolean(value)} ...${rest} />${fault && html`<p class="fault">${fault}</p>`}`,
};

/** The text of the controls for a record of the server. */
export function drafted(fields, record = {}) {
  return Object.fromEntries(fields.map(({ name, kind, options }) => {
    const given = record[name];
    if (kind === "check") return [name, Boolean(given)];
    if (kind === "lines") return [name, (given ?? []).join("\n")];
    if (kind === "json") return [name, given === undefined ? "" : JSON.stringify(given, null, 2)];
    return [name, given == null ? (kind === "choice" ? options[0][0] : "") : String(given)];
  }));
}

/** The JSON of a draft; empty controls are left out. Raises SyntaxError for a `json` field that is none. */
export function sent(fields, draft) {
  return Object.fromEntries(fields.flatMap(({ name, kind }) => {
    const text = draft[name];
    if (kind === "check") return [[name, text]];
    if (kind === "lines") return [[name, text.split("\n").map((line) => line.trim()).filter(Boolean)]];
    if (String(text).trim() === "") return [];
    if (kind === "json") return [[name, JSON.parse(text)]];
    return [[name, kind === "number" ? Number(text) : text]];
  }));
}

function faultsOf(fields, value, error) {
  const faults = {};
  for (const { name, kind } of fields) {
    const named = error?.errors?.find(({ pointer = "" }) => pointer === `/${name}` || pointer.startsWith(`/${name}/`));
    if (named) faults[name] = named.pointer === `/${name}` ? named.detail : `${named.pointer}: ${named.detail}`;
    if (kind === "json" && !parses(value[name])) faults[name] = t("form.no_json");
  }
  return faults;
}

function parses(text) {
  try {
    JSON.parse(String(text).trim() || "null");
    return true;
  } catch {
    return false;
  }
}
