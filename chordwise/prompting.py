"""Format an answer for a prompt: examples, dialogues, Markdown. Pure functions that tolerate missing fields.

They take a `QueryResult`, the JSON of an answer, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.api.queries import QueryResult

NO_EXAMPLES = "（没有检索到相关示例，请按通用规则回答。）"

EXAMPLE_CATEGORIES = ("qa", "record", "query", "greeting")

_PAIRS = (("user_input", "agent_response"), ("question", "answer"))

Answered = QueryResult | Mapping[str, Any] | None


def retrieved_examples(result: Answered) -> list[dict[str, Any]]:
    """Return the hits as examples, best first: ``content`` (``用户：…``, a line end, ``助手：…`` for such a pair, else its
    text), ``similarity`` from 0 to 1, ``source`` (``qa_examples``, ``record_examples`` … for examples of the library, else the
    type of the document or its namespace) and ``metadata``. Hits without text are left out; the list may be empty."""
    return [_example(hit) for hit in hits_of(result) if _content(hit)]


def format_examples(examples: Iterable[Mapping[str, Any]] | None, *, empty: str = NO_EXAMPLES) -> str:
    """Return the examples numbered, with a blank line between them; ``empty`` if there are none."""
    contents = (str(entry.get("content") or "").strip() for entry in examples or () if isinstance(entry, Mapping))
    numbered = (f"示例{number}：\n{content}" for number, content in enumerate(filter(None, contents), start=1))
    return "\n\n".join(numbered) or empty


def format_for_prompt(prompt_vars: Mapping[str, Any] | None, *, empty: str = NO_EXAMPLES) -> dict[str, str]:
    """Return the value of ``{retrieved_examples}`` in a prompt, from the variables of a retrieval step."""
    examples = (prompt_vars or {}).get("retrieved_examples")
    listed = examples if isinstance(examples, list | tuple) else ()
    return {"retrieved_examples": format_examples(listed, empty=empty)}


def format_markdown(result: Answered) -> str:
    """Return the hits as Markdown, each under a numbered heading with its origin; empty for none."""
    return "\n\n".join(_section(rank, hit) for rank, hit in enumerate(hits_of(result), start=1))


def answer_of(result: Answered) -> Mapping[str, Any]:
    """Return the JSON of an answer; empty for anything else."""
    return result.raw if isinstance(result, QueryResult) else mapping(result)


def hits_of(result: Answered) -> list[Mapping[str, Any]]:
    """Return the well-formed chunks of an answer, best first."""
    chunks = answer_of(result).get("chunks")
    return [chunk for chunk in chunks if isinstance(chunk, Mapping)] if isinstance(chunks, list | tuple) else []


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _example(hit: Mapping[str, Any]) -> dict[str, Any]:
    metadata = mapping(hit.get("metadata"))
    return {
        "content": _content(hit),
        "similarity": _similarity(hit),
        "source": _source(hit, metadata),
        "metadata": dict(metadata),
    }


def _source(hit: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return the table of an example's category, whatever its namespace, else the document's type or namespace."""
    kind = str(metadata.get("type") or "")
    if kind in EXAMPLE_CATEGORIES and metadata.get("user_input"):
        return f"{kind}_examples"
    return kind or str(hit.get("namespace") or "")


def _content(hit: Mapping[str, Any]) -> str:
    metadata = mapping(hit.get("metadata"))
    for question_name, answer_name in _PAIRS:
        question, answer = metadata.get(question_name), metadata.get(answer_name)
        if isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip():
            return f"用户：{question.strip()}\n助手：{answer.strip()}"
    text = hit.get("text")
    return text.strip() if isinstance(text, str) else ""


def _similarity(hit: Mapping[str, Any]) -> float:
    """Return the cosine similarity of the semantic channel, else the hit's confidence, else its score."""
    sources = hit.get("sources")
    semantic = [
        source.get("score")
        for source in (sources if isinstance(sources, list | tuple) else ())
        if isinstance(source, Mapping) and source.get("channel") == "semantic"
    ]
    for value in (*semantic, hit.get("confidence"), hit.get("score")):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return min(1.0, max(0.0, float(value)))
    return 0.0


def _section(rank: int, hit: Mapping[str, Any]) -> str:
    metadata = mapping(hit.get("metadata"))
    title = " ".join(str(hit.get("title") or hit.get("document_id") or "").split())
    origin = [f"`{hit.get('namespace', '')}/{hit.get('document_id', '')}`"]
    origin += _pages(metadata)
    origin += [str(metadata["source_uri"])] if metadata.get("source_uri") else []
    text = str(hit.get("text") or "").strip()
    return f"### {rank}. {title}\n\n{text}\n\n> {' · '.join(origin)}"


def _pages(metadata: Mapping[str, Any]) -> list[str]:
    first, last = metadata.get("page"), metadata.get("page_end")
    if first is None:
        return []
    return [f"page {first}" if last in (None, first) else f"pages {first}-{last}"]
