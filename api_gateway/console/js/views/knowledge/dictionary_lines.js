// Dictionary entries as lines of text, and back.
import { t } from "../../words.js";

export const KINDS = ["synonyms", "stop_words", "phrases", "rules"];

const LONGEST = 128; // characters of an expression
const MOST_SYNONYMS = 32;
const WORD = /[\p{L}\p{N}]/u;

/** An entry as a line that `parsed` reads. */
export function lineOf(kind, entry) {
  if (kind === "synonyms") return entry.join(", ");
  if (kind !== "rules") return entry;
  return [entry.when, entry.document_id, entry.namespace ?? "", entry.boost].join(" | ");
}

export const keyOf = (entry) => (typeof entry === "string" ? entry : JSON.stringify(Array.isArray(entry) ? entry : Object.entries(entry).sort()));

function flaw(expression) {
  if ([...expression].length > LONGEST) return t("dictionary.too_long", { most: LONGEST });
  return WORD.test(expression) ? "" : t("dictionary.no_word", { text: expression });
}

const READ = {
  synonyms(line) {
    const group = [...new Set(line.split(/[,，、;；|\t]/).map((each) => each.trim()).filter(Boolean))];
    if (group.length < 2) return { detail: t("dictionary.one_synonym") };
    if (group.length > MOST_SYNONYMS) return { detail: t("dictionary.too_many_synonyms", { most: MOST_SYNONYMS }) };
    return { entry: group, detail: group.map(flaw).find(Boolean) };
  },
  stop_words: (line) => ({ entry: line, detail: flaw(line) }),
  phrases: (line) => ({ entry: line, detail: flaw(line) }),
  rules(line, namespace) {
    const [when = "", documentId = "", own = "", boost = ""] = line.split(/[|\t]/).map((each) => each.trim());
    const factor = boost === "" ? 2 : Number(boost);
    if (!documentId) return { detail: t("dictionary.rule_form") };
    if (!own && !namespace) return { detail: t("dictionary.rule_namespace") };
    if (!(factor >= 0 && factor <= 100)) return { detail: t("dictionary.rule_boost") };
    return { entry: { when, document_id: documentId, namespace: own || namespace, boost: factor }, detail: flaw(when) };
  },
};

/** The entries in a text, one a line. `faults`: `{line, text, detail}`, counted from 1; `repeated`: lines that `present` (keys) has. */
export function parsed(kind, text, present, namespace) {
  const result = { entries: [], faults: [], repeated: 0 };
  const seen = new Set(present);
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const line = raw.trim();
    if (!line) continue;
    const { entry, detail } = READ[kind](line, namespace);
    if (detail) result.faults.push({ line: index + 1, text: line, detail });
    else if (seen.has(keyOf(entry))) result.repeated += 1;
    else result.entries.push(entry);
    if (entry && !detail) seen.add(keyOf(entry));
  }
  return result;
}

/** `theirs` with the changes from `base` to `mine`. */
export function merged(base, mine, theirs) {
  return Object.fromEntries(KINDS.map((kind) => {
    const [before, after, there] = [base, mine, theirs].map((each) => new Set(each[kind].map(keyOf)));
    const stay = theirs[kind].filter((entry) => after.has(keyOf(entry)) || !before.has(keyOf(entry)));
    return [kind, [...stay, ...mine[kind].filter((entry) => !before.has(keyOf(entry)) && !there.has(keyOf(entry)))]];
  }));
}

/** The number of entries that one has and the other lacks, in either direction. */
export function changed(base, mine) {
  return KINDS.reduce((sum, kind) => {
    const [before, after] = [base, mine].map((each) => new Set(each[kind].map(keyOf)));
    return sum + [...after].filter((key) => !before.has(key)).length + [...before].filter((key) => !after.has(key)).length;
  }, 0);
}
