"""The indexer: one process per host that runs query workers. It keeps the keyword indexes there up to date.

``python -m workers.indexer`` runs until SIGTERM or SIGINT. A second one on the same folder waits until the first ends.
Without it queries are answered by MySQL's FULLTEXT index, and say so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from pipeline.errors import PipelineError
from pipeline.flows.index_keywords import KeywordIndexer
from pipeline.flows.resources import Resources
from pipeline.settings import Settings, settings
from pipeline.telemetry import configure_logging

log = structlog.get_logger(__name__)

_NICENESS = 5  # queries go first
_SHARE = 20  # the revisions of all namespaces are read for at most this part of the time
_TIDIED_EVERY_S = 600.0
_LOCK_LOOKED_AT_S = 1.0


def run(config: Settings, stop: threading.Event) -> None:
    """Keep the indexes up to date until ``stop`` is set."""
    use = Resources(config)
    root = config.keyword_index_dir.expanduser()
    with _alone(root, stop) as is_alone:
        if not is_alone:
            return
        indexer = KeywordIndexer(use.mysql, root, use.meter)
        log.info("indexer_ready", folder=str(root))
        tidied_at = float("-inf")
        while not stop.is_set():
            started = time.monotonic()
            try:
                if started - tidied_at >= _TIDIED_EVERY_S:
                    indexer.tidy()
                    tidied_at = started
                indexer.step()
            except PipelineError as error:
                log.warning("indexer_waits", code=error.code, detail=str(error))
            took = time.monotonic() - started
            stop.wait(max(config.keyword_index_interval_ms / 1000, _SHARE * took))
        indexer.close()
    use.close()


@contextlib.contextmanager
def _alone(root: Path, stop: threading.Event) -> Iterator[bool]:
    """Hold the folder's lock, waiting for it; gives False if the process is to stop first. The lock ends with the process,
    however that ends."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(root / "indexer.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        has_said = False
        while not _locked(lock):
            if not has_said:
                log.info("indexer_stands_by", folder=str(root))
                has_said = True
            if stop.wait(_LOCK_LOOKED_AT_S):
                yield False
                return
        yield True
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main() -> int:
    """Run until a signal says to stop. Returns the exit code."""
    try:
        config = settings()
    except PipelineError as error:
        return _refused(str(error))
    configure_logging(config.log_level, service="indexer")
    if config.keyword_engine != "tantivy":
        return _refused("CHORDWISE_KEYWORD_ENGINE is not tantivy: there is nothing to index.")
    os.nice(_NICENESS)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        run(config, stop)
    except OSError as error:
        return _refused(f"CHORDWISE_KEYWORD_INDEX_DIR={config.keyword_index_dir}: {error.strerror}")
    return 0


def _refused(sentence: str) -> int:
    print(f"indexer: {sentence}", file=sys.stderr)  # noqa: T201 - the one sentence an operator looks for
    return 1


if __name__ == "__main__":
    sys.exit(main())
