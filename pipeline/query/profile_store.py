"""Profiles and experiments of one tenant, in MySQL."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from pipeline.database.mysql_tables import experiments, profile_heads, profiles
from pipeline.database.rows import TenantStore, now, record_of, to_json
from pipeline.query.built_in_profiles import (
    BUILT_IN,
    BUILT_IN_VERSION,
    ProfileHead,
    ProfileVersion,
    built_in,
    built_in_heads,
)
from pipeline.tenants.audit_store import Audit


class Profiles(TenantStore):
    """One tenant's profiles: versions are only added, a head names the active one."""

    def heads(self) -> dict[str, ProfileHead]:
        """Return every profile that the tenant may name, built-in ones included."""
        heads = built_in_heads()
        for row in self._run(_HEADS).mappings().all():
            name = row["name"]
            active = self._version(name, row["active_version"], row, "a")
            trial = self._version(name, row["trial_version"], row, "t") if row["trial_version"] else None
            if active is not None:
                heads[name] = ProfileHead(
                    name=name,
                    active=active,
                    trial=trial,
                    trial_share=row["trial_share"] if trial else 0.0,
                    previous_version=row["previous_version"],
                )
        return heads

    def versions(self, name: str) -> list[ProfileVersion]:
        """Return every version of a profile, newest first."""
        mine = select(profiles).where(self._own(profiles), profiles.c.name == name)
        rows = self._connection.execute(mine.order_by(profiles.c.version.desc()))
        versions = [record_of(ProfileVersion, row, config=json.loads(row.config)) for row in rows]
        first = built_in(name)
        return [*versions, first] if first is not None else versions

    def add(self, name: str, config: Mapping[str, Any], *, note: str, created_by: str) -> int:
        """Write a new version, not yet active, and return its number. Concurrent calls wait for each other."""
        self._run("SELECT tenant_id FROM tenants WHERE tenant_id = :tenant FOR UPDATE")
        latest = self._run("SELECT MAX(version) FROM profiles WHERE tenant_id = :tenant AND name = :name", name=name)
        version = int(latest.scalar() or (BUILT_IN_VERSION if name in BUILT_IN else 0)) + 1
        row = {"config": to_json(dict(config)), "note": note, "created_by": created_by, "created_at": now()}
        self._insert_row(profiles, name=name, version=version, **row)
        self._audit("profile_store", name, version=version)
        return version

    def point(self, name: str, version: int, *, share: float = 1.0, back: bool = False) -> bool:
        """Activate ``version`` for all queries, or for a ``share`` of them beside the active one; False without such a
        version. ``back``: audited as a rollback."""
        if not any(stored.version == version for stored in self.versions(name)):
            return False
        moment = now()
        if self._run(_HEAD, name=name).one_or_none() is None:
            first = BUILT_IN_VERSION if name in BUILT_IN else version
            # One that was inserted concurrently stays as it is.
            self._upsert(profile_heads, {}, {"name": name}, active_version=first, updated_at=moment)
        self._run(_ACTIVATE if share >= 1 else _TRY, name=name, version=version, share=share, now=moment)
        self._audit("profile_rollback" if back else "profile_activate", name, version=version, share=share)
        return True

    def remove(self, name: str) -> bool:
        """Delete every stored version; a built-in profile returns to its built-in version. False if there was none."""
        # A head without versions, or versions that were never active, are a profile too.
        deleted = sum(self._remove_rows(table, name=name) for table in (profiles, profile_heads))
        if deleted:
            self._audit("profile_remove", name)
        return bool(deleted)

    def _audit(self, action: str, name: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[name], **detail)

    def _version(self, name: str, version: int, row: Mapping[Any, Any], prefix: str) -> ProfileVersion | None:
        if row[f"{prefix}_config"] is None:
            return built_in(name) if version == BUILT_IN_VERSION else None
        config = json.loads(row[f"{prefix}_config"])
        return ProfileVersion(name=name, version=version, config=config, note=row[f"{prefix}_note"])


class Experiments(TenantStore):
    """One tenant's experiments."""

    def all(self) -> dict[str, tuple[dict[str, Any], bool]]:
        """Return each experiment by id, and whether it is active."""
        rows = self._run("SELECT experiment_id, config, active FROM experiments WHERE tenant_id = :tenant")
        return {experiment_id: (json.loads(config), bool(active)) for experiment_id, config, active in rows}

    def put(self, experiment_id: str, config: Mapping[str, Any], *, active: bool) -> None:
        """Write an experiment, replacing one of the same id."""
        moment = now()
        values = {"config": to_json(dict(config)), "active": active, "updated_at": moment}
        self._upsert(experiments, {"experiment_id": experiment_id}, values, created_at=moment)
        Audit(self._connection, self._tenant_id).wrote("experiment_store", ids=[experiment_id], active=active)

    def remove(self, experiment_id: str) -> bool:
        """Delete an experiment. False if there is none."""
        deleted = bool(self._remove_rows(experiments, experiment_id=experiment_id))
        if deleted:
            Audit(self._connection, self._tenant_id).wrote("experiment_remove", ids=[experiment_id])
        return deleted


_HEADS = (
    "SELECT h.name, h.active_version, h.previous_version, h.trial_version, h.trial_share,"
    " a.config AS a_config, a.note AS a_note, t.config AS t_config, t.note AS t_note FROM profile_heads h"
    " LEFT JOIN profiles a ON a.tenant_id = h.tenant_id AND a.name = h.name AND a.version = h.active_version"
    " LEFT JOIN profiles t ON t.tenant_id = h.tenant_id AND t.name = h.name AND t.version = h.trial_version"
    " WHERE h.tenant_id = :tenant"
)
_HEAD = "SELECT active_version FROM profile_heads WHERE tenant_id = :tenant AND name = :name FOR UPDATE"
_ACTIVATE = (
    "UPDATE profile_heads SET previous_version = IF(active_version = :version, previous_version, active_version),"
    " active_version = :version, trial_version = NULL, trial_share = 0, updated_at = :now"
    " WHERE tenant_id = :tenant AND name = :name"
)
_TRY = (
    "UPDATE profile_heads SET trial_version = :version, trial_share = :share, updated_at = :now"
    " WHERE tenant_id = :tenant AND name = :name"
)
