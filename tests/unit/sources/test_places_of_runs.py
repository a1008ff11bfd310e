"""The places that a process has for runs of sources."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from pipeline.administration.run_source import run_next
from pipeline.errors import StoreUnavailable


class Away:
    """Resources whose MySQL does not answer."""

    @property
    def mysql(self) -> NoReturn:
        raise StoreUnavailable("MySQL: OperationalError 2003")


def it_keeps_its_places_while_mysql_is_away():
    away: Any = Away()
    for _ in range(5):  # a process without places would answer False, and never follow a source again
        with pytest.raises(StoreUnavailable):
            run_next(away, notify=lambda *_: None)
