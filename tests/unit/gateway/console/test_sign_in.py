"""The sign-in link of the local stack: a code works once, for ten minutes, from a page of this gateway on this machine."""

from __future__ import annotations

import functools
import os
import stat
import time
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from api_gateway.app import create_app
from api_gateway.console.sign_in import GOOD_FOR_S, claim
from compose.localstack.background import sign_in_link
from pipeline.settings import load

URL = "http://127.0.0.1:8080"
OWN_PAGE = {"Origin": URL}


def code_of(link: str) -> str:
    return link.rpartition("/")[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHORDWISE_STACK_DIR", str(tmp_path))
    return tmp_path / "run" / "sign-in"


@pytest.fixture
def code(folder: Path) -> str:
    return code_of(sign_in_link(URL, "cw_demo_secret", folder))


@functools.cache
def gateway_app() -> FastAPI:
    return create_app(load())


async def exchange(code: str, headers=OWN_PAGE, *, url: str = URL, peer: str = "127.0.0.1"):
    transport = httpx.ASGITransport(app=gateway_app(), client=(peer, 50_000))
    async with httpx.AsyncClient(transport=transport, base_url=url) as client:
        return await client.post("/console/sign-in", json={"code": code}, headers=headers)


class DescribeALink:
    def it_holds_the_code_behind_the_hash_and_never_the_key(self, folder):
        link = sign_in_link(URL, "cw_demo_secret", folder)
        assert link.startswith(f"{URL}/console/#/sign-in/")
        assert "cw_demo_secret" not in link

    def it_leaves_a_file_for_its_owner_that_does_not_name_the_code(self, folder):
        code = code_of(sign_in_link(URL, "cw_demo_secret", folder))
        (file,) = folder.iterdir()
        assert code not in file.name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    async def it_ends_the_one_before(self, folder, code):
        sign_in_link(URL, "cw_demo_secret", folder)
        assert (await exchange(code)).status_code == 404


class DescribeSigningIn:
    @pytest.mark.parametrize("url", [URL, "http://localhost:8080", "http://[::1]:8080", "http://127.0.0.1"])
    async def it_exchanges_the_code_for_the_key(self, folder, code, url):
        answer = await exchange(code, {"Origin": url}, url=url)
        assert (answer.status_code, answer.json()) == (200, {"api_key": "cw_demo_secret"})
        assert answer.headers["cache-control"] == "no-store"

    async def it_works_once(self, folder, code):
        answers = [await exchange(code) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 404]
        assert answers[1].json()["code"] == "sign_in_code_unknown"

    def it_gives_the_key_to_one_of_two_that_come_together(self, folder, code, monkeypatch):
        """Both read the file, and only one deletes it."""
        second: list[str | None] = []
        read = Path.read_text

        def read_while_another_claims(file, *args, **kwargs):
            text = read(file, *args, **kwargs)
            if not second:
                second.append(None)
                second[0] = claim(folder, code)
            return text

        monkeypatch.setattr(Path, "read_text", read_while_another_claims)
        assert (claim(folder, code), second) == (None, ["cw_demo_secret"])

    async def it_works_for_ten_minutes(self, folder, code):
        (file,) = folder.iterdir()
        os.utime(file, (time.time() - GOOD_FOR_S - 1,) * 2)
        assert (await exchange(code)).status_code == 404
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("code", ["x" * 43, "../../../../../etc/passwd", "\ud800" * 30])
    async def it_knows_no_other_code(self, folder, code):
        sign_in_link(URL, "cw_demo_secret", folder)
        assert claim(folder, code) is None

    async def it_is_off_outside_the_local_stack(self, folder, code, monkeypatch):
        monkeypatch.delenv("CHORDWISE_STACK_DIR")
        answer = await exchange(code)
        assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")


class DescribeARequestFromElsewhere:
    async def it_is_refused_and_leaves_the_code_good(self, folder, code):
        assert (await exchange(code, peer="192.168.1.7")).status_code == 403
        assert (await exchange(code)).status_code == 200

    @pytest.mark.parametrize("peer", ["10.0.0.4", "fe80::1", "::ffff:10.0.0.4", "", "testclient"])
    async def it_is_refused_from_another_host(self, folder, code, peer):
        answer = await exchange(code, peer=peer)
        assert (answer.status_code, answer.json()["code"]) == (403, "sign_in_refused")

    @pytest.mark.parametrize(
        "header", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"]
    )
    async def it_is_refused_from_a_proxy(self, folder, code, header):
        assert (await exchange(code, {**OWN_PAGE, header: "127.0.0.1"})).status_code == 403

    @pytest.mark.parametrize(
        "host", ["attacker.example:8080", "127.0.0.1.attacker.example", "localhost@evil", "", "0.0.0.0"]
    )
    async def it_is_refused_by_the_name_of_a_rebound_host(self, folder, code, host):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert (await exchange(code, headers)).status_code == 403

    @pytest.mark.parametrize("origin", ["https://attacker.example", "null", "http://127.0.0.1:9999", "", None])
    async def it_is_refused_from_a_page_of_another_origin(self, folder, code, origin):
        headers = {} if origin is None else {"Origin": origin}
        assert (await exchange(code, headers)).status_code == 403
