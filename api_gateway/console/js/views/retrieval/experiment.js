// One experiment: the results of its arms, and its settings.
import { html, useState } from "../../html.js";
import { get, remove, segment, send } from "../../api.js";
import { count, milliseconds, percent, score } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Confirm } from "../../parts/dialog.js";
import { announce } from "../../parts/notices.js";
import { RecordForm } from "../../parts/record.js";
import { Rows } from "../../parts/rows.js";
import { Empty, Loaded } from "../../parts/states.js";
import { Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { go, link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { REMOVAL, stateOf } from "./experiments.js";

const BACK = () => [link("experiments"), t("nav.experiments")];

export function Experiment({ parts: [name] }) {
  if (name === "+") {
    return html`<${Heading} title=${t("experiment.create")} about=${t("experiment.create_about")} back=${BACK()} />
      <${Settings} onSaved=${(saved) => go("experiments", saved.experiment_id)} />`;
  }
  return html`<${Stored} key=${name} name=${name} />`;
}

function Stored({ name }) {
  const address = `v1/experiments/${segment(name)}`;
  const experiment = useLoad((signal) => get(address, { signal }), [address]);
  const [asking, setAsking] = useState(null);
  const [turn, setTurn] = useState(0);
  const ends = experiment.data?.active;
  const stop = useAction(async () => {
    const { body, headers } = await send("GET", address);
    await send("PUT", address, { json: { experiment: body.experiment, active: !ends }, headers: { "If-Match": headers.get("ETag") } });
    announce(t("form.saved"));
    experiment.reload();
    setTurn(turn + 1); // the form below read the earlier state
  });
  const drop = useAction(async () => {
    await remove(address);
    announce(t("listing.removed", { name }));
    go("experiments");
  });
  return html`
    <${Heading} title=${name} back=${BACK()}>
      ${experiment.data && stateOf(experiment.data)}
      ${may("write") && experiment.data && html`
        <button onClick=${() => setAsking("stop")}>${ends ? t("experiment.stop") : t("experiment.start")}</button>
        <button class="danger-text" onClick=${() => setAsking("drop")}>${t("listing.remove")}</button>`}
    <//>
    <${Tabs} label=${name} tabs=${[
      { id: "results", label: t("experiment.results"), panel: () => html`<${Results} address=${address} />` },
      { id: "settings", label: t("profile.settings"), panel: () => html`<${Settings} key=${turn} name=${name} onSaved=${experiment.reload} />` },
    ]} />
    ${asking === "stop" && html`<${Confirm} title=${ends ? t("experiment.stop_title") : t("experiment.start_title")} confirm=${ends ? t("experiment.stop") : t("experiment.start")}
      action=${stop} danger=${ends} close=${() => setAsking(null)}><p>${ends ? t("experiment.stop_text") : t("experiment.start_text")}</p><//>`}
    ${asking === "drop" && html`<${Confirm} title=${t("experiment.remove_title")} confirm=${t("listing.remove")} action=${drop}
      close=${() => setAsking(null)}><p>${REMOVAL().text({ experiment_id: name })}</p><//>`}`;
}

const armRows = (arms = []) => arms.map((arm) => ({
  name: arm.name, share: String(arm.share ?? 1), profile: arm.profile ?? "", overrides: arm.overrides && Object.keys(arm.overrides).length ? JSON.stringify(arm.overrides) : "",
}));

const armOf = ({ name, share, profile, overrides }) => ({
  name: name.trim(), share: Number(share), ...(profile ? { profile } : {}), ...(overrides.trim() ? { overrides: JSON.parse(overrides) } : {}),
});

const TWO = [{ name: "control", share: 1 }, { name: "treatment", share: 1 }];

function Settings({ name = null, onSaved }) {
  const profiles = useLoad((signal) => get("v1/profiles", { signal }).then((page) => page.data), []);
  const fields = [
    { name: "active", kind: "check", label: t("experiment.active_label") },
    { name: "experiment/note", label: t("profile.note"), maxlength: 255 },
    { name: "experiment/coverage", kind: "number", min: 0, max: 1, step: "any", label: t("experiment.coverage"), hint: t("experiment.coverage_hint") },
    { name: "experiment/salt", label: t("experiment.salt"), maxlength: 64, hint: t("experiment.salt_hint") },
  ];
  const columns = [
    { name: "name", label: t("experiment.arm"), required: true, maxlength: 64 },
    { name: "share", label: t("experiment.share"), type: "number", min: 0, max: 1000, step: "any", required: true },
    { name: "profile", label: t("play.profile"), options: [["", t("experiment.own_profile")], ...(profiles.data ?? []).map((each) => [each.name, each.name])] },
    { name: "overrides", label: t("experiment.overrides"), placeholder: '{"top_k": 5}', spellcheck: false, check: isObject },
  ];
  return html`<${RecordForm} path=${name && `v1/experiments/${segment(name)}`} collection="v1/experiments" fields=${fields}
    naming=${{ field: "experiment_id", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", hint: t("profile.name_hint") }}
    draft=${({ active = true, experiment = {} }) => ({
      active, "experiment/note": experiment.note ?? "", "experiment/coverage": String(experiment.coverage ?? 1), "experiment/salt": experiment.salt ?? "",
      arms: armRows(experiment.arms ?? TWO),
    })}
    body=${(draft) => ({ active: draft.active, experiment: {
      note: draft["experiment/note"], coverage: Number(draft["experiment/coverage"] || 1), salt: draft["experiment/salt"], arms: draft.arms.map(armOf),
    } })}
    onSaved=${onSaved}>
    ${(draft, setDraft, error) => html`<${Rows} label=${t("experiment.arms")} columns=${columns} value=${draft.arms} least=${1} error=${error} pointer="/experiment/arms"
      blank=${{ name: "", share: "1", profile: "", overrides: "" }} add=${t("experiment.add_arm")} onInput=${(arms) => setDraft({ ...draft, arms })} />`}
  <//>`;
}

const isObject = (text) => {
  try {
    const value = JSON.parse(text || "{}");
    return typeof value === "object" && value !== null && !Array.isArray(value) ? "" : t("form.no_object");
  } catch {
    return t("form.no_json");
  }
};

/** Searches and ratings of each arm, counted by the server. */
function Results({ address }) {
  const results = useLoad((signal) => get(`${address}/results`, { signal }).then((body) => ({ rows: body.buckets })), [address], { everyMs: 30000 });
  const part = (name) => ({ key: name, label: t(`experiment.${name}`), numeric: true, render: (arm) => (arm.searches ? `${count(arm[name])} (${percent(arm[name] / arm.searches)})` : count(arm[name])) });
  const columns = [
    { key: "arm", label: t("experiment.arm"), main: true, render: (arm) => html`<b>${arm.bucket}</b>` },
    { key: "searches", label: t("experiment.searches"), numeric: true, render: (arm) => count(arm.searches) },
    part("empty"), part("degraded"), part("failed"),
    { key: "latency", label: t("experiment.latency"), numeric: true, render: (arm) => milliseconds(arm.mean_latency_ms) },
    { key: "rated", label: t("experiment.rated"), wide: true, render: (arm) => html`<${Ratings} arm=${arm} />` },
    { key: "sessions", label: t("experiment.sessions"), numeric: true, render: (arm) => count(arm.sessions) },
    { key: "place", label: t("experiment.click_place"), numeric: true, render: (arm) => score(arm.mean_click_place, 1) },
  ];
  return html`<p class="about">${t("experiment.results_about")}</p>
    <${Loaded} of=${results} isEmpty=${(data) => data.rows.every((arm) => !arm.searches && !arm.queries)}
      empty=${html`<${Empty} title=${t("experiment.no_results")}><p>${t("experiment.no_results_text")}</p><//>`}>
      ${(data) => html`<${Table} caption=${t("experiment.results")} columns=${columns} rows=${data.rows} rowKey=${(arm) => arm.bucket} />`}
    <//>`;
}

/** The share of good and bad ratings as a bar, and all counts as text. */
function Ratings({ arm }) {
  const rated = arm.good + arm.bad;
  return html`<span>
    <span class="progress-bar" aria-hidden="true">${rated > 0 && html`
      <span class="good" style=${{ width: `${(100 * arm.good) / rated}%` }}></span><span class="bad" style=${{ width: `${(100 * arm.bad) / rated}%` }}></span>`}</span>
    <span class="under">${t("experiment.ratings", { good: count(arm.good), bad: count(arm.bad), clicks: count(arm.clicks) })}</span>
  </span>`;
}
