// Upload files, or typed or pasted text, and follow the resulting job.
import { html, useEffect, useRef, useState } from "../html.js";
import { post } from "../api.js";
import { followJob } from "../events.js";
import { bytes, count, percent } from "../format.js";
import { useAction } from "../load.js";
import { Chunking, chunkingOf, NO_CHUNKING } from "../parts/chunking.js";
import { Area, Choice, NamespaceInput, Segments, Text, useNamespaces } from "../parts/fields.js";
import { Icon } from "../parts/icons.js";
import { announce } from "../parts/notices.js";
import { Pace, Progress, Stages } from "../parts/progress.js";
import { Problem } from "../parts/states.js";
import { link } from "../router.js";
import { sendForm } from "../sending.js";
import { may } from "../session.js";
import { Heading } from "../shell.js";
import { t, word } from "../words.js";
import { JobBadge } from "./jobs.js";

const KINDS = ".txt,.md,.html,.htm,.pdf,.docx,.xlsx,.csv,.json,.jsonl";
const CONFLICTS = ["replace", "skip", "error", "new"];
const NOTHING = { title: "", document_id: "", text: "" };

export function Upload() {
  const namespaces = useNamespaces();
  const [way, setWay] = useState("files");
  const [files, setFiles] = useState([]);
  const [document, setDocument] = useState(NOTHING);
  const [into, setInto] = useState({ namespace: "", tags: "", type: "", on_conflict: "replace" });
  const [chunking, setChunking] = useState(NO_CHUNKING);
  const [sent, setSent] = useState(0);
  const [jobs, setJobs] = useState([]);
  const set = (name) => (value) => setInto({ ...into, [name]: value });

  const hand = useAction(async () => {
    setSent(0);
    const accepted = way === "files"
      ? await sendForm("v1/files", formOf(files, into, chunking), { onProgress: setSent })
      : await post("v1/documents", bodyOf(document, into, chunking));
    setJobs([accepted.job_id, ...jobs]);
    setFiles([]);
    setDocument(NOTHING);
    announce(t("upload.accepted", { count: count(accepted.total) }));
    namespaces.reload();
  });

  function submit(event) {
    event.preventDefault();
    hand.run();
  }

  const ready = into.namespace.trim() && (way === "files" ? files.length > 0 : document.text.trim());
  return html`
    <${Heading} title=${t("nav.upload")} about=${t("upload.about")} />
    ${!may("write") && html`<p class="note" role="status">${t("state.read_only")}</p>`}
    <form class="panel form" onSubmit=${submit}>
      <${Segments} label=${t("upload.way")} value=${way} onInput=${setWay} options=${[["files", t("upload.files")], ["text", t("upload.text")]]} />
      ${way === "files"
        ? html`<${Files} files=${files} setFiles=${setFiles} />`
        : html`<div class="fields">
            <${Text} label=${t("field.title")} value=${document.title} onInput=${(title) => setDocument({ ...document, title })} />
            <${Text} label=${t("field.document_id")} value=${document.document_id} maxlength="64" hint=${t("upload.id_hint")}
              onInput=${(document_id) => setDocument({ ...document, document_id })} />
          </div>
          <${Area} label=${t("upload.text_label")} rows="9" value=${document.text} onInput=${(text) => setDocument({ ...document, text })} />`}
      <div class="fields">
        <${NamespaceInput} value=${into.namespace} onInput=${set("namespace")} known=${namespaces.data} hint=${t("upload.namespace_hint")} />
        <${Text} label=${t("field.tags")} value=${into.tags} onInput=${set("tags")} placeholder="manual, v2" hint=${t("upload.tags_hint")} />
        <${Text} label=${t("field.type")} value=${into.type} onInput=${set("type")} />
        <${Choice} label=${t("upload.conflict")} value=${into.on_conflict} onInput=${set("on_conflict")}
          options=${CONFLICTS.map((each) => [each, t(`upload.conflict_${each}`)])} />
      </div>
      <${Chunking} value=${chunking} onInput=${setChunking} />
      ${hand.error && html`<${Problem} error=${hand.error} />`}
      <div class="buttons">
        <button class="primary" disabled=${!ready || hand.busy || !may("write")} aria-busy=${hand.busy}>
          ${hand.busy && way === "files" ? t("upload.sending", { share: percent(sent) }) : t("upload.send")}
        </button>
        <a class="button quiet" href=${link("preview")}>${t("nav.preview")}</a>
      </div>
    </form>
    ${jobs.map((id) => html`<${Sent} key=${id} id=${id} />`)}`;
}

function Files({ files, setFiles }) {
  const [over, setOver] = useState(false);
  const input = useRef(null);
  const add = (more) => setFiles([...files.filter((old) => ![...more].some((each) => each.name === old.name)), ...more]);

  function drop(event) {
    event.preventDefault();
    setOver(false);
    add(event.dataTransfer.files);
  }

  return html`
    <div class=${over ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <p>${t("upload.drop")} <button type="button" onClick=${() => input.current.click()}>${t("upload.choose")}</button></p>
      <p class="hint">${t("upload.kinds")}</p>
      <input ref=${input} type="file" multiple accept=${KINDS} class="visually-hidden" tabindex="-1" aria-label=${t("upload.files")}
        onChange=${(event) => { add(event.target.files); event.target.value = ""; }} />
    </div>
    ${files.length > 0 && html`<ul class="plain lines" aria-label=${t("upload.files")}>
      ${files.map((file) => html`<li key=${file.name} class="row between">
        <span class="title">${file.name} <span class="muted">${bytes(file.size)}</span></span>
        <button type="button" class="quiet" aria-label=${`${t("upload.leave_out")}: ${file.name}`}
          onClick=${() => setFiles(files.filter((other) => other !== file))}><${Icon} name="close" /></button>
      </li>`)}
    </ul>`}`;
}

/** The job of one submission, with live progress. */
function Sent({ id }) {
  const [job, setJob] = useState(null);
  const [failures, setFailures] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    followJob(id, { signal: controller.signal, onEvent(name, data) {
      if (name === "item_failed") setFailures((before) => [...before, data].slice(-50));
      else setJob(data);
      if (name === "finished") announce(t("job.ended", { status: word("status", data.status) }));
    } }).catch(setError);
    return () => controller.abort();
  }, [id]);
  return html`<section class="panel" aria-label=${t("jobs.job")}>
    <p class="row between"><a href=${link("jobs", id)}>${t("upload.job")} <code>${id.slice(0, 8)}</code></a>${job && html`<${JobBadge} job=${job} />`}</p>
    ${error && html`<${Problem} error=${error} />`}
    ${job ? html`<${Progress} job=${job} /><${Pace} job=${job} /><${Stages} job=${job} />` : !error && html`<div class="skeleton"></div>`}
    ${failures.length > 0 && html`<ul class="plain lines">${failures.map((failure) => html`
      <li key=${failure.document_id}><code>${failure.document_id}</code> ${failure.detail}</li>`)}</ul>`}
  </section>`;
}

const tagsOf = (text) => text.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean);

function formOf(files, into, chunking) {
  const form = new FormData();
  form.set("namespace", into.namespace.trim());
  form.set("on_conflict", into.on_conflict);
  if (into.type.trim()) form.set("type", into.type.trim());
  if (tagsOf(into.tags).length) form.set("tags", JSON.stringify(tagsOf(into.tags)));
  const cut = chunkingOf(chunking);
  if (cut) form.set("chunking", JSON.stringify(cut));
  for (const file of files) form.append("file", file, file.name);
  return form;
}

function bodyOf(document, into, chunking) {
  const given = Object.fromEntries(Object.entries(document).filter(([, value]) => value.trim()));
  return {
    namespace: into.namespace.trim(),
    on_conflict: into.on_conflict,
    chunking: chunkingOf(chunking),
    documents: [{ ...given, tags: tagsOf(into.tags), ...(into.type.trim() ? { type: into.type.trim() } : {}) }],
  };
}
