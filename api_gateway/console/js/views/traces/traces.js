// The list of traces: kept ones with their questions and filters, all queries from the audit, and those of this tab.
import { html, useState } from "../../html.js";
import { ago, count, milliseconds, moment, short } from "../../format.js";
import { usePages } from "../../load.js";
import { Choice, Text, useNamespaces, useSettled } from "../../parts/fields.js";
import { Names } from "../../parts/name.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { Copyable, Empty, Loaded } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { go, link, route } from "../../router.js";
import { asked, may } from "../../session.js";
import { Heading } from "../../shell.js";
import { useStore } from "../../store.js";
import { t, word } from "../../words.js";
import { StatusOf } from "../playground/side.js";

const MARKS = ["slow", "degraded", "failed", "empty", "requested", "sampled"];
const HOURS = { "1h": 1, "6h": 6, "24h": 24, "7d": 168 };
const ID = /^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$/i;
const TONE = { failed: "bad", degraded: "warn", slow: "warn", empty: "busy" };
const PRINTABLE = /^[\x20-\x7e]*$/;

export function Traces() {
  return html`
    <${Heading} title=${t("nav.traces")} about=${t("trace.about")} />
    <${Open} />
    ${may("admin")
      ? html`<${Tabs} label=${t("nav.traces")} tabs=${[
          { id: "kept", label: t("trace.kept"), panel: () => html`<${Kept} />` },
          { id: "all", label: t("trace.latest"), panel: () => html`<${Latest} />` },
          { id: "mine", label: t("trace.mine"), panel: () => html`<${Mine} />` },
        ]} />`
      : html`<section aria-labelledby="mine"><h2 id="mine">${t("trace.mine")}</h2><${Mine} /></section>`}`;
}

function Open() {
  const [id, setId] = useState("");
  const [fault, setFault] = useState(null);
  function open(event) {
    event.preventDefault();
    if (ID.test(id.trim())) go("traces", id.trim());
    else setFault(t("trace.no_id"));
  }
  return html`<form class="panel ask" onSubmit=${open}>
    <${Text} label=${t("trace.id")} value=${id} fault=${fault} onInput=${(text) => { setId(text); setFault(null); }} class="grow" spellcheck=${false} maxlength="100" />
    <button class="primary" disabled=${!id.trim()}>${t("trace.open")}</button>
  </form>`;
}

const moments = (label, at) => ({ key: "at", label, render: (row) => html`<time datetime=${at(row)} title=${moment(at(row))}>${ago(at(row))}</time>` });
const codes = (id) => html`<${Copyable} text=${id} shown=${short(id)} label=${t("trace.copy_id")} />`;

function Kept() {
  const given = route.get().query;
  const [chosen, setChosen] = useState({ mark: given.get("mark") ?? "", namespace: given.get("namespace") ?? "", profile: given.get("profile") ?? "", time: "", from: "", to: "" });
  const namespaces = useNamespaces();
  const set = (name) => (value) => setChosen({ ...chosen, [name]: value });
  const settled = useSettled(chosen);
  const faults = faultsOf(chosen);
  return html`
    <p class="about">${t("trace.kept_about")}</p>
    <div class="fields">
      <${Choice} label=${t("trace.mark")} value=${chosen.mark} onInput=${set("mark")}
        options=${[["", t("field.all")], ...MARKS.map((mark) => [mark, word("mark", mark)])]} />
      <${NamespaceChoice} namespaces=${namespaces} all=${t("field.all")} value=${chosen.namespace} onInput=${set("namespace")} />
      <${Text} label=${t("play.profile")} value=${chosen.profile} onInput=${set("profile")} fault=${faults.profile} maxlength="64" spellcheck=${false} />
      <${Choice} label=${t("trace.time")} value=${chosen.time} onInput=${set("time")}
        options=${[["", t("field.all")], ...Object.keys(HOURS).map((time) => [time, t(`trace.last_${time}`)]), ["span", t("trace.span")]]} />
      ${chosen.time === "span" && html`
        <${Text} type="datetime-local" label=${t("trace.from")} value=${chosen.from} onInput=${set("from")} />
        <${Text} type="datetime-local" label=${t("trace.to")} value=${chosen.to} onInput=${set("to")} fault=${faults.to} />`}
    </div>
    ${Object.keys(faultsOf(settled)).length === 0 && html`<${KeptList} of=${parametersOf(settled)} />`}`;
}

function faultsOf({ profile, time, from, to }) {
  return {
    ...(!PRINTABLE.test(profile) && { profile: t("trace.no_profile") }),
    ...(time === "span" && from && to && to < from && { to: t("trace.before_from") }),
  };
}

function parametersOf({ mark, namespace, profile, time, from, to }) {
  const at = (text) => (text ? new Date(text).toISOString() : "");
  const hour = 60 * Math.floor(Date.now() / 60000) * 1000; // stays for a minute, or every rendering would load again
  const since = time === "span" ? at(from) : time ? new Date(hour - HOURS[time] * 3600000).toISOString() : "";
  return { mark, namespace, profile: profile.trim(), since, until: time === "span" ? at(to) : "" };
}

function KeptList({ of }) {
  const rows = usePages("v1/traces", of, { everyMs: 10000 });
  const filtered = Object.values(of).some(Boolean);
  const columns = [
    { key: "text", label: t("trace.query"), main: true, render: (row) => html`<a class="title" href=${link("traces", row.query_id)}>${row.text}</a>` },
    { key: "id", label: t("trace.id"), render: (row) => codes(row.query_id) },
    { key: "marks", label: t("trace.mark"), render: (row) => html`<span class="row">${row.marks.map((mark) => html`<${Badge} key=${mark} tone=${TONE[mark] ?? "plain"} label=${word("mark", mark)} />`)}</span>` },
    { key: "namespaces", label: t("play.namespaces"), render: (row) => html`<${Names} of=${row.namespaces} />` },
    { key: "profile", label: t("play.profile"), render: (row) => row.profile },
    { key: "chunks", label: t("trace.found"), numeric: true, render: (row) => count(row.chunks) },
    { key: "ms", label: t("play.timing"), numeric: true, render: (row) => milliseconds(row.total_ms) },
    moments(t("trace.at"), (row) => row.asked_at),
  ];
  const empty = filtered
    ? html`<${Empty} title=${t("trace.none_match")} />`
    : html`<${Empty} title=${t("trace.none")}>${t("trace.none_kept")} <a class="button" href=${link("playground")}>${t("nav.playground")}</a><//>`;
  return html`<${Loaded} of=${rows} empty=${empty}>
    ${(data) => html`<${Table} caption=${t("trace.kept")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.query_id} /><${More} pages=${rows} />`}
  <//>`;
}

/** From the audit, which holds query texts only if the installation stores them. */
function Latest() {
  const rows = usePages("v1/audit", { action: "search" }, { limit: 25, everyMs: 10000 });
  const columns = [
    { key: "id", label: t("trace.query"), main: true, render: (row) => html`
      <a href=${link("traces", row.detail.query_id)} title=${row.detail.query_id}>${row.query_text || html`<code>${short(row.detail.query_id)}</code>`}</a>` },
    { key: "status", label: t("field.status"), render: (row) => html`
      <${StatusOf} status=${row.status} degraded=${row.detail.degraded} />` },
    { key: "namespaces", label: t("play.namespaces"), render: (row) => html`<${Names} of=${row.namespaces} />` },
    { key: "profile", label: t("play.profile"), render: (row) => row.detail.profile },
    { key: "by", label: t("trace.by"), render: (row) => row.actor.key_name },
    { key: "found", label: t("trace.found"), numeric: true, render: (row) => count(row.count) },
    { key: "ms", label: t("play.timing"), numeric: true, render: (row) => milliseconds(row.detail.latency_ms) },
    moments(t("trace.at"), (row) => row.at),
  ];
  return html`
    <p class="about">${t("trace.latest_about")}</p>
    <${Loaded} of=${rows} empty=${html`<${Empty} title=${t("trace.none")} />`}>
      ${(data) => html`<${Table} caption=${t("trace.latest")} columns=${columns} rows=${data.rows} rowKey=${(row) => row.audit_id} /><${More} pages=${rows} />`}
    <//>`;
}

function Mine() {
  const mine = useStore(asked);
  const columns = [
    { key: "query", label: t("trace.query"), main: true, render: (each) => html`<a class="title" href=${link("traces", each.query_id)}>${each.text}</a>` },
    { key: "namespaces", label: t("play.namespaces"), render: (each) => html`<${Names} of=${each.namespaces} />` },
    { key: "id", label: t("trace.id"), render: (each) => codes(each.query_id) },
    moments(t("trace.at"), (each) => each.at),
  ];
  return mine.length
    ? html`<${Table} caption=${t("trace.mine")} columns=${columns} rows=${mine} rowKey=${(each) => each.query_id} />`
    : html`<${Empty} title=${t("trace.none")}><a class="button" href=${link("playground")}>${t("nav.playground")}</a><//>`;
}
