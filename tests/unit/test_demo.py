"""The demo's documents, expectations and printing, with canned answers instead of a server."""

from __future__ import annotations

import importlib
import io
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from chordwise import Document, Hit, QueryResult, Stats
from tests.support.clients.answered import answered

DEMO = Path(__file__).resolve().parents[2] / "compose/demo"


@pytest.fixture(scope="module")
def demo():
    """The demo's modules, which are scripts beside each other and not a package."""
    names = ("corpora", "questions", "show")
    sys.path.insert(0, str(DEMO))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(DEMO))
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def english(demo):
    return demo["corpora"].python_docs()


@pytest.fixture(scope="module")
def chinese(demo):
    return demo["corpora"].chinese_notes()


def hit(
    document_id="zh-ir-rrf", *, namespace="zh-notes", title="倒数排名融合：不看分数只看名次", text="…", from_rank=2
):
    seen = {"channel": "keyword", "rank": 1, "score": 7.25, "normalized": 1.0, "contribution": 0.7}
    also = {"channel": "semantic", "rank": 4, "score": 0.43, "normalized": 0.5, "contribution": 0.15}
    return answered(
        Hit,
        chunk_id=f"c-{document_id}",
        document_id=document_id,
        namespace=namespace,
        title=title,
        text=text,
        source="keyword",
        sources=[seen, also],
        rerank={"score": 0.9, "from_rank": from_rank},
    )


def answer(*hits, **stats):
    known = {
        "hits": {"keyword": 20, "semantic": 20},
        "source_share": {"keyword": 0.6, "semantic": 0.4},
        "latency_ms": {"total": 31.2, "keyword": 9.8},
        "rerank_lift": 0.03,
    }
    return QueryResult(query_id="q", status="succeeded", chunks=hits, stats=answered(Stats, **{**known, **stats}))


class DescribePythonDocs:
    def it_finds_several_hundred_documents_with_ids_of_their_own(self, english):
        ids = [document.document_id for document in english]
        assert len(ids) == len(set(ids)) > 500
        assert max(map(len, ids)) <= 64

    def it_gives_the_same_documents_every_time(self, demo, english, tmp_path):
        some = ("email", "heapq.py", "json")
        for name in some:
            (tmp_path / name).symlink_to(Path(sysconfig.get_paths()["stdlib"]) / name)
        tags = {(name.removesuffix(".py"),) for name in some}
        assert demo["corpora"].python_docs(tmp_path) == [each for each in english if each.tags in tags]

    def it_knows_modules_classes_and_functions_by_their_package(self, english):
        assert {document.type for document in english} == {"module", "class", "function"}
        assert all(document.tags == (document.document_id.split(".")[0],) for document in english)

    def it_reads_sources_without_running_them(self, demo, tmp_path):
        (tmp_path / "heapq.py").write_text(f'"""{"Queues. " * 50}"""\nraise SystemExit\n')
        assert [document.document_id for document in demo["corpora"].python_docs(tmp_path)] == ["heapq"]


class DescribeChineseNotes:
    def it_holds_short_articles_with_everything_filters_can_ask_for(self, chinese):
        assert 60 <= len(chinese) <= 80
        assert len({note.document_id for note in chinese}) == len(chinese)
        assert all(150 <= len(note.text) <= 400 for note in chinese)
        assert all(note.title and note.author and note.type and note.tags and note.published_at for note in chinese)

    def it_changes_the_notice_and_nothing_else_of_it(self, demo, chinese):
        corpora = demo["corpora"]
        before = next(note for note in chinese if note.document_id == corpora.NOTICE_ID)
        after = corpora.changed_notice(chinese)
        assert corpora.OLD_WORDS in before.text
        assert corpora.NEW_WORDS in after.text
        assert corpora.OLD_WORDS not in after.text
        assert replace(after, text=before.text) == before


class DescribeQuestions:
    def it_expects_documents_that_are_in_the_namespaces_it_asks(self, demo, english, chinese):
        corpora = demo["corpora"]
        held = {corpora.ENGLISH: english, corpora.CHINESE: chinese}
        for question in demo["questions"].QUESTIONS:
            ids = {document.document_id for namespace in question.namespaces for document in held[namespace]}
            assert set(question.expected) & ids

    def it_is_content_with_the_expected_answer(self, demo, chinese):
        assert self.complaints(demo, chinese, answer(hit("zh-ir-bm25"), hit())) == []

    @pytest.mark.parametrize(
        ("result", "complaint"),
        [
            (answer(), "which are nothing"),
            (answer(hit("zh-ir-bm25"), hit("zh-ir-ndcg"), hit("zh-ir-rag"), hit()), "none of zh-ir-rrf is among"),
            (answer(hit(), hit(namespace="other")), "hits come from other"),
            (
                answer(hit(), degraded=True, degradations=[{"part": "semantic", "code": "timeout"}]),
                "degraded: semantic: timeout",
            ),
            (answer(hit(), hit("unknown")), "kept out unknown"),
        ],
    )
    def it_says_what_is_wrong(self, demo, chinese, result, complaint):
        assert complaint in " ".join(self.complaints(demo, chinese, result))

    @pytest.mark.parametrize(
        ("filters", "fits"),
        [
            ({"type": "article"}, True),
            ({"type": "guide"}, False),
            ({"tags": ["检索", "融合"]}, True),
            ({"tags": ["检索", "医疗"]}, False),
            ({"author": "somebody"}, False),
            ({"start": "2024-06-14T00:00:00Z", "end": "2024-06-14T00:00:00Z"}, True),
            ({"start": "2024-06-15T00:00:00Z"}, False),
            ({"end": "2024-06-13T00:00:00Z"}, False),
        ],
    )
    def it_holds_hits_against_the_filters(self, demo, chinese, filters, fits):
        assert (self.complaints(demo, chinese, answer(hit()), filters=filters) == []) is fits

    def it_notices_a_namespace_without_hits(self, demo, chinese):
        complaints = self.complaints(
            demo, chinese, answer(hit()), namespaces=("zh-notes", "python-docs"), from_everywhere=True
        )
        assert complaints == ["not every one of zh-notes, python-docs has a hit"]

    def complaints(self, demo, chinese, result, *, namespaces=("zh-notes",), **asked):
        question = demo["questions"].Question(text="?", namespaces=namespaces, expected=("zh-ir-rrf",), **asked)
        corpus: dict[str, Document] = {note.document_id: note for note in chinese}
        return list(demo["questions"].shortfalls(question, result, corpus))


class DescribePrinting:
    def it_fits_a_log_of_120_columns_also_in_chinese(self, demo):
        show = demo["show"]
        console = Console(width=show.LOG_COLUMNS, record=True, file=io.StringIO())
        question = demo["questions"].QUESTIONS[3]
        printer = show.Printer(console)
        printer.answer(question, answer(hit(title="很长的标题" * 20), hit("heapq", title="heapq")))
        printer.summary([(question, answer(hit()))])
        lines = console.export_text().splitlines()
        assert max(map(cell_len, lines)) <= show.LOG_COLUMNS
        assert any("0.8500" in line and "7.2500" in line and "+1" in line and "keyword" in line for line in lines)

    @pytest.mark.parametrize(("place", "from_rank", "said"), [(1, 3, "+2"), (3, 1, "-2"), (2, 2, "="), (1, None, "-")])
    def it_says_how_far_reranking_moved_a_hit(self, demo, place, from_rank, said):
        assert demo["show"].movement(place, from_rank) == said

    def it_prints_an_answer_that_says_next_to_nothing(self, demo):
        bare = QueryResult(query_id="q", status="succeeded", chunks=(answered(Hit, chunk_id="c", document_id="d"),))
        assert demo["show"].stats_lines(bare) == ("hits - | share - | rerank lift -", "ms: -")
        assert demo["show"].hits_table(bare).row_count == 1

    def it_counts_what_failed(self, demo):
        printer = demo["show"].Printer(Console(quiet=True))
        printer.check(True, "holds")
        printer.check(False, "does not")
        assert (printer.checks, printer.failures) == (2, ["does not"])
