// A question to try something out with, and the passages that answer it.
import { html, useState } from "../html.js";
import { score } from "../format.js";
import { useAction } from "../load.js";
import { link } from "../router.js";
import { t } from "../words.js";
import { Text } from "./fields.js";
import { NamespaceInput } from "./namespace_choice.js";
import { Passage } from "./passage.js";
import { Empty, Problem } from "./states.js";

/** `ask(text, namespace)` returns `{hits, note}`: hits of the API, and an element to show above them. `namespace`: the one to begin with. */
export function Trial({ id, title, about, submit, ask, namespace: first = "" }) {
  const [text, setText] = useState("");
  const [namespace, setNamespace] = useState(first);
  const [result, setResult] = useState(null);
  const call = useAction(async () => {
    setResult(null);
    setResult(await ask(text, namespace.trim()));
  });
  function run(event) {
    event.preventDefault();
    call.run();
  }
  return html`<section class="panel" aria-labelledby=${id}>
    <h2 id=${id}>${title}</h2>
    <p class="about">${about}</p>
    <form class="ask" onSubmit=${run}>
      <${Text} label=${t("play.question")} class="grow" required maxlength="8000" value=${text} onInput=${setText} />
      <${NamespaceInput} value=${namespace} onInput=${setNamespace} />
      <button class="primary" disabled=${call.busy} aria-busy=${call.busy}>${submit}</button>
    </form>
    ${call.error && html`<${Problem} error=${call.error} />`}
    ${result && html`<div role="status">${result.note}</div>
      ${result.hits.length === 0 && html`<${Empty} title=${t("play.nothing_found")} />`}
      <ol class="pieces">${result.hits.map((hit) => html`<li class="piece" key=${hit.chunk_id}>
        <div class="piece-head"><a href=${link("documents", hit.namespace, hit.document_id)}>${hit.title || hit.document_id}</a>
          <span class="spacer"></span><b class="number">${score(hit.score)}</b></div>
        <${Passage} text=${hit.text} marks=${hit.highlights ?? []} /></li>`)}</ol>`}
  </section>`;
}
