// Exports and imports that run while the page is open, whichever view is shown. One at a time.
import { ApiError, get, query, remove, segment, send } from "../api.js";
import { canStream, openFile } from "../saving.js";
import { session } from "../session.js";
import { createStore } from "../store.js";
import { manifestFile, padding, partName, spaceOf, SUFFIX, TAR_END, tarHeader } from "./archive.js";
import { sha256 } from "./sha256.js";

const PART = "application/vnd.chordwise.part";
const TRIES = 6;
const LONGEST_PAUSE_S = 30;

/**
 * null, or `{kind, namespace, state, manifest, parts, total, documents, bytes, startedAt, waiting, error}`; `state` is running,
 * stopped (and can continue), failed (and cannot) or done; `parts` of `total` are through, `documents` are in them.
 */
export const transfer = createStore(null);

let controller = null;
let step = null; // carries the present transfer on, from where it stopped

session.subscribe((who) => { if (!who) forget(); });
addEventListener("beforeunload", (event) => { if (transfer.get()?.state === "running") event.preventDefault(); });

export function forget() {
  controller?.abort();
  [controller, step] = [null, null];
  transfer.set(null);
}

export const stop = () => controller?.abort();

/** Continue what was stopped or interrupted. */
export async function proceed() {
  const mine = new AbortController();
  controller = mine;
  const change = (next) => { if (controller === mine) transfer.set({ ...transfer.get(), ...next }); };
  change({ state: "running", error: null });
  try {
    await step({ signal: mine.signal, change });
    change({ state: "done", waiting: false });
  } catch (error) {
    if (mine.signal.aborted && transfer.get()) change({ state: "stopped", waiting: false });
    else change({ state: error.isFinal ? "failed" : "stopped", error, waiting: false });
  }
}

/** One request, repeated while the server or the network is overloaded or away. */
async function patiently(request, { signal, change }) {
  for (let turn = 1; ; turn++) {
    try {
      const answer = await request();
      change({ waiting: false });
      return answer;
    } catch (error) {
      const passing = error instanceof ApiError && (!error.status || error.status === 429 || error.status >= 500);
      if (!passing || turn === TRIES || signal.aborted) throw error;
      change({ waiting: true });
      const seconds = Math.min(Number(error.retryAfter) || 2 ** turn, LONGEST_PAUSE_S);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000 * seconds);
        signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
      });
      signal.throwIfAborted();
    }
  }
}

const final = (error) => Object.assign(error, { isFinal: true });

/** Export a namespace to a file that the user chooses. */
export async function startExport(namespace) {
  const file = await openFile(`${namespace}${SUFFIX}`);
  if (!file) return;
  forget();
  const contents = {
    archive_id: newId(), namespace, created_at: `${new Date().toISOString().slice(0, 19)}Z`, parts: [], complete: false, next_cursor: null,
    model: "", dimension: 0, distance: "",
  };
  async function write(name, bytes) {
    try {
      for (const piece of [tarHeader(name, bytes.length), bytes, padding(bytes.length)]) if (piece.length) await file.write(piece);
    } catch (error) {
      await file.abort().catch(() => {});
      throw final(error instanceof RangeError ? Object.assign(new Error(), { flaw: "too_large" }) : Object.assign(error, { flaw: "no_room" }));
    }
  }
  step = async ({ signal, change }) => {
    if (!transfer.get().total) change({ total: await patiently(() => documentsIn(namespace, signal), { signal, change }) });
    while (!contents.complete) {
      const path = `v1/namespaces/${segment(namespace)}/export${query({ cursor: contents.next_cursor })}`;
      const { bytes, headers } = await patiently(async () => {
        const answer = await send("GET", path, { raw: true, signal, headers: { Accept: PART } });
        return { bytes: await whole(answer, signal), headers: answer.headers };
      }, { signal, change });
      const counts = Object.fromEntries([...(headers.get("Chordwise-Counts") ?? "").matchAll(/(\w+)=(\d+)/g)].map(([, name, value]) => [name, Number(value)]));
      const number = contents.parts.length + 1;
      await write(partName(number), bytes);
      contents.parts.push({
        number, name: partName(number), bytes: bytes.length, sha256: hexOf(headers.get("Content-Digest")), cursor: contents.next_cursor,
        documents: 0, chunks: 0, vectors: 0, without_vector: 0, ...counts,
      });
      Object.assign(contents, { next_cursor: headers.get("Next-Cursor"), complete: !headers.get("Next-Cursor"), ...spaceOf(bytes) });
      const sum = (name) => contents.parts.reduce((all, part) => all + part[name], 0);
      change({ parts: number, documents: sum("documents"), bytes: sum("bytes") });
    }
    await write("manifest.json", await manifestFile(contents));
    await file.write(TAR_END);
    await file.close();
  };
  transfer.set({ kind: "export", namespace, documents: 0, total: 0, parts: 0, bytes: 0, startedAt: Date.now(), streams: canStream() });
  await proceed();
}

/** How many documents a namespace has, for the progress. */
async function documentsIn(namespace, signal) {
  const { data } = await get(`v1/namespaces${query({ contains: namespace, limit: 200 })}`, { signal });
  return data.find((each) => each.namespace === namespace)?.documents ?? 0;
}

/** Import an archive opened by `openArchive`. `again`: send parts that arrived before once more. */
export async function startImport(archive, namespace, { onConflict, again }) {
  forget();
  const { manifest } = archive;
  const path = `v1/namespaces/${segment(namespace)}/imports/${segment(manifest.archive_id)}`;
  let forgets = again;
  step = async ({ signal, change }) => {
    const steady = (request) => patiently(request, { signal, change });
    if (forgets) await steady(() => remove(path, { signal, accept: [404] }));
    forgets = false;
    const { parts: arrived = [] } = await steady(() => get(path, { signal, accept: [404] }));
    const known = new Map(arrived.map((part) => [part.part, part.sha256]));
    const parts = manifest.parts.filter((part) => part.documents);
    const through = (part) => known.has(part.number);
    const report = () => change({ parts: parts.filter(through).length, bytes: parts.filter(through).reduce((sum, part) => sum + part.bytes, 0) });
    report();
    for (const part of parts) {
      if (known.has(part.number) && known.get(part.number) !== part.sha256) throw Object.assign(new Error(), { flaw: "differs", name: part.name });
      if (known.has(part.number)) continue;
      const bytes = await archive.part(part);
      const headers = { "Content-Type": PART, "Content-Digest": `sha-256=:${base64Of(part.sha256)}:` };
      const target = `${path}/parts/${part.number}${query({ on_conflict: onConflict })}`;
      await steady(() => send("PUT", target, { bytes, headers, signal }));
      known.set(part.number, part.sha256);
      report();
    }
  };
  const total = manifest.parts.filter((part) => part.documents).length;
  transfer.set({ kind: "import", namespace, manifest, path, parts: 0, total, bytes: 0, startedAt: Date.now() });
  await proceed();
}

/** A part, whole. Raises ApiError if the connection ends early or the part is not that of its checksum: worth another try. */
async function whole({ body, headers }, signal) {
  const lost = new ApiError({ code: "part_damaged" });
  const bytes = await new Response(body).arrayBuffer().then((buffer) => new Uint8Array(buffer), () => null);
  signal.throwIfAborted();
  const digest = bytes && await sha256(bytes);
  if (!bytes || (digest && digest !== hexOf(headers.get("Content-Digest")))) throw lost;
  return bytes;
}

const hexOf = (digest) => Array.from(atob(/sha-256=:([^:]+):/.exec(digest ?? "")?.[1] ?? ""), (letter) => letter.charCodeAt(0).toString(16).padStart(2, "0")).join("");

const base64Of = (hex) => btoa(String.fromCharCode(...hex.match(/../g).map((pair) => Number.parseInt(pair, 16))));

/** A random UUID; `crypto.randomUUID` is absent from pages without https. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
