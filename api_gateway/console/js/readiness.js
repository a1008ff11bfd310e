// The checks of /readyz, and their names.
import { ApiError, send } from "./api.js";
import { t, word } from "./words.js";

const PATIENCE_MS = 4000; // /readyz answers within 1.5 s, whatever it waits for

export async function readiness(signal) {
  const patience = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
  const { body } = await send("GET", "readyz", { signal: patience, accept: [503] });
  if (body?.dependencies) return body;
  throw new ApiError({ code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail") }); // a proxy's own 503
}

export const checkName = (name) => (name.startsWith("queue:")
  ? t("health.worker_for", { queue: word("queue", name.slice("queue:".length)) })
  : word("dependency", name));
