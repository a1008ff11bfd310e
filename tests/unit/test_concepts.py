"""The product does not grow in what a reader has to know, and the page of pools and caches names every file that has one."""

from __future__ import annotations

import re

import pytest

from tests.support.repository.concepts import found
from tests.support.repository.project import ROOT

MOST = {
    "settings": 100,
    "records that declare fields": 680,
    "handlers of unavailability": 20,
    "pools": 6,
    "threads": 8,
    "caches": 49,
    "bodies read by hand": 9,
}


@pytest.fixture(scope="module")
def concepts():
    return found()


class DescribeTheProduct:
    @pytest.mark.parametrize("kind", MOST)
    def it_has_no_more_of_a_kind(self, concepts, kind):
        assert len(concepts[kind]) <= MOST[kind], "\n".join(concepts[kind])

    @pytest.mark.parametrize("kind", ["pools", "threads", "caches"])
    def it_lists_every_file_with_one(self, concepts, kind):
        listed = set(re.findall(r"[\w/]+\.py", (ROOT / "docs/internals.md").read_text(encoding="utf-8")))
        files = {place.partition(" ")[0] for place in concepts[kind]}
        assert {file for file in files if file not in listed and file.rpartition("/")[2] not in listed} == set()


class DescribeTheCount:
    def it_tells_a_cache_from_a_value_made_once(self, tmp_path):
        (tmp_path / "pipeline").mkdir()
        (tmp_path / "pipeline" / "sample.py").write_text(
            "@functools.cache\ndef once(): ...\n@lru_cache(maxsize=3)\ndef by_key(key): ...\nknown = RecentValues(7)\n"
            "try: ...\nexcept (ValueError, StoreUnavailable): ...\nclass Record:\n    field: int\n"
        )
        counted = {kind: len(places) for kind, places in found(tmp_path).items()}
        assert counted == {
            "lines of pipeline": 9,
            "made once": 1,
            "caches": 2,
            "handlers of unavailability": 1,
            "records that declare fields": 1,
        }
