// The figures of /v1/metrics (Prometheus' text format) that the page shows.
import { get } from "./api.js";

/** The series of these names, as `parseMetrics` returns them: all of them together are a hundred times as much. */
export const readMetrics = async (names, signal) => parseMetrics(await get(`v1/metrics?${new URLSearchParams(names.map((name) => ["name[]", name]))}`, { signal }));

/** `Map` of name to `[{labels, value}]`. */
function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match) continue;
    const [, name, inside = "", number] = match;
    const labels = Object.fromEntries([...inside.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, label, value]) => [label, value]));
    if (!found.has(name)) found.set(name, []);
    found.get(name).push({ labels, value: Number(number) });
  }
  return found;
}

/** One value, or null if the server could not read it. */
export function valueOf(metrics, name, labels = {}) {
  const wanted = Object.entries(labels);
  const found = (metrics.get(name) ?? []).find((each) => wanted.every(([label, value]) => each.labels[label] === value));
  return found ? found.value : null;
}

export const sumOf = (metrics, name) => (metrics.has(name) ? metrics.get(name).reduce((sum, each) => sum + each.value, 0) : null);

export const labelsOf = (metrics, name, label) => [...new Set((metrics.get(name) ?? []).map((each) => each.labels[label]))];
