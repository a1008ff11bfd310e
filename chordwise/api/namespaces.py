"""Namespaces, and whether both stores agree on them."""

from __future__ import annotations

from collections.abc import Iterable

from chordwise.contract import namespace
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps

NamespaceInfo = namespace.Namespace
NamespaceDeletion = namespace.NamespaceDeleted
Differences = namespace.Differences
NamespaceAlignment = namespace.NamespaceAlignment


Alignment = namespace.Alignment
NamespaceFields = namespace.NamespaceFields


class NamespaceOperations(Resource):
    """Operations on namespaces."""

    @operation
    def namespaces(
        self, *, examples: bool = False, contains: str | None = None, sizes: bool = False
    ) -> Steps[list[NamespaceInfo]]:
        """List the tenant's namespaces: with ``examples`` only those of the example library, with ``contains`` those
        with this text in their name. ``sizes``: with the ``bytes`` of their documents."""
        selection = {"examples": examples or None, "contains": contains or None, "sizes": sizes or None}
        return self._pages(NamespaceInfo, "/v1/namespaces", selection)

    @operation
    def namespace_fields(self, namespace: str) -> Steps[NamespaceFields]:
        """Return the types, authors, tags, metadata and times in use in a namespace."""
        return self._one(NamespaceFields, "GET", path("namespaces", namespace, "fields"))

    @operation
    def delete_namespace(self, namespace: str) -> Steps[NamespaceDeletion]:
        """Delete a namespace with all its documents, pending ones too."""
        return self._one(NamespaceDeletion, "DELETE", path("namespaces", namespace))

    @operation
    def verify(
        self,
        namespaces: Iterable[str] | str | None = None,
        *,
        repair: bool = False,
        delete_share: float | None = None,
        timeout: float = 600.0,
    ) -> Steps[Alignment]:
        """Compare the two stores chunk by chunk, in the given namespaces or in all; with ``repair`` remove the differences.

        A repair that would delete a large share of the tenant's vectors or rows of chunks withholds that; ``delete_share``
        (0 to 1) confirms it.
        """
        names = [namespaces] if isinstance(namespaces, str) else namespaces
        body = {
            "namespaces": None if names is None else list(names),
            "repair": repair,
            **given(delete_share=delete_share),
        }
        hold_s = max(0.0, timeout - self._timeout_s)
        return self._one(Alignment, "POST", "/v1/verify", body=body, hold_s=hold_s)
