// Requests to /v1 with the user's key. Failures become an ApiError that a view can show.
import { unheard } from "./connection.js";
import { codeName, said } from "./sentences.js";
import { session, signOut } from "./session.js";
import { keyNow } from "./sign_on.js";
import { t } from "./words.js";

/** Problem details (RFC 9457) of an answer, or an equivalent for a missing answer. */
export class ApiError extends Error {
  constructor({ status = 0, code = "", title = "", detail = "", request_id: requestId = "", errors = [], retryAfter = null }) {
    super(said(detail) || title || code);
    const faults = errors.map((fault) => ({ ...fault, detail: said(fault.detail) }));
    Object.assign(this, { status, code, title: codeName(code, title), detail, requestId, errors: faults, retryAfter });
  }
}

const OUTAGES = [502, 503, 504];

/** Whether the same request may succeed later, without anybody doing something. */
export const isOutage = (error) => error.code === "no_connection" || OUTAGES.includes(error.status);

// The folder of the console's folder, whatever prefix a proxy adds in front.
const ROOT = import.meta.url.slice(0, import.meta.url.lastIndexOf("/console/") + 1);

/** Relative to this file, so that a proxy's prefix does no harm. */
export const address = (path) => new URL(path.replace(/^\//, ""), ROOT);

export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

export const segment = (id) => encodeURIComponent(id);

/**
 * One request. Returns `{body, headers, status}`; raises ApiError, or AbortError when `signal` was used. `bytes`: a body
 * that is neither JSON nor a form; `key`: in place of the session's, null for none; `raw`: return the stream of the answer's body; `blob`: return the body as a Blob.
 */
export async function send(method, path, { json, form, bytes, raw = false, headers = {}, signal, key, accept = [], blob = false } = {}) {
  const init = { method, signal, headers: { Accept: "application/json", ...headers }, cache: "no-store" };
  const sent = key === undefined ? await keyNow() : key;
  if (sent) init.headers.Authorization = `Bearer ${sent}`;
  if (json !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(json);
  } else if (form ?? bytes) {
    init.body = form ?? bytes;
  }
  let response;
  try {
    response = await fetch(address(path), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    unheard();
    throw new ApiError({ code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail") });
  }
  if (raw && response.ok) return { body: response.body, headers: response.headers, status: response.status };
  const body = blob && response.ok ? await response.blob() : await bodyOf(response);
  if (response.ok || accept.includes(response.status)) {
    return { body, headers: response.headers, status: response.status };
  }
  if (OUTAGES.includes(response.status) && typeof body !== "object") unheard(); // a proxy's words, not the gateway's
  throw problemOf(response, body);
}

async function bodyOf(response) {
  const text = await response.text();
  if (!(response.headers.get("Content-Type") ?? "").includes("json")) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function problemOf(response, body) {
  const problem = typeof body === "object" && body !== null ? body : {};
  const requestId = problem.request_id ?? response.headers.get("X-Request-ID") ?? "";
  if (response.status === 401 && session.get()) signOut("signin.expired");
  return new ApiError({
    title: t("error.status", { status: response.status }),
    ...problem,
    status: response.status,
    request_id: requestId,
    retryAfter: response.headers.get("Retry-After"),
  });
}

export const get = async (path, options) => (await send("GET", path, options)).body;
export const post = async (path, json, options) => (await send("POST", path, { json, ...options })).body;
export const put = async (path, json, options) => (await send("PUT", path, { json, ...options })).body;
export const patch = async (path, json, options) => (await send("PATCH", path, { json, ...options })).body;
export const remove = async (path, options) => (await send("DELETE", path, options)).body;
