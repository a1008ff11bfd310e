"""Jobs whose time is up, as users see them over HTTP: the job is gone, and everything beside it is as before."""

from __future__ import annotations

import base64
import hashlib
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from pipeline.maintenance.sweep import prune_ledger
from pipeline.resources import Resources
from tests.support.clients.gateway_client import VALID, ended, problem, send
from tests.support.clients.openai_dialect import client_of, named
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.servers.receiver import receiving
from tests.support.stacks.connections import in_mysql


def age(use: Resources, *job_ids: str) -> None:
    """Move the end of these jobs a hundred days back."""
    for job_id in job_ids:
        statement = "UPDATE jobs SET finished_at = finished_at - INTERVAL 100 DAY WHERE job_id = :job"
        in_mysql(use, statement, job=str(uuid.UUID(job_id)))


def prune(use: Resources, client: httpx.Client, *job_ids: str) -> None:
    """Prune as the stack's sweeper does every ten minutes, again where it lost against a worker."""
    ends = time.monotonic() + 60
    while any(client.get(f"/v1/jobs/{job_id}").status_code == 200 for job_id in job_ids):
        assert time.monotonic() < ends, "pruning did not delete the job"
        prune_ledger(use)


def wait_for_sweeper(use: Resources, client: httpx.Client, job_id: str) -> None:
    """Make pruning due, and wait until the stack's sweeper has deleted the job."""
    use.redis.delete("chordwise:ledger:pruned")
    ends = time.monotonic() + 60
    while client.get(f"/v1/jobs/{job_id}").status_code == 200:
        assert time.monotonic() < ends, "the sweeper did not delete the job"
        time.sleep(0.1)


def failed(client: httpx.Client, namespace: str, name: str) -> dict[str, Any]:
    empty = {"document_id": name, "text": "<!-- -->", "source": {"media_type": "text/html"}}
    return ended(client, send(client, namespace, empty))


def send_part(client: httpx.Client, part: bytes) -> httpx.Response:
    digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
    headers = {"Content-Type": "application/vnd.chordwise.part", "Content-Digest": f"sha-256=:{digest}:"}
    return client.put("/v1/namespaces/copy/imports/an-import/parts/1", content=part, headers=headers)


class DescribeJobs:
    def it_is_deleted_without_its_documents_and_costs(self, client, namespace, use):
        old = upload(client, namespace, [document("old", "The kettle boils.")])
        young = upload(client, namespace, [document("young", "The teapot pours.")])
        before = client.get("/v1/usage", params={"by": "job"}).json()
        shown = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        age(use, old["job_id"])
        wait_for_sweeper(use, client, old["job_id"])
        path = f"/v1/jobs/{old['job_id']}"
        for route in (path, f"{path}/items", f"{path}/events", f"{path}?wait=5"):
            problem(client.get(route), 404, "job_not_found")
        for step in ("cancel", "retry", "pause", "resume"):
            problem(client.post(f"{path}/{step}"), 404, "job_not_found")
        assert [job["job_id"] for job in client.get("/v1/jobs").json()["data"]] == [young["job_id"]]
        assert client.get("/v1/usage", params={"by": "job"}).json() == before
        assert {row["key"] for row in before["data"]} == {old["job_id"], young["job_id"]}
        assert client.get("/v1/documents", params={"namespace": namespace}).json()["data"] == shown
        assert found_documents(search(client, namespace, "kettle"))[0] == "old"

    @pytest.mark.thorough
    def it_lists_pages_from_a_job_that_went_meanwhile(self, client, namespace, use):
        jobs = [upload(client, namespace, [document(name, f"The cup {name}.")]) for name in "abc"]
        first = client.get("/v1/jobs", params={"limit": 1}).json()
        assert [job["job_id"] for job in first["data"]] == [jobs[2]["job_id"]]
        age(use, jobs[1]["job_id"], jobs[2]["job_id"])
        prune(use, client, jobs[2]["job_id"])
        rest = client.get("/v1/jobs", params={"limit": 5, "cursor": first["next_cursor"]}).json()
        assert [job["job_id"] for job in rest["data"]] == [jobs[0]["job_id"]]

    def it_repeats_the_answer_of_a_key_and_makes_no_second_job(self, client, namespace, use):
        body, headers = {"namespace": namespace, "documents": [VALID]}, {"Idempotency-Key": str(uuid.uuid4())}
        first = client.post("/v1/documents", json=body, headers=headers)
        job = ended(client, first)
        age(use, job["job_id"])
        prune(use, client, job["job_id"])
        again = client.post("/v1/documents", json=body, headers=headers)
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert client.get("/v1/jobs").json()["data"] == []

    @pytest.mark.thorough
    def it_replaces_and_deletes_documents_of_jobs_that_are_gone(self, client, namespace, use):
        jobs = [upload(client, namespace, [document(name, f"The first {name}.")]) for name in ("changed", "deleted")]
        age(use, *(job["job_id"] for job in jobs))
        prune(use, client, jobs[1]["job_id"])
        assert client.delete("/v1/documents/deleted", params={"namespace": namespace}).status_code < 300
        same = upload(client, namespace, [document("changed", "The first changed.")])
        assert same["outcomes"] == {"unchanged": 1}
        upload(client, namespace, [document("changed", "The second one.")])
        assert found_documents(search(client, namespace, "first or second", fresh=True)) == ["changed"]


class DescribeDeadLetters:
    def it_keeps_a_job_whose_letter_waits_and_no_other(self, client, namespace, use):
        waiting, dropped, replaced = (failed(client, namespace, name) for name in ("waiting", "dropped", "replaced"))
        [letter] = client.get("/v1/dead-letters", params={"job_id": dropped["job_id"]}).json()["data"]
        assert client.delete(f"/v1/dead-letters/{letter['id']}").status_code == 204
        upload(client, namespace, [document("replaced", "A text at last.")])
        age(use, waiting["job_id"], dropped["job_id"], replaced["job_id"])
        prune(use, client, dropped["job_id"], replaced["job_id"])
        [letter] = client.get("/v1/dead-letters").json()["data"]
        assert (letter["job_id"], letter["document_id"]) == (waiting["job_id"], "waiting")
        assert client.post("/v1/dead-letters/replay", json={"code": letter["code"]}).json() == {"replayed": 1}
        again = client.get(f"/v1/jobs/{waiting['job_id']}", params={"wait": 30}).json()
        assert (again["status"], again["failed"]) == ("failed", 1)  # it is as empty as before, and waits anew

    @pytest.mark.thorough
    def it_takes_the_documents_of_a_cancelled_job_that_is_gone_anew(self, client, namespace, use):
        sent = send(client, namespace, *({"document_id": f"d{n}", "text": f"Pump {n}."} for n in range(40)))
        path = sent.headers["location"]
        client.post(f"{path}/pause")
        cancelled = client.post(f"{path}/cancel").json()
        age(use, cancelled["job_id"])
        prune(use, client, cancelled["job_id"])
        assert client.get("/v1/dead-letters").json()["data"] == []
        listed = client.get("/v1/documents", params={"namespace": namespace, "limit": 200}).json()["data"]
        assert len(listed) == cancelled["succeeded"]
        upload(client, namespace, [document(f"d{n}", f"Pump {n} again.") for n in range(40)])
        listed = client.get("/v1/documents", params={"namespace": namespace, "limit": 200}).json()["data"]
        assert len(listed) == 40


class DescribeWhatNamesAJob:
    def it_keeps_the_messages_to_a_webhook(self, client, namespace, use):
        with receiving() as receiver:
            path = client.post("/v1/webhooks", json={"url": receiver.url}).headers["location"]
            job = ended(client, send(client, namespace, VALID))
            [call] = receiver.wait_for(1)
            age(use, job["job_id"])
            prune(use, client, job["job_id"])
            [delivery] = client.get(f"{path}/deliveries").json()["data"]
            assert (delivery["job_id"], delivery["event"]) == (job["job_id"], "job.succeeded")
            assert client.post(f"{path}/deliveries/{call.message_id}/redeliver").status_code == 202
            assert receiver.wait_for(2)[1].body == call.body
            client.delete(path)

    def it_takes_a_part_of_an_import_for_finished(self, client, use):
        upload(client, "kb", [document("a", "The kettle boils.")])
        part = client.get("/v1/namespaces/kb/export").content
        job_id = send_part(client, part).json()["job_id"]
        client.get(f"/v1/jobs/{job_id}", params={"wait": 30})
        age(use, job_id)
        prune(use, client, job_id)
        again = send_part(client, part)
        assert (again.status_code, again.json()["status"], again.json()["job_id"]) == (200, "present", job_id)
        [listed] = client.get("/v1/namespaces/copy/imports/an-import").json()["parts"]
        assert listed["finished"] is True

    def it_keeps_the_job_of_a_file_that_is_in_a_vector_store(self, use):
        with client_of(use) as sdk:
            store = sdk.vector_stores.create()
            files = [named("good.txt", "Herons fish."), named("picture.png", b"\x89PNG\r\n")]
            batch = sdk.vector_stores.file_batches.upload_and_poll(store.id, files=files)
            before = list(sdk.vector_stores.files.list(store.id))
            job_id = batch.id.partition("_")[2]
            age(use, job_id)
            prune_ledger(use)
            assert list(sdk.vector_stores.files.list(store.id)) == before
            assert sdk.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id) == batch
            assert {file.status for file in before} == {"completed", "failed"}
            for file in before:
                sdk.vector_stores.files.delete(file.id, vector_store_id=store.id)
            prune_ledger(use)
            assert in_mysql(use, "SELECT 1 FROM jobs WHERE job_id = :job", job=str(uuid.UUID(job_id))) == []


class DescribeUsage:
    def it_is_empty_for_days_past_its_time(self, client, namespace, use):
        job = upload(client, namespace, [document("a", "The kettle boils.")])
        year = datetime.now(UTC).year
        in_mysql(
            use,
            "UPDATE embedding_usage SET day = :day WHERE job_id = :job",
            day=f"{year - 2}-06-01",
            job=job["job_id"],
        )
        old = {"from": f"{year - 2}-06-01", "to": f"{year - 2}-06-30"}
        prune_ledger(use)
        assert client.get("/v1/usage", params=old).json()["total"] == job["usage"]  # as long as the job
        age(use, job["job_id"])
        prune(use, client, job["job_id"])
        prune_ledger(use)
        assert client.get("/v1/usage", params=old).json()["data"] == []

    def it_counts_the_costs_of_a_job_that_is_gone(self, client, namespace, use):
        job = upload(client, namespace, [document("a", "The kettle boils.")])
        before = {by: client.get("/v1/usage", params={"by": by}).json() for by in ("day", "model", "purpose")}
        age(use, job["job_id"])
        prune(use, client, job["job_id"])
        assert {by: client.get("/v1/usage", params={"by": by}).json() for by in before} == before
        assert all(usage["total"]["tokens"] > 0 for usage in before.values())
