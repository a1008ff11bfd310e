// The configuration of a profile: a form for the usual settings over the JSON of all of them.
import { html } from "../../html.js";
import { segment } from "../../api.js";
import { Changes } from "../../parts/changes.js";
import { Segments } from "../../parts/fields.js";
import { drafted, sent } from "../../parts/form.js";
import { RecordForm } from "../../parts/record.js";
import { t, word } from "../../words.js";

const CHANNELS = ["keyword", "semantic", "faq", "api"];

/** The fields of the form; an empty one is left to the installation, whose value in `plan` is shown in its place. */
function fieldsOf(plan) {
  const field = (name, kind, more = {}) => {
    const inherited = name.split("/").reduce((value, key) => value?.[key], plan);
    const shown = inherited == null ? "" : word("plan", inherited);
    const unset = shown === "" ? "–" : t("profile.inherited", { value: typeof inherited === "boolean" ? t(inherited ? "field.on" : "field.off") : shown });
    const options = more.options && [["", unset], ...more.options.map((value) => [value, word("plan", value)])];
    return { name: `config/${name}`, kind, label: word("setting", name.replaceAll("/", "_")), placeholder: shown, ...more, ...(options ? { options } : {}), ...(kind === "toggle" ? { unset } : {}) };
  };
  const number = (name, min, max, step = 1) => field(name, "number", { min, max, step });
  return [
    { group: t("profile.group_recall"), fields: [
      field("retrieve/method", "choice", { options: ["hybrid", "full_text", "semantic"] }),
      number("top_k", 1, 1000),
      ...CHANNELS.map((name) => number(`retrieve/channels/${name}/weight`, 0, 100, "any")),
      number("deadline_ms", 200, 60000),
    ] },
    { group: t("profile.group_fusion"), fields: [
      field("retrieve/fusion/strategy", "choice", { options: ["rrf", "weighted", "custom"] }),
      number("retrieve/fusion/k", 0, 10000),
      field("retrieve/fusion/normalisation", "choice", { options: ["min_max", "z_score"] }),
      number("retrieve/fusion/gate", 0, 1, "any"),
    ] },
    { group: t("profile.group_rerank"), fields: [
      field("rerank/enabled", "toggle"),
      field("rerank/provider", "choice", { options: ["auto", "local", "llm", "http"] }),
      number("rerank/top_n", 1, 200), number("rerank/threshold", 0, 1, "any"),
    ] },
    { group: t("profile.group_time"), fields: [
      field("retrieve/time_decay/shape", "choice", { options: ["half_life", "hyperbolic", "window"] }),
      field("retrieve/time_decay/by", "choice", { options: ["published_at", "updated_at", "story_time"] }),
      number("retrieve/time_decay/half_life_days", 0.01, 100000, "any"), number("retrieve/time_decay/scale", 0, undefined, "any"),
      number("retrieve/time_decay/floor", 0, 1, "any"),
    ] },
    { group: t("profile.group_selection"), fields: [
      number("retrieve/score_threshold", 0, 1, "any"),
      field("retrieve/selection/dedupe", "choice", { options: ["chunk", "document", "content"] }),
      number("retrieve/selection/per_document", 1, 1000), number("retrieve/selection/diversity", 0, 1, "any"),
    ] },
    { group: t("profile.group_understand"), fields: [
      field("understand/router", "choice", { options: ["off", "rules", "llm"] }),
      field("understand/rewrite", "toggle"), field("understand/hyde", "toggle"), number("understand/expand", 0, 8),
    ] },
    { group: t("profile.group_fallback"), fields: [
      field("fallback/enabled", "toggle"), number("fallback/threshold", 0, 1, "any"), field("fallback/faq", "toggle"),
      field("fallback/hint", "text", { maxlength: 2000 }), number("context/max_tokens", 1, 32000), field("privacy/mask_answers", "toggle"),
    ] },
  ];
}

const RELEASE = () => [
  { name: "note", label: t("profile.note"), maxlength: 255, hint: t("profile.note_hint") },
  { name: "share", label: t("profile.share"), kind: "number", min: 0, max: 1, step: "any", required: true, hint: t("profile.share_hint") },
];

/** The JSON of all settings is the truth; the form lies over it while it is shown. */
const textOf = (config) => JSON.stringify(config, null, 2);

function configOf(draft) {
  const config = JSON.parse(draft.config || "{}");
  return draft.mode === "json" ? config : sent(fieldsOf(), draft, { config }).config ?? {};
}

function comparable(draft) {
  try {
    return configOf(draft);
  } catch {
    return draft.config; // as text
  }
}

function switched(draft, mode) {
  try {
    const config = configOf(draft);
    return { ...draft, ...drafted(fieldsOf(), { config }), config: textOf(config), mode };
  } catch {
    return draft; // not JSON: the form cannot show it, and says so beside the field
  }
}

export function ProfileForm({ name = null, from = null, onSaved }) {
  const fields = (draft, record) => [
    ...(draft.mode === "json" ? [{ name: "config", kind: "json", label: t("profile.config") }] : fieldsOf(record.plan)),
    ...RELEASE(),
  ];
  return html`<${RecordForm} key=${name} path=${name && `v1/profiles/${segment(name)}`} collection="v1/profiles" fields=${fields}
    start=${from && `v1/profiles/${segment(from)}`} submit=${t("profile.store")} onSaved=${onSaved}
    naming=${{ pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}", hint: t("profile.name_hint") }}
    draft=${({ config = {} }) => ({ ...drafted(fieldsOf(), { config }), config: textOf(config), stored: config, mode: "form", note: "", share: "1" })}
    body=${(draft) => ({ config: configOf(draft), note: draft.note, share: Number(draft.share) })}
    compared=${comparable}
    before=${(draft, setDraft) => html`<${Segments} label=${t("profile.shown_as")} value=${draft.mode} onInput=${(mode) => setDraft(switched(draft, mode))}
      options=${[["form", t("profile.as_form")], ["json", t("profile.as_json")]]} />`}>
    ${(draft) => html`<details><summary>${t("profile.changes")}</summary><${Changes} before=${draft.stored} after=${comparable(draft)} /></details>`}
  <//>`;
}
