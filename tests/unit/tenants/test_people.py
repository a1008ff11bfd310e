"""Tokens of sessions, and the state of a sign-on, at moments and with secrets that no provider brings about."""

from __future__ import annotations

import time

import jwt

from pipeline.records import TenantId
from pipeline.tenants.caller_tokens import SIGN_ON, key_named
from pipeline.tenants.people import (
    STATE_S,
    TOKEN_S,
    principal_in,
    session_named,
    session_of,
    session_token,
    signed_state,
    state_in,
)

ACME, OTHER = TenantId("acme"), TenantId("other")
SECRET = "a-secret-of-the-installation"


class DescribeATokenOfASession:
    def it_names_its_session_for_ten_minutes(self):
        now = time.time()
        token = session_token(ACME, "a-session", SECRET, now=now)
        assert key_named(token) == (ACME, SIGN_ON)
        assert session_named(token, ACME, SECRET) == ("a-session", int(now) + TOKEN_S)
        ended = session_token(ACME, "a-session", SECRET, now=now - TOKEN_S - 1)
        assert session_named(ended, ACME, SECRET) is None

    def it_holds_for_one_tenant_and_one_secret(self):
        token = session_token(ACME, "a-session", SECRET, now=time.time())
        assert session_named(token, OTHER, SECRET) is None
        assert session_named(token, ACME, "another") is None

    def it_is_told_from_the_state_of_a_sign_on(self):
        now = time.time()
        assert session_named(signed_state({"sid": "a-session"}, SECRET, now=now), ACME, SECRET) is None
        assert state_in(session_token(ACME, "a-session", SECRET, now=now), SECRET) is None

    def it_is_signed_by_a_key_that_is_not_the_secret_itself(self):
        claims = {"aud": "chordwise:acme:sign-on", "sid": "a-session", "exp": time.time() + 60}
        assert session_named(jwt.encode(claims, SECRET.ljust(32), algorithm="HS256"), ACME, SECRET) is None
        assert session_named(jwt.encode(claims, None, algorithm="none"), ACME, SECRET) is None


class DescribeTheStateOfASignOn:
    def it_lasts_ten_minutes(self):
        now = time.time()
        kept = signed_state({"state": "s", "nonce": "n"}, SECRET, now=now)
        state = state_in(kept, SECRET)
        assert state is not None
        assert (state["state"], state["nonce"]) == ("s", "n")
        assert state_in(signed_state({"state": "s"}, SECRET, now=now - STATE_S - 1), SECRET) is None
        assert state_in(kept, "another") is None
        assert state_in("", SECRET) is None


class DescribeAPerson:
    def it_sees_everything_as_an_operator_and_its_own_as_another(self):
        claims = {"sub": "42", "name": "Ann", "groups": ["hr"]}
        found = {}
        for role in ("viewer", "editor", "operator"):
            session = session_of(claims, role, issuer="https://login.example", groups="groups")
            found[role] = principal_in(session, ACME, has_restricted=True, ends_at=1.0)
        assert found["viewer"].reads_as == found["editor"].reads_as == {"user:42", "group:hr"}
        assert found["operator"].reads_as is None
        assert "operator" not in found["editor"].scopes
        assert found["operator"].scopes == {"read", "write", "admin", "operator"}
        assert {person.key_name for person in found.values()} == {"Ann"}
