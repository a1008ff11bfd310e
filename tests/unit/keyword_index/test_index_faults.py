"""Faults of a host's disk: a tenant's index is readable at one whole commit, or not at all."""

from __future__ import annotations

import os
import resource
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from pipeline.keyword_index.index_faults import IndexDamaged, IndexUnusable
from pipeline.keyword_index.index_search import IndexSearch
from pipeline.keyword_index.indexed_chunk_store import IndexedChunk, NamespaceState
from pipeline.keyword_index.local_index_store import LocalIndexReader, LocalIndexWriter, folder_of
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId

TENANT, SPACE = TenantId("acme"), Namespace("kb")
MADE = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("w" + "0" * 12, "w" + "1" * 12)
CHUNKS = 20


def chunk(revision: int, number: int, *, text_bytes: int = 20) -> IndexedChunk:
    """One that is found by a word of its revision alone."""
    chunk_id = ChunkId(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{revision}/{number}")))
    fields = {
        **dict.fromkeys(
            ("page", "page_end", "author", "type", "published_at", "story_time", "source_uri", "parent_id")
        ),
        **{"chunk_id": chunk_id, "namespace": SPACE, "document_id": "d", "generation": revision, "ordinal": number},
        **{"heading_path": "[]", "start": 0, "end": 9, "token_count": 3, "title": "", "tags": "[]", "metadata": "{}"},
        **{"updated_at": "2026-01-01", "chunk_type": "text", "segment": None, "chunking": "{}", "reworded": 0},
    }
    terms = f"{chunk_id} {SPACE} 0 0 0 {WORDS[revision % 2]}".encode()
    return IndexedChunk(terms, os.urandom(text_bytes).hex(), orjson.dumps(fields).decode())


def write(writer: LocalIndexWriter, revision: int, *, text_bytes: int = 20) -> None:
    state = NamespaceState(
        namespace=SPACE,
        stamp=f"{revision}@{MADE}@{MADE}",
        revision=revision,
        revised_at=MADE,
        created_at=MADE,
        chunk_count=CHUNKS,
        term_count=CHUNKS,
    )
    chunks = [chunk(revision, number, text_bytes=text_bytes) for number in range(CHUNKS)]
    writer.replace(state, [DocumentId("d")], chunks)
    writer.commit()


def seen(root: Path) -> int | None:
    """The one revision that is found, by its state and by what each word finds; None if the index cannot be read."""
    view = LocalIndexReader(root, TENANT).view()
    if view is None:
        return None
    state = view.state(SPACE)
    assert state is not None
    found = [len(view.search(IndexSearch(groups=[{word: 1.0}]), limit=100)) for word in WORDS]
    assert found == [CHUNKS if state.revision % 2 == number else 0 for number in (0, 1)]
    return state.revision


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with an index at revision 1."""
    writer = LocalIndexWriter(tmp_path, TENANT)
    write(writer, 1)
    writer.close()
    return tmp_path


class Watched(LocalIndexWriter):
    """Calls ``at`` between the steps of a change, with the name of the step that is done."""

    def __init__(self, root: Path, at: Callable[[str], object]) -> None:
        super().__init__(root, TENANT)
        self._at, self._writer = at, Committed(self._writer, at)

    def replace(self, state: NamespaceState, document_ids: Any, chunks: Iterable[IndexedChunk]) -> int:
        def added() -> Iterator[IndexedChunk]:
            self._at("left out")
            yield from chunks

        count = super().replace(state, document_ids, added())
        self._at("replaced")
        return count


class Committed:
    """A writer of tantivy that calls ``at`` after a commit, before files are deleted."""

    def __init__(self, real: Any, at: Callable[[str], object]) -> None:
        self._real, self._at = real, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def garbage_collect_files(self) -> None:
        self._at("committed")
        self._real.garbage_collect_files()


class DescribeAnIndexerThatIsKilled:
    @pytest.mark.parametrize("step", ["left out", "replaced", "committed"])
    def it_leaves_the_old_commit_or_the_new_one(self, root, step):
        def die(done: str) -> None:
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if not child:
            try:
                write(Watched(root, die), 2)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        self.goes_on(root, {2} if step == "committed" else {1})

    @pytest.mark.parametrize(
        "wait_ms", [2.0, *(pytest.param(ms, marks=pytest.mark.thorough) for ms in (0.5, 5.0, 12.0))]
    )
    def it_leaves_one_of_them_within_a_commit_too(self, root, wait_ms):
        begun, begin = os.pipe()
        child = os.fork()
        if not child:
            try:
                writer = Watched(root, lambda done: done == "replaced" and os.write(begin, b"x"))
                write(writer, 2)
            finally:
                os._exit(0)
        assert os.read(begun, 1) == b"x"
        time.sleep(wait_ms / 1000)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.goes_on(root, {1, 2})

    def goes_on(self, root: Path, allowed: set[int]) -> None:
        assert seen(root) in allowed
        writer = LocalIndexWriter(root, TENANT)
        write(writer, 4)
        writer.close()
        assert seen(root) == 4


@contextmanager
def at_most(byte_count: int) -> Iterator[None]:
    """No file may grow beyond this, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (byte_count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a folder read-only. Root gives up its rights for the block."""
    user = os.geteuid()
    for each in (folder, *folder.parents[:3], *folder.iterdir()):
        each.chmod(0o555 if each.is_dir() else 0o444)
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)
        for each in (folder, *folder.parents[:3], *folder.iterdir()):
            each.chmod(0o755 if each.is_dir() else 0o644)


class DescribeADisk:
    def it_keeps_the_old_commit_where_there_is_no_room(self, root):
        writer = LocalIndexWriter(root, TENANT)
        with at_most(200_000), pytest.raises(IndexUnusable) as refused:
            write(writer, 2, text_bytes=20_000)
        assert not isinstance(refused.value, IndexDamaged), refused.value
        assert seen(root) == 1
        writer.close()
        writer = LocalIndexWriter(root, TENANT)
        write(writer, 2)
        writer.close()
        assert seen(root) == 2

    def it_says_that_a_folder_is_read_only(self, root):
        with read_only(folder_of(root, TENANT)), pytest.raises(IndexUnusable) as refused:
            write(LocalIndexWriter(root, TENANT), 2)
        assert not isinstance(refused.value, IndexDamaged), refused.value
        assert seen(root) == 1

    @pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no other file system is known")
    def it_may_be_another_one(self, tmp_path):
        elsewhere = Path("/dev/shm") / f"chordwise-{uuid.uuid4().hex}"
        elsewhere.mkdir()
        (tmp_path / "link").symlink_to(elsewhere)
        try:
            writer = LocalIndexWriter(tmp_path / "link", TENANT)
            write(writer, 1)
            write(writer, 2)
            writer.close()
            assert seen(tmp_path / "link") == 2
        finally:
            for path in sorted(elsewhere.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            elsewhere.rmdir()


class DescribeDamage:
    @pytest.mark.parametrize(
        "suffix",
        [
            "store",
            "term",
            *(pytest.param(name, marks=pytest.mark.thorough) for name in ("idx", "fast", "fieldnorm", "json")),
        ],
    )
    def it_reads_nothing_that_is_not_as_it_was_written(self, root, suffix):
        for file in folder_of(root, TENANT).glob(f"*.{suffix}"):
            content = bytearray(file.read_bytes())
            content[: len(content) * 9 // 10 : 7] = bytes(byte ^ 0x55 for byte in content[: len(content) * 9 // 10 : 7])
            file.write_bytes(content)
        try:
            assert seen(root) is None
        except IndexDamaged:
            reader = LocalIndexReader(root, TENANT)
            assert reader.view() is not None
            reader.distrust()
            assert LocalIndexReader(root, TENANT).view() is reader.view() is None

    def it_builds_nothing_upon_another_releases_files(self, root):
        file = folder_of(root, TENANT) / "meta.json"
        meta = orjson.loads(file.read_bytes())
        meta["schema"][0]["name"] = "terms_of_tomorrow"
        file.write_bytes(orjson.dumps(meta))
        with pytest.raises(IndexDamaged):
            LocalIndexWriter(root, TENANT)
