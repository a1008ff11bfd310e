// Take a side elsewhere: as code for a program, or as a profile.
import { html, useState } from "../../html.js";
import { address, get, segment, send } from "../../api.js";
import { useAction } from "../../load.js";
import { Segments } from "../../parts/fields.js";
import { drafted, Form, sent } from "../../parts/form.js";
import { announce } from "../../parts/notices.js";
import { Copyable } from "../../parts/states.js";
import { may } from "../../session.js";
import { t } from "../../words.js";

export function Reuse({ body, profiles, onProfile }) {
  const [language, setLanguage] = useState("curl");
  const code = CODE[language](body, address("").href.replace(/\/$/, ""));
  return html`
    <${Segments} label=${t("reuse.language")} value=${language} onInput=${setLanguage}
      options=${[["curl", "curl"], ["python", "Python"], ["javascript", "JavaScript"]]} />
    <pre class="context" tabindex="0">${code}</pre>
    <p><${Copyable} text=${code} shown=${t("reuse.copy")} /> <span class="hint">${t("reuse.key")}</span></p>
    ${may("write") && html`<${SaveProfile} body=${body} profiles=${profiles} onProfile=${onProfile} />`}`;
}

const CODE = {
  curl: (body, url) => `curl -X POST '${url}/v1/rag/query' \\
  -H "Authorization: Bearer $CHORDWISE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
  javascript: (body, url) => `const response = await fetch("${url}/v1/rag/query", {
  method: "POST",
  headers: { "Authorization": \`Bearer \${process.env.CHORDWISE_API_KEY}\`, "Content-Type": "application/json" },
  body: JSON.stringify(${indented(JSON.stringify(body, null, 2))}),
});
if (!response.ok) throw new Error((await response.json()).detail);
const answer = await response.json();
for (const hit of answer.chunks) console.log(hit.confidence, hit.title, hit.text);`,
  python(body, url) {
    const { query_text: text, enable_rerank: rerank, story_time: story, ...rest } = body;
    const keywords = { ...rest, ...(rerank === undefined ? {} : { rerank }), ...(story === undefined ? {} : { extra: { story_time: story } }) };
    return `from chordwise import Chordwise

with Chordwise(${literal(url)}) as client:  # the key: CHORDWISE_API_KEY
    answer = client.query(
        ${literal(text)},
${Object.entries(keywords).map(([name, value]) => `        ${name}=${literal(value)},`).join("\n")}
    )
    for hit in answer.chunks:
        print(hit.confidence, hit.title, hit.text)`;
  },
};

const indented = (text) => text.replaceAll("\n", "\n  ");

/** A value as Python writes it; JSON's strings are Python's too. */
function literal(value) {
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${literal(inner)}`).join(", ")}}`;
  return value === true ? "True" : value === false ? "False" : value === null ? "None" : JSON.stringify(value);
}

/** The settings of a side over those of its profile, stored as a version of an existing profile or of a new one. */
function SaveProfile({ body, profiles, onProfile }) {
  const [open, setOpen] = useState(false);
  const fields = [
    { name: "existing", label: t("reuse.profile"), kind: "choice", options: [["", t("reuse.new")], ...profiles.map((name) => [name, t("reuse.version_of", { name })])] },
    { name: "name", label: t("reuse.name"), maxlength: "64", spellcheck: false, hint: t("reuse.name_hint") },
    { name: "note", label: t("reuse.note"), maxlength: "255" },
  ];
  const [draft, setDraft] = useState(drafted(fields));
  const shown = draft.existing ? fields.filter(({ name }) => name !== "name") : fields;
  const save = useAction(async () => {
    const { existing, name = "", note = "" } = sent(fields, draft);
    const target = existing || name.trim();
    const base = await get(`v1/profiles/${segment(body.profile)}`);
    const { body: stored } = await send("PUT", `v1/profiles/${segment(target)}`, {
      json: { config: merge(base.config, configOf(body)), note },
      headers: existing ? {} : { "If-None-Match": "*" }, // nobody else's profile gets a version by chance
    });
    announce(t("reuse.saved", { name: stored.name, version: stored.config_version }));
    onProfile();
  });
  return html`<details class="save-profile" open=${open} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>${t("reuse.save")}</summary>
    <p class="hint">${t("reuse.save_hint", { profile: body.profile })}</p>
    <${Form} fields=${shown} value=${draft} onChange=${setDraft} onSubmit=${() => save.run()} error=${save.error} busy=${save.busy} />
  </details>`;
}

const configOf = ({ top_k: topK, retrieve, enable_rerank: rerank }) => ({
  ...(topK && { top_k: topK }), ...(retrieve && { retrieve }), ...(rerank !== undefined && { rerank: { enabled: rerank } }),
});

function merge(below, above) {
  const plain = (value) => value && typeof value === "object" && !Array.isArray(value);
  return Object.fromEntries([...new Set([...Object.keys(below), ...Object.keys(above)])].map((key) => [
    key, !(key in above) ? below[key] : plain(above[key]) && plain(below[key]) ? merge(below[key], above[key]) : above[key],
  ]));
}
