// The current page: `#/documents/kb/d1?x=y`. The part behind # never leaves the browser.
import { createStore } from "./store.js";

function read() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(search) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = createStore(read());

addEventListener("hashchange", () => route.set(read()));

export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** The address with these parameters after it, an object or pairs; empty ones are left out. */
export function linkWith(parts, parameters) {
  const pairs = Array.isArray(parameters) ? parameters : Object.entries(parameters);
  const given = pairs.filter(([, value]) => value);
  return link(...parts) + (given.length ? `?${new URLSearchParams(given)}` : "");
}

export function go(...parts) {
  location.hash = link(...parts);
}
