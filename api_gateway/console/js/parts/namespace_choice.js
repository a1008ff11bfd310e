// A choice among the tenant's namespaces.
import { html } from "../html.js";
import { t } from "../words.js";
import { Choice } from "./fields.js";

/** `namespaces`: of `useNamespaces`. `all`: the label of a first choice for all of them. `value` may be one that does not exist yet. */
export function NamespaceChoice({ namespaces, all, value, ...rest }) {
  const names = (namespaces.data ?? []).map((each) => each.namespace);
  const options = [...(all ? [["", all]] : []), ...[...new Set([...names, ...(value ? [value] : [])])].map((name) => [name, name])];
  return html`<${Choice} label=${t("field.namespace")} value=${value} options=${options} ...${rest} />`;
}
