"""Tokens by which a tenant's own backend names the principals of a caller: JWTs that the owner of an API key signs.

A token has the audience ``chordwise:<tenant>:<key id>``, a subject ``sub``, an end ``exp`` at most a day ahead, and may have
``groups``. Its caller reads as ``user:<sub>`` and ``group:<group>``. It is signed with HS256 and the secret that came with the
API key, or with a private key whose public part is in the key's JWKS.
"""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import jwt
import orjson

from pipeline.errors import Rejected
from pipeline.records import TenantId
from pipeline.tenants.accounts import Principal

_AUDIENCE: Final = re.compile(r"chordwise:(?P<tenant>[a-z0-9][a-z0-9-]{0,62}):(?P<key_id>[0-9a-f]{16}|sign-on)")
SIGN_ON: Final = "sign-on"  # in place of a key's id: the token of a person's session (`tenants.people`)
_SIGNED_BY_OTHERS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LONGEST_S: Final = 86_400
_CLOCKS_APART_S: Final = 10
_LONGEST: Final = 16 * 1024  # characters
_MOST_GROUPS: Final = 1000
_MOST_KEYS: Final = 20  # of one JWKS
_KEY_PARTS: Final = ("kty", "kid", "alg", "use", "n", "e", "crv", "x", "y")
JWKS_FRESH_S: Final = 600.0


class InvalidKeySet(Rejected):
    """A server answered with no JSON Web Key Set of public keys."""

    code = "invalid_jwks"


def is_token(credential: str) -> bool:
    """Return whether a credential has the form of a JWT; no API key has."""
    return credential.count(".") == 2


def key_named(token: str) -> tuple[TenantId, str] | None:
    """Return the tenant and the id of the API key, or SIGN_ON, that a token names in its audience; None without one. Nothing is
    verified."""
    if len(token) > _LONGEST:
        return None
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return None
    audience = claims.get("aud")
    for entry in audience if isinstance(audience, list) else [audience]:
        if isinstance(entry, str) and (match := _AUDIENCE.fullmatch(entry)):
            return TenantId(match["tenant"]), match["key_id"]
    return None


def key_id_in(token: str) -> str | None:
    """Return the id of the signing key in a token's header, None without one."""
    key_id = jwt.get_unverified_header(token).get("kid")
    return key_id if isinstance(key_id, str) else None


def caller_of(token: str, key: Mapping[str, Any], owner: Principal, *, now: float | None = None) -> Principal | None:
    """Return the caller whom a token names, who may only read; None if it is not valid now. ``key``: ``secret`` or ``jwks``;
    ``owner``: the principal of the API key."""
    audience = f"chordwise:{owner.tenant_id}:{owner.key_id}"
    try:
        verifying, algorithms = _verifying(token, key)
        claims = jwt.decode(
            token,
            verifying,
            algorithms=algorithms,
            audience=audience,
            leeway=_CLOCKS_APART_S,
            options={"require": ["exp", "aud", "sub"]},
        )
    except (jwt.PyJWTError, KeyError, ValueError, TypeError):
        return None
    at = time.time() if now is None else now
    subject, groups, ends = claims["sub"], claims.get("groups", []), float(claims["exp"])
    if not subject or ends > at + _LONGEST_S + _CLOCKS_APART_S or not math.isfinite(ends):
        return None
    if not isinstance(groups, list) or len(groups) > _MOST_GROUPS or not all(isinstance(name, str) for name in groups):
        return None
    names = frozenset({f"user:{subject}", *(f"group:{name}" for name in groups)})
    return replace(owner, scopes=frozenset({"read"}), reads_as=names, ends_at=ends + _CLOCKS_APART_S)


def _verifying(token: str, key: Mapping[str, Any]) -> tuple[Any, list[str]]:
    if "secret" in key:
        return key["secret"], ["HS256"]
    found = jwt.PyJWKSet.from_dict(dict(key["jwks"]))[key_id_in(token) or ""]
    return found.key, [found.algorithm_name] if found.algorithm_name in _SIGNED_BY_OTHERS else []


def has_key(key: Mapping[str, Any], key_id: str | None) -> bool:
    """Return whether a set of keys has one of this id."""
    return any(entry.get("kid") == key_id for entry in key["jwks"]["keys"])


def public_keys(body: bytes) -> dict[str, Any]:
    """Return the public signing keys of a JSON Web Key Set, with their ids. Raises InvalidKeySet."""
    try:
        keys = orjson.loads(body)["keys"]
        kept = [
            {name: entry[name] for name in _KEY_PARTS if name in entry}
            for entry in keys
            if entry.get("use", "sig") == "sig" and entry["kty"] in ("RSA", "EC", "OKP") and entry.get("kid")
        ][:_MOST_KEYS]
        jwt.PyJWKSet.from_dict({"keys": kept})
    except (orjson.JSONDecodeError, jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        raise InvalidKeySet(
            "the address of the keys gave no JSON Web Key Set with a public key that has an id"
        ) from None
    return {"keys": kept}
