"""This host's index at the revision that a query sees, as its `WordIndex`; changes since then are read from MySQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Final

from pipeline.filters.index_filters import EVERYTHING, Clause, clause_of
from pipeline.filters.used_fields import Counts
from pipeline.keyword.dictionary import Run
from pipeline.keyword.fulltext_store import KeywordIndex, Search
from pipeline.keyword.query_words import Candidates, NamespaceSize, QueryWords, TermsRow
from pipeline.keyword_index.index_search import IndexSearch, IndexView
from pipeline.keyword_index.indexed_chunk_store import NamespaceState
from pipeline.records import Caps, ChunkId, DocumentId, Filters, Namespace

MOST_CHANGED_CHUNKS: Final = 2_000  # of changed documents together: 15 ms, where a search in MySQL takes 6 to 15
_LEAST_PROPOSED = 100
_PROPOSED_PER_PLACE = 1.25  # the index's order differs from BM25's only by rounded lengths
_USUAL_POOL = 100
_PROPOSED_BEYOND = 3  # for each place beyond, so that a greater pool begins with the smaller one's chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexAtRevision:
    """A tenant's index at a revision. ``changed``: documents whose chunks in it are outdated, to be read from MySQL.
    ``is_current`` is false for one that could not be compared with MySQL; ``behind_s``: seconds since the last
    comparison."""

    view: IndexView
    states: Mapping[Namespace, NamespaceState]
    changed: tuple[tuple[Namespace, DocumentId], ...] = ()
    is_current: bool = True
    behind_s: float | None = None

    def age_s(self, now: datetime) -> float:
        """Return the seconds since the index was known to be current, at most the oldest namespace's age."""
        revised = [state.revised_at or state.created_at for state in self.states.values()]
        age_s = max((now - moment.replace(tzinfo=UTC)).total_seconds() for moment in revised)
        return age_s if self.behind_s is None else min(age_s, self.behind_s)


@dataclass(frozen=True, slots=True)
class HostWords:
    """A `WordIndex`. ``mysql``: FULLTEXT, which reads the changed documents and applies filters that the index cannot.
    ``read_rows``: the index's rows that the query has read. Raises IndexDamaged too."""

    index: IndexAtRevision
    mysql: Callable[[], KeywordIndex]
    read_rows: dict[object, TermsRow] = field(default_factory=dict)

    @property
    def counts_all(self) -> bool:
        """Whether nothing has changed since the revision."""
        return not self.index.changed

    def sizes(self, namespaces: Sequence[Namespace]) -> Mapping[Namespace, NamespaceSize]:
        """Return the sizes at the revision."""
        return {namespace: self.index.states[namespace] for namespace in namespaces if namespace in self.index.states}

    def frequencies(
        self,
        tokens: Sequence[str],
        sizes: Mapping[Namespace, NamespaceSize],  # noqa: ARG002 - the port's
    ) -> dict[str, int]:
        """Return the frequencies at the revision."""
        return self.index.view.frequencies(tokens)

    def existing(self, tokens: Sequence[str]) -> list[str]:
        """Return those of these tokens that a chunk held at the revision."""
        return list(self.index.view.frequencies(tokens))

    def candidates(self, words: QueryWords, *, filters: Filters, pool: int, caps: Caps | None = None) -> Candidates:
        """Return the best rows by the index's own order, and MySQL's rows of documents that changed since; some of these may
        be missing if they have grown meanwhile."""
        clause = self._clause(filters)
        if clause is None:
            return self.mysql().candidates(words, filters=filters, pool=pool, caps=caps)
        wanted = IndexSearch(groups=_groups(words), clause=clause, without=self.index.changed)
        beyond = max(0, pool - _USUAL_POOL)
        limit = max(_LEAST_PROPOSED, int(_PROPOSED_PER_PLACE * (pool - beyond)) + _PROPOSED_BEYOND * beyond)
        if caps is None:
            rows, is_cut = self.index.view.search(wanted, limit=limit, read=self.read_rows), False
        else:
            rows, is_cut = self.index.view.within_caps(wanted, caps, limit=limit)
        self.read_rows.update((row.chunk_id, row) for row in rows)
        tokens = [token.encode() for group in wanted.groups for token in group]
        for namespace in {namespace for namespace, _ in self.index.changed}:
            ids = [document_id for of, document_id in self.index.changed if of == namespace]
            if caps is not None:
                rows += self.mysql().within_caps(
                    [namespace],
                    Search.of(words, within_caps=True),
                    filters=filters,
                    limit=limit,
                    caps=caps,
                    document_ids=ids,
                )
                continue
            changed = self.mysql().shown_of(namespace, ids, filters=filters, limit=MOST_CHANGED_CHUNKS + 1)
            is_cut = is_cut or len(changed) > MOST_CHANGED_CHUNKS
            rows += (row for row in changed if any(token in row.terms for token in tokens))
        return Candidates(rows=rows, method="index", may_be_short=is_cut)

    def count_values(
        self, words: QueryWords, chunk_ids: Sequence[ChunkId], *, filters: Filters, fields: Sequence[str]
    ) -> tuple[int, Sequence[tuple[Counts, int]], Sequence[ChunkId]] | None:
        """Count at the revision; None for filters that the index cannot apply, and for too many changed chunks."""
        clause = clause_of(filters)
        if clause is None:
            return None
        wanted = IndexSearch(groups=_groups(words), clause=clause, without=self.index.changed)
        total, counts = self.index.view.count_values(wanted, chunk_ids, fields)
        tokens = [token.encode() for group in wanted.groups for token in group]
        named, changed = frozenset(chunk_ids), list[ChunkId]()
        for namespace in {namespace for namespace, _ in self.index.changed}:
            ids = [document_id for of, document_id in self.index.changed if of == namespace]
            rows = self.mysql().shown_of(namespace, ids, filters=filters, limit=MOST_CHANGED_CHUNKS + 1)
            if len(rows) > MOST_CHANGED_CHUNKS:
                return None
            changed += (
                row.chunk_id for row in rows if row.chunk_id in named or not set(tokens).isdisjoint(row.terms.split())
            )
        return total, counts, changed

    def rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the rows of these chunks; from MySQL those that are missing or outdated."""
        rows = self.own_rows(chunk_ids)
        present = {row.chunk_id for row in rows}
        others = [chunk_id for chunk_id in chunk_ids if chunk_id not in present] if self.index.is_current else []
        return rows + (self.mysql().rows(others) if others else [])

    def own_rows(self, chunk_ids: Sequence[ChunkId]) -> list[TermsRow]:
        """Return the unchanged rows that the index has of these chunks; each is read once per query."""
        unread = [chunk_id for chunk_id in chunk_ids if chunk_id not in self.read_rows]
        rows = self.index.view.rows(unread, without=self.index.changed, read=self.read_rows)
        self.read_rows.update((row.chunk_id, row) for row in rows)
        return [self.read_rows[chunk_id] for chunk_id in chunk_ids if chunk_id in self.read_rows]

    def shown_of(
        self, namespace: Namespace, document_ids: Sequence[DocumentId], *, filters: Filters, limit: int
    ) -> list[TermsRow]:
        """Return chunks of these documents from MySQL; from the index if that could not be compared with MySQL."""
        if self.index.is_current:
            return self.mysql().shown_of(namespace, document_ids, filters=filters, limit=limit)
        documents, clause = [(namespace, document_id) for document_id in document_ids], self._clause(filters)
        return [entry.row for entry in self.index.view.documents(documents, clause or EVERYTHING, limit=limit)]

    def _clause(self, filters: Filters) -> Clause | None:
        """Return the filters for the index; None if only FULLTEXT can apply them. Without MySQL others wait for texts."""
        clause = clause_of(filters)
        return EVERYTHING if clause is None and not self.index.is_current else clause


def _groups(words: QueryWords) -> list[dict[str, float]]:
    """Return the tokens with their worth, in groups of which the best counts: phrases and ways of several terms count by
    their terms, terms side by side at half by the rarest, as most chunks with it have it elsewhere."""
    groups: list[dict[str, float]] = []
    for tokens in words.tokens.values():
        for ways in words.weighed.units:
            worth = [dict(_worth(run, value, words, tokens) for run, value in way.items()) for way in ways]
            if all(len(way) == 1 for way in worth):
                best: dict[str, float] = {}
                for token, value in chain.from_iterable(way.items() for way in worth):
                    best[token] = max(value, best.get(token, 0.0))
                groups.append(best)
            else:
                groups += ({token: value} for way in worth for token, value in way.items())
    return [group for group in groups if any(group.values())]


def _worth(run: Run, value: float, words: QueryWords, tokens: Mapping[str, str]) -> tuple[str, float]:
    if len(run) == 1:
        return tokens[run[0]], value
    return tokens[min(run, key=lambda term: words.frequency.get(term, 0))], value / 2
