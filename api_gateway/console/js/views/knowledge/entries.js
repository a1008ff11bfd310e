// The entries of one kind in a dictionary: search, add one or many, delete.
import { html, useState } from "../../html.js";
import { count } from "../../format.js";
import { Area, Text } from "../../parts/fields.js";
import { Empty } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { said } from "../../sentences.js";
import { may } from "../../session.js";
import { t } from "../../words.js";
import { keyOf, lineOf, parsed } from "./dictionary_lines.js";

const SHOWN = 100;
const MOST_FAULTS = 20;

export function Entries({ kind, entries, onInput, namespace }) {
  const [wanted, setWanted] = useState("");
  const [most, setMost] = useState(SHOWN);
  const matching = entries.filter((entry) => lineOf(kind, entry).toLowerCase().includes(wanted.trim().toLowerCase()));
  const columns = [
    { key: "entry", label: t(`dictionary.${kind}`), main: true, render: (entry) => (kind === "rules" ? entry.when : lineOf(kind, entry)) },
    kind === "rules" && { key: "document", label: t("field.document"), render: (entry) => `${entry.namespace} / ${entry.document_id}` },
    kind === "rules" && { key: "boost", label: t("dictionary.boost"), numeric: true, render: (entry) => `× ${count(entry.boost)}` },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: (entry) => html`<button class="quiet danger-text"
      aria-label=${`${t("listing.remove")}: ${lineOf(kind, entry)}`} onClick=${() => onInput(entries.filter((each) => each !== entry))}>${t("listing.remove")}</button>` },
  ].filter(Boolean);
  return html`
    <p class="about">${t(`dictionary.${kind}_about`)}</p>
    ${may("write") && html`<${Adding} kind=${kind} namespace=${namespace} present=${entries.map(keyOf)} onAdd=${(more) => onInput([...more, ...entries])} />`}
    ${entries.length > 0 && html`<${Text} label=${t("listing.search")} type="search" value=${wanted} onInput=${setWanted} />`}
    ${matching.length
      ? html`<${Table} caption=${t(`dictionary.${kind}`)} columns=${columns} rows=${matching.slice(0, most)} rowKey=${keyOf} />`
      : html`<${Empty} title=${entries.length ? t("listing.no_match") : t("dictionary.empty")} />`}
    ${matching.length > most && html`<p class="more"><button onClick=${() => setMost(most + SHOWN)}>${t("action.more")} (${count(matching.length - most)})</button></p>`}`;
}

/** Lines to add, one at first; good ones are taken, faulty ones stay and are named. */
function Adding({ kind, present, namespace, onAdd }) {
  const [text, setText] = useState("");
  const [result, setResult] = useState(null);
  function add(event) {
    event.preventDefault();
    const { entries, faults, repeated } = parsed(kind, text, present, namespace);
    if (entries.length) onAdd(entries);
    setText(faults.map((fault) => fault.text).join("\n"));
    setResult({ added: entries.length, faults, repeated });
  }
  return html`<form class="panel tight" onSubmit=${add}>
    <${Area} label=${t("dictionary.add_label")} rows=${Math.min(12, text.split("\n").length + 1)} required value=${text} onInput=${setText} hint=${t(`dictionary.${kind}_form`)} />
    <div class="buttons"><button disabled=${!text.trim()}>${t("dictionary.add")}</button></div>
    ${result && html`<div role="status">
      <p>${t("dictionary.added", { count: count(result.added) })}${result.repeated > 0 && ` ${t("dictionary.repeated", { count: count(result.repeated) })}`}</p>
      ${result.faults.length > 0 && html`<p class="bad-text">${t("dictionary.faulty", { count: count(result.faults.length) })}</p>
        <ul class="plain lines">${result.faults.slice(0, MOST_FAULTS).map((fault) => html`<li key=${fault.line}>
          <b>${t("dictionary.line", { line: fault.line })}</b> <code>${fault.text.slice(0, 80)}</code> <span class="bad-text">${said(fault.detail)}</span></li>`)}</ul>`}
    </div>`}
  </form>`;
}
