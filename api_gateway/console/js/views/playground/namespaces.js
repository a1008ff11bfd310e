// The namespaces of a query in one chooser: folded to a line that says which, opened to a search and a list of all.
import { html, useState } from "../../html.js";
import { get, query } from "../../api.js";
import { count } from "../../format.js";
import { useLoad } from "../../load.js";
import { Check, Text } from "../../parts/fields.js";
import { Name } from "../../parts/name.js";
import { t } from "../../words.js";

export const MOST_ASKED = 32; // of one query, as the API has it
const MOST_LISTED = 5000;
const FEW = 4; // shown unfolded, without a search
const SHOWN = 60;
const NAMED = 2; // in the folded line; more are counted

/** `{rows, cut}`: every namespace of the tenant, page by page. */
export const useEveryNamespace = () => useLoad(async (signal) => {
  const rows = [];
  let cursor = null;
  do {
    const page = await get(`v1/namespaces${query({ limit: 200, cursor })}`, { signal });
    rows.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor && rows.length < MOST_LISTED);
  return { rows, cut: Boolean(cursor) };
}, []);

/** `chosen` may hold names that are not `known`: of a link, or of a namespace that was deleted. */
export function Namespaces({ known, cut, chosen, onChange }) {
  const [open, setOpen] = useState(chosen.length === 0);
  const all = [...known, ...chosen.filter((name) => !known.includes(name))];
  const flip = (name) => (on) => onChange(on ? [...chosen, name] : chosen.filter((each) => each !== name));
  const full = chosen.length >= MOST_ASKED;
  const one = (name) => html`<${Check} key=${name} label=${html`<${Name} text=${name} />`} checked=${chosen.includes(name)}
    disabled=${full && !chosen.includes(name)} onInput=${flip(name)} />`;
  if (all.length <= FEW) {
    return html`<fieldset class="chips"><legend>${t("play.namespaces")}</legend>${all.map(one)}</fieldset>`;
  }
  return html`<details class="fold chooser" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${t("play.namespaces")} <span class="tab-note">${said(chosen, all)}</span></summary>
    ${open && html`<${List} all=${all} cut=${cut} chosen=${chosen} full=${full} one=${one} flip=${flip} onChange=${onChange} />`}
  </details>`;
}

const said = (chosen, all) => (chosen.length > 0 && chosen.length <= NAMED ? chosen.join(", ")
  : t("ask.chosen", { chosen: count(chosen.length), all: count(all.length) }));

function List({ all, cut, chosen, full, one, flip, onChange }) {
  const [sought, setSought] = useState("");
  const found = all.filter((name) => name.toLowerCase().includes(sought.trim().toLowerCase()));
  const take = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (found[0] && !chosen.includes(found[0]) && !full) flip(found[0])(true);
  };
  return html`<fieldset class="picker">
    <legend class="visually-hidden">${t("play.namespaces")}</legend>
    <${Text} label=${t("ask.search_namespaces")} type="search" value=${sought} onInput=${setSought} spellcheck=${false} onKeyDown=${take} />
    <div class="pick-list" tabindex="0" role="group" aria-label=${t("play.namespaces")}>${found.slice(0, SHOWN).map(one)}
      ${found.length > SHOWN && html`<p class="hint">${t("ask.further", { count: count(found.length - SHOWN) })}</p>`}
      ${found.length === 0 && html`<p class="hint">${t("ask.no_match")}</p>`}</div>
    <p class="row hint"><span role="status">${t("ask.most", { most: MOST_ASKED })}${cut && ` ${t("ask.more_namespaces", { most: count(MOST_LISTED) })}`}</span>
      ${all.length <= MOST_ASKED && chosen.length < all.length && html`<button type="button" class="link" onClick=${() => onChange(all)}>${t("ask.all")}</button>`}
      ${chosen.length > 0 && html`<button type="button" class="link" onClick=${() => onChange([])}>${t("ask.none")}</button>`}</p>
  </fieldset>`;
}
