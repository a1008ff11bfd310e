"""The step of an agent that fetches examples: from the variables an earlier step left, to the same with examples in them.

What the agent says does not depend on this step: whatever becomes of the query, the next one gets a list, maybe empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from chordwise.agents.asker import Asker
from chordwise.agents.prompts import EXAMPLE_CATEGORIES, retrieved_examples
from chordwise.api.queries import QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError, ProblemError

EXAMPLE_NAMESPACES: Final = tuple(f"{category}_examples" for category in EXAMPLE_CATEGORIES)
_MOST_NAMESPACES: Final = 32  # of one query
# The profile takes five of each namespace; a namespace with all sheets gives as many as the four tables do.
_OF_ALL_SHEETS: Final = {"channels": {"semantic": {"options": {"per_namespace": 5 * len(EXAMPLE_CATEGORIES)}}}}
EXAMPLE_PROFILE: Final = "medical_examples"
LONGEST_QUESTION: Final = 8_000  # characters; the server takes no more

log = logging.getLogger(__name__)


def question_of(prompt_vars: Mapping[str, Any] | None, user_message: str = "") -> str:
    """What is asked: ``query_text``, or the user's own words where it is empty, then the ``keywords`` with a space between
    each; cut where the server would refuse it for its length. Empty where nobody said anything."""
    known = prompt_vars if isinstance(prompt_vars, Mapping) else {}
    said = known.get("query_text")
    text = said.strip() if isinstance(said, str) else ""
    keywords = known.get("keywords")
    listed = keywords if isinstance(keywords, list | tuple) else ()
    words = (word.strip() for word in listed if isinstance(word, str))
    return " ".join(filter(None, (text or user_message.strip(), *words)))[:LONGEST_QUESTION]


def with_examples(
    client: Chordwise | Asker,
    prompt_vars: Mapping[str, Any] | None,
    *,
    user_message: str = "",
    namespaces: Iterable[str] | str = EXAMPLE_NAMESPACES,
    profile: str | None = EXAMPLE_PROFILE,
) -> dict[str, Any]:
    """The variables with ``retrieved_examples`` beside them; see `chordwise.prompting.retrieved_examples`.

    By default the four tables are asked, those that exist; if none of them exists, every namespace that holds examples.
    Never raises for what a server, or the way to it, does: then there are no examples, and the log has the kind of error.
    """
    question = question_of(prompt_vars, user_message)
    found: list[dict[str, Any]] = []
    if question:
        asker = client if isinstance(client, Asker) else Asker(client=client)
        try:
            found = retrieved_examples(_ask(asker, question, namespaces, profile))
        except ChordwiseError as error:
            _tell(error)
    return _beside(prompt_vars, found)


async def awith_examples(
    client: AsyncChordwise | Asker,
    prompt_vars: Mapping[str, Any] | None,
    *,
    user_message: str = "",
    namespaces: Iterable[str] | str = EXAMPLE_NAMESPACES,
    profile: str | None = EXAMPLE_PROFILE,
) -> dict[str, Any]:
    """`with_examples`, to be awaited."""
    question = question_of(prompt_vars, user_message)
    found: list[dict[str, Any]] = []
    if question:
        asker = client if isinstance(client, Asker) else Asker(async_client=client)
        try:
            found = retrieved_examples(await _aask(asker, question, namespaces, profile))
        except ChordwiseError as error:
            _tell(error)
    return _beside(prompt_vars, found)


def _ask(asker: Asker, question: str, namespaces: Iterable[str] | str, profile: str | None) -> QueryResult | None:
    try:
        return asker.ask(question, namespaces=namespaces, profile=profile)
    except ProblemError as error:
        if not _are_absent_tables(namespaces, error):
            raise
    found = asker.example_namespaces()[:_MOST_NAMESPACES]
    return asker.ask(question, namespaces=found, profile=profile, retrieve=_OF_ALL_SHEETS) if found else None


async def _aask(
    asker: Asker, question: str, namespaces: Iterable[str] | str, profile: str | None
) -> QueryResult | None:
    try:
        return await asker.aask(question, namespaces=namespaces, profile=profile)
    except ProblemError as error:
        if not _are_absent_tables(namespaces, error):
            raise
    found = (await asker.aexample_namespaces())[:_MOST_NAMESPACES]
    return await asker.aask(question, namespaces=found, profile=profile, retrieve=_OF_ALL_SHEETS) if found else None


def _are_absent_tables(namespaces: Iterable[str] | str, error: ProblemError) -> bool:
    """Return whether the four tables were asked and none of them exists: then all sheets may be in one namespace."""
    return (
        error.code == "namespace_not_found"
        and not isinstance(namespaces, str)
        and tuple(namespaces) == EXAMPLE_NAMESPACES
    )


def _beside(prompt_vars: Mapping[str, Any] | None, found: list[dict[str, Any]]) -> dict[str, Any]:
    return {**(prompt_vars if isinstance(prompt_vars, Mapping) else {}), "retrieved_examples": found}


def _tell(error: ChordwiseError) -> None:
    log.warning("examples_not_retrieved", extra={"error": type(error).__name__})
