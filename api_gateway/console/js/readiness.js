// The checks of /readyz, and their names.
import { ApiError, send } from "./api.js";
import { ago, moment } from "./format.js";
import { t, word } from "./words.js";

const PATIENCE_MS = 4000; // /readyz answers within 1.5 s, whatever it waits for

export async function readiness(signal) {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  try {
    const { body } = await send("GET", "readyz", { signal: AbortSignal.any([signal, patience]), accept: [503] });
    if (body?.dependencies) return body; // a proxy's own 503 has none
  } catch (error) {
    if (!patience.aborted || signal.aborted) throw error;
  }
  throw new ApiError({ code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail") });
}

/** A sentence for each host of a check that has vanished: its name, since when, and what it served. */
export const lostHosts = ({ lost = [] }) => lost.map(({ host, since, served }) => t("health.lost_host", {
  host, since: moment(since), age: ago(since), served: serves(served),
}));

const serves = (names) => names.map((name) => word("process", name, word("queue", name))).join(t("health.and"));

/** A sentence for each process of a check that has vanished although its host lives. */
export const silentProcesses = ({ silent = [] }) => silent.map(({ host, name, since, served }) => t("health.silent_process", {
  host, name, since: moment(since), age: ago(since), served: serves(served),
}));

/** Sentences that name what a failing check has as consequences, and what cannot be judged while it lasts; of these checks the
 * ones that `concern` it. */
export function consequences(name, dependencies, concern = () => true) {
  const following = Object.keys(dependencies).filter((other) => dependencies[other].cause === name && concern(other));
  const say = (key, chosen) => (chosen.length ? [t(key, { checks: chosen.map(checkName).join(t("health.and")) })] : []);
  return [
    ...say("health.follows", following.filter((other) => dependencies[other].status !== "unknown")),
    ...say("health.unjudged", following.filter((other) => dependencies[other].status === "unknown")),
  ];
}

export const checkName = (name) => (name.startsWith("queue:")
  ? t("health.worker_for", { queue: word("queue", name.slice("queue:".length)) })
  : word("dependency", name));
