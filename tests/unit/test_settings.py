"""Wrong settings: one sentence that names the variable and says what is wrong with it, and never repeats a secret."""

from __future__ import annotations

import importlib.machinery
import sys

import pytest

from pipeline.errors import Misconfigured
from pipeline.setting_values import parse_vector_index
from pipeline.settings import load

MYSQL = "must begin with mysql+pymysql://, as in mysql+pymysql://user:password@host:3306/database"
POSTGRES = "must begin with postgresql+psycopg://, as in postgresql+psycopg://user:password@host:5432/database"
PAIRS = 'must be pairs such as keyword:0.7,semantic:0.3 or a JSON object such as {"keyword": 0.7}'


def refusal(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> str:
    """The sentence that a variable of the environment is refused with."""
    monkeypatch.setenv(name, value)
    with pytest.raises(Misconfigured) as raised:
        load()
    assert "\n" not in str(raised.value)
    return str(raised.value)


class DescribeUrls:
    @pytest.mark.parametrize(
        ("name", "value", "complaint"),
        [
            ("MYSQL_URL", "foo", MYSQL),
            ("MYSQL_URL", "", f"is empty; it {MYSQL}"),
            ("MYSQL_URL", "  ", f"is empty; it {MYSQL}"),
            ("MYSQL_URL", "postgres://u:secret@db/c", MYSQL),
            ("MYSQL_URL", "mysql+pymysql:u:secret@db/c", MYSQL),
            ("MYSQL_URL", "mysql+pymysql://", f"names no host; it {MYSQL}"),
            ("MYSQL_URL", "mysql+pymysql://u:secret@db", f"names no database; it {MYSQL}"),
            ("MYSQL_URL", "mysql+pymysql://u:secret@[::1/c", "is not a URL"),
            ("POSTGRES_URL", "postgres://u:secret@db/c", POSTGRES),
            ("POSTGRES_URL", "postgresql://u:secret@db/c", POSTGRES),
            ("POSTGRES_URL", "", f"is empty; it {POSTGRES}"),
            ("POSTGRES_URL", "密码", POSTGRES),
            (
                "REDIS_URL",
                "",
                "is empty; it must begin with redis://, rediss://, redis+sentinel:// or rediss+sentinel://",
            ),
            ("REDIS_URL", "foo", "must begin with redis://, rediss://, redis+sentinel:// or rediss+sentinel://"),
        ],
    )
    def it_names_the_variable_and_an_example(self, monkeypatch, name, value, complaint):
        said = refusal(monkeypatch, f"CHORDWISE_{name}", value)
        assert said == f"CHORDWISE_{name} {complaint}"
        assert "secret" not in said

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("mysql_url", "mysql+pymysql://u@/c?unix_socket=/run/mysqld.sock"),
            ("postgres_url", "postgresql+psycopg://u@/c?host=/run/postgresql"),
            ("postgres_url", "postgresql+psycopg://db?dbname=c"),
        ],
    )
    def it_takes_sockets_and_parameters_for_host_and_database(self, name, value):
        assert getattr(load({name: value}), name).get_secret_value() == value


class DescribeWeights:
    @pytest.mark.parametrize(
        "value", ["vector:1.0,keyword:0.8", "semantic:1,keyword:0.8", '{"vector": 1.0, "keyword": 0.8}']
    )
    def it_takes_pairs_and_an_object_and_vector_for_semantic(self, monkeypatch, value):
        monkeypatch.setenv("CHORDWISE_RECALL_SOURCE_WEIGHTS", value)
        assert load().recall_source_weights == {"semantic": 1.0, "keyword": 0.8}

    @pytest.mark.parametrize("value", ["vector,keyword", '["vector", "keyword"]'])
    def it_takes_vector_among_the_sources(self, monkeypatch, value):
        monkeypatch.setenv("CHORDWISE_RECALL_SOURCES", value)
        assert load().recall_sources == ("semantic", "keyword")

    @pytest.mark.parametrize(
        ("value", "complaint"),
        [
            ("keyword", f"{PAIRS}; keyword has no number"),
            ("keyword:", f"{PAIRS}; keyword has no number"),
            ("关键词", f"{PAIRS}; 关键词 has no number"),
            ("keyword:0,7", f"{PAIRS}; 7 has no number"),
            ('{"keyword": 0.7', f"{PAIRS}; it begins like JSON and is not valid JSON"),
            ("vector:1,semantic:2", "names the channel semantic twice"),
        ],
    )
    def it_says_what_is_wrong(self, monkeypatch, value, complaint):
        name = "CHORDWISE_RECALL_SOURCE_WEIGHTS"
        assert refusal(monkeypatch, name, value) == f"{name}: {complaint}"

    @pytest.mark.parametrize(
        "value", ["keyword:101", "milvus:1", "keyword:nan", '{"keyword": "high"}', '{"keyword": []}']
    )
    def it_refuses_other_channels_and_numbers(self, monkeypatch, value):
        assert refusal(monkeypatch, "CHORDWISE_RECALL_SOURCE_WEIGHTS", value).startswith(
            "CHORDWISE_RECALL_SOURCE_WEIGHTS"
        )


class DescribeTheKindOfVectorIndex:
    @pytest.mark.parametrize(
        ("value", "options"),
        [
            ("auto", ("auto", 16, 64)),
            ("ivfflat", ("ivfflat", 16, 64)),
            ("hnsw (m = 24, ef_construction = 128)", ("hnsw", 24, 128)),
            ("auto(m=8,ef_construction=64)", ("auto", 8, 64)),
        ],
    )
    def it_may_bring_the_options_of_a_graph(self, monkeypatch, value, options):
        monkeypatch.setenv("CHORDWISE_VECTOR_INDEX", value)
        assert parse_vector_index(load().vector_index) == options

    @pytest.mark.parametrize(
        ("value", "complaint"),
        [
            ("graph", "must be auto, hnsw or ivfflat, or such as hnsw (m = 16, ef_construction = 64)"),
            ("hnsw m=16", "must be auto, hnsw or ivfflat, or such as"),
            ("hnsw (m = 1, ef_construction = 64)", "takes m from 2 to 100"),
            ("hnsw (m = 40, ef_construction = 64)", "ef_construction from twice m to 1000"),
        ],
    )
    def it_is_refused_with_the_form_that_is_right(self, monkeypatch, value, complaint):
        assert complaint in refusal(monkeypatch, "CHORDWISE_VECTOR_INDEX", value)


class DescribeExperiments:
    def it_says_that_growthbook_is_not_installed(self, monkeypatch):
        class Hidden:
            """A finder that knows no growthbook."""

            def find_spec(self, name: str, path: object = None, target: object = None) -> object:
                return None if name == "growthbook" else importlib.machinery.PathFinder.find_spec(name)

        monkeypatch.delitem(sys.modules, "growthbook", raising=False)
        monkeypatch.setattr(sys, "meta_path", [Hidden()])
        said = refusal(monkeypatch, "CHORDWISE_RECALL_EXPERIMENT_PLATFORM", "growthbook")
        assert said.startswith("CHORDWISE_RECALL_EXPERIMENT_PLATFORM is growthbook, but the package growthbook is not")
        assert "extra experiments" in said
