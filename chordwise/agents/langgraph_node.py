"""The retrieval node of a LangGraph agent: ``pip install 'chordwise[langgraph]'``.

from chordwise.langgraph import retrieval_node

graph.add_node("retrieval_node", retrieval_node)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.agents.asker import Asker, listed
from chordwise.agents.example_prompts import EXAMPLE_NAMESPACES, EXAMPLE_PROFILE, awith_examples, with_examples
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.extras import missing

try:
    from langchain_core.runnables import Runnable, RunnableConfig
except ModuleNotFoundError as error:
    raise missing("langgraph", error) from error

_HISTORIES = ("history_messages", "messages")
_OTHERS = frozenset({"ai", "assistant", "system", "developer", "tool", "function"})


class RetrievalNode(Runnable[Any, dict[str, Any]]):
    """Reads ``prompt_vars`` of a state (``query_text``, ``keywords``) and writes ``retrieved_examples`` beside them.

    Where ``query_text`` is empty, the last message of the user in ``history_messages`` or ``messages`` is asked. In a
    graph it hands back ``prompt_vars`` alone, so that what other keys add up is not added twice; called as a function,
    ``node(state)``, it gives the whole state, and changes nothing of the one it was given. A state may be a mapping, or an
    object with these attributes; whatever is missing, and whatever the server does, it never raises, and there are no
    examples then.
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
        """The state with the examples in it."""
        return {**(state if isinstance(state, Mapping) else {}), **self.invoke(state)}

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """What changes of the state."""
        prompt_vars, said = _prompt_vars(input), last_words(input)
        found = with_examples(
            self._asker, prompt_vars, user_message=said, namespaces=self._namespaces, profile=self._profile
        )
        return {"prompt_vars": found}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> dict[str, Any]:
        """The same, to be awaited."""
        prompt_vars, said = _prompt_vars(input), last_words(input)
        found = await awith_examples(
            self._asker, prompt_vars, user_message=said, namespaces=self._namespaces, profile=self._profile
        )
        return {"prompt_vars": found}

    def close(self) -> None:
        """Close the connections that the node made for itself."""
        self._asker.close()

    async def aclose(self) -> None:
        """The same, with those of this event loop."""
        await self._asker.aclose()


retrieval_node = RetrievalNode()


def last_words(state: Any) -> str:
    """What the user said last in ``history_messages``, or in ``messages``; empty if nobody said anything."""
    for name in _HISTORIES:
        messages = _value(state, name)
        for message in reversed(messages if isinstance(messages, list | tuple) else ()):
            if not _is_of_others(message) and (text := _text(_value(message, "content")) or _text(message)):
                return text
    return ""


def _prompt_vars(state: Any) -> Mapping[str, Any]:
    found = _value(state, "prompt_vars")
    return found if isinstance(found, Mapping) else {}


def _value(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _role(message: Any) -> str:
    """LangChain's messages have a ``type``, those of model services a ``role``; a pair begins with it."""
    if isinstance(message, tuple) and len(message) == 2:
        return str(message[0])
    return str(_value(message, "role") or _value(message, "type") or "")


def _is_of_others(message: Any) -> bool:
    """A part of a message that is still coming in, as ``AIMessageChunk``, is of whoever the message is of."""
    return _role(message).lower().removesuffix("messagechunk") in _OTHERS


def _text(content: Any) -> str:
    """Text as it is, or the text among the parts of a message; a pair ends with it."""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, tuple) and len(content) == 2:
        return _text(content[1])
    parts = content if isinstance(content, list) else ()
    texts = (part if isinstance(part, str) else _value(part, "text") for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
