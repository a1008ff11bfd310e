"""People who sign in at a provider of OpenID Connect: their role by its claims, their session, and the token of a session.

A token has the audience ``chordwise:<tenant>:sign-on``, names the session by ``sid`` and ends after ten minutes. It is signed
with a key that is derived from the installation's secret.
"""

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jwt

from pipeline.filters.readers import LONGEST_PRINCIPAL, MOST_PRINCIPALS, Principals
from pipeline.records import TenantId
from pipeline.setting_values import Role
from pipeline.tenants.accounts import OPERATOR, SCOPES, Principal

SESSION_S: Final = 8 * 3600
TOKEN_S: Final = 600
STATE_S: Final = 600

# The least first: a person with several roles has the last of them.
ROLES: Final[Mapping[Role, tuple[str, ...]]] = {
    "viewer": ("read",),
    "editor": ("read", "write"),
    "operator": (*SCOPES, OPERATOR),
}
_AUDIENCE: Final = "chordwise:{}:sign-on"
_STATE: Final = "chordwise:state"  # the audience of a sign-on's state
_ALGORITHM: Final = "HS256"
_LONGEST_NAME: Final = 255  # characters


def role_of(claims: Mapping[str, Any], roles: Mapping[Role, Mapping[str, Sequence[str]]]) -> Role | None:
    """Return the highest role that one of a person's claims gives, None without one. ``roles``: by role and claim the values
    that give it. An address of e-mail counts if the provider has verified it."""
    given: Role | None = None
    for role in ROLES:
        for claim, values in roles.get(role, {}).items():
            is_trusted = claim != "email" or claims.get("email_verified") is True
            if is_trusted and not set(values).isdisjoint(_texts(claims, claim)):
                given = role
    return given


def session_of(claims: Mapping[str, Any], role: Role, *, issuer: str, groups: str) -> dict[str, Any]:
    """Return the session of a person. ``groups``: the claim with the names of the groups."""
    subject = str(claims["sub"])
    names = (claims.get(claim) for claim in ("email", "preferred_username", "name"))
    return {
        "id": hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()[:16],
        "name": next((name for name in names if name and isinstance(name, str)), subject)[:_LONGEST_NAME],
        "role": role,
        "principals": _principals(subject, _texts(claims, groups)),
    }


def principal_in(session: Mapping[str, Any], tenant_id: TenantId, *, has_restricted: bool, ends_at: float) -> Principal:
    """Return the caller of a session: an operator sees every document, another person those of its principals."""
    role: Role = session["role"]
    reads_as: Principals = None if role == "operator" else frozenset(session["principals"])
    return Principal(
        tenant_id=tenant_id,
        scopes=frozenset(ROLES[role]),
        key_id=session["id"],
        key_name=session["name"],
        reads_as=reads_as,
        has_restricted=has_restricted,
        ends_at=ends_at,
    )


def signed_state(state: Mapping[str, str], secret: str, *, now: float) -> str:
    """Return the state of a sign-on in the form that the browser keeps for ten minutes."""
    return jwt.encode({**state, "aud": _STATE, "exp": int(now) + STATE_S}, _signing(secret), algorithm=_ALGORITHM)


def state_in(kept: str, secret: str) -> Mapping[str, str] | None:
    """Return the state of a sign-on; None if it is forged or has ended."""
    try:
        return jwt.decode(
            kept, _signing(secret), algorithms=[_ALGORITHM], audience=_STATE, options={"require": ["exp"]}
        )
    except jwt.PyJWTError:
        return None


def session_token(tenant_id: TenantId, name: str, secret: str, *, now: float) -> str:
    """Return the token of a session at a moment. ``name``: of the session, which does not reveal its cookie."""
    claims = {"aud": _AUDIENCE.format(tenant_id), "sid": name, "exp": int(now) + TOKEN_S}
    return jwt.encode(claims, _signing(secret), algorithm=_ALGORITHM)


def session_named(token: str, tenant_id: TenantId, secret: str) -> tuple[str, float] | None:
    """Return the name of a token's session and the token's end; None if it is forged, of another tenant, or has ended."""
    try:
        claims = jwt.decode(
            token,
            _signing(secret),
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE.format(tenant_id),
            options={"require": ["exp", "aud", "sid"]},
        )
    except jwt.PyJWTError:
        return None
    return str(claims["sid"]), float(claims["exp"])


def _signing(secret: str) -> bytes:
    return hmac.new(secret.encode(), b"chordwise sign-on", "sha256").digest()


def _principals(subject: str, groups: Iterator[str]) -> list[str]:
    names = [f"user:{subject}", *(f"group:{name}" for name in groups)]
    return [name for name in dict.fromkeys(names) if len(name) <= LONGEST_PRINCIPAL][:MOST_PRINCIPALS]


def _texts(claims: Mapping[str, Any], claim: str) -> Iterator[str]:
    """Yield the texts of a claim, which is a text or a list. The name of a claim inside others has dots, unless a claim has
    just this name."""
    found: Any = claims
    for part in [claim] if claim in claims else claim.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    for text in found if isinstance(found, list) else [found]:
        if isinstance(text, str):
            yield text
