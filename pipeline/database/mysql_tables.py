"""Describe the tables of MySQL and MariaDB, the system of record, as SQLAlchemy Core definitions.

The migrations make the tables (`migrations/mysql`); tests compare these definitions with what they make. Every primary
key and every statement begins with the tenant, but for the tables of the installation at the end. There are no foreign
keys. docs/data-model.md says which code writes and deletes the rows of each table.
"""

from sqlalchemy import Index
from sqlalchemy.dialects import mysql

from pipeline.database.mysql_columns import (
    ASCII,
    DOUBLE,
    FLAG,
    JSON,
    NAME,
    SHA256,
    TIME,
    UBIGINT,
    UINT,
    UTF8,
    UUID,
    ascii_,
    key,
    optional,
    required,
    table,
    utf8,
)
from pipeline.database.mysql_columns import metadata as metadata  # of all these tables

# fmt: off
# --- tenants, keys, audit ---------------------------------------------------------------------------------------------
tenants = table("tenants", key("tenant_id"),
    required(utf8(255), "name"), required(TIME, "created_at"),
    optional(UBIGINT, "quota_documents", "quota_chunks", "quota_queued", "quota_tokens"),  # NULL: as in the settings
    optional(UINT, "quota_requests_per_minute"), optional(TIME, "disabled_at"))

api_keys = table("api_keys", key("tenant_id", key_hash=SHA256),  # the first 8 bytes of the hash are the key's id
    required(utf8(255), "name"),
    required(ascii_(255), "scopes"),                # separated by spaces
    required(TIME, "created_at"),
    optional(TIME, "expires_at", "revoked_at", "last_used_at"),  # last_used_at is accurate to the minute
    optional(mysql.CHAR(16, **ASCII), "replaced_by"),  # the id of the key it was rotated to
    optional(JSON, "principals"),                   # of its callers; NULL: none
    optional(mysql.BLOB(), "token_key"))            # encrypted; verifies tokens that its owner signs

audit = table("audit", key("tenant_id", at=TIME, audit_id=UUID),
    required(ascii_(32), "action", "key_id"),
    required(utf8(255), "key_name"),
    required(ascii_(255), "scopes"), required(ascii_(128), "request_id"),
    required(JSON, "namespaces", "ids", "detail"),
    required(UBIGINT, "entries"),                   # how many objects were written or found; ids has the first
    required(ascii_(16), "status"),
    optional(mysql.CHAR(64, **ASCII), "query_hash"),
    optional(mysql.TEXT(**UTF8), "query_text"),     # only if the installation stores query texts
    Index("audit_by_action", "tenant_id", "action", "at", "audit_id"))

idempotency_keys = table("idempotency_keys", key("tenant_id", digest=SHA256),  # of route and Idempotency-Key
    required(UUID, "work_id", "token"),             # work_id survives a caller that died, token is the current one's
    required(TIME, "claimed_until", "expires_at"),
    optional(SHA256, "fingerprint"),                # of the request; NULL until it is answered, as the next two
    optional(mysql.SMALLINT(unsigned=True), "status"),
    optional(mysql.MEDIUMBLOB(), "answer"),
    Index("ix_idempotency_keys_expiry", "expires_at", "tenant_id"))

# job_id '': of no job, such as queries.
embedding_usage = table("embedding_usage",
    key("tenant_id", day=mysql.DATE(), job_id=ascii_(36), purpose=ascii_(16), model=utf8(255)),
    required(UBIGINT, "requests", "texts", "tokens", "cached_texts", "saved_tokens"),
    required(mysql.DECIMAL(24, 9), "cost"),
    Index("usage_by_job", "tenant_id", "job_id"))

erasures = table("erasures", key("tenant_id"),     # outlives the tenant
    required(TIME, "requested_at"),
    optional(TIME, "settled_at"),                   # when a recount found nothing
    required(JSON, "erased"))                       # rows by table

# --- namespaces and documents -----------------------------------------------------------------------------------------
namespaces = table("namespaces", key("tenant_id", "namespace"),
    required(mysql.BIGINT(), "chunk_count", "term_count", default="0"),  # of published chunks, for BM25
    required(TIME, "created_at"),
    required(mysql.BIGINT(), "revision", default="0"),  # grows with every change that searches see
    optional(TIME, "revised_at"),
    optional(JSON, "readers"),                      # of new documents that name none; NULL: public
    required(FLAG, "restricted", default="0"))      # 1: a document has other readers than the public

# Pointers into generations, whose numbers count up from 1 and never repeat, also after a deletion.
documents = table("documents", key("tenant_id", "namespace", "document_id"),
    required(UINT, "latest_generation"),
    optional(UINT, "published_generation"),         # the searchable one; NULL: none
    required(UINT, "deleted_generation", default="0"),  # everything up to it was deleted
    required(TIME, "created_at", "updated_at"),
    # settled: the newest upload that changed nothing; failed, cancelled: the newest upload that ended so
    required(UINT, "settled_generation", "failed_generation", "cancelled_generation", default="0"),
    optional(SHA256, "failed_version"))             # of the file in a followed source that was refused as a document

sources = table("sources", key("tenant_id", "namespace", source_id=NAME),
    required(ascii_(16), "kind"),                   # file, url, text, bytes, sheet
    optional(utf8(2048), "uri"),
    required(ascii_(127), "media_type"), required(TIME, "created_at"))

# Each is a row of ``sources`` as well, also while it has no document.
followed_sources = table("followed_sources", key("tenant_id", "namespace", source_id=NAME),
    required(utf8(2048), "url"),
    required(UINT, "every_s"),
    required(JSON, "rules"),
    optional(mysql.BLOB(), "secret"),               # encrypted
    required(TIME, "created_at", "updated_at"),
    optional(TIME, "next_run_at"),                  # NULL: paused
    optional(UUID, "job_id"),                       # of the latest run
    optional(UINT, "held_removals", "confirmed_removals"),  # that wait for a confirmation; that one was given for
    optional(JSON, "run"),                          # what the latest run did
    Index("followed_sources_due", "next_run_at", "tenant_id"))

generations = table("generations", key("tenant_id", "namespace", "document_id", "generation"),
    required(UUID, "job_id"),
    optional(utf8(1024), "title"),
    optional(utf8(255), "author"), optional(utf8(64), "type"),
    required(JSON, "tags", "metadata", "chunking"),
    optional(TIME, "published_at"),                 # of the text, as its sender stated; independent of its publication
    optional(mysql.BIGINT(), "story_time"),
    optional(JSON, "readers"),                      # principals; NULL: public
    required(NAME, "source_id", default="''"),
    optional(SHA256, "source_version"),             # of the file in a followed source; NULL: in none
    optional(utf8(2048), "source_uri"),
    required(ascii_(127), "media_type"),
    optional(JSON, "encoding"),                     # how the bytes were read
    required(SHA256, "content_hash"),               # of the bytes
    optional(SHA256, "recipe"),                   # of all that its chunks depend on; NULL: the next upload is made anew
    required(UINT, "body_bytes", default="0"),
    optional(UINT, "chunk_count", "page_start", "page_end"),
    optional(utf8(255), "embedding_model"),
    optional(JSON, "removed_ordinals"),             # chunks that were deleted by hand and must not come back
    required(mysql.SMALLINT(), "terms_version", default="1"),  # keyword.terms.VERSION when its terms were made
    required(TIME, "created_at"),
    Index("generations_by_source", "tenant_id", "namespace", "source_id"),
    Index("generations_by_content", "tenant_id", "namespace", "content_hash"),
    Index("generations_by_terms", "terms_version", "tenant_id"))

payloads = table("payloads", key("tenant_id", "namespace", "document_id", "generation"),
    required(mysql.LONGBLOB(), "body"),
    required(FLAG, "to_fetch", default="0"))        # 1: the bytes are still at the address of the source

chunks = table("chunks", key("tenant_id", "namespace", "document_id", "generation", "ordinal"),
    required(UUID, "chunk_id"),                     # made of the key, the same in PostgreSQL
    required(mysql.MEDIUMTEXT(**UTF8), "text"),
    required(JSON, "heading_path"),
    optional(UINT, "page", "page_end"),             # page_end NULL: the chunk ends on the page it begins on
    required(UINT, "start_offset", "end_offset", "token_count", "term_count"),
    required(SHA256, "content_hash"),
    # Tokens of 13 characters, hashes of tenant, namespace and term, so that the one FULLTEXT index keeps tenants apart.
    required(mysql.MEDIUMTEXT(**ASCII), "terms"),
    required(UINT, "title_terms", "summary_terms", "entity_terms", default="0"),  # how many belong to that field
    required(FLAG, "enabled", default="1"),         # 0: disabled, without a vector, invisible
    required(UINT, "version", default="1"),         # counts edits by hand
    required(FLAG, "reworded", default="0"),        # 1: the text differs from the document's
    optional(TIME, "edited_at"),
    required(ascii_(16), "chunk_type", default="'parent'"),
    optional(UUID, "parent_id"),                    # the row of parent_chunks that it is read with
    required(UINT, "chunk_index", default="0"),     # its position among its parent's children, or in the document
    optional(mysql.BIGINT(), "story_time"),
    optional(JSON, "segment"),                      # fields of the part of the document that it was cut from
    required(TIME, "created_at"),
    Index("chunks_by_id", "tenant_id", "chunk_id", unique=True),
    Index("chunks_terms", "terms", mysql_prefix="FULLTEXT"))

# Read for the context of an answer and never searched.
parent_chunks = table("parent_chunks", key("tenant_id", "namespace", "document_id", "generation", "ordinal"),
    required(UUID, "chunk_id"),
    required(mysql.MEDIUMTEXT(**UTF8), "text"),
    required(JSON, "heading_path"),
    optional(UINT, "page", "page_end"),
    required(UINT, "start_offset", "end_offset", "token_count"),
    required(UINT, "version", default="1"),
    required(TIME, "created_at"),
    optional(TIME, "edited_at"),
    Index("parent_chunks_by_id", "tenant_id", "chunk_id", unique=True))

# To be dropped from both stores once no query can still read it.
retired_generations = table("retired_generations", key("tenant_id", "namespace", "document_id", "generation"),
    required(TIME, "due_at"),
    optional(TIME, "replaced_at"),                  # when another was published in its place; NULL: none was
    Index("retired_due", "tenant_id", "due_at"))

# Replaced, with the bytes retained for a rollback.
kept_generations = table("kept_generations", key("tenant_id", "namespace", "document_id", "generation"),
    required(TIME, "kept_until"),
    Index("kept_due", "tenant_id", "kept_until"))

import_parts = table("import_parts", key("tenant_id", "namespace", import_id=ascii_(64), part=UINT),
    required(SHA256, "sha256"),
    required(UUID, "job_id"),
    required(UINT, "documents", "chunks", "vectors"),
    required(FLAG, "vectors_kept"),                 # 0: made by another model, so embedded anew
    required(TIME, "received_at"))

# --- words ------------------------------------------------------------------------------------------------------------
# The log that the keyword indexes of hosts follow.
publications = table("publications", key("tenant_id", "namespace", revision=mysql.BIGINT(), document_id=NAME),
    required(TIME, "revised_at"),
    Index("publications_by_age", "tenant_id", "revised_at"))

dictionaries = table("dictionaries", key("tenant_id", "namespace"),  # namespace '': for all of them
    optional(JSON, "said"),                         # synonyms, stop words, phrases, rules; NULL: deleted
    required(UINT, "version"),
    required(TIME, "updated_at"))

# story_time: from when the state holds; the smallest number stands for the beginning.
entity_states = table("entity_states", key("tenant_id", "namespace", entity_id=NAME, story_time=mysql.BIGINT()),
    required(utf8(255), "name", "name_key"),        # name_key: the name as it is compared
    optional(utf8(64), "type"),
    required(JSON, "state"),
    required(TIME, "updated_at"),
    Index("entity_states_by_name", "tenant_id", "namespace", "name_key"))

# --- the ledger of jobs -----------------------------------------------------------------------------------------------
jobs = table("jobs", key("tenant_id", "job_id"),
    required(NAME, "namespace"),
    required(UINT, "total"),
    required(ascii_(128), "request_id"),
    required(ascii_(16), "priority", default="'bulk'"),  # or interactive
    required(UBIGINT, "revision", default="1"),     # grows with every change of the job
    required(TIME, "created_at", "updated_at"),
    optional(TIME, "finished_at", "paused_at", "served_at"),
    Index("jobs_by_time", "tenant_id", "created_at", "job_id"),
    Index("jobs_in_turn", "tenant_id", "finished_at", "priority", "served_at", "created_at", "job_id"),
    Index("jobs_unfinished", "finished_at", "tenant_id", "job_id"))

job_items = table("job_items", key("tenant_id", "job_id", "ordinal"),
    required(NAME, "namespace"),
    optional(NAME, "document_id", "requested_id"),  # requested_id: the id that a renamed document was sent with
    optional(UINT, "generation"),                   # NULL: refused before it became one
    required(UINT, "body_bytes", "chunk_count", "reused_count", "attempts", default="0"),
    required(ascii_(16), "state", "stage"),         # state: queued, running, succeeded, failed, cancelled
    optional(ascii_(32), "outcome"),
    required(ascii_(16), "queue", default="ingest"),  # its workers claim the item: ingest or long
    required(UBIGINT, "fencing_token", default="0"),  # of the newest claim: writes under an older one are refused
    optional(TIME, "lease_until", "next_attempt_at"),
    optional(ascii_(64), "error_code"), optional(utf8(1024), "error_detail"),
    optional(utf8(255), "error_pointer"),
    optional(ascii_(16), "failure"),                # rejected or gave_up
    optional(TIME, "dead_at"),                      # set: a dead letter
    optional(UBIGINT, "failed_revision"),           # the revision of the job in which it failed
    required(TIME, "updated_at"),
    Index("items_leased", "tenant_id", "state", "lease_until"),
    Index("items_due_by_queue", "tenant_id", "job_id", "state", "queue", "next_attempt_at"),
    Index("items_dead", "tenant_id", "dead_at", "job_id", "ordinal"),
    Index("items_failed", "tenant_id", "job_id", "failed_revision", "ordinal"),
    # Answers a request for a job without reading a row.
    Index("items_by_state", "tenant_id", "job_id", "state", "stage", "outcome", "chunk_count", "reused_count"))

ingest_turns = table("ingest_turns", key("tenant_id"),
    required(TIME, "served_at"),
    optional(TIME, "long_served_at"),               # the same for its documents in the queue `long`
    required(UINT, "interactive_in_a_row", default="0"))  # turns since the last one of a bulk job

computation_bodies = table("computation_bodies", key("tenant_id", computation_id=UUID, piece=UINT),
    required(mysql.MEDIUMBLOB(), "body"),
    required(TIME, "expires_at"),
    Index("computation_bodies_expiring", "expires_at", "tenant_id"))

alignment_state = table("alignment_state", key("tenant_id"),
    optional(NAME, "namespace", "after_document"),  # where the reconciler continues, with the phase
    optional(ascii_(16), "phase"),
    required(TIME, "checked_at"),
    required(UBIGINT, "chunks", "missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics",
              "repaired", "document_vectors", default="0"),                    # found so far: maintenance.verify
    required(UBIGINT, "pass_deleted", "pass_withheld", "withheld", default="0"))  # withheld: an operator has to confirm

# --- files and vector stores of the OpenAI dialect --------------------------------------------------------------------
stored_files = table("stored_files", key("tenant_id", "file_id"),
    required(utf8(1024), "filename"), required(ascii_(32), "purpose"),
    optional(ascii_(127), "declared_type"),
    required(UBIGINT, "body_bytes"),
    required(SHA256, "content_hash"),
    required(TIME, "created_at"),
    optional(TIME, "expires_at"),
    Index("stored_files_by_time", "tenant_id", "created_at", "file_id"),
    Index("stored_files_expiring", "expires_at", "tenant_id"))

stored_file_bodies = table("stored_file_bodies", key("tenant_id", "file_id"), required(mysql.LONGBLOB(), "body"))

# A namespace without a row is a vector store of its own name.
vector_stores = table("vector_stores", key("tenant_id", "namespace"),
    required(utf8(256), "name"), optional(utf8(1024), "description"),
    required(JSON, "metadata"),
    optional(UINT, "expires_after_days"),
    required(TIME, "last_active_at"),
    optional(TIME, "expires_at", "emptied_at"),     # emptied_at: once it expired
    Index("vector_stores_expiring", "expires_at", "tenant_id"))

attachments = table("attachments", key("tenant_id", "namespace", "document_id"),
    required(UUID, "job_id"), required(UINT, "ordinal"),  # the item that puts the file there
    required(utf8(1024), "filename"),
    required(JSON, "attributes", "chunking"),
    required(UBIGINT, "body_bytes"),
    required(TIME, "created_at"),
    optional(TIME, "detached_at"),                  # the row stays a while, so that lists can be continued from it
    Index("attachments_by_time", "tenant_id", "namespace", "created_at", "document_id"),
    Index("attachments_of_document", "tenant_id", "document_id"),
    Index("attachments_by_job", "tenant_id", "job_id"),
    Index("attachments_detached", "detached_at", "tenant_id"))

# --- retrieval: profiles, experiments, feedback, business APIs --------------------------------------------------------
profiles = table("profiles", key("tenant_id", name=NAME, version=UINT),
    required(JSON, "config"),
    required(utf8(255), "note", "created_by", default="''"),
    required(TIME, "created_at"))

profile_heads = table("profile_heads", key("tenant_id", name=NAME),
    required(UINT, "active_version"),
    optional(UINT, "previous_version", "trial_version"),
    required(DOUBLE, "trial_share", default="0"),  # of queries, 0 to 1
    required(TIME, "updated_at"))

experiments = table("experiments", key("tenant_id", experiment_id=NAME),
    required(JSON, "config"),
    required(FLAG, "active", default="1"),
    required(TIME, "created_at", "updated_at"))

feedback = table("feedback", key("tenant_id", feedback_id=UUID),
    required(TIME, "created_at", "rated_at"),
    required(UUID, "query_id"), required(mysql.TEXT(**UTF8), "query_text"),
    required(mysql.BINARY(16), "text_key"),         # a hash of the text, which groups the ratings of one question
    required(JSON, "namespaces"),
    required(NAME, "namespace"), required(utf8(255), "document_id"),  # or an id of another system
    optional(utf8(255), "chunk_id"),
    required(ascii_(8), "rating"),                  # good, bad, click
    optional(utf8(2000), "note"),
    optional(UINT, "place"),                        # of the hit in the answer, from 1
    optional(DOUBLE, "score"),
    optional(ascii_(16), "source"),                 # the channel
    required(utf8(128), "profile"), required(UINT, "config_version"),
    optional(utf8(128), "experiment_id", "experiment_bucket", "session_id"),
    required(ascii_(128), "request_id"),
    Index("feedback_by_time", "tenant_id", "created_at", "feedback_id"),
    Index("feedback_by_text", "tenant_id", "namespace", "text_key"),
    Index("feedback_by_arm", "tenant_id", "experiment_id", "experiment_bucket"))

api_sources = table("api_sources", key("tenant_id", name=ascii_(64)),
    required(JSON, "source"),
    optional(mysql.BLOB(), "secrets"),              # values of headers, encrypted
    required(TIME, "created_at", "updated_at"))

# --- webhooks ---------------------------------------------------------------------------------------------------------
webhooks = table("webhooks", key("tenant_id", "webhook_id"),
    required(utf8(2048), "url"),
    required(ascii_(255), "events"),                # separated by spaces
    required(mysql.VARBINARY(255), "secret"),       # encrypted, as the next one, which signs too until previous_until
    optional(mysql.VARBINARY(255), "previous_secret"),
    required(TIME, "created_at", "updated_at"),
    optional(TIME, "previous_until", "failing_since", "delivered_at", "disabled_at"),
    optional(ascii_(32), "disabled_reason"))

webhook_deliveries = table("webhook_deliveries", key("tenant_id", "webhook_id", delivery_id=ascii_(64)),
    required(ascii_(32), "event"),
    optional(UUID, "job_id"),
    required(mysql.MEDIUMTEXT(**UTF8), "body"),
    required(ascii_(16), "state"),
    required(UINT, "attempts", default="0"),
    optional(TIME, "next_attempt_at", "lease_until"),
    optional(UUID, "claim_id"),                     # of the sender that holds the lease
    required(TIME, "created_at"),
    optional(TIME, "ended_at", "last_attempt_at"),
    optional(mysql.SMALLINT(unsigned=True), "last_status"),  # of HTTP
    optional(utf8(255), "last_error"),
    Index("deliveries_due", "state", "next_attempt_at", "tenant_id", "webhook_id"),
    Index("deliveries_by_time", "tenant_id", "webhook_id", "created_at", "delivery_id"),
    Index("deliveries_ended", "state", "ended_at", "tenant_id"))

# --- model migrations, by tenant --------------------------------------------------------------------------------------
embedding_backfill = table("embedding_backfill", key("tenant_id", space=UINT),
    required(UINT, "pass"),
    required(FLAG, "finished", default="0"),
    optional(NAME, "namespace", "after_document"),  # where the pass continues, with the phase
    optional(ascii_(16), "phase"),
    required(UBIGINT, "chunks", "found", "mended", "embedded", default="0"),
    required(TIME, "updated_at"))

# Documents whose vectors in the standby space are behind.
embedding_backlog = table("embedding_backlog", key("tenant_id", space=UINT, namespace=NAME, document_id=NAME),
    required(TIME, "noted_at", "next_attempt_at"),
    required(UINT, "attempts", default="0"))

# --- the installation: these tables have no tenant --------------------------------------------------------------------
installation = table("installation", key(id=mysql.TINYINT(unsigned=True)),  # one row, id 1
    required(UUID, "installation_id"), required(TIME, "created_at"),
    required(UINT, "primary_term", default="0"),    # of the last claim, and the server that was claimed
    required(utf8(255), "primary_server", default="''"))

# One row, id 1. Updating it switches to another model; a transaction that publishes a document locks it.
embedding_pointer = table("embedding_pointer", key(id=mysql.TINYINT(unsigned=True)),
    required(UINT, "active_space"),
    optional(UINT, "standby_space"))

# Space 1 is the one that the settings describe; it gets a row with the first model migration.
embedding_spaces = table("embedding_spaces", key(number=UINT),
    required(ascii_(63), "table_name"),             # in PostgreSQL
    required(ascii_(16), "provider", "service", "state"),
    required(utf8(255), "model"),
    required(UINT, "dimension"),
    optional(UINT, "source"),                       # the space it was derived from; NULL: no migration
    required(UINT, "pass", default="1"),
    optional(UBIGINT, "missing"),                   # chunks that the last verification could not give a vector
    optional(JSON, "comparison"),
    required(UBIGINT, "lease_token", default="0"),
    optional(TIME, "lease_until"),
    required(TIME, "next_step_at", "created_at"),
    optional(ascii_(64), "error_code"), optional(utf8(1024), "error_detail"),
    optional(TIME, "ready_at", "switched_at", "ended_at"))
