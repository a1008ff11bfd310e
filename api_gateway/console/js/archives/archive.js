// Archives of namespaces as one file: a tar file of a manifest and parts, as `chordwise export` writes it (docs/portability.md).
import { sha256 } from "./sha256.js";

export const SUFFIX = ".chordwise";
const VERSION = 1;
const MANIFEST = "manifest.json";
const BLOCK = 512;
const MOST_ENTRIES = 1_000_001; // the API numbers parts up to a million
const encoder = new TextEncoder();

export const partName = (number) => `part-${String(number).padStart(5, "0")}.zip`;

/** A flaw of an archive: `code` is a key of messages, `name` the file it is in. */
export class ArchiveError extends Error {
  constructor(code, name = "") {
    super(code);
    Object.assign(this, { flaw: code, name });
  }
}

/** The bytes before an entry of a tar file (POSIX ustar), without owner and time; `padding` belongs after it. */
export function tarHeader(name, size) {
  const header = new Uint8Array(BLOCK);
  const put = (text, at) => header.set(encoder.encode(text), at);
  put(name, 0);
  put("0000644\0", 100);
  put("0000000\0", 108);
  put("0000000\0", 116);
  put(`${size.toString(8).padStart(11, "0")}\0`, 124);
  put(`${"0".repeat(11)}\0`, 136);
  put("        0", 148); // the checksum counts as spaces
  put("ustar\x0000", 257);
  put(`${header.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\0 `, 148);
  return header;
}

export const padding = (size) => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);

export const TAR_END = new Uint8Array(2 * BLOCK);

/** The manifest as a file, with its checksum over itself. */
export async function manifestFile(contents) {
  const whole = {
    format: "chordwise-archive", version: VERSION, ...contents,
    ...Object.fromEntries(["documents", "chunks", "vectors"].map((name) => [name, contents.parts.reduce((sum, part) => sum + part[name], 0)])),
  };
  return encoder.encode(JSON.stringify({ ...whole, sha256: await checksum(whole) }, null, 1));
}

const checksum = (contents) => sha256(encoder.encode(JSON.stringify(sorted(contents))), { ours: true });

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

/** Model, dimension and distance of the vectors in a part, from the first entry of its ZIP file, which is not compressed. */
export function spaceOf(bytes) {
  try {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const start = 30 + view.getUint16(26, true) + view.getUint16(28, true);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(start, start + view.getUint32(18, true))));
    return { model: header.model, dimension: header.dimension, distance: header.distance };
  } catch {
    return {};
  }
}

/**
 * Open an archive that the user chose: one file, or all files of its folder. Returns `{manifest, part(entry)}`; `part`
 * gives the bytes of a part, checked against the manifest. Both raise ArchiveError. Nothing but headers is read before.
 */
export async function openArchive(files) {
  const entries = files.length === 1 && files[0].name !== MANIFEST ? await tarEntries(files[0]) : new Map(files.map((file) => [file.name, file]));
  const manifest = await readManifest(entries.get(MANIFEST));
  async function part(entry) {
    const blob = entries.get(entry.name);
    if (!blob) throw new ArchiveError("missing_part", entry.name);
    const bytes = new Uint8Array(await blob.arrayBuffer());
    const digest = await sha256(bytes); // without https the server's own check has to do
    if (bytes.length !== entry.bytes || (digest && digest !== entry.sha256)) throw new ArchiveError("damaged_part", entry.name);
    return bytes;
  }
  return { manifest, part };
}

async function tarEntries(file) {
  const entries = new Map();
  const text = (bytes) => new TextDecoder().decode(bytes).split("\0")[0].trim();
  for (let at = 0; at + BLOCK <= file.size && entries.size < MOST_ENTRIES;) {
    const header = new Uint8Array(await file.slice(at, at + BLOCK).arrayBuffer());
    const name = text(header.subarray(0, 100));
    const size = Number.parseInt(text(header.subarray(124, 136)), 8);
    if (!name) break;
    if (text(header.subarray(257, 262)) !== "ustar" || !Number.isSafeInteger(size) || size < 0) throw new ArchiveError("not_archive", file.name);
    at += BLOCK;
    if (at + size > file.size) throw new ArchiveError("cut_off", name);
    entries.set(name, file.slice(at, at + size));
    at += size + padding(size).length;
  }
  if (!entries.size) throw new ArchiveError("not_archive", file.name);
  return entries;
}

async function readManifest(blob) {
  if (!blob) throw new ArchiveError("no_manifest", MANIFEST);
  let contents;
  try {
    contents = JSON.parse(await blob.text());
  } catch {
    throw new ArchiveError("damaged_manifest", MANIFEST);
  }
  if (contents?.format !== "chordwise-archive") throw new ArchiveError("not_archive", MANIFEST);
  if (contents.version !== VERSION) throw new ArchiveError("version", String(contents.version));
  const { sha256: stated, ...rest } = contents;
  if (stated !== await checksum(rest)) throw new ArchiveError("damaged_manifest", MANIFEST);
  if (!contents.complete) throw new ArchiveError("incomplete", MANIFEST);
  return contents;
}
