// Written by `make client-js` from the OpenAPI description. Do not edit.
import { Transport } from "./transport.js";

const of = encodeURIComponent;

export class Operations extends Transport {
  listEmbeddingMigrations(options) {
    return this.request("GET", "/v1/admin/embedding-migrations", {}, options);
  }
  createEmbeddingMigration(body, options) {
    return this.request("POST", "/v1/admin/embedding-migrations", { body, keyed: true }, options);
  }
  getEmbeddingMigration(number, options) {
    return this.request("GET", `/v1/admin/embedding-migrations/${of(number)}`, {}, options);
  }
  abortEmbeddingMigration(number, options) {
    return this.request("POST", `/v1/admin/embedding-migrations/${of(number)}/abort`, { keyed: true }, options);
  }
  compareEmbeddingMigration(number, body, options) {
    return this.request("POST", `/v1/admin/embedding-migrations/${of(number)}/compare`, { body, keyed: true }, options);
  }
  finishEmbeddingMigration(number, options) {
    return this.request("POST", `/v1/admin/embedding-migrations/${of(number)}/finish`, { keyed: true }, options);
  }
  rollbackEmbeddingMigration(number, options) {
    return this.request("POST", `/v1/admin/embedding-migrations/${of(number)}/rollback`, { keyed: true }, options);
  }
  switchEmbeddingMigration(number, body, options) {
    return this.request("POST", `/v1/admin/embedding-migrations/${of(number)}/switch`, { body, keyed: true }, options);
  }
  listApiSources(options) {
    return this.request("GET", "/v1/api-sources", {}, options);
  }
  deleteApiSource(name, options) {
    return this.request("DELETE", `/v1/api-sources/${of(name)}`, { answer: "none" }, options);
  }
  getApiSource(name, options) {
    return this.request("GET", `/v1/api-sources/${of(name)}`, {}, options);
  }
  putApiSource(name, body, options) {
    return this.request("PUT", `/v1/api-sources/${of(name)}`, { body }, options);
  }
  testApiSource(name, body, options) {
    return this.request("POST", `/v1/api-sources/${of(name)}/test`, { body, keyed: true }, options);
  }
  listAudit(params, options) {
    return this.request("GET", "/v1/audit", { params }, options);
  }
  exportAudit(params, options) {
    return this.request("GET", "/v1/audit/export", { params, answer: "response" }, options);
  }
  deleteChunks(body, options) {
    return this.request("DELETE", "/v1/chunks", { body }, options);
  }
  listChunks(params, options) {
    return this.request("GET", "/v1/chunks", { params }, options);
  }
  putChunks(body, options) {
    return this.request("PUT", "/v1/chunks", { body }, options);
  }
  lookupChunks(body, options) {
    return this.request("POST", "/v1/chunks/lookup", { body, keyed: true }, options);
  }
  previewChunks(body, options) {
    return this.request("POST", "/v1/chunks/preview", { body, keyed: true }, options);
  }
  listDeadLetters(params, options) {
    return this.request("GET", "/v1/dead-letters", { params }, options);
  }
  replayDeadLetters(body, options) {
    return this.request("POST", "/v1/dead-letters/replay", { body, keyed: true }, options);
  }
  deleteDeadLetter(letterId, options) {
    return this.request("DELETE", `/v1/dead-letters/${of(letterId)}`, { answer: "none" }, options);
  }
  getDeadLetter(letterId, options) {
    return this.request("GET", `/v1/dead-letters/${of(letterId)}`, {}, options);
  }
  replayDeadLetter(letterId, options) {
    return this.request("POST", `/v1/dead-letters/${of(letterId)}/replay`, { keyed: true }, options);
  }
  deleteDictionary(params, options) {
    return this.request("DELETE", "/v1/dictionary", { params, answer: "none" }, options);
  }
  getDictionary(params, options) {
    return this.request("GET", "/v1/dictionary", { params }, options);
  }
  putDictionary(body, params, options) {
    return this.request("PUT", "/v1/dictionary", { body, params }, options);
  }
  getDoctor(options) {
    return this.request("GET", "/v1/doctor", {}, options);
  }
  deleteDocuments(body, options) {
    return this.request("DELETE", "/v1/documents", { body }, options);
  }
  listDocuments(params, options) {
    return this.request("GET", "/v1/documents", { params }, options);
  }
  ingestDocuments(body, options) {
    return this.request("POST", "/v1/documents", { body, keyed: true }, options);
  }
  putDocumentsReaders(body, options) {
    return this.request("PUT", "/v1/documents/readers", { body }, options);
  }
  deleteDocument(documentId, params, options) {
    return this.request("DELETE", `/v1/documents/${of(documentId)}`, { params, answer: "none" }, options);
  }
  getDocument(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}`, { params }, options);
  }
  listDocumentChunks(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/chunks`, { params }, options);
  }
  listDocumentGenerations(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/generations`, { params }, options);
  }
  getDocumentOriginal(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/original`, { params, answer: "response" }, options);
  }
  getDocumentPage(documentId, page, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/pages/${of(page)}`, { params, answer: "response" }, options);
  }
  rollbackDocument(documentId, body, options) {
    return this.request("POST", `/v1/documents/${of(documentId)}/rollback`, { body, keyed: true }, options);
  }
  getDocumentSimilar(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/similar`, { params }, options);
  }
  getDocumentText(documentId, params, options) {
    return this.request("GET", `/v1/documents/${of(documentId)}/text`, { params }, options);
  }
  deleteEntities(body, options) {
    return this.request("DELETE", "/v1/entities", { body }, options);
  }
  listEntities(params, options) {
    return this.request("GET", "/v1/entities", { params }, options);
  }
  putEntities(body, options) {
    return this.request("PUT", "/v1/entities", { body }, options);
  }
  importExamples(body, params, options) {
    return this.request("POST", "/v1/examples", { body, params, keyed: true }, options);
  }
  getExamplesStatistics(params, options) {
    return this.request("GET", "/v1/examples/statistics", { params }, options);
  }
  getExamplesTemplate(options) {
    return this.request("GET", "/v1/examples/template.xlsx", { answer: "response" }, options);
  }
  getExamplesVerification(params, options) {
    return this.request("GET", "/v1/examples/verification", { params }, options);
  }
  listExperiments(options) {
    return this.request("GET", "/v1/experiments", {}, options);
  }
  deleteExperiment(experimentId, options) {
    return this.request("DELETE", `/v1/experiments/${of(experimentId)}`, { answer: "none" }, options);
  }
  getExperiment(experimentId, options) {
    return this.request("GET", `/v1/experiments/${of(experimentId)}`, {}, options);
  }
  putExperiment(experimentId, body, options) {
    return this.request("PUT", `/v1/experiments/${of(experimentId)}`, { body }, options);
  }
  listExperimentResults(experimentId, options) {
    return this.request("GET", `/v1/experiments/${of(experimentId)}/results`, {}, options);
  }
  listFeedback(params, options) {
    return this.request("GET", "/v1/feedback", { params }, options);
  }
  listFeedbackJudgments(params, options) {
    return this.request("GET", "/v1/feedback/judgments", { params }, options);
  }
  deleteFeedback(feedbackId, options) {
    return this.request("DELETE", `/v1/feedback/${of(feedbackId)}`, { answer: "none" }, options);
  }
  uploadFiles(body, options) {
    return this.request("POST", "/v1/files", { body, bodyType: "multipart/form-data", keyed: true }, options);
  }
  getFind(params, options) {
    return this.request("GET", "/v1/find", { params }, options);
  }
  listJobs(params, options) {
    return this.request("GET", "/v1/jobs", { params }, options);
  }
  getJob(jobId, params, options) {
    return this.request("GET", `/v1/jobs/${of(jobId)}`, { params }, options);
  }
  cancelJob(jobId, options) {
    return this.request("POST", `/v1/jobs/${of(jobId)}/cancel`, { keyed: true }, options);
  }
  followJob(jobId, options) {
    return this.follow("GET", `/v1/jobs/${of(jobId)}/events`, { answer: "events" }, options);
  }
  listJobItems(jobId, params, options) {
    return this.request("GET", `/v1/jobs/${of(jobId)}/items`, { params }, options);
  }
  pauseJob(jobId, options) {
    return this.request("POST", `/v1/jobs/${of(jobId)}/pause`, { keyed: true }, options);
  }
  resumeJob(jobId, options) {
    return this.request("POST", `/v1/jobs/${of(jobId)}/resume`, { keyed: true }, options);
  }
  retryJob(jobId, options) {
    return this.request("POST", `/v1/jobs/${of(jobId)}/retry`, { keyed: true }, options);
  }
  listKeys(params, options) {
    return this.request("GET", "/v1/keys", { params }, options);
  }
  createKey(body, options) {
    return this.request("POST", "/v1/keys", { body, keyed: true }, options);
  }
  getCurrentKey(options) {
    return this.request("GET", "/v1/keys/current", {}, options);
  }
  deleteKey(keyId, options) {
    return this.request("DELETE", `/v1/keys/${of(keyId)}`, { answer: "none" }, options);
  }
  getKey(keyId, options) {
    return this.request("GET", `/v1/keys/${of(keyId)}`, {}, options);
  }
  rotateKey(keyId, body, options) {
    return this.request("POST", `/v1/keys/${of(keyId)}/rotate`, { body, keyed: true }, options);
  }
  getMetrics(params, options) {
    return this.request("GET", "/v1/metrics", { params, answer: "response" }, options);
  }
  getMetricsHistory(params, options) {
    return this.request("GET", "/v1/metrics/history", { params }, options);
  }
  listNamespaces(params, options) {
    return this.request("GET", "/v1/namespaces", { params }, options);
  }
  deleteNamespace(namespace, options) {
    return this.request("DELETE", `/v1/namespaces/${of(namespace)}`, {}, options);
  }
  exportNamespace(namespace, params, options) {
    return this.request("GET", `/v1/namespaces/${of(namespace)}/export`, { params, answer: "response" }, options);
  }
  getNamespaceFields(namespace, options) {
    return this.request("GET", `/v1/namespaces/${of(namespace)}/fields`, {}, options);
  }
  deleteNamespaceImport(namespace, importId, options) {
    return this.request("DELETE", `/v1/namespaces/${of(namespace)}/imports/${of(importId)}`, { answer: "none" }, options);
  }
  getNamespaceImport(namespace, importId, options) {
    return this.request("GET", `/v1/namespaces/${of(namespace)}/imports/${of(importId)}`, {}, options);
  }
  putNamespaceImportPart(namespace, importId, part, body, params, options) {
    return this.request("PUT", `/v1/namespaces/${of(namespace)}/imports/${of(importId)}/parts/${of(part)}`, { body, bodyType: "application/vnd.chordwise.part", params }, options);
  }
  listProfiles(options) {
    return this.request("GET", "/v1/profiles", {}, options);
  }
  deleteProfile(name, options) {
    return this.request("DELETE", `/v1/profiles/${of(name)}`, { answer: "none" }, options);
  }
  getProfile(name, options) {
    return this.request("GET", `/v1/profiles/${of(name)}`, {}, options);
  }
  putProfile(name, body, options) {
    return this.request("PUT", `/v1/profiles/${of(name)}`, { body }, options);
  }
  activateProfile(name, body, options) {
    return this.request("POST", `/v1/profiles/${of(name)}/activate`, { body, keyed: true }, options);
  }
  rollbackProfile(name, options) {
    return this.request("POST", `/v1/profiles/${of(name)}/rollback`, { keyed: true }, options);
  }
  listProfileVersions(name, options) {
    return this.request("GET", `/v1/profiles/${of(name)}/versions`, {}, options);
  }
  query(body, options) {
    return this.request("POST", "/v1/queries", { body, keyed: true }, options);
  }
  deleteQuery(queryId, options) {
    return this.request("DELETE", `/v1/queries/${of(queryId)}`, { answer: "none" }, options);
  }
  getQuery(queryId, params, options) {
    return this.request("GET", `/v1/queries/${of(queryId)}`, { params }, options);
  }
  answerQuery(queryId, body, options) {
    return this.request("POST", `/v1/queries/${of(queryId)}/answer`, { body, keyed: true }, options);
  }
  streamAnswerQuery(queryId, body, options) {
    return this.follow("POST", `/v1/queries/${of(queryId)}/answer`, { body, once: true }, options);
  }
  followQuery(queryId, options) {
    return this.follow("GET", `/v1/queries/${of(queryId)}/events`, { answer: "events" }, options);
  }
  giveFeedback(queryId, body, options) {
    return this.request("POST", `/v1/queries/${of(queryId)}/feedback`, { body, keyed: true }, options);
  }
  replayQuery(queryId, body, options) {
    return this.request("POST", `/v1/queries/${of(queryId)}/replay`, { body, keyed: true }, options);
  }
  getQueryTrace(queryId, options) {
    return this.request("GET", `/v1/queries/${of(queryId)}/trace`, {}, options);
  }
  whyNot(queryId, body, options) {
    return this.request("POST", `/v1/queries/${of(queryId)}/why-not`, { body, keyed: true }, options);
  }
  createQueryBatch(body, params, options) {
    return this.request("POST", "/v1/query-batches", { body, params, keyed: true }, options);
  }
  deleteQueryBatch(batchId, options) {
    return this.request("DELETE", `/v1/query-batches/${of(batchId)}`, { answer: "none" }, options);
  }
  getQueryBatch(batchId, params, options) {
    return this.request("GET", `/v1/query-batches/${of(batchId)}`, { params }, options);
  }
  cancelQueryBatch(batchId, options) {
    return this.request("POST", `/v1/query-batches/${of(batchId)}/cancel`, { keyed: true }, options);
  }
  getQueryBatchResults(batchId, params, options) {
    return this.request("GET", `/v1/query-batches/${of(batchId)}/results`, { params, answer: "response" }, options);
  }
  getQuotas(options) {
    return this.request("GET", "/v1/quotas", {}, options);
  }
  ragDebug(body, options) {
    return this.request("POST", "/v1/rag/debug", { body, keyed: true }, options);
  }
  ragQuery(body, options) {
    return this.request("POST", "/v1/rag/query", { body, keyed: true }, options);
  }
  listSources(params, options) {
    return this.request("GET", "/v1/sources", { params }, options);
  }
  createSource(body, options) {
    return this.request("POST", "/v1/sources", { body, keyed: true }, options);
  }
  deleteSource(sourceId, params, options) {
    return this.request("DELETE", `/v1/sources/${of(sourceId)}`, { params }, options);
  }
  getSource(sourceId, params, options) {
    return this.request("GET", `/v1/sources/${of(sourceId)}`, { params }, options);
  }
  confirmSource(sourceId, params, options) {
    return this.request("POST", `/v1/sources/${of(sourceId)}/confirm`, { params, keyed: true }, options);
  }
  pauseSource(sourceId, params, options) {
    return this.request("POST", `/v1/sources/${of(sourceId)}/pause`, { params, keyed: true }, options);
  }
  resumeSource(sourceId, params, options) {
    return this.request("POST", `/v1/sources/${of(sourceId)}/resume`, { params, keyed: true }, options);
  }
  runSource(sourceId, params, options) {
    return this.request("POST", `/v1/sources/${of(sourceId)}/run`, { params, keyed: true }, options);
  }
  listTenants(params, options) {
    return this.request("GET", "/v1/tenants", { params }, options);
  }
  createTenant(body, options) {
    return this.request("POST", "/v1/tenants", { body, keyed: true }, options);
  }
  deleteTenant(tenantId, options) {
    return this.request("DELETE", `/v1/tenants/${of(tenantId)}`, {}, options);
  }
  getTenant(tenantId, options) {
    return this.request("GET", `/v1/tenants/${of(tenantId)}`, {}, options);
  }
  disableTenant(tenantId, options) {
    return this.request("POST", `/v1/tenants/${of(tenantId)}/disable`, { keyed: true }, options);
  }
  enableTenant(tenantId, options) {
    return this.request("POST", `/v1/tenants/${of(tenantId)}/enable`, { keyed: true }, options);
  }
  listTenantKeys(tenantId, params, options) {
    return this.request("GET", `/v1/tenants/${of(tenantId)}/keys`, { params }, options);
  }
  createTenantKey(tenantId, body, options) {
    return this.request("POST", `/v1/tenants/${of(tenantId)}/keys`, { body, keyed: true }, options);
  }
  deleteTenantKey(tenantId, keyId, options) {
    return this.request("DELETE", `/v1/tenants/${of(tenantId)}/keys/${of(keyId)}`, { answer: "none" }, options);
  }
  getTenantKey(tenantId, keyId, options) {
    return this.request("GET", `/v1/tenants/${of(tenantId)}/keys/${of(keyId)}`, {}, options);
  }
  rotateTenantKey(tenantId, keyId, body, options) {
    return this.request("POST", `/v1/tenants/${of(tenantId)}/keys/${of(keyId)}/rotate`, { body, keyed: true }, options);
  }
  getTenantQuotas(tenantId, options) {
    return this.request("GET", `/v1/tenants/${of(tenantId)}/quotas`, {}, options);
  }
  putTenantQuotas(tenantId, body, options) {
    return this.request("PUT", `/v1/tenants/${of(tenantId)}/quotas`, { body }, options);
  }
  getTenantQuotasUse(tenantId, options) {
    return this.request("GET", `/v1/tenants/${of(tenantId)}/quotas/use`, {}, options);
  }
  listTraces(params, options) {
    return this.request("GET", "/v1/traces", { params }, options);
  }
  getUsage(params, options) {
    return this.request("GET", "/v1/usage", { params }, options);
  }
  verify(body, options) {
    return this.request("POST", "/v1/verify", { body, keyed: true }, options);
  }
  listWebhooks(options) {
    return this.request("GET", "/v1/webhooks", {}, options);
  }
  createWebhook(body, options) {
    return this.request("POST", "/v1/webhooks", { body, keyed: true }, options);
  }
  deleteWebhook(webhookId, options) {
    return this.request("DELETE", `/v1/webhooks/${of(webhookId)}`, { answer: "none" }, options);
  }
  getWebhook(webhookId, options) {
    return this.request("GET", `/v1/webhooks/${of(webhookId)}`, {}, options);
  }
  listWebhookDeliveries(webhookId, params, options) {
    return this.request("GET", `/v1/webhooks/${of(webhookId)}/deliveries`, { params }, options);
  }
  getWebhookDelivery(webhookId, deliveryId, params, options) {
    return this.request("GET", `/v1/webhooks/${of(webhookId)}/deliveries/${of(deliveryId)}`, { params }, options);
  }
  redeliverWebhookDelivery(webhookId, deliveryId, options) {
    return this.request("POST", `/v1/webhooks/${of(webhookId)}/deliveries/${of(deliveryId)}/redeliver`, { keyed: true }, options);
  }
  disableWebhook(webhookId, options) {
    return this.request("POST", `/v1/webhooks/${of(webhookId)}/disable`, { keyed: true }, options);
  }
  enableWebhook(webhookId, options) {
    return this.request("POST", `/v1/webhooks/${of(webhookId)}/enable`, { keyed: true }, options);
  }
  rotateWebhook(webhookId, body, options) {
    return this.request("POST", `/v1/webhooks/${of(webhookId)}/rotate`, { body, keyed: true }, options);
  }
  testWebhook(webhookId, options) {
    return this.request("POST", `/v1/webhooks/${of(webhookId)}/test`, { keyed: true }, options);
  }
  listWorkers(options) {
    return this.request("GET", "/v1/workers", {}, options);
  }
  deleteWorker(host, name, options) {
    return this.request("DELETE", `/v1/workers/${of(host)}/${of(name)}`, { answer: "none" }, options);
  }
}
