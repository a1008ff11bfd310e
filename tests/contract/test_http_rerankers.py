"""Rerank services over HTTP: the promises of every reranker in each dialect, and what a service may do wrong."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator

import pytest

from pipeline.errors import Misconfigured, RerankerUnavailable
from pipeline.models.ports import Reranker
from pipeline.models.rerank_client import DIALECTS, HttpReranker, on_unit_scale
from tests.contract.test_rerankers import RerankerContract, candidates
from tests.support.servers.openai_answers import Answer, changed, drops, hangs, raw, refused, slow, trickles
from tests.support.servers.rerank_server import SCORE, SECRET, RerankServer, http_reranker_on, rerank_service
from tests.support.stacks.patience import SPARE_S

# How a service is spoken to is one thing for all dialects, so one of them stands for it.
one_dialect = pytest.mark.parametrize("service", ["cohere"], indirect=True)


@pytest.fixture(params=sorted(DIALECTS))
def service(request: pytest.FixtureRequest) -> Iterator[RerankServer]:
    with rerank_service(request.param) as service:
        yield service


@pytest.fixture
def reranker(service: RerankServer) -> Iterator[Reranker]:
    with http_reranker_on(service) as reranker:
        yield reranker


class DescribeHttpReranker(RerankerContract):
    def it_scores_as_the_service_does(self, service: RerankServer, reranker: Reranker):
        scores = reranker.rerank("red fox", candidates("a red fox", "a fox", "a whale"), timeout_s=10.0)
        logits = {"chunk-0": 4.0, "chunk-1": 0.0, "chunk-2": -4.0}
        shares = {"chunk-0": 1.0, "chunk-1": 0.5, "chunk-2": 0.0}
        through = {name: 1 / (1 + math.exp(-logit)) for name, logit in logits.items()}
        assert scores == pytest.approx(through if service.dialect == "tei" else shares)


class DescribeWhatHttpRerankerSends:
    def it_asks_once_with_the_key_and_never_names_a_chunk(self, service: RerankServer, reranker: Reranker):
        reranker.rerank("router", candidates(*["a router"] * 30), timeout_s=10.0)
        assert len(service.bodies) == 1
        assert service.headers[0]["Authorization"] == f"Bearer {SECRET}"
        assert "chunk-" not in json.dumps(service.bodies)

    def it_sends_no_key_where_there_is_none(self, service: RerankServer):
        with http_reranker_on(service, api_key=None) as reranker:
            assert reranker.rerank("router", candidates("router"), timeout_s=10.0)
        assert "Authorization" not in service.headers[0]

    def it_takes_a_whole_address_as_it_is(self, service: RerankServer):
        whole = service.url + DIALECTS[service.dialect].path
        reranker = HttpReranker(url=whole, dialect=service.dialect, model="judge")
        assert reranker.rerank("router", candidates("router"), timeout_s=10.0)
        reranker.close()

    def it_masks_personal_data(self, service: RerankServer, reranker: Reranker):
        texts = candidates("call 13812345678 or write to li.lei@example.com", title="李雷 11010519491231002X")
        reranker.rerank("who has card 4111 1111 1111 1111?", texts, timeout_s=10.0)
        sent = json.dumps(service.bodies, ensure_ascii=False)
        assert not any(secret in sent for secret in ("13812345678", "li.lei", "11010519491231002X", "4111"))
        assert all(mask in sent for mask in ("[phone]", "[email]", "[id-card]", "[bank-card]"))

    @pytest.mark.parametrize("service", ["cohere", "tei"], indirect=True)  # in one request and in several
    def it_keeps_to_its_budget_of_text(self, service: RerankServer):
        with http_reranker_on(service, timeout_s=60.0) as reranker:
            scores = reranker.rerank("q " * 50_000, candidates(*["长" * 40_000] * 200), timeout_s=60.0)
        sent = [text for body in service.bodies for text in body.get("texts", body.get("documents"))]
        assert len(sent) == len(scores) == 200
        assert sum(map(len, sent)) <= 200_000
        assert all(len(body["query"]) <= 2_000 for body in service.bodies)

    def it_never_sends_half_of_a_number(self):
        with rerank_service("cohere") as service, http_reranker_on(service) as reranker:
            for before in range(6_000, 7_300, 100):
                text = "长" * (before - 5) + "13812345678" + " li.lei@example.com" * 400
                reranker.rerank("fox", candidates(text), timeout_s=10.0)
        sent = [text for body in service.bodies for text in body["documents"]]
        assert len(sent) == 13
        assert not any("138" in text or "@" in text for text in sent)

    def it_sends_no_more_at_once_than_the_service_takes(self):
        with rerank_service("tei") as service, http_reranker_on(service) as reranker:
            scores = reranker.rerank(
                "fox", candidates(*["fox" if n == 70 else "owl" for n in range(80)]), timeout_s=5.0
            )
        assert [len(body["texts"]) for body in service.bodies] == [32, 32, 16]
        assert max(scores, key=scores.__getitem__) == "chunk-70"


def _entries(service: RerankServer, *pairs: tuple[object, object]) -> Answer:
    """The honest answer with exactly these indexes and scores in its list."""
    entries = [{"index": index, SCORE[service.dialect]: score} for index, score in pairs]
    return changed(lambda body: service.with_entries(body, entries))


class DescribeWhatHttpRerankerTakes:
    @pytest.mark.parametrize(
        ("pairs", "places"),
        [
            ([(2, 0.9), (0, 0.1), (1, 0.5)], [2, 1, 0]),  # any order
            ([(1, 0.9)], [1]),  # fewer than were sent
            ([(1, 0.9), (7, 0.8), (-1, 0.7), ("x", 0.6), (True, 0.5), (0.0, 0.4)], [1]),  # places that are none
            ([(1, 0.9), (1, 0.1)], [1]),  # the first one counts
            ([(0, float("nan")), (1, 0.5), (2, float("inf"))], [1]),
            ([(0, None), (1, "much"), (2, 0.5), (0, True)], [2]),
            ([("1", "0.9"), (2, 0.5)], [1, 2]),  # numbers as texts
            ([(0, 1e308), (1, -1e308)], [0, 1]),
            ([(0, 10**400), (1, 0.5)], [1]),
        ],
    )
    def it_reads_what_is_usable(self, service: RerankServer, reranker: Reranker, pairs, places):
        service.next(_entries(service, *pairs))
        scores = reranker.rerank("router", candidates("a", "b", "c"), timeout_s=10.0)
        assert sorted(scores, key=lambda name: -scores[name]) == [f"chunk-{place}" for place in places]
        assert all(0.0 <= score <= 1.0 for score in scores.values())

    def it_does_not_mind_what_it_does_not_know(self, service: RerankServer, reranker: Reranker):
        def more(body):
            entries = [None, "x", [], {}, *({**entry, "document": {"text": "x"}} for entry in service.entries(body))]
            return service.with_entries(body, entries)

        service.next(changed(more))
        assert set(reranker.rerank("a", candidates("a", "b"), timeout_s=10.0)) == {"chunk-0", "chunk-1"}

    @one_dialect
    @pytest.mark.parametrize("failure", [refused(429, retry_after="0.05"), refused(503), drops(), raw(b"<html>")])
    def it_asks_once_more_after_what_passes(self, service: RerankServer, reranker: Reranker, failure: Answer):
        service.next(failure)
        assert reranker.rerank("router", candidates("router"), timeout_s=10.0)
        assert len(service.bodies) == 2

    @one_dialect
    @pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 302])
    def it_does_not_repeat_what_cannot_help(self, service: RerankServer, reranker: Reranker, status: int):
        service.always = refused(status)
        with pytest.raises(RerankerUnavailable):
            reranker.rerank("router", candidates("router"), timeout_s=10.0)
        assert len(service.bodies) == 1

    @one_dialect
    def it_does_not_wait_longer_than_it_may(self, service: RerankServer, reranker: Reranker):
        service.always = refused(429, retry_after="30")
        started = time.monotonic()
        with pytest.raises(RerankerUnavailable):
            reranker.rerank("router", candidates("router"), timeout_s=10.0)
        assert time.monotonic() - started < SPARE_S
        assert len(service.bodies) == 1

    @one_dialect
    def it_waits_for_what_is_slow_and_in_time(self, service: RerankServer, reranker: Reranker):
        service.next(slow(0.2))
        assert reranker.rerank("router", candidates("router"), timeout_s=10.0)


class DescribePassagesThatAServiceFailsOn:
    """One passage that a service answers with an error for ever loses its own score only."""

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", [refused(500), refused(400), refused(413), raw(b"<html>")])
    def it_scores_the_others(self, service: RerankServer, reranker: Reranker, failure: Answer):
        service.poison = ("POISON", failure)
        texts = [f"fox {n}" + (" POISON" if n == 13 else "") for n in range(20)]
        scores = reranker.rerank("fox", candidates(*texts), timeout_s=10.0)
        assert scores.keys() == {f"chunk-{n}" for n in range(20) if n != 13}
        assert len(service.bodies) <= 2 + 1 + 2 * 5  # two tries, a probe, two halves for each level

    @one_dialect
    def it_asks_little_more_of_a_service_that_is_down(self, service: RerankServer, reranker: Reranker):
        service.always = refused(500)
        with pytest.raises(RerankerUnavailable, match="500"):
            reranker.rerank("fox", candidates(*["fox"] * 20), timeout_s=10.0)
        assert len(service.bodies) == 2 + 1

    @one_dialect
    def it_stops_looking_after_a_while(self, service: RerankServer, reranker: Reranker):
        service.poison = ("POISON", refused(500))
        texts = ["fox" + (" POISON" if n % 2 else "") for n in range(100)]
        assert reranker.rerank("fox", candidates(*texts), timeout_s=10.0)
        assert len(service.bodies) <= 2 + 1 + 16


class DescribeOnUnitScale:
    @pytest.mark.parametrize(
        "raw_scores",
        [
            [7.7, -2.3, 3.8, -11.0],
            [9.1, 4.2, 6.0, 1.5],
            [-1.0, -7.0, -4.0, -11.0],
            [97.0, 12.0, 55.0, 3.0],
            [870.0, 0.5, 31.0, -900.0],
            [0.97, 0.02, 0.5, 0.01],
            [0.9, 0.2, 0.4, -0.1],
        ],
    )
    def it_keeps_the_order_of_scores_on_any_scale(self, raw_scores: list[float]):
        for are_logits in (False, True):
            scores = on_unit_scale(dict(enumerate(raw_scores)), are_logits=are_logits)
            assert sorted(scores, key=lambda at: -scores[at]) == [0, 2, 1, 3]
            assert len(set(scores.values())) == 4
            assert all(0.0 <= score <= 1.0 for score in scores.values())

    def it_changes_no_score_that_is_on_it(self):
        assert on_unit_scale({0: 0.25, 1: 1.0, 2: 0.0}) == {0: 0.25, 1: 1.0, 2: 0.0}
        assert on_unit_scale({0: 1.0004, 1: 0.5, 2: -0.0001}) == {0: 1.0, 1: 0.5, 2: 0.0}


class DescribeAnswersInTheFormOfAnotherService:
    @pytest.mark.parametrize("dialect", DIALECTS)
    @pytest.mark.parametrize(
        "answer",
        [
            {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]},
            {"data": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]},
            [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.2}],
            {"results": [{"index": "1", "relevance_score": "0.9"}, {"index": "0", "relevance_score": "0.2"}]},
            {"results": [{"index": 1, "score": 0.9}, {"index": 2, "score": float("nan")}, {"index": 0, "score": 0.2}]},
        ],
        ids=["results", "data", "a list", "numbers as texts", "one that is no number"],
    )
    def it_reads_the_scores(self, dialect, answer):
        scores = DIALECTS[dialect].scores_in(answer, count=3)
        assert sorted(scores, key=lambda at: -scores[at]) == [1, 0]


FAILING: dict[str, Answer] = {
    "busy": refused(429),
    "broken": refused(500),
    "wrong key": refused(401, f"invalid key {SECRET}"),
    "no such model": refused(404),
    "refusal": refused(400, "router"),
    "reset": drops(),
    "hangs": hangs(),
    "trickles": trickles(0.02),
    "not JSON": raw(b"<html>"),
    "not UTF-8": raw(b"\xff\xfe\xfa"),
    "endless": raw(b" " * (5 * 1024 * 1024)),
}
UNREADABLE: dict[str, Answer] = {
    "null": raw(b"null"),
    "a number": raw(b"7"),
    "too deep": raw(b"[" * 200_000),
    "no list": raw(b'{"results": {}, "data": 5}'),
    "an empty list": raw(b'{"results": [], "data": []}'),
}


def _says_so_in_time(service: RerankServer, failure: Answer) -> None:
    service.always = failure
    with http_reranker_on(service) as reranker:
        started = time.monotonic()
        with pytest.raises(RerankerUnavailable) as raised:
            reranker.rerank("router", candidates("a", "b", "c"), timeout_s=0.5)
        assert time.monotonic() - started < 0.5 + SPARE_S
    assert SECRET not in str(raised.value)
    assert "router" not in str(raised.value)


class DescribeFailuresOfHttpReranker:
    @pytest.mark.timeout(20)
    @one_dialect
    @pytest.mark.parametrize("failure", FAILING.values(), ids=FAILING.keys())
    def it_says_in_time_that_it_has_no_answer(self, service: RerankServer, failure: Answer):
        _says_so_in_time(service, failure)

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", UNREADABLE.values(), ids=UNREADABLE.keys())
    def it_says_so_of_an_answer_that_is_none(self, service: RerankServer, failure: Answer):
        _says_so_in_time(service, failure)

    @one_dialect
    def it_never_takes_longer_than_it_was_set_to(self, service: RerankServer):
        service.always = hangs()
        with http_reranker_on(service, timeout_s=0.3) as reranker:
            started = time.monotonic()
            with pytest.raises(RerankerUnavailable):
                reranker.rerank("router", candidates("a"), timeout_s=60.0)
            assert time.monotonic() - started < 0.3 + SPARE_S

    def it_says_that_nobody_is_there(self):
        reranker = HttpReranker(url="http://127.0.0.1:9", dialect="tei")
        with pytest.raises(RerankerUnavailable):
            reranker.rerank("router", candidates("a"), timeout_s=1.0)
        reranker.close()

    @pytest.mark.parametrize("options", [{"url": "http://"}, {"url": "http://h:x"}, {"api_key": "schlüssel—"}])
    def it_refuses_settings_that_cannot_be(self, options):
        with pytest.raises(Misconfigured, match="CHORDWISE_RERANK_URL"):
            HttpReranker(**{"url": "http://127.0.0.1:9", "dialect": "tei", **options})
