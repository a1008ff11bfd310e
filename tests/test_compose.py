"""compose/ without a container engine: what can be known about it from its text."""

from __future__ import annotations

import re
import shlex
from urllib.parse import urlsplit

import click
import pytest
from celery.bin.beat import beat
from celery.bin.worker import worker
from flower.options import options as flower_options
from kombu import Connection
from redis.connection import parse_url as parse_redis_url
from sqlalchemy import make_url

from pipeline.settings import Settings, load
from tests.support.repository.project import (
    COMPOSE,
    COMPOSE_TEXT,
    EXAMPLE_LINES,
    PROJECT,
    ROOT,
    SERVICES,
    documented,
    interpolated,
    services_started_with,
    variable,
    words,
)
from workers.roles import ROLES, clock_command, worker_command
from workers.server import parser

DOCKERFILE = (ROOT / "compose/Dockerfile").read_text(encoding="utf-8")

# Settings that compose.yaml decides itself, or by a variable of another name; every other one passes through from .env.
STORES = ("mysql", "postgres", "redis")
FIXED_EVERYWHERE = {f"{store}_{part}" for store in STORES for part in ("url", "password")} | {"keyword_index_dir"}
FIXED_IN_GATEWAY = {"gateway_host", "gateway_port", "admin_key", "flower_url", "flower_link", "oidc"}

# A variable whose value nobody but its reader may see.
SECRET = re.compile(r"\$\{?\w*(PASSWORD|SECRET|AUTH|KEY)\w*")


class DescribeCommands:
    """Commands in compose.yaml exist and understand their options."""

    @pytest.mark.parametrize(
        "command",
        [
            *(pytest.param(words(SERVICES[name]["command"]), id=name) for name in services_started_with("celery")),
            *(pytest.param(worker_command(role), id=role) for role in ROLES),
            pytest.param(clock_command("schedule"), id="clock"),
        ],
    )
    def it_uses_options_that_celery_knows(self, command):
        _, flag, app, kind, *arguments = command
        assert (flag, app) == ("-A", "workers.observer" if kind == "flower" else "workers.app")
        if kind == "flower":
            given = {argument.removeprefix("--").partition("=")[0] for argument in arguments}
            assert given <= {name.replace("_", "-") for name in flower_options}
        else:
            program = {"worker": worker, "beat": beat}[kind]
            assert program.make_parser(click.Context(program)).parse_args(arguments)[1] == []

    @pytest.mark.parametrize("name", services_started_with("python", "-m"))
    def it_runs_modules_that_exist(self, name):
        module = ROOT.joinpath(*words(SERVICES[name]["command"])[2].split("."))
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()

    @pytest.mark.parametrize("name", services_started_with("python", "-m", "workers.server"))
    def it_gives_the_server_arguments_that_it_knows(self, name):
        parser().parse_args(words(SERVICES[name]["command"])[3:])

    def it_starts_every_role_and_asks_each_worker_itself_for_its_health(self):
        started = services_started_with("python", "-m", "workers.server", "worker", "--role")
        assert {words(SERVICES[name]["command"])[-1] for name in started} == set(ROLES)
        for name in started:
            role = words(SERVICES[name]["command"])[-1]
            assert f" -d {role}@$$(hostname) " in SERVICES[name]["healthcheck"]["test"][1]


class DescribeProfiles:
    """A host starts the services of its roles: COMPOSE_PROFILES."""

    def it_has_one_for_each_role_and_one_for_everything(self):
        profiles = {profile for service in SERVICES.values() for profile in service["profiles"]}
        assert profiles == {
            "all",
            "external-stores",
            "stores",
            "migrate",
            "gateway",
            "indexer",
            "clock",
            "flower",
            *ROLES,
        }
        assert all("all" in service["profiles"] for service in SERVICES.values())
        explained = COMPOSE_TEXT + "".join(EXAMPLE_LINES)
        assert all(explained.count(profile) >= 2 for profile in profiles)

    @pytest.mark.parametrize(
        ("profile", "started"),
        [
            *((role, {f"worker-{role}"}) for role in ROLES if role != "queries"),
            ("queries", {"worker-queries", "indexer"}),
            ("gateway", {"gateway"}),
            ("clock", {"beat"}),
            ("stores", {"mysql", "postgres", "redis", "migrate"}),
            ("external-stores", SERVICES.keys() - {"mysql", "postgres", "redis"}),
        ],
    )
    def it_starts_only_the_services_of_a_role(self, profile, started):
        assert {name for name, service in SERVICES.items() if profile in service["profiles"]} == started

    @pytest.mark.parametrize("name", list(SERVICES))
    def it_waits_for_no_service_of_another_host(self, name):
        """Compose refuses a required dependency that no active profile starts."""
        for awaited, how in SERVICES[name].get("depends_on", {}).items():
            started_together = set(SERVICES[name]["profiles"]) <= set(SERVICES[awaited]["profiles"])
            assert started_together or how["required"] is False


class DescribeImages:
    def it_pins_every_image_to_an_exact_version(self):
        named = {service["image"] for service in SERVICES.values()}
        assert {image for image in named if not re.search(r":v?\d+\.\d+", image)} == set()

    def it_pins_its_base_to_a_digest_and_begins_every_stage_with_it(self):
        assert re.search(r"^ARG PYTHON_IMAGE=\S+:3\.11\.\d+\S*@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
        assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${PYTHON_IMAGE}"}

    def it_tags_its_own_image_with_the_projects_version(self):
        own = {service["image"] for service in SERVICES.values() if "build" in service}
        assert own == {f"{PROJECT['project']['name']}:{PROJECT['project']['version']}"}
        labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', DOCKERFILE))
        assert (labels["version"], labels["description"]) == (
            PROJECT["project"]["version"],
            PROJECT["project"]["description"],
        )

    def it_installs_with_hashes_only(self):
        installed = [line for line in DOCKERFILE.splitlines() if "pip install" in line]
        assert all("--require-hashes" in line or "--no-index" in line for line in installed)

    def it_holds_every_package_of_the_project_and_nothing_else(self):
        kept = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
        setuptools = PROJECT["tool"]["setuptools"]
        packages = {pattern.rstrip("*") for pattern in setuptools["packages"]["find"]["include"]}
        modules = {f"{module}.py" for module in setuptools["py-modules"]}
        copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        copied = {source for sources in copies for source in sources.split()}
        described = {"requirements.lock", "pyproject.toml", PROJECT["project"]["readme"]}
        assert packages | modules | {"chordwise"} | described == copied == kept

    def it_does_not_end_as_root(self):
        assert re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)[-1].split(":")[0] not in ("root", "0")


@pytest.mark.parametrize("name", list(SERVICES))
class DescribeEveryService:
    def it_runs_as_an_ordinary_user_without_privileges(self, name):
        service = SERVICES[name]
        assert str(service["user"]).split(":")[0] not in ("root", "0")
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["read_only"] is True
        assert not service.keys() & {"privileged", "cap_add", "network_mode", "pid"}

    def it_has_limits_and_rotated_logs(self, name):
        assert {"cpus", "memory", "pids"} <= SERVICES[name]["deploy"]["resources"]["limits"].keys()
        assert "max-size" in SERVICES[name]["logging"]["options"]

    def it_has_a_health_check_unless_it_ends_by_itself(self, name):
        checked = SERVICES[name]["healthcheck"] != {"disable": True}
        assert checked == (SERVICES[name]["restart"] != "no")

    def it_waits_for_services_in_a_state_they_can_reach(self, name):
        for awaited, how in SERVICES[name].get("depends_on", {}).items():
            ends = SERVICES[awaited]["restart"] == "no"
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")

    def it_uses_only_declared_networks_and_volumes(self, name):
        mounts = [mount.split(":")[0] for mount in SERVICES[name].get("volumes", [])]
        assert set(SERVICES[name]["networks"]) <= COMPOSE["networks"].keys()
        assert {mount for mount in mounts if not mount.startswith(".")} <= COMPOSE["volumes"].keys()
        assert all((ROOT / "compose" / mount).is_file() for mount in mounts if mount.startswith("."))

    def it_publishes_on_loopback_if_at_all(self, name):
        published = SERVICES[name].get("ports", [])
        assert not published or name in ("gateway", "flower")
        assert all(port.startswith(("127.0.0.1:", "${GATEWAY_PUBLISH:-127.0.0.1:")) for port in published)


class DescribeStores:
    def it_keeps_them_on_a_network_without_a_way_out(self):
        assert COMPOSE["networks"]["stores"]["internal"] is True
        assert all(SERVICES[name]["networks"] == ["stores"] for name in ("mysql", "postgres", "redis"))

    @pytest.mark.parametrize("line", ["appendonly yes", "appendfsync everysec", "maxmemory-policy noeviction"])
    def it_lets_redis_lose_no_message(self, line):
        assert line in (ROOT / "compose/redis/redis.conf").read_text(encoding="utf-8").splitlines()

    @pytest.mark.parametrize("line", ["transaction-isolation = READ-COMMITTED", "character-set-server = utf8mb4"])
    def it_runs_mysql_the_way_the_tables_expect(self, line):
        assert line in (ROOT / "compose/mysql/chordwise.cnf").read_text(encoding="utf-8").splitlines()


class DescribeEnvironment:
    def it_passes_every_setting_into_the_containers(self):
        passed = {name: value for name, value in COMPOSE["x-settings"].items() if name.startswith("CHORDWISE_")}
        from_outside = {name for name, value in passed.items() if value is None}
        fixed = FIXED_EVERYWHERE | FIXED_IN_GATEWAY
        assert from_outside == {variable(name) for name in Settings.model_fields.keys() - fixed}
        assert passed.keys() - from_outside == {variable(name) for name in FIXED_EVERYWHERE}
        assert {variable(name) for name in FIXED_IN_GATEWAY} <= SERVICES["gateway"]["environment"].keys()

    def it_reads_only_documented_variables(self):
        assert set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", COMPOSE_TEXT)) <= documented().keys()

    def it_insists_on_exactly_what_the_example_leaves_open(self):
        insisted = set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE_TEXT)) - {variable("admin_key")}
        assert documented(commented=False) == dict.fromkeys(insisted, "") | {"COMPOSE_PROFILES": "all"}

    @pytest.mark.parametrize(
        ("env", "url", "link"),
        [
            ({}, "http://flower:5555", "http://127.0.0.1:5555"),
            ({"FLOWER_PORT": "5556"}, "http://flower:5555", "http://127.0.0.1:5556"),
            (
                {"CHORDWISE_FLOWER_LINK": "https://flower.example.com"},
                "http://flower:5555",
                "https://flower.example.com",
            ),
            ({"CHORDWISE_FLOWER_URL": "", "CHORDWISE_FLOWER_LINK": ""}, "", ""),
        ],
    )
    def it_links_to_flower_where_a_browser_reaches_it(self, env, url, link):
        given = interpolated("gateway", env)
        assert (given["CHORDWISE_FLOWER_URL"], given["CHORDWISE_FLOWER_LINK"]) == (url, link)

    def it_gives_the_operators_key_to_the_gateway_alone(self):
        assert [name for name in SERVICES if variable("admin_key") in SERVICES[name]["environment"]] == ["gateway"]

    @pytest.mark.parametrize("name", ["beat", "flower"])
    def it_gives_who_only_handles_messages_what_celery_reads_and_no_other_secret(self, name):
        given = SERVICES[name]["environment"].keys()
        read = set(re.findall(r"_settings\.(\w+)", (ROOT / "celery_config.py").read_text(encoding="utf-8"))) - {
            "broker"
        }
        assert {variable(setting) for setting in read | {"broker_url", "broker_password", "redis_password"}} <= given
        secrets = {
            variable(setting) for setting, field in Settings.model_fields.items() if "Secret" in str(field.annotation)
        }
        allowed = {variable(setting) for setting in ("redis_url", "redis_password", "broker_url", "broker_password")}
        assert (given & secrets) - allowed == set()
        assert "OPENAI_API_KEY" not in given


class DescribePasswords:
    @pytest.mark.parametrize("name", list(SERVICES))
    def it_puts_none_on_a_command_line(self, name):
        """Assignments in front of a shell command go into its environment."""
        checked = SERVICES[name].get("healthcheck", {}).get("test", [])
        for command in (words(SERVICES[name].get("command")), shlex.split(" ".join(checked[1:]))):
            assert [word for word in command if SECRET.search(word) and not re.match(r"[A-Z_]+=", word)] == []

    @pytest.mark.parametrize("script", ["postgres/10-chordwise.sh", "redis/start.sh"])
    def it_puts_none_on_a_command_line_of_a_script(self, script):
        lines = (ROOT / "compose" / script).read_text(encoding="utf-8").splitlines()
        named = [line for line in lines if SECRET.search(line) and not line.startswith("#")]
        # printf is a part of the shell itself, so its arguments are on no command line.
        assert [line for line in named if not line.startswith("printf ")] == []

    @pytest.mark.parametrize("password", ["p@ss/w#rd%41:?& x", 'quo"te\\back', "$HOME ${x} `y`", "密码"])
    def it_hands_them_over_as_they_are(self, password):
        env = {"MYSQL_PASSWORD": password, "POSTGRES_PASSWORD": password, "REDIS_PASSWORD": password}
        environment = interpolated("worker-upkeep", env)
        found = load({name.removeprefix("CHORDWISE_").lower(): value for name, value in environment.items()})
        assert make_url(found.mysql_url.get_secret_value()).password == password
        assert make_url(found.postgres_url.get_secret_value()).password == password
        assert parse_redis_url(found.redis_url.get_secret_value())["password"] == password
        assert Connection(found.broker).password == password


class DescribeNetworks:
    """Which servers a service must reach follows from the addresses in its environment."""

    @pytest.mark.parametrize("name", services_started_with("celery") + services_started_with("python", "-m"))
    def it_reaches_every_server_that_a_service_is_given(self, name):
        mine = set(SERVICES[name]["networks"])
        for value in interpolated(name, {}).values():
            host = urlsplit(value).hostname if "://" in value else None
            assert host is None or host not in SERVICES or mine & set(SERVICES[host]["networks"]), (name, host)

    @pytest.mark.parametrize("name", services_started_with("celery") + services_started_with("python", "-m"))
    def it_leaves_the_machine_where_a_server_may_be_elsewhere(self, name):
        given = SERVICES[name]["environment"]
        elsewhere = [variable for variable in given if variable.endswith("_URL")]
        assert elsewhere
        assert any(not (COMPOSE["networks"][network] or {}).get("internal") for network in SERVICES[name]["networks"])
