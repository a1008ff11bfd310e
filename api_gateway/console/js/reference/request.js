// A request to try: fields for parameters and body, the same as curl, and the answer as it arrives. The key is in this tab's
// session storage, shared with the console, and in the header of requests.
import { html, useEffect, useRef, useState } from "../html.js";
import { address, query } from "../api.js";
import { Area, Field, Text } from "../parts/fields.js";
import { Copyable } from "../parts/states.js";
import { keptKey, keepKey } from "../session.js";
import { t } from "../words.js";
import { resolved } from "./document.js";

const MOST_SHOWN = 200_000; // characters of an answer
const FORM = "multipart/form-data";

export const keyOf = () => keptKey() ?? "";
export const setKey = (text) => keepKey(text.trim());

export function Request({ of, schemas }) {
  const [key, writeKey] = useState(keyOf());
  const [values, setValues] = useState(() => Object.fromEntries(
    of.parameters.map((each) => [each.name, each.in === "path" ? String(each.example ?? "") : ""])));
  const [text, setText] = useState(() => (of.body && of.body.mediaType !== FORM ? JSON.stringify(of.body.example ?? {}, null, 2) : ""));
  const [parts, setParts] = useState({});
  const [fault, setFault] = useState(null);
  const [answer, setAnswer] = useState(null);
  const running = useRef(null);
  useEffect(() => () => running.current?.abort(), []);

  const isForm = of.body?.mediaType === FORM;
  const missing = of.parameters.find((each) => each.required && each.in !== "header" && !values[each.name].trim());
  const path = targetOf(of, values);

  async function send(event) {
    event.preventDefault();
    setFault(null);
    const headers = headersOf(of, values);
    if (of.secured && key.trim()) headers.Authorization = `Bearer ${key.trim()}`;
    const init = { method: of.method, headers, cache: "no-store" };
    if (isForm) init.body = formOf(parts);
    else if (of.body && text.trim()) {
      if (!parses(text)) return setFault(t("form.no_json"));
      headers["Content-Type"] = of.body.mediaType;
      init.body = text;
    }
    running.current?.abort();
    running.current = new AbortController();
    return follow(path, { ...init, signal: running.current.signal }, setAnswer);
  }

  return html`<form class="panel form" onSubmit=${send}>
    ${of.secured && html`<${Text} label=${t("signin.key")} type="password" value=${key} spellcheck=${false} placeholder="cw_…"
      hint=${t("reference.key_hint")} onInput=${(next) => { writeKey(next); setKey(next); }} />`}
    ${of.parameters.length > 0 && html`<div class="fields">${of.parameters.map((each) => html`
      <${Text} key=${each.name} label=${each.name} value=${values[each.name]} required=${each.required && each.in !== "header"} spellcheck=${false}
        placeholder=${each.example === undefined ? "" : String(each.example)} onInput=${(next) => setValues({ ...values, [each.name]: next })} />`)}
    </div>`}
    ${of.body && (isForm
      ? html`<${Parts} of=${resolved(of.body.schema, schemas)} value=${parts} onInput=${setParts} />`
      : html`<${Area} label=${t("reference.body")} rows=${Math.min(18, text.split("\n").length + 1)} spellcheck=${false} class="mono"
          value=${text} onInput=${setText} fault=${fault} />`)}
    <div class="buttons">
      <button class=${of.method === "DELETE" ? "danger" : "primary"} disabled=${Boolean(missing)}>${t("reference.send", { method: of.method })}</button>
      ${answer?.open && html`<button type="button" onClick=${() => running.current.abort()}>${t("reference.stop")}</button>`}
      <${Copyable} shown="curl" label=${t("reference.copy_curl")} text=${curlOf(of, path, headersOf(of, values), isForm ? parts : text)} />
    </div>
    ${answer && html`<${Answer} of=${answer} />`}
  </form>`;
}

function Parts({ of, value, onInput }) {
  return html`<div class="fields">${Object.entries(of.properties ?? {}).map(([name, part]) => {
    const isFile = [part, part.items ?? {}].some((each) => each.format === "binary" || each.contentMediaType);
    return isFile
      ? html`<${Field} key=${name} label=${name}>${(ties) => html`<input type="file" multiple=${part.type === "array"} ...${ties}
          onChange=${(event) => onInput({ ...value, [name]: [...event.target.files] })} />`}<//>`
      : html`<${Text} key=${name} label=${name} value=${value[name] ?? ""} spellcheck=${false} onInput=${(next) => onInput({ ...value, [name]: next })} />`;
  })}</div>`;
}

function Answer({ of: { status, ms, headers, body, error, open } }) {
  if (error) return html`<p class="note warn" role="alert">${error}</p>`;
  return html`<div class="answer" role="status">
    <p><code class=${`status-${String(status)[0]}`}>${status}</code> ${ms} ms ${open && html`<span class="live">${t("reference.streaming")}</span>`}</p>
    <details><summary>${t("reference.headers")}</summary><pre tabindex="0">${headers}</pre></details>
    ${body && html`<pre class="body" tabindex="0">${body}</pre>`}
  </div>`;
}

/** Send the request and report its answer: once when it is complete, and for a stream of events after each piece. */
async function follow(path, init, report) {
  const started = performance.now();
  let shown = {};
  const show = (change) => report(shown = { ...shown, ...change });
  try {
    const response = await fetch(path, init);
    const kind = response.headers.get("Content-Type") ?? "";
    show({ status: response.status, ms: Math.round(performance.now() - started), headers: [...response.headers].map((pair) => pair.join(": ")).join("\n") });
    if (kind && !/json|text/.test(kind)) {
      const { size } = await response.blob();
      return show({ body: t("reference.bytes", { count: size, kind }) });
    }
    let text = "";
    for await (const piece of pieces(response.body)) {
      text = (text + piece).slice(0, MOST_SHOWN);
      if (kind.includes("event-stream")) show({ open: true, body: text });
    }
    return show({ open: false, body: pretty(text) });
  } catch (error) {
    return show({ open: false, error: error.name === "AbortError" ? null : t("error.no_connection_detail") });
  }
}

async function* pieces(stream) {
  if (!stream) return;
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function pretty(text) {
  return parses(text) && text ? JSON.stringify(JSON.parse(text), null, 2) : text;
}

function parses(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function targetOf(of, values) {
  const path = of.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(values[name] ?? ""));
  const asked = of.parameters.filter((each) => each.in === "query");
  return address(path + query(Object.fromEntries(asked.map(({ name }) => [name, values[name].trim()]))));
}

function headersOf(of, values) {
  const named = of.parameters.filter((each) => each.in === "header" && values[each.name].trim());
  return Object.fromEntries(named.map(({ name }) => [name, values[name].trim()]));
}

function formOf(parts) {
  const form = new FormData();
  for (const [name, value] of Object.entries(parts)) {
    for (const each of [value].flat()) if (each instanceof File || each) form.append(name, each);
  }
  return form;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command of a shell, with the key as a variable. */
function curlOf(of, path, headers, body) {
  const lines = [`curl -X ${of.method} ${quoted(path.href)}`];
  if (of.secured) lines.push('-H "Authorization: Bearer $CHORDWISE_API_KEY"');
  for (const pair of Object.entries(headers)) lines.push(`-H ${quoted(pair.join(": "))}`);
  if (of.body?.mediaType === FORM) {
    for (const [name, value] of Object.entries(body)) {
      for (const each of [value].flat()) lines.push(`-F ${quoted(each instanceof File ? `${name}=@${each.name}` : `${name}=${each}`)}`);
    }
  } else if (of.body && body.trim()) lines.push(`-H 'Content-Type: ${of.body.mediaType}'`, `-d ${quoted(body)}`);
  return lines.join(" \\\n  ");
}
