"""The type of a chunking strategy: a pure function with a name, its options, and the text by which a passage is found."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.chunking.cut import chunks, touched
from pipeline.errors import DocumentTooLarge
from pipeline.records import Chunking, Lead, Parsed, Passage


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


class PassageBudget:
    """The number of passages that a document may become, counted while it is cut; None for any number."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._taken = 0

    def taken_by(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages one by one. Raises DocumentTooLarge at the first one above the limit."""
        for passage in passages:
            self._taken += 1
            if self._most is not None and self._taken > self._most:
                raise DocumentTooLarge(
                    f"the document makes more than {self._most} chunks, the most that a document may have;"
                    " split it, or ask for larger chunks"
                )
            yield passage


def _own_text(passage: Passage) -> str:
    return passage.text


def _agreeable(_: Mapping[str, float]) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A chunking strategy. ``cut`` passes pieces through the allowance as it goes, to refuse too many early.
    ``indexed``: the text by which a passage is found and embedded, from the passage alone. ``conflict``: an option that
    conflicts with the others and why, or None."""

    name: str
    meaning: str
    cut: Callable[[Parsed, Chunking, PassageBudget], Cut]
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


def numbered(passages: Iterable[Passage], *, parent: int | None = None, chunk_type: str | None = None) -> list[Passage]:
    """Return the passages with their positions, counted from 0, in their parent or in the document."""
    return [
        replace(passage, index=index, parent=parent, chunk_type=chunk_type or passage.chunk_type)
        for index, passage in enumerate(passages)
    ]


def stretch(parsed: Parsed, start: int, end: int) -> Parsed:
    """Return ``parsed.text[start:end]`` with the sections and the leads that lie in it."""
    sections = tuple(
        replace(section, start=max(section.start, start) - start, end=min(section.end, end) - start)
        for section in touched(parsed.sections, start, end)
    )
    leads = tuple(
        Lead(start=lead.start - start, lead_end=lead.lead_end - start, end=min(lead.end, end) - start)
        for lead in parsed.leads
        if start <= lead.start and lead.lead_end < end
    )
    return Parsed(text=parsed.text[start:end], sections=sections, title=parsed.title, leads=leads)


def cut_stretch(parsed: Parsed, start: int, end: int, chunking: Chunking) -> Iterator[Passage]:
    """Yield the sentences of ``parsed.text[start:end]`` in passages, as `chunk` packs them."""
    plain = Chunking(max_tokens=chunking.max_tokens, overlap=chunking.overlap)
    for passage in chunks(stretch(parsed, start, end), plain):
        yield replace(passage, start=passage.start + start, end=passage.end + start)
