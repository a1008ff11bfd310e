// The chunking of a document: a strategy and its options that were filled in.
import { html } from "../html.js";
import { t } from "../words.js";
import { Choice, Text } from "./fields.js";

/** Options of each strategy with their least and greatest value, as the API describes them. */
const OPTIONS = {
  sentences: { max_tokens: [16, 8192], overlap: [0, 0.5] },
  parent_child: { max_tokens: [16, 8192], overlap: [0, 0.5], parent_tokens: [64, 32768] },
  window: { max_tokens: [16, 8192], window: [0, 20] },
  qa: { max_tokens: [16, 8192], overlap: [0, 0.5] },
  segments: { max_tokens: [16, 8192], overlap: [0, 0.5] },
};

export const NO_CHUNKING = { strategy: "", options: {} };

/** The value to send: nothing for the installation's default. */
export function chunkingOf({ strategy, options }) {
  if (!strategy) return undefined;
  const given = Object.keys(OPTIONS[strategy]).filter((name) => options[name] !== undefined && options[name] !== "");
  return { strategy, ...Object.fromEntries(given.map((name) => [name, Number(options[name])])) };
}

export function Chunking({ value, onInput }) {
  const strategies = [["", t("chunking.installation")], ...Object.keys(OPTIONS).map((name) => [name, t(`chunking.${name}`)])];
  const set = (name) => (text) => onInput({ ...value, options: { ...value.options, [name]: text } });
  return html`<div class="fields">
    <${Choice} label=${t("chunking.strategy")} value=${value.strategy} options=${strategies}
      onInput=${(strategy) => onInput({ ...value, strategy })} />
    ${value.strategy && html`
      ${Object.entries(OPTIONS[value.strategy]).map(([name, [least, greatest]]) => html`
        <${Text} key=${name} label=${t(`chunking.${name}`)} type="number" min=${least} max=${greatest} step=${name === "overlap" ? 0.05 : 1}
          placeholder=${t("chunking.default")} value=${value.options[name] ?? ""} onInput=${set(name)} />`)}`}
  </div>`;
}
