"""Idempotency keys in the stores: their holder, their lifetime, and the stored answer."""

from __future__ import annotations

import hashlib
import time
import uuid

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.idempotency import Answered, Running
from pipeline.tenants.idempotency_store import IdempotencyKeys, tenants_with_expired_keys

HOUR_S = 3600.0
ANSWER = Answered(fingerprint=b"f" * 32, status=202, answer=b"sealed")


class Keys:
    """Each call in a transaction of its own, as in the gateway."""

    def __init__(self, use, tenant) -> None:
        self._use, self._tenant = use, tenant

    def __getattr__(self, name):
        def call(*arguments, **named):
            with unit_of_work(self._use.mysql) as work:
                return getattr(IdempotencyKeys(work.connection, self._tenant), name)(*arguments, **named)

        return call


class SweptAfterALook:
    """A connection beside which expired keys are deleted after its first statement."""

    def __init__(self, connection, keys: Keys) -> None:
        self._connection, self._keys = connection, keys

    def execute(self, statement, values):
        found = self._connection.execute(statement, values)
        self._keys.forget_expired(limit=100)
        return found


@pytest.fixture
def keys(use, tenant) -> Keys:
    return Keys(use, tenant)


@pytest.fixture
def digest() -> bytes:
    return hashlib.sha256(uuid.uuid4().bytes).digest()


class DescribeAKey:
    def it_is_taken_over_from_the_dead_with_the_id_of_their_work(self, keys, digest):
        dead = keys.insert(digest, lease_s=0.05, ttl_s=HOUR_S)
        time.sleep(0.1)
        heir = keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        assert heir.work_id == dead.work_id
        assert not keys.keep(digest, dead.token, ANSWER, ttl_s=HOUR_S)
        assert not keys.renew(digest, dead.token, lease_s=HOUR_S)
        keys.free(digest, dead.token)
        assert isinstance(keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S), Running)
        assert keys.keep(digest, heir.token, ANSWER, ttl_s=HOUR_S)

    def it_is_let_go_with_the_id_of_the_work(self, keys, digest):
        failed = keys.insert(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        keys.let_go(digest, failed.token)
        heir = keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        assert heir.work_id == failed.work_id
        keys.let_go(digest, failed.token)
        assert isinstance(keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S), Running)
        assert keys.keep(digest, heir.token, ANSWER, ttl_s=HOUR_S)
        keys.let_go(digest, heir.token)
        assert keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S) == ANSWER

    def it_is_held_by_the_living(self, keys, digest):
        claimed = keys.insert(digest, lease_s=0.05, ttl_s=HOUR_S)
        assert keys.renew(digest, claimed.token, lease_s=HOUR_S)
        time.sleep(0.1)
        assert isinstance(keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S), Running)

    def it_can_be_used_again_once_it_is_freed_or_has_expired(self, keys, digest):
        first = keys.insert(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        keys.free(digest, first.token)
        assert keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S) is None
        second = keys.insert(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        keys.keep(digest, second.token, ANSWER, ttl_s=0.05)
        time.sleep(0.1)
        third = keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        if third is None:  # the stack's own sweeper was here
            third = keys.insert(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        assert third.work_id != second.work_id

    def it_is_held_by_nobody_when_it_was_swept_while_it_was_looked_at(self, use, tenant, keys, digest):
        keys.insert(digest, lease_s=HOUR_S, ttl_s=0.05)
        time.sleep(0.1)
        with unit_of_work(use.mysql) as work:
            looking = SweptAfterALook(work.connection, keys)
            assert IdempotencyKeys(looking, tenant).claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S) is None

    def it_is_forgotten_when_it_has_expired(self, use, tenant, keys, digest):
        claimed = keys.insert(digest, lease_s=HOUR_S, ttl_s=HOUR_S)
        keys.keep(digest, claimed.token, ANSWER, ttl_s=HOUR_S)
        assert keys.forget_expired(limit=10) == 0
        other = hashlib.sha256(digest).digest()
        keys.keep(other, keys.insert(other, lease_s=HOUR_S, ttl_s=HOUR_S).token, ANSWER, ttl_s=0.05)
        time.sleep(0.1)
        with unit_of_work(use.mysql) as work:
            assert tenant in tenants_with_expired_keys(work.connection)
        assert keys.forget_expired(limit=10) == 1
        assert keys.claim(digest, lease_s=HOUR_S, ttl_s=HOUR_S) == ANSWER
