"""The Helm chart: by its text in every run; rendered by Helm and checked against Kubernetes' schemas in thorough ones."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from pipeline.settings import Settings, load
from pipeline.store_urls import hosts_of
from tests.support.repository.guides import blocks
from tests.support.repository.project import PROJECT, ROOT, SERVICES, variable
from tests.support.servers import chart_tools
from workers.roles import ROLES
from workers.server import parser

CHART = ROOT / "compose/helm/chordwise"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
SETTINGS_CHECK = (CHART / "templates/_settings.tpl").read_text("utf-8")
SECRETS = {
    variable(name)
    for name, field in Settings.model_fields.items()
    if re.search("Secret|SignOn", str(field.annotation)) and not name.endswith("_url")
}
# Services of compose.yaml by the chart's roles, where their names differ.
COMPOSED = {"clock": "beat", **{role: f"worker-{role}" for role in ROLES}}
SCALED = [f"roles.{role}.autoscaling.enabled=true" for role in ROLES]
WHOLE = [
    *("flower.enabled=true", "networkPolicy.enabled=true", "networkPolicy.egress[0].ports[0].port=443", *SCALED),
    *("ingress.enabled=true", "ingress.className=nginx", "ingress.hosts={search.example.com}"),
    *("ingress.tls[0].secretName=tls", "ingress.tls[0].hosts={search.example.com}"),
]
CHANGES = {
    "as it is": [],
    "with everything": WHOLE,
    "by digest": [
        f"image.digest=sha256:{'0' * 64}",
        "imagePullSecrets[0].name=registry",
        "podDisruptionBudget.enabled=false",
    ],
    "placed": [
        "roles.queries.extra.nodeSelector.disk=fast",
        "networkPolicy.gatewayFrom[0].podSelector.matchLabels.a=b",
    ],
}


class DescribeValues:
    def it_has_the_projects_version_and_description(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
        assert {chart["version"], chart["appVersion"]} == {PROJECT["project"]["version"]}
        assert chart["description"] == PROJECT["project"]["description"]

    def it_has_every_role_and_scales_those_of_workers(self):
        assert VALUES["roles"].keys() == {*ROLES, "gateway", "clock"}
        assert VALUES["roles"].keys() == SCHEMA["properties"]["roles"]["properties"].keys()
        assert {name for name, values in VALUES["roles"].items() if "autoscaling" in values} == ROLES.keys()
        assert f"| `{VALUES['ageMetric']}` | gauge | role |" in (ROOT / "docs/metrics.md").read_text("utf-8")

    def it_gives_each_the_memory_that_compose_gives(self):
        given = {role: values["resources"] for role, values in VALUES["roles"].items()}
        given |= {"migrate": VALUES["migration"]["resources"]}
        given |= {name: VALUES[name]["resources"] for name in ("indexer", "flower")}
        for name, resources in given.items():
            composed = SERVICES[COMPOSED.get(name, name)]["deploy"]["resources"]["limits"]["memory"]
            assert resources["limits"]["memory"] == f"{composed}i".replace("mi", "Mi"), name

    def it_ends_none_before_compose_does(self):
        for name, values in VALUES["roles"].items():
            composed = SERVICES[COMPOSED.get(name, name)].get("stop_grace_period", "10s")
            assert values["terminationGracePeriodSeconds"] >= int(composed.removesuffix("s")), name

    def it_starts_flower_as_compose_does(self):
        template = (CHART / "templates/deployments.yaml").read_text("utf-8")
        assert [word for word in SERVICES["flower"]["command"].split() if f" - {word}\n" not in template] == []

    def it_takes_the_values_that_the_page_gives(self):
        text, more = (block.text for block in blocks("docs/containers.md", "yaml"))
        values, rules = yaml.safe_load(text.replace("…", "0" * 64)), yaml.safe_load(more)
        whole = merged(VALUES, values)
        assert whole["roles"]["ingest"]["autoscaling"]["enabled"]
        assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(whole)] == []
        assert [rule["seriesQuery"] for rule in rules["externalRules"]] == [VALUES["ageMetric"]]

    def it_brings_no_server_and_takes_the_addresses_of_clusters(self):
        kinds = re.findall(
            r"^kind: (\w+)", "".join(map(Path.read_text, (CHART / "templates").glob("*.yaml"))), re.MULTILINE
        )
        assert "StatefulSet" not in kinds
        assert "dependencies" not in yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
        pages = ("docs/high-availability.md", "docs/zh/high-availability.md")
        values, translated = (yaml.safe_load(block.text) for page in pages for block in blocks(page, "yaml"))
        assert values == translated
        values["settings"] = {name: url for name, url in values["settings"].items() if url}
        assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(merged(VALUES, values))] == []
        given = {name.removeprefix("CHORDWISE_").lower(): url for name, url in values["settings"].items() if url}
        read = load(given)
        assert (
            len(hosts_of(read.mysql_url.get_secret_value())) == len(hosts_of(read.postgres_url.get_secret_value())) == 2
        )
        assert read.broker.count("amqp://") == 3

    def it_knows_every_secret_and_takes_none_as_a_value(self):
        helpers = (CHART / "templates/_helpers.tpl").read_text("utf-8")
        assert set(re.findall(r'"(CHORDWISE_[A-Z_]+)"', helpers)) == SECRETS
        [refused] = re.findall(r'regexMatch "(_\([A-Z|?]+\)\$)" \$name', SETTINGS_CHECK)
        settings = {variable(name) for name in Settings.model_fields}
        assert {name for name in settings if re.search(refused, name)} == SECRETS
        assert all(re.search(refused, name) for name in ("OPENAI_API_KEY", "FLOWER_BASIC_AUTH"))

    def it_takes_every_other_setting_and_leaves_its_own_to_the_chart(self):
        names, own = (
            re.findall(r'"(\^\(CHORDWISE[^"]+)"', SETTINGS_CHECK)[0],
            set(re.findall(r'"(CHORDWISE_[A-Z_]+)"', SETTINGS_CHECK)),
        )
        assert all(re.search(names, variable(name)) for name in Settings.model_fields)
        deployments = (CHART / "templates/deployments.yaml").read_text("utf-8")
        helpers = (CHART / "templates/_helpers.tpl").read_text("utf-8")
        given = set(re.findall(r"- {name: (CHORDWISE_[A-Z_]+)", deployments + helpers)) - {"CHORDWISE_FLOWER_URL"}
        assert own == given

    def it_names_an_image_that_the_page_builds_and_pushes(self):
        page = (ROOT / "docs/containers.md").read_text("utf-8")
        [built] = re.findall(r"`docker build --push -f compose/Dockerfile -t (\S+) \.`", page)
        [values] = [text for block in blocks("docs/containers.md", "yaml") if "image:" in (text := block.text)]
        image = yaml.safe_load(values)["image"]
        assert f"{image['repository']}:{image['tag']}" == built
        notes = (CHART / "templates/NOTES.txt").read_text("utf-8")
        assert notes.count("docker build --push -f compose/Dockerfile -t") == 2


def merged(values: Any, changes: Any) -> Any:
    """Return values with changes at any depth, as Helm merges them."""
    if not (isinstance(values, dict) and isinstance(changes, dict)):
        return changes
    return values | {name: merged(values.get(name), change) for name, change in changes.items()}


@cache
def rendered(*changes: str) -> tuple[dict[str, Any], ...]:
    """The objects that Helm makes of the chart with these values."""
    done = helm("template", "shop", str(CHART), *(f"--set={change}" for change in changes))
    assert done.returncode == 0, done.stderr
    return tuple(document for document in yaml.safe_load_all(done.stdout) if document)


def rendered_with(values: Any, folder: Path) -> list[dict[str, Any]]:
    """The objects that Helm makes of the chart with a file of values, whose numbers it reads as floats."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), "utf-8")
    done = helm("template", "shop", str(CHART), "--values", str(file))
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return subprocess.run([chart_tools.helm(), *arguments], capture_output=True, text=True)


def pods(objects: tuple[dict[str, Any], ...]) -> dict[str, dict[str, Any]]:
    """The templates of pods, by component."""
    return {
        made["metadata"]["labels"]["app.kubernetes.io/component"]: made["spec"]["template"]["spec"]
        for made in objects
        if made["kind"] in ("Deployment", "Job")
    }


@cache
def definitions(version: str) -> Registry[Any]:
    """The types of a version of Kubernetes, by the address that its schemas have for them."""
    text = (chart_tools.kubernetes_schemas() / version / "_definitions.json").read_text("utf-8")
    return Registry().with_resource("/api/_definitions.json", DRAFT202012.create_resource(json.loads(text)))


def faults(made: dict[str, Any], version: str) -> list[str]:
    """The reasons for which a version of Kubernetes refuses an object; unknown fields are some."""
    group, _, api = made["apiVersion"].rpartition("/")
    file = "-".join(part for part in (made["kind"].lower(), group.split(".")[0], api) if part) + ".json"
    schema = json.loads((chart_tools.kubernetes_schemas() / version / file).read_text("utf-8"))
    found = Draft202012Validator(schema, registry=definitions(version)).iter_errors(made)
    return [f"{made['metadata']['name']}: {fault.json_path}: {fault.message}" for fault in found]


@pytest.mark.thorough
@pytest.mark.timeout(600)
class DescribeRenderedChart:
    def it_names_hosts_by_their_nodes_and_indexes_by_their_pods(self):
        given = {
            container["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
            for pod in pods(rendered(*WHOLE)).values()
            for container in pod["containers"]
            for entry in container["env"]
            if entry["name"] == "CHORDWISE_HOST_NAME"
        }
        assert given == dict.fromkeys([*ROLES, "gateway", "clock", "flower"], "spec.nodeName")

    @pytest.mark.parametrize(
        ("changes", "roles"),
        [([], {"queries"}), (["settings.CHORDWISE_QUERY_LANE=in_process"], {"queries", "gateway"})],
    )
    def it_gives_pods_that_answer_queries_an_index_and_reads_it_where_it_is_mounted(self, changes, roles):
        made = pods(rendered(*changes))
        for role, pod in made.items():
            for container in pod["containers"]:
                [mounted] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] != "tmp"] or [
                    ""
                ]
                read = {entry["name"]: entry.get("value") for entry in container["env"]}
                assert read.get("CHORDWISE_KEYWORD_INDEX_DIR", "") == mounted
                assert bool(mounted) == (role in roles)
        assert {role for role, pod in made.items() if len(pod["containers"]) > 1} == roles

    def it_passes_helms_own_rules(self):
        done = helm("lint", "--strict", str(CHART))
        assert done.returncode == 0, done.stdout

    @pytest.mark.parametrize("minor", [25, 29, 33, 37])
    @pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
    def it_makes_objects_that_kubernetes_accepts(self, changes, minor):
        made = rendered(*changes)
        assert [fault for item in made for fault in faults(item, f"v1.{minor}.0-local-strict")] == []

    def it_would_notice_a_field_that_kubernetes_does_not_know(self):
        wrong = {**rendered()[0], "metdata": {}}
        assert len(faults(wrong, "v1.37.0-local-strict")) == 1

    @pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
    def it_gives_no_container_a_right_or_a_place_to_write(self, changes):
        for pod in pods(rendered(*changes)).values():
            whole = pod["securityContext"]
            assert (whole["runAsNonRoot"], whole["runAsUser"]) == (True, 10001)
            assert whole["seccompProfile"]["type"] == "RuntimeDefault"
            assert pod["automountServiceAccountToken"] is False
            assert all(list(volume) == ["name", "emptyDir"] for volume in pod["volumes"])
            for container in pod["containers"]:
                own = container["securityContext"]
                assert own["capabilities"] == {"drop": ["ALL"]}
                assert (own["readOnlyRootFilesystem"], own["allowPrivilegeEscalation"]) == (True, False)
                assert "memory" in container["resources"]["limits"]

    def it_runs_commands_that_the_server_knows(self):
        commands = [container["args"] for pod in pods(rendered(*WHOLE)).values() for container in pod["containers"]]
        server = [args[3:] for args in commands if args[:3] == ["python", "-m", "workers.server"]]
        for args in server:
            parser().parse_args(args)
        flower = [
            args for args in commands if args not in [["python", "-m", "workers.server", *rest] for rest in server]
        ]
        assert flower == [SERVICES["flower"]["command"].split()]

    def it_hands_out_secrets_by_reference_and_to_those_that_need_them(self):
        given = {}
        for role, pod in pods(rendered(*WHOLE)).items():
            for container in pod["containers"]:
                names = {entry["name"]: entry for entry in container["env"]}
                assert len(names) == len(container["env"])
                secret = {name for name, entry in names.items() if "secretKeyRef" in entry.get("valueFrom", {})}
                known = SECRETS | {"OPENAI_API_KEY", "FLOWER_BASIC_AUTH", "CHORDWISE_BROKER_URL"}
                assert secret == names.keys() & known
                given[container["name"]] = secret
                assert {names[name]["valueFrom"]["secretKeyRef"]["name"] for name in secret} == {"chordwise"}, role
        assert [name for name, secret in given.items() if "CHORDWISE_ADMIN_KEY" in secret] == ["gateway"]
        assert {name for name, secret in given.items() if "OPENAI_API_KEY" in secret} == {*ROLES, "gateway"}
        assert given["clock"] == {"CHORDWISE_REDIS_PASSWORD", "CHORDWISE_BROKER_PASSWORD", "CHORDWISE_BROKER_URL"}
        assert all("CHORDWISE_MYSQL_PASSWORD" in given[name] for name in ("migrate", "indexer", *ROLES, "gateway"))

    def it_takes_the_addresses_of_clusters_from_values_and_from_the_secret(self, tmp_path):
        [values] = [yaml.safe_load(block.text) for block in blocks("docs/high-availability.md", "yaml")]
        made = rendered_with(values, tmp_path)
        assert [fault for item in made for fault in faults(item, "v1.37.0-local-strict")] == []
        environment = {entry["name"]: entry for entry in pods(made)["gateway"]["containers"][0]["env"]}
        for server in ("MYSQL", "POSTGRES", "BROKER"):
            assert environment[f"CHORDWISE_{server}_URL"]["value"] == values["settings"][f"CHORDWISE_{server}_URL"]
        redis = environment["CHORDWISE_REDIS_URL"]["valueFrom"]["secretKeyRef"]
        assert (redis["name"], redis["key"]) == ("chordwise", "CHORDWISE_REDIS_URL")

    def it_migrates_before_everything_else(self):
        hooks = {made["kind"]: made["metadata"].get("annotations", {}).get("helm.sh/hook") for made in rendered()}
        assert hooks.pop("Job") == "pre-install,pre-upgrade"
        assert set(hooks.values()) == {None}

    def it_scales_on_the_age_of_a_roles_messages_and_then_fixes_no_number(self):
        made = rendered(*WHOLE)
        scaled = {item["spec"]["scaleTargetRef"]["name"]: item["spec"] for item in made if "Autoscaler" in item["kind"]}
        assert scaled.keys() == {f"shop-chordwise-{role}" for role in ROLES}
        for name, spec in scaled.items():
            role = name.rpartition("-")[2]
            (metric,) = (each["external"] for each in spec["metrics"])
            assert metric["metric"] == {"name": VALUES["ageMetric"], "selector": {"matchLabels": {"role": role}}}
            seconds = VALUES["roles"][role]["autoscaling"]["targetAgeSeconds"]
            assert metric["target"] == {"type": "Value", "value": f"{seconds * 1000:.0f}m"}
        fixed = {
            item["metadata"]["name"] for item in made if item["kind"] == "Deployment" and "replicas" in item["spec"]
        }
        assert fixed == {f"shop-chordwise-{role}" for role in ("gateway", "clock", "flower")}

    def it_lets_a_disruption_end_one_pod_of_a_role_at_a_time(self):
        budgets = {
            made["metadata"]["name"]: made["spec"] for made in rendered() if made["kind"] == "PodDisruptionBudget"
        }
        deployed = {made["metadata"]["name"]: made["spec"] for made in rendered() if made["kind"] == "Deployment"}
        assert budgets.keys() == deployed.keys()
        for name, budget in budgets.items():
            assert budget == {"maxUnavailable": 1, "selector": deployed[name]["selector"]}
            assert deployed[name]["template"]["spec"]["topologySpreadConstraints"]

    def it_takes_numbers_without_quotes(self, tmp_path):
        made = rendered_with(
            {
                "image": {"repository": "registry.example.com/chordwise", "tag": 20261128},
                "settings": {
                    "CHORDWISE_QUOTA_TOKENS": 10_000_000_000,
                    "CHORDWISE_EMBEDDING_PRICE_PER_MILLION": 0.02,
                    "CHORDWISE_AUDIT_QUERY_TEXT": True,
                },
                "roles": {
                    "gateway": {
                        "replicas": 3,
                        "resources": {"requests": {"cpu": 0.5}, "limits": {"memory": 1610612736, "cpu": 2}},
                        "terminationGracePeriodSeconds": 1_000_000,
                    }
                },
                "service": {"port": 30080, "annotations": {"example.com/idle": 3600, "example.com/on": True}},
                "tmpSize": 67108864,
                "indexer": {"sizeLimit": 4294967296},
                "migration": {"activeDeadlineSeconds": 1_000_000},
            },
            tmp_path,
        )
        assert [fault for item in made for fault in faults(item, "v1.37.0-local-strict")] == []
        by_kind = {(item["kind"], item["metadata"]["name"].rpartition("-")[2]): item for item in made}
        gateway = by_kind["Deployment", "gateway"]["spec"]
        pod = gateway["template"]["spec"]
        given = {entry["name"]: entry.get("value") for entry in pod["containers"][0]["env"]}
        assert given["CHORDWISE_QUOTA_TOKENS"] == "10000000000"
        assert given["CHORDWISE_EMBEDDING_PRICE_PER_MILLION"] == "0.02"
        assert given["CHORDWISE_AUDIT_QUERY_TEXT"] == "true"
        assert pod["containers"][0]["image"] == "registry.example.com/chordwise:20261128"
        assert pod["containers"][0]["resources"]["limits"] == {"memory": 1610612736, "cpu": 2}
        assert (gateway["replicas"], pod["terminationGracePeriodSeconds"]) == (3, 1_000_000)
        assert by_kind["Job", "migrate"]["spec"]["activeDeadlineSeconds"] == 1_000_000
        service = by_kind["Service", "gateway"]
        assert service["spec"]["ports"][0]["port"] == 30080
        assert service["metadata"]["annotations"] == {"example.com/idle": "3600", "example.com/on": "true"}

    def it_leads_from_outside_to_the_gateways_where_it_is_wanted(self):
        assert not {"Ingress", "ServiceMonitor"} & {made["kind"] for made in rendered()}
        [ingress] = [made for made in rendered(*WHOLE) if made["kind"] == "Ingress"]
        [rule] = ingress["spec"]["rules"]
        [path] = rule["http"]["paths"]
        services = {made["metadata"]["name"]: made for made in rendered(*WHOLE) if made["kind"] == "Service"}
        backend = path["backend"]["service"]
        assert backend["port"]["name"] in [port["name"] for port in services[backend["name"]]["spec"]["ports"]]
        assert (rule["host"], path["path"], path["pathType"]) == ("search.example.com", "/", "Prefix")
        assert ingress["spec"]["ingressClassName"] == "nginx"
        assert ingress["spec"]["tls"] == [{"secretName": "tls", "hosts": ["search.example.com"]}]

    def it_has_the_gateways_scraped_where_it_is_wanted(self):
        made = rendered("serviceMonitor.enabled=true", "serviceMonitor.labels.release=prom")
        [monitor] = [item for item in made if item["kind"] == "ServiceMonitor"]
        [service] = [item for item in made if item["kind"] == "Service"]
        [endpoint] = monitor["spec"]["endpoints"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        assert endpoint["path"] == "/v1/metrics"
        assert monitor["metadata"]["labels"]["release"] == "prom"

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ("settings.CHORDWISE_ADMIN_KEY=x", "settings.CHORDWISE_ADMIN_KEY is a secret: remove it from the values"),
            (
                "settings.CHORDWISE_SECRET_KEY=x",
                'put it into the Secret "chordwise" under the key CHORDWISE_SECRET_KEY',
            ),
            ("settings.OPENAI_API_KEY=x", "settings.OPENAI_API_KEY is a secret"),
            ("settings.CHORDWISE_MYSQL_PASSWORD=1234", "settings.CHORDWISE_MYSQL_PASSWORD is a secret"),
            (
                "settings.CHORDWISE_REDIS_URL=redis://user:pass/word@host:6379/0",
                "settings.CHORDWISE_REDIS_URL has a password in its address: remove it there, and put it into the Secret"
                ' "chordwise" under the key CHORDWISE_REDIS_PASSWORD.',
            ),
            (
                "settings.CHORDWISE_REDIS_URL=redis+sentinel://one/name?sentinel_password=x",
                "settings.CHORDWISE_REDIS_URL has a password of the sentinels: set it to null, and put the whole address",
            ),
            (
                "settings.CHORDWISE_RERANK_URL=https://host/?api_key=x",
                "has a password in its address: remove it there.",
            ),
            ("settings.CHORDWISE_HOST_NAME=x", "settings.CHORDWISE_HOST_NAME is set by the chart itself"),
            ("settings.chordwise_log_level=INFO", "settings.chordwise_log_level is no setting"),
        ],
    )
    def it_refuses_a_setting_in_one_sentence(self, change, sentence):
        done = helm("template", "shop", str(CHART), "--set", change)
        assert done.returncode != 0
        assert sentence in done.stderr
        assert "password@" not in done.stderr
        assert "pass/word" not in done.stderr

    @pytest.mark.parametrize(
        "change",
        [
            "roles.ingest.replica=2",
            "roles.gateway.extra.hostNetwork=true",
            "image.digest=latest",
        ],
    )
    def it_refuses_values_that_are_wrong(self, change):
        done = helm("template", "shop", str(CHART), "--set-string", change)
        assert done.returncode != 0
        assert "values don't meet the specifications of the schema" in done.stderr
