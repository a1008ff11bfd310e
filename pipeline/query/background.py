"""The background of a query: earlier messages and the profile of its user, and keywords of both, found without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.query.keywords import distinct_words, keywords_of

_MESSAGES: Final = 8  # the last ones; a question rarely refers to older ones
_LONGEST_MESSAGE: Final = 1_000  # characters of a message, its beginning
_MOST_WORDS: Final = 8
_PROFILE_TOPICS: Final = ("role", "preferences", "interests")  # not the user's name, which is no topic
_SPEAKER: Final = re.compile(r"\A(?:user|human|assistant|ai|system|用户|用戶|助手|系统|系統) ?[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Messages before a query, oldest first, and the profile of its user, a JSON object."""

    conversation: tuple[str, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)


def background_of(conversation: Sequence[str] | None, profile: Mapping[str, Any] | None) -> Background | None:
    """Return the last messages, shortened, and the profile; None if both are empty."""
    messages = [message.strip()[:_LONGEST_MESSAGE] for message in conversation or () if message.strip()]
    if not messages and not profile:
        return None
    return Background(conversation=tuple(messages[-_MESSAGES:]), profile=profile or {})


def conversation_words(background: Background) -> tuple[str, ...]:
    """Return the keywords of the conversation, those of its newest message first, each once; at most eight."""
    newest_first = (_SPEAKER.sub("", message) for message in reversed(background.conversation))
    return distinct_words((word for message in newest_first for word in keywords_of(message)), most=_MOST_WORDS)


def profile_words(background: Background) -> tuple[str, ...]:
    """Return up to eight keywords of a profile's role, preferences and interests (strings or lists)."""
    topics = (background.profile.get(name) for name in _PROFILE_TOPICS)
    texts = (text for topic in topics for text in (topic if isinstance(topic, list) else [topic]))
    words = (word for text in texts if isinstance(text, str) for word in keywords_of(text[:_LONGEST_MESSAGE]))
    return distinct_words(words, most=_MOST_WORDS)
