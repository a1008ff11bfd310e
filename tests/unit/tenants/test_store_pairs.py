"""Settings of further pairs of stores, and the resources on them."""

from __future__ import annotations

import pytest

from pipeline.database.engines import postgres_engine
from pipeline.errors import Misconfigured
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import load

PAIR = (
    '{"b": {"mysql_url": "mysql+pymysql://chordwise@b.test/c", "mysql_password": "p@ss",'
    ' "postgres_url": "postgresql+psycopg://chordwise:x@b.test/c"}}'
)


class DescribeStorePairs:
    """`CHORDWISE_STORE_PAIRS`."""

    def it_knows_one_pair_by_default(self):
        assert load().pair_names == ("default",)

    def it_quotes_a_pairs_password_into_its_url(self):
        moved = load({"store_pairs": PAIR}).of_pair("b")
        assert moved.mysql_url.get_secret_value() == "mysql+pymysql://chordwise:p%40ss@b.test/c"
        assert moved.postgres_url.get_secret_value().endswith("@b.test/c")

    def it_gives_a_replica_the_password_of_its_pair_alone(self):
        replica = "mysql+pymysql://chordwise@copy.test/c"
        of_pair = PAIR.replace('"mysql_password"', f'"mysql_replica_url": "{replica}", "mysql_password"')
        config = load({"store_pairs": of_pair, "mysql_replica_url": replica, "mysql_password": "own@"})
        for settings, password in ((config, "own%40"), (config.of_pair("b"), "p%40ss")):
            url = settings.mysql_replica_url.get_secret_value()
            assert url == f"mysql+pymysql://chordwise:{password}@copy.test/c"
        assert load({"store_pairs": PAIR, "mysql_replica_url": replica}).of_pair("b").mysql_replica_url is None

    def it_reaches_the_server_behind_its_own_pooler_alone(self):
        direct = "postgresql+psycopg://chordwise@itself.test/c"
        of_pair = PAIR.replace('"mysql_password"', f'"postgres_direct_url": "{direct}", "mysql_password"')
        there = load({"store_pairs": of_pair, "postgres_direct_url": "postgresql+psycopg://c@own.test/c"}).of_pair("b")
        assert postgres_engine(there, direct=True).url.host == "itself.test"
        without = load({"store_pairs": PAIR, "postgres_direct_url": direct}).of_pair("b")
        assert postgres_engine(without, direct=True).url.host == "b.test"

    @pytest.mark.parametrize(
        ("value", "sentence"),
        [
            ("{", "must be a JSON object"),
            ("[]", "must be a JSON object"),
            (PAIR.replace('"b"', '"default"'), "names a pair"),
            (PAIR.replace('"b"', '"B b"'), "names a pair"),
            (PAIR.replace("mysql+pymysql", "http"), "mysql_url of pair b must begin with"),
            (PAIR.replace("mysql_password", "secret"), "STORE_PAIRS"),
            ('{"b": {}}', "STORE_PAIRS"),
        ],
    )
    def it_refuses_what_is_no_pair_without_showing_it(self, value, sentence):
        with pytest.raises(Misconfigured, match="STORE_PAIRS") as refused:
            load({"store_pairs": value})
        assert sentence in str(refused.value)
        assert "p@ss" not in str(refused.value)

    def it_refuses_a_pair_that_is_not_configured(self):
        with pytest.raises(Misconfigured, match="no pair c"):
            load({"store_pairs": PAIR}).of_pair("c")


class DescribePlacedResources:
    """Resources of a tenant's pair of stores."""

    def it_is_the_same_object_with_a_single_pair(self):
        use = Resources(load())
        assert use.placed(TenantId("anyone")) is use
        assert use.pairs == [use]

    def it_shares_everything_but_the_stores(self):
        use = Resources(load({"store_pairs": PAIR}))
        there = use.of_pair("b")
        assert there is use.of_pair("b")
        assert there.redis is use.redis
        assert there.spaces is use.spaces
        assert there.mysql.url.host == there.postgres.url.host == "b.test"
        assert there.breakers is not use.breakers
        assert there.bulkhead is not use.bulkhead
        use.close()
