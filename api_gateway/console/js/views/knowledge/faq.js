// Curated questions and answers: list, add one or many, delete, ask the channel that finds them.
import { html, useState } from "../../html.js";
import { get, post, segment } from "../../api.js";
import { count } from "../../format.js";
import { useAction } from "../../load.js";
import { Area, Choice, Segments, Text, useNamespaces, useSettled } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { NamespaceInput } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { Problem } from "../../parts/states.js";
import { Trial } from "../../parts/trial.js";
import { link } from "../../router.js";
import { may } from "../../session.js";
import { Heading } from "../../shell.js";
import { t } from "../../words.js";

const GRADES = ["优秀", "良好", "一般"]; // names of grades in the example library
const CHANNELS = { faq: { weight: 1 }, keyword: { weight: 0 }, semantic: { weight: 0 } };
const WAIT_S = 20;

export function Faq() {
  const namespaces = useNamespaces();
  const [typed, setTyped] = useState(null);
  const known = namespaces.data?.map((each) => each.namespace) ?? [];
  const namespace = typed ?? (known.includes("faq") || !known.length ? "faq" : known[0]);
  const settled = useSettled(namespace.trim());
  const [turn, setTurn] = useState(0);
  const done = () => { namespaces.reload(); setTurn(turn + 1); };
  const columns = [
    { key: "question", label: t("faq.question"), main: true, render: (each) => html`<span class="title">${pairOf(each).question}</span>` },
    { key: "answer", label: t("faq.answer"), wide: true, render: (each) => html`<span class="value">${pairOf(each).answer}</span>` },
    { key: "grade", label: t("faq.grade"), render: (each) => each.metadata.quality_grade ?? "–" },
    { key: "document", label: t("field.document"), render: (each) => html`<a href=${link("documents", each.namespace, each.document_id)}>${each.document_id}</a>` },
  ];
  return html`
    <${Heading} title=${t("nav.faq")} about=${t("faq.about")} />
    <div class="toolbar"><${NamespaceInput} value=${namespace} onInput=${setTyped} /></div>
    ${may("write") && html`<${Adding} namespace=${settled} onDone=${done} />`}
    ${settled && html`<${Listing} key=${`${settled} ${turn}`} head=${false} title=${t("nav.faq")} path="v1/chunks" parameters=${{ namespace: settled, chunk_type: "qa" }} columns=${columns}
      nameOf=${(each) => each.document_id} rowKey=${(each) => each.chunk_id} searched=${(each) => each.text} empty=${[t("faq.empty"), t("faq.empty_text")]}
      removal=${{ path: (each) => `v1/documents/${segment(each.document_id)}?namespace=${segment(each.namespace)}`, title: t("documents.remove_title"), text: (each) => t("faq.remove_text", { document: each.document_id }) }} />
    <${Trial} key=${settled} id="trial" title=${t("faq.try")} about=${t("faq.try_about")} submit=${t("play.ask")} namespace=${settled}
      ask=${async (text, within) => ({ hits: (await post("v1/rag/query", { query_text: text, namespaces: [within], top_k: 5, highlight: true, retrieve: { channels: CHANNELS }, fallback: { enabled: false } })).chunks })} />`}`;
}

/** Question and answer in the text of a pair: the first line, and the rest, without their marks. */
function pairOf({ text }) {
  const [first, ...rest] = text.split("\n");
  const bare = (line) => line.replace(/^\s*(?:Q|A|问|答|Question|Answer)\s*[:：.]\s*/i, "");
  return { question: bare(first), answer: bare(rest.join("\n")) };
}

/** An id of a question, so that adding it again replaces its answer: two 32-bit halves, FNV-1a over UTF-16 units. */
function idOf(question) {
  let [low, high] = [0x811c9dc5, 0x1000193];
  for (const unit of question.toLowerCase().split("").map((each) => each.charCodeAt(0))) {
    low = Math.imul(low ^ unit, 0x01000193) >>> 0;
    high = Math.imul(high ^ unit ^ (low >>> 16), 0x01000193) >>> 0;
  }
  return `faq-${high.toString(16).padStart(8, "0")}${low.toString(16).padStart(8, "0")}`;
}

const tidy = (text) => text.trim().replace(/\s+/g, " ");

const documentOf = ({ question, answer, grade = "", tags = "", id = "" }) => ({
  document_id: id.trim() || idOf(tidy(question)),
  text: `Q: ${tidy(question)}\nA: ${answer.trim()}`,
  tags: tags.split(/[,，]/).map((tag) => tag.trim()).filter(Boolean),
  metadata: grade ? { quality_grade: grade } : {},
});

/** Pairs in pasted lines: question and answer between a tab or a `|`. */
function pairsIn(text) {
  const lines = text.split(/\r?\n/).map((line, index) => ({ line: index + 1, text: line, parts: line.split(/\t|\|/).map((part) => part.trim()) }));
  const full = lines.filter(({ text: line }) => line.trim());
  return [full.filter(({ parts }) => parts[0] && parts[1]), full.filter(({ parts }) => !(parts[0] && parts[1]))];
}

const BLANK = { question: "", answer: "", grade: "", tags: "", id: "" };

function Adding({ namespace, onDone }) {
  const [way, setWay] = useState("one");
  const [pair, setPair] = useState(BLANK);
  const [lines, setLines] = useState("");
  const [good, faulty] = pairsIn(lines);
  const set = (name) => (value) => setPair({ ...pair, [name]: value });
  const add = useAction(async () => {
    const documents = way === "one" ? [documentOf(pair)] : good.map(({ parts: [question, answer, grade] }) => documentOf({ question, answer, grade: GRADES.includes(grade) ? grade : "" }));
    const { job_id: job } = await post("v1/documents", { namespace, chunking: { strategy: "qa" }, documents });
    announce(t("faq.added", { count: count(documents.length) }));
    setPair(BLANK);
    setLines(faulty.map((each) => each.text).join("\n"));
    await get(`v1/jobs/${segment(job)}?wait=${WAIT_S}`);
    onDone();
  });
  function submit(event) {
    event.preventDefault();
    add.run();
  }
  return html`<form class="panel" onSubmit=${submit} aria-label=${t("faq.add")}>
    <${Segments} label=${t("faq.add")} value=${way} onInput=${setWay} options=${[["one", t("faq.one")], ["many", t("faq.many")]]} />
    ${way === "one" ? html`
      <${Text} label=${t("faq.question")} required maxlength="1000" value=${pair.question} onInput=${set("question")} />
      <${Area} label=${t("faq.answer")} required rows=${4} value=${pair.answer} onInput=${set("answer")} />
      <div class="fields">
        <${Choice} label=${t("faq.grade")} value=${pair.grade} options=${[["", "–"], ...GRADES.map((grade) => [grade, grade])]} onInput=${set("grade")} />
        <${Text} label=${t("field.tags")} value=${pair.tags} onInput=${set("tags")} hint=${t("faq.tags_hint")} />
        <${Text} label=${t("field.document_id")} maxlength="64" value=${pair.id} onInput=${set("id")} hint=${t("faq.id_hint")} />
      </div>` : html`
      <${Area} label=${t("faq.lines")} required rows=${6} value=${lines} onInput=${setLines} hint=${t("faq.lines_hint")}
        fault=${faulty.length ? t("faq.faulty", { lines: faulty.slice(0, 20).map((each) => each.line).join(", ") }) : ""} />`}
    ${add.error && html`<${Problem} error=${add.error} />`}
    <div class="buttons"><button class="primary" disabled=${add.busy || !namespace || (way === "many" && !good.length)} aria-busy=${add.busy}>
      ${way === "many" && good.length ? t("faq.add_many", { count: count(good.length) }) : t("faq.add")}</button></div>
  </form>`;
}
