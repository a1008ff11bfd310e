"""How long queries wait for a host's keyword index, and the folder that an indexer shares with those who read it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.channels.local_indexes import LocalIndexes
from pipeline.errors import StoreUnavailable, WrongInstallation
from pipeline.keyword_index.index_folder import IndexFolder
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexWriter
from pipeline.records import DocumentId, Namespace, TenantId

TENANT, SPACE = TenantId("acme"), Namespace("kb")
MADE = datetime(2026, 1, 1, tzinfo=UTC)


class Host:
    """An index that gets its revisions from a test, and its reader, which may wait for 20 ms."""

    def __init__(self, root: Path) -> None:
        self.writer, self.folder = LocalIndexWriter(root, TENANT), IndexFolder(root)
        self.waited = 0
        self.while_waiting: Callable[[], object] = lambda: None
        self.reader = LocalIndexes(root, wait_s=0.02, sleep=self._sleep)

    def reach(self, revision: int) -> None:
        state = NamespaceState(
            namespace=SPACE,
            stamp=stamp(revision),
            revision=revision,
            revised_at=MADE,
            created_at=MADE,
            chunk_count=0,
            term_count=0,
        )
        self.writer.replace(state, None, [])
        self.writer.commit()

    def found(self, revision: int, *, changed: int = 100) -> tuple[int, int] | None:
        """The revision that a query gets which must have at least ``revision``, and how many documents it reads from MySQL
        besides; ``changed`` have changed after the index's."""
        documents = tuple((SPACE, DocumentId(f"d{number}")) for number in range(changed))
        standing = self.reader.at(TENANT, {SPACE: stamp(revision)}, lambda _: documents)
        return None if standing is None else (standing.states[SPACE].revision, len(standing.changed))

    def _sleep(self, _: float) -> None:
        self.waited += 1
        self.while_waiting()
        threading.Event().wait(0.005)


def stamp(revision: int) -> str:
    return f"{revision}@{MADE:%Y-%m-%d}@{MADE:%Y-%m-%d}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


class DescribeWaiting:
    @pytest.mark.parametrize("before", [None, 1])
    def it_waits_for_an_indexer_that_is_at_work(self, host, before):
        if before is not None:
            host.reach(before)
        host.folder.promise(5)
        host.while_waiting = lambda: host.reach(2)
        assert (host.found(2), host.waited) == ((2, 0), 1)

    @pytest.mark.parametrize(("before", "found"), [(None, None), (1, (1, 100))])
    def it_waits_for_no_indexer_that_is_not(self, host, before, found):
        if before is not None:
            host.reach(before)
        assert (host.found(2), host.waited) == (found, 0)

    def it_waits_once_for_what_does_not_come(self, host):
        host.reach(1)
        host.folder.promise(5)
        assert host.found(2) == (1, 100)
        waited, host.waited = host.waited, 0
        assert (host.found(2), waited > 0, host.waited) == ((1, 100), True, 0)
        host.while_waiting = lambda: host.reach(3)
        assert host.found(3) == (3, 0)

    def it_does_not_wait_for_a_load_to_be_over(self, host):
        host.reach(1)
        host.folder.promise(5)
        assert (host.found(9), host.waited) == ((1, 100), 0)

    @pytest.mark.parametrize(("changed", "waits"), [(1, False), (20, False), (21, True)])
    def it_reads_a_few_changed_documents_instead(self, host, changed, waits):
        host.reach(1)
        host.folder.promise(5)
        assert (host.found(2, changed=changed), host.waited > 0) == ((1, changed), waits)

    def it_reads_nothing_once_the_index_is_there(self, host):
        host.reach(2)
        assert (host.found(2), host.waited) == ((2, 0), 0)

    def it_raises_if_mysql_is_away_and_the_index_is_behind(self, host):
        def away(_read: object) -> None:
            raise StoreUnavailable("MySQL is away")

        host.reach(1)
        host.folder.promise(5)
        with pytest.raises(StoreUnavailable):
            host.reader.at(TENANT, {SPACE: stamp(2)}, away)


class DescribeTheSignOfLife:
    @pytest.mark.parametrize(
        ("later", "served"),
        [
            (1.0, True),
            (3.0, False),  # it was killed or frozen, or MySQL hangs
            (-500.0, False),  # the host was started again since
        ],
    )
    def it_counts_by_the_hosts_own_clock(self, tmp_path, later, served):
        moment = 1_000.0
        folder = IndexFolder(tmp_path / "made", clock=lambda: moment)
        assert not folder.is_served()
        folder.promise(2.0)
        moment += later
        assert folder.is_served() is served


class DescribeOneWriter:
    def it_lets_a_second_one_stand_by_until_the_first_has_ended(self, tmp_path):
        first, second = IndexFolder(tmp_path), IndexFolder(tmp_path)
        stop, told = threading.Event(), list[str]()

        def wait() -> None:
            told.append("stands by")
            stop.set()

        with first.alone(stop, wait) as is_first, second.alone(stop, wait) as is_second:
            assert (is_first, is_second, told) == (True, False, ["stands by"])
        with second.alone(threading.Event(), lambda: None) as is_second:
            assert is_second

    def it_keeps_installations_apart(self, host, tmp_path):
        host.folder.belong_to("ours", is_alone=True)
        host.reach(1)
        assert host.found(1) == (1, 0)
        with pytest.raises(WrongInstallation, match="CHORDWISE_KEYWORD_INDEX_DIR"):
            host.folder.belong_to("theirs", is_alone=False)
        assert host.found(1) == (1, 0)
        host.folder.belong_to("theirs", is_alone=True)
        assert list(tmp_path.glob("format-*")) == []
