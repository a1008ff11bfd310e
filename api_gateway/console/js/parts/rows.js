// A list of small records inside a form: one row of controls each, rows added and taken away.
import { html } from "../html.js";
import { t } from "../words.js";
import { Choice, Text } from "./fields.js";

/**
 * `columns`: `{name, label, options, ...attributes}`, a choice where there are options. `value`: the rows, with text for
 * each column. `pointer`: the list's place in the body, for the faults in `error`. A column's `when(row)` may hide it, its
 * `check(text)` returns the fault of a text; the browser does not submit a form with one.
 */
export function Rows({ label, columns, value, onInput, blank, add, pointer = "", error, least = 0 }) {
  const set = (index, name) => (text) => onInput(value.map((row, at) => (at === index ? { ...row, [name]: text } : row)));
  const fault = (index, name) => error?.errors?.filter((each) => (each.pointer ?? "").startsWith(`${pointer}/${index}/${name}`))
    .map((each) => `${each.pointer.slice(`${pointer}/${index}/${name}`.length)} ${each.detail}`.trim()).join(" ") || undefined;
  return html`<fieldset class="field-group">
    <legend>${label}</legend>
    ${value.map((row, index) => html`<div class="rows" key=${index} role="group" aria-label=${`${label} ${index + 1}`}>
      ${columns.map(({ name, options, check = () => "", when = () => true, ...rest }) => when(row) && html`<${options ? Choice : Text} key=${name} ...${rest}
        ...${options ? { options } : { refused: check(row[name]) }} value=${row[name] ?? ""} onInput=${set(index, name)}
        fault=${check(row[name]) || fault(index, name)} />`)}
      <button type="button" class="quiet danger-text" disabled=${value.length <= least} aria-label=${`${t("listing.remove")}: ${label} ${index + 1}`}
        onClick=${() => onInput(value.filter((_, at) => at !== index))}>${t("listing.remove")}</button>
    </div>`)}
    <p><button type="button" onClick=${() => onInput([...value, blank])}>${add}</button></p>
  </fieldset>`;
}
