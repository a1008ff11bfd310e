"""The worker that asks the language model is killed in the middle: its budget is lost, and the answer is not."""

from __future__ import annotations

import signal
import time

import pytest

from tests.support.corpora.documents import found_documents, search
from tests.support.servers.openai_answers import hangs
from tests.support.stacks.model_stack import DEADLINE_S, EXPAND, model_stack
from tests.support.stacks.processes import end

QUERY = {"query_text": "reset the router now", "namespaces": ["kb"]}


def _lost(answer: dict) -> set[str]:
    return {lost["part"] for lost in answer["stats"]["degradations"]}


def _took_s(answer: dict) -> float:
    """From the moment the question was read, from which its deadline counts."""
    return answer["stats"]["latency_ms"]["total"] / 1000


@pytest.mark.thorough  # in the fault matrix a worker is killed at the same place
def it_answers_by_the_raw_query_when_the_worker_is_killed_or_not_there(settings, use, tmp_path):
    apart = ("recall,answer", "rerank")
    with model_stack(settings, use, tmp_path, redis_database=10, queues=apart) as served:
        client = served.client
        served.model.by_prompt = {EXPAND: hangs()}
        slow = search(client, "kb", "reset the router first")
        assert found_documents(slow)[0] == "button"
        assert "expand" in _lost(slow)

        accepted = client.post("/v1/queries", json=QUERY)
        time.sleep(0.3)
        end(served.asking, signal.SIGKILL)
        answer = client.get(accepted.headers["Location"], params={"wait": 10}).json()
        assert _took_s(answer) < DEADLINE_S + 0.25
        assert answer["status"] == "succeeded"
        assert found_documents(answer)[0] == "button"
        assert "expand" in _lost(answer)
        assert not _lost(answer) & {"keyword", "semantic"}, (
            "what the raw query found was kept before the model answered"
        )

        alone = search(client, "kb", "reset the router later")
        assert _took_s(alone) < DEADLINE_S + 0.25
        assert found_documents(alone)[0] == "button"
        assert "expand" in _lost(alone)
        assert not _lost(alone) & {"keyword", "semantic"}
