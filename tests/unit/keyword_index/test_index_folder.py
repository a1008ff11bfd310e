"""The sign of life in the folder of a host's keyword indexes."""

from __future__ import annotations

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
