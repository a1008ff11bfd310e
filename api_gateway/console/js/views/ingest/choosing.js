// Files that the user chooses or drops, folders included; what cannot be taken is named with its reason.
import { html, useRef, useState } from "../../html.js";
import { bytes, count } from "../../format.js";
import { Icon } from "../../parts/icons.js";
import { Name } from "../../parts/name.js";
import { t, word } from "../../words.js";

const SHOWN = 100;
// Formats that need an extra of the server, and the reasons that name it.
const KIND = ["format", "slides", "picture"]; // reasons that a named format overrules
const OPTIONAL = { ".pptx": "slides", ".png": "picture", ".jpg": "picture", ".jpeg": "picture", ".tif": "picture", ".tiff": "picture" };

/** The server makes one document of a composed and a decomposed name. */
const idOf = (path) => path.normalize("NFC");

/** `{file, path, reason}`: the reason why it stays behind, or null. Of a file that the browser cannot read, `file` is null. */
function judged(file, path, limits) {
  if (!file) return { file: { size: 0 }, path, reason: "unreadable" };
  const name = path.split("/").pop();
  const suffix = /\.[^.]+$/.exec(name)?.[0].toLowerCase() ?? "";
  const reason = path.split("/").some((part) => part.startsWith(".")) || name === "Thumbs.db" ? "hidden"
    : suffix && !limits.suffixes.includes(suffix) ? OPTIONAL[suffix] ?? "format"
    : file.size === 0 ? "empty"
    : file.size > limits.document_bytes && suffix !== ".jsonl" ? "large"
    : file.size > limits.body_bytes - 65536 ? "large" : null;
  return { file, path, reason };
}

/** Whether a file is sent, read as its own kind or as `readAs`. */
export const isSent = (each, readAs) => !each.reason || (Boolean(readAs) && KIND.includes(each.reason));

/** Every file below an entry of a drop. A folder gives its files by hundreds. A link to nothing is an unreadable one. */
async function below(entry) {
  const read = (method, ...more) => new Promise((resolve, reject) => { method.call(...more, resolve, reject); });
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) return [[await read(entry.file, entry).catch(() => null), path]];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await read(reader.readEntries, reader).catch(() => null);
    if (!some) return [...found, [null, path]];
    if (!some.length) return found;
    for (const each of some) found.push(...await below(each));
  }
}

async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean); // before the event is over
  const plain = [...transfer.files];
  if (!entries.length) return plain.map((file) => [file, file.name]);
  return (await Promise.all(entries.map(below))).flat();
}

export function Choosing({ files, setFiles, limits, readAs }) {
  const [over, setOver] = useState(false);
  const [reading, setReading] = useState(false);
  const input = useRef(null);
  const folder = useRef(null);
  const ready = files.filter((each) => isSent(each, readAs));
  const skipped = files.filter((each) => !isSent(each, readAs));
  const size = ready.reduce((sum, each) => sum + each.file.size, 0);

  const add = (pairs) => {
    const all = [...files];
    const taken = new Set(files.map((each) => idOf(each.path)));
    for (const [file, path] of pairs) {
      all.push(taken.has(idOf(path)) ? { file, path, reason: "same" } : judged(file, path, limits));
      taken.add(idOf(path));
    }
    setFiles(all);
  };
  async function drop(event) {
    event.preventDefault();
    setOver(false);
    setReading(true);
    try { add(await dropped(event.dataTransfer)); } finally { setReading(false); }
  }
  const chosen = (event) => {
    add([...event.target.files].map((file) => [file, file.webkitRelativePath || file.name]));
    event.target.value = "";
  };

  return html`
    <div class=${over ? "drop over" : "drop"} onDragOver=${(event) => { event.preventDefault(); setOver(true); }}
      onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <p>${t("upload.drop")} <button type="button" onClick=${() => input.current.click()}>${t("upload.choose")}</button>${" "}
        <button type="button" onClick=${() => folder.current.click()}>${t("upload.choose_folder")}</button></p>
      <p class="hint">${t("upload.kinds", { kinds: limits.kinds.join(" "), each: bytes(limits.document_bytes) })}</p>
      ${reading && html`<p role="status">${t("upload.reading")}</p>`}
      <input ref=${input} type="file" multiple class="visually-hidden" tabindex="-1" aria-label=${t("upload.files")} onChange=${chosen} />
      <input ref=${folder} type="file" webkitdirectory class="visually-hidden" tabindex="-1" aria-label=${t("upload.folder")} onChange=${chosen} />
    </div>
    ${ready.length > 0 && html`<div class="row between"><b>${t("upload.ready", { count: count(ready.length), size: bytes(size) })}</b>
      <button type="button" class="quiet" onClick=${() => setFiles([])}>${t("documents.clear")}</button></div>
      <ul class="plain lines files" aria-label=${t("upload.files")}>
        ${ready.slice(0, SHOWN).map((each) => html`<li key=${each.path} class="row between">
          <span class="title"><${Name} text=${each.path} /> <span class="muted">${bytes(each.file.size)}</span></span>
          <button type="button" class="quiet" aria-label=${`${t("upload.leave_out")}: ${each.path}`}
            onClick=${() => setFiles(files.filter((other) => other !== each))}><${Icon} name="close" /></button>
        </li>`)}
        ${ready.length > SHOWN && html`<li class="muted">${t("upload.more", { count: count(ready.length - SHOWN) })}</li>`}
      </ul>`}
    ${skipped.length > 0 && html`<details class="skipped" open=${skipped.length <= 5}>
      <summary>${t("upload.skipped", { count: count(skipped.length) })}</summary>
      <ul class="plain lines files">${skipped.slice(0, SHOWN * 5).map((each, at) => html`<li key=${`${at} ${each.path}`}>
        ${each.path} <span class="muted">${word("skipped", each.reason)}</span></li>`)}
        ${skipped.length > SHOWN * 5 && html`<li class="muted">${t("upload.more", { count: count(skipped.length - SHOWN * 5) })}</li>`}</ul>
    </details>`}`;
}
