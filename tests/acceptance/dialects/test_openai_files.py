"""Files, batches, filters and errors by the official OpenAI client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai.types import VectorStore

from tests.support.clients.openai_dialect import base_url, client_of, named


@pytest.fixture(scope="module")
def sdk(use) -> Iterator[openai.OpenAI]:
    with client_of(use) as client:
        yield client


@pytest.fixture(scope="module")
def animals(sdk) -> VectorStore:
    """A store of files that say nearly the same, told apart by their attributes."""
    attributes = {
        "owl": {"year": 2024, "kind": "bird", "wild": True, "weight": 0.5},
        "hen": {"year": 2025, "kind": "bird", "wild": False, "weight": 2},
        "fox": {"year": 2026, "kind": "mammal", "wild": True, "weight": 6.5},
        "eel": {"year": 2026, "kind": "鱼类"},
    }
    store = sdk.vector_stores.create(name="animals")
    files = [
        {
            "file_id": sdk.files.create(file=named(f"{name}.txt", f"The {name} lives here."), purpose="assistants").id,
            "attributes": found,
        }
        for name, found in attributes.items()
    ]
    batch = sdk.vector_stores.file_batches.create_and_poll(store.id, files=files)
    assert (batch.status, batch.file_counts.completed) == ("completed", 4)
    return store


def compare(kind: str, key: str, value: object) -> dict[str, object]:
    return {"type": kind, "key": key, "value": value}


class DescribeFilters:
    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (compare("eq", "kind", "bird"), "hen owl"),
            (compare("eq", "kind", "鱼类"), "eel"),
            (compare("eq", "year", "2024"), ""),
            (compare("eq", "wild", True), "fox owl"),
            (compare("ne", "wild", True), "eel hen"),
            (compare("gt", "year", 2025), "eel fox"),
            (compare("gte", "weight", 2), "fox hen"),
            (compare("lt", "weight", 2), "owl"),
            (compare("lte", "weight", 2.0), "hen owl"),
            (compare("gt", "kind", "bird"), "eel fox"),
            (compare("in", "year", [2024, 2025]), "hen owl"),
            (compare("nin", "kind", ["bird", "mammal"]), "eel"),
            ({"type": "and", "filters": [compare("eq", "kind", "bird"), compare("eq", "wild", False)]}, "hen"),
            ({"type": "or", "filters": [compare("eq", "year", 2024), compare("gt", "weight", 6)]}, "fox owl"),
            (
                {
                    "type": "and",
                    "filters": [
                        compare("ne", "kind", "mammal"),
                        {"type": "or", "filters": [compare("lt", "year", 2025), compare("eq", "year", 2026)]},
                    ],
                },
                "eel owl",
            ),
        ],
    )
    @pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)], ids=["meaning", "words"])
    def it_keeps_exactly_what_they_ask_for(self, sdk, animals, filters, expected, weights):
        ranking = {"hybrid_search": {"embedding_weight": weights[0], "text_weight": weights[1]}}
        found = sdk.vector_stores.search(animals.id, query="lives here", filters=filters, ranking_options=ranking)
        assert " ".join(sorted(each.filename.removesuffix(".txt") for each in found.data)) == expected

    def it_returns_the_attributes(self, sdk, animals):
        found = sdk.vector_stores.search(animals.id, query="fox", filters=compare("eq", "kind", "mammal")).data
        assert found[0].attributes == {"year": 2026, "kind": "mammal", "wild": True, "weight": 6.5}

    @pytest.mark.parametrize(
        ("filters", "param"),
        [
            ({"type": "like", "key": "a", "value": "b"}, "filters.type"),
            (compare("in", "year", 2024), "filters"),
            (compare("eq", "year", None), "filters.value"),
            ({"type": "and", "filters": []}, "filters.filters"),
        ],
    )
    def it_refuses_what_is_no_filter(self, sdk, animals, filters, param):
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.vector_stores.search(animals.id, query="x", filters=filters)
        assert refused.value.param.startswith(param)


class DescribeFiles:
    def it_keeps_what_it_is_given(self, sdk):
        body = "héllo 世界\r\n".encode()
        made = sdk.files.create(
            file=named("世界.txt", body),
            purpose="user_data",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        found = sdk.files.retrieve(made.id)
        assert (found.filename, found.bytes, found.purpose) == ("世界.txt", len(body), "user_data")
        assert found.expires_at == found.created_at + 3600
        assert sdk.files.content(made.id).read() == body
        assert sdk.files.delete(made.id).deleted
        for call in (sdk.files.retrieve, sdk.files.content, sdk.files.delete):
            with pytest.raises(openai.NotFoundError):
                call(made.id)

    @pytest.mark.parametrize("between", ["\u3000", "\u202f", "\u00a0", "\u200c", "\u200d"])
    def it_takes_names_as_people_and_their_systems_write_them(self, sdk, between):
        name = f"Screenshot 10.30.00{between}PM.txt"
        assert sdk.files.create(file=named(name, "x"), purpose="assistants").filename == name

    @pytest.mark.parametrize("between", ["\u007f", "\u2028", "\u2029"])
    def it_takes_no_control_characters_in_names(self, sdk, between):
        with pytest.raises(openai.BadRequestError):
            sdk.files.create(file=named(f"a{between}.txt", "x"), purpose="assistants")

    def it_lists_every_page_even_while_they_are_deleted(self, use):
        with client_of(use) as sdk:
            made = [sdk.files.create(file=named("a.txt", str(n)), purpose="assistants").id for n in range(5)]
            sdk.files.create(file=named("b.txt", "b"), purpose="evals")
            assert [each.id for each in sdk.files.list(limit=2, purpose="assistants")] == made[::-1]
            assert [each.id for each in sdk.files.list(limit=2, order="asc", purpose="assistants")] == made
            for file in sdk.files.list(limit=2):
                sdk.files.delete(file.id)
            assert list(sdk.files.list()) == []


class DescribeFilesInStores:
    def it_attaches_one_with_attributes_and_its_own_chunking(self, sdk):
        store = sdk.vector_stores.create(name="one")
        text = "\n\n".join(f"Paragraph {n} is about the number {n} and about nothing else at all." for n in range(60))
        file = sdk.files.create(file=named("long.md", text), purpose="assistants")
        sizes = {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}
        done = sdk.vector_stores.files.create_and_poll(
            file.id,
            vector_store_id=store.id,
            attributes={"n": 1},
            chunking_strategy={"type": "static", "static": sizes},
        )
        assert (done.status, done.last_error, done.usage_bytes) == ("completed", None, len(text))
        assert done.attributes == {"n": 1}
        assert done.chunking_strategy.model_dump() == {"type": "static", "static": sizes}
        pieces = [part.text for part in sdk.vector_stores.files.content(file.id, vector_store_id=store.id)]
        assert len(pieces) > 5
        assert "Paragraph 0 " in pieces[0]
        assert "Paragraph 59 " in pieces[-1]

    def it_finds_a_file_by_its_new_attributes_at_once(self, sdk, animals):
        (owl,) = sdk.vector_stores.search(animals.id, query="owl", filters=compare("eq", "year", 2024)).data
        changed = sdk.vector_stores.files.update(owl.file_id, vector_store_id=animals.id, attributes={"year": 1999})
        assert (changed.status, changed.attributes) == ("completed", {"year": 1999})
        found = sdk.vector_stores.search(animals.id, query="owl", filters=compare("lt", "year", 2000)).data
        assert [each.file_id for each in found] == [owl.file_id]
        sdk.vector_stores.files.update(owl.file_id, vector_store_id=animals.id, attributes=owl.attributes)

    def it_takes_one_out_and_keeps_the_file(self, sdk):
        store = sdk.vector_stores.create()
        file = sdk.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=named("x.txt", "Kettles boil."))
        gone = sdk.vector_stores.files.delete(file.id, vector_store_id=store.id)
        assert (gone.id, gone.object, gone.deleted) == (file.id, "vector_store.file.deleted", True)
        assert sdk.vector_stores.search(store.id, query="kettles").data == []
        with pytest.raises(openai.NotFoundError):
            sdk.vector_stores.files.retrieve(file.id, vector_store_id=store.id)
        assert sdk.files.retrieve(file.id).id == file.id
        again = sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id)
        assert again.status == "completed"
        assert sdk.vector_stores.search(store.id, query="kettles").data[0].file_id == file.id

    def it_says_why_a_file_failed_and_lists_by_status(self, sdk):
        store = sdk.vector_stores.create()
        files = [
            named("good.txt", "Herons fish."),
            named("picture.png", b"\x89PNG\r\n"),
            named("broken.pdf", b"%PDF-1.4 no"),
        ]
        batch = sdk.vector_stores.file_batches.upload_and_poll(store.id, files=files)
        assert (batch.status, batch.file_counts.failed, batch.file_counts.completed) == ("completed", 2, 1)
        failed = list(sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="failed"))
        assert {each.last_error.code for each in failed} == {"unsupported_file", "invalid_file"}
        assert all(each.last_error.message for each in failed)
        (good,) = sdk.vector_stores.files.list(store.id, filter="completed")
        assert {each.id for each in sdk.vector_stores.files.list(store.id, limit=1)} == {
            good.id,
            *(f.id for f in failed),
        }
        # Deleted while the pager is under way, page after page.
        for file in sdk.vector_stores.files.list(store.id, limit=1, order="asc"):
            sdk.vector_stores.files.delete(file.id, vector_store_id=store.id)
        assert sdk.vector_stores.retrieve(store.id).file_counts.total == 0

    def it_cancels_a_batch(self, sdk):
        store = sdk.vector_stores.create()
        files = [sdk.files.create(file=named(f"{n}.txt", f"Number {n}."), purpose="assistants").id for n in range(3)]
        batch = sdk.vector_stores.file_batches.create(store.id, file_ids=files, attributes={"a": "b"})
        assert batch.object == "vector_store.files_batch"
        ended = sdk.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
        counts = ended.file_counts
        assert (counts.in_progress, counts.cancelled + counts.completed, counts.total) == (0, 3, 3)
        assert ended.status == ("cancelled" if counts.cancelled else "completed")
        listed = list(sdk.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2))
        assert {each.id for each in listed} == set(files)
        assert {each.status for each in listed} <= {"cancelled", "completed"}

    def it_says_when_to_look_again(self, sdk):
        store = sdk.vector_stores.create()
        file = sdk.files.create(file=named("p.txt", "Poll me."), purpose="assistants")
        batch = sdk.vector_stores.file_batches.create(store.id, file_ids=[file.id])
        raw = sdk.vector_stores.file_batches.with_raw_response.retrieve(batch.id, vector_store_id=store.id)
        assert 100 <= int(raw.headers["openai-poll-after-ms"]) <= 2000
        assert raw.headers["x-request-id"]


class DescribeErrors:
    def it_raises_the_classes_of_the_client(self, sdk, animals, use):
        with openai.OpenAI(base_url=base_url(), api_key="cw_nobody_" + "x" * 40) as stranger:
            with pytest.raises(openai.AuthenticationError) as refused:
                stranger.vector_stores.list()
            assert refused.value.code == "invalid_api_key"
        with pytest.raises(openai.NotFoundError) as missing:
            sdk.vector_stores.retrieve("vs_nothing")
        assert (missing.value.code, missing.value.type) == ("vector_store_not_found", "invalid_request_error")
        with pytest.raises(openai.BadRequestError) as wrong:
            sdk.vector_stores.search(animals.id, query="x", max_num_results=51)
        assert (wrong.value.param, wrong.value.type) == ("max_num_results", "invalid_request_error")
        with pytest.raises(openai.BadRequestError) as both:
            sdk.vector_stores.file_batches.create(animals.id, file_ids=["a"], files=[{"file_id": "b"}])
        assert "either file_ids or files" in str(both.value)
        with pytest.raises(openai.BadRequestError) as many:
            sdk.vector_stores.file_batches.create(animals.id, file_ids=[f"file-{n}" for n in range(2001)])
        assert many.value.param == "file_ids"
        with pytest.raises(openai.BadRequestError) as cursor:
            sdk.vector_stores.files.list(animals.id, after="file-unknown")
        assert cursor.value.param == "after"
        with pytest.raises(openai.BadRequestError) as empty:
            sdk.files.create(file=named("empty.txt", b""), purpose="assistants")
        assert empty.value.param == "file"

    def it_shows_nothing_to_another_tenant(self, sdk, animals, use):
        (file, *_) = sdk.vector_stores.files.list(animals.id)
        with client_of(use) as other:
            own = other.vector_stores.create()
            mine = other.files.create(file=named("m.txt", "mine"), purpose="assistants")
            calls = [
                lambda: other.files.retrieve(file.id),
                lambda: other.files.content(file.id),
                lambda: other.files.delete(file.id),
                lambda: other.vector_stores.retrieve(animals.id),
                lambda: other.vector_stores.update(animals.id, name="x"),
                lambda: other.vector_stores.delete(animals.id),
                lambda: other.vector_stores.search(animals.id, query="owl"),
                lambda: other.vector_stores.files.list(animals.id),
                lambda: other.vector_stores.files.retrieve(file.id, vector_store_id=animals.id),
                lambda: other.vector_stores.files.content(file.id, vector_store_id=animals.id),
                lambda: other.vector_stores.files.delete(file.id, vector_store_id=animals.id),
                lambda: other.vector_stores.files.update(file.id, vector_store_id=animals.id, attributes={}),
                lambda: other.vector_stores.files.create(animals.id, file_id=mine.id),
                lambda: other.vector_stores.files.create(own.id, file_id=file.id),
                lambda: other.vector_stores.file_batches.create(own.id, file_ids=[file.id]),
                lambda: other.vector_stores.create(file_ids=[file.id]),
            ]
            for call in calls:
                with pytest.raises(openai.NotFoundError):
                    call()
            assert [each.id for each in other.vector_stores.list()] == [own.id]
        assert sdk.vector_stores.retrieve(animals.id).file_counts.completed == 4
