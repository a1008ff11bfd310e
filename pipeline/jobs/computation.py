"""Computations: work that a worker does, in one step or several, while a caller of the gateway waits."""

import enum
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NewType

from chordwise.contract.tenant import AuditActor
from pipeline import errors
from pipeline.errors import PipelineError
from pipeline.records import TenantId

ComputationId = NewType("ComputationId", str)

LARGEST_ANSWER: Final = 48 * 1024 * 1024  # bytes: a preview of the largest document, every character of it escaped


MOST_IN_REDIS: Final = 2 * 1024 * 1024  # bytes of a body; a larger one goes to MySQL


class ComputationKind(enum.StrEnum):
    """Kinds of computations."""

    PREVIEW = "preview"  # parse and cut one document
    BOOK = "book"  # read and check a book of examples, and accept its rows
    CHUNK_EDIT = "chunk_edit"  # analyse and embed changed chunks, and store them
    VERIFY = "verify"  # compare the two stores
    STORED = "stored"  # read the text of a stored document, render a page of it, or cut it for a preview
    EXPLAIN = "explain"  # find the stage at which a query lost a chunk
    WRITE = "write"  # have a language model write an answer from the passages of a query


class BookForm(enum.StrEnum):
    """The form in which a book of examples was uploaded."""

    WORKBOOK = "workbook"
    JSON_FILE = "json_file"  # in any encoding that files may have
    JSON_BODY = "json_body"  # the body of a request, whose shape the gateway has checked


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputationLimits:
    """Bounds of one kind of computation. ``step_s``: the seconds of a step, which a worker then stops; the gateway
    waits a little longer. ``lane``: computations of one lane and tenant run ``at_once`` at a time in each gateway."""

    step_s: float
    lane: str
    at_once: int = 1


LIMITS: Final[Mapping[ComputationKind, ComputationLimits]] = {
    ComputationKind.PREVIEW: ComputationLimits(step_s=60.0, lane="documents"),
    ComputationKind.BOOK: ComputationLimits(step_s=600.0, lane="documents"),
    ComputationKind.CHUNK_EDIT: ComputationLimits(step_s=300.0, lane="edits"),
    ComputationKind.VERIFY: ComputationLimits(step_s=300.0, lane="verify"),
    ComputationKind.STORED: ComputationLimits(step_s=60.0, lane="stored", at_once=2),
    ComputationKind.EXPLAIN: ComputationLimits(step_s=15.0, lane="explain", at_once=4),
    ComputationKind.WRITE: ComputationLimits(step_s=65.0, lane="write", at_once=4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """One computation. ``asked``: its parameters as JSON; ``body``: the bytes it works on, may be empty; ``step``: from 0;
    ``state``: left by the previous step, None in the first; ``actor``: the caller, for the audit."""

    tenant_id: TenantId
    computation_id: ComputationId
    kind: ComputationKind
    asked: Mapping[str, Any]
    body: bytes = b""
    request_id: str = ""
    actor: AuditActor = field(default_factory=AuditActor)
    step: int = 0
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of a computation. ``body``: the answer's bytes. ``about``: facts about the answer that the route needs."""

    body: bytes
    about: Mapping[str, Any] = field(default_factory=dict)


StepResult = Done | Mapping[str, Any]  # the end, or the state, which the next step gets as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The end of a computation that raised ``error``; None means an internal defect, which the worker has logged."""

    error: PipelineError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputationProgress:
    """The progress of a computation. ``begun``: a worker took the present step. ``text``: the text's beginning."""

    step: int
    begun: bool
    outcome: Done | Failed | None
    text: str = field(default="", compare=False)  # a growing text is no further step


_KINDS: Final = {
    name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, PipelineError)
}
_ATTRIBUTES: Final = ("code", "retry_after_s", "quota")


def error_as_json(error: PipelineError) -> dict[str, Any]:
    """Describe an error so that another process can raise it again, without the addresses, which its log has."""
    kind = next(base.__name__ for base in type(error).__mro__ if base.__name__ in _KINDS)
    carried = {name: getattr(error, name) for name in _ATTRIBUTES if hasattr(error, name)}
    return {"kind": kind, "detail": error.public, **carried}


def error_from_json(described: Mapping[str, Any]) -> PipelineError:
    """Return the error that `error_as_json` described: of the same class in `pipeline.errors`, with the same code."""
    kind = _KINDS[described["kind"]]
    error = kind.__new__(kind)
    error.args = (described["detail"],)
    for name in _ATTRIBUTES:
        if name in described:
            setattr(error, name, described[name])
    return error
