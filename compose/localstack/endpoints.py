"""The addresses of one stack, as the variables that programs are given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .places import StackFolder
from .progress import Failure

_URLS = {"mysql": "CHORDWISE_MYSQL_URL", "postgres": "CHORDWISE_POSTGRES_URL", "redis": "CHORDWISE_REDIS_URL"}


def external(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of an existing server to use instead of one of ours; empty when ours is to be started."""
    return environment.get(_URLS[server], "").strip()


def flower_login(environment: Mapping[str, str] = os.environ) -> tuple[str, str, str] | None:
    """Return Flower's user and password from FLOWER_BASIC_AUTH (user:password); None if it is unset, so that one is
    made.

    Raises Failure for another form: Flower would accept nobody, or everybody.
    """
    given = environment.get("FLOWER_BASIC_AUTH", "").strip()
    if not given:
        return None
    user, colon, password = given.partition(":")
    if not user or not password or "," in given:
        raise Failure("FLOWER_BASIC_AUTH must be user:password, without a comma")
    return user, colon, password


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """One stack's addresses and credentials."""

    mysql_url: str
    postgres_url: str
    redis_url: str
    gateway_port: int
    flower_port: int
    admin_key: str
    flower_password: str
    folder: str
    api_key: str = ""
    flower_user: str = "chordwise"

    @classmethod
    def of(
        cls,
        folder: StackFolder,
        passwords: Mapping[str, str],
        ports: Mapping[str, int],
        environment: Mapping[str, str] = os.environ,
    ) -> Endpoints:
        """Return the stack's own servers, except for those that ``environment`` places elsewhere."""
        mysql = f"mysql+pymysql://chordwise:{passwords['mysql']}@127.0.0.1:{ports['mysql']}/chordwise?charset=utf8mb4"
        postgres = f"postgresql+psycopg://chordwise:{passwords['postgres']}@127.0.0.1:{ports['postgres']}/chordwise"
        redis = f"redis://:{passwords['redis']}@127.0.0.1:{ports['redis']}/0"
        user, _, password = flower_login(environment) or ("chordwise", "", passwords["flower"])
        return cls(
            flower_user=user,
            mysql_url=external("mysql", environment) or mysql,
            postgres_url=external("postgres", environment) or postgres,
            redis_url=external("redis", environment) or redis,
            gateway_port=ports["gateway"],
            flower_port=ports["flower"],
            admin_key=passwords["admin_key"],
            flower_password=password,
            folder=str(folder.path),
        )

    def with_key(self, api_key: str) -> Endpoints:
        """Return these endpoints with the key of tenant demo."""
        return replace(self, api_key=api_key)

    @property
    def url(self) -> str:
        """Return the gateway's address."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def for_client(self) -> dict[str, str]:
        """Return the variables of the command line client."""
        return {"CHORDWISE_URL": self.url, "CHORDWISE_API_KEY": self.api_key}

    def variables(self) -> dict[str, str]:
        """Return all variables of the stack. Without a key, as with servers alone, the key is empty."""
        return {
            "CHORDWISE_MYSQL_URL": self.mysql_url,
            "CHORDWISE_POSTGRES_URL": self.postgres_url,
            "CHORDWISE_REDIS_URL": self.redis_url,
            "CHORDWISE_GATEWAY_HOST": "127.0.0.1",
            "CHORDWISE_GATEWAY_PORT": str(self.gateway_port),
            "CHORDWISE_ADMIN_KEY": self.admin_key,
            **self.for_client(),
            "CHORDWISE_FLOWER_URL": f"http://127.0.0.1:{self.flower_port}",
            "CHORDWISE_FLOWER_USER": self.flower_user,
            "CHORDWISE_FLOWER_PASSWORD": self.flower_password,
            "CHORDWISE_STACK_DIR": self.folder,
            "CHORDWISE_KEYWORD_INDEX_DIR": f"{self.folder}/keyword-index",
        }
