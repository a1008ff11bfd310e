// Files for the user's disk: of a route, whose key cannot be in a link, or made here.
import { send } from "./api.js";

/** Save the answer of a route under the name that it gives. */
export async function download(path) {
  const { body, headers } = await send("GET", path, { blob: true, headers: { Accept: "*/*" } });
  const name = /filename\*=UTF-8''([^;]+)/.exec(headers.get("Content-Disposition") ?? "")?.[1];
  save(body, name ? decodeURIComponent(name) : "document");
}

export function save(blob, name) {
  const at = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href: at, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(at), 10_000);
}
