// A namespace as a file: export and import, with progress, resumed after an interruption.
import { html, useState } from "../../html.js";
import { openArchive } from "../../archives/archive.js";
import { forget, proceed, startExport, startImport, stop, transfer } from "../../archives/transfers.js";
import { get } from "../../api.js";
import { bytes, count, duration } from "../../format.js";
import { useAction, useLoad } from "../../load.js";
import { Check, Choice, Field } from "../../parts/fields.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { Problem } from "../../parts/states.js";
import { Facts } from "../../parts/table.js";
import { link } from "../../router.js";
import { canStream, MOST_COLLECTED } from "../../saving.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { useStore } from "../../store.js";
import { t } from "../../words.js";

const CONFLICTS = ["replace", "skip", "error"];

export function Transfer() {
  const now = useStore(transfer);
  return html`
    <${Heading} title=${t("nav.transfer")} about=${t("transfer.about")} />
    ${now && html`<${Now} now=${now} />`}
    ${now?.state !== "running" && html`<div class="two">
      <${Export} />
      ${may("write") ? html`<${Import} />` : html`<p class="note">${t("state.read_only")}</p>`}
    </div>`}`;
}

function Now({ now }) {
  const seconds = (Date.now() - now.startedAt) / 1000;
  const done = now.kind === "export" ? now.documents : now.parts;
  const share = now.state === "done" ? 1 : now.total ? Math.min(1, done / now.total) : 0;
  const text = now.kind === "export" ? t("transfer.documents_of", { done: count(done), total: count(now.total) })
    : t("transfer.parts_of", { done: count(done), total: count(now.total) });
  const heading = now.kind === "export" ? t("transfer.exporting", { namespace: now.namespace }) : t("transfer.importing", { namespace: now.namespace });
  return html`<section class="panel" aria-labelledby="transfer-now">
    <div class="row between"><h2 id="transfer-now">${heading}</h2>
      <div class="buttons">
        ${now.state === "running" && html`<button onClick=${stop}>${t("transfer.stop")}</button>`}
        ${now.state === "stopped" && html`<button class="primary" onClick=${proceed}>${t("transfer.continue")}</button>`}
        ${now.state !== "running" && html`<button onClick=${forget}>${t("transfer.close")}</button>`}
      </div></div>
    <div class="progress">
      <div class="progress-bar" role="progressbar" aria-label=${heading} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(100 * share)} aria-valuetext=${text}>
        <span class="part good" style=${{ width: `${100 * share}%` }}></span></div>
      <p class="pace"><strong role="status">${now.waiting ? t("transfer.waiting") : t(`transfer.state_${now.state}`)}</strong><span>${text}</span><span>${bytes(now.bytes)}</span>
        ${now.state === "running" && share > 0 && share < 1 && html`<span>${t("progress.eta", { time: duration((seconds * (1 - share)) / share) })}</span>`}</p>
    </div>
    ${now.error && html`<${Fault} error=${now.error} />`}
    ${now.state === "done" && now.kind === "import" && html`<${Arrived} path=${now.path} />`}
  </section>`;
}

/** A flaw of the file in words, or the server's problem. */
function Fault({ error }) {
  if (!error.flaw) return html`<${Problem} error=${error} />`;
  const size = bytes(MOST_COLLECTED);
  return html`<div class="problem" role="alert"><p class="problem-title">${t(`transfer.flaw_${error.flaw}`, { name: error.name, size })}</p></div>`;
}

/** The jobs of an import, until the last document is searchable or has failed. */
function Arrived({ path }) {
  const parts = useLoad((signal) => get(path, { signal }).then((body) => body.parts), [path], { everyMs: 3000 });
  if (!parts.data) return null;
  const ended = parts.data.filter((part) => part.finished).length;
  return html`
    <p role="status">${ended < parts.data.length ? t("transfer.ingesting", { done: count(ended), total: count(parts.data.length) }) : t("transfer.ingested")}
      ${" "}<a href=${link("jobs")}>${t("transfer.to_jobs")}</a></p>
    ${parts.data.some((part) => !part.vectors_kept) && html`<p class="hint">${t("transfer.embedded_again")}</p>`}`;
}

function Export() {
  const [name, setName] = useState("");
  const start = useAction(async () => startExport(name.trim()));
  function send(event) {
    event.preventDefault();
    start.run();
  }
  return html`<section class="panel" aria-labelledby="export">
    <h2 id="export">${t("transfer.export")}</h2>
    <p class="about">${t("transfer.export_about")}</p>
    <form class="record-form" onSubmit=${send}>
      <${NamespaceInput} value=${name} onInput=${setName} />
      <p class="hint">${canStream() ? t("transfer.streams") : t("transfer.collects", { size: bytes(MOST_COLLECTED) })}</p>
      ${start.error && html`<${Problem} error=${start.error} />`}
      <p><button class="primary" disabled=${!name.trim() || start.busy}>${t("transfer.export_do")}</button></p>
    </form>
  </section>`;
}

function Import() {
  const [archive, setArchive] = useState(null);
  const [name, setName] = useState("");
  const [onConflict, setOnConflict] = useState("replace");
  const [again, setAgain] = useState(false);
  const open = useAction(async (files) => {
    setArchive(null);
    const opened = await openArchive([...files]);
    setArchive(opened);
    setName(opened.manifest.namespace);
  });
  function send(event) {
    event.preventDefault();
    startImport(archive, name.trim(), { onConflict, again });
  }
  const manifest = archive?.manifest;
  return html`<section class="panel" aria-labelledby="import">
    <h2 id="import">${t("transfer.import")}</h2>
    <p class="about">${t("transfer.import_about")}</p>
    <form class="record-form" onSubmit=${send}>
      <${Field} label=${t("transfer.file")} hint=${t("transfer.file_hint")}>
        ${(ties) => html`<input type="file" multiple ...${ties} onChange=${(event) => event.target.files.length && open.run(event.target.files)} />`}
      <//>
      ${open.error && html`<${Fault} error=${open.error} />`}
      ${manifest && html`
        <${Facts} of=${[
          [t("transfer.from"), manifest.namespace], [t("nav.documents"), count(manifest.documents)], [t("field.chunks"), count(manifest.chunks)],
          [t("transfer.parts"), count(manifest.parts.length)], [t("field.size"), bytes(manifest.parts.reduce((sum, part) => sum + part.bytes, 0))],
          [t("transfer.model"), `${manifest.model} (${manifest.dimension})`],
        ]} />
        <${NamespaceInput} label=${t("transfer.into")} value=${name} onInput=${setName} hint=${t("upload.namespace_hint")} />
        <${Choice} label=${t("upload.conflict")} value=${onConflict} onInput=${setOnConflict} options=${CONFLICTS.map((each) => [each, t(`upload.conflict_${each}`)])} />
        <${Check} label=${t("transfer.again")} checked=${again} onInput=${setAgain} />
        <p><button class="primary" disabled=${!name.trim()}>${t("transfer.import_do")}</button></p>`}
    </form>
  </section>`;
}
