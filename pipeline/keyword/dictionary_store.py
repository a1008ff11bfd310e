"""Store the tenants' dictionaries: one for each namespace, and one for all of them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from chordwise.contract.dictionary import RuleOut
from pipeline.database.rows import TenantStore, now, to_json
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Dictionary
from pipeline.records import Namespace
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces


class Dictionaries(TenantStore):
    """One tenant's dictionaries."""

    def load(self, namespaces: Sequence[Namespace]) -> dict[Namespace, Dictionary]:
        """Return the existing dictionaries of these namespaces."""
        rows = self._run(_LOAD, namespaces=list(namespaces))
        return {Namespace(namespace): _dictionary(json.loads(body)) for namespace, body in rows}

    def versions(self, namespaces: Sequence[Namespace]) -> dict[Namespace, int]:
        """Return the version of each existing dictionary; every change gives a new one."""
        rows = self._run(_VERSIONS, namespaces=list(namespaces))
        return {Namespace(namespace): version for namespace, version in rows}

    def replace(self, namespace: Namespace, dictionary: Dictionary) -> int:
        """Replace the dictionary of the namespace. Returns its new version."""
        self._run(_REPLACE, namespace=namespace, said=to_json(asdict(dictionary)), now=now())
        self._revise(namespace)
        version = self.versions([namespace])[namespace]
        self._audit("dictionary_store", namespace, version=version)
        return version

    def delete(self, namespace: Namespace) -> bool:
        """Delete the dictionary of the namespace. Returns False if there was none."""
        # The version row stays, so that a later dictionary of the same name is not taken for this one.
        self._revise(namespace)
        deleted = self._run(_DELETE, namespace=namespace, now=now()).rowcount > 0
        if deleted:
            self._audit("dictionary_delete", namespace)
        return deleted

    def _revise(self, namespace: Namespace) -> None:
        """Revise the namespaces that the dictionary applies to: cached answers do not use its words."""
        namespaces = Namespaces(self._connection, self._tenant_id)
        if namespace == EVERY_NAMESPACE:
            namespaces.revise_all()
        else:
            namespaces.revise(namespace)

    def _audit(self, action: str, namespace: Namespace, **detail: Any) -> None:
        namespaces = [] if namespace == EVERY_NAMESPACE else [namespace]
        Audit(self._connection, self._tenant_id).wrote(action, namespaces=namespaces, count=1, **detail)


def _dictionary(stored: dict[str, Any]) -> Dictionary:
    return Dictionary(
        synonyms=tuple(map(tuple, stored["synonyms"])),
        stop_words=tuple(stored["stop_words"]),
        phrases=tuple(stored["phrases"]),
        rules=tuple(RuleOut(**rule) for rule in stored["rules"]),
    )


_LOAD = (
    "SELECT namespace, said FROM dictionaries WHERE tenant_id = :tenant AND namespace IN :namespaces"
    " AND said IS NOT NULL"
)
_VERSIONS = (
    "SELECT namespace, version FROM dictionaries WHERE tenant_id = :tenant AND namespace IN :namespaces"
    " AND said IS NOT NULL"
)
_REPLACE = (
    "INSERT INTO dictionaries (tenant_id, namespace, said, version, updated_at)"
    " VALUES (:tenant, :namespace, :said, 1, :now)"
    " ON DUPLICATE KEY UPDATE said = :said, version = version + 1, updated_at = :now"
)
_DELETE = (
    "UPDATE dictionaries SET said = NULL, version = version + 1, updated_at = :now"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND said IS NOT NULL"
)
