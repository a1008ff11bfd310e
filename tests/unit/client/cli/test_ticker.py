"""Progress without a terminal: a line when it has changed, so that a log is short."""

from __future__ import annotations

import pytest

from chordwise.cli.screen import Ticker


class DescribeProgressWithoutATerminal:
    def it_says_each_state_once(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        seconds = iter(range(100, 200, 3))
        monkeypatch.setattr("time.monotonic", lambda: next(seconds))
        with Ticker() as ticker:
            for done in (0, 0, 0, 49, 49, 177):
                ticker.show("documents indexed", done, 177)

        assert "".join(capsys.readouterr()).splitlines() == [
            f"{done} of 177 documents indexed" for done in (0, 49, 177)
        ]
