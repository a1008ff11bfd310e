"""Every environment variable of the project, typed, validated once at start, and handed down in slices."""

import functools
import json
import os
import re
import socket
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pipeline.distances import Distance
from pipeline.errors import Misconfigured
from pipeline.local_models import flaw_of, local_model
from pipeline.outbound.addresses import Network, parse_networks
from pipeline.privacy.redaction import MaskedKind
from pipeline.setting_names import PREFIX, flaw_of_names
from pipeline.setting_values import (
    RRF_K,
    ChannelTime,
    SignOn,
    VectorIndex,
    channel_names,
    parse_list,
    parse_object,
    parse_weights,
)
from pipeline.store_urls import REDIS_SCHEMES, completed

LONGEST_RECOGNITION_S = 1600  # of a document; less than the time limit of a task in celery_config.py
RecallSource = Literal["keyword", "semantic", "faq", "api"]
Lane = Literal["chord", "in_process"]
RerankProvider = Literal["local", "llm", "http"]


def parse_places(text: str) -> tuple[Network | Path, ...]:
    """Parse a comma-separated list of networks and folders, which begin with a slash. Raises ValueError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    folders = tuple(Path(name) for name in names if name.startswith("/"))
    return (*parse_networks(",".join(name for name in names if not name.startswith("/"))), *folders)


def _parsed_by(parse: Callable[[str], Any]) -> BeforeValidator:
    """Parse a value that is one line of text, as in the environment."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


_LIST = _parsed_by(parse_list)
Networks = Annotated[tuple[Network, ...], NoDecode, _parsed_by(parse_networks)]
Sources = Annotated[tuple[RecallSource, ...], NoDecode, BeforeValidator(channel_names), _LIST]
Weights = Annotated[dict[str, float], NoDecode, BeforeValidator(parse_weights)]


class Settings(BaseSettings):
    """One installation's settings. Field ``x`` is the variable ``CHORDWISE_X``; `.env.example` documents each."""

    model_config = SettingsConfigDict(env_prefix="CHORDWISE_", frozen=True, extra="forbid")

    # Addresses
    mysql_url: SecretStr = SecretStr("mysql+pymysql://chordwise:chordwise@127.0.0.1:3306/chordwise?charset=utf8mb4")
    postgres_url: SecretStr = SecretStr("postgresql+psycopg://chordwise:chordwise@127.0.0.1:5432/chordwise")
    postgres_direct_url: SecretStr | None = None
    redis_url: SecretStr = SecretStr("redis://127.0.0.1:6379/0")
    broker_url: SecretStr | None = None
    mysql_password: SecretStr | None = None
    postgres_password: SecretStr | None = None
    redis_password: SecretStr | None = None
    broker_password: SecretStr | None = None
    store_pool_size: Annotated[int, Field(ge=1, le=100)] = 8
    host_name: str = ""

    # Gateway
    gateway_host: str = "127.0.0.1"
    gateway_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    admin_key: SecretStr | None = None
    oidc: Annotated[SignOn | None, NoDecode, BeforeValidator(parse_object)] = None
    max_body_bytes: Annotated[int, Field(ge=1024)] = 128 * 1024 * 1024
    max_document_bytes: Annotated[int, Field(ge=1)] = 32 * 1024 * 1024
    trusted_proxies: Networks = ()
    mcp_allowed_origins: Annotated[tuple[str, ...], NoDecode, _LIST] = ()
    otlp_endpoint: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    flower_url: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    flower_link: Annotated[str, Field(pattern=r"^(https?://\S+)?$")] = ""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    # Ingestion
    chunk_max_tokens: Annotated[int, Field(ge=16, le=8192)] = 400
    chunk_overlap: Annotated[float, Field(ge=0.0, le=0.5)] = 0.2
    ingest_batch_documents: Annotated[int, Field(ge=1, le=1024)] = 64
    ingest_tenant_batches: Annotated[int, Field(ge=0)] = 8
    ingest_lease_s: Annotated[float, Field(ge=1)] = 30.0
    parser_memory_bytes: Annotated[int, Field(ge=256 * 1024 * 1024)] = 1024 * 1024 * 1024
    parser_timeout_s: Annotated[float, Field(ge=0.1, le=600)] = 10.0
    ocr_languages: Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_]*(\+[A-Za-z][A-Za-z0-9_]*)*)?$")] = ""
    ocr_max_pages: Annotated[int, Field(ge=1, le=1600)] = 100
    ocr_page_timeout_s: Annotated[float, Field(ge=1, le=600)] = 15.0
    fetch_allow_networks: Annotated[tuple[Network | Path, ...], NoDecode, _parsed_by(parse_places)] = ()
    ingest_max_attempts: Annotated[int, Field(ge=1, le=100)] = 12
    previous_generation_kept_s: Annotated[float, Field(ge=0)] = 86_400.0
    sweep_interval_s: Annotated[float, Field(ge=0.5)] = 5.0
    quota_documents: Annotated[int, Field(ge=0)] = 1_000_000
    quota_chunks: Annotated[int, Field(ge=0)] = 10_000_000
    quota_queued: Annotated[int, Field(ge=0)] = 200_000
    quota_tokens: Annotated[int, Field(ge=0)] = 1_000_000_000
    quota_answer_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    quota_requests_per_minute: Annotated[int, Field(ge=0, le=10_000_000)] = 30_000

    # Privacy and audit
    mask_kinds: Annotated[tuple[MaskedKind, ...], NoDecode, _LIST] = tuple(MaskedKind)
    mask_embeddings: bool = False
    audit_query_text: bool = False
    audit_keep_days: Annotated[int, Field(ge=1, le=36_500)] = 365
    job_keep_days: Annotated[int, Field(ge=0, le=36_500)] = 90
    usage_keep_days: Annotated[int, Field(ge=0, le=36_500)] = 400
    metrics_tenants: bool = False

    # Webhooks
    secret_key: SecretStr | None = None
    webhook_allow_private: Networks = ()

    # Retrieval
    pgvector_distance: Distance = "cosine"
    retrieval_topk: Annotated[int, Field(ge=1, le=1000)] = 10
    rrf_k: Annotated[int, Field(ge=0)] = RRF_K
    recall_sources: Sources = ("keyword", "semantic")
    recall_source_weights: Weights = {"keyword": 0.7, "semantic": 0.3, "faq": 0.1}
    keyword_engine: Literal["mysql", "tantivy"] = "tantivy"
    keyword_index_dir: Path = Path("~/.cache/chordwise/keyword-index")
    vector_index: VectorIndex = "auto"
    semantic_index_memory_mb: Annotated[int, Field(ge=16, le=1_000_000)] = 1536
    breaker_failures: Annotated[int, Field(ge=1, le=1000)] = 5
    recall_timeout_ms: ChannelTime = 800
    recall_retry: Annotated[int, Field(ge=0, le=3)] = 1
    recall_merge_strategy: Literal["rrf", "weighted", "custom"] = "weighted"
    recall_degrade_threshold: Annotated[float, Field(ge=0, le=1)] = 0.4
    recall_fallback_enabled: bool = True
    recall_experiment_enabled: bool = False
    recall_experiment_platform: Literal["none", "internal", "growthbook"] = "none"
    growthbook_features: str = ""
    query_deadline_ms: Annotated[int, Field(ge=200, le=60_000)] = 3000
    query_lane: Lane = "chord"
    query_lane_processes: Annotated[int, Field(ge=0, le=64)] = 2
    query_ttl_s: Annotated[int, Field(ge=10)] = 900
    traces_kept: Annotated[int, Field(ge=0, le=100_000)] = 500
    api_allow_networks: Networks = ()
    api_secrets: Annotated[dict[str, dict[str, SecretStr]], NoDecode] = {}
    result_cache_ttl_s: Annotated[int, Field(ge=0, le=86_400)] = 900

    # Models
    embedding_provider: Literal["local", "openai"] = "local"
    embedding_model: str = "wordllama-l2-supercat-256"
    embedding_dim: Annotated[int, Field(ge=1, le=4000)] = 256
    embedding_batch_texts: Annotated[int, Field(ge=1, le=2048)] = 256
    embedding_concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    embedding_timeout_s: Annotated[float, Field(gt=0)] = 30.0
    embedding_requests_per_minute: Annotated[int, Field(ge=0)] = 0
    embedding_tokens_per_minute: Annotated[int, Field(ge=0)] = 0
    embedding_price_per_million: Annotated[Decimal, Field(ge=0, le=10_000)] = Decimal(0)
    embedding_cache_bytes: Annotated[int, Field(ge=0)] = 64 * 1024 * 1024
    embedding_next_base_url: str = ""
    embedding_next_api_key: SecretStr | None = None
    llm_model: str = ""
    llm_input_price_per_million: Annotated[Decimal, Field(ge=0, le=10_000)] = Decimal(0)
    llm_output_price_per_million: Annotated[Decimal, Field(ge=0, le=10_000)] = Decimal(0)
    llm_timeout_s: Annotated[float, Field(gt=0)] = 2.0
    rerank_url: str = ""
    rerank_dialect: Literal["cohere", "jina", "voyage", "tei"] = "cohere"
    rerank_model: str = ""
    rerank_api_key: SecretStr | None = None
    rerank_timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    context_tokenizer: str = "llama-2"

    @model_validator(mode="before")
    @classmethod
    def _dimension_of_model(cls, values: Any) -> Any:
        """Take the dimension of a built-in model from its name unless it is set."""
        built_in = local_model(str(values.get("embedding_model"))) if isinstance(values, dict) else None
        if built_in is None or "embedding_dim" in values or values.get("embedding_provider", "local") != "local":
            return values
        return {**values, "embedding_dim": built_in.dimensions[-1]}

    @field_validator("api_secrets", mode="before")
    @classmethod
    def _read_secrets(cls, value: Any) -> Any:
        """Accept a JSON object of tenants, each with an object of named secrets."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value) if value.strip() else {}
        except ValueError:
            raise ValueError('must be a JSON object, as in {"acme": {"crm": "…"}}') from None

    @field_validator("mcp_allowed_origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Return origins in the form that browsers send, so that they can be compared."""
        if not all(re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s,]+", origin) for origin in value):
            raise ValueError("must hold origins such as https://agents.example.com, without a path")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        for name, weight in self.recall_source_weights.items():
            if name not in {"keyword", "semantic", "faq", "api"}:
                raise ValueError(f"CHORDWISE_RECALL_SOURCE_WEIGHTS names an unknown channel: {name}")
            if not 0 <= weight <= 100:
                raise ValueError(f"CHORDWISE_RECALL_SOURCE_WEIGHTS: weight of {name} must be between 0 and 100")
        if self.ocr_max_pages * self.ocr_page_timeout_s > LONGEST_RECOGNITION_S:
            raise ValueError(
                f"CHORDWISE_OCR_MAX_PAGES times CHORDWISE_OCR_PAGE_TIMEOUT_S must be at most {LONGEST_RECOGNITION_S} s,"
                " because a task is ended after half an hour"
            )
        if not self.recall_sources:
            raise ValueError("CHORDWISE_RECALL_SOURCES must name at least one channel")
        if self.embedding_provider == "local" and (flaw := flaw_of(self.embedding_model, self.embedding_dim)):
            field, _, demand = flaw.partition(" ")
            raise ValueError(f"CHORDWISE_EMBEDDING_{'DIM' if field == 'dimension' else field.upper()} {demand}")
        if self.embedding_provider == "openai" and self.embedding_model.startswith("wordllama"):
            raise ValueError(
                "CHORDWISE_EMBEDDING_MODEL must name the service's model when CHORDWISE_EMBEDDING_PROVIDER is openai"
            )
        if self.recall_experiment_platform == "growthbook" and find_spec("growthbook") is None:
            raise ValueError(
                "CHORDWISE_RECALL_EXPERIMENT_PLATFORM is growthbook, but the package growthbook is not installed here:"
                " install chordwise with the extra experiments, or choose none or internal"
            )
        if self.recall_experiment_platform == "growthbook" and not self.growthbook_features:
            raise ValueError("CHORDWISE_GROWTHBOOK_FEATURES must be the path or URL of GrowthBook's features")
        if self.query_lane == "in_process" and not self.query_lane_processes:
            raise ValueError("CHORDWISE_QUERY_LANE_PROCESSES must not be 0 when CHORDWISE_QUERY_LANE is in_process")
        if self.rerank_url and not self.rerank_url.startswith(("http://", "https://")):
            raise ValueError("CHORDWISE_RERANK_URL must begin with http:// or https://")
        if self.rerank_url and self.rerank_dialect != "tei" and not self.rerank_model:
            raise ValueError(
                "CHORDWISE_RERANK_MODEL must name the service's model, unless CHORDWISE_RERANK_DIALECT is tei"
            )
        if self.context_tokenizer not in ("estimate", "llama-2") and not Path(self.context_tokenizer).is_file():
            raise ValueError("CHORDWISE_CONTEXT_TOKENIZER must be estimate, llama-2 or the path of a tokenizer.json")
        if 0 < self.previous_generation_kept_s < self.retired_grace_s:
            raise ValueError("CHORDWISE_PREVIOUS_GENERATION_KEPT_S must be 0 or at least five times a query's deadline")
        return self

    def reranker_for(self, choice: RerankProvider | Literal["auto"]) -> RerankProvider:
        """Return the reranker for a plan's choice. ``auto``: a rerank service, else a language model, else local. Local
        replaces what is not configured."""
        is_configured = {"http": bool(self.rerank_url), "llm": bool(self.llm_model), "local": True}
        order: tuple[RerankProvider, ...] = ("http", "llm", "local") if choice == "auto" else (choice, "local")
        return next(provider for provider in order if is_configured[provider])

    @property
    def retired_grace_s(self) -> float:
        """How long what was replaced stays readable for queries that began before: five of their deadlines."""
        return 5 * self.query_deadline_ms / 1000

    @property
    def compute_wait_s(self) -> float:
        """How long a computation waits for a worker to begin it: five deadlines of a query."""
        return 5 * self.query_deadline_ms / 1000

    @property
    def fetch_networks(self) -> tuple[Network, ...]:
        """The networks from which documents may be fetched although they are not public."""
        return tuple(place for place in self.fetch_allow_networks if not isinstance(place, Path))

    @property
    def source_folders(self) -> tuple[Path, ...]:
        """The folders of this host below which sources may be followed."""
        return tuple(place for place in self.fetch_allow_networks if isinstance(place, Path))

    @property
    def broker(self) -> str:
        """The URL of the broker: its own setting, or Redis."""
        return (self.broker_url or self.redis_url).get_secret_value()

    @property
    def has_redis_as_broker(self) -> bool:
        """Whether the broker is a Redis, the same as that of results or another."""
        return urlsplit(self.broker).scheme in REDIS_SCHEMES

    @property
    def host(self) -> str:
        """The name of this host: its own setting, or the machine's."""
        return self.host_name or socket.gethostname()


_SCHEMES: dict[str, tuple[str, ...]] = {
    "mysql": ("mysql+pymysql",),
    "postgres": ("postgresql+psycopg",),
    "postgres_direct": ("postgresql+psycopg",),
    "redis": REDIS_SCHEMES,
    "broker": (*REDIS_SCHEMES, "amqp", "amqps", "pyamqp"),
}


def _with_passwords(read: Settings) -> Settings:
    """Return the settings with every password quoted into its URL. Raises ValueError."""
    urls: dict[str, SecretStr] = {}
    for server, schemes in _SCHEMES.items():
        url: SecretStr | None = getattr(read, f"{server}_url")
        if url is None or (server in ("broker", "postgres_direct") and not url):
            continue
        account = server.partition("_")[0]
        password: SecretStr | None = getattr(read, f"{account}_password")
        if server == "broker" and not password and urlsplit(url.get_secret_value()).scheme not in schemes:
            continue  # another broker of Celery, with URL rules of its own
        try:
            password_variable = f"CHORDWISE_{account.upper()}_PASSWORD"
            urls[f"{server}_url"] = completed(url, password, schemes=schemes, password_variable=password_variable)
        except ValueError as error:
            raise Misconfigured(f"CHORDWISE_{server.upper()}_URL {error}") from None
    return read.model_copy(update=urls)


NAMES: Final = frozenset(f"{PREFIX}{field.upper()}" for field in Settings.model_fields)


def load(environment: dict[str, Any] | None = None) -> Settings:
    """Read the settings from the environment or ``environment`` (by field names), with passwords put into the URLs.
    Raises Misconfigured, which names the variable and never its value; also for a variable that is no setting."""
    if flaw := flaw_of_names(os.environ.items(), NAMES):
        raise Misconfigured(flaw)
    try:
        return _with_passwords(Settings(**(environment or {})))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        variable = "CHORDWISE_" + str(first["loc"][0]).upper() if first["loc"] else ""
        if variable == "CHORDWISE_OIDC":
            variable += "".join(f" {name}" for name in first["loc"][1:])
        message = first["msg"].removeprefix("Value error, ")
        raise Misconfigured(f"{variable}: {message}" if variable else message) from None
    except ValueError as error:
        raise Misconfigured(f"a CHORDWISE_ variable cannot be read: {error}") from None


@functools.cache
def settings() -> Settings:
    """Return the settings of this process, read at the first call."""
    return load()
