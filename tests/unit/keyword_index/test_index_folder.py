"""The sign of life in the folder of a host's keyword indexes."""

from __future__ import annotations

import time

import pytest

from pipeline.keyword_index.index_folder import IndexFolder


class DescribeTheSignOfLife:
    def it_tells_how_long_ago_the_indexes_were_current(self, tmp_path):
        now = [1000.0]
        folder = IndexFolder(tmp_path / "index", clock=lambda: now[0])
        assert folder.behind_s() is None
        folder.promise(2.0)
        assert folder.behind_s() is None  # somebody works there, but has not caught up yet
        folder.promise(2.0, is_current=True)
        now[0] += 3.0
        folder.promise(2.0)  # something has changed since
        now[0] += 1.5
        assert folder.behind_s() == pytest.approx(4.5)
        assert folder.is_served()
        now[0] += 1.0
        assert not folder.is_served()

    def it_believes_no_sign_from_before_the_host_started(self, tmp_path):
        IndexFolder(tmp_path, clock=lambda: 5000.0).promise(2.0, is_current=True)
        started = IndexFolder(tmp_path, clock=lambda: 30.0)
        assert (started.behind_s(), started.is_served()) == (None, False)


class DescribeTheWakePipe:
    def it_wakes_the_indexer_once_however_often_it_rang(self, tmp_path):
        folder = IndexFolder(tmp_path)
        with folder.wake_pipe() as pipe:
            assert pipe.can_wake
            assert not pipe.wait(0.0)
            for _ in range(3):
                IndexFolder(tmp_path).wake()
            began = time.monotonic()
            assert pipe.wait(30.0)
            assert time.monotonic() - began < 5.0
            assert not pipe.wait(0.0)

    @pytest.mark.parametrize("folder", ["", "missing"])
    def it_does_nothing_without_an_indexer(self, tmp_path, folder):
        with IndexFolder(tmp_path).wake_pipe():
            pass
        IndexFolder(tmp_path / folder).wake()

    def it_stays_silent_where_there_can_be_no_pipe(self, tmp_path):
        folder = IndexFolder(tmp_path / "missing")
        with folder.wake_pipe() as pipe:
            folder.wake()
            assert not pipe.can_wake
            assert not pipe.wait(0.0)
