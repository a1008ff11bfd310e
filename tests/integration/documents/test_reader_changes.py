"""Readers that change while their document is being ingested again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.administration.set_readers import set_readers
from pipeline.filters.readers import readers_filter
from pipeline.models.ports import Embedder, Matrix
from pipeline.records import ChannelName, Filters, Namespace
from pipeline.resources import Resources
from pipeline.retrieval.make_channels import make_channels
from tests.conftest import make_tenant
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import sharing
from tests.support.stacks.corner import Corner


class _Interrupted:
    """The real embedder, which calls a function before its first texts."""

    def __init__(self, real: Embedder, before: Callable[[], object]) -> None:
        self._real, self._before = real, [before]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def embed(self, texts: Sequence[str], *, timeout_s: float | None = None) -> Matrix:
        while self._before:
            self._before.pop()()
        return self._real.embed(texts, timeout_s=timeout_s)


@pytest.fixture
def corner(use_alone: Resources, namespace: Namespace) -> Corner:
    made = Corner(use_alone, make_tenant(use_alone)[0], namespace)
    made.ingest(upload("pay", "Salaries are paid on the last day. 工资在月底发放。"))
    return made


@pytest.mark.parametrize(
    ("before", "after", "principal"),
    [
        (None, ("group:hr",), "group:hr"),
        (("group:hr",), ("group:人事",), "group:人事"),
        (("group:hr",), None, "user:42"),
    ],
    ids=["closed", "other group", "opened"],
)
def it_finds_the_document_by_meaning_for_its_new_readers(corner: Corner, before, after, principal):
    def change(readers: tuple[str, ...] | None) -> None:
        assert set_readers(corner.tenant, corner.namespace, readers, corner.use, document_ids=["pay"]) == (1, True)

    def found(*principals: str) -> list[str]:
        semantic = {ChannelName("semantic"): make_channels(corner.use)[ChannelName("semantic")]}
        filters = Filters(readers=readers_filter(frozenset(principals)))
        query = corner.query("When are salaries paid? 工资何时发放？", filters=filters)
        return [chunk.text for chunk in corner.ask(replace(query, principals=principals), semantic).chunks]

    if before is not None:
        change(before)
    new = "Salaries are paid on the first day. 工资在月初发放。"
    ticket = corner.accept(upload("pay", new))
    corner.work(ticket, sharing(corner.use, embedder=_Interrupted(corner.use.embedder, lambda: change(after))))
    assert corner.job(ticket).status == "succeeded"
    assert found(principal) == [new]
    assert found("group:hr") == ([new] if after in (None, ("group:hr",)) else [])
