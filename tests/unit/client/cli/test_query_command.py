"""Output of ``chordwise query``, at every width and for every kind of text; and how the command line refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from chordwise import AnswerEvent, ChordwiseError, Hit, QueryResult, Stats, WrittenAnswer
from chordwise.api.queries import Facet, FacetValue, Group
from chordwise.cli import run
from chordwise.cli.query_command import best_sentence, query_words, show, show_answer, summary
from chordwise.cli.screen import clean, folded
from tests.support.clients.answered import answered
from tests.support.servers.gateway_stub import KEY, problem, serve

CHINESE = answered(
    Hit,
    chunk_id="c2",
    document_id="zh-1",
    namespace="kb",
    title="矢井田瞳（やいだひとみ），是日本大阪府丰中市出身的创作歌手",
    text="香港浸会大学中医药学院植物药库对雷公藤是怎样描述的" * 20,
    score=0.5,
    sources=[{"channel": "semantic", "rank": 1}, {"channel": "keyword", "score": 0.1}],
    rerank={"score": 0.4, "from_rank": 1},
)
ENGLISH = answered(
    Hit,
    chunk_id="c1",
    document_id="en-1",
    namespace="kb",
    title="Thermal distributions",
    text="The authors give\n\nthe exact solution " * 20,
    score=0.93,
    sources=[{"channel": "keyword", "rank": 2, "score": 7.2}, {"channel": "semantic", "rank": 11}],
)


@pytest.fixture
def stub(monkeypatch, tmp_path):
    with serve() as running:
        monkeypatch.setenv("CHORDWISE_URL", running.url)
        monkeypatch.setenv("CHORDWISE_API_KEY", KEY)
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.chdir(tmp_path)
        yield running


def told(*events: AnswerEvent, terminal: bool = True) -> str:
    console = Console(width=60, color_system=None, markup=False, emoji=False, highlight=False, force_terminal=terminal)
    with console.capture() as capture:
        show_answer(iter(events), console)
    return capture.get()


def checked(text: str | None, *documents: str) -> AnswerEvent:
    citations = [
        {"marker": f"[{number}]", "chunk_id": "c", "document_id": name, "title": "T", "namespace": "kb"}
        for number, name in enumerate(documents, 1)
    ]
    answer = answered(
        WrittenAnswer,
        query_id="q",
        status="succeeded" if text else "failed",
        text=text,
        citations=citations,
        degradations=[] if text else [{"part": "write", "code": "uncited_reply"}],
    )
    return AnswerEvent(kind="finished", answer=answer)


class DescribeTheWrittenAnswer:
    def it_shows_the_text_as_it_comes_and_its_chunks(self):
        parts = [AnswerEvent(kind="text", delta=delta) for delta in ("Hold\x1b[2J ", "it\n[1].")]
        assert told(*parts, checked("Hold it\n[1].", "manual")) == (
            "Hold[2J it\n[1].\nChecked: Hold it\n[1].\n[1] T  manual\n"
        )
        assert told(AnswerEvent(kind="text", delta="Hold [1]."), checked("Hold [1].")) == "Hold [1].\n"

    def it_shows_the_checked_text_alone_where_nobody_watches(self):
        parts = [AnswerEvent(kind="text", delta="Hold [9]")]
        assert told(*parts, checked("Hold.", "manual"), terminal=False) == "Hold.\n[1] T  manual\n"

    def it_names_the_reason_where_there_is_none(self):
        with pytest.raises(ChordwiseError, match="no answer was written: write, uncited_reply"):
            told(checked(None))


def shown(width: int, *hits: Hit, stats: Stats | None = None) -> str:
    console = Console(width=width, color_system=None, markup=False, emoji=False, highlight=False)
    with console.capture() as capture:
        show(QueryResult(query_id="q", status="succeeded", chunks=hits, stats=stats or answered(Stats)), console)
    return capture.get()


class DescribeTheAnswer:
    def it_shows_rank_score_channels_title_and_text(self):
        lines = shown(100, ENGLISH, CHINESE).splitlines()
        assert lines[0].split() == ["#", "score", "confidence", "found", "by", "document"]
        assert lines[1].split() == ["1", "0.9300", "-", "keyword", "#2", "Thermal", "distributions", "en-1"]
        assert lines[2].split()[:4] == ["semantic", "#11", "The", "authors"]
        assert any("fused #1" in line for line in lines)
        assert sum("keyword" in line for line in lines) == 1  # it only scored what the other channel had found
        assert sum(line.rstrip().endswith("…") for line in lines) == 2

    def it_shows_hits_by_group_and_the_counts_of_facets(self):
        values = (
            FacetValue(value="人事", passages=12, filter="metadata.team:人事"),
            FacetValue(value=True, passages=3, filter=""),
        )
        facets = (
            Facet(field="metadata.team", counted_over="matches", passages=20, values=values, other=5, distinct=7),
            Facet(field="type", counted_over="pool", passages=0, values=(), other=0, distinct=0),
        )
        groups = (
            Group(value="人事", chunk_ids=("c2",), next={"exclude": ["c2"]}),
            Group(value=None, chunk_ids=("c1",), next=None),
        )
        result = QueryResult(query_id="q", status="succeeded", chunks=(CHINESE, ENGLISH), facets=facets, groups=groups)
        console = Console(width=100, color_system=None, markup=False, emoji=False, highlight=False)
        with console.capture() as capture:
            show(result, console)
        lines = [line.strip() for line in capture.get().splitlines()]
        assert lines.index("人事") < next(at for at, line in enumerate(lines) if line.endswith("zh-1"))
        assert lines.index("(without a value)") < next(at for at, line in enumerate(lines) if line.endswith("en-1"))
        assert "metadata.team: 人事 12, true 3, others 5 (of 20 passages that match)" in lines
        assert "type: no value (of 0 passages that were recalled)" in lines

    @pytest.mark.parametrize("width", [20, 33, 50, 63, 64, 80, 81, 120, 200])
    def it_fits_the_width_with_wide_characters_too(self, width):
        printed = shown(width, ENGLISH, CHINESE)
        assert max(cell_len(line) for line in printed.splitlines()) <= width
        assert printed.isprintable() or all(char.isprintable() or char == "\n" for char in printed)

    def it_keeps_the_id_beside_a_long_title(self):
        assert "…  zh-1" in shown(70, CHINESE)

    def it_shows_text_as_it_is_but_nothing_that_controls_the_terminal(self):
        hit = answered(
            Hit,
            chunk_id="c",
            document_id="d\x07",
            title="[bold]x[/bold] :smile:",
            text="a\x1b[31m\u202eb\x00c\ud800",
        )
        printed = shown(100, hit)
        assert "[bold]x[/bold] :smile:  d" in printed
        assert "a[31mbc\ufffd" in printed

    @pytest.mark.parametrize("fallback", ["none_configured", "hint:below_threshold"])
    def it_says_first_that_the_documents_probably_hold_no_answer(self, fallback):
        printed = shown(80, ENGLISH, CHINESE, stats=answered(Stats, fallback=fallback))
        assert printed.startswith("The answer is probably not in your documents")
        assert "probably not" not in shown(80, ENGLISH, CHINESE)

    def it_says_so_when_nothing_was_found(self):
        assert shown(80).startswith("Nothing found.")


class DescribeTheSentence:
    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("how are documents replaced", ["documen", "replac"]),  # longer words decide, by their beginnings
            ("who is it", ["who", "is", "it"]),
            ("水泵轴承", ["水泵", "泵轴", "轴承"]),
            ("TCP 端口", ["端口"]),
            ("?!", []),
        ],
    )
    def it_looks_for_the_words_of_the_query(self, query, words):
        assert query_words(query) == words

    @pytest.mark.parametrize(
        ("text", "query", "found"),
        [
            ("Tea is old. Green tea needs 80.5 degrees. Black tea boils.", "green tea degrees", "Green tea needs 80.5"),
            ("一般说明。水泵的轴承温度不得超过八十度。其他。", "轴承温度", "水泵的轴承"),
            ("Title\n\nwrapped with a\nreplacement here", "replaced", "wrapped with a"),
            (f"| {'a, ' * 80}\n| the row | zebra |\n| last |", "zebra", "| the row"),  # a table is one sentence
            ("Nothing. Of the kind.", "zebra", "Nothing"),
            ("", "zebra", ""),
        ],
    )
    def it_begins_where_most_of_them_stand(self, text, query, found):
        assert text[best_sentence(text, query_words(query)) :].startswith(found)

    @settings(max_examples=50)
    @given(text=st.text(alphabet="ab .!?。\n字"), query=st.text(alphabet="ab 字"))
    def it_is_a_position_in_the_text(self, text, query):
        assert 0 <= best_sentence(text, query_words(query)) <= len(text)


class DescribeTheSummary:
    def it_names_losses_first_then_remarks_hits_shares_times_and_lift(self):
        stats = answered(
            Stats,
            remarks=["confidence: null, because no passage stands out"],
            hits={"keyword": 20, "semantic": 3},
            source_share={"keyword": 0.4, "semantic": 0.6},
            latency_ms={"total": 31.2, "keyword": 9.84, "fuse": 1.0},
            rerank_lift=0.03,
            degraded=True,
            degradations=[{"part": "semantic", "code": "timeout"}],
        )
        assert summary(stats) == [
            ("degraded", "semantic, timeout"),
            ("remark", "confidence: null, because no passage stands out"),
            ("hits", "keyword 20, semantic 3"),
            ("share", "keyword 40%, semantic 60% of the hits, by the strongest channel"),
            ("time", "31.2 ms (keyword 9.8, fuse 1.0 ms)"),
            ("rerank lift", "+0.0300"),
        ]

    def it_is_silent_about_what_the_server_left_out(self):
        assert summary(answered(Stats)) == []


class DescribeFolding:
    @settings(max_examples=30)
    @given(text=st.text(alphabet="ab 字，é👍 -"), width=st.integers(2, 12), lines=st.integers(1, 3))
    def it_never_exceeds_the_width_or_the_number_of_lines(self, text, width, lines):
        kept = folded(clean(text), width, lines=lines)
        assert 1 <= len(kept) <= lines
        assert all(cell_len(line.rstrip()) <= width for line in kept)

    @pytest.mark.parametrize(
        ("text", "width", "lines"),
        [
            ("one two three", 8, ["one two ", "three"]),
            ("ab中文字", 4, ["ab中", "文字"]),  # between wide characters a line may end
            ("abcdefgh", 3, ["abc", "de…"]),
            ("", 5, [""]),
        ],
    )
    def it_breaks_where_a_reader_expects_it(self, text, width, lines):
        assert folded(text, width, lines=2) == lines


class DescribeCleaning:
    @given(st.text())
    def it_leaves_one_printable_line(self, text):
        assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in clean(text))

    def it_keeps_joined_emoji_whole(self):
        assert clean(" a\n\tb 👩‍💻 ") == "a b 👩‍💻"


class DescribeTheCommand:
    def it_asks_as_told(self, stub, capsys):
        arguments = "query 你好 -n a -n b --top-k 3 --method semantic --type t --tag x --no-rerank --trace --json"
        assert run(arguments.split()) == 0
        assert json.loads(capsys.readouterr().out)["query"] == stub.received[0].json()
        assert stub.received[0].json() == {
            "query_text": "你好",
            "namespaces": ["a", "b"],
            "top_k": 3,
            "filters": {"type": "t", "tags": ["x"]},
            "retrieve": {"method": "semantic"},
            "enable_rerank": False,
            "highlight": True,
            "trace": True,
        }

    def it_asks_for_filters_facets_and_groups_as_told(self, stub):
        words = ["--filter", "year > 2020 and not tags:草稿", "--type", "t"]
        options = "--facet tags --facet metadata.部门 --group-by metadata.部门 --group-size 2"
        assert run(["query", "x", "-n", "kb", *words, *options.split()]) == 0
        asked = stub.received[0].json()
        assert asked["filters"] == {"type": "t", "where": "year > 2020 and not tags:草稿"}
        assert asked["facets"] == ["tags", "metadata.部门"]
        assert (asked["group_by"], asked["group_size"]) == ("metadata.部门", 2)

    def it_shows_the_trace_when_asked(self, stub, capsys):
        stub.explained = ["1. d1: the first of one."]
        assert run(["query", "x", "-n", "kb", "--trace"]) == 0
        assert "1. d1: the first of one." in capsys.readouterr().out.splitlines()
        assert stub.received[0].json()["trace"] is True
        assert run(["query", "x", "-n", "kb", "--trace", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["trace"]["explained"] == stub.explained

    def it_takes_finding_nothing_for_a_success(self, stub, capsys):
        assert run(["query", "x", "-n", "kb"]) == 0
        assert capsys.readouterr().out.startswith("Nothing found.")

    def it_fails_in_one_sentence(self, stub, capsys):
        stub.next.append(problem(422, "validation_failed", "bad", errors=[{"pointer": "/top_k", "detail": "too big"}]))
        assert run(["query", "x", "-n", "kb"]) == 1
        assert capsys.readouterr() == ("", "chordwise: bad: /top_k too big (422 validation_failed)\n")


class DescribeUsage:
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ("frobnicate", "No such command 'frobnicate'"),
            ("query x", "name at least one"),
            ("query -n kb", "give either TEXT or --file"),
            ("query x -n kb --method magic", "must be hybrid, full_text, semantic, keyword or vector"),
            ("query x -n kb --top-k many", "--top-k"),
            ("query x -n kb --nonsense", "No such option"),
            ("ingest nowhere -n kb", "does not exist"),
            ("ingest . -n kb --on-conflict merge", "must be replace, skip, error or new"),
            ("eval nowhere -n kb", "does not exist"),
            ("eval . -n kb --limit 0", "--limit"),
        ],
    )
    def it_exits_with_2_and_one_line(self, stub, capsys, arguments, complaint):
        assert run(arguments.split()) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert complaint in printed.err
        assert printed.err.count("\n") == 1
        assert stub.received == []

    def it_exits_with_2_when_no_server_is_named(self, monkeypatch, capsys, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
        monkeypatch.delenv("CHORDWISE_URL", raising=False)
        assert run(["jobs"]) == 2
        assert "set CHORDWISE_URL" in capsys.readouterr().err

    def it_finds_the_local_stack(self, stub, monkeypatch, tmp_path):
        (tmp_path / ".local").mkdir()
        (tmp_path / ".local" / "env").write_text(f"CHORDWISE_URL={stub.url}\nCHORDWISE_API_KEY={KEY}\n")
        monkeypatch.delenv("CHORDWISE_URL")
        monkeypatch.delenv("CHORDWISE_API_KEY")
        assert run(["jobs"]) == 0

    @pytest.mark.parametrize("command", ["", "ingest", "query", "jobs", "verify", "eval", "doctor"])
    def it_explains_itself(self, capsys, command):
        assert run([*command.split(), "--help"]) == 0
        assert "Usage: chordwise" in capsys.readouterr().out

    def it_prints_an_answer_that_the_terminal_has_no_letters_for(self, stub):
        stub.documents["kb"] = {"d": {"document_id": "d", "text": "hello 世界 \ud800"}}
        script = "import sys; from chordwise.cli import main; sys.argv[1:] = ['query', 'hello', '-n', 'kb']; main()"
        environment = {"CHORDWISE_URL": stub.url, "CHORDWISE_API_KEY": KEY, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True, timeout=60
        )
        assert b"\\u4e16" in done.stdout
        assert done.stderr == b""


class DescribeAFileOfQuestions:
    def it_writes_an_answer_for_each_in_their_order(self, stub, tmp_path, capsys):
        stub.documents["kb"] = {
            "fox": {"document_id": "fox", "text": "red fox"},
            "salt": {"document_id": "盐", "text": "盐"},
        }
        lines = [{"id": "a", "query_text": "red"}, {"id": "b", "query_text": "盐", "top_k": 1}]
        (tmp_path / "questions.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        assert run(["query", "--file", "questions.jsonl", "--output", "answers.jsonl", "-n", "kb"]) == 0
        assert "2 questions in answers.jsonl" in capsys.readouterr().out
        answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
        assert [(line["index"], line["id"], line["status"]) for line in answers] == [
            (0, "a", "succeeded"),
            (1, "b", "succeeded"),
        ]
        assert [line["answer"]["chunks"][0]["document_id"] for line in answers] == ["fox", "盐"]
        assert "DELETE /v1/query-batches/batch-1" in stub.paths()

    def it_reads_a_question_a_line_and_writes_to_standard_output(self, stub, tmp_path, capsys):
        (tmp_path / "questions.txt").write_text("red fox\n\n绿茶\n", encoding="utf-8")
        assert run(["query", "--file", "questions.txt", "-n", "kb"]) == 0
        assert [json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()] == ["succeeded"] * 2
        assert [body["query_text"] for body in stub.asked] == ["red fox", "绿茶"]

    def it_fails_if_a_question_has_no_answer(self, stub, tmp_path, capsys):
        (tmp_path / "questions.txt").write_text("good\nbad\n")
        stub.answer = lambda body: {"status": "failed"} if body["query_text"] == "bad" else {"chunks": []}
        assert run(["query", "--file", "questions.txt", "-n", "kb", "--output", "a.jsonl"]) == 1
        assert "2 questions in a.jsonl, 1 without an answer" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [("", "holds no question"), ('"good"\n{"query_text":', "questions.jsonl:2 is not JSON"), ("7", "neither")],
    )
    def it_names_the_line_at_fault(self, stub, tmp_path, capsys, content, complaint):
        (tmp_path / "questions.jsonl").write_text(content)
        assert run(["query", "--file", "questions.jsonl", "-n", "kb"]) == 1
        assert complaint in capsys.readouterr().err
