// Large files for the user: written as they arrive where the browser can, else collected first.
import { offer } from "./parts/download.js";

/** The most that is collected before it is saved: a browser that cannot write to a file holds all of it. */
export const MOST_COLLECTED = 1e9;

export const canStream = () => typeof window.showSaveFilePicker === "function";

/**
 * Open a file to write to: `{write(bytes), close(), abort()}`. Asks for the place where the browser can write while it
 * receives; null if the user dismisses that. `write` raises RangeError once more is collected than a browser can hold.
 */
export async function openFile(name) {
  if (!canStream()) return collected(name);
  try {
    const handle = await window.showSaveFilePicker({ suggestedName: name });
    return await handle.createWritable();
  } catch (error) {
    if (error.name === "AbortError") return null;
    return collected(name); // forbidden here, by the system or a policy
  }
}

/** Write a stream to a file as it arrives. */
export async function pour(stream, file) {
  const reader = stream.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) await file.write(next.value);
}

function collected(name) {
  const pieces = [];
  let size = 0;
  return {
    async write(bytes) {
      size += bytes.byteLength ?? bytes.length;
      if (size > MOST_COLLECTED) throw new RangeError();
      pieces.push(new Blob([bytes])); // which a browser may keep on its disk
    },
    async close() { offer(name, new Blob(pieces)); },
    async abort() { pieces.length = 0; },
  };
}

/** Comma-separated values (RFC 4180); a cell that a spreadsheet would take for a formula is quoted as text. */
export function csv(rows) {
  const cell = (value) => {
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}
