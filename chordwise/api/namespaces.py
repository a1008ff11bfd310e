"""Namespaces, and whether both stores agree on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chordwise.records import Result
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo(Result):
    """A knowledge base and how much is searchable in it."""

    namespace: str
    documents: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDeletion(Result):
    """How much went with a namespace."""

    namespace: str
    documents: int = 0
    generations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAlignment(Result):
    """The two stores in one namespace: chunks without vector, vectors without chunk, vectors of an older text."""

    namespace: str
    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment(Result):
    """A comparison of the two stores, by namespace and in all. ``repaired`` counts the differences repaired on request,
    ``withheld`` the vectors and rows of chunks that a repair did not delete because they are too many."""

    namespaces: tuple[NamespaceAlignment, ...] = ()
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    repaired: int = 0
    withheld: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0

    @property
    def aligned(self) -> bool:
        """Whether there is no difference of any kind."""
        vectors = self.missing or self.orphaned or self.stale or self.misplaced
        return not (vectors or self.miscounted or self.leftover or self.statistics or self.document_vectors)


class NamespaceOperations(Resource):
    """Operations on namespaces."""

    _timeout_s: float

    @operation
    def namespaces(self, *, examples: bool = False) -> Steps[list[NamespaceInfo]]:
        """Every namespace of the tenant with its size; with ``examples`` those that hold examples of the library."""
        return self._pages(NamespaceInfo, "/v1/namespaces", {"examples": examples or None})

    @operation
    def delete_namespace(self, namespace: str) -> Steps[NamespaceDeletion]:
        """Take a namespace away with all its documents, also those on their way."""
        return self._one(NamespaceDeletion, "DELETE", f"/v1/namespaces/{segment(namespace)}")

    @operation
    def verify(
        self,
        namespaces: Iterable[str] | str | None = None,
        *,
        repair: bool = False,
        delete_share: float | None = None,
        timeout: float = 600.0,
    ) -> Steps[Alignment]:
        """Compare the two stores chunk by chunk, in the namespaces given or in all; with ``repair`` put them right.

        A repair that would delete a large share of the tenant's vectors or rows of chunks withholds that; ``delete_share``
        (0 to 1) confirms it.
        """
        chosen = [namespaces] if isinstance(namespaces, str) else namespaces
        body: dict[str, Any] = {"namespaces": None if chosen is None else list(chosen), "repair": repair}
        if delete_share is not None:
            body["delete_share"] = delete_share
        hold_s = max(0.0, timeout - self._timeout_s)
        return self._one(Alignment, "POST", "/v1/verify", body=body, hold_s=hold_s)
