"""Documents with readers are found, listed and told of to callers one of whose principals may read them, and to no others."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from pipeline.administration.manage_tenants import principal_of
from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.attacks import FOR_OPERATORS, MANY_IN_ONE, READING, attack, leaks
from tests.support.clients.gateway_client import pointers, problem
from tests.support.clients.mcp_clients import agent, given
from tests.support.corpora.documents import finished, search, upload
from tests.support.corpora.planted import Planted, plant, sent
from tests.support.repository.described import operations
from tests.support.servers.web_server import WebServer, page

PUMPS = {
    "public-pump": ("Every pump needs oil once a month.", None),
    "hr-pump": ("The pump of the salary office needs oil from Anna.", ["group:hr"]),
    "board-pump": ("The pump in the board room needs oil from Berta.", ["user:42", "group:board"]),
}
水泵 = {
    "公开": ("每台水泵每月都要加油。", None),
    "人事": ("工资处的水泵由安娜加油。", ["group:人事"]),
}


class Office(NamedTuple):
    """A tenant with documents for some, the key that sees everything, and its clients by principal."""

    tenant: str
    chief: httpx.Client
    namespace: str

    def key(self, *principals: str, scopes: tuple[str, ...] = ("read",), **more: Any) -> dict[str, Any]:
        made = self.chief.post(
            "/v1/keys", json={"name": "of a test", "scopes": list(scopes), "principals": list(principals), **more}
        )
        return sent(made)

    def client(self, *principals: str, scopes: tuple[str, ...] = ("read",)) -> httpx.Client:
        return gateway(self.key(*principals, scopes=scopes)["api_key"])


@pytest.fixture(scope="module")
def office(use: Resources) -> Iterator[Office]:
    tenant, key = make_tenant(use)
    namespace = f"kb-{uuid.uuid4().hex[:8]}"
    with gateway(key) as chief:
        documents = [
            {"document_id": name, "text": text} | ({} if readers is None else {"readers": readers})
            for name, (text, readers) in (PUMPS | 水泵).items()
        ]
        assert upload(chief, namespace, documents)["status"] == "succeeded"
        yield Office(tenant, chief, namespace)


def found(client: httpx.Client, namespace: str, question: str = "Which pump needs oil?", **more: Any) -> set[str]:
    return {chunk["document_id"] for chunk in search(client, namespace, question, **more)["chunks"]}


def listed(client: httpx.Client, namespace: str) -> set[str]:
    return {each["document_id"] for each in sent(client.get("/v1/documents", params={"namespace": namespace}))["data"]}


class DescribeACaller:
    @pytest.mark.parametrize(
        ("principals", "seen"),
        [
            ((), {"public-pump"}),
            (("public",), {"public-pump"}),
            (("group:hr",), {"public-pump", "hr-pump"}),
            (("user:42", "group:hr"), {"public-pump", "hr-pump", "board-pump"}),
            (("group:nobody-knows",), {"public-pump"}),
            (("*",), {"public-pump", "hr-pump", "board-pump"}),
        ],
    )
    def it_finds_and_lists_what_it_may_read(self, office, principals, seen):
        with office.client(*principals) as client:
            assert found(client, office.namespace) & set(PUMPS) == seen
            assert listed(client, office.namespace) & set(PUMPS) == seen
            answer = client.post("/dify/retrieval", json=dify(office.namespace, "Which pump needs oil?"))
            titles = {record["metadata"]["document_id"] for record in sent(answer)["records"]}
            assert titles & set(PUMPS) == seen

    def it_finds_the_same_through_the_openai_api_and_mcp(self, office):
        key = office.key("group:hr")["api_key"]
        with gateway(key) as client:
            asked = {"query": "Which pump needs oil?", "max_num_results": 20}
            path = f"/openai/v1/vector_stores/{office.namespace}/search"
            assert {each["file_id"] for each in sent(client.post(path, json=asked))["data"]} & set(PUMPS) == {
                "public-pump",
                "hr-pump",
            }

        async def ask() -> None:
            async with agent(key) as client:
                found = await given(client, "search", query="Which pump needs oil?", namespaces=[office.namespace])
                ids = {each["id"].rpartition("/")[2] for each in found["results"]}
                assert ids & set(PUMPS) == {"public-pump", "hr-pump"}
                own = await given(client, "fetch", id=f"{office.namespace}/hr-pump")
                assert "Anna" in own["text"]
                [namespace] = (await given(client, "list_namespaces"))["namespaces"]
                assert namespace["documents"] == 3
                refused = await client.call_tool("fetch", {"id": f"{office.namespace}/board-pump"})
                assert refused.is_error
                assert "Berta" not in str(refused.content)

        asyncio.run(ask())

    def it_finds_chinese_documents_by_a_chinese_group(self, office):
        with office.client("group:人事") as client, office.client() as stranger:
            assert found(client, office.namespace, "谁给水泵加油？") >= {"公开", "人事"}
            assert "人事" not in found(stranger, office.namespace, "谁给水泵加油？")

    def it_reads_no_document_that_it_may_not(self, office):
        with office.client("group:hr") as client:
            params = {"namespace": office.namespace}
            for path in ("", "/text", "/chunks", "/original", "/similar", "/pages/1", "/generations"):
                assert client.get(f"/v1/documents/board-pump{path}", params=params).status_code == 404, path
            shown = sent(client.get("/v1/documents/hr-pump", params=params))
            assert shown["readers"] == ["group:hr"]
            assert sent(client.get("/v1/documents/public-pump", params=params))["readers"] == ["public"]

    def it_is_told_those_readers_that_are_its_own_principals(self, office):
        with office.client("user:42") as client:
            shown = sent(client.get("/v1/documents/board-pump", params={"namespace": office.namespace}))
            assert shown["readers"] == ["user:42"]

    def it_is_told_counts_of_what_it_may_read(self, office):
        with office.client("group:hr") as client:
            [namespace] = sent(client.get("/v1/namespaces"))["data"]
            assert (namespace["documents"], namespace["chunks"]) == (3, 3)
        [namespace] = sent(office.chief.get("/v1/namespaces"))["data"]
        assert (namespace["documents"], namespace["chunks"]) == (5, 5)


class DescribeAnApplication:
    """It serves many users with one key and names them in each request."""

    def it_names_the_callers_principals(self, office):
        with office.client(scopes=("read", "impersonate")) as client:
            asked = found(client, office.namespace, principals=["group:hr"])
            assert asked & set(PUMPS) == {"public-pump", "hr-pump"}
            client.headers["Chordwise-Principals"] = "user:42, group:%E4%BA%BA%E4%BA%8B"
            assert listed(client, office.namespace) == {"public-pump", "board-pump", "公开", "人事"}
            both = {"query_text": "oil", "namespaces": [office.namespace], "principals": ["group:hr"]}
            refused = problem(client.post("/v1/rag/query", json=both), 422, "invalid_request")
            assert pointers(refused) == ["/principals"]

    def it_needs_the_scope(self, office):
        with office.client("group:hr") as client:
            asked = {"query_text": "oil", "namespaces": [office.namespace], "principals": ["user:42"]}
            problem(client.post("/v1/rag/query", json=asked), 403, "insufficient_scope")
            headers = {"Chordwise-Principals": "user:42"}
            problem(client.get("/v1/documents", headers=headers), 403, "insufficient_scope")

    def it_cannot_ask_for_every_document(self, office):
        with office.client(scopes=("read", "impersonate")) as client:
            headers = {"Chordwise-Principals": "*"}
            problem(client.get("/v1/documents", headers=headers), 422, "invalid_request")

    def it_gets_each_user_an_answer_of_its_own(self, office):
        """Also where the question is the same and the answer is cached."""
        with office.client(scopes=("read", "impersonate")) as client:
            time.sleep(5.1)  # a namespace that has changed a moment ago keeps no answers
            for _ in range(2):
                for who, seen in (("group:hr", "hr-pump"), ("group:board", "board-pump"), ("user:1", None)):
                    asked = found(client, office.namespace, "Which pumps need oil every month?", principals=[who])
                    assert asked & {"hr-pump", "board-pump"} == ({seen} if seen else set())

    def it_repeats_no_answer_to_another_user_under_the_same_idempotency_key(self, office):
        asked = {"query_text": "Which pump needs oil?", "namespaces": [office.namespace]}
        for principals, seen in (
            (("group:hr",), "hr-pump"),
            ((), None),
            (("user:42",), "board-pump"),
            (("*",), "hr-pump"),
        ):
            with office.client(*principals) as client:
                answer = sent(client.post("/v1/rag/query", json=asked, headers={"Idempotency-Key": "ask-1"}))
                documents = {chunk["document_id"] for chunk in answer["chunks"]}
                assert documents & set(PUMPS) - {"public-pump"} >= ({seen} if seen else set())
                assert seen == "hr-pump" or "hr-pump" not in documents

    def it_asks_for_many_users_in_one_batch_and_reads_it_alone(self, office):
        with office.client(scopes=("read", "impersonate")) as client, office.client("group:hr") as hr:
            question = {"query_text": "Which pump needs oil?"}
            queries = [question | {"principals": names} for names in (["group:hr"], ["user:42"], ["user:1"])]
            body = {"defaults": {"namespaces": [office.namespace]}, "queries": queries}
            batch = sent(client.post("/v1/query-batches", json=body))["job_id"]
            path = f"/v1/query-batches/{batch}"
            assert sent(client.get(path, params={"wait": 30}))["succeeded"] == 3
            lines = [json.loads(line) for line in client.get(f"{path}/results").text.splitlines()]
            hits = [{chunk["document_id"] for chunk in line["answer"]["chunks"]} & set(PUMPS) for line in lines]
            assert hits == [{"public-pump", "hr-pump"}, {"public-pump", "board-pump"}, {"public-pump"}]
            for method, address in (
                ("GET", path),
                ("GET", f"{path}/results"),
                ("POST", f"{path}/cancel"),
                ("DELETE", path),
            ):
                assert hr.request(method, address).status_code == 404, address

    def it_counts_by_facets_what_it_may_read(self, office):
        namespace = f"kb-{uuid.uuid4().hex[:8]}"
        teams = [("a", None), ("b", ["group:hr"]), ("c", ["user:42"])]
        documents = [
            {"document_id": team, "text": "The pump needs oil.", "metadata": {"team": team}}
            | ({} if readers is None else {"readers": readers})
            for team, readers in teams
        ]
        upload(office.chief, namespace, documents)
        asked = {"query_text": "pump oil", "namespaces": [namespace], "facets": ["metadata.team"]}
        for principals, seen in (((), {"a"}), (("group:hr",), {"a", "b"}), (("*",), {"a", "b", "c"})):
            with office.client(*principals) as client:
                [facet] = sent(client.post("/v1/rag/query", json=asked))["facets"]
                assert {value["value"] for value in facet["values"]} == seen
                assert facet["passages"] == len(seen)
                grouped = {**asked, "group_by": "metadata.team"}
                groups = sent(client.post("/v1/rag/query", json=grouped))["groups"]
                assert {group["value"] for group in groups} == seen
                fields = sent(client.get(f"/v1/namespaces/{namespace}/fields"))
                assert {each["value"] for each in fields["metadata"]["team"]["values"]} == seen

    def it_sees_no_answer_of_another_user(self, office):
        with office.client(scopes=("read", "impersonate")) as client, office.client("user:1") as stranger:
            answer = search(client, office.namespace, "Which pump needs oil?", principals=["group:hr"], trace=True)
            for path in ("", "/trace", "/events"):
                assert stranger.get(f"/v1/queries/{answer['query_id']}{path}").status_code == 404
            chunk = next(chunk["chunk_id"] for chunk in answer["chunks"] if chunk["document_id"] == "hr-pump")
            own = search(stranger, office.namespace, "Which pump needs oil?")["query_id"]
            assert stranger.post(f"/v1/queries/{own}/why-not", json={"chunk_id": chunk}).status_code == 404
            assert sent(stranger.post("/v1/chunks/lookup", json={"chunk_ids": [chunk]}))["data"] == []
            why = sent(office.chief.post(f"/v1/queries/{own}/why-not", json={"chunk_id": chunk}))
            assert (why["stage"], why["reason"]) == ("filter", "readers")


class DescribeAToken:
    def token(self, office, key, **claims: Any) -> str:
        named = {"sub": "42", "groups": ["hr"], "exp": time.time() + 600}
        named["aud"] = f"chordwise:{office.tenant}:{key['key_id']}"
        return jwt.encode({**named, **claims}, key["token_secret"], algorithm="HS256")

    def it_names_its_user_and_groups(self, office):
        key = office.key(signs_tokens=True)
        with gateway(self.token(office, key)) as client:
            assert found(client, office.namespace) & set(PUMPS) == set(PUMPS)
            assert sent(client.get("/v1/keys/current"))["principals"] == ["group:hr", "user:42"]
            upload_refused = client.post("/v1/documents", json={"namespace": "kb", "documents": [{"text": "x"}]})
            problem(upload_refused, 403, "insufficient_scope")
        with gateway(self.token(office, key, sub="7", groups=[])) as client:
            assert found(client, office.namespace) & set(PUMPS) == {"public-pump"}

    @pytest.mark.parametrize(
        "claims",
        [
            {"exp": time.time() - 60},
            {"exp": time.time() + 3 * 86_400},
            {"exp": None},
            {"sub": None},
            {"sub": ""},
            {"groups": "hr"},
            {"aud": "chordwise:somebody:0123456789abcdef"},
            {"aud": "another product"},
        ],
    )
    def it_is_refused_unless_everything_is_right(self, office, claims):
        key = office.key(signs_tokens=True)
        claims = {"aud": f"chordwise:{office.tenant}:{key['key_id']}", **claims}
        named = {"sub": "42", "groups": ["hr"], "exp": time.time() + 600, **claims}
        token = jwt.encode(
            {name: value for name, value in named.items() if value is not None}, key["token_secret"], algorithm="HS256"
        )
        with gateway(token) as client:
            problem(client.get("/v1/documents"), 401, "invalid_api_key")

    def it_is_refused_if_it_is_forged(self, office):
        key = office.key(signs_tokens=True)
        for forged in (
            self.token(office, {**key, "token_secret": "guessed" * 6}),
            self.token(office, key)[:-4] + "AAAA",
            self.token(office, key).rpartition(".")[0] + ".",
            jwt.encode({"aud": f"chordwise:{office.tenant}:{key['key_id']}", "sub": "42"}, None, algorithm="none"),
            self.token(office, {**office.key(), "token_secret": key["token_secret"]}),  # of a key that signs none
        ):
            with gateway(forged) as client:
                problem(client.get("/v1/documents"), 401, "invalid_api_key")

    def it_ends_with_its_key(self, office):
        key = office.key(signs_tokens=True)
        with gateway(self.token(office, key)) as client:
            assert client.get("/v1/documents").status_code == 200
            assert office.chief.delete(f"/v1/keys/{key['key_id']}").status_code == 204
            time.sleep(3)
            problem(client.get("/v1/documents"), 401, "invalid_api_key")


class DescribeReaders:
    def it_changes_them_at_once_and_embeds_nothing(self, office):
        namespace = f"kb-{uuid.uuid4().hex[:8]}"
        documents = [{"document_id": f"d{n}", "text": f"Pump {n} needs oil.", "tags": ["all"]} for n in range(5)]
        upload(office.chief, namespace, documents)
        before = sent(office.chief.get("/v1/usage"))
        with office.client("group:hr") as hr, office.client() as stranger:
            assert found(stranger, namespace) == {f"d{n}" for n in range(5)}
            asked = {"namespace": namespace, "readers": ["group:hr"]}
            for selection, changed in (
                ({"document_ids": ["d0"]}, 1),
                ({"filters": {"tags": ["all"]}}, 4),
                ({"filters": {"tags": ["all"]}}, 0),
            ):
                answer = sent(office.chief.put("/v1/documents/readers", json=asked | selection))
                assert answer == {"namespace": namespace, "documents": changed, "more": False}
                gone = {"d0"} if changed == 1 else {f"d{n}" for n in range(5)}
                assert found(stranger, namespace) & gone == set()
                assert found(hr, namespace) == {f"d{n}" for n in range(5)}
            by_meaning = {"retrieve": {"channels": {"keyword": {"weight": 0}}}}
            assert found(hr, namespace, **by_meaning) == {f"d{n}" for n in range(5)}
            assert found(stranger, namespace, **by_meaning) == set()
            back = asked | {"readers": ["public", "group:hr"], "document_ids": ["d3"]}
            assert sent(office.chief.put("/v1/documents/readers", json=back))["documents"] == 1
            assert found(stranger, namespace) == {"d3"}
        assert sent(office.chief.get("/v1/usage")) == before
        aligned = sent(office.chief.post("/v1/verify", json={"namespaces": [namespace]}))
        assert aligned["stale"] == aligned["missing"] == 0

    def it_keeps_them_when_a_document_is_sent_again_without_any(self, office):
        namespace = f"kb-{uuid.uuid4().hex[:8]}"
        document = {"document_id": "plan", "text": "The pump needs oil.", "readers": ["group:hr"]}
        upload(office.chief, namespace, [document])
        again = {"document_id": "plan", "text": "The pump needs oil twice a month."}
        upload(office.chief, namespace, [again])
        params = {"namespace": namespace}
        assert sent(office.chief.get("/v1/documents/plan", params=params))["readers"] == ["group:hr"]
        upload(office.chief, namespace, [again | {"readers": ["group:board"]}])  # the same text
        assert sent(office.chief.get("/v1/documents/plan", params=params))["readers"] == ["group:board"]
        with office.client("group:hr") as hr, office.client("group:board") as board:
            assert found(hr, namespace) == set()
            assert found(board, namespace) == {"plan"}
            back = office.chief.post("/v1/documents/plan/rollback", json={"namespace": namespace})
            finished(office.chief, sent(back)["job_id"])
            assert found(hr, namespace) == set()
            assert found(board, namespace) == {"plan"}

    def it_gives_new_documents_the_default_of_their_namespace(self, office):
        namespace = f"kb-{uuid.uuid4().hex[:8]}"
        asked = {"namespace": namespace, "readers": ["group:staff"], "default": True}
        assert sent(office.chief.put("/v1/documents/readers", json=asked))["documents"] == 0
        upload(office.chief, namespace, [{"document_id": "one", "text": "The pump needs oil."}])
        with office.client() as stranger, office.client("group:staff") as staff:
            assert found(stranger, namespace) == set()
            assert found(staff, namespace) == {"one"}
        [of_staff] = sent(office.chief.get("/v1/namespaces", params={"contains": namespace}))["data"]
        assert of_staff["readers"] == ["group:staff"]
        sent(office.chief.put("/v1/documents/readers", json=asked | {"readers": ["public"]}))
        upload(office.chief, namespace, [{"document_id": "two", "text": "The pump needs oil."}])
        with office.client() as stranger:
            assert found(stranger, namespace) == {"two"}

    @pytest.mark.parametrize(
        "readers", [[], ["*"], [""], ["a\nb"], ["x" * 256], [f"user:{n}" for n in range(1001)], [7]]
    )
    def it_refuses_wrong_ones_and_names_the_place(self, office, readers):
        document = {"document_id": "plan", "text": "The pump needs oil.", "readers": readers}
        body = {"namespace": office.namespace, "documents": [document]}
        answer = problem(office.chief.post("/v1/documents", json=body), 422, "invalid_document")
        assert pointers(answer)[0].startswith("/documents/0/readers")

    def it_finds_among_many_readers_and_groups(self, office):
        namespace = f"kb-{uuid.uuid4().hex[:8]}"
        many = [f"user:{n}" for n in range(1000)]
        upload(office.chief, namespace, [{"document_id": "wide", "text": "The pump needs oil.", "readers": many}])
        with office.client(*(f"group:{n}" for n in range(500)), "user:999") as one, office.client("user:1000") as other:
            assert found(one, namespace) == {"wide"}
            assert found(other, namespace) == set()


# Operations that tell of what is not a document: words, entities, profiles, experiments, the key itself.
_OF_THE_TENANT = ("/v1/dictionary", "/v1/entities", "/v1/profiles", "/v1/experiments", "/v1/keys/current")


@pytest.fixture(scope="module")
def planted(use: Resources) -> Iterator[tuple[Planted, httpx.Client, httpx.Client]]:
    tenant, key = make_tenant(use)
    with gateway(key) as owner:
        planted = plant(owner, tenant, use)
        everything = {"namespace": planted.namespace, "readers": ["user:owner"], "filters": {}}
        assert not sent(owner.put("/v1/documents/readers", json=everything))["more"]
        own = {"name": "x", "scopes": ["read"], "principals": ["user:other"]}
        with gateway(sent(owner.post("/v1/keys", json=own))["api_key"]) as other:
            yield planted, owner, other


class DescribeEveryOperation:
    def it_tells_another_user_of_the_tenant_nothing(self, planted):
        its, _, other = planted
        wrong = {}
        for operation in operations():
            reads = operation.method == "GET" or str(operation) in READING
            others = (*FOR_OPERATORS, *_OF_THE_TENANT, "/readyz", "/healthz", "/v1/metrics")
            if not reads or str(operation) in MANY_IN_ONE or operation.path.startswith(others):
                continue
            answer = attack(other, operation, its)
            told = [each for each in leaks(answer, its) if each not in (its.tenant, its.namespace)]
            if told or answer.status_code >= 500:
                wrong[str(operation)] = (answer.status_code, told, answer.text[:300])
        assert wrong == {}

    def it_tells_an_administrator_nothing_who_sees_no_such_document(self, planted):
        _, owner, _ = planted
        own = {"name": "x", "scopes": ["admin"], "principals": ["user:other"]}
        with gateway(sent(owner.post("/v1/keys", json=own))["api_key"]) as administrator:
            for path in ("/v1/audit", "/v1/audit/export", "/v1/traces"):
                problem(administrator.get(path), 403, "insufficient_scope")
            assert administrator.get("/v1/keys").status_code == 200

    def it_still_tells_the_owner(self, planted):
        its, owner, _ = planted
        assert its.marker in search(owner, its.namespace, "which pump needs oil")["chunks"][0]["text"]


def dify(namespace: str, question: str) -> dict[str, Any]:
    return {
        "knowledge_id": namespace,
        "query": question,
        "retrieval_setting": {"top_k": 10, "score_threshold": 0.0},
    }


class DescribeAnIdentityProvider:
    """Its keys are read from an address; the gateway of the tests may call loopback."""

    @pytest.fixture
    def provider(self) -> Iterator[IdentityProvider]:
        with WebServer() as server:
            yield IdentityProvider(server)

    def it_needs_an_address_of_keys(self, office):
        asked = {"name": "sso", "scopes": ["read"], "jwks_url": "http://127.0.0.1:9/jwks.json"}
        answer = office.chief.post("/v1/keys", json=asked)
        assert answer.status_code in (422, 503), answer.text
        both = asked | {"signs_tokens": True}
        assert pointers(problem(office.chief.post("/v1/keys", json=both), 422, "invalid_request")) == ["/jwks_url"]

    def it_names_the_callers_whose_tokens_it_signs(self, office, provider):
        key = office.key(jwks_url=provider.url)
        with gateway(provider.token(office, key)) as client:
            assert found(client, office.namespace) & set(PUMPS) == {"public-pump", "hr-pump"}
            assert found(client, office.namespace, "水泵要加油吗？") & set(水泵) == {"公开"}
        with gateway(provider.token(office, key, signed_by=ec.generate_private_key(ec.SECP256R1()))) as forger:
            problem(forger.get("/v1/documents"), 401, "invalid_api_key")

    def it_may_be_away_once_its_keys_are_known(self, office, provider):
        key = office.key(jwks_url=provider.url)
        provider.ends()
        with gateway(provider.token(office, key)) as client:
            assert listed(client, office.namespace) & set(PUMPS) == {"public-pump", "hr-pump"}

    def it_changes_its_keys(self, office, provider, use: Resources, monkeypatch):
        key = office.key(jwks_url=provider.url)
        former = provider.token(office, key)
        provider.has_new_key()
        latter = provider.token(office, key)
        assert principal_of(latter, use) is None  # its keys were asked for a moment ago
        later = time.time() + 31
        monkeypatch.setattr(time, "time", lambda: later)
        caller = principal_of(latter, use)
        assert caller is not None
        assert caller.reads_as == {"user:9", "group:hr"}
        assert principal_of(former, use) is None
        asked = provider.asked
        assert principal_of(provider.token(office, key, kid="unknown"), use) is None
        assert provider.asked == asked  # unknown ids do not make the gateway ask each time


class IdentityProvider:
    """Publishes the public half of its key, and signs tokens with it."""

    def __init__(self, server: WebServer) -> None:
        self._server = server
        self._number = 0
        self.has_new_key()

    @property
    def url(self) -> str:
        return self._server.url("/jwks.json")

    @property
    def asked(self) -> int:
        return self._server.asked["/jwks.json"]

    def has_new_key(self) -> None:
        self._number += 1
        self._key = ec.generate_private_key(ec.SECP256R1())
        described = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = [{**described, "kid": f"k{self._number}", "use": "sig", "alg": "ES256"}]
        self._server.pages["/jwks.json"] = page(json.dumps({"keys": keys}).encode())

    def ends(self) -> None:
        self._server.pages.clear()

    def token(self, office: Office, key: dict[str, Any], *, kid: str = "", signed_by: Any = None) -> str:
        claims = {"sub": "9", "groups": ["hr"], "exp": int(time.time()) + 600}
        claims["aud"] = f"chordwise:{office.tenant}:{key['key_id']}"
        return jwt.encode(claims, signed_by or self._key, "ES256", headers={"kid": kid or f"k{self._number}"})
