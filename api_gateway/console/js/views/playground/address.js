// A question and its settings as the parameters of the page's address, so that a link, a reload and the way back repeat it.
import { TEXT_NAMES } from "../../document_fields.js";
import { linkWith } from "../../router.js";
import { NO_FILTERS } from "./filters.js";
import { FACETS } from "./facets.js";
import { AS_PROFILE, FIXED, METHODS, FUSIONS, SWITCH } from "./settings.js";

const RESULTS = "5";
const KNOWN = { method: METHODS, fusion: FUSIONS, rerank: SWITCH };
const SIDES = [{ ...AS_PROFILE }, { ...AS_PROFILE, method: "semantic" }];

/** A draft of the form. `chosen`: names of namespaces, or null for all. */
export const fresh = () => ({ text: "", chosen: null, topK: RESULTS, facets: FACETS, group: "", two: false, filters: NO_FILTERS, sides: SIDES.map((side) => ({ ...side })) });

/** The address of a draft; what is as in a new form is left out. */
export function addressOf({ text, chosen, topK, facets = FACETS, group = "", two, filters, sides }) {
  const { tags, metadata, ...plain } = filters;
  const own = (side, at) => FIXED.filter((field) => side[field] !== SIDES[at][field]).map((field) => [`${at ? "b_" : ""}${field}`, side[field] || "-"]);
  return linkWith(["playground"], [
    ["text", text], ...(chosen ?? []).map((name) => ["namespace", name]), ["results", topK === RESULTS ? "" : topK || "-"],
    ["facets", facets === FACETS ? "" : facets || "-"], ["group", group],
    ...own(sides[0], 0), ["two", two && "1"], ...(two ? own(sides[1], 1) : []),
    ...Object.entries(plain), ...tags.map((tag) => ["tag", tag]), ["metadata", metadata.length > 0 && JSON.stringify(metadata)],
  ]);
}

/** The draft of an address; null for one without a question. What the form could not hold is as in a new one. */
export function draftOf(query) {
  const text = query.get("text")?.trim();
  if (!text) return null;
  const value = (name, otherwise) => (query.get(name) === "-" ? "" : query.get(name) ?? otherwise);
  const sides = SIDES.map((side, at) => Object.fromEntries(FIXED.map((field) => {
    const given = value(`${at ? "b_" : ""}${field}`, side[field]);
    return [field, !KNOWN[field] || KNOWN[field].includes(given) ? given : side[field]];
  })));
  const plain = Object.fromEntries([...TEXT_NAMES, "start", "end", "story", "where"].map((name) => [name, query.get(name) ?? ""]));
  return {
    text, sides, two: query.has("two"), topK: value("results", RESULTS), facets: value("facets", FACETS), group: query.get("group") ?? "", chosen: query.has("namespace") ? query.getAll("namespace") : null,
    filters: { ...plain, tags: query.getAll("tag"), metadata: pairsOf(query.get("metadata")) },
  };
}

function pairsOf(text) {
  try {
    const pairs = JSON.parse(text ?? "[]");
    return Array.isArray(pairs) && pairs.every((pair) => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string") ? pairs : [];
  } catch {
    return [];
  }
}
