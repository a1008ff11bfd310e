// The experiments of the tenant.
import { html } from "../../html.js";
import { segment } from "../../api.js";
import { percent } from "../../format.js";
import { Listing } from "../../parts/listing.js";
import { Badge } from "../../parts/table.js";
import { link } from "../../router.js";
import { t } from "../../words.js";

export const REMOVAL = () => ({
  path: (each) => `v1/experiments/${segment(each.experiment_id)}`,
  title: t("experiment.remove_title"), text: (each) => t("experiment.remove_text", { name: each.experiment_id }),
});

export const stateOf = (each) => html`<${Badge} of=${each.active ? "running" : "plain"} label=${each.active ? t("experiment.active") : t("experiment.stopped")} />`;

/** The share of the participants that each arm gets. */
export const sharesOf = ({ arms = [] }) => {
  const total = arms.reduce((sum, arm) => sum + (arm.share ?? 1), 0);
  return arms.map((arm) => [arm.name, total > 0 ? (arm.share ?? 1) / total : 0]);
};

export function Experiments() {
  const columns = [
    { key: "id", label: t("field.name"), main: true, render: (each) => html`<a class="title" href=${link("experiments", each.experiment_id)}>${each.experiment_id}</a>` },
    { key: "state", label: t("field.status"), render: stateOf },
    { key: "arms", label: t("experiment.arms"), wide: true, render: (each) => sharesOf(each.experiment).map(([name, share]) => `${name} ${percent(share)}`).join(", ") },
    { key: "coverage", label: t("experiment.coverage_short"), numeric: true, render: (each) => percent(each.experiment.coverage ?? 1) },
    { key: "note", label: t("profile.note"), render: (each) => each.experiment.note || "–" },
  ];
  return html`<${Listing} title=${t("nav.experiments")} about=${t("experiment.about")} path="v1/experiments" limit=${null} columns=${columns}
    nameOf=${(each) => each.experiment_id} searched=${(each) => JSON.stringify(each)} create=${[link("experiments", "+"), t("experiment.create")]}
    removal=${REMOVAL()} empty=${[t("experiment.none"), t("experiment.empty_text")]} />`;
}
