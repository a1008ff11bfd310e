// One profile: its active version and trial, its settings, its versions with their differences.
import { html, useState } from "../../html.js";
import { get, post, remove, segment } from "../../api.js";
import { ago, moment } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Changes } from "../../parts/changes.js";
import { Confirm } from "../../parts/dialog.js";
import { Choice, Text } from "../../parts/fields.js";
import { announce } from "../../parts/notices.js";
import { Loaded } from "../../parts/states.js";
import { Badge, Facts, Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { go, link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { ProfileForm } from "./profile_form.js";
import { removalOf, trialOf } from "./profiles.js";

const BACK = () => [link("profiles"), t("nav.profiles")];

export function Profile({ parts: [name, from] }) {
  if (name === "+") {
    return html`<${Heading} title=${t("profile.create")} about=${t("profile.create_about")} back=${BACK()} />
      <${ProfileForm} from=${from} onSaved=${(saved) => go("profiles", saved.name)} />`;
  }
  return html`<${Stored} name=${name} key=${name} />`;
}

function Stored({ name }) {
  const address = `v1/profiles/${segment(name)}`;
  const profile = useLoad((signal) => get(address, { signal }), [address]);
  const versions = useLoad((signal) => get(`${address}/versions`, { signal }).then((page) => page.data), [address]);
  const [asking, setAsking] = useState(null);
  const reload = () => { profile.reload(); versions.reload(); };
  const rollBack = useAction(async () => {
    await post(`${address}/rollback`);
    announce(t("profile.rolled_back"));
    reload();
  });
  const drop = useAction(async () => {
    await remove(address);
    announce(t("listing.removed", { name }));
    go("profiles");
  });
  return html`
    <${Heading} title=${name} back=${BACK()}>
      ${may("write") && profile.data && html`
        <button disabled=${profile.data.trial_version == null && profile.data.previous_version == null} onClick=${() => setAsking("back")}>
          ${profile.data.trial_version == null ? t("profile.roll_back") : t("profile.end_trial")}</button>
        <button class="danger-text" disabled=${profile.data.built_in && profile.data.config_version === 1 && versions.data?.length === 1} onClick=${() => setAsking("drop")}>${t("listing.remove")}</button>`}
    <//>
    <${Loaded} of=${profile} lines=${2}>${(data) => html`<${Facts} of=${[
      [t("profile.active"), data.config_version],
      [t("profile.on_trial"), data.trial_version == null ? null : trialOf(data)],
      [t("profile.previous"), data.previous_version],
      [t("profile.note"), data.note || null],
    ]} />`}<//>
    <${Tabs} label=${name} tabs=${[
      { id: "settings", label: t("profile.settings"), panel: () => html`<${ProfileForm} name=${name} onSaved=${reload} />` },
      { id: "versions", label: t("profile.versions"), note: versions.data?.length, panel: () => html`
        <${Versions} versions=${versions} profile=${profile.data} address=${address} onDone=${reload} />` },
      { id: "plan", label: t("profile.plan"), panel: () => html`<p class="about">${t("profile.plan_about")}</p>
        <${Loaded} of=${profile}>${(data) => html`<pre class="context">${JSON.stringify(data.plan, null, 2)}</pre>`}<//>` },
    ]} />
    ${asking === "back" && html`<${Confirm} title=${profile.data.trial_version == null ? t("profile.roll_back") : t("profile.end_trial")} confirm=${t("profile.roll_back")} action=${rollBack}
      close=${() => setAsking(null)}><p>${profile.data.trial_version == null
        ? t("profile.roll_back_text", { version: profile.data.previous_version }) : t("profile.end_trial_text", { version: profile.data.trial_version })}</p><//>`}
    ${asking === "drop" && html`<${Confirm} title=${t("profile.remove_title")} confirm=${t("listing.remove")} action=${drop} close=${() => setAsking(null)}><p>${removalOf(profile.data)}</p><//>`}`;
}

function Versions({ versions, profile, address, onDone }) {
  const [pair, setPair] = useState([null, null]);
  const [choosing, setChoosing] = useState(null);
  const [share, setShare] = useState("1");
  const activate = useAction(async (version) => {
    await post(`${address}/activate`, { version, share: Number(share) });
    announce(t("profile.activated", { version }));
    onDone();
  });
  const state = (version) => (version === profile?.config_version ? ["shown", t("profile.active")]
    : version === profile?.trial_version ? ["running", trialOf(profile)] : null);
  const columns = [
    { key: "version", label: t("profile.version"), main: true, render: (each) => html`<b>${each.config_version}</b>` },
    { key: "state", label: t("field.status"), render: ({ config_version: version }) => (state(version) ? html`<${Badge} of=${state(version)[0]} label=${state(version)[1]} />` : "–") },
    { key: "note", label: t("profile.note"), wide: true, render: (each) => each.note || "–" },
    { key: "by", label: t("profile.by"), render: (each) => each.created_by || "–" },
    { key: "at", label: t("field.created"), render: (each) => html`<time title=${moment(each.created_at)}>${ago(each.created_at)}</time>` },
    may("write") && { key: "do", label: t("field.actions"), actions: true, render: ({ config_version: version }) => html`
      <button onClick=${() => { setShare("1"); setChoosing(version); }} aria-label=${`${t("profile.activate")}: ${version}`}>${t("profile.activate")}</button>` },
  ].filter(Boolean);
  return html`<${Loaded} of=${versions} isEmpty=${() => false}>${(rows) => {
    const options = rows.map((each) => [String(each.config_version), t("profile.version_option", { version: each.config_version, note: each.note })]);
    const [before, after] = [pair[0] ?? options[Math.min(1, options.length - 1)][0], pair[1] ?? options[0][0]];
    const config = (version) => rows.find((each) => String(each.config_version) === version)?.config;
    return html`<${Table} caption=${t("profile.versions")} columns=${columns} rows=${rows} rowKey=${(each) => each.config_version} />
      <section aria-labelledby="differences">
        <h2 id="differences">${t("changes.title")}</h2>
        <div class="toolbar">
          <${Choice} label=${t("changes.before")} value=${before} options=${options} onInput=${(value) => setPair([value, after])} />
          <${Choice} label=${t("changes.after")} value=${after} options=${options} onInput=${(value) => setPair([before, value])} />
        </div>
        <${Changes} before=${config(before)} after=${config(after)} />
      </section>
      ${choosing && html`<${Confirm} title=${t("profile.activate_title", { version: choosing })} confirm=${t("profile.activate")} action=${activate} args=${[choosing]}
        danger=${false} close=${() => setChoosing(null)}>
        <${Text} label=${t("profile.share")} type="number" min="0.01" max="1" step="any" value=${share} onInput=${setShare} hint=${t("profile.activate_hint")} /><//>`}`;
  }}<//>`;
}
