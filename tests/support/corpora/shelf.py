"""A tenant with a few documents, for who asks from outside: adapters, agents, the pages of docs/."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from chordwise import Chordwise
from pipeline.resources import Resources
from tests.conftest import make_tenant

ENERGY, DRINKS, HIDDEN = "energy", "drinks", "hidden"
WIND = "A wind turbine drives a generator through a gearbox."
_DOCUMENTS = {
    ENERGY: {
        "solar": ("Solar power", "Photovoltaic panels turn sunlight into direct current.", {"unit": "a"}),
        "wind": ("Wind power", WIND, {"unit": "b"}),
        "water": ("Water power", "A turbine in a dam turns falling water into electric power.", {"unit": "a"}),
        "waves": ("Wave power", "Floating bodies turn the motion of waves into electric power.", {"unit": "b"}),
        "steam": ("Steam power", "Steam from a boiler drives the turbine of a power station.", {"unit": "a"}),
    },
    DRINKS: {"tea": ("茶的冲泡", "绿茶是不发酵茶，冲泡时水温以八十度为宜。", {})},
    HIDDEN: {"secret": ("Wind power secret", "The turbine of the secret wind generator is for nobody to see.", {})},
}


class Shelf(NamedTuple):
    """The address of the gateway and the key of the tenant."""

    url: str
    key: str


@contextmanager
def shelf(use: Resources) -> Iterator[Shelf]:
    """A new tenant whose documents can be found."""
    found = Shelf(os.environ["CHORDWISE_URL"], make_tenant(use)[1])
    with Chordwise(*found) as client:
        for namespace, documents in _DOCUMENTS.items():
            sent = client.ingest(
                (
                    {"document_id": name, "title": title, "text": text, "metadata": metadata, "type": "note"}
                    for name, (title, text, metadata) in documents.items()
                ),
                namespace=namespace,
            )
            done = client.wait(sent, timeout=60)
            assert done.status == "succeeded", done
    yield found
