// A secret that the server shows once: to copy before the page forgets it.
import { html, useEffect, useRef } from "../html.js";
import { t } from "../words.js";
import { Copyable } from "./states.js";

export function Secret({ title, value, close }) {
  const place = useRef(null);
  useEffect(() => place.current.focus(), [value]);
  return html`<section class="panel secret" role="group" aria-label=${title} tabindex="-1" ref=${place}>
    <h2>${title}</h2>
    <p>${t("secret.once")}</p>
    <p><${Copyable} text=${value} /></p>
    <div class="buttons"><button class="primary" onClick=${close}>${t("secret.done")}</button></div>
  </section>`;
}
