// What differs between two JSON values, one line for each place.
import { html } from "../html.js";
import { t } from "../words.js";
import { Table } from "./table.js";

/** `[path, before, after]` of each place that differs; undefined where one side has nothing. Lists are compared whole. */
export function changesOf(before, after, path = "") {
  if (!isObject(before) || !isObject(after)) {
    return JSON.stringify(before) === JSON.stringify(after) ? [] : [[path, before, after]];
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return keys.flatMap((key) => changesOf(before[key], after[key], path ? `${path}.${key}` : key));
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** `labels`: the names of both sides; `name(path)`: the name of a place. */
export function Changes({ before, after, labels = [t("changes.before"), t("changes.after")], name = (path) => path }) {
  const rows = changesOf(before ?? {}, after ?? {});
  if (!rows.length) return html`<p class="muted">${t("changes.none")}</p>`;
  const columns = [
    { key: "place", label: t("changes.setting"), main: true, render: ([path]) => html`<code>${name(path)}</code>` },
    { key: "before", label: labels[0], render: ([, value]) => shown(value) },
    { key: "after", label: labels[1], render: ([, , value]) => shown(value) },
  ];
  return html`<${Table} caption=${t("changes.title")} columns=${columns} rows=${rows} rowKey=${([path]) => path} />`;
}

function shown(value) {
  if (value === undefined) return "–";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return html`<code class="value">${text.length > 400 ? `${text.slice(0, 400)}…` : text}</code>`;
}
