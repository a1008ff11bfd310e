"""Fixtures of tests of sources: a namespace, and stores on loopback."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import boto3
import pytest
from botocore.config import Config

from pipeline.records import Namespace
from pipeline.resources import Resources
from pipeline.settings import parse_places
from tests.conftest import make_tenant
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner
from tests.support.stacks.follower import Follower

KEYS = {"key": "testing", "secret": "testing-secret"}


@pytest.fixture
def corner(use: Resources, namespace: Namespace, tmp_path: Path) -> Corner:
    """A namespace whose workers may read below the test's folder and connect to this host."""
    permitted = sharing(use, fetch_allow_networks=parse_places(f"127.0.0.0/8,{tmp_path}"))
    return Corner(permitted, make_tenant(use)[0], namespace)


@pytest.fixture
def follower(corner: Corner, tmp_path: Path) -> Follower:
    folder = tmp_path / "docs"
    folder.mkdir()
    return Follower(corner, folder)


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[Any, dict[str, str]]]:
    """A client of an S3 server with a bucket, and the secret to read it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = "import sys; from moto.server import main; main(sys.argv[1:])"
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", program, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    ) as server:
        address = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id=KEYS["key"],
            aws_secret_access_key=KEYS["secret"],
            config=Config(retries={"max_attempts": 1}),
        )
        for _ in range(200):
            try:
                client.create_bucket(Bucket="company")
                break
            except Exception:
                time.sleep(0.1)
        yield client, {**KEYS, "endpoint_url": address}
        client.close()
        server.kill()


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, dict[str, str]]]:
    """The folder of an SFTP server, its address, and the secret."""
    folder = tmp_path_factory.mktemp("sftp")
    key = asyncssh.generate_private_key("ssh-ed25519")
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    found: dict[str, Any] = {}

    class Password(asyncssh.SSHServer):
        def begin_auth(self, username: str) -> bool:
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("ada", "lovelace")

    async def serve() -> None:
        def files(channel: Any) -> Any:
            return asyncssh.SFTPServer(channel, chroot=str(folder).encode())

        found["server"] = await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[key], server_factory=Password, sftp_factory=files
        )
        found["port"] = found["server"].get_port()
        ready.set()

    thread = threading.Thread(target=lambda: (loop.run_until_complete(serve()), loop.run_forever()), daemon=True)
    thread.start()
    assert ready.wait(20)
    secret = {"username": "ada", "password": "lovelace", "host_key": key.export_public_key().decode().strip()}
    yield folder, f"sftp://127.0.0.1:{found['port']}", secret

    async def close() -> None:
        found["server"].close()
        await found["server"].wait_closed()

    asyncio.run_coroutine_threadsafe(close(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-qb", "main"], cwd=folder, check=True)
    return folder
