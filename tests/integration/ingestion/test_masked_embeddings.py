"""Texts sent to an embedding service: questions and passages as they are, or without personal data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pipeline.ingestion.make_vectors import vectors_of
from pipeline.metrics.meter_store import read_totals
from pipeline.privacy.redaction import MaskedKind
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose
from tests.support.clients.openai_clients import embedder_on
from tests.support.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.own_databases

PASSAGE, MASKED = "Call Li at 13812345678 or li@example.com", "Call Li at [phone] or [email]"


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as found:
        yield found


def masking(use: Resources, *kinds: MaskedKind) -> Resources:
    update = {"mask_embeddings": True, "mask_kinds": kinds or tuple(MaskedKind)}
    return replace(use, settings=use.settings.model_copy(update=update))


def sent(server: OpenAIServer) -> list[str]:
    return [text for request in server.seen("embeddings") for text in request["input"]]


class DescribeEmbeddings:
    def it_sends_the_text_as_it_is_unless_told_otherwise(self, use, tenant: TenantId, server):
        with embedder_on(server) as embedder:
            vectors_of(tenant, [PASSAGE], use, purpose=Purpose.INGEST, embedder=embedder)
        assert sent(server) == [PASSAGE]

    @pytest.mark.parametrize("purpose", list(Purpose))
    def it_masks_for_every_purpose_alike(self, use, tenant, server, purpose):
        other = masking(use)
        with embedder_on(server) as embedder:
            found = vectors_of(tenant, [PASSAGE, MASKED], other, purpose=purpose, embedder=embedder)
        assert set(sent(server)) == {MASKED}
        assert np.array_equal(found[0], found[1])
        other.close()

    def it_masks_the_kinds_that_are_chosen(self, use, tenant, server):
        other = masking(use, MaskedKind.PHONE)
        with embedder_on(server) as embedder:
            vectors_of(tenant, [PASSAGE], other, purpose=Purpose.QUERY, embedder=embedder)
        assert sent(server) == ["Call Li at [phone] or li@example.com"]
        other.close()

    def it_does_not_mistake_a_vector_of_before_for_one_of_after(self, use, tenant, server):
        other = masking(use)
        with embedder_on(server) as embedder:
            vectors_of(tenant, [PASSAGE], use, purpose=Purpose.INGEST, embedder=embedder)
            vectors_of(tenant, [PASSAGE], other, purpose=Purpose.INGEST, embedder=embedder)
        assert sent(server) == [PASSAGE, MASKED]
        other.close()

    def it_counts_what_the_service_was_asked(self, use, tenant, server):
        field = ("chordwise_model_requests", "", ("embed_edit",))
        use.meter.flush()
        before = read_totals(use.redis).get(field, 0.0)
        with embedder_on(server) as embedder:
            vectors_of(tenant, ["a text nobody has sent"], use, purpose=Purpose.EDIT, embedder=embedder)
        use.meter.flush()
        assert read_totals(use.redis)[field] == before + 1
