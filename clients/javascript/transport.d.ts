/** Options of every request. */
export interface RequestOptions {
  /** Ends the request, its retries and the pauses between them. */
  signal?: AbortSignal;
  /** Milliseconds for the request with its retries, instead of those of the client. */
  timeoutMs?: number;
  /** Seconds for which the server may hold the answer to a query (`Prefer: wait`). */
  waitS?: number;
  /** Attempts after the first one, instead of those of the client. */
  retries?: number;
  headers?: Record<string, string>;
  /** Identifies the request in the server's logs and tasks. */
  requestId?: string;
  /** A key of your own; requests that create something have one in any case. */
  idempotencyKey?: string;
  /** Only if the resource still has this `ETag`; else ProblemError with status 412. */
  ifMatch?: string;
  /** Called with the successful response before its body is read, for its headers. */
  onResponse?: (response: Response) => void;
}

export interface ClientOptions {
  /** Default: CHORDWISE_URL of the environment. */
  url?: string;
  /** Default: CHORDWISE_API_KEY of the environment. */
  apiKey?: string;
  /** Milliseconds for a request with its retries. Default: 30,000. */
  timeoutMs?: number;
  /** Attempts after the first one. Default: 4. */
  retries?: number;
  fetch?: typeof globalThis.fetch;
}

/** A file of an upload whose content is not a Blob. */
export interface NamedFile {
  name: string;
  data: Blob | ArrayBuffer | Uint8Array | string;
  type?: string;
}

export interface ServerEvent {
  event: string;
  id: string;
  data: any;
}

export class ChordwiseError extends Error {}
export class ConnectionFailed extends ChordwiseError {}
export class Aborted extends ChordwiseError {}

export class ProblemError extends ChordwiseError {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly requestId?: string;
  readonly errors: { pointer?: string; detail?: string }[];
  readonly retryAfterMs?: number;
}

export class Transport {
  constructor(options?: ClientOptions);
}
