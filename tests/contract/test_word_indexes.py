"""The contract of the engines that find chunks by words, checked for both on the real stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, edit_chunks
from pipeline.database.unit_of_work import reading
from pipeline.keyword import fulltext_store
from pipeline.keyword.dictionary import Lexicon
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.keyword.matching import FieldWeights
from pipeline.keyword.query_words import QueryWords, WordIndex, words_of
from pipeline.keyword.terms import query_terms, tokenizer_of
from pipeline.records import ChunkId, DocumentId, Filters, Namespace, Scope
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.support.corpora.animals import chunk_of
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host

pytestmark = [pytest.mark.stack, pytest.mark.own_databases]

NIGHT = {"tags": ("night",), "published_at": datetime(2026, 5, 1, tzinfo=UTC)}
TEXTS = {
    "hunters": "Foxes hunt. A fox hunts at night.",
    "one": "A fox sleeps all day.",
    "part": "Order PPR-9087 today.",
    "pressure": "高血压患者应当少吃盐。",
    "salt": "Hypertension calls for less salt.",
}


@pytest.fixture(scope="module")
def use(use_alone: Resources) -> Resources:
    """Connections to databases of the module's own: the indexer of a host indexes every tenant that it finds."""
    return use_alone


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a host, which keeps the indexes of the tenants of earlier tests."""
    return tmp_path_factory.mktemp("host")


@pytest.fixture
def corner(use: Resources, tenant, namespace: Namespace) -> Corner:
    corner = Corner(use, tenant, namespace)
    corner.fill(TEXTS, {"hunters": NIGHT})
    return corner


class WordIndexContract:
    """The promises of both engines. A subclass has a fixture ``open_index``: the index of a corner in its present state."""

    def words(self, corner: Corner, index: WordIndex, text: str) -> QueryWords:
        return words_of(index, text, Lexicon(), tenant_id=corner.tenant, namespaces=[corner.namespace])

    def best(self, corner: Corner, index: WordIndex, text: str, filters: Filters | None = None) -> dict[ChunkId, float]:
        """The scores of the candidates, best first."""
        words = self.words(corner, index, text)
        proposed = index.candidates(words, filters=filters or Filters(), pool=10)
        scores = words.score(proposed.rows, FieldWeights())
        return dict(sorted(scores.items(), key=lambda pair: -pair[1]))

    def tokens(self, corner: Corner, text: str) -> list[str]:
        return list(tokenizer_of(Scope(tenant_id=corner.tenant, namespace=corner.namespace)).tokens(query_terms(text)))

    def it_counts_the_chunks_of_each_namespace_that_exists(self, corner, open_index):
        index = open_index(corner)
        [(name, size)] = index.sizes([corner.namespace, Namespace("nowhere")]).items()
        assert (name, size.chunk_count) == (corner.namespace, len(TEXTS))
        assert size.term_count == sum(len(row.terms.split()) for row in index.rows(self.every(corner)))

    def it_counts_the_chunks_that_hold_a_word(self, corner, open_index):
        index, tokens = open_index(corner), self.tokens(corner, "fox salt unicorn")
        found = index.frequencies(tokens, index.sizes([corner.namespace]))
        assert [found.get(token, 0) for token in tokens] == [2, 1, 0]
        assert tokens[2] not in found
        assert list(index.existing(tokens)) == tokens[:2]
        assert list(index.existing([])) == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("foxes hunt", ["hunters", "one"]),
            ("高血压", ["pressure"]),
            ("ppr9087", ["part"]),
            ("sleepp", ["one"]),
            ("unicorn", []),
            (" ".join(["fox", *(f"unheard{number}" for number in range(200))]), ["hunters", "one"]),
            ("", []),
        ],
    )
    def it_proposes_those_that_bm25_ranks_first(self, corner, open_index, text, expected):
        found = self.best(corner, open_index(corner), text)
        assert list(found) == [chunk_of(corner, name) for name in expected]

    def it_applies_filters_to_candidates_and_documents(self, corner, open_index):
        index, night = open_index(corner), Filters(tags=("night",))
        assert list(self.best(corner, index, "fox", night)) == [chunk_of(corner, "hunters")]
        rows = index.shown_of(corner.namespace, [DocumentId("one")], filters=Filters(), limit=5)
        assert [row.chunk_id for row in rows] == [chunk_of(corner, "one")]
        assert index.shown_of(corner.namespace, [DocumentId("one")], filters=night, limit=5) == []

    def it_reads_the_rows_of_chunks(self, corner, open_index):
        index, every = open_index(corner), self.every(corner)
        assert {row.chunk_id for row in index.rows(every)} == set(every)
        assert index.rows([]) == []

    def it_knows_nothing_of_other_tenants(self, corner, open_index, use):
        other = Corner(use, make_tenant(use)[0], corner.namespace)
        other.fill({"theirs": "Foxes of another tenant, and a unicorn."})
        index, theirs = open_index(corner), open_index(other)
        assert list(self.best(other, theirs, "fox")) == [chunk_of(other, "theirs")]
        assert len(self.best(corner, index, "fox")) == 2
        assert index.rows(self.every(other)) == []
        [unicorn] = self.tokens(other, "unicorn")
        assert dict(index.frequencies([unicorn], index.sizes([corner.namespace]))) == {}

    def it_sees_every_change(self, corner, open_index):
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "one"), text="A stork stands.")], corner.use)
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "salt"), enabled=False)], corner.use)
        delete_document(corner.tenant, corner.namespace, DocumentId("part"), corner.use)
        corner.fill({"pressure": "Storks and foxes."})
        index = open_index(corner)
        assert len(self.best(corner, index, "stork")) == 2
        assert [len(self.best(corner, index, text)) for text in ("salt", "ppr9087", "高血压", "fox")] == [0, 0, 0, 2]
        tokens = self.tokens(corner, "fox salt")
        assert dict(index.frequencies(tokens, index.sizes([corner.namespace]))) == {tokens[0]: 2}
        assert index.sizes([corner.namespace])[corner.namespace].chunk_count == 3

    def every(self, corner: Corner) -> list[ChunkId]:
        return [
            ChunkId(row.chunk_id) for row in corner.execute("SELECT chunk_id FROM chunks WHERE tenant_id = :tenant")
        ]


class DescribeFullText(WordIndexContract):
    @pytest.fixture
    def open_index(self, use: Resources) -> Iterator[object]:
        with reading(use.mysql) as connection:
            yield lambda corner: KeywordIndex(connection, corner.tenant)


class DescribeFullTextWithASample(DescribeFullText):
    """As in a namespace of many chunks, where common words are counted in some of them."""

    @pytest.fixture(autouse=True)
    def _many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fulltext_store, "_EXACT_CHUNKS", 1)

    def it_estimates_common_words_counts_rare_ones_and_bounds_the_rest(self, corner, open_index, monkeypatch):
        corner.fill({f"d{n}": f"A stork stands. {'Red.' if n % 2 else 'Grey.'}" for n in range(45)})
        monkeypatch.setattr(fulltext_store, "_SAMPLE", 25)
        index, tokens = open_index(corner), self.tokens(corner, "stork red salt unicorn")
        sizes = index.sizes([corner.namespace])
        storks, reds, salts, unicorns = (index.frequencies(tokens, sizes).get(token, 0) for token in tokens)
        assert 36 <= storks <= 50
        assert 11 <= reds <= 33
        assert (salts, unicorns) == (1, 0)
        monkeypatch.setattr(fulltext_store, "_COUNTED_TOKENS", 1)
        assert [index.frequencies(tokens, sizes)[token] for token in tokens[2:]] == [1, 4]
        assert next(iter(self.best(corner, index, "salt stork"))) == chunk_of(corner, "salt")


class DescribeTheIndexOfThisHost(WordIndexContract):
    @pytest.fixture
    def open_index(self, use: Resources, folder: Path) -> Iterator[object]:
        hosts: list[Host] = []
        with reading(use.mysql) as connection:

            def open_index(corner: Corner) -> WordIndex:
                hosts.append(Host(corner, folder) if not hosts else hosts[0])
                hosts[0].catch_up()
                return hosts[0].index_of(corner, lambda: KeywordIndex(connection, corner.tenant))

            yield open_index
        hosts[0].indexer.close()
