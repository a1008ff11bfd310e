"""API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.api.tenants import tenant_path
from chordwise.records import Result
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(Result):
    """A key. ``api_key`` itself is there only right after it was made. ``state``: active, expired or revoked."""

    key_id: str
    name: str = ""
    scopes: tuple[str, ...] = ()
    state: str = ""
    api_key: str | None = field(default=None, repr=False)
    created_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentKey(Result):
    """Whose key the client uses, and what it may do."""

    tenant_id: str
    key_id: str = ""
    name: str = ""
    scopes: tuple[str, ...] = ()


class KeyOperations(Resource):
    """Operations on keys: those of the client's own tenant unless ``tenant_id`` names another."""

    @operation
    def current_key(self) -> Steps[CurrentKey]:
        """Whose key this client uses, and what it may do."""
        return self._one(CurrentKey, "GET", "/v1/keys/current")

    @operation
    def keys(self, *, tenant_id: str | None = None) -> Steps[list[ApiKey]]:
        """Every key, the newest first, those that have ended included."""
        return self._pages(ApiKey, _keys(tenant_id))

    @operation
    def key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[ApiKey]:
        """One key; ProblemError with status 404 if there is none."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}"
        return self._one(ApiKey, "GET", path)

    @operation
    def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        expires_at: datetime | None = None,
        tenant_id: str | None = None,
    ) -> Steps[ApiKey]:
        """Make a key with some of the scopes read, write and admin. Its ``api_key`` is shown this once."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes)}
        if expires_at is not None:
            body["expires_at"] = expires_at.astimezone().isoformat()
        return self._one(ApiKey, "POST", _keys(tenant_id), body=body, safe=False)

    @operation
    def rotate_key(
        self, key_id: str, *, overlap_seconds: int | None = None, tenant_id: str | None = None
    ) -> Steps[ApiKey]:
        """A key in the place of another, which works for ``overlap_seconds`` more, by default a day."""
        path = f"{_keys(tenant_id)}/{segment(key_id)}/rotate"
        body = {} if overlap_seconds is None else {"overlap_seconds": overlap_seconds}
        return self._one(ApiKey, "POST", path, body=body, safe=False)

    @operation
    def revoke_key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[None]:
        """End a key: every gateway refuses it within three seconds."""
        yield from self._request("DELETE", f"{_keys(tenant_id)}/{segment(key_id)}")


def _keys(tenant_id: str | None) -> str:
    return "/v1/keys" if tenant_id is None else f"{tenant_path(tenant_id)}/keys"
