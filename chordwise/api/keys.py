"""API keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from chordwise.contract import tenant
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps

ApiKey = tenant.KeyWithSecret
CurrentKey = tenant.CurrentKey


class KeyOperations(Resource):
    """Operations on keys: those of the client's own tenant unless ``tenant_id`` names another."""

    @operation
    def current_key(self) -> Steps[CurrentKey]:
        """Return the client's own key with its tenant and scopes."""
        return self._one(CurrentKey, "GET", "/v1/keys/current")

    @operation
    def keys(self, *, tenant_id: str | None = None) -> Steps[list[ApiKey]]:
        """List all keys, newest first, ended ones included."""
        return self._pages(ApiKey, _path(tenant_id))

    @operation
    def key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[ApiKey]:
        """Return one key. ProblemError with status 404 if there is none."""
        return self._one(ApiKey, "GET", _path(tenant_id, key_id))

    @operation
    def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] = ("read",),
        expires_at: datetime | None = None,
        principals: Sequence[str] = (),
        signs_tokens: bool = False,
        jwks_url: str | None = None,
        tenant_id: str | None = None,
    ) -> Steps[ApiKey]:
        """Create a key with some of the scopes read, write, admin and impersonate. Its ``api_key`` is returned this once.

        ``principals``: those of its callers; ``*`` sees every document, without any it sees the public ones. With
        ``signs_tokens`` or ``jwks_url`` its owner may sign tokens of principals.
        """
        ends = expires_at and expires_at.astimezone().isoformat()
        body = given(
            name=name,
            scopes=list(scopes),
            expires_at=ends,
            principals=list(principals) or None,
            signs_tokens=signs_tokens or None,
            jwks_url=jwks_url,
        )
        return self._one(ApiKey, "POST", _path(tenant_id), body=body, safe=False)

    @operation
    def rotate_key(
        self, key_id: str, *, overlap_seconds: int | None = None, tenant_id: str | None = None
    ) -> Steps[ApiKey]:
        """Replace a key by a new one; the old one works for ``overlap_seconds`` more, by default a day."""
        body = given(overlap_seconds=overlap_seconds)
        return self._one(ApiKey, "POST", _path(tenant_id, key_id, "rotate"), body=body, safe=False)

    @operation
    def revoke_key(self, key_id: str, *, tenant_id: str | None = None) -> Steps[None]:
        """Revoke a key: every gateway refuses it within three seconds."""
        return self._delete(_path(tenant_id, key_id))


def _path(tenant_id: str | None, *segments: str) -> str:
    return path(*([] if tenant_id is None else ["tenants", tenant_id]), "keys", *segments)
