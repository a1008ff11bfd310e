"""The keyword index of a host: the answers of FULLTEXT with BM25, and every change of MySQL at once or soon."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from chordwise.contract.dictionary import RuleOut
from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.database.unit_of_work import reading, unit_of_work
from pipeline.ingestion.reingest import roll_back
from pipeline.keyword.dictionary import EVERY_NAMESPACE, Dictionary
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.keyword.matching import FieldWeights
from pipeline.keyword_index.local_index_store import folder_of
from pipeline.maintenance.erase import delete_namespace
from pipeline.maintenance.verify import recount
from pipeline.records import Chunking, Comparison, Compound, DocumentId, Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Namespaces
from tests.conftest import make_tenant
from tests.integration.keyword.test_keyword_channel import query
from tests.support.corpora.animals import ANIMALS, QUESTIONS, animals, chunk_of, same
from tests.support.corpora.uploads import upload
from tests.support.stacks.corner import Corner
from tests.support.stacks.keyword_index import Host

pytestmark = pytest.mark.own_databases

_SHORT = Chunking(max_tokens=64)
FILTERS = (
    Filters(tags=("animal",)),
    Filters(tags=("animal", "night")),
    Filters(type="tale"),
    Filters(author="Æsop"),
    Filters(start=datetime(2026, 1, 1, tzinfo=UTC)),
    Filters(start=datetime(2025, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=UTC)),
    Filters(story_time=10),
    Filters(metadata={"topic": "a"}),
    Filters(metadata={"deep": {"list": 2}}),
    Filters(where=Comparison(key="unit", operator="eq", value="x y")),
    Filters(where=Comparison(key="unit", operator="ne", value="x y")),
    Filters(where=Comparison(key="number", operator="gte", value=2)),
    Filters(
        where=Compound(
            operator="or",
            parts=(
                Comparison(key="number", operator="in", value=(1, 7)),
                Comparison(key="unit", operator="nin", value=("x y",)),
            ),
        )
    ),
)


@pytest.fixture
def corner(use: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    return animals(use, tenant, namespace)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all tests, as each of them has a tenant of its own."""
    return tmp_path_factory.mktemp("keyword-index")


@pytest.fixture
def host(corner: Corner, root: Path) -> Iterator[Host]:
    found = Host(corner, root)
    found.catch_up()
    assert found.method() == "index"
    yield found
    found.indexer.close()


@contextmanager
def statements(use: Resources) -> Iterator[list[str]]:
    """Those that are sent to MySQL meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(use.mysql, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(use.mysql, "before_cursor_execute", note)


def asked_of(corner: Corner, question: str, **options: Any) -> Any:
    return KeywordChannel(corner.use.mysql).recall(query(corner, question, **options))


class DescribeAnswers:
    def it_gives_those_that_fulltext_gives(self, host, corner):
        for fields in (FieldWeights(), FieldWeights(title=3, body=0.5), FieldWeights(body=0)):
            for question in QUESTIONS:
                assert same(host.ask(question, fields=fields), asked_of(corner, question, fields=fields)), question

    def it_reads_the_dictionary_as_fulltext_does(self, host, corner):
        said = Dictionary(
            synonyms=(("wolf", "red fox"), ("高血压", "hunt")),
            phrases=("red foxes", "at night"),
            rules=(RuleOut(when="hunt", namespace=corner.namespace, document_id="order", boost=2.5),),
        )
        with unit_of_work(corner.use.mysql) as work:
            Dictionaries(work.connection, corner.tenant).replace(EVERY_NAMESPACE, said)
        fresh = Host(corner, host.root)
        for question in QUESTIONS:
            assert same(fresh.ask(question), asked_of(corner, question)), question

    def it_applies_filters_as_mysql_does(self, host, corner):
        corner.ingest(
            upload("one", "Foxes hunt.", tags=("animal", "night"), type="tale", metadata={"topic": ["a", "b"]}),
            upload("two", "狐狸 foxes", tags=("animal",), author="Æsop", metadata={"unit": "x y", "number": 1.0}),
            upload("three", "Foxes.", published_at=datetime(2026, 1, 2, tzinfo=UTC), metadata={"number": 3}),
            upload("four", "A fox.", story_time=11, metadata={"deep": {"list": [1, 2]}, "number": "2"}),
            upload("five", "Fox and fox.", story_time=10, published_at=datetime(2025, 6, 1, tzinfo=UTC)),
        )
        host.catch_up()
        for filters in FILTERS:
            found, expected = host.ask("foxes", filters=filters), asked_of(corner, "foxes", filters=filters)
            assert found.chunk_ids == expected.chunk_ids, filters
            assert 0 < len(found.chunk_ids) < 8, filters

    @pytest.mark.thorough
    def it_scores_what_another_channel_found(self, host, corner):
        asked = query(corner, "red foxes at night")
        every = [chunk_of(corner, name) for name in ("foxes", "order", "salt")]
        assert host.channel.score(asked, every) == pytest.approx(KeywordChannel(corner.use.mysql).score(asked, every))
        corner.ingest(upload("late", "A red fox came late."))
        late = chunk_of(corner, "late")
        assert host.channel.score(asked, [late])[late] > 0

    def it_asks_mysql_nothing_for_a_query_that_says_what_its_namespaces_show(self, host, corner):
        host.ask("warm up")  # the dictionary
        with reading(corner.use.mysql) as connection:
            shown = Namespaces(connection, corner.tenant).revisions([corner.namespace])[corner.namespace].stamp
        asked = replace(query(corner, "red foxes hunt"), stamps={corner.namespace: shown})
        expected = asked_of(corner, "red foxes hunt")
        every = list(expected.chunk_ids)
        with statements(corner.use) as sent:
            assert same(host.channel.recall(asked), expected)
            scored = host.channel.score(asked, every)
            told = host.channel.indexed(asked, every)
        assert sent == []
        assert scored == pytest.approx(dict(zip(every, expected.scores, strict=True)))
        assert set(told) == set(every)

    @pytest.mark.thorough
    def it_answers_several_namespaces(self, host, corner, use):
        beside = Corner(use, corner.tenant, Namespace("beside"))
        beside.ingest(upload("more", "Foxes and wolves hunt at night, red as they are."))
        both = (corner.namespace, beside.namespace)
        host.catch_up()
        for question in QUESTIONS:
            found, expected = host.ask(question, namespaces=both), asked_of(corner, question, namespaces=both)
            assert same(found, expected), question


class DescribeChanges:
    """Each is searched before the indexer has seen it, when MySQL supplies the changes, and afterwards."""

    @pytest.fixture
    def corner(self, corner: Corner) -> Corner:
        """A namespace of which a few documents are a small share."""
        corner.ingest(replace(upload("gravel", "Gravel lies in the yard. " * 800), chunking=_SHORT))
        return corner

    def seen(self, host: Host, question: str, expected: list[str]) -> None:
        assert host.method() == "index"
        assert host.documents(question) == expected, "before the indexer"
        host.catch_up()
        assert host.documents(question) == expected, "after the indexer"

    def it_follows_uploads_replacements_edits_and_deletions(self, host, corner):
        corner.ingest(upload("late", "An owl came late. 猫头鹰"))
        self.seen(host, "owls", ["late"])
        assert host.documents("猫头鹰") == ["late"]
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "late"), text="Geese fly.")], corner.use)
        self.seen(host, "geese", ["late"])
        self.seen(host, "owls", [])
        corner.ingest(upload("hares", "Storks stand on one leg."))
        self.seen(host, "storks", ["hares"])
        assert host.documents("hares") == ["foxes"]
        edit_chunks(corner.tenant, [Edit(chunk_id=chunk_of(corner, "hares"), enabled=False)], corner.use)
        self.seen(host, "storks", [])
        delete_chunks(corner.tenant, [chunk_of(corner, "late")], corner.use)
        self.seen(host, "geese", [])
        delete_document(corner.tenant, corner.namespace, DocumentId("foxes"), corner.use)
        self.seen(host, "hares", [])

    def it_finds_no_chunk_that_holds_none_of_the_words(self, host, corner):
        corner.ingest(replace(upload("late", "An owl came late. " * 60 + "A stork came. " * 60), chunking=_SHORT))
        assert host.documents("owls")[:1] == ["late"]
        before = host.ask("owls")
        host.catch_up()
        assert before.chunk_ids == host.ask("owls").chunk_ids == asked_of(corner, "owls").chunk_ids
        assert len(before.chunk_ids) < len(host.ask("late storks").chunk_ids)

    @pytest.mark.thorough
    def it_finds_again_what_was_rolled_back(self, host, corner):
        corner.ingest(upload("hares", "Storks stand on one leg."))
        host.catch_up()
        ticket = roll_back(
            corner.tenant, corner.namespace, DocumentId("hares"), corner.use, request_id="r", notify=lambda _: None
        )
        assert ticket is not None
        corner.work(ticket)
        self.seen(host, "hares run", ["hares", "foxes"])

    @pytest.mark.thorough
    def it_forgets_a_namespace_that_was_made_anew(self, host, corner):
        delete_namespace(corner.tenant, corner.namespace, corner.use)
        corner.ingest(upload("hares", ANIMALS["hares"]))
        assert host.documents("foxes") == ["hares"], "before the indexer"
        host.catch_up()
        assert (host.method(), host.documents("foxes")) == ("index", ["hares"])

    @pytest.mark.thorough
    def it_answers_by_mysql_where_much_of_a_small_namespace_has_changed(self, host, corner):
        delete_document(corner.tenant, corner.namespace, DocumentId("gravel"), corner.use)
        host.catch_up()
        corner.ingest(upload("late", "An owl came late."))
        assert (host.method(), host.documents("owls")) == ("fulltext", ["late"])
        host.catch_up()
        assert (host.method(), host.documents("owls")) == ("index", ["late"])

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("count", "sentences", "least", "method"), [(1, 14_000, 1_200, "index"), (3, 9_000, 2_400, "fulltext")]
    )
    def it_finds_the_last_chunk_of_many_that_have_changed(self, host, corner, count, sentences, least, method):
        gravel = "Gravel lies in the yard. " * sentences
        late = [upload(f"late-{number}", f"{gravel} An owl came, {number}. 猫头鹰") for number in range(count)]
        corner.ingest(*(replace(entry, chunking=_SHORT) for entry in late))
        [chunks] = corner.execute("SELECT COUNT(*) FROM chunks WHERE tenant_id = :tenant AND document_id LIKE 'late-%'")
        assert chunks[0] > least
        expected = [f"late-{number}" for number in range(count)]
        for question in ("owls", "猫头鹰"):
            assert sorted(set(host.documents(question))) == expected, "before the indexer"
        assert host.method() == method
        host.catch_up()
        for question in ("owls", "猫头鹰"):
            assert sorted(set(host.documents(question))) == expected, "after the indexer"
        assert host.method() == "index"

    @pytest.mark.thorough
    def it_answers_by_mysql_what_has_changed_too_much(self, host, corner):
        corner.ingest(*(upload(f"many-{number}", f"Foxes {number}.") for number in range(210)))
        assert host.method() == "fulltext"
        host.catch_up()
        assert host.method() == "index"


class DescribeRecovery:
    def rebuilt(self, host: Host) -> None:
        host.catch_up()
        assert host.method() == "index"
        assert host.documents("hares run") == ["hares", "foxes"]

    def it_rebuilds_an_index_whose_folder_was_deleted(self, host, corner):
        shutil.rmtree(folder_of(host.root, corner.tenant))
        assert (host.method(), host.documents("hares run")) == ("fulltext", ["hares", "foxes"])
        self.rebuilt(host)

    def it_answers_alike_by_mysql_while_the_index_is_missing(self, host, corner):
        by_index = {question: host.ask(question) for question in QUESTIONS}
        shutil.rmtree(folder_of(host.root, corner.tenant))
        for question, expected in by_index.items():
            found = host.ask(question)
            assert (found.guard["method"], found.guard["may_be_short"]) == ("fulltext", False)
            assert same(found, expected), question

    @pytest.mark.thorough
    @pytest.mark.parametrize("suffix", ["store", "json"])
    def it_rebuilds_an_index_whose_files_are_truncated(self, host, corner, suffix):
        host.indexer.close()
        for file in folder_of(host.root, corner.tenant).glob(f"*.{suffix}"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        again = Host(corner, host.root)
        assert set(again.documents("hares run")) == {"hares", "foxes"}, "MySQL answers meanwhile"
        corner.ingest(upload("late", "An owl came late."))
        self.rebuilt(again)
        assert again.documents("owl") == ["late"]
        again.indexer.close()

    @pytest.mark.thorough
    def it_answers_by_mysql_over_damage_that_a_query_finds(self, host, corner):
        expected = asked_of(corner, "hares run")
        for file in folder_of(host.root, corner.tenant).glob("*.store"):
            file.write_bytes(bytes(byte ^ 0x55 for byte in file.read_bytes()[:-200]) + file.read_bytes()[-200:])
        reader = Host(corner, host.root)
        assert same(reader.ask("hares run"), expected)
        assert reader.method() == "fulltext"
        self.rebuilt(host)
        assert reader.method() == "index"

    @pytest.mark.thorough
    def it_stays_in_use_after_changes_of_dictionaries_and_sizes(self, host, corner):
        said = Dictionary(synonyms=(("wolf", "red fox"),))
        with unit_of_work(corner.use.mysql) as work:
            dictionaries = Dictionaries(work.connection, corner.tenant)
            for name in (EVERY_NAMESPACE, corner.namespace):
                dictionaries.replace(name, said)
            dictionaries.delete(corner.namespace)
        assert host.method() == "index"
        corner.execute("UPDATE namespaces SET chunk_count = chunk_count + 1 WHERE tenant_id = :tenant LIMIT 1")
        assert recount(corner.tenant, corner.namespace, corner.use, repair=True).repaired == 1
        assert host.method() == "index"

    def it_rebuilds_an_index_behind_the_change_log(self, host, corner):
        corner.ingest(upload("late", "An owl came late."))
        corner.execute("DELETE FROM publications WHERE tenant_id = :tenant")
        assert host.method() == "fulltext"
        host.catch_up()
        assert host.documents("owl") == ["late"]

    @pytest.mark.thorough
    def it_builds_anew_after_mysql_was_restored_from_a_backup(self, host, corner):
        self.restore(corner)
        host.catch_up()
        assert host.documents("hares run") == ["hares", "foxes"]
        assert host.method() == "index"

    def restore(self, corner: Corner) -> None:
        """The revision of a backup comes again, made at another moment, with other changes."""
        corner.ingest(upload("late", "An owl came late."))
        with unit_of_work(corner.use.mysql) as work:
            for table in ("namespaces", "publications"):
                work.connection.execute(
                    text(f"UPDATE {table} SET revised_at = '2026-01-01 00:00:00.5' WHERE tenant_id = :tenant"),
                    {"tenant": corner.tenant},
                )


class DescribeErasure:
    def it_leaves_nothing_of_a_tenant_on_the_disk(self, host, corner, use):
        other = Corner(use, make_tenant(use)[0], Namespace("other"))
        other.ingest(upload("secret", "Zanzibar is the password. 桑给巴尔"))
        host.catch_up()
        assert self.holding(host, "Zanzibar")
        other.ingest(upload("more", "Zanzibar once more."))
        host.indexer.step()
        delete_namespace(other.tenant, other.namespace, other.use)
        host.catch_up()
        assert not self.holding(host, "Zanzibar")
        assert not self.holding(host, "桑给巴尔")

    def holding(self, host: Host, words: str) -> list[Path]:
        return [path for path in host.root.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]


class DescribeMerging:
    @pytest.mark.thorough
    def it_gives_the_same_after_many_commits(self, host, corner):
        for number in range(12):  # eight segments are merged into one
            corner.ingest(upload("hares", f"Hares run from foxes {number} times."))
            host.catch_up()
        assert same(host.ask("hares run"), asked_of(corner, "hares run"))
        assert host.documents("11 times") == ["hares"]
