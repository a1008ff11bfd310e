// Judged questions: those of the users' feedback, or of a file, and what a way of asking makes of them.
import { get, post, query } from "./api.js";
import { t } from "./words.js";

const PAGE = 200;
const TOP_K = 100; // as chordwise eval asks
const TRIES = 3; // for an answer that is not degraded
const AT_ONCE = 4;

/** Judged questions of a namespace, up to `most`: `{query_id, query_text, relevant}`. */
export async function judgmentsOf(namespace, { minVotes = 1, most = Infinity, signal } = {}) {
  const rows = [];
  let cursor = null;
  do {
    const page = await get(`v1/feedback/judgments${query({ namespace, min_votes: minVotes, limit: PAGE, cursor })}`, { signal });
    rows.push(...page.data);
    cursor = page.next_cursor;
  } while (cursor && rows.length < most);
  return rows.slice(0, most);
}

/** The judged questions in JSON Lines: `[rows, faults]`, faults as `{line, detail}` counted from 1. */
export function judgmentsIn(text) {
  const [rows, faults] = [[], []];
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    try {
      const { query_text: asked, relevant } = JSON.parse(line);
      const right = typeof asked === "string" && asked.trim() && relevant && Object.values(relevant).every(Number.isFinite);
      if (right) rows.push({ query_id: String(index + 1), query_text: asked, relevant });
      else faults.push({ line: index + 1, detail: t("evaluation.line_form") });
    } catch {
      faults.push({ line: index + 1, detail: t("form.no_json") });
    }
  }
  return [rows, faults];
}

export const isJudged = ({ relevant }) => Object.values(relevant).some((grade) => grade > 0);

/** Ask one question: `{documents, elapsedMs, degraded, failed}`. A degraded answer is asked for again, because it measures the load. */
async function ask(judged, { namespace, profile, changes }, signal) {
  let answer;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const began = performance.now();
    try {
      const body = await post("v1/rag/query", { ...changes, profile, query_text: judged.query_text, namespaces: [namespace], top_k: TOP_K }, { signal });
      const documents = [...new Set(body.chunks.map((chunk) => chunk.document_id))];
      answer = { documents, elapsedMs: performance.now() - began, degraded: body.stats.degraded, failed: body.status === "failed" };
    } catch (error) {
      if (error.name === "AbortError" || error.status < 500) throw error;
      answer = { documents: [], elapsedMs: null, degraded: true, failed: true };
    }
    if (!answer.degraded) break;
  }
  return answer;
}

/** Ask all questions in all ways, some at once: `answers[way][question]`. `onAnswer(n)` gets the number of answers so far. */
export async function askAll(questions, ways, { signal, onAnswer = () => {} }) {
  const answers = ways.map(() => []);
  const waiting = questions.flatMap((_, at) => ways.map((_way, way) => [way, at]));
  const all = waiting.length;
  let done = 0;
  async function work() {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const [way, at] = next;
      answers[way][at] = await ask(questions[at], ways[way], signal);
      done += 1;
      onAnswer(done, all);
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  } finally {
    waiting.length = 0; // the others stop after an error too
  }
  return answers;
}
