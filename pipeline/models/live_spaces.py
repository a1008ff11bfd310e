"""The embedding spaces of this process: which are live, and the model of each."""

import math
import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy import Connection, Engine

from pipeline.caches import RefreshingValue
from pipeline.database.bounded_waits import STAY_CONNECTED_S
from pipeline.database.unit_of_work import reading
from pipeline.deadline import Deadline
from pipeline.embedding import space_store
from pipeline.errors import PipelineError
from pipeline.models.local_embedder import prepare_references
from pipeline.models.make_models import make_space_embedder
from pipeline.models.ports import Embedder
from pipeline.models.service_pace_store import FleetGovernor
from pipeline.records import EmbeddingSpace, LiveSpaces
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

FRESH_S = 1.0  # how late a process that searches or writes may learn of a switched pointer
_FOLLOW_S = 5.0  # how late an idle one may
_PATIENCE_S = 0.25  # the most a hanging MySQL may delay calls that can do without it
_LEFT_ALONE_S = 30.0  # a standby model that failed is not tried again before


def _report(error: PipelineError) -> None:
    log.warning("spaces_not_read", code=error.code)


class Spaces:
    """The live spaces, read at most once a second, and one embedder for each. Safe to share between threads."""

    def __init__(
        self,
        settings: Settings,
        mysql: Callable[[], Engine],
        *,
        governed_by: Callable[[str], FleetGovernor] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._mysql = mysql
        self._clock = clock
        self._governed_by = governed_by
        self._live: RefreshingValue[LiveSpaces] = RefreshingValue(
            self._read, fresh_s=FRESH_S, patience_s=_PATIENCE_S, on_failure=_report, clock=clock
        )
        self._making = threading.Lock()
        self._embedders: dict[EmbeddingSpace, Embedder] = {}
        self._standby_pause = Deadline(-math.inf, clock)
        self._closed = threading.Event()
        self.base = space_store.base_space(settings)

    def live(self, *, fresh: bool = False, patient: bool = True) -> LiveSpaces:
        """Return the live spaces, at most a second old unless ``fresh``; the last known while MySQL is away or slow, as
        ``patient`` False expects. Raises Unavailable if never read."""
        return self._live.refresh() if fresh else self._live.get(patient=patient)

    def follow(self, *, every_s: float = _FOLLOW_S, stay_connected: Callable[[], None] = lambda: None) -> None:
        """Read the live spaces periodically in the background, so that an idle process loads a new model in time, and call
        ``stay_connected`` twice a minute."""
        threading.Thread(target=self._follow, args=(every_s, stay_connected), name="spaces", daemon=True).start()

    def _follow(self, every_s: float, stay_connected: Callable[[], None]) -> None:
        next_use = Deadline.after(STAY_CONNECTED_S, clock=self._clock)
        while not self._closed.wait(every_s):
            try:
                self.live(patient=False)
                if next_use.has_passed:
                    next_use = Deadline.after(STAY_CONNECTED_S, clock=self._clock)
                    stay_connected()
            except PipelineError as error:
                _report(error)

    def _read(self) -> LiveSpaces:
        with reading(self._mysql()) as connection:
            spaces = space_store.live(connection, self.base)
        self._prepare(spaces)
        return spaces

    def _prepare(self, spaces: LiveSpaces) -> None:
        """Log a change of the live spaces, and load the models that are new."""
        before = self._live.last
        if before is not None and spaces != before:
            log.info(
                "spaces_changed", active=spaces.active.number, standby=spaces.standby.number if spaces.standby else None
            )
            for space in spaces.every:
                if space not in self._embedders:
                    threading.Thread(target=self._warm_up, args=(space,), daemon=True).start()

    def hold(self, connection: Connection) -> LiveSpaces:
        """Return the live spaces, locked until this transaction on MySQL ends."""
        spaces = self.live()
        held = space_store.hold(connection, spaces, self.base)
        if held != spaces:
            self._prepare(held)
            self._live.put(held)
        return held

    def embedder(self, space: EmbeddingSpace) -> Embedder:
        """Return the model of a space, created at first use. Raises Misconfigured."""
        embedder = self._embedders.get(space)
        if embedder is None:
            with self._making:
                embedder = self._embedders.get(space) or make_space_embedder(
                    self._settings, space, governed_by=self._governed_by
                )
                self._embedders[space] = embedder
        return embedder

    @property
    def standby_answers(self) -> bool:
        """Whether the standby's model has not failed within the last half minute."""
        return self._standby_pause.has_passed

    def standby_failed(self, error: PipelineError) -> None:
        """Pause calls of the standby's model for a while; texts without its vectors are in the backlog."""
        self._standby_pause = Deadline.after(_LEFT_ALONE_S, clock=self._clock)
        log.warning("standby_left_to_the_backlog", code=error.code)

    def close(self) -> None:
        """Close every model's connections."""
        self._closed.set()
        for embedder in self._embedders.values():
            embedder.close()

    def _warm_up(self, space: EmbeddingSpace) -> None:
        """Load a model before the first query needs it: loading takes longer than a channel may."""
        try:
            self.embedder(space).embed(["warm up"], timeout_s=10.0)
            prepare_references(self.embedder(space))
            log.info("embedding_model_loaded", space=space.number)
        except PipelineError as error:
            log.warning("embedding_model_not_loaded", space=space.number, code=error.code)
