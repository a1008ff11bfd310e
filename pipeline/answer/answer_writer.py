"""Have a language model write an answer from passages, in one chat completion."""

from collections.abc import Callable
from typing import Final

from pipeline.deadline import Deadline
from pipeline.errors import WriterBusy, WriterUnavailable
from pipeline.models.prompt_texts import as_json, estimated_tokens, load_prompt, masked_beginning
from pipeline.models.service_client import ChatStream, Counted, LanguageModel
from pipeline.privacy.redaction import redact

LONGEST_S: Final = 60.0  # of one call, whatever its caller allows
_LONGEST_QUERY: Final = 2_000  # characters
_LONGEST_PASSAGES: Final = 60_000


class AnswerWriter(LanguageModel):
    """Sends masked text only, as JSON strings inside fences."""

    unavailable, busy = WriterUnavailable, WriterBusy

    def __init__(self, *, model: str, base_url: str | None = None, api_key: str | None = None) -> None:
        """Connect to the service. Raises Misconfigured."""
        super().__init__(model=model, timeout_s=LONGEST_S, base_url=base_url, api_key=api_key)
        self._prompt = load_prompt("rag_answer")

    def write(
        self,
        query_text: str,
        passages: str,
        markers: list[str],
        *,
        timeout_s: float,
        wrote: Callable[[str], None],
        counted: Counted,
    ) -> str:
        """Return the model's reply, unread. ``wrote`` gets the reply so far each time it grows, and may raise to end it.
        ``counted`` gets the tokens of prompt and reply, also of a reply that broke off; estimates if the service reports
        none. Raises WriterUnavailable; WriterBusy at a rate limit."""
        deadline = Deadline.after(min(timeout_s, LONGEST_S))
        messages = self._prompt.messages(
            query=as_json(redact(query_text)[:_LONGEST_QUERY]),
            passages=as_json(masked_beginning(passages, _LONGEST_PASSAGES)),
            markers=" ".join(markers),
        )
        stream = ChatStream(wrote)

        def read() -> str:
            try:
                self._service.stream_chat(self._model, messages, stream, deadline=deadline)
                return stream.text
            finally:
                if stream.begun.is_set():
                    sent = sum(estimated_tokens(message["content"]) for message in messages)
                    counted(*(stream.tokens or (sent, estimated_tokens(stream.text))))

        return self._bounded(read, deadline)
