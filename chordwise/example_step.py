"""The step of an agent that fetches examples: from the variables an earlier step left, to the same with examples in them.

What the agent says does not depend on this step: whatever becomes of the query, the next one gets a list, maybe empty.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from chordwise.client import Chordwise
from chordwise.errors import ChordwiseError
from chordwise.prompting import EXAMPLE_CATEGORIES, retrieved_examples

EXAMPLE_NAMESPACES: Final = tuple(f"{category}_examples" for category in EXAMPLE_CATEGORIES)

log = logging.getLogger(__name__)


def question_of(prompt_vars: Mapping[str, Any] | None, user_message: str = "") -> str:
    """What is asked: ``query_text``, or the user's own words where it is empty, then the ``keywords`` with a space between
    each. Empty where nobody said anything."""
    known = prompt_vars or {}
    said = known.get("query_text")
    text = said.strip() if isinstance(said, str) else ""
    keywords = known.get("keywords")
    listed = keywords if isinstance(keywords, list | tuple) else ()
    words = (word.strip() for word in listed if isinstance(word, str))
    return " ".join(filter(None, (text or user_message.strip(), *words)))


def with_examples(
    client: Chordwise,
    prompt_vars: Mapping[str, Any] | None,
    *,
    user_message: str = "",
    namespaces: Iterable[str] = EXAMPLE_NAMESPACES,
    profile: str = "medical_examples",
) -> dict[str, Any]:
    """The variables with ``retrieved_examples`` beside them; see `chordwise.prompting.retrieved_examples`.

    Never raises for what a server, or the way to it, does: then there are no examples, and the log has the kind of error.
    """
    question = question_of(prompt_vars, user_message)
    found: list[dict[str, Any]] = []
    if question:
        try:
            found = retrieved_examples(client.query(question, namespaces=namespaces, profile=profile))
        except ChordwiseError as error:
            log.warning("examples_not_retrieved", extra={"error": type(error).__name__})
    return {**(prompt_vars or {}), "retrieved_examples": found}
