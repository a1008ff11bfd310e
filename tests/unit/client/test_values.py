"""Values that the client reads and writes, without a socket: answers, documents, batches, files, settings."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise import Document, Ingestion, InvalidInput, Job, NotConfigured, QueryResult, UnexpectedAnswer
from chordwise.api.documents import document_json
from chordwise.api.entities import EntityState
from chordwise.api.files import as_document, file_batches, find_files, grouped, read_documents
from chordwise.api.ingestion import IngestKeywords, document_batches, labelled
from chordwise.api.queries import query_body
from chordwise.config import as_operator, discover
from chordwise.records import decode
from chordwise.transport import client_arguments, encode
from pipeline.document_sources import document_id_of
from tests.support.clients.answered import answered

KB = IngestKeywords(namespace="kb")


class DescribeDecoding:
    def it_reads_times_numbers_and_what_is_nested(self):
        job = decode(
            Job,
            {
                "job_id": "j",
                "status": "failed",
                "total": 2,
                "created_at": "2026-01-02T03:04:05Z",
                "errors": [{"document_id": "d", "code": "c", "detail": "why"}],
            },
        )
        assert job.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert (job.done, job.total, job.errors[0].code) == (True, 2, "c")

    def it_keeps_what_it_does_not_know_and_defaults_what_is_null(self):
        job = decode(Job, {"job_id": "j", "stages": None, "finished_at": None, "novelty": [1]})
        assert (job.stages, job.finished_at, job.raw["novelty"]) == ({}, None, [1])

    def it_takes_a_whole_number_for_a_fraction(self):
        result = decode(
            QueryResult,
            {"query_id": "q", "status": "succeeded", "chunks": [{"chunk_id": "c", "document_id": "d", "score": 1}]},
        )
        assert result.chunks[0].score == 1.0

    @pytest.mark.parametrize("state", [{"place": "北城"}, "waits at the gate", ""])
    def it_takes_each_kind_of_a_union(self, state):
        assert decode(EntityState, {"entity_id": "lin", "state": state}).state == state
        with pytest.raises(UnexpectedAnswer, match="an array at /state"):
            decode(EntityState, {"entity_id": "lin", "state": []})

    @pytest.mark.parametrize(
        ("data", "place"),
        [
            ({}, "nothing at /job_id"),
            ({"job_id": 5}, "a number at /job_id"),
            ({"job_id": "j", "total": "2"}, "a string at /total"),
            ({"job_id": "j", "total": True}, "a boolean at /total"),
            ({"job_id": "j", "created_at": "yesterday"}, "a string that is no RFC 3339 time at /created_at"),
            ({"job_id": "j", "errors": [{"code": "c"}, {"code": []}]}, "an array at /errors/1/code"),
            ([], "an array at /"),
        ],
    )
    def it_names_the_place_of_what_does_not_fit(self, data, place):
        with pytest.raises(UnexpectedAnswer, match=place):
            decode(Job, data)


class DescribeIngestion:
    @pytest.mark.parametrize(
        ("states", "together"),
        [
            ([], "succeeded"),
            (["queued", "queued"], "queued"),
            (["succeeded", "queued"], "running"),
            (["succeeded", "succeeded"], "succeeded"),
            (["succeeded", "failed"], "partly_failed"),
            (["failed", "failed"], "failed"),
        ],
    )
    def it_has_one_status_for_all_jobs(self, states, together):
        jobs = tuple(answered(Job, job_id=str(place), status=status) for place, status in enumerate(states))
        assert Ingestion(jobs=jobs).status == together

    def it_adds_up_and_has_an_id_only_if_it_is_one_job(self):
        jobs = tuple(answered(Job, job_id=name, total=3, succeeded=2, failed=1, chunks=9) for name in "ab")
        both = Ingestion(jobs=jobs)
        assert (both.total, both.succeeded, both.failed, both.chunks, both.job_ids) == (6, 4, 2, 18, ("a", "b"))
        assert Ingestion(jobs=jobs[:1]).job_id == "a"
        with pytest.raises(ValueError, match="2 jobs"):
            _ = both.job_id


class DescribeDocumentJson:
    def it_leaves_out_what_is_not_set(self):
        assert document_json(Document(text="t", title="")) == {"text": "t", "title": ""}

    def it_writes_times_with_a_zone(self):
        plain = document_json({"text": "t", "published_at": datetime(2026, 1, 2), "tags": ("a",)})
        assert plain == {"text": "t", "published_at": "2026-01-02T00:00:00+00:00", "tags": ["a"]}

    def it_refuses_what_is_no_document(self):
        with pytest.raises(InvalidInput, match="not int"):
            document_json(5)

    def it_adds_labels_without_overruling_the_document(self):
        options = IngestKeywords(namespace="kb", type="manual", tags=["x", "y"], metadata={"k": 1, "l": 2})
        assert labelled({"type": "note", "tags": ["x"], "metadata": {"k": 3}}, options) == {
            "type": "note",
            "tags": ["x", "y"],
            "metadata": {"k": 3, "l": 2},
        }


class DescribeGrouping:
    @settings(max_examples=30)
    @given(sizes=st.lists(st.integers(0, 50)), at_most=st.integers(1, 5), max_bytes=st.integers(1, 60))
    def it_loses_nothing_and_exceeds_no_limit_but_for_single_things(self, sizes, at_most, max_bytes):
        groups = list(grouped(sizes, lambda size: size, at_most=at_most, max_bytes=max_bytes))
        assert [size for group in groups for size in group] == sizes
        assert all(0 < len(group) <= at_most for group in groups)
        assert all(sum(group) <= max_bytes or len(group) == 1 for group in groups)


class DescribeDocumentBatches:
    def it_cuts_after_a_thousand_documents(self):
        batches = list(document_batches(({"text": str(number)} for number in range(2001)), KB))
        assert [len(batch.names) for batch in batches] == [1000, 1000, 1]
        last = json.loads(batches[-1].content)
        assert last == {"namespace": "kb", "documents": [{"text": "2000"}]}

    def it_cuts_before_sixteen_megabytes(self):
        batches = list(document_batches(({"text": "字" * 1_000_000} for _ in range(11)), KB))
        assert [len(batch.names) for batch in batches] == [5, 5, 1]

    @pytest.mark.parametrize(
        ("document", "on_conflict", "repeatable"),
        [
            ({"document_id": "d", "text": "t"}, None, True),
            ({"document_id": "d", "text": "t"}, "replace", True),
            ({"document_id": "d", "text": "t"}, "error", False),
            ({"document_id": "d", "text": "t"}, "new", True),
            ({"text": "t"}, None, False),
        ],
    )
    def it_knows_what_may_be_sent_twice(self, document, on_conflict, repeatable):
        options = IngestKeywords(namespace="kb", on_conflict=on_conflict)
        assert next(document_batches([document], options)).repeatable is repeatable

    def it_escapes_lone_surrogates_for_the_server_to_refuse(self):
        assert encode({"text": "字\ud800"}) == b'{"text":"\\u5b57\\ud800"}'

    @pytest.mark.parametrize("value", [object(), float("nan")])
    def it_refuses_what_json_cannot_say(self, value):
        with pytest.raises(InvalidInput, match="'d' is not JSON"):
            list(document_batches([{"document_id": "d", "metadata": {"k": value}}], KB))


class DescribeFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("b.md", "a/x.TXT", "a/y.jsonl", "a/photo.png", ".git/z.md", ".hidden.md"):
            path = tmp_path / "docs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("text")
        return tmp_path / "docs"

    def it_takes_known_kinds_below_a_folder_in_order_and_counts_the_others(self, folder):
        found = find_files([folder])
        assert [file.name for file in found.files] == ["b.md", "a/x.TXT", "a/y.jsonl"]
        assert [file.is_json_lines for file in found.files] == [False, False, True]
        assert found.skipped == 1

    def it_takes_any_file_that_is_named(self, folder):
        assert [file.name for file in find_files([folder / "a" / "photo.png"]).files] == ["photo.png"]

    def it_says_what_is_not_there(self, tmp_path):
        with pytest.raises(InvalidInput, match="no file or folder"):
            find_files([tmp_path / "nothing"])

    def it_keeps_a_request_below_two_hundred_files(self, tmp_path):
        (tmp_path / "a.md").write_text("x")
        found = find_files([tmp_path / "a.md"]).files * 201
        assert [len(batch) for batch in file_batches(found)] == [200, 1]


class DescribeJsonLines:
    @pytest.mark.parametrize(
        ("entry", "document"),
        [
            ({"doc_id": "d", "text": "t"}, {"document_id": "d", "text": "t"}),
            ({"id": 7, "text": "t"}, {"document_id": "7", "text": "t"}),
            ({"document_id": "a", "id": "b", "text": "t"}, {"document_id": "a", "text": "t"}),
            (
                {"text": "t", "colour": "red", "metadata": {"k": 1}},
                {"text": "t", "metadata": {"colour": "red", "k": 1}},
            ),
            ({"text": 5, "tags": "x"}, {"text": 5, "tags": "x"}),  # wrong types are the server's to refuse
        ],
    )
    def it_speaks_the_servers_words(self, entry, document):
        assert as_document(entry) == document

    @pytest.mark.parametrize("zipped", [False, True])
    def it_reads_line_by_line_past_bad_ones(self, tmp_path, zipped):
        path = tmp_path / ("x.jsonl.gz" if zipped else "x.jsonl")
        content = '\ufeff{"text": "一"}\n\nnot json\n[1]\n{"text": "二"}'.encode()
        path.write_bytes(gzip.compress(content) if zipped else content)
        bad: list[str] = []
        assert [document["text"] for document in read_documents(path, on_bad_line=bad.append)] == ["一", "二"]
        assert bad == [f"{path}:3 is not a JSON object", f"{path}:4 is not a JSON object"]
        with pytest.raises(InvalidInput, match=":3 is not a JSON object"):
            list(read_documents(path))

    def it_gives_lines_without_an_id_the_same_one_each_time(self, tmp_path):
        path = tmp_path / "笔记.jsonl"
        path.write_text('{"text": "one"}\n\n{"id": "own", "text": "two"}\n{"document_id": null, "text": "三"}\n')
        ids = [document["document_id"] for document in read_documents(path, name="项目/笔记.jsonl")]
        assert ids == ["项目/笔记.jsonl#1", "own", "项目/笔记.jsonl#4"]

    @pytest.mark.parametrize(
        "name", ["x.jsonl", " 项目 /./笔记.jsonl", "cafe\u0301.jsonl", "a\u200bb.jsonl", "字" * 300 + ".jsonl"]
    )
    def it_names_such_lines_as_the_server_names_those_of_a_file(self, tmp_path, name):
        path = tmp_path / "x.jsonl"
        path.write_text('{"text": "one"}\n')
        (document,) = read_documents(path, name=name)
        assert document["document_id"] == document_id_of(f"{name}#1")

    @pytest.mark.parametrize(("name", "content"), [("x.jsonl", b"\xff\xfe"), ("x.jsonl.gz", b"not gzip")])
    def it_says_what_it_cannot_read(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match="cannot be read"):
            list(read_documents(tmp_path / name))


class DescribeQueryBody:
    def it_sends_only_what_is_said(self):
        assert query_body("q", namespace="kb") == {"query_text": "q", "namespaces": ["kb"]}

    def it_speaks_the_contracts_words(self):
        body = query_body(
            "q",
            namespaces=("a", "b"),
            top_k=5,
            method="semantic",
            retrieve={"fusion": {"k": 10}},
            rerank=False,
            context={},
            highlight=True,
            filters={"start": datetime(2026, 1, 1, tzinfo=UTC), "tags": ("t",)},
            extra={"story_time": 3},
        )
        assert body == {
            "query_text": "q",
            "namespaces": ["a", "b"],
            "top_k": 5,
            "filters": {"start": "2026-01-01T00:00:00+00:00", "tags": ["t"]},
            "retrieve": {"fusion": {"k": 10}, "method": "semantic"},
            "enable_rerank": False,
            "context": {},
            "highlight": True,
            "story_time": 3,
        }

    def it_wants_a_namespace(self):
        with pytest.raises(InvalidInput, match="namespace"):
            query_body("q")


class DescribeConfiguration:
    @pytest.fixture
    def local_env(self, tmp_path):
        path = tmp_path / "env"
        path.write_text("# the stack\nCHORDWISE_URL=http://127.0.0.1:1\nexport CHORDWISE_API_KEY='k1'\nnonsense\n")
        return path

    @pytest.mark.parametrize(
        ("environment", "url", "key"),
        [
            ({}, "http://127.0.0.1:1", "k1"),
            ({"CHORDWISE_URL": " "}, "http://127.0.0.1:1", "k1"),
            ({"CHORDWISE_API_KEY": "k2"}, "http://127.0.0.1:1", "k2"),
            ({"CHORDWISE_URL": "http://other", "CHORDWISE_API_KEY": "k2"}, "http://other", "k2"),
            ({"CHORDWISE_URL": "http://other"}, "http://other", None),  # the local key is nobody else's business
        ],
    )
    def it_completes_the_environment_from_the_local_stack(self, local_env, environment, url, key):
        known = discover(environment, local_env)
        assert (known.url, known.api_key) == (url, key)

    def it_reads_the_checkout_that_it_runs_from_in_any_other_folder(self, local_env, tmp_path):
        (tmp_path / ".local/stacks/up").mkdir(parents=True)
        local_env.rename(tmp_path / ".local/env")
        (tmp_path / ".local/stacks/up/env").write_text("CHORDWISE_URL=http://127.0.0.1:1\nCHORDWISE_ADMIN_KEY=k3\n")
        elsewhere = tmp_path / "elsewhere/env"
        known = discover({}, elsewhere, checkout=tmp_path)
        assert (known.url, known.api_key, known.origin) == ("http://127.0.0.1:1", "k1", str(tmp_path / ".local/env"))
        assert as_operator(known, {}, elsewhere, checkout=tmp_path).api_key == "k3"

    def it_knows_nothing_without_either(self, tmp_path):
        assert discover({}, tmp_path / "env", checkout=tmp_path).url is None

    @pytest.mark.parametrize(
        ("url", "key", "complaint"),
        [
            (None, "k", "set CHORDWISE_URL"),
            ("http://h", None, "set CHORDWISE_API_KEY"),
            ("localhost:80", "k", "must look like"),
            ("ftp://h", "k", "must look like"),
            ("http://", "k", "must look like"),
            ("http://h:port", "k", "must look like"),
            ("http://h", "k\n", "contains invalid characters"),
            ("http://h", "кey", "contains invalid characters"),
        ],
    )
    def it_refuses_a_malformed_one_in_one_sentence(self, url, key, complaint):
        with pytest.raises(NotConfigured, match=complaint):
            client_arguments(url, key)

    def it_never_shows_the_key(self, local_env):
        assert "k1" not in repr(discover({}, local_env))


class DescribeLinks:
    def it_follows_none_that_leads_out_of_the_folder(self, tmp_path):
        (tmp_path / "secret.txt").write_text("secret")
        folder = tmp_path / "kb"
        folder.mkdir()
        (folder / "a.txt").write_text("a")
        (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
        (folder / "up.txt").symlink_to("../secret.txt")
        (folder / "in.txt").symlink_to("a.txt")
        (folder / "gone.txt").symlink_to("nothing.txt")
        (folder / "loop").symlink_to(folder)
        assert [file.name for file in find_files([folder]).files] == ["a.txt", "in.txt"]
