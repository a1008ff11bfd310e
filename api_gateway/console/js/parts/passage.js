// A passage with its matching words; a long one is folded.
import { html } from "../html.js";
import { t } from "../words.js";

const LONGEST = 300; // code points of a passage before the rest is folded away

/** The text with the matching words marked; offsets count Unicode code points, as the API's do. */
export function Passage({ text, marks }) {
  const points = Array.from(text);
  const inside = marks.filter((mark) => mark.start < mark.end && mark.end <= points.length);
  const cut = points.length > LONGEST;
  const draw = (end) => {
    const parts = [];
    let at = 0;
    for (const mark of inside) {
      if (mark.start < at || mark.start >= end) continue;
      parts.push(points.slice(at, mark.start).join(""), html`<mark>${points.slice(mark.start, Math.min(mark.end, end)).join("")}</mark>`);
      at = Math.min(mark.end, end);
    }
    return [...parts, points.slice(at, end).join("")];
  };
  if (!cut) return html`<p class="passage">${draw(points.length)}</p>`;
  return html`<details class="long">
    <summary><span class="passage short-text">${draw(LONGEST)}…</span><span class="more-text">${t("play.whole_text")}</span></summary>
    <p class="passage">${draw(points.length)}</p>
  </details>`;
}
