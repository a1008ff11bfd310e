"""The commands of an operator on a machine with the stack of `make up`: they take its servers, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.local_stack import adopt, client_programs


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / ".local/stacks/up"
    folder.mkdir(parents=True)
    (folder / "env").write_text(
        "CHORDWISE_MYSQL_URL=mysql+pymysql://up/x\nCHORDWISE_REDIS_URL=redis://:a=b@up\nCHORDWISE_LOG_LEVEL=INFO\n"
    )
    return tmp_path


class DescribeTheStackOfMakeUp:
    def it_is_taken_where_the_environment_names_no_server(self, checkout: Path):
        environment = {"CHORDWISE_LOG_LEVEL": "DEBUG"}
        assert adopt(environment, checkout).startswith("using the servers of `make up`")
        assert environment == {
            "CHORDWISE_MYSQL_URL": "mysql+pymysql://up/x",
            "CHORDWISE_REDIS_URL": "redis://:a=b@up",
            "CHORDWISE_LOG_LEVEL": "DEBUG",
        }

    @pytest.mark.parametrize("name", ["CHORDWISE_MYSQL_URL", "CHORDWISE_POSTGRES_URL", "CHORDWISE_REDIS_URL"])
    def it_is_left_alone_where_one_is_named(self, checkout: Path, name: str):
        environment = {name: "elsewhere"}
        assert adopt(environment, checkout) == ""
        assert environment == {name: "elsewhere"}

    def it_is_nothing_where_there_is_none(self, tmp_path: Path):
        environment: dict[str, str] = {}
        assert (adopt(environment, tmp_path), environment) == ("", {})

    def it_lends_its_client_programs_last(self):
        assert client_programs({"PATH": "/usr/bin", "CHORDWISE_STACK_DIR": "/s"}) == "/usr/bin:/s/clients"
        assert client_programs({"PATH": "/usr/bin"}) == "/usr/bin"
