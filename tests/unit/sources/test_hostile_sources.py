"""Sources by which a tenant tries to reach an address, or credentials, that are not its own."""

from __future__ import annotations

import json
import tempfile
from ipaddress import ip_network
from pathlib import Path

import pytest

from pipeline.errors import FetchFailed, FetchRefused
from pipeline.sources import git_client
from pipeline.sources.fsspec_client import open_store

ANY = (ip_network("0.0.0.0/0"), ip_network("::/0"))
NOTES = 'import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open({!r}, "w")); sys.exit(1)'


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program git that writes down how it is called."""
    noted = tmp_path / "noted.json"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # as in the process that reads a source
    program = tmp_path / "git"
    program.write_text(f"#!/usr/bin/env python3\n{NOTES.format(str(noted))}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("192.0.2.7", 443))])
    return noted


def _clone(url: str) -> None:
    git_client.open_repository(url, {}, permitted=ANY, allowed=())


class DescribeGit:
    @pytest.mark.parametrize(
        ("written", "host"),
        [("exämple.com", "xn--exmple-cua.com"), ("ＥＸＡＭＰＬＥ.com", "example.com"), ("example.com.", "example.com")],
    )
    def it_is_given_the_address_of_the_name_that_it_looks_up(self, git, written, host):
        with pytest.raises(FetchFailed):
            _clone(f"git+https://{written}/r@main")
        arguments, environment = json.loads(git.read_text())
        assert f"https://{host}:443/r" in arguments
        assert f"{host}:443:192.0.2.7" in environment.values()

    @pytest.mark.parametrize("host", ["-example.com", "+example.com", "*", "a,b.example.com", "ex\u0000mple.com"])
    def it_gets_no_name_that_curl_reads_otherwise(self, git, host):
        with pytest.raises(FetchRefused):
            _clone(f"git+https://{host}/r")
        assert not git.exists()

    def it_finds_no_passwords_of_this_host(self, git):
        with pytest.raises(FetchFailed):
            _clone("git+https://example.com/r")
        _, environment = json.loads(git.read_text())
        assert environment["HOME"] == "/dev/null"


class DescribeCredentialsOfThisHost:
    @pytest.mark.parametrize("token", ["google_default", "cloud", "cache", "/etc/passwd", "[]", "{broken"])
    def it_uses_none_for_google(self, token):
        with pytest.raises(FetchRefused, match="service account"):
            open_store("gs://bucket/docs", {"token": token})

    def it_uses_none_for_azure(self):
        with pytest.raises(FetchRefused, match="may have account_name"):
            open_store("az://container/docs", {"account_name": "a", "anon": ""})
