"""Parse language models' replies about a query. A reply is data; no instruction in it is followed."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from pipeline.keyword.terms import query_terms
from pipeline.query.keywords import distinct_words
from pipeline.query.plan import Method, method_named

_LONGEST_REPLY: Final = 20_000  # characters
_LONGEST_SUB_QUERY: Final = 200
_LONGEST_REWRITTEN: Final = 1_000
_LONGEST_PASSAGE: Final = 2_000
_LONGEST_WORD: Final = 60
_MOST_WORDS: Final = 12
_NEARLY_THE_SAME: Final = 0.8  # shared terms among all terms of two texts
_MOST_ATTEMPTS: Final = 8  # places in a reply at which JSON may begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A rewritten query with its keywords and names; each may be missing."""

    expanded_query: str | None = None
    keywords: tuple[str, ...] = ()
    entity_mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The search method that a model chose."""

    method: Method | None
    rerank: bool = True


def read_sub_queries(reply: str, *, query_text: str, most: int) -> tuple[str, ...] | None:
    """Return up to ``most`` sub-queries in the model's order; None if the reply holds no list of texts.

    Accepts an array, an object around one, objects with a text each, or a plain list of lines. Omits texts without a
    word, and texts that have nearly the same terms as the query or an earlier one.
    """
    value = json_in(reply)
    texts = list(_texts(value)) if value is not None else _listed_lines(reply)
    if value is None and len(texts) < 2:
        return None
    if not texts and value != []:
        return None
    return distinct([_clean(text, _LONGEST_SUB_QUERY) for text in texts], query_text=query_text)[:most]


def distinct(texts: Iterable[str], *, query_text: str) -> tuple[str, ...]:
    """Return the texts whose terms differ enough from those of the query and of each other."""
    seen = [frozenset(query_terms(query_text))]
    different = []
    for text in texts:
        terms = frozenset(query_terms(text))
        if terms and not any(len(terms & other) >= _NEARLY_THE_SAME * len(terms | other) for other in seen):
            seen.append(terms)
            different.append(text)
    return tuple(different)


def read_rewrite(reply: str) -> Rewritten | None:
    """Return the rewritten query with keywords and entities; None if the reply holds none of them."""
    value = json_in(reply)
    if not isinstance(value, dict):
        return None
    expanded = next((value[name] for name in ("expanded_query", "query", "rewritten") if value.get(name)), None)
    rewritten = Rewritten(
        expanded_query=(_clean(expanded, _LONGEST_REWRITTEN) or None) if isinstance(expanded, str) else None,
        keywords=_words(value.get("keywords")),
        entity_mentions=_words(value.get("entity_mentions", value.get("entities"))),
    )
    return rewritten if rewritten != Rewritten() else None


def read_route(reply: str) -> Routed | None:
    """Return the route that a model chose; None if it named none that exists."""
    value = json_in(reply)
    if isinstance(value, str):
        value = {"route": value}
    if not isinstance(value, dict) or not isinstance(value.get("route"), str):
        return None
    route = method_named(value["route"].strip().casefold().replace("-", "_"))
    if route not in (*get_args(Method), *_NO_SEARCH):
        return None
    rerank = value.get("rerank")
    return Routed(method=None if route in _NO_SEARCH else route, rerank=rerank if isinstance(rerank, bool) else True)


def read_passage(reply: str) -> str | None:
    """Return the passage that a model wrote; None without JSON: plain prose is an apology, not a passage."""
    value = json_in(reply)
    if isinstance(value, dict):
        value = next((value[name] for name in ("passage", "text", "document", "answer") if value.get(name)), None)
    if not isinstance(value, str):
        return None
    passage = _clean(value, _LONGEST_PASSAGE)
    return passage if query_terms(passage) else None


def json_in(reply: str) -> Any:
    """Return the first array, object or JSON string in a reply; None without any. Thoughts before ``</think>``, code
    fences, prose and trailing commas are ignored; of a cut array the complete part counts."""
    text = reply[-_LONGEST_REPLY:].rpartition("</think>")[2].strip()
    value = _loaded(text)
    if isinstance(value, dict | list | str):
        return value
    text = _TRAILING_COMMA.sub(r"\1", text)
    starts = [match.start() for match in _OPENS.finditer(text)]
    for start in starts[:_MOST_ATTEMPTS]:
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if value or value == []:
            return value
    return _cut_off(text)


def _cut_off(text: str) -> list[str] | None:
    """Return the complete strings of an array that never ends."""
    start = text.find("[")
    if start < 0:
        return None
    strings = [_loaded(match) for match in _STRING.findall(text[start:])]
    return [string for string in strings if isinstance(string, str)] or None


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts of an array of strings or of objects with one each, or of an object around it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < 3:
        for item in value[:50]:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        texts = [value[name] for name in _TEXT_NAMES if isinstance(value.get(name), str)]
        lists = [item for item in value.values() if isinstance(item, list)]
        if texts:
            yield texts[0]
        elif lists:
            yield from _texts(lists[0], depth + 1)
        elif all(isinstance(key, str) and key.strip("q_").isdigit() for key in value):
            yield from (item for item in value.values() if isinstance(item, str))


def _listed_lines(reply: str) -> list[str]:
    lines = reply[-_LONGEST_REPLY:].rpartition("</think>")[2].splitlines()
    return [match[1].strip("\"'“” ") for line in lines[:100] if (match := _LIST_ITEM.match(line))]


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.split(r"[,，、;；\n]", value)
    if not isinstance(value, list):
        return ()
    cleaned = (_clean(item, _LONGEST_WORD + 1) for item in value[:50] if isinstance(item, str))
    words = (word for word in cleaned if len(word) <= _LONGEST_WORD and query_terms(word))
    return distinct_words(words, most=_MOST_WORDS)


def _clean(text: str, longest: int) -> str:
    """Return one line of well-formed text without control characters and labels of masked personal data."""
    text = text[: longest * 4].encode("utf-8", "ignore").decode()
    text = "".join(" " if unicodedata.category(character) in _UNSHOWN else character for character in text)
    return " ".join(_MASK.sub(" ", text).split())[:longest].strip()


_NO_SEARCH: Final = ("none", "skip")
_TEXT_NAMES: Final[Sequence[str]] = ("query", "text", "sub_query", "question", "q")
_UNSHOWN: Final = frozenset({"Cc", "Cf", "Zl", "Zp", "Co", "Cn"})
_MASK: Final = re.compile(r"\[(?:email|id-card|bank-card|phone)\]")
_OPENS: Final = re.compile(r"[\[{]")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.){1,2000}"')
_LIST_ITEM: Final = re.compile(r"\s{0,8}(?:[-*•]|\(?\d{1,2}[.)、）:：])\s{0,4}(\S.{0,400})$")
_TRAILING_COMMA: Final = re.compile(r",\s*([\]}])")
_DECODER: Final = json.JSONDecoder()
