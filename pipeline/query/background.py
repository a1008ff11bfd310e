"""The background of a query: earlier messages and the profile of its user, and keywords of both, found without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.query.keywords import keywords_of

_MESSAGES: Final = 8  # the last ones; a question rarely refers to older ones
_LONGEST_MESSAGE: Final = 1_000  # characters of a message, its beginning
_MOST_WORDS: Final = 8
_SPOKEN_OF: Final = ("role", "preferences", "interests")  # not the user's name, which is no topic
_SPEAKER: Final = re.compile("(?:user|human|assistant|ai|system|用户|用戶|助手|系统|系統) ?[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Messages before a query, oldest first, and the profile of its user, a JSON object."""

    conversation: tuple[str, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)


def background_of(conversation: Sequence[str] | None, profile: Mapping[str, Any] | None) -> Background | None:
    """Return the last messages, shortened, and the profile; None if both are empty."""
    spoken = [message.strip()[:_LONGEST_MESSAGE] for message in conversation or () if message.strip()]
    if not spoken and not profile:
        return None
    return Background(conversation=tuple(spoken[-_MESSAGES:]), profile=profile or {})


def conversation_words(background: Background) -> tuple[str, ...]:
    """Return the keywords of the conversation, those of its newest message first, each once; at most eight."""
    newest_first = map(_without_speaker, reversed(background.conversation))
    return _distinct(word for message in newest_first for word in keywords_of(message))


def profile_words(background: Background) -> tuple[str, ...]:
    """Return up to eight keywords of a profile's role, preferences and interests (strings or lists); the rest is not
    searched."""
    named = (text for name in _SPOKEN_OF for text in _strings(background.profile.get(name)))
    return _distinct(word for text in named for word in keywords_of(text[:_LONGEST_MESSAGE]))


def _without_speaker(message: str) -> str:
    speaker = _SPEAKER.match(message)
    return message[speaker.end() :] if speaker else message


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for word in words:
        kept.setdefault(word.casefold(), word)
        if len(kept) == _MOST_WORDS:
            break
    return tuple(kept.values())
