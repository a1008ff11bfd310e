"""The values of an API source's headers: encrypted beside the source, or from the environment."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from pipeline.api_sources.api_source import StoredSource, header_value
from pipeline.database.encryption import SecretCipher
from pipeline.errors import Misconfigured
from pipeline.records import TenantId


class HeaderSecrets:
    """Encrypts and decrypts header values. ``given``: the environment's secrets by tenant and name; a tenant reaches neither
    another's nor other variables."""

    def __init__(self, key: SecretStr | None, given: Mapping[str, Mapping[str, SecretStr]]) -> None:
        self._cipher = SecretCipher(key)
        self._given = given

    def encrypted(self, tenant_id: TenantId, name: str, values: Mapping[str, str]) -> bytes | None:
        """Return the encrypted values to store beside a source; None without any."""
        return self._cipher.seal(values, belongs_to=_row(tenant_id, name)) if values else None

    def opened(self, tenant_id: TenantId, stored: StoredSource) -> dict[str, str]:
        """Return the stored values by header. Raises Misconfigured if they cannot be read."""
        if stored.secrets is None:
            return {}
        secrets: dict[str, str] = self._cipher.open(stored.secrets, belongs_to=_row(tenant_id, stored.name))
        return secrets

    def knows(self, tenant_id: TenantId, name: str) -> bool:
        """Return whether the environment has a secret of this name for the tenant."""
        return name in self._given.get(tenant_id, {})

    def headers(self, tenant_id: TenantId, stored: StoredSource) -> dict[str, str]:
        """Return the headers to send. Raises Misconfigured for a missing value, without naming any value."""
        own = self.opened(tenant_id, stored)
        given = {name: value.get_secret_value() for name, value in self._given.get(tenant_id, {}).items()}
        headers: dict[str, str] = {}
        for header, secret in stored.source.headers.items():
            value = own.get(header) if secret is None else given.get(secret)
            if value is None:
                raise Misconfigured(f"there is no value for the header {header} of the API source {stored.name}")
            try:
                headers[header] = header_value(value)
            except ValueError:
                raise Misconfigured(f"the value for the header {header} cannot be sent") from None
        return headers


def _row(tenant_id: TenantId, name: str) -> str:
    return f"{tenant_id}/api-source/{name}"
