"""The Chinese sentences of the console for the server's English ones, held against all that the server can say."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import redis
from sqlalchemy import make_url

from api_gateway.console.page import FOLDER
from api_gateway.http import problems
from pipeline import errors
from pipeline.database import one_primary
from pipeline.database.store_errors import MYSQL, location, of_redis
from pipeline.database.worker_heartbeats import DiskSpace, ProcessSign
from pipeline.maintenance import doctor, find_causes
from pipeline.parsing.containers import _SIGNATURES
from tests.support.repository.described_codes import every_code
from tests.support.repository.project import ROOT

CHINESE = json.loads((FOLDER / "sentences/zh.json").read_text(encoding="utf-8"))
MYSQL_HERE = location(MYSQL, make_url("mysql+pymysql://chordwise@127.0.0.1:3306/chordwise"))
ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and hasattr(kind, "code")}
_BLANK = re.compile(r"\{\w+\}")
_PATTERNS = [
    re.compile(
        "".join(".+?" if _BLANK.fullmatch(part) else re.escape(part) for part in re.split(r"(\{\w+\})", english))
    )
    for english in CHINESE["details"]
]


NODES = doctor.NodeFacts(server="MySQL", node="one:3306", others=1, ready=1, behind="0.4 s")
SPLIT = one_primary.two_primaries("one:3306 (server_id 1)", "two:3306 (server_id 2)")
SIGN = ProcessSign(host="a", name="queries@a", serves=("recall", "answer"))


def is_translated(sentence: str) -> bool:
    """Whether a pattern fits a sentence, as in `js/sentences.js`."""
    return any(pattern.fullmatch(sentence) for pattern in _PATTERNS)


@cache
def code() -> tuple[tuple[ast.Call, ...], str]:
    """The calls of the server's code but for other dialects, and every text in all of it. Read once, which takes
    seconds."""
    calls: list[ast.Call] = []
    texts: list[str] = []
    for package in ("pipeline", "api_gateway", "workers"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and "dialects" not in path.parts:
                    calls.append(node)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    return tuple(calls), "\n".join(texts)


def calls() -> tuple[ast.Call, ...]:
    return code()[0]


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def literal(node: ast.expr) -> str | None:
    """A sentence that stands in the code, with 7 for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in node.values)
    return None


def reasons_of_documents() -> Iterator[str]:
    """Every sentence with which a document is refused, or put off while it is parsed."""
    for call in calls():
        kind = ERRORS.get(name_of(call))
        if kind is not None and issubclass(kind, (errors.Rejected, errors.ParserUnavailable, errors.FetchUnavailable)):
            yield from (said for node in call.args[:1] if (said := literal(node)))


def warnings_of_parsers() -> set[str]:
    """Every sentence that a parser adds to ``warnings``."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "pipeline/parsing").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    added = [
        node.args[0] for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.append"
    ]
    handed_on = {id(part) for node in nodes if isinstance(node, ast.Call) for part in ast.walk(node)}
    assigned = [
        element
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "warnings"
        for element in ast.walk(node.value)
        if isinstance(element, (ast.Constant, ast.JoinedStr)) and literal(element) and id(element) not in handed_on
    ]
    return {said for node in (*added, *assigned) if (said := literal(node))}


class DescribeCodes:
    def it_has_a_sentence_for_every_code_that_the_server_can_answer(self):
        answered = {*every_code(), *(kind.code for kind in ERRORS.values())}
        answered |= {
            node.value
            for call in calls()
            if name_of(call) in ("Problem", "BadSource")
            for node in (*call.args[1:2], *(option.value for option in call.keywords if option.arg == "code"))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch("[a-z_]+", node.value)
        }
        assert answered - CHINESE["codes"].keys() == set()

    def it_has_none_that_is_never_answered(self):
        source = "\n".join(path.read_text("utf-8") for path in (ROOT / "api_gateway").rglob("*.py"))
        source += "\n".join(path.read_text("utf-8") for path in (ROOT / "pipeline").rglob("*.py"))
        assert [code for code in CHINESE["codes"] if f'"{code}"' not in source] == []


class DescribeDetails:
    def it_translates_every_reason_of_a_failed_document(self):
        untranslated = {said for said in reasons_of_documents() if not is_translated(said)}
        assert sorted(untranslated) == []

    @pytest.mark.parametrize("warning", sorted(warnings_of_parsers()))
    def it_translates_every_warning_of_a_parser_also_beside_others(self, warning):
        assert is_translated(warning)
        assert [part for part in warning.split("; ") if not is_translated(part)] == []

    @pytest.mark.parametrize("template", [*problems._SENTENCES.values(), "is empty", "has fewer than {n} characters"])
    def it_translates_the_faults_of_fields(self, template):
        assert template == "{error}" or is_translated(_BLANK.sub("7", template))

    @pytest.mark.parametrize("name", [name for _, name in _SIGNATURES])
    def it_names_the_formats_of_files(self, name):
        assert name in CHINESE["details"]

    @pytest.mark.parametrize(
        "detail",
        [
            "timed out",
            "it answered nobody a moment ago",
            str(MYSQL_HERE.away("it does not answer (timed out)")),
            str(
                MYSQL_HERE.crowded(
                    "Too many connections; raise max_connections of the server, or lower X or the number of processes"
                )
            ),
            str(MYSQL_HERE.read_only("read_only")),
            str(of_redis(redis.TimeoutError())),
            str(of_redis(redis.exceptions.OutOfMemoryError("OOM"))),
            str(of_redis(redis.RedisError("MISCONF Redis is configured to save"))),
            str(of_redis(redis.AuthenticationError())),
            find_causes.unjudged("schema", replace(doctor.failed("mysql", "", ""), condition="does not answer")).detail,
            str(MYSQL_HERE.locked()),
            str(MYSQL_HERE.held_up("no answer to the statement within 2 s")),
            doctor.circuits(["semantic"]).detail,
            doctor.standbys([replace(NODES, ready=0)]).detail,
            *doctor.standbys(
                [NODES, replace(NODES, behind="3 transactions"), replace(NODES, server="RabbitMQ", behind="")]
            ).detail.split("; "),
            *str(SPLIT).split("; "),
            SPLIT.public,
            errors.WrongInstallation("", two_primaries="PostgreSQL").public,
            doctor.no_worker({"recall": "queries"}).detail,
            doctor.no_worker({"recall": "queries"}, [SIGN]).detail,
            doctor.queue_served("recall", (), role="queries").detail,
            doctor.queue_served("recall", (), role="queries", signs=[SIGN]).detail,
            doctor.keyword_index([]).detail,
            doctor.last_sweep(None, interval_s=5.0, watched_s=100.0).detail,
            doctor.last_sweep(90.0, interval_s=5.0, watched_s=100.0).detail,
            doctor.query_lane(wanted=2, ready=1).detail,
            doctor.disk_space([("a", DiskSpace(holds="mysql", total_bytes=100, free_bytes=4))]).detail,
        ],
    )
    def it_translates_the_causes_that_readiness_names(self, detail):
        assert is_translated(detail)

    def it_fills_no_blank_that_the_english_sentence_lacks(self):
        odd = {
            english: chinese
            for english, chinese in CHINESE["details"].items()
            if not set(_BLANK.findall(chinese)) <= set(_BLANK.findall(english))
        }
        assert odd == {}

    def it_has_no_sentence_that_the_server_never_says(self):
        _, spoken = code()
        longest = {max(re.split(r"\{\w+\}|;", english), key=len).strip(" .:,()") for english in CHINESE["details"]}
        assert sorted(own for own in longest if own not in spoken) == []


class DescribeReasons:
    def it_names_every_reason_and_stage_of_a_left_out_chunk(self):
        words = json.loads((FOLDER / "messages/zh/playground.json").read_text(encoding="utf-8"))["run"]
        stages, reasons = set(), set()
        for call in calls():
            options = {option.arg: option.value for option in call.keywords}
            if name_of(call) in ("Drop", "WhyNotVerdict"):
                stages.add(literal(options["stage"]))
                reasons.add(literal(options["reason"]))
            elif name_of(call) == "drop" and len(call.args) == 4:
                stages.add(literal(call.args[0]))
                reasons |= {
                    literal(node) for node in ast.walk(call.args[1]) if isinstance(node, (ast.Constant, ast.JoinedStr))
                }
            elif name_of(call) == "took":
                stages.add(literal(call.args[0]))
        assert {stage for stage in stages if stage} - words.keys() == set()
        named = {reason for reason in reasons if reason and re.fullmatch("[a-z_]{3,}", reason) and reason != "same_"}
        assert named - CHINESE["reasons"].keys() == set()

    def it_translates_every_explanation(self):
        tree = ast.parse((ROOT / "pipeline/retrieval/explain.py").read_text(encoding="utf-8"))
        said = {
            text
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("detail", "what")
            for text in [literal(node.value)]
            if text
        }
        assert said
        assert [text for text in sorted(said) if not is_translated(text)] == []
