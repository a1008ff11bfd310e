"""When an empty answer is none."""

from __future__ import annotations

import pytest

from api_gateway.asking import is_unanswered


def answer(channels: str, lost: str, *, chunks: int = 0):
    """An answer for which these channels were asked, and on the way to which these parts were lost."""
    degradations = [{"part": part, "code": "timeout", "detail": "late"} for part in lost.split()]
    return {
        "status": "succeeded",  # whatever became of it
        "query": {"channels": channels.split()},
        "chunks": [{}] * chunks,
        "stats": {"degradations": degradations},
    }


class DescribeAnAnswer:
    @pytest.mark.parametrize(
        ("channels", "lost", "unanswered"),
        [
            ("keyword semantic", "", False),  # nothing was found
            ("keyword semantic", "semantic", False),  # nothing was found by the other one
            ("keyword semantic", "keyword semantic", True),
            ("keyword semantic", "rerank keyword semantic", True),
            ("keyword semantic", "hydrate", True),  # found, and cannot be read
            ("keyword semantic", "answer", True),
            ("keyword semantic", "rerank context", False),
            ("", "", False),  # small talk: nothing was asked
            ("", "rewrite", False),
        ],
    )
    def it_is_none_if_nothing_could_have_filled_it(self, channels, lost, unanswered):
        assert is_unanswered(answer(channels, lost)) is unanswered

    @pytest.mark.parametrize("lost", ["keyword semantic", "hydrate", "answer"])
    def it_is_one_if_it_holds_anything(self, lost):
        assert not is_unanswered(answer("keyword semantic", lost, chunks=1))
