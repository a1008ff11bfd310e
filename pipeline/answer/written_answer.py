"""An answer in words, which a language model writes from the passages of a query and whose citations are checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pipeline.query.model_replies import json_in
from pipeline.query.request import Degradation

_MARKER: Final = re.compile(r"[\[【［]\s{0,2}(\d{1,3}(?:\s{0,2}[,，、;；]\s{0,2}\d{1,3}){0,20})\s{0,2}[\]】］]")
_NUMBER: Final = re.compile(r"\d{1,3}")
_SPACE_BEFORE_STOP: Final = re.compile(r"[ \t]{1,4}(?=[.,;:!?。，；：！？])")
_LONGEST_ANSWER: Final = 8_000  # characters
_BEGUN_ANSWER: Final = re.compile(r'"answer"\s{0,9}:\s{0,9}"((?:[^"\\]|\\[^u]|\\u[0-9a-fA-F]{4})*)')
_HALF_CHARACTER: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_PROSE: Final = re.compile(r"[^\s{\[`<]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCitation:
    """A passage that the text cites, at each place of ``marker``."""

    marker: str
    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """The answer to a query in words. ``found``: whether the passages hold an answer; None without a text.
    ``dropped_markers``: cited by the model though no passage has them, and removed from the text. ``failed``: there is no
    text, and ``degradations`` names the reason."""

    query_id: str
    status: Literal["succeeded", "failed"]
    found: bool | None
    text: str | None
    citations: tuple[WrittenCitation, ...] = ()
    dropped_markers: tuple[str, ...] = ()
    model: str
    latency_ms: float
    degraded: bool = False
    degradations: tuple[Degradation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReply:
    """A model's reply. ``cited``: its valid markers in order of first mention; ``dropped``: those that name no passage."""

    found: bool
    text: str
    cited: tuple[str, ...]
    dropped: tuple[str, ...]


def numbered_passages(answer: Mapping[str, Any], *, has_markers: bool) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Return the passages of an answer as one text, each under its marker, and the citations by marker.

    The text is the answer's context if that ``has_markers`` (with the header ``title``), else its hits. Empty for an
    answer without hits.
    """
    chunks = {chunk["chunk_id"]: chunk for chunk in answer["chunks"]}
    context = answer["context"]
    citations = {citation["marker"]: citation for citation in context["citations"]}
    if citations and has_markers:
        return context["text"], citations
    citations = citations or {f"[{place}]": chunk for place, chunk in enumerate(answer["chunks"], start=1)}
    passages = (
        f"{marker} {citation['title'] or ''}\n\n{chunks[citation['chunk_id']]['text']}"
        for marker, citation in citations.items()
    )
    return "\n\n---\n\n".join(passages), citations


def text_so_far(reply: str) -> str:
    """Return the text in the beginning of a reply, with its citations unchecked; empty before it begins."""
    reply = reply.rpartition("</think>")[2].lstrip()
    if match := _BEGUN_ANSWER.search(reply):
        try:
            text = str(json.loads(f'"{_HALF_CHARACTER.sub("", match[1])}"', strict=False))
        except ValueError:
            return ""
    else:
        text = reply if _PROSE.match(reply) else ""
    return text[:_LONGEST_ANSWER].encode("utf-8", "ignore").decode()


def read_reply(reply: str, markers: Sequence[str]) -> WrittenReply | None:
    """Return the text of a reply with its citations checked against ``markers``; None if the reply holds no text.

    Accepts prose without JSON if it cites a passage. Markers are normalised to ``[1][3]``; those of no passage are
    removed.
    """
    value = json_in(reply)
    found, text = True, value.get("answer") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(value.get("found"), bool):
        found = value["found"]
    if text is None and not isinstance(value, dict):
        text = reply.rpartition("</think>")[2]
    if not isinstance(text, str) or not text.strip():
        return None
    cited: dict[str, None] = {}
    dropped: dict[str, None] = {}

    def checked(match: re.Match[str]) -> str:
        named = [f"[{int(number)}]" for number in _NUMBER.findall(match[1])]
        for marker in named:
            (cited if marker in markers else dropped)[marker] = None
        return "".join(marker for marker in named if marker in markers)

    clean = text[:_LONGEST_ANSWER].encode("utf-8", "ignore").decode().strip()
    clean = _SPACE_BEFORE_STOP.sub("", _MARKER.sub(checked, clean)) if _MARKER.search(clean) else clean
    if not isinstance(value, dict) and not cited:
        return None  # prose without a citation is an apology, or an answer from elsewhere
    return WrittenReply(found=found, text=clean.strip(), cited=tuple(cited), dropped=tuple(dropped))
