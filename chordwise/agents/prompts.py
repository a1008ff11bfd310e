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
    return [_example(hit) for hit in _hits(result) if _content(hit)]


def format_examples(examples: Iterable[Mapping[str, Any]] | None, *, empty: str = NO_EXAMPLES) -> str:
    """Return the examples numbered, with a blank line between them; ``empty`` if there are none."""
    contents = [str(each.get("content") or "").strip() for each in examples or () if isinstance(each, Mapping)]
    told = [f"示例{place}：\n{content}" for place, content in enumerate(filter(None, contents), start=1)]
    return "\n\n".join(told) or empty


def format_for_prompt(prompt_vars: Mapping[str, Any] | None, *, empty: str = NO_EXAMPLES) -> dict[str, str]:
    """Return the value of ``{retrieved_examples}`` in a prompt, from the variables of a retrieval step."""
    examples = (prompt_vars or {}).get("retrieved_examples")
    listed = examples if isinstance(examples, list | tuple) else ()
    return {"retrieved_examples": format_examples(listed, empty=empty)}


def format_markdown(result: Answered) -> str:
    """Return the hits as Markdown, each under a numbered heading with its origin; empty for none."""
    return "\n\n".join(_section(place, hit) for place, hit in enumerate(_hits(result), start=1))


def _hits(result: Answered) -> list[Mapping[str, Any]]:
    answer = result.raw if isinstance(result, QueryResult) else result
    chunks = answer.get("chunks") if isinstance(answer, Mapping) else None
    return [each for each in chunks if isinstance(each, Mapping)] if isinstance(chunks, list | tuple) else []


def _example(hit: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _metadata(hit)
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
    metadata = _metadata(hit)
    for asked, answered in _PAIRS:
        question, answer = metadata.get(asked), metadata.get(answered)
        if isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip():
            return f"用户：{question.strip()}\n助手：{answer.strip()}"
    text = hit.get("text")
    return text.strip() if isinstance(text, str) else ""


def _similarity(hit: Mapping[str, Any]) -> float:
    """Return the cosine similarity of the semantic channel, else the hit's confidence, else its score."""
    sources = hit.get("sources")
    semantic = [
        each.get("score")
        for each in (sources if isinstance(sources, list | tuple) else ())
        if isinstance(each, Mapping) and each.get("channel") == "semantic"
    ]
    for value in (*semantic, hit.get("confidence"), hit.get("score")):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return min(1.0, max(0.0, float(value)))
    return 0.0


def _metadata(hit: Mapping[str, Any]) -> Mapping[str, Any]:
    found = hit.get("metadata")
    return found if isinstance(found, Mapping) else {}


def _section(place: int, hit: Mapping[str, Any]) -> str:
    metadata = _metadata(hit)
    title = " ".join(str(hit.get("title") or hit.get("document_id") or "").split())
    origin = [f"`{hit.get('namespace', '')}/{hit.get('document_id', '')}`"]
    origin += _pages(metadata)
    origin += [str(metadata["source_uri"])] if metadata.get("source_uri") else []
    text = str(hit.get("text") or "").strip()
    return f"### {place}. {title}\n\n{text}\n\n> {' · '.join(origin)}"


def _pages(metadata: Mapping[str, Any]) -> list[str]:
    first, last = metadata.get("page"), metadata.get("page_end")
    if first is None:
        return []
    return [f"page {first}" if last in (None, first) else f"pages {first}-{last}"]
