// Two ways of asking, measured with judged questions: before and after.
import { html, useEffect, useRef, useState } from "../../html.js";
import { get } from "../../api.js";
import { count, duration } from "../../format.js";
import { askAll, isJudged, judgmentsIn, judgmentsOf } from "../../judgments.js";
import { useAction, useLoad } from "../../load.js";
import { Field, Segments, Text, useNamespaces } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { Empty, Loaded } from "../../parts/states.js";
import { link } from "../../router.js";
import { Heading } from "../../shell.js";
import { said } from "../../sentences.js";
import { t } from "../../words.js";
import { Comparison } from "./comparison.js";

const MOST_TEXT = 8 * 1024 * 1024; // bytes of a file of judgments

const sidesOf = (profiles) => {
  const options = profiles.map((each) => [each.name, each.name]);
  return [
    { name: "before", kind: "choice", label: t("evaluation.before"), options },
    { name: "after", kind: "choice", label: t("evaluation.after"), options },
    { name: "changes", kind: "json", label: t("evaluation.changes"), hint: t("evaluation.changes_hint"), placeholder: '{"retrieve": {"channels": {"keyword": {"weight": 0.5}}}}' },
  ];
};

export function Evaluation() {
  const namespaces = useNamespaces();
  const profiles = useLoad((signal) => get("v1/profiles", { signal }).then((page) => page.data), []);
  return html`
    <${Heading} title=${t("nav.evaluation")} about=${t("evaluation.about")} />
    <${Loaded} of=${{ ...profiles, reload: () => { profiles.reload(); namespaces.reload(); } }} isEmpty=${() => false}>${(rows) => html`
      <${Loaded} of=${namespaces} isEmpty=${(data) => !data.length} empty=${html`<${Empty} title=${t("play.no_documents")}>
        <a class="button" href=${link("upload")}>${t("nav.upload")}</a><//>`}>${() => html`<${Setup} namespaces=${namespaces} profiles=${rows} />`}<//>`}
    <//>`;
}

function Setup({ namespaces, profiles }) {
  const [source, setSource] = useState("feedback");
  const [chosen, setChosen] = useState("");
  const [file, setFile] = useState(null);
  const [most, setMost] = useState("200");
  const fields = sidesOf(profiles);
  const [draft, setDraft] = useState(() => drafted(fields, { before: "default", after: "default" }));
  const [progress, setProgress] = useState(null);
  const [result, setResult] = useState(null);
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);
  const namespace = chosen || namespaces.data[0].namespace;
  const trials = profiles.filter((each) => each.trial_version != null && [draft.before, draft.after].includes(each.name));

  const run = useAction(async () => {
    const controller = new AbortController();
    running.current = controller;
    setResult(null);
    setProgress({ done: 0, all: 0, began: Date.now() });
    try {
      const limit = Math.max(1, Number(most) || 1);
      const judged = source === "file" ? file.rows : await judgmentsOf(namespace, { most: limit, signal: controller.signal });
      const questions = judged.filter(isJudged).slice(0, limit);
      if (!questions.length) {
        setResult({ questions });
        return;
      }
      const { changes = {} } = sent(fields, draft);
      const ways = [{ namespace, profile: draft.before, changes: {} }, { namespace, profile: draft.after, changes }];
      setProgress({ done: 0, all: questions.length * ways.length, began: Date.now() });
      const answers = await askAll(questions, ways, { signal: controller.signal, onAnswer: (done, all) => setProgress((before) => ({ ...before, done, all })) });
      setResult({ questions, ways, answers });
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      controller.abort(); // the others, after an error of one
      setProgress(null);
    }
  });

  async function take(event) {
    const given = event.target.files[0];
    if (!given) return setFile(null);
    if (given.size > MOST_TEXT) return setFile({ rows: [], fault: t("evaluation.too_large") });
    const [rows, faults] = judgmentsIn(await given.text());
    const fault = faults.length ? t("evaluation.faulty", { lines: faults.slice(0, 10).map((each) => `${each.line} (${said(each.detail)})`).join(", ") })
      : rows.some(isJudged) ? "" : t("evaluation.no_relevant");
    return setFile({ rows, fault });
  }

  return html`
    <section class="panel" aria-label=${t("evaluation.setup")}>
      <${Segments} label=${t("evaluation.source")} value=${source} onInput=${setSource}
        options=${[["feedback", t("evaluation.from_feedback")], ["file", t("evaluation.from_file")]]} />
      <div class="fields">
        <${NamespaceChoice} namespaces=${namespaces} value=${namespace} onInput=${setChosen} />
        ${source === "file" && html`<${Field} label=${t("evaluation.file")} hint=${t("evaluation.file_hint")} fault=${file?.fault}>
          ${(ties) => html`<input type="file" accept=".jsonl,.json,.txt" ...${ties} onChange=${take} />`}<//>`}
        <${Text} label=${t("evaluation.most")} type="number" min="1" max="2000" step="1" value=${most} onInput=${setMost} />
      </div>
      <${Form} fields=${fields} value=${draft} onChange=${setDraft} onSubmit=${() => run.run()} busy=${run.busy || trials.length > 0 || (source === "file" && (!file || Boolean(file.fault)))}
        submit=${t("evaluation.run")} error=${run.error}>
        <p class="hint">${t("evaluation.cost")}</p>
        ${trials.length > 0 && html`<p class="note warn" role="status">${t("evaluation.trial", { names: trials.map((each) => each.name).join(", ") })}</p>`}
      <//>
      ${progress && html`<${Progress} progress=${progress} onCancel=${() => running.current.abort()} />`}
    </section>
    ${result && (result.questions.length
      ? html`<${Comparison} result=${result} />`
      : html`<${Empty} title=${t("evaluation.none")}><p>${t("evaluation.none_text")}</p><a class="button" href=${link("feedback")}>${t("nav.feedback")}</a><//>`)}`;
}

function Progress({ progress: { done, all, began }, onCancel }) {
  const left = done > 0 ? ((Date.now() - began) / 1000 / done) * (all - done) : null;
  return html`<div class="progress compact">
    <progress class="wide-progress" max=${all || 1} value=${done} aria-label=${t("evaluation.progress")}></progress>
    <span class="progress-text" role="status">${count(done)} / ${count(all)}${left != null && done < all ? ` · ${duration(left)}` : ""}</span>
    <button type="button" onClick=${onCancel}>${t("action.cancel")}</button>
  </div>`;
}
