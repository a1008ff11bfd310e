"""An OpenAI-compatible service over HTTP: one pooled client, bounded requests, translated errors. Uses the ``openai``
package's OPENAI_API_KEY and OPENAI_BASE_URL."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NoReturn

import openai
import orjson

from pipeline.deadline import Deadline
from pipeline.errors import Misconfigured, Rejected, Silent, Unavailable
from pipeline.models.prompt_texts import estimated_tokens
from pipeline.models.retries import bounded, keep_trying
from pipeline.outages import raise_for_outage
from pipeline.outbound.web import retry_after_s
from pipeline.telemetry.tracing import edge

_CONNECT_TIMEOUT_S: Final = 5.0
_MAX_BODY_BYTES: Final = 256 * 1024 * 1024
_TOO_MANY: Final = 429
_TRY_LATER: Final = frozenset({408, 409, 425, _TOO_MANY})
_OUR_FAULT: Final = frozenset({401, 403, 404})
_LONGEST_QUOTE: Final = 200  # characters of a service's message that our errors quote
_TELLTALE: Final = 12  # a message that repeats so many characters in a row of the request is not quoted
_KEY = re.compile(r"\b(?:sk|pk|key|Bearer)[-_ ][\w*.\-]{4,}", re.IGNORECASE)

# The HTTP library of openai, httpx or httpx2 by its version. It does not wrap errors while a body is read.
_HTTPX = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
_TRANSPORT_ERROR: Final[type[Exception]] = _HTTPX.HTTPError
_TIMEOUT: Final[type[Exception]] = _HTTPX.TimeoutException


class ServiceUnavailable(Unavailable):
    """The service did not answer, answered nonsense, or asked to back off."""


class ServiceSilent(ServiceUnavailable, Silent):
    """The service did not answer in the time of one request."""


class ServiceBusy(ServiceUnavailable):
    """The service received more requests than it allows."""


class ServiceRefused(Rejected):
    """The service refuses this input; sending it again cannot help."""


_MAY_BE_A_PARAMETER: Final = (400, 415, 422, 500, 501)  # where the answer names one
LEFT_OUT: Final = openai.omit  # as a fallback: the parameter is not sent
OnHeaders = Callable[[Mapping[str, str]], None]
Counted = Callable[[int, int], None]  # the tokens of prompt and reply
Read = Callable[[Iterator[bytes]], Any]  # of a body in pieces


def _ignore_headers(_: Mapping[str, str]) -> None:
    """Ignore the headers."""


def ignore_tokens(_sent: int, _received: int) -> None:
    """Count nothing."""


def _json(pieces: Iterator[bytes]) -> Any:
    return orjson.loads(b"".join(pieces))


class OpenAIService:
    """A connection pool to one service. Safe to share between threads; not across a fork."""

    def __init__(self, *, timeout_s: float, base_url: str | None = None, api_key: str | None = None) -> None:
        """Raise Misconfigured when there is no API key or the address is not one."""
        try:
            self._client = openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=timeout_s)
        except openai.OpenAIError:
            raise Misconfigured(
                "OPENAI_API_KEY is not set (a service that asks for none takes any value, such as 'none')"
            ) from None
        self._timeout_s = timeout_s
        self._instead: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """The address of the service, without possible secrets in it."""
        url = self._client.base_url
        return f"{url.scheme}://{url.host}:{url.port or ''}{url.path}"

    def embeddings(
        self,
        request: dict[str, Any],
        *,
        deadline: Deadline,
        fallbacks: Mapping[str, Sequence[Any]],
        on_headers: OnHeaders = _ignore_headers,
    ) -> Any:
        """POST /embeddings and return the decoded JSON. Raises as `_send`."""

        def create(*, timeout: openai.Timeout, **parameters: Any) -> Any:
            # The package would ask for base64 by itself if the parameter were missing.
            left_out = {name: value for name, value in parameters.items() if value is LEFT_OUT}
            return self._client.embeddings.with_streaming_response.create(
                **parameters, extra_body=left_out or None, timeout=timeout
            )

        return self._send(
            create, request, deadline=deadline, fallbacks=fallbacks, private=request["input"], on_headers=on_headers
        )

    def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, str]],
        *,
        deadline: Deadline,
        counted: Counted = ignore_tokens,
    ) -> str:
        """POST /chat/completions, tried twice, and return the text of the reply. ``counted`` gets the tokens of any reply,
        estimates if the service reports none. Raises as `_send`."""
        answer = keep_trying(
            lambda: self._send(
                self._client.chat.completions.with_streaming_response.create,
                {"model": model, "messages": messages, "temperature": 0},
                deadline=deadline,
                fallbacks={"temperature": (LEFT_OUT,)},
                private=[message["content"] for message in messages],
            ),
            retries=1,
            deadline=deadline,
        )
        try:
            content = answer["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError):
            content = None
        text = content if isinstance(content, str) else ""
        sent = sum(estimated_tokens(message["content"]) for message in messages)
        counted(*((counted_tokens(answer) if isinstance(answer, dict) else None) or (sent, estimated_tokens(text))))
        if not isinstance(content, str):
            raise ServiceUnavailable("the language model answered without a message")
        return content

    def stream_chat(
        self, model: str, messages: Sequence[Mapping[str, str]], stream: ChatStream, *, deadline: Deadline
    ) -> None:
        """POST /chat/completions and read the reply into ``stream`` as it is written. Tried twice unless a reply has
        begun. Raises as `_send`, and whatever ``stream.wrote`` raises."""
        keep_trying(
            lambda: self._send(
                self._client.chat.completions.with_streaming_response.create,
                {
                    "model": model,
                    "messages": messages,
                    "temperature": 0,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                },
                deadline=deadline,
                fallbacks={"temperature": (LEFT_OUT,), "stream_options": (LEFT_OUT,)},
                private=[message["content"] for message in messages],
                read=stream.read,
            ),
            retries=1,
            deadline=deadline,
            stop=stream.begun,
        )

    def close(self) -> None:
        """Close the pooled connections."""
        self._client.close()

    def _send(
        self,
        create: Callable[..., Any],
        request: dict[str, Any],
        *,
        deadline: Deadline,
        fallbacks: Mapping[str, Sequence[Any]],
        private: Sequence[str],
        on_headers: OnHeaders = _ignore_headers,
        read: Read = _json,
    ) -> Any:
        """Send one request, ended after the configured timeout or at ``deadline``. ``on_headers`` gets the headers of any
        answer. ``fallbacks``: the replacements, in turn, for parameters that the service rejects by name, used from then
        on. Raises
        ServiceUnavailable (try later), ServiceRefused (the input) or Misconfigured (address, key, model)."""
        wanted = {name: self._instead.get(name, value) for name, value in request.items()}
        try:
            return self._read(create, wanted, Deadline.after(deadline.within(self._timeout_s)), on_headers, read)
        except openai.APITimeoutError:
            raise ServiceSilent("the model service did not answer in time") from None
        except openai.APIStatusError as error:
            on_headers(error.response.headers)
            complaint = _message(error)
            unsupported = {
                name: value
                for name, values in fallbacks.items()
                if _names(complaint, name, wanted.get(name)) and (value := _next(values, wanted.get(name))) is not None
            }
            if error.status_code not in _MAY_BE_A_PARAMETER or not unsupported:
                self._raise_for(error, private)
            self._instead.update(unsupported)
        except openai.APIConnectionError as error:
            raise ServiceUnavailable(
                f"the model service cannot be reached ({type(error.__cause__ or error).__name__})"
            ) from None
        except _TRANSPORT_ERROR as error:
            kind = ServiceSilent if isinstance(error, _TIMEOUT) else ServiceUnavailable
            raise kind(f"the model service broke off ({type(error).__name__})") from None
        except orjson.JSONDecodeError:
            raise ServiceUnavailable("the model service answered with something that is not JSON") from None
        return self._send(
            create, wanted, deadline=deadline, fallbacks=fallbacks, private=private, on_headers=on_headers, read=read
        )

    def _read(
        self, create: Callable[..., Any], request: dict[str, Any], deadline: Deadline, on_headers: OnHeaders, read: Read
    ) -> Any:
        """Return the answer, read in pieces because a read timeout alone never ends a trickling answer."""
        seconds = deadline.within(self._timeout_s)
        if seconds <= 0.0:
            raise ServiceUnavailable("no time was left to ask the model service")
        timeout = openai.Timeout(seconds, connect=min(seconds, _CONNECT_TIMEOUT_S))
        with edge("model_service", model=str(request.get("model", ""))), create(**request, timeout=timeout) as response:
            on_headers(response.headers)
            return read(_pieces(response, deadline))

    def _raise_for(self, error: openai.APIStatusError, private: Sequence[str]) -> NoReturn:
        status = error.status_code
        sentence = f"the model service answered {status}{self._quoted(error, private)}"
        if status in _TRY_LATER or status >= 500:
            # An exhausted budget is reported with 429 too; waiting does not restore it.
            busy = status == _TOO_MANY and error.code != "insufficient_quota"
            kind = ServiceBusy if busy else ServiceUnavailable
            raise kind(sentence, retry_after_s=retry_after_s(error.response.headers)) from None
        if status in _OUR_FAULT:
            raise Misconfigured(f"{sentence}; check OPENAI_BASE_URL, OPENAI_API_KEY and the model's name") from None
        raise ServiceRefused(sentence) from None

    def _quoted(self, error: openai.APIStatusError, private: Sequence[str]) -> str:
        """Return the service's own message, shortened, without keys; nothing when it repeats the request."""
        message = " ".join(_message(error).split())
        message = _KEY.sub("***", message.replace(self._client.api_key or "\0", "***"))[:_LONGEST_QUOTE]
        return f": {message}" if message and not _repeats(message, private) else ""


def _pieces(response: Any, deadline: Deadline) -> Iterator[bytes]:
    """Yield the body of a response until ``deadline``. Raises ServiceUnavailable."""
    size = 0
    for piece in response.iter_bytes():
        size += len(piece)
        if deadline.has_passed:
            raise ServiceSilent("the model service did not finish its answer in time")
        if size > _MAX_BODY_BYTES:
            raise ServiceUnavailable("the model service's answer does not end")
        yield piece


def _next(values: Sequence[Any], current: Any) -> Any:
    """Return the replacement after ``current``, the first if it is none of them, None after the last."""
    position = next((at for at, value in enumerate(values, start=1) if value is current or value == current), 0)
    return values[position] if position < len(values) else None


def _names(complaint: str, name: str, value: Any) -> bool:
    """Return whether a complaint names a parameter, in any spelling (encodingFormat), or its value (base64)."""
    spelled = "".join(filter(str.isalnum, complaint)).lower()
    return name.replace("_", "") in spelled or (isinstance(value, str) and value in complaint)


def _message(error: openai.APIStatusError) -> str:
    """Return the message in an error's body, in OpenAI's shape, a similar one or as plain text; empty for others."""
    if isinstance(error.body, str) and not error.body.lstrip().startswith("<"):
        return error.body
    body = error.body if isinstance(error.body, Mapping) else {}
    message = body.get("message") or body.get("detail") or body.get("error")
    if isinstance(message, list):  # of FastAPI: one entry for each invalid field
        return "; ".join(_invalid_field(entry) for entry in message if isinstance(entry, Mapping))
    return message if isinstance(message, str) else ""


def _invalid_field(entry: Mapping[str, Any]) -> str:
    """Return field and message of one entry, without the value, which may be a text."""
    field_path = entry.get("loc")
    names = ".".join(str(part) for part in field_path) if isinstance(field_path, list) else ""
    return f"{names}: {entry.get('msg', '')}"


def _repeats(words: str, private: Sequence[str]) -> bool:
    """Return whether a run of ``words`` also occurs in one of the texts, or all of a short text in ``words``."""
    sent = "\0".join(" ".join(text.split()) for text in private)
    stretches = (words[at : at + _TELLTALE] for at in range(max(1, len(words) - _TELLTALE + 1)))
    return any(stretch in sent for stretch in stretches) or any(
        text.strip() in words for text in private if 4 <= len(text.strip()) < _TELLTALE
    )


class LanguageModel:
    """One model of a service, asked with prompts. Every failure of the service is raised as ``unavailable``, at its rate
    limit as ``busy``. Thread-safe; close it when done."""

    unavailable: ClassVar[type[Unavailable]]
    busy: ClassVar[type[Unavailable]]

    def __init__(
        self, *, model: str, timeout_s: float = 2.0, base_url: str | None = None, api_key: str | None = None
    ) -> None:
        """Connect to the service. ``timeout_s``: the limit of one call, whatever its caller allows. Raises
        Misconfigured."""
        self._service = OpenAIService(timeout_s=timeout_s, base_url=base_url, api_key=api_key)
        self._model = model
        self._timeout_s = timeout_s

    def close(self) -> None:
        """Close the connections to the service."""
        self._service.close()

    def _chat(self, messages: Sequence[Mapping[str, str]], deadline: Deadline, counted: Counted) -> str:
        """Return the text of the reply to these messages."""
        return self._bounded(
            lambda: self._service.chat(self._model, messages, deadline=deadline, counted=counted), deadline
        )

    def _bounded(self, call: Callable[[], str], deadline: Deadline) -> str:
        late = self.unavailable("the language model did not answer in time")
        with raise_for_outage(self._translated, also=(Rejected, Misconfigured)):
            return bounded(call, seconds=deadline.within(self._timeout_s), late=late)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, self.unavailable):
            return error
        kind = self.busy if isinstance(error, ServiceBusy) else self.unavailable
        return kind(str(error), retry_after_s=getattr(error, "retry_after_s", None))


_EVENT = b"data:"


@dataclass(slots=True)
class ChatStream:
    """A reply as it arrives. ``wrote`` gets the text so far on each event and may raise to end the stream; ``tokens``:
    those of prompt and reply, None until the service reports them."""

    wrote: Callable[[str], None]
    text: str = ""
    tokens: tuple[int, int] | None = None
    begun: threading.Event = field(default_factory=threading.Event)  # set by the first bytes
    _ended: bool = field(default=False, init=False)

    def read(self, pieces: Iterable[bytes]) -> None:
        """Read server-sent events, or the whole answer of a service that does not stream.

        Raises Unavailable if the stream reports an error or ends before the reply does, and orjson.JSONDecodeError.
        """
        plain = bytearray()
        for line in _lines(pieces):
            self.begun.set()
            if line.startswith(_EVENT):
                self._take(line[len(_EVENT) :].strip())
            elif not line.startswith(b":"):
                plain += line + b"\n"
        if not self._ended:
            self._take(bytes(plain).strip() or b"null")
        if not self._ended:
            raise Unavailable("the language model broke off in the middle of its reply")

    def _take(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._ended = True
            return
        answer = orjson.loads(data)
        if not isinstance(answer, dict):
            return
        if answer.get("error"):
            raise Unavailable("the language model reported an error in the middle of its reply")
        self.tokens = counted_tokens(answer) or self.tokens
        for choice in answer["choices"][:1] if isinstance(answer.get("choices"), list) else ():
            self._add(choice if isinstance(choice, dict) else {})

    def _add(self, choice: dict[str, Any]) -> None:
        part = choice.get("delta") or choice.get("message")
        content = part.get("content") if isinstance(part, dict) else None
        if isinstance(content, str) and content:
            self.text += content
            self.wrote(self.text)
        self._ended = self._ended or bool(choice.get("finish_reason")) or "message" in choice


def counted_tokens(answer: dict[str, Any]) -> tuple[int, int] | None:
    """Return the tokens of prompt and reply that an answer reports; None if it reports none."""
    usage = answer.get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    valid = [count for count in counts if type(count) is int and count >= 0]
    return (valid[0], valid[1]) if len(valid) == 2 else None


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    yield rest
