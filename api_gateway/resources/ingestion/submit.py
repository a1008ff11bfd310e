"""What both ways of sending documents end in: a batch in the ledger, or a problem when nothing of it can be taken."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from api_gateway.http.auth import require_same_tenant
from api_gateway.http.bodies import Decoded, Flaw, decode_json, flaws_in
from api_gateway.http.problems import MOST_ERRORS, Problem, invalid, places, pointer
from api_gateway.resources.ingestion.uploads import Envelope, Intake, to_chunking
from pipeline.ingestion.accept import Batch, Refusal
from pipeline.records import Namespace, Priority, Upload
from pipeline.settings import Settings
from pipeline.tenants.tenant_store import Principal


def batch_of(body: bytes, principal: Principal, request_id: str, use: Settings) -> Batch:
    """The batch in the body of POST /v1/documents. Heavy: 10,000 documents take some tenths of a second.

    Raises Problem for a body that is wrong as a whole, and when not one document can be taken.
    """
    decoded = decode_json(body)
    require_same_tenant(principal, decoded.value.get("tenant_id"))
    envelope = _envelope(decoded)
    require_few_enough(len(envelope.documents), use)
    intake = Intake(use, to_chunking(envelope.chunking, use), suspicious=decoded.suspicious)
    entries = [intake.document(value, f"/documents/{place}") for place, value in enumerate(envelope.documents)]
    require_one(entries, intake)
    return Batch(
        tenant_id=principal.tenant_id,
        namespace=Namespace(envelope.namespace),
        request_id=request_id,
        entries=entries,
        on_conflict=envelope.on_conflict,
        priority=Priority(envelope.priority) if envelope.priority else None,
    )


def _envelope(decoded: Decoded) -> Envelope:
    around = {name: value for name, value in decoded.value.items() if name != "documents"}
    flaws: list[Flaw] = list(flaws_in(around)) if decoded.suspicious else []
    if flaws:
        raise invalid([{"pointer": pointer(flaw.path), "detail": flaw.detail} for flaw in flaws[:MOST_ERRORS]])
    try:
        return Envelope.model_validate(decoded.value)
    except ValidationError as error:
        raise invalid(places(error)) from None


def require_few_enough(documents: int, use: Settings) -> None:
    """Raises Problem 422 for more documents than one request may have."""
    limit = use.max_documents_per_batch
    if documents > limit:
        errors = [{"pointer": "/documents", "detail": f"has {documents} entries, the limit is {limit}"}]
        detail = f"A request may have at most {limit} documents, this one has {documents}."
        raise Problem(422, "too_many_documents", detail, errors=errors)


def require_one(entries: Sequence[Upload | Refusal], intake: Intake) -> None:
    """Raises Problem if every document was refused: 413 or 415 if that is what all of them suffer from, else 422."""
    refusals = [entry for entry in entries if isinstance(entry, Refusal)]
    if len(refusals) < len(entries):
        return
    if not refusals:
        raise invalid([{"pointer": "/documents", "detail": "is empty"}])
    codes = {refusal.code for refusal in refusals}
    code = codes.pop() if len(codes) == 1 else "no_valid_document"
    status = {"document_too_large": 413, "unsupported_media_type": 415}.get(code, 422)
    what = refusals[0].detail if len(refusals) == 1 else f"None of the {len(refusals)} documents can be taken."
    raise Problem(status, code, what, errors=intake.places)
