"""The example of docs/openai.md, run as a reader would run it; and what a key may do here."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import openai
import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import Tenants
from tests.conftest import make_tenant
from tests.support.clients.openai_dialect import base_url, client_of, named
from tests.support.repository.guides import blocks
from tests.support.stacks.connections import in_mysql


class DescribeTheGuide:
    def it_runs_as_it_stands(self, use):
        [example] = blocks("docs/openai.md", "python")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONUTF8": "1",
            "CHORDWISE_URL": os.environ["CHORDWISE_URL"],
            "CHORDWISE_API_KEY": make_tenant(use)[1],
        }
        ran = subprocess.run(
            [sys.executable, "-c", example.text],
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        counted, hit = ran.stdout.splitlines()
        assert counted == "completed 2"
        name, _, rest = hit.partition(" ")
        attributes, _, passage = rest.partition("} ")
        assert (name, passage) == ("fan.txt", "The fan is cleaned once a year.")
        assert ast.literal_eval(attributes + "}") == {"year": 2026.0, "part": "fan"}  # MySQL sorts the keys of JSON


class DescribeScopes:
    def it_lets_a_reading_key_search_and_nothing_else(self, use):
        tenant, key = make_tenant(use)
        with unit_of_work(use.mysql) as work:
            reading = Tenants(work.connection, tenant).issue_key("reader", scopes=("read",))
        with openai.OpenAI(base_url=base_url(), api_key=key) as writer:
            store = writer.vector_stores.create(name="shared")
            file = writer.vector_stores.files.upload_and_poll(
                vector_store_id=store.id, file=named("a.py", "kettle = 1")
            )
            assert file.status == "completed"  # a program is text
        with openai.OpenAI(base_url=base_url(), api_key=reading) as reader:
            assert reader.vector_stores.search(store.id, query="kettle").data[0].filename == "a.py"
            assert reader.files.content(file.id).read() == b"kettle = 1"
            for call in (
                lambda: reader.files.create(file=named("b.txt", "b"), purpose="assistants"),
                lambda: reader.files.delete(file.id),
                lambda: reader.vector_stores.create(),
                lambda: reader.vector_stores.delete(store.id),
                lambda: reader.vector_stores.files.create(store.id, file_id=file.id),
                lambda: reader.vector_stores.files.update(file.id, vector_store_id=store.id, attributes={}),
                lambda: reader.vector_stores.files.delete(file.id, vector_store_id=store.id),
                lambda: reader.vector_stores.file_batches.create(store.id, file_ids=[file.id]),
            ):
                with pytest.raises(openai.PermissionDeniedError) as refused:
                    call()
                assert refused.value.code == "insufficient_scope"


class DescribeExpiry:
    def it_answers_searches_of_an_expired_store_with_400(self, use):
        with client_of(use) as sdk:
            store = sdk.vector_stores.create(expires_after={"anchor": "last_active_at", "days": 1})
            in_mysql(use, "UPDATE vector_stores SET expires_at = '2020-01-01' WHERE namespace = :n", n=store.id)
            assert sdk.vector_stores.retrieve(store.id).status == "expired"
            with pytest.raises(openai.BadRequestError) as refused:
                sdk.vector_stores.search(store.id, query="anything")
            assert refused.value.code == "vector_store_expired"
