// The server's sentences, which are English, in the page's language: by their code, and by patterns with their values.
import { language as chosen } from "./preferences.js";
import { word } from "./words.js";

const NONE = { codes: {}, patterns: [], reasons: {} };
const tables = new Map([["en", NONE]]);
let table = NONE;

export async function loadSentences(language = chosen.get()) {
  if (!tables.has(language)) {
    const response = await fetch(new URL(`../sentences/${language}.json`, import.meta.url));
    if (!response.ok) throw new Error(`sentences/${language}.json: ${response.status}`);
    const { codes, details, reasons } = await response.json();
    // The most specific pattern first: the one with the longest text of its own.
    const own = (text) => text.replace(/\{\w+\}/g, "").length;
    const patterns = Object.entries(details).sort(([one], [other]) => own(other) - own(one))
      .map(([english, sentence]) => ({ pattern: patternOf(english), sentence }));
    tables.set(language, { codes, patterns, reasons });
  }
  table = tables.get(language);
}

function patternOf(english) {
  const escaped = english.split(/(\{\w+\})/).map((part, place) =>
    (place % 2 ? `(?<${part.slice(1, -1)}>.+?)` : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")));
  return new RegExp(`^${escaped.join("")}$`, "su");
}

/** A sentence of the server in the page's language; undefined if the page knows none for it. */
function translated(detail) {
  for (const { pattern, sentence } of table.patterns) {
    const match = pattern.exec(detail);
    if (match) return sentence.replace(/\{(\w+)\}/g, (_, name) => valueOf(match.groups[name]));
  }
  return undefined;
}

/** A value of a sentence: a sentence itself, a reason, the name of a stage or a channel, or anything else as it came. */
const valueOf = (text) => translated(text) ?? reasonName(text, word("run", text, word("channel", text)));

/** A sentence of the server; several, joined by a semicolon, each for itself. */
export const said = (detail) => translated(detail ?? "")
  ?? (detail ?? "").split("; ").map((part) => translated(part) ?? part).join("; ");

/** The page's name for a code of the server, else `otherwise`. */
export const codeName = (code, otherwise = code) => table.codes[code] ?? otherwise;

/** The reason of something that failed: what its sentence says, or, where the page knows only the code, both. */
export function reasonOf({ code, detail }) {
  const sentence = translated(detail ?? "");
  if (sentence !== undefined || !table.codes[code]) return sentence ?? said(detail);
  return [table.codes[code], detail].filter(Boolean).join("：");
}

/** The reason why a stage left a chunk out. */
export const reasonName = (reason, otherwise = reason.replaceAll("_", " ")) => table.reasons[reason.replaceAll(" ", "_")] ?? otherwise;
