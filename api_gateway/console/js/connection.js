// Whether the gateway answers. While it does not, one probe asks for it, and pages load again when it returns.
import { createStore } from "./store.js";

/** Since when nothing has answered, in milliseconds since the epoch; null while the gateway answers. */
export const away = createStore(null);

/** How often the gateway has returned. */
export const returns = createStore(0);

const ALIVE = new URL("../healthz", document.baseURI);
const FIRST_MS = 1000;
const LONGEST_MS = 5000;
const PATIENCE_MS = 4000;
let probing = false;

/** Note that a request got no answer. A single failure proves nothing, so ask again before pages report it. */
export async function unheard() {
  if (probing) return;
  probing = true;
  for (let pause = FIRST_MS; !(await isAlive()); pause = Math.min(2 * pause, LONGEST_MS)) {
    if (away.get() === null) away.set(Date.now());
    await new Promise((wake) => { setTimeout(wake, pause); });
  }
  probing = false;
  if (away.get() === null) return;
  away.set(null);
  returns.set(returns.get() + 1);
}

async function isAlive() {
  try {
    return (await fetch(ALIVE, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) })).ok;
  } catch {
    return false;
  }
}
