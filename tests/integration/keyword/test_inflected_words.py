"""German and French words are found in another form than the document has, by both engines of the keyword channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from tests.integration.ingestion.test_ingest_flow import Corner, _upload
from tests.support.stacks.keyword_index import Host

TEXTS = {
    "flats": "Die Mieter können kündigen, wenn die Wohnungen nicht bewohnbar sind und der Vermieter nichts tut.",
    "house": "Das Haus am Fluss ist im Winter kalt, und es wird nicht mehr geheizt, weil der Ofen fehlt.",
    "hotel": "L'hôtel est dans la ville, et les systèmes de chauffage ne sont pas réparés pour cette saison.",
    "poet": "The poets of the town lay down their pens and were not seen again for a whole year.",
    "flood": "河水上涨，城里的房屋被淹。",
}
FOUND = {
    "Wohnung des Mieters": "flats",
    "Kündigungen": "flats",
    "Häuser": "house",
    "hôtels": "hotel",
    "le système réparé": "hotel",
    "poet": "poet",
    "房屋": "flood",
}


@pytest.fixture
def corner(use_alone: Resources, tenant: TenantId, namespace: Namespace) -> Corner:
    found = Corner(use_alone, tenant, namespace)
    found.ingest(*(_upload(name, body) for name, body in TEXTS.items()))
    return found


@pytest.mark.parametrize("engine", ["mysql", "tantivy"])
def it_finds_words_in_another_form(engine: str, corner: Corner, tmp_path: Path) -> None:
    host = Host(corner, tmp_path)
    if engine == "tantivy":
        host.catch_up()
    else:
        host.channel = KeywordChannel(corner.use.mysql)
    assert {question: host.documents(question)[:1] for question in FOUND} == {
        question: [document] for question, document in FOUND.items()
    }
    host.indexer.close()
