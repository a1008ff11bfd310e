"""The step of an agent that adds examples to the prompt variables of an earlier step.

The agent must answer without this step too: if the query fails, the next step gets an empty list.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from chordwise.agents.asker import Asker
from chordwise.api.queries import QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, ProblemError
from chordwise.prompting import EXAMPLE_CATEGORIES, mapping, retrieved_examples

EXAMPLE_NAMESPACES: Final = tuple(f"{category}_examples" for category in EXAMPLE_CATEGORIES)
_MOST_NAMESPACES: Final = 32  # of one query
# The profile takes five hits of each namespace; a namespace with all sheets should give as many as the four tables.
_OF_ALL_SHEETS: Final = {"channels": {"semantic": {"options": {"per_namespace": 5 * len(EXAMPLE_CATEGORIES)}}}}
EXAMPLE_PROFILE: Final = "medical_examples"
LONGEST_QUESTION: Final = 8_000  # characters; the server takes no more

log = logging.getLogger(__name__)


def question_of(prompt_vars: Mapping[str, Any] | None, user_message: str = "") -> str:
    """Return the question: ``query_text``, or the user's message if it is empty, then the ``keywords``, separated by
    spaces and cut to the longest question that the server accepts. Empty if all of them are."""
    variables = mapping(prompt_vars)
    text, keywords = variables.get("query_text"), variables.get("keywords")
    text = text.strip() if isinstance(text, str) else ""
    words = (word.strip() for word in (keywords if isinstance(keywords, list | tuple) else ()) if isinstance(word, str))
    return " ".join(filter(None, (text or user_message.strip(), *words)))[:LONGEST_QUESTION]


def with_examples(
    client: Chordwise | Asker,
    prompt_vars: Mapping[str, Any] | None,
    *,
    user_message: str = "",
    namespaces: Iterable[str] | str = EXAMPLE_NAMESPACES,
    profile: str | None = EXAMPLE_PROFILE,
) -> dict[str, Any]:
    """Return the variables with ``retrieved_examples`` added; see `chordwise.prompting.retrieved_examples`.

    By default the existing ones of the four tables are searched; if none exists, every namespace that holds examples.
    Never raises ChordwiseError: the examples are then empty, and the log has the class of the error.
    """
    asker, answer = client if isinstance(client, Asker) else Asker(client=client), None
    try:
        answer = _ask(asker, question_of(prompt_vars, user_message), namespaces, profile)
    except ChordwiseError as error:
        _log_failure(error)
    return _add(prompt_vars, answer)


async def awith_examples(
    client: AsyncChordwise | Asker,
    prompt_vars: Mapping[str, Any] | None,
    *,
    user_message: str = "",
    namespaces: Iterable[str] | str = EXAMPLE_NAMESPACES,
    profile: str | None = EXAMPLE_PROFILE,
) -> dict[str, Any]:
    """Return the same as `with_examples`, asynchronously."""
    asker, answer = client if isinstance(client, Asker) else Asker(async_client=client), None
    try:
        answer = await _aask(asker, question_of(prompt_vars, user_message), namespaces, profile)
    except ChordwiseError as error:
        _log_failure(error)
    return _add(prompt_vars, answer)


def _ask(asker: Asker, question: str, namespaces: Iterable[str] | str, profile: str | None) -> QueryResult | None:
    if not question:
        return None
    try:
        return asker.ask(question, namespaces=namespaces, profile=profile)
    except ProblemError as error:
        if not _are_absent_tables(namespaces, error):
            raise
    existing = asker.example_namespaces()[:_MOST_NAMESPACES]
    return asker.ask(question, namespaces=existing, profile=profile, retrieve=_OF_ALL_SHEETS) if existing else None


async def _aask(
    asker: Asker, question: str, namespaces: Iterable[str] | str, profile: str | None
) -> QueryResult | None:
    if not question:
        return None
    try:
        return await asker.aask(question, namespaces=namespaces, profile=profile)
    except ProblemError as error:
        if not _are_absent_tables(namespaces, error):
            raise
    existing = (await asker.aexample_namespaces())[:_MOST_NAMESPACES]
    return (
        await asker.aask(question, namespaces=existing, profile=profile, retrieve=_OF_ALL_SHEETS) if existing else None
    )


def _are_absent_tables(namespaces: Iterable[str] | str, error: ProblemError) -> bool:
    """Return whether the four tables were searched and none exists; all sheets may then be in one namespace."""
    return (
        error.code == "namespace_not_found"
        and not isinstance(namespaces, str)
        and tuple(namespaces) == EXAMPLE_NAMESPACES
    )


def _add(prompt_vars: Mapping[str, Any] | None, answer: QueryResult | None) -> dict[str, Any]:
    return {**mapping(prompt_vars), "retrieved_examples": retrieved_examples(answer)}


def _log_failure(error: ChordwiseError) -> None:
    log.warning("examples_not_retrieved", extra={"error": type(error).__name__})
