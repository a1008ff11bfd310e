// Server-sent events over fetch: EventSource cannot send a key in a header, and a key does not belong in an address.
import { address, ApiError, problemOf, send } from "./api.js";
import { unheard } from "./connection.js";
import { keyNow } from "./sign_on.js";
import { t } from "./words.js";

const AGAIN_MS = 1500;

/**
 * Follow a job until it has ended or `signal` is used. `onEvent(name, data)` is called for each event; after a lost
 * connection it resumes after the last one. Raises ApiError when the server refuses; `onBreak(true | false)` reports losses.
 */
export async function followJob(jobId, { signal, onEvent, onBreak = () => {} }) {
  let lastId = "";
  for (;;) {
    try {
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${await keyNow()}` };
      if (lastId) headers["Last-Event-ID"] = lastId;
      const response = await fetch(address(`v1/jobs/${jobId}/events`), { headers, signal, cache: "no-store" });
      if (response.status === 204) return;
      if (!response.ok) throw problemOf(response, await response.json().catch(() => null));
      onBreak(false);
      for await (const event of events(response.body)) {
        lastId = event.id || lastId;
        if (event.data) onEvent(event.name, JSON.parse(event.data));
        if (event.name === "finished") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status && error.status < 500 && error.status !== 429) throw error;
      if (!error.status) unheard();
      onBreak(true);
    }
    await pause(AGAIN_MS, signal);
    if (signal.aborted) return;
  }
}

/**
 * One POST whose answer is streamed: `onEvent(name, data)` for each event, and the data of the last one, `finished`, as the
 * result. Raises ApiError for a problem, in an event too, and for a stream that breaks off; AbortError when `signal` was used.
 */
export async function postForEvents(path, json, { signal, onEvent }) {
  const { body } = await send("POST", path, { json, signal, raw: true, headers: { Accept: "text/event-stream" } });
  try {
    for await (const event of events(body)) {
      const data = event.data && JSON.parse(event.data);
      if (event.name === "finished") return data;
      if (event.name === "error") throw new ApiError(data);
      if (data) onEvent(event.name, data);
    }
  } catch (error) {
    if (signal?.aborted || error instanceof ApiError) throw error;
  }
  unheard();
  throw new ApiError({ code: "no_connection", title: t("error.no_connection"), detail: t("error.no_connection_detail") });
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r", "");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      yield parse(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function parse(block) {
  const event = { name: "message", data: "", id: "" };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const field = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event.name = value;
    else if (field === "data") event.data += event.data ? `\n${value}` : value;
    else if (field === "id") event.id = value;
  }
  return event;
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
