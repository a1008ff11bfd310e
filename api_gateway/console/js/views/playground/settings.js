// The settings of one side, and the body of its query.
import { html } from "../../html.js";
import { Choice, Text } from "../../parts/fields.js";
import { t } from "../../words.js";
import { facetsOf } from "./facets.js";
import { filtersOf } from "./filters.js";

export const AS_PROFILE = { profile: "default", method: "", fusion: "", rerank: "", decay: "" };
export const FIXED = Object.keys(AS_PROFILE);
export const METHODS = ["", "hybrid", "full_text", "semantic"];
export const FUSIONS = ["", "weighted", "rrf"];
export const SWITCH = ["", "on", "off"];

export function Settings({ name, value, onInput, profiles }) {
  const set = (field) => (text) => onInput({ ...value, [field]: text });
  const options = (values, label) => values.map((each) => [each, each ? label(each) : t("play.as_profile")]);
  return html`<fieldset class="side-settings" aria-label=${name ? undefined : t("ask.settings")}>
    ${name && html`<legend><span class=${`letter ${name}`}>${name}</span></legend>`}
    <${Choice} label=${t("play.profile")} value=${value.profile} onInput=${set("profile")} options=${profiles.map((each) => [each, each])} />
    <${Choice} label=${t("play.method")} value=${value.method} onInput=${set("method")}
      options=${options(METHODS, (each) => t(`method.${each}`))} />
    <${Choice} label=${t("play.fusion")} value=${value.fusion} onInput=${set("fusion")}
      options=${options(FUSIONS, (each) => t(`fusion.${each}`))} />
    <${Choice} label=${t("play.rerank")} value=${value.rerank} onInput=${set("rerank")}
      options=${options(SWITCH, (each) => t(`field.${each}`))} />
    <${Text} label=${t("play.decay")} type="number" min="0.1" step="any" value=${value.decay} onInput=${set("decay")} placeholder=${t("play.as_profile")} />
  </fieldset>`;
}

/** The body of `/v1/rag/query` for a draft of the form and one of its sides. */
export function bodyOf({ text, chosen, topK, facets, group, filters }, side) {
  const counted = facetsOf(facets);
  const retrieve = {};
  if (side.method) retrieve.method = side.method;
  if (side.fusion) retrieve.fusion = { strategy: side.fusion };
  if (Number(side.decay) > 0) retrieve.time_decay = { half_life_days: Number(side.decay) };
  return {
    query_text: text,
    namespaces: chosen,
    profile: side.profile,
    ...(topK ? { top_k: Number(topK) } : {}),
    ...(side.rerank ? { enable_rerank: side.rerank === "on" } : {}),
    ...(Object.keys(retrieve).length ? { retrieve } : {}),
    ...filtersOf(filters),
    ...(counted.length ? { facets: counted } : {}),
    ...(group?.trim() ? { group_by: group.trim() } : {}),
  };
}
