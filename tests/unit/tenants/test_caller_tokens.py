"""Tokens that name principals: one is right or it names nobody."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from pipeline.records import TenantId
from pipeline.tenants.accounts import Principal
from pipeline.tenants.caller_tokens import InvalidKeySet, caller_of, has_key, key_named, public_keys

OWNER = Principal(tenant_id=TenantId("acme"), scopes=frozenset({"read", "write"}), key_id="0123456789abcdef")
AUDIENCE = "chordwise:acme:0123456789abcdef"
SECRET = "s" * 64


def token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    named = {"aud": AUDIENCE, "sub": "李雷", "groups": ["人事"], "exp": time.time() + 60, **claims}
    given = {name: value for name, value in named.items() if value is not None}
    return jwt.encode(given, key, algorithm=algorithm, headers=headers)


def key_set(**keys: Any) -> bytes:
    kinds = {"RSA": RSAAlgorithm, "EC": ECAlgorithm}
    entries = []
    for key_id, key in keys.items():
        kind = "EC" if isinstance(key, ec.EllipticCurvePrivateKey) else "RSA"
        described = kinds[kind].to_jwk(key.public_key(), as_dict=True)
        entries.append({**described, "kid": key_id, "use": "sig", "alg": {"EC": "ES256", "RSA": "RS256"}[kind]})
    return json.dumps({"keys": entries}).encode()


@pytest.fixture(scope="module")
def signing() -> dict[str, Any]:
    return {
        "a": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "b": ec.generate_private_key(ec.SECP256R1()),
    }


class DescribeASharedSecret:
    def it_names_the_user_and_the_groups_and_permits_reading_alone(self):
        caller = caller_of(token(), {"secret": SECRET}, OWNER)
        assert caller is not None
        assert caller.reads_as == {"user:李雷", "group:人事"}
        assert caller.scopes == {"read"}
        assert caller.tenant_id == "acme"

    @pytest.mark.parametrize(
        "claims",
        [
            {"aud": "chordwise:other:0123456789abcdef"},
            {"aud": None},
            {"sub": None},
            {"sub": ""},
            {"exp": None},
            {"exp": time.time() - 3600},
            {"exp": time.time() + 90_000},
            {"groups": "人事"},
            {"groups": [7]},
            {"groups": [str(n) for n in range(1001)]},
            {"nbf": time.time() + 3600},
        ],
    )
    def it_names_nobody_if_a_claim_is_wrong(self, claims):
        assert caller_of(token(**claims), {"secret": SECRET}, OWNER) is None

    @pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
    def it_takes_no_other_algorithm(self, algorithm):
        assert caller_of(token(algorithm=algorithm), {"secret": SECRET}, OWNER) is None

    def it_takes_no_other_secret_and_no_token_without_signature(self):
        assert caller_of(token("x" * 64), {"secret": SECRET}, OWNER) is None
        assert caller_of(token(None, "none"), {"secret": SECRET}, OWNER) is None
        assert caller_of("a.b.c", {"secret": SECRET}, OWNER) is None


class DescribeAKeySet:
    def it_verifies_by_the_key_that_a_token_names(self, signing):
        key = {"jwks": public_keys(key_set(**signing))}
        for key_id, algorithm in (("a", "RS256"), ("b", "ES256")):
            assert caller_of(token(signing[key_id], algorithm, {"kid": key_id}), key, OWNER) is not None, algorithm
        assert caller_of(token(signing["a"], "RS256", {"kid": "b"}), key, OWNER) is None
        assert caller_of(token(signing["a"], "RS256", {"kid": "unknown"}), key, OWNER) is None
        assert caller_of(token(signing["a"], "RS256"), key, OWNER) is None
        assert has_key(key, "a")
        assert not has_key(key, "c")

    def it_takes_no_token_signed_with_a_public_key_as_if_it_were_a_secret(self, signing):
        key = {"jwks": public_keys(key_set(a=signing["a"]))}
        public = key["jwks"]["keys"][0]["n"]
        forged = token(public, "HS256", {"kid": "a"})
        assert caller_of(forged, key, OWNER) is None

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[]", b'{"keys": []}', b'{"keys": [{"kty": "oct", "kid": "a", "k": "AAAA"}]}']
    )
    def it_needs_a_public_key(self, body):
        with pytest.raises(InvalidKeySet):
            public_keys(body)


class DescribeTheAudience:
    @pytest.mark.parametrize("audience", [AUDIENCE, [AUDIENCE], ["account", AUDIENCE]])
    def it_names_the_tenant_and_the_key(self, audience):
        assert key_named(token(aud=audience)) == ("acme", "0123456789abcdef")

    @pytest.mark.parametrize("audience", ["acme", "chordwise:ACME:0123456789abcdef", "chordwise:acme:xyz", 7, None, []])
    def it_names_nothing_otherwise(self, audience):
        assert key_named(token(aud=audience)) is None
        assert key_named("x" * 20_000 + ".y.z") is None
