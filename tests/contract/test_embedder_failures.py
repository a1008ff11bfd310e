"""How the embedder over HTTP takes the failures of a service: each in bounded time, none as a wrong vector."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from pipeline.errors import EmbedderRefused, EmbedderUnavailable, Misconfigured
from pipeline.models.make_models import check_embedder
from pipeline.models.openai_embedder import OpenAIEmbedder
from tests.support.clients.openai_clients import SECRET, embedder_on
from tests.support.servers.openai_answers import (
    Answer,
    Json,
    changed,
    drops,
    hangs,
    raw,
    refused,
    slow,
    trickles,
    with_data,
    with_vectors,
)
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.patience import SPARE_S

TEXTS = ["the red fox", "a blue whale", "重置路由器的步骤", "PPR-9087 喷嘴"]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimension=64) as server:
        yield server


PASSING = {
    "busy": refused(429, retry_after="0"),
    "busy, with a date": refused(429, retry_after=format_datetime(datetime.now(UTC), usegmt=True)),
    "busy, with a word": refused(429, retry_after="soon"),
    "timed out there": refused(408),
    "conflict": refused(409),
    "broken": refused(500),
    "restarting": refused(503, retry_after="0.05"),
    "error page": Answer(status=502, raw=b"<html>bad gateway</html>"),
    "reset": drops(),
    "not JSON": raw(b"<html>"),
    "cut off": raw(b'{"data": [{"ind'),
    "empty": raw(b""),
    "a list": raw(b"[]"),
    "null": raw(b"null"),
    "no data": changed(lambda body: {"object": "list"}),
    "one missing": with_data(lambda data: data[:-1]),
    "one too many": with_data(lambda data: [*data, data[0]]),
    "an index twice": with_data(lambda data: [data[0], data[0], *data[2:]]),
    "items of another kind": with_data(lambda data: ["x", *data[1:]]),
    "NaN": with_vectors(lambda _: [float("nan")] * 64),
    "infinity in base64": with_vectors(lambda _: "AACAfw==" * 64),
    "too large a number": with_vectors(lambda _: [1e300] * 64),
    "zero": with_vectors(lambda _: [0.0] * 64),
    "words": with_vectors(lambda _: ["much"] * 64),
    "nothing": with_vectors(lambda _: None),
    "nested": with_vectors(lambda _: [[1.0] * 64]),
    "not base64": with_vectors(lambda _: "§§§"),
    "base64 of a broken length": with_vectors(lambda _: "AAAA"),
}


class DescribeFailuresThatPass:
    """Each is retried, and each is EmbedderUnavailable once the retries are used up."""

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
    def it_tries_again_and_says_so_when_they_do_not(self, server: OpenAIServer, failure: Answer):
        with embedder_on(server) as embedder:
            expected = embedder.embed(TEXTS[:3])
            server.next("embeddings", failure, failure)
            started = time.monotonic()
            assert np.array_equal(embedder.embed(TEXTS[:3]), expected)
            assert time.monotonic() - started < 1.0 + SPARE_S
            assert len(server.requests) == 4
            server.always["embeddings"] = failure
            started = time.monotonic()
            with pytest.raises(EmbedderUnavailable) as raised:
                embedder.embed(["fox", "whale", "olive"])
            assert time.monotonic() - started < 1.0 + SPARE_S
            assert 4 + 3 <= len(server.requests) <= 4 + 3 + 1  # the last one asks whether another text is embedded
            assert "fox" not in str(raised.value)

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", [hangs(), trickles(0.02), slow(30)], ids=["hangs", "trickles", "slow"])
    @pytest.mark.parametrize("texts", [1, 25])
    def it_is_over_in_time(self, server: OpenAIServer, failure: Answer, texts: int):
        server.always["embeddings"] = failure
        with embedder_on(server, batch_texts=10) as embedder:
            started = time.monotonic()
            with pytest.raises(EmbedderUnavailable):
                embedder.embed(["slow"] * texts, timeout_s=0.4)
            assert time.monotonic() - started < 0.4 + SPARE_S

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", [hangs(), trickles(0.02)], ids=["hangs", "trickles"])
    def it_bounds_a_request_when_no_time_is_given(self, server: OpenAIServer, failure: Answer):
        server.next("embeddings", failure)
        with embedder_on(server, timeout_s=0.4) as embedder:
            started = time.monotonic()
            assert embedder.embed(["slow"]).shape == (1, 64)
            assert 0.3 < time.monotonic() - started < 0.4 + SPARE_S

    def it_reports_a_service_that_is_not_there(self):
        with OpenAIServer() as gone:
            url = gone.url
        embedder = OpenAIEmbedder(model="m", dimension=64, retries=1, first_wait_s=0.01, base_url=url, api_key=SECRET)
        with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
            embedder.embed(["hello"])
        embedder.close()

    def it_waits_as_long_as_it_is_asked_to(self, server: OpenAIServer):
        server.next("embeddings", refused(429, retry_after="0.5"))
        with embedder_on(server) as embedder:
            started = time.monotonic()
            embedder.embed(["hello"])
            assert 0.5 <= time.monotonic() - started < 0.5 + SPARE_S

    @pytest.mark.parametrize("as_date", [False, True])
    def it_does_not_wait_beyond_its_time_but_passes_the_wish_on(self, server: OpenAIServer, as_date: bool):
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        retry_after = date if as_date else "30"
        server.always["embeddings"] = refused(429, retry_after=retry_after)
        with embedder_on(server) as embedder:
            started = time.monotonic()
            with pytest.raises(EmbedderUnavailable) as raised:
                embedder.embed(["hello"], timeout_s=10.0)
            assert time.monotonic() - started < SPARE_S
            assert raised.value.retry_after_s == pytest.approx(30, abs=5)

    @pytest.mark.parametrize("retry_after", ["600", "86400"])
    def it_gives_work_back_that_would_have_to_wait_for_minutes(self, server: OpenAIServer, retry_after: str):
        server.always["embeddings"] = refused(503, retry_after=retry_after)
        with embedder_on(server) as embedder:
            with pytest.raises(EmbedderUnavailable) as raised:
                embedder.embed(["hello"])
            assert raised.value.retry_after_s == 600
            assert len(server.requests) == 1

    def it_does_not_wait_for_the_other_batches_once_one_has_failed(self, server: OpenAIServer):
        server.next("embeddings", refused(401), hangs(), hangs())
        with embedder_on(server, batch_texts=1, timeout_s=2.0, retries=0) as embedder:
            started = time.monotonic()
            with pytest.raises(Misconfigured):
                embedder.embed(["a", "b", "c"])
            assert time.monotonic() - started < SPARE_S
            _wait_for_threads(2.0 + SPARE_S)


def _only_for(server: OpenAIServer, word: str, answer: Answer) -> None:
    """Let requests with this word in a text get ``answer`` for ever, and any other request an honest one."""
    server.limiter = lambda seen: answer if any(word in text for text in seen.body["input"]) else Answer()


FAILS_FOR_ONE = {
    "broken": refused(500, "input (513 tokens) is too large to process"),
    "error page": Answer(status=502, raw=b"<html>bad gateway</html>"),
    "unavailable": refused(503),
    "reset": drops(),
    "not JSON": raw(b"<html>"),
    "NaN": with_vectors(lambda _: [float("nan")] * 64),
    "zero": with_vectors(lambda _: [0.0] * 64),
    "another length": with_vectors(lambda place: [1.0] * (32 if place == 0 else 64)),
    "one missing": with_data(lambda data: data[:-1]),
}


class DescribeTextsThatFailForEver:
    """A text that the service never embeds, while it embeds others, is found and refused; the others get vectors."""

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("failure", FAILS_FOR_ONE.values(), ids=FAILS_FOR_ONE.keys())
    def it_refuses_only_that_text(self, server: OpenAIServer, failure: Answer):
        _only_for(server, "POISON", failure)
        texts = [f"text {number}" + (" POISON" if number == 13 else "") for number in range(20)]
        answered: list[int] = []
        with embedder_on(server) as embedder, pytest.raises(EmbedderRefused, match="answers other texts") as raised:
            embedder.embed_counted(
                texts, answered=lambda positions, rows, _: answered.extend(positions if rows is not None else ())
            )
        assert raised.value.indexes == (13,)
        assert sorted(answered) == [number for number in range(20) if number != 13]
        assert len(server.requests) <= 3 + 2 * 2 * 5 + 3  # retries, two tries of two halves for each level, probes

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("silence", [hangs(), trickles(0.02)], ids=["hangs", "trickles"])
    def it_waits_a_few_times_for_a_text_that_is_never_answered(self, server: OpenAIServer, silence: Answer):
        _only_for(server, "POISON", silence)
        texts = [f"text {number}" + (" POISON" if number == 13 else "") for number in range(20)]
        with embedder_on(server, timeout_s=0.4, retries=4) as embedder, pytest.raises(EmbedderRefused) as raised:
            embedder.embed(texts)
        assert raised.value.indexes == (13,)
        silent = sum(any("POISON" in text for text in seen.body["input"]) for seen in server.requests)
        assert silent <= 2 + 5  # twice for the batch, once for each half with the text, the last is the text alone

    def it_names_the_reason_of_each(self, server: OpenAIServer):
        server.limiter = lambda seen: next(
            (
                refused(status, f"case {status}")
                for status in (400, 500)
                if f"P{status}" in " ".join(seen.body["input"])
            ),
            Answer(),
        )
        with embedder_on(server) as embedder, pytest.raises(EmbedderRefused) as raised:
            embedder.embed(["a", "b P400", "c", "d P500"])
        assert {at: reason[-8:] for at, reason in raised.value.reasons.items()} == {1: "case 400", 3: "case 500"}

    @pytest.mark.parametrize(
        "failure",
        [
            with_data(lambda data: [{"embedding": data[0]["embedding"]}, *data[1:]]),
            with_vectors(lambda place: [1.0] * (64 - place)),
        ],
        ids=["an index missing", "lengths that differ"],
    )
    def it_blames_no_text_if_only_batches_fail(self, server: OpenAIServer, failure: Answer):
        server.always["embeddings"] = failure
        with embedder_on(server) as embedder:
            assert embedder.embed(TEXTS).shape == (len(TEXTS), 64)

    def it_blames_no_text_while_the_service_is_down(self, server: OpenAIServer):
        server.always["embeddings"] = refused(500)
        with embedder_on(server) as embedder:
            with pytest.raises(EmbedderUnavailable, match="500"):
                embedder.embed([f"text {number}" for number in range(100)])
            assert len(server.requests) == 3 + 1

    def it_blames_no_text_while_the_service_asks_to_wait(self, server: OpenAIServer):
        _only_for(server, "text", refused(503, retry_after="0.01"))
        with embedder_on(server) as embedder, pytest.raises(EmbedderUnavailable) as raised:
            embedder.embed(["a text", "another text"])
        assert raised.value.retry_after_s == 0.01

    def it_blames_the_settings_if_every_vector_has_another_length(self, server: OpenAIServer):
        server.always["embeddings"] = with_vectors(lambda _: [1.0] * 32)
        with embedder_on(server) as embedder, pytest.raises(Misconfigured, match="CHORDWISE_EMBEDDING_DIM is 64"):
            embedder.embed(TEXTS)


class DescribeAnswersThatDiffer:
    @pytest.mark.parametrize(
        "answer",
        [
            with_data(lambda data: [{"embedding": item["embedding"]} for item in data]),
            with_data(lambda data: [{**item, "index": 0} for item in data]),
            with_data(lambda data: [{**item, "index": str(item["index"])} for item in reversed(data)]),
        ],
        ids=["no index: in order", "one index for all: in order", "an index as a text"],
    )
    def it_takes_vectors_by_what_their_index_tells(self, server: OpenAIServer, answer: Answer):
        with embedder_on(server) as embedder:
            expected = embedder.embed(TEXTS)
            server.next("embeddings", answer)
            assert np.array_equal(embedder.embed(TEXTS), expected)

    @pytest.mark.parametrize(
        "complaint",
        [
            {"error": {"message": "Extra inputs are not permitted: encoding_format"}},
            {
                "detail": [
                    {"loc": ["body", "encoding_format"], "msg": "Extra inputs are not permitted", "input": "float"}
                ]
            },
            {"error": "encodingFormat is not a parameter of this model"},
            "Failed to deserialize the JSON body: unknown variants `base64`, `float`",
        ],
    )
    def it_leaves_out_a_format_that_is_refused(self, server: OpenAIServer, complaint: Json):
        no = Answer(status=422, raw=json.dumps(complaint).encode())
        server.limiter = lambda seen: no if "encoding_format" in seen.body else Answer()
        with embedder_on(server) as embedder:
            assert embedder.embed(TEXTS).shape == (len(TEXTS), 64)
            embedder.embed(["once more"])
        assert ["encoding_format" in body for body in server.seen("embeddings")] == [True, True, False, False]


class DescribeRefusals:
    """Not retried: sending the same again cannot help."""

    @pytest.mark.parametrize("status", [401, 403, 404])
    def it_blames_the_installation_for_address_key_and_model(self, server: OpenAIServer, status: int):
        server.always["embeddings"] = refused(status, f"Incorrect API key provided: {SECRET}, or model unknown")
        with embedder_on(server) as embedder:
            with pytest.raises(Misconfigured, match=f"{status}.*model unknown") as raised:
                embedder.embed(["hello"])
            assert SECRET not in str(raised.value)
            assert len(server.requests) == 1

    @pytest.mark.parametrize(("bad", "count"), [([7], 25), ([0], 1), ([0, 24], 25), ([3, 4, 5, 19], 25), ([0, 1], 2)])
    def it_names_the_texts_that_are_refused(self, server: OpenAIServer, bad: list[int], count: int):
        server.poison = {"POISON"}
        texts = [f"text {number}" + (" POISON" if number in bad else "") for number in range(count)]
        with embedder_on(server, batch_texts=10) as embedder:
            with pytest.raises(EmbedderRefused, match="400") as raised:
                embedder.embed(texts)
            assert list(raised.value.indexes) == bad
            good = [text for number, text in enumerate(texts) if number not in bad]
            assert embedder.embed(good).shape == (count - len(bad), 64)

    def it_blames_no_text_when_everything_is_refused(self, server: OpenAIServer):
        server.always["embeddings"] = refused(400, "this is a chat model")
        with embedder_on(server) as embedder:
            with pytest.raises(Misconfigured, match=r"refuses every text.*this is a chat model"):
                embedder.embed([f"text {number}" for number in range(100)])
            assert len(server.requests) == 2

    def it_halves_what_is_too_large(self, server: OpenAIServer):
        server.next("embeddings", refused(413))
        with embedder_on(server) as embedder:
            assert embedder.embed(TEXTS).shape == (len(TEXTS), 64)

    @pytest.mark.parametrize("echo", ["secret plan of the northern branch", "…the   northern\nbranch is secret…"])
    def it_does_not_repeat_the_text(self, server: OpenAIServer, echo: str):
        with embedder_on(server) as embedder:
            server.next("embeddings", refused(400, f"cannot embed '{echo}'"))
            with pytest.raises(EmbedderRefused) as raised:
                embedder.embed(["the secret plan of the northern branch is secret"])
            assert "northern" not in str(raised.value)

    @pytest.mark.parametrize("model", ["hashed", "text-embedding-3-small"])
    def it_does_not_take_vectors_of_another_length(self, server: OpenAIServer, model: str):
        server.next("embeddings", with_vectors(lambda _: [1.0] * 48))
        sentence = "vectors of 48 numbers, but CHORDWISE_EMBEDDING_DIM is 64"
        with embedder_on(server, model=model) as embedder, pytest.raises(Misconfigured, match=sentence):
            check_embedder(embedder)

    def it_asks_for_a_key(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(Misconfigured, match="OPENAI_API_KEY is not set"):
            OpenAIEmbedder(model="m", dimension=64)


class DescribeThreadsLeftBehind:
    @pytest.mark.timeout(20)
    def it_leaves_none_behind_for_longer_than_a_request_may_take(self, server: OpenAIServer):
        server.always["embeddings"] = trickles(0.02)
        with embedder_on(server, timeout_s=0.5) as embedder:
            for _ in range(3):
                with pytest.raises(EmbedderUnavailable):
                    embedder.embed(["slow"], timeout_s=0.1)
            _wait_for_threads(2.0)


def _wait_for_threads(seconds: float) -> None:
    """Wait until no request is under way: its connection would outlive the client."""
    limit = time.monotonic() + seconds
    while any(thread.name.startswith("embed") for thread in threading.enumerate()):
        assert time.monotonic() < limit
        time.sleep(0.05)
