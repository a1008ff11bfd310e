"""docs/getting-started.md: every block is run in its order by a new tenant, in another folder than the checkout's."""

from __future__ import annotations

import json

from tests.conftest import make_tenant
from tests.support.repository.guides import blocks
from tests.support.repository.reading import Reader

PAGE = "docs/getting-started.md"


def it_leads_from_nothing_to_the_same_answer_at_every_door(use, tmp_path):
    reader = Reader(tmp_path, make_tenant(use)[1], elsewhere=True)
    [program] = blocks(PAGE, "python")
    (tmp_path / "elsewhere/ask.py").write_text(program.text, encoding="utf-8")
    printed = [reader.types(block.text, knowing=False) for block in blocks(PAGE, "sh")]
    up, _, ingested, answered, key, queried, asked, down = printed
    assert "compose/local.py up" in up
    assert "3 succeeded, 0 failed, 3 chunks" in ingested
    assert "router.txt" in answered.splitlines()[1]
    assert key.startswith("CHORDWISE_API_KEY=cw_")
    answer = json.loads(queried)
    assert answer["chunks"][0]["document_id"] == "router.txt"
    assert "five seconds" in answer["context"]["text"]
    assert asked.startswith("router.txt ")
    assert "five seconds" in asked
    assert "compose/local.py down" in down
