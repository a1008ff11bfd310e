// Requests over fetch: errors as exceptions, retries, deadlines, uploads and server-sent events. No dependencies.

const TRY_LATER = new Set([502, 503, 504]);
const LONGEST_RETRY_AFTER_MS = 60_000;
const RETRIES_AT_WORK = 10; // of a request whose first attempt the server still processes
const SILENCE_MS = 50_000; // of a stream: the server sends something every 15 s

/** The base of all errors of this client. */
export class ChordwiseError extends Error {
  name = "ChordwiseError";
}

/** No answer came: the connection was refused or broke, also after retries. */
export class ConnectionFailed extends ChordwiseError {
  name = "ConnectionFailed";
}

/** The deadline passed, or the caller's signal was aborted. What the server has begun continues. */
export class Aborted extends ChordwiseError {
  name = "Aborted";
}

/** The server refused the request with problem details (RFC 9457). `code` is stable and meant for programs. */
export class ProblemError extends ChordwiseError {
  name = "ProblemError";

  constructor(problem, status, retryAfterMs) {
    const detail = problem.detail || problem.title || `HTTP status ${status}`;
    const errors = Array.isArray(problem.errors) ? problem.errors : [];
    const first = errors[0] ? `: ${errors[0].pointer ?? ""} ${errors[0].detail ?? ""}`.trimEnd() : "";
    super(`${detail.replace(/[.。]$/, "")}${first} (${status} ${problem.code ?? "http_error"})`);
    this.status = status;
    this.code = problem.code ?? "http_error";
    this.title = problem.title ?? "";
    this.detail = detail;
    this.requestId = problem.request_id;
    this.errors = errors;
    this.retryAfterMs = retryAfterMs;
  }
}

export class Transport {
  #url;
  #key;
  #fetch;
  #retries;
  #timeoutMs;

  constructor({ url, apiKey, timeoutMs = 30_000, retries = 4, fetch: send = globalThis.fetch } = {}) {
    const found = globalThis.process?.env ?? {};
    this.#url = (url ?? found.CHORDWISE_URL ?? "").replace(/\/+$/, "");
    this.#key = apiKey ?? found.CHORDWISE_API_KEY ?? "";
    if (!/^https?:\/\/[^/]/.test(this.#url)) throw new ChordwiseError("url must look like http://host:port");
    if (!/^[\x21-\x7e]+$/.test(this.#key)) throw new ChordwiseError("apiKey is missing or has invalid characters");
    this.#fetch = (...request) => send(...request); // called as a function: browsers refuse another `this`
    this.#retries = retries;
    this.#timeoutMs = timeoutMs;
  }

  /** Send a request, with retries, and return its body as `answer` says: json, none or response. */
  async request(method, path, { body, bodyType, params, keyed, answer = "json" } = {}, options = {}) {
    const headers = new Headers({ Accept: "application/json", ...options.headers });
    headers.set("Authorization", `Bearer ${this.#key}`);
    if (options.requestId) headers.set("X-Request-ID", options.requestId);
    if (options.ifMatch) headers.set("If-Match", options.ifMatch);
    if (options.waitS !== undefined) headers.set("Prefer", `wait=${options.waitS}`);
    const key = options.idempotencyKey ?? (keyed ? crypto.randomUUID() : undefined);
    if (key) headers.set("Idempotency-Key", key);
    if (answer === "response") headers.set("Accept", "*/*");
    const content = encodeBody(body, bodyType, headers);
    const signal = deadline(options, this.#timeoutMs + (holdS(options, params) ?? 0) * 1000);
    const safe = method !== "POST" || key !== undefined;
    const url = this.#url + path + queryString(params);
    const response = await this.#exchange(url, { method, headers, body: content, signal }, safe, options);
    options.onResponse?.(response);
    if (answer === "response") return response;
    if (answer === "none" || response.status === 204) {
      await response.body?.cancel();
      return undefined;
    }
    return this.#read(response, signal);
  }

  /**
   * Yield the events of a stream until the server has sent its last one; a broken connection is resumed without loss, or
   * with `once` ends the stream with an error. The event `error` is thrown as a ProblemError.
   */
  async *follow(method, path, { body, once = false } = {}, options = {}) {
    let last = "";
    let pauseMs = 2_000;
    let failures = 0;
    for (;;) {
      const silence = new AbortController();
      const signal = anySignal([options.signal, silence.signal]);
      let timer = setTimeout(() => silence.abort(), SILENCE_MS);
      try {
        const headers = new Headers({ Accept: "text/event-stream", "Cache-Control": "no-store", ...options.headers });
        headers.set("Authorization", `Bearer ${this.#key}`);
        if (options.requestId) headers.set("X-Request-ID", options.requestId);
        if (last) headers.set("Last-Event-ID", last);
        const content = encodeBody(body, undefined, headers);
        const response = await this.#fetch(this.#url + path, { method, headers, body: content, signal });
        if (response.status === 204) return;
        if (!response.ok) throw await problem(response);
        for await (const event of parseEvents(response.body, () => {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENCE_MS);
        })) {
          if (event.retryMs !== undefined) pauseMs = Math.min(event.retryMs, 60_000);
          if (event.data === undefined) continue;
          last = event.id || last;
          failures = 0;
          const data = parseJson(event.data);
          if (event.event === "error") throw new ProblemError(data ?? {}, data?.status ?? 500);
          yield { event: event.event, id: event.id, data };
          if (FINAL.has(event.event)) return;
        }
        if (once) throw new ConnectionFailed("the stream ended before its last event");
      } catch (error) {
        if (options.signal?.aborted) throw new Aborted("the stream was aborted", { cause: options.signal.reason });
        failures += 1;
        const delayMs = once ? undefined : this.#pause(error, failures, true);
        if (delayMs === undefined || failures > 10) {
          throw error instanceof ChordwiseError ? error : new ConnectionFailed(`the stream broke: ${reason(error)}`, { cause: error });
        }
        pauseMs = delayMs;
      } finally {
        clearTimeout(timer);
        silence.abort(); // also where the caller leaves the loop
      }
      await sleep(pauseMs, options.signal);
    }
  }

  async #exchange(url, init, safe, options) {
    for (let attempt = 1; ; attempt += 1) {
      let failure;
      try {
        const response = await this.#fetch(url, init);
        if (response.ok) return response;
        failure = await problem(response);
      } catch (error) {
        if (init.signal.aborted) throw aborted(init, options);
        failure = error;
      }
      const delayMs = this.#pause(failure, attempt, safe, options);
      if (delayMs === undefined) {
        if (failure instanceof ChordwiseError) throw failure;
        throw new ConnectionFailed(`no answer to ${init.method} ${url}: ${reason(failure)}`, { cause: failure });
      }
      try {
        await sleep(delayMs, init.signal);
      } catch {
        throw failure instanceof ProblemError ? failure : aborted(init, options);
      }
    }
  }

  /** Return the milliseconds before the next attempt, or undefined to give up. */
  #pause(failure, attempt, safe, options = {}) {
    const retries = options.retries ?? this.#retries;
    const backoff = Math.min(10_000, 200 * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
    if (!(failure instanceof ProblemError)) return safe && attempt <= retries ? backoff : undefined;
    const { status, retryAfterMs } = failure;
    const atWork = status === 409 && retryAfterMs !== undefined && retries > 0;
    const refused = status === 429 || failure.code === "overloaded"; // the server did nothing
    const repeatable = refused || atWork || (safe && TRY_LATER.has(status));
    if (!repeatable || attempt > (atWork ? Math.max(retries, RETRIES_AT_WORK) : retries)) return undefined;
    if (retryAfterMs === undefined) return backoff;
    return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs + 200 * Math.random() : undefined;
  }

  async #read(response, signal) {
    try {
      return await response.json();
    } catch (error) {
      if (signal.aborted) throw new Aborted("the deadline passed while the answer was read", { cause: error });
      throw new ChordwiseError(`the answer with status ${response.status} is not JSON; check the address`, { cause: error });
    }
  }
}

const FINAL = new Set(["finished", "succeeded", "failed", "cancelled", "expired"]);

async function problem(response) {
  const text = await response.text().catch(() => "");
  const body = parseJson(text);
  const described = body && typeof body === "object" && !Array.isArray(body) ? body : {};
  const fields = { request_id: response.headers.get("X-Request-ID") ?? undefined, ...described };
  if (!fields.detail && !fields.title) fields.detail = `The response with HTTP status ${response.status} is not one of Chordwise; check the address`;
  return new ProblemError(fields, response.status, retryAfterMs(response.headers.get("Retry-After")));
}

function retryAfterMs(value) {
  if (!value) return undefined;
  if (/^\d+$/.test(value.trim())) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

function aborted(init, options) {
  const byCaller = options.signal?.aborted;
  const message = byCaller ? "the request was aborted" : "no answer came in time";
  return new Aborted(`${message} (${init.method})`, { cause: init.signal.reason });
}

function holdS(options, params) {
  return options.waitS ?? params?.wait;
}

function deadline(options, timeoutMs) {
  return anySignal([options.signal, AbortSignal.timeout(options.timeoutMs ?? timeoutMs)]);
}

function anySignal(signals) {
  return AbortSignal.any(signals.filter(Boolean));
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function queryString(params) {
  const pairs = Object.entries(params ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter((each) => each !== undefined && each !== null).map((each) => [name, plain(each)]));
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

function plain(value) {
  if (value instanceof Date) return value.toISOString();
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function encodeBody(body, bodyType, headers) {
  if (body === undefined) return undefined;
  if (body instanceof FormData) return body;
  if (bodyType === "multipart/form-data") return formOf(body);
  if (bodyType) {
    headers.set("Content-Type", bodyType);
    return body;
  }
  headers.set("Content-Type", "application/json");
  return JSON.stringify(body);
}

function formOf(fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null) continue;
    const files = (Array.isArray(value) ? value : [value]).map(fileOf);
    if (files.every(Boolean)) for (const [blob, filename] of files) form.append(name, blob, ...(filename ? [filename] : []));
    else form.append(name, plain(value));
  }
  return form;
}

function fileOf(value) {
  if (value instanceof Blob) return [value, value.webkitRelativePath || value.name]; // of a chosen folder, with its folders
  if (value?.name !== undefined && value?.data !== undefined) {
    return [value.data instanceof Blob ? value.data : new Blob([value.data], { type: value.type ?? "" }), value.name];
  }
  return undefined;
}

async function* parseEvents(stream, heard) {
  let fields = {};
  let rest = "";
  for await (const text of chunksOf(stream)) {
    heard();
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (fields.data !== undefined || fields.retryMs !== undefined) yield { event: "message", id: "", ...fields };
        fields = {};
        continue;
      }
      const at = line.indexOf(":");
      const name = at < 0 ? line : line.slice(0, at);
      const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (name === "data") fields.data = fields.data === undefined ? value : `${fields.data}\n${value}`;
      else if (name === "retry" && /^\d+$/.test(value)) fields.retryMs = Number(value);
      else if (name === "event" || name === "id") fields[name] = value;
    }
  }
}

async function* chunksOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function reason(error) {
  return error?.cause?.message || error?.cause?.code || error?.message || String(error);
}
