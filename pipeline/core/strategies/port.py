"""What a chunking strategy is: a pure function with a name, its options, and what it looks a passage up by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.records import Chunking, Parsed, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A number that an uploader may choose. ``default`` None: the installation's setting of that name."""

    minimum: float
    maximum: float
    default: float | None = None
    is_whole: bool = True
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A document in pieces. ``passages`` are indexed and embedded, ``parents`` are what some of them are part of."""

    passages: Sequence[Passage]
    parents: Sequence[Passage] = ()


def _own_text(passage: Passage) -> str:
    return passage.text


def _agreeable(_: Mapping[str, float]) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way of cutting.

    ``indexed``: the text a passage is found and embedded by; it must follow from the passage alone, because an edited
    chunk is indexed again without its document. ``conflict``: the name of an option that does not go with the others,
    and why, or None.
    """

    name: str
    meaning: str
    cut: Callable[[Parsed, Chunking], Cut]
    options: Mapping[str, Option] = field(default_factory=dict)
    indexed: Callable[[Passage], str] = _own_text
    conflict: Callable[[Mapping[str, float]], tuple[str, str] | None] = _agreeable


MAX_TOKENS = Option(minimum=16, maximum=8192, meaning="The most tokens of a chunk.")
OVERLAP = Option(
    minimum=0.0,
    maximum=0.5,
    is_whole=False,
    meaning="The share of a chunk that the next one repeats, where a long paragraph is cut.",
)


def numbered(passages: Sequence[Passage], *, parent: int | None = None, chunk_type: str | None = None) -> list[Passage]:
    """The passages with their places, counted from 0, in their parent or in the document."""
    return [
        replace(passage, index=index, parent=parent, chunk_type=chunk_type or passage.chunk_type)
        for index, passage in enumerate(passages)
    ]
