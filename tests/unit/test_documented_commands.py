"""Every command of README and docs/ is run by a test, or stands on a short list with the reason why none can run it."""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest

from benchmarks.__main__ import _parser as benchmark_parser
from tests.support.repository.cli_uses import PROGRAM, Use, commands, use_of, uses_of_shell, uses_of_test
from tests.support.repository.described_codes import document
from tests.support.repository.guides import (
    NOT_RUN,
    PICTURES,
    READMES,
    TRANSLATIONS,
    blocks,
    pages,
    set_in_lines,
    whole_blocks,
)
from tests.support.repository.project import PROJECT, ROOT, queues
from workers.names import Queue
from workers.server import parser as server_parser

GUIDES = "tests/acceptance/docs/test_guides.py"
RUNBOOKS = "tests/acceptance/docs/test_runbooks.py"
SNIPPETS = "tests/unit/test_guide_snippets.py"
TUTORIALS = "tests/acceptance/docs/test_tutorials.py"

# Which test does all that a page has in a language. Each takes its blocks from `guides.blocks`, which leaves none out.
DONE_BY = {
    ("README.md", "sh"): GUIDES,
    ("README.md", "python"): GUIDES,
    ("docs/backup.md", "sh"): RUNBOOKS,
    ("docs/channels.md", "json"): GUIDES,
    ("docs/channels.md", "python"): SNIPPETS,
    ("docs/channels.md", "toml"): SNIPPETS,
    ("docs/change.md", "sh"): RUNBOOKS,
    ("docs/cli.md", "sh"): GUIDES,
    ("docs/containers.md", "yaml"): "tests/test_chart.py",
    ("docs/high-availability.md", "yaml"): "tests/test_chart.py",
    ("docs/zh/high-availability.md", "yaml"): "tests/test_chart.py",
    ("docs/dify.md", "sh"): "tests/acceptance/docs/test_agent_guides.py",
    ("docs/evaluation.md", "sh"): GUIDES,
    ("docs/example-library.md", "sh"): GUIDES,
    ("docs/formats.md", "python"): SNIPPETS,
    ("docs/frameworks.md", "python"): "tests/acceptance/docs/test_python_guides.py",
    ("docs/frameworks.md", "sh"): "tests/acceptance/client/test_client_wheel.py",
    ("docs/getting-started.md", "python"): "tests/acceptance/docs/test_getting_started.py",
    ("docs/getting-started.md", "sh"): "tests/acceptance/docs/test_getting_started.py",
    ("docs/javascript.md", "js"): "tests/acceptance/client/test_javascript_package.py",
    ("docs/javascript.md", "sh"): "tests/acceptance/client/test_javascript_package.py",
    ("docs/keyword-search.md", "json"): GUIDES,
    ("docs/mcp.md", "json"): "tests/acceptance/docs/test_agent_guides.py",
    ("docs/mcp.md", "python"): "tests/acceptance/docs/test_agent_guides.py",
    ("docs/mcp.md", "sh"): "tests/acceptance/docs/test_agent_guides.py",
    ("docs/openai.md", "python"): "tests/acceptance/docs/test_openai_guide.py",
    ("docs/permissions.md", "json"): "tests/acceptance/docs/test_permissions_page.py",
    ("docs/permissions.md", "python"): "tests/acceptance/docs/test_permissions_page.py",
    ("docs/portability.md", "python"): GUIDES,
    ("docs/portability.md", "sh"): GUIDES,
    ("docs/profiles.md", "sh"): GUIDES,
    ("docs/query-batches.md", "sh"): GUIDES,
    ("docs/python.md", "python"): "tests/acceptance/docs/test_python_guides.py",
    ("docs/retrieval.md", "python"): SNIPPETS,
    ("docs/sign-on.md", "json"): "tests/unit/gateway/console/test_sign_on.py",
    ("docs/signals.md", "json"): "tests/acceptance/administration/test_webhooks_api.py",
    ("docs/sources.md", "json"): "tests/acceptance/docs/test_sources_page.py",
    ("docs/sources.md", "python"): "tests/acceptance/docs/test_sources_page.py",
    ("docs/sources.md", "sh"): "tests/acceptance/docs/test_sources_page.py",
    ("docs/sources.md", "toml"): "tests/acceptance/docs/test_sources_page.py",
    ("docs/tenants-and-keys.md", "sh"): "tests/acceptance/docs/test_tenancy_docs.py",
    ("docs/troubleshooting.md", "sh"): RUNBOOKS,
    ("docs/troubleshooting.md", "sql"): "tests/integration/keyword/test_full_text_rebuild.py",
    ("docs/tutorials/agent-with-langgraph-and-mcp.md", "python"): TUTORIALS,
    ("docs/tutorials/agent-with-langgraph-and-mcp.md", "sh"): TUTORIALS,
    ("docs/tutorials/from-pgvectorstore.md", "python"): TUTORIALS,
    ("docs/tutorials/from-pgvectorstore.md", "sh"): TUTORIALS,
    ("docs/tutorials/medical-example-library.md", "python"): TUTORIALS,
    ("docs/tutorials/medical-example-library.md", "sh"): TUTORIALS,
    ("docs/tutorials/novel-with-story-time.md", "python"): TUTORIALS,
    ("docs/tutorials/novel-with-story-time.md", "sh"): TUTORIALS,
    ("docs/tutorials/support-bot-with-dify.md", "sh"): TUTORIALS,
    ("docs/watch.md", "sh"): RUNBOOKS,
}
TRANSLATED = {"茶": "Tea", "文档是怎样替换的": "how are documents replaced"}

# Commands set in a line, by how they begin: where each is run, or why it is not.
IN_LINES = {
    "curl --compressed": "an option of another program; tests/acceptance/retrieval/test_query_price.py reads what it asks for",
    "docker build": "no daemon of containers on a bare machine; tests/acceptance/containers carries out the same file",
    "docker compose ": NOT_RUN["docker compose "],
    "git clone": "a name; it needs the network",
    "helm upgrade": NOT_RUN["helm upgrade "],
    "celery -A workers.app control query_events": "tests/integration/workers/test_flower.py sends the same to the workers",
    "make bench": "measures for minutes; its arguments are parsed below",
    "make chaos": "kills everything for minutes; started by hand and before releases",
    "make check": "this very suite is a part of it",
    "make demo": "it makes a stack of its own; what it prints is checked by tests/unit/test_demo.py",
    "make client-js": "tests/unit/client/test_javascript_client.py compares what it writes",
    "make dist": "tests/acceptance/client/test_client_wheel.py runs it",
    "make house": "tests/unit/test_named_fields.py counts the same files",
    "make down": "ends the stack under the tests; make says what it would do in tests/acceptance/docs/test_getting_started.py",
    "make test": "is this suite",
    "make thorough": "is this suite with its longest tests",
    "make docs": "installs a generator; tests/unit/test_links.py checks every link",
    "make pictures": "takes minutes; tests/unit/test_pictures.py checks what it takes and what the pages show",
    "make image": "takes minutes; tests/acceptance/containers runs what it makes",
    "make matrix": "starts six stacks; tests/unit/maintenance/test_tested_servers.py reads what it writes",
    "make ha": "starts clusters of every server and loses each of them; lasts an hour",
    "make soak": "lasts an hour; tests/unit/test_long_runs.py tries its verdict",
    "make schema": "tests/integration/database/test_migrations.py compares what it writes",
    "make up": "the tests run on what it starts; make says what it would do in tests/acceptance/docs/test_getting_started.py",
    "make -C ~/chordwise up": "the tests run on what it starts; tests/acceptance/docs/test_getting_started.py",
    "mariadb chordwise < ": NOT_RUN["mariadb chordwise < "],
    "mysql SELECT": "the name of a span",
    "mysqldump": NOT_RUN["mariadb-dump "],
    "pg_restore ": NOT_RUN["pg_dump "],
    "node example.mjs": "tests/acceptance/client/test_javascript_package.py runs it",
    "pip install ": NOT_RUN["pip install "],
    "py-spy ": "measures by hand; not a dependency",
    "pytest tests/integration/ingestion/test_rate_limits.py": "is a test",
    "python -m benchmarks.embedding ": "embeds judged collections for minutes; started by hand",
    "python -m benchmarks.confidence ": "asks judged collections for minutes; started by hand",
    "python -m benchmarks.likeness FOLDER": "needs a judged collection that is fetched; the module is imported below",
    "python -m pipeline.sandbox.parse": "speaks with its parent process: tests/unit/sandbox/test_parsing_formats_sandbox.py",
    "python -m pipeline.tenants.bootstrap ": "tests/acceptance/docs/test_tenancy_docs.py",
    "python -m pipeline.maintenance.migrate_schema adopt": "tests/integration/database/test_installation.py",
    "python -m pipeline.maintenance.migrate_schema check": "tests/integration/database/test_store_refusals.py",
    "python -m pipeline.maintenance.migrate_schema upgrade": "tests/integration/database/test_migrations.py",
    "python3 compose/local.py with bench ": "measures for minutes; its arguments are parsed below",
    "systemctl ": "needs systemd as the first process; tests/test_systemd.py has systemd read the units",
    "redis-cli ": "empties the stack under the tests; tests/faults/test_forgetful_redis.py does what it does",
}
_PROGRAMS = frozenset(
    re.findall(
        r"\S+",
        "alembic apt apt-get bash brew cargo celery cp curl docker flower git go helm kill kubectl make "
        "mariadb mariadb-dump mkdir mysql mysqldump mv node npm npx pg_dump pg_restore pip pipx podman psql "
        "py-spy pytest python python3 redis-cli rm rsync ruff scp sed ssh sudo systemctl tar uv uvx wget",
    )
)
# Run by words that are not written down in a call.
_ELSEWHERE = {
    Use(("mcp",)): "tests/support/clients/mcp_clients.py",
    Use(("keys", "rotate"), frozenset({"--overlap"})): "tests/acceptance/docs/test_tenancy_docs.py",
}
_OURS_NOT_RUN = {
    "chordwise tune …/scifact ": "takes a fetched collection and minutes; see tests/unit/client/cli/test_tune_command.py",
}


@cache
def tested() -> dict[tuple[str, ...], set[str]]:
    """Every command of ours that a block or a test in acceptance/ runs, with the options that it is given somewhere."""
    uses = set(_ELSEWHERE)
    for page, language in DONE_BY:
        if language == "sh":
            uses |= uses_of_shell("".join(block.text for block in blocks(page, "sh")))
    for path in (ROOT / "tests/acceptance").rglob("test_*.py"):
        uses |= uses_of_test(path)
    return {path: {name for use in uses if use.path == path for name in use.options} for path, _ in uses}


def ours() -> list[tuple[str, str]]:
    """Each command of ours set in a line, alternatives apart, with its page."""
    found = set()
    for page in pages():
        for code in set_in_lines(page):
            if re.match(rf"{PROGRAM} [a-z]", code) and not code.startswith(tuple(_OURS_NOT_RUN)):
                first, *others = re.sub(r"[\[\]]", " ", code).split("|")
                head = first.split()[:-1]
                found |= {(page, first), *((page, " ".join((*head, other))) for other in others)}
    return sorted(found)


class DescribeBlocks:
    def it_knows_a_test_for_every_one(self):
        there = {
            (page, block.language)
            for page in pages()
            for block in whole_blocks(page)
            if block.language not in PICTURES and any(not line.startswith(tuple(NOT_RUN)) for line in block.lines)
        }
        assert {(page, language) for page, language in there if page not in TRANSLATIONS} == set(DONE_BY)

    @pytest.mark.parametrize(("page", "language"), DONE_BY, ids=" ".join)
    def it_is_run_by(self, page, language):
        text = (ROOT / DONE_BY[page, language]).read_text(encoding="utf-8")
        assert "blocks(" in text
        assert "tests.support.repository.guides import" in text or "tests.support.repository import guides" in text
        assert (page if page != READMES[0] else "README") in text or f'"{page.removeprefix("docs/")}"' in text

    def it_has_no_command_in_a_picture(self):
        drawn = [
            line for page in pages() for each in whole_blocks(page) if each.language in PICTURES for line in each.lines
        ]
        assert [line for line in drawn if line.split()[0] in ("$", "#", PROGRAM, *_PROGRAMS)] == []

    @pytest.mark.parametrize("chinese", TRANSLATIONS)
    def it_says_the_same_in_both_languages(self, chinese):
        def commands_of(page: str) -> list[str]:
            text = "".join("\n".join(block.lines) for block in whole_blocks(page))
            for there, here in TRANSLATED.items():
                text = text.replace(f'"{there}"', f'"{here}"')
            return [re.sub(r" +#.*", "", line).rstrip() for line in text.splitlines()]

        assert commands_of(chinese) == commands_of(TRANSLATIONS[chinese])

    @pytest.mark.parametrize("begins", NOT_RUN)
    def it_gives_reasons_only_for_what_is_there(self, begins):
        lines = {line for page in pages() for block in whole_blocks(page) for line in block.lines}
        assert any(
            text.startswith(begins) for text in lines | {code for page in pages() for code in set_in_lines(page)}
        )


class DescribeOurCommands:
    @pytest.mark.parametrize(("page", "code"), ours())
    def it_is_run_somewhere(self, page, code):
        words = [word for word in code.replace('"…"', "QUESTION").split()[1:] if word != "…"]
        if len(words) == 1 and any(path[0] == words[0] for path in commands()):
            assert any(path[0] == words[0] for path in tested())
            return
        use = use_of(words)
        assert use is not None, f"{page}: there is no {code}"
        assert use.path in tested(), f"{page}: nothing runs {code}"
        assert use.options <= tested()[use.path], f"{page}: nothing runs {code}"

    def it_has_every_option_that_a_page_names(self):
        known = {name for each in commands().values() for option in each.params for name in option.opts}
        known |= set(re.findall(r"--[a-z-]+", (ROOT / "workers/server.py").read_text("utf-8")))
        named = {
            code.split()[0].split("=")[0]
            for page in pages()
            for code in set_in_lines(page)
            if re.match("--[a-z]", code)
        }
        assert named - known - {"--help"} == set()


class DescribeOtherCommands:
    def it_knows_every_one(self):
        there = {
            code for page in pages() for code in set_in_lines(page) if " " in code and code.split()[0] in _PROGRAMS
        } | {code for page in pages() for code in set_in_lines(page) if code.startswith("make ")}
        assert sorted(code for code in there if not code.startswith(tuple(IN_LINES))) == []

    def it_knows_what_is_no_longer_there(self):
        there = [code for page in pages() for code in set_in_lines(page)]
        assert [begins for begins in IN_LINES if not any(code.startswith(begins) for code in there)] == []

    def it_measures_with_arguments_that_exist(self):
        found = [
            code
            for page in pages()
            if page != "docs/compatibility.md"  # its arguments are those of `make matrix`
            for code in set_in_lines(page)
            if not code.startswith(("make chaos", "make ha", "make image", "make soak"))
        ]
        given = [
            match[1] or match[2] for code in found if (match := re.search(r"ARGS='?([^']+)|-m benchmarks (.+)", code))
        ]
        assert given
        for arguments in given:
            benchmark_parser().parse_args(shlex.split(arguments))

    def it_installs_extras_that_exist(self):
        text = "".join((ROOT / page).read_text(encoding="utf-8") for page in pages())
        named = set(re.findall(r"pip\s+install\s+'chordwise\[(\w+)]'", text))
        assert named
        assert named <= set(PROJECT["project"]["optional-dependencies"])

    def it_starts_workers_for_every_queue(self):
        for page in READMES:
            lines = [line for block in whole_blocks(page) for line in block.lines]
            commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("chordwise-server ")]
            assert [server_parser().parse_args(command) for command in commands]
            listened = {queue for command in commands for queue in queues(command)}
            assert listened == {queue.value for queue in Queue}

    def it_asks_routes_that_exist(self):
        described = document()["paths"]
        routes = {(method.upper(), re.sub(r"{\w+}", "{}", path)) for path, item in described.items() for method in item}
        named = {
            (match[1], re.sub(r"{\w+}", "{}", match[2]))
            for page in pages()
            if page != "docs/reranking.md"  # those are the routes of rerank services
            for code in set_in_lines(page)
            if (match := re.match(r"(GET|POST|PUT|PATCH|DELETE) (/v1/[^ ?]*)", code))
        }
        assert named
        assert named - routes == set()
