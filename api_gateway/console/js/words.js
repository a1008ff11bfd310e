// The words of the page, from one table per language. `t("jobs.title")`, with `{name}` filled in from the second argument;
// `{count:job|jobs}` is the number with the noun that fits it.
import { language } from "./preferences.js";

const tables = new Map();
let table = {};

export async function loadWords(code = language.get()) {
  if (!tables.has(code)) {
    const response = await fetch(new URL(`../messages/${code}.json`, import.meta.url));
    if (!response.ok) throw new Error(`messages/${code}.json: ${response.status}`);
    tables.set(code, flat(await response.json()));
  }
  table = tables.get(code);
  document.documentElement.lang = code === "zh" ? "zh-CN" : "en";
}

/** `{jobs: {title}}` as `{"jobs.title"}`. */
function flat(groups) {
  const pairs = Object.entries(groups).flatMap(([group, words]) =>
    Object.entries(words).map(([name, text]) => [`${group}.${name}`, text]));
  return Object.fromEntries(pairs);
}

export function t(key, values = {}) {
  const text = table[key] ?? key;
  return text.replace(/\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g, (whole, name, one, many) => {
    if (!(name in values)) return whole;
    const value = String(values[name]);
    return many === undefined ? value : `${value} ${value === "1" ? one : many}`;
  });
}

/** The word for a code of the server; `otherwise`, by default the code itself, if the page has no word for it. */
export function word(prefix, code, otherwise = code) {
  return table[`${prefix}.${code}`] ?? String(otherwise ?? "");
}

export const locale = () => (language.get() === "zh" ? "zh-CN" : "en-GB");
