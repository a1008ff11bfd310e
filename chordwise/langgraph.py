"""The retrieval node of a LangGraph agent: the extra ``langgraph`` of chordwise-client.

from chordwise.langgraph import retrieval_node

graph.add_node("retrieval_node", retrieval_node)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.agents.asker import Asker, OwnsConnections, listed
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import missing
from chordwise.example_step import EXAMPLE_NAMESPACES, EXAMPLE_PROFILE, awith_examples, with_examples
from chordwise.prompting import mapping

try:
    from langchain_core.runnables import Runnable, RunnableConfig
except ModuleNotFoundError as error:
    raise missing("langgraph", error) from error

_HISTORIES = ("history_messages", "messages")
_OTHERS = frozenset({"ai", "assistant", "system", "developer", "tool", "function"})


class RetrievalNode(OwnsConnections, Runnable[Any, dict[str, Any]]):
    """Reads ``prompt_vars`` of a state (``query_text``, ``keywords``) and writes ``retrieved_examples`` beside them.

    If ``query_text`` is empty, the last message of the user in ``history_messages`` or ``messages`` is the question. In
    a graph the node returns ``prompt_vars`` alone, so that reducers of other keys do not add values twice; called as a
    function, ``node(state)``, it returns a copy of the whole state. A state may be a mapping or an object with these
    attributes. The node never raises: if something is missing or the query fails, there are no examples.
    """

    def __init__(
        self,
        namespaces: Iterable[str] | str = EXAMPLE_NAMESPACES,
        *,
        profile: str | None = EXAMPLE_PROFILE,
        client: Chordwise | None = None,
        async_client: AsyncChordwise | None = None,
        url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
        name: str = "retrieval_node",
    ) -> None:
        self.name = name
        self._namespaces, self._profile = listed(namespaces), profile
        self._asker = Asker(client=client, async_client=async_client, url=url, api_key=api_key, timeout=timeout)

    def __call__(self, state: Any) -> dict[str, Any]:
        """Return the state with the examples added."""
        return {**(state if isinstance(state, Mapping) else {}), **self.invoke(state)}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return the change of the state."""
        return {"prompt_vars": with_examples(self._asker, **self._arguments(input))}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return the change of the state, asynchronously."""
        return {"prompt_vars": await awith_examples(self._asker, **self._arguments(input))}

    def _arguments(self, state: Any) -> dict[str, Any]:
        return {
            "prompt_vars": mapping(_value(state, "prompt_vars")),
            "user_message": last_words(state),
            "namespaces": self._namespaces,
            "profile": self._profile,
        }


retrieval_node = RetrievalNode()


def last_words(state: Any) -> str:
    """Return the user's last message in ``history_messages``, or in ``messages``; empty if there is none."""
    for name in _HISTORIES:
        messages = _value(state, name)
        for message in reversed(messages if isinstance(messages, list | tuple) else ()):
            if not _is_of_others(message) and (text := _text(_value(message, "content")) or _text(message)):
                return text
    return ""


def _value(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def _role(message: Any) -> str:
    """Return the role: ``type`` of LangChain's messages, ``role`` of model services' ones, the first of a pair."""
    if isinstance(message, tuple) and len(message) == 2:
        return str(message[0])
    return str(_value(message, "role") or _value(message, "type") or "")


def _is_of_others(message: Any) -> bool:
    """Return whether a message, or a part of one such as ``AIMessageChunk``, is not the user's."""
    return _role(message).lower().removesuffix("messagechunk") in _OTHERS


def _text(content: Any) -> str:
    """Return a text, the texts among the parts of a message, or the second of a pair."""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, tuple) and len(content) == 2:
        return _text(content[1])
    parts = content if isinstance(content, list) else ()
    texts = (part if isinstance(part, str) else _value(part, "text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
