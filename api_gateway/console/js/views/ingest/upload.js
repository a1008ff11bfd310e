// Upload files and folders, text, or addresses that the server fetches, and follow the resulting jobs.
import { html, useState } from "../../html.js";
import { post } from "../../api.js";
import { bytes, count, percent } from "../../format.js";
import { useAction } from "../../load.js";
import { Chunking, chunkingOf, NO_CHUNKING } from "../../parts/chunking.js";
import { Area, Choice, Segments, Text } from "../../parts/fields.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { useLimits } from "../../parts/limits.js";
import { announce } from "../../parts/notices.js";
import { Loaded, Problem } from "../../parts/states.js";
import { link, route } from "../../router.js";
import { sendForm } from "../../sending.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";
import { Choosing, isSent } from "./choosing.js";
import { Sent, SentMany } from "./sent.js";

const CONFLICTS = ["replace", "skip", "error", "new"];
const READ_AS = ["txt", "md", "html", "csv", "json", "jsonl"];
const NOTHING = { title: "", document_id: "", text: "" };
const FILES_AT_ONCE = 200; // in one request, so that a lost connection costs little
const BYTES_AT_ONCE = 24 * 1024 * 1024;

export function Upload() {
  const limits = useLimits();
  const [way, setWay] = useState("files");
  const [files, setFiles] = useState([]);
  const [document, setDocument] = useState(NOTHING);
  const [addresses, setAddresses] = useState("");
  const [into, setInto] = useState({ namespace: route.get().query.get("namespace") ?? "", tags: "", type: "", on_conflict: "replace", parser_hint: "" });
  const [chunking, setChunking] = useState(NO_CHUNKING);
  const [sent, setSent] = useState(null);
  const [uploads, setUploads] = useState([]);
  const set = (name) => (value) => setInto({ ...into, [name]: value });
  const ready = files.filter((each) => isSent(each, into.parser_hint));
  const { good, bad } = linesOf(addresses);

  /** Sends the files in several requests. Those that were accepted leave the list, so that a second attempt sends the rest; those left out stay named. */
  async function handFiles() {
    const batches = batchesOf(ready, limits.data);
    const size = ready.reduce((sum, { file }) => sum + file.size, 0) || 1;
    const jobs = [];
    let done = 0;
    let left = files;
    let total = 0;
    try {
      for (const batch of batches) {
        const own = batch.reduce((sum, { file }) => sum + file.size, 0);
        const progress = (share) => setSent({ share: Math.min(1, (done + share * own) / size), part: jobs.length + 1, parts: batches.length });
        progress(0);
        const accepted = await sendForm("v1/files", formOf(batch, into, chunking), { onProgress: progress });
        jobs.push(accepted.job_id);
        total += accepted.total;
        done += own;
        left = left.filter((each) => !batch.includes(each));
        setFiles(left);
      }
    } finally {
      setSent(null);
      if (jobs.length) setUploads((before) => [jobs, ...before]);
    }
    return total;
  }

  const hand = useAction(async () => {
    let total;
    if (way === "files") {
      total = await handFiles();
    } else {
      const documents = way === "text" ? [Object.fromEntries(Object.entries(document).filter(([, value]) => value.trim()))]
        : good.map((uri) => ({ source: { uri } }));
      const accepted = await post("v1/documents", bodyOf(documents, into, chunking));
      total = accepted.total;
      setUploads((before) => [[accepted.job_id], ...before]);
      way === "text" ? setDocument(NOTHING) : setAddresses("");
    }
    announce(t("upload.accepted", { count: count(total) }));
  });

  const isReady = into.namespace.trim() && { files: ready.length > 0, text: document.text.trim(), addresses: good.length > 0 && !bad.length }[way];
  return html`
    <${Heading} title=${t("nav.upload")} about=${t("upload.about")} />
    ${!may("write") && html`<p class="note" role="status">${t("state.read_only")}</p>`}
    <form class="panel form" onSubmit=${(event) => { event.preventDefault(); if (isReady) hand.run(); }}>
      <${Segments} label=${t("upload.way")} value=${way} onInput=${setWay}
        options=${[["files", t("upload.files")], ["text", t("upload.text")], ["addresses", t("upload.addresses")]]} />
      ${way === "files" && html`<${Loaded} of=${limits} isEmpty=${() => false} lines=${2}>
        ${(data) => html`<${Choosing} files=${files} setFiles=${setFiles} limits=${data} readAs=${into.parser_hint} />`}<//>`}
      ${way === "text" && html`<div class="fields">
          <${Text} label=${t("field.title")} value=${document.title} onInput=${(title) => setDocument({ ...document, title })} />
          <${Text} label=${t("field.document_id")} value=${document.document_id} maxlength="64" hint=${t("upload.id_hint")}
            onInput=${(document_id) => setDocument({ ...document, document_id })} />
        </div>
        <${Area} label=${t("upload.text_label")} rows="9" value=${document.text} onInput=${(text) => setDocument({ ...document, text })}
          hint=${limits.data && t("upload.text_limit", { size: bytes(limits.data.document_bytes) })} />`}
      ${way === "addresses" && html`<${Area} label=${t("upload.addresses")} rows="6" value=${addresses} onInput=${setAddresses} spellcheck=${false}
        hint=${t("upload.addresses_hint")} fault=${bad.length > 0 && t("upload.no_address", { line: bad[0].line, text: bad[0].text.slice(0, 60) })} />`}
      <div class="fields">
        <${NamespaceInput} value=${into.namespace} onInput=${set("namespace")} hint=${t("upload.namespace_hint")} />
        <${Text} label=${t("field.tags")} value=${into.tags} onInput=${set("tags")} placeholder="manual, v2" hint=${t("upload.tags_hint")} />
        <${Text} label=${t("field.type")} value=${into.type} onInput=${set("type")} maxlength="64" />
        <${Choice} label=${t("upload.conflict")} value=${into.on_conflict} onInput=${set("on_conflict")}
          options=${CONFLICTS.map((each) => [each, t(`upload.conflict_${each}`)])} />
        ${way === "files" && html`<${Choice} label=${t("upload.read_as")} value=${into.parser_hint} onInput=${set("parser_hint")} hint=${t("upload.read_as_hint")}
          options=${[["", t("upload.read_as_own")], ...READ_AS.map((each) => [each, `.${each}`])]} />`}
      </div>
      <${Chunking} value=${chunking} onInput=${setChunking} />
      ${hand.error && html`<${Problem} error=${hand.error} />`}
      ${sent && html`<div class="progress"><div class="progress-bar" role="progressbar" aria-label=${t("upload.progress")} aria-valuemin="0" aria-valuemax="100"
        aria-valuenow=${Math.round(100 * sent.share)}><span class="part good" style=${{ width: `${100 * sent.share}%` }}></span></div>
        <span class="progress-text">${t("upload.request", { part: count(sent.part), parts: count(sent.parts) })}</span></div>`}
      <div class="buttons">
        <button class="primary" disabled=${!isReady || hand.busy || !may("write")} aria-busy=${hand.busy}>
          ${sent ? t("upload.sending", { share: percent(sent.share) }) : t("upload.send")}
        </button>
        <a class="button quiet" href=${link("preview")}>${t("nav.preview")}</a>
      </div>
    </form>
    ${uploads.map((jobs) => (jobs.length > 1 ? html`<${SentMany} key=${jobs[0]} ids=${jobs} />` : html`<${Sent} key=${jobs[0]} id=${jobs[0]} />`))}`;
}

/** Requests with at most so many files and bytes; a file that is larger goes alone. */
function batchesOf(files, limits) {
  const most = Math.min(BYTES_AT_ONCE, limits.body_bytes / 2);
  const many = Math.min(FILES_AT_ONCE, limits.documents_per_batch);
  const batches = [];
  let room = 0;
  for (const each of files) {
    if (!batches.length || batches.at(-1).length >= many || each.file.size > room) {
      batches.push([]);
      room = most;
    }
    batches.at(-1).push(each);
    room -= each.file.size;
  }
  return batches;
}

/** The addresses in a text, one a line; those that are none with the number of their line. */
function linesOf(text) {
  const lines = text.split("\n").map((line, at) => ({ line: at + 1, text: line.trim() })).filter((each) => each.text);
  const isAddress = (line) => /^https?:\/\/[^\s/]+/i.test(line) && URL.canParse(line) && line.length <= 2048;
  return { good: [...new Set(lines.map((each) => each.text).filter(isAddress))], bad: lines.filter((each) => !isAddress(each.text)) };
}

const tagsOf = (text) => text.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean);

function formOf(files, into, chunking) {
  const form = new FormData();
  form.set("namespace", into.namespace.trim());
  form.set("on_conflict", into.on_conflict);
  if (into.type.trim()) form.set("type", into.type.trim());
  if (into.parser_hint) form.set("parser_hint", into.parser_hint);
  if (tagsOf(into.tags).length) form.set("tags", JSON.stringify(tagsOf(into.tags)));
  const cut = chunkingOf(chunking);
  if (cut) form.set("chunking", JSON.stringify(cut));
  for (const { file, path } of files) form.append("file", file, path);
  return form;
}

function bodyOf(documents, into, chunking) {
  const labels = { tags: tagsOf(into.tags), ...(into.type.trim() ? { type: into.type.trim() } : {}) };
  return {
    namespace: into.namespace.trim(),
    on_conflict: into.on_conflict,
    chunking: chunkingOf(chunking),
    documents: documents.map((each) => ({ ...each, ...labels })),
  };
}
