// Put two documents and a file into a namespace, follow the job, ask, and clean up.
// Run with Node 20.3 or later, with CHORDWISE_URL and CHORDWISE_API_KEY set: node example.mjs
import { Chordwise, ProblemError } from "./index.js";

const client = new Chordwise();
const namespace = "javascript-example";

const accepted = await client.ingestDocuments({
  namespace,
  documents: [
    { document_id: "tea", title: "Tea", text: "Green tea is brewed with water of eighty degrees." },
    { document_id: "coffee", title: "Coffee", text: "Filter coffee is brewed with water of ninety-four degrees." },
  ],
});
for await (const { event, data } of client.followJob(accepted.job_id)) {
  console.log(event, data.status ?? "", `${data.succeeded ?? 0} of ${data.total ?? "?"}`);
}

const upload = await client.uploadFiles({
  namespace,
  tags: ["drinks"],
  file: [{ name: "cocoa.md", data: "# Cocoa\n\nCocoa is stirred into hot milk.", type: "text/markdown" }],
});
const job = await client.waitForJob(upload, { signal: AbortSignal.timeout(60_000) });
console.log("upload", job.status);

const answer = await client.ask({ query_text: "how hot is the water for green tea", namespaces: [namespace], top_k: 1 });
for (const hit of answer.chunks) console.log(`${hit.score.toFixed(2)} ${hit.confidence?.toFixed(2) ?? "-"} ${hit.title}: ${hit.text}`);

for await (const document of client.items((params) => client.listDocuments(params), { namespace, limit: 2 })) {
  console.log("document", document.document_id);
}

try {
  await client.getDocument("absent", { namespace }, { requestId: "example-1" });
} catch (error) {
  if (!(error instanceof ProblemError)) throw error;
  console.log("refused", error.status, error.code, error.requestId);
}

console.log("deleted", (await client.deleteNamespace(namespace)).documents);
