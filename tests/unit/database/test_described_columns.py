"""Columns of statements, taken from the tables."""

from __future__ import annotations

from pipeline.database.mysql_tables import generations
from pipeline.database.postgres_tables import FILTERED
from pipeline.database.statements import columns
from pipeline.records import DocumentFields


class DescribeColumns:
    def it_lists_the_fields_of_a_record_in_its_order(self):
        listed = "title, author, type, tags, published_at, story_time, metadata, readers"
        assert columns(generations, DocumentFields) == listed
        assert columns(generations, DocumentFields, "g") == ", ".join(f"g.{name}" for name in listed.split(", "))

    def it_replaces_a_column_by_an_expression_under_its_name(self):
        listed = columns(generations, DocumentFields, "g", story_time="COALESCE(c.story_time, g.story_time)")
        assert "g.published_at, COALESCE(c.story_time, g.story_time) AS story_time, g.metadata" in listed

    def it_filters_vectors_by_fields_of_the_document(self):
        assert FILTERED.keys() <= DocumentFields.__dataclass_fields__.keys()
