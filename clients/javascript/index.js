// The client: every operation of the HTTP API, and a few steps that belong together.

import { Operations } from "./operations.js";
import { ChordwiseError, ProblemError } from "./transport.js";

export { Aborted, ChordwiseError, ConnectionFailed, ProblemError } from "./transport.js";

const LONGEST_HOLD_S = 10;
const UNFINISHED = new Set(["queued", "running"]);

export class Chordwise extends Operations {
  /** Ask a question and wait for its answer, until `options.signal` ends it or `options.timeoutMs` has passed. */
  async ask(body, options = {}) {
    const timeoutMs = options.timeoutMs ?? 30_000;
    const ends = Date.now() + timeoutMs;
    const within = { ...options, signal: AbortSignal.any([options.signal, AbortSignal.timeout(timeoutMs)].filter(Boolean)) };
    const holdS = () => Math.max(0, Math.min(LONGEST_HOLD_S, Math.ceil((ends - Date.now()) / 1000)));
    // A query changes nothing, so sending it twice is safe: the key makes that known to the server, too.
    let answer = await this.query(body, { ...within, waitS: holdS() });
    while (UNFINISHED.has(answer.status)) answer = await this.getQuery(answer.query_id, { wait: holdS() }, within);
    if (answer.status === "succeeded") return answer;
    if (answer.error) throw new ProblemError(answer.error, answer.error.status ?? 503);
    throw new ChordwiseError(`query ${answer.query_id} is ${answer.status}`);
  }

  /** Wait until a job, given by its id or as accepted, has ended, and return it. Failures are in `errors`, not thrown. */
  async waitForJob(job, options = {}) {
    const id = typeof job === "string" ? job : job.job_id;
    for (;;) {
      const now = await this.getJob(id, { wait: LONGEST_HOLD_S }, options);
      if (!UNFINISHED.has(now.status)) return now;
      options.onProgress?.(now);
    }
  }

  /** Yield every entry of a list, page by page: `client.items((params) => client.listDocuments(params), { namespace })`. */
  async *items(list, params = {}) {
    let cursor;
    do {
      const page = await list(cursor === undefined ? params : { ...params, cursor });
      yield* page.data;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
}
