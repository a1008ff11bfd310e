// A choice among the tenant's namespaces: a list of a few, a search among many. The gateway searches, so none is out of reach.
import { html, useEffect, useId, useRef, useState } from "../html.js";
import { get, query } from "../api.js";
import { count } from "../format.js";
import { useLoad } from "../load.js";
import { t } from "../words.js";
import { Choice, Field, useSettled } from "./fields.js";

const MOST_LISTED = 30;

/**
 * `namespaces`: of `useNamespaces`. `all`: the label of a first choice for all of them. `value` may be one that does not exist
 * yet. `counted`: show the number of documents beside each name. `among`: further parameters of the list that is searched.
 */
export function NamespaceChoice({ namespaces, all, value, counted = false, label = t("field.namespace"), among, ...rest }) {
  const rows = namespaces.data ?? [];
  if (rows.length > MOST_LISTED) return html`<${Sought} all=${all} value=${value} label=${label} among=${among} ...${rest} />`;
  const names = rows.map((each) => [each.namespace, counted ? `${each.namespace} (${count(each.documents)})` : each.namespace]);
  const options = [...(all ? [["", all]] : []), ...names, ...(value && !rows.some((each) => each.namespace === value) ? [[value, value]] : [])];
  return html`<${Choice} label=${label} value=${value} options=${options} fault=${namespaces.error?.title} ...${rest} />`;
}

/** An existing namespace or, for uploads, a new one. */
export function NamespaceInput({ label = t("field.namespace"), value, onInput, hint }) {
  const list = useId();
  const { names } = useNames(value);
  return html`<${Field} label=${label} hint=${hint}>
    ${(ties) => html`
      <input type="text" required list=${list} maxlength="64" autocomplete="off" spellcheck=${false} ...${ties} value=${value}
        onInput=${(event) => onInput(event.target.value)} />
      <${Names} id=${list} names=${names} />`}
  <//>`;
}

/** The names that contain what was typed, a moment after it. `noneFit`: no name does. */
function useNames(text, among) {
  const contains = useSettled(text.trim());
  const found = useLoad((signal) => get(`v1/namespaces${query({ ...among, contains, limit: MOST_LISTED })}`, { signal }).then((page) => page.data.map((each) => each.namespace)), [contains]);
  return { names: found.data ?? [], noneFit: found.data?.length === 0 && text.trim() === contains };
}

const Names = ({ id, names }) => html`<datalist id=${id}>${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;

/** What is typed counts once it is the whole name of a namespace. */
function Sought({ all, value, label, onInput, class: kind, among, ...rest }) {
  const list = useId();
  const [text, setText] = useState(value);
  const chosen = useRef(value); // here; the page learns it a moment later, and what is typed meanwhile stays
  function choose(name) {
    chosen.current = name;
    onInput(name);
  }
  useEffect(() => { if (value !== chosen.current) { chosen.current = value; setText(value); } }, [value]);
  const { names, noneFit } = useNames(text, among);
  const isWhole = names.includes(text.trim());
  useEffect(() => { if (isWhole && text.trim() !== value) choose(text.trim()); }, [isWhole, text]);
  function type(next) {
    setText(next);
    if (!next && all) choose("");
  }
  return html`<${Field} label=${label} class=${kind} fault=${noneFit && t("spaces.none_fit")}>
    ${(ties) => html`<input type="search" list=${list} maxlength="64" autocomplete="off" spellcheck=${false} placeholder=${all} ...${ties} ...${rest} value=${text}
        onInput=${(event) => type(event.target.value)} onFocus=${(event) => event.target.select()} onBlur=${() => setText(value)} />
      <${Names} id=${list} names=${names} />`}
  <//>`;
}
