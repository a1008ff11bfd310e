// Every page of the console: its name in the address, its modules, and the scope that its key needs. A page's module is
// loaded when the page is first opened, so that the first view stays small however many pages there are.
const page = (name, list, { one = null, scope = null } = {}) => ({ name, list, one, scope });

/** `[heading, pages]`. `list` shows the page; `one` the record named in the rest of the address. Both are called with it. */
export const GROUPS = [
  ["nav.start", [
    page("overview", () => import("./views/overview.js").then((all) => all.Overview)),
    page("find", () => import("./views/find.js").then((all) => all.Find)),
  ]],
  ["nav.ingest", [
    page("jobs", () => import("./views/ingest/jobs.js").then((all) => all.Jobs), { one: () => import("./views/ingest/job.js").then((all) => all.Job) }),
    page("dead-letters", () => import("./views/ingest/dead_letters.js").then((all) => all.DeadLetters)),
    page("upload", () => import("./views/ingest/upload.js").then((all) => all.Upload)),
  ]],
  ["nav.knowledge", [
    page("documents", () => import("./views/documents/documents.js").then((all) => all.Documents), { one: () => import("./views/documents/document.js").then((all) => all.Document) }),
    page("namespaces", () => import("./views/documents/namespaces.js").then((all) => all.Namespaces), { one: () => import("./views/documents/duplicates.js").then((all) => all.Duplicates) }),
    page("sources", () => import("./views/documents/sources.js").then((all) => all.Sources), { one: () => import("./views/documents/source.js").then((all) => all.Source) }),
    page("preview", () => import("./views/documents/preview.js").then((all) => all.Preview)),
    page("faq", () => import("./views/knowledge/faq.js").then((all) => all.Faq)),
    page("dictionary", () => import("./views/knowledge/dictionary.js").then((all) => all.Dictionary)),
    page("api-sources", () => import("./views/knowledge/api_sources.js").then((all) => all.ApiSources), { scope: "write", one: () => import("./views/knowledge/api_source.js").then((all) => all.ApiSource) }),
    page("examples", () => import("./views/knowledge/examples.js").then((all) => all.Examples)),
    page("entities", () => import("./views/knowledge/entities.js").then((all) => all.Entities)),
  ]],
  ["nav.retrieval", [
    page("playground", () => import("./views/playground/playground.js").then((all) => all.Playground)),
    page("traces", () => import("./views/traces/traces.js").then((all) => all.Traces), { one: () => import("./views/traces/trace.js").then((all) => all.Trace) }),
    page("profiles", () => import("./views/retrieval/profiles.js").then((all) => all.Profiles), { one: () => import("./views/retrieval/profile.js").then((all) => all.Profile) }),
    page("experiments", () => import("./views/retrieval/experiments.js").then((all) => all.Experiments), { one: () => import("./views/retrieval/experiment.js").then((all) => all.Experiment) }),
    page("feedback", () => import("./views/retrieval/feedback.js").then((all) => all.Feedback)),
    page("evaluation", () => import("./views/retrieval/evaluation.js").then((all) => all.Evaluation)),
  ]],
  ["nav.operation", [
    page("alignment", () => import("./views/alignment.js").then((all) => all.Alignment)),
    page("health", () => import("./views/operation/health.js").then((all) => all.Health)),
    page("transfer", () => import("./views/operation/transfer.js").then((all) => all.Transfer)),
    page("migration", () => import("./views/operation/migration.js").then((all) => all.Migration), { scope: "operator" }),
  ]],
  ["nav.administration", [
    page("usage", () => import("./views/administration/usage.js").then((all) => all.Usage)),
    page("keys", () => import("./views/administration/keys.js").then((all) => all.Keys), { scope: "admin" }),
    page("webhooks", () => import("./views/administration/webhooks.js").then((all) => all.Webhooks), { scope: "write", one: () => import("./views/administration/webhook.js").then((all) => all.Webhook) }),
    page("audit", () => import("./views/administration/audit.js").then((all) => all.Audit), { scope: "admin" }),
    page("tenants", () => import("./views/administration/tenants.js").then((all) => all.Tenants), { scope: "operator", one: () => import("./views/administration/tenant.js").then((all) => all.Tenant) }),
  ]],
];

export const FIRST = "overview";

const PAGES = new Map(GROUPS.flatMap(([, pages]) => pages.map((each) => [each.name, each])));

/** The loader for an address and the arguments of its view; null for an address without a page. `documents` alone has a list below a name. */
export function viewOf([name = FIRST, ...rest]) {
  const known = PAGES.get(name);
  if (!known) return null;
  const listed = name === "documents" ? 2 : 1;
  const one = known.one && rest.length >= listed;
  return { load: one ? known.one : known.list, rest, key: [name, ...(one ? rest : [])].join("/") };
}
