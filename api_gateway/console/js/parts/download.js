// Files that the page hands to the browser.
import { address, ApiError, problemOf } from "../api.js";
import { keyNow } from "../sign_on.js";
import { t } from "../words.js";

/** Offer text or a Blob as a file. */
export function offer(name, content) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: "text/plain" }));
  const anchor = Object.assign(document.createElement("a"), { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Get a file with the user's key, which a plain link could not send. Raises ApiError. */
export async function download(path, name) {
  const key = await keyNow();
  let response;
  try {
    response = await fetch(address(path), { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" });
  } catch {
    throw new ApiError({ code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail") });
  }
  if (!response.ok) throw problemOf(response, await response.json().catch(() => null));
  offer(name, await response.blob());
}
