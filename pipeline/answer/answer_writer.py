"""Have a language model write an answer from passages, in one chat completion."""

from __future__ import annotations

from typing import Final

from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, Rejected, Unavailable, WriterBusy, WriterUnavailable
from pipeline.models.model_texts import masked_beginning
from pipeline.models.prompt_texts import as_json, load_prompt
from pipeline.models.retries import bounded
from pipeline.models.service_client import OpenAIService, ServiceBusy
from pipeline.privacy.redaction import redact

LONGEST_S: Final = 60.0  # of one call, whatever its caller allows
_LONGEST_QUERY: Final = 2_000  # characters
_LONGEST_PASSAGES: Final = 60_000


class AnswerWriter:
    """Sends masked text only, as JSON strings inside fences. Thread-safe; close it when done."""

    def __init__(self, *, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        """Connect to the service. Raises Misconfigured."""
        self._service = OpenAIService(timeout_s=LONGEST_S, base_url=base_url, api_key=api_key)
        self._model = model
        self._prompt = load_prompt("rag_answer")

    def write(self, query_text: str, passages: str, markers: list[str], *, timeout_s: float) -> str:
        """Return the model's reply, unread. Raises WriterUnavailable; WriterBusy at a rate limit."""
        deadline = Deadline.after(min(timeout_s, LONGEST_S))
        filled = self._prompt.fill(
            query=as_json(redact(query_text)[:_LONGEST_QUERY]),
            passages=as_json(masked_beginning(passages, _LONGEST_PASSAGES)),
            markers=" ".join(markers),
        )
        messages = [{"role": "system", "content": self._prompt.system}, {"role": "user", "content": filled}]
        try:
            return bounded(
                lambda: self._service.chat(self._model, messages, deadline=deadline),
                seconds=deadline.within(LONGEST_S),
                late=WriterUnavailable("the language model did not answer in time"),
            )
        except WriterUnavailable:
            raise
        except (Unavailable, Rejected, Misconfigured) as error:
            kind = WriterBusy if isinstance(error, ServiceBusy) else WriterUnavailable
            raise kind(str(error), retry_after_s=getattr(error, "retry_after_s", None)) from None

    def close(self) -> None:
        """Close the connections to the service."""
        self._service.close()
