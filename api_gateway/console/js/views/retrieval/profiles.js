// The profiles of the tenant with their active version and their trial.
import { html } from "../../html.js";
import { segment } from "../../api.js";
import { percent } from "../../format.js";
import { Listing } from "../../parts/listing.js";
import { Badge } from "../../parts/table.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { t } from "../../words.js";

export const trialOf = (profile) => t("profile.trial", { version: profile.trial_version, share: percent(profile.trial_share) });

/** Deleting a built-in profile brings its first version back. */
export const removalOf = (profile) => (profile.built_in ? t("profile.restore_text", { name: profile.name }) : t("profile.remove_text", { name: profile.name }));

export function Profiles() {
  const columns = [
    { key: "name", label: t("field.name"), main: true, render: (each) => html`<a class="title" href=${link("profiles", each.name)}>${each.name}</a>
      ${each.built_in && html`<span class="under">${t("profile.built_in")}</span>`}` },
    { key: "version", label: t("profile.active"), numeric: true, render: (each) => each.config_version },
    { key: "trial", label: t("profile.on_trial"), render: (each) => (each.trial_version == null ? "–" : html`<${Badge} of="running" label=${trialOf(each)} />`) },
    { key: "note", label: t("profile.note"), wide: true, render: (each) => each.note || "–" },
  ];
  return html`<${Listing} title=${t("nav.profiles")} about=${t("profile.about")} path="v1/profiles" limit=${null} columns=${columns}
    nameOf=${(each) => each.name} searched=${(each) => `${each.name} ${each.note}`} create=${[link("profiles", "+"), t("profile.create")]}
    actions=${(each) => may("write") && html`<a class="button" href=${link("profiles", "+", each.name)} aria-label=${`${t("profile.copy")}: ${each.name}`}>${t("profile.copy")}</a>`}
    removal=${{ path: (each) => `v1/profiles/${segment(each.name)}`, title: t("profile.remove_title"), text: removalOf, when: (each) => !each.built_in || each.config_version > 1 }}
    empty=${[t("profile.empty")]} />`;
}
