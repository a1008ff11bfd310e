// One operation: its meaning, parameters, body, answers, and a request to try.
import { html } from "../html.js";
import { t, word } from "../words.js";
import { Request } from "./request.js";
import { Schema, typeOf } from "./schema.js";

export function Operation({ of, schemas }) {
  return html`
    <div class="heading"><div>
      <p class="back">${word("tag", of.tag)}</p>
      <h1>${of.summary}</h1>
      <p class="endpoint"><span class=${`method ${of.method}`}>${of.method}</span> <code>${of.path}</code></p>
    </div></div>
    ${of.description && html`<p class="about"><${Described} text=${of.description} /></p>`}
    ${!of.secured && html`<p class="hint">${t("reference.open")}</p>`}
    ${of.parameters.length > 0 && html`<section aria-labelledby="parameters">
      <h2 id="parameters">${t("reference.parameters")}</h2>
      <ul class="schema">${of.parameters.map((each) => html`<li key=${`${each.in} ${each.name}`}>
        <p><code class="field-name">${each.name}</code> <span class="type">${typeOf(each.schema, schemas)}</span>
          <span class="limit">${word("place", each.in)}</span>
          ${each.required && html` <span class="required">${t("reference.required")}</span>`}</p>
        ${each.description && html`<p class="hint"><${Described} text=${each.description} /></p>`}
      </li>`)}</ul>
    </section>`}
    ${of.body && html`<section aria-labelledby="body">
      <h2 id="body">${t("reference.body")} <small><code>${of.body.mediaType}</code></small></h2>
      <${Schema} of=${of.body.schema ?? {}} schemas=${schemas} />
    </section>`}
    <section aria-labelledby="try">
      <h2 id="try">${t("reference.try")}</h2>
      <${Request} of=${of} schemas=${schemas} />
    </section>
    <section aria-labelledby="responses">
      <h2 id="responses">${t("reference.responses")}</h2>
      ${Object.entries(of.responses).map(([status, response]) => html`
        <${Response} key=${status} status=${status} of=${response} schemas=${schemas} />`)}
    </section>`;
}

function Response({ status, of, schemas }) {
  const [[mediaType, content] = []] = Object.entries(of.content ?? {});
  const codes = content?.schema?.allOf?.find((part) => part.properties?.code)?.properties.code.enum;
  const title = html`<code class=${`status-${status[0]}`}>${status}</code> <${Described} text=${of.description} />
    ${codes?.map((code) => html` <code key=${code} class="limit">${code}</code>`)}`;
  if (!content || status >= "400") return html`<p class="response">${title}</p>`;
  return html`<details class="response" open=${status === "200"}>
    <summary>${title}</summary>
    ${mediaType && html`<p class="hint"><code>${mediaType}</code></p>`}
    ${content.schema && html`<${Schema} of=${content.schema} schemas=${schemas} />`}
    ${content.example !== undefined && html`<details><summary>${t("reference.example")}</summary>
      <pre tabindex="0">${typeof content.example === "string" ? content.example : JSON.stringify(content.example, null, 2)}</pre></details>`}
  </details>`;
}

/** A text of the description, with its back-ticked parts as code. */
export function Described({ text }) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}
