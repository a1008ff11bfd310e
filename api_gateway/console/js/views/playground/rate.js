// A user's rating of one hit: relevant or not. Pressed again, it is withdrawn.
import { html, useState } from "../../html.js";
import { post, remove, segment } from "../../api.js";
import { useAction } from "../../load.js";
import { announce } from "../../parts/notices.js";
import { Problem } from "../../parts/states.js";
import { may } from "../../session.js";
import { t } from "../../words.js";

export function Rate({ queryId, chunkId, name }) {
  const [given, setGiven] = useState(null);
  const rate = useAction(async (rating) => {
    if (given?.rating === rating && may("write")) {
      await remove(`v1/feedback/${segment(given.feedback_id)}`);
      setGiven(null);
      announce(t("rate.withdrawn"));
    } else {
      setGiven(await post(`v1/queries/${segment(queryId)}/feedback`, { rating, chunk_id: chunkId }));
      announce(t("rate.stored"));
    }
  });
  return html`<span class="rate" role="group" aria-label=${t("rate.label", { name })}>
    ${["good", "bad"].map((rating) => html`<button key=${rating} type="button" class="quiet" disabled=${rate.busy} aria-pressed=${given?.rating === rating}
      onClick=${() => rate.run(rating)}>${t(`rate.${rating}`)}</button>`)}
  </span>${rate.error && html`<${Problem} error=${rate.error} />`}`;
}
