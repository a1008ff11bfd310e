"""Tenants, their API keys and the principals that these stand for. Secrets are never read."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, update

from chordwise.contract.tenant import TenantView
from pipeline.database.mysql_tables import api_keys
from pipeline.database.rows import TenantStore, as_utc, follows, now, readers_of, record_of, to_json, to_naive
from pipeline.database.statements import sql
from pipeline.errors import ErasureUnfinished
from pipeline.filters.readers import EVERY_DOCUMENT, principals_of
from pipeline.tenants import erasure_store
from pipeline.tenants.accounts import (
    IMPERSONATE,
    OPERATOR,
    SCOPES,
    ApiKey,
    Principal,
    TooManyKeys,
    hashed,
    key_id_of,
    new_key,
)
from pipeline.tenants.audit_store import Audit

MOST_KEYS = 1000  # of one tenant, ended ones included: a readable list
_ORDER = (*SCOPES, IMPERSONATE, OPERATOR)


class ApiKeys(TenantStore):
    """The keys of one tenant."""

    def page(self, *, after: tuple[datetime, str] | None, limit: int) -> list[ApiKey]:
        """Return keys, newest first, ended ones included; ``after``: the last one of the page before."""
        at, key_hash = api_keys.c.created_at, api_keys.c.key_hash
        statement = select(api_keys).where(self._own(api_keys)).order_by(at.desc(), key_hash.desc()).limit(limit)
        if after is not None:
            statement = statement.where(follows(at, key_hash, (after[0], func.unhex(after[1]))))
        return [_key(row) for row in self._connection.execute(statement)]

    def one(self, key_id: str, *, lock: bool = False) -> ApiKey | None:
        """Return the key of this id, None if the tenant has none."""
        statement = select(api_keys).where(self._is(key_id))
        row = self._connection.execute(statement.with_for_update() if lock else statement).first()
        return None if row is None else _key(row)

    def issue(
        self,
        name: str,
        scopes: tuple[str, ...],
        *,
        expires_at: datetime | None = None,
        principals: tuple[str, ...] = (),
        token_key: bytes | None = None,
    ) -> ApiKey:
        """Create a key; only its hash is stored. ``token_key``: encrypted, verifies tokens of principals. Raises
        TooManyKeys."""
        key = self._insert(name, scopes, expires_at, principals, token_key)
        self._audit("key_issue", key.key_id, name=name, scopes=list(key.scopes), principals=len(key.principals))
        return key

    def rotate(self, key_id: str, *, overlap: timedelta) -> ApiKey | None:
        """Replace an active key by one with its name, scopes and lifetime; the old one works up to ``overlap`` more.
        None if it is not active. Raises TooManyKeys."""
        old = self.one(key_id, lock=True)
        at = now()
        if old is None or old.state(as_utc(at)) != "active" or old.replaced_by is not None:
            return None
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        expires_at = None if lifetime is None else as_utc(at) + lifetime
        issued = self._insert(old.name, old.scopes, expires_at, old.principals)
        ends = func.least(func.coalesce(api_keys.c.expires_at, at + overlap), at + overlap)
        statement = update(api_keys).where(self._is(key_id))
        self._connection.execute(statement.values(replaced_by=issued.key_id, expires_at=ends))
        self._audit("key_rotate", key_id, replaced_by=issued.key_id, overlap_s=int(overlap.total_seconds()))
        return issued

    def revoke(self, key_id: str) -> bool:
        """Revoke a key now; one that has ended stays as it is. False if the tenant has none of this id."""
        if self.one(key_id, lock=True) is None:
            return False
        active = and_(self._is(key_id), api_keys.c.revoked_at.is_(None))
        if self._connection.execute(update(api_keys).where(active).values(revoked_at=now())).rowcount:
            self._audit("key_revoke", key_id)
        return True

    def _is(self, key_id: str) -> ColumnElement[bool]:
        return and_(self._own(api_keys), func.left(api_keys.c.key_hash, 8) == func.unhex(key_id))

    def _insert(
        self,
        name: str,
        scopes: tuple[str, ...],
        expires_at: datetime | None,
        principals: tuple[str, ...],
        token_key: bytes | None = None,
    ) -> ApiKey:
        if self._run("SELECT COUNT(*) FROM api_keys WHERE tenant_id = :tenant").scalar_one() >= MOST_KEYS:
            raise TooManyKeys(
                f"A tenant has at most {MOST_KEYS} keys, and those that have ended are kept for the audit."
            )
        secret, at = new_key(self._tenant_id), now()
        ordered = tuple(scope for scope in _ORDER if scope in scopes)
        self._insert_row(
            api_keys,
            key_hash=hashed(secret),
            name=name,
            scopes=" ".join(ordered),
            created_at=at,
            expires_at=to_naive(expires_at),
            principals=to_json(list(principals)) if principals else None,
            token_key=token_key,
        )
        return ApiKey(
            key_id=key_id_of(hashed(secret)),
            name=name,
            scopes=ordered,
            created_at=as_utc(at),
            expires_at=expires_at,
            principals=principals,
            signs_tokens=token_key is not None,
            secret=secret,
        )

    def _audit(self, action: str, key_id: str, **detail: Any) -> None:
        Audit(self._connection, self._tenant_id).wrote(action, ids=[key_id], **detail)


def _key(row: Any) -> ApiKey:
    return record_of(
        ApiKey,
        row,
        key_id=key_id_of(bytes(row.key_hash)),
        scopes=tuple(row.scopes.split()),
        principals=readers_of(row.principals) or (),
        signs_tokens=row.token_key is not None,
    )


_USE_RECORDED_AFTER = timedelta(minutes=1)  # a busy key costs one small write a minute, however many gateways there are


class Tenants(TenantStore):
    """The tenant's own row and its keys."""

    def create(self, name: str) -> bool:
        """Create the tenant; False if it exists, and then it stays as it is. Raises ErasureUnfinished while the erasure
        of an earlier tenant of this id is not settled."""
        statement = "INSERT IGNORE INTO tenants (tenant_id, name, created_at) VALUES (:tenant, :name, :now)"
        created = self._run(statement, name=name, now=now()).rowcount == 1
        if created and erasure_store.lock_unsettled(self._connection, self._tenant_id):
            raise ErasureUnfinished(
                f"The id {self._tenant_id!r} belongs to a tenant that is being erased: repeat the request in a minute.",
                retry_after_s=60.0,
            )
        return created

    def find(self) -> TenantView | None:
        """Return the tenant's row, None if there is none."""
        row = self._run(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id = :tenant").first()
        return None if row is None else record_of(TenantView, row)

    def admit(self, admitted: bool) -> bool:
        """Enable or disable all of a tenant's keys; False if unchanged. One that is being erased stays disabled."""
        changed = self._run(
            "UPDATE tenants SET disabled_at = :then WHERE tenant_id = :tenant"
            f" AND disabled_at IS {'NOT ' if admitted else ''}NULL"
            " AND NOT EXISTS (SELECT 1 FROM erasures e WHERE e.tenant_id = tenants.tenant_id"
            " AND e.settled_at IS NULL AND e.requested_at >= tenants.created_at)",
            then=None if admitted else now(),
        )
        if changed.rowcount:
            action = "tenant_enable" if admitted else "tenant_disable"
            Audit(self._connection, self._tenant_id).wrote(action, ids=[self._tenant_id])
        return changed.rowcount == 1

    def issue_key(self, name: str, scopes: tuple[str, ...] = SCOPES) -> str:
        """Create a key that sees every document, and return it; only its hash is stored."""
        return ApiKeys(self._connection, self._tenant_id).issue(name, scopes, principals=(EVERY_DOCUMENT,)).secret

    def principal(self, api_key: str) -> tuple[Principal | None, bool]:
        """Return the caller that the key authenticates, or None if it is unknown, revoked or expired, or its tenant is
        disabled; and whether `note_use` is due, once a minute."""
        digest, at = hashed(api_key), now()
        row = self._run(_PRINCIPAL.format(key="k.key_hash = :hash"), hash=digest, now=at).one_or_none()
        if row is None:
            return None, False
        return self._principal(row), row.last_used_at is None or at - row.last_used_at > _USE_RECORDED_AFTER

    def note_use(self, api_key: str) -> None:
        """Record that the key is used now."""
        used = "UPDATE api_keys SET last_used_at = :now WHERE tenant_id = :tenant AND key_hash = :hash"
        self._run(used, hash=hashed(api_key), now=now())

    def signer(self, key_id: str) -> tuple[Principal, bytes] | None:
        """Return the caller of a working key that signs tokens, and the encrypted key that verifies them; None without one."""
        statement = _PRINCIPAL.format(key="LEFT(k.key_hash, 8) = UNHEX(:id) AND k.token_key IS NOT NULL")
        row = self._run(statement, id=key_id, now=now()).one_or_none()
        return None if row is None else (self._principal(row), bytes(row.token_key))

    def restricts(self) -> bool | None:
        """Return whether the tenant may have documents that are not public; None if there is none, or it is disabled."""
        row = self._run(
            f"SELECT {_HAS_RESTRICTED} FROM tenants t WHERE t.tenant_id = :tenant AND t.disabled_at IS NULL"
        ).first()
        return None if row is None else bool(row.has_restricted)

    def replace_token_key(self, key_id: str, token_key: bytes) -> None:
        """Replace the encrypted key that verifies the tokens of an API key."""
        statement = (
            "UPDATE api_keys SET token_key = :token_key WHERE tenant_id = :tenant AND LEFT(key_hash, 8) = UNHEX(:id)"
        )
        self._run(statement, id=key_id, token_key=token_key)

    def _principal(self, row: Any) -> Principal:
        return Principal(
            tenant_id=self._tenant_id,
            scopes=frozenset(row.scopes.split()),
            key_id=key_id_of(bytes(row.key_hash)),
            key_name=row.name,
            reads_as=principals_of(readers_of(row.principals) or ()),
            has_restricted=bool(row.has_restricted),
        )


def tenants_page(connection: Connection, *, after: str | None, limit: int) -> list[TenantView]:
    """Return tenants of the installation by id, after the given one; for operators only."""
    statement = sql(f"SELECT {_COLUMNS} FROM tenants WHERE tenant_id > :after ORDER BY tenant_id LIMIT :limit")
    return [record_of(TenantView, row) for row in connection.execute(statement, {"after": after or "", "limit": limit})]


_HAS_RESTRICTED = (
    "EXISTS (SELECT 1 FROM namespaces n WHERE n.tenant_id = t.tenant_id AND n.restricted = 1) AS has_restricted"
)
_PRINCIPAL = (
    f"SELECT k.key_hash, k.scopes, k.name, k.last_used_at, k.principals, k.token_key, {_HAS_RESTRICTED}"
    " FROM api_keys k JOIN tenants t ON t.tenant_id = k.tenant_id"
    " WHERE k.tenant_id = :tenant AND {key} AND t.disabled_at IS NULL"
    " AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now)"
)
_COLUMNS = "tenant_id, name, created_at, disabled_at"
