"""Sources in real stores on loopback: an S3 server, SFTP, WebDAV's HTTP, git, a site; and their addresses and secrets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from pydantic import SecretStr

from pipeline.administration import follow_sources
from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.post_client import NotAllowed
from pipeline.sources.source_process import SourceProcess
from tests.conftest import make_tenant
from tests.integration.sources.conftest import KEYS
from tests.support.servers.web_server import WebServer, page, redirect
from tests.support.stacks.connections import sharing
from tests.support.stacks.follower import commit, counts, reasons, write

pytestmark = pytest.mark.own_databases

LOOPBACK = (ip_network("127.0.0.0/8"),)
HOST_KEY = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


def listed(url: str, secret: Mapping[str, str], *folders: Path, networks: Any = LOOPBACK) -> dict[str, bytes | str]:
    """Return the content of the files of a source by path, or the reason why one is skipped."""
    with SourceProcess(
        url, secret, networks=networks, folders=folders, most_bytes=10_000, meanwhile=lambda: None, patience=(30, 30)
    ) as process:
        entries = [entry for some in process.entries() for entry in some]
        return {entry.path: entry.skipped or process.read(entry.path, 10_000) or "gone" for entry in entries}


class DescribeS3:
    def it_follows_a_bucket(self, follower, s3):
        client, secret = s3
        for name in "abcdef":
            client.put_object(Bucket="company", Key=f"handbook/{name}.md", Body=f"Page {name}.".encode())
        client.put_object(Bucket="company", Key="handbook/empty/", Body=b"")
        follower.follow("s3://company/handbook", secret=secret)
        assert counts(follower.run()) == {"listed": 6, "added": 6}
        assert follower.documents() == {f"{name}.md" for name in "abcdef"}
        client.put_object(Bucket="company", Key="handbook/a.md", Body=b"Another page.")
        client.put_object(Bucket="company", Key="handbook/b.md", Body=b"Page b.")
        client.delete_object(Bucket="company", Key="handbook/c.md")
        assert counts(follower.run()) == {"listed": 5, "changed": 1, "removed": 1, "unchanged": 4}
        assert follower.corner.shown()["a.md"] == ["Another page."]

    @pytest.mark.thorough
    def it_lists_more_than_a_page_of_keys(self, s3):
        client, secret = s3
        for number in range(1050):
            client.put_object(Bucket="company", Key=f"many/{number:04}.md", Body=b"x")
        with SourceProcess(
            "s3://company/many", secret, networks=LOOPBACK, folders=(), most_bytes=10, meanwhile=lambda: None
        ) as process:
            pages = list(process.entries())
        assert sum(map(len, pages)) == 1050
        assert max(map(len, pages)) <= 500

    def it_names_a_bucket_that_is_not_there(self, s3):
        with pytest.raises((FetchFailed, FetchUnavailable)) as failed:
            listed("s3://nobody/x", s3[1])
        assert "testing-secret" not in str(failed.value)


class DescribeSftp:
    def it_follows_a_server(self, follower, sftp):
        folder, address, secret = sftp
        write(folder, docs__a_md="Kettles.", docs__hr__b_md="Pay.")
        (folder / "docs" / "loop").symlink_to(folder / "docs")
        (folder / "docs" / "\udcff.md").write_text("x")
        follower.follow(f"{address}/docs", secret=secret)
        found = follower.run()
        assert (follower.documents(), counts(found)) == ({"a.md", "hr/b.md"}, {"listed": 2, "added": 2, "skipped": 2})
        assert reasons(found)["\\xff.md"] == "its name is not UTF-8"

    def it_trusts_no_server_but_the_one_with_the_key(self, sftp):
        _, address, secret = sftp
        other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
        with pytest.raises((FetchFailed, FetchUnavailable)):
            listed(f"{address}/docs", {**secret, "host_key": other})
        with pytest.raises(FetchRefused, match="host_key"):
            listed(f"{address}/docs", {"username": "ada", "password": "lovelace"})


class DescribeGit:
    def it_follows_a_branch(self, follower, repository):
        write(repository, docs__a_md="Kettles.", docs__b_md="Teapots.", other_md="x")
        (repository / "docs" / "link.md").symlink_to("/etc/passwd")
        commit(repository)
        follower.follow(f"git+file://{repository}@main#docs")
        found = follower.run()
        assert (follower.documents(), counts(found)) == ({"a.md", "b.md"}, {"listed": 2, "added": 2, "skipped": 1})
        write(repository, docs__a_md="Other kettles.")
        commit(repository)
        assert counts(follower.run()) == {"listed": 2, "changed": 1, "unchanged": 1, "skipped": 1}

    def it_runs_nothing_of_a_repository(self, repository, tmp_path):
        mark = tmp_path / "mark"
        write(repository, a_md="x")
        commit(repository)
        for hook in ("post-checkout", "pre-upload", "reference-transaction"):
            (repository / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
            (repository / ".git/hooks" / hook).chmod(0o755)
        subprocess.run(["git", "config", "core.fsmonitor", f"touch {mark}"], cwd=repository, check=True)
        assert listed(f"git+file://{repository}", {}, tmp_path) == {"a.md": b"x"}
        assert not mark.exists()

    @pytest.mark.parametrize("kind", ["alternates", "linked objects", "worktree"])
    def it_reads_no_repository_that_lies_elsewhere(self, repository, tmp_path, kind):
        write(repository, a_md="x")
        commit(repository)
        folder = tmp_path / "allowed"
        folder.mkdir()
        if kind == "worktree":
            subprocess.run(["git", "worktree", "add", "-q", folder / "clone"], cwd=repository, check=True)
        else:
            subprocess.run(["git", "clone", "-qs", repository, folder / "clone"], check=True)
        if kind == "linked objects":
            shutil.rmtree(folder / "clone/.git/objects")
            (folder / "clone/.git/objects").symlink_to(repository / ".git/objects")
        for path in ("clone", "clone/.git"):
            with pytest.raises(FetchRefused):
                listed(f"git+file://{folder}/{path}", {}, folder)


class DescribeASite:
    def it_follows_an_index(self, tmp_path):
        write(tmp_path, docs__a_md="Kettles.", docs__hr__b_md="Pay.")
        program = [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)]
        with subprocess.Popen(
            [*program[:1], "-u", *program[1:]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as server:
            assert server.stdout is not None
            port = server.stdout.readline().split()[5].decode()
            found = listed(f"http://127.0.0.1:{port}/docs/", {})
            server.kill()
        assert found == {"a.md": b"Kettles.", "hr/b.md": b"Pay."}

    def it_keeps_to_its_host_and_ends_with_cyclic_sitemaps(self):
        with WebServer() as site:
            own, other = site.url("/a.md"), "http://127.0.0.2/b.md"
            index = f"<sitemapindex><sitemap><loc>{site.url('/sitemap.xml')}</loc></sitemap><url><loc>{own}</loc>"
            index += f"<lastmod>2026</lastmod></url><url><loc>{other}</loc></url></sitemapindex>"
            site.pages["/sitemap.xml"] = page(index.encode(), media_type="application/xml")
            site.pages["/a.md"] = page(b"Kettles.")
            assert listed(site.url("/sitemap.xml"), {}) == {"a.md": b"Kettles.", other: "it is on another host"}


class DescribeAddresses:
    """Another address of this host stands for a private one: nothing listens there, and no connection may be tried."""

    @pytest.mark.parametrize(
        ("url", "secret"),
        [
            ("http://127.0.0.1:9/", {}),
            ("git+http://127.0.0.1:9/x", {}),
            ("s3://bucket/x", {**KEYS, "endpoint_url": "http://127.0.0.1:9"}),
            ("sftp://127.0.0.1:9/x", {"username": "a", "password": "b", "host_key": HOST_KEY}),
            ("webdav://127.0.0.1:9/x", {}),
        ],
    )  # fmt: skip
    def it_connects_to_none_that_is_private(self, url, secret):
        with pytest.raises(FetchRefused, match="may not ask"):
            listed(url, secret, networks=())

    def it_follows_no_redirect_to_one(self):
        with WebServer() as site:
            site.pages["/sitemap.xml"] = redirect("http://127.0.0.2:9/sitemap.xml")
            with pytest.raises(FetchRefused, match="may not ask"):
                listed(site.url("/sitemap.xml"), {}, networks=(ip_network("127.0.0.1/32"),))

    @pytest.mark.parametrize(
        "url",
        [
            "http://10.0.0.1/x",
            "s3+x://a/b",
            "file:///etc",
            "https://ada:secret@example.com/",
            "git+file:///etc",
            "sftp:///x",
        ],
    )
    def it_refuses_to_follow_what_no_run_may_read(self, follower, url):
        with pytest.raises(NotAllowed):
            follower.follow(url)


class DescribeSecrets:
    def it_never_shows_one(self, follower):
        corner = follower.corner
        sealed = sharing(
            corner.use,
            secret_key=SecretStr("a key of this installation"),
            fetch_allow_networks=corner.use.settings.fetch_allow_networks,
        )
        follower.corner.use = sealed
        source = follower.follow("s3://company/handbook", secret=KEYS)
        assert source.has_secret
        [row] = corner.execute("SELECT secret, run FROM followed_sources WHERE tenant_id = :tenant")
        assert KEYS["secret"].encode() not in row.secret
        assert KEYS["secret"] not in json.dumps(source.rules) + source.url
        follower.follow("s3://company/handbook")
        assert follower.source().has_secret


class DescribeTenants:
    def it_keeps_sources_apart(self, follower, use):
        write(follower.folder, a_md="Kettles.")
        follower.follow()
        other = make_tenant(use)[0]
        args = (other, follower.corner.namespace, "docs", follower.corner.use)
        assert follow_sources.run_now(*args, request_id="r", notify=lambda *_: None) is None
        assert follow_sources.schedule(*args, paused=True) is False
        assert follow_sources.remove(*args, keep_documents=True) is None or follower.source()
        assert follower.source().next_run_at is not None
