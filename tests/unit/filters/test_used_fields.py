"""Counting the values by which documents can be filtered."""

from __future__ import annotations

from datetime import UTC, datetime

from chordwise.contract.namespace import UsedValues
from pipeline.filters.used_fields import FieldTally
from pipeline.records import DocumentFields


def counted(*documents: DocumentFields):
    tally = FieldTally()
    tally.add(documents)
    return tally.result("kb", complete=True)


def pairs(values: UsedValues) -> list[tuple[object, int]]:
    return [(entry.value, entry.documents) for entry in values.values]


class DescribeUsedFields:
    def it_counts_documents_by_value_the_most_frequent_first(self):
        found = counted(
            DocumentFields(type="manual", author="Lin", tags=("b", "a", "a")),
            DocumentFields(type="faq", tags=("a",)),
            DocumentFields(type="manual"),
        )
        assert (found.documents_read, found.complete) == (3, True)
        assert pairs(found.types) == [("manual", 2), ("faq", 1)]
        assert pairs(found.tags) == [("a", 2), ("b", 1)]
        assert pairs(found.authors) == [("Lin", 1)]

    def it_tells_values_of_different_types_apart(self):
        found = counted(*(DocumentFields(metadata={"k": value}) for value in (1, True, "1", 1.0, [1], None, {})))
        assert sorted(repr(value) for value, _ in pairs(found.metadata["k"])) == ["'1'", "1", "1.0", "True"]

    def it_keeps_false_and_zero_and_leaves_empty_and_long_texts_out(self):
        found = counted(*(DocumentFields(metadata={"k": value}) for value in (False, 0, "", "x" * 201)))
        assert pairs(found.metadata["k"]) == [(0, 1), (False, 1)]

    def it_bounds_lists_and_says_how_many_there_are(self):
        found = counted(*(DocumentFields(tags=(f"t{n:03}",), metadata={f"k{n:03}": n}) for n in range(300)))
        assert (len(found.tags.values), found.tags.distinct) == (200, 300)
        assert (len(found.metadata), found.metadata_keys) == (50, 300)

    def it_gives_the_ends_of_dates_and_story_times(self):
        days = [datetime(2026, 1, day, tzinfo=UTC) for day in (5, 2, 9)]
        found = counted(*(DocumentFields(published_at=day, story_time=day.day - 5) for day in days), DocumentFields())
        assert (found.published_from, found.published_to) == (days[1], days[2])
        assert (found.story_from, found.story_to) == (-3, 4)
