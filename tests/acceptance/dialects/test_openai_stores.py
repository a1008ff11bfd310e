"""The official OpenAI client, with only `base_url` and `api_key` set: files into a vector store, and found again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest
from openai.types import VectorStore

from tests.support.clients.failing import ask_channels_that_fail
from tests.support.clients.openai_dialect import asked_anew, base_url, client_of, named

FILES = {
    "reset.md": "# Reset\n\nHold the red button of the controller for ten seconds to reset it.",
    "battery.txt": "The battery of the controller lasts two years and is replaced from behind.",
    "重置.txt": "要重置控制器，请按住红色按钮十秒钟。电池可以使用两年。",
}


@pytest.fixture(scope="module")
def sdk(use) -> Iterator[openai.OpenAI]:
    with client_of(use) as client:
        yield client


@pytest.fixture(scope="module")
def filled(sdk) -> VectorStore:
    """A store with three files, put there together."""
    store = sdk.vector_stores.create(name="Manuals", metadata={"team": "support"})
    batch = sdk.vector_stores.file_batches.upload_and_poll(
        store.id, files=[named(name, text) for name, text in FILES.items()]
    )
    assert batch.status == "completed"
    assert batch.file_counts.model_dump() == {
        "completed": 3,
        "failed": 0,
        "in_progress": 0,
        "cancelled": 0,
        "total": 3,
    }
    return store


class DescribeVectorStores:
    def it_finds_what_a_batch_uploaded(self, sdk, filled):
        found = sdk.vector_stores.search(filled.id, query="How do I reset the controller?").data
        assert found[0].filename == "reset.md"
        assert "red button" in found[0].content[0].text
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert all(0 <= each.score <= 1 for each in found)

    def it_finds_chinese_text(self, sdk, filled):
        found = sdk.vector_stores.search(filled.id, query="怎么重置控制器？").data
        assert found[0].filename == "重置.txt"
        assert "红色按钮" in found[0].content[0].text

    def it_counts_and_describes_itself(self, sdk, filled):
        store = sdk.vector_stores.retrieve(filled.id)
        assert (store.name, store.metadata, store.status) == ("Manuals", {"team": "support"}, "completed")
        assert store.file_counts.completed == store.file_counts.total == 3
        assert store.usage_bytes == sum(len(text.encode()) for text in FILES.values())

    def it_takes_a_list_of_queries_and_gives_each_passage_once(self, sdk, filled):
        page = sdk.vector_stores.search(filled.id, query=["reset the controller", "how long does the battery last"])
        assert page.model_extra["search_query"] == ["reset the controller", "how long does the battery last"]
        names = [each.filename for each in page.data]
        assert {"reset.md", "battery.txt"} <= set(names)
        assert len(names) == len(set(names))

    def it_limits_the_results(self, sdk, filled):
        assert len(sdk.vector_stores.search(filled.id, query="controller battery", max_num_results=1).data) == 1

    def it_leaves_out_what_scores_below_the_threshold(self, sdk, filled):
        query = asked_anew("reset the controller with the red button")
        everything = sdk.vector_stores.search(filled.id, query=query).data
        limit = everything[0].score
        assert everything[-1].score < limit
        kept = sdk.vector_stores.search(filled.id, query=query, ranking_options={"score_threshold": limit}).data
        assert [each.file_id for each in kept] == [each.file_id for each in everything if each.score >= limit]

    @pytest.mark.parametrize("ranker", ["none", "auto", "default-2024-11-15"])
    def it_takes_every_ranker(self, sdk, filled, ranker):
        found = sdk.vector_stores.search(
            filled.id, query=asked_anew("reset red button"), ranking_options={"ranker": ranker}, rewrite_query=True
        )
        assert found.data[0].filename == "reset.md"

    def it_weighs_words_against_meaning(self, sdk, filled):
        weights = {"hybrid_search": {"embedding_weight": 0.0, "text_weight": 1.0}}
        found = sdk.vector_stores.search(
            filled.id, query="battery", ranking_options=weights, extra_headers={"Cache-Control": "no-cache"}
        )
        assert [each.filename for each in found.data] == ["battery.txt"]  # by words alone the others are not found

    def it_is_changed_field_by_field(self, sdk):
        store = sdk.vector_stores.create(
            name="先", metadata={"a": "1"}, expires_after={"anchor": "last_active_at", "days": 7}
        )
        assert store.expires_at == store.last_active_at + 7 * 86_400
        changed = sdk.vector_stores.update(store.id, name="后")
        assert (changed.name, changed.metadata, changed.expires_after.days) == ("后", {"a": "1"}, 7)
        changed = sdk.vector_stores.update(store.id, metadata={"b": "2"}, expires_after=None)
        assert (changed.name, changed.metadata, changed.expires_after) == ("后", {"b": "2"}, None)
        assert changed.expires_at is None

    def it_is_deleted_and_its_files_stay(self, sdk):
        file = sdk.files.create(file=named("kept.txt", "The kettle boils."), purpose="assistants")
        store = sdk.vector_stores.create(file_ids=[file.id])
        sdk.vector_stores.files.poll(file.id, vector_store_id=store.id)
        assert sdk.vector_stores.search(store.id, query="kettle").data
        gone = sdk.vector_stores.delete(store.id)
        assert (gone.id, gone.deleted, gone.object) == (store.id, True, "vector_store.deleted")
        for call in (sdk.vector_stores.retrieve, sdk.vector_stores.delete, sdk.vector_stores.files.list):
            with pytest.raises(openai.NotFoundError):
                call(store.id)
        with pytest.raises(openai.NotFoundError):
            sdk.vector_stores.search(store.id, query="kettle")
        assert sdk.files.retrieve(file.id).filename == "kept.txt"

    def it_lists_every_page_either_way(self, use):
        with client_of(use) as sdk:
            made = [sdk.vector_stores.create(name=f"store {number}").id for number in range(7)]
            assert [each.id for each in sdk.vector_stores.list(limit=3)] == made[::-1]
            assert [each.id for each in sdk.vector_stores.list(limit=3, order="asc")] == made
            before = sdk.vector_stores.list(order="asc", before=made[5], limit=2)
            assert ([each.id for each in before.data], before.has_more) == (made[3:5], True)
            for store in sdk.vector_stores.list(limit=2):
                sdk.vector_stores.delete(store.id)
            assert sdk.vector_stores.list().data == []

    def it_masks_what_the_profile_masks(self, use):
        with client_of(use) as sdk:
            profile = {"config": {"privacy": {"mask_answers": True}}}
            path = f"{base_url().removesuffix('/openai/v1')}/v1/profiles/default"
            headers = {"Authorization": f"Bearer {sdk.api_key}"}
            assert httpx.put(path, json=profile, headers=headers).is_success
            store = sdk.vector_stores.create(name="People")
            text = "The kettle belongs to li@example.com."
            file = sdk.files.create(file=named("li@example.com.txt", text), purpose="assistants")
            sdk.vector_stores.files.create_and_poll(
                file.id, vector_store_id=store.id, attributes={"owner": "li@example.com", "year": 2026}
            )
            [found] = sdk.vector_stores.search(store.id, query="whose is the kettle").data
        assert "li@example.com" not in found.model_dump_json()
        assert found.attributes == {"owner": "[email]", "year": 2026}
        assert (found.file_id, found.content[0].text) == (file.id, "The kettle belongs to [email].")

    def it_does_not_call_it_nothing_when_no_channel_answered(self, use):
        with client_of(use) as sdk:
            store = sdk.vector_stores.create(name="Unlucky")
            ask_channels_that_fail(sdk.api_key)
            with pytest.raises(openai.InternalServerError) as refused:
                sdk.with_options(max_retries=0).vector_stores.search(store.id, query="red button")
        assert refused.value.status_code == 503
        assert refused.value.response.headers["Retry-After"] == "2"  # the client asks again by itself

    async def it_does_the_same_asynchronously(self, sdk, filled):
        async with openai.AsyncOpenAI(base_url=base_url(), api_key=sdk.api_key) as client:
            batch = await client.vector_stores.file_batches.upload_and_poll(
                filled.id, files=[named("late.txt", "The walrus sings at midnight.")]
            )
            assert batch.file_counts.completed == 1
            found = await client.vector_stores.search(filled.id, query="walrus at midnight")
            assert found.data[0].filename == "late.txt"
            listed = [each.id async for each in client.vector_stores.files.list(filled.id, limit=1)]
            assert len(listed) == 4
            await client.files.delete(found.data[0].file_id)
            after = await client.vector_stores.search(filled.id, query="walrus at midnight")
            assert "late.txt" not in [each.filename for each in after.data]


class DescribeNamespacesAsVectorStores:
    def it_searches_what_came_through_the_other_door(self, sdk, namespace):
        headers = {"Authorization": f"Bearer {sdk.api_key}"}
        body = {
            "namespace": namespace,
            "documents": [
                {
                    "document_id": "owl",
                    "title": "Owls",
                    "text": "The barn owl hears mice.",
                    "metadata": {"wild": True, "kinds": ["a", "b"]},
                }
            ],
        }
        root = base_url().removesuffix("/openai/v1")
        job = httpx.post(f"{root}/v1/documents", json=body, headers=headers).json()["job_id"]
        httpx.get(f"{root}/v1/jobs/{job}?wait=20", headers=headers, timeout=30)
        store = sdk.vector_stores.retrieve(namespace)
        assert (store.id, store.name, store.file_counts.completed) == (namespace, namespace, 1)
        found = sdk.vector_stores.search(
            namespace, query="barn owl", filters={"type": "eq", "key": "wild", "value": True}
        )
        assert (found.data[0].file_id, found.data[0].filename) == ("owl", "Owls")
        assert found.data[0].attributes == {"wild": True}
        file = sdk.vector_stores.files.update("owl", vector_store_id=namespace, attributes={"wild": False})
        assert (file.status, file.attributes) == ("completed", {"wild": False})
        kept = httpx.get(f"{root}/v1/documents/owl?namespace={namespace}", headers=headers).json()["metadata"]
        assert kept == {"wild": False, "kinds": ["a", "b"]}  # what attributes cannot show stays
        assert [each.id for each in sdk.vector_stores.files.list(namespace)] == ["owl"]
        sdk.vector_stores.files.delete("owl", vector_store_id=namespace)
        assert sdk.vector_stores.retrieve(namespace).file_counts.total == 0
