"""The addresses of one stack, as the variables that programs are given."""

import os
from collections.abc import Mapping

from .places import StackFolder
from .progress import Failure

_URLS = {"mysql": "CHORDWISE_MYSQL_URL", "postgres": "CHORDWISE_POSTGRES_URL", "redis": "CHORDWISE_REDIS_URL"}


def external(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the URL of an existing server to use instead of one of ours; empty when ours is to be started."""
    return environment.get(_URLS[server], "").strip()


def flower_login(environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return Flower's user and password from FLOWER_BASIC_AUTH (user:password); None if it is unset, so that one is
    made.

    Raises Failure for another form: Flower would accept nobody, or everybody.
    """
    login = environment.get("FLOWER_BASIC_AUTH", "").strip()
    if not login:
        return None
    user, _, password = login.partition(":")
    if not user or not password or "," in login:
        raise Failure("FLOWER_BASIC_AUTH must be user:password, without a comma")
    return user, password


def endpoints(
    folder: StackFolder,
    passwords: Mapping[str, str],
    ports: Mapping[str, int],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """Return the stack's addresses and credentials as variables, with the servers that ``environment`` places elsewhere.

    The key is empty: only a running gateway can make one.
    """
    mysql = f"mysql+pymysql://chordwise:{passwords['mysql']}@127.0.0.1:{ports['mysql']}/chordwise?charset=utf8mb4"
    postgres = f"postgresql+psycopg://chordwise:{passwords['postgres']}@127.0.0.1:{ports['postgres']}/chordwise"
    redis = f"redis://:{passwords['redis']}@127.0.0.1:{ports['redis']}/0"
    user, password = flower_login(environment) or ("chordwise", passwords["flower"])
    return {
        "CHORDWISE_MYSQL_URL": external("mysql", environment) or mysql,
        "CHORDWISE_POSTGRES_URL": external("postgres", environment) or postgres,
        "CHORDWISE_REDIS_URL": external("redis", environment) or redis,
        "CHORDWISE_GATEWAY_HOST": "127.0.0.1",
        "CHORDWISE_GATEWAY_PORT": str(ports["gateway"]),
        "CHORDWISE_ADMIN_KEY": passwords["admin_key"],
        "CHORDWISE_URL": f"http://127.0.0.1:{ports['gateway']}",
        "CHORDWISE_API_KEY": "",
        "CHORDWISE_FLOWER_URL": f"http://127.0.0.1:{ports['flower']}",
        "CHORDWISE_FLOWER_USER": user,
        "CHORDWISE_FLOWER_PASSWORD": password,
        "CHORDWISE_STACK_DIR": str(folder.path),
        "CHORDWISE_KEYWORD_INDEX_DIR": f"{folder.path}/keyword-index",
    }


def for_client(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the command line client alone."""
    return {name: variables[name] for name in ("CHORDWISE_URL", "CHORDWISE_API_KEY")}
