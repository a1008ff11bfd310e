from __future__ import annotations

import pytest

from pipeline.errors import LeaseLost, Misconfigured, StoreMisconfigured, StoreUnavailable
from pipeline.outages import raise_for_outage, replace_in_outage, tolerate_outage


class DescribeToleratingAnOutage:
    @pytest.mark.parametrize(
        ("error", "options", "leaves"),
        [
            (StoreUnavailable("away"), {}, False),
            (LeaseLost("taken"), {}, True),
            (LeaseLost("taken"), {"also": (LeaseLost,)}, False),
            (StoreMisconfigured("wrong"), {}, False),
            (StoreMisconfigured("wrong"), {"but": (Misconfigured,)}, True),
            (KeyError("bug"), {"also": (LeaseLost,)}, True),
        ],
    )
    def it_lets_every_other_error_leave(self, error, options, leaves):
        logged: list[str] = []

        def block() -> None:
            with tolerate_outage(lambda event, **_: logged.append(event), "not_written", **options):
                raise error

        if leaves:
            with pytest.raises(type(error)):
                block()
        else:
            block()
        assert logged == [] if leaves else ["not_written"]

    @pytest.mark.parametrize("detail", [False, True])
    def it_logs_the_code_and_the_sentence_where_that_is_asked(self, detail):
        logged: list[dict[str, object]] = []
        with tolerate_outage(lambda _, **fields: logged.append(fields), "event", detail=detail, job_id="j"):
            raise StoreUnavailable("MySQL: away")
        assert logged == [{"code": "store_unavailable", "job_id": "j", **({"detail": "MySQL: away"} if detail else {})}]


class DescribeRaisingForAnOutage:
    @pytest.mark.parametrize("error", [StoreUnavailable("away"), TimeoutError()])
    def it_raises_another_error_without_the_cause(self, error):
        with (
            pytest.raises(ValueError, match="instead") as raised,
            raise_for_outage(lambda _: ValueError("instead"), also=(TimeoutError,)),
        ):
            raise error
        assert raised.value.__suppress_context__

    def it_lets_other_errors_pass(self):
        with pytest.raises(KeyError), raise_for_outage(lambda _: ValueError("instead")):
            raise KeyError("bug")


class DescribeReplacingARead:
    def it_gives_another_value_only_in_an_outage_and_only_if_there_is_one(self):
        def away() -> str:
            raise StoreUnavailable("away")

        assert replace_in_outage(lambda: "read", lambda _: "last known") == "read"
        assert replace_in_outage(away, lambda error: error.code) == "store_unavailable"
        with pytest.raises(StoreUnavailable):
            replace_in_outage(away, lambda _: None)
        with pytest.raises(KeyError):
            replace_in_outage(lambda: {}["bug"], lambda _: "last known")
