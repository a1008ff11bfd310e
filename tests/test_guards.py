"""Drift that no reviewer sees: queues without a worker, settings nobody documented, tasks nobody routes."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from compose.localstack.services import SERVICES as LOCAL_SERVICES
from pipeline.settings import Settings
from tests.support.repository.project import (
    LOCKS,
    PROJECT,
    ROOT,
    SERVICES,
    code_of,
    documented,
    explanations,
    locked_requirements,
    queues,
    requirement_name,
    runtime_dependencies,
    tracked_files,
    variable,
    words,
)
from workers.names import Queue, TaskName

# In two halves, so that this file does not contain what it looks for.
REGISTRY_HOSTS = [
    head + tail
    for head, tail in [
        ("pypi", ".org"),
        ("python", "hosted.org"),
        ("npm", "js.org"),
        ("docker", ".io"),
        ("docker", ".com"),
        ("ghcr", ".io"),
        ("quay", ".io"),
        ("debian", ".org"),
        ("golang", ".org"),
        ("crates", ".io"),
        ("huggingface", ".co"),
    ]
]


class DescribeQueues:
    """A queue that no worker listens to swallows its messages; a worker on a misspelt queue waits for ever."""

    def it_gives_every_queue_a_compose_service(self):
        assert {queue for service in SERVICES.values() for queue in queues(words(service.get("command")))} == set(Queue)

    def it_gives_every_queue_a_process_of_the_local_stack(self):
        assert {queue for service in LOCAL_SERVICES for queue in queues(list(service.arguments))} == set(Queue)

    @pytest.mark.parametrize(
        "local", [service for service in LOCAL_SERVICES if service.queues], ids=lambda each: each.name
    )
    def it_starts_workers_in_containers_as_in_the_local_stack(self, local):
        # Where the local stack starts a worker twice, as queries and queries-2, compose has replicas of one service.
        role = words(SERVICES[local.name.removesuffix("-2")]["command"])
        assert role == ["python", "-m", "workers.server", *local.arguments[1:4]]

    def it_keeps_ingestion_away_from_queries(self):
        for service in SERVICES.values():
            listened = queues(words(service.get("command")))
            assert Queue.INGEST not in listened or listened == {Queue.INGEST}


class DescribeTasks:
    @pytest.mark.parametrize("name", list(TaskName))
    def it_registers_and_routes_every_task(self, name):
        from workers.app import app

        app.loader.import_default_modules()
        assert name in app.tasks
        assert app.amqp.router.route({}, name)["queue"].name in set(Queue)

    def it_schedules_only_tasks_that_exist(self):
        from workers.app import app

        assert {entry["task"] for entry in (app.conf.beat_schedule or {}).values()} <= set(TaskName)


class DescribeSettings:
    def it_documents_every_setting_and_no_other(self):
        ours = {name for name in documented() if name.startswith("CHORDWISE_")}
        assert ours == {variable(name) for name in Settings.model_fields}

    def it_has_a_hundred_at_most(self):
        """A setting stays if two real installations would set it differently; else it is a constant beside its rule."""
        assert len(Settings.model_fields) <= 100

    def it_explains_every_variable_in_the_line_above(self):
        assert [name for name, comment in explanations().items() if not comment] == []

    @pytest.mark.parametrize("name", list(Settings.model_fields))
    def it_shows_the_default_of(self, name):
        shown = documented(commented=True)[variable(name)]
        default = Settings.model_fields[name].default
        if default is None:
            assert shown == ""
        else:
            # Through the settings' own parsing: two spellings of one number or one mapping are the same.
            assert getattr(Settings.model_validate({name: shown}), name) == default

    @pytest.mark.parametrize("name", list(Settings.model_fields))
    def it_names_every_choice_of(self, name):
        choices = [choice for choice in get_args(Settings.model_fields[name].annotation) if isinstance(choice, str)]
        assert [choice for choice in choices if choice not in explanations()[variable(name)]] == []


class DescribeDependencies:
    def it_gives_a_reason_for_every_runtime_dependency(self):
        text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
        explained = re.findall(r"^\| (?!package )([a-z][\w.\[\]-]*) \| \w", text, re.MULTILINE)
        assert {requirement_name(each) for each in explained} == runtime_dependencies()

    @pytest.mark.parametrize("lock", LOCKS)
    def it_locks_every_requirement_to_a_version_and_a_hash(self, lock):
        pinned = re.compile(r"==\S+.*--hash=sha256:[0-9a-f]{64}")
        assert [line for line in locked_requirements(lock) if not pinned.search(line)] == []

    def it_locks_every_runtime_dependency(self):
        assert runtime_dependencies() <= {requirement_name(line) for line in locked_requirements(LOCKS[0])}


class DescribeFiles:
    @pytest.mark.parametrize("host", REGISTRY_HOSTS)
    def it_names_no_registry(self, host):
        assert [str(path.relative_to(ROOT)) for path in tracked_files() if host.encode() in path.read_bytes()] == []

    @pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
    def it_promises_only_make_targets_that_exist(self, readme):
        targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        code = code_of((ROOT / readme).read_text(encoding="utf-8"))
        assert set(re.findall(r"(?<=[`\s])make ([a-z][\w-]*)", code)) <= targets

    def it_begins_the_changelog_with_the_projects_version(self):
        text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        found = re.search(r"^## \[?([\d.]+)", text, re.MULTILINE)
        assert found is not None
        assert found[1] == PROJECT["project"]["version"]
