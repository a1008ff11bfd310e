// The contribution of each channel to a score, on one scale for the whole list.
import { html } from "../html.js";
import { score } from "../format.js";
import { t, word } from "../words.js";

// A custom fusion names no contributions.
const share = (part) => (part.contribution == null ? "–" : score(part.contribution, 4));

/** `parts`: `{channel, contribution, rank, score}`; `most`: the greatest sum in the list. */
export function Contributions({ parts, most }) {
  const text = parts.map((part) => `${word("channel", part.channel)} ${share(part)}`).join(", ");
  return html`
    <div class="bar" role="img" aria-label=${`${t("play.contributions")}: ${text}`}>
      ${parts.map((part) => html`
        <span key=${part.channel} class=${`part ${part.channel}`} style=${{ width: `${most > 0 ? (100 * (part.contribution ?? 0)) / most : 0}%` }}
          title=${`${word("channel", part.channel)}: ${share(part)}`}></span>`)}
    </div>`;
}

export const sumOf = (parts) => parts.reduce((sum, part) => sum + Math.max(0, part.contribution ?? 0), 0);

/** The same as numbers: rank and raw score in each channel. */
export function Figures({ parts }) {
  return html`<span class="figures">${parts.map((part) => html`
    <span key=${part.channel}><i class=${`dot ${part.channel}`}></i>${word("channel", part.channel)}
      ${part.rank != null && html` <span class="number">#${part.rank}</span>`}
      <span class="number muted">${score(part.score)}</span>
      ${part.contribution != null && html`<span class="number">+${share(part)}</span>`}</span>`)}
  </span>`;
}
