// Sign in with an API key. It is checked with /v1/keys/current before it is stored.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { useAction, useLoad } from "../load.js";
import { Text } from "../parts/fields.js";
import { Problem } from "../parts/states.js";
import { ended, signIn } from "../session.js";
import { Looks } from "../shell.js";
import { leaveView } from "../sign_on.js";
import { useStore } from "../store.js";
import { t } from "../words.js";

export function SignIn() {
  const [key, setKey] = useState("");
  const [shown, setShown] = useState(false);
  const why = useStore(ended);
  const { data: config } = useLoad((signal) => get("console/config.json", { signal }), []);
  const enter = useAction(async () => signIn(key.trim(), await get("v1/keys/current", { key: key.trim() })));

  function submit(event) {
    event.preventDefault();
    if (key.trim()) enter.run();
  }

  return html`
    <main class="sign-in" id="main">
      <div class="sign-in-looks"><${Looks} /></div>
      <form class="panel" onSubmit=${submit}>
        <p class="brand big"><img src="favicon.svg" alt="" width="30" height="30" />Chordwise</p>
        <h1>${t(config?.sign_on ? "signin.enter" : "signin.title")}</h1>
        <p class="about">${t("signin.about")}</p>
        ${why && html`<p class="note" role="status">${t(why)}</p>`}
        ${config?.sign_on && html`<a class="button primary" href=${config.sign_on} onClick=${leaveView}>${t("signin.on")}</a>`}
        <${Text} label=${t("signin.key")} type=${shown ? "text" : "password"} value=${key} onInput=${setKey}
          placeholder="cw_…" required spellcheck=${false} autocapitalize="off" name="chordwise-key" hint=${t("signin.hint")} />
        <label class="check"><input type="checkbox" checked=${shown} onChange=${() => setShown(!shown)} /><span>${t("signin.show")}</span></label>
        ${enter.error && html`<${Problem} error=${enter.error} />`}
        <button class=${config?.sign_on ? "" : "primary"} disabled=${enter.busy} aria-busy=${enter.busy}>${t("signin.enter")}</button>
      </form>
    </main>`;
}
