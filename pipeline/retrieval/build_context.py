"""Build the text for a prompt: the returned hits with their parents, neighbours and entities."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chordwise.contract.answer import AnswerContext, Citation, Entity
from chordwise.contract.entity import EntityShape
from pipeline.answer.mask_answers import masked_texts, masked_value
from pipeline.chunking.strategies.question_answer import pair_of
from pipeline.chunking.tokens import count_tokens
from pipeline.database.unit_of_work import reading
from pipeline.documents.parent_store import Parents, whole_documents, windows
from pipeline.entities.entity import name_key
from pipeline.entities.entity_store import Entities
from pipeline.models.tokenizer import fewest_tokens
from pipeline.query.plan import ContextOptions
from pipeline.query.request import Query, copied
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.load_text import read_in_time


def build_context(arrived: Arrived, hits: Sequence[Hydrated], use: Resources) -> AnswerContext | None:
    """Return the context of an answer, None if the query asks for none. Parts that cannot be read are losses, and the
    context is built without them."""
    query, journal, started = arrived.query, arrived.journal, time.perf_counter()
    options = query.plan.context
    if options is None:
        return None
    more: dict[str, str] = {}
    states: list[dict[str, Any]] = []
    with journal.losing("context", "what is read with the hits could not be read"):
        more = widened(query, hits, options, use)
    if options.entities:
        with journal.losing("entities", "the states of the entities could not be read"):
            states = states_named(query, hits, use)
    if query.plan.privacy.mask_answers:
        kinds = query.plan.privacy.kinds
        more = masked_texts(more, kinds=kinds)
        states = [masked_value(state, kinds) for state in states]
    count, fewest = use.count_tokens, fewest_tokens(use.settings.context_tokenizer)
    context = answer_context(hits, options, widened=more, count=count, fewest=fewest, entities=states)
    journal.took("context", started)
    return context


def states_named(query: Query, passages: Sequence[Hydrated], use: Resources) -> list[dict[str, Any]]:
    """Return the states at the story time, or the last ones, of the entities that the passages name, in order of mention,
    each once. A shared name returns all its entities, by id. Raises Unavailable."""
    pairs = ((passage.namespace, name_key(name)) for passage in passages for name in passage.entity_names)
    named = [pair for pair in dict.fromkeys(pairs) if pair[1]][:_MOST_NAMES]
    if not named:
        return []

    def read() -> dict[tuple[str, str], list[EntityShape]]:
        with reading(use.mysql) as connection:
            return Entities(connection, query.tenant_id).named(named, as_of=query.filters.story_time)

    states = read_in_time(query, use, read)
    mentioned = (state for pair in named for state in sorted(states.get(pair, ()), key=lambda entity: entity.entity_id))
    return [
        {
            "id": state.entity_id,
            "name": state.name,
            "type": state.type,
            "state": state.state,
            "story_time": state.story_time,
            "namespace": state.namespace,
        }
        for state in {(state.namespace, state.entity_id): state for state in mentioned}.values()
    ]


def widened(query: Query, hits: Sequence[Hydrated], options: ContextOptions, use: Resources) -> dict[str, str]:
    """Return the widened text of each of these hits that has one.

    A child comes with its parent unless ``parents`` is false, a sentence with its window. ``window`` in a query
    replaces the document's window size, and gives chunks of every strategy a window. With ``whole_document``, the first
    hit of a document that is small enough comes with all of it. Raises Unavailable.
    """
    tenant_id = query.tenant_id
    parents = {} if options.parents is False else {hit.chunk_id: hit.parent_id for hit in hits if hit.parent_id}
    sizes = {
        ChunkId(hit.chunk_id): hit.window if options.window is None else options.window
        for hit in hits
        if hit.chunk_id not in parents
    }
    if not parents and not any(sizes.values()) and not options.whole_document:
        return {}
    firsts = {(hit.namespace, hit.document_id): ChunkId(hit.chunk_id) for hit in reversed(hits)}

    def read() -> tuple[dict[ChunkId, str], dict[ChunkId, str], dict[ChunkId, str]]:
        with reading(use.mysql) as connection:
            wholes = (
                whole_documents(connection, tenant_id, list(firsts.values()), most_tokens=options.max_tokens // 2)
                if options.whole_document
                else {}
            )
            texts = Parents(connection, tenant_id).texts([ChunkId(parent) for parent in set(parents.values())])
            return wholes, texts, windows(connection, tenant_id, sizes)

    wholes, texts, around = read_in_time(query, use, read)
    texts_by_hit: dict[str, str] = {str(chunk_id): text for chunk_id, text in around.items()}
    texts_by_hit |= {child: texts[ChunkId(parent)] for child, parent in parents.items() if ChunkId(parent) in texts}
    return texts_by_hit | {str(chunk_id): text for chunk_id, text in wholes.items()}


_MOST_NAMES = 1000  # of entities, in one answer
_RULE = "\n\n---\n\n"
_SEAM = 4  # tokens that a joint may cost less than its sides, counted apart
_SEPARATORS: dict[str, str] = {"markdown": _RULE, "text": "\n\n"}
_HEADERS: dict[str, str] = {"markdown": "### ", "text": ""}

# A chapter with a name of its own, instead of its number or short name.
_NAMED_CHAPTER = re.compile(r"第|[章回卷部节篇]|\s")

# Names under which metadata may hold a question and its answer: of the example library, then of curated pairs.
_PAIR_KEYS = (("user_input", "agent_response"), ("question", "answer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPassage:
    """A hit offered for the context. ``text`` may include its surroundings; ``own_text`` is the hit alone, read instead
    where ``text`` does not fit."""

    hit: Hydrated
    text: str
    own_text: str | None = None


def join_passages(
    passages: Iterable[ContextPassage],
    options: ContextOptions,
    *,
    count: Callable[[str], int] = count_tokens,
    fewest: Callable[[str], int] = lambda _: 0,
) -> AnswerContext:
    """Join the passages in the order given, each under its header; never above ``max_tokens`` as ``count`` counts them.
    ``fewest``: a fast lower bound of a text's tokens.

    ========  ====================================================  =====================================
    header    above a passage                                       between passages
    ========  ====================================================  =====================================
    title     ``### [1] title > heading > heading``, a blank line   ``---`` in markdown, else a blank line
    story     ``[来源：第X章，故事时间：T]``, without unknown parts      ``---``
    none      nothing                                               as under title
    ========  ====================================================  =====================================

    Passages are taken whole. One that does not fit is read without its surroundings; if that does not fit either, it is
    omitted, and ``over_budget`` decides whether later, smaller ones may still be taken (``skip``) or not (``stop``).
    Markers number the taken passages from 1; only ``title`` shows them. Passages without text, and those whose text an
    earlier one of their document contains, are omitted. If none fits, the context is empty.
    """
    max_tokens, header = options.max_tokens, options.header
    separator = _RULE if header == "story" else _SEPARATORS[options.format]
    separator_tokens = count(separator)
    taken: list[tuple[ContextPassage, str]] = []
    pieces: list[str] = []
    total = 0
    for passage in passages:
        if _is_contained(passage, taken):
            continue
        texts = (text.strip() for text in (passage.text, passage.own_text or ""))
        for text in dict.fromkeys(filter(None, texts)):  # the longest first
            above = _header(passage.hit, options, len(taken) + 1)
            piece = above + text
            if total + fewest(piece) > max_tokens + _SEAM * len(pieces):
                continue
            together = total + count(piece) + (separator_tokens if pieces else 0)
            if max_tokens < together <= max_tokens + _SEAM * len(pieces):
                together = count(separator.join([*pieces, piece]))
            if together <= max_tokens:
                taken.append((passage, text))
                pieces.append(piece)
                total = together
                break
        else:
            if options.over_budget == "stop" and passage.text.strip():
                break
    text, total = _joined(pieces, separator, max_tokens, count)
    citations = tuple(
        _citation(passage.hit, number) for number, (passage, _) in enumerate(taken[: len(pieces)], start=1)
    )
    return AnswerContext(text=text, token_count=total, citations=citations, entities=())


def _is_contained(passage: ContextPassage, taken: Iterable[tuple[ContextPassage, str]]) -> bool:
    """Return whether an earlier passage of the same document contains this one's own text."""
    hit, own_text = passage.hit, (passage.own_text or passage.text).strip()
    return any(
        (before.hit.namespace, before.hit.document_id) == (hit.namespace, hit.document_id)
        and before.hit.chunk_id != hit.chunk_id
        and own_text in text
        for before, text in taken
        if before.hit.document_id
    )


def _joined(pieces: list[str], separator: str, max_tokens: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Join the pieces, without the last ones until the text fits: a seam may count differently from its sides."""
    while pieces:
        text = separator.join(pieces)
        total = count(text)
        if total <= max_tokens:
            return text, total
        pieces.pop()
    return "", 0


def _citation(hit: Hydrated, number: int) -> Citation:
    return copied(
        Citation,
        hit,
        marker=f"[{number}]",
        page_start=hit.page,
        page_end=hit.page if hit.page_end is None else hit.page_end,
        edited=hit.reworded,
    )


def _header(hit: Hydrated, options: ContextOptions, number: int) -> str:
    """Return the header of a passage with its line ends. A heading that repeats the title is omitted."""
    if options.header == "none":
        return ""
    if options.header == "story":
        line = story_line(hit.chapter_id, hit.story_time, title=hit.title)
        return f"{line}\n" if line else ""
    title, *headings = (" ".join((part or "").split()) for part in (hit.title, *hit.heading_path))
    headline = " > ".join(filter(None, (title, *(heading for heading in headings if heading != title))))
    return f"{_HEADERS[options.format]}[{number}]{' ' if headline else ''}{headline}\n\n"


def story_line(chapter: str | None, story_time: int | None, *, title: str | None = None) -> str:
    """Return ``[来源：第X章，故事时间：T]`` without unknown parts, empty if all are unknown. The title stands in for a missing
    chapter. A chapter with a name of its own, such as ``第三章 风起`` or ``Chapter 3``, keeps it."""
    chapter_name = " ".join((chapter or title or "").split())
    if chapter and chapter_name and not _NAMED_CHAPTER.search(chapter_name):
        chapter_name = f"第{chapter_name}章"
    time = "" if story_time is None else f"故事时间：{story_time}"
    if not chapter_name and not time:
        return ""
    return f"[来源：{'，'.join(part for part in (chapter_name, time) if part)}]"


def dialogue(question: str, answer: str) -> str:
    """Return ``用户：…``, a line end, ``助手：…``."""
    return f"用户：{question}\n助手：{answer}"


def dialogue_of(text: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the question-answer pair in a chunk's metadata or text as a dialogue; None if it holds none."""
    for question_key, answer_key in _PAIR_KEYS:
        question, answer = metadata.get(question_key), metadata.get(answer_key)
        if isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip():
            return dialogue(question.strip(), answer.strip())
    pair = pair_of(text)
    return dialogue(*pair) if pair and all(pair) else None


def answer_context(
    hits: Sequence[Hydrated],
    options: ContextOptions,
    *,
    widened: Mapping[str, str] | None = None,
    count: Callable[[str], int] = count_tokens,
    fewest: Callable[[str], int] = lambda _: 0,
    entities: Sequence[Mapping[str, Any]] = (),
) -> AnswerContext:
    """Return an answer's passages as a prompt. A ``widened`` hit is read with its surroundings unless they take over
    half the budget. As a ``dialogue`` a question-answer pair is read alone, and other text stays plain."""
    more = {name: text for name, text in (widened or {}).items() if 2 * count(text) <= options.max_tokens}
    passages = (_passage(hit, options, more.get(hit.chunk_id)) for hit in hits)
    context = join_passages(passages, options, count=count, fewest=fewest)
    return replace(context, entities=tuple(Entity(**state) for state in entities))


def _passage(hit: Hydrated, options: ContextOptions, more: str | None) -> ContextPassage:
    pair = _dialogue(hit, more) if options.passages == "dialogue" else None
    text, own_text = (pair, None) if pair else (more, hit.text) if more else (hit.text, None)
    return ContextPassage(hit=hit, text=text, own_text=own_text)


def _dialogue(hit: Hydrated, more: str | None) -> str | None:
    """Return the pair of a chunk, or of the parent that a part of a long pair is read with."""
    is_pair = hit.chunk_type in (None, "qa")  # None: a channel brought it, and knows no types
    pair = dialogue_of(hit.text if is_pair else "", hit.metadata)
    return pair or (dialogue_of(more, {}) if more and hit.chunk_type == "qa" else None)
