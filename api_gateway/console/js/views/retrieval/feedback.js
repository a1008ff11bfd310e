// The ratings of users, and the judgments that follow from them.
import { html, useState } from "../../html.js";
import { segment } from "../../api.js";
import { ago, count, moment, score } from "../../format.js";
import { judgmentsOf } from "../../judgments.js";
import { useAction, usePages } from "../../load.js";
import { offer } from "../../parts/download.js";
import { Choice, Text, useNamespaces } from "../../parts/fields.js";
import { Listing } from "../../parts/listing.js";
import { NamespaceChoice } from "../../parts/namespace_choice.js";
import { announce } from "../../parts/notices.js";
import { Empty, Loaded, Problem } from "../../parts/states.js";
import { Badge, More, Table } from "../../parts/table.js";
import { Tabs } from "../../parts/tabs.js";
import { link } from "../../router.js";
import { Heading } from "../../shell.js";
import { t, word } from "../../words.js";

const RATINGS = ["good", "bad", "click"];
const TONES = { good: "good", bad: "bad", click: "plain" };

export function Feedback() {
  const namespaces = useNamespaces();
  return html`<${Heading} title=${t("nav.feedback")} about=${t("feedback.about")} />
    <${Tabs} label=${t("nav.feedback")} tabs=${[
      { id: "ratings", label: t("feedback.ratings"), panel: () => html`<${Ratings} namespaces=${namespaces} />` },
      { id: "judgments", label: t("feedback.judgments"), panel: () => html`<${Judgments} namespaces=${namespaces} />` },
    ]} />`;
}

function Ratings({ namespaces }) {
  const [wanted, setWanted] = useState({ namespace: "", rating: "", since: "" });
  const set = (name) => (value) => setWanted({ ...wanted, [name]: value });
  const since = wanted.since && new Date(`${wanted.since}T00:00`).toISOString();
  const columns = [
    { key: "question", label: t("play.question"), main: true, render: (each) => html`<span class="title">${each.query_text}</span>` },
    { key: "rating", label: t("feedback.rating"), render: (each) => html`<${Badge} tone=${TONES[each.rating]} label=${word("rating", each.rating)} />` },
    { key: "document", label: t("field.document"), render: (each) => html`<a href=${link("documents", each.namespace, each.document_id)}>${each.document_id}</a>` },
    { key: "place", label: t("feedback.place"), numeric: true, render: (each) => each.place ?? t("feedback.missed") },
    { key: "score", label: t("play.score"), numeric: true, render: (each) => score(each.score) },
    { key: "profile", label: t("play.profile"), render: (each) => html`<span><a href=${link("profiles", each.profile)}>${each.profile}</a> ${each.config_version}${each.experiment_id && html`<span class="under">${each.experiment_id}: ${each.experiment_bucket}</span>`}</span>` },
    { key: "note", label: t("profile.note"), render: (each) => each.note || "–" },
    { key: "at", label: t("feedback.at"), render: (each) => html`<time title=${moment(each.rated_at)}>${ago(each.rated_at)}</time>` },
  ];
  return html`<${Listing} head=${false} title=${t("feedback.ratings")} path="v1/feedback" parameters=${{ ...wanted, since }} columns=${columns}
    nameOf=${(each) => each.query_text} rowKey=${(each) => each.feedback_id} searched=${(each) => `${each.query_text} ${each.document_id} ${each.note ?? ""}`}
    filters=${html`
      <${NamespaceChoice} namespaces=${namespaces} all=${t("field.all")} value=${wanted.namespace} onInput=${set("namespace")} />
      <${Choice} label=${t("feedback.rating")} value=${wanted.rating} onInput=${set("rating")} options=${[["", t("field.all")], ...RATINGS.map((each) => [each, word("rating", each)])]} />
      <${Text} label=${t("feedback.since")} type="date" value=${wanted.since} onInput=${set("since")} />`}
    removal=${{ path: (each) => `v1/feedback/${segment(each.feedback_id)}`, title: t("feedback.remove_title"), text: (each) => t("feedback.remove_text", { question: each.query_text }) }}
    empty=${[t("feedback.empty"), t("feedback.empty_text")]} />`;
}

const lines = (rows) => rows.map((row) => `${row}\n`).join("");
const FILES = {
  "golden.jsonl": (judged) => lines(judged.map((each) => JSON.stringify(each))),
  "queries.jsonl": (judged) => lines(judged.map((each) => JSON.stringify({ query_id: each.query_id, text: each.query_text }))),
  "qrels.tsv": (judged) => lines(judged.flatMap((each) => Object.entries(each.relevant).map(([document, grade]) => [each.query_id, document, grade].join("\t")))),
};

function Judgments({ namespaces }) {
  const [chosen, setChosen] = useState("");
  const [votes, setVotes] = useState("1");
  const namespace = chosen || namespaces.data?.[0]?.namespace || "";
  if (!namespace) return html`<${Loaded} of=${namespaces} isEmpty=${() => true} empty=${html`<${Empty} title=${t("feedback.no_judgments")} />`} />`;
  const minVotes = Number(votes) >= 0.5 && Number(votes) <= 1000 ? Number(votes) : null;
  return html`
    <p class="about">${t("feedback.judgments_about")}</p>
    <div class="toolbar">
      <${NamespaceChoice} namespaces=${namespaces} value=${namespace} onInput=${setChosen} />
      <${Text} label=${t("feedback.min_votes")} type="number" min="0.5" max="1000" step="0.5" value=${votes} onInput=${setVotes}
        fault=${minVotes === null ? t("feedback.min_votes_range") : ""} />
      <a class="button" href=${link("evaluation")}>${t("nav.evaluation")}</a>
    </div>
    ${minVotes !== null && html`<${Judged} key=${`${namespace} ${minVotes}`} namespace=${namespace} minVotes=${minVotes} />`}`;
}

function Judged({ namespace, minVotes }) {
  const pages = usePages("v1/feedback/judgments", { namespace, min_votes: minVotes });
  const save = useAction(async (name) => {
    const judged = await judgmentsOf(namespace, { minVotes });
    offer(name, FILES[name](judged));
    announce(t("feedback.downloaded", { count: count(judged.length) }));
  });
  const columns = [
    { key: "question", label: t("play.question"), main: true, render: (each) => html`<span class="title">${each.query_text}</span>` },
    { key: "relevant", label: t("feedback.grades"), wide: true, render: (each) => Object.entries(each.relevant).map(([document, grade]) => html`
      <span key=${document} class="under"><a href=${link("documents", namespace, document)}>${document}</a> ${word("grade", grade)}</span>`) },
    { key: "votes", label: t("feedback.votes"), numeric: true, render: (each) => count(Object.values(each.votes).reduce((sum, of) => sum + of.votes, 0)) },
  ];
  return html`<${Loaded} of=${pages} isEmpty=${(data) => !data.rows.length && !data.next} empty=${html`<${Empty} title=${t("feedback.no_judgments")}><p>${t("feedback.empty_text")}</p><//>`}>
    ${(data) => html`
      <div class="buttons">${Object.keys(FILES).map((name) => html`<button key=${name} disabled=${save.busy} onClick=${() => save.run(name)}>${t("feedback.download", { name })}</button>`)}</div>
      ${save.error && html`<${Problem} error=${save.error} />`}
      <${Table} caption=${t("feedback.judgments")} columns=${columns} rows=${data.rows} rowKey=${(each) => each.query_id} /><${More} pages=${pages} />`}
  <//>`;
}
