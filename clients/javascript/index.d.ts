import { Answer, Job, JobAccepted, Operations, QueryRequest } from "./operations.js";
import { RequestOptions } from "./transport.js";

export * from "./operations.js";
export { Aborted, ChordwiseError, ConnectionFailed, ProblemError } from "./transport.js";
export type { ClientOptions, NamedFile, RequestOptions, ServerEvent } from "./transport.js";

export interface WaitOptions extends RequestOptions {
  /** Called with the state of the job every ten seconds at the latest. */
  onProgress?: (job: Job) => void;
}

export class Chordwise extends Operations {
  /** Ask a question and wait for its answer, until `options.signal` ends it or `options.timeoutMs` has passed. */
  ask(body: QueryRequest, options?: RequestOptions): Promise<Answer>;
  /** Wait until a job has ended, and return it. Failures are in `errors`, not thrown. */
  waitForJob(job: string | JobAccepted, options?: WaitOptions): Promise<Job>;
  /** Yield every entry of a list, page by page. */
  items<Entry, Params extends object>(
    list: (params: Params & { cursor?: string }) => Promise<{ data: Entry[]; next_cursor?: string | null }>,
    params?: Params,
  ): AsyncGenerator<Entry>;
}
