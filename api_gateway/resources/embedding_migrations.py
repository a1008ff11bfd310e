"""Migrations of the installation to another embedding model, for its operator."""

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, Self

from fastapi import APIRouter, Depends, Path, Response
from pydantic import Field, model_validator

from api_gateway.gateway import Gateway
from api_gateway.http.auth import require_operator
from api_gateway.http.fields import NamespaceName, Shape, Wire
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import route
from api_gateway.resources.route_parts import CurrentGateway, OperatorJson, existing
from chordwise.contract.migration import EmbeddingMigration
from pipeline.embedding.model_comparison import Gate, GoldenQuery
from pipeline.errors import Misconfigured
from pipeline.local_models import flaw_of, local_model
from pipeline.maintenance import migrate_model
from pipeline.maintenance.migrate_model import compare_models
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.accounts import TENANT_ID

_DEFAULT = Gate()


class StartRequest(Wire):
    """The model to migrate to. `service`: `default` is the one at `OPENAI_BASE_URL`, `next` the one at
    `CHORDWISE_EMBEDDING_NEXT_BASE_URL`; keys are settings and never in a request."""

    example: ClassVar = {"provider": "openai", "model": "bge-m3", "dimension": 1024}
    most_bytes: ClassVar = 4 * 1024 * 1024

    provider: Literal["local", "openai"]
    model: Annotated[str, Field(min_length=1, max_length=255)]
    dimension: Annotated[int, Field(ge=1, le=4000)]
    service: Literal["default", "next"] = "default"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.provider == "local" and (flaw := flaw_of(self.model, self.dimension)):
            raise ValueError(flaw)
        if self.provider == "local" and self.service == "next":
            raise ValueError("the local model has no service")
        if self.provider == "openai" and local_model(self.model):
            raise ValueError(f"{self.model} is a model of the local provider")
        return self


class GoldenQueryRequest(Wire):
    """A question to both models. `relevant`: grades of the expected documents, by their ids."""

    tenant_id: Annotated[str, Field(pattern=f"^{TENANT_ID.pattern}$")]
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=64)]
    query_text: Annotated[str, Field(min_length=1, max_length=8192)]
    relevant: Annotated[dict[str, int], Field(max_length=1000)] | None = None

    @property
    def golden(self) -> GoldenQuery:
        """Return the question as a record."""
        namespaces = tuple(Namespace(name) for name in self.namespaces)
        tenant_id = TenantId(self.tenant_id)
        return GoldenQuery(tenant_id=tenant_id, namespaces=namespaces, text=self.query_text, grades=self.relevant)


class CompareRequest(Wire):
    """The questions and the thresholds of a comparison. Without `queries`, up to `sample` are taken from the latest
    searches, and from the texts themselves where those are too few."""

    example: ClassVar = {
        "queries": [
            {"tenant_id": "acme", "namespaces": ["kb"], "query_text": "reset the controller", "relevant": {"d1": 2}}
        ],
        "max_ndcg_loss": 0.02,
    }
    most_bytes: ClassVar = 4 * 1024 * 1024

    queries: Annotated[list[GoldenQueryRequest], Field(max_length=500, default_factory=list)]
    sample: Annotated[int, Field(ge=1, le=500)] = 50
    k: Annotated[int, Field(ge=1, le=100)] = _DEFAULT.k
    min_overlap: Annotated[float, Field(ge=0, le=1, strict=False)] = _DEFAULT.min_overlap
    max_ndcg_loss: Annotated[float, Field(ge=0, le=1, strict=False)] = _DEFAULT.max_ndcg_loss

    @property
    def gate(self) -> Gate:
        """Return the thresholds."""
        return Gate(k=self.k, min_overlap=self.min_overlap, max_ndcg_loss=self.max_ndcg_loss)

    @property
    def golden(self) -> list[GoldenQuery]:
        """Return the questions."""
        return [query.golden for query in self.queries]


class SwitchRequest(Wire):
    """`skip_gate`: switch without a passed comparison. `accept_missing`: switch although the model refused some chunks."""

    example: ClassVar = {}
    most_bytes: ClassVar = 4 * 1024 * 1024

    skip_gate: bool = False
    accept_missing: bool = False


class EmbeddingMigrationList(Shape):
    """All migrations, newest first."""

    data: list[EmbeddingMigration]


router = APIRouter(tags=["admin"], dependencies=[Depends(require_operator)])

Number = Annotated[int, Path(ge=1, le=2**31, description="The migration, as the start gave it.")]

_ROOT = "/v1/admin/embedding-migrations"


@router.post(
    _ROOT,
    **route(
        "Start a model migration",
        EmbeddingMigration,
        "The migration has begun; `Location` reports its progress.",
        404,
        409,
        status=202,
    ),
)
async def start(gateway: CurrentGateway, body: OperatorJson[StartRequest]) -> Response:
    """Start a migration, after one test call to the new model. Searches continue as before; new documents are embedded
    with both models. A second request for the same model returns the running migration."""

    def begin() -> Response:
        try:
            begun = migrate_model.start(body.provider, body.model, body.dimension, body.service, gateway.resources)
        except Misconfigured as error:
            raise invalid([{"pointer": "/model", "detail": f"cannot be used: {error}"}]) from None
        return _send(begun.space.number, gateway, status=202)

    return await gateway.run_heavy(begin)


@router.get(_ROOT, **route("List model migrations", EmbeddingMigrationList, "Every migration, newest first."))
async def list_migrations(gateway: CurrentGateway) -> Response:
    """List the migrations; empty if the model is still the one of the settings."""
    migrations = await gateway.run(migrate_model.every_status, gateway.resources)
    return json_response({"data": migrations})


@router.get(
    _ROOT + "/{number}", **route("Get a migration", EmbeddingMigration, "The migration with its progress.", 404)
)
async def get_migration(gateway: CurrentGateway, number: Number) -> Response:
    """Return a migration. `ready` means that every visible chunk has a vector of the new model for its current text."""
    return await gateway.run(_send, number, gateway)


@router.post(
    _ROOT + "/{number}/compare",
    **route("Compare both models", EmbeddingMigration, "The migration with the results of the comparison.", 404, 409),
)
async def compare(gateway: CurrentGateway, number: Number, body: OperatorJson[CompareRequest]) -> Response:
    """Ask both models the same questions. With judgments nDCG decides, otherwise the share of common first hits. The
    numbers are stored, the texts are not."""
    return await _steer(
        gateway, number, lambda use: compare_models(number, body.golden, body.gate, use, sample=body.sample)
    )


@router.post(
    _ROOT + "/{number}/switch",
    **route("Switch to the new model", EmbeddingMigration, "Searches use the new model.", 404, 409),
)
async def switch(gateway: CurrentGateway, number: Number, body: OperatorJson[SwitchRequest]) -> Response:
    """Switch searches to the new model: one row changes, and every process follows within about a second. Refused while
    vectors are missing, and unless the latest comparison has passed. Both models' vectors are kept up to date until
    `finish`."""
    choices = body.model_dump()
    return await _steer(gateway, number, lambda use: migrate_model.switch(number, use, **choices))


@router.post(
    _ROOT + "/{number}/rollback",
    **route("Switch back to the old model", EmbeddingMigration, "Searches use the old model again.", 404, 409),
)
async def rollback(gateway: CurrentGateway, number: Number) -> Response:
    """Switch back at once, as often as needed, until `finish`. `behind` counts documents the old model failed to embed
    since."""
    return await _steer(gateway, number, lambda use: migrate_model.rollback(number, use))


@router.post(
    _ROOT + "/{number}/finish",
    **route("Delete the old model's vectors", EmbeddingMigration, "The old vectors are being deleted.", 404, 409),
)
async def finish(gateway: CurrentGateway, number: Number) -> Response:
    """Delete the old model's vectors once no query can need them, about half a minute later. This cannot be undone."""
    return await _steer(gateway, number, lambda use: migrate_model.finish(number, use))


@router.post(
    _ROOT + "/{number}/abort",
    **route("Abort a model migration", EmbeddingMigration, "The new vectors are being deleted.", 404, 409),
)
async def abort(gateway: CurrentGateway, number: Number) -> Response:
    """Abort the migration; searches are not affected. After a switch, roll back first."""
    return await _steer(gateway, number, lambda use: migrate_model.abort(number, use))


async def _steer(gateway: Gateway, number: int, change: Callable[[Resources], object]) -> Response:
    """Apply the change, and return the migration afterwards."""

    def run() -> Response:
        _send(number, gateway)
        change(gateway.resources)
        return _send(number, gateway)

    return await gateway.run_heavy(run)


def _send(number: int, gateway: Gateway, *, status: int = 200) -> Response:
    not_found = Problem(404, "migration_not_found", f"There is no migration {number}.")
    migration = existing(migrate_model.status(number, gateway.resources), not_found)
    headers = {"Location": f"{_ROOT}/{number}"} if status == 202 else None
    return json_response(migration, status=status, headers=headers)
