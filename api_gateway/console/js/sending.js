// Uploads with progress: fetch cannot say how much has been sent, XMLHttpRequest can.
import { address, ApiError } from "./api.js";
import { signOut } from "./session.js";
import { keyNow } from "./sign_on.js";
import { t } from "./words.js";

/** Send a form. Calls `onProgress(share)` with 0 to 1; returns the answer's body. Raises ApiError. */
export async function sendForm(path, form, { onProgress = () => {}, signal } = {}) {
  const key = await keyNow();
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", address(path));
    request.setRequestHeader("Authorization", `Bearer ${key}`);
    request.setRequestHeader("Accept", "application/json");
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      let body = {};
      try {
        body = JSON.parse(request.responseText);
      } catch {
        // An answer that is not JSON comes from a proxy before the gateway; its status is enough.
      }
      if (request.status >= 200 && request.status < 300) return resolve(body);
      if (request.status === 401) signOut("signin.expired");
      return reject(new ApiError({
        title: t("error.status", { status: request.status }),
        request_id: request.getResponseHeader("X-Request-ID") ?? "",
        ...body,
        status: request.status,
      }));
    };
    request.onerror = () => reject(new ApiError({
      code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail"),
    }));
    request.onabort = () => reject(new ApiError({ code: "cancelled", title: t("upload.cancelled") }));
    signal?.addEventListener("abort", () => request.abort(), { once: true });
    request.send(form);
  });
}
