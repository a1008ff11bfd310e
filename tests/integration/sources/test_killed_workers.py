"""kill -9 of the worker during runs over each kind of store: after the next run the namespace equals the listing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.administration import follow_sources
from tests.support.stacks.follower import Follower, commit, quiet
from tests.support.stacks.processes import environment_of, process

pytestmark = [pytest.mark.own_databases, pytest.mark.thorough, pytest.mark.timeout(240)]

PAGES = 150  # handed in 64 at a time


@dataclass
class Store:
    """A store on loopback: how to write and remove a file, and to make a change of several files visible."""

    url: str
    secret: dict[str, str] | None
    put: Callable[[str, str], object]
    remove: Callable[[str], object]
    publish: Callable[[], object] = lambda: None


def in_folder(folder: Path, url: str, secret: dict[str, str] | None = None, **more: Any) -> Store:
    folder.mkdir(exist_ok=True)
    return Store(
        url, secret, lambda name, body: (folder / name).write_text(body), lambda name: (folder / name).unlink(), **more
    )


@pytest.fixture(params=["folder", "s3", "sftp", "git"])
def store(request: pytest.FixtureRequest, follower: Follower) -> Iterator[Store]:
    if request.param == "s3":
        client, secret = request.getfixturevalue("s3")
        bucket = {"Bucket": "company"}
        yield Store(
            "s3://company/killed",
            secret,
            lambda name, body: client.put_object(**bucket, Key=f"killed/{name}", Body=body.encode()),
            lambda name: client.delete_object(**bucket, Key=f"killed/{name}"),
        )
    elif request.param == "sftp":
        folder, address, secret = request.getfixturevalue("sftp")
        yield in_folder(folder / "killed", f"{address}/killed", secret)
    elif request.param == "git":
        repository = request.getfixturevalue("repository")
        yield in_folder(repository, f"git+file://{repository}", publish=lambda: commit(repository))
    else:
        yield in_folder(follower.folder, f"file://{follower.folder}")


class Killing:
    """Begins runs of a source in a process that is killed at a moment."""

    def __init__(self, follower: Follower, folder: Path) -> None:
        self._follower, self._corner = follower, follower.corner
        self._folder = folder
        self._folder.mkdir()

    def run_until(self, reached: Callable[[], bool]) -> None:
        """Begin a run, unless one is under way, and kill its worker once the moment is reached."""
        corner = self._corner
        job_id = follow_sources.run_now(
            corner.tenant,
            corner.namespace,
            self._follower.source_id,
            corner.use,
            request_id="r",
            notify=quiet,
            confirm=False,
        )
        assert job_id is not None
        corner.make_due()
        settings = corner.use.settings
        environment = environment_of(settings, redis_url=settings.redis_url.get_secret_value(), port=0)
        allowed = f"127.0.0.0/8,{self._follower.folder.parent}"
        with process(
            "tests.support.stacks.following_worker",
            corner.tenant,
            job_id,
            log=self._folder.parent / "worker.log",
            **{**environment, "CHORDWISE_FETCH_ALLOW_NETWORKS": allowed, "TMPDIR": str(self._folder)},
        ) as worker:
            ends = time.monotonic() + 60
            while not reached():
                assert worker.poll() is None, (self._folder.parent / "worker.log").read_text()
                assert time.monotonic() < ends, "the run did not get so far"
            worker.kill()
            worker.wait()

    def claimed(self) -> bool:
        return self._count("job_items", "state = 'running'") > 0

    def handed_in(self) -> bool:
        return self._count("job_items", "state <> 'succeeded'") > 1

    def published(self) -> bool:
        return self._count("documents", "published_generation IS NOT NULL") > 0

    def changed(self) -> bool:
        return self._count("documents", "published_generation > 1") > 0

    def removed(self) -> bool:
        return self._count("documents", "published_generation IS NOT NULL AND document_id = 'p0.md'") == 0

    def _count(self, table: str, condition: str) -> int:
        statement = f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant AND {condition}"
        return int(self._corner.execute(statement)[0][0])

    def left(self) -> list[str]:
        """The files of killed workers, once their processes had the time to see it."""
        ends = time.monotonic() + 10
        while (left := [path.name for path in self._folder.glob("chordwise-run-*")]) and time.monotonic() < ends:
            time.sleep(0.1)
        return left


@pytest.fixture
def killing(follower: Follower, tmp_path: Path) -> Killing:
    return Killing(follower, tmp_path / "scratch")


def it_completes_runs_whose_workers_were_killed(follower, store, killing):
    pages = {f"p{number}.md": f"Page {number} on kettles." for number in range(PAGES)}
    for name, body in pages.items():
        store.put(name, body)
    store.publish()
    follower.follow(store.url, secret=store.secret)
    for moment in (killing.claimed, killing.handed_in, killing.published):
        killing.run_until(moment)
    follower.run()
    assert follower.corner.shown() == {name: [body] for name, body in pages.items()}

    gone = [f"p{number}.md" for number in range(20)]
    changed = {f"p{number}.md": f"Page {number} on teapots." for number in range(20, PAGES)} | {"new.md": "A new page."}
    for name, body in changed.items():
        store.put(name, body)
    for name in gone:
        store.remove(name)
    store.publish()
    for moment in (killing.claimed, killing.changed, killing.removed):
        killing.run_until(moment)
    found = follower.run()
    assert follower.corner.shown() == {name: [body] for name, body in changed.items()}
    assert (found.run.error, found.held_removals, follower.status()) == (None, None, "succeeded")
    assert not killing.left()
    follower.corner.assert_clean()
