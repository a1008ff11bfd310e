// A page with a list of records: filters, search among what is loaded, actions, deletion, further pages.
import { html, useState } from "../html.js";
import { remove } from "../api.js";
import { count } from "../format.js";
import { useAction, usePages } from "../load.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t } from "../words.js";
import { Confirm } from "./dialog.js";
import { Text } from "./fields.js";
import { announce } from "./notices.js";
import { Empty, Loaded } from "./states.js";
import { More, Table } from "./table.js";

/**
 * `path`, `parameters`: the list of the API. `columns`: as for a Table. `nameOf(row)`: what a row is called, its key too
 * unless `rowKey` is given. `create`: `[address, label]`. `filters`: controls above the list. `searched(row)`: the text in
 * which a search among the loaded rows looks. `removal`: `{path(row) or run(row), title, text(row), scope, when(row)}`. `actions(row, list)`:
 * further buttons of a row. `empty`: `[title, text]`. `children(list)`: whatever stands below.
 */
export function Listing({
  title, about, path, parameters = {}, columns, nameOf, rowKey = nameOf, create, filters, searched, removal, actions, empty,
  buttons, limit = 50, everyMs = 0, children, head = true,
}) {
  const list = usePages(path, parameters, { limit, everyMs });
  const [text, setText] = useState("");
  const [removing, setRemoving] = useState(null);
  const take = useAction(async (row) => {
    await (removal.run?.(row) ?? remove(removal.path(row)));
    announce(t("listing.removed", { name: nameOf(row) }));
    list.reload();
  });
  const removes = removal && may(removal.scope ?? "write");
  const all = [...columns, (removes || actions) && { key: "do", label: t("field.actions"), actions: true, render: (row) => html`
    ${actions?.(row, list)}
    ${removes && (!removal.when || removal.when(row)) && html`<button class="quiet danger-text" onClick=${() => setRemoving(row)}
      aria-label=${`${t("listing.remove")}: ${nameOf(row)}`}>${t("listing.remove")}</button>`}` }].filter(Boolean);
  const wanted = text.trim().toLowerCase();
  const matching = (rows) => (wanted ? rows.filter((row) => searched(row).toLowerCase().includes(wanted)) : rows);
  const shown = matching(list.data?.rows ?? []);
  return html`
    ${head && html`<${Heading} title=${title} about=${about}>
      ${buttons}${create && may(removal?.scope ?? "write") && html`<a class="button primary" href=${create[0]}>${create[1]}</a>`}
    <//>`}
    ${(filters || searched) && html`<div class="toolbar">
      ${filters}
      ${searched && html`<${Text} label=${t("listing.search")} type="search" class="grow" value=${text} onInput=${setText} />`}
    </div>`}
    ${wanted && list.data?.next && html`<p class="hint" role="status">${t("listing.searched", { count: count(list.data.rows.length) })}</p>`}
    <${Loaded} of=${list} empty=${html`<${Empty} title=${empty[0]}>${empty[1] && html`<p>${empty[1]}</p>`}<//>`}>
      ${() => html`${shown.length
        ? html`<${Table} caption=${title} columns=${all} rows=${shown} rowKey=${rowKey} />`
        : html`<${Empty} title=${t("listing.no_match")} />`}
        <${More} pages=${list} />`}
    <//>
    ${children?.(list)}
    ${removing && html`<${Confirm} title=${removal.title} confirm=${t("listing.remove")} action=${take} args=${[removing]}
      close=${() => setRemoving(null)}><p>${removal.text(removing)}</p><//>`}`;
}
