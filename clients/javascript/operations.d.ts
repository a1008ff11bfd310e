// Written by `make client-js` from the OpenAPI description. Do not edit.
import { NamedFile, RequestOptions, ServerEvent, Transport } from "./transport.js";

/** The version to activate, and its share of the queries; less than 1 is a trial beside the active one. */
export interface ActivateRequest {
  version: number;
  share?: number;
  tenant_id?: string | null;
}

/** The comparison of the two stores. `repaired` counts corrections, `withheld` the vectors and rows of chunks that were not deleted because they are too large a share of the tenant's data. */
export interface Alignment {
  missing: number;
  orphaned: number;
  stale: number;
  misplaced: number;
  miscounted: number;
  leftover: number;
  statistics: number;
  document_vectors: number;
  namespaces: NamespaceAlignment[];
  repaired: number;
  withheld: number;
}

/** The result of a query, best chunk first. An empty result is a success. `failed`: no channel or store answered, there are no chunks, and `error` gives the reason; `stats.degradations` lists every loss. */
export interface Answer {
  query_id: string;
  status: "succeeded" | "failed";
  query: UnderstoodQuery;
  chunks: AnswerChunk[];
  /** Absent unless query or profile ask for them. */
  facets?: Facet[] | null;
  /** Absent unless the query asks for groups. */
  groups?: Group[] | null;
  /** Absent unless query or profile ask for it. */
  context?: AnswerContext | null;
  stats: Stats;
  /** Set when `status` is `failed`. */
  error?: ProblemBody | null;
}

/** A hit. `score` orders this answer; `confidence` can be compared between queries, and is null where neither words nor meaning can tell whether the query is answered, as `remarks` then says. `source`: the strongest channel, or `both` where words and meaning found it. `feedback`: the part of the fused score that came from candidates like it. `highlights`, on request: the words of the query in `text`, synonyms included. */
export interface AnswerChunk {
  chunk_id: string;
  document_id: string;
  namespace: string;
  title: string | null;
  text: string;
  metadata: Record<string, unknown>;
  score: number;
  confidence: number | null;
  source: string;
  sources: HitSource[];
  reason: string;
  rerank: RerankMove | null;
  decay: number | null;
  feedback: number;
  /** Absent unless the query asks to `highlight`. */
  highlights?: Span[];
}

/** The hits in the form for a prompt, within the requested token budget. */
export interface AnswerContext {
  text: string;
  token_count: number;
  citations: Citation[];
  entities: Entity[];
}

/** The positions of values in an answer, as JSON Pointers: ``items`` into the answer, the others into an item. ``metadata``: values to keep beside the text. ``score_range``: the API's lowest and highest score; without ``score`` the order counts. */
export interface ApiMapping {
  type?: string | null;
  author?: string | null;
  items?: string;
  text: string;
  id?: string | null;
  title?: string | null;
  score?: string | null;
  url?: string | null;
  published_at?: string | null;
  tags?: string | null;
  metadata?: Record<string, string>;
  score_range?: [number, number];
}

/** Every source of the tenant, by name. */
export interface ApiSourceList {
  data: ApiSourceOut[];
  next_cursor: null;
}

/** A source without the values of its headers; it may be sent back unchanged. */
export interface ApiSourceOut {
  name: string;
  url: string;
  method: "GET" | "POST";
  params: Record<string, string>;
  body: Record<string, unknown>;
  headers: Record<string, HeaderOut>;
  mapping: Record<string, unknown>;
  namespaces: string[];
  timeout_ms: number;
  max_items: number;
  max_bytes: number;
  max_text: number;
  min_score: number;
  applies_filters: boolean;
  enabled: boolean;
  created_at: string;
  updated_at: string;
}

/** A business API. `mapping` gives, in JSON Pointers, where the passages are in its answers; strings of `params` and `body` may contain `{query}`, `{top_k}`, `{namespaces}` and `{filters}`. The value of a header is a text, which is never shown again, or an object that says where it is. */
export interface ApiSourceRequest {
  url: string;
  method?: "GET" | "POST";
  params?: Record<string, string>;
  body?: Record<string, unknown>;
  headers?: Record<string, string | HeaderIn>;
  mapping: ApiMapping;
  namespaces?: string[];
  timeout_ms?: number;
  max_items?: number;
  max_bytes?: number;
  max_text?: number;
  min_score?: number;
  applies_filters?: boolean;
  enabled?: boolean;
  tenant_id?: string | null;
}

/** One arm of an experiment. ``share``: relative to those of the other arms. ``overrides``: parts of a plan, laid over the profile; ``profile`` replaces the profile first. */
export interface Arm {
  name: string;
  share?: number;
  profile?: string | null;
  overrides?: Record<string, unknown>;
}

/** One arm. Of its searches: `failed`, no channel answered; `empty`, only the last resort was found; `degraded`, a part was lost; `cached`, answered from the answer cache, and left out of `mean_latency_ms`. Of its feedback: `queries` and `sessions`, the number rated in any way. */
export interface ArmResult {
  bucket: string;
  searches: number;
  failed: number;
  empty: number;
  degraded: number;
  cached: number;
  mean_latency_ms: number | null;
  good: number;
  bad: number;
  clicks: number;
  queries: number;
  sessions: number;
  mean_click_place: number | null;
}

/** The actor: the key's id in the audit, its name and scopes, never the key. An empty id is the installation. */
export interface AuditActor {
  key_id: string;
  key_name: string;
  scopes: string[];
}

/** One search or one write. `ids` holds the first hundred of `count`: the documents found or written. */
export interface AuditEntry {
  audit_id: string;
  at: string;
  tenant_id: string;
  /** search, ingest, delete, chunk_edit …: docs/security-and-audit.md lists them. */
  action: string;
  actor: AuditActor;
  request_id: string;
  namespaces: string[];
  ids: string[];
  count: number;
  status: string;
  query_hash: string | null;
  /** Only if the installation stores query texts. */
  query_text: string | null;
  /** Of a search: channels, hits, source_share, degraded, latency_ms … */
  detail: Record<string, unknown>;
}

/** One page of the audit, newest first. */
export interface AuditPage {
  data: AuditEntry[];
  next_cursor: string | null;
}

/** Statistics of a book, in all and by category. */
export interface BookCategories {
  total: BookStatistics;
  qa: BookStatistics;
  record: BookStatistics;
  query: BookStatistics;
  greeting: BookStatistics;
}

/** An error or an omission in a book, with its position. Without `row`, the whole sheet is meant; `cell` is like `D7` in workbooks and null in JSON. */
export interface BookFlaw {
  sheet: string;
  row: number | null;
  column: string | null;
  cell: string | null;
  code: string;
  detail: string;
  pointer: string;
}

/** Rows of a book. `read` is `accepted` + `refused` + `duplicates`; `grades` and `tags` are of accepted rows, a row without a grade under the empty name, and of tags the 100 most frequent. */
export interface BookStatistics {
  read: number;
  accepted: number;
  refused: number;
  duplicates: number;
  blank: number;
  grades: Record<string, number>;
  tags: Record<string, number>;
}

/** The kind of an example; it is the ``type`` of its document. */
export type Category = "qa" | "record" | "query" | "greeting";

/** One channel's part. A weight of 0 excludes it. None: the installation's setting holds. ``pool``: how many chunks it recalls. ``min_score``: the least score, by the channel's own measure, that it recalls. ``options``: those of the channel alone. */
export interface ChannelPlan {
  weight?: number;
  timeout_ms?: number | null;
  retry?: number | null;
  pool?: number | null;
  min_score?: number | null;
  options?: Record<string, unknown>;
}

/** A passage of the searchable generation. Offsets count characters of the parsed text; `end` is exclusive. `chunk_type` is `parent` for a chunk that is part of no other, else `child`, `sentence`, `qa` or `segment`; `chunk_index` is its position in its parent, or in the document. `window`: the text that is read with it. `chapter_id`, `story_time`, `entity_names`, `summary` and `attributes` are those of its segment. `edited`: its text was changed by hand, and its offsets and pages name the passage that it replaces. */
export interface Chunk {
  ordinal: number;
  text: string;
  heading_path: string[];
  page: number | null;
  page_start: number | null;
  page_end: number | null;
  start: number;
  end: number;
  token_count: number;
  chunk_type: string;
  chunk_index: number;
  chapter_id: string | null;
  story_time: number | null;
  entity_names: string[];
  summary: string | null;
  attributes: Record<string, string>;
  chunk_id: string;
  namespace: string;
  document_id: string;
  generation: number;
  parent_id: string | null;
  window: string | null;
  edited: boolean;
}

/** A chunk to recognise: its document with its address, its headings and pages, and the first characters of its text. `shown`: searches see it. */
export interface ChunkBeginningShape {
  chunk_id: string;
  namespace: string;
  document_id: string;
  title: string | null;
  source_uri: string | null;
  heading_path: string[];
  page: number | null;
  page_end: number | null;
  beginning: string;
  shown: boolean;
}

/** The chunks that exist, in the order of the request. */
export interface ChunkBeginnings {
  data: ChunkBeginningShape[];
  next_cursor: null;
}

/** The edit of one chunk. `etag`: only if the chunk still has it. */
export interface ChunkEditIn {
  chunk_id: string;
  text?: string | null;
  enabled?: boolean | null;
  etag?: string | null;
  namespace?: null;
  document_id?: null;
  generation?: null;
  ordinal?: null;
  parent_id?: null;
  chunk_type?: null;
  chunk_index?: null;
  chapter_id?: null;
  story_time?: null;
  entity_names?: null;
  summary?: null;
  attributes?: null;
  window?: null;
  edited?: null;
  searched?: null;
  heading_path?: null;
  page?: null;
  page_start?: null;
  page_end?: null;
  start?: null;
  end?: null;
  token_count?: null;
  metadata?: null;
  source_id?: null;
}

/** Chunks by parent and position in it; parents, and chunks without one, come first. */
export interface ChunkPage {
  data: Chunk[];
  next_cursor: string | null;
}

/** The position of a chunk in a text. `edited`: its own text is another one by now. */
export interface ChunkPosition {
  chunk_id: string;
  ordinal: number;
  start: number;
  end: number;
  page: number | null;
  page_end: number | null;
  enabled: boolean;
  edited: boolean;
}

/** The outcome for one chunk. `replacement_pending`: a newer upload of its document will replace it. `repeated_in`: chunks that overlap it and still have words that the edit removed; edit them too. */
export interface ChunkResult {
  chunk_id: string;
  status: "updated" | "unchanged" | "deleted" | "failed";
  etag: string | null;
  code: string | null;
  detail: string | null;
  replacement_pending: boolean;
  repeated_in: string[];
}

/** The outcome for each chunk, in the order of the request. */
export interface ChunkResults {
  data: ChunkResult[];
}

/** The chunking of the documents; omitted options are the installation's. */
export type ChunkingIn = {
  strategy?: "sentences";
  /** The most tokens of a chunk. */
  max_tokens?: number;
  /** The share of a chunk that the next one repeats, where a long paragraph is cut. */
  overlap?: number;
} | {
  strategy: "parent_child";
  /** The most tokens of a chunk. */
  max_tokens?: number;
  /** The share of a chunk that the next one repeats, where a long paragraph is cut. */
  overlap?: number;
  /** The most tokens of a parent. */
  parent_tokens?: number;
} | {
  strategy: "window";
  /** A sentence of more tokens comes in pieces. */
  max_tokens?: number;
  /** Sentences before and after that are read with it. */
  window?: number;
} | {
  strategy: "qa";
  /** The most tokens of a chunk. */
  max_tokens?: number;
  /** The share of a chunk that the next one repeats, where a long paragraph is cut. */
  overlap?: number;
} | {
  strategy: "segments";
  /** The most tokens of a chunk. */
  max_tokens?: number;
  /** The share of a chunk that the next one repeats, where a long paragraph is cut. */
  overlap?: number;
};

/** The chunks to delete. An empty list is refused. */
export interface ChunksDeleteRequest {
  tenant_id?: string | null;
  chunk_ids: string[];
}

/** Edits of existing chunks, each applied independently. */
export interface ChunksEditRequest {
  tenant_id?: string | null;
  chunks: ChunkEditIn[];
}

/** The chunks to name. */
export interface ChunksLookupRequest {
  tenant_id?: string | null;
  chunk_ids: string[];
}

/** The chunk of a marker in the context. Offsets count characters of the document's text and are the chunk's own, without its surrounding text; null for a passage outside any document here. `edited`: the chunk's text was changed by hand, so offsets and pages name the passage of the document that it replaces. */
export interface Citation {
  marker: string;
  chunk_id: string;
  document_id: string;
  namespace: string;
  start: number | null;
  end: number | null;
  page: number | null;
  page_start: number | null;
  page_end: number | null;
  title: string | null;
  source_uri: string | null;
  edited: boolean;
}

/** The questions and the thresholds of a comparison. Without `queries`, up to `sample` are taken from the latest searches, and from the texts themselves where those are too few. */
export interface CompareRequest {
  queries?: GoldenQueryRequest[];
  sample?: number;
  k?: number;
  min_overlap?: number;
  max_ndcg_loss?: number;
}

/** The results of both models: means over all queries; nDCG over the judged ones. */
export interface Comparison {
  queries: number;
  judged: number;
  sampled: boolean;
  overlap: number;
  ndcg_active: number | null;
  ndcg_target: number | null;
  passed: boolean;
  reason: string | null;
  k: number;
  min_overlap: number;
  max_ndcg_loss: number;
  compared_at: string;
}

/** The composition of the hits for a prompt, in a query that asks for it. ``max_tokens`` bounds the whole text. ``window`` and ``parents``: the surroundings of a hit to read with it; None leaves it to the chunking of its document; ``whole_document``: the whole document if it takes at most half of the budget. ``header``: the line above a passage; ``story`` is its chapter and story time. ``passages``: ``dialogue`` shows question-answer pairs as messages of user and assistant. ``entities``: include the states of the entities that the hits name. */
export interface ContextOptions {
  format?: "markdown" | "text";
  max_tokens?: number;
  window?: number | null;
  parents?: boolean | null;
  whole_document?: boolean;
  header?: "title" | "story" | "none";
  over_budget?: "skip" | "stop";
  passages?: "text" | "dialogue";
  entities?: boolean;
}

/** The tenant and the scopes of this key, and the principals of this request: `*` sees every document. */
export interface CurrentKey {
  tenant_id: string;
  key_id: string;
  name: string;
  scopes: ("read" | "write" | "admin" | "impersonate" | "operator")[];
  principals: string[];
}

/** A document that failed for good, by its newest upload. `reason`: the document's fault, an outage at every attempt, or a bug. `stage`: the last completed step. `retryable`: a replay may succeed. `advice`: how to go on, as a sentence. */
export interface DeadLetter {
  id: string;
  job_id: string;
  ordinal: number;
  namespace: string;
  document_id: string;
  title: string | null;
  generation: number;
  reason: "rejected" | "gave_up" | "bug";
  code: string;
  detail: string | null;
  stage: string;
  attempts: number;
  failed_at: string;
  retryable: boolean;
  advice: string;
  payload: PayloadReference;
}

/** Dead letters, newest first. */
export interface DeadLetterPage {
  data: DeadLetter[];
  next_cursor: string | null;
}

/** An answer with its trace. */
export interface Debugged {
  query_id: string;
  status: "succeeded" | "failed";
  query: UnderstoodQuery;
  chunks: AnswerChunk[];
  /** Absent unless query or profile ask for them. */
  facets?: Facet[] | null;
  /** Absent unless the query asks for groups. */
  groups?: Group[] | null;
  /** Absent unless query or profile ask for it. */
  context?: AnswerContext | null;
  stats: Stats;
  /** Set when `status` is `failed`. */
  error?: ProblemBody | null;
  trace: Trace | null;
}

/** The loss of score with age, measured on ``by``. ``half_life``: halved every ``half_life_days``; ``hyperbolic``: ``1 / (1 + age / scale)``, age in the unit of ``by`` (seconds, or the story's own); ``window``: full score up to ``scale``, ``floor`` beyond. No score falls below ``floor``; a hit without a date keeps its score. */
export interface DecayPlan {
  shape?: "half_life" | "hyperbolic" | "window";
  half_life_days?: number;
  scale?: number;
  by?: "published_at" | "updated_at" | "story_time";
  floor?: number;
}

/** A loss on the way: a channel, or a step such as rerank. */
export interface Degradation {
  part: string;
  code: string;
  detail: string;
}

/** One message to one endpoint: `delivery_id` is its `webhook-id`, the same at every attempt. `body`: the message, as it is signed and sent; absent in lists. */
export interface Delivery {
  delivery_id: string;
  event: string;
  job_id: string | null;
  state: "pending" | "delivered" | "dead";
  attempts: number;
  created_at: string;
  last_attempt_at: string | null;
  next_attempt_at: string | null;
  ended_at: string | null;
  last_status: number | null;
  last_error: string | null;
  body?: string;
}

/** One page of deliveries, newest first. */
export interface DeliveryPage {
  data: Delivery[];
  next_cursor: string | null;
}

/** A delivery that is about to be sent. */
export interface DeliveryQueued {
  delivery_id: string;
}

/** All checks. `ok` is false if any failed; warnings do not count. */
export interface Diagnosis {
  ok: boolean;
  findings: Finding[];
}

/** The complete dictionary; it replaces the previous one. It applies to queries within seconds, and to no stored data. */
export interface DictionaryIn {
  tenant_id?: string | null;
  /** Groups of expressions that mean the same. */
  synonyms?: string[][];
  /** Left out of queries, unless nothing else is asked. */
  stop_words?: string[];
  /** Words that belong together: chunks with them side by side score higher. */
  phrases?: string[];
  /** Documents to prefer for certain words. */
  rules?: RuleIn[];
}

/** A stored dictionary. `namespace` is null for the one that applies to all of them. `synonyms` are groups of expressions that mean the same. */
export interface DictionaryOut {
  namespace: string | null;
  version: number;
  synonyms: string[][];
  stop_words: string[];
  phrases: string[];
  rules: RuleOut[];
}

/** The change of the answer. `plan`: the settings that differ. `overlap`: the share of common chunks. */
export interface Difference {
  plan: Record<string, unknown>[];
  overlap: number;
  same_order: boolean;
  moved: Record<string, unknown>[];
  added: Record<string, unknown>[];
  removed: Record<string, unknown>[];
}

/** A document without its text. `status` is that of its latest upload. `generation` is the searchable upload, null while there is none; an upload that fails leaves the previous one searchable. `chunking`: its chunking strategy, with all options. `duplicate_of`: the oldest document in the namespace with the same bytes, null for that document itself and without duplicates. `bytes`: the size of the upload. */
export interface Document {
  namespace: string;
  document_id: string;
  status: "queued" | "running" | "succeeded" | "failed" | "cancelled";
  generation: number | null;
  title: string | null;
  author: string | null;
  type: string | null;
  tags: string[];
  published_at: string | null;
  story_time: number | null;
  metadata: Record<string, unknown>;
  readers: string[] | null;
  source: Source;
  chunking: Record<string, unknown>;
  duplicate_of: string | null;
  chunks: number;
  bytes: number;
  created_at: string;
  updated_at: string;
}

/** One document. Without a `document_id` its file or its address gives the id; a plain text without either gets a new id each time, so repeating it creates another document. Its own `chunking` replaces the request's. */
export interface DocumentIn {
  title?: string | null;
  author?: string | null;
  type?: string | null;
  tags?: string[] | null;
  published_at?: string | null;
  story_time?: number | null;
  metadata?: Record<string, unknown> | null;
  readers?: string[] | null;
  document_id?: string | null;
  text?: string | null;
  source?: SourceIn | null;
  chunking?: ChunkingIn | null;
}

/** Documents by namespace and id. */
export interface DocumentPage {
  data: Document[];
  next_cursor: string | null;
}

/** The parsed text of a document's upload, with its sections and the positions of its chunks, by ordinal. Positions count characters (code points). `parents`: how many parents precede these chunks in `GET /v1/chunks`. */
export interface DocumentText {
  namespace: string;
  document_id: string;
  generation: number;
  title: string | null;
  media_type: string;
  text: string;
  sections: TextSection[];
  parents: number;
  chunks: ChunkPosition[];
}

/** The number of documents that were deleted, or that had other readers; ids without a document are not counted. `more`: whether there was no time for some of a selection. */
export interface DocumentsChanged {
  namespace: string;
  documents: number;
  more: boolean;
}

/** The documents to delete. An empty list is refused. */
export interface DocumentsDeleteRequest {
  tenant_id?: string | null;
  namespace: string;
  document_ids: string[];
}

/** A batch of documents for one namespace. An invalid document does not affect the others. */
export interface DocumentsRequest {
  tenant_id?: string | null;
  namespace: string;
  on_conflict?: "replace" | "skip" | "error" | "new";
  chunking?: ChunkingIn | null;
  priority?: "interactive" | "bulk" | null;
  documents: DocumentIn[];
}

/** Examples of one category with the same text. `surplus`: how many are redundant; `groups` are the first 20. */
export interface Duplicates {
  surplus: number;
  groups: string[][];
}

/** A model migration. `active`: searches use the new model now. `behind`: documents whose vectors in the standby space are still missing. `missing`: chunks without a vector from the model, known once it is ready. */
export interface EmbeddingMigration {
  number: number;
  source: number;
  provider: string;
  model: string;
  dimension: number;
  service: string;
  state: "backfilling" | "verifying" | "ready" | "switched" | "finishing" | "finished" | "aborting" | "aborted";
  active: boolean;
  progress: MigrationProgress;
  behind: number;
  missing: number | null;
  comparison: Comparison | null;
  error_code: string | null;
  error_detail: string | null;
  created_at: string;
  ready_at: string | null;
  switched_at: string | null;
  ended_at: string | null;
}

/** All migrations, newest first. */
export interface EmbeddingMigrationList {
  data: EmbeddingMigration[];
}

/** The entities to delete, with all their states. An empty list is refused. */
export interface EntitiesDeleteRequest {
  tenant_id?: string | null;
  namespace: string;
  entity_ids: string[];
}

/** How many states were deleted. */
export interface EntitiesDeleted {
  deleted: number;
}

/** States of entities of one namespace. A state with the same entity and story time is replaced. */
export interface EntitiesRequest {
  tenant_id?: string | null;
  namespace: string;
  entities: EntityIn[];
}

/** How many states were written. */
export interface EntitiesWritten {
  written: number;
}

/** The state of an entity named by the hits, at the query's `story_time` or the latest, and since when it applies. */
export interface Entity {
  id: string;
  name: string;
  type: string | null;
  state: Record<string, unknown> | string;
  story_time: number | null;
  namespace: string;
}

/** The state of an entity from `story_time` on; without one, from the beginning. `state` is an object or a text. */
export interface EntityIn {
  entity_id: string;
  name: string;
  type?: string | null;
  story_time?: number | null;
  state?: Record<string, unknown> | string;
}

/** Entities by id, each with its latest state. */
export interface EntityPage {
  data: EntityShape[];
  next_cursor: string | null;
}

/** A state of an entity; `story_time` is its start, null from the beginning. */
export interface EntityShape {
  entity_id: string;
  namespace: string;
  name: string;
  type: string | null;
  story_time: number | null;
  state: Record<string, unknown> | string;
  updated_at: string;
}

/** The location of an error: a JSON Pointer into the body, or the name of a parameter when `in` names its kind. */
export interface ErrorPlace {
  pointer: string;
  detail: string;
}

/** The example library of a namespace. Lengths count characters. */
export interface ExampleStatistics {
  namespace: string;
  total: StoredCategory;
  categories: Record<string, StoredCategory>;
  duplicates: Duplicates;
}

/** The outcome for a book: its job, in which every refused row is a failed item, or `validated` after a dry run. `errors` and `warnings` are the first 1,000. */
export interface ExamplesReport {
  job_id: string | null;
  status: "queued" | "validated";
  total: number;
  statistics: BookCategories;
  errors: BookFlaw[];
  errors_total: number;
  warnings: BookFlaw[];
  warnings_total: number;
}

/** A book in its JSON form. The keys of `examples` may also be `qa`, `record`, `query`, `greeting`. */
export interface ExamplesRequest {
  tenant_id?: string | null;
  namespace: string;
  category?: Category | null;
  on_conflict?: "replace" | "skip" | "error" | "new";
  strict?: boolean;
  examples: {
    qa_examples?: ({
      user_input: string;
      agent_response: string;
      tags?: string[] | string;
      quality_grade?: "优秀" | "良好" | "一般";
      id?: string;
      notes?: string;
    })[];
    record_examples?: ({
      user_input: string;
      agent_response: string;
      tags?: string[] | string;
      quality_grade?: "优秀" | "良好" | "一般";
      id?: string;
      notes?: string;
    })[];
    query_examples?: ({
      user_input: string;
      agent_response: string;
      tags?: string[] | string;
      quality_grade?: "优秀" | "良好" | "一般";
      id?: string;
      notes?: string;
    })[];
    greeting_examples?: ({
      user_input: string;
      agent_response: string;
      tags?: string[] | string;
      quality_grade?: "优秀" | "良好" | "一般";
      id?: string;
      notes?: string;
    })[];
  };
}

/** Whether the accepted rows of a job can be found: `searchable` of `rows` are shown and have a chunk. `missing`: the first that are not. */
export interface ExamplesVerification {
  job_id: string;
  namespace: string;
  status: string;
  rows: number;
  searchable: number;
  missing: MissingExample[];
  sample: SampledExample[];
}

/** Every experiment of the tenant. */
export interface ExperimentList {
  data: ExperimentShape[];
  next_cursor: null;
}

/** An experiment; the first arm is the baseline. */
export interface ExperimentRequest {
  /** Arms, the first being the baseline. ``coverage``: the share of units that take part; the others get no arm. ``salt``: change it to draw anew. */
  experiment: {
    arms: Arm[];
    coverage?: number;
    salt?: string;
    note?: string;
  };
  active?: boolean;
  tenant_id?: string | null;
}

/** The results of searches and feedback, by arm; the first is the baseline. */
export interface ExperimentResults {
  experiment_id: string;
  buckets: ArmResult[];
}

/** Arms of retrieval that are compared on real queries. `experiment` holds the arms and `coverage`. */
export interface ExperimentShape {
  experiment_id: string;
  active: boolean;
  experiment: Record<string, unknown>;
}

/** The most frequent values of a field among the passages that match. `counted_over`: `matches` are all passages that hold a word of the query or were recalled by another channel, `pool` are the recalled ones alone. `passages`: how many these are; `other`: the counts of the values that are not listed, added up; `distinct`: how many values there are, null for more than 2,000. */
export interface Facet {
  field: string;
  counted_over: "matches" | "pool";
  passages: number;
  values: FacetValue[];
  other: number;
  distinct: number | null;
}

/** A value, the number of passages whose document has it, and the filter that leaves these. */
export interface FacetValue {
  value: string | number | boolean;
  passages: number;
  filter: string;
}

/** The last resort when no hit has a confidence of ``threshold``: the best answers of curated question-answer pairs, and a hint for people. Both are marked ``fallback``. */
export interface FallbackPlan {
  enabled?: boolean;
  threshold?: number;
  faq?: boolean;
  namespaces?: string[];
  hint?: string | null;
}

/** Feedback, newest first. */
export interface FeedbackPage {
  data: FeedbackShape[];
  next_cursor: string | null;
}

/** A rating of one hit: `good`, `bad`, or `click` for having opened it. Either `chunk_id` or `document_id` identifies the hit. `namespace`: the document's, if several namespaces of the query contain it. `session_id`: the rater, by default the query's session. */
export interface FeedbackRequest {
  rating: "good" | "bad" | "click";
  chunk_id?: string | null;
  document_id?: string | null;
  namespace?: string | null;
  note?: string | null;
  session_id?: string | null;
  tenant_id?: string | null;
}

/** One rating of one hit. `created_at`: when it was first given, `rated_at`: when it was last given. `place` in the answer counts from 1; it, `score` and `source` are null for a chunk that was not in the answer. */
export interface FeedbackShape {
  feedback_id: string;
  created_at: string;
  rated_at: string;
  query_id: string;
  query_text: string;
  namespaces: string[];
  namespace: string;
  document_id: string;
  chunk_id: string | null;
  rating: "good" | "bad" | "click";
  note: string | null;
  place: number | null;
  score: number | null;
  source: string | null;
  profile: string;
  config_version: number;
  experiment_id: string | null;
  experiment_bucket: string | null;
  session_id: string | null;
  request_id: string;
}

/** Conditions on the document of a hit; all given ones must hold. `tags`: all of them. `start` and `end` bound `published_at`, both inclusive. */
export interface FiltersIn {
  type?: string | null;
  tags?: string[] | null;
  author?: string | null;
  start?: string | null;
  end?: string | null;
  metadata?: Record<string, unknown> | null;
  where?: Record<string, unknown> | string | null;
}

/** One check; `advice` says what to do, and is empty if all is well. `cause`: the failing check from which this result follows, empty if it stands for itself; a check of severity `unknown` cannot be judged while its cause lasts. */
export interface Finding {
  check: string;
  severity: string;
  detail: string;
  advice: string;
  cause: string;
}

/** How a source is followed. `every_seconds`: from one run to the next; `next_run_at` is null while it is paused. `held_removals`: documents that are gone from the source and stay until this is confirmed, null if none wait. `job_id`: of the latest run. Its secret is never shown. */
export interface FollowedSource {
  url: string;
  every_seconds: number;
  rules: Record<string, unknown>[];
  has_secret: boolean;
  next_run_at: string | null;
  held_removals: number | null;
  job_id: string | null;
  run: SourceRun | null;
}

/** Something that the text may mean. `kind`: a `document`; an item `refused` on arrival, which became none; a `job`. `status`: of its latest upload; `searchable`: an upload of the document is published. `code` and `detail`: the reason for a failure. */
export interface FoundMatch {
  kind: "document" | "refused" | "job";
  namespace: string;
  document_id: string | null;
  title: string | null;
  status: "queued" | "running" | "succeeded" | "partly_failed" | "failed" | "cancelled";
  searchable: boolean;
  code: string | null;
  detail: string | null;
  job_id: string;
  updated_at: string;
}

/** Matches, failures first. `truncated`: the tenant has more uploads than were compared; name a namespace then. */
export interface FoundMatches {
  data: FoundMatch[];
  truncated: boolean;
}

/** The fusion of the channels' rankings. ``k`` belongs to rrf, ``normalisation`` to weighted, ``plugin`` names the entry point of custom. ``gate``: exclude a channel whose best hit reaches less than this share of its highest possible score, or that scores all its hits alike. ``reading_gate``: a channel whose model cannot read the whole query counts by the part it reads, and the share of the query's words in a candidate counts for the rest; without it weights are taken as they are. ``query_weights``: the semantic channel counts by what both searches found for the query (`ranking.query_weights`). ``feedback``: let the candidates' scores follow those of their neighbours. */
export interface FusionPlan {
  strategy?: "rrf" | "weighted" | "custom";
  k?: number;
  normalisation?: "min_max" | "z_score";
  plugin?: string | null;
  gate?: number | null;
  reading_gate?: boolean;
  query_weights?: boolean;
  feedback?: boolean;
}

/** The remaining generations of a document, newest first. `etag` is for `If-Match` of a rollback. */
export interface GenerationList {
  namespace: string;
  document_id: string;
  etag: string;
  data: GenerationShape[];
}

/** One ingestion of a document. `previous` was visible before and can be rolled back to until `kept_until`; `retired` is about to be deleted. `chunks` is null until it has been ingested, `bytes` the size of the upload. */
export interface GenerationShape {
  generation: number;
  state: "shown" | "previous" | "pending" | "failed" | "cancelled" | "retired";
  title: string | null;
  created_at: string;
  kept_until: string | null;
  chunks: number | null;
  content_hash: string;
  bytes: number;
  job_id: string;
}

/** A question to both models. `relevant`: grades of the expected documents, by their ids. */
export interface GoldenQueryRequest {
  tenant_id: string;
  namespaces: string[];
  query_text: string;
  relevant?: Record<string, number> | null;
}

/** The hits with one value of the field that groups, in the order of the answer. `value` is null for hits without one. `next`: the fields of a query for further hits of the group, null where there are none. */
export interface Group {
  value: string | number | boolean | null;
  chunk_ids: string[];
  next: Record<string, unknown> | null;
}

/** A header whose value is not in the request: `from` names a secret in the installation's environment, `kept` keeps the stored value. */
export interface HeaderIn {
  from?: string | null;
  kept?: boolean | null;
}

/** The location of a header's value: in the environment, under the name `from`, or stored. */
export interface HeaderOut {
  from?: string | null;
  kept?: boolean | null;
}

/** Figures of the whole installation in steps of `step_s` seconds. `at`: the end of each step, in seconds since the epoch. `series`: one value for each step; null where nothing was recorded, or where a share has no queries. */
export interface HistoryPage {
  range: "1h" | "24h" | "7d";
  step_s: number;
  at: number[];
  series: Record<string, (number | null)[]>;
}

/** One channel's contribution to a hit. `rank` counts from 1; null means that another channel found it first. `contribution` is null where a custom fusion gave the score. */
export interface HitSource {
  channel: string;
  rank: number | null;
  score: number | null;
  normalized: number | null;
  contribution: number | null;
}

/** The parts of an archive that were received, in order. */
export interface Import {
  import_id: string;
  namespace: string;
  parts: ImportedPart[];
}

/** A received part and the job of its documents. `vectors_kept`: its vectors are stored as they are, because this installation's model made them; otherwise its chunks are embedded again. */
export interface ImportedPart {
  part: number;
  sha256: string;
  job_id: string;
  documents: number;
  chunks: number;
  vectors: number;
  vectors_kept: boolean;
  received_at: string;
  finished: boolean;
}

/** One document of a job. `outcome`: the document is new, has another generation, is `unchanged`, existed and was left alone (`skipped`), was replaced by a later upload or a deletion (`superseded`), or was never accepted (`refused`, with a code). It is null until the item has ended, and if it failed later. `encoding` and the fields beside it: as in the document's source; null for one that is unchanged. `requested_id`: the id it was sent with, if `on_conflict: new` gave it another one. `duplicate_of`: as in the document. */
export interface Item {
  ordinal: number;
  document_id: string | null;
  requested_id: string | null;
  duplicate_of: string | null;
  status: "queued" | "running" | "succeeded" | "failed" | "cancelled";
  stage: string;
  outcome: "created" | "replaced" | "unchanged" | "skipped" | "superseded" | "refused" | "answered" | "listed" | null;
  chunks: number;
  reused: number;
  attempts: number;
  code: string | null;
  detail: string | null;
  pointer: string | null;
  updated_at: string;
  encoding: string | null;
  encoding_probability: number | null;
  encoding_warning: string | null;
  pages_warning: string | null;
}

/** Items in the order they were sent. */
export interface ItemPage {
  data: Item[];
  next_cursor: string | null;
}

/** A job with its counters. `stages`: how many documents have finished each step. `outcomes`: how many ended in which `Outcome`. `reused`: how many of the chunks kept their vector. `waiting_reason`: the reason for a lack of progress, null if it is being processed, or has waited for less than five seconds. */
export interface Job {
  job_id: string;
  namespace: string;
  status: "queued" | "running" | "succeeded" | "partly_failed" | "failed" | "cancelled";
  total: number;
  chunks: number;
  stages: Record<string, number>;
  waiting_reason: "queued_behind_others" | "no_worker" | "paused" | "retrying" | null;
  created_at: string;
  updated_at: string;
  finished_at: string | null;
  paused_at: string | null;
  succeeded: number;
  failed: number;
  cancelled: number;
  reused: number;
  priority: "interactive" | "bulk";
  outcomes: Record<string, number>;
  usage: Usage;
  errors: JobError[];
}

/** The documents are durable; a worker will process them. `renamed`: those that `on_conflict: new` gave another id; absent if there are none. `delayed`: why that will be later; absent unless the broker takes no messages (alarm). */
export interface JobAccepted {
  job_id: string;
  status: "queued" | "running" | "succeeded" | "partly_failed" | "failed";
  total: number;
  renamed?: Renamed[];
  delayed?: string;
}

/** The reason for one document's failure in a job. `code` is stable, `detail` is a sentence, `pointer` leads to the field of the request. */
export interface JobError {
  document_id: string | null;
  code: string;
  detail: string | null;
  pointer: string | null;
}

/** Jobs, newest first. */
export interface JobPage {
  data: Job[];
  next_cursor: string | null;
}

/** A question with the grades of the judged documents: 2 good, 1 opened, 0 bad. Without `query_id` and `votes` it is a query for the comparison of two models. */
export interface JudgedQuery {
  query_id: string;
  tenant_id: string;
  namespaces: string[];
  query_text: string;
  relevant: Record<string, number>;
  votes: Record<string, JudgmentVotes>;
}

/** Judged questions, in the order of their ids. A page may hold fewer than requested. */
export interface JudgmentPage {
  data: JudgedQuery[];
  next_cursor: string | null;
}

/** The number of raters: sessions, or queries where no session is known. `votes`: good and bad count 1, a click 0.5. */
export interface JudgmentVotes {
  good: number;
  bad: number;
  clicks: number;
  votes: number;
  rated_at: string;
}

/** A key without its secret. `key_id` is its name in the audit. `last_used_at` is accurate to the minute. `replaced_by`: the key that it was rotated to. `principals`: those of its callers, besides `public`; `*` sees every document. `signs_tokens`: whether its owner can sign tokens of principals. */
export interface Key {
  key_id: string;
  name: string;
  scopes: ("read" | "write" | "admin" | "impersonate" | "operator")[];
  state: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  replaced_by: string | null;
  principals: string[];
  signs_tokens: boolean;
}

/** One page of keys, the newest first. */
export interface KeyPage {
  data: Key[];
  next_cursor: string | null;
}

/** A new key. Without `expires_at` it works until it is revoked. `principals`: those of its callers; `*` sees every document, and a key without any sees the public ones. `signs_tokens`: also make a secret, with which its owner signs tokens of principals; with `jwks_url` the private keys sign them whose public keys are at that address. */
export interface KeyRequest {
  name: string;
  scopes: ("read" | "write" | "admin" | "impersonate")[];
  principals?: string[];
  signs_tokens?: boolean;
  jwks_url?: string | null;
  expires_at?: string | null;
  tenant_id?: string | null;
}

/** `overlap_seconds`: how long the old key works beside the new one; a day by default. */
export interface KeyRotateRequest {
  overlap_seconds?: number;
  tenant_id?: string | null;
}

/** A key and its value for `Authorization: Bearer`, and the secret to sign tokens with; both are shown this once. */
export interface KeyWithSecret {
  key_id: string;
  name: string;
  scopes: ("read" | "write" | "admin" | "impersonate" | "operator")[];
  state: "active" | "expired" | "revoked";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  replaced_by: string | null;
  principals: string[];
  signs_tokens: boolean;
  api_key: string;
  token_secret: string | null;
}

/** Thresholds on similarity, tried in order until ``min_results`` hits reach one; after the last, those that reach the last. Nothing is recalled again. */
export interface LadderPlan {
  thresholds?: number[];
  min_results?: number;
}

/** The last threshold of similarity that was tried. `hits` reached `threshold`; `enough`: as many as requested. */
export interface LadderStep {
  threshold: number;
  hits: number;
  enough: boolean;
}

/** Characters of the searched text: both parts of an example. `up_to` counts examples by the first of these lengths that they do not exceed. */
export interface Lengths {
  shortest: number;
  longest: number;
  mean: number;
  up_to: Record<string, number>;
}

/** Kinds of personal data; the kind in brackets replaces it. */
export type MaskedKind = "email" | "id-card" | "bank-card" | "phone";

/** Progress of the current pass, over all tenants. `embedded` counts the vectors of all passes. */
export interface MigrationProgress {
  tenants: number;
  tenants_done: number;
  chunks_total: number;
  chunks: number;
  found: number;
  mended: number;
  embedded: number;
}

/** An accepted row that searches cannot find. */
export interface MissingExample {
  document_id: string;
  status: string;
  code: string | null;
}

/** A knowledge base and the amount of its searchable data. `revised_at`: its last change. `bytes`: the size of the uploads, null unless `sizes` was requested. `readers`: of new documents that name none, null for callers who do not see every document. */
export interface Namespace {
  namespace: string;
  documents: number;
  chunks: number;
  bytes: number | null;
  created_at: string;
  revised_at: string | null;
  readers: string[] | null;
}

/** How the two stores compare in one namespace. */
export interface NamespaceAlignment {
  missing: number;
  orphaned: number;
  stale: number;
  misplaced: number;
  miscounted: number;
  leftover: number;
  statistics: number;
  document_vectors: number;
  namespace: string;
  documents: number;
  chunks: number;
  vectors: number;
}

/** Numbers of deleted objects. `generations`: those whose rows were deleted in both stores at once. */
export interface NamespaceDeleted {
  namespace: string;
  documents: number;
  generations: number;
}

/** The values that documents can be filtered by. `complete`: they were counted over all documents, else over the first `documents_read` by id. `metadata` has the most frequent 50 of `metadata_keys` keys; texts, numbers and booleans only. The bounds are those of `published_at` and `story_time`. */
export interface NamespaceFields {
  namespace: string;
  documents_read: number;
  complete: boolean;
  types: UsedValues;
  authors: UsedValues;
  tags: UsedValues;
  metadata: Record<string, UsedValues>;
  metadata_keys: number;
  published_from: string | null;
  published_to: string | null;
  story_from: number | null;
  story_to: number | null;
}

/** Namespaces by name. */
export interface NamespacePage {
  data: Namespace[];
  next_cursor: string | null;
}

/** A tenant's own quotas; null where the installation's setting applies, 0 for no limit. */
export interface OwnQuotasView {
  documents: number | null;
  chunks: number | null;
  queued: number | null;
  tokens: number | null;
  requests_per_minute: number | null;
}

/** One page of chunks. */
export interface OwnedChunkPage {
  data: OwnedChunkShape[];
  next_cursor: string | null;
}

/** A chunk as its owner sees it, enabled or disabled. `searched` is false for a parent, which is only read with its children. `metadata`, `source_id` and `source_uri` are its document's. */
export interface OwnedChunkShape {
  ordinal: number;
  text: string;
  heading_path: string[];
  page: number | null;
  page_start: number | null;
  page_end: number | null;
  start: number;
  end: number;
  token_count: number;
  chunk_type: string;
  chunk_index: number;
  chapter_id: string | null;
  story_time: number | null;
  entity_names: string[];
  summary: string | null;
  attributes: Record<string, string>;
  chunk_id: string;
  namespace: string;
  document_id: string;
  generation: number;
  parent_id: string | null;
  window: string | null;
  edited: boolean;
  searched: boolean;
  metadata: Record<string, unknown>;
  source_id: string;
  source_uri: string | null;
  enabled: boolean;
  etag: string;
  updated_at: string;
}

/** The outcome of a sent part. `present`: it had been received before, and nothing changed. */
export interface PartAnswer {
  part: number;
  sha256: string;
  job_id: string;
  documents: number;
  chunks: number;
  vectors: number;
  vectors_kept: boolean;
  received_at: string;
  finished: boolean;
  import_id: string;
  namespace: string;
  status: "accepted" | "present";
}

/** The payload that failed, without its text. `available` is false once it cannot be replayed. */
export interface PayloadReference {
  media_type: string | null;
  uri: string | null;
  bytes: number;
  content_hash: string | null;
  available: boolean;
}

/** The chunks of a document, and their parents. Nothing was stored. `encoding` is null for formats that are not text; `pages_warning`: as in a document's source. */
export interface PreviewAnswer {
  title: string | null;
  encoding: PreviewEncoding | null;
  pages_warning: string | null;
  chunking: Record<string, unknown>;
  chunks: PreviewChunk[];
  parents: PreviewChunk[];
}

/** A chunk in the preview. `parent`: the ordinal of its parent. `embedding_text`: the text to embed, null for parents. */
export interface PreviewChunk {
  ordinal: number;
  text: string;
  heading_path: string[];
  page: number | null;
  page_start: number | null;
  page_end: number | null;
  start: number;
  end: number;
  token_count: number;
  chunk_type: string;
  chunk_index: number;
  chapter_id: string | null;
  story_time: number | null;
  entity_names: string[];
  summary: string | null;
  attributes: Record<string, string>;
  parent: number | null;
  embedding_text: string | null;
}

/** The character encoding in which the bytes were read, and the probability that the text is right (0 to 1). */
export interface PreviewEncoding {
  name: string;
  probability: number;
  warning: string | null;
}

/** One document as in `POST /v1/documents`, or the `namespace` and `document_id` of a stored one, and its chunking. */
export interface PreviewRequest {
  tenant_id?: string | null;
  document?: DocumentIn | null;
  namespace?: string | null;
  document_id?: string | null;
  chunking?: ChunkingIn | null;
}

/** The personal data to mask in answers; requests to models are always masked. */
export interface PrivacyPlan {
  mask_answers?: boolean;
  kinds?: MaskedKind[];
}

/** An error (RFC 9457). `code` is stable and meant for programs. Some problems have further members, as the RFC provides. */
export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  code: string;
  request_id: string;
  errors?: ErrorPlace[] | null;
  quota?: UsedUp | null;
}

/** A profile with its configuration and the resulting complete plan. */
export interface ProfileDetail {
  name: string;
  config_version: number;
  built_in: boolean;
  note: string;
  trial_version: number | null;
  trial_share: number;
  previous_version: number | null;
  config: Record<string, unknown>;
  plan: Record<string, unknown>;
}

/** All profiles available to queries. */
export interface ProfileList {
  data: ProfileShape[];
  next_cursor: null;
}

/** A new version of a profile. `config` is a partial plan; the installation's settings fill the rest. `share`: 1 applies it to every query, less tries it beside the active version, 0 only stores it. */
export interface ProfileRequest {
  /** Every setting of one retrieval. The fields are those of a profile. ``context``: None for an answer without one; ``highlight``: mark the words of the query in the hits; ``facets``: count the values of these fields. ``lane``: the processes that answer a waiting caller, workers through the broker or the gateway's own; the answer is the same. */
  config: {
    top_k?: number;
    deadline_ms?: number;
    retrieve?: RetrievePlan;
    rerank?: RerankPlan;
    understand?: UnderstandPlan;
    fallback?: FallbackPlan;
    context?: ContextOptions | null;
    highlight?: boolean;
    facets?: string[];
    privacy?: PrivacyPlan;
    lane?: "chord" | "in_process";
  };
  note?: string;
  share?: number;
  tenant_id?: string | null;
}

/** The active version of a profile. `config_version` is in every answer that used it. */
export interface ProfileShape {
  name: string;
  config_version: number;
  built_in: boolean;
  note: string;
  trial_version: number | null;
  trial_share: number;
  previous_version: number | null;
}

/** Every version, newest first. */
export interface ProfileVersionList {
  data: ProfileVersionShape[];
  next_cursor: null;
}

/** One version of a profile. */
export interface ProfileVersionShape {
  config_version: number;
  config: Record<string, unknown>;
  note: string;
  created_by: string;
  created_at: string | null;
}

/** The grades of hits, read from metadata. Grades go from best to worst; hits of the worst are dropped if there are more than ``enough`` hits; an ungraded hit counts as the worst. Hits whose scores differ by less than the share ``near_tie`` of the best score are ordered by grade, then newest first. */
export interface QualityPlan {
  key?: string;
  grades?: string[];
  enough?: number;
  near_tie?: number;
}

/** A query that has no answer yet. */
export interface QueryAccepted {
  query_id: string;
  status: "queued" | "running";
}

/** Up to 10,000 queries. A field that a query leaves out has the value in `defaults`. */
export interface QueryBatchRequest {
  tenant_id?: string | null;
  queries: unknown[];
  defaults?: Record<string, unknown>;
}

/** The changes of a replay: parts of a plan that override the query's own. */
export interface QueryReplayRequest {
  /** Every setting of one retrieval. The fields are those of a profile. ``context``: None for an answer without one; ``highlight``: mark the words of the query in the hits; ``facets``: count the values of these fields. ``lane``: the processes that answer a waiting caller, workers through the broker or the gateway's own; the answer is the same. */
  plan?: {
    top_k?: number;
    deadline_ms?: number;
    retrieve?: RetrievePlan;
    rerank?: RerankPlan;
    understand?: UnderstandPlan;
    fallback?: FallbackPlan;
    context?: ContextOptions | null;
    highlight?: boolean;
    facets?: string[];
    privacy?: PrivacyPlan;
    lane?: "chord" | "in_process";
  };
  tenant_id?: string | null;
}

/** One retrieval. Every field but `query_text` and `namespaces` is optional; the profile supplies omitted ones. `principals`: those of the caller, from a key with the scope `impersonate`. `context`: add the hits as a text for a prompt; `{}` for the default one. `highlight`: mark the words of the query in the hits. `facets`: count the values of these fields among the passages that match (`type`, `author`, `tags`, `metadata.<key>`). `group_by`: return the best `top_k` values of such a field, with up to `group_size` hits of each. `exclude`: ids of chunks that you have, which the answer leaves out. `conversation`: the messages before the query, oldest first. `user_profile`: known facts about the user. */
export interface QueryRequest {
  tenant_id?: string | null;
  query_text: string;
  namespaces: string[];
  top_k?: number | null;
  filters?: FiltersIn | string | null;
  enable_expand?: boolean | null;
  enable_rerank?: boolean | null;
  profile?: string | null;
  retrieve?: {
    method?: "hybrid" | "full_text" | "semantic";
    requires_story_time?: boolean;
    optional_namespaces?: string[];
    allocation?: "pool" | "balanced" | "double";
    score_threshold?: number;
    channels?: Record<string, ChannelPlan>;
    fusion?: FusionPlan;
    time_decay?: DecayPlan | null;
    selection?: SelectionPlan;
    ladder?: LadderPlan | null;
    second?: SecondRetrievalPlan | null;
  } | null;
  rerank?: {
    enabled?: boolean;
    provider?: "auto" | "local" | "llm" | "http";
    top_n?: number;
    threshold?: number | null;
    min_results?: number;
    weight?: number | null;
    budget_ms?: number;
  } | null;
  understand?: {
    enabled?: boolean;
    router?: "off" | "rules" | "llm";
    rewrite?: boolean;
    keywords?: boolean;
    entities?: boolean;
    expand?: number;
    hyde?: boolean;
    budget_ms?: number;
  } | null;
  fallback?: {
    enabled?: boolean;
    threshold?: number;
    faq?: boolean;
    namespaces?: string[];
    hint?: string | null;
  } | null;
  context?: {
    format?: "markdown" | "text";
    max_tokens?: number;
    window?: number | null;
    parents?: boolean | null;
    whole_document?: boolean;
    header?: "title" | "story" | "none";
    over_budget?: "skip" | "stop";
    passages?: "text" | "dialogue";
    entities?: boolean;
  } | null;
  highlight?: boolean | null;
  facets?: string[] | null;
  group_by?: string | null;
  group_size?: number | null;
  exclude?: string[] | null;
  deadline_ms?: number | null;
  story_time?: number | null;
  conversation?: string[] | null;
  user_profile?: Record<string, unknown> | null;
  principals?: string[] | null;
  session_id?: string | null;
  experiment_id?: string | null;
  trace?: boolean | null;
}

/** The limit, null for none, and the current amount. */
export interface Quota {
  limit: number | null;
  used: number;
}

/** The tenant's use of its quotas. `queued` counts documents that wait for a worker, `tokens` those embedded in this calendar month, `answer_bytes` the memory of queries and stored answers, whose limit falls as the memory of the installation fills. */
export interface QuotaUse {
  documents: Quota;
  chunks: Quota;
  queued: Quota;
  tokens: Quota;
  answer_bytes: Quota;
}

/** A tenant's own quotas. An omitted quota or null is the installation's setting, 0 is no limit. */
export interface QuotasIn {
  documents?: number | null;
  chunks?: number | null;
  queued?: number | null;
  tokens?: number | null;
  requests_per_minute?: number | null;
}

/** The documents, by id, source or filters (all that are given must hold), and their new readers. `default`: the new documents of the namespace that name none, which is created if it does not exist. */
export interface ReadersRequest {
  tenant_id?: string | null;
  namespace: string;
  readers: string[];
  document_ids?: string[] | null;
  source_id?: string | null;
  filters?: FiltersIn | null;
  default?: boolean;
}

/** A document stored under another id, because a document with other bytes has `requested_id`. `ordinal` counts from 0 in the order of its request. */
export interface Renamed {
  ordinal: number;
  requested_id: string;
  document_id: string;
}

/** The query once more, with other settings. */
export interface Replay {
  query_id: string;
  of: string;
  difference: Difference;
  answer: Answer;
}

/** The dead letters to replay: those that match every field given, or all with `{"all": true}`. */
export interface ReplayRequest {
  tenant_id?: string | null;
  all?: boolean;
  job_id?: string | null;
  namespace?: string | null;
  code?: string | null;
  reason?: "rejected" | "gave_up" | "bug" | null;
}

/** How many documents are queued again. */
export interface Replayed {
  replayed: number;
}

/** The effect of reranking on a hit: its score there, and its previous position, counted from 1. */
export interface RerankMove {
  score: number;
  from_rank: number;
}

/** Reranking. ``provider``: ``auto`` is the rerank service where one is configured, else the language model, else local. ``threshold``: drop hits below it or without a score, but keep the best so that ``min_results`` remain. ``weight``: the share of the rerank score; None is the reranker's own. */
export interface RerankPlan {
  enabled?: boolean;
  provider?: "auto" | "local" | "llm" | "http";
  top_n?: number;
  threshold?: number | null;
  min_results?: number;
  weight?: number | null;
  budget_ms?: number;
}

/** The channels to search and the composition of their hits. ``allocation``: how many chunks each channel recalls for each text. ``pool``: the channel's pool, at least ``top_k``; ``balanced``: ``top_k``, and every channel gets an equal share of the returned hits (`ranking.selection`); ``double``: ``2 * top_k``. ``score_threshold`` is compared with a hit's confidence. ``requires_story_time``: refuse a query without ``story_time``, which would reveal the whole story; decay by ``story_time`` requires it as well. ``optional_namespaces``: namespaces that may be missing; a query that names a missing one is degraded and searches the others. */
export interface RetrievePlan {
  method?: "hybrid" | "full_text" | "semantic";
  requires_story_time?: boolean;
  optional_namespaces?: string[];
  allocation?: "pool" | "balanced" | "double";
  score_threshold?: number;
  channels?: Record<string, ChannelPlan>;
  fusion?: FusionPlan;
  time_decay?: DecayPlan | null;
  selection?: SelectionPlan;
  ladder?: LadderPlan | null;
  second?: SecondRetrievalPlan | null;
}

/** The document, and the retained generation to roll back to; without one, the latest retained one. */
export interface RollbackRequest {
  tenant_id?: string | null;
  namespace: string;
  generation?: number | null;
}

/** `overlap_seconds`: how long the previous secret signs too; a day by default. */
export interface RotateRequest {
  overlap_seconds?: number;
  tenant_id?: string | null;
}

/** Where the query contains `when`, the document's chunks join the candidates with a score multiplied by `boost`. From 2 on, its best chunk scores at least as high as the best other one of the keyword channel. */
export interface RuleIn {
  when: string;
  document_id: string;
  namespace?: string | null;
  boost?: number;
}

/** One rule. */
export interface RuleOut {
  when: string;
  document_id: string;
  namespace: string;
  boost: number;
}

/** A task that a worker runs. `work_id`: of its job, query or computation. */
export interface RunningWork {
  task: string;
  work_id: string;
  running_s: number;
}

/** A row to find by its own words. */
export interface SampledExample {
  document_id: string;
  type: string | null;
  user_input: string;
}

/** The reason for a second retrieval, its changes, and the number of chunks before and after it. Empty `changed`: it was impossible, or would have repeated the first. */
export interface SecondRetrieval {
  reason: string;
  changed: Record<string, unknown>;
  hits_before: number;
  hits_after: number;
}

/** The conditions of a second retrieval, and its changes. At least one condition and one change. A result is poor if it has fewer than ``min_hits`` chunks, chunks of fewer than ``min_documents`` documents, or no chunk with a confidence of ``min_score``. The other fields replace those of the plan. */
export interface SecondRetrievalPlan {
  min_hits?: number | null;
  min_score?: number | null;
  min_documents?: number | null;
  score_threshold?: number | null;
  pool?: number | null;
  method?: "hybrid" | "full_text" | "semantic" | null;
  expand?: boolean | null;
  rerank?: boolean | null;
}

/** The selection of the hits to return. ``per_document``: the most hits of one document. ``diversity``: 0 keeps the order, 1 considers only novelty (maximal marginal relevance, lambda = 1 - diversity). ``group_by``: return the best ``top_k`` values of a field, with up to ``group_size`` hits of each. */
export interface SelectionPlan {
  dedupe?: "chunk" | "document" | "content";
  per_document?: number | null;
  diversity?: number;
  quality?: QualityPlan | null;
  group_by?: string | null;
  group_size?: number;
}

/** A process that has given no sign of life `since` then although it did not end in order: killed, frozen, or cut off. `served`: its queues, or `gateway`, `indexer`, `clock`. */
export interface SilentProcess {
  host: string;
  name: string;
  since: string;
  served: string[];
}

/** Another document. `similarity`: of their vectors, at most 1. `same_bytes`: whether both uploads are equal. */
export interface SimilarDocument {
  document_id: string;
  title: string | null;
  similarity: number;
  same_bytes: boolean;
}

/** Documents by similarity, at most ten. */
export interface SimilarDocuments {
  data: SimilarDocument[];
  next_cursor: null;
}

/** The origin of a document. Documents with the same `source_id` in one namespace have one source; `kind` is the way in which it was last submitted. `encoding`: the character encoding of its bytes, with the probability that its text is right (0 to 1), null until it is read, for formats that are not text and for documents of an imported archive. `encoding_warning`: the reason to check its text, null if there is none. `pages_warning`: what else was left out or may be wrong, such as pages that hold only pictures, hidden content, or formulas without a value; null if nothing was. `page_start` and `page_end`: the first and the last page with text, null until it is read and for formats without pages. */
export interface Source {
  source_id: string;
  kind: "text" | "bytes" | "file" | "url" | "sheet";
  uri: string | null;
  media_type: string;
  encoding: string | null;
  encoding_probability: number | null;
  encoding_warning: string | null;
  pages_warning: string | null;
  page_start: number | null;
  page_end: number | null;
}

/** A file that a run added, changed, removed or skipped, and the reason. */
export interface SourceChange {
  path: string;
  action: "added" | "changed" | "removed" | "skipped";
  reason: string;
}

/** How many documents were deleted with a source. */
export interface SourceDeleted {
  source_id: string;
  namespace: string;
  documents: number;
}

/** The origin of a text, and how to read it. Of `text` (of the document or in here) and `bytes`, one is needed; with neither, the document is fetched from `uri`, which must be http or https then. `charset` takes precedence over the detected encoding, unless it hardly fits. `source_id`: documents of a namespace with the same one belong to one source; without it, those with the same `uri` do. `mime_type` is another name for `media_type`. `tags` and `metadata` are added to those of the document. */
export interface SourceIn {
  source_id?: string | null;
  uri?: string | null;
  text?: string | null;
  /** The bytes of a file, in base64. */
  bytes?: string | null;
  filename?: string | null;
  media_type?: string | null;
  mime_type?: string | null;
  parser_hint?: string | null;
  charset?: string | null;
  tags?: string[] | null;
  metadata?: Record<string, unknown> | null;
}

/** A source with its documents. `statuses`: number of `documents` by status. `chunks`: the searchable ones. `encoding` is null unless all its documents share one; `page_start` and `page_end` are the first and the last page of any of them. `followed`: null for a source whose documents were sent one by one. */
export interface SourceInfo {
  source_id: string;
  namespace: string;
  kind: "text" | "bytes" | "file" | "url" | "sheet";
  uri: string | null;
  media_type: string;
  encoding: string | null;
  page_start: number | null;
  page_end: number | null;
  documents: number;
  statuses: Record<string, number>;
  chunks: number;
  created_at: string;
  updated_at: string;
  followed: FollowedSource | null;
}

/** How documents arrived: inline text, bytes in a body, a stored file, a fetched address, a sheet of examples. */
export type SourceKind = "text" | "bytes" | "file" | "url" | "sheet";

/** Sources by id. */
export interface SourcePage {
  data: SourceInfo[];
  next_cursor: string | null;
}

/** A source to follow: a folder below one that the operator allows (`file://`), a store (`s3://`, `gs://`, `az://`, `sftp://`, `webdav://`, `webdavs://`), a git repository (`git+https://host/repository@branch#folder`), a sitemap or an index on a web server, or what an installed package reads. `secret`: what the store asks for, by name; it is never shown again. Following a URL again changes its interval and its rules, and its secret if one is given. */
export interface SourceRequest {
  tenant_id?: string | null;
  url: string;
  namespace: string;
  source_id?: string | null;
  every_seconds?: number;
  rules?: SourceRuleIn[];
  secret?: Record<string, string> | null;
}

/** A rule for the files of a source. */
export interface SourceRuleIn {
  path?: string | null;
  skip?: boolean | null;
  document_id?: string | null;
  type?: string | null;
  tags?: string[] | null;
  metadata?: Record<string, unknown> | null;
  readers?: string[] | null;
}

/** The result of the latest run. `listed`: files of the source; `changes`: the first hundred. `error`: why it ended before it was through, null if it did not. It has ended when `ended_at` is set; its job ends with its last document. */
export interface SourceRun {
  started_at: string;
  ended_at: string | null;
  listed: number;
  added: number;
  changed: number;
  removed: number;
  unchanged: number;
  skipped: number;
  error: string | null;
  changes: SourceChange[];
}

/** A stretch of `text`. Offsets count characters (Unicode code points); the end is exclusive. */
export interface Span {
  start: number;
  end: number;
}

/** The model to migrate to. `service`: `default` is the one at `OPENAI_BASE_URL`, `next` the one at `CHORDWISE_EMBEDDING_NEXT_BASE_URL`; keys are settings and never in a request. */
export interface StartRequest {
  provider: "local" | "openai";
  model: string;
  dimension: number;
  service?: "default" | "next";
}

/** Figures on how the answer was made. Times in milliseconds. `source_share` adds up to 1. `fallback`: the last resort that was added and why, or `none_configured` where an answer needed one. `degradations`: each loss on the way. */
export interface Stats {
  hits: Record<string, number>;
  source_share: Record<string, number>;
  expanded_queries: string[];
  latency_ms: Record<string, number>;
  rerank_lift: number | null;
  degraded: boolean;
  degradations: Degradation[];
  profile: string;
  config_version: number;
  experiment_bucket: string | null;
  remarks: string[];
  /** How each channel searched, where it has several ways: `method` is `exact`, `hnsw`, `ivfflat` or `hnsw+ivfflat`, with `+exact_fallback` if indexes gave too few, of the keyword channel `index` or `fulltext`; `rows`: how many chunks it compared; `may_be_short`: something may be missing; `indexes`: how many vector indexes were asked; `recall`: the least share of the ten nearest chunks that they were measured to find. */
  recall: Record<string, Record<string, unknown>>;
  fallback: string | null;
  ladder: LadderStep | null;
  second: SecondRetrieval | null;
  /** Whether the answer came from the answer cache. */
  cached?: boolean;
  /** Set while MySQL is away: seconds since the keyword index was last in step with MySQL. */
  index_age_s?: number | null;
}

/** Examples of one category that searches can find. */
export interface StoredCategory {
  examples: number;
  grades: Record<string, number>;
  tags: Record<string, number>;
  lengths: Lengths | null;
}

/** `skip_gate`: switch without a passed comparison. `accept_missing`: switch although the model refused some chunks. */
export interface SwitchRequest {
  skip_gate?: boolean;
  accept_missing?: boolean;
}

/** The deleted rows, by store and table, since the erasure was first requested; `remaining` is the result of a recount. */
export interface TenantErased {
  tenant_id: string;
  erased: Record<string, number>;
  remaining: Record<string, number>;
}

/** One page of tenants, by id. */
export interface TenantPage {
  data: TenantView[];
  next_cursor: string | null;
}

/** A new tenant. The id is part of each of its keys: lower-case letters, digits and hyphens. `chordwise` is reserved for the installation. */
export interface TenantRequest {
  tenant_id: string;
  name: string;
  quotas?: QuotasIn | null;
}

/** An isolated customer. `disabled_at`: none of its keys works since then. */
export interface TenantView {
  tenant_id: string;
  name: string;
  created_at: string;
  disabled_at: string | null;
}

/** A part of a text: its position in characters, `end` exclusive, its headings, and its page. */
export interface TextSection {
  start: number;
  end: number;
  heading_path: string[];
  page: number | null;
}

/** One run of the pipeline in numbers and ids; `explained` gives the reason for each chunk's rank in one sentence. `channels`: the hits of each. `stages`: the order after each, with every contribution; those of a second retrieval are of round 2. `rerank_weight`: the weight of the reranker's scores against the previous order. `drops`: the rule that dropped each candidate, its number, and the required one. `lane`: the lane that composed the answer; `plan.lane` is the requested one. */
export interface Trace {
  query_id: string;
  request_id: string;
  profile: string;
  config_version: number;
  lane?: "chord" | "in_process";
  experiment_id: string | null;
  experiment_bucket: string | null;
  query: Record<string, unknown>;
  plan: Record<string, unknown>;
  channels: Record<string, Record<string, unknown>>;
  stages: Record<string, unknown>[];
  rerank_weight: number | null;
  drops: Record<string, unknown>[];
  returned: string[];
  explained: string[];
  timings_ms: Record<string, number>;
  /** When each part of the run began and how long it took, in milliseconds since the request: gateway, waits in queues, channels, the callback with its steps, and calls to stores and models. */
  timeline?: Record<string, unknown>[];
  second: Record<string, unknown> | null;
  ladder: Record<string, unknown> | null;
  fallback: string | null;
  degradations: Record<string, string>[];
  remarks: string[];
}

/** One page of kept traces, newest first. */
export interface TracePage {
  data: TraceSummary[];
  next_cursor: string | null;
}

/** A kept trace. `marks`: the reasons why it is kept. `text`: the first 300 characters of the question. `total_ms`: from the request to the answer. */
export interface TraceSummary {
  query_id: string;
  asked_at: string;
  text: string;
  namespaces: string[];
  profile: string;
  marks: ("slow" | "degraded" | "failed" | "empty" | "requested" | "sampled")[];
  total_ms: number;
  chunks: number;
}

/** A passage as a query would get it. */
export interface TriedPassage {
  chunk_id: string;
  document_id: string;
  namespace: string;
  title: string | null;
  text: string;
  metadata: Record<string, unknown>;
  score: number;
}

/** The outcome of a test call. `left_out`: number of rejected items, by reason. `code` and `detail`: the error; null if the source answered. */
export interface TriedSource {
  ok: boolean;
  code: string | null;
  detail: string | null;
  elapsed_ms: number;
  passages: TriedPassage[];
  left_out: Record<string, number>;
}

/** The understanding of a query before retrieval. Every step but ``rules`` needs a language model; without one, or when it is late, the raw query and its own keywords are used. ``expand``: the most sub-queries. */
export interface UnderstandPlan {
  enabled?: boolean;
  router?: "off" | "rules" | "llm";
  rewrite?: boolean;
  keywords?: boolean;
  entities?: boolean;
  expand?: number;
  hyde?: boolean;
  budget_ms?: number;
}

/** The query as it was understood. */
export interface UnderstoodQuery {
  query_text: string;
  namespaces: string[];
  top_k: number;
  filters: Record<string, unknown>;
  method: string;
  channels: string[];
  strategy: string;
  enable_expand: boolean;
  enable_rerank: boolean;
  route: string | null;
  rewritten: string | null;
  keywords: string[];
  entities: string[];
}

/** The cost of embedding. `texts` were sent in `requests` and counted as `tokens` by the embedding service; `cached` texts would have taken about `saved_tokens`. `cost`: at the prices of that time. */
export interface Usage {
  tokens: number;
  requests: number;
  texts: number;
  cached: number;
  saved_tokens: number;
  cost: number;
}

/** The cost of embedding and of the language model in some days, both included. `total` is of all of them, whatever the page. */
export interface UsagePage {
  from: string;
  to: string;
  by: "day" | "job" | "model" | "purpose";
  total: Usage;
  data: UsageRow[];
  next_cursor: string | null;
}

/** The cost in one day, for one job or model, or for one purpose. `key` is empty for work without a job: queries, edits, repairs, calls of the language model. */
export interface UsageRow {
  tokens: number;
  requests: number;
  texts: number;
  cached: number;
  saved_tokens: number;
  cost: number;
  key: string;
}

/** A quota that the request would exceed. */
export interface UsedUp {
  name: "documents" | "chunks" | "queued";
  limit: number;
  used: number;
}

/** A value and the number of documents that have it. */
export interface UsedValue {
  value: string | number | boolean;
  documents: number;
}

/** The most frequent values; `distinct` counts the others too. */
export interface UsedValues {
  values: UsedValue[];
  distinct: number;
}

/** The namespaces to compare, all by default, and whether to repair differences. `delete_share` confirms that a repair may delete up to this share of the tenant's vectors and of its rows of chunks. */
export interface VerifyRequest {
  tenant_id?: string | null;
  namespaces?: string[] | null;
  repair?: boolean;
  delete_share?: number | null;
}

/** An endpoint. `failing_since`: no call has succeeded since then. `disabled_reason`: `failing` for days; `gone`, because it answered 410; or `requested`. */
export interface Webhook {
  webhook_id: string;
  url: string;
  events: string[];
  created_at: string;
  updated_at: string;
  delivered_at: string | null;
  failing_since: string | null;
  disabled_at: string | null;
  disabled_reason: "failing" | "gone" | "requested" | null;
  previous_secret_until: string | null;
}

/** Every endpoint of the tenant. */
export interface WebhookList {
  data: Webhook[];
  next_cursor: null;
}

/** An endpoint for the ends of jobs. `events`: all four ends of a job by default. */
export interface WebhookRequest {
  url: string;
  events?: ("job.succeeded" | "job.partly_failed" | "job.failed" | "job.cancelled" | "job.progress")[] | null;
  tenant_id?: string | null;
}

/** An endpoint and the secret that signs its calls, which is shown this once. */
export interface WebhookWithSecret {
  webhook_id: string;
  url: string;
  events: string[];
  created_at: string;
  updated_at: string;
  delivered_at: string | null;
  failing_since: string | null;
  disabled_at: string | null;
  disabled_reason: "failing" | "gone" | "requested" | null;
  previous_secret_until: string | null;
  secret: string;
}

/** The first stage at which the chunk was lost, and the number that decided it. `replayed`: the query had no trace and was run again to find out. `channels`: its score and rank in each, and the last recalled score. */
export interface WhyNot {
  chunk_id: string;
  document_id: string | null;
  stage: string;
  reason: string;
  detail: string;
  value: number | null;
  limit: number | null;
  channels: Record<string, Record<string, unknown>>;
  replayed: boolean;
}

/** The chunk that was expected. */
export interface WhyNotRequest {
  chunk_id: string;
  tenant_id?: string | null;
}

/** The workers with a heartbeat in the last seconds, by name. `silent`: processes of every role that neither give signs of life nor ended in order, until they are back, dismissed, or forgotten after a week. */
export interface WorkerList {
  data: WorkerState[];
  next_cursor: null;
  silent: SilentProcess[];
}

/** One worker with its latest heartbeat. `running`: up to 16 tasks that it runs, those that run longest first, of `busy` in all; `slots`: how many it can run at a time, 0 if unknown. */
export interface WorkerState {
  name: string;
  host: string;
  pid: number;
  queues: string[];
  version: string;
  celery: string;
  started_at: string;
  last_seen: string;
  running: RunningWork[];
  busy: number;
  slots: number;
}

/** How long the language model may take, in milliseconds. */
export interface WriteRequest {
  deadline_ms?: number;
  tenant_id?: string | null;
}

/** An answer in words. `found`: whether the passages hold an answer; null without a text. `citations`: in order of first mention; each of them is in the query's answer. `dropped_markers`: cited by the model though no passage has them, and removed from the text. `failed`: there is no text, and `degradations` names the reason (`rate_limited`, `writer_unavailable`, `unusable_reply`, `uncited_reply`, `no_passages`). */
export interface WrittenAnswer {
  query_id: string;
  status: "succeeded" | "failed";
  found: boolean | null;
  text: string | null;
  citations: WrittenCitation[];
  dropped_markers: string[];
  model: string;
  latency_ms: number;
  degraded: boolean;
  degradations: Degradation[];
}

/** The passage that `marker` stands for in the text. */
export interface WrittenCitation {
  marker: string;
  chunk_id: string;
  document_id: string;
  namespace: string;
  title: string | null;
  page: number | null;
}

export class Operations extends Transport {
  /** List model migrations: `GET /v1/admin/embedding-migrations` */
  listEmbeddingMigrations(options?: RequestOptions): Promise<EmbeddingMigrationList>;
  /** Start a model migration: `POST /v1/admin/embedding-migrations` */
  createEmbeddingMigration(body: StartRequest, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Get a migration: `GET /v1/admin/embedding-migrations/{number}` */
  getEmbeddingMigration(number: string, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Abort a model migration: `POST /v1/admin/embedding-migrations/{number}/abort` */
  abortEmbeddingMigration(number: string, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Compare both models: `POST /v1/admin/embedding-migrations/{number}/compare` */
  compareEmbeddingMigration(number: string, body: CompareRequest, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Delete the old model's vectors: `POST /v1/admin/embedding-migrations/{number}/finish` */
  finishEmbeddingMigration(number: string, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Switch back to the old model: `POST /v1/admin/embedding-migrations/{number}/rollback` */
  rollbackEmbeddingMigration(number: string, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** Switch to the new model: `POST /v1/admin/embedding-migrations/{number}/switch` */
  switchEmbeddingMigration(number: string, body: SwitchRequest, options?: RequestOptions): Promise<EmbeddingMigration>;
  /** List API sources: `GET /v1/api-sources` */
  listApiSources(options?: RequestOptions): Promise<ApiSourceList>;
  /** Delete an API source: `DELETE /v1/api-sources/{name}` */
  deleteApiSource(name: string, options?: RequestOptions): Promise<void>;
  /** Get an API source: `GET /v1/api-sources/{name}` */
  getApiSource(name: string, options?: RequestOptions): Promise<ApiSourceOut>;
  /** Add or change an API source: `PUT /v1/api-sources/{name}` */
  putApiSource(name: string, body: ApiSourceRequest, options?: RequestOptions): Promise<ApiSourceOut>;
  /** Test an API source: `POST /v1/api-sources/{name}/test` */
  testApiSource(name: string, body: QueryRequest, options?: RequestOptions): Promise<TriedSource>;
  /** List the audit: `GET /v1/audit` */
  listAudit(params?: {
    /** Only this action, such as `search` or `ingest`. */
    action?: string | null;
    /** Only by this key; empty for the installation itself. Reads every row of the span: give `since`. */
    key_id?: string | null;
    /** Only from this moment on, RFC 3339. */
    since?: string | null;
    /** Only before this moment, RFC 3339. */
    until?: string | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<AuditPage>;
  /** Export the audit: `GET /v1/audit/export` */
  exportAudit(params?: {
    /** Only this action, such as `search` or `ingest`. */
    action?: string | null;
    /** Only by this key; empty for the installation itself. Reads every row of the span: give `since`. */
    key_id?: string | null;
    /** Only from this moment on, RFC 3339. */
    since?: string | null;
    /** Only before this moment, RFC 3339. */
    until?: string | null;
  }, options?: RequestOptions): Promise<Response>;
  /** Delete chunks: `DELETE /v1/chunks` */
  deleteChunks(body: ChunksDeleteRequest, options?: RequestOptions): Promise<ChunkResults>;
  /** List chunks: `GET /v1/chunks` */
  listChunks(params: {
    /** The namespace the chunks are in. */
    namespace: string;
    /** Only those of this document. */
    document_id?: string | null;
    /** Only those of documents of this source. */
    source_id?: string | null;
    /** Only those that searches see, or do not see. */
    enabled?: boolean | null;
    /** Only those of this type: parent, child, sentence, qa, segment. */
    chunk_type?: string | null;
    /** Only the children of this parent. */
    parent_id?: string | null;
    /** Only what fits the `filters` of a query: `{"type": "manual"}`, or `type:manual and year > 2020`. */
    filters?: string | null;
    /** `document_id` is by document, parent_id and chunk_index. */
    order_by?: "document_id" | "updated_at" | "-updated_at";
    /** Chunks to leave out; a `cursor` has no such bound. */
    offset?: number;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<OwnedChunkPage>;
  /** Change chunks: `PUT /v1/chunks` */
  putChunks(body: ChunksEditRequest, options?: RequestOptions): Promise<ChunkResults>;
  /** Name chunks by their ids: `POST /v1/chunks/lookup` */
  lookupChunks(body: ChunksLookupRequest, options?: RequestOptions): Promise<ChunkBeginnings>;
  /** Preview chunks: `POST /v1/chunks/preview` */
  previewChunks(body: PreviewRequest | {
    tenant_id?: string | null;
    title?: string | null;
    parser_hint?: string | null;
    charset?: string | null;
    chunking?: ChunkingIn | null;
    file: Blob | NamedFile;
  } | FormData, options?: RequestOptions): Promise<PreviewAnswer>;
  /** List dead letters: `GET /v1/dead-letters` */
  listDeadLetters(params?: {
    /** Only those of this job. */
    job_id?: string | null;
    /** Only those in this namespace. */
    namespace?: string | null;
    /** Only those with this error code. */
    code?: string | null;
    /** Only those that failed for this reason. */
    reason?: "rejected" | "gave_up" | "bug" | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<DeadLetterPage>;
  /** Replay dead letters: `POST /v1/dead-letters/replay` */
  replayDeadLetters(body: ReplayRequest, options?: RequestOptions): Promise<Replayed>;
  /** Delete a dead letter: `DELETE /v1/dead-letters/{letter_id}` */
  deleteDeadLetter(letterId: string, options?: RequestOptions): Promise<void>;
  /** Get a dead letter: `GET /v1/dead-letters/{letter_id}` */
  getDeadLetter(letterId: string, options?: RequestOptions): Promise<DeadLetter>;
  /** Replay a dead letter: `POST /v1/dead-letters/{letter_id}/replay` */
  replayDeadLetter(letterId: string, options?: RequestOptions): Promise<Replayed>;
  /** Forget a dictionary: `DELETE /v1/dictionary` */
  deleteDictionary(params?: {
    /** The namespace it holds for. Without it, the dictionary of all namespaces. */
    namespace?: string | null;
  }, options?: RequestOptions): Promise<void>;
  /** Get a dictionary: `GET /v1/dictionary` */
  getDictionary(params?: {
    /** The namespace it holds for. Without it, the dictionary of all namespaces. */
    namespace?: string | null;
  }, options?: RequestOptions): Promise<DictionaryOut>;
  /** Replace a dictionary: `PUT /v1/dictionary` */
  putDictionary(body: DictionaryIn, params?: {
    /** The namespace it holds for. Without it, the dictionary of all namespaces. */
    namespace?: string | null;
  }, options?: RequestOptions): Promise<DictionaryOut>;
  /** Examine the installation: `GET /v1/doctor` */
  getDoctor(options?: RequestOptions): Promise<Diagnosis>;
  /** Delete several documents: `DELETE /v1/documents` */
  deleteDocuments(body: DocumentsDeleteRequest, options?: RequestOptions): Promise<DocumentsChanged>;
  /** List documents: `GET /v1/documents` */
  listDocuments(params?: {
    /** Only those in this namespace. */
    namespace?: string | null;
    /** Only those whose latest upload is in this state. */
    status?: "queued" | "running" | "succeeded" | "failed" | "cancelled" | null;
    /** Only those of this source. */
    source_id?: string | null;
    /** Only those whose id or title contains this text; case and accents do not count. */
    contains?: string | null;
    /** Only what fits the `filters` of a query: `{"type": "manual"}`, or `type:manual and year > 2020`. */
    filters?: string | null;
    /** Only those with the same bytes as an older document of their namespace. */
    duplicates?: boolean;
    /** `document_id` is by namespace and id, `-updated_at` the newest first. */
    order_by?: "document_id" | "title" | "updated_at" | "-updated_at";
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<DocumentPage>;
  /** Hand in documents: `POST /v1/documents` */
  ingestDocuments(body: DocumentsRequest, options?: RequestOptions): Promise<JobAccepted>;
  /** Change the readers of documents: `PUT /v1/documents/readers` */
  putDocumentsReaders(body: ReadersRequest, options?: RequestOptions): Promise<DocumentsChanged>;
  /** Delete a document: `DELETE /v1/documents/{document_id}` */
  deleteDocument(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<void>;
  /** Get a document: `GET /v1/documents/{document_id}` */
  getDocument(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
    /** Seconds to hold the answer for, unless it is settled sooner. */
    wait?: number;
  }, options?: RequestOptions): Promise<Document>;
  /** List a document's chunks: `GET /v1/documents/{document_id}/chunks` */
  listDocumentChunks(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<ChunkPage>;
  /** List a document's generations: `GET /v1/documents/{document_id}/generations` */
  listDocumentGenerations(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<GenerationList>;
  /** Download a document's original: `GET /v1/documents/{document_id}/original` */
  getDocumentOriginal(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
    /** A generation that is left; by default the searchable one. */
    generation?: number | null;
  }, options?: RequestOptions): Promise<Response>;
  /** Get an image of a page: `GET /v1/documents/{document_id}/pages/{page}` */
  getDocumentPage(documentId: string, page: string, params: {
    /** The namespace the document is in. */
    namespace: string;
    /** The image's width in pixels. */
    width?: number;
  }, options?: RequestOptions): Promise<Response>;
  /** Roll back a document: `POST /v1/documents/{document_id}/rollback` */
  rollbackDocument(documentId: string, body: RollbackRequest, options?: RequestOptions): Promise<JobAccepted>;
  /** List similar documents: `GET /v1/documents/{document_id}/similar` */
  getDocumentSimilar(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<SimilarDocuments>;
  /** Get a document's text: `GET /v1/documents/{document_id}/text` */
  getDocumentText(documentId: string, params: {
    /** The namespace the document is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<DocumentText>;
  /** Delete entities: `DELETE /v1/entities` */
  deleteEntities(body: EntitiesDeleteRequest, options?: RequestOptions): Promise<EntitiesDeleted>;
  /** List entities as of a story time: `GET /v1/entities` */
  listEntities(params: {
    /** The namespace the entities are in. */
    namespace: string;
    /** No state later than this; without it, the latest. */
    as_of?: number | null;
    /** Only entities with this name at that time. */
    name?: string | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<EntityPage>;
  /** Write states of entities: `PUT /v1/entities` */
  putEntities(body: EntitiesRequest, options?: RequestOptions): Promise<EntitiesWritten>;
  /** Submit a book of examples: `POST /v1/examples` */
  importExamples(body: ExamplesRequest | {
    tenant_id?: string | null;
    namespace: string;
    category?: Category | null;
    on_conflict?: "replace" | "skip" | "error" | "new";
    strict?: boolean;
    file: Blob | NamedFile;
  } | FormData, params?: {
    /** Look at the book and store nothing. */
    dry_run?: boolean;
  }, options?: RequestOptions): Promise<ExamplesReport>;
  /** Count the stored examples: `GET /v1/examples/statistics` */
  getExamplesStatistics(params: {
    /** The namespace the examples are in. */
    namespace: string;
  }, options?: RequestOptions): Promise<ExampleStatistics>;
  /** Get the template of a book: `GET /v1/examples/template.xlsx` */
  getExamplesTemplate(options?: RequestOptions): Promise<Response>;
  /** Verify an import: `GET /v1/examples/verification` */
  getExamplesVerification(params: {
    /** The job of the import. */
    job_id: string;
    /** How many rows to name for trying them out. */
    sample?: number;
  }, options?: RequestOptions): Promise<ExamplesVerification>;
  /** List experiments: `GET /v1/experiments` */
  listExperiments(options?: RequestOptions): Promise<ExperimentList>;
  /** Remove an experiment: `DELETE /v1/experiments/{experiment_id}` */
  deleteExperiment(experimentId: string, options?: RequestOptions): Promise<void>;
  /** Get an experiment: `GET /v1/experiments/{experiment_id}` */
  getExperiment(experimentId: string, options?: RequestOptions): Promise<ExperimentShape>;
  /** Store an experiment: `PUT /v1/experiments/{experiment_id}` */
  putExperiment(experimentId: string, body: ExperimentRequest, options?: RequestOptions): Promise<ExperimentShape>;
  /** Get the results of an experiment: `GET /v1/experiments/{experiment_id}/results` */
  listExperimentResults(experimentId: string, options?: RequestOptions): Promise<ExperimentResults>;
  /** List feedback: `GET /v1/feedback` */
  listFeedback(params?: {
    /** RFC 3339: only what was first given then or later. */
    since?: string | null;
    /** Only on hits of this namespace. */
    namespace?: string | null;
    /** Only these. */
    rating?: "good" | "bad" | "click" | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<FeedbackPage>;
  /** List judgments from feedback: `GET /v1/feedback/judgments` */
  listFeedbackJudgments(params: {
    /** The namespace of the judged documents. */
    namespace: string;
    /** Least total weight of the votes: a rating 1, a click 0.5. */
    min_votes?: number;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<JudgmentPage>;
  /** Withdraw a rating: `DELETE /v1/feedback/{feedback_id}` */
  deleteFeedback(feedbackId: string, options?: RequestOptions): Promise<void>;
  /** Hand in files: `POST /v1/files` */
  uploadFiles(body: {
    tenant_id?: string | null;
    namespace: string;
    on_conflict?: "replace" | "skip" | "error" | "new";
    type?: string | null;
    tags?: string[] | null;
    metadata?: Record<string, unknown> | null;
    readers?: string[] | null;
    parser_hint?: string | null;
    charset?: string | null;
    chunking?: ChunkingIn | null;
    priority?: "interactive" | "bulk" | null;
    file: (Blob | NamedFile)[];
  } | FormData, options?: RequestOptions): Promise<JobAccepted>;
  /** Find documents, failures and jobs: `GET /v1/find` */
  getFind(params: {
    /** Part of a title, an id or a source; the beginning of a job's id. */
    text: string;
    /** Only in this namespace. */
    namespace?: string | null;
    /** Matches of each kind at most. */
    limit?: number;
  }, options?: RequestOptions): Promise<FoundMatches>;
  /** List jobs: `GET /v1/jobs` */
  listJobs(params?: {
    /** Only jobs in this state; may be repeated, for one of several. */
    status?: ("queued" | "running" | "succeeded" | "partly_failed" | "failed" | "cancelled")[] | null;
    /** Only jobs in this namespace. */
    namespace?: string | null;
    /** Only those created from this moment on, RFC 3339. */
    since?: string | null;
    /** Only those created before this moment, RFC 3339. */
    until?: string | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<JobPage>;
  /** Get a job, or wait for it: `GET /v1/jobs/{job_id}` */
  getJob(jobId: string, params?: {
    /** Seconds to hold the answer for, unless the job ends sooner. */
    wait?: number;
  }, options?: RequestOptions): Promise<Job>;
  /** Cancel a job: `POST /v1/jobs/{job_id}/cancel` */
  cancelJob(jobId: string, options?: RequestOptions): Promise<Job>;
  /** Follow a job: `GET /v1/jobs/{job_id}/events` */
  followJob(jobId: string, options?: RequestOptions): AsyncGenerator<ServerEvent>;
  /** List a job's documents: `GET /v1/jobs/{job_id}/items` */
  listJobItems(jobId: string, params?: {
    /** Only items in this state. */
    status?: "queued" | "running" | "succeeded" | "failed" | "cancelled" | null;
    /** Only items whose document has the same bytes as an older one. */
    duplicates?: boolean;
    /** Only items with an `encoding_warning` or a `pages_warning`. */
    warned?: boolean;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<ItemPage>;
  /** Pause a job: `POST /v1/jobs/{job_id}/pause` */
  pauseJob(jobId: string, options?: RequestOptions): Promise<Job>;
  /** Resume a job: `POST /v1/jobs/{job_id}/resume` */
  resumeJob(jobId: string, options?: RequestOptions): Promise<Job>;
  /** Retry failed documents: `POST /v1/jobs/{job_id}/retry` */
  retryJob(jobId: string, options?: RequestOptions): Promise<Job>;
  /** List API keys: `GET /v1/keys` */
  listKeys(params?: {
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<KeyPage>;
  /** Create an API key: `POST /v1/keys` */
  createKey(body: KeyRequest, options?: RequestOptions): Promise<KeyWithSecret>;
  /** Get the key in use: `GET /v1/keys/current` */
  getCurrentKey(options?: RequestOptions): Promise<CurrentKey>;
  /** Revoke an API key: `DELETE /v1/keys/{key_id}` */
  deleteKey(keyId: string, options?: RequestOptions): Promise<void>;
  /** Get an API key: `GET /v1/keys/{key_id}` */
  getKey(keyId: string, options?: RequestOptions): Promise<Key>;
  /** Rotate an API key: `POST /v1/keys/{key_id}/rotate` */
  rotateKey(keyId: string, body: KeyRotateRequest, options?: RequestOptions): Promise<KeyWithSecret>;
  /** Metrics: `GET /v1/metrics` */
  getMetrics(params?: {
    /** Only the series of these names; all without it. */
    "name[]"?: string[] | null;
  }, options?: RequestOptions): Promise<Response>;
  /** Metrics over time: `GET /v1/metrics/history` */
  getMetricsHistory(params?: {
    /** The time up to now. */
    range?: "1h" | "24h" | "7d";
  }, options?: RequestOptions): Promise<HistoryPage>;
  /** List namespaces: `GET /v1/namespaces` */
  listNamespaces(params?: {
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
    /** Only those that hold examples of the library. */
    examples?: boolean;
    /** Only those with this text in their name, in any case. */
    contains?: string | null;
    /** Also the `bytes` of their documents, which takes longer with many documents. */
    sizes?: boolean;
  }, options?: RequestOptions): Promise<NamespacePage>;
  /** Delete a namespace: `DELETE /v1/namespaces/{namespace}` */
  deleteNamespace(namespace: string, options?: RequestOptions): Promise<NamespaceDeleted>;
  /** Export a namespace, part by part: `GET /v1/namespaces/{namespace}/export` */
  exportNamespace(namespace: string, params?: {
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
    /** Documents in this part at most. */
    limit?: number;
  }, options?: RequestOptions): Promise<Response>;
  /** List the values to filter by: `GET /v1/namespaces/{namespace}/fields` */
  getNamespaceFields(namespace: string, options?: RequestOptions): Promise<NamespaceFields>;
  /** Forget an import: `DELETE /v1/namespaces/{namespace}/imports/{import_id}` */
  deleteNamespaceImport(namespace: string, importId: string, options?: RequestOptions): Promise<void>;
  /** List the parts of an import: `GET /v1/namespaces/{namespace}/imports/{import_id}` */
  getNamespaceImport(namespace: string, importId: string, options?: RequestOptions): Promise<Import>;
  /** Import a part of an archive: `PUT /v1/namespaces/{namespace}/imports/{import_id}/parts/{part}` */
  putNamespaceImportPart(namespace: string, importId: string, part: string, body: Blob | Uint8Array | ArrayBuffer, params?: {
    /** The action for a document that exists already. */
    on_conflict?: "replace" | "skip" | "error" | "new";
  }, options?: RequestOptions): Promise<PartAnswer>;
  /** List profiles: `GET /v1/profiles` */
  listProfiles(options?: RequestOptions): Promise<ProfileList>;
  /** Remove a profile: `DELETE /v1/profiles/{name}` */
  deleteProfile(name: string, options?: RequestOptions): Promise<void>;
  /** Get a profile: `GET /v1/profiles/{name}` */
  getProfile(name: string, options?: RequestOptions): Promise<ProfileDetail>;
  /** Store a new version of a profile: `PUT /v1/profiles/{name}` */
  putProfile(name: string, body: ProfileRequest, options?: RequestOptions): Promise<ProfileDetail>;
  /** Activate or try a version: `POST /v1/profiles/{name}/activate` */
  activateProfile(name: string, body: ActivateRequest, options?: RequestOptions): Promise<ProfileShape>;
  /** Roll back a profile: `POST /v1/profiles/{name}/rollback` */
  rollbackProfile(name: string, options?: RequestOptions): Promise<ProfileShape>;
  /** List the versions of a profile: `GET /v1/profiles/{name}/versions` */
  listProfileVersions(name: string, options?: RequestOptions): Promise<ProfileVersionList>;
  /** Submit a query: `POST /v1/queries` */
  query(body: QueryRequest, options?: RequestOptions): Promise<Answer | QueryAccepted>;
  /** Cancel or delete a query: `DELETE /v1/queries/{query_id}` */
  deleteQuery(queryId: string, options?: RequestOptions): Promise<void>;
  /** Get a query: `GET /v1/queries/{query_id}` */
  getQuery(queryId: string, params?: {
    wait?: number | null;
  }, options?: RequestOptions): Promise<Answer>;
  /** Write an answer from the hits: `POST /v1/queries/{query_id}/answer` */
  answerQuery(queryId: string, body: WriteRequest, options?: RequestOptions): Promise<WrittenAnswer>;
  /** Write an answer from the hits, as events: `POST /v1/queries/{query_id}/answer` */
  streamAnswerQuery(queryId: string, body: WriteRequest, options?: RequestOptions): AsyncGenerator<ServerEvent>;
  /** Follow a query: `GET /v1/queries/{query_id}/events` */
  followQuery(queryId: string, options?: RequestOptions): AsyncGenerator<ServerEvent>;
  /** Rate a hit: `POST /v1/queries/{query_id}/feedback` */
  giveFeedback(queryId: string, body: FeedbackRequest, options?: RequestOptions): Promise<FeedbackShape>;
  /** Replay a query with other settings: `POST /v1/queries/{query_id}/replay` */
  replayQuery(queryId: string, body: QueryReplayRequest, options?: RequestOptions): Promise<Replay>;
  /** Get the trace of a query: `GET /v1/queries/{query_id}/trace` */
  getQueryTrace(queryId: string, options?: RequestOptions): Promise<Trace>;
  /** Explain a missing chunk: `POST /v1/queries/{query_id}/why-not` */
  whyNot(queryId: string, body: WhyNotRequest, options?: RequestOptions): Promise<WhyNot>;
  /** Submit many queries: `POST /v1/query-batches` */
  createQueryBatch(body: QueryBatchRequest | Blob | Uint8Array | ArrayBuffer, params?: {
    /** With a body of JSON lines: fields for queries that leave them out, as in `{"namespaces": ["kb"]}`. */
    defaults?: string | null;
  }, options?: RequestOptions): Promise<JobAccepted>;
  /** Delete a batch of queries: `DELETE /v1/query-batches/{batch_id}` */
  deleteQueryBatch(batchId: string, options?: RequestOptions): Promise<void>;
  /** Get a batch of queries, or wait for it: `GET /v1/query-batches/{batch_id}` */
  getQueryBatch(batchId: string, params?: {
    /** Seconds to hold the answer for, unless the job ends sooner. */
    wait?: number;
  }, options?: RequestOptions): Promise<Job>;
  /** Cancel a batch of queries: `POST /v1/query-batches/{batch_id}/cancel` */
  cancelQueryBatch(batchId: string, options?: RequestOptions): Promise<Job>;
  /** Read the results of a batch: `GET /v1/query-batches/{batch_id}/results` */
  getQueryBatchResults(batchId: string, params?: {
    /** Only those after this `index`: that of the last one read. */
    after?: number;
    /** Lines at most. */
    limit?: number;
    /** Seconds to hold the answer for, unless it is settled sooner. */
    wait?: number;
  }, options?: RequestOptions): Promise<Response>;
  /** Get the quotas: `GET /v1/quotas` */
  getQuotas(options?: RequestOptions): Promise<QuotaUse>;
  /** Query with a trace: `POST /v1/rag/debug` */
  ragDebug(body: QueryRequest, options?: RequestOptions): Promise<Debugged>;
  /** Submit a query and wait for the answer: `POST /v1/rag/query` */
  ragQuery(body: QueryRequest, options?: RequestOptions): Promise<Answer | QueryAccepted>;
  /** List sources: `GET /v1/sources` */
  listSources(params: {
    /** The namespace the source is in. */
    namespace: string;
    /** Only those of this kind. */
    kind?: SourceKind | null;
    /** Only those that are followed, or that are not. */
    followed?: boolean | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<SourcePage>;
  /** Follow a source: `POST /v1/sources` */
  createSource(body: SourceRequest, options?: RequestOptions): Promise<SourceInfo>;
  /** Delete a source: `DELETE /v1/sources/{source_id}` */
  deleteSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
    /** Follow it no longer, and leave its documents. */
    keep_documents?: boolean;
  }, options?: RequestOptions): Promise<SourceDeleted>;
  /** Get a source: `GET /v1/sources/{source_id}` */
  getSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<SourceInfo>;
  /** Confirm removals: `POST /v1/sources/{source_id}/confirm` */
  confirmSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<JobAccepted>;
  /** Pause a source: `POST /v1/sources/{source_id}/pause` */
  pauseSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<SourceInfo>;
  /** Resume a source: `POST /v1/sources/{source_id}/resume` */
  resumeSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<SourceInfo>;
  /** Run a source now: `POST /v1/sources/{source_id}/run` */
  runSource(sourceId: string, params: {
    /** The namespace the source is in. */
    namespace: string;
  }, options?: RequestOptions): Promise<JobAccepted>;
  /** List tenants: `GET /v1/tenants` */
  listTenants(params?: {
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<TenantPage>;
  /** Make a tenant: `POST /v1/tenants` */
  createTenant(body: TenantRequest, options?: RequestOptions): Promise<TenantView>;
  /** Erase a tenant: `DELETE /v1/tenants/{tenant_id}` */
  deleteTenant(tenantId: string, options?: RequestOptions): Promise<TenantErased>;
  /** Get a tenant: `GET /v1/tenants/{tenant_id}` */
  getTenant(tenantId: string, options?: RequestOptions): Promise<TenantView>;
  /** Disable a tenant: `POST /v1/tenants/{tenant_id}/disable` */
  disableTenant(tenantId: string, options?: RequestOptions): Promise<TenantView>;
  /** Enable a tenant: `POST /v1/tenants/{tenant_id}/enable` */
  enableTenant(tenantId: string, options?: RequestOptions): Promise<TenantView>;
  /** List a tenant's API keys: `GET /v1/tenants/{tenant_id}/keys` */
  listTenantKeys(tenantId: string, params?: {
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<KeyPage>;
  /** Create an API key for a tenant: `POST /v1/tenants/{tenant_id}/keys` */
  createTenantKey(tenantId: string, body: KeyRequest, options?: RequestOptions): Promise<KeyWithSecret>;
  /** Revoke an API key of a tenant: `DELETE /v1/tenants/{tenant_id}/keys/{key_id}` */
  deleteTenantKey(tenantId: string, keyId: string, options?: RequestOptions): Promise<void>;
  /** Get an API key of a tenant: `GET /v1/tenants/{tenant_id}/keys/{key_id}` */
  getTenantKey(tenantId: string, keyId: string, options?: RequestOptions): Promise<Key>;
  /** Rotate an API key of a tenant: `POST /v1/tenants/{tenant_id}/keys/{key_id}/rotate` */
  rotateTenantKey(tenantId: string, keyId: string, body: KeyRotateRequest, options?: RequestOptions): Promise<KeyWithSecret>;
  /** Get a tenant's own quotas: `GET /v1/tenants/{tenant_id}/quotas` */
  getTenantQuotas(tenantId: string, options?: RequestOptions): Promise<OwnQuotasView>;
  /** Set a tenant's own quotas: `PUT /v1/tenants/{tenant_id}/quotas` */
  putTenantQuotas(tenantId: string, body: QuotasIn, options?: RequestOptions): Promise<OwnQuotasView>;
  /** Get a tenant's use of its quotas: `GET /v1/tenants/{tenant_id}/quotas/use` */
  getTenantQuotasUse(tenantId: string, options?: RequestOptions): Promise<QuotaUse>;
  /** List kept traces: `GET /v1/traces` */
  listTraces(params?: {
    /** Only traces kept for this reason. */
    mark?: "slow" | "degraded" | "failed" | "empty" | "requested" | "sampled" | null;
    /** Only queries to this namespace. */
    namespace?: string | null;
    /** Only queries with this profile. */
    profile?: string | null;
    /** Only from this moment on, RFC 3339. */
    since?: string | null;
    /** Only before this moment, RFC 3339. */
    until?: string | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<TracePage>;
  /** Get the cost of models: `GET /v1/usage` */
  getUsage(params?: {
    /** The first day, UTC. Without it, the first of the month of `to`. */
    from?: string | null;
    /** The last day, UTC. Without it, today. */
    to?: string | null;
    /** The field that rows are grouped by. */
    by?: "day" | "job" | "model" | "purpose";
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<UsagePage>;
  /** Compare both stores: `POST /v1/verify` */
  verify(body: VerifyRequest, options?: RequestOptions): Promise<Alignment>;
  /** List webhooks: `GET /v1/webhooks` */
  listWebhooks(options?: RequestOptions): Promise<WebhookList>;
  /** Add a webhook: `POST /v1/webhooks` */
  createWebhook(body: WebhookRequest, options?: RequestOptions): Promise<WebhookWithSecret>;
  /** Remove a webhook: `DELETE /v1/webhooks/{webhook_id}` */
  deleteWebhook(webhookId: string, options?: RequestOptions): Promise<void>;
  /** Get a webhook: `GET /v1/webhooks/{webhook_id}` */
  getWebhook(webhookId: string, options?: RequestOptions): Promise<Webhook>;
  /** List deliveries: `GET /v1/webhooks/{webhook_id}/deliveries` */
  listWebhookDeliveries(webhookId: string, params?: {
    /** Only those in this state. */
    state?: "pending" | "delivered" | "dead" | null;
    /** Entries per page. */
    limit?: number;
    /** `next_cursor` of the previous page. */
    cursor?: string | null;
  }, options?: RequestOptions): Promise<DeliveryPage>;
  /** Get a delivery: `GET /v1/webhooks/{webhook_id}/deliveries/{delivery_id}` */
  getWebhookDelivery(webhookId: string, deliveryId: string, params?: {
    /** Seconds to hold the answer for, unless it is settled sooner. */
    wait?: number;
  }, options?: RequestOptions): Promise<Delivery>;
  /** Resend a delivery: `POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver` */
  redeliverWebhookDelivery(webhookId: string, deliveryId: string, options?: RequestOptions): Promise<DeliveryQueued>;
  /** Disable a webhook: `POST /v1/webhooks/{webhook_id}/disable` */
  disableWebhook(webhookId: string, options?: RequestOptions): Promise<Webhook>;
  /** Enable a webhook again: `POST /v1/webhooks/{webhook_id}/enable` */
  enableWebhook(webhookId: string, options?: RequestOptions): Promise<Webhook>;
  /** Change the secret: `POST /v1/webhooks/{webhook_id}/rotate` */
  rotateWebhook(webhookId: string, body: RotateRequest, options?: RequestOptions): Promise<WebhookWithSecret>;
  /** Send a test message: `POST /v1/webhooks/{webhook_id}/test` */
  testWebhook(webhookId: string, options?: RequestOptions): Promise<DeliveryQueued>;
  /** List the workers: `GET /v1/workers` */
  listWorkers(options?: RequestOptions): Promise<WorkerList>;
  /** Dismiss a silent process: `DELETE /v1/workers/{host}/{name}` */
  deleteWorker(host: string, name: string, options?: RequestOptions): Promise<void>;
}
