// The details of one run: the hits of each channel, the order after each stage, and the drops by rule.
import { html, useState } from "../../html.js";
import { count, exact, score } from "../../format.js";
import { Contributions, sumOf } from "../../parts/bars.js";
import { Segments } from "../../parts/fields.js";
import { Empty } from "../../parts/states.js";
import { Badge, Table } from "../../parts/table.js";
import { reasonOf } from "../../sentences.js";
import { t, word } from "../../words.js";
import { Named, useWanted } from "./names.js";
import { Explained } from "./why_not.js";

const SHOWN = 20;

export function Channels({ trace, names }) {
  return html`<div class="channels">${Object.entries(trace.channels).map(([channel, found]) => html`<${Channel} key=${channel} name=${channel} found=${found} names=${names} />`)}</div>`;
}

function Channel({ name, found, names }) {
  const [all, setAll] = useState(false);
  const hits = all ? found.hits : found.hits.slice(0, SHOWN);
  const best = Math.max(...found.hits.map((hit) => hit.score), 0);
  useWanted(names, hits.map((hit) => hit.chunk_id));
  return html`<section class="channel" aria-label=${word("channel", name)}>
    <h3><i class=${`dot ${name}`}></i>${word("channel", name)}
      <${Badge} of=${found.status} label=${word("status", found.status)} />
      <span class="muted">${t("play.weight", { weight: score(found.weight, 2) })}</span></h3>
    ${found.code && html`<p class="note warn"><code>${found.code}</code> ${reasonOf({ code: found.code, detail: found.error })}</p>`}
    ${found.hits.length === 0 && html`<p class="muted">${t("play.recalled_nothing")}</p>`}
    <ol class="raw">
      ${hits.map((hit) => html`<li key=${hit.chunk_id}>
        <span class="place">${hit.rank}</span>
        <span class="name"><${Named} id=${hit.chunk_id} names=${names} /></span>
        <span class="meter" aria-hidden="true"><i class=${name} style=${{ width: `${best > 0 ? Math.max(0, (100 * hit.score) / best) : 0}%` }}></i></span>
        <span class="number">${score(hit.score)}</span>
      </li>`)}
    </ol>
    ${found.hits.length > SHOWN && html`<button class="link" onClick=${() => setAll(!all)}>
      ${all ? t("play.fewer") : t("play.all_of", { count: count(found.hits.length) })}</button>`}
  </section>`;
}

export function Stages({ trace, names }) {
  const stages = trace.stages.map((stage, at) => ({ ...stage, id: `${stage.stage}-${stage.round}-${at}` }));
  const [chosen, setChosen] = useState(stages.at(-1)?.id);
  const at = Math.max(0, stages.findIndex((stage) => stage.id === chosen));
  const stage = stages[at];
  useWanted(names, stage?.hits.map((hit) => hit.chunk_id) ?? []);
  if (!stage) return html`<${Empty} title=${t("play.no_stages")} />`;
  const before = at > 0 ? new Map(stages[at - 1].hits.map((hit) => [hit.chunk_id, hit.place])) : null;
  const most = Math.max(...stage.hits.map((hit) => sumOf(hit.contributions)), 0);
  const decayed = stage.hits.some((hit) => hit.decay != null);
  const reranked = stage.hits.some((hit) => hit.rerank != null);
  const columns = [
    { key: "place", label: "#", numeric: true, render: (hit) => html`${hit.place}${before && html`<${Step} from=${before.get(hit.chunk_id)} to=${hit.place} />`}` },
    { key: "chunk", label: t("field.chunk"), main: true, render: (hit) => html`<${Named} id=${hit.chunk_id} names=${names} />` },
    { key: "bars", label: t("play.contributions"), wide: true, render: (hit) => html`<${Contributions} parts=${hit.contributions} most=${most} />` },
    decayed && { key: "decay", label: t("play.decayed"), numeric: true, render: (hit) => (hit.decay == null ? "–" : `× ${score(hit.decay)}`) },
    reranked && { key: "rerank", label: t("play.rerank"), numeric: true, render: (hit) => score(hit.rerank) },
    { key: "score", label: t("play.score"), numeric: true, render: (hit) => score(hit.score, 4) },
  ].filter(Boolean);
  return html`
    <${Segments} label=${t("play.stages")} value=${stage.id} onInput=${setChosen}
      options=${stages.map((each) => [each.id, word("run", each.stage) + (each.round > 1 ? ` ${each.round}` : "")])} />
    <${Table} caption=${word("run", stage.stage)} columns=${columns} rows=${stage.hits} rowKey=${(hit) => hit.chunk_id}
      rowClass=${(hit) => (trace.returned.includes(hit.chunk_id) ? "returned" : "")} />
    <p class="hint">${t("play.returned_marked")}</p>`;
}

function Step({ from, to }) {
  if (from === undefined || from === to) return null;
  return html` <span class="step" title=${t("play.from", { place: from })}>${from > to ? "↑" : "↓"}${Math.abs(from - to)}</span>`;
}

export function LeftOut({ trace, names, asked }) {
  const groups = new Map();
  for (const drop of trace.drops) {
    const key = `${drop.stage}/${drop.reason}`;
    groups.set(key, [...(groups.get(key) ?? []), drop]);
  }
  if (!groups.size) return html`<${Empty} title=${t("play.nothing_left_out")} />`;
  return html`${[...groups].map(([key, drops]) => html`<${Drops} key=${key} drops=${drops} names=${names} asked=${asked} />`)}`;
}

const DROPS_SHOWN = 50;

/** The drops by one rule; their names are read when the list is opened. */
function Drops({ drops, names, asked }) {
  const [open, setOpen] = useState(false);
  const [asking, setAsking] = useState(null);
  const shown = drops.slice(0, DROPS_SHOWN);
  useWanted(names, open ? shown.map((drop) => drop.chunk_id) : []);
  return html`<details class="drops" onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${word("run", drops[0].stage)}: ${word("lost", drops[0].reason, drops[0].reason.replaceAll("_", " "))} <span class="tab-note">${count(drops.length)}</span></summary>
    ${open && html`<ul class="plain lines">${shown.map((drop) => html`<li key=${drop.chunk_id}>
      <div class="row between"><span class="name"><${Named} id=${drop.chunk_id} names=${names} /></span>
        <span class="number muted">${exact(drop.value)} / ${exact(drop.limit)}</span>
        <button class="link" aria-expanded=${asking === drop.chunk_id} onClick=${() => setAsking(asking === drop.chunk_id ? null : drop.chunk_id)}>${t("play.why_not")}</button></div>
      ${asking === drop.chunk_id && html`<${Explained} queryId=${asked.queryId} chunkId=${drop.chunk_id} title=${names.title(drop.chunk_id)} />`}
    </li>`)}</ul>
    ${drops.length > DROPS_SHOWN && html`<p class="hint">${t("ask.further", { count: count(drops.length - DROPS_SHOWN) })}</p>`}`}
  </details>`;
}
