"""The indexer: one process per host with query workers, which keeps its keyword indexes up to date.

``python -m workers.indexer`` runs until SIGTERM or SIGINT; a second on the folder waits. Without it MySQL's FULLTEXT
answers.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from dataclasses import replace

import structlog

from pipeline.database.disk_space import space_of
from pipeline.database.installation import id_in
from pipeline.database.unit_of_work import reading
from pipeline.database.worker_heartbeats import SIGN_EVERY_S, ProcessSign
from pipeline.errors import PipelineError
from pipeline.keyword_index.index_folder import IndexFolder, WakePipe
from pipeline.keyword_index.indexer_report_store import EVERY_S
from pipeline.maintenance.index_keywords import KeywordIndexer
from pipeline.resources import Resources
from pipeline.settings import Settings, settings
from pipeline.telemetry.logs import configure_logging
from workers.priorities import Niceness, give_way

log = structlog.get_logger(__name__)

_INTERVAL_S = 0.1  # between two looks for changes, at least
_SHARE = 20  # pauses are this many times as long as reading the revisions of all namespaces, within the bound
_LONGEST_PAUSE_S = 5.0  # also after a step that waited for a database, which says nothing about its cost
_QUIET_SHARE = 0.1  # pauses grow to this share of the time without changes, where the indexer can be woken
_LONGEST_QUIET_S = 2.0  # how late it is for a change made on another host that no query of this one asks for
_TIDIED_EVERY_S = 600.0
_PROMISED_S = 2.0  # grace beyond the next look for changes: a busy host is late


def run(config: Settings, stop: threading.Event) -> None:
    """Keep the indexes up to date until ``stop``. Raises OSError, and WrongInstallation for another's folder."""
    use = Resources(config, reading=True)
    folder = IndexFolder(config.keyword_index_dir.expanduser())
    installation_id = _installation(use, stop)

    def stand_by() -> None:
        folder.belong_to(installation_id, is_alone=False)
        log.info("indexer_standby", folder=str(folder.root))

    if not stop.is_set():
        with folder.alone(stop, stand_by) as is_alone:
            if is_alone:
                folder.belong_to(installation_id, is_alone=True)
                log.info("indexer_ready", folder=str(folder.root))
                indexer = KeywordIndexer(use.mysql, folder.root, use.meter)
                with folder.wake_pipe() as pipe:
                    _follow(indexer, folder, pipe, use, config, stop)
    use.close()


def _installation(use: Resources, stop: threading.Event) -> str:
    """Return the id of this installation, waiting for MySQL and its schema; empty if the process is stopped first."""
    pause_s = 1.0
    while not stop.is_set():
        try:
            with reading(use.mysql) as connection:
                if (installation_id := id_in(connection)) is not None:
                    return installation_id
            log.warning("indexer_waits", detail="MySQL has no schema yet")
        except PipelineError as error:
            log.warning("indexer_waits", code=error.code, detail=str(error))
        stop.wait(pause_s)
    return ""


def _follow(
    indexer: KeywordIndexer,
    folder: IndexFolder,
    pipe: WakePipe,
    use: Resources,
    config: Settings,
    stop: threading.Event,
) -> None:
    signs = _Signs(use, config.host, folder, pipe)
    tidied_at = reported_at = float("-inf")
    changed_at = time.monotonic()
    while not stop.is_set():
        started = time.monotonic()
        pause_s = interval_s = _INTERVAL_S
        try:
            if started - tidied_at >= _TIDIED_EVERY_S:
                indexer.tidy()
                tidied_at = started
            lag = indexer.step()
            changed_at = started if lag.tenants else changed_at
            quiet_s = started - changed_at if pipe.can_wake else 0.0
            pause_s = pause_after(time.monotonic() - started, interval_s=interval_s, quiet_s=quiet_s)
            folder.promise(pause_s + _PROMISED_S, is_current=not lag.tenants)
            if started - reported_at >= EVERY_S:
                reported_at = started
                use.indexer_reports.write(indexer.facts(config.host))
        except PipelineError as error:
            log.warning("indexer_waits", code=error.code, detail=str(error))
            pause_s = interval_s = max(pause_s, 1.0)
        signs.pause(stop, pause_s, at_least_s=interval_s)
    indexer.close()
    with contextlib.suppress(PipelineError):
        use.indexer_reports.withdraw(config.host)
    signs.withdraw()


class _Signs:
    """Signs of life of this process, also while it waits for a server. Without Redis, whose check reports it, none."""

    def __init__(self, use: Resources, host: str, folder: IndexFolder, pipe: WakePipe) -> None:
        self._use = use
        self._pipe = pipe
        self._sign = ProcessSign(host=host, name="indexer", serves=("indexer",))
        self._folder = folder.root
        self._signed_at = float("-inf")

    def pause(self, stop: threading.Event, pause_s: float, *, at_least_s: float) -> None:
        """Wait for ``pause_s`` seconds, until it is woken after ``at_least_s``, or until ``stop``, whose setter wakes it
        it; give a sign every `SIGN_EVERY_S`."""
        began = time.monotonic()
        ends_at = began + pause_s
        while not stop.is_set():
            now = time.monotonic()
            if now - self._signed_at >= SIGN_EVERY_S:
                self._signed_at = now
                space = space_of("keyword_index", self._folder)
                with contextlib.suppress(PipelineError):
                    self._use.heartbeats.sign(replace(self._sign, disks=(space,) if space else ()))
            if (until_heard_s := began + at_least_s - now) > 0:
                stop.wait(min(until_heard_s, SIGN_EVERY_S))
            elif now >= ends_at or self._pipe.wait(min(ends_at - now, SIGN_EVERY_S)):
                return

    def withdraw(self) -> None:
        """Say goodbye, so that nobody misses this process."""
        with contextlib.suppress(PipelineError):
            self._use.heartbeats.withdraw_sign(self._sign)


def pause_after(step_s: float, *, interval_s: float, quiet_s: float = 0.0) -> float:
    """Return the seconds to the next step after one of ``step_s``: the interval; more for steps that take long, at most 5 s,
    and ``quiet_s`` after the last change, at most 2 s. So an indexer uses little of the database."""
    return max(interval_s, min(_LONGEST_PAUSE_S, _SHARE * step_s), min(_LONGEST_QUIET_S, _QUIET_SHARE * quiet_s))


def main() -> int:
    """Run until a signal to stop. Returns the exit code."""
    try:
        config = settings()
    except PipelineError as error:
        return _refused(str(error))
    configure_logging(config.log_level, service="indexer")
    stop = threading.Event()
    folder = IndexFolder(config.keyword_index_dir.expanduser())

    def end(*_: object) -> None:
        stop.set()
        folder.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if config.keyword_engine != "tantivy":
        log.info("indexer_not_needed", detail=f"CHORDWISE_KEYWORD_ENGINE={config.keyword_engine}")
        stop.wait()
        return 0
    give_way(Niceness.BACKGROUND)
    try:
        run(config, stop)
    except PipelineError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"CHORDWISE_KEYWORD_INDEX_DIR={config.keyword_index_dir}: {error.strerror}")
    return 0


def _refused(sentence: str) -> int:
    print(f"indexer: {sentence}", file=sys.stderr)  # noqa: T201 - the one sentence an operator looks for
    return 1


if __name__ == "__main__":
    sys.exit(main())
