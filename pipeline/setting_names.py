"""The names of environment variables that begin with CHORDWISE_: refuse one that is no setting, with the nearest name."""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Final

PREFIX: Final = "CHORDWISE_"

# Variables of other programs that may stand in the same environment, by their reader.
OF_OTHERS: Final = frozenset(
    {
        "CHORDWISE_URL", "CHORDWISE_API_KEY",  # the client
        "CHORDWISE_STACK_DIR", "CHORDWISE_FLOWER_USER", "CHORDWISE_FLOWER_PASSWORD",  # the local stack
        "CHORDWISE_PASSWORD",  # compose: the script that creates the user in PostgreSQL
        "CHORDWISE_GRAFANA_URL", "CHORDWISE_JUDGED_DATA", "CHORDWISE_PREVIOUS_WHEELS",  # pictures and tests
    }
)  # fmt: skip
# Of the local stack's servers and of tests; and those that Kubernetes and Docker derive from the names of services.
_OF_OTHERS: Final = re.compile(
    r"^CHORDWISE_(?:LOCAL|TEST)_|_SERVICE_(?:HOST|PORT)(?:_|$)|_PORT_\d{1,5}_(?:TCP|UDP)(?:_(?:ADDR|PORT|PROTO))?$|_ENV_"
)
_FIXED: Final = """
    MAX_PREVIEW_BYTES MAX_DOCUMENTS_PER_BATCH MAX_EXAMPLES_PER_BOOK MAX_CHUNKS_PER_DOCUMENT WRONG_KEYS_PER_MINUTE
    WRONG_KEYS_BURST IDEMPOTENCY_TTL_S IDEMPOTENCY_LEASE_S STORE_TIMEOUT_S INGEST_BATCH_BYTES INTERACTIVE_DOCUMENTS
    CUTTING_TIMEOUT_S FETCH_TIMEOUT_S WEBHOOK_DISABLE_AFTER_DAYS RECONCILE_INTERVAL_S RECONCILE_CHUNKS
    RECONCILE_DELETE_SHARE SEMANTIC_INDEX_INTERVAL_S SEMANTIC_EXACT_CHUNKS KEYWORD_INDEX_INTERVAL_MS
    KEYWORD_INDEX_WAIT_MS BREAKER_OPEN_S FLOWER_SLOW_MS TRACE_SLOW_MS TRACE_SAMPLE_PERCENT TRACE_TTL_S
    RESULT_CACHE_BYTES EMBEDDING_BATCH_TOKENS EMBEDDING_RETRIES EMBEDDING_CACHE_TTL_S UNDERSTAND_CACHE_TTL_S
"""
# Settings of earlier versions, with the reason.
REMOVED: Final = {
    **{f"{PREFIX}{name}": "its value is fixed now" for name in _FIXED.split()},
    "CHORDWISE_MAX_PACKED_DOCUMENT_BYTES": "CHORDWISE_MAX_DOCUMENT_BYTES holds for documents of archives too",
    "CHORDWISE_MYSQL_POOL_SIZE": "CHORDWISE_STORE_POOL_SIZE holds for both databases",
    "CHORDWISE_POSTGRES_POOL_SIZE": "CHORDWISE_STORE_POOL_SIZE holds for both databases",
    "CHORDWISE_QUOTA_REQUESTS_BURST": "a tenant may send ten seconds' worth of CHORDWISE_QUOTA_REQUESTS_PER_MINUTE at once",
    "CHORDWISE_RETIRED_GRACE_S": "it is five times CHORDWISE_QUERY_DEADLINE_MS",
    "CHORDWISE_COMPUTE_WAIT_S": "it is five times CHORDWISE_QUERY_DEADLINE_MS",
    "CHORDWISE_MIGRATION_INTERVAL_S": "every sweep (CHORDWISE_SWEEP_INTERVAL_S) looks for a model migration",
    "CHORDWISE_MIGRATION_CHUNKS_PER_S": "a model migration gives way to queries and ingestion by itself",
    "CHORDWISE_OTLP_SAMPLE_RATIO": "OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG choose the recorded traces",
    "CHORDWISE_FLOWER_SAMPLE_PERCENT": "a tenth is shown, and the command query_events of the workers changes it",
    "CHORDWISE_OCR_TESSERACT": "tesseract is looked for in PATH",
    "CHORDWISE_SIGN_IN_DIR": "sign-in links are those of `make up` alone",
    "CHORDWISE_FUSION_PLUGIN": "retrieve.fusion.plugin of a profile names it, unless exactly one is installed",
    "CHORDWISE_RECALL_POOL": "retrieve.channels.NAME.pool of a profile sets it",
    "CHORDWISE_SEMANTIC_SCORE_THRESHOLD": "retrieve.channels.semantic.min_score of a profile sets it",
    "CHORDWISE_RECALL_QUERY_WEIGHTS": "retrieve.fusion.query_weights of a profile sets it",
    "CHORDWISE_RERANK_TOP_N": "rerank.top_n of a profile sets it",
    "CHORDWISE_MYSQL_REPLICA_URL": "the primary server, or a proxy in front of it, serves all reads",
    "CHORDWISE_STORE_PAIRS": "all tenants are on one MySQL and one PostgreSQL; with the version before, bring those of other"
    " pairs back by chordwise-server tenants move TENANT --to default",
}


def flaw_of_names(environment: Iterable[tuple[str, str]], settings: Collection[str]) -> str:
    """Return a sentence about the first variable by name that is no setting, empty if there is none. ``settings``: the
    names of all. An empty variable counts as not set, and upper and lower case as equal."""
    for given in sorted(name for name, value in environment if value):
        name = given.upper()
        if not name.startswith(PREFIX) or name in settings or name in OF_OTHERS or _OF_OTHERS.search(name):
            continue
        if name in REMOVED:
            return f"{given} is no longer a setting, because {REMOVED[name]}; remove it from the environment"
        own = name.removeprefix(PREFIX)
        near = difflib.get_close_matches(own, sorted(each.removeprefix(PREFIX) for each in settings), n=1, cutoff=0.7)
        if near:
            return f"{given} is not a setting; did you mean {PREFIX}{near[0]}?"
        return f"{given} is not a setting of this release; .env.example lists them: remove or correct it"
    return ""
