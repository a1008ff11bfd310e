// Sample documents, one click away: a small set in English or Chinese, ingested like any other, and questions to ask it.
import { html, useEffect, useState } from "../html.js";
import { get, post } from "../api.js";
import { followJob } from "../events.js";
import { useAction, useLoad } from "../load.js";
import { link } from "../router.js";
import { may } from "../session.js";
import { t } from "../words.js";
import { Progress } from "./progress.js";
import { Problem } from "./states.js";

const LANGUAGES = ["en", "zh"];

/** The address of the playground with a question, which it asks at once. */
const asking = (text, namespace) => `${link("playground")}?${new URLSearchParams({ text, namespace })}`;

/** The offer on the first page; nothing once the tenant has a namespace, or for a key that cannot write. */
export function FirstSteps() {
  const known = useLoad((signal) => get("v1/namespaces?limit=1", { signal }), []);
  if (!known.data || known.data.data.length || !may("write")) return null;
  return html`<section class="panel" aria-labelledby="first-steps">
    <h2 id="first-steps">${t("samples.title")}</h2>
    <p>${t("samples.about")}</p>
    <${Samples}><a class="button" href=${link("upload")}>${t("samples.own")}</a><//>
  </section>`;
}

/** A button for each set, beside `children`; then its progress, then its questions. */
export function Samples({ children }) {
  const [sets, setSets] = useState({});
  const note = (language) => (change) => setSets((before) => ({ ...before, [language]: { ...before[language], ...change } }));
  const add = useAction(async (language) => {
    const response = await fetch(new URL(`../../samples/${language}.json`, import.meta.url));
    const { questions, namespace, documents } = await response.json();
    const { job_id: job } = await post("v1/documents", { namespace, documents });
    note(language)({ job, questions, namespace });
  });
  if (!may("write")) return null;
  return html`
    <div class="buttons">
      ${LANGUAGES.filter((language) => !sets[language]).map((language) => html`
        <button key=${language} disabled=${add.busy} onClick=${() => add.run(language)}>${t(`samples.add_${language}`)}</button>`)}
      ${children}
    </div>
    ${add.error && html`<${Problem} error=${add.error} />`}
    ${LANGUAGES.filter((language) => sets[language]).map((language) => html`
      <${Adding} key=${language} of=${sets[language]} note=${note(language)} />`)}`;
}

function Adding({ of: { job: id, now: job, failed, questions, namespace }, note }) {
  useEffect(() => {
    const controller = new AbortController();
    followJob(id, { signal: controller.signal, onEvent(name, data) {
      if (name !== "item_failed") note({ now: data });
    } }).catch((error) => note({ failed: error }));
    return () => controller.abort();
  }, [id]);
  if (failed) return html`<${Problem} error=${failed} />`;
  if (!job) return html`<div class="skeleton"></div>`;
  if (!job.finished_at) return html`<${Progress} job=${job} />`;
  if (!job.succeeded) return html`<p class="note" role="alert"><a href=${link("jobs", id)}>${t("samples.failed")}</a></p>`;
  return html`
    <p role="status">${t("samples.ready", { namespace })}</p>
    <ul class="plain lines">${questions.map((question) => html`
      <li key=${question}><a href=${asking(question, namespace)}>${question}</a></li>`)}
    </ul>`;
}
