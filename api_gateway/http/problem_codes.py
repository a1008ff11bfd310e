"""The `code`s that the problems of each operation can have: those of every route, and the additions of each.

`tests/unit/gateway/http/test_openapi.py` fails for a code of the gateway that is missing here.
"""

import re
from collections.abc import Mapping
from typing import Final

Codes = Mapping[int, str]  # by status, separated by spaces

_COMMON: Final[Codes] = {
    400: (
        "invalid_json invalid_encoding incomplete_body malformed_request duplicate_authorization too_many_parameters"
    ),
    401: "missing_api_key malformed_authorization invalid_api_key",
    403: "insufficient_scope tenant_erased",
    408: "body_too_slow",
    412: "precondition_failed",
    413: "body_too_large body_too_complex statement_too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "too_many_requests too_many_wrong_keys",
    431: "head_too_large",
    500: "internal_error misconfigured",
    503: (
        "store_unavailable store_misconfigured store_conflict vector_table_missing "
        "store_read_only outcome_unknown dependency_unavailable wrong_installation"
    ),
}
_KEY: Final[Codes] = {400: "invalid_idempotency_key", 409: "idempotency_key_in_use", 422: "idempotency_key_reused"}
_UPLOAD: Final[Codes] = {
    403: "tenant_mismatch quota_exceeded",
    413: "document_too_large",
    422: (
        "too_many_documents no_valid_document invalid_document empty_document undecodable_text "
        "malformed_document encrypted_document document_rejected fetch_refused parser_timeout "
        "parser_memory cutting_too_slow cutting_memory"
    ),
    429: "too_many_queued",
    503: "parser_unavailable",
}
_QUERY: Final[Codes] = {
    404: "namespace_not_found profile_not_found",
    429: "too_many_waiters too_many_answers",
    503: "overloaded too_many_waiters query_not_answered retrieval_unavailable",
}
_COMPUTATION: Final[Codes] = {
    429: "too_many_waiters too_many_answers",
    503: "overloaded worker_unavailable computation_timeout",
}
_STREAM: Final[Codes] = dict.fromkeys((429, 503), "too_many_streams too_many_waiters")
_NOT_FOUND: Final = {
    "job_id": "job_not_found",
    "document_id": "document_not_found",
    "source_id": "source_not_found",
    "query_id": "query_not_found",
    "batch_id": "batch_not_found",
    "letter_id": "dead_letter_not_found",
    "webhook_id": "webhook_not_found",
    "delivery_id": "delivery_not_found",
    "feedback_id": "feedback_not_found",
    "experiment_id": "experiment_not_found",
    "import_id": "import_not_found",
    "tenant_id": "tenant_not_found",
    "key_id": "key_not_found",
    "namespace": "namespace_not_found",
}

# Patterns of "METHOD path" and the codes that they add.
_OWN: Final[tuple[tuple[str, Codes], ...]] = (
    (r"(POST|PUT|PATCH|DELETE) .*", {403: "tenant_mismatch"}),
    (r"(PUT|PATCH|DELETE) .*(\}|/dictionary|/quotas)", {409: "write_in_progress"}),
    (r"POST /v1/(documents|files|examples|chunks/preview)", _UPLOAD),
    (r"POST /v1/(files|examples|chunks/preview)", {400: "invalid_multipart"}),
    (r"POST /v1/(examples|chunks/preview|verify|queries/\{query_id\}/answer)|PUT /v1/chunks", _COMPUTATION),
    (r"POST /v1/chunks/preview", {404: "document_not_found", 409: "imported_with_chunks generation_not_kept"}),
    (r"POST .*/why-not", {429: "too_many_waiters", 503: "overloaded"}),
    (r"POST /v1/examples", {422: "examples_refused"}),
    (r"GET /v1/examples/(statistics|verification)", {404: "namespace_not_found job_not_found"}),
    (r"POST /v1/documents/\{document_id\}/rollback", {**_UPLOAD, 409: "generation_not_kept"}),
    (
        r"PATCH /v1/documents",
        {
            **_UPLOAD,
            404: "document_not_found",
            409: (
                "upload_pending chunks_edited imported_with_chunks too_many_tags document_not_found generation_not_kept"
            ),
        },
    ),
    (
        r"GET /v1/documents/\{document_id\}/(original|text|pages/\{page\})",
        {**_UPLOAD, **_COMPUTATION, 404: "page_not_found", 409: "imported_with_chunks generation_not_kept"},
    ),
    (r"POST /v1/jobs/\{job_id\}/.*", {409: "job_finished nothing_to_retry"}),
    (r"POST /v1/query-batches/\{batch_id\}/cancel", {409: "job_finished"}),
    (
        r"POST /v1/query-batches",
        {
            404: "profile_not_found",
            415: "unsupported_media_type",
            422: "too_many_queries no_valid_query",
            403: "quota_exceeded",
            429: "too_many_answers too_many_queued",
        },
    ),
    (r"GET /v1/query-batches/.*", {429: "too_many_waiters", 503: "too_many_waiters"}),
    (r"GET /v1/(jobs|queries)/.*/events", _STREAM),
    (r"GET /v1/(jobs/\{job_id\}|queries/\{query_id\})", {429: "too_many_waiters", 503: "too_many_waiters"}),
    (r"POST /v1/dead-letters/\{letter_id\}/replay", {409: "not_retryable"}),
    (r"POST /v1/(dead-letters/.*|jobs/\{job_id\}/retry)", {403: "quota_exceeded", 429: "too_many_queued"}),
    (r"POST /v1/sources", {409: "too_many_sources", 422: "address_not_allowed invalid_url"}),
    (r"POST /v1/sources/[^/]+/confirm", {409: "nothing_to_confirm"}),
    (r"POST /v1/webhooks", {409: "too_many_webhooks", 422: "address_not_allowed invalid_url"}),
    (r"POST .*/redeliver", {409: "delivery_pending"}),
    (r".* /v1/api-sources/\{name\}.*", {404: "api_source_not_found"}),
    (r"PUT /v1/api-sources/.*", {409: "too_many_api_sources"}),
    (r"POST /v1/api-sources/.*/test", {404: "namespace_not_found profile_not_found", 422: "api_source_failed"}),
    (r"POST (/v1/(queries|rag/query|rag/debug|queries/\{query_id\}/replay)|/internal/recall/test)", _QUERY),
    (
        r"POST (/v1/(rag/debug|queries/.*)|/internal/recall/test)",
        {409: "query_not_answered", 503: "query_not_answered not_explained"},
    ),
    (r"POST .*/answer", {409: "no_language_model"}),
    (r"GET .*/trace", {404: "trace_not_kept", 409: "query_not_answered"}),
    (r"POST .*/why-not", {404: "chunk_not_found document_not_found"}),
    (r"POST .*/feedback", {404: "rated_not_found", 409: "query_unanswered"}),
    (r".* /v1/profiles/\{name\}.*", {404: "profile_not_found"}),
    (r"POST .*/rollback", {409: "nothing_to_roll_back"}),
    (
        r"(PUT|DELETE) /v1/chunks",
        {
            404: "namespace_not_found chunk_not_found",
            409: "document_replaced chunk_changed",
            422: "embedder_refused chunk_too_long empty_chunk",
        },
    ),
    (r"DELETE /v1/workers/.*", {404: "process_not_silent"}),
    (r".* /v1/dictionary", {404: "dictionary_not_found"}),
    (r"POST /v1/verify", {404: "namespace_not_found"}),
    (r"PUT .*/parts/\{part\}", {**_UPLOAD, 409: "import_part_differs part_known", 422: "digest_mismatch damaged_part"}),
    (r".* /v1/admin/.*", {401: "invalid_admin_key", 403: "admin_disabled"}),
    (r"POST /v1/tenants", {409: "tenant_exists erasure_unfinished"}),
    (r"POST .*/keys", {409: "too_many_keys"}),
    (r"POST .*/keys/\{key_id\}/rotate", {409: "key_not_rotatable too_many_keys"}),
    (r"DELETE /v1/tenants/.*", {401: "invalid_admin_key", 403: "admin_disabled"}),
    (
        r"POST /v1/admin/embedding-migrations.*",
        {
            404: "migration_not_found",
            409: (
                "migration_refused service_not_set migration_open migration_not_found same_model "
                "service_in_use vectors_behind vectors_missing not_compared gate_not_passed"
            ),
            503: "embedder_unavailable rate_limited",
        },
    ),
    (r"GET /v1/admin/embedding-migrations/.*", {404: "migration_not_found"}),
    (r"GET .*", {422: "invalid_cursor"}),
)


def codes_of(method: str, path: str, status: int, *, idempotent: bool) -> tuple[str, ...]:
    """Return every code that a problem with this status can have at this operation; sorted."""
    tables = [_COMMON, *([_KEY] if idempotent else [])]
    tables += [codes for pattern, codes in _OWN if re.fullmatch(pattern, f"{method} {path}")]
    codes = {code for table in tables for code in table.get(status, "").split()}
    if status == 404:
        codes |= {_NOT_FOUND[name] for name in re.findall(r"\{(\w+)\}", path) if name in _NOT_FOUND}
    return tuple(sorted(codes))
