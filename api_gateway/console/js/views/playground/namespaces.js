// The namespaces of a query: all of them can be found, and the limit of a query is said.
import { html, useState } from "../../html.js";
import { get, query } from "../../api.js";
import { count } from "../../format.js";
import { useLoad } from "../../load.js";
import { Check, Text } from "../../parts/fields.js";
import { Icon } from "../../parts/icons.js";
import { t } from "../../words.js";

export const MOST_ASKED = 32; // of one query, as the API has it
const MOST_LISTED = 5000;
const FEW = 12; // shown without a search
const SHOWN = 60;

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

export function Namespaces({ known, cut, chosen, onChange }) {
  const [sought, setSought] = useState("");
  const flip = (name) => (on) => onChange(on ? [...chosen, name] : chosen.filter((each) => each !== name));
  const full = chosen.length >= MOST_ASKED;
  const one = (name) => html`<${Check} key=${name} label=${name} checked=${chosen.includes(name)}
    disabled=${full && !chosen.includes(name)} onInput=${flip(name)} />`;
  if (known.length <= FEW) {
    return html`<fieldset class="chips"><legend>${t("play.namespaces")}</legend>${known.map(one)}</fieldset>`;
  }
  const found = known.filter((name) => name.toLowerCase().includes(sought.trim().toLowerCase()));
  return html`<fieldset class="picker">
    <legend>${t("play.namespaces")}</legend>
    <p class="hint" role="status">${t("ask.chosen", { chosen: count(chosen.length), all: count(known.length), most: MOST_ASKED })}
      ${cut && ` ${t("ask.more_namespaces", { most: count(MOST_LISTED) })}`}</p>
    ${chosen.length > 0 && html`<ul class="picked plain">${chosen.map((name) => html`<li key=${name}>
      <button type="button" onClick=${() => flip(name)(false)}>${name}<${Icon} name="close" /><span class="visually-hidden">${t("ask.remove")}</span></button></li>`)}
      <li><button type="button" class="link" onClick=${() => onChange([])}>${t("ask.none")}</button></li></ul>`}
    <${Text} label=${t("ask.search_namespaces")} type="search" value=${sought} onInput=${setSought} spellcheck=${false}
      onKeyDown=${(event) => { if (event.key === "Enter") { event.preventDefault(); if (found[0] && !chosen.includes(found[0]) && !full) flip(found[0])(true); } }} />
    <div class="pick-list" tabindex="0" role="group" aria-label=${t("play.namespaces")}>${found.slice(0, SHOWN).map(one)}
      ${found.length > SHOWN && html`<p class="hint">${t("ask.further", { count: count(found.length - SHOWN) })}</p>`}
      ${found.length === 0 && html`<p class="hint">${t("ask.no_match")}</p>`}</div>
  </fieldset>`;
}
