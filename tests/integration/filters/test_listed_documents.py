"""Lists of documents and chunks, filtered: the documents that a query with the same filters finds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentSelection
from pipeline.records import Comparison, Compound, Filters, Namespace
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.stacks.corner import Corner, documents

BIG = 2**53
LONG = "x" * 5_000
FIELDS: dict[str, dict[str, Any]] = {
    "author": {"author": "Anna"},
    "author-blank": {"author": "Anna "},
    "author-case": {"author": "anna"},
    "author-accent": {"author": "Ánna"},
    "author-zh": {"author": "安娜"},
    "author-zh-blank": {"author": "安娜　"},
    "type": {"type": "Note"},
    "type-blank": {"type": "Note "},
    "tags": {"tags": ("a", "b ")},
    "tags-other": {"tags": ("A", "b")},
    "composed": {"metadata": {"k": "é"}},
    "decomposed": {"metadata": {"k": "e\u0301"}},
    "traditional": {"metadata": {"k": "魚"}},
    "simplified": {"metadata": {"k": "鱼"}},
    "big": {"metadata": {"k": BIG}},
    "bigger": {"metadata": {"k": BIG + 1}},
    "one": {"metadata": {"k": 1}},
    "one-float": {"metadata": {"k": 1.0}},
    "one-text": {"metadata": {"k": "1"}},
    "true": {"metadata": {"k": True}},
    "zero": {"metadata": {"k": 0}},
    "tiny": {"metadata": {"k": 1e-300}},
    "false": {"metadata": {"k": False}},
    "null": {"metadata": {"k": None}},
    "empty": {"metadata": {"k": ""}},
    "list": {"metadata": {"k": ["x", 1]}},
    "nested": {"metadata": {"k": [["x"]]}},
    "object": {"metadata": {"k": {"x": ["y", BIG + 1]}}},
    "objects": {"metadata": {"k": [{"x": "y"}, {"z": 1}]}},
    "long": {"metadata": {"k": LONG}},
    "longer": {"metadata": {"k": LONG + "y"}},
    "day": {"metadata": {"k": "2026-01-02"}},
    "moment": {"metadata": {"k": "2026-01-02T00:00:00Z"}},
    "published": {"published_at": datetime(2026, 1, 2, tzinfo=UTC)},
    "published-later": {"published_at": datetime(2026, 1, 2, 0, 0, 1, tzinfo=UTC)},
}
ASKED = [
    *(Filters(**fields) for fields in FIELDS.values() if "published_at" not in fields),
    *(
        Filters(metadata={"k": value})
        for value in (["x"], [["x"]], [], {}, {"x": "y"}, [{"x": "y"}], BIG + 2, float(BIG))
    ),
    *(
        Filters(where=Comparison(key="k", operator=operator, value=value))
        for operator in ("eq", "ne", "gt", "lte")
        for value in (BIG, BIG + 1, 1, True, "1", "é", "鱼")
    ),
    Filters(where=Comparison(key="k", operator="nin", value=(BIG, "x"))),
    *(
        Filters(where=where)
        for comparison in (
            *(Comparison(key="k", operator=operator, value=BIG + 1) for operator in ("eq", "has", "gt", "gte", "lt")),
            *(Comparison(key="k", operator="has", value=value) for value in ("x", 1, True, "鱼")),
            Comparison(key="k", operator="exists", value=True),
            *(Comparison(key=key, operator="exists", value=True, own=True) for key in ("type", "tags", "published_at")),
            *(Comparison(key="author", operator=operator, value="Anna", own=True) for operator in ("eq", "ne")),
            Comparison(key="author", operator="in", value=("安娜", "Anna "), own=True),
            Comparison(key="tags", operator="has", value="b ", own=True),
            *(
                Comparison(key="published_at", operator=operator, value="2026-01-02T08:00:00+08:00", own=True)
                for operator in ("gt", "gte", "lt", "lte")
            ),
        )
        for where in (comparison, Compound(operator="not", parts=(comparison,)))
    ),
]


@pytest.fixture(scope="module")
def corner(use_alone: Resources) -> Corner:
    found = Corner(use_alone, make_tenant(use_alone)[0], Namespace("listed"))
    found.fill({name: f"common words 常用词 {name}" for name in FIELDS}, FIELDS)
    return found


@pytest.mark.parametrize("number", range(len(ASKED)))
def it_lists_the_documents_that_a_query_finds(corner, number):
    filters = ASKED[number]
    found = sorted(documents(corner.ask(corner.query("common words", filters=filters, top_k=50))))
    with unit_of_work(corner.use.mysql) as work:
        views = DocumentViews(work.connection, corner.tenant)
        listed = [view.document_id for view in paged(views, filters)]
        chunks = ChunkEdits(work.connection, corner.tenant)
        of_chunks = [chunk.generation.document_id for chunk in chunks.page(corner.namespace, filters=filters, limit=50)]
        third = chunks.page(corner.namespace, filters=filters, offset=2, limit=1, order_by="-updated_at")
        last = chunks.page(corner.namespace, filters=filters, limit=50, order_by="-updated_at")
    assert (listed, sorted(of_chunks), third) == (found, found, last[2:3])


def paged(views: DocumentViews, filters: Filters) -> list[Any]:
    """Pages of two, as a client reads them."""
    selection = DocumentSelection(namespace=Namespace("listed"), filters=filters)
    found: list[Any] = []
    while page := views.views(
        selection, reads_as=None, after=found[-1].position("document_id") if found else None, limit=2
    ):
        found += page
    return found
