// Filters of a query, offered from the documents of the chosen namespaces.
import { html, useId, useState } from "../../html.js";
import { get, segment } from "../../api.js";
import { NO_TEXTS, TEXT_NAMES } from "../../document_fields.js";
import { count, day } from "../../format.js";
import { useLoad } from "../../load.js";
import { Choice, Field, Text } from "../../parts/fields.js";
import { Icon } from "../../parts/icons.js";
import { Problem } from "../../parts/states.js";
import { t } from "../../words.js";

export const NO_FILTERS = { ...NO_TEXTS, tags: [], start: "", end: "", metadata: [], story: "", where: "" };
const AT_ONCE = 4;

/** `{filters, story_time}` of a body, without those that are not set. */
export function filtersOf({ tags, start, end, metadata, story, ...texts }) {
  const filters = {
    ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text)), ...(tags.length && { tags }),
    ...(start && { start: `${start}T00:00:00Z` }), ...(end && { end: `${end}T23:59:59Z` }),
    ...(metadata.length && { metadata: Object.fromEntries(metadata) }),
  };
  return { ...(Object.keys(filters).length && { filters }), ...(story !== "" && { story_time: Number(story) }) };
}

/** The field at fault, or null. */
export function faultOf({ start, end, story }) {
  if (start && end && end < start) return "end";
  return story !== "" && !Number.isSafeInteger(Number(story)) ? "story" : null;
}

export function Filters({ namespaces, value, onChange, facets, onFacets, group, onGroup }) {
  const [open, setOpen] = useState(false);
  const set = (name) => (next) => onChange({ ...value, [name]: next });
  const { filters = {}, story_time: story } = filtersOf(value);
  const used = Object.keys(filters).length + (story === undefined ? 0 : 1);
  return html`<details class="fold filters" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${t("filter.title")} ${used > 0 && html`<span class="tab-note">${used}</span>`}</summary>
    ${open && html`<${Offered} namespaces=${namespaces} value=${value} set=${set} />
      <${Text} label=${t("facet.fields")} value=${facets ?? ""} onInput=${onFacets} spellcheck=${false} placeholder=${t("facet.example")} />
      <${Text} label=${t("facet.group")} value=${group ?? ""} onInput=${onGroup} spellcheck=${false} placeholder=${t("facet.group_example")} />`}
    ${used > 0 && html`<button type="button" class="link" onClick=${() => onChange(NO_FILTERS)}>${t("filter.clear")}</button>`}
  </details>`;
}

function Offered({ namespaces, value, set }) {
  const loaded = useLoad((signal) => readAll(namespaces, signal), [namespaces.join("/")]);
  const fields = loaded.data ?? merged([]);
  const fault = faultOf(value);
  const any = ["", t("filter.any")];
  const options = (values, now) => [any, ...(now && !values.some((each) => each.value === now) ? [[now, now]] : []),
    ...values.map((each) => [each.value, `${each.value} (${count(each.documents)})`])];
  const range = (from, to) => (from == null ? undefined : t("filter.range", { from, to }));
  return html`<div aria-busy=${loaded.loading}>
    ${loaded.error && html`<${Problem} error=${loaded.error} retry=${loaded.reload} />`}
    <p class="hint" role="status">${!loaded.data ? t("state.loading") : fields.complete
      ? t("filter.counted", { count: count(fields.documents_read) }) : t("filter.counted_some", { count: count(fields.documents_read) })}</p>
    <${Text} label=${t("filter.where")} value=${value.where} onInput=${set("where")} spellcheck=${false} placeholder=${t("filter.where_example")}
      hint=${t("filter.where_hint")} />
    <div class="fields">
      ${TEXT_NAMES.map((name) => html`<${Choice} key=${name} label=${t(`field.${name}`)} value=${value[name]} onInput=${set(name)}
        options=${options(fields[`${name}s`], value[name])} />`)}
      <${Adder} label=${t("field.tags")} values=${fields.tags} onAdd=${(tag) => value.tags.includes(tag) || set("tags")([...value.tags, tag])} />
      <${Text} label=${t("filter.start")} type="date" value=${value.start} onInput=${set("start")}
        hint=${range(fields.published_from && day(fields.published_from), day(fields.published_to))} />
      <${Text} label=${t("filter.end")} type="date" value=${value.end} onInput=${set("end")} fault=${fault === "end" && t("filter.end_first")} />
      <${Text} label=${t("filter.story")} type="number" step="1" value=${value.story} onInput=${set("story")}
        fault=${fault === "story" && t("filter.whole")} hint=${range(fields.story_from, fields.story_to)} />
      <${Metadata} keys=${fields.metadata} onAdd=${(key, chosen) => set("metadata")([...value.metadata.filter(([name]) => name !== key), [key, chosen]])} />
    </div>
    <${Picked} of=${[
      ...value.tags.map((tag) => [tag, () => set("tags")(value.tags.filter((each) => each !== tag))]),
      ...value.metadata.map(([key, chosen]) => [`${key} = ${chosen}`, () => set("metadata")(value.metadata.filter(([name]) => name !== key))]),
    ]} />
  </div>`;
}

const Picked = ({ of }) => of.length > 0 && html`<ul class="picked plain">${of.map(([text, remove]) => html`<li key=${text}>
  <button type="button" onClick=${remove}>${text}<${Icon} name="close" /><span class="visually-hidden">${t("ask.remove")}</span></button></li>`)}</ul>`;

/** A text field that offers the values in use, and adds one on Enter or on choosing it. */
function Adder({ label, values, onAdd, hint }) {
  const [text, setText] = useState("");
  const list = useId();
  function add(given) {
    const plain = given.trim();
    if (plain) onAdd(plain);
    setText("");
  }
  const pressed = (event) => { if (event.key === "Enter") { event.preventDefault(); add(text); } };
  return html`<${Field} label=${label} hint=${hint}>${(ties) => html`<div class="adder">
    <input type="text" list=${list} autocomplete="off" spellcheck=${false} ...${ties} value=${text} onKeyDown=${pressed}
      onInput=${(event) => (event.inputType === "insertReplacementText" ? add(event.target.value) : setText(event.target.value))} />
    <button type="button" disabled=${!text.trim()} onClick=${() => add(text)}>${t("filter.add")}</button>
    <datalist id=${list}>${values.map((each) => html`<option key=${each.value} value=${String(each.value)}>${count(each.documents)}</option>`)}</datalist>
  </div>`}<//>`;
}

function Metadata({ keys, onAdd }) {
  const [key, setKey] = useState("");
  const names = Object.keys(keys);
  if (!names.length) return null;
  const name = keys[key] ? key : names[0];
  // A number stays a number: the filter compares types too.
  const typed = (text) => keys[name].find((each) => String(each.value) === text)?.value
    ?? (keys[name].every((each) => typeof each.value === "number") && Number.isFinite(Number(text)) ? Number(text) : text);
  return html`<${Choice} label=${t("field.metadata")} value=${name} onInput=${setKey} options=${names.map((each) => [each, each])} />
    <${Adder} key=${name} label=${t("filter.value_of", { key: name })} values=${keys[name]} onAdd=${(text) => onAdd(name, typed(text))} />`;
}

async function readAll(namespaces, signal) {
  const pages = [];
  for (let at = 0; at < namespaces.length; at += AT_ONCE) {
    pages.push(...await Promise.all(namespaces.slice(at, at + AT_ONCE).map((name) => get(`v1/namespaces/${segment(name)}/fields`, { signal }))));
  }
  return merged(pages);
}

function merged(pages) {
  const sum = (lists) => {
    const values = new Map();
    for (const { value, documents } of lists.flat()) {
      const key = JSON.stringify(value);
      values.set(key, { value, documents: documents + (values.get(key)?.documents ?? 0) });
    }
    return [...values.values()].sort((a, b) => b.documents - a.documents);
  };
  const ends = (name, pick) => pages.map((page) => page[name]).filter((each) => each != null).reduce((a, b) => (a === null ? b : pick(a, b)), null);
  const least = (a, b) => (a < b ? a : b);
  const most = (a, b) => (a > b ? a : b);
  const keys = [...new Set(pages.flatMap((page) => Object.keys(page.metadata)))];
  return {
    complete: pages.every((page) => page.complete),
    documents_read: pages.reduce((all, page) => all + page.documents_read, 0),
    ...Object.fromEntries([...TEXT_NAMES.map((name) => `${name}s`), "tags"].map((name) => [name, sum(pages.map((page) => page[name].values))])),
    metadata: Object.fromEntries(keys.map((key) => [key, sum(pages.map((page) => page.metadata[key]?.values ?? []))])),
    published_from: ends("published_from", least), published_to: ends("published_to", most),
    story_from: ends("story_from", least), story_to: ends("story_to", most),
  };
}
